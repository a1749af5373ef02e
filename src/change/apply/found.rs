//! Reads what is in the file of a journal's entry now: the text, or why there is none. Everything
//! that undoes starts from this.

use std::path::{Path, PathBuf};

use super::knob::{meaning, read_text};
use super::undo::Now;
use crate::machine::host::HostRead;
use crate::machine::store::journal::Entry;
use crate::model::cpuset::CpuSet;
use crate::model::knob::{Knob, Value};

/// Reads an entry's file.
pub(super) fn now(host: &dyn HostRead, entry: &Entry) -> Now {
    let absent = |path: &PathBuf| host.list(path).is_err_and(|e| e.is_absent());
    if entry.witness.as_ref().is_some_and(absent)
        && let Some(elsewhere) = moved(host, entry)
    {
        return elsewhere;
    }
    if entry.witness.as_ref().is_some_and(|handler| is_anothers(host, handler)) {
        return Now::Gone;
    }
    match read_text(host, &entry.path) {
        Ok(text) if lost_its_cpus(host, entry, &text) => Now::Displaced(text),
        Ok(text) => Now::Text(text),
        Err(e) if e.is_absent() => Now::Gone,
        Err(e) => Now::Unreadable(format!("it can't be read ({})", e.reason())),
    }
}

/// True if an interrupt number is another line's by now. Without any handler it is nobody's: its
/// driver frees the handler when the device is set down, and the mask waits there for the next
/// (kernel/irq/manage.c `irq_setup_affinity` keeps what a user has set).
fn is_anothers(host: &dyn HostRead, handler: &Path) -> bool {
    let is_gone = |path: &Path| host.list(path).is_err_and(|e| e.is_absent());
    let Some(line) = handler.parent().filter(|_| is_gone(handler)) else { return false };
    let names = host.list(line).unwrap_or_default();
    // Only handlers are directories there.
    names.iter().any(|name| host.list(&line.join(name)).is_ok())
}

/// True if the CPUs that a line was sent to are all offline, and the kernel has let it go to every
/// other (kernel/irq/cpuhotplug.c `migrate_one_irq`).
fn lost_its_cpus(host: &dyn HostRead, entry: &Entry, now: &str) -> bool {
    let cpus = |text: &str| match meaning(&entry.knob, text) {
        Ok(Value::Cpus(set)) => Some(set),
        _ => None,
    };
    let is_irq = matches!(entry.knob, Knob::IrqAffinity { .. });
    let (true, Some(now)) = (is_irq, cpus(now)) else { return false };
    let online = host.text(Path::new("/sys/devices/system/cpu/online")).ok();
    let Some(online) = online.and_then(|list| list.parse::<CpuSet>().ok()) else { return false };
    let away =
        |text: &String| cpus(text).is_some_and(|set| !set.iter().any(|cpu| online.contains(cpu)));
    online.is_subset(&now) && !entry.after.is_empty() && entry.after.iter().all(away)
}

/// Finds the interrupt line of a journal's entry, whose number may be another by now: the handler's
/// directory shows it (`register_handler_proc`, kernel/irq/proc.c).
fn moved(host: &dyn HostRead, entry: &Entry) -> Option<Now> {
    // Values of ours are not carried over to a line that was made anew by others.
    if !entry.after.is_empty() {
        return None;
    }
    let action = entry.witness.as_ref()?.file_name()?;
    let lines = host.list(Path::new("/proc/irq")).ok()?;
    let mut found = lines.iter().filter(|line| line.parse::<u32>().is_ok()).filter_map(|line| {
        let directory = Path::new("/proc/irq").join(line);
        host.list(&directory.join(action)).is_ok().then_some(directory)
    });
    let line: PathBuf = found.next()?.join("smp_affinity");
    // Two lines of one name: nobody knows which it was.
    if found.next().is_some() {
        return None;
    }
    let text = read_text(host, &line).ok()?;
    Some(Now::Elsewhere { path: line, text })
}
