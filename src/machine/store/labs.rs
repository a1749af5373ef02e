//! Records of named labs: `labs/<id>.json` in the state directory.
//!
//! A record is written before anything of its lab is made and removed after everything is gone, so
//! that a crash at any point leaves a record to find the lab by.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::StateDir;
use crate::error::{Error, ExitCode, Result};
use crate::model::order::InOrder;

/// Version of the format.
pub const VERSION: u32 = 1;

/// Record of a named lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabRecord {
    /// Version of the format.
    pub version: u32,
    /// Identity, part of the namespaces' names.
    pub id: String,
    /// Time when the lab was made (RFC 3339, UTC).
    pub created: String,
    /// Filter rules in its router.
    pub rules: u32,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// True if its router has a flowtable.
    pub flowtable: bool,
}

/// The records of one state directory.
#[derive(Debug, Clone)]
pub struct LabRecords {
    state: StateDir,
}

impl LabRecords {
    /// The records in `state`. Nothing is made yet.
    #[must_use]
    pub fn of(state: StateDir) -> Self {
        Self { state }
    }

    fn directory(&self) -> PathBuf {
        self.state.path().join("labs")
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory().join(format!("{id}.json"))
    }

    /// Writes a record, whole or not at all.
    ///
    /// # Errors
    /// An error if the state directory can't be used.
    pub fn save(&self, record: &LabRecord) -> Result<()> {
        self.state.create()?;
        let path = self.path(&record.id);
        let scratch = path.with_extension("new");
        let write = || -> io::Result<()> {
            match fs::create_dir(self.directory()) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            fs::write(&scratch, serde_json::to_vec_pretty(record)?)?;
            fs::rename(&scratch, &path)
        };
        write().map_err(|e| failed(format!("write {}", path.display()), &e))
    }

    /// The ids of all records, readable or not, sorted.
    ///
    /// # Errors
    /// An error if the directory is there and can't be read.
    pub fn ids(&self) -> Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            let mut ids = Vec::new();
            for entry in fs::read_dir(self.directory())? {
                let path = PathBuf::from(entry?.file_name());
                if let Some(id) = path.file_stem()
                    && path.extension().is_some_and(|e| e == "json" || e == "new")
                {
                    ids.push(id.to_string_lossy().into_owned());
                }
            }
            ids.order_by(Ord::cmp);
            ids.dedup();
            Ok(ids)
        };
        match list() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(|e| failed(format!("list {}", self.directory().display()), &e)),
        }
    }

    /// Record of a lab; `None` when there is none, or none that can be read.
    #[must_use]
    pub fn read(&self, id: &str) -> Option<LabRecord> {
        let bytes = fs::read(self.path(id)).ok()?;
        serde_json::from_slice(&bytes).ok().filter(|r: &LabRecord| r.version == VERSION)
    }

    /// Forgets a lab; true if there was a record.
    ///
    /// # Errors
    /// An error if the file can't be removed.
    pub fn remove(&self, id: &str) -> Result<bool> {
        let path = self.path(id);
        let mut found = false;
        for path in [path.with_extension("new"), path] {
            match fs::remove_file(&path) {
                Ok(()) => found = true,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(format!("remove {}", path.display()), &e)),
            }
        }
        // Directories go when they are empty; one that is not empty is no failure.
        for directory in [self.directory(), self.state.path().to_owned()] {
            if let Err(e) = fs::remove_dir(&directory) {
                log::debug!("{} stays: {e}", directory.display());
                break;
            }
        }
        Ok(found)
    }
}

fn failed(what: String, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::not_permitted(what, error).hint("run it as root"),
        _ => Error::new(ExitCode::NotSupported, what, error)
            .hint("LINERATE_STATE_DIR names another state directory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_again_and_a_broken_one_still_names_its_lab() {
        let directory = std::env::temp_dir().join(format!("linerate-labs-{}", std::process::id()));
        let records = LabRecords::of(StateDir::at(&directory));
        assert_eq!(records.ids().unwrap(), [""; 0]);
        let record = LabRecord {
            version: VERSION,
            id: "00000a".into(),
            created: "2026-11-21T05:24:05Z".into(),
            rules: 300,
            mtu: 1500,
            flowtable: false,
        };
        records.save(&record).unwrap();
        assert_eq!(records.read("00000a"), Some(record.clone()));
        fs::write(records.path("00000b"), "{\"version\": 1").unwrap();
        records.save(&LabRecord { version: VERSION + 1, id: "00000c".into(), ..record }).unwrap();
        assert_eq!(records.ids().unwrap(), ["00000a", "00000b", "00000c"]);
        assert_eq!(records.read("00000b"), None);
        assert_eq!(records.read("00000c"), None, "of a newer version");
        for id in ["00000a", "00000b", "00000c"] {
            assert!(records.remove(id).unwrap());
            assert!(!records.remove(id).unwrap());
        }
        assert!(!directory.exists(), "nothing stays");
    }
}
