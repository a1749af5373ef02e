//! CPU masks: what is understood is written back so that it means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::cpumask::mask;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(set) = mask(bytes) {
        assert_eq!(mask(set.to_mask().as_bytes()).ok(), Some(set));
    }
});
