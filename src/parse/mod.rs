//! Bytes of kernel files to values. Pure: nothing here opens anything, nothing here panics, and
//! what is not understood is skipped and counted.

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
pub mod perf;
pub mod pppoe;
pub mod preempt;
pub mod route;
pub mod snmp;
pub mod softirqs;
pub mod softnet;
pub mod stat;
pub mod task;
pub mod uci;
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
