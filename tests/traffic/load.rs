//! Real traffic through a lab on the running kernel: what the figures are worth.

use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::alone;
use linerate::error::ExitCode;
use linerate::machine::sys::netns::NetnsThread;
use linerate::measure::bench::{self, Context, against};
use linerate::measure::lab::{Lab, LabSpec, ROUTER_LAN, ROUTER_WAN, WAN_ADDRESS};
use linerate::measure::load::{self, LoadSpec, Sender};
use linerate::model::measurement::{Direction, Measurement, RefusalCode};
use linerate::model::units::BitRate;

/// Ends a test that can't run here, in the words that the test driver counts.
macro_rules! skip {
    ($($why:tt)*) => {{
        eprintln!("SKIPPED {}: {}", thread::current().name().unwrap_or("?"), format_args!($($why)*));
        return;
    }};
}

/// A lab, or the reason why there can be none here.
macro_rules! lab {
    () => {
        match Lab::build(&LabSpec::default()) {
            Ok(lab) => lab,
            Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
                skip!("{e}")
            }
            Err(e) => panic!("{e}"),
        }
    };
}

mod disturbed;
mod frames;
mod headroom;
mod known;
mod refused;

fn go_on() -> AtomicBool {
    AtomicBool::new(false)
}

fn context(lab: &Lab) -> Context {
    Context::of_lab(lab, 1500, None)
}

fn codes(measurement: &Measurement) -> Vec<RefusalCode> {
    measurement.refusals.iter().map(|r| r.code).collect()
}

/// Without what a machine that is busy with other things adds: no CPU for the sender, or for one of
/// two that run at once, or CPU time that the hypervisor gave to others.
fn codes_of_a_busy_machine(measurement: &Measurement) -> Vec<RefusalCode> {
    let mut codes = codes(measurement);
    codes.retain(|code| {
        use RefusalCode::{DirectionStarved, Stolen, UnderSent};
        !matches!(code, UnderSent | DirectionStarved | Stolen)
    });
    codes
}

/// Runs a program in the namespace; whether it could.
fn command(netns: &NetnsThread, line: &'static str) -> bool {
    let run = move || {
        let mut words = line.split(' ');
        let done = std::process::Command::new(words.next().unwrap()).args(words).output();
        done.is_ok_and(|done| done.status.success())
    };
    netns.run(run).unwrap()
}

/// Puts this test's thread, and with it all that it starts, before the other programs of the machine;
/// whether it could. In turns (`-r`): a sender that never sleeps must not keep the others of its kind
/// from running.
fn before_others() -> bool {
    let me = rustix::thread::gettid().as_raw_nonzero().to_string();
    let done = std::process::Command::new("chrt").args(["-r", "-p", "1", &me]).output();
    done.is_ok_and(|done| done.status.success())
}

/// Bytes that the router got on a device.
fn passed(router: &NetnsThread, device: &'static str) -> u64 {
    let file = format!("/sys/class/net/{device}/statistics/rx_bytes");
    let text = router.run(|| std::fs::read_to_string(file)).unwrap();
    text.unwrap().trim().parse().unwrap()
}

