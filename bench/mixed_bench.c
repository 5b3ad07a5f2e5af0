/* SPDX-License-Identifier: Apache-2.0 */
/* Queries beside ingest: the fleet (fleet.h) comes in at --speed times real time (100: 2,000 profiles a second) while one
 * client asks, one query after the other on all cores. Turns of --turn seconds with ingest and without alternate, so that
 * both see the same machine and the same data; while nothing comes in the storage's clock stands still.
 *
 *	bench_mixed --dir=DIR --make    makes the directory once: 30 hours, some hours in several parts, and an old day
 *	bench_mixed --dir=DIR           asks and prints a table; the directory is changed by it
 *
 * Profiles go through the sink as a decoder would hand them over: stacks are interned under the partition's lock, the log
 * is synced, windows are sealed and rolled up as they end. In the middle of the turns with ingest everything else is
 * done at once: parts of an hour are made one, the old day is dropped. Time in which the whole process stood still, as in
 * a virtual machine, is not counted: a thread that only sleeps notices it.
 *
 * Held to: the 99th percentile beside ingest is at most twice that without. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/fleet.h"
#include "bench/measure.h"

#define MINUTE INT64_C(60000)
#define HISTORY (30 * HOUR_MS + 5 * MINUTE)
#define STAND_MS 300

enum what { MERGE, GRAPH_POD, GRAPH_SERVICE, SHARE_SERVICE, SHARE };

struct question {
	const char *name;
	enum what what;
	enum { ALL, ONE, SOME } who;
	int64_t before_ms, range_ms; /* (now - before - range, now - before]; now: the end of the first day, or that of all */
	bool ending_now;
	int repeat;
	VEC(double) ms[2];           /* without, beside */
};

static struct question questions[] = {
	{ .name = "profile of 1 series, 1 h, aligned", MERGE, ONE, 0, HOUR_MS },
	{ .name = "profile of any 196 series, 1 h, aligned", MERGE, SOME, 0, HOUR_MS },
	{ .name = "the same, unaligned", MERGE, SOME, 1234567, HOUR_MS },
	{ .name = "profile of any 196 series, 24 h, aligned", MERGE, SOME, 0, DAY_MS },
	{ .name = "the same, both ends unaligned", MERGE, SOME, 1234567, DAY_MS - 2 * 1234567 },
	{ .name = "the 24 h ending now: midnight, head", MERGE, SOME, 0, DAY_MS, true },
	{ .name = "the hour ending now", MERGE, SOME, 0, HOUR_MS, true },
	{ .name = "profile of all 4 services, 24 h, aligned", MERGE, ALL, 0, DAY_MS },
	{ .name = "totals by pod, 24 h at 60 s", GRAPH_POD, ALL, 0, DAY_MS },
	{ .name = "totals by service, 24 h at 60 s", GRAPH_SERVICE, ALL, 0, DAY_MS },
	{ .name = "a function by service, 24 h at 60 s", SHARE_SERVICE, ALL, 0, DAY_MS },
	{ .name = "a function in any 196 series, 24 h at 60 s", SHARE, SOME, 0, DAY_MS },
};

struct bench {
	struct bench_fleet f;
	struct tsdb_options o;
	const char *dir;
	int64_t cache_mb, speed, turn_s, turns;
	bool make, ids;
	atomic_llong now_ms;
	struct pool *pool;
	struct record_profile *profiles;
	struct profile flat;
	atomic_bool on, idle, stop;  /* ingest: is to run; does nothing; ends */
	atomic_ullong stood;         /* times in which the process stood still */
	int64_t next_t;
	uint64_t late;               /* rounds that could not keep pace */
};

static int64_t bench_now(void *arg)
{
	return atomic_load(&((struct bench *)arg)->now_ms);
}

/* ---- what comes in ---- */

