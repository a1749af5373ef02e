// How the page looks: from 320 to 1600 px, light and dark, for people who use no mouse or no eyes, and with
// names that mean harm. Of captured machines, in the stand-in for LuCI. `LINERATE_WEB_PICTURES=DIR` keeps
// pictures.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { Browser } from './chromium.mjs';
import { canned, documentsOf, INSTALLED, NO_CHROMIUM, NO_PROGRAM } from './help.mjs';
import { luci } from './luci.mjs';

const skip = NO_PROGRAM || NO_CHROMIUM;
const WIDTHS = [320, 480, 768, 1100, 1600];
const AXE = process.env.LINERATE_AXE;
const pictures = process.env.LINERATE_WEB_PICTURES;
let browser;
before(async () => { browser = skip ? null : await Browser.start(); });
after(async () => { await browser?.close(); });

// The page of these documents, all of it on show: planned, and a change waits.
async function shown(t, documents, dark, width = 1100) {
	const style = dark ? 'body { background: #0f1318; color: #eee }' : '';
	const host = await luci(join(INSTALLED, 'luci'), canned(documents), ['read', 'write'], style);
	t.after(() => host.close());
	const page = await browser.page();
	t.after(() => page.close());
	await page.size(width, 900, dark);
	await host.logIn(page);
	await page.press('Make a plan');
	await page.until('document.querySelector(".linerate .plan table") && document.querySelector(".linerate .bars li")');
	return { host, page };
}

function waiting(documents) {
	const entries = documents.plan.plan.candidate.settings.map(({ knob }) => ({ knob }));
	return {
		...documents, status: {
			...documents.status, journals: [{ what: 'apply /run/linerate-page.toml', by: 'root on tty1', entries }],
			waiting: { seconds_left: 42, watched: ['198.18.0.254'] },
			drift: [{ knob: { kind: 'rps-cpus', device: 'eth1', queue: 0 }, wanted: 'f0', is: '0' }],
			experiment: { file: 'result.json', started: '2026-01-01 10:00', verdict: 'rps-all is 1.8 times as found (1.7 to 1.9)' },
		},
	};
}

for (const dark of [false, true]) {
	test(`nothing sticks out between 320 and 1600 px, ${dark ? 'dark' : 'light'}`, { skip }, async (t) => {
		const { page } = await shown(t, waiting(documentsOf('fixtures/hosts/rk3576-8-r8169x2-6.1')), dark);
		for (const width of WIDTHS) {
			await page.size(width, 900, dark);
			await page.until(`innerWidth === ${width} && document.querySelector(".linerate svg").viewBox.baseVal.width <= ${width}`);
			const out = await page.value(`[...document.querySelectorAll('.linerate *')].filter((one) => !one.closest('.wide, svg') && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.tagName + '.' + one.className)`);
			assert.deepEqual(out, [], `at ${width} px`);
			assert.ok(await page.value('document.documentElement.scrollWidth <= innerWidth'), `at ${width} px`);
			const small = await page.value(`[...document.querySelectorAll('.linerate button')].filter((one) => one.offsetParent && one.getBoundingClientRect().height < 24).length`);
			assert.equal(small, 0);
			if (pictures) {
				mkdirSync(pictures, { recursive: true });
				await page.picture(join(pictures, `${width}-${dark ? 'dark' : 'light'}.png`));
			}
		}
		assert.equal(await page.value('document.querySelector(".linerate").dataset.theme'), dark ? 'dark' : 'light');
		assert.deepEqual(page.errors, []);
	});

	test(`axe finds nothing serious, ${dark ? 'dark' : 'light'}`, { skip: skip || (!existsSync(AXE ?? '') && 'no axe-core here (npm)') }, async (t) => {
		const { page } = await shown(t, waiting(documentsOf('fixtures/hosts/rk3576-8-r8169x2-6.1')), dark);
		await page.value('document.querySelectorAll("details").forEach((one) => { one.open = true; })');
		await page.value(readFileSync(AXE, 'utf8'));
		for (const width of [320, 1100]) {
			await page.size(width, 900, dark);
			await page.until(`innerWidth === ${width}`);
			const found = await page.value(`axe.run(document).then(({ violations, passes }) => ({ passes: passes.length, bad: violations.map((one) => one.impact + ' ' + one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 120)).join(' | ')) }))`);
			assert.ok(found.passes > 10);
			assert.deepEqual(found.bad, [], `at ${width} px`);
		}
	});
}

