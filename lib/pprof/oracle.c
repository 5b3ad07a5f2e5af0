/* SPDX-License-Identifier: Apache-2.0 */
#include "pprof/oracle.h"

#include <stdio.h>

#include "base/vec.h"
#include "lib/pprof/profile.pb-c.h"

#define ALLOC(out, field, n) do { \
	(out)->field = arena_calloc(&(out)->arena, (n), sizeof *(out)->field); \
	if (!(out)->field) \
		return err_set(e, ERR_LIMIT, "the oracle's arena is full"); \
} while (0)
#define CHECK(cond) do { if (!(cond)) return err_set(e, ERR_BAD_DATA, "the oracle refuses: not " #cond); } while (0)

/* Index + 1 of the message with this id among n; 0 = none. Linear on purpose. */
#define FIND(messages, n, wanted) ({ \
	uint32_t found_ = 0; \
	for (size_t k_ = 0; k_ < (n) && !found_; k_++) \
		if ((messages)[k_]->id == (wanted)) \
			found_ = (uint32_t)k_ + 1; \
	found_; })
#define STR(m, i) ({ CHECK((uint64_t)(i) < (m)->n_string_table); (uint32_t)(i); })

static int header(const Pb__Profile *m, struct profile *out, struct err *e)
{
	ALLOC(out, strings, m->n_string_table);
	ALLOC(out, comments, m->n_comment);
	ALLOC(out, sample_types, m->n_sample_type);
	CHECK(m->n_string_table > 0 && m->string_table[0].len == 0);
	for (size_t i = 0; i < m->n_string_table; i++)
		out->strings[out->n_strings++] =
			arena_view(&out->arena, view_make((const char *)m->string_table[i].data, m->string_table[i].len));
	for (size_t i = 0; i < m->n_comment; i++)
		out->comments[out->n_comments++] = STR(m, m->comment[i]);
	for (size_t i = 0; i < m->n_sample_type; i++)
		out->sample_types[out->n_sample_types++] =
			(struct profile_value_type){ STR(m, m->sample_type[i]->type), STR(m, m->sample_type[i]->unit) };
	if (m->period_type)
		out->period_type =
			(struct profile_value_type){ STR(m, m->period_type->type), STR(m, m->period_type->unit) };
	out->period = m->period;
	out->time_ns = m->time_nanos;
	out->duration_ns = m->duration_nanos;
	out->default_sample_type_str = STR(m, m->default_sample_type);
	out->drop_frames_str = STR(m, m->drop_frames);
	out->keep_frames_str = STR(m, m->keep_frames);
	out->doc_url_str = STR(m, m->doc_url);
	return 0;
}

static int tables(const Pb__Profile *m, struct profile *out, struct err *e)
{
	size_t n_lines = 0;
	for (size_t i = 0; i < m->n_location; i++)
		n_lines += m->location[i]->n_line;
	ALLOC(out, mappings, m->n_mapping);
	ALLOC(out, functions, m->n_function);
	ALLOC(out, locations, m->n_location);
	ALLOC(out, lines, n_lines);
	for (size_t i = 0; i < m->n_mapping; i++) {
		const Pb__Mapping *x = m->mapping[i];
		CHECK(x->id && FIND(m->mapping, m->n_mapping, x->id) == i + 1);
		out->mappings[out->n_mappings++] = (struct profile_mapping){
			x->memory_start, x->memory_limit, x->file_offset, STR(m, x->filename), STR(m, x->build_id),
			x->has_functions, x->has_filenames, x->has_line_numbers, x->has_inline_frames };
	}
	for (size_t i = 0; i < m->n_function; i++) {
		const Pb__Function *x = m->function[i];
		CHECK(x->id && FIND(m->function, m->n_function, x->id) == i + 1);
		out->functions[out->n_functions++] = (struct profile_function){ STR(m, x->name), STR(m, x->system_name),
										STR(m, x->filename), x->start_line };
	}
	for (size_t i = 0; i < m->n_location; i++) {
		const Pb__Location *x = m->location[i];
		CHECK(x->id && FIND(m->location, m->n_location, x->id) == i + 1);
		struct profile_location *l = &out->locations[out->n_locations++];
		*l = (struct profile_location){ .address = x->address, .mapping = FIND(m->mapping, m->n_mapping, x->mapping_id),
						.first_line = out->n_lines, .n_lines = (uint32_t)x->n_line,
						.is_folded = x->is_folded };
		CHECK(!x->mapping_id || l->mapping);
		for (size_t k = 0; k < x->n_line; k++) {
			uint64_t f = x->line[k]->function_id;
			out->lines[out->n_lines++] = (struct profile_line){ FIND(m->function, m->n_function, f), x->line[k]->line,
									    x->line[k]->column };
			CHECK(!f || out->lines[out->n_lines - 1].function);
		}
	}
	return 0;
}

static int samples(const Pb__Profile *m, struct profile *out, struct err *e)
{
	size_t n_stack = 0, n_labels = 0;
	for (size_t i = 0; i < m->n_sample; i++) {
		n_stack += m->sample[i]->n_location_id;
		n_labels += m->sample[i]->n_label;
		CHECK(m->sample[i]->n_value == m->n_sample_type && m->n_sample_type);
	}
	ALLOC(out, samples, m->n_sample);
	ALLOC(out, stack, n_stack);
	ALLOC(out, labels, n_labels);
	ALLOC(out, values, m->n_sample * m->n_sample_type);
	for (size_t i = 0; i < m->n_sample; i++) {
		const Pb__Sample *x = m->sample[i];
		for (size_t k = 0; k < x->n_value; k++)
			out->values[i * x->n_value + k] = x->value[k];
		out->samples[out->n_samples++] = (struct profile_sample){ out->n_stack, (uint32_t)x->n_location_id,
									  out->n_labels, (uint32_t)x->n_label };
		for (size_t k = 0; k < x->n_location_id; k++) {
			uint32_t l = FIND(m->location, m->n_location, x->location_id[k]);
			CHECK(l);
			out->stack[out->n_stack++] = l - 1;
		}
		for (size_t k = 0; k < x->n_label; k++) {
			const Pb__Label *l = x->label[k];
			struct profile_label y = { .key_str = STR(m, l->key), .str = STR(m, l->str), .is_num = !l->str };
			uint32_t unit = STR(m, l->num_unit);
			if (y.is_num) {
				y.num = l->num;
				y.unit_str = unit;
			}
			out->labels[out->n_labels++] = y;
		}
	}
	return 0;
}