static void append(struct bench *b, const struct pod *pod, const struct record_profile *drawn)
{
	char name[48], service[16], node[16];
	struct ptype type;
	struct err e;
	fleet_flatten(&b->f, pod, drawn, &b->flat);
	snprintf(name, sizeof name, "service-%u-%u-%u", pod->service, pod->node, pod->deploy);
	snprintf(service, sizeof service, "service-%u", pod->service);
	snprintf(node, sizeof node, "node-%u", pod->node);
	struct label l[] = { { VIEW("__name__"), VIEW(NAME) }, { VIEW("node"), view_of(node) }, { VIEW("pod"), view_of(name) },
			     { VIEW("service"), view_of(service) } };
	ptype_parse(VIEW(NAME), &type);
	struct sink_column column = { { l, ARRAY_LEN(l) }, type, 0 };
	struct sink_profile sp = { .profile = &b->flat, .columns = &column, .n_columns = 1, .t_ms = drawn->t_ms, .duration_ns = b->flat.duration_ns,
				   .interval_ms = 10000, .asked_ms = 10000, .period = b->flat.period };
	struct sink_batch batch = { .profiles = &sp, .n_profiles = 1 };
	if (tsdb_sink(b->f.db)->append(tsdb_sink(b->f.db), &batch, NULL, &e))
		measure_die("append", &e);
}

/* One round of ten seconds of the fleet, a tenth of its pods at a time; period_ns: how long that takes, 0 = no matter. */
static void round_of(struct bench *b, int64_t t_ms, int64_t period_ns)
{
	struct drawn d;
	int64_t start = clock_mono_ns();
	size_t n = b->f.pods.n;
	atomic_store(&b->now_ms, t_ms + 10000);
	for (size_t i = 0; i < n; i++) {
		int64_t due = start + period_ns * (int64_t)(i * 10 / n) / 10;
		while (period_ns && clock_mono_ns() < due)
			clock_sleep_ms(1);
		fleet_draw(&b->f, &b->f.pods.v[i], t_ms + (int64_t)(hash_u64(i) % 9000), &b->profiles[i], &d);
		if (!b->ids)
			append(b, &b->f.pods.v[i], &b->profiles[i]);
	}
	if (b->ids)
		fleet_push(&b->f, t_ms, b->profiles);
	while (period_ns && clock_mono_ns() < start + period_ns)
		clock_sleep_ms(1);
	b->late += period_ns && clock_mono_ns() > start + period_ns * 3 / 2;
}

static void *ingest(void *arg)
{
	struct bench *b = arg;
	while (!atomic_load(&b->stop)) {
		if (!atomic_load(&b->on)) {
			atomic_store(&b->idle, true);
			clock_sleep_ms(1);
			continue;
		}
		atomic_store(&b->idle, false);
		round_of(b, b->next_t, 10000 * INT64_C(1000000) / b->speed);
		b->next_t += 10000;
	}
	return NULL;
}

static void *watch(void *arg)
{
	struct bench *b = arg;
	int64_t before = clock_mono_ms();
	while (!atomic_load(&b->stop)) {
		clock_sleep_ms(20);
		int64_t now = clock_mono_ms();
		if (now - before > STAND_MS)
			atomic_fetch_add(&b->stood, 1);
		before = now;
	}
	return NULL;
}

/* ---- making ---- */

static void fill(struct bench *b, int64_t from, int64_t until)
{
	for (int64_t t = from + 1000; t < until; t += 10000) {
		if ((t - T0 - 1000) % DEPLOY_MS == 0 || !b->f.pods.n)
			fleet_deploy(&b->f, t, (uint32_t)MAX((t - T0) / DEPLOY_MS, 0));
		round_of(b, t, 0);
		struct err e;
		if (t - T0 > 20 * HOUR_MS && (t - T0 - 1000) % (2 * HOUR_MS) == HOUR_MS / 2 && tsdb_seal(b->f.db, true, &e))
			measure_die("seal", &e);
	}
	tsdb_flush(b->f.db);
}

