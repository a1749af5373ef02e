// What several tests of the page share.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { COMMANDS } from '../page/commands.js';

export const TOP = new URL('../..', import.meta.url).pathname;
export const INSTALLED = process.env.LINERATE_WEB;
export const PROGRAM = process.env.LINERATE_PROGRAM;

const missing = (program) => spawnSync(program, ['--version']).error !== undefined;
export const NO_PROGRAM = !(PROGRAM && existsSync(PROGRAM)) && 'no program linerate was given';
export const NO_CHROMIUM = missing(process.env.CHROMIUM ?? 'chromium') && 'no Chromium here';
export const NO_ROOT = process.getuid() !== 0 && 'needs root, for a network namespace';

// What the program prints of a captured machine, by the page's own command lines as far as they can be
// asked of one; the rest as the program prints it of a machine where nothing was done.
export function documentsOf(capture) {
	const work = mkdtempSync(join(tmpdir(), 'linerate-web-'));
	try {
		const ask = (...args) => {
			const run = spawnSync(PROGRAM, [...args, '--json', '--host', join(TOP, capture)], { encoding: 'utf8', cwd: work, maxBuffer: 1 << 26 });
			if (run.status > 1) {
				throw new Error(run.stderr);
			}
			return JSON.parse(run.stdout);
		};
		return {
			show: ask('show'), check: ask('check'), plan: ask('plan', '--sample', '0'),
			status: { format: 'linerate-status', version: 1, journals: [], drift: [], running: [], labs: [] },
		};
	} finally {
		rmSync(work, { recursive: true });
	}
}


// An interval of `record` that fits the machine: its first CPU is busy with packets.
export function sampleOf(show) {
	const cpus = show.cpus.filter((cpu) => cpu.online).map(({ id }, at) => ({
		cpu: id, user: 0.05, system: 0.04, irq: at ? 0 : 0.04, softirq: at ? 0.02 : 0.88, packets: at ? 100 : 412_000,
		received_rps: 0, dropped: at ? 0 : 37, squeezed: 0, net_rx: 0, net_tx: 0, idle: 0.5,
	}));
	const devices = show.netdevs.slice(0, 4).map((device, at) => ({
		device: device.name, rx_bits: 9.4e8 / (at + 1), rx_packets: 81_000 / (at + 1), tx_bits: 3.2e7, tx_packets: 40_500, dropped: at ? 0 : 37,
	}));
	return { utc: '2026-01-01T00:00:00Z', at: 1, seconds: 1, cpus, devices, irqs: [], sensors: [], throttled: [] };
}

// The part of the program by these documents: for the stand-in's `run`.
export function canned(documents) {
	const byLine = new Map(Object.entries(COMMANDS).map(([name, { args }]) => [args.join(' '), name]));
	return (args) => {
		const name = byLine.get(args.join(' '));
		const document = name === 'live' ? sampleOf(documents.show) : documents[name];
		return document === undefined
			? { code: 2, stdout: '', stderr: `linerate: ${args.join(' ')}: not in this test` }
			: { code: 0, stdout: JSON.stringify(document), stderr: '' };
	};
}

export function read(path) {
	return readFileSync(join(TOP, path), 'utf8');
}
