/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of ingest: the message's bytes straight into the flat model, in two walks. The first walk reads only top-level fields
 * and counts them, so that tables are allocated once, and takes strings. The second decodes each message in place, in any order.
 * Strings are known by number after the first walk, so their indices are checked at once. References between messages are first kept
 * as ids and become indices at the end.
 *
 * Ids are sparse in principle and 1, 2, 3 ... in practice: a table of ids is made only when that is broken. A reference
 * too wide for the model's 32 bits costs a third walk over locations and samples with the id tables at hand.
 *
 * Pure and bounded: every length is checked against the bytes that are left, every table against its limit. */
#include "pprof/legacy.h"
#include "pprof/wire.h"

static int sample_type(struct decoder *d, const struct field *m)
{
	struct profile_value_type t = { 0 };
	int rc = pprof_value_type(d, m, &t);
	d->p->sample_types[d->p->n_sample_types++] = t;
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

/* The results of the first walk. */
struct counts {
	uint32_t types, samples, mappings, locations, functions, strings;
	uint64_t comment_bytes;
	const uint8_t *types_end; /* behind the last sample type */
};

/* Skips further messages of this kind with a length of one byte: writers put them in a row. */
static inline const uint8_t *count_run(const uint8_t *at, const uint8_t *end, uint32_t tag, uint64_t *n, uint64_t *bytes)
{
	uint64_t count = 0, sum = 0;
	while (end - at >= 2 && at[0] == tag && at[1] < 0x80 && at[1] <= end - at - 2) {
		count++;
		sum += at[1];
		at += 2 + at[1];
	}
	*n += count;
	*bytes += sum;
	return at;
}

enum { STRING_LEN = 48 }; /* bytes of a message for each of its strings, about */

/* String f and those that follow it directly. Tables with too many entries get an error from the counts. */
static const uint8_t *take_strings(struct decoder *d, struct field f, const uint8_t *end, uint64_t *n, int *rc)
{
	struct profile *p = d->p;
	const uint8_t *at = f.p + f.value;
	if (!*n)
		d->strings_at = f.at;
	for (;;) {
		if (LIKELY(*n < d->lim.max_strings)) {
			if ((*rc = ENSURE(d, p->strings, *n, &d->cap_strings, *n ? 1 : 16 + (size_t)(end - at) / STRING_LEN)))
				break;
			p->strings[*n] = (struct view){ (const char *)f.p, f.value };
		}
		++*n;
		if (at >= end || *at != TAG(6, WIRE_BYTES))
			break;
		if (!next_field(d, &at, end, &f)) {
			*rc = -ERR_BAD_DATA;
			break;
		}
	}
	if (!d->strings_end)
		d->strings_end = at;
	return at;
}

static int count(struct decoder *d, struct counts *c)
{
	struct { uint64_t n, bytes; } of[TAG(16, 0)] = { { 0 } }; /* the second walk has an opinion on the rest */
	struct field f = { 0 };
	int rc = 0;
	c->types_end = d->base;
	FOR_FIELDS(d, d->base, (size_t)(d->end - d->base), &f) {
		if (UNLIKELY(f.tag >= ARRAY_LEN(of)))
			continue;
		if (f.tag == TAG(6, WIRE_BYTES)) {
			at_ = take_strings(d, f, end_, &of[f.tag].n, &rc);
			continue;
		}
		of[f.tag].n++;
		of[f.tag].bytes += f.value;
		if (UNLIKELY(f.tag == TAG(1, WIRE_BYTES)))
			c->types_end = f.p + f.value;
		else if ((f.tag & 7) == WIRE_BYTES)
			at_ = count_run(at_, end_, f.tag, &of[f.tag].n, &of[f.tag].bytes);
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
			return pprof_no_memory(d);
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
	int rc = 0;
	FOR_FIELDS(d, d->base, (size_t)(d->end - d->base), &f) {
		switch (f.tag) {
		case TAG(1, WIRE_BYTES): break;
		case TAG(2, WIRE_BYTES): at_ = pprof_samples(d, f, end_, &rc); break;
		case TAG(3, WIRE_BYTES): rc = pprof_mapping(d, &f); break;
		case TAG(4, WIRE_BYTES): at_ = pprof_locations(d, f, end_, &rc); break;
		case TAG(5, WIRE_BYTES): at_ = pprof_functions(d, f, end_, &rc); break;
		case TAG(6, WIRE_BYTES): at_ = f.at == d->strings_at ? d->strings_end : at_; break;
		case TAG(7, WIRE_VARINT): rc = take_string(d, &f, &p->drop_frames_str); break;
		case TAG(8, WIRE_VARINT): rc = take_string(d, &f, &p->keep_frames_str); break;
		case TAG(9, WIRE_VARINT): rc = time_nanos(d, &f); break;
		case TAG(10, WIRE_VARINT): p->duration_ns = (int64_t)f.value; break;
		case TAG(11, WIRE_BYTES):
			p->period_type = (struct profile_value_type){ 0 };
			rc = pprof_value_type(d, &f, &p->period_type);
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

/* The third walk: locations and samples once more, now resolving their references. */
static int decode_wide(struct decoder *d)
{
	struct profile *p = d->p;
	struct field f = { 0 };
	int rc = 0;
	d->resolve = true;
	p->n_samples = p->n_stack = p->n_labels = p->n_locations = p->n_lines = 0;
	FOR_FIELDS(d, d->base, (size_t)(d->end - d->base), &f) {
		if (f.tag == TAG(2, WIRE_BYTES))
			at_ = pprof_samples(d, f, end_, &rc);
		else if (f.tag == TAG(4, WIRE_BYTES))
			at_ = pprof_locations(d, f, end_, &rc);
	}
	return rc;
}

/* Ids in place become index + 1. */
static int resolve_tables(struct decoder *d)
{
	struct profile *p = d->p;
	bool dense = !d->mappings.v; /* then an id is its index + 1 */
	for (uint32_t i = 0; i < p->n_locations; i++) {
		struct profile_location *l = &p->locations[i];
		uint32_t id = l->mapping;
		if (LIKELY(dense && id <= d->mappings.n))
			continue;
		if (id && !(l->mapping = pprof_find_id(&d->mappings, id)))
			return err_set(d->e, ERR_BAD_DATA, "pprof: location %u: there is no mapping with the id %u", i, id);
	}
	dense = !d->functions.v;
	for (uint32_t i = 0; i < p->n_lines; i++) {
		uint32_t id = p->lines[i].function;
		if (LIKELY(dense && id <= d->functions.n))
			continue;
		if (id && !(p->lines[i].function = pprof_find_id(&d->functions, id)))
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
			p->stack[i] = pprof_find_id(&d->locations, p->stack[i]) - 1;
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

static int may_go_on(struct decoder *d)
{
	return d->lim.go_on ? d->lim.go_on(d->lim.go_on_arg, d->e) : 0;
}

static int decode_message(struct decoder *d)
{
	struct counts c = { 0 };
	int rc = may_go_on(d);
	if (rc || (rc = count(d, &c)) || (rc = check_counts(d, &c)) || (rc = may_go_on(d)) || (rc = allocate(d, &c)) ||
	    (rc = decode_types(d, &c)) || (rc = decode_all(d)) || (rc = may_go_on(d)))
		return rc;
	if ((rc = pprof_index_ids(d, &d->mappings)) || (rc = pprof_index_ids(d, &d->functions)) || (rc = pprof_index_ids(d, &d->locations)))
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
		err_set(e, e->code, "not a profile, but text: \"%s\"", shown);
}

/* A body that is not profile.proto may have another format. The arena stays: it may hold the bytes. */
static int decode_other(struct decoder *d)
{
	struct arena keep = d->p->arena;
	*d->p = (struct profile){ .arena = keep };
	return pprof_decode_other(d->base, (size_t)(d->end - d->base), &d->lim, d->p, d->e);
}

static int decode(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e)
{
	struct err local;
	struct decoder d = { .base = bytes, .end = (const uint8_t *)bytes + n, .p = out, .lim = *lim, .e = e ? e : &local };
	if (!n && !lim->folded)
		return err_set(e, ERR_BAD_DATA, "pprof: the profile is empty (0 bytes)");
	if (n > lim->max_bytes)
		return err_set(e, ERR_LIMIT, "pprof: the profile is %zu bytes large, the limit is %zu", n, lim->max_bytes);
	int rc = decode_message(&d);
	if (rc == -ERR_BAD_DATA) {
		int other = decode_other(&d);
		if (other == -ERR_NOT_FOUND)
			hint_text(bytes, n, d.e);
		else if (!(rc = other))
			err_clear(d.e); /* that it is no profile.proto is no error */
	}
	if (rc)
		profile_reset(out);
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
