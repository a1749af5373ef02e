//! Which scenarios there are, what each needs, and whether it is here.

use super::args::{LoadArgs, ScenarioName};
use super::context::Context;
use super::table::Table;
use crate::error::{Error, Result};
use crate::exit_code::ExitCode;
use crate::host::HostRead;
use crate::lab::needs::{self, Feature, Here, Kernel, Program};
use crate::lab::{LabSpec, Shape};

/// The lab that was asked for.
///
/// # Errors
/// Usage for what should not be built without insisting.
pub(super) fn lab(load: &LoadArgs, scenario: ScenarioName) -> Result<LabSpec> {
    let spec = load.lab_of(scenario);
    if !load.nat66 {
        refuse_nat66(spec.shape)?;
    }
    Ok(spec)
}

/// Whether IPv6 would be translated.
///
/// # Errors
/// Usage, with the reason why that is not wanted.
pub(super) fn refuse_nat66(shape: Shape) -> Result<()> {
    if shape.nat && shape.ipv6 {
        let why = "IPv6 has addresses for all: hosts keep their own and the router routes. \
                   Translating them (NAT66) breaks what IPv6 is for";
        return Err(Error::usage(format!("scenario {shape}"), why)
            .hint("route+ipv6 measures what an IPv6 router does; bench --nat66 insists"));
    }
    Ok(())
}

/// A line of the list.
struct Entry {
    name: &'static str,
    means: String,
    features: Vec<Feature>,
    programs: &'static [Program],
    /// What else must be said.
    remark: Option<&'static str>,
}

fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Shape::PARTS
        .iter()
        .filter_map(|(name, means)| {
            // Alone, so that only what the part itself needs counts.
            let shape: Shape = match *name {
                "route" | "nat" => (*name).parse(),
                part => format!("route+{part}").parse(),
            }
            .ok()?;
            Some(Entry {
                name,
                means: (*means).into(),
                features: needs::features(&shape, false, false),
                programs: needs::programs(&shape),
                remark: None,
            })
        })
        .collect();
    let more = |name, means: &str, shape: Shape, rules, flows, remark| Entry {
        name,
        means: means.into(),
        features: needs::features(&shape, rules, flows),
        programs: &[],
        remark,
    };
    let nat66 = Shape { ipv6: true, ..Shape::default() };
    let tunnel = Shape { wireguard: true, ..Shape::ROUTE };
    entries.push(more("nat+ipv6", "NAT66", nat66, false, false, Some("only with --nat66")));
    entries.push(more(
        "--rules N",
        "N filter rules that never match",
        Shape::ROUTE,
        true,
        false,
        None,
    ));
    entries.push(more(
        "--flows N",
        "N tracked connections before the load begins",
        Shape::ROUTE,
        false,
        true,
        None,
    ));
    entries.push(more(
        "wireguard --board",
        "the figure of the public table: WireGuard between two namespaces",
        tunnel,
        false,
        false,
        None,
    ));
    entries
}

#[derive(serde::Serialize)]
struct Listed {
    name: &'static str,
    means: String,
    needs: Vec<String>,
    /// `yes`, `no` or `unknown`.
    here: &'static str,
    /// What is missing, and how to get it.
    missing: Vec<Lack>,
    remark: Option<&'static str>,
}

#[derive(serde::Serialize)]
struct Lack {
    what: String,
    remedy: String,
}

fn judge(entry: Entry, kernel: &Kernel, host: &dyn HostRead, programs_known: bool) -> Listed {
    let mut missing = Vec::new();
    let mut unknown = false;
    let mut names = Vec::new();
    for feature in &entry.features {
        let here = kernel.has(feature);
        names.push(format!("CONFIG_{}", feature.option));
        unknown |= here == Here::Unknown;
        if here == Here::No {
            missing.push(Lack {
                what: format!("the kernel has no {} (CONFIG_{})", feature.what, feature.option),
                remedy: feature.remedy(),
            });
        }
    }
    for program in entry.programs {
        names.push(program.name.into());
        unknown |= !programs_known;
        if programs_known && !needs::find(host, program) {
            missing.push(Lack {
                what: format!("{} is not installed", program.name),
                remedy: program.remedy.into(),
            });
        }
    }
    let here = match (missing.is_empty(), unknown) {
        (false, _) => "no",
        (true, true) => "unknown",
        (true, false) => "yes",
    };
    let (name, means, remark) = (entry.name, entry.means, entry.remark);
    Listed { name, means, needs: names, here, missing, remark }
}

/// `bench --list`
pub(super) fn list(context: &Context) -> Result<ExitCode> {
    let host = context.reader();
    let out = &context.out;
    let kernel = Kernel::read(host);
    // Captures hold no programs.
    let programs_known = context.live("bench").is_ok();
    let permitted = if programs_known { needs::permitted(host) } else { None };
    let listed: Vec<Listed> =
        entries().into_iter().map(|e| judge(e, &kernel, host, programs_known)).collect();
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
        table.row([entry.name.to_owned(), entry.here.to_owned(), means, needs]);
    }
    let mut lines = table.lines();
    let mut told: Vec<&str> = Vec::new();
    for (entry, lack) in listed.iter().flat_map(|e| e.missing.iter().map(move |l| (e, l))) {
        if told.contains(&lack.what.as_str()) {
            continue;
        }
        told.push(&lack.what);
        lines.push(out.warn(format_args!("{}: {}", entry.name, lack.what)));
        lines.push(format!("  {}", lack.remedy));
    }
    if listed.iter().any(|e| e.here == "unknown") {
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
         nat is meant for IPv4",
    ));
    out.data(lines.join("\n"))?;
    Ok(ExitCode::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_listed_with_its_own_needs_alone() {
        let all = entries();
        let vlan = all.iter().find(|e| e.name == "vlan").unwrap();
        let options: Vec<_> = vlan.features.iter().map(|f| f.option).collect();
        assert_eq!(options, ["NET_NS", "VETH", "VLAN_8021Q"]);
        assert_eq!(all.len(), Shape::PARTS.len() + 4);
        let pppoe = all.iter().find(|e| e.name == "pppoe").unwrap();
        assert_eq!(pppoe.programs.len(), 2);
    }
}
