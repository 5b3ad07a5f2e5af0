/* SPDX-License-Identifier: Apache-2.0 */
/* What bucket.c makes of attempts that fail, of lost answers and broken connections, and what it lets through at once: over a backend of this
 * file that keeps one object in memory and does what a script says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/flag.h"
#include "base/metrics.h"
#include "base/sha256.h"
#include "base/testwait.h"
#include "base/thread.h"
#include "bucket/backend.h"

#define PIECE ((size_t)64 << 10)
#define WAITS_MS 3600000 /* of a bucket that a test ends by its flag */

/* ---- the backend ---- */

/* What one attempt does. The last step of a script goes on for ever. */
struct step {
	enum err_code code;      /* ERR_NONE: as a store does it */
	bool stores;             /* put: although it fails */
	uint64_t cut;            /* get: it fails, or ends, after so many bytes; 0 = none are sent */
	bool ends;               /* get: the cut is no error */
	uint64_t more;           /* get: so many bytes more than were asked for */
	bool swallows;           /* get, put: an error of the callback is no error of the attempt */
	uint64_t size;           /* get: said of the object; 0 = its own */
	int64_t retry_after_ms;
	bool forgets;            /* put: it says that the object exists, and removes it */
};

static struct {
	struct backend backend;  /* first */
	struct bucket *bucket;
	struct objects *o;
	struct step script[16];
	int steps;
	_Atomic int attempts;    /* of all kinds */
	_Atomic int puts;
	int64_t silence_ms;      /* of the last list */
	struct buf object;
	bool is_there;
	/* of lists */
	const char *keys[16];
	size_t n_keys, page;
	bool empty_page;
	/* places */
	_Atomic int running, most;
	_Atomic bool hold;       /* attempts wait while this is set */
	atomic_bool stop;
} F;

static struct step next_step(void)
{
	int i = atomic_fetch_add(&F.attempts, 1);
	return F.steps ? F.script[MIN(i, F.steps - 1)] : (struct step){ 0 };
}

static int fake_error(const struct step *s, struct backend_attempt *a, struct err *e)
{
	a->retry_after_ms = s->retry_after_ms;
	return s->code ? err_set(e, s->code, "the script says %d", s->code) : 0;
}

/* Counts who is within an attempt, and waits there while F.hold. */
static void stay(void)
{
	int n = atomic_fetch_add(&F.running, 1) + 1;
	for (int most = F.most; n > most && !atomic_compare_exchange_weak(&F.most, &most, n);)
		;
	while (F.hold)
		clock_sleep_ms(1);
	atomic_fetch_sub(&F.running, 1);
}

static int fake_store(const struct objects_body *body, struct err *e)
{
	char piece[PIECE];
	struct buf b = { 0 };
	int rc = 0;
	for (uint64_t at = 0; at < body->size && !rc;) {
		size_t n = (size_t)MIN(body->size - at, (uint64_t)PIECE);
		rc = body->read(body->arg, at, piece, n, e);
		buf_put(&b, piece, n);
		at += n;
	}
	if (!rc && !F.is_there) {
		buf_free(&F.object);
		F.object = b;
		F.is_there = true;
		return 0;
	}
	buf_free(&b);
	return rc;
}

static int fake_put(struct backend *b, const char *key, const struct objects_body *body, struct backend_attempt *a, struct err *e)
{
	struct step s = next_step();
	(void)b, (void)key;
	atomic_fetch_add(&F.puts, 1);
	stay();
	if (s.forgets)
		F.is_there = false;
	if (s.stores || !s.code) {
		bool was_there = F.is_there;
		int rc = fake_store(body, e);
		if (rc)
			return s.swallows ? err_set(e, ERR_UNAVAILABLE, "swallowed") : rc;
		if (was_there && !s.code)
			return err_set(e, ERR_CONFLICT, "it exists");
	}
	return fake_error(&s, a, e);
}

