//! The screen: title, bottleneck, condition, the panes and the keys.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::detail;
use super::figures::{clock, percent, short};
use super::history::{Curve, KEPT};
use super::paint::{Canvas, Look, PARTS, Tone};
use super::state::{Pane, View};
use crate::decide::diagnose::live::{Full, bottleneck, busy, link_share, served_by};
use crate::model::telemetry::{CpuRates, DeviceRates};
use crate::model::units::CpuId;

/// Columns and lines below which nothing can be read.
const LEAST: (u16, u16) = (40, 8);
/// Seconds of the small curves.
const CURVE: f64 = 120.0;

/// Draws the view on the whole grid.
pub fn draw(view: &View, buffer: &mut Buffer, look: Look) {
    let area = buffer.area;
    let mut screen = Canvas { buffer, area, look };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let (width, height) = LEAST;
        let words = format!("needs {width} columns and {height} lines");
        return screen.text(0, 0, usize::from(area.width), Tone::Plain, &words);
    }
    let height = screen.height();
    let used = head(view, &mut screen);
    keys(view, &mut screen.lines(height - 1, 1));
    let mut body = screen.lines(used, height - 1 - used);
    if view.help {
        detail::help(view, &mut body);
    } else if view.now.is_none() {
        let width = body.width();
        body.text(0, 0, width, Tone::Soft, "reading the first interval");
    } else if view.opened {
        match view.pane {
            Pane::Cpus => detail::cpu(view, &mut body),
            Pane::Devices => detail::device(view, &mut body),
        }
    } else {
        panes(view, &mut body);
    }
}

/// The view as a grid of so many columns that is as high as it needs to be, without its keys.
#[must_use]
pub fn once(view: &View, width: u16, look: Look) -> Buffer {
    let lines = 8 + view.cpus().len() + rows(view).len();
    let height = u16::try_from(lines).unwrap_or(u16::MAX);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width.max(LEAST.0), height));
    let area = buffer.area;
    let mut screen = Canvas { buffer: &mut buffer, area, look };
    let used = head(view, &mut screen);
    panes(view, &mut screen.lines(used, lines - used));
    let told = buffer.content.chunks(usize::from(area.width));
    let told = told.rev().skip_while(|row| row.iter().all(|cell| cell.symbol() == " ")).count();
    let told = u16::try_from(told).unwrap_or(height);
    buffer.resize(Rect { height: told, ..area });
    buffer
}

/// Draws the lines above the panes, and tells how many they are.
fn head(view: &View, screen: &mut Canvas<'_>) -> usize {
    let (width, standing) = (screen.width(), &view.standing);
    let name = if standing.hostname.is_empty() { "this machine" } else { &standing.hostname };
    let mut title = vec![name.to_owned()];
    if !standing.kernel.is_empty() {
        title.push(format!("Linux {}", standing.kernel));
    }
    let Some(now) = &view.now else {
        screen.text(0, 0, width, Tone::Lead, &title.join("  "));
        return 2;
    };
    let many = if now.cpus.len() == 1 { "CPU" } else { "CPUs" };
    title.push(format!("{} {many}", now.cpus.len()));
    let time = now.utc.get(11..19).unwrap_or(&now.utc);
    let state = match view.playing {
        Some(playing) => {
            let paused = if view.paused { " paused" } else { "" };
            let place = format!("{} of {}", clock(playing.at), clock(playing.end));
            format!("replay{paused} {place}, x{}  {time}", playing.speed)
        }
        None if view.paused => format!("paused  {time}"),
        None => time.to_owned(),
    };
    let room = width.saturating_sub(state.chars().count() + 1);
    screen.text(0, 0, room, Tone::Lead, &title.join("  "));
    let tone = if view.paused { Tone::Bad } else { Tone::Soft };
    screen.right(0, 0, width, tone, &state);
    let found = bottleneck(now, standing);
    let tone = if found.kind == Full::Nothing { Tone::Good } else { Tone::Bad };
    screen.text(0, 1, width, tone, &found.words);
    let (alarm, told) = condition(view);
    screen.text(0, 2, width, if alarm { Tone::Bad } else { Tone::Plain }, &told);
    let Some(loss) = standing.losses.first().filter(|_| found.kind != Full::Loss) else {
        return 4;
    };
    let more = match standing.losses.len() - 1 {
        0 => String::new(),
        more => format!(", and at {more} other counters"),
    };
    let place = if loss.place.is_empty() { "" } else { " of " };
    let words = format!(
        "lost: {}/s, {}{place}{} ({}){more}",
        short(Some(loss.per_second)),
        loss.stage,
        loss.place,
        loss.counter
    );
    screen.text(0, 3, width, Tone::Bad, &words);
    5
}

