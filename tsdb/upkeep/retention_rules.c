/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/upkeep/retention_rules.h"

#include "base/alloc.h"
#include "base/log.h"
#include "tsdb/bucket/day_image.h"
#include "tsdb/head/remove.h"
#include "tsdb/version/bounds.h"
#include "tsdb/version/evict.h"

struct retention_rule {
	struct matcher *m;
	size_t n;
	int64_t keep_ms;
};

struct retention_rules {
	atomic_int refs;
	VEC(struct retention_rule) v;
};

static char *copy_text(struct view v)
{
	char *s = xmalloc(v.len + 1);
	memcpy(s, v.ptr ? v.ptr : "", v.len);
	s[v.len] = 0;
	return s;
}

static struct retention_rule copy_rule(const struct tsdb_retention *r)
{
	struct retention_rule x = { .m = xcalloc(r->n + 1, sizeof *x.m), .n = r->n, .keep_ms = r->keep_ms };
	for (size_t i = 0; i < r->n; i++) {
		x.m[i] = r->m[i];
		x.m[i].name.ptr = copy_text(r->m[i].name);
		x.m[i].value.ptr = copy_text(r->m[i].value);
		x.m[i].re = r->m[i].re ? regex_ref(r->m[i].re) : NULL;
	}
	return x;
}

void retention_rules_unref(struct retention_rules *r)
{
	if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	for (size_t i = 0; i < r->v.n; i++) {
		for (size_t k = 0; k < r->v.v[i].n; k++) {
			free((void *)(uintptr_t)r->v.v[i].m[k].name.ptr);
			free((void *)(uintptr_t)r->v.v[i].m[k].value.ptr);
			if (r->v.v[i].m[k].re)
				regex_unref(r->v.v[i].m[k].re);
		}
		free(r->v.v[i].m);
	}
	vec_free(&r->v);
	free(r);
}

int tsdb_set_retention(struct tsdb *db, const struct tsdb_retention *rules, size_t n, struct err *e)
{
	struct retention_rules *r = NEW(struct retention_rules), *old;
	atomic_init(&r->refs, 1);
	for (size_t i = 0; i < n; i++)
		vec_push(&r->v, copy_rule(&rules[i]));
	mutex_lock(&db->seal_lock);
	mutex_lock(&db->rules_lock);
	old = db->rules;
	db->rules = r;
	mutex_unlock(&db->rules_lock);
	retention_rules_unref(old);
	db->rules_number++;
	atomic_fetch_add(&db->hidden_number, 1);
	int rc = retention_rules_due(db, e);
	mutex_unlock(&db->seal_lock);
	return rc;
}

/* ---- one partition ---- */

static bool has_rule_facts(const struct tombstones *m)
{
	for (size_t i = 0; m && i < m->facts.n; i++)
		if (!m->facts.v[i]->number)
			return true;
	return false;
}

/* The labels of a sealed day whose rows are all in the bucket: then its dictionary need not be loaded for them. Empty otherwise. */
static int read_labels(struct tsdb *db, const struct pstate *s, struct generation *ret, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	*ret = (struct generation){ .min_ms = 1 };
	if (!db->catalogue || s->n_windows || atomic_load(&s->p->loaded))
		return 0;
	struct day_up up = day_look_up(db->catalogue, s);
	if (!up.rows || !up.finished || catalogue_bytes(db->catalogue, s->p->day, &b, e))
		return 0;
	int rc = generation_decode(ret, buf_view(&b), NULL, e);
	if (!rc)
		rc = generation_decode_series(ret, e);
	if (rc) { /* its file is damaged: the dictionary says it as well */
		generation_release(ret);
		*ret = (struct generation){ .min_ms = 1 };
	}
	return 0;
}

static int select_labels(const struct generation *g, const struct retention_rule *r, struct tombstone_fact *f, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < g->series.n && rc >= 0; i++) {
		if (g->series.v[i].min_ms > g->series.v[i].max_ms)
			continue;
		rc = matchers_match(r->m, r->n, g->series.v[i].labels, NULL, e);
		if (rc > 0)
			vec_push(&f->series, (uint32_t)i);
	}
	return MIN(rc, 0);
}

