//! Goal of an experiment: the objective, what it may not cost, and how its candidates were
//! made.
//!
//! ```text
//!   --objective throughput=1,p99=0.5     Objective: weighted logarithms, so that 2 % is 2 %
//!   --guard 'p99<=+5%'                   Guard: against the baseline, or a figure
//!   --factor rps=off,all                 Design: which level of which factor each candidate has
//! ```
//!
//! In files objectives and guards are the texts that the command line takes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::measurement::{Direction, EvidenceClass, Measurement};
use super::units::CpuId;

/// Something of a cell that can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Payload that reached the receivers, Mbit/s.
    Throughput,
    /// Packets that the router received per second, acknowledgements included.
    PacketRate,
    /// CPU seconds of forwarding for each gigabit of payload.
    CpuPerGigabit,
    /// 99 of 100 round trips beside the load took no longer, ms.
    P99,
    /// Idle CPUs left beside the load.
    Headroom,
    /// Temperature of the hottest zone at the end of the cell, degrees Celsius.
    Temperature,
}

/// Name on the command line and in files, unit, what it is.
const QUANTITIES: &[(Quantity, &str, &str, &str)] = &[
    (Quantity::Throughput, "throughput", "Mbit/s", "throughput"),
    (Quantity::PacketRate, "pps", "packets/s", "packets per second"),
    (Quantity::CpuPerGigabit, "cpu", "CPU s/Gbit", "CPU time per gigabit"),
    (Quantity::P99, "p99", "ms", "latency under load (p99)"),
    (Quantity::Headroom, "headroom", "CPUs", "idle CPUs left"),
    (Quantity::Temperature, "temperature", "C", "temperature"),
];

impl Quantity {
    fn row(self) -> (&'static str, &'static str, &'static str) {
        let row = QUANTITIES.iter().find(|(q, ..)| *q == self);
        row.map_or(("", "", ""), |(_, name, unit, title)| (name, unit, title))
    }

    /// Unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        self.row().1
    }

    /// Title for a person.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// True if more of it is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::PacketRate | Self::Headroom)
    }

    /// Value in a measurement, in its unit; `None` where it was not measured.
    #[must_use]
    pub fn of(self, measurement: &Measurement, class: EvidenceClass) -> Option<f64> {
        let rate = measurement.rate().0;
        let value = match self {
            Self::Throughput => rate / 1e6,
            Self::PacketRate => {
                // Devices are counted over the whole run, omitted seconds included.
                let bytes: u64 = measurement.flows.iter().map(|f| f.bytes).sum();
                let packets: u64 = measurement.devices.iter().map(|d| d.rx_packets).sum();
                (rate / 8.0) * packets as f64 / bytes as f64
            }
            Self::CpuPerGigabit => {
                let busy = measurement.cpus.iter().map(|c| match class {
                    // The router has them for itself.
                    EvidenceClass::Wire => 1.0 - c.idle,
                    EvidenceClass::Lab | EvidenceClass::Vm => c.irq + c.softirq,
                });
                busy.sum::<f64>() / (rate / 1e9)
            }
            Self::P99 => measurement.beside.p99_ms?,
            Self::Headroom => measurement.beside.idle_cpus?,
            Self::Temperature => measurement.beside.hottest?,
        };
        value.is_finite().then_some(value)
    }
}

/// A quantity in all directions that are measured, or in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The measured quantity.
    pub quantity: Quantity,
    /// Which way; `None` for every way that is measured.
    pub direction: Option<Direction>,
}

impl Subject {
    /// Natural logarithm in a measurement, turned so that more is better; `None` where the
    /// measurement has no such value or a direction that it is not about.
    #[must_use]
    pub fn response(&self, measurement: &Measurement, class: EvidenceClass) -> Option<f64> {
        let value = self.value(measurement, class).filter(|v| *v > 0.0)?;
        let sign = if self.quantity.more_is_better() { 1.0 } else { -1.0 };
        Some(sign * value.ln())
    }

