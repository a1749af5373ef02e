//! Troubles that begin and end: told at their edges, and not for every flicker.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::watch::{Event, Phase};

/// Looks in a row without a sign before its trouble is over.
const GONE: u32 = 3;
/// Most troubles that are kept at a time: names come from outside.
const MOST: usize = 200;

/// A sign of trouble in one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    /// Name of the trouble: `wan-lost`.
    pub event: String,
    /// Device, CPU, stage, gateway; empty for the whole router.
    pub place: String,
    /// Sentence for a person.
    pub words: String,
    /// Looks in a row that make it certain; 1 for what is a fact and no measurement.
    pub looks: u32,
}

impl Sign {
    /// A sign that is certain after so many looks in a row.
    #[must_use]
    pub fn new(event: &str, place: impl Into<String>, looks: u32, words: String) -> Self {
        Self { event: event.to_owned(), place: place.into(), words, looks }
    }
}

/// A trouble that may be beginning, lasts, or may be over.
#[derive(Debug)]
struct Track {
    words: String,
    raised: bool,
    /// Looks in a row that say otherwise than `raised`.
    row: u32,
    /// Time of the first of those.
    since: Duration,
}

/// The troubles of a router.
#[derive(Debug, Default)]
pub struct Health {
    tracks: BTreeMap<(String, String), Track>,
}

impl Health {
    /// Takes the signs of one look: what began, what is over, and whether something of it is not certain
    /// yet.
    pub(super) fn take(&mut self, at: Duration, signs: Vec<Sign>, hold: f64) -> (Vec<Event>, bool) {
        let mut events = Vec::new();
        let mut seen = BTreeMap::new();
        for Sign { event, place, words, looks } in signs {
            seen.entry((event, place)).or_insert((words, looks));
        }
        let mut soon = false;
        for (key, track) in &mut self.tracks {
            let sign = seen.remove(key);
            if sign.is_some() == track.raised {
                track.row = 0;
                continue;
            }
            if track.row == 0 {
                track.since = at;
            }
            track.row += 1;
            let (phase, certain) = match &sign {
                Some((_, looks)) => (Phase::Raised, track.row >= *looks),
                None => {
                    let gone = at.saturating_sub(track.since).as_secs_f64() >= hold;
                    (Phase::Cleared, track.row >= GONE && gone)
                }
            };
            if let Some((words, _)) = sign {
                track.words = words;
                soon |= !certain;
            }
            if certain {
                (track.raised, track.row) = (!track.raised, 0);
                events.push(event(key, phase, &track.words));
            }
        }
        // One that never became certain and is not there any more is forgotten.
        self.tracks.retain(|_, track| track.raised || track.row > 0);
        for (key, (words, looks)) in seen {
            if self.tracks.len() >= MOST {
                break;
            }
            let raised = looks <= 1;
            match raised {
                true => events.push(event(&key, Phase::Raised, &words)),
                false => soon = true,
            }
            let row = u32::from(!raised);
            self.tracks.insert(key, Track { words, raised, row, since: at });
        }
        (events, soon)
    }

    /// Troubles that last.
    pub fn lasting(&self) -> impl Iterator<Item = Event> + '_ {
        let raised = self.tracks.iter().filter(|(_, track)| track.raised);
        raised.map(|(key, track)| event(key, Phase::Raised, &track.words))
    }
}

fn event((event, place): &(String, String), phase: Phase, words: &str) -> Event {
    Event { event: event.clone(), phase, place: place.clone(), words: words.to_owned() }
}