/// Waits until a load passes the router: a moment early in the run, however slow the machine is.
fn flowing(router: &NetnsThread, device: &'static str) {
    let start = passed(router, device);
    let deadline = Instant::now() + Duration::from_secs(60);
    while passed(router, device) < start + 250_000 {
        assert!(Instant::now() < deadline, "no load came on {device}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until no generator thread is left: a joined thread stays listed for a moment while the
/// kernel clears it away.
fn nobody_is_left() {
    let until = Instant::now() + Duration::from_secs(30);
    while generator_threads() > 0 {
        assert!(Instant::now() < until, "{} generator threads are left", generator_threads());
        thread::sleep(Duration::from_millis(1));
    }
}

fn generator_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")).ok());
    // The main thread has the name of the test binary, `load-` and a hash.
    names.filter(|name| matches!(name.trim(), "load-send" | "load-recv")).count()
}

#[test]
fn tcp_arrives_in_each_direction_and_counters_agree() {
    let _alone = alone();
    let lab = lab!();
    for direction in [Direction::Down, Direction::Up, Direction::Both] {
        let spec = LoadSpec::tcp(direction, 3, 0.6, 0.2);
        let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
        assert_eq!(codes_of_a_busy_machine(&run), [], "{direction}: {:?}", run.refusals);
        assert_eq!(run.flows.len(), spec.directions().len());
        for flow in &run.flows {
            assert!(flow.goodput.mbps() > 10.0, "{direction}: {}", flow.goodput);
            // The omitted time counts for the devices, not for the rate.
            let window = flow.goodput.0 / 8.0 * run.seconds;
            assert!((flow.bytes as f64) > window * 1.02, "{} in all, {window}", flow.bytes);
            assert!(flow.generator_cpu > 0.0);
            assert!(flow.retransmits.is_some() && flow.lost.is_none());
        }
        // As long as asked for, or longer where a busy machine let the clock wait.
        assert!((0.55..30.0).contains(&run.seconds), "{}", run.seconds);
        assert!(run.packet_bytes > 100.0 && run.packet_bytes <= 1514.0, "{}", run.packet_bytes);
        assert!(run.cpus.iter().any(|cpu| cpu.packets > 100), "{:?}", run.cpus);
        for cpu in &run.cpus {
            let sum = cpu.user + cpu.system + cpu.irq + cpu.softirq + cpu.idle;
            assert!(sum <= 1.0 + 1e-9, "{cpu:?}");
        }
        assert_eq!(run.devices.len(), 2);
        the_series_is_the_window(&run);
    }
    nobody_is_left();
}

/// The pieces are the whole window, and as many as the machine let through: six of a tenth of a
/// second, or fewer and longer ones.
fn the_series_is_the_window(run: &Measurement) {
    assert!((1..=6).contains(&run.series.len()), "{:?}", run.series);
    let last = run.series.last().unwrap();
    assert!((last.at - run.seconds).abs() < 0.05, "{} of {}", last.at, run.seconds);
    let seconds: f64 = run.series.iter().map(|p| p.seconds).sum();
    assert!((seconds - last.at).abs() < 1e-3, "{seconds}");
    for (number, flow) in run.flows.iter().enumerate() {
        let bytes: u64 = run.series.iter().map(|p| p.bytes[number]).sum();
        let window = flow.goodput.0 / 8.0 * run.seconds;
        assert!((bytes as f64 / window - 1.0).abs() < 0.1, "{bytes} of {window}");
    }
    for piece in &run.series {
        assert_eq!((piece.busy.len(), piece.rx_packets.len()), (run.cpus.len(), 2));
        assert!(piece.busy.iter().all(|share| (0.0..=1.0).contains(share)), "{piece:?}");
    }
    let packets: u64 = run.series.iter().map(|p| p.rx_packets.iter().sum::<u64>()).sum();
    let whole: u64 = run.devices.iter().map(|d| d.rx_packets).sum();
    assert!(packets > 0 && packets <= whole, "{packets} in the window, {whole} in the whole run");
}

#[test]
fn receivers_never_get_more_than_was_sent() {
    let _alone = alone();
    before_others();
    let lab = lab!();
    let ends = context(&lab).ends;
    for spec in [
        LoadSpec::tcp(Direction::Both, 2, 0.4, 0.0),
        LoadSpec::udp(Direction::Both, 2, 0.4, Some(BitRate(40e6))),
    ] {
        let mut moments = Vec::new();
        let run = load::run(&ends, &spec, &go_on(), &mut |m| moments.push(m)).unwrap();
        let pieces = moments.iter().filter(|m| **m == load::Moment::Within).count();
        assert_eq!(moments.first(), Some(&load::Moment::WindowOpens));
        assert_eq!(moments.last(), Some(&load::Moment::WindowCloses));
        assert_eq!((moments.len(), run.pieces.len()), (pieces + 2, pieces + 1));
        for flow in run.flows {
            assert!(flow.bytes > 0 && flow.bytes <= flow.sent, "{flow:?}");
            assert_eq!(flow.unacknowledged, 0);
        }
    }
}

#[test]
fn segments_and_rates_are_what_was_asked_for() {
    let _alone = alone();
    before_others();
    let lab = lab!();
    let spec = LoadSpec {
        mss: Some(536),
        rate: Some(BitRate(40e6)),
        ..LoadSpec::tcp(Direction::Down, 2, 1.0, 0.2)
    };
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    assert_eq!(run.refusals, []);
    assert!((run.rate().mbps() - 40.0).abs() < 2.0, "{}", run.rate());
    // The option for timestamps comes off the segment's payload (RFC 6691), so that a full packet
    // is 14 + 20 + 20 + 536 bytes.
    assert!(run.packet_bytes > 500.0 && run.packet_bytes <= 590.0, "{}", run.packet_bytes);
}

#[test]
#[ignore = "slow: make test runs it"]
fn more_than_the_path_carries_is_under_sent() {
    let _alone = alone();
    let lab = lab!();
    let spec = LoadSpec { rate: Some(BitRate(1e12)), ..LoadSpec::tcp(Direction::Up, 2, 0.4, 0.0) };
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    assert_eq!(codes(&run), [RefusalCode::UnderSent]);
}

#[test]
fn udp_loss_is_counted_by_the_receiver() {
    let _alone = alone();
    before_others();
    let lab = lab!();
    let spec = LoadSpec::udp(Direction::Down, 2, 0.5, Some(BitRate(20e6)));
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    assert_eq!(codes_of_a_busy_machine(&run), []);
    assert_eq!(run.flows[0].lost, Some(0));
    assert!(run.flows[0].received.unwrap() > 50, "{:?}", run.flows[0]);

    // 60 Mbit/s, or what a busy machine sends of it, into a bottleneck of 10.
    let spec = LoadSpec { rate: Some(BitRate(60e6)), ..spec };
    if !command(&lab.router, "tc qdisc add dev lan0 root tbf rate 10mbit burst 16kb limit 16kb") {
        skip!("no tc with tbf here to lose packets with");
    }
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    assert_eq!(codes_of_a_busy_machine(&run), [], "loss is a result");
    let (lost, received) = (run.flows[0].lost.unwrap(), run.flows[0].received.unwrap());
    assert!(lost > received / 3, "{lost} lost, {received} received");
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_silent_receiver_is_no_zero_loss() {
    let _alone = alone();
    let lab = lab!();
    // The report is 40 bytes of payload; data and greetings are longer or shorter.
    let rules = [
        "nft add table ip mute",
        "nft add chain ip mute forward { type filter hook forward priority 1; }",
        "nft add rule ip mute forward iifname wan0 udp length 48 drop",
    ];
    if !rules.into_iter().all(|rule| command(&lab.router, rule)) {
        skip!("no nft here to silence a receiver with");
    }
    let spec = LoadSpec::udp(Direction::Up, 1, 0.3, Some(BitRate(5e6)));
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    assert_eq!(codes_of_a_busy_machine(&run), [RefusalCode::NoAcknowledgement]);
    assert_eq!((run.flows[0].lost, run.flows[0].received), (None, None));
    assert!(run.refusals[0].why.contains("no report"), "{}", run.refusals[0].why);
}

#[test]
#[ignore = "slow: make test runs it"]
fn super_packets_are_refused() {
    let _alone = alone();
    let lab = lab!();
    if !command(&lab.lan, "ethtool -K eth0 tso on gso on")
        || !command(&lab.router, "ethtool -K wan0 tso on gso on")
    {
        skip!("no ethtool here to switch offloads on with");
    }
    let spec = LoadSpec::tcp(Direction::Up, 2, 0.4, 0.0);
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    assert_eq!(codes(&run), [RefusalCode::NotMtuSized]);
    assert!(run.packet_bytes > 1514.0);
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_link_that_flaps_during_the_run_is_refused() {
    let _alone = alone();
    let lab = lab!();
    let router = Arc::clone(&lab.router);
    let flap = thread::spawn(move || {
        flowing(&router, ROUTER_LAN);
        // Downing the device removes no route of the lab's other side; it comes back at once.
        command(&router, "ip link set wan0 down") && command(&router, "ip link set wan0 up")
    });
    let spec = LoadSpec::tcp(Direction::Up, 2, 1.0, 0.0);
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    if !flap.join().unwrap() {
        skip!("no ip here to take a link down with");
    }
    assert!(codes(&run).contains(&RefusalCode::LinkChanged), "{:?}", run.refusals);
}

#[test]
fn a_path_that_breaks_for_good_ends_the_run_in_time() {
    let _alone = alone();
    let lab = lab!();
    let router = Arc::clone(&lab.router);
    let cut = thread::spawn(move || {
        flowing(&router, ROUTER_WAN);
        command(&router, "ip link set wan0 down")
    });
    let started = Instant::now();
    let spec = LoadSpec::tcp(Direction::Down, 4, 0.8, 0.0);
    let run = bench::measure(&context(&lab), &spec, &go_on()).unwrap();
    if !cut.join().unwrap() {
        skip!("no ip here to take a link down with");
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(codes(&run).contains(&RefusalCode::NoAcknowledgement), "{:?}", run.refusals);
    nobody_is_left();
}

#[test]
#[ignore = "slow: make test runs it"]
fn no_way_through_is_an_error_in_time() {
    let _alone = alone();
    let lab = lab!();
    if !command(&lab.router, "ip link set wan0 down") {
        skip!("no ip here to take a link down with");
    }
    for spec in [
        LoadSpec::tcp(Direction::Up, 2, 1.0, 0.0),
        LoadSpec::udp(Direction::Down, 2, 1.0, Some(BitRate(1e6))),
    ] {
        let started = Instant::now();
        let error = bench::measure(&context(&lab), &spec, &go_on()).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        assert!(matches!(error.code(), ExitCode::Refused), "{error}");
    }
    nobody_is_left();
}

#[test]
fn the_stop_flag_ends_a_run_at_once() {
    let _alone = alone();
    let lab = lab!();
    let context = context(&lab);
    for spec in [
        LoadSpec::tcp(Direction::Both, 16, 60.0, 0.0),
        LoadSpec::tcp(Direction::Up, 1, 60.0, 30.0),
        LoadSpec { rate: Some(BitRate(1e4)), ..LoadSpec::tcp(Direction::Up, 2, 60.0, 0.0) },
        LoadSpec::udp(Direction::Both, 2, 60.0, Some(BitRate(1e6))),
    ] {
        let stop = Arc::new(AtomicBool::new(false));
        let raise = Arc::clone(&stop);
        let raised = thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            raise.store(true, Ordering::Relaxed);
            Instant::now()
        });
        let run = bench::measure(&context, &spec, &stop).unwrap();
        let took = raised.join().unwrap().elapsed();
        // Not the minute that is left of it; how fast depends on who else wants the CPU.
        assert!(took < Duration::from_secs(45), "{took:?} for {spec:?}");
        assert!(codes(&run).contains(&RefusalCode::Interrupted), "{:?}", run.refusals);
        nobody_is_left();
    }
}

#[test]
fn pinning_to_a_cpu_that_is_not_there_is_a_usage_error() {
    let _alone = alone();
    let lab = lab!();
    let context = Context::of_lab(&lab, 1500, Some("1000".parse().unwrap()));
    let spec = LoadSpec::tcp(Direction::Up, 2, 1.0, 0.0);
    let error = bench::measure(&context, &spec, &go_on()).unwrap_err();
    assert_eq!(error.code(), ExitCode::Usage);
    nobody_is_left();

    // A generator with a CPU of its own is judged by it; with one CPU for all threads of 4 streams
    // it can't but be busy, yet no single thread is.
    let context = Context::of_lab(&lab, 1500, Some("0".parse().unwrap()));
    let run = bench::measure(&context, &LoadSpec::tcp(Direction::Up, 4, 0.4, 0.0), &go_on());
    let run = run.unwrap();
    assert!(run.notes.iter().all(|n| !n.contains("shared")), "{:?}", run.notes);
}

#[test]
fn both_directions_come_with_each_alone() {
    let _alone = alone();
    let lab = lab!();
    let spec = LoadSpec::tcp(Direction::Both, 2, 0.3, 0.0);
    let runs = bench::measure_directions(&context(&lab), &spec, &go_on()).unwrap();
    let directions: Vec<_> = runs.iter().map(|r| r.direction).collect();
    assert_eq!(directions, [Direction::Down, Direction::Up, Direction::Both]);
}

#[test]
#[ignore = "slow: make test runs it"]
fn iperf3_runs_beside_the_built_in_generator_and_leaves_nothing() {
    let _alone = alone();
    let lab = lab!();
    let spec = LoadSpec::tcp(Direction::Up, 4, 1.0, 0.0);
    let compared = match against::against_iperf3(&context(&lab), &spec, 2, &go_on()) {
        Ok(compared) => compared,
        Err(e) if e.code() == ExitCode::NotSupported => skip!("{e}"),
        Err(e) => panic!("{e}"),
    };
    assert!(compared.version.starts_with("iperf 3"), "{}", compared.version);
    assert_eq!(compared.pairs.len(), 2);
    assert!(compared.goodput_ratio > 0.2 && compared.goodput_ratio.is_finite());
    assert!(compared.cpu_ratio > 0.0 && compared.cpu_ratio < 5.0);
    // The server has left its port.
    lab.wan.run(|| TcpListener::bind((WAN_ADDRESS, 5201)).map(drop)).unwrap().unwrap();
    assert_eq!((ROUTER_LAN, ROUTER_WAN), ("lan0", "wan0"), "as the commands above name them");
}

#[test]
#[ignore = "slow: make test runs it"]
fn the_installed_iperf3_runs_against_a_server_that_exists_and_says_when_there_is_none() {
    let _alone = alone();
    let lab = lab!();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_linerate"));
    let run = |args: &'static [&'static str], path: Option<&'static str>| {
        let job = move || {
            let mut command = std::process::Command::new(program);
            command.args(["bench", "--driver"]).args(args).env("COLUMNS", "200");
            path.map(|path| command.env("PATH", path));
            command.output().unwrap()
        };
        lab.lan.run(job).unwrap()
    };
    let missing = run(&["iperf3", "--server", "198.18.2.2"], Some("/nowhere"));
    let told = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(5), "{told}");
    assert!(told.contains("hint: install it"), "{told}");

    let serve = || std::process::Command::new("iperf3").args(["-s"]).stdout(Stdio::null()).spawn();
    let Ok(mut server) = lab.wan.run(serve).unwrap() else { skip!("no iperf3 here") };
    let once = &["iperf3", "--server", "198.18.2.2", "--direction", "down", "-P", "2", "--json"];
    // Until the server listens.
    let until = Instant::now() + Duration::from_secs(30);
    let done = loop {
        let done = run(once, None);
        if done.status.code() != Some(6) || Instant::now() > until {
            break done;
        }
        thread::sleep(Duration::from_millis(100));
    };
    server.kill().unwrap();
    server.wait().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    let bench: serde_json::Value = serde_json::from_slice(&done.stdout).expect(&told);
    let flow = &bench["runs"][0]["flows"][0];
    assert!(flow["goodput"].as_f64().unwrap() > 1e6 && flow["direction"] == "down", "{flow}");
    assert_eq!(bench["driver"]["name"], "iperf3");
    assert!(!bench["runs"][0]["cpus"].as_array().unwrap().is_empty());
    let none = run(once, None);
    let told = String::from_utf8_lossy(&none.stderr);
    assert_eq!(none.status.code(), Some(6), "{told}");
    assert!(told.contains("Connection refused") && told.contains("iperf3 -s"), "{told}");
}

