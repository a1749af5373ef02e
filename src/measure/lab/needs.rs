//! Needs of a lab's parts: kernel features, programs and privileges, and their presence here.
//!
//! Nothing is tried: a kernel that is asked for a device loads the module for it, and a list must
//! change nothing. So the answer comes from the kernel's configuration and depmod's tables.

use std::collections::BTreeSet;
use std::path::Path;

use super::Shape;
use crate::error::Error;
use crate::machine::host::{HostRead, kernel_config};
use crate::machine::parse::config;

/// Something that a kernel may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feature {
    /// Description for a person.
    pub what: &'static str,
    /// The configuration option, without `CONFIG_`.
    pub option: &'static str,
    /// The module that has it; empty where there can be none.
    pub module: &'static str,
    /// OpenWrt's package with the module; empty where it is part of the kernel there.
    pub openwrt: &'static str,
}

const fn feature(
    what: &'static str,
    option: &'static str,
    module: &'static str,
    openwrt: &'static str,
) -> Feature {
    Feature { what, option, module, openwrt }
}

/// Network namespaces.
pub const NETNS: Feature = feature("network namespaces", "NET_NS", "", "");
/// veth pairs.
pub const VETH: Feature = feature("veth devices", "VETH", "veth", "kmod-veth");
/// nf_tables itself.
pub const NFT: Feature = feature("nf_tables", "NF_TABLES", "nf_tables", "kmod-nft-core");
/// nf_tables for IPv4; part of nf_tables since kernel 4.17.
pub const NFT_IPV4: Feature =
    feature("nf_tables for IPv4", "NF_TABLES_IPV4", "nf_tables", "kmod-nft-core");
/// nf_tables for IPv6; part of nf_tables since kernel 4.17.
pub const NFT_IPV6: Feature =
    feature("nf_tables for IPv6", "NF_TABLES_IPV6", "nf_tables", "kmod-nft-core");
/// Chains for address translation.
pub const NFT_NAT: Feature = feature("nf_tables NAT", "NFT_NAT", "nft_chain_nat", "kmod-nft-nat");
/// Masquerading.
pub const MASQUERADE: Feature = feature("masquerading", "NFT_MASQ", "nft_masq", "kmod-nft-nat");
/// Counters in rules: a module of their own until kernel 5.17.
pub const COUNTER: Feature =
    feature("counters in rules", "NFT_COUNTER", "nft_counter", "kmod-nft-core");
/// The state of connections in rules.
pub const TRACKING: Feature =
    feature("connection tracking in rules", "NFT_CT", "nft_ct", "kmod-nft-core");
/// Flowtables.
pub const FLOWTABLE: Feature =
    feature("flowtables", "NF_FLOW_TABLE_INET", "nf_flow_table_inet", "kmod-nft-offload");
/// The rule that puts connections into one.
pub const FLOW_OFFLOAD: Feature =
    feature("flow offload in rules", "NFT_FLOW_OFFLOAD", "nft_flow_offload", "kmod-nft-offload");
/// VLANs.
pub const VLAN: Feature = feature("8021q (VLAN devices)", "VLAN_8021Q", "8021q", "");
/// Bridges.
pub const BRIDGE: Feature = feature("bridges", "BRIDGE", "bridge", "kmod-bridge");
/// WireGuard.
pub const WIREGUARD: Feature = feature("WireGuard", "WIREGUARD", "wireguard", "kmod-wireguard");
/// PPP.
pub const PPP: Feature = feature("PPP", "PPP", "ppp_generic", "kmod-ppp");
/// PPPoE.
pub const PPPOE: Feature = feature("PPPoE", "PPPOE", "pppoe", "kmod-pppoe");
/// PPP over a terminal: the server's end where pppoe-server does not leave packets to the kernel.
pub const PPP_ASYNC: Feature = feature("PPP over terminals", "PPP_ASYNC", "ppp_async", "kmod-ppp");
/// IPv6.
pub const IPV6: Feature = feature("IPv6", "IPV6", "ipv6", "");
/// ethtool over netlink.
pub const ETHTOOL: Feature = feature("ethtool netlink", "ETHTOOL_NETLINK", "", "");

impl Feature {
    /// The error of whoever needs it where it is missing: exit 5, with how to get it.
    #[must_use]
    pub fn missing(&self) -> Error {
        let why = format!("this kernel has no {} (CONFIG_{})", self.what, self.option);
        Error::not_supported("lab", why).hint(self.remedy())
    }

