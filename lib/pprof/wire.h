/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's wire format for the decoder's files: numbers, fields, the fast path of small messages, and the shared state of a
 * decoding. Private to decode.c, wire.c, ids.c, tables.c and samples.c. */
#ifndef PYRRHA_PPROF_WIRE_H
#define PYRRHA_PPROF_WIRE_H

#include "base/varint.h"
#include "pprof/internal.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
#define TAG(number, wire) ((number) << 3 | (wire))
enum { HEADER_MAX = 5 }; /* bytes of a tag, and of a length: both are 32 bits */
enum { ROAD_MAX = 64 };  /* bytes that the straight road of a small message may look at: five fields of 11 at most */

/* The ids of one kind of message, in order of arrival. */
struct ids {
	const char *what;
	uint64_t *v;       /* NULL while they are 1, 2, 3 ... */
	uint32_t n, cap;
	uint32_t *direct;  /* id -> index + 1, where ids are dense enough */
	uint64_t largest;
	struct id_at *sorted; /* by id, where they are not: a hash could be flooded */
};

struct id_at {
	uint64_t id;
	uint32_t index;
};

struct decoder {
	const uint8_t *base, *end;
	struct profile *p;
	struct pprof_limits lim;
	struct err *e;
	struct ids mappings, functions, locations;
	size_t sample_bytes; /* of all sample messages: bounds stack, labels and values */
	const uint8_t *strings_at, *strings_end; /* the first row of strings */
	uint32_t cap_strings, cap_lines, cap_stack, cap_labels;
	bool wide;           /* a reference did not fit in 32 bits */
	bool resolve;        /* the third walk resolves references to indices */
};

struct field {
	uint32_t tag;
	uint64_t value;      /* WIRE_VARINT; the length if WIRE_BYTES */
	const uint8_t *p;    /* WIRE_BYTES: the content */
	const uint8_t *at;   /* where the field begins */
};

/* Sets the error, "pprof: byte N: ..." with the place of `at` in the message; returns the negative code. */
int pprof_fail(struct decoder *d, enum err_code code, const uint8_t *at, const char *fmt, ...) PRINTF_LIKE(4, 5);
#define fail pprof_fail
#define bad(d, ...) (fail(d, ERR_BAD_DATA, __VA_ARGS__), false)

int pprof_no_memory(struct decoder *d);

/* ---- numbers ---- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* A number of at most eight bytes at the low end of w; returns how many, 0 if it is longer. One and two bytes are handled without a
 * branch, because it would be unpredictable; for longer ones the seven-bit groups are moved together. */
static inline __attribute__((always_inline)) unsigned get_word(uint64_t w, uint64_t *ret)
{
	if (LIKELY((w & 0x8080) != 0x8080)) {
		uint64_t more = w >> 7 & 1;
		*ret = (w & 0x7f) | (w >> 1 & 0x3f80 & -more);
		return 1 + (unsigned)more;
	}
	uint64_t last = ~w & UINT64_C(0x8080808080808080);
	if (UNLIKELY(!last))
		return 0;
	w &= last ^ (last - 1);
	w = (w & UINT64_C(0x007f007f007f007f)) | (w & UINT64_C(0x7f007f007f007f00)) >> 1;
	w = (w & UINT64_C(0x00003fff00003fff)) | (w & UINT64_C(0x3fff00003fff0000)) >> 2;
	*ret = (w & UINT64_C(0x0fffffff)) | (w & UINT64_C(0x0fffffff00000000)) >> 4;
	return ((unsigned)__builtin_ctzll(last) >> 3) + 1;
}

static inline uint64_t load_word(const uint8_t *p)
{
	uint64_t w;
	memcpy(&w, p, sizeof w);
	return w;
}
#endif

/* As varint_get, a word at a time where the buffer (not only the message) has room. */
static inline __attribute__((always_inline)) bool get(const struct decoder *d, const uint8_t **p, const uint8_t *end,
						      uint64_t *ret)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (LIKELY(d->end - *p >= 8)) {
		unsigned n = get_word(load_word(*p), ret);
		if (LIKELY(n && n <= (size_t)(end - *p))) {
			*p += n;
			return true;
		}
	}
#endif
	return varint_get(p, end, ret);
}

/* ---- fields ---- */

/* The next field of a message that ends at `end`; moves *p behind it. False: it is not one (ERR_BAD_DATA). */
bool pprof_any_field(struct decoder *d, const uint8_t **p, const uint8_t *end, struct field *f);

/* The same; nearly all fields have a tag of one byte, and a number or a length of one. */
static inline __attribute__((always_inline)) bool next_field(struct decoder *d, const uint8_t **p, const uint8_t *end,
							     struct field *f)
{
	const uint8_t *at = *p, *q = at + 2;
	if (LIKELY(end - at >= 2 && at[1] < 0x80 && at[0] - 8u < 0x78)) {
		unsigned tag = at[0], value = at[1];
		if ((tag & 7) == WIRE_BYTES && LIKELY(value <= (size_t)(end - q))) {
			*f = (struct field){ .tag = tag, .value = value, .p = q, .at = at };
			*p = q + value;
			return true;
		}
		if ((tag & 7) == WIRE_VARINT) {
			*f = (struct field){ .tag = tag, .value = value, .p = q, .at = at };
			*p = q;
			return true;
		}
	}
	struct field any; /* not *f: its address must not leave, or it could not stay in registers */
	bool ok = pprof_any_field(d, p, end, &any);
	*f = any;
	return ok;
}

