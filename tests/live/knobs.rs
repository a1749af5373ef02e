//! Settings that are no files, on the running kernel: veth pairs in a namespace of the test's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linerate::change::apply::{self, Changer, Hold, inventory};
use linerate::change::verify::verify;
use linerate::error::ExitCode;
use linerate::machine::discover;
use linerate::machine::host::{HostRead, HostWrite, Live};
use linerate::machine::store::StateDir;
use linerate::machine::sys::ethtool;
use linerate::machine::sys::netns::NetnsThread;
use linerate::model::knob::spec::{Range, Scope};
use linerate::model::knob::{KNOBS, Knob, KnobSpec, Shape, Value};
use linerate::model::plan::{Candidate, Change};
use linerate::model::snapshot::Snapshot;

static GO_ON: AtomicBool = AtomicBool::new(false);

macro_rules! skip {
    ($($why:tt)*) => {{
        eprintln!("SKIPPED {}: {}", std::thread::current().name().unwrap_or("?"), format_args!($($why)*));
        return;
    }};
}

struct Scene {
    netns: Arc<NetnsThread>,
    live: Live,
    state: PathBuf,
}

impl Scene {
    /// A namespace with a veth pair of four queues, both ends up; `None` without root or `ip`.
    fn new(name: &str) -> Option<Self> {
        let netns = Arc::new(NetnsThread::create().ok()?);
        let live = Live::in_netns(netns.clone());
        let state =
            std::env::temp_dir().join(format!("linerate-knobs-{name}-{}", std::process::id()));
        let scene = Self { netns, live, state };
        let pair = "ip link add a0 numtxqueues 4 numrxqueues 4 type veth peer name b0 \
                    numtxqueues 4 numrxqueues 4";
        scene.run(pair).then_some(())?;
        let up = scene.run("ip link set a0 up") && scene.run("ip link set b0 up");
        // Without GRO a veth has no NAPI, and so no threads (drivers/net/veth.c veth_set_features).
        let gro = scene.netns.run(|| ethtool::set_features("a0", &[("rx-gro", true)])).unwrap();
        (up && gro.is_ok()).then_some(scene)
    }

    /// Runs a program inside, and whether it did what it was asked.
    fn run(&self, line: &str) -> bool {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let run = move || Command::new(&words[0]).args(&words[1..]).output();
        self.netns.run(run).unwrap().is_ok_and(|done| done.status.success())
    }

    fn state(&self) -> StateDir {
        StateDir::at(self.state.clone())
    }

    fn apply(&self, settings: Vec<(Knob, Value)>) -> linerate::error::Result<apply::Applied> {
        set(&self.live, &self.state(), &candidate(settings), discover::snapshot)
    }

    fn roll_back(&self) -> apply::RolledBack {
        undo(&self.live, &self.state())
    }

    /// What every setting of the pair is now.
    fn all(&self) -> Vec<(String, Option<Value>)> {
        let items = inventory::inventory(&self.live, &discover::snapshot(&self.live));
        let of_pair = |item: &inventory::Item| item.knob.device().is_some_and(|d| d == "a0");
        let told = items.into_iter().filter(of_pair).map(|i| (i.knob.to_string(), i.now));
        told.collect()
    }
}

fn set(
    live: &Live,
    state: &StateDir,
    plan: &Candidate,
    look: fn(&dyn HostRead) -> Snapshot,
) -> linerate::error::Result<apply::Applied> {
    Changer::begin(live, state, "apply", Duration::ZERO, look)?.apply(plan, &GO_ON)
}

fn undo(live: &Live, state: &StateDir) -> apply::RolledBack {
    Hold::take(live, state, "rollback", Duration::ZERO).unwrap().roll_back(false).unwrap()
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.state));
    }
}

fn candidate(settings: Vec<(Knob, Value)>) -> Candidate {
    let change = |(knob, after): (Knob, Value)| Change {
        knob,
        before: after.clone(),
        after,
        reason: "a test".into(),
    };
    Candidate {
        name: "test".into(),
        title: "test".into(),
        reason: "a test".into(),
        settings: settings.into_iter().map(change).collect(),
    }
}

fn device() -> String {
    "a0".into()
}

fn offload(feature: &str, on: bool) -> (Knob, Value) {
    (Knob::Offload { device: device(), feature: feature.into() }, Value::Switch(on))
}

