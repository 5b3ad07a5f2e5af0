/* SPDX-License-Identifier: Apache-2.0 */
/* bucket/server is
 *
 *	pyrrha-bucket 1
 *	id ID
 *	epoch N            taken last
 *	base B             the first of this directory
 *	generation G       of that epoch, no generation with a higher number was put by this directory
 *	taking N NONCE     0 0: none. It may be taken: the object of that epoch then has this nonce
 *	returning 0        1: days of the bucket are still to be fetched
 *	checksum ...
 *
 * and an epoch's object
 *
 *	pyrrha-epoch 1
 *	id ID
 *	epoch N
 *	nonce NONCE
 *	taken MS
 *	checksum ... */
#include "tsdb/bucket/bucket_server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/disk/text.h"

#define FILE_NAME "server"
#define FILE_HEAD "pyrrha-bucket 1"
#define EPOCH_HEAD "pyrrha-epoch 1"
#define NEW_ID_CHARS 6
#define FENCE_TRIES 1000

/* ---- the file ---- */

struct taking {
	uint64_t epoch;
	int64_t nonce;
};

static int server_write(struct bucket_server *s, struct taking t, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_printf(&b, FILE_HEAD "\nid %s\nepoch %" PRIu64 "\nbase %" PRIu64 "\ngeneration %" PRIu64 "\ntaking %" PRIu64 " %" PRId64 "\nreturning %d\n", s->id,
		   s->epoch, s->base, s->noted, t.epoch, t.nonce, s->returning);
	text_put_checksum(&b, 0);
	int rc = files_make_dirs(s->dir, e);
	return rc ? rc : files_put(s->dir, FILE_NAME, buf_view(&b), e);
}

static bool server_parse(struct bucket_server *s, struct view text, struct taking *t)
{
	struct view lines, line;
	int64_t n[2];
	if (!text_checked(text, FILE_HEAD, &lines) || !text_line(&lines, &line) || !view_starts(line, VIEW("id ")))
		return false;
	struct view id = view_make(line.ptr + 3, line.len - 3);
	if (id.len && !server_id_is_valid(id))
		return false;
	memcpy(s->id, id.ptr, id.len);
	s->id[id.len] = 0;
	if (!text_line(&lines, &line) || !text_numbers(line, "epoch #", n) || n[0] < 0 || n[0] >= (int64_t)OBJECT_EPOCH_MAX)
		return false;
	s->epoch = (uint64_t)n[0];
	if (!text_line(&lines, &line) || !text_numbers(line, "base #", n) || n[0] < 0 || n[0] >= (int64_t)OBJECT_EPOCH_MAX)
		return false;
	s->base = (uint64_t)n[0];
	if (!text_line(&lines, &line) || !text_numbers(line, "generation #", n) || n[0] < 0)
		return false;
	s->noted = (uint64_t)n[0];
	if (!text_line(&lines, &line) || !text_numbers(line, "taking # #", n))
		return false;
	*t = (struct taking){ (uint64_t)n[0], n[1] };
	if (!text_line(&lines, &line) || !text_numbers(line, "returning #", n))
		return false;
	s->returning = n[0] != 0;
	return true;
}

static int server_read(struct bucket_server *s, struct taking *t, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/" FILE_NAME, s->dir);
	CLEANUP(buf_free) struct buf b = { .max = 65536 };
	int rc = buf_read_file(&b, path, e);
	*t = (struct taking){ 0 };
	if (rc == -ERR_NOT_FOUND)
		return 0;
	if (rc || server_parse(s, buf_view(&b), t))
		return rc;
	s->id[0] = 0;
	s->epoch = s->base = s->noted = 0;
	s->returning = false;
	*t = (struct taking){ 0 };
	LOG_ERROR("msg", "the file that says as which server this directory writes to its bucket is damaged: it goes on under a new id", "file", path);
	return 0;
}

