/* SPDX-License-Identifier: Apache-2.0 */
/* Values of an evaluation: making, counting, copying, freeing; and grouping by labels. */
#include <stdio.h>

#include "base/lock.h"
#include "promql-like/values/query.h"

void value_start(struct eval *q, struct value *v, enum promql_type t)
{
	*v = (struct value){ .type = t, .q = q };
}

struct value_series *value_add(struct value *v, struct labels l, bool drop_name)
{
	if (v->n == v->cap) {
		v->cap = v->cap ? v->cap * 2 : 8;
		v->s = xreallocarray(v->s, v->cap, sizeof *v->s);
	}
	v->s[v->n] = (struct value_series){ .labels = l, .drop_name = drop_name };
	return &v->s[v->n++];
}

/* Profiles that are samples are counted with their terms, some bytes at a time, and approximately. Changes while they are held, and profiles
 * that replaced a number, are noticed only when they are freed. */
#define BUDGET_BYTES (INT64_C(256) << 10)
#define PROFILE_BYTES 256 /* itself, and what asking for its stacks takes */

static int64_t profile_bytes(const struct lazy_profile *p)
{
	bool shared = __atomic_load_n(&p->refs, __ATOMIC_RELAXED) > 1; /* by steps, or with what is kept: its terms are another's */
	return PROFILE_BYTES + (shared ? 0 : (int64_t)((p->a.n + p->b.n) * sizeof(struct lazy_term)));
}

static int hold_profile(struct eval *q, const struct lazy_profile *p, struct err *e)
{
	int64_t n = profile_bytes(p), before = atomic_fetch_add(&q->profile_bytes, n), after = before + n;
	int64_t more = MAX(after, INT64_C(0)) / BUDGET_BYTES - MAX(before, INT64_C(0)) / BUDGET_BYTES;
	return more ? eval_hold_bytes(q, (uint64_t)(more * BUDGET_BYTES), e) : 0;
}

static void unhold_profiles(struct eval *q, int64_t n)
{
	int64_t before = atomic_fetch_sub(&q->profile_bytes, n), after = before - n;
	int64_t less = MAX(before, INT64_C(0)) / BUDGET_BYTES - MAX(after, INT64_C(0)) / BUDGET_BYTES;
	if (less)
		eval_give_bytes(q, (uint64_t)(less * BUDGET_BYTES));
}

void sample_drop_profile(struct eval *q, struct value_sample *s)
{
	if (!s->p)
		return;
	unhold_profiles(q, profile_bytes(s->p));
	lazy_profile_unref(s->p);
	s->p = NULL;
}

void series_free(struct value *v, struct value_series *s)
{
	int64_t bytes = 0;
	for (size_t i = 0; i < s->n; i++)
		if (s->s[i].p) {
			bytes += profile_bytes(s->s[i].p);
			lazy_profile_unref(s->s[i].p);
		}
	if (v->q) {
		atomic_fetch_sub(&v->q->held, s->n);
		unhold_profiles(v->q, bytes);
	}
	free(s->s);
	s->s = NULL;
	s->n = s->cap = 0;
}

void value_free(struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		series_free(v, &v->s[i]);
	free(v->s);
	*v = (struct value){ 0 };
}

/* Samples are counted in the budget of all queries many at a time: otherwise all threads would update one counter. */
#define BUDGET_SAMPLES 16384

int eval_hold(struct eval *q, size_t n, struct err *e)
{
	uint64_t before = atomic_fetch_add(&q->held, n), held = before + n, peak = atomic_load(&q->peak);
	while (held > peak && !atomic_compare_exchange_weak(&q->peak, &peak, held))
		;
	if (q->max_samples && held > q->max_samples)
		return err_set(e, ERR_LIMIT, "query processing would load too many samples into memory in query execution: "
			       "the limit is %llu (--query.max-samples)", (unsigned long long)q->max_samples);
	uint64_t more = held / BUDGET_SAMPLES - before / BUDGET_SAMPLES;
	return more ? eval_budget(q, more * BUDGET_SAMPLES * sizeof(struct value_sample), e) : 0;
}

void eval_unhold(struct eval *q, size_t n)
{
	uint64_t before = atomic_fetch_sub(&q->held, n), less = before / BUDGET_SAMPLES - (before - n) / BUDGET_SAMPLES;
	if (less)
		eval_budget_give(q, less * BUDGET_SAMPLES * sizeof(struct value_sample));
}

int series_push(struct eval *q, struct value_series *s, int64_t t_ms, double v, struct lazy_profile *p, struct err *e)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 4;
		s->s = xreallocarray(s->s, s->cap, sizeof *s->s);
	}
	s->s[s->n++] = (struct value_sample){ t_ms, v, p };
	int rc = p ? hold_profile(q, p, e) : 0;
	if (!rc && s->n == 1) /* a new one has labels */
		rc = eval_hold_arena(q, e);
	return rc ? rc : eval_hold(q, 1, e);
}

void value_compact(struct value *v)
{
	size_t out = 0;
	for (size_t i = 0; i < v->n; i++) {
		if (v->s[i].n)
			v->s[out++] = v->s[i];
		else
			free(v->s[i].s);
	}
	v->n = out;
}

int value_finish(struct value *v, int rc, struct value *ret)
{
	if (rc) {
		value_free(v);
		return rc;
	}
	value_compact(v);
	*ret = *v;
	return 0;
}

int value_copy_steps(struct eval *q, const struct value *from, const struct span *sp, struct value *ret, struct err *e)
{
	struct value v;
	value_start(q, &v, from->type);
	v.str = from->str;
	int rc = 0;
	for (size_t i = 0; i < from->n && !rc; i++) {
		const struct value_series *s = &from->s[i];
		struct value_series *out = value_add(&v, s->labels, s->drop_name);
		for (size_t k = 0; k < sp->n && s->n && !rc; k++)
			rc = series_push(q, out, span_at(sp, k), s->s[0].v, lazy_profile_ref(s->s[0].p), e);
	}
	if (rc) {
		value_free(&v);
		return rc;
	}
	*ret = v;
	return 0;
}

