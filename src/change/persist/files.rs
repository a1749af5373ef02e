//! The files that keep a plan in force, for each init: a pure function of the plan. Their text lies
//! in packaging/, so that a package and `persist` install the same.

use std::path::{Path, PathBuf};

use super::{Init, PLAN};
use crate::error::{Error, Result};
use crate::machine::host::PACKET_STEERING;
use crate::machine::parse::uci_edit as uci;
use crate::machine::store;
use crate::machine::store::disk::Thing;
use crate::model::knob::Value;
use crate::model::knob::spec::{Keep, Rival};
use crate::model::plan::{Change, Plan};

/// Path of the program in the templates.
const PACKAGED: &str = "/usr/bin/linerate";

/// Something on the flash that has to be so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A file or a link.
    File {
        /// Path.
        path: PathBuf,
        /// Kind and content.
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
        /// Value of the option.
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

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Option { path, .. } => path,
        }
    }

    /// Text for a person: a heading, and the content.
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
                let place = uci::OptionPlace { kind: kind.clone(), option: option.clone() };
                let line = uci::line(&place, value);
                format!("==> {}, in section {kind}, this line alone\n{line}\n", path.display())
            }
        }
    }
}

/// List of files that sysupgrade keeps beside /etc/config (base-files, /sbin/sysupgrade, `add_uci_conffiles`).
const KEEP: &str = "/lib/upgrade/keep.d/linerate";

/// Script that OpenWrt's packet_steering service runs instead of its own.
pub const STEERING_HOOK: &str = "/usr/libexec/platform/packet-steering.sh";

/// Properties of the router that the files depend on beside the plan.
#[derive(Debug, Clone, Default)]
pub struct Router {
    /// This OpenWrt's packet_steering service runs a platform hook where there is one (24.10 and
    /// later).
    pub own_steering: bool,
    /// Value of packet_steering before anything was persisted; `None` where it was not set.
    pub former: Option<String>,
    /// The program is a part of OpenWrt's image, so that an upgrade brings another.
    pub program_in_image: bool,
}

/// All files for one init, in the order in which they are made.
///
/// # Errors
/// Usage when the program's path can't stand in a unit or a script; as [`store::plan::to_text`].
pub fn wanted(init: Init, program: &str, plan: &Plan, router: &Router) -> Result<Vec<Wanted>> {
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
                ("linerate.service", include_str!("../../../packaging/systemd/linerate.service")),
                (
                    "linerate-stayed.service",
                    include_str!("../../../packaging/systemd/linerate-stayed.service"),
                ),
                (
                    "linerate-stayed.timer",
                    include_str!("../../../packaging/systemd/linerate-stayed.timer"),
                ),
            ] {
                list.push(Wanted::file(&format!("{UNITS}/{name}"), 0o644, text(template)));
            }
            let mut enabled =
                vec![("sysinit", "linerate.service"), ("timers", "linerate-stayed.timer")];
            // When the rest is set, systemd has yet to start what is to be stopped.
            let late = |c: &Change| c.knob.spec().is_some_and(|spec| spec.keep == Keep::Late);
            if plan.candidate.settings.iter().any(late) {
                let name = "linerate-services.service";
                let unit =
                    text(include_str!("../../../packaging/systemd/linerate-services.service"));
                list.push(Wanted::file(&format!("{UNITS}/{name}"), 0o644, unit));
                enabled.push(("multi-user", name));
            }
            // What `systemctl enable` makes of their [Install] sections.
            for (target, unit) in enabled {
                let path = format!("{UNITS}/{target}.target.wants/{unit}");
                list.push(Wanted::link(&path, &format!("../{unit}")));
            }
            let rules = text(include_str!("../../../packaging/systemd/90-linerate.rules"));
            list.push(Wanted::file("/etc/udev/rules.d/90-linerate.rules", 0o644, rules));
        }
        Init::OpenWrt => {
            let script = |path: &str, template| Wanted::file(path, 0o755, text(template));
            list.push(script(
                "/etc/init.d/linerate",
                include_str!("../../../packaging/openwrt/linerate.init"),
            ));
            // What `/etc/init.d/linerate enable` makes of its START.
            list.push(Wanted::link("/etc/rc.d/S96linerate", "../init.d/linerate"));
            list.push(script(
                "/etc/hotplug.d/net/60-linerate",
                include_str!("../../../packaging/openwrt/net.hotplug"),
            ));
            list.push(script(
                "/etc/hotplug.d/iface/60-linerate",
                include_str!("../../../packaging/openwrt/iface.hotplug"),
            ));
            if let Some(value) = steering(plan) {
                list.push(Wanted::Option {
                    path: PACKET_STEERING.file(),
                    kind: PACKET_STEERING.kind.into(),
                    option: PACKET_STEERING.option.into(),
                    value: value.to_owned(),
                });
                if router.own_steering && value == "0" {
                    let template = include_str!("../../../packaging/openwrt/packet-steering.sh");
                    let former = router.former.as_deref().unwrap_or_default();
                    let hook = text(template).replace("former=''", &format!("former='{former}'"));
                    list.push(Wanted::file(STEERING_HOOK, 0o755, hook));
                }
            }
            // Else an upgrade of OpenWrt would leave packet_steering at 0, and nothing that steers.
            let program = (!router.program_in_image).then_some(Path::new(program));
            let paths = list.iter().map(Wanted::path).filter(|p| !p.starts_with("/etc/config"));
            let kept: Vec<String> = paths
                .chain([Path::new(super::HOME), Path::new(KEEP)])
                .chain(program)
                .map(|path| format!("{}\n", path.display()))
                .collect();
            list.push(Wanted::file(KEEP, 0o644, kept.concat()));
        }
    }
    Ok(list)
}

/// Value of OpenWrt's packet_steering with which a plan lasts; `None` where it does not matter. A
/// value in the plan itself has precedence.
fn steering(plan: &Plan) -> Option<&str> {
    let all = || plan.candidate.settings.iter();
    let option = |c: &&Change| c.knob.spec().is_some_and(|spec| spec.keep == Keep::Uci);
    let told = all().find(option);
    match told.map(|change| &change.after) {
        Some(Value::Word(word)) => (word != "unset").then_some(word.as_str()),
        _ => all().any(|change| change.knob.rival() == Rival::Steering).then_some("0"),
    }
}
