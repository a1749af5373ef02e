//! The settings of one level: a factor's name leads to a row of the table of knobs, and the row's
//! rule and form say what the level stands for.

use super::{Ground, Unfit};
use crate::decide::plan::intake::Intake;
use crate::decide::plan::{baseline, flow, name, owned, spread};
use crate::model::cpuset::CpuSet;
use crate::model::knob::spec::{Absent, Range, Rule, Scope};
use crate::model::knob::{KNOBS, Knob, KnobSpec, Parts, Shape, Value, policies, row, rows};
use crate::model::plan::Change;

/// Settings that a factor varies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    /// Everything that a candidate sets.
    Placement,
    /// Every setting of a row where packets enter; of an open row those of this name.
    All(&'static KnobSpec, Option<&'a str>),
    /// One setting of a row: `rps:eth0/0`, `irq:eth0 queue 0 rx+tx`.
    One(&'static KnobSpec, &'a str),
}

/// The factor that varies whole candidates.
pub(super) const PLACEMENT: &str = "placement";

const CHANNELS: &str = "other settings come and go with it: compare two experiments";

impl<'a> Subject<'a> {
    /// The factor of that name: `placement`, a short name, a kind, or a kind and a name within it.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn named(factor: &'a str) -> Result<Self, String> {
        if factor == PLACEMENT {
            return Ok(Self::Placement);
        }
        let short = |name: &str| KNOBS.iter().find(|row| row.vary.factor == Some(name));
        if let Some(row) = short(factor) {
            return Ok(Self::All(row, None));
        }
        if let Some((row, which)) = factor.split_once(':').and_then(|(f, w)| Some((short(f)?, w))) {
            return Ok(Self::One(row, which));
        }
        let (kind, part) = match factor.split_once('.') {
            Some((kind, part)) => (kind, Some(part)),
            None => (factor, None),
        };
        match (row(kind, part), part) {
            (Some(row), _) => Ok(Self::All(row, part)),
            // All of the kind come and go together.
            (None, None) if rows(kind).any(|row| row.vary.rule == Rule::Never) => {
                Err(CHANNELS.into())
            }
            (None, Some(part)) if rows(kind).next().is_some() => {
                let names: Vec<&str> = rows(kind).filter_map(|row| row.name).collect();
                Err(format!("{kind} has no {part:?}; there are {}", names.join(", ")))
            }
            (None, _) => {
                let names: Vec<&str> = KNOBS.iter().filter_map(|row| row.vary.factor).collect();
                Err(format!(
                    "there is no factor {factor:?}; there are {PLACEMENT}, {}, sysctl.NAME and \
                     offload.NAME",
                    names.join(", ")
                ))
            }
        }
    }
}

