//! The planner's question, made of a router: which CPUs, lines, queues and streams there are, and
//! the cost of each stage.

use super::cores;
use super::costs::Costs;
use super::index::{IxVec, LineIx, OfWays, PlaceIx, QueueIx, RootIx, WayIx};
use super::intake::{Intake, Source};
use super::places::places;
use super::problem::{HandOff, Line, Pattern, Problem, Queue, Rate, Root, Stream, Upper, Way};
use super::profile::Profile;
use super::threads::thread_of;
use super::traffic::{Above, Entry, Flowing, Traffic, Variant, flowing};
use super::unsteered::Unsteered;
use super::way::{base, rss_defeated};
use crate::model::cpuset::CpuSet;
use crate::model::evidence::{Poller, PollerOwner, PollerRole};
use crate::model::knob::Knob;
use crate::model::measurement::Direction;
use crate::model::order::InOrder;
use crate::model::snapshot::{Cpu, Irq, IrqRole, Movable, NetDev, Snapshot};
use crate::model::units::{CpuId, IrqLine};

/// Bits of a full frame on an Ethernet wire: 1518 bytes with its checksum, and 20 of preamble and
/// gap.
const FRAME: f64 = 8.0 * 1538.0;

/// Kinds of queueing disciplines that hold a rate.
pub(super) const SHAPERS: &[&str] = &["cake", "htb", "hfsc", "tbf"];

/// A question, and what was found while it was posed.
pub(super) struct Posed {
    pub(super) problem: Problem,
    /// True if counters showed who the traffic is of.
    pub(super) counted: bool,
}

/// Makes the planner's question of a router.
pub(super) fn pose(
    snapshot: &Snapshot,
    intake: &Intake<'_>,
    traffic: &Traffic,
    profile: Profile,
) -> Posed {
    let flowing = flowing(snapshot, intake, traffic);
    let counted = flowing.counted;
    let mut poser = Poser::new(snapshot, intake, traffic, profile);
    poser.lines();
    poser.queues();
    if !traffic.packets.is_empty() {
        poser.told();
    } else if profile == Profile::Endpoint {
        poser.ends_here(&flowing);
    } else {
        for variant in &flowing.variants {
            poser.variant(variant);
        }
        poser.patterns(&flowing);
    }
    poser.housekeeping();
    Posed { problem: poser.problem, counted }
}

struct Poser<'a> {
    snapshot: &'a Snapshot,
    intake: &'a Intake<'a>,
    traffic: &'a Traffic,
    costs: Costs,
    profile: Profile,
    problem: Problem,
    /// The line of each interrupt, by its number.
    homes: Vec<(u32, LineIx)>,
    /// Lines and threads on which packets arrive, by device.
    receives: Vec<(LineIx, Vec<String>)>,
    /// Devices whose sent packets each line or thread completes.
    completes: Vec<(LineIx, Vec<String>)>,
    /// Threads that send for a radio's devices.
    senders: Vec<(LineIx, Vec<String>)>,
}

impl<'a> Poser<'a> {
    fn new(
        snapshot: &'a Snapshot,
        intake: &'a Intake<'a>,
        traffic: &'a Traffic,
        profile: Profile,
    ) -> Self {
        let costs = traffic.costs;
        let problem = Problem {
            places: places(snapshot, traffic),
            lines: IxVec::default(),
            queues: IxVec::default(),
            uppers: IxVec::default(),
            roots: IxVec::default(),
            streams: Vec::new(),
            ways: IxVec::default(),
            patterns: Vec::new(),
            housekeeping: None,
            hand_off: hand_off(snapshot, &costs),
            wide: profile != Profile::LowLatency,
            unit: match costs.unit_ns {
                Some(fitted) => Some(cores::Unit { most: fitted, usual: fitted }),
                None => cores::unit(snapshot, intake),
            },
            smt: cores::smt(snapshot),
            flows: traffic.flows(),
        };
        Self {
            snapshot,
            intake,
            traffic,
            costs,
            profile,
            problem,
            homes: Vec::new(),
            receives: Vec::new(),
            completes: Vec::new(),
            senders: Vec::new(),
        }
    }

