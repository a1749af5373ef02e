//! The start of every command: its global options, the door to the system and the way out.

use std::path::Path;

use super::output::Output;
use super::shared::Global;
use crate::error::{Error, Result};
use crate::machine::host::tar::TarError;
use crate::machine::host::{Archive, Captured, HostRead, Live, OpenError, Tree};

/// The system that a command works on, and where its output goes.
pub struct Context {
    /// Output.
    pub out: Output,
    live: Live,
    captured: Option<Captured>,
}

impl Context {
    /// This machine, or the captured one of `--host`, for a verb that `changes` something or that only
    /// looks.
    ///
    /// # Errors
    /// Usage when the captured machine can't be opened.
    pub fn new(global: &Global, changes: bool) -> Result<Self> {
        let captured = match &global.host {
            None => None,
            Some(path) => Some(captured(path)?),
        };
        Ok(Self { out: Output::new(global, changes), live: Live::here(), captured })
    }

    /// Machine for commands that only read.
    #[must_use]
    pub fn reader(&self) -> &dyn HostRead {
        match &self.captured {
            Some(captured) => captured,
            None => &self.live,
        }
    }

    /// Machine to look at, as [`Context::reader`] has it.
    ///
    /// # Errors
    /// Not supported where nothing can be seen of this machine: that nothing was found would say nothing.
    pub fn seen(&self) -> Result<&dyn HostRead> {
        let version = Path::new("/proc/version");
        if self.is_live() && self.live.read(version).is_err_and(|e| e.is_absent()) {
            let what = format!("read {}", version.display());
            return Err(
                Error::not_supported(what, "/proc is not mounted").hint("mount -t proc proc /proc")
            );
        }
        Ok(self.reader())
    }

    /// True if the machine is this one as it runs, and not a captured one.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.captured.is_none()
    }

    /// Machine for commands that change things: never a captured one.
    ///
    /// # Errors
    /// Usage with `--host`.
    pub fn live(&self, verb: &str) -> Result<&Live> {
        if self.captured.is_some() {
            return Err(Error::usage(verb, "a captured machine can't be changed or measured")
                .hint("leave --host out; show, plan and report work on captured machines"));
        }
        Ok(&self.live)
    }
}

/// A captured machine: a directory that holds its files, or a file of `capture`.
///
/// # Errors
/// Usage, with what is wrong with it.
pub(in crate::cli) fn captured(path: &Path) -> Result<Captured> {
    let what = || format!("open captured machine {}", path.display());
    if path.is_dir() {
        return Tree::open(path).map_err(|e| {
            let why = if e.is_absent() { "there is no proc in it".into() } else { e.reason() };
            Error::usage(what(), why)
                .hint("--host takes a directory that holds the machine's proc, sys and etc")
        });
    }
    Archive::open(path).map_err(|e| {
        let hint = match &e {
            OpenError::Newer(_) => "a newer linerate reads it",
            OpenError::Tar(TarError::Cut) => "copy it again; it is not complete",
            OpenError::Read(rustix::io::Errno::INVAL) => {
                "a capture is a regular file, not a device or a pipe"
            }
            _ => {
                "--host takes a file made by `linerate capture`, or a directory that holds the \
                  machine's proc, sys and etc"
            }
        };
        Error::usage(what(), e).hint(hint)
    })
}
