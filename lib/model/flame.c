/* SPDX-License-Identifier: Apache-2.0 */
/* Folding. The dictionary's calls are in the order in which a flame graph shows them (call_order.h). So is every tree made here: children after
 * their parents, those of a call by name. One pass upwards makes calls after their parents, one pass downwards adds children to them, and a
 * call and all below it are neighbours.
 *
 *	1. The dictionary knows the call of each column, and of each call its parent (calltree.h). A bitmap of those that the profile needs: its
 *	   leaves, then, from the end, their parents; they get numbers of their own. So the cost is that of the profile, not of the dictionary,
 *	   which may be a whole day's.
 *	2. What is known about calls and functions. If all nodes of a call agree, their value is used; otherwise the nodes are read. In the
 *	   same way, if functions of one name differ, locations are read: of those that the profile has, the first by text is shown.
 *	3. Functions in order of their names, which the dictionary knows, so that nothing compares texts. Downwards: totals.
 *	4. The root, if it is not the first call; what functions cost below it, and the ways to the largest of them.
 *	5. Out in preorder, as they lie. */
#include <stdlib.h>

#include "base/num.h"
#include "model/call_order.h"
#include "model/calltree.h"
#include "model/flame_internal.h"
#include "model/frame.h"

/* ---- sets ---- */

/* Without an instruction for it, __builtin_popcountll is a function call. */
static inline uint32_t count_bits(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555u;
	x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
	return (uint32_t)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}

static void set_init(struct idset *s, uint32_t most)
{
	s->words = most / 64 + 1;
	s->bits = xcalloc(s->words, sizeof *s->bits);
	s->below = xmalloc(s->words * sizeof *s->below);
}

static inline void set_add(struct idset *s, uint32_t id)
{
	s->bits[id / 64] |= UINT64_C(1) << id % 64;
}

/* After the last one was added. */
static void set_count(struct idset *s)
{
	uint32_t n = 0;
	for (size_t w = 0; w < s->words; w++) {
		s->below[w] = n;
		n += s->bits[w] ? count_bits(s->bits[w]) : 0;
	}
	s->n = n;
}

static inline uint32_t set_place(const struct idset *s, uint32_t id)
{
	return s->below[id / 64] + count_bits(s->bits[id / 64] & ((UINT64_C(1) << id % 64) - 1));
}

/* For a place in the dictionary's order. */
static inline uint32_t call_place(const struct fold *f, uint32_t call)
{
	return f->dense ? call : set_place(&f->met, call);
}

static void set_free(struct idset *s)
{
	free(s->bits);
	free(s->below);
}

/* ---- calls ---- */

/* Zeroes are the larger part of a heap profile's in-use values. */
static bool is_zero(const struct stackvec *v, size_t i)
{
	return v->is_float ? v->floats[i] == 0 : v->ints[i] == 0;
}

/* The non-zero ones, ascending; for two vectors those of either. Returns owned. */
static uint32_t *list_columns(const struct stackvec *v, const struct stackvec *base, size_t *ret_n)
{
	uint32_t *columns = xmalloc((v->n + (base ? base->n : 0) + 1) * sizeof *columns);
	size_t n = 0, k = 0, n_base = base ? base->n : 0;
	for (size_t i = 0; i < v->n || k < n_base;) {
		uint32_t a = i < v->n ? v->columns[i] : UINT32_MAX, b = k < n_base ? base->columns[k] : UINT32_MAX;
		bool there = (a <= b && !is_zero(v, i)) || (b <= a && !is_zero(base, k));
		if (there)
			columns[n++] = MIN(a, b);
		i += a <= b;
		k += b <= a;
	}
	*ret_n = n;
	return columns;
}

#define MANY_MEMBERS 4 /* of 64; with fewer, finding each is faster than going through all */

/* Like find_parents, for 64 neighbours that all exist. It goes through every bit, so a step waits for one bit and not for memory. */
static inline uint32_t find_parents_of_many(uint64_t *members, uint32_t first, const struct placed_call *placed)
{
	uint64_t all = *members;
	uint32_t before = 0;
	for (uint32_t bit = 64; bit--;) {
		uint32_t parent = placed[first + bit].parent;
		uint64_t is_member = all >> bit & 1;
		all |= (parent >= first ? is_member : 0) << parent % 64;
		before = MAX(before, is_member && parent < first ? parent : 0);
	}
	*members = all;
	return before;
}

