/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of ingest: the message's bytes straight into the flat model, in two walks. The first looks at top-level
 * fields only and counts, so that tables are allocated once; the second decodes each message where it stands, in any
 * order. Strings are known by number after the first walk, so their indices are checked at once; references between
 * messages are kept as the ids they are and become indices at the end.
 *
 * Ids are sparse in principle and 1, 2, 3 ... in practice: a table of ids is made only when that is broken. A reference
 * too wide for the model's 32 bits costs a third walk over locations and samples with the id tables at hand.
 *
 * Pure and bounded: every length is checked against the bytes that are left, every table against its limit. */
#include <stdlib.h>

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
	uint32_t cap_lines, cap_stack, cap_labels;
	bool wide;           /* a reference did not fit in 32 bits */
	bool resolve;        /* references become indices as they are met: the third walk */
};

struct field {
	uint32_t tag;
	uint64_t value;      /* WIRE_VARINT; the length if WIRE_BYTES */
	const uint8_t *p;    /* WIRE_BYTES: the content */
	const uint8_t *at;   /* where the field begins */
};

static int fail(struct decoder *d, enum err_code code, const uint8_t *at, const char *fmt, ...) PRINTF_LIKE(4, 5);
static int fail(struct decoder *d, enum err_code code, const uint8_t *at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	struct err inner;
	err_vset(&inner, code, fmt, ap);
	va_end(ap);
	return err_set(d->e, code, "pprof: byte %zu: %s", (size_t)(at - d->base), inner.msg);
}

#define bad(d, ...) (fail(d, ERR_BAD_DATA, __VA_ARGS__), false)

static int no_memory(struct decoder *d)
{
	return err_set(d->e, ERR_LIMIT, "pprof: the profile needs more than its %zu bytes of memory", d->p->arena.max);
}

/* ---- numbers ---- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* A number of at most eight bytes at the low end of w; returns how many, 0 if it is longer. One or two bytes are told
 * apart without a branch, since which it is cannot be predicted; of more, the seven-bit groups are moved together. */
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
static __attribute__((noinline)) bool any_field(struct decoder *d, const uint8_t **p, const uint8_t *end, struct field *f)
{
	uint64_t tag;
	f->at = *p;
	if (UNLIKELY(!get(d, p, end, &tag) || tag >> 32 || tag < 8 || *p - f->at > HEADER_MAX))
		return bad(d, f->at, "not a field: a tag is cut short or out of range");
	f->tag = (uint32_t)tag;
	switch (tag & 7) {
	case WIRE_VARINT:
		if (UNLIKELY(!get(d, p, end, &f->value)))
			return bad(d, f->at, "the number in field %u is cut short or too long", f->tag >> 3);
		return true;
	case WIRE_BYTES:
		f->p = *p;
		if (UNLIKELY(!get(d, p, end, &f->value) || f->value > (size_t)(end - *p) || *p - f->p > HEADER_MAX))
			return bad(d, f->at, "field %u is longer than the message it is in", f->tag >> 3);
		f->p = *p;
		*p += f->value;
		return true;
	case WIRE_64:
	case WIRE_32: {
		size_t n = (tag & 7) == WIRE_64 ? 8 : 4;
		if ((size_t)(end - *p) < n)
			return bad(d, f->at, "field %u is cut short", f->tag >> 3);
		*p += n;
		return true;
	}
	default:
		return bad(d, f->at, "field %u has wire type %u, which pprof does not have", f->tag >> 3,
			    f->tag & 7);
	}
}

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
	bool ok = any_field(d, p, end, &any);
	*f = any;
	return ok;
}

/* A field the caller does not know: fine if its number is above those it knows, else its wire type is wrong. */
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

/* Writers put the fields of a message in order and only those that are not 0. A decoder of small messages first goes
 * down that road, whose branches are easy to predict; what it meets out of order, or that is wrong, is left to the loop
 * over fields. The road is open where the buffer has ROAD_MAX bytes behind the message, so that nothing on it needs to
 * ask for the message's end: who came out beyond it goes back and takes the loop alone. */
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

static int grow(struct decoder *d, void **table, uint32_t n, uint32_t *cap, uint64_t want, size_t item)
{
	uint64_t bigger = MAX(want, (uint64_t)*cap * 2);
	if (bigger > UINT32_MAX)
		return err_set(d->e, ERR_LIMIT, "pprof: a table of more than 2^32 entries");
	void *fresh = arena_alloc(&d->p->arena, (size_t)bigger * item);
	if (!fresh)
		return no_memory(d);
	if (n)
		memcpy(fresh, *table, n * item);
	*table = fresh;
	*cap = (uint32_t)bigger;
	return 0;
}

