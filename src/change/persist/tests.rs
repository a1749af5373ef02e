//! Persisting and taking back, with faults at every step; what is printed; events in a router in
//! memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::event::{Outcome, Which};
use super::*;
use crate::change::apply::{Changer, Hold};
use crate::machine::host::FakeHost;
use crate::machine::store::StateDir;
use crate::machine::store::disk::Root;
use crate::machine::store::disk::faulty::{Fault, FaultyDisk};
use crate::model::knob::{Knob, Value};
use crate::model::plan::{Candidate, Change as Setting, DeviceFact};
use crate::model::snapshot::{IrqId, IrqRole};

fn setting(knob: Knob, value: Value) -> Setting {
    Setting { knob, before: value.clone(), after: value, reason: "a test".into() }
}

fn cpus(list: &str) -> Value {
    Value::Cpus(list.parse().unwrap())
}

fn rps(device: &str, queue: u32) -> Knob {
    Knob::RpsCpus { device: device.into(), queue }
}

fn fact(name: &str, sysfs: &str, driver: &str) -> DeviceFact {
    let (name, sysfs, driver) = (name.into(), sysfs.into(), driver.into());
    DeviceFact { name, sysfs, driver, rx_queues: 1, pending: false }
}

fn plan_of(name: &str, devices: Vec<DeviceFact>, settings: Vec<Setting>) -> Plan {
    Plan {
        machine: None,
        hostname: "router".into(),
        cpus: "0-3".parse().unwrap(),
        devices,
        model: None,
        not_made: vec![],
        candidate: Candidate {
            name: name.into(),
            title: "a test".into(),
            reason: "a test".into(),
            settings,
        },
    }
}

/// RPS on a port and on the PPPoE link over it.
fn dialled() -> Plan {
    plan_of(
        "rps-other",
        vec![
            fact("eth1", "/sys/devices/platform/15100000.ethernet/net/eth1", "mtk_soc_eth"),
            fact("pppoe-wan", "/sys/devices/virtual/net/pppoe-wan", ""),
        ],
        vec![
            setting(rps("eth1", 0), cpus("1")),
            setting(rps("pppoe-wan", 0), cpus("2-3")),
            setting(Knob::Governor { policy: "policy0".into() }, Value::Word("performance".into())),
        ],
    )
}

/// An interrupt alone: no steering to own.
fn interrupts() -> Plan {
    let irq = IrqId { device: "eth0".into(), queue: 0, role: IrqRole::Combined };
    let settings = vec![setting(Knob::IrqAffinity { irq }, cpus("1"))];
    let at = "/sys/devices/pci0000:00/0000:00:03.0/net/eth0";
    plan_of("irq-spread", vec![fact("eth0", at, "igc")], settings)
}

/// OpenWrt 24.10, with the program in its image.
const NEWER: Router = Router { own_steering: true, former: None, program_in_image: true };

fn list(init: Init, plan: &Plan) -> Vec<Wanted> {
    let own_steering = init == Init::OpenWrt;
    let router = Router { own_steering, former: Some("1".into()), program_in_image: false };
    wanted(init, "/usr/bin/linerate", plan, &router).unwrap()
}

const NETWORK: &str = "# edited by hand\nconfig globals 'globals'\n\toption ula_prefix 'fd00::/48'\n\n\
    config interface 'wan'\n\toption proto 'pppoe'\n\toption password 'secret'\n";

/// A router's flash.
struct Scene(PathBuf);

impl Scene {
    fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = crate::machine::testing::scratch(&format!("persist-{number}"));
        for directory in
            ["etc/config", "etc/init.d", "etc/rc.d", "etc/hotplug.d/net", "usr/libexec"]
        {
            fs::create_dir_all(dir.join(directory)).unwrap();
        }
        fs::create_dir_all(dir.join("etc/systemd/system")).unwrap();
        fs::write(dir.join("etc/config/network"), NETWORK).unwrap();
        Self(dir)
    }

    fn root(&self) -> Root {
        Root::at(&self.0)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Every name with its mode and content.
    fn content(&self) -> BTreeMap<String, (u32, Vec<u8>)> {
        use std::os::unix::fs::PermissionsExt;
        let mut found = BTreeMap::new();
        let mut todo = vec![self.0.clone()];
        while let Some(next) = todo.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned();
                let meta = fs::symlink_metadata(&path).unwrap();
                let content = if meta.is_symlink() {
                    fs::read_link(&path).unwrap().to_str().unwrap().into()
                } else if meta.is_dir() {
                    todo.push(path);
                    Vec::new()
                } else {
                    fs::read(&path).unwrap()
                };
                found.insert(name, (meta.permissions().mode(), content));
            }
        }
        found
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn keep(disk: &dyn Disk, init: Init, plan: &Plan) -> Result<Vec<PathBuf>> {
    persist(disk, init, plan, &list(init, plan), Some("boot-1"))
}

