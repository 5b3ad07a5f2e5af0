/* SPDX-License-Identifier: Apache-2.0 */
/* A store of results of subexpressions, by canonical text, steps and look-back: within one query that has equal ones, or among the
 * queries for one time (promql.h). It is bounded: results without room are computed again. Profiles are kept as references to stored
 * ones, and get their stacks and rows (readout_kept.c) when these are needed. */
#include "promql-like/stacks/shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "promql-like/syntax/func.h"

/* A state of the source and how many see it; the first and the current one count one more each. */
struct seen {
	struct source_view *view;
	unsigned refs;
};

/* The result of a subexpression. It stays where it is until the end: who found it borrows its labels and types. */
struct kept {
	struct view text;
	struct span sp;
	int64_t lookback_ms;
	bool values_only;
	struct value v;
	struct arena arena;        /* text, labels */
	struct source_view *view;  /* that its profiles are of, held; NULL: it has none */
	struct promql_expr *parsed; /* to know what it read; NULL: not asked yet */
	uint64_t counted;
	bool gone;                 /* it can be found no more */
};

struct promql_shared {
	struct source *source;
	struct budget *budget;  /* NULL: of one query, which counts the kept data as its own */
	uint64_t max_bytes;
	struct mutex lock;      /* of what follows */
	VEC(struct seen) seen;
	struct source_view *first; /* for queries that read nothing written since; NULL: not requested yet */
	struct source_view *current; /* for the others; NULL: something was written since it was opened */
	VEC(struct kept *) kept;
	struct map by_text;     /* those that can be found */
	struct promql_shared_stats stats;
};

struct promql_shared *shared_of_source(struct source *from, struct budget *b, uint64_t max_bytes)
{
	struct promql_shared *s = NEW(struct promql_shared);
	s->source = from;
	s->budget = b;
	s->max_bytes = max_bytes ? max_bytes : s->budget->max / 4;
	mutex_init(&s->lock, RANK_QUERY_SHARED, "shared evaluation");
	return s;
}

/* A store for one query. Free it with promql_shared_free before the query's memory goes. */
static struct promql_shared *shared_of_one(uint64_t max_bytes)
{
	struct promql_shared *s = NEW(struct promql_shared);
	s->max_bytes = max_bytes;
	mutex_init(&s->lock, RANK_QUERY_SHARED, "shared evaluation");
	return s;
}

/* ---- views ---- */

static struct seen *find_seen(struct promql_shared *s, const struct source_view *v) REQUIRES(s->lock)
{
	for (size_t i = 0; i < s->seen.n; i++)
		if (s->seen.v[i].view == v)
			return &s->seen.v[i];
	return NULL;
}

/* v may be NULL. */
static void let_go(struct promql_shared *s, struct source_view *v) REQUIRES(s->lock)
{
	struct seen *x = v ? find_seen(s, v) : NULL;
	if (!x || --x->refs)
		return;
	v->ops->release(v);
	*x = s->seen.v[--s->seen.n];
}

int shared_open(struct promql_shared *s, bool as_first, struct source_view **ret, struct err *e)
{
	int rc = 0;
	mutex_lock(&s->lock);
	struct source_view **at = as_first ? &s->first : &s->current;
	if (!*at) {
		struct seen now = { .refs = 1 };
		rc = s->source->open(s->source, &now.view, e);
		if (!rc) {
			vec_push(&s->seen, now);
			*at = now.view;
		}
	}
	if (!rc) {
		find_seen(s, *at)->refs++;
		*ret = *at;
	}
	mutex_unlock(&s->lock);
	return rc;
}

void shared_close(struct promql_shared *s, struct source_view *v)
{
	mutex_lock(&s->lock);
	let_go(s, v);
	mutex_unlock(&s->lock);
}

static void kept_free(struct kept *k)
{
	value_free(&k->v);
	arena_free(&k->arena);
	promql_expr_free(k->parsed);
	free(k);
}