static int make(struct bench *b)
{
	struct err e;
	b->ids = true;
	atomic_store(&b->now_ms, T0 - 9 * DAY_MS);
	if (tsdb_open(&b->f.db, &b->o, &e))
		measure_die("open", &e);
	fill(b, T0 - 10 * DAY_MS, T0 - 10 * DAY_MS + HOUR_MS);
	b->f.pods.n = 0;
	fill(b, T0, T0 + HISTORY);
	if (tsdb_seal(b->f.db, false, &e))
		measure_die("seal", &e);
	return tsdb_close(b->f.db, &e) ? 1 : 0;
}

/* ---- queries ---- */

/* What a flame graph does with a profile. */
static void fold(const struct stackvec *v)
{
	uint32_t n = symbols_count(v->symbols, SYMBOLS_NODES);
	int64_t *sum = xcalloc(n, sizeof *sum);
	for (size_t i = 0; i < v->n; i++)
		sum[symbols_stack_node(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack)] += v->ints[i];
	for (uint32_t i = n; --i;)
		if (sum[i])
			sum[symbols_get_node(v->symbols, i)->parent] += sum[i];
	free(sum);
}

static void merge(struct bench *b, struct source_view *v, const struct source_series *s, size_t n, int64_t after_ms, int64_t until_ms)
{
	struct source_limits lim = { .pool = b->pool };
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	struct stackvec *sum;
	struct err e;
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ .ref = s[i].ref, .after_ms = after_ms, .until_ms = until_ms, .scale = 1 };
	if (v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, &lim, &sum, &e))
		measure_die("merge", &e);
	fold(sum);
	stackvec_unref(sum);
	free(parts);
}

static uint32_t service_of(struct labels l)
{
	struct view v = labels_get(l, VIEW("service"));
	return v.len ? (uint32_t)(v.ptr[v.len - 1] - '0') % SERVICES : 0;
}

static void graph(struct bench *b, const struct question *q, struct source_view *v, const struct source_series *s, size_t n,
		  int64_t after_ms, int64_t until_ms)
{
	struct source_limits lim = { .pool = b->pool };
	const struct matcher function = { MATCH_EQ, VIEW("function"), view_of(b->f.names.v[b->f.function]), NULL };
	struct source_frame_filter f = { .m = &function, .n = 1 };
	uint32_t steps = (uint32_t)((until_ms - after_ms) / MINUTE);
	size_t groups = q->what == GRAPH_POD ? n : q->what == SHARE ? 1 : SERVICES;
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	double *ret = xmalloc((groups + 1) * steps * sizeof *ret);
	struct err e;
	for (size_t i = 0; i < n; i++) {
		uint32_t g = q->what == GRAPH_POD ? (uint32_t)i : q->what == SHARE ? 0 : service_of(s[i].labels);
		parts[i] = (struct source_part){ s[i].ref, after_ms, after_ms + MINUTE, 1, g * steps, steps, MINUTE };
	}
	bool filtered = q->what == SHARE || q->what == SHARE_SERVICE;
	if (v->ops->sums(v, parts, n, groups * steps, filtered ? &f : NULL, &lim, ret, NULL, &e))
		measure_die("sums", &e);
	free(ret);
	free(parts);
}

