//! `/proc/cpuinfo`: what the CPUs are called, what each can do, and the hypervisor flag.
//!
//! Arm prints `CPU implementer`, `CPU part` and `Features` per CPU, x86 `model name` and `flags`,
//! MIPS `cpu model` and `ASEs implemented`, RISC-V `uarch` and `isa`.

use std::collections::BTreeMap;

use crate::model::units::CpuId;

/// What `/proc/cpuinfo` tells that other files do not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuInfo {
    /// `model name` (x86, some Arm), `cpu model` (MIPS), `uarch` (RISC-V), or the names of the Arm
    /// cores in order of appearance (`Cortex-A53 + Cortex-A72`).
    pub model: Option<String>,
    /// Whether an x86 CPU says that it is a guest's.
    pub hypervisor: bool,
    /// `Hardware` (32-bit Arm), `system type` or `machine` (MIPS): the board in the kernel's words.
    pub system: Option<String>,
    /// Each CPU that is listed (the online ones).
    pub cpus: BTreeMap<CpuId, CpuRecord>,
}

/// What is told of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuRecord {
    /// Type of an Arm core (`Cortex-A72`), where its part number is known.
    pub core_type: Option<String>,
    /// Instructions for cryptography among its features, in the file's order.
    pub crypto: Vec<String>,
}

/// Features that decide which cipher or checksum implementation the kernel can choose.
const CRYPTO: &[&str] = &[
    // Arm
    "neon",
    "asimd",
    "aes",
    "pmull",
    "sha1",
    "sha2",
    "sha3",
    "sha512",
    "sve",
    // x86
    "ssse3",
    "avx",
    "avx2",
    "avx512f",
    "pclmulqdq",
    "vaes",
    "sha_ni",
    // MIPS, RISC-V
    "msa",
    "zvkned",
    "zvbb",
    "zbb",
    "zknd",
];

/// Reads the file.
#[must_use]
pub fn cpuinfo(bytes: &[u8]) -> CpuInfo {
    let text = String::from_utf8_lossy(bytes);
    let mut info = CpuInfo::default();
    let mut types: Vec<String> = Vec::new();
    let mut current = None;
    let mut arm = true;
    let mut common: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match key {
            "processor" => {
                current = value.parse().ok().map(CpuId);
                if let Some(cpu) = current {
                    info.cpus.entry(cpu).or_default();
                }
            }
            "model name" | "cpu model" | "uarch" if info.model.is_none() && !value.is_empty() => {
                info.model = Some(value.to_owned());
            }
            "Hardware" | "machine" | "system type"
                if info.system.is_none() && !value.is_empty() =>
            {
                info.system = Some(value.to_owned());
            }
            "CPU implementer" => arm = value == "0x41",
            "CPU part" if arm => {
                let Some(name) = arm_part(value).map(str::to_owned) else { continue };
                if !types.contains(&name) {
                    types.push(name.clone());
                }
                if let Some(record) = current.and_then(|cpu| info.cpus.get_mut(&cpu)) {
                    record.core_type = Some(name);
                }
            }
            "flags" | "Features" | "ASEs implemented" | "isa" => {
                let words = value.split(|c: char| c.is_whitespace() || c == '_');
                let words: Vec<&str> = words.collect();
                info.hypervisor |= words.contains(&"hypervisor");
                let known =
                    words.into_iter().filter(|w| CRYPTO.contains(w)).map(str::to_owned).collect();
                match current.and_then(|cpu| info.cpus.get_mut(&cpu)) {
                    Some(record) => record.crypto = known,
                    None => common = known,
                }
            }
            // Old Arm kernels list all CPUs first, then once what holds for all of them.
            "" => current = None,
            _ => {}
        }
        if key == "ASEs implemented" || key == "isa" {
            arm = false;
        }
    }
    for record in info.cpus.values_mut().filter(|r| r.crypto.is_empty()) {
        record.crypto.clone_from(&common);
    }
    if !types.is_empty() {
        info.model.get_or_insert_with(|| types.join(" + "));
    }
    info
}

