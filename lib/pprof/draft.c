/* SPDX-License-Identifier: Apache-2.0 */
#include "pprof/draft.h"

#include "base/clock.h"
#include "base/map.h"

#define STEPS 4096 /* between two questions to go_on */
#define MAPPINGS_MAX 16384 /* each address is looked for in all of them */
#define FRAMES 64 /* that there is room for at first */

void draft_begin(struct draft *d, struct profile *p, const char *what, struct view text, const struct pprof_limits *lim, struct err *e)
{
	*d = (struct draft){ .p = p, .what = what, .at = text.ptr, .end = text.ptr + text.len, .lim = *lim, .e = e,
			     .seed = hash_u64((uint64_t)clock_mono_ns() ^ (uintptr_t)p) };
	draft_string(d, VIEW(""));
	if (!(p->stack = arena_alloc(&p->arena, FRAMES * sizeof *p->stack))) /* never NULL: a sample without frames has an address, too */
		draft_fail(d, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	else
		d->cap_stack = FRAMES;
}

int draft_fail(struct draft *d, enum err_code code, const char *fmt, ...)
{
	if (d->rc)
		return d->rc;
	va_list ap;
	va_start(ap, fmt);
	d->rc = err_vset(d->e, code, fmt, ap);
	va_end(ap);
	if (d->line_no)
		return err_wrap(d->e, "%s, line %llu", d->what, (unsigned long long)d->line_no);
	return err_wrap(d->e, "%s", d->what);
}

void draft_step(struct draft *d)
{
	if (++d->work % STEPS == 0 && d->lim.go_on && !d->rc)
		d->rc = d->lim.go_on(d->lim.go_on_arg, d->e);
}

bool draft_line(struct draft *d, struct view *ret)
{
	if (d->rc || d->at >= d->end)
		return false;
	const char *nl = memchr(d->at, '\n', (size_t)(d->end - d->at)), *end = nl ? nl : d->end;
	*ret = view_make(d->at, (size_t)(end - d->at));
	if (ret->len && ret->ptr[ret->len - 1] == '\r')
		ret->len--;
	d->at = nl ? nl + 1 : d->end;
	d->line_no++;
	draft_step(d);
	return !d->rc;
}

/* ---- tables ---- */

static void *room(struct draft *d, void *table, uint32_t n, uint32_t *cap, size_t item, const char *what, uint32_t max)
{
	if (n < *cap || d->rc)
		return table;
	if (n >= max) {
		draft_fail(d, ERR_LIMIT, "more than %u %s", max, what);
		return table;
	}
	uint32_t bigger = (uint32_t)MIN((uint64_t)MAX(*cap, 64u) * 2, (uint64_t)max);
	void *fresh = arena_alloc(&d->p->arena, (size_t)bigger * item);
	if (!fresh) {
		draft_fail(d, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", d->p->arena.max);
		return table;
	}
	if (n)
		memcpy(fresh, table, n * item);
	*cap = bigger;
	return fresh;
}
#define ROOM(d, table, n, cap, what, max) ((table) = room(d, table, n, cap, sizeof *(table), what, max), (d)->rc == 0)

static void index_put(struct draft_index *x, uint64_t slot)
{
	uint32_t at = (uint32_t)(slot >> 32) & x->mask;
	while (x->slots[at])
		at = (at + 1) & x->mask;
	x->slots[at] = slot;
}

/* Room for one more. */
static bool index_grow(struct draft *d, struct draft_index *x)
{
	if (x->slots && x->n < (x->mask + 1) / 4 * 3)
		return true;
	struct draft_index old = *x;
	uint64_t slots = old.slots ? ((uint64_t)old.mask + 1) * 2 : 128;
	x->slots = arena_calloc(&d->p->arena, slots, sizeof *x->slots);
	if (!x->slots) {
		*x = old;
		draft_fail(d, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", d->p->arena.max);
		return false;
	}
	x->mask = (uint32_t)(slots - 1);
	for (uint64_t i = 0; old.slots && i <= old.mask; i++)
		if (old.slots[i])
			index_put(x, old.slots[i]);
	return true;
}

static void index_add(struct draft *d, struct draft_index *x, uint64_t hash, uint32_t id)
{
	if (!index_grow(d, x))
		return;
	index_put(x, (hash & ~(uint64_t)UINT32_MAX) | (id + 1));
	x->n++;
}

/* Walks over the ids whose hash may be that one; *at begins as the hash's upper half. */
static bool index_probe(const struct draft_index *x, uint64_t hash, uint32_t *at, uint32_t *ret_id)
{
	while (x->slots) {
		uint64_t slot = x->slots[*at & x->mask];
		if (!slot)
			return false;
		++*at;
		if ((slot ^ hash) >> 32 == 0) {
			*ret_id = (uint32_t)slot - 1;
			return true;
		}
	}
	return false;
}

uint32_t draft_string(struct draft *d, struct view v)
{
	struct profile *p = d->p;
	uint64_t h = hash_bytes_seed(v.ptr, v.len, d->seed);
	uint32_t id, at = (uint32_t)(h >> 32);
	while (index_probe(&d->strings, h, &at, &id))
		if (view_eq(p->strings[id], v))
			return id;
	if (!ROOM(d, p->strings, p->n_strings, &d->cap_strings, "strings", d->lim.max_strings))
		return 0;
	p->strings[p->n_strings] = v;
	index_add(d, &d->strings, h, p->n_strings);
	return p->n_strings++;
}

void draft_sample_type(struct draft *d, const char *type, struct view unit)
{
	struct profile *p = d->p;
	struct profile_value_type t = { draft_string(d, view_of(type)), draft_string(d, unit) };
	if (!p->sample_types)
		p->sample_types = arena_alloc(&p->arena, 4 * sizeof t);
	if (!p->sample_types)
		draft_fail(d, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	else if (p->n_sample_types >= 4)
		draft_fail(d, ERR_BAD_DATA, "its sample types are said twice");
	else
		p->sample_types[p->n_sample_types++] = t;
}

void draft_period_type(struct draft *d, const char *type, const char *unit)
{
	d->p->period_type = (struct profile_value_type){ draft_string(d, view_of(type)), draft_string(d, view_of(unit)) };
}

static uint32_t add_location(struct draft *d, uint64_t address)
{
	struct profile *p = d->p;
	if (!ROOM(d, p->locations, p->n_locations, &d->cap_locations, "locations", d->lim.max_locations))
		return 0;
	p->locations[p->n_locations] = (struct profile_location){ .address = address };
	return p->n_locations++;
}

/* The hash is of what was asked for: a location may have lost its address since (Java). */
uint32_t draft_find_address(struct draft *d, uint64_t address)
{
	uint64_t h = hash_u64(address ^ d->seed);
	uint32_t id, at = (uint32_t)(h >> 32);
	while (index_probe(&d->addresses, h, &at, &id))
		if (d->p->locations[id].address == address)
			return id;
	return UINT32_MAX;
}

uint32_t draft_address(struct draft *d, uint64_t address)
{
	uint32_t id = draft_find_address(d, address);
	if (id != UINT32_MAX)
		return id;
	id = add_location(d, address);
	if (!d->rc)
		index_add(d, &d->addresses, hash_u64(address ^ d->seed), id);
	return id;
}

uint32_t draft_function(struct draft *d, struct view name, struct view file)
{
	struct profile *p = d->p;
	uint32_t str = draft_string(d, name);
	uint64_t h = hash_u64(str ^ d->seed);
	uint32_t id, at = (uint32_t)(h >> 32);
	while (index_probe(&d->functions, h, &at, &id))
		if (p->functions[id].name_str == str)
			return id + 1;
	if (!ROOM(d, p->functions, p->n_functions, &d->cap_functions, "functions", d->lim.max_locations))
		return 0;
	p->functions[p->n_functions] = (struct profile_function){ .name_str = str, .system_name_str = str, .filename_str = draft_string(d, file) };
	index_add(d, &d->functions, h, p->n_functions);
	return ++p->n_functions;
}

void draft_set_line(struct draft *d, uint32_t location, uint32_t function, int64_t line)
{
	struct profile *p = d->p;
	if (d->rc || !ROOM(d, p->lines, p->n_lines, &d->cap_lines, "lines", d->lim.max_locations))
		return;
	p->locations[location].first_line = p->n_lines;
	p->locations[location].n_lines = 1;
	p->lines[p->n_lines++] = (struct profile_line){ .function = function, .line = line };
}

/* A function without an address is made together with its location: the two have the same place. */
uint32_t draft_name(struct draft *d, struct view name)
{
	uint32_t function = draft_function(d, name, VIEW(""));
	if (d->rc || function <= d->p->n_locations)
		return d->rc ? 0 : function - 1;
	uint32_t id = add_location(d, 0);
	draft_set_line(d, id, function, 0);
	return id;
}

struct profile_mapping *draft_mapping(struct draft *d)
{
	struct profile *p = d->p;
	if (!ROOM(d, p->mappings, p->n_mappings, &d->cap_mappings, "mappings", MAPPINGS_MAX))
		return NULL;
	p->mappings[p->n_mappings] = (struct profile_mapping){ 0 };
	return &p->mappings[p->n_mappings++];
}

/* ---- samples ---- */

void draft_sample(struct draft *d, const int64_t *values)
{
	struct profile *p = d->p;
	uint32_t types = p->n_sample_types;
	draft_step(d);
	if (!types)
		draft_fail(d, ERR_BAD_DATA, "it does not say what its values are");
	if (d->rc || !ROOM(d, p->samples, p->n_samples, &d->cap_samples, "samples", d->lim.max_samples))
		return;
	size_t n = (size_t)p->n_samples * types;
	if (n + types > d->cap_values) {
		size_t cap = MAX(n * 2, (size_t)256);
		int64_t *fresh = arena_alloc(&p->arena, cap * sizeof *fresh);
		if (!fresh) {
			draft_fail(d, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
			return;
		}
		if (n)
			memcpy(fresh, p->values, n * sizeof *fresh);
		p->values = fresh;
		d->cap_values = cap;
	}
	memcpy(p->values + n, values, types * sizeof *values);
	p->samples[p->n_samples++] = (struct profile_sample){ .first_location = p->n_stack, .first_label = p->n_labels };
}

void draft_frame(struct draft *d, uint32_t location)
{
	struct profile *p = d->p;
	if (d->rc || !ROOM(d, p->stack, p->n_stack, &d->cap_stack, "frames", UINT32_MAX))
		return;
	struct profile_sample *s = &p->samples[p->n_samples - 1];
	if (s->n_locations >= d->lim.max_depth) {
		draft_fail(d, ERR_LIMIT, "a stack of more than %u frames", d->lim.max_depth);
		return;
	}
	p->stack[p->n_stack++] = location;
	s->n_locations++;
}

void draft_number(struct draft *d, const char *key, int64_t v)
{
	struct profile *p = d->p;
	uint32_t str = draft_string(d, view_of(key));
	if (d->rc || !ROOM(d, p->labels, p->n_labels, &d->cap_labels, "labels", UINT32_MAX))
		return;
	p->labels[p->n_labels++] = (struct profile_label){ .key_str = str, .is_num = true, .num = v };
	p->samples[p->n_samples - 1].n_labels++;
}

void draft_drop_caller(struct draft *d, struct profile_sample *s)
{
	uint32_t *stack = d->p->stack + s->first_location;
	stack[1] = stack[0];
	s->first_location++;
	s->n_locations--;
}

void draft_reverse(struct draft *d)
{
	const struct profile_sample *s = &d->p->samples[d->p->n_samples - 1];
	uint32_t *v = d->p->stack + s->first_location;
	for (uint32_t i = 0, k = s->n_locations; i + 1 < k; i++) {
		uint32_t x = v[i];
		v[i] = v[--k];
		v[k] = x;
	}
}

int draft_end(struct draft *d)
{
	struct profile *p = d->p;
	if (d->rc)
		return d->rc;
	uint32_t *place = arena_calloc(&p->arena, (size_t)p->n_locations + 1, sizeof *place), n = 0; /* + 1 */
	struct profile_location *kept = arena_alloc(&p->arena, ((size_t)p->n_locations + 1) * sizeof *kept);
	if (!place || !kept)
		return draft_fail(d, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	uint32_t n_stack = 0; /* frames that were dropped leave no gaps */
	for (uint32_t s = 0; s < p->n_samples; s++) {
		uint32_t from = p->samples[s].first_location;
		p->samples[s].first_location = n_stack;
		for (uint32_t i = 0; i < p->samples[s].n_locations; i++) {
			uint32_t at = p->stack[from + i];
			if (!place[at]) {
				kept[n] = p->locations[at];
				place[at] = ++n;
			}
			p->stack[n_stack++] = place[at] - 1;
		}
	}
	p->n_stack = n_stack;
	p->locations = kept;
	p->n_locations = n;
	return 0;
}
