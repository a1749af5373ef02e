//! A flattened device tree (Devicetree Specification 0.4, chapter 5), read, changed and written:
//! QEMU's own, with the clusters and the name of a board put in.

use crate::error::{Error, Result};

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;
const HEADER: usize = 40;

/// A node with what is under it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) properties: Vec<(String, Vec<u8>)>,
    pub(crate) children: Vec<Node>,
}

impl Node {
    /// A node without anything in it.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// This node with a property.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a property, a new one last.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        let value = value.into();
        match self.properties.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => self.properties.push((name.to_owned(), value)),
        }
    }

    /// A property's bytes.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.properties.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_slice())
    }

    /// The child of this name.
    pub(crate) fn child(&mut self, name: &str) -> Result<&mut Node> {
        let missing = || Error::failed("device tree", format!("no node {name}"));
        self.children.iter_mut().find(|c| c.name == name).ok_or_else(missing)
    }
}

/// Numbers as cells.
pub(crate) fn cells(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_be_bytes()).collect()
}

/// A list of strings, each ended by a zero.
pub(crate) fn strings(values: &[&str]) -> Vec<u8> {
    values.iter().flat_map(|v| v.bytes().chain([0])).collect()
}

/// Reads a tree. The memory reservations are not kept: QEMU makes none.
///
/// # Errors
/// When these are not the bytes of a tree.
pub(crate) fn parse(bytes: &[u8]) -> Result<Node> {
    read(bytes).ok_or_else(|| Error::failed("device tree", "is malformed"))
}

fn read(bytes: &[u8]) -> Option<Node> {
    let offset = |at| usize::try_from(word(bytes, at)?).ok();
    if word(bytes, 0)? != MAGIC {
        return None;
    }
    let (mut at, names) = (offset(8)?, bytes.get(offset(12)?..)?);
    let mut open: Vec<Node> = Vec::new();
    loop {
        let token = word(bytes, at)?;
        at += 4;
        match token {
            BEGIN_NODE => {
                let name = text(bytes.get(at..)?)?;
                at = (at + name.len() + 1).next_multiple_of(4);
                open.push(Node::new(name));
            }
            PROP => {
                let (size, name) = (offset(at)?, offset(at + 4)?);
                at += 8;
                let value = bytes.get(at..at.checked_add(size)?)?.to_vec();
                at = (at + size).next_multiple_of(4);
                open.last_mut()?.properties.push((text(names.get(name..)?)?, value));
            }
            END_NODE => {
                let node = open.pop()?;
                match open.last_mut() {
                    Some(parent) => parent.children.push(node),
                    None => return Some(node),
                }
            }
            NOP => {}
            _ => return None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| *b == 0)?;
    String::from_utf8(bytes.get(..end)?.to_vec()).ok()
}

/// The bytes of a tree.
pub(crate) fn write(root: &Node) -> Vec<u8> {
    let (mut structure, mut names) = (Vec::new(), Vec::new());
    write_node(root, &mut structure, &mut names);
    structure.extend(END.to_be_bytes());
    // Header, then an empty list of reserved memory.
    let structure_at = HEADER + 16;
    let names_at = structure_at + structure.len();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut out = cells(&[
        MAGIC,
        number(names_at + names.len()),
        number(structure_at),
        number(names_at),
        number(HEADER),
        17, // this version,
        16, // which readers of that one can read
        0,  // the CPU that boots
        number(names.len()),
        number(structure.len()),
    ]);
    out.resize(structure_at, 0);
    out.extend(structure);
    out.extend(names);
    out
}

fn write_node(node: &Node, structure: &mut Vec<u8>, names: &mut Vec<u8>) {
    let pad = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(4), 0);
    structure.extend(BEGIN_NODE.to_be_bytes());
    structure.extend(strings(&[&node.name]));
    pad(structure);
    for (name, value) in &node.properties {
        let lengths = [value.len(), names.len()].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        structure.extend(cells(&[PROP, lengths[0], lengths[1]]));
        structure.extend(value);
        pad(structure);
        names.extend(strings(&[name]));
    }
    for child in &node.children {
        write_node(child, structure, names);
    }
    structure.extend(END_NODE.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Node {
        let mut root = Node::new("").with("model", strings(&["a board"])).with("empty", []);
        root.children.push(Node::new("cpus").with("reg", cells(&[1, 2])).with("odd", [7, 8, 9]));
        root.children.push(Node::new("chosen"));
        root
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(parse(&write(&sample())).unwrap(), sample());
    }

    #[test]
    fn a_property_is_replaced_and_not_doubled() {
        let mut root = sample();
        root.set("model", strings(&["another"]));
        assert_eq!(root.get("model"), Some(&b"another\0"[..]));
        assert_eq!(root.properties.len(), 2);
        assert!(root.child("absent").is_err());
    }

    #[test]
    fn a_tree_cut_short_is_refused() {
        let whole = write(&sample());
        // The names stand last: every cut loses at least one.
        for end in 0..whole.len() - 1 {
            assert!(parse(&whole[..end]).is_err(), "cut at {end}");
        }
    }
}
