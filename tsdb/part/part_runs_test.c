/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a part's file: RocksDB reads all values of a kind from a file that has only that kind's run and the tail, and zeros
 * elsewhere. And damaged or hostile files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/map.h"
#include "base/varint.h"
#include "tsdb/disk/table.h"
#include "tsdb/part/part_private.h"
#include "tsdb/part/part_runs.h"
#include "tsdb/testkit.h"

#define HOUR INT64_C(3600000)

static uint64_t random_state = 41;

/* ---- files ---- */

static void read_whole(const char *path, struct buf *ret)
{
	struct err e;
	buf_reset(ret);
	if (buf_read_file(ret, path, &e))
		fail_msg("%s", e.msg);
}

/* Makes a file of `size` bytes that are zero except for ranges [from[i], to[i]) of `bytes`. */
static void write_ranges(const char *path, struct view bytes, const uint64_t *from, const uint64_t *to, int n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes.len), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(pwrite(fd, bytes.ptr + from[i], to[i] - from[i], (off_t)from[i]), to[i] - from[i]);
	close(fd);
}

static void write_whole(const char *path, struct view bytes)
{
	uint64_t from = 0, to = bytes.len;
	write_ranges(path, bytes, &from, &to, 1);
}

/* ---- values ---- */

struct run_value {
	char key[KEY_LEN];
	uint64_t hash; /* of its bytes */
};

struct run_values {
	VEC(struct run_value) v;
};

static int see_value(void *arg, struct view key, struct view value, struct err *e)
{
	struct run_values *x = arg;
	(void)e;
	assert_int_equal(key.len, KEY_LEN);
	struct run_value *v = vec_add(&x->v);
	memcpy(v->key, key.ptr, KEY_LEN);
	v->hash = hash_stable_view(value);
	return 0;
}

static bool is_of_run(const struct run_value *v, const struct part_run *r)
{
	return (uint8_t)v->key[9] == r->kind && ((part_key_word(v->key + 10) & PART_AGGREGATE) != 0) == r->aggregates;
}

/* How many of the values a database gives: those of the run, which it must give, and others. */
static void read_values(const char *dir, const struct run_values *x, const struct part_run *r, size_t *ret_of_run, size_t *ret_others)
{
	rocksdb_options_t *o = rocks_options(NULL);
	rocksdb_readoptions_t *read = rocksdb_readoptions_create();
	char *error = NULL;
	rocksdb_options_set_paranoid_checks(o, 0);
	rocksdb_t *db = rocksdb_open_for_read_only(o, dir, 0, &error);
	if (error)
		fail_msg("%s", error);
	*ret_of_run = *ret_others = 0;
	for (size_t i = 0; i < x->v.n; i++) {
		const struct run_value *v = &x->v.v[i];
		rocksdb_pinnableslice_t *pin = rocksdb_get_pinned(db, read, v->key, KEY_LEN, &error);
		if (error && is_of_run(v, r))
			fail_msg("kind %u, series %u: %s", r->kind, part_key_word(v->key + 10), error);
		rocksdb_free(error);
		error = NULL;
		if (!pin) {
			assert_false(is_of_run(v, r));
			continue;
		}
		size_t n;
		const char *p = rocksdb_pinnableslice_value(pin, &n);
		assert_true(hash_stable(p, n) == v->hash);
		rocksdb_pinnableslice_destroy(pin);
		++*(is_of_run(v, r) ? ret_of_run : ret_others);
	}
	rocksdb_close(db);
	rocksdb_readoptions_destroy(read);
	rocksdb_options_destroy(o);
}

/* ---- a partition's files ---- */

struct checked {
	const char *from, *to;  /* the partition; the directory that has its list of files and one of the files */
	size_t files, runs, of_aggregates, unreadable; /* unreadable: values of other kinds, each time */
	bool levels[LEVELS];
};

