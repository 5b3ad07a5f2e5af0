/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions and versions: what is where. See db.h. */
#include "tsdb/version/db.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/part/part.h"
#include "tsdb/part/part_read.h"
#include "tsdb/version/late_names.h"
#include "tsdb/version/tombstones.h"

struct partition *partition_new(struct tsdb *db, uint32_t day)
{
	struct partition *p = NEW(struct partition);
	atomic_init(&p->refs, 1);
	atomic_init(&p->users, 0);
	p->db = db;
	static atomic_ullong serials;
	p->serial = p->dictionary = atomic_fetch_add(&serials, 1) + 1;
	p->day = day;
	mutex_init(&p->append_turn, RANK_TSDB_APPEND_TURN, "append turn");
	rwlock_init(&p->dict_lock, RANK_TSDB_DICT, "dictionary");
	rwlock_set_order(&p->dict_lock, UINT32_MAX - day);
	p->symbols = symbols_new();
	index_init(&p->index, p->symbols);
	dict_marks_start(&p->logged);
	dict_marks_start(&p->sealed);
	dict_marks_start(&p->sealed_before);
	p->first_symbols = p->next_symbols = p->kept_symbols = UINT64_MAX;
	atomic_init(&p->loaded, true);
	p->next_part = 1;
	return p;
}

struct partition *partition_ref(struct partition *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void partition_unref(struct partition *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	partition_unref(p->series_only);
	index_release(&p->index);
	accounts_release(&p->accounts);
	symbols_unref(p->symbols);
	partition_db_unref(p->db_parts);
	rwlock_destroy(&p->dict_lock);
	mutex_destroy(&p->append_turn);
	free(p);
}

struct partition *partition_enter(struct partition *p)
{
	atomic_fetch_add(&p->users, 1);
	return partition_ref(p);
}

void partition_leave(struct partition *p)
{
	if (p)
		atomic_fetch_sub(&p->users, 1);
	partition_unref(p);
}

/* ---- versions ---- */

uint64_t pstate_parts(const struct pstate *s)
{
	uint64_t all = 0;
	for (size_t i = 0; i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR)
			all += hash_u64(hash_u64(s->parts[i]->number + 1) + s->parts[i]->returns);
	return all;
}

void pstate_unref(struct pstate *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	for (size_t i = 0; i < s->n_windows; i++)
		window_unref(s->windows[i]);
	for (size_t i = 0; i < s->n_parts; i++)
		part_unref(s->parts[i]);
	tombstones_unref(s->tombstones);
	late_names_unref(s->names);
	partition_unref(s->p);
	free(s->windows);
	free(s->parts);
	free(s);
}

static int by_hour(const void *a, const void *b)
{
	const struct window *x = *(struct window *const *)a, *y = *(struct window *const *)b;
	return (x->hour > y->hour) - (x->hour < y->hour);
}

static int by_place(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;
	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->window != y->window)
		return x->window < y->window ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* A rollup counts only while it sums exactly the parts that there are. */
static bool sums_all(const struct pstate *s, const struct part *r, uint32_t first_hour, uint32_t hours)
{
	uint32_t lo = s->hour_first[first_hour], hi = s->hour_first[first_hour + hours];
	if (r->sums.n != hi - lo)
		return false;
	for (uint32_t i = lo; i < hi; i++) {
		bool found = false;
		for (size_t k = 0; k < r->sums.n && !found; k++)
			found = r->sums.v[k] == s->parts[i]->number;
		if (!found)
			return false;
	}
	return true;
}

static void index_parts(struct pstate *s)
{
	uint32_t i = 0, n_hours = 0;
	while (n_hours < s->n_parts && s->parts[n_hours]->level == LEVEL_HOUR)
		n_hours++;
	for (uint32_t h = 0; h < 25; h++) {
		while (i < n_hours && s->parts[i]->window < s->p->day * 24 + h)
			i++;
		s->hour_first[h] = i;
	}
	for (size_t k = n_hours; k < s->n_parts; k++) {
		struct part *r = s->parts[k];
		if (r->level == LEVEL_6H && r->window / 4 == s->p->day && sums_all(s, r, r->window % 4 * 6, 6))
			s->six[r->window % 4] = r;
		else if (r->level == LEVEL_DAY && r->window == s->p->day && sums_all(s, r, 0, 24))
			s->all_day = r;
	}
}

static struct pstate *pstate_new(struct partition *p, struct window *const *windows, size_t n_windows,
				 struct part *const *parts, size_t n_parts)
{
	struct pstate *s = NEW(struct pstate);
	atomic_init(&s->refs, 1);
	s->p = partition_ref(p);
	s->windows = xcalloc(n_windows ? n_windows : 1, sizeof *s->windows);
	s->n_windows = n_windows;
	for (size_t i = 0; i < n_windows; i++)
		s->windows[i] = window_ref(windows[i]);
	qsort(s->windows, n_windows, sizeof *s->windows, by_hour);
	s->parts = xcalloc(n_parts ? n_parts : 1, sizeof(*s->parts));
	s->n_parts = n_parts;
	for (size_t i = 0; i < n_parts; i++)
		s->parts[i] = part_ref(parts[i]);
	qsort(s->parts, n_parts, sizeof(*s->parts), by_place);
	index_parts(s);
	return s;
}

static struct version *version_ref(struct version *v)
{
	atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	return v;
}

void version_unref(struct version *v)
{
	if (!v || atomic_fetch_sub(&v->refs, 1) != 1)
		return;
	struct tsdb *db = v->n ? v->p[0]->p->db : NULL;
	for (size_t i = 0; i < v->n; i++)
		pstate_unref(v->p[i]);
	free(v->p);
	free(v);
	if (db && atomic_load(&db->readers_waiters)) {
		mutex_lock(&db->readers_lock);
		pthread_cond_broadcast(&db->readers_cond);
		mutex_unlock(&db->readers_lock);
	}
}

const struct pstate *version_find(const struct version *v, uint32_t day)
{
	size_t a = 0, b = v->n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (v->p[m]->p->day < day)
			a = m + 1;
		else
			b = m;
	}
	return a < v->n && v->p[a]->p->day == day ? v->p[a] : NULL;
}

