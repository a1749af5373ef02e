//! Settings are changed all or nothing, and everything gets back to what it was, whatever fails at
//! whichever write, wherever the process dies.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, reason = "tests set their own scene")]

mod changes;
mod channels;
mod cost;
mod faults;
mod fresh;
mod guard;
mod kernel;
mod kills;
mod random;
mod scene;
mod session;
mod undo;

mod prelude {
    pub(crate) use linerate::change::apply::{self, Changer, Hold, Whereabouts};
    pub(crate) use linerate::change::verify::verify;
    pub(crate) use linerate::error::Error;
    pub(crate) use linerate::error::ExitCode;
    pub(crate) use linerate::machine::host::faulty::{Fault, Faulty};
    pub(crate) use linerate::machine::host::{FakeHost, HostRead, HostWrite, Live};
    pub(crate) use linerate::machine::store::StateDir;
    pub(crate) use linerate::machine::store::journal::Journal;
    pub(crate) use linerate::machine::sys::netns::NetnsThread;
    pub(crate) use linerate::model::cpuset::CpuSet;
    pub(crate) use linerate::model::identity::HostIdentity;
    pub(crate) use linerate::model::knob::{Knob, Value};
    pub(crate) use linerate::model::plan::{Candidate, Change};
    pub(crate) use linerate::model::snapshot::{IrqId, IrqRole, Snapshot};
    pub(crate) use linerate::model::units::CpuId;
    pub(crate) use proptest::prelude::*;
    pub(crate) use rustix::io::Errno;
    pub(crate) use std::collections::BTreeMap;
    pub(crate) use std::fs;
    pub(crate) use std::path::{Path, PathBuf};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
    pub(crate) use std::time::Duration;

    pub(crate) use crate::scene::*;
}
