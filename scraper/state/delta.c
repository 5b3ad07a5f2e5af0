/* SPDX-License-Identifier: Apache-2.0 */
/* See delta.h. One decoder at a time works on a delta. A profile's hashes are in the profile's arena; the baseline is three malloc'd
 * arrays that are replaced as a whole. */
#include "scraper/state/delta.h"

#include <stdlib.h>

#include "base/alloc.h"

#define SEED_A UINT64_C(0x9e3779b97f4a7c15)
#define SEED_B UINT64_C(0xc2b2ae3d27d4eb4f)

static struct delta_key hash2(const void *p, size_t n)
{
	return (struct delta_key){ hash_bytes_seed(p, n, SEED_A), hash_bytes_seed(p, n, SEED_B) };
}

static uint64_t str_hash(const struct profile *p, uint32_t i)
{
	return hash_view(profile_str(p, i));
}

/* The identity of a mapping: its size in pages, offset, build id, or else file. */
static uint64_t mapping_hash(const struct profile *p, const struct profile_mapping *m)
{
	bool has_id = profile_str(p, m->build_id_str).len > 0;
	uint64_t w[] = { (m->limit - m->start + 4095) / 4096, m->offset, has_id,
			 str_hash(p, has_id ? m->build_id_str : m->file_str) };
	return hash_bytes(w, sizeof w);
}

static uint64_t line_hash(const struct profile *p, const struct profile_line *l)
{
	uint64_t w[6] = { (uint64_t)l->line, (uint64_t)l->column };
	if (l->function) {
		const struct profile_function *f = &p->functions[l->function - 1];
		w[2] = str_hash(p, f->name_str);
		w[3] = str_hash(p, f->system_name_str);
		w[4] = str_hash(p, f->filename_str);
		w[5] = (uint64_t)f->start_line + 1;
	}
	return hash_bytes(w, sizeof w);
}

static struct delta_key location_hash(const struct profile *p, const struct profile_location *l)
{
	uint64_t w[4] = { l->address, 0, l->is_folded, l->n_lines };
	if (l->mapping) {
		const struct profile_mapping *m = &p->mappings[l->mapping - 1];
		w[0] = l->address - m->start;
		w[1] = mapping_hash(p, m);
	}
	for (uint32_t i = 0; i < l->n_lines; i++)
		w[3] = hash_u64(w[3] ^ line_hash(p, &p->lines[l->first_line + i]));
	return hash2(w, sizeof w);
}

/* A location as people read it; without names what it is. */
static uint64_t location_name_hash(const struct profile *p, const struct profile_location *l, struct delta_key whole)
{
	uint64_t h = SEED_A;
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *line = &p->lines[l->first_line + i];
		const struct profile_function *f = line->function ? &p->functions[line->function - 1] : NULL;
		if (!f || !profile_str(p, f->name_str).len)
			return whole.a;
		uint64_t w[] = { h, str_hash(p, f->name_str), str_hash(p, f->filename_str), (uint64_t)line->line };
		h = hash_bytes(w, sizeof w);
	}
	return l->n_lines ? h : whole.a;
}

/* A sample's labels in any order: each hashed by itself, and added up. */
static struct delta_key labels_hash(const struct profile *p, const struct profile_sample *s)
{
	struct delta_key sum = { 0 };
	for (uint32_t i = 0; i < s->n_labels; i++) {
		const struct profile_label *l = &p->labels[s->first_label + i];
		uint64_t w[] = { str_hash(p, l->key_str), l->is_num, l->is_num ? (uint64_t)l->num : str_hash(p, l->str),
				 l->is_num ? str_hash(p, l->unit_str) : 0 };
		struct delta_key h = hash2(w, sizeof w);
		sum.a += h.a;
		sum.b += h.b;
	}
	return sum;
}

static uint32_t longest_stack(const struct profile *p)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->n_samples; i++)
		n = MAX(n, p->samples[i].n_locations);
	return n;
}

/* The identity of a sample. */
struct sample_key {
	struct delta_key whole;
	uint64_t names;
};

/* The key of every sample; NULL past the arena's cap. */
static struct sample_key *sample_keys(struct profile *p)
{
	size_t depth = longest_stack(p);
	struct sample_key *locs = arena_alloc(&p->arena, MAX(p->n_locations, 1) * sizeof *locs);
	struct delta_key *path = arena_alloc(&p->arena, (depth + 1) * sizeof *path);
	uint64_t *names = arena_alloc(&p->arena, (depth + 1) * sizeof *names);
	struct sample_key *keys = arena_alloc(&p->arena, MAX(p->n_samples, 1) * sizeof *keys);
	if (!locs || !path || !names || !keys)
		return NULL;
	for (uint32_t i = 0; i < p->n_locations; i++) {
		locs[i].whole = location_hash(p, &p->locations[i]);
		locs[i].names = location_name_hash(p, &p->locations[i], locs[i].whole);
	}
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		for (uint32_t k = 0; k < s->n_locations; k++) {
			path[k] = locs[p->stack[s->first_location + k]].whole;
			names[k] = locs[p->stack[s->first_location + k]].names;
		}
		path[s->n_locations] = labels_hash(p, s);
		names[s->n_locations] = path[s->n_locations].a;
		keys[i].whole = hash2(path, (s->n_locations + 1) * sizeof *path);
		keys[i].names = hash_bytes(names, (s->n_locations + 1) * sizeof *names);
	}
	return keys;
}

