//! Labs on the running kernel: what a user gets from `lab` and what is left behind.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate::error::ExitCode;
use linerate::machine::host::{HostRead, Query, query_as};
use linerate::machine::sys::netns::NetnsThread;
use linerate::machine::sys::{ethtool, nft, rtnl};
use linerate::measure::lab::named::{self, Role};
use linerate::measure::lab::{Counted, LAN_ADDRESS, WAN_ADDRESS};
use linerate::measure::lab::{ENDPOINT, Lab, LabSpec, ROUTER_LAN, ROUTER_WAN, ROUTER_WAN_ADDRESS};
use linerate::model::feature::Qdisc;
use rustix::mount::{MountFlags, UnmountFlags, mount};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Ends a test that can't run here, in the words that the test driver counts.
macro_rules! skip {
    ($($why:tt)*) => {{
        eprintln!("SKIPPED {}: {}", std::thread::current().name().unwrap_or("?"), format_args!($($why)*));
        return;
    }};
}

/// A lab, or the reason why there can be none here.
macro_rules! lab {
    ($spec:expr) => {
        match Lab::build($spec) {
            Ok(lab) => lab,
            Err(e) if matches!(e.code(), ExitCode::NotPermitted | ExitCode::NotSupported) => {
                skip!("{e}")
            }
            Err(e) => panic!("{e}"),
        }
    };
}

#[test]
fn the_router_forwards_and_masquerades() {
    let lab = lab!(&LabSpec::default());
    let server = lab.wan.run(|| TcpListener::bind((WAN_ADDRESS, 0)).unwrap()).unwrap();
    let target = server.local_addr().unwrap();
    let client = lab.lan.run(move || TcpStream::connect(target).unwrap()).unwrap();
    let (_stream, from) = server.accept().unwrap();
    assert_eq!(client.local_addr().unwrap().ip(), LAN_ADDRESS);
    assert_eq!(from.ip(), ROUTER_WAN_ADDRESS);
    let forward = Path::new("/proc/sys/net/ipv4/ip_forward");
    assert_eq!(lab.router_host().text(forward).unwrap(), "1");
    for end in [&lab.lan, &lab.wan] {
        let text = end.run(move || std::fs::read_to_string(forward).unwrap()).unwrap();
        assert_eq!(text.trim(), "0", "only the router forwards");
    }
}

#[test]
fn a_lab_is_there_in_a_moment() {
    let started = Instant::now();
    let lab = lab!(&LabSpec::nat(300, 1500));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    eprintln!("built in {:?}", started.elapsed());
    drop(lab);
}

#[test]
fn all_rules_are_in_force() {
    for rules in [0, 1, 300, 1201] {
        let lab = lab!(&LabSpec::nat(rules, 1500));
        let found = lab.router.run(nft::count_rules).unwrap().unwrap();
        assert_eq!(found, usize::try_from(rules).unwrap());
    }
}

#[test]
fn offloads_are_off_on_all_four_ends() {
    let lab = lab!(&LabSpec::default());
    let ends = [
        (&lab.lan, ENDPOINT),
        (&lab.router, ROUTER_LAN),
        (&lab.router, ROUTER_WAN),
        (&lab.wan, ENDPOINT),
    ];
    for (netns, device) in ends {
        let features = netns.run(move || ethtool::features(device)).unwrap().unwrap();
        // What `ethtool -k` calls tso, gso, gro, and what of UDP's.
        for name in [
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-generic-segmentation",
            "tx-udp-segmentation",
            "rx-gro",
            "rx-gro-list",
            "rx-udp-gro-forwarding",
        ] {
            assert!(!features.get(name).is_some_and(|f| f.active), "{device}: {name}");
        }
    }
}

#[test]
fn a_bulk_transfer_is_in_packets_of_mtu_size() {
    for mtu in [1500, 600] {
        let lab = lab!(&LabSpec::nat(0, mtu));
        transfer(&lab, 20 << 20);
        let host = lab.router_host();
        for (device, bytes, packets) in
            [(ROUTER_LAN, "rx_bytes", "rx_packets"), (ROUTER_WAN, "tx_bytes", "tx_packets")]
        {
            let count = |name| -> f64 {
                let path = format!("/sys/class/net/{device}/statistics/{name}");
                host.text(Path::new(&path)).unwrap().parse().unwrap()
            };
            let mean = count(bytes) / count(packets);
            let frame = f64::from(mtu + 14);
            assert!(mean <= frame && mean > frame * 0.9, "{device}: {mean} bytes, mtu {mtu}");
        }
    }
}

