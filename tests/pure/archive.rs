//! Captures that are cut, damaged or made to harm: an error in words, at once, and nothing else.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::program;
use flate2::Compression;
use flate2::write::GzEncoder;
use linerate::machine::host::tar::{self, Kind};
use linerate::machine::host::{Archive, HostRead, OpenError};
use rustix::io::Errno;

const GOOD: &str =
    r#"{"format":"linerate-capture","version":1,"kernel":"6.6","created":"","samples":0}"#;

fn file(text: &str) -> Kind {
    Kind::File(text.as_bytes().to_vec())
}

fn link(target: &str) -> Kind {
    Kind::Link(target.as_bytes().to_vec())
}

fn tarred(manifest: &str, entries: &[(&[u8], Kind)]) -> Vec<u8> {
    let mut out = Vec::new();
    tar::append(&mut out, b"manifest.json", &file(manifest)).unwrap();
    for (name, kind) in entries {
        tar::append(&mut out, name, kind).unwrap();
    }
    tar::end(&mut out).unwrap();
    out
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn archive(entries: &[(&[u8], Kind)]) -> Vec<u8> {
    gzipped(&tarred(GOOD, entries))
}

fn refused(packed: &[u8]) -> OpenError {
    match Archive::from_bytes(packed) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

#[test]
fn names_that_lead_out_are_refused() {
    for name in ["../etc/passwd", "proc/../../etc/passwd", "/etc/passwd", "./../x", ".."] {
        let error = refused(&archive(&[(name.as_bytes(), file("x"))]));
        assert!(matches!(&error, OpenError::BadName(bad) if bad == name), "{name}: {error}");
    }
}

#[test]
fn links_resolve_inside_and_never_lead_out() {
    let host = Archive::from_bytes(&archive(&[
        (b"sys/out", link("../../../../etc")),
        (b"sys/passwd", link("/etc/passwd")),
        (b"sys/a", link("/sys/b")),
        (b"sys/b", link("a")),
        (b"sys/self", link(".")),
        (b"proc/ok", file("inside\n")),
        (b"sys/good", link("../proc/ok")),
    ]))
    .unwrap();
    for path in ["/sys/out/passwd", "/sys/passwd", "/../../etc/passwd"] {
        assert!(host.read(Path::new(path)).unwrap_err().is_absent(), "{path}");
    }
    assert_eq!(host.read(Path::new("/sys/a")).unwrap_err().errno, Errno::LOOP);
    assert_eq!(host.read(Path::new("/sys/self/self/self/a/x")).unwrap_err().errno, Errno::LOOP);
    assert_eq!(host.text(Path::new("/sys/self/good")).unwrap(), "inside");
}

#[test]
fn nothing_lies_below_a_link_or_a_file() {
    for above in [link("/etc"), file("x")] {
        let error = refused(&archive(&[(b"sys/x", above), (b"sys/x/passwd", file("y"))]));
        assert!(matches!(error, OpenError::BadName(_)), "{error}");
    }
    let error = refused(&archive(&[(b"sys/x/y", file("y")), (b"sys/x", file("x"))]));
    assert!(matches!(error, OpenError::BadName(_)), "{error}");
}

#[test]
fn bombs_end_at_the_limits() {
    // A file of 80 MB in 80 kB.
    let error = refused(&archive(&[(b"proc/huge", Kind::File(vec![0; 80 << 20]))]));
    assert!(error.to_string().contains("more than a capture can"), "{error}");
    // A header that claims a file of 8 GB, with nothing behind it.
    let mut bytes = tarred(GOOD, &[(b"proc/huge", file("x"))]);
    let header = 2 * 512;
    bytes[header + 124..header + 136].copy_from_slice(b"77777777777\0");
    let sum: u32 = bytes[header..header + 512]
        .iter()
        .enumerate()
        .map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) })
        .sum();
    bytes[header + 148..header + 155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let error = refused(&gzipped(&bytes));
    assert!(error.to_string().contains("more than a capture can"), "{error}");
    // Directories without end in one name.
    let deep = "d/".repeat(2000);
    let error = refused(&archive(&[(deep.as_bytes(), Kind::Directory)]));
    assert!(matches!(error, OpenError::BadName(_)), "{error}");
    // Entries without end, and zeros without end after the archive's.
    let mut many = tarred(GOOD, &[]);
    many.truncate(1024);
    let entry = tarred(GOOD, &[(b"proc/x", Kind::Directory)])[1024..1536].to_vec();
    many.extend(entry.repeat(200_001));
    let error = refused(&gzipped(&many));
    assert!(error.to_string().contains("entries"), "{error}");
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(&tarred(GOOD, &[])).unwrap();
    for _ in 0..513 {
        out.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let error = refused(&out.finish().unwrap());
    assert!(error.to_string().contains("bytes"), "{error}");
}

#[test]
fn a_capture_cut_anywhere_is_an_error() {
    let text: String = (0..5000).map(|n| format!("{} ", n * n % 7919)).collect();
    let whole = archive(&[
        (b"proc/interrupts", file(&text)),
        (b"sys/x", link("/proc")),
        ("n".repeat(150).as_bytes(), file("long")),
    ]);
    assert!(Archive::from_bytes(&whole).is_ok());
    for length in 0..whole.len() {
        let error = refused(&whole[..length]);
        let expected = matches!(error, OpenError::NotGzip | OpenError::Tar(_));
        assert!(expected, "cut to {length} of {}: {error}", whole.len());
    }
}

#[test]
fn a_damaged_byte_is_an_error_or_changes_nothing() {
    let whole = archive(&[(b"proc/stat", file("cpu  1 2 3\n"))]);
    for at in 0..whole.len() {
        for bit in [0x01, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= bit;
            // Some bits carry nothing: the time in the header, which of many zeros to copy. What
            // opens has passed the check sum.
            if let Ok(host) = Archive::from_bytes(&damaged) {
                assert_eq!(host.read(Path::new("/proc/stat")).unwrap(), b"cpu  1 2 3\n");
            }
        }
    }
}

#[test]
fn devices_pipes_and_hard_links_are_never_opened() {
    for letter in *b"1346" {
        let mut bytes = tarred(GOOD, &[(b"proc/odd", file(""))]);
        let header = 2 * 512;
        let sum_before = u32::from(bytes[header + 156]);
        bytes[header + 156] = letter;
        let field = &bytes[header + 148..header + 154];
        let sum = u32::from_str_radix(std::str::from_utf8(field).unwrap(), 8).unwrap();
        let sum = sum - sum_before + u32::from(letter);
        bytes[header + 148..header + 155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let host = Archive::from_bytes(&gzipped(&bytes)).unwrap();
        assert_eq!(host.read(Path::new("/proc/odd")).unwrap_err().errno, Errno::INVAL);
    }
}

#[test]
fn names_that_are_no_utf8_and_long_ones_survive() {
    use std::os::unix::ffi::OsStrExt;
    let odd = b"sys/class/net/\xff\xfe/mtu";
    let long = format!("sys/{}/value", "directory/".repeat(25));
    let target = format!("/{}", long.trim_end_matches("/value"));
    let host = Archive::from_bytes(&archive(&[
        (odd, file("1500\n")),
        (long.as_bytes(), file("found\n")),
        (b"sys/short", link(&target)),
    ]))
    .unwrap();
    let path = Path::new(std::ffi::OsStr::from_bytes(b"/sys/class/net/\xff\xfe/mtu"));
    assert_eq!(host.text(path).unwrap(), "1500");
    assert_eq!(host.list(Path::new("/sys/class/net")).unwrap(), ["\u{fffd}\u{fffd}"]);
    assert_eq!(host.text(Path::new("/sys/short/value")).unwrap(), "found");
}

#[test]
fn other_files_are_told_apart_in_words() {
    let newer = GOOD.replace("\"version\":1", "\"version\":7");
    let other = GOOD.replace("linerate-capture", "other");
    let dir = std::env::temp_dir().join(format!("linerate-archive-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let good = archive(&[]);
    for (name, content, why) in [
        ("text", b"hello\n".to_vec(), "it is not a capture (no gzip file)"),
        ("empty", Vec::new(), "it is not a capture (no gzip file)"),
        ("cut", good[..good.len() / 2].to_vec(), "it is cut short"),
        ("newer", gzipped(&tarred(&newer, &[])), "version 7; this program reads up to 1"),
        ("other", gzipped(&tarred(&other, &[])), "it is not a capture (no manifest.json"),
        ("none", gzipped(&[0; 1024]), "it is not a capture (no manifest.json"),
        ("garbage", gzipped(&[b'x'; 4096]), "it is damaged (a checksum)"),
    ] {
        let path = dir.join(name);
        std::fs::write(&path, content).unwrap();
        let mut command = Command::new(program::path());
        let output = command.args(["show", "--host"]).arg(&path).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {text}");
        assert!(text.starts_with("linerate: open captured machine "), "{text}");
        assert!(text.contains(why) && text.contains("\nhint: "), "{name}: {text}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}
