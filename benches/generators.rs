//! Our generator, senders of small packets, headroom and sampler beside the tools that people know:
//! `cargo bench --bench generators`, as root, prints each ratio and asserts none; with names (`-- tcp
//! small`) only those. Both sides of a pair run next to each other, and the order alternates; figures
//! of different runs say nothing. What came of it is in docs/bench.md.
//!
//! Wanted: goodput of TCP at 0.97 times that of iperf3 or more, for less CPU per gigabit; 1.5 times
//! the packets of `iperf3 -u -l 64`, and about 0.6 million packets per second of one AF_PACKET sender
//! on a quiet machine; a sampler under 1 % of a CPU at 1 Hz, in less than 4 MB; a spread over fifty
//! runs no wider than that of iperf3.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench prints")]

use std::io::IoSlice;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linerate::decide::experiment::stats::{mean, median};
use linerate::machine::sys::netns::NetnsThread;
use linerate::machine::sys::packet::PacketSocket;
use linerate::machine::sys::xsk::XdpSender;
use linerate::measure::bench::{Context, against, beside};
use linerate::measure::lab::{Lab, LabSpec};
use linerate::measure::load::{self, LoadSpec, Sender, iperf3};
use linerate::model::measurement::Direction;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

const PAIRS: u32 = 15;
/// Runs of the one measurement that is repeated.
const FIFTY: u32 = 50;

fn main() {
    // What `cargo bench` itself hands over begins with a dash.
    let asked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|a| a == name);
    let lab = match Lab::build(&LabSpec::default()) {
        Ok(lab) => lab,
        Err(e) => return println!("not run: {e}"),
    };
    let context = Context::of_lab(&lab, 1500, None);
    let parts: [(&str, &dyn Fn()); 6] = [
        ("tcp", &|| tcp(&context)),
        ("small", &|| small_packets(&context)),
        ("exits", &exits),
        ("fifty", &|| fifty(&context)),
        ("headroom", &|| headroom(&context)),
        ("sampler", &sampler),
    ];
    for (name, part) in parts {
        if wanted(name) {
            let before = load();
            part();
            println!("  ({name}: load of the machine {before} before it, {} after)", load());
        }
    }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Standard deviation over the mean, per cent: what repeating one measurement looks like.
fn spread(values: &[f64]) -> f64 {
    let mean = mean(values).unwrap();
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt() / mean * 100.0
}

