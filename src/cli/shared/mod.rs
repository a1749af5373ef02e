//! Shared by several verbs: the global options, arguments that more than one verb takes, and parsers
//! of their values. It imports no verb.

pub(in crate::cli) mod costs;
#[cfg(feature = "measure")]
pub(in crate::cli) mod figures;
pub mod files;
#[cfg(feature = "measure")]
pub mod hosts;
#[cfg(feature = "measure")]
pub mod loads;
pub(in crate::cli) mod persisted;
#[cfg(feature = "measure")]
pub(in crate::cli) mod rendered;
pub(in crate::cli) mod second;
pub(in crate::cli) mod session;
pub(in crate::cli) mod syslog;
pub(in crate::cli) mod waiting;
pub(in crate::cli) mod watching;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::model::finding::Severity;

/// The heading that they stand under in the help.
const EVERY: &str = "Options of every command";

/// Options that every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Print JSON (stable, versioned) instead of text
    #[arg(long, global = true, help_heading = EVERY)]
    pub json: bool,
    /// Work on a captured machine: a file of `capture`, or a directory with its proc, sys and etc
    /// (read-only commands)
    #[arg(long, global = true, help_heading = EVERY, value_name = "FILE|DIR")]
    pub host: Option<PathBuf>,
    /// Say only what failed
    #[arg(short, long, global = true, help_heading = EVERY)]
    pub quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, help_heading = EVERY, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Colours: NO_COLOR is honoured by auto
    #[arg(long, global = true, help_heading = EVERY, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
}

/// When to colour the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// One of a few words, which the help lists and a shell completes.
pub(in crate::cli) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &[(&'static str, T)],
) -> impl TypedValueParser<Value = T> + use<T> {
    let words = PossibleValuesParser::new(all.iter().map(|(word, _)| *word));
    let all = all.to_vec();
    words.try_map(move |text| {
        let one = all.iter().find(|(word, _)| *word == text);
        one.map(|(_, value)| *value).ok_or("it is none of them")
    })
}

/// A severity by its name.
pub(in crate::cli) fn severity() -> impl TypedValueParser<Value = Severity> {
    one_of(&Severity::ALL.map(|s| (s.name(), s)))
}

/// The units of a time, those first that end in another.
const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Seconds of a time: `60`, `60s`, `1m`, `500ms`.
pub(in crate::cli) fn seconds(text: &str) -> Result<f64, String> {
    seconds_or_zero(text)
        .and_then(|s| if s > 0.0 { Ok(s) } else { Err("must be more than 0".into()) })
}

/// Seconds until a change is undone: less is over before anything was made.
pub(in crate::cli) fn deadline(text: &str) -> Result<f64, String> {
    seconds(text).and_then(|s| if s >= 0.1 { Ok(s) } else { Err("must be at least 100ms".into()) })
}

/// Seconds between two readings.
pub(in crate::cli) fn interval(text: &str) -> Result<f64, String> {
    seconds(text).and_then(|s| {
        if (0.1..=10.0).contains(&s) { Ok(s) } else { Err("must be between 0.1 and 10".into()) }
    })
}

pub(in crate::cli) fn seconds_or_zero(text: &str) -> Result<f64, String> {
    let with = |(unit, long): &(&str, f64)| Some((text.strip_suffix(unit)?, *long));
    let (number, unit) = UNITS.iter().find_map(with).unwrap_or((text, 1.0));
    match number.parse::<f64>().map(|number| number * unit) {
        Ok(s) if s > 0.0 && s < 1e-3 => Err("must be at least 1ms".into()),
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(s),
        Ok(_) => Err("must be between 0 and 24 h".into()),
        Err(_) => Err("a time is 60, 60s, 1m or 500ms".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_everywhere() {
        for (text, is) in [
            ("60", 60.0),
            ("60s", 60.0),
            ("1m", 60.0),
            ("500ms", 0.5),
            ("1.5h", 5400.0),
            ("0.3", 0.3),
        ] {
            assert_eq!(seconds(text), Ok(is), "{text}");
        }
        assert_eq!((deadline("100ms"), deadline("1m")), (Ok(0.1), Ok(60.0)));
        assert!(deadline("99ms").is_err());
        for bad in [
            "1e-9", "0.9ms", "", "s", "m", "60 s", "1d", "60ss", "-1", "25h", "nan", "inf", "0",
            "0m", "1m30",
        ] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
