//! Options that go together: choices of which one is on, and what follows from them without a
//! choice of its own.

/// Facts that the kernel's build finds out of the compiler and the place, and no person sets.
const SURROUNDINGS: &[&str] = &[
    "CC_",
    "GCC_",
    "CLANG_",
    "AS_",
    "LD_",
    "LLD_",
    "RUSTC_",
    "RUST_",
    "BINDGEN_",
    "PAHOLE_",
    "TOOLS_SUPPORT_",
    "HAVE_",
    "ARCH_HAS_",
    "ARCH_SUPPORTS_",
    "ARCH_USE_",
    "ARCH_WANT_",
    "ARCH_HAVE_",
    "ARCH_ENABLE_",
    "ARCH_INLINE_",
    "INLINE_",
    "BUILD_SALT",
    "LOCALVERSION",
    "SYSTEM_TRUSTED_KEY",
    "MODULE_SIG_KEY",
    "BUILDTIME_",
    "INITRAMFS_SOURCE",
    "DEFAULT_HOSTNAME",
];

/// Those that begin so and are choices all the same.
const CHOSEN: &[&str] = &["CC_OPTIMIZE_FOR_", "LD_DEAD_CODE_"];

/// True if an option is a fact of the build, not a choice.
#[must_use]
pub(super) fn is_surroundings(name: &str) -> bool {
    SURROUNDINGS.iter().any(|s| name.starts_with(s)) && !CHOSEN.iter().any(|c| name.starts_with(c))
}

/// Choices: the name that stands for all, exact members, and beginnings of members. From the
/// `choice` blocks of kernel/Kconfig.preempt, kernel/Kconfig.hz, kernel/time/Kconfig, init/Kconfig,
/// drivers/cpufreq/Kconfig, arch/*/Kconfig, security/Kconfig.hardening and lib/Kconfig.debug, with
/// what they select.
const CHOICES: &[(&str, &[&str], &[&str])] = &[
    (
        "PREEMPT",
        &[
            "PREEMPT",
            "PREEMPT_NONE",
            "PREEMPT_VOLUNTARY",
            "PREEMPT_LAZY",
            "PREEMPT_RT",
            "PREEMPT_RT_FULL",
            "PREEMPT_COUNT",
            "PREEMPTION",
            "PREEMPT_RCU",
            "TASKS_RCU",
            "UNINLINE_SPIN_UNLOCK",
            "RCU_BOOST",
            "PREEMPT_NONE_BUILD",
            "PREEMPT_VOLUNTARY_BUILD",
            "PREEMPT_BUILD",
            "PREEMPT_BUILD_AUTO",
        ],
        &[],
    ),
    ("HZ", &["HZ", "HZ_FIXED"], &["HZ_1", "HZ_2", "HZ_3", "HZ_5"]),
    ("NO_HZ", &["HZ_PERIODIC", "NO_HZ_IDLE", "NO_HZ_FULL", "NO_HZ", "NO_HZ_COMMON"], &[]),
    (
        "VIRT_CPU_ACCOUNTING",
        &["TICK_CPU_ACCOUNTING", "VIRT_CPU_ACCOUNTING"],
        &["VIRT_CPU_ACCOUNTING_"],
    ),
    ("CPU_FREQ_DEFAULT_GOV", &[], &["CPU_FREQ_DEFAULT_GOV_"]),
    ("CC_OPTIMIZE_FOR", &[], &["CC_OPTIMIZE_FOR_"]),
    (
        "PAGE_SIZE",
        &["PAGE_SHIFT", "ARM64_PAGE_SHIFT"],
        &["PAGE_SIZE_", "ARM64_4K_", "ARM64_16K_", "ARM64_64K_", "ARM64_CONT_"],
    ),
    ("ARM64_VA_BITS", &[], &["ARM64_VA_BITS", "ARM64_PA_BITS"]),
    ("SLAB", &["SLAB", "SLUB", "SLOB", "SLUB_TINY"], &[]),
    (
        "KERNEL_COMPRESSION",
        &[
            "KERNEL_GZIP",
            "KERNEL_BZIP2",
            "KERNEL_LZMA",
            "KERNEL_XZ",
            "KERNEL_LZO",
            "KERNEL_LZ4",
            "KERNEL_ZSTD",
            "KERNEL_UNCOMPRESSED",
        ],
        &[],
    ),
    ("INIT_STACK", &[], &["INIT_STACK_"]),
    ("DEBUG_INFO", &["DEBUG_INFO"], &["DEBUG_INFO_"]),
    ("MODULE_COMPRESS", &["MODULE_COMPRESS"], &["MODULE_COMPRESS_"]),
    ("DEFAULT_SECURITY", &[], &["DEFAULT_SECURITY_"]),
    ("TRANSPARENT_HUGEPAGE", &[], &["TRANSPARENT_HUGEPAGE_"]),
    ("DEFAULT_TCP_CONG", &["DEFAULT_TCP_CONG"], &["DEFAULT_BBR", "DEFAULT_CUBIC", "DEFAULT_RENO"]),
];

