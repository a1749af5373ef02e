//! CPU lists (`0-3,6`), as the kernel and plan files write them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::model::cpuset::CpuSet;

fuzz_target!(|text: &str| {
    if let Ok(set) = text.parse::<CpuSet>() {
        assert_eq!(set.to_string().parse::<CpuSet>().ok(), Some(set));
    }
});
