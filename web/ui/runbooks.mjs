// SPDX-License-Identifier: Apache-2.0
// The page of runbooks, written from docs/runbooks.md when the page is bundled (build.mjs). Alerts link to it (runbook_url), so it is HTML
// that can be read without the rest of the page: each `## Heading` has an anchor, as in `runbooks#targetdown`.
//
// Of Markdown it knows what that file uses: headings of two levels, paragraphs, lists with `*`, fenced code, `code` and [links](to).
// Anything else fails the build, with its line, so that nothing is shown as something that it is not.

/** Pages of the server that a runbook may name as `/page`: such a name becomes a link. */
const PAGES = ['targets', 'service-discovery', 'rules', 'alerts', 'agents', 'language', 'status', 'flags', 'config'];
/* How a line of another block begins, or how all of it is: setext underlines and breaks, tables, quotes, HTML, other lists, definitions of links, fences. */
const UNKNOWN_BLOCK = /^(#{1,6}(\s|$)|\||:?-+:?\s*\||>|<|\d+[.)](\s|$)|[-+*](\s|$)|!\[|\[[^\]]*\]:|={1,}\s*$|-{2,}|~~~|```|\t| {4})/;
/* Code that does not end, links of other kinds, HTML, entities, escapes, line breaks, bare addresses, ~~struck~~; *emphasis* and _emphasis_: an asterisk
 * between blanks is none, nor is an underscore within a word. */
const UNKNOWN_TEXT = /`|\]\(|\]\[|!\[|<[\w/!?]|&#?\w+;|\\(?![\w ])| {2}\n|https?:\/\/|~|(?<!\s)\*|\*(?!\s)|(?<!\w)_|_(?!\w)/;

const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
/** The anchor of a heading, as viewers of Markdown make it. */
const anchorOf = (heading) => heading.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-');

/** The address of a link on the page; null: a file of docs/, which the server does not have. */
function hrefOf(to, anchors) {
	const own = /^(?:runbooks\.md)?#([\w-]+)$/.exec(to);
	if (own && !anchors.has(own[1])) throw new Error(`a link to ${to}, which is no section`);
	/* With its page: a mere #anchor is looked for in <base>. */
	if (own) return `runbooks#${own[1]}`;
	if (/^https?:\/\//.test(to)) return to;
	if (/^[\w./-]+\.md(#[\w-]+)?$/.test(to)) return null;
	throw new Error(`a link to ${to}`);
}

function codeSpan(text, anchors) {
	const code = `<code>${escaped(text)}</code>`;
	return anchors && text[0] === '/' && PAGES.includes(text.slice(1)) ? `<a href="${text.slice(1)}">${code}</a>` : code;
}

function linkSpan(text, to, anchors) {
	if (!anchors) throw new Error(`a link to ${to} within a link: a heading of a section is one`);
	const href = hrefOf(to, anchors);
	return href === null ? `${inline(text, null)} <small>(docs/${escaped(to.replace(/#.*/, ''))})</small>` : `<a href="${escaped(href)}">${inline(text, null)}</a>`;
}

/** The text of a paragraph, list item or heading. anchors: those of the page; null: it stands in a link, and has none in it. */
function inline(text, anchors) {
	let out = '', at = 0;
	const plain = (part) => {
		if (UNKNOWN_TEXT.test(part)) throw new Error(`"${part.trim()}"`);
		return escaped(part);
	};
	for (const m of text.matchAll(/`([^`]+)`|\[((?:[^[\]`]|`[^`]*`)+)\]\(([^()\s]+)\)/g)) {
		out += plain(text.slice(at, m.index)) + (m[1] === undefined ? linkSpan(m[2], m[3], anchors) : codeSpan(m[1], anchors));
		at = m.index + m[0].length;
	}
	return out + plain(text.slice(at));
}

/** Whether a line begins or ends a block that this file does not know. A line that goes on a paragraph or list item may be indented; after a gap it would
 * be another paragraph of the item before. */
function isUnknown(text, last) {
	const goesOn = last?.kind === 'list' || last?.kind === 'text';
	return UNKNOWN_BLOCK.test(text) || UNKNOWN_BLOCK.test(text.trimStart()) || /^\s/.test(text) && !goesOn;
}

/** The blocks of the file: { kind, line, text }; of a list `items`. */
export function blocksOf(markdown) {
	const lines = markdown.split('\n'), blocks = [];
	for (let i = 0; i < lines.length; i++) {
		const text = lines[i], line = i + 1, heading = /^(##?) (.+)$/.exec(text), last = blocks.at(-1);
		const unknown = () => { throw new Error(`runbooks.md:${line}: runbooks.mjs does not know this Markdown: ${text}`); };
		if (/^```[^`]*$/.test(text)) {
			const end = lines.indexOf('```', i + 1);
			if (end < 0) throw new Error(`runbooks.md:${line}: the code does not end`);
			blocks.push({ kind: 'code', line, text: lines.slice(i + 1, end).join('\n') });
			i = end;
		} else if (heading) {
			if (/\s#+\s*$/.test(text)) unknown();
			blocks.push({ kind: heading[1] === '#' ? 'title' : 'section', line, text: heading[2] });
		} else if (!text.trim()) blocks.push({ kind: 'gap', line });
		else if (/^\* \S/.test(text)) {
			if (/^\* \[.?\](\s|$)/.test(text) || isUnknown(text.slice(2), last)) unknown();
			if (last?.kind === 'list') last.items.push(text.slice(2));
			else blocks.push({ kind: 'list', line, items: [text.slice(2)] });
		} else if (isUnknown(text, last)) unknown();
		else if (last?.kind === 'list') last.items.push(`${last.items.pop()}\n${text.trim()}`);
		else if (last?.kind === 'text') last.text += `\n${text}`;
		else blocks.push({ kind: 'text', line, text });
	}
	return blocks.filter((b) => b.kind !== 'gap');
}

function htmlOf(block, anchors) {
	try {
		switch (block.kind) {
		case 'title': return `<h1>${inline(block.text, anchors)}</h1>`;
		case 'section': return `<h2 id="${anchorOf(block.text)}"><a href="runbooks#${anchorOf(block.text)}">${inline(block.text, null)}</a></h2>`;
		case 'list': return `<ul>${block.items.map((item) => `<li>${inline(item, anchors)}</li>`).join('\n')}</ul>`;
		/* It may be wider than a phone: with a tabindex, keys scroll it. */
		case 'code': return `<pre tabindex="0">${escaped(block.text)}</pre>`;
		default: return `<p>${inline(block.text, anchors)}</p>`;
		}
	} catch (e) {
		throw new Error(`runbooks.md:${block.line}: runbooks.mjs does not know this Markdown: ${e.message}`);
	}
}

const contentsOf = (sections) =>
	`<nav class="contents" aria-label="Runbooks"><ul>${sections.map((s) => `<li><a href="runbooks#${anchorOf(s.text)}">${inline(s.text, null)}</a></li>`).join('')}</ul></nav>`;

/** The whole page. Its <base> is set by the server, as that of index.html. */
export function runbooksPage(markdown) {
	const blocks = blocksOf(markdown), sections = blocks.filter((b) => b.kind === 'section'), anchors = new Set(sections.map((s) => anchorOf(s.text)));
	if (!sections.length || blocks[0].kind !== 'title') throw new Error('runbooks.md: it begins with no title, or has no sections');
	if (anchors.size < sections.length) throw new Error('runbooks.md: two sections have one name');
	const first = blocks.indexOf(sections[0]), html = blocks.map((b) => htmlOf(b, anchors));
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
${html.slice(0, first).join('\n')}
${contentsOf(sections)}
${html.slice(first).join('\n')}
</main>
</body>
</html>
`;
}