#[test]
fn the_files_are_these() {
    for (name, init, plan) in [
        ("systemd_rps", Init::Systemd, dialled()),
        ("openwrt_rps", Init::OpenWrt, dialled()),
        ("openwrt_irq", Init::OpenWrt, interrupts()),
    ] {
        let text: Vec<String> = list(init, &plan).iter().map(Wanted::printed).collect();
        insta::assert_snapshot!(name, text.join("\n"));
    }
}

#[test]
fn the_programs_own_path_stands_in_every_file_and_one_that_cant_is_refused() {
    for init in [Init::Systemd, Init::OpenWrt] {
        let files = wanted(init, "/opt/bin/lr", &dialled(), &NEWER).unwrap();
        let all: String = files.iter().map(Wanted::printed).collect();
        assert!(all.contains("/opt/bin/lr event") && !all.contains("/usr/bin/linerate"), "{all}");
        for bad in ["linerate", "/opt/my bin/linerate", "/opt/$(x)", "/opt/%n/linerate"] {
            assert_eq!(wanted(init, bad, &dialled(), &NEWER).unwrap_err().code(), ExitCode::Usage);
        }
    }
}

#[test]
fn what_systemd_starts_later_is_stopped_later_and_nothing_is_added_where_nothing_is_stopped() {
    let late = |plan: &Plan| -> Vec<PathBuf> {
        let all = list(Init::Systemd, plan);
        let paths = all.iter().map(|w| w.path().to_owned());
        paths.filter(|path| path.ends_with("linerate-services.service")).collect()
    };
    let mut plan = interrupts();
    assert_eq!(late(&plan), Vec::<PathBuf>::new());
    let service = Knob::Service { name: "irqbalance".into() };
    plan.candidate.settings.push(setting(service, Value::Switch(false)));
    let at = Path::new("/etc/systemd/system");
    let name = "linerate-services.service";
    assert_eq!(late(&plan), [at.join(name), at.join("multi-user.target.wants").join(name)]);
}

#[test]
fn what_a_plan_says_of_packet_steering_itself_is_what_is_persisted() {
    let steering = |plan: &Plan| {
        let files = wanted(Init::OpenWrt, "/usr/bin/linerate", plan, &NEWER).unwrap();
        let hook = files.iter().any(|f| f.path().ends_with("packet-steering.sh"));
        let option = files.iter().find_map(|f| match f {
            Wanted::Option { value, .. } => Some(value.clone()),
            Wanted::File { .. } => None,
        });
        (option, hook)
    };
    let mut plan = dialled();
    assert_eq!(steering(&plan), (Some("0".into()), true));
    plan.candidate.settings.push(setting(Knob::PacketSteering, Value::Word("2".into())));
    assert_eq!(steering(&plan), (Some("2".into()), false), "a recipe that leaves it to OpenWrt");
    assert_eq!(steering(&interrupts()), (None, false));
    // The XPS masks that releases before 24.10 write.
    let xps = Knob::XpsCpus { device: "eth1".into(), queue: 0 };
    plan.candidate.settings = vec![setting(xps, cpus("1"))];
    assert_eq!(steering(&plan).0, Some("0".into()));
}

#[test]
fn an_upgrade_of_openwrt_keeps_what_was_persisted_and_its_own_program() {
    let kept = |router| {
        let files = wanted(Init::OpenWrt, "/usr/bin/linerate", &dialled(), &router).unwrap();
        let keep = files.iter().find(|f| f.path().starts_with("/lib/upgrade/keep.d")).unwrap();
        let text = keep.printed();
        for file in files.iter().filter(|f| !f.path().starts_with("/etc/config")) {
            let line = file.path().display().to_string();
            assert!(text.lines().any(|l| l == line), "{line} is lost: {text}");
        }
        assert!(text.lines().any(|l| l == HOME), "the way back is lost: {text}");
        text.lines().any(|l| l == "/usr/bin/linerate")
    };
    assert!(kept(Router::default()));
    assert!(!kept(NEWER), "an old copy would cover the new image's");
}

