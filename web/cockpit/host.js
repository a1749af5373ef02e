// The page in Cockpit: commands run as root by cockpit.spawn, who may not become root may not look either.

/* global cockpit */

import { mount } from './page/page.js';

const root = document.getElementById('linerate');

// Cockpit's own choice of light or dark: kept in the browser, told to every frame.
const dark = matchMedia('(prefers-color-scheme: dark)');
function theme() {
	const style = localStorage.getItem('shell:style') ?? 'auto';
	document.documentElement.dataset.theme = style === 'auto' ? (dark.matches ? 'dark' : 'light') : style;
}
theme();
dark.addEventListener('change', theme);
addEventListener('storage', theme);
addEventListener('cockpit-style', theme);

// Output is gathered as it comes: a command that ends with an exit code other than 0 has printed, too.
function run(args) {
	let out = '';
	return new Promise((done, failed) => {
		cockpit.spawn(['linerate', ...args], { superuser: 'require', err: 'message', directory: '/root' })
			.stream((piece) => { out += piece; })
			.then(() => done({ code: 0, out, err: '' }), (error) => {
				if (Number.isInteger(error.exit_status)) {
					done({ code: error.exit_status, out, err: error.message ?? '' });
				} else if (error.problem === 'access-denied') {
					done({ code: 4, out, err: 'Turn on administrative access, at the top of the page, to see and change this router.' });
				} else {
					failed(new Error(error.problem === 'not-found' ? 'There is no program linerate on this machine.' : error.message ?? String(error)));
				}
			});
	});
}

mount(root, { run });