/// Plan in force, drift, heat and frequency in one line, and true if any of it needs attention.
fn condition(view: &View) -> (bool, String) {
    let standing = &view.standing;
    let mut told = Vec::new();
    let applied = match (standing.applied.last(), &standing.persisted) {
        (Some(name), _) | (None, Some(name)) => name.as_str(),
        (None, None) => "no plan",
    };
    let drift = match standing.drift.as_slice() {
        [] if standing.applied.is_empty() && standing.persisted.is_none() => String::new(),
        [] => ", no drift".to_owned(),
        [one] => format!(", drift: {}", one.setting),
        [one, rest @ ..] => format!(", drift: {} and {} more", one.setting, rest.len()),
    };
    let throttled = view.now.iter().flat_map(|now| &now.throttled).next();
    if let Some(words) = throttled {
        told.push(format!("throttled: {words}"));
    }
    told.push(format!("in force: {applied}{drift}"));
    let of = |unit: &str| -> Vec<f64> {
        let sensors = view.now.iter().flat_map(|now| &now.sensors);
        let of_unit = sensors.filter(|sensor| sensor.name.ends_with(unit));
        of_unit.filter_map(|sensor| sensor.value).collect()
    };
    if let Some(hottest) = of(" C").into_iter().reduce(f64::max) {
        told.push(format!("{hottest:.0} C"));
    }
    let clocks = of(" MHz");
    let (low, high) =
        (clocks.iter().copied().reduce(f64::min), clocks.into_iter().reduce(f64::max));
    match (low, high) {
        (Some(low), Some(high)) if high - low >= 1.0 => {
            told.push(format!("{low:.0}-{high:.0} MHz"))
        }
        (Some(low), _) => told.push(format!("{low:.0} MHz")),
        _ => {}
    }
    (throttled.is_some() || !standing.drift.is_empty(), told.join("  "))
}

fn keys(view: &View, line: &mut Canvas<'_>) {
    let mut told = vec!["q quit", "? help", "p pause"];
    if view.opened || view.help {
        told.push("Esc back");
    } else {
        told.extend(["s sort", "Tab pane", "Enter open", "u queues"]);
    }
    if view.playing.is_some() {
        told.push("Left/Right seek");
    }
    // The last column stays free: some terminals wrap there.
    let width = line.width() - 1;
    line.text(0, 0, width, Tone::Soft, &told.join("  "));
}

/// Draws the panes of the CPUs and of the devices below each other; where there is no room for all, each
/// has half of it or what it needs.
fn panes(view: &View, body: &mut Canvas<'_>) {
    let (cpus, devices) = (view.cpus(), rows(view));
    let (need_cpus, need_devices) = (cpus.len() + 1, devices.len() + 1);
    let height = body.height();
    let gap = usize::from(need_cpus + need_devices < height);
    let room = height - gap;
    let for_cpus = need_cpus.min(room.saturating_sub(need_devices).max(room / 2));
    let chosen = view.chosen(Pane::Cpus);
    let (mut pane, mark) = (body.lines(0, for_cpus), view.pane == Pane::Cpus);
    let columns = CpuColumns::of(pane.width(), &cpus);
    columns.heading(view, &mut pane);
    let shown = window(cpus.len(), for_cpus.saturating_sub(1), chosen);
    rest(&mut pane, cpus.len(), shown.1, "CPUs");
    for (line, cpu) in cpus.iter().skip(shown.0).take(shown.1).enumerate() {
        columns.row(view, &mut pane, line + 1, cpu);
        if mark && shown.0 + line == chosen {
            pane.choose(line + 1);
        }
    }
    let (mut pane, mark) =
        (body.lines(for_cpus + gap, room - for_cpus), view.pane == Pane::Devices);
    let chosen = devices.iter().position(|row| row.is(view)).unwrap_or(0);
    let columns = DeviceColumns::of(pane.width(), &devices);
    columns.heading(view, &mut pane);
    let shown = window(devices.len(), pane.height().saturating_sub(1), chosen);
    rest(&mut pane, devices.len(), shown.1, "lines");
    for (line, row) in devices.iter().skip(shown.0).take(shown.1).enumerate() {
        columns.row(view, &mut pane, line + 1, row);
        if mark && shown.0 + line == chosen {
            pane.choose(line + 1);
        }
    }
}

