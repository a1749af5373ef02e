//! Packet engines beside the CPUs: the traces of a vendor's hardware offload that can be seen.

use std::collections::BTreeMap;
use std::path::Path;

use super::text;
use crate::machine::host::{HostRead, Query, query_as};
use crate::machine::parse::modules;
use crate::model::path::Engine;

/// Switches of MediaTek's Wi-Fi drivers for forwarding past the CPU (mt76, mt7915/mmio.c and
/// mt7996/mmio.c).
const WED: &[&str] =
    &["/sys/module/mt7915e/parameters/wed_enable", "/sys/module/mt7996e/parameters/wed_enable"];

/// Modules that forward by themselves: Qualcomm's NSS cores and their connection manager, and its
/// PPE; MediaTek's own driver for the PPE.
const MODULES: &[(&str, &str)] = &[
    ("qca_nss_drv", "nss"),
    ("ecm", "nss"),
    ("qca_nss_ecm", "nss"),
    ("qca_nss_ppe", "ppe"),
    ("qca_ppe", "ppe"),
    ("mtkhnat", "ppe"),
];

pub(super) fn discover(host: &dyn HostRead) -> Vec<Engine> {
    let mut found = Vec::new();
    let bound: BTreeMap<String, u64> = query_as(host, &Query::PpeFlows).unwrap_or_default();
    for (evidence, bound) in bound {
        found.push(Engine { name: "ppe".into(), enabled: None, bound: Some(bound), evidence });
    }
    for path in WED {
        if let Some(value) = text(host, Path::new(path)) {
            let enabled = match value.as_str() {
                "Y" | "1" => Some(true),
                "N" | "0" => Some(false),
                _ => None,
            };
            let evidence = (*path).to_owned();
            found.push(Engine { name: "wed".into(), enabled, bound: None, evidence });
        }
    }
    let loaded = modules::names(&host.read(Path::new("/proc/modules")).unwrap_or_default());
    for (module, name) in MODULES.iter().filter(|(module, _)| loaded.iter().any(|l| l == module)) {
        let evidence = format!("module {module}");
        found.push(Engine { name: (*name).into(), enabled: None, bound: None, evidence });
    }
    found
}
