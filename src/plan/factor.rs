//! Factors: what an experiment can vary, each with its levels on this router.
//!
//! ```text
//!   rps=off,all   gro=on,off ─▶ level: the settings of one level ─▶ factorial: every combination,
//!                                  └─ why not here                   each stating all it steers
//! ```

use super::candidates::{Candidates, complete};
use super::intake::Intake;
use super::{baseline, flow, name, owned};
use crate::model::cpuset::CpuSet;
use crate::model::goal::{Combination, Factor, Varied};
use crate::model::knob::{Knob, Shape, Value};
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{Irq, Movable, Snapshot};
use crate::model::sysctl;

/// The most combinations that are measured without a search.
pub const MOST: usize = 64;

/// The level of a factor that leaves everything as it was found.
const AS_FOUND: &str = name::AS_FOUND;

/// Name, levels worth trying, further levels, what it is.
type Known = (&'static str, &'static [&'static str], &'static str, &'static str);

const KNOWN: &[Known] = &[
    (
        "placement",
        &["as-found", "planned"],
        "any candidate",
        "interrupts and RPS as a candidate has them",
    ),
    (
        "flow_offload",
        &["off", "software", "hardware"],
        "",
        "established connections past netfilter",
    ),
    ("irqbalance", &["off", "on"], "", "the daemon that moves interrupts"),
    ("steering", &["off", "on"], "1, 2", "OpenWrt's packet steering, or its masks elsewhere"),
    (
        "rps",
        &["off", "one", "all"],
        "others, CPUs (0-1 or 0+2)",
        "the stack's work by receive queue",
    ),
    ("irq", &["one", "spread"], "all, CPUs", "where network interrupts go"),
    ("rfs", &["off", "on"], "entries", "flows to where their program runs"),
    ("xps", &["off", "all"], "CPUs", "transmit queue by CPU"),
    (
        "coalescing",
        &["0", "50", "adaptive"],
        "microseconds",
        "how long a card waits before it interrupts",
    ),
    ("ring", &["256", "1024"], "descriptors", "receive ring"),
    ("napi-threads", &["off", "on"], "", "polling in kernel threads"),
    ("gro-flush-timeout", &["0", "20000"], "nanoseconds", "how long GRO keeps packets"),
    ("napi-defer", &["0", "2"], "polls", "empty polls before interrupts are switched on again"),
    ("gro", &["on", "off"], "", "received packets put together"),
    ("gro-list", &["off", "on"], "", "received packets put together for forwarding"),
    ("gso", &["on", "off"], "", "packets segmented late"),
    ("tso", &["on", "off"], "", "packets segmented by the card"),
    ("lro", &["off", "on"], "", "received packets put together by the card: never for a router"),
    ("qdisc", &["fq_codel", "fq", "default"], "cake, pfifo_fast", "queueing discipline"),
    ("governor", &["performance", "schedutil", "ondemand"], "", "frequency"),
    ("sysctl.net.core.netdev_budget", &["300", "600"], "", "packets of one round of polling"),
    ("sysctl.net.core.dev_weight", &["64", "256"], "", "packets of one device's turn"),
];

/// Kernel names of the offloads that have a short one.
const OFFLOADS: &[(&str, &str)] = &[
    ("gro", "rx-gro"),
    ("gro-list", "rx-gro-list"),
    ("gso", "tx-generic-segmentation"),
    ("tso", "tx-tcp-segmentation"),
    ("lro", "rx-lro"),
];

/// What a factor needs to know of a router.
pub struct Ground<'a> {
    /// The router.
    pub snapshot: &'a Snapshot,
    /// What a setting is now; `None` where there is none.
    pub current: &'a Current<'a>,
    /// For `placement`.
    pub candidates: &'a Candidates,
}

/// A factor on this router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Levels worth trying that can be had.
    pub levels: Vec<&'static str>,
    /// What else may be asked for.
    pub further: &'static str,
    /// Why the other levels can't be had, the first reason.
    pub why: Option<String>,
}

/// Factors or levels, as `irq=spread`, and why they can't be had.
pub type LeftOut = Vec<(String, String)>;

/// What a setting is now; `None` where there is none.
pub type Current<'a> = dyn Fn(&Knob) -> Option<Value> + 'a;

/// Why factors make no experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It can't be meant.
    Usage(String),
    /// It can't be had on this router.
    NotHere(String),
}