static int fake_get(struct backend *b, const char *key, uint64_t offset, uint64_t length,
		    int (*data)(void *arg, const char *p, size_t n, struct err *e), void *arg, uint64_t *ret_size, struct backend_attempt *a,
		    struct err *e)
{
	struct step s = next_step();
	(void)b, (void)key;
	stay();
	if (s.code && !s.cut)
		return fake_error(&s, a, e);
	if (!F.is_there)
		return err_set(e, ERR_NOT_FOUND, "there is none");
	uint64_t size = F.object.len, end = offset < size ? offset + MIN(length, size - offset) : offset;
	int rc = 0;
	*ret_size = s.size ? s.size : size;
	if (s.cut)
		end = MIN(end, offset + s.cut);
	for (uint64_t at = offset; at < end && !rc;) {
		size_t n = (size_t)MIN(end - at, (uint64_t)PIECE);
		rc = data(arg, F.object.ptr + at, n, e);
		at += n;
	}
	if (!rc && s.more)
		rc = data(arg, F.object.ptr, s.more, e);
	if (rc)
		return s.swallows ? err_set(e, ERR_UNAVAILABLE, "swallowed") : rc;
	return s.ends ? 0 : fake_error(&s, a, e);
}

static int fake_list(struct backend *b, const char *prefix, const char *after, struct backend_page *page, struct backend_attempt *a, struct err *e)
{
	struct step s = next_step();
	F.silence_ms = a->silence_ms;
	(void)b, (void)prefix;
	int rc = 0;
	for (size_t i = 0; i < F.n_keys && !rc; i++) {
		if (strcmp(F.keys[i], after) <= 0 && *after)
			continue;
		page->more = page->v.n == F.page;
		if (page->more)
			break;
		rc = backend_page_add(page, &(struct objects_found){ .key = F.keys[i], .size = i }, e);
	}
	if (F.empty_page) {
		page->v.n = 0;
		page->more = true;
	}
	return rc ? rc : fake_error(&s, a, e); /* a page that fails has objects in it already */
}

static int fake_remove(struct backend *b, const char *key, struct backend_attempt *a, struct err *e)
{
	struct step s = next_step();
	(void)b, (void)key;
	return fake_error(&s, a, e);
}

static void fake_free(struct backend *b)
{
	(void)b;
}

/* A bucket over the backend. Waits are short unless a test says otherwise. */
static void begin(const struct bucket_settings *settings, const struct step *script, int steps)
{
	static const struct backend_ops ops = { .kind = "fake", .put_once = fake_put, .get_once = fake_get, .list_page = fake_list,
						.remove_once = fake_remove, .free = fake_free };
	struct bucket_settings s = bucket_settings_default;
	if (settings)
		s = *settings;
	else
		s.first_wait_ms = s.longest_wait_ms = 2;
	bucket_free(F.bucket);
	buf_free(&F.object);
	memset(&F, 0, sizeof F);
	F.backend.ops = &ops;
	if (steps)
		memcpy(F.script, script, (size_t)steps * sizeof *script);
	F.steps = steps;
	s.stop = &F.stop;
	F.bucket = bucket_new(&F.backend, &s);
	F.o = bucket_objects(F.bucket);
}
#define SCRIPT(...) begin(NULL, (struct step[]){ __VA_ARGS__ }, (int)ARRAY_LEN(((struct step[]){ __VA_ARGS__ })))

static int end(void **state)
{
	(void)state;
	bucket_free(TAKE_PTR(F.bucket));
	buf_free(&F.object);
	return 0;
}

static char *text_of(size_t n)
{
	char *p = xmalloc(n + 1);
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 7 + i / 251);
	return p;
}

static void keep_object(size_t n)
{
	AUTOFREE char *p = text_of(n);
	buf_put(&F.object, p, n);
	F.is_there = true;
}

static int read_text(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	(void)e;
	memcpy(p, (const char *)arg + offset, n);
	return 0;
}