int bucket_server_init(struct bucket_server *s, struct objects *o, const char *path, const char *wanted, bool was_empty, struct err *e)
{
	struct taking t;
	*s = (struct bucket_server){ .objects = o, .dir = xasprintf("%s/bucket", path), .was_empty = was_empty };
	mutex_init(&s->lock, LOCK_LEAF, "bucket server");
	snprintf(s->wanted, sizeof s->wanted, "%s", wanted ? wanted : "");
	if (s->wanted[0] && !server_id_is_valid(view_of(s->wanted)))
		return err_set(e, ERR_BAD_DATA, "server_id %s: it is 1 to %d characters of a-z, 0-9 and -, the first no -", wanted, SERVER_ID_MAX);
	return server_read(s, &t, e);
}

void bucket_server_release(struct bucket_server *s)
{
	mutex_destroy(&s->lock);
	free(s->dir);
}

/* ---- ids ---- */

static uint64_t server_random(void)
{
	uint64_t x;
	if (getrandom(&x, sizeof x, 0) != sizeof x)
		x = (uint64_t)clock_now_ns() ^ (uint64_t)getpid() << 48;
	return x;
}

/* base, as far as it fits, and a few random characters behind it. */
static void server_new_id(char ret[SERVER_ID_MAX + 1], const char *base)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	char tail[NEW_ID_CHARS + 1] = "";
	for (int i = 0; i < NEW_ID_CHARS; i++)
		tail[i] = chars[server_random() % 36];
	snprintf(ret, SERVER_ID_MAX + 1, "%.*s-%s", SERVER_ID_MAX - NEW_ID_CHARS - 1, base, tail);
}

/* The name of the host, in the characters of an id. */
static void server_host_id(char ret[SERVER_ID_MAX + 1])
{
	char host[SERVER_ID_MAX + 1] = "";
	size_t n = 0;
	if (gethostname(host, sizeof host - 1))
		host[0] = 0;
	for (char *p = host; *p && *p != '.'; p++) {
		char c = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && n))
			host[n++] = c;
	}
	host[n] = 0;
	server_new_id(ret, n ? host : "pyrrha");
}

/* Whether the directory's id is the configured one, or was made of it when that had been used by another. */
static bool server_is_wanted(const struct bucket_server *s)
{
	size_t n = strlen(s->wanted), fit = MIN(n, (size_t)(SERVER_ID_MAX - NEW_ID_CHARS - 1));
	if (!n || !strcmp(s->id, s->wanted))
		return true;
	return strlen(s->id) == fit + 1 + NEW_ID_CHARS && !strncmp(s->id, s->wanted, fit) && s->id[fit] == '-';
}

/* ---- epochs ---- */

#define EPOCH_BYTES 1024 /* at most, of the object of an epoch */

struct newest_epoch {
	uint64_t epoch, foreign; /* foreign: the first epoch whose number is far above the one before it: no server has put it; 0 = none */
	uint64_t own;            /* is looked for */
	bool has_own;
};

static int epoch_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct newest_epoch *n = arg;
	struct object_name name;
	(void)e;
	if (!object_name_parse(x->key, &name) || name.kind != 'e')
		return 0;
	if (n->epoch && name.stamp.epoch > n->epoch + OBJECT_EPOCH_GAP)
		n->foreign = n->foreign ? n->foreign : name.stamp.epoch;
	else
		n->epoch = MAX(n->epoch, name.stamp.epoch);
	n->has_own |= name.stamp.epoch == n->own;
	return 0;
}

/* The newest epoch of an id, of those above `from`; `from` if there is none. */
static int epoch_newest(struct bucket_server *s, const char *id, uint64_t from, uint64_t *ret, struct err *e)
{
	char prefix[OBJECT_NAME_MAX], after[OBJECT_NAME_MAX] = "";
	struct newest_epoch n = { .epoch = from };
	object_name_prefix(prefix, id, 'e');
	if (from)
		object_name_epoch(after, id, from);
	int rc = s->objects->list(s->objects, prefix, after, epoch_found, &n, e);
	*ret = n.epoch;
	if (n.foreign)
		s->foreign_epoch = n.foreign;
	return rc;
}

