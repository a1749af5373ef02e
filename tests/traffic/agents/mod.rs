//! `linerate agent` and `bench --lan --wan`: three hosts in three namespaces, and everything that
//! can go wrong between a controller and its agents.

mod faults;
mod hosts;
mod planted;
mod refused;
mod verbs;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::alone;
use linerate::error::ExitCode;
use linerate::machine::sys::netns::NetnsThread;
use linerate::measure::lab::{Lab, LabSpec};
use rustix::process::{Pid, Signal, kill_process};

/// Far more than anything here takes, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(90);

/// The program, here or in a namespace; a token of the caller's environment is not its.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    // Sentences are looked for in one line, wherever the measured figures would break it.
    command.env_remove("LINERATE_TOKEN").env("COLUMNS", "200");
    command
}

fn spawn(netns: Option<&NetnsThread>, mut command: Command) -> Child {
    match netns {
        None => command.spawn().unwrap(),
        Some(netns) => netns.run(move || command.spawn()).unwrap().unwrap(),
    }
}

fn output(netns: Option<&NetnsThread>, mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(netns, command).wait_with_output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running agent, ended with the test.
struct Running {
    child: Child,
    address: String,
    said: Arc<Mutex<String>>,
}

impl Running {
    fn start(netns: Option<&NetnsThread>, listen: &str, token: Option<&PathBuf>) -> Self {
        Self::start_in(&[], netns, listen, token)
    }

    /// With more arguments.
    fn with(listen: &str, more: &[&str]) -> Self {
        let mut command = program();
        command.args(["agent", "--listen", listen]).args(more).stderr(Stdio::piped());
        Self::of(spawn(None, command))
    }

    /// Behind the words of another command.
    fn start_in(
        wrap: &[String],
        netns: Option<&NetnsThread>,
        listen: &str,
        token: Option<&PathBuf>,
    ) -> Self {
        let mut command = match wrap {
            [] => program(),
            [first, more @ ..] => {
                let mut command = Command::new(first);
                command.args(more).arg(env!("CARGO_BIN_EXE_linerate"));
                command.env_remove("LINERATE_TOKEN");
                command
            }
        };
        command.args(["agent", "--listen", listen]).stderr(Stdio::piped());
        if let Some(token) = token {
            command.arg("--token-file").arg(token);
        }
        Self::of(spawn(netns, command))
    }

    fn of(mut child: Child) -> Self {
        let said = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        let address = first.split_whitespace().nth(2).unwrap_or_else(|| panic!("{first}"));
        let address = address.trim_end_matches(',').to_owned();
        let keep = Arc::clone(&said);
        thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|n| n > 0) {
                keep.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        Self { child, address, said }
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn wait_for(&self, what: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.said().contains(what) {
            assert!(Instant::now() < until, "no \"{what}\" in: {}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Until `left` was said as often as `came`: whoever came is gone.
    fn wait_for_again(&self, left: &str, came: &str) {
        let until = Instant::now() + PATIENCE;
        let count = |what: &str| self.said().matches(what).count();
        while count(left) < count(came) {
            assert!(Instant::now() < until, "{}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Threads of a load that it still has.
    fn load_threads(&self) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let name = |t: std::fs::DirEntry| std::fs::read_to_string(t.path().join("comm")).ok();
        tasks.flatten().filter_map(name).filter(|n| n.starts_with("load-")).count()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// LAN and WAN on this machine's own loopback device.
fn pair() -> (Running, Running) {
    (Running::start(None, "127.0.0.1:0", None), Running::start(None, "127.0.0.1:0", None))
}

fn bench(lan: &Running, wan: &Running, more: &[&str]) -> Command {
    let mut command = program();
    command.args(["bench", "--lan", &lan.address, "--wan", &wan.address, "-P", "2"]);
    command.args(["--wan-address", "127.0.0.1"]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// That a run from LAN to WAN goes through, now or soon.
fn works(lan: &Running, wan: &Running) {
    let until = Instant::now() + PATIENCE;
    loop {
        let done = output(None, bench(lan, wan, &["--direction", "up", "--seconds", "0.3"]));
        if done.status.code() == Some(0) {
            return;
        }
        assert!(Instant::now() < until, "{}", stderr(&done));
        thread::sleep(Duration::from_millis(100));
    }
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("linerate-wire-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn token_file(dir: &std::path::Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, owner_alone).unwrap();
    path
}

#[test]
#[ignore = "slow: make test runs it"]
fn three_hosts_measure_through_nat_and_the_router_is_watched() {
    let _alone = alone();
    let lab = match Lab::build(&LabSpec::default()) {
        Ok(lab) => lab,
        Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
            eprintln!("SKIPPED three_hosts_measure_through_nat_and_the_router_is_watched: {e}");
            return;
        }
        Err(e) => panic!("{e}"),
    };
    let dir = scratch("three");
    let token = token_file(&dir, "token", "a secret for this test alone\n");
    let start = |netns: &NetnsThread, ip| Running::start(Some(netns), ip, Some(&token));
    let lan = start(&lab.lan, "198.18.1.2");
    let router = start(&lab.router, "198.18.1.1");
    let wan = start(&lab.wan, "198.18.2.2");
    let run = |more: &[&str]| {
        let mut command = program();
        command.args(["bench", "nat", "--lan", "198.18.1.2", "--wan", "198.18.2.2", "--router"]);
        command.args(["198.18.1.1", "-P", "2", "--json", "--token-file"]).arg(&token).args(more);
        output(Some(&lab.lan), command)
    };
    let kinds = |run: &serde_json::Value| -> Vec<String> {
        let refusals = run["refusals"].as_array().unwrap().iter();
        refusals.map(|r| r["code"].as_str().unwrap().to_owned()).collect()
    };

    let done = run(&["--seconds", "1", "--omit", "0.2"]);
    let json: serde_json::Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&done)));
    // Three namespaces of one machine are no wire, and it says so.
    assert_eq!((&json["format"], &json["class"]), (&"linerate-bench".into(), &"lab".into()));
    let runs = json["runs"].as_array().unwrap();
    let ways: Vec<_> = runs.iter().map(|r| r["direction"].as_str().unwrap()).collect();
    assert_eq!(ways, ["down", "up", "both"]);
    for run in runs {
        // How the directions share a busy machine is not the point.
        let busy = ["direction-starved", "unsteady"];
        let kinds: Vec<_> = kinds(run).into_iter().filter(|k| !busy.contains(&&**k)).collect();
        assert_eq!(kinds, Vec::<String>::new(), "{run}");
        for flow in run["flows"].as_array().unwrap() {
            assert!(flow["goodput"].as_f64().unwrap() > 1e6, "{run}");
        }
        assert!(!run["cpus"].as_array().unwrap().is_empty(), "the router was not sampled: {run}");
        let devices = run["devices"].as_array().unwrap();
        for device in ["lan0", "wan0"] {
            let found = devices.iter().find(|d| d["device"] == device);
            let packets = found.and_then(|d| d["rx_packets"].as_u64());
            assert!(packets > Some(100), "{device}: {run}");
        }
        let seconds = run["seconds"].as_f64().unwrap();
        assert!((0.99..10.0).contains(&seconds), "late on a busy machine, never short: {run}");
    }
    let agents = json["agents"].as_array().unwrap();
    let roles: Vec<_> = agents.iter().map(|a| a["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["lan", "wan", "router"]);
    for agent in agents {
        // One machine has one clock.
        let clock = |what: &str| agent["clock"][what].as_f64().unwrap();
        assert!(clock("monotonic").abs() <= clock("uncertainty"), "{agent}");
        assert!(clock("wall").abs() <= clock("uncertainty") + 0.01, "{agent}");
    }
    assert!(!agents[2]["settings"].as_object().unwrap().is_empty());

    let udp = ["--protocol", "udp", "--rate", "4", "--direction", "down", "--seconds", "1"];
    let done = run(&udp);
    let json: serde_json::Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(&done)));
    let run_of = &json["runs"][0];
    // A busy machine may send too little; what it sent must add up.
    let kinds: Vec<_> = kinds(run_of).into_iter().filter(|k| k != "under-sent").collect();
    assert_eq!(kinds, Vec::<String>::new(), "{run_of}");
    assert!(run_of["flows"][0]["received"].as_u64() > Some(10), "{run_of}");
    assert!(run_of["flows"][0]["lost"].is_u64(), "{run_of}");

    let done = run(&["--protocol", "udp", "--rate", "900000"]);
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(stderr(&done).contains("is a link of"), "{}", stderr(&done));
    drop((lan, router, wan));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn who_has_no_token_is_turned_away_and_an_open_agent_never_starts() {
    let _alone = alone();
    let dir = scratch("token");
    let right = token_file(&dir, "right", "0f3a9c51d27be684");
    let wrong = token_file(&dir, "wrong", "0f3a9c51d27be68F");
    let short = token_file(&dir, "short", "0123456789abcdef");
    let agent = |more: &[&str]| {
        let mut command = program();
        command.arg("agent").args(more);
        output(None, command)
    };
    let open = agent(&["--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(2), "{}", stderr(&open));
    assert!(stderr(&open).contains("--token-file"), "{}", stderr(&open));
    let guessed = agent(&["--listen", "0.0.0.0:0", "--token-file", short.to_str().unwrap()]);
    assert_eq!(guessed.status.code(), Some(2), "{}", stderr(&guessed));
    let shown = token_file(&dir, "shown", "0f3a9c51d27be684");
    std::fs::set_permissions(&shown, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let shown = agent(&["--listen", "127.0.0.1:0", "--token-file", shown.to_str().unwrap()]);
    assert_eq!(shown.status.code(), Some(2), "{}", stderr(&shown));
    assert!(stderr(&shown).contains("chmod 600"), "{}", stderr(&shown));

    let lan = Running::start(None, "127.0.0.1:0", Some(&right));
    let wan = Running::start(None, "127.0.0.1:0", Some(&right));
    for (token, words) in [(None, "it wants a token"), (Some(&wrong), "another token")] {
        let mut command = bench(&lan, &wan, &[]);
        if let Some(token) = token {
            command.arg("--token-file").arg(token);
        }
        let done = output(None, command);
        assert_eq!(done.status.code(), Some(4), "{}", stderr(&done));
        assert!(stderr(&done).contains(words), "{}", stderr(&done));
    }
    lan.wait_for("another token");
    // By the environment as well.
    let mut command = bench(&lan, &wan, &["--direction", "up", "--seconds", "0.3"]);
    command.env("LINERATE_TOKEN", "0f3a9c51d27be684");
    let done = output(None, command);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    for said in [lan.said(), wan.said(), stderr(&done)] {
        assert!(!said.contains("0f3a9c51d27be684"), "a token was shown: {said}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "slow: make test runs it"]
fn strangers_on_either_side_are_named_and_never_waited_for_without_end() {
    let _alone = alone();
    let (lan, wan) = pair();
    // A port that is taken.
    let mut command = program();
    command.args(["agent", "--listen", &lan.address]);
    let taken = output(None, command);
    assert_eq!(taken.status.code(), Some(5), "{}", stderr(&taken));
    assert!(stderr(&taken).contains(&lan.address), "{}", stderr(&taken));

    // Garbage, another version, a line without an end, and one that says nothing: at the agent.
    let send = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(&lan.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // The agent may close in the middle of either.
        let mut all = Vec::new();
        drop(socket.write_all(bytes));
        drop(socket.read_to_end(&mut all));
        String::from_utf8_lossy(&all).into_owned()
    };
    send(b"GET / HTTP/1.1\r\nHost: router\r\n\r\n");
    lan.wait_for("GET / HTTP/1.1");
    let nonce = "0".repeat(64);
    let other = format!("linerate-controller\t1\t{nonce}\t-\n");
    let answer = send(other.as_bytes());
    assert!(answer.contains("it speaks version 1, this agent "), "{answer}");
    send(&vec![b'x'; 1 << 20]);
    lan.wait_for("a line without an end");
    let mute = TcpStream::connect(&lan.address).unwrap();
    lan.wait_for("it did not say what it wants");
    drop(mute);

    // At the controller: something else in the agent's place.
    let fake = |said: &'static str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(said.as_bytes()).unwrap();
            drop(socket.read(&mut [0; 64]));
        });
        address
    };
    for (said, code, words) in [
        ("SSH-2.0-OpenSSH_9.2p1\r\n", 6, "no linerate agent"),
        ("linerate-agent\t7\t9.0\n", 5, "version 7"),
        ("", 6, "does not greet"),
    ] {
        let mut command = program();
        command.args(["bench", "--lan", &fake(said), "--wan", &wan.address]);
        let done = output(None, command);
        assert_eq!(done.status.code(), Some(code), "{said}: {}", stderr(&done));
        assert!(stderr(&done).contains(words), "{said}: {}", stderr(&done));
        assert!(stderr(&done).contains("hint: "), "{said}: {}", stderr(&done));
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command = program();
    command.args(["bench", "--lan", &free, "--wan", &wan.address]);
    let done = output(None, command);
    assert_eq!(done.status.code(), Some(6), "{}", stderr(&done));
    assert!(stderr(&done).contains("refused"), "{}", stderr(&done));

    // What can't be run, and what can't be meant.
    for more in
        [&["--seconds", "0"][..], &["-P", "10000"], &["--protocol", "udp"], &["--rules", "5"]]
    {
        let done = output(None, bench(&lan, &wan, more));
        assert_eq!(done.status.code(), Some(2), "{more:?}: {}", stderr(&done));
    }
    works(&lan, &wan);
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let _alone = alone();
    let (lan, wan) = pair();
    let mute: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&lan.address).unwrap()).collect();
    works(&lan, &wan);
    drop(mute);
    // Nor does an agent run out of descriptors for whoever comes next.
    let few = ["prlimit".to_owned(), "--nofile=24".to_owned()];
    let lan = Running::start_in(&few, None, "127.0.0.1:0", None);
    let mute: Vec<OwnedFd> = (2..62).map(|from| connected(from, &lan.address)).collect();
    works(&lan, &wan);
    drop(mute);
}

/// A connection from an address of its own.
fn connected(from: u8, to: &str) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
    connect(&socket, &to.parse::<std::net::SocketAddr>().unwrap()).unwrap();
    socket
}

#[test]
fn an_agent_of_another_user_serves_nobody_without_a_token() {
    let _alone = alone();
    let (lan, wan) = pair();
    // By root's own, and refused to nobody's: the agent runs as root here.
    works(&lan, &wan);
    let script = format!("exec 3<>/dev/tcp/{}; cat <&3", lan.address.replace(':', "/"));
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "bash", "-c", &script]);
    let Ok(said) = command.output() else {
        eprintln!("SKIPPED an_agent_of_another_user_serves_nobody_without_a_token: no setpriv");
        return;
    };
    assert!(said.stdout.is_empty(), "{}", String::from_utf8_lossy(&said.stdout));
    lan.wait_for("of another user");
}

#[test]
fn the_owner_of_an_agent_sets_its_limits() {
    let _alone = alone();
    let wan = Running::start(None, "127.0.0.1:0", None);
    for (limits, words) in [
        (&["--max-rate", "5"][..], "at most 5 Mbit/s"),
        (&["--max-seconds", "0.1"], "0.1 s at most"),
        (&["--allow", "127.0.0.1", "--allow", "198.18.0.0/15"], ""),
        (&["--allow", "198.18.0.0/15"], ""),
    ] {
        let lan = Running::with("127.0.0.1:0", limits);
        let done = output(None, bench(&lan, &wan, &["--direction", "up", "--seconds", "0.3"]));
        match (words, limits.len()) {
            ("", 4) => assert_eq!(done.status.code(), Some(0), "{}", stderr(&done)),
            ("", _) => lan.wait_for("--allow"),
            _ => {
                assert_eq!(done.status.code(), Some(4), "{}", stderr(&done));
                assert!(stderr(&done).contains(words), "{limits:?}: {}", stderr(&done));
            }
        }
    }
}

#[test]
fn an_agent_that_ends_in_the_middle_is_a_refused_measurement_with_its_reason() {
    let _alone = alone();
    // The kernel of a sender that was killed ends its streams in order.
    for (signal, is_sender, words) in [
        (Signal::KILL, false, "closed the connection"),
        (Signal::INT, false, "its user"),
        (Signal::KILL, true, "closed the connection"),
    ] {
        let (lan, wan) = pair();
        let long = ["--direction", "up", "--seconds", "60", "--json"];
        let running = spawn(None, bench(&lan, &wan, &long));
        wan.wait_for("run: TCP up");
        thread::sleep(Duration::from_millis(700));
        if is_sender { &lan } else { &wan }.signal(signal);
        let done = running.wait_with_output().unwrap();
        let all = stderr(&done) + &String::from_utf8_lossy(&done.stdout);
        assert_eq!(done.status.code(), Some(6), "{signal:?}: {all}");
        assert!(all.contains(words), "{signal:?}: {all}");
        if !is_sender {
            drop(wan);
            works(&lan, &Running::start(None, "127.0.0.1:0", None));
        }
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_controller_that_vanishes_leaves_its_agents_free() {
    let _alone = alone();
    let (lan, wan) = pair();
    let long = ["--direction", "both", "--seconds", "60", "--json"];
    for signal in [Signal::KILL, Signal::INT] {
        let runs = lan.said().matches("run: TCP").count();
        let mut running = spawn(None, bench(&lan, &wan, &long));
        let until = Instant::now() + PATIENCE;
        while lan.load_threads() == 0 || lan.said().matches("run: TCP").count() == runs {
            assert!(Instant::now() < until, "{}", lan.said());
            thread::sleep(Duration::from_millis(20));
        }
        // One at a time.
        let other = output(None, bench(&lan, &wan, &["--seconds", "0.3"]));
        assert_eq!(other.status.code(), Some(6), "{}", stderr(&other));
        assert!(stderr(&other).contains("busy with"), "{}", stderr(&other));
        kill_process(Pid::from_child(&running), signal).unwrap();
        let status = running.wait().unwrap();
        if signal == Signal::INT {
            assert_eq!(status.code(), Some(130));
        }
        let until = Instant::now() + PATIENCE;
        while lan.load_threads() + wan.load_threads() > 0 {
            assert!(Instant::now() < until, "{signal:?}: {}", lan.said());
            thread::sleep(Duration::from_millis(20));
        }
        works(&lan, &wan);
    }
}
