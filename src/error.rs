//! One error type for everything that a person gets to see, and the exit codes that scripts rely on.
//!
//! Printed as `linerate: <what failed>: <path or device>: <why>`, with a line `hint: ...` where
//! there is a remedy.

use std::fmt;

/// A failure with its exit code, what was attempted, why it failed and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: ExitCode,
    what: String,
    why: String,
    hint: Option<String>,
}

/// The result of everything that can fail in a way a person must hear about.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure of `what` (operation and its object, lower case) because of `why`.
    #[must_use]
    pub fn new(code: ExitCode, what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { code, what: what.into(), why: without_number(&why.to_string()), hint: None }
    }

    /// Something the caller wrote can't be used (exit 2).
    #[must_use]
    pub fn usage(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(ExitCode::Usage, what, why)
    }

    /// A permission is missing (exit 4).
    #[must_use]
    pub fn not_permitted(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(ExitCode::NotPermitted, what, why)
    }

    /// The machine or kernel lacks something (exit 5).
    #[must_use]
    pub fn not_supported(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(ExitCode::NotSupported, what, why)
    }

    /// Stopped by the user, everything restored (exit 130).
    #[must_use]
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self::new(ExitCode::Interrupted, what, "interrupted; everything was restored")
    }

    /// The same error with a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with another exit code.
    #[must_use]
    pub fn with_code(mut self, code: ExitCode) -> Self {
        self.code = code;
        self
    }

    /// The exit code that belongs to it.
    #[must_use]
    pub fn code(&self) -> ExitCode {
        self.code
    }

    /// The remedy, where there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Words of an error of the system: lower case, without the number that Rust adds.
#[must_use]
pub fn words(error: &std::io::Error) -> String {
    without_number(&error.to_string())
}

/// "Permission denied (os error 13)" as "permission denied"; any other text as it is.
fn without_number(text: &str) -> String {
    let Some((words, _)) = text.rsplit_once(" (os error ").filter(|_| text.ends_with(')')) else {
        return text.to_owned();
    };
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase());
    // Of what stands before the words (a path, a name) nothing is changed.
    match letters.next() {
        Some(second) if second.is_ascii_lowercase() => {
            first.into_iter().chain([second]).chain(letters).collect()
        }
        _ => words.to_owned(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Error {}

/// Exit codes; the numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done as asked.
    Done = 0,
    /// Findings, or a benchmark below its threshold.
    Findings = 1,
    /// The command line, or a file named on it, is not usable.
    Usage = 2,
    /// The machine is not in the state the plan asks for.
    Drift = 3,
    /// A permission is missing.
    NotPermitted = 4,
    /// This machine or kernel lacks something that is needed.
    NotSupported = 5,
    /// A measurement was refused: its figure can't be trusted.
    Refused = 6,
    /// Applying failed, and everything was rolled back.
    RolledBack = 7,
    /// Rolling back failed in part; what is left is listed.
    RollbackIncomplete = 8,
    /// Interrupted by the user; everything was restored.
    Interrupted = 130,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_is_told_in_words_alone() {
        for (number, is) in [(13, "permission denied"), (28, "no space left on device")] {
            let error = std::io::Error::from_raw_os_error(number);
            assert_eq!(words(&error), is);
            assert_eq!(Error::usage("x", &error).to_string(), format!("x: {is}"));
            let behind = Error::usage("x", format!("/etc/X: {error}")).to_string();
            assert!(behind.starts_with("x: /etc/X: ") && !behind.contains("os error"), "{behind}");
        }
        assert_eq!(Error::usage("x", "IRQ 5 (os error").to_string(), "x: IRQ 5 (os error");
    }
}
