//! A machine as text (fixtures/scenes), and what becomes of it: a directory or a capture.
//!
//! `/path: text`, `/path -> link target`, `/path <<` with lines up to a lone dot, `#` before what
//! people say. `{a-b}` in a path stands for each number of the range, and `{}` anywhere for that
//! number.

#![allow(dead_code, reason = "each user takes its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, reason = "tests set their own scene")]

pub(crate) mod big;

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use linerate::machine::host::tar::{self, Kind};

/// Ranges of a path are for CPUs and interrupt lines; no machine has more.
const MOST: u32 = 16_384;

/// What lies at a path of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A file with its content.
    File(Vec<u8>),
    /// A symbolic link with its target.
    Link(String),
}

/// Paths and what lies there, in the order of the text.
pub(crate) type Nodes = Vec<(String, Node)>;

/// Reads a scene.
///
/// # Errors
/// The line that is no line of a scene.
pub(crate) fn read(text: &str) -> Result<Nodes, String> {
    let mut nodes = Nodes::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (path, node) = if let Some(path) = line.strip_suffix(" <<") {
            let content: Vec<&str> = lines.by_ref().take_while(|l| *l != ".").collect();
            (path, Node::File(format!("{}\n", content.join("\n")).into()))
        } else if let Some((path, target)) = line.split_once(" -> ") {
            (path, Node::Link(target.to_owned()))
        } else {
            let (path, value) = line.split_once(": ").ok_or(line)?;
            (path, Node::File(format!("{value}\n").into()))
        };
        expand(path, node, &mut nodes).ok_or(line)?;
    }
    Ok(nodes)
}

fn expand(pattern: &str, node: Node, nodes: &mut Nodes) -> Option<()> {
    let Some((range, _)) = pattern.split_once('{').and_then(|(_, rest)| rest.split_once('}'))
    else {
        nodes.push((pattern.to_owned(), node));
        return Some(());
    };
    let (from, to) = range.split_once('-')?;
    let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
    if to >= MOST {
        return None;
    }
    for number in from..=to {
        let number = number.to_string();
        let path = pattern.replace(&format!("{{{range}}}"), &number).replace("{}", &number);
        let node = match &node {
            Node::File(content) => {
                Node::File(String::from_utf8_lossy(content).replace("{}", &number).into())
            }
            Node::Link(target) => Node::Link(target.replace("{}", &number)),
        };
        nodes.push((path, node));
    }
    Some(())
}

/// Makes the directory that `--host` takes.
pub(crate) fn unpack(nodes: &Nodes, root: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(root.join("proc"))?;
    for (path, node) in nodes {
        let at = root.join(path.trim_start_matches('/'));
        if let Some(above) = at.parent() {
            std::fs::create_dir_all(above)?;
        }
        match node {
            Node::File(content) => std::fs::write(at, content)?,
            Node::Link(target) => std::os::unix::fs::symlink(target, at)?,
        }
    }
    Ok(())
}

const MANIFEST: &str =
    r#"{"format":"linerate-capture","version":1,"kernel":"","created":"","samples":0}"#;

/// Makes the capture that `--host` takes, packed as tight as `level` (0 to 9).
pub(crate) fn archive(nodes: &Nodes, level: u32) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::new(level));
    out.write_all(&tar(nodes)).unwrap();
    out.finish().unwrap()
}

/// What is packed in a capture.
pub(crate) fn tar(nodes: &Nodes) -> Vec<u8> {
    let mut out = Vec::new();
    tar::append(&mut out, b"manifest.json", &Kind::File(MANIFEST.into())).unwrap();
    for (path, node) in nodes {
        let kind = match node {
            Node::File(content) => Kind::File(content.clone()),
            Node::Link(target) => Kind::Link(target.clone().into()),
        };
        tar::append(&mut out, path.trim_start_matches('/').as_bytes(), &kind).unwrap();
    }
    tar::end(&mut out).unwrap();
    out
}
