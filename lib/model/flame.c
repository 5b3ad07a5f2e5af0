/* SPDX-License-Identifier: Apache-2.0 */
/* Folding. The dictionary's stacks are a tree of parent pointers whose parents have smaller ids, and so is every tree
 * made here: one pass upwards makes children after their parents, one pass downwards adds children to them.
 *
 *	1. A bitmap of the dictionary's nodes that the profile needs: its leaves, then, from the end, their parents.
 *	   So the cost is that of the profile, not of the dictionary, which may be a whole day's.
 *	2. The dictionary knows each node's call (calltree.h). Those that are met get numbers of their own, and what is known
 *	   of the functions: it is what the first one of that name says.
 *	3. Functions in order of their names, so that nothing later compares texts. Downwards: totals.
 *	4. The root, if it is not the first call; what functions cost below it, and the ways to the largest of them.
 *	5. Children in order of their names, and out in preorder. */
#include <stdlib.h>

#include "base/num.h"
#include "model/calltree.h"
#include "model/flame_internal.h"
#include "model/frame.h"

/* ---- sets ---- */

/* __builtin_popcountll without an instruction for it is a call. */
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

static void set_free(struct idset *s)
{
	free(s->bits);
	free(s->below);
}

/* ---- the dictionary's nodes ---- */

static uint32_t node_of(const struct fold *f, uint32_t column)
{
	return symbols_stack_node(f->s, symbols_get_column(f->s, column)->stack);
}

/* Zeroes are the larger part of a heap profile's in-use values. */
static bool is_zero(const struct stackvec *v, size_t i)
{
	return v->is_float ? v->floats[i] == 0 : v->ints[i] == 0;
}

static uint32_t max_node(const struct fold *f, const struct stackvec *v, uint32_t most)
{
	for (size_t i = 0; v && i < v->n; i++)
		if (!is_zero(v, i))
			most = MAX(most, node_of(f, v->columns[i]));
	return most;
}

static void mark(struct fold *f, const struct stackvec *v)
{
	for (size_t i = 0; v && i < v->n; i++)
		if (!is_zero(v, i))
			set_add(&f->needed, node_of(f, v->columns[i]));
}

static void find_needed(struct fold *f, const struct stackvec *v, const struct stackvec *base)
{
	set_init(&f->needed, max_node(f, base, max_node(f, v, 0)));
	mark(f, v);
	mark(f, base);
	for (size_t w = f->needed.words; w--;)
		for (uint64_t todo = f->needed.bits[w], below; todo; todo = f->needed.bits[w] & below) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(todo);
			below = (UINT64_C(1) << bit) - 1; /* a parent may lie in the same word */
			set_add(&f->needed, symbols_get_node(f->s, (uint32_t)(w * 64) + bit)->parent);
		}
	f->needed.bits[0] |= 1;
	set_count(&f->needed);
	f->nodes = xmalloc(f->needed.n * sizeof *f->nodes);
	size_t n = 0;
	for (size_t w = 0; w < f->needed.words; w++)
		for (uint64_t bits = f->needed.bits[w] & (w ? UINT64_MAX : ~UINT64_C(1)); bits; bits &= bits - 1)
			f->nodes[n++] = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);
}

/* ---- calls ---- */

static const struct sym_location *location_of(const struct fold *f, uint32_t node)
{
	return symbols_get_location(f->s, symbols_get_node(f->s, node)->location);
}

static void find_met(struct fold *f, const struct calltree_view *t)
{
	set_init(&f->met, t->n_calls - 1);
	set_add(&f->met, 0);
	for (size_t i = 0; i + 1 < f->needed.n; i++) {
		const struct call_node *n = &t->nodes[f->nodes[i]];
		set_add(&f->met, n->call);
		if (n->line != CALL_LINES)
			continue;
		uint32_t lines = location_of(f, f->nodes[i])->n_lines;
		for (uint32_t k = 1, c = n->call; k < lines; k++)
			set_add(&f->met, c = t->calls[c].parent);
	}
	set_count(&f->met);
}