static void epoch_text(struct buf *b, const char *id, uint64_t epoch, int64_t nonce)
{
	buf_printf(b, EPOCH_HEAD "\nid %s\nepoch %" PRIu64 "\nnonce %" PRId64 "\n", id, epoch, nonce);
	text_put_checksum(b, 0);
}

/* Whether an epoch that this directory may have taken is its own. The same object is put again, so that this is decided from now on: the put before
 * may still be on its way. */
static int epoch_settle(struct bucket_server *s, struct taking t, bool *ret, struct err *e)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	char name[OBJECT_NAME_MAX];
	object_name_epoch(name, s->id, t.epoch);
	epoch_text(&text, s->id, t.epoch, t.nonce);
	int rc = object_io_put(s->objects, name, buf_view(&text), e);
	*ret = !rc;
	return rc == -ERR_CONFLICT ? 0 : rc;
}

/* ERR_CONFLICT: somebody else has it. */
static int epoch_take(struct bucket_server *s, uint64_t epoch, struct err *e)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	char name[OBJECT_NAME_MAX];
	struct taking t = { epoch, (int64_t)(server_random() >> 1) };
	if (epoch >= OBJECT_EPOCH_MAX)
		return err_set(e, ERR_LIMIT, "the last epoch that there can be is in the bucket, %s/e/%06" PRIx64 ": no server is started so often. Remove that object, "
			       "or use a new server_id", s->id, epoch - 1);
	int rc = server_write(s, t, e); /* if the answer is lost, and then this process, the next start still knows that it is its own */
	object_name_epoch(name, s->id, epoch);
	epoch_text(&text, s->id, epoch, t.nonce);
	return rc ? rc : object_io_put(s->objects, name, buf_view(&text), e);
}

/* ---- fences ---- */

struct last_generation {
	uint64_t epoch, serial;
};

static int fence_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct last_generation *l = arg;
	struct object_name name;
	(void)e;
	if (!object_name_parse(x->key, &name) || name.kind != 'g')
		return 0;
	if (name.stamp.epoch != l->epoch)
		return 1;
	l->serial = name.stamp.serial;
	return 0;
}

/* The last number that an epoch's generations and fences have; 0: it has none. */
static int fence_last(struct bucket_server *s, uint64_t epoch, uint64_t *ret, struct err *e)
{
	char prefix[OBJECT_NAME_MAX], after[OBJECT_NAME_MAX];
	struct last_generation l = { .epoch = epoch };
	object_name_prefix(prefix, s->id, 'g');
	object_name_generation(after, s->id, (struct object_stamp){ epoch, 0 });
	int rc = s->objects->list(s->objects, prefix, after, fence_found, &l, e);
	*ret = l.serial;
	return rc;
}

/* Whether that object is a fence. A damaged one counts as none. */
static int fence_is(struct bucket_server *s, uint64_t epoch, uint64_t number, bool *ret, struct err *e)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct generation g;
	char name[OBJECT_NAME_MAX];
	object_name_generation(name, s->id, (struct object_stamp){ epoch, number });
	int rc = object_io_get_generation(s->objects, name, &bytes, &g, e);
	*ret = !rc && g.kind == GENERATION_FENCE;
	generation_release(&g);
	return rc == -ERR_CORRUPT || rc == -ERR_LIMIT ? 0 : rc;
}

/* Puts a fence behind the generations of an older epoch, unless it has one. Its writer may be putting more: then it is tried behind these. A fence
 * with a number above 1 follows a generation, which may have been removed since. ret_number: of the fence. */
