//! Inputs that fuzzing found worth keeping (fuzz/corpus), through the same properties: what was once
//! a crash or a crawl stays none.

#[path = "../../fuzz/properties.rs"]
mod properties;

use crate::scene;

use std::collections::BTreeSet;
use std::path::Path;

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{directory:?}: {e}"));
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_parser_survives_what_fuzzing_found() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for (name, property) in properties::ALL {
        let directory = fuzz.join("corpus").join(name);
        let inputs = names(&directory);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            let bytes = std::fs::read(directory.join(&input)).unwrap();
            let held = std::panic::catch_unwind(|| property(&bytes));
            assert!(held.is_ok(), "{name}: fuzz/corpus/{name}/{input}");
        }
    }
}

#[test]
fn every_property_has_a_target_and_every_target_a_property() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let properties: BTreeSet<String> =
        properties::ALL.iter().map(|(n, _)| (*n).to_owned()).collect();
    let targets = names(&fuzz.join("fuzz_targets"));
    let targets: BTreeSet<String> =
        targets.iter().map(|t| t.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(properties, targets);
    assert_eq!(properties, names(&fuzz.join("corpus")));
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for name in &properties {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} in fuzz/Cargo.toml");
    }
}

#[test]
fn every_parser_has_a_property() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let properties = std::fs::read_to_string(root.join("fuzz/properties.rs")).unwrap();
    let modules = std::fs::read_to_string(root.join("src/machine/parse/mod.rs")).unwrap();
    let modules = modules.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';'));
    let without: Vec<&str> = modules.filter(|m| !properties.contains(&format!("{m}::"))).collect();
    assert_eq!(without, [""; 0], "parsers that no fuzz target reaches");
}

/// Bytes of the corpus that are cut, repeated and changed by chance: a small campaign each time.
#[test]
fn every_parser_survives_inputs_that_are_changed_by_chance() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut rng = fastrand::Rng::with_seed(20);
    for (name, property) in properties::ALL {
        let directory = fuzz.join("corpus").join(name);
        let inputs: Vec<Vec<u8>> = names(&directory)
            .into_iter()
            .map(|input| std::fs::read(directory.join(input)).unwrap())
            .filter(|bytes| bytes.len() < 1 << 12)
            .collect();
        for _ in 0..24 {
            let mut bytes = rng.choice(&inputs).cloned().unwrap_or_default();
            for _ in 0..rng.u32(1..9) {
                let at = rng.usize(..=bytes.len());
                match rng.u32(..4) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, rng.u8(..)),
                    2 => bytes.extend_from_within(at..),
                    _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << rng.u32(..8)),
                }
            }
            bytes.truncate(1 << 13);
            let held = std::panic::catch_unwind(|| property(&bytes));
            assert!(held.is_ok(), "{name}: {:?}", bytes.escape_ascii().to_string());
        }
    }
}
