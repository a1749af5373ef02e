//! /proc/interrupts: never panics, and no row has more counts than there are columns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::interrupts::interrupts;

fuzz_target!(|bytes: &[u8]| {
    let table = interrupts(bytes);
    for row in &table.rows {
        assert!(row.counts.len() <= table.cpus.len());
    }
});
