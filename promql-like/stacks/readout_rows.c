/* SPDX-License-Identifier: Apache-2.0 */
/* A row per function (line, file, binary, package) of one profile. Its stacks are a tree. Values are added up from the leaves to the
 * root, and at each frame go to its row, unless a caller above has the same row. So a recursive function counts once per stack, and
 * each node is added up once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/frame.h"
#include "promql-like/stacks/readout.h"

/* ---- rows ---- */

const char *const granularity_names[BY_PACKAGE + 1] = { "function", "line", "file", "binary", "package" };

static struct readout_row make_row(struct readout *r, const struct symbols *s, const struct sym_location *l, uint32_t i, char line[24])
{
	struct readout_row x = { VIEW(""), VIEW(""), VIEW(""), 0 };
	struct view name = frame_name(s, l, i, &r->tmp), binary = frame_binary(s, l);
	switch (r->by) {
	case BY_FUNCTION: x.function = name; break;
	case BY_LINE:
		x.function = name;
		x.file = frame_file(s, l, i);
		if (frame_line(s, l, i)) {
			int n = snprintf(line, 24, "%lld", (long long)frame_line(s, l, i));
			x.line = view_make(line, (size_t)n);
		}
		break;
	case BY_FILE: x.function = frame_file(s, l, i); break;
	case BY_BINARY: x.function = binary; break;
	case BY_PACKAGE: x.function = frame_function(s, l, i) ? frame_package(name, binary, frame_file(s, l, i)) : binary; break;
	}
	return x;
}

/* Data in a dictionary stays there as long as the memo holds it; data made for this row does not. */
static struct view keep_text(struct readout *r, struct view v)
{
	bool made = r->tmp.ptr && v.ptr >= r->tmp.ptr && v.ptr < r->tmp.ptr + r->tmp.len;
	return made ? eval_view(r->q, v) : v;
}

static bool same_row(const struct readout_row *x, const struct readout_row *y)
{
	return view_eq(x->function, y->function) && view_eq(x->file, y->file) && view_eq(x->line, y->line);
}

static uint64_t length_bit(const struct readout_row *x)
{
	return (uint64_t)1 << x->function.len % 64;
}

static bool row_set_has(const struct row_set *s, const struct readout_row *x)
{
	uint32_t id;
	for (size_t at = map_start(&s->map, x->hash); map_probe(&s->map, x->hash, &at, &id);)
		if (same_row(x, &s->rows.v[id]))
			return true;
	return false;
}

static void row_set_add(struct row_set *s, const struct readout_row *x)
{
	if (row_set_has(s, x))
		return;
	map_insert(&s->map, x->hash, (uint32_t)s->rows.n);
	s->lengths |= length_bit(x);
	vec_push(&s->rows, *x);
}

void row_set_free(struct row_set *s)
{
	map_free(&s->map);
	vec_free(&s->rows);
}

static uint64_t row_hash(const struct readout *r, struct readout_row *x)
{
	if (!x->hash)
		x->hash = (r->by == BY_LINE ? hash_view(x->function) ^ hash_u64(hash_view(x->file)) ^ hash_u64(hash_view(x->line) + 1)
					    : hash_view(x->function)) | 1;
	return x->hash;
}

static uint32_t new_row(struct readout *r, struct readout_row x)
{
	vec_push(&r->rows, x);
	return (uint32_t)r->rows.n - 1;
}

/* From now on rows are compared by their names. */
static void map_rows(struct readout *r)
{
	for (uint32_t i = 0; i < r->rows.n && !r->mapped; i++)
		map_insert(&r->row_map, row_hash(r, &r->rows.v[i]), i);
	r->mapped = true;
}

static uint32_t row_of(struct readout *r, struct readout_row x)
{
	uint64_t h = row_hash(r, &x);
	uint32_t id;
	map_rows(r);
	if (!MAP_FIND_OR_ADD(&r->row_map, h, id, r->rows.n, same_row(&x, &r->rows.v[id])))
		new_row(r, (struct readout_row){ keep_text(r, x.function), x.file, x.line.len ? eval_view(r->q, x.line) : x.line, h });
	return id;
}

uint32_t readout_row_of(struct readout *r, struct view function, struct view file, struct view line)
{
	struct readout_row x = { function, file, line, 0 };
	uint64_t h = row_hash(r, &x);
	uint32_t id;
	map_rows(r);
	if (!MAP_FIND_OR_ADD(&r->row_map, h, id, r->rows.n, same_row(&x, &r->rows.v[id])))
		new_row(r, (struct readout_row){ eval_view(r->q, function), eval_view(r->q, file), eval_view(r->q, line), h });
	return id;
}