/* Room for `more` entries behind n. */
#define ENSURE(d, table, n, cap, more) \
	(LIKELY((uint64_t)(n) + (more) <= *(cap)) ? 0 : \
	 ({ void *t_ = (table); int rc_ = grow(d, &t_, n, cap, (uint64_t)(n) + (more), sizeof *(table)); (table) = t_; rc_; }))

/* ---- ids ---- */

static int add_odd_id(struct decoder *d, struct ids *t, uint64_t id, const uint8_t *at)
{
	if (UNLIKELY(!id))
		return fail(d, ERR_BAD_DATA, at, "a %s has no id, or id 0", t->what);
	if (!t->v) {
		t->v = arena_alloc(&d->p->arena, (size_t)t->cap * sizeof *t->v);
		if (!t->v)
			return no_memory(d);
		for (uint32_t i = 0; i < t->n; i++)
			t->v[i] = (uint64_t)i + 1;
		t->largest = t->n;
	}
	t->largest = MAX(t->largest, id);
	t->v[t->n++] = id;
	return 0;
}

static inline int add_id(struct decoder *d, struct ids *t, uint64_t id, const uint8_t *at)
{
	if (UNLIKELY(t->v || id != (uint64_t)t->n + 1))
		return add_odd_id(d, t, id, at);
	t->n++;
	return 0;
}