static int select_series(struct partition *p, const struct generation *labels, const struct retention_rule *r, struct tombstone_fact *f, struct err *e)
{
	size_t n = 0;
	if (labels->series.n)
		return select_labels(labels, r, f, e);
	partition_load(p);
	int rc = index_select(&p->index, &p->dict_lock, r->m, r->n, INT64_MIN, INT64_MAX, NULL, &f->series.v, &n, e);
	f->series.n = n;
	return rc;
}

/* A fact per rule that has something too old here. labels: see read_labels. */
static int find_old(struct tsdb *db, struct partition *p, const struct generation *labels, int64_t now_ms, struct tombstone_fact **ret, size_t *ret_n,
		    struct err *e) REQUIRES(db->seal_lock)
{
	VEC(struct tombstone_fact) out = { 0 };
	int rc = 0;
	for (size_t i = 0; db->rules && i < db->rules->v.n && !rc; i++) {
		const struct retention_rule *r = &db->rules->v.v[i];
		struct tombstone_fact f = { .below_part = UINT32_MAX, .after_ms = INT64_MIN / 4, .until_ms = now_ms - r->keep_ms };
		if ((int64_t)p->day * DAY_MS >= f.until_ms)
			continue;
		rc = select_series(p, labels, r, &f, e);
		if (!rc && f.series.n)
			vec_push(&out, f);
		else
			vec_free(&f.series);
	}
	*ret = out.v;
	*ret_n = out.n;
	return rc;
}

static void hide(struct tsdb *db, struct partition *p, const struct tombstone_fact *facts, size_t n)
{
	mutex_lock(&db->apply_lock);
	struct version *v = tsdb_version(db, NULL);
	const struct pstate *s = version_find(v, p->day), *now;
	for (size_t i = 0; s && i < n; i++)
		for (size_t k = 0; k < s->n_windows; k++) {
			struct window *w = s->windows[k];
			if (w->hour * HOUR_MS >= facts[i].until_ms)
				continue;
			rwlock_write(&w->lock);
			remove_from_window(w, &facts[i]);
			rwlock_unlock(&w->lock);
		}
	if (s) {
		struct version *next = version_with(v, p, s->windows, s->n_windows, s->parts, s->n_parts);
		version_set_tombstones(next, p->day, tombstones_with_rules(s->tombstones, facts, n, s->parts, s->n_parts));
		now = version_find(next, p->day);
		rwlock_read(&p->dict_lock);
		for (size_t i = 0; s->tombstones && i < s->tombstones->facts.n; i++)
			if (!s->tombstones->facts.v[i]->number)
				bounds_renew(p, now, s->tombstones->facts.v[i]);
		for (size_t i = 0; i < n; i++)
			bounds_renew(p, now, &facts[i]);
		rwlock_unlock(&p->dict_lock);
		tsdb_publish(db, next, 0);
	}
	version_unref(v);
	mutex_unlock(&db->apply_lock);
}

/* The rollups whose hours a rule is passing (partition.rules_cut). */
static unsigned rules_cut(const struct partition *p, const struct tombstone_fact *facts, size_t n)
{
	unsigned cut = 0;
	for (size_t i = 0; i < n; i++) {
		int64_t passed_ms = facts[i].until_ms - (int64_t)p->day * DAY_MS;
		if (passed_ms < DAY_MS)
			cut |= 1u << 4 | 1u << passed_ms / (6 * HOUR_MS);
	}
	return cut;
}

/* Says which rules have got all of a day; 0: one has got a part of it, and will get more by and by. */
static uint64_t rules_on(const struct tsdb *db, const struct partition *p, int64_t now_ms) REQUIRES(db->seal_lock)
{
	uint64_t whole = 0;
	for (size_t i = 0; db->rules && i < db->rules->v.n; i++) {
		int64_t until_ms = now_ms - db->rules->v.v[i].keep_ms;
		if (until_ms > (int64_t)p->day * DAY_MS && until_ms < ((int64_t)p->day + 1) * DAY_MS)
			return 0;
		whole += until_ms >= ((int64_t)p->day + 1) * DAY_MS;
	}
	return db->rules_number << 32 | whole << 1 | 1;
}

/* One day. If the rules were applied before, and nothing was added since, it need not be checked again: its dictionary may have left
 * memory, and leaves it again. */
