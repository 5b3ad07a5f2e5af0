/* SPDX-License-Identifier: Apache-2.0 */
#include "model/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"

int source_limits_check(const struct source_limits *lim, struct err *e)
{
	if (lim->canceled && atomic_load_explicit(lim->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "the query was canceled");
	if (lim->stopped && atomic_load_explicit(lim->stopped, memory_order_relaxed))
		return err_set(e, ERR_BUSY, "the process is short of memory");
	if (lim->deadline_mono_ns && clock_mono_ns() > lim->deadline_mono_ns)
		return err_set(e, ERR_TIMEOUT, "the query took longer than its timeout: ask for less, or raise the request's timeout and "
			       "--query.timeout");
	return 0;
}

static void raise_to(atomic_int_fast64_t *to, int64_t v)
{
	int_fast64_t now = atomic_load(to);
	while (now < v && !atomic_compare_exchange_weak(to, &now, v))
		;
}

#define LAST_MS INT64_C(253402300799999) /* the end of the year 9999: who asks for all there is names no ends */

static void lacks_add(struct source_lacks *l, int64_t after_ms, int64_t until_ms)
{
	raise_to(&l->until_ms, MIN(until_ms, LAST_MS));
	raise_to(&l->before_from_ms, INT64_MAX - MAX(after_ms, 0));
	atomic_fetch_add(&l->met, 1);
}

void source_damage_add(struct source_damage *d, int64_t after_ms, int64_t until_ms)
{
	lacks_add(&d->damaged, after_ms, until_ms);
}

void source_absent_add(struct source_damage *d, int64_t after_ms, int64_t until_ms)
{
	lacks_add(&d->absent, after_ms, until_ms);
}

void source_doubled_add(struct source_damage *d, int64_t after_ms, int64_t until_ms)
{
	lacks_add(&d->doubled, after_ms, until_ms);
}

static void missing_init(struct source_missing *m, const char *server, const char *why)
{
	*m = (struct source_missing){ 0 };
	snprintf(m->server, sizeof m->server, "%s", server);
	snprintf(m->why, sizeof m->why, "%s", why);
}

/* The entry of the same server and reason; *ret_n: how many entries there are, if there is none. */
static struct source_missing *missing_find(struct source_missing *head, const struct source_missing *like, size_t *ret_n)
{
	*ret_n = 0;
	for (struct source_missing *m = head; m; m = m->next, ++*ret_n)
		if (strcmp(m->server, like->server) == 0 && strcmp(m->why, like->why) == 0)
			return m;
	return NULL;
}

/* Entries are put at the head of a list that nobody shortens: whoever finds the head changed looks again. The entry without a server is that of the rest. */
void source_missing_add(struct source_damage *d, const char *server, const char *why, int64_t after_ms, int64_t until_ms)
{
	struct source_missing like, *head = atomic_load(&d->missing), *fresh = NULL, *found;
	size_t n;
	missing_init(&like, server, why);
	while (!(found = missing_find(head, &like, &n))) {
		if (n >= SOURCE_MISSING_MAX && *like.server) {
			missing_init(&like, "", "");
			continue;
		}
		if (!fresh)
			fresh = NEW(struct source_missing);
		*fresh = like;
		fresh->next = head;
		lacks_add(&fresh->lacks, after_ms, until_ms);
		if (atomic_compare_exchange_strong(&d->missing, &head, fresh))
			return;
	}
	free(fresh);
	lacks_add(&found->lacks, after_ms, until_ms);
}

uint64_t source_damage_met(const struct source_damage *d)
{
	uint64_t met = atomic_load(&d->damaged.met) + atomic_load(&d->absent.met);
	for (struct source_missing *m = atomic_load(&d->missing); m; m = m->next)
		met += atomic_load(&m->lacks.met);
	return met;
}

#define SPAN_LEN (2 * RFC3339_LEN + 16)

/* " between A and B", " since A", " until B", or "": all times. */
static char *lacks_span(const struct source_lacks *l, char out[SPAN_LEN])
{
	int64_t from_ms = INT64_MAX - atomic_load(&l->before_from_ms), until_ms = atomic_load(&l->until_ms);
	char from[RFC3339_LEN], until[RFC3339_LEN];
	clock_rfc3339_ms(from_ms, from);
	clock_rfc3339_ms(until_ms, until);
	*out = 0;
	if (from_ms && until_ms < LAST_MS)
		snprintf(out, SPAN_LEN, " between %s and %s", from, until);
	else if (from_ms)
		snprintf(out, SPAN_LEN, " since %s", from);
	else if (until_ms < LAST_MS)
		snprintf(out, SPAN_LEN, " until %s", until);
	return out;
}

static void missing_text(const struct source_missing *m, char text[SOURCE_WARNING_LEN])
{
	char span[SPAN_LEN];
	lacks_span(&m->lacks, span);
	if (*m->server)
		snprintf(text, SOURCE_WARNING_LEN, "server %s: what it has%s is missing from this answer: %s", m->server, span, m->why);
	else
		snprintf(text, SOURCE_WARNING_LEN, "other servers: what they have%s is missing from this answer", span);
}

void source_damage_warnings(const struct source_damage *d, void (*one)(void *arg, const char *text), void *arg)
{
	const struct { const struct source_lacks *lacks; const char *what; } rows[] = {
		{ &d->damaged, "damaged or lost: what cannot be read is missing from this answer" },
		{ &d->absent, "in the bucket, and could not be read there: it is missing from this answer" },
		{ &d->doubled, "in the bucket from several servers under the same labels, and counts for each of them: give each server its own "
			       "global.external_labels" },
	};
	char span[SPAN_LEN], text[SOURCE_WARNING_LEN];
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (atomic_load(&rows[i].lacks->met)) {
			snprintf(text, sizeof text, "stored data%s is %s", lacks_span(rows[i].lacks, span), rows[i].what);
			one(arg, text);
		}
	for (const struct source_missing *m = atomic_load(&d->missing); m; m = m->next) {
		missing_text(m, text);
		one(arg, text);
	}
}

void source_damage_release(struct source_damage *d)
{
	struct source_missing *m = atomic_load(&d->missing);
	while (m) {
		struct source_missing *next = m->next;
		free(m);
		m = next;
	}
	*d = (struct source_damage){ 0 };
}

void source_cover_add_span(struct source_cover *c, int64_t after_ms, int64_t until_ms)
{
	struct source_span *last = c->spans.n ? &c->spans.v[c->spans.n - 1] : NULL;
	if (last && after_ms >= last->after_ms && after_ms <= last->until_ms)
		last->until_ms = MAX(last->until_ms, until_ms);
	else
		vec_push(&c->spans, (struct source_span){ after_ms, until_ms });
}

void source_cover_add_total(struct source_cover *c, int64_t total)
{
	uint64_t size = total < 0 ? -(uint64_t)total : (uint64_t)total;
	c->total = (int64_t)((uint64_t)c->total + (uint64_t)total);
	if (__builtin_add_overflow(c->magnitude, size, &c->magnitude))
		c->magnitude = UINT64_MAX;
}

void source_cover_add_other(struct source_cover *c, const struct source_cover *other)
{
	c->n += other->n;
	c->n_stale += other->n_stale;
	c->period = MAX(c->period, other->period);
	c->total = (int64_t)((uint64_t)c->total + (uint64_t)other->total);
	if (__builtin_add_overflow(c->magnitude, other->magnitude, &c->magnitude))
		c->magnitude = UINT64_MAX;
	source_weights_join(&c->weights, other->weights, 1);
}

/* Of the edges start + k step, k below n. */
static bool edge_between(int64_t start_ms, const struct source_windows *w, int64_t from_ms, int64_t until_ms)
{
	int64_t k = from_ms <= start_ms || w->step_ms <= 0 ? 0 : (from_ms - start_ms + w->step_ms - 1) / w->step_ms;
	int64_t at = start_ms + k * w->step_ms;
	return (uint64_t)k < w->n && at >= from_ms && at < until_ms;
}

bool source_windows_edge(const struct source_windows *w, int64_t from_ms, int64_t until_ms)
{
	return edge_between(w->until_ms, w, from_ms, until_ms) || edge_between(w->until_ms - w->range_ms, w, from_ms, until_ms);
}

void source_points_release(struct source_points *p)
{
	free(p->v);
	free(p->before);
	*p = (struct source_points){ 0 };
}

void source_cover_release(struct source_cover *c)
{
	vec_free(&c->spans);
	*c = (struct source_cover){ 0 };
}

void source_covers_free(struct source_cover *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		source_cover_release(&v[i]);
	free(v);
}

/* ---- series by series ---- */

struct each_series {
	const uint64_t *refs;
	uint32_t *order;             /* indices of refs, in the order in which they are read */
	int (*one)(void *arg, size_t series, struct err *e);
	void *arg;
	atomic_bool failed;
	struct mutex lock;
	struct err e;                /* the first; under lock */
};

static int each_by_ref(const void *a, const void *b, void *arg)
{
	const uint64_t *refs = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	return refs[i] != refs[k] ? (refs[i] > refs[k]) - (refs[i] < refs[k]) : (i > k) - (i < k);
}

static void each_read(void *arg, size_t at, unsigned worker)
{
	(void)worker;
	struct each_series *j = arg;
	struct err e = { 0 };
	if (atomic_load(&j->failed) || !j->one(j->arg, j->order[at], &e))
		return;
	mutex_lock(&j->lock);
	if (!atomic_exchange(&j->failed, true))
		j->e = e;
	mutex_unlock(&j->lock);
}

int source_each(const uint64_t *refs, size_t n, const struct source_limits *lim, int (*one)(void *arg, size_t series, struct err *e), void *arg,
		struct err *e)
{
	if (n == 1)
		return one(arg, 0, e);
	struct each_series j = { .refs = refs, .order = xcalloc(n + 1, sizeof *j.order), .one = one, .arg = arg };
	for (size_t i = 0; i < n; i++)
		j.order[i] = (uint32_t)i;
	qsort_r(j.order, n, sizeof *j.order, each_by_ref, (void *)refs);
	mutex_init(&j.lock, LOCK_LEAF, "series read");
	pool_run(lim ? lim->pool : NULL, n, each_read, &j);
	mutex_destroy(&j.lock);
	free(j.order);
	if (!atomic_load(&j.failed))
		return 0;
	*e = j.e;
	return -(int)j.e.code;
}
