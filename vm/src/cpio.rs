//! A RAM disk image: the "newc" cpio format that the kernel unpacks
//! (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! The same entries give the same bytes: names are sorted, times are zero, owners are root.

use std::collections::BTreeMap;

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Directory,
    File { data: Vec<u8>, mode: u32 },
    Symlink(String),
    CharDevice { major: u32, minor: u32 },
}

/// A tree of files, to be turned into an image. Names have no leading slash.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory, and those above it.
    pub fn directory(&mut self, name: &str) {
        let mut upto = 0;
        while let Some(slash) = name.get(upto..).and_then(|rest| rest.find('/')) {
            let parent = name.get(..upto + slash).unwrap_or_default();
            self.entries.entry(parent.to_owned()).or_insert(Entry::Directory);
            upto += slash + 1;
        }
        self.entries.entry(name.to_owned()).or_insert(Entry::Directory);
    }

    /// Adds a file with permission bits `mode`, and the directories above it.
    pub fn file(&mut self, name: &str, mode: u32, data: impl Into<Vec<u8>>) {
        self.insert(name, Entry::File { data: data.into(), mode });
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, name: &str, target: &str) {
        self.insert(name, Entry::Symlink(target.to_owned()));
    }

    /// Adds a character device.
    pub fn char_device(&mut self, name: &str, major: u32, minor: u32) {
        self.insert(name, Entry::CharDevice { major, minor });
    }

    fn insert(&mut self, name: &str, entry: Entry) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.directory(parent);
        }
        self.entries.insert(name.to_owned(), entry);
    }

    /// The image.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Sorted order puts a directory before what is in it, as the kernel's unpacker needs.
        for (inode, (name, entry)) in (1..).zip(&self.entries) {
            let (mode, data, device): (u32, &[u8], _) = match entry {
                Entry::Directory => (0o040_755, &[], (0, 0)),
                Entry::File { data, mode } => (0o100_000 | mode, data, (0, 0)),
                Entry::Symlink(target) => (0o120_777, target.as_bytes(), (0, 0)),
                Entry::CharDevice { major, minor } => (0o020_600, &[], (*major, *minor)),
            };
            write_entry(&mut out, inode, name, mode, data, device);
        }
        write_entry(&mut out, 0, "TRAILER!!!", 0, &[], (0, 0));
        out
    }
}

fn write_entry(
    out: &mut Vec<u8>,
    inode: u32,
    name: &str,
    mode: u32,
    data: &[u8],
    (major, minor): (u32, u32),
) {
    let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(b"070701");
    // inode, mode, uid, gid, links, mtime, size, device, device, rdev, rdev, name size, checksum
    for field in [inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0] {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(data);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    fn sample() -> Archive {
        let mut archive = Archive::new();
        archive.file("bin/deep/tool", 0o755, *b"#!/bin/sh\n");
        archive.symlink("bin/link", "deep/tool");
        archive.char_device("dev/console", 5, 1);
        archive.file("empty", 0o644, []);
        archive
    }

    #[test]
    fn the_same_tree_gives_the_same_bytes() {
        let mut other = Archive::new();
        other.file("empty", 0o644, []);
        other.char_device("dev/console", 5, 1);
        other.symlink("bin/link", "deep/tool");
        other.file("bin/deep/tool", 0o755, *b"#!/bin/sh\n");
        assert_eq!(sample().to_bytes(), other.to_bytes());
    }

    #[test]
    fn another_reader_lists_every_entry() {
        let lister = Command::new("busybox")
            .args(["cpio", "-tv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut lister) = lister else {
            eprintln!("SKIPPED another_reader_lists_every_entry: no busybox here");
            return;
        };
        lister.stdin.take().unwrap().write_all(&sample().to_bytes()).unwrap();
        let out = lister.wait_with_output().unwrap();
        let list = String::from_utf8(out.stdout).unwrap();
        for wanted in [
            "drwxr-xr-x root/root         0 1970-01-01 00:00:00 bin/deep",
            "-rwxr-xr-x root/root        10 1970-01-01 00:00:00 bin/deep/tool",
            "bin/link -> deep/tool",
            "dev/console",
            "empty",
        ] {
            assert!(
                list.lines().any(|l| l.contains(wanted.split_whitespace().last().unwrap())),
                "{wanted} in {list}"
            );
        }
        assert!(list.contains("-rwxr-xr-x") && list.contains("-> deep/tool"), "{list}");
    }
}