#[test]
fn unpersist_leaves_no_trace() {
    for init in [Init::Systemd, Init::OpenWrt] {
        for plan in [dialled(), interrupts()] {
            let scene = Scene::new();
            let old = scene.content();
            keep(&scene.root(), init, &plan).unwrap();
            assert!(scene.path(PLAN).exists());
            assert!(keep(&scene.root(), init, &plan).unwrap().is_empty(), "a second time");
            guard::enter(&scene.root(), "boot-2").unwrap();
            unpersist(&scene.root(), false).unwrap();
            assert_eq!(scene.content(), old);
            assert!(unpersist(&scene.root(), false).unwrap().is_empty());
        }
    }
}

#[test]
fn another_plan_replaces_the_first_and_the_way_back_still_leads_to_the_beginning() {
    let scene = Scene::new();
    let old = scene.content();
    keep(&scene.root(), Init::OpenWrt, &dialled()).unwrap();
    assert!(
        fs::read_to_string(scene.path("/etc/config/network")).unwrap().contains("steering '0'")
    );
    keep(&scene.root(), Init::OpenWrt, &interrupts()).unwrap();
    // Nothing steers any more, so OpenWrt's own may again.
    assert_eq!(fs::read_to_string(scene.path("/etc/config/network")).unwrap(), NETWORK);
    keep(&scene.root(), Init::OpenWrt, &dialled()).unwrap();
    unpersist(&scene.root(), false).unwrap();
    assert_eq!(scene.content(), old);
}

#[test]
fn a_file_of_that_name_that_was_there_before_comes_back() {
    let scene = Scene::new();
    let hook = scene.path("/usr/libexec/platform/packet-steering.sh");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\n# the target's own\n").unwrap();
    let old = scene.content();
    keep(&scene.root(), Init::OpenWrt, &dialled()).unwrap();
    assert!(fs::read_to_string(&hook).unwrap().contains("linerate"));
    unpersist(&scene.root(), false).unwrap();
    assert_eq!(scene.content(), old);
}

#[test]
fn what_somebody_else_changed_is_listed_and_left_unless_forced() {
    let scene = Scene::new();
    let old = scene.content();
    keep(&scene.root(), Init::OpenWrt, &dialled()).unwrap();
    let (network, hook) =
        (scene.path("/etc/config/network"), scene.path("/etc/hotplug.d/net/60-linerate"));
    let theirs = fs::read_to_string(&network).unwrap().replace("steering '0'", "steering '2'");
    fs::write(&network, &theirs).unwrap();
    fs::write(&hook, "#!/bin/sh\n# edited\n").unwrap();
    let error = unpersist(&scene.root(), false).unwrap_err();
    assert_eq!(error.code(), ExitCode::RollbackIncomplete);
    for said in ["/etc/config/network", "packet_steering '2'", "60-linerate: it was edited"] {
        assert!(error.to_string().contains(said), "{error}");
    }
    assert_eq!(fs::read_to_string(&network).unwrap(), theirs);
    assert!(hook.exists() && !scene.path(PLAN).exists());
    unpersist(&scene.root(), true).unwrap();
    assert_eq!(scene.content(), old);
}

#[test]
fn other_lines_of_the_configuration_may_change_meanwhile() {
    let scene = Scene::new();
    keep(&scene.root(), Init::OpenWrt, &dialled()).unwrap();
    let network = scene.path("/etc/config/network");
    let more = fs::read_to_string(&network).unwrap().replace("secret", "changed");
    fs::write(&network, more).unwrap();
    unpersist(&scene.root(), false).unwrap();
    assert_eq!(fs::read_to_string(&network).unwrap(), NETWORK.replace("secret", "changed"));
}

