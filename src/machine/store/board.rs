//! Results of `bench wireguard --board`, as JSON (docs/board.md).

use std::path::Path;

use serde::Serialize;

use super::result::{bytes, document};
use super::{json, write_file};
use crate::error::{Error, Result};
use crate::model::board::BoardResult;

/// Value of `format` in such a file.
pub const FORMAT: &str = "linerate-board";
/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;
const HINT: &str = "give a file that `linerate bench wireguard --board -o FILE` wrote";

/// A result with its format's name, as it is written.
#[derive(Debug, Serialize)]
pub struct Envelope<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    result: &'a BoardResult,
}

impl<'a> Envelope<'a> {
    /// Wraps a result.
    #[must_use]
    pub fn of(result: &'a BoardResult) -> Self {
        Self { format: FORMAT, version: VERSION, result }
    }
}

/// Reads a result's text; `name` is what errors call it.
///
/// # Errors
/// A usage error that says what is wrong with the file.
pub fn from_json(text: &[u8], name: &str) -> Result<BoardResult> {
    document(text, name, FORMAT, VERSION, HINT)
}

/// Reads a file.
///
/// # Errors
/// A usage error (exit 2) that says what is wrong with the file; exit 4 if it may not be read.
pub fn read(path: &Path) -> Result<BoardResult> {
    from_json(&bytes(path, HINT)?, &path.display().to_string())
}

/// Writes a file: all of it or, whatever happens, what was there before.
///
/// # Errors
/// A usage error (exit 2) with the path and why; exit 4 if it may not be written.
pub fn write(path: &Path, result: &BoardResult) -> Result<()> {
    let mut text = json::pretty(&Envelope::of(result))
        .map_err(|e| Error::usage("write the result as JSON", e))?;
    text.push('\n');
    write_file("result", path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &[u8] = include_bytes!("../../../fixtures/formats/board-v1.json");

    #[test]
    fn a_version_1_file_loads_and_is_written_as_it_was() {
        let result = from_json(V1, "v1").unwrap();
        assert_eq!(result.device, "Example Board / Example SoC");
        let written = serde_json::to_value(Envelope::of(&result)).unwrap();
        assert_eq!(written, serde_json::from_slice::<serde_json::Value>(V1).unwrap());
    }

    #[test]
    fn what_is_no_result_is_named_for_what_it_is() {
        let text = String::from_utf8(V1.to_vec()).unwrap();
        for (text, expect) in [
            (String::new(), "empty"),
            (text[..text.len() / 2].to_owned(), "cut short"),
            (text.replacen("\"version\": 1", "\"version\": 2", 1), "a newer linerate"),
            (text.replacen("\"version\": 1", "\"version\": 0", 1), "does not exist"),
            ("{\"format\": \"linerate-result\", \"version\": 1}".into(), "linerate-result"),
            ("{\"format\": \"linerate-board\", \"version\": 1}".into(), "missing field"),
            ("| a | b |".into(), "not JSON"),
        ] {
            let error = from_json(text.as_bytes(), "r.json").unwrap_err().to_string();
            assert!(error.contains(expect), "{expect}: {error}");
        }
    }
}