/* For the members among 64 neighbours. Parents that come before these hold one another: the last of them has the others above
 * it. */
static inline void find_parents(struct idset *s, size_t word, const struct placed_call *placed, uint32_t n_placed)
{
	uint64_t members = s->bits[word], todo = members;
	uint32_t first = (uint32_t)word * 64, before = 0;
	if (!todo)
		return;
	if (count_bits(todo) >= MANY_MEMBERS && n_placed - first >= 64) {
		before = find_parents_of_many(&s->bits[word], first, placed);
		set_add(s, before);
		return;
	}
	while (todo) {
		uint32_t bit = 63 - (uint32_t)__builtin_clzll(todo), parent = placed[first + bit].parent;
		uint64_t within = (uint64_t)(parent >= first && bit) << parent % 64; /* the root is its own parent */
		members |= within;
		todo = (todo ^ UINT64_C(1) << bit) | within;
		before = MAX(before, within ? 0 : parent);
	}
	s->bits[word] = members;
	set_add(s, before);
}

static void find_met(struct fold *f, const struct calltree_view *t, const uint32_t *columns, size_t n)
{
	set_init(&f->met, t->n_calls - 1);
	for (size_t i = 0; i < n; i++)
		set_add(&f->met, t->place[t->columns[columns[i]] - 1]);
	for (size_t w = f->met.words; w--;)
		find_parents(&f->met, w, t->placed, t->n_calls);
	f->met.bits[0] |= 1;
	set_count(&f->met);
	f->dense = f->met.n == t->n_calls;
}

/* Each call of the profile except the root: id, its place in the dictionary's order, and `at`, its place
 * here. */
#define EACH_MET(f, id, at) \
	for (size_t w_ = 0, at = 1; w_ < (f)->met.words; w_++) \
		for (uint64_t bits_ = (f)->met.bits[w_] & (w_ ? UINT64_MAX : ~UINT64_C(1)), id; \
		     bits_ && (id = w_ * 64 + (unsigned)__builtin_ctzll(bits_), true); bits_ &= bits_ - 1, at++)

static struct flame_frame make_frame(const struct fold *f, const struct calltree_view *t, uint32_t name, const struct sym_location *l, uint32_t i)
{
	const struct sym_function *fn = frame_function(f->s, l, i);
	struct flame_frame frame = { t->names[name], VIEW(""), frame_binary(f->s, l), 0 };
	if (fn && symbols_get_string(f->s, fn->name).len) {
		frame.file = symbols_get_string(f->s, fn->filename);
		frame.start_line = fn->start_line;
	}
	return frame;
}

static uint32_t need_frame(struct fold *f, const struct calltree_view *t, uint32_t name, const struct sym_location *l, uint32_t i)
{
	uint32_t *known = &f->frame_of[name];
	if (*known)
		return *known - 1;
	vec_push(&f->frames, make_frame(f, t, name, l, i));
	*known = (uint32_t)f->frames.n;
	return *known - 1;
}

/* The first of two that a function may have, by text; one without a file comes last. */
static int compare_frames(const struct flame_frame *a, const struct flame_frame *b)
{
	int c = a->file.ptr == b->file.ptr && a->file.len == b->file.len ? 0 : view_cmp(a->file, b->file);
	if (c && (!a->file.len || !b->file.len))
		return a->file.len ? -1 : 1;
	c = c ? c : view_cmp(a->binary, b->binary);
	return c ? c : (a->start_line > b->start_line) - (a->start_line < b->start_line);
}

/* ---- nodes, for calls whose nodes differ ---- */

struct look {
	struct idset nodes;  /* on the way to the columns */
	bool names_differ;   /* functions of one name do: their locations are looked at, too */
	uint64_t *locations; /* bits: those that were looked at */
	uint64_t *calls;     /* bits by place in the dictionary's order: to be looked at */
	uint64_t *seen;      /* of these, those that a node belongs to */
	int64_t *lines;      /* by place of these */
	VEC(uint32_t) chain; /* the calls of one location, for a moment */
};

