use std::collections::BTreeSet;

use super::*;
use crate::model::measurement::{EvidenceClass, Protocol, Scenario};

fn machine(id: &str, kernel: &str) -> Machine {
    Machine {
        id: (!id.is_empty()).then(|| id.to_owned()),
        kernel: kernel.to_owned(),
        board: Some("A board".into()),
        compatible: vec!["a,board".into(), "mediatek,mt7621-soc".into()],
        ..Machine::default()
    }
}

fn record(machine: Machine, gains: &[(&str, f64)], figures: &[(&str, &[f64])]) -> Record {
    let scenario = Scenario {
        name: "nat".into(),
        rules: 0,
        streams: 4,
        mtu: 1500,
        protocol: Protocol::Tcp,
        seconds: 3.0,
        omit: 1.0,
        flows: 0,
        rate: None,
        datagram: None,
    };
    let gains = gains.iter().map(|(name, ratio)| Gained {
        candidate: (*name).to_owned(),
        baseline: "as-found".into(),
        ratio: *ratio,
    });
    let figures = figures.iter().map(|(name, values)| Figure {
        name: (*name).to_owned(),
        unit: "Mbit/s",
        values: values.to_vec(),
        remark: None,
        is_floor: false,
    });
    let side = Side {
        file: format!("{}-{}.json", machine.id.as_deref().unwrap_or("unknown"), machine.kernel),
        kind: "tune".into(),
        class: EvidenceClass::Wire,
        scenario,
        machine: machine.id.clone(),
        figures: figures.collect(),
    };
    Record { side, machine, gains: gains.collect() }
}

fn only(fleet: &Fleet) -> &Kind {
    assert_eq!(fleet.kinds.len(), 1, "{fleet:?}");
    &fleet.kinds[0]
}

#[test]
fn the_intervals_are_those_of_scipy_over_machines() {
    // scipy 1.17.1: l = log([1.31, 1.42, 1.55, 1.38]); m = l.mean(); s = l.std(ddof=1)
    // exp(t.interval(0.95, 3, m, s/sqrt(4))); exp(t.interval(0.95, 3, m, s*sqrt(1+1/4)))
    let records: Vec<Record> = [1.31, 1.42, 1.55, 1.38]
        .iter()
        .enumerate()
        .map(|(n, ratio)| record(machine(&n.to_string(), "6.6.1"), &[("rps-all", *ratio)], &[]))
        .collect();
    let fleet = Fleet::of(&records, &[], Vec::new());
    let spread = &only(&fleet).gains[0].spread;
    let near = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 5e-9, "{ours} {theirs}");
    near(spread.ratio, 1.412_350_884_163_135_4);
    let (interval, next) = (spread.interval.unwrap(), spread.next.unwrap());
    near(interval.0, 1.262_648_517_384_098_7);
    near(interval.1, 1.579_802_290_608_155_2);
    near(next.0, 1.099_348_127_163_988);
    near(next.1, 1.814_470_749_263_248_6);
    assert_eq!((spread.machines, spread.faster, spread.slower), (4, 4, 0));
}

#[test]
fn a_machine_that_was_measured_often_counts_once() {
    let mut records = vec![record(machine("a", "6.6.1"), &[("rps-all", 2.0)], &[])];
    for _ in 0..9 {
        records.push(record(machine("b", "6.6.1"), &[("rps-all", 1.0)], &[]));
    }
    let fleet = Fleet::of(&records, &[], Vec::new());
    let spread = &only(&fleet).gains[0].spread;
    assert_eq!((spread.machines, fleet.machines, fleet.records), (2, 2, 10));
    assert!((spread.ratio - 2f64.sqrt()).abs() < 1e-12);
    assert_eq!((spread.interval, spread.next), (None, None), "two machines tell no interval");
}

