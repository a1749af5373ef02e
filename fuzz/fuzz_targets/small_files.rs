//! The parsers of small or line-wise files; the first line of the input is a key, the rest a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::{config, cpuinfo, keyvalue, net_counters, softnet, stat};

fuzz_target!(|bytes: &[u8]| {
    let _info = cpuinfo::cpuinfo(bytes);
    let _number = net_counters::number(bytes);
    let lines = bytes.split(|b| *b == b'\n').count();
    assert!(softnet::softnet(bytes).len() <= lines);
    assert!(stat::cpu_ticks(bytes).len() <= lines);
    let text = String::from_utf8_lossy(bytes);
    if let Some((key, file)) = text.split_once('\n') {
        let _option = config::option(file.as_bytes(), key);
        let _value = keyvalue::value(file.as_bytes(), key);
    }
});