struct version *version_without(const struct version *v, uint32_t day)
{
	struct version *next = NEW(struct version);
	atomic_init(&next->refs, 1);
	next->p = xcalloc(v->n + 1, sizeof(*next->p));
	for (size_t i = 0; i < v->n; i++)
		if (v->p[i]->p->day != day) {
			next->p[next->n++] = v->p[i];
			atomic_fetch_add(&v->p[i]->refs, 1);
		}
	return next;
}

struct version *version_with(const struct version *v, struct partition *p, struct window *const *windows,
			     size_t n_windows, struct part *const *parts, size_t n_parts)
{
	struct version *next = version_without(v, p->day);
	size_t at = 0;
	while (at < next->n && next->p[at]->p->day < p->day)
		at++;
	memmove(next->p + at + 1, next->p + at, (next->n - at) * sizeof *next->p);
	next->p[at] = pstate_new(p, windows, n_windows, parts, n_parts);
	next->n++;
	const struct pstate *old = version_find(v, p->day);
	next->p[at]->tombstones = old ? tombstones_ref(old->tombstones) : NULL;
	next->p[at]->names = old ? late_names_ref(old->names) : NULL;
	return next;
}

struct version *version_join(const struct version *v, struct partition *const *p, size_t n)
{
	struct version *next = NEW(struct version);
	atomic_init(&next->refs, 1);
	next->p = xcalloc(v->n + n + 1, sizeof(*next->p));
	for (size_t i = 0, k = 0; i < v->n || k < n;) {
		if (k == n || (i < v->n && v->p[i]->p->day <= p[k]->day)) {
			next->p[next->n++] = v->p[i];
			atomic_fetch_add(&v->p[i++]->refs, 1);
		} else {
			next->p[next->n++] = pstate_new(p[k++], NULL, 0, NULL, 0);
		}
	}
	return next;
}