    /// Command or advice that makes the feature available. The kernel loads a module by itself once
    /// it is installed.
    #[must_use]
    pub fn remedy(&self) -> String {
        if self.module.is_empty() {
            return format!(
                "it can't be added as a module: take a kernel built with CONFIG_{}",
                self.option
            );
        }
        let openwrt = match self.openwrt {
            "" => "part of the kernel on OpenWrt".to_owned(),
            package => format!("its package is {package} on OpenWrt"),
        };
        format!(
            "try `modprobe {}`; {openwrt}, linux-modules-extra or the full kernel image elsewhere",
            self.module
        )
    }
}

/// A program that may not be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Name of the program.
    pub name: &'static str,
    /// Command or advice that makes the program available.
    pub remedy: &'static str,
}

/// The PPP daemon.
pub const PPPD: Program = Program {
    name: "pppd",
    remedy: "apt install ppp; on OpenWrt the packages ppp and ppp-mod-pppoe",
};
/// The other end of PPPoE.
pub const PPPOE_SERVER: Program = Program {
    name: "pppoe-server",
    remedy: "apt install pppoe; on OpenWrt the package rp-pppoe-server",
};

/// Kernel features that a shape needs, each once, the basic ones first.
#[must_use]
pub fn features(shape: &Shape, rules: bool, flows: bool) -> Vec<Feature> {
    let mut needs = vec![NETNS, VETH];
    if shape.ipv6 {
        needs.push(IPV6);
    }
    if shape.nat || shape.flowtable || rules || flows {
        needs.extend([NFT, if shape.ipv6 { NFT_IPV6 } else { NFT_IPV4 }]);
    }
    if shape.nat {
        needs.extend([NFT_NAT, MASQUERADE]);
    }
    if shape.flowtable {
        needs.extend([FLOWTABLE, FLOW_OFFLOAD]);
    } else if flows && !shape.nat {
        needs.push(TRACKING);
    }
    for (part, feature) in [
        (shape.vlan, VLAN),
        (shape.pppoe, PPP),
        (shape.pppoe, PPPOE),
        (shape.pppoe, PPP_ASYNC),
        (shape.bridge, BRIDGE),
        (shape.wireguard, WIREGUARD),
    ] {
        if part {
            needs.push(feature);
        }
    }
    needs
}

/// The programs that a shape needs.
#[must_use]
pub fn programs(shape: &Shape) -> &'static [Program] {
    if shape.pppoe { &[PPPD, PPPOE_SERVER] } else { &[] }
}

/// The answer to whether something is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Here {
    /// The feature is there.
    Yes,
    /// The feature is a module that the kernel loads when it is first used.
    Loadable,
    /// The feature is missing.
    No,
    /// Neither the kernel's configuration nor depmod's tables can be read.
    Unknown,
}

