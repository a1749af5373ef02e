//! The WAN, and when it is lost: the gateways of the default routes answer, or at least there is a route.

use std::path::Path;

use crate::change::apply::probe::{Before, ask, gateways};
use crate::decide::watch::Sign;
use crate::machine::host::HostRead;
use crate::machine::parse::route;
use crate::machine::store::deadman::Target;

/// Looks in a row that make it lost.
const LOOKS: u32 = 3;

/// Knowledge of the way out.
#[derive(Default)]
pub(super) struct Wan {
    /// Gateways that have answered: one that never did is not lost.
    answered: Vec<Target>,
    had_route: bool,
}

impl Wan {
    /// Asks every gateway; takes two seconds where one is silent.
    pub(super) fn look(&mut self, host: &dyn HostRead) -> Vec<Sign> {
        let read = |path: &str| host.read(Path::new(path)).unwrap_or_default();
        let v4 = route::defaults(&read("/proc/net/route"));
        let v6 = route::defaults_v6(&read("/proc/net/ipv6_route"));
        let has_route = !v4.is_empty() || !v6.is_empty();
        if !has_route {
            let words = "there is no default route any more".to_owned();
            return self
                .had_route
                .then(|| Sign::new("wan-lost", "", LOOKS, words))
                .into_iter()
                .collect();
        }
        self.had_route = true;
        let mut signs = Vec::new();
        let asked = ask(gateways(host));
        // A gateway that the routes do not name any more is nobody's loss.
        self.answered.retain(|known| asked.iter().any(|(target, _)| target == known));
        for (target, before) in asked {
            match before {
                Before::Answers | Before::AsNeighbour => {
                    if !self.answered.contains(&target) {
                        self.answered.push(target);
                    }
                }
                Before::Silent | Before::Unasked(_) if self.answered.contains(&target) => {
                    let words =
                        format!("the gateway {target} answers neither ping nor as a neighbour");
                    signs.push(Sign::new("wan-lost", target.to_string(), LOOKS, words));
                }
                Before::Silent | Before::Unasked(_) => {}
            }
        }
        signs
    }
}
