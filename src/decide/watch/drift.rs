//! Settings that somebody changed: told once, put back where the owner wishes it, and given up where
//! somebody changes them again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Outcome;
use crate::model::knob::Knob;
use crate::model::watch::{Event, Phase, Policy, Settings};

/// Times that a setting is put back ...
const TIMES: usize = 3;
/// ... within so long, before it is given up.
const WITHIN: Duration = Duration::from_secs(3600);
/// Looks in a row that make a difference certain: linerate itself changes several settings in turn.
const LOOKS: u32 = 2;

/// A setting that is not as linerate left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Setting.
    pub knob: Knob,
    /// Value that linerate left.
    pub wanted: String,
    /// Value that is there; `None` where it can't be read.
    pub is: Option<String>,
    /// Programs on this router that set such settings.
    pub suspects: Vec<String>,
}

impl Changed {
    fn words(&self) -> String {
        let is = self.is.as_deref().unwrap_or("unreadable");
        format!("{} was left as {} and is {is}{}", self.knob, self.wanted, self.by())
    }

    fn by(&self) -> String {
        match self.suspects.as_slice() {
            [] => "; who changed it is not known".to_owned(),
            suspects => format!("; perhaps by {}", suspects.join(", ")),
        }
    }
}

/// History of a setting.
#[derive(Debug, Default)]
struct History {
    /// Looks in a row in which it differed.
    row: u32,
    /// The difference was told, and stands.
    told: bool,
    /// Times at which it was put back.
    put_back: Vec<Duration>,
    /// Put back too often, and left from then on.
    given_up: bool,
}

/// Settings that are watched.
#[derive(Debug, Default)]
pub struct Drift {
    known: BTreeMap<Knob, History>,
}

impl Drift {
    pub(super) fn take(
        &mut self,
        at: Duration,
        changed: Vec<Changed>,
        settings: &Settings,
        outcome: &mut Outcome,
    ) {
        let here: BTreeSet<&Knob> = changed.iter().map(|one| &one.knob).collect();
        for (knob, history) in self.known.iter_mut().filter(|(knob, _)| !here.contains(knob)) {
            if std::mem::take(&mut history.told) {
                let words = format!("{knob} is as linerate left it again");
                let (event, place) = ("drift".to_owned(), knob.to_string());
                outcome.events.push(Event { event, phase: Phase::Cleared, place, words });
            }
            history.row = 0;
        }
        for history in self.known.values_mut() {
            history.put_back.retain(|then| at.saturating_sub(*then) < WITHIN);
            // Whoever changed it has let it be for an hour.
            history.given_up &= history.row > 0 || !history.put_back.is_empty();
        }
        self.known.retain(|_, h| h.row > 0 || h.given_up || !h.put_back.is_empty());
        for one in changed {
            let policy = settings.policy(one.knob.kind());
            let history = self.known.entry(one.knob.clone()).or_default();
            history.row += 1;
            if policy == Policy::Leave || history.told {
                continue;
            }
            if history.row < LOOKS {
                outcome.soon = true;
                continue;
            }
            if policy == Policy::PutBack && !history.given_up {
                if history.put_back.len() < TIMES {
                    history.put_back.push(at);
                    history.row = 0;
                    outcome.put_back.push(one.knob);
                    continue;
                }
                history.given_up = true;
                let place = one.knob.to_string();
                let words = format!(
                    "{place} was put back {TIMES} times within an hour and is left now{}",
                    one.by()
                );
                outcome.events.push(Event::told("put-back-given-up", place, words));
            }
            history.told = true;
            let (place, words) = (one.knob.to_string(), one.words());
            let (event, phase) = ("drift".to_owned(), Phase::Raised);
            outcome.events.push(Event { event, phase, place, words });
        }
    }

    /// Takes back that settings were put back: it was not tried.
    pub fn not_put_back(&mut self, knobs: &[Knob]) {
        for (_, history) in self.known.iter_mut().filter(|(knob, _)| knobs.contains(knob)) {
            history.put_back.pop();
        }
    }

    /// Forgets what was given up: the owner has said anew what is wished.
    pub fn begin_anew(&mut self) {
        self.known.clear();
    }
}
