//! `/proc/modules`: the loaded modules' names.

/// Names in the file's order.
#[must_use]
pub fn names(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_word_is_the_name() {
        let text = b"chacha_neon 28672 0 - Live 0x0000000000000000\n\nwireguard 86016 0\n";
        assert_eq!(names(text), ["chacha_neon", "wireguard"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            prop_assert!(names(&bytes).len() <= bytes.len());
        }
    }
}
