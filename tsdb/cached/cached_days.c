/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/cached/cached_days.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/bucket/catalogue.h"
#include "tsdb/disk/text.h"
#include "tsdb/part/part_cover.h"
#include "tsdb/version/evict.h"

#define UNUSED_MS (10 * INT64_C(60000)) /* after which a day leaves memory */
#define LOOK_MS 10000                   /* milliseconds between two measurements of the size of bucket/cache */

struct cached_days {
	struct cached_fetcher *fetcher;
	struct cached_stores stores;
	struct mutex lock; /* of the list */
	VEC(struct cached_server *) servers; /* by number */
	VEC(struct cached_day *) v; /* by day and server; references */
	struct mutex tidy_lock;     /* held while tidying; of the next field */
	int64_t looked_mono_ms;     /* when the directory was measured last */
	atomic_ullong bytes;        /* of the directory, when it was measured last */
};

void cached_days_start(struct tsdb *db, struct cached_server *own)
{
	struct cached_days *c = NEW(struct cached_days);
	mutex_init(&c->lock, RANK_TSDB_CACHED_DAYS, "cached days");
	mutex_init(&c->stores.lock, LOCK_LEAF, "cached stores");
	mutex_init(&c->tidy_lock, RANK_TSDB_CACHED_TIDY, "tidying cached days");
	c->fetcher = cached_fetcher_new(db->o.objects);
	db->cached = c;
	cached_days_add_server(db, own);
}

void cached_days_add_server(struct tsdb *db, struct cached_server *s)
{
	struct cached_days *c = db->cached;
	mutex_lock(&c->lock);
	s->number = (unsigned)c->servers.n;
	vec_push(&c->servers, s);
	mutex_unlock(&c->lock);
}

struct cached_server *cached_days_server(struct tsdb *db, size_t i)
{
	struct cached_days *c = db->cached;
	mutex_lock(&c->lock);
	struct cached_server *s = i < c->servers.n ? c->servers.v[i] : NULL;
	mutex_unlock(&c->lock);
	return s;
}

void cached_days_stop(struct tsdb *db)
{
	struct cached_days *c = db->cached;
	if (!c)
		return;
	cached_fetcher_free(c->fetcher);
	for (size_t i = 0; i < c->v.n; i++)
		cached_day_unref(c->v.v[i]);
	vec_free(&c->v);
	vec_free(&c->servers);
	vec_free(&c->stores.v);
	mutex_destroy(&c->stores.lock);
	mutex_destroy(&c->lock);
	mutex_destroy(&c->tidy_lock);
	free(c);
	db->cached = NULL;
}

/* ---- the list ---- */

