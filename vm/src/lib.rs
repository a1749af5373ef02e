//! Boots a distribution kernel in QEMU with a RAM disk that holds `linerate`, runs a shell script
//! there, and brings back its exit code, its output and the files it left.
//!
//! ```text
//!   apt ─▶ kernel ─▶ modules (closure over modules.dep) ─┐
//!   busybox, linerate, script ───────────────────────────┴▶ initramfs ─▶ machine (QEMU) ─▶ Outcome
//! ```
//!
//! No hardware virtualisation is needed: everything is emulated, so a guest's *rates* mean nothing;
//! its interrupts, masks and counters are real. Three serial lines carry what the guest says: the
//! kernel's console, the script's output, and the results; so nothing needs a driver, and what a
//! script prints can't be mistaken for its exit code.
#![expect(
    clippy::disallowed_methods,
    reason = "a test harness: it reads files and starts programs by itself"
)]

mod apt;
pub mod board;
pub mod cpio;
mod error;
mod fdt;
pub mod guest;
pub mod kernel;
pub mod machine;
pub mod modules;
pub mod system;

pub use board::{Board, Cluster};
pub use error::{Error, Result};
pub use machine::{Machine, Nic, Outcome};
pub use system::System;
