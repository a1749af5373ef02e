//! The parts that scenarios are put together from, what each needs, and whether it is here.

use crate::machine::host::HostRead;
use crate::measure::lab::Shape;
use crate::measure::lab::needs::{self, Feature, Here, Kernel, Program};

/// A part of scenarios with what it needs.
struct Part {
    name: &'static str,
    means: String,
    features: Vec<Feature>,
    programs: &'static [Program],
    /// A remark, where one is needed.
    remark: Option<&'static str>,
}

fn entries() -> Vec<Part> {
    let mut entries: Vec<Part> = Shape::PARTS
        .iter()
        .filter_map(|(name, means)| {
            // Alone, so that only what the part itself needs counts.
            let shape: Shape = match *name {
                "route" | "nat" => (*name).parse(),
                part => format!("route+{part}").parse(),
            }
            .ok()?;
            Some(Part {
                name,
                means: (*means).into(),
                features: needs::features(&shape, false, false),
                programs: needs::programs(&shape),
                remark: None,
            })
        })
        .collect();
    let more = |name, means: &str, shape: Shape, rules, flows, remark| Part {
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

/// A part of scenarios on this machine.
#[derive(serde::Serialize)]
pub struct Offered {
    /// The part's name.
    pub name: &'static str,
    /// The part in words.
    pub means: String,
    /// Options of the kernel and programs that it needs.
    pub needs: Vec<String>,
    /// Availability of the scenario on this machine.
    pub here: Here,
    /// Missing parts, each with a way to get it.
    pub missing: Vec<Lack>,
    /// A remark, where one is needed.
    pub remark: Option<&'static str>,
}

/// Something that is missing.
#[derive(serde::Serialize)]
pub struct Lack {
    /// Description of the missing part.
    pub what: String,
    /// Command or advice that makes it available.
    pub remedy: String,
}

fn judge(entry: Part, kernel: &Kernel, host: &dyn HostRead, programs_known: bool) -> Offered {
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
        (false, _) => Here::No,
        (true, true) => Here::Unknown,
        (true, false) => Here::Yes,
    };
    let (name, means, remark) = (entry.name, entry.means, entry.remark);
    Offered { name, means, needs: names, here, missing, remark }
}

/// Judges every part on this machine; without `programs_known` (a capture holds none) nothing is
/// said of programs.
#[must_use]
pub fn offered(host: &dyn HostRead, programs_known: bool) -> Vec<Offered> {
    let kernel = Kernel::read(host);
    entries().into_iter().map(|part| judge(part, &kernel, host, programs_known)).collect()
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
