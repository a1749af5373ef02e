//! The scene: a router in memory, a state directory of the test's own, plans.

use super::prelude::*;

/// A state directory of its own, removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = Path::new("/dev/shm");
        let base = if base.is_dir() { base.to_owned() } else { std::env::temp_dir() };
        let dir = base.join(format!("linerate-transaction-{}-{n}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn state(&self) -> StateDir {
        StateDir::at(self.0.join("state"))
    }

    /// The journals' bytes.
    pub(crate) fn journals(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let Ok(entries) = fs::read_dir(self.0.join("state")) else { return BTreeMap::new() };
        entries
            .map(|e| e.unwrap().path())
            .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("journal-"))
            .map(|p| (p.clone(), fs::read(p).unwrap()))
            .collect()
    }

    /// Makes the state directory hold these journals and nothing else.
    pub(crate) fn put_journals(&self, journals: &BTreeMap<PathBuf, Vec<u8>>) {
        use std::os::unix::fs::DirBuilderExt;
        let dir = self.0.join("state");
        if dir.exists() {
            fs::remove_dir_all(&dir).unwrap();
        }
        fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        for (path, content) in journals {
            fs::write(path, content).unwrap();
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        !self.0.join("state").exists()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

pub(crate) fn cpus(list: &str) -> Value {
    Value::Cpus(list.parse().unwrap())
}

pub(crate) fn rps(device: &str, queue: u32) -> Knob {
    Knob::RpsCpus { device: device.into(), queue }
}

pub(crate) fn irq(device: &str, queue: u32) -> Knob {
    Knob::IrqAffinity { irq: IrqId { device: device.into(), queue, role: IrqRole::Combined } }
}

pub(crate) fn sysctl(name: &str) -> Knob {
    Knob::Sysctl { name: name.into() }
}

pub(crate) fn candidate(name: &str, settings: Vec<(Knob, Value)>) -> Candidate {
    let change = |(knob, after): (Knob, Value)| Change {
        knob,
        before: after.clone(),
        after,
        reason: "a test".into(),
    };
    Candidate {
        name: name.into(),
        title: name.into(),
        reason: "a test".into(),
        settings: settings.into_iter().map(change).collect(),
    }
}

pub(crate) fn router() -> FakeHost {
    FakeHost::router(4, &[("eth0", 2), ("eth1", 1)])
}

/// Every kind of setting; one of them as wanted already.
pub(crate) fn spread() -> Candidate {
    candidate(
        "spread",
        vec![
            (irq("eth0", 0), cpus("1")),
            (irq("eth0", 1), cpus("2")),
            (rps("eth0", 0), cpus("2-3")),
            (rps("eth0", 1), cpus("")),
            (rps("eth1", 0), cpus("0,3")),
            (Knob::XpsCpus { device: "eth1".into(), queue: 0 }, cpus("1")),
            (Knob::RpsFlowCnt { device: "eth0".into(), queue: 0 }, Value::Count(1000)),
            (Knob::Governor { policy: "policy0".into() }, Value::Word("performance".into())),
            (
                Knob::XpsRxqs { device: "eth0".into(), queue: 1 },
                Value::Queues("0-1".parse().unwrap()),
            ),
            (Knob::ThreadedNapi { device: "eth0".into() }, Value::Switch(true)),
            (Knob::NapiDeferHardIrqs { device: "eth0".into() }, Value::Count(2)),
            (Knob::GroFlushTimeout { device: "eth0".into() }, Value::Count(200_000)),
            (Knob::MinFrequency { policy: "policy0".into() }, Value::Count(1_200_000)),
            (
                Knob::Coalesce { device: "eth0".into(), parameter: "rx-usecs".into() },
                Value::Count(8),
            ),
            (
                Knob::Coalesce { device: "eth0".into(), parameter: "adaptive-rx".into() },
                Value::Switch(false),
            ),
            (Knob::Ring { device: "eth1".into(), direction: "rx".into() }, Value::Count(1024)),
            (
                Knob::Offload { device: "eth1".into(), feature: "rx-gro-list".into() },
                Value::Switch(true),
            ),
            (Knob::RssTable { device: "eth0".into() }, Value::Word("0,0,0,1".into())),
            (Knob::Qdisc { device: "eth1".into() }, Value::Word("fq".into())),
            (Knob::NapiThread { device: "eth1".into(), thread: 0 }, cpus("3")),
            (Knob::Service { name: "irqbalance".into() }, Value::Switch(false)),
            (Knob::PacketSteering, Value::Word("0".into())),
            (Knob::FlowOffload, Value::Word("software eth1 eth0".into())),
            (sysctl("net.core.rps_sock_flow_entries"), Value::Count(30_000)),
            (sysctl("net.core.netdev_budget"), Value::Count(600)),
            (sysctl("net.ipv4.ip_local_port_range"), Value::Word("1024 65535".into())),
        ],
    )
}

/// Which write of [`spread`] is the first to an interrupt line: the service, a ring, the RSS
/// table and threaded NAPI come before.
pub(crate) const FIRST_LINE: usize = 4;

/// Those of [`spread`] that differ from what the router starts with.
pub(crate) const WRITES: usize = 25;

pub(crate) fn one_cpu() -> Candidate {
    candidate(
        "one-cpu",
        vec![
            (irq("eth0", 0), cpus("0")),
            (irq("eth0", 1), cpus("0")),
            (rps("eth0", 0), cpus("0")),
            (rps("eth1", 0), cpus("0")),
        ],
    )
}

pub(crate) static GO_ON: AtomicBool = AtomicBool::new(false);

/// The way in of every verb that sets something.
pub(crate) fn begin<'a>(
    door: &'a dyn HostWrite,
    fake: &'a FakeHost,
    scratch: &Scratch,
    verb: &str,
) -> Result<Changer<'a>, Error> {
    Changer::begin(door, &scratch.state(), verb, Duration::ZERO, |_| fake.snapshot())
}

