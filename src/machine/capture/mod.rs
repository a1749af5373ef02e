//! One file that holds a machine: everything that discovery reads, counters over time, and what a
//! bug report needs, with nothing in it that says whose machine it is.
//!
//! ```text
//!   discover ─▶ Recorder ─▶ Live        what was asked, and every answer or failure
//!      extras ─┘   │
//!     samples ─────┤
//!                  ▼
//!               Redactor ─▶ tar.gz      see docs/capture.md
//! ```
//!
//! In comes a door to a machine, out goes an archive. The machine is read, never written.

pub mod redact;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::machine::host::captured::{ARCH, ERRORS, IDENTITY, LISTS, error_line};
use crate::machine::host::tar::{self, Kind};
use crate::machine::host::{
    HostError, HostRead, HostResult, MANIFEST, Manifest, Record, Recorder, clock,
};
use redact::Redactor;

/// Files that tell more than discovery asks for, where they are there.
const EXTRAS: &[&str] = &[
    "/proc/version",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/config.gz",
    "/proc/crypto",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/net/core/netdev_budget",
    "/proc/sys/net/core/netdev_budget_usecs",
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/net/core/rps_sock_flow_entries",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/netfilter/nf_conntrack_count",
    "/proc/sys/net/netfilter/nf_conntrack_max",
    "/etc/board.json",
    "/etc/openwrt_release",
    "/etc/config/network",
    "/etc/config/firewall",
    "/etc/config/irqbalance",
    "/etc/rc.local",
];

/// Counters, with the path that they are kept under: in a network namespace of a thread's own,
/// /proc/net is still the process's.
const COUNTERS: &[(&str, &[&str])] = &[
    ("proc/stat", &["/proc/stat"]),
    ("proc/softirqs", &["/proc/softirqs"]),
    ("proc/interrupts", &["/proc/interrupts"]),
    ("proc/net/softnet_stat", &["/proc/net/softnet_stat"]),
    ("proc/net/dev", &["/proc/thread-self/net/dev", "/proc/net/dev"]),
];

/// Interrupt lines whose settings are kept; a machine with more has told enough.
const MOST_LINES: usize = 16_384;

/// Counters at one moment.
struct Sample {
    /// Since boot (CLOCK_BOOTTIME).
    at: Duration,
    files: Vec<(&'static str, Vec<u8>)>,
}

/// A machine as it was, not yet redacted.
pub struct Capture {
    record: Record,
    samples: Vec<Sample>,
    arch: String,
    identity: Vec<u8>,
    kernel: String,
    hostname: String,
}

/// Size of a capture, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Files with their content.
    pub files: usize,
    /// Answers of netlink.
    pub answers: usize,
    /// Samples of counters.
    pub samples: usize,
    /// Asked for and not there.
    pub absent: usize,
    /// Asked for and not permitted.
    pub denied: usize,
    /// Asked for and failed in another way; the failures are in the capture.
    pub failed: usize,
    /// Different addresses, names and secrets that were replaced.
    pub redacted: usize,
}

impl Capture {
    /// Asks the machine behind `host` everything that `look` asks (discovery), and more.
    #[must_use]
    pub fn take(host: &dyn HostRead, look: impl FnOnce(&dyn HostRead)) -> Self {
        let recorder = Recorder::new(host);
        look(&recorder);
        let text = |path: &str| recorder.text(Path::new(path)).unwrap_or_default();
        let kernel = text("/proc/sys/kernel/osrelease");
        let hostname = text("/proc/sys/kernel/hostname");
        for path in EXTRAS {
            note(recorder.read(Path::new(path)));
        }
        // Readable in place of /proc/config.gz on Debian and its like.
        note(recorder.read(&Path::new("/boot").join(format!("config-{kernel}"))));
        interrupts(&recorder);
        let identity = serde_json::to_vec(&host.identity()).unwrap_or_default();
        let record = recorder.into_record();
        Self { record, samples: Vec::new(), arch: host.arch(), identity, kernel, hostname }
    }

    /// Adds the counters as they are now.
    pub fn sample(&mut self, host: &dyn HostRead) {
        let first = |paths: &[&str]| paths.iter().find_map(|p| host.read(Path::new(p)).ok());
        let files = COUNTERS.iter().filter_map(|(name, paths)| Some((*name, first(paths)?)));
        self.samples.push(Sample { at: clock::boottime(), files: files.collect() });
    }

