//! `/proc/cpuinfo`: names of the CPUs, their abilities, and the hypervisor flag.
//!
//! Arm prints `CPU implementer`, `CPU part` and `Features` per CPU (old kernels once for all), x86
//! `model name` and `flags`, MIPS `cpu model` and `ASEs implemented`, RISC-V `uarch` and `isa`,
//! PowerPC and SPARC `cpu`, s390 one line `processor 0: ...` per CPU.

use std::collections::BTreeMap;

use crate::model::units::CpuId;

/// Facts of `/proc/cpuinfo` that other files do not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuInfo {
    /// `model name` (x86, some Arm), `cpu model` (MIPS), `uarch` (RISC-V), `cpu` (PowerPC, SPARC),
    /// the machine type (s390), or the names of the Arm cores in order of appearance (`Cortex-A53 +
    /// Cortex-A72`).
    pub model: Option<String>,
    /// True if an x86 CPU has the flag of a guest's.
    pub hypervisor: bool,
    /// `Hardware` (32-bit Arm), `system type` or `machine` (MIPS): the board in the kernel's words.
    pub system: Option<String>,
    /// Each CPU that is listed (the online ones).
    pub cpus: BTreeMap<CpuId, CpuRecord>,
}

/// Facts about one CPU.
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
    "avx512vl",
    "pclmulqdq",
    "vaes",
    "sha_ni",
    // MIPS, RISC-V
    "msa",
    "mips32r2",
    "mips64r2",
    "zvkb",
    "zvkned",
    "zvbb",
    "zbb",
    "zknd",
    // s390
    "vx",
];

/// Reads the file.
#[must_use]
pub fn cpuinfo(bytes: &[u8]) -> CpuInfo {
    let text = String::from_utf8_lossy(bytes);
    let mut info = CpuInfo::default();
    let mut types: Vec<String> = Vec::new();
    let mut current = None;
    let mut implementer = "0x41";
    let mut common = CpuRecord::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            // Old Arm kernels list all CPUs first, then once what holds for all of them.
            if line.trim().is_empty() {
                current = None;
            }
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        // s390: `processor 3: version = 00,  identification = 279F25,  machine = 2817`.
        if let Some(cpu) = key.strip_prefix("processor ").and_then(|number| number.parse().ok()) {
            info.cpus.entry(CpuId(cpu)).or_default();
            if let Some((_, machine)) = value.split_once("machine = ") {
                info.model.get_or_insert_with(|| format!("IBM {machine}"));
            }
            continue;
        }
        // `POWER10 (architected), altivec supported`: the core's instructions are those of ISA 3.1.
        if key == "cpu" && (value.starts_with("POWER10") || value.starts_with("POWER11")) {
            let record = current.and_then(|cpu| info.cpus.get_mut(&cpu));
            record.unwrap_or(&mut common).crypto.push("power10".to_owned());
        }
        match key {
            "processor" => {
                current = value.parse().ok().map(CpuId);
                if let Some(cpu) = current {
                    info.cpus.entry(cpu).or_default();
                }
            }
            "model name" | "cpu model" | "Model Name" | "uarch" | "cpu"
                if info.model.is_none() && !value.is_empty() =>
            {
                info.model = Some(value.to_owned());
            }
            "Hardware" | "machine" | "system type"
                if info.system.is_none() && !value.is_empty() =>
            {
                info.system = Some(value.to_owned());
            }
            "CPU implementer" => implementer = value,
            "CPU part" => {
                let Some(name) = arm_core(implementer, value).map(str::to_owned) else { continue };
                if !types.contains(&name) {
                    types.push(name.clone());
                }
                let record = current.and_then(|cpu| info.cpus.get_mut(&cpu));
                record.unwrap_or(&mut common).core_type = Some(name);
            }
            "flags" | "Features" | "features" | "ASEs implemented" | "isa" => {
                let words = value.split(|c: char| c.is_whitespace() || c == '_');
                let words: Vec<&str> = words.collect();
                info.hypervisor |= words.contains(&"hypervisor");
                let known = words.into_iter().filter(|w| CRYPTO.contains(w)).map(str::to_owned);
                let record = current.and_then(|cpu| info.cpus.get_mut(&cpu));
                // MIPS has two such lines.
                record.unwrap_or(&mut common).crypto.extend(known);
            }
            _ => {}
        }
    }
    for record in info.cpus.values_mut() {
        if record.crypto.is_empty() {
            record.crypto.clone_from(&common.crypto);
        }
        if record.core_type.is_none() {
            record.core_type.clone_from(&common.core_type);
        }
    }
    if !types.is_empty() {
        info.model.get_or_insert_with(|| types.join(" + "));
    }
    info
}