static int fence_epoch(struct bucket_server *s, uint64_t epoch, uint64_t by, bool *ret_any, uint64_t *ret_number, struct err *e)
{
	uint64_t last = 0;
	bool fenced = false;
	int rc = fence_last(s, epoch, &last, e);
	if (!rc && last)
		rc = fence_is(s, epoch, last, &fenced, e);
	*ret_any = last > (fenced ? 1 : 0);
	*ret_number = last;
	if (rc || fenced)
		return rc;
	for (int tries = 0; !rc && tries < FENCE_TRIES; tries++) {
		CLEANUP(buf_free) struct buf bytes = { 0 };
		struct generation g = { .kind = GENERATION_FENCE, .stamp = { epoch, ++last }, .by_epoch = by, .min_ms = 1 };
		char name[OBJECT_NAME_MAX];
		*ret_number = last;
		snprintf(g.id, sizeof g.id, "%s", s->id);
		object_name_generation(name, s->id, g.stamp);
		rc = generation_encode(&g, &bytes, e);
		if (!rc)
			rc = object_io_put(s->objects, name, buf_view(&bytes), e);
		if (rc != -ERR_CONFLICT)
			return rc;
		rc = fence_is(s, epoch, last, &fenced, e); /* another process that starts at this moment may have put this fence */
		if (rc || fenced)
			return rc;
		*ret_any = true;
	}
	return rc ? rc : err_set(e, ERR_CONFLICT, "another process writes as %s, faster than it can be fenced off", s->id);
}

/* The epochs before one that has put a generation have fences: whoever takes an epoch fences before it puts its first. */
static int fence_before(struct bucket_server *s, uint64_t epoch, struct err *e)
{
	int rc = 0;
	bool any = false;
	for (uint64_t before = epoch; --before && !rc && !any;) {
		uint64_t number = 0;
		rc = fence_epoch(s, before, epoch, &any, &number, e);
		if (before == epoch - 1)
			s->fence = (struct object_stamp){ before, number };
		/* The put of a fence tells what is there, should a list be older. */
		if (!rc && before == s->epoch && !s->returning && number > s->noted + 1)
			rc = err_set(e, ERR_UNAVAILABLE, "the bucket has generations of epoch %" PRIu64 " of %s that it has not listed", before, s->id);
	}
	return rc;
}

/* ---- start ---- */

/* Generations of an epoch. */
struct foreign {
	uint64_t epoch;
	VEC(uint64_t) numbers;
};

static int foreign_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct foreign *f = arg;
	struct object_name name;
	(void)e;
	if (!object_name_parse(x->key, &name) || name.kind != 'g')
		return 0;
	if (name.stamp.epoch != f->epoch)
		return 1;
	vec_push(&f->numbers, name.stamp.serial);
	return 0;
}

/* Whether the bucket has a generation of an epoch of this directory that it has not put: then the directory is an old copy. */
static int start_has_foreign(struct bucket_server *s, uint64_t epoch, uint64_t noted, bool *ret, struct err *e)
{
	struct foreign f = { .epoch = epoch };
	char prefix[OBJECT_NAME_MAX], after[OBJECT_NAME_MAX];
	bool fence = false;
	if (!epoch)
		return 0;
	object_name_prefix(prefix, s->id, 'g');
	object_name_generation(after, s->id, (struct object_stamp){ epoch, noted });
	int rc = s->objects->list(s->objects, prefix, after, foreign_found, &f, e);
	for (size_t i = 0; i < f.numbers.n && !rc && !*ret; i++) {
		rc = fence_is(s, epoch, f.numbers.v[i], &fence, e);
		if (rc == -ERR_NOT_FOUND)
			rc = 0;
		else
			*ret = !rc && !fence;
	}
	vec_free(&f.numbers);
	return rc;
}

/* Whether this directory is the one that wrote last under its id. ret_newest: the newest epoch. */
static int start_is_last(struct bucket_server *s, struct taking t, uint64_t *ret_newest, bool *ret, struct err *e)
{
	uint64_t newest = 0, had = s->epoch;
	bool own = false, foreign = false;
	int rc = epoch_newest(s, s->id, s->epoch, &newest, e);
	if (!rc && t.epoch > s->epoch && newest <= t.epoch) {
		rc = epoch_settle(s, t, &own, e);
		newest = t.epoch;
	}
	if (!rc && !s->returning) /* else that epoch is of the disk that was lost */
		rc = start_has_foreign(s, had, s->noted, &foreign, e);
	if (!rc && own)
		rc = start_has_foreign(s, newest, 0, &foreign, e);
	if (!rc && own) {
		s->epoch = newest;
		s->noted = 0;
	}
	*ret_newest = newest;
	*ret = newest == s->epoch && !foreign;
	return rc;
}

