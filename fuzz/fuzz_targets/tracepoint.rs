#![no_main]

#[path = "../properties.rs"]
mod properties;
#[path = "../../tests/scene/mod.rs"]
mod scene;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::hold("tracepoint", bytes));