static bool find_row(const struct delta *d, struct delta_key k, uint32_t *ret)
{
	uint32_t id;
	for (size_t at = map_start(&d->index, k.a); map_probe(&d->index, k.a, &at, &id);)
		if (d->keys[id].a == k.a && d->keys[id].b == k.b) {
			*ret = id;
			return true;
		}
	return false;
}

static int64_t add(int64_t a, int64_t b)
{
	int64_t r;
	return __builtin_add_overflow(a, b, &r) ? (b < 0 ? INT64_MIN : INT64_MAX) : r;
}

static int64_t subtract(int64_t a, int64_t b)
{
	int64_t r;
	return __builtin_sub_overflow(a, b, &r) ? (b > 0 ? INT64_MIN : INT64_MAX) : r;
}

/* The rows of one profile: equal keys added up. first[row] = the sample that represents the row. */
static void make_rows(struct delta *d, const struct profile *p, const struct sample_key *keys, const uint32_t *columns,
		      uint32_t n_columns, uint32_t *first)
{
	d->n_columns = n_columns;
	d->keys = xcalloc(p->n_samples, sizeof *d->keys);
	d->names = xcalloc(p->n_samples, sizeof *d->names);
	d->values = xcalloc(p->n_samples, n_columns * sizeof *d->values);
	map_reserve(&d->index, p->n_samples);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		uint32_t row;
		if (!find_row(d, keys[i].whole, &row)) {
			row = (uint32_t)d->n_rows++;
			d->keys[row] = keys[i].whole;
			d->names[row] = keys[i].names;
			map_insert(&d->index, keys[i].whole.a, row);
			first[row] = i;
		}
		for (uint32_t c = 0; c < n_columns; c++) {
			int64_t *v = &d->values[(size_t)row * n_columns + c];
			*v = add(*v, p->values[(size_t)i * p->n_sample_types + columns[c]]);
		}
	}
}

/* Did the value of some row fall? */
static bool some_row_fell(const struct delta *old, const struct delta *new)
{
	for (size_t i = 0; i < old->n_rows; i++) {
		uint32_t row;
		bool there = find_row(new, old->keys[i], &row);
		for (uint32_t c = 0; c < old->n_columns; c++) {
			int64_t now = there ? new->values[(size_t)row * new->n_columns + c] : 0;
			if (now < old->values[i * old->n_columns + c])
				return true;
		}
	}
	return false;
}

/* Rows of the same names, taken together. growth[group * n_columns + column]; of_row: the group of each new row. */
struct groups {
	struct map index; /* names -> group */
	uint64_t *names;
	int64_t *before, *growth;
	uint32_t *of_row, n;
};

static uint32_t group_of(struct groups *g, uint64_t names)
{
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&g->index, names, id, g->n, g->names[id] == names))
		g->names[g->n++] = names;
	return id;
}

static void groups_release(struct groups *g)
{
	map_free(&g->index);
	free(g->names);
	free(g->before);
	free(g->growth);
	free(g->of_row);
}

/* False: the value of some group fell. */
static bool groups_make(struct groups *g, const struct delta *old, const struct delta *new)
{
	size_t most = old->n_rows + new->n_rows, columns = new->n_columns;
	*g = (struct groups){ .names = xcalloc(most, sizeof *g->names), .before = xcalloc(most, columns * sizeof *g->before),
			      .growth = xcalloc(most, columns * sizeof *g->growth),
			      .of_row = xcalloc(new->n_rows, sizeof *g->of_row) };
	map_reserve(&g->index, most);
	for (size_t i = 0; i < old->n_rows; i++) {
		size_t at = group_of(g, old->names[i]) * columns;
		for (size_t c = 0; c < columns; c++)
			g->before[at + c] = add(g->before[at + c], old->values[i * columns + c]);
	}
	for (size_t i = 0; i < new->n_rows; i++) {
		g->of_row[i] = group_of(g, new->names[i]);
		size_t at = g->of_row[i] * columns;
		for (size_t c = 0; c < columns; c++)
			g->growth[at + c] = add(g->growth[at + c], new->values[i * columns + c]);
	}
	bool grew = true;
	for (size_t i = 0; i < g->n * columns; i++) {
		grew &= g->growth[i] >= g->before[i];
		g->growth[i] = subtract(g->growth[i], g->before[i]);
	}
	return grew;
}

