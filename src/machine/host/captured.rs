//! A machine that is not here: files, links and directories from a directory or an archive, with
//! the answers that are no files beside them.
//!
//! ```text
//!   proc/ sys/ etc/            as on the machine; links resolve inside and never lead out
//!   linerate/arch              uname -m
//!   linerate/identity.json     boot and network namespace
//!   linerate/<query>.json      answer of each `Query`, e.g. qdiscs.json, features/eth0.json
//!   linerate/lists.json        names in directories that were captured in part
//!   linerate/errors            what could not be read, one a line: operation, answer, path
//! ```
//!
//! Three kinds of "not there" are kept apart: what the machine did not have is ENOENT, what it
//! refused is its own answer, and what it had but nobody captured is ENODATA.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::files::{Files, Kind};
use super::{HostError, HostRead, HostResult, Query, Setting, errno, symlinks};
use crate::model::identity::HostIdentity;
use crate::model::order::InOrder;

/// Where the errors lie.
pub const ERRORS: &str = "linerate/errors";
/// Where the names in partly captured directories lie.
pub const LISTS: &str = "linerate/lists.json";
/// Where the architecture lies.
pub const ARCH: &str = "linerate/arch";
/// Where boot and network namespace lie.
pub const IDENTITY: &str = "linerate/identity.json";

/// The kernel's own limit on links in one path (MAXSYMLINKS).
const MAX_LINKS: u32 = 40;

/// Directories to remember, some megabytes; sysfs of the largest machines has about as many that
/// matter here.
const MOST_LEADS: usize = 20_000;

/// A captured machine. Read only.
pub struct Captured {
    files: Box<dyn Files>,
    lists: HashMap<PathBuf, Vec<String>>,
    errors: HashMap<(Vec<u8>, PathBuf), Errno>,
    /// Where directories lead that were looked into: most files have neighbours. A captured machine
    /// does not change.
    leads: Mutex<HashMap<PathBuf, PathBuf>>,
}

impl Captured {
    /// Answers from `files`.
    pub(super) fn new(files: Box<dyn Files>) -> Self {
        let files = symlinks::add(files);
        let mut made =
            Self { files, lists: HashMap::new(), errors: HashMap::new(), leads: Mutex::default() };
        if let Ok(text) = made.own(ERRORS) {
            made.errors = read_errors(&text).collect();
        }
        if let Ok(json) = made.own(LISTS) {
            let lists: BTreeMap<PathBuf, Vec<String>> =
                serde_json::from_slice(&json).unwrap_or_default();
            made.lists = lists.into_iter().collect();
            made.lists.values_mut().for_each(|names| names.order_by(Ord::cmp));
        }
        made
    }

    /// One of our own files, through the same rules for links.
    fn own(&self, name: &str) -> HostResult<Vec<u8>> {
        let path = Path::new("/").join(name);
        let real = self.follow("read", &path)?;
        self.files.read(&real).map_err(|errno| HostError::new("read", &path, errno))
    }

    /// Follows every link of a machine path; the result is a machine path without links.
    fn follow(&self, operation: &'static str, path: &Path) -> HostResult<PathBuf> {
        let root = PathBuf::from("/");
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return self.walk(operation, path, root, parts(path).collect());
        };
        let directory = self.lead(operation, path, above)?;
        self.walk(operation, path, directory, VecDeque::from([name.to_owned()]))
    }

    /// Where a directory on the way to `path` leads, step by step from those that are known.
    fn lead(&self, operation: &'static str, path: &Path, directory: &Path) -> HostResult<PathBuf> {
        let root = PathBuf::from("/");
        let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else {
            return self.walk(operation, path, root, parts(directory).collect());
        };
        let known = hold(&self.leads).get(directory).cloned();
        if let Some(real) = known {
            return Ok(real);
        }
        let above = self.lead(operation, path, above)?;
        let real = self.walk(operation, path, above, VecDeque::from([name.to_owned()]))?;
        let mut leads = hold(&self.leads);
        if leads.len() >= MOST_LEADS {
            leads.clear();
        }
        leads.insert(directory.to_owned(), real.clone());
        Ok(real)
    }

    /// Follows `rest` from the directory `done`.
    fn walk(
        &self,
        operation: &'static str,
        path: &Path,
        mut done: PathBuf,
        mut rest: VecDeque<OsString>,
    ) -> HostResult<PathBuf> {
        let fail = |errno| HostError::new(operation, path, errno);
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&part);
            let target = match self.files.kind(&next) {
                Ok(Kind::Link(target)) => target,
                Ok(_) => {
                    done = next;
                    continue;
                }
                Err(errno) if self.is_listed(errno, &done, &part) => {
                    return Err(fail(Errno::NODATA));
                }
                Err(errno) => return Err(fail(errno)),
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(fail(Errno::LOOP));
            }
            if target.is_absolute() {
                done = PathBuf::from("/");
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(part);
            }
        }
        Ok(done)
    }

    /// True if the machine had what the capture lacks.
    fn is_listed(&self, errno: Errno, directory: &Path, name: &OsStr) -> bool {
        let listed = |names: &Vec<String>| {
            names.binary_search_by(|n| n.as_str().cmp(&name.to_string_lossy())).is_ok()
        };
        errno == Errno::NOENT && self.lists.get(directory).is_some_and(listed)
    }

    /// The answer of `work` for what `path` leads to, unless the machine refused it.
    fn answer<T>(
        &self,
        operation: &'static str,
        path: &Path,
        work: impl FnOnce(&Path) -> Result<T, Errno>,
    ) -> HostResult<T> {
        let refused = |path: &Path| {
            if self.errors.is_empty() {
                return None;
            }
            self.errors.get(&(operation.as_bytes().to_vec(), path.to_owned())).copied()
        };
        let fail = |errno| HostError::new(operation, path, errno);
        if let Some(errno) = refused(path) {
            return Err(fail(errno));
        }
        let real = self.follow(operation, path)?;
        if let Some(errno) = refused(&real) {
            return Err(fail(errno));
        }
        work(&real).map_err(fail)
    }
}

