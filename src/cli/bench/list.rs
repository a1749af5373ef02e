//! `linerate bench --list`: the scenarios, what each needs, and whether it is here.

use crate::cli::context::Context;
use crate::error::{ExitCode, Result};
use crate::measure::bench::scenarios::offered;
use crate::measure::lab::needs::{self, Here};
use crate::report::document::Table;

/// `bench --list`
pub(super) fn list(context: &Context) -> Result<ExitCode> {
    let host = context.reader();
    let out = &context.out;
    // Captures hold no programs.
    let programs_known = context.live("bench").is_ok();
    let permitted = if programs_known { needs::permitted(host) } else { None };
    let listed = offered(host, programs_known);
    if out.json {
        out.json(&serde_json::json!({
            "format": "linerate-scenarios", "version": 1,
            "permitted": permitted, "scenarios": listed,
        }))?;
        return Ok(ExitCode::Done);
    }
    let mut table = Table::new(&["part", "here", "what it is", "needs beyond namespaces and veth"]);
    for entry in &listed {
        let needs: Vec<&str> = entry
            .needs
            .iter()
            .map(String::as_str)
            .filter(|n| !matches!(*n, "CONFIG_NET_NS" | "CONFIG_VETH"))
            .collect();
        let means = match entry.remark {
            Some(remark) => format!("{} ({remark})", entry.means),
            None => entry.means.clone(),
        };
        let needs = if needs.is_empty() { "-".into() } else { needs.join(" ") };
        table.row([entry.name.to_owned(), entry.here.word().to_owned(), means, needs]);
    }
    let mut lines = out.table(&table);
    let mut told: Vec<&str> = Vec::new();
    for (entry, lack) in listed.iter().flat_map(|e| e.missing.iter().map(move |l| (e, l))) {
        if told.contains(&lack.what.as_str()) {
            continue;
        }
        told.push(&lack.what);
        lines.push(out.warn(format_args!("{}: {}", entry.name, lack.what)));
        lines.push(format!("  {}", lack.remedy));
    }
    if listed.iter().any(|e| e.here == Here::Unknown) {
        lines.push(
            "unknown: neither the kernel's configuration nor depmod's tables tell; running it does"
                .into(),
        );
    }
    if permitted == Some(false) {
        lines.push(
            out.warn("permission: CAP_SYS_ADMIN and CAP_NET_ADMIN are missing; run it as root"),
        );
    }
    lines.push(out.dim(
        "parts are put together with +: linerate bench nat+flowtable+vlan; without route or nat, \
         nat is added for IPv4",
    ));
    out.tell(lines.join("\n"))?;
    Ok(ExitCode::Done)
}