    /// The rules that redact it.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        let devices = self.record.links.keys().chain(&self.record.seen);
        let devices = devices.filter(|path| path.parent() == Some(Path::new("/sys/class/net")));
        let devices: Vec<&str> = devices.filter_map(|path| path.file_name()?.to_str()).collect();
        let mut redactor = Redactor::new(&self.hostname, devices);
        // An address of digits alone is told from a count by being known.
        let addresses = self.record.files.iter().filter(|(path, _)| path.ends_with("address"));
        addresses.for_each(|(_, content)| drop(redactor.text(content)));
        redactor
    }

    /// The capture file.
    ///
    /// # Errors
    /// None that the memory it is written to can cause; names are always of valid length.
    pub fn pack(&self, redactor: &mut Redactor) -> io::Result<(Vec<u8>, Summary)> {
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        let manifest = Manifest {
            format: Manifest::FORMAT.to_owned(),
            version: Manifest::VERSION,
            kernel: self.kernel.clone(),
            created: clock::wall(),
            samples: u32::try_from(self.samples.len()).unwrap_or(u32::MAX),
            made_by: concat!("linerate ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let manifest = serde_json::to_vec_pretty(&manifest)?;
        tar::append(&mut out, MANIFEST.as_bytes(), &Kind::File(manifest))?;
        tar::append(&mut out, ARCH.as_bytes(), &Kind::File(self.arch.clone().into_bytes()))?;
        let identity = redactor.text(&self.identity);
        tar::append(&mut out, IDENTITY.as_bytes(), &Kind::File(identity))?;
        self.record_into(&mut out, redactor)?;
        for (index, sample) in self.samples.iter().enumerate() {
            let dir = format!("linerate/samples/{index}");
            let at = format!("{}.{:09}\n", sample.at.as_secs(), sample.at.subsec_nanos());
            tar::append(&mut out, format!("{dir}/at").as_bytes(), &Kind::File(at.into_bytes()))?;
            for (name, content) in &sample.files {
                let content = redactor.file(&Path::new("/").join(name), content);
                tar::append(&mut out, format!("{dir}/{name}").as_bytes(), &Kind::File(content))?;
            }
        }
        tar::end(&mut out)?;
        let packed = out.finish()?;
        Ok((packed, self.summary(redactor)))
    }

    /// Contents of each file and answer that the capture has, by its path.
    #[must_use]
    pub fn kept(&self, redactor: &mut Redactor) -> BTreeMap<String, String> {
        let record = &self.record;
        let files = record.files.iter().map(|(path, content)| {
            (redacted(redactor, path).display().to_string(), redactor.file(path, content))
        });
        let mut kept: Vec<(String, Vec<u8>)> = files.collect();
        kept.extend(record.answers.iter().map(|(name, answer)| {
            let place = redacted(redactor, Path::new(name)).display().to_string();
            (format!("linerate/{place}.json"), redacted_answer(redactor, name, answer))
        }));
        let text = |content: Vec<u8>| match String::from_utf8(content) {
            Ok(text) if !text.trim_end_matches('\0').contains('\0') => text,
            Ok(text) => text.replace('\0', " "),
            Err(binary) => format!("{} bytes that are no text", binary.as_bytes().len()),
        };
        kept.into_iter().map(|(path, content)| (path, text(content))).collect()
    }

    fn record_into(&self, out: &mut impl Write, redactor: &mut Redactor) -> io::Result<()> {
        let record = &self.record;
        let mut errors = Vec::new();
        for ((operation, path), errno) in &record.errors {
            // Absence needs no words, except of a device that a question named.
            if *errno != rustix::io::Errno::NOENT || *operation == "query" {
                errors.extend(error_line(operation, *errno, &redacted(redactor, path)));
            }
        }
        tar::append(out, ERRORS.as_bytes(), &Kind::File(errors))?;
        for (name, answer) in &record.answers {
            let clean = redacted_answer(redactor, name, answer);
            let name = redactor.text(name.as_bytes());
            let path = [b"linerate/", name.as_slice(), b".json"].concat();
            tar::append(out, &path, &Kind::File(clean))?;
        }
        let mut lists = BTreeMap::new();
        for (path, names) in &record.lists {
            let text = |name: &String, redactor: &mut Redactor| {
                String::from_utf8_lossy(&redactor.text(name.as_bytes())).into_owned()
            };
            let names: Vec<String> = names.iter().map(|n| text(n, redactor)).collect();
            lists.insert(redacted(redactor, path).to_string_lossy().into_owned(), names);
        }
        tar::append(out, LISTS.as_bytes(), &Kind::File(serde_json::to_vec(&lists)?))?;
        let directories = record.seen.iter().chain(record.lists.keys());
        for path in directories.filter(|path| !record.files.contains_key(*path)) {
            if let Some(name) = entry_name(&redacted(redactor, path)) {
                let kind = if failed_file(record, path) {
                    Kind::File(Vec::new())
                } else {
                    Kind::Directory
                };
                tar::append(out, &name, &kind)?;
            }
        }
        for (path, target) in &record.links {
            let (path, target) = (redacted(redactor, path), redacted(redactor, target));
            if let Some(name) = entry_name(&path) {
                let target = relative(&path, &target).into_os_string().into_vec();
                tar::append(out, &name, &Kind::Link(target))?;
            }
        }
        for (path, content) in &record.files {
            if let Some(name) = entry_name(&redacted(redactor, path)) {
                tar::append(out, &name, &Kind::File(redactor.file(path, content)))?;
            }
        }
        Ok(())
    }

    fn summary(&self, redactor: &Redactor) -> Summary {
        let errors = self
            .record
            .errors
            .iter()
            .map(|((operation, path), errno)| HostError::new(operation, path, *errno));
        let (mut absent, mut denied, mut failed) = (0, 0, 0);
        for error in errors {
            match () {
                () if error.is_absent() => absent += 1,
                () if error.is_denied() => denied += 1,
                () => failed += 1,
            }
        }
        Summary {
            files: self.record.files.len(),
            answers: self.record.answers.len(),
            samples: self.samples.len(),
            absent,
            denied,
            failed,
            redacted: redactor.replaced(),
        }
    }
}

/// The recorder has both the answer and the failure.
fn note<T>(answer: HostResult<T>) {
    drop(answer);
}

fn interrupts(host: &dyn HostRead) {
    let root = Path::new("/proc/irq");
    let names = host.list(root).unwrap_or_default();
    let lines = names.iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    for line in lines.take(MOST_LINES) {
        for file in ["smp_affinity_list", "effective_affinity_list", "affinity_hint"] {
            note(host.read(&root.join(line).join(file)));
        }
    }
}

/// Versions of drivers and firmware may look like addresses (vmxnet3: `1.7.0.0-k-NAPI`), and are
/// nobody's.
fn redacted_answer(redactor: &mut Redactor, name: &str, answer: &[u8]) -> Vec<u8> {
    let clean = redactor.text(answer);
    if !name.starts_with("nic/") {
        return clean;
    }
    let values = serde_json::from_slice::<serde_json::Value>(answer)
        .and_then(|was| Ok((was, serde_json::from_slice::<serde_json::Value>(&clean)?)));
    let Ok((was, mut is)) = values else { return clean };
    for field in ["driver_version", "firmware"] {
        if let (Some(was), Some(is)) = (was.get(field), is.get_mut(field)) {
            *is = was.clone();
        }
    }
    serde_json::to_vec(&is).unwrap_or(clean)
}

fn redacted(redactor: &mut Redactor, path: &Path) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&redactor.text(path.as_os_str().as_bytes())))
}