static int put(const char *text, size_t n, struct err *e)
{
	struct objects_body b = { .size = n, .read = read_text, .arg = (void *)text };
	sha256_of(view_make(text, n), b.sha256);
	return F.o->put(F.o, "a/b", &b, e);
}

static int collect(void *arg, const char *p, size_t n, struct err *e)
{
	(void)e;
	buf_put(arg, p, n);
	return 0;
}

/* ---- attempts ---- */

static void what_may_pass_is_repeated(void **state)
{
	static const enum err_code codes[] = { ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_BUSY };
	struct err e = { 0 };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		SCRIPT({ .code = codes[i] }, { .code = codes[i] }, { 0 });
		assert_int_equal(put("text", 4, &e), 0);
		assert_int_equal(F.attempts, 3);
		assert_int_equal(e.code, ERR_NONE);
		struct buf b = { 0 };
		SCRIPT({ .code = codes[i] }, { .code = codes[i] }, { 0 });
		keep_object(1000);
		assert_int_equal(F.o->get(F.o, "a", 0, UINT64_MAX, collect, &b, NULL, &e), 0);
		assert_int_equal(b.len, 1000);
		assert_int_equal(F.attempts, 3);
		buf_free(&b);
		SCRIPT({ .code = codes[i] }, { .code = codes[i] }, { 0 });
		assert_int_equal(F.o->remove(F.o, "a", &e), 0);
		assert_int_equal(F.attempts, 3);
	}
}

static int found_none(void *arg, const struct objects_found *x, struct err *e)
{
	(void)arg, (void)x, (void)e;
	return 0;
}

/* A caller in a hurry is told soon: no attempt begins later than its patience lasts. */
static void patience_ends(void **state)
{
	struct err e = { 0 };
	(void)state;
	SCRIPT({ .code = ERR_TIMEOUT, .retry_after_ms = 20 });
	F.o->patience_ms = 10;
	assert_int_equal(F.o->list(F.o, "a/", "", found_none, NULL, &e), -ERR_TIMEOUT);
	assert_int_equal(F.attempts, 1);
	assert_int_equal(F.silence_ms, 10);
	F.o->patience_ms = 0;
	assert_int_equal(F.o->list(F.o, "a/", "", found_none, NULL, &e), -ERR_TIMEOUT);
	assert_int_equal(F.attempts, 1 + 5);
	assert_int_equal(F.silence_ms, 0);
}

static void what_does_not_pass_is_not(void **state)
{
	static const enum err_code codes[] = { ERR_DENIED, ERR_LIMIT, ERR_BAD_DATA, ERR_IO, ERR_CORRUPT, ERR_INTERNAL, ERR_CANCELED };
	struct err e = { 0 };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		SCRIPT({ .code = codes[i] }, { 0 });
		assert_int_equal(put("text", 4, &e), -(int)codes[i]);
		assert_int_equal(F.attempts, 1);
		SCRIPT({ .code = codes[i] }, { 0 });
		assert_int_equal(F.o->remove(F.o, "a", &e), -(int)codes[i]);
		assert_int_equal(F.attempts, 1);
		assert_non_null(strstr(e.msg, "the script says"));
	}
}

static void attempts_have_an_end(void **state)
{
	struct bucket_settings s = bucket_settings_default;
	struct err e = { 0 };
	(void)state;
	SCRIPT({ .code = ERR_UNAVAILABLE });
	assert_int_equal(put("text", 4, &e), -ERR_UNAVAILABLE);
	assert_int_equal(F.attempts, 5);
	assert_non_null(strstr(e.msg, "the script says"));
	/* A store that wants to be left alone for longer than a call may last. */
	begin(&s, &(struct step){ .code = ERR_BUSY, .retry_after_ms = s.patience_ms + 1 }, 1);
	assert_int_equal(put("text", 4, &e), -ERR_BUSY);
	assert_int_equal(F.attempts, 1);
	/* No attempt begins after the patience. */
	s.first_wait_ms = s.longest_wait_ms = 1;
	s.attempts = 1000000;
	s.patience_ms = 100;
	begin(&s, &(struct step){ .code = ERR_BUSY, .retry_after_ms = 30 }, 1);
	int64_t from = clock_mono_ms();
	assert_int_equal(put("text", 4, &e), -ERR_BUSY);
	assert_in_range(F.attempts, 2, 4);
	assert_true(clock_mono_ms() - from >= 30);
}