static uint32_t need_frame(struct fold *f, const struct calltree_view *t, uint32_t name, const struct sym_location *l, uint32_t i)
{
	uint32_t *known = &f->frame_of[name];
	if (*known)
		return *known - 1;
	const struct sym_function *fn = frame_function(f->s, l, i);
	struct flame_frame frame = { t->names[name], VIEW(""), frame_binary(f->s, l), 0 };
	if (fn && symbols_get_string(f->s, fn->name).len) {
		frame.file = symbols_get_string(f->s, fn->filename);
		frame.start_line = fn->start_line;
	}
	vec_push(&f->frames, frame);
	*known = (uint32_t)f->frames.n;
	return *known - 1;
}

/* Line i of location l is at that call. */
static void meet(struct fold *f, const struct calltree_view *t, uint32_t call, const struct sym_location *l, uint32_t i)
{
	struct fcall *c = &f->calls[set_place(&f->met, call)];
	int64_t line = frame_line(f->s, l, i);
	if (c->frame != UNMET) {
		if (c->line != line)
			c->line = 0;
		return;
	}
	c->parent = set_place(&f->met, t->calls[call].parent);
	c->frame = need_frame(f, t, t->calls[call].name, l, i);
	c->line = line;
}

/* One line, which is known. Where the name was met the location, somewhere in memory, is not looked at. */
static void meet_line(struct fold *f, const struct calltree_view *t, struct fcall *c, uint32_t node, uint32_t call, int64_t line)
{
	uint32_t known = f->frame_of[t->calls[call].name];
	c->parent = set_place(&f->met, t->calls[call].parent);
	c->frame = known ? known - 1 : need_frame(f, t, t->calls[call].name, location_of(f, node), 0);
	c->line = line;
}

/* Several lines, the caller first. */
static void meet_lines(struct fold *f, const struct calltree_view *t, uint32_t call, const struct sym_location *l)
{
	VEC(uint32_t) chain = { 0 };
	for (uint32_t i = 0; i < l->n_lines; i++, call = t->calls[call].parent)
		vec_push(&chain, call);
	for (uint32_t i = l->n_lines; i--;)
		meet(f, t, chain.v[i], l, i);
	vec_free(&chain);
}

static void meet_all(struct fold *f, const struct calltree_view *t)
{
	f->calls = xcalloc(f->met.n, sizeof *f->calls);
	f->frame_of = xcalloc(t->n_names, sizeof *f->frame_of);
	f->call_at = xcalloc(f->needed.n, sizeof *f->call_at);
	for (size_t i = 1; i < f->met.n; i++)
		f->calls[i].frame = UNMET;
	for (size_t i = 1; i < f->needed.n; i++) {
		uint32_t node = f->nodes[i - 1];
		const struct call_node *n = &t->nodes[node];
		uint32_t at = f->call_at[i] = set_place(&f->met, n->call);
		struct fcall *c = &f->calls[at];
		if (n->line == CALL_LINES)
			meet_lines(f, t, n->call, location_of(f, node));
		else if (c->frame == UNMET)
			meet_line(f, t, c, node, n->call, n->line);
		else if (c->line != n->line)
			c->line = 0;
	}
}

static void make_calls(struct fold *f, struct symbols *s)
{
	struct calltree *tree = symbols_calls(s);
	struct calltree_view t = calltree_begin(tree, f->s, f->nodes, f->needed.n - 1);
	find_met(f, &t);
	meet_all(f, &t);
	calltree_end(tree);
}

static int by_name(const void *a, const void *b, void *arg)
{
	const struct flame_frame *frames = arg;
	return view_cmp(frames[*(const uint32_t *)a].name, frames[*(const uint32_t *)b].name);
}

