//! A journal whose first line is damaged. It is never undone from, for nobody knows which of its words
//! are still those that were written; it is kept aside, and what can be read of it is reported.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// The most settings that are reported one by one.
const TOLD: usize = 20;

/// A journal that can't be undone from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Number; higher is newer.
    pub number: u32,
    /// Place of the file now.
    pub path: PathBuf,
    /// True if the file is kept aside already, and was reported then.
    pub is_aside: bool,
    why: String,
    what: Option<String>,
    set: Vec<(String, Option<String>)>,
}

impl Damaged {
    pub(super) fn new(
        number: u32,
        path: PathBuf,
        is_aside: bool,
        why: String,
        content: &[u8],
    ) -> Self {
        let text = String::from_utf8_lossy(content);
        let first = text.lines().next().unwrap_or_default();
        let paths = first.split("\"path\":").skip(1);
        let set = paths.filter_map(|entry| {
            let before = entry.split_once("\"before\":").and_then(|(_, rest)| string(rest));
            Some((string(entry)?, before))
        });
        let what = first.split_once("\"what\":").and_then(|(_, rest)| string(rest));
        Self { number, path, is_aside, why, what, set: set.collect() }
    }
}

/// The JSON string that a text begins with, if the whole of it is there.
fn string(text: &str) -> Option<String> {
    let mut begun = serde_json::Deserializer::from_str(text);
    String::deserialize(&mut begun).ok()
}

/// The damage, and what can still be known.
impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what.as_deref().unwrap_or("an unknown change");
        write!(f, "{}: the journal of {what} is damaged ({})", self.path.display(), self.why)?;
        if self.set.is_empty() {
            return f.write_str("; nothing can be read of what it changed");
        }
        f.write_str("; as far as it can be read, it may have changed:")?;
        for (path, before) in self.set.iter().take(TOLD) {
            match before {
                Some(before) => write!(f, "\n  {path}: before {before}")?,
                None => write!(f, "\n  {path}: before unknown")?,
            }
        }
        match self.set.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