/// Sends `bytes` from lan to wan over one TCP stream.
fn transfer(lab: &Lab, bytes: u64) {
    let server = lab.wan.run(|| TcpListener::bind((WAN_ADDRESS, 0)).unwrap()).unwrap();
    let target = server.local_addr().unwrap();
    let sink = std::thread::spawn(move || {
        let mut stream = server.accept().unwrap().0;
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
    });
    let mut stream = lab.lan.run(move || TcpStream::connect(target).unwrap()).unwrap();
    std::io::copy(&mut std::io::repeat(7).take(bytes), &mut stream).unwrap();
    stream.flush().unwrap();
    drop(stream);
    assert_eq!(sink.join().unwrap(), bytes);
}

/// Works where the kernel has flowtables, and says what is missing where it has none.
#[test]
fn a_flowtable_is_in_use_or_its_lack_is_named() {
    let lab = match Lab::build(&LabSpec {
        shape: "nat+flowtable".parse().unwrap(),
        ..LabSpec::nat(10, 1500)
    }) {
        Ok(lab) => lab,
        Err(e) => {
            assert_eq!(e.code(), ExitCode::NotSupported, "{e}");
            if !e.to_string().contains("FLOW") {
                skip!("{e}");
            }
            assert!(e.remedy().unwrap().contains("modprobe"), "{e}");
            return;
        }
    };
    transfer(&lab, 20 << 20);
    let conntrack = Path::new("/proc/thread-self/net/nf_conntrack");
    let flows = lab.router.run(move || std::fs::read_to_string(conntrack)).unwrap();
    match flows {
        Ok(flows) => assert!(flows.contains("OFFLOAD"), "{flows}"),
        Err(e) => skip!("{}: {e} (CONFIG_NF_CONNTRACK_PROCFS)", conntrack.display()),
    }
}

#[test]
fn queue_disciplines_are_read_with_their_device() {
    let lab = lab!(&LabSpec::default());
    let qdiscs = query_as::<Vec<Qdisc>>(&lab.router_host(), &Query::Qdiscs).unwrap();
    for device in [ROUTER_LAN, ROUTER_WAN] {
        let kinds: Vec<_> =
            qdiscs.iter().filter(|q| q.device == device).map(|q| (&*q.kind, q.queue)).collect();
        assert_eq!(kinds, [("noqueue", None)], "{device}");
    }
}

#[test]
fn three_labs_live_side_by_side() {
    let labs: Vec<_> = std::thread::scope(|scope| {
        let build = || Lab::build(&LabSpec::nat(10, 1500));
        let builds: Vec<_> = (0..3).map(|_| scope.spawn(build)).collect();
        builds.into_iter().map(|b| b.join().unwrap()).collect()
    });
    for lab in labs {
        match lab {
            Ok(lab) => transfer(&lab, 1 << 20),
            Err(e) if e.code() == ExitCode::NotPermitted => skip!("{e}"),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    for spec in [
        LabSpec { mtu: 0, ..LabSpec::default() },
        LabSpec { mtu: 67, ..LabSpec::default() },
        LabSpec { mtu: 65_536, ..LabSpec::default() },
        LabSpec { rules: u32::MAX, ..LabSpec::default() },
    ] {
        assert_eq!(Lab::build(&spec).err().map(|e| e.code()), Some(ExitCode::Usage), "{spec:?}");
    }
}

#[test]
fn names_that_are_taken_and_devices_that_are_not_there_are_errors() {
    let Ok(netns) = NetnsThread::create().map(Arc::new) else {
        skip!("network namespaces need root");
    };
    let end = |name| rtnl::VethEnd { name, netns: None };
    let errors = netns
        .run(move || {
            rtnl::create_veth(end("a0"), end("b0"), 1500).unwrap();
            let taken = rtnl::create_veth(end("a0"), end("c0"), 1500);
            rtnl::delete("a0").unwrap();
            [taken, rtnl::delete("b0"), rtnl::set_up("b0"), ethtool::set_features("b0", &[])]
        })
        .unwrap();
    let codes = errors.map(|e| e.unwrap_err().raw_os_error());
    assert_eq!(codes, [Some(17), Some(19), Some(19), Some(19)], "EEXIST, then ENODEV");
}

/// Tells when network namespaces are really gone, whoever may hold them: a veth pair is stretched
/// from a namespace of the watcher into each, and the kernel removes a pair as soon as one end's
/// namespace ends.
struct Watch {
    netns: NetnsThread,
}

impl Watch {
    fn on(files: Vec<File>) -> Self {
        let netns = NetnsThread::create().unwrap();
        netns
            .run(move || {
                for (i, file) in files.iter().enumerate() {
                    let name = format!("w{i}");
                    let near = rtnl::VethEnd { name: &name, netns: None };
                    let far = rtnl::VethEnd { name: "watch", netns: Some(file.as_fd()) };
                    rtnl::create_veth(near, far, 1500).unwrap();
                }
            })
            .unwrap();
        let watch = Self { netns };
        assert_eq!(watch.alive(), 3);
        watch
    }

    fn alive(&self) -> usize {
        self.netns.run(|| rtnl::links().unwrap().len()).unwrap() - 1
    }

    /// Waits until they are gone; the kernel takes namespaces apart in the background.
    fn gone(&self) -> bool {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            self.alive() == 0
        })
    }
}

