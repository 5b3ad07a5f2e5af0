// SPDX-License-Identifier: Apache-2.0
// What is searched for in the site: names of flags, metrics and functions are taken apart as the index has them (`separator` in mkdocs.yml), and
// all parts of a name have to be there: storage.path is +storage +path. "In quotes", all words have to be there. Short ones need not, because the
// index lacks words like "of"; nor need the last one, because the theme appends a *, and then that word is looked up without its stem.
window.__search = {
	transform: (query) => query.replace(/"([^"]*)"?/g, (_, words) => words.trim().replace(/\s+/g, '_')).split(/\s+/).map((word) => {
		const parts = word.split(/[-_.,;:/|=<>(){}[\]"`~!@$%^&*+?\\']+/).filter(Boolean);
		return parts.length > 1 ? parts.map((part) => part.length > 3 ? `+${part}` : part).join(' ') : parts.join('');
	}).filter(Boolean).join(' ').replace(/\+(\S*)$/, '$1'),
};
