//! The result file: everything that an experiment recorded, as JSON (docs/result.md).

#![expect(clippy::disallowed_methods, reason = "store owns our own files")]

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::{json, unfinished, write_file};
use crate::error::{Error, Result, words};
use crate::model::measurement::{Experiment, Measurement};

/// Value of `format` in a result file.
pub const FORMAT: &str = "linerate-result";

/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;

/// Size limit, in bytes, of a file; far more than any experiment: a thousand blocks of ten
/// candidates take some 60 MB.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Serialize)]
struct Envelope<'a> {
    format: &'a str,
    version: u32,
    #[serde(flatten)]
    experiment: &'a Experiment,
}

#[derive(Deserialize)]
pub(super) struct Header {
    pub(super) format: Option<serde_json::Value>,
    version: Option<serde_json::Value>,
}

/// Text of a result file that holds an experiment.
///
/// # Errors
/// An error if it can't be written as JSON.
pub fn to_json(experiment: &Experiment) -> Result<String> {
    let mut experiment = experiment.clone();
    for cell in &mut experiment.cells {
        make_finite(&mut cell.measurement);
    }
    let envelope = Envelope { format: FORMAT, version: VERSION, experiment: &experiment };
    let mut text =
        json::pretty(&envelope).map_err(|e| Error::usage("write the result as JSON", e))?;
    text.push('\n');
    Ok(text)
}

/// Replaces figures that JSON can't hold: it has no NaN or infinity, and one such figure must not
/// make a whole run unreadable, so it is written as 0 and the measurement says so.
pub(super) fn make_finite(measurement: &mut Measurement) {
    let figures = [&mut measurement.seconds, &mut measurement.packet_bytes]
        .into_iter()
        .chain(measurement.flows.iter_mut().flat_map(|f| [&mut f.goodput.0, &mut f.generator_cpu]))
        .chain(
            measurement.cpus.iter_mut().flat_map(|c| {
                [&mut c.user, &mut c.system, &mut c.irq, &mut c.softirq, &mut c.idle]
            }),
        );
    let beside = &mut measurement.beside;
    let optional =
        [&mut beside.p50_ms, &mut beside.p99_ms, &mut beside.idle_cpus, &mut beside.hottest];
    for figure in optional {
        *figure = figure.filter(|f| f.is_finite());
    }
    let mut replaced = 0;
    for figure in figures.filter(|f| !f.is_finite()) {
        *figure = 0.0;
        replaced += 1;
    }
    if replaced > 0 {
        measurement.notes.push(format!("{replaced} figures were not numbers and are stored as 0"));
    }
}

/// Reads the text of a result, or of a record that is not finished; `name` is what errors call it.
///
/// # Errors
/// A usage error that says what is wrong with the file.
pub fn from_json(text: &[u8], name: &str) -> Result<Experiment> {
    match header(text, name, KIND_HINT)?.format {
        Some(format) if format == unfinished::FORMAT => {
            unfinished::from_lines(text, name, KIND_HINT)
        }
        _ => document(text, name, FORMAT, VERSION, KIND_HINT),
    }
}

/// Reads one of our JSON documents: `name` is what errors call it, `hint` the source of such files.
///
/// # Errors
/// A usage error that says what is wrong with the file.
pub(super) fn document<T: DeserializeOwned>(
    text: &[u8],
    name: &str,
    format: &str,
    newest: u32,
    hint: &str,
) -> Result<T> {
    let what = || format!("read result {name}");
    let header = header(text, name, hint)?;
    match header.format.as_ref().map(serde_json::Value::as_str) {
        Some(Some(found)) if found == format => {}
        Some(Some(other)) => {
            return Err(
                Error::usage(what(), format!("it is a \"{other}\", not a {format}")).hint(hint)
            );
        }
        _ => {
            return Err(
                Error::usage(what(), format!("no \"format\": \"{format}\" in it")).hint(hint)
            );
        }
    }
    let version = header.version.as_ref().and_then(serde_json::Value::as_u64);
    match version {
        Some(version) if version == u64::from(newest) => {}
        Some(version) if version > u64::from(newest) => {
            return Err(Error::usage(
                what(),
                format!(
                    "written by a newer linerate (format version {version}; this one reads \
                     {newest})"
                ),
            )
            .hint("read it with the linerate that wrote it, or update this one"));
        }
        _ => {
            let shown = header.version.map_or_else(|| "none".to_owned(), |v| v.to_string());
            return Err(
                Error::usage(what(), format!("format version {shown} does not exist")).hint(hint)
            );
        }
    }
    serde_json::from_slice(text).map_err(|e| bad_json(&what(), text, &e, hint))
}

