/* SPDX-License-Identifier: Apache-2.0 */
#include "model/profile.h"

void profile_init(struct profile *p, size_t max_bytes)
{
	*p = (struct profile){ 0 };
	arena_init(&p->arena, max_bytes);
}

void profile_reset(struct profile *p)
{
	struct arena keep = p->arena;
	arena_reset(&keep);
	*p = (struct profile){ .arena = keep };
}

void profile_release(struct profile *p)
{
	arena_free(&p->arena);
	*p = (struct profile){ 0 };
}

int profile_type_index(const struct profile *p, struct view type)
{
	for (uint32_t i = 0; i < p->n_sample_types; i++)
		if (view_eq(profile_str(p, p->sample_types[i].type_str), type))
			return (int)i;
	return -1;
}

int profile_default_type(const struct profile *p)
{
	int i = p->default_sample_type_str ? profile_type_index(p, profile_str(p, p->default_sample_type_str)) : -1;
	return i >= 0 ? i : (int)p->n_sample_types - 1;
}

struct view profile_label_unit(const struct profile *p, const struct profile_label *l)
{
	if (!l->is_num)
		return VIEW("");
	if (l->unit_str)
		return profile_str(p, l->unit_str);
	struct view key = profile_str(p, l->key_str);
	return view_eqs(key, "request") || view_eqs(key, "alignment") ? VIEW("bytes") : key;
}

bool profile_without_main(struct profile *p)
{
	struct profile_mapping *m = arena_calloc(&p->arena, (size_t)p->n_mappings + 1, sizeof *m);
	if (!m)
		return false;
	if (p->n_mappings)
		memcpy(m + 1, p->mappings, p->n_mappings * sizeof *m);
	p->mappings = m;
	p->n_mappings++;
	for (uint32_t i = 0; i < p->n_locations; i++)
		p->locations[i].mapping += p->locations[i].mapping > 0;
	return true;
}

#define CHECK(cond, ...) do { if (!(cond)) return err_set(e, ERR_BAD_DATA, __VA_ARGS__); } while (0)

#define CHECK_STR(p, i, ...) CHECK((i) < (p)->n_strings || !(i), __VA_ARGS__)

static int check_strings(const struct profile *p, struct err *e)
{
	const struct { const char *what; uint32_t str; } header[] = {
		{ "period type", p->period_type.type_str }, { "period unit", p->period_type.unit_str },
		{ "default sample type", p->default_sample_type_str }, { "drop_frames", p->drop_frames_str },
		{ "keep_frames", p->keep_frames_str }, { "doc_url", p->doc_url_str },
	};
	CHECK(!p->n_strings || p->strings[0].len == 0, "the first string is not empty");
	for (size_t i = 0; i < ARRAY_LEN(header); i++)
		CHECK_STR(p, header[i].str, "%s: no string %u", header[i].what, header[i].str);
	for (uint32_t i = 0; i < p->n_comments; i++)
		CHECK_STR(p, p->comments[i], "comment %u: no string %u", i, p->comments[i]);
	for (uint32_t i = 0; i < p->n_sample_types; i++) {
		const struct profile_value_type *t = &p->sample_types[i];
		CHECK_STR(p, MAX(t->type_str, t->unit_str), "sample type %u: no string %u", i, MAX(t->type_str, t->unit_str));
	}
	for (uint32_t i = 0; i < p->n_mappings; i++) {
		const struct profile_mapping *m = &p->mappings[i];
		CHECK_STR(p, MAX(m->file_str, m->build_id_str), "mapping %u: no string %u", i, MAX(m->file_str, m->build_id_str));
	}
	for (uint32_t i = 0; i < p->n_functions; i++) {
		const struct profile_function *f = &p->functions[i];
		uint32_t most = MAX(f->name_str, MAX(f->system_name_str, f->filename_str));
		CHECK_STR(p, most, "function %u: no string %u", i, most);
	}
	for (uint32_t i = 0; i < p->n_labels; i++) {
		const struct profile_label *l = &p->labels[i];
		uint32_t most = MAX(l->key_str, l->is_num ? l->unit_str : l->str);
		CHECK_STR(p, most, "label %u: no string %u", i, most);
	}
	return 0;
}

int profile_check(const struct profile *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_lines; i++)
		CHECK(p->lines[i].function <= p->n_functions, "line %u: no function %u", i, p->lines[i].function);
	for (uint32_t i = 0; i < p->n_locations; i++) {
		const struct profile_location *l = &p->locations[i];
		CHECK(l->mapping <= p->n_mappings, "location %u: no mapping %u", i, l->mapping);
		CHECK(l->first_line <= p->n_lines && l->n_lines <= p->n_lines - l->first_line,
		      "location %u: its lines are out of range", i);
	}
	for (uint32_t i = 0; i < p->n_stack; i++)
		CHECK(p->stack[i] < p->n_locations, "stack entry %u: no location %u", i, p->stack[i]);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		CHECK(s->first_location <= p->n_stack && s->n_locations <= p->n_stack - s->first_location,
		      "sample %u: its locations are out of range", i);
		CHECK(s->first_label <= p->n_labels && s->n_labels <= p->n_labels - s->first_label,
		      "sample %u: its labels are out of range", i);
	}
	CHECK(!p->n_samples || p->n_sample_types, "%u samples, but no sample types", p->n_samples);
	return check_strings(p, e);
}