static double run(struct bench *b, const struct question *q)
{
	int64_t end = (q->ending_now ? atomic_load(&b->now_ms) : T0 + DAY_MS) - q->before_ms, start = clock_mono_ns();
	struct source_view *v;
	struct source_series *s;
	struct matcher m[2];
	struct err e;
	size_t n, n_m = 1;
	int rc = matcher_init(&m[0], MATCH_EQ, VIEW("__name__"), VIEW(NAME), &e);
	if (!rc && q->who == ONE)
		rc = matcher_init(&m[n_m++], MATCH_EQ, VIEW("pod"), VIEW("service-0-0-3"), &e);
	else if (!rc && q->who == SOME)
		rc = matcher_init(&m[n_m++], MATCH_NE, VIEW("node"), VIEW("node-0"), &e);
	if (rc)
		measure_die("matcher", &e);
	tsdb_source(b->f.db)->open(tsdb_source(b->f.db), &v, &e);
	if (v->ops->select(v, m, n_m, end - q->range_ms, end, NULL, &s, &n, &e))
		measure_die("select", &e);
	if (q->what == MERGE)
		merge(b, v, s, n, end - q->range_ms, end);
	else
		graph(b, q, v, s, n, end - q->range_ms, end);
	free(s);
	while (n_m)
		matcher_release(&m[--n_m]);
	v->ops->release(v);
	return (double)(clock_mono_ns() - start) / 1e6;
}

/* ---- turns ---- */

static void turn(struct bench *b, bool beside)
{
	atomic_store(&b->on, beside);
	while (!beside && !atomic_load(&b->idle))
		clock_sleep_ms(1);
	int64_t end = clock_mono_ms() + b->turn_s * 1000;
	while (clock_mono_ms() < end)
		for (size_t i = 0; i < ARRAY_LEN(questions); i++)
			for (int k = 0; k < questions[i].repeat; k++) {
				struct question *q = &questions[i];
				uint64_t stood = atomic_load(&b->stood);
				double ms = run(b, q);
				if (ms >= STAND_MS)
					clock_sleep_ms(50); /* the watch wakes up too */
				if (atomic_load(&b->stood) == stood)
					vec_push(&q->ms[beside], ms);
			}
}

/* Everything that is not due by itself. */
static void *maintain(void *arg)
{
	struct bench *b = arg;
	struct err e;
	b->f.db->o.retention_ms = 5 * DAY_MS;
	if (tsdb_retain(b->f.db, &e))
		measure_die("retain", &e);
	if (tsdb_clean(b->f.db, &e))
		measure_die("clean", &e);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double percentile(struct question *q, int beside, double p)
{
	size_t n = q->ms[beside].n;
	return n ? q->ms[beside].v[MIN((size_t)((double)n * p), n - 1)] : 0;
}

static void print_one(struct question *q)
{
	static const double at[] = { 0.5, 0.95, 0.99, 1 };
	printf("| %s | %zu, %zu ", q->name, q->ms[0].n, q->ms[1].n);
	for (int k = 0; k < 2; k++)
		if (q->ms[k].n)
			qsort(q->ms[k].v, q->ms[k].n, sizeof *q->ms[k].v, by_value);
	for (size_t k = 0; k < ARRAY_LEN(at); k++) {
		double without = percentile(q, 0, at[k]), beside = percentile(q, 1, at[k]);
		printf("| %.2f | %.2f ", without, beside);
		if (at[k] == 0.99)
			printf("| %.2f ", without > 0 ? beside / without : 0);
	}
	printf("|\n");
}

/* All questions together, each time divided by the median of its question without ingest: few of each are asked. */
static void print_all(void)
{
	struct question all = { .name = "all, in medians of each" };
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
		double median = percentile(&questions[i], 0, 0.5);
		for (int k = 0; k < 2; k++)
			for (size_t j = 0; j < questions[i].ms[k].n && median > 0; j++)
				vec_push(&all.ms[k], questions[i].ms[k].v[j] / median);
	}
	print_one(&all);
}

