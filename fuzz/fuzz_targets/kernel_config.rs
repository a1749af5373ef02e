//! Kernel configurations: both readers agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::config::{Setting, option, values};

fuzz_target!(|bytes: &[u8]| {
    let set = values(bytes, &["HZ", "PREEMPT"]);
    assert_eq!(set.is_some(), option(bytes, "HZ").is_some());
    if option(bytes, "PREEMPT") == Some(Setting::Module) {
        assert!(set.is_some_and(|s| s.contains_key("PREEMPT")));
    }
});
