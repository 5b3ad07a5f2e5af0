/* SPDX-License-Identifier: Apache-2.0 */
/* The database of a partition: opening it, which parts there are, closing and removing it. */
#include "tsdb/part_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/list.h"
#include "tsdb/salvage.h"

#define REOPEN_TRIES 2000 /* of a millisecond each */

/* ---- staying open ---- */

int pdb_enter(struct pdb *d, struct err *e)
{
	pthread_rwlock_rdlock(&d->open_lock);
	if (d->db)
		return 0;
	pthread_rwlock_unlock(&d->open_lock);
	return err_set(e, ERR_IO, "the partition %s is closed after an error", d->dir);
}

void pdb_leave(struct pdb *d)
{
	pthread_rwlock_unlock(&d->open_lock);
}

/* ---- opening ---- */

struct pdb *pdb_ref(struct pdb *d)
{
	atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
	return d;
}

/* To another name, and that on disk: of a removal that a crash or a power loss cuts short nothing is opened again. Where
 * it cannot be renamed it stays, and the next start tries again. */
static int move_away(const char *dir, struct err *e)
{
	AUTOFREE char *gone = xasprintf("%s" PDB_GONE, dir), *parent = xstrdup(dir);
	char *slash = strrchr(parent, '/');
	files_remove_tree(gone);
	if (slash)
		*slash = '\0';
	return rename(dir, gone) ? err_errno(e, errno, "cannot rename %s", dir) : files_sync_dir(parent, e);
}

int pdb_remove(const char *dir, struct err *e)
{
	AUTOFREE char *gone = xasprintf("%s" PDB_GONE, dir);
	int rc = move_away(dir, e);
	if (!rc)
		files_remove_tree(gone);
	return rc;
}

int pdb_move_away(struct pdb *d, struct err *e)
{
	if (atomic_load(&d->moved))
		return 0;
	int rc = move_away(d->dir, e);
	if (rc && access(d->dir, F_OK) == 0)
		return rc;
	atomic_store(&d->moved, true); /* if it was renamed and not synced there is no way back */
	return 0;
}

int pdb_remove_marked(const char *dir, struct err *e)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	AUTOFREE char *gone = xasprintf("%s" PDB_GONE, dir);
	pthread_mutex_lock(&lock);
	bool marked = pdb_has_mark(dir, NULL);
	int rc = marked ? move_away(dir, e) : 0;
	pthread_mutex_unlock(&lock);
	if (marked && !rc)
		files_remove_tree(gone);
	return rc;
}

static void pdb_free(struct pdb *d)
{
	if (d->db)
		rocksdb_close(d->db);
	pthread_rwlock_destroy(&d->open_lock);
	pthread_mutex_destroy(&d->parts_lock);
	vec_free(&d->parts);
	if (d->options)
		rocksdb_options_destroy(d->options);
	if (d->small)
		rocksdb_options_destroy(d->small);
	if (d->read)
		rocksdb_readoptions_destroy(d->read);
	if (d->env)
		rocksdb_envoptions_destroy(d->env);
	struct err e;
	if (atomic_load(&d->moved)) {
		AUTOFREE char *gone = xasprintf("%s" PDB_GONE, d->dir);
		files_remove_tree(gone);
	} else if (atomic_load(&d->dropped) && pdb_remove_marked(d->dir, &e))
		LOG_WARN("msg", "a partition that is not needed stays on disk", "dir", d->dir, "err", e.msg);
	free(d->aside);
	free(d->dir);
	free(d);
}

void pdb_unref(struct pdb *d)
{
	if (d && atomic_fetch_sub(&d->refs, 1) == 1)
		pdb_free(d);
}

#define MARK "deleted"

int pdb_put_mark(struct pdb *d, uint64_t from, struct err *e)
{
	char text[64];
	snprintf(text, sizeof text, "pyrrha-deleted 2\nfrom %" PRIu64 "\n", from);
	return files_put(d->dir, MARK, view_of(text), e);
}

