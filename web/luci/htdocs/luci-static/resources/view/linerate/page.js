'use strict';
'require view';
'require fs';

/* The page in LuCI: commands run by rpcd's file.exec, which allows the command lines of
   /usr/share/rpcd/acl.d/luci-app-linerate.json and no other. */

/* LuCI's themes have no common word for dark, but each has a background. */
function theme(root) {
	var colour = '';
	for (var one = root; one && !colour; one = one.parentElement) {
		var found = getComputedStyle(one).backgroundColor;
		if (!/^(transparent|rgba\(.*, 0\))$/.test(found))
			colour = found;
	}
	var parts = (colour.match(/[\d.]+/g) || [255, 255, 255]).map(Number);
	root.dataset.theme = parts[0] * 0.3 + parts[1] * 0.6 + parts[2] * 0.1 < 128 ? 'dark' : 'light';
}

return view.extend({
	load: function () {
		var sheet = L.resource('linerate/page.css');
		if (!document.querySelector('link[href="' + sheet + '"]'))
			document.head.appendChild(E('link', { rel: 'stylesheet', href: sheet }));
		return import(L.resource('linerate/page.js'));
	},

	render: function (page) {
		var root = E('div');
		var host = {
			run: function (args) {
				return fs.exec('/usr/bin/linerate', args).then(function (done) {
					return { code: done.code, out: done.stdout || '', err: done.stderr || '' };
				}, function (error) {
					if (error.name !== 'PermissionError')
						throw error;
					return { code: 4, out: '', err: 'This account may not do that: LuCI lets it look only.' };
				});
			}
		};
		requestAnimationFrame(function () {
			theme(root);
			new MutationObserver(function () { theme(root); }).observe(document.documentElement, { attributes: true });
			page.mount(root, host);
		});
		return root;
	},

	handleSave: null,
	handleSaveApply: null,
	handleReset: null
});
