//! A capture from anywhere: opened or refused, never more. Most bytes are no gzip stream, so the
//! input is packed first; what is packed badly is left to tests/archive.rs.
#![no_main]

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use linerate::capture::redact::Redactor;
use linerate::host::{Archive, HostRead};

fuzz_target!(|bytes: &[u8]| {
    let mut out = GzEncoder::new(Vec::new(), Compression::none());
    out.write_all(bytes).expect("memory takes it");
    let packed = out.finish().expect("memory takes it");
    if let Ok(host) = Archive::from_bytes(&packed) {
        drop(host.read(Path::new("/sys/a")));
        drop(host.list(Path::new("/sys/class/net")));
        drop(host.resolve(Path::new("/sys/a/b/../c")));
        drop(linerate::discover::snapshot(&host));
    }
    let mut redactor = Redactor::new("attic");
    let once = redactor.file(Path::new("/etc/config/network"), bytes);
    drop(redactor.file(Path::new("/proc/net/route"), &once));
});