static void check_hashes(const struct part_runs *r, struct view bytes)
{
	uint8_t sha[SHA256_LEN];
	const struct part_run *tail = &r->v.v[r->v.n - 1];
	uint64_t end = 0;
	sha256_of(bytes, sha);
	assert_memory_equal(r->sha256, sha, SHA256_LEN);
	assert_int_equal(r->size, bytes.len);
	for (size_t i = 0; i < r->v.n; i++) {
		const struct part_run *x = &r->v.v[i];
		assert_true(x->length && x->offset < bytes.len && x->length <= bytes.len - x->offset);
		assert_true(x->hash == hash_stable(bytes.ptr + x->offset, x->length));
		assert_true(x->offset <= end); /* no gap */
		end = MAX(end, x->offset + x->length);
		if (x == tail)
			continue;
		assert_true(x->kind < PART_RUN_TAIL && x->offset + x->length <= tail->offset);
		assert_true(!i || x[-1].kind < x->kind || (x[-1].kind == x->kind && !x[-1].aggregates && x->aggregates));
		assert_true(!i || x->offset >= x[-1].offset);
	}
	assert_true(tail->kind == PART_RUN_TAIL && tail->offset + tail->length == r->size);
}

static int check_file(void *arg, const char *name, struct err *e)
{
	struct checked *c = arg;
	if (!view_ends(view_of(name), VIEW(".sst")))
		return 0;
	AUTOFREE char *file = xasprintf("%s/%s", c->from, name), *holed = xasprintf("%s/%s", c->to, name);
	struct run_values x = { 0 };
	struct part_runs r;
	struct table_loss loss;
	struct buf b = { 0 };
	size_t found = 0;
	if (part_runs_read(file, &r, e) || table_each(file, see_value, &x, &loss, e))
		fail_msg("%s", e->msg);
	read_whole(file, &b);
	check_hashes(&r, buf_view(&b));
	const struct part_run *tail = &r.v.v[r.v.n - 1];
	for (const struct part_run *run = r.v.v; run < tail; run++) {
		size_t of_run, others;
		const uint64_t from[] = { run->offset, tail->offset }, to[] = { run->offset + run->length, r.size };
		write_ranges(holed, buf_view(&b), from, to, 2);
		read_values(c->to, &x, run, &of_run, &others);
		found += of_run;
		c->unreadable += x.v.n - of_run - others;
		c->of_aggregates += run->aggregates && of_run;
	}
	assert_true(x.v.n && found == x.v.n); /* each is in one run */
	unlink(holed);
	c->files++;
	c->runs += r.v.n;
	c->levels[(uint8_t)x.v.v[0].key[0]] = true;
	vec_free(&x.v);
	buf_free(&b);
	part_runs_release(&r);
	return 0;
}

/* RocksDB's list of files. */
static int copy_list(void *arg, const char *name, struct err *e)
{
	struct checked *c = arg;
	struct view v = view_of(name);
	(void)e;
	if (!view_eqs(v, "CURRENT") && !view_starts(v, VIEW("MANIFEST-")) && !view_starts(v, VIEW("OPTIONS-")))
		return 0;
	AUTOFREE char *from = xasprintf("%s/%s", c->from, name), *to = xasprintf("%s/%s", c->to, name);
	struct buf b = { 0 };
	read_whole(from, &b);
	write_whole(to, buf_view(&b));
	buf_free(&b);
	return 0;
}

static struct checked check_partition(const char *dir)
{
	char to[] = "/tmp/runs-test-XXXXXX";
	struct checked c = { .from = dir, .to = to };
	struct err e;
	assert_non_null(mkdtemp(to));
	assert_int_equal(files_each(dir, copy_list, &c, &e), 0);
	assert_int_equal(files_each(dir, check_file, &c, &e), 0);
	files_remove_tree(to);
	c.to = NULL;
	return c;
}

/* ---- parts of made-up values ---- */

/* What a test part is made of: so many series, each with a value of every kind, of about n bytes that zstd cannot shorten. */
struct made {
	enum part_level level;
	uint32_t n_series, n_aggregates;
	size_t n, symbols;
	bool floats;
	uint64_t file_values; /* for part_writer_new */
};