static int keep_one(struct tsdb *db, const struct pstate *s, struct err *e) REQUIRES(db->seal_lock)
{
	struct partition *p = s->p;
	int64_t now_ms = retention_now_of(db, p);
	struct tombstone_fact *facts = NULL;
	size_t n = 0;
	uint64_t rules = rules_on(db, p, now_ms);
	bool was_loaded = atomic_load(&p->loaded);
	if (rules && p->rules_done == rules && p->rules_next_part == p->next_part && !s->n_windows)
		return 0;
	struct generation labels;
	int rc = read_labels(db, s, &labels, e);
	if (!rc)
		rc = find_old(db, p, &labels, now_ms, &facts, &n, e);
	generation_release(&labels);
	if (!rc)
		p->rules_cut = rules_cut(p, facts, n);
	if (!rc && (n || has_rule_facts(s->tombstones)))
		hide(db, p, facts, n);
	for (size_t k = 0; k < n; k++)
		vec_free(&facts[k].series);
	free(facts);
	if (!rc) {
		p->rules_done = rules;
		p->rules_next_part = p->next_part;
	}
	if (!was_loaded && atomic_load(&p->loaded))
		evict_day(db, p->day);
	return rc;
}

int retention_rules_due(struct tsdb *db, struct err *e)
{
	mutex_assert_held(&db->seal_lock);
	struct version *v = tsdb_version(db, NULL);
	int rc = 0;
	for (size_t i = 0; i < v->n && !rc; i++)
		rc = keep_one(db, v->p[i], e);
	version_unref(v);
	return rc;
}

/* ---- days that are not here ---- */

static bool rule_passed(const struct retention_rule *r, uint32_t day, int64_t now_ms)
{
	return now_ms - r->keep_ms >= ((int64_t)day + 1) * DAY_MS;
}

uint64_t retention_rules_whole(struct tsdb *db, uint32_t day)
{
	uint64_t whole = 0;
	mutex_lock(&db->seal_lock);
	int64_t now_ms = tsdb_retention_now_ms(db);
	for (size_t i = 0; db->rules && i < db->rules->v.n; i++)
		whole += rule_passed(&db->rules->v.v[i], day, now_ms);
	uint64_t number = db->rules_number;
	mutex_unlock(&db->seal_lock);
	return whole ? number << 32 | whole : 0;
}

int retention_rules_touch(struct tsdb *db, const struct generation *g, bool *ret, struct err *e)
{
	int rc = 0;
	*ret = false;
	mutex_lock(&db->seal_lock);
	int64_t now_ms = tsdb_retention_now_ms(db);
	for (size_t i = 0; db->rules && i < db->rules->v.n && !rc && !*ret; i++) {
		struct tombstone_fact f = { .number = 0 };
		if (rule_passed(&db->rules->v.v[i], g->day, now_ms))
			rc = select_labels(g, &db->rules->v.v[i], &f, e);
		*ret = f.series.n > 0;
		vec_free(&f.series);
	}
	mutex_unlock(&db->seal_lock);
	return rc;
}

#define HIDE_AGAIN_MS 60000 /* how often a rule that is passing a day hides more of it */

int retention_rules_hide(struct tsdb *db, const struct generation *g, struct hidden_facts *ret, struct err *e)
{
	int64_t start = (int64_t)g->day * DAY_MS, again = tsdb_now_ms(db) + HIDE_AGAIN_MS, now_ms = tsdb_retention_now_ms(db);
	int rc = 0;
	mutex_lock(&db->rules_lock);
	struct retention_rules *r = db->rules;
	if (r)
		atomic_fetch_add(&r->refs, 1);
	mutex_unlock(&db->rules_lock);
	ret->next_ms = INT64_MAX;
	for (size_t i = 0; r && i < r->v.n && !rc; i++) {
		struct tombstone_fact f = { .below_part = UINT32_MAX, .after_ms = INT64_MIN / 4, .until_ms = now_ms - r->v.v[i].keep_ms };
		if (f.until_ms < start + DAY_MS)
			ret->next_ms = MIN(ret->next_ms, MAX(again, start + r->v.v[i].keep_ms));
		if (f.until_ms > start)
			rc = select_labels(g, &r->v.v[i], &f, e);
		if (!rc && f.series.n)
			vec_push(&ret->rules, f);
		else
			vec_free(&f.series);
	}
	retention_rules_unref(r);
	return rc;
}
