/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/cached/cached_fetch.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#define FETCH_THREADS 16
#define FETCH_LOOK_MS 50        /* how often a query that waits looks whether it was canceled */
#define FETCH_MOST_MS 60000     /* how long a query without a time limit waits */
#define FETCH_FAILED_MS 10000   /* how long after a failure */
#define FETCH_HURRY_MS 2000     /* queries wait no longer than this */
#define FETCH_LOG_MS 60000
#define FETCH_PRIORITY 5        /* nice: hashing what came for one query takes a third of the usual share beside scrapes and other queries */

struct cached_fetcher {
	struct objects *objects;
	struct cached_counts counts;
	struct mutex lock; /* of what follows, and of `queued` and `error` of files */
	pthread_cond_t work, done;
	VEC(struct cached_file *) queue; /* references; files that threads have taken are not in it and still `queued` */
	pthread_t threads[FETCH_THREADS];
	size_t n_threads, n_idle;
	int64_t failed_mono_ms;          /* when the bucket failed last, without a success since; 0 = it did not */
	int64_t logged_mono_ms;
	bool stopping;
};

struct cached_fetcher *cached_fetcher_new(struct objects *objects)
{
	struct cached_fetcher *x = NEW(struct cached_fetcher);
	x->objects = objects;
	mutex_init(&x->lock, LOCK_LEAF, "fetches");
	pthread_cond_init(&x->work, NULL);
	pthread_cond_init(&x->done, NULL);
	return x;
}

void cached_fetcher_free(struct cached_fetcher *x)
{
	if (!x)
		return;
	mutex_lock(&x->lock);
	x->stopping = true;
	pthread_cond_broadcast(&x->work);
	mutex_unlock(&x->lock);
	for (size_t i = 0; i < x->n_threads; i++)
		pthread_join(x->threads[i], NULL);
	for (size_t i = 0; i < x->queue.n; i++)
		cached_file_unref(x->queue.v[i]);
	vec_free(&x->queue);
	pthread_cond_destroy(&x->work);
	pthread_cond_destroy(&x->done);
	mutex_destroy(&x->lock);
	free(x);
}

struct cached_counts *cached_fetcher_counts(struct cached_fetcher *x)
{
	return &x->counts;
}

/* ---- the threads ---- */

static void fetcher_note(struct cached_fetcher *x, struct cached_file *f, const struct cached_cost *cost, int rc, const struct err *e) REQUIRES(x->lock)
{
	int64_t now = clock_mono_ms();
	f->queued = false;
	f->cost = *cost;
	atomic_fetch_add(&x->counts.requests, cost->requests);
	atomic_fetch_add(&x->counts.bytes, cost->bytes);
	f->error = rc ? *e : (struct err){ 0 };
	if (!rc)
		x->failed_mono_ms = 0;
	else if (e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT || e->code == ERR_BUSY || e->code == ERR_DENIED)
		x->failed_mono_ms = now; /* else it is one object that is damaged, or this disk */
	if (rc) {
		atomic_store(&f->wanted, 0); /* who needs it says so again */
		atomic_fetch_add(&x->counts.failures, 1);
	}
	if (rc && (!x->logged_mono_ms || now - x->logged_mono_ms >= FETCH_LOG_MS)) {
		x->logged_mono_ms = now;
		LOG_WARN("msg", "a query needs what cannot be read from the bucket: its answer carries a warning", "object", f->key, "err", e->msg);
	}
	pthread_cond_broadcast(&x->done);
}

static void *fetcher_run(void *arg)
{
	struct cached_fetcher *x = arg;
	struct err e;
	thread_give_way(FETCH_PRIORITY);
	mutex_lock(&x->lock);
	while (!x->stopping) {
		if (!x->queue.n) {
			x->n_idle++;
			mutex_wait(&x->lock, &x->work);
			x->n_idle--;
			continue;
		}
		struct cached_file *f = x->queue.v[0];
		memmove(x->queue.v, x->queue.v + 1, --x->queue.n * sizeof(*x->queue.v));
		mutex_unlock(&x->lock);
		struct cached_cost cost;
		int rc = cached_file_fetch(f, x->objects, &cost, &e);
		mutex_lock(&x->lock);
		fetcher_note(x, f, &cost, rc, &e);
		mutex_unlock(&x->lock);
		cached_file_unref(f);
		mutex_lock(&x->lock);
	}
	mutex_unlock(&x->lock);
	return NULL;
}

/* ---- a query ---- */

static void fetcher_add(struct cached_fetcher *x, struct cached_file *f) REQUIRES(x->lock)
{
	struct err e;
	if (f->queued || !cached_file_lacks(f) || x->stopping)
		return;
	f->queued = true;
	vec_push(&x->queue, cached_file_ref(f));
	if (x->n_idle < x->queue.n && x->n_threads < FETCH_THREADS && !thread_start(&x->threads[x->n_threads], "fetch", fetcher_run, x, &e))
		x->n_threads++;
	pthread_cond_signal(&x->work);
}

/* A query is answered within its time: it keeps a third of what is left for reading. */
static int64_t fetcher_until_ms(const struct cached_fetcher *x, const struct source_limits *lim) REQUIRES(x->lock)
{
	int64_t now = clock_mono_ms(), left = FETCH_MOST_MS;
	if (lim && lim->deadline_mono_ns)
		left = MIN(left, (lim->deadline_mono_ns / 1000000 - now) * 2 / 3);
	if (x->failed_mono_ms && now - x->failed_mono_ms < FETCH_FAILED_MS)
		left = MIN(left, FETCH_HURRY_MS);
	return now + left;
}

static bool fetcher_has_all(struct cached_file *const *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (files[i]->queued)
			return false;
	return true;
}

static int fetcher_result(struct cached_file *const *files, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!files[i]->queued && files[i]->error.code)
			return err_set(e, ERR_UNAVAILABLE, "%s", files[i]->error.msg);
	for (size_t i = 0; i < n; i++)
		if (files[i]->queued)
			return err_set(e, ERR_UNAVAILABLE, "%s did not come from the bucket in time", files[i]->key);
	return 0;
}

int64_t cached_fetcher_start(struct cached_fetcher *x, struct cached_file *const *files, size_t n, const struct source_limits *lim)
{
	mutex_lock(&x->lock);
	int64_t until = fetcher_until_ms(x, lim);
	for (size_t i = 0; i < n; i++) {
		if (!files[i]->queued) {
			files[i]->error = (struct err){ 0 };
			files[i]->cost = (struct cached_cost){ 0 };
		}
		fetcher_add(x, files[i]);
	}
	mutex_unlock(&x->lock);
	return until;
}

int cached_fetcher_wait(struct cached_fetcher *x, struct cached_file *const *files, size_t n, int64_t until_mono_ms, const struct source_limits *lim,
			struct err *e)
{
	int rc = 0;
	mutex_lock(&x->lock);
	while (!rc && !fetcher_has_all(files, n) && clock_mono_ms() < until_mono_ms) {
		(void)mutex_wait_ms(&x->lock, &x->done, MIN(until_mono_ms, clock_mono_ms() + FETCH_LOOK_MS));
		rc = lim ? source_limits_check(lim, e) : 0;
	}
	if (!rc)
		rc = fetcher_result(files, n, e);
	for (size_t i = 0; i < n && lim && lim->stats; i++) {
		atomic_fetch_add(&lim->stats->bucket_requests, files[i]->cost.requests);
		atomic_fetch_add(&lim->stats->bucket_bytes, files[i]->cost.bytes);
	}
	mutex_unlock(&x->lock);
	return rc;
}
