//! Programs whose names matter here: NAPI threads, services that set what this program sets, pppd.

use std::path::Path;

use super::text;
use crate::machine::host::HostRead;
use crate::machine::parse::thread_name::{self, ThreadName};
use crate::model::order::InOrder;

/// A process that was looked for.
pub(super) struct Process {
    pub(super) pid: u32,
    /// Name of the process (`comm`), cut to 15 bytes for programs.
    pub(super) name: String,
}

/// Processes of these names and threads that poll or transmit, by process id.
pub(super) fn discover(host: &dyn HostRead) -> Vec<Process> {
    let names = host.list(Path::new("/proc")).unwrap_or_default();
    let mut found: Vec<Process> = names
        .iter()
        .filter_map(|name| name.parse::<u32>().ok())
        .filter_map(|pid| {
            let name = text(host, Path::new(&format!("/proc/{pid}/comm")))?;
            thread_name::concerns_packets(&name).then_some(Process { pid, name })
        })
        .collect();
    found.order_by_key(|p| p.pid);
    found
}

/// Threads that poll for `device`, in the order of their NAPI numbers. Older kernels start the last
/// one first.
pub(super) fn napi_threads(processes: &[Process], device: &str) -> Vec<u32> {
    let of_device = |p: &Process| match thread_name::read(&p.name)? {
        ThreadName::Napi { device: own, number } if own == device => Some((number, p.pid)),
        _ => None,
    };
    let mut found: Vec<(u32, u32)> = processes.iter().filter_map(of_device).collect();
    found.order_by(Ord::cmp);
    found.into_iter().map(|(_, pid)| pid).collect()
}

/// The words of a process's command line.
pub(super) fn arguments(host: &dyn HostRead, pid: u32) -> Vec<String> {
    let bytes = host.read(Path::new(&format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    let words = bytes.split(|b| *b == 0).filter(|w| !w.is_empty());
    words.map(|w| String::from_utf8_lossy(w).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_eth1_are_not_those_of_eth10() {
        let names =
            ["napi/eth1-8193", "napi/eth10-8194", "napi/eth1-", "napi/eth1-x", "napi/eth1-99"];
        let processes: Vec<Process> =
            (1..).zip(names).map(|(pid, name)| Process { pid, name: name.to_owned() }).collect();
        assert_eq!(napi_threads(&processes, "eth1"), [5, 1]);
        assert_eq!(napi_threads(&processes, "eth10"), [2]);
    }
}
