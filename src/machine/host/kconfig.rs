//! Where a running kernel tells what it was built with.

use std::path::Path;

use super::{HostRead, MAX_READ};
use crate::machine::parse::{config, gzip};

/// The running kernel's configuration and where it was found: `/proc/config.gz`, then what
/// distributions put beside the kernel. `None` when the machine does not tell.
#[must_use]
pub fn kernel_config(host: &dyn HostRead, release: &str) -> Option<(String, Vec<u8>)> {
    let packed = "/proc/config.gz";
    let plain = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let unpacked = || gzip::unpack(&host.read(Path::new(packed)).ok()?, MAX_READ).ok();
    let of_proc = unpacked().map(|bytes| (packed.to_owned(), bytes));
    let beside = plain.into_iter().map(|place| {
        let bytes = host.read(Path::new(&place)).ok()?;
        Some((place, bytes))
    });
    std::iter::once(of_proc).chain(beside).flatten().find(|(_, bytes)| config::is_one(bytes))
}
