//! Every JSON document has a schema, and is what it says; what needs root is tried in `tests/live`.

use std::collections::BTreeSet;
use std::process::Command;

use crate::program;
use crate::schema::{self, Schema, assert_fits};
use serde_json::{Value, json};

/// Command lines and the formats that they print; `HOST` is a captured machine.
const PRINTED: &[(&str, &str)] = &[
    ("show --host HOST", "show"),
    ("show nics --host HOST", "show-part"),
    ("show path", "show-part"),
    ("show knobs --host HOST", "knobs"),
    ("show knobs", "knobs"),
    ("check --host HOST", "check"),
    ("check --fail-on critical", "check"),
    ("check --losses --host HOST", "losses"),
    ("check --list", "rules"),
    ("plan --host HOST -o plan.toml", "plans"),
    ("plan --host HOST --candidate rps-all -o other.toml", "plans"),
    ("plan --recipe list", "recipes"),
    ("plan --host HOST --explain rps-cpus", "explanation"),
    ("plan --host HOST --explain tso", "explanation"),
    ("verify plan.toml --host HOST", "verify"),
    ("status", "status"),
    ("rollback", "rollback"),
    ("capture --samples 0 -o capture.tar.gz", "capture-summary"),
    ("record --interval 200ms --seconds 400ms", "recording"),
    ("top --samples 2 --interval 200ms", "top"),
    ("kernel check ROOT/fixtures/kernel/debian-6.1.192-amd64.config.gz", "kernel-check"),
    (
        "kernel diff ROOT/fixtures/kernel/debian-6.1.192-amd64.config.gz \
         ROOT/fixtures/kernel/debian-6.1.192-rt.config.gz",
        "kernel-diff",
    ),
    (
        "compare ROOT/fixtures/experiments/r4s-placement.json \
         ROOT/fixtures/experiments/r4s-placement.json",
        "compare",
    ),
    ("compare --fleet ROOT/fixtures/hosts", "fleet"),
    ("compare --fleet ROOT/fixtures/experiments", "fleet"),
    ("fit ROOT/fixtures/experiments/lab-2cpu-nat300.json", "fit"),
    ("rank ROOT/fixtures/formats/board-v1.json", "rank"),
    ("report ROOT/fixtures/experiments/lab-2cpu-nat300.json", "analysis"),
    ("report ROOT/fixtures/experiments/fg50e-2x2x2.json", "analysis"),
    ("report ROOT/fixtures/experiments/r76s-steps.json", "analysis"),
    ("report ROOT/fixtures/formats/sweep-v1.json", "sweep"),
    ("bench --list", "scenarios"),
    ("bench --list --host HOST", "scenarios"),
];

/// Files of our own, each of its format.
const FILES: &[(&str, &str)] = &[
    ("formats/result-v1.json", "result"),
    ("experiments/cm4-placement.json", "result"),
    ("experiments/fg50e-2x2x2.json", "result"),
    ("experiments/lab-2cpu-nat300.json", "result"),
    ("experiments/r4s-placement.json", "result"),
    ("experiments/r76s-steps.json", "result"),
    ("formats/unfinished-v1.jsonl", "unfinished"),
    ("formats/board-v1.json", "board"),
    ("formats/sweep-v1.json", "sweep"),
];

/// Formats that only root can have printed: `tests/live` and `tests/traffic` have them.
const OF_ROOT: &[&str] = &[
    "against",
    "agent",
    "bench",
    "confirm",
    "event",
    "factors",
    "kernel-bisect",
    "labs",
    "labs-removed",
    "persist",
    "persist-files",
    "profile",
    "tune",
    "unpersist",
    "writes",
];

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn host() -> String {
    format!("{ROOT}/fixtures/hosts/x86-4-vmxnet3+e1000e+virtio-6.1/capture.tar.gz")
}

#[test]
fn what_every_command_prints_as_json_fits_its_schema() {
    let place = std::env::temp_dir().join(format!("linerate-schemas-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    for (line, format) in PRINTED {
        if !program::has(line.split(' ').next().unwrap()) {
            continue;
        }
        let words = line.split_whitespace().map(|word| match word {
            "HOST" => host(),
            word => word.replace("ROOT", ROOT),
        });
        let output = Command::new(program::path())
            .args(words)
            .arg("--json")
            .current_dir(&place)
            .env("LINERATE_STATE_DIR", place.join("state"))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1 | 3 | 6)), "{line}: {told}");
        fits(line, format, &output.stdout);
    }
    drop(std::fs::remove_dir_all(&place));
}

