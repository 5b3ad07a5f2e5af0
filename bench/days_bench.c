/* SPDX-License-Identifier: Apache-2.0 */
/* Many days: the cost of a start with a directory of --days daily partitions of the fleet (fleet.h) at --scale. And the memory
 * that queries over few and over all of them take and give back.
 *
 *	bench_days --dir=DIR --make     makes the directory: profiles as ids, sealed and rolled up; pods are replaced every --deploy=6 hours, of which
 *	                                24 are a whole number, or which are a whole number of days: 168 is one deploy a week
 *	                                with --shard=I/N[,I/N@H] only that share of the pods is stored (fleet_parse_shards; none if I is N or more)
 *	                                with --half-hour the last day is not sealed, and half an hour of the next is there
 *	bench_days --dir=DIR            opens it and asks for the stacks of a flame graph, and for its calls; --dictionary=MB is the budget of dictionaries
 *
 * Each step prints its wall time and CPU time of all threads, and what is resident after it. The last step waits until the
 * sealer has brought the dictionaries back within their budget. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/fleet.h"
#include "bench/measure.h"
#include "model/calltree.h"
#include "tsdb/version/evict.h"

struct bench {
	struct bench_fleet f;
	struct tsdb_options o;
	const char *dir;
	int64_t days, deploy_hours, dictionary_mb, now_ms, wall_ns;
	double cpu;
	bool make, half_hour;
};

static int64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->now_ms;
}

static void open_db(struct bench *b)
{
	struct err e;
	if (tsdb_open(&b->f.db, &b->o, &e))
		measure_die("open", &e);
}

/* ---- making ---- */

static void make_time(struct bench *b, int64_t from, int64_t until, struct record_profile *profiles)
{
	struct drawn d;
	for (int64_t t = from + 1000; t < until; t += 10000) {
		if ((t - T0 - 1000) % (MIN(b->deploy_hours, 24) * HOUR_MS) == 0) /* each day has a dictionary of its own */
			fleet_deploy(&b->f, t, (uint32_t)((t - T0) / (b->deploy_hours * HOUR_MS)));
		b->now_ms = t + 10000;
		for (size_t i = 0; i < b->f.pods.n; i++)
			fleet_draw(&b->f, &b->f.pods.v[i], t + (int64_t)(hash_u64(i) % 8000), &profiles[i], &d);
		fleet_push(&b->f, t, profiles);
	}
}

static void make_day(struct bench *b, int64_t day, struct record_profile *profiles)
{
	struct err e;
	int64_t from = T0 + day * DAY_MS;
	make_time(b, from, from + DAY_MS, profiles);
	if (b->half_hour && day + 1 == b->days) {
		make_time(b, from + DAY_MS, from + DAY_MS + HOUR_MS / 2, profiles);
		return;
	}
	b->now_ms = from + DAY_MS + HOUR_MS / 2;
	if (tsdb_seal(b->f.db, false, &e))
		measure_die("seal", &e);
	fprintf(stderr, "day %lld\n", (long long)day);
}

static int make(struct bench *b)
{
	struct record_profile *profiles = xcalloc((size_t)(NODES * b->f.scale + 1) * SERVICES, sizeof *profiles);
	struct err e;
	fleet_init(&b->f, b->f.scale);
	b->now_ms = T0;
	open_db(b);
	for (int64_t day = 0; day < b->days; day++)
		make_day(b, day, profiles);
	printf("%llu profiles, %llu samples\n", (unsigned long long)b->f.profiles, (unsigned long long)b->f.samples);
	return tsdb_close(b->f.db, &e) ? 1 : 0;
}

/* ---- asking ---- */

static void begin(struct bench *b)
{
	b->cpu = measure_cpu() * 1e3;
	b->wall_ns = clock_mono_ns();
}

static void end(struct bench *b, const char *what)
{
	double wall = (double)(clock_mono_ns() - b->wall_ns) / 1e6, before = b->cpu;
	char line[128];
	long kb = 0;
	struct tsdb_stats s;
	begin(b);
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "VmRSS:", 6))
			kb = strtol(line + 6, NULL, 10);
	if (f)
		fclose(f);
	tsdb_stats(b->f.db, &s);
	printf("| %s | %.0f | %.0f | %ld | %llu | %.1f | %.1f | %.1f |\n", what, wall, b->cpu - before, kb / 1024,
	       (unsigned long long)s.loaded, (double)s.dictionary_bytes / 1e6, (double)s.cache_bytes / 1e6,
	       (double)s.part_index_bytes / 1e6);
}

