//! Facts about boards beyond those that their kernels report: `boards/*.toml`, compiled in, and the
//! administrator's own files of the same form.

use std::path::Path;

use serde::Deserialize;

use super::Gaps;
use crate::machine::host::HostRead;
use crate::model::snapshot::BoardFacts;

/// Name and text of each file.
const BOARDS: &[(&str, &str)] = &[
    ("nanopi-r2s", include_str!("../../../boards/nanopi-r2s.toml")),
    ("nanopi-r4s", include_str!("../../../boards/nanopi-r4s.toml")),
    ("nanopi-r5s", include_str!("../../../boards/nanopi-r5s.toml")),
    ("nanopi-r6s", include_str!("../../../boards/nanopi-r6s.toml")),
    ("nanopi-r76s", include_str!("../../../boards/nanopi-r76s.toml")),
    ("raspberry-pi-4", include_str!("../../../boards/raspberry-pi-4.toml")),
    ("raspberry-pi-5", include_str!("../../../boards/raspberry-pi-5.toml")),
    ("fortigate-50e", include_str!("../../../boards/fortigate-50e.toml")),
    ("mt7621", include_str!("../../../boards/mt7621.toml")),
    ("mt7622", include_str!("../../../boards/mt7622.toml")),
    ("mt7986", include_str!("../../../boards/mt7986.toml")),
    ("mt7988", include_str!("../../../boards/mt7988.toml")),
    ("ipq40xx", include_str!("../../../boards/ipq40xx.toml")),
    ("ipq807x", include_str!("../../../boards/ipq807x.toml")),
    ("visionfive-2", include_str!("../../../boards/visionfive-2.toml")),
    ("generic-x86", include_str!("../../../boards/generic-x86.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Board {
    title: String,
    source: String,
    r#match: Match,
    #[serde(default)]
    facts: Facts,
}

/// Properties of a machine, of which any one makes a board file apply.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Match {
    compatible: Vec<String>,
    /// Names that a device tree gives its machine, where it holds no other name.
    model: Vec<String>,
    arch: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Facts {
    per_cycle: Vec<u32>,
    fixed_chips: Vec<String>,
    notes: Vec<String>,
    unit_ns: Option<f64>,
    steering_hurts: bool,
    offload_helps: bool,
}

/// Directory of an administrator's own files; they win over those compiled in.
const OWN: &str = "/etc/linerate/boards.d";
/// Limit on the files that are read: nobody has more on purpose.
const MOST: usize = 64;

/// Facts about this board: from a file of [`OWN`], else from one of ours. A file that can't be used
/// is a gap, by its name and line.
pub(super) fn discover(
    host: &dyn HostRead,
    gaps: &mut Gaps,
    compatible: &[String],
    model: Option<&str>,
    arch: &str,
) -> Option<BoardFacts> {
    let names = host.list(Path::new(OWN)).unwrap_or_default();
    let mut own = Vec::new();
    for name in names.iter().filter(|n| n.ends_with(".toml")).take(MOST) {
        let path = Path::new(OWN).join(name);
        let what = format!("board file {}", path.display());
        let Some(bytes) = gaps.keep(&what, host.read(&path)) else { continue };
        match std::str::from_utf8(&bytes) {
            Ok(text) => match read(text) {
                Ok(board) => own.push((path, board)),
                Err(e) => gaps.add(what, place(text, &e)),
            },
            Err(_) => gaps.add(what, "not UTF-8"),
        }
    }
    let by_tree =
        |word: &String| own.iter().find(|(_, board)| board.r#match.compatible.contains(word));
    let by_arch = || own.iter().find(|(_, board)| board.r#match.arch.iter().any(|a| a == arch));
    let by_own = compatible.iter().find_map(by_tree).or_else(by_arch);
    match by_own {
        Some((path, board)) => {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            Some(board.facts(&name, path.display().to_string()))
        }
        None => find(compatible, model, arch),
    }
}

/// Reads a board file by way of a table: reading types from the text directly takes far more code.
fn read(text: &str) -> Result<Board, toml::de::Error> {
    text.parse::<toml::Table>()?.try_into()
}

/// Error in a file with its line: that of the mistake in form, or the first line that has the name
/// which the message is about.
fn place(text: &str, error: &toml::de::Error) -> String {
    let named = || {
        let name = error.message().split('`').nth(1).filter(|name| !name.is_empty())?;
        text.find(name)
    };
    let start = error.span().map(|span| span.start).or_else(named);
    let before = start.and_then(|start| text.get(..start));
    let line = before.map(|b| format!("line {}: ", b.matches('\n').count() + 1));
    format!("{}{}", line.unwrap_or_default(), error.message())
}

impl Board {
    fn facts(&self, name: &str, file: String) -> BoardFacts {
        BoardFacts {
            name: name.to_owned(),
            file,
            title: self.title.clone(),
            per_cycle: self.facts.per_cycle.clone(),
            fixed_chips: self.facts.fixed_chips.clone(),
            notes: self.facts.notes.clone(),
            unit_ns: self.facts.unit_ns,
            steering_hurts: self.facts.steering_hurts,
            offload_helps: self.facts.offload_helps,
            source: self.source.clone(),
        }
    }
}

/// Facts about the board of that device tree (`compatible`, most specific first) or architecture.
pub(super) fn find(compatible: &[String], model: Option<&str>, arch: &str) -> Option<BoardFacts> {
    let by_tree = compatible.iter().find_map(|c| named(c, |m| &m.compatible));
    let by_model = || named(model?, |m| &m.model);
    by_tree.or_else(by_model).or_else(|| named(arch, |m| &m.arch))
}

fn named(word: &str, list: fn(&Match) -> &[String]) -> Option<BoardFacts> {
    // Only files that have the word at all are worth parsing.
    let quoted = format!("\"{word}\"");
    BOARDS.iter().filter(|(_, text)| text.contains(&quoted)).find_map(|(name, text)| {
        let board = read(text).ok()?;
        list(&board.r#match)
            .iter()
            .any(|w| w == word)
            .then(|| board.facts(name, format!("boards/{name}.toml")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_board_file_can_be_read_and_names_its_source() {
        for (name, text) in BOARDS {
            let board: Board = toml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!board.title.is_empty() && !board.source.is_empty(), "{name}");
            assert!(!board.r#match.compatible.is_empty() || !board.r#match.arch.is_empty());
            for compatible in &board.r#match.compatible {
                assert_eq!(
                    find(std::slice::from_ref(compatible), None, "").unwrap().name,
                    *name,
                    "{compatible}"
                );
            }
        }
        let dir = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/boards")).unwrap();
        assert_eq!(dir.count(), BOARDS.len(), "a file that is not compiled in");
    }

    #[test]
    fn the_board_wins_over_its_system_on_chip_and_strangers_have_no_facts() {
        let of = |list: &[&str], arch| {
            find(&list.iter().map(ToString::to_string).collect::<Vec<_>>(), None, arch)
                .map(|b| b.name)
        };
        let r4s = of(&["friendlyarm,nanopi-r4s", "rockchip,rk3399"], "aarch64");
        assert_eq!(r4s.as_deref(), Some("nanopi-r4s"));
        let cm4 = of(&["vendor,board", "brcm,bcm2711"], "aarch64");
        assert_eq!(cm4.as_deref(), Some("raspberry-pi-4"));
        assert_eq!(of(&[], "x86_64").as_deref(), Some("generic-x86"));
        assert_eq!(of(&["acme,router"], "aarch64"), None);
    }
}
