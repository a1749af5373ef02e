// The router as a drawing: devices and the ways of their packets on the left, CPUs on the right. A full
// line is an interrupt, a dashed one a hand-off by RPS; the CPU that most goes through is marked.

import { s } from './dom.js';
import { percent, queueNames } from './model.js';

const ROW = 22;
const HEAD = 24;
const GAP = 12;
const BOX = 30;
const BOX_GAP = 8;
// So many CPUs that nothing goes to are drawn, and no more.
const IDLE_SHOWN = 16;

// Longer names are cut; the whole is in the title.
function cut(text, width) {
	const fits = Math.floor(width / 7.5);
	return text.length <= fits ? text : `${text.slice(0, Math.max(1, fits - 1))}…`;
}

function label(x, y, text, width, kind) {
	return s('text', { x, y, class: kind }, cut(text, width), s('title', {}, text));
}

// The CPUs that are drawn, and how many are left out.
function shown(router) {
	const used = new Set(router.devices.flatMap((device) => device.ways.flatMap((way) => [...way.taken, ...way.rps])));
	let idle = 0;
	const cpus = router.cpus.filter((cpu) => used.has(cpu.id) || (idle += 1) <= IDLE_SHOWN);
	return { cpus, left: router.cpus.length - cpus.length };
}

// Everything in one sentence each, for whoever does not see the drawing.
function words(router, bottleneck) {
	const ways = router.devices.flatMap((device) => device.ways.map((way) => {
		const taken = way.taken.length ? `interrupt on CPU ${way.taken.join(', ')}` : 'no interrupt of its own';
		const rps = way.rps.length ? `RPS to CPU ${way.rps.join(', ')}` : 'no RPS';
		return `${device.name} ${queueNames(way.queues)}: ${taken}, ${rps}.`;
	}));
	return [...ways, bottleneck ? `${bottleneck.words}.` : ''].join(' ');
}

export function draw(router, bottleneck, width) {
	const boxWidth = width < 520 ? 104 : 150;
	const deviceWidth = width < 520 ? 132 : Math.min(280, width * 0.34);
	const right = width - boxWidth;
	const { cpus, left } = shown(router);
	const edges = [];
	const parts = [];
	const heights = new Map(cpus.map((cpu, at) => [cpu.id, at * (BOX + BOX_GAP) + BOX / 2]));
	let y = 0;
	for (const device of router.devices) {
		const height = HEAD + device.ways.length * ROW + 4;
		parts.push(s('rect', { x: 0.5, y: y + 0.5, width: deviceWidth, height, rx: 6, class: device.up ? 'device' : 'device down' }));
		parts.push(label(10, y + 17, device.name, deviceWidth - 20, 'name'));
		const about = device.up ? device.driver : 'down';
		const room = deviceWidth - 26 - device.name.length * 8;
		if (about && room > 40) {
			parts.push(s('text', { x: deviceWidth - 10, y: y + 17, class: 'soft', 'text-anchor': 'end' }, cut(about, room)));
		}
		device.ways.forEach((way, at) => {
			const middle = y + HEAD + at * ROW + ROW / 2;
			parts.push(label(18, middle + 4, queueNames(way.queues) + (way.taken.length === 0 ? ', no interrupt' : way.fixed ? ', fixed' : ''), deviceWidth - 28, 'queue'));
			const draws = (cpu, kind) => {
				const to = heights.get(cpu);
				if (to !== undefined) {
					const bend = (right - deviceWidth) / 2;
					edges.push(s('path', { class: kind, d: `M${deviceWidth + 1} ${middle}C${deviceWidth + bend} ${middle} ${right - bend} ${to} ${right} ${to}` }));
				}
			};
			way.rps.forEach((cpu) => draws(cpu, 'rps'));
			way.taken.forEach((cpu) => draws(cpu, 'irq'));
		});
		y += height + GAP;
	}
	cpus.forEach((cpu) => {
		const top = heights.get(cpu.id) - BOX / 2;
		const most = bottleneck?.cpu === cpu.id;
		parts.push(s('rect', { x: right, y: top + 0.5, width: boxWidth - 1, height: BOX, rx: 6, class: most ? 'cpu most' : 'cpu' }));
		parts.push(s('text', { x: right + 10, y: top + 20, class: 'name' }, `CPU${cpu.id}`));
		if (cpu.share !== null) {
			parts.push(s('text', { x: right + boxWidth - 10, y: top + 20, class: 'soft', 'text-anchor': 'end' }, percent(cpu.share), s('title', {}, 'share of all packets since the start')));
		}
	});
	let bottom = cpus.length * (BOX + BOX_GAP);
	if (left > 0) {
		parts.push(s('text', { x: right, y: bottom + 14, class: 'soft' }, `and ${left} more`));
		bottom += 24;
	}
	const height = Math.max(y - GAP, bottom - BOX_GAP) + 3;
	return s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': words(router, bottleneck) }, edges, parts);
}