bool readout_wants_name(struct readout *r, const struct row_set *names, uint32_t row)
{
	struct readout_row *x = &r->rows.v[row];
	if (!(names->lengths & length_bit(x)))
		return false;
	row_hash(r, x);
	return row_set_has(names, x);
}

void readout_note_put(struct readout *r, uint32_t row)
{
	struct readout_row *x = &r->rows.v[row];
	row_hash(r, x); /* who asks for it later has no dictionary for it */
	struct readout_row copy = { eval_view(r->q, x->function), eval_view(r->q, x->file), eval_view(r->q, x->line), x->hash };
	row_set_add(r->choice->put, &copy);
}

/* In one dictionary, strings differ if their numbers do, so functions are compared without reading their names. */
static bool has_number(const struct readout *r, const struct row_memo *m, const struct sym_location *l, uint32_t i, uint32_t *ret)
{
	const struct sym_function *f = r->by == BY_FUNCTION && !r->mapped ? frame_function(m->s, l, i) : NULL;
	struct view name = f ? symbols_get_string(m->s, f->name) : VIEW("");
	*ret = f ? f->name : 0;
	return name.len && !view_eqs(name, "(lost)") && f->name < m->n_names; /* lost ones look alike */
}

static uint32_t numbered_row(struct readout *r, struct row_memo *m, uint32_t name)
{
	uint32_t *at = &m->names[name];
	if (!*at)
		*at = new_row(r, (struct readout_row){ symbols_get_string(m->s, name), VIEW(""), VIEW(""), 0 }) + 1;
	return *at - 1;
}

static uint32_t row_id(struct readout *r, const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	char line[24];
	return row_of(r, make_row(r, s, l, i, line));
}

struct row_memo *readout_memo(struct readout *r, struct symbols *s)
{
	uint32_t lines = symbols_count(s, SYMBOLS_LINES), locations = symbols_count(s, SYMBOLS_LOCATIONS);
	for (size_t i = 0; i < r->memos.n; i++) {
		struct row_memo *m = &r->memos.v[i];
		if (m->s != s)
			continue;
		if (m->n_lines < lines || m->n_locations < locations) {
			m->lines = xreallocarray(m->lines, lines + 1, 4);
			m->bare = xreallocarray(m->bare, locations + 1, 4);
			memset(m->lines + m->n_lines, 0, (lines - m->n_lines) * 4);
			memset(m->bare + m->n_locations, 0, (locations - m->n_locations) * 4);
			m->n_lines = lines;
			m->n_locations = locations;
		}
		return m;
	}
	struct row_memo m = { .s = symbols_ref(s), .lines = xcalloc(lines + 1, 4), .bare = xcalloc(locations + 1, 4), .n_lines = lines,
			      .n_locations = locations };
	if (r->memos.n) {
		map_rows(r);
	} else if (r->by == BY_FUNCTION) {
		m.n_names = symbols_count(s, SYMBOLS_STRINGS);
		m.names = xcalloc((size_t)m.n_names + 1, 4);
	}
	vec_push(&r->memos, m);
	return &r->memos.v[r->memos.n - 1];
}

uint32_t readout_row(struct readout *r, struct row_memo *m, uint32_t location, uint32_t i)
{
	const struct sym_location *l = symbols_get_location(m->s, location);
	uint32_t *at = l->n_lines ? &m->lines[l->first_line + i] : &m->bare[location];
	uint32_t name;
	if (!*at)
		*at = (has_number(r, m, l, i, &name) ? numbered_row(r, m, name) : row_id(r, m->s, l, i)) + 1;
	return *at - 1;
}

/* The row of a location that is one frame; SEVERAL for one with more. */
#define SEVERAL (UINT32_MAX - 1)
static inline uint32_t location_row(struct readout *r, struct row_memo *m, uint32_t location)
{
	uint32_t *at = &m->bare[location];
	if (!*at)
		*at = (frame_count(symbols_get_location(m->s, location)) == 1 ? readout_row(r, m, location, 0) : SEVERAL) + 1;
	return *at - 1;
}

/* ---- one profile ---- */

