//! `linerate watch` on a lab's router: settings that somebody changes, a WAN that goes away, programs
//! that hang, and a disk that is full.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use linerate::machine::sys::rtnl::{self, VethEnd};
use linerate::measure::lab::{ENDPOINT, WAN_ADDRESS};
use serde_json::Value;

use crate::router::{Place, Router, need_root, stderr, wait_for};
use crate::schema::assert_fits;

/// A machine with all of this is busy: what is waited for comes within two minutes or never.
const PATIENCE: Duration = Duration::from_secs(120);

/// A watch that runs, and the events that it has told.
struct Watch {
    child: Child,
    events: Receiver<Value>,
    said: Receiver<String>,
}

impl Watch {
    fn of(mut child: Child) -> Self {
        let (sender, events) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let value: Value =
                    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
                drop(sender.send(value));
            }
        });
        let (sender, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                drop(sender.send(line));
            }
        });
        Self { child, events, said }
    }

    /// The next event of that name; what else comes meanwhile has to fit its schema too.
    #[track_caller]
    fn event(&self, name: &str, phase: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut others = Vec::new();
        while let Ok(event) =
            self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            assert_fits("an event", &event);
            if event["event"] == name && event["phase"] == phase {
                return event;
            }
            others.push(event);
        }
        panic!("no {name} {phase}: {others:?} {:?}", self.said.try_iter().collect::<Vec<_>>());
    }

    #[track_caller]
    fn says(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) =
            self.said.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if line.contains(words) {
                return;
            }
        }
        panic!("it never said {words:?}");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends it as an init does.
    fn end(mut self) {
        self.signal(rustix::process::Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Below a root of its own, so that the kernel's log and /etc of this machine stay as they are.
fn command(place: &Place, settings: &str) -> Command {
    let etc = place.dir.join("root/etc/linerate");
    std::fs::create_dir_all(etc.join("events.d")).unwrap();
    std::fs::write(etc.join("watch.toml"), settings).unwrap();
    let mut command = place.command(&["watch", "--json", "--every", "1s"]);
    command.env("LINERATE_ROOT_DIR", place.dir.join("root"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn program(place: &Place, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = place.dir.join("root/etc/linerate/events.d").join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

impl Router {
    fn watch(&self, settings: &str) -> Watch {
        let mut command = command(&self.place, settings);
        let watch = Watch::of(self.lab.router.run(move || command.spawn().unwrap()).unwrap());
        watch.says("watching every 1 s");
        watch
    }

    /// Something happens to the links, which has settings looked at soon.
    fn stir(&self) {
        let end = |name| VethEnd { name, netns: None };
        let made = move || rtnl::create_veth(end("stir0"), end("stir1"), 1500);
        self.lab.router.run(made).unwrap().unwrap();
        self.lab.router.run(|| rtnl::delete("stir0")).unwrap().unwrap();
    }
}

#[test]
fn a_setting_is_put_back_three_times_and_then_told_and_left_and_rollback_still_leads_back() {
    need_root!();
    let router = Router::new("watch-drift");
    let before = router.mask("lan0");
    assert!(router.run(&["plan", "--candidate", "one-cpu"]).status.success());
    assert!(router.run(&["apply"]).status.success());
    let applied = router.mask("lan0");
    assert_ne!(applied, before);
    let watch = router.watch("[drift]\nrps-cpus = \"put-back\"\n[health]\nhold = 1\n");
    for _ in 0..3 {
        router.set("lan0", "2");
        router.stir();
        let event = watch.event("put-back", "told");
        assert!(event["place"].as_str().unwrap().contains("lan0"), "{event}");
        assert_eq!(router.mask("lan0"), applied);
    }
    router.set("lan0", "2");
    router.stir();
    let event = watch.event("put-back-given-up", "told");
    assert!(event["words"].as_str().unwrap().contains("3 times within an hour"), "{event}");
    watch.event("drift", "raised");
    assert_eq!(router.mask("lan0").trim_start_matches(['0', ',']), "2", "never a fight");
    let status = router.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_fits("status", &status);
    assert_eq!(status["watch"]["last"]["event"], "drift", "{status}");
    // What was put back is as the first journal has it, which leads all the way back.
    let journals = status["journals"].as_array().unwrap();
    assert_eq!(journals.len(), 1, "{status}");
    router.set("lan0", &applied);
    router.stir();
    watch.event("drift", "cleared");
    watch.end();
    let back = router.run(&["rollback"]);
    assert!(back.status.success(), "{}", stderr(&back));
    assert_eq!(router.mask("lan0"), before);
}

#[test]
fn while_a_change_waits_to_be_confirmed_nothing_is_called_changed() {
    need_root!();
    let router = Router::new("watch-waits");
    assert!(router.run(&["plan", "--candidate", "one-cpu"]).status.success());
    let watch = router.watch("[drift]\ndefault = \"put-back\"\n");
    let waits = router.run(&["apply", "--confirm", "600", "--no-probe"]);
    assert!(waits.status.success(), "{}", stderr(&waits));
    router.set("lan0", "2");
    router.stir();
    std::thread::sleep(Duration::from_secs(6));
    assert!(watch.events.try_iter().all(|event| event["event"] != "put-back"));
    assert_eq!(router.mask("lan0").trim_start_matches(['0', ',']), "2");
    assert!(router.run(&["confirm"]).status.success());
    router.stir();
    watch.event("put-back", "told");
    watch.end();
    let back = router.run(&["rollback"]);
    assert!(back.status.success(), "{}", stderr(&back));
}

/// The CM4 field report's buzzer, as it is shipped: it sounds when the WAN is lost and when it is back.
#[test]
#[ignore = "slow: make test runs it"]
fn a_lost_wan_sounds_the_buzzer_and_a_program_that_hangs_is_killed() {
    need_root!();
    let router = Router::new("watch-wan");
    router.lab.router.run(|| rtnl::add_default_route(WAN_ADDRESS)).unwrap().unwrap();
    let (sounds, alarm) = (router.place.file("sounds", ""), router.place.file("led", ""));
    let ran = router.place.dir.join("ran");
    let settings = "[health]\nhold = 1\nlosses = 1e9\n[events]\nlimit = 5\n";
    let mut command = command(&router.place, settings);
    let shipped = |name: &str| format!("{}/packaging/events.d/{name}", env!("CARGO_MANIFEST_DIR"));
    // A file keeps one line at a time: each beep is one, as a LED would have it.
    let wrapper = format!("#!/bin/sh\nBUZZER={} exec sh {}\n", sounds.display(), shipped("buzzer"));
    program(&router.place, "buzzer", &wrapper);
    program(
        &router.place,
        "hangs",
        &format!("#!/bin/sh\necho x >>{}\nsleep 1000\n", ran.display()),
    );
    let told = router.place.dir.join("told");
    let env = "$LINERATE_EVENT $LINERATE_PHASE $LINERATE_PLACE $LINERATE_WORDS";
    program(&router.place, "tells", &format!("#!/bin/sh\necho \"{env}\" >>{}\n", told.display()));
    let watch = Watch::of(router.lab.router.run(move || command.spawn().unwrap()).unwrap());
    watch.says("watching every");
    // It has to have answered before.
    std::thread::sleep(Duration::from_secs(4));
    let carrier = |up: bool| {
        let flags = if up { "0x1003" } else { "0x1002" };
        let path = format!("/sys/class/net/{ENDPOINT}/flags");
        let set = move || std::fs::write(path, flags);
        router.lab.wan.run(set).unwrap().unwrap();
    };
    carrier(false);
    let lost = watch.event("wan-lost", "raised");
    assert_eq!(lost["place"], WAN_ADDRESS.to_string(), "{lost}");
    wait_for("the buzzer", || std::fs::read_to_string(&sounds).is_ok_and(|text| text == "0\n"));
    carrier(true);
    watch.event("wan-lost", "cleared");
    watch.says("killed: it took more than 5 s");
    assert!(ran.exists());
    let text = || std::fs::read_to_string(&told).unwrap_or_default();
    wait_for("both to be told", || text().contains("wan-lost cleared"));
    assert!(text().contains(&format!("wan-lost raised {WAN_ADDRESS} the gateway")), "{}", text());
    watch.end();
    drop(alarm);
}

#[test]
fn the_throttle_alarm_lights_its_led_for_as_long_as_it_lasts() {
    let place = Place::new("watch-alarm");
    let led = place.file("led", "");
    let run = |event: &str, phase: &str| {
        let mut command = Command::new("sh");
        command.arg(format!("{}/packaging/events.d/throttle-alarm", env!("CARGO_MANIFEST_DIR")));
        // No logger: this machine's log is not ours.
        command.env_clear().env("PATH", "/nowhere").env("LED", &led);
        command.env("LINERATE_EVENT", event).env("LINERATE_PHASE", phase);
        let sh = Path::new("/bin/sh");
        assert!(sh.exists());
        let mut at = Command::new(sh);
        at.args(command.get_args()).env_clear();
        for (name, value) in command.get_envs() {
            at.env(name, value.unwrap());
        }
        assert!(at.status().unwrap().success());
        std::fs::read_to_string(&led).unwrap()
    };
    assert_eq!(run("wan-lost", "raised"), "");
    assert_eq!(run("throttled", "raised"), "1\n");
    assert_eq!(run("losses", "cleared"), "1\n");
    assert_eq!(run("throttled", "cleared"), "0\n");
}

#[test]
fn a_broken_reload_keeps_the_old_settings_and_a_second_watch_is_refused() {
    need_root!();
    let router = Router::new("watch-reload");
    let watch = router.watch("[health]\ngateways = false\n");
    let second = router.run(&["watch", "--seconds", "1s"]);
    assert_eq!(second.status.code(), Some(5), "{}", stderr(&second));
    assert!(stderr(&second).contains("another one runs"), "{}", stderr(&second));
    let path = router.place.dir.join("root/etc/linerate/watch.toml");
    std::fs::write(&path, "every = 3\n[drift]\nnonsense = \"tell\"\n").unwrap();
    watch.signal(rustix::process::Signal::HUP);
    let refused = watch.event("settings-refused", "told");
    let words = refused["words"].as_str().unwrap();
    assert!(words.contains("stay as they were") && words.contains("nonsense"), "{words}");
    std::fs::write(&path, "").unwrap();
    watch.signal(rustix::process::Signal::HUP);
    watch.says("is read anew");
    watch.end();
    let status = router.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status.get("watch"), None, "it has ended");
}

#[test]
fn a_full_disk_is_told_once_and_stops_nothing() {
    need_root!();
    let router = Router::new("watch-full");
    let state = router.place.dir.join("state");
    std::fs::create_dir_all(&state).unwrap();
    let inner = command(&router.place, "");
    let script = "mount -t tmpfs -o size=4k,mode=755 none \"$0\" && \
                  { head -c 4096 /dev/zero >\"$0/full\"; exec \"$@\"; }";
    let mut full = Command::new("unshare");
    full.args(["-m", "sh", "-c", script]).arg(&state).arg(inner.get_program());
    full.args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => full.env(name, value),
            None => full.env_remove(name),
        };
    }
    full.current_dir(&router.place.dir).stdin(Stdio::null());
    full.stdout(Stdio::piped()).stderr(Stdio::piped());
    let watch = Watch::of(router.lab.router.run(move || full.spawn().unwrap()).unwrap());
    watch.says("status will not tell of this watch");
    std::fs::write(router.place.dir.join("root/etc/linerate/watch.toml"), "x").unwrap();
    watch.signal(rustix::process::Signal::HUP);
    watch.event("settings-refused", "told");
    watch.end();
}

#[test]
fn systemd_hears_that_it_is_ready_and_alive_and_ends() {
    need_root!();
    let router = Router::new("watch-notify");
    let path = router.place.dir.join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = command(&router.place, "");
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "2000000");
    let watch = Watch::of(router.lab.router.run(move || command.spawn().unwrap()).unwrap());
    let heard = || {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    assert_eq!((heard(), heard()), ("WATCHDOG=1".into(), "WATCHDOG=1".into()));
    watch.end();
    let last = std::iter::repeat_with(heard).find(|word| word != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
}

/// All metrics are in the file and at the socket, and Prometheus' own tool finds nothing wrong with them.
#[test]
fn metrics_are_written_and_served_and_a_storm_of_clients_stops_nothing() {
    use std::io::{Read, Write};
    need_root!();
    let router = Router::new("watch-metrics");
    let socket = router.place.dir.join("m.sock");
    let mut command = command(&router.place, "[health]\ngateways = false\n");
    command.arg("--listen").arg(&socket).arg("--textfile").arg(&router.place.dir);
    let watch = Watch::of(router.lab.router.run(move || command.spawn().unwrap()).unwrap());
    watch.says("watching every");
    let file = router.place.dir.join("linerate.prom");
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_for("the file", || {
        text().contains("linerate_device_receive_bytes_total{device=\"wan0\"}")
    });
    for name in ["linerate_cpu_seconds_total{cpu=\"0\",mode=\"softirq\"}", "linerate_build_info{"] {
        assert!(text().contains(name), "{name} is not in: {}", text());
    }
    // Clients that say nothing and stay: each is let go in time.
    let idle: Vec<_> =
        (0..20).filter_map(|_| std::os::unix::net::UnixStream::connect(&socket).ok()).collect();
    let mut client = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: r\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\nlinerate_drifted_settings 0\n"), "{answer}");
    drop(idle);
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    let promtool = |args: &[&str], input: &str| {
        let mut tool = Command::new("promtool");
        tool.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut tool) = tool.spawn() else {
            eprintln!("SKIPPED (optional) metrics_are_written: no promtool here");
            return;
        };
        tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let told = tool.wait_with_output().unwrap();
        let said = [told.stdout, told.stderr].concat();
        assert!(told.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said));
    };
    promtool(&["check", "metrics"], &body);
    let rules = format!("{}/packaging/prometheus/linerate.rules", env!("CARGO_MANIFEST_DIR"));
    promtool(&["check", "rules", &format!("{rules}.yml")], "");
    promtool(&["test", "rules", &format!("{rules}.test.yml")], "");
    watch.end();
    assert!(!socket.exists());
}
