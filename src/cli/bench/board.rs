//! `linerate bench wireguard --board`: the figure that compares with the public table of boards, and
//! a fuller one beside it.

use super::args::BenchArgs;
use crate::cli::context::Context;
use crate::cli::interrupt;
use crate::error::{Error, ExitCode, Result};
use crate::machine::discover;
use crate::machine::host::clock;
use crate::machine::store;
use crate::measure::bench::board::{Extent, Measured, measure};
use crate::measure::lab::Shape;
use crate::measure::lab::pair::Pair;
use crate::model::board::{BoardCpu, BoardResult, BoardRun};
use crate::model::measurement::{Direction, EvidenceClass};
use crate::model::order::InOrder;
use crate::model::snapshot::{Machine, Snapshot};
use crate::report::document::Table;
use crate::report::rank as ranking;

/// Seconds of the public table's runs.
const COMPARABLE: f64 = 10.0;

/// Runs the command.
pub(super) fn run(context: &Context, args: &BenchArgs) -> Result<ExitCode> {
    if args.scenario != (Shape { wireguard: true, ..Shape::ROUTE }) {
        return Err(Error::usage("bench --board", "the board figure is one of WireGuard alone")
            .hint("linerate bench wireguard --board"));
    }
    let out = &context.out;
    args.board.output.iter().try_for_each(|path| args.board.force.check(path))?;
    let stop = interrupt::stop_flag()?;
    let lock = store::state_dir().lock("bench wireguard --board")?;
    let started = clock::wall();
    let snapshot = discover::snapshot(context.live("bench")?);
    let pair = Pair::build()?;
    let extent = Extent {
        comparable: args.board.board_seconds,
        repeats: args.board.repeats,
        seconds: args.load.seconds,
        omit: args.load.omit,
        streams: args.load.streams,
    };
    let measured = measure(&pair, &extent, &stop, &mut |now| out.progress(now));
    out.progress_done();
    // Read while the tunnel is there: its first use loads modules.
    let crypto = discover::snapshot(context.live("bench")?).kernel;
    let mtu = pair.mtu;
    drop(pair);
    drop(lock);
    let result = result(args, started, snapshot, crypto, mtu, measured?);
    if let Some(path) = &args.board.output {
        store::board::write(path, &result)?;
    }
    if out.json {
        out.json(&store::board::Envelope::of(&result))?;
    } else {
        // The row is to be copied as it is.
        out.data(format_args!("{HEAD}\n{}", result.row))?;
        out.tell(text(context, &result))?;
    }
    match &args.board.output {
        Some(path) => out.say(format_args!("result: {0}; next: linerate rank {0}", path.display())),
        None => out.say("keep it with -o FILE, and see where it stands: linerate rank FILE"),
    }
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(ExitCode::Interrupted);
    }
    Ok(if result.comparable.refusals.is_empty() { ExitCode::Done } else { ExitCode::Refused })
}

fn result(
    args: &BenchArgs,
    started: String,
    snapshot: Snapshot,
    kernel: crate::model::path::KernelFacts,
    tunnel_mtu: u32,
    Measured { comparable, runs }: Measured,
) -> BoardResult {
    let cpus: Vec<BoardCpu> = snapshot
        .cpus
        .iter()
        .filter(|c| c.online)
        .map(|c| BoardCpu {
            cpu: c.id,
            core_type: c.core_type.clone(),
            max_khz: c.max_khz,
            governor: c.governor.as_ref().map(|g| g.current.clone()),
            crypto: c.crypto.clone(),
        })
        .collect();
    let device = args.board.device.clone().unwrap_or_else(|| device(&snapshot.machine));
    let cores_used = comparable.cores();
    let mut result = BoardResult {
        program: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        started,
        class: EvidenceClass::Lab,
        machine: snapshot.machine,
        device,
        note: args.board.note.clone(),
        comparable,
        row: String::new(),
        runs,
        tunnel_mtu,
        cpus,
        cores_used,
        crypto: kernel.crypto,
        crypto_modules: kernel.crypto_modules,
        firewall_rules: 0,
        host_firewall_rules: snapshot.path.nftables.map(|n| n.rules),
        notes: vec![
            "built-in generator; the public table's figures are iperf3's".into(),
            "both ends are new namespaces without firewall rules; a machine whose own namespace is \
             one end, as in the public table, has its firewall in the figure"
                .into(),
        ],
    };
    result.row = row(&result);
    result
}

