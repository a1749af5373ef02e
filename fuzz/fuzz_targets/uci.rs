//! OpenWrt's configuration files: every option of every section can be asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::uci::sections;

fuzz_target!(|bytes: &[u8]| {
    for section in sections(bytes) {
        assert!(!section.kind.is_empty() || bytes.contains(&b'\'') || bytes.contains(&b'"'));
        let _values = (section.option("name"), section.list("network").count());
    }
});
