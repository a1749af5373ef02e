//! Bytes of kernel files to values. In come the bytes of a file, in whatever state; out go values,
//! and anything that is not understood is skipped and counted. Nothing may be touched: these
//! functions are pure, open nothing, and no input makes them panic.

pub mod cmdline;
pub mod config;
pub mod cpuinfo;
pub mod cpumask;
pub mod crypto;
pub mod gzip;
pub mod interrupts;
pub mod irq_name;
pub mod kallsyms;
pub mod keyvalue;
pub mod modules;
pub mod net_counters;
pub mod net_dev;
pub mod net_tcp;
pub mod packet_sockets;
pub mod per_cpu;
pub mod perf;
pub mod pppoe;
pub mod preempt;
pub mod queue_counters;
pub mod route;
pub mod snmp;
pub mod softirqs;
pub mod softnet;
pub mod stat;
pub mod task;
pub mod thread_name;
pub mod tracepoint;
pub mod uci;
pub mod uci_edit;
pub mod vlan;

/// Names in their order, each once.
fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}
