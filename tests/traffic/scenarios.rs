//! Every kind of lab on the running kernel: it carries traffic, or what is missing is named.

use std::sync::atomic::AtomicBool;

use crate::alone;
use linerate::error::{Error, ExitCode};
use linerate::machine::host::Live;
use linerate::measure::bench::{self, Context};
use linerate::measure::lab::needs::{self, Here, Kernel};
use linerate::measure::lab::pair::Pair;
use linerate::measure::lab::{Lab, LabSpec, Shape, tracked};
use linerate::measure::load::LoadSpec;
use linerate::model::measurement::Direction;

macro_rules! skip {
    ($($why:tt)*) => {{
        let thread = std::thread::current();
        eprintln!("SKIPPED {}: {}", thread.name().unwrap_or("?"), format_args!($($why)*));
        return;
    }};
}

fn spec(shape: &str) -> LabSpec {
    LabSpec { shape: shape.parse().unwrap(), ..LabSpec::default() }
}

/// What `bench --list` would say is missing for a shape.
fn missing(kernel: &Kernel, shape: &Shape) -> Vec<&'static str> {
    let features = needs::features(shape, false, false);
    let lacks = features.iter().filter(|f| kernel.has(f) == Here::No).map(|f| f.option);
    let here = Live::here();
    let programs = needs::programs(shape).iter().filter(|p| !needs::find(&here, p)).map(|p| p.name);
    lacks.chain(programs).collect()
}

/// The list and the attempt must agree: what is listed as missing is what the error names.
fn assert_named(error: &Error, lacks: &[&str], shape: &str) {
    assert_eq!(error.code(), ExitCode::NotSupported, "{shape}: {error}");
    let said = format!("{error} {:?}", error.remedy());
    assert!(lacks.iter().any(|lack| said.contains(lack)), "{shape}: {said}, listed: {lacks:?}");
    assert!(error.remedy().is_some(), "{shape}: how to get it");
}

#[test]
#[ignore = "slow: make test runs it"]
fn every_part_works_or_is_listed_as_missing_by_the_name_in_the_error() {
    let _alone = alone();
    let kernel = Kernel::read(&Live::here());
    let shapes = [
        "route",
        "nat",
        "nat+flowtable",
        "nat+vlan",
        "nat+bridge",
        "route+wireguard",
        "route+ipv6",
        "nat+ipv6",
        "nat+pppoe",
        "route+bridge+ipv6",
    ];
    for name in shapes {
        let spec = spec(name);
        let lacks = missing(&kernel, &spec.shape);
        match Lab::build(&spec) {
            Ok(lab) => {
                assert_eq!(lacks, [""; 0], "{name} is listed as not here, and works");
                assert_eq!(lab.wan_address.is_ipv6(), spec.shape.ipv6);
                let context = Context::of_lab(&lab, lab.path_mtu, None);
                for direction in [Direction::Down, Direction::Up] {
                    let load = LoadSpec::tcp(direction, 2, 0.3, 0.1);
                    let run = bench::measure(&context, &load, &AtomicBool::new(false)).unwrap();
                    assert_eq!(run.refusals, [], "{name} {direction}");
                    assert!(run.rate().mbps() > 1.0, "{name} {direction}");
                    let most = f64::from(lab.path_mtu) + 18.0;
                    assert!((800.0..=most).contains(&run.packet_bytes), "{}", run.packet_bytes);
                }
            }
            Err(e) if e.code() == ExitCode::NotPermitted => skip!("{e}"),
            Err(e) => assert_named(&e, &lacks, name),
        }
    }
}

#[test]
fn a_board_pair_is_there_or_wireguard_is_named_as_missing() {
    let _alone = alone();
    let lacks = missing(&Kernel::read(&Live::here()), &"wireguard".parse().unwrap());
    match Pair::build() {
        Ok(pair) => assert_eq!((pair.mtu, lacks.len()), (1420, 0)),
        Err(e) if e.code() == ExitCode::NotPermitted => skip!("{e}"),
        Err(e) => assert_named(&e, &lacks, "board"),
    }
}

#[test]
fn plain_routing_keeps_addresses_and_tracks_nothing() {
    let _alone = alone();
    let lab = match Lab::build(&spec("route")) {
        Ok(lab) => lab,
        Err(e) if e.code() == ExitCode::NotPermitted => skip!("{e}"),
        Err(e) => panic!("{e}"),
    };
    // That addresses stay is what building it checks; without rules nobody pays for tracking.
    assert!(matches!(tracked(&lab.router_host()), None | Some(0)));
    drop(lab);
    let tracking = LabSpec { flows: 500, ..spec("route+ipv6") };
    match Lab::build(&tracking) {
        Ok(lab) => {
            let count = tracked(&lab.router_host()).unwrap();
            assert!((500..600).contains(&count), "{count}");
        }
        Err(e) => assert_eq!(e.code(), ExitCode::NotSupported, "{e}"),
    }
}

#[test]
fn more_connections_than_the_machine_tracks_are_refused_with_the_limit() {
    let _alone = alone();
    let max = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max");
    let Ok(max) = max.unwrap_or_default().trim().parse::<u32>() else {
        skip!("no connection tracking here");
    };
    if max >= LabSpec::MAX_FLOWS {
        skip!("this machine tracks {max}");
    }
    match Lab::build(&LabSpec { flows: max, ..LabSpec::default() }) {
        Ok(_) => panic!("{max} and the lab's own fit"),
        Err(e) if e.code() == ExitCode::NotPermitted => skip!("{e}"),
        Err(e) => {
            assert_eq!(e.code(), ExitCode::NotSupported, "{e}");
            assert!(e.to_string().contains(&max.to_string()), "{e}");
            assert!(e.remedy().unwrap().contains("nf_conntrack_max"));
        }
    }
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    for spec in [
        LabSpec { flows: LabSpec::MAX_FLOWS + 1, ..LabSpec::default() },
        LabSpec { mtu: 1279, ..spec("ipv6") },
    ] {
        assert_eq!(Lab::build(&spec).err().unwrap().code(), ExitCode::Usage, "{spec:?}");
    }
}
