// A stand-in for LuCI: its login, its view loader, and its way to commands (JSON-RPC over HTTP to ubus'
// `file.exec`, which rpcd runs), as far as the page meets them, written after their documentation and
// behaviour (openwrt/luci: luci.js, rpc.js, fs.js; openwrt/rpcd: file.c, session.c). The menu and the
// permissions are read from the package's own files, and the permissions are enforced.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname, join, normalize } from 'node:path';

// ubus' status codes (libubus.h).
const OK = 0, INVALID = 2, NO_METHOD = 3, DENIED = 6, TIMEOUT = 7, NOT_SUPPORTED = 8;
// rpcd's limits of a command (file.c: RPC_FILE_MAX_SIZE, RPC_FILE_MAX_RUNTIME).
const MOST_OUTPUT = 4096 * 64;
const MOST_TIME = 120_000;
const TYPES = { '.js': 'application/javascript', '.css': 'text/css', '.json': 'application/json' };
// What LuCI's own scripts need, and nothing from elsewhere.
const POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'";

const LOADER = `
const L = {
	env: { sessionid: SESSION, rpctimeout: 20 },
	resource: (path) => '/luci-static/resources/' + path,
	url: (path) => '/cgi-bin/luci/' + path,
};
function E(tag, attributes = {}, children = []) {
	const element = document.createElement(tag);
	Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
	element.append(...[children].flat());
	return element;
}
const view = { extend: (methods) => class { constructor() { Object.assign(this, methods); } } };
const NAMES = [null, 'InvalidCommandError', 'InvalidArgumentError', 'MethodNotFoundError', 'NotFoundError', 'NoDataError', 'PermissionError', 'TimeoutError', 'UnsupportedError'];
let id = 1;
const fs = {
	async exec(command, params) {
		const body = { jsonrpc: '2.0', id: id++, method: 'call', params: [L.env.sessionid, 'file', 'exec', { command, params }] };
		const answer = await fetch(L.url('admin/ubus') + '/file.exec', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), credentials: 'same-origin' });
		const message = await answer.json();
		if (message.error) throw new Error('RPC call to file/exec failed with error ' + message.error.code + ': ' + message.error.message);
		const [code, data] = message.result;
		if (code !== 0) { const error = new Error('ubus code ' + code); error.name = NAMES[code] || 'Error'; throw error; }
		return data;
	},
};
(async () => {
	const source = await (await fetch(L.resource('view/' + VIEW + '.js'))).text();
	const factory = (0, eval)('(function(window, document, L, E, view, fs) { ' + source + ' })');
	const shown = new (factory.call(window, window, document, L, E, view, fs))();
	document.getElementById('view').replaceChildren(await shown.render(await shown.load()));
})();
`;

// fnmatch with * and ?, as rpcd compares names (session.c).
function matches(pattern, text) {
	const expression = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*/g, '.*').replace(/\?/g, '.');
	return new RegExp(`^${expression}$`, 's').test(text);
}

function allows(groups, scope, object, way) {
	return groups.some((group) => Object.entries(group[scope] ?? {}).some(([pattern, ways]) => matches(pattern, object) && ways.some((one) => matches(one, way))));
}

function execute(program, params) {
	return new Promise((done) => {
		const child = spawn(program, params, { cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] });
		const out = { stdout: '', stderr: '' };
		const end = (status) => { clearTimeout(late); child.kill('SIGKILL'); done([status]); };
		const late = setTimeout(() => end(TIMEOUT), MOST_TIME);
		for (const name of ['stdout', 'stderr']) {
			child[name].on('data', (piece) => { out[name] += piece; if (out[name].length >= MOST_OUTPUT) end(NOT_SUPPORTED); });
		}
		child.on('close', (code) => { clearTimeout(late); done([OK, { code, ...out }]); });
		child.on('error', () => { clearTimeout(late); done([4]); });
	});
}

