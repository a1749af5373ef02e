//! Settings that outlast a reboot, and reach every device when it appears.
//!
//! ```text
//!   persist ─▶ files (pure: which, with what in them) ─▶ record + swap, all or nothing ─▶ flash
//!                                                           │
//!   unpersist ◀── record: what was there before ◀───────────┘
//!
//!   boot, a device's event ─▶ guard (twice down? then skip) ─▶ event: the plan's settings of
//!                             that device and of those under it, journalled like any other
//! ```
//!
//! In come a plan and a door to a machine; out go files that apply the plan at boot, the record
//! that undoes them, and the outcome of each event. Only the files in the record and those in
//! `/etc/linerate` may be written; settings are made by way of `apply`.
//!
//! - *record*: what each file was before us and what we made of it. Undoing is a function of it and
//!   of what is found; what somebody else changed since is theirs, unless forced.
//! - Everything of ours lies in `/etc/linerate`.

pub mod event;
pub mod files;
pub mod guard;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use files::{Router, Wanted, wanted};

use crate::error::{Error, ExitCode, Result};
use crate::machine::host::{HostRead, PACKET_STEERING};
use crate::machine::parse::uci_edit as uci;
use crate::machine::store::disk::{Disk, Thing};
use crate::machine::store::swap::{Change, missing, refused, swap};
use crate::model::plan::Plan;
use guard::{GUARD, Guard};

/// Our own directory.
pub const HOME: &str = "/etc/linerate";
/// The plan that is kept in force.
pub const PLAN: &str = "/etc/linerate/plan.toml";
/// Record of what was there before.
const RECORD: &str = "/etc/linerate/persist.json";

const FORMAT: &str = "linerate-persisted";
const VERSION: u32 = 1;

/// Program that starts all others on this router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// systemd with udev.
    Systemd,
    /// OpenWrt's procd with hotplug.d.
    OpenWrt,
}

/// Finds out which init system the machine has.
///
/// # Errors
/// Not supported (exit 5) where it is neither of the two.
pub fn detect(host: &dyn HostRead) -> Result<Init> {
    let there = |path: &str| host.read(Path::new(path)).is_ok();
    // sd_booted(3).
    if host.list(Path::new("/run/systemd/system")).is_ok() {
        return Ok(Init::Systemd);
    }
    if there("/etc/openwrt_release") && there("/etc/rc.common") {
        return Ok(Init::OpenWrt);
    }
    let first = host.text(Path::new("/proc/1/comm")).unwrap_or_else(|_| "not known".into());
    Err(Error::not_supported(
        "persist",
        format!("systemd or OpenWrt's procd is missing here: the first process is {first}"),
    )
    .hint(
        "call `linerate apply --pending PLAN` from a start script of your own; --print --init \
         shows what persist would write elsewhere",
    ))
}

/// Finds the properties of this router that the files depend on.
#[must_use]
pub fn router(host: &dyn HostRead, program: &str) -> Router {
    let service = host.read(Path::new("/etc/init.d/packet_steering")).unwrap_or_default();
    // The image is mounted there as well, below what was written since.
    let image = format!("/rom{program}");
    let steering = PACKET_STEERING.committed(host);
    Router {
        former: steering.filter(|value| value.bytes().all(|b| b.is_ascii_alphanumeric())),
        own_steering: String::from_utf8_lossy(&service).contains(files::STEERING_HOOK),
        program_in_image: host.inode(Path::new(&image)).is_ok(),
    }
}

/// True if a program at `program` is gone after a reboot because it lies in memory.
#[must_use]
pub fn is_volatile(host: &dyn HostRead, program: &Path) -> bool {
    let mounts = host.text(Path::new("/proc/mounts")).unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, on, kind) = (words.next()?, words.next()?, words.next()?);
        program.starts_with(on).then_some((on.len(), kind))
    });
    // The last one mounted covers those before it.
    let last = mounts.max_by_key(|(length, _)| *length);
    last.is_some_and(|(_, kind)| matches!(kind, "tmpfs" | "ramfs" | "devtmpfs"))
}

/// Record of the changes to the router's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    format: String,
    version: u32,
    /// Program that starts all others there.
    pub init: Init,
    /// Name of the plan's candidate.
    pub plan: String,
    /// Directories that we made, the upper ones first.
    directories: Vec<PathBuf>,
    items: Vec<Item>,
}

/// One of the record's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Item {
    File { path: PathBuf, before: Thing, ours: Thing },
    Option { path: PathBuf, place: uci::OptionPlace, before: uci::Origin, ours: String },
}

impl Item {
    fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Option { path, .. } => path,
        }
    }
}

