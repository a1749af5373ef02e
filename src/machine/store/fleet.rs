//! A directory with what many machines left: records of measurements, and captures.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::order::InOrder;

/// Directories within one another that are looked into: a fleet's, a site's, a router's, a day's.
const DEPTH: usize = 4;

/// A file, or a directory that is a captured machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// A record, by its name: `*.json`, and what an experiment leaves that did not end.
    Record(PathBuf),
    /// A capture: `*.tar.gz`, or a directory that holds a machine's `proc`.
    Capture(PathBuf),
}

/// Records and captures below a directory, by name. Other files are passed over.
///
/// # Errors
/// The system's, where a directory can't be read.
pub fn below(directory: &Path) -> io::Result<Vec<Kept>> {
    let mut found = Vec::new();
    find(directory, DEPTH, &mut found)?;
    Ok(found)
}

fn find(directory: &Path, depth: usize, found: &mut Vec<Kept>) -> io::Result<()> {
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect();
    let mut entries = entries?;
    entries.order_by(Ord::cmp);
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        if path.is_dir() && path.join("proc").is_dir() {
            found.push(Kept::Capture(path));
        } else if path.is_dir() {
            depth.checked_sub(1).map_or(Ok(()), |depth| find(&path, depth, found))?;
        } else if ends(&[".json"]) || name.contains(".json.unfinished") {
            found.push(Kept::Record(path));
        } else if ends(&[".tar.gz", ".tgz", ".tar"]) {
            found.push(Kept::Capture(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_machines_left_is_found_in_order_and_loops_end() {
        let root = crate::machine::testing::scratch("fleet-below");
        for directory in ["b/machine/proc", "a"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let files = ["a/z.json", "a/y.tar.gz", "a/x.json.unfinished-2", "a/notes.txt", "b/w.tgz"];
        for file in files {
            fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(&root, root.join("a/again")).unwrap();
        let mut found = below(&root).unwrap();
        found.retain(|kept| {
            let (Kept::Record(path) | Kept::Capture(path)) = kept;
            !path.starts_with(root.join("a/again"))
        });
        let at = |path: &str| root.join(path);
        let wanted = [
            Kept::Record(at("a/x.json.unfinished-2")),
            Kept::Capture(at("a/y.tar.gz")),
            Kept::Record(at("a/z.json")),
            Kept::Capture(at("b/machine")),
            Kept::Capture(at("b/w.tgz")),
        ];
        assert_eq!(found, wanted);
        assert!(below(&root.join("nowhere")).is_err());
    }
}
