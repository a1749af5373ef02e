//! Lines that tell whether they are as they were written: JSON, a blank, and the CRC-32 of the JSON in
//! eight hexadecimal digits. A file in memory is damaged by a program that writes where it should
//! not, a disk by more than that; what a rollback writes must not come from either.

use flate2::Crc;
use serde::Serialize;

/// Digits of the checksum.
const DIGITS: usize = 8;

fn sum(json: &[u8]) -> String {
    let mut crc = Crc::new();
    crc.update(json);
    format!("{:0DIGITS$x}", crc.sum())
}

/// A line with its checksum, and the newline behind it.
pub(super) fn with_check(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    let sum = sum(&line);
    line.extend([b" ", sum.as_bytes(), b"\n"].concat());
    Ok(line)
}

/// The JSON of a line without its newline; `None` where the checksum is another or missing.
pub(super) fn checked(line: &[u8]) -> Option<&[u8]> {
    let (rest, digits) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
    let json = rest.strip_suffix(b" ")?;
    (sum(json).as_bytes() == digits).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_any_byte_changed_is_found_out() {
        let line = with_check(&["0", "f", "2048"]).unwrap();
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!(checked(line), Some(&br#"["0","f","2048"]"#[..]));
        for at in 0..line.len() {
            for flip in 1..=u8::MAX {
                let mut other = line.to_vec();
                other[at] ^= flip;
                assert_eq!(checked(&other), None, "{}", String::from_utf8_lossy(&other));
            }
        }
        for end in 0..line.len() {
            assert_eq!(checked(&line[..end]), None);
        }
    }
}
