/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/stacks.h"

#include <stdio.h>

#include "base/alloc.h"

struct out {
	struct profile *p;
	const struct stacks *s;
	const struct own_images *images;
	struct own_names *names;
	bool full;                   /* the arena's cap was reached */
	struct map string_index, function_index, location_index;
	VEC(struct view) strings;
	VEC(struct profile_mapping) mappings;
	VEC(uint32_t) image_of;      /* of a mapping: index of own_images + 1 */
	VEC(struct profile_function) functions;
	VEC(struct profile_line) lines;
	VEC(struct profile_location) locations;
	VEC(uint64_t) frame_of;      /* of a location */
	VEC(uint32_t) stack;
	VEC(struct profile_sample) samples;
	VEC(int64_t) values;
};

void stacks_release(struct stacks *s)
{
	map_free(&s->index);
	vec_free(&s->v);
	vec_free(&s->frames);
}

bool stacks_find(const struct stacks *s, const uint64_t *frames, uint32_t n, uint32_t *ret)
{
	uint64_t h = hash_bytes(frames, n * sizeof *frames);
	uint32_t id;

	for (size_t at = map_start(&s->index, h); map_probe(&s->index, h, &at, &id);) {
		const struct stack_entry *o = &s->v.v[id];
		if (o->n != n || (n && memcmp(s->frames.v + o->first, frames, n * sizeof *frames) != 0))
			continue;
		*ret = id;
		return true;
	}
	return false;
}

uint32_t stacks_intern(struct stacks *s, const uint64_t *frames, uint32_t n)
{
	uint32_t id;

	if (stacks_find(s, frames, n, &id))
		return id;
	id = (uint32_t)s->v.n;
	map_insert(&s->index, hash_bytes(frames, n * sizeof *frames), id);
	vec_push(&s->v, (struct stack_entry){ .first = (uint32_t)s->frames.n, .n = n });
	for (uint32_t i = 0; i < n; i++)
		vec_push(&s->frames, frames[i]);
	return id;
}

void stacks_add(struct stacks *s, const uint64_t *frames, uint32_t n, const int64_t *values, unsigned n_values)
{
	uint32_t id = stacks_intern(s, frames, n);

	for (unsigned i = 0; i < n_values; i++)
		s->v.v[id].values[i] += values[i];
}

static uint32_t put_string(struct out *x, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t id;

	for (size_t at = map_start(&x->string_index, h); map_probe(&x->string_index, h, &at, &id);)
		if (view_eq(x->strings.v[id], v))
			return id;
	struct view copy = arena_view(&x->p->arena, v);
	if (!copy.ptr) {
		x->full = true;
		return 0;
	}
	map_insert(&x->string_index, h, (uint32_t)x->strings.n);
	vec_push(&x->strings, copy);
	return (uint32_t)x->strings.n - 1;
}

static bool same_function(const struct profile_function *a, const struct profile_function *b)
{
	return a->name_str == b->name_str && a->system_name_str == b->system_name_str && a->filename_str == b->filename_str &&
	       a->start_line == b->start_line;
}

static uint32_t put_function(struct out *x, const struct own_call *c)
{
	struct profile_function fn = { put_string(x, c->name), put_string(x, c->system_name), put_string(x, c->file), c->start_line };
	uint64_t h = hash_u64((uint64_t)fn.name_str << 32 ^ fn.filename_str ^ hash_u64((uint64_t)fn.start_line ^ fn.system_name_str));
	uint32_t id;

	if (!MAP_FIND_OR_ADD(&x->function_index, h, id, x->functions.n, same_function(&x->functions.v[id], &fn)))
		vec_push(&x->functions, fn);
	return id;
}

