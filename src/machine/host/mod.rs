//! The only door to the system: everything else reads and writes through it.
//!
//! In come paths and questions, out go bytes, or errors that name the path. Only doors to a live
//! machine touch the system; the others answer from a capture, or from what a test made up.
//!
//! ```text
//!   discover  verify  sample ──▶ dyn HostRead ◀── Live      this machine, or one network namespace
//!                                            ◀── Tree      a captured directory (read only)
//!                                            ◀── Archive   a capture in one file (read only)
//!                                            ◀── Recorder  any of these, and keeps the answers
//!             apply  persist ──▶ dyn HostWrite ◀── Live
//!                                             ◀── Faulty   a door that fails on purpose (tests)
//! ```
//!
//! Paths are those of the machine (`/proc/interrupts`), whatever stands behind the door. Time goes
//! through [`clock`].

mod archive;
mod bounded;
pub mod captured;
pub mod clock;
pub mod command;
mod contents;
mod errno;
mod error;
mod evidence;
mod fake;
pub mod faulty;
mod files;
mod flow;
pub mod hook;
mod kconfig;
mod live;
mod query;
mod recorder;
mod service;
pub mod setting;
mod symlinks;
pub mod tar;
mod tree;
mod uci;
mod uci_note;

use std::path::{Path, PathBuf};

pub use archive::{Archive, MANIFEST, Manifest, OpenError};
pub use captured::Captured;
pub use contents::Contents;
pub use error::{HostError, HostResult};
pub use fake::FakeHost;
pub use flow::{TABLE as FLOW_TABLE, offers as offers_flow_offload};
pub use kconfig::kernel_config;
pub use live::Live;
pub use query::{Query, query_as};
pub use recorder::{Record, Recorder};
pub use setting::Setting;
pub use tree::Tree;
pub use uci::{PACKET_STEERING, has_notes, settle_notes, tidy_packet_steering};

pub use crate::machine::sys::monitor::{Change, Monitor};
use crate::model::identity::HostIdentity;

/// No kernel file that we read is longer; a longer one is an error, not a full memory. The largest
/// known is /proc/interrupts of a machine with hundreds of CPUs (tens of megabytes).
pub const MAX_READ: u64 = 64 << 20;

/// Reading a system.
pub trait HostRead: Send + Sync {
    /// The whole content of a file, or the text of the [`Setting`] at an address.
    ///
    /// # Errors
    /// What the kernel answered; a file longer than [`MAX_READ`] is EFBIG, one that takes seconds
    /// ETIMEDOUT, anything but a regular file EINVAL.
    fn read(&self, path: &Path) -> HostResult<Vec<u8>>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// What the kernel answered.
    fn list(&self, path: &Path) -> HostResult<Vec<String>>;

    /// Where a path leads when every link on it is followed.
    ///
    /// # Errors
    /// What the kernel answered.
    fn resolve(&self, path: &Path) -> HostResult<PathBuf>;

    /// The answer to a question that no file answers, as JSON; [`query_as`] makes a value of it.
    ///
    /// # Errors
    /// What the kernel answered; ENODATA on a captured machine whose capture lacks the answer.
    fn query(&self, query: &Query) -> HostResult<Vec<u8>>;

    /// Machine architecture as `uname -m` tells; empty where a captured machine does not say.
    fn arch(&self) -> String;

    /// Which boot and which network namespace this is.
    fn identity(&self) -> HostIdentity;

    /// The inode number of what a path leads to: tells network namespaces apart
    /// (`/proc/PID/ns/net`).
    ///
    /// # Errors
    /// What the kernel answered; EOPNOTSUPP on a captured machine.
    fn inode(&self, path: &Path) -> HostResult<u64> {
        Err(HostError::new("resolve", path, rustix::io::Errno::OPNOTSUPP))
    }

    /// The content of a small file as trimmed text.
    ///
    /// # Errors
    /// As [`HostRead::read`].
    fn text(&self, path: &Path) -> HostResult<String> {
        // Strings of the device tree end in NUL, and so do files that gathering tools copied.
        let end = |c: char| c.is_whitespace() || c == '\0';
        Ok(String::from_utf8_lossy(&self.read(path)?).trim_matches(end).to_owned())
    }
}

/// Changing a system.
pub trait HostWrite: HostRead {
    /// Writes a kernel file in one `write` call, or sets the [`Setting`] at an address. An error
    /// may come from open, write or close.
    ///
    /// # Errors
    /// What the kernel answered.
    fn write(&self, path: &Path, value: &[u8]) -> HostResult<()>;
}
