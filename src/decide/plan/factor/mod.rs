//! Factors: what an experiment can vary, each with its levels on this router.
//!
//! ```text
//!   rps=off,all   gro=on,off ─▶ level: the settings of one level ─▶ factorial: every combination,
//!        row of the table          └─ why not here                   each stating all it steers
//! ```
//!
//! In come factors by name and what the router has; out come candidates, and a reason for each
//! level that can't be had. Every row of the table of knobs is a factor. Nothing is read or written.

use std::fmt;

mod level;

use self::level::{PLACEMENT, Subject, instance};
use super::candidates::{Candidates, complete};
use super::intake::Intake;
use super::{name, owned};
use crate::model::goal::{Combination, Factor, Varied};
use crate::model::knob::spec::{Range, Rival, Rule};
use crate::model::knob::{KNOBS, Knob, Value};
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{Irq, Movable, Snapshot};

/// The most combinations that are measured without a search.
pub const MOST: usize = 64;

/// The level of a factor that leaves everything as it was found.
const AS_FOUND: &str = name::AS_FOUND;

/// Facts of a router that factors depend on.
pub struct Ground<'a> {
    /// The router.
    pub snapshot: &'a Snapshot,
    /// Present value of a setting; `None` where there is none.
    pub current: &'a Current<'a>,
    /// Candidates that the levels of `placement` are taken from.
    pub candidates: &'a Candidates,
}

/// A factor on this router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Name.
    pub name: String,
    /// Words on the settings that it varies, in one line.
    pub what: &'static str,
    /// Levels worth trying that can be had.
    pub levels: Vec<&'static str>,
    /// Further levels that may be asked for.
    pub further: &'static str,
    /// First reason why other levels can't be had.
    pub why: Option<String>,
}

/// Factors or levels, as `irq=spread`, and why they can't be had.
pub type LeftOut = Vec<(String, String)>;

/// Present value of a setting; `None` where there is none.
pub type Current<'a> = dyn Fn(&Knob) -> Option<Value> + 'a;

/// Reason why factors make no experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// The request is invalid.
    Usage(String),
    /// There are more combinations than [`MOST`]: so many, or more than can be counted.
    TooMany(Option<usize>),
    /// The factors or levels can't be had on this router.
    NotHere(String),
}

impl From<String> for Unfit {
    fn from(why: String) -> Self {
        Self::NotHere(why)
    }
}

impl From<&str> for Unfit {
    fn from(why: &str) -> Self {
        Self::NotHere(why.to_owned())
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::NotHere(why) => f.write_str(why),
            Self::TooMany(count) => {
                let count = count.map_or_else(|| "too many".into(), |n| n.to_string());
                write!(f, "{count} combinations; up to {MOST} can be measured one by one")
            }
        }
    }
}

