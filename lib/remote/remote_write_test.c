/* SPDX-License-Identifier: Apache-2.0 */
/* Floats on their way from the storage to a receiver, which is a small server here: what arrives over errors, restarts and reloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "base/thread.h"
#include "remote/remote.h"
#include "remote/remote_write.h"

/* ---- a receiver: one connection at a time; "name@time " of each sample that it took ---- */

struct server {
	struct sink sink;
	int fd, port;
	pthread_t thread;
	atomic_bool stop;
	atomic_int status;
	const char *_Atomic header; /* another line of its answers */
	atomic_bool cut;            /* its answers promise more than they have */
	struct mutex lock;
	struct buf got;
	unsigned requests;
};

static int take(struct sink *sink, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct server *s = (struct server *)(void *)sink;
	struct err none = { 0 };
	(void)e;
	mutex_lock(&s->lock);
	for (size_t i = 0; i < b->n_floats; i++) {
		labels_format(b->floats[i].labels, &s->got);
		buf_printf(&s->got, "@%d ", (int)b->floats[i].t_ms);
	}
	mutex_unlock(&s->lock);
	ret->floats = (uint32_t)b->n_floats;
	b->done(b->done_arg, &none);
	return 0;
}

static void answer(struct server *s, int fd, struct view body)
{
	char text[160];
	struct remote_result r;
	struct err e;
	int status = atomic_load(&s->status);
	mutex_lock(&s->lock);
	s->requests++;
	mutex_unlock(&s->lock);
	if (status == 200)
		assert_int_equal(remote_receive(&s->sink, body, NULL, &r, &e), 0);
	const char *header = atomic_load(&s->header);
	int n = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n", status,
			 atomic_load(&s->cut) ? 10 : 0, header ? header : "");
	if (send(fd, text, (size_t)n, MSG_NOSIGNAL) < 0)
		return;
}

static void serve(struct server *s, int fd)
{
	struct buf b = { .max = 16 << 20 };
	size_t head = 0, want = 0;
	while (!head || b.len < head + want) {
		char part[65536];
		ssize_t n = recv(fd, part, sizeof part, 0);
		if (n <= 0)
			break;
		buf_put(&b, part, (size_t)n);
		const char *end = strstr(b.ptr, "\r\n\r\n"), *length = strcasestr(b.ptr, "content-length: ");
		if (!head && end) {
			head = (size_t)(end + 4 - b.ptr);
			want = length ? strtoul(length + 16, NULL, 10) : 0;
		}
	}
	if (head && b.len >= head + want)
		answer(s, fd, view_make(b.ptr + head, want));
	buf_free(&b);
}

static void *server_main(void *arg)
{
	struct server *s = arg;
	while (!atomic_load(&s->stop)) {
		struct pollfd p = { s->fd, POLLIN, 0 };
		int fd = poll(&p, 1, 20) > 0 ? accept(s->fd, NULL, NULL) : -1;
		if (fd < 0)
			continue;
		serve(s, fd);
		close(fd);
	}
	return NULL;
}

static void server_start(struct server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	struct err e;
	memset(s, 0, sizeof *s);
	s->sink.append = take;
	atomic_store(&s->status, 200);
	mutex_init(&s->lock, LOCK_ANY, "test");
	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(s->fd, 16), 0);
	getsockname(s->fd, (struct sockaddr *)&a, &len);
	s->port = ntohs(a.sin_port);
	assert_int_equal(thread_start(&s->thread, "receiver", server_main, s, &e), 0);
}

static void server_stop(struct server *s)
{
	atomic_store(&s->stop, true);
	pthread_join(s->thread, NULL);
	close(s->fd);
	buf_free(&s->got);
	mutex_destroy(&s->lock);
}

static bool has(struct server *s, const char *text)
{
	mutex_lock(&s->lock);
	bool same = !strcmp(s->got.ptr ? s->got.ptr : "", text);
	mutex_unlock(&s->lock);
	return same;
}

static void await(struct server *s, const char *text)
{
	(void)TEST_WAIT(has(s, text));
	clock_sleep_ms(20); /* and no more than that */
	if (!has(s, text))
		fail_msg("it has %s, and not %s", s->got.ptr, text);
	mutex_lock(&s->lock);
	buf_reset(&s->got);
	mutex_unlock(&s->lock);
}

static void await_requests(struct server *s, unsigned n)
{
	for (unsigned seen = 0; seen < n;) {
		mutex_lock(&s->lock);
		seen = s->requests;
		mutex_unlock(&s->lock);
		clock_sleep_ms(5);
	}
}

/* ---- the storage's part ---- */

