//! One measurement of this router's own traffic with a server: no lab, no other machine of ours.

use std::sync::atomic::AtomicBool;

use super::driver::flow_of;
use super::{DRAIN, SETTLE, pause, told};
use crate::error::Result;
use crate::exit_code::ExitCode;
use crate::host::{Live, clock};
use crate::load::LoadSpec;
use crate::load::iperf3::Report;
use crate::model::measurement::{Measurement, Refusal, RefusalCode, SideFigures};
use crate::sample::{CpuCounters, DeviceCounters, Health};

/// Runs `ask` (a test with the server) and says what came of it; CPUs and `devices` are those of
/// the router over the whole test, its connecting included.
///
/// # Errors
/// Interrupted; not supported when the client can't be run or counters can't be read. A server that
/// does not answer, or an unusable report, is a refused measurement.
pub fn measure(
    host: &Live,
    devices: &[&str],
    spec: &LoadSpec,
    stop: &AtomicBool,
    ask: &mut dyn FnMut() -> Result<Report>,
) -> Result<Measurement> {
    spec.check()?;
    pause(SETTLE, stop);
    let health = Health::read(host);
    let moved = told(DeviceCounters::read(host, devices))?;
    let before = told(CpuCounters::read(host))?;
    let begun = clock::monotonic();
    let answer = ask();
    let after = told(CpuCounters::read(host))?;
    let took = clock::monotonic().saturating_sub(begun).as_secs_f64();
    pause(DRAIN, stop);
    let moved = told(DeviceCounters::read(host, devices))?.since(&moved);
    let now = Health::read(host);
    let mut refusals = Vec::new();
    let mut refuse = |code, why| refusals.push(Refusal { code, why });
    let mut notes =
        vec!["the router's own traffic with the server: nothing was forwarded".to_owned()];
    let flows = match answer {
        Ok(report) => {
            notes.push(format!("by {}", report.version));
            // The client is a program of this router: its time is among that of the CPUs.
            report.flows.iter().map(|flow| flow_of(flow, None)).collect()
        }
        Err(e) if e.code() == ExitCode::Refused => {
            refuse(RefusalCode::NoAcknowledgement, e.to_string());
            Vec::new()
        }
        Err(e) => return Err(e),
    };
    for why in now.throttled_since(&health) {
        refuse(RefusalCode::Throttled, why);
    }
    for why in &moved.changed {
        refuse(RefusalCode::LinkChanged, why.clone());
    }
    let packets: u64 = moved.devices.iter().map(|d| d.rx_packets).sum();
    let bytes: u64 = moved.devices.iter().map(|d| d.rx_bytes).sum();
    Ok(Measurement {
        series: Vec::new(),
        settings: Vec::new(),
        direction: spec.direction,
        flows,
        seconds: took,
        packet_bytes: if packets > 0 { bytes as f64 / packets as f64 } else { 0.0 },
        cpus: after.since(&before),
        devices: moved.devices,
        beside: SideFigures { hottest: now.celsius(), ..SideFigures::default() },
        refusals,
        notes,
    })
}