impl HostRead for Captured {
    fn read(&self, path: &Path) -> HostResult<Vec<u8>> {
        if let Some(setting) = Setting::at(path) {
            return setting.read(self);
        }
        self.answer("read", path, |real| self.files.read(real))
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        self.answer("list", path, |real| match self.lists.get(real) {
            Some(names) => Ok(names.clone()),
            None => self.files.names(real).map(|mut names| {
                names.order_by(Ord::cmp);
                names
            }),
        })
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.answer("resolve", path, |real| Ok(real.to_owned()))
    }

    fn query(&self, query: &Query) -> HostResult<Vec<u8>> {
        let name = query.name();
        if let Some(errno) = self.errors.get(&(b"query".to_vec(), PathBuf::from(&name))) {
            return Err(query.failed(*errno));
        }
        self.own(&format!("linerate/{name}.json")).map_err(|error| {
            // Not "the machine has none": nobody asked it.
            query.failed(if error.is_absent() { Errno::NODATA } else { error.errno })
        })
    }

    fn arch(&self) -> String {
        let text = self.own(ARCH).unwrap_or_default();
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    fn identity(&self) -> HostIdentity {
        let known = self.own(IDENTITY).ok();
        known.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_else(|| HostIdentity {
            boot_id: String::new(),
            netns: 0,
            netns_cookie: None,
        })
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Lines `read EINVAL /sys/class/net/eth0/speed`; others are skipped. In a path, a line feed is
/// written `\n` and a backslash `\\`.
fn read_errors(text: &[u8]) -> impl Iterator<Item = ((Vec<u8>, PathBuf), Errno)> + '_ {
    text.split(|b| *b == b'\n').filter_map(|line| {
        let mut fields = line.splitn(3, |b| *b == b' ');
        let (operation, name, path) = (fields.next()?, fields.next()?, fields.next()?);
        let path = PathBuf::from(OsStr::from_bytes(&unescape(path)));
        Some(((operation.to_vec(), path), errno::of(name)))
    })
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => plain.push(b'\n'),
                Some(other) => plain.push(*other),
                None => {}
            },
            other => plain.push(*other),
        }
    }
    plain
}

/// A line of [`ERRORS`].
#[must_use]
pub fn error_line(operation: &str, errno: Errno, path: &Path) -> Vec<u8> {
    let mut line = format!("{operation} {} ", errno::name(errno)).into_bytes();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\n' => line.extend(b"\\n"),
            b'\\' => line.extend(b"\\\\"),
            other => line.push(*other),
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_line_gives_back_any_path() {
        for path in ["/sys/a b", "/sys/new\nline", "/sys/back\\slash", "features/eth0"] {
            let line = error_line("read", Errno::INVAL, Path::new(path));
            let found: Vec<_> = read_errors(&line).collect();
            assert_eq!(found, [((b"read".to_vec(), PathBuf::from(path)), Errno::INVAL)]);
        }
        assert_eq!(read_errors(b"nonsense\n\nread EIO\n").count(), 0);
    }
}
