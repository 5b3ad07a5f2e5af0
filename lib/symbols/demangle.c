/* SPDX-License-Identifier: Apache-2.0 */
/* C++ by libstdc++'s __cxa_demangle (the C++ ABI names it; it is the compiler's own). Rust's older scheme is C++'s with
 * a hash at the end and escapes like $LT$; its newer one (v0, names begin with _R) is read here: RFC 2603.
 *
 * Compilers append suffixes to the names of parts and copies of a function (.cold, .isra.0, .llvm.123), linkers append @plt. They are
 * printed as c++filt prints them: "f() [clone .cold]" in C++, left out in Rust, and "f()@plt" in both. */
#include "symbols/demangle.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

char *__cxa_demangle(const char *name, char *out, size_t *n, int *status);

/* ---- Rust, older scheme ---- */

/* Whether v ends in `before` and 16 hexadecimal digits. */
static bool ends_in_hash(struct view v, struct view before)
{
	if (v.len < before.len + 16 || memcmp(v.ptr + v.len - 16 - before.len, before.ptr, before.len) != 0)
		return false;
	for (size_t i = v.len - 16; i < v.len; i++) {
		char c = v.ptr[i];
		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
			return false;
	}
	return true;
}

/* The mangled name without a suffix like .llvm.123. Without one it would end with a hash: "17h", 16 hexadecimal digits, "E". The name may have dots
 * before the hash. A name without a hash is returned unchanged. */
static struct view rust_legacy_without_suffix(struct view v)
{
	for (size_t i = 0; i + 1 < v.len; i++)
		if (v.ptr[i] == 'E' && v.ptr[i + 1] == '.' && ends_in_hash(view_make(v.ptr, i), VIEW("17h")))
			return view_make(v.ptr, i + 1);
	return v;
}

static const struct { const char *code, *text; } escapes[] = {
	{ "$SP$", "@" }, { "$BP$", "*" }, { "$RF$", "&" }, { "$LT$", "<" }, { "$GT$", ">" }, { "$LP$", "(" },
	{ "$RP$", ")" }, { "$C$", "," },
};

static size_t put_escape(struct view v, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(escapes); i++)
		if (view_starts(v, view_of(escapes[i].code))) {
			buf_puts(out, escapes[i].text);
			return strlen(escapes[i].code);
		}
	/* $u20$ is a code point */
	const char *end = v.len > 3 && v.ptr[1] == 'u' ? memchr(v.ptr + 2, '$', MIN(v.len - 2, (size_t)8)) : NULL;
	if (!end)
		return 0;
	uint32_t cp = (uint32_t)strtoul(v.ptr + 2, NULL, 16);
	char utf8[4];
	if (cp < 0x20 || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	buf_put(out, utf8, utf8_encode(cp, utf8));
	return (size_t)(end - v.ptr) + 1;
}

static void put_rust_legacy(struct view v, struct buf *out)
{
	v.len -= 19;
	for (size_t i = 0; i < v.len;) {
		struct view rest = view_make(v.ptr + i, v.len - i);
		size_t n = rest.ptr[0] == '$' ? put_escape(rest, out) : 0;
		if (n) {
			i += n;
		} else if (view_starts(rest, VIEW(".."))) {
			buf_puts(out, "::");
			i += 2;
		} else if (rest.ptr[0] == '_' && rest.len > 1 && rest.ptr[1] == '$' && (i == 0 || v.ptr[i - 1] == ':')) {
			i++; /* an identifier that would begin with an escape gets a '_' in front */
		} else {
			buf_putc(out, rest.ptr[0]);
			i++;
		}
	}
}

/* ---- Rust, v0 ----
 *
 *	path: C crate | N ns path ident | M impl type | X impl type path | Y type path | I path args E | B backref
 * Types, constants and lifetimes appear in generic arguments. Depth and output are bounded. */

#define V0_DEPTH 64

struct v0 {
	struct view in; /* behind "_R" */
	size_t at;
	struct buf *out;
	unsigned depth, steps;
	bool bad;
};

static void v0_path(struct v0 *d, bool value);
static void v0_type(struct v0 *d);

static char v0_peek(const struct v0 *d)
{
	return d->at < d->in.len ? d->in.ptr[d->at] : 0;
}

