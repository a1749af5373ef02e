//! Result files: what loads is written so that it loads again, everything else is an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::store::result::{from_json, to_json};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(experiment) = from_json(bytes, "fuzz") {
        let text = to_json(&experiment).expect("what was read can be written");
        assert!(from_json(text.as_bytes(), "again").is_ok());
    }
});
