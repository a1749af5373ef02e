//! Recordings of `linerate record` in JSON lines, read again: a line is taken apart when it is asked for,
//! so that an hour of a large router costs no more memory than its file.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::model::telemetry::{Interval, Standing};

/// Longest file that is read: a day of a router with a hundred CPUs.
const MOST: u64 = 2 << 30;

const HINT: &str = "linerate record -o FILE.jsonl makes one (CSV is for spreadsheets)";

/// A recording.
#[derive(Debug)]
pub struct Recording {
    text: Vec<u8>,
    frames: Vec<Frame>,
    /// Lines that are no intervals.
    damaged: usize,
}

#[derive(Debug)]
struct Frame {
    line: Range<usize>,
    /// Seconds since the start of the recording.
    at: f64,
    /// Frame that has what stands beside this one's rates.
    standing: Option<usize>,
}

/// The first line.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

/// As much of a line as an index needs.
#[derive(Deserialize)]
struct Entry {
    at: f64,
    standing: Option<IgnoredAny>,
}

impl Recording {
    /// Reads a file of `record`.
    ///
    /// # Errors
    /// A usage error if it can't be read, is no recording or one of a later version, or has no interval.
    pub fn read(path: &Path) -> Result<Self> {
        let text = super::read_file("recording", path, MOST, HINT)?;
        let what = || format!("read recording {}", path.display());
        let mut lines = lines(&text);
        let head = lines.next().and_then(|line| text.get(line));
        let head: Option<Head> = head.and_then(|line| serde_json::from_slice(line).ok());
        match head {
            Some(head) if head.format == "linerate-recording" && head.version == 1 => {}
            Some(head) if head.format == "linerate-recording" => {
                return Err(Error::usage(what(), format!("it is of version {}", head.version))
                    .hint("a newer linerate reads it"));
            }
            _ => return Err(Error::usage(what(), "it is no recording in JSON lines").hint(HINT)),
        }
        let (mut frames, mut damaged, mut standing) = (Vec::new(), 0, None);
        for line in lines {
            let entry = text.get(line.clone()).map(serde_json::from_slice::<Entry>);
            let Some(Ok(entry)) = entry else {
                damaged += 1;
                continue;
            };
            if entry.standing.is_some() {
                standing = Some(frames.len());
            }
            frames.push(Frame { line, at: entry.at, standing });
        }
        if frames.is_empty() {
            return Err(Error::usage(what(), "it has no interval").hint(HINT));
        }
        Ok(Self { text, frames, damaged })
    }

    /// Number of intervals, which is never 0.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Never true.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Lines that are no intervals: the last of a recording that was cut short, usually.
    #[must_use]
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    /// Seconds from the start of the recording to the end of an interval.
    #[must_use]
    pub fn at(&self, frame: usize) -> f64 {
        self.frames.get(frame).or(self.frames.last()).map_or(0.0, |frame| frame.at)
    }

    /// The last interval that ended by that time, or the first of all.
    #[must_use]
    pub fn find(&self, at: f64) -> usize {
        self.frames.partition_point(|frame| frame.at <= at).saturating_sub(1)
    }

    /// An interval with what stands beside it; `None` where its line has lost what belongs to it.
    #[must_use]
    pub fn interval(&self, frame: usize) -> Option<Interval> {
        let place = self.frames.get(frame)?;
        let mut interval = self.parsed(place)?;
        if interval.standing.is_none() {
            let standing =
                place.standing.and_then(|at| self.parsed(self.frames.get(at)?)?.standing);
            interval.standing = Some(standing.unwrap_or_else(|| Box::new(Standing::default())));
        }
        Some(interval)
    }

    fn parsed(&self, frame: &Frame) -> Option<Interval> {
        serde_json::from_slice(self.text.get(frame.line.clone())?).ok()
    }
}

/// Places of the lines that hold something.
fn lines(text: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut from = 0;
    let all = text.split(|byte| *byte == b'\n').map(move |line| {
        let place = from..from + line.len();
        from = place.end + 1;
        place
    });
    all.filter(|place| !place.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Recording> {
        let path = std::env::temp_dir().join(format!("linerate-rec-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = Recording::read(&path);
        std::fs::remove_file(&path).unwrap();
        read
    }

    const HEAD: &str =
        r#"{"format":"linerate-recording","version":1,"program":"0.1.0","command":[]}"#;

    fn line(at: f64, standing: Option<&str>) -> String {
        let standing = standing
            .map(|name| Box::new(Standing { hostname: name.into(), ..Standing::default() }));
        let interval = Interval { at, seconds: 1.0, standing, ..Interval::default() };
        serde_json::to_string(&interval).unwrap()
    }

    #[test]
    fn each_interval_has_what_stood_beside_it_and_a_cut_line_is_counted() {
        let lines = [
            HEAD.to_owned(),
            line(1.0, Some("a")),
            line(2.0, None),
            line(3.0, Some("b")),
            line(4.0, None),
            "{\"utc\":\"2026".to_owned(),
        ];
        let recording = read("cut", &lines.join("\n")).unwrap();
        assert_eq!((recording.len(), recording.damaged()), (4, 1));
        let names = (0..4).map(|at| recording.interval(at).unwrap().standing.unwrap().hostname);
        assert_eq!(names.collect::<Vec<_>>(), ["a", "a", "b", "b"]);
        assert_eq!([0.0, 1.0, 2.9, 3.0, 99.0].map(|at| recording.find(at)), [0, 0, 1, 2, 3]);
        assert!(recording.interval(4).is_none());
    }

    #[test]
    fn what_is_no_recording_is_refused_with_a_hint() {
        for (name, text, why) in [
            ("csv", "utc,at_s\n1,2\n", "no recording"),
            ("new", "{\"format\":\"linerate-recording\",\"version\":2}\n", "version 2"),
            ("none", &format!("{HEAD}\n"), "no interval"),
            ("empty", "", "no recording"),
        ] {
            let error = read(name, text).unwrap_err();
            assert!(error.to_string().contains(why), "{name}: {error}");
            assert!(error.remedy().is_some(), "{name}");
        }
    }
}