/// Header of a document: the format and version that it states.
pub(super) fn header(text: &[u8], name: &str, hint: &str) -> Result<Header> {
    let what = || format!("read result {name}");
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::usage(what(), "the file is empty").hint(CUT_HINT));
    }
    // The first document alone: a record that is not finished has a line for each cell behind it.
    let first = serde_json::Deserializer::from_slice(text).into_iter().next();
    let empty = || Err(Error::usage(what(), "the file is empty").hint(CUT_HINT));
    first.map_or_else(empty, |read| read.map_err(|e| bad_json(&what(), text, &e, hint)))
}

const CUT_HINT: &str = "copy it again from where it was made; linerate itself never leaves half a \
                        file behind";
const KIND_HINT: &str = "give the result file that `linerate tune` wrote";

fn bad_json(what: &str, text: &[u8], error: &serde_json::Error, hint: &str) -> Error {
    // A cut within a number (`1.`) is a syntax error at the very end.
    let at_end = error.line() == text.trim_ascii_end().split(|b| *b == b'\n').count()
        && text.trim_ascii_start().starts_with(b"{")
        && !text.trim_ascii_end().ends_with(b"}");
    match error.classify() {
        Category::Syntax | Category::Eof if at_end || error.is_eof() => Error::usage(
            what,
            format!("the file ends in the middle, at line {}: it was cut short", error.line()),
        )
        .hint(CUT_HINT),
        Category::Data => Error::usage(what, format!("not as a result must be: {error}"))
            .hint("it was changed since it was written; use the original"),
        Category::Syntax | Category::Io | Category::Eof => {
            Error::usage(what, format!("not JSON: {error}")).hint(hint)
        }
    }
}

/// Reads a result, or a record that is not finished.
///
/// # Errors
/// A usage error (exit 2) that says what is wrong with the file; exit 4 if it may not be read.
pub fn read(path: &Path) -> Result<Experiment> {
    from_json(&bytes(path, KIND_HINT)?, &path.display().to_string())
}

/// The newest result file in a directory that has its usual name, `linerate-result*.json`; `None` where
/// there is none.
#[must_use]
pub fn newest(directory: &Path) -> Option<PathBuf> {
    let usual = |name: &str| name.starts_with("linerate-result") && name.ends_with(".json");
    let files = std::fs::read_dir(directory).ok()?.flatten();
    let named = files.filter(|entry| entry.file_name().to_str().is_some_and(usual));
    let dated =
        named.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
    dated.max().map(|(_, path)| path)
}

/// Bytes of a file that the user named, as long as it has the size of a result.
pub(super) fn bytes(path: &Path, hint: &str) -> Result<Vec<u8>> {
    let what = format!("read result {}", path.display());
    let file = File::open(path).map_err(|e| io_error(&what, &e, hint))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| io_error(&what, &e, hint))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::usage(what, "longer than any result (256 MiB)").hint(hint));
    }
    Ok(bytes)
}

/// Writes a result file: all of it or, whatever happens, what was there before.
///
/// # Errors
/// A usage error (exit 2) with the path and why; exit 4 if it may not be written.
pub fn write(path: &Path, experiment: &Experiment) -> Result<()> {
    write_file("result", path, to_json(experiment)?.as_bytes())
}

