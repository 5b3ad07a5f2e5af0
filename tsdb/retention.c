/* SPDX-License-Identifier: Apache-2.0 */
/* Retention by time and size: whole partitions go, oldest first, and their space comes back when the last query that
 * looks at them ends. Also the other end of a partition's life: finding those on disk at start. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "tsdb/files.h"
#include "tsdb/join.h"
#include "tsdb/keep.h"

static void forget_partition(struct tsdb *db, struct partition *p)
{
	pthread_mutex_lock(&db->state_lock);
	for (size_t i = 0; i < db->partitions.n; i++)
		if (db->partitions.v[i] == p) {
			db->partitions.v[i] = db->partitions.v[--db->partitions.n];
			pthread_mutex_unlock(&db->state_lock);
			partition_unref(p);
			return;
		}
	pthread_mutex_unlock(&db->state_lock);
}

/* Beside the log: what it still has of a dropped partition is not to come back, nor to be missed, at the next start. */
static void write_dropped(struct tsdb *db, int64_t until_ms)
{
	struct err e;
	char text[64];
	snprintf(text, sizeof text, "pyrrha-dropped 1\nuntil %lld\n", (long long)until_ms);
	if (files_put(db->path, "dropped", view_of(text), &e))
		LOG_WARN("msg", "cannot write down which partitions were dropped", "err", e.msg);
}

void tsdb_read_dropped(struct tsdb *db)
{
	AUTOFREE char *name = xasprintf("%s/dropped", db->path);
	long long until;
	FILE *f = fopen(name, "re");
	if (!f)
		return;
	if (fscanf(f, "pyrrha-dropped 1\nuntil %lld\n", &until) == 1)
		atomic_store(&db->dropped_until, until);
	fclose(f);
}

void tsdb_drop_partition(struct tsdb *db, struct partition *p, bool for_ever)
{
	int64_t start = clock_mono_ns();
	partition_ref(p);
	if (for_ever)
		write_dropped(db, MAX(atomic_load(&db->dropped_until), ((int64_t)p->day + 1) * DAY_MS));
	pthread_mutex_lock(&db->apply_lock);
	if (p->db_parts)
		pdb_drop(p->db_parts);
	if (for_ever)
		atomic_store(&db->dropped_until, MAX(atomic_load(&db->dropped_until), ((int64_t)p->day + 1) * DAY_MS));
	struct version *v = tsdb_version(db, NULL);
	tsdb_publish(db, version_without(v, p->day), 0);
	version_unref(v);
	forget_partition(db, p);
	pthread_mutex_unlock(&db->apply_lock);
	if (for_ever)
		metric_inc(&tsdb_metrics[TM_RETAINED]);
	joins_forget(db->joins, p->symbols);
	uint32_t day = p->day;
	partition_unref(p);
	LOG_INFO("msg", "dropped a partition", "partition", LOG_NUM(day), "us", LOG_NUM((clock_mono_ns() - start) / 1000));
}

static uint64_t bytes_of(const struct pstate *s)
{
	return s->n_parts ? pdb_bytes(s->parts[0]->db) : 0;
}

/* Partitions that never got a row (all were duplicates) are in no version, but their symbols hold the log back. */
static void forget_empty(struct tsdb *db, int64_t floor)
{
	struct version *v = tsdb_version(db, NULL);
	for (;;) {
		struct partition *old = NULL;
		pthread_mutex_lock(&db->state_lock);
		for (size_t i = 0; i < db->partitions.n && !old; i++)
			if (((int64_t)db->partitions.v[i]->day + 1) * DAY_MS <= floor && !version_find(v, db->partitions.v[i]->day))
				old = db->partitions.v[i];
		pthread_mutex_unlock(&db->state_lock);
		if (!old)
			break;
		forget_partition(db, old);
	}
	version_unref(v);
}

int tsdb_retain(struct tsdb *db, struct err *e)
{
	pthread_mutex_lock(&db->seal_lock);
	int64_t floor = tsdb_floor_ms(db);
	struct version *v = tsdb_version(db, NULL);
	uint64_t total = 0;
	for (size_t i = 0; i < v->n; i++)
		total += bytes_of(v->p[i]);
	for (size_t i = 0; i < v->n; i++) {
		struct pstate *s = v->p[i];
		bool over = db->o.retention_bytes && total > db->o.retention_bytes && i + 1 < v->n;
		if (((int64_t)s->p->day + 1) * DAY_MS > floor && !over)
			break;
		total -= bytes_of(s);
		tsdb_drop_partition(db, s->p, true);
	}
	version_unref(v);
	forget_empty(db, floor);
	int rc = keep_due(db, e);
	pthread_mutex_unlock(&db->seal_lock);
	return rc;
}

/* ---- at start ---- */

/* What cannot be opened is set aside for a person to look at; the others must not wait for that. */
static void set_aside(const struct tsdb *db, const char *name, const char *why)
{
	AUTOFREE char *from = xasprintf("%s/partitions/%s", db->path, name);
	AUTOFREE char *to = xasprintf("%s/partitions/%s.bad-%lld", db->path, name, (long long)clock_now_ms());
	if (rename(from, to))
		LOG_ERROR("msg", "a partition cannot be opened and not be set aside", "dir", from, "err", why);
	else
		LOG_ERROR("msg", "a partition cannot be opened and was set aside: its data is not served", "dir", to, "err", why);
}

static int open_one(void *arg, const char *name, struct err *e)
{
	struct tsdb *db = arg;
	int64_t day;
	struct err bad;
	struct part **parts = NULL;
	size_t n = 0;
	(void)e;
	if (view_ends(view_of(name), VIEW(PDB_GONE)) && !db->o.read_only) {
		AUTOFREE char *gone = xasprintf("%s/partitions/%s", db->path, name);
		files_remove_tree(gone);
	}
	if (!num_parse_i64(view_of(name), &day) || day < 0 || day > 10000000)
		return 0;
	AUTOFREE char *dir = xasprintf("%s/partitions/%s", db->path, name);
	if (pdb_is_deleted(dir)) {
		if (!db->o.read_only)
			pdb_remove(dir);
		return 0;
	}
	struct partition *p = partition_new(db, (uint32_t)day);
	if (partition_open_parts(p, &parts, &n, &bad)) {
		if (db->o.read_only)
			LOG_ERROR("msg", "a partition cannot be opened", "partition", name, "err", bad.msg);
		else
			set_aside(db, name, bad.msg);
		atomic_fetch_add(&db->lost_records, 1);
		partition_unref(p);
		return 0;
	}
	atomic_store(&p->loaded, n == 0);
	vec_push(&db->partitions, p);
	if (n) {
		struct version *v = tsdb_version(db, NULL);
		tsdb_publish(db, version_with(v, p, NULL, 0, parts, n), 0);
		version_unref(v);
	}
	for (size_t i = 0; i < n; i++)
		part_unref(parts[i]);
	free(parts);
	return 0;
}

int tsdb_open_partitions(struct tsdb *db, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/partitions", db->path);
	int rc = db->o.read_only ? 0 : files_make_dirs(dir, e);
	return rc ? rc : files_each(dir, open_one, db, e);
}
