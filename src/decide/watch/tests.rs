//! Good and bad days on a clock of the test's own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::model::telemetry::{CpuRates, Interval, Link, Loss, Sensor};
use crate::model::units::CpuId;
use crate::model::watch::{Limits, Phase, Policy};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn sign(event: &str, looks: u32) -> Sign {
    Sign::new(event, "wan0", looks, format!("{event} on wan0"))
}

fn signs(list: &[Sign]) -> Look {
    Look { signs: list.to_vec(), changed: None }
}

/// Names and phases of the events.
fn told(outcome: &Outcome) -> Vec<(String, Phase)> {
    outcome.events.iter().map(|e| (e.event.clone(), e.phase)).collect()
}

fn rps(device: &str) -> Knob {
    Knob::RpsCpus { device: device.into(), queue: 0 }
}

fn changed(device: &str, is: &str) -> Changed {
    Changed {
        knob: rps(device),
        wanted: "2".into(),
        is: Some(is.into()),
        suspects: vec!["irqbalance".into()],
    }
}

fn drifting(list: &[Changed]) -> Look {
    Look { signs: Vec::new(), changed: Some(list.to_vec()) }
}

fn policy(word: Policy) -> Settings {
    Settings { drift: BTreeMap::from([("rps-cpus".to_owned(), word)]), ..Settings::default() }
}

#[test]
fn a_trouble_is_told_when_it_is_certain_and_once_and_when_it_is_over() {
    let (mut watch, settings) = (Watch::default(), Settings::default());
    let bad = signs(&[sign("wan-lost", 3)]);
    let mut look = |t, signs: &Look| {
        watch.look(at(t), Look { signs: signs.signs.clone(), changed: None }, &settings)
    };
    for t in [1, 2] {
        let outcome = look(t, &bad);
        assert_eq!((told(&outcome), outcome.soon), (vec![], true), "not certain yet, look soon");
    }
    assert_eq!(told(&look(3, &bad)), [("wan-lost".to_owned(), Phase::Raised)]);
    for t in 4..100 {
        assert_eq!(look(t, &bad), Outcome::default(), "told once");
    }
    let none = signs(&[]);
    // A short gap is no end: neither three looks within a second, nor one after a long suspend.
    for t in [100, 101, 102] {
        assert_eq!(told(&look(t, &none)), []);
    }
    assert_eq!(told(&look(103, &bad)), []);
    assert_eq!(told(&look(90_000, &none)), [], "after a suspend one look says nothing yet");
    assert_eq!(told(&look(90_010, &none)), []);
    assert_eq!(told(&look(90_030, &none)), [("wan-lost".to_owned(), Phase::Cleared)]);
}

#[test]
fn what_flickers_is_not_told_and_a_clock_that_stands_or_goes_back_harms_nothing() {
    let (mut watch, settings) = (Watch::default(), Settings::default());
    for t in 0..10_000 {
        let seen = if t % 3 == 0 { vec![] } else { vec![sign("losses", 3)] };
        assert_eq!(told(&watch.look(at(t), signs(&seen), &settings)), [], "{t}");
    }
    assert_eq!(told(&watch.look(at(5), signs(&[sign("hot", 1)]), &settings)).len(), 1);
    for _ in 0..10 {
        assert_eq!(told(&watch.look(at(5), signs(&[]), &settings)), []);
        assert_eq!(told(&watch.look(at(1), signs(&[]), &settings)), []);
    }
    assert_eq!(told(&watch.look(at(60), signs(&[]), &settings)).len(), 1, "over at last");
}

#[test]
fn a_thousand_names_from_outside_are_bounded() {
    let (mut watch, settings) = (Watch::default(), Settings::default());
    let many: Vec<Sign> =
        (0..1000).map(|n| Sign::new("losses", format!("x{n}"), 1, String::new())).collect();
    assert_eq!(watch.look(at(1), signs(&many), &settings).events.len(), 200);
    assert_eq!(watch.health.lasting().count(), 200);
}

#[test]
fn a_changed_setting_is_told_once_and_once_more_when_it_is_right_again() {
    let (mut watch, settings) = (Watch::default(), Settings::default());
    let first = watch.look(at(1), drifting(&[changed("eth0", "4")]), &settings);
    assert_eq!((told(&first), first.soon), (vec![], true), "linerate may be at it this moment");
    let second = watch.look(at(2), drifting(&[changed("eth0", "4")]), &settings);
    assert_eq!(told(&second), [("drift".to_owned(), Phase::Raised)]);
    let words = &second.events[0].words;
    assert!(words.contains("was left as 2 and is 4; perhaps by irqbalance"), "{words}");
    for t in 3..50 {
        assert_eq!(watch.look(at(t), drifting(&[changed("eth0", "4")]), &settings).events, []);
    }
    // A look that could not see settings says nothing of them.
    assert_eq!(watch.look(at(50), signs(&[]), &settings).events, []);
    let gone = watch.look(at(51), drifting(&[]), &settings);
    assert_eq!(told(&gone), [("drift".to_owned(), Phase::Cleared)]);
}

#[test]
fn what_is_nobodys_business_is_left() {
    let mut watch = Watch::default();
    for t in 0..100 {
        let look = drifting(&[changed("eth0", "4")]);
        assert_eq!(watch.look(at(t), look, &policy(Policy::Leave)), Outcome::default());
    }
}

