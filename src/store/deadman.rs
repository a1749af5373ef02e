//! What the dead-man's guard goes by: a file that stands for "not confirmed yet".

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Lock, StateDir, write_atomically};
use crate::error::Result;

/// A change that is undone at its deadline unless somebody confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Armed {
    /// Tells this arming from a later one.
    pub token: u64,
    /// The deadline, in milliseconds of CLOCK_BOOTTIME: setting the clock moves nothing.
    pub deadline_ms: u64,
    /// The boot that this clock counts from.
    pub boot_id: String,
    /// Journals with higher numbers are what is to be undone.
    pub after: u32,
}

impl StateDir {
    fn deadman(&self) -> PathBuf {
        self.path().join("deadman.json")
    }

    /// The change that waits to be confirmed; `None` also where the file is damaged, for then
    /// nothing is known that could be undone by it.
    ///
    /// # Errors
    /// When the state directory can't be read.
    pub fn armed(&self) -> Result<Option<Armed>> {
        match fs::read(self.deadman()) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.refused("read", &self.deadman(), &e)),
        }
    }

    /// Arms it, in place of an earlier one.
    ///
    /// # Errors
    /// When the state directory can't be written.
    pub fn arm(&self, _lock: &Lock, armed: &Armed) -> Result<()> {
        let path = self.deadman();
        let bytes =
            serde_json::to_vec(armed).map_err(|e| self.refused("write", &path, &e.into()))?;
        write_atomically(&path, &bytes).map_err(|e| self.refused("write", &path, &e))
    }

    /// Takes it away: confirmed, undone, or never begun.
    ///
    /// # Errors
    /// When the state directory can't be written.
    pub fn disarm(&self, _lock: &Lock) -> Result<()> {
        match fs::remove_file(self.deadman()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(self.refused("remove", &self.deadman(), &e))
            }
            _ => Ok(()),
        }
    }

    /// The number of the newest journal; 0 without any.
    ///
    /// # Errors
    /// When the state directory can't be read.
    pub fn newest_journal(&self) -> Result<u32> {
        Ok(self.numbers()?.last().copied().unwrap_or(0))
    }
}
