//! A door that fails on purpose, for tests of everything that writes: in front of a [`FakeHost`],
//! with one or more [`Fault`]s, each at the write of a given number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{FakeHost, HostError, HostRead, HostResult, HostWrite, Query};
use crate::model::identity::HostIdentity;

/// The way in which a write fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This one write fails and changes nothing.
    Once(Errno),
    /// This write and so many more to the same file fail and change nothing.
    Times(Errno, u32),
    /// From this write on, all to the same file fail and change nothing.
    Always(Errno),
    /// The write fails, and is in force all the same (an error at close).
    FailsButTakes(Errno),
    /// The write is accepted and changes nothing.
    Ignored,
    /// The write is accepted, and the file then holds this instead.
    ReadsBack(&'static str),
    /// The write works, and the file can't be read from then on.
    Unreadable(Errno),
    /// The process is killed before the write: nothing reaches the machine any more.
    KilledBefore,
    /// The process is killed after the write.
    KilledAfter,
}

type Witness<'a> = Box<dyn Fn() + Send + Sync + 'a>;

/// A door that fails on purpose.
pub struct Faulty<'a> {
    host: &'a FakeHost,
    faults: Vec<(usize, Fault)>,
    reading: Option<(usize, Errno)>,
    at_write: Option<Witness<'a>>,
    at_kill: Option<Witness<'a>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    writes: usize,
    reads: usize,
    dead: bool,
    failing: BTreeMap<PathBuf, (Errno, u32)>,
    unreadable: BTreeMap<PathBuf, Errno>,
}

impl<'a> Faulty<'a> {
    /// A door to `host` where each fault happens at the write of its number, from 0; tries that
    /// fail count too.
    #[must_use]
    pub fn new(host: &'a FakeHost, faults: Vec<(usize, Fault)>) -> Self {
        let state = Mutex::new(State::default());
        Self { host, faults, reading: None, at_write: None, at_kill: None, state }
    }

    /// The reading of number `index`, from 0, fails.
    #[must_use]
    pub fn failing_read(mut self, index: usize, errno: Errno) -> Self {
        self.reading = Some((index, errno));
        self
    }

    /// Runs `action` when the fault "killed" happens: what a test keeps of this moment is what a
    /// real kill would have left, for the code under test runs on.
    #[must_use]
    pub fn at_kill(mut self, action: impl Fn() + Send + Sync + 'a) -> Self {
        self.at_kill = Some(Box::new(action));
        self
    }

    /// Runs `action` before every write.
    #[must_use]
    pub fn at_write(mut self, action: impl Fn() + Send + Sync + 'a) -> Self {
        self.at_write = Some(Box::new(action));
        self
    }

    /// How many writes were tried.
    #[must_use]
    pub fn tried(&self) -> usize {
        hold(&self.state).writes
    }

    /// How many readings were tried.
    #[must_use]
    pub fn readings(&self) -> usize {
        hold(&self.state).reads
    }

    fn alive(&self, operation: &'static str, path: &Path) -> HostResult<()> {
        if hold(&self.state).dead {
            return Err(HostError::new(operation, path, Errno::SRCH));
        }
        Ok(())
    }

    fn kill(&self) {
        hold(&self.state).dead = true;
        if let Some(action) = &self.at_kill {
            action();
        }
    }
}

impl HostRead for Faulty<'_> {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        self.alive("read", path)?;
        let mut state = hold(&self.state);
        let index = state.reads;
        state.reads += 1;
        let failing = self.reading.filter(|(at, _)| *at == index).map(|(_, errno)| errno);
        if let Some(errno) = failing.or_else(|| state.unreadable.get(path).copied()) {
            return Err(HostError::new("read", path, errno));
        }
        drop(state);
        self.host.read(path)
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        self.alive("list", path)?;
        self.host.list(path)
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.host.resolve(path)
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        self.alive("query", Path::new(&query.name()))?;
        self.host.query(query)
    }

    fn arch(&self) -> String {
        self.host.arch()
    }

    fn identity(&self) -> HostIdentity {
        self.host.identity()
    }

    fn inode(&self, path: &Path) -> HostResult<u64> {
        self.alive("resolve", path)?;
        self.host.inode(path)
    }
}

impl HostWrite for Faulty<'_> {
    fn write(&self, path: &Path, value: &[u8]) -> HostResult<()> {
        self.alive("write", path)?;
        if let Some(action) = &self.at_write {
            action();
        }
        let fail = |errno| Err(HostError::new("write", path, errno));
        let mut state = hold(&self.state);
        let index = state.writes;
        state.writes += 1;
        if let Some((errno, left)) = state.failing.get_mut(path)
            && *left > 0
        {
            *left = left.saturating_sub(u32::from(*left != u32::MAX));
            return fail(*errno);
        }
        let fault = self.faults.iter().find(|(at, _)| *at == index).map(|(_, fault)| fault);
        match fault {
            None => {}
            Some(Fault::Once(errno)) => return fail(*errno),
            Some(Fault::Times(errno, more)) => {
                state.failing.insert(path.to_owned(), (*errno, *more));
                return fail(*errno);
            }
            Some(Fault::Always(errno)) => {
                state.failing.insert(path.to_owned(), (*errno, u32::MAX));
                return fail(*errno);
            }
            Some(Fault::FailsButTakes(errno)) => {
                self.host.write(path, value)?;
                return fail(*errno);
            }
            Some(Fault::Ignored) => return Ok(()),
            Some(Fault::ReadsBack(text)) => {
                self.host.meddle(path, text);
                return Ok(());
            }
            Some(Fault::Unreadable(errno)) => {
                state.unreadable.insert(path.to_owned(), *errno);
            }
            Some(Fault::KilledBefore) => {
                drop(state);
                self.kill();
                return fail(Errno::SRCH);
            }
            Some(Fault::KilledAfter) => {
                drop(state);
                self.host.write(path, value)?;
                self.kill();
                return fail(Errno::SRCH);
            }
        }
        drop(state);
        self.host.write(path, value)
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
