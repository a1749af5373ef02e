//! What `--json` prints is what `docs/schema/` says of its format, with every field described. (The
//! schemas let later versions add fields; these tests do not let this version have one that is not
//! described.)

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Where the schemas lie, each by its format without `linerate-`.
pub(crate) fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema")
}

/// Fails with what does not fit; `of` says where the value is from.
#[track_caller]
pub(crate) fn assert_fits(of: &str, value: &Value) {
    let wrong = Schema::of(value).check(value);
    assert!(wrong.is_empty(), "{of}: {}", wrong.join("\n"));
}

/// Validates the part of JSON Schema that ours uses; anything else in it is an error.
pub(crate) struct Schema {
    pub(crate) name: String,
    files: BTreeMap<String, Value>,
}

impl Schema {
    /// The schema of that name.
    pub(crate) fn new(name: &str) -> Self {
        let read = |path: PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let schema = serde_json::from_str(&text);
            (name.clone(), schema.unwrap_or_else(|e| panic!("{name}: {e}")))
        };
        let files: BTreeMap<_, _> =
            std::fs::read_dir(place()).unwrap().map(|entry| read(entry.unwrap().path())).collect();
        let name = format!("{name}.json");
        assert!(files.contains_key(&name), "docs/schema has no {name}");
        Self { name, files }
    }

    /// The schema of a document's format.
    pub(crate) fn of(value: &Value) -> Self {
        let format = value["format"].as_str().unwrap_or_else(|| panic!("no format: {value}"));
        Self::new(format.strip_prefix("linerate-").unwrap())
    }

    pub(crate) fn root(&self) -> &Value {
        &self.files[&self.name]
    }

    pub(crate) fn check(&self, value: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        self.at((&self.name, self.root()), value, "", &mut wrong);
        wrong
    }

    fn at(
        &self,
        (file, schema): (&str, &Value),
        value: &Value,
        place: &str,
        wrong: &mut Vec<String>,
    ) {
        let rules = schema.as_object().unwrap();
        for (rule, argument) in rules {
            let mut say = |what: String| wrong.push(format!("{place}: {what}: {value}"));
            match rule.as_str() {
                "$schema" | "title" | "description" | "$defs" | "required" => {}
                "$ref" => {
                    let (to, pointer) = argument.as_str().unwrap().split_once('#').unwrap();
                    let to = if to.is_empty() { file } else { to };
                    let found = self.files.get(to).and_then(|schema| schema.pointer(pointer));
                    let found = found.unwrap_or_else(|| panic!("{file}: {argument} is not there"));
                    self.at((to, found), value, place, wrong);
                    return;
                }
                "anyOf" => {
                    let fits = |one: &Value| {
                        let mut found = Vec::new();
                        self.at((file, one), value, place, &mut found);
                        found
                    };
                    let found: Vec<Vec<String>> =
                        argument.as_array().unwrap().iter().map(fits).collect();
                    if !found.iter().any(Vec::is_empty) {
                        // The one that it comes nearest to is what was meant.
                        wrong.extend(found.into_iter().min_by_key(Vec::len).unwrap());
                    }
                    return;
                }
                "const" => {
                    if value != argument {
                        say(format!("is not {argument}"));
                    }
                }
                "enum" => {
                    if !argument.as_array().unwrap().contains(value) {
                        say(format!("is none of {argument}"));
                    }
                }
                "type" => {
                    let allowed = match argument {
                        Value::Array(list) => list.clone(),
                        one => vec![one.clone()],
                    };
                    if !allowed.iter().any(|t| is(t.as_str().unwrap(), value)) {
                        say(format!("is no {argument}"));
                    }
                }
                "minimum" => {
                    if value.as_i64().is_some_and(|n| n < argument.as_i64().unwrap()) {
                        say(format!("is below {argument}"));
                    }
                }
                // Of CPU lists alone; that they can be read is what the pattern is for.
                "pattern" => {
                    let list = value.as_str().unwrap_or("x");
                    if list.parse::<linerate::model::cpuset::CpuSet>().is_err() {
                        say("is no list of CPUs".into());
                    }
                }
                "minItems" | "maxItems" => {
                    let wanted = argument.as_u64().map(|n| n as usize);
                    if value.as_array().is_some_and(|items| Some(items.len()) != wanted) {
                        say(format!("has not {argument} items"));
                    }
                }
                "items" => {
                    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.at((file, argument), item, &format!("{place}[{at}]"), wrong);
                    }
                }
                "additionalProperties" => {
                    for (name, inner) in value.as_object().into_iter().flatten() {
                        self.at((file, argument), inner, &format!("{place}.{name}"), wrong);
                    }
                }
                "properties" => self.fields((file, argument), rules, value, place, wrong),
                other => panic!("the schema has {other}, which this test can't check"),
            }
        }
    }

    fn fields(
        &self,
        (file, described): (&str, &Value),
        rules: &Map<String, Value>,
        value: &Value,
        place: &str,
        wrong: &mut Vec<String>,
    ) {
        let Some(fields) = value.as_object() else { return };
        for (name, inner) in fields {
            match described.get(name) {
                Some(schema) => self.at((file, schema), inner, &format!("{place}.{name}"), wrong),
                None => wrong.push(format!("{place}.{name}: is not described")),
            }
        }
        for name in rules.get("required").and_then(Value::as_array).into_iter().flatten() {
            if !fields.contains_key(name.as_str().unwrap()) {
                wrong.push(format!("{place}: {name} is missing"));
            }
        }
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    }
}