static size_t days_place(const struct cached_days *c, const struct cached_server *s, uint32_t day)
{
	size_t a = 0, b = c->v.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		const struct cached_day *d = c->v.v[m];
		if (d->day != day ? d->day < day : d->server->number < s->number)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

/* The day of a server at a place of the list; NULL: another day is there, or none. */
static struct cached_day *days_at(const struct cached_days *c, size_t i, const struct cached_server *s, uint32_t day)
{
	return i < c->v.n && c->v.v[i]->day == day && c->v.v[i]->server == s ? c->v.v[i] : NULL;
}

/* Whether an open one does not say what is so now. */
static bool day_is_old(const struct cached_day *d, struct object_stamp newest)
{
	if (!atomic_load_explicit(&d->open, memory_order_acquire))
		return false;
	return object_stamp_cmp(d->store->stamp, newest) || atomic_load(&d->store->dir->lost) || d->hidden_number != atomic_load(d->server->hidden_number) ||
	       tsdb_now_ms(d->tsdb) >= d->next_hidden_ms;
}

struct cached_day *cached_days_get(struct cached_server *s, uint32_t day, struct object_stamp newest)
{
	struct cached_days *c = s->db->cached;
	struct cached_day *old = NULL;
	mutex_lock(&c->lock);
	size_t i = days_place(c, s, day);
	if (!days_at(c, i, s, day)) {
		vec_push(&c->v, NULL);
		memmove(c->v.v + i + 1, c->v.v + i, (c->v.n - 1 - i) * sizeof(*c->v.v));
		c->v.v[i] = cached_day_new(s, day, &c->stores);
	} else if (day_is_old(c->v.v[i], newest)) {
		old = c->v.v[i];
		c->v.v[i] = cached_day_new(s, day, &c->stores);
	}
	struct cached_day *d = cached_day_ref(c->v.v[i]);
	mutex_unlock(&c->lock);
	cached_day_unref(old);
	return d;
}

/* ---- fetching ---- */

void cached_days_order(struct tsdb *db, struct cached_day *const *days, size_t n, const struct source_limits *lim, struct cached_order *ret)
{
	*ret = (struct cached_order){ .until_mono_ms = 0 };
	for (size_t i = 0; i < n; i++) {
		size_t first = ret->files.v.n;
		if (days[i] && atomic_load_explicit(&days[i]->open, memory_order_acquire))
			cached_day_list_lacks(days[i], &ret->files);
		if (ret->files.v.n > first)
			vec_push(&ret->days, (struct cached_order_day){ days[i], first, ret->files.v.n - first });
	}
	if (!ret->files.v.n)
		return;
	if (lim && lim->waits)
		lim->waits(lim->waits_arg);
	ret->until_mono_ms = cached_fetcher_start(db->cached->fetcher, ret->files.v.v, ret->files.v.n, lim);
}

int cached_order_wait(struct tsdb *db, struct cached_order *o, const struct cached_day *day, const struct source_limits *lim, struct err *e)
{
	struct err why;
	int rc = 0;
	for (size_t i = 0; i < o->days.n; i++) {
		struct cached_order_day *d = &o->days.v[i];
		if ((day && d->day != day) || !d->n)
			continue;
		int got = cached_fetcher_wait(db->cached->fetcher, o->files.v.v + d->first, d->n, o->until_mono_ms, lim, &why);
		d->n = 0;
		if (got && got != -ERR_UNAVAILABLE)
			return err_set(e, why.code, "%s", why.msg);
		if (got && !rc)
			rc = err_set(e, why.code, "%s", why.msg);
	}
	return rc;
}

void cached_order_release(struct cached_order *o)
{
	vec_free(&o->files.v);
	vec_free(&o->days);
}

/* ---- memory ---- */

/* Takes days out of the list, and returns them: those that fn chooses and no view has. */
struct days_list {
	VEC(struct cached_day *) v;
};

static void days_take_unused(struct cached_days *c, int64_t now, struct days_list *ret)
{
	size_t n = 0;
	mutex_lock(&c->lock);
	for (size_t i = 0; i < c->v.n; i++) {
		struct cached_day *d = c->v.v[i];
		if (atomic_load(&d->refs) == 1 && now - atomic_load(&d->used_mono_ms) > UNUSED_MS)
			vec_push(&ret->v, d);
		else
			c->v.v[n++] = d;
	}
	c->v.n = n;
	mutex_unlock(&c->lock);
}

static void days_release(struct days_list *l)
{
	for (size_t i = 0; i < l->v.n; i++)
		cached_day_unref(l->v.v[i]);
	vec_free(&l->v);
}

/* Copies the list, with a reference to each day; days_release gives them back. */
static void days_copy(struct cached_days *c, struct days_list *ret)
{
	mutex_lock(&c->lock);
	for (size_t i = 0; i < c->v.n; i++)
		vec_push(&ret->v, cached_day_ref(c->v.v[i]));
	mutex_unlock(&c->lock);
}

/* In place of a day comes one that is not open: its dictionary leaves memory. Not while a view has it. */
static bool days_renew(struct cached_days *c, struct cached_day *d)
{
	bool done = false;
	mutex_lock(&c->lock);
	size_t i = days_place(c, d->server, d->day);
	if (i < c->v.n && c->v.v[i] == d && atomic_load(&d->refs) == 2) { /* the list's and the caller's */
		c->v.v[i] = cached_day_new(d->server, d->day, &c->stores);
		done = true;
	}
	mutex_unlock(&c->lock);
	if (done)
		cached_day_unref(d);
	return done;
}

static int by_use(const void *a, const void *b)
{
	int64_t x = atomic_load(&(*(struct cached_day *const *)a)->used_mono_ms), y = atomic_load(&(*(struct cached_day *const *)b)->used_mono_ms);
	return (x > y) - (x < y);
}

static bool day_is_open(const struct cached_day *d)
{
	return atomic_load_explicit(&d->open, memory_order_acquire);
}

static size_t day_dictionary_bytes(const struct cached_day *d)
{
	return evict_bytes(d->p) + (day_is_open(d) ? evict_bytes(d->origin.series) : 0);
}

static size_t day_index_bytes(const struct cached_day *d)
{
	size_t total = 0;
	if (!day_is_open(d))
		return 0;
	for (size_t k = 0; k < d->origin.s->n_parts; k++)
		total += part_index_bytes(d->origin.s->parts[k]);
	for (size_t k = 0; k < d->store->files.n; k++)
		total += d->store->files.v[k]->known.cap + d->store->files.v[k]->covers.cap + d->store->files.v[k]->ends.cap;
	return total;
}

static size_t days_total(struct tsdb *db, size_t (*bytes)(const struct cached_day *d))
{
	struct days_list l = { 0 };
	size_t total = 0;
	if (!db->cached)
		return 0;
	days_copy(db->cached, &l);
	for (size_t i = 0; i < l.v.n; i++)
		total += bytes(l.v.v[i]);
	days_release(&l);
	return total;
}

size_t cached_days_memory(struct tsdb *db)
{
	return days_total(db, day_dictionary_bytes);
}

size_t cached_days_index_bytes(struct tsdb *db)
{
	return days_total(db, day_index_bytes);
}

/* Dictionaries of cached days and of days of this disk share one budget (dictionary_bytes). */
static void days_evict(struct tsdb *db, int64_t now)
{
	struct days_list l = { 0 };
	size_t total = cached_days_memory(db);
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++)
		total += evict_bytes(v->p[i]->p);
	version_unref(v);
	if (total <= db->o.dictionary_bytes)
		return;
	days_copy(db->cached, &l);
	if (l.v.n)
		qsort(l.v.v, l.v.n, sizeof(*l.v.v), by_use);
	for (size_t i = 0; i < l.v.n && total > db->o.dictionary_bytes; i++) {
		size_t bytes = day_dictionary_bytes(l.v.v[i]);
		if (bytes && now - atomic_load(&l.v.v[i]->used_mono_ms) >= EVICT_IDLE_MS && days_renew(db->cached, l.v.v[i]))
			total -= MIN(bytes, total);
	}
	days_release(&l);
}