/* A store that asks for a pause gets it. */
static void a_pause_that_is_asked_for(void **state)
{
	int64_t from = clock_mono_ms();
	(void)state;
	SCRIPT({ .code = ERR_BUSY, .retry_after_ms = 150 }, { 0 });
	assert_int_equal(put("text", 4, NULL), 0);
	assert_true(clock_mono_ms() - from >= 150);
	assert_int_equal(F.attempts, 2);
}

/* ---- put ---- */

static void a_lost_answer(void **state)
{
	AUTOFREE char *p = text_of(3 * PIECE + 5);
	(void)state;
	SCRIPT({ .code = ERR_TIMEOUT, .stores = true }, { 0 });
	assert_int_equal(put(p, 3 * PIECE + 5, NULL), 0);
	assert_int_equal(F.puts, 2); /* and a get, which found the same */
	assert_int_equal(F.attempts, 3);
	SCRIPT({ .code = ERR_UNAVAILABLE, .stores = true }, { .code = ERR_UNAVAILABLE }, { 0 }, { .code = ERR_UNAVAILABLE }, { 0 });
	assert_int_equal(put(p, 3 * PIECE + 5, NULL), 0);
	SCRIPT({ .code = ERR_TIMEOUT, .stores = true }, { 0 });
	assert_int_equal(put("", 0, NULL), 0);
}

static void another_ones_object(void **state)
{
	AUTOFREE char *p = text_of(2 * PIECE);
	struct err e = { 0 };
	(void)state;
	SCRIPT({ 0 });
	keep_object(2 * PIECE);
	assert_int_equal(put(p, 2 * PIECE, &e), 0); /* the same content */
	assert_int_equal(put(p, 2 * PIECE - 1, &e), -ERR_CONFLICT); /* longer */
	assert_int_equal(put(p, 0, &e), -ERR_CONFLICT);
	p[PIECE + 3] ^= 1;
	assert_int_equal(put(p, 2 * PIECE, &e), -ERR_CONFLICT); /* another one of the same size */
	assert_non_null(strstr(e.msg, "a/b: an object with another content"));
	end(NULL);
	SCRIPT({ 0 });
	keep_object(PIECE);
	assert_int_equal(put(p, 2 * PIECE, &e), -ERR_CONFLICT); /* shorter */
	/* Rights to put alone. */
	SCRIPT({ .code = ERR_CONFLICT }, { .code = ERR_DENIED });
	keep_object(PIECE);
	assert_int_equal(put("x", 1, &e), -ERR_DENIED);
	assert_non_null(strstr(e.msg, "to be compared"));
}

static void an_object_that_went(void **state)
{
	struct err e = { 0 };
	(void)state;
	SCRIPT({ .code = ERR_CONFLICT, .forgets = true }, { 0 }, { 0 });
	keep_object(10);
	assert_int_equal(put("text", 4, &e), 0);
	assert_int_equal(F.puts, 2);
	assert_int_equal(F.object.len, 4);
	SCRIPT({ .code = ERR_CONFLICT, .forgets = true }); /* of a get: another error; so it ends */
	F.script[1] = (struct step){ 0 };
	for (int i = 0; i < 16; i++)
		F.script[i] = i % 2 ? (struct step){ 0 } : (struct step){ .code = ERR_CONFLICT, .forgets = true };
	F.steps = 16;
	assert_int_equal(put("text", 4, &e), -ERR_UNAVAILABLE);
	assert_int_equal(F.puts, 5);
}