// Serves what is installed under `root` (as `scripts/web.sh luci` lays it out). `run(args)` stands for
// the program at /usr/bin/linerate: a path, or a function that answers. `may` is read or write.
export async function luci(root, run, may = ['read', 'write'], style = '') {
	const menu = JSON.parse(readFileSync(join(root, 'usr/share/luci/menu.d/luci-app-linerate.json')));
	const acl = JSON.parse(readFileSync(join(root, 'usr/share/rpcd/acl.d/luci-app-linerate.json')));
	const [[path, entry]] = Object.entries(menu);
	const groups = entry.depends.acl.flatMap((name) => may.map((way) => acl[name][way]));
	const password = randomBytes(8).toString('hex');
	const session = randomBytes(16).toString('hex');
	const asked = [];

	async function call([sid, object, method, args]) {
		if (sid !== session || !allows(groups, 'ubus', object, method)) {
			return { error: { code: -32002, message: 'Access denied' } };
		}
		if (object !== 'file' || method !== 'exec') {
			return { result: [NO_METHOD] };
		}
		if (typeof args?.command !== 'string') {
			return { result: [INVALID] };
		}
		const params = (args.params ?? []).filter((one) => typeof one === 'string');
		const line = [args.command, ...params].join(' ');
		asked.push(line);
		// Whoever has a session may not set the environment.
		if (args.env || !(allows(groups, 'file', args.command, 'exec') || allows(groups, 'file', line, 'exec'))) {
			return { result: [DENIED] };
		}
		const result = typeof run === 'function' ? [OK, await run(params)] : await execute(run, params);
		return { result };
	}

	const server = createServer(async (request, response) => {
		const { pathname } = new URL(request.url, 'http://here');
		let body = '';
		for await (const piece of request) {
			body += piece;
		}
		const send = (code, type, text, more = {}) => response.writeHead(code, { 'Content-Type': type, 'Content-Security-Policy': POLICY, ...more }).end(text);
		if (pathname.startsWith('/cgi-bin/luci/admin/ubus')) {
			const message = JSON.parse(body);
			const answers = await Promise.all([message].flat().map(async (one) => ({ jsonrpc: '2.0', id: one.id, ...await call(one.params) })));
			return send(200, 'application/json', JSON.stringify(Array.isArray(message) ? answers : answers[0]));
		}
		if (pathname === `/cgi-bin/luci/${path}`) {
			if (new URLSearchParams(body).get('luci_password') === password) {
				return send(303, 'text/plain', '', { 'Set-Cookie': `sysauth=${session}; HttpOnly; SameSite=Strict`, Location: request.url });
			}
			if (!(request.headers.cookie ?? '').includes(session)) {
				return send(403, 'text/html', `<!DOCTYPE html><html lang="en"><title>Log in</title><form method="post">
					<label>Password <input name="luci_password" type="password"></label><button>Log in</button></form>`);
			}
			const script = LOADER.replace('SESSION', JSON.stringify(session)).replace('VIEW', JSON.stringify(entry.action.path));
			return send(200, 'text/html', `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
				<title>${entry.title} - LuCI</title><style>body { margin: 0; background: #fff } ${style}</style></head>
				<body><main id="view"></main><script>${script}</script></body></html>`);
		}
		if (pathname.startsWith('/luci-static/')) {
			try {
				const file = readFileSync(join(root, 'www', normalize(pathname)));
				return send(200, TYPES[extname(basename(pathname))] ?? 'application/octet-stream', file);
			} catch {
				return send(404, 'text/plain', 'not found');
			}
		}
		return send(pathname === '/favicon.ico' ? 204 : 404, 'text/plain', '');
	});
	await new Promise((done) => server.listen(0, '127.0.0.1', done));
	const origin = `http://127.0.0.1:${server.address().port}`;
	return {
		origin, url: `${origin}/cgi-bin/luci/${path}`, password, session, asked,
		async logIn(page) {
			await page.open(this.url);
			// A session that is there already is taken up again.
			await page.until('Boolean(document.querySelector("input[name=luci_password], .linerate"))');
			page.errors.length = 0; // LuCI asks for the password with a 403
			await page.value(`document.forms.length && (document.querySelector("input[name=luci_password]").value = ${JSON.stringify(password)}, document.forms[0].submit())`);
		},
		close: () => { server.closeAllConnections(); server.close(); },
	};
}