static void grow_rows(struct readout *r, uint32_t row)
{
	size_t n = MAX((size_t)row + 1, r->n_sums * 2 + 64);
	r->sums = xreallocarray(r->sums, n, sizeof *r->sums);
	memset(r->sums + r->n_sums, 0, (n - r->n_sums) * sizeof *r->sums);
	r->on = xreallocarray(r->on, n, sizeof *r->on);
	memset(r->on + r->n_sums, 0, (n - r->n_sums) * sizeof *r->on);
	r->n_sums = n;
}

static inline void need_rows(struct readout *r, uint32_t row)
{
	if (row >= r->n_sums)
		grow_rows(r, row);
}

static struct row_sum *touch(struct readout *r, uint32_t row)
{
	struct row_sum *x = &r->sums[row];
	if (!x->touched)
		vec_push(&r->touched, row);
	x->touched = true;
	return x;
}

static inline void add_value(struct row_sum *x, const struct stackvec *v, size_t i, bool minus)
{
	if (v->is_float)
		num_sum_add(&x->f, minus ? -v->floats[i] : v->floats[i]);
	else
		x->i += minus ? -(wide)v->ints[i] : (wide)v->ints[i];
}

/* The data for making the rows of one side. */
struct side_reader {
	struct readout *r;
	struct row_memo *m;
	struct frames_memo frames; /* of those that count, or whose neighbours do */
	const struct stackvec *v;
	bool minus;
};

static bool counts(struct side_reader *a, uint32_t location, uint32_t i)
{
	return !a->r->frame_rows || frames_memo_match(&a->frames, location, i);
}

static void count_self(struct side_reader *a, size_t i, uint32_t node)
{
	uint32_t location = symbols_get_node(a->m->s, node)->location;
	if (!counts(a, location, 0))
		return;
	uint32_t row = readout_row(a->r, a->m, location, 0);
	need_rows(a->r, row);
	add_value(touch(a->r, row), a->v, i, a->minus);
}

/* Neighbours of matching frames, walking from the leaf: their callers, or their callees. A function that calls itself is not its own
 * neighbour, as in pprof's peek. */
static void count_neighbour(struct side_reader *a, size_t i, uint32_t row)
{
	struct readout *r = a->r;
	need_rows(r, row);
	struct row_sum *x = touch(r, row);
	if (x->stamp == r->stamp)
		return;
	x->stamp = r->stamp;
	add_value(x, a->v, i, a->minus);
}

static void count_neighbours(struct side_reader *a, size_t i, uint32_t node)
{
	struct readout *r = a->r;
	bool below_matches = false, has_below = false;
	uint32_t below_row = 0;
	r->stamp++;
	for (; node; node = symbols_get_node(a->m->s, node)->parent) {
		uint32_t location = symbols_get_node(a->m->s, node)->location;
		uint32_t n = frame_count(symbols_get_location(a->m->s, location));
		for (uint32_t k = 0; k < n; k++) {
			bool matches = frames_memo_match(&a->frames, location, k);
			uint32_t row = readout_row(r, a->m, location, k);
			if (r->measure == CALLERS && below_matches && row != below_row)
				count_neighbour(a, i, row);
			if (r->measure == CALLEES && matches && has_below && row != below_row)
				count_neighbour(a, i, below_row);
			below_matches = matches;
			below_row = row;
			has_below = true;
		}
	}
}

/* ---- total: the tree ----
 *
 * In a dictionary a caller's node has a smaller number than those it calls. So the nodes of a profile are visited by ascending number
 * to find the frames that count, and descending to add them up. Memory is read in order, except for a caller, which mostly is the
 * previous one. */

struct row_frame {
	uint32_t caller;           /* smaller than its own place in r->tree; 0: none, that place is not a frame */
	uint32_t row;              /* NO_ROW: a caller above is of the same, this one only passes on */
	union {
		int64_t i;         /* may wrap around on the way, see SMALL */
		double f;
	};
};
#define NO_ROW UINT32_MAX

static bool is_zero(const struct stackvec *v, size_t i)
{
	return v->is_float ? v->floats[i] == 0 : v->ints[i] == 0;
}

/* Marks the nodes of all stacks; returns their number. */
static size_t mark_nodes(struct side_reader *a)
{
	struct row_memo *m = a->m;
	const struct sym_node *run = NULL;
	uint32_t first = 0, end = 0;
	size_t n = 0;
	for (size_t i = 0; i < a->v->n; i++) {
		uint32_t node = is_zero(a->v, i) ? 0 : symbols_get_column(m->s, a->v->columns[i])->node;
		while (node) {
			uint64_t *word = &m->marks[node / 64], bit = (uint64_t)1 << node % 64;
			if (*word & bit)
				break;
			if (!*word)
				m->marked[node / 4096] |= (uint64_t)1 << node / 64 % 64;
			*word |= bit;
			n++;
			if (node < first || node >= end)
				run = symbols_node_run(m->s, node, &first, &end);
			node = run[node - first].parent;
		}
	}
	return n;
}