/// Runs `job` with a fault at each operation in turn; afterwards the flash is exactly as before, or
/// exactly as without a fault.
fn at_every_step(prepare: fn(&Root), job: fn(&dyn Disk) -> Result<Vec<PathBuf>>) {
    let ready = || {
        let scene = Scene::new();
        prepare(&scene.root());
        scene
    };
    let new = {
        let scene = ready();
        job(&scene.root()).unwrap();
        scene.content()
    };
    let faults = [
        Fault::Once(io::ErrorKind::StorageFull),
        Fault::Once(io::ErrorKind::Other),
        Fault::Full,
        Fault::Killed,
        Fault::Torn,
    ];
    for fault in faults {
        let (mut olds, mut news) = (0, 0);
        for at in 0.. {
            let scene = ready();
            let old = scene.content();
            let disk = FaultyDisk::new(scene.root(), at, fault);
            let done = job(&disk);
            let killed = matches!(fault, Fault::Killed | Fault::Torn);
            if killed || done.is_ok() {
                // What the next call, or the next boot, does first.
                crate::machine::store::swap::settle(&scene.root(), Path::new(HOME)).unwrap();
            }
            let (now, context) = (scene.content(), format!("{fault:?} at {at}: {done:?}"));
            match &done {
                Ok(_) => assert_eq!(now, new, "{context}"),
                Err(_) if now == old => olds += 1,
                Err(_) => {
                    assert!(killed, "{context}");
                    assert_eq!(now, new, "{context}");
                }
            }
            news += usize::from(done.is_ok());
            if disk.count() <= at {
                break;
            }
        }
        // What fails once, or for want of room, may be made good by other means.
        let again = matches!(fault, Fault::Once(_) | Fault::Full);
        assert!((olds > 10 || again) && news > 0, "{fault:?}: {olds} {news}");
    }
}

#[test]
fn persisting_is_all_or_nothing_whatever_fails_and_whenever_the_power_goes() {
    at_every_step(|_| {}, |disk| keep(disk, Init::OpenWrt, &dialled()));
    at_every_step(|_| {}, |disk| keep(disk, Init::Systemd, &interrupts()));
}

#[test]
fn a_full_flash_does_not_keep_what_was_persisted() {
    let scene = Scene::new();
    let before = scene.content();
    keep(&scene.root(), Init::Systemd, &interrupts()).unwrap();
    let full = FaultyDisk::new(scene.root(), 0, Fault::Full);
    assert!(!unpersist(&full, false).unwrap().is_empty());
    assert_eq!(scene.content(), before);
    // Cut short in the middle, it is done by the next call.
    for at in 0..12 {
        keep(&scene.root(), Init::Systemd, &interrupts()).unwrap();
        drop(unpersist(&FaultyDisk::new(scene.root(), at, Fault::Killed), false));
        unpersist(&scene.root(), false).unwrap();
        assert_eq!(scene.content(), before, "killed at {at}");
    }
}

#[test]
fn on_a_full_flash_an_option_is_put_back_too_as_soon_as_there_is_room() {
    let scene = Scene::new();
    let before = scene.content();
    keep(&scene.root(), Init::OpenWrt, &dialled()).unwrap();
    // What goes makes room for the configuration file.
    let full = FaultyDisk::new(scene.root(), 0, Fault::Full);
    assert!(unpersist(&full, false).unwrap().contains(&PathBuf::from("/etc/config/network")));
    assert_eq!(scene.content(), before);
    // One that is larger than all of ours has to wait for more, and is named.
    let network = scene.path("/etc/config/network");
    let large = format!("{NETWORK}#{}\n", "x".repeat(1 << 16));
    fs::write(&network, &large).unwrap();
    let before = scene.content();
    keep(&scene.root(), Init::OpenWrt, &dialled()).unwrap();
    let full = FaultyDisk::new(scene.root(), 0, Fault::Full);
    let error = unpersist(&full, false).unwrap_err();
    assert_eq!(error.code(), ExitCode::RollbackIncomplete, "{error}");
    assert!(error.to_string().contains("\n  /etc/config/network"), "{error}");
    assert!(!scene.path(PLAN).exists(), "nothing is applied any more");
    assert!(!unpersist(&scene.root(), false).unwrap().is_empty());
    assert_eq!(scene.content(), before);
}

#[test]
fn replacing_and_taking_back_are_all_or_nothing_too() {
    let first: fn(&Root) = |root| drop(keep(root, Init::OpenWrt, &dialled()).unwrap());
    at_every_step(first, |disk| keep(disk, Init::OpenWrt, &interrupts()));
    at_every_step(first, |disk| unpersist(disk, false));
}

