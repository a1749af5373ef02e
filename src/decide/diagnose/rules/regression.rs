//! Kernels known for a regression: `data/kernel-regressions.txt`.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};

pub(super) const RULES: &[Rule] = &[Rule {
    id: "kernel-regression",
    what: "a kernel known to forward worse than those before and after",
    costs: "see the finding: each regression has its own measure and source",
    source: "data/kernel-regressions.txt",
    reads: "kernel release, board, drivers, flowtables",
    load: Load::Apart,
    look,
}];

/// The file.
pub const REGRESSIONS: &str = include_str!("../../../../data/kernel-regressions.txt");

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

/// Version, patch level and sublevel: `6.1.0-56-amd64` is 6.1.0, which on Debian says nothing of the
/// sublevel.
fn version(release: &str) -> Option<[u32; 3]> {
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

fn look(subject: &Subject<'_>) -> Looked {
    let machine = &subject.snapshot.machine;
    let Some(running) = version(&machine.kernel) else {
        return Err("the kernel's release is not known".into());
    };
    if !is_upstream(&machine.kernel) {
        return Err(format!("{} does not say which upstream release it is", machine.kernel));
    }
    let affected = regressions(REGRESSIONS).filter(|r| {
        let (from, before) = (version(r.from), version(r.before));
        from.is_some_and(|from| from <= running)
            && before.is_some_and(|before| running < before)
            && r.only.split_whitespace().all(|condition| met(subject, condition))
    });
    let found = affected.map(|r| {
        Found::new(Severity::Warning, format!("Linux {}: {}", machine.kernel, r.what))
            .seen("/proc/sys/kernel/osrelease", &machine.kernel)
            .seen(r.source, format!("from {}, fixed in {}; where: {}", r.from, r.before, r.only))
            .consequence(r.what)
            .cost(0.4)
            .sure(Confidence::Likely)
            .remedy(r.remedy)
    });
    Ok(found.collect())
}

fn met(subject: &Subject<'_>, condition: &str) -> bool {
    let snapshot = subject.snapshot;
    let (key, value) = condition.split_once('=').unwrap_or((condition, ""));
    match key {
        "compatible" => {
            let all = snapshot.machine.compatible.iter();
            all.flat_map(|c| c.split_whitespace()).any(|c| c == value)
        }
        "driver" => snapshot.netdevs.iter().any(|d| d.driver.as_deref() == Some(value)),
        "arch" => snapshot.machine.arch == value,
        "os" => snapshot.machine.os.as_deref().is_some_and(|os| os.contains(value)),
        "flowtable-over-pppoe" => subject.offloads() && subject.pppoe().next().is_some(),
        // A condition that this program does not know is not met: rather no finding than a wrong one.
        _ => false,
    }
}