static int read_fails(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	(void)offset, (void)p, (void)n;
	(*(int *)arg)++;
	return err_set(e, ERR_UNAVAILABLE, "the disk is away");
}

/* An error of the caller's own disk is no failure of the store, whatever it looks like. */
static void a_body_that_cannot_be_read(void **state)
{
	int calls = 0;
	struct objects_body b = { .size = 10, .read = read_fails, .arg = &calls };
	struct err e = { 0 };
	(void)state;
	SCRIPT({ 0 });
	assert_int_equal(F.o->put(F.o, "a", &b, &e), -ERR_UNAVAILABLE);
	assert_string_equal(e.msg, "the disk is away");
	assert_int_equal(calls, 1);
	SCRIPT({ .swallows = true });
	assert_int_equal(F.o->put(F.o, "a", &b, &e), -ERR_UNAVAILABLE);
	assert_string_equal(e.msg, "the disk is away");
	assert_int_equal(calls, 2);
}

/* ---- get ---- */

static void get_all(uint64_t offset, uint64_t length, uint64_t want, int attempts)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	uint64_t size = 0;
	if (F.o->get(F.o, "a", offset, length, collect, &b, &size, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(size, F.object.len);
	assert_int_equal(b.len, want);
	assert_true(!want || !memcmp(b.ptr, F.object.ptr + offset, want));
	if (attempts)
		assert_int_equal(F.attempts, attempts);
	buf_free(&b);
}

static void a_get_goes_on_where_it_stopped(void **state)
{
	(void)state;
	SCRIPT({ .code = ERR_UNAVAILABLE, .cut = 100 }, { .code = ERR_TIMEOUT }, { .code = ERR_UNAVAILABLE, .cut = PIECE + 1 }, { 0 });
	keep_object(3 * PIECE);
	get_all(0, UINT64_MAX, 3 * PIECE, 4);
	SCRIPT({ .code = ERR_UNAVAILABLE, .cut = 100 }, { 0 });
	keep_object(3 * PIECE);
	get_all(50, 2 * PIECE, 2 * PIECE, 2);
	/* Half a body without an error. */
	SCRIPT({ .cut = 100, .ends = true }, { .cut = 7, .ends = true }, { 0 });
	keep_object(3 * PIECE);
	get_all(0, UINT64_MAX, 3 * PIECE, 3);
	/* A reset behind the last byte. */
	SCRIPT({ .code = ERR_UNAVAILABLE, .cut = 3 * PIECE });
	keep_object(3 * PIECE);
	get_all(0, UINT64_MAX, 3 * PIECE, 1);
	get_all(10, 20, 20, 2);
	/* Each attempt brings enough for another one: 40 of them. */
	SCRIPT({ .code = ERR_UNAVAILABLE, .cut = PIECE });
	keep_object(40 * PIECE);
	get_all(0, UINT64_MAX, 40 * PIECE, 40);
	/* Of nothing: whether it is there. */
	SCRIPT({ 0 });
	keep_object(10);
	get_all(3, 0, 0, 1);
}

static void a_get_has_an_end(void **state)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	uint64_t size = 5;
	(void)state;
	SCRIPT({ .code = ERR_UNAVAILABLE, .cut = 10 }); /* a byte now and then */
	keep_object(3 * PIECE);
	assert_int_equal(F.o->get(F.o, "a", 0, UINT64_MAX, collect, &b, &size, &e), -ERR_UNAVAILABLE);
	assert_int_equal(F.attempts, 5);
	assert_int_equal(b.len, 50);
	assert_int_equal(size, 5);
	/* Another object than before. */
	SCRIPT({ .code = ERR_UNAVAILABLE, .cut = 10 }, { .size = 77 });
	keep_object(3 * PIECE);
	assert_int_equal(F.o->get(F.o, "a", 0, UINT64_MAX, collect, &b, &size, &e), -ERR_CORRUPT);
	/* More than was asked for. */
	SCRIPT({ .more = 1, .swallows = true });
	keep_object(3 * PIECE);
	assert_int_equal(F.o->get(F.o, "a", 0, 100, collect, &b, &size, &e), -ERR_CORRUPT);
	assert_int_equal(F.attempts, 1);
	buf_free(&b);
}