/// True if it is a file that could not be read: it has to be there for its failure to be found.
fn failed_file(record: &Record, path: &Path) -> bool {
    let errno = record.errors.get(&("read", path.to_owned()));
    let below = record.seen.range(path.to_owned()..).find(|other| *other != path);
    errno.is_some_and(|errno| *errno != rustix::io::Errno::ISDIR)
        && !record.lists.contains_key(path)
        && !below.is_some_and(|other| other.starts_with(path))
}

/// `None` for the root itself.
fn entry_name(path: &Path) -> Option<Vec<u8>> {
    let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes();
    (!name.is_empty()).then(|| name.to_vec())
}

/// `target` as seen from the directory of the link at `path`: where the capture is unpacked, links
/// lead into it and not to the machine that it was unpacked on.
fn relative(path: &Path, target: &Path) -> PathBuf {
    let from: Vec<_> = path.parent().into_iter().flatten().collect();
    let to: Vec<_> = target.iter().collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let ups = std::iter::repeat_n(OsStr::new(".."), from.len() - common);
    let rest = to.iter().skip(common).copied();
    let relative: PathBuf = ups.chain(rest).collect();
    if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative }
}

#[cfg(test)]
mod tests {
    use super::{Redactor, redacted_answer, relative};
    use std::path::Path;

    #[test]
    fn a_drivers_version_is_no_address() {
        let mut redactor = Redactor::new("attic", []);
        let answer = br#"{"driver_version":"1.7.0.0-k-NAPI","firmware":"8.3.1.2","x":"84.1.2.3"}"#;
        let clean = redacted_answer(&mut redactor, "nic/eth0", answer);
        let clean = String::from_utf8(clean).unwrap();
        assert!(clean.contains("1.7.0.0-k-NAPI") && clean.contains("8.3.1.2"), "{clean}");
        assert!(!clean.contains("84.1.2.3"), "{clean}");
        assert_eq!(redacted_answer(&mut redactor, "nic/eth0", b"not JSON"), b"not JSON");
    }

    #[test]
    fn links_are_relative_to_their_directory() {
        for (path, target, expected) in [
            ("/sys/class/net/eth0", "/sys/devices/x/net/eth0", "../../devices/x/net/eth0"),
            ("/etc/os-release", "/usr/lib/os-release", "../usr/lib/os-release"),
            ("/a", "/b", "b"),
            ("/a/b", "/a", "."),
        ] {
            assert_eq!(relative(Path::new(path), Path::new(target)), Path::new(expected));
        }
    }
}