impl Ground<'_> {
    /// Placement, and every row of the table that has levels worth trying, with its levels here.
    #[must_use]
    pub fn offers(&self) -> Vec<Offer> {
        let offer = |name: String, levels: &[&'static str], further, what| {
            let mut why = None;
            let mut had = levels.to_vec();
            had.retain(|level| match self.level(&name, level) {
                Ok(_) => true,
                Err(reason) => {
                    why.get_or_insert(reason.to_string());
                    false
                }
            });
            Offer { name, what, levels: had, further, why }
        };
        let placement = offer(
            PLACEMENT.into(),
            &[AS_FOUND, name::PLANNED],
            "any candidate",
            "interrupts and RPS as a candidate has them",
        );
        let rows = KNOBS.iter().filter(|row| !row.vary.levels.is_empty());
        let rows = rows.map(|row| offer(row.factor(), row.vary.levels, row.vary.further, row.what));
        std::iter::once(placement).chain(rows).collect()
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
            PLACEMENT,
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
        if !usual.iter().any(|(f, _)| f.name == PLACEMENT) {
            usual.extend(here(
                "irqbalance",
                &["off", "on"],
                "many distributions start it; on routers it often harms",
            ));
        }
        usual
    }

    /// A factor for every queue's stack stage and every line that can be moved: the space in which
    /// the planner looks for its placement, to be searched by measurement.
    #[must_use]
    pub fn placements(&self) -> Vec<Factor> {
        let intake = Intake::of(self.snapshot);
        let each = || intake.usable.iter().map(|cpu| cpu.0.to_string());
        let several = intake.usable.len() > 1;
        let mut factors = Vec::new();
        for row in KNOBS.iter().filter(|row| matches!(row.vary.rule, Rule::Irq | Rule::Rps)) {
            let levels: Vec<String> = match row.range {
                Range::SomeCpu => each().collect(),
                _ => {
                    let all = several.then(|| "all".to_owned());
                    std::iter::once("off".to_owned()).chain(each()).chain(all).collect()
                }
            };
            factors.extend(self.settings(&intake, row, None).iter().map(|knob| Factor {
                name: format!("{}:{}", row.factor(), instance(knob)),
                levels: levels.clone(),
            }));
        }
        factors
    }

    /// Every combination of the levels that can be had, and what can't be, with the reason.
    ///
    /// # Errors
    /// Fails if a factor or level is invalid, two factors set the same, or nothing is left to vary.
    pub fn factorial(
        &self,
        factors: &[Factor],
    ) -> Result<(Vec<Candidate>, Varied, LeftOut), Unfit> {
        let (varied, left_out) = self.possible(factors)?;
        let count = varied.iter().try_fold(1_usize, |n, f| n.checked_mul(f.levels.len()));
        if count.is_none_or(|n| n > MOST) {
            return Err(Unfit::TooMany(count));
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
    /// Fails as [`Ground::factorial`] does.
    pub fn possible(&self, factors: &[Factor]) -> Result<(Vec<Factor>, LeftOut), Unfit> {
        let mut left_out = Vec::new();
        let mut varied: Vec<Factor> = Vec::new();
        for factor in factors {
            let name = &factor.name;
            if varied.iter().any(|f| f.name == *name) {
                return Err(Unfit::Usage(format!("factor {name} is there twice")));
            }
            Subject::named(name).map_err(Unfit::Usage)?;
            let mut levels: Vec<String> = Vec::new();
            for level in &factor.levels {
                match self.level(name, level) {
                    Ok(_) if levels.contains(level) => {
                        return Err(Unfit::Usage(format!("{name} has the level {level} twice")));
                    }
                    Ok(_) => levels.push(level.clone()),
                    Err(Unfit::NotHere(why)) => left_out.push((format!("{name}={level}"), why)),
                    Err(why) => return Err(Unfit::Usage(format!("{name}={level}: {why}"))),
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

    /// Combines one level of each factor into a candidate, before [`Ground::finish`].
    ///
    /// # Errors
    /// An error of usage if two factors set the same.
    pub fn combine(&self, factors: &[Factor], levels: &[String]) -> Result<Candidate, Unfit> {
        let mut settings: Vec<Change> = Vec::new();
        let mut owner: Vec<&str> = Vec::new();
        let mut words = Vec::new();
        for (factor, level) in factors.iter().zip(levels) {
            words.push(format!("{}={level}", factor.name));
            let changes = self.level(&factor.name, level).map_err(|why| {
                let told = format!("{}={level}: {why}", factor.name);
                match why {
                    Unfit::NotHere(_) => Unfit::NotHere(told),
                    _ => Unfit::Usage(told),
                }
            })?;
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
        let moves =
            settings.iter().any(|c| c.knob.rival() == Rival::Irqbalance && c.before != c.after);
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

/// True where irqbalance is to run.
fn balances(settings: &[Change]) -> bool {
    settings.iter().any(|c| {
        matches!(&c.knob, Knob::Service { name } if name == "irqbalance")
            && c.after == Value::Switch(true)
    })
}
