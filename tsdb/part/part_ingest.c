/* SPDX-License-Identifier: Apache-2.0 */
/* Taking in the file of a part. RocksDB reads the beginning of the file behind it, by key, to see that the two do not overlap. While that one is
 * damaged, nothing can be taken in before it: no seal of late rows, no rewrite. So the damaged file leaves RocksDB's list:
 *
 *	of a part of an hour ──► it is DAY/LEVEL-WINDOW-NUMBER.aside. The part stays in the version, its values count as damaged. The bucket's copy takes
 *	                         its place (part_put_back), or the next start rewrites its readable values (part_list.c)
 *	of a rollup ──────────► it goes, and the rollup is made anew
 *	of no known part ─────► it goes: a remainder of a failed write
 *
 * Under seal_lock, or before threads. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part_private.h"

#define INGEST_TRIES 2      /* if the file behind can be read now */
#define INGEST_WAIT_MS 1000 /* before a failure of the disk is believed */

static int ingest_once(struct partition_db *d, const char *file, struct err *e)
{
	char *error = NULL;
	const char *files[] = { file };
	rocksdb_ingestexternalfileoptions_t *o = rocksdb_ingestexternalfileoptions_create();
	rocksdb_ingestexternalfileoptions_set_move_files(o, 1);
	/* Or an ingested file is rewritten for its number. */
	rocksdb_ingestexternalfileoptions_set_allow_global_seqno(o, 0);
	rocksdb_ingestexternalfileoptions_set_snapshot_consistency(o, 0);
	rocksdb_ingest_external_file(d->db, files, 1, o, &error);
	rocksdb_ingestexternalfileoptions_destroy(o);
	return rocks_err(&error, e, "cannot ingest", file);
}

/* ---- the file behind ---- */

struct ingest_behind {
	char *path;
	char first[KEY_LEN]; /* its smallest key */
};

static bool ingest_find_behind(struct partition_db *d, const char *key, struct ingest_behind *ret)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(d->db);
	for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
		size_t len;
		const char *first = rocksdb_livefiles_smallestkey(files, i, &len);
		if (len != KEY_LEN || memcmp(first, key, KEY_LEN) < 0 || (ret->path && memcmp(first, ret->first, KEY_LEN) > 0))
			continue;
		free(ret->path);
		ret->path = xasprintf("%s%s", d->dir, rocksdb_livefiles_name(files, i));
		memcpy(ret->first, first, KEY_LEN);
	}
	rocksdb_livefiles_destroy(files);
	return ret->path;
}

static bool ingest_try_behind(struct partition_db *d, const struct ingest_behind *b, struct err *why)
{
	char *error = NULL;
	rocksdb_pinnableslice_t *v = rocksdb_get_pinned(d->db, d->read, b->first, KEY_LEN, &error);
	if (v)
		rocksdb_pinnableslice_destroy(v);
	return rocks_err(&error, why, "cannot read", b->path) && damage_is(why);
}

/* Whether the disk failed to read what is there. */
static bool ingest_disk_fails(const struct err *why)
{
	return why->code == ERR_IO && !strstr(why->msg, "No such file");
}

/* Whether its beginning is damaged or missing; *why says how. A failure of the disk may be short. */
static bool ingest_behind_is_damaged(struct partition_db *d, const struct ingest_behind *b, struct err *why)
{
	bool damaged = ingest_try_behind(d, b, why);
	if (!damaged || !ingest_disk_fails(why))
		return damaged;
	clock_sleep_ms(INGEST_WAIT_MS);
	return ingest_try_behind(d, b, why);
}

struct ingest_parts {
	VEC(struct part *) v; /* with references */
	bool stay;            /* there is one, though it may have no reference left */
};

