//! /proc/cpuinfo: no more CPUs than lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::cpuinfo::cpuinfo;

fuzz_target!(|bytes: &[u8]| {
    assert!(cpuinfo(bytes).cpus.len() <= bytes.split(|b| *b == b'\n').count());
});