    /// Value in a measurement.
    #[must_use]
    pub fn value(&self, measurement: &Measurement, class: EvidenceClass) -> Option<f64> {
        let meant = self.direction.is_none_or(|d| d == measurement.direction);
        meant.then(|| self.quantity.of(measurement, class))?
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.quantity.row().0)?;
        self.direction.map_or(Ok(()), |d| write!(f, ".{d}"))
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let way = |name: &str| match name {
            "down" => Some(Direction::Down),
            "up" => Some(Direction::Up),
            "both" => Some(Direction::Both),
            _ => None,
        };
        if let Some(direction) = way(text) {
            return Ok(Self { quantity: Quantity::Throughput, direction: Some(direction) });
        }
        let (name, direction) = match text.split_once('.') {
            Some((name, direction)) => {
                let known = way(direction);
                (name, Some(known.ok_or_else(|| format!("{direction:?} is no direction"))?))
            }
            None => (text, None),
        };
        let found = QUANTITIES.iter().find(|(_, known, ..)| *known == name);
        let Some((quantity, ..)) = found else {
            let names: Vec<&str> = QUANTITIES.iter().map(|(_, name, ..)| *name).collect();
            return Err(format!("{name:?} is none of down, up, both, {}", names.join(", ")));
        };
        Ok(Self { quantity: *quantity, direction })
    }
}

/// A part of an objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The measured quantity.
    pub subject: Subject,
    /// How much it counts; above 0.
    pub weight: f64,
}

/// The objective: a weighted mean of logarithms, so that the ratio of two
/// candidates is the weighted geometric mean of their ratios. `throughput=1,p99=0.5`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective(Vec<Term>);

impl Default for Objective {
    fn default() -> Self {
        let subject = Subject { quantity: Quantity::Throughput, direction: None };
        Self(vec![Term { subject, weight: 1.0 }])
    }
}

impl Objective {
    /// Parts.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.0
    }

    /// It in one trial: the weighted mean of its terms, each the mean over the directions that it
    /// is about; `None` where a measurement was refused or has no such value.
    #[must_use]
    pub fn response(&self, trial: &[Measurement], class: EvidenceClass) -> Option<f64> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for term in &self.0 {
            let about = |m: &&Measurement| term.subject.direction.is_none_or(|d| d == m.direction);
            let (mut values, mut n) = (0.0, 0.0);
            for measurement in trial.iter().filter(about) {
                values +=
                    term.subject.response(measurement, class).filter(|_| measurement.is_valid())?;
                n += 1.0;
            }
            sum += term.weight * values / n;
            weights += term.weight;
        }
        let mean = sum / weights;
        mean.is_finite().then_some(mean)
    }

    /// True if it is plain throughput.
    #[must_use]
    pub fn is_throughput(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.0.iter().map(|t| format!("{}={}", t.subject, t.weight)).collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut terms: Vec<Term> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let subject: Subject = name.trim().parse()?;
            let weight: f64 = weight
                .trim()
                .parse()
                .ok()
                .filter(|w: &f64| w.is_finite() && *w > 0.0)
                .ok_or_else(|| format!("the weight of {subject} must be above 0"))?;
            if subject.quantity == Quantity::Temperature {
                return Err(
                    "temperature can be guarded, not sought: --guard 'temperature<75'".into()
                );
            }
            if terms.iter().any(|t| t.subject == subject) {
                return Err(format!("{subject} is named twice"));
            }
            terms.push(Term { subject, weight });
        }
        Ok(Self(terms))
    }
}

impl TryFrom<String> for Objective {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.to_string()
    }
}

/// Where a guard ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// A figure in the quantity's unit.
    Figure(f64),
    /// A change against the baseline, as a share: 0.05 is +5 %.
    Change(f64),
}