#[test]
fn files_of_our_own_fit_their_schemas() {
    for (name, format) in FILES {
        fits(name, format, &std::fs::read(format!("{ROOT}/fixtures/{name}")).unwrap());
    }
}

/// A document, or one on each line of which the first names the format.
#[track_caller]
fn fits(of: &str, format: &str, bytes: &[u8]) {
    let whole: Result<Value, _> = serde_json::from_slice(bytes);
    let values: Vec<Value> = match whole {
        Ok(value) => vec![value],
        Err(_) => {
            let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
            // The check of a line of the record stands behind it.
            let json = |line: &[u8]| {
                let mut read = serde_json::Deserializer::from_slice(line).into_iter::<Value>();
                read.next().unwrap().unwrap_or_else(|e| panic!("{of}: {e}"))
            };
            lines.map(json).collect()
        }
    };
    let first = values.first().unwrap_or_else(|| panic!("{of}: nothing was printed"));
    assert_eq!(first["format"], format!("linerate-{format}"), "{of}");
    let schema = Schema::of(first);
    for value in &values {
        let wrong = schema.check(value);
        assert!(wrong.is_empty(), "{of}: {}", wrong.join("\n"));
    }
}

/// The names of all schemas.
fn all() -> BTreeSet<String> {
    let files = std::fs::read_dir(schema::place()).unwrap();
    let name = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|entry| name(entry.unwrap().path())).collect()
}

#[test]
fn each_format_has_a_schema_and_each_schema_is_tried_and_listed() {
    let tried =
        PRINTED.iter().chain(FILES).map(|(_, format)| *format).chain(OF_ROOT.iter().copied());
    let tried: BTreeSet<String> = tried.map(str::to_owned).collect();
    assert_eq!(tried, all());
    let page = std::fs::read_to_string(format!("{ROOT}/docs/json.md")).unwrap();
    for name in all() {
        let schema = Schema::new(&name);
        assert!(page.contains(&format!("](schema/{name}.json)")), "docs/json.md lacks {name}");
        assert!(schema.root()["title"].is_string(), "{name}");
    }
}

/// Nothing is left open: an object has fields or a form for all of them, a list has a form of its items.
#[test]
fn schemas_describe_every_value_to_its_end() {
    fn walk(name: &str, schema: &Value) {
        let rules = schema.as_object().unwrap();
        let is = |kind: &str| {
            let of = &schema["type"];
            of == kind || of.as_array().is_some_and(|kinds| kinds.contains(&json!(kind)))
        };
        let has = |rule: &str| rules.contains_key(rule);
        if is("object") {
            assert!(has("properties") || has("additionalProperties"), "{name}: {schema}");
        }
        assert!(!is("array") || has("items"), "{name}: {schema}");
        let said = ["type", "const", "enum", "$ref", "anyOf"].iter().any(|rule| has(rule));
        assert!(said, "{name}: {schema}");
        for rule in ["properties", "$defs"] {
            for inner in schema[rule].as_object().into_iter().flat_map(|of| of.values()) {
                walk(name, inner);
            }
        }
        for rule in ["items", "additionalProperties"] {
            rules.get(rule).into_iter().for_each(|inner| walk(name, inner));
        }
        for inner in schema["anyOf"].as_array().into_iter().flatten() {
            walk(name, inner);
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            let known = schema["properties"].get(name.as_str().unwrap()).is_some();
            assert!(known, "{name} is required and not described");
        }
    }
    for name in all() {
        walk(&name, Schema::new(&name).root());
    }
}

#[test]
fn a_document_that_does_not_fit_is_found() {
    let mut value = json!({
        "format": "linerate-factors",
        "version": 1,
        "factors": [{ "factor": "rps", "what": "x", "levels": ["off"], "missing": null }],
    });
    assert_fits("as it is", &value);
    value["factors"][0]["levels"] = json!(["off", 1]);
    value["factors"][0]["new"] = json!(true);
    value["factors"][0].as_object_mut().unwrap().remove("what");
    value["version"] = json!(2);
    assert_eq!(Schema::of(&value).check(&value).len(), 4);
}
