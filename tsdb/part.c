/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <dirent.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/dict_pack.h"
#include "tsdb/files.h"
#include "tsdb/list.h"

#define VALUE_VERSION 1
#define HEADER_VERSION 2 /* 1 had one kind of keys for all streams of detail */
#define INDEX_VERSION 2 /* 1 had no aggregates */
#define ROLLUP_VERSION 2 /* 1 had no bytes */
#define SYMBOLS_VERSION 2 /* 1 had rows */
#define PLACES_VERSION 2 /* of detail: of stream 0 that says where the places are; all else has 1 */
#define KEY_LEN 15
#define TRAILER 8
#define SMALL_VALUE 8192 /* bytes */
#define OPEN_TRIES 3
#define OPEN_WAIT_MS 100
#define REOPEN_TRIES 2000 /* of a millisecond each */

struct pdb {
	atomic_int refs;
	char *dir;
	rocksdb_t *db;
	rocksdb_options_t *options, *small; /* small: to write files of small values */
	rocksdb_readoptions_t *read;
	rocksdb_envoptions_t *env;
	atomic_bool dropped;  /* its directory goes */
	atomic_bool moved;    /* and is renamed already */
	pthread_mutex_t parts_lock;
	VEC(const struct part *) parts; /* that there are, retired ones too */
	atomic_uint next_file;
	uint64_t lost_files;  /* that could not be read when the list of files was made anew */
	uint32_t next_number; /* above all parts found, readable or not */
	bool look_only;       /* nothing may be written */
	atomic_bool read_only; /* it could not be opened for writing (its disk is full, say), or a write failed */
	pthread_rwlock_t open_lock; /* read: db stays as it is; written by pdb_reopen, after which it may be NULL */
};

/* ---- keys and values ---- */

static void make_key(char k[KEY_LEN], enum part_level level, uint32_t window, uint32_t part, enum part_kind kind,
		     uint32_t series, uint8_t stream)
{
	const uint32_t words[] = { window, part };
	k[0] = (char)level;
	for (int i = 0; i < 8; i++)
		k[1 + i] = (char)(words[i / 4] >> (24 - 8 * (i % 4)));
	k[9] = (char)kind;
	for (int i = 0; i < 4; i++)
		k[10 + i] = (char)(series >> (24 - 8 * i));
	k[14] = (char)stream;
}

/* The kind of a value's key. */
static enum part_kind key_kind(bool one_kind, enum part_kind kind, uint8_t stream)
{
	return kind != PART_DETAIL || one_kind || !stream ? kind : stream == 1 ? PART_DETAIL_1 : PART_DETAIL_2;
}