#[test]
#[ignore = "slow: make test runs it"]
fn several_processes_of_iperf3_are_one_figure_and_one_without_a_server_is_none() {
    let _alone = alone();
    let lab = lab!();
    let ends = context(&lab).ends;
    let serve = || match load::iperf3::serve(&ends, 3) {
        Ok(servers) => Some(servers),
        Err(e) if e.code() == ExitCode::NotSupported => None,
        Err(e) => panic!("{e}"),
    };
    let Some(mut servers) = serve() else { skip!("no iperf3 here") };
    for direction in [Direction::Up, Direction::Both] {
        let spec = LoadSpec::tcp(direction, 5, 1.0, 0.0);
        let report = load::iperf3::run(&mut servers, &ends, &spec, &go_on()).unwrap();
        assert_eq!((report.processes, report.flows.len()), (3, spec.directions().len()));
        for flow in &report.flows {
            assert!(flow.goodput.mbps() > 1.0 && flow.bytes > 100_000, "{report:?}");
        }
    }
    // The same servers from the command line, and one port too many.
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_linerate"));
    let run = |ports: &'static str| {
        let job = move || {
            let mut command = std::process::Command::new(program);
            command.args(["bench", "--driver", "iperf3", "--server", "198.18.2.2", "-P", "4"]);
            command.args(["--direction", "up", "--seconds", "1", "--json", "--ports", ports]);
            command.output().unwrap()
        };
        lab.lan.run(job).unwrap()
    };
    let done = run("3");
    let told = String::from_utf8_lossy(&done.stderr);
    let bench: serde_json::Value = serde_json::from_slice(&done.stdout).expect(&told);
    assert!(bench["runs"][0]["flows"][0]["bytes"].as_u64().unwrap() > 100_000, "{bench}");
    let notes = bench["runs"][0]["notes"].to_string();
    assert!(notes.contains("(3 processes)"), "{notes}");
    for (ports, code, words) in [("4", 6, "port 5204: "), ("5", 2, "5 processes for 4 streams")] {
        let failed = run(ports);
        let told = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(code), "{told}");
        assert!(told.contains(words) && told.contains("hint: "), "{told}");
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn round_trips_are_seen_beside_a_load_and_lost_ones_are_not_short_ones() {
    let _alone = alone();
    let lab = lab!();
    let spec = LoadSpec::tcp(Direction::Down, 4, 1.0, 0.2);
    let (measured, latency) = bench::beside::with_latency(&context(&lab), &spec, &go_on()).unwrap();
    assert!(measured.is_valid(), "{:?}", measured.refusals);
    let latency = latency.unwrap();
    // One probe in 5 ms for a second each, less where there was no CPU for the prober.
    for seen in [&latency.idle, &latency.loaded] {
        assert!((20..=300).contains(&seen.probes), "{latency:?}");
        assert_eq!(seen.lost, 0, "{latency:?}");
        assert_eq!((seen.p99, seen.p999), (None, None), "so few probes do not carry them");
        assert!(seen.p50.is_some_and(|seconds| seconds > 1e-6 && seconds < 0.5), "{latency:?}");
    }
    assert!(latency.increase.is_some() && latency.per_minute.is_some(), "{latency:?}");
    // Half of the time without a way back: more than one in a hundred never returns.
    let ends = context(&lab).ends;
    let probing = thread::spawn(move || {
        let probing = load::latency::start(&ends).unwrap();
        load::latency::idle(probing, 1.0, &AtomicBool::new(false)).unwrap()
    });
    thread::sleep(Duration::from_millis(600));
    assert!(command(&lab.router, "ip link set wan0 down"));
    let seen = probing.join().unwrap();
    assert!(seen.lost > 10, "{seen:?}");
    assert_eq!(seen.quantile(0.99), None, "a lost probe is no short one");
    nobody_is_left();
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_busy_cpu_has_nothing_left_for_a_spinner() {
    let _alone = alone();
    let cpu =
        linerate::machine::discover::snapshot(&linerate::machine::host::Live::here()).usable_cpus();
    let cpu = linerate::model::cpuset::CpuSet::single(cpu.first().unwrap());
    let spinners = load::spinner::Spinners::start(&cpu).unwrap();
    let rate = |time: Duration| {
        let before = spinners.progress();
        thread::sleep(time);
        spinners.progress().since(&before)[0].1
    };
    // Other programs run here too; whoever wins, an idle-priority thread comes last.
    let beside_another = || {
        let busy = std::process::Command::new("timeout")
            .args(["0.5", "taskset", "-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"])
            .spawn();
        let mut busy = busy.unwrap();
        thread::sleep(Duration::from_millis(100));
        let beside = rate(Duration::from_millis(300));
        busy.wait().unwrap();
        (beside, rate(Duration::from_millis(300)))
    };
    let tries: Vec<(f64, f64)> = (0..5).map(|_| beside_another()).collect();
    let best = tries.iter().map(|(_, free)| *free).fold(0.0, f64::max);
    let least = tries.iter().map(|(beside, _)| *beside).fold(f64::INFINITY, f64::min);
    assert!(best > 0.0 && least < best * 0.2, "{tries:?}");
}

#[test]
#[ignore = "slow: make test runs it"]
fn headroom_is_a_share_of_the_calibrated_machine() {
    let _alone = alone();
    let lab = lab!();
    let cpus =
        linerate::machine::discover::snapshot(&linerate::machine::host::Live::here()).usable_cpus();
    let spec = LoadSpec::tcp(Direction::Up, 2, 1.0, 0.1);
    let mut context = context(&lab);
    context.router_cpus.clone_from(&cpus);
    let (_, headroom) = bench::beside::with_headroom(&context, &spec, &go_on()).unwrap();
    let headroom = headroom.unwrap();
    // A CPU that others kept busy while it was calibrated has no share to tell.
    assert!((1..=cpus.len()).contains(&headroom.cpus.len()), "{headroom:?}");
    let sum: f64 = headroom.cpus.iter().map(|left| left.share).sum();
    assert!((headroom.idle_cpus - sum).abs() < 1e-9);
    // How much is left is the machine's affair (and other programs run here); that the thread gets
    // nowhere beside a busy one is shown above.
    assert!(headroom.cpus.iter().all(|left| left.share.is_finite() && left.share >= 0.0));
    // A second has tenths, and so an interval.
    let halves = headroom.cpus.iter().map(|left| left.half.unwrap());
    assert!(halves.into_iter().all(|half| half.is_finite() && half >= 0.0), "{headroom:?}");
}