static bool v0_eat(struct v0 *d, char c)
{
	if (v0_peek(d) != c)
		return false;
	d->at++;
	return true;
}

static char v0_next(struct v0 *d)
{
	if (d->at >= d->in.len) {
		d->bad = true;
		return 0;
	}
	return d->in.ptr[d->at++];
}

/* Base 62 up to '_': "_" is 0, "0_" is 1. */
static uint64_t v0_base62(struct v0 *d)
{
	uint64_t n = 0;
	if (v0_eat(d, '_'))
		return 0;
	for (;;) {
		char c = v0_next(d);
		if (c == '_')
			break;
		uint64_t digit = c >= '0' && c <= '9' ? (uint64_t)(c - '0') : c >= 'a' && c <= 'z' ? (uint64_t)(c - 'a' + 10) :
				 c >= 'A' && c <= 'Z' ? (uint64_t)(c - 'A' + 36) : 99;
		if (digit == 99 || __builtin_mul_overflow(n, 62, &n) || __builtin_add_overflow(n, digit, &n)) {
			d->bad = true;
			return 0;
		}
	}
	return n + 1;
}

static uint64_t v0_disambiguator(struct v0 *d)
{
	return v0_eat(d, 's') ? v0_base62(d) + 1 : 0;
}

static void v0_ident(struct v0 *d, bool print)
{
	bool punycode = v0_eat(d, 'u');
	size_t n = 0;
	if (v0_peek(d) < '0' || v0_peek(d) > '9') {
		d->bad = true;
		return;
	}
	if (!v0_eat(d, '0'))
		while (v0_peek(d) >= '0' && v0_peek(d) <= '9' && n < DEMANGLE_MAX)
			n = n * 10 + (size_t)(v0_next(d) - '0');
	v0_eat(d, '_');
	if (n > d->in.len - d->at) {
		d->bad = true;
		return;
	}
	if (print) {
		if (punycode)
			buf_puts(d->out, "punycode{");
		buf_put(d->out, d->in.ptr + d->at, n);
		if (punycode)
			buf_putc(d->out, '}');
	}
	d->at += n;
}

/* Runs fn at an earlier position. */
static void v0_backref(struct v0 *d, void (*fn)(struct v0 *))
{
	size_t here = d->at - 1;
	uint64_t to = v0_base62(d);
	if (d->bad || to >= here) {
		d->bad = true;
		return;
	}
	size_t back = d->at;
	d->at = (size_t)to;
	fn(d);
	d->at = back;
}

static void v0_path_value(struct v0 *d)
{
	v0_path(d, true);
}

static void v0_path_type(struct v0 *d)
{
	v0_path(d, false);
}

static void v0_lifetime(struct v0 *d)
{
	uint64_t n = v0_base62(d);
	buf_puts(d->out, n ? "'a" : "'_");
}

