// The page: what this router is, what holds it back, what would change, and the way back.
//
//   host.run(args) ──▶ linerate --json ──▶ model.js ──▶ sections below
//
// A host (Cockpit, LuCI) gives `run(args)`, which resolves to `{ code, out, err }`, and calls `mount`.
// The page never confirms by itself: if it is lost while a change waits, the router undoes the change.

import { COMMANDS, CONFIRM_SECONDS, Router } from './commands.js';
import { h } from './dom.js';
import { draw } from './drawing.js';
import {
	busiest, changesOf, count, knobText, packetTime, percent, rate, routerOf, severityRank, stateText, valueText,
} from './model.js';

const BETWEEN = 1000;
const AFTER_FAILURE = 5000;

// A button that says what it does while it does it.
function button(label, kind, run) {
	return h('button', { type: 'button', class: kind, click: run }, label);
}

function table(heads, rows) {
	return h('div', { class: 'wide', tabindex: 0, role: 'group', 'aria-label': heads.join(', ') },
		h('table', {},
			h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col' }, head)))),
			h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell) => h('td', {}, cell)))))));
}

function details(summary, ...children) {
	return h('details', {}, h('summary', {}, summary), children);
}

function section(id, title) {
	const body = h('div', { class: 'body' });
	const heading = h('h2', { id: `linerate-${id}` }, title);
	return { body, element: h('section', { 'aria-labelledby': `linerate-${id}`, class: id }, heading, body) };
}

export function mount(root, host) {
	const page = new Page(root, host);
	page.start();
	return page;
}

class Page {
	constructor(root, host) {
		this.root = root;
		this.router = new Router(host);
		this.shown = new Map();
		this.ended = false;
		this.deadline = null;
		this.notice = h('div', { class: 'notices', role: 'status' });
		this.waiting = h('div', { class: 'waiting', hidden: true });
		this.name = h('p', { class: 'machine' });
		this.title = h('h1', {}, 'Line rate');
		this.parts = Object.fromEntries([
			['drawing', 'This router'], ['live', 'Now'], ['findings', 'What holds it back'],
			['plan', 'What would change'], ['state', 'What is in force'],
		].map(([id, title]) => [id, section(id, title)]));
		root.classList.add('linerate');
		root.replaceChildren(h('div', { class: 'page' }, h('header', {}, this.title, this.name), this.notice, this.waiting,
			h('div', { class: 'sections' }, Object.values(this.parts).map((part) => part.element))));
	}

	start() {
		this.plan(null);
		this.watch();
	}

	// Ends all asking; the page stays as it is.
	stop() {
		this.ended = true;
		clearInterval(this.ticking);
	}

	// Asks once; a failure is said and gives `null`.
	async ask(name) {
		try {
			const answer = await this.router.ask(name);
			this.lost(false);
			if (this.failed === name) {
				this.failed = null;
				this.notice.replaceChildren();
			}
			return answer;
		} catch (error) {
			if (error.name === 'CommandFailed') {
				this.lost(false);
				this.failed = name;
				this.say('bad', `linerate ${COMMANDS[name].args[0]} failed`, error.message);
			} else {
				this.lost(true, error);
			}
			return null;
		}
	}

	async look() {
		const show = await this.ask('show');
		if (show) {
			this.machine = show;
			this.seen = routerOf(show);
			const { hostname, board, os, kernel } = show.machine;
			this.name.replaceChildren([hostname, board, os, `kernel ${kernel}`].filter(Boolean).join(' · '));
			this.drawing();
		}
		const check = await this.ask('check');
		if (check) {
			this.findings(check);
		}
		const status = await this.ask('status');
		if (status) {
			this.state(status);
		}
	}

