//! Where a WireGuard figure stands among known ones: pure functions of the known table
//! (`data/wireguard-boards.csv`) and of a machine's own result.
//!
//! Terms: an *entry* is a line of the ranking, known or our own. Rank 1 is the fastest. The same
//! board often has several entries (clocks, cores, systems): each is one. Nothing is read or written.

mod table;

pub use table::known;

use serde::Serialize;

use crate::model::board::BoardResult;
use crate::model::order::InOrder;
use crate::model::units::BitRate;

/// Entries shown above and below.
const NEAREST: usize = 4;

/// A line of the ranking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Device, or CPU where the table names no device.
    pub device: String,
    /// CPU or system on chip; may be empty.
    pub cpu: String,
    /// Operating system, kernel, and parameters of the measurement.
    pub os: String,
    /// Rate by the sender.
    pub rate: BitRate,
    /// Note of the contributor.
    pub note: String,
    /// True if the entry is the user's own.
    pub own: bool,
}

impl Entry {
    /// Our own result as a line.
    #[must_use]
    pub fn of(result: &BoardResult) -> Self {
        let os = result.machine.os.clone().unwrap_or_else(|| "Linux".into());
        let mut notes: Vec<String> = result.note.iter().cloned().collect();
        if !result.comparable.refusals.is_empty() {
            notes.push("refused".into());
        }
        if (result.comparable.seconds - 10.0).abs() > 0.5 {
            notes.push(format!("{:.0} s instead of 10", result.comparable.seconds));
        }
        Self {
            device: result.device.clone(),
            cpu: String::new(),
            os: format!("{os} / {}", result.machine.kernel),
            rate: result.comparable.sender,
            note: notes.join("; "),
            own: true,
        }
    }

    /// `device / CPU`, or what there is of it.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.device.as_str(), self.cpu.as_str()) {
            (device, "") => device.to_owned(),
            ("", cpu) => cpu.to_owned(),
            (device, cpu) => format!("{device} / {cpu}"),
        }
    }
}

/// An entry with its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placed {
    /// 1 is the fastest; equal rates share the better place.
    pub rank: usize,
    /// The line.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Where one of our own results stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// The result with its place among the known entries and itself.
    pub placed: Placed,
    /// How many entries there are, itself included.
    pub of: usize,
    /// Share of the known entries that are slower, 0 to 1.
    pub faster_than: f64,
    /// The entries around it, fastest first, itself included.
    pub nearest: Vec<Placed>,
    /// Known entries of the same board or the same CPU.
    pub same: Vec<Placed>,
}

/// All entries of the ranking, fastest first.
#[must_use]
pub fn ranking(entries: impl IntoIterator<Item = Entry>) -> Vec<Placed> {
    let mut all: Vec<Entry> = entries.into_iter().filter(|e| e.rate.0.is_finite()).collect();
    all.order_by(|a, b| b.rate.0.total_cmp(&a.rate.0));
    let faster = |rate: BitRate| all.partition_point(|e| e.rate > rate);
    all.iter().map(|e| Placed { rank: faster(e.rate) + 1, entry: e.clone() }).collect()
}

/// Where `result` stands among the known entries.
#[must_use]
pub fn standing(result: &BoardResult) -> Standing {
    let own = Entry::of(result);
    let known = known();
    let slower = known.iter().filter(|e| e.rate < own.rate).count();
    let faster_than = if known.is_empty() { 0.0 } else { slower as f64 / known.len() as f64 };
    let all = ranking(known.into_iter().chain([own.clone()]));
    let at = all.iter().position(|p| p.entry.own).unwrap_or(0);
    let nearest = all.iter().skip(at.saturating_sub(NEAREST)).take(2 * NEAREST + 1);
    let names = names_of(result);
    let same = all.iter().filter(|p| !p.entry.own && names.iter().any(|n| is_same(&p.entry, n)));
    Standing {
        placed: all.get(at).cloned().unwrap_or(Placed { rank: 1, entry: own }),
        of: all.len(),
        faster_than,
        nearest: nearest.cloned().collect(),
        same: same.cloned().collect(),
    }
}

/// All that a machine calls itself, each as words.
fn names_of(result: &BoardResult) -> Vec<Vec<String>> {
    let machine = &result.machine;
    [Some(&result.device), machine.board.as_ref(), machine.cpu_model.as_ref()]
        .into_iter()
        .flatten()
        .chain(&machine.compatible)
        .map(|name| words(name))
        .collect()
}