void pdb_remove_mark(const char *dir)
{
	AUTOFREE char *mark = xasprintf("%s/" MARK, dir);
	unlink(mark);
}

bool pdb_has_mark(const char *dir, uint64_t *ret_from)
{
	AUTOFREE char *mark = xasprintf("%s/" MARK, dir);
	uint64_t from = 0;
	FILE *f = fopen(mark, "re");
	if (!f)
		return access(mark, F_OK) == 0;
	if (fscanf(f, "pyrrha-deleted 2\nfrom %" SCNu64, &from) != 1)
		from = 0;
	fclose(f);
	if (ret_from)
		*ret_from = from;
	return true;
}

const char *pdb_dir(const struct pdb *d)
{
	return d->dir;
}

bool pdb_is_alone(const struct pdb *d, size_t n_parts)
{
	return atomic_load(&d->refs) == (int)n_parts + 1;
}

void pdb_drop(struct pdb *d)
{
	atomic_store(&d->dropped, true);
}

static struct part *part_of_file(struct pdb *d, const char *key)
{
	struct part *p = NEW(struct part);
	atomic_init(&p->refs, 1);
	p->db = pdb_ref(d);
	p->level = (uint8_t)key[0];
	p->window = part_key_word(key + 1);
	p->number = part_key_word(key + 5);
	part_know(p);
	return p;
}

static bool names(const struct part *p, uint32_t number)
{
	for (size_t i = 0; i < p->sums.n; i++)
		if (p->sums.v[i] == number)
			return true;
	return false;
}

/* A crash came between a part that was written anew, or made of several, and the end of the old one, or of one that the
 * old one had been written anew from. */
static bool is_superseded(const struct part *p, struct part *const *all, size_t n)
{
	for (size_t i = 0; i < n && p->level == LEVEL_HOUR; i++)
		if (all[i]->level == LEVEL_HOUR && all[i]->window == p->window && all[i]->number > p->number &&
		    (names(all[i], p->number) || names(all[i], p->origin)))
			return true;
	for (size_t i = 0; i < n; i++)
		if (all[i]->level == p->level && all[i]->window == p->window && all[i]->origin == p->origin &&
		    all[i]->number > p->number)
			return true;
	return false;
}

/* Of a part that cannot be read: a later one stands in its place, or it only summed others up. */
static bool is_replaced(const struct part *p, struct part *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i]->level == p->level && all[i]->window == p->window && all[i]->number > p->number &&
		    (all[i]->origin == p->number || (p->level == LEVEL_HOUR && names(all[i], p->number))))
			return true;
	return p->level != LEVEL_HOUR && p->level < LEVELS;
}

struct bad_part {
	struct part *p;
	char *file;
	struct err e;
};

/* The parts of a database that is being opened. */
struct listing {
	struct pdb *d;
	VEC(struct part *) parts;
	VEC(struct bad_part) bad;
	uint64_t lost;
};

/* Nothing of it can be read for now. It stays, empty, so that queries say that there was more. */
static void keep_empty(struct listing *l, struct bad_part *bad)
{
	struct part *p = bad->p;
	LOG_ERROR("msg", "a sealed part cannot be read, and not be written anew: its hour is missing", "file", bad->file, "window",
		  LOG_NUM(p->window), "part", LOG_NUM(p->number), "err", bad->e.msg);
	p->series.n = p->aggregates.n = p->sums.n = 0;
	p->first_record = p->last_record = p->samples = 0;
	p->origin = p->number;
	p->lost = 1;
	p->damaged = true;
	l->lost++;
	vec_push(&l->parts, p);
}

