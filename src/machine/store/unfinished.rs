//! The record of an experiment while it runs: a file beside the result that grows by a line for each
//! measured cell, so that nothing measured is lost however the process ends (docs/result.md).
//!
//! ```text
//!   {"format":"linerate-unfinished","version":1, ...}\n   the result without cells; on the disk first
//!   {"cell":{..}}\n                                       on the disk when the cell counts as measured
//!   ...
//!   {"end":{"ended":"lost-agent",..}}\n                    missing after kill -9 or a power cut
//! ```
//!
//! It is removed when the result is written. A last line that is torn was never counted.

#![expect(clippy::disallowed_methods, reason = "store owns our own files")]

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::result::{self, document};
use super::{Lines, json, write_file};
use crate::error::{Error, Result};
use crate::model::measurement::{Cell, Ended, Experiment, SettingState};

/// Value of `format` in such a file.
pub const FORMAT: &str = "linerate-unfinished";
/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;
/// The end of such a file's name, behind that of the result.
const ENDING: &str = ".unfinished";
/// Earlier records that are kept beside a result; more than anybody leaves behind.
const MOST_KEPT: u32 = 999;

#[derive(Serialize)]
struct Head<'a> {
    format: &'a str,
    version: u32,
    #[serde(flatten)]
    experiment: &'a Experiment,
}

/// A line after the first.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Cell(Box<Cell>),
    End(Ending),
}

/// Facts about an experiment that are known only when it ends.
#[derive(Serialize, Deserialize)]
struct Ending {
    ended: Ended,
    settings: Vec<SettingState>,
    notes: Vec<String>,
}

/// Place where an experiment is kept while it runs.
#[derive(Debug)]
pub struct Record {
    path: Option<PathBuf>,
    lines: Option<Lines>,
}

impl Record {
    /// Record beside this result. A path that is no regular file (a pipe, /dev/null) has nothing
    /// beside it.
    #[must_use]
    pub fn beside(result: &Path) -> Self {
        let special = fs::metadata(result).is_ok_and(|meta| !meta.is_file());
        Self { path: (!special).then(|| named(result, ENDING)), lines: None }
    }

    /// Record without a file: the measured cells are in memory alone.
    #[must_use]
    pub fn nowhere() -> Self {
        Self { path: None, lines: None }
    }

    #[cfg(test)]
    pub(crate) fn over(file: Box<dyn super::lines::Growing>) -> Self {
        Self { path: None, lines: Some(Lines::over(file)) }
    }

    /// Path of the file; `None` where there is none.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Gives an earlier record of that name another one, which is returned, if it holds a cell that
    /// no result has.
    ///
    /// # Errors
    /// An error if it can't be renamed.
    pub fn set_earlier_aside(&self, result: &Path) -> Result<Option<PathBuf>> {
        let Some(path) = self.path.as_deref().filter(|path| path.exists()) else { return Ok(None) };
        // A file that can't be read as a record may still be worth something to its owner.
        if let Ok(earlier) = result::read(path) {
            let same = |done: Experiment| {
                (done.started, done.seed, done.cells.len())
                    == (earlier.started.clone(), earlier.seed, earlier.cells.len())
            };
            if earlier.cells.is_empty() || result::read(result).is_ok_and(same) {
                return Ok(None);
            }
        }
        let mut names = (1..=MOST_KEPT).map(|n| named(result, &format!("{ENDING}-{n}")));
        let what = || format!("keep the earlier record {}", path.display());
        let kept = names
            .find(|name| !name.exists())
            .ok_or_else(|| Error::usage(what(), "there are far too many of them already"))?;
        fs::rename(path, &kept).map_err(|e| super::failed(what(), &e))?;
        Ok(Some(kept))
    }