fn channels(direction: &str, count: u64) -> (Knob, Value) {
    (Knob::Channels { device: device(), direction: direction.into() }, Value::Count(count))
}

#[test]
fn a_veth_takes_each_of_them_and_is_exactly_what_it_was_after() {
    let Some(scene) = Scene::new("all") else { skip!("needs root and ip(8)") };
    let before = scene.all();
    let plan = vec![
        channels("rx", 2),
        channels("tx", 2),
        offload("tx-tcp-segmentation", false),
        offload("rx-gro-list", true),
        (Knob::ThreadedNapi { device: device() }, Value::Switch(true)),
        (Knob::NapiDeferHardIrqs { device: device() }, Value::Count(2)),
        (Knob::GroFlushTimeout { device: device() }, Value::Count(200_000)),
        (Knob::RpsCpus { device: device(), queue: 1 }, Value::Cpus("0".parse().unwrap())),
        (Knob::Qdisc { device: device() }, Value::Word("pfifo_fast".into())),
    ];
    let applied = match scene.apply(plan.clone()) {
        Ok(applied) => applied,
        Err(e) if e.code() == ExitCode::NotSupported => skip!("{e}"),
        Err(e) => panic!("{e}"),
    };
    assert!(applied.writes[0].knob.to_string().contains("channels"), "{:?}", applied.writes[0]);
    let snapshot = discover::snapshot(&scene.live);
    let report = verify(&scene.live, &snapshot, &candidate(plan.clone()));
    assert!(report.in_force(), "{:?}", report.drifted().collect::<Vec<_>>());
    let queues = scene.live.list(Path::new("/sys/class/net/a0/queues")).unwrap();
    assert_eq!(queues, ["rx-0", "rx-1", "tx-0", "tx-1"], "the kernel itself says so");
    assert!(scene.apply(plan).unwrap().writes.is_empty(), "a second time there is nothing to do");
    let done = scene.roll_back();
    assert_eq!(scene.all(), before, "{:?}", done.notes);
}

#[test]
fn a_mask_of_a_queue_that_went_and_came_back_is_the_one_it_had() {
    let Some(scene) = Scene::new("mask") else { skip!("needs root and ip(8)") };
    let mask = Path::new("/sys/class/net/a0/queues/rx-3/rps_cpus");
    linerate::machine::host::HostWrite::write(&scene.live, mask, b"1").unwrap();
    let before = scene.all();
    if let Err(e) = scene.apply(vec![channels("rx", 1)]) {
        skip!("{e}");
    }
    assert!(scene.live.read(mask).is_err());
    scene.roll_back();
    assert_eq!(scene.all(), before);
    assert_eq!(scene.live.text(mask).unwrap().trim_start_matches(['0', ',']), "1");
}

#[test]
fn a_qdisc_with_options_of_its_own_is_put_back_with_them_and_one_with_classes_is_left_alone() {
    let Some(scene) = Scene::new("qdisc") else { skip!("needs root and ip(8)") };
    let show = || -> String {
        let ask = || Command::new("tc").args(["qdisc", "show", "dev", "a0", "root"]).output();
        let shown = String::from_utf8(scene.netns.run(ask).unwrap().unwrap().stdout).unwrap();
        let mut words: Vec<&str> = shown.split_whitespace().collect();
        // A packet that leaves meanwhile is counted there.
        if let Some(at) = words.iter().position(|word| *word == "direct_packets_stat") {
            words.remove(at + 1);
        }
        words.join(" ")
    };
    // Every kernel has these two; what is in modules may not be there.
    let wanted = || vec![(Knob::Qdisc { device: device() }, Value::Word("pfifo_fast".into()))];
    if !scene.run("tc qdisc replace dev a0 root handle 5: pfifo limit 77") {
        skip!("no tc(8) here");
    }
    let before = show();
    scene.apply(wanted()).unwrap();
    assert!(show().contains("qdisc pfifo_fast "), "{}", show());
    scene.roll_back();
    assert_eq!(show(), before);
    let Some(kind) = ["htb", "prio", "mqprio", "drr", "tbf rate 1gbit burst 64k latency 9ms"]
        .into_iter()
        .find(|kind| scene.run(&format!("tc qdisc replace dev a0 root handle 7: {kind}")))
    else {
        skip!("no queueing discipline with classes in this kernel");
    };
    let before = show();
    let error = scene.apply(wanted()).unwrap_err();
    let kind = kind.split(' ').next().unwrap();
    assert!(error.to_string().contains(&format!("fixed: {kind}")), "{error}");
    assert_eq!(show(), before);
}