#[test]
fn kernels_are_compared_on_the_same_machine_and_by_their_series() {
    let mut records = Vec::new();
    for n in 0..33 {
        // What machines differ by is far more than what the kernel costs.
        let (id, level) = (format!("m{n}"), 300.0 + 20.0 * f64::from(n));
        let share = 0.96 + 0.002 * f64::from(n % 3 - 1);
        let (before, after) = (level, level * share);
        records.push(record(machine(&id, "6.6.52"), &[], &[("as-found down", &[before, before])]));
        let newer = if n % 2 == 0 { "6.12.3" } else { "6.12.40" };
        records.push(record(machine(&id, newer), &[], &[("as-found down", &[after])]));
    }
    // Measured with one kernel alone, or on two machines with one each: no pair.
    records.push(record(machine("alone", "6.12.3"), &[], &[("as-found down", &[9000.0])]));
    let fleet = Fleet::of(&records, &[], Vec::new());
    let [row] = &only(&fleet).kernels[..] else { panic!("{fleet:?}") };
    assert_eq!((row.what.as_str(), row.against.as_str()), ("as-found down", "6.6 to 6.12"));
    assert_eq!((row.spread.machines, row.spread.slower, row.spread.faster), (33, 33, 0));
    assert!((row.spread.ratio - 0.96).abs() < 1e-3 && row.spread.is_shown_slower());
    // Updates within a series are told by their releases, the older first.
    let two = |kernel, mbit: f64| record(machine("m", kernel), &[], &[("x down", &[mbit])]);
    let fleet = Fleet::of(&[two("6.6.100", 50.0), two("6.6.52", 100.0)], &[], Vec::new());
    let row = &only(&fleet).kernels[0];
    assert_eq!(row.against, "6.6.52 to 6.6.100");
    assert!((row.spread.ratio - 0.5).abs() < 1e-12);
}

#[test]
fn other_conditions_and_processors_are_not_pooled() {
    let mut other = record(machine("b", "6.6.1"), &[("rps-all", 3.0)], &[]);
    other.side.scenario.rules = 300;
    let mut guest = record(machine("c", "6.6.1"), &[("rps-all", 5.0)], &[]);
    guest.machine.virtualisation = Some("kvm".into());
    let records = [record(machine("a", "6.6.1"), &[("rps-all", 2.0)], &[]), other, guest];
    let fleet = Fleet::of(&records, &[], Vec::new());
    let names: BTreeSet<&str> = fleet.kinds.iter().map(|k| k.processor.as_str()).collect();
    assert_eq!(names, ["mediatek,mt7621-soc", "mediatek,mt7621-soc (kvm guest)"].into());
    assert_eq!((fleet.kinds[0].machines, fleet.kinds[0].gains.len()), (2, 2), "{fleet:?}");
}

/// Equal settings on machines that differ: at most a twentieth of the fleets says otherwise of any
/// candidate, however many there are; and the next machine lies where it was said to.
#[test]
fn fleets_without_an_effect_claim_none() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
    let (fleets, mut wrong, mut inside) = (600, 0, 0);
    let names = ["a", "b", "c", "d", "e"];
    for _ in 0..fleets {
        let records: Vec<Record> = (0..8)
            .map(|n| {
                let gains = names.map(|name| (name, (0.08 * normal()).exp()));
                record(machine(&n.to_string(), "6.6.1"), &gains, &[])
            })
            .collect();
        let fleet = Fleet::of(&records, &[], Vec::new());
        let outside = |s: &Spread| s.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
        wrong += usize::from(only(&fleet).gains.iter().any(|row| outside(&row.spread)));
        let next = (0.08 * normal()).exp();
        let row = only(&fleet).gains.iter().find(|row| row.what == "a").unwrap();
        let (low, high) = row.spread.next.unwrap();
        inside += usize::from(low <= next && next <= high);
    }
    assert!(wrong <= fleets * 7 / 100, "{wrong} of {fleets} fleets claim something");
    assert!((0.93..0.975).contains(&(inside as f64 / fleets as f64)), "{inside} of {fleets}");
}

#[test]
fn findings_are_counted_by_machine_and_the_gravest_come_first() {
    let looked = |id: &str, rules: &[(&str, Severity)], gain| Looked {
        file: format!("{id}.tar.gz"),
        machine: machine(id, "6.6.1"),
        findings: rules.iter().map(|(rule, severity)| ((*rule).to_owned(), *severity)).collect(),
        gain,
    };
    use Severity::{Notice, Warning};
    let captures = [
        looked("a", &[("lone-cpu", Warning), ("offline-mask", Notice)], 2.0),
        looked("b", &[("offline-mask", Notice)], 1.0),
        looked("c", &[("offline-mask", Notice)], 1.5),
    ];
    // One of them was measured too: it is one machine.
    let records = [record(machine("a", "6.6.1"), &[], &[])];
    let fleet = Fleet::of(&records, &captures, Vec::new());
    let kind = only(&fleet);
    let found: Vec<(&str, usize)> =
        kind.findings.iter().map(|f| (f.rule.as_str(), f.machines)).collect();
    assert_eq!(found, [("lone-cpu", 1), ("offline-mask", 3)]);
    assert!(kind.findings.iter().all(|f| !f.what.is_empty()), "{kind:?}");
    assert_eq!((kind.machines, kind.captures, kind.could_gain), (3, 3, 2));
    assert_eq!(kind.predicted, Some([1.5, 1.75, 2.0]));
}
