//! Action names of interrupt lines, against a device name: both halves of the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate::parse::irq_name::{of_device, queue_and_role};

fuzz_target!(|pair: (&str, &str)| {
    let (action, name) = pair;
    let found = of_device(action, &[name]);
    // A name that does not occur can't be the device's.
    assert!(found.is_none() || action.contains(name));
    assert_eq!(of_device(action, &[""]), None);
    let _known = queue_and_role(action);
});
