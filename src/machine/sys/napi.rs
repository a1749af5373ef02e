//! NAPI instances through the netdev generic-netlink family (kernel 6.8): which interrupt, which
//! thread and which queues belong together, as the kernel itself keeps it.

use std::collections::BTreeMap;
use std::io;

use super::genl;
use super::netlink::{Attrs, NlFamily, Socket, attributes, u32_at};
use crate::model::nic::Napi;
use crate::model::order::{InOrder, OneByOne};

// linux/netdev.h
const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NAPI_IFINDEX: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_IRQ: u16 = 3;
const NAPI_PID: u16 = 4;
const NAPI_DEFER_HARD_IRQS: u16 = 5;
const NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const QUEUE_ID: u16 = 1;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI_ID: u16 = 4;

/// The instances of all devices that are up, by number.
///
/// # Errors
/// EOPNOTSUPP before kernel 6.8.
pub fn napis() -> io::Result<Vec<Napi>> {
    let mut socket = Socket::open(NlFamily::Generic)?;
    let family = genl::family(&mut socket, "netdev")?;
    let empty = Attrs::new();
    let napis = socket.dump(genl::request(family, NETDEV_CMD_NAPI_GET, &empty))?;
    let queues = socket.dump(genl::request(family, NETDEV_CMD_QUEUE_GET, &empty))?;
    Ok(join(&napis, &queues))
}

pub(super) fn join(napis: &[Vec<u8>], queues: &[Vec<u8>]) -> Vec<Napi> {
    let mut found: BTreeMap<u32, Napi> = BTreeMap::new();
    for body in napis {
        let mut napi = Napi::default();
        for (kind, value) in attributes(genl::payload(body)) {
            match kind {
                NAPI_IFINDEX => napi.ifindex = u32_at(value, 0).unwrap_or(0),
                NAPI_ID => napi.id = u32_at(value, 0).unwrap_or(0),
                NAPI_IRQ => napi.irq = u32_at(value, 0),
                NAPI_PID => napi.pid = u32_at(value, 0),
                NAPI_DEFER_HARD_IRQS => napi.defer_hard_irqs = u32_at(value, 0),
                NAPI_GRO_FLUSH_TIMEOUT => napi.gro_flush_timeout = uint(value),
                _ => {}
            }
        }
        found.insert(napi.id, napi);
    }
    for body in queues {
        let attrs: BTreeMap<u16, u32> = attributes(genl::payload(body))
            .filter_map(|(kind, value)| Some((kind, u32_at(value, 0)?)))
            .one_by_one();
        let napi = attrs.get(&QUEUE_NAPI_ID).and_then(|id| found.get_mut(id));
        if let (Some(napi), Some(queue)) = (napi, attrs.get(&QUEUE_ID)) {
            // NETDEV_QUEUE_TYPE_RX, _TX
            match attrs.get(&QUEUE_TYPE) {
                Some(0) => napi.rx.push(*queue),
                Some(1) => napi.tx.push(*queue),
                _ => {}
            }
        }
    }
    let mut found: Vec<Napi> = found.into_values().collect();
    for napi in &mut found {
        napi.rx.order_by(Ord::cmp);
        napi.tx.order_by(Ord::cmp);
    }
    found
}

/// The kernel's `uint`: 32 bits where they are enough, else 64.
fn uint(value: &[u8]) -> Option<u64> {
    match value.len() {
        8 => Some(u64::from_ne_bytes(value.try_into().ok()?)),
        _ => u32_at(value, 0).map(u64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(attrs: &Attrs) -> Vec<u8> {
        [&[0; 4], attrs.as_slice()].concat()
    }

    #[test]
    fn queues_go_to_their_instance() {
        let napi = |id: u32, irq: u32| {
            message(&Attrs::new().u32(NAPI_IFINDEX, 2).u32(NAPI_ID, id).u32(NAPI_IRQ, irq))
        };
        let queue = |id: u32, kind: u32, napi: u32| {
            message(&Attrs::new().u32(QUEUE_ID, id).u32(QUEUE_TYPE, kind).u32(QUEUE_NAPI_ID, napi))
        };
        let queues = [
            queue(1, 0, 514),
            queue(0, 0, 513),
            queue(0, 1, 513),
            queue(7, 0, 999),
            message(&Attrs::new().u32(QUEUE_ID, 3)),
        ];
        let found = join(&[napi(514, 31), napi(513, 30), vec![1]], &queues);
        let of = |id| found.iter().find(|n| n.id == id).unwrap();
        assert_eq!((of(513).irq, &of(513).rx[..], &of(513).tx[..]), (Some(30), &[0][..], &[0][..]));
        assert_eq!((of(514).irq, &of(514).rx[..], of(514).pid), (Some(31), &[1][..], None));
    }

    #[test]
    fn the_kernel_answers_or_has_no_such_family() {
        match napis() {
            Ok(found) => assert!(found.iter().all(|n| n.id > 0 && n.ifindex > 0), "{found:?}"),
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
                crate::skip!("this kernel has no netdev netlink family (6.8 and later)");
            }
            Err(e) => panic!("{e}"),
        }
    }
}
