/* SPDX-License-Identifier: Apache-2.0 */
#include "model/replicas.h"

#include <stdlib.h>

#include "base/alloc.h"

/* A profile of one of several replicas. */
struct replica_profile {
	struct source_profile p;
	uint32_t replica;
};

static int replica_by_stamp(const void *a, const void *b)
{
	const struct replica_profile *x = a, *y = b;
	if (x->p.t_ms != y->p.t_ms)
		return x->p.t_ms < y->p.t_ms ? -1 : 1;
	return (x->replica > y->replica) - (x->replica < y->replica);
}

/* Another replica's profile ends at `last`, within the interval of this one. So this profile stands for the time since then only, and its weight, which is for a
 * whole interval, is reduced. */
static void replica_cover_since(struct source_profile *p, const struct source_profile *last)
{
	int64_t dur_ms = p->duration_ns / 1000000, since = p->t_ms - last->t_ms, interval = p->interval_ms;
	int64_t w = interval && since > interval + interval / 2 ? interval : since;
	if (dur_ms >= p->cover_ms)
		return;
	if (w < interval && p->weight > 1)
		p->weight = MAX(p->weight * (double)w / (double)interval, 1);
	p->cover_ms = MAX(w, dur_ms);
}

/* live: for each replica, room for whether it goes on. Returns how many stay. */
static size_t replica_interleave(struct replica_profile *v, size_t n, bool *live)
{
	size_t out = 0, n_live = 0, last = SIZE_MAX;
	for (size_t i = 0; i < n; i++) {
		bool was = live[v[i].replica], stale = v[i].p.stale;
		live[v[i].replica] = !stale;
		n_live += !stale;
		n_live -= was;
		if (stale) {
			if (was && !n_live)
				v[out++] = v[i];
			continue;
		}
		int64_t dur_ms = v[i].p.duration_ns / 1000000;
		if (last != SIZE_MAX) {
			if (v[i].p.t_ms - dur_ms < v[last].p.t_ms || v[i].p.t_ms == v[last].p.t_ms)
				continue;
			replica_cover_since(&v[i].p, &v[last].p);
		}
		last = out;
		v[out++] = v[i];
	}
	return out;
}

void replicas_join_profiles(const struct replica_profiles *r, size_t n, struct source_profile **ret, uint32_t **ret_replica, size_t *ret_n)
{
	size_t n_all = 0, at = 0;
	for (size_t i = 0; i < n; i++)
		n_all += r[i].n;
	struct replica_profile *all = xcalloc(n_all + 1, sizeof *all);
	bool *live = xcalloc(n + 1, sizeof *live);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < r[i].n; k++)
			all[at++] = (struct replica_profile){ r[i].v[k], (uint32_t)i };
	qsort(all, n_all, sizeof *all, replica_by_stamp);
	*ret_n = replica_interleave(all, n_all, live);
	*ret = xcalloc(*ret_n + 1, sizeof **ret);
	*ret_replica = xcalloc(*ret_n + 1, sizeof **ret_replica);
	for (size_t i = 0; i < *ret_n; i++) {
		(*ret)[i] = all[i].p;
		(*ret_replica)[i] = all[i].replica;
	}
	free(live);
	free(all);
}

/* Where the joining of points is in one holder's list. */
struct replica_cursor {
	size_t at;
	bool live;               /* its last sample so far is no marker */
};

static bool replica_next_stamp(const struct replica_points *r, const struct replica_cursor *c, size_t n, int64_t *ret)
{
	bool any = false;
	for (size_t i = 0; i < n; i++)
		if (c[i].at < r[i].n && (!any || r[i].v[c[i].at].t_ms < *ret)) {
			*ret = r[i].v[c[i].at].t_ms;
			any = true;
		}
	return any;
}

void replicas_join_points(const struct replica_points *r, size_t n, struct point **ret, size_t *ret_n)
{
	struct replica_cursor *c = xcalloc(n + 1, sizeof *c);
	size_t room = 0, out = 0;
	for (size_t i = 0; i < n; i++)
		room += r[i].n;
	struct point *v = xcalloc(room + 1, sizeof *v);
	int64_t t = 0;
	while (replica_next_stamp(r, c, n, &t)) {
		const struct point *value = NULL, *marker = NULL;
		bool live = false;
		for (size_t i = 0; i < n; i++) {
			const struct point *p = c[i].at < r[i].n ? &r[i].v[c[i].at] : NULL;
			if (p && p->t_ms == t) {
				c[i].live = !value_is_stale(p->v);
				c[i].at++;
				if (c[i].live && !value)
					value = p;
				else if (!c[i].live && !marker)
					marker = p;
			}
			live |= c[i].live;
		}
		if (value)
			v[out++] = *value;
		else if (marker && !live)
			v[out++] = *marker;
	}
	free(c);
	*ret = v;
	*ret_n = out;
}
