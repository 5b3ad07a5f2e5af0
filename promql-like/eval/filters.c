/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: profiles in, profiles out, what google/pprof's options of the same names do. Filters that only choose among samples keep
 * the dictionary. Those that change stacks write new ones into the query's own dictionary (under its lock), after computing the change
 * once per location. A diff is filtered on both sides. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/sample_order.h"
#include "promql-like/eval/funcs.h"
#include "promql-like/stacks/frames.h"
#include "promql-like/stacks/rewrite.h"
#include "promql-like/stacks/stack_filter.h"
#include "promql-like/stacks/tagroot.h"

struct filter {
	struct eval *q;
	struct node *n;
	struct frames frames;
	/* One side of one profile; returns owned. */
	struct stackvec *(*run)(struct filter *f, const struct stackvec *v, struct err *e);
	struct stack_filter stack_filter;
	const struct value *fractions;   /* trim: by step; NULL otherwise */
	double fraction;                 /* at the step at hand */
	double whole;                    /* trim: of both sides */
	struct labels labels;            /* tagroot: of the element at hand */
	const struct view *keys;         /* tagroot */
	size_t n_keys;
};

/* ---- changing stacks ---- */

/* The frames of a location that stay: [first, end) or none; and the target of the rest. */
struct kept_lines {
	uint32_t first, end;
	bool holes;        /* hide and show may take some out of the middle: see keep[] */
	uint64_t mask;     /* of the first 64 lines, if holes */
	bool hidden;
	bool hit;          /* show_from, prune_from: the location matches */
};

typedef void (*line_rule)(struct filter *f, struct frames_memo *fm, uint32_t location, const struct sym_location *l,
			  struct kept_lines *k);

static void hide_rule(struct filter *f, struct frames_memo *fm, uint32_t location, const struct sym_location *l,
		      struct kept_lines *k)
{
	(void)f;
	k->holes = true;
	for (uint32_t i = 0; i < MIN(frame_count(l), 64); i++)
		if (!frames_memo_match(fm, location, i))
			k->mask |= UINT64_C(1) << i;
	k->hidden = !k->mask;
}

/* pprof's expression keeps lines with an unknown function beside others, and hides a location without lines. */
static void show_rule(struct filter *f, struct frames_memo *fm, uint32_t location, const struct sym_location *l,
		      struct kept_lines *k)
{
	k->holes = true;
	for (uint32_t i = 0; i < MIN(frame_count(l), 64); i++) {
		bool unknown = f->frames.any && i < l->n_lines && !symbols_get_line(fm->s, l, i)->function;
		if (unknown || frames_memo_match(fm, location, i))
			k->mask |= UINT64_C(1) << i;
	}
	if (f->frames.any && !l->n_lines)
		k->mask = 0;
	k->hidden = !k->mask;
}

/* Lines above the outermost match go. */
static void show_from_rule(struct filter *f, struct frames_memo *fm, uint32_t location, const struct sym_location *l,
			   struct kept_lines *k)
{
	(void)f;
	for (uint32_t i = frame_count(l); i-- > 0;)
		if (frames_memo_match(fm, location, i)) {
			k->hit = true;
			k->end = i + 1;
			return;
		}
}

/* Lines below the innermost match go. */
static void prune_from_rule(struct filter *f, struct frames_memo *fm, uint32_t location, const struct sym_location *l,
			    struct kept_lines *k)
{
	(void)f;
	for (uint32_t i = 0; i < frame_count(l); i++)
		if (frames_memo_match_name(fm, location, i)) {
			k->hit = true;
			k->first = i;
			return;
		}
}

enum cut { CUT_HIDDEN, CUT_ABOVE, CUT_BELOW };

struct cutter {
	struct filter *f;
	line_rule rule;
	enum cut cut;
	struct frames_memo fm;
	struct kept_lines *known;  /* by location */
	bool *asked;
	struct rewrite *rw;
};