#[test]
fn a_thread_of_napi_goes_where_it_is_told_and_back() {
    let Some(scene) = Scene::new("thread") else { skip!("needs root and ip(8)") };
    let threaded = (Knob::ThreadedNapi { device: device() }, Value::Switch(true));
    let thread = Knob::NapiThread { device: device(), thread: 0 };
    // The threads are there only once NAPI is threaded: both in one plan.
    let plan = vec![(thread.clone(), Value::Cpus("0".parse().unwrap())), threaded];
    match scene.apply(plan.clone()) {
        Ok(applied) => assert!(!applied.writes.is_empty()),
        Err(e) => skip!("{e}"),
    }
    let snapshot = discover::snapshot(&scene.live);
    assert!(verify(&scene.live, &snapshot, &candidate(plan)).in_force());
    let done = scene.roll_back();
    assert_eq!(scene.live.text(Path::new("/sys/class/net/a0/threaded")).unwrap(), "0", "{done:?}");
    // Threaded already, as the planner finds it: the thread alone, and back where it was.
    scene.live.write(Path::new("/sys/class/net/a0/threaded"), b"1").unwrap();
    let mask = || scene.live.text(Path::new("napi/a0/0")).unwrap();
    let before = mask();
    let plan = vec![(thread, Value::Cpus("0".parse().unwrap()))];
    let snapshot = discover::snapshot(&scene.live);
    assert!(!verify(&scene.live, &snapshot, &candidate(plan.clone())).in_force());
    assert_eq!(scene.apply(plan.clone()).unwrap().writes.len(), 1);
    assert!(verify(&scene.live, &snapshot, &candidate(plan)).in_force());
    scene.roll_back();
    assert_eq!(mask(), before);
}

#[test]
fn a_feature_that_the_driver_keeps_is_said_so_and_all_else_is_undone() {
    let Some(scene) = Scene::new("fixed") else { skip!("needs root and ip(8)") };
    let before = scene.all();
    let plan = vec![offload("tx-tcp-segmentation", false), offload("hw-tc-offload", true)];
    let error = scene.apply(plan).unwrap_err();
    assert_eq!(error.code(), ExitCode::RolledBack, "{error}");
    assert!(error.to_string().contains("hw-tc-offload of a0"), "{error}");
    assert_eq!(scene.all(), before);
}

/// A stand-in for the machine's own: a script in the mount namespace of one thread, and a program
/// of that name that sleeps.
#[test]
fn irqbalance_is_stopped_by_its_script_and_started_again_by_rollback() {
    let Ok(netns) = NetnsThread::create() else { skip!("needs root") };
    if !Path::new("/etc/init.d").is_dir() || Path::new("/run/systemd/system").is_dir() {
        skip!("no /etc/init.d, or systemd is in charge");
    }
    let state = std::env::temp_dir().join(format!("linerate-service-{}", std::process::id()));
    let at = state.clone();
    netns
        .run(move || {
            use rustix::mount::{MountFlags, mount};
            use std::os::unix::fs::PermissionsExt;
            mount("own", "/etc/init.d", "tmpfs", MountFlags::empty(), Some(c"size=4m")).unwrap();
            std::fs::copy("/bin/sleep", "/etc/init.d/program").unwrap();
            let script = "#!/bin/sh\ncase $1 in\n\
                start) cd /etc/init.d && mkdir -p bin && cp program bin/irqbalance\n\
                    bin/irqbalance 60 </dev/null >/dev/null 2>&1 & echo $! > pid ;;\n\
                stop) kill $(cat /etc/init.d/pid) ;;\nesac\n";
            std::fs::write("/etc/init.d/irqbalance", script).unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions("/etc/init.d/irqbalance", mode).unwrap();
            let live = Live::here();
            let service = Path::new("service/irqbalance");
            if live.text(service).unwrap() == "1" {
                skip!("this machine runs irqbalance");
            }
            linerate::machine::host::HostWrite::write(&live, service, b"1").unwrap();
            let knob = Knob::Service { name: "irqbalance".into() };
            let plan = candidate(vec![(knob, Value::Switch(false))]);
            let state = StateDir::at(&at);
            let blind: fn(&dyn HostRead) -> Snapshot = |_| Snapshot::default();
            let applied = set(&live, &state, &plan, blind).unwrap();
            assert_eq!(applied.writes.len(), 1);
            assert_eq!(live.text(service).unwrap(), "0");
            undo(&live, &state);
            assert_eq!(live.text(service).unwrap(), "1", "it ran before");
            linerate::machine::host::HostWrite::write(&live, service, b"0").unwrap();
        })
        .unwrap();
    drop(std::fs::remove_dir_all(&state));
    let inside = Live::in_netns(Arc::new(netns));
    assert!(inside.read(Path::new("service/irqbalance")).is_err(), "a lab must not reach it");
}

