/* SPDX-License-Identifier: Apache-2.0 */
/* The storage on a fleet (fleet.h): 50 nodes x 4 services x 24 h at 10 s, scaled by --scale (nodes), then 90 minutes of
 * the next day. So there are a midnight, an hour that was just sealed and a head. One table shows the cost of ingest, the
 * bytes on disk by kind, and every query cold and warm, on one thread and on all.
 *
 * Profiles enter as column ids, because the names of stacks were interned before: the figure is the storage's alone.
 * Every answer is compared with what the generator knows of the raw profiles: a checksum over the names of stacks, or
 * over the steps of a graph. Figures of ingest are CPU time of all threads, less the generator's. Figures of queries
 * are wall time from opening a view to the answer; a profile is folded into a tree. Warm is the median of several after
 * the first. Cold: the database was opened anew and the kernel asked to forget its files; opening it,
 * loading the dictionary and making its calls are shown apart. With --dir=DIR the storage stays there, and a DIR that has one is only queried. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/num.h"
#include "bench/measure.h"
#include "bench/tsdb_ask.h"
#include "tsdb/part/part.h"

#define MINUTE INT64_C(60000)
#define WARM_MAX 1000

struct bench {
	struct bench_fleet f;
	struct truth t;
	struct tsdb_options o;
	char *dir, *storage, *truth;  /* the latter two are in the first */
	const char *only;             /* part of the names of the questions to ask; NULL = all */
	int64_t cache_mb;             /* of the queries; what comes in has 256 */
	int64_t warm_runs;
	bool keep;
	double generator_cpu;
	long rss_before_kb;
};

static double thread_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t bytes_written(void)
{
	char line[128];
	uint64_t n = 0;
	FILE *f = fopen("/proc/self/io", "re");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "write_bytes: ", 13))
			n = strtoull(line + 13, NULL, 10);
	if (f)
		fclose(f);
	return n;
}

static void open_db(struct bench *b)
{
	struct err e;
	if (tsdb_open(&b->f.db, &b->o, &e))
		measure_die("open", &e);
}

static void close_db(struct bench *b)
{
	struct err e;
	if (tsdb_close(b->f.db, &e))
		measure_die("close", &e);
}

/* ---- ingest ---- */

/* One scrape round of the fleet becomes one request, as a batch of the sink would. */
static void round_of(struct bench *b, int64_t t_ms, struct record_profile *profiles)
{
	struct bench_fleet *f = &b->f;
	double start = thread_cpu();
	for (size_t i = 0; i < f->pods.n; i++) {
		struct drawn d;
		fleet_draw(f, &f->pods.v[i], t_ms + (int64_t)(hash_u64(i) % 9000), &profiles[i], &d);
		truth_remember(&b->t, &f->pods.v[i], &d);
	}
	b->generator_cpu += thread_cpu() - start;
	fleet_push(f, t_ms, profiles);
}

static int64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->t.now_ms;
}

static void ingest_until(struct bench *b, int64_t from, int64_t until, struct record_profile *profiles)
{
	for (int64_t t = from + 1000; t <= until - 9000; t += 10000) {
		if ((t - T0 - 1000) % DEPLOY_MS == 0) {
			double g = thread_cpu();
			fleet_deploy(&b->f, t, (uint32_t)((t - T0) / DEPLOY_MS));
			b->generator_cpu += thread_cpu() - g;
		}
		b->t.now_ms = t + 10000;
		round_of(b, t, profiles);
	}
	tsdb_flush(b->f.db);
}

static void seal(struct bench *b)
{
	struct err e;
	if (tsdb_seal(b->f.db, false, &e))
		measure_die("seal", &e);
}

static void ingest(struct bench *b)
{
	uint32_t room = (uint32_t)(NODES * b->f.scale + 1) * SERVICES;
	struct record_profile *profiles = xcalloc(room, sizeof *profiles);
	double cpu = measure_cpu();
	uint64_t written = bytes_written();
	int64_t start = clock_mono_ns();
	ingest_until(b, T0, b->t.end_ms, profiles);
	b->t.now_ms = b->t.end_ms + 20 * MINUTE;
	seal(b);
	double aside = b->generator_cpu;
	cpu = measure_cpu() - cpu - aside;
	struct tsdb_stats s;
	tsdb_stats(b->f.db, &s);
	double n = (double)b->f.samples;
	printf("| profiles, samples | %llu, %llu (%.0f a profile) |\n", (unsigned long long)b->f.profiles,
	       (unsigned long long)b->f.samples, n / (double)b->f.profiles);
	printf("| ingest from ids: durable, sealed, rolled up, aggregates | %.1f M samples/s per core (%.1f ns each); %.0f s with the generator |\n",
	       n / cpu / 1e6, cpu * 1e9 / n, (double)(clock_mono_ns() - start) / 1e9);
	printf("| bytes on disk | %.3f per sample |\n", (double)s.disk_bytes / n);
	printf("| written to disk | %.2f x what stays (head log included) |\n", (double)(bytes_written() - written) / (double)s.disk_bytes);
	printf("| resident, peak | %ld MB, %ld MB of it before the storage was opened; block cache %llu MB, dictionary %llu MB |\n",
	       measure_status_kb("VmHWM") / 1024, b->rss_before_kb / 1024, (unsigned long long)b->o.cache_bytes >> 20,
	       (unsigned long long)s.dictionary_bytes >> 20);
	ingest_until(b, b->t.end_ms, b->t.end_ms + TAIL_MS, profiles);
	b->t.now_ms = b->t.end_ms + TAIL_MS;
	seal(b);
	for (uint32_t i = 0; i < room; i++)
		record_profile_release(&profiles[i]);
	free(profiles);
}

