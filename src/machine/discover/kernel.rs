//! Kernel options and parameters: preemption, tick, tracers, crypto.

use std::collections::BTreeMap;
use std::path::Path;

use super::{cpus, text};
use crate::machine::host::{HostRead, kernel_config};
use crate::machine::parse::{cmdline, config, crypto, modules, preempt};
use crate::model::kconfig::PREEMPTION_MODELS;
use crate::model::path::KernelFacts;

/// Options that make every packet dearer when they are on (debugging and tracing).
const COSTLY: &[&str] = &[
    "IRQSOFF_TRACER",
    "PREEMPT_TRACER",
    "PROVE_LOCKING",
    "DEBUG_LOCK_ALLOC",
    "LOCK_STAT",
    "DEBUG_SPINLOCK",
    "DEBUG_MUTEXES",
    "DEBUG_PREEMPT",
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_OBJECTS",
    "DEBUG_PAGEALLOC",
    "DEBUG_KMEMLEAK",
    "DEBUG_NET",
    "SLUB_DEBUG_ON",
    "KASAN",
    "KCSAN",
    "KMSAN",
    "UBSAN",
    "GCOV_KERNEL",
];

const OTHER: &[&str] = &["PREEMPT_DYNAMIC", "HZ", "IRQ_TIME_ACCOUNTING"];

/// Algorithms that tunnels use, by the names of /proc/crypto.
const ALGORITHMS: &[&str] = &[
    "chacha20",
    "poly1305",
    "curve25519",
    "rfc7539(chacha20,poly1305)",
    "gcm(aes)",
    "rfc4106(gcm(aes))",
    "ctr(aes)",
    "cbc(aes)",
    "aes",
];

/// Facts about the kernel, and true if softirq time is accounted exactly (`None` if unknown).
pub(super) fn discover(host: &dyn HostRead, release: &str) -> (KernelFacts, Option<bool>) {
    let version = text(host, Path::new("/proc/sys/kernel/version"))
        .or_else(|| text(host, Path::new("/proc/version")));
    let (place, options) = configuration(host, release);
    let line = host.read(Path::new("/proc/cmdline")).unwrap_or_default();
    let (by_version, dynamic) = preempt::of_version(version.as_deref().unwrap_or("").as_bytes());
    let on = |name: &str| options.as_ref().map(|o| o.contains_key(name));
    let dynamic = on("PREEMPT_DYNAMIC").or(version.is_some().then_some(dynamic));
    let debugfs = host.read(Path::new("/sys/kernel/debug/sched/preempt")).ok();
    let by_debugfs = debugfs.and_then(|bytes| preempt::in_force(&bytes));
    let chosen = cmdline::parameter(&line, "preempt").filter(|_| dynamic == Some(true));
    let by_config = || {
        let options = options.as_ref()?;
        PREEMPTION_MODELS.iter().find(|(option, _)| options.contains_key(option)).map(|(_, m)| *m)
    };
    let of = |model: &str, source: &str| Some((model.to_owned(), source.to_owned()));
    let told = by_debugfs
        .and_then(|model| of(&model, "debugfs sched/preempt"))
        .or_else(|| of(&chosen?, "kernel command line"))
        .or_else(|| of(by_config()?, "kernel configuration"))
        .or_else(|| of(by_version?, "uname -v"))
        .or_else(|| {
            let plain = version.is_some() && dynamic != Some(true);
            plain.then(|| of("none or voluntary", "uname -v names no model")).flatten()
        });
    let words = cmdline::words(&line);
    let key = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    let facts = KernelFacts {
        version,
        preemption: told.as_ref().map(|(model, _)| model.clone()),
        preemption_source: told.map(|(_, source)| source),
        preempt_dynamic: dynamic,
        hz: options.as_ref().and_then(|o| o.get("HZ")?.parse().ok()),
        costly: COSTLY
            .iter()
            .filter(|name| on(name) == Some(true))
            .map(ToString::to_string)
            .collect(),
        config: place,
        crypto: ciphers(host),
        crypto_modules: crypto_modules(host),
        rcu_nocbs: cpus::rcu_nocbs(host),
        parameters: words
            .into_iter()
            .filter(|word| cmdline::PARAMETERS.contains(&key(word).as_str()))
            .collect(),
    };
    (facts, on("IRQ_TIME_ACCOUNTING"))
}

/// Place where the configuration was found, and those of its options that matter here.
fn configuration(
    host: &dyn HostRead,
    release: &str,
) -> (Option<String>, Option<BTreeMap<&'static str, String>>) {
    let models = PREEMPTION_MODELS.iter().map(|(option, _)| option);
    let wanted: Vec<&'static str> = COSTLY.iter().chain(OTHER).chain(models).copied().collect();
    match kernel_config(host, release) {
        Some((place, bytes)) => (Some(place), config::values(&bytes, &wanted)),
        None => (None, None),
    }
}

fn ciphers(host: &dyn HostRead) -> BTreeMap<String, String> {
    let mut all = host
        .read(Path::new("/proc/crypto"))
        .map(|bytes| crypto::chosen(&bytes))
        .unwrap_or_default();
    // IPsec's own go by what is around the cipher (crypto/seqiv.c, crypto/echainiv.c).
    let by_ipsec = |name: &str| name.starts_with("seqiv(") || name.starts_with("echainiv(");
    all.retain(|name, _| ALGORITHMS.contains(&name.as_str()) || by_ipsec(name));
    all
}

fn crypto_modules(host: &dyn HostRead) -> Vec<String> {
    let bytes = host.read(Path::new("/proc/modules")).unwrap_or_default();
    let known = [
        "chacha",
        "poly1305",
        "curve25519",
        "libchacha",
        "libpoly1305",
        "libcurve25519",
        "aes",
        "ghash",
        "polyval",
        "wireguard",
    ];
    let is_crypto = |name: &String| known.iter().any(|k| name.starts_with(k));
    modules::names(&bytes).into_iter().filter(is_crypto).collect()
}
