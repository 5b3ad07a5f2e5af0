// SPDX-License-Identifier: Apache-2.0
// Bundles the page: `node build.mjs OUTDIR` writes index.html, app.js, app.css and favicon.svg there, and runbooks.html, .js and .css,
// a page without the rest (runbooks.mjs). That is all the server embeds. `node build.mjs --test OUTDIR` bundles the unit tests instead,
// for `node --test`. Everything is resolved from the folder this file lies in, so a build copies the sources next to their node_modules
// (bundle.sh).
// A page that takes more than LIMIT bytes to load, compressed as the server sends it, is no page: the build fails, and says what takes how much.
import { build } from 'esbuild';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { minify } from 'terser';
import { runbooksPage } from './runbooks.mjs';

/* The server packs 3 % tighter than zlib does here: what it sends is at most 121,500 bytes. */
const LIMIT = Number(process.env.PYRRHA_PAGE_LIMIT ?? 125_000);
const FILES = ['index.html', 'app.js', 'app.css', 'favicon.svg'];
const here = dirname(fileURLToPath(import.meta.url));
const tests = process.argv[2] === '--test';
const out = resolve(process.argv[tests ? 3 : 2] ?? 'dist');

await mkdir(out, { recursive: true });
if (tests) {
	const names = (await readdir(join(here, 'test'))).filter((n) => n.endsWith('.test.ts'));
	await rm(out, { recursive: true });
	await build({
		entryPoints: names.map((n) => join(here, 'test', n)),
		outdir: out, outExtension: { '.js': '.mjs' },
		bundle: true, platform: 'node', format: 'esm', target: 'node18', external: ['node:*'], logLevel: 'warning',
	});
} else {
	const bundle = (entryPoints) => build({
		entryPoints, outdir: out, bundle: true, minify: true, format: 'iife', target: ['chrome100', 'firefox100', 'safari15'],
		/* not as tsconfig.json says, which is for the types: element(name, properties, children …) takes 1.4 kB less, compressed */
		tsconfigRaw: {}, jsx: 'transform', jsxFactory: 'jsxElement', jsxFragment: 'jsxFragment', inject: [join(here, 'src/base/jsx.ts')],
		legalComments: 'inline', logLevel: 'warning', metafile: true,
	});
	const { metafile } = await bundle({ app: join(here, 'src/main.tsx') });
	for (const name of FILES.filter((f) => !f.startsWith('app.')))
		await copyFile(join(here, name), join(out, name));
	await squeeze(join(out, 'app.js'));
	await bundle({ runbooks: join(here, 'src/runbooks/runbooks.ts') });
	await writeFile(join(out, 'runbooks.html'), runbooksPage(await readFile(join(here, 'runbooks.md'), 'utf8')));
	await weigh(metafile);
}

/** Once more, by a tool that takes its time: 5 % less after compression, which finds more repetitions if a constant stays on its side of
 * a comparison. */
async function squeeze(path) {
	const { code } = await minify(await readFile(path, 'utf8'), { ecma: 2020, compress: { passes: 4, inline: 2, lhs_constants: false }, format: { comments: 'some' } });
	await writeFile(path, code);
}

/** Fails above the limit; says then which part takes how much of the scripts and styles, before compression. */
async function weigh({ outputs }) {
	const sizes = await Promise.all(FILES.map(async (f) => [f, gzipSync(await readFile(join(out, f)), { level: 9 }).length]));
	const total = sizes.reduce((n, [, size]) => n + size, 0);
	const kB = (n) => `${(n / 1000).toFixed(1).padStart(7)} kB`;
	if (total <= LIMIT) return;
	const parts = {};
	for (const o of Object.values(outputs))
		for (const [input, { bytesInOutput }] of Object.entries(o.inputs)) {
			const [top, second, third] = input.split('/');
			const part = top === 'node_modules' ? second.startsWith('@') ? `${second}/${third}` : second : second?.includes('.') ? 'src' : `src/${second}`;
			parts[part] = (parts[part] ?? 0) + bytesInOutput;
		}
	console.error(`web/ui: the page is too large: ${kB(total).trim()} compressed, and it may be ${LIMIT / 1000} kB`);
	for (const [f, size] of sizes) console.error(`${kB(size)}  ${f}, compressed`);
	for (const [part, size] of Object.entries(parts).sort((a, b) => b[1] - a[1])) console.error(`${kB(size)}  ${part}, as it is`);
	process.exit(1);
}
