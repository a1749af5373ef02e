//! Files of the dead-man: one that stands for "not confirmed yet", and the record that it leaves
//! behind when it had to act.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::check::{checked, with_check};
use super::journal::JournalLine;
use super::{Lock, StateDir, make_way, read_own, write_atomically};
use crate::error::Result;
use crate::model::identity::HostIdentity;

/// A change that is undone at its deadline unless somebody confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Armed {
    /// Number that distinguishes this arming from a later one.
    pub token: u64,
    /// Deadline in milliseconds of CLOCK_BOOTTIME: setting the clock moves nothing.
    pub deadline_ms: u64,
    /// Boot that this clock counts from, and the network namespace that was changed.
    #[serde(flatten)]
    pub host: HostIdentity,
    /// Number of the newest journal before the change: those with higher numbers are to be undone.
    pub after: u32,
    /// Targets that answered before the change, and must go on answering.
    #[serde(default)]
    pub watched: Vec<Target>,
    /// Process that tries settings and holds the lock for as long as it does: when the lock is free
    /// it has ended, and there is nobody left to put them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<u32>,
    /// Undoing of the change that was begun, while not all of it could be restored yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoing: Option<Undoing>,
}

/// An undoing that was begun and has not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoing {
    /// Reason, in words for a person.
    pub why: String,
    /// Number of settings that were put back so far.
    pub restored: usize,
    /// Settings that the last try could not put back, in the words of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

impl Undoing {
    /// An undoing that begins now.
    #[must_use]
    pub fn begun(why: &str) -> Self {
        Self { why: why.to_owned(), restored: 0, left: None }
    }
}

/// A change that was undone because nobody confirmed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// Time of the undoing, in milliseconds of CLOCK_BOOTTIME.
    pub at_ms: u64,
    /// Boot that this clock counts from, and the network namespace.
    #[serde(flatten)]
    pub host: HostIdentity,
    /// Reason, in words for a person.
    pub why: String,
    /// Number of settings that were put back.
    pub restored: usize,
    /// Settings that could not be put back, in the words of the error.
    pub left: Option<String>,
}

/// An address that is probed to find out if the machine still reaches it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Address.
    pub address: IpAddr,
    /// Device that the address is behind: a link-local address means nothing without.
    pub device: Option<String>,
    /// True if the target answers no ping, but ARP or neighbour discovery, so that it is probed by
    /// that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_neighbour: bool,
}

/// Text as people write it: `198.18.0.1`, `fe80::1%eth0`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{}%{device}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (address, device) = match text.split_once('%') {
            Some((address, device)) => (address, Some(device.to_owned())),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| "not an IP address".to_owned())?;
        if device.is_none() && matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            return Err("a link-local address needs its device: fe80::1%eth0".into());
        }
        Ok(Self { address, device, as_neighbour: false })
    }
}

impl StateDir {
    fn deadman(&self) -> PathBuf {
        self.path().join("deadman.json")
    }

    fn undone_file(&self) -> PathBuf {
        self.path().join("undone.json")
    }

    /// The change that waits to be confirmed; `None` also where the file is damaged: the guard has
    /// what was in it, and writes it anew.
    ///
    /// # Errors
    /// An error if the state directory can't be read.
    pub fn armed(&self) -> Result<Option<Armed>> {
        self.read_small(&self.deadman())
    }

    /// The last change that was undone because nobody confirmed it, until somebody has read of it.
    ///
    /// # Errors
    /// An error if the state directory can't be read.
    pub fn undone(&self) -> Result<Option<Undone>> {
        self.read_small(&self.undone_file())
    }

    fn read_small<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>> {
        match read_own(path) {
            Ok(bytes) => {
                // Earlier versions wrote the JSON alone, which a line with a checksum is not.
                let json = bytes.strip_suffix(b"\n").and_then(checked).unwrap_or(&bytes);
                Ok(serde_json::from_slice(json).ok())
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.refused("read", path, &e)),
        }
    }

    fn write_small(&self, path: &Path, value: &impl Serialize) -> Result<()> {
        let bytes = with_check(value).map_err(|e| self.refused("write", path, &e.into()))?;
        make_way(path)
            .and_then(|()| write_atomically(path, &bytes))
            .map_err(|e| self.refused("write", path, &e))
    }

    fn remove_small(&self, path: &Path) -> Result<()> {
        match make_way(path).and_then(|()| fs::remove_file(path)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.refused("remove", path, &e)),
            _ => Ok(()),
        }
    }

    /// Arms the dead-man, in place of an earlier arming. What is changed under this lock from here on
    /// is the change that waits.
    ///
    /// # Errors
    /// An error if the state directory can't be written.
    pub fn arm(&self, lock: &Lock, armed: &Armed) -> Result<()> {
        self.write_small(&self.deadman(), armed)?;
        lock.guard(Some(armed.token));
        Ok(())
    }

    /// Takes an arming away: confirmed, undone, or never begun. What is left of its change is noted
    /// as kept in the journals, by which the guard tells this from a file that was removed.
    ///
    /// # Errors
    /// An error if the state directory can't be written.
    pub fn disarm(&self, lock: &Lock, token: u64) -> Result<()> {
        let journals = self.journals()?.whole;
        let left = journals.iter().filter(|j| j.header.guarded == Some(token) && !j.is_kept);
        let keep = || {
            left.clone().try_for_each(|j| self.add_step(lock, j.number, JournalLine::Kept(true)))
        };
        let kept = keep();
        self.remove_small(&self.deadman())?;
        // On a full disk there is room for it now.
        kept.or_else(|_| keep())?;
        lock.guard(None);
        Ok(())
    }

    /// Keeps the record of an undone change and the reason, for whoever comes and asks.
    ///
    /// # Errors
    /// An error if the state directory can't be written.
    pub fn keep_undone(&self, _lock: &Lock, undone: &Undone) -> Result<()> {
        self.write_small(&self.undone_file(), undone)
    }

    /// Forgets the undone change: somebody has read of it, or it is history.
    ///
    /// # Errors
    /// An error if the state directory can't be written.
    pub fn forget_undone(&self, _lock: &Lock) -> Result<()> {
        self.remove_small(&self.undone_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_watch_is_written_as_people_write_it() {
        for text in ["198.18.0.1", "2001:db8::1", "fe80::1%eth0"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("router.lan", "not an IP"),
            ("198.18.0", "not an IP"),
            ("fe80::1", "needs its device"),
        ] {
            assert!(text.parse::<Target>().unwrap_err().contains(why), "{text}");
        }
    }
}