/* ---- the directory ---- */

/* A directory of bucket/cache. */
struct cached_dir_entry {
	char name[SERVER_ID_MAX + 64];
	const struct cached_server *server; /* NULL: of none */
	uint32_t day;
	struct object_stamp stamp;
	uint64_t bytes;
	int64_t used_ms;  /* when something of it was changed last; of an open day the moment it was used */
	bool in_use;
};

struct dir_list {
	struct tsdb *db;
	char *path;
	VEC(struct cached_dir_entry) v;
};

struct dir_measure {
	struct cached_dir_entry *d;
	const char *path;
};

static int dir_add_file(void *arg, const char *name, struct err *e)
{
	struct dir_measure *x = arg;
	AUTOFREE char *path = xasprintf("%s/%s", x->path, name);
	struct stat st;
	(void)e;
	if (!stat(path, &st) && S_ISREG(st.st_mode)) {
		x->d->bytes += (uint64_t)st.st_blocks * 512;
		x->d->used_ms = MAX(x->d->used_ms, (int64_t)st.st_mtim.tv_sec * 1000);
	}
	return 0;
}

static const struct cached_server *dir_find_server(struct tsdb *db, const char *id)
{
	const struct cached_server *s;
	for (size_t i = 0; (s = cached_days_server(db, i)); i++)
		if (!strcmp(s->id, id))
			return s;
	return NULL;
}

