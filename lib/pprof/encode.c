/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the flat model as a message, with protobuf-c. The tree of message structs is built in an arena, arrays of one kind together;
 * ids are indices plus one. */
#include "base/alloc.h"
#include "lib/pprof/profile.pb-c.h"
#include "pprof/internal.h"

/* An array of n messages and the array of pointers to them that protobuf-c wants. */
#define MESSAGES(arena, n, type, items, pointers) do { \
	(items) = arena_alloc(arena, (size_t)(n) * sizeof(type)); \
	(pointers) = arena_alloc(arena, (size_t)(n) * sizeof(type *)); \
	if (!(items) || !(pointers)) \
		return false; \
	for (uint32_t i_ = 0; i_ < (n); i_++) \
		(pointers)[i_] = &(items)[i_]; \
} while (0)

static bool put_types(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	Pb__ValueType *t;
	MESSAGES(a, p->n_sample_types, Pb__ValueType, t, m->sample_type);
	m->n_sample_type = p->n_sample_types;
	for (uint32_t i = 0; i < p->n_sample_types; i++) {
		pb__value_type__init(&t[i]);
		t[i].type = p->sample_types[i].type_str;
		t[i].unit = p->sample_types[i].unit_str;
	}
	return true;
}

/* The index of a second empty string, behind the table's end. */
static uint32_t empty_string(const struct profile *p)
{
	return MAX(p->n_strings, 1u);
}

static bool put_labels(struct arena *a, const struct profile *p, Pb__Label ***ret)
{
	Pb__Label *l;
	MESSAGES(a, p->n_labels, Pb__Label, l, *ret);
	for (uint32_t i = 0; i < p->n_labels; i++) {
		const struct profile_label *x = &p->labels[i];
		pb__label__init(&l[i]);
		l[i].key = x->key_str;
		if (x->is_num) {
			l[i].num = x->num;
			l[i].num_unit = x->unit_str;
		} else {
			/* an empty string under index 0 would read as the number 0: it gets an entry of its own */
			l[i].str = x->str ? x->str : empty_string(p);
		}
	}
	return true;
}

static bool put_samples(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	Pb__Sample *s;
	Pb__Label **labels;
	uint64_t *ids = arena_alloc(a, p->n_stack * sizeof *ids);
	MESSAGES(a, p->n_samples, Pb__Sample, s, m->sample);
	if (!ids || !put_labels(a, p, &labels))
		return false;
	for (uint32_t i = 0; i < p->n_stack; i++)
		ids[i] = (uint64_t)p->stack[i] + 1;
	m->n_sample = p->n_samples;
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *x = &p->samples[i];
		pb__sample__init(&s[i]);
		s[i].location_id = ids + x->first_location;
		s[i].n_location_id = x->n_locations;
		s[i].value = p->values + (size_t)i * p->n_sample_types;
		s[i].n_value = p->n_sample_types;
		s[i].label = labels + x->first_label;
		s[i].n_label = x->n_labels;
	}
	return true;
}

static bool put_mappings(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	Pb__Mapping *o;
	MESSAGES(a, p->n_mappings, Pb__Mapping, o, m->mapping);
	m->n_mapping = p->n_mappings;
	for (uint32_t i = 0; i < p->n_mappings; i++) {
		const struct profile_mapping *x = &p->mappings[i];
		pb__mapping__init(&o[i]);
		o[i].id = (uint64_t)i + 1;
		o[i].memory_start = x->start;
		o[i].memory_limit = x->limit;
		o[i].file_offset = x->offset;
		o[i].filename = x->file_str;
		o[i].build_id = x->build_id_str;
		o[i].has_functions = x->has_functions;
		o[i].has_filenames = x->has_filenames;
		o[i].has_line_numbers = x->has_line_numbers;
		o[i].has_inline_frames = x->has_inline_frames;
	}
	return true;
}

