/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of targets' metrics, as the API shows it. The tables never change: a reference of each is taken under the lock, and
 * everything else happens without it. */
#include "base/alloc.h"
#include "base/lock.h"
#include "scraper/internal.h"

#define CHUNK 64 /* references given back under one lock */

struct told {
	struct endpoint *endpoint;        /* reference: its labels stay as long as it lives */
	struct metric_families *families; /* reference */
};

struct tables {
	VEC(struct told) v;
};

static void take_tables(struct scraper *s, struct tables *t)
{
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->pools.n; i++) {
		const struct scrape_pool *p = s->pools.v[i];
		for (size_t k = 0; k < p->endpoints.n; k++) {
			struct endpoint *ep = p->endpoints.v[k];
			if (!ep->families)
				continue;
			ep->refs++;
			ep->families->refs++;
			vec_push(&t->v, (struct told){ ep, ep->families });
		}
	}
	mutex_unlock(&s->lock);
}

static void give_tables(struct scraper *s, struct tables *t)
{
	for (size_t i = 0; i < t->v.n;) {
		mutex_lock(&s->lock);
		for (size_t end = MIN(i + CHUNK, t->v.n); i < end; i++) {
			metric_families_unref(t->v.v[i].families);
			endpoint_unref(t->v.v[i].endpoint);
		}
		mutex_unlock(&s->lock);
	}
	vec_free(&t->v);
}

static bool tell(const struct metric_family *f, bool (*family)(void *arg, const struct status_family *f), void *arg)
{
	return family(arg, &(struct status_family){ f->name, f->type, f->help });
}

/* False: no more is wanted. */
static bool tell_target(const struct told *t, const struct status_metadata_query *q)
{
	int wanted = q->target ? q->target(q->arg, *t->endpoint->target->labels) : 1;
	const struct metric_families *f = t->families;
	if (wanted <= 0)
		return !wanted;
	if (q->metric.len) {
		const struct metric_family *one = metric_families_find(f, q->metric);
		return !one || tell(one, q->family, q->arg);
	}
	for (size_t i = 0; i < f->n; i++)
		if (!tell(&f->v[i], q->family, q->arg))
			return false;
	return true;
}

void status_metadata(struct status_targets *st, const struct status_metadata_query *q)
{
	struct scraper *s = (struct scraper *)((char *)st - offsetof(struct scraper, status));
	struct tables t = { 0 };
	take_tables(s, &t);
	for (size_t i = 0; i < t.v.n && tell_target(&t.v.v[i], q); i++)
		;
	give_tables(s, &t);
}
