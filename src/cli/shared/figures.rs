//! The figures of a file that `tune`, `sweep` or `bench` wrote: for `compare` and `kernel bisect`.

use std::path::Path;

use crate::decide::experiment::compared::Side;
use crate::error::Result;
use crate::machine::store::measured::{self, Measured};

/// Reads a file, as far as it is compared.
pub(in crate::cli) fn read(path: &Path) -> Result<Side> {
    Ok(of(path, measured::read(path)?))
}

/// The figures of a file that was read.
pub(in crate::cli) fn of(path: &Path, measured: Measured) -> Side {
    let file = path.display().to_string();
    match measured {
        Measured::Experiment(e) => Side::of_experiment(file, *e),
        Measured::Sweep(s) => Side::of_sweep(file, *s),
        Measured::Bench(b) => {
            let machine = b.origin.and_then(|origin| origin.machine.id);
            Side::of_runs(file, &b.candidate, &b.runs, b.class, b.scenario, machine)
        }
    }
}
