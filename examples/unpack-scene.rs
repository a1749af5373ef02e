//! Makes a directory for `--host` of a machine that is written down as text:
//!
//! ```text
//! cargo run --example unpack-scene fixtures/scenes/container-2.txt target/container-2
//! linerate show --host target/container-2
//! ```

#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a tool for people who test")]

use std::path::Path;
use std::process::ExitCode;

#[path = "../tests/scene/mod.rs"]
mod scene;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [text, directory] = arguments.as_slice() else {
        eprintln!("usage: unpack-scene SCENE.txt DIRECTORY");
        return ExitCode::from(2);
    };
    match make(Path::new(text), Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("unpack-scene: {why}");
            ExitCode::FAILURE
        }
    }
}

fn make(text: &Path, directory: &Path) -> Result<(), String> {
    if directory.exists() {
        return Err(format!("{}: it is there already", directory.display()));
    }
    let content = std::fs::read_to_string(text).map_err(|e| format!("{}: {e}", text.display()))?;
    let nodes = scene::read(&content)
        .map_err(|line| format!("{}: not a line of a scene: {line}", text.display()))?;
    scene::unpack(&nodes, directory).map_err(|e| format!("{}: {e}", directory.display()))
}