    /// Begins the record: the experiment and the cells that it has already are on the disk when
    /// this returns.
    ///
    /// # Errors
    /// Fails as [`write_file`] does.
    pub fn begin(&mut self, experiment: &Experiment) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut head = experiment.clone();
        head.ended = Ended::Killed;
        let cells = std::mem::take(&mut head.cells);
        let mut text = one_line(&Head { format: FORMAT, version: VERSION, experiment: &head })?;
        text.push('\n');
        for cell in &cells {
            text.push_str(&cell_line(cell)?);
            text.push('\n');
        }
        write_file("record", path, text.as_bytes())?;
        self.lines = Some(Lines::append("record", path)?);
        Ok(())
    }

    /// Adds a cell, which is on the disk when this returns.
    ///
    /// # Errors
    /// An error if it can't be written; all cells before it are kept.
    pub fn cell(&mut self, cell: &Cell) -> Result<()> {
        match &mut self.lines {
            Some(lines) => lines.put_safely(&cell_line(cell)?),
            None => Ok(()),
        }
    }

    /// Records how the experiment ended.
    ///
    /// # Errors
    /// Fails as [`Record::cell`] does.
    pub fn end(&mut self, experiment: &Experiment) -> Result<()> {
        let Some(lines) = &mut self.lines else { return Ok(()) };
        lines.put_safely(&one_line(&Line::End(Ending {
            ended: experiment.ended,
            settings: experiment.settings.clone(),
            notes: experiment.notes.clone(),
        }))?)
    }

    /// Removes the file: all that it holds is in the result.
    ///
    /// # Errors
    /// Fails with the file system's error.
    pub fn remove(self) -> Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(super::failed(format!("remove {}", path.display()), &e))
            }
            _ => Ok(()),
        }
    }
}

