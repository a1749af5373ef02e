//! Our generator, sender of small packets and sampler beside the tools that people know: `cargo
//! bench --bench generators`, as root, prints each ratio and asserts none. Both sides of a pair run
//! next to each other, and the order alternates; figures of different runs say nothing.
//!
//! Wanted: goodput of TCP at 0.97 times that of iperf3 or more, for less CPU per gigabit; 1.5 times
//! the packets of `iperf3 -u -l 64`; a sampler under 1 % of a CPU at 1 Hz, in less than 4 MB.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench prints")]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linerate::bench::{Context, against};
use linerate::experiment::stats::{mean, median};
use linerate::lab::{Lab, LabSpec};
use linerate::load::{self, LoadSpec, Sender, iperf3};
use linerate::model::measurement::Direction;

const PAIRS: u32 = 15;

fn main() {
    let lab = match Lab::build(&LabSpec::default()) {
        Ok(lab) => lab,
        Err(e) => return println!("not run: {e}"),
    };
    let context = Context::of_lab(&lab, 1500, None);
    tcp(&context);
    small_packets(&context);
    drop(context);
    drop(lab);
    sampler();
}

/// Standard deviation over the mean, per cent: what repeating one measurement looks like.
fn spread(values: &[f64]) -> f64 {
    let mean = mean(values).unwrap();
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt() / mean * 100.0
}

fn tcp(context: &Context) {
    for streams in [1, 4, 16] {
        let spec = LoadSpec::tcp(Direction::Up, streams, 2.0, 0.0);
        match against::against_iperf3(context, &spec, PAIRS, &AtomicBool::new(false)) {
            Ok(found) => {
                let side = |of: fn(&against::Pair) -> f64| {
                    spread(&found.pairs.iter().map(of).collect::<Vec<_>>())
                };
                println!(
                    "TCP, {streams} streams, against {}: {:.2} times the goodput at {:.2} times the \
                     CPU per gigabit; spread {:.0} %, of iperf3 {:.0} %",
                    found.version,
                    found.goodput_ratio,
                    found.cpu_ratio,
                    side(|p| p.ours.goodput.0),
                    side(|p| p.theirs.goodput.0),
                );
            }
            Err(e) => println!("TCP, {streams} streams: not run: {e}"),
        }
    }
}

/// Datagrams of 64 bytes per second of one sender, as fast as it goes.
fn small_packets(context: &Context) {
    let stop = AtomicBool::new(false);
    let plain = LoadSpec { datagram: 64, ..LoadSpec::udp(Direction::Up, 1, 2.0, None) };
    let frames = LoadSpec { sender: Sender::Frames, ..plain.clone() };
    let mut server = match iperf3::serve(&context.ends) {
        Ok(server) => server,
        Err(e) => return println!("small packets: not run: {e}"),
    };
    let ours = || {
        let run = load::run(&context.ends, &frames, &stop, &mut |_| ()).unwrap();
        run.flows[0].window_sent as f64 / 64.0 / run.seconds
    };
    let mut theirs = || {
        let report = iperf3::run(&mut server, &context.ends, &plain, &stop).unwrap();
        let flow = &report.flows[0];
        flow.datagrams.unwrap().0 as f64 / flow.seconds
    };
    let pair = |n| if n % 2 == 0 { ours() / theirs() } else { 1.0 / (theirs() / ours()) };
    let ratios: Vec<f64> = (0..PAIRS).map(pair).collect();
    println!(
        "small packets: {:.2} times what iperf3 -u -l 64 offers (pairs from {:.2} to {:.2})",
        median(&ratios).unwrap(),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max),
    );
}

/// `record` and `mpstat` at once for half a minute.
fn sampler() {
    let start = |program: &str, args: &[&str]| {
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let mut record = start(env!("CARGO_BIN_EXE_linerate"), &["record"]).unwrap();
    let mpstat = start("mpstat", &["-P", "ALL", "1"]);
    let seconds = 30;
    std::thread::sleep(Duration::from_secs(seconds));
    let share = |child: &Child| {
        // Nanoseconds on a CPU (Documentation/scheduler/sched-stats.rst).
        let path = format!("/proc/{}/schedstat", child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let ns = text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN);
        ns / 1e7 / seconds as f64
    };
    let ours = share(&record);
    let status = std::fs::read_to_string(format!("/proc/{}/status", record.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: ?");
    record.kill().unwrap();
    record.wait().unwrap();
    match mpstat {
        Ok(mut child) => {
            let theirs = share(&child);
            child.kill().unwrap();
            child.wait().unwrap();
            println!("record at 1 Hz: {ours:.3} % of one CPU, mpstat 1: {theirs:.3} %; {peak}");
        }
        Err(e) => println!("record at 1 Hz: {ours:.3} % of one CPU; mpstat not run: {e}; {peak}"),
    }
}
