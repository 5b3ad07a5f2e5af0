/* SPDX-License-Identifier: Apache-2.0 */
/* Removes dictionaries of days that no query uses from memory. A partition's dictionary is read from its parts when it is first needed
 * (partition_load), and stays until all of them together are over the budget (dictionary_bytes). Then the least recently used one is
 * removed, unless some of its day's data is only in memory or in the head log.
 *
 * Readers keep their data: an empty partition over the same files replaces the old one, which is freed with its last view. That is
 * only correct while no thread is about to change the old one. So both locks for changing partitions are held, and an append in flight
 * is detected by its reference. */
#include "tsdb/version/evict.h"

#include <malloc.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/part/part.h"
#include "tsdb/version/dict_union.h"

#define EVICT_SERIES_IDLE_MS (10 * INT64_C(60000))

size_t evict_bytes(struct partition *p)
{
	if (!atomic_load(&p->loaded))
		return 0;
	rwlock_read(&p->dict_lock);
	size_t n = symbols_bytes(p->symbols) + index_bytes(&p->index);
	rwlock_unlock(&p->dict_lock);
	return n;
}

size_t evict_series_bytes(struct partition *p)
{
	mutex_lock(&p->db->state_lock);
	struct partition *x = p->series_only ? partition_ref(p->series_only) : NULL;
	mutex_unlock(&p->db->state_lock);
	size_t n = x ? evict_bytes(x) : 0;
	partition_unref(x);
	return n;
}

static void evict_series(struct partition *p)
{
	mutex_lock(&p->db->state_lock);
	struct partition *x = TAKE_PTR(p->series_only);
	mutex_unlock(&p->db->state_lock);
	partition_unref(x);
}

void evict_known(struct partition *p)
{
	evict_series(p);
	dict_unions_forget_day(p->db, p);
}

/* Whether all data of a day can be read from its parts. */
static bool is_all_sealed(const struct pstate *s)
{
	const struct partition *p = s->p;
	mutex_assert_held(&p->db->apply_lock);
	return s->n_parts && !s->n_windows && !p->sealing && p->first_symbols == UINT64_MAX && atomic_load(&p->loaded);
}

/* Replaces p by n in the list, unless another holder than the list and the current version has p: an append that uses its ids. Takes
 * n's reference if it returns true. */
static bool replace_in_list(struct tsdb *db, struct partition *p, struct partition *n)
{
	bool done = false;
	mutex_lock(&db->state_lock);
	for (size_t i = 0; i < db->partitions.n && !done; i++)
		if (db->partitions.v[i] == p && atomic_load(&p->refs) == 2) {
			db->partitions.v[i] = n;
			done = true;
		}
	mutex_unlock(&db->state_lock);
	return done;
}

bool evict_day(struct tsdb *db, uint32_t day)
{
	mutex_assert_held(&db->seal_lock);
	struct symbols *gone = NULL;
	mutex_lock(&db->apply_lock);
	struct version *v = tsdb_version(db, NULL);
	const struct pstate *s = version_find(v, day);
	struct partition *p = s && is_all_sealed(s) ? s->p : NULL, *n = p ? partition_empty_copy(p) : NULL;
	if (p && replace_in_list(db, p, n)) {
		tsdb_publish(db, version_with(v, n, NULL, 0, s->parts, s->n_parts), 0);
		gone = symbols_ref(p->symbols);
		partition_unref(p); /* the list's */
	} else {
		partition_unref(n);
	}
	version_unref(v);
	mutex_unlock(&db->apply_lock);
	if (!gone)
		return false;
	dict_unions_forget_everywhere(db, gone); /* not under apply_lock: a join takes its time */
	symbols_unref(gone);
	metric_inc(&tsdb_metrics[TM_EVICTED]);
	return true;
}

struct candidate {
	uint32_t day;
	size_t bytes;
	int64_t used_mono_ms;
};

static int by_use(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	return (x->used_mono_ms > y->used_mono_ms) - (x->used_mono_ms < y->used_mono_ms);
}

void evict_due(struct tsdb *db, int64_t idle_ms)
{
	VEC(struct candidate) c = { 0 };
	size_t total = 0, before, series_bytes = 0;
	mutex_lock(&db->seal_lock);
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++) {
		size_t bytes = evict_bytes(v->p[i]->p);
		size_t series = evict_series_bytes(v->p[i]->p);
		/* Who has the dictionary does not need them, and of those of days that nobody asks for none are kept. */
		if (bytes || clock_mono_ms() - atomic_load(&v->p[i]->p->used_mono_ms) >= EVICT_SERIES_IDLE_MS ||
		    series_bytes + series > db->o.dictionary_bytes / 4)
			evict_series(v->p[i]->p);
		else
			series_bytes += series;
		total += bytes;
		if (bytes)
			vec_push(&c, (struct candidate){ v->p[i]->p->day, bytes, atomic_load(&v->p[i]->p->used_mono_ms) });
	}
	version_unref(v); /* or it would count as a reader */
	before = total;
	if (total > db->o.dictionary_bytes)
		qsort(c.v, c.n, sizeof *c.v, by_use);
	int64_t now = clock_mono_ms();
	for (size_t i = 0; i < c.n && total > db->o.dictionary_bytes; i++)
		if (now - c.v[i].used_mono_ms >= idle_ms && evict_day(db, c.v[i].day))
			total -= c.v[i].bytes;
	mutex_unlock(&db->seal_lock);
	if (total < before) {
		malloc_trim(0);
		LOG_DEBUG("msg", "dictionaries of days that no query uses left memory", "bytes", LOG_NUM(before - total),
			  "left", LOG_NUM(total));
	}
	vec_free(&c);
}
