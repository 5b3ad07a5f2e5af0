/* SPDX-License-Identifier: Apache-2.0 */
#include "shared.h"

#include <stdlib.h>

/* A state of the source and how many queries see it; the current one counts one more. */
struct seen {
	struct source_view *view;
	unsigned refs;
};

struct promql_shared {
	struct promql_engine *engine;
	uint64_t max_bytes;
	pthread_mutex_t lock;   /* of what follows */
	VEC(struct seen) seen;  /* the last one is current, if has_current */
	bool has_current;
	struct promql_shared_stats stats;
};

struct promql_shared *promql_shared_new(struct promql_engine *g, uint64_t max_bytes)
{
	struct promql_shared *s = NEW(struct promql_shared);
	s->engine = g;
	s->max_bytes = max_bytes ? max_bytes : engine_rule_budget(g)->max / 4;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

/* ---- views ---- */

static void let_go(struct promql_shared *s, size_t i)
{
	if (--s->seen.v[i].refs)
		return;
	s->seen.v[i].view->ops->release(s->seen.v[i].view);
	s->seen.n--;
	for (; i < s->seen.n; i++)
		s->seen.v[i] = s->seen.v[i + 1];
}

int shared_open(struct promql_shared *s, struct source_view **ret, struct err *e)
{
	int rc = 0;
	pthread_mutex_lock(&s->lock);
	if (!s->has_current) {
		struct source *from = engine_source(s->engine);
		struct seen now = { .refs = 1 };
		rc = from->open(from, &now.view, e);
		if (!rc) {
			vec_push(&s->seen, now);
			s->has_current = true;
		}
	}
	if (!rc) {
		struct seen *now = &s->seen.v[s->seen.n - 1];
		now->refs++;
		*ret = now->view;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void shared_close(struct promql_shared *s, struct source_view *v)
{
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->seen.n; i++)
		if (s->seen.v[i].view == v) {
			let_go(s, i);
			break;
		}
	pthread_mutex_unlock(&s->lock);
}

static void forget_current(struct promql_shared *s)
{
	if (s->has_current) {
		s->has_current = false;
		let_go(s, s->seen.n - 1);
	}
}

void promql_shared_wrote(struct promql_shared *s, struct view name)
{
	(void)name;
	pthread_mutex_lock(&s->lock);
	forget_current(s);
	pthread_mutex_unlock(&s->lock);
}

void promql_shared_free(struct promql_shared *s)
{
	if (!s)
		return;
	forget_current(s);
	vec_free(&s->seen);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct promql_shared_stats promql_shared_stats(struct promql_shared *s)
{
	pthread_mutex_lock(&s->lock);
	struct promql_shared_stats stats = s->stats;
	pthread_mutex_unlock(&s->lock);
	return stats;
}

/* ---- who reads what ---- */

struct reading {
	struct view name;
	bool yes;
};

static bool selector_may_read(const struct node_selector *sel, struct view name)
{
	for (size_t i = 0; i < sel->n; i++) {
		struct err e;
		if (view_eqs(sel->m[i].name, LABEL_NAME) && matcher_matches(&sel->m[i], name, NULL, &e) == 0)
			return false; /* an alias stands for a profile's name, under which no rule writes */
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
