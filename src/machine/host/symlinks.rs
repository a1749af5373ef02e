//! The links of a captured machine as text, for trees that are kept where links can't be: some
//! version control, archivers and file systems make small files of them, or drop them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::files::{Files, Kind};

/// Where they lie: lines `/sys/class/net/eth0 -> ../../devices/...`.
pub(super) const SYMLINKS: &str = "/linerate/symlinks";

/// A line that is longer leads nowhere: the kernel's own limit on a path (PATH_MAX).
const LONGEST: usize = 2 * 4096;

/// Files with such links among them.
struct Linked {
    files: Box<dyn Files>,
    targets: HashMap<PathBuf, PathBuf>,
    /// Names in the directories above links, which may have nothing else in them.
    names: HashMap<PathBuf, BTreeSet<String>>,
}

/// `files`, with the links that its [`SYMLINKS`] adds.
pub(super) fn add(files: Box<dyn Files>) -> Box<dyn Files> {
    let Ok(text) = files.read(Path::new(SYMLINKS)) else { return files };
    let mut linked = Linked { files, targets: HashMap::new(), names: HashMap::new() };
    for (path, target) in read(&text) {
        let mut below = path.as_path();
        while let (Some(above), Some(name)) = (below.parent(), below.file_name()) {
            let names = linked.names.entry(above.to_owned()).or_default();
            if !names.insert(name.to_string_lossy().into_owned()) {
                break;
            }
            below = above;
        }
        linked.targets.insert(path, target);
    }
    Box::new(linked)
}

/// Lines that are none of such a file are skipped.
fn read(text: &[u8]) -> impl Iterator<Item = (PathBuf, PathBuf)> + '_ {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    text.split(|b| *b == b'\n').filter(|line| line.len() <= LONGEST).filter_map(move |line| {
        let at = line.windows(4).position(|w| w == b" -> ")?;
        let (link, target) = (line.get(..at)?, line.get(at + 4..)?);
        let plain = path(link).components().collect::<PathBuf>();
        let whole = plain.is_absolute()
            && plain.as_os_str().as_bytes() == link
            && !plain.components().any(|part| part == Component::ParentDir);
        (whole && !target.is_empty()).then(|| (plain, path(target)))
    })
}

impl Files for Linked {
    fn kind(&self, path: &Path) -> Result<Kind, Errno> {
        if let Some(target) = self.targets.get(path) {
            return Ok(Kind::Link(target.clone()));
        }
        match self.files.kind(path) {
            Err(Errno::NOENT) if self.names.contains_key(path) => Ok(Kind::Directory),
            other => other,
        }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Errno> {
        match self.files.read(path) {
            Err(Errno::NOENT) if self.names.contains_key(path) => Err(Errno::ISDIR),
            other => other,
        }
    }

    fn names(&self, path: &Path) -> Result<Vec<String>, Errno> {
        let Some(added) = self.names.get(path) else { return self.files.names(path) };
        let mut names: BTreeSet<String> = match self.files.names(path) {
            Ok(names) => names.into_iter().collect(),
            Err(Errno::NOENT) => BTreeSet::new(),
            Err(errno) => return Err(errno),
        };
        names.extend(added.iter().cloned());
        Ok(names.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_links_are_skipped() {
        let text =
            b"/sys/a -> ../b\nsys/a -> b\n/sys/../a -> b\n/sys/x -> \n -> \nnothing\n/c -> /d -> e";
        let found: Vec<_> = read(text).collect();
        let link = |path: &str, target: &str| (PathBuf::from(path), PathBuf::from(target));
        assert_eq!(found, [link("/sys/a", "../b"), link("/c", "/d -> e")]);
    }
}
