//! Settings put back as linerate left them, in a transaction of their own.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::change::apply::{self, Changer};
use crate::cli::context::Context;
use crate::cli::shared::persisted;
use crate::error::Result;
use crate::machine::discover;
use crate::machine::host::HostRead;
use crate::machine::store::StateDir;
use crate::model::knob::Knob;
use crate::model::plan::{Candidate, Change};
use crate::model::watch::Event;

/// True while another linerate changes settings, or a change waits to be confirmed: what differs now may
/// be meant to.
pub(super) fn is_busy(host: &dyn HostRead, state: &StateDir) -> bool {
    let holder = state.lock_holder().filter(|_| state.has_lock_file());
    // Whoever was killed with it holds it no more.
    let lives = |pid: u32| host.list(&Path::new("/proc").join(pid.to_string())).is_ok();
    holder.is_some_and(|(pid, _)| lives(pid)) || state.armed().is_ok_and(|armed| armed.is_some())
}

/// Puts settings back that are still not as they were left, and tells of it. One that fails leaves all of
/// them as they are.
///
/// # Errors
/// Not supported while another linerate changes settings: it was not tried.
pub(super) fn put_back(context: &Context, at: &StateDir, knobs: &[Knob]) -> Result<Vec<Event>> {
    let host = context.live("watch")?;
    let mut changer = Changer::begin(host, at, "watch", Duration::ZERO, discover::snapshot)?;
    // Looked at under the lock: what was rolled back meanwhile is nobody's to put back.
    let kept = persisted::kept(host, at)?;
    let still = kept.drift.into_iter().filter(|one| knobs.contains(&one.knob));
    let settings: Vec<Change> = still
        .filter_map(|one| {
            let after = one.value?;
            let reason = "somebody changed it".to_owned();
            Some(Change { knob: one.knob, before: after.clone(), after, reason })
        })
        .collect();
    let candidate = Candidate {
        name: "put-back".into(),
        title: "settings as linerate left them".into(),
        reason: "somebody changed them".into(),
        settings,
    };
    let done = changer.apply(&candidate, &AtomicBool::new(false));
    if let Err(e) = apply::forget_covered(changer.lock()) {
        log::warn!("{e}");
    }
    Ok(match done {
        Ok(applied) => {
            let told = applied.writes.iter().map(|write| {
                let words =
                    format!("{} is put back from {} to {}", write.knob, write.before, write.after);
                Event::told("put-back", write.knob.to_string(), words)
            });
            told.collect()
        }
        Err(e) => vec![Event::told("put-back-failed", "", e.to_string())],
    })
}
