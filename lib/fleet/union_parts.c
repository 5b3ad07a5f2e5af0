/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a merge by peer. Servers must not scale what is added to the share of others: fl(a x s) + fl(b x s) is not fl((a + b) x s). So parts of
 * groups that several peers have are sent without scales and weights. Those of different scales are different outputs, whose integers the union adds
 * up and then scales once, as one server would:
 *
 *	parts of group 3      peer a: scale 2, scale 5      peer b: scale 2
 *	sent                  output 0, output 1            output 0
 *	the answer            (a0 + b0) x 2 + a1 x 5
 *
 * A part of a series of several holders is cut into ranges in which the chosen profiles are one holder's (union_join.c). */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

/* Owners of series and groups. */
#define PARTS_NOBODY UINT32_MAX
#define PARTS_SEVERAL (UINT32_MAX - 1)

struct parts_making {
	struct union_view *v;
	const struct source_part *parts;
	size_t n;
	bool plain;
	struct union_holder *holder; /* the first of each part's series */
	uint32_t *owner;             /* of each part's series: its peer, or several */
	uint32_t *group_owner;
	const struct union_joined **joined; /* of each part's series, if it has several holders */
	union_class_fn class_of;
	void *arg;
	struct union_parts *out;     /* by peer */
};

static uint32_t parts_steps(const struct source_part *p)
{
	return MAX(p->n_steps, 1);
}

static int64_t parts_end(const struct source_part *p)
{
	return p->until_ms + (parts_steps(p) - 1) * p->step_ms;
}

static int parts_find_owners(struct parts_making *m, struct err *e)
{
	size_t i = 0;
	m->plain = union_is_plain(m->v);
	for (size_t k = 0; k < m->n && m->plain; k++)
		m->holder[k].ref = m->parts[k].ref;
	if (m->plain)
		return 0;
	mutex_lock(&m->v->lock);
	for (; i < m->n && m->parts[i].ref < m->v->series.n; i++) {
		const struct union_series *s = &m->v->series.v[m->parts[i].ref];
		m->holder[i] = s->holders.v[0];
		m->owner[i] = s->holders.n == 1 ? m->holder[i].peer : PARTS_SEVERAL;
	}
	mutex_unlock(&m->v->lock);
	if (i < m->n)
		return err_set(e, ERR_INTERNAL, "there is no series %llu in this view of the servers", (unsigned long long)m->parts[i].ref);
	return 0;
}

static int parts_find_group_owners(struct parts_making *m, size_t n_groups, struct err *e)
{
	memset(m->group_owner, 0xff, n_groups * sizeof *m->group_owner);
	for (size_t i = 0; i < m->n; i++) {
		const struct source_part *p = &m->parts[i];
		if (p->group >= n_groups || parts_steps(p) > n_groups - p->group)
			return err_set(e, ERR_INTERNAL, "a part of group %u, of %zu", p->group, n_groups);
		for (uint32_t k = p->group; k < p->group + parts_steps(p); k++)
			m->group_owner[k] = m->group_owner[k] == PARTS_NOBODY || m->group_owner[k] == m->owner[i] ? m->owner[i] : PARTS_SEVERAL;
	}
	return 0;
}

/* Lists of all series of several holders, of the range of all of their parts. */
static int parts_load_joined(struct parts_making *m, const struct source_limits *lim, struct err *e)
{
	VEC(uint64_t) refs = { 0 }; /* each once: parts come by series or by step */
	VEC(uint32_t) of = { 0 };
	struct map by_ref = { 0 };
	int64_t after = INT64_MAX, until = INT64_MIN;
	for (size_t i = 0; i < m->n; i++) {
		if (m->owner[i] != PARTS_SEVERAL)
			continue;
		after = MIN(after, m->parts[i].after_ms);
		until = MAX(until, parts_end(&m->parts[i]));
		uint32_t id;
		if (!MAP_FIND_OR_ADD(&by_ref, hash_u64(m->parts[i].ref), id, refs.n, refs.v[id] == m->parts[i].ref))
			vec_push(&refs, m->parts[i].ref);
		vec_push(&of, id);
	}
	int rc = 0;
	if (refs.n) {
		const struct union_joined **joined = xcalloc(refs.n, sizeof(*joined));
		rc = union_joined_load(m->v, refs.v, refs.n, after, until, lim, joined, e);
		for (size_t i = 0, k = 0; i < m->n && !rc; i++)
			if (m->owner[i] == PARTS_SEVERAL)
				m->joined[i] = joined[of.v[k++]];
		free(joined);
	}
	vec_free(&refs);
	vec_free(&of);
	map_free(&by_ref);
	return rc;
}

