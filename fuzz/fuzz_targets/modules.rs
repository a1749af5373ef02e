//! /proc/modules: names hold no blanks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::modules::names;

fuzz_target!(|bytes: &[u8]| {
    assert!(names(bytes).iter().all(|n| !n.contains(char::is_whitespace)));
});