static void ask(struct bench *b, const char *what, int64_t after_ms, int64_t until_ms, struct pool *pool)
{
	struct source_limits lim = { .pool = pool };
	struct source_view *v;
	struct source_series *s;
	struct stackvec *sum;
	struct matcher m;
	struct err e;
	size_t n;
	begin(b);
	if (matcher_init(&m, MATCH_EQ, VIEW("__name__"), VIEW(NAME), &e))
		measure_die("matcher", &e);
	tsdb_source(b->f.db)->open(tsdb_source(b->f.db), &v, &e);
	if (v->ops->select(v, &m, 1, after_ms, until_ms, &lim, &s, &n, &e))
		measure_die("select", &e);
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ .ref = s[i].ref, .after_ms = after_ms, .until_ms = until_ms, .scale = 1 };
	if (v->ops->merge(v, parts, n, 1, SYMBOLS_NAMES, &lim, &sum, &e))
		measure_die("merge", &e);
	calltree_begin(symbols_calls(sum->symbols), sum->symbols, sum->columns, sum->n); /* what a flame graph folds by */
	calltree_end(symbols_calls(sum->symbols));
	end(b, what);
	stackvec_unref(sum);
	free(parts);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
}

static int measure(struct bench *b)
{
	struct err e;
	struct tsdb_stats s;
	int64_t now = T0 + b->days * DAY_MS, half = b->half_hour ? HOUR_MS / 2 : 0;
	b->now_ms = now + half;
	printf("| step | ms | CPU ms | resident MB | dictionaries loaded | their MB | block cache MB | part index MB |\n"
	       "|---|---|---|---|---|---|---|---|\n");
	begin(b);
	open_db(b);
	end(b, "open");
	struct pool *pool = pool_new(0, "bench");
	if (half)
		ask(b, "merge of all, half an hour on each side of midnight, nothing rolled up", now - half, now + half, pool);
	ask(b, "merge of all, the last hour", now - HOUR_MS, now, pool);
	ask(b, "merge of all, the last 24 h", now - DAY_MS, now, pool);
	ask(b, "merge of all, half an hour on each side of midnight", now - DAY_MS - HOUR_MS / 2, now - DAY_MS + HOUR_MS / 2, pool);
	ask(b, "merge of all, all days", T0, now, pool);
	ask(b, "the same again", T0, now, pool);
	begin(b);
	do {
		clock_sleep_ms(500);
		tsdb_stats(b->f.db, &s);
	} while (s.dictionary_bytes > b->o.dictionary_bytes + (64 << 20) && clock_mono_ns() - b->wall_ns < 30 * INT64_C(1000000000));
	end(b, "some seconds later");
	ask(b, "merge of all, the last hour", now - HOUR_MS, now, pool);
	ask(b, "merge of all, the first day", T0, T0 + DAY_MS, pool);
	pool_free(pool);
	return tsdb_close(b->f.db, &e) ? 1 : 0;
}

static bool parse(struct bench *b, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		if (view_starts(v, VIEW("--scale=")) && num_parse_double(view_make(v.ptr + 8, v.len - 8), &b->f.scale))
			continue;
		if (view_starts(v, VIEW("--days=")) && num_parse_i64(view_make(v.ptr + 7, v.len - 7), &b->days))
			continue;
		if (view_starts(v, VIEW("--deploy=")) && num_parse_i64(view_make(v.ptr + 9, v.len - 9), &b->deploy_hours))
			continue;
		if (view_starts(v, VIEW("--dictionary=")) && num_parse_i64(view_make(v.ptr + 13, v.len - 13), &b->dictionary_mb))
			continue;
		if (view_starts(v, VIEW("--shard=")) && fleet_parse_shards(&b->f, view_make(v.ptr + 8, v.len - 8)))
			continue;
		if (view_starts(v, VIEW("--dir=")))
			b->dir = argv[i] + 6;
		else if (view_eqs(v, "--make"))
			b->make = true;
		else if (view_eqs(v, "--half-hour"))
			b->half_hour = true;
		else
			return false;
	}
	return b->dir && b->days >= 1 && b->days <= 400 && b->deploy_hours >= 1 && (24 % b->deploy_hours == 0 || b->deploy_hours % 24 == 0) &&
	       b->dictionary_mb >= 1;
}

int main(int argc, char **argv)
{
	struct bench b = { .f = { .scale = 0.1 }, .days = 15, .deploy_hours = 6, .dictionary_mb = 256 };
	if (argc == 1)
		return 77; /* it needs a directory */
	if (!parse(&b, argc, argv)) {
		fprintf(stderr, "usage: bench_days --dir=DIR [--make] [--half-hour] [--shard=I/N[,I/N@H]] [--days=15] [--deploy=6] [--scale=0.1] [--dictionary=256]\n");
		return 2;
	}
	b.o = (struct tsdb_options){ .path = b.dir, .retention_ms = -1, .now_ms = bench_now, .now_arg = &b,
				     .dictionary_bytes = (uint64_t)b.dictionary_mb << 20 };
	return b.make ? make(&b) : measure(&b);
}
