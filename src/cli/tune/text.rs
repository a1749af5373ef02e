//! Text of `tune`: what can be varied, and what the user should know of the choice.

use crate::cli::output::Output;
use crate::decide::plan::factor::Offer;
use crate::error::Result;
use crate::measure::tune::Remark;
use crate::report::document::Table;

/// `--factor list`
pub(super) fn factors(out: &Output, offers: Vec<Offer>) -> Result<()> {
    if out.json {
        let listed: Vec<_> = offers
            .iter()
            .map(|o| {
                serde_json::json!({
                    "factor": o.name, "what": o.what, "levels": o.levels, "missing": o.why,
                })
            })
            .collect();
        return out.json(&serde_json::json!({
            "format": "linerate-factors", "version": 1, "factors": listed,
        }));
    }
    let mut table = Table::new(&["factor", "levels here", "also", "what"]);
    let (here, not): (Vec<_>, Vec<_>) = offers.into_iter().partition(|o| !o.levels.is_empty());
    for offer in here {
        let what = match &offer.why {
            Some(why) => format!("{} (not all: {why})", offer.what),
            None => offer.what.to_owned(),
        };
        table.row([offer.name.to_owned(), offer.levels.join(","), offer.further.to_owned(), what]);
    }
    let mut lines = out.table(&table);
    let left = |o: &Offer| {
        out.dim(format!("{} can't be had here: {}", o.name, o.why.as_deref().unwrap_or("no level")))
    };
    lines.extend(not.iter().map(left));
    lines.push(
        out.dim(
            "also sysctl.NAME=VALUE,... and offload.FEATURE=on,off; every factor takes as-found",
        ),
    );
    out.tell(lines.join("\n"))
}

/// Says what the user should know of a choice.
pub(super) fn remarks(out: &Output, remarks: &[Remark]) {
    for remark in remarks {
        out.say(match remark {
            Remark::NoCandidate { .. } | Remark::Same { .. } => out.dim(remark),
            Remark::LeftOut { .. } => out.warn(remark),
            Remark::QueuesApart { .. } | Remark::Usual { .. } => remark.to_string(),
        });
    }
}
