//! `linerate apply`: makes the changes of a plan, all or nothing.

use std::sync::atomic::AtomicBool;

use super::args::ApplyArgs;
use super::context::Context;
use super::table::Table;
use super::{confirm, interrupt, persist};
use crate::apply::pending::{Patience, split};
use crate::apply::{self, Write};
use crate::discover;
use crate::error::Result;
use crate::exit_code::ExitCode;
use crate::host::FLOW_TABLE;
use crate::model::knob::{Knob, Value};
use crate::store;

/// Runs the command.
pub(super) fn run(context: &Context, args: &ApplyArgs) -> Result<ExitCode> {
    let host = context.live("apply")?;
    let out = &context.out;
    let plan = store::plan::read(&args.plan)?;
    let snapshot = discover::snapshot(host);
    let patience = if args.pending { Patience::All } else { Patience::ByPlan };
    let whole = plan;
    let (plan, waiting) = split(host, &whole, &snapshot, patience);
    for one in &waiting {
        out.say(format_args!("pending: {} to {}: {}", one.knob, one.wanted, one.why));
    }
    store::plan::check_machine(&plan, &snapshot)?;
    if args.dry_run {
        let prepared = apply::prepare(host, &snapshot, &plan.candidate)?;
        if out.json {
            out.json(&written(&prepared.writes))?;
        } else {
            let lines =
                prepared.writes.iter().map(|w| format!("{}  # now {}", by_hand(w), w.before_text));
            out.data(lines.collect::<Vec<_>>().join("\n"))?;
            out.say(format_args!("{} writes, none made", prepared.writes.len()));
        }
        return Ok(ExitCode::Done);
    }
    // Found out before anything is changed.
    let keep = if args.persist { Some(persist::target(context, None, None)?) } else { None };
    let stop: std::sync::Arc<AtomicBool> = interrupt::stop_flag()?;
    let lock = confirm::lock(context, &format!("apply {}", args.plan.display()))?;
    let guarded = match args.confirm {
        Some(seconds) => Some(confirm::arm(context, &lock, args, seconds)?),
        None => None,
    };
    let look = || discover::snapshot(host);
    let applied = match apply::apply_looking(host, &snapshot, &look, &plan.candidate, &lock, &stop)
    {
        Ok(applied) if !applied.writes.is_empty() => applied,
        other => {
            // Nothing is in force that would have to be confirmed.
            if guarded.is_some() {
                lock.state().disarm(&lock)?;
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
        out.data(table.lines().join("\n"))?;
    }
    if let (Some(armed), false) = (&guarded, applied.writes.is_empty()) {
        out.say(out.warn(format_args!(
            "undone in {:.0} s unless you say: linerate confirm",
            confirm::left(armed).as_secs_f64()
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
    if let Some(target) = &keep {
        persist::write(context, target, &whole, &lock)?;
    }
    Ok(ExitCode::Done)
}

/// How one would do it by hand: what is no file has a program of its own.
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