void promql_shared_free(struct promql_shared *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->kept.n; i++) {
		struct source_view *view = s->kept.v[i]->view;
		kept_free(s->kept.v[i]);
		if (view)
			shared_close(s, view);
	}
	mutex_lock(&s->lock);
	let_go(s, s->first);
	let_go(s, s->current);
	mutex_unlock(&s->lock);
	if (s->budget)
		budget_give(s->budget, (size_t)s->stats.bytes);
	vec_free(&s->kept);
	map_free(&s->by_text);
	vec_free(&s->seen);
	mutex_destroy(&s->lock);
	free(s);
}

struct promql_shared_stats promql_shared_stats(struct promql_shared *s)
{
	mutex_lock(&s->lock);
	struct promql_shared_stats stats = s->stats;
	mutex_unlock(&s->lock);
	return stats;
}

/* ---- subexpressions ---- */

static uint64_t key_hash(struct view text, const struct span *sp)
{
	return hash_view(text) ^ hash_u64((uint64_t)sp->start) ^ hash_u64((uint64_t)sp->n + 7) ^ hash_u64((uint64_t)sp->step + 3);
}

static bool same_key(const struct kept *k, const struct eval *q, struct view text, const struct span *sp, bool values_only)
{
	return k->sp.start == sp->start && k->sp.n == sp->n && k->sp.step == sp->step && k->lookback_ms == q->lookback_ms &&
	       k->values_only == values_only && view_eq(k->text, text);
}

static size_t n_samples(const struct value *v)
{
	size_t n = 0;
	for (size_t i = 0; i < v->n; i++)
		n += v->s[i].n;
	return n;
}

/* Samples with references of their own; the labels are borrowed. */
static void copy_series(const struct value *from, struct value *to)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct value_series *x = &from->s[i];
		struct value_series *y = value_add(to, x->labels, x->drop_name);
		y->s = xreallocarray(NULL, x->n + 1, sizeof *y->s);
		y->n = y->cap = x->n;
		for (size_t k = 0; k < x->n; k++) {
			y->s[k] = x->s[k];
			lazy_profile_ref(y->s[k].p);
		}
	}
}

/* For a profile that consists of vectors already, the state of the source does not matter. */
static bool needs_view(const struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct lazy_profile *p = v->s[i].s[k].p;
			if (p && (!lazy_side_whole(&p->a) || (p->diff && !lazy_side_whole(&p->b))))
				return true;
		}
	return false;
}

/* That of another state than the query sees is of no use while it has no stacks. */
static struct kept *look_up(struct promql_shared *s, const struct eval *q, struct view text, const struct span *sp, bool values_only) REQUIRES(s->lock)
{
	uint64_t h = key_hash(text, sp);
	uint32_t id;
	for (size_t at = map_start(&s->by_text, h); map_probe(&s->by_text, h, &at, &id);) {
		struct kept *k = s->kept.v[id];
		if (same_key(k, q, text, sp, values_only) && (!k->view || k->view == q->view || !needs_view(&k->v)))
			return k;
	}
	return NULL;
}

int shared_find(struct promql_shared *s, struct eval *q, struct view text, const struct span *sp, bool values_only, struct value *ret,
		bool *ret_found, struct err *e)
{
	mutex_lock(&s->lock);
	struct kept *k = look_up(s, q, text, sp, values_only);
	s->stats.found += k != NULL;
	mutex_unlock(&s->lock);
	*ret_found = k != NULL;
	if (!k)
		return 0;
	size_t n = n_samples(&k->v);
	int rc = eval_hold(q, n, e);
	if (rc) {
		eval_unhold(q, n);
		return rc;
	}
	value_start(q, ret, k->v.type);
	copy_series(&k->v, ret);
	for (size_t i = 0; i < k->v.n; i++) /* they will be asked more than once */
		for (size_t j = 0; j < k->v.s[i].n; j++)
			if (k->v.s[i].s[j].p)
				atomic_store_explicit(&k->v.s[i].s[j].p->again, true, memory_order_relaxed);
	atomic_fetch_add(&q->counted, k->counted);
	return 0;
}