static struct kept_lines *lines_of(struct cutter *c, uint32_t location)
{
	struct kept_lines *k = &c->known[location];
	if (!c->asked[location]) {
		const struct sym_location *l = symbols_get_location(c->fm.s, location);
		*k = (struct kept_lines){ .end = frame_count(l) };
		c->rule(c->f, &c->fm, location, l, k);
		c->asked[location] = true;
	}
	return k;
}

/* The locations of a stack, leaf first, that stay; false: the sample goes. */
static bool cut_stack(void *arg, struct rewrite *rw, const uint32_t *locations, size_t n)
{
	struct cutter *c = arg;
	size_t from = 0, to = n;
	if (c->cut == CUT_ABOVE) {
		while (to > 0 && !lines_of(c, locations[to - 1])->hit)
			to--;
		if (!to)
			return false;
	} else if (c->cut == CUT_BELOW) {
		while (from < n && !lines_of(c, locations[from])->hit)
			from++;
		if (from == n)
			from = 0;
	}
	size_t kept = 0;
	for (size_t i = from; i < to; i++) {
		struct kept_lines *k = lines_of(c, locations[i]);
		if (k->hidden)
			continue;
		kept++;
		if (k->holes)
			rewrite_add_mask(rw, locations[i], k->mask);
		else
			rewrite_add(rw, locations[i], k->first, k->end);
	}
	return kept > 0 || !n || c->cut != CUT_HIDDEN;
}

static struct stackvec *cut_frames(struct filter *f, const struct stackvec *v, line_rule rule, enum cut cut, struct err *e)
{
	struct cutter c = { .f = f, .rule = rule, .cut = cut };
	frames_memo_init(&c.fm, &f->frames, v->symbols);
	c.known = xcalloc(c.fm.n_locations + 1, sizeof *c.known);
	c.asked = xcalloc(c.fm.n_locations + 1, sizeof *c.asked);
	struct stackvec *out = rewrite_stacks(f->q, v, cut_stack, &c, e);
	frames_memo_free(&c.fm);
	free(c.known);
	free(c.asked);
	if (out && frames_failed(&f->frames, e)) {
		stackvec_unref(out);
		return NULL;
	}
	return out;
}

static struct stackvec *run_hide(struct filter *f, const struct stackvec *v, struct err *e)
{
	return cut_frames(f, v, hide_rule, CUT_HIDDEN, e);
}

static struct stackvec *run_show(struct filter *f, const struct stackvec *v, struct err *e)
{
	return cut_frames(f, v, show_rule, CUT_HIDDEN, e);
}

static struct stackvec *run_show_from(struct filter *f, const struct stackvec *v, struct err *e)
{
	return cut_frames(f, v, show_from_rule, CUT_ABOVE, e);
}

static struct stackvec *run_prune_from(struct filter *f, const struct stackvec *v, struct err *e)
{
	return cut_frames(f, v, prune_from_rule, CUT_BELOW, e);
}

/* ---- collapse, invert ---- */

struct shaper {
	const struct symbols *s;
	bool invert;
};

/* The identity of a frame's function: its name, or the address if it has none. */
static bool same_function(const struct symbols *s, uint32_t la, uint32_t ia, uint32_t lb, uint32_t ib)
{
	const struct sym_location *a = symbols_get_location(s, la), *b = symbols_get_location(s, lb);
	uint32_t fa = a->n_lines ? symbols_get_line(s, a, ia)->function : 0, fb = b->n_lines ? symbols_get_line(s, b, ib)->function : 0;
	if (!fa || !fb)
		return !fa && !fb && la == lb;
	return symbols_get_function(s, fa - 1)->name == symbols_get_function(s, fb - 1)->name;
}

static bool collapse_stack(void *arg, struct rewrite *rw, const uint32_t *locations, size_t n)
{
	const struct symbols *s = ((struct shaper *)arg)->s;
	uint32_t last = 0, last_line = 0;
	bool any = false;
	for (size_t i = 0; i < n; i++) {
		uint32_t count = frame_count(symbols_get_location(s, locations[i]));
		uint64_t mask = 0;
		for (uint32_t k = 0; k < MIN(count, 64); k++) {
			if (any && same_function(s, last, last_line, locations[i], k))
				continue;
			mask |= UINT64_C(1) << k;
			last = locations[i];
			last_line = k;
			any = true;
		}
		if (mask)
			rewrite_add_mask(rw, locations[i], mask);
	}
	return true;
}