fn tcp(context: &Context) {
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let control = context.ends.lan.run(read).unwrap().unwrap_or_default();
    println!("TCP: both generators with the kernel's congestion control, {}", control.trim());
    for streams in [1, 4, 16] {
        let spec = LoadSpec::tcp(Direction::Up, streams, 2.0, 0.0);
        match against::against_iperf3(context, &spec, PAIRS, &AtomicBool::new(false)) {
            Ok(found) => {
                let side = |of: fn(&against::Pair) -> f64| {
                    spread(&found.pairs.iter().map(of).collect::<Vec<_>>())
                };
                println!(
                    "TCP, {streams} streams, against {} in {} processes: {:.2} times the goodput at {:.2} times the \
                     CPU per gigabit; spread {:.0} %, of iperf3 {:.0} %",
                    found.version,
                    found.processes,
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

/// Ratios of pairs that run next to each other, first one side and then the other.
fn paired(pairs: u32, ours: &mut dyn FnMut() -> f64, theirs: &mut dyn FnMut() -> f64) -> Vec<f64> {
    let mut pair = |n| if n % 2 == 0 { ours() / theirs() } else { 1.0 / (theirs() / ours()) };
    (0..pairs).map(&mut pair).collect()
}

fn told(ratios: &[f64]) -> String {
    format!(
        "{:.2} times (pairs from {:.2} to {:.2})",
        median(ratios).unwrap(),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max),
    )
}

/// Datagrams of 64 bytes per second of one sender through the router, as fast as it goes.
fn small_packets(context: &Context) {
    let stop = AtomicBool::new(false);
    let plain = LoadSpec { datagram: 64, ..LoadSpec::udp(Direction::Up, 1, 2.0, None) };
    let mut server = match iperf3::serve(&context.ends, 1) {
        Ok(server) => server,
        Err(e) => return println!("small packets: not run: {e}"),
    };
    for sender in [Sender::Packet, Sender::Xdp] {
        let frames = LoadSpec { sender, ..plain.clone() };
        let (mut by, mut rates) = (String::new(), Vec::new());
        let mut ours = || {
            let run = load::run(&context.ends, &frames, &stop, &mut |_| ()).unwrap();
            let flow = &run.flows[0];
            by = flow.sent_by.clone().unwrap_or_default();
            let rate = flow.window_sent as f64 / 64.0 / run.seconds;
            rates.push(rate / 1e6);
            rate
        };
        let mut theirs = || {
            let report = iperf3::run(&mut server, &context.ends, &plain, &stop).unwrap();
            let flow = &report.flows[0];
            flow.datagrams.unwrap().0 as f64 / flow.seconds
        };
        let ratios = paired(PAIRS, &mut ours, &mut theirs);
        println!(
            "small packets by {by}: {} what iperf3 -u -l 64 offers; {:.2} million packets/s through \
             the router with its receiver beside it",
            told(&ratios),
            median(&rates).unwrap()
        );
    }
}

/// What a frame costs its sender alone: into a veth whose other end drops it for its address.
fn exits() {
    let (here, there) = (NetnsThread::create().unwrap(), NetnsThread::create().unwrap());
    let run = |netns: &NetnsThread, line: String| {
        let job = move || {
            let mut words = line.split(' ');
            Command::new(words.next().unwrap()).args(words).status().unwrap().success()
        };
        assert!(netns.run(job).unwrap());
    };
    let pid = std::process::id();
    let tid = there.run(|| rustix::thread::gettid().as_raw_nonzero()).unwrap();
    run(
        &here,
        format!("ip link add v0 type veth peer name v1 netns /proc/{pid}/task/{tid}/ns/net"),
    );
    run(&there, "ip link set v1 up".into());
    run(&here, "ip link set v0 up".into());
    for size in [60_usize, 508, 1514] {
        // Nobody's address, and no protocol that anybody takes.
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5];
        frame.resize(size, 0x5a);
        let opened = here.run(move || {
            let any = std::net::UdpSocket::bind("0.0.0.0:0")?;
            let ifindex = rustix::net::netdevice::name_to_index(&any, "v0")?;
            // The last one's queue is given back a moment after it was closed.
            let (until, busy) = (Instant::now() + Duration::from_secs(5), Some(16));
            let xdp = loop {
                match XdpSender::open(ifindex, 0, &frame, 28) {
                    Err(e) if e.raw_os_error() == busy && Instant::now() < until => {}
                    opened => break opened?,
                }
            };
            Ok::<_, std::io::Error>((xdp, PacketSocket::sender(ifindex)?, frame))
        });
        let (mut xdp, packet, frame) = match opened.unwrap() {
            Ok(opened) => opened,
            Err(e) => return println!("AF_XDP against AF_PACKET: not run: {e}"),
        };
        // Frames per second of this thread's CPU time.
        let per_cpu = |burst: &mut dyn FnMut(u64) -> usize| {
            let (begun, cpu) = (Instant::now(), cpu_of_this_thread());
            let mut sent = 0;
            while begun.elapsed() < Duration::from_millis(500) {
                sent += burst(sent) as u64;
            }
            sent as f64 / (cpu_of_this_thread() - cpu)
        };
        let stamp =
            |number: u64, head: &mut [u8]| head[20..].copy_from_slice(&number.to_be_bytes());
        let mut by_xdp = || per_cpu(&mut |first| xdp.send(first, 64, stamp).unwrap());
        let mut by_packet = || {
            per_cpu(&mut |first| {
                let numbers: Vec<[u8; 8]> = (first..).take(64).map(u64::to_be_bytes).collect();
                let parts: Vec<[IoSlice<'_>; 3]> = numbers
                    .iter()
                    .map(|n| [&frame[..20], n, &frame[28..]].map(IoSlice::new))
                    .collect();
                let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
                    parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
                let mut all: Vec<MMsgHdr<'_>> =
                    parts.iter().zip(&mut controls).map(|(p, c)| MMsgHdr::new(p, c)).collect();
                sendmmsg(&packet, &mut all, SendFlags::DONTWAIT).unwrap_or(0)
            })
        };
        let ratios = paired(2 * PAIRS, &mut by_xdp, &mut by_packet);
        println!(
            "frames of {size} bytes by AF_XDP: {} as many per CPU second as by sendmmsg(2)",
            told(&ratios)
        );
    }
}

fn cpu_of_this_thread() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// One measurement fifty times, in turn with iperf3.
fn fifty(context: &Context) {
    let spec = LoadSpec::tcp(Direction::Up, 4, 1.0, 0.0);
    match against::against_iperf3(context, &spec, FIFTY, &AtomicBool::new(false)) {
        Ok(found) => {
            let side = |of: fn(&against::Pair) -> f64| {
                spread(&found.pairs.iter().map(of).collect::<Vec<_>>())
            };
            println!(
                "TCP, 4 streams, {FIFTY} times: {:.2} times the goodput of {}; spread {:.1} %, of \
                 iperf3 {:.1} %",
                found.goodput_ratio,
                found.version,
                side(|p| p.ours.goodput.0),
                side(|p| p.theirs.goodput.0),
            );
        }
        Err(e) => println!("TCP, {FIFTY} times: not run: {e}"),
    }
}

/// What is left beside forwarding at a fixed rate, by the spinners and by the kernel's count of
/// everything else, with no rules and with three hundred.
fn headroom(context: &Context) {
    let cpus = linerate::machine::discover::snapshot(&context.router).usable_cpus();
    // A tenth of a gigabit in datagrams of 200 bytes: some 60 000 packets a second.
    let rate = Some(linerate::model::units::BitRate(100e6));
    let spec = LoadSpec { datagram: 200, ..LoadSpec::udp(Direction::Up, 1, 3.0, rate) };
    let run = |context: &Context| {
        let go_on = AtomicBool::new(false);
        let (run, seen) = beside::with_headroom(context, &spec, &go_on).unwrap();
        let seen = seen.unwrap();
        // The spinners run in user time and so does part of the generator, whose share is known.
        let kernel: f64 = run.cpus.iter().map(|c| c.system + c.irq + c.softirq).sum();
        let left = cpus.len() as f64 - kernel;
        println!(
            "  {:.2} CPUs told as left; {left:.2} without the kernel's part (the generator's own \
             user time is in it){}",
            seen.idle_cpus,
            if seen.disturbed { "; the machine was busy" } else { "" }
        );
        seen.idle_cpus
    };
    let loaded = Lab::build(&LabSpec::nat(300, 1500)).unwrap();
    let with_rules = Context::of_lab(&loaded, 1500, None);
    let lost: Vec<f64> = (0..5).map(|_| run(context) - run(&with_rules)).collect();
    println!("headroom: 300 rules cost {:.2} CPUs ({lost:.2?})", median(&lost).unwrap());
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
