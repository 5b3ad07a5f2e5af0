/* SPDX-License-Identifier: Apache-2.0 */
/* Samples: their locations, values and labels. */
#include "pprof/wire.h"

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

/* Decodes the structure of one- or two-byte numbers in the next eight bytes, by their continuation bits: where each begins, how many
 * are complete, and their length. */
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
				break; /* incomplete, or longer */
			g->start[g->n++] = g->bytes;
			g->bytes += two ? 2 : 1;
		}
	}
}

/* Reads one- and two-byte numbers as long as they follow each other, eight bytes at a time and without branches on their values; out
 * has room for eight more than the bytes hold. Returns behind the last one read. */
static inline const uint8_t *small_ids(const struct decoder *d, const uint8_t *q, const uint8_t *end, uint32_t **ret)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	uint32_t *out = *ret;
	while (q < end && d->end - q >= 9) {
		uint64_t w;
		memcpy(&w, q, sizeof w);
		unsigned left = (unsigned)MIN((size_t)(end - q), (size_t)8);
		unsigned mask = (unsigned)(((w & UINT64_C(0x8080808080808080)) * UINT64_C(0x0002040810204081)) >> 56);
		/* bytes after the message count as incomplete */
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

/* The requirements of a whole sample. */
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

const uint8_t *pprof_samples(struct decoder *d, struct field m, const uint8_t *end, int *rc)
{
	RUN(d, m, end, rc, sample);
}
