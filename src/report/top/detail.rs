//! One CPU, one device, or the help: each has the panes' place to itself.

use super::draw::{LONG, list, queues};
use super::figures::{percent, short};
use super::history::Curve;
use super::paint::{Canvas, PARTS, Tone};
use super::state::{Pane, View};
use crate::decide::diagnose::live::{busy, link_share};
use crate::model::telemetry::{Serves, Way};

/// A line of what is told.
enum Line {
    Text(Tone, String),
    /// A label, the values of a curve and the highest of them.
    Curve(String, Vec<Option<f64>>, f64),
}

fn put(view: &View, body: &mut Canvas<'_>, lines: &[Line]) {
    let (width, height) = (body.width(), body.height());
    let from = view.scroll.min(lines.len().saturating_sub(height));
    for (y, line) in lines.iter().skip(from).take(height).enumerate() {
        match line {
            Line::Text(tone, text) => body.text(0, y, width, *tone, text),
            Line::Curve(label, values, highest) => {
                body.text(0, y, LABEL, Tone::Soft, label);
                body.curve(LABEL, y, values, *highest);
            }
        }
    }
}

/// Columns of the label of a curve.
const LABEL: usize = 18;

fn curve(
    view: &View,
    body: &Canvas<'_>,
    label: &str,
    curve: Option<&Curve>,
    top: Option<f64>,
) -> Line {
    let room = body.width().saturating_sub(LABEL + 1);
    let values = curve.map(|curve| view.history.columns(curve, LONG, room)).unwrap_or_default();
    let highest = top.unwrap_or_else(|| values.iter().flatten().copied().fold(0.0, f64::max));
    Line::Curve(label.to_owned(), values, highest)
}

fn plain(text: String) -> Line {
    Line::Text(Tone::Plain, text)
}

fn heading(text: &str) -> Line {
    Line::Text(Tone::Lead, text.to_owned())
}

/// The chosen CPU.
pub(super) fn cpu(view: &View, body: &mut Canvas<'_>) {
    let all = view.cpus();
    let Some(cpu) = all.get(view.chosen(Pane::Cpus)) else { return };
    let percent = |share| percent(share) + " %";
    let rate = |rate| short(rate) + "/s";
    let mut lines = vec![
        heading(&format!("{}  {} busy", cpu.cpu, percent(busy(cpu)))),
        plain(format!(
            "softirq {}, irq {}, system {}, user {}, idle {}",
            percent(cpu.softirq),
            percent(cpu.irq),
            percent(cpu.system),
            percent(cpu.user),
            percent(cpu.idle)
        )),
        plain(format!(
            "packets {}, of which other CPUs handed off by RPS {}",
            rate(cpu.packets),
            rate(cpu.received_rps)
        )),
        plain(format!(
            "dropped from its backlog {}, polls cut short {}",
            rate(cpu.dropped),
            rate(cpu.squeezed)
        )),
        plain(format!("NET_RX {}, NET_TX {}", rate(cpu.net_rx), rate(cpu.net_tx))),
        curve(view, body, "busy, last 5 min", view.history.cpus.get(&cpu.cpu), Some(1.0)),
        heading("serves"),
    ];
    let serves = || view.standing.serves.iter().filter(|one| one.cpu == cpu.cpu);
    if serves().next().is_none() {
        lines.push(plain("  no queue".to_owned()));
    }
    lines.extend(serves().map(|one| plain(format!("  {}", served(one)))));
    lines.push(heading("network interrupts here"));
    let here = view.now.iter().flat_map(|now| &now.irqs).filter_map(|irq| {
        let mine = irq.by_cpu.iter().find(|(on, _)| *on == cpu.cpu)?;
        Some(plain(format!("  {:>6}  {}", rate(Some(mine.1)), irq.irq)))
    });
    let before = lines.len();
    lines.extend(here);
    if lines.len() == before {
        lines.push(plain("  none".to_owned()));
    }
    put(view, body, &lines);
}

fn served(one: &Serves) -> String {
    let by = match one.by {
        Way::Irq => match &one.irq {
            Some(name) => format!("by its interrupt {name}"),
            None => "by its interrupt".to_owned(),
        },
        Way::Thread => "by a thread of NAPI".to_owned(),
        Way::Rps => "by RPS".to_owned(),
    };
    format!("{} rx-{}  {by}", one.device, one.queue)
}

