//! Measuring over real wires: an agent on each machine, and whoever controls them.
//!
//! In come requests of a controller, which proves that it has the token where there is one; out go
//! facts, counters and one side of a run. An agent reads its machine, and opens sockets and threads
//! for the load; it changes no setting.
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
//! side of a run ([`crate::measure::load::half`]). It ends the run when the controller is gone or
//! silent. The protocol is described in docs/agent.md; its messages are in [`protocol`].

mod client;
mod facts;
pub mod limits;
mod lines;
pub mod protocol;
mod serve;
mod session;
pub mod token;

pub use client::{Agent, probe, spin};
pub use facts::{Files, Sample};
pub use serve::{Server, serve};

/// Port on which an agent listens by default.
pub const PORT: u16 = 19_820;
