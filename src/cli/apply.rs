//! `linerate apply`: makes the changes of a plan, all or nothing.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::interrupt;
use super::shared::waiting::{self, Probes};
use super::shared::{deadline, persisted, session, syslog};
use crate::change::apply::pending::{Patience, split};
use crate::change::apply::{self, Changer, Write, check_fits, deadman, time_left};
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::FLOW_TABLE;
use crate::machine::store;
use crate::machine::store::deadman::Target;
use crate::model::knob::{Knob, Value};
use crate::model::plan::Plan;
use crate::model::snapshot::Snapshot;
use crate::report::document::Table;

/// `apply`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  linerate apply --confirm 60s        # undone after a minute, unless you say:
  linerate confirm
  linerate apply --dry-run plan.toml  # prints the writes, and makes none")]
pub struct ApplyArgs {
    /// The plan file
    #[arg(value_name = "PLAN", default_value = "plan.toml")]
    pub plan: PathBuf,
    /// Print the exact writes and make none
    #[arg(long)]
    pub dry_run: bool,
    /// Undo everything after this many seconds unless `linerate confirm` comes first
    #[arg(long, value_name = "TIME", value_parser = deadline, conflicts_with = "dry_run")]
    pub confirm: Option<f64>,
    /// Make the changes without --confirm though this session comes in over the network, and may be cut
    /// off by them
    #[arg(long, conflicts_with = "confirm")]
    pub no_confirm: bool,
    /// Also keep it in force over reboots and for devices that come later (see `persist`)
    #[arg(long, conflicts_with_all = ["confirm", "dry_run"])]
    pub persist: bool,
    /// Let the settings of any device that is not here wait for it, instead of refusing the plan
    #[arg(long)]
    pub pending: bool,
    /// With --confirm, also undo it as soon as this address stops answering pings that it answered
    /// before; may be repeated [default: the default gateways]
    #[arg(long, value_name = "ADDRESS", requires = "confirm", conflicts_with = "no_confirm")]
    pub probe: Vec<Target>,
    /// With --confirm, watch no address
    #[arg(long, requires = "confirm", conflicts_with_all = ["probe", "no_confirm"])]
    pub no_probe: bool,
}