static void put_random(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, size_t n)
{
	struct buf b = { 0 };
	struct err e;
	for (size_t i = 0; i < n; i++)
		buf_putc(&b, (char)kit_random(&random_state));
	if (part_put(w, kind, series, stream, buf_view(&b), &e))
		fail_msg("%s", e.msg);
	buf_free(&b);
}

static void put_kind(struct part_writer *w, const struct made *m, enum part_kind kind, uint8_t stream)
{
	for (uint32_t i = 0; i < m->n_series; i++)
		put_random(w, kind, i * 3, stream, m->n / 2 + kit_random(&random_state) % (m->n + 1));
	for (uint32_t i = 0; kind != PART_FLOATS && i < m->n_aggregates; i++)
		put_random(w, kind, PART_AGGREGATE | i, stream, m->n / 2);
}

static struct part *make_part(struct partition_db *d, uint32_t number, const struct made *m)
{
	struct part_writer *w;
	struct err e;
	struct part *p = NEW(struct part);
	atomic_init(&p->refs, 1);
	p->level = m->level;
	p->window = (uint32_t)(KIT_T0 / HOUR / level_hours(m->level));
	p->number = number;
	if (part_writer_new(&w, d, p->level, p->window, number, m->n * m->file_values, m->file_values, &e))
		fail_msg("%s", e.msg);
	put_random(w, PART_HEADER, 0, 0, 10);
	if (m->symbols)
		put_random(w, PART_SYMBOLS, 0, 0, m->symbols);
	put_random(w, PART_INDEX, 0, 0, 4 * (size_t)m->n_series);
	if (m->level == LEVEL_HOUR)
		put_kind(w, m, PART_TOTALS, 0);
	put_kind(w, m, PART_ROLLUP, 0);
	if (m->level == LEVEL_HOUR)
		put_kind(w, m, PART_DETAIL, 0);
	if (m->floats)
		put_kind(w, m, PART_FLOATS, 0);
	for (uint8_t stream = 1; m->level == LEVEL_HOUR && stream <= 2; stream++)
		put_kind(w, m, PART_DETAIL, stream);
	if (part_writer_finish(w, p, &e))
		fail_msg("%s", e.msg);
	return p;
}

