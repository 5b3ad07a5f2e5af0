/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a database that is being opened: they come from its list of files, and each is read, or rewritten from its readable
 * values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/num.h"
#include "tsdb/part/part_private.h"
#include "tsdb/part/salvage.h"

#define REOPEN_WAIT_MS 2000

static struct part *part_of_file(struct partition_db *d, const char *key)
{
	struct part *p = NEW(struct part);
	atomic_init(&p->refs, 1);
	p->db = partition_db_ref(d);
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

/* A crash came between the new part (a rewritten one, or several combined) and the removal of the old one, or of one that the old one
 * had been rewritten from. */
bool part_is_superseded(const struct part *p, struct part *const *all, size_t n)
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

/* For an unreadable part: a later one replaces it, or it only summed others up. */
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
	struct partition_db *d;
	VEC(struct part *) parts;
	VEC(struct bad_part) bad;
	uint64_t lost;
};

/* Nothing of it can be read for now. It stays, empty, so that queries say that there was more. */
static void keep_empty(struct listing *l, struct bad_part *bad)
{
	struct part *p = bad->p;
	LOG_ERROR("msg", "a sealed part can neither be read nor rewritten: its hour is missing", "file", bad->file, "window",
		  LOG_NUM(p->window), "part", LOG_NUM(p->number), "err", bad->e.msg);
	p->series.n = p->aggregates.n = p->sums.n = 0;
	p->first_record = p->last_record = p->samples = 0;
	p->origin = p->number;
	p->lost = 1;
	p->damaged = true;
	l->lost++;
	vec_push(&l->parts, p);
}

/* The bucket has a copy of the part. */
static bool list_awaits(struct listing *l, struct bad_part *bad)
{
	struct partition_db *d = l->d;
	struct part *p = bad->p;
	if (p->level != LEVEL_HOUR || d->look_only || !d->keeper || !d->keeper->keeps || !d->keeper->keeps(d->keeper->arg, p))
		return false;
	LOG_ERROR("msg", "a sealed part is damaged here, and whole in the bucket: it is fetched from there", "file", bad->file, "window", LOG_NUM(p->window),
		  "part", LOG_NUM(p->number), "err", bad->e.msg);
	p->series.n = p->aggregates.n = p->sums.n = 0;
	p->first_record = p->last_record = p->samples = 0;
	p->origin = p->number;
	p->lost = 1;
	p->damaged = true;
	atomic_store(&p->awaits, true);
	vec_push(&l->parts, p);
	return true;
}

/* A part of its readable values replaces it, unless it is not needed. */
static void replace(struct listing *l, struct bad_part *bad)
{
	struct partition_db *d = l->d;
	struct part *to;
	struct err why = bad->e;
	if (is_replaced(bad->p, l->parts.v, l->parts.n)) {
		LOG_WARN("msg", "a part that is not needed cannot be read", "file", bad->file, "level", LOG_NUM(bad->p->level), "window",
			 LOG_NUM(bad->p->window), "part", LOG_NUM(bad->p->number), "err", why.msg);
		part_retire(bad->p);
		part_unref(bad->p);
		return;
	}
	if (list_awaits(l, bad))
		return;
	if (d->look_only || d->read_only || bad->p->level != LEVEL_HOUR || salvage_part(d, bad->file, bad->p, &to, &bad->e)) {
		keep_empty(l, bad);
		return;
	}
	LOG_ERROR("msg", "a sealed part is damaged: its readable values were rewritten, the damaged file is kept aside", "file",
		  bad->file, "kept_in", d->aside ? d->aside : "", "window", LOG_NUM(to->window), "part", LOG_NUM(bad->p->number),
		  "lost_values", LOG_NUM(to->lost), "err", why.msg);
	l->lost += to->lost;
	vec_push(&l->parts, to);
	part_retire(bad->p);
	part_unref(bad->p);
}

/* A part is a file, its first key the header. They are found by the list of files and read by point look-ups: an iterator that reaches
 * a deleted file ends early without an error. */