/// A stand-in for OpenWrt in the mount namespace of one thread: its files, and an `uci` that
/// stages as libuci does, by lines in /tmp/.uci.
#[test]
fn openwrts_options_are_staged_and_given_back_whether_set_or_not() {
    const UCI: &str = r#"#!/bin/sh
[ "$1" = -q ] && shift
package=${2%%.*}; rest=${2#*.}; option=${rest#*.}; value=${option#*=}; option=${option%%=*}
file=/tmp/.uci/$package
touch $file
case $1 in
revert) grep -v "\.$option\(=\|\$\)" $file >$file.new; mv $file.new $file ;;
set) echo "$package.cfg01e63d.$option='$value'" >>$file ;;
delete) echo "-$package.cfg01e63d.$option" >>$file ;;
commit) echo committed >>/tmp/.uci/log; exit 1 ;;
esac
"#;
    const NETWORK: &str = "config globals 'globals'\n\toption ula_prefix 'fd00::/48'\n";
    let Ok(netns) = NetnsThread::create() else { skip!("needs root") };
    if !Path::new("/etc/init.d").is_dir() || Path::new("/etc/config").exists() {
        skip!("no /etc/init.d, or this is OpenWrt");
    }
    let state = std::env::temp_dir().join(format!("linerate-uci-{}", std::process::id()));
    std::fs::create_dir_all(&state).unwrap();
    let at = state.clone();
    netns
        .run(move || {
            use rustix::mount::{MountFlags, mount};
            use std::os::unix::fs::PermissionsExt;
            let script = |path: &str, text: &str| {
                std::fs::write(path, text).unwrap();
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
            };
            // Everything that is written to lies on file systems of this thread's own: /etc as a
            // copy of nothing, /tmp, and a directory that PATH already has.
            let path = std::env::var("PATH").unwrap_or_default();
            let Some(bin) = path.split(':').find(|d| *d == "/usr/local/bin") else {
                skip!("no /usr/local/bin in PATH")
            };
            for directory in ["/etc", "/tmp", bin] {
                mount("own", directory, "tmpfs", MountFlags::empty(), Some(c"size=4m")).unwrap();
            }
            for directory in ["/etc/config", "/etc/init.d", "/etc/rc.d", "/tmp/.uci", "/tmp/state"]
            {
                std::fs::create_dir_all(directory).unwrap();
            }
            std::fs::write("/etc/config/firewall", firewall(None, Some("1"))).unwrap();
            std::fs::write("/etc/config/network", NETWORK).unwrap();
            std::fs::write("/etc/rc.d/S25packet_steering", "").unwrap();
            script(&format!("{bin}/uci"), UCI);
            script("/etc/init.d/firewall", "#!/bin/sh\necho firewall $1 >>/tmp/calls\n");
            script("/etc/init.d/packet_steering", "#!/bin/sh\necho steering $1 >>/tmp/calls\n");

            let live = Live::here();
            let read = |path: &str| live.text(Path::new(path)).unwrap();
            assert_eq!(read("flow-offload"), "off sw:unset hw:1 file:unset,1");
            assert_eq!(read("packet-steering"), "unset file:unset");
            let staged = || -> Vec<String> {
                ["firewall", "network"]
                    .map(|p| std::fs::read_to_string(format!("/tmp/.uci/{p}")).unwrap_or_default())
                    .to_vec()
            };
            let state = StateDir::at(Path::new("/tmp/state/own"));
            let blind: fn(&dyn HostRead) -> Snapshot = |_| Snapshot::default();
            let plan = candidate(vec![
                (Knob::FlowOffload, Value::Word("software".into())),
                (Knob::PacketSteering, Value::Word("0".into())),
            ]);
            let applied = set(&live, &state, &plan, blind).unwrap();
            assert_eq!(applied.writes.len(), 2);
            assert_eq!(
                read("flow-offload"),
                "software sw:1 hw:0 file:unset,1",
                "hardware was not asked for"
            );
            assert_eq!(read("packet-steering"), "0 file:unset");
            assert!(set(&live, &state, &plan, blind).unwrap().writes.is_empty());
            let file = |path: &str| std::fs::read_to_string(path).unwrap();
            assert_eq!(file("/tmp/calls"), "firewall reload\nsteering stop\n");
            assert!(verify(&live, &blind(&live), &plan).in_force());

            undo(&live, &state);
            assert_eq!(read("flow-offload"), "off sw:unset hw:1 file:unset,1");
            assert_eq!(read("packet-steering"), "unset file:unset");
            assert_eq!(staged(), ["", ""], "nothing of ours is left to be committed");
            assert_eq!(file("/etc/config/firewall"), firewall(None, Some("1")));
            assert_eq!(file("/etc/config/network"), NETWORK);
            let calls = file("/tmp/calls");
            assert!(calls.ends_with("steering start\nfirewall reload\n"), "{calls}");

            // What a person staged is what was there before, and stays staged.
            std::fs::write("/tmp/.uci/firewall", "firewall.cfg01e63d.flow_offloading='0'\n")
                .unwrap();
            set(&live, &state, &plan, blind).unwrap();
            undo(&live, &state);
            assert_eq!(staged(), ["firewall.cfg01e63d.flow_offloading='0'\n", ""]);

            std::fs::write("/tmp/.uci/firewall", "").unwrap();
            offload_whoever_commits(&live, &state);
            steering_whoever_commits(&live, &state);
            a_commit_and_a_reboot_are_undone_too(&live, &state);
            assert!(!Path::new("/etc/linerate").exists(), "something of ours is left");
            std::fs::write("/tmp/.uci/firewall", "firewall.cfg01e63d.flow_offloading='0'\n")
                .unwrap();

            // A firewall that can't be made anew: as before.
            script("/etc/init.d/firewall", "#!/bin/sh\nexit 1\n");
            let error = set(&live, &state, &plan, blind).unwrap_err();
            assert!(error.to_string().contains("flow offload"), "{error}");
            assert_eq!(read("flow-offload"), "off sw:0 hw:1 file:unset,1", "{error}");
        })
        .unwrap();
    drop(std::fs::remove_dir_all(&at));
    // A lab is not the machine: its flow offload is never the firewall's.
    let inside = Live::in_netns(Arc::new(netns));
    assert!(inside.read(Path::new("packet-steering")).is_err(), "a lab must not reach it");
    let of_lab = inside.text(Path::new("flow-offload"));
    assert!(!of_lab.is_ok_and(|text| text.contains("sw:")), "nor the firewall");
}

