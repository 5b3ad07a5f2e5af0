/* SPDX-License-Identifier: Apache-2.0 */
/* A whole profile into the dictionary. Nearly all of what a profile says is known already, so that what it costs is looking
 * up, and looking up is waiting for memory: a slot, then the entry, then what the entry points at. Therefore a batch of
 * things takes each of these steps together, and the next step's memory is asked for while the others of the batch take
 * this one. What the first slot does not answer (new things, and the few whose hashes begin alike) is interned in
 * the ordinary way. Strings enter the dictionary only once something of the profile uses them. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "model/symbols_internal.h"

enum { BATCH = 32, LINE = 64 };
#define NONE UINT32_MAX

struct import {
	struct symbols *s;
	const struct profile *p;
	uint32_t *strings; /* id + 1; 0 = not met yet */
	uint64_t *hashes;  /* of the strings */
	uint32_t *mappings, *functions, *locations; /* ids */
	VEC(struct sym_line) lines;
};

static inline void fetch_slot(const struct map *m, uint64_t h)
{
	__builtin_prefetch(&m->slots[map_start(m, h)]);
}

/* The first entry whose hash is this one's as far as slots keep it; NONE: there is none. */
static inline uint32_t candidate(const struct map *m, uint64_t h)
{
	uint32_t id;
	size_t at = map_start(m, h);
	return map_probe(m, h, &at, &id) ? id : NONE;
}

/* ---- strings ---- */