static const struct sym_location *location_of(const struct fold *f, uint32_t node)
{
	return symbols_get_location(f->s, symbols_get_node(f->s, node)->location);
}

static bool test_and_set(uint64_t *bits, uint32_t id)
{
	uint64_t bit = UINT64_C(1) << id % 64;
	bool was = bits[id / 64] & bit;
	bits[id / 64] |= bit;
	return was;
}

static void find_nodes(struct fold *f, struct look *x, const uint32_t *columns, size_t n)
{
	uint32_t most = 0, first = 1, end = 0;
	const struct sym_node *run = NULL;
	for (size_t i = 0; i < n; i++)
		most = MAX(most, symbols_get_column(f->s, columns[i])->node);
	set_init(&x->nodes, most);
	for (size_t i = 0; i < n; i++)
		set_add(&x->nodes, symbols_get_column(f->s, columns[i])->node);
	for (size_t w = x->nodes.words; w--;) {
		uint64_t members = x->nodes.bits[w];
		for (uint64_t todo = members; todo;) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(todo);
			uint32_t id = (uint32_t)(w * 64) + bit;
			if (id < first || id >= end)
				run = symbols_node_run(f->s, id, &first, &end);
			uint32_t parent = run[id - first].parent;
			uint64_t within = (uint64_t)(parent / 64 == w && id) << parent % 64; /* the root is its own parent */
			members |= within;
			todo = (todo ^ UINT64_C(1) << bit) | within;
			if (!within)
				set_add(&x->nodes, parent);
		}
		x->nodes.bits[w] |= members;
	}
}

/* The call is not looked at again. */
static void drop(struct look *x, uint32_t call)
{
	x->calls[call / 64] &= ~(UINT64_C(1) << call % 64);
}

/* Line i of location l is at that call. */
static void meet(struct fold *f, const struct calltree_view *t, struct look *x, uint32_t call, const struct sym_location *l, uint32_t i,
		 int64_t line)
{
	int64_t *known = &x->lines[call_place(f, call)];
	if (test_and_set(x->seen, call)) {
		if (*known == line)
			return;
		*known = 0;
		drop(x, call);
		return;
	}
	*known = line;
	if (t->placed[call].line != CALL_LINES)
		drop(x, call);
	if (!f->frame_of[t->placed[call].name])
		need_frame(f, t, t->placed[call].name, l, i);
}

/* Several lines, the caller first. */
static void meet_lines(struct fold *f, const struct calltree_view *t, struct look *x, uint32_t call, const struct sym_location *l)
{
	uint32_t n = frame_count(l);
	x->chain.n = 0;
	for (uint32_t i = 0; i < n; i++, call = t->placed[call].parent)
		vec_push(&x->chain, call);
	for (uint32_t i = n; i--;)
		if (x->calls[x->chain.v[i] / 64] >> x->chain.v[i] % 64 & 1)
			meet(f, t, x, x->chain.v[i], l, i, frame_line(f->s, l, i));
}

/* Which of several functions of a name is shown must not depend on which was met first. `call` is that of the location's innermost line. */
static void look_at_location(struct fold *f, const struct calltree_view *t, struct look *x, uint32_t call, uint32_t location)
{
	if (test_and_set(x->locations, location))
		return;
	const struct sym_location *l = symbols_get_location(f->s, location);
	for (uint32_t i = 0; i < frame_count(l); i++, call = t->placed[call].parent) {
		uint32_t name = t->placed[call].name;
		if (!t->of_names[name].differs)
			continue;
		struct flame_frame other = make_frame(f, t, name, l, i);
		uint32_t shown = need_frame(f, t, name, l, i);
		if (compare_frames(&other, &f->frames.v[shown]) < 0)
			f->frames.v[shown] = other;
	}
}