/// The chosen device.
pub(super) fn device(view: &View, body: &mut Canvas<'_>) {
    let all = view.devices();
    let Some(device) = all.get(view.chosen(Pane::Devices)) else { return };
    let link = view.standing.links.iter().find(|link| link.device == device.device);
    let speed = link.and_then(|link| link.speed);
    let state = link.map_or("?", |link| link.state.as_str());
    let mut title = format!("{}  {state}", device.device);
    if let Some(speed) = speed {
        title += &format!(", {}bit/s", short(Some(speed)));
    }
    if let Some((share, does)) = link_share(device, link) {
        title += &format!(", {does} {} % of that", percent(Some(share)));
    }
    let history = view.history.devices.get(&device.device);
    let moved = |does: &str, bits, packets| {
        plain(format!("{does} {}bit/s, {} packets/s", short(bits), short(packets)))
    };
    let drops = device.dropped.is_some_and(|drops| drops > 0.0);
    let mut lines = vec![
        heading(&title),
        moved("receives", device.rx_bits, device.rx_packets),
        curve(view, body, "last 5 min", history.map(|[rx, _]| rx), None),
        moved("sends   ", device.tx_bits, device.tx_packets),
        curve(view, body, "last 5 min", history.map(|[_, tx]| tx), None),
        Line::Text(
            if drops { Tone::Bad } else { Tone::Plain },
            format!("drops    {}/s, both ways", short(device.dropped)),
        ),
        heading("queues"),
    ];
    let queues = queues(view, &device.device);
    if queues.is_empty() {
        lines.push(plain("  none that packets enter the machine by".to_owned()));
    }
    for queue in &queues {
        let mut told = vec![format!("  rx-{}", queue.queue)];
        if let Some(cpu) = queue.on {
            let name = queue.irq.map(|name| format!(" ({name})")).unwrap_or_default();
            told.push(format!("interrupts {}/s on {cpu}{name}", short(queue.interrupts)));
        }
        if !queue.rps.is_empty() {
            told.push(format!("RPS to CPU {}", list(&queue.rps)));
        }
        if let Some(packets) = queue.rx_packets {
            told.push(format!("{} packets/s in", short(Some(packets))));
        }
        if let Some(packets) = queue.tx_packets {
            told.push(format!("{} out", short(Some(packets))));
        }
        lines.push(plain(told.join("  ")));
    }
    let lost = view.standing.losses.iter();
    let lost = lost.filter(|loss| loss.place.split(' ').next() == Some(device.device.as_str()));
    for (at, loss) in lost.enumerate() {
        if at == 0 {
            lines.push(heading("lost here"));
        }
        let words =
            format!("  {:>6}/s  {} ({})", short(Some(loss.per_second)), loss.stage, loss.counter);
        lines.push(Line::Text(Tone::Bad, words));
    }
    put(view, body, &lines);
}

/// The keys, and how to read the screen.
pub(super) fn help(view: &View, body: &mut Canvas<'_>) {
    let signs = PARTS.map(|(sign, plain, _)| if body.look.ascii { plain } else { sign });
    let [softirq, irq, system, user] = signs;
    let bars = format!("bars: {softirq} softirq, {irq} irq, {system} system, {user} user");
    let mut told = vec![
        "q        quit; Ctrl-C as well",
        "?        this help; Esc leaves it",
        "p Space  pause and go on; the curves go on meanwhile",
        "Tab      the other pane: CPUs or devices",
        "Up Down  choose; j and k, Page Up and Page Down as well",
        "Enter    open the chosen CPU or device; Esc goes back",
        "s        sort the pane by name, load, packets, drops",
        "u        the queues of each device, with their drivers' counts",
    ];
    if view.playing.is_some() {
        told.extend([
            "Left Right  10 s back and forward; < and > a minute; Home and End",
            "+ -      faster and slower",
        ]);
    }
    told.extend([
        "",
        &bars,
        "all%     time that the CPU was not idle; soft% in soft interrupts",
        "RPS in   packets that other CPUs handed off to this one, a second",
        "serves   queues whose packets this CPU handles; (RPS): after a hand-off",
        "used%    of the link's rate, with the gaps between frames",
        "drops/s  by the device's own count; the line `lost` has all counters",
        "curves   the last 2 minutes, the highest value of each stretch",
        "-        is not known, which is not 0",
    ]);
    let lines: Vec<Line> = told.into_iter().map(|line| plain(line.to_owned())).collect();
    put(view, body, &lines);
}