/// Names of cores that speak Arm's instruction set, by who made them and their part number
/// (arch/arm64/include/asm/cputype.h; util-linux lscpu-arm.c).
fn arm_core(implementer: &str, part: &str) -> Option<&'static str> {
    let parts: &[(&str, &'static str)] = match implementer {
        "0x41" => &[
            ("0xc05", "Cortex-A5"),
            ("0xc07", "Cortex-A7"),
            ("0xc08", "Cortex-A8"),
            ("0xc09", "Cortex-A9"),
            ("0xc0d", "Cortex-A17"),
            ("0xc0e", "Cortex-A17"),
            ("0xc0f", "Cortex-A15"),
            ("0xd01", "Cortex-A32"),
            ("0xd02", "Cortex-A34"),
            ("0xd03", "Cortex-A53"),
            ("0xd04", "Cortex-A35"),
            ("0xd05", "Cortex-A55"),
            ("0xd06", "Cortex-A65"),
            ("0xd07", "Cortex-A57"),
            ("0xd08", "Cortex-A72"),
            ("0xd09", "Cortex-A73"),
            ("0xd0a", "Cortex-A75"),
            ("0xd0b", "Cortex-A76"),
            ("0xd0c", "Neoverse-N1"),
            ("0xd0d", "Cortex-A77"),
            ("0xd40", "Neoverse-V1"),
            ("0xd41", "Cortex-A78"),
            ("0xd44", "Cortex-X1"),
            ("0xd46", "Cortex-A510"),
            ("0xd47", "Cortex-A710"),
            ("0xd48", "Cortex-X2"),
            ("0xd49", "Neoverse-N2"),
            ("0xd4d", "Cortex-A715"),
            ("0xd4f", "Neoverse-V2"),
            ("0xd80", "Cortex-A520"),
            ("0xd81", "Cortex-A720"),
        ],
        "0x43" => &[("0x0a1", "ThunderX-88XX"), ("0x0af", "ThunderX2-99xx")],
        "0x48" => &[("0xd01", "TaiShan-v110")],
        "0x51" => &[("0x04d", "Krait"), ("0x06f", "Krait")],
        "0x56" => &[("0x131", "Feroceon-88FR131"), ("0x581", "PJ4"), ("0x584", "PJ4B-MP")],
        "0xc0" => &[("0xac3", "Ampere-1"), ("0xac4", "Ampere-1a")],
        _ => return None,
    };
    parts.iter().find(|(number, _)| *number == part).map(|(_, name)| *name)
}

/// Work that a core type does per cycle, relative to the others named here; `None` for one that is
/// not known. The numbers are `capacity-dmips-mhz` of the kernel's device trees: rk3399.dtsi (A53
/// 485, A72 1024), rk3588-base.dtsi (A55 530, A76 1024), hi3660.dtsi (A53 592, A73 1024),
/// rk3576.dtsi (A53 485, A72 1024), exynos5422-cpus.dtsi (A7 539, A15 1024).
#[must_use]
pub fn work_per_cycle(core_type: &str) -> Option<u32> {
    Some(match core_type {
        "Cortex-A53" | "Cortex-A35" => 485,
        "Cortex-A55" => 530,
        "Cortex-A7" => 539,
        "Cortex-A15" | "Cortex-A72" | "Cortex-A73" | "Cortex-A76" => 1024,
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

    #[test]
    fn old_arm_kernels_say_once_what_holds_for_all() {
        // Dumps of util-linux (armv7) and hwloc (2arm-2c).
        let arm = b"Processor\t: ARMv7 Processor rev 4 (v7l)\nprocessor\t: 0\nBogoMIPS\t: 1694.10\n\nprocessor\t: 1\nBogoMIPS\t: 1694.10\n\nFeatures\t: swp half neon vfpv3\nCPU implementer\t: 0x41\nCPU part\t: 0xc0f\n\nHardware\t: SAMSUNG EXYNOS5\n";
        let info = cpuinfo(arm);
        for cpu in [0, 1] {
            let record = &info.cpus[&CpuId(cpu)];
            assert_eq!(record.core_type.as_deref(), Some("Cortex-A15"), "CPU {cpu}");
            assert_eq!(record.crypto, ["neon"], "CPU {cpu}");
        }
        assert_eq!(info.system.as_deref(), Some("SAMSUNG EXYNOS5"));
    }

    #[test]
    fn families_that_print_it_their_own_way() {
        // Dumps of util-linux (s390-lpar, ppc64-POWER7) and hwloc (128arm).
        let s390 = b"vendor_id       : IBM/S390\n# processors    : 2\nprocessor 1: version = 00,  identification = 279F25,  machine = 2817\nprocessor 4: version = 00,  identification = 279F25,  machine = 2817\n";
        let info = cpuinfo(s390);
        assert_eq!(info.cpus.keys().map(|cpu| cpu.0).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(info.model.as_deref(), Some("IBM 2817"));
        let power = b"processor\t: 0\ncpu\t\t: POWER7 (architected), altivec supported\n";
        assert_eq!(
            cpuinfo(power).model.as_deref(),
            Some("POWER7 (architected), altivec supported")
        );
        let kunpeng = b"processor\t: 0\nCPU implementer\t: 0x48\nCPU part\t: 0xd01\n";
        assert_eq!(cpuinfo(kunpeng).model.as_deref(), Some("TaiShan-v110"));
    }

    #[test]
    fn other_architectures_name_what_their_ciphers_need() {
        let of = |text: &str| {
            let info = cpuinfo(text.as_bytes());
            info.cpus.get(&CpuId(0)).map(|cpu| cpu.crypto.join(" ")).unwrap_or_default()
        };
        // Loongson 3A4000, shortened: two lines of one record.
        let mips = "processor\t\t: 0\nisa\t\t\t: mips1 mips32r1 mips32r2 mips64r2\n\
                    ASEs implemented\t: vz msa loongson-mmi\n";
        assert_eq!(of(mips), "mips32r2 mips64r2 msa");
        let riscv = "processor\t: 0\nisa\t\t: rv64imafdcv_zicbom_zba_zbb_zvkb_zvkned\n";
        assert_eq!(of(riscv), "zbb zvkb zvkned");
        let power = "processor\t: 0\ncpu\t\t: POWER10 (architected), altivec supported\n";
        assert_eq!(of(power), "power10");
        let s390 = "vendor_id       : IBM/S390\nfeatures\t: esan3 zarch stfle msa vx vxd sie\n\
                    processor 0: version = FF\nprocessor\t: 0\n";
        assert!(of(s390).ends_with("vx"), "{}", of(s390));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "(processor|flags|Features|CPU part|)\t?: ?[0-9a-z ]{0,9}\n") {
            let _info = (cpuinfo(&bytes), cpuinfo(text.as_bytes()));
        }
    }
}