/* Whether n bytes more may be kept. */
static bool take_bytes(struct promql_shared *s, size_t n) REQUIRES(s->lock)
{
	if (s->stats.bytes + n > s->max_bytes || (s->budget && !budget_take(s->budget, n, BUDGET_KEPT)))
		return false;
	s->stats.bytes += n;
	return true;
}

bool shared_charge(struct promql_shared *s, size_t n)
{
	mutex_lock(&s->lock);
	bool yes = take_bytes(s, n);
	mutex_unlock(&s->lock);
	return yes;
}

static size_t bytes_of(const struct value *v, struct view text)
{
	size_t n = sizeof(struct kept) + 4096 + text.len;
	for (size_t i = 0; i < v->n; i++) {
		n += sizeof(struct value_series) + v->s[i].n * sizeof(struct value_sample) + v->s[i].labels.n * sizeof(struct label);
		for (size_t k = 0; k < v->s[i].labels.n; k++)
			n += v->s[i].labels.v[k].name.len + v->s[i].labels.v[k].value.len;
		for (size_t k = 0; k < v->s[i].n; k++)
			if (v->s[i].s[k].p)
				n += sizeof(struct lazy_profile) + (v->s[i].s[k].p->a.n + v->s[i].s[k].p->b.n) * sizeof(struct lazy_term);
	}
	return n;
}

static bool has_profiles(const struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			if (v->s[i].s[k].p)
				return true;
	return false;
}

/* One more for the state that a query sees. */
static struct source_view *hold_view(struct promql_shared *s, struct source_view *v) REQUIRES(s->lock)
{
	struct seen *x = find_seen(s, v);
	if (!x)
		return NULL;
	x->refs++;
	return v;
}

void shared_keep(struct promql_shared *s, struct eval *q, struct view text, const struct span *sp, bool values_only, const struct value *v,
		 uint64_t counted)
{
	if (v->type != PROMQL_VECTOR || (sp->n > 1 && has_profiles(v)))
		return;
	mutex_lock(&s->lock);
	bool lasts = !s->source || q->view == s->first || q->view == s->current;
	if (lasts && !look_up(s, q, text, sp, values_only) && take_bytes(s, bytes_of(v, text))) {
		struct kept *k = NEW(struct kept);
		arena_init(&k->arena, 0);
		k->text = arena_view(&k->arena, text);
		k->sp = *sp;
		k->lookback_ms = q->lookback_ms;
		k->values_only = values_only;
		k->counted = counted;
		k->v.type = v->type;
		copy_series(v, &k->v);
		for (size_t i = 0; i < k->v.n; i++)
			k->v.s[i].labels = labels_copy(&k->arena, v->s[i].labels);
		if (has_profiles(v))
			k->view = hold_view(s, q->view);
		map_insert(&s->by_text, key_hash(text, sp), (uint32_t)s->kept.n);
		vec_push(&s->kept, k);
		s->stats.kept++;
	}
	mutex_unlock(&s->lock);
}

static bool read_name(struct kept *k, struct view name)
{
	struct err e;
	if (!k->parsed && promql_parse(&k->parsed, k->text, &e))
		k->parsed = NULL;
	return !name.len || !k->parsed || promql_may_read(k->parsed, name);
}

void promql_shared_wrote(struct promql_shared *s, struct view name)
{
	mutex_lock(&s->lock);
	let_go(s, s->current);
	s->current = NULL;
	for (size_t i = 0; i < s->kept.n; i++) {
		struct kept *k = s->kept.v[i];
		if (!k->gone && read_name(k, name))
			k->gone = map_remove(&s->by_text, key_hash(k->text, &k->sp), (uint32_t)i);
	}
	mutex_unlock(&s->lock);
}

/* ---- which subexpressions ---- */

struct marking {
	struct eval *q;
	struct map seen;       /* texts: place in counts */
	VEC(struct { struct view text; unsigned n; }) counts;
	unsigned above;        /* how often the node above occurs */
	size_t selectors;
	bool count_only;
};

