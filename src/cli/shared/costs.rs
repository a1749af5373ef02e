//! `--costs FILE`: what the stages of a packet's way cost on one machine, as `fit` wrote it.

use std::path::Path;

use crate::cli::output::Output;
use crate::decide::plan::Costs;
use crate::error::{Error, Result};
use crate::machine::store;
use crate::model::snapshot::Machine;

/// Costs, and the machine that they were fitted on.
#[derive(Default)]
pub(in crate::cli) struct CostsFile {
    costs: Costs,
    machine: Option<String>,
}

impl CostsFile {
    /// Reads a file of `fit`; without one there are the default costs.
    ///
    /// # Errors
    /// Usage, with what is wrong.
    pub(in crate::cli) fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let hint = "linerate fit RESULT... -o FILE makes one";
        let text = store::plan::read_text("costs", path, hint)?;
        let costs = Costs::parse(&text).map_err(|why| {
            Error::usage(format!("read costs {}", path.display()), why).hint(hint)
        })?;
        Ok(Self { costs, machine: Costs::machine(&text) })
    }

    /// The costs, for use on a machine; those of another one are not believed without a word.
    pub(in crate::cli) fn on(&self, machine: &Machine, out: &Output) -> Costs {
        if let (Some(theirs), Some(ours)) = (&self.machine, &machine.id)
            && theirs != ours
        {
            out.say(out.warn(format_args!(
                "the costs were fitted on another machine ({theirs}, this is {ours}): what they \
                 predict here may be far off; linerate tune and fit find this one's"
            )));
        }
        self.costs
    }
}
