//! The files that keep a plan in force, for each init: a pure function of the plan. Their text lies
//! in packaging/, so that a package and `persist` install the same.

use std::path::{Path, PathBuf};

use super::uci;
use super::{Init, PLAN};
use crate::error::{Error, Result};
use crate::model::knob::Knob;
use crate::model::plan::Plan;
use crate::store;
use crate::store::disk::Thing;

/// Where the templates think the program is.
const PACKAGED: &str = "/usr/bin/linerate";

/// Something on the flash that has to be so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A file or a link.
    File {
        /// Its path.
        path: PathBuf,
        /// What it is.
        thing: Thing,
    },
    /// An option in a UCI file, whose other lines stay.
    Option {
        /// The file.
        path: PathBuf,
        /// Kind of the section.
        kind: String,
        /// Name of the option.
        option: String,
        /// Its value.
        value: String,
    },
}

impl Wanted {
    fn file(path: &str, mode: u32, text: impl Into<String>) -> Self {
        Self::File { path: path.into(), thing: Thing::text(mode, text) }
    }

    fn link(path: &str, to: &str) -> Self {
        Self::File { path: path.into(), thing: Thing::Link(to.into()) }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Option { path, .. } => path,
        }
    }

    /// For a person: a heading, and the content.
    #[must_use]
    pub fn printed(&self) -> String {
        match self {
            Self::File { path, thing: Thing::File { mode, .. } } => {
                let text = match self {
                    Self::File { thing, .. } => thing.as_text().unwrap_or_default(),
                    Self::Option { .. } => "",
                };
                format!("==> {} (mode {mode:04o})\n{text}", path.display())
            }
            Self::File { path, thing: Thing::Link(to) } => {
                format!("==> {} -> {to}\n", path.display())
            }
            Self::File { path, thing: Thing::Absent } => format!("==> {} (none)\n", path.display()),
            Self::Option { path, kind, option, value } => {
                let place = uci::Place { kind: kind.clone(), option: option.clone() };
                let line = uci::line(&place, value);
                format!("==> {}, in section {kind}, this line alone\n{line}\n", path.display())
            }
        }
    }
}

/// All of them, in the order in which they are made. `own_steering` says that this OpenWrt's
/// packet_steering service runs a platform hook where there is one (24.10 and later).
///
/// # Errors
/// Usage when the program's path can't stand in a unit or a script; as [`store::plan::to_text`].
pub fn wanted(init: Init, program: &str, plan: &Plan, own_steering: bool) -> Result<Vec<Wanted>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    if !program.starts_with('/') || !program.chars().all(plain) {
        let what = format!("persist {program}");
        return Err(Error::usage(what, "such a path can't stand in units and scripts")
            .hint(format!("install the program as {PACKAGED}")));
    }
    let text = |template: &str| template.replace(PACKAGED, program);
    let mut list = vec![Wanted::file(PLAN, 0o644, store::plan::to_text(plan)?)];
    match init {
        Init::Systemd => {
            const UNITS: &str = "/etc/systemd/system";
            for (name, template) in [
                ("linerate.service", include_str!("../../packaging/systemd/linerate.service")),
                (
                    "linerate-stayed.service",
                    include_str!("../../packaging/systemd/linerate-stayed.service"),
                ),
                (
                    "linerate-stayed.timer",
                    include_str!("../../packaging/systemd/linerate-stayed.timer"),
                ),
            ] {
                list.push(Wanted::file(&format!("{UNITS}/{name}"), 0o644, text(template)));
            }
            // What `systemctl enable` makes of their [Install] sections.
            for (target, unit) in
                [("sysinit", "linerate.service"), ("timers", "linerate-stayed.timer")]
            {
                let path = format!("{UNITS}/{target}.target.wants/{unit}");
                list.push(Wanted::link(&path, &format!("../{unit}")));
            }
            let rules = text(include_str!("../../packaging/systemd/90-linerate.rules"));
            list.push(Wanted::file("/etc/udev/rules.d/90-linerate.rules", 0o644, rules));
        }
        Init::OpenWrt => {
            let script = |path: &str, template| Wanted::file(path, 0o755, text(template));
            list.push(script(
                "/etc/init.d/linerate",
                include_str!("../../packaging/openwrt/linerate.init"),
            ));
            // What `/etc/init.d/linerate enable` makes of its START.
            list.push(Wanted::link("/etc/rc.d/S96linerate", "../init.d/linerate"));
            list.push(script(
                "/etc/hotplug.d/net/60-linerate",
                include_str!("../../packaging/openwrt/net.hotplug"),
            ));
            list.push(script(
                "/etc/hotplug.d/iface/60-linerate",
                include_str!("../../packaging/openwrt/iface.hotplug"),
            ));
            // All that OpenWrt's packet-steering.uc writes.
            let steers = |knob: &Knob| {
                matches!(
                    knob,
                    Knob::RpsCpus { .. } | Knob::RpsFlowCnt { .. } | Knob::NapiThread { .. }
                )
            };
            if plan.candidate.settings.iter().any(|change| steers(&change.knob)) {
                list.push(Wanted::Option {
                    path: "/etc/config/network".into(),
                    kind: "globals".into(),
                    option: "packet_steering".into(),
                    value: "0".into(),
                });
                if own_steering {
                    list.push(script(
                        "/usr/libexec/platform/packet-steering.sh",
                        include_str!("../../packaging/openwrt/packet-steering.sh"),
                    ));
                }
            }
        }
    }
    Ok(list)
}