/* Decides the id and the epoch to take. */
static int start_choose(struct bucket_server *s, struct taking t, uint64_t *ret_epoch, struct err *e)
{
	uint64_t newest = 0;
	bool last = false;
	char old[SERVER_ID_MAX + 1];
	int rc = 0;
	snprintf(old, sizeof old, "%s", s->id);
	if (s->id[0] && server_is_wanted(s)) {
		rc = start_is_last(s, t, &newest, &last, e);
		*ret_epoch = newest + 1;
		if (rc || last)
			return rc;
		server_new_id(s->id, s->wanted[0] ? s->wanted : old);
		snprintf(s->why, sizeof s->why, "another process has gone on as %s (epoch %" PRIu64 ", this directory has %" PRIu64 "): this directory goes on as %s",
			 old, newest, s->epoch, s->id);
		LOG_WARN("msg", "the id of this directory is used by another process: it takes a new one", "id", old, "new_id", s->id, "epoch",
			 LOG_NUM(s->epoch), "newest", LOG_NUM(newest));
	} else if (s->wanted[0]) {
		snprintf(s->id, sizeof s->id, "%s", s->wanted);
		rc = epoch_newest(s, s->id, 0, &newest, e);
		if (!rc && newest && !s->was_empty) {
			server_new_id(s->id, s->wanted);
			snprintf(s->why, sizeof s->why, "%s has days in the bucket that are not of this directory: it goes on as %s. To go on as %s, start "
				 "with an empty directory", s->wanted, s->id, s->wanted);
			LOG_WARN("msg", "the configured id has days in the bucket that are not of this directory: the directory takes a new id", "id",
				 s->wanted, "new_id", s->id);
			newest = 0;
		}
		s->returning = newest > 0;
		*ret_epoch = newest + 1;
		s->epoch = newest;
		s->base = newest + 1;
		return rc;
	} else {
		server_host_id(s->id);
	}
	s->epoch = 0;
	s->returning = false;
	*ret_epoch = 1;
	return rc;
}

int bucket_server_start(struct bucket_server *s, struct err *e)
{
	struct bucket_server next = *s; /* the lock is not used in it */
	struct taking t;
	uint64_t epoch = 0;
	int rc = server_read(&next, &t, e);
	if (!rc)
		rc = start_choose(&next, t, &epoch, e);
	if (!rc)
		rc = epoch_take(&next, epoch, e);
	if (rc == -ERR_CONFLICT)
		return err_set(e, ERR_BUSY, "another process is taking epoch %" PRIu64 " of %s at this moment", epoch, next.id);
	if (!rc)
		rc = fence_before(&next, epoch, e);
	next.epoch = epoch;
	next.noted = 0;
	if (!next.base)
		next.base = s->was_empty ? epoch : 0;
	if (!rc)
		rc = server_write(&next, (struct taking){ 0 }, e);
	s->foreign_epoch = next.foreign_epoch;
	if (rc)
		return rc;
	mutex_lock(&s->lock);
	memcpy(s->id, next.id, sizeof s->id);
	memcpy(s->why, next.why, sizeof s->why);
	s->epoch = epoch;
	s->base = next.base;
	s->returning = next.returning;
	s->fence = next.fence;
	s->noted = 0;
	s->next_generation = s->next_serial = 1;
	s->state = BUCKET_WRITES;
	mutex_unlock(&s->lock);
	return 0;
}

int bucket_server_begin_alone(struct bucket_server *s, struct err *e)
{
	struct bucket_server file = { .dir = s->dir };
	struct taking t;
	int rc = server_read(&file, &t, e);
	if (rc || !file.returning)
		return rc;
	AUTOFREE char *path = xasprintf("%s/" FILE_NAME, s->dir);
	if (unlink(path))
		return err_errno(e, errno, "cannot remove %s", path);
	LOG_WARN("msg", "the bucket does not answer and this directory is empty: it begins anew, and takes another id when the bucket answers", "id", file.id);
	mutex_lock(&s->lock);
	s->id[0] = 0;
	s->epoch = s->base = s->noted = 0;
	s->returning = false;
	mutex_unlock(&s->lock);
	return files_sync_dir(s->dir, e);
}