impl ApplyArgs {
    fn probes(&self) -> Probes<'_> {
        match self.probe.as_slice() {
            _ if self.no_probe => Probes::None,
            [] => Probes::Gateways,
            targets => Probes::Named(targets),
        }
    }
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &ApplyArgs) -> Result<ExitCode> {
    let host = context.live("apply")?;
    let out = &context.out;
    let whole = store::plan::read(&args.plan)?;
    if args.dry_run {
        return dry_run(context, args, &whole);
    }
    if args.confirm.is_none() && !args.no_confirm {
        refuse_from_afar(context, args)?;
    }
    // Found out before anything is changed.
    let keep = if args.persist { Some(persisted::target(context, None, None)?) } else { None };
    let stop: std::sync::Arc<AtomicBool> = interrupt::stop_flag()?;
    let verb = format!("apply {}", args.plan.display());
    let state = store::state_dir();
    let later = out.later();
    let mut changer = Changer::begin(host, &state, &verb, Duration::ZERO, discover::snapshot)?;
    changer.notes.iter().for_each(|note| out.say(note));
    let plan = fitting(context, args, &whole, changer.snapshot())?;
    let (guarded, guard) = match args.confirm {
        Some(seconds) => {
            waiting::arm(context, changer.lock(), &args.probes(), seconds).map(Some)?
        }
        None => None,
    }
    .unzip();
    let applied = match changer.apply(&plan.candidate, &stop) {
        Ok(applied) if !applied.writes.is_empty() => applied,
        other => {
            // Nothing is in force that would have to be confirmed.
            if let Some(armed) = &guarded {
                deadman::release(changer.lock(), armed)?;
            }
            other?
        }
    };
    applied.notes.iter().for_each(|note| out.say(note));
    if out.json {
        out.json(&written(&applied.writes))?;
    } else if !applied.writes.is_empty() {
        let mut table = Table::new(&["set", "from", "to"]);
        for w in &applied.writes {
            table.row([w.knob.to_string(), w.before.to_string(), w.after.to_string()]);
        }
        out.tell(out.table(&table).join("\n"))?;
    }
    if let (Some(armed), false) = (&guarded, applied.writes.is_empty()) {
        out.say(out.warn(format_args!(
            "undone in {:.0} s unless you say: linerate confirm",
            time_left(armed).as_secs_f64()
        )));
    }
    if !applied.writes.is_empty() {
        out.say(format_args!(
            "{} settings made and read back, {} were so already; check: linerate verify {}; undo: \
             linerate rollback",
            applied.writes.len(),
            applied.already,
            args.plan.display()
        ));
    }
    let staged = |w: &&Write| w.knob == Knob::PacketSteering || w.before_text.contains(" sw:");
    for write in applied.writes.iter().filter(staged) {
        out.say(format_args!(
            "{} is staged in uci and not committed: rollback takes it back, also out of the file where \
             somebody else ran `uci commit`",
            write.knob
        ));
    }
    if let Some(target) = &keep {
        persisted::write(context, target, &whole, changer.lock())?;
    }
    drop(changer);
    if let Some(guard) = guard.filter(|_| !applied.writes.is_empty()) {
        waiting::await_memory(&guard);
    }
    later.print()?;
    if !applied.writes.is_empty() {
        let until = args.confirm.map(|s| format!(", undone after {s:.0} s unless confirmed"));
        syslog::note(
            context,
            &format!("{verb}: {} settings made{}", applied.writes.len(), until.unwrap_or_default()),
        );
    }
    match guarded.filter(|_| !applied.writes.is_empty()) {
        Some(armed) if !out.json && session::is_attended(out) => {
            waiting::count_down(context, &armed, &stop)
        }
        _ => Ok(ExitCode::Done),
    }
}

/// Asks, or refuses where nobody can be asked, when the session comes in over the network.
fn refuse_from_afar(context: &Context, args: &ApplyArgs) -> Result<()> {
    let Some(way) = session::from_afar(context.live("apply")?) else { return Ok(()) };
    let danger = format!(
        "this session comes in over the network ({way}), and nothing undoes a change that cuts it off"
    );
    if session::is_attended(&context.out) {
        context.out.say(context.out.warn(&danger));
        context.out.say("make the changes without --confirm? [y/N]");
        session::forget_typed();
        if session::line()
            .is_some_and(|answer| ["y", "yes"].contains(&answer.to_lowercase().as_str()))
        {
            return Ok(());
        }
        return Err(not_made(args, "not made".to_owned()));
    }
    Err(not_made(args, danger))
}

fn not_made(args: &ApplyArgs, why: String) -> Error {
    Error::usage("apply", why).hint(format!(
        "linerate apply --confirm 60 {} is undone after 60 s unless linerate confirm comes; \
         --no-confirm makes the changes all the same",
        args.plan.display()
    ))
}

/// The part of a plan that can be set now; names what has to wait.
fn fitting(context: &Context, args: &ApplyArgs, plan: &Plan, snapshot: &Snapshot) -> Result<Plan> {
    let patience = if args.pending { Patience::All } else { Patience::ByPlan };
    let (now, waiting) = split(context.live("apply")?, plan, snapshot, patience);
    for one in &waiting {
        context.out.say(format_args!("pending: {} to {}: {}", one.knob, one.wanted, one.why));
    }
    check_fits(&now, snapshot)?;
    Ok(now)
}

