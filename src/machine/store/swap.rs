//! Several files changed together: all of them or none, also when the disk is full or the power
//! goes.
//!
//! ```text
//!   look ─▶ journal (all old and new contents), fsynced
//!             ─▶ new contents beside the old ones, fsynced: whatever needs space is done here
//!                 ─▶ rename, one by one ─▶ the journal renamed: from here on it is done
//!                                             └▶ tidy up
//!   any failure before that, or the next call after a kill: back to the old contents
//! ```

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::{Disk, Thing};
use crate::error::{Error, ExitCode, Result, words};
use crate::model::order::OneByOne;

const FORMAT: &str = "linerate-file-journal";
const VERSION: u32 = 1;

/// One file with the content that it is to get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path.
    pub path: PathBuf,
    /// Content that it is to have.
    pub to: Thing,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Journal {
    format: String,
    version: u32,
    /// Directories that are made, the upper ones first.
    make: Vec<PathBuf>,
    /// Directories that are removed at the end where they are empty, the lower ones first.
    drop: Vec<PathBuf>,
    steps: Vec<FileStep>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FileStep {
    path: PathBuf,
    from: Thing,
    to: Thing,
}

impl FileStep {
    /// Path of the new content, until it takes the name. Hidden: hotplug.d, rc.d, systemd and udev
    /// pass over such names.
    fn staged(&self) -> PathBuf {
        beside(&self.path, "new")
    }

    /// Path of the old content, for coming back without needing space.
    fn kept(&self) -> PathBuf {
        beside(&self.path, "old")
    }
}

fn beside(path: &Path, word: &str) -> PathBuf {
    let name = path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    path.with_file_name(format!(".{name}.linerate-{word}"))
}

/// Directory of our own in which the journal lies.
struct OwnDirectory<'a>(&'a Path);

impl OwnDirectory<'_> {
    fn journal(&self) -> PathBuf {
        self.0.join("changing.json")
    }
    fn draft(&self) -> PathBuf {
        self.0.join(".changing.json")
    }
    fn done(&self) -> PathBuf {
        self.0.join("changed.json")
    }
}

/// Makes all of `changes`, or none. Directories that are missing are made and returned; those of
/// `drop` are removed at the end if they are empty. `home` is a directory of our own for the
/// journal; a change that an earlier call left half done is settled first.
///
/// # Errors
/// A not-permitted (4) or not-supported (5) error, with everything as before; rollback incomplete
/// (8), with a list, if the way back failed too. The next call tries again then.
pub fn swap(
    disk: &dyn Disk,
    home: &Path,
    changes: Vec<Change>,
    drop: &[PathBuf],
) -> Result<Vec<PathBuf>> {
    settle(disk, home)?;
    let mut steps = Vec::with_capacity(changes.len());
    for Change { path, to } in changes {
        let from = disk.look(&path).map_err(|e| refused("read", &path, &e))?;
        if from != to {
            steps.push(FileStep { path, from, to });
        }
    }
    let present: Vec<PathBuf> = drop.iter().filter(|d| disk.is_directory(d)).cloned().collect();
    if steps.is_empty() && present.is_empty() {
        return Ok(Vec::new());
    }
    let home_is_new = !disk.is_directory(home);
    let mut make = missing(disk, home);
    for step in steps.iter().filter(|s| s.to != Thing::Absent) {
        for directory in missing(disk, step.path.parent().unwrap_or(&step.path)) {
            if !make.contains(&directory) {
                make.push(directory);
            }
        }
    }
    let journal = Journal { format: FORMAT.into(), version: VERSION, make, drop: present, steps };
    let home = OwnDirectory(home);
    match forward(disk, &home, &journal) {
        Ok(()) => {}
        Err((path, e)) => {
            let first = refused("write", &path, &e);
            let left = back(disk, &home, &journal, home_is_new);
            return Err(if left.is_empty() { first } else { incomplete(&first, &left) });
        }
    }
    // The change is done; any tidying up that fails now is left to the next call.
    if let Err((path, e)) = tidy(disk, &home, &journal) {
        log::warn!("{}: {}", path.display(), words(&e));
    }
    Ok(journal.make)
}