impl Ground<'_> {
    /// The settings of a level of a factor; none where it leaves all as found.
    ///
    /// # Errors
    /// The reason why it can't be had here.
    pub fn level(&self, factor: &str, level: &str) -> Result<Vec<Change>, Unfit> {
        if level == name::AS_FOUND {
            return Ok(Vec::new());
        }
        let intake = Intake::of(self.snapshot);
        match Subject::named(factor).map_err(Unfit::Usage)? {
            Subject::Placement => {
                let found = self.candidates.get(level).ok_or_else(|| self.left_out(level))?;
                if found.name == name::CHANNELS {
                    return Err(CHANNELS.into());
                }
                Ok(found.settings.clone())
            }
            Subject::One(row, which) => {
                let mut all = self.settings(&intake, row, None).into_iter();
                let knob = all.find(|knob| instance(knob) == which);
                let knob = knob.ok_or("there is no such queue or line here")?;
                self.set([knob], &self.value(&intake, row, level)?)
            }
            Subject::All(row, part) => self.varied(&intake, row, part, level),
        }
    }

    fn varied(
        &self,
        intake: &Intake<'_>,
        row: &KnobSpec,
        part: Option<&str>,
        level: &str,
    ) -> Result<Vec<Change>, Unfit> {
        let all = || self.settings(intake, row, part);
        match (row.vary.rule, level) {
            (Rule::Never, _) => Err(CHANNELS.into()),
            (Rule::FlowOffload, _) => {
                if !self.snapshot.path.can_offload {
                    return Err("no module nf_flow_table was found (CONFIG_NF_FLOW_TABLE)".into());
                }
                let mode = if level == "on" { "software" } else { level };
                self.set(all(), &flow::wanted(self.snapshot, mode)?)
            }
            (Rule::Steering, _) => self.steering(level),
            (Rule::Rfs, _) => self.rfs(intake, level),
            (Rule::Rps, "others") => {
                let other = self.candidates.get(name::RPS_OTHERS);
                let other = other.ok_or_else(|| self.left_out(name::RPS_OTHERS))?;
                let own = |change: &&Change| change.knob.kind() == row.kind;
                Ok(other.settings.iter().filter(own).cloned().collect())
            }
            (Rule::Irq, "spread") => {
                let mut changes = Vec::new();
                for (irq, cpu) in spread::spread(self.snapshot, intake.movable()) {
                    let cpu = Value::Cpus(CpuSet::single(cpu));
                    changes.extend(self.set([Knob::IrqAffinity { irq }], &cpu)?);
                }
                match changes.is_empty() {
                    true => Err("no network interrupt can be moved".into()),
                    false => Ok(changes),
                }
            }
            (Rule::Coalescing, _) => {
                let adaptive = |on| {
                    let rows = rows(row.kind).filter(|row| row.name == Some("adaptive-rx"));
                    let knobs = rows.flat_map(|row| self.settings(intake, row, None));
                    self.set(knobs, &Value::Switch(on))
                };
                if level == "adaptive" {
                    return adaptive(true);
                }
                let mut changes = self.set(all(), &self.value(intake, row, level)?)?;
                // With it on, the driver would go on choosing for itself; most have no such switch.
                changes.extend(adaptive(false).unwrap_or_default());
                Ok(changes)
            }
            (Rule::Each | Rule::Rps | Rule::Irq, _) => {
                self.set(all(), &self.value(intake, row, level)?)
            }
        }
    }

    /// The settings of a row where packets enter.
    pub(super) fn settings(
        &self,
        intake: &Intake<'_>,
        row: &KnobSpec,
        part: Option<&str>,
    ) -> Vec<Knob> {
        let of = |parts: &Parts<'_>| Knob::of(&Parts { kind: row.kind, ..*parts }).ok();
        match row.scope {
            Scope::Machine => row.of_machine().into_iter().collect(),
            Scope::Policy => policies(self.snapshot)
                .into_iter()
                .filter_map(|policy| row.of_policy(policy))
                .collect(),
            Scope::Line => {
                intake.movable().map(|irq| Knob::IrqAffinity { irq: irq.id.clone() }).collect()
            }
            Scope::RxQueue => intake
                .sources
                .iter()
                .filter_map(|source| {
                    let (device, queue) = (Some(source.device.name.as_str()), source.queue.index);
                    of(&Parts { device, queue: Some(queue), ..Parts::default() })
                })
                .collect(),
            Scope::Device if row.open => intake
                .devices
                .iter()
                .filter_map(|d| {
                    of(&Parts { device: Some(&d.name), name: part, ..Parts::default() })
                })
                .collect(),
            Scope::Device | Scope::TxQueue | Scope::Thread => intake
                .devices
                .iter()
                .filter(|d| row.absent != Absent::OneTxQueue || d.tx_queues.len() > 1)
                .flat_map(|device| row.of_device(self.snapshot, device))
                .collect(),
        }
    }

    /// The value that a level stands for.
    fn value(&self, intake: &Intake<'_>, row: &KnobSpec, level: &str) -> Result<Value, Unfit> {
        let unknown = || Unfit::Usage(format!("{level:?} is no level of {}", row.factor()));
        let count = || level.parse().ok().map(Value::Count);
        let value = match row.shape {
            Shape::Cpus => return cpus(intake, level).map(Value::Cpus),
            Shape::Queues if level == "off" => Some(Value::Queues(CpuSet::empty())),
            Shape::Queues => level.replace('+', ",").parse().ok().map(Value::Queues),
            Shape::Count => count(),
            Shape::Switch => match level {
                "on" | "1" => Some(Value::Switch(true)),
                "off" | "0" => Some(Value::Switch(false)),
                _ => None,
            },
            Shape::Spread => count().or_else(|| Some(Value::Word(level.replace('+', ",")))),
            Shape::Word | Shape::Words => Some(Value::Word(level.to_owned())),
        };
        let governors = || self.snapshot.cpus.iter().filter_map(|cpu| cpu.governor.as_ref());
        let lacks = |list: &[String]| !list.is_empty() && !list.iter().any(|word| word == level);
        if row.range == Range::Governors && governors().any(|g| lacks(&g.available)) {
            return Err(Unfit::NotHere(format!("the kernel has no governor {level} here")));
        }
        value.ok_or_else(unknown)
    }

    fn left_out(&self, candidate: &str) -> Unfit {
        let left = self.candidates.left_out.iter().find(|(name, _)| *name == candidate);
        let unknown = || Unfit::Usage(format!("there is no candidate {candidate}"));
        left.map_or_else(unknown, |(_, why)| Unfit::NotHere(why.clone()))
    }

    /// OpenWrt's own switch, or elsewhere the masks that it would set.
    fn steering(&self, level: &str) -> Result<Vec<Change>, Unfit> {
        let mode = match level {
            "off" | "0" => "0",
            "on" | "1" => "1",
            "2" => "2",
            _ => return Err(Unfit::Usage(format!("{level:?} is no level of steering"))),
        };
        if owned::steering_now(self.snapshot).is_some() {
            return self.set([Knob::PacketSteering], &Value::Word(mode.into()));
        }
        if mode == "0" {
            return self.level("rps", "off");
        }
        Ok(baseline::openwrt(self.snapshot, mode == "2")?.settings)
    }

    fn rfs(&self, intake: &Intake<'_>, level: &str) -> Result<Vec<Change>, Unfit> {
        // As Documentation/networking/scaling.rst suggests for a server of medium load.
        let entries = match level {
            "off" => 0,
            "on" => 32_768,
            n => n.parse().map_err(|_| Unfit::Usage(format!("{level:?} is no level of rfs")))?,
        };
        let table = Knob::Sysctl { name: "net.core.rps_sock_flow_entries".into() };
        let mut changes = self.set([table], &Value::Count(entries))?;
        let queues = u64::try_from(intake.sources.len()).unwrap_or(1).max(1);
        let knobs = rows("rps-flow-cnt").flat_map(|row| self.settings(intake, row, None));
        changes.extend(self.set(knobs, &Value::Count(entries / queues))?);
        Ok(changes)
    }

    /// A value for each of some knobs that are here.
    fn set(
        &self,
        knobs: impl IntoIterator<Item = Knob>,
        value: &Value,
    ) -> Result<Vec<Change>, Unfit> {
        let mut changes = Vec::new();
        let mut missing = None;
        for knob in knobs {
            knob.check(value).map_err(|bad| Unfit::Usage(bad.to_string()))?;
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
            let nothing = || "there is nothing here that has it".to_owned();
            return Err(Unfit::NotHere(missing.unwrap_or_else(nothing)));
        }
        Ok(changes)
    }
}

/// The words by which a factor names one queue or line.
pub(super) fn instance(knob: &Knob) -> String {
    let parts = knob.parts();
    match (knob, parts.device, parts.queue) {
        (Knob::IrqAffinity { irq }, ..) => irq.to_string(),
        (_, Some(device), Some(queue)) => format!("{device}/{queue}"),
        (_, device, _) => device.or(parts.policy).unwrap_or_default().to_owned(),
    }
}

/// `off`, `one`, `all`, or CPUs as `0-1` or `0+2`.
fn cpus(intake: &Intake<'_>, level: &str) -> Result<CpuSet, Unfit> {
    let set = match level {
        "off" => return Ok(CpuSet::empty()),
        "one" => intake.lone_cpu().map(CpuSet::single).ok_or("no CPU is usable")?,
        "all" if intake.usable.len() < 2 => return Err("there is only one usable CPU".into()),
        "all" => intake.usable.clone(),
        list => {
            let unknown = |_| Unfit::Usage(format!("{list:?} is no list of CPUs"));
            list.replace('+', ",").parse().map_err(unknown)?
        }
    };
    let away = set.difference(&intake.usable);
    match away.is_empty() {
        true => Ok(set),
        false => Err(format!("CPU {away} is not usable here").into()),
    }
}