int bucket_server_note_generation(struct bucket_server *s, uint64_t number, struct err *e)
{
	uint64_t was = s->noted;
	if (number <= was)
		return 0;
	s->noted = number;
	int rc = server_write(s, (struct taking){ 0 }, e);
	if (rc)
		s->noted = was;
	return rc;
}

int bucket_server_returned(struct bucket_server *s, struct err *e)
{
	if (!s->returning)
		return 0;
	s->returning = false;
	int rc = server_write(s, (struct taking){ 0 }, e);
	s->returning = rc != 0;
	return rc;
}

void bucket_server_fenced(struct bucket_server *s, const char *why)
{
	mutex_lock(&s->lock);
	s->state = BUCKET_FENCED;
	snprintf(s->why, sizeof s->why, "%s", why);
	mutex_unlock(&s->lock);
	LOG_ERROR("msg", "this server does not write to its bucket any more", "id", s->id, "epoch", LOG_NUM(s->epoch), "why", why);
}

/* A list may lag behind, so the object is asked for as well. */
static int epoch_restore(struct bucket_server *s, bool *ret_lost, struct err *e)
{
	CLEANUP(buf_free) struct buf has = { .max = EPOCH_BYTES }, text = { 0 };
	char name[OBJECT_NAME_MAX];
	object_name_epoch(name, s->id, s->epoch);
	int rc = object_io_get(s->objects, name, &has, e);
	if (rc != -ERR_NOT_FOUND)
		return rc == -ERR_LIMIT ? 0 : rc;
	epoch_text(&text, s->id, s->epoch, (int64_t)(server_random() >> 1));
	rc = object_io_put(s->objects, name, buf_view(&text), e);
	if (rc == -ERR_CONFLICT)
		bucket_server_fenced(s, "somebody emptied the bucket, and another process has taken the epoch of this one since");
	*ret_lost = !rc;
	return rc;
}

int bucket_server_check(struct bucket_server *s, bool *ret_lost, struct err *e)
{
	struct newest_epoch n = { .epoch = s->epoch, .own = s->epoch };
	char why[256], prefix[OBJECT_NAME_MAX], after[OBJECT_NAME_MAX] = "";
	object_name_prefix(prefix, s->id, 'e');
	if (s->epoch > 1)
		object_name_epoch(after, s->id, s->epoch - 1);
	int rc = s->objects->list(s->objects, prefix, after, epoch_found, &n, e);
	if (n.foreign)
		s->foreign_epoch = n.foreign;
	if (!rc && n.epoch == s->epoch && !n.has_own && ret_lost)
		return epoch_restore(s, ret_lost, e);
	if (rc || n.epoch == s->epoch)
		return rc;
	snprintf(why, sizeof why, "another process has taken epoch %" PRIu64 " of %s, this one has %" PRIu64 ": two servers have the same id or directory", n.epoch,
		 s->id, s->epoch);
	bucket_server_fenced(s, why);
	return err_set(e, ERR_CONFLICT, "%s", why);
}

/* ---- any thread ---- */

enum bucket_state bucket_server_state(struct bucket_server *s, char ret_id[SERVER_ID_MAX + 1], char *ret_why, size_t why_len)
{
	mutex_lock(&s->lock);
	enum bucket_state state = s->state;
	memcpy(ret_id, s->id, SERVER_ID_MAX + 1);
	snprintf(ret_why, why_len, "%s", s->why);
	mutex_unlock(&s->lock);
	return state;
}

struct object_stamp bucket_server_stamp(struct bucket_server *s)
{
	mutex_lock(&s->lock);
	struct object_stamp x = { s->epoch, s->next_serial++ };
	mutex_unlock(&s->lock);
	return x;
}
