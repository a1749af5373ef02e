//! /proc/net/route, ipv6_route and if_inet6: no more devices than lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::route::{defaults, defaults_v6, devices, devices_v6};

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|b| *b == b'\n').count();
    assert!(defaults(bytes).len() <= lines && defaults_v6(bytes).len() <= lines);
    assert!(devices(bytes).len() <= lines && devices_v6(bytes).len() <= lines);
});
