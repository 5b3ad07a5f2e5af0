/* SPDX-License-Identifier: Apache-2.0 */
/* Folding. The dictionary's stacks are a tree of parent pointers whose parents have smaller ids, and so is every tree
 * made here: one pass upwards makes children after their parents, one pass downwards adds children to them.
 *
 *	1. A bitmap of the dictionary's nodes that the profile needs: its leaves, then, from the end, their parents.
 *	   So the cost is that of the profile, not of the dictionary, which may be a whole day's.
 *	2. Upwards: each location's lines, the outermost call first, become calls: (parent call, frame) -> call.
 *	3. Downwards: totals.
 *	4. Children in order of their names, and out in preorder. */
#include "model/flame.h"

#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "model/frame.h"

struct call {
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
	uint64_t *needed;   /* bit per node of the dictionary */
	uint32_t *rank;     /* needed nodes before each word */
	size_t words;
	uint32_t *call_of;  /* by rank: the innermost call of that node */
	VEC(struct call) calls;
	VEC(struct flame_frame) frames;
	struct map call_index, frame_index, function_index;
	VEC(uint32_t) functions; /* frame of each entry of function_index */
	VEC(uint32_t) function_ids;
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

/* ---- frames ---- */

/* The frame of that name; what else is known of it is what the first one says. */
static uint32_t intern_frame(struct fold *f, struct flame_frame frame)
{
	uint64_t h = hash_view(frame.name);
	uint32_t id;
	for (size_t at = map_start(&f->frame_index, h); map_probe(&f->frame_index, h, &at, &id);)
		if (view_eq(f->frames.v[id].name, frame.name))
			return id;
	id = (uint32_t)f->frames.n;
	vec_push(&f->frames, frame);
	map_insert(&f->frame_index, h, id);
	return id;
}

static uint32_t frame_of_address(struct fold *f, const struct sym_location *l)
{
	struct buf name = { 0 };
	frame_address_name(f->s, l, &name);
	struct view v = arena_view(&f->out->arena, buf_view(&name));
	buf_free(&name);
	return intern_frame(f, (struct flame_frame){ v, VIEW(""), frame_binary(f->s, l), 0 });
}

static uint32_t frame_of_function(struct fold *f, const struct sym_location *l, uint32_t function)
{
	uint64_t h = hash_u64(function);
	uint32_t id;
	for (size_t at = map_start(&f->function_index, h); map_probe(&f->function_index, h, &at, &id);)
		if (f->function_ids.v[id] == function)
			return f->functions.v[id];
	const struct sym_function *fn = symbols_get_function(f->s, function);
	struct view name = symbols_get_string(f->s, fn->name);
	if (!name.len)
		return frame_of_address(f, l);
	uint32_t frame = intern_frame(f, (struct flame_frame){ name,
		symbols_get_string(f->s, fn->filename), frame_binary(f->s, l), fn->start_line });
	map_insert(&f->function_index, h, (uint32_t)f->functions.n);
	vec_push(&f->functions, frame);
	vec_push(&f->function_ids, function);
	return frame;
}

/* ---- calls ---- */

static uint32_t intern_call(struct fold *f, uint32_t parent, uint32_t frame, int64_t line)
{
	uint64_t h = hash_u64((uint64_t)parent << 32 | frame);
	uint32_t id;
	for (size_t at = map_start(&f->call_index, h); map_probe(&f->call_index, h, &at, &id);) {
		struct call *c = &f->calls.v[id];
		if (c->parent == parent && c->frame == frame) {
			if (c->line != line)
				c->line = 0;
			return id;
		}
	}
	id = (uint32_t)f->calls.n;
	vec_push(&f->calls, (struct call){ .parent = parent, .frame = frame, .line = line });
	map_insert(&f->call_index, h, id);
	return id;
}

static uint32_t call_location(struct fold *f, uint32_t call, const struct sym_location *l)
{
	if (!l->n_lines)
		return intern_call(f, call, frame_of_address(f, l), 0);
	for (uint32_t i = l->n_lines; i--;) {
		const struct sym_line *line = symbols_get_line(f->s, l, i);
		uint32_t frame = line->function ? frame_of_function(f, l, line->function - 1) : frame_of_address(f, l);
		call = intern_call(f, call, frame, line->line);
	}
	return call;
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

static inline uint32_t rank_of(const struct fold *f, uint32_t node)
{
	uint64_t below = f->needed[node / 64] & ((UINT64_C(1) << node % 64) - 1);
	return f->rank[node / 64] + (uint32_t)__builtin_popcountll(below);
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
	for (size_t i = 0; v && i < v->n; i++) {
		if (is_zero(v, i))
			continue;
		uint32_t node = node_of(f, v->columns[i]);
		f->needed[node / 64] |= UINT64_C(1) << node % 64;
	}
}

static void find_needed(struct fold *f, const struct stackvec *v, const struct stackvec *base)
{
	f->words = max_node(f, base, max_node(f, v, 0)) / 64 + 1;
	f->needed = xcalloc(f->words, sizeof *f->needed);
	f->rank = xcalloc(f->words, sizeof *f->rank);
	mark(f, v);
	mark(f, base);
	/* A parent may lie in the same word, below: its bit is looked at after it was set. */
	for (size_t w = f->words; w--;)
		for (int bit = 63; bit >= 0; bit--) {
			if (!(f->needed[w] >> bit & 1))
				continue;
			uint32_t parent = symbols_get_node(f->s, (uint32_t)(w * 64) + (uint32_t)bit)->parent;
			f->needed[parent / 64] |= UINT64_C(1) << parent % 64;
		}
	f->needed[0] |= 1;
	uint32_t n = 0;
	for (size_t w = 0; w < f->words; w++) {
		f->rank[w] = n;
		n += (uint32_t)__builtin_popcountll(f->needed[w]);
	}
	f->call_of = xcalloc(n, sizeof *f->call_of);
}

static void make_calls(struct fold *f)
{
	uint32_t r = 0;
	for (size_t w = 0; w < f->words; w++)
		for (uint64_t bits = f->needed[w]; bits; bits &= bits - 1, r++) {
			uint32_t node = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);
			if (!node)
				continue; /* the root is call 0 */
			const struct sym_node *n = symbols_get_node(f->s, node);
			f->call_of[r] = call_location(f, f->call_of[rank_of(f, n->parent)],
						      symbols_get_location(f->s, n->location));
		}
}

static void add_selves(struct fold *f, const struct stackvec *v, bool base)
{
	for (size_t i = 0; v && i < v->n; i++) {
		if (is_zero(v, i))
			continue;
		struct call *c = &f->calls.v[f->call_of[rank_of(f, node_of(f, v->columns[i]))]];
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
	for (size_t i = f->calls.n; i--;) {
		struct call *c = &f->calls.v[i];
		add(f, &c->total, c->self);
		add(f, &c->base_total, c->base_self);
		struct call *p = &f->calls.v[c->parent];
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
	const struct call *x = &f->calls.v[*(const uint32_t *)a], *y = &f->calls.v[*(const uint32_t *)b];
	return view_cmp(f->frames.v[y->frame].name, f->frames.v[x->frame].name); /* descending: taken from the end */
}

static void put_node(struct emit *x, const struct call *c, uint32_t depth)
{
	vec_push(&x->nodes, (struct flame_node){ depth, c->frame, c->line, c->total, c->self, c->base_total, c->base_self });
}

/* Pushes the children that are shown, in reverse order of names; those that are not are added up in *hidden. */
static void push_children(struct emit *x, const struct call *c, struct call *hidden)
{
	struct fold *f = x->f;
	size_t first = x->children.n;
	for (uint32_t id = c->first_child; id; id = f->calls.v[id].next_sibling) {
		const struct call *k = &f->calls.v[id];
		if (magnitude(f, k->total) < x->least && magnitude(f, k->base_total) < x->least) {
			add(f, &hidden->total, k->total);
			add(f, &hidden->base_total, k->base_total);
			hidden->subtree += k->subtree;
		} else {
			vec_push(&x->children, id);
		}
	}
	qsort_r(x->children.v + first, x->children.n - first, sizeof *x->children.v, by_name, f);
}

/* Preorder without recursion: stacks may be thousands of calls deep. */
static void emit_all(struct emit *x)
{
	struct fold *f = x->f;
	VEC(struct { size_t first; }) open = { 0 }; /* per depth: where its siblings begin in children */
	vec_push(&x->children, 0);
	vec_add(&open);
	while (open.n) {
		uint32_t depth = (uint32_t)open.n - 1;
		if (x->children.n == open.v[depth].first) {
			open.n--;
			continue;
		}
		const struct call *c = &f->calls.v[x->children.v[--x->children.n]];
		put_node(x, c, depth);
		struct call hidden = { .frame = x->other };
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
	const struct call *root = &f->calls.v[0];
	if (min_share > 0) {
		x.least = min_share * MAX(magnitude(f, root->total), magnitude(f, root->base_total));
		x.other = intern_frame(f, (struct flame_frame){ VIEW("(other)"), VIEW(""), VIEW(""), 0 });
	}
	emit_all(&x);
	vec_free(&x.children);
	f->out->nodes = x.nodes.v;
	f->out->n_nodes = x.nodes.n;
	f->out->frames = f->frames.v;
	f->out->n_frames = f->frames.n;
}

static void fold_release(struct fold *f)
{
	free(f->needed);
	free(f->rank);
	free(f->call_of);
	vec_free(&f->calls);
	vec_free(&f->functions);
	vec_free(&f->function_ids);
	map_free(&f->call_index);
	map_free(&f->frame_index);
	map_free(&f->function_index);
}

int flame_fold(struct flame *ret, const struct stackvec *v, const struct stackvec *base, double min_share, struct err *e)
{
	*ret = (struct flame){ .symbols = symbols_ref(v->symbols), .is_float = v->is_float || (base && base->is_float),
			       .has_base = base != NULL };
	arena_init(&ret->arena, 0);
	struct fold f = { .out = ret, .s = v->symbols, .is_float = ret->is_float };
	intern_frame(&f, (struct flame_frame){ VIEW("total"), VIEW(""), VIEW(""), 0 });
	/* A function may be called "total" as well: it is then a frame of its own. */
	map_clear(&f.frame_index);
	vec_push(&f.calls, (struct call){ 0 });
	find_needed(&f, v, base);
	make_calls(&f);
	add_selves(&f, v, false);
	add_selves(&f, base, true);
	add_totals(&f);
	emit(&f, min_share);
	fold_release(&f);
	if (!f.overflow)
		return 0;
	flame_release(ret);
	return err_set(e, ERR_EXECUTION, "a total of the flame graph does not fit in 64 bits");
}

void flame_release(struct flame *f)
{
	free(f->frames);
	free(f->nodes);
	arena_free(&f->arena);
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
static int64_t folded_value(const struct flame *f, const struct flame_node *n)
{
	return f->is_float ? llround(n->self.d - n->base_self.d) : n->self.i - n->base_self.i;
}

void flame_folded(const struct flame *f, struct buf *out)
{
	struct buf path = { 0 };
	VEC(size_t) ends = { 0 }; /* of path, by depth */
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node *n = &f->nodes[i];
		while (ends.n > n->depth)
			ends.n--;
		path.len = ends.n ? ends.v[ends.n - 1] : 0;
		if (n->depth) {
			if (path.len)
				buf_putc(&path, ';');
			put_folded_name(&path, f->frames[n->frame].name);
		}
		vec_push(&ends, path.len);
		int64_t v = folded_value(f, n);
		if (!v)
			continue;
		buf_putv(out, path.len ? buf_view(&path) : VIEW("(empty stack)"));
		buf_printf(out, " %lld\n", (long long)v);
	}
	vec_free(&ends);
	buf_free(&path);
}