void pstate_fill(struct pstate *empty, const struct pstate *from)
{
	struct pstate *s = pstate_new(from->p, NULL, 0, from->parts, from->n_parts);
	free(empty->parts);
	empty->parts = TAKE_PTR(s->parts);
	empty->n_parts = s->n_parts;
	memcpy(empty->hour_first, s->hour_first, sizeof s->hour_first);
	memcpy(empty->six, s->six, sizeof s->six);
	empty->all_day = s->all_day;
	empty->names = late_names_ref(from->names);
	empty->tombstones = tombstones_ref(from->tombstones);
	s->n_parts = 0; /* `empty` has these references now */
	pstate_unref(s);
}

struct pstate *pstate_of_parts(struct partition *p, struct part *const *parts, size_t n, struct tombstones *m, struct late_names *names)
{
	struct pstate *s = pstate_new(p, NULL, 0, parts, n);
	s->tombstones = m;
	s->names = names;
	return s;
}

void version_set_late_names(struct version *v, uint32_t day, struct late_names *n)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->p[i]->p->day == day) {
			late_names_unref(v->p[i]->names);
			v->p[i]->names = n;
			return;
		}
	late_names_unref(n);
}

void version_set_tombstones(struct version *v, uint32_t day, struct tombstones *m)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->p[i]->p->day == day) {
			tombstones_unref(v->p[i]->tombstones);
			v->p[i]->tombstones = m;
			return;
		}
	tombstones_unref(m);
}

void version_note_lost(const struct version *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim)
{
	if (!lim || !lim->damage)
		return;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; partition_meets(v->p[i]->p, after_ms, until_ms) && k < v->p[i]->n_parts; k++) {
			const struct part *p = v->p[i]->parts[k];
			if (p->lost && p->level == LEVEL_HOUR && part_start_ms(p) < until_ms && part_end_ms(p) > after_ms)
				source_damage_add(lim->damage, part_start_ms(p), part_end_ms(p));
		}
}

struct version *tsdb_version(struct tsdb *db, uint64_t *ret_seq)
{
	mutex_lock(&db->state_lock);
	struct version *v = version_ref(db->current);
	if (ret_seq)
		*ret_seq = db->seq;
	mutex_unlock(&db->state_lock);
	return v;
}

void tsdb_publish(struct tsdb *db, struct version *v, uint64_t seq)
{
	mutex_assert_held(&db->apply_lock);
	mutex_lock(&db->state_lock);
	struct version *old = db->current;
	db->current = v;
	if (seq)
		db->seq = seq;
	mutex_unlock(&db->state_lock);
	version_unref(old);
}

void tsdb_count_head(struct tsdb *db, const struct version *v)
{
	size_t total = 0;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_windows; k++)
			total += window_memory(v->p[i]->windows[k]);
	atomic_store(&db->head_bytes, total);
	tsdb_head_changed(db);
}

int tsdb_sync_holes(struct tsdb *db, struct err *e)
{
	int rc = holes_sync(&db->holes, db->path, e);
	hlog_hold_marks(db->log, rc != 0);
	return rc;
}

static struct partition *find_partition(const struct tsdb *db, uint32_t day) REQUIRES(db->state_lock)
{
	for (size_t i = 0; i < db->partitions.n; i++)
		if (db->partitions.v[i]->day == day)
			return db->partitions.v[i];
	return NULL;
}

struct partition *tsdb_partition(struct tsdb *db, uint32_t day)
{
	mutex_lock(&db->state_lock);
	struct partition *p = find_partition(db, day);
	if (p)
		partition_ref(p);
	mutex_unlock(&db->state_lock);
	return p;
}

struct partition *tsdb_enter_partition(struct tsdb *db, uint32_t day)
{
	struct partition *p;
	mutex_lock(&db->state_lock);
	while ((p = find_partition(db, day)) && p->closing)
		mutex_wait(&db->state_lock, &db->state_cond);
	if (!p) {
		p = partition_new(db, day);
		vec_push(&db->partitions, p);
	}
	partition_enter(p);
	mutex_unlock(&db->state_lock);
	return p;
}

/* ---- what is there already ---- */

