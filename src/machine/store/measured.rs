//! Files of ours that hold figures: the result of `tune`, the record of `sweep`, the JSON of
//! `bench`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::result::{self, bytes, document, header};
use super::{json, unfinished, write_file};
use crate::error::{Error, Result};
use crate::model::measurement::{EvidenceClass, Experiment, Measurement, Scenario};
use crate::model::snapshot::Machine;
use crate::model::sweep::Sweep;

/// Value of `format` in the record of a sweep (docs/sweep.md).
pub const SWEEP_FORMAT: &str = "linerate-sweep";
/// Version of that format that is written, and the newest that can be read.
pub const SWEEP_VERSION: u32 = 1;
/// Value of `format` in the JSON that `bench --json` prints.
pub const BENCH_FORMAT: &str = "linerate-bench";
/// Version of that format that is written, and the newest that can be read.
pub const BENCH_VERSION: u32 = 1;

const HINT: &str = "give a file that `linerate tune`, `linerate sweep` or `linerate bench --json > \
                    FILE` wrote";

/// A file with figures.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// Result of `tune`.
    Experiment(Box<Experiment>),
    /// Record of `sweep`.
    Sweep(Box<Sweep>),
    /// JSON of `bench --json`.
    Bench(Box<Bench>),
}

impl Measured {
    /// The machine that was measured; `None` where that was not kept.
    #[must_use]
    pub fn machine(&self) -> Option<&Machine> {
        match self {
            Self::Experiment(experiment) => Some(&experiment.machine),
            Self::Sweep(sweep) => Some(&sweep.machine),
            Self::Bench(bench) => bench.origin.as_ref().map(|origin| &origin.machine),
        }
    }
}

/// Origin of a figure: the facts that it needs to be made again, and to be believed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The program's version.
    pub program: String,
    /// The command line.
    pub command: Vec<String>,
    /// Time when the run began, RFC 3339 in UTC.
    pub started: String,
    /// Machine that the run was made on.
    pub machine: Machine,
    /// Fingerprint of the machine, as in a result of `tune`.
    pub fingerprint: Option<String>,
}

/// Document that `bench --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// Origin of the figures; absent where they were recorded before that was kept.
    pub origin: Option<Origin>,
    /// Kind of evidence.
    pub class: EvidenceClass,
    /// Setup of the router.
    pub candidate: String,
    /// Scenario that was built, and traffic that was sent.
    pub scenario: Scenario,
    /// Every run.
    pub runs: Vec<Measurement>,
}

/// Reads a file of any of these formats.
///
/// # Errors
/// A usage error (exit 2) that says what is wrong with the file; exit 4 if it may not be read.
pub fn read(path: &Path) -> Result<Measured> {
    let bytes = bytes(path, HINT)?;
    from_json(&bytes, &path.display().to_string())
}

/// Reads the text of any of these formats; `name` is what errors call it.
///
/// # Errors
/// A usage error that says what is wrong with the text.
pub fn from_json(text: &[u8], name: &str) -> Result<Measured> {
    let format = header(text, name, HINT)?.format;
    match format.as_ref().and_then(|f| f.as_str()) {
        Some(result::FORMAT | unfinished::FORMAT) => {
            result::from_json(text, name).map(|e| Measured::Experiment(Box::new(e)))
        }
        Some(SWEEP_FORMAT) => document(text, name, SWEEP_FORMAT, SWEEP_VERSION, HINT)
            .map(|s| Measured::Sweep(Box::new(s))),
        Some(BENCH_FORMAT) => document(text, name, BENCH_FORMAT, BENCH_VERSION, HINT)
            .map(|b| Measured::Bench(Box::new(b))),
        Some(other) => {
            let why = format!("it is a \"{other}\", which holds no figures");
            Err(Error::usage(format!("read result {name}"), why).hint(HINT))
        }
        None => {
            let why = "it does not say what it is (no \"format\")";
            Err(Error::usage(format!("read result {name}"), why).hint(HINT))
        }
    }
}

/// A sweep as it is written and printed.
#[derive(Serialize)]
pub struct SweepDocument<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    sweep: &'a Sweep,
}

impl<'a> SweepDocument<'a> {
    /// The document of this sweep.
    #[must_use]
    pub fn of(sweep: &'a Sweep) -> Self {
        Self { format: SWEEP_FORMAT, version: SWEEP_VERSION, sweep }
    }
}

/// Writes the record of a sweep: all of it or, whatever happens, what was there before.
///
/// # Errors
/// A usage error (exit 2) with the path and why; exit 4 if it may not be written.
pub fn write_sweep(path: &Path, sweep: &Sweep) -> Result<()> {
    let mut text = json::pretty(&SweepDocument::of(sweep))
        .map_err(|e| Error::usage("write the sweep as JSON", e))?;
    text.push('\n');
    write_file("sweep", path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExitCode;

    const SWEEP: &[u8] = include_bytes!("../../../fixtures/formats/sweep-v1.json");
    const RESULT: &[u8] = include_bytes!("../../../fixtures/formats/result-v1.json");

    #[test]
    fn a_version_1_sweep_loads_and_is_written_as_it_was() {
        let Measured::Sweep(sweep) = from_json(SWEEP, "s").unwrap() else { panic!("a sweep") };
        assert!(!sweep.points.is_empty() && !sweep.searches.is_empty());
        let dir = crate::machine::testing::scratch("sweep-round-trip");
        let path = dir.join("s.json");
        write_sweep(&path, &sweep).unwrap();
        let Measured::Sweep(once) = read(&path).unwrap() else { panic!("a sweep") };
        // To nine digits; and what was written is written the same again.
        let text = |sweep: &Sweep| json::pretty(&SweepDocument::of(sweep)).unwrap();
        assert_eq!(text(&once), text(&sweep));
        write_sweep(&path, &once).unwrap();
        assert_eq!(read(&path).unwrap(), Measured::Sweep(once));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_are_told_apart_by_what_they_say() {
        assert!(matches!(from_json(RESULT, "r").unwrap(), Measured::Experiment(_)));
        for (text, why) in [
            (&b""[..], "empty"),
            (b"{}", "no \"format\""),
            (br#"{"format":"linerate-plan","version":1}"#, "holds no figures"),
            (br#"{"format":"linerate-sweep","version":2}"#, "newer linerate"),
            (br#"{"format":"linerate-bench","version":1}"#, "missing field"),
            (br#"{"format":7}"#, "no \"format\""),
        ] {
            let error = from_json(text, "x").unwrap_err();
            assert_eq!(error.code(), ExitCode::Usage);
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.remedy().is_some());
        }
        for keep in (1..SWEEP.len() - 2).step_by(97) {
            let error = from_json(&SWEEP[..keep], "x").unwrap_err();
            assert!(error.to_string().contains("cut short"), "{keep}: {error}");
        }
    }
}