static uint32_t be32(const char *p)
{
	const uint8_t *b = (const uint8_t *)p;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint64_t be64(const char *p)
{
	return (uint64_t)be32(p) << 32 | be32(p + 4);
}

/* The newest that there is. */
static uint8_t version_of(enum part_kind kind)
{
	switch (kind) {
	case PART_HEADER: return HEADER_VERSION;
	case PART_SYMBOLS: return SYMBOLS_VERSION;
	case PART_INDEX: return INDEX_VERSION;
	case PART_ROLLUP: return ROLLUP_VERSION;
	case PART_DETAIL: return PLACES_VERSION;
	default: return VALUE_VERSION;
	}
}

static int open_value(const char *key, const char *v, size_t len, struct view *ret, struct err *e)
{
	if (len < 1 + TRAILER)
		return err_set(e, ERR_CORRUPT, "a value of a sealed part is %zu bytes short", 1 + TRAILER - len);
	if (be64(v + len - TRAILER) != hash_bytes_seed(v, len - TRAILER, hash_bytes(key, KEY_LEN)))
		return err_set(e, ERR_CORRUPT, "a value of a sealed part fails its checksum");
	uint8_t newest = version_of((enum part_kind)key[9]);
	if (!v[0] || (uint8_t)v[0] > newest)
		return err_set(e, ERR_CORRUPT, "a value of a sealed part has version %u, this program reads %u: use the newer one",
			       (uint8_t)v[0], newest);
	*ret = view_make(v + 1, len - 1 - TRAILER);
	return 0;
}

/* ---- staying open ---- */

static int enter(struct pdb *d, struct err *e)
{
	pthread_rwlock_rdlock(&d->open_lock);
	if (d->db)
		return 0;
	pthread_rwlock_unlock(&d->open_lock);
	return err_set(e, ERR_IO, "the partition %s is closed after an error", d->dir);
}

static void leave(struct pdb *d)
{
	pthread_rwlock_unlock(&d->open_lock);
}

/* ---- parts ---- */

static void know_part(const struct part *p)
{
	pthread_mutex_lock(&p->db->parts_lock);
	vec_push(&p->db->parts, p);
	pthread_mutex_unlock(&p->db->parts_lock);
}

static void forget_part(const struct part *p)
{
	struct pdb *d = p->db;
	pthread_mutex_lock(&d->parts_lock);
	for (size_t i = 0; i < d->parts.n; i++)
		if (d->parts.v[i] == p) {
			d->parts.v[i] = d->parts.v[--d->parts.n];
			break;
		}
	pthread_mutex_unlock(&d->parts_lock);
}

struct part *part_ref(struct part *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void part_retire(struct part *p)
{
	atomic_store(&p->retired, true);
}

/* A part is a file, so that its range of keys is; files that are only partly in the range would stay. With the database
 * held open. */
static void remove_file(const struct part *p)
{
	char from[KEY_LEN], to[KEY_LEN], *error = NULL;
	struct err e;
	make_key(from, p->level, p->window, p->number, PART_HEADER, 0, 0);
	make_key(to, p->level, p->window, p->number, (enum part_kind)0xff, UINT32_MAX, 0xff);
	rocksdb_delete_file_in_range(p->db->db, from, KEY_LEN, to, KEY_LEN, &error);
	if (rocks_err(&error, &e, "cannot remove a part of", p->db->dir))
		LOG_WARN("msg", "a part that is no longer needed stays on disk", "err", e.msg);
}

void part_unref(struct part *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	if (p->db && !p->db->look_only && !atomic_load(&p->db->read_only) && atomic_load(&p->retired) && !enter(p->db, NULL)) {
		remove_file(p);
		leave(p->db);
	}
	if (p->db)
		forget_part(p);
	pdb_unref(p->db);
	vec_free(&p->sums);
	vec_free(&p->series);
	vec_free(&p->aggregates);
	free(p);
}

const struct part_series *part_find(const struct part *p, uint32_t series)
{
	size_t a = 0, b = p->series.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (p->series.v[m].series < series)
			a = m + 1;
		else
			b = m;
	}
	return a < p->series.n && p->series.v[a].series == series ? &p->series.v[a] : NULL;
}

void part_put_header(struct buf *b, const struct part *p)
{
	buf_varint(b, p->first_record);
	buf_varint(b, p->last_record);
	buf_varint(b, p->samples);
	buf_varint(b, p->sums.n);
	for (size_t i = 0; i < p->sums.n; i++)
		buf_varint(b, p->sums.v[i]);
	buf_varint(b, p->origin);
}

static int get_header(struct part *p, struct view v, struct err *e)
{
	struct cursor c = cursor_of(v);
	p->first_record = cursor_varint(&c);
	p->last_record = cursor_varint(&c);
	p->samples = cursor_varint(&c);
	for (size_t n = cursor_count(&c); n && !c.bad; n--)
		vec_push(&p->sums, cursor_u32(&c));
	p->origin = c.bad || c.p == c.end ? p->number : cursor_u32(&c); /* older ones do not say */
	if (p->level != LEVEL_HOUR)
		p->origin = 0; /* of the rollups of one window the newest counts */
	return c.bad ? err_set(e, ERR_CORRUPT, "the header of a sealed part makes no sense") : 0;
}

void part_put_index(struct buf *b, const struct part *p)
{
	uint32_t next = 0;
	buf_varint(b, p->series.n);
	for (size_t i = 0; i < p->series.n; i++) {
		const struct part_series *s = &p->series.v[i];
		buf_varint(b, (uint64_t)(s->series - next) << 1 | s->is_float);
		next = s->series + 1;
		buf_varint(b, s->min_ms);
		buf_varint(b, s->max_ms - s->min_ms);
		buf_varint(b, s->aggregate);
	}
	buf_varint(b, p->aggregates.n);
}

/* Counts the members of the aggregates, of which there are n. */
static bool count_members(struct part *p, size_t n)
{
	if (n > p->series.n)
		return false;
	vec_reserve(&p->aggregates, n);
	for (size_t i = 0; i < n; i++)
		vec_push(&p->aggregates, 0);
	for (size_t i = 0; i < p->series.n; i++) {
		if (p->series.v[i].aggregate > n)
			return false;
		if (p->series.v[i].aggregate)
			p->aggregates.v[p->series.v[i].aggregate - 1]++;
	}
	return true;
}

static int get_index(struct part *p, struct view v, uint8_t version, struct err *e)
{
	struct cursor c = cursor_of(v);
	size_t n = cursor_count(&c);
	uint64_t next = 0;
	vec_reserve(&p->series, n);
	for (size_t i = 0; i < n && !c.bad; i++) {
		uint64_t x = cursor_varint(&c), id = next + (x >> 1);
		struct part_series s = { .series = (uint32_t)id, .is_float = x & 1, .min_ms = cursor_u32(&c) };
		s.max_ms = s.min_ms + cursor_u32(&c);
		s.aggregate = version > 1 ? cursor_u32(&c) : 0;
		c.bad |= id > UINT32_MAX - 1;
		next = id + 1;
		vec_push(&p->series, s);
	}
	if (version > 1)
		c.bad |= !count_members(p, cursor_varint(&c));
	return c.bad ? err_set(e, ERR_CORRUPT, "the index of a sealed part makes no sense") : 0;
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
	} else if (atomic_load(&d->dropped) && pdb_remove(d->dir, &e))
		LOG_WARN("msg", "a partition that is not needed stays on disk", "dir", d->dir, "err", e.msg);
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

static int part_load(struct part *p, struct view header, struct err *e)
{
	PART_VALUE index = { 0 };
	int rc = get_header(p, header, e);
	if (!rc)
		rc = part_get(p, PART_INDEX, 0, 0, &index, e);
	return rc ? rc : get_index(p, index.payload, index.version, e);
}

static struct part *part_of_file(struct pdb *d, const char *key)
{
	struct part *p = NEW(struct part);
	atomic_init(&p->refs, 1);
	p->db = pdb_ref(d);
	p->level = (uint8_t)key[0];
	p->window = be32(key + 1);
	p->number = be32(key + 5);
	know_part(p);
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
		if (all[i]->level == p->level && all[i]->window == p->window && all[i]->origin == p->number &&
		    all[i]->number > p->number)
			return true;
	return p->level != LEVEL_HOUR && p->level < LEVELS;
}

static int read_part(struct part *p, struct err *e)
{
	int rc = 0;
	if (p->level >= LEVELS)
		return err_set(e, ERR_CORRUPT, "its level %d is unknown", p->level);
	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		PART_VALUE header = { 0 };
		p->sums.n = p->series.n = p->aggregates.n = 0;
		rc = part_get(p, PART_HEADER, 0, 0, &header, e);
		p->one_kind = header.version < HEADER_VERSION;
		if (!rc)
			rc = part_load(p, header.payload, e);
		if (rc != -ERR_IO) /* what fails only for a moment is not lost */
			break;
		clock_sleep_ms(OPEN_WAIT_MS / 10);
	}
	return rc;
}