static void list_files(struct listing *l)
{
	struct partition_db *d = l->d;
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

/* A file that could not be ingested when the list of files was rebuilt. */
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

static bool list_has(const struct listing *l, const struct part *p)
{
	for (size_t i = 0; i < l->parts.n; i++)
		if (l->parts.v[i]->level == p->level && l->parts.v[i]->window == p->window && l->parts.v[i]->number == p->number)
			return true;
	for (size_t i = 0; i < l->bad.n; i++)
		if (l->bad.v[i].p->level == p->level && l->bad.v[i].p->window == p->window && l->bad.v[i].p->number == p->number)
			return true;
	return false;
}

/* A file that was set aside (part_ingest.c). After a crash it may be here although the part has a file again. */
static int list_aside(void *arg, const char *name, struct err *e)
{
	struct listing *l = arg;
	struct part same = { .db = l->d, .level = LEVEL_HOUR };
	struct view rest = view_of(name);
	uint64_t level, window, number;
	char key[KEY_LEN];
	(void)e;
	if (!view_ends(rest, VIEW(PARTITION_DB_ASIDE)))
		return 0;
	rest.len -= strlen(PARTITION_DB_ASIDE);
	if (!num_parse_u64(view_cut(&rest, '-'), &level) || !num_parse_u64(view_cut(&rest, '-'), &window) || !num_parse_u64(rest, &number) ||
	    level != LEVEL_HOUR || window > UINT32_MAX || number >= UINT32_MAX)
		return 0;
	same.window = (uint32_t)window;
	same.number = (uint32_t)number;
	AUTOFREE char *file = part_aside(&same);
	if (list_has(l, &same)) {
		if (!l->d->look_only)
			unlink(file);
		return 0;
	}
	part_make_key(key, same.level, same.window, same.number, PART_HEADER, 0, 0);
	l->d->next_number = MAX(l->d->next_number, same.number + 1);
	struct bad_part bad = { part_of_file(l->d, key), TAKE_PTR(file), { 0 } };
	err_set(&bad.e, ERR_CORRUPT, "it was set aside as damaged");
	vec_push(&l->bad, bad);
	return 0;
}

static void drop_superseded(struct listing *l)
{
	for (size_t i = 0; i < l->parts.n;)
		if (part_is_superseded(l->parts.v[i], l->parts.v, l->parts.n)) {
			part_retire(l->parts.v[i]);
			part_unref(l->parts.v[i]);
			l->parts.v[i] = l->parts.v[--l->parts.n];
		} else {
			i++;
		}
}

/* The file is written when the database is made, and does not change. */
static void read_identity(struct partition_db *d)
{
	AUTOFREE char *path = xasprintf("%s/IDENTITY", d->dir);
	CLEANUP(buf_free) struct buf b = { .max = sizeof d->identity };
	if (!buf_read_file(&b, path, NULL) && b.len)
		snprintf(d->identity, sizeof d->identity, "%.*s", (int)strcspn(b.ptr, "\n"), b.ptr);
	AUTOFREE char *was = xasprintf("%s/" PARTITION_DB_WAS, d->dir);
	CLEANUP(buf_free) struct buf lines = { .max = 65536 };
	if (!buf_read_file(&lines, was, NULL) && lines.len)
		d->was = xstrndup(lines.ptr, lines.len);
}

bool partition_db_is_of(const struct partition_db *d, const char *identity)
{
	size_t len = strlen(identity);
	if (!len || !strcmp(d->identity, identity))
		return len;
	for (const char *line = d->was; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (!strncmp(line, identity, len) && line[len] == '\n')
			return true;
	return false;
}

static void list_parts(struct partition_db *d, struct part ***ret, size_t *ret_n, uint64_t *ret_lost)
{
	struct listing l = { .d = d };
	list_files(&l);
	IGNORE(files_each(d->dir, list_aside, &l, NULL));
	if (d->repaired)
		IGNORE(files_each(d->aside, list_kept, &l, NULL)); /* what is damaged stays out of answers all the same */
	for (size_t i = 0; i < l.bad.n; i++) {
		struct bad_part *bad = &l.bad.v[i];
		if (!d->repaired && !part_read_head(bad->p, &bad->e)) /* it was only read wrong */
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

static struct partition_db *list_db_new(const char *dir, rocksdb_cache_t *cache, bool look_only)
{
	struct partition_db *d = NEW(struct partition_db);
	atomic_init(&d->refs, 1);
	rwlock_init_gate(&d->open_lock, LOCK_ANY, "partition open");
	mutex_init(&d->parts_lock, RANK_TSDB_PARTS, "parts");
	d->dir = xstrdup(dir);
	d->look_only = look_only;
	d->options = rocks_options(cache);
	d->small = rocks_options_small();
	rocksdb_options_set_disable_auto_compactions(d->options, 1);
	rocksdb_options_set_write_buffer_size(d->options, 1 << 20);
	d->read = rocksdb_readoptions_create();
	d->env = rocksdb_envoptions_create();
	return d;
}

struct partition_db *partition_db_new_bare(const char *dir, rocksdb_cache_t *cache)
{
	return list_db_new(dir, cache, true);
}

int part_make(struct part **ret, struct partition_db *d, enum part_level level, uint32_t window, uint32_t number, struct view header,
	      struct view index, bool one_kind, struct part_lack *lack, struct err *e)
{
	struct part *p = NEW(struct part);
	atomic_init(&p->refs, 1);
	p->db = partition_db_ref(d);
	p->lack = lack;
	p->level = level;
	p->window = window;
	p->number = number;
	p->one_kind = one_kind;
	part_know(p);
	int rc = level >= LEVELS ? err_set(e, ERR_CORRUPT, "its level %d is unknown", level) : part_parse_header(p, header, e);
	if (!rc)
		rc = part_parse_index(p, index, INDEX_VERSION, e);
	if (rc)
		part_unref(p);
	else
		*ret = p;
	return rc;
}

int partition_db_open(struct partition_db **ret, const char *dir, rocksdb_cache_t *cache, bool look_only, const struct part_keeper *keeper,
		      struct part ***parts, size_t *n, uint64_t *ret_lost, struct err *e)
{
	struct partition_db *d = list_db_new(dir, cache, look_only);
	d->db = partition_db_open_first(d, e);
	if (!d->db) {
		partition_db_free(d);
		return -ERR_IO;
	}
	if (!look_only)
		files_remove_matching(dir, PARTITION_DB_UNFINISHED);
	read_identity(d);
	d->keeper = keeper;
	list_parts(d, parts, n, ret_lost);
	d->keeper = NULL;
	*ret = d;
	return 0;
}

/* ---- files ---- */

int partition_db_each_file(struct partition_db *d, int (*fn)(void *arg, const struct partition_file *f, struct err *e), void *arg, struct err *e)
{
	int rc = partition_db_enter(d, e);
	if (rc)
		return rc;
	const rocksdb_livefiles_t *files = rocksdb_livefiles(d->db);
	for (int i = 0; i < rocksdb_livefiles_count(files) && !rc; i++) {
		size_t len;
		const char *key = rocksdb_livefiles_smallestkey(files, i, &len), *name = rocksdb_livefiles_name(files, i);
		if (len != KEY_LEN || !name)
			continue;
		struct partition_file f = { (enum part_level)key[0], part_key_word(key + 1), part_key_word(key + 5),
					    strtoull(*name == '/' ? name + 1 : name, NULL, 10), rocksdb_livefiles_size(files, i) };
		rc = fn(arg, &f, e);
	}
	rocksdb_livefiles_destroy(files);
	partition_db_leave(d);
	return rc;
}

int partition_db_identity(struct partition_db *d, char *ret, size_t len, struct err *e)
{
	if (!d->identity[0])
		return err_set(e, ERR_CORRUPT, "%s/IDENTITY cannot be read", d->dir);
	snprintf(ret, len, "%s", d->identity);
	return 0;
}

/* ---- opening it again ---- */

static bool is_known(struct partition_db *d, const char *key)
{
	bool known = false;
	mutex_lock(&d->parts_lock);
	for (size_t i = 0; i < d->parts.n && !known; i++) {
		const struct part *p = d->parts.v[i];
		known = p->level == (uint8_t)key[0] && p->window == part_key_word(key + 1) && p->number == part_key_word(key + 5);
	}
	mutex_unlock(&d->parts_lock);
	return known;
}

/* Remains of a failed write in RocksDB's list. */
static void remove_unknown(struct partition_db *d)
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

int partition_db_reopen(struct partition_db *d, struct err *e)
{
	if (!rwlock_write_within(&d->open_lock, REOPEN_WAIT_MS))
		return err_set(e, ERR_IO, "the partition %s takes no writes, and cannot be reopened while it is read", d->dir);
	if (d->db)
		rocksdb_close(d->db);
	atomic_store(&d->read_only, false);
	d->db = partition_db_open_rocks(d, e);
	int rc = d->db ? 0 : -(int)e->code;
	if (!rc && atomic_load(&d->read_only))
		rc = err_set(e, ERR_IO, "the partition %s can be read and not be written", d->dir);
	if (!rc)
		remove_unknown(d);
	else
		atomic_store(&d->read_only, true);
	rwlock_unlock(&d->open_lock);
	return rc;
}