/* DAY-EPOCH-NUMBER, or DAY-EPOCH-NUMBER-ID. */
static void dir_parse(struct tsdb *db, struct cached_dir_entry *d)
{
	char numbers[sizeof d->name];
	const char *id = d->name;
	int64_t n[3];
	for (int i = 0; i < 3 && id; i++) {
		id = strchr(id, '-');
		id += id != NULL;
	}
	size_t len = id ? (size_t)(id - 1 - d->name) : strlen(d->name);
	for (size_t i = 0; i < len; i++)
		numbers[i] = d->name[i] == '-' ? ' ' : d->name[i];
	if (!text_numbers(view_make(numbers, len), "# # #", n))
		return;
	d->day = (uint32_t)n[0];
	d->stamp = (struct object_stamp){ (uint64_t)n[1], (uint64_t)n[2] };
	d->server = dir_find_server(db, id ? id : "");
}

static int dir_add(void *arg, const char *name, struct err *e)
{
	struct dir_list *l = arg;
	struct cached_dir_entry *d = vec_add(&l->v);
	AUTOFREE char *path = xasprintf("%s/%s", l->path, name);
	struct dir_measure x = { d, path };
	snprintf(d->name, sizeof d->name, "%s", name);
	dir_parse(l->db, d);
	IGNORE(files_each(path, dir_add_file, &x, e)); /* what is no directory is removed */
	return 0;
}

/* Whether a directory is of the newest generation of a day that is not on this disk. */
static bool dir_is_wanted(const struct cached_dir_entry *d)
{
	if (!d->server || atomic_load(&d->server->is_own))
		return false;
	struct bucket_catalogue *all = d->server->catalogue;
	rwlock_read(&all->lock);
	const struct catalogue_day *c = catalogue_find(all, d->day);
	bool newest = c && c->kind == GENERATION_DAY && !c->doomed && !object_stamp_cmp(c->stamp, d->stamp);
	rwlock_unlock(&all->lock);
	return newest && (d->server->number || catalogue_is_absent(all, d->day));
}

/* The day of the list that has the directory and that nothing else uses; NULL = none. *ret_in_use: a view, or a day that is about to be opened,
 * has the directory. */
static struct cached_day *dir_find_day(struct cached_days *c, const struct cached_dir_entry *d, bool *ret_in_use) REQUIRES(c->lock)
{
	mutex_lock(&c->stores.lock);
	int refs = cached_stores_refs(&c->stores, d->server, d->day, d->stamp);
	mutex_unlock(&c->stores.lock);
	struct cached_day *x = d->server ? days_at(c, days_place(c, d->server, d->day), d->server, d->day) : NULL;
	bool has = x && atomic_load(&x->refs) == 1 && x->store && !object_stamp_cmp(x->store->stamp, d->stamp);
	*ret_in_use = refs > has;
	return has ? x : NULL;
}

/* Fills in whether a view uses the day of a directory, and when a query used it last. */
static void dir_look_up(struct cached_days *c, struct cached_dir_entry *d)
{
	mutex_lock(&c->lock);
	const struct cached_day *x = dir_find_day(c, d, &d->in_use);
	if (x)
		d->used_ms = clock_now_ms() - (clock_mono_ms() - atomic_load(&x->used_mono_ms));
	mutex_unlock(&c->lock);
}

/* Removes a directory of the cache; hours: only its files of hours, the samples. False: nothing was removed, as a view uses the directory. */
static bool dir_remove(struct dir_list *l, const struct cached_dir_entry *d, bool hours)
{
	struct cached_days *c = l->db->cached;
	struct cached_day *gone = NULL;
	AUTOFREE char *path = xasprintf("%s/%s", l->path, d->name), *away = xasprintf("%s/%s.gone", l->path, d->name);
	bool in_use, removed;
	mutex_lock(&c->lock);
	struct cached_day *x = dir_find_day(c, d, &in_use);
	if (x && !in_use) {
		size_t i = days_place(c, d->server, d->day);
		gone = x;
		memmove(c->v.v + i, c->v.v + i + 1, (--c->v.n - i) * sizeof(*c->v.v));
	}
	mutex_unlock(&c->lock);
	cached_day_unref(gone);
	mutex_lock(&c->stores.lock); /* no store of it is made meanwhile */
	removed = !in_use && !cached_stores_refs(&c->stores, d->server, d->day, d->stamp);
	if (removed && hours)
		cached_dir_shed_hours(path);
	else if (removed)
		removed = !rename(path, away);
	mutex_unlock(&c->stores.lock);
	if (removed && !hours)
		files_remove_tree(away);
	return removed;
}

