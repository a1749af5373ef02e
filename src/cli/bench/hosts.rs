//! `linerate bench --lan HOST --wan HOST`: one measurement over real wires.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use super::args::BenchArgs;
use super::{beside_lines, fitting, load_spec, text, verdict};
use crate::cli::context::Context;
use crate::cli::interrupt;
use crate::cli::shared::hosts::{SHARED, within_link};
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::store;
use crate::machine::store::measured::Origin;
use crate::measure::bench::Bed;
use crate::measure::bench::beside::{Beside, Seen, measure_directions};
use crate::measure::bench::hosts::Hosts;
use crate::model::measurement::{EvidenceClass, Measurement, Protocol, Scenario};
use crate::model::party::Party;

/// `bench --json` over real wires.
#[derive(serde::Serialize)]
struct Benched<'a> {
    format: &'static str,
    version: u32,
    class: EvidenceClass,
    origin: Origin,
    candidate: &'a str,
    scenario: Scenario,
    wan_address: IpAddr,
    agents: &'a [Party],
    runs: &'a [Measurement],
    #[serde(flatten)]
    beside: &'a Seen,
}

/// Runs `bench`.
pub(super) fn run(context: &Context, args: &BenchArgs) -> Result<ExitCode> {
    let spec = load_spec(args)?;
    let stop = interrupt::stop_flag()?;
    let started = clock::wall();
    let wire = args.wire.connect(context, "bench", &stop)?;
    let bed = wire.facts();
    within_link(&wire, spec.rate)?;
    let spec = fitting(&spec, args.datagram, wire.address.is_ipv6(), bed.mtu);
    let beside = match (args.latency, args.headroom) {
        (true, _) => Beside::Latency,
        (_, true) => Beside::Headroom,
        _ => Beside::Nothing,
    };
    let (runs, seen) = measure_directions(&wire, &spec, beside, &stop)?;
    let out = &context.out;
    if out.json {
        let datagram = u32::try_from(spec.datagram).ok();
        out.json(&Benched {
            format: store::measured::BENCH_FORMAT,
            version: store::measured::BENCH_VERSION,
            class: bed.class,
            origin: origin(&wire, started),
            candidate: "as-found",
            scenario: Scenario {
                name: args.scenario.to_string(),
                mtu: bed.mtu,
                rate: spec.rate,
                datagram: datagram.filter(|_| spec.protocol == Protocol::Udp),
                ..args.load.scenario_of(args.scenario, args.protocol)
            },
            wan_address: wire.address,
            agents: &wire.for_record(),
            runs: &runs,
            beside: &seen,
        })?;
    } else {
        let lan = args.wire.lan.as_deref().unwrap_or_default();
        let line = format!("{lan} to {}, packets up to {} bytes", wire.address, bed.mtu);
        out.tell(text(context, &line, "as found", bed.class, &runs))?;
        let beside = beside_lines(context, &seen);
        if !beside.is_empty() {
            out.tell(beside.join("\n"))?;
        }
        if wire.shared {
            out.tell(out.dim(SHARED))?;
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Error::interrupted("bench"));
    }
    if seen.headroom.iter().any(|one| one.disturbed) {
        return Ok(ExitCode::Refused);
    }
    Ok(verdict(context, args, &runs))
}

/// The program and the router behind a measurement.
fn origin(wire: &Hosts, started: String) -> Origin {
    Origin {
        program: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        started,
        machine: wire.machine(),
        fingerprint: wire.parties.router.as_ref().map(|router| router.facts.snapshot.clone()),
    }
}