/* Bytes by kind, read from the parts themselves: what goes into zstd. */
static void disk_by_kind(struct bench *b)
{
	static const char *const names[] = { "header", "symbols", "index", "totals", "sums", "detail", "floats" };
	static const char *const levels[] = { "hours", "6 h", "24 h" };
	uint64_t raw[LEVELS][2][7] = { { { 0 } } };
	struct version *v = tsdb_version(b->f.db, NULL);
	const struct pstate *s = version_find(v, day_of(T0 + 1));
	for (size_t k = 0; k < s->n_parts; k++) {
		struct part *p = s->parts[k];
		for (enum part_kind kind = PART_HEADER; kind <= PART_INDEX; kind++) {
			PART_VALUE x = { 0 };
			if (part_get(p, kind, 0, 0, &x, NULL) == 0)
				raw[p->level][0][kind] += x.payload.len;
		}
		for (size_t i = 0; i < p->series.n + p->aggregates.n; i++)
			for (enum part_kind kind = PART_TOTALS; kind <= PART_DETAIL; kind++)
				for (uint8_t stream = 0; stream < 3; stream++) {
					bool is_sum = i >= p->series.n;
					uint32_t id = is_sum ? PART_AGGREGATE | (uint32_t)(i - p->series.n) : p->series.v[i].series;
					PART_VALUE y = { 0 };
					if (part_get(p, kind, id, stream, &y, NULL))
						break;
					raw[p->level][is_sum][kind] += y.payload.len;
				}
	}
	for (int l = 0; l < LEVELS; l++)
		for (int a = 0; a < 2; a++)
			for (int k = 0; k < 7; k++)
				if (raw[l][a][k] > 1000)
					printf("| before zstd: %s, %s%s | %.4f B/sample |\n", levels[l], a ? "aggregates' " : "", names[k],
					       (double)raw[l][a][k] / (double)b->f.samples);
	version_unref(v);
}

