//! The boot guard: settings that the machine did not survive are not applied a third time.
//!
//! ```text
//!   first event of a boot ─▶ "this boot applies"   (one small file)
//!   five minutes later    ─▶ "it stayed up"        (the same file)
//!   a boot that finds the first without the second counts one; at two, settings are skipped
//! ```
//!
//! In between nothing runs but a timer of systemd's, or a sleeping shell under procd. Boots are told
//! apart by their id and time is CLOCK_BOOTTIME: a router's wall clock starts anywhere.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::machine::store::disk::{Disk, Thing};

/// File in which the boots are counted.
pub const GUARD: &str = "/etc/linerate/guard.json";

/// Time that a boot has to last.
pub const LONG_ENOUGH: Duration = Duration::from_secs(5 * 60);

/// So many short boots in a row, and settings are skipped.
const TOO_OFTEN: u32 = 2;

/// Record of the boots with persisted settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The newest boot that applied them.
    pub boot_id: String,
    /// True once that boot lasted.
    pub stayed: bool,
    /// Number of boots before it, in a row, that did not last.
    pub short_boots: u32,
    /// True if settings are skipped until somebody persists them again.
    pub skip: bool,
}

/// Decision on whether settings may be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The settings may be applied.
    Apply,
    /// The machine went down twice with them.
    Skip,
}

impl Guard {
    /// Record for settings that are persisted in the boot `boot_id`: that boot does not count.
    #[must_use]
    pub fn fresh(boot_id: &str) -> Self {
        Self { boot_id: boot_id.to_owned(), stayed: true, short_boots: 0, skip: false }
    }

    /// The record once the boot `boot_id` has begun.
    fn next(before: Option<Self>, boot_id: &str) -> Self {
        match before {
            None => Self { stayed: false, ..Self::fresh(boot_id) },
            Some(same) if same.boot_id == boot_id || same.skip => same,
            Some(other) => {
                let short_boots = if other.stayed { 0 } else { other.short_boots + 1 };
                let skip = short_boots >= TOO_OFTEN;
                Self { boot_id: boot_id.to_owned(), stayed: false, short_boots, skip }
            }
        }
    }

    /// The record as its file has it.
    pub(super) fn thing(&self) -> Thing {
        // A struct of plain fields always has a form in JSON.
        Thing::text(0o644, serde_json::to_string(self).unwrap_or_default() + "\n")
    }
}

/// Reads the record; `None` where there is none that can be read.
#[must_use]
pub fn read(disk: &dyn Disk) -> Option<Guard> {
    let thing = disk.look(Path::new(GUARD)).ok()?;
    serde_json::from_str(thing.as_text()?).ok()
}

/// Counts the boot `boot_id`, the first time that it is called in it, and decides whether settings
/// may be applied.
///
/// # Errors
/// Fails as the file system does. Then nothing may be applied: a boot that is not counted could be
/// repeated for ever.
pub fn enter(disk: &dyn Disk, boot_id: &str) -> io::Result<Verdict> {
    let before = read(disk);
    let now = Guard::next(before.clone(), boot_id);
    if before.as_ref() != Some(&now) {
        write(disk, &now)?;
    }
    Ok(if now.skip { Verdict::Skip } else { Verdict::Apply })
}

/// Notes that the boot `boot_id` lasted.
///
/// # Errors
/// What the file system answered.
pub fn stayed(disk: &dyn Disk, boot_id: &str) -> io::Result<()> {
    match read(disk) {
        Some(guard) if guard.boot_id == boot_id && !guard.stayed && !guard.skip => {
            write(disk, &Guard::fresh(boot_id))
        }
        _ => Ok(()),
    }
}

fn write(disk: &dyn Disk, guard: &Guard) -> io::Result<()> {
    let (path, draft) = (Path::new(GUARD), Path::new("/etc/linerate/.guard.json"));
    if disk.look(draft)? != Thing::Absent {
        disk.remove(draft)?;
    }
    disk.create(draft, &guard.thing())?;
    disk.rename(draft, path)?;
    disk.sync_directory(Path::new(super::HOME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::store::disk::Root;
    use crate::machine::store::disk::faulty::{Fault, FaultyDisk};

    fn scene(name: &str) -> (std::path::PathBuf, Root) {
        let dir = crate::machine::testing::scratch(name);
        std::fs::create_dir_all(dir.join("etc/linerate")).unwrap();
        (dir.clone(), Root::at(dir))
    }

    /// Verdicts on boots named by a digit, with `+` behind one that lasted.
    fn boots(sequence: &[&str]) -> Vec<Verdict> {
        let (dir, root) = scene("guard");
        write(&root, &Guard::fresh("0")).unwrap();
        let verdicts = sequence.iter().map(|boot| {
            let id = boot.trim_end_matches('+');
            let verdict = enter(&root, id).unwrap();
            assert_eq!(enter(&root, id).unwrap(), verdict, "a boot is counted once");
            if boot.ends_with('+') {
                stayed(&root, id).unwrap();
            }
            verdict
        });
        let verdicts = verdicts.collect();
        std::fs::remove_dir_all(dir).unwrap();
        verdicts
    }

    #[test]
    fn two_short_boots_in_a_row_and_the_third_goes_without_and_so_do_all_after_it() {
        use Verdict::{Apply, Skip};
        assert_eq!(boots(&["1", "2", "3", "4+", "5"]), [Apply, Apply, Skip, Skip, Skip]);
        assert_eq!(boots(&["1", "2+", "3", "4+", "5"]), [Apply; 5]);
        assert_eq!(boots(&["1+", "2+", "3", "4", "5"]), [Apply, Apply, Apply, Apply, Skip]);
    }

    #[test]
    fn a_boot_that_cant_be_counted_applies_nothing_and_loses_no_count() {
        for fault in [Fault::Full, Fault::Killed, Fault::Torn] {
            for at in 0..3 {
                let (dir, root) = scene("guard-fault");
                write(&root, &Guard { stayed: false, ..Guard::fresh("1") }).unwrap();
                let disk = FaultyDisk::new(root.clone(), at, fault);
                let entered = enter(&disk, "2");
                if fault != Fault::Full || at == 0 {
                    assert!(entered.is_err(), "{fault:?} at {at}");
                }
                // The same boot, or the one after the power cut, counts on.
                enter(&root, "3").unwrap();
                let now = read(&root).unwrap();
                assert!(now.short_boots >= 1 && now.boot_id == "3", "{fault:?} at {at}: {now:?}");
                std::fs::remove_dir_all(dir).unwrap();
            }
        }
    }

    #[test]
    fn a_boot_writes_once_and_once_when_it_lasted() {
        let (dir, root) = scene("guard-writes");
        let disk = FaultyDisk::new(root, usize::MAX, Fault::Full);
        enter(&disk, "1").unwrap();
        let one = disk.count();
        for _ in 0..10 {
            enter(&disk, "1").unwrap();
        }
        assert_eq!(disk.count(), one);
        stayed(&disk, "1").unwrap();
        stayed(&disk, "1").unwrap();
        assert_eq!(disk.count(), 2 * one);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
