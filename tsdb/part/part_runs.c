/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part/part_runs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tsdb/disk/table.h"
#include "tsdb/part/part_private.h"

#define PIECE 262144  /* bytes of the file that are read at once */
#define PART_LEN 9    /* bytes of a key that name the part */
#define GROUPS (2 * PART_KINDS)
#define RUNS (GROUPS + 1)

/* A group is the values of one kind, of series or of aggregates: number 2 * kind + (of aggregates). Keys ascend by group. */
static bool group_exists(int group)
{
	switch (group / 2) {
	case PART_TOTALS:
	case PART_ROLLUP:
	case PART_DETAIL:
	case PART_DETAIL_1:
	case PART_DETAIL_2: return true;
	default: return group % 2 == 0; /* of kinds without aggregates, whose group of series has all keys */
	}
}

/* The smallest and the largest key of a group, without the bytes that name the part. */
struct runs_bounds {
	char first[KEY_LEN - PART_LEN], last[KEY_LEN - PART_LEN];
};

static struct runs_bounds group_bounds(int group)
{
	struct runs_bounds b;
	char key[KEY_LEN];
	bool both = !group_exists(group | 1), aggregates = group % 2;
	part_make_key(key, 0, 0, 0, (enum part_kind)(group / 2), aggregates ? PART_AGGREGATE : 0, 0);
	memcpy(b.first, key + PART_LEN, sizeof b.first);
	part_make_key(key, 0, 0, 0, (enum part_kind)(group / 2), both || aggregates ? UINT32_MAX : PART_AGGREGATE - 1, 0xff);
	memcpy(b.last, key + PART_LEN, sizeof b.last);
	return b;
}

/* State while the index of a file is read: the runs that were found so far. */
struct runs_index {
	const char *file;
	struct part_run runs[GROUPS]; /* by group; length 0: none */
	char part[PART_LEN];          /* the beginning of every key */
	struct buf last;              /* the previous block's separator; empty: there is no block yet */
	uint64_t end;                 /* of the blocks so far */
};

/* Whether a block whose keys are above `after` (empty: all are) and at most `separator` may have one of the group. Both are without the
 * bytes that name the part. */
static bool block_may_have(int group, struct view after, struct view separator)
{
	struct runs_bounds b = group_bounds(group);
	return view_cmp(separator, view_make(b.first, sizeof b.first)) >= 0 && view_cmp(after, view_make(b.last, sizeof b.last)) < 0;
}

static int runs_add_block(void *arg, struct view separator, uint64_t offset, uint64_t size, struct err *e)
{
	struct runs_index *x = arg;
	struct view after = buf_view(&x->last);
	if (!after.len && separator.len > PART_LEN)
		memcpy(x->part, separator.ptr, PART_LEN);
	if (separator.len <= PART_LEN || separator.len > KEY_LEN || memcmp(separator.ptr, x->part, PART_LEN) != 0)
		return err_set(e, ERR_CORRUPT, "%s: its index has a key that is not one of a single part", x->file);
	struct view key = view_make(separator.ptr + PART_LEN, separator.len - PART_LEN);
	if (x->end && view_cmp(key, after) <= 0)
		return err_set(e, ERR_CORRUPT, "%s: the keys of its index do not ascend", x->file);
	for (int group = 0; group < GROUPS; group++)
		if (group_exists(group) && block_may_have(group, after, key)) {
			struct part_run *r = &x->runs[group];
			if (!r->length)
				r->offset = offset;
			r->length = offset + size - r->offset;
		}
	buf_reset(&x->last);
	buf_putv(&x->last, key);
	x->end = offset + size;
	return 0;
}

/* The last separator is the last key of the file. */
static int runs_check_last(const struct runs_index *x, struct err *e)
{
	if (!x->end)
		return err_set(e, ERR_CORRUPT, "%s: it has no values", x->file);
	uint8_t kind = (uint8_t)x->last.ptr[0];
	return kind < PART_KINDS ? 0 : err_set(e, ERR_CORRUPT, "%s: it has values of kind %u, which this program does not know", x->file, kind);
}

/* ---- the bytes ---- */

static void runs_hash_piece(const struct part_runs *r, struct hash_stream *hashes, const char *p, uint64_t at, size_t n)
{
	for (size_t i = 0; i < r->v.n; i++) {
		const struct part_run *x = &r->v.v[i];
		uint64_t from = MAX(at, x->offset), to = MIN(at + n, x->offset + x->length);
		if (from < to)
			hash_stream_add(&hashes[i], p + (from - at), (size_t)(to - from));
	}
}

/* Reads the file up to r->size and fills in what is computed of its bytes. */
static int runs_hash_file(int fd, const char *file, struct part_runs *r, struct err *e)
{
	AUTOFREE char *piece = xmalloc(PIECE);
	struct hash_stream hashes[RUNS];
	struct sha256 sha;
	uint64_t at = 0;
	int rc = 0;
	sha256_begin(&sha);
	for (size_t i = 0; i < r->v.n; i++)
		hash_stream_begin(&hashes[i]);
	while (at < r->size && !rc) {
		ssize_t n = pread(fd, piece, (size_t)MIN(r->size - at, (uint64_t)PIECE), (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			rc = n ? err_errno(e, errno, "cannot read %s", file) :
			     err_set(e, ERR_CORRUPT, "%s became shorter while it was read", file);
			break;
		}
		sha256_add(&sha, piece, (size_t)n);
		runs_hash_piece(r, hashes, piece, at, (size_t)n);
		at += (uint64_t)n;
	}
	sha256_end(&sha, r->sha256);
	for (size_t i = 0; i < r->v.n; i++)
		r->v.v[i].hash = hash_stream_end(&hashes[i]);
	return rc;
}

static int runs_read_fd(int fd, const char *file, struct part_runs *r, struct err *e)
{
	struct runs_index x = { .file = file };
	int rc = table_each_block(fd, file, runs_add_block, &x, &r->size, e);
	if (!rc)
		rc = runs_check_last(&x, e);
	buf_free(&x.last);
	if (rc)
		return rc;
	for (int group = 0; group < GROUPS; group++)
		if (x.runs[group].length) {
			x.runs[group].kind = (uint8_t)(group / 2);
			x.runs[group].aggregates = group % 2;
			vec_push(&r->v, x.runs[group]);
		}
	vec_push(&r->v, (struct part_run){ .kind = PART_RUN_TAIL, .offset = x.end, .length = r->size - x.end });
	return runs_hash_file(fd, file, r, e);
}

int part_runs_read(const char *file, struct part_runs *ret, struct err *e)
{
	struct part_runs r = { 0 };
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "cannot read %s", file);
	int rc = runs_read_fd(fd, file, &r, e);
	close(fd);
	if (rc)
		part_runs_release(&r);
	else
		*ret = r;
	return rc;
}

void part_runs_release(struct part_runs *r)
{
	vec_free(&r->v);
}