static void parts_push(struct parts_making *m, struct union_holder h, struct source_part p, uint32_t class)
{
	struct union_parts *to = &m->out[h.peer];
	p.ref = h.ref;
	vec_push(&to->v, p);
	vec_push(&to->class, class);
}

/* ---- series of several holders ---- */

static struct union_holder parts_holder(struct union_view *v, uint64_t ref, uint32_t holder)
{
	mutex_lock(&v->lock);
	struct union_holder h = v->series.v[ref].holders.v[holder];
	mutex_unlock(&v->lock);
	return h;
}

/* The stamp of the last profile of a holder in (after, until] that is not chosen; after if there is none. */
static int64_t parts_left_before(const struct union_joined *j, uint32_t holder, int64_t after_ms, int64_t until_ms)
{
	size_t a = 0, b = j->n_left;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (j->left[m].t_ms <= until_ms)
			a = m + 1;
		else
			b = m;
	}
	while (a-- > 0 && j->left[a].t_ms > after_ms)
		if (j->left[a].holder == holder)
			return j->left[a].t_ms;
	return after_ms;
}

/* One range. The parts of a holder reach from the profile that was chosen before, or from one of its own that was not, to the last of a run:
 *
 *	after        a1  a2  (a3)  b4  b5  a6       until        (a3): not chosen
 *	      a: (after, a2]                 (b5, until]
 *	      b:              (a2, b5]                                                                          */
static void parts_cut(struct parts_making *m, const struct union_joined *j, const struct source_part *p, uint32_t class)
{
	size_t i = union_joined_after(j, p->after_ms), end = union_joined_after(j, p->until_ms);
	int64_t chosen_before = p->after_ms;
	while (i < end) {
		uint32_t holder = j->holder[i];
		struct source_part run = *p;
		size_t k = i + 1;
		while (k < end && j->holder[k] == holder && parts_left_before(j, holder, j->v[k - 1].t_ms, j->v[k].t_ms) == j->v[k - 1].t_ms)
			k++;
		run.after_ms = parts_left_before(j, holder, chosen_before, j->v[i].t_ms);
		run.until_ms = j->v[k - 1].t_ms;
		if (k == end && parts_left_before(j, holder, run.until_ms, p->until_ms) == run.until_ms)
			run.until_ms = p->until_ms;
		parts_push(m, parts_holder(m->v, p->ref, holder), run, class);
		chosen_before = j->v[k - 1].t_ms;
		i = k;
	}
}

/* Whether the chosen profiles in a range are all those of one holder. */
static bool parts_is_one(const struct union_joined *j, int64_t after_ms, int64_t until_ms, uint32_t *ret_holder)
{
	size_t i = union_joined_after(j, after_ms), end = union_joined_after(j, until_ms);
	if (i == end)
		return false;
	*ret_holder = j->holder[i];
	for (size_t k = i; k < end; k++)
		if (j->holder[k] != *ret_holder)
			return false;
	return parts_left_before(j, *ret_holder, after_ms, until_ms) == after_ms;
}

static void parts_split(struct parts_making *m, const struct union_joined *j, const struct source_part *p, uint32_t class)
{
	uint32_t holder;
	if (parts_is_one(j, p->after_ms, parts_end(p), &holder)) {
		parts_push(m, parts_holder(m->v, p->ref, holder), *p, class);
		return;
	}
	for (uint32_t step = 0; step < parts_steps(p); step++) {
		struct source_part one = *p;
		one.after_ms += step * p->step_ms;
		one.until_ms += step * p->step_ms;
		one.group += step;
		one.n_steps = 0;
		one.step_ms = 0;
		parts_cut(m, j, &one, class);
	}
}

/* ---- all ---- */

static bool parts_are_of_one_peer(const struct parts_making *m, const struct source_part *p)
{
	for (uint32_t k = p->group; k < p->group + parts_steps(p); k++)
		if (m->group_owner[k] == PARTS_SEVERAL)
			return false;
	return true;
}

