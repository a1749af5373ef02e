//! Bytes packed with gzip (RFC 1952), as `/proc/config.gz` is.

use std::io::Read;

/// True if the bytes begin as gzip does.
#[must_use]
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Unpacked content.
///
/// # Errors
/// An error, in words, if the content is cut short, damaged, or more than `most` bytes.
pub fn unpack(bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let mut packed = flate2::read::MultiGzDecoder::new(bytes).take(most + 1);
    match packed.read_to_end(&mut content) {
        Ok(_) if content.len() as u64 > most => {
            Err(format!("it unpacks to more than {most} bytes"))
        }
        Ok(_) => Ok(content),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err("it is cut short".to_owned())
        }
        Err(e) => Err(format!("it is damaged: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn whole_cut_and_swollen_files_are_told_apart() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(&[b'x'; 10_000]).unwrap();
        let packed = packer.finish().unwrap();
        assert!(is_packed(&packed) && !is_packed(b"CONFIG_A=y"));
        assert_eq!(unpack(&packed, 10_000).unwrap().len(), 10_000);
        assert!(unpack(&packed, 9_999).unwrap_err().contains("more than"));
        for cut in 1..packed.len() {
            assert!(unpack(&packed[..cut], 10_000).is_err(), "cut at {cut}");
        }
        assert!(unpack(b"hello", 10).is_err());
    }
}
