/* SPDX-License-Identifier: Apache-2.0 */
/* Folding. The dictionary's stacks are a tree of parent pointers whose parents have smaller ids, and so is every tree
 * made here: one pass upwards makes children after their parents, one pass downwards adds children to them.
 *
 *	1. A bitmap of the dictionary's nodes that the profile needs: its leaves, then, from the end, their parents.
 *	   So the cost is that of the profile, not of the dictionary, which may be a whole day's.
 *	2. The dictionary knows each node's call (calltree.h). Those that are met get numbers of their own, and what is known
 *	   of the functions: it is what the first one of that name says.
 *	3. Downwards: totals.
 *	4. The root, if it is not the first call; what functions cost below it.
 *	5. Children in order of their names, and out in preorder. */
#include "model/flame.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"
#include "model/calltree.h"
#include "model/frame.h"

/* A set of ids, each with its place among them. */
struct idset {
	uint64_t *bits;
	uint32_t *below; /* members before each word */
	size_t words, n;
};

#define UNMET UINT32_MAX /* frame of a call that no node led to yet */

struct fcall {
	uint32_t parent, frame;
	uint32_t first_child, next_sibling; /* 0 = none: the root is nobody's child */
	int64_t line;
	union flame_value self, total, base_self, base_total;
	uint32_t subtree; /* calls in it, itself included, if any of them has a value; else 0: it is not shown */
};

struct fold {
	struct flame *out;
	const struct symbols *s;
	bool is_float, overflow;
	struct idset needed, met; /* nodes of the dictionary; calls of its tree */
	uint32_t *nodes;          /* needed, ascending, without the root */
	uint32_t *call_at;        /* by place of the node: the call of it */
	struct fcall *calls;      /* by place in met */
	uint32_t *frame_of;       /* by name of the tree: frame + 1 */
	uint32_t root;            /* the call that all is relative to */
	VEC(struct flame_frame) frames;
};

static void add(struct fold *f, union flame_value *to, union flame_value v)
{
	if (f->is_float)
		to->d += v.d;
	else
		f->overflow |= __builtin_add_overflow(to->i, v.i, &to->i);
}

static double magnitude(const struct fold *f, union flame_value v)
{
	return fabs(f->is_float ? v.d : (double)v.i);
}

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
			meet(f, t, n->call, location_of(f, node), 0);
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
		add(f, base ? &c->base_self : &c->self, x);
		c->subtree = 1;
	}
}