/* Sums and symbols stay longest: they are small, and most questions need them. Returns how many bytes went. */
static uint64_t dir_shed(struct dir_list *l, struct cached_dir_entry *d)
{
	struct cached_dir_entry left = { .bytes = 0 };
	AUTOFREE char *path = xasprintf("%s/%s", l->path, d->name);
	struct dir_measure x = { &left, path };
	struct err e;
	if (!d->bytes || d->in_use || !dir_remove(l, d, true) || files_each(path, dir_add_file, &x, &e))
		return 0;
	uint64_t gone = d->bytes - MIN(left.bytes, d->bytes);
	d->bytes -= gone;
	return gone;
}

static int dir_by_use(const void *a, const void *b)
{
	const struct cached_dir_entry *x = a, *y = b;
	return (x->used_ms > y->used_ms) - (x->used_ms < y->used_ms);
}

static void dirs_tidy(struct tsdb *db)
{
	struct dir_list l = { .db = db, .path = xasprintf("%s/bucket/cache", db->path) };
	uint64_t total = 0;
	struct err e;
	if (!files_each(l.path, dir_add, &l, &e)) {
		for (size_t i = 0; i < l.v.n; i++) {
			struct cached_dir_entry *d = &l.v.v[i];
			dir_look_up(db->cached, d);
			if (!dir_is_wanted(d) && !d->in_use && dir_remove(&l, d, false))
				d->bytes = 0;
			total += d->bytes;
		}
		if (l.v.n)
			qsort(l.v.v, l.v.n, sizeof *l.v.v, dir_by_use);
		for (size_t i = 0; i < l.v.n && total > db->o.bucket_cache_bytes; i++)
			total -= dir_shed(&l, &l.v.v[i]);
		for (size_t i = 0; i < l.v.n && total > db->o.bucket_cache_bytes; i++)
			if (l.v.v[i].bytes && !l.v.v[i].in_use && dir_remove(&l, &l.v.v[i], false))
				total -= l.v.v[i].bytes;
	}
	atomic_store(&db->cached->bytes, total);
	vec_free(&l.v);
	free(l.path);
}

void cached_days_tidy(struct tsdb *db, bool measure)
{
	struct cached_days *c = db->cached;
	struct days_list unused = { 0 };
	int64_t now = clock_mono_ms();
	if (!c)
		return;
	mutex_lock(&c->tidy_lock);
	days_take_unused(c, now, &unused);
	days_release(&unused);
	days_evict(db, now);
	if (measure || !c->looked_mono_ms || now - c->looked_mono_ms >= LOOK_MS) {
		c->looked_mono_ms = now;
		dirs_tidy(db);
	}
	mutex_unlock(&c->tidy_lock);
}

uint64_t cached_days_bytes(struct tsdb *db)
{
	return db->cached ? atomic_load(&db->cached->bytes) : 0;
}

const struct cached_counts *cached_days_counts(struct tsdb *db)
{
	return db->cached ? cached_fetcher_counts(db->cached->fetcher) : NULL;
}

void cached_days_status(struct tsdb *db, struct admin_bucket *ret)
{
	if (!db->cached)
		return;
	const struct cached_counts *n = cached_fetcher_counts(db->cached->fetcher);
	ret->cache_bytes = atomic_load(&db->cached->bytes);
	ret->cache_max_bytes = db->o.bucket_cache_bytes;
	ret->reads = atomic_load(&n->requests);
	ret->read_bytes = atomic_load(&n->bytes);
	ret->read_failures = atomic_load(&n->failures);
}
