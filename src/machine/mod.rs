//! The machine: everything that reads it, or reaches it by a call.
//!
//! In come the kernel's files, netlink answers and captures; out go values of `model`, above all a
//! `Snapshot`. Only `host`, `sys` and `store` touch the system; `parse` turns bytes into values and
//! touches nothing.
//!
//! ```text
//!   the kernel ─▶ sys ─▶ host ─▶ discover ─▶ Snapshot
//!                         │ ▲ └─▶ parse
//!                 capture ┘ │        store: our own files
//! ```

pub mod capture;
pub mod discover;
pub mod host;
pub mod parse;
pub mod store;
pub mod sys;
#[cfg(test)]
pub(crate) mod testing;