static bool invert_stack(void *arg, struct rewrite *rw, const uint32_t *locations, size_t n)
{
	(void)arg;
	for (size_t i = n; i-- > 0;)
		rewrite_add_reversed(rw, locations[i]);
	return true;
}

static struct stackvec *run_collapse(struct filter *f, const struct stackvec *v, struct err *e)
{
	struct shaper s = { v->symbols, false };
	return rewrite_stacks(f->q, v, collapse_stack, &s, e);
}

static struct stackvec *run_invert(struct filter *f, const struct stackvec *v, struct err *e)
{
	return rewrite_stacks(f->q, v, invert_stack, NULL, e);
}

/* ---- trim ----
 *
 * A tree by function name. A subtree whose value is below the fraction of the whole becomes one frame (other) of its parent, so that
 * the values above stay. */

struct trimmer {
	const struct symbols *s;
	struct map map;
	VEC(struct { uint32_t parent; struct view name; struct num_sum sum; }) nodes; /* 0 is the root */
	struct arena names;
	struct buf tmp;
	double least;
};

static uint32_t trie_child(struct trimmer *t, uint32_t parent, uint32_t location, uint32_t line)
{
	struct view name = frame_name(t->s, symbols_get_location(t->s, location), line, &t->tmp);
	uint64_t h = hash_bytes_seed(name.ptr, name.len, hash_u64(parent));
	uint32_t id;
	if (MAP_FIND_OR_ADD(&t->map, h, id, t->nodes.n, t->nodes.v[id].parent == parent && view_eq(t->nodes.v[id].name, name)))
		return id;
	__auto_type n = vec_add(&t->nodes);
	n->parent = parent;
	n->name = arena_view(&t->names, name);
	return id;
}

static void trie_add(struct trimmer *t, const uint32_t *locations, size_t n, double v)
{
	uint32_t node = 0;
	num_sum_add(&t->nodes.v[0].sum, v);
	for (size_t i = n; i-- > 0;)
		for (uint32_t k = frame_count(symbols_get_location(t->s, locations[i])); k-- > 0;) {
			node = trie_child(t, node, locations[i], k);
			num_sum_add(&t->nodes.v[node].sum, v);
		}
}

static bool trim_stack(void *arg, struct rewrite *rw, const uint32_t *locations, size_t n)
{
	struct trimmer *t = arg;
	uint32_t node = 0;
	for (size_t i = n; i-- > 0;)
		for (uint32_t k = frame_count(symbols_get_location(t->s, locations[i])); k-- > 0;) {
			node = trie_child(t, node, locations[i], k);
			if (fabs(num_sum_value(t->nodes.v[node].sum)) >= t->least)
				continue;
			rewrite_add_name(rw, VIEW("(other)"), VIEW(""));
			if (k + 1 < frame_count(symbols_get_location(t->s, locations[i])))
				rewrite_add(rw, locations[i], k + 1, frame_count(symbols_get_location(t->s, locations[i])));
			for (size_t j = i + 1; j < n; j++)
				rewrite_add(rw, locations[j], 0, UINT32_MAX);
			return true;
		}
	for (size_t j = 0; j < n; j++)
		rewrite_add(rw, locations[j], 0, UINT32_MAX);
	return true;
}

