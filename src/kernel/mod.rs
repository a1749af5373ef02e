//! The kernel's part in it: what of its configuration costs forwarding, how two configurations
//! differ, and which of the differences matters.

pub mod bisect;
pub mod check;
pub mod diff;
mod family;
pub mod mixed;