/// A guard that a candidate must keep to be applied: `p99<=+5%`, `temperature<75`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Guard {
    /// The measured quantity.
    pub subject: Subject,
    /// True if the limit is the most that is allowed; false if it is the least.
    pub at_most: bool,
    /// True if the limit itself is still allowed.
    pub inclusive: bool,
    /// The limit.
    pub limit: Limit,
}

impl Guard {
    /// True if a value (a figure, or a change as a share, as its limit is) keeps it.
    #[must_use]
    pub fn allows(&self, value: f64) -> bool {
        let (Limit::Figure(limit) | Limit::Change(limit)) = self.limit;
        match (self.at_most, self.inclusive) {
            (true, true) => value <= limit,
            (true, false) => value < limit,
            (false, true) => value >= limit,
            (false, false) => value > limit,
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.at_most { '<' } else { '>' };
        write!(f, "{}{way}{}", self.subject, if self.inclusive { "=" } else { "" })?;
        match self.limit {
            Limit::Figure(figure) => write!(f, "{figure}"),
            // A share of two decimals is not exact in binary.
            Limit::Change(share) => write!(f, "{:+}%", (share * 1e8).round() / 1e6),
        }
    }
}

impl FromStr for Guard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "a guard is like p99<=+5%, temperature<75 or up>=-2%".to_owned();
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (name, rest) = text.split_at(at);
        let at_most = rest.starts_with('<');
        let rest = rest.get(1..).unwrap_or_default();
        let (inclusive, limit) = rest.strip_prefix('=').map_or((false, rest), |l| (true, l));
        let subject: Subject = name.trim().parse()?;
        let limit = limit.trim();
        let figure = |text: &str| -> Result<f64, String> {
            text.trim().parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(form)
        };
        let limit = match limit.strip_suffix('%') {
            Some(percent) => Limit::Change(figure(percent)? / 100.0),
            None => {
                let unit = subject.quantity.unit();
                Limit::Figure(figure(limit.strip_suffix(unit).unwrap_or(limit))?)
            }
        };
        Ok(Self { subject, at_most, inclusive, limit })
    }
}

impl TryFrom<String> for Guard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Guard> for String {
    fn from(guard: Guard) -> Self {
        guard.to_string()
    }
}

/// Goal of an experiment: its objective and its guards.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Goal {
    /// The objective.
    pub objective: Objective,
    /// The guards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
}

impl Goal {
    /// Plain throughput and no guard: what files without a goal mean.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// True if a quantity has to be measured for it.
    #[must_use]
    pub fn needs(&self, quantity: Quantity) -> bool {
        self.objective.0.iter().any(|t| t.subject.quantity == quantity)
            || self.guards.iter().any(|g| g.subject.quantity == quantity)
    }
}

/// A factor that is varied, with its levels in the order they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Name: `rps`.
    pub name: String,
    /// Levels: `off`, `all`.
    pub levels: Vec<String>,
}

/// Levels of a candidate of a factorial or a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Combination {
    /// The candidate's name.
    pub candidate: String,
    /// The level of each factor, in the order of the factors.
    pub levels: Vec<String>,
}

/// The factors, and which candidate has which levels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Varied {
    /// The factors.
    pub factors: Vec<Factor>,
    /// Each candidate's levels. The baseline has none if it is no combination of them.
    pub combinations: Vec<Combination>,
}

/// How the candidates were chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Design {
    /// By name, each for itself.
    #[default]
    Named,
    /// Every combination of the levels of some factors.
    Factorial(Varied),
    /// Combinations that a search found worth measuring; its other trials are notes.
    Search(Varied),
}

impl Design {
    /// True if it is candidates by name: what files without a design mean.
    #[must_use]
    pub fn is_named(&self) -> bool {
        *self == Self::Named
    }

    /// The factors.
    #[must_use]
    pub fn varied(&self) -> Option<&Varied> {
        match self {
            Self::Named => None,
            Self::Factorial(varied) | Self::Search(varied) => Some(varied),
        }
    }