/// The line of the option, or none, in a configuration of the network.
fn network(value: Option<&str>) -> String {
    let line = value.map(|v| format!("\toption packet_steering '{v}'\n")).unwrap_or_default();
    format!("# by hand\nconfig globals 'globals'\n{line}\toption ula_prefix 'fd00::/48'\n")
}

/// Somebody's `uci commit network`: what is staged becomes the file's, whoever staged it.
fn commit_network() {
    use linerate::machine::parse::uci::staged;
    let delta = std::fs::read("/tmp/.uci/network").unwrap_or_default();
    if let Some(value) = staged(&delta, "packet_steering") {
        std::fs::write("/etc/config/network", network(value.as_deref())).unwrap();
    }
    std::fs::write("/tmp/.uci/network", "").unwrap();
}

/// The same of the firewall.
fn firewall(software: Option<&str>, hardware: Option<&str>) -> String {
    let line = |option: &str, value: Option<&str>| {
        value.map(|v| format!("\toption {option} '{v}'\n")).unwrap_or_default()
    };
    format!(
        "# by hand\nconfig defaults\n{}\toption input 'REJECT'\n{}",
        line("flow_offloading", software),
        line("flow_offloading_hw", hardware)
    )
}

/// Somebody's `uci commit firewall`, where `firewall(None, Some("1"))` was committed before.
fn commit_firewall() {
    use linerate::machine::parse::uci::staged;
    let delta = std::fs::read("/tmp/.uci/firewall").unwrap_or_default();
    let software = staged(&delta, "flow_offloading").flatten();
    let hardware = staged(&delta, "flow_offloading_hw").unwrap_or(Some("1".into()));
    std::fs::write("/etc/config/firewall", firewall(software.as_deref(), hardware.as_deref()))
        .unwrap();
    std::fs::write("/tmp/.uci/firewall", "").unwrap();
}

