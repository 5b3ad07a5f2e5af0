// SPDX-License-Identifier: Apache-2.0
// Colours of boxes. A box is coloured by what it belongs to (package, binary) so that neighbours of one origin read as
// one; runtimes and kernels are grey so that the program stands out. A diff is blue (less) to orange (more), which
// every kind of colour vision tells apart.

/** change: against the time before; of a diff it is what colours are of anyway. */
export type ColorBy = 'package' | 'binary' | 'file' | 'function' | 'change';

/** "cart" of "/app/shop/cart.py", "shop" of "/app/shop/__init__.py". */
function moduleOf(path: string): string {
	const whole = path.replace(/(?<=[^/])(\/__(init|main)__(\.[^/]*)?)+$/, '');
	return basename(whole).replace(/(?!^)\..*$/, '');
}

/* By the mapping that frames of a language runtime have. The server's rules are the same (lib/model/frame.c). */
const RUNTIMES: Record<string, (name: string, file: string) => string> = {
	'[python]': (_, file) => /^<frozen ([^.>]*)/.exec(file)?.[1]
		?? /.*\/(?:site|dist)-packages\/([^/.]+)/.exec(file)?.[1] ?? /.*\/python3\.\d+\/([^/.]+)/.exec(file)?.[1] ?? moduleOf(file),
	'[v8]': (_, file) => file.startsWith('node:') ? 'node' : /.*\/node_modules\/(@[^/]+\/[^/]+|[^/]+)/.exec(file)?.[1] ?? moduleOf(file),
	'[hotspot]': (name) => { const parts = name.replace(/\(.*$/, '').split('.'); return parts.slice(0, Math.max(parts.length - 2, +(parts.length > 1))).join('.'); },
};

/** "net/http.(*conn).serve" is net/http, "std::vector<int>::push_back" is std, a bare C symbol is its binary; "numpy", "express", "java.util". */
export function packageOf(name: string, binary: string, file = ''): string {
	const runtime = RUNTIMES[binary];
	if (runtime) return runtime(name, file) || binary;
	let s = name.replace(/^[<&*\s]+/, '');
	const generic = s.search(/[[<]/);
	if (generic > 0) s = s.slice(0, generic);
	const slash = s.lastIndexOf('/');
	const dot = s.indexOf('.', slash + 1);
	if (dot > 0 && !s.includes('::')) return s.slice(0, dot);
	const colons = s.indexOf('::');
	if (colons > 0) return s.slice(0, colons);
	return basename(binary) || s;
}

/** "net/http.(*conn).serve" as "http.(*conn).serve", "(*conn).serve", "serve"; "a::b::c" as "b::c". */
export function shorterNames(name: string): string[] {
	if (/\+0x[\da-f]+$/.test(name)) return []; /* an address in a binary */
	const args = name.search(/[[(<\s]|$/), slash = name.lastIndexOf('/', args) + 1;
	const plain = name.slice(slash), out = slash ? [plain] : [];
	const colons = plain.lastIndexOf('::', args - slash);
	const cut = colons >= 0 ? colons + 2 : plain.indexOf('.') + 1;
	if (cut > 0 && cut < plain.length) out.push(plain.slice(cut));
	const method = /^\(\*?\w+\)\.(.+)$/.exec(out[out.length - 1] ?? '');
	if (method) out.push(method[1]);
	return out;
}

export const basename = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

const GREY = /^(runtime|runtime\/(internal|debug|cgo|metrics).*|internal\/(runtime|poll|syscall|bytealg|reflectlite).*|syscall|sync|sync\/atomic|vmlinux|\[?kernel.*|\[vdso\]|linux-vdso.*|ld-linux.*|ld-.*\.so.*|lib(c|m|pthread|dl)[.-].*)$/;

export function hash(s: string): number {
	let h = 2166136261;
	for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
	h ^= h >>> 15; h = Math.imul(h, 0x2c1b3c6d); h ^= h >>> 12;
	return h >>> 0;
}

/* Hues in OKLCH, where equal lightness looks equally light: fire first, because that is what the graph is called after. */
const HUES = [52, 30, 72, 14, 92, 355, 235, 195, 290, 260, 325, 160, 128, 215, 310, 40];

export interface Fill { fill: string; text: string }

/** OKLCH (lightness and chroma in 0..1, hue in degrees) as sRGB, since a canvas of every browser we serve knows that. */
export function oklch(l: number, c: number, hue: number): string {
	const a = c * Math.cos(hue * Math.PI / 180), b = c * Math.sin(hue * Math.PI / 180);
	const l3 = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
	const m3 = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
	const s3 = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
	const linear = [
		4.0767416621 * l3 - 3.3077115913 * m3 + 0.2309699292 * s3,
		-1.2684380046 * l3 + 2.6097574011 * m3 - 0.3413193965 * s3,
		-0.0041960863 * l3 - 0.7034186147 * m3 + 1.707614701 * s3,
	];
	const byte = (v: number) => Math.round(255 * Math.min(1, Math.max(0, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055)));
	return `rgb(${linear.map(byte).join(' ')})`;
}

const ink = (dark: boolean) => dark ? '#f7f2ec' : '#241a12';

export function frameColor(name: string, binary: string, by: ColorBy, dark: boolean, file = ''): Fill {
	const key = by === 'function' ? name : by === 'file' ? file || basename(binary) || name : by === 'binary' ? basename(binary) || packageOf(name, binary, file) : packageOf(name, binary, file);
	const text = ink(dark), h = hash(key), shade = ((h >>> 8) % 5) * 0.008;
	if (by !== 'function' && GREY.test(key))
		return { fill: dark ? oklch(0.4 + shade, 0.008, 60) : oklch(0.872 + shade, 0.012, 75), text };
	/* by function, all of it is fire; else the hue says who */
	const hue = by === 'function' ? 28 + h % 58 : key === 'main' ? 56 : HUES[h % HUES.length];
	const cool = hue > 150 && hue < 300; /* screens show less of these before they clip */
	return { fill: dark ? oklch(0.46 + shade, cool ? 0.075 : 0.095, hue) : oklch(0.82 + shade, cool ? 0.075 : 0.1, hue), text };
}

/** The change of a value in a difference, in -1..1 of the larger whole of both sides; those of a comparison of shares are equal. */
export function changeOf(now: number, base: number, wholeNow: number, wholeBase: number): number {
	const whole = Math.max(Math.abs(wholeNow), Math.abs(wholeBase));
	const moved = whole ? (now - base) / whole : 0;
	return Math.abs(moved) < 1e-9 ? 0 : moved; /* what scaling left of nothing */
}

/** The colour of a change between -1 and 1 (changeOf): above 0 orange, or red if asked; below 0 blue, or green; 0 grey. */
export function diffColor(delta: number, dark: boolean, redGreen = false): Fill {
	const strength = Math.min(1, 2 * Math.sqrt(Math.abs(delta)));
	if (Math.abs(delta) < 1e-4) return { fill: dark ? oklch(0.4, 0.008, 60) : oklch(0.88, 0.01, 75), text: ink(dark) };
	const hue = delta > 0 ? (redGreen ? 25 : 52) : redGreen ? 145 : 245;
	return { fill: dark ? oklch(0.42 + 0.08 * strength, 0.03 + 0.1 * strength, hue) : oklch(0.9 - 0.14 * strength, 0.03 + 0.11 * strength, hue), text: ink(dark) };
}
