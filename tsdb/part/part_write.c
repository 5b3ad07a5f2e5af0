/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a part: one file, which is then the database's. */
#include "tsdb/part/part_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tsdb/dict/dict_pack.h"

#define SMALL_VALUE 8192 /* bytes */

struct part_writer {
	struct partition_db *d;
	enum part_level level;
	uint32_t window, number;
	rocksdb_sstfilewriter_t *w;
	char *file;
	struct buf value;
	char last[KEY_LEN];
};

int part_writer_new(struct part_writer **ret, struct partition_db *d, enum part_level level, uint32_t window, uint32_t number,
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
	w->file = xasprintf("%s/%u-%u-%u-%u" PARTITION_DB_UNFINISHED, d->dir, level, window, number, atomic_fetch_add(&d->next_file, 1));
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

int part_put_version(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, uint8_t version,
		     struct view payload, struct err *e)
{
	char key[KEY_LEN], *error = NULL;
	part_make_key(key, w->level, w->window, w->number, part_key_kind(false, kind, stream), series, stream);
	buf_reset(&w->value);
	buf_putc(&w->value, (char)version);
	buf_putv(&w->value, payload);
	buf_be64(&w->value, hash_stable_seed(w->value.ptr, w->value.len, hash_stable(key, KEY_LEN)));
	if (w->value.overflow)
		return err_set(e, ERR_LIMIT, "a value of a part is over %zu bytes", BUF_DEFAULT_MAX);
	memcpy(w->last, key, KEY_LEN);
	rocksdb_sstfilewriter_put(w->w, key, KEY_LEN, w->value.ptr, w->value.len, &error);
	return rocks_err(&error, e, "cannot write", w->file);
}

int part_put(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, struct view payload, struct err *e)
{
	return part_put_version(w, kind, series, stream, kind == PART_DETAIL ? VALUE_VERSION : part_version_of(kind), payload, e);
}

int part_put_places(struct part_writer *w, uint32_t series, uint32_t of, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_varint(&b, of);
	return part_put_version(w, PART_DETAIL, series, 0, PLACES_VERSION, buf_view(&b), e);
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

/* RocksDB does not check whether it could read the file when it asks for its first and last key. If it could not, it ends the process,
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
		rc = part_ingest(w->d, w->level, w->window, w->number, w->file, e);
	if (!rc)
		rc = has_last(w, e);
	if (rc) {
		/* RocksDB may take no more writes now, and does not say; and the file may be in its list or not. */
		atomic_store(&w->d->read_only, true);
		part_writer_abort(w);
		return rc;
	}
	p->db = partition_db_ref(w->d);
	p->one_kind = false;
	part_know(p);
	unlink(w->file); /* moved: a leftover link at most */
	writer_free(w);
	return 0;
}
