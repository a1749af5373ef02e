//! The one way in for every verb that changes settings: the lock first, then what an earlier run
//! left, and only then a look at the machine.
//!
//! ```text
//!   Hold::take ─▶ Hold::admit ─▶ Hold::settle ─▶ Changer: look ─▶ prepare, apply, open
//!   (the lock)    (nothing        (what was cut            │
//!                  waits)          short is undone)        └ the snapshot: never older than this
//! ```
//!
//! A rollback moves interrupt lines to other numbers and makes queues come and go. So a snapshot from
//! before it says where settings were, not where they are; [`Changer`] takes none from its caller, and
//! nothing that writes new values takes any other.

use std::cell::OnceCell;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::deadman::{self, Confirmed};
use super::rollback::{self, RolledBack, counted};
use super::session::Session;
use super::{Applied, make};
use crate::error::{Error, Result};
use crate::machine::host::{HostRead, HostWrite, Live, clock};
use crate::machine::store::deadman::Armed;
use crate::machine::store::{Lock, LockRefused, StateDir};
use crate::model::plan::Candidate;
use crate::model::snapshot::Snapshot;

/// The pause between two tries for a lock that another process has.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Describes a machine.
type Look<'a> = Box<dyn Fn(&dyn HostRead) -> Snapshot + 'a>;

/// The door that a [`Hold`] changes settings through.
pub enum Door<'a> {
    /// A door that its owner lends.
    Lent(&'a dyn HostWrite),
    /// The running kernel's.
    Live(Live),
}

impl<'a> From<&'a dyn HostWrite> for Door<'a> {
    fn from(host: &'a dyn HostWrite) -> Self {
        Self::Lent(host)
    }
}

impl<'a, T: HostWrite> From<&'a T> for Door<'a> {
    fn from(host: &'a T) -> Self {
        Self::Lent(host)
    }
}

impl From<Live> for Door<'_> {
    fn from(host: Live) -> Self {
        Self::Live(host)
    }
}

impl Door<'_> {
    fn host(&self) -> &dyn HostWrite {
        match self {
            Self::Lent(host) => *host,
            Self::Live(host) => host,
        }
    }
}

/// The lock, and the door that settings are put back through. What an earlier run left is still as
/// it was left; [`Hold::changer`] puts that right and lets new values be set.
pub struct Hold<'a> {
    door: Door<'a>,
    lock: Lock,
}

