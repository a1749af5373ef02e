//! How packets are encrypted.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "slow-ipsec",
        what: "IPsec with the portable AES on a processor that has instructions for it",
        costs: "the portable code does a fraction of what the instructions do; how much that costs here \
                was not measured",
        source: "crypto/aes_generic.c; crypto/seqiv.c, crypto/echainiv.c (used by IPsec alone)",
        reads: "/proc/crypto, CPU features",
        load: Load::Apart,
        look: ipsec,
    },
    Rule {
        id: "slow-crypto",
        what: "WireGuard without the fast ChaCha20 or Poly1305 of this architecture",
        costs: "the portable C code does a third to a half of what vector instructions do: JH7110 and TH1520 \
            made about 400 Mbit/s for want of vector code, where Arm boards of the same class make 800 to \
            1100",
        source: "field report WG",
        reads: "WireGuard devices, /proc/crypto, /proc/modules, CPU features",
        load: Load::Apart,
        look,
    },
];

/// Names of what IPsec puts around a cipher.
const BY_IPSEC: &[&str] = &["seqiv(", "echainiv("];

fn ipsec(subject: &Subject<'_>) -> Looked {
    let ciphers = &subject.snapshot.kernel.crypto;
    if ciphers.is_empty() {
        return Err("/proc/crypto can't be read".into());
    }
    let cpus = &subject.snapshot.cpus;
    let able = cpus.iter().any(|c| c.crypto.iter().any(|feature| feature == "aes"));
    let slow = |(name, driver): &(&String, &String)| {
        BY_IPSEC.iter().any(|by| name.starts_with(by)) && driver.contains("aes-generic")
    };
    let Some((name, driver)) = ciphers.iter().find(slow).filter(|_| able) else {
        return Ok(Vec::new());
    };
    let module = match subject.snapshot.machine.arch.as_str() {
        "x86_64" => "aesni-intel",
        "aarch64" => "aes-ce-blk ghash-ce",
        arch if arch.starts_with("arm") => "aes-arm-ce ghash-arm-ce",
        _ => return Ok(Vec::new()),
    };
    Ok(vec![
        Found::new(Severity::Warning, "IPsec encrypts with the portable AES")
            .seen(format!("/proc/crypto, {name}, driver"), driver)
            .seen("CPU features", "aes")
            .rank(0.35)
            .sure(Confidence::Likely)
            .remedy(format!("modprobe -a {module}  # or a kernel that has them built in"))
            .remedy("then make the tunnels anew: a state keeps the cipher that it was made with"),
    ])
}

fn look(subject: &Subject<'_>) -> Looked {
    let kernel = &subject.snapshot.kernel;
    let tunnel = subject.snapshot.netdevs.iter().find(|d| d.kind.as_deref() == Some("wireguard"));
    let Some(tunnel) = tunnel else { return Ok(Vec::new()) };
    let arch = subject.snapshot.machine.arch.as_str();
    let able = |features: &[&str]| {
        let mut cpus = subject.snapshot.cpus.iter().filter(|c| !c.crypto.is_empty());
        cpus.any(|c| c.crypto.iter().any(|f| features.contains(&f.as_str())))
    };
    // What the processor needs for the fast code, and the modules that have it (Kconfig and Makefile
    // of arch/*/crypto).
    let (wanted, module): (&[&str], &str) = match arch {
        "aarch64" => (&["neon", "asimd"], "chacha-neon poly1305-neon"),
        a if a.starts_with("arm") => (&["neon"], "chacha-neon poly1305-arm"),
        "x86_64" => (&["avx2", "avx512vl", "avx", "ssse3"], "chacha-x86_64 poly1305-x86_64"),
        // chacha-riscv64-zvkb.S, from 6.8 on; vectors alone are not enough.
        a if a.starts_with("riscv") => (&["zvkb"], "chacha-riscv64"),
        // chacha-core.S and poly1305-mips.pl.
        a if a.starts_with("mips") => (&["mips32r2", "mips64r2"], "chacha-mips poly1305-mips"),
        // chacha-s390.S: the vector facility, z13 and later.
        "s390x" => (&["vx"], "chacha_s390"),
        // chacha-p10-glue.c, from 6.5 on.
        "ppc64le" => (&["power10"], "chacha-p10-crypto"),
        _ => return Err(format!("it is not known here which implementations {arch} has")),
    };
    // Every arm64 CPU that runs Linux has NEON.
    if arch != "aarch64" && !able(wanted) {
        return Ok(Vec::new());
    }
    let fast = |m: &String| {
        let own = ["neon", "x86_64", "avx", "simd", "riscv64", "mips", "s390", "p10", "_arm"];
        let own = own.iter().any(|word| m.contains(word));
        own && (m.contains("chacha") || m.contains("poly1305"))
    };
    if kernel.crypto_modules.iter().any(fast) {
        return Ok(Vec::new());
    }
    let Some(chosen) = kernel.crypto.get("chacha20") else {
        return Err(
            "/proc/crypto names no chacha20: the kernel's library may be fast or not".into()
        );
    };
    if !chosen.contains("generic") {
        return Ok(Vec::new());
    }
    Ok(vec![
        Found::new(
            Severity::Warning,
            format!("{} encrypts with the portable ChaCha20", tunnel.name),
        )
        .seen("/proc/crypto, chacha20, driver", chosen)
        .seen("/proc/modules: fast ChaCha20 or Poly1305", "none")
        .rank(0.4)
        .sure(Confidence::Likely)
        .remedy(format!("modprobe -a {module}  # or a kernel that has them built in"))
        .remedy("then make the tunnel anew, and: linerate bench wireguard"),
    ])
}
