//! Flow offload as one setting: by OpenWrt's firewall where there is one, else by a flowtable of
//! our own; never both.
//!
//! ```text
//!   off            software eth0 eth1          hardware eth0 eth1        own flowtable
//!   off other:fw4  (somebody else's flowtable is in force: ours would not be the only one)
//!   off sw:unset hw:0 file:unset,0         software sw:1 hw:unset file:unset,unset   OpenWrt's options
//! ```
//!
//! Words with a colon are how it came about; no device name has one.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::{HostRead, Query, query_as, uci};
use crate::machine::sys::nft_flow;
pub use crate::machine::sys::nft_flow::TABLE;
use crate::model::path::{Flowtable, Nftables};

/// True if this kernel has flowtables, as far as can be told without asking for one, which would
/// load modules.
///
/// # Errors
/// Why not, in words.
pub fn offers(host: &dyn HostRead) -> Result<(), String> {
    // nf_conntrack_standalone.c has this where CONFIG_NF_FLOW_TABLE is.
    if host.read(Path::new("/proc/sys/net/netfilter/nf_flowtable_tcp_timeout")).is_ok() {
        return Ok(());
    }
    if host.text(Path::new("/proc/modules")).is_ok_and(|list| list.contains("nf_flow_table")) {
        return Ok(());
    }
    let release = host.text(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    let modules = Path::new("/lib/modules").join(release);
    // OpenWrt has all of them in one directory.
    let held = |directory: &Path| {
        let names = host.list(directory).unwrap_or_default();
        names.iter().any(|name| name.starts_with("nf_flow_table."))
    };
    if held(&modules.join("kernel/net/netfilter")) || held(&modules) {
        return Ok(());
    }
    Err("this kernel has no flowtable: no module nf_flow_table (CONFIG_NF_FLOW_TABLE)".into())
}

fn ours(table: &Flowtable) -> bool {
    table.name == format!("{TABLE} {}", nft_flow::FLOWTABLE)
}

/// Text. ENOENT where there can be none.
pub(super) fn read(host: &dyn HostRead, by_firewall: bool) -> Result<String, Errno> {
    if by_firewall && let Some(text) = uci::offload(host) {
        return Ok(text);
    }
    let rules: Nftables = query_as(host, &Query::Nftables).map_err(|e| match e.errno {
        Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::INVAL => Errno::NOENT,
        errno => errno,
    })?;
    if let Some(table) = rules.flowtables.iter().find(|t| ours(t)) {
        let mode = if table.hardware { "hardware" } else { "software" };
        // From 6.16 on the kernel keeps the names of devices that went, for their return
        // (net/netfilter/nf_tables_api.c, `nft_netdev_hook_alloc`).
        let here = |device: &&str| host.list(&Path::new("/sys/class/net").join(device)).is_ok();
        let devices = table.devices.iter().map(String::as_str).filter(here);
        let words: Vec<&str> = [mode].into_iter().chain(devices).collect();
        return Ok(words.join(" "));
    }
    if let Some(other) = rules.flowtables.first() {
        return Ok(format!("off other:{}", other.name.split(' ').next().unwrap_or_default()));
    }
    offers(host).map(|()| "off".to_owned()).map_err(|_| Errno::NOENT)
}

/// Makes it so, in the calling thread's network namespace.
pub(super) fn write(host: &dyn HostRead, by_firewall: bool, text: &str) -> io::Result<()> {
    let (mode, rest) = text.split_once(' ').unwrap_or((text, ""));
    if by_firewall && uci::offload(host).is_some() {
        return Ok(uci::set_offload(host, mode, rest)?);
    }
    let devices: Vec<&str> = rest.split_whitespace().filter(|word| !word.contains(':')).collect();
    if mode == "off" {
        return nft_flow::remove();
    }
    let hardware = match mode {
        "software" => false,
        "hardware" => true,
        _ => return Err(Errno::INVAL.into()),
    };
    let gone = |d: &&str| host.list(&Path::new("/sys/class/net").join(d)).is_err();
    if devices.is_empty() {
        return Err(Errno::INVAL.into());
    }
    if devices.iter().any(gone) {
        return Err(Errno::NODEV.into());
    }
    nft_flow::make(&devices, hardware)
}
