//! /proc/net/vlan/config: no more devices than lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::vlan::config;

fuzz_target!(|bytes: &[u8]| {
    assert!(config(bytes).len() <= bytes.split(|b| *b == b'\n').count());
});
