//! `KEY=value` files: os-release (shell-like quotes) and sysfs `uevent`.

/// The value of `key`, without quotes; the last one wins, as in a shell.
#[must_use]
pub fn value(bytes: &[u8], key: &str) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter_map(|line| line.trim().split_once('='))
        .filter(|(k, _)| *k == key)
        .map(|(_, v)| unquote(v.trim()))
        .next_back()
}

fn unquote(text: &str) -> String {
    let inner = ['"', '\''].iter().find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q));
    inner.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn quotes_are_taken_off_and_the_last_value_wins() {
        let text = b"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\r\nID='x'\nBAD\n";
        assert_eq!(value(text, "PRETTY_NAME").as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(value(text, "ID").as_deref(), Some("x"));
        assert_eq!(value(text, "BAD"), None);
        assert_eq!(value(b"A=\"", "A").as_deref(), Some("\""));
    }
}