static void look_up_strings(struct import *im, uint32_t from, uint32_t n)
{
	struct symbols *s = im->s;
	const struct view *v = im->p->strings + from;
	uint64_t *h = im->hashes + from;
	uint32_t id[BATCH];
	for (uint32_t i = 0; i < n; i++) {
		h[i] = hash_string(s, v[i]);
		fetch_slot(&s->strings, h[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		id[i] = candidate(&s->strings, h[i]);
		if (id[i] != NONE)
			__builtin_prefetch(ENTRY(s, SYMBOLS_STRINGS, struct view, id[i]));
	}
	for (uint32_t i = 0; i < n; i++)
		if (id[i] != NONE) {
			const char *text = ENTRY(s, SYMBOLS_STRINGS, struct view, id[i])->ptr;
			__builtin_prefetch(text);
			if (v[i].len > LINE / 2)
				__builtin_prefetch(text + v[i].len - 1);
		}
	for (uint32_t i = 0; i < n; i++) {
		bool known = id[i] != NONE && same_string(*ENTRY(s, SYMBOLS_STRINGS, struct view, id[i]), v[i]);
		im->strings[from + i] = known ? id[i] + 1 : 0;
	}
}

static inline uint32_t import_string(struct import *im, uint32_t i)
{
	if (UNLIKELY(i >= im->p->n_strings))
		return 0;
	if (UNLIKELY(!im->strings[i]))
		im->strings[i] = symbols_intern_string(im->s, im->p->strings[i], im->hashes[i]) + 1;
	return im->strings[i] - 1;
}

/* ---- mappings, functions, locations ---- */

static void import_mappings(struct import *im)
{
	for (uint32_t i = 0; i < im->p->n_mappings; i++) {
		const struct profile_mapping *m = &im->p->mappings[i];
		struct sym_mapping x = {
			.start = m->start, .size = m->limit - m->start, .offset = m->offset,
			.file = import_string(im, m->file_str), .build_id = import_string(im, m->build_id_str),
			.has = (uint8_t)((m->has_functions ? SYM_HAS_FUNCTIONS : 0) | (m->has_filenames ? SYM_HAS_FILENAMES : 0) |
					 (m->has_line_numbers ? SYM_HAS_LINE_NUMBERS : 0) |
					 (m->has_inline_frames ? SYM_HAS_INLINE_FRAMES : 0)),
		};
		im->mappings[i] = symbols_mapping(im->s, &x);
	}
}

static inline bool is_function(const struct symbols *s, uint32_t id, const struct sym_function *f)
{
	const struct sym_function *o = ENTRY(s, SYMBOLS_FUNCTIONS, struct sym_function, id);
	return o->name == f->name && o->system_name == f->system_name && o->filename == f->filename &&
	       o->start_line == f->start_line;
}

static void import_functions(struct import *im, uint32_t from, uint32_t n)
{
	struct symbols *s = im->s;
	struct sym_function f[BATCH];
	uint64_t h[BATCH];
	uint32_t id[BATCH];
	for (uint32_t i = 0; i < n; i++) {
		const struct profile_function *x = &im->p->functions[from + i];
		f[i] = (struct sym_function){ import_string(im, x->name_str), import_string(im, x->system_name_str),
					      import_string(im, x->filename_str), x->start_line };
		h[i] = hash_function(s, &f[i]);
		fetch_slot(&s->functions, h[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		id[i] = candidate(&s->functions, h[i]);
		if (id[i] != NONE)
			__builtin_prefetch(ENTRY(s, SYMBOLS_FUNCTIONS, struct sym_function, id[i]));
	}
	for (uint32_t i = 0; i < n; i++) {
		bool known = id[i] != NONE && is_function(s, id[i], &f[i]);
		im->functions[from + i] = LIKELY(known) ? id[i] : symbols_intern_function(s, &f[i], h[i]);
	}
}

static inline struct sym_line line_of(const struct import *im, const struct profile_location *l, uint32_t i)
{
	const struct profile_line *x = &im->p->lines[l->first_line + i];
	return (struct sym_line){ x->function ? im->functions[x->function - 1] + 1 : 0, x->line, x->column };
}

/* Without its lines. */
static inline struct sym_location location_of(const struct import *im, const struct profile_location *l)
{
	struct sym_location x = { .address = l->address, .n_lines = l->n_lines, .is_folded = l->is_folded };
	if (l->mapping) {
		x.mapping = im->mappings[l->mapping - 1] + 1;
		x.address -= im->p->mappings[l->mapping - 1].start;
	}
	return x;
}

static inline bool is_location(const struct import *im, uint32_t id, const struct sym_location *x,
			       const struct profile_location *l)
{
	const struct sym_location *o = ENTRY(im->s, SYMBOLS_LOCATIONS, struct sym_location, id);
	if (o->address != x->address || o->mapping != x->mapping || o->n_lines != x->n_lines || o->is_folded != x->is_folded)
		return false;
	for (uint32_t i = 0; i < x->n_lines; i++) {
		const struct sym_line *a = ENTRY(im->s, SYMBOLS_LINES, struct sym_line, o->first_line + i);
		struct sym_line b = line_of(im, l, i);
		if (a->function != b.function || a->line != b.line || a->column != b.column)
			return false;
	}
	return true;
}

static uint32_t intern_location(struct import *im, const struct sym_location *x, const struct profile_location *l, uint64_t h)
{
	im->lines.n = 0;
	for (uint32_t i = 0; i < l->n_lines; i++)
		vec_push(&im->lines, line_of(im, l, i));
	return symbols_intern_location(im->s, x, im->lines.v, h);
}

static void import_locations(struct import *im, uint32_t from, uint32_t n)
{
	struct symbols *s = im->s;
	const struct profile_location *l = im->p->locations + from;
	struct sym_location x[BATCH];
	uint64_t h[BATCH];
	uint32_t id[BATCH];
	for (uint32_t i = 0; i < n; i++) {
		x[i] = location_of(im, &l[i]);
		h[i] = hash_location(s, &x[i]);
		for (uint32_t k = 0; k < l[i].n_lines; k++) {
			struct sym_line line = line_of(im, &l[i], k);
			h[i] = hash_line(s, h[i], &line);
		}
		fetch_slot(&s->locations, h[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		id[i] = candidate(&s->locations, h[i]);
		if (id[i] != NONE)
			__builtin_prefetch(ENTRY(s, SYMBOLS_LOCATIONS, struct sym_location, id[i]));
	}
	for (uint32_t i = 0; i < n; i++)
		if (id[i] != NONE && x[i].n_lines)
			__builtin_prefetch(ENTRY(s, SYMBOLS_LINES, struct sym_line,
						 ENTRY(s, SYMBOLS_LOCATIONS, struct sym_location, id[i])->first_line));
	for (uint32_t i = 0; i < n; i++) {
		bool known = id[i] != NONE && is_location(im, id[i], &x[i], &l[i]);
		im->locations[from + i] = LIKELY(known) ? id[i] : intern_location(im, &x[i], &l[i], h[i]);
	}
}

/* ---- samples ---- */

static uint32_t import_labels(struct import *im, const struct profile_sample *sample)
{
	struct sym_label few[16], *l = sample->n_labels <= ARRAY_LEN(few) ? few : xcalloc(sample->n_labels, sizeof *l);
	for (uint32_t i = 0; i < sample->n_labels; i++) {
		const struct profile_label *x = &im->p->labels[sample->first_label + i];
		l[i] = (struct sym_label){ .key = import_string(im, x->key_str), .is_num = x->is_num,
					   .str = import_string(im, x->str), .unit = import_string(im, x->unit_str),
					   .num = x->num };
	}
	uint32_t id = symbols_label_set(im->s, l, sample->n_labels);
	if (l != few)
		free(l);
	return id;
}

/* The columns of n samples into out; stack holds the locations of all samples. */
static void import_samples(struct import *im, uint32_t from, uint32_t n, const uint32_t *stack, uint32_t *out)
{
	struct symbols *s = im->s;
	const struct profile_sample *x = im->p->samples + from;
	const uint32_t *row[BATCH];
	uint64_t h[BATCH];
	uint32_t id[BATCH], set[BATCH];
	for (uint32_t i = 0; i < n; i++) {
		h[i] = hash_stack(s, stack + x[i].first_location, x[i].n_locations);
		fetch_slot(&s->stacks, h[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		id[i] = candidate(&s->stacks, h[i]);
		if (id[i] != NONE)
			__builtin_prefetch(KNOWN_STACK(s, id[i]));
	}
	for (uint32_t i = 0; i < n; i++) {
		row[i] = id[i] == NONE ? NULL : symbols_row(s, id[i]);
		if (row[i]) {
			__builtin_prefetch(row[i]);
			__builtin_prefetch(row[i] + LINE / sizeof *row[i]);
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t *mine = stack + x[i].first_location;
		uint32_t depth = x[i].n_locations;
		if (UNLIKELY(!row[i] || row[i][0] != depth || !same_text(row[i] + 1, mine, depth * sizeof *mine)))
			id[i] = symbols_intern_stack(s, mine, depth, h[i]);
		set[i] = x[i].n_labels ? import_labels(im, &x[i]) : 0;
		if (set[i] && s->columns.slots)
			fetch_slot(&s->columns, hash_column(s, id[i], set[i]));
	}
	for (uint32_t i = 0; i < n; i++)
		out[from + i] = symbols_column(s, id[i], set[i]);
}

/* ---- the call ---- */

/* A young dictionary will take most of the profile in: its indexes grow once, not step by step. What is prefetched must be
 * there in any case. */
static void expect_new(struct symbols *s, const struct profile *p)
{
	bool young = s->strings.n <= p->n_strings;
	map_reserve(&s->strings, s->strings.n + (young ? p->n_strings : 1));
	map_reserve(&s->functions, s->functions.n + (young ? p->n_functions : 1));
	map_reserve(&s->locations, s->locations.n + (young ? p->n_locations : 1));
	map_reserve(&s->stacks, s->stacks.n + (young ? p->n_samples : 1));
	map_reserve(&s->nodes, s->nodes.n + (young ? p->n_stack / 4 : 1));
}

#define IN_BATCHES(call, im, total, ...) do { \
	for (uint32_t from_ = 0, total_ = (total); from_ < total_; from_ += BATCH) \
		call((im), from_, MIN(total_ - from_, (uint32_t)BATCH), ##__VA_ARGS__); \
} while (0)

int symbols_add_profile(struct symbols *s, struct profile *p, uint32_t *out, struct err *e)
{
	struct import im = { .s = s, .p = p };
	im.strings = arena_alloc(&p->arena, p->n_strings * sizeof *im.strings);
	im.hashes = arena_alloc(&p->arena, p->n_strings * sizeof *im.hashes);
	im.mappings = arena_alloc(&p->arena, p->n_mappings * sizeof *im.mappings);
	im.functions = arena_alloc(&p->arena, p->n_functions * sizeof *im.functions);
	im.locations = arena_alloc(&p->arena, p->n_locations * sizeof *im.locations);
	uint32_t *stack = arena_alloc(&p->arena, p->n_stack * sizeof *stack);
	if (!im.strings || !im.hashes || !im.mappings || !im.functions || !im.locations || !stack)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	expect_new(s, p);
	IN_BATCHES(look_up_strings, &im, p->n_strings);
	import_mappings(&im);
	IN_BATCHES(import_functions, &im, p->n_functions);
	IN_BATCHES(import_locations, &im, p->n_locations);
	for (uint32_t i = 0; i < p->n_stack; i++)
		stack[i] = im.locations[p->stack[i]];
	IN_BATCHES(import_samples, &im, p->n_samples, stack, out);
	vec_free(&im.lines);
	return 0;
}
