//! One setting written and read back, and a list of them restored.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::failure::{Class, classify};
use super::knob::{read_text, same_text};
use super::undo::{Left, Restore, Undo};
use crate::machine::host::{HostError, HostWrite, clock};
use crate::model::knob::Knob;

/// Waits between tries when the kernel says "later": an x86 vector move, say, has to wait for the
/// line's next interrupt (arch/x86/kernel/apic/vector.c).
const WAITS_MS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Reason why a setting is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The write was refused.
    Write(Class, HostError),
    /// The setting can't be read back.
    Read(HostError),
    /// The setting reads back as something else.
    Differs(String),
}

impl Trouble {
    pub(super) fn class(&self) -> Option<Class> {
        match self {
            Self::Write(class, _) => Some(*class),
            Self::Read(_) | Self::Differs(_) => None,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(class, error) => write!(f, "{} ({})", class.sentence(), error.reason()),
            Self::Read(error) => write!(f, "failed: it can't be read back ({})", error.reason()),
            Self::Differs(actual) => {
                write!(f, "failed: the kernel took it and still reads {actual:?}")
            }
        }
    }
}

/// Writes `text` and reads it back, compared by meaning.
pub(super) fn set(
    host: &dyn HostWrite,
    knob: &Knob,
    path: &Path,
    text: &str,
) -> Result<(), Trouble> {
    let mut waits = WAITS_MS.iter();
    loop {
        match host.write(path, text.as_bytes()) {
            Ok(()) => break,
            Err(error) => match (classify(knob, &error), waits.next()) {
                (Class::Transient, Some(ms)) => clock::sleep(Duration::from_millis(*ms)),
                (class, _) => return Err(Trouble::Write(class, error)),
            },
        }
    }
    let actual = read_text(host, path).map_err(Trouble::Read)?;
    if same_text(knob, text, &actual) { Ok(()) } else { Err(Trouble::Differs(actual)) }
}

/// Writes everything back, and says what could not be.
pub(super) fn restore(host: &dyn HostWrite, plan: Undo) -> (Vec<Restore>, Vec<Left>) {
    let Undo { restore, foreign, stuck, gone: _ } = plan;
    let mut todo = restore;
    let (mut done, mut left) = (Vec::new(), Vec::new());
    // Twice: what had no room (ENOSPC in a vector table) may have it once the others are back.
    for _ in 0..2 {
        left.clear();
        for one in std::mem::take(&mut todo) {
            match put_back(host, &one) {
                Ok(()) => done.push(one),
                Err(trouble) => {
                    left.push(Left {
                        knob: one.knob.clone(),
                        path: one.path.clone(),
                        wanted: one.to.clone(),
                        actual: read_text(host, &one.path).ok(),
                        why: trouble.to_string(),
                    });
                    todo.push(one);
                }
            }
        }
    }
    left.extend(foreign);
    left.extend(stuck);
    (done, left)
}

fn put_back(host: &dyn HostWrite, one: &Restore) -> Result<(), Trouble> {
    match set(host, &one.knob, &one.path, &one.to) {
        // An error may surface after the value took (at close); what counts is what is there.
        Err(trouble) => match read_text(host, &one.path) {
            Ok(actual) if same_text(&one.knob, &one.to, &actual) => Ok(()),
            _ => Err(trouble),
        },
        Ok(()) => Ok(()),
    }
}

/// The list that goes with exit code 8: by path and value, as they would be typed.
pub(super) fn listed<'a>(left: impl IntoIterator<Item = &'a Left>) -> String {
    let line = |l: &Left| {
        let actual = l.actual.as_deref().unwrap_or("unknown");
        format!("\n  {}: wanted {}, is {actual} ({})", l.path.display(), l.wanted, l.why)
    };
    left.into_iter().map(line).collect()
}