/// The first row that is shown, and how many are, with the chosen one among them.
fn window(all: usize, room: usize, chosen: usize) -> (usize, usize) {
    let shown = all.min(room);
    let first = (chosen + 1).saturating_sub(shown);
    (first.min(all - shown), shown)
}

/// Tells in the heading how many rows there are where not all are shown.
fn rest(pane: &mut Canvas<'_>, all: usize, shown: usize, what: &str) {
    if shown < all {
        let width = pane.width();
        pane.right(0, 0, width, Tone::Bad, &format!(" {shown} of {all} {what}"));
    }
}

/// Draws cells from left to right, a blank between them.
struct Pen {
    at: usize,
}

impl Pen {
    fn figure(&mut self, line: &mut Canvas<'_>, y: usize, width: usize, tone: Tone, text: &str) {
        line.right(self.at, y, width, tone, text);
        self.at += width + 1;
    }
}

/// Widths of the columns of the CPUs; 0 where there is no room for one.
struct CpuColumns {
    name: usize,
    bar: usize,
    parts: bool,
    curve: usize,
    all: usize,
}

impl CpuColumns {
    fn of(all: usize, cpus: &[&CpuRates]) -> Self {
        let longest = cpus.iter().map(|cpu| cpu.cpu.to_string().len()).max();
        let (name, parts) = (longest.unwrap_or(4).max(4), all >= 76);
        // Name, busy, softirq, packets and hand-offs, three parts; the rest is shared.
        let fixed = name + 1 + 4 + 5 + 6 + 7 + if parts { 12 } else { 0 };
        let free = all.saturating_sub(fixed);
        let bar = (free / 3).clamp(6, 40);
        let curve = if all >= 70 { (free / 4).clamp(6, 40) } else { 0 };
        Self { name, bar, parts, curve, all }
    }

    fn heading(&self, view: &View, pane: &mut Canvas<'_>) {
        let tone = Tone::Lead;
        pane.text(0, 0, self.name, tone, "CPU");
        let legend: Vec<String> = PARTS
            .iter()
            .zip(["soft", "irq", "sys", "user"])
            .map(|((sign, plain, _), name)| {
                format!("{}{name}", if pane.look.ascii { plain } else { sign })
            })
            .collect();
        let [legend, sort] = [legend.join(" "), format!("by {}", sort_words(view, 0))];
        let fits = [legend, sort].into_iter().find(|words| words.chars().count() <= self.bar);
        pane.text(self.name + 1, 0, self.bar, tone, &fits.unwrap_or_default());
        let mut pen = Pen { at: self.name + 1 + self.bar };
        pen.figure(pane, 0, 4, tone, "all%");
        pen.figure(pane, 0, 5, tone, "soft%");
        if self.parts {
            ["irq", "sys", "usr"].iter().for_each(|name| pen.figure(pane, 0, 3, tone, name));
        }
        pen.figure(pane, 0, 5, tone, "pkt/s");
        pen.figure(pane, 0, 6, tone, "RPS in");
        if self.curve > 0 {
            let words = if self.curve >= 10 { "last 2 min" } else { "2 min" };
            pane.text(pen.at, 0, self.curve, tone, words);
            pen.at += self.curve + 1;
        }
        pane.text(pen.at, 0, self.all.saturating_sub(pen.at), tone, "serves");
    }

