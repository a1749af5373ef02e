//! /proc/net/pppoe: no more sessions than lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::pppoe::devices;

fuzz_target!(|bytes: &[u8]| {
    assert!(devices(bytes).len() <= bytes.split(|b| *b == b'\n').count());
});