fn device(machine: &Machine) -> String {
    match (&machine.board, &machine.cpu_model) {
        (Some(board), Some(cpu)) => format!("{board} / {cpu}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => format!("unknown {}", machine.arch),
    }
}

/// The row of the public table.
fn row(result: &BoardResult) -> String {
    let machine = &result.machine;
    let mut notes: Vec<String> = result.note.iter().cloned().collect();
    if (result.comparable.seconds - COMPARABLE).abs() > 0.5 {
        notes.push(format!("{:.0} s instead of 10", result.comparable.seconds));
    }
    if let Some(refusal) = result.comparable.refusals.first() {
        notes.push(format!("refused: {}", refusal.why));
    }
    // A bar would end the cell.
    let cell = |text: &str| text.replace('|', "/").replace('\n', " ");
    format!(
        "| {} | {} / {} | {} | {} |",
        cell(&result.device),
        cell(machine.os.as_deref().unwrap_or("Linux")),
        cell(&machine.kernel),
        ranking::rate(result.comparable.sender.mbps()),
        cell(&notes.join("; "))
    )
}

/// The head of the public table of boards.
const HEAD: &str = "| Device / CPU | OS / Kernel | Speed | Note |\n| - | - | - | - |";

fn text(context: &Context, result: &BoardResult) -> String {
    let out = &context.out;
    let mut lines = vec![String::new()];
    if !result.runs.is_empty() {
        let mut table =
            Table::new(&["direction", "streams", "Mbit/s median", "lowest", "highest", "runs"]);
        let mut kinds: Vec<(Direction, u32)> = Vec::new();
        for run in &result.runs {
            let kind = (run.direction, run.streams);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        for (direction, streams) in kinds {
            let of_kind = |r: &&BoardRun| (r.direction, r.streams) == (direction, streams);
            let all: Vec<&BoardRun> = result.runs.iter().filter(of_kind).collect();
            let mut rates: Vec<f64> =
                all.iter().filter(|r| r.refusals.is_empty()).map(|r| r.receiver.mbps()).collect();
            rates.order_by(f64::total_cmp);
            let at = |i: usize| rates.get(i).map_or("-".into(), |r| format!("{r:.0}"));
            let way = match direction {
                Direction::Up => "host to namespace",
                Direction::Down | Direction::Both => "namespace to host",
            };
            let refused = all.len() - rates.len();
            let runs = if refused == 0 {
                all.len().to_string()
            } else {
                format!("{} ({refused} refused)", all.len())
            };
            table.row([
                way.into(),
                streams.to_string(),
                at(rates.len() / 2),
                at(0),
                at(rates.len().saturating_sub(1)),
                runs,
            ]);
        }
        lines.extend(out.table(&table));
    }
    lines.push(format!(
        "tunnel MTU {}; firewall rules: 0 in the namespaces{}",
        result.tunnel_mtu,
        result
            .host_firewall_rules
            .map_or_else(String::new, |n| format!(", {n} on the machine itself"))
    ));
    lines.push(format!("cores that worked: {}", cores(result)));
    lines.push(format!("crypto: {}", crypto(result)));
    for refusal in result.runs.iter().chain([&result.comparable]).flat_map(|r| &r.refusals) {
        lines.push(out.warn(format_args!("refused: {}", refusal.why)));
    }
    lines.extend(result.notes.iter().map(|n| out.dim(format_args!("note: {n}"))));
    lines.push(out.dim(format_args!("evidence: {}", result.class.meaning())));
    lines.join("\n")
}

/// `0 (Cortex-A53, 1416 MHz, schedutil), 4 (...)`
fn cores(result: &BoardResult) -> String {
    let told: Vec<String> = result
        .cores_used
        .iter()
        .map(|id| {
            let facts: Vec<String> = result
                .cpus
                .iter()
                .filter(|c| c.cpu == *id)
                .flat_map(|c| {
                    let clock = c.max_khz.map(|khz| format!("up to {} MHz", khz / 1000));
                    [c.core_type.clone(), clock, c.governor.clone()]
                })
                .flatten()
                .collect();
            let number = id.0.to_string();
            if facts.is_empty() { number } else { format!("{number} ({})", facts.join(", ")) }
        })
        .collect();
    if told.is_empty() { "none for more than 5 % of the time".into() } else { told.join(", ") }
}

fn crypto(result: &BoardResult) -> String {
    let mut told: Vec<String> = ["chacha20", "poly1305", "rfc7539(chacha20,poly1305)"]
        .iter()
        .filter_map(|name| result.crypto.get(*name).map(|driver| format!("{name} by {driver}")))
        .collect();
    if !result.crypto_modules.is_empty() {
        told.push(format!("modules {}", result.crypto_modules.join(" ")));
    }
    if told.is_empty() {
        told.push("built into the kernel, which does not tell its implementation".into());
    }
    told.join("; ")
}