/* The index of an id plus one; 0: there is none. */
static uint32_t find_id(const struct ids *t, uint64_t id)
{
	if (!t->v)
		return id <= t->n ? (uint32_t)id : 0;
	if (t->direct)
		return id <= t->largest ? t->direct[id] : 0;
	for (uint32_t low = 0, high = t->sorted ? t->n : 0; low < high;) {
		uint32_t mid = low + (high - low) / 2;
		if (t->sorted[mid].id == id)
			return t->sorted[mid].index + 1;
		if (t->sorted[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return 0;
}

static int duplicate_id(struct decoder *d, const struct ids *t, uint64_t id)
{
	return err_set(d->e, ERR_BAD_DATA, "pprof: two %ss have the id %llu (are these several profiles, one after the other?)",
		       t->what, (unsigned long long)id);
}

static int by_id(const void *a, const void *b)
{
	const struct id_at *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

static int sort_ids(struct decoder *d, struct ids *t)
{
	t->sorted = arena_alloc(&d->p->arena, t->n * sizeof *t->sorted);
	if (!t->sorted)
		return no_memory(d);
	for (uint32_t i = 0; i < t->n; i++)
		t->sorted[i] = (struct id_at){ t->v[i], i };
	qsort(t->sorted, t->n, sizeof *t->sorted, by_id);
	for (uint32_t i = 1; i < t->n; i++)
		if (t->sorted[i - 1].id == t->sorted[i].id)
			return duplicate_id(d, t, t->sorted[i].id);
	return 0;
}

/* All ids are there: make them findable, refuse duplicates. */
static int index_ids(struct decoder *d, struct ids *t)
{
	if (!t->v)
		return 0;
	if (t->largest >= (uint64_t)t->n * 8 + 1024)
		return sort_ids(d, t);
	t->direct = arena_calloc(&d->p->arena, (size_t)t->largest + 1, sizeof *t->direct);
	if (!t->direct)
		return no_memory(d);
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->direct[t->v[i]])
			return duplicate_id(d, t, t->v[i]);
		t->direct[t->v[i]] = i + 1;
	}
	return 0;
}

/* A reference as it is stored until the end: the id, or, in the third walk, index + 1. */
static inline __attribute__((always_inline)) int take_reference(struct decoder *d, const struct ids *t, const struct field *f, uint32_t *ret)
{
	if (UNLIKELY(d->resolve)) {
		*ret = find_id(t, f->value);
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

/* ---- messages ---- */

static int value_type(struct decoder *d, const struct field *m, struct profile_value_type *t)
{
	struct field f = { 0 };
	int rc = 0;
	FOR_FIELDS(d, m->p, m->value, &f) {
		switch (f.tag) {
		case TAG(1, WIRE_VARINT): rc = take_string(d, &f, &t->type_str); break;
		case TAG(2, WIRE_VARINT): rc = take_string(d, &f, &t->unit_str); break;
		default: rc = unknown_field(d, &f, 2, "value type");
		}
	}
	return rc;
}

static int sample_type(struct decoder *d, const struct field *m)
{
	struct profile_value_type t = { 0 };
	int rc = value_type(d, m, &t);
	d->p->sample_types[d->p->n_sample_types++] = t;
	return rc;
}

static int mapping(struct decoder *d, const struct field *m)
{
	struct profile_mapping x = { 0 };
	struct field f = { 0 };
	uint64_t id = 0;
	int rc = 0;
	FOR_FIELDS(d, m->p, m->value, &f) {
		switch (f.tag) {
		case TAG(1, WIRE_VARINT): id = f.value; break;
		case TAG(2, WIRE_VARINT): x.start = f.value; break;
		case TAG(3, WIRE_VARINT): x.limit = f.value; break;
		case TAG(4, WIRE_VARINT): x.offset = f.value; break;
		case TAG(5, WIRE_VARINT): rc = take_string(d, &f, &x.file_str); break;
		case TAG(6, WIRE_VARINT): rc = take_string(d, &f, &x.build_id_str); break;
		case TAG(7, WIRE_VARINT): x.has_functions = f.value; break;
		case TAG(8, WIRE_VARINT): x.has_filenames = f.value; break;
		case TAG(9, WIRE_VARINT): x.has_line_numbers = f.value; break;
		case TAG(10, WIRE_VARINT): x.has_inline_frames = f.value; break;
		default: rc = unknown_field(d, &f, 10, "mapping");
		}
	}
	d->p->mappings[d->p->n_mappings++] = x;
	return rc ? rc : add_id(d, &d->mappings, id, m->at);
}

static inline __attribute__((always_inline)) int function(struct decoder *d, const struct field *m)
{
	struct profile_function x = { 0 };
	struct field f = { 0 };
	const uint8_t *q = m->p, *end = q + m->value;
	uint64_t id = 0, start_line;
	int rc = 0;
	if (LIKELY(road_open(d, end))) {
		expect(&q, TAG(1, WIRE_VARINT), &id);
		expect_string(d, &q, TAG(2, WIRE_VARINT), &x.name_str);
		expect_string(d, &q, TAG(3, WIRE_VARINT), &x.system_name_str);
		expect_string(d, &q, TAG(4, WIRE_VARINT), &x.filename_str);
		if (expect(&q, TAG(5, WIRE_VARINT), &start_line))
			x.start_line = (int64_t)start_line;
		if (UNLIKELY(q > end)) {
			x = (struct profile_function){ 0 };
			q = m->p;
			id = 0;
		}
	}
	FOR_FIELDS(d, q, (size_t)(end - q), &f) {
		switch (f.tag) {
		case TAG(1, WIRE_VARINT): id = f.value; break;
		case TAG(2, WIRE_VARINT): rc = take_string(d, &f, &x.name_str); break;
		case TAG(3, WIRE_VARINT): rc = take_string(d, &f, &x.system_name_str); break;
		case TAG(4, WIRE_VARINT): rc = take_string(d, &f, &x.filename_str); break;
		case TAG(5, WIRE_VARINT): x.start_line = (int64_t)f.value; break;
		default: rc = unknown_field(d, &f, 5, "function");
		}
	}
	d->p->functions[d->p->n_functions++] = x;
	return rc ? rc : add_id(d, &d->functions, id, m->at);
}

static inline __attribute__((always_inline)) int line(struct decoder *d, const struct field *m)
{
	struct profile *p = d->p;
	if (UNLIKELY(p->n_lines / 8 >= d->lim.max_locations))
		return fail(d, ERR_LIMIT, m->at, "more than %llu lines", 8ull * d->lim.max_locations);
	int rc = ENSURE(d, p->lines, p->n_lines, &d->cap_lines, 1);
	if (rc)
		return rc;
	struct profile_line *x = &p->lines[p->n_lines++];
	*x = (struct profile_line){ 0 };
	struct field f = { .at = m->p };
	const uint8_t *q = m->p, *end = q + m->value;
	uint64_t number;
	if (LIKELY(road_open(d, end))) {
		if (expect(&q, TAG(1, WIRE_VARINT), &f.value))
			rc = take_reference(d, &d->functions, &f, &x->function);
		if (expect(&q, TAG(2, WIRE_VARINT), &number))
			x->line = (int64_t)number;
		if (UNLIKELY(q > end)) {
			*x = (struct profile_line){ 0 };
			q = m->p;
		}
	}
	FOR_FIELDS(d, q, (size_t)(end - q), &f) {
		switch (f.tag) {
		case TAG(1, WIRE_VARINT): rc = take_reference(d, &d->functions, &f, &x->function); break;
		case TAG(2, WIRE_VARINT): x->line = (int64_t)f.value; break;
		case TAG(3, WIRE_VARINT): x->column = (int64_t)f.value; break;
		default: rc = unknown_field(d, &f, 3, "line");
		}
	}
	return rc;
}

static inline __attribute__((always_inline)) int location(struct decoder *d, const struct field *m)
{
	struct profile_location x = { .first_line = d->p->n_lines };
	struct field f = { .at = m->p };
	const uint8_t *q = m->p, *end = q + m->value;
	uint64_t id = 0;
	int rc = 0;
	if (LIKELY(road_open(d, end))) {
		expect(&q, TAG(1, WIRE_VARINT), &id);
		if (expect(&q, TAG(2, WIRE_VARINT), &f.value))
			rc = take_reference(d, &d->mappings, &f, &x.mapping);
		expect(&q, TAG(3, WIRE_VARINT), &x.address);
		if (UNLIKELY(q > end)) {
			x.mapping = 0;
			x.address = id = 0;
			q = m->p;
		}
	}
	FOR_FIELDS(d, q, (size_t)(end - q), &f) {
		switch (f.tag) {
		case TAG(1, WIRE_VARINT): id = f.value; break;
		case TAG(2, WIRE_VARINT): rc = take_reference(d, &d->mappings, &f, &x.mapping); break;
		case TAG(3, WIRE_VARINT): x.address = f.value; break;
		case TAG(4, WIRE_BYTES): rc = line(d, &f); break;
		case TAG(5, WIRE_VARINT): x.is_folded = f.value; break;
		default: rc = unknown_field(d, &f, 5, "location");
		}
	}
	x.n_lines = d->p->n_lines - x.first_line;
	d->p->locations[d->p->n_locations++] = x;
	return rc || d->resolve ? rc : add_id(d, &d->locations, id, m->at);
}

static inline __attribute__((always_inline)) int label(struct decoder *d, const struct field *m)
{
	struct profile *p = d->p;
	int rc = ENSURE(d, p->labels, p->n_labels, &d->cap_labels, 1);
	if (rc)
		return rc;
	struct profile_label *x = &p->labels[p->n_labels++];
	*x = (struct profile_label){ 0 };
	struct field f = { 0 };
	const uint8_t *q = m->p, *end = q + m->value;
	uint64_t num;
	if (LIKELY(road_open(d, end))) {
		expect_string(d, &q, TAG(1, WIRE_VARINT), &x->key_str);
		expect_string(d, &q, TAG(2, WIRE_VARINT), &x->str);
		if (expect(&q, TAG(3, WIRE_VARINT), &num))
			x->num = (int64_t)num;
		if (UNLIKELY(q > end)) {
			*x = (struct profile_label){ 0 };
			q = m->p;
		}
	}
	FOR_FIELDS(d, q, (size_t)(end - q), &f) {
		switch (f.tag) {
		case TAG(1, WIRE_VARINT): rc = take_string(d, &f, &x->key_str); break;
		case TAG(2, WIRE_VARINT): rc = take_string(d, &f, &x->str); break;
		case TAG(3, WIRE_VARINT): x->num = (int64_t)f.value; break;
		case TAG(4, WIRE_VARINT): rc = take_string(d, &f, &x->unit_str); break;
		default: rc = unknown_field(d, &f, 4, "label");
		}
	}
	x->is_num = !x->str;
	if (!x->is_num) { /* both: the string counts */
		x->num = 0;
		x->unit_str = 0;
	}
	return rc;
}

/* What numbers of one or two bytes the next eight bytes hold, by their continuation bits: where each begins, how many
 * are whole, how many bytes those take. */
struct group {
	uint8_t start[8];
	uint8_t n, bytes;
};

typedef uint16_t eight16 __attribute__((vector_size(16)));
typedef uint32_t eight32 __attribute__((vector_size(32)));

static struct group groups[256];

static void __attribute__((constructor)) make_groups(void)
{
	for (unsigned mask = 0; mask < 256; mask++) {
		struct group *g = &groups[mask];
		while (g->bytes < 8) {
			bool two = mask >> g->bytes & 1;
			if (two && (g->bytes == 7 || mask >> (g->bytes + 1) & 1))
				break; /* not whole, or longer */
			g->start[g->n++] = g->bytes;
			g->bytes += two ? 2 : 1;
		}
	}
}

/* Reads numbers of one or two bytes while there are such, eight bytes at a time and without branches on what they are;
 * out has room for eight more than the bytes hold. Returns behind the last one read. */
static inline const uint8_t *small_ids(const struct decoder *d, const uint8_t *q, const uint8_t *end, uint32_t **ret)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	uint32_t *out = *ret;
	while (q < end && d->end - q >= 9) {
		uint64_t w;
		memcpy(&w, q, sizeof w);
		unsigned left = (unsigned)MIN((size_t)(end - q), (size_t)8);
		unsigned mask = (unsigned)(((w & UINT64_C(0x8080808080808080)) * UINT64_C(0x0002040810204081)) >> 56);
		/* what follows the message counts as not whole */
		const struct group *g = &groups[(mask | 0xffu << left) & 0xff];
		if (UNLIKELY(!g->n))
			break;
#define AT(k) ({ uint16_t x_; memcpy(&x_, q + g->start[k], sizeof x_); x_; })
		eight16 x = { AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7) };
#undef AT
		eight16 more = -(x >> 7 & 1);
		eight32 wide = __builtin_convertvector((x & 0x7f) | (x >> 1 & 0x3f80 & more), eight32);
		memcpy(out, &wide, sizeof wide);
		out += g->n;
		q += g->bytes;
	}
	*ret = out;
#endif
	return q;
}

/* Location ids in a row; the stack has room for as many as there are bytes, and eight more. */
static inline __attribute__((always_inline)) int packed_locations(struct decoder *d, const struct field *m)
{
	const uint8_t *q = m->p, *end = q + m->value;
	uint32_t *out = d->p->stack + d->p->n_stack;
	struct field f = { .at = m->at };
	while (q < end) {
		if (LIKELY(!d->resolve))
			q = small_ids(d, q, end, &out);
		if (q == end)
			break;
		if (!get(d, &q, end, &f.value))
			return fail(d, ERR_BAD_DATA, q, "a location id is cut short or too long");
		int rc = take_reference(d, &d->locations, &f, out++);
		if (rc)
			return rc;
	}
	d->p->n_stack = (uint32_t)(out - d->p->stack);
	return 0;
}

/* values has room for all types of all samples. */
static inline __attribute__((always_inline)) int take_value(struct decoder *d, const uint8_t *at, uint64_t value, uint32_t *n)
{
	const struct profile *p = d->p;
	if (UNLIKELY(*n >= p->n_sample_types))
		return fail(d, ERR_BAD_DATA, at, "sample %u has more values than there are sample types (%u)", p->n_samples,
			    p->n_sample_types);
	p->values[(size_t)p->n_samples * p->n_sample_types + (*n)++] = (int64_t)value;
	return 0;
}

static inline __attribute__((always_inline)) int packed_values(struct decoder *d, const struct field *m, uint32_t *n)
{
	const uint8_t *q = m->p, *end = q + m->value;
	int rc = 0;
	while (q < end && !rc) {
		const uint8_t *at = q;
		uint64_t v;
		if (!get(d, &q, end, &v))
			return fail(d, ERR_BAD_DATA, at, "a value is cut short or too long");
		rc = take_value(d, at, v, n);
	}
	return rc;
}

/* What a whole sample must be. */
static inline __attribute__((always_inline)) int check_sample(struct decoder *d, const struct field *m, const struct profile_sample *s, uint32_t n_values)
{
	const struct profile *p = d->p;
	if (n_values != p->n_sample_types)
		return fail(d, ERR_BAD_DATA, m->at, "sample %u has %u values, there are %u sample types", p->n_samples, n_values,
			    p->n_sample_types);
	if (s->n_locations > d->lim.max_depth)
		return fail(d, ERR_LIMIT, m->at, "sample %u is %u locations deep, the limit is %u", p->n_samples,
			    s->n_locations, d->lim.max_depth);
	if (s->n_labels > d->lim.max_labels)
		return fail(d, ERR_LIMIT, m->at, "sample %u has %u labels, the limit is %u", p->n_samples, s->n_labels,
			    d->lim.max_labels);
	return 0;
}

static inline __attribute__((always_inline)) int sample(struct decoder *d, const struct field *m)
{
	struct profile *p = d->p;
	struct profile_sample x = { .first_location = p->n_stack, .first_label = p->n_labels };
	struct field f = { 0 };
	uint32_t n_values = 0;
	int rc = ENSURE(d, p->stack, p->n_stack, &d->cap_stack, m->value + 8);
	FOR_FIELDS(d, m->p, m->value, &f) {
		switch (f.tag) {
		case TAG(1, WIRE_BYTES): rc = packed_locations(d, &f); break;
		case TAG(1, WIRE_VARINT): rc = take_reference(d, &d->locations, &f, &p->stack[p->n_stack++]); break;
		case TAG(2, WIRE_BYTES): rc = packed_values(d, &f, &n_values); break;
		case TAG(2, WIRE_VARINT): rc = take_value(d, f.at, f.value, &n_values); break;
		case TAG(3, WIRE_BYTES): rc = label(d, &f); break;
		default: rc = unknown_field(d, &f, 3, "sample");
		}
	}
	x.n_locations = p->n_stack - x.first_location;
	x.n_labels = p->n_labels - x.first_label;
	if (!rc)
		rc = check_sample(d, m, &x, n_values);
	p->samples[p->n_samples++] = x;
	return rc;
}

static int comments(struct decoder *d, const struct field *m)
{
	struct field f = { .at = m->at };
	const uint8_t *q = m->p, *end = q + m->value;
	int rc = 0;
	while (q < end && !rc) {
		if (!varint_get(&q, end, &f.value))
			return fail(d, ERR_BAD_DATA, m->at, "a comment is cut short");
		rc = take_string(d, &f, &d->p->comments[d->p->n_comments++]);
	}
	return rc;
}

static int time_nanos(struct decoder *d, const struct field *f)
{
	if (d->p->time_ns)
		return fail(d, ERR_BAD_DATA, f->at, "the time is given a second time: these are several profiles, one after the "
			    "other; send them one by one");
	d->p->time_ns = (int64_t)f->value;
	return 0;
}

/* ---- walks ---- */

/* What the first walk found. */
struct counts {
	uint32_t types, samples, mappings, locations, functions, strings;
	uint64_t comment_bytes;
	const uint8_t *types_end; /* behind the last sample type */
};

static int count(struct decoder *d, struct counts *c)
{
	struct { uint64_t n, bytes; } of[TAG(16, 0)] = { { 0 } }; /* the second walk has an opinion on the rest */
	struct field f = { 0 };
	int rc = 0;
	c->types_end = d->base;
	FOR_FIELDS(d, d->base, (size_t)(d->end - d->base), &f) {
		if (UNLIKELY(f.tag >= ARRAY_LEN(of)))
			continue;
		of[f.tag].n++;
		of[f.tag].bytes += f.value;
		if (UNLIKELY(f.tag == TAG(1, WIRE_BYTES)))
			c->types_end = f.p + f.value;
	}
	uint32_t *to[] = { NULL, &c->types, &c->samples, &c->mappings, &c->locations, &c->functions, &c->strings };
	for (uint32_t i = 1; i < ARRAY_LEN(to); i++)
		*to[i] = (uint32_t)MIN(of[TAG(i, WIRE_BYTES)].n, (uint64_t)UINT32_MAX);
	c->comment_bytes = of[TAG(13, WIRE_VARINT)].n + of[TAG(13, WIRE_BYTES)].bytes;
	d->sample_bytes = of[TAG(2, WIRE_BYTES)].bytes;
	return rc;
}

static int check_counts(struct decoder *d, const struct counts *c)
{
	const struct { const char *what; uint64_t n, max; } rows[] = {
		{ "samples", c->samples, d->lim.max_samples },
		{ "sample types", c->types, d->lim.max_sample_types },
		{ "strings", c->strings, d->lim.max_strings },
		{ "comments", c->comment_bytes, d->lim.max_strings },
		{ "locations", c->locations, d->lim.max_locations },
		{ "functions", c->functions, d->lim.max_locations },
		{ "mappings", c->mappings, d->lim.max_locations },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].n > rows[i].max)
			return err_set(d->e, ERR_LIMIT, "pprof: %llu %s, the limit is %llu", (unsigned long long)rows[i].n,
				       rows[i].what, (unsigned long long)rows[i].max);
	if (c->samples && !c->types)
		return err_set(d->e, ERR_BAD_DATA, "pprof: %u samples, but no sample types", c->samples);
	if (!c->strings)
		return err_set(d->e, ERR_BAD_DATA, "pprof: no string table");
	return 0;
}

static int allocate(struct decoder *d, const struct counts *c)
{
	struct profile *p = d->p;
	/* a value takes a byte at least, so the samples' bytes bound them whatever the counts say */
	size_t values = MIN((size_t)c->samples * c->types, d->sample_bytes);
	d->cap_lines = c->locations + c->locations / 2;
	d->cap_stack = (uint32_t)MIN(d->sample_bytes + 8, (size_t)1 << 20);
	struct { void *to; size_t n, size; } rows[] = {
		{ &p->strings, c->strings, sizeof *p->strings },
		{ &p->sample_types, c->types, sizeof *p->sample_types },
		{ &p->mappings, c->mappings, sizeof *p->mappings },
		{ &p->functions, c->functions, sizeof *p->functions },
		{ &p->locations, c->locations, sizeof *p->locations },
		{ &p->lines, d->cap_lines, sizeof *p->lines },
		{ &p->samples, c->samples, sizeof *p->samples },
		{ &p->stack, d->cap_stack, sizeof *p->stack },
		{ &p->values, values, sizeof *p->values },
		{ &p->comments, (size_t)c->comment_bytes, sizeof *p->comments },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		void *mem = arena_alloc(&p->arena, rows[i].n * rows[i].size);
		if (!mem)
			return no_memory(d);
		memcpy(rows[i].to, &mem, sizeof mem);
	}
	d->mappings = (struct ids){ .what = "mapping", .cap = c->mappings };
	d->functions = (struct ids){ .what = "function", .cap = c->functions };
	d->locations = (struct ids){ .what = "location", .cap = c->locations };
	p->n_strings = c->strings;
	p->n_sample_types = 0;
	return 0;
}

/* The sample types come first, wherever they stand: samples need their number. */
static int decode_types(struct decoder *d, const struct counts *c)
{
	struct field f = { 0 };
	int rc = 0;
	FOR_FIELDS(d, d->base, (size_t)(c->types_end - d->base), &f)
		if (f.tag == TAG(1, WIRE_BYTES))
			rc = sample_type(d, &f);
	const struct profile *p = d->p;
	for (uint32_t i = 0; i < p->n_sample_types && !rc; i++)
		for (uint32_t k = 0; k < i && !rc; k++)
			if (p->sample_types[i].type_str == p->sample_types[k].type_str &&
			    p->sample_types[i].unit_str == p->sample_types[k].unit_str)
				rc = err_set(d->e, ERR_BAD_DATA, "pprof: sample types %u and %u are the same: these are several "
					     "profiles, one after the other; send them one by one", k, i);
	return rc;
}

static int decode_all(struct decoder *d)
{
	struct profile *p = d->p;
	struct field f = { 0 };
	uint32_t string = 0;
	int rc = 0;
	FOR_FIELDS(d, d->base, (size_t)(d->end - d->base), &f) {
		switch (f.tag) {
		case TAG(1, WIRE_BYTES): break;
		case TAG(2, WIRE_BYTES): rc = sample(d, &f); break;
		case TAG(3, WIRE_BYTES): rc = mapping(d, &f); break;
		case TAG(4, WIRE_BYTES): rc = location(d, &f); break;
		case TAG(5, WIRE_BYTES): rc = function(d, &f); break;
		case TAG(6, WIRE_BYTES): p->strings[string++] = (struct view){ (const char *)f.p, f.value }; break;
		case TAG(7, WIRE_VARINT): rc = take_string(d, &f, &p->drop_frames_str); break;
		case TAG(8, WIRE_VARINT): rc = take_string(d, &f, &p->keep_frames_str); break;
		case TAG(9, WIRE_VARINT): rc = time_nanos(d, &f); break;
		case TAG(10, WIRE_VARINT): p->duration_ns = (int64_t)f.value; break;
		case TAG(11, WIRE_BYTES):
			p->period_type = (struct profile_value_type){ 0 };
			rc = value_type(d, &f, &p->period_type);
			break;
		case TAG(12, WIRE_VARINT): p->period = (int64_t)f.value; break;
		case TAG(13, WIRE_BYTES): rc = comments(d, &f); break;
		case TAG(13, WIRE_VARINT): rc = take_string(d, &f, &p->comments[p->n_comments++]); break;
		case TAG(14, WIRE_VARINT): rc = take_string(d, &f, &p->default_sample_type_str); break;
		case TAG(15, WIRE_VARINT): rc = take_string(d, &f, &p->doc_url_str); break;
		default: rc = unknown_field(d, &f, 15, "profile");
		}
	}
	if (!rc && p->strings[0].len)
		return err_set(d->e, ERR_BAD_DATA, "pprof: the first string of the table is not empty");
	return rc;
}

/* The third walk: locations and samples once more, their references looked up as they are met. */
static int decode_wide(struct decoder *d)
{
	struct profile *p = d->p;
	struct field f = { 0 };
	int rc = 0;
	d->resolve = true;
	p->n_samples = p->n_stack = p->n_labels = p->n_locations = p->n_lines = 0;
	FOR_FIELDS(d, d->base, (size_t)(d->end - d->base), &f) {
		if (f.tag == TAG(2, WIRE_BYTES))
			rc = sample(d, &f);
		else if (f.tag == TAG(4, WIRE_BYTES))
			rc = location(d, &f);
	}
	return rc;
}

/* Ids in place become index + 1. */
static int resolve_tables(struct decoder *d)
{
	struct profile *p = d->p;
	for (uint32_t i = 0; i < p->n_locations; i++) {
		struct profile_location *l = &p->locations[i];
		uint32_t id = l->mapping;
		if (id && !(l->mapping = find_id(&d->mappings, id)))
			return err_set(d->e, ERR_BAD_DATA, "pprof: location %u: there is no mapping with the id %u", i, id);
	}
	bool dense = !d->functions.v; /* then an id is its index + 1 */
	for (uint32_t i = 0; i < p->n_lines; i++) {
		uint32_t id = p->lines[i].function;
		if (LIKELY(dense && id <= d->functions.n))
			continue;
		if (id && !(p->lines[i].function = find_id(&d->functions, id)))
			return err_set(d->e, ERR_BAD_DATA, "pprof: line %u: there is no function with the id %u", i, id);
	}
	return 0;
}

typedef uint32_t four32 __attribute__((vector_size(16)));
typedef int32_t four32s __attribute__((vector_size(16)));

/* Takes one off each; not 0 if one then is not below limit. */
static uint32_t decrement(uint32_t *v, uint32_t n, uint32_t limit)
{
	const uint32_t flip = UINT32_C(1) << 31; /* there are only signed comparisons of vectors */
	four32s bad = { 0 }, last = (four32s)(((four32){ limit, limit, limit, limit } - 1) ^ flip);
	uint32_t i = 0, any = limit ? 0 : n;
	for (; n - i >= 4; i += 4) {
		four32 x;
		memcpy(&x, v + i, sizeof x);
		x -= 1;
		memcpy(v + i, &x, sizeof x);
		bad |= (four32s)(x ^ flip) > last;
	}
	for (; i < n; i++)
		any |= --v[i] >= limit;
	return any | (uint32_t)(bad[0] | bad[1] | bad[2] | bad[3]);
}

/* Index + 1 becomes index; which sample has an id that leads nowhere is looked for only when one has. */
static int resolve_stacks(struct decoder *d)
{
	struct profile *p = d->p;
	uint32_t n = p->n_locations, bad = 0;
	if (d->locations.v && !d->resolve) {
		for (uint32_t i = 0; i < p->n_stack; i++) {
			p->stack[i] = find_id(&d->locations, p->stack[i]) - 1;
			bad |= p->stack[i] == UINT32_MAX;
		}
	} else {
		bad = decrement(p->stack, p->n_stack, n);
	}
	for (uint32_t s = 0; bad && s < p->n_samples; s++)
		for (uint32_t i = 0; i < p->samples[s].n_locations; i++)
			if (p->stack[p->samples[s].first_location + i] >= n)
				return err_set(d->e, ERR_BAD_DATA, "pprof: sample %u: location %u of %u is not in the profile", s, i,
					       p->samples[s].n_locations);
	return 0;
}

static int decode_message(struct decoder *d)
{
	struct counts c = { 0 };
	int rc = count(d, &c);
	if (rc || (rc = check_counts(d, &c)) || (rc = allocate(d, &c)) || (rc = decode_types(d, &c)) || (rc = decode_all(d)))
		return rc;
	if ((rc = index_ids(d, &d->mappings)) || (rc = index_ids(d, &d->functions)) || (rc = index_ids(d, &d->locations)))
		return rc;
	rc = d->wide ? decode_wide(d) : resolve_tables(d);
	return rc ? rc : resolve_stacks(d);
}

/* ---- entry ---- */

/* Text where a profile was expected (an error page, another format): its beginning says more than a byte offset. */
static void hint_text(const uint8_t *p, size_t n, struct err *e)
{
	char shown[49];
	size_t len = MIN(n, sizeof shown - 1);
	for (size_t i = 0; i < len; i++) {
		if (p[i] < 0x20 && p[i] != '\n' && p[i] != '\r' && p[i] != '\t')
			return;
		if (p[i] > 0x7e)
			return;
		shown[i] = p[i] < 0x20 ? ' ' : (char)p[i];
	}
	shown[len] = 0;
	if (len >= 8 && e)
		err_set(e, e->code, "not a profile in pprof's format, but text: \"%s\"", shown);
}

static int decode(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e)
{
	struct err local;
	struct decoder d = { .base = bytes, .end = (const uint8_t *)bytes + n, .p = out, .lim = *lim, .e = e ? e : &local };
	if (!n)
		return err_set(e, ERR_BAD_DATA, "pprof: the profile is empty (0 bytes)");
	if (n > lim->max_bytes)
		return err_set(e, ERR_LIMIT, "pprof: the profile is %zu bytes large, the limit is %zu", n, lim->max_bytes);
	int rc = decode_message(&d);
	if (rc) {
		if (rc == -ERR_BAD_DATA)
			hint_text(bytes, n, d.e);
		profile_reset(out);
	}
	return rc;
}

int pprof_decode_raw(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e)
{
	struct pprof_limits l = pprof_limits_or_default(lim);
	profile_reset(out);
	return decode(bytes, n, &l, out, e);
}

int pprof_decode(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e)
{
	struct pprof_limits l = pprof_limits_or_default(lim);
	profile_reset(out);
	if (pprof_is_gzip(bytes, n)) {
		if (n > l.max_compressed)
			return err_set(e, ERR_LIMIT, "pprof: the profile is %zu bytes large, compressed; the limit is %zu", n,
				       l.max_compressed);
		struct view raw;
		int rc = pprof_gunzip(bytes, n, l.max_bytes, &out->arena, &raw, e);
		if (!rc)
			return decode(raw.ptr, raw.len, &l, out, e);
		profile_reset(out);
		return rc;
	}
	if (n > l.max_bytes)
		return err_set(e, ERR_LIMIT, "pprof: the profile is %zu bytes large, the limit is %zu", n, l.max_bytes);
	char *copy = arena_alloc(&out->arena, n);
	if (!copy)
		return err_set(e, ERR_LIMIT, "pprof: the profile needs more than its %zu bytes of memory", out->arena.max);
	if (n)
		memcpy(copy, bytes, n);
	return decode(copy, n, &l, out, e);
}