/* "total" stays the first. */
static void sort_frames(struct fold *f)
{
	size_t n = f->frames.n;
	uint32_t *order AUTOFREE = xmalloc(n * sizeof *order), *as AUTOFREE = xmalloc(n * sizeof *as);
	struct flame_frame *sorted = xmalloc(n * sizeof *sorted);
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order + 1, n - 1, sizeof *order, by_name, f->frames.v);
	for (uint32_t i = 0; i < n; i++) {
		sorted[i] = f->frames.v[order[i]];
		as[order[i]] = i;
	}
	for (size_t i = 1; i < f->met.n; i++)
		f->calls[i].frame = as[f->calls[i].frame];
	free(f->frames.v);
	f->frames.v = sorted;
	f->frames.cap = n;
	f->other = as[f->other];
}

/* A function of that name is the same frame. */
static void need_other(struct fold *f)
{
	for (uint32_t i = 1; i < f->frames.n && !f->other; i++)
		if (view_eqs(f->frames.v[i].name, "(other)"))
			f->other = i;
	if (f->other)
		return;
	f->other = (uint32_t)f->frames.n;
	vec_push(&f->frames, (struct flame_frame){ VIEW("(other)"), VIEW(""), VIEW(""), 0 });
}

static void add_selves(struct fold *f, const struct stackvec *v, bool base)
{
	for (size_t i = 0; v && i < v->n; i++) {
		if (is_zero(v, i))
			continue;
		struct fcall *c = &f->calls[f->call_at[set_place(&f->needed, node_of(f, v->columns[i]))]];
		union flame_value x;
		if (f->is_float)
			x.d = v->is_float ? v->floats[i] : (double)v->ints[i];
		else
			x.i = v->ints[i];
		fold_add(f, base ? &c->base_self : &c->self, x);
		c->subtree = 1;
	}
}

static void add_totals(struct fold *f)
{
	for (size_t i = f->met.n; i--;) {
		struct fcall *c = &f->calls[i];
		fold_add(f, &c->total, c->self);
		fold_add(f, &c->base_total, c->base_self);
		struct fcall *p = &f->calls[c->parent];
		if (!i || !c->subtree)
			continue;
		fold_add(f, &p->total, c->total);
		fold_add(f, &p->base_total, c->base_total);
		c->next_sibling = p->first_child;
		p->first_child = (uint32_t)i;
		if (!p->subtree)
			p->subtree = 1;
		p->subtree += c->subtree;
	}
}

/* ---- the root ---- */

static uint32_t child_called(const struct fold *f, uint32_t call, struct view name)
{
	for (uint32_t id = f->calls[call].first_child; id; id = f->calls[id].next_sibling)
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
	set_free(&f->needed);
	set_free(&f->met);
	free(f->nodes);
	free(f->call_at);
	free(f->calls);
	free(f->frame_of);
}

/* An infinite value, or a sum of huge ones, makes its callers' totals infinite or NaN, up to the root; an opposite one may
 * hide it there, so every call is looked at. *ret is a value that nothing can draw. */
static bool find_unbounded(const struct fold *f, double *ret)
{
	for (size_t i = 0; f->is_float && i < f->met.n; i++) {
		const struct fcall *c = &f->calls[i];
		const double v[] = { c->self.d, c->total.d, c->base_self.d, c->base_total.d };
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
	find_needed(&f, v, base);
	make_calls(&f, v->symbols);
	if (ask->min_share > 0)
		need_other(&f);
	sort_frames(&f);
	add_selves(&f, v, false);
	add_selves(&f, base, true);
	add_totals(&f);
	double bad = 0;
	bool unbounded = find_unbounded(&f, &bad);
	int rc = 0;
	if (unbounded) {
		char text[NUM_LEN];
		rc = err_set(e, ERR_EXECUTION, "a value of the profile is %s, which no flame graph can show", num_format(bad, text));
	} else {
		find_root(&f, ask);
		rc = fold_functions(&f, ask, e);
	}
	if (!rc && f.overflow)
		rc = err_set(e, ERR_EXECUTION, "a total of the flame graph does not fit in 64 bits");
	if (!rc)
		fold_emit(&f, ask);
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
	free(f->nodes);
	symbols_unref(f->symbols);
	*f = (struct flame){ 0 };
}