/// Reads the record; `None` where nothing is persisted.
///
/// # Errors
/// Fails if the record can't be read, or another version wrote it.
pub fn record(disk: &dyn Disk) -> Result<Option<Record>> {
    let path = Path::new(RECORD);
    let thing = disk.look(path).map_err(|e| refused("read", path, &e))?;
    if thing == Thing::Absent {
        return Ok(None);
    }
    let damaged =
        |why: &str| Error::usage(format!("read {RECORD}"), why).hint("it says what is undone how");
    let text = thing.as_text().unwrap_or_default();
    let record: Record = serde_json::from_str(text).map_err(|_| damaged("it is damaged"))?;
    if record.format != FORMAT || record.version != VERSION {
        return Err(damaged("another version of linerate wrote it"));
    }
    Ok(Some(record))
}

impl Record {
    /// Value that OpenWrt's own packet steering had before; the outer `None` where the plan leaves it
    /// alone, the inner where it was not set.
    #[must_use]
    pub fn former_steering(&self) -> Option<Option<&str>> {
        self.items.iter().find_map(|item| match item {
            Item::Option { place, before, .. } if place.option == PACKET_STEERING.option => {
                Some(match before {
                    uci::Origin::Line(line) => Some(uci::value(line)),
                    uci::Origin::NoOption | uci::Origin::NoSection => None,
                })
            }
            _ => None,
        })
    }
}

/// A file of the router's as text.
fn text_of(disk: &dyn Disk, path: &Path) -> Result<String> {
    let thing = look(disk, path)?;
    match (&thing, thing.as_text()) {
        (Thing::Absent, _) => Ok(String::new()),
        (_, Some(text)) => Ok(text.to_owned()),
        _ => Err(Error::not_supported(format!("read {}", path.display()), "it is not text")),
    }
}

fn look(disk: &dyn Disk, path: &Path) -> Result<Thing> {
    disk.look(path).map_err(|e| refused("read", path, &e))
}

/// A file with another text in it, its permissions kept.
fn edited(disk: &dyn Disk, path: &Path, text: String) -> Result<Change> {
    let mode = match look(disk, path)? {
        Thing::File { mode, .. } => mode,
        _ => 0o644,
    };
    Ok(Change { path: path.to_owned(), to: Thing::text(mode, text) })
}

/// Writes all that keeps `plan` in force, or nothing at all; gives the paths that differ now. What
/// was persisted before is replaced, and its way back is kept. `boot_id` is the present boot, where
/// the files are those of the running system.
///
/// # Errors
/// Fails as [`swap`] does; not supported when a file is not what it is taken for.
pub fn persist(
    disk: &dyn Disk,
    init: Init,
    plan: &Plan,
    files: &[Wanted],
    boot_id: Option<&str>,
) -> Result<Vec<PathBuf>> {
    crate::machine::store::swap::settle(disk, Path::new(HOME))?;
    let old = record(disk)?;
    let old_items = old.as_ref().map(|r| r.items.as_slice()).unwrap_or_default();
    let mut changes = Vec::new();
    let mut items = Vec::new();
    for file in files {
        let known = old_items.iter().find(|item| item.path() == file.path());
        match file {
            Wanted::File { path, thing } => {
                let now = look(disk, path)?;
                let before = match known {
                    Some(Item::File { before, ours, .. }) if *ours == now => before.clone(),
                    _ => now,
                };
                items.push(Item::File { path: path.clone(), before, ours: thing.clone() });
                changes.push(Change { path: path.clone(), to: thing.clone() });
            }
            Wanted::Option { path, kind, option, value } => {
                let place = uci::OptionPlace { kind: kind.clone(), option: option.clone() };
                let text = text_of(disk, path)?;
                let now = uci::look(&text, &place);
                let before = match known {
                    Some(Item::Option { before, .. }) if is_ours(&now, value) => before.clone(),
                    _ => now.clone(),
                };
                items.push(Item::Option {
                    path: path.clone(),
                    place: place.clone(),
                    before,
                    ours: value.clone(),
                });
                if !is_ours(&now, value) {
                    let line = uci::Origin::Line(uci::line(&place, value));
                    changes.push(edited(disk, path, uci::put(&text, &place, &line))?);
                }
            }
        }
    }
    // What the plan before needed and this one does not.
    for item in old_items.iter().filter(|i| !files.iter().any(|f| f.path() == i.path())) {
        match undo(disk, item, false)? {
            Undo::Change(change) => changes.push(change),
            Undo::Nothing => {}
            Undo::Theirs(_) => items.push(item.clone()),
        }
    }
    let mut directories = old.map(|r| r.directories).unwrap_or_default();
    let places = changes.iter().filter(|c| c.to != Thing::Absent).filter_map(|c| c.path.parent());
    for directory in std::iter::once(Path::new(HOME)).chain(places) {
        for new in missing(disk, directory) {
            if !directories.contains(&new) {
                directories.push(new);
            }
        }
    }
    let record = Record {
        format: FORMAT.into(),
        version: VERSION,
        init,
        plan: plan.candidate.name.clone(),
        directories,
        items,
    };
    changes.push(Change { path: RECORD.into(), to: as_thing(&record)? });
    let guard = boot_id.map_or(Thing::Absent, |boot_id| Guard::fresh(boot_id).thing());
    changes.push(Change { path: GUARD.into(), to: guard });
    let differing: Vec<PathBuf> = changes
        .iter()
        .filter(|change| disk.look(&change.path).is_ok_and(|now| now != change.to))
        .map(|change| change.path.clone())
        .collect();
    swap(disk, Path::new(HOME), changes, &[])?;
    Ok(differing)
}

