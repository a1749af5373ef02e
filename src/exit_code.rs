//! The exit codes that scripts may rely on.

/// What the process tells its caller; the numbers are part of the interface.
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