    fn row(&self, view: &View, pane: &mut Canvas<'_>, y: usize, cpu: &CpuRates) {
        pane.text(0, y, self.name, Tone::Plain, &cpu.cpu.to_string());
        let Some(busy) = busy(cpu) else {
            return pane.text(self.name + 1, y, self.bar, Tone::Soft, "offline");
        };
        let share = |share: Option<f64>| share.unwrap_or(0.0);
        let shares = [share(cpu.softirq), share(cpu.irq), share(cpu.system), share(cpu.user)];
        pane.bar(self.name + 1, y, self.bar, shares);
        let tone = if busy >= 0.95 { Tone::Bad } else { Tone::Plain };
        let mut pen = Pen { at: self.name + 1 + self.bar };
        pen.figure(pane, y, 4, tone, &percent(Some(busy)));
        pen.figure(pane, y, 5, tone, &percent(cpu.softirq));
        if self.parts {
            for part in [cpu.irq, cpu.system, cpu.user] {
                pen.figure(pane, y, 3, Tone::Plain, &percent(part));
            }
        }
        pen.figure(pane, y, 5, Tone::Plain, &short(cpu.packets));
        pen.figure(pane, y, 6, Tone::Plain, &short(cpu.received_rps));
        if let Some(curve) = view.history.cpus.get(&cpu.cpu).filter(|_| self.curve > 0) {
            pane.curve(pen.at, y, &view.history.columns(curve, CURVE, self.curve), 1.0);
            pen.at += self.curve + 1;
        }
        let names = served_by(&view.standing, cpu.cpu, 40);
        pane.text(pen.at, y, self.all.saturating_sub(pen.at), Tone::Plain, &names);
    }
}

fn sort_words(view: &View, pane: usize) -> &'static str {
    view.sort.get(pane).map_or("", |sort| sort.words())
}

/// A line of the devices: a device, or one of its queues.
enum DeviceRow<'a> {
    Device(&'a DeviceRates),
    Queue(Queue<'a>),
}

/// A receive queue with what is known of it.
pub(super) struct Queue<'a> {
    pub(super) queue: u32,
    pub(super) interrupts: Option<f64>,
    pub(super) irq: Option<&'a str>,
    pub(super) on: Option<CpuId>,
    pub(super) rps: Vec<CpuId>,
    pub(super) rx_packets: Option<f64>,
    pub(super) tx_packets: Option<f64>,
}

impl DeviceRow<'_> {
    fn is(&self, view: &View) -> bool {
        matches!(self, Self::Device(one) if Some(&one.device) == view.device.as_ref())
    }
}

fn rows(view: &View) -> Vec<DeviceRow<'_>> {
    let mut rows = Vec::new();
    for device in view.devices() {
        rows.push(DeviceRow::Device(device));
        if view.queues {
            rows.extend(queues(view, &device.device).into_iter().map(DeviceRow::Queue));
        }
    }
    rows
}

/// The queues of a device: those that a CPU serves, and those that its driver counts.
pub(super) fn queues<'a>(view: &'a View, device: &'a str) -> Vec<Queue<'a>> {
    use crate::model::telemetry::Way;
    let counted = view.now.iter().flat_map(|now| &now.queues).filter(|q| q.device == device);
    let serves = || view.standing.serves.iter().filter(|one| one.device == device);
    let numbers: std::collections::BTreeSet<u32> =
        counted.clone().map(|q| q.queue).chain(serves().map(|one| one.queue)).collect();
    let of = |queue: u32| {
        let mine = || serves().filter(move |one| one.queue == queue);
        let line = mine().find(|one| one.by == Way::Irq);
        let irq = line.and_then(|one| one.irq.as_deref());
        let rates = view.now.iter().flat_map(|now| &now.irqs);
        let rate = rates.clone().find(|rate| Some(rate.irq.as_str()) == irq);
        let count = counted.clone().find(|q| q.queue == queue);
        Queue {
            queue,
            interrupts: rate.and_then(|rate| rate.total),
            irq,
            on: line.map(|one| one.cpu),
            rps: mine().filter(|one| one.by == Way::Rps).map(|one| one.cpu).collect(),
            rx_packets: count.and_then(|q| q.rx_packets),
            tx_packets: count.and_then(|q| q.tx_packets),
        }
    };
    numbers.into_iter().map(of).collect()
}

/// CPUs as the kernel lists them.
pub(super) fn list(cpus: &[CpuId]) -> String {
    cpus.iter().copied().collect::<crate::model::cpuset::CpuSet>().to_string()
}

/// Widths of the columns of the devices; 0 where there is no room for one.
struct DeviceColumns {
    name: usize,
    link: bool,
    curve: usize,
    all: usize,
}

