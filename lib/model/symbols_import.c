/* SPDX-License-Identifier: Apache-2.0 */
/* A whole profile into the dictionary. Nearly all entries of a profile exist already. So its cost is looking them up, which
 * is waiting for memory: a slot, then the entry, then what the entry points at. Therefore a batch takes each of these steps
 * together: the memory for the next step is prefetched while the other entries of the batch take this step.
 *
 * From above: an address of a mapping nearly always has the lines that it had the last time. The location last found
 * there is compared with the profile's byte by byte, with its functions and their strings. If they are equal, it has
 * the ids, and only the place was hashed.
 *
 * From below: the rest (new entries, locations without an address, other programs at the same place) is found by the
 * hashes of strings, then functions, then locations. Entries that the first slot does not answer (new ones, and the few
 * whose hashes begin alike) are interned in the ordinary way. Strings enter the dictionary only when something of the
 * profile uses them. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "model/symbols_internal.h"

enum { BATCH = 32, LINE = 64, BATCHES_TO_PAUSE = 64 };
#define NONE UINT32_MAX
#define LISTED UINT32_MAX /* of strings and functions: not known yet, but on the list */

struct list {
	uint32_t *v, n; /* indices of the profile */
};

struct import {
	struct symbols *s;
	const struct profile *p;
	const struct symbols_pause *pause;
	uint32_t *strings, *functions; /* id + 1; 0 = not met yet */
	uint32_t *mappings, *locations; /* ids; of a location NONE: not known yet */
	struct list new_strings, new_functions, new_locations; /* to be found from below */
	VEC(struct sym_line) lines;
};

/* Something of the profile, and what of the dictionary it may be. */
struct claim {
	uint32_t index, id;
};

static inline void fetch_slot(const struct map *m, uint64_t h)
{
	__builtin_prefetch(&m->slots[map_start(m, h)]);
}

/* The first entry whose hash equals this one in the bits that slots keep; NONE: there is none. */
static inline uint32_t candidate(const struct map *m, uint64_t h)
{
	uint32_t id;
	size_t at = map_start(m, h);
	return map_probe(m, h, &at, &id) ? id : NONE;
}

/* ---- strings ---- */

static inline void fetch_text(const struct symbols *s, uint32_t id)
{
	struct view v = *ENTRY(s, SYMBOLS_STRINGS, struct view, id);
	__builtin_prefetch(v.ptr);
	if (v.len > LINE / 2)
		__builtin_prefetch(v.ptr + v.len - 1);
}

