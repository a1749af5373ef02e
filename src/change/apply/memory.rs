//! The memory of a guard: the arming of its change and the journals that lead back. Files that are
//! removed or damaged while the change waits are written anew from it.

use super::rollback::is_made;
use crate::machine::host::HostRead;
use crate::machine::store::copies::Copied;
use crate::machine::store::deadman::Armed;
use crate::machine::store::journal::Journal;
use crate::machine::store::{Lock, StateDir};

/// All that a guard knows of its change, whatever becomes of the files.
pub(super) struct Memory {
    pub(super) armed: Armed,
    copies: Vec<Copied>,
    /// False until the journals were copied while nobody was changing them.
    is_whole: bool,
}

impl Memory {
    pub(super) fn of(armed: Armed) -> Self {
        Self { armed, copies: Vec::new(), is_whole: false }
    }

    /// Takes in the journals once, when nobody `is_at_it`, and before that as far as they are written.
    /// A trial's come and go with its settings, and its process puts them back itself.
    pub(super) fn take_in(&mut self, state: &StateDir, is_at_it: bool) {
        if self.armed.holder.is_some() || (self.is_whole && !is_at_it) {
            return;
        }
        let Ok(now) = state.copies(self.armed.token) else { return };
        // One that is gone by now was removed: on purpose or not, its settings tell.
        self.copies.retain(|old| now.iter().all(|new| new.journal.number != old.journal.number));
        self.copies.extend(now);
        self.is_whole = !is_at_it;
    }

    /// Forgets the journals that are undone by now.
    pub(super) fn take_in_anew(&mut self, state: &StateDir) {
        if let Ok(now) = state.copies(self.armed.token) {
            self.copies = now;
        }
    }

    /// True if a journal's file is gone, or is not what was written.
    pub(super) fn lacks_any(&self, state: &StateDir) -> bool {
        self.is_whole && self.copies.iter().any(|copied| !state.has(copied))
    }

    /// Writes the journals anew that are gone or damaged.
    pub(super) fn put_back(&mut self, lock: &Lock) {
        for copied in self.copies.iter_mut().filter(|copied| !lock.state().has(copied)) {
            match lock.state().put_back(lock, copied) {
                Ok(()) => log::warn!("a journal that was removed or damaged is written anew"),
                Err(e) => log::warn!("{e}"),
            }
        }
    }

    /// True if settings are as the change made them, and no journal that is there names them.
    pub(super) fn is_in_force(&self, host: &dyn HostRead, there: &[Journal]) -> bool {
        let ours: Vec<Journal> = self.copies.iter().map(|copied| copied.journal.clone()).collect();
        !ours.is_empty() && is_made(host, ours, there)
    }
}
