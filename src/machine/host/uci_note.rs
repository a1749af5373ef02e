//! Note on flash of what we staged in uci: where somebody else commits it and the machine starts anew,
//! nothing else knows how it was before.
//!
//! ```text
//!   packet_steering <TAB> 1 <TAB> 0 <TAB> BOOT      option, committed before, ours, the boot of then
//! ```

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::HostRead;

/// The file.
pub(super) const NOTE: &str = "/etc/linerate/staged";

/// A value of ours that lay over a committed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    /// Name of the option.
    pub(super) option: String,
    /// Value that was committed before; `None` where there was none.
    pub(super) former: Option<String>,
    /// Value that we staged.
    pub(super) ours: Option<String>,
    /// Boot in which that was.
    pub(super) boot: String,
}

/// A value as text.
pub(super) fn told(value: Option<&str>) -> &str {
    value.unwrap_or("unset")
}

/// The value that a text means.
pub(super) fn meant(text: &str) -> Option<&str> {
    (text != "unset").then_some(text)
}

/// All notes; what is no note is left out.
pub(super) fn all(host: &dyn HostRead) -> Vec<Note> {
    let text = host.text(Path::new(NOTE)).unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Note> {
    let mut words = line.split('\t');
    let mut next = || words.next();
    let (option, former, ours, boot) = (next()?, next()?, next()?, next()?);
    let value = |text| meant(text).map(str::to_owned);
    Some(Note {
        option: option.to_owned(),
        former: value(former),
        ours: value(ours),
        boot: boot.to_owned(),
    })
}

/// Makes these the notes; without any, no file of ours is left.
#[expect(clippy::disallowed_methods, reason = "the door to the system")]
pub(super) fn put(notes: &[Note]) -> Result<(), Errno> {
    let file = PathBuf::from(NOTE);
    let directory = file.parent().unwrap_or(&file);
    let line = |n: &Note| {
        let (former, ours) = (told(n.former.as_deref()), told(n.ours.as_deref()));
        format!("{}\t{former}\t{ours}\t{}\n", n.option, n.boot)
    };
    let text: String = notes.iter().map(line).collect();
    let done = if notes.is_empty() {
        let removed = match std::fs::remove_file(&file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        // Refused where a plan is persisted.
        drop(std::fs::remove_dir(directory));
        removed
    } else {
        std::fs::create_dir_all(directory)
            .and_then(|()| super::uci::replace(&file, text.as_bytes()))
    };
    done.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_cut_is_none() {
        let whole = "packet_steering\t1\tunset\tb0";
        let note = parse(whole).unwrap();
        assert_eq!((note.former.as_deref(), note.ours.as_deref()), (Some("1"), None));
        for cut in ["", "packet_steering", "packet_steering\t1", "packet_steering\t1\t0"] {
            assert_eq!(parse(cut), None, "{cut:?}");
        }
    }
}