static void parts_add(struct parts_making *m, size_t i)
{
	struct source_part p = m->parts[i];
	bool scaled = p.scale != 1 || p.weigh.over_ms;
	uint32_t class = scaled ? UNION_AS_IT_IS : UNION_WHOLE;
	if (scaled && !parts_are_of_one_peer(m, &p)) {
		class = UNION_CLASSES + m->class_of(m->arg, i);
		p.scale = 1;
		if (p.weigh.over_ms && p.weigh.by_cover)
			p.weigh.over_ms = 1; /* the sum of values times weights: a whole number */
		else
			p.weigh = (struct source_weigh){ 0 };
	}
	if (m->joined[i])
		parts_split(m, m->joined[i], &p, class);
	else if (m->owner[i] != PARTS_SEVERAL)
		parts_push(m, m->holder[i], p, class);
}

/* Numbers the outputs: of equal class and group one, and ranges of groups stay ranges. */
static int parts_order(const void *a, const void *b, void *arg)
{
	const struct union_parts *p = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	if (p->class.v[i] != p->class.v[k])
		return p->class.v[i] < p->class.v[k] ? -1 : 1;
	return (p->v.v[i].group > p->v.v[k].group) - (p->v.v[i].group < p->v.v[k].group);
}

static void parts_number(struct union_parts *p)
{
	AUTOFREE uint32_t *order = xcalloc(p->v.n + 1, sizeof *order);
	bool sorted = true;
	for (uint32_t i = 0; i < p->v.n; i++) {
		order[i] = i;
		sorted &= !i || parts_order(&order[i - 1], &order[i], p) <= 0;
	}
	if (!sorted)
		qsort_r(order, p->v.n, sizeof *order, parts_order, p);
	for (size_t i = 0; i < p->v.n; i++) {
		struct source_part *x = &p->v.v[order[i]];
		uint32_t class = p->class.v[order[i]], end = x->group + parts_steps(x);
		struct union_range *r = p->ranges.n ? &p->ranges.v[p->ranges.n - 1] : NULL;
		if (!r || r->class != class || x->group > r->group + r->n) {
			vec_push(&p->ranges, (struct union_range){ class, x->group, 0, p->n_outputs });
			r = &p->ranges.v[p->ranges.n - 1];
		}
		if (end > r->group + r->n) {
			p->n_outputs += end - (r->group + r->n);
			r->n = end - r->group;
		}
		x->group = r->first + (x->group - r->group);
	}
}

int union_parts_make(struct union_view *v, const struct source_part *parts, size_t n, size_t n_groups, union_class_fn class_of, void *arg,
		     const struct source_limits *lim, struct union_parts **ret, struct err *e)
{
	struct parts_making m = { .v = v, .parts = parts, .n = n, .class_of = class_of, .arg = arg };
	*ret = m.out = xcalloc(v->n_peers + 1, sizeof *m.out);
	m.holder = xcalloc(n + 1, sizeof *m.holder);
	m.owner = xcalloc(n + 1, sizeof *m.owner);
	m.group_owner = xcalloc(n_groups + 1, sizeof *m.group_owner);
	m.joined = xcalloc(n + 1, sizeof(*m.joined));
	int rc = parts_find_owners(&m, e);
	if (!rc)
		rc = parts_find_group_owners(&m, n_groups, e);
	if (!rc)
		rc = parts_load_joined(&m, lim, e);
	for (size_t i = 0; i < n && !rc; i++)
		parts_add(&m, i);
	for (size_t p = 0; p < v->n_peers && !rc; p++)
		parts_number(&m.out[p]);
	free(m.holder);
	free(m.owner);
	free(m.group_owner);
	free(m.joined);
	return rc;
}

void union_parts_free(struct union_view *v, struct union_parts *p)
{
	for (size_t i = 0; p && i < v->n_peers; i++) {
		vec_free(&p[i].v);
		vec_free(&p[i].class);
		vec_free(&p[i].ranges);
	}
	free(p);
}

int union_parts_ask(struct union_view *v, struct union_parts *p, const struct fleet_call *call, const struct source_limits *lim,
		    struct union_ask **ret,
		    struct err *e)
{
	struct union_ask *asks = *ret = union_asks_new(v);
	int64_t after = INT64_MAX, until = INT64_MIN;
	for (size_t i = 0; i < v->n_peers; i++) {
		asks[i].wanted = p[i].v.n;
		asks[i].call = *call;
		asks[i].call.parts = p[i].v.v;
		asks[i].call.n_parts = p[i].v.n;
		asks[i].call.n_groups = p[i].n_outputs;
		for (size_t k = 0; k < p[i].v.n; k++) {
			after = MIN(after, p[i].v.v[k].after_ms);
			until = MAX(until, parts_end(&p[i].v.v[k]));
		}
	}
	return union_ask_all(v, asks, after, until, lim, e);
}
