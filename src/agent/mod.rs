//! Measuring over real wires: an agent on each machine, and whoever controls them.
//!
//! ```text
//!   controller ── requests, one answer each (lines over TCP)       ──▶ agent on the LAN host
//!        │                                                               │ data connections, always
//!        │                                                               ▼ opened from the LAN
//!        │                                                            router ◀─ its own agent
//!        │                                                               │
//!        └──────────────────────────────────────────────────────────▶ agent on the WAN host
//! ```
//!
//! An agent does nothing by itself: whoever controls it asks for facts, clocks, counters and one
//! side of a run ([`crate::load::half`]). It ends the run when the controller is gone or silent.
//! The protocol is described in docs/agent.md; its messages are in [`wire`].

mod client;
mod facts;
mod lines;
mod serve;
mod session;
pub mod token;
pub mod wire;

pub use client::{Agent, probe, spin};
pub use facts::{Files, Sample};
pub use serve::{Server, serve};

/// Where an agent listens unless told otherwise.
pub const PORT: u16 = 19_820;