struct bad_part {
	struct part *p;
	struct err e;
};

/* What cannot be read is lost, unless nobody needs it: then it goes. */
static void give_up(struct pdb *d, struct bad_part *bad, struct part *const *all, size_t n, uint64_t *ret_lost)
{
	bool needed = !is_replaced(bad->p, all, n);
	LOG_WARN("msg", needed ? "a sealed part cannot be read: its hour is lost" : "a part that is not needed cannot be read", "dir",
		 d->dir, "level", LOG_NUM(bad->p->level), "window", LOG_NUM(bad->p->window), "part", LOG_NUM(bad->p->number), "err",
		 bad->e.msg);
	*ret_lost += needed;
	if (!needed)
		part_retire(bad->p);
	part_unref(bad->p);
}

/* A part is a file, its first key the header. They are found by the list of files and read by point look-ups: an
 * iterator that runs into a file that is gone ends early and says OK. */
static void list_parts(struct pdb *d, struct part ***ret, size_t *ret_n, uint64_t *ret_lost)
{
	VEC(struct part *) parts = { 0 };
	VEC(struct bad_part) bad = { 0 };
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
		if (read_part(p, &e))
			vec_push(&bad, (struct bad_part){ p, e });
		else
			vec_push(&parts, p);
	}
	rocksdb_livefiles_destroy(files);
	for (size_t i = 0; i < bad.n; i++)
		give_up(d, &bad.v[i], parts.v, parts.n, ret_lost);
	vec_free(&bad);
	for (size_t i = 0; i < parts.n;)
		if (is_superseded(parts.v[i], parts.v, parts.n)) {
			part_retire(parts.v[i]);
			part_unref(parts.v[i]);
			parts.v[i] = parts.v[--parts.n];
		} else {
			i++;
		}
	*ret = parts.v;
	*ret_n = parts.n;
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
	return rebuild_partition(d->dir, &d->lost_files, e) ? NULL : try_open(d, true, false, e);
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
	*ret_lost += d->lost_files;
	*ret = d;
	return 0;
}

