//! Makes the capture of a machine of 512 CPUs, 8 cards of 64 queues and 4000 interrupt lines, for
//! looking at the program's time and memory by hand:
//!
//! ```text
//! cargo run --example big-machine target/big.tar.gz [target/big-directory]
//! /usr/bin/time -v target/release/linerate show --host target/big.tar.gz
//! ```

#![allow(clippy::disallowed_methods, reason = "a tool for people who test")]

use std::path::Path;

#[path = "../tests/scene/mod.rs"]
mod scene;

fn main() -> std::io::Result<()> {
    let nodes = scene::big::machine(scene::big::Size::BUDGET);
    let mut arguments = std::env::args().skip(1);
    if let Some(file) = arguments.next() {
        std::fs::write(file, scene::archive(&nodes, 6))?;
    }
    match arguments.next() {
        Some(directory) => scene::unpack(&nodes, Path::new(&directory)),
        None => Ok(()),
    }
}