/// Removes files one by one, in this order, and then the directories that are empty: where a full disk
/// has no room for a journal. Nothing but its caller's own record knows how far it came.
///
/// # Errors
/// The first failure.
pub fn remove(disk: &dyn Disk, paths: &[PathBuf], drop: &[PathBuf]) -> Result<()> {
    for path in paths {
        if disk.look(path).map_err(|e| refused("read", path, &e))? != Thing::Absent {
            disk.remove(path).map_err(|e| refused("remove", path, &e))?;
        }
    }
    let emptied =
        drop.iter().filter(|d| disk.is_directory(d)).try_for_each(|d| drop_empty(disk, d));
    emptied.map_err(|(path, e)| refused("remove", &path, &e))
}

/// Ends a change that an earlier call left: back to the old contents, or the tidying up.
///
/// # Errors
/// A usage error if its journal can't be read; rollback incomplete (8) with a list.
pub fn settle(disk: &dyn Disk, home: &Path) -> Result<()> {
    if !disk.is_directory(home) {
        return Ok(());
    }
    let own = home;
    let home = OwnDirectory(home);
    if let Some(journal) = read(disk, &home.done())? {
        tidy(disk, &home, &journal).map_err(|(path, e)| refused("remove", &path, &e))?;
        return Ok(());
    }
    if let Some(journal) = read(disk, &home.journal())? {
        let home_is_new = journal.make.iter().any(|d| d == own);
        let left = back(disk, &home, &journal, home_is_new);
        if !left.is_empty() {
            let first = Error::not_supported("undo a change that was cut short", "see below");
            return Err(incomplete(&first, &left));
        }
        return Ok(());
    }
    // Its process was killed before the journal was whole: nothing was touched yet.
    if disk.look(&home.draft()).is_ok_and(|thing| thing != Thing::Absent) {
        let path = home.draft();
        disk.remove(&path).map_err(|e| refused("remove", &path, &e))?;
    }
    drop_empty(disk, own).map_err(|(path, e)| refused("remove", &path, &e))
}

/// Directories that have to be made for `path` to be one, the upper ones first.
#[must_use]
pub fn missing(disk: &dyn Disk, path: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = path
        .ancestors()
        .take_while(|d| !d.as_os_str().is_empty() && !disk.is_directory(d))
        .map(Path::to_owned)
        .collect();
    list.reverse();
    list
}

type Failed = (PathBuf, io::Error);

fn forward(
    disk: &dyn Disk,
    home: &OwnDirectory<'_>,
    journal: &Journal,
) -> std::result::Result<(), Failed> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |e: io::Error| (path, e)
    };
    let make = |directory: &PathBuf| -> std::result::Result<(), Failed> {
        disk.make_directory(directory).map_err(at(directory))?;
        let above = directory.parent().unwrap_or(directory);
        disk.sync_directory(above).map_err(at(above))
    };
    // Our own directory has to be there before the journal can be.
    let (first, rest): (Vec<_>, Vec<_>) =
        journal.make.iter().partition(|directory| home.0.starts_with(directory));
    first.into_iter().try_for_each(make)?;
    let text = serde_json::to_string(journal).map_err(|e| (home.journal(), e.into()))?;
    // The old contents may be for nobody else's eyes.
    disk.create(&home.draft(), &Thing::text(0o600, text)).map_err(at(&home.draft()))?;
    disk.rename(&home.draft(), &home.journal()).map_err(at(&home.journal()))?;
    disk.sync_directory(home.0).map_err(at(home.0))?;
    rest.into_iter().try_for_each(make)?;
    for step in &journal.steps {
        disk.create(&step.kept(), &step.from).map_err(at(&step.path))?;
        disk.create(&step.staged(), &step.to).map_err(at(&step.path))?;
    }
    sync_all(disk, journal)?;
    for step in &journal.steps {
        match step.to {
            Thing::Absent => disk.remove(&step.path),
            _ => disk.rename(&step.staged(), &step.path),
        }
        .map_err(at(&step.path))?;
    }
    sync_all(disk, journal)?;
    disk.rename(&home.journal(), &home.done()).map_err(at(&home.done()))?;
    if let Err(e) = disk.sync_directory(home.0) {
        // After a power cut either name may be found, and either is right.
        log::warn!("{}: {}", home.0.display(), words(&e));
    }
    Ok(())
}

