//! The directory of a `kernel bisect`: the two configurations, the one to build next, and the
//! answers so far, one JSON object per line.
//!
//! ```text
//!   a.config  b.config     copies: the originals may change
//!   next.config            what to build and measure
//!   answers.jsonl          a heading, then one line for each answer
//! ```
//!
//! Everything else is worked out again from these. A line that was cut short (a crash, a full disk)
//! is left out, and counted.

#![expect(clippy::disallowed_methods, reason = "our own files, never the router's settings")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{json, read_file, write_file};
use crate::error::{Error, Result};
use crate::model::bisect::BuildAnswer;

const FORMAT: &str = "linerate-bisect";
const VERSION: u32 = 1;
const ANSWERS: &str = "answers.jsonl";
/// Size limit, in bytes, of the file of answers: room for thousands.
const MOST: u64 = 16 << 20;

/// Terms that the search was begun with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    format: String,
    version: u32,
    /// Options that stay as they are in A.
    pub keep: BTreeSet<String>,
    /// Smallest effect that is looked for, as a logarithm; `None`: a tenth of the whole.
    pub smallest: Option<f64>,
}

impl Terms {
    /// New terms.
    #[must_use]
    pub fn new(keep: BTreeSet<String>, smallest: Option<f64>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, keep, smallest }
    }
}

/// Directory of one search.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
}

/// Content of the directory.
#[derive(Debug, Clone)]
pub struct Content {
    /// The first configuration, the faster one.
    pub a: Vec<u8>,
    /// The second configuration.
    pub b: Vec<u8>,
    /// Terms that the search was begun with.
    pub terms: Terms,
    /// The answers, the oldest first.
    pub answers: Vec<BuildAnswer>,
    /// Lines that were cut short and are left out.
    pub lost: usize,
}

impl Directory {
    /// The directory at `path`. Nothing is read or made yet.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if a search was begun in the directory.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.path.join(ANSWERS).exists()
    }

    /// Makes the directory. The file of answers comes last: a directory without it was never begun.
    ///
    /// # Errors
    /// A usage or not-permitted error, with path and reason.
    pub fn begin(&self, a: &[u8], b: &[u8], terms: &Terms) -> Result<()> {
        fs::create_dir_all(&self.path).map_err(|e| {
            super::failed(format!("make directory {}", self.path.display()), &e)
                .hint("name another with --dir")
        })?;
        self.write("a.config", a)?;
        self.write("b.config", b)?;
        self.write_answers(terms, &[])
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.path.join(name);
        write_file("bisect file", &path, content)?;
        Ok(path)
    }

    /// Writes the configuration to build next, and returns the path.
    ///
    /// # Errors
    /// Fails as [`Directory::begin`] does.
    pub fn write_next(&self, content: &[u8]) -> Result<PathBuf> {
        self.write("next.config", content)
    }

    /// Writes all answers: the old file or the new one, never half of it.
    ///
    /// # Errors
    /// Fails as [`Directory::begin`] does.
    pub fn write_answers(&self, terms: &Terms, answers: &[BuildAnswer]) -> Result<()> {
        let failed = |e| Error::usage("write the answers as JSON", e);
        let mut text = json::line(terms).map_err(failed)?;
        for answer in answers {
            text.push('\n');
            text.push_str(&json::line(answer).map_err(failed)?);
        }
        text.push('\n');
        self.write(ANSWERS, text.as_bytes()).map(drop)
    }

    /// Reads the directory.
    ///
    /// # Errors
    /// A usage error that says which file is missing, damaged or of a newer version.
    pub fn read(&self) -> Result<Content> {
        let hint = "linerate kernel bisect A B --dir DIR begins a search";
        let file = |name: &str| read_file("bisect file", &self.path.join(name), MOST, hint);
        let text = file(ANSWERS)?;
        let text = String::from_utf8_lossy(&text);
        let mut all = text.lines();
        let damaged = |why: &str| {
            Error::usage(format!("read bisect file {}", self.path.join(ANSWERS).display()), why)
                .hint("remove the directory and begin again; the rates can be given anew")
        };
        let terms: Terms = serde_json::from_str(all.next().unwrap_or_default())
            .map_err(|_| damaged("its first line is damaged"))?;
        if terms.format != FORMAT || terms.version == 0 {
            return Err(damaged("it is not of a kernel bisect"));
        }
        if terms.version > VERSION {
            let version = terms.version;
            return Err(damaged(&format!("a newer linerate wrote it (format {version})"))
                .hint("use that version"));
        }
        let (mut answers, mut lost) = (Vec::new(), 0);
        for line in all {
            match serde_json::from_str(line) {
                Ok(answer) => answers.push(answer),
                Err(_) => lost += 1,
            }
        }
        Ok(Content { a: file("a.config")?, b: file("b.config")?, terms, answers, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_half_written_is_left_out_and_said() {
        let scratch = crate::machine::testing::scratch("bisect");
        let directory = Directory::at(&scratch.join("new"));
        assert!(!directory.is_begun());
        let terms = Terms::new(["AUDIT".to_owned()].into(), Some(0.05));
        directory.begin(b"CONFIG_A=y\n", b"CONFIG_A=n\n", &terms).unwrap();
        let line = |rate| BuildAnswer {
            as_in_b: ["A".to_owned()].into(),
            rate: Some(rate),
            error: None,
            failed: None,
            from: None,
        };
        directory.write_answers(&terms, &[line(1.0), line(2.0)]).unwrap();
        let content = directory.read().unwrap();
        assert_eq!((content.terms.clone(), content.answers.len(), content.lost), (terms, 2, 0));
        // Cut at every byte: fewer answers, or an error, and never a panic.
        let path = directory.path().join(ANSWERS);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            if let Ok(content) = directory.read() {
                assert!(content.answers.len() + content.lost <= 2);
            }
        }
        fs::write(&path, b"{\"format\":\"linerate-bisect\",\"version\":9,\"keep\":[]}\n").unwrap();
        assert!(directory.read().unwrap_err().to_string().contains("newer"));
        fs::remove_dir_all(&scratch).unwrap();
    }
}
