//! Answers that are counted from files which should not be kept as they are: they hold the
//! addresses of everybody's connections, or only their access rights tell something.

#![expect(clippy::disallowed_methods, reason = "the door to the system")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use super::clock;
use crate::machine::sys::{conntrack, nft_drop, xtables};
use crate::model::loss::DropRule;
use crate::model::order::InOrder;
use crate::model::path::{BoundFlows, IptablesTable};

/// Connections looked at, at most; as many take some tens of milliseconds.
const MOST_FLOWS: usize = 50_000;
/// The same for files, in bytes and in time.
const MOST_BYTES: u64 = 8 << 20;
const TIME: Duration = Duration::from_millis(100);
/// Interrupt lines looked at, at most.
const MOST_LINES: usize = 16_384;

/// Tables of the old iptables. What they are called is read in the calling thread's namespace:
/// /proc/net is the process's.
pub(super) fn iptables() -> io::Result<Vec<IptablesTable>> {
    let mut found = tables()?
        .into_iter()
        .map(|(ipv6, name)| xtables::count(ipv6, &name))
        .collect::<io::Result<Vec<_>>>()?;
    found.order_by(|a, b| (a.ipv6, &a.table).cmp(&(b.ipv6, &b.table)));
    Ok(found)
}

/// All rules of the old iptables, by program and table.
pub(super) fn old_rules() -> io::Result<BTreeMap<String, Vec<u8>>> {
    let named = |(ipv6, table): (bool, String)| {
        let program = if ipv6 { "ip6tables" } else { "iptables" };
        xtables::rules(ipv6, &table).map(|rules| (format!("{program} {table}"), rules))
    };
    tables()?.into_iter().map(named).collect()
}

/// Rules that drop, of nf_tables where the kernel has it, and of the old iptables.
pub(super) fn drop_rules() -> io::Result<Vec<DropRule>> {
    let missing = [Errno::OPNOTSUPP, Errno::PROTONOSUPPORT, Errno::INVAL];
    let mut found = match nft_drop::list() {
        Err(e) if missing.iter().any(|m| e.raw_os_error() == Some(m.raw_os_error())) => Vec::new(),
        other => other?,
    };
    for (ipv6, name) in tables()? {
        found.extend(xtables::drops(ipv6, &name)?);
    }
    Ok(found)
}

/// Loaded tables of the old iptables, with whether they are ip6tables'.
fn tables() -> io::Result<Vec<(bool, String)>> {
    let mut found = Vec::new();
    for (ipv6, file) in [(false, "ip_tables_names"), (true, "ip6_tables_names")] {
        let path = Path::new("/proc/thread-self/net").join(file);
        let names = match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        for name in names.lines().map(str::trim).filter(|name| !name.is_empty()) {
            found.push((ipv6, name.to_owned()));
        }
    }
    Ok(found)
}

/// By ctnetlink; where the kernel has none (OpenWrt's does not by default), from the file.
pub(super) fn bound_flows() -> io::Result<BoundFlows> {
    conntrack::bound(MOST_FLOWS).or_else(|refused| {
        let file = match File::open("/proc/thread-self/net/nf_conntrack") {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(refused),
            other => other?,
        };
        let mut found = BoundFlows { by: "nf_conntrack".into(), ..BoundFlows::default() };
        found.complete = lines(file, |line| {
            // net/netfilter/nf_conntrack_standalone.c, ct_seq_show.
            let hardware = holds(line, b"[HW_OFFLOAD]");
            found.hardware += u64::from(hardware);
            found.bound += u64::from(hardware || holds(line, b"[OFFLOAD]"));
        })?;
        Ok(found)
    })
}

/// drivers/net/ethernet/mediatek/mtk_ppe_debugfs.c: `ppe0/bind` has a line for each bound flow;
/// before kernel 6.0 the directory was `mtk_ppe`.
pub(super) fn ppe_flows() -> io::Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for name in ["mtk_ppe", "ppe0", "ppe1", "ppe2"] {
        let path = Path::new("/sys/kernel/debug").join(name).join("bind");
        if let Ok(file) = File::open(&path) {
            let mut count = 0;
            lines(file, |line| count += u64::from(!line.is_empty()))?;
            found.insert(path.to_string_lossy().into_owned(), count);
        }
    }
    Ok(found)
}

/// kernel/irq/proc.c, register_irq_proc: the file is writable if `irq_can_set_affinity_usr`, which
/// is not so for managed lines, for those of chips that can't, and for IRQF_NOBALANCING.
pub(super) fn fixed_irqs() -> io::Result<Vec<u32>> {
    let mut lines: Vec<u32> = fs::read_dir("/proc/irq")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .take(MOST_LINES)
        .collect();
    lines.order_by(Ord::cmp);
    let fixed = |line: &u32| {
        let path = format!("/proc/irq/{line}/smp_affinity");
        fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o222 == 0)
    };
    Ok(lines.into_iter().filter(fixed).collect())
}

fn holds(line: &[u8], what: &[u8]) -> bool {
    line.windows(what.len()).any(|window| window == what)
}

/// Calls `each` with every line, within [`MOST_BYTES`] and [`TIME`]; whether those were all.
fn lines(file: impl Read, mut each: impl FnMut(&[u8])) -> io::Result<bool> {
    let deadline = clock::monotonic() + TIME;
    let mut file = file.take(MOST_BYTES);
    let mut buffer = Vec::new();
    let mut chunk = vec![0; 32 << 10];
    loop {
        let len = match file.read(&mut chunk) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if len == 0 {
            if !buffer.is_empty() {
                each(&buffer);
            }
            return Ok(file.limit() > 0);
        }
        buffer.extend(chunk.iter().take(len));
        let whole = buffer.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let rest = buffer.split_off(whole);
        buffer.pop();
        if whole > 0 {
            buffer.split(|b| *b == b'\n').for_each(&mut each);
        }
        buffer = rest;
        if clock::monotonic() > deadline {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_the_file_comes() {
        let text = b"one [OFFLOAD] x\ntwo\nthree [HW_OFFLOAD] y\nfour";
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                let (now, rest) = self.0.split_at(self.0.len().min(5));
                self.0 = rest;
                to[..now.len()].copy_from_slice(now);
                Ok(now.len())
            }
        }
        let mut seen = Vec::new();
        assert!(lines(Slow(text), |line| seen.push(line.to_vec())).unwrap());
        assert_eq!(seen.join(&b'\n'), text);
        assert_eq!(seen.iter().filter(|l| holds(l, b"[OFFLOAD]")).count(), 1);
        assert!(!lines(io::repeat(b'x'), |_| {}).unwrap(), "a file without an end is given up");
    }

    #[test]
    fn what_the_kernel_lets_nobody_write_is_fixed() {
        // Both views of this machine: `ls -l` in words, and ours.
        let Ok(fixed) = fixed_irqs() else { crate::skip!("no /proc/irq here") };
        for line in fixed {
            let mode = fs::metadata(format!("/proc/irq/{line}/smp_affinity_list")).unwrap();
            assert_eq!(mode.permissions().mode() & 0o777, 0o444, "irq {line}");
        }
    }
}
