//! What is known of boards beside what their kernels tell: `boards/*.toml`, compiled in.

use serde::Deserialize;

use crate::model::snapshot::BoardFacts;

/// Name and text of each file.
const BOARDS: &[(&str, &str)] = &[
    ("nanopi-r2s", include_str!("../../boards/nanopi-r2s.toml")),
    ("nanopi-r4s", include_str!("../../boards/nanopi-r4s.toml")),
    ("nanopi-r5s", include_str!("../../boards/nanopi-r5s.toml")),
    ("nanopi-r6s", include_str!("../../boards/nanopi-r6s.toml")),
    ("nanopi-r76s", include_str!("../../boards/nanopi-r76s.toml")),
    ("raspberry-pi-4", include_str!("../../boards/raspberry-pi-4.toml")),
    ("raspberry-pi-5", include_str!("../../boards/raspberry-pi-5.toml")),
    ("fortigate-50e", include_str!("../../boards/fortigate-50e.toml")),
    ("mt7621", include_str!("../../boards/mt7621.toml")),
    ("mt7622", include_str!("../../boards/mt7622.toml")),
    ("mt7986", include_str!("../../boards/mt7986.toml")),
    ("mt7988", include_str!("../../boards/mt7988.toml")),
    ("ipq40xx", include_str!("../../boards/ipq40xx.toml")),
    ("ipq807x", include_str!("../../boards/ipq807x.toml")),
    ("visionfive-2", include_str!("../../boards/visionfive-2.toml")),
    ("generic-x86", include_str!("../../boards/generic-x86.toml")),
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

/// Any of these.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Match {
    compatible: Vec<String>,
    arch: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Facts {
    per_cycle: Vec<u32>,
    fixed_chips: Vec<String>,
    notes: Vec<String>,
}

/// The board of that device tree (`compatible`, most specific first) or architecture.
pub(super) fn find(compatible: &[String], arch: &str) -> Option<BoardFacts> {
    let by_tree = compatible.iter().find_map(|c| named(c, |m| &m.compatible));
    by_tree.or_else(|| named(arch, |m| &m.arch))
}

fn named(word: &str, list: fn(&Match) -> &[String]) -> Option<BoardFacts> {
    // Only files that have the word at all are worth parsing.
    let quoted = format!("\"{word}\"");
    BOARDS.iter().filter(|(_, text)| text.contains(&quoted)).find_map(|(name, text)| {
        let board: Board = toml::from_str(text).ok()?;
        list(&board.r#match).iter().any(|w| w == word).then(|| BoardFacts {
            name: (*name).to_owned(),
            title: board.title,
            per_cycle: board.facts.per_cycle,
            fixed_chips: board.facts.fixed_chips,
            notes: board.facts.notes,
            source: board.source,
        })
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
                    find(std::slice::from_ref(compatible), "").unwrap().name,
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
            find(&list.iter().map(ToString::to_string).collect::<Vec<_>>(), arch).map(|b| b.name)
        };
        let r4s = of(&["friendlyarm,nanopi-r4s", "rockchip,rk3399"], "aarch64");
        assert_eq!(r4s.as_deref(), Some("nanopi-r4s"));
        let cm4 = of(&["vendor,board", "brcm,bcm2711"], "aarch64");
        assert_eq!(cm4.as_deref(), Some("raspberry-pi-4"));
        assert_eq!(of(&[], "x86_64").as_deref(), Some("generic-x86"));
        assert_eq!(of(&["acme,router"], "aarch64"), None);
    }
}
