/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/log/notes.h"


#include "base/alloc.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/vec.h"

#define HEADER 16  /* number, stamp */
#define TRAILER 8  /* checksum */

struct notes {
	struct mutex lock;
	VEC(struct note *) all; /* the durable state */
	struct map by_key;
	size_t bytes;
	struct notes_room queued;
	VEC(struct note *) put, failed; /* the committer's */
};

struct notes *notes_new(void)
{
	struct notes *t = NEW(struct notes);
	mutex_init(&t->lock, RANK_TSDB_NOTES, "notes");
	return t;
}

void notes_clear(struct notes *t)
{
	for (size_t i = 0; i < t->all.n; i++)
		free(t->all.v[i]);
	t->all.n = t->bytes = 0;
	map_clear(&t->by_key);
}

void notes_free(struct notes *t)
{
	if (!t)
		return;
	notes_clear(t);
	notes_abort(t);
	notes_undone(t);
	map_free(&t->by_key);
	vec_free(&t->all);
	vec_free(&t->put);
	vec_free(&t->failed);
	mutex_destroy(&t->lock);
	free(t);
}

/* ---- the table, under its lock ---- */

static size_t size_of(const struct note *n)
{
	return (size_t)n->key_len + n->value_len;
}

static struct note *note_new(struct view key, struct view value, int64_t t_ms, uint64_t number)
{
	struct note *n = xmalloc(sizeof *n + key.len + value.len);
	n->number = number;
	n->t_ms = t_ms;
	n->key_len = (uint32_t)key.len;
	n->value_len = (uint32_t)value.len;
	memcpy(n->bytes, key.ptr, key.len);
	if (value.len)
		memcpy(n->bytes + key.len, value.ptr, value.len);
	return n;
}

/* Its place, or all.n. */
static size_t find(const struct notes *t, struct view key)
{
	uint64_t h = hash_view(key);
	uint32_t id;
	for (size_t at = map_start(&t->by_key, h); map_probe(&t->by_key, h, &at, &id);)
		if (view_eq(note_key(t->all.v[id]), key))
			return id;
	return t->all.n;
}

static void take_out(struct notes *t, size_t i)
{
	struct note *gone = t->all.v[i], *last = t->all.v[t->all.n - 1];
	map_remove(&t->by_key, hash_view(note_key(gone)), (uint32_t)i);
	if (last != gone) {
		map_remove(&t->by_key, hash_view(note_key(last)), (uint32_t)t->all.n - 1);
		map_insert(&t->by_key, hash_view(note_key(last)), (uint32_t)i);
		t->all.v[i] = last;
	}
	t->all.n--;
	t->bytes -= size_of(gone);
	free(gone);
}

/* Takes n, replacing the one with its key. */
static void set(struct notes *t, struct note *n)
{
	size_t i = find(t, note_key(n));
	t->bytes += size_of(n);
	if (i < t->all.n) {
		t->bytes -= size_of(t->all.v[i]);
		free(t->all.v[i]);
		t->all.v[i] = n;
		return;
	}
	map_insert(&t->by_key, hash_view(note_key(n)), (uint32_t)t->all.n);
	vec_push(&t->all, n);
}

/* ---- who appends ---- */

static int check(const struct sink_note *n, struct err *e)
{
	if (!n->key.len || n->key.len > SINK_NOTE_KEY_MAX)
		return err_set(e, ERR_LIMIT, "a note's key has %zu bytes, it may have 1 to %d", n->key.len, SINK_NOTE_KEY_MAX);
	if (n->value.len > SINK_NOTE_VALUE_MAX)
		return err_set(e, ERR_LIMIT, "the note %.*s has %zu bytes, it may have %d", (int)MIN(n->key.len, 100), n->key.ptr,
			       n->value.len, SINK_NOTE_VALUE_MAX);
	return 0;
}

/* The most that it adds. */
static void add_room(const struct notes *t, const struct sink_note *n, struct notes_room *room)
{
	size_t i = find(t, n->key), before = i < t->all.n ? size_of(t->all.v[i]) : 0, size = n->key.len + n->value.len;
	if (!n->value.len)
		return;
	room->n += i == t->all.n;
	room->bytes += size > before ? size - before : 0;
}