/* The values that the nodes agree or differ on. */
static void take_lines(struct fold *f, const struct look *x)
{
	for (size_t w = 0; w < f->met.words; w++)
		for (uint64_t bits = x->seen[w]; bits; bits &= bits - 1) {
			uint32_t at = call_place(f, (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits));
			bool fits = x->lines[at] > INT32_MIN && x->lines[at] <= INT32_MAX;
			f->calls[at].line = fits ? (int32_t)x->lines[at] : CALL_LINES;
			if (!fits)
				vec_push(&f->wide, (struct wide_line){ at, x->lines[at] });
		}
}

static void look_at_nodes(struct fold *f, const struct calltree_view *t, struct look *x, const uint32_t *columns, size_t n)
{
	x->seen = xcalloc(f->met.words, sizeof *x->seen);
	x->lines = xmalloc(f->met.n * sizeof *x->lines);
	x->locations = x->names_differ ? xcalloc(symbols_count(f->s, SYMBOLS_LOCATIONS) / 64 + 1, sizeof *x->locations) : NULL;
	find_nodes(f, x, columns, n);
	for (size_t w = 0; w < x->nodes.words; w++)
		for (uint64_t bits = x->nodes.bits[w] & (w ? UINT64_MAX : ~UINT64_C(1)); bits; bits &= bits - 1) {
			uint32_t id = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);
			const struct call_node *node = &t->nodes[id];
			uint32_t call = t->place[node->call];
			if (x->names_differ)
				look_at_location(f, t, x, call, symbols_get_node(f->s, id)->location);
			if (node->line == CALL_LINES)
				meet_lines(f, t, x, call, location_of(f, id));
			else if (!(x->calls[call / 64] >> call % 64 & 1))
				continue;
			else if (f->frame_of[t->placed[call].name]) /* the location, somewhere in memory, is not looked at */
				meet(f, t, x, call, NULL, 0, node->line);
			else
				meet(f, t, x, call, location_of(f, id), 0, node->line);
		}
	take_lines(f, x);
	set_free(&x->nodes);
	free(x->lines);
	free(x->seen);
	free(x->locations);
	vec_free(&x->chain);
}

/* ---- what is known of each ---- */

/* The calls: parents, lines and frames of those whose nodes all agree; the others need a look at their nodes. Until add_totals a call's
 * frame is its name. */
static bool begin_calls(struct fold *f, const struct calltree_view *t, struct look *x)
{
	VEC(uint32_t) way = { 0 }; /* by depth: the call that was met last */
	bool any = false;
	x->calls = xcalloc(f->met.words, sizeof *x->calls);
	f->room = room_take(f->met.n * sizeof *f->calls);
	f->depths_room = room_take(f->met.n * sizeof *f->depths);
	f->calls = f->room.v;
	f->depths = f->depths_room.v;
	f->calls[0] = (struct fcall){ 0 };
	f->depths[0] = 0;
	f->frame_of[0] = 1;
	vec_push(&way, 0);
	EACH_MET(f, id, at) {
		struct placed_call c = t->placed[id];
		vec_reserve(&way, c.depth + 1);
		way.v[c.depth] = (uint32_t)at;
		f->depths[at] = c.depth;
		f->calls[at] = (struct fcall){ .parent = way.v[c.depth - 1], .frame = c.name, .line = c.line };
		if (UNLIKELY(c.line == CALL_LINES || t->of_names[c.name].differs)) {
			x->calls[id / 64] |= UINT64_C(1) << id % 64;
			x->names_differ |= t->of_names[c.name].differs;
			any = true;
		} else if (UNLIKELY(!f->frame_of[c.name])) {
			need_frame(f, t, c.name, symbols_get_location(f->s, t->of_names[c.name].location), t->of_names[c.name].line);
		}
	}
	vec_free(&way);
	return any;
}

