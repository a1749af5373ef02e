//! `/proc/cmdline`: the kernel's parameters.

/// Parameters that change what is measured or placed.
pub const PARAMETERS: &[&str] = &[
    "preempt",
    "isolcpus",
    "nohz_full",
    "nohz",
    "rcu_nocbs",
    "irqaffinity",
    "threadirqs",
    "mitigations",
    "maxcpus",
    "nr_cpus",
    "nosmt",
    "tsc",
    "idle",
    "cpuidle.off",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "pci",
    "pcie_aspm",
    // These take back the effect of an option of the kernel (data/kernel-options.txt).
    "kasan",
    "kmemleak",
    "slab_debug",
    "slub_debug",
    "debug_pagealloc",
    "no_debug_objects",
    "dma_debug",
    "init_on_alloc",
    "init_on_free",
];

/// Value of a parameter: the text behind `name=`, empty for a bare `name`. The last one wins, as
/// in the kernel; quotes around values with blanks are taken off, and what follows a lone `--`
/// is for init.
#[must_use]
pub fn parameter(bytes: &[u8], name: &str) -> Option<String> {
    words(bytes).into_iter().rev().find_map(|word| match word.split_once('=') {
        Some((key, value)) if key == name => Some(value.to_owned()),
        None if word == name => Some(String::new()),
        _ => None,
    })
}

/// The parameters, each as written but for quotes.
#[must_use]
pub fn words(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.trim().chars() {
        match (c, words.last_mut()) {
            ('"', _) => quoted = !quoted,
            (c, _) if c.is_whitespace() && !quoted => words.push(String::new()),
            (c, Some(word)) => word.push(c),
            (_, None) => {}
        }
    }
    words.retain(|w| !w.is_empty());
    let end = words.iter().position(|w| w == "--").unwrap_or(words.len());
    words.truncate(end);
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_value_wins_and_quotes_hold_blanks() {
        let line =
            b"quiet nohz_full=1-3 dyndbg=\"file x +p\" rcu_nocbs=1 rcu_nocbs=2-3 -- nohz_full=9\n";
        assert_eq!(parameter(line, "rcu_nocbs").as_deref(), Some("2-3"));
        assert_eq!(parameter(line, "nohz_full").as_deref(), Some("1-3"));
        assert_eq!(parameter(line, "quiet").as_deref(), Some(""));
        assert_eq!(parameter(line, "dyndbg").as_deref(), Some("file x +p"));
        assert_eq!(parameter(line, "rcu"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, name: String) {
            let _value = parameter(&bytes, &name);
        }
    }
}