static int refuse(void *arg, const char *p, size_t n, struct err *e)
{
	(void)p, (void)n;
	(*(int *)arg)++;
	return err_set(e, ERR_TIMEOUT, "no more of this");
}

static void who_receives_may_end_it(void **state)
{
	int calls = 0;
	struct err e = { 0 };
	(void)state;
	for (int i = 0; i < 2; i++) {
		SCRIPT({ .swallows = i == 1 });
		keep_object(3 * PIECE);
		assert_int_equal(F.o->get(F.o, "a", 0, UINT64_MAX, refuse, &calls, NULL, &e), -ERR_TIMEOUT);
		assert_string_equal(e.msg, "no more of this");
		assert_int_equal(F.attempts, 1);
		assert_int_equal(calls, i + 1);
	}
}

/* ---- list ---- */

static int add_key(void *arg, const struct objects_found *x, struct err *e)
{
	(void)e;
	buf_printf(arg, "%s ", x->key);
	return 0;
}

static int list(const char *prefix, const char *after, const char *want, struct err *e)
{
	struct buf b = { 0 };
	int rc = F.o->list(F.o, prefix, after, add_key, &b, e);
	if (want)
		assert_string_equal(b.ptr ? b.ptr : "", want);
	buf_free(&b);
	return rc;
}

#define KEYS(...) (memcpy(F.keys, (const char *[]){ __VA_ARGS__ }, sizeof((const char *[]){ __VA_ARGS__ })), F.n_keys = ARRAY_LEN(((const char *[]){ __VA_ARGS__ })))

static void pages(void **state)
{
	struct bucket_settings s = bucket_settings_default;
	struct err e = { 0 };
	(void)state;
	SCRIPT({ .code = ERR_UNAVAILABLE }, { .code = ERR_BUSY }, { 0 }, { .code = ERR_TIMEOUT }, { 0 });
	KEYS("a", "b", "c", "d", "e");
	F.page = 2;
	assert_int_equal(list("", "", "a b c d e ", &e), 0);
	assert_int_equal(F.attempts, 6);
	/* What no call of ours made is passed over, also at the end of a page. */
	s.prefix = "P/q";
	begin(&s, NULL, 0);
	KEYS("P/q/", "P/q/A", "P/q/a", "P/q/b//c", "P/q/c_", "P/q/d", "P/q/../e");
	F.n_keys = 6;
	F.page = 2;
	assert_int_equal(list("", "", "a d ", &e), 0);
	assert_int_equal(list("", "a", "d ", &e), 0);
}

static void lists_that_are_none(void **state)
{
	struct err e = { 0 };
	(void)state;
	SCRIPT({ 0 });
	F.page = 10;
	KEYS("a", "c", "b");
	assert_int_equal(list("", "", "a c ", &e), -ERR_CORRUPT);
	KEYS("a", "a");
	assert_int_equal(list("", "", "a ", &e), -ERR_CORRUPT);
	KEYS("a/b", "c");
	assert_int_equal(list("a/", "", "a/b ", &e), -ERR_CORRUPT); /* not what was asked for */
	F.empty_page = true;
	assert_int_equal(list("", "", "", &e), -ERR_CORRUPT); /* else the list would ask for the next page for ever */
	assert_non_null(strstr(e.msg, "empty page"));
}