impl Ground<'_> {
    /// Every factor that there is, with its levels here.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        let offer = |(name, levels, further, what): &Known| {
            let mut why = None;
            let mut had = levels.to_vec();
            had.retain(|level| match self.level(name, level) {
                Ok(_) => true,
                Err(reason) => {
                    why.get_or_insert(reason);
                    false
                }
            });
            Offer { name, what, levels: had, further, why }
        };
        KNOWN.iter().map(offer).collect()
    }

    /// Factors worth an experiment of a router's owner, and why: few enough for a full factorial.
    #[must_use]
    pub fn usual(&self) -> Vec<(Factor, &'static str)> {
        let here = |name: &str, levels: &[&str], why: &'static str| {
            let can = |level: &&&str| {
                self.level(name, level).is_ok_and(|c| **level == AS_FOUND || !c.is_empty())
            };
            let levels: Vec<String> = levels.iter().filter(can).map(|l| (*l).to_owned()).collect();
            (levels.len() > 1).then(|| (Factor { name: name.to_owned(), levels }, why))
        };
        let mut usual: Vec<(Factor, &'static str)> = Vec::new();
        usual.extend(here(
            "flow_offload",
            &["off", "software"],
            "it takes the most work away, where nothing has to see every packet",
        ));
        let placement = here(
            "placement",
            &[AS_FOUND, name::PLANNED],
            "where the work is done, as found and as the planner would have it",
        );
        if Intake::of(self.snapshot).lines.is_empty() {
            usual.extend(here(
                "rps",
                &["one", "all"],
                "there are no interrupts here: RPS alone says where the work is done",
            ));
        } else if placement.is_some() && self.candidates.get(name::PLANNED).is_some() {
            usual.extend(placement);
        } else {
            usual.extend(here("steering", &["off", "on"], "the stack's work on one CPU or on all"));
        }
        // The planner's placement and the daemon's would fight.
        if !usual.iter().any(|(f, _)| f.name == "placement") {
            usual.extend(here(
                "irqbalance",
                &["off", "on"],
                "many distributions start it; on routers it often harms",
            ));
        }
        usual
    }

    /// What a level of a factor sets; as found, nothing.
    ///
    /// # Errors
    /// Why it can't be had here.
    pub fn level(&self, factor: &str, level: &str) -> Result<Vec<Change>, String> {
        if level == AS_FOUND {
            return Ok(Vec::new());
        }
        let snapshot = self.snapshot;
        let intake = Intake::of(snapshot);
        let unknown = || format!("{level:?} is no level of {factor}");
        let on = || match level {
            "on" | "1" => Ok(true),
            "off" | "0" => Ok(false),
            _ => Err(unknown()),
        };
        let devices = || intake.devices.iter().map(|d| d.name.clone());
        match factor {
            "placement" => {
                let found = self.candidates.get(level).ok_or_else(|| self.left_out(level))?;
                if found.name == name::CHANNELS {
                    return self.level("channels", level);
                }
                Ok(found.settings.clone())
            }
            "flow_offload" => {
                if !snapshot.path.can_offload {
                    return Err("no module nf_flow_table was found (CONFIG_NF_FLOW_TABLE)".into());
                }
                let mode = if level == "on" { "software" } else { level };
                let value = flow::wanted(snapshot, mode)?;
                self.set([Knob::FlowOffload], &value)
            }
            "irqbalance" => {
                let knob = Knob::Service { name: "irqbalance".into() };
                self.set([knob], &Value::Switch(on()?))
            }
            "steering" => self.steering(level),
            "rps" => {
                let knobs = intake
                    .sources
                    .iter()
                    .map(|s| Knob::RpsCpus { device: s.device.name.clone(), queue: s.queue.index });
                if level == "others" {
                    let other = self.candidates.get(name::RPS_OTHERS);
                    let other = other.ok_or_else(|| self.left_out(name::RPS_OTHERS))?;
                    let rps = |c: &&Change| matches!(c.knob, Knob::RpsCpus { .. });
                    return Ok(other.settings.iter().filter(rps).cloned().collect());
                }
                self.set(knobs, &Value::Cpus(self.cpus(&intake, level)?))
            }
            "irq" if level == "spread" => {
                let placed = super::spread::spread(snapshot, intake.movable());
                let one = |(irq, cpu)| {
                    self.set([Knob::IrqAffinity { irq }], &Value::Cpus(CpuSet::single(cpu)))
                };
                let all: Result<Vec<_>, _> = placed.into_iter().map(one).collect();
                let all = all?.concat();
                if all.is_empty() {
                    Err("no network interrupt can be moved".into())
                } else {
                    Ok(all)
                }
            }
            "irq" => {
                let knobs = intake.movable().map(|irq| Knob::IrqAffinity { irq: irq.id.clone() });
                let cpus = self.cpus(&intake, level)?;
                if cpus.is_empty() {
                    return Err("an interrupt needs a CPU".into());
                }
                self.set(knobs, &Value::Cpus(cpus))
            }
            "rfs" => self.rfs(&intake, level),
            "xps" => {
                let several = intake.devices.iter().filter(|d| d.tx_queues.len() > 1);
                let knobs = several.flat_map(|d| {
                    d.tx_queues
                        .iter()
                        .map(|q| Knob::XpsCpus { device: d.name.clone(), queue: q.index })
                });
                self.set(knobs, &Value::Cpus(self.cpus(&intake, level)?))
            }
            "coalescing" => {
                let of = |parameter: &str| {
                    let parameter = parameter.to_owned();
                    devices()
                        .map(move |device| Knob::Coalesce { device, parameter: parameter.clone() })
                };
                if level == "adaptive" {
                    return self.set(of("adaptive-rx"), &Value::Switch(true));
                }
                let mut changes =
                    self.set(of("rx-usecs"), &Value::Count(count(level).ok_or_else(unknown)?))?;
                // With it on, the driver would go on choosing for itself; most have no such switch.
                changes
                    .extend(self.set(of("adaptive-rx"), &Value::Switch(false)).unwrap_or_default());
                Ok(changes)
            }
            "ring" => {
                let knobs = devices().map(|device| Knob::Ring { device, direction: "rx".into() });
                self.set(knobs, &Value::Count(count(level).ok_or_else(unknown)?))
            }
            "napi-threads" => self
                .set(devices().map(|device| Knob::ThreadedNapi { device }), &Value::Switch(on()?)),
            "gro-flush-timeout" => {
                let value = Value::Count(count(level).ok_or_else(unknown)?);
                self.set(devices().map(|device| Knob::GroFlushTimeout { device }), &value)
            }
            "napi-defer" => {
                let value = Value::Count(count(level).ok_or_else(unknown)?);
                self.set(devices().map(|device| Knob::NapiDeferHardIrqs { device }), &value)
            }
            "qdisc" => self.set(
                devices().map(|device| Knob::Qdisc { device }),
                &Value::Word(level.to_owned()),
            ),
            "governor" => {
                let mut policies: Vec<Knob> = Vec::new();
                for governor in snapshot.cpus.iter().filter_map(|c| c.governor.as_ref()) {
                    let knob = Knob::Governor { policy: governor.policy.clone() };
                    if !policies.contains(&knob) {
                        policies.push(knob);
                    }
                    if !governor.available.is_empty()
                        && !governor.available.iter().any(|g| g == level)
                    {
                        return Err(format!("the kernel has no governor {level} here"));
                    }
                }
                if policies.is_empty() {
                    return Err("the kernel shows no frequency governor here".into());
                }
                self.set(policies, &Value::Word(level.to_owned()))
            }
            _ if factor.starts_with("rps:") || factor.starts_with("irq:") => {
                let knob = single(&intake, factor).ok_or("there is no such queue or line here")?;
                self.set([knob], &Value::Cpus(self.cpus(&intake, level)?))
            }
            "channels" => {
                Err("queues and interrupts come and go with it: compare two experiments".into())
            }
            other => {
                if let Some(sysctl) = other.strip_prefix("sysctl.") {
                    return self.sysctl(sysctl, level);
                }
                let short = OFFLOADS.iter().find(|(short, _)| *short == other);
                let feature =
                    short.map(|(_, long)| *long).or_else(|| other.strip_prefix("offload."));
                let feature = feature.ok_or_else(|| "there is no such factor".to_owned())?;
                let knobs =
                    devices().map(|device| Knob::Offload { device, feature: feature.to_owned() });
                self.set(knobs, &Value::Switch(on()?))
            }
        }
    }

    /// A factor for every queue's stack stage and every line that can be moved: the space in which
    /// the planner looks for its placement, to be searched by measurement.
    #[must_use]
    pub fn placements(&self) -> Vec<Factor> {
        let intake = Intake::of(self.snapshot);
        let each = || intake.usable.iter().map(|cpu| cpu.0.to_string());
        let lines = intake
            .movable()
            .map(|irq| Factor { name: format!("irq:{}", irq.id), levels: each().collect() });
        let several = intake.usable.len() > 1;
        let queues = intake.sources.iter().map(|s| {
            let mut levels = vec!["off".to_owned()];
            levels.extend(each());
            levels.extend(several.then(|| "all".to_owned()));
            Factor { name: format!("rps:{}/{}", s.device.name, s.queue.index), levels }
        });
        lines.chain(queues).collect()
    }

    fn left_out(&self, candidate: &str) -> String {
        let left = self.candidates.left_out.iter().find(|(name, _)| *name == candidate);
        left.map_or_else(|| format!("there is no candidate {candidate}"), |(_, why)| why.clone())
    }

    /// OpenWrt's own switch, or elsewhere the masks that it would set.
    fn steering(&self, level: &str) -> Result<Vec<Change>, String> {
        let mode = match level {
            "off" | "0" => "0",
            "on" | "1" => "1",
            "2" => "2",
            _ => return Err(format!("{level:?} is no level of steering")),
        };
        if owned::steering_now(self.snapshot).is_some() {
            return self.set([Knob::PacketSteering], &Value::Word(mode.into()));
        }
        if mode == "0" {
            return self.level("rps", "off");
        }
        Ok(baseline::openwrt(self.snapshot, mode == "2")?.settings)
    }

    fn rfs(&self, intake: &Intake<'_>, level: &str) -> Result<Vec<Change>, String> {
        // As Documentation/networking/scaling.rst suggests for a server of medium load.
        let entries = match level {
            "off" => 0,
            "on" => 32_768,
            n => count(n).ok_or_else(|| format!("{level:?} is no level of rfs"))?,
        };
        let table = Knob::Sysctl { name: "net.core.rps_sock_flow_entries".into() };
        let mut changes = self.set([table], &Value::Count(entries))?;
        let queues = u64::try_from(intake.sources.len()).unwrap_or(1).max(1);
        let knobs = intake
            .sources
            .iter()
            .map(|s| Knob::RpsFlowCnt { device: s.device.name.clone(), queue: s.queue.index });
        changes.extend(self.set(knobs, &Value::Count(entries / queues))?);
        Ok(changes)
    }

    fn sysctl(&self, sysctl: &str, level: &str) -> Result<Vec<Change>, String> {
        let Some(known) = sysctl::find(sysctl) else {
            let names: Vec<&str> = sysctl::SYSCTLS.iter().map(|s| s.name).collect();
            return Err(format!(
                "not a sysctl that this program sets; those are {}",
                names.join(", ")
            ));
        };
        let value = match known.shape {
            Shape::Count => count(level).map(Value::Count),
            Shape::Switch => matches!(level, "0" | "1" | "off" | "on")
                .then(|| Value::Switch(matches!(level, "1" | "on"))),
            Shape::Cpus => level.replace('+', ",").parse().ok().map(Value::Cpus),
            _ => Some(Value::Word(level.to_owned())),
        };
        let value = value.ok_or_else(|| format!("{level:?} is no value for it"))?;
        self.set([Knob::Sysctl { name: sysctl.to_owned() }], &value)
    }

    /// `off`, `one`, `all`, or CPUs as `0-1` or `0+2`.
    fn cpus(&self, intake: &Intake<'_>, level: &str) -> Result<CpuSet, String> {
        let set = match level {
            "off" => return Ok(CpuSet::empty()),
            "one" => intake.lone_cpu().map(CpuSet::single).ok_or("no CPU is usable")?,
            "all" if intake.usable.len() < 2 => return Err("there is only one usable CPU".into()),
            "all" => intake.usable.clone(),
            list => list
                .replace('+', ",")
                .parse()
                .map_err(|_| format!("{list:?} is no list of CPUs"))?,
        };
        let away = set.difference(&intake.usable);
        if away.is_empty() { Ok(set) } else { Err(format!("CPU {away} is not usable here")) }
    }

    /// A value for each of some knobs that are here.
    fn set(
        &self,
        knobs: impl IntoIterator<Item = Knob>,
        value: &Value,
    ) -> Result<Vec<Change>, String> {
        let mut changes = Vec::new();
        let mut missing = None;
        for knob in knobs {
            knob.check(value).map_err(|bad| bad.to_string())?;
            match (self.current)(&knob) {
                Some(before) => changes.push(Change {
                    knob,
                    before,
                    after: value.clone(),
                    reason: String::new(),
                }),
                None if knob.is_global() => {
                    missing = Some(format!(
                        "{knob}: there is no such setting here (it is the machine's, a lab has none)"
                    ));
                }
                None => missing = Some(format!("{knob}: there is no such setting here")),
            }
        }
        if changes.is_empty() {
            return Err(missing.unwrap_or_else(|| "there is nothing here that has it".into()));
        }
        Ok(changes)
    }

    /// Every combination of the levels that can be had, and what can't be, with the reason.
    ///
    /// # Errors
    /// When a factor or level can't be meant, two factors set the same, or nothing is left to vary.
    pub fn factorial(
        &self,
        factors: &[Factor],
    ) -> Result<(Vec<Candidate>, Varied, LeftOut), Unfit> {
        let (varied, left_out) = self.possible(factors)?;
        let count = varied.iter().try_fold(1_usize, |n, f| n.checked_mul(f.levels.len()));
        if count.is_none_or(|n| n > MOST) {
            let n = count.map_or_else(|| "too many".into(), |n| n.to_string());
            return Err(Unfit::Usage(format!(
                "{n} combinations; up to {MOST} can be measured one by one"
            )));
        }
        let mut rows: Vec<Vec<String>> = vec![Vec::new()];
        for factor in &varied {
            let longer = |row: &Vec<String>| {
                let row = row.clone();
                factor
                    .levels
                    .iter()
                    .map(move |level| {
                        let mut row = row.clone();
                        row.push(level.clone());
                        row
                    })
                    .collect::<Vec<_>>()
            };
            rows = rows.iter().flat_map(longer).collect();
        }
        let mut list = Vec::new();
        let mut combinations = Vec::new();
        for levels in rows {
            let candidate = self.combine(&varied, &levels)?;
            combinations.push(Combination { candidate: candidate.name.clone(), levels });
            list.push(candidate);
        }
        self.finish(&mut list);
        Ok((list, Varied { factors: varied, combinations }, left_out))
    }

    /// The factors with the levels that can be had, and what can't.
    ///
    /// # Errors
    /// As [`Ground::factorial`].
    pub fn possible(&self, factors: &[Factor]) -> Result<(Vec<Factor>, LeftOut), Unfit> {
        let mut left_out = Vec::new();
        let mut varied: Vec<Factor> = Vec::new();
        for factor in factors {
            let name = &factor.name;
            if varied.iter().any(|f| f.name == *name) {
                return Err(Unfit::Usage(format!("factor {name} is there twice")));
            }
            if !is_factor(name) {
                let names: Vec<&str> = KNOWN.iter().map(|(n, ..)| *n).collect();
                return Err(Unfit::Usage(format!(
                    "there is no factor {name:?}; there are {}, sysctl.NAME and offload.NAME",
                    names.join(", ")
                )));
            }
            let mut levels: Vec<String> = Vec::new();
            for level in &factor.levels {
                match self.level(name, level) {
                    Ok(_) if levels.contains(level) => {
                        return Err(Unfit::Usage(format!("{name} has the level {level} twice")));
                    }
                    Ok(_) => levels.push(level.clone()),
                    Err(why) => left_out.push((format!("{name}={level}"), why)),
                }
            }
            if levels.len() > 1 || (levels.len() == 1 && factor.levels.len() == 1) {
                varied.push(Factor { name: name.clone(), levels });
            } else if let [only] = levels.as_slice() {
                left_out.push((name.clone(), format!("{only} is all that is left of it")));
            }
        }
        if varied.iter().all(|f| f.levels.len() < 2) {
            let why: Vec<String> =
                left_out.iter().map(|(what, why)| format!("{what}: {why}")).collect();
            return Err(Unfit::NotHere(match why.is_empty() {
                true => "every factor has one level only: nothing is varied".into(),
                false => format!("nothing is left to vary: {}", why.join("; ")),
            }));
        }
        Ok((varied, left_out))
    }

    /// One combination, before [`Ground::finish`].
    ///
    /// # Errors
    /// Usage when two factors set the same.
    pub fn combine(&self, factors: &[Factor], levels: &[String]) -> Result<Candidate, Unfit> {
        let mut settings: Vec<Change> = Vec::new();
        let mut owner: Vec<&str> = Vec::new();
        let mut words = Vec::new();
        for (factor, level) in factors.iter().zip(levels) {
            words.push(format!("{}={level}", factor.name));
            let changes = self
                .level(&factor.name, level)
                .map_err(|why| Unfit::NotHere(format!("{}={level}: {why}", factor.name)))?;
            for mut change in changes {
                let earlier = settings.iter().position(|c| c.knob == change.knob);
                if let Some(other) = earlier.and_then(|at| owner.get(at)) {
                    return Err(Unfit::Usage(format!(
                        "{other} and {} both set the {}",
                        factor.name, change.knob
                    )));
                }
                change.reason = format!("{}={level}", factor.name);
                settings.push(change);
                owner.push(&factor.name);
            }
        }
        let moves = settings
            .iter()
            .any(|c| matches!(c.knob, Knob::IrqAffinity { .. }) && c.before != c.after);
        if moves && balances(&settings) {
            return Err(Unfit::Usage(
                "irqbalance=on would move the interrupts that another factor places: vary one of the two".into(),
            ));
        }
        owned::take_over(self.snapshot, &mut settings);
        let title = words.join(", ");
        let reason = "a combination of the factors' levels".to_owned();
        Ok(Candidate { name: words.join(" "), title, reason, settings })
    }

    /// Makes each candidate state all that any of them steers. Where irqbalance runs in some, the
    /// others state every line that it may have moved.
    pub fn finish(&self, list: &mut [Candidate]) {
        let lines = || self.snapshot.irqs.iter().filter(|irq| irq.movable == Movable::Presumed);
        if list.iter().any(|c| balances(&c.settings))
            && let Some(quiet) = list.iter_mut().find(|c| !balances(&c.settings))
        {
            let as_found = |irq: &Irq| {
                let now = Value::Cpus(irq.affinity.clone()?);
                let knob = Knob::IrqAffinity { irq: irq.id.clone() };
                Some(Change { knob, before: now.clone(), after: now, reason: "as found".into() })
            };
            for change in lines().filter_map(as_found) {
                if !quiet.settings.iter().any(|c| c.knob == change.knob) {
                    quiet.settings.push(change);
                }
            }
        }
        complete(list);
        for candidate in list.iter_mut().filter(|c| balances(&c.settings)) {
            candidate.settings.retain(|c| !matches!(c.knob, Knob::IrqAffinity { .. }));
        }
    }
}