/// Names of Arm's own cores (arch/arm64/include/asm/cputype.h; util-linux lscpu-arm.c).
fn arm_part(part: &str) -> Option<&'static str> {
    Some(match part {
        "0xc05" => "Cortex-A5",
        "0xc07" => "Cortex-A7",
        "0xc08" => "Cortex-A8",
        "0xc09" => "Cortex-A9",
        "0xc0d" => "Cortex-A17",
        "0xc0e" => "Cortex-A17",
        "0xc0f" => "Cortex-A15",
        "0xd01" => "Cortex-A32",
        "0xd03" => "Cortex-A53",
        "0xd04" => "Cortex-A35",
        "0xd05" => "Cortex-A55",
        "0xd07" => "Cortex-A57",
        "0xd08" => "Cortex-A72",
        "0xd09" => "Cortex-A73",
        "0xd0a" => "Cortex-A75",
        "0xd0b" => "Cortex-A76",
        "0xd0c" => "Neoverse-N1",
        "0xd0d" => "Cortex-A77",
        "0xd40" => "Neoverse-V1",
        "0xd41" => "Cortex-A78",
        "0xd46" => "Cortex-A510",
        "0xd47" => "Cortex-A710",
        "0xd49" => "Neoverse-N2",
        "0xd4d" => "Cortex-A715",
        "0xd80" => "Cortex-A520",
        "0xd81" => "Cortex-A720",
        _ => return None,
    })
}

/// What a core type does per cycle, relative to the others named here; `None` for one that is not
/// known. The numbers are `capacity-dmips-mhz` of the kernel's device trees: rk3399.dtsi (A53 485,
/// A72 1024), rk3588-base.dtsi (A55 530, A76 1024), hi3660.dtsi (A53 592, A73 1024),
/// rk3576.dtsi (A53 485, A72 1024).
#[must_use]
pub fn work_per_cycle(core_type: &str) -> Option<u32> {
    Some(match core_type {
        "Cortex-A53" | "Cortex-A35" => 485,
        "Cortex-A55" => 530,
        "Cortex-A72" | "Cortex-A73" | "Cortex-A76" => 1024,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn model_of_x86_arm_and_mips() {
        let x86 =
            b"processor\t: 0\nmodel name\t: AMD EPYC 7B13\nflags\t\t: fpu aes hypervisor lm avx2\n";
        let info = cpuinfo(x86);
        assert_eq!(info.model.as_deref(), Some("AMD EPYC 7B13"));
        assert!(info.hypervisor);
        assert_eq!(info.cpus[&CpuId(0)].crypto, ["aes", "avx2"]);
        let mips = b"system type\t\t: MediaTek MT7621 ver:1 eco:3\nmachine\t\t: Ubiquiti EdgeRouter X\nprocessor\t\t: 0\ncpu model\t\t: MIPS 1004Kc V2.15\nASEs implemented\t: mips16 dsp mt\n";
        let info = cpuinfo(mips);
        assert_eq!(info.model.as_deref(), Some("MIPS 1004Kc V2.15"));
        assert_eq!(info.system.as_deref(), Some("MediaTek MT7621 ver:1 eco:3"));
        assert_eq!(cpuinfo(b"\xff\xfe:"), CpuInfo::default());
    }

    #[test]
    fn each_arm_core_has_its_own_type_and_features() {
        let arm = b"processor\t: 0\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n\nprocessor\t: 4\nFeatures\t: fp asimd\nCPU part\t: 0xd08\n";
        let info = cpuinfo(arm);
        assert_eq!(info.model.as_deref(), Some("Cortex-A53 + Cortex-A72"));
        let little = &info.cpus[&CpuId(0)];
        assert_eq!(little.core_type.as_deref(), Some("Cortex-A53"));
        assert_eq!(little.crypto, ["asimd", "aes", "pmull", "sha1", "sha2"]);
        assert_eq!(info.cpus[&CpuId(4)].core_type.as_deref(), Some("Cortex-A72"));
        assert_eq!(info.cpus[&CpuId(4)].crypto, ["asimd"]);
        // Part numbers are each implementer's own: Qualcomm's 0xd08 would be no Cortex-A72.
        let other = b"processor: 0\nCPU implementer: 0x51\nCPU part: 0xd08\n";
        assert_eq!(cpuinfo(other).cpus[&CpuId(0)].core_type, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "(processor|flags|Features|CPU part|)\t?: ?[0-9a-z ]{0,9}\n") {
            let _info = (cpuinfo(&bytes), cpuinfo(text.as_bytes()));
        }
    }
}