/* ---- queries ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void ask_warm(struct bench *b, struct question *q, struct pool *pool)
{
	double ms[WARM_MAX], cpu[WARM_MAX];
	size_t n = (size_t)b->warm_runs;
	truth_ask(&b->t, q, b->f.db, pool, true);
	for (size_t i = 0; i < n; i++) {
		double start = thread_cpu();
		ms[i] = truth_ask(&b->t, q, b->f.db, pool, false);
		cpu[i] = (thread_cpu() - start) * 1e3;
	}
	qsort(ms, n, sizeof *ms, by_value);
	qsort(cpu, n, sizeof *cpu, by_value);
	q->warm[pool != NULL] = ms[n / 2];
	if (!pool)
		q->cpu = cpu[n / 2];
}

static int forget_file(void *arg, const char *name, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", (const char *)arg, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	(void)e;
	if (fd >= 0) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	return 0;
}

static int forget_partition(void *arg, const char *name, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/%s", (const char *)arg, name);
	return files_each(dir, forget_file, dir, e);
}

static void ask_cold(struct bench *b, struct question *q, struct pool *pool, double *open_ms)
{
	struct err e;
	close_db(b);
	int64_t start = clock_mono_ns();
	open_db(b);
	truth_touch(b->f.db);
	*open_ms = (double)(clock_mono_ns() - start) / 1e6;
	AUTOFREE char *dir = xasprintf("%s/partitions", b->storage);
	if (files_each(dir, forget_partition, dir, &e))
		measure_die(dir, &e);
	q->cold = truth_ask(&b->t, q, b->f.db, pool, true);
}

static bool is_asked(const struct bench *b, const struct question *q)
{
	return !b->only || strstr(q->name, b->only);
}

static bool queries(struct bench *b)
{
	struct pool *pool = pool_new(0, "bench");
	double open_ms = 0;
	bool ok = true;
	for (size_t i = 0; i < b->t.questions.n; i++) {
		struct question *q = &b->t.questions.v[i];
		if (!is_asked(b, q))
			continue;
		ask_cold(b, q, pool, &open_ms);
		ask_warm(b, q, NULL);
		ask_warm(b, q, pool);
	}
	printf("| opening it, with %lld minutes of head, the dictionaries and their calls | %.0f ms |\n\n", (long long)(TAIL_MS / MINUTE), open_ms);
	printf("Block cache of %llu MB; ms. Cold is on all cores, warm on one and on all; its CPU time is what a machine that does\n"
	       "nothing else would need on one core. In brackets what is asked for.\n\n",
	       (unsigned long long)b->o.cache_bytes >> 20);
	printf("| query | cold | warm, CPU | warm, 1 core | warm, all | answer |\n|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < b->t.questions.n; i++) {
		const struct question *q = &b->t.questions.v[i];
		char cold[24] = "", warm[24] = "";
		if (!is_asked(b, q))
			continue;
		if (q->cold_limit_ms)
			snprintf(cold, sizeof cold, " (%.0f)", q->cold_limit_ms);
		if (q->limit_ms)
			snprintf(warm, sizeof warm, " (%.0f)", q->limit_ms);
		printf("| %s | %.1f%s | %.2f%s | %.2f | %.2f | %s |\n", q->name, q->cold, cold, q->cpu, warm, q->warm[0], q->warm[1],
		       q->wrong ? "WRONG" : "exact");
		ok &= !q->wrong;
	}
	pool_free(pool);
	return ok;
}

static void drop_query(struct bench *b)
{
	struct err e;
	b->t.now_ms = T0 + 17 * DAY_MS - HOUR_MS;
	atomic_store(&b->f.db->newest_t, b->t.now_ms);
	int64_t start = clock_mono_ns();
	if (tsdb_retain(b->f.db, &e))
		measure_die("retain", &e);
	printf("\nDropping the day: %.1f ms (20).\n", (double)(clock_mono_ns() - start) / 1e6);
}

static bool parse(struct bench *b, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		if (view_starts(v, VIEW("--scale=")) && num_parse_double(view_make(v.ptr + 8, v.len - 8), &b->t.scale))
			continue;
		if (view_starts(v, VIEW("--hours=")) && num_parse_i64(view_make(v.ptr + 8, v.len - 8), &b->t.hours))
			continue;
		if (view_starts(v, VIEW("--cache=")) && num_parse_i64(view_make(v.ptr + 8, v.len - 8), &b->cache_mb))
			continue;
		if (view_starts(v, VIEW("--warm=")) && num_parse_i64(view_make(v.ptr + 7, v.len - 7), &b->warm_runs))
			continue;
		if (view_starts(v, VIEW("--only=")))
			b->only = argv[i] + 7;
		else if (view_starts(v, VIEW("--dir=")))
			b->dir = xstrdup(argv[i] + 6);
		else
			return false;
	}
	b->keep = b->dir != NULL;
	return b->t.hours >= 1 && b->t.hours <= 24 && b->cache_mb > 0 && b->warm_runs >= 1 && b->warm_runs <= WARM_MAX;
}

static void make_dir(struct bench *b)
{
	if (!b->dir)
		b->dir = mkdtemp(xstrdup("/tmp/tsdb-bench-XXXXXX"));
	else
		mkdir(b->dir, 0777);
	if (!b->dir)
		measure_die("a directory", NULL);
	b->storage = xasprintf("%s/storage", b->dir);
	b->truth = xasprintf("%s/truth", b->dir);
}

static void make(struct bench *b)
{
	if (access(b->storage, F_OK) == 0)
		measure_die("--dir: its storage has no truth: remove it", NULL);
	fleet_init(&b->f, b->t.scale);
	truth_init(&b->t);
	snprintf(b->t.function, sizeof b->t.function, "%s", b->f.names.v[b->f.function]);
	b->t.now_ms = T0 + 1;
	b->rss_before_kb = measure_status_kb("VmRSS");
	open_db(b);
	printf("| | |\n|---|---|\n");
	ingest(b);
	disk_by_kind(b);
	if (!truth_save(&b->t, b->truth))
		measure_die("writing the truth", NULL);
}

int main(int argc, char **argv)
{
	struct bench b = { .t = { .scale = 0.1, .hours = 24 }, .cache_mb = 2048, .warm_runs = 5 };
	if (!parse(&b, argc, argv)) {
		fprintf(stderr, "usage: bench_tsdb [--scale=0.1] [--hours=24] [--cache=2048] [--dir=DIR] [--only=TEXT] [--warm=5]\n");
		return 2;
	}
	alloc_keep_freed(); /* as the server does */
	make_dir(&b);
	b.o = (struct tsdb_options){ .path = b.storage, .now_ms = bench_now, .now_arg = &b, .cache_bytes = 256 << 20 };
	if (access(b.truth, F_OK))
		make(&b);
	else if (truth_load(&b.t, b.truth))
		open_db(&b);
	else
		measure_die("--dir: its truth is malformed: remove it", NULL);
	b.o.cache_bytes = (uint64_t)b.cache_mb << 20;
	bool ok = queries(&b);
	if (!b.keep)
		drop_query(&b);
	close_db(&b);
	if (!b.keep)
		files_remove_tree(b.dir);
	return ok ? 0 : 1;
}