static void v0_const(struct v0 *d)
{
	if (v0_eat(d, 'p')) {
		buf_putc(d->out, '_');
		return;
	}
	if (v0_eat(d, 'B')) {
		v0_backref(d, v0_const);
		return;
	}
	char type = v0_next(d);
	if (v0_eat(d, 'n'))
		buf_putc(d->out, '-');
	uint64_t n = 0;
	bool fits = true;
	size_t first = d->at;
	for (char c; (c = v0_next(d)) != '_' && !d->bad;) {
		fits &= d->at - first <= 16;
		n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (type == 'b')
		buf_puts(d->out, n ? "true" : "false");
	else if (fits)
		buf_printf(d->out, "%llu", (unsigned long long)n);
	else
		buf_puts(d->out, "_");
}

static void v0_generic_args(struct v0 *d)
{
	for (bool first = true; !v0_eat(d, 'E') && !d->bad; first = false) {
		if (!first)
			buf_puts(d->out, ", ");
		if (v0_eat(d, 'L'))
			v0_lifetime(d);
		else if (v0_eat(d, 'K'))
			v0_const(d);
		else
			v0_type(d);
	}
}

static const char *v0_basic(char c)
{
	static const char *const names['z' - 'a' + 1] = {
		['a' - 'a'] = "i8", ['b' - 'a'] = "bool", ['c' - 'a'] = "char", ['d' - 'a'] = "f64", ['e' - 'a'] = "str",
		['f' - 'a'] = "f32", ['h' - 'a'] = "u8", ['i' - 'a'] = "isize", ['j' - 'a'] = "usize", ['l' - 'a'] = "i32",
		['m' - 'a'] = "u32", ['n' - 'a'] = "i128", ['o' - 'a'] = "u128", ['p' - 'a'] = "_", ['s' - 'a'] = "i16",
		['t' - 'a'] = "u16", ['u' - 'a'] = "()", ['v' - 'a'] = "...", ['x' - 'a'] = "i64", ['y' - 'a'] = "u64",
		['z' - 'a'] = "!",
	};
	return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static void v0_list(struct v0 *d, const char *open, const char *close)
{
	buf_puts(d->out, open);
	for (bool first = true; !v0_eat(d, 'E') && !d->bad; first = false) {
		if (!first)
			buf_puts(d->out, ", ");
		v0_type(d);
	}
	buf_puts(d->out, close);
}

static void v0_fn_type(struct v0 *d)
{
	if (v0_eat(d, 'G'))
		v0_base62(d);
	if (v0_eat(d, 'U'))
		buf_puts(d->out, "unsafe ");
	if (v0_eat(d, 'K')) {
		buf_puts(d->out, "extern \"");
		if (v0_eat(d, 'C'))
			buf_putc(d->out, 'C');
		else
			v0_ident(d, true);
		buf_puts(d->out, "\" ");
	}
	v0_list(d, "fn(", ")");
	if (!v0_eat(d, 'u')) {
		buf_puts(d->out, " -> ");
		v0_type(d);
	}
}

static void v0_dyn(struct v0 *d)
{
	buf_puts(d->out, "dyn ");
	if (v0_eat(d, 'G'))
		v0_base62(d);
	for (bool first = true; !v0_eat(d, 'E') && !d->bad; first = false) {
		if (!first)
			buf_puts(d->out, " + ");
		v0_path(d, false);
		while (v0_eat(d, 'p')) {
			buf_putc(d->out, '<');
			v0_ident(d, true);
			buf_puts(d->out, " = ");
			v0_type(d);
			buf_putc(d->out, '>');
		}
	}
	if (v0_eat(d, 'L'))
		v0_base62(d);
}

static void v0_type(struct v0 *d)
{
	if (++d->depth > V0_DEPTH || ++d->steps > 10000 || d->out->overflow)
		d->bad = true;
	if (d->bad)
		return;
	char c = v0_peek(d);
	const char *basic = v0_basic(c);
	if (basic) {
		d->at++;
		buf_puts(d->out, basic);
	} else if (c == 'R' || c == 'Q') {
		d->at++;
		buf_putc(d->out, '&');
		if (v0_eat(d, 'L') && v0_base62(d))
			buf_puts(d->out, "'a ");
		if (c == 'Q')
			buf_puts(d->out, "mut ");
		v0_type(d);
	} else if (c == 'P' || c == 'O') {
		d->at++;
		buf_puts(d->out, c == 'P' ? "*const " : "*mut ");
		v0_type(d);
	} else if (c == 'A' || c == 'S') {
		d->at++;
		buf_putc(d->out, '[');
		v0_type(d);
		if (c == 'A') {
			buf_puts(d->out, "; ");
			v0_const(d);
		}
		buf_putc(d->out, ']');
	} else if (c == 'T') {
		d->at++;
		v0_list(d, "(", ")");
	} else if (c == 'F') {
		d->at++;
		v0_fn_type(d);
	} else if (c == 'D') {
		d->at++;
		v0_dyn(d);
	} else if (c == 'B') {
		d->at++;
		v0_backref(d, v0_type);
	} else {
		v0_path(d, false);
	}
	d->depth--;
}

static void v0_skip_impl_path(struct v0 *d)
{
	struct buf nowhere = { .max = DEMANGLE_MAX }, *out = d->out;
	v0_disambiguator(d);
	d->out = &nowhere;
	v0_path(d, false);
	d->out = out;
	buf_free(&nowhere);
}

static void v0_nested(struct v0 *d, bool value)
{
	char ns = v0_next(d);
	v0_path(d, value);
	uint64_t dis = v0_disambiguator(d);
	if (ns >= 'A' && ns <= 'Z') {
		buf_puts(d->out, "::{");
		if (ns == 'C')
			buf_puts(d->out, "closure");
		else if (ns == 'S')
			buf_puts(d->out, "shim");
		else
			buf_putc(d->out, ns);
		size_t before = d->out->len;
		buf_putc(d->out, ':');
		v0_ident(d, true);
		if (d->out->len == before + 1)
			d->out->len = before;
		buf_printf(d->out, "#%llu}", (unsigned long long)dis);
		return;
	}
	buf_puts(d->out, "::");
	v0_ident(d, true);
}

static void v0_path(struct v0 *d, bool value)
{
	if (++d->depth > V0_DEPTH || ++d->steps > 10000 || d->out->overflow)
		d->bad = true;
	if (d->bad)
		return;
	char c = v0_next(d);
	switch (c) {
	case 'C':
		v0_disambiguator(d);
		v0_ident(d, true);
		break;
	case 'N':
		v0_nested(d, value);
		break;
	case 'M':
	case 'X':
		v0_skip_impl_path(d);
		/* fall through */
	case 'Y':
		buf_putc(d->out, '<');
		v0_type(d);
		if (c != 'M') {
			buf_puts(d->out, " as ");
			v0_path(d, false);
		}
		buf_putc(d->out, '>');
		break;
	case 'I':
		v0_path(d, value);
		buf_puts(d->out, value ? "::<" : "<");
		v0_generic_args(d);
		buf_putc(d->out, '>');
		break;
	case 'B':
		v0_backref(d, value ? v0_path_value : v0_path_type);
		break;
	default:
		d->bad = true;
	}
	d->depth--;
}

static bool rust_v0(struct view name, struct buf *out)
{
	struct v0 d = { .in = view_make(name.ptr + 2, name.len - 2), .out = out };
	const char *dot = memchr(d.in.ptr, '.', d.in.len); /* .llvm.123 */
	if (dot)
		d.in.len = (size_t)(dot - d.in.ptr);
	v0_path(&d, true);
	return !d.bad;
}

/* Appends what __cxa_demangle makes of the name; false if it cannot read it. */
static bool put_plain(struct view name, struct buf *out)
{
	AUTOFREE char *z = xstrndup(name.ptr, name.len);
	int status = -1;
	AUTOFREE char *plain = __cxa_demangle(z, NULL, NULL, &status);

	if (status != 0 || !plain)
		return false;
	struct view v = view_of(plain);
	if (ends_in_hash(v, VIEW("::h")))
		put_rust_legacy(v, out);
	else
		buf_putv(out, v);
	return true;
}

static bool cxx_or_rust_legacy(struct view name, struct buf *out)
{
	name = rust_legacy_without_suffix(name);
	if (put_plain(name, out))
		return true;
	/* Some versions of LLVM wrote this suffix with capital letters, which __cxa_demangle refuses. */
	const char *suffix = memmem(name.ptr, name.len, ".llvm.", 6);
	if (!suffix || !put_plain(view_make(name.ptr, (size_t)(suffix - name.ptr)), out))
		return false;
	buf_printf(out, " [clone %.*s]", (int)(name.ptr + name.len - suffix), suffix);
	return true;
}

bool demangle(struct view name, struct buf *out)
{
	if (name.len < 3 || name.len > DEMANGLE_MAX || name.ptr[0] != '_')
		return false;
	const char *at = memchr(name.ptr, '@', name.len); /* @plt, or a symbol's version */
	struct view mangled = at ? view_make(name.ptr, (size_t)(at - name.ptr)) : name;
	struct buf tmp = { .max = 2 * DEMANGLE_MAX };
	bool ok = false;

	if (name.ptr[1] == 'R')
		ok = rust_v0(mangled, &tmp);
	else if (name.ptr[1] == 'Z')
		ok = cxx_or_rust_legacy(mangled, &tmp);
	ok = ok && tmp.len;
	if (at)
		buf_put(&tmp, at, name.len - mangled.len);
	ok = ok && !tmp.overflow;
	if (ok)
		buf_putv(out, buf_view(&tmp));
	buf_free(&tmp);
	return ok;
}
