//! The verbs that measure, compare and report: a router's build (feature `router` without `measure`)
//! leaves them out.

use clap::Subcommand;

use super::context::Context;
use super::output::Later;
use super::{agent, bench, compare, fit, kernel, lab, profile, rank, report, sweep, tune};
use crate::error::{ExitCode, Result};

/// A verb that measures, compares or reports.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make one measurement, in a lab of network namespaces on this machine, or between two hosts
    Bench(bench::BenchArgs),
    /// Take part in a measurement over real wires: run it on the hosts (see bench --lan)
    Agent(agent::AgentArgs),
    /// Find the best configuration by experiment, with intervals
    Tune(tune::TuneArgs),
    /// Go through rates, frame sizes, segments or MTUs; find the knee, NDR and PDR
    Sweep(sweep::SweepArgs),
    /// Set the figures of two result files side by side, with intervals
    Compare(compare::CompareArgs),
    /// Find what forwarding costs here, from results of tune
    Fit(fit::FitArgs),
    /// Turn a result file into HTML, Markdown or text
    Report(report::ReportArgs),
    /// Rank this machine's WireGuard figure among known boards
    Rank(rank::RankArgs),
    /// Sample where the time of packets goes on each CPU: driver, netfilter, routing, crypto, locks ...
    Profile(profile::ProfileArgs),
    /// Judge a kernel's configuration, compare two, or find the option that makes one slower
    Kernel(kernel::KernelArgs),
    /// Build a router in a box: three network namespaces to try things in
    Lab(lab::LabArgs),
}

impl Verb {
    /// Runs it.
    pub(super) fn run(&self, context: &Context) -> Result<ExitCode> {
        // They hold the lock all the while.
        let measures = matches!(self, Self::Bench(_) | Self::Tune(_) | Self::Sweep(_));
        let aside = measures.then(|| context.out.aside());
        let done = self.dispatch(context);
        let printed = aside.map_or(Ok(()), Later::print);
        done.and_then(|code| printed.map(|()| code))
    }

    fn dispatch(&self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Bench(args) => bench::run(context, args),
            Self::Agent(args) => agent::run(context, args),
            Self::Tune(args) => tune::run(context, args),
            Self::Sweep(args) => sweep::run(context, args),
            Self::Compare(args) => compare::run(context, args),
            Self::Fit(args) => fit::run(context, args),
            Self::Report(args) => report::run(context, args),
            Self::Rank(args) => rank::run(context, args),
            Self::Profile(args) => profile::run(context, args),
            Self::Kernel(args) => kernel::run(context, args),
            Self::Lab(args) => lab::run(context, args),
        }
    }
}
