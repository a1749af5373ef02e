//! Arguments of `tune`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::shared::files::Force;
use crate::cli::shared::hosts::HostsArgs;
use crate::cli::shared::loads::{LoadArgs, direction};
use crate::cli::shared::{deadline, seconds};
use crate::machine::store::unfinished::result_of;
use crate::measure::lab::Shape;
use crate::measure::tune::Asked;
use crate::model::goal::{Factor, Goal, Guard, Objective};
use crate::model::measurement::Direction;

/// `tune`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  linerate tune nat --quick           # a look, in a lab here; needs root
  linerate tune nat --budget 10m --report linerate-report.html
  linerate tune nat --factor rps=off,one,all --factor default
  linerate tune --server 198.18.0.1 --apply --confirm 60s")]
pub struct TuneArgs {
    /// The lab to build: route or nat, with +flowtable, +vlan, +pppoe, +bridge, +wireguard, +ipv6
    #[arg(default_value = "nat")]
    pub scenario: Shape,
    /// The load and its lab
    #[command(flatten)]
    pub load: LoadArgs,
    /// Directions to measure in each cell
    #[arg(long, value_delimiter = ',', default_value = "down,up", value_parser = direction())]
    pub directions: Vec<Direction>,
    /// Blocks: each measures every candidate once, in a new random order
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: Option<u32>,
    /// Five blocks: exploratory, no proof
    #[arg(long)]
    pub quick: bool,
    /// Stop starting new blocks after this long
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub budget: Option<f64>,
    /// Only these candidates (the baseline is always in); also recipe-NAME and role-NAME
    #[arg(long, alias = "candidate", value_delimiter = ',', value_name = "NAME,...")]
    pub candidates: Vec<String>,
    /// Vary this: rps=off,one,all; every combination with other factors is measured. `list` shows
    /// what can be varied here, `default` takes what is worth it
    #[arg(long, value_name = "NAME=LEVEL,...", conflicts_with_all = ["candidates", "aa"], value_parser = factor)]
    pub factor: Vec<FactorArg>,
    /// Do not measure every combination: search, then compare the best with the baseline. Without
    /// --factor, among placements of interrupts and RPS, beginning with what the model likes best
    #[arg(long, conflicts_with_all = ["candidates", "aa"])]
    pub search: bool,
    /// The figure that should be as good as possible: throughput, down, up, pps, cpu (per gigabit), p99,
    /// headroom; weighted as throughput=1,p99=0.5
    #[arg(long, value_name = "WHAT", default_value = "throughput")]
    pub objective: Objective,
    /// A condition that must be kept: p99<=+5% against the baseline, or a figure as temperature<75; may be
    /// repeated
    #[arg(long, value_name = "WHAT")]
    pub guard: Vec<Guard>,
    /// The candidate that the others are compared with [default: as-found with --server or --lan; in a lab
    /// one-cpu, or the first combination of the factors]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// The same settings under two names, to show what noise alone looks like here
    #[arg(long)]
    pub aa: bool,
    /// Measure this router itself, by its own traffic with an iperf3 server (HOST or HOST:PORT),
    /// not a lab. Everything is put back, also after kill -9
    #[arg(long, value_name = "HOST", conflicts_with = "lan")]
    pub server: Option<String>,
    /// With --server, or --lan, --wan and --router here: keep the best in force if it was shown to be better than as found
    #[arg(long, conflicts_with_all = ["quick", "aa", "baseline"])]
    pub apply: bool,
    /// With --apply: undo it after this many seconds unless `linerate confirm` comes first
    #[arg(long, value_name = "TIME", requires = "apply", value_parser = deadline)]
    pub confirm: Option<f64>,
    /// With --apply: where to write what was kept as a plan, for `persist`
    /// [default: linerate-best.toml, with the time of day where that is there already]
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Costs of the stages on this machine, as `fit` wrote them: the model then predicts rates
    /// [default: general figures]
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Seed of the random order
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// File for the result; while it runs each cell is kept in FILE.unfinished [default:
    /// linerate-result.json, with the time of day where that is there already; with --resume the result
    /// of that record]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
    /// Go on with an experiment that ended early: its result, or what a killed one left
    /// (linerate-result.json.unfinished). Give the options that it was begun with
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Also write the HTML report
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Between other machines; last, as its heading holds for what follows
    #[command(flatten)]
    pub wire: HostsArgs,
}

/// A value of `--factor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactorArg {
    /// Tell what there is.
    List,
    /// The factors that are worth varying here.
    Default,
    /// This one.
    Of(Factor),
}

impl TuneArgs {
    /// The goal of the search.
    #[must_use]
    pub fn goal(&self) -> Goal {
        Goal { objective: self.objective.clone(), guards: self.guard.clone() }
    }

    /// The file that the result goes to; to be asked once, as it may be named after the time of day.
    #[must_use]
    pub fn result(&self) -> PathBuf {
        let resumed = || self.resume.as_deref().map(result_of);
        let named = self.output.clone().or_else(resumed);
        named.unwrap_or_else(|| self.force.usual("linerate-result.json"))
    }

    /// This router is measured, rather than a lab's.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.server.is_some() || self.wire.hosts().is_some()
    }

    /// The request for what is compared.
    #[must_use]
    pub fn asked(&self) -> Asked {
        let of = |arg: &FactorArg| match arg {
            FactorArg::Of(factor) => Some(factor.clone()),
            FactorArg::List | FactorArg::Default => None,
        };
        Asked {
            candidates: self.candidates.clone(),
            factors: self.factor.iter().filter_map(of).collect(),
            usual_factors: self.factor.contains(&FactorArg::Default),
            aa: self.aa,
            baseline: self.baseline.clone(),
            in_lab: !self.is_here(),
            forwards: self.server.is_none(),
            streams: self.load.streams,
            directions: self.directions.clone(),
        }
    }
}

fn factor(text: &str) -> Result<FactorArg, String> {
    let Some((name, levels)) = text.split_once('=') else {
        return match text {
            "list" => Ok(FactorArg::List),
            "default" => Ok(FactorArg::Default),
            _ => Err("a factor has levels: rps=off,one,all (or `list`, or `default`)".into()),
        };
    };
    let levels: Vec<String> = levels.split(',').map(|l| l.trim().to_owned()).collect();
    if name.is_empty() || levels.iter().any(String::is_empty) {
        return Err("a factor has levels: rps=off,one,all".into());
    }
    Ok(FactorArg::Of(Factor { name: name.to_owned(), levels }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_read_as_people_write_them() {
        let Ok(FactorArg::Of(f)) = factor("sysctl.net.core.netdev_budget=300, 600") else {
            panic!()
        };
        assert_eq!((f.name.as_str(), f.levels.len()), ("sysctl.net.core.netdev_budget", 2));
        assert_eq!(factor("list"), Ok(FactorArg::List));
        for bad in ["rps", "rps=", "=off", "rps=off,,all"] {
            assert!(factor(bad).is_err(), "{bad}");
        }
    }
}
