/* SPDX-License-Identifier: Apache-2.0 */
/* For the scraper's tests: a sink that remembers, a small HTTP server with bad manners, and profiles made by hand. */
#ifndef PYRRHA_SCRAPER_TESTKIT_H
#define PYRRHA_SCRAPER_TESTKIT_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/vec.h"
#include "model/sink.h"


/* For a group of tests that start scrapers: metrics, and a log of errors only. */
int scraper_tests_begin(void **state);
int scraper_tests_end(void **state);

/* One sample of one series. */
struct kept {
	char *series;          /* name{labels}, as labels_format spells it */
	bool is_float, stale;
	int64_t t_ms, duration_ns, interval_ms, asked_ms, cover_ms;
	int64_t total;         /* profile: sum of the column */
	char leaf[32];         /* profile: the function of the first sample's leaf, or its address */
	double v;
	enum profile_kind kind;
};

struct kept_note {
	char *key, *value;     /* owned; lengths beside, as keys have zeros */
	size_t key_len, value_len;
	int64_t t_ms;
};

struct fake_sink {
	struct sink sink;
	struct mutex lock;
	VEC(struct kept) v;
	size_t batches;
	VEC(struct kept_note) notes; /* the newest of each key */
	atomic_int fail;       /* enum err_code to fail profiles with; 0 = take all */
	atomic_int refuse;     /* the same for all that comes */
	atomic_int lose;       /* everything is accepted, and then reported as not stored, with this code */
	atomic_int slow_ms;    /* each append takes so long */
};

void fake_sink_init(struct fake_sink *s);
void fake_sink_free(struct fake_sink *s);
/* The value of the only note whose key has this prefix, owned; NULL: there is none. */
char *fake_sink_note(struct fake_sink *s, const char *kind);
/* How many samples of series whose text contains `what`; the newest in *last (may be NULL). */
size_t fake_sink_find(struct fake_sink *s, const char *what, struct kept *last);
/* Waits until there are n; false after PATIENCE_MS, as of all waits here. */
bool fake_sink_wait(struct fake_sink *s, const char *what, size_t n);
/* Waits until there are n, and gives the n-th of them. */
bool fake_sink_nth(struct fake_sink *s, const char *what, size_t n, struct kept *ret);
/* Waits until the newest float of the series is v. */
bool fake_sink_wait_value(struct fake_sink *s, const char *what, double v);

/* Listens on 127.0.0.1, a thread per connection. The handler writes the whole answer to the socket; it gets the
 * request's first line ("GET /path?query HTTP/1.1"). */
struct stub;
struct stub *stub_new(void (*handle)(int fd, const char *request, void *arg), void *arg);
void stub_free(struct stub *s);
int stub_port(const struct stub *s);
size_t stub_requests(struct stub *s);
/* A complete answer. */
void stub_answer(int fd, int status, const char *extra_headers, const void *body, size_t n);
void stub_write(int fd, const void *p, size_t n);

/* A scraper, the target that it asks, and the sink that takes what it got. */
struct scraper_bench {
	struct fake_sink sink;
	struct stub *stub;
	struct scraper *scraper;
};

struct scraper_options;
void scraper_bench_init(struct scraper_bench *b, void (*handle)(int fd, const char *request, void *arg), void *arg,
			const struct scraper_options *o);
/* Fails if the scraper does not end within 3 s, whatever it is waiting for. */
void scraper_bench_release(struct scraper_bench *b);
struct scraper_config;
/* A configuration, with the stub's port for each PORT. */
/* The same, and has the scraper work by it. */
void scraper_bench_apply(struct scraper_bench *b, const char *yaml);

/* A profile of n stacks, each one function deep, named f0, f1 ...; values[i * n_types + t]. types: "alloc_space/bytes
 * inuse_space/bytes". period: "space/bytes". Encoded and gzipped into out. */
void make_profile(struct buf *out, const char *types, const char *period, const int64_t *values, size_t n,
		  int64_t time_ns, int64_t duration_ns);

#endif