static void a_page_has_a_limit(void **state)
{
	struct backend_page p;
	struct err e = { 0 };
	char key[BACKEND_KEY_MAX + 2];
	(void)state;
	memset(key, 'k', sizeof key);
	key[BACKEND_KEY_MAX + 1] = 0;
	backend_page_init(&p);
	assert_int_equal(backend_page_add(&p, &(struct objects_found){ .key = key }, &e), -ERR_CORRUPT);
	key[BACKEND_KEY_MAX] = 0;
	for (int i = 0; i < BACKEND_PAGE; i++)
		assert_int_equal(backend_page_add(&p, &(struct objects_found){ .key = key }, &e), 0);
	assert_int_equal(backend_page_add(&p, &(struct objects_found){ .key = "a" }, &e), -ERR_CORRUPT);
	backend_page_free(&p);
}

/* ---- stop, and limits ---- */

struct caller {
	pthread_t thread;
	int rc;
	struct err e;
	_Atomic bool done;
};

static void *call_put(void *arg)
{
	struct caller *c = arg;
	c->rc = put("text", 4, &c->e);
	c->done = true;
	return NULL;
}

static void start(struct caller *c, int n)
{
	struct err e = { 0 };
	for (int i = 0; i < n; i++)
		assert_int_equal(thread_start(&c[i].thread, "caller", call_put, &c[i], &e), 0);
}

static void join(struct caller *c, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(c[i].thread, NULL);
}

/* The store says to try again in an hour. Raising the stop flag ends the wait at once. */
static void stop_ends_a_wait(void **state)
{
	struct bucket_settings s = bucket_settings_default;
	(void)state;
	s.patience_ms = 2 * (int64_t)WAITS_MS;
	for (int raised = 0; raised < 2; raised++) {
		struct caller c = { 0 };
		begin(&s, &(struct step){ .code = ERR_BUSY, .retry_after_ms = WAITS_MS }, 1);
		start(&c, 1);
		assert_true(TEST_WAIT(F.attempts == 1));
		assert_false(c.done);
		if (raised)
			flag_raise(&F.stop);
		else
			F.stop = true; /* without flag_raise, which would wake the waiting thread */
		join(&c, 1);
		assert_int_equal(c.rc, -ERR_CANCELED);
		assert_int_equal(F.attempts, 1);
		assert_int_equal(put("text", 4, NULL), -ERR_CANCELED); /* and nothing begins any more */
		assert_int_equal(F.attempts, 1);
	}
}

static void stop_ends_the_wait_for_a_place(void **state)
{
	struct bucket_settings s = bucket_settings_default;
	struct caller c[5] = { 0 };
	(void)state;
	s.requests = 2;
	begin(&s, NULL, 0);
	F.hold = true;
	start(c, 5);
	assert_true(TEST_WAIT(F.running == 2));
	F.stop = true;
	assert_true(TEST_WAIT(c[0].done + c[1].done + c[2].done + c[3].done + c[4].done == 3));
	F.hold = false;
	join(c, 5);
	assert_int_equal(F.most, 2);
}

static void requests_at_once(void **state)
{
	struct bucket_settings s = bucket_settings_default;
	struct caller c[20] = { 0 };
	(void)state;
	s.requests = 3;
	begin(&s, &(struct step){ 0 }, 1);
	keep_object(0);
	F.hold = true;
	start(c, 20);
	assert_true(TEST_WAIT(F.running == 3));
	clock_sleep_ms(30);
	assert_int_equal(F.running, 3);
	F.hold = false;
	join(c, 20);
	assert_int_equal(F.most, 3);
	assert_int_equal(F.puts, 20);
}

