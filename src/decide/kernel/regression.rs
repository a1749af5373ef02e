//! Kernels known for a regression: `data/kernel-regressions.txt`.

use crate::model::snapshot::Snapshot;

/// The file.
pub const REGRESSIONS: &str = include_str!("../../../data/kernel-regressions.txt");

/// A regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regression<'a> {
    /// First kernel that has it.
    pub from: &'a str,
    /// First kernel that has not.
    pub before: &'a str,
    /// Conditions, blank between them.
    pub only: &'a str,
    /// Effect of the regression.
    pub what: &'a str,
    /// Remedy.
    pub remedy: &'a str,
    /// Where one can read it.
    pub source: &'a str,
}

/// The lines of the file; one that is not of the form is left out.
pub fn regressions(text: &str) -> impl Iterator<Item = Regression<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split('|').map(str::trim);
        Some(Regression {
            from: fields.next()?,
            before: fields.next()?,
            only: fields.next()?,
            what: fields.next()?,
            remedy: fields.next()?,
            source: fields.next()?,
        })
    })
}

/// Regressions that this machine meets.
///
/// # Errors
/// The reason why that can't be told: a release that is not known, or not upstream's.
pub fn met_by(snapshot: &Snapshot) -> Result<Vec<Regression<'static>>, String> {
    let release = &snapshot.machine.kernel;
    let Some(running) = version(release) else {
        return Err("the kernel's release is not known".into());
    };
    if !is_upstream(release) {
        return Err(format!("{release} does not say which upstream release it is"));
    }
    let affected = regressions(REGRESSIONS).filter(|r| {
        let (from, before) = (version(r.from), version(r.before));
        from.is_some_and(|from| from <= running)
            && before.is_some_and(|before| running < before)
            && r.only.split_whitespace().all(|condition| is_met(snapshot, condition))
    });
    Ok(affected.collect())
}

/// Version, patch level and sublevel: `6.1.0-56-amd64` is 6.1.0, which on Debian says nothing of the
/// sublevel.
#[must_use]
pub fn version(release: &str) -> Option<[u32; 3]> {
    let number = |text: Option<&str>| -> Option<u32> {
        let text = text?;
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text.get(..end)?.parse().ok()
    };
    let mut parts = release.splitn(3, '.');
    Some([number(parts.next())?, number(parts.next())?, number(parts.next()).unwrap_or(0)])
}

/// True if the sublevel is upstream's: Debian, Ubuntu and RHEL count in other places.
fn is_upstream(release: &str) -> bool {
    let tail = release.splitn(3, '.').nth(2).unwrap_or("");
    !tail.starts_with("0-")
}

/// Condition of a regression that takes established flows away from hardware.
pub const HARDWARE: &str = "flowtable-in-hardware";

/// Condition of a regression that takes them away from a flowtable over PPPoE.
pub const OVER_PPPOE: &str = "flowtable-over-pppoe";

fn is_met(snapshot: &Snapshot, condition: &str) -> bool {
    let (key, value) = condition.split_once('=').unwrap_or((condition, ""));
    let path = &snapshot.path;
    match key {
        "compatible" => {
            let all = snapshot.machine.compatible.iter();
            all.flat_map(|c| c.split_whitespace()).any(|c| c == value)
        }
        "driver" => snapshot.netdevs.iter().any(|d| d.driver.as_deref() == Some(value)),
        "arch" => snapshot.machine.arch == value,
        "os" => snapshot.machine.os.as_deref().is_some_and(|os| os.contains(value)),
        OVER_PPPOE => path.offloads() && snapshot.netdevs.iter().any(|d| d.pppoe_over.is_some()),
        HARDWARE => path.nftables.iter().flat_map(|n| &n.flowtables).any(|t| t.hardware),
        // A condition that this program does not know is not met: rather no finding than a wrong one.
        _ => false,
    }
}
