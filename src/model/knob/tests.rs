//! Settings that are invalid, and the table row by row.

use std::collections::BTreeSet;

use super::spec::{Absent, Fixed, Keep, Order, Reshapes, Rule, Same};
use super::*;
use crate::model::cpuset::CpuSet;
use crate::model::snapshot::IrqId;

#[test]
fn flow_offload_takes_a_mode_and_devices_and_nothing_else() {
    let check = |text: &str| Knob::FlowOffload.check(&Value::Word(text.into())).is_ok();
    for good in ["off", "software", "software eth0 br-lan", "hardware lan1 wan.7"] {
        assert!(check(good), "{good}");
    }
    for bad in ["", "on", "off eth0", "software eth0  eth1", "software ../x", "software a:b"] {
        assert!(!check(bad), "{bad}");
    }
    let steer = |text: &str| Knob::PacketSteering.check(&Value::Word(text.into())).is_ok();
    assert!(steer("0") && steer("unset") && !steer("3") && !steer("on"));
}

fn rps(device: &str) -> Knob {
    Knob::RpsCpus { device: device.into(), queue: 0 }
}

#[test]
fn a_plan_file_cant_lead_a_write_out_of_sysfs() {
    let off = Value::Cpus(CpuSet::empty());
    for name in ["", ".", "..", "../../etc", "a/b", "a\0b", "eth0\n", "a b", "0123456789abcdef"] {
        assert!(rps(name).check(&off).is_err(), "{name:?}");
    }
    for name in ["eth0", "br-lan", "eth0.100", "pppoe-wan", "a..b", "0123456789abcde"] {
        assert_eq!(rps(name).check(&off), Ok(()), "{name:?}");
    }
    for policy in ["policy", "policy0/../x", "..", "cpu0", ""] {
        let knob = Knob::Governor { policy: policy.into() };
        assert!(knob.check(&Value::Word("performance".into())).is_err(), "{policy:?}");
    }
    let knob = Knob::Governor { policy: "policy10".into() };
    assert_eq!(knob.check(&Value::Word("performance".into())), Ok(()));
    assert!(knob.check(&Value::Word("a\nb".into())).is_err());
}

#[test]
fn an_interrupt_needs_a_cpu_and_a_mask_is_no_count() {
    let irq = IrqId { device: "eth0".into(), queue: 0, role: super::super::snapshot::IrqRole::Rx };
    let irq = Knob::IrqAffinity { irq };
    assert_eq!(irq.check(&Value::Cpus(CpuSet::empty())), Err(BadSetting::NoCpu(irq.clone())));
    assert!(irq.check(&Value::Count(3)).is_err());
    assert!(rps("eth0").check(&Value::Word("3".into())).is_err());
}

#[test]
fn only_sysctls_of_the_list_can_be_set_each_to_what_it_takes() {
    let sysctl = |name: &str| Knob::Sysctl { name: name.into() };
    for name in
        ["kernel.core_pattern", "net.core", "net/core/dev_weight", "", "net.core.dev_weight\n"]
    {
        assert!(sysctl(name).check(&Value::Count(1)).is_err(), "{name:?}");
    }
    let word = |word: &str| Value::Word(word.into());
    let qdisc = sysctl("net.core.default_qdisc");
    assert_eq!(qdisc.check(&word("fq_codel")), Ok(()));
    for bad in ["", "fq codel", "a-name-longer-than-any-of-them", "fq\n"] {
        assert!(qdisc.check(&word(bad)).is_err(), "{bad:?}");
    }
    assert!(qdisc.check(&Value::Count(1)).is_err());
    let ports = sysctl("net.ipv4.ip_local_port_range");
    assert_eq!(ports.check(&word("1024 65535")), Ok(()));
    assert!(ports.check(&word("1024\t65535\n0")).is_err());
    assert_eq!(sysctl("net.ipv4.ip_forward").check(&Value::Switch(true)), Ok(()));
}