#[test]
fn systems_are_told_apart_and_others_hear_what_is_missing() {
    struct Etc(&'static [&'static str]);
    impl HostRead for Etc {
        fn read(&self, path: &Path) -> crate::machine::host::HostResult<Vec<u8>> {
            let there = self.0.contains(&path.to_str().unwrap());
            there.then(|| b"busybox\n".to_vec()).ok_or_else(|| absent(path))
        }
        fn list(&self, path: &Path) -> crate::machine::host::HostResult<Vec<String>> {
            let there = self.0.contains(&path.to_str().unwrap());
            there.then(Vec::new).ok_or_else(|| absent(path))
        }
        fn resolve(&self, path: &Path) -> crate::machine::host::HostResult<PathBuf> {
            Ok(path.into())
        }
        fn query(
            &self,
            query: &crate::machine::host::Query,
        ) -> crate::machine::host::HostResult<Vec<u8>> {
            Err(query.failed(rustix::io::Errno::OPNOTSUPP))
        }
        fn arch(&self) -> String {
            String::new()
        }
        fn identity(&self) -> crate::model::identity::HostIdentity {
            FakeHost::router(1, &[]).identity()
        }
    }
    fn absent(path: &Path) -> crate::machine::host::HostError {
        crate::machine::host::HostError::new("read", path, rustix::io::Errno::NOENT)
    }
    assert_eq!(detect(&Etc(&["/run/systemd/system"])), Ok(Init::Systemd));
    assert_eq!(detect(&Etc(&["/etc/openwrt_release", "/etc/rc.common"])), Ok(Init::OpenWrt));
    let error = detect(&Etc(&["/proc/1/comm"])).unwrap_err();
    assert_eq!(error.code(), ExitCode::NotSupported);
    assert!(error.to_string().contains("the first process is busybox"), "{error}");
}

/// A plan for the router in memory, one setting for each of its devices.
fn for_fake(fake: &FakeHost) -> Plan {
    let snapshot = fake.snapshot();
    let devices = snapshot.netdevs.iter().map(|d| {
        fact(&d.name, &d.sysfs.display().to_string(), d.driver.as_deref().unwrap_or_default())
    });
    let devices: Vec<_> =
        devices.chain([fact("ppp0", "/sys/devices/virtual/net/ppp0", "")]).collect();
    let mut settings: Vec<_> =
        devices.iter().map(|d| setting(rps(&d.name, 0), cpus("1"))).collect();
    settings.push(setting(
        Knob::Governor { policy: "policy0".into() },
        Value::Word("performance".into()),
    ));
    plan_of("test", devices, settings)
}

fn happens(fake: &FakeHost, plan: &Plan, which: &Which, state: &StateDir) -> Outcome {
    happens_without(fake, "", plan, which, state)
}

/// Runs an event as `happens` does, while a device is away.
fn happens_without(
    fake: &FakeHost,
    away: &str,
    plan: &Plan,
    which: &Which,
    state: &StateDir,
) -> Outcome {
    let devices = event::devices(fake, plan, which);
    let names = event::looked_at(plan, &devices);
    let look = |_: &dyn HostRead| {
        let mut seen = fake.snapshot();
        seen.netdevs.retain(|d| d.name != away && names.contains(&d.name));
        seen
    };
    let mut changer = Changer::begin(fake, state, "event test", Duration::ZERO, look).unwrap();
    event::run(&mut changer, plan, which, &devices, &AtomicBool::new(false))
}

fn roll_back(fake: &FakeHost, state: &StateDir) {
    Hold::take(fake, state, "rollback", Duration::ZERO).unwrap().roll_back(false).unwrap();
}