/* 16 pieces at 160 a second: the first passes at once, the last after 15/160 s. */
static void bytes_a_second(void **state)
{
	struct bucket_settings s = bucket_settings_default;
	AUTOFREE char *p = text_of(16 * PIECE);
	(void)state;
	s.upload_limit = 160 * PIECE;
	s.download_limit = 80 * PIECE;
	begin(&s, NULL, 0);
	int64_t from = clock_mono_ms();
	assert_int_equal(put(p, 16 * PIECE, NULL), 0);
	assert_true(clock_mono_ms() - from >= 90);
	from = clock_mono_ms();
	get_all(0, UINT64_MAX, 16 * PIECE, 0);
	assert_true(clock_mono_ms() - from >= 180);
	/* A limit that would take hours ends with the flag. */
	struct caller c = { 0 };
	s.upload_limit = 1;
	begin(&s, NULL, 0);
	assert_int_equal(put("x", 1, NULL), 0); /* this caller may send its next byte in a second, and the next caller its first one four seconds later */
	F.is_there = false;
	assert_int_equal(put("longer", 6, NULL), 0);
	F.is_there = false;
	start(&c, 1);
	clock_sleep_ms(20);
	flag_raise(&F.stop);
	join(&c, 1);
	assert_int_equal(c.rc, -ERR_CANCELED);
}

/* ---- metrics ---- */

static void what_is_counted(void **state)
{
	struct buf b = { 0 }, got = { 0 };
	(void)state;
	bucket_register_metrics();
	SCRIPT({ .code = ERR_TIMEOUT, .stores = true }, { 0 });
	assert_int_equal(put("text", 4, NULL), 0);
	assert_int_equal(F.o->get(F.o, "a", 0, UINT64_MAX, collect, &got, NULL, NULL), 0);
	metrics_render(&b);
	assert_non_null(strstr(b.ptr, "pyrrha_object_storage_requests_total{operation=\"put\",result=\"timeout\"} 1\n"));
	assert_non_null(strstr(b.ptr, "pyrrha_object_storage_requests_total{operation=\"put\",result=\"exists\"} 1\n"));
	assert_non_null(strstr(b.ptr, "pyrrha_object_storage_requests_total{operation=\"get\",result=\"ok\"} 2\n"));
	assert_non_null(strstr(b.ptr, "pyrrha_object_storage_retries_total{operation=\"put\"} 1\n"));
	assert_non_null(strstr(b.ptr, "pyrrha_object_storage_bytes_total{direction=\"sent\"} 8\n"));
	assert_non_null(strstr(b.ptr, "pyrrha_object_storage_bytes_total{direction=\"received\"} 8\n"));
	assert_non_null(strstr(b.ptr, "pyrrha_object_storage_request_duration_seconds_count{operation=\"put\"} 2\n"));
	assert_null(strstr(b.ptr, "a/b"));
	buf_free(&b);
	buf_free(&got);
	metrics_free();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_may_pass_is_repeated, end), cmocka_unit_test_teardown(patience_ends, end),
		cmocka_unit_test_teardown(what_does_not_pass_is_not, end),
		cmocka_unit_test_teardown(attempts_have_an_end, end),
		cmocka_unit_test_teardown(a_pause_that_is_asked_for, end),
		cmocka_unit_test_teardown(a_lost_answer, end),
		cmocka_unit_test_teardown(another_ones_object, end),
		cmocka_unit_test_teardown(an_object_that_went, end),
		cmocka_unit_test_teardown(a_body_that_cannot_be_read, end),
		cmocka_unit_test_teardown(a_get_goes_on_where_it_stopped, end),
		cmocka_unit_test_teardown(a_get_has_an_end, end),
		cmocka_unit_test_teardown(who_receives_may_end_it, end),
		cmocka_unit_test_teardown(pages, end),
		cmocka_unit_test_teardown(lists_that_are_none, end),
		cmocka_unit_test(a_page_has_a_limit),
		cmocka_unit_test_teardown(stop_ends_a_wait, end),
		cmocka_unit_test_teardown(stop_ends_the_wait_for_a_place, end),
		cmocka_unit_test_teardown(requests_at_once, end),
		cmocka_unit_test_teardown(bytes_a_second, end),
		cmocka_unit_test_teardown(what_is_counted, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