/* The mapping of an image's segment, index + 1. */
static uint32_t put_mapping(struct out *x, uint32_t image, uint64_t vaddr)
{
	const struct own_image *im = image ? x->images->v.v[image - 1] : NULL;
	char hex[2 * OWN_BUILD_ID_MAX + 1] = "";
	struct profile_mapping m = { .limit = UINT64_MAX };

	if (im && !own_image_segment(im, vaddr, &m.start, &m.limit, &m.offset))
		m = (struct profile_mapping){ .limit = UINT64_C(1) << FRAME_IMAGE_SHIFT };
	for (size_t i = 0; i < x->mappings.n; i++)
		if (x->image_of.v[i] == image && x->mappings.v[i].start == m.start)
			return (uint32_t)i + 1;
	for (size_t i = 0; im && i < im->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", im->build_id[i]);
	m.file_str = put_string(x, view_of(im ? im->path : "[jit]"));
	m.build_id_str = put_string(x, view_of(hex));
	vec_push(&x->mappings, m);
	vec_push(&x->image_of, image);
	return (uint32_t)x->mappings.n;
}

/* The visible end of an incomplete stack. */
static const char *mark_of(uint64_t frame)
{
	static const char *const marks[] = {
		[END_DEPTH] = "[truncated: too deep]",
		[END_UNSUPPORTED] = "[truncated: unsupported unwind rule]",
		[END_STACK_READ] = "[truncated: stack not readable]",
		[END_BAD_FRAME] = "[truncated: bad frame]",
		[END_NO_PROGRESS] = "[truncated: no progress]",
		[END_COPY_ENDED] = "[truncated: stack copy]",
		[END_UNMAPPED] = "[truncated: not mapped]",
	};
	uint64_t why = frame & FRAME_ADDR_MASK;

	if (frame == STACK_LOST)
		return "[lost: no stack]";
	return why < ARRAY_LEN(marks) && marks[why] ? marks[why] : "[truncated]";
}

static size_t name_frame(struct out *x, uint64_t frame, struct profile_location *l, struct own_call out[OWN_CALLS_MAX])
{
	uint32_t image = (uint32_t)(frame >> FRAME_IMAGE_SHIFT);

	if (frame >= STACK_MARK) {
		struct view mark = view_of(mark_of(frame));
		out[0] = (struct own_call){ .name = mark, .system_name = mark, .file = VIEW("") };
		return 1;
	}
	l->address = frame & FRAME_ADDR_MASK;
	l->mapping = put_mapping(x, image, l->address);
	return image ? own_names_at(x->names, x->images->v.v[image - 1], l->address, out) : 0;
}

static uint32_t put_location(struct out *x, uint64_t frame)
{
	struct own_call calls[OWN_CALLS_MAX];
	uint64_t h = hash_u64(frame);
	uint32_t id;

	for (size_t at = map_start(&x->location_index, h); map_probe(&x->location_index, h, &at, &id);)
		if (x->frame_of.v[id] == frame)
			return id;
	struct profile_location l = { .first_line = (uint32_t)x->lines.n };
	l.n_lines = (uint32_t)name_frame(x, frame, &l, calls);
	struct profile_mapping *m = l.mapping ? &x->mappings.v[l.mapping - 1] : NULL;
	for (uint32_t i = 0; i < l.n_lines; i++) {
		vec_push(&x->lines, (struct profile_line){ put_function(x, &calls[i]) + 1, calls[i].line, 0 });
		if (!m)
			continue;
		m->has_functions = true;
		m->has_filenames |= calls[i].file.len > 0;
		m->has_line_numbers |= calls[i].line > 0;
		m->has_inline_frames |= l.n_lines > 1;
	}
	map_insert(&x->location_index, h, (uint32_t)x->locations.n);
	vec_push(&x->frame_of, frame);
	vec_push(&x->locations, l);
	return (uint32_t)x->locations.n - 1;
}

static void put_stack(struct out *x, const struct stack_entry *s, unsigned n_values)
{
	struct profile_sample sample = { .first_location = (uint32_t)x->stack.n, .n_locations = s->n };

	for (uint32_t i = 0; i < s->n; i++)
		vec_push(&x->stack, put_location(x, x->s->frames.v[s->first + i]));
	vec_push(&x->samples, sample);
	for (unsigned i = 0; i < n_values; i++)
		vec_push(&x->values, s->values[i]);
}

/* The first mapping is the main binary's. */
static void put_program(struct out *x)
{
	for (size_t i = 0; i < x->images->maps.n; i++) {
		const struct unwind_map *m = &x->images->maps.v[i];
		if (m->image && x->images->v.v[m->image - 1]->is_program) {
			put_mapping(x, m->image, m->vaddr);
			return;
		}
	}
}

static void *keep(struct out *x, const void *v, size_t bytes)
{
	void *p = arena_alloc(&x->p->arena, bytes);

	if (!p)
		x->full = true;
	else if (bytes)
		memcpy(p, v, bytes);
	return p;
}

#define KEEP(field, count, vec) do { \
	x->p->field = keep(x, (vec).v, (vec).n * sizeof *(vec).v); \
	x->p->count = (uint32_t)(vec).n; \
} while (0)

static void fill(struct out *x, const struct stacks_form *form)
{
	struct profile *p = x->p;
	struct profile_value_type types[STACK_VALUES];

	for (unsigned i = 0; i < form->n_types; i++)
		types[i] = (struct profile_value_type){ put_string(x, view_of(form->types[i][0])), put_string(x, view_of(form->types[i][1])) };
	p->sample_types = keep(x, types, form->n_types * sizeof *types);
	p->n_sample_types = form->n_types;
	p->period_type = (struct profile_value_type){ put_string(x, view_of(form->period[0])), put_string(x, view_of(form->period[1])) };
	p->period = form->period_value;
	p->time_ns = form->time_ns;
	p->duration_ns = form->duration_ns;
	p->default_sample_type_str = put_string(x, view_of(form->default_type ? form->default_type : ""));
	p->drop_frames_str = put_string(x, view_of(form->drop_frames ? form->drop_frames : ""));
	uint32_t note = put_string(x, view_of(form->note ? form->note : ""));
	p->comments = keep(x, &note, sizeof note);
	p->n_comments = note != 0;
	KEEP(mappings, n_mappings, x->mappings);
	KEEP(functions, n_functions, x->functions);
	KEEP(lines, n_lines, x->lines);
	KEEP(locations, n_locations, x->locations);
	KEEP(stack, n_stack, x->stack);
	KEEP(samples, n_samples, x->samples);
	KEEP(strings, n_strings, x->strings);
	p->values = keep(x, x->values.v, x->values.n * sizeof *x->values.v);
}

static void release(struct out *x)
{
	map_free(&x->string_index);
	map_free(&x->function_index);
	map_free(&x->location_index);
	vec_free(&x->strings);
	vec_free(&x->mappings);
	vec_free(&x->image_of);
	vec_free(&x->functions);
	vec_free(&x->lines);
	vec_free(&x->locations);
	vec_free(&x->frame_of);
	vec_free(&x->stack);
	vec_free(&x->samples);
	vec_free(&x->values);
}

int stacks_to_profile(const struct stacks *s, const struct stacks_form *form, const struct own_images *images,
		      struct own_names *names, struct profile *out, struct err *e)
{
	struct out x = { .p = out, .s = s, .images = images, .names = names };

	put_string(&x, VIEW(""));
	put_program(&x);
	for (size_t i = 0; i < s->v.n && !x.full; i++)
		put_stack(&x, &s->v.v[i], form->n_types);
	fill(&x, form);
	release(&x);
	if (!x.full)
		return 0;
	size_t max = out->arena.max;
	profile_reset(out);
	return err_set(e, ERR_LIMIT, "the profile needs more than %zu bytes", max);
}
