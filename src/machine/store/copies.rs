//! Copies of the journals of a change that waits, in its guard's memory: should their files be removed
//! or damaged meanwhile, they are written anew.

use super::journal::Journal;
use super::{Lock, StateDir, make_way, read_own, replace};
use crate::error::Result;

/// A journal as its file was when nobody was at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The journal.
    pub journal: Journal,
    bytes: Vec<u8>,
}

impl StateDir {
    /// Copies of the journals that the guard of this arming undoes, oldest first.
    ///
    /// # Errors
    /// An error if the journals can't be read.
    pub fn copies(&self, token: u64) -> Result<Vec<Copied>> {
        let mut journals = self.journals()?.whole;
        journals.retain(|journal| journal.header.guarded == Some(token) && !journal.is_kept);
        // One that goes in this moment is nobody's any more.
        let copied = |journal: Journal| {
            Some(Copied { bytes: read_own(&self.file(journal.number)).ok()?, journal })
        };
        Ok(journals.into_iter().filter_map(copied).collect())
    }

    /// True if the journal's file still has all that was in it. Lines are only ever added.
    #[must_use]
    pub fn has(&self, copied: &Copied) -> bool {
        let file = read_own(&self.file(copied.journal.number));
        file.is_ok_and(|now| now.starts_with(&copied.bytes))
    }

    /// Writes a journal anew whose file is gone or damaged; under a number of its own, where another
    /// change has taken the one that it had.
    ///
    /// # Errors
    /// An error if the state directory can't be written.
    pub fn put_back(&self, _lock: &Lock, copied: &mut Copied) -> Result<()> {
        let number = copied.journal.number;
        // One that can't be read is nobody's: it is what is written anew.
        let there = read_own(&self.file(number)).ok();
        let taken = there
            .and_then(|bytes| Journal::parse(number, &bytes).ok())
            .is_some_and(|other| other.header.guarded != copied.journal.header.guarded);
        if taken {
            copied.journal.number = self.newest_journal()? + 1;
        }
        let path = self.file(copied.journal.number);
        make_way(&path)
            .and_then(|()| replace(&path, &copied.bytes, 0o644))
            .map_err(|e| self.refused("write", &path, &e))
    }
}
