/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles: a byte says how one follows from the one before.
 *
 *	1ddddddd   the last whole number + d - 64
 *	0tttnnnn   n = 0: the bits before; n = 1..8: these bits XOR n bytes, which are shifted left by t bytes. t + n is at most 8
 *	00001001   the last whole number + a zigzag varint
 *	00001010   in lists: the value before, as often as a varint says, and twice more                                                          */
#include "fleet/wire_values.h"

#include "base/alloc.h"
#include "base/map.h"

enum { DOUBLE_SMALL = 0x80, DOUBLE_WHOLE = 0x09, DOUBLE_RUN = 0x0a };
#define DOUBLE_WHOLE_MAX 9007199254740992. /* 2^53: above it not every whole number is a double */

/* ---- writing ---- */

void wire_flush(struct wire_out *o)
{
	buf_put(o->to, o->v, o->n);
	o->n = 0;
}

void wire_put_fixed(struct wire_out *o, uint64_t v)
{
	v = htole64(v);
	memcpy(o->v + o->n, &v, sizeof v);
	o->n += sizeof v;
}

void wire_put_text(struct wire_out *o, struct view v)
{
	wire_room(o);
	wire_put(o, v.len);
	if (v.len > sizeof o->v - o->n) {
		wire_flush(o);
		buf_putv(o->to, v);
		return;
	}
	if (v.len)
		memcpy(o->v + o->n, v.ptr, v.len);
	o->n += (unsigned)v.len;
	wire_room(o);
}

void wire_put_hash(struct wire_out *o, size_t from)
{
	wire_flush(o);
	if (o->to->overflow || o->to->len < from)
		return;
	wire_put_fixed(o, hash_stable(o->to->ptr + from, o->to->len - from));
	wire_flush(o);
}

/* ---- reading ---- */

int wire_open(struct wire_in *in, struct view body, const char magic[4], uint64_t *ret_version, struct err *e)
{
	uint64_t hash;
	*in = (struct wire_in){ .c = cursor_of(body), .begin = (const uint8_t *)body.ptr, .what = "head", .left = UINT64_MAX, .samples_left = UINT64_MAX };
	*ret_version = 0;
	struct view begin = cursor_bytes(&in->c, 4);
	if (in->c.bad || !view_eq(begin, view_make(magic, 4)))
		return err_set(e, ERR_CORRUPT, "it does not begin with %.4s", magic);
	*ret_version = cursor_varint(&in->c);
	if (in->c.bad || body.len < (size_t)(in->c.p - in->begin) + WIRE_HASH)
		return err_set(e, ERR_CORRUPT, "it is cut short: %zu bytes", body.len);
	in->c.end -= WIRE_HASH;
	memcpy(&hash, in->c.end, WIRE_HASH);
	if (le64toh(hash) != hash_stable(body.ptr, body.len - WIRE_HASH))
		return err_set(e, ERR_CORRUPT, "its hash is wrong: %zu bytes, cut short or changed on the way", body.len);
	return 0;
}

int wire_close(struct wire_in *in, const char *name, enum err_code code, struct err *e)
{
	if (in->stopped.code)
		return err_set(e, in->stopped.code, "%s", in->stopped.msg);
	if (in->full)
		return err_set(e, ERR_LIMIT, "the %s takes more memory than it may: %s at byte %zu", name, in->what, in->at);
	if (in->c.bad)
		return err_set(e, code, "malformed %s: %s at byte %zu: %s", name, in->what, in->at, in->why ? in->why : "too short");
	if (in->c.p != in->c.end)
		return err_set(e, code, "malformed %s: bytes are left over behind %s, at byte %zu", name, in->what, (size_t)(in->c.p - in->begin));
	return 0;
}

void wire_refuse(struct wire_in *in, const char *why)
{
	if (!in->c.bad)
		in->why = why;
	in->c.bad = true;
	in->c.p = in->c.end;
}

int64_t wire_get_ms(struct wire_in *in)
{
	int64_t v = wire_get_signed(in);
	return wire_require(in, wire_near(v), "a time out of range") ? v : 0;
}

uint64_t wire_get_fixed(struct wire_in *in)
{
	uint64_t v = 0;
	struct view bytes = cursor_bytes(&in->c, sizeof v);
	if (in->c.bad)
		return 0;
	memcpy(&v, bytes.ptr, sizeof v);
	return le64toh(v);
}

struct view wire_get_text(struct wire_in *in, size_t max)
{
	size_t n = cursor_count(&in->c);
	return wire_require(in, n <= max, "a text is too long") ? cursor_bytes(&in->c, n) : VIEW("");
}

size_t wire_get_count(struct wire_in *in, size_t least)
{
	uint64_t n = wire_get(in);
	return wire_require(in, n <= (uint64_t)(in->c.end - in->c.p) / least, "a number of elements that do not fit into it") ? (size_t)n : 0;
}

void *wire_alloc(struct wire_in *in, size_t n, size_t size)
{
	void *p = n && !in->c.bad ? arena_calloc(in->arena, n, size) : NULL;
	if (n && !in->c.bad && !p) {
		in->full = true;
		wire_refuse(in, "it is too large");
	}
	return p;
}

void *wire_heap(struct wire_in *in, size_t n, size_t size)
{
	uint64_t bytes;
	if (in->c.bad)
		return NULL;
	if (__builtin_mul_overflow((uint64_t)n, (uint64_t)size, &bytes) || bytes > in->left) {
		in->full = true;
		wire_refuse(in, "it is too large");
		return NULL;
	}
	in->left -= in->left == UINT64_MAX ? 0 : bytes;
	return xcalloc(n, size);
}

