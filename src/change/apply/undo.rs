//! Writes that lead back to the state before: a pure function of the journals and of
//! the values found.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::knob::{path_fits, remnant, same_text};
use crate::machine::store::journal::{Entry, Journal, Progress};
use crate::model::knob::Knob;

/// Content of a setting's file now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    /// This text.
    Text(String),
    /// The setting is at another place than it was, with this text.
    Elsewhere {
        /// The kernel's file of today.
        path: PathBuf,
        /// Text in it.
        text: String,
    },
    /// This text, in place of what was written: the kernel had to, for the CPUs are gone.
    Displaced(String),
    /// The file, its device or its interrupt line is gone: there is nothing to restore.
    Gone,
    /// The setting can't be read, for this reason.
    Unreadable(String),
}

/// A text to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// Setting.
    pub knob: Knob,
    /// The kernel's file.
    pub path: PathBuf,
    /// Text that is there now.
    pub from: String,
    /// Text that was there before.
    pub to: String,
}

/// A setting that is not as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Setting.
    pub knob: Knob,
    /// The kernel's file.
    pub path: PathBuf,
    /// Text that was there before.
    pub wanted: String,
    /// Text that is there now; `None` where it can't be read.
    pub actual: Option<String>,
    /// Reason, in words for a person.
    pub why: String,
}

/// Plan of the way back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undo {
    /// Texts to write, in this order.
    pub restore: Vec<Restore>,
    /// Settings that somebody else set since.
    pub foreign: Vec<Left>,
    /// Settings that can't be read or must not be written.
    pub stuck: Vec<Left>,
    /// Settings that are not here any more.
    pub gone: Vec<(Knob, PathBuf)>,
}

/// Plans the way from `now` back to the state before the first of `journals`, which come newest
/// first. Each file is written once, whatever the number of journals that touched it.
///
/// A value that none of the journals can have left there was set by somebody else: it is reported
/// and left alone, unless `force`.
pub fn undo(journals: &[&Journal], now: impl Fn(&Entry) -> Now, force: bool) -> Undo {
    let mut plan = Undo::default();
    let mut seen: BTreeSet<(&Knob, &Path)> = BTreeSet::new();
    // Backwards through the writes: the last one made is the first one undone.
    for entry in journals.iter().flat_map(|journal| journal.header.entries.iter().rev()) {
        if !seen.insert((&entry.knob, &entry.path)) {
            continue;
        }
        let chain: Vec<(&Entry, Progress)> =
            journals.iter().filter_map(|journal| find(journal, entry)).collect();
        one(&mut plan, entry, &chain, now(entry), force);
    }
    plan
}

/// A journal's entry for the same file.
fn find<'a>(journal: &'a Journal, like: &Entry) -> Option<(&'a Entry, Progress)> {
    let entries = journal.header.entries.iter().zip(journal.progress.iter().copied());
    entries.into_iter().find(|(e, _)| e.knob == like.knob && e.path == like.path)
}

