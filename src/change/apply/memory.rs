//! The memory of a guard: the arming of its change and the journals that lead back. Files that are
//! removed or damaged while the change waits are written anew from it.

use super::deadman::{Reason, milliseconds};
use super::rollback::{is_made, undo_unfiled};
use crate::error::{Error, Result};
use crate::machine::host::{HostRead, HostWrite, clock};
use crate::machine::store::copies::Copied;
use crate::machine::store::deadman::{Armed, Undoing, Undone};
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

    /// True if all that is to be remembered is; of a trial nothing is.
    pub(super) fn is_complete(&self) -> bool {
        self.is_whole || self.armed.holder.is_some()
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
        self.leads_back() && is_made(host, self.journals(), there)
    }

    /// True if there is anything to undo from.
    pub(super) fn leads_back(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Undoes the change without its files, which can't be used because of `why`: nothing is noted of
    /// it but what the guard says.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8), where another try could restore more.
    pub(super) fn undo(
        &mut self,
        host: &dyn HostWrite,
        reason: &Reason,
        why: &Error,
    ) -> Result<Undone> {
        let attempt = undo_unfiled(host, self.journals());
        let armed = &mut self.armed;
        let undoing = armed.undoing.get_or_insert_with(|| Undoing::begun(reason.words()));
        undoing.restored += attempt.done.restored.len();
        let left = match attempt.error() {
            Some(error) if !attempt.is_over() => return Err(error),
            error => error.map(|e| e.to_string()),
        };
        Ok(Undone {
            at_ms: milliseconds(clock::boottime()),
            host: armed.host.clone(),
            why: format!("{}, and its files could not be used ({why})", undoing.why),
            restored: undoing.restored,
            left,
        })
    }

    fn journals(&self) -> Vec<Journal> {
        self.copies.iter().map(|copied| copied.journal.clone()).collect()
    }
}