fn sync_all(disk: &dyn Disk, journal: &Journal) -> std::result::Result<(), Failed> {
    let directories: BTreeSet<&Path> =
        journal.steps.iter().filter_map(|s| s.path.parent()).one_by_one();
    directories.into_iter().filter(|d| disk.is_directory(d)).try_for_each(|directory| {
        disk.sync_directory(directory).map_err(|e| (directory.to_owned(), e))
    })
}

/// Goes back to the old contents. Returns the files that are not as before, a line each.
fn back(
    disk: &dyn Disk,
    home: &OwnDirectory<'_>,
    journal: &Journal,
    home_is_new: bool,
) -> Vec<String> {
    let mut left = Vec::new();
    for step in journal.steps.iter().rev() {
        if let Err(e) = step_back(disk, step) {
            left.push(format!("{}: {}", step.path.display(), words(&e)));
        }
    }
    if !left.is_empty() {
        // The journal has to stay, for the next try.
        return left;
    }
    match back_up(disk, home, journal, home_is_new) {
        Ok(()) => Vec::new(),
        Err((path, e)) => vec![format!("{}: {}", path.display(), words(&e))],
    }
}

/// Removes the directories that were made, and the journal.
fn back_up(
    disk: &dyn Disk,
    home: &OwnDirectory<'_>,
    journal: &Journal,
    home_is_new: bool,
) -> std::result::Result<(), Failed> {
    sync_all(disk, journal)?;
    let made = journal.make.iter().rev().filter(|d| *d != home.0);
    let (above_home, elsewhere): (Vec<_>, Vec<_>) = made.partition(|d| home.0.starts_with(d));
    elsewhere.into_iter().try_for_each(|d| drop_empty(disk, d))?;
    for path in [home.draft(), home.journal()] {
        if disk.look(&path).is_ok_and(|thing| thing != Thing::Absent) {
            let removed = disk.remove(&path).and_then(|()| disk.sync_directory(home.0));
            removed.map_err(|e| (path, e))?;
        }
    }
    if home_is_new {
        drop_empty(disk, home.0)?;
    }
    above_home.into_iter().try_for_each(|d| drop_empty(disk, d))
}

fn step_back(disk: &dyn Disk, step: &FileStep) -> io::Result<()> {
    let (kept, staged) = (step.kept(), step.staged());
    let current = disk.look(&step.path)?;
    if current == step.to && current != step.from {
        match step.from {
            Thing::Absent => disk.remove(&step.path)?,
            _ if disk.look(&kept)? == step.from => disk.rename(&kept, &step.path)?,
            _ => {
                // Written anew: its copy went, or was torn by a power cut.
                remove_if_there(disk, &kept)?;
                disk.create(&kept, &step.from)?;
                disk.rename(&kept, &step.path)?;
            }
        }
    }
    remove_if_there(disk, &kept)?;
    remove_if_there(disk, &staged)
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.look(path)? {
        Thing::Absent => Ok(()),
        _ => disk.remove(path),
    }
}

fn tidy(
    disk: &dyn Disk,
    home: &OwnDirectory<'_>,
    journal: &Journal,
) -> std::result::Result<(), Failed> {
    for step in &journal.steps {
        for path in [step.kept(), step.staged()] {
            remove_if_there(disk, &path).map_err(|e| (path, e))?;
        }
    }
    sync_all(disk, journal)?;
    let (home_too, elsewhere): (Vec<_>, Vec<_>) =
        journal.drop.iter().partition(|d| home.0.starts_with(d));
    elsewhere.into_iter().try_for_each(|d| drop_empty(disk, d))?;
    disk.remove(&home.done()).map_err(|e| (home.done(), e))?;
    disk.sync_directory(home.0).map_err(|e| (home.0.to_owned(), e))?;
    home_too.into_iter().try_for_each(|d| drop_empty(disk, d))
}

