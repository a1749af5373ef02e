//! Labs that outlive the command that made them: `linerate lab up|down|shell`.
//!
//! Their namespaces are `lr-<id>-lan`, `lr-<id>-router` and `lr-<id>-wan`, seen and entered by
//! `ip netns` like any other. A record in the state directory comes before the first of them and
//! goes after the last, and [`down`] needs either of the two to find what a crash has left.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Lab, LabSpec, Shape, build};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::store::labs::{LabRecord, LabRecords, VERSION};
use crate::machine::sys::netns::NetnsThread;
use crate::machine::sys::{pinned, spawn};
use crate::model::order::InOrder;

const PREFIX: &str = "lr-";
/// Hexadecimal digits of an id.
const ID_LENGTH: usize = 6;

/// One of a lab's namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The client's side.
    Lan,
    /// The router.
    Router,
    /// The server's side.
    Wan,
}

impl Role {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Lan, Self::Router, Self::Wan];

    /// Name of the role.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Router => "router",
            Self::Wan => "wan",
        }
    }

    /// The namespace's name for `ip netns`.
    fn namespace(self, id: &str) -> String {
        format!("{PREFIX}{id}-{}", self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| Error::usage(format!("lab side {text:?}"), "it is lan, router or wan"))
    }
}

/// A lab with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedLab {
    /// Identity of the lab, unique on this machine.
    pub id: String,
    /// Time of creation (RFC 3339, UTC); `None` without a readable record.
    pub created: Option<String>,
    /// Specification of the router; `None` without a readable record.
    pub spec: Option<LabSpec>,
    /// Namespaces of the lab that are there: all three, but after a crash.
    pub namespaces: Vec<(Role, PathBuf)>,
}

impl NamedLab {
    /// True if no part of the lab is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.spec.is_some() && self.namespaces.len() == Role::ALL.len()
    }
}

/// Parts of one lab that [`down`] removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Identity of the lab.
    pub id: String,
    /// Namespaces of the lab, by their files.
    pub namespaces: Vec<PathBuf>,
    /// True if there was a record.
    pub record: bool,
}

/// Builds a lab that stays.
///
/// # Errors
/// As [`Lab::build`]; exit 5 when the names can't be kept. Nothing stays then. Exit 2 for a shape
/// that the record can't hold: what needs programs ends with this process.
pub fn up(spec: &LabSpec) -> Result<NamedLab> {
    let plain = Shape { flowtable: spec.shape.flowtable, ..Shape::default() };
    if spec.shape != plain || spec.flows > 0 {
        let why = format!("{} can't be kept; nat and nat+flowtable can", spec.shape);
        return Err(Error::usage("lab up", why));
    }
    let records = records();
    let lab = Lab::build(spec)?;
    let id = unused_id(&records)?;
    let created = clock::wall();
    let record = LabRecord {
        version: VERSION,
        id: id.clone(),
        created: created.clone(),
        rules: spec.rules,
        mtu: spec.mtu,
        flowtable: spec.shape.flowtable,
    };
    records.save(&record)?;
    let kept = pin(&lab, &id);
    if let Err(error) = kept {
        if let Err(left) = take_down(&records, &id) {
            log::warn!("{left}");
        }
        return Err(error);
    }
    let namespaces = Role::ALL.map(|role| (role, path(role, &id))).to_vec();
    Ok(NamedLab { id, created: Some(created), spec: Some(*spec), namespaces })
}

fn pin(lab: &Lab, id: &str) -> Result<()> {
    for (role, netns) in [(Role::Lan, &lab.lan), (Role::Router, &lab.router), (Role::Wan, &lab.wan)]
    {
        let name = role.namespace(id);
        pinned::pin(netns.as_fd(), &name)
            .map_err(|e| build::system(&format!("lab: keep {}", path(role, id).display()), &e))?;
    }
    Ok(())
}

/// All named labs, whole or not, by id.
///
/// # Errors
/// Fails if the state directory or /run/netns is there and can't be read.
pub fn list() -> Result<Vec<NamedLab>> {
    let records = records();
    let names = names()?;
    let found = ids(&records, &names)?.into_iter().map(|id| {
        let record = records.read(&id);
        let here = |role: &Role| names.contains(&role.namespace(&id));
        let namespaces =
            Role::ALL.into_iter().filter(here).map(|role| (role, path(role, &id))).collect();
        let spec = record.as_ref().map(|r| LabSpec {
            shape: Shape { flowtable: r.flowtable, ..Shape::default() },
            ..LabSpec::nat(r.rules, r.mtu)
        });
        NamedLab { created: record.map(|r| r.created), spec, namespaces, id }
    });
    Ok(found.collect())
}

