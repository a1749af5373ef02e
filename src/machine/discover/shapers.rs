//! The ifb device that a shaper of received packets stands on.

use crate::model::snapshot::NetDev;

/// Queueing disciplines that hold packets to a rate.
const SHAPERS: &[&str] = &["cake", "cake_mq", "htb", "hfsc", "tbf"];

/// Sets for each device the ifb device that its received packets are sent through first.
///
/// sqm-scripts call it `ifb4` and the device's name, as much of it as fits (functions.sh,
/// get_ifb_name). Others (`ifb0`) are found where one device and one ifb device alone have a shaper.
pub(super) fn link(netdevs: &mut [NetDev]) {
    let shapes = |d: &&NetDev| {
        let root = d.qdiscs.iter().filter(|q| q.queue.is_none());
        root.into_iter().any(|q| SHAPERS.contains(&q.kind.as_str()))
    };
    let is_ifb = |d: &&NetDev| d.kind.as_deref() == Some("ifb") || d.name.starts_with("ifb");
    let ifbs: Vec<String> = netdevs.iter().filter(is_ifb).map(|d| d.name.clone()).collect();
    let mut shaping = netdevs.iter().filter(is_ifb).filter(shapes);
    let alone = shaping.next().filter(|_| shaping.next().is_none()).map(|d| d.name.clone());
    let mut shaped = netdevs.iter().filter(|d| !is_ifb(d)).filter(shapes);
    let only = shaped.next().filter(|_| shaped.next().is_none()).map(|d| d.name.clone());
    for device in netdevs.iter_mut().filter(|d| !is_ifb(&&**d)) {
        let named = ifbs.iter().find(|ifb| {
            let rest = ifb.strip_prefix("ifb4").filter(|rest| !rest.is_empty());
            // A name that was cut may be that of several; one that was not is that of one.
            rest.is_some_and(|rest| {
                rest == device.name
                    || (ifb.len() == 15 || rest.len() >= 8) && device.name.starts_with(rest)
            })
        });
        let by_shaper = || alone.clone().filter(|_| only.as_ref() == Some(&device.name));
        device.ingress_to = named.cloned().or_else(by_shaper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::feature::Qdisc;

    fn device(name: &str, root: &str) -> NetDev {
        let qdisc = Qdisc {
            device: name.into(),
            kind: root.into(),
            queue: None,
            handle: None,
            options: None,
        };
        NetDev { name: name.into(), qdiscs: vec![qdisc], ..NetDev::default() }
    }

    fn leads(netdevs: &[(&str, &str)]) -> Vec<Option<String>> {
        let mut all: Vec<NetDev> = netdevs.iter().map(|(n, q)| device(n, q)).collect();
        link(&mut all);
        all.into_iter().map(|d| d.ingress_to).collect()
    }

    #[test]
    fn an_ifb_device_is_that_of_the_device_it_is_named_after_or_shapes_with() {
        let some = |name: &str| Some(name.to_owned());
        let found = leads(&[("eth1", "cake"), ("eth10", "cake"), ("ifb4eth1", "cake")]);
        assert_eq!(found, [some("ifb4eth1"), None, None]);
        let found = leads(&[("pppoe-wan", "cake"), ("ifb4pppoe-wa", "cake")]);
        assert_eq!(found, [some("ifb4pppoe-wa"), None]);
        let found = leads(&[
            ("eth0", "fq_codel"),
            ("eth1", "htb"),
            ("ifb0", "htb"),
            ("ifb1", "pfifo_fast"),
        ]);
        assert_eq!(found, [None, some("ifb0"), None, None]);
        let found = leads(&[("eth0", "cake"), ("eth1", "htb"), ("ifb0", "htb")]);
        assert_eq!(found, [None, None, None], "nobody knows whose");
    }
}
