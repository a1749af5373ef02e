//! `linerate compare --fleet DIR`: all records and captures below a directory.

use std::path::Path;

use crate::cli::context::captured;
use crate::cli::shared::figures;
use crate::decide::diagnose::{Subject, diagnose};
use crate::decide::experiment::refuse_starved;
use crate::decide::fleet::{Fleet, Gained, Looked, Record};
use crate::error::{Error, Result};
use crate::machine::discover;
use crate::machine::store::fleet::{Kept, below};
use crate::machine::store::measured::{self, Measured};

const HINT: &str = "give a directory with what tune, bench --json and sweep wrote (*.json), or with \
                    captures (*.tar.gz)";

/// Reads everything below the directory. What can't be read is left out, and told.
pub(super) fn read(directory: &Path) -> Result<Fleet> {
    let what = || format!("read the fleet's directory {}", directory.display());
    let files = below(directory).map_err(|e| Error::usage(what(), e.kind()).hint(HINT))?;
    let (mut records, mut captures, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for file in &files {
        let read = match file {
            Kept::Record(path) => record(path).map(|record| records.push(record)),
            Kept::Capture(path) => look(path).map(|looked| captures.push(looked)),
        };
        if let Err(error) = read {
            notes.push(format!("left out: {error}"));
        }
    }
    if records.is_empty() && captures.is_empty() {
        let why = match notes.first() {
            Some(first) => format!("nothing in it can be read; {first}"),
            None => "there is no record and no capture in it".to_owned(),
        };
        return Err(Error::usage(what(), why).hint(HINT));
    }
    Ok(Fleet::of(&records, &captures, notes))
}

fn record(path: &Path) -> Result<Record> {
    let mut measured = measured::read(path)?;
    let mut gains = Vec::new();
    if let Measured::Experiment(experiment) = &mut measured {
        refuse_starved(experiment);
        gains = Gained::of_experiment(experiment);
    }
    let machine = measured.machine().cloned().unwrap_or_default();
    Ok(Record { side: figures::of(path, measured), machine, gains })
}

fn look(path: &Path) -> Result<Looked> {
    let host = captured(path)?;
    let snapshot = discover::snapshot(&host);
    let condition = discover::condition(&host, &snapshot);
    let subject = Subject::new(&snapshot, &condition, None);
    let told = diagnose(&subject, &[]);
    let gain = subject.outlook().and_then(|outlook| outlook.gain());
    let gain = gain.filter(|gain| gain.is_any()).map(|gain| gain.times.mid);
    let file = path.display().to_string();
    Ok(Looked::of(file, snapshot.machine.clone(), &told.findings, gain))
}
