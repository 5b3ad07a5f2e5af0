// SPDX-License-Identifier: Apache-2.0
// Bundles the page: `node build.mjs OUTDIR` writes index.html, app.js, app.css and favicon.svg there, which is all
// the server embeds. `node build.mjs --test OUTDIR` bundles the unit tests instead, for `node --test`. Everything is
// resolved from the folder this file lies in, so a build copies the sources next to their node_modules (bundle.sh).
// A page that takes more than LIMIT bytes to load, compressed as the server sends it, is no page: the build fails, and says what takes how much.
import { build } from 'esbuild';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { minify } from 'terser';

/* Meant to be 120,000 bytes; it is more since all its parts are there, and may not grow. The server packs 3 % tighter than zlib does here. */
const LIMIT = Number(process.env.PYRRHA_PAGE_LIMIT ?? 139_000);
const FILES = ['index.html', 'app.js', 'app.css', 'favicon.svg'];
const here = dirname(fileURLToPath(import.meta.url));
const tests = process.argv[2] === '--test';
const out = resolve(process.argv[tests ? 3 : 2] ?? 'dist');

/* What uPlot can do and this page does not ask of it: bars, steps, splines, logarithmic scales, its own legend, series and bands that come and go.
 * These functions are bundled empty; a test in a browser draws every graph of the page with what is left. */
const UNUSED = 'stepped bars findColWidth splineInterp monotoneCubic _monotoneCubic join rangeLog rangeAsinh logAxisSplits asinhAxisSplits log10AxisValsFilt log2AxisValsFilt snapLogY snapAsinhY '
	+ 'legendStroke legendFill initLegendRow setLegend setLegendValues syncLegend delSeries setBand addBand delBand';
/* The same within functions: scales other than linear, scatter plots, the legend, its words for times. */
const FOLDED = [
	[/^\tconst showLegend = legend\.show;$/m, ''], [/\bshowLegend\b/g, 'false'], [/\blegend\.live\b/g, 'false'], [/\bmode == 2\b/g, 'false'], [/\bmode == 1\b/g, 'true'],
	[/\b(?:\w+\.)?distr *(?:== *(?:2|3|4|100)|>= 3)(?!\d)/g, 'false'], [/^\tconst _time(?:AxisVals|SeriesVal) .*$/gm, ''],
	[/\btimeSeriesVal\(_tzDate, timeSeriesStamp\(sv, _fmtDate\)\) : sv \|\| _timeSeriesVal/, 'sv : sv'], [/\btimeAxisVals\(_tzDate, timeAxisStamps\(av, _fmtDate\)\)/, 'av'],
	[/\bav \|\| _timeAxisVals\b/, 'av'], [/\btimeAxisVal\(_tzDate, av\)/, 'av'], [/const _timeAxisStamps = \[[^]*?\n\t\];/, 'const _timeAxisStamps = 0;'],
	[/^.*\bpaths\.(?:stepped|bars|spline) *= .*$/gm, ''], [/^.*\buPlot\.(?:join|fmtDate|assign|fmtNum|rangeNum|rangeLog|rangeAsinh) *= .*$/gm, ''],
];
const withoutUnused = {
	name: 'uplot', setup: (b) => b.onLoad({ filter: /uPlot\.esm\.js$/ }, async ({ path }) => {
		let contents = await readFile(path, 'utf8');
		for (const name of UNUSED.split(' ')) {
			const whole = new RegExp(`^(\\t?)function ${name}\\([^]*?^\\1}`, 'm');
			if (!whole.test(contents)) throw new Error(`uPlot has no function ${name}: see UNUSED in build.mjs`);
			contents = contents.replace(whole, `$1function ${name}() {}`);
		}
		for (const [what, by] of FOLDED) {
			if (!what.test(contents)) throw new Error(`uPlot has no ${what}: see FOLDED in build.mjs`);
			contents = contents.replace(what, by);
		}
		return { contents, loader: 'js' };
	}),
};

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
	const { metafile } = await build({
		entryPoints: { app: join(here, 'src/main.tsx') },
		outdir: out, bundle: true, minify: true, format: 'iife', target: ['chrome100', 'firefox100', 'safari15'],
		jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'inline', logLevel: 'warning', metafile: true, plugins: [withoutUnused],
	});
	for (const name of FILES.filter((f) => !f.startsWith('app.')))
		await copyFile(join(here, name), join(out, name));
	await squeeze(join(out, 'app.js'));
	await weigh(metafile);
}

/** Once more, by a tool that takes its time: 5 % less after compression. */
async function squeeze(path) {
	const { code } = await minify(await readFile(path, 'utf8'), { ecma: 2020, compress: { passes: 3 }, format: { comments: 'some' } });
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