static void add_totals(struct fold *f)
{
	for (size_t i = f->met.n; i--;) {
		struct fcall *c = &f->calls[i];
		add(f, &c->total, c->self);
		add(f, &c->base_total, c->base_self);
		struct fcall *p = &f->calls[c->parent];
		if (!i || !c->subtree)
			continue;
		add(f, &p->total, c->total);
		add(f, &p->base_total, c->base_total);
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

/* ---- functions ---- */

struct function_sums {
	struct flame_function *v; /* by frame */
	uint32_t *open;           /* by frame: calls of it that hold the one that is looked at */
	bool *found;              /* by frame: it matches the search; NULL without one */
	uint32_t open_found;      /* calls that match and hold the one that is looked at */
};

static void enter(struct fold *f, struct function_sums *s, const struct fcall *c)
{
	struct flame_function *x = &s->v[c->frame];
	add(f, &x->self, c->self);
	add(f, &x->base_self, c->base_self);
	if (s->found && s->found[c->frame] && !s->open_found++) {
		add(f, &f->out->found, c->total);
		add(f, &f->out->base_found, c->base_total);
	}
	if (s->open[c->frame]++)
		return;
	add(f, &x->total, c->total);
	add(f, &x->base_total, c->base_total);
}

static void leave(struct function_sums *s, const struct fcall *c)
{
	s->open[c->frame]--;
	s->open_found -= s->found && s->found[c->frame];
}

/* Each call below the root and the root itself, those it holds between its begin and its end; by pointers, since stacks
 * may be thousands of calls deep. */
static void sum_functions(struct fold *f, struct function_sums *s)
{
	uint32_t at = f->root;
	enter(f, s, &f->calls[at]);
	while (true) {
		if (f->calls[at].first_child) {
			at = f->calls[at].first_child;
			enter(f, s, &f->calls[at]);
			continue;
		}
		while (at != f->root && !f->calls[at].next_sibling) {
			leave(s, &f->calls[at]);
			at = f->calls[at].parent;
		}
		if (at == f->root)
			return;
		leave(s, &f->calls[at]);
		at = f->calls[at].next_sibling;
		enter(f, s, &f->calls[at]);
	}
}

static double larger(const struct fold *f, union flame_value a, union flame_value b)
{
	return MAX(magnitude(f, a), magnitude(f, b));
}

static int by_total(const void *a, const void *b, void *arg)
{
	const struct flame_function *x = a, *y = b;
	double u = larger(arg, x->total, x->base_total), v = larger(arg, y->total, y->base_total);
	return (u < v) - (u > v);
}

static int by_self(const void *a, const void *b, void *arg)
{
	const struct fold *f = arg;
	const struct flame_function *x = a, *y = b;
	double u = larger(f, x->self, x->base_self), v = larger(f, y->self, y->base_self);
	if (u != v)
		return (u < v) - (u > v);
	return view_cmp(f->frames.v[x->frame].name, f->frames.v[y->frame].name);
}

/* Of more rows than are wanted, those with the largest totals and those with the largest selves. */
static size_t keep_largest(struct fold *f, struct flame_function *v, size_t n, size_t most)
{
	size_t half = most / 2, kept = MIN(n, half);
	if (n <= most)
		return n;
	qsort_r(v, n, sizeof *v, by_total, f);
	qsort_r(v + kept, n - kept, sizeof *v, by_self, f);
	return most;
}

static int find_frames(struct fold *f, const struct flame_ask *ask, bool *found, struct err *e)
{
	for (size_t i = 1; i < f->frames.n; i++) {
		int yes = ask->match(ask->match_arg, &f->frames.v[i], e);
		if (yes < 0)
			return yes;
		found[i] = yes;
	}
	return 0;
}

static int make_functions(struct fold *f, const struct flame_ask *ask, struct err *e)
{
	size_t n = 0;
	struct function_sums s = { .v = xcalloc(f->frames.n, sizeof *s.v), .open = xcalloc(f->frames.n, sizeof *s.open) };
	bool *found AUTOFREE = xcalloc(f->frames.n, sizeof *found);
	f->out->functions = s.v;
	int rc = ask->match ? find_frames(f, ask, found, e) : 0;
	s.found = ask->match ? found : NULL;
	if (!rc)
		sum_functions(f, &s);
	for (uint32_t i = 1; i < f->frames.n; i++) { /* 0 is "total", which is no function */
		struct flame_function *x = &s.v[i];
		x->frame = i;
		if (larger(f, x->total, x->base_total) == 0 && larger(f, x->self, x->base_self) == 0)
			continue;
		f->out->n_found += found[i];
		s.v[n++] = *x;
	}
	f->out->all_functions = n;
	f->out->n_functions = keep_largest(f, s.v, n, ask->functions);
	qsort_r(s.v, f->out->n_functions, sizeof *s.v, by_self, f);
	free(s.open);
	return rc;
}

/* ---- out ---- */

struct emit {
	struct fold *f;
	VEC(struct flame_node) nodes;
	VEC(uint32_t) children; /* a stack of lists: sorted, the last child of each list on its top */
	double least;           /* below it a call is hidden; 0: none is */
	uint32_t other;         /* frame "(other)" */
};

static int by_name(const void *a, const void *b, void *arg)
{
	const struct fold *f = arg;
	const struct fcall *x = &f->calls[*(const uint32_t *)a], *y = &f->calls[*(const uint32_t *)b];
	return view_cmp(f->frames.v[y->frame].name, f->frames.v[x->frame].name); /* descending: taken from the end */
}

static void put_node(struct emit *x, const struct fcall *c, uint32_t depth)
{
	vec_push(&x->nodes, (struct flame_node){ depth, c->frame, c->line, c->total, c->self, c->base_total, c->base_self });
}

/* Pushes the children that are shown, in reverse order of names; those that are not are added up in *hidden. */
static void push_children(struct emit *x, const struct fcall *c, struct fcall *hidden)
{
	struct fold *f = x->f;
	size_t first = x->children.n;
	for (uint32_t id = c->first_child; id; id = f->calls[id].next_sibling) {
		const struct fcall *k = &f->calls[id];
		if (magnitude(f, k->total) < x->least && magnitude(f, k->base_total) < x->least) {
			add(f, &hidden->total, k->total);
			add(f, &hidden->base_total, k->base_total);
			hidden->subtree += k->subtree;
		} else {
			vec_push(&x->children, id);
		}
	}
	if (x->children.n - first > 1)
		qsort_r(x->children.v + first, x->children.n - first, sizeof *x->children.v, by_name, f);
}

/* The calls that lead to the root, the outermost first. */
static void emit_path(struct emit *x)
{
	VEC(uint32_t) path = { 0 };
	for (uint32_t id = x->f->root; id;) {
		id = x->f->calls[id].parent;
		vec_push(&path, id);
	}
	for (size_t i = path.n; i--;)
		put_node(x, &x->f->calls[path.v[i]], (uint32_t)(path.n - 1 - i));
	vec_free(&path);
}

/* Preorder without recursion: stacks may be thousands of calls deep. */
static void emit_all(struct emit *x)
{
	struct fold *f = x->f;
	VEC(struct { size_t first; }) open = { 0 }; /* per depth: where its siblings begin in children */
	emit_path(x);
	vec_push(&x->children, f->root);
	vec_add(&open);
	while (open.n) {
		uint32_t depth = (uint32_t)(f->out->root + open.n - 1);
		if (x->children.n == open.v[open.n - 1].first) {
			open.n--;
			continue;
		}
		const struct fcall *c = &f->calls[x->children.v[--x->children.n]];
		put_node(x, c, depth);
		struct fcall hidden = { .frame = x->other };
		__auto_type o = vec_add(&open);
		o->first = x->children.n;
		push_children(x, c, &hidden);
		if (hidden.subtree) { /* "(other)" sorts before letters; it stands first */
			hidden.self = hidden.total;
			hidden.base_self = hidden.base_total;
			put_node(x, &hidden, depth + 1);
			f->out->hidden += hidden.subtree;
		}
	}
	vec_free(&open);
}

static void emit(struct fold *f, double min_share)
{
	struct emit x = { .f = f };
	const struct fcall *root = &f->calls[f->root];
	if (min_share > 0) {
		x.least = min_share * MAX(magnitude(f, root->total), magnitude(f, root->base_total));
		x.other = (uint32_t)f->frames.n;
		for (uint32_t i = 1; i < f->frames.n; i++) /* a function of that name is the same frame */
			if (view_eqs(f->frames.v[i].name, "(other)"))
				x.other = i;
		if (x.other == f->frames.n)
			vec_push(&f->frames, (struct flame_frame){ VIEW("(other)"), VIEW(""), VIEW(""), 0 });
	}
	emit_all(&x);
	vec_free(&x.children);
	f->out->nodes = x.nodes.v;
	f->out->n_nodes = x.nodes.n;
}

/* Frames that neither a node nor a function names go. */
static void drop_unused_frames(struct fold *f)
{
	struct flame *out = f->out;
	uint32_t *as AUTOFREE = xcalloc(f->frames.n, sizeof *as); /* first: used at all; then: the new number */
	as[0] = 1;
	for (size_t i = 0; i < out->n_nodes; i++)
		as[out->nodes[i].frame] = 1;
	for (size_t i = 0; i < out->n_functions; i++)
		as[out->functions[i].frame] = 1;
	for (uint32_t i = 0; i < f->frames.n; i++)
		if (as[i]) {
			as[i] = (uint32_t)out->n_frames;
			f->frames.v[out->n_frames++] = f->frames.v[i];
		}
	for (size_t i = 0; i < out->n_nodes; i++)
		out->nodes[i].frame = as[out->nodes[i].frame];
	for (size_t i = 0; i < out->n_functions; i++)
		out->functions[i].frame = as[out->functions[i].frame];
	out->frames = f->frames.v;
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
		if (ask->functions || ask->match)
			rc = make_functions(&f, ask, e);
	}
	if (!rc && f.overflow)
		rc = err_set(e, ERR_EXECUTION, "a total of the flame graph does not fit in 64 bits");
	if (!rc)
		emit(&f, ask->min_share);
	drop_unused_frames(&f);
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

/* ---- folded ---- */

/* What separates frames and lines in this format cannot be in a name. */
static void put_folded_name(struct buf *b, struct view name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		buf_putc(b, c == ';' ? ':' : (unsigned char)c < ' ' ? ' ' : c);
	}
}

/* Values are integers of the native unit; of a diff the difference. */
static bool folded_value(const struct flame *f, const struct flame_node *n, int64_t *ret)
{
	return f->is_float ? num_round_i64(n->self.d - n->base_self.d, ret) : !__builtin_sub_overflow(n->self.i, n->base_self.i, ret);
}

int flame_folded(const struct flame *f, struct buf *out, struct err *e)
{
	struct buf path = { 0 };
	int rc = 0;
	VEC(size_t) ends = { 0 }; /* of path, by depth */
	for (size_t i = 0; i < f->n_nodes && !rc; i++) {
		const struct flame_node *n = &f->nodes[i];
		int64_t v;
		while (ends.n > n->depth)
			ends.n--;
		path.len = ends.n ? ends.v[ends.n - 1] : 0;
		if (n->depth) {
			if (path.len)
				buf_putc(&path, ';');
			put_folded_name(&path, f->frames[n->frame].name);
		}
		vec_push(&ends, path.len);
		if (!folded_value(f, n, &v)) {
			rc = err_set(e, ERR_EXECUTION, "a value of %.*s does not fit in 64 bits: this format has whole numbers",
				     VIEW_ARG(f->frames[n->frame].name));
			continue;
		}
		if (!v)
			continue;
		buf_putv(out, path.len ? buf_view(&path) : VIEW("(empty stack)"));
		buf_printf(out, " %lld\n", (long long)v);
	}
	vec_free(&ends);
	buf_free(&path);
	return rc;
}
