//! /proc/crypto: an implementation that is named was in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::crypto::chosen;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for (name, driver) in chosen(bytes) {
        assert!(text.contains(&name) && text.contains(&driver));
    }
});