/* By name; "total", whose call has the empty name, stays first. other: "(other)" is present, too, even if a function has that name. */
static void sort_frames(struct fold *f, const struct calltree_view *t, bool other)
{
	const struct flame_frame more = { VIEW("(other)"), VIEW(""), VIEW(""), 0 };
	struct flame_frame *sorted = xmalloc((f->frames.n + 1) * sizeof *sorted);
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->n_names; i++) {
		uint32_t name = t->by_name[i], frame = f->frame_of[name];
		if (!frame)
			continue;
		int order = other ? view_cmp(t->names[name], more.name) : -1;
		if (order >= 0) {
			f->other = n;
			other = false;
			if (order > 0)
				sorted[n++] = more;
		}
		sorted[n++] = f->frames.v[frame - 1];
		f->frame_of[name] = n;
	}
	if (other) {
		f->other = n;
		sorted[n++] = more;
	}
	free(f->frames.v);
	f->frames.v = sorted;
	f->frames.cap = f->frames.n + 1;
	f->frames.n = n;
}

static void add_selves(struct fold *f, const struct calltree_view *t, const struct stackvec *v, bool base)
{
	/* The columns of a call are added up in the order of their ids, which is not the same in each dictionary. Sums of integers do not depend on
	 * it; sums of floats are compensated. */
	double *rests AUTOFREE = v && f->is_float ? xcalloc(f->met.n, sizeof *rests) : NULL;
	for (size_t i = 0; v && i < v->n; i++) {
		if (is_zero(v, i))
			continue;
		uint32_t at = call_place(f, t->place[t->columns[v->columns[i]] - 1]);
		union flame_value *to = base ? &f->bases[at].self : &f->calls[at].self;
		if (rests) {
			struct num_sum sum = { to->d, rests[at] };
			num_sum_add(&sum, v->is_float ? v->floats[i] : (double)v->ints[i]);
			to->d = sum.sum;
			rests[at] = sum.rest;
		} else {
			fold_add(f, to, (union flame_value){ .i = v->ints[i] });
		}
	}
	for (size_t at = 0; rests && at < f->met.n; at++) {
		union flame_value *to = base ? &f->bases[at].self : &f->calls[at].self;
		to->d = num_sum_value((struct num_sum){ to->d, rests[at] });
	}
}

/* Makes the calls of the fold: copies, out of the call tree of the dictionary, those that find_met found. */
static void make_calls_of(struct fold *f, struct calltree_view t, const uint32_t *columns, size_t n, const struct stackvec *v,
			  const struct stackvec *base, const struct flame_ask *ask)
{
	struct look x = { 0 };
	f->frame_of = xcalloc(t.n_names, sizeof *f->frame_of);
	if (begin_calls(f, &t, &x))
		look_at_nodes(f, &t, &x, columns, n);
	free(x.calls);
	sort_frames(f, &t, ask->min_share > 0);
	f->bases = base ? xcalloc(f->met.n, sizeof *f->bases) : NULL;
	add_selves(f, &t, v, false);
	add_selves(f, &t, base, true);
}

#define FEW_CALLS_BYTES ((size_t)256 << 10) /* for the calls of a fold, announced before their number is known */

/* The permit is never asked while the tree is locked. It may wait for the memory of another answer, which may wait for that lock. */
static int make_calls(struct fold *f, const struct stackvec *v, const struct stackvec *base, const struct flame_ask *ask, struct err *e)
{
	struct calltree *tree = symbols_calls(v->symbols);
	size_t n;
	uint32_t *columns AUTOFREE = list_columns(v, base, &n);
	int rc = permit_need(ask->permit, n * sizeof *columns + FEW_CALLS_BYTES + (ask->permit ? calltree_missing(tree, f->s, columns, n) : 0), e);
	if (!rc)
		rc = permit_go_on(ask->permit, e);
	if (rc)
		return rc;
	struct calltree_view t = calltree_begin(tree, f->s, columns, n);
	find_met(f, &t, columns, n);
	size_t bytes = f->met.n * (sizeof *f->calls + sizeof *f->depths + (base ? sizeof *f->bases : 0) + (f->is_float ? sizeof(double) : 0));
	if (ask->permit && bytes > FEW_CALLS_BYTES) {
		uint32_t n_calls = t.n_calls;
		calltree_end(tree);
		rc = permit_need(ask->permit, bytes - FEW_CALLS_BYTES, e);
		if (!rc)
			rc = permit_go_on(ask->permit, e);
		if (rc)
			return rc;
		t = calltree_begin(tree, f->s, columns, n);
		if (t.n_calls != n_calls) { /* calls of other answers came between: places have moved, the number found is the same */
			set_free(&f->met);
			find_met(f, &t, columns, n);
		}
	}
	make_calls_of(f, t, columns, n, v, base, ask);
	calltree_end(tree);
	return permit_go_on(ask->permit, e);
}

