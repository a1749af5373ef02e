//! Keys from what a terminal sends.

use crate::report::top::Key;

/// Endings of the escape sequences of keys, behind `ESC [` or `ESC O` (ECMA-48, and what xterm, screen,
/// the Linux console and the VT100 made of it).
const SEQUENCES: [(&[u8], Key); 14] = [
    (b"A", Key::Up),
    (b"B", Key::Down),
    (b"C", Key::Right),
    (b"D", Key::Left),
    (b"H", Key::Home),
    (b"F", Key::End),
    (b"M", Key::Enter),
    (b"1~", Key::Home),
    (b"4~", Key::End),
    (b"5~", Key::PageUp),
    (b"6~", Key::PageDown),
    (b"7~", Key::Home),
    (b"8~", Key::End),
    (b"Z", Key::Tab),
];

/// True if the bytes end within the sequence of a key, so that more of it may be on its way.
pub(super) fn is_cut(bytes: &[u8]) -> bool {
    let Some(at) = bytes.iter().rposition(|byte| *byte == 0x1b) else { return false };
    match bytes.get(at + 1..).unwrap_or_default() {
        [] | [b'[' | b'O'] => true,
        [b'[' | b'O', rest @ ..] => !rest.iter().any(|byte| (0x40..=0x7e).contains(byte)),
        _ => false,
    }
}

/// The keys in what was read. Sequences of no key that is known are left out.
pub(super) fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut found = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        match (first, rest) {
            (0x1b, [b'[' | b'O', rest @ ..]) => {
                let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
                let (sequence, rest) = rest.split_at(end.map_or(rest.len(), |at| at + 1));
                let known = SEQUENCES.iter().find(|(bytes, _)| *bytes == sequence);
                found.extend(known.map(|(_, key)| *key));
                bytes = rest;
            }
            (0x1b | 0x7f | 0x08, _) => found.push(Key::Back),
            (b'\r' | b'\n', _) => found.push(Key::Enter),
            (b'\t', _) => found.push(Key::Tab),
            (byte, _) if byte.is_ascii() => found.push(Key::Char(char::from(*byte))),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_terminal_are_read_and_unknown_ones_are_left_out() {
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[5~q"),
            [Key::Up, Key::Down, Key::PageUp, Key::Char('q')]
        );
        assert_eq!(keys(b"\x1b[1~\x1b[4~\x1bOH"), [Key::Home, Key::End, Key::Home]);
        assert_eq!(keys(b"\x1b"), [Key::Back]);
        assert_eq!(
            keys(b"\x1b[200~\x1b[1;5Cp\r\t\x7f"),
            [Key::Char('p'), Key::Enter, Key::Tab, Key::Back]
        );
        assert_eq!(keys("\u{e4}?".as_bytes()), [Key::Char('?')]);
        assert_eq!(keys(b"\x03\x1a"), [Key::Char('\u{3}'), Key::Char('\u{1a}')]);
    }

    #[test]
    fn a_sequence_that_is_on_its_way_is_waited_for() {
        for cut in [&b"\x1b"[..], b"q\x1b[", b"\x1bO", b"\x1b[5"] {
            assert!(is_cut(cut), "{cut:?}");
        }
        for whole in [&b""[..], b"q", b"\x1b[A", b"\x1b[5~", b"\x1bx"] {
            assert!(!is_cut(whole), "{whole:?}");
        }
    }
}
