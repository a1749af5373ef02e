// From what `linerate --json` prints to what the page shows. Nothing here touches the page.

// The numbers in a list such as "0-3,6".
export function cpusOf(list) {
	const all = [];
	for (const part of (list ?? '').split(',').filter(Boolean)) {
		const [first, last = first] = part.split('-').map(Number);
		for (let cpu = first; cpu <= last; cpu += 1) {
			all.push(cpu);
		}
	}
	return all;
}

const KNOBS = {
	'irq-affinity': (knob) => `Interrupt of ${knob.device}${queue(knob)}`,
	'rps-cpus': (knob) => `RPS of ${knob.device} rx ${knob.queue}`,
	'xps-cpus': (knob) => `XPS of ${knob.device} tx ${knob.queue}`,
};

function queue(knob) {
	return knob.queue === undefined || knob.queue === null ? '' : ` ${knob.role ?? 'queue'} ${knob.queue}`;
}

// A setting in words: its kind, then whatever tells it from others of its kind.
export function knobText(knob) {
	const words = KNOBS[knob.kind];
	if (words) {
		return words(knob);
	}
	const rest = Object.entries(knob).filter(([name]) => name !== 'kind').map(([, value]) => String(value));
	return [knob.kind, ...rest].join(' ');
}

// A value in words; it comes as `{ kind: value }`, or as text.
export function valueText(value) {
	if (value === null || value === undefined) {
		return 'unknown';
	}
	if (typeof value !== 'object') {
		return String(value);
	}
	const [[kind, is] = []] = Object.entries(value);
	switch (kind) {
	case 'cpus': return is === '' ? 'off' : `CPU ${is}`;
	case 'queues': return is === '' ? 'off' : `queue ${is}`;
	case 'switch': return is ? 'on' : 'off';
	default: return String(is);
	}
}

// What `verify` found: a word, or a word with its reason.
export function stateText(state) {
	const [[word, why]] = typeof state === 'object' ? Object.entries(state) : [[state, '']];
	return why ? `${word}: ${why}` : word;
}

export function rate(bits) {
	if (bits === null || bits === undefined) {
		return '?';
	}
	const [unit, of] = bits >= 1e9 ? ['Gbit/s', 1e9] : bits >= 1e6 ? ['Mbit/s', 1e6] : ['kbit/s', 1e3];
	const figure = bits / of;
	return `${figure >= 100 ? figure.toFixed(0) : figure.toFixed(1)} ${unit}`;
}

export function count(figure) {
	return figure === null || figure === undefined ? '?' : Math.round(figure).toLocaleString('en');
}

export function percent(share) {
	return share === null || share === undefined ? '?' : `${Math.round(share * 100)} %`;
}

// What of a CPU's time is the packets'.
export function packetTime(cpu) {
	return (cpu.softirq ?? 0) + (cpu.irq ?? 0);
}

const RECEIVES = (role) => role !== 'tx' && role !== 'control';

// For each device the ways that its packets take: which interrupt, onto which CPU, and from there by RPS
// onto which. Queues that go the same way are one.
function waysOf(device, irqs) {
	const lines = irqs.filter((irq) => irq.id?.device === device.name && RECEIVES(irq.id.role));
	const byWay = new Map();
	const add = (name, taken, rps, fixed) => {
		const key = `${taken}/${rps}/${fixed}`;
		const way = byWay.get(key) ?? { queues: [], taken: cpusOf(taken), rps: cpusOf(rps), fixed };
		way.queues.push(name);
		byWay.set(key, way);
	};
	for (const line of lines) {
		const number = line.id.queue;
		const rx = device.rx_queues.find((one) => one.index === number);
		// One line for several queues: what RPS does with each.
		const sets = rx ? [rx.rps] : [...new Set(device.rx_queues.map((one) => one.rps))];
		for (const rps of sets.length ? sets : ['']) {
			add(number ?? null, line.effective ?? line.affinity, rps, line.movable === 'fixed');
		}
	}
	if (lines.length === 0) {
		// Cards, and a namespace's ends of veth; not what lies on top of them.
		const ends = (device.kind === null && device.bus?.bus !== 'virtual') || device.kind === 'veth';
		device.rx_queues.filter((one) => one.rps || ends).forEach((one) => add(one.index, '', one.rps, false));
	}
	return [...byWay.values()];
}

// "rx 0-3, 6"; of a line without a queue nothing is known to say.
export function queueNames(queues) {
	const numbers = [...new Set(queues.filter((one) => one !== null))].sort((a, b) => a - b);
	if (numbers.length === 0) {
		return 'all queues';
	}
	const runs = [];
	for (const number of numbers) {
		const run = runs.at(-1);
		if (run && run[1] === number - 1) {
			run[1] = number;
		} else {
			runs.push([number, number]);
		}
	}
	return `rx ${runs.map(([first, last]) => (first === last ? first : `${first}-${last}`)).join(', ')}`;
}

// The router as it is drawn: devices with their ways, CPUs with their share of the packets.
export function routerOf(show) {
	const devices = show.netdevs
		.map((device) => ({
			name: device.name,
			driver: device.driver ?? device.kind ?? '',
			speed: device.speed,
			up: device.operstate === 'up' || device.operstate === 'unknown',
			ways: waysOf(device, show.irqs),
		}))
		.filter((device) => device.ways.length > 0);
	const packets = new Map((show.evidence?.softnet ?? []).map((one) => [one.cpu, one.packets]));
	const all = [...packets.values()].reduce((sum, one) => sum + one, 0);
	const cpus = show.cpus.filter((cpu) => cpu.online).map((cpu) => ({
		id: cpu.id,
		capacity: cpu.capacity?.value ?? null,
		share: all > 0 ? (packets.get(cpu.id) ?? 0) / all : null,
	}));
	return { devices, cpus };
}

// The CPU that most packets go through, by a sample where there is traffic in it, else since the boot;
// `null` where none stands out.
export function busiest(router, sample) {
	const moving = (sample?.cpus ?? []).filter((cpu) => (cpu.packets ?? 0) + (cpu.received_rps ?? 0) > 0);
	const total = moving.reduce((sum, cpu) => sum + cpu.packets, 0);
	if (total >= 1000) {
		const most = moving.reduce((a, b) => (packetTime(b) > packetTime(a) ? b : a));
		if (packetTime(most) >= 0.1) {
			return { cpu: most.cpu, words: `CPU${most.cpu} has most to do: ${percent(packetTime(most))} of its time goes to packets` };
		}
	}
	const known = router.cpus.filter((cpu) => cpu.share !== null);
	if (known.length < 2) {
		return null;
	}
	const most = known.reduce((a, b) => (b.share > a.share ? b : a));
	return most.share * known.length < 1.2
		? null
		: { cpu: most.id, words: `CPU${most.id} took in ${percent(most.share)} of all packets since the start` };
}

// The settings of a plan that change something.
export function changesOf(plan) {
	return plan.candidate.settings.filter((one) => JSON.stringify(one.before) !== JSON.stringify(one.after));
}

const RANK = ['critical', 'warning', 'notice', 'info'];

export function severityRank(finding) {
	const rank = RANK.indexOf(finding.severity);
	return rank < 0 ? RANK.length : rank;
}