fn io_error(what: &str, error: &std::io::Error, hint: &str) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            Error::not_permitted(what, words(error)).hint("run it as root, or as the file's owner")
        }
        _ => Error::usage(what, words(error)).hint(hint),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::ExitCode;
    use crate::model::measurement::{Piece, ReadBack};

    const V1: &[u8] = include_bytes!("../../../fixtures/formats/result-v1.json");

    fn refused(text: &[u8]) -> (String, String) {
        let error = from_json(text, "r.json").unwrap_err();
        assert_eq!(error.code(), ExitCode::Usage);
        (error.to_string(), error.remedy().expect("every refusal has a hint").to_owned())
    }

    #[test]
    fn a_version_1_file_loads() {
        let experiment = from_json(V1, "v1").unwrap();
        assert_eq!(experiment.baseline, "as-found");
        assert_eq!(experiment.candidates.len(), 3);
        assert!(!experiment.cells.is_empty());
        assert!(experiment.cells.iter().any(|c| !c.measurement.is_valid()), "refusals are kept");
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let dir = crate::machine::testing::scratch("round-trip");
        let path = dir.join("result.json");
        let mut experiment = from_json(V1, "v1").unwrap();
        // Fields that the first files of this version did not have.
        experiment.fingerprint = Some("85944171f73967e8".into());
        let measurement = &mut experiment.cells[0].measurement;
        measurement.series.push(Piece {
            at: 0.1,
            seconds: 0.1,
            bytes: vec![1000, 2000],
            busy: vec![0.5],
            softirq: vec![0.25],
            packets: vec![3],
            rx_packets: vec![4, 5],
            tx_packets: vec![6, 7],
            dropped: vec![0, 1],
        });
        measurement.settings.push(ReadBack { name: "RPS".into(), text: Some("3".into()) });
        write(&path, &experiment).unwrap();
        assert_eq!(read(&path).unwrap(), experiment);
        // Nothing but the file itself stays behind.
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["result.json"]);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_rubbish() {
        let dir = crate::machine::testing::scratch("failed-write");
        let target = dir.join("taken");
        fs::create_dir(&target).unwrap();
        let experiment = from_json(V1, "v1").unwrap();
        let error = write(&target, &experiment).unwrap_err();
        assert!(error.to_string().contains("is a directory"), "{error}");
        let error = write(&dir.join("no/such/place.json"), &experiment).unwrap_err();
        assert!(error.to_string().ends_with("no such file or directory"), "{error}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_figure_that_is_no_number_does_not_make_the_run_unreadable() {
        let mut experiment = from_json(V1, "v1").unwrap();
        experiment.cells[0].measurement.packet_bytes = f64::NAN;
        experiment.cells[0].measurement.cpus[0].softirq = f64::INFINITY;
        let again = from_json(to_json(&experiment).unwrap().as_bytes(), "again").unwrap();
        let measurement = &again.cells[0].measurement;
        assert_eq!(measurement.packet_bytes, 0.0);
        assert!(measurement.notes.last().unwrap().starts_with("2 figures were not numbers"));
    }

    #[test]
    fn a_file_cut_anywhere_is_called_cut_short() {
        let body = V1.trim_ascii_end();
        for keep in (1..body.len()).step_by(13) {
            let (message, hint) = refused(&body[..keep]);
            assert!(message.contains("cut short"), "cut at {keep}: {message}");
            assert!(hint.contains("copy it again"), "{hint}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let text = String::from_utf8(V1.to_vec()).unwrap();
        let newer = text.replacen("\"version\": 1", "\"version\": 2", 1);
        assert_ne!(newer, text);
        let (message, _) = refused(newer.as_bytes());
        assert_eq!(
            message,
            "read result r.json: written by a newer linerate (format version 2; \
             this one reads 1)"
        );
        // A newer version may hold anything: nothing else is looked at.
        let (message, _) = refused(br#"{"format":"linerate-result","version":7,"cells":"?"}"#);
        assert!(message.contains("format version 7"), "{message}");
    }

    #[test]
    fn other_files_are_named_for_what_they_are() {
        for (text, expect) in [
            (&b""[..], "the file is empty"),
            (b" \n", "the file is empty"),
            (b"# a plan\n", "not JSON"),
            (b"\xff\xfe\x00", "not JSON"),
            (b"{}", "no \"format\": \"linerate-result\" in it"),
            (b"[1,2]", "no \"format\""),
            (b"12", "not as a result must be"),
            (br#"{"format":"linerate-journal","version":1}"#, "it is a \"linerate-journal\""),
            (br#"{"format":"linerate-result"}"#, "format version none does not exist"),
            (br#"{"format":"linerate-result","version":"1"}"#, "does not exist"),
            (br#"{"format":"linerate-result","version":0}"#, "format version 0 does not exist"),
            (br#"{"format":"linerate-result","version":1}"#, "missing field"),
        ] {
            let (message, _) = refused(text);
            assert!(message.contains(expect), "{:?}: {message}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_a_usage_error() {
        let error = read(Path::new("/nonexistent/r.json")).unwrap_err();
        assert_eq!(error.code(), ExitCode::Usage);
        assert_eq!(error.to_string(), "read result /nonexistent/r.json: no such file or directory");
    }
}
