// The page in the distribution's own Cockpit (cockpit-ws, its login, its bridge, its sudo), in Chromium, on
// a router in a namespace that the real program changes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { Browser } from './chromium.mjs';
import { INSTALLED, NO_CHROMIUM, NO_PROGRAM, NO_ROOT, PROGRAM, TOP } from './help.mjs';

const ROOT = process.env.LINERATE_COCKPIT_ROOT;
const skip = NO_PROGRAM || NO_CHROMIUM || NO_ROOT || (!existsSync(join(ROOT ?? '', 'recipe')) && 'no root file system with Cockpit here (mmdebstrap)');
const ORIGIN = 'http://127.0.0.1:9090';
const FRAME = '/linerate/index.html';
const password = randomBytes(8).toString('hex');
const mask = () => readFileSync('/sys/class/net/lan0/queues/rx-0/rps_cpus', 'utf8').trim();
let browser, cockpit;

before(async () => {
	if (skip) {
		return;
	}
	cockpit = spawn(join(TOP, 'web/test/cockpit.sh'), ['serve', ROOT, join(INSTALLED, 'cockpit'), PROGRAM], { stdio: ['pipe', 'ignore', 'inherit'] });
	cockpit.stdin.end(`keeper:${password}\n`);
	const end = Date.now() + 60_000;
	while (!await fetch(`${ORIGIN}/ping`).then((answer) => answer.ok, () => false)) {
		assert.ok(Date.now() < end, 'cockpit-ws does not answer');
		await new Promise((done) => setTimeout(done, 200));
	}
	browser = await Browser.start();
});
after(async () => {
	await browser?.close();
	cockpit?.kill();
});

async function loggedIn(page) {
	await page.size(1200, 900, false);
	await page.open(`${ORIGIN}/linerate`);
	await page.until('Boolean(document.querySelector("#login-user-input")?.offsetParent)');
	await page.value(`document.querySelector("#login-user-input").value = 'keeper'; document.querySelector("#login-password-input").value = '${password}'; document.querySelector("#login-button").click()`);
	await page.until('Boolean(document.querySelector(".linerate .page"))', FRAME);
}

// Turns on administrative access, as a person does; Cockpit remembers in the browser that it was on.
async function administrative(page) {
	const buttons = '[...document.querySelectorAll("button")].map((one) => one.textContent).join()';
	await page.until(`/(Limited|Administrative) access/.test(${buttons})`);
	if (/Administrative access/.test(await page.value(buttons))) {
		return;
	}
	await page.press('Limited access');
	await page.until('Boolean(document.querySelector("input[type=password]")?.offsetParent)');
	await page.value(`(() => { const box = document.querySelector("input[type=password]"); Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(box, '${password}'); box.dispatchEvent(new Event('input', { bubbles: true })); box.dispatchEvent(new Event('change', { bubbles: true })); })()`);
	await page.press('Authenticate');
	await page.until('Boolean(document.querySelector(".linerate .bars li"))', FRAME);
}

test('log in, look, apply, lose the page: the router is as it was', { skip }, async (t) => {
	const page = await browser.page();
	await loggedIn(page);
	await page.until('document.querySelector(".linerate .notices").innerText.includes("administrative access")', FRAME);
	await administrative(page);
	const found = mask();
	await page.press('Make a plan', FRAME);
	await page.until('document.querySelector(".linerate .plan").innerText.includes("RPS of lan0 rx 0")', FRAME);
	await page.press('Apply, undone after 60 s', FRAME);
	await page.until('document.querySelector(".linerate .waiting").innerText.includes("undone in")', FRAME);
	assert.notEqual(mask(), found);
	if (process.env.LINERATE_WEB_PICTURES) {
		await page.picture(join(process.env.LINERATE_WEB_PICTURES, 'cockpit.png'));
	}
	assert.ok(page.requests.every((address) => address.startsWith(ORIGIN) || address.startsWith('ws://127.0.0.1:9090/') || address.startsWith('data:')), page.requests.join('\n'));
	assert.deepEqual(page.errors.filter((error) => error.includes('linerate')), []);
	await page.close();
	const end = Date.now() + 90_000;
	while (mask() !== found) {
		assert.ok(Date.now() < end, 'the change is not undone');
		await new Promise((done) => setTimeout(done, 200));
	}
	const again = await browser.page();
	t.after(() => again.close());
	await loggedIn(again);
	await administrative(again);
	await again.until('document.querySelector(".linerate .state")?.innerText.includes("The last change was undone")', FRAME);
	await again.press('Make a plan', FRAME);
	await again.press('Apply, undone after 60 s', FRAME);
	await again.press('Keep it', FRAME);
	await again.until('Boolean(document.querySelector(".notice.good"))', FRAME);
	await again.press('Undo everything', FRAME);
	await again.until('document.querySelector(".linerate .state").innerText.includes("changed nothing here")', FRAME);
	assert.equal(mask(), found);
});