fn as_thing(record: &Record) -> Result<Thing> {
    let text = serde_json::to_string_pretty(record).map_err(|e| Error::usage("persist", e))?;
    // What was in the files may be for nobody else's eyes.
    Ok(Thing::text(0o600, text + "\n"))
}

fn is_ours(now: &uci::Origin, value: &str) -> bool {
    matches!(now, uci::Origin::Line(line) if uci::says(line, value))
}

/// Way of one file back to what it was.
enum Undo {
    Change(Change),
    /// The file is so already, or somebody removed what we made.
    Nothing,
    /// Somebody else changed it: what it is now.
    Theirs(String),
}

fn undo(disk: &dyn Disk, item: &Item, force: bool) -> Result<Undo> {
    Ok(match item {
        Item::File { path, before, ours } => {
            let now = look(disk, path)?;
            if now == *before || now == Thing::Absent {
                Undo::Nothing
            } else if now == *ours || force {
                Undo::Change(Change { path: path.clone(), to: before.clone() })
            } else {
                Undo::Theirs("it was edited since".into())
            }
        }
        Item::Option { path, place, before, ours } => {
            let text = text_of(disk, path)?;
            let now = uci::look(&text, place);
            if now == *before {
                Undo::Nothing
            } else if is_ours(&now, ours) || force {
                Undo::Change(edited(disk, path, uci::put(&text, place, before))?)
            } else {
                let now = match now {
                    uci::Origin::Line(line) => line.trim().to_owned(),
                    _ => return Ok(Undo::Nothing),
                };
                Undo::Theirs(format!("it says {now:?} by now"))
            }
        }
    })
}

/// Takes back all that [`persist`] did; gives the paths. What somebody else changed since is left,
/// unless `force`.
///
/// # Errors
/// Rollback incomplete (exit 8) with the list of what was left; as [`swap`].
pub fn unpersist(disk: &dyn Disk, force: bool) -> Result<Vec<PathBuf>> {
    crate::machine::store::swap::settle(disk, Path::new(HOME))?;
    let Some(mut record) = record(disk)? else { return Ok(Vec::new()) };
    let (mut changes, mut theirs, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for item in std::mem::take(&mut record.items) {
        match undo(disk, &item, force)? {
            Undo::Change(change) => changes.push(change),
            Undo::Nothing => {}
            Undo::Theirs(why) => {
                theirs.push(format!("\n  {}: {why}", item.path().display()));
                kept.push(item);
            }
        }
    }
    let undone: Vec<PathBuf> = changes.iter().map(|c| c.path.clone()).collect();
    let mut drop = std::mem::take(&mut record.directories);
    let rest = if kept.is_empty() {
        Thing::Absent
    } else {
        as_thing(&Record { items: kept, directories: drop.clone(), ..record })?
    };
    // The record is the last to go: with it, what is cut short is begun again.
    changes.push(Change { path: GUARD.into(), to: Thing::Absent });
    changes.push(Change { path: RECORD.into(), to: rest });
    drop.reverse();
    match swap(disk, Path::new(HOME), changes.clone(), &drop) {
        // All is as before, for nothing could be written, perhaps because the flash is full.
        Err(first) if first.code() == ExitCode::NotSupported => {
            without_room(disk, changes, &drop, first)?;
        }
        swapped => swapped.map(|_| ())?,
    }
    if theirs.is_empty() {
        return Ok(undone);
    }
    let why = format!("{} changed by somebody else and left:{}", theirs.len(), theirs.concat());
    Err(Error::new(ExitCode::RollbackIncomplete, "unpersist", why)
        .hint("the rest is undone; to undo these too: linerate unpersist --force"))
}

/// Takes back what needs no room, which makes some, and then the rest. The record stays to the last,
/// so the next call goes on with what is cut short.
fn without_room(
    disk: &dyn Disk,
    changes: Vec<Change>,
    drop: &[PathBuf],
    first: Error,
) -> Result<()> {
    let (mut gone, edits): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.to == Thing::Absent);
    let edited: Vec<String> =
        edits.iter().map(|change| format!("\n  {}", change.path.display())).collect();
    let remove = |changes: &[Change], drop: &[PathBuf]| {
        let paths: Vec<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
        crate::machine::store::swap::remove(disk, &paths, drop)
    };
    let record = gone.pop_if(|last| last.path == Path::new(RECORD));
    remove(&gone, &[]).map_err(|_| first)?;
    swap(disk, Path::new(HOME), edits, &[]).map_err(|e| {
        let why =
            format!("{e}; nothing is applied any more, but these are left:{}", edited.concat());
        Error::new(ExitCode::RollbackIncomplete, "unpersist", why)
            .hint("free some space on the flash; then again: linerate unpersist")
    })?;
    remove(record.as_slice(), drop)
}
