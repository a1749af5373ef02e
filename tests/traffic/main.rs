//! Real traffic through labs of this kernel, one run at a time, as root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stderr, reason = "tests set their own scene")]

mod agents;
mod load;
mod scenarios;
#[path = "../schema/mod.rs"]
mod schema;
mod shaped;
mod sweep;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One run at a time: two would take each other's CPU and threads.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
