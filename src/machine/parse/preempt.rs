//! The preemption model, from three places that state it.

/// Model in force by `/sys/kernel/debug/sched/preempt`: `none voluntary (full) lazy`, the one in
/// brackets (kernel/sched/debug.c `sched_dynamic_show`).
#[must_use]
pub fn in_force(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let word = text.split_whitespace().find(|w| w.starts_with('(') && w.ends_with(')'))?;
    Some(word.trim_matches(['(', ')']).to_owned()).filter(|w| !w.is_empty())
}

/// Model by the text of `uname -v`, and true if it can be chosen at boot. A text without any word
/// of it is that of a kernel without preemption or with voluntary preemption, which the text does
/// not distinguish.
#[must_use]
pub fn of_version(bytes: &[u8]) -> (Option<&'static str>, bool) {
    let text = String::from_utf8_lossy(bytes);
    let has = |word: &str| text.split_whitespace().any(|w| w == word);
    if has("PREEMPT_RT") {
        (Some("rt"), false)
    } else if has("PREEMPT_DYNAMIC") {
        (None, true)
    } else if has("PREEMPT_LAZY") {
        (Some("lazy"), false)
    } else if has("PREEMPT") {
        (Some("full"), false)
    } else {
        (None, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_model_in_brackets_is_in_force() {
        assert_eq!(in_force(b"none voluntary (full) lazy\n").as_deref(), Some("full"));
        assert_eq!(in_force(b"none voluntary full\n"), None);
        assert_eq!(of_version(b"#1 SMP PREEMPT_DYNAMIC Debian 6.1"), (None, true));
        assert_eq!(of_version(b"#1 SMP PREEMPT Fri"), (Some("full"), false));
        assert_eq!(of_version(b"#1 SMP PREEMPT_RT Fri"), (Some("rt"), false));
        assert_eq!(of_version(b"#0 SMP Mon"), (None, false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _known = (in_force(&bytes), of_version(&bytes));
        }
    }
}
