/* SPDX-License-Identifier: Apache-2.0 */
/* A server refuses calls that name too many series, parts or groups (wire.h). Such a call is sent as several, and their results are put together:
 *
 *	by series    refs [0, n) [n, 2n) ...              lists follow each other
 *	by group     groups [0, g) [g, h) ...             a part of many steps is cut where a range of groups ends, so that no group is in two calls */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

#define SPLIT_CALLS_MAX 256 /* of one peer for one call */

static int split_too_large(const char *what, struct err *e)
{
	return err_set(e, ERR_LIMIT, "the query names more %s than a server answers in %d calls: ask for fewer series or steps", what, SPLIT_CALLS_MAX);
}

static struct fleet_call *split_add(struct union_split *s, const struct fleet_call *c)
{
	vec_push(&s->calls, *c);
	return &s->calls.v[s->calls.n - 1];
}

/* ---- by series ---- */

static int split_refs(const struct fleet_call *c, const struct fleet_call_max *max, struct union_split *ret, struct err *e)
{
	size_t most = max->refs;
	if (c->tiles && c->tiles->n) {
		if (c->tiles->n > max->tiles / 2)
			return split_too_large("steps", e);
		most = MIN(most, max->tiles / c->tiles->n - 1); /* (series + 1) x tiles */
	}
	if (c->n_refs / most >= SPLIT_CALLS_MAX)
		return split_too_large("series", e);
	for (size_t at = 0; at < c->n_refs || !at; at += most) {
		struct fleet_call *x = split_add(ret, c);
		x->refs = c->refs + at;
		x->n_refs = MIN(most, c->n_refs - at);
	}
	return 0;
}

/* ---- by group ---- */

static size_t split_end(const struct source_part *p)
{
	return (size_t)p->group + MAX(p->n_steps, 1);
}

/* Parts that begin at a group, and those that end there. */
struct split_counts {
	uint32_t *begin, *end;
};

/* The end of a range of groups from `from` on that is not too large; `from`: there is none. active: parts that go over its beginning. */
static size_t split_range(const struct fleet_call *c, const struct fleet_call_max *max, const struct split_counts *n, size_t from, size_t active)
{
	size_t to = from, parts = active;
	while (to < c->n_groups && to - from < max->groups && parts + n->begin[to] <= max->parts)
		parts += n->begin[to++];
	return to;
}

/* A part as far as it is in groups [from, to). */
static struct source_part split_part(const struct source_part *p, size_t from, size_t to)
{
	struct source_part x = *p;
	size_t begin = MAX(from, p->group), end = MIN(to, split_end(p));
	int64_t skipped = (int64_t)(begin - p->group) * p->step_ms;
	x.after_ms += skipped;
	x.until_ms += skipped;
	x.group = (uint32_t)(begin - from);
	x.n_steps = end - begin > 1 ? (uint32_t)(end - begin) : 0;
	x.step_ms = end - begin > 1 ? p->step_ms : 0;
	return x;
}

static void split_add_groups(const struct fleet_call *c, size_t from, size_t to, size_t n_parts, struct union_split *ret)
{
	struct source_part *parts = xcalloc(n_parts + 1, sizeof *parts);
	struct fleet_call *x = split_add(ret, c);
	vec_push(&ret->parts, parts);
	x->parts = parts;
	x->n_parts = 0;
	x->n_groups = to - from;
	for (size_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].group < to && split_end(&c->parts[i]) > from)
			parts[x->n_parts++] = split_part(&c->parts[i], from, to);
}

static int split_groups(const struct fleet_call *c, const struct fleet_call_max *max, struct union_split *ret, struct err *e)
{
	AUTOFREE uint32_t *begin = xcalloc(c->n_groups + 1, sizeof *begin), *end = xcalloc(c->n_groups + 1, sizeof *end);
	const struct split_counts n = { begin, end };
	size_t active = 0;
	for (size_t i = 0; i < c->n_parts; i++) {
		begin[c->parts[i].group]++;
		end[split_end(&c->parts[i])]++;
	}
	for (size_t from = 0, to; from < c->n_groups; from = to) {
		active -= end[from];
		to = split_range(c, max, &n, from, active);
		if (to == from || ret->calls.n == SPLIT_CALLS_MAX)
			return split_too_large("series and steps", e);
		size_t parts = active;
		for (size_t g = from; g < to; g++) {
			parts += begin[g];
			active += begin[g] - (g > from ? end[g] : 0);
		}
		split_add_groups(c, from, to, parts, ret);
	}
	return 0;
}

int union_split_make(const struct fleet_call *c, const struct fleet_call_max *max, struct union_split *ret, struct err *e)
{
	if (max && (c->n_refs > max->refs || (c->tiles && c->tiles->n * (c->n_refs + 1) > max->tiles)))
		return split_refs(c, max, ret, e);
	if (max && (c->n_parts > max->parts || c->n_groups > max->groups))
		return split_groups(c, max, ret, e);
	split_add(ret, c);
	return 0;
}

void union_split_release(struct union_split *s)
{
	for (size_t i = 0; i < s->parts.n; i++)
		free(s->parts.v[i]);
	vec_free(&s->parts);
	vec_free(&s->calls);
}

/* ---- results ---- */

/* Appends n elements to an array of `have`. */
static void *split_append(void *to, size_t have, void *from, size_t n, size_t size)
{
	if (!from)
		return to;
	to = xreallocarray(to, have + n + 1, size);
	memcpy((char *)to + have * size, from, n * size);
	free(from);
	return to;
}

#define SPLIT_APPEND(to, from, field) ((to)->field = split_append((to)->field, (to)->n, (from)->field, (from)->n, sizeof *(to)->field))

void union_split_join(struct fleet_result *to, struct fleet_result *from)
{
	if (!to->op) {
		*to = *from;
	} else {
		SPLIT_APPEND(to, from, floats);
		SPLIT_APPEND(to, from, profiles);
		SPLIT_APPEND(to, from, points);
		SPLIT_APPEND(to, from, covers);
		SPLIT_APPEND(to, from, vecs);
		SPLIT_APPEND(to, from, sums);
		SPLIT_APPEND(to, from, exact);
		SPLIT_APPEND(to, from, shares.match);
		SPLIT_APPEND(to, from, shares.total);
		SPLIT_APPEND(to, from, shares.there);
		to->n += from->n;
	}
	*from = (struct fleet_result){ 0 };
}