impl Here {
    /// The answer in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Loadable => "loadable",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// Features of a kernel, by its configuration and the tables of its modules.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// Options that are `y` or `m`, where the configuration can be read.
    options: Option<Vec<(&'static str, bool)>>,
    /// Names of the modules of depmod's table.
    modules: Option<BTreeSet<String>>,
    builtin: Option<BTreeSet<String>>,
    loaded: BTreeSet<String>,
    namespaces: bool,
}

const ALL: [Feature; 18] = [
    NETNS,
    VETH,
    NFT,
    NFT_IPV4,
    NFT_IPV6,
    NFT_NAT,
    MASQUERADE,
    COUNTER,
    TRACKING,
    FLOWTABLE,
    FLOW_OFFLOAD,
    VLAN,
    BRIDGE,
    WIREGUARD,
    PPP,
    PPPOE,
    PPP_ASYNC,
    IPV6,
];

impl Kernel {
    /// Reads it.
    #[must_use]
    pub fn read(host: &dyn HostRead) -> Self {
        let release = host.text(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
        let table = |name: &str| {
            let bytes = host.read(Path::new(&format!("/lib/modules/{release}/{name}"))).ok()?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Some(text.lines().map(module_of).collect::<BTreeSet<_>>())
        };
        let loaded = host.list(Path::new("/sys/module")).unwrap_or_default();
        let wanted: Vec<&'static str> = ALL.iter().map(|f| f.option).collect();
        let options = kernel_config(host, &release)
            .and_then(|(_, text)| config::values(&text, &wanted))
            .map(|values| values.into_iter().map(|(name, value)| (name, value == "y")).collect());
        Self {
            options,
            modules: table("modules.dep"),
            builtin: table("modules.builtin"),
            loaded: loaded.into_iter().collect(),
            namespaces: host.resolve(Path::new("/proc/self/ns/net")).is_ok(),
        }
    }

    /// Availability of a feature in the kernel.
    #[must_use]
    pub fn has(&self, feature: &Feature) -> Here {
        let module = feature.module;
        if *feature == NETNS && self.namespaces {
            return Here::Yes;
        }
        if !module.is_empty() && self.loaded.contains(module) {
            return Here::Yes;
        }
        let in_table = |table: &Option<BTreeSet<String>>| {
            table.as_ref().is_some_and(|names| !module.is_empty() && names.contains(module))
        };
        if in_table(&self.builtin) {
            return Here::Yes;
        }
        if let Some(options) = &self.options {
            return match options.iter().find(|(name, _)| *name == feature.option) {
                Some((_, true)) => Here::Yes,
                // Configured as a module says nothing of whether that is installed.
                Some((_, false)) if self.modules.is_none() || in_table(&self.modules) => {
                    Here::Loadable
                }
                _ => Here::No,
            };
        }
        if in_table(&self.modules) {
            return Here::Loadable;
        }
        if self.builtin.is_some() && self.modules.is_some() && !module.is_empty() {
            return Here::No;
        }
        Here::Unknown
    }
}

/// `kernel/net/8021q/8021q.ko.xz: ...` is `8021q`; dashes count as underscores.
fn module_of(line: &str) -> String {
    let path = line.split(':').next().unwrap_or(line);
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// True if a program is found, by PATH and the places of system programs.
#[must_use]
pub fn find(host: &dyn HostRead, program: &Program) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin", "/usr/bin"])
        .any(|directory| host.resolve(&Path::new(directory).join(program.name)).is_ok())
}

/// True if this process may make namespaces and devices; `None` where /proc does not say.
#[must_use]
pub fn permitted(host: &dyn HostRead) -> Option<bool> {
    // CAP_NET_ADMIN and CAP_SYS_ADMIN (linux/capability.h).
    const NEEDED: u64 = 1 << 12 | 1 << 21;
    let status = host.text(Path::new("/proc/self/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    Some(u64::from_str_radix(line.trim(), 16).ok()? & NEEDED == NEEDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> Option<BTreeSet<String>> {
        Some(names.iter().map(|n| (*n).to_owned()).collect())
    }

    #[test]
    fn a_kernel_without_modules_is_judged_by_its_configuration() {
        let kernel =
            Kernel { options: Some(vec![("VETH", true), ("BRIDGE", true)]), ..Kernel::default() };
        assert_eq!(kernel.has(&VETH), Here::Yes);
        assert_eq!(kernel.has(&VLAN), Here::No);
    }

    #[test]
    fn a_module_must_be_installed_to_be_loadable() {
        let mut kernel = Kernel { options: Some(vec![("WIREGUARD", false)]), ..Kernel::default() };
        assert_eq!(kernel.has(&WIREGUARD), Here::Loadable);
        kernel.modules = set(&["veth"]);
        assert_eq!(kernel.has(&WIREGUARD), Here::No, "OpenWrt: configured, package missing");
        kernel.loaded = set(&["wireguard"]).unwrap();
        assert_eq!(kernel.has(&WIREGUARD), Here::Yes);
    }

    #[test]
    fn without_a_configuration_depmods_tables_decide_or_nothing_is_known() {
        let mut kernel = Kernel { modules: set(&["8021q"]), ..Kernel::default() };
        assert_eq!(kernel.has(&VLAN), Here::Loadable);
        assert_eq!(kernel.has(&VETH), Here::Unknown, "it may be built in");
        kernel.builtin = set(&["veth"]);
        assert_eq!(kernel.has(&VETH), Here::Yes);
        assert_eq!(kernel.has(&PPPOE), Here::No);
        assert_eq!(kernel.has(&NETNS), Here::Unknown);
        assert_eq!(module_of("kernel/net/8021q/8021q.ko.xz: kernel/a.ko"), "8021q");
        assert_eq!(module_of("kernel/net/netfilter/nft-x.ko"), "nft_x");
    }

    #[test]
    fn what_is_missing_is_told_with_how_to_get_it() {
        let error = VLAN.missing();
        assert!(error.to_string().contains("no 8021q"), "{error}");
        assert!(error.to_string().contains("CONFIG_VLAN_8021Q"), "{error}");
        assert!(error.remedy().unwrap().contains("modprobe 8021q"), "{error:?}");
        let shape: Shape = "nat+flowtable+vlan".parse().unwrap();
        let needs = features(&shape, true, true);
        assert!(needs.contains(&VLAN) && needs.contains(&FLOWTABLE) && needs.contains(&MASQUERADE));
        assert!(!needs.contains(&TRACKING), "masquerading tracks by itself");
        assert!(!features(&Shape::ROUTE, false, false).contains(&NFT), "routing needs no ruleset");
    }
}
