//! Journals of events that later ones make redundant: a link that is dialled anew every night must
//! not leave a journal each time, nor a setting that is put back every day.

use super::knob::same_text;
use crate::error::Result;
use crate::machine::store::Lock;
use crate::machine::store::journal::{Journal, Phase};

/// Journals of this verb may go.
const EVENT: &str = "event ";
/// And those of this one, which puts settings back as an earlier journal left them.
const PUT_BACK: &str = "watch ";

fn is_of(journal: &Journal, verb: &str) -> bool {
    journal.header.what.starts_with(verb)
}

/// Removes the journals of earlier events each of whose settings a later journal leads back from to the
/// same value: rolling back comes to the same without them. So go those of settings that were put back as
/// an earlier journal left them.
///
/// # Errors
/// Fails as [`crate::machine::store::StateDir::journals`] does.
pub fn forget_covered(lock: &Lock) -> Result<()> {
    let journals = lock.state().journals()?.whole;
    for (at, journal) in journals.iter().enumerate() {
        let later = journals.get(at + 1..).unwrap_or_default();
        let earlier = journals.get(..at).unwrap_or_default();
        if is_covered(journal, later) || leads_nowhere(journal, earlier) {
            lock.state().remove_journal(lock, journal.number)?;
        }
    }
    Ok(())
}

fn is_covered(journal: &Journal, later: &[Journal]) -> bool {
    let header = &journal.header;
    let covers = |by: &&Journal| by.phase == Phase::Applied && by.header.host == header.host;
    journal.phase == Phase::Applied
        && (is_of(journal, EVENT) || is_of(journal, PUT_BACK))
        && header.entries.iter().all(|entry| {
            // The next one that touched the file: what lies between must not be jumped over.
            let next = later.iter().filter(covers).find_map(|by| {
                by.header.entries.iter().find(|e| e.knob == entry.knob && e.path == entry.path)
            });
            next.is_some_and(|by| same_text(&entry.knob, &by.before, &entry.before))
        })
}

/// True if it put back what earlier journals left: they say what is there now, and lead back from it to the
/// state before linerate, whereas this one leads to what somebody else had set in between.
fn leads_nowhere(journal: &Journal, earlier: &[Journal]) -> bool {
    let header = &journal.header;
    let counts = |by: &&Journal| by.phase == Phase::Applied && by.header.host == header.host;
    journal.phase == Phase::Applied
        && is_of(journal, PUT_BACK)
        && header.entries.iter().all(|entry| {
            let left = earlier.iter().rev().filter(counts).find_map(|by| {
                by.header.entries.iter().find(|e| e.knob == entry.knob && e.path == entry.path)
            });
            let same = |then: &String, now: &String| same_text(&entry.knob, then, now);
            left.and_then(|e| e.after.last())
                .zip(entry.after.last())
                .is_some_and(|(a, b)| same(a, b))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::store::journal::{Entry, Header, Progress};
    use crate::model::identity::HostIdentity;
    use crate::model::knob::Knob;

    fn journal(number: u32, what: &str, queue: u32, before: &str) -> Journal {
        let entry = Entry {
            knob: Knob::RpsCpus { device: "ppp0".into(), queue },
            path: format!("/sys/class/net/ppp0/queues/rx-{queue}/rps_cpus").into(),
            before: before.into(),
            after: vec!["3".into()],
            witness: None,
            ifindex: None,
        };
        let host = HostIdentity { boot_id: "b".into(), netns: 1, netns_cookie: None };
        let header = Header::new(host, 0, what.into(), vec![entry]);
        let progress = vec![Progress::Done];
        Journal { progress, phase: Phase::Applied, ..Journal::new(number, header) }
    }

    #[test]
    fn a_link_dialled_anew_leaves_one_journal_and_no_way_back_is_lost() {
        let first = journal(1, "event ppp0", 0, "0");
        let again = || vec![journal(2, "event ppp0", 0, "00")];
        assert!(is_covered(&first, &again()));
        let put_back = journal(1, "watch (put-back)", 0, "0");
        assert!(is_covered(&put_back, &[journal(2, "watch (put-back)", 0, "0")]));
        let (ours, back) = (journal(1, "apply x", 0, "0"), journal(2, "watch (put-back)", 0, "2"));
        assert!(leads_nowhere(&back, std::slice::from_ref(&ours)));
        assert!(!leads_nowhere(&journal(2, "apply y", 0, "2"), &[ours]), "a person's");
        assert!(!leads_nowhere(&back, &[]), "nothing else leads back");
        assert!(!is_covered(&journal(1, "apply plan.toml", 0, "0"), &again()), "a person's");
        assert!(!is_covered(&journal(1, "event ppp0", 1, "0"), &again()), "another queue");
        assert!(!is_covered(&journal(1, "event ppp0", 0, "1"), &again()), "another value");
        assert!(!is_covered(&first, &[]));
        let unfinished = Journal { phase: Phase::Unfinished, ..journal(2, "event ppp0", 0, "0") };
        assert!(!is_covered(&first, &[unfinished]));
        // What somebody applied in between leads back elsewhere first.
        let between = [journal(2, "apply plan.toml", 0, "1"), journal(3, "event ppp0", 0, "0")];
        assert!(!is_covered(&first, &between));
    }
}
