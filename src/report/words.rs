//! Words and numbers that several reports share.

use crate::decide::experiment::Effect;
use crate::model::party::{Party, PartyRole};
use crate::model::units::BitRate;

/// `0.53 (0.52 to 0.54)`.
pub(super) fn ratio(effect: &Effect) -> String {
    within(effect.ratio, (effect.low, effect.high))
}

/// A ratio with its interval.
pub(super) fn within(ratio: f64, interval: (f64, f64)) -> String {
    let (ratio, low, high) = rounded(ratio, interval);
    format!("{ratio} ({low} to {high})")
}

/// A ratio that too few blocks stand behind.
pub(super) fn bare(ratio: f64) -> String {
    format!("{ratio:.2} (no interval)")
}

/// Ratio and interval with as many decimals as the interval's width makes sense of.
pub(super) fn figures(effect: &Effect) -> (String, String, String) {
    rounded(effect.ratio, (effect.low, effect.high))
}

fn rounded(ratio: f64, (low, high): (f64, f64)) -> (String, String, String) {
    let decimals = match high - low {
        w if w >= 0.3 => 1,
        w if w >= 0.02 => 2,
        _ => 3,
    };
    let show = |v: f64| format!("{v:.decimals$}");
    (show(ratio), show(low), show(high))
}

/// Four decimals, so that the 1/16 of five blocks reads 0.0625.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 {
        return "< 0.001".to_owned();
    }
    format!("{p:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The hosts that sent and took the load over real wires.
pub(super) fn hosts(agents: &[Party]) -> Vec<(&'static str, String)> {
    let of = |role, label| agents.iter().find(|p| p.role == role).map(|p| (label, host(p)));
    [of(PartyRole::Lan, "LAN host"), of(PartyRole::Wan, "WAN host")].into_iter().flatten().collect()
}

/// A host that sent or took the load: `pc1, 8 CPUs, load on 2-3, by eth0 (1000 Mbit/s, MTU 1500)`.
fn host(party: &Party) -> String {
    let facts = &party.facts;
    let mut text = format!("{}, {}", facts.hostname, count(facts.cpus as usize, "CPU"));
    text.extend(facts.load_cpus.as_ref().map(|cpus| format!(", load on {cpus}")));
    text.extend(facts.ways.iter().map(|way| {
        let speed = way.speed.map(|mbit| format!("{mbit} Mbit/s, ")).unwrap_or_default();
        format!(", by {} ({speed}MTU {})", way.device, way.mtu)
    }));
    text
}

/// A command line as a shell takes it.
pub(super) fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Words for a rate in Mbit/s with about three significant digits.
pub(super) fn mbps(rate: BitRate) -> String {
    let value = rate.mbps();
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

pub(super) fn with_unit(rate: BitRate) -> String {
    format!("{} Mbit/s", mbps(rate))
}

/// `3.1 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn signed(share: f64) -> String {
    // Adding zero turns a rounded "-0.0" into "+0.0".
    let value = (share * 1000.0).round() / 10.0 + 0.0;
    format!("{value:+.1} %")
}

/// `1 block`, `2 blocks`.
pub(super) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// `a, b and c`.
pub(super) fn and(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