#[test]
fn a_setting_is_put_back_three_times_an_hour_and_then_never_fought_over() {
    let (mut watch, settings) = (Watch::default(), policy(Policy::PutBack));
    let mut put_back = Vec::new();
    let mut events = Vec::new();
    // Somebody changes it again a minute after each time that it was put back.
    let mut is_wrong = true;
    let mut wrong_from = 0;
    for t in 0..3000 {
        is_wrong |= t >= wrong_from;
        let list = if is_wrong { vec![changed("eth0", "4")] } else { vec![] };
        let outcome = watch.look(at(t), drifting(&list), &settings);
        if outcome.put_back == [rps("eth0")] {
            put_back.push(t);
            (is_wrong, wrong_from) = (false, t + 60);
        }
        events.extend(told(&outcome));
    }
    assert_eq!(put_back.len(), 3, "{put_back:?}");
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["put-back-given-up", "drift"]);
    // It stays given up as long as it differs, however long that is.
    for t in 3000..20_000 {
        let outcome = watch.look(at(t), drifting(&[changed("eth0", "4")]), &settings);
        assert_eq!(outcome, Outcome::default(), "{t}");
    }
    // Right again, and let be for an hour: then the owner's wish counts anew.
    watch.look(at(20_000), drifting(&[]), &settings);
    watch.look(at(24_000), drifting(&[]), &settings);
    watch.look(at(24_001), drifting(&[changed("eth0", "4")]), &settings);
    let outcome = watch.look(at(24_002), drifting(&[changed("eth0", "4")]), &settings);
    assert_eq!(outcome.put_back, [rps("eth0")]);
}

#[test]
fn a_week_of_one_change_a_day_is_put_back_each_time_and_keeps_no_history() {
    let (mut watch, settings) = (Watch::default(), policy(Policy::PutBack));
    let mut put_back = 0;
    let mut wrong = false;
    for t in (0..7 * 86_400).step_by(10) {
        wrong |= t % 86_400 == 43_200;
        let list = if wrong { vec![changed("eth0", "4")] } else { vec![] };
        let outcome = watch.look(at(t), drifting(&list), &settings);
        assert_eq!(outcome.events, []);
        if !outcome.put_back.is_empty() {
            (put_back, wrong) = (put_back + 1, false);
        }
    }
    assert_eq!(put_back, 7);
    let empty = format!("{:?}", Drift::default());
    assert_eq!(format!("{:?}", watch.drift), empty, "nothing is kept of it");
}

#[test]
fn heat_a_full_cpu_and_losses_are_signs_and_a_busy_program_is_none() {
    let cpu = |n, user, softirq, idle| CpuRates {
        cpu: CpuId(n),
        user: Some(user),
        system: Some(0.0),
        irq: Some(0.0),
        softirq: Some(softirq),
        idle: Some(idle),
        net_rx: None,
        net_tx: None,
        packets: None,
        dropped: None,
        squeezed: None,
        received_rps: None,
    };
    let sensor = |name: &str, value| Sensor { name: name.into(), value: Some(value) };
    let interval = Interval {
        cpus: vec![cpu(0, 0.0, 0.98, 0.02), cpu(1, 1.0, 0.0, 0.0), cpu(2, 0.0, 0.5, 0.5)],
        sensors: vec![sensor("policy0 MHz", 1500.0), sensor("thermal_zone0 cpu C", 81.5)],
        ..Interval::default()
    };
    let limits = Limits::default();
    let found: Vec<(String, String)> =
        cpu_and_heat(&interval, &limits).into_iter().map(|s| (s.event, s.place)).collect();
    assert_eq!(found, [("cpu-full".into(), "CPU0".into()), ("hot".into(), String::new())]);
    let loss = |stage: &str, per_second| Loss {
        stage: stage.into(),
        place: "eth0".into(),
        counter: "rx_missed".into(),
        per_second,
    };
    let few = [loss("card", 4.0), loss("card", 5.0), loss("backlog", 9.9)];
    assert_eq!(losses(&few, &limits), []);
    let many = [loss("card", 4.0), loss("card", 7.0), loss("backlog", 9.9)];
    let found = losses(&many, &limits);
    assert_eq!((found.len(), found[0].place.as_str()), (1, "card"));
}

#[test]
fn a_link_that_falls_is_lost_or_flaps_is_a_sign_and_one_that_never_was_up_is_none() {
    let port = |device: &str, speed: f64, state: &str| Link {
        device: device.into(),
        speed: (speed > 0.0).then_some(speed * 1e6),
        state: state.into(),
    };
    let mut links = Links::default();
    let quiet = BTreeMap::new();
    let mut found = |ports: &[Link], changes: &BTreeMap<String, u32>| -> Vec<String> {
        links.take(ports, changes).into_iter().map(|s| format!("{} {}", s.event, s.place)).collect()
    };
    let up = [port("wan", 2500.0, "up"), port("lan", 1000.0, "up"), port("spare", 0.0, "down")];
    assert!(found(&up, &quiet).is_empty());
    let fell = [port("wan", 100.0, "up"), port("lan", 0.0, "down"), port("spare", 0.0, "down")];
    assert_eq!(found(&fell, &quiet), ["link-slow wan", "link-lost lan"]);
    let flaps = BTreeMap::from([("lan".to_owned(), 100)]);
    assert_eq!(found(&up, &flaps), ["link-flaps lan"]);
    // Unplugged as a whole and plugged in elsewhere: nothing is known of it any more.
    assert!(found(&[port("wan", 2500.0, "up")], &quiet).is_empty());
    assert!(found(&[port("wan", 2500.0, "up"), port("lan", 100.0, "up")], &quiet).is_empty());
}