    fn at(&self, cpu: CpuId) -> Option<PlaceIx> {
        self.problem.places.find(|p| p.id == cpu)
    }

    fn pollers(&self) -> &'a [Poller] {
        self.snapshot.evidence.as_ref().map_or(&[], |e| e.pollers.as_slice())
    }

    /// Threads that poll on behalf of several devices, or of a radio's: they do so whatever
    /// `threaded` says of a device.
    fn shared_pollers(&self, device: &str, role: PollerRole) -> Vec<&'a Poller> {
        let shared = |p: &&Poller| {
            matches!(p.owner, PollerOwner::Dummy(_) | PollerOwner::Radio(_)) && p.role == role
        };
        let mut all: Vec<&Poller> =
            self.pollers().iter().filter(shared).filter(|p| p.serves(device)).collect();
        all.order_by_key(|p| p.index);
        all
    }

    /// Interrupt lines and threads, each with what completes on it.
    fn lines(&mut self) {
        let mut irqs: Vec<&Irq> = self.intake.lines.clone();
        let radios = self.snapshot.radios.iter().flat_map(|r| &r.lines);
        for line in radios {
            let known = irqs.iter().any(|i| i.line == *line);
            irqs.extend(self.snapshot.irqs.iter().filter(|i| i.line == *line && !known));
        }
        irqs.order_by(|a, b| a.id.cmp(&b.id).then(a.line.0.cmp(&b.line.0)));
        for irq in &irqs {
            let device = self.snapshot.netdev(&irq.id.device);
            // The threads of a dummy device or a radio poll for these lines.
            if !self.shared_pollers(&irq.id.device, PollerRole::Napi).is_empty() {
                continue;
            }
            let threaded = device.is_some_and(|d| d.threaded == Some(true));
            let thread = device.and_then(|d| thread_of(d, irq, &irqs));
            let movable =
                if threaded { thread.is_some() } else { irq.movable == Movable::Presumed };
            let before = match &thread {
                Some((_, cpus)) => Some(cpus.clone()),
                None if threaded => None,
                None => irq.affinity.clone(),
            };
            // A mask of one CPU says where it is, also where the line was idle since it was set. Of
            // several the kernel reports which it took; a thread roams among them.
            let single = before.as_ref().filter(|set| set.len() == 1);
            let home = match (single, threaded) {
                (Some(set), _) => set.first(),
                (None, true) => None,
                (None, false) => irq.lands_on().and_then(CpuSet::first),
            };
            let knob = match &thread {
                Some((index, _)) => {
                    Knob::NapiThread { device: irq.id.device.clone(), thread: *index }
                }
                None => Knob::IrqAffinity { irq: irq.id.clone() },
            };
            let line = self.problem.lines.push(Line {
                knob: Some(knob),
                thread: threaded,
                device: irq.id.device.clone(),
                pair: irq.id.queue,
                home: home.and_then(|cpu| self.at(cpu)),
                fixed: !movable,
                before,
                node: device.and_then(|d| d.numa_node),
                completion: IxVec::default(),
            });
            self.homes.push((irq.line.0, line));
            if !matches!(irq.id.role, IrqRole::Rx) || !irq.tx.is_empty() {
                let mut served = vec![irq.id.device.clone()];
                served.extend(irq.shared_with.iter().cloned());
                let radio = self.snapshot.radios.iter().find(|r| r.lines.contains(&irq.line));
                served.extend(radio.iter().flat_map(|r| r.devices.iter().cloned()));
                served.dedup();
                self.completes.push((line, served));
            }
        }
        self.threads();
    }

    /// Threads that poll or send on behalf of several devices.
    fn threads(&mut self) {
        for poller in self.pollers() {
            let (serves, receives, completes) = match (&poller.owner, poller.role) {
                (PollerOwner::Dummy(_) | PollerOwner::Radio(_), PollerRole::Napi) => {
                    let polls =
                        |role| poller.polls.is_none_or(|p| p == role || p == IrqRole::Combined);
                    (true, polls(IrqRole::Rx), polls(IrqRole::Tx))
                }
                (PollerOwner::Radio(_), PollerRole::Workqueue) => (true, true, true),
                (PollerOwner::Radio(_), PollerRole::Transmit) => (true, false, false),
                _ => (false, false, false),
            };
            if !serves || poller.devices.is_empty() {
                continue;
            }
            let owner = poller.owner.to_string();
            let single = poller.cpus.as_ref().filter(|set| set.len() == 1);
            let home = single.and_then(CpuSet::first).and_then(|cpu| self.at(cpu));
            let knob = poller.knob().filter(|_| poller.cpus.is_some());
            let line = self.problem.lines.push(Line {
                fixed: knob.is_none() || poller.movable == Some(false),
                knob,
                thread: true,
                device: owner,
                pair: poller.index,
                before: poller.cpus.clone(),
                home,
                node: None,
                completion: IxVec::default(),
            });
            if receives {
                self.receives.push((line, poller.devices.clone()));
            }
            if completes {
                self.completes.push((line, poller.devices.clone()));
            }
            if poller.role == PollerRole::Transmit {
                self.senders.push((line, poller.devices.clone()));
            }
        }
    }

    /// The line of a queue, by thread or interrupt.
    fn line_of(&self, device: &NetDev, queue: u32, irq: Option<&Irq>) -> Option<LineIx> {
        let threads: Vec<LineIx> = self
            .receives
            .iter()
            .filter(|(_, devices)| devices.contains(&device.name))
            .map(|(line, _)| *line)
            .collect();
        if !threads.is_empty() {
            return threads.get(queue as usize % threads.len()).copied();
        }
        let of = |number: u32| self.homes.iter().find(|(n, _)| *n == number).map(|(_, l)| *l);
        if let Some(irq) = irq {
            return of(irq.line.0);
        }
        // It is one of the device's: with more queues than lines they share them.
        let receives = |i: &&&Irq| {
            i.id.role.receives()
                && (i.id.device == device.name || i.shared_with.contains(&device.name))
        };
        let mut own: Vec<&Irq> = self.intake.lines.iter().filter(receives).copied().collect();
        own.order_by(|a, b| a.id.cmp(&b.id).then(a.line.0.cmp(&b.line.0)));
        let turn = own.get(queue as usize % own.len().max(1));
        turn.and_then(|irq| of(irq.line.0))
    }

    /// Receive queues that really take packets.
    fn queues(&mut self) {
        let mut sources: Vec<&Source<'_>> = self.intake.sources.iter().collect();
        sources.order_by_key(|s| (s.device.name.as_str(), s.queue.index));
        for source in sources {
            let real = source.device.receiving.as_ref();
            if real.is_some_and(|r| !r.queues.contains(&source.queue.index)) {
                continue;
            }
            self.queue(source.device, source.queue.index, source.queue.rps.as_ref(), source.irq);
        }
        let airs = self.snapshot.netdevs.iter().filter(|d| d.kind.as_deref() == Some("wlan"));
        for device in airs.filter(|d| d.operstate != "down" && d.is_hardware()) {
            let radio = self.snapshot.radios.iter().find(|r| r.devices.contains(&device.name));
            let lines = radio.map_or(&[] as &[IrqLine], |r| r.lines.as_slice());
            let of_radio = |line: &IrqLine| self.snapshot.irqs.iter().find(|i| i.line == *line);
            let receives = |irq: &&Irq| irq.id.role.receives();
            let mut irqs: Vec<&Irq> = lines.iter().filter_map(of_radio).filter(receives).collect();
            if irqs.is_empty() {
                irqs.extend(self.snapshot.irqs_of(&device.name).find(receives));
            }
            let Some(rx) = device.rx_queues.first() else { continue };
            self.queue(device, rx.index, rx.rps.as_ref(), irqs.first().copied());
            self.rings(device, &irqs);
        }
    }

    /// Further lines of a radio that shares its packets out over as many as there are CPUs, all into
    /// the one queue of its device: a queue each, with one mask, which is off.
    fn rings(&mut self, device: &NetDev, irqs: &[&Irq]) {
        let cpus = self.problem.usable().count();
        let unsteered = Unsteered::Queues { device: device.name.clone(), queues: irqs.len(), cpus };
        let alike = irqs.iter().all(|irq| irq.id.role == IrqRole::Rx);
        let Some(first) = self.problem.queues.iter_mut().last() else { return };
        if !alike || irqs.len() < cpus.max(2) || first.unsteered.is_some() {
            return;
        }
        first.unsteered = Some(unsteered);
        let first = first.clone();
        for irq in irqs.iter().skip(1) {
            let line = self.line_of(device, first.index, Some(irq));
            self.problem.queues.push(Queue { line, has_mask: false, ..first.clone() });
        }
    }

    fn queue(&mut self, device: &NetDev, index: u32, rps: Option<&CpuSet>, irq: Option<&Irq>) {
        let line = self.line_of(device, index, irq);
        let known = line
            .and_then(|l| self.problem.lines.at(l).ok())
            .is_some_and(|l| !l.fixed || l.home.is_some() || l.before.is_some());
        let unsteered = self.unsteered(device, known);
        let line = match line.filter(|_| known) {
            None if !device.is_veth() && !self.problem.lines.is_empty() => self.unseen(device),
            line => line,
        };
        self.problem.queues.push(Queue {
            device: device.name.clone(),
            index,
            line,
            has_mask: rps.is_some(),
            unsteered,
            before: rps.map_or_else(Vec::new, |set| self.problem.mask(set)),
        });
    }

    /// A line that nobody sees: taken to be where lines are that nobody placed, on the first CPU.
    fn unseen(&mut self, device: &NetDev) -> Option<LineIx> {
        let known = self.problem.lines.find(|l| l.device == device.name && l.before.is_none());
        let home = self.problem.places.ids().next();
        let new = Line {
            knob: None,
            thread: false,
            device: device.name.clone(),
            pair: 0,
            before: None,
            home,
            fixed: true,
            node: None,
            completion: IxVec::default(),
        };
        let line = known.unwrap_or_else(|| self.problem.lines.push(new));
        if !self.completes.iter().any(|(_, devices)| devices.contains(&device.name)) {
            self.completes.push((line, vec![device.name.clone()]));
        }
        Some(line)
    }

    /// Reason why a queue gets no RPS whatever the loads.
    fn unsteered(&self, device: &NetDev, known: bool) -> Option<Unsteered> {
        if device.is_veth() {
            return None;
        }
        if !known {
            let threaded = device.threaded == Some(true);
            return Some(if threaded { Unsteered::Threads } else { Unsteered::UnknownCpu });
        }
        let cpus = self.problem.usable().count();
        if cpus < 2 {
            return Some(Unsteered::OneCpu);
        }
        let above = super::traffic::above(self.snapshot, &device.name);
        if base(self.snapshot, device, &above, &self.costs).hardware {
            return Some(Unsteered::Hardware);
        }
        let board = self.snapshot.machine.board_facts.as_ref();
        if let Some(facts) = board.filter(|facts| facts.steering_hurts) {
            return Some(Unsteered::Board(facts.source.clone()));
        }
        if rss_defeated(self.snapshot, device).is_some() {
            return None;
        }
        let movable = |d: &NetDev| {
            let own = self.intake.lines.iter().filter(|i| i.id.device == d.name);
            own.into_iter().all(|i| i.movable == Movable::Presumed)
        };
        // A card shares packets out evenly, whatever its CPUs can do.
        let even = self.problem.places.iter().all(|p| !p.usable || p.big);
        let queues = self.intake.spread(device);
        (queues >= cpus && even && movable(device)).then(|| Unsteered::Queues {
            device: device.name.clone(),
            queues,
            cpus,
        })
    }

    /// Queues of a device, each with its part of the device's packets: as counted, else even, unless
    /// all packets come in on one.
    fn shares(&self, device: &NetDev) -> Vec<(QueueIx, f64)> {
        let own: Vec<(QueueIx, u32)> = self
            .problem
            .queues
            .each()
            .filter(|(_, q)| q.device == device.name)
            .map(|(index, q)| (index, q.index))
            .collect();
        let counted = self.snapshot.evidence.as_ref().and_then(|e| e.queues.get(&device.name));
        if let Some(counted) = counted {
            let rx = |n: u32| counted.iter().find(|q| q.index == n).and_then(|q| q.rx);
            let all: Option<Vec<f64>> =
                own.iter().map(|(_, n)| rx(*n).map(|packets| packets as f64)).collect();
            if let Some(all) = all {
                let sum: f64 = all.iter().sum();
                if sum >= super::traffic::ENOUGH as f64 {
                    return own.iter().zip(all).map(|((q, _), n)| (*q, n / sum)).collect();
                }
            }
        }
        let alone = own.len() > 1 && rss_defeated(self.snapshot, device).is_some();
        let part = |at: usize| match (alone, at) {
            (true, 0) => 1.0,
            (true, _) => 0.0,
            (false, _) => 1.0 / own.len() as f64,
        };
        own.iter().enumerate().map(|(at, (queue, _))| (*queue, part(at))).collect()
    }

    /// Adds a way, with the work of encryption.
    fn way(&mut self, direction: Option<Direction>, words: String, link: Option<f64>) -> WayIx {
        let tunnels = self.snapshot.netdevs.iter().any(|d| d.kind.as_deref() == Some("wireguard"));
        let each = self.costs.wireguard * (1.0 + self.costs.ack)
            / self.problem.usable().count().max(1) as f64;
        let everywhere = if self.profile == Profile::Vpn && tunnels { each } else { 0.0 };
        for stream in &mut self.problem.streams {
            stream.rate.push(Rate::default());
        }
        for line in self.problem.lines.iter_mut() {
            line.completion.push(0.0);
        }
        self.problem.ways.push(Way { direction, words, link, everywhere })
    }

    /// Both ways between the two sides.
    fn variant(&mut self, variant: &Variant<'a>) {
        let Variant { wan, lan, sided, words, .. } = variant;
        let name = |from: &[Entry<'_>], word: &str| match (sided, from) {
            (true, _) => format!("{word}{words}"),
            (false, [one]) => format!("from {} alone", one.device.name),
            (false, _) => "through".into(),
        };
        let link = link(wan).zip(link(lan)).map(|(a, b): (f64, f64)| a.min(b));
        let alike = variant.is_alike();
        let known = |direction| sided.then_some(direction);
        let down = self.way(known(Direction::Down), name(wan, "down"), link);
        let up =
            if alike { None } else { Some(self.way(known(Direction::Up), name(lan, "up"), link)) };
        for (entries, others, data, acks) in
            [(wan, lan, Some(down), up), (lan, wan, up, Some(down))]
        {
            if alike && data.is_none() {
                // One way for all: each side's acknowledgements are in it.
                continue;
            }
            for entry in entries {
                self.receive(entry, others, data, if alike { data } else { acks });
            }
            for entry in others {
                self.send(entry, data, if alike { data } else { acks });
            }
        }
    }

    /// Streams of packets that come in by an entry and leave by the others.
    fn receive(
        &mut self,
        entry: &Entry<'a>,
        others: &[Entry<'a>],
        data: Option<WayIx>,
        acks: Option<WayIx>,
    ) {
        let mean = |of: &dyn Fn(&Entry<'_>) -> f64| -> f64 {
            others.iter().map(|e| e.weight * of(e)).sum()
        };
        let c = self.costs;
        let above = Above { names: entry.above.iter().copied().collect(), ..Above::default() };
        let way = base(self.snapshot, entry.device, &above, &c);
        // What two ports of one bridge exchange is not routed.
        let bridges = entry.bridged
            && others.iter().all(|o| o.bridged && o.tree == entry.tree && o.tree.is_some());
        let layers = |e: &Entry<'_>| {
            let tag = if e.tagged { c.tag } else { 0.0 };
            c.layer * f64::from(e.layers) + if e.bridged { c.bridge } else { 0.0 } + tag
        };
        let air = mean(&|e| f64::from(u8::from(e.air)));
        // The hardware's flow tables are of the wired ports.
        let hardware = way.hardware && !entry.air && air == 0.0;
        // Of connections in hardware the CPUs see the first packets alone: those have all their costs,
        // a hand-off's too.
        let seen = if hardware { 0.02 } else { 1.0 };
        let (mut interrupt, mut stack, mut first) = if hardware {
            (c.interrupt, 1.0, 0.0)
        } else if bridges {
            (c.interrupt, c.route / 2.0 + layers(entry), 0.0)
        } else {
            let cost = if way.hardware { c.nat } else { way.cost };
            (c.interrupt, cost + mean(&layers), layers(entry))
        };
        if entry.air {
            interrupt = c.air_receive;
        }
        // Sending to a radio is work where the stack stage is, unless a thread does it.
        let sent_here = mean(&|e| f64::from(u8::from(e.air && !self.has_sender(&e.device.name))));
        stack += c.air_send * sent_here;
        if entry.device.is_veth() {
            // Without an interrupt a packet's whole way, from one end of the veth to the other, is
            // one softirq, on the CPU that its mask says (drivers/net/veth.c, veth_xmit;
            // net/core/dev.c, netif_rx).
            stack += first + c.interrupt + c.completion;
            (interrupt, first) = (0.0, 0.0);
        }
        // Flows in hardware never meet a shaper.
        let shapers = if hardware { Vec::new() } else { self.shapers(entry, others) };
        stack += shapers.iter().map(|(_, work)| work).sum::<f64>();
        let shapers: Vec<(RootIx, f64)> =
            shapers.into_iter().map(|(root, work)| (root, work * c.shaper_lock)).collect();
        let uppers: Vec<_> = entry.above.iter().flat_map(|name| self.upper(name)).collect();
        for (queue, share) in self.shares(entry.device) {
            let mut rate: IxVec<OfWays, Rate> =
                self.problem.ways.ids().map(|_| Rate::default()).collect();
            let part = share * entry.weight * seen;
            for (index, rate) in self.problem.ways.ids().zip(rate.iter_mut()) {
                if Some(index) == data {
                    rate.data = part;
                }
                if Some(index) == acks {
                    rate.acks = part * c.ack;
                }
            }
            self.problem.streams.push(Stream {
                queue,
                uppers: uppers.clone(),
                rate,
                interrupt,
                first,
                stack,
                shapers: shapers.clone(),
            });
        }
    }

    fn has_sender(&self, device: &str) -> bool {
        self.senders.iter().any(|(_, devices)| devices.iter().any(|d| d == device))
    }

    /// The queues of a device above that could steer.
    fn upper(&mut self, name: &str) -> Vec<super::index::UpperIx> {
        let Some(device) = self.snapshot.netdev(name).filter(|d| !d.rx_queues.is_empty()) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        // Software devices have one queue that counts.
        for rx in device.rx_queues.iter().take(1) {
            let Some(mask) = &rx.rps else { continue };
            let known = self
                .problem
                .uppers
                .find(|upper| upper.device == device.name && upper.queue == rx.index);
            let before = self.problem.mask(mask);
            let new = Upper { device: device.name.clone(), queue: rx.index, before };
            all.push(known.unwrap_or_else(|| self.problem.uppers.push(new)));
        }
        all
    }

    /// Shapers that packets from an entry to the others pass, with their work.
    fn shapers(&mut self, entry: &Entry<'_>, others: &[Entry<'_>]) -> Vec<(RootIx, f64)> {
        let mut names: Vec<(String, f64)> = Vec::new();
        let own = std::iter::once(entry.device.name.as_str()).chain(entry.above.iter().copied());
        for name in own {
            let device = self.snapshot.netdev(name);
            names.extend(device.and_then(|d| d.ingress_to.clone()).map(|ifb| (ifb, 1.0)));
        }
        for other in others {
            let path =
                std::iter::once(other.device.name.as_str()).chain(other.above.iter().copied());
            names.extend(path.map(|name| (name.to_owned(), other.weight)));
        }
        let mut all: Vec<(RootIx, f64)> = Vec::new();
        for (name, weight) in names {
            let device = self.snapshot.netdev(&name);
            let shaper =
                device.and_then(|d| d.qdiscs.iter().find(|q| SHAPERS.contains(&q.kind.as_str())));
            let Some(shaper) = shaper else { continue };
            let known = self.problem.roots.find(|root| root.device == name);
            let new = Root { device: name, kind: shaper.kind.clone() };
            let root = known.unwrap_or_else(|| self.problem.roots.push(new));
            match all.iter_mut().find(|(other, _)| *other == root) {
                Some((_, work)) => *work += weight * self.costs.shaper,
                None => all.push((root, weight * self.costs.shaper)),
            }
        }
        all
    }

    /// Completions, and a radio's sending, of what leaves by an entry.
    fn send(&mut self, entry: &Entry<'_>, data: Option<WayIx>, acks: Option<WayIx>) {
        let name = &entry.device.name;
        let of = |list: &[(LineIx, Vec<String>)]| -> Vec<LineIx> {
            let own = list.iter().filter(|(_, devices)| devices.contains(name));
            own.map(|(line, _)| *line).collect()
        };
        let above = Above { names: entry.above.iter().copied().collect(), ..Above::default() };
        let hardware = base(self.snapshot, entry.device, &above, &self.costs).hardware;
        let done = match (entry.air, hardware) {
            (true, _) => self.costs.air_done,
            (false, true) => 0.0,
            (false, false) => self.costs.completion,
        };
        let completes = of(&self.completes);
        let senders = if entry.air { of(&self.senders) } else { Vec::new() };
        for (lines, work) in [(completes, done), (senders, self.costs.air_send)] {
            let part = entry.weight * work / lines.len().max(1) as f64;
            for line in lines {
                let Ok(line) = self.problem.lines.at_mut(line) else { continue };
                for (way, amount) in [(data, part), (acks, part * self.costs.ack)] {
                    let slot = way.map(|way| line.completion.at_mut(way));
                    if let Some(Ok(sum)) = slot {
                        *sum += amount;
                    }
                }
            }
        }
    }

    /// The packets of a load file: each device receives its own, and sends as many.
    fn told(&mut self) {
        let devices: Vec<&NetDev> = self.intake.devices.clone();
        let rate = |d: &NetDev| self.traffic.packets.get(&d.name).copied().unwrap_or(0.0);
        let all: f64 = devices.iter().map(|d| rate(d)).sum();
        let weights: Vec<f64> = devices.iter().map(|d| rate(d) / all.max(1e-12)).collect();
        self.alone(&devices, &weights, "the packets of the load file", false);
    }

    /// Traffic that ends on this machine.
    fn ends_here(&mut self, flowing: &Flowing<'a>) {
        let mut devices: Vec<&NetDev> = Vec::new();
        let sides = flowing.variants.iter().flat_map(|v| v.wan.iter().chain(&v.lan));
        for device in sides.map(|e| e.device).filter(|d| d.kind.as_deref() != Some("wlan")) {
            if !devices.iter().any(|d| d.name == device.name) {
                devices.push(device);
            }
        }
        let weights = vec![1.0 / devices.len().max(1) as f64; devices.len()];
        self.alone(&devices, &weights, "to this machine", true);
    }

    /// Adds one way: each device receives its part, and sends as much.
    fn alone(&mut self, devices: &[&'a NetDev], weights: &[f64], words: &str, ends: bool) {
        let direction = ends.then_some(Direction::Down);
        let way = self.way(direction, words.into(), None);
        self.problem.patterns.push(Pattern {
            slot: Some(if ends { Direction::Down } else { Direction::Both }),
            direction,
            words: words.into(),
            ways: vec![(way, 1.0)],
        });
        for (device, weight) in devices.iter().zip(weights) {
            let above = super::traffic::above(self.snapshot, &device.name);
            let mut entry = Entry {
                device,
                above: Vec::new(),
                side: None,
                layers: above.layers,
                bridged: above.bridged,
                tagged: false,
                air: false,
                weight: *weight,
                tree: None,
            };
            let from = self.problem.streams.len();
            self.receive(&entry, &[], Some(way), None);
            if ends {
                let stray = self.stray(device);
                for stream in self.problem.streams.iter_mut().skip(from) {
                    stream.stack =
                        self.costs.route + self.costs.local + stray * self.costs.foreign_queue;
                }
                entry.weight *= 0.5;
            }
            self.send(&entry, Some(way), None);
        }
    }

    /// Part of the packets sent from here that leave by a queue which another CPU completes: all but
    /// one in as many as there are queues, without a mask (XPS) that says whose queue it is.
    fn stray(&self, device: &NetDev) -> f64 {
        let queues = device.tx_queues.len();
        let own =
            |set: &CpuSet| !set.is_empty() && set.len() * queues <= 2 * self.problem.places.len();
        let mapped = device.tx_queues.iter().all(|q| q.xps.as_ref().is_some_and(own));
        if queues < 2 || mapped { 0.0 } else { 1.0 - 1.0 / queues as f64 }
    }

    /// Patterns that the ways are judged in: each alone, both at once, and as they were counted.
    fn patterns(&mut self, flowing: &Flowing<'_>) {
        let ways: Vec<(WayIx, Option<Direction>, String)> =
            self.problem.ways.each().map(|(i, w)| (i, w.direction, w.words.clone())).collect();
        let asked = |direction: Direction| {
            let list = &self.traffic.directions;
            list.is_empty() || list.contains(&direction)
        };
        let mut ways = ways.into_iter().peekable();
        let mut all = Vec::new();
        for variant in &flowing.variants {
            let Some((down, direction, words)) = ways.next() else { break };
            if variant.is_alike() {
                let both = Some(Direction::Both);
                let ways = vec![(down, 1.0)];
                all.push(Pattern { slot: both, direction: both, words, ways });
                continue;
            }
            let Some((up, other, up_words)) = ways.next() else { break };
            let both = vec![(down, 1.0), (up, 1.0)];
            if asked(Direction::Both) {
                let words = format!("both ways at once{}", variant.words);
                let known = Some(Direction::Both);
                all.push(Pattern { slot: known, direction: known, words, ways: both });
            }
            if asked(Direction::Down) {
                let slot = Some(Direction::Down);
                all.push(Pattern { slot, direction, words, ways: vec![(down, 1.0)] });
            }
            if asked(Direction::Up) {
                let (slot, words) = (Some(Direction::Up), up_words);
                all.push(Pattern { slot, direction: other, words, ways: vec![(up, 1.0)] });
            }
            if let Some((d, u)) = variant.measured.filter(|_| self.traffic.directions.is_empty()) {
                let words = "as counted".into();
                let ways = vec![(down, d), (up, u)];
                all.push(Pattern { slot: None, direction: None, words, ways });
            }
        }
        self.problem.patterns = all;
    }

    /// The CPU where other programs run: the one that was given or measured, that of a line that
    /// can't move, else the first.
    fn housekeeping(&mut self) {
        let busy = |cpu: &&Cpu| self.traffic.busy(self.snapshot, cpu.id);
        let most = self
            .snapshot
            .cpus
            .iter()
            .filter(|c| busy(c) > 0.0)
            .max_by(|a, b| busy(a).total_cmp(&busy(b)).then(b.id.cmp(&a.id)));
        let stuck =
            self.problem.lines.iter().filter(|l| l.fixed && !l.thread).filter_map(|l| l.home).min();
        let first = self.problem.usable().next();
        self.problem.housekeeping = most.and_then(|c| self.at(c.id)).or(stuck).or(first);
    }
}

/// Cost of a hand-off; more where somebody measured that it does harm on this board.
fn hand_off(snapshot: &Snapshot, costs: &Costs) -> HandOff {
    let hurts = snapshot.machine.board_facts.as_ref().is_some_and(|facts| facts.steering_hurts);
    let dear = if hurts { 4.0 } else { 1.0 };
    HandOff { give: dear * costs.give, take: dear * costs.take, cross: costs.cross }
}

/// Full frames a second at which the slowest link of a side is full; `None` where a speed is not
/// known.
fn link(entries: &[Entry<'_>]) -> Option<f64> {
    let of = |entry: &Entry<'_>| {
        let speed = entry.device.speed.filter(|speed| *speed > 0)?;
        Some(f64::from(speed) * 1e6 / FRAME / entry.weight.max(1e-6))
    };
    let all: Option<Vec<f64>> = entries.iter().map(of).collect();
    all?.into_iter().reduce(f64::min)
}
