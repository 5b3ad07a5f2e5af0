/* SPDX-License-Identifier: Apache-2.0 */
#include "web/lookup.h"

#include <stdlib.h>

#include "base/clock.h"

int lookup_open(struct lookup *l, struct web *w, struct source *source, struct httpd_request *rq, struct err *e)
{
	enum promql_partial partial;
	*l = (struct lookup){ .rq = rq };
	if (!source)
		return err_set(e, ERR_UNAVAILABLE, "there is no storage");
	l->lim.damage = &l->damage;
	l->lim.canceled = httpd_canceled(rq);
	l->lim.deadline_mono_ns = w->o.query_timeout_ms ? httpd_arrived_ns(rq) + w->o.query_timeout_ms * 1000000 : 0;
	l->meter = (struct regex_meter){ .deadline_mono_ns = l->lim.deadline_mono_ns, .canceled = l->lim.canceled,
					 .max_ns = REGEX_QUERY_NS, .max_name = REGEX_QUERY_NAME };
	l->lim.regex = &l->meter;
	int rc = param_span(rq, false, &l->after, &l->until, e);
	if (!rc)
		rc = param_limit(rq, "limit", &l->limit, e);
	if (!rc)
		rc = param_partial(rq, &partial, e);
	if (!rc)
		l->lim.whole = promql_engine_whole(w->o.engine, PROMQL_PEOPLE, partial);
	if (!rc)
		rc = param_selectors(w, rq, &l->sel, e);
	if (!rc)
		rc = source->open(source, &l->view, e);
	if (rc)
		selectors_release(&l->sel);
	return rc;
}

void lookup_close(struct lookup *l)
{
	selectors_release(&l->sel);
	if (l->view)
		l->view->ops->release(l->view);
	source_damage_release(&l->damage);
}

#define ROWS_AT_ONCE 256

int lookup_go_on(const struct lookup *l, size_t i, struct err *e)
{
	if (i % ROWS_AT_ONCE != ROWS_AT_ONCE - 1 && httpd_out(l->rq)->len < PERMIT_TEXT)
		return 0;
	if (atomic_load_explicit(httpd_canceled(l->rq), memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "the request was canceled while its answer was written");
	if (l->lim.deadline_mono_ns && clock_mono_ns() > l->lim.deadline_mono_ns)
		return err_set(e, ERR_TIMEOUT, "there was no time to write all series: select fewer");
	return httpd_out_grows(l->rq, e);
}

static int series_order(const void *a, const void *b)
{
	const struct source_series *x = a, *y = b;
	int c = labels_cmp(x->labels, y->labels);
	return c ? c : (x->ref > y->ref) - (x->ref < y->ref);
}

/* The results of two selectors have each series once; a view names a series by the same ref each time. */
static void unite(struct series_list *s)
{
	size_t out = 0;
	if (s->v.n)
		qsort(s->v.v, s->v.n, sizeof *s->v.v, series_order);
	for (size_t i = 0; i < s->v.n; i++)
		if (!out || s->v.v[out - 1].ref != s->v.v[i].ref)
			s->v.v[out++] = s->v.v[i];
	s->v.n = out;
}

int lookup_series(struct lookup *l, struct series_list *s, struct err *e)
{
	int rc = 0;
	size_t united = 0;
	for (size_t i = 0; i < l->sel.n && !rc; i++) {
		struct source_series *found = NULL;
		size_t n = 0;
		rc = l->view->ops->select(l->view, l->sel.v[i].m, l->sel.v[i].n, l->after, l->until, &l->lim, &found, &n, e);
		for (size_t k = 0; !rc && k < n; k++)
			vec_push(&s->v, found[k]);
		free(found);
		if (s->v.n > 2 * united + UNITED_AT) { /* thousands of selectors may find the same series */
			if (united)
				unite(s);
			united = s->v.n;
		}
	}
	if (l->sel.n > 1)
		unite(s);
	return rc;
}
