//! Signs of trouble in the figures of one look.

use std::collections::BTreeMap;

use super::Sign;
use crate::model::telemetry::{CpuRates, Interval, Link, Loss};
use crate::model::watch::Limits;

/// Share of a CPU's busy time in the kernel from which on packets are what fills it, and no program.
const MOSTLY: f64 = 0.5;
/// Comings and goings of a link between two looks that make it a link that flaps.
const FLAPS: u32 = 4;

/// CPUs that are full of packets, heat, and what is held back because of it.
#[must_use]
pub fn cpu_and_heat(interval: &Interval, limits: &Limits) -> Vec<Sign> {
    let mut signs = Vec::new();
    for cpu in &interval.cpus {
        if let Some(busy) = kernel_share(cpu).filter(|busy| *busy >= limits.cpu * MOSTLY)
            && cpu.idle.is_some_and(|idle| 1.0 - idle >= limits.cpu)
        {
            let place = format!("CPU{}", cpu.cpu.0);
            let words = format!(
                "{place} is {:.0} % busy, {:.0} % of its time in the kernel: packets wait for it",
                (1.0 - cpu.idle.unwrap_or(0.0)) * 100.0,
                busy * 100.0
            );
            signs.push(Sign::new("cpu-full", place, 3, words));
        }
    }
    let zones = interval.sensors.iter().filter(|sensor| sensor.name.starts_with("thermal_zone"));
    let hottest = zones.filter_map(|zone| Some((&zone.name, zone.value?)));
    if let Some((name, value)) = hottest.max_by(|a, b| a.1.total_cmp(&b.1))
        && value >= limits.temperature
    {
        let words = format!("{value:.1} C ({name}), told from {} C on", limits.temperature);
        signs.push(Sign::new("hot", "", 1, words));
    }
    if !interval.throttled.is_empty() {
        signs.push(Sign::new("throttled", "", 1, interval.throttled.join("; ")));
    }
    signs
}

fn kernel_share(cpu: &CpuRates) -> Option<f64> {
    Some(cpu.softirq? + cpu.irq.unwrap_or(0.0) + cpu.system.unwrap_or(0.0))
}

/// Stages at which packets are lost, those that rules drop on purpose left out.
#[must_use]
pub fn losses(losses: &[Loss], limits: &Limits) -> Vec<Sign> {
    let mut stages: BTreeMap<&str, (f64, &Loss)> = BTreeMap::new();
    for loss in losses {
        let (sum, most) = stages.entry(&loss.stage).or_insert((0.0, loss));
        *sum += loss.per_second;
        if loss.per_second > most.per_second {
            *most = loss;
        }
    }
    let over = stages.into_iter().filter(|(_, (sum, _))| *sum > 0.0 && *sum >= limits.losses);
    let sign = |(stage, (sum, most)): (&str, (f64, &Loss))| {
        let words = format!(
            "{sum:.0} packets lost per second: {stage}, most of them {} {}; all: linerate check \
             --losses 10s",
            most.place, most.counter
        );
        Sign::new("losses", stage, 2, words)
    };
    over.map(sign).collect()
}

/// Links of the ports: up at some time, and the fastest that each has been.
#[derive(Debug, Default)]
pub struct Links {
    best: BTreeMap<String, Best>,
}

#[derive(Debug, Default)]
struct Best {
    speed: f64,
    up: bool,
}

impl Links {
    /// Signs of links that fell, are down, or flap. `ports` are those with hardware behind them; `changes`
    /// is how often each came or went since the last look.
    pub fn take(&mut self, ports: &[Link], changes: &BTreeMap<String, u32>) -> Vec<Sign> {
        self.best.retain(|name, _| ports.iter().any(|port| port.device == *name));
        let mut signs = Vec::new();
        for port in ports {
            let best = self.best.entry(port.device.clone()).or_default();
            let place = port.device.as_str();
            let flaps = changes.get(place).copied().unwrap_or(0);
            if flaps >= FLAPS {
                let words = format!("the link of {place} came and went {flaps} times in seconds");
                signs.push(Sign::new("link-flaps", place, 1, words));
            }
            match port.state.as_str() {
                "up" => best.up = true,
                "down" | "lowerlayerdown" if best.up => {
                    let words = format!("{place} was up and has no link");
                    signs.push(Sign::new("link-lost", place, 2, words));
                }
                _ => {}
            }
            let Some(speed) = port.speed.filter(|_| port.state == "up") else { continue };
            if speed < best.speed {
                let words = format!(
                    "{place} links at {:.0} Mbit/s and had {:.0} before",
                    speed / 1e6,
                    best.speed / 1e6
                );
                signs.push(Sign::new("link-slow", place, 2, words));
            }
            best.speed = best.speed.max(speed);
        }
        signs
    }
}
