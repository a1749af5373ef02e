//! Going on with an experiment that ended early: which cells are still to be measured, and whether
//! this is the same experiment at all.

use std::fmt;

use crate::decide::experiment::{self, Block};
use crate::error::{Error, Result};
use crate::model::measurement::{Cell, Experiment};

/// Difference from the experiment as it began. Cells of two machines, kernels or loads are not
/// comparable, so such an experiment is not continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differs {
    /// Another machine.
    Machine,
    /// Another kernel on the same machine.
    Kernel,
    /// CPUs, devices, interrupts or settings.
    Fingerprint,
    /// Another kind of evidence, or other hosts at the two sides.
    Hosts,
    /// Another scenario or load.
    Scenario,
    /// Other candidates, factors or another baseline.
    Candidates,
    /// Other directions.
    Directions,
    /// Another objective or other guards.
    Goal,
    /// Another number of blocks.
    Blocks,
    /// Another seed was asked for.
    Seed,
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "it was made on another machine",
            Self::Kernel => "it was made with another kernel",
            Self::Fingerprint => {
                "the CPUs, devices, interrupts or settings of the router are not what they were"
            }
            Self::Hosts => "it was measured between other hosts",
            Self::Scenario => "its scenario or load is another",
            Self::Candidates => "its candidates are others",
            Self::Directions => "its directions are others",
            Self::Goal => "its objective or guards are others",
            Self::Blocks => "its number of blocks is another",
            Self::Seed => "its seed is another",
        })
    }
}

/// The experiment of `record`, ready to be continued: `now` would measure the same from the
/// beginning. Its last cell is measured again where it was refused because the run was cut short.
///
/// # Errors
/// The first difference that is found.
pub fn go_on(record: Experiment, now: &Experiment) -> std::result::Result<Experiment, Differs> {
    let host = |e: &Experiment| {
        let machine = &e.machine;
        (machine.id.clone(), machine.arch.clone(), machine.board.clone(), machine.cpu_model.clone())
    };
    let hosts = |e: &Experiment| {
        let ids: Vec<_> = e.agents.iter().map(|a| (a.role, a.facts.id.clone())).collect();
        (e.class, ids)
    };
    let compared = [
        (Differs::Machine, host(&record) == host(now) && record.cpus == now.cpus),
        (Differs::Kernel, record.machine.kernel == now.machine.kernel),
        (Differs::Scenario, record.scenario == now.scenario),
        (Differs::Hosts, hosts(&record) == hosts(now) && record.link == now.link),
        (
            Differs::Candidates,
            (&record.candidates, &record.baseline, &record.design)
                == (&now.candidates, &now.baseline, &now.design),
        ),
        (Differs::Directions, record.directions == now.directions),
        (Differs::Goal, record.goal == now.goal),
        (Differs::Blocks, (record.blocks, record.quick) == (now.blocks, now.quick)),
        (Differs::Fingerprint, record.fingerprint == now.fingerprint),
        (Differs::Seed, record.seed == now.seed),
    ];
    if let Some((differs, _)) = compared.into_iter().find(|(_, same)| !same) {
        return Err(differs);
    }
    let mut experiment = record;
    if experiment.ended.is_cut_short() {
        experiment.cells.pop_if(|last| !last.measurement.is_valid());
    }
    let cells = experiment.cells.len();
    let split = experiment.cells.last().map_or(0, |cell| cell.block + 1);
    experiment.notes.push(format!(
        "gone on with at {} after {cells} cells ({}); what was measured of block {split} before and \
         after lies apart in time",
        now.started,
        experiment.ended.words()
    ));
    Ok(experiment)
}

/// Blocks of the design that `experiment` has not measured yet, in the order of its seed.
///
/// # Errors
/// A usage error if the design makes no sense, or if the cells are not those that it begins with.
pub(super) fn rest(experiment: &Experiment) -> Result<Vec<Block>> {
    let names: Vec<String> = experiment.candidates.iter().map(|c| c.name.clone()).collect();
    let mut blocks = experiment::design(
        &names,
        &experiment.baseline,
        &experiment.directions,
        experiment.blocks,
        experiment.seed,
    )
    .map_err(|e| Error::usage("design the experiment", e))?;
    let mut done = experiment.cells.iter();
    let mut next = done.next();
    for block in &mut blocks {
        for step in &mut block.steps {
            step.directions.retain(|direction| {
                let is = |cell: &&Cell| {
                    (cell.block, cell.position, cell.role, cell.measurement.direction)
                        == (block.number, step.position, step.role, *direction)
                        && cell.candidate == step.candidate
                };
                let measured = next.filter(is).is_some();
                if measured {
                    next = done.next();
                }
                !measured
            });
        }
        block.steps.retain(|step| !step.directions.is_empty());
    }
    blocks.retain(|block| !block.steps.is_empty());
    match next {
        None => Ok(blocks),
        Some(_) => Err(Error::usage(
            "go on with the experiment",
            "its cells are not in the order of its seed: the record was changed",
        )),
    }
}
