//! Files of `watch`: what the owner wishes, and what others may read of one that runs.

use std::fs;
use std::path::Path;

use super::plan::read_text;
use super::{StateDir, read_own, write_atomically};
use crate::error::{Error, Result};
use crate::model::watch::{Running, Settings};

/// File of the owner's wishes.
pub const SETTINGS: &str = "/etc/linerate/watch.toml";
/// Name in the state directory.
const STATE: &str = "watch.json";

/// Reads the owner's wishes; all are the defaults where there is no file.
///
/// # Errors
/// A usage error that says what is wrong with the file, and where.
pub fn settings(path: &Path) -> Result<Settings> {
    if matches!(fs::symlink_metadata(path), Err(e) if e.kind() == std::io::ErrorKind::NotFound) {
        return Ok(Settings::default());
    }
    let hint = "docs/watch.md has all that can stand in it";
    let text = read_text("settings", path, hint)?;
    let what = format!("read settings {}", path.display());
    let read: Settings = text
        .parse::<toml::Table>()
        .and_then(toml::Table::try_into)
        .map_err(|e| Error::usage(what.clone(), e.message()).hint(hint))?;
    read.check().map_err(|why| Error::usage(what, why).hint(hint))?;
    Ok(read)
}

impl StateDir {
    /// State that the last watch wrote; `None` where there is none that can be read. Its process may be
    /// gone.
    #[must_use]
    pub fn watching(&self) -> Option<Running> {
        serde_json::from_slice(&read_own(&self.path().join(STATE)).ok()?).ok()
    }

    /// Writes the state of the watch that runs.
    ///
    /// # Errors
    /// Fails if the state directory can't be used.
    pub fn watches(&self, running: &Running) -> Result<()> {
        self.create()?;
        let path = self.path().join(STATE);
        let text =
            super::json::line(running).map_err(|e| Error::usage("write the state as JSON", e))?;
        write_atomically(&path, text.as_bytes()).map_err(|e| self.refused("write", &path, &e))
    }

    /// Removes the state of a watch that ends.
    ///
    /// # Errors
    /// Fails if it can't be removed.
    pub fn watches_no_more(&self) -> Result<()> {
        let path = self.path().join(STATE);
        fs::remove_file(&path).map_err(|e| self.refused("remove", &path, &e))?;
        // Anything else that is in it stays, and so does the directory.
        if let Err(e) = fs::remove_dir(self.path()) {
            log::debug!("{}: {e}", self.path().display());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_damaged_are_named_and_none_are_the_defaults() {
        let dir = crate::machine::testing::scratch("watch-settings");
        let path = dir.join("watch.toml");
        assert_eq!(settings(&path).unwrap(), Settings::default());
        for (text, why) in [
            ("every = ", "watch.toml"),
            ("every = \"soon\"", "watch.toml"),
            ("evry = 3", "evry"),
            ("[drift]\nnonsense = \"tell\"", "nonsense"),
        ] {
            fs::write(&path, text).unwrap();
            let said = settings(&path).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_state_is_read_as_it_was_written_and_damage_is_none() {
        let dir = crate::machine::testing::scratch("watch-state").join("state");
        let state = StateDir::at(&dir);
        assert_eq!(state.watching(), None);
        let running = Running { pid: 1, since_ms: 2, events: 0, last: None, troubles: Vec::new() };
        state.watches(&running).unwrap();
        assert_eq!(state.watching(), Some(running));
        fs::write(dir.join(STATE), "{").unwrap();
        assert_eq!(state.watching(), None);
        state.watches_no_more().unwrap();
        assert!(!dir.exists());
        fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    }
}
