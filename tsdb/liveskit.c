/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/liveskit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "model/sourcekit.h"

#define SLOW_TRIES 5 /* on a busy machine a request may be slow: so often it is made before that counts as a failure */

#define FAIL(l, f, ...) do { \
	fprintf(stderr, "life %llu: " f "\n", (unsigned long long)(l)->life, ##__VA_ARGS__); \
	abort(); \
} while (0)

struct lives_row *lives_rows_find(struct lives_rows *rows, unsigned pod, int64_t t_ms)
{
	for (size_t i = 0; i < rows->n; i++)
		if (rows->v[i].pod == pod && rows->v[i].t_ms == t_ms)
			return &rows->v[i];
	return NULL;
}

static bool look_is_kept(const struct lives_look *l, int64_t t_ms)
{
	return (t_ms / LIVES_DAY + 1) * LIVES_DAY > l->gone_ms;
}

static void look_found(struct lives_look *l, unsigned pod, int64_t t_ms, int64_t total)
{
	struct lives_row *r = lives_rows_find(l->rows, pod, t_ms);
	if (!r && l->of == LIVES_OTHER && (l->is_behind || !look_is_kept(l, t_ms)))
		return;
	if (!r)
		FAIL(l, "pod %u has a row at %lld that is not of this disk%s%s", pod, (long long)t_ms,
		     l->of == LIVES_OTHER ? " but read of " : "", l->of == LIVES_OTHER ? l->id : "");
	if (r->seen)
		FAIL(l, "pod %u has its row at %lld twice", pod, (long long)t_ms);
	if (r->state == DELETED && l->of == LIVES_OWN)
		FAIL(l, "the row of pod %u at %lld was deleted and is back", pod, (long long)t_ms);
	int64_t want = pod == LIVES_FLOATS ? (int64_t)r->seed : kit_profile_total(r->seed, LIVES_STACKS);
	if (total != want)
		FAIL(l, "the row of pod %u at %lld has %lld, not %lld", pod, (long long)t_ms, (long long)total,
		     (long long)want);
	r->seen = true;
	if (r->state == UNSURE && l->of != LIVES_OTHER && !l->some)
		r->state = r->was;
}

/* ---- reading ---- */

static const struct source_limits *look_limits(const struct lives_look *l)
{
	return l->some ? &l->lim : NULL;
}

static struct source_view *look_select(struct lives_look *l, const char *name, struct source_series **ret, size_t *n)
{
	struct err e;
	struct source_view *v;
	struct matcher m[2];
	if ((tsdb_source(l->k->db)->open(tsdb_source(l->k->db), &v, &e)) != 0)
		FAIL(l, "it cannot be asked");
	if ((matcher_init(&m[0], MATCH_EQ, VIEW(LABEL_NAME), view_of(name), &e)) != 0)
		FAIL(l, "it cannot be asked");
	if ((matcher_init(&m[1], MATCH_EQ, VIEW("id"), view_of(l->of == LIVES_OTHER ? l->id : ""), &e)) != 0)
		FAIL(l, "it cannot be asked");
	if (v->ops->select(v, m, 2, 0, INT64_MAX / 2, look_limits(l), ret, n, &e))
		FAIL(l, "%s", e.msg);
	matcher_release(&m[0]);
	matcher_release(&m[1]);
	return v;
}

static void look_read(struct lives_look *l, struct source_view *v, uint64_t ref, struct source_profile **ret, size_t *n)
{
	struct err e;
	int rc, tries = 0;
	do
		rc = one_series_profiles(v, ref, 0, INT64_MAX / 2, look_limits(l), ret, n, &e);
	while (rc == -ERR_UNAVAILABLE && ++tries < SLOW_TRIES);
	if (rc)
		FAIL(l, "%s", e.msg);
}

static void look_profiles(struct lives_look *l, bool cpu)
{
	struct source_series *s;
	struct source_profile *p;
	size_t n, n_p;
	struct source_view *v = look_select(l, cpu ? KIT_CPU : KIT_SAMPLES, &s, &n);
	for (size_t i = 0; i < n; i++) {
		struct view pod = labels_get(s[i].labels, VIEW("pod"));
		if ((pod.len) != 5)
			FAIL(l, "it cannot be asked");
		look_read(l, v, s[i].ref, &p, &n_p);
		for (size_t k = 0; k < n_p; k++)
			look_found(l, (unsigned)(pod.ptr[4] - '0'), p[k].t_ms, cpu ? p[k].total / KIT_PERIOD : p[k].total);
		free(p);
	}
	free(s);
	v->ops->release(v);
}

/* Where main.f7 has something in a profile, it has it there when names have come. */
static void look_name(struct lives_look *l, struct source_view *v, const struct source_series *s, int64_t t_ms)
{
	struct source_part part = { .ref = s->ref, .after_ms = t_ms - 1, .until_ms = t_ms, .scale = 1 };
	const struct matcher function = { MATCH_EQ, VIEW("function"), VIEW("main.f7"), NULL };
	const struct source_frame_filter f = { .m = &function, .n = 1 };
	struct lives_row *r = lives_rows_find(l->rows, LIVES_NAMELESS, t_ms);
	struct err e;
	double sum;
	int64_t of;
	if (!r || l->some)
		return;
	if (v->ops->sums(v, &part, 1, 1, &f, NULL, &sum, &of, &e))
		FAIL(l, "%s", e.msg);
	if (l->of == LIVES_RETURNED)
		r->named &= r->named_up;
	if ((l->of == LIVES_OTHER ? r->named_up : r->named) && !of)
		FAIL(l, "the profile at %lld has lost its names", (long long)t_ms);
	if (l->of != LIVES_OTHER)
		r->named |= of != 0;
}