static bool chunk_has(const struct chunk *c, int64_t t_ms)
{
	for (size_t i = c->rows.n; i--;) {
		if (c->rows.v[i].t_ms == t_ms)
			return true;
		if (!c->unsorted && c->rows.v[i].t_ms < t_ms)
			return false;
	}
	return false;
}

static bool fchunk_has(const struct fchunk *c, int64_t t_ms)
{
	for (size_t i = c->points.n; i--;) {
		if (c->points.v[i].t_ms == t_ms)
			return true;
		if (!c->unsorted && c->points.v[i].t_ms < t_ms)
			return false;
	}
	return false;
}

bool tsdb_has_stamp(const struct version *v, const struct partition *p, uint32_t series, int64_t t_ms)
{
	rwlock_assert_held(&p->dict_lock);
	const struct series *s = p->index.series.v[series];
	if (t_ms > atomic_load(&s->max_t) || t_ms < atomic_load(&s->min_t))
		return false;
	const struct pstate *ps = version_find(v, p->day);
	bool found = false;
	for (size_t i = 0; ps && i < ps->n_windows && !found; i++) {
		struct window *w = ps->windows[i];
		if (w->hour != window_of(t_ms))
			continue;
		rwlock_read(&w->lock);
		const struct chunk *c = s->is_float ? NULL : window_chunk(w, series);
		const struct fchunk *f = s->is_float ? window_fchunk(w, series) : NULL;
		found = (c && chunk_has(c, t_ms)) || (f && fchunk_has(f, t_ms));
		rwlock_unlock(&w->lock);
	}
	for (size_t i = 0; ps && i < ps->n_parts && !found; i++)
		if (ps->parts[i]->level == LEVEL_HOUR && ps->parts[i]->window == window_of(t_ms) &&
		    !tombstones_hide(ps, ps->parts[i], series, t_ms))
			found = part_has_stamp(ps->parts[i], series, t_ms);
	return found;
}

bool tsdb_is_sealed(const struct version *v, const struct partition *p, int64_t hour, uint64_t number)
{
	const struct pstate *ps = version_find(v, p->day);
	for (size_t i = 0; ps && i < ps->n_parts; i++)
		if (ps->parts[i]->level == LEVEL_HOUR && ps->parts[i]->window == hour && number <= ps->parts[i]->last_record)
			return true;
	return false;
}

/* ---- parts on disk ---- */

int partition_open_parts(struct partition *p, struct part ***parts, size_t *n, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/partitions/%u", p->db->path, p->day);
	uint64_t lost = 0;
	int rc = p->db->o.read_only ? 0 : files_make_dirs(dir, e);
	if (!rc)
		rc = partition_db_open(&p->db_parts, dir, p->db->cache, p->db->o.read_only, &p->db->keeper, parts, n, &lost, e);
	if (!rc) {
		p->next_part = MAX(p->next_part, partition_db_next_number(p->db_parts));
		partition_db_count_lost(p->db_parts, &p->db->lost_records);
	}
	atomic_fetch_add(&p->db->lost_records, lost);
	return rc;
}

/* An existing directory may be that of a dropped one that could not be removed yet. */
int partition_make_parts(struct partition *p, struct err *e)
{
	mutex_assert_held(&p->db->seal_lock);
	mutex_assert_held(&p->db->apply_lock);
	AUTOFREE char *dir = xasprintf("%s/partitions/%u", p->db->path, p->day);
	struct part **parts;
	size_t n;
	if (partition_db_remove_marked(dir, e))
		return err_wrap(e, "%s was deleted, its place is not free yet", dir);
	int rc = partition_open_parts(p, &parts, &n, e);
	for (size_t i = 0; !rc && i < n; i++)
		part_unref(parts[i]);
	if (!rc)
		free(parts);
	return rc;
}

int partition_reopen_parts(struct partition *p, struct err *e)
{
	mutex_assert_held(&p->db->seal_lock);
	int rc = partition_db_reopen(p->db_parts, e);
	if (!rc)
		LOG_INFO("msg", "a partition is open for writing again", "partition", LOG_NUM(p->day));
	return rc;
}
