//! Texts that tell the preemption model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::preempt::{in_force, of_version};

fuzz_target!(|bytes: &[u8]| {
    assert_ne!(in_force(bytes).as_deref(), Some(""));
    let _model = of_version(bytes);
});
