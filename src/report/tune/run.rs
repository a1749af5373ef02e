//! The router that was measured on, and the runs.

use crate::model::measurement::{Direction, Experiment, Protocol};
use crate::report::words::{and, count, hosts, shell};

/// The machine that was measured: labels and values.
pub(super) fn machine(experiment: &Experiment) -> Vec<(String, String)> {
    let machine = &experiment.machine;
    let mut facts = vec![("host", machine.hostname.clone())];
    let optional = [
        ("board", &machine.board),
        ("processor", &machine.cpu_model),
        ("system", &machine.os),
        ("hypervisor", &machine.virtualisation),
    ];
    facts.extend(optional.into_iter().filter_map(|(k, v)| Some((k, v.clone()?))));
    facts.push(("kernel", format!("{} ({})", machine.kernel, machine.arch)));
    facts.push(("CPUs", experiment.cpus.len().to_string()));
    facts.extend(experiment.link.map(|link| ("link", format!("{:.0} Mbit/s", link.mbps()))));
    facts.extend(hosts(&experiment.agents));
    named(facts)
}

/// The machine that was measured, in one line.
pub(super) fn machine_in_short(experiment: &Experiment) -> String {
    let machine = &experiment.machine;
    let parts = [machine.board.clone(), machine.cpu_model.clone(), machine.os.clone()];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.push(count(experiment.cpus.len(), "CPU"));
    parts.push(format!("kernel {}", machine.kernel));
    parts.join(", ")
}

/// The load, and how long each cell and the whole run took.
pub(super) fn scenario(experiment: &Experiment) -> Vec<(String, String)> {
    let s = &experiment.scenario;
    let protocol = match s.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    };
    let ended = experiment.ended.words();
    named(vec![
        ("scenario", s.name.clone()),
        ("filter rules", format!("{} that never match", s.rules)),
        (
            "load",
            format!(
                "{} {}",
                count(s.streams as usize, &format!("{protocol} stream")),
                ways(experiment)
            ),
        ),
        ("MTU", format!("{} bytes", s.mtu)),
        ("each cell", format!("{} s measured, the first {} s left out", s.seconds, s.omit)),
        ("blocks", format!("{} asked for; {ended}", experiment.blocks)),
        ("begun", experiment.started.clone()),
    ])
}

fn named(facts: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    facts.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()
}

fn ways(experiment: &Experiment) -> String {
    let ways: Vec<String> = experiment
        .directions
        .iter()
        .map(|d| match d {
            Direction::Down => "down (WAN to LAN)".to_owned(),
            Direction::Up => "up (LAN to WAN)".to_owned(),
            Direction::Both => "both ways at once".to_owned(),
        })
        .collect();
    and(&ways)
}

/// The command that repeats the run in the same random order.
pub(super) fn command(experiment: &Experiment) -> String {
    let words = &experiment.command;
    let mut line = shell(words);
    if !words.iter().any(|w| w == "--seed" || w.starts_with("--seed=")) {
        line += &format!(" --seed {}", experiment.seed);
    }
    line
}