bool wire_samples(struct wire_in *in, size_t n)
{
	if (!wire_require(in, n <= in->samples_left, "more samples than the question allows"))
		return false;
	in->samples_left -= in->samples_left == UINT64_MAX ? 0 : n;
	return true;
}

#define WIRE_LOOK_EVERY 4096

void wire_go_on(struct wire_in *in, size_t i)
{
	if (LIKELY(i % WIRE_LOOK_EVERY || !in->lim || in->c.bad))
		return;
	if (source_limits_check(in->lim, &in->stopped))
		wire_refuse(in, "the question is over");
}

/* ---- doubles ---- */

static bool double_is_whole(uint64_t bits, int64_t *ret)
{
	double v = value_from_bits(bits);
	if (!(v > -DOUBLE_WHOLE_MAX && v < DOUBLE_WHOLE_MAX))
		return false;
	int64_t whole = (int64_t)v;
	if (value_bits((double)whole) != bits) /* a fraction, or -0 */
		return false;
	*ret = whole;
	return true;
}

static void double_next(struct wire_doubles *d, uint64_t bits)
{
	d->bits = bits;
	IGNORE(double_is_whole(bits, &d->whole)); /* the last one stays */
}

static unsigned varint_length(uint64_t v)
{
	return (unsigned)(70 - __builtin_clzll(v | 1)) / 7;
}

void wire_put_double(struct wire_out *o, struct wire_doubles *d, double v)
{
	uint64_t bits = value_bits(v), changed = bits ^ d->bits;
	int64_t whole;
	if (!changed) {
		wire_put_byte(o, 0);
		return;
	}
	unsigned shift = (unsigned)__builtin_ctzll(changed) / 8, n = 8 - (unsigned)__builtin_clzll(changed) / 8 - shift;
	bool is_whole = double_is_whole(bits, &whole);
	int64_t more = is_whole ? whole - d->whole : 0;
	if (is_whole && more >= -64 && more < 64) {
		wire_put_byte(o, (uint8_t)(DOUBLE_SMALL | (more + 64)));
	} else if (is_whole && varint_length(zigzag_encode(more)) <= n) {
		wire_put_byte(o, DOUBLE_WHOLE);
		wire_put_signed(o, more);
	} else {
		wire_put_byte(o, (uint8_t)(shift << 4 | n));
		uint64_t bytes = htole64(changed >> 8 * shift);
		memcpy(o->v + o->n, &bytes, sizeof bytes);
		o->n += n;
	}
	double_next(d, bits);
}

static uint64_t double_after(struct wire_in *in, const struct wire_doubles *d, uint8_t how)
{
	if (how & DOUBLE_SMALL)
		return value_bits((double)(int64_t)((uint64_t)d->whole + (uint64_t)(how & 0x7f) - 64));
	if (how == DOUBLE_WHOLE)
		return value_bits((double)wire_get_diff(in, d->whole));
	unsigned n = how & 15, shift = how >> 4;
	uint64_t changed = 0;
	if (!wire_require(in, n + shift <= 8 && (n || !shift), "a double that there is not"))
		return 0;
	struct view bytes = cursor_bytes(&in->c, n);
	if (in->c.bad)
		return 0;
	if (n)
		memcpy(&changed, bytes.ptr, n);
	return d->bits ^ (n ? le64toh(changed) << 8 * shift : 0);
}

double wire_get_double(struct wire_in *in, struct wire_doubles *d)
{
	uint8_t how = wire_get_byte(in);
	if (how)
		double_next(d, double_after(in, d, how));
	return value_from_bits(d->bits);
}

static const double *double_at(const double *v, size_t stride, size_t i)
{
	return (const double *)(const void *)((const char *)v + i * stride);
}

void wire_put_doubles(struct wire_out *o, struct wire_doubles *d, const double *v, size_t stride, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t run = 0;
		while (i + run < n && value_bits(*double_at(v, stride, i + run)) == d->bits)
			run++;
		wire_room(o);
		if (run >= 2) {
			wire_put_byte(o, DOUBLE_RUN);
			wire_put(o, run - 2);
			i += run;
		} else {
			wire_put_double(o, d, *double_at(v, stride, i++));
		}
	}
}

void wire_get_doubles(struct wire_in *in, struct wire_doubles *d, double *v, size_t stride, size_t n)
{
	size_t run = 0;
	for (size_t i = 0; i < n; i++) {
		if (!run && in->c.p < in->c.end && *in->c.p == DOUBLE_RUN) {
			in->c.p++;
			uint64_t more = wire_get(in);
			run = wire_require(in, more <= n && (size_t)more + 2 <= n - i, "a run that is longer than the list") ? (size_t)more + 2 : 0;
		}
		double x = run ? value_from_bits(d->bits) : wire_get_double(in, d);
		run -= run > 0;
		memcpy((char *)v + i * stride, &x, sizeof x);
	}
}

/* ---- integers ---- */

void wire_put_integers(struct wire_out *o, const int64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t zeros = 0;
		wire_room(o);
		wire_put_signed(o, v[i]);
		if (v[i])
			continue;
		while (i + zeros + 1 < n && !v[i + zeros + 1])
			zeros++;
		wire_put(o, zeros);
		i += zeros;
	}
}

void wire_get_integers(struct wire_in *in, int64_t *v, size_t n)
{
	for (size_t i = 0; i < n && !in->c.bad; i++) {
		v[i] = wire_get_signed(in);
		if (v[i] || in->c.bad)
			continue;
		uint64_t zeros = wire_get(in);
		if (!wire_require(in, zeros < n - i, "a run that is longer than the list"))
			return;
		memset(v + i, 0, ((size_t)zeros + 1) * sizeof *v);
		i += (size_t)zeros;
	}
}
