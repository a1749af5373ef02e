//! What disturbs a run is planted here, and a run beside which nothing happens must stand.

use super::*;

/// Measures a slow load while `job` is done once, when a tenth of the traffic has passed.
fn once_beside(lab: &Lab, direction: Direction, job: impl FnOnce() + Send) -> Measurement {
    let spec = LoadSpec { rate: Some(BitRate(5e6)), ..LoadSpec::tcp(direction, 1, 2.0, 0.0) };
    let device = if direction == Direction::Up { ROUTER_LAN } else { ROUTER_WAN };
    let start = passed(&lab.router, device);
    thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + Duration::from_secs(30);
            while passed(&lab.router, device) < start + 125_000 && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
            job();
        });
        bench::measure(&context(lab), &spec, &go_on()).unwrap()
    })
}

fn differing(run: &Measurement) -> Vec<&str> {
    let differing = run.refusals.iter().filter(|r| r.code == RefusalCode::SettingsDiffer);
    differing.flat_map(|r| r.why.split("; ")).collect()
}

fn write(netns: &NetnsThread, path: &'static str, value: &'static str) {
    netns.run(move || std::fs::write(path, value)).unwrap().unwrap();
}

#[test]
#[ignore = "slow: make test runs it"]
fn what_is_changed_during_a_run_is_refused_by_name_also_when_it_is_put_back() {
    let _alone = alone();
    let lab = lab!();
    let clean = once_beside(&lab, Direction::Up, || ());
    assert_eq!(codes_of_a_busy_machine(&clean), [], "nothing happened: {:?}", clean.refusals);

    // Through netlink, which tells of it.
    let mtu = once_beside(&lab, Direction::Up, || {
        write(&lab.router, "/sys/class/net/wan0/mtu", "1490");
        write(&lab.router, "/sys/class/net/wan0/mtu", "1500");
    });
    let told = "the router: MTU, bridge, queue length or state of wan0 changed during the run";
    assert_eq!(differing(&mtu), [told]);

    // Steering tells nobody: it is looked at in between.
    let rps = once_beside(&lab, Direction::Up, || {
        write(&lab.router, "/sys/class/net/wan0/queues/rx-0/rps_cpus", "1");
        thread::sleep(Duration::from_millis(600));
        write(&lab.router, "/sys/class/net/wan0/queues/rx-0/rps_cpus", "0");
    });
    let told = "/sys/class/net/wan0/queues/rx-0/rps_cpus changed from 0 to 1 during the run";
    assert_eq!(differing(&rps), [told]);

    // Of the host that sends.
    let control = "/proc/sys/net/ipv4/tcp_congestion_control";
    let now = lab.lan.run(move || std::fs::read_to_string(control)).unwrap().unwrap();
    let other = if now.trim() == "reno" { "cubic" } else { "reno" };
    let run = once_beside(&lab, Direction::Up, || write(&lab.lan, control, other));
    let told = format!("the LAN's host: {control} changed from {} to {other}", now.trim());
    assert!(differing(&run).iter().any(|why| why.starts_with(&told)), "{:?}", run.refusals);

    for (line, back, told) in [
        ("nft add table inet linerate_test", "nft delete table inet linerate_test", "(nf_tables"),
        (
            "tc qdisc add dev wan0 root pfifo_fast",
            "tc qdisc del dev wan0 root",
            "disciplines of wan0",
        ),
        ("ethtool -K wan0 gro off", "ethtool -K wan0 gro on", "offload features of wan0"),
        ("ip rule add pref 9999 lookup main", "ip rule del pref 9999", "routing rules"),
    ] {
        if !(command(&lab.router, line) && command(&lab.router, back)) {
            eprintln!("SKIPPED what_is_changed_during_a_run ({line}): it can't be done here");
            continue;
        }
        let run = once_beside(&lab, Direction::Up, || {
            command(&lab.router, line);
            command(&lab.router, back);
        });
        assert!(differing(&run).iter().any(|why| why.contains(told)), "{line}: {:?}", run.refusals);
    }

    // Who adds a route does not touch this load's.
    let route = once_beside(&lab, Direction::Up, || {
        assert!(
            command(&lab.router, "ip route add 198.19.99.0/24 via 198.18.1.2 dev lan0")
                || command(&lab.router, "ip route add blackhole 198.19.99.0/24")
        );
    });
    assert_eq!(differing(&route), Vec::<&str>::new());
    assert!(route.notes.iter().any(|n| n.contains("addresses or routes")), "{:?}", route.notes);
}

#[test]
#[ignore = "slow: make test runs it"]
fn traffic_against_the_measured_direction_is_refused() {
    let _alone = alone();
    let lab = lab!();
    let socket = lab.lan.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    let run = once_beside(&lab, Direction::Down, || {
        for _ in 0..500 {
            // It answers that nobody listens there, which is told at the next call.
            let _told = socket.send_to(&[0; 1000], "198.18.1.1:9");
            thread::sleep(Duration::from_millis(1));
        }
    });
    let why = run.refusals.iter().find(|r| r.code == RefusalCode::OtherTraffic);
    let why = &why.unwrap_or_else(|| panic!("{:?}", run.refusals)).why;
    assert!(why.starts_with("down: against it lan0 counted"), "{why}");
}

#[test]
#[ignore = "slow: make test runs it"]
fn another_program_on_the_cpus_that_forward_is_noted_by_name() {
    let _alone = alone();
    let lab = lab!();
    let spin = "awk 'BEGIN { while (1) i++ }'";
    // On each CPU, for nobody knows which of them will forward.
    let cpus = thread::available_parallelism().unwrap().get();
    let mut children: Vec<std::process::Child> = (0..cpus)
        .map(|cpu| {
            // Not ours: a process that nobody here has started.
            let line = format!("setsid taskset -c {cpu} sh -c \"{spin}\" & echo $!");
            std::process::Command::new("sh").args(["-c", &line]).stdout(Stdio::piped()).spawn()
        })
        .map(Result::unwrap)
        .collect();
    let mut started = Vec::new();
    for child in &mut children {
        let mut text = String::new();
        let out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::lines(out).take(1).for_each(|line| text = line.unwrap());
        started.push(text);
        child.wait().unwrap();
    }
    // Little: forwarding comes first, and would leave them nothing.
    let spec = LoadSpec { rate: Some(BitRate(5e6)), ..LoadSpec::tcp(Direction::Up, 2, 2.0, 0.2) };
    let run = bench::measure(&context(&lab), &spec, &go_on());
    for group in started {
        let _gone = std::process::Command::new("kill").args(["--", &format!("-{group}")]).status();
        let _gone = std::process::Command::new("kill").arg(&group).status();
    }
    let run = run.unwrap();
    let told = run.notes.iter().find(|n| n.starts_with("other programs used the CPUs"));
    assert!(told.is_some(), "{:?}", run.notes);
}