static void add_totals(struct fold *f)
{
	for (size_t i = f->met.n; i--;) {
		struct fcall *c = &f->calls[i], *p = &f->calls[c->parent];
		c->frame = f->frame_of[c->frame] - 1;
		c->subtree++;
		fold_add(f, &c->total, c->self);
		if (f->bases)
			fold_add(f, &f->bases[i].total, f->bases[i].self);
		if (!i)
			continue;
		fold_add(f, &p->total, c->total);
		if (f->bases)
			fold_add(f, &f->bases[c->parent].total, f->bases[i].total);
		p->subtree += c->subtree;
	}
}

/* ---- the root ---- */

static uint32_t child_called(const struct fold *f, uint32_t call, struct view name)
{
	for (uint32_t id = call + 1, end = call + f->calls[call].subtree; id < end; id += f->calls[id].subtree)
		if (view_eq(f->frames.v[f->calls[id].frame].name, name))
			return id;
	return 0;
}

static void find_root(struct fold *f, const struct flame_ask *ask)
{
	uint32_t next;
	while (f->out->root < ask->n_root && (next = child_called(f, f->root, ask->root[f->out->root]))) {
		f->root = next;
		f->out->root++;
	}
}

static void fold_release(struct fold *f)
{
	set_free(&f->met);
	room_give(&f->room);
	room_give(&f->depths_room);
	free(f->used);
	free(f->bases);
	vec_free(&f->wide);
	free(f->frame_of);
}

/* An infinite value, or a sum of huge ones, makes its callers' totals infinite or NaN, up to the root. An opposite
 * infinity may hide it at the root, so every call is checked. *ret is a value that nothing can draw. */
static bool find_unbounded(const struct fold *f, double *ret)
{
	for (size_t i = 0; f->is_float && i < f->met.n; i++) {
		const struct fcall *c = &f->calls[i];
		const struct fbase b = fold_base(f, i);
		const double v[] = { c->self.d, c->total.d, b.self.d, b.total.d };
		for (size_t k = 0; k < ARRAY_LEN(v); k++)
			if (!isfinite(v[k])) {
				*ret = v[k];
				return true;
			}
	}
	return false;
}

int flame_fold(struct flame *ret, const struct stackvec *v, const struct stackvec *base, const struct flame_ask *ask,
	       struct err *e)
{
	static const struct flame_ask everything;
	ask = ask ? ask : &everything;
	*ret = (struct flame){ .symbols = symbols_ref(v->symbols), .is_float = v->is_float || (base && base->is_float),
			       .has_base = base != NULL };
	struct fold f = { .out = ret, .s = v->symbols, .is_float = ret->is_float };
	vec_push(&f.frames, (struct flame_frame){ VIEW("total"), VIEW(""), VIEW(""), 0 });
	int rc = make_calls(&f, v, base, ask, e);
	if (!rc)
		add_totals(&f);
	double bad = 0;
	bool unbounded = !rc && find_unbounded(&f, &bad);
	if (rc) {
		/* nothing was folded */
	} else if (unbounded) {
		char text[NUM_LEN];
		rc = err_set(e, ERR_EXECUTION, "a value of the profile is %s, which no flame graph can show", num_format(bad, text));
	} else {
		find_root(&f, ask);
		rc = fold_functions(&f, ask, e);
	}
	if (!rc && f.overflow)
		rc = err_set(e, ERR_EXECUTION, "a total of the flame graph does not fit in 64 bits");
	if (!rc)
		rc = fold_emit(&f, ask, e);
	fold_drop_frames(&f);
	fold_release(&f);
	if (rc)
		flame_release(ret);
	return rc;
}

void flame_release(struct flame *f)
{
	free(f->frames);
	free(f->functions);
	room_give(&f->room);
	symbols_unref(f->symbols);
	*f = (struct flame){ 0 };
}