/* A partition of such parts below dir; returns its directory, owned. */
static char *make_partition(const char *dir, const struct made *m, size_t n)
{
	char *path = xasprintf("%s/made", dir);
	struct partition_db *d;
	struct part **parts = NULL, **made = xcalloc(n, sizeof *made);
	size_t n_parts;
	uint64_t lost;
	struct err e;
	if (partition_db_open(&d, path, NULL, false, NULL, &parts, &n_parts, &lost, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(n_parts, 0);
	for (size_t i = 0; i < n; i++)
		made[i] = make_part(d, (uint32_t)i, &m[i]);
	for (size_t i = 0; i < n; i++)
		part_unref(made[i]);
	partition_db_unref(d);
	free(parts);
	free(made);
	return path;
}

static char *make_dir(void)
{
	char dir[] = "/tmp/runs-test-XXXXXX";
	assert_non_null(mkdtemp(dir));
	return xstrdup(dir);
}

#define LARGE 1
#define MANY 1000000

static void test_made_parts(void **state)
{
	static const struct made made[] = {
		{ LEVEL_HOUR, 1, 0, 20, 0, false, LARGE },         /* all in one block */
		{ LEVEL_HOUR, 2, 1, 20, 100, true, LARGE },        /* the same, with every kind */
		{ LEVEL_HOUR, 40, 5, 1500, 200000, true, LARGE },  /* several blocks a kind */
		{ LEVEL_HOUR, 40, 0, 1500, 30000, false, LARGE },
		{ LEVEL_HOUR, 20, 3, 9000, 3000, false, LARGE },   /* a block a value */
		{ LEVEL_HOUR, 300, 30, 400, 9000, true, MANY },    /* blocks for small values */
		{ LEVEL_HOUR, 40, 4, 100, 9000, true, MANY },
		{ LEVEL_HOUR, 0, 0, 1, 5000, false, LARGE },       /* no series */
		{ LEVEL_6H, 30, 2, 900, 0, false, LARGE },
		{ LEVEL_DAY, 3, 1, 30, 0, false, LARGE },
	};
	char *dir = make_dir(), *path = make_partition(dir, made, ARRAY_LEN(made));
	struct checked c = check_partition(path);
	assert_int_equal(c.files, ARRAY_LEN(made));
	assert_true(c.of_aggregates > 20 && c.unreadable > 5000);
	files_remove_tree(dir);
	free(path);
	free(dir);
}

/* ---- parts that the storage writes ---- */

static int check_day(void *arg, const char *name, struct err *e)
{
	struct checked *sum = arg;
	AUTOFREE char *dir = xasprintf("%s/%s", sum->from, name);
	struct checked c = check_partition(dir);
	(void)e;
	sum->files += c.files;
	sum->of_aggregates += c.of_aggregates;
	sum->unreadable += c.unreadable;
	for (int i = 0; i < LEVELS; i++)
		sum->levels[i] |= c.levels[i];
	return 0;
}

static void test_sealed_parts(void **state)
{
	struct kit k;
	struct err e;
	kit_init(&k);
	kit_open(&k);
	for (int64_t t = KIT_T0 + 10000; t <= KIT_T0 + 25 * HOUR; t += 10 * 60000)
		for (unsigned pod = 0; pod < 30; pod++) {
			k.now_ms = t + 50000;
			assert_int_equal(kit_append(&k, pod, t + pod, (uint64_t)(t / HOUR / 6) + pod % 3, 120, NULL), 0);
			if (!pod)
				assert_int_equal(kit_append_float(&k, "up", t, (double)t, NULL), 0);
		}
	k.now_ms = KIT_T0 + 32 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	kit_close(&k);
	AUTOFREE char *partitions = xasprintf("%s/partitions", k.dir);
	struct checked c = { .from = partitions };
	assert_int_equal(files_each(partitions, check_day, &c, &e), 0);
	assert_true(c.files >= 25 && c.of_aggregates && c.unreadable);
	assert_true(c.levels[LEVEL_HOUR] && c.levels[LEVEL_6H] && c.levels[LEVEL_DAY]);
	kit_free(&k);
}

/* ---- damaged files ---- */

/* What part_runs_read says of these bytes. If it succeeds, the runs lie within the file and have the hashes of its bytes. */
static int read_bytes(const char *path, struct view bytes, struct err *e)
{
	struct part_runs r;
	write_whole(path, bytes);
	int rc = part_runs_read(path, &r, e);
	if (!rc) {
		check_hashes(&r, bytes);
		part_runs_release(&r);
	}
	return rc;
}

static int first_file(void *arg, const char *name, struct err *e)
{
	char **ret = arg;
	(void)e;
	if (!*ret && view_ends(view_of(name), VIEW(".sst")))
		*ret = xstrdup(name);
	return 0;
}

/* Number i of the four in the handles of a footer: offsets and sizes of metaindex and index. */
static uint64_t get_handle(const struct buf *b, int i)
{
	const uint8_t *p = (const uint8_t *)b->ptr + b->len - 53 + 1;
	uint64_t v = 0;
	for (; i >= 0; i--)
		assert_true(varint_get(&p, (const uint8_t *)b->ptr + b->len, &v));
	return v;
}

static void test_damage(void **state)
{
	static const struct made made = { LEVEL_HOUR, 20, 2, 1500, 100, true, LARGE };
	char *dir = make_dir(), *path = make_partition(dir, &made, 1), *name = NULL, *other = xasprintf("%s/other", dir);
	struct buf b = { 0 };
	struct part_runs r;
	struct err e;
	assert_int_equal(files_each(path, first_file, &name, &e), 0);
	AUTOFREE char *file = xasprintf("%s/%s", path, name);
	read_whole(file, &b);
	assert_int_equal(part_runs_read(file, &r, &e), 0);
	uint64_t tail = r.v.v[r.v.n - 1].offset, index = get_handle(&b, 2), index_end = index + get_handle(&b, 3) + 5;
	assert_true(index >= tail && index_end > index + 50 && index_end < b.len - 53);
	part_runs_release(&r);
	for (size_t i = 0; i < b.len; i += i < tail ? 997 : 1) {
		assert_int_equal(read_bytes(other, view_make(b.ptr, i), &e), -ERR_CORRUPT);
		assert_non_null(strstr(e.msg, "/other"));
		b.ptr[i] ^= (char)(1 << i % 8);
		int rc = read_bytes(other, buf_view(&b), &e);
		b.ptr[i] ^= (char)(1 << i % 8);
		assert_true(rc == 0 || rc == -ERR_CORRUPT);
		assert_true(rc || i + 53 < b.len);                 /* each byte of the footer counts, */
		assert_true(rc || i < index || i >= index_end);    /* and of the index */
		assert_true(!rc || i >= tail);
	}
	assert_int_equal(part_runs_read(dir, &r, &e), -ERR_IO);
	unlink(other);
	assert_int_equal(part_runs_read(other, &r, &e), -ERR_NOT_FOUND);
	buf_free(&b);
	files_remove_tree(dir);
	free(name);
	free(other);
	free(path);
	free(dir);
}

/* ---- hostile indexes whose checksum is right ---- */

static void put_le(struct buf *b, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		buf_putc(b, (char)(v >> 8 * i));
}

/* As tsdb/disk/table.c says of blocks. */
static void put_block(struct buf *b, struct view contents, char compression)
{
	uint32_t sum = (uint32_t)hash_stable_view(contents) ^ (uint8_t)compression * UINT32_C(0x6b9083d9);
	buf_putv(b, contents);
	buf_putc(b, compression);
	put_le(b, sum, 4);
}

struct hostile {
	const char *says;           /* part of the message; NULL: it is accepted */
	struct {
		const char *key;    /* behind 9 bytes that name the part */
		uint64_t at, size;
	} blocks[3];
	bool other_part;            /* the second key is one of another part */
	uint32_t more_restarts;
	char compression;
	uint64_t index_size;        /* 0: as it is */
	uint32_t version;           /* 0: as it is */
	uint32_t behind_metaindex;  /* bytes */
	char filler;                /* of the handles */
};

static void put_entry(struct buf *b, const struct hostile *h, int i)
{
	size_t n = strlen(h->blocks[i].key);
	buf_varint(b, 0);
	buf_varint(b, 9 + n);
	buf_puts(b, h->other_part && i ? "part-0010" : "part-0001");
	buf_put(b, h->blocks[i].key, n);
	buf_varint(b, h->blocks[i].at);
	buf_varint(b, h->blocks[i].size);
}

static void put_table(struct buf *b, const struct hostile *h)
{
	struct buf index = { 0 }, handles = { 0 };
	uint32_t restarts[4] = { 0 }, n = 0;
	for (; n < 3 && h->blocks[n].key; n++) {
		restarts[n] = (uint32_t)index.len;
		put_entry(&index, h, (int)n);
	}
	for (uint32_t i = 0; i < MAX(n, 1u); i++)
		put_le(&index, restarts[i], 4);
	put_le(&index, MAX(n, 1u) + h->more_restarts, 4);
	buf_reset(b);
	for (int i = 0; i < 200; i++)
		buf_putc(b, 'd');
	buf_varint(&handles, 200 + index.len + 5);
	buf_varint(&handles, 10);
	buf_varint(&handles, 200);
	buf_varint(&handles, h->index_size ? h->index_size : index.len);
	put_block(b, buf_view(&index), h->compression);
	put_block(b, VIEW("metaindex."), 0);
	for (uint32_t i = 0; i < h->behind_metaindex; i++)
		buf_putc(b, 0);
	while (handles.len < 40)
		buf_putc(&handles, h->filler);
	buf_putc(b, 4);
	buf_putv(b, buf_view(&handles));
	put_le(b, h->version ? h->version : 5, 4);
	put_le(b, UINT64_C(0x88e241b785f4cff7), 8);
	buf_free(&handles);
	buf_free(&index);
}

static void test_hostile(void **state)
{
	static const struct hostile tables[] = {
		{ NULL, { { "\x01", 0, 50 }, { "\x05", 55, 60 }, { "\x08qqqq\x01", 120, 75 } } },
		{ NULL, { { "\x08qqqq\x01", 0, 0 } } },
		{ NULL, { { "\x06\x80ppp\x01", 0, 50 }, { "\x06\x90qqq\x01", 55, 60 }, { "\x06\xf0qqq\x01", 120, 75 } } },
		{ "which cannot be", { { "\x01", 0, 50 }, { "\x05", 55, 60 }, { "\x08qqqq\x01", 120, 76 } } },
		{ "which cannot be", { { "\x01", 0, 50 }, { "\x05", 56, 60 } } },
		{ "which cannot be", { { "\x01", 0, 50 }, { "\x05", 54, 60 } } },
		{ "which cannot be", { { "\x01", 1, 50 } } },
		{ "which cannot be", { { "\x01", 0, UINT64_MAX } } },
		{ "which cannot be", { { "\x01", 0, UINT64_MAX - 4 } } },
		{ "which cannot be", { { "\x01", 0, 50 }, { "\x05", 55, UINT64_MAX - 54 } } },
		{ "which cannot be", { { "\x01", UINT64_MAX, 50 } } },
		{ "do not ascend", { { "\x05", 0, 50 }, { "\x01", 55, 60 } } },
		{ "do not ascend", { { "\x05", 0, 50 }, { "\x05", 55, 60 } } },
		{ "a single part", { { "\x01", 0, 50 }, { "\x05", 55, 60 } }, .other_part = true },
		{ "a single part", { { "", 0, 50 } } },
		{ "a single part", { { "\x01sssssS", 0, 50 } } },
		{ "kind 10", { { "\x01", 0, 50 }, { "\x0aqqqq\x01", 55, 60 } } },
		{ "kind 255", { { "\xff", 0, 50 } } },
		{ "no values", { { NULL, 0, 0 } } },
		{ "malformed", { { "\x01", 0, 50 } }, .more_restarts = 1000 },
		{ "malformed", { { "\x01", 0, 50 } }, .more_restarts = UINT32_MAX - 1 },
		{ "malformed", { { "\x01", 0, 50 } }, .more_restarts = 1 },
		{ "damaged", { { "\x01", 0, 50 } }, .compression = 7 },
		{ "damaged", { { "\x01", 0, 50 } }, .compression = 1 },
		{ "damaged", { { "\x01", 0, 50 } }, .index_size = 3 },
		{ "damaged", { { "\x01", 0, 50 } }, .index_size = 100 },
		{ "damaged", { { "\x01", 0, 50 } }, .index_size = UINT64_MAX },
		{ "damaged", { { "\x01", 0, 50 } }, .version = 6 },
		{ "damaged", { { "\x01", 0, 50 } }, .behind_metaindex = 1 },
		{ "damaged", { { "\x01", 0, 50 } }, .filler = 1 },
	};
	char *dir = make_dir(), *path = xasprintf("%s/table", dir);
	struct buf b = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		struct err e = { 0 };
		put_table(&b, &tables[i]);
		int rc = read_bytes(path, buf_view(&b), &e);
		if (rc != (tables[i].says ? -ERR_CORRUPT : 0) || (rc && !strstr(e.msg, tables[i].says)))
			fail_msg("table %zu: %d %s", i, rc, e.msg);
		for (size_t k = 200; k < b.len; k++) { /* each byte of it that is wrong */
			b.ptr[k] ^= (char)kit_random(&random_state);
			IGNORE(read_bytes(path, buf_view(&b), &e)); /* or not */
		}
	}
	buf_free(&b);
	files_remove_tree(dir);
	free(path);
	free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_made_parts), cmocka_unit_test(test_sealed_parts), cmocka_unit_test(test_damage),
					    cmocka_unit_test(test_hostile) };
	return cmocka_run_group_tests_name("part runs", tests, NULL, NULL);
}