#[test]
fn an_event_sets_its_device_alone_and_a_boot_sets_all_that_is_here() {
    let dir = crate::machine::testing::scratch("event");
    let state = StateDir::at(dir.join("state"));
    let fake = FakeHost::router(4, &[("eth0", 1), ("eth1", 1)]);
    let old = fake.content();
    let plan = for_fake(&fake);
    let one = happens(&fake, &plan, &Which::Device("eth1".into()), &state);
    assert_eq!((one.written, one.failed.len(), one.waiting.len()), (1, 0, 0), "{one:?}");
    let none = happens(&fake, &plan, &Which::Device("docker0".into()), &state);
    assert_eq!(none.written + none.already, 0);
    let all = happens(&fake, &plan, &Which::Everything, &state);
    assert_eq!((all.written, all.already), (2, 1), "{all:?}");
    assert_eq!(all.waiting.len(), 1, "the link that is down: {all:?}");
    // It is undone like anything else.
    roll_back(&fake, &state);
    assert_eq!(fake.content(), old);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_device_that_refuses_does_not_keep_the_others_from_their_settings() {
    let dir = crate::machine::testing::scratch("event-refused");
    let state = StateDir::at(dir.join("state"));
    let fake = FakeHost::router(4, &[("eth0", 1), ("eth1", 1)]);
    let mut plan = for_fake(&fake);
    // Another card came into its slot.
    plan.devices[0].driver = "e1000e".into();
    let done = happens(&fake, &plan, &Which::Devices, &state);
    assert_eq!((done.written, done.failed.len()), (1, 1), "{done:?}");
    assert!(done.failed[0].to_string().contains("another driver"), "{done:?}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_link_that_goes_up_and_down_all_year_leaves_one_journal() {
    let dir = crate::machine::testing::scratch("event-flaps");
    let state = StateDir::at(dir.join("state"));
    let fake = FakeHost::router(4, &[("eth0", 1)]);
    let plan = for_fake(&fake);
    let rps = Path::new("/sys/class/net/eth0/queues/rx-0/rps_cpus");
    let old = fake.content();
    for _ in 0..50 {
        let done = happens(&fake, &plan, &Which::Device("eth0".into()), &state);
        assert_eq!(done.written, 1);
        fake.meddle(rps, "0");
    }
    assert_eq!(state.journals().unwrap().whole.len(), 1);
    roll_back(&fake, &state);
    assert_eq!(fake.content(), old);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_flowtable_gets_the_link_that_is_dialled_later_and_gets_it_again_when_it_is_dialled_anew() {
    let dir = crate::machine::testing::scratch("event-flowtable");
    let state = StateDir::at(dir.join("state"));
    let fake = FakeHost::router(4, &[("eth0", 1), ("pppoe-wan", 1)]);
    let old = fake.content();
    let mut plan = for_fake(&fake);
    plan.devices.retain(|d| d.name != "ppp0");
    let both = Value::Word("software eth0 pppoe-wan".into());
    plan.candidate.settings = vec![setting(Knob::FlowOffload, both)];
    let offload = || fake.text(Path::new("flow-offload")).unwrap();
    let event = Which::Device("pppoe-wan".into());
    let boot = happens_without(&fake, "pppoe-wan", &plan, &Which::Everything, &state);
    assert!(boot.failed.is_empty(), "{boot:?}");
    assert_eq!((offload().as_str(), boot.waiting.len()), ("software eth0", 1));
    for _ in 0..20 {
        let dialled = happens(&fake, &plan, &event, &state);
        assert_eq!((dialled.written, dialled.failed.len()), (1, 0), "{dialled:?}");
        assert_eq!(offload(), "software eth0 pppoe-wan");
        // The link goes, and the kernel takes its device out.
        fake.meddle(Path::new("flow-offload"), "software eth0");
    }
    let journals = state.journals().unwrap().whole.len();
    assert!(journals <= 2, "one for each night: {journals}");
    // A port whose card was replaced keeps none of the others from the flowtable's other settings,
    // and an event of a device that is in no flowtable leaves it alone.
    plan.devices[1].driver = "e1000e".into();
    let other = happens(&fake, &plan, &Which::Device("eth7".into()), &state);
    assert_eq!((other.written, other.failed.len()), (0, 0), "{other:?}");
    let refused = happens(&fake, &plan, &event, &state);
    assert!(refused.failed[0].to_string().contains("another driver"), "{refused:?}");
    roll_back(&fake, &state);
    assert_eq!(fake.content(), old);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_program_in_memory_is_told_from_one_on_flash() {
    struct Mounts;
    impl HostRead for Mounts {
        fn read(&self, _: &Path) -> crate::machine::host::HostResult<Vec<u8>> {
            Ok(b"overlayfs:/overlay / overlay rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n".to_vec())
        }
        fn list(&self, _: &Path) -> crate::machine::host::HostResult<Vec<String>> {
            Ok(Vec::new())
        }
        fn resolve(&self, path: &Path) -> crate::machine::host::HostResult<PathBuf> {
            Ok(path.into())
        }
        fn query(
            &self,
            query: &crate::machine::host::Query,
        ) -> crate::machine::host::HostResult<Vec<u8>> {
            Err(query.failed(rustix::io::Errno::OPNOTSUPP))
        }
        fn arch(&self) -> String {
            String::new()
        }
        fn identity(&self) -> crate::model::identity::HostIdentity {
            FakeHost::router(1, &[]).identity()
        }
    }
    assert!(is_volatile(&Mounts, Path::new("/tmp/linerate")));
    assert!(!is_volatile(&Mounts, Path::new("/tmpx/linerate")));
    assert!(!is_volatile(&Mounts, Path::new("/usr/bin/linerate")));
}