/* What can be read of it takes its place, unless nobody needs it. */
static void replace(struct listing *l, struct bad_part *bad)
{
	struct pdb *d = l->d;
	struct part *to;
	struct err why = bad->e;
	if (is_replaced(bad->p, l->parts.v, l->parts.n)) {
		LOG_WARN("msg", "a part that is not needed cannot be read", "file", bad->file, "level", LOG_NUM(bad->p->level), "window",
			 LOG_NUM(bad->p->window), "part", LOG_NUM(bad->p->number), "err", why.msg);
		part_retire(bad->p);
		part_unref(bad->p);
		return;
	}
	if (d->look_only || d->read_only || bad->p->level != LEVEL_HOUR || salvage_part(d, bad->file, bad->p, &to, &bad->e)) {
		keep_empty(l, bad);
		return;
	}
	LOG_ERROR("msg", "a sealed part is damaged: what can be read of it was written anew, the damaged file is kept aside", "file",
		  bad->file, "kept_in", d->aside ? d->aside : "", "window", LOG_NUM(to->window), "part", LOG_NUM(bad->p->number),
		  "lost_values", LOG_NUM(to->lost), "err", why.msg);
	l->lost += to->lost;
	vec_push(&l->parts, to);
	part_retire(bad->p);
	part_unref(bad->p);
}

/* A part is a file, its first key the header. They are found by the list of files and read by point look-ups: an
 * iterator that runs into a file that is gone ends early and says OK. */
static void list_files(struct listing *l)
{
	struct pdb *d = l->d;
	const rocksdb_livefiles_t *files = rocksdb_livefiles(d->db);
	for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
		struct err e = { 0 };
		size_t len;
		const char *key = rocksdb_livefiles_smallestkey(files, i, &len);
		if (len != KEY_LEN)
			continue;
		struct part *p = part_of_file(d, key);
		d->next_number = MAX(d->next_number, p->number + 1);
		p->bytes = rocksdb_livefiles_size(files, i);
		if (part_read_head(p, &e))
			vec_push(&l->bad, (struct bad_part){ p, xasprintf("%s%s", d->dir, rocksdb_livefiles_name(files, i)), e });
		else
			vec_push(&l->parts, p);
	}
	rocksdb_livefiles_destroy(files);
}

/* A file that could not be taken in when the list of files was made anew. */
static int list_kept(void *arg, const char *name, struct err *e)
{
	struct listing *l = arg;
	struct part found = { 0 };
	char key[KEY_LEN];
	(void)e;
	if (!view_ends(view_of(name), VIEW(".sst")))
		return 0;
	AUTOFREE char *file = xasprintf("%s/%s", l->d->aside, name);
	if (!salvage_identify(file, &found)) {
		LOG_ERROR("msg", "nothing of a file of a partition can be read: the hour in it is lost", "file", file);
		l->lost++;
		return 0;
	}
	part_make_key(key, found.level, found.window, found.number, PART_HEADER, 0, 0);
	l->d->next_number = MAX(l->d->next_number, found.number + 1);
	struct bad_part bad = { part_of_file(l->d, key), TAKE_PTR(file), { 0 } };
	err_set(&bad.e, ERR_CORRUPT, "it could not be taken in");
	vec_push(&l->bad, bad);
	return 0;
}

static void drop_superseded(struct listing *l)
{
	for (size_t i = 0; i < l->parts.n;)
		if (is_superseded(l->parts.v[i], l->parts.v, l->parts.n)) {
			part_retire(l->parts.v[i]);
			part_unref(l->parts.v[i]);
			l->parts.v[i] = l->parts.v[--l->parts.n];
		} else {
			i++;
		}
}

static void list_parts(struct pdb *d, struct part ***ret, size_t *ret_n, uint64_t *ret_lost)
{
	struct listing l = { .d = d };
	list_files(&l);
	if (d->rebuilt)
		files_each(d->aside, list_kept, &l, NULL);
	for (size_t i = 0; i < l.bad.n; i++) {
		struct bad_part *bad = &l.bad.v[i];
		if (!d->rebuilt && !part_read_head(bad->p, &bad->e)) /* it was only read wrong */
			vec_push(&l.parts, bad->p);
		else
			replace(&l, bad);
		free(bad->file);
	}
	vec_free(&l.bad);
	drop_superseded(&l);
	*ret = l.parts.v;
	*ret_n = l.parts.n;
	*ret_lost += l.lost;
}