fn offload_whoever_commits(live: &Live, state: &StateDir) {
    let text = || live.text(Path::new("flow-offload")).unwrap();
    let blind: fn(&dyn HostRead) -> Snapshot = |_| Snapshot::default();
    for mode in ["software", "hardware"] {
        let plan = candidate(vec![(Knob::FlowOffload, Value::Word(mode.into()))]);
        for commits in [false, true] {
            std::fs::write("/etc/config/firewall", firewall(None, Some("1"))).unwrap();
            let before = text();
            set(live, state, &plan, blind).unwrap();
            assert!(text().starts_with(mode), "{}", text());
            if commits {
                commit_firewall();
                assert!(text().starts_with(mode), "{}", text());
            }
            undo(live, state);
            let case = format!("{mode}, committed: {commits}");
            assert_eq!(text(), before, "{case}");
            let file = std::fs::read_to_string("/etc/config/firewall").unwrap();
            assert_eq!(file, firewall(None, Some("1")), "{case}: not byte for byte");
            assert_eq!(std::fs::read_to_string("/tmp/.uci/firewall").unwrap(), "", "{case}");
        }
    }
}

/// Applied, committed by somebody, and the machine starts anew: journal and staged values are gone, and
/// what is committed is ours. The next call puts it back; what the owner set since is theirs.
fn a_commit_and_a_reboot_are_undone_too(live: &Live, state: &StateDir) {
    use linerate::machine::host::has_notes;
    const NOTE: &str = "/etc/linerate/staged";
    let blind: fn(&dyn HostRead) -> Snapshot = |_| Snapshot::default();
    let file = |path: &str| std::fs::read_to_string(path).unwrap();
    let plan = candidate(vec![
        (Knob::FlowOffload, Value::Word("software".into())),
        (Knob::PacketSteering, Value::Word("0".into())),
    ]);
    for (commits, owner) in [(true, None), (false, None), (true, Some("2"))] {
        std::fs::write("/etc/config/firewall", firewall(None, Some("1"))).unwrap();
        std::fs::write("/etc/config/network", network(Some("1"))).unwrap();
        set(live, state, &plan, blind).unwrap();
        if commits {
            commit_firewall();
            commit_network();
            assert_eq!(file("/etc/config/network"), network(Some("0")), "it is on flash");
        }
        assert!(!has_notes(live), "the journal of this boot knows it");
        // Off and on.
        std::fs::remove_dir_all(state.path()).unwrap();
        for package in ["firewall", "network"] {
            std::fs::write(format!("/tmp/.uci/{package}"), "").unwrap();
        }
        std::fs::write(NOTE, file(NOTE).replace(&live.identity().boot_id, "earlier")).unwrap();
        if let Some(value) = owner {
            std::fs::write("/etc/config/network", network(Some(value))).unwrap();
        }
        assert!(has_notes(live));
        let hold = Hold::take(live, state, "rollback", Duration::ZERO).unwrap();
        let notes = hold.settle().unwrap().notes;
        drop(hold);
        let expected = if !commits { 0 } else { 3 - usize::from(owner.is_some()) };
        assert_eq!(notes.len(), expected, "{notes:?}");
        assert_eq!(file("/etc/config/firewall"), firewall(None, Some("1")));
        assert_eq!(file("/etc/config/network"), network(owner.or(Some("1"))));
        assert!(!Path::new(NOTE).exists(), "{}", file(NOTE));
    }
}

