//! Results of `bench wireguard --board`, as JSON (docs/board.md).

#![expect(clippy::disallowed_methods, reason = "store owns our own files")]

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{words, write_file};
use crate::error::{Error, Result};
use crate::model::board::BoardResult;

/// What `format` says in such a file.
pub const FORMAT: &str = "linerate-board";
/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;
/// Far more than a thousand runs.
const MAX_BYTES: u64 = 64 << 20;
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
    /// Around a result.
    #[must_use]
    pub fn of(result: &'a BoardResult) -> Self {
        Self { format: FORMAT, version: VERSION, result }
    }
}

#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u64>,
}

/// Reads a result's text; `name` is what errors call it.
///
/// # Errors
/// A usage error that says what is wrong with the file.
pub fn from_json(text: &[u8], name: &str) -> Result<BoardResult> {
    let bad = |why: String| Err(Error::usage(format!("read result {name}"), why).hint(HINT));
    let header: Header = match serde_json::from_slice(text) {
        Ok(header) => header,
        Err(e) if e.is_eof() => return bad("the file ends in the middle: it was cut short".into()),
        Err(e) => return bad(format!("not a result: {e}")),
    };
    match (header.format.as_deref(), header.version) {
        (Some(FORMAT), Some(version)) if version == u64::from(VERSION) => {}
        (Some(FORMAT), Some(version)) if version > u64::from(VERSION) => {
            return bad(format!(
                "written by a newer linerate (format version {version}; this one reads {VERSION})"
            ));
        }
        (Some(FORMAT), _) => return bad("it has no version that exists".into()),
        (other, _) => {
            return bad(format!("it is a {:?}, not a {FORMAT}", other.unwrap_or("nothing known")));
        }
    }
    match serde_json::from_slice(text) {
        Ok(result) => Ok(result),
        Err(e) => bad(format!("not as a result must be: {e}")),
    }
}

/// Reads a file.
///
/// # Errors
/// Usage (exit 2) with what is wrong with it; exit 4 if it may not be read.
pub fn read(path: &Path) -> Result<BoardResult> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Error::not_permitted(format!("read result {name}"), words(&e)));
        }
        Err(e) => {
            return Err(Error::usage(format!("read result {name}"), words(&e)).hint(HINT));
        }
        Ok(_) => {}
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::usage(format!("read result {name}"), "longer than any result"));
    }
    from_json(&bytes, &name)
}

/// Writes a file: all of it or, whatever happens, what was there before.
///
/// # Errors
/// Usage (exit 2) with the path and why; exit 4 if it may not be written.
pub fn write(path: &Path, result: &BoardResult) -> Result<()> {
    let mut text = serde_json::to_string_pretty(&Envelope::of(result))
        .map_err(|e| Error::usage("write the result as JSON", e))?;
    text.push('\n');
    write_file("result", path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &[u8] = include_bytes!("../../fixtures/formats/board-v1.json");

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
            (String::new(), "cut short"),
            (text[..text.len() / 2].to_owned(), "cut short"),
            (text.replacen("\"version\": 1", "\"version\": 2", 1), "a newer linerate"),
            (text.replacen("\"version\": 1", "\"version\": 0", 1), "no version that exists"),
            ("{\"format\": \"linerate-result\", \"version\": 1}".into(), "linerate-result"),
            ("{\"format\": \"linerate-board\", \"version\": 1}".into(), "missing field"),
            ("| a | b |".into(), "not a result"),
        ] {
            let error = from_json(text.as_bytes(), "r.json").unwrap_err().to_string();
            assert!(error.contains(expect), "{expect}: {error}");
        }
    }
}
