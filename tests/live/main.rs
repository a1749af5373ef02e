//! The program on this kernel: in namespaces that the tests make, most of it as root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stderr, reason = "tests set their own scene")]

#[path = "../program/mod.rs"]
mod program;
mod router;
#[path = "../schema/mod.rs"]
mod schema;

mod capture;
mod cli;
mod confirm;
mod discover;
mod kernel;
mod knobs;
mod lab;
mod losses;
mod pages;
mod persist;
mod record;
mod schemas;
mod secrets;
mod session;
mod top;
mod watch;
