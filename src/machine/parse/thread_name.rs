//! Names of kernel threads that poll or transmit (`/proc/PID/comm`).
//!
//! ```text
//!   napi/eth0-8193                      net/core/dev.c, napi_kthread_create
//!   mt76-tx phy0, mt76-usb-rx phy0      drivers/net/wireless/mediatek/mt76/util.h, mt76_worker_setup
//!   ksoftirqd/0                         kernel/softirq.c
//! ```

use crate::model::units::CpuId;

/// Bytes of a name that kernels before 5.17 keep (TASK_COMM_LEN less its NUL; since then
/// kernel/kthread.c keeps all of it).
pub const CUT: usize = 15;

/// Programs by name that place packets or their interrupts, or dial.
pub const PROGRAMS: &[&str] = &["irqbalance", "tuned", "NetworkManager", "pppd", "bpftune"];

/// True if a process of that name has to do with packets.
#[must_use]
pub fn concerns_packets(name: &str) -> bool {
    read(name).is_some() || PROGRAMS.contains(&name)
}

/// Owner and work of a thread, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadName<'a> {
    /// Polls a NAPI instance of a device; the number is 0 for those that netif_napi_add_tx added.
    /// Before 6.10 a driver's dummy device may have an empty name, and later it is `dummy#`.
    Napi {
        /// Device name.
        device: &'a str,
        /// NAPI number.
        number: u32,
    },
    /// A NAPI thread whose number was cut off the end of its name, together with what was left of
    /// the device's name.
    Cut(&'a str),
    /// A worker of mt76.
    Mt76 {
        /// Work that the thread does: `tx`, `usb-rx`, ...
        worker: &'a str,
        /// Name of the radio; empty where it was cut off.
        radio: &'a str,
    },
    /// Soft interrupts of a CPU.
    Ksoftirqd(CpuId),
}

/// Reads a name; `None` for that of another thread.
#[must_use]
pub fn read(name: &str) -> Option<ThreadName<'_>> {
    if let Some(cpu) = name.strip_prefix("ksoftirqd/") {
        return cpu.parse().ok().map(|cpu| ThreadName::Ksoftirqd(CpuId(cpu)));
    }
    if let Some(rest) = name.strip_prefix("mt76-") {
        let (worker, radio) = rest.split_once(' ').unwrap_or((rest, ""));
        return Some(ThreadName::Mt76 { worker, radio });
    }
    let rest = name.strip_prefix("napi/")?;
    let numbered = rest.rsplit_once('-').and_then(|(device, number)| {
        let digits = number.bytes().all(|b| b.is_ascii_digit());
        Some((device, number.parse().ok().filter(|_| digits)?))
    });
    match numbered {
        Some((device, number)) => Some(ThreadName::Napi { device, number }),
        None if name.len() == CUT => Some(ThreadName::Cut(rest)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_kind_of_thread_is_told_from_the_others() {
        let napi = |device, number| Some(ThreadName::Napi { device, number });
        for (name, expected) in [
            ("napi/eth0-8193", napi("eth0", 8193)),
            ("napi/phy0-ap0-7", napi("phy0-ap0", 7)),
            ("napi/-5", napi("", 5)),
            ("napi/dummy#-5", napi("dummy#", 5)),
            ("napi/enp1s0f0np", Some(ThreadName::Cut("enp1s0f0np"))),
            ("mt76-tx phy0", Some(ThreadName::Mt76 { worker: "tx", radio: "phy0" })),
            ("mt76-sdio-txrx ", Some(ThreadName::Mt76 { worker: "sdio-txrx", radio: "" })),
            ("ksoftirqd/12", Some(ThreadName::Ksoftirqd(CpuId(12)))),
            ("ksoftirqd/x", None),
            ("napi/eth1-", None),
            ("napi/eth1-x", None),
            ("kworker/0:1", None),
            ("", None),
        ] {
            assert_eq!(read(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_survived(name: String, likely in "(napi/|mt76-|ksoftirqd/)[a-z0-9 #/é-]{0,12}") {
            let _known = (read(&name), read(&likely));
        }
    }
}