int oracle_decode(const void *raw, size_t n, struct profile *out, struct err *e)
{
	profile_reset(out);
	Pb__Profile *m = pb__profile__unpack(NULL, n, raw);
	if (!m)
		return err_set(e, ERR_BAD_DATA, "the oracle refuses: protobuf-c cannot unpack it");
	int rc = header(m, out, e);
	if (!rc)
		rc = tables(m, out, e);
	if (!rc)
		rc = samples(m, out, e);
	pb__profile__free_unpacked(m, NULL);
	return rc;
}

/* ---- comparison ---- */

static char said[256];

#define SAME(cond, ...) do { if (!(cond)) { snprintf(said, sizeof said, __VA_ARGS__); return said; } } while (0)
#define SAME_FIELD(x, y, what, i, field) SAME((x)->field == (y)->field, "%s %u: " #field " is %lld and %lld", what, \
					      (unsigned)(i), (long long)(x)->field, (long long)(y)->field)

static const char *header_difference(const struct profile *a, const struct profile *b)
{
#define F(field) SAME_FIELD(a, b, "profile", 0, field)
	F(n_strings); F(n_sample_types); F(n_mappings); F(n_functions); F(n_lines); F(n_locations); F(n_stack);
	F(n_labels); F(n_samples); F(n_comments); F(period_type.type_str); F(period_type.unit_str); F(period); F(time_ns);
	F(duration_ns); F(default_sample_type_str); F(drop_frames_str); F(keep_frames_str); F(doc_url_str);
#undef F
	for (uint32_t i = 0; i < a->n_strings; i++)
		SAME(view_eq(a->strings[i], b->strings[i]), "string %u: %.*s and %.*s", i, VIEW_ARG(a->strings[i]),
		     VIEW_ARG(b->strings[i]));
	for (uint32_t i = 0; i < a->n_comments; i++)
		SAME(a->comments[i] == b->comments[i], "comment %u", i);
	for (uint32_t i = 0; i < a->n_sample_types; i++) {
		SAME_FIELD(&a->sample_types[i], &b->sample_types[i], "sample type", i, type_str);
		SAME_FIELD(&a->sample_types[i], &b->sample_types[i], "sample type", i, unit_str);
	}
	return NULL;
}

static const char *table_difference(const struct profile *a, const struct profile *b)
{
	for (uint32_t i = 0; i < a->n_mappings; i++) {
		const struct profile_mapping *x = &a->mappings[i], *y = &b->mappings[i];
#define F(field) SAME_FIELD(x, y, "mapping", i, field)
		F(start); F(limit); F(offset); F(file_str); F(build_id_str); F(has_functions); F(has_filenames);
		F(has_line_numbers); F(has_inline_frames);
#undef F
	}
	for (uint32_t i = 0; i < a->n_functions; i++) {
		const struct profile_function *x = &a->functions[i], *y = &b->functions[i];
#define F(field) SAME_FIELD(x, y, "function", i, field)
		F(name_str); F(system_name_str); F(filename_str); F(start_line);
#undef F
	}
	for (uint32_t i = 0; i < a->n_locations; i++) {
		const struct profile_location *x = &a->locations[i], *y = &b->locations[i];
#define F(field) SAME_FIELD(x, y, "location", i, field)
		F(address); F(mapping); F(first_line); F(n_lines); F(is_folded);
#undef F
	}
	for (uint32_t i = 0; i < a->n_lines; i++) {
		const struct profile_line *x = &a->lines[i], *y = &b->lines[i];
#define F(field) SAME_FIELD(x, y, "line", i, field)
		F(function); F(line); F(column);
#undef F
	}
	return NULL;
}

static const char *sample_difference(const struct profile *a, const struct profile *b)
{
	for (uint32_t i = 0; i < a->n_samples; i++) {
		const struct profile_sample *x = &a->samples[i], *y = &b->samples[i];
#define F(field) SAME_FIELD(x, y, "sample", i, field)
		F(first_location); F(n_locations); F(first_label); F(n_labels);
#undef F
	}
	for (uint32_t i = 0; i < a->n_stack; i++)
		SAME(a->stack[i] == b->stack[i], "stack entry %u: %u and %u", i, a->stack[i], b->stack[i]);
	for (uint32_t i = 0; i < a->n_labels; i++) {
		const struct profile_label *x = &a->labels[i], *y = &b->labels[i];
#define F(field) SAME_FIELD(x, y, "label", i, field)
		F(key_str); F(str); F(is_num); F(unit_str); F(num);
#undef F
	}
	for (size_t i = 0; i < (size_t)a->n_samples * a->n_sample_types; i++)
		SAME(a->values[i] == b->values[i], "value %zu: %lld and %lld", i, (long long)a->values[i],
		     (long long)b->values[i]);
	return NULL;
}

const char *oracle_difference(const struct profile *a, const struct profile *b)
{
	const char *what = header_difference(a, b);
	if (!what)
		what = table_difference(a, b);
	return what ? what : sample_difference(a, b);
}
