//! Kernel configurations as they are published (fixtures/kernel/README.md): none is warned about for
//! what it does not say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use linerate::decide::kernel::check::check;
use linerate::machine::parse::config;
use linerate::model::finding::{Finding, Severity};
use linerate::model::kconfig::KernelConfig;

/// All files below a directory.
fn files(at: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        at.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push(path);
        }
    }
}

/// A published file: its name, its text, and what the file itself says.
type Published = (String, String, KernelConfig);

/// Each of them, unpacked once for all tests.
fn published() -> &'static [Published] {
    static ALL: OnceLock<Vec<Published>> = OnceLock::new();
    ALL.get_or_init(unpacked)
}

fn unpacked() -> Vec<Published> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("published");
    drop(std::fs::remove_dir_all(&root));
    std::fs::create_dir_all(&root).unwrap();
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/kernel/published.tar.xz");
    let unpacked = Command::new("tar").args(["-xJf", packed, "-C"]).arg(&root).status().unwrap();
    assert!(unpacked.success());
    let mut all = Vec::new();
    files(&root, &mut all);
    let of = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        // A file of remarks alone is no configuration.
        let config = config::read(text.as_bytes())?;
        Some((name, text, config))
    };
    all.into_iter().filter_map(of).collect()
}

fn warnings(config: &KernelConfig) -> Vec<(String, Finding)> {
    let grave = check(config, "x", None).findings.into_iter();
    let grave = grave.filter(|finding| finding.severity >= Severity::Warning);
    grave.map(|f| (f.rule.trim_start_matches("kernel-").to_owned(), f)).collect()
}

#[test]
fn a_published_configuration_is_only_warned_about_for_a_line_of_its_own() {
    let all = published();
    assert!(all.len() > 260, "{}", all.len());
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, text, config) in all {
        for (option, _) in warnings(config) {
            let lines = [format!("CONFIG_{option}=y"), format!("# CONFIG_{option} is not set")];
            if !text.lines().any(|line| lines.iter().any(|own| own == line)) {
                wrong.push(format!("{name}: {option}"));
            }
            *counts.entry(option).or_default() += 1;
        }
    }
    assert!(wrong.is_empty(), "warned about for what they do not say:\n{}", wrong.join("\n"));
    // What distributions and boards really switch on; PREEMPT_RT is the three kernels for low latency.
    let counts: Vec<_> = counts.iter().map(|(option, n)| (option.as_str(), *n)).collect();
    let expected = [
        ("DEBUG_KMEMLEAK", 2),
        ("DEBUG_SPINLOCK", 12),
        ("DMA_API_DEBUG", 3),
        ("IRQSOFF_TRACER", 3),
        ("KASAN", 1),
        ("PREEMPT", 32),
        ("PREEMPT_RT", 3),
        ("PREEMPT_TRACER", 1),
        ("PROVE_LOCKING", 5),
        ("SLUB_DEBUG_ON", 2),
    ];
    assert_eq!(counts, expected);
}

/// What such a line says is what the warning is of: without it there is none.
#[test]
fn a_configuration_without_the_line_is_not_warned_about_for_it() {
    for (name, text, config) in published() {
        for (option, _) in warnings(config) {
            let own = format!("CONFIG_{option}=y");
            let lines = text.lines().filter(|line| *line != own);
            let without: String = lines.map(|line| format!("{line}\n")).collect();
            let Some(without) = config::read(without.as_bytes()) else { continue };
            let left: Vec<String> = warnings(&without).into_iter().map(|(o, _)| o).collect();
            assert!(!left.contains(&option), "{name} without {option}: {left:?}");
        }
    }
}

/// The architecture of a file without a heading is guessed by its options: rather not at all than
/// wrongly.
#[test]
fn the_architecture_of_a_published_configuration_is_right_or_not_known() {
    let mut known = 0;
    for (name, _, config) in published() {
        let mut parts = name.split('/').filter(|part| *part != "." && *part != "configs");
        let arch = match (parts.next(), parts.next()) {
            (Some("debian"), Some(file)) => match file.split('-').next() {
                Some("amd64") => "x86",
                Some("armhf") => "arm",
                other => other.unwrap(),
            },
            (_, arch) => arch.unwrap(),
        };
        if let Some(found) = config.arch.as_deref() {
            assert_eq!(found, arch, "{name}");
            known += 1;
        }
    }
    assert!(known > 200, "{known}");
}
