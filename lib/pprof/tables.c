/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that samples refer to: value types, mappings, functions, locations with their lines. */
#include "pprof/wire.h"

int pprof_value_type(struct decoder *d, const struct field *m, struct profile_value_type *t)
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

int pprof_mapping(struct decoder *d, const struct field *m)
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

const uint8_t *pprof_functions(struct decoder *d, struct field m, const uint8_t *end, int *rc)
{
	RUN(d, m, end, rc, function);
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

const uint8_t *pprof_locations(struct decoder *d, struct field m, const uint8_t *end, int *rc)
{
	RUN(d, m, end, rc, location);
}
