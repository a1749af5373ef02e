//! Writes what the program is made of into a directory, for who packs it: the crates that are linked in
//! as a CycloneDX document (`linerate.cdx.json`), and their licences (`third-party-licences.txt`):
//!
//! ```text
//! cargo run --example bill target/manual
//! ```

#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a tool for who packs it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory] = arguments.as_slice() else {
        eprintln!("usage: bill DIRECTORY");
        return ExitCode::from(2);
    };
    match write(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bill: {directory}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the directory and the two files.
pub(crate) fn write(directory: &Path) -> Outcome<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock: toml::Table = fs::read_to_string(top.join("Cargo.lock"))?.parse()?;
    let metadata = metadata(top)?;
    let crates = linked(&metadata);
    fs::create_dir_all(directory)?;
    let bill = serde_json::to_string_pretty(&bill(&crates, &lock))?;
    fs::write(directory.join("linerate.cdx.json"), bill + "\n")?;
    fs::write(directory.join("third-party-licences.txt"), licences(&crates)?)?;
    Ok(())
}

fn metadata(top: &Path) -> Outcome<Value> {
    let out = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-musl"])
        .current_dir(top)
        .output()?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into());
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The crates whose code is in the program, by name and version: no build scripts, no macros, no tests.
fn linked(metadata: &Value) -> Vec<&Value> {
    let packages: BTreeMap<&str, &Value> =
        list(metadata, "packages").iter().map(|p| (text(p, "id"), p)).collect();
    let resolve = metadata.get("resolve").unwrap_or(&Value::Null);
    let nodes: BTreeMap<&str, &Value> =
        list(resolve, "nodes").iter().map(|n| (text(n, "id"), n)).collect();
    let is = |package: &Value, kind: &str| {
        list(package, "targets").iter().any(|t| list(t, "kind").iter().any(|k| k == kind))
    };
    let ours = packages.values().find(|p| text(p, "name") == env!("CARGO_PKG_NAME"));
    let mut open: Vec<&str> = ours.map(|p| text(p, "id")).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        let Some(package) = packages.get(id).filter(|p| !is(p, "proc-macro")) else { continue };
        if !seen.insert((text(package, "name"), text(package, "version"), id)) {
            continue;
        }
        let edges = nodes.get(id).map(|n| list(n, "deps")).unwrap_or_default();
        let normal = |d: &&Value| {
            list(d, "dep_kinds").iter().any(|k| k.get("kind").is_none_or(Value::is_null))
        };
        open.extend(edges.iter().filter(normal).map(|d| text(d, "pkg")));
    }
    let others = seen.iter().filter(|(name, ..)| *name != env!("CARGO_PKG_NAME"));
    others.filter_map(|(_, _, id)| packages.get(id).copied()).collect()
}

/// Old manifests write `/` for `OR`.
fn licence(package: &Value) -> String {
    text(package, "license").replace('/', " OR ")
}

fn address(package: &Value) -> String {
    let version = text(package, "version").replace('+', "%2B");
    format!("pkg:cargo/{}@{version}", text(package, "name"))
}

fn bill(crates: &[&Value], lock: &toml::Table) -> Value {
    let sums: BTreeMap<(&str, &str), &str> = lock
        .get("package")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|p| {
            let of = |key: &str| p.get(key).and_then(toml::Value::as_str);
            Some(((of("name")?, of("version")?), of("checksum")?))
        })
        .collect();
    let components: Vec<Value> = crates
        .iter()
        .map(|package| {
            let (name, version) = (text(package, "name"), text(package, "version"));
            let sums =
                sums.get(&(name, version)).map(|sum| json!({"alg": "SHA-256", "content": sum}));
            json!({
                "type": "library",
                "bom-ref": address(package),
                "name": name,
                "version": version,
                "purl": address(package),
                "hashes": sums.into_iter().collect::<Vec<_>>(),
                "licenses": [{"expression": licence(package)}],
            })
        })
        .collect();
    // Without a serial number and a time, so that two bills of one source are equal.
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": "linerate",
            "name": env!("CARGO_PKG_NAME"),
            "version": env!("CARGO_PKG_VERSION"),
            "licenses": [{"expression": env!("CARGO_PKG_LICENSE")}],
        }},
        "components": components,
        "dependencies": [{
            "ref": "linerate",
            "dependsOn": crates.iter().map(|package| address(package)).collect::<Vec<_>>(),
        }],
    })
}

/// Each text once, under the crates that it came with. Of a crate that may be had under the MIT licence
/// that text is enough.
fn licences(crates: &[&Value]) -> Outcome<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut out = String::from(
        "linerate contains Rust's standard library (MIT OR Apache-2.0), static builds the C library \
         musl (MIT), and these crates:\n\n",
    );
    for package in crates {
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        out += &format!("{name}: {}\n", licence(package));
        let folder = Path::new(text(package, "manifest_path")).parent().ok_or("no folder")?;
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
        let named = |path: &Path, word: &str| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            name.contains(word)
        };
        let starts = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
        files.retain(|path| path.is_file() && starts.iter().any(|start| named(path, start)));
        let mit = |path: &PathBuf| named(path, "MIT") || named(path, "NOTICE");
        if licence(package).split(" OR ").any(|one| one == "MIT") && files.iter().any(mit) {
            files.retain(mit);
        }
        for file in &files {
            let text = fs::read_to_string(file)?.replace("\r\n", "\n");
            texts.entry(text.trim().to_owned()).or_default().insert(name.clone());
        }
        if files.is_empty() {
            out += "    (the crate has no text of it)\n";
        }
    }
    for (text, names) in texts {
        let names: Vec<String> = names.into_iter().collect();
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    Ok(out)
}
