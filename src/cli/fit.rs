//! `linerate fit`: what forwarding costs on this machine, from measurements of it.

use std::path::PathBuf;

use clap::Args;

use super::context::Context;
use super::shared::files::Force;
use crate::decide::experiment::refuse_starved;
use crate::decide::plan::{Fit, fit};
use crate::error::{Error, ExitCode, Result};
use crate::machine::store;
use crate::model::measurement::Experiment;
use crate::report::document::Table;

/// `fit`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate fit linerate-result.json -o costs.toml
  linerate plan --costs costs.toml")]
pub struct FitArgs {
    /// Results of tune, best with different numbers of --rules and with RPS on and off
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// Results that take no part in the fit and that its predictions are tried on: with other numbers
    /// of rules, MTUs, flows or layers
    #[arg(long, value_name = "RESULT", num_args = 1..)]
    pub test: Vec<PathBuf>,
    /// File for the costs, for plan --costs and tune --costs
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting
    #[command(flatten)]
    pub force: Force,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &FitArgs) -> Result<ExitCode> {
    let out = &context.out;
    args.output.iter().try_for_each(|path| args.force.check(path))?;
    let experiments = read(&args.results)?;
    let refused = |why: String| {
        Error::new(ExitCode::Refused, "fit the costs", why)
            .hint("each result needs cells that were not refused, with CPU time and packets")
    };
    let mut fitted = fit(&experiments).map_err(refused)?;
    if !args.test.is_empty() {
        fitted = fitted.tested(&read(&args.test)?).map_err(refused)?;
    }
    if let Some(path) = &args.output {
        let mut ids = experiments.iter().map(|(_, e)| e.machine.id.as_deref());
        let first = ids.next().flatten();
        // Of several machines they are of none.
        let machine = first.filter(|id| ids.all(|other| other == Some(id)));
        let text = fitted.costs.to_toml(&summary(&fitted).join("\n"), machine);
        store::write_file("costs", path, text.as_bytes())?;
        out.say(format_args!("written to {}", path.display()));
    }
    if out.json {
        out.json(&Fitted { format: "linerate-fit", version: 1, fit: &fitted })?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::new(&["", "ns each", "of NAT's stack stage", "default", ""]);
    let unit = fitted.costs.unit_ns.unwrap_or(fitted.unit_ns);
    for term in &fitted.terms {
        table.row([
            term.what.to_owned(),
            match term.error {
                Some(error) => format!("{:.1} \u{b1} {:.0} %", term.ns, 200.0 * error),
                None => "?".into(),
            },
            if term.error.is_some() { format!("{:.4}", term.ns / unit) } else { "?".into() },
            format!("{:.4}", term.default),
            term.not_found.clone().map(|why| format!("not found: {why}")).unwrap_or_default(),
        ]);
    }
    let mut lines = out.table(&table);
    lines.push(String::new());
    lines.extend(summary(&fitted));
    lines.extend(fitted.notes.iter().map(|note| out.dim(format_args!("note: {note}"))));
    out.tell(lines.join("\n"))?;
    Ok(ExitCode::Done)
}

fn read(paths: &[PathBuf]) -> Result<Vec<(String, Experiment)>> {
    let one = |path: &PathBuf| {
        let mut experiment = store::result::read(path)?;
        refuse_starved(&mut experiment);
        Ok((path.display().to_string(), experiment))
    };
    paths.iter().map(one).collect()
}

#[derive(serde::Serialize)]
struct Fitted<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    fit: &'a Fit,
}

/// Lines on the quality of the fit.
fn summary(fit: &Fit) -> Vec<String> {
    let percent = |ln: f64| format!("{:.1} %", ln.exp_m1() * 100.0);
    let mut lines = vec![format!(
        "from {} means of a candidate in a direction: fitted to {} (rms), worst {:+.1} % ({})",
        fit.points,
        percent(fit.residual),
        fit.worst.1.exp_m1() * 100.0,
        fit.worst.0,
    )];
    lines.push(match fit.left_out {
        Some(error) => format!(
            "candidates left out in turn and predicted by the others: off by {} (rms)",
            percent(error)
        ),
        None => "too few candidates to leave one out: how well it predicts is not known".into(),
    });
    if let Some(error) = fit.unseen {
        lines.push(format!(
            "whole results left out in turn and predicted by the others: off by {} (rms)",
            percent(error)
        ));
    }
    if let Some(tested) = &fit.tested {
        lines.push(format!(
            "tried on {} means that took no part in it: off by {} (rms), worst {:+.1} % ({})",
            tested.points,
            percent(tested.error),
            tested.worst.1.exp_m1() * 100.0,
            tested.worst.0
        ));
    }
    lines.push(format!(
        "a rate predicted with these costs is good to a factor of {:.2}, in 95 of 100",
        fit.error.exp()
    ));
    if let Some(unit) = fit.costs.unit_ns {
        lines.push(format!("1.0, the stack stage of a packet with NAT, takes {unit:.1} ns"));
    }
    lines.extend(
        fit.acks
            .map(|acks| format!("{acks:.2} acknowledgements came back for each packet of data")),
    );
    lines
}