static rocksdb_t *try_open(struct pdb *d, bool checks, bool read_only, struct err *e)
{
	char *error = NULL;
	rocksdb_options_set_paranoid_checks(d->options, checks);
	rocksdb_t *db = read_only ? rocksdb_open_for_read_only(d->options, d->dir, 0, &error)
				  : rocksdb_open(d->options, d->dir, &error);
	return rocks_err(&error, e, "cannot open the partition", d->dir) ? NULL : db;
}

/* RocksDB's own list of files (CURRENT, MANIFEST) is damaged or gone. */
static rocksdb_t *rebuild(struct pdb *d, struct err *e)
{
	LOG_WARN("msg", "a partition's list of files is damaged: it is made anew from the files", "dir", d->dir, "err", e->msg);
	if (rebuild_partition(d->dir, &d->aside, e))
		return NULL;
	d->rebuilt = d->aside != NULL;
	return try_open(d, true, false, e);
}

/* A damaged or missing file must not cost the others, nor a full disk the queries; and what fails only for a moment is
 * not bad. */
static rocksdb_t *open_db(struct pdb *d, struct err *e)
{
	if (d->look_only) {
		if (list_is_damaged(d->dir))
			LOG_WARN("msg", "a partition's list of files is damaged: what only its end names is not seen; the next start of the "
				 "server makes it anew", "dir", d->dir);
		d->read_only = true;
		return try_open(d, false, true, e);
	}
	if (list_is_gone(d->dir)) { /* it would begin anew, and remove the files that it does not know */
		err_set(e, ERR_CORRUPT, "it has no CURRENT");
		return rebuild(d, e);
	}
	rocksdb_t *db = try_open(d, true, false, e);
	for (int tries = 0; !db && tries < OPEN_TRIES; tries++) {
		LOG_WARN("msg", "a partition does not open as it should", "dir", d->dir, "err", e->msg);
		db = try_open(d, false, false, e);
		if (!db && (e->code == ERR_CORRUPT || strstr(e->msg, "No such file")) && tries + 1 == OPEN_TRIES)
			db = rebuild(d, e);
		if (!db && e->code != ERR_CORRUPT) {
			db = try_open(d, false, true, e);
			d->read_only = db != NULL;
		}
		if (!db && tries + 1 < OPEN_TRIES) {
			clock_sleep_ms(OPEN_WAIT_MS);
			db = try_open(d, true, false, e);
		}
	}
	if (db && d->read_only)
		LOG_WARN("msg", "a partition can be read and not be written: nothing is sealed into it until it can", "dir", d->dir);
	return db;
}

/* The first time: a list that is torn at its end, as a power loss leaves it, RocksDB would open without a word, and remove the
 * files that it no longer names. After a write that failed it may end so, too (pdb_reopen): then that is what there is. */
static rocksdb_t *open_first(struct pdb *d, struct err *e)
{
	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		if (d->look_only || !list_is_damaged(d->dir))
			return open_db(d, e);
		clock_sleep_ms(OPEN_WAIT_MS / 10); /* it may only have been read wrong */
	}
	err_set(e, ERR_CORRUPT, "the partition %s: its list of files is damaged", d->dir);
	rocksdb_t *db = rebuild(d, e);
	if (!db) {
		db = try_open(d, false, true, e);
		d->read_only = db != NULL;
	}
	return db;
}

bool pdb_read_only(const struct pdb *d)
{
	return atomic_load(&d->read_only);
}

