/* SPDX-License-Identifier: Apache-2.0 */
/* A partition whose list of files (CURRENT, MANIFEST) is damaged or missing is rebuilt from its files: parts describe themselves.
 * RocksDB's own repair refuses ingested files. So they are ingested once more, as links, into a new database, DAY.new, which then
 * replaces the old one. A crash leaves the old one, or neither name but DAY.new, which the next start puts in place
 * (partition_repair_finish). Files that cannot be ingested are counted and stay in DAY.bad-STAMP; if there are none, the old directory
 * is removed. The file `was` of the new one has the identities of those that it was made of: its parts have the numbers that they had
 * there. Before threads, or under seal_lock. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/part/part_private.h"

struct partition_repair {
	const char *from;
	char *to;
	rocksdb_t *db;
	uint64_t taken;
	VEC(char *) bad; /* names of files */
};

/* Links are taken away by the ingest. Files of one database never overlap: each part is one. */
static int ingest(struct partition_repair *r, const char *link, struct err *e)
{
	char *error = NULL;
	const char *files[] = { link };
	rocksdb_ingestexternalfileoptions_t *o = rocksdb_ingestexternalfileoptions_create();
	rocksdb_ingestexternalfileoptions_set_move_files(o, 1);
	rocksdb_ingestexternalfileoptions_set_allow_global_seqno(o, 0);
	rocksdb_ingestexternalfileoptions_set_snapshot_consistency(o, 0);
	rocksdb_ingest_external_file(r->db, files, 1, o, &error);
	rocksdb_ingestexternalfileoptions_destroy(o);
	return rocks_err(&error, e, "cannot take in", link);
}

static int take(void *arg, const char *name, struct err *e)
{
	struct partition_repair *r = arg;
	struct err bad;
	bool aside = view_ends(view_of(name), VIEW(PARTITION_DB_ASIDE));
	if (!aside && !view_ends(view_of(name), VIEW(".sst")))
		return 0;
	AUTOFREE char *file = xasprintf("%s/%s", r->from, name), *copy = xasprintf("%s/%s%s", r->to, name, aside ? "" : PARTITION_DB_UNFINISHED);
	if (link(file, copy))
		return err_errno(e, errno, "cannot link %s", copy);
	if (aside) /* the start looks at it afterwards */
		return 0;
	int rc = ingest(r, copy, &bad);
	unlink(copy);
	if (rc && rocks_of_the_place(&bad)) {
		*e = bad;
		return rc;
	}
	if (rc) {
		LOG_ERROR("msg", "a file of a partition is damaged and cannot be taken in", "file", file, "err", bad.msg);
		vec_push(&r->bad, xstrdup(name));
	}
	r->taken += !rc;
	return 0;
}

static int fill(struct partition_repair *r, struct err *e)
{
	char *error = NULL;
	rocksdb_options_t *o = rocks_options(NULL);
	files_remove_tree(r->to);
	r->db = rocksdb_open(o, r->to, &error);
	int rc = rocks_err(&error, e, "cannot make", r->to);
	if (!rc)
		rc = files_each(r->from, take, r, e);
	if (r->db)
		rocksdb_close(r->db);
	rocksdb_options_destroy(o);
	return rc;
}

static int sync_above(const char *dir, struct err *e)
{
	AUTOFREE char *parent = xstrdup(dir);
	char *slash = strrchr(parent, '/');
	if (slash)
		*slash = 0;
	return files_sync_dir(parent, e);
}

/* Appends a line of a file, if it can be read. */
static void repair_add_line(struct buf *b, const char *dir, const char *name)
{
	AUTOFREE char *path = xasprintf("%s/%s", dir, name);
	CLEANUP(buf_free) struct buf text = { .max = 65536 };
	if (buf_read_file(&text, path, NULL) || !text.len)
		return;
	buf_putv(b, buf_view(&text));
	if (text.ptr[text.len - 1] != '\n')
		buf_putc(b, '\n');
}

