//! A sweep for people.

use crate::cli::output::Output;
use crate::cli::table::Table;
use crate::model::sweep::{Sweep, SweepPoint};
use crate::report::sweep::told;

/// One line while it runs.
pub(super) fn progress(out: &Output, point: &SweepPoint) {
    let asked = point.asked.map_or_else(String::new, |rate| format!(" of {rate} asked"));
    let refused = if point.is_valid() { "" } else { " (refused)" };
    out.progress(format_args!(
        "{} bytes: {:.0} Mbit/s, {}{asked}{refused}",
        point.size,
        point.goodput.mbps(),
        point.achieved
    ));
}

/// The whole sweep.
pub(in crate::cli) fn render(out: &Output, sweep: &Sweep) -> String {
    let told = told(sweep);
    let mut lines = vec![out.bold(&told.title)];
    // The knee belongs to the series, which comes first.
    let mut knee = told.knee.map(|knee| format!("{}: {knee}", out.bold("knee")));
    for grid in &told.grids {
        let mut table = Table::new(&grid.heading);
        grid.rows.iter().for_each(|row| table.row(row.iter().cloned()));
        lines.extend(table.lines());
        lines.extend(knee.take());
    }
    lines.extend(knee);
    lines.extend(told.doubts.iter().map(|why| out.warn(why)));
    lines.extend(told.notes.iter().map(|note| out.dim(format_args!("note: {note}"))));
    lines.push(out.dim(&told.evidence));
    lines.join("\n")
}