/// True if an entry's device or CPU is within a machine's name: `Raspberry Pi 4` is within
/// `Raspberry Pi 4 Model B Rev 1.4`, and `BCM2711*` within `brcm,bcm2711`.
fn is_same(entry: &Entry, machine: &[String]) -> bool {
    [&entry.device, &entry.cpu].into_iter().any(|name| {
        let wanted = words(name);
        // One word such as `Intel` says too little; a part number says enough.
        let telling = match wanted.as_slice() {
            [] => false,
            [one] => one.len() >= 4 && one.chars().any(|c| c.is_ascii_digit()),
            more => more.iter().any(|w| w.chars().any(|c| c.is_ascii_digit())),
        };
        telling && machine.windows(wanted.len()).any(|part| part == wanted.as_slice())
    })
}

/// Lower-case words without trademarks, clocks and stars.
fn words(name: &str) -> Vec<String> {
    let name = name.to_lowercase();
    let name = ["(r)", "(tm)", "cpu", "processor"].iter().fold(name, |n, w| n.replace(w, " "));
    let name = name.split('@').next().unwrap_or_default();
    name.split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(board: &str, cpu: &str, mbps: f64) -> BoardResult {
        let text = include_bytes!("../../../fixtures/formats/board-v1.json");
        let mut result: BoardResult = serde_json::from_slice(text).unwrap();
        result.device = format!("{board} / {cpu}");
        result.machine.board = Some(board.into());
        result.machine.cpu_model = Some(cpu.into());
        result.machine.compatible = Vec::new();
        result.comparable.sender = BitRate(mbps * 1e6);
        result
    }

    #[test]
    fn the_fastest_the_slowest_and_one_between() {
        let top = standing(&result("Dream", "X", 1e6));
        assert_eq!((top.placed.rank, top.of), (1, 181));
        assert!((top.faster_than - 1.0).abs() < 1e-9);
        let bottom = standing(&result("Slow", "X", 0.1));
        assert_eq!(bottom.placed.rank, 181);
        assert!(bottom.faster_than.abs() < 1e-9);
        assert_eq!(bottom.nearest.len(), NEAREST + 1);
        let middle = standing(&result("Board", "X", 750.0));
        assert_eq!(middle.nearest.len(), 2 * NEAREST + 1);
        assert!(middle.nearest.windows(2).all(|w| w[0].entry.rate >= w[1].entry.rate));
        assert!(middle.nearest[NEAREST].entry.own);
    }

    #[test]
    fn equal_rates_share_the_better_place() {
        let entry =
            |mbps: f64| Entry { rate: BitRate(mbps * 1e6), ..Entry::of(&result("a", "b", 1.0)) };
        let ranks: Vec<_> =
            ranking([entry(5.0), entry(7.0), entry(5.0), entry(1.0), entry(f64::NAN)])
                .iter()
                .map(|p| p.rank)
                .collect();
        assert_eq!(ranks, [1, 2, 2, 4]);
    }

    #[test]
    fn the_same_board_is_found_under_its_longer_name_and_others_are_not() {
        let names = |board, cpu| {
            let found = standing(&result(board, cpu, 800.0));
            found.same.iter().map(|p| p.entry.name()).collect::<Vec<_>>()
        };
        let pi = names("Raspberry Pi 4 Model B Rev 1.4", "Cortex-A72");
        assert_eq!(pi.len(), 4, "{pi:?}");
        assert!(pi.iter().all(|n| n.contains("Raspberry Pi 4")), "{pi:?}");
        let n100 = names("Some box", "Intel(R) N100 @ 3.40GHz");
        assert_eq!(n100.len(), 2, "{n100:?}");
        assert_eq!(names("Unheard of", "Intel"), [""; 0]);
        // The same board at 912 and 3110, by the core.
        assert_eq!(names("Radxa E52C", "x").len(), 2);
    }

    #[test]
    fn doubtful_results_say_so_in_the_ranking() {
        let mut short = result("a", "b", 100.0);
        short.comparable.seconds = 2.0;
        assert!(Entry::of(&short).note.contains("2 s instead of 10"));
    }
}