	// Live figures one after the other, and the state of the change between them.
	async watch() {
		this.ticking = setInterval(() => this.tick(), 500);
		new ResizeObserver(() => this.drawing()).observe(this.parts.drawing.body);
		let last = 0;
		while (!this.ended) {
			if (!this.root.isConnected) {
				this.stop();
				break;
			}
			let answered = true;
			if (!document.hidden) {
				if (!this.seen) {
					await this.look();
				}
				const lines = await this.ask('live');
				answered = lines !== null;
				const sample = lines?.at(-1);
				if (sample?.cpus) {
					this.live(sample);
				}
			}
			if (this.deadline !== null || Date.now() - last > 5000) {
				last = Date.now();
				const status = await this.ask('status');
				answered = status !== null;
				if (status) {
					this.state(status);
				}
			}
			await new Promise((done) => setTimeout(done, answered ? BETWEEN : AFTER_FAILURE));
		}
	}

	say(kind, title, text) {
		const told = `${kind} ${title} ${text}`;
		if (this.told === told && this.notice.firstChild) {
			return;
		}
		this.told = told;
		if (kind === 'good') {
			this.failed = null;
		}
		const close = button('Close', 'plain', () => note.remove());
		const note = h('div', { class: `notice ${kind}` }, h('div', {}, h('strong', {}, title), text ? h('pre', {}, text) : null), close);
		this.notice.replaceChildren(note);
	}

	lost(is, error) {
		if (is === Boolean(this.isLost)) {
			return;
		}
		this.isLost = is ? String(error?.message ?? error) : null;
		this.root.classList.toggle('lost', is);
		if (is) {
			this.say('bad', 'The router does not answer', `${this.isLost}\n${this.deadline === null
				? 'The page goes on trying.'
				: 'The change that waits is undone by the router itself unless it is confirmed. The page goes on trying.'}`);
		} else {
			this.notice.replaceChildren();
		}
	}

	// Rebuilds a part only if what it shows is other than before, so that nothing is pulled away from
	// under a reader or a keyboard.
	put(name, of, build) {
		const text = JSON.stringify(of);
		if (this.shown.get(name) !== text) {
			this.shown.set(name, text);
			this.parts[name].body.replaceChildren(...build().flat().filter(Boolean));
		}
	}

	drawing() {
		if (!this.seen) {
			return;
		}
		const width = Math.floor(Math.max(260, Math.min(this.parts.drawing.body.clientWidth, 900)));
		const most = busiest(this.seen, this.sample);
		this.put('drawing', [this.seen, most?.cpu, most?.words, width], () => [
			h('p', { class: 'lead' }, most ? `${most.words}.` : 'No CPU stands out.'),
			this.seen.devices.length
				? draw(this.seen, most, width)
				: h('p', {}, 'No network device here has interrupts or hands packets to other CPUs.'),
			h('p', { class: 'legend' }, h('span', { class: 'irq' }, 'interrupt'), h('span', { class: 'rps' }, 'handed over by RPS'), h('span', { class: 'most' }, 'most to do')),
		]);
	}

	live(sample) {
		this.sample = sample;
		this.drawing();
		const bar = (cpu) => {
			const shares = [['irq', cpu.irq], ['softirq', cpu.softirq], ['system', cpu.system], ['user', cpu.user]];
			const parts = shares.map(([kind, share]) => {
				const part = h('span', { class: kind });
				part.style.width = `${Math.min(100, (share ?? 0) * 100)}%`;
				return part;
			});
			const text = shares.map(([kind, share]) => `${kind} ${percent(share)}`).join(', ');
			return h('li', {}, h('span', { class: 'who' }, `CPU${cpu.cpu}`),
				h('span', { class: 'bar', role: 'img', 'aria-label': text, title: text }, parts),
				h('span', { class: 'figure' }, percent(packetTime(cpu))));
		};
		const moving = sample.devices.filter((one) => one.rx_packets || one.tx_packets || one.dropped);
		const devices = moving.map((one) => [one.device, rate(one.rx_bits), count(one.rx_packets), rate(one.tx_bits), count(one.tx_packets), count(one.dropped)]);
		const kinds = [['irq', 'interrupts'], ['softirq', 'packets (softirq)'], ['system', 'system'], ['user', 'programs']];
		this.put('live', sample, () => [
			h('ul', { class: 'bars' }, sample.cpus.map(bar)),
			h('p', { class: 'legend' }, kinds.map(([kind, words]) => h('span', { class: kind }, words)), h('span', {}, 'figure: time for packets')),
			devices.length
				? table(['device', 'in', 'packets/s', 'out', 'packets/s', 'lost/s'], devices)
				: h('p', {}, 'No packets in the last second.'),
			sample.throttled?.length ? h('p', { class: 'alarm' }, `Throttled: ${sample.throttled.join(', ')}`) : null,
		]);
	}

