//! The kernel's hexadecimal CPU masks (lib/bitmap-str.c `bitmap_parse`): a comma every 32 bits,
//! highest word first; leading zeros vary from file to file.

use crate::model::cpuset::CpuSet;
use crate::model::units::CpuId;

/// The text is not a CPU mask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a hexadecimal CPU mask: {0:?}")]
pub struct NotAMask(pub String);

/// Reads a mask such as `ff`, `00000000,0000000f` or `f,00000000`.
///
/// # Errors
/// An error [`NotAMask`] for anything else, a mask with CPUs beyond [`CpuSet::MAX`] included.
pub fn mask(bytes: &[u8]) -> Result<CpuSet, NotAMask> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    let bad = || NotAMask(text.chars().take(80).collect());
    let mut set = CpuSet::empty();
    let mut base = 0;
    for word in text.rsplit(',') {
        if word.is_empty() || word.len() > 8 || !word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let bits = u32::from_str_radix(word, 16).map_err(|_| bad())?;
        if bits != 0 && base >= CpuSet::MAX {
            return Err(bad());
        }
        (0..32).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| set.insert(CpuId(base + bit)));
        base = base.saturating_add(32);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn masks_are_compared_by_meaning() {
        let set = |list: &str| list.parse::<CpuSet>().unwrap();
        assert_eq!(mask(b"3f\n").unwrap(), set("0-5"));
        assert_eq!(mask(b"00000000,0000003f").unwrap(), set("0-5"));
        assert_eq!(mask(b"1,00000000").unwrap(), set("32"));
        assert_eq!(mask(b"0").unwrap(), set(""));
        // Armbian writes decimal into hexadecimal files: 16 means CPUs 1, 2 and 4.
        assert_eq!(mask(b"16").unwrap(), set("1-2,4"));
        for bad in ["", "0x3", "1,,2", "g", "123456789", "-1", "1 2"] {
            assert!(mask(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_we_write_we_read(cpus in proptest::collection::btree_set(0..300u32, 0..40)) {
            let set: CpuSet = cpus.into_iter().map(CpuId).collect();
            prop_assert_eq!(mask(set.to_mask().as_bytes()).unwrap(), set.clone());
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _set = mask(&bytes);
        }
    }
}