static bool is_known(struct pdb *d, const char *key)
{
	bool known = false;
	pthread_mutex_lock(&d->parts_lock);
	for (size_t i = 0; i < d->parts.n && !known; i++) {
		const struct part *p = d->parts.v[i];
		known = p->level == (uint8_t)key[0] && p->window == be32(key + 1) && p->number == be32(key + 5);
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
		remove_file(p);
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
	if (enter(d, NULL))
		return 0;
	char *v = rocksdb_property_value(d->db, name);
	if (v) {
		n = strtoull(v, NULL, 10);
		rocksdb_free(v);
	}
	leave(d);
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
	int rc = enter(d, e);
	if (rc)
		return rc;
	rc = rocks_checkpoint(d->db, dir, e);
	leave(d);
	return rc;
}

/* ---- reading ---- */

_Thread_local struct read_tally read_tally;

int part_get(const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream, struct part_value *ret,
	     struct err *e)
{
	char key[KEY_LEN], *error = NULL;
	size_t len;
	make_key(key, p->level, p->window, p->number, key_kind(p->one_kind, kind, stream), series, stream);
	int rc = enter(p->db, e);
	if (rc)
		return rc;
	ret->db = p->db;
	ret->pin = rocksdb_get_pinned(p->db->db, p->db->read, key, KEY_LEN, &error);
	rc = rocks_err(&error, e, "cannot read the partition", p->db->dir);
	const char *v = ret->pin ? rocksdb_pinnableslice_value(ret->pin, &len) : NULL;
	if (!rc && !v)
		rc = err_set(e, ERR_NOT_FOUND, "a sealed part has no such value");
	if (!v) {
		leave(p->db);
		ret->db = NULL;
		return rc;
	}
	read_tally_add(len);
	rc = open_value(key, v, len, &ret->payload, e);
	ret->version = rc ? 0 : (uint8_t)v[0];
	return rc ? err_wrap(e, "%s, window %u, part %u", p->db->dir, p->window, p->number) : 0;
}

int part_get_symbols(const struct part *p, struct buf *rows, struct err *e)
{
	PART_VALUE v = { 0 };
	int rc = part_get(p, PART_SYMBOLS, 0, 0, &v, e);
	if (rc)
		return rc;
	if (v.version >= SYMBOLS_VERSION)
		return dict_unpack(rows, v.payload, e);
	buf_putv(rows, v.payload);
	return 0;
}

void part_value_release(struct part_value *v)
{
	if (v->pin)
		rocksdb_pinnableslice_destroy(v->pin);
	if (v->db)
		leave(v->db);
	v->pin = NULL;
	v->db = NULL;
}

/* Whether the iterator stands at key, after a few steps or a seek. */
static bool reader_find(struct part_reader *r, const char *key)
{
	size_t len;
	for (int steps = 0; r->it && rocksdb_iter_valid(r->it) && steps < 4; steps++) {
		const char *at = rocksdb_iter_key(r->it, &len);
		int cmp = len == KEY_LEN ? memcmp(at, key, KEY_LEN) : 1;
		if (cmp > 0)
			break;
		if (cmp == 0)
			return true;
		rocksdb_iter_next(r->it);
	}
	rocksdb_iter_seek(r->it, key, KEY_LEN);
	if (!rocksdb_iter_valid(r->it))
		return false;
	const char *at = rocksdb_iter_key(r->it, &len);
	return len == KEY_LEN && memcmp(at, key, KEY_LEN) == 0;
}

/* An iterator that met a bad file says that it has ended: then, and when there is no such value, a point look-up has the
 * last word. */
static int reader_error(const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream, struct err *e)
{
	PART_VALUE v = { 0 };
	int rc = part_get(p, kind, series, stream, &v, e);
	return rc ? rc : err_set(e, ERR_CORRUPT, "%s, window %u, part %u: cannot be read in order", p->db->dir, p->window, p->number);
}

int part_reader_get(struct part_reader *r, const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream,
		    struct view *ret, struct err *e)
{
	char key[KEY_LEN];
	size_t len;
	if (r->db != p->db) {
		part_reader_release(r);
		int closed = enter(p->db, e);
		if (closed)
			return closed;
		r->db = p->db;
		r->it = rocksdb_create_iterator(p->db->db, p->db->read);
	}
	make_key(key, p->level, p->window, p->number, key_kind(p->one_kind, kind, stream), series, stream);
	if (!reader_find(r, key))
		return reader_error(p, kind, series, stream, e);
	const char *v = rocksdb_iter_value(r->it, &len);
	read_tally_add(len);
	int rc = open_value(key, v, len, ret, e);
	r->version = rc ? 0 : (uint8_t)v[0];
	return rc ? err_wrap(e, "%s, window %u, part %u", p->db->dir, p->window, p->number) : 0;
}

void part_reader_release(struct part_reader *r)
{
	if (r->it)
		rocksdb_iter_destroy(r->it);
	if (r->db)
		leave(r->db);
	r->it = NULL;
	r->db = NULL;
}

/* ---- writing ---- */

struct part_writer {
	struct pdb *d;
	enum part_level level;
	uint32_t window, number;
	rocksdb_sstfilewriter_t *w;
	char *file;
	struct buf value;
	char last[KEY_LEN];
};

int part_writer_new(struct part_writer **ret, struct pdb *d, enum part_level level, uint32_t window, uint32_t number,
		    uint64_t n_bytes, uint64_t n_values, struct err *e)
{
	struct part_writer *w = NEW(struct part_writer);
	char *error = NULL;
	if (d->read_only) {
		free(w);
		return err_set(e, ERR_IO, "the partition %s can only be read", d->dir);
	}
	w->d = d;
	w->level = level;
	w->window = window;
	w->number = number;
	w->file = xasprintf("%s/%u-%u-%u-%u" PDB_UNFINISHED, d->dir, level, window, number, atomic_fetch_add(&d->next_file, 1));
	w->w = rocksdb_sstfilewriter_create(d->env, n_bytes / SMALL_VALUE < n_values ? d->small : d->options);
	rocksdb_sstfilewriter_open(w->w, w->file, &error);
	int rc = rocks_err(&error, e, "cannot write", w->file);
	if (rc) {
		part_writer_abort(w);
		return rc;
	}
	*ret = w;
	return 0;
}

static void writer_free(struct part_writer *w)
{
	rocksdb_sstfilewriter_destroy(w->w);
	buf_free(&w->value);
	free(w->file);
	free(w);
}

void part_writer_abort(struct part_writer *w)
{
	unlink(w->file);
	writer_free(w);
}

static int put_value(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, uint8_t version,
		     struct view payload, struct err *e)
{
	char key[KEY_LEN], *error = NULL;
	make_key(key, w->level, w->window, w->number, key_kind(false, kind, stream), series, stream);
	buf_reset(&w->value);
	buf_putc(&w->value, (char)version);
	buf_putv(&w->value, payload);
	buf_be64(&w->value, hash_bytes_seed(w->value.ptr, w->value.len, hash_bytes(key, KEY_LEN)));
	if (w->value.overflow)
		return err_set(e, ERR_LIMIT, "a value of a part is over %zu bytes", BUF_DEFAULT_MAX);
	memcpy(w->last, key, KEY_LEN);
	rocksdb_sstfilewriter_put(w->w, key, KEY_LEN, w->value.ptr, w->value.len, &error);
	return rocks_err(&error, e, "cannot write", w->file);
}

int part_put(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, struct view payload, struct err *e)
{
	return put_value(w, kind, series, stream, kind == PART_DETAIL ? VALUE_VERSION : version_of(kind), payload, e);
}

int part_put_places(struct part_writer *w, uint32_t series, uint32_t of, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_varint(&b, of);
	return put_value(w, PART_DETAIL, series, 0, PLACES_VERSION, buf_view(&b), e);
}

bool part_places_of(uint8_t version, struct view stream, uint32_t *series)
{
	struct cursor c = cursor_of(stream);
	if (version == PLACES_VERSION)
		*series = cursor_u32(&c);
	return !c.bad && (version < PLACES_VERSION || c.p == c.end);
}

int part_put_symbols(struct part_writer *w, struct view rows, struct err *e)
{
	struct buf packed = { 0 };
	int rc = dict_pack(&packed, rows, e);
	if (!rc)
		rc = part_put(w, PART_SYMBOLS, 0, 0, buf_view(&packed), e);
	buf_free(&packed);
	return rc;
}

static int ingest(struct part_writer *w, struct err *e)
{
	char *error = NULL;
	const char *files[] = { w->file };
	rocksdb_ingestexternalfileoptions_t *o = rocksdb_ingestexternalfileoptions_create();
	rocksdb_ingestexternalfileoptions_set_move_files(o, 1);
	/* Or an ingested file is rewritten for its number. */
	rocksdb_ingestexternalfileoptions_set_allow_global_seqno(o, 0);
	rocksdb_ingestexternalfileoptions_set_snapshot_consistency(o, 0);
	rocksdb_ingest_external_file(w->d->db, files, 1, o, &error);
	rocksdb_ingestexternalfileoptions_destroy(o);
	return rocks_err(&error, e, "cannot ingest", w->file);
}

/* RocksDB does not look whether it could read the file when it asks it for its first and last key: then it ends the process,
 * or files it under the wrong keys, so that its values are not found. So the file is read before, and its last value after. */
static int can_be_read(const char *file, struct err *e)
{
	size_t len = 1 << 18;
	AUTOFREE char *to = xmalloc(len);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 1;
	while (n > 0)
		n = read(fd, to, len);
	int rc = n < 0 ? err_errno(e, errno, "cannot read %s, which was just written", file) : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

static int has_last(struct part_writer *w, struct err *e)
{
	char *error = NULL;
	rocksdb_pinnableslice_t *v = rocksdb_get_pinned(w->d->db, w->d->read, w->last, KEY_LEN, &error);
	int rc = rocks_err(&error, e, "cannot read back", w->file);
	if (!rc && !v)
		rc = err_set(e, ERR_IO, "%s was taken in and its last value is not found", w->file);
	if (v)
		rocksdb_pinnableslice_destroy(v);
	return rc;
}

int part_writer_finish(struct part_writer *w, struct part *p, struct err *e)
{
	char *error = NULL;
	rocksdb_sstfilewriter_finish(w->w, &error);
	int rc = rocks_err(&error, e, "cannot finish", w->file);
	if (!rc) {
		rocksdb_sstfilewriter_file_size(w->w, &p->bytes);
		rc = can_be_read(w->file, e);
	}
	if (!rc)
		rc = ingest(w, e);
	if (!rc)
		rc = has_last(w, e);
	if (rc) {
		/* RocksDB may take no more writes now, and does not say; and the file may be in its list or not. */
		atomic_store(&w->d->read_only, true);
		part_writer_abort(w);
		return rc;
	}
	p->db = pdb_ref(w->d);
	p->one_kind = false;
	know_part(p);
	unlink(w->file); /* moved: a leftover link at most */
	writer_free(w);
	return 0;
}
