// Chromium, driven by its own protocol over two pipes: no library, no open port.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PATIENCE = 60_000;

export class Browser {
	static async start() {
		const home = mkdtempSync(join(tmpdir(), 'linerate-web-'));
		// No sandbox: the tests run as root, and look at nothing but this page.
		const child = spawn(process.env.CHROMIUM ?? 'chromium', [
			'--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
			'--disable-background-networking', '--disable-component-update', '--disable-sync',
			'--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${home}`, 'about:blank',
		], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], env: { ...process.env, HOME: home } });
		const browser = new Browser(child, home);
		await browser.send('Browser.getVersion');
		return browser;
	}

	constructor(child, home) {
		Object.assign(this, { child, home, next: 1, calls: new Map(), listeners: new Set() });
		let rest = '';
		child.stdio[4].on('data', (piece) => {
			const messages = (rest + piece).split('\0');
			rest = messages.pop();
			messages.forEach((message) => this.#take(JSON.parse(message)));
		});
		this.gone = new Promise((done) => child.on('exit', done));
	}

	#take(message) {
		const call = this.calls.get(message.id);
		if (call) {
			this.calls.delete(message.id);
			message.error ? call.failed(new Error(`${call.method}: ${message.error.message}`)) : call.done(message.result);
		} else {
			this.listeners.forEach((listener) => listener(message));
		}
	}

	send(method, params = {}, sessionId) {
		const id = this.next++;
		const answer = new Promise((done, failed) => this.calls.set(id, { done, failed, method }));
		this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
		return answer;
	}

	async page() {
		const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
		const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
		const page = new Page(this, sessionId, targetId);
		for (const domain of ['Page', 'Runtime', 'Network', 'Log']) {
			await page.send(`${domain}.enable`);
		}
		return page;
	}

	async close() {
		this.child.kill();
		await this.gone;
		rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
	}
}

// A tab. `requests` has every address that it asked for, `errors` what went wrong in it.
class Page {
	constructor(browser, sessionId, targetId) {
		Object.assign(this, { browser, sessionId, targetId, requests: [], errors: [], frames: new Map() });
		browser.listeners.add(({ sessionId: of, method, params }) => {
			if (of !== sessionId) {
				return;
			}
			if (method === 'Network.requestWillBeSent') {
				this.requests.push(params.request.url);
			} else if (method === 'Runtime.exceptionThrown') {
				this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
			} else if (method === 'Log.entryAdded' && params.entry.level === 'error') {
				this.errors.push(`${params.entry.text} ${params.entry.url ?? ''}`);
			} else if (method === 'Runtime.executionContextCreated') {
				const { id, auxData } = params.context;
				if (auxData?.isDefault) {
					this.frames.set(auxData.frameId, id);
				}
			}
		});
	}

	send(method, params) {
		return this.browser.send(method, params, this.sessionId);
	}

	async open(url) {
		await this.send('Page.navigate', { url });
	}

	// The value of an expression, in the frame whose address has `frame` in it (else the page itself).
	async value(expression, frame) {
		const { frameTree } = await this.send('Page.getFrameTree');
		const find = (tree) => (tree.frame.url.includes(frame) ? tree.frame.id : (tree.childFrames ?? []).map(find).find(Boolean));
		const id = frame ? find(frameTree) : frameTree.frame.id;
		const contextId = this.frames.get(id);
		if (contextId === undefined) {
			return undefined;
		}
		const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, contextId, awaitPromise: true, returnByValue: true });
		if (exceptionDetails) {
			throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
		}
		return result.value;
	}

	// Waits until the expression is true.
	async until(expression, frame, patience = PATIENCE) {
		const end = Date.now() + patience;
		for (;;) {
			const value = await this.value(expression, frame).catch(() => undefined);
			if (value) {
				return value;
			}
			if (Date.now() > end) {
				const text = await this.value('document.body?.innerText', frame).catch(String);
				throw new Error(`never true: ${expression}\nerrors: ${this.errors.join('\n')}\n${text}`);
			}
			await new Promise((done) => setTimeout(done, 100));
		}
	}

	// Presses the button with this text, as soon as it is there.
	async press(text, frame) {
		const button = `[...document.querySelectorAll('button')].find((one) => one.textContent.includes(${JSON.stringify(text)}) && one.offsetParent)`;
		await this.until(`Boolean(${button})`, frame);
		await this.value(`${button}.click()`, frame);
	}

	async size(width, height, dark) {
		await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
		await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
	}

	async picture(file) {
		const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true });
		writeFileSync(file, Buffer.from(data, 'base64'));
	}

	close() {
		return this.browser.send('Target.closeTarget', { targetId: this.targetId });
	}
}