	findings(check) {
		const all = [...check.findings].sort((a, b) => severityRank(a) - severityRank(b));
		this.put('findings', all, () => [
			all.length === 0 ? h('p', {}, 'Nothing that linerate knows of holds this router back.') : null,
			h('ol', { class: 'findings' }, all.map((one) => h('li', { class: `is-${one.severity}` },
				h('p', {}, h('span', { class: `mark is-${one.severity}` }, one.severity), ' ', h('strong', {}, one.title)),
				h('p', {}, one.consequence),
				details('Evidence and remedy',
					h('dl', {}, one.evidence.flatMap((fact) => [h('dt', {}, fact.place), h('dd', {}, fact.value)])),
					h('pre', {}, one.remedy.join('\n')), h('p', { class: 'soft' }, one.source))))),
		]);
	}

	plan(planned) {
		const changes = planned ? changesOf(planned.plan) : [];
		const make = button(planned ? 'Plan anew' : 'Make a plan', planned && changes.length ? 'plain' : 'main', (event) => this.act(event, 'Looking at the traffic for 3 s …', async () => {
			const answer = await this.ask('plan');
			if (answer) {
				this.plan(answer);
			}
		}));
		const apply = changes.length
			? button(`Apply, undone after ${CONFIRM_SECONDS} s unless kept`, 'main', (event) => this.act(event, 'Applying …', async () => {
				const answer = await this.ask('apply');
				await this.refresh();
				if (answer?.writes.length === 0) {
					this.say('good', 'Everything was set so already', '');
				}
			}))
			: null;
		this.put('plan', planned, () => [
			planned
				? h('p', { class: 'lead' }, planned.expects ?? planned.plan.candidate.title)
				: h('p', {}, 'A plan changes nothing. It looks at the traffic for three seconds and says what could be set, and why.'),
			planned ? h('p', {}, planned.plan.candidate.reason) : null,
			planned && changes.length === 0 ? h('p', {}, 'Everything is as this plan would have it.') : null,
			changes.length ? table(['setting', 'now', 'then', 'why'], changes.map((one) => [knobText(one.knob), valueText(one.before), valueText(one.after), one.reason])) : null,
			planned?.plan.not_made?.length
				? details(`What it leaves alone, and why (${planned.plan.not_made.length})`, h('dl', {}, planned.plan.not_made.flatMap((one) => [h('dt', {}, one.setting), h('dd', {}, one.reason)])))
				: null,
			h('p', { class: 'buttons' }, apply, make),
		]);
	}