/// Options that an option turns on without a choice, as far as it bears on the options that matter here:
/// (what follows, from which). From the `select` lines of kernel/trace/Kconfig and lib/Kconfig.debug.
const FOLLOWS: &[(&str, &[&str])] = &[
    ("TRACE_IRQFLAGS", &["IRQSOFF_TRACER", "PROVE_LOCKING", "DEBUG_LOCKDEP"]),
    ("TRACER_MAX_TRACE", &["IRQSOFF_TRACER", "PREEMPT_TRACER", "SCHED_TRACER", "HWLAT_TRACER"]),
    ("TRACE_PREEMPT_TOGGLE", &["PREEMPT_TRACER"]),
    ("RING_BUFFER_ALLOW_SWAP", &["IRQSOFF_TRACER", "PREEMPT_TRACER"]),
    ("TRACER_SNAPSHOT", &["IRQSOFF_TRACER", "PREEMPT_TRACER", "SCHED_TRACER"]),
    ("TRACER_SNAPSHOT_PER_CPU_SWAP", &["IRQSOFF_TRACER", "PREEMPT_TRACER", "TRACER_SNAPSHOT"]),
    ("PREEMPTIRQ_TRACEPOINTS", &["IRQSOFF_TRACER", "PREEMPT_TRACER", "PROVE_LOCKING"]),
    ("GENERIC_TRACER", &["IRQSOFF_TRACER", "FUNCTION_TRACER", "SCHED_TRACER", "HWLAT_TRACER"]),
    ("LOCKDEP", &["PROVE_LOCKING", "LOCK_STAT", "DEBUG_LOCK_ALLOC"]),
    ("DEBUG_SPINLOCK", &["PROVE_LOCKING", "LOCK_STAT", "DEBUG_LOCK_ALLOC"]),
    ("DEBUG_MUTEXES", &["PROVE_LOCKING", "LOCK_STAT", "DEBUG_LOCK_ALLOC"]),
    ("DEBUG_RWSEMS", &["PROVE_LOCKING", "DEBUG_LOCK_ALLOC"]),
    ("DEBUG_WW_MUTEX_SLOWPATH", &["PROVE_LOCKING"]),
    ("DEBUG_LOCK_ALLOC", &["PROVE_LOCKING", "LOCK_STAT"]),
    ("PROVE_RCU", &["PROVE_LOCKING"]),
    ("RPS", &["SMP"]),
    ("XPS", &["SMP"]),
    ("RFS_ACCEL", &["RPS"]),
];

/// The choice that an option belongs to, by the name that stands for it.
#[must_use]
pub(super) fn choice(name: &str) -> Option<&'static str> {
    let belongs = |members: &[&str], beginnings: &[&str]| {
        members.contains(&name) || beginnings.iter().any(|b| name.starts_with(b))
    };
    CHOICES.iter().find(|(_, members, begin)| belongs(members, begin)).map(|(name, ..)| *name)
}

/// From which options it follows, the first known one first.
#[must_use]
pub(super) fn follows(name: &str) -> &'static [&'static str] {
    FOLLOWS.iter().find(|(what, _)| *what == name).map_or(&[], |(_, from)| from)
}