/* old NULL: all of new is the increase. g: of a group only what all of it grew by; NULL: no row fell. */
static void put_increase(const struct delta *old, const struct delta *new, struct groups *g, const struct profile *p,
			 const uint32_t *columns, const uint32_t *first, int64_t *out)
{
	size_t types = p->n_sample_types;
	for (uint32_t i = 0; i < p->n_samples; i++)
		for (uint32_t c = 0; c < new->n_columns; c++)
			out[i * types + columns[c]] = 0;
	for (size_t row = 0; row < new->n_rows; row++) {
		uint32_t was;
		bool known = old && find_row(old, new->keys[row], &was);
		for (uint32_t c = 0; c < new->n_columns; c++) {
			int64_t before = known ? old->values[(size_t)was * old->n_columns + c] : 0;
			int64_t grew = subtract(new->values[row * new->n_columns + c], before);
			if (g) {
				int64_t *left = &g->growth[(size_t)g->of_row[row] * new->n_columns + c];
				grew = MIN(MAX(grew, 0), *left);
				*left -= grew;
			}
			out[first[row] * types + columns[c]] = grew;
		}
	}
}

/* Most memory that make_rows needs for n samples. */
static size_t baseline_bytes(size_t n, uint32_t n_columns)
{
	return n * (sizeof(struct delta_key) + sizeof(uint64_t) + n_columns * sizeof(int64_t)) + map_bytes_for(n);
}

static size_t groups_bytes(const struct delta *old, const struct delta *new)
{
	size_t most = old->n_rows + new->n_rows;
	return most * (sizeof(uint64_t) + 2 * new->n_columns * sizeof(int64_t)) + new->n_rows * sizeof(uint32_t) + map_bytes_for(most);
}

/* The values of new after old. */
static int compare(const struct delta *old, const struct delta *new, const struct profile *p, const uint32_t *columns,
		   const uint32_t *first, int64_t *out, struct err *e)
{
	struct groups g;
	if (!some_row_fell(old, new)) {
		put_increase(old, new, NULL, p, columns, first, out);
		return DELTA_INCREASE;
	}
	size_t bytes = groups_bytes(old, new);
	if (!budget_take(new->budget, bytes, BUDGET_ALL))
		return err_set(e, ERR_UNAVAILABLE, "there is no room to compare it with the scrape before, %zu bytes", bytes);
	bool reset = !groups_make(&g, old, new);
	put_increase(reset ? NULL : old, new, reset ? NULL : &g, p, columns, first, out);
	groups_release(&g);
	budget_give(new->budget, bytes);
	return reset ? DELTA_RESET : DELTA_INCREASE;
}

/* A new baseline takes the place of the old one, but for a moment there are both. Baselines have to leave room for scrapes, or no
 * scrape could begin again. */
static int take_room(const struct delta *old, struct delta *new, size_t bytes, struct err *e)
{
	size_t more = bytes > old->held ? bytes - old->held : 0;
	if (!budget_take(new->budget, more, BUDGET_KEPT))
		return err_set(e, ERR_UNAVAILABLE, "there is no room for the baseline of its cumulative types, %zu bytes", bytes);
	if (!budget_take(new->budget, bytes - more, BUDGET_ALL)) {
		budget_give(new->budget, more);
		return err_set(e, ERR_UNAVAILABLE, "there is no room for two baselines of its cumulative types, %zu bytes", bytes);
	}
	new->held = bytes;
	return 0;
}

int delta_apply(struct delta *d, struct profile *p, const uint32_t *columns, uint32_t n_columns, int64_t *out,
		struct err *e)
{
	struct delta new = { .primed = true, .budget = d->budget };
	uint32_t *first = arena_alloc(&p->arena, MAX(p->n_samples, 1) * sizeof *first);
	struct sample_key *keys = first ? sample_keys(p) : NULL;
	if (!keys)
		return err_set(e, ERR_LIMIT, "the profile is over the limit of %zu bytes of memory", p->arena.max);
	int rc = take_room(d, &new, baseline_bytes(p->n_samples, n_columns), e);
	if (rc)
		return rc;
	make_rows(&new, p, keys, columns, n_columns, first);
	if (d->primed && d->n_columns == n_columns)
		rc = compare(d, &new, p, columns, first, out, e);
	if (rc < 0) {
		delta_release(&new);
		return rc;
	}
	delta_release(d);
	*d = new;
	return rc; /* DELTA_BASELINE unless they were compared */
}

void delta_release(struct delta *d)
{
	map_free(&d->index);
	free(d->keys);
	free(d->names);
	free(d->values);
	budget_give(d->budget, d->held);
	*d = (struct delta){ .budget = d->budget };
}

size_t delta_bytes(const struct delta *d)
{
	return d->n_rows * (sizeof *d->keys + sizeof *d->names + d->n_columns * sizeof *d->values) +
	       (d->index.slots ? (d->index.mask + 1) * sizeof *d->index.slots : 0);
}