/* The parts of a file that no other part replaces. A query may still have the one from before part_put_back. */
static void ingest_find_parts(struct partition_db *d, const char *key, struct ingest_parts *ret)
{
	mutex_lock(&d->parts_lock);
	for (size_t i = 0; i < d->parts.n; i++) {
		struct part *p = d->parts.v[i];
		if (p->level != (uint8_t)key[0] || p->window != part_key_word(key + 1) || p->number != part_key_word(key + 5) || atomic_load(&p->retired))
			continue;
		ret->stay = true;
		int refs = atomic_load(&p->refs);
		while (refs && !atomic_compare_exchange_weak(&p->refs, &refs, refs + 1))
			;
		if (refs)
			vec_push(&ret->v, p);
	}
	mutex_unlock(&d->parts_lock);
}

/* For a file that is missing an empty one is made, unless an earlier one was set aside: from it the next start knows that there was a part. */
static int ingest_keep(const struct part *p, const char *path, struct err *e)
{
	AUTOFREE char *aside = part_aside(p);
	int failed = link(path, aside) ? errno : 0;
	if (failed == EEXIST) {
		unlink(aside);
		failed = link(path, aside) ? errno : 0;
	}
	if (failed == ENOENT) {
		int fd = open(aside, O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
		failed = fd < 0 ? errno : 0;
		if (fd >= 0)
			close(fd);
	}
	if (failed)
		return err_errno(e, failed, "cannot keep %s", aside);
	return files_sync_dir(p->db->dir, e); /* before RocksDB removes the other name */
}

static void ingest_mark(struct part *p, const struct err *why)
{
	p->damaged = true;
	atomic_store(&p->set_aside, true);
	atomic_store(&p->no_sums, true);
	if (p->level == LEVEL_HOUR) /* the hours of a rollup answer */
		damage_count(p, p->series.n ? p->series.v[0].series : 0, why);
}

static int ingest_set_aside(struct partition_db *d, const struct ingest_behind *b, const struct err *why, struct err *e)
{
	struct ingest_parts parts = { .stay = false };
	ingest_find_parts(d, b->first, &parts);
	struct part same = { .db = d, .level = (uint8_t)b->first[0], .window = part_key_word(b->first + 1), .number = part_key_word(b->first + 5) };
	int rc = parts.stay && same.level == LEVEL_HOUR ? ingest_keep(&same, b->path, e) : 0;
	if (!rc) {
		LOG_ERROR("msg", "the file of a sealed part is damaged, and nothing can be written before it: it is set aside", "file", b->path, "level",
			  LOG_NUM(same.level), "window", LOG_NUM(same.window), "part", LOG_NUM(same.number), "err", why->msg);
		for (size_t i = 0; i < parts.v.n; i++)
			ingest_mark(parts.v.v[i], why);
		part_forget_file(&same);
	}
	for (size_t i = 0; i < parts.v.n; i++)
		part_unref(parts.v.v[i]);
	vec_free(&parts.v);
	return rc;
}

int part_ingest(struct partition_db *d, enum part_level level, uint32_t window, uint32_t number, const char *file, struct err *e)
{
	char key[KEY_LEN], last[KEY_LEN] = { 0 };
	bool failed = false; /* the disk did: that costs one file at a time */
	int rc = 0;
	part_make_key(key, level, window, number, PART_HEADER, 0, 0);
	for (int tries = 0; tries < INGEST_TRIES;) {
		struct ingest_behind b = { 0 };
		struct err why = { 0 };
		rc = ingest_once(d, file, e);
		if (!rc || !damage_is(e))
			return rc;
		bool damaged = ingest_find_behind(d, key, &b) && ingest_behind_is_damaged(d, &b, &why);
		bool again = damaged && !memcmp(b.first, last, KEY_LEN); /* it has not left the list */
		bool fails = damaged && ingest_disk_fails(&why);
		if (damaged && (again || (failed && fails) || ingest_set_aside(d, &b, &why, e)))
			tries = INGEST_TRIES;
		failed |= fails;
		tries += !damaged;
		memcpy(last, b.first, KEY_LEN);
		free(b.path);
	}
	return rc;
}