/// The staged and the committed value are two: both are as before, whoever commits between any two of
/// our steps, and nothing of ours is left to be committed.
fn steering_whoever_commits(live: &Live, state: &StateDir) {
    let text = || live.text(Path::new("packet-steering")).unwrap();
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let delta = |value: &str| format!("network.cfg01e63d.packet_steering='{value}'\n");
    let blind: fn(&dyn HostRead) -> Snapshot = |_| Snapshot::default();
    let plan = candidate(vec![(Knob::PacketSteering, Value::Word("0".into()))]);
    for (committed, staged) in
        [(None, None), (Some("1"), None), (Some("1"), Some("2")), (Some("2"), None)]
    {
        for commits in 0..8_u32 {
            let case = format!("{committed:?} {staged:?}, commits {commits:03b}");
            let commit_at = |step: u32| {
                if commits & (1 << step) != 0 {
                    commit_network();
                }
            };
            std::fs::write("/etc/config/network", network(committed)).unwrap();
            std::fs::write("/tmp/.uci/network", staged.map(delta).unwrap_or_default()).unwrap();
            commit_at(0);
            let (before, was, changes) =
                (text(), file("/etc/config/network"), file("/tmp/.uci/network"));
            set(live, state, &plan, blind).unwrap();
            assert!(text().starts_with("0 "), "{case}: {}", text());
            commit_at(1);
            undo(live, state);
            assert_eq!(text(), before, "{case}");
            assert_eq!(file("/etc/config/network"), was, "{case}: not byte for byte");
            assert_eq!(file("/tmp/.uci/network"), changes, "{case}: in `uci changes`");
            commit_at(2);
            let last = if commits & 4 != 0 { before.split(' ').next() } else { None };
            assert!(last.is_none_or(|value| text() == format!("{value} file:{value}")), "{case}");
        }
        // Where the plan is persisted, the file is to say it, and only `unpersist` puts it back.
        std::fs::write("/etc/config/network", network(committed)).unwrap();
        std::fs::write("/tmp/.uci/network", "").unwrap();
        let before = text();
        set(live, state, &plan, blind).unwrap();
        std::fs::create_dir_all("/etc/linerate").unwrap();
        std::fs::write("/etc/linerate/persist.json", "packet_steering").unwrap();
        std::fs::write("/etc/config/network", network(Some("0"))).unwrap();
        linerate::machine::host::tidy_packet_steering(live);
        assert_eq!(file("/tmp/.uci/network"), "", "staged, and committed by us");
        undo(live, state);
        let value = committed.unwrap_or("unset");
        assert_eq!(text(), format!("{value} file:0"));
        std::fs::remove_file("/etc/linerate/persist.json").unwrap();
        std::fs::write("/etc/config/network", network(committed)).unwrap();
        linerate::machine::host::tidy_packet_steering(live);
        assert_eq!((text(), file("/tmp/.uci/network")), (before, String::new()));
    }
}

/// Everything under /proc/sys/net of the namespace that can be read.
fn sysctls(scene: &Scene) -> BTreeMap<String, String> {
    fn gather(directory: &Path, into: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                gather(&path, into);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                into.insert(path.display().to_string(), text.trim().to_owned());
            }
        }
    }
    scene
        .netns
        .run(|| {
            let mut all = BTreeMap::new();
            gather(Path::new("/proc/sys/net"), &mut all);
            // A count, not a setting.
            all.retain(|path, _| !path.ends_with("nf_conntrack_count"));
            all
        })
        .unwrap()
}

/// Another value than the present one.
fn other(row: &KnobSpec, now: &str) -> Option<Value> {
    let number = || now.parse::<u64>().ok();
    Some(match (row.shape, row.range) {
        (Shape::Switch, _) => Value::Switch(now == "0"),
        (Shape::Words, _) => Value::Word("20000 30000".into()),
        (Shape::Word, Range::File(path)) => {
            let words = std::fs::read_to_string(path).ok()?;
            Value::Word(words.split_whitespace().find(|word| *word != now)?.to_owned())
        }
        (Shape::Count, _) if row.name == Some("net.ipv4.tcp_tw_reuse") => {
            Value::Count(u64::from(now == "0"))
        }
        (Shape::Count, _) => Value::Count(number()? + 1),
        _ => return None,
    })
}