impl<'a> Hold<'a> {
    /// Takes the lock for `verb`, and waits up to `patience` for another process that has it.
    ///
    /// # Errors
    /// Fails as [`StateDir::lock`] does.
    pub fn take(
        host: impl Into<Door<'a>>,
        state: &StateDir,
        verb: &str,
        patience: Duration,
    ) -> Result<Self> {
        let end = clock::boottime() + patience;
        loop {
            match state.try_lock(verb) {
                Ok(lock) => return Ok(Self { door: host.into(), lock }),
                Err(LockRefused::Busy(_)) if clock::boottime() < end => clock::sleep(TRY_AGAIN),
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    /// Passes the same lock on with another door: into a lab's router.
    #[must_use]
    pub fn through<'b>(self, host: impl Into<Door<'b>>) -> Hold<'b> {
        Hold { door: host.into(), lock: self.lock }
    }

    /// The door.
    #[must_use]
    pub fn host(&self) -> &dyn HostWrite {
        self.door.host()
    }

    /// The lock.
    #[must_use]
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Undoes a change whose deadline has passed and whose guard did not undo it. Gives what a person
    /// should know of it, a line each.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8); the change then stays armed, and whoever comes next tries again.
    pub fn undo_overdue(&self) -> Result<Vec<String>> {
        let Some(undone) = deadman::undo_overdue(self.host(), &self.lock)? else {
            return Ok(Vec::new());
        };
        let first = format!(
            "a change that was never confirmed is undone now: {} restored",
            counted(undone.restored.len(), "setting")
        );
        Ok(std::iter::once(first).chain(undone.notes).collect())
    }

    /// Makes sure that no change waits to be confirmed: one that is overdue is undone. Gives what a
    /// person should know of that.
    ///
    /// # Errors
    /// Not supported (exit 5) while a change waits: what was never confirmed must not become permanent
    /// because something else was put on top of it. As [`Hold::undo_overdue`].
    pub fn admit(&self) -> Result<Vec<String>> {
        let notes = self.undo_overdue()?;
        let verb = self.lock.verb();
        let Some(armed) = self.lock.state().armed()? else { return Ok(notes) };
        if armed.host != self.host().identity() {
            return Err(waits_elsewhere(verb));
        }
        let left = time_left(&armed).as_secs_f64();
        Err(Error::not_supported(
            verb,
            format!("a change waits to be confirmed, for {left:.0} s more"),
        )
        .hint("linerate confirm keeps it, linerate rollback undoes it; then try again"))
    }

    /// Undoes the transactions whose process died in the middle. Values that somebody else set since
    /// are left alone and said in a note.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8) with a list of what is left.
    pub fn settle(&self) -> Result<RolledBack> {
        rollback::settle(self.host(), &self.lock)
    }

    /// Undoes every transaction that is in force here, newest first, back to the state before the
    /// first; a change that waited to be confirmed is undone with the rest.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8) with a list of what is left, by path and value: what could not be
    /// written, and, unless `force`, what somebody else set since. The journals stay then; so does a
    /// change that waited, where another try could restore more.
    pub fn roll_back(&self, force: bool) -> Result<RolledBack> {
        deadman::roll_back(self.host(), &self.lock, force)
    }

    /// Keeps the change that waits.
    ///
    /// # Errors
    /// Rollback incomplete (exit 8) when it was too late and undoing failed too.
    pub fn confirm(&self) -> Result<Confirmed> {
        deadman::confirm(self.host(), &self.lock)
    }

    /// Lets new values be set: nothing waits to be confirmed, what was cut short is undone, and only
    /// then `look` describes the machine.
    ///
    /// # Errors
    /// Fails as [`Hold::admit`] and [`Hold::settle`] do.
    pub fn changer(self, look: impl Fn(&dyn HostRead) -> Snapshot + 'a) -> Result<Changer<'a>> {
        let mut notes = self.admit()?;
        notes.extend(self.settle()?.notes);
        Ok(Changer { hold: self, look: Box::new(look), seen: OnceCell::new(), notes })
    }
}

/// The right to set new values on a machine of which nothing is left half done, and what that machine
/// looks like.
pub struct Changer<'a> {
    hold: Hold<'a>,
    look: Look<'a>,
    seen: OnceCell<Snapshot>,
    /// Remarks for a person on what was put right first, a line each.
    pub notes: Vec<String>,
}

impl<'a> Changer<'a> {
    /// Takes the lock for `verb`, waiting up to `patience` for it, puts right what an earlier run
    /// left, and lets `look` describe the machine from then on.
    ///
    /// # Errors
    /// Fails as [`Hold::take`] and [`Hold::changer`] do.
    pub fn begin(
        host: impl Into<Door<'a>>,
        state: &StateDir,
        verb: &str,
        patience: Duration,
        look: impl Fn(&dyn HostRead) -> Snapshot + 'a,
    ) -> Result<Self> {
        Hold::take(host, state, verb, patience)?.changer(look)
    }

    /// The door.
    #[must_use]
    pub fn host(&self) -> &dyn HostWrite {
        self.hold.host()
    }

    /// The lock.
    #[must_use]
    pub fn lock(&self) -> &Lock {
        self.hold.lock()
    }

    /// The machine as it is; looked at under the lock, once.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        self.seen.get_or_init(|| (self.look)(self.host()))
    }

    /// Forgets the snapshot: queues or interrupt lines may be others by now.
    pub fn look_again(&mut self) {
        self.seen.take();
    }

    /// Sets everything a candidate asks for, all or nothing: journal first, then each write with its
    /// read-back. When everything is as wanted already, nothing is written at all. Where the
    /// candidate changes channels or threaded NAPI, the machine is looked at anew after that, for
    /// other queues, interrupt lines and threads are there then.
    ///
    /// # Errors
    /// Before anything is written: usage, not permitted, not supported. After that: rolled back
    /// (exit 7) with what failed and why, everything being as before; rollback incomplete (exit 8)
    /// with the list of what is left; interrupted (exit 130) when `stop` was set, everything being as
    /// before.
    pub fn apply(&mut self, candidate: &Candidate, stop: &AtomicBool) -> Result<Applied> {
        make(self, candidate, stop)
    }

    /// Opens a session in which each of `candidates` can be set in turn. Nothing is written to the
    /// router yet.
    ///
    /// # Errors
    /// Fails as [`Changer::apply`] does before its first write.
    pub fn open(&self, candidates: &[Candidate]) -> Result<Session<'_>> {
        Session::open(self, candidates)
    }
}

/// Time until a change is undone.
#[must_use]
pub fn time_left(armed: &Armed) -> Duration {
    Duration::from_millis(armed.deadline_ms).saturating_sub(clock::boottime())
}

/// The error of a verb that meets a change in another network namespace.
#[must_use]
pub fn waits_elsewhere(verb: &str) -> Error {
    Error::not_supported(verb, "a change in another network namespace waits to be confirmed")
        .hint("linerate confirm or rollback there: ip netns exec NAME linerate ...")
}