/// Factors and levels of a combination by its name, as [`Ground::combine`] makes it; `None` of a
/// name that is none. A level may hold blanks, as sysctls of several values do.
#[must_use]
pub fn combination(name: &str) -> Option<(Vec<Factor>, Vec<String>)> {
    let (mut factors, mut levels) = (Vec::new(), Vec::<String>::new());
    for word in name.split_whitespace() {
        match (word.split_once('='), levels.last_mut()) {
            (Some((factor, level)), _) => {
                factors.push(Factor { name: factor.to_owned(), levels: vec![level.to_owned()] });
                levels.push(level.to_owned());
            }
            (None, Some(last)) => {
                last.push(' ');
                last.push_str(word);
            }
            (None, None) => return None,
        }
    }
    (!factors.is_empty()).then_some((factors, levels))
}

/// Whether irqbalance is to run.
fn balances(settings: &[Change]) -> bool {
    settings.iter().any(|c| {
        matches!(&c.knob, Knob::Service { name } if name == "irqbalance")
            && c.after == Value::Switch(true)
    })
}

/// The queue or line of `rps:eth0/0` or `irq:...`.
fn single(intake: &Intake<'_>, factor: &str) -> Option<Knob> {
    if let Some(line) = factor.strip_prefix("irq:") {
        let irq = intake.movable().find(|irq| irq.id.to_string() == line)?;
        return Some(Knob::IrqAffinity { irq: irq.id.clone() });
    }
    let (device, queue) = factor.strip_prefix("rps:")?.rsplit_once('/')?;
    let queue = queue.parse().ok()?;
    let found =
        intake.sources.iter().find(|s| s.device.name == device && s.queue.index == queue)?;
    Some(Knob::RpsCpus { device: found.device.name.clone(), queue })
}

fn is_factor(name: &str) -> bool {
    ["rps:", "irq:", "sysctl.", "offload."].iter().any(|prefix| name.starts_with(prefix))
        || KNOWN.iter().any(|(known, ..)| *known == name)
        || name == "channels"
}

fn count(text: &str) -> Option<u64> {
    text.parse().ok()
}