#[test]
fn what_is_set_by_netlink_is_checked_as_strictly() {
    let device = || String::from("eth0");
    let coalesce = |name: &str| Knob::Coalesce { device: device(), parameter: name.into() };
    let channels = |name: &str| Knob::Channels { device: device(), direction: name.into() };
    let qdisc = Knob::Qdisc { device: device() };
    let rss = Knob::RssTable { device: device() };
    let word = |word: &str| Value::Word(word.into());
    let offload = |name: &str| Knob::Offload { device: device(), feature: name.into() };
    for (knob, value) in [
        (coalesce("rx-usecs"), Value::Count(0)),
        (coalesce("adaptive-rx"), Value::Switch(true)),
        (channels("combined"), Value::Count(1)),
        (qdisc.clone(), word("fq")),
        (rss.clone(), Value::Count(2)),
        (rss.clone(), word("0,0,1,1")),
        (offload("rx-gro-list"), Value::Switch(false)),
    ] {
        assert_eq!(knob.check(&value), Ok(()), "{knob} {value}");
    }
    for (knob, value) in [
        (coalesce("rx-usecs"), Value::Switch(true)),
        (coalesce("rx-usecs-irq/.."), Value::Count(1)),
        (channels("combined"), Value::Count(0)),
        (channels("other"), Value::Count(1)),
        (qdisc, word("htb")),
        (rss.clone(), Value::Count(0)),
        (rss, word("0,x")),
        (offload("../../x"), Value::Switch(false)),
    ] {
        assert!(knob.check(&value).is_err(), "{knob} {value}");
    }
}

/// A setting of a row.
fn one(row: &KnobSpec) -> Knob {
    let parts = Parts {
        kind: row.kind,
        device: Some("eth0"),
        queue: Some(1),
        role: Some(IrqRole::Rx),
        policy: Some("policy0"),
        name: row.name.or(row.open.then_some(match row.kind {
            "poller-cpus" => "radio:phy0/transmit/0",
            _ => "tx-nocache-copy",
        })),
    };
    Knob::of(&parts).unwrap()
}

/// Values that a row takes.
fn values(row: &KnobSpec) -> Vec<Value> {
    let words = |words: &[&str]| words.iter().map(|w| Value::Word((*w).to_owned())).collect();
    match (row.shape, row.range) {
        (_, Range::Words(list)) => words(list),
        (_, Range::Mode(_)) => words(&["off", "software eth0", "hardware lan1 wan.7"]),
        (Shape::Cpus, Range::SomeCpu) => vec![Value::Cpus("0-3".parse().unwrap())],
        (Shape::Cpus, _) => vec![Value::Cpus(CpuSet::empty()), Value::Cpus("2".parse().unwrap())],
        (Shape::Queues, _) => vec![Value::Queues("0-1".parse().unwrap())],
        (Shape::Count, range) => {
            let least = u64::from(range.excludes_zero());
            vec![Value::Count(least), Value::Count(u64::from(u32::MAX))]
        }
        (Shape::Switch, _) => vec![Value::Switch(false), Value::Switch(true)],
        (Shape::Word, _) => words(&["performance"]),
        (Shape::Words, _) => words(&["1024 65535"]),
        (Shape::Spread, _) => vec![Value::Count(4), Value::Word("0,0,1,1".into())],
    }
}

#[test]
fn every_row_is_found_by_its_name_has_all_its_words_and_stands_once() {
    let mut seen = BTreeSet::new();
    let mut factors = BTreeSet::new();
    for row in KNOBS {
        let id = (row.kind, row.name);
        assert!(seen.insert(id), "{id:?} stands twice");
        assert!(factors.insert(row.factor()) || row.open, "{}: two factors", row.factor());
        let knob = one(row);
        assert!(std::ptr::eq(knob.spec().unwrap(), row), "{id:?} is another row's");
        for words in [row.path, row.label, row.title, row.what, row.heading, row.topic.name] {
            assert!(!words.is_empty(), "{id:?} lacks words");
        }
        assert!(row.topic.text.ends_with('.'), "{}", row.topic.name);
        assert!(!row.topic.text.contains("  "), "{}", row.topic.name);
        for text in [knob.to_string(), knob.title().0] {
            assert!(!text.is_empty() && !text.contains(['{', '}']), "{id:?}: {text}");
        }
        assert!(about(row.kind).is_some(), "{id:?} can't be explained");
        assert!(row.name.is_none_or(|name| about(name).is_some()), "{id:?} can't be explained");
        // A queue is written behind what it is a queue of.
        let numbered = matches!(row.scope, Scope::RxQueue | Scope::TxQueue | Scope::Thread);
        assert!(!numbered || row.path.contains("{queue}"), "{id:?}: all queues have one path");
        for drag in row.drags {
            let (kind, name) = drag.split_once(' ').map_or((*drag, None), |(k, n)| (k, Some(n)));
            let is_row = rows(kind).any(|row| name.is_none() || row.name == name);
            assert!(is_row, "{id:?} drags {drag}, which is no row");
        }
    }
    for topic in topics() {
        assert_eq!(about(topic.name), Some(topic), "{} is another's name", topic.name);
        assert!(topic.also.iter().all(|name| about(name).is_some()), "{}", topic.name);
    }
}