static int repair_note_was(const struct partition_repair *r, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	repair_add_line(&b, r->from, PARTITION_DB_WAS);
	repair_add_line(&b, r->from, "IDENTITY");
	return b.len ? files_put(r->to, PARTITION_DB_WAS, buf_view(&b), e) : 0;
}

struct keeping {
	const struct partition_repair *r;
	const char *dir;
};

static int remove_whole(void *arg, const char *name, struct err *e)
{
	const struct keeping *k = arg;
	(void)e;
	for (size_t i = 0; i < k->r->bad.n; i++)
		if (!strcmp(k->r->bad.v[i], name))
			return 0;
	AUTOFREE char *path = xasprintf("%s/%s", k->dir, name);
	unlink(path);
	return 0;
}

static int swap(struct partition_repair *r, char **ret_aside, struct err *e)
{
	AUTOFREE char *bad = xasprintf("%s" PARTITION_DB_BAD "%lld", r->from, (long long)clock_now_ms());
	if (sync_above(r->to, e)) /* its name, before the other one goes */
		return -(int)e->code;
	if (rename(r->from, bad))
		return err_errno(e, errno, "cannot rename %s", r->from);
	if (rename(r->to, r->from)) {
		int saved = errno;
		if (rename(bad, r->from))
			LOG_ERROR("msg", "a rebuilt partition is not in its place: the next start puts it there", "dir", r->to);
		return err_errno(e, saved, "cannot rename %s", r->to);
	}
	int rc = sync_above(r->from, e);
	if (!rc && !r->bad.n)
		files_remove_tree(bad);
	if (!rc && r->bad.n) {
		IGNORE(files_each(bad, remove_whole, &(struct keeping){ r, bad }, NULL)); /* what stays takes room, no more */
		*ret_aside = TAKE_PTR(bad);
	}
	return rc;
}

int partition_repair(const char *dir, char **ret_aside, struct err *e)
{
	struct partition_repair r = { .from = dir, .to = xasprintf("%s" PARTITION_DB_NEW, dir) };
	int rc = fill(&r, e);
	if (!rc)
		rc = repair_note_was(&r, e);
	if (!rc)
		rc = swap(&r, ret_aside, e);
	if (rc)
		files_remove_tree(r.to);
	else
		LOG_WARN("msg", "a partition was rebuilt from its files", "dir", dir, "files", LOG_NUM(r.taken), "damaged",
			 LOG_NUM(r.bad.n));
	for (size_t i = 0; i < r.bad.n; i++)
		free(r.bad.v[i]);
	vec_free(&r.bad);
	free(r.to);
	return rc;
}

int partition_db_make_of(const char *from, const char *dir, struct err *e)
{
	struct partition_repair r = { .from = from, .to = xasprintf("%s" PARTITION_DB_MAKING, dir) };
	int rc = access(dir, F_OK) == 0 ? err_set(e, ERR_CONFLICT, "%s exists", dir) : fill(&r, e);
	if (!rc && r.bad.n)
		rc = err_set(e, ERR_CORRUPT, "%zu of the files in %s cannot be taken in, %s is one", r.bad.n, from, r.bad.v[0]);
	if (!rc)
		rc = files_sync_dir(r.to, e);
	if (!rc && rename(r.to, dir))
		rc = err_errno(e, errno, "cannot rename %s", r.to);
	if (!rc)
		rc = sync_above(dir, e);
	if (rc)
		files_remove_tree(r.to);
	for (size_t i = 0; i < r.bad.n; i++)
		free(r.bad.v[i]);
	vec_free(&r.bad);
	free(r.to);
	return rc;
}

void partition_repair_finish(const char *new_dir)
{
	AUTOFREE char *dir = xstrdup(new_dir);
	struct err e;
	dir[strlen(dir) - strlen(PARTITION_DB_NEW)] = 0;
	if (access(dir, F_OK) == 0)
		files_remove_tree(new_dir);
	else if (rename(new_dir, dir) || sync_above(dir, &e))
		LOG_ERROR("msg", "a rebuilt partition cannot be put in its place", "dir", new_dir);
}
