// SPDX-License-Identifier: Apache-2.0
// The page of runbooks, written from docs/runbooks.md when the page is bundled (build.mjs). Alerts link to it (runbook_url), so it is HTML
// that can be read without the rest of the page: each `## Heading` has an anchor, as in `runbooks#targetdown`.
//
// Of Markdown it knows what that file uses: headings of two levels, paragraphs, lists with `*`, fenced code, `code` and [links](to).
// Anything else fails the build, with its line, so that nothing is shown as something that it is not.

/** Pages of the server that a runbook may name as `/page`: such a name becomes a link. */
const PAGES = ['targets', 'service-discovery', 'rules', 'alerts', 'agents', 'language', 'status', 'flags', 'config'];
const UNKNOWN_BLOCK = /^(#{3,}|\||>|<|\d+[.)] |[-+] |!\[|={3,}|-{3,}|~~~|\t| {4})/;
const UNKNOWN_TEXT = /`|\]\(|\*\*|<\w|!\[/;

const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
/** The anchor of a heading, as viewers of Markdown make it. */
const anchorOf = (heading) => heading.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-');

/** The address of a link on the page; null: a file of docs/, which the server does not have. */
function hrefOf(to) {
	const own = /^(?:runbooks\.md)?#([\w-]+)$/.exec(to);
	/* With its page: a mere #anchor is looked for in <base>. */
	if (own) return `runbooks#${own[1]}`;
	if (/^https?:\/\//.test(to)) return to;
	if (/^[\w./-]+\.md(#[\w-]+)?$/.test(to)) return null;
	throw new Error(`a link to ${to}`);
}

function codeSpan(text) {
	const code = `<code>${escaped(text)}</code>`;
	return text[0] === '/' && PAGES.includes(text.slice(1)) ? `<a href="${text.slice(1)}">${code}</a>` : code;
}

function linkSpan(text, to) {
	const href = hrefOf(to);
	return href === null ? `${inline(text)} <small>(docs/${escaped(to.replace(/#.*/, ''))})</small>` : `<a href="${escaped(href)}">${inline(text)}</a>`;
}

/** The text of a paragraph, list item or heading. */
function inline(text) {
	let out = '', at = 0;
	const plain = (part) => {
		if (UNKNOWN_TEXT.test(part)) throw new Error(`"${part.trim()}"`);
		return escaped(part);
	};
	for (const m of text.matchAll(/`([^`]+)`|\[((?:[^\]`]|`[^`]*`)+)\]\(([^()\s]+)\)/g)) {
		out += plain(text.slice(at, m.index)) + (m[1] === undefined ? linkSpan(m[2], m[3]) : codeSpan(m[1]));
		at = m.index + m[0].length;
	}
	return out + plain(text.slice(at));
}

/** The blocks of the file: { kind, line, text }; of a list `items`. */
export function blocksOf(markdown) {
	const lines = markdown.split('\n'), blocks = [];
	for (let i = 0; i < lines.length; i++) {
		const text = lines[i], line = i + 1, heading = /^(##?) (.+)$/.exec(text), last = blocks.at(-1);
		if (text.startsWith('```')) {
			const end = lines.indexOf('```', i + 1);
			if (end < 0) throw new Error(`runbooks.md:${line}: the code does not end`);
			blocks.push({ kind: 'code', line, text: lines.slice(i + 1, end).join('\n') });
			i = end;
		} else if (heading) blocks.push({ kind: heading[1] === '#' ? 'title' : 'section', line, text: heading[2] });
		else if (!text.trim()) blocks.push({ kind: 'gap', line });
		else if (text.startsWith('* ')) {
			if (last?.kind === 'list') last.items.push(text.slice(2));
			else blocks.push({ kind: 'list', line, items: [text.slice(2)] });
		} else if (UNKNOWN_BLOCK.test(text)) throw new Error(`runbooks.md:${line}: runbooks.mjs does not know this Markdown: ${text}`);
		else if (last?.kind === 'list') last.items.push(`${last.items.pop()}\n${text.trim()}`);
		else if (last?.kind === 'text') last.text += `\n${text}`;
		else blocks.push({ kind: 'text', line, text });
	}
	return blocks.filter((b) => b.kind !== 'gap');
}

function htmlOf(block) {
	try {
		switch (block.kind) {
		case 'title': return `<h1>${inline(block.text)}</h1>`;
		case 'section': return `<h2 id="${anchorOf(block.text)}"><a href="runbooks#${anchorOf(block.text)}">${inline(block.text)}</a></h2>`;
		case 'list': return `<ul>${block.items.map((item) => `<li>${inline(item)}</li>`).join('\n')}</ul>`;
		/* It may be wider than a phone: with a tabindex, keys scroll it. */
		case 'code': return `<pre tabindex="0">${escaped(block.text)}</pre>`;
		default: return `<p>${inline(block.text)}</p>`;
		}
	} catch (e) {
		throw new Error(`runbooks.md:${block.line}: runbooks.mjs does not know this Markdown: ${e.message}`);
	}
}

const contentsOf = (sections) =>
	`<nav class="contents" aria-label="Runbooks"><ul>${sections.map((s) => `<li><a href="runbooks#${anchorOf(s.text)}">${inline(s.text)}</a></li>`).join('')}</ul></nav>`;

/** The whole page. Its <base> is set by the server, as that of index.html. */
export function runbooksPage(markdown) {
	const blocks = blocksOf(markdown), sections = blocks.filter((b) => b.kind === 'section'), anchors = new Set(sections.map((s) => anchorOf(s.text)));
	if (!sections.length || blocks[0].kind !== 'title') throw new Error('runbooks.md: it begins with no title, or has no sections');
	if (anchors.size < sections.length) throw new Error('runbooks.md: two sections have one name');
	const first = blocks.indexOf(sections[0]);
	return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<base href="/">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Runbooks · Pyrrha</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="runbooks.css">
<script src="runbooks.js"></script>
</head>
<body>
<a class="skip" href="runbooks#main">Skip to the content</a>
<header class="top">
<a class="brand" href="./" aria-label="Pyrrha"><img class="logo" src="favicon.svg" alt=""><span>Pyrrha</span></a>
<nav aria-label="Pages"><a href="./">Explore</a><a href="alerts">Alerts</a><a href="rules">Rules</a><a href="runbooks" class="here" aria-current="page">Runbooks</a></nav>
</header>
<main id="main" class="runbooks" tabindex="-1">
${blocks.slice(0, first).map(htmlOf).join('\n')}
${contentsOf(sections)}
${blocks.slice(first).map(htmlOf).join('\n')}
</main>
</body>
</html>
`;
}