static struct stackvec *run_trim(struct filter *f, const struct stackvec *v, struct err *e)
{
	struct trimmer t = { .s = v->symbols, .least = fabs(f->fraction * f->whole) };
	arena_init(&t.names, 0);
	vec_add(&t.nodes);
	VEC(uint32_t) stack = { 0 };
	for (size_t i = 0; i < v->n; i++) {
		uint32_t id = symbols_get_column(v->symbols, v->columns[i])->stack;
		size_t n = symbols_stack_locations(v->symbols, id, stack.v, stack.cap);
		if (n > stack.cap) {
			vec_reserve(&stack, n);
			n = symbols_stack_locations(v->symbols, id, stack.v, stack.cap);
		}
		trie_add(&t, stack.v, n, v->is_float ? v->floats[i] : (double)v->ints[i]);
	}
	vec_free(&stack);
	struct stackvec *out = rewrite_stacks(f->q, v, trim_stack, &t, e);
	vec_free(&t.nodes);
	map_free(&t.map);
	arena_free(&t.names);
	buf_free(&t.tmp);
	return out;
}

/* ---- calls ---- */

static int filter_prof(struct filter *f, struct value_sample *s, struct err *e)
{
	struct stackvec *a, *b = NULL;
	f->whole = lazy_side_total(&s->p->a) - (s->p->diff ? lazy_side_total(&s->p->b) : 0);
	if (s->p->diff) /* so that both sides are cut alike only where both are small */
		f->whole = fmax(fabs(lazy_side_total(&s->p->a)), fabs(lazy_side_total(&s->p->b)));
	a = f->run(f, lazy_side_whole(&s->p->a), e);
	if (a && s->p->diff) {
		b = f->run(f, lazy_side_whole(&s->p->b), e);
		if (!b) {
			stackvec_unref(a);
			a = NULL;
		}
	}
	struct lazy_profile *p = a ? lazy_profile_with(s->p, a, b, e) : NULL;
	if (!p)
		return -(int)(e->code ? e->code : ERR_EXECUTION);
	lazy_profile_unref(s->p);
	s->p = p;
	s->v = lazy_profile_value(p);
	return 0;
}

static int apply(struct filter *f, const struct span *sp, struct value *ret, struct err *e)
{
	struct value v = { 0 };
	int rc = eval_node(f->q, f->n->call.args[0], sp, &v, e);
	if (!rc)
		rc = keep_profiles(f->q, f->n, f->n->call.fn->name, "there are no stacks in a number", &v, e);
	VEC(struct lazy_profile *) all = { 0 };
	for (size_t i = 0; i < v.n && !rc; i++)
		for (size_t k = 0; k < v.s[i].n; k++)
			vec_push(&all, v.s[i].s[k].p);
	if (!rc)
		rc = lazy_profiles_materialise(f->q, all.v, all.n, e);
	vec_free(&all);
	for (size_t i = 0; i < v.n && !rc; i++) {
		v.s[i].drop_name = true;
		for (size_t k = 0; k < v.s[i].n && !rc; k++) {
			rc = eval_check(f->q, e);
			f->labels = v.s[i].labels;
			if (f->fractions)
				f->fraction = value_scalar(f->fractions, (size_t)((v.s[i].s[k].t_ms - sp->start) / sp->step));
			if (!rc)
				rc = filter_prof(f, &v.s[i].s[k], e);
		}
	}
	frames_release(&f->frames);
	if (rc) {
		value_free(&v);
		return rc;
	}
	*ret = v;
	return 0;
}

#define FILTER(name, how)                                                   \
	CALL(name)                                                          \
	{                                                                   \
		struct filter f = { .q = q, .n = n, .run = how };           \
		int rc = frames_init(&f.frames, q, n->call.args[1], e);        \
		return rc ? rc : apply(&f, sp, ret, e);                     \
	}
FILTER(fn_hide, run_hide)
FILTER(fn_show, run_show)
FILTER(fn_show_from, run_show_from)
FILTER(fn_prune_from, run_prune_from)

static struct stackvec *run_choose(struct filter *f, const struct stackvec *v, struct err *e)
{
	return stack_filter_run(&f->stack_filter, v, e);
}

static int choose(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct filter f = { .q = q, .n = n, .run = run_choose };
	int rc = stack_filter_init(&f.stack_filter, q, n, e);
	if (rc)
		return rc;
	rc = apply(&f, sp, ret, e);
	stack_filter_release(&f.stack_filter);
	return rc;
}