/* A line without a function is left out: it has no meaning, and google/pprof refuses the whole profile for it. */
static bool put_locations(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	Pb__Location *l;
	Pb__Line *line, **lines;
	MESSAGES(a, p->n_locations, Pb__Location, l, m->location);
	MESSAGES(a, p->n_lines, Pb__Line, line, lines);
	m->n_location = p->n_locations;
	for (uint32_t i = 0; i < p->n_lines; i++) {
		pb__line__init(&line[i]);
		line[i].function_id = p->lines[i].function;
		line[i].line = p->lines[i].line;
		line[i].column = p->lines[i].column;
	}
	for (uint32_t i = 0; i < p->n_locations; i++) {
		const struct profile_location *x = &p->locations[i];
		pb__location__init(&l[i]);
		l[i].id = (uint64_t)i + 1;
		l[i].mapping_id = x->mapping;
		l[i].address = x->address;
		l[i].is_folded = x->is_folded;
		l[i].line = x->n_lines ? arena_alloc(a, x->n_lines * sizeof *lines) : lines;
		if (!l[i].line)
			return false;
		for (uint32_t k = 0; k < x->n_lines; k++)
			if (p->lines[x->first_line + k].function)
				l[i].line[l[i].n_line++] = &line[x->first_line + k];
	}
	return true;
}

static bool put_functions(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	Pb__Function *f;
	MESSAGES(a, p->n_functions, Pb__Function, f, m->function);
	m->n_function = p->n_functions;
	for (uint32_t i = 0; i < p->n_functions; i++) {
		const struct profile_function *x = &p->functions[i];
		pb__function__init(&f[i]);
		f[i].id = (uint64_t)i + 1;
		f[i].name = x->name_str;
		f[i].system_name = x->system_name_str;
		f[i].filename = x->filename_str;
		f[i].start_line = x->start_line;
	}
	return true;
}

static bool put_strings(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	uint32_t n = MAX(p->n_strings, 1u); /* the empty string is there even if nothing uses it */
	for (uint32_t i = 0; i < p->n_labels; i++)
		if (!p->labels[i].is_num && !p->labels[i].str) {
			n = empty_string(p) + 1;
			break;
		}
	m->string_table = arena_calloc(a, n, sizeof *m->string_table);
	m->comment = arena_alloc(a, p->n_comments * sizeof *m->comment);
	if (!m->string_table || !m->comment)
		return false;
	m->n_string_table = n;
	for (uint32_t i = 0; i < p->n_strings; i++)
		m->string_table[i] = (ProtobufCBinaryData){ p->strings[i].len, (uint8_t *)p->strings[i].ptr };
	m->n_comment = p->n_comments;
	for (uint32_t i = 0; i < p->n_comments; i++)
		m->comment[i] = p->comments[i];
	return true;
}

static bool put_header(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	m->drop_frames = p->drop_frames_str;
	m->keep_frames = p->keep_frames_str;
	m->time_nanos = p->time_ns;
	m->duration_nanos = p->duration_ns;
	m->period = p->period;
	m->default_sample_type = p->default_sample_type_str;
	m->doc_url = p->doc_url_str;
	if (!p->period_type.type_str && !p->period_type.unit_str)
		return true;
	m->period_type = arena_alloc(a, sizeof *m->period_type);
	if (!m->period_type)
		return false;
	pb__value_type__init(m->period_type);
	m->period_type->type = p->period_type.type_str;
	m->period_type->unit = p->period_type.unit_str;
	return true;
}

static bool build(struct arena *a, const struct profile *p, Pb__Profile *m)
{
	return put_types(a, p, m) && put_samples(a, p, m) && put_mappings(a, p, m) && put_locations(a, p, m) &&
	       put_functions(a, p, m) && put_strings(a, p, m) && put_header(a, p, m);
}

int pprof_encode(const struct profile *p, struct buf *out, struct err *e)
{
	int rc = profile_check(p, e);
	if (rc)
		return rc;
	struct arena a CLEANUP(arena_free);
	arena_init(&a, 0);
	Pb__Profile m = PB__PROFILE__INIT;
	if (!build(&a, p, &m))
		return err_set(e, ERR_LIMIT, "no memory to encode a profile of %u samples", p->n_samples);
	size_t n = pb__profile__get_packed_size(&m);
	if (!buf_reserve(out, n))
		return err_set(e, ERR_LIMIT, "the profile's %zu bytes are more than the %zu allowed", n,
			       out->max ? out->max : BUF_DEFAULT_MAX);
	out->len += pb__profile__pack(&m, (uint8_t *)out->ptr + out->len);
	out->ptr[out->len] = 0;
	return 0;
}

int pprof_encode_gz(const struct profile *p, struct buf *out, struct err *e)
{
	struct buf raw CLEANUP(buf_free) = { 0 };
	int rc = pprof_encode(p, &raw, e);
	return rc ? rc : pprof_gzip(buf_view(&raw), 0, out, e);
}