static void print(struct bench *b)
{
	printf("| query | asked | p50 | beside | p95 | beside | p99 | beside | ratio | longest | beside |\n"
	       "|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_LEN(questions); i++)
		print_one(&questions[i]);
	print_all();
	printf("\nTaken in: %.0f profiles a second of its turns, %llu samples in all; %llu rounds came late; %llu times the process stood still.\n"
	       "Meanwhile: %.0f seals, %.0f hours made one part, %.0f partitions dropped, %.0f commits.\n",
	       (double)b->f.profiles / (double)(b->turns * b->turn_s), (unsigned long long)b->f.samples, (unsigned long long)b->late,
	       (unsigned long long)atomic_load(&b->stood), metric_get(&tsdb_metrics[TM_SEALS]), metric_get(&tsdb_metrics[TM_COMPACTIONS]),
	       metric_get(&tsdb_metrics[TM_RETAINED]), metric_get(&tsdb_metrics[TM_COMMITS]));
}

static int measure(struct bench *b)
{
	pthread_t threads[3];
	struct err e;
	int64_t start = T0 + HISTORY;
	atomic_store(&b->now_ms, start);
	if (tsdb_open(&b->f.db, &b->o, &e))
		measure_die("open", &e);
	metrics_register(tsdb_metrics, TM_COUNT);
	b->pool = pool_new(0, "bench");
	fleet_deploy(&b->f, start, (uint32_t)((start - T0) / DEPLOY_MS)); /* the pods there are: after the last deploy */
	b->next_t = start + 1000;
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) { /* warm, and how often each is asked in a row: for about 25 ms */
		run(b, &questions[i]);
		double ms = run(b, &questions[i]);
		questions[i].repeat = (int)MAX(MIN(25 / ms, 20), 1);
	}
	pthread_create(&threads[0], NULL, ingest, b);
	pthread_create(&threads[1], NULL, watch, b);
	for (int64_t i = 0; i < b->turns; i++) {
		turn(b, false);
		if (i == b->turns / 2)
			pthread_create(&threads[2], NULL, maintain, b);
		turn(b, true);
	}
	atomic_store(&b->stop, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	print(b);
	pool_free(b->pool);
	return tsdb_close(b->f.db, &e) ? 1 : 0;
}

static bool parse(struct bench *b, int argc, char **argv)
{
	const struct { const char *name; int64_t *to; } numbers[] = { { "--cache=", &b->cache_mb }, { "--speed=", &b->speed },
								       { "--turn=", &b->turn_s }, { "--turns=", &b->turns } };
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		bool known = view_starts(v, VIEW("--scale=")) && num_parse_double(view_make(v.ptr + 8, v.len - 8), &b->f.scale);
		for (size_t k = 0; k < ARRAY_LEN(numbers) && !known; k++) {
			size_t n = strlen(numbers[k].name);
			known = view_starts(v, view_of(numbers[k].name)) && num_parse_i64(view_make(v.ptr + n, v.len - n), numbers[k].to);
		}
		if (view_starts(v, VIEW("--dir=")))
			b->dir = argv[i] + 6;
		else if (view_eqs(v, "--make"))
			b->make = true;
		else if (view_eqs(v, "--ids"))
			b->ids = true;
		else if (!known)
			return false;
	}
	return b->dir && b->cache_mb > 0 && b->speed > 0 && b->turn_s > 0 && b->turns > 0;
}

int main(int argc, char **argv)
{
	struct bench b = { .f = { .scale = 1 }, .cache_mb = 256, .speed = 100, .turn_s = 5, .turns = 8 };
	if (argc == 1)
		return 77; /* it needs a directory */
	if (!parse(&b, argc, argv)) {
		fprintf(stderr, "usage: bench_mixed --dir=DIR [--make] [--scale=1] [--cache=256] [--speed=100] [--turn=5] [--turns=8] [--ids]\n");
		return 2;
	}
	fleet_init(&b.f, b.f.scale);
	profile_init(&b.flat, 0);
	b.profiles = xcalloc((size_t)(NODES * b.f.scale + 1) * SERVICES, sizeof *b.profiles);
	b.o = (struct tsdb_options){ .path = b.dir, .retention_ms = -1, .now_ms = bench_now, .now_arg = &b,
				     .cache_bytes = (uint64_t)b.cache_mb << 20 };
	return b.make ? make(&b) : measure(&b);
}
