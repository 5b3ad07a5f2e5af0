// SPDX-License-Identifier: Apache-2.0
// Bundles the page: `node build.mjs OUTDIR` writes index.html, app.js, app.css and favicon.svg there, which is all
// the server embeds. `node build.mjs --test OUTDIR` bundles the unit tests instead, for `node --test`. Everything is
// resolved from the folder this file lies in, so a build copies the sources next to their node_modules (bundle.sh).
import { build } from 'esbuild';
import { copyFile, mkdir, readdir, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

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
	await build({
		entryPoints: { app: join(here, 'src/main.tsx') },
		outdir: out, bundle: true, minify: true, format: 'iife', target: ['chrome100', 'firefox100', 'safari15'],
		jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'inline', logLevel: 'warning',
	});
	for (const name of ['index.html', 'favicon.svg'])
		await copyFile(join(here, name), join(out, name));
}