CALL(fn_focus)
{
	return choose(q, n, sp, ret, e);
}

CALL(fn_ignore)
{
	return choose(q, n, sp, ret, e);
}

CALL(fn_where)
{
	return choose(q, n, sp, ret, e);
}

CALL(fn_collapse)
{
	struct filter f = { .q = q, .n = n, .run = run_collapse };
	if (!view_eqs(string_arg(n->call.args[1]), "recursion"))
		return err_set(e, ERR_EXECUTION, "collapse: \"%.*s\" is not known: only \"recursion\" can be collapsed",
			       VIEW_ARG(string_arg(n->call.args[1])));
	return apply(&f, sp, ret, e);
}

CALL(fn_invert)
{
	struct filter f = { .q = q, .n = n, .run = run_invert };
	return apply(&f, sp, ret, e);
}

static struct stackvec *run_tagroot(struct filter *f, const struct stackvec *v, struct err *e)
{
	return tagroot(f->q, v, f->labels, f->keys, f->n_keys, e);
}

CALL(fn_tagroot)
{
	size_t n_keys = n->call.n - 1;
	struct view *keys = xcalloc(n_keys, sizeof *keys);
	struct filter f = { .q = q, .n = n, .run = run_tagroot, .keys = keys, .n_keys = n_keys };
	int rc = 0;
	for (size_t i = 0; i < n_keys && !rc; i++) {
		keys[i] = string_arg(n->call.args[i + 1]);
		if (!label_name_ok(keys[i]) || memchr(keys[i].ptr, 0, keys[i].len))
			rc = err_set(e, ERR_EXECUTION, "invalid label name in tagroot(): %.*s", VIEW_ARG(keys[i]));
	}
	if (!rc)
		rc = apply(&f, sp, ret, e);
	free(keys);
	return rc;
}

CALL(fn_trim)
{
	struct filter f = { .q = q, .n = n, .run = run_trim };
	struct value x;
	int rc = eval_node(q, n->call.args[1], sp, &x, e);
	if (rc)
		return rc;
	f.fractions = &x;
	for (size_t i = 0; i < sp->n && !rc; i++)
		if (!(value_scalar(&x, i) >= 0 && value_scalar(&x, i) <= 1))
			rc = err_set(e, ERR_EXECUTION, "trim: the fraction must be between 0 and 1");
	if (!rc)
		rc = apply(&f, sp, ret, e);
	value_free(&x);
	return rc;
}

/* ---- split ---- */

struct split {
	struct eval *q;
	struct node *n;
	const struct span *sp;
	struct value out;
	struct map map;        /* output labels -> series */
	struct sample_labels sorted;
};

static struct labels split_labels(struct split *s, struct labels in, const struct symbols *sy, uint32_t set)
{
	struct labels_builder b;
	size_t n;
	const struct sym_label *l = sample_labels_sorted(&s->sorted, sy, set, &n); /* of several values of a key the first by text */
	labels_builder_init(&b, in);
	for (size_t k = 0; k < s->n->aggr.by.n; k++) {
		struct view name = s->n->aggr.by.v[k], old = labels_get(in, name), value = VIEW("");
		char tmp[32];
		for (size_t i = 0; i < n && !value.len; i++)
			if (view_eq(symbols_get_string(sy, l[i].key), name))
				value = eval_view(s->q, sample_label_text(sy, &l[i], tmp));
		if (old.len) {
			struct buf renamed = { 0 };
			buf_printf(&renamed, "exported_%.*s", VIEW_ARG(name));
			labels_builder_set(&b, eval_view(s->q, buf_view(&renamed)), old);
			buf_free(&renamed);
		}
		labels_builder_set(&b, name, value);
	}
	struct labels out = eval_labels(s->q, &b);
	labels_builder_free(&b);
	return out;
}

static size_t split_series(struct split *s, struct labels l)
{
	uint64_t h = labels_hash(l);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&s->map, h, id, s->out.n, labels_eq(s->out.s[id].labels, l)))
		value_add(&s->out, l, true);
	return id;
}

