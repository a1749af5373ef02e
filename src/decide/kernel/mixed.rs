//! Configurations between two others: each choice as in A or as in B, for `kernel bisect`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::bisect::Setup;
use super::diff::{Diff, Difference, Group};
use crate::model::kconfig::{KernelConfig, Value};

/// Options without which many machines do not boot: they stay as they are in A, whatever B says.
/// A kernel with a root device by its /dev path needs DEVTMPFS, systemd needs AUDIT and its
/// cgroups (README of systemd, "REQUIREMENTS"); the rest are drivers of where the root lies.
const NEEDED: &[&str] = &[
    "DEVTMPFS",
    "DEVTMPFS_MOUNT",
    "AUDIT",
    "BLK_DEV_INITRD",
    "TMPFS",
    "CGROUPS",
    "INOTIFY_USER",
    "SIGNALFD",
    "TIMERFD",
    "EPOLL",
    "UNIX",
    "SYSFS",
    "PROC_FS",
    "FHANDLE",
    "BINFMT_ELF",
    "BINFMT_SCRIPT",
    "BLOCK",
    "MMC",
    "MMC_BLOCK",
    "SCSI",
    "BLK_DEV_SD",
    "ATA",
    "SATA_AHCI",
    "BLK_DEV_NVME",
    "VIRTIO_BLK",
    "VIRTIO_PCI",
    "VIRTIO_MMIO",
    "USB_STORAGE",
    "USB_XHCI_HCD",
    "EXT4_FS",
    "BTRFS_FS",
    "XFS_FS",
    "F2FS_FS",
    "SQUASHFS",
    "OVERLAY_FS",
    "MTD",
    "MTD_UBI",
    "UBIFS_FS",
    "JFFS2_FS",
    "MSDOS_PARTITION",
    "EFI_PARTITION",
    "DEVTMPFS_SAFE",
    "MODULES",
    "RD_GZIP",
    "RD_XZ",
    "RD_ZSTD",
    "RD_LZ4",
    "SERIAL_8250_CONSOLE",
    "SERIAL_AMBA_PL011_CONSOLE",
];

/// Beginnings of drivers that a board needs to reach its root device.
const NEEDED_DRIVERS: &[&str] =
    &["MMC_", "PINCTRL_", "COMMON_CLK_", "REGULATOR_", "PHY_", "RESET_"];

/// The choices that a search goes through, and what stays as in A.
#[derive(Debug, Clone)]
pub struct Choices {
    /// Options that are switched, in the order of A's file.
    pub groups: Vec<Group>,
    /// Choices that differ and stay as they are in A, because a machine may not boot otherwise or
    /// because the user says so.
    pub kept: Vec<String>,
    by_default: bool,
}

impl Choices {
    /// Options of a mixed kernel, from the differences between two configurations.
    #[must_use]
    pub fn of(diff: &Diff, keep: &BTreeSet<String>) -> Self {
        let stays = |group: &Group| {
            group.chosen.iter().any(|difference| {
                let name = difference.name.as_str();
                keep.contains(name)
                    || NEEDED.contains(&name)
                    || NEEDED_DRIVERS.iter().any(|d| name.starts_with(d))
            }) || keep.contains(&group.name)
        };
        let (kept, groups): (Vec<_>, Vec<_>) = diff.groups.iter().cloned().partition(stays);
        let kept = kept.into_iter().map(|group| group.name).collect();
        Self { groups, kept, by_default: diff.by_default }
    }

    /// The names of the choices that are as in B.
    #[must_use]
    pub fn names(&self, setup: &Setup) -> BTreeSet<String> {
        let on = self.groups.iter().zip(setup).filter(|(_, on)| **on);
        on.map(|(group, _)| group.name.clone()).collect()
    }

    /// The setup that has these choices as in B; `None` when one of them is not among the choices.
    #[must_use]
    pub fn setup(&self, names: &BTreeSet<String>) -> Option<Setup> {
        let setup: Setup = self.groups.iter().map(|g| names.contains(&g.name)).collect();
        (setup.iter().filter(|on| **on).count() == names.len()).then_some(setup)
    }

    /// The text of the configuration. What only one of the two files names, because it follows from
    /// a choice, is there in any case: `make olddefconfig` leaves out what can't be, and would
    /// otherwise choose for itself.
    #[must_use]
    pub fn text(&self, a: &KernelConfig, b: &KernelConfig, setup: &Setup) -> String {
        let of_b: BTreeSet<&str> = self
            .groups
            .iter()
            .zip(setup)
            .filter(|(_, on)| **on)
            .flat_map(|(group, _)| group.chosen.iter().chain(&group.follows))
            .map(|difference| difference.name.as_str())
            .collect();
        // What somebody chose, which is off or at its default where a file does not mention it.
        let chosen: BTreeMap<&str, &Difference> =
            self.groups.iter().flat_map(|g| &g.chosen).map(|d| (d.name.as_str(), d)).collect();
        let mut text = String::from("# Made by `linerate kernel bisect`; run: make olddefconfig\n");
        let mut names = a.in_order();
        names.extend(b.in_order().into_iter().filter(|name| a.get(name).is_none()));
        // What is on by default in one of them neither needs to name.
        let unnamed = |name: &&str| a.get(name).is_none() && b.get(name).is_none();
        names.extend(chosen.keys().copied().filter(unnamed));
        for name in names {
            let (from_a, from_b) = (a.options.get(name), b.options.get(name));
            let entry = if of_b.contains(name) { from_b.or(from_a) } else { from_a.or(from_b) };
            let value = match chosen.get(name) {
                Some(d) if of_b.contains(name) => d.b.as_ref(),
                Some(d) => d.a.as_ref(),
                None => entry.map(|entry| &entry.value),
            };
            let line = match value {
                None if self.by_default => continue,
                None | Some(Value::Off) => format!("# CONFIG_{name} is not set"),
                Some(value) => match entry.filter(|entry| entry.value == *value) {
                    Some(entry) => format!("CONFIG_{name}={}", entry.raw),
                    None => format!("CONFIG_{name}={value}"),
                },
            };
            // Writing to a String does not fail.
            let _infallible = writeln!(text, "{line}");
        }
        text
    }