fn namespace_file(pid: u32, tid: i32) -> File {
    File::open(format!("/proc/{pid}/task/{tid}/ns/net")).unwrap()
}

fn threads(lab: &Lab) -> Vec<i32> {
    let tid = |netns: &NetnsThread| netns.run(|| rustix::thread::gettid().as_raw_nonzero().get());
    [&lab.lan, &lab.router, &lab.wan].map(|netns| tid(netns).unwrap()).to_vec()
}

/// Devices of the namespace the tests run in, and all mounts but those of named namespaces, which
/// other tests make meanwhile.
fn machine() -> (Vec<String>, Vec<String>) {
    let links = rtnl::links().unwrap().into_values().collect();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    (links, mounts.lines().filter(|m| !m.contains("/run")).map(str::to_owned).collect())
}

#[test]
fn a_dropped_lab_leaves_nothing() {
    let before = machine();
    let lab = lab!(&LabSpec::nat(5, 1500));
    let files = threads(&lab).into_iter().map(|t| namespace_file(std::process::id(), t)).collect();
    let watch = Watch::on(files);
    drop(lab);
    assert!(watch.gone(), "a namespace outlives its lab");
    assert_eq!(machine(), before);
}

#[test]
fn a_killed_process_leaves_nothing() {
    const ROLE: &str = "LINERATE_TEST_HOLD_A_LAB";
    if std::env::var_os(ROLE).is_some() {
        // The process that is killed. Not for ever, should the test itself be killed.
        let lab = Lab::build(&LabSpec::nat(5, 1500)).unwrap();
        println!("\nthreads {:?}", threads(&lab));
        std::thread::sleep(Duration::from_secs(30));
        return;
    }
    let before = machine();
    if let Err(e) = Lab::build(&LabSpec::default()) {
        skip!("{e}");
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lab::a_killed_process_leaves_nothing", "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let line = output.lines().map_while(Result::ok).find(|l| l.starts_with("threads [")).unwrap();
    let threads: Vec<i32> = line
        .trim_start_matches("threads [")
        .trim_end_matches(']')
        .split(", ")
        .map(|tid| tid.parse().unwrap())
        .collect();
    let watch = Watch::on(threads.iter().map(|t| namespace_file(child.id(), *t)).collect());
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(watch.gone(), "a namespace outlives its process");
    assert_eq!(machine(), before);
}

#[test]
fn without_privileges_the_remedy_is_named() {
    let error = std::thread::spawn(|| {
        // Of this thread alone; those it starts inherit it.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).unwrap();
        Lab::build(&LabSpec::default()).err().unwrap()
    })
    .join()
    .unwrap();
    assert_eq!(error.code(), ExitCode::NotPermitted, "{error}");
    assert!(error.remedy().unwrap().contains("CAP_NET_ADMIN"));
}

/// Runs `test` where /run is empty and its own: other labs of this machine are neither seen nor
/// in danger.
fn with_own_run(test: impl FnOnce() + Send + 'static) -> bool {
    let Ok(elsewhere) = NetnsThread::create() else { return false };
    let mounted = elsewhere.run(move || {
        mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None::<&std::ffi::CStr>).unwrap();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(test))
    });
    if let Err(panic) = mounted.unwrap() {
        std::panic::resume_unwind(panic);
    }
    true
}

fn run_is_empty() -> bool {
    std::fs::read_dir("/run").unwrap().next().is_none()
}