/* The parts of one side: part[i] accumulates output i of this profile. */
struct split_part {
	size_t series;
	struct stackacc *a, *b;
};

static struct split_part *part_of(struct split *s, struct split_part **parts, size_t *n, size_t series, const struct lazy_profile *p)
{
	(void)s;
	for (size_t i = 0; i < *n; i++)
		if ((*parts)[i].series == series)
			return &(*parts)[i];
	*parts = xreallocarray(*parts, *n + 1, sizeof **parts);
	(*parts)[*n] = (struct split_part){ series, stackacc_new(lazy_side_whole(&p->a)->symbols),
					    p->diff ? stackacc_new(lazy_side_whole(&p->b)->symbols) : NULL };
	return &(*parts)[(*n)++];
}

static void split_side(struct split *s, struct labels in, const struct lazy_profile *p, const struct stackvec *v, bool is_b,
		       struct split_part **parts, size_t *n)
{
	uint32_t last = UINT32_MAX;
	size_t series = 0;
	for (size_t i = 0; i < v->n; i++) {
		uint32_t set = symbols_get_column(v->symbols, v->columns[i])->label_set;
		if (set != last)
			series = split_series(s, split_labels(s, in, v->symbols, set));
		last = set;
		struct split_part *part = part_of(s, parts, n, series, p);
		struct stackacc *acc = is_b ? part->b : part->a;
		if (v->is_float)
			stackacc_add_scaled(acc, v->columns[i], v->floats[i]);
		else
			stackacc_add(acc, v->columns[i], v->ints[i]);
	}
}

static int split_prof(struct split *s, struct labels in, const struct value_sample *x, struct err *e)
{
	struct split_part *parts = NULL;
	size_t n = 0;
	int rc = 0;
	split_side(s, in, x->p, lazy_side_whole(&x->p->a), false, &parts, &n);
	if (x->p->diff)
		split_side(s, in, x->p, lazy_side_whole(&x->p->b), true, &parts, &n);
	for (size_t i = 0; i < n; i++) {
		struct stackvec *a = rc ? NULL : stackacc_finish(parts[i].a, e), *b = parts[i].b && a ? stackacc_finish(parts[i].b, e) : NULL;
		struct lazy_profile *p = a ? lazy_profile_with(x->p, a, b, e) : NULL;
		if (!rc && !p)
			rc = -ERR_EXECUTION;
		struct value_series *out = &s->out.s[parts[i].series];
		if (p && out->n && out->s[out->n - 1].t_ms == x->t_ms) {
			lazy_profile_unref(p);
			rc = err_set(e, ERR_EXECUTION, "vector cannot contain metrics with the same labelset");
		} else if (p) {
			rc = series_push(s->q, out, x->t_ms, lazy_profile_value(p), p, e);
		}
		stackacc_free(parts[i].a);
		stackacc_free(parts[i].b);
	}
	free(parts);
	return rc;
}

static int split_order(const void *a, const void *b)
{
	const struct value_series *x = a, *y = b;
	return labels_cmp(x->labels, y->labels);
}

int eval_split(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct split s = { .q = q, .n = n, .sp = sp };
	struct value v = { 0 };
	value_start(q, &s.out, PROMQL_VECTOR);
	int rc = eval_node(q, n->aggr.expr, sp, &v, e);
	if (!rc)
		rc = keep_profiles(q, n, "split", "there are no samples in a number", &v, e);
	for (size_t i = 0; i < v.n && !rc; i++)
		for (size_t k = 0; k < v.s[i].n && !rc; k++) {
			rc = lazy_profiles_materialise(q, &v.s[i].s[k].p, 1, e);
			if (!rc)
				rc = split_prof(&s, v.s[i].labels, &v.s[i].s[k], e);
		}
	value_free(&v);
	map_free(&s.map);
	sample_labels_release(&s.sorted);
	if (s.out.n) /* they were met in the order of a dictionary's ids */
		qsort(s.out.s, s.out.n, sizeof *s.out.s, split_order);
	return value_finish(&s.out, rc, ret);
}