int pdb_open(struct pdb **ret, const char *dir, rocksdb_cache_t *cache, bool look_only, struct part ***parts, size_t *n,
	     uint64_t *ret_lost, struct err *e)
{
	struct pdb *d = NEW(struct pdb);
	atomic_init(&d->refs, 1);
	pthread_rwlock_init(&d->open_lock, NULL);
	pthread_mutex_init(&d->parts_lock, NULL);
	d->dir = xstrdup(dir);
	d->look_only = look_only;
	d->options = rocks_options(cache);
	d->small = rocks_options_small();
	rocksdb_options_set_disable_auto_compactions(d->options, 1);
	rocksdb_options_set_write_buffer_size(d->options, 1 << 20);
	d->read = rocksdb_readoptions_create();
	d->env = rocksdb_envoptions_create();
	d->db = open_first(d, e);
	if (!d->db) {
		pdb_free(d);
		return -ERR_IO;
	}
	if (!look_only)
		files_remove_matching(dir, PDB_UNFINISHED);
	list_parts(d, parts, n, ret_lost);
	*ret = d;
	return 0;
}

void pdb_count_lost(struct pdb *d, atomic_ullong *count)
{
	d->count_lost = count;
}

static bool is_known(struct pdb *d, const char *key)
{
	bool known = false;
	pthread_mutex_lock(&d->parts_lock);
	for (size_t i = 0; i < d->parts.n && !known; i++) {
		const struct part *p = d->parts.v[i];
		known = p->level == (uint8_t)key[0] && p->window == part_key_word(key + 1) && p->number == part_key_word(key + 5);
	}
	pthread_mutex_unlock(&d->parts_lock);
	return known;
}

/* What a write that failed may have left in RocksDB's list. */
static void remove_unknown(struct pdb *d)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(d->db);
	for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
		size_t len;
		const char *key = rocksdb_livefiles_smallestkey(files, i, &len);
		if (len != KEY_LEN || is_known(d, key))
			continue;
		struct part *p = part_of_file(d, key);
		part_remove_file(p);
		part_unref(p);
	}
	rocksdb_livefiles_destroy(files);
}

int pdb_reopen(struct pdb *d, struct err *e)
{
	int tries = 0;
	while (pthread_rwlock_trywrlock(&d->open_lock)) {
		if (++tries == REOPEN_TRIES)
			return err_set(e, ERR_IO, "the partition %s takes no writes, and cannot be opened anew while it is read", d->dir);
		clock_sleep_ms(1);
	}
	if (d->db)
		rocksdb_close(d->db);
	atomic_store(&d->read_only, false);
	d->db = open_db(d, e);
	int rc = d->db ? 0 : -(int)e->code;
	if (!rc && atomic_load(&d->read_only))
		rc = err_set(e, ERR_IO, "the partition %s can be read and not be written", d->dir);
	if (!rc)
		remove_unknown(d);
	else
		atomic_store(&d->read_only, true);
	pthread_rwlock_unlock(&d->open_lock);
	return rc;
}

uint32_t pdb_next_number(const struct pdb *d)
{
	return d->next_number;
}

static uint64_t property(struct pdb *d, const char *name)
{
	uint64_t n = 0;
	if (pdb_enter(d, NULL))
		return 0;
	char *v = rocksdb_property_value(d->db, name);
	if (v) {
		n = strtoull(v, NULL, 10);
		rocksdb_free(v);
	}
	pdb_leave(d);
	return n;
}

uint64_t pdb_bytes(struct pdb *d)
{
	return property(d, "rocksdb.total-sst-files-size");
}

uint64_t pdb_table_memory(struct pdb *d)
{
	return property(d, "rocksdb.estimate-table-readers-mem");
}

int pdb_snapshot(struct pdb *d, const char *dir, struct err *e)
{
	int rc = pdb_enter(d, e);
	if (rc)
		return rc;
	rc = rocks_checkpoint(d->db, dir, e);
	pdb_leave(d);
	return rc;
}
