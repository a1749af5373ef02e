//! A door that keeps every answer, so that the machine behind it can be seen again elsewhere.
//!
//! A file is kept where it really lies and the links that led there beside it, so the record
//! answers other ways to the same file too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{HostError, HostRead, HostResult, Query, Setting};
use crate::model::identity::HostIdentity;

/// Questions and their answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Contents of files.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Links, with the path that each leads to.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Names in directories.
    pub lists: BTreeMap<PathBuf, Vec<String>>,
    /// Paths that something led to.
    pub seen: BTreeSet<PathBuf>,
    /// Answers by [`Query::name`].
    pub answers: BTreeMap<String, Vec<u8>>,
    /// Failures by operation and path (or query name). What is absent is here too.
    pub errors: BTreeMap<(&'static str, PathBuf), Errno>,
}

/// The door in front of another.
pub struct Recorder<'a> {
    host: &'a dyn HostRead,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    record: Record,
    /// Where each path without a link in its directory leads.
    leads: HashMap<PathBuf, Option<PathBuf>>,
}

impl<'a> Recorder<'a> {
    /// Records what is read through it from `host`.
    #[must_use]
    pub fn new(host: &'a dyn HostRead) -> Self {
        Self { host, state: Mutex::default() }
    }

    /// The recorded answers.
    #[must_use]
    pub fn into_record(self) -> Record {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).record
    }

    /// Where `path` really lies, as far as it is there; its links are recorded.
    fn place(&self, path: &Path) -> PathBuf {
        let mut state = hold(&self.state);
        let mut real = PathBuf::from("/");
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    real.pop();
                }
                Component::Normal(name) => real = self.step(&mut state, &real, name),
                _ => {}
            }
        }
        real
    }

    fn step(&self, state: &mut State, directory: &Path, name: &OsStr) -> PathBuf {
        let next = directory.join(name);
        if let Some(known) = state.leads.get(&next) {
            return known.clone().unwrap_or(next);
        }
        let target = match self.host.resolve(&next) {
            Ok(target) if is_own_process(&next, &target) => Some(next.clone()),
            Ok(target) => Some(target),
            // What is said of it when it is read counts.
            Err(_) => None,
        };
        if let Some(target) = &target {
            if *target != next {
                state.record.links.insert(next.clone(), target.clone());
            }
            state.record.seen.insert(target.clone());
        }
        state.leads.insert(next.clone(), target.clone());
        target.unwrap_or(next)
    }

    fn keep<T>(
        &self,
        path: PathBuf,
        answer: HostResult<T>,
        keep: impl FnOnce(&mut Record, PathBuf, &T),
    ) -> HostResult<T> {
        let mut state = hold(&self.state);
        match &answer {
            Ok(value) => keep(&mut state.record, path, value),
            Err(error) => {
                state.record.errors.entry((error.operation, path)).or_insert(error.errno);
            }
        }
        answer
    }
}

/// `/proc/net` and `/proc/self` lead to the reading process, whose number says nothing.
fn is_own_process(path: &Path, target: &Path) -> bool {
    let number = |path: &Path| -> Option<u32> {
        path.strip_prefix("/proc").ok()?.iter().next()?.to_str()?.parse().ok()
    };
    path.starts_with("/proc") && number(path).is_none() && number(target).is_some()
}

impl HostRead for Recorder<'_> {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        if let Some(setting) = Setting::at(path) {
            return setting.read(self);
        }
        let real = self.place(path);
        self.keep(real, self.host.read(path), |record, path, content| {
            // The first answer is the one that the machine's description was made of.
            record.files.entry(path).or_insert_with(|| content.clone());
        })
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        let real = self.place(path);
        self.keep(real, self.host.list(path), |record, path, names| {
            record.lists.entry(path).or_insert_with(|| names.clone());
        })
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        let real = self.place(path);
        self.keep(real, self.host.resolve(path), |_, _, _| {})
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        self.keep(query.name().into(), self.host.query(query), |record, name, answer| {
            let name = name.to_string_lossy().into_owned();
            record.answers.entry(name).or_insert_with(|| answer.clone());
        })
    }

    fn arch(&self) -> String {
        self.host.arch()
    }

    fn identity(&self) -> HostIdentity {
        self.host.identity()
    }

    fn inode(&self, path: &Path) -> Result<u64, HostError> {
        self.host.inode(path)
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