impl DeviceColumns {
    fn of(all: usize, rows: &[DeviceRow<'_>]) -> Self {
        let names = rows.iter().map(|row| match row {
            DeviceRow::Device(device) => super::paint::columns(&device.device),
            DeviceRow::Queue(_) => 8,
        });
        let longest = names.max().unwrap_or(6).clamp(6, 15);
        let link = all >= 62;
        let fixed = 5 * 9 + if link { 12 } else { 0 };
        let name = longest.min(all.saturating_sub(fixed).max(6));
        let curve = (all.saturating_sub(name + fixed + 1)).min(80);
        Self { name, link, curve: if curve >= 6 { curve } else { 0 }, all }
    }

    fn heading(&self, view: &View, pane: &mut Canvas<'_>) {
        let tone = Tone::Lead;
        pane.text(0, 0, self.name, tone, "device");
        let mut pen = Pen { at: self.name + 1 };
        for name in ["rx bit/s", "rx pkt/s", "tx bit/s", "tx pkt/s", "drops/s"] {
            pen.figure(pane, 0, 8, tone, name);
        }
        if self.link {
            pen.figure(pane, 0, 5, tone, "link");
            pen.figure(pane, 0, 5, tone, "used%");
        }
        if self.curve > 0 {
            let words = format!("rx+tx, 2 min, by {}", sort_words(view, 1));
            let words = if words.len() <= self.curve { &words } else { "2 min" };
            pane.text(pen.at, 0, self.curve, tone, words);
        }
    }

    fn row(&self, view: &View, pane: &mut Canvas<'_>, y: usize, row: &DeviceRow<'_>) {
        match row {
            DeviceRow::Device(device) => self.device(view, pane, y, device),
            DeviceRow::Queue(queue) => self.queue(pane, y, queue),
        }
    }

    fn device(&self, view: &View, pane: &mut Canvas<'_>, y: usize, device: &DeviceRates) {
        pane.text(0, y, self.name, Tone::Plain, &device.device);
        let mut pen = Pen { at: self.name + 1 };
        for rate in [device.rx_bits, device.rx_packets, device.tx_bits, device.tx_packets] {
            pen.figure(pane, y, 8, Tone::Plain, &short(rate));
        }
        let drops = device.dropped.is_some_and(|drops| drops > 0.0);
        let tone = if drops { Tone::Bad } else { Tone::Plain };
        pen.figure(pane, y, 8, tone, &short(device.dropped));
        if self.link {
            let link = view.standing.links.iter().find(|link| link.device == device.device);
            let speed = link.and_then(|link| link.speed);
            let words = match link.map(|link| link.state.as_str()) {
                Some("down") => "down".to_owned(),
                _ => short(speed),
            };
            pen.figure(pane, y, 5, Tone::Plain, &words);
            let used = link_share(device, link).map(|(share, _)| share);
            let tone = if used.is_some_and(|u| u >= 0.95) { Tone::Bad } else { Tone::Plain };
            pen.figure(pane, y, 5, tone, &percent(used));
        }
        if let Some([rx, tx]) = view.history.devices.get(&device.device)
            && self.curve > 0
        {
            let both: Curve = rx.iter().zip(tx).map(|(rx, tx)| Some((*rx)? + (*tx)?)).collect();
            let columns = view.history.columns(&both, CURVE, self.curve);
            let highest = columns.iter().flatten().copied().fold(0.0, f64::max);
            pane.curve(pen.at, y, &columns, highest);
        }
    }

    fn queue(&self, pane: &mut Canvas<'_>, y: usize, queue: &Queue<'_>) {
        pane.text(0, y, self.name, Tone::Soft, &format!("  rx-{}", queue.queue));
        let mut told = Vec::new();
        if let Some(packets) = queue.rx_packets {
            told.push(format!("{} pkt/s", short(Some(packets))));
        }
        if let Some(packets) = queue.tx_packets {
            told.push(format!("tx-{} {} pkt/s", queue.queue, short(Some(packets))));
        }
        if let Some(rate) = queue.interrupts {
            told.push(format!("{} irq/s", short(Some(rate))));
        }
        told.extend(queue.on.map(|cpu| format!("on {cpu}")));
        if !queue.rps.is_empty() {
            told.push(format!("RPS to CPU {}", list(&queue.rps)));
        }
        let from = self.name + 1;
        pane.text(from, y, self.all.saturating_sub(from), Tone::Soft, &told.join(", "));
    }
}

/// The seconds of the long curves.
pub(super) const LONG: f64 = KEPT;
