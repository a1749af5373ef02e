//! A command line that can't be used, in the form of all our errors.

use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ErrorKind};

use crate::error::Error;

/// The error of this command, with what clap suggests as its remedy.
pub(super) fn error(mistake: &clap::Error, verb: &str) -> Error {
    let part = |kind| mistake.get(kind).map(ToString::to_string).filter(|text| !text.is_empty());
    let arg = part(ContextKind::InvalidArg).unwrap_or_default();
    let value = part(ContextKind::InvalidValue);
    let mut why = match (mistake.kind(), value) {
        (ErrorKind::InvalidValue, None) => format!("'{arg}' needs a value"),
        (ErrorKind::InvalidValue | ErrorKind::ValueValidation, Some(value)) => {
            format!("invalid value '{value}' for '{arg}'")
        }
        (ErrorKind::ValueValidation, None) => format!("'{arg}' needs a value"),
        // `--rate -5`, which clap takes for an option.
        (ErrorKind::UnknownArgument, _) if arg.strip_prefix('-').is_some_and(begins_a_number) => {
            format!("'{arg}' is below 0, which no value may be")
        }
        (ErrorKind::UnknownArgument, _) => format!("unexpected argument '{arg}'"),
        (ErrorKind::InvalidSubcommand, _) => {
            let name = part(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("there is no command '{name}'")
        }
        (ErrorKind::ArgumentConflict, _) => match part(ContextKind::PriorArg) {
            Some(prior) if prior != arg => format!("'{arg}' can't be used with '{prior}'"),
            _ => format!("'{arg}' can't be used more than once"),
        },
        (ErrorKind::MissingRequiredArgument, _) => format!("required and not given: {arg}"),
        (ErrorKind::TooManyValues, value) => {
            format!("'{arg}' takes no further value: {}", value.unwrap_or_default())
        }
        (kind, _) => match arg.as_str() {
            "" => kind.to_string(),
            arg => format!("{kind}: '{arg}'"),
        },
    };
    if let Some(cause) = std::error::Error::source(mistake) {
        let number = cause.downcast_ref::<ParseIntError>().map(ParseIntError::kind);
        why = match number {
            Some(IntErrorKind::PosOverflow) => format!("{why}: it is too large"),
            Some(_) => format!("{why}: it is no whole number from 0 on"),
            None => format!("{why}: {}", plainly(&cause.to_string())),
        };
    }
    if let Some(values) = part(ContextKind::ValidValue) {
        why = format!("{why} [possible values: {values}]");
    }
    let suggested = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
        ContextKind::SuggestedCommand,
    ];
    // clap's own tips (`to pass '--x' as a value, use '-- --x'`) lead away from what was meant.
    let hint = match suggested.into_iter().find_map(part) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("{verb} --help tells what there is"),
    };
    Error::usage("command line", why).hint(hint)
}

/// The words of a parser; those of clap for a range are "-1 is not in 1..=128".
fn plainly(cause: &str) -> String {
    let range = cause.split_once(" is not in ").and_then(|(_, range)| range.split_once(".."));
    match range.map(|(least, most)| (least, most.trim_start_matches('='))) {
        Some((least, "" | "18446744073709551615")) => format!("must be at least {least}"),
        Some((least, most)) => format!("must be from {least} to {most}"),
        None => cause.to_owned(),
    }
}

fn begins_a_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Cli;

    #[test]
    fn a_mistake_names_what_was_written_and_what_is_near() {
        for (line, why, hint) in [
            ("apply --bogus", "'--bogus'", "apply --help"),
            ("shwo", "no command 'shwo'", "show"),
            ("verify --pendin", "'--pendin'", "did you mean --pending?"),
            ("apply --confirm 0", "'0' for '--confirm <TIME>': must be more than 0", "--help"),
            ("plan --flows many", "invalid value 'many' for '--flows <N>'", "--help"),
            ("plan --flows many", "for '--flows <N>': it is no whole number from 0 on", "--help"),
            ("plan --flows 99999999999999999999", "it is too large", "--help"),
            ("top --samples=-1", "it is no whole number", "--help"),
            ("top --samples 0", "'0' for '--samples <N>': must be at least 1", "--help"),
            ("capture --samples=-1", "must be from 0 to 1000", "--help"),
            ("plan --flows 99999999999", "must be from 0 to 4294967295", "--help"),
            ("plan --flows", "'--flows <N>' needs a value", "--help"),
            ("plan --flows -5", "'-5' is below 0, which no value may be", "linerate plan --help"),
            ("show --color loud", "[possible values: auto, always, never]", "--help"),
            ("apply --probe 192.0.2.1", "--confirm <TIME>", "--help"),
            ("apply --confirm 5 --dry-run", "can't be used with", "--help"),
            ("apply --dry-run --dry-run", "more than once", "--help"),
            ("verify a b", "unexpected argument 'b'", "linerate verify --help"),
        ] {
            let words = std::iter::once("linerate").chain(line.split(' '));
            let verb = super::super::verb(line.split(' ').map(str::to_owned));
            let error = super::error(&Cli::try_parse_from(words).unwrap_err(), &verb);
            assert!(error.to_string().contains(why), "{line}: {error}");
            assert!(error.remedy().unwrap().contains(hint), "{line}: {:?}", error.remedy());
        }
    }
}