/* r->on has the rows of the frame at r->path and of those above it: goes to another frame. In the order in which nodes were added,
 * most go one frame down; at worst all take as long as walking each stack. */
static void go_to(struct readout *r, uint32_t to)
{
	const struct row_frame *t = r->tree.v;
	uint32_t from = r->path, up = to;
	while (from != up) {
		uint32_t at = MAX(from, up), row = t[at].row;
		if (at == from) {
			if (row != NO_ROW && r->on[row] == at)
				r->on[row] = 0;
			from = t[at].caller;
		} else {
			if (row != NO_ROW)
				r->on[row] = at;
			up = t[at].caller;
		}
	}
	r->path = to;
}

static inline uint32_t add_frame(struct readout *r, uint32_t caller, uint32_t row)
{
	need_rows(r, row);
	go_to(r, caller);
	bool again = r->on[row] != 0;
	uint32_t at = (uint32_t)r->tree.n;
	vec_push(&r->tree, (struct row_frame){ .caller = caller, .row = again ? NO_ROW : row });
	if (!again)
		r->on[row] = at;
	r->path = at;
	return at;
}

static void add_node(struct side_reader *a, uint32_t node, const struct sym_node *of)
{
	uint32_t at = of->parent ? a->m->place[of->parent] : 0;
	uint32_t row = location_row(a->r, a->m, of->location);
	uint32_t frames = row == SEVERAL ? frame_count(symbols_get_location(a->m->s, of->location)) : 1;
	for (uint32_t k = frames; k-- > 0;)
		if (counts(a, of->location, k))
			at = add_frame(a->r, at, row == SEVERAL ? readout_row(a->r, a->m, of->location, k) : row);
	a->m->place[node] = at;
}

/* Frames of the marked nodes. Takes the marks away. */
static void add_marked(struct side_reader *a)
{
	struct row_memo *m = a->m;
	const struct sym_node *run = NULL;
	uint32_t first = 0, end = 0;
	for (size_t g = 0; g <= m->n_place / 4096; g++) {
		for (; m->marked[g]; m->marked[g] &= m->marked[g] - 1) {
			size_t w = g * 64 + (size_t)__builtin_ctzll(m->marked[g]);
			for (; m->marks[w]; m->marks[w] &= m->marks[w] - 1) {
				uint32_t node = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(m->marks[w]);
				if (node < first || node >= end)
					run = symbols_node_run(m->s, node, &first, &end);
				add_node(a, node, &run[node - first]);
			}
		}
	}
	go_to(a->r, 0);
}

/* Values whose sums cannot exceed 64 bits are added up directly; others, which are rare, by their lower and upper halves. */
#define SMALL 0x1p62
enum halves { WHOLE, LOWER, UPPER };

/* Floats go through a sum whose result does not depend on the order: nodes are in the order in which the dictionary met them. */
static inline void add_float(struct readout *r, size_t at, double v)
{
	struct num_sum sum = { r->tree.v[at].f, r->tree_rests.v[at] };
	num_sum_add(&sum, v);
	r->tree.v[at].f = sum.sum;
	r->tree_rests.v[at] = sum.rest;
}

static void add_leaves(struct side_reader *a, enum halves part)
{
	const struct stackvec *v = a->v;
	for (size_t i = 0; i < v->n; i++) {
		uint32_t node = is_zero(v, i) ? 0 : symbols_get_column(a->m->s, v->columns[i])->node;
		if (!node)
			continue;
		struct row_frame *leaf = &a->r->tree.v[a->m->place[node]];
		if (v->is_float)
			add_float(a->r, a->m->place[node], v->floats[i]);
		else
			leaf->i += part == LOWER ? v->ints[i] & UINT32_MAX : part == UPPER ? v->ints[i] >> 32 : v->ints[i];
	}
}