/// Removes a lab, or all: what is there of each, whether whole, half-made or without a record.
/// Nothing but names of exactly our form is touched, and where there is nothing, nothing is done.
///
/// # Errors
/// Exit 2 for a text that is no valid id; 8 if something can't be removed: it is named, all else is
/// removed.
pub fn down(id: Option<&str>) -> Result<Vec<Removed>> {
    let records = records();
    let targets = match id {
        Some(id) if is_id(id) => vec![id.to_owned()],
        Some(id) => return Err(no_id(id)),
        None => ids(&records, &names()?)?,
    };
    let mut removed = Vec::new();
    let mut left = Vec::new();
    for id in targets {
        match take_down(&records, &id) {
            Ok(gone) if gone.record || !gone.namespaces.is_empty() => removed.push(gone),
            Ok(_) => {}
            Err(error) => left.push(error),
        }
    }
    match left.into_iter().next() {
        None => Ok(removed),
        Some(first) => Err(first),
    }
}

fn take_down(records: &LabRecords, id: &str) -> Result<Removed> {
    let mut namespaces = Vec::new();
    for role in Role::ALL {
        let path = path(role, id);
        let removed = pinned::unpin(&role.namespace(id)).map_err(|e| {
            let error = build::system(&format!("lab: remove {}", path.display()), &e);
            match error.code() {
                ExitCode::NotPermitted => error,
                _ => error.with_code(ExitCode::RollbackIncomplete),
            }
        })?;
        if removed {
            namespaces.push(path);
        }
    }
    Ok(Removed { id: id.to_owned(), namespaces, record: records.remove(id)? })
}

/// Runs a program (or, with an empty `argv`, the user's shell) inside a lab, with that
/// namespace's /sys; its exit status.
///
/// # Errors
/// Exit 2 if there is no such lab or program, 4 without the privileges.
pub fn enter(id: &str, role: Role, argv: &[OsString]) -> Result<u8> {
    if !is_id(id) {
        return Err(no_id(id));
    }
    let file = path(role, id);
    let netns = NetnsThread::enter(&file).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::usage(format!("lab {id}"), "there is none")
            .hint("`linerate lab up` makes one and tells its id"),
        _ => build::system(&format!("lab: enter {}", file.display()), &e),
    })?;
    let (program, arguments) = match argv.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => (std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()), Vec::new()),
    };
    let what = format!("run {}", program.to_string_lossy());
    build::run(&netns, move || spawn::status(&program, &arguments))?
        .map_err(|e| Error::usage(what, e))
}

fn records() -> LabRecords {
    LabRecords::of(crate::machine::store::state_dir())
}

fn names() -> Result<Vec<String>> {
    pinned::names().map_err(|e| build::system(&format!("lab: list {}", pinned::DIRECTORY), &e))
}

/// Ids with a record or a namespace, sorted.
fn ids(records: &LabRecords, names: &[String]) -> Result<Vec<String>> {
    let mut ids: Vec<String> = records.ids()?.into_iter().filter(|id| is_id(id)).collect();
    ids.extend(names.iter().filter_map(|name| id_in(name)).map(str::to_owned));
    ids.order_by(Ord::cmp);
    ids.dedup();
    Ok(ids)
}

/// The id in a namespace's name of our form.
fn id_in(name: &str) -> Option<&str> {
    let (id, role) = name.strip_prefix(PREFIX)?.split_once('-')?;
    (is_id(id) && Role::ALL.iter().any(|r| r.name() == role)).then_some(id)
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn no_id(text: &str) -> Error {
    Error::usage(format!("lab {text:?}"), "an id has six hexadecimal digits")
        .hint("`linerate lab up` tells it, and `ip netns` shows it between lr- and -router")
}

fn unused_id(records: &LabRecords) -> Result<String> {
    let taken = ids(records, &names()?)?;
    // 16 million ids: a free one comes up at once.
    let mut candidates = std::iter::repeat_with(|| format!("{:06x}", fastrand::u32(..1 << 24)));
    Ok(candidates.find(|id| !taken.contains(id)).unwrap_or_default())
}

fn path(role: Role, id: &str) -> PathBuf {
    Path::new(pinned::DIRECTORY).join(role.namespace(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_exact_form_are_ours() {
        assert_eq!(id_in("lr-00beef-lan"), Some("00beef"));
        for foreign in [
            "lr-00beef",
            "lr-00beef-",
            "lr-00BEEF-lan",
            "lr-00beef-lan2",
            "lr-lan",
            "lr-00beef7-lan",
            "xlr-00beef-lan",
            "lr-..-lan",
            "vpn",
            "",
        ] {
            assert_eq!(id_in(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn what_cannot_be_an_id_never_becomes_a_path() {
        for text in ["", "../../etc", "00beef-lan", "00BEEF", "0"] {
            assert_eq!(down(Some(text)).unwrap_err().code(), ExitCode::Usage, "{text}");
            assert_eq!(enter(text, Role::Lan, &[]).unwrap_err().code(), ExitCode::Usage, "{text}");
        }
        assert_eq!("wan".parse::<Role>().unwrap(), Role::Wan);
        assert!("dmz".parse::<Role>().is_err());
    }
}