static int make_room(struct notes *t, const struct sink_note *v, size_t n, struct notes_room *room, struct err *e)
{
	int rc = 0;
	*room = (struct notes_room){ 0 };
	mutex_lock(&t->lock);
	for (size_t i = 0; i < n; i++)
		add_room(t, &v[i], room);
	if (room->n && t->all.n + t->queued.n + room->n > SINK_NOTES_MAX)
		rc = err_set(e, ERR_LIMIT, "the storage has %zu notes and takes no more than %d: those not written again for 31 days go",
			     t->all.n, SINK_NOTES_MAX);
	else if (room->bytes && t->bytes + t->queued.bytes + room->bytes > SINK_NOTES_MAX_BYTES)
		rc = err_set(e, ERR_LIMIT, "the storage's notes have %zu bytes and may have %zu: those not written again for 31 days go",
			     t->bytes, SINK_NOTES_MAX_BYTES);
	if (rc)
		*room = (struct notes_room){ 0 };
	t->queued.n += room->n;
	t->queued.bytes += room->bytes;
	mutex_unlock(&t->lock);
	return rc;
}

int notes_take(struct notes *t, const struct sink_note *v, size_t n, struct note ***ret, struct notes_room *room, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = check(&v[i], e);
	if (!rc)
		rc = make_room(t, v, n, room, e);
	if (rc)
		return rc;
	*ret = xcalloc(n, sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = note_new(v[i].key, v[i].value, v[i].t_ms, 0);
	return 0;
}

void notes_leave(struct notes *t, const struct notes_room *room)
{
	mutex_lock(&t->lock);
	t->queued.n -= room->n;
	t->queued.bytes -= room->bytes;
	mutex_unlock(&t->lock);
}

void notes_count(struct notes *t, size_t *ret_n, size_t *ret_bytes)
{
	mutex_lock(&t->lock);
	*ret_n = t->all.n;
	*ret_bytes = t->bytes;
	mutex_unlock(&t->lock);
}

static int by_key(const void *a, const void *b)
{
	const struct note *const *x = a, *const *y = b;
	return view_cmp(note_key(*x), note_key(*y));
}

/* Copies first: fn may append. */
void notes_each(struct notes *t, struct view prefix, int64_t after_ms, void (*fn)(void *arg, const struct sink_note *n), void *arg)
{
	VEC(struct note *) copies = { 0 };
	mutex_lock(&t->lock);
	for (size_t i = 0; i < t->all.n; i++) {
		const struct note *n = t->all.v[i];
		if (n->t_ms > after_ms && view_starts(note_key(n), prefix))
			vec_push(&copies, note_new(note_key(n), note_value(n), n->t_ms, n->number));
	}
	mutex_unlock(&t->lock);
	if (copies.n)
		qsort(copies.v, copies.n, sizeof(*copies.v), by_key);
	for (size_t i = 0; i < copies.n; i++) {
		struct note *n = copies.v[i];
		fn(arg, &(struct sink_note){ note_key(n), note_value(n), n->t_ms });
		free(n);
	}
	vec_free(&copies);
}

/* ---- bytes ---- */

static void encode_key(struct buf *b, const struct note *n)
{
	buf_put(b, NOTES_PREFIX, NOTES_PREFIX_LEN);
	buf_putv(b, note_key(n));
}

static void encode_value(struct buf *b, uint64_t number, int64_t t_ms, struct view value, struct view db_key)
{
	buf_be64(b, number);
	buf_be64(b, (uint64_t)t_ms);
	buf_putv(b, value);
	buf_be64(b, hash_stable_seed(b->ptr, b->len, hash_stable_view(db_key)));
}

static uint64_t read_be64(const char *p)
{
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | (uint8_t)p[i];
	return v;
}

/* Views borrow what is given. */
static bool decode(struct view key, struct view value, struct sink_note *ret, uint64_t *ret_number)
{
	if (key.len <= NOTES_PREFIX_LEN || !view_starts(key, view_make(NOTES_PREFIX, NOTES_PREFIX_LEN)) || value.len < HEADER + TRAILER)
		return false;
	size_t body = value.len - TRAILER;
	if (read_be64(value.ptr + body) != hash_stable_seed(value.ptr, body, hash_stable_view(key)))
		return false;
	*ret_number = read_be64(value.ptr);
	*ret = (struct sink_note){ view_make(key.ptr + NOTES_PREFIX_LEN, key.len - NOTES_PREFIX_LEN),
				   view_make(value.ptr + HEADER, body - HEADER), (int64_t)read_be64(value.ptr + 8) };
	return ret->key.len <= SINK_NOTE_KEY_MAX && ret->value.len <= SINK_NOTE_VALUE_MAX;
}

bool notes_load(struct notes *t, struct view key, struct view value, uint64_t *last)
{
	struct sink_note n;
	uint64_t number;
	if (!decode(key, value, &n, &number))
		return false;
	*last = MAX(*last, number);
	if (n.value.len) /* else a commit that failed would have been its first */
		set(t, note_new(n.key, n.value, n.t_ms, number));
	return true;
}

enum log_repair_verdict notes_judge(struct notes *t, struct view key, struct view value)
{
	struct sink_note n;
	uint64_t number;
	if (!decode(key, value, &n, &number))
		return LOG_REPAIR_PASS;
	size_t i = find(t, n.key);
	if (i < t->all.n && t->all.v[i]->number > number)
		return LOG_REPAIR_PASS;
	set(t, note_new(n.key, VIEW(""), n.t_ms, number));
	return LOG_REPAIR_TAKE;
}

/* ---- the commit ---- */

void notes_put(struct notes *t, struct note *n)
{
	vec_push(&t->put, n);
}

bool notes_has_put(const struct notes *t)
{
	return t->put.n > 0;
}

static void put_note(rocksdb_writebatch_t *batch, struct buf *key, struct buf *value, const struct note *n, uint64_t number,
		     struct view content)
{
	buf_reset(key);
	buf_reset(value);
	encode_key(key, n);
	encode_value(value, number, n->t_ms, content, buf_view(key));
	rocksdb_writebatch_put(batch, key->ptr, key->len, value->ptr, value->len);
}

void notes_write(struct notes *t, rocksdb_writebatch_t *batch, uint64_t number)
{
	CLEANUP(buf_free) struct buf key = { 0 }, value = { 0 };
	for (size_t i = 0; i < t->put.n; i++) {
		struct note *n = t->put.v[i];
		n->number = number;
		if (n->value_len) {
			put_note(batch, &key, &value, n, number, note_value(n));
			continue;
		}
		buf_reset(&key);
		encode_key(&key, n);
		rocksdb_writebatch_delete(batch, key.ptr, key.len);
	}
}

void notes_committed(struct notes *t)
{
	mutex_lock(&t->lock);
	for (size_t i = 0; i < t->put.n; i++) {
		struct note *n = t->put.v[i];
		size_t old = n->value_len ? t->all.n : find(t, note_key(n));
		if (n->value_len)
			set(t, n);
		else if (old < t->all.n)
			take_out(t, old);
		if (!n->value_len)
			free(n);
	}
	mutex_unlock(&t->lock);
	t->put.n = 0;
}

void notes_failed(struct notes *t)
{
	for (size_t i = 0; i < t->put.n; i++)
		vec_push(&t->failed, t->put.v[i]);
	t->put.n = 0;
}

void notes_abort(struct notes *t)
{
	for (size_t i = 0; i < t->put.n; i++)
		free(t->put.v[i]);
	t->put.n = 0;
}

bool notes_has_failed(const struct notes *t)
{
	return t->failed.n > 0;
}

void notes_undo(struct notes *t, rocksdb_writebatch_t *batch, uint64_t number)
{
	CLEANUP(buf_free) struct buf key = { 0 }, value = { 0 };
	for (size_t i = 0; i < t->failed.n; i++) {
		size_t old = find(t, note_key(t->failed.v[i])); /* the committer alone changes it */
		bool was = old < t->all.n;
		put_note(batch, &key, &value, was ? t->all.v[old] : t->failed.v[i], number, was ? note_value(t->all.v[old]) : VIEW(""));
	}
}

void notes_undone(struct notes *t)
{
	for (size_t i = 0; i < t->failed.n; i++)
		free(t->failed.v[i]);
	t->failed.n = 0;
}

size_t notes_expire(struct notes *t, int64_t before_ms, rocksdb_writebatch_t *batch)
{
	CLEANUP(buf_free) struct buf key = { 0 };
	size_t gone = 0;
	mutex_lock(&t->lock);
	for (size_t i = t->all.n; i--;) {
		if (t->all.v[i]->t_ms >= before_ms)
			continue;
		buf_reset(&key);
		encode_key(&key, t->all.v[i]);
		rocksdb_writebatch_delete(batch, key.ptr, key.len);
		take_out(t, i);
		gone++;
	}
	mutex_unlock(&t->lock);
	return gone;
}