	state(status) {
		if (status.waiting) {
			this.deadline = performance.now() + status.waiting.seconds_left * 1000;
			this.watched = status.waiting.watched;
		} else {
			this.deadline = null;
		}
		this.tick();
		const here = status.journals;
		const undo = here.length && !status.waiting ? button('Undo everything', 'plain', (event) => this.act(event, 'Undoing …', () => this.rollback())) : null;
		const verify = here.length ? button('Verify', 'plain', (event) => this.act(event, 'Reading every setting …', () => this.verify())) : null;
		const told = { ...status, waiting: Boolean(status.waiting), running: undefined };
		// What was verified stands for as long as the same changes do.
		const made = here.map((one) => `${one.what} ${one.entries.length}`).join('\n');
		if (this.made !== made) {
			[this.made, this.verified] = [made, null];
		}
		this.put('state', told, () => [
			(status.damaged ?? []).map((one) => h('p', { class: 'alarm' }, one)),
			status.undone ? h('p', { class: 'alarm' }, `The last change was undone: ${status.undone.why}. ${status.undone.left ?? `${status.undone.restored} settings were put back.`}`) : null,
			here.length === 0 ? h('p', {}, 'linerate has changed nothing here since the start.') : null,
			here.length ? table(['change', 'settings', 'by'], here.map((one) => [one.what, String(one.entries.length), one.by ?? ''])) : null,
			status.persisted ? h('p', {}, `Kept over reboots: ${status.persisted.plan}${status.persisted.skipped ? ' (left out at the last start, which did not stay up)' : ''}`) : null,
			status.drift.length
				? [h('p', { class: 'alarm' }, 'Somebody else changed settings since:'), table(['setting', 'wanted', 'is'], status.drift.map((one) => [knobText(one.knob), one.wanted, one.is ?? 'unknown']))]
				: null,
			status.experiment ? h('p', {}, `Last experiment, ${status.experiment.started} (${status.experiment.file}): ${status.experiment.verdict}`) : null,
			h('p', { class: 'buttons' }, verify, undo),
			h('div', { class: 'verified' }, this.verified),
		]);
	}

	// The countdown, by this browser's clock between two answers of the router.
	tick() {
		if (this.deadline === null) {
			this.waiting.hidden = true;
			this.waiting.replaceChildren();
			return;
		}
		const left = Math.max(0, Math.round((this.deadline - performance.now()) / 1000));
		if (this.waiting.hidden) {
			this.left = h('span', { role: 'timer' });
			const watched = this.watched?.length ? `, or as soon as ${this.watched.join(', ')} stops answering` : '';
			this.waiting.replaceChildren(
				h('p', {}, h('strong', {}, 'The change is in force, and undone in ', this.left, watched, '.'), ' Does everything still work?'),
				h('p', { class: 'buttons' },
					button('Keep it', 'main', (event) => this.act(event, 'Keeping …', async () => {
						if (await this.ask('confirm')) {
							this.say('good', 'Kept', 'It is in force until the next start. To keep it over reboots: linerate persist');
						}
						await this.refresh();
					})),
					button('Undo now', 'plain', (event) => this.act(event, 'Undoing …', () => this.rollback()))));
			this.waiting.hidden = false;
		}
		this.left.replaceChildren(`${left} s`);
	}

	async rollback() {
		const done = await this.ask('rollback');
		if (done) {
			this.say('good', 'Undone', `${done.restored.length} settings restored and read back.`);
		}
		await this.refresh();
	}

	async verify() {
		const answer = await this.ask('verify');
		if (!answer) {
			return;
		}
		const off = answer.checks.filter((one) => one.state !== 'in-force');
		this.verified = off.length === 0
			? h('p', { class: 'good' }, `All ${answer.checks.length} settings are in force.`)
			: table(['setting', 'wanted', 'is', 'state'], off.map((one) => [knobText(one.knob), valueText(one.wanted), valueText(one.actual), stateText(one.state)]));
		this.parts.state.body.querySelector('.verified')?.replaceChildren(this.verified);
	}

	async refresh() {
		const [status, show, check] = [await this.ask('status'), await this.ask('show'), await this.ask('check')];
		if (status) {
			this.state(status);
		}
		if (show) {
			this.seen = routerOf(show);
			this.drawing();
		}
		if (check) {
			this.findings(check);
		}
	}

	// Runs what a button is for, once at a time; the button says what goes on.
	async act(event, words, run) {
		const pressed = event.currentTarget;
		if (pressed.hasAttribute('aria-disabled')) {
			return;
		}
		const label = pressed.textContent;
		pressed.replaceChildren(words);
		pressed.setAttribute('aria-disabled', 'true');
		try {
			await run();
		} finally {
			pressed.replaceChildren(label);
			pressed.removeAttribute('aria-disabled');
		}
	}
}