    /// Which choices a built kernel really has as in B: `make olddefconfig` may have turned some
    /// around. A choice that is neither as in A nor as in B is named in the error.
    ///
    /// # Errors
    /// The choices that are like neither.
    pub fn built(&self, built: &KernelConfig) -> Result<Setup, Vec<String>> {
        let mut neither = Vec::new();
        let mut setup = Vec::new();
        for group in &self.groups {
            let like = |side: fn(&Difference) -> (&Option<Value>, &Option<Value>)| {
                group.chosen.iter().all(|d| match side(d) {
                    // A default that is not known is anything but the other's choice.
                    (None, other) if self.by_default => !same(built.get(&d.name), other.as_ref()),
                    (one, _) => same(built.get(&d.name), one.as_ref()),
                })
            };
            let as_in_b = like(|d| (&d.b, &d.a));
            if !as_in_b && !like(|d| (&d.a, &d.b)) {
                neither.push(group.name.clone());
            }
            setup.push(as_in_b);
        }
        if neither.is_empty() { Ok(setup) } else { Err(neither) }
    }
}

/// Off and not mentioned are the same kernel.
fn same(x: Option<&Value>, y: Option<&Value>) -> bool {
    x.filter(|v| v.is_set()) == y.filter(|v| v.is_set())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::kernel::diff::diff;
    use crate::machine::parse::config::read;

    const A: &str = "# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_PREEMPT_NONE=y\n# CONFIG_PREEMPT is not set\nCONFIG_DEVTMPFS=y\n\
        # CONFIG_SND is not set\nCONFIG_NAME=\"a b\"\nCONFIG_USB=y\nCONFIG_MINE=y\n";
    const B: &str = "# Linux/arm64 6.1.0 Kernel Configuration\n# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT=y\nCONFIG_PREEMPTION=y\n\
        # CONFIG_DEVTMPFS is not set\nCONFIG_SND=m\nCONFIG_SND_HDA=m\nCONFIG_NAME=\"a b\"\n\
        # CONFIG_USB is not set\nCONFIG_MINE=m\n";

    /// A whole file without BQL against a part whose SMP brings it by default: neither names it.
    #[test]
    fn a_choice_that_only_a_default_makes_is_written_too() {
        let a = "# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_ARM64=y\nCONFIG_SMP=y\n";
        let b = "CONFIG_SMP=y\nCONFIG_NET=y\nCONFIG_HZ_250=y\n";
        let (a, b) = (read(a.as_bytes()).unwrap(), read(b.as_bytes()).unwrap());
        let choices = Choices::of(&diff(&a, &b), &BTreeSet::new());
        let bql = choices.groups.iter().position(|g| g.name == "BQL").unwrap();
        let setup: Setup = (0..choices.groups.len()).map(|at| at == bql).collect();
        let text = choices.text(&a, &b, &setup);
        assert!(text.contains("CONFIG_BQL=y\n"), "{text}");
        assert_eq!(choices.built(&read(text.as_bytes()).unwrap()), Ok(setup));
    }

    #[test]
    fn each_choice_is_as_in_a_or_as_in_b_and_what_boots_stays() {
        let (a, b) = (read(A.as_bytes()).unwrap(), read(B.as_bytes()).unwrap());
        let choices = Choices::of(&diff(&a, &b), &["MINE".to_owned()].into());
        let names: Vec<&str> = choices.groups.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(
            (names, choices.kept.clone()),
            (vec!["PREEMPT", "SND", "USB"], vec!["DEVTMPFS".to_owned(), "MINE".to_owned()])
        );
        let setup = vec![true, false, true];
        assert_eq!(choices.setup(&choices.names(&setup)), Some(setup.clone()));
        assert_eq!(choices.setup(&["NOT_THERE".to_owned()].into()), None);
        let mixed = read(choices.text(&a, &b, &setup).as_bytes()).unwrap();
        let of = |name: &str| mixed.get(name).map(ToString::to_string);
        let text = |t: &str| Some(t.to_owned());
        assert_eq!(
            (of("PREEMPT_NONE"), of("PREEMPT"), of("PREEMPTION")),
            (text("n"), text("y"), text("y"))
        );
        assert_eq!((of("SND"), of("USB"), of("DEVTMPFS")), (text("n"), text("n"), text("y")));
        assert_eq!((of("NAME"), of("MINE")), (text("a b"), text("y")));
        assert_eq!(choices.built(&mixed), Ok(setup));
        // The build turned one around, and another became something else.
        let turned = read(choices.text(&a, &b, &vec![true, false, false]).as_bytes()).unwrap();
        assert_eq!(choices.built(&turned), Ok(vec![true, false, false]));
        let other = read(
            b"# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_USB=y\n",
        )
        .unwrap();
        assert_eq!(choices.built(&other), Err(vec!["PREEMPT".to_owned()]));
        // Nothing switched is A, everything is B but for what stays.
        let none = choices.text(&a, &b, &vec![false; 3]);
        let none = read(format!("# Linux/arm64 6.1.0 Kernel Configuration\n{none}").as_bytes());
        let none = none.unwrap();
        let differs: Vec<_> = diff(&a, &none).groups;
        assert!(differs.is_empty(), "{differs:?}");
    }
}