#[test]
fn a_named_lab_stays_until_it_is_taken_down() {
    let ran = with_own_run(|| {
        assert_eq!(named::list().unwrap(), []);
        let spec = LabSpec::nat(7, 1400);
        let one = named::up(&spec).unwrap();
        let two = named::up(&LabSpec::default()).unwrap();
        assert_ne!(one.id, two.id);
        let mut both = [one.clone(), two.clone()];
        both.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(named::list().unwrap(), both);
        assert!(one.is_whole() && one.spec == Some(spec));

        // It is a router still, though everything that built it is gone.
        let at = |role: usize| NetnsThread::enter(&one.namespaces[role].1).unwrap();
        let lab = Lab {
            lan: at(0).into(),
            router: at(1).into(),
            wan: at(2).into(),
            spec,
            wan_address: WAN_ADDRESS.into(),
            path_mtu: spec.mtu,
            counted: Counted::PLAIN,
            programs: Default::default(),
        };
        transfer(&lab, 1 << 20);
        assert_eq!(lab.router.run(nft::count_rules).unwrap().unwrap(), 7);
        let tids = threads(&lab);
        let watch =
            Watch::on(tids.iter().map(|t| namespace_file(std::process::id(), *t)).collect());
        drop(lab);

        let removed = named::down(Some(&one.id)).unwrap();
        assert_eq!(removed.len(), 1);
        assert_eq!(removed[0].namespaces.len(), 3);
        assert!(removed[0].record);
        assert!(watch.gone(), "a namespace outlives its name");
        assert_eq!(named::list().unwrap(), [two]);
        assert_eq!(named::down(Some(&one.id)).unwrap(), [], "a second time there is nothing");
        assert_eq!(named::down(None).unwrap().len(), 1);
        assert_eq!(named::down(None).unwrap(), []);
        assert!(run_is_empty());
    });
    if !ran {
        skip!("network namespaces need root");
    }
}

#[test]
fn what_a_crash_left_is_found_and_removed_and_nothing_else() {
    let ran = with_own_run(|| {
        // Died after the record.
        let lab = named::up(&LabSpec::default()).unwrap();
        named::down(Some(&lab.id)).unwrap();
        std::fs::create_dir_all("/run/linerate/labs").unwrap();
        std::fs::write("/run/linerate/labs/00000a.json", "{\"version\": 1, \"id\"").unwrap();
        // Died after the file and before the mount, its record lost.
        std::fs::create_dir("/run/netns").unwrap();
        std::fs::write("/run/netns/lr-00000b-router", "").unwrap();
        // Died half-way: one namespace of three, its record lost.
        let lab = named::up(&LabSpec::default()).unwrap();
        for role in [0, 1] {
            rustix::mount::unmount(&lab.namespaces[role].1, UnmountFlags::DETACH).unwrap();
            std::fs::remove_file(&lab.namespaces[role].1).unwrap();
        }
        std::fs::remove_file(format!("/run/linerate/labs/{}.json", lab.id)).unwrap();
        // Someone else's.
        for foreign in ["vpn", "lr-mine", "lr-00000b-lan.old"] {
            std::fs::write(format!("/run/netns/{foreign}"), "").unwrap();
        }
        let found = named::list().unwrap();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|lab| !lab.is_whole()));

        let mut ids = vec!["00000a".to_owned(), "00000b".to_owned(), lab.id];
        ids.sort();
        let removed: Vec<_> = named::down(None).unwrap().into_iter().map(|r| r.id).collect();
        assert_eq!(removed, ids);
        assert_eq!(named::list().unwrap(), []);
        let mut stays: Vec<_> = std::fs::read_dir("/run/netns")
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        stays.sort();
        assert_eq!(stays, ["lr-00000b-lan.old", "lr-mine", "vpn"]);
    });
    if !ran {
        skip!("network namespaces need root");
    }
}

#[test]
fn a_program_in_a_lab_sees_that_side_and_its_status_comes_back() {
    let ran = with_own_run(|| {
        let lab = named::up(&LabSpec::default()).unwrap();
        let sh = |role, script: &str| {
            named::enter(&lab.id, role, &["sh".into(), "-c".into(), script.into()]).unwrap()
        };
        let devices = "cd /sys/class/net && test \"$(echo *)\" =";
        assert_eq!(sh(Role::Router, &format!("{devices} 'lan0 lo wan0'")), 0);
        assert_eq!(sh(Role::Wan, &format!("{devices} 'eth0 lo'")), 0);
        assert_eq!(sh(Role::Lan, "exit 7"), 7);
        assert_eq!(sh(Role::Lan, "kill -TERM $$"), 128 + 15);
        let code = |id: &str, argv: &[std::ffi::OsString]| {
            named::enter(id, Role::Lan, argv).unwrap_err().code()
        };
        assert_eq!(code(&lab.id, &["/no/such/program".into()]), ExitCode::Usage);
        named::down(None).unwrap();
        assert_eq!(code(&lab.id, &[]), ExitCode::Usage);
    });
    if !ran {
        skip!("network namespaces need root");
    }
}

#[test]
fn without_privileges_a_named_lab_leaves_nothing_either() {
    let ran = with_own_run(|| {
        let error = std::thread::spawn(|| {
            let none = CapabilitySet::empty();
            let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
            rustix::thread::set_capabilities(None, sets).unwrap();
            named::up(&LabSpec::default()).unwrap_err()
        });
        assert_eq!(error.join().unwrap().code(), ExitCode::NotPermitted);
        assert!(run_is_empty());
    });
    if !ran {
        skip!("network namespaces need root");
    }
}