fn one(plan: &mut Undo, newest: &Entry, chain: &[(&Entry, Progress)], now: Now, force: bool) {
    let Some((oldest, _)) = chain.last() else { return };
    let knob = newest.knob.clone();
    let (path, now) = match now {
        Now::Elsewhere { path, text } => (path, Now::Text(text)),
        other => (newest.path.clone(), other),
    };
    let left = |actual, why: &str| Left {
        knob: knob.clone(),
        path: path.clone(),
        wanted: oldest.before.clone(),
        actual,
        why: why.to_owned(),
    };
    if !path_fits(&knob, &path) {
        plan.stuck.push(left(None, "the journal names a file that is not this setting's"));
        return;
    }
    let displaced = matches!(now, Now::Displaced(_));
    let current = match now {
        Now::Text(text) | Now::Elsewhere { text, .. } | Now::Displaced(text) => text,
        Now::Gone => {
            plan.gone.push((knob, path));
            return;
        }
        Now::Unreadable(why) => {
            plan.stuck.push(left(None, &why));
            return;
        }
    };
    let (mut value, mut foreign) = (current.clone(), false);
    if displaced && let Some(ours) = newest.after.last() {
        value.clone_from(ours);
    }
    // What was there before one of them is there again: it and all newer ones are undone already,
    // by a rollback that was cut short.
    let undone = chain.iter().rposition(|(entry, _)| same_text(&knob, &entry.before, &value));
    for (place, (entry, progress)) in chain.iter().enumerate().skip(undone.map_or(0, |n| n + 1)) {
        let is = |text: &String| same_text(&knob, text, &value);
        // A write that had begun may have left anything, if the driver is odd enough.
        let begun = place == 0 && *progress == Progress::Begun;
        if is(&entry.before) {
            continue;
        } else if begun || entry.after.iter().any(|ours| is(ours) || remnant(&knob, ours, &value)) {
            value.clone_from(&entry.before);
        } else if *progress != Progress::Untouched {
            foreign = true;
            break;
        }
    }
    if foreign && force {
        (value, foreign) = (oldest.before.clone(), false);
    }
    if foreign {
        plan.foreign.push(left(Some(value.clone()), "somebody else set it since"));
    }
    if !same_text(&knob, &value, &current) {
        plan.restore.push(Restore { knob, path, from: current, to: value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::store::journal::{Header, Phase};
    use crate::model::identity::HostIdentity;

    const PATH: &str = "/sys/class/net/eth0/queues/rx-0/rps_cpus";

    fn journal(number: u32, before: &str, after: &[&str], progress: Progress) -> Journal {
        let entry = Entry {
            knob: Knob::RpsCpus { device: "eth0".into(), queue: 0 },
            path: PATH.into(),
            before: before.into(),
            after: after.iter().map(|a| (*a).to_owned()).collect(),
            witness: None,
            ifindex: None,
        };
        let host = HostIdentity { boot_id: "b".into(), netns: 1, netns_cookie: None };
        let header = Header::new(host, 0, "test".into(), vec![entry]);
        let progress = vec![progress];
        Journal { progress, phase: Phase::Applied, ..Journal::new(number, header) }
    }

    /// Undoes journals of one setting: the text that is written back, and true if a value is
    /// reported as somebody else's.
    fn back(newest_first: &[Journal], now: &str, force: bool) -> (Option<String>, bool) {
        let list: Vec<&Journal> = newest_first.iter().collect();
        let plan = undo(&list, |_| Now::Text(now.into()), force);
        assert!(plan.restore.len() <= 1);
        (plan.restore.first().map(|r| r.to.clone()), !plan.foreign.is_empty())
    }

    #[test]
    fn what_we_wrote_is_undone_and_what_others_wrote_is_not() {
        let one = [journal(1, "0", &["3"], Progress::Done)];
        assert_eq!(back(&one, "3", false), (Some("0".into()), false));
        assert_eq!(back(&one, "00000000,00000003", false), (Some("0".into()), false));
        assert_eq!(back(&one, "0", false), (None, false));
        assert_eq!(back(&one, "2", false), (None, true));
        assert_eq!(back(&one, "2", true), (Some("0".into()), false));
    }

    #[test]
    fn a_write_cut_short_is_ours_whatever_it_left() {
        assert_eq!(back(&[journal(1, "0", &["3"], Progress::Begun)], "2", false).0.unwrap(), "0");
        // One that never began leaves others' values alone, and is no conflict.
        assert_eq!(
            back(&[journal(1, "0", &["3"], Progress::Untouched)], "2", false),
            (None, false)
        );
        // Its line may be lost, though.
        let lost = [journal(1, "0", &["3"], Progress::Untouched)];
        assert_eq!(back(&lost, "3", false).0.unwrap(), "0");
    }

    #[test]
    fn several_journals_lead_back_to_the_state_before_the_first() {
        let two =
            [journal(2, "1", &["3"], Progress::Done), journal(1, "0", &["1"], Progress::Done)];
        assert_eq!(back(&two, "3", false), (Some("0".into()), false));
        assert_eq!(back(&two, "1", false), (Some("0".into()), false));
        // A rollback that was cut short may have come to the end of this file.
        assert_eq!(back(&two, "0", false), (None, false));
        // Somebody set 2 between the two: that far, and no further.
        let meddled =
            [journal(2, "2", &["3"], Progress::Done), journal(1, "0", &["1"], Progress::Done)];
        assert_eq!(back(&meddled, "3", false), (Some("2".into()), true));
        assert_eq!(back(&meddled, "3", true), (Some("0".into()), false));
    }

    #[test]
    fn what_the_kernel_put_there_because_the_cpus_went_is_undone_too() {
        let one = journal(1, "1", &["8"], Progress::Done);
        let plan = undo(&[&one], |_| Now::Displaced("7".into()), false);
        assert!(plan.foreign.is_empty());
        assert_eq!((plan.restore[0].from.as_str(), plan.restore[0].to.as_str()), ("7", "1"));
    }

    #[test]
    fn a_flowtable_that_lost_a_device_is_still_ours() {
        let entry = Entry {
            knob: Knob::FlowOffload,
            path: "flow-offload".into(),
            before: "off".into(),
            after: vec!["software br-lan pppoe-wan".into()],
            witness: None,
            ifindex: None,
        };
        let host = HostIdentity { boot_id: "b".into(), netns: 1, netns_cookie: None };
        let header = Header::new(host, 0, "test".into(), vec![entry]);
        let progress = vec![Progress::Done];
        let one = Journal { progress, phase: Phase::Applied, ..Journal::new(1, header) };
        let back = |now: &str| {
            let plan = undo(&[&one], |_| Now::Text(now.into()), false);
            (plan.restore.first().map(|r| r.to.clone()), plan.foreign.len())
        };
        // The session was dialled anew, and the kernel took the old device out.
        assert_eq!(back("software br-lan"), (Some("off".into()), 0));
        assert_eq!(back("software pppoe-wan br-lan"), (Some("off".into()), 0));
        assert_eq!(back("software br-lan eth7"), (None, 1));
        assert_eq!(back("hardware br-lan"), (None, 1));
        assert_eq!(back("off other:fw4"), (None, 0));
    }

    #[test]
    fn a_file_that_is_not_the_settings_own_is_never_written() {
        let mut bad = journal(1, "0", &["3"], Progress::Done);
        bad.header.entries[0].path = "/proc/sys/kernel/core_pattern".into();
        let plan = undo(&[&bad], |_| Now::Text("3".into()), true);
        assert!(plan.restore.is_empty() && plan.stuck.len() == 1, "{plan:?}");
    }
}