static void look_nameless(struct lives_look *l)
{
	struct source_series *s;
	struct source_profile *p;
	size_t n, n_p;
	struct source_view *v = look_select(l, LIVES_LATE, &s, &n);
	for (size_t i = 0; i < n; i++) {
		if (!view_eqs(labels_get(s[i].labels, VIEW("pod")), "nameless"))
			continue;
		look_read(l, v, s[i].ref, &p, &n_p);
		for (size_t k = 0; k < n_p; k++) {
			look_found(l, LIVES_NAMELESS, p[k].t_ms, p[k].total);
			look_name(l, v, &s[i], p[k].t_ms);
		}
		free(p);
	}
	free(s);
	v->ops->release(v);
}

static void look_floats(struct lives_look *l)
{
	struct source_series *s;
	struct point *p;
	size_t n, n_p;
	struct err e;
	struct source_view *v = look_select(l, "up", &s, &n);
	for (size_t i = 0; i < n; i++) {
		int rc, tries = 0;
		do
			rc = one_series_floats(v, s[i].ref, 0, INT64_MAX / 2, look_limits(l), &p, &n_p, &e);
		while (rc == -ERR_UNAVAILABLE && ++tries < SLOW_TRIES);
		if (rc)
			FAIL(l, "%s", e.msg);
		for (size_t k = 0; k < n_p; k++)
			look_found(l, LIVES_FLOATS, p[k].t_ms, (int64_t)p[k].v);
		free(p);
	}
	free(s);
	v->ops->release(v);
}

/* ---- what is not there ---- */

static void look_lost(const struct lives_look *l, const struct lives_row *r)
{
	FAIL(l, "the row of pod %u at %lld (day %u, state %d) is lost%s%s", r->pod, (long long)r->t_ms,
	     (unsigned)(r->t_ms / LIVES_DAY), r->state, l->some ? " without a warning" : "", l->of == LIVES_OTHER ? " for others" : "");
}

/* Unseen rows are lost: of a disk that was lost all but those in a generation may be. */
static void look_unseen(struct lives_look *l, bool returned)
{
	size_t n = 0;
	for (size_t i = 0; i < l->rows->n; i++) {
		struct lives_row r = l->rows->v[i];
		bool was_seen = r.seen, must = r.state == UP || (r.state != DELETED && r.state != UNSURE && !returned);
		if (!r.seen && must && look_is_kept(l, r.t_ms))
			look_lost(l, &r);
		if (r.seen && returned && r.state != FRESH)
			r.state = UP;
		r.seen = false;
		if (r.state == UNSURE) /* else look_found knows what it is */
			r.state = DELETED;
		if (was_seen || (r.state == DELETED && !returned))
			l->rows->v[n++] = r;
	}
	l->rows->n = n;
}

static bool lacks_has(const struct source_lacks *x, int64_t t_ms)
{
	return atomic_load(&x->met) && t_ms >= INT64_MAX - atomic_load(&x->before_from_ms) && t_ms <= atomic_load(&x->until_ms);
}

/* Unseen rows of these pods are in the time of which something is said to be missing. */
static void look_told(struct lives_look *l, unsigned first, unsigned last)
{
	for (size_t i = 0; i < l->rows->n; i++) {
		struct lives_row *r = &l->rows->v[i];
		if (r->pod < first || r->pod > last)
			continue;
		bool must = (r->state == UP && !l->is_behind) || (l->of == LIVES_OWN && (r->state == FRESH || r->state == SEALED));
		if (!r->seen && must && look_is_kept(l, r->t_ms) && !lacks_has(&l->damage.absent, r->t_ms) && !lacks_has(&l->damage.damaged, r->t_ms))
			look_lost(l, r);
		r->seen = false;
	}
	l->damage = (struct source_damage){ .damaged = { 0 } };
}

/* ---- looks ---- */

static void look_at_pieces(struct lives_look *l)
{
	l->damage = (struct source_damage){ .damaged = { 0 } };
	l->lim = (struct source_limits){ .damage = &l->damage };
	look_profiles(l, false);
	look_told(l, 0, LIVES_PODS - 1);
	look_floats(l);
	look_told(l, LIVES_FLOATS, LIVES_FLOATS);
	look_nameless(l);
	look_told(l, LIVES_NAMELESS, LIVES_NAMELESS);
}

void lives_look_at_some(struct lives_look *l)
{
	l->some = true;
	look_at_pieces(l);
}

void lives_look_at_all(struct lives_look *l)
{
	uint64_t sum = 0;
	l->some = false;
	if (l->of == LIVES_OTHER) {
		look_at_pieces(l);
		return;
	}
	look_profiles(l, false);
	look_floats(l);
	look_nameless(l);
	look_unseen(l, l->of == LIVES_RETURNED);
	l->of = LIVES_OWN;
	look_profiles(l, true);
	for (size_t i = 0; i < l->rows->n; i++) {
		struct lives_row *r = &l->rows->v[i];
		if (r->seen && r->pod < LIVES_PODS)
			sum += kit_profile_sum(r->seed, LIVES_STACKS, true);
		r->seen |= r->pod >= LIVES_FLOATS && r->state != DELETED;
	}
	look_unseen(l, false);
	if (kit_merge(l->k, KIT_CPU, 0, INT64_MAX / 2, NULL) != sum)
		FAIL(l, "a merge is not the sum of its profiles");
}
