//! Each refusal provoked by real traffic, and the near miss that must stand.

use super::*;

/// Runs a shell line in the namespace of a thread until it is dropped.
struct Beside(std::process::Child);

impl Beside {
    fn start(netns: &NetnsThread, line: String) -> Self {
        let run = move || {
            let mut sh = std::process::Command::new("sh");
            sh.args(["-c", &format!("exec {line}")]).spawn()
        };
        Self(netns.run(run).unwrap().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Measures while `job` is done over and over.
fn beside(
    context: &Context,
    spec: &LoadSpec,
    mut job: impl FnMut() + Send,
) -> linerate::error::Result<Measurement> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                job();
            }
        });
        let run = bench::measure(context, spec, &go_on());
        over.store(true, Ordering::Relaxed);
        run
    })
}

/// Tries until the machine, which others use too, lets the outcome show.
fn until<T>(what: &str, mut once: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match once() {
            Ok(seen) => return seen,
            Err(why) => assert!(Instant::now() < deadline, "{what}: {why}"),
        }
    }
}

fn why(run: &Measurement, code: RefusalCode) -> Option<&str> {
    run.refusals.iter().find(|r| r.code == code).map(|r| r.why.as_str())
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_setting_that_changes_during_the_run_is_refused_by_name_and_values() {
    let _alone = alone();
    let lab = lab!();
    let spec = LoadSpec { rate: Some(BitRate(5e6)), ..LoadSpec::tcp(Direction::Up, 1, 2.0, 0.0) };
    let context = context(&lab);
    // Writes when a tenth of the traffic has passed.
    let run_with = |path: &'static str, value: &'static str| {
        let router = Arc::clone(&lab.router);
        let written = AtomicBool::new(false);
        let start = passed(&router, ROUTER_LAN);
        let run = beside(&context, &spec, || {
            if !written.load(Ordering::Relaxed) && passed(&router, ROUTER_LAN) > start + 125_000 {
                router.run(move || std::fs::write(path, value)).unwrap().unwrap();
                written.store(true, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(5));
        });
        assert!(written.load(Ordering::Relaxed), "{path} was written during the run");
        why(&run.unwrap(), RefusalCode::SettingsDiffer).map(str::to_owned)
    };
    for (path, from, to) in [
        ("/sys/class/net/wan0/queues/rx-0/rps_cpus", "0", "1"),
        ("/proc/sys/net/ipv4/ip_forward", "1", "2"),
    ] {
        assert_eq!(run_with(path, from), None, "written again, it has not changed");
        let why = run_with(path, to).unwrap();
        assert!(why.starts_with(path), "{why}");
        assert!(why.contains(&format!("from {from} to {to}")), "{why}");
    }
}

#[test]
fn another_sender_on_the_device_is_refused_unless_it_is_small() {
    let _alone = alone();
    before_others();
    let lab = lab!();
    let spec = LoadSpec { rate: Some(BitRate(20e6)), ..LoadSpec::tcp(Direction::Up, 1, 1.0, 0.0) };
    let context = context(&lab);
    // To the router itself, which throws it away; what counts is that its device saw it.
    let stranger = |gap: Duration| {
        let socket = lab.lan.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        move || {
            // It answers that nobody listens there, which is told at the next call.
            let _told = socket.send_to(&[0; 1000], "198.18.1.1:9");
            thread::sleep(gap);
        }
    };
    // 2.5 MB of load; 1000 packets of 1000 bytes, and 10 of them: 0.4 %.
    let run = beside(&context, &spec, stranger(Duration::from_millis(1))).unwrap();
    let told = why(&run, RefusalCode::CountersDisagree).unwrap_or_else(|| panic!("{run:?}"));
    assert!(told.contains("lan0 counted") && told.contains("MB received"), "{told}");
    let run = beside(&context, &spec, stranger(Duration::from_millis(100))).unwrap();
    assert_eq!(why(&run, RefusalCode::CountersDisagree), None);
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_generator_without_a_cpu_did_not_send_what_was_asked() {
    let _alone = alone();
    let lab = lab!();
    let cpus =
        linerate::machine::discover::snapshot(&linerate::machine::host::Live::here()).usable_cpus();
    let cpu = cpus.first().unwrap();
    let context = Context::of_lab(&lab, 1500, Some(linerate::model::cpuset::CpuSet::single(cpu)));
    let spec = LoadSpec::udp(Direction::Up, 1, 1.0, Some(BitRate(300e6)));
    let told = until("refused beside two greedy programs", || {
        // 88761 parts of the CPU each, by the kernel's table of weights, to the generator's 1024.
        let greedy = format!("nice -n -20 taskset -c {} sh -c 'while :; do :; done'", cpu.0);
        let _greedy = [(); 2].map(|()| Beside::start(&lab.lan, greedy.clone()));
        thread::sleep(Duration::from_millis(200));
        let run = match bench::measure(&context, &spec, &go_on()) {
            Ok(run) => run,
            // It did not even come up.
            Err(e) if e.code() == ExitCode::Refused => return Err(e.to_string()),
            Err(e) => panic!("{e}"),
        };
        why(&run, RefusalCode::UnderSent).map(str::to_owned).ok_or(format!("{run:?}"))
    });
    assert!(told.contains("of 300.0 asked") && told.contains("at least 98 %"), "{told}");
    // A hundredth of it, without them.
    let spec = LoadSpec { rate: Some(BitRate(3e6)), ..spec };
    until("3 Mbit/s stand", || {
        let run = bench::measure(&context, &spec, &go_on()).map_err(|e| e.to_string())?;
        if run.is_valid() { Ok(()) } else { Err(format!("{:?}", run.refusals)) }
    });
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_generator_that_takes_its_whole_cpu_is_the_bottleneck() {
    let _alone = alone();
    let lab = lab!();
    let cpus =
        linerate::machine::discover::snapshot(&linerate::machine::host::Live::here()).usable_cpus();
    let context = Context::of_lab(&lab, 1500, Some(cpus));
    if !before_others() {
        skip!("no chrt here to come before other programs with");
    }
    let spec = LoadSpec::udp(Direction::Up, 1, 0.5, None);
    let told = until("a sender without a rate is the bottleneck", || {
        let run = bench::measure(&context, &spec, &go_on()).map_err(|e| e.to_string())?;
        why(&run, RefusalCode::GeneratorBound).map(str::to_owned).ok_or(format!("{run:?}"))
    });
    assert!(told.contains("% of a CPU, above 90 %"), "{told}");
    let spec = LoadSpec { rate: Some(BitRate(3e6)), ..spec };
    let run = bench::measure(&context, &spec, &go_on()).unwrap();
    assert_eq!(why(&run, RefusalCode::GeneratorBound), None);
}

/// Both ways 20 Mbit/s wide, whatever this machine does; `starve` drops the short packets of the
/// LAN, which are acknowledgements, whenever long ones were seen in the last tenth of a second: what
/// a queue with strict priorities does.
fn narrow(lab: &Lab, starve: bool) -> bool {
    let narrow = [
        "tc qdisc add dev lan0 root tbf rate 20mbit burst 16kb limit 64kb",
        "tc qdisc add dev wan0 root tbf rate 20mbit burst 16kb limit 64kb",
    ];
    let starving = [
        "nft add table ip greed",
        "nft add set ip greed busy { type ipv4_addr; flags dynamic,timeout; timeout 100ms; }",
        "nft add chain ip greed forward { type filter hook forward priority 1; }",
        "nft add rule ip greed forward iifname lan0 meta length > 1000 update @busy { ip saddr }",
        "nft add rule ip greed forward iifname lan0 meta length < 100 ip saddr @busy \
         limit rate over 5/second drop",
    ];
    narrow.into_iter().all(|line| command(&lab.router, line))
        && (!starve || starving.into_iter().all(|line| command(&lab.router, line)))
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_direction_whose_acknowledgements_starve_is_refused_and_two_that_share_are_not() {
    let _alone = alone();
    let spec = LoadSpec::tcp(Direction::Both, 1, 1.0, 0.2);
    let lab = lab!();
    if !narrow(&lab, false) {
        skip!("no tc with tbf here to make a narrow path with");
    }
    let runs = bench::measure_directions(&context(&lab), &spec, &go_on()).unwrap();
    assert_eq!(why(&runs[2], RefusalCode::DirectionStarved), None, "{runs:?}");
    drop(lab);
    let lab = lab!();
    if !narrow(&lab, true) {
        skip!("no nft here to drop acknowledgements with");
    }
    let told = until("the starved direction", || {
        let runs = bench::measure_directions(&context(&lab), &spec, &go_on()).unwrap();
        why(&runs[2], RefusalCode::DirectionStarved).map(str::to_owned).ok_or(format!("{runs:?}"))
    });
    assert!(told.starts_with("down had ") && told.contains("while up had"), "{told}");
}

#[test]
fn a_receiver_killed_during_the_run_leaves_no_figure() {
    let _alone = alone();
    let lab = lab!();
    let ends = context(&lab).ends;
    let mut server = match load::iperf3::serve(&ends, 1) {
        Ok(server) => server,
        Err(e) if e.code() == ExitCode::NotSupported => skip!("{e}"),
        Err(e) => panic!("{e}"),
    };
    let spec = LoadSpec { rate: Some(BitRate(5e6)), ..LoadSpec::tcp(Direction::Up, 1, 60.0, 0.0) };
    // What listens in the lab is known by its socket's namespace alone.
    let kill = || {
        let here = lab.wan.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        until("the server to kill", || {
            for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                let is_iperf = std::fs::read_to_string(entry.path().join("comm"))
                    .is_ok_and(|comm| comm.trim() == "iperf3");
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let is_server = line.split(|b| *b == 0).any(|word| word == b"-s");
                let inside =
                    std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|n| n == here);
                if is_iperf && is_server && inside {
                    let pid = entry.file_name().to_str().unwrap().to_owned();
                    assert!(command_line(&["kill", "-9", &pid]));
                    return Ok(());
                }
            }
            thread::sleep(Duration::from_millis(20));
            Err("not there".into())
        });
    };
    let ended = thread::scope(|scope| {
        let run = scope.spawn(|| load::iperf3::run(&mut server, &ends, &spec, &go_on()));
        flowing(&lab.router, ROUTER_LAN);
        kill();
        run.join().unwrap()
    });
    let error = ended.unwrap_err();
    assert_eq!(error.code(), ExitCode::Refused, "{error}");
    assert!(error.to_string().contains("iperf3"), "{error}");
}

fn command_line(words: &[&str]) -> bool {
    std::process::Command::new(words[0]).args(&words[1..]).status().unwrap().success()
}
