//! Received packets that are put together and passed on as one: as candidates where a card can, for
//! what they bring depends on the traffic.

use super::intake::Intake;
use crate::model::knob::{Knob, Value};
use crate::model::plan::{Candidate, Change};
use crate::model::snapshot::{NetDev, Snapshot};

/// Features by the kernel's names: that of the candidate, its title, and its reason.
pub(super) const LISTS: (&str, &str, &str) = (
    "rx-gro-list",
    "packets of a flow as a list through the stack",
    "packets of one flow take the stack as one and leave as they came: UDP from Linux 5.6 on, TCP \
     from 6.10 (net/ipv4/udp_offload.c, net/ipv4/tcp_offload.c)",
);
pub(super) const UDP: (&str, &str, &str) = (
    "rx-udp-gro-forwarding",
    "UDP packets that are passed on put together",
    "UDP packets of one flow take the stack as one, from Linux 5.12 on; the card or the kernel takes \
     them apart again on the way out",
);

/// Switches a feature on for every card that has it; `None` where there is no such card, or it is on.
pub(super) fn candidate(
    snapshot: &Snapshot,
    name: &str,
    (feature, title, reason): (&str, &str, &str),
) -> Option<Candidate> {
    let intake = Intake::of(snapshot);
    let off = |d: &&&NetDev| {
        let state = d.features.as_ref().and_then(|f| f.get(feature));
        d.is_hardware() && state.is_some_and(|s| s.changeable && !s.active)
    };
    let on = |device: &&NetDev| Change {
        knob: Knob::Offload { device: device.name.clone(), feature: feature.into() },
        before: Value::Switch(false),
        after: Value::Switch(true),
        reason: "packets of one flow are looked up once".into(),
    };
    let settings: Vec<Change> = intake.devices.iter().filter(off).map(on).collect();
    let (title, reason) = (title.into(), format!("{reason}; the cost model knows nothing of it"));
    (!settings.is_empty()).then(|| Candidate { name: name.into(), title, reason, settings })
}

/// True if a candidate asks for what the cost model knows nothing of.
pub(super) fn is_asked(candidate: &Candidate) -> bool {
    candidate.changes().any(|change| match &change.knob {
        Knob::Offload { feature, .. } => [LISTS.0, UDP.0].contains(&feature.as_str()),
        _ => false,
    })
}