/// Removes an empty directory. One that others use by now stays, and that is no failure.
fn drop_empty(disk: &dyn Disk, path: &Path) -> std::result::Result<(), Failed> {
    if !disk.is_directory(path) {
        return Ok(());
    }
    match disk.remove_directory(path) {
        Err(e) if e.kind() != io::ErrorKind::DirectoryNotEmpty => Err((path.to_owned(), e)),
        _ => Ok(()),
    }
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Journal>> {
    let thing = disk.look(path).map_err(|e| refused("read", path, &e))?;
    if thing == Thing::Absent {
        return Ok(None);
    }
    let damaged = |why: String| {
        Error::usage(format!("read {}", path.display()), why)
            .hint("it holds what files were before linerate changed them; keep a copy of it")
    };
    let text = thing.as_text().unwrap_or_default();
    let journal: Journal =
        serde_json::from_str(text).map_err(|e| damaged(format!("it is damaged: {e}")))?;
    if journal.format != FORMAT || journal.version != VERSION {
        return Err(damaged("another version of linerate wrote it".into()));
    }
    Ok(Some(journal))
}

/// Error for a file that could not be read or written.
#[must_use]
pub fn refused(verb: &str, path: &Path, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => ExitCode::NotPermitted,
        _ => ExitCode::NotSupported,
    };
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "run it as root",
        io::ErrorKind::StorageFull => "free some space there; nothing was changed",
        io::ErrorKind::ReadOnlyFilesystem => "make it writable: mount -o remount,rw /",
        _ => "nothing was changed",
    };
    Error::new(code, format!("{verb} {}", path.display()), words(error)).hint(hint)
}