    /// The level that a candidate has of a factor.
    #[must_use]
    pub fn level(&self, candidate: &str, factor: &str) -> Option<&str> {
        let varied = self.varied()?;
        let at = varied.factors.iter().position(|f| f.name == factor)?;
        let combination = varied.combinations.iter().find(|c| c.candidate == candidate)?;
        combination.levels.get(at).map(String::as_str)
    }
}

/// Prediction of the cost model for a candidate before it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The candidate's name.
    pub candidate: String,
    /// Largest load of a CPU relative to its capacity, in the geometric mean over the directions
    /// that are measured: smaller is better; 1.0 is the stack stage of one NATed packet of each
    /// that one direction carries.
    pub largest: f64,
    /// The CPU that has most to do over all of them.
    pub bottleneck: CpuId,
    /// The rate expected of each direction that is measured, where the model's costs were fitted,
    /// bit/s of payload; both at once are their sum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<Direction, f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_and_guards_are_read_as_they_are_written() {
        for text in
            ["throughput=1", "throughput=1,p99=0.5", "throughput.down=2,headroom=1", "cpu=1"]
        {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
        assert_eq!("down".parse::<Objective>().unwrap().to_string(), "throughput.down=1");
        assert!("throughput".parse::<Objective>().unwrap().is_throughput());
        for text in
            ["p99<=+5%", "temperature<75", "throughput.up>=-2%", "headroom>0.5", "p99<=+2.7%"]
        {
            assert_eq!(text.parse::<Guard>().unwrap().to_string(), text);
        }
        assert_eq!("p99 <= 5 ms".parse::<Guard>().unwrap().to_string(), "p99<=5");
        for bad in [
            "",
            "speed",
            "throughput=0",
            "throughput=-1",
            "p99=nan",
            "p99,p99",
            "p99.left",
            "temperature",
        ] {
            assert!(bad.parse::<Objective>().is_err(), "{bad}");
        }
        for bad in ["", "p99", "p99<", "p99<=x%", "<5", "speed<5", "p99<=inf"] {
            assert!(bad.parse::<Guard>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_guard_allows_what_is_on_its_side_of_the_limit() {
        let allows = |guard: &str, value| guard.parse::<Guard>().unwrap().allows(value);
        assert!(allows("p99<=+5%", 0.05) && !allows("p99<=+5%", 0.051));
        assert!(allows("temperature<75", 74.9) && !allows("temperature<75", 75.0));
        assert!(allows("up>=-2%", -0.02) && !allows("up>=-2%", -0.03));
        assert!(allows("headroom>1", 1.1) && !allows("headroom>1", 1.0));
    }

    #[test]
    fn a_goal_and_a_design_survive_a_file() {
        let goal = Goal {
            objective: "throughput=1,p99=0.5".parse().unwrap(),
            guards: vec!["temperature<75".parse().unwrap()],
        };
        let text = serde_json::to_string(&goal).unwrap();
        assert_eq!(text, r#"{"objective":"throughput=1,p99=0.5","guards":["temperature<75"]}"#);
        assert_eq!(serde_json::from_str::<Goal>(&text).unwrap(), goal);
        assert!(serde_json::from_str::<Goal>(r#"{"objective":"speed=1"}"#).is_err());
        let varied = Varied {
            factors: vec![Factor { name: "rps".into(), levels: vec!["off".into(), "all".into()] }],
            combinations: vec![Combination {
                candidate: "rps=all".into(),
                levels: vec!["all".into()],
            }],
        };
        let design = Design::Factorial(varied);
        let text = serde_json::to_string(&design).unwrap();
        assert_eq!(serde_json::from_str::<Design>(&text).unwrap(), design);
        assert_eq!(design.level("rps=all", "rps"), Some("all"));
        assert_eq!(design.level("as-found", "rps"), None);
        assert_eq!(serde_json::from_str::<Design>(r#"{"kind":"named"}"#).unwrap(), Design::Named);
    }
}