static bool worth(const struct node *n)
{
	if (n->type != PROMQL_VECTOR)
		return false;
	return n->kind == NODE_SELECTOR || n->kind == NODE_AGGREGATE || n->kind == NODE_BINARY || n->kind == NODE_CALL;
}

static unsigned *count_of(struct marking *m, const struct node *n)
{
	struct view text = shared_text(m->q, n);
	uint64_t h = hash_view(text);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&m->seen, h, id, m->counts.n, view_eq(m->counts.v[id].text, text)))
		return &m->counts.v[id].n;
	__auto_type c = vec_add(&m->counts);
	c->text = text;
	c->n = 0;
	return &c->n;
}

static void count_nodes(struct node *n, void *arg)
{
	struct marking *m = arg;
	if (worth(n))
		++*count_of(m, n);
	node_each_child(n, count_nodes, m);
}

/* A subexpression that occurs only where a larger one does needs not be kept. */
static void mark_nodes(struct node *n, void *arg)
{
	struct marking *m = arg;
	unsigned above = m->above, mine = worth(n) ? *count_of(m, n) : above;
	n->once = worth(n) && mine > above && shared_text(m->q, n).len;
	m->above = mine;
	node_each_child(n, mark_nodes, m);
	m->above = above;
}

static void count_selectors(struct node *n, void *arg)
{
	*(size_t *)arg += n->kind == NODE_SELECTOR;
	node_each_child(n, count_selectors, arg);
}

/* Subexpressions that other queries may share: not those specific to one rule, such as a comparison or one function's share. */
static void mark_shared(struct node *n, void *arg)
{
	struct eval *q = arg;
	bool own = n->kind == NODE_BINARY || (n->kind == NODE_CALL && func_is_readout(n->call.fn));
	n->once = worth(n) && !own && shared_text(q, n).len;
	node_each_child(n, mark_shared, q);
}

struct view shared_text(const struct eval *q, const struct node *n)
{
	return view_make(q->text.ptr + q->texts[n->id].from, q->texts[n->id].len);
}

void shared_mark(struct eval *q, struct promql_shared *given)
{
	struct marking m = { .q = q, .above = 1 };
	size_t selectors = 0;
	count_selectors(q->x->root, &selectors);
	if (!selectors || (!given && selectors < 2))
		return;
	q->texts = print_texts(q->x, &q->text);
	if (given) {
		q->once = given;
		mark_shared(q->x->root, q);
		return;
	}
	count_nodes(q->x->root, &m);
	for (size_t i = 0; i < m.counts.n && !q->once; i++)
		if (m.counts.v[i].n > 1)
			q->once = q->own_once = shared_of_one(q->max_samples / 16 * sizeof(struct value_sample));
	if (q->once)
		mark_nodes(q->x->root, &m);
	map_free(&m.seen);
	vec_free(&m.counts);
}

/* ---- which nodes read which series ---- */

struct reading {
	struct view name;
	bool yes;
};

static bool selector_may_read(const struct node_selector *sel, struct view name)
{
	for (size_t i = 0; i < sel->n; i++) {
		struct err e;
		if (view_eqs(sel->m[i].name, LABEL_NAME) && matcher_matches(&sel->m[i], name, NULL, &e) == 0)
			return false; /* an alias is the name of a profile, under which no rule writes */
	}
	return true;
}

static void look_for_reader(struct node *n, void *arg)
{
	struct reading *r = arg;
	if (r->yes)
		return;
	if (n->kind == NODE_SELECTOR)
		r->yes = selector_may_read(&n->sel, r->name);
	else if (n->kind == NODE_CALL && strcmp(n->call.fn->name, "info") == 0)
		r->yes = true; /* it reads series that it does not name */
	else
		node_each_child(n, look_for_reader, arg);
}

bool promql_may_read(const struct promql_expr *x, struct view name)
{
	struct reading r = { name, false };
	look_for_reader(x->root, &r);
	return r.yes;
}