/* ---- notes, memory ---- */

void eval_note(struct eval *q, bool info, const char *fmt, ...)
{
	char text[600];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	struct view v = view_make(text, MIN((size_t)n, sizeof text - 1));
	mutex_lock(&q->lock);
	bool known = false;
	for (size_t i = 0; i < q->notes.n && !known; i++)
		known = view_eq(q->notes.v[i].text, v);
	struct view copy = known ? v : arena_view(&q->arena, v);
	if (!known && copy.ptr)
		vec_push(&q->notes, (struct annotation){ copy, info });
	mutex_unlock(&q->lock);
}

void *eval_alloc(struct eval *q, size_t n)
{
	mutex_lock(&q->lock);
	void *p = arena_alloc(&q->arena, n ? n : 1);
	mutex_unlock(&q->lock);
	atomic_fetch_add_explicit(&q->arena_bytes, n, memory_order_relaxed);
	if (!p) /* no cap is set: the number of samples and series bounds it */
		abort();
	return p;
}

struct view eval_view(struct eval *q, struct view v)
{
	char *p = eval_alloc(q, v.len + 1);
	if (v.len)
		memcpy(p, v.ptr, v.len);
	p[v.len] = 0;
	return view_make(p, v.len);
}

struct labels eval_labels(struct eval *q, struct labels_builder *b)
{
	struct labels l = labels_builder_finish(b);
	struct label *v = eval_alloc(q, l.n * sizeof *v);
	if (l.n)
		memcpy(v, l.v, l.n * sizeof *v);
	return (struct labels){ v, l.n };
}

static bool listed(const struct node_labels *names, struct view name)
{
	for (size_t i = 0; i < names->n; i++)
		if (view_eq(names->v[i], name))
			return true;
	return false;
}

struct labels eval_project(struct eval *q, struct labels l, const struct node_labels *names, bool keep)
{
	struct label *v = eval_alloc(q, l.n * sizeof *v);
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++)
		if (listed(names, l.v[i].name) == keep)
			v[n++] = l.v[i];
	return (struct labels){ v, n };
}

struct labels eval_drop_name(struct eval *q, struct labels l)
{
	struct view names[] = { VIEW(LABEL_NAME), VIEW("__type__"), VIEW("__unit__") }; /* what describes the metric goes with it */
	return eval_project(q, l, &(struct node_labels){ names, ARRAY_LEN(names) }, false);
}

struct labels eval_group_labels(struct eval *q, struct labels l, const struct node_labels *by, bool without)
{
	if (!without)
		return eval_project(q, l, by, true);
	struct label *v = eval_alloc(q, l.n * sizeof *v);
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++)
		if (!listed(by, l.v[i].name) && !view_eqs(l.v[i].name, LABEL_NAME))
			v[n++] = l.v[i];
	return (struct labels){ v, n };
}

char *eval_place(struct eval *q, uint32_t at, char out[32])
{
	unsigned line = 1, column = 1;
	for (uint32_t i = 0; i < at && i < q->x->src.len; i++) {
		column++;
		if (q->x->src.ptr[i] == '\n') {
			line++;
			column = 1;
		}
	}
	snprintf(out, 32, "%u:%u", line, column);
	return out;
}

bool eval_has_place(struct view msg, struct view *ret_rest)
{
	size_t i = 0;
	*ret_rest = msg;
	for (int part = 0; part < 2; part++) {
		size_t from = i;
		while (i < msg.len && msg.ptr[i] >= '0' && msg.ptr[i] <= '9')
			i++;
		if (i == from || i == msg.len || msg.ptr[i++] != ':')
			return false;
	}
	if (i == msg.len || msg.ptr[i++] != ' ')
		return false;
	*ret_rest = view_make(msg.ptr + i, msg.len - i);
	return true;
}

int eval_error_at(struct eval *q, const struct node *n, int rc, struct err *e)
{
	char place[32];
	struct view rest;
	if (!rc || (e->code != ERR_EXECUTION && e->code != ERR_LIMIT && e->code != ERR_BAD_DATA) || eval_has_place(view_of(e->msg), &rest))
		return rc;
	return err_wrap(e, "%s", eval_place(q, n->kind == NODE_BINARY ? n->binary.op_start : n->start, place));
}

struct view metric_name(struct labels l)
{
	return labels_get(l, VIEW(LABEL_NAME));
}

/* ---- groups ---- */

void groups_make(struct eval *q, const struct labels *l, const bool *drop_name, size_t n, const struct node_labels *by,
		 bool without, struct series_groups *ret)
{
	struct map m = { 0 };
	*ret = (struct series_groups){ .of = xreallocarray(NULL, n + 1, sizeof *ret->of) };
	ret->labels = xreallocarray(NULL, n + 1, sizeof *ret->labels);
	ret->drop_name = xcalloc(n + 1, sizeof *ret->drop_name);
	for (size_t i = 0; i < n; i++) {
		struct labels key = eval_group_labels(q, l[i], by, without);
		uint64_t h = labels_hash(key);
		uint32_t id;
		if (!MAP_FIND_OR_ADD(&m, h, id, ret->n, labels_eq(ret->labels[id], key)))
			ret->labels[ret->n++] = key;
		ret->of[i] = id;
		ret->drop_name[id] |= drop_name[i];
	}
	map_free(&m);
}

void groups_free(struct series_groups *g)
{
	free(g->of);
	free(g->labels);
	free(g->drop_name);
}