fn incomplete(first: &Error, left: &[String]) -> Error {
    let list: String = left.iter().map(|line| format!("\n  {line}")).collect();
    let why = format!("{first}; not as before:{list}");
    Error::new(ExitCode::RollbackIncomplete, "change files", why)
        .hint("the next persist or unpersist tries again to undo it")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::disk::Root;
    use super::super::disk::faulty::{Fault, FaultyDisk};
    use super::*;

    type Files = BTreeMap<String, (u32, Vec<u8>)>;

    /// Every file, link and directory below `root`, with its mode and content.
    fn content(root: &Path) -> Files {
        let mut found = Files::new();
        let mut todo = vec![root.to_owned()];
        while let Some(next) = todo.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                let meta = fs::symlink_metadata(&path).unwrap();
                let mode = meta.permissions().mode();
                if meta.is_symlink() {
                    let to = fs::read_link(&path).unwrap();
                    found.insert(name, (mode, to.to_str().unwrap().into()));
                } else if meta.is_dir() {
                    found.insert(name, (mode, Vec::new()));
                    todo.push(path);
                } else {
                    found.insert(name, (mode, fs::read(&path).unwrap()));
                }
            }
        }
        found
    }

    struct Scene(PathBuf);

    impl Scene {
        fn new(name: &str) -> Self {
            let dir = crate::machine::testing::scratch(name);
            fs::create_dir(dir.join("etc")).unwrap();
            fs::write(dir.join("etc/replaced"), b"old \xff bytes").unwrap();
            fs::set_permissions(dir.join("etc/replaced"), fs::Permissions::from_mode(0o640))
                .unwrap();
            fs::write(dir.join("etc/removed"), "to go").unwrap();
            Self(dir)
        }
        fn root(&self) -> Root {
            Root::at(&self.0)
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const HOME: &str = "/etc/ours";

    fn changes() -> Vec<Change> {
        let change = |path: &str, to| Change { path: path.into(), to };
        vec![
            change("/etc/ours/plan", Thing::text(0o644, "the plan")),
            change("/etc/replaced", Thing::text(0o640, "new")),
            change("/etc/deep/er/script", Thing::text(0o755, "#!/bin/sh\n")),
            change("/etc/deep/link", Thing::Link("er/script".into())),
            change("/etc/removed", Thing::Absent),
        ]
    }

    fn new_content() -> Files {
        let scene = Scene::new("swap-new");
        swap(&scene.root(), Path::new(HOME), changes(), &[]).unwrap();
        content(&scene.0)
    }

    #[test]
    fn all_files_are_new_and_nothing_else_stays_and_the_way_back_is_exact() {
        let scene = Scene::new("swap");
        let old = content(&scene.0);
        let made = swap(&scene.root(), Path::new(HOME), changes(), &[]).unwrap();
        let new = content(&scene.0);
        assert_eq!(new["etc/deep/er/script"].0 & 0o7777, 0o755);
        assert_eq!(new["etc/deep/link"].1, b"er/script");
        assert!(!new.keys().any(|name| name.contains("linerate") || name.contains("chang")));
        let again = swap(&scene.root(), Path::new(HOME), changes(), &[]).unwrap();
        assert!(again.is_empty(), "what is so already is not written");
        let undo = vec![
            Change { path: "/etc/ours/plan".into(), to: Thing::Absent },
            Change {
                path: "/etc/replaced".into(),
                to: Thing::File {
                    mode: 0o640,
                    content: super::super::disk::Content::Bytes(b"old \xff bytes".to_vec()),
                },
            },
            Change { path: "/etc/deep/er/script".into(), to: Thing::Absent },
            Change { path: "/etc/deep/link".into(), to: Thing::Absent },
            Change { path: "/etc/removed".into(), to: Thing::text(0o644, "to go") },
        ];
        let mut drop = made;
        drop.reverse();
        swap(&scene.root(), Path::new(HOME), undo, &drop).unwrap();
        assert_eq!(content(&scene.0), old);
    }

    #[test]
    fn a_fault_at_any_operation_leaves_all_new_or_exactly_old() {
        let new = new_content();
        let faults = [
            Fault::Once(io::ErrorKind::StorageFull),
            Fault::Once(io::ErrorKind::Other),
            Fault::Once(io::ErrorKind::ReadOnlyFilesystem),
            Fault::Full,
        ];
        for fault in faults {
            for at in 0.. {
                let scene = Scene::new("swap-fault");
                let old = content(&scene.0);
                let disk = FaultyDisk::new(scene.root(), at, fault);
                let done = swap(&disk, Path::new(HOME), changes(), &[]);
                let context = format!("{fault:?} at {at}: {done:?}");
                match &done {
                    Ok(_) => {
                        // Anything that could not be tidied up is left to the next call.
                        settle(&scene.root(), Path::new(HOME)).unwrap();
                        assert_eq!(content(&scene.0), new, "{context}");
                    }
                    Err(e) => {
                        assert_eq!(e.code(), ExitCode::NotSupported, "{context}");
                        assert_eq!(content(&scene.0), old, "{context}");
                    }
                }
                if disk.count() <= at {
                    assert!(done.is_ok() && at > 20, "{context}");
                    break;
                }
            }
        }
    }

    #[test]
    fn killed_at_any_operation_the_next_call_leaves_all_new_or_exactly_old() {
        let new = new_content();
        let (mut olds, mut news) = (0, 0);
        for fault in [Fault::Killed, Fault::Torn] {
            for at in 0.. {
                let scene = Scene::new("swap-kill");
                let old = content(&scene.0);
                let disk = FaultyDisk::new(scene.root(), at, fault);
                let done = swap(&disk, Path::new(HOME), changes(), &[]);
                // The process that comes next.
                settle(&scene.root(), Path::new(HOME)).unwrap();
                let now = content(&scene.0);
                if now == old {
                    olds += 1;
                    assert!(done.is_err(), "{fault:?} at {at}");
                } else {
                    news += 1;
                    assert_eq!(now, new, "{fault:?} at {at}");
                }
                if disk.count() <= at {
                    break;
                }
            }
        }
        assert!(olds > 20 && news > 5, "{olds} {news}");
    }

    #[test]
    fn a_file_that_somebody_changed_in_between_is_not_overwritten_on_the_way_back() {
        // Killed when some are renamed.
        let scene = Scene::new("swap-meddled");
        let disk = FaultyDisk::new(scene.root(), 22, Fault::Killed);
        assert!(swap(&disk, Path::new(HOME), changes(), &[]).is_err());
        fs::write(scene.0.join("etc/replaced"), "somebody's").unwrap();
        settle(&scene.root(), Path::new(HOME)).unwrap();
        assert_eq!(fs::read(scene.0.join("etc/replaced")).unwrap(), b"somebody's");
        assert!(!scene.0.join("etc/deep").exists());
    }
}