#[test]
fn every_path_stays_below_the_roots_that_may_be_written() {
    const ROOTS: &[&str] = &[
        "/sys/class/net/eth0/",
        "/sys/devices/system/cpu/cpufreq/policy0/",
        "/proc/irq/{line}/",
        "/proc/sys/net/",
    ];
    for row in KNOBS {
        let path = one(row).address();
        assert!(!path.contains("..") && !path.contains("//"), "{path}");
        assert!(!path.contains('{') || row.scope == Scope::Line, "{path}");
        let file = path.starts_with('/');
        assert_eq!(file, ROOTS.iter().any(|root| path.starts_with(root)), "{path}");
    }
}

#[test]
fn every_row_takes_what_it_says_in_every_form_it_is_kept_in() {
    for row in KNOBS {
        let knob = one(row);
        let form = serde_json::to_value(&knob).unwrap();
        assert_eq!(form, serde_json::to_value(knob.parts()).unwrap(), "the parts are the form");
        assert_eq!(serde_json::from_value::<Knob>(form).unwrap(), knob);
        assert_eq!(Knob::of(&knob.parts()), Ok(knob.clone()));
        let mut taken = 0;
        for value in values(row) {
            assert_eq!(knob.check(&value), Ok(()), "{knob} {value}");
            let form = serde_json::to_value(&value).unwrap();
            assert_eq!(serde_json::from_value::<Value>(form).unwrap(), value);
            taken += 1;
        }
        assert!(taken > 0);
        for bad in [
            Value::Cpus("1".parse().unwrap()),
            Value::Queues("1".parse().unwrap()),
            Value::Count(1),
            Value::Switch(true),
            Value::Word("a word\nof two lines".into()),
        ] {
            let same =
                |value: &Value| std::mem::discriminant(value) == std::mem::discriminant(&bad);
            let word = matches!(bad, Value::Word(_));
            if word || !values(row).iter().any(same) {
                assert!(knob.check(&bad).is_err(), "{knob} {bad}");
            }
        }
        assert_eq!(knob.check(&Value::Count(0)).is_ok(), values(row).contains(&Value::Count(0)));
    }
}

#[test]
fn what_other_settings_hang_on_is_set_before_them() {
    for row in KNOBS {
        // One experiment can't go to and fro between settings that change others.
        assert!(row.drags.is_empty() || row.vary.rule == Rule::Never, "{}", row.kind);
        for other in row.dragged().filter(|_| row.reshapes != Reshapes::Nothing) {
            assert!(row.order < other.order, "{} drags {}", row.kind, other.kind);
        }
        match row.reshapes {
            Reshapes::Nothing => {}
            Reshapes::Queues => assert!(row.order < Order::Plain && !row.drags.is_empty()),
            Reshapes::Threads(kind) => {
                assert!(rows(kind).all(|threads| row.order < threads.order));
            }
        }
        // Services are stopped first, and OpenWrt's own steering is given back last.
        assert_eq!(row.keep == Keep::Late, row.order == Order::Service, "{}", row.kind);
        assert_eq!(row.keep == Keep::Uci, row.order == Order::Steering, "{}", row.kind);
        assert_eq!(row.same == Same::DeviceSet, matches!(row.range, Range::Mode(_)));
        assert_eq!(row.fixed == Fixed::Line, row.scope == Scope::Line);
        assert_eq!(row.absent == Absent::OneTxQueue, row.scope == Scope::TxQueue);
    }
}

#[test]
fn a_knob_without_what_its_kind_needs_is_refused_with_its_name() {
    let refused = |parts: &Parts<'_>| Knob::of(parts).unwrap_err().to_string();
    let bare = |kind| Parts { kind, ..Parts::default() };
    assert_eq!(refused(&bare("rps-cpus")), "rps-cpus needs device");
    assert_eq!(refused(&Parts::device("rps-cpus", "eth0")), "rps-cpus needs queue");
    assert_eq!(refused(&Parts::queue("irq-affinity", "eth0", 0)), "irq-affinity needs role");
    assert_eq!(refused(&bare("governor")), "governor needs policy");
    assert_eq!(refused(&bare("sysctl")), "sysctl needs name");
    assert!(refused(&bare("warp")).contains("not a setting that this version knows"));
}
