//! Kernel, board, operating system, virtualisation.

use std::path::Path;

use super::{Gaps, boards, text};
use crate::machine::host::HostRead;
use crate::machine::parse::cpuinfo::{CpuInfo, cpuinfo};
use crate::machine::parse::keyvalue;
use crate::model::snapshot::Machine;

pub(super) fn discover(host: &dyn HostRead, gaps: &mut Gaps) -> (Machine, CpuInfo) {
    let kernel = text(host, Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    let info = gaps.keep("CPU model", host.read(Path::new("/proc/cpuinfo"))).map(|b| cpuinfo(&b));
    let info = info.unwrap_or_default();
    let dmi = |name: &str| text(host, &Path::new("/sys/class/dmi/id").join(name));
    let tree = |name: &str| {
        // /proc/device-tree is a link to it.
        ["/proc/device-tree", "/sys/firmware/devicetree/base"]
            .iter()
            .find_map(|root| text(host, &Path::new(root).join(name)))
    };
    let strings = |text: String| -> Vec<String> {
        text.split('\0').filter(|s| !s.is_empty()).map(str::to_owned).collect()
    };
    let compatible = tree("compatible").map(strings).unwrap_or_default();
    let board = tree("model")
        .map(|m| m.trim_end_matches('\0').to_owned())
        .or_else(|| openwrt_model(host))
        .or_else(|| dmi("product_name"))
        .or_else(|| info.system.clone());
    let virtualisation = text(host, Path::new("/sys/hypervisor/type"))
        .or_else(|| dmi("sys_vendor").filter(|v| is_hypervisor(v)))
        .or_else(|| info.hypervisor.then(|| "a hypervisor".to_owned()))
        .or_else(|| container(host));
    let os = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| keyvalue::value(&host.read(Path::new(path)).ok()?, "PRETTY_NAME"))
        .or_else(|| {
            let release = host.read(Path::new("/etc/openwrt_release")).ok()?;
            keyvalue::value(&release, "DISTRIB_DESCRIPTION")
        });
    let arch = host.arch();
    let machine = Machine {
        hostname: text(host, Path::new("/proc/sys/kernel/hostname")).unwrap_or_default(),
        irq_time_accounting: None,
        board_facts: boards::discover(host, gaps, &compatible, board.as_deref(), &arch),
        compatible,
        kernel,
        arch,
        board,
        os,
        cpu_model: info.model.clone(),
        virtualisation,
        id: text(host, Path::new("/etc/machine-id")).map(|id| hash(id.as_bytes())),
    };
    (machine, info)
}

/// `model.name` of OpenWrt's board.json.
fn openwrt_model(host: &dyn HostRead) -> Option<String> {
    let json = host.read(Path::new("/etc/board.json")).ok()?;
    let board: serde_json::Value = serde_json::from_slice(&json).ok()?;
    board.pointer("/model/name")?.as_str().map(str::to_owned)
}

/// The container manager, where one left its mark (systemd's file, Docker's, LXC's).
fn container(host: &dyn HostRead) -> Option<String> {
    let named = text(host, Path::new("/run/systemd/container"));
    let mark = |path, name: &str| host.read(Path::new(path)).is_ok().then(|| name.to_owned());
    named
        .or_else(|| mark("/.dockerenv", "docker"))
        .or_else(|| mark("/run/.containerenv", "podman"))
        .map(|name| format!("container: {name}"))
}

fn is_hypervisor(vendor: &str) -> bool {
    [
        "QEMU",
        "VMware",
        "Xen",
        "innotek",
        "Microsoft Corporation",
        "Amazon EC2",
        "Google",
        "Parallels",
    ]
    .iter()
    .any(|known| vendor.contains(known))
}

/// FNV-1a, 64 bits, as 16 hexadecimal digits: distinguishes machines without giving the id away.
pub(super) fn hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn the_hash_is_fnv_1a() {
        // Test vectors from the FNV reference (draft-eastlake-fnv).
        assert_eq!(hash(b""), "cbf29ce484222325");
        assert_eq!(hash(b"foobar"), "85944171f73967e8");
    }
}