static void find_strings(struct import *im, uint32_t from, uint32_t n)
{
	struct symbols *s = im->s;
	const uint32_t *list = im->new_strings.v + from;
	uint64_t h[BATCH] UNINITIALIZED;
	uint32_t id[BATCH] UNINITIALIZED;
	for (uint32_t i = 0; i < n; i++) {
		h[i] = hash_string(s, im->p->strings[list[i]]);
		fetch_slot(&s->strings, h[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		id[i] = candidate(&s->strings, h[i]);
		if (id[i] != NONE)
			__builtin_prefetch(ENTRY(s, SYMBOLS_STRINGS, struct view, id[i]));
	}
	for (uint32_t i = 0; i < n; i++)
		if (id[i] != NONE)
			fetch_text(s, id[i]);
	for (uint32_t i = 0; i < n; i++) {
		struct view v = im->p->strings[list[i]];
		bool known = id[i] != NONE && same_string(*ENTRY(s, SYMBOLS_STRINGS, struct view, id[i]), v);
		im->strings[list[i]] = (LIKELY(known) ? id[i] : symbols_intern_string(s, v, h[i])) + 1;
	}
}

/* For a string that was found. A profile that did not come from the decoder may have fewer strings than it
 * names. */
static inline uint32_t string_id(const struct import *im, uint32_t i)
{
	return LIKELY(i < im->p->n_strings) ? im->strings[i] - 1 : 0;
}

/* Of any. */
static uint32_t import_string(struct import *im, uint32_t i)
{
	if (i < im->p->n_strings && (!im->strings[i] || im->strings[i] == LISTED))
		im->strings[i] = symbols_string(im->s, im->p->strings[i]) + 1;
	return string_id(im, i);
}

static inline void want_string(struct import *im, uint32_t i)
{
	if (i >= im->p->n_strings || im->strings[i])
		return;
	im->strings[i] = LISTED;
	im->new_strings.v[im->new_strings.n++] = i;
}

/* ---- mappings ---- */

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
		if (!i)
			symbols_mark_main(im->s, &x);
	}
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

/* ---- from above: by the place ---- */

/* Two places for each location of the dictionary, up to a limit. Growing forgets them, which costs a profile's time. */
static void make_places(struct symbols *s)
{
	size_t have = s->places ? s->places_mask + 1 : 0, want = MAX(have, (size_t)1 << 9);
	while (want < s->tables[SYMBOLS_LOCATIONS].n && want < PLACES_MAX)
		want *= 2;
	if (want == have)
		return;
	free(s->places);
	s->places = aligned_alloc(LINE, want * sizeof *s->places);
	if (!s->places)
		abort(); /* at most 4 MB */
	memset(s->places, 0, want * sizeof *s->places);
	s->places_mask = want - 1;
}

static inline uint32_t where(const struct sym_location *x)
{
	return x->mapping << 1 | x->is_folded;
}

/* The location met last at this place. Most have one line: what that says is at hand then. */
static void remember_place(const struct symbols *s, uint64_t h, const struct sym_location *x, uint32_t id)
{
	struct sym_place *p = s->places[h & s->places_mask].of;
	const struct sym_location *o = ENTRY(s, SYMBOLS_LOCATIONS, struct sym_location, id);
	const struct sym_line *l = o->n_lines ? ENTRY(s, SYMBOLS_LINES, struct sym_line, o->first_line) : NULL;
	p[1] = p[0];
	p[0] = (struct sym_place){ .address = x->address, .where = where(x), .location = id + 1 };
	if (o->n_lines == 1 && !l->column)
		p[0] = (struct sym_place){ x->address, where(x), id + 1, true, l->function, l->line };
}

static inline const struct sym_place *look(const struct symbols *s, uint64_t h, const struct sym_location *x)
{
	const struct sym_place *p = s->places[h & s->places_mask].of;
	return p + (p[1].address == x->address && p[1].where == where(x));
}

static inline void check_string(struct import *im, struct claim c)
{
	uint32_t *known = &im->strings[c.index];
	if (!*known && same_string(*ENTRY(im->s, SYMBOLS_STRINGS, struct view, c.id), im->p->strings[c.index]))
		*known = c.id + 1;
}

static inline bool is_known_string(const struct import *im, uint32_t i, uint32_t id)
{
	return i < im->p->n_strings ? im->strings[i] == id + 1 : !id;
}

/* Adds the claim that a string is this one, unless it is known what it is. */
static inline uint32_t claim_string(const struct import *im, struct claim *to, uint32_t n, uint32_t i, uint32_t id)
{
	to[n] = (struct claim){ i, id };
	return n + (i < im->p->n_strings && !im->strings[i]);
}

static void check_functions(struct import *im, const struct claim *functions, uint32_t n)
{
	const struct symbols *s = im->s;
	const struct sym_function *known[BATCH] UNINITIALIZED;
	struct claim strings[BATCH * 3 + 1] UNINITIALIZED;
	uint32_t k = 0;
	for (uint32_t i = 0; i < n; i++) {
		known[i] = ENTRY(s, SYMBOLS_FUNCTIONS, struct sym_function, functions[i].id);
		__builtin_prefetch(known[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct profile_function *x = &im->p->functions[functions[i].index];
		k = claim_string(im, strings, k, x->name_str, known[i]->name);
		if (x->system_name_str != x->name_str)
			k = claim_string(im, strings, k, x->system_name_str, known[i]->system_name);
		k = claim_string(im, strings, k, x->filename_str, known[i]->filename);
	}
	for (uint32_t i = 0; i < k; i++)
		__builtin_prefetch(ENTRY(s, SYMBOLS_STRINGS, struct view, strings[i].id));
	for (uint32_t i = 0; i < k; i++)
		fetch_text(s, strings[i].id);
	for (uint32_t i = 0; i < k; i++)
		check_string(im, strings[i]);
	for (uint32_t i = 0; i < n; i++) {
		const struct profile_function *x = &im->p->functions[functions[i].index];
		if (known[i]->start_line == x->start_line && is_known_string(im, x->name_str, known[i]->name) &&
		    is_known_string(im, x->system_name_str, known[i]->system_name) &&
		    is_known_string(im, x->filename_str, known[i]->filename))
			im->functions[functions[i].index] = functions[i].id + 1;
	}
}

/* The function of a line, id + 1; NONE: not known yet. */
static inline uint32_t function_of(const struct import *im, const struct profile_line *l)
{
	if (!l->function)
		return 0;
	uint32_t id = im->functions[l->function - 1];
	return id ? id : NONE;
}

/* Whether the lines of a location equal those of a known one, as far as their functions are known. */
static inline bool are_lines(const struct import *im, const struct sym_location *known, const struct profile_location *l)
{
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct sym_line *a = ENTRY(im->s, SYMBOLS_LINES, struct sym_line, known->first_line + i);
		const struct profile_line *b = &im->p->lines[l->first_line + i];
		if (a->line != b->line || a->column != b->column || a->function != function_of(im, b))
			return false;
	}
	return true;
}

/* A location of several lines, or none, by itself. */
static bool recognise_lines(struct import *im, uint32_t id, const struct profile_location *l)
{
	const struct sym_location *o = ENTRY(im->s, SYMBOLS_LOCATIONS, struct sym_location, id);
	if (o->n_lines != l->n_lines)
		return false;
	struct claim functions[BATCH] UNINITIALIZED;
	uint32_t n = 0;
	for (uint32_t i = 0; i < MIN(l->n_lines, (uint32_t)BATCH); i++) {
		uint32_t f = im->p->lines[l->first_line + i].function;
		uint32_t to = ENTRY(im->s, SYMBOLS_LINES, struct sym_line, o->first_line + i)->function;
		if (f && to && !im->functions[f - 1])
			functions[n++] = (struct claim){ f - 1, to - 1 };
	}
	if (n)
		check_functions(im, functions, n);
	return are_lines(im, o, l);
}

static void recognise_locations(struct import *im, uint32_t from, uint32_t n)
{
	const struct symbols *s = im->s;
	const struct profile_location *l = im->p->locations + from;
	const struct profile_line *lines = im->p->lines;
	struct claim functions[BATCH + 1] UNINITIALIZED;
	uint32_t n_functions = 0, *id = im->locations + from;
	const struct sym_place *place[BATCH] UNINITIALIZED;
	struct sym_location x[BATCH] UNINITIALIZED;
	uint64_t h[BATCH] UNINITIALIZED;
	for (uint32_t i = 0; i < n; i++) {
		x[i] = location_of(im, &l[i]);
		h[i] = hash_location(s, &x[i]);
		__builtin_prefetch(&s->places[h[i] & s->places_mask]);
	}
	for (uint32_t i = 0; i < n; i++) {
		place[i] = look(s, h[i], &x[i]);
		if (place[i]->address != x[i].address || place[i]->where != where(&x[i]) || !place[i]->location) {
			place[i] = NULL;
		} else if (place[i]->is_line && l[i].n_lines == 1) {
			uint32_t f = lines[l[i].first_line].function, to = place[i]->function;
			functions[n_functions] = (struct claim){ f - 1, to - 1 };
			n_functions += f && to && !im->functions[f - 1];
		}
	}
	check_functions(im, functions, n_functions);
	for (uint32_t i = 0; i < n; i++) {
		const struct sym_place *o = place[i];
		bool known = o;
		if (LIKELY(o && o->is_line && l[i].n_lines == 1)) {
			const struct profile_line *b = &lines[l[i].first_line];
			known = o->line == b->line && !b->column && o->function == function_of(im, b);
		} else if (o) {
			known = recognise_lines(im, o->location - 1, &l[i]);
		}
		id[i] = known ? o->location - 1 : NONE;
		im->new_locations.v[im->new_locations.n] = from + i;
		im->new_locations.n += !known;
	}
}

/* ---- from below: by the hashes ---- */

static inline bool is_function(const struct symbols *s, uint32_t id, const struct sym_function *f)
{
	const struct sym_function *o = ENTRY(s, SYMBOLS_FUNCTIONS, struct sym_function, id);
	return o->name == f->name && o->system_name == f->system_name && o->filename == f->filename &&
	       o->start_line == f->start_line;
}

static void find_functions(struct import *im, uint32_t from, uint32_t n)
{
	struct symbols *s = im->s;
	const uint32_t *list = im->new_functions.v + from;
	struct sym_function f[BATCH] UNINITIALIZED;
	uint64_t h[BATCH] UNINITIALIZED;
	uint32_t id[BATCH] UNINITIALIZED;
	for (uint32_t i = 0; i < n; i++) {
		const struct profile_function *x = &im->p->functions[list[i]];
		f[i] = (struct sym_function){ string_id(im, x->name_str), string_id(im, x->system_name_str),
					      string_id(im, x->filename_str), x->start_line };
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
		im->functions[list[i]] = (LIKELY(known) ? id[i] : symbols_intern_function(s, &f[i], h[i])) + 1;
	}
}

static inline struct sym_line line_of(const struct import *im, const struct profile_location *l, uint32_t i)
{
	const struct profile_line *x = &im->p->lines[l->first_line + i];
	return (struct sym_line){ x->function ? im->functions[x->function - 1] : 0, x->line, x->column };
}

static inline bool is_location(const struct import *im, uint32_t id, const struct sym_location *x,
			       const struct profile_location *l)
{
	const struct sym_location *o = ENTRY(im->s, SYMBOLS_LOCATIONS, struct sym_location, id);
	return o->address == x->address && o->mapping == x->mapping && o->n_lines == x->n_lines &&
	       o->is_folded == x->is_folded && are_lines(im, o, l);
}

static uint32_t intern_location(struct import *im, const struct sym_location *x, const struct profile_location *l, uint64_t h)
{
	im->lines.n = 0;
	for (uint32_t i = 0; i < l->n_lines; i++)
		vec_push(&im->lines, line_of(im, l, i));
	return symbols_intern_location(im->s, x, im->lines.v, h);
}

static void find_locations(struct import *im, uint32_t from, uint32_t n)
{
	struct symbols *s = im->s;
	const uint32_t *list = im->new_locations.v + from;
	const struct profile_location *all = im->p->locations;
	struct sym_location x[BATCH] UNINITIALIZED;
	uint64_t h[BATCH] UNINITIALIZED, place[BATCH] UNINITIALIZED;
	uint32_t id[BATCH] UNINITIALIZED;
	for (uint32_t i = 0; i < n; i++) {
		const struct profile_location *l = &all[list[i]];
		x[i] = location_of(im, l);
		h[i] = place[i] = hash_location(s, &x[i]);
		for (uint32_t k = 0; k < l->n_lines; k++) {
			struct sym_line line = line_of(im, l, k);
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
		const struct profile_location *l = &all[list[i]];
		bool known = id[i] != NONE && is_location(im, id[i], &x[i], l);
		im->locations[list[i]] = LIKELY(known) ? id[i] : intern_location(im, &x[i], l, h[i]);
		remember_place(s, place[i], &x[i], im->locations[list[i]]);
	}
}

/* What the locations on the list need, each once. */
static void list_needs(struct import *im)
{
	const struct profile *p = im->p;
	for (uint32_t i = 0; i < im->new_locations.n; i++) {
		const struct profile_location *l = &p->locations[im->new_locations.v[i]];
		for (uint32_t k = 0; k < l->n_lines; k++) {
			uint32_t f = p->lines[l->first_line + k].function;
			if (!f || im->functions[f - 1])
				continue;
			im->functions[f - 1] = LISTED;
			im->new_functions.v[im->new_functions.n++] = f - 1;
			want_string(im, p->functions[f - 1].name_str);
			want_string(im, p->functions[f - 1].system_name_str);
			want_string(im, p->functions[f - 1].filename_str);
		}
	}
	for (uint32_t i = 0; i < p->n_labels; i++) {
		want_string(im, p->labels[i].key_str);
		want_string(im, p->labels[i].str);
		want_string(im, p->labels[i].unit_str);
	}
}

/* ---- samples ---- */

static uint32_t import_labels(struct import *im, const struct profile_sample *sample)
{
	struct sym_label few[16], *l = sample->n_labels <= ARRAY_LEN(few) ? few : xcalloc(sample->n_labels, sizeof *l);
	for (uint32_t i = 0; i < sample->n_labels; i++) {
		const struct profile_label *x = &im->p->labels[sample->first_label + i];
		l[i] = (struct sym_label){ .key = string_id(im, x->key_str), .is_num = x->is_num,
					   .str = string_id(im, x->str), .unit = string_id(im, x->unit_str),
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
	const uint32_t *row[BATCH] UNINITIALIZED;
	uint64_t h[BATCH] UNINITIALIZED;
	uint32_t id[BATCH] UNINITIALIZED, set[BATCH] UNINITIALIZED;
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

/* A young dictionary will take most of the profile in: its indexes grow once, not step by step. Prefetched entries must
 * exist in any case. */
static void expect_new(struct symbols *s, const struct profile *p)
{
	bool young = s->strings.n <= p->n_strings;
	map_reserve(&s->strings, s->strings.n + (young ? p->n_strings : 1));
	map_reserve(&s->functions, s->functions.n + (young ? p->n_functions : 1));
	map_reserve(&s->locations, s->locations.n + (young ? p->n_locations : 1));
	map_reserve(&s->stacks, s->stacks.n + (young ? p->n_samples : 1));
	make_places(s);
}

static bool begin(struct import *im, struct arena *a)
{
	const struct profile *p = im->p;
	im->strings = arena_calloc(a, p->n_strings, sizeof *im->strings);
	im->functions = arena_calloc(a, p->n_functions, sizeof *im->functions);
	im->mappings = arena_alloc(a, p->n_mappings * sizeof *im->mappings);
	im->locations = arena_alloc(a, p->n_locations * sizeof *im->locations);
	im->new_strings.v = arena_alloc(a, p->n_strings * sizeof *im->new_strings.v);
	im->new_functions.v = arena_alloc(a, p->n_functions * sizeof *im->new_functions.v);
	im->new_locations.v = arena_alloc(a, ((size_t)p->n_locations + 1) * sizeof *im->new_locations.v);
	return im->strings && im->functions && im->mappings && im->locations && im->new_strings.v && im->new_functions.v &&
	       im->new_locations.v;
}

size_t symbols_work_bytes(const struct profile *p)
{
	enum { ALLOCATIONS = 8, ALIGNMENT = 16 };
	size_t n = (size_t)p->n_stack + 2 * ((size_t)p->n_strings + p->n_functions + p->n_locations) + p->n_mappings;
	return (n + ALLOCATIONS) * sizeof(uint32_t) + ALLOCATIONS * ALIGNMENT;
}

#define IN_BATCHES(call, im, total, ...) do { \
	for (uint32_t from_ = 0, total_ = (total); from_ < total_; from_ += BATCH) { \
		call((im), from_, MIN(total_ - from_, (uint32_t)BATCH), ##__VA_ARGS__); \
		if ((im)->pause && from_ / BATCH % BATCHES_TO_PAUSE == BATCHES_TO_PAUSE - 1) \
			(im)->pause->fn((im)->pause->arg); \
	} \
} while (0)

int symbols_add_profile(struct symbols *s, struct profile *p, uint32_t *out, const struct symbols_pause *pause, struct err *e)
{
	struct import im = { .s = s, .p = p, .pause = pause };
	uint32_t *stack = arena_alloc(&p->arena, p->n_stack * sizeof *stack);
	if (!begin(&im, &p->arena) || !stack)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	symbols_index(s, pause);
	expect_new(s, p);
	import_mappings(&im);
	IN_BATCHES(recognise_locations, &im, p->n_locations);
	list_needs(&im);
	IN_BATCHES(find_strings, &im, im.new_strings.n);
	IN_BATCHES(find_functions, &im, im.new_functions.n);
	IN_BATCHES(find_locations, &im, im.new_locations.n);
	for (uint32_t i = 0; i < p->n_stack; i++)
		stack[i] = im.locations[p->stack[i]];
	IN_BATCHES(import_samples, &im, p->n_samples, stack, out);
	vec_free(&im.lines);
	return 0;
}