pub(crate) fn do_apply(
    door: &dyn HostWrite,
    fake: &FakeHost,
    candidate: &Candidate,
    scratch: &Scratch,
) -> Result<apply::Applied, Error> {
    begin(door, fake, scratch, "apply test")?.apply(candidate, &GO_ON)
}

/// The same on a real kernel, of which the snapshot is made up.
pub(crate) fn apply_live(
    live: &Live,
    snapshot: &Snapshot,
    candidate: &Candidate,
    scratch: &Scratch,
) -> Result<apply::Applied, Error> {
    let look = |_: &dyn HostRead| snapshot.clone();
    Changer::begin(live, &scratch.state(), "apply", Duration::ZERO, look)?.apply(candidate, &GO_ON)
}

pub(crate) fn hold<'a>(door: &'a dyn HostWrite, scratch: &Scratch, verb: &str) -> Hold<'a> {
    Hold::take(door, &scratch.state(), verb, Duration::ZERO).unwrap()
}

pub(crate) fn do_rollback(
    door: &dyn HostWrite,
    scratch: &Scratch,
) -> Result<apply::RolledBack, Error> {
    hold(door, scratch, "rollback").roll_back(false)
}

pub(crate) fn do_settle(
    door: &dyn HostWrite,
    scratch: &Scratch,
) -> Result<apply::RolledBack, Error> {
    hold(door, scratch, "settle").settle()
}

pub(crate) type Content = BTreeMap<PathBuf, String>;

/// What the router holds when `candidate` is in force.
pub(crate) fn in_force(candidate: &Candidate) -> Content {
    let (fake, scratch) = (router(), Scratch::new());
    do_apply(&fake, &fake, candidate, &scratch).unwrap();
    fake.content()
}

/// The files that are not as before must be those of the list, each with what is there.
pub(crate) fn assert_list_is_complete(error: &Error, before: &Content, now: &Content) {
    assert_eq!(error.code(), ExitCode::RollbackIncomplete, "{error}");
    let said = error.to_string();
    for (path, text) in now.iter().filter(|(path, text)| before[*path] != **text) {
        let line =
            said.lines().find(|l| l.trim_start().starts_with(&format!("{}:", path.display())));
        let line = line.unwrap_or_else(|| panic!("{} is missing in: {said}", path.display()));
        assert!(line.contains(&format!("wanted {}", before[path])), "{line}");
        assert!(line.contains(&format!("is {text} ")) || line.contains("is unknown"), "{line}");
    }
}

pub(crate) fn every_fault() -> Vec<Fault> {
    let answers = [
        Errno::IO,
        Errno::PERM,
        Errno::ACCESS,
        Errno::INVAL,
        Errno::BUSY,
        Errno::AGAIN,
        Errno::NOSPC,
        Errno::OVERFLOW,
        Errno::ROFS,
        Errno::NOENT,
        Errno::NODEV,
    ];
    let mut faults: Vec<Fault> = answers.map(Fault::Once).to_vec();
    faults.extend([Errno::IO, Errno::INVAL, Errno::NOSPC].map(Fault::Always));
    faults.extend([Errno::IO, Errno::INVAL].map(Fault::FailsButTakes));
    faults.push(Fault::Times(Errno::BUSY, 2));
    faults.push(Fault::Ignored);
    faults.push(Fault::ReadsBack("8"));
    faults.push(Fault::Unreadable(Errno::IO));
    faults
}