/* A field that the caller does not know: valid if its number is above the known ones, else its wire type is wrong. */
static inline __attribute__((always_inline)) int unknown_field(struct decoder *d, const struct field *f, uint32_t known,
							       const char *what)
{
	if (f->tag >> 3 > known)
		return 0;
	return fail(d, ERR_BAD_DATA, f->at, "field %u of a %s has wire type %u", f->tag >> 3, what, f->tag & 7);
}

static inline __attribute__((always_inline)) int take_string(struct decoder *d, const struct field *f, uint32_t *ret)
{
	if (UNLIKELY(f->value >= d->p->n_strings))
		return fail(d, ERR_BAD_DATA, f->at, "string %lld is not in the table of %u", (long long)f->value,
			    d->p->n_strings);
	*ret = (uint32_t)f->value;
	return 0;
}

/* Calls `body` with f for each field; `rc` leaves the loop when it is not 0. */
#define FOR_FIELDS(d, from, len, f) \
	for (const uint8_t *at_ = (from), *end_ = at_ + (len); \
	     !rc && at_ < end_ && (next_field(d, &at_, end_, f) || (rc = -ERR_BAD_DATA, false));)

/* The body of a function that decodes message m and directly following messages of its kind. Writers put all of one kind in a row, and
 * a loop over one kind is faster than a choice at each. */
#define RUN(d, m, end, rc, one) do { \
	const uint8_t *at_ = (m).p + (m).value; \
	uint32_t tag_ = (m).tag; \
	while (!(*(rc) = one((d), &(m)))) { \
		if (at_ >= (end) || *at_ != tag_) \
			return at_; \
		if (!next_field((d), &at_, (end), &(m))) { \
			*(rc) = -ERR_BAD_DATA; \
			break; \
		} \
	} \
	return NULL; \
} while (0)

/* Writers put the fields of a message in order, and leave out those that are 0. A decoder of small messages first takes that fast
 * path, whose branches are easy to predict. Fields out of order, or malformed ones, are left to the loop over fields. The fast path is
 * available if the buffer has ROAD_MAX bytes behind the message, so that no step needs to check the message's end. A decoder that
 * ended beyond it starts again with the loop alone. */
static inline bool road_open(const struct decoder *d, const uint8_t *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return d->end - end >= ROAD_MAX && !d->resolve;
#else
	(void)d, (void)end;
	return false;
#endif
}

/* True: *p was at this field (one byte of tag, a number), which is now behind. */
static inline __attribute__((always_inline)) bool expect(const uint8_t **p, uint8_t tag, uint64_t *ret)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (**p != tag)
		return false;
	unsigned n = get_word(load_word(*p + 1), ret);
	if (UNLIKELY(!n))
		return false;
	*p += 1 + n;
	return true;
#else
	(void)p, (void)tag, (void)ret;
	return false;
#endif
}

/* The same for the index of a string. */
static inline __attribute__((always_inline)) void expect_string(const struct decoder *d, const uint8_t **p, uint8_t tag,
								uint32_t *ret)
{
	const uint8_t *before = *p;
	uint64_t v;
	if (!expect(p, tag, &v))
		return;
	if (LIKELY(v < d->p->n_strings))
		*ret = (uint32_t)v;
	else
		*p = before;
}

/* ---- growing tables ---- */

int pprof_grow(struct decoder *d, void **table, uint32_t n, uint32_t *cap, uint64_t want, size_t item);

/* Room for `more` entries behind n. */
#define ENSURE(d, table, n, cap, more) \
	(LIKELY((uint64_t)(n) + (more) <= *(cap)) ? 0 : \
	 ({ void *t_ = (table); int rc_ = pprof_grow(d, &t_, n, cap, (uint64_t)(n) + (more), sizeof *(table)); (table) = t_; rc_; }))

/* ---- ids ---- */

int pprof_add_odd_id(struct decoder *d, struct ids *t, uint64_t id, const uint8_t *at);

static inline int add_id(struct decoder *d, struct ids *t, uint64_t id, const uint8_t *at)
{
	if (UNLIKELY(t->v || id != (uint64_t)t->n + 1))
		return pprof_add_odd_id(d, t, id, at);
	t->n++;
	return 0;
}

/* The index of an id plus one; 0: there is none. */
uint32_t pprof_find_id(const struct ids *t, uint64_t id);
/* All ids are there: makes them findable, refuses duplicates. */
int pprof_index_ids(struct decoder *d, struct ids *t);

/* A reference as it is stored until the end: the id, or, in the third walk, index + 1. */
static inline __attribute__((always_inline)) int take_reference(struct decoder *d, const struct ids *t, const struct field *f, uint32_t *ret)
{
	if (UNLIKELY(d->resolve)) {
		*ret = pprof_find_id(t, f->value);
		if (f->value && !*ret)
			return fail(d, ERR_BAD_DATA, f->at, "there is no %s with the id %llu", t->what,
				    (unsigned long long)f->value);
		return 0;
	}
	if (UNLIKELY(f->value > UINT32_MAX))
		d->wide = true;
	*ret = (uint32_t)f->value;
	return 0;
}

/* ---- what decode.c calls ---- */

int pprof_value_type(struct decoder *d, const struct field *m, struct profile_value_type *t);
int pprof_mapping(struct decoder *d, const struct field *m);
/* Runs: each decodes the message m and directly following ones of its kind, before end. Returns the position behind the last one, or
 * NULL on an error, which is in d->e and *rc. */
const uint8_t *pprof_functions(struct decoder *d, struct field m, const uint8_t *end, int *rc);
const uint8_t *pprof_locations(struct decoder *d, struct field m, const uint8_t *end, int *rc);
const uint8_t *pprof_samples(struct decoder *d, struct field m, const uint8_t *end, int *rc);

#endif