/// Every sysctl of the namespace is set, and whatever changes with it is in its row of the table: what
/// it drags along; and all of it is what it was after, however devices differed before.
#[test]
fn a_sysctl_changes_what_its_row_says_and_all_of_that_is_restored() {
    let Some(scene) = Scene::new("drags") else { skip!("no rights to make namespaces") };
    let write = |path: &str, text: &'static str| {
        let path = PathBuf::from(path);
        scene.netns.run(move || std::fs::write(&path, text)).unwrap().unwrap();
    };
    let own = |row: &&KnobSpec| row.kind == "sysctl" && !row.only_dragged && !row.global;
    let (mut set, mut dragged) = (0, 0);
    for forwarding in ["0", "1"] {
        for row in KNOBS.iter().filter(own) {
            let name = row.name.unwrap();
            // Devices that differ from the rest, and so do those to come.
            for family in ["ipv4", "ipv6"] {
                let conf = format!("/proc/sys/net/{family}/conf");
                write(&format!("{conf}/all/forwarding"), forwarding);
                write(&format!("{conf}/a0/forwarding"), if forwarding == "0" { "1" } else { "0" });
                write(&format!("{conf}/default/forwarding"), "1");
            }
            write("/proc/sys/net/ipv4/conf/all/accept_redirects", "1");
            write("/proc/sys/net/ipv4/conf/b0/accept_redirects", "0");
            let force = "/proc/sys/net/ipv6/conf/b0/force_forwarding";
            let before = sysctls(&scene);
            if before.contains_key(force) {
                write(force, "1");
            }
            let before = sysctls(&scene);
            let knob = Knob::Sysctl { name: name.into() };
            let Some(value) = before.get(&knob.address()).and_then(|now| other(row, now)) else {
                eprintln!("{name} is not here");
                continue;
            };
            scene.apply(vec![(knob.clone(), value)]).unwrap();
            let during = sysctls(&scene);
            let mut known: Vec<String> = vec![knob.address()];
            if name == "net.ipv4.ip_forward" {
                // The same variable by another name (net/ipv4/devinet.c).
                known.push("/proc/sys/net/ipv4/conf/all/forwarding".into());
            }
            for other in row.dragged() {
                let of = |device: &str| match other.scope {
                    Scope::Device => other.path.replace("{device}", device),
                    _ => other.of_machine().unwrap().address(),
                };
                known.extend(["a0", "b0", "lo"].map(of));
            }
            for (path, text) in during.iter().filter(|(path, text)| before[*path] != **text) {
                assert!(known.contains(path), "{name} changes {path} to {text}, unsaid");
                dragged += usize::from(*path != knob.address());
            }
            assert_ne!(before[&knob.address()], during[&knob.address()], "{name}");
            scene.roll_back();
            let after = sysctls(&scene);
            let changed = |path: &&String| before.get(*path) != after.get(*path);
            let left: Vec<_> = before.keys().filter(changed).collect();
            assert!(left.is_empty(), "{name} leaves {left:?}");
            set += 1;
        }
    }
    assert!(set >= 10 && dragged >= 10, "{set} set, {dragged} dragged along");
}

#[test]
fn forwarding_of_ipv6_that_would_lose_a_route_for_good_is_refused() {
    let Some(scene) = Scene::new("advertised") else { skip!("no rights to make namespaces") };
    let advertise = "import socket,struct,sys\n\
        s=socket.socket(socket.AF_INET6,socket.SOCK_RAW,socket.IPPROTO_ICMPV6)\n\
        i=socket.if_nametoindex('b0')\n\
        s.setsockopt(socket.IPPROTO_IPV6,socket.IPV6_MULTICAST_IF,i)\n\
        s.setsockopt(socket.IPPROTO_IPV6,socket.IPV6_MULTICAST_HOPS,255)\n\
        s.sendto(struct.pack('!BBHBBHII',134,0,0,64,0,1800,0,0),('ff02::1',0,0,i))\n";
    let send = move || Command::new("python3").args(["-c", advertise]).output();
    let routes = || scene.netns.run(|| Command::new("ip").args(["-6", "route"]).output());
    let advertised = || {
        let told = routes().unwrap().unwrap().stdout;
        String::from_utf8_lossy(&told).contains("proto ra")
    };
    // Its address is tentative for a second or two.
    for _ in 0..100 {
        match scene.netns.run(send).unwrap() {
            Err(e) => skip!("python3: {e}"),
            Ok(_) if advertised() => break,
            Ok(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    assert!(advertised(), "no route came of it");
    let forwarding =
        || (Knob::Sysctl { name: "net.ipv6.conf.all.forwarding".into() }, Value::Switch(true));
    let error = scene.apply(vec![forwarding()]).unwrap_err();
    assert_eq!(error.code(), ExitCode::NotSupported, "{error}");
    assert!(error.to_string().contains("default route of a0"), "{error}");
    assert!(error.remedy().unwrap().contains("accept_ra"), "{error:?}");
    assert!(advertised());
    // One that stays keeps nobody from it.
    let keep = || std::fs::write("/proc/sys/net/ipv6/conf/a0/accept_ra", "2");
    scene.netns.run(keep).unwrap().unwrap();
    scene.apply(vec![forwarding()]).unwrap();
    assert!(advertised());
    scene.roll_back();
    assert!(advertised());
}
