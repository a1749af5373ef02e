//! Writes what the program is made of into a directory, for who packs it: the crates that are linked in
//! as a CycloneDX document (`linerate.cdx.json`), and their licences (`third-party-licences.txt`). The
//! options after the directory are those of cargo that choose features:
//!
//! ```text
//! cargo run --example bill target/manual
//! cargo run --example bill target/router --no-default-features --features router
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
    let Some((directory, features)) = arguments.split_first() else {
        eprintln!("usage: bill DIRECTORY [--no-default-features] [--features FEATURES]");
        return ExitCode::from(2);
    };
    match write(Path::new(directory), features) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bill: {directory}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the directory and the two files.
pub(crate) fn write(directory: &Path, features: &[String]) -> Outcome<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock: toml::Table = fs::read_to_string(top.join("Cargo.lock"))?.parse()?;
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1"], features)?)?;
    let linked = linked(features)?;
    let is_linked =
        |p: &&Value| linked.contains(&(text(p, "name").to_owned(), text(p, "version").to_owned()));
    let mut crates: Vec<&Value> = list(&metadata, "packages").iter().filter(is_linked).collect();
    crates.sort_by_key(|package| (text(package, "name"), text(package, "version")));
    if crates.len() != linked.len() {
        return Err(format!("{} crates are linked, {} known", linked.len(), crates.len()).into());
    }
    fs::create_dir_all(directory)?;
    let bill = serde_json::to_string_pretty(&bill(&crates, &lock))?;
    fs::write(directory.join("linerate.cdx.json"), bill + "\n")?;
    fs::write(directory.join("third-party-licences.txt"), licences(&crates)?)?;
    Ok(())
}

fn cargo(arguments: &[&str], features: &[String]) -> Outcome<String> {
    let out = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(arguments)
        .arg("--locked")
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into());
    }
    Ok(String::from_utf8(out.stdout)?)
}

/// The crates whose code is in the program, by name and version: no build scripts, no macros, no tests.
/// x86-64's program has all that those for other processors have.
fn linked(features: &[String]) -> Outcome<BTreeSet<(String, String)>> {
    let edges = ["--edges", "normal,no-proc-macro", "--target", "x86_64-unknown-linux-musl"];
    let form = ["--prefix", "none", "--format", "{p}"];
    let tree = cargo(
        &[&["tree", "--package", env!("CARGO_PKG_NAME")], &edges[..], &form].concat(),
        features,
    )?;
    let mut found = BTreeSet::new();
    for line in tree.lines() {
        let mut words = line.split(' ');
        let (name, version) = (words.next(), words.next().and_then(|w| w.strip_prefix('v')));
        let (Some(name), Some(version)) = (name, version) else {
            return Err(format!("cargo tree says {line}").into());
        };
        if name != env!("CARGO_PKG_NAME") {
            found.insert((name.to_owned(), version.to_owned()));
        }
    }
    Ok(found)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
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
            let authors: Vec<&str> =
                list(package, "authors").iter().filter_map(Value::as_str).collect();
            out += &format!("    (the crate has no text of it; it is by {})\n", authors.join(", "));
        }
    }
    for (text, names) in texts {
        let names: Vec<String> = names.into_iter().collect();
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    Ok(out)
}