/// Path of the result that a record becomes: `r.json` of `r.json.unfinished-2`, and of `r.json`
/// itself.
#[must_use]
pub fn result_of(record: &Path) -> PathBuf {
    let name = record.file_name().and_then(|name| name.to_str());
    let of = name.and_then(|name| {
        let (result, number) = name.rsplit_once(ENDING)?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        (!result.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(result)
    });
    of.map_or_else(|| record.to_owned(), |result| record.with_file_name(result))
}

fn named(result: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(result);
    name.push(ending);
    name.into()
}

fn one_line(value: &impl Serialize) -> Result<String> {
    json::line(value).map_err(|e| Error::usage("write the record as JSON", e))
}

fn cell_line(cell: &Cell) -> Result<String> {
    let mut cell = cell.clone();
    result::make_finite(&mut cell.measurement);
    one_line(&Line::Cell(Box::new(cell)))
}

/// Reads a record's text; `name` is what errors call it. Where a line is torn or damaged, only the
/// cells before it are read, and the notes say so.
///
/// # Errors
/// A usage error if the first line is not whole: then nothing was measured.
pub(super) fn from_lines(text: &[u8], name: &str, hint: &str) -> Result<Experiment> {
    let mut lines = text.split_inclusive(|b| *b == b'\n');
    let mut experiment: Experiment =
        document(lines.next().unwrap_or_default(), name, FORMAT, VERSION, hint)?;
    experiment.ended = Ended::Killed;
    for (line, number) in lines.zip(2..) {
        let whole = line.strip_suffix(b"\n").and_then(|l| serde_json::from_slice(l).ok());
        match whole {
            Some(Line::Cell(cell)) => experiment.cells.push(*cell),
            Some(Line::End(end)) => {
                (experiment.ended, experiment.settings) = (end.ended, end.settings);
                experiment.notes = end.notes;
            }
            None => {
                let note = format!(
                    "the record is damaged or cut short in line {number}: what was before is kept"
                );
                experiment.notes.push(note);
                break;
            }
        }
    }
    Ok(experiment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::store::measured;

    const V1: &[u8] = include_bytes!("../../../fixtures/formats/result-v1.json");
    const UNFINISHED: &[u8] = include_bytes!("../../../fixtures/formats/unfinished-v1.jsonl");

    fn written(experiment: &Experiment, dir: &Path, cells: usize) -> Vec<u8> {
        let mut record = Record::beside(&dir.join("r.json"));
        record.begin(&Experiment { cells: Vec::new(), ..experiment.clone() }).unwrap();
        experiment.cells.iter().take(cells).for_each(|cell| record.cell(cell).unwrap());
        fs::read(record.path().unwrap()).unwrap()
    }

    #[test]
    fn whatever_ends_the_process_all_cells_that_were_measured_are_read() {
        let dir = crate::machine::testing::scratch("unfinished");
        let whole = result::from_json(V1, "v1").unwrap();
        let text = written(&whole, &dir, whole.cells.len());
        let head = text.iter().position(|b| *b == b'\n').unwrap() + 1;
        for keep in (head..=text.len()).step_by(61).chain([text.len()]) {
            let text = &text[..keep];
            let lines = text.iter().filter(|b| **b == b'\n').count();
            let read = result::from_json(text, "r").unwrap();
            assert_eq!(read.ended, Ended::Killed);
            assert_eq!(read.cells, whole.cells[..lines - 1], "cut at {keep}");
            let torn = text.last() != Some(&b'\n');
            let told = read.notes.iter().any(|n| n.contains(&format!("line {}", lines + 1)));
            assert_eq!(told, torn, "cut at {keep}");
        }
        // Torn in its first line: nothing had been measured.
        for keep in (1..head).step_by(13) {
            let error = result::from_json(&text[..keep], "r").unwrap_err();
            assert!(error.to_string().contains("cut short"), "{keep}: {error}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn how_it_ended_is_read_and_reports_take_it_as_a_result() {
        let dir = crate::machine::testing::scratch("unfinished-end");
        let whole = result::from_json(V1, "v1").unwrap();
        let mut record = Record::beside(&dir.join("r.json"));
        record.begin(&whole).unwrap();
        let ended = Experiment { ended: Ended::LostAgent, ..whole.clone() };
        record.end(&ended).unwrap();
        let read = measured::read(record.path().unwrap()).unwrap();
        assert_eq!(read, measured::Measured::Experiment(Box::new(ended)));
        record.remove().unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_version_1_record_loads_and_a_newer_one_is_named() {
        let read = result::from_json(UNFINISHED, "u").unwrap();
        assert_eq!((read.ended, read.cells.len()), (Ended::Interrupted, 2));
        let text = String::from_utf8(UNFINISHED.to_vec()).unwrap();
        let newer = text.replacen("\"version\":1", "\"version\":2", 1);
        let error = result::from_json(newer.as_bytes(), "u").unwrap_err();
        assert!(error.to_string().contains("newer linerate"), "{error}");
        // A line that is damaged: anything may be behind it.
        let damaged = text.replacen("{\"cell\"", "{\"bell\"", 1);
        assert!(result::from_json(damaged.as_bytes(), "u").unwrap().cells.is_empty());
    }

    #[test]
    fn an_earlier_record_is_kept_unless_its_result_was_written() {
        let dir = crate::machine::testing::scratch("unfinished-aside");
        let path = dir.join("r.json");
        let whole = result::from_json(V1, "v1").unwrap();
        written(&whole, &dir, 0);
        let record = Record::beside(&path);
        assert_eq!(record.set_earlier_aside(&path).unwrap(), None, "it holds no cell");
        for n in 1..3 {
            written(&whole, &dir, 3);
            let kept = record.set_earlier_aside(&path).unwrap().unwrap();
            assert_eq!(kept, dir.join(format!("r.json.unfinished-{n}")));
            assert_eq!(result::read(&kept).unwrap().cells.len(), 3);
        }
        // Killed between writing the result and removing the record.
        written(&whole, &dir, whole.cells.len());
        result::write(&path, &whole).unwrap();
        assert_eq!(record.set_earlier_aside(&path).unwrap(), None);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_result_of_a_record_has_its_name() {
        for (record, result) in [
            ("/a/r.json.unfinished", "/a/r.json"),
            ("r.json.unfinished-12", "r.json"),
            ("r.json", "r.json"),
            (".unfinished", ".unfinished"),
            ("r.unfinished.bak", "r.unfinished.bak"),
        ] {
            assert_eq!(result_of(Path::new(record)), Path::new(result), "{record}");
        }
        assert_eq!(Record::beside(Path::new("/dev/null")).path(), None);
    }
}
