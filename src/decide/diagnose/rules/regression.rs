//! Kernels known for a regression: `data/kernel-regressions.txt`.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::decide::kernel::regression;
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

fn look(subject: &Subject<'_>) -> Looked {
    let machine = &subject.snapshot.machine;
    let affected = regression::met_by(subject.snapshot)?.into_iter();
    let found = affected.map(|r| {
        Found::new(Severity::Warning, format!("Linux {}: {}", machine.kernel, r.what))
            .seen("/proc/sys/kernel/osrelease", &machine.kernel)
            .seen(r.source, format!("from {}, fixed in {}; where: {}", r.from, r.before, r.only))
            .consequence(r.what)
            .rank(0.4)
            .sure(Confidence::Likely)
            .remedy(r.remedy)
    });
    Ok(found.collect())
}