/// Shows what would be written.
fn dry_run(context: &Context, args: &ApplyArgs, whole: &Plan) -> Result<ExitCode> {
    let (host, out) = (context.live("apply")?, &context.out);
    let snapshot = discover::snapshot(host);
    let plan = fitting(context, args, whole, &snapshot)?;
    let prepared = apply::prepare(host, &snapshot, &plan.candidate)?;
    if out.json {
        out.json(&written(&prepared.writes))?;
    } else {
        let lines =
            prepared.writes.iter().map(|w| format!("{}  # now {}", by_hand(w), w.before_text));
        out.data(lines.collect::<Vec<_>>().join("\n"))?;
        out.say(format_args!("{} writes, none made", prepared.writes.len()));
    }
    Ok(ExitCode::Done)
}

/// The command that does it by hand: a setting that is no file has a program of its own.
fn by_hand(write: &Write) -> String {
    let after = &write.after;
    match &write.knob {
        Knob::Coalesce { device, parameter } => format!("ethtool -C {device} {parameter} {after}"),
        Knob::Ring { device, direction } => format!("ethtool -G {device} {direction} {after}"),
        Knob::Channels { device, direction } => format!("ethtool -L {device} {direction} {after}"),
        Knob::Offload { device, feature } => format!("ethtool -K {device} {feature} {after}"),
        Knob::RssTable { device } => match after {
            Value::Count(queues) => format!("ethtool -X {device} equal {queues}"),
            // ethtool has no way to give it bucket by bucket.
            list => format!("# {}: {list}", write.knob),
        },
        Knob::Qdisc { device } => match after {
            Value::Word(kind) if kind == "default" => format!("tc qdisc del dev {device} root"),
            kind => format!("tc qdisc replace dev {device} root {kind}"),
        },
        // Its process is known only once it is there.
        Knob::NapiThread { device, .. } => {
            format!("taskset -p {} PID_OF_napi/{device}", write.after_text)
        }
        Knob::PollerCpus { name } => {
            format!("taskset -p {} PID_OF_{name}", write.after_text)
        }
        Knob::Service { name } => {
            let verb = if *after == Value::Switch(true) { "start" } else { "stop" };
            format!("service {name} {verb}")
        }
        Knob::FlowOffload => offload_by_hand(write),
        Knob::PacketSteering => {
            let option = "network.@globals[0].packet_steering";
            match write.after_text.as_str() {
                "unset" => format!("uci delete {option}"),
                "0" => format!("uci set {option}=0; service packet_steering stop"),
                value => format!("uci set {option}={value}; service packet_steering start"),
            }
        }
        _ => format!("echo {} > {}", write.after_text, write.path.display()),
    }
}

fn offload_by_hand(write: &Write) -> String {
    let mut words = write.after_text.split(' ');
    let mode = words.next().unwrap_or_default();
    if write.before_text.contains("sw:") {
        let software = u8::from(mode != "off");
        let hardware = match mode {
            "hardware" => " && uci set firewall.@defaults[0].flow_offloading_hw=1",
            _ => "",
        };
        return format!(
            "uci set firewall.@defaults[0].flow_offloading={software}{hardware} && service firewall reload"
        );
    }
    if mode == "off" {
        return format!("nft delete table inet {FLOW_TABLE}");
    }
    let flags = if mode == "hardware" { " flags offload;" } else { "" };
    format!(
        "nft 'table inet {FLOW_TABLE} {{ flowtable ft {{ hook ingress priority 0; devices = {{ {} }};{flags} }}; \
         chain forward {{ type filter hook forward priority 10; ct state established flow add @ft; }}; }}'",
        words.collect::<Vec<_>>().join(", ")
    )
}

#[derive(serde::Serialize)]
struct Written {
    format: &'static str,
    version: u32,
    writes: Vec<JsonWrite>,
}

#[derive(serde::Serialize)]
struct JsonWrite {
    knob: Knob,
    path: String,
    before: String,
    after: String,
}

fn written(writes: &[Write]) -> Written {
    let writes = writes.iter().map(|w| JsonWrite {
        knob: w.knob.clone(),
        path: w.path.display().to_string(),
        before: w.before_text.clone(),
        after: w.after_text.clone(),
    });
    Written { format: "linerate-writes", version: 1, writes: writes.collect() }
}
