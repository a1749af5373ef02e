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