/* Callees first: what is added up at a frame is complete then. Leaves zeros. */
static void count_part(struct side_reader *a, enum halves part)
{
	struct readout *r = a->r;
	wide unit = part == UPPER ? (wide)1 << 32 : 1;
	add_leaves(a, part);
	for (size_t at = r->tree.n; --at > 0;) {
		struct row_frame *n = &r->tree.v[at], *caller = &r->tree.v[n->caller];
		struct row_sum *x = n->row == NO_ROW ? NULL : touch(r, n->row);
		if (a->v->is_float) {
			double v = num_sum_value((struct num_sum){ n->f, r->tree_rests.v[at] });
			if (x)
				num_sum_add(&x->f, a->minus ? -v : v);
			add_float(r, n->caller, v);
		} else {
			if (x)
				x->i += (a->minus ? -(wide)n->i : (wide)n->i) * unit;
			caller->i += n->i;
		}
		n->i = 0;
	}
	r->tree.v[0].i = 0;
}

static void need_nodes(struct row_memo *m)
{
	size_t n = (size_t)symbols_count(m->s, SYMBOLS_NODES) + 1;
	if (n <= m->n_place)
		return;
	free(m->place);
	free(m->marks);
	free(m->marked);
	m->place = xreallocarray(NULL, n, sizeof *m->place);
	m->marks = xcalloc(n / 64 + 1, sizeof *m->marks);
	m->marked = xcalloc(n / 4096 + 1, sizeof *m->marked);
	m->n_place = n;
}

static void count_total(struct side_reader *a)
{
	struct readout *r = a->r;
	double size = 0;
	need_nodes(a->m);
	vec_reserve(&r->tree, mark_nodes(a) + 1);
	r->tree.n = 0;
	vec_push(&r->tree, (struct row_frame){ 0 });
	add_marked(a);
	if (a->v->is_float) {
		vec_reserve(&r->tree_rests, r->tree.n);
		memset(r->tree_rests.v, 0, r->tree.n * sizeof *r->tree_rests.v);
	}
	for (size_t i = 0; i < a->v->n && !a->v->is_float; i++)
		size += fabs((double)a->v->ints[i]);
	if (size < SMALL) {
		count_part(a, WHOLE);
	} else {
		count_part(a, LOWER);
		count_part(a, UPPER);
	}
}

static void count_stacks(struct side_reader *a)
{
	bool self = a->r->measure == SELF || a->r->measure == SELF_SHARE;
	for (size_t i = 0; i < a->v->n; i++) {
		if (is_zero(a->v, i)) /* scaled by 0: there is nothing, as in a graph */
			continue;
		uint32_t node = symbols_stack_node(a->m->s, symbols_get_column(a->m->s, a->v->columns[i])->stack);
		if (node && self)
			count_self(a, i, node);
		else if (node)
			count_neighbours(a, i, node);
	}
}

void readout_rows(struct readout *r, const struct stackvec *v, bool minus)
{
	struct row_memo m = *readout_memo(r, v->symbols);
	struct side_reader a = { .r = r, .m = &m, .v = v, .minus = minus };
	if (r->has_frames)
		frames_memo_init(&a.frames, &r->frames, v->symbols);
	if (r->measure == TOTAL || r->measure == SHARE)
		count_total(&a);
	else
		count_stacks(&a);
	struct row_memo *kept = readout_memo(r, v->symbols);
	kept->place = m.place;
	kept->n_place = m.n_place;
	kept->marks = m.marks;
	kept->marked = m.marked;
	if (r->has_frames)
		frames_memo_free(&a.frames);
}

void readout_forget_rows(struct readout *r)
{
	for (size_t i = 0; i < r->touched.n; i++)
		r->sums[r->touched.v[i]] = (struct row_sum){ 0 };
	r->touched.n = 0;
}

uint32_t readout_row_named(struct readout *r, struct view name, uint64_t hash)
{
	return row_of(r, (struct readout_row){ name, VIEW(""), VIEW(""), hash });
}

void readout_set_row(struct readout *r, uint32_t row, double native)
{
	need_rows(r, row);
	touch(r, row)->f = (struct num_sum){ native, 0 };
}

void readout_touch_function(struct readout *r, struct view name)
{
	uint32_t row = readout_row_named(r, name, 0);
	need_rows(r, row);
	touch(r, row);
}

int readout_cmp_rows(const struct readout *r, uint32_t a, uint32_t b)
{
	const struct readout_row *x = &r->rows.v[a], *y = &r->rows.v[b];
	int c = view_cmp(x->function, y->function);
	if (!c)
		c = view_cmp(x->file, y->file);
	return c ? c : view_cmp(x->line, y->line);
}