test('all can be reached and worked by keyboard', { skip }, async (t) => {
	const { page } = await shown(t, waiting(documentsOf('fixtures/hosts/rk3576-8-r8169x2-6.1')), false);
	const seen = new Set();
	for (let at = 0; at < 60; at += 1) {
		await page.send('Input.dispatchKeyEvent', { type: 'keyDown', key: 'Tab', code: 'Tab', windowsVirtualKeyCode: 9 });
		await page.send('Input.dispatchKeyEvent', { type: 'keyUp', key: 'Tab', code: 'Tab', windowsVirtualKeyCode: 9 });
		seen.add(await page.value('document.activeElement?.textContent.slice(0, 12)'));
	}
	for (const label of ['Keep it', 'Undo now', 'Apply, undone after 60 s', 'Plan anew', 'Evidence and remedy', 'Verify']) {
		assert.ok(seen.has(label.slice(0, 12)), `${label} is not among ${[...seen].join(', ')}`);
	}
});

test('names that are markup stay text', { skip }, async (t) => {
	const documents = documentsOf('fixtures/hosts/rk3576-8-r8169x2-6.1');
	const evil = '<img src=x onerror=alert(1)>"\'</script><script>document.title="bad"</script>';
	documents.show.machine.hostname = evil;
	documents.show.netdevs.forEach((device) => { device.driver = evil; });
	documents.check.findings[0].title = evil;
	documents.check.findings[0].remedy = [evil];
	documents.plan.plan.candidate.reason = evil;
	documents.plan.plan.candidate.settings.forEach((one) => { one.reason = evil; });
	documents.status.undone = { why: evil, restored: 1, left: null };
	const { page } = await shown(t, documents, false);
	assert.ok(await page.value(`document.querySelector(".linerate .machine").textContent.includes(${JSON.stringify(evil)})`));
	assert.equal(await page.value('document.querySelectorAll(".linerate img, .linerate script").length'), 0);
	assert.notEqual(await page.value('document.title'), 'bad');
	assert.ok(page.requests.every((address) => !address.endsWith('/x')));
});

test('a machine with many CPUs and queues is shown, and a page that is gone asks no more', { skip }, async (t) => {
	const documents = documentsOf('fixtures/hosts/rk3576-8-r8169x2-6.1');
	const [cpu, device, irq] = [documents.show.cpus[0], documents.show.netdevs.find((one) => one.name === 'eth0'), documents.show.irqs[0]];
	documents.show.cpus = Array.from({ length: 96 }, (_, id) => ({ ...cpu, id }));
	device.rx_queues = Array.from({ length: 96 }, (_, index) => ({ index, rps: '', flow_cnt: 0 }));
	documents.show.irqs = device.rx_queues.map(({ index }) => ({ ...irq, id: { device: 'eth0', queue: index, role: 'rx' }, effective: String(index % 24) }));
	const { page, host } = await shown(t, documents, false, 320);
	assert.ok(await page.value('document.querySelectorAll(".linerate svg rect.cpu").length >= 24'));
	assert.ok(await page.value('document.querySelector(".linerate svg").textContent.includes("more")'));
	await page.value('document.querySelector(".linerate").remove()');
	await new Promise((done) => setTimeout(done, 2500));
	const asked = host.asked.length;
	await new Promise((done) => setTimeout(done, 3000));
	assert.equal(host.asked.length, asked);
});

test('documents of other versions of the program break nothing', { skip }, async (t) => {
	const documents = documentsOf('fixtures/hosts/rk3576-8-r8169x2-6.1');
	for (const device of documents.show.netdevs) {
		delete device.speed;
	}
	delete documents.show.evidence;
	documents.plan.plan.not_made = undefined;
	documents.plan.expects = undefined;
	const { page } = await shown(t, documents, false);
	assert.deepEqual(page.errors, []);
});
