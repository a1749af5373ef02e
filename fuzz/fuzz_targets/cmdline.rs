//! /proc/cmdline: every parameter that is there is found.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::cmdline::{parameter, words};

fuzz_target!(|bytes: &[u8]| {
    for word in words(bytes) {
        let name = word.split('=').next().unwrap_or_default();
        assert!(parameter(bytes, name).is_some());
    }
});
