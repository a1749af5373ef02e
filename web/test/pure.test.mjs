// What needs no browser: the list of commands, what is never used, and the model on captured machines.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';

import { COMMANDS, Router } from '../page/commands.js';
import * as model from '../page/model.js';
import { documentsOf, NO_PROGRAM, read } from './help.mjs';

test('LuCI allows the commands of the page, whole, and nothing else', () => {
	const { 'luci-app-linerate': acl } = JSON.parse(read('web/luci/root/usr/share/rpcd/acl.d/luci-app-linerate.json'));
	const lines = (writes) => Object.values(COMMANDS).filter((one) => Boolean(one.writes) === writes).map((one) => `/usr/bin/linerate ${one.args.join(' ')}`).sort();
	assert.deepEqual(Object.keys(acl.read.file).sort(), lines(false));
	assert.deepEqual(Object.keys(acl.write.file).sort(), lines(true));
	for (const way of ['read', 'write']) {
		assert.deepEqual(acl[way].ubus, { file: ['exec'] });
		assert.ok(Object.values(acl[way].file).every((ways) => ways.join() === 'exec'));
		// rpcd takes names as patterns.
		assert.ok(Object.keys(acl[way].file).every((line) => !/[*?[\]]/.test(line)));
	}
});

test('a change is never made without a time after which it is undone', () => {
	assert.ok(COMMANDS.apply.args.includes('--confirm'));
	assert.ok(!Object.values(COMMANDS).some(({ args }) => args.includes('--no-confirm') || args.includes('--force') && args[0] !== 'plan'));
});

test('no text can become markup or code', () => {
	for (const file of [...readdirSync(new URL('../page', import.meta.url)).map((name) => `web/page/${name}`), 'web/cockpit/host.js', 'web/luci/htdocs/luci-static/resources/view/linerate/page.js']) {
		assert.doesNotMatch(read(file), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|javascript:/, file);
		assert.doesNotMatch(read(file), /https?:\/\/(?!www\.w3\.org\/2000\/svg)|@import|url\(/, file);
	}
	const policy = JSON.parse(read('web/cockpit/manifest.json'))['content-security-policy'];
	assert.match(policy, /default-src 'none'/);
	assert.doesNotMatch(policy, /unsafe|\*|data:|blob:/);
});

test('commands run one after the other, and a failure says what the program said', async () => {
	let running = 0;
	const router = new Router({
		async run(args) {
			assert.equal(running += 1, 1);
			await new Promise((done) => setTimeout(done, 5));
			running -= 1;
			return args[0] === 'check' ? { code: 1, out: '{"findings":[]}', err: '' } : { code: 4, out: '', err: 'linerate: not root\n' };
		},
	});
	const [check, show] = await Promise.allSettled([router.ask('check'), router.ask('show')]);
	assert.deepEqual(check.value, { findings: [] });
	assert.equal(show.reason.message, 'linerate: not root');
	assert.equal(show.reason.code, 4);
});

test('sets, values and settings are put into words', () => {
	assert.deepEqual(model.cpusOf('0-2,6'), [0, 1, 2, 6]);
	assert.deepEqual(model.cpusOf(''), []);
	assert.equal(model.queueNames([0, 1, 2, 6]), 'rx 0-2, 6');
	assert.equal(model.queueNames([null]), 'all queues');
	assert.equal(model.valueText({ cpus: '' }), 'off');
	assert.equal(model.valueText({ cpus: '4-7' }), 'CPU 4-7');
	assert.equal(model.valueText(null), 'unknown');
	assert.equal(model.knobText({ kind: 'rps-cpus', device: 'eth0', queue: 0 }), 'RPS of eth0 rx 0');
	assert.equal(model.knobText({ kind: 'coalesce', device: 'eth0', parameter: 'rx-usecs' }), 'coalesce eth0 rx-usecs');
	assert.equal(model.stateText('drifted'), 'drifted');
	assert.equal(model.stateText({ absent: 'no such device' }), 'absent: no such device');
	assert.equal(model.rate(941e6), '941 Mbit/s');
	assert.equal(model.rate(null), '?');
});

test('a captured router is drawn as it is', { skip: NO_PROGRAM }, () => {
	const { show, plan } = documentsOf('fixtures/hosts/rk3576-8-r8169x2-6.1');
	const router = model.routerOf(show);
	assert.deepEqual(router.devices.map((device) => device.name), ['eth0', 'eth1']);
	assert.deepEqual(router.devices[0].ways, [{ queues: [0], taken: [0], rps: [], fixed: true }]);
	assert.equal(router.cpus.length, 8);
	assert.equal(model.busiest(router, undefined).cpu, 0);
	assert.match(plan.expects, /^expected gain: about \d/);
	assert.ok(model.changesOf(plan.plan).length > 0);
	assert.ok(model.changesOf(plan.plan).every((change) => model.valueText(change.after) !== model.valueText(change.before)));
});

test('traffic that is there now counts more than what was since the start', () => {
	const router = { devices: [], cpus: [{ id: 0, share: 0.9 }, { id: 1, share: 0.1 }] };
	const cpu = (number, softirq) => ({ cpu: number, softirq, irq: 0, packets: 5000, received_rps: 0 });
	assert.equal(model.busiest(router, { cpus: [cpu(0, 0.1), cpu(1, 0.7)] }).cpu, 1);
	assert.equal(model.busiest(router, { cpus: [] }).cpu, 0);
	assert.equal(model.busiest({ devices: [], cpus: [{ id: 0, share: 0.5 }, { id: 1, share: 0.5 }] }, undefined), null);
});
