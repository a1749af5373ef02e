// What the page may ask the router: these command lines of `linerate`, and no other. The list of LuCI's
// permissions (luci/root/usr/share/rpcd/acl.d) is this table again; test/pure.test.mjs holds them equal.

// The page's plan lies where only root may write, and goes with the boot.
const PLAN = '/run/linerate-page.toml';

// Seconds until a change is undone unless somebody confirms it.
export const CONFIRM_SECONDS = 60;

// `done`: exit codes with which a document is printed all the same (1: findings, 3: drift). `writes`: not
// for who may only look. `atOnce`: does not wait until commands before it have answered.
export const COMMANDS = {
	show: { args: ['show', '--json'], done: [0] },
	check: { args: ['check', '--json'], done: [0, 1] },
	status: { args: ['status', '--json'], done: [0, 3] },
	live: { args: ['record', '--json', '--seconds', '1'], done: [0] },
	plan: { args: ['plan', '--json', '--force', '--output', PLAN], done: [0], writes: true },
	apply: {
		args: ['apply', '--json', '--confirm', String(CONFIRM_SECONDS), PLAN], done: [0], writes: true,
	},
	confirm: { args: ['confirm', '--json'], done: [0], writes: true, atOnce: true },
	rollback: { args: ['rollback', '--json'], done: [0], writes: true, atOnce: true },
	verify: { args: ['verify', '--json', PLAN], done: [0, 3], writes: true },
};

// A command that did not do what it was asked; `message` is what the program said.
export class CommandFailed extends Error {
	constructor(name, code, message) {
		super(message || `linerate ${name} ended with exit code ${code} and said nothing`);
		this.name = 'CommandFailed';
		this.code = code;
	}
}

// Runs commands one after the other through `host.run(args)`, which gives `{ code, out, err }`.
export class Router {
	#host;
	#last = Promise.resolve();

	constructor(host) {
		this.#host = host;
	}

	// The documents that the command prints: one, or with `record` one for each line.
	ask(name) {
		if (COMMANDS[name].atOnce) {
			return this.#run(name);
		}
		const answer = this.#last.then(() => this.#run(name));
		this.#last = answer.catch(() => {});
		return answer;
	}

	async #run(name) {
		const { args, done } = COMMANDS[name];
		const { code, out, err } = await this.#host.run(args);
		if (!done.includes(code)) {
			throw new CommandFailed(name, code, err.trim());
		}
		try {
			return name === 'live' ? out.trim().split('\n').map((line) => JSON.parse(line)) : JSON.parse(out);
		} catch (error) {
			throw new CommandFailed(name, code, `linerate ${name} printed no JSON: ${error.message}`);
		}
	}
}
