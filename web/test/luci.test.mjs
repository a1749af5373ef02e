// The page in a stand-in for LuCI, in Chromium, on a router in a namespace that the real program changes.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { Browser } from './chromium.mjs';
import { INSTALLED, NO_CHROMIUM, NO_PROGRAM, NO_ROOT, PROGRAM } from './help.mjs';
import { luci } from './luci.mjs';

const skip = NO_PROGRAM || NO_CHROMIUM || NO_ROOT;
const mask = () => readFileSync('/sys/class/net/lan0/queues/rx-0/rps_cpus', 'utf8').trim();
const until = async (is) => {
	const end = Date.now() + 90_000;
	while (!is()) {
		assert.ok(Date.now() < end, `never: ${is}`);
		await new Promise((done) => setTimeout(done, 200));
	}
};
let browser;
before(async () => { browser = skip ? null : await Browser.start(); });
after(async () => { await browser?.close(); });

// Logs in, and makes a plan.
async function planned(host) {
	const page = await browser.page();
	await page.size(1000, 800, false);
	await host.logIn(page);
	await page.press('Make a plan');
	await page.until('document.querySelector(".linerate .plan").innerText.includes("RPS of lan0 rx 0")');
	return page;
}

test('a change that is confirmed stays, and is undone on request', { skip }, async (t) => {
	const host = await luci(join(INSTALLED, 'luci'), PROGRAM);
	t.after(() => host.close());
	const found = mask();
	const page = await planned(host);
	await page.press('Apply, undone after 60 s');
	await page.until('document.querySelector(".linerate .waiting").innerText.includes("undone in")');
	assert.notEqual(mask(), found);
	await page.press('Keep it');
	await page.until('document.querySelector(".linerate .waiting").hidden && document.querySelector(".notice.good")');
	await page.press('Verify');
	await page.until('/All \\d+ settings are in force/.test(document.querySelector(".linerate .state").innerText)');
	assert.notEqual(mask(), found);
	await page.press('Undo everything');
	await page.until('document.querySelector(".linerate .state").innerText.includes("changed nothing here")');
	assert.equal(mask(), found);
	assert.deepEqual(page.errors, []);
	assert.ok(page.requests.length > 5 && page.requests.every((address) => address.startsWith(host.origin)), page.requests.join('\n'));
	await page.close();
});

test('who loses the page gets the router back as it was', { skip }, async (t) => {
	const host = await luci(join(INSTALLED, 'luci'), PROGRAM);
	t.after(() => host.close());
	const found = mask();
	const page = await planned(host);
	await page.press('Apply, undone after 60 s');
	await page.until('document.querySelector(".linerate .waiting").innerText.includes("undone in")');
	assert.notEqual(mask(), found);
	await page.close();
	await until(() => mask() === found);
	const again = await browser.page();
	await again.size(1000, 800, false);
	await host.logIn(again);
	await again.until('document.querySelector(".linerate .state").innerText.includes("The last change was undone")');
	assert.ok(await again.value('document.querySelector(".linerate .waiting").hidden'));
	await again.close();
});

test('while the router is away the page says so, and goes on when it is back', { skip }, async (t) => {
	const host = await luci(join(INSTALLED, 'luci'), PROGRAM);
	t.after(() => host.close());
	const page = await browser.page();
	await page.size(1000, 800, false);
	await host.logIn(page);
	await page.until('document.querySelector(".linerate .bars li")');
	await page.send('Network.emulateNetworkConditions', { offline: true, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
	await page.until('document.querySelector(".linerate .notices").innerText.includes("does not answer")');
	await page.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
	await page.until('document.querySelector(".linerate .notices").innerText === ""');
	await page.close();
});

test('an account that may only look can look only', { skip }, async (t) => {
	const host = await luci(join(INSTALLED, 'luci'), PROGRAM, ['read']);
	t.after(() => host.close());
	const page = await browser.page();
	await page.size(1000, 800, false);
	await host.logIn(page);
	await page.until('document.querySelector(".linerate .bars li")');
	await page.press('Make a plan');
	await page.until('document.querySelector(".linerate .notices").innerText.includes("lets it look only")');
	const call = (command, params, env) => page.value(`fetch('/cgi-bin/luci/admin/ubus', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'call', params: [${JSON.stringify(host.session)}, 'file', 'exec', ${JSON.stringify({ command, params, env })}] }) }).then((answer) => answer.json()).then((answer) => answer.result[0])`);
	assert.equal(await call('/usr/bin/linerate', ['rollback', '--json']), 6);
	assert.equal(await call('/bin/sh', ['-c', 'id']), 6);
	assert.equal(await call('/usr/bin/linerate', ['status', '--json'], { LINERATE_STATE_DIR: '/tmp' }), 6);
	assert.equal(await call('/usr/bin/linerate', ['status', '--json']), 0);
	await page.close();
});