struct world {
	char dir[64];
	struct server a, b;
	struct remote_write *w;
	uint64_t has, last;
};

static struct remote_write_config *configure(const char *fmt, ...)
{
	struct config_tree *t;
	struct remote_write_config *c = NULL;
	struct err e = { 0 };
	va_list ap;
	char text[2048];
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (config_parse(&t, view_of(text), "x.yml", &e) || remote_write_config_parse(&c, t, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	config_free(t);
	return c;
}

static void apply(struct world *x, struct remote_write_config *c)
{
	struct err e = { 0 };
	if (remote_write_apply(x->w, c, &e))
		fail_msg("%s", e.msg);
	remote_write_config_unref(c);
}

#define RECEIVER "- {url: 'http://127.0.0.1:%d/w', name: %s, queue_config: {batch_send_deadline: 20ms, max_backoff: 50ms}}\n"
#define TO "global: {external_labels: {x: y}}\nremote_write:\n" RECEIVER
#define A(x) (x)->a.port, "a"
#define B(x) (x)->b.port, "b"

static void start(struct world *x, uint64_t log_ends, struct remote_write_config *c)
{
	struct err e = { 0 };
	const struct remote_write_options o = { .dir = x->dir };
	remote_write_new(&x->w, &o);
	apply(x, c);
	struct tap *t = remote_write_tap(x->w);
	assert_int_equal(t->open(t, &x->has, &x->last, &e), 0);
	if (log_ends)
		t->ready(t, log_ends);
}

/* The storage's, which calls with its lock held. */
static struct mutex applying = MUTEX_INIT(RANK_TSDB_APPLY, "apply");

static void give(struct world *x, uint64_t number, const char *name)
{
	const struct label l[] = { { VIEW("__name__"), view_of(name) } };
	const struct sink_float f = { { l, 1 }, (int64_t)number, 1 };
	struct tap *t = remote_write_tap(x->w);
	mutex_lock(&applying);
	t->take(t, number, &f, 1);
	mutex_unlock(&applying);
}

static void await_durable(struct world *x, uint64_t number)
{
	struct tap *t = remote_write_tap(x->w);
	(void)TEST_WAIT(t->durable(t) >= number);
	assert_int_equal(t->durable(t), number);
}

static int set_up(void **state)
{
	struct world *x = NEW(struct world);
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	snprintf(x->dir, sizeof x->dir, "%sremote_write_test.XXXXXX", access("/dev/shm", W_OK) ? "" : "/dev/shm/");
	if (!mkdtemp(x->dir))
		return -1;
	server_start(&x->a);
	server_start(&x->b);
	*state = x;
	return 0;
}

static int tear_down(void **state)
{
	struct world *x = *state;
	remote_write_free(x->w);
	server_stop(&x->a);
	server_stop(&x->b);
	files_remove_tree(x->dir);
	free(x);
	return 0;
}

static void restart(struct world *x, uint64_t log_ends, struct remote_write_config *c)
{
	remote_write_free(x->w);
	start(x, log_ends, c);
}

static void test_it_arrives(void **state)
{
	struct world *x = *state;
	start(x, 10, configure(TO, A(x)));
	assert_true(x->has == UINT64_MAX && !x->last); /* a new receiver wants nothing of before */
	assert_int_equal(remote_write_tap(x->w)->durable(remote_write_tap(x->w)), 10);
	give(x, 11, "one");
	give(x, 12, "one");
	await(&x->a, "one{x=\"y\"}@11 one{x=\"y\"}@12 ");
	await_durable(x, 12);
	restart(x, 12, configure(TO, A(x)));
	assert_true(x->has == 12 && x->last == 12);
	give(x, 13, "one");
	await(&x->a, "one{x=\"y\"}@13 ");
}

/* Killed: it is not closed, its directory is opened by another. */
static void test_what_waits_survives(void **state)
{
	struct world *x = *state;
	atomic_store(&x->a.status, 503);
	start(x, 1, configure(TO, A(x)));
	give(x, 2, "one");
	await_requests(&x->a, 3);
	give(x, 3, "two");
	await_durable(x, 3);
	restart(x, 3, configure(TO, A(x)));
	give(x, 4, "one");
	await_requests(&x->a, 6);
	atomic_store(&x->a.status, 200);
	await(&x->a, "one{x=\"y\"}@2 two{x=\"y\"}@3 one{x=\"y\"}@4 ");
}

/* Two queues have different numbers: each is handed of a replay what it has not, and no more. */
static void test_replay(void **state)
{
	struct world *x = *state;
	start(x, 1, configure(TO, A(x)));
	give(x, 2, "a");
	await(&x->a, "a{x=\"y\"}@2 ");
	apply(x, configure(TO RECEIVER, A(x), B(x)));
	give(x, 3, "b");
	await(&x->a, "b{x=\"y\"}@3 ");
	await(&x->b, "b{x=\"y\"}@3 ");
	restart(x, 0, configure(TO RECEIVER, A(x), B(x)));
	assert_true(x->has == 3 && x->last == 3);
	for (uint64_t i = 2; i <= 5; i++)
		give(x, i, "again");
	remote_write_tap(x->w)->ready(remote_write_tap(x->w), 5);
	await(&x->a, "again{x=\"y\"}@4 again{x=\"y\"}@5 ");
	await(&x->b, "again{x=\"y\"}@4 again{x=\"y\"}@5 ");
}

static void test_reload(void **state)
{
	struct world *x = *state;
	char *there AUTOFREE = xasprintf("%s/a", x->dir);
	start(x, 1, configure("remote_write: []\n"));
	give(x, 2, "nobody");
	atomic_store(&x->a.status, 503);
	apply(x, configure(TO, A(x)));
	give(x, 3, "kept");
	await_requests(&x->a, 2);
	apply(x, configure(TO, x->b.port, "a")); /* another place for the same queue */
	await(&x->b, "kept{x=\"y\"}@3 ");
	assert_int_equal(access(there, F_OK), 0);
	apply(x, configure("remote_write: []\n"));
	assert_int_equal(access(there, F_OK), -1);
	give(x, 4, "nobody");
	await_durable(x, 4);
	apply(x, configure(TO, B(x)));
	give(x, 5, "new");
	await(&x->b, "new{x=\"y\"}@5 ");
}

/* The one that asked for patience is not the one that is asked now. */
static void test_reload_while_it_waits(void **state)
{
	struct world *x = *state;
	atomic_store(&x->a.status, 503);
	atomic_store(&x->a.header, "Retry-After: 3600\r\n");
	start(x, 1, configure(TO, A(x)));
	give(x, 2, "kept");
	await_requests(&x->a, 1);
	clock_sleep_ms(50);
	apply(x, configure(TO, x->b.port, "a"));
	await(&x->b, "kept{x=\"y\"}@2 ");
}

/* What is answered is answered, however the answer's text ends: what was taken does not come again, and what is refused holds up nothing. */
static void test_answers_that_are_cut(void **state)
{
	struct world *x = *state;
	atomic_store(&x->a.cut, true);
	start(x, 1, configure(TO, A(x)));
	give(x, 2, "one");
	await(&x->a, "one{x=\"y\"}@2 ");
	clock_sleep_ms(100);
	give(x, 3, "two");
	await(&x->a, "two{x=\"y\"}@3 ");
	atomic_store(&x->a.status, 404);
	unsigned n = x->a.requests;
	give(x, 4, "refused");
	await_requests(&x->a, n + 1);
	clock_sleep_ms(20);
	atomic_store(&x->a.status, 200);
	give(x, 5, "three");
	await(&x->a, "three{x=\"y\"}@5 ");
}

/* A queue cannot be made, as on a full disk: the storage begins, the other queue works, and this one when it can. */
static void test_a_start_in_vain(void **state)
{
	struct world *x = *state;
	char *there AUTOFREE = xasprintf("%s/a", x->dir), *segment AUTOFREE = xasprintf("%s/a/0000000001.segment", x->dir);
	FILE *f = fopen(there, "w");
	assert_non_null(f);
	fclose(f);
	log_setup(LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	start(x, 1, configure(TO RECEIVER, A(x), B(x)));
	give(x, 2, "other");
	await(&x->b, "other{x=\"y\"}@2 ");
	await_durable(x, 2);
	unlink(there);
	assert_true(TEST_WAIT(access(segment, F_OK) == 0));
	clock_sleep_ms(50);
	give(x, 3, "one");
	await(&x->a, "one{x=\"y\"}@3 ");
	await(&x->b, "one{x=\"y\"}@3 ");
}

/* No server may name a directory. */
static void test_names(void **state)
{
	struct world *x = *state;
	start(x, 1, configure(TO, x->a.port, "'../../evil'"));
	give(x, 2, "one");
	await(&x->a, "one{x=\"y\"}@2 ");
	char *there AUTOFREE = xasprintf("%s/../../evil", x->dir);
	assert_int_equal(access(there, F_OK), -1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_it_arrives), TEST(test_what_waits_survives), TEST(test_replay), TEST(test_reload), TEST(test_names), TEST(test_a_start_in_vain),
		TEST(test_reload_while_it_waits), TEST(test_answers_that_are_cut),
	};
	remote_write_register_metrics();
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	metrics_free();
	return failed;
}
