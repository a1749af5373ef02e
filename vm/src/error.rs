//! Why a virtual machine gave no outcome.

use std::fmt;

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no outcome; the difference decides between a skipped and a failed test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// This machine lacks something (QEMU, a kernel package, busybox): says what.
    Unavailable(String),
    /// Something that should have worked did not.
    Failed(String),
}

impl Error {
    /// A failure of `what` because of `why`.
    pub(crate) fn failed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(what) => write!(f, "not available here: {what}"),
            Self::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
