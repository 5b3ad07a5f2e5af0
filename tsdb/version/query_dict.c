/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/query_dict.h"

#include "base/alloc.h"
#include "tsdb/version/evict.h"

struct place {
	_Atomic(struct partition *) series; /* NULL: none of its own */
	size_t bytes;                       /* of it */
};

struct query_dict {
	struct tsdb *db;
	struct version *v;
	struct mutex lock;     /* of what follows; held while a dictionary is read */
	uint64_t brought;         /* bytes of dictionaries that this query has loaded for all */
	uint32_t n_brought;
	struct place at[];        /* by partition of the version */
};

struct query_dict *query_dict_new(struct tsdb *db, struct version *v)
{
	struct query_dict *o = xcalloc(1, sizeof *o + v->n * sizeof *o->at);
	o->db = db;
	o->v = v;
	mutex_init(&o->lock, RANK_TSDB_QUERY_DICT, "query dictionary");
	return o;
}

void query_dict_count(struct tsdb *db, size_t bytes, size_t before)
{
	unsigned long long now = atomic_fetch_add(&db->query_dict_bytes, bytes - before) + bytes - before;
	for (unsigned long long most = atomic_load(&db->query_dict_most); now > most && !atomic_compare_exchange_weak(&db->query_dict_most, &most, now);)
		;
}

void query_dict_free(struct query_dict *o)
{
	for (size_t i = 0; i < o->v->n; i++) {
		query_dict_count(o->db, 0, o->at[i].bytes);
		partition_unref(atomic_load(&o->at[i].series));
	}
	mutex_destroy(&o->lock);
	free(o);
}

/* Whether one more dictionary like those brought so far is within the budget. The first is always loaded: a query pays for its day. */
static bool may_bring(const struct query_dict *o)
{
	return !o->n_brought || o->brought + o->brought / o->n_brought <= o->db->o.dictionary_bytes;
}

/* The day's series alone, as the partition keeps them for the next query. Its bounds are those of its parts, so what was deleted of a day has it
 * read anew. Returns owned. */
static struct partition *query_dict_read_series(const struct pstate *s)
{
	struct tsdb *db = s->p->db;
	struct partition *kept = NULL, *own;
	uint64_t parts = pstate_parts(s);
	if (s->tombstones)
		return partition_read(s, true);
	atomic_store_explicit(&s->p->used_mono_ms, clock_mono_ms(), memory_order_relaxed);
	mutex_lock(&db->state_lock);
	if (s->p->series_only && s->p->series_parts == parts)
		kept = partition_ref(s->p->series_only);
	mutex_unlock(&db->state_lock);
	if (kept)
		return kept;
	own = partition_read(s, true);
	partition_db_unref(own->db_parts); /* what is kept must not hold the files */
	own->db_parts = NULL;
	mutex_lock(&db->state_lock);
	kept = s->p->series_only;
	s->p->series_only = partition_ref(own);
	s->p->series_parts = parts;
	mutex_unlock(&db->state_lock);
	partition_unref(kept);
	return own;
}

static struct partition *bring(struct query_dict *o, size_t p)
{
	const struct pstate *s = o->v->p[p];
	if (atomic_load(&o->at[p].series))
		return o->at[p].series;
	if (s->p->origin) { /* its stacks are fetched when they are needed */
		atomic_store(&o->at[p].series, partition_ref(s->p->origin->series));
		return o->at[p].series;
	}
	if (!atomic_load(&s->p->loaded) && s->n_parts && !s->n_windows) {
		struct partition *own = query_dict_read_series(s);
		o->at[p].bytes = s->tombstones ? evict_bytes(own) : 0; /* else the partition's (evict_series_bytes) */
		query_dict_count(o->db, o->at[p].bytes, 0);
		atomic_store(&o->at[p].series, own);
		return own;
	}
	bool was = atomic_load(&s->p->loaded);
	partition_load(s->p);
	if (!was) {
		o->brought += evict_bytes(s->p);
		o->n_brought++;
	}
	return s->p;
}

struct partition *query_dict_series(struct query_dict *o, size_t p)
{
	struct partition *x = atomic_load(&o->at[p].series);
	if (x)
		return x;
	x = o->v->p[p]->p;
	if (!x->origin && atomic_load(&x->loaded)) {
		partition_load(x); /* it is in use */
		return x;
	}
	mutex_lock(&o->lock);
	x = bring(o, p);
	mutex_unlock(&o->lock);
	return x;
}

/* Whether the day is still that partition's: else it was dropped since the view was opened, and only the view's own parts have its dictionary. */
static bool query_dict_is_current(const struct query_dict *o, const struct partition *x)
{
	struct version *v = tsdb_version(o->db, NULL);
	const struct pstate *s = version_find(v, x->day);
	bool yes = x->origin || (s && s->p == x);
	version_unref(v);
	return yes;
}

void query_dict_bring(struct query_dict *o, size_t p)
{
	struct partition *x = o->v->p[p]->p;
	mutex_lock(&o->lock);
	bool was = atomic_load(&x->loaded);
	if (was || (may_bring(o) && query_dict_is_current(o, x)))
		partition_load(x);
	if (!was && atomic_load(&x->loaded)) {
		o->brought += evict_bytes(x);
		o->n_brought++;
	}
	mutex_unlock(&o->lock);
}

bool query_dict_has(struct query_dict *o, size_t p)
{
	return atomic_load(&o->at[p].series) && !atomic_load(&o->v->p[p]->p->loaded);
}

struct partition *query_dict_stacks(struct query_dict *o, size_t p)
{
	query_dict_series(o, p);
	query_dict_bring(o, p);
	return query_dict_stacks_once(o, p);
}

struct partition *query_dict_stacks_once(struct query_dict *o, size_t p)
{
	query_dict_series(o, p);
	if (!query_dict_has(o, p))
		return partition_ref(o->v->p[p]->p);
	struct partition *x = partition_read(o->v->p[p], false);
	query_dict_count(o->db, evict_bytes(x), 0);
	return x;
}

void query_dict_give(struct query_dict *o, struct partition *p)
{
	bool shared = false;
	for (size_t i = 0; i < o->v->n; i++)
		shared |= o->v->p[i]->p == p;
	if (!shared)
		query_dict_count(o->db, 0, evict_bytes(p));
	partition_unref(p);
}
