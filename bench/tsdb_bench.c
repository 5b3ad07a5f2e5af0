/* SPDX-License-Identifier: Apache-2.0 */
/* The storage on a fleet (fleet.h): 50 nodes x 4 services x 24 h at 10 s, scaled by --scale (nodes), then 90 minutes of
 * the next day, so that there is a midnight, an hour that was just sealed and a head. One table: what taking it in
 * costs, what it takes on disk by kind, and every query cold and warm, on one thread and on all.
 *
 * Profiles enter as column ids (what stacks are called was interned before), so that the figure is the storage's alone.
 * Every answer is compared with what the generator knows of the raw profiles: a checksum over the names of stacks, or
 * over the steps of a graph. Figures of ingest are CPU time of all threads, the generator's taken off; those of queries
 * are wall time, from opening a view to the answer (of a profile: folded into a tree), warm the median of several after
 * the first. Cold: the database was opened anew and the kernel asked to forget its files; opening it and loading
 * the dictionary are shown apart. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/fleet.h"
#include "tsdb/files.h"
#include "tsdb/part.h"

#define TAIL_MS (90 * INT64_C(60000))
#define MINUTE INT64_C(60000)
#define WARM_RUNS 5

enum what { MERGE, GRAPH_POD, GRAPH_SERVICE, SHARE_SERVICE, SHARE };
enum who { ALL, ONE, SOME };

/* A query and what its answer must be. */
struct question {
	const char *name;
	enum what what;
	enum who who;           /* all pods; one; all but those of one node: no service is whole */
	double limit_ms;        /* that it is held to, warm; 0 = none */
	double cold_limit_ms;
	int64_t after_ms, until_ms;
	uint64_t want;
	double cold, warm[2], cpu;
	bool wrong;
};

struct bench {
	struct fleet f;
	struct tsdb_options o;
	char dir[64];
	int64_t cache_mb;                 /* of the queries; what comes in has 256 */
	int64_t hours, now_ms, end_ms; /* end_ms: the last whole hour; now_ms goes on for 90 minutes */
	double generator_cpu;
	VEC(struct question) questions;
	long rss_before_kb;
	uint32_t last_deploy;
};

static double thread_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double process_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "%s: %s\n", what, e ? e->msg : "");
	exit(1);
}

static long resident_kb(const char *field)
{
	char line[128];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, field, strlen(field)))
			kb = strtol(line + strlen(field), NULL, 10);
	if (f)
		fclose(f);
	return kb;
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

/* ---- what is asked, and the truth ---- */

static void ask(struct bench *b, const char *name, enum what what, enum who who, int64_t after, int64_t until, double limit,
		double cold_limit)
{
	vec_push(&b->questions, (struct question){ .name = name, .what = what, .who = who, .after_ms = after, .until_ms = until,
						   .limit_ms = limit, .cold_limit_ms = cold_limit });
}

static void make_questions(struct bench *b)
{
	int64_t e = b->end_ms, now = e + TAIL_MS, day = b->hours * HOUR_MS, odd = 1234567;
	ask(b, "profile of 1 series, 1 h, aligned", MERGE, ONE, e - HOUR_MS, e, 0, 0);
	ask(b, "profile of any 196 series, 1 h, aligned", MERGE, SOME, e - HOUR_MS, e, 0, 0);
	ask(b, "the same, unaligned", MERGE, SOME, e - HOUR_MS - odd, e - odd, 0, 0);
	ask(b, "profile of any 196 series, 24 h, aligned", MERGE, SOME, e - day, e, 15, 60);
	ask(b, "the same, both ends unaligned", MERGE, SOME, e - day + odd, e - odd, 0, 0);
	ask(b, "the 24 h ending now: midnight, head", MERGE, SOME, now - day - odd, now - odd % 60000, 80, 0);
	ask(b, "the hour ending now", MERGE, SOME, now - HOUR_MS, now, 30, 0);
	ask(b, "profile of all 4 services, 24 h, aligned", MERGE, ALL, e - day, e, 0, 0);
	ask(b, "totals by pod, 24 h at 60 s", GRAPH_POD, ALL, e - day, e, 6, 0);
	ask(b, "totals by service, 24 h at 60 s", GRAPH_SERVICE, ALL, e - day, e, 6, 0);
	ask(b, "a function by service, 24 h at 60 s", SHARE_SERVICE, ALL, e - day, e, 15, 0);
	ask(b, "a function in any 196 series, 24 h at 60 s", SHARE, SOME, e - day, e, 150, 0);
}

static uint64_t step_hash(uint64_t group, int64_t step)
{
	return hash_u64(hash_u64(group + 1) ^ (uint64_t)step);
}

static bool is_asked(const struct bench *b, const struct question *q, const struct pod *p)
{
	return q->who == ALL || (q->who == SOME && (p->node || b->f.scale < 0.03)) ||
	       (q->who == ONE && !p->service && !p->node && p->deploy == b->last_deploy);
}

static void remember(struct bench *b, const struct pod *p, const struct drawn *d)
{
	for (size_t i = 0; i < b->questions.n; i++) {
		struct question *q = &b->questions.v[i];
		if (d->t_ms <= q->after_ms || d->t_ms > q->until_ms || !is_asked(b, q, p))
			continue;
		int64_t step = (d->t_ms - q->after_ms - 1) / MINUTE;
		switch (q->what) {
		case MERGE: q->want += d->hash; break;
		case GRAPH_POD: q->want += step_hash((uint64_t)p->deploy << 32 | p->node << 8 | p->service, step) * (uint64_t)d->total; break;
		case GRAPH_SERVICE: q->want += step_hash(p->service, step) * (uint64_t)d->total; break;
		case SHARE_SERVICE: q->want += step_hash(p->service, step) * (uint64_t)d->hits; break;
		case SHARE: q->want += step_hash(0, step) * (uint64_t)d->hits; break;
		}
	}
}

/* ---- ingest ---- */

/* One scrape round of the fleet becomes one request, as a batch of the sink would. */
static void round_of(struct bench *b, int64_t t_ms, struct record_profile *profiles)
{
	struct fleet *f = &b->f;
	double start = thread_cpu();
	for (size_t i = 0; i < f->pods.n; i++) {
		struct drawn d;
		fleet_draw(f, &f->pods.v[i], t_ms + (int64_t)(hash_u64(i) % 9000), &profiles[i], &d);
		remember(b, &f->pods.v[i], &d);
	}
	b->generator_cpu += thread_cpu() - start;
	fleet_push(f, t_ms, profiles);
}

static int64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->now_ms;
}

static void ingest_until(struct bench *b, int64_t from, int64_t until, struct record_profile *profiles)
{
	for (int64_t t = from + 1000; t <= until - 9000; t += 10000) {
		if ((t - T0 - 1000) % DEPLOY_MS == 0) {
			double g = thread_cpu();
			fleet_deploy(&b->f, t, (uint32_t)((t - T0) / DEPLOY_MS));
			b->generator_cpu += thread_cpu() - g;
		}
		b->now_ms = t + 10000;
		round_of(b, t, profiles);
	}
	tsdb_flush(b->f.db);
}

static void seal(struct bench *b)
{
	struct err e;
	if (tsdb_seal(b->f.db, false, &e))
		die("seal", &e);
}

static void ingest(struct bench *b)
{
	uint32_t room = (uint32_t)(NODES * b->f.scale + 1) * SERVICES;
	struct record_profile *profiles = xcalloc(room, sizeof *profiles);
	double cpu = process_cpu();
	uint64_t written = bytes_written();
	int64_t start = clock_mono_ns();
	ingest_until(b, T0, b->end_ms, profiles);
	b->now_ms = b->end_ms + 20 * MINUTE;
	seal(b);
	double aside = b->generator_cpu;
	cpu = process_cpu() - cpu - aside;
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
	       resident_kb("VmHWM:") / 1024, b->rss_before_kb / 1024, (unsigned long long)b->o.cache_bytes >> 20,
	       (unsigned long long)s.dictionary_bytes >> 20);
	ingest_until(b, b->end_ms, b->end_ms + TAIL_MS, profiles);
	b->now_ms = b->end_ms + TAIL_MS;
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

struct selected {
	struct source_view *v;
	struct source_series *s;
	size_t n;
};

static struct selected select_series(struct bench *b, const struct question *q)
{
	struct err e;
	struct matcher m[2];
	struct selected r;
	char pod[48];
	size_t n = 1;
	snprintf(pod, sizeof pod, "service-0-0-%u", b->last_deploy);
	matcher_init(&m[0], MATCH_EQ, VIEW("__name__"), VIEW(NAME), &e);
	if (q->who == ONE)
		matcher_init(&m[n++], MATCH_EQ, VIEW("pod"), view_of(pod), &e);
	else if (q->who == SOME && b->f.scale >= 0.03)
		matcher_init(&m[n++], MATCH_NE, VIEW("node"), VIEW("node-0"), &e);
	tsdb_source(b->f.db)->open(tsdb_source(b->f.db), &r.v, &e);
	if (r.v->ops->select(r.v, m, n, q->after_ms, q->until_ms, NULL, &r.s, &r.n, &e))
		die("select", &e);
	while (n)
		matcher_release(&m[--n]);
	return r;
}

static void release(struct selected *r)
{
	free(r->s);
	r->v->ops->release(r->v);
}

/* The tree of a profile: what each node and all below it add up to. Returns the root's. */
static int64_t fold(const struct stackvec *v)
{
	uint32_t n = symbols_count(v->symbols, SYMBOLS_NODES);
	int64_t *sum = xcalloc(n, sizeof *sum);
	for (size_t i = 0; i < v->n; i++)
		sum[symbols_stack_node(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack)] += v->ints[i];
	for (uint32_t i = n; --i;)
		if (sum[i])
			sum[symbols_get_node(v->symbols, i)->parent] += sum[i];
	int64_t root = sum[0];
	free(sum);
	return root;
}

static uint64_t hash_profile(const struct stackvec *v)
{
	uint64_t sum = 0;
	uint32_t locations[256];
	for (size_t i = 0; i < v->n; i++) {
		size_t n = symbols_stack_locations(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack, locations, 256);
		uint64_t h = 0;
		for (size_t k = 0; k < n; k++) {
			uint32_t f = symbols_get_line(v->symbols, symbols_get_location(v->symbols, locations[k]), 0)->function;
			h = fleet_hash_name(h, symbols_get_string(v->symbols, symbols_get_function(v->symbols, f - 1)->name));
		}
		sum += h * (uint64_t)v->ints[i];
	}
	return sum;
}

static double run_merge(struct bench *b, struct question *q, struct pool *pool, bool check)
{
	struct source_limits lim = { .pool = pool };
	struct stackvec *v;
	struct err e;
	int64_t start = clock_mono_ns();
	struct selected r = select_series(b, q);
	struct source_part *parts = xcalloc(r.n + 1, sizeof *parts);
	for (size_t k = 0; k < r.n; k++)
		parts[k] = (struct source_part){ .ref = r.s[k].ref, .after_ms = q->after_ms, .until_ms = q->until_ms, .scale = 1 };
	if (r.v->ops->merge(r.v, parts, r.n, 1, &lim, &v, &e))
		die("merge", &e);
	fold(v);
	double ms = (double)(clock_mono_ns() - start) / 1e6;
	if (check && hash_profile(v) != q->want)
		q->wrong = true;
	stackvec_unref(v);
	free(parts);
	release(&r);
	return ms;
}

static bool named(const void *arg, const struct symbols *s, const struct sym_location *l, uint32_t line)
{
	if (line >= l->n_lines)
		return false;
	uint32_t f = symbols_get_line(s, l, line)->function;
	return f && view_eqs(symbols_get_string(s, symbols_get_function(s, f - 1)->name), arg);
}

/* The number at the end of a label's value. */
static uint64_t number_of(struct labels l, const char *name)
{
	struct view v = labels_get(l, view_of(name));
	size_t at = v.len;
	int64_t n = 0;
	while (at && v.ptr[at - 1] != '-')
		at--;
	num_parse_i64(view_make(v.ptr + at, v.len - at), &n);
	return (uint64_t)n;
}

/* The key of truth: what names a pod, or a service. */
static uint64_t group_key(const struct question *q, struct labels l)
{
	if (q->what == SHARE)
		return 0;
	uint64_t service = number_of(l, "service");
	return q->what == GRAPH_POD ? number_of(l, "pod") << 32 | number_of(l, "node") << 8 | service : service;
}

static double run_graph(struct bench *b, struct question *q, struct pool *pool, bool check)
{
	struct source_limits lim = { .pool = pool };
	struct source_frame_filter f = { named, b->f.names.v[b->f.function], false };
	uint32_t steps = (uint32_t)((q->until_ms - q->after_ms) / MINUTE);
	struct err e;
	int64_t start = clock_mono_ns();
	struct selected r = select_series(b, q);
	uint64_t *keys = xcalloc(r.n + 1, sizeof *keys);
	struct source_part *parts = xcalloc(r.n + 1, sizeof *parts);
	size_t n_groups = q->what == GRAPH_POD ? r.n : q->what == SHARE ? 1 : SERVICES, n = 0;
	for (size_t g = 0; g < n_groups; g++)
		for (size_t k = 0; k < r.n; k++) {
			uint64_t key = group_key(q, r.s[k].labels);
			if (q->what == GRAPH_POD ? k != g : key != g)
				continue;
			keys[g] = key;
			parts[n++] = (struct source_part){ r.s[k].ref, q->after_ms, q->after_ms + MINUTE, 1, (uint32_t)g * steps, steps, MINUTE };
		}
	double *ret = xmalloc(n_groups * steps * sizeof *ret);
	bool filtered = q->what == SHARE || q->what == SHARE_SERVICE;
	if (r.v->ops->sums(r.v, parts, n, n_groups * steps, filtered ? &f : NULL, &lim, ret, NULL, &e))
		die("sums", &e);
	double ms = (double)(clock_mono_ns() - start) / 1e6;
	uint64_t have = 0;
	for (size_t g = 0; check && g < n_groups; g++)
		for (uint32_t s = 0; s < steps; s++)
			have += step_hash(keys[g], s) * (uint64_t)(int64_t)ret[g * steps + s];
	if (check && have != q->want)
		q->wrong = true;
	free(ret);
	free(keys);
	free(parts);
	release(&r);
	return ms;
}

static double run(struct bench *b, struct question *q, struct pool *pool, bool check)
{
	return q->what == MERGE ? run_merge(b, q, pool, check) : run_graph(b, q, pool, check);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void ask_warm(struct bench *b, struct question *q, struct pool *pool)
{
	double ms[WARM_RUNS], cpu[WARM_RUNS];
	run(b, q, pool, true);
	for (int i = 0; i < WARM_RUNS; i++) {
		double start = thread_cpu();
		ms[i] = run(b, q, pool, false);
		cpu[i] = (thread_cpu() - start) * 1e3;
	}
	qsort(ms, WARM_RUNS, sizeof *ms, by_value);
	qsort(cpu, WARM_RUNS, sizeof *cpu, by_value);
	q->warm[pool != NULL] = ms[WARM_RUNS / 2];
	if (!pool)
		q->cpu = cpu[WARM_RUNS / 2];
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

static void open_db(struct bench *b)
{
	struct err e;
	if (tsdb_open(&b->f.db, &b->o, &e))
		die("open", &e);
}

static void close_db(struct bench *b)
{
	struct err e;
	if (tsdb_close(b->f.db, &e))
		die("close", &e);
}

static void ask_cold(struct bench *b, struct question *q, struct pool *pool, double *open_ms)
{
	struct question none = { .who = ONE, .after_ms = 0, .until_ms = INT64_MAX };
	struct err e;
	close_db(b);
	int64_t start = clock_mono_ns();
	open_db(b);
	struct selected r = select_series(b, &none); /* loads the dictionaries */
	release(&r);
	*open_ms = (double)(clock_mono_ns() - start) / 1e6;
	AUTOFREE char *dir = xasprintf("%s/partitions", b->dir);
	files_each(dir, forget_partition, dir, &e);
	q->cold = run(b, q, pool, true);
}

static bool queries(struct bench *b)
{
	struct pool *pool = pool_new(0, "bench");
	double open_ms = 0;
	bool ok = true;
	for (size_t i = 0; i < b->questions.n; i++) {
		struct question *q = &b->questions.v[i];
		ask_cold(b, q, pool, &open_ms);
		ask_warm(b, q, NULL);
		ask_warm(b, q, pool);
	}
	printf("| opening it, with %lld minutes of head and the dictionaries | %.0f ms |\n\n", (long long)(TAIL_MS / MINUTE), open_ms);
	printf("Block cache of %llu MB; ms. Cold is on all cores, warm on one and on all; its CPU time is what a machine that does\n"
	       "nothing else would need on one core. In brackets what is asked for.\n\n",
	       (unsigned long long)b->o.cache_bytes >> 20);
	printf("| query | cold | warm, CPU | warm, 1 core | warm, all | answer |\n|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < b->questions.n; i++) {
		const struct question *q = &b->questions.v[i];
		char cold[24] = "", warm[24] = "";
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
	b->now_ms = T0 + 17 * DAY_MS - HOUR_MS;
	atomic_store(&b->f.db->newest_t, b->now_ms);
	int64_t start = clock_mono_ns();
	if (tsdb_retain(b->f.db, &e))
		die("retain", &e);
	printf("\nDropping the day: %.1f ms (20).\n", (double)(clock_mono_ns() - start) / 1e6);
}

static bool parse(struct bench *b, int argc, char **argv, bool *keep)
{
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		if (view_starts(v, VIEW("--scale=")) && num_parse_double(view_make(v.ptr + 8, v.len - 8), &b->f.scale))
			continue;
		if (view_starts(v, VIEW("--hours=")) && num_parse_i64(view_make(v.ptr + 8, v.len - 8), &b->hours))
			continue;
		if (view_starts(v, VIEW("--cache=")) && num_parse_i64(view_make(v.ptr + 8, v.len - 8), &b->cache_mb))
			continue;
		if (!view_eqs(v, "--keep"))
			return false;
		*keep = true;
	}
	return b->hours >= 1 && b->hours <= 24 && b->cache_mb > 0;
}

int main(int argc, char **argv)
{
	struct bench b = { .f = { .scale = 0.1 }, .hours = 24, .cache_mb = 2048 };
	bool keep = false;
	if (!parse(&b, argc, argv, &keep)) {
		fprintf(stderr, "usage: bench_tsdb [--scale=0.1] [--hours=24] [--cache=2048] [--keep]\n");
		return 2;
	}
	snprintf(b.dir, sizeof b.dir, "/tmp/tsdb-bench-XXXXXX");
	if (!mkdtemp(b.dir))
		return 1;
	fleet_init(&b.f, b.f.scale);
	b.end_ms = T0 + b.hours * HOUR_MS;
	b.last_deploy = (uint32_t)((b.hours - 1) * HOUR_MS / DEPLOY_MS);
	b.now_ms = T0 + 1;
	b.o = (struct tsdb_options){ .path = b.dir, .now_ms = bench_now, .now_arg = &b, .cache_bytes = 256 << 20 };
	make_questions(&b);
	b.rss_before_kb = resident_kb("VmRSS:");
	open_db(&b);
	printf("| | |\n|---|---|\n");
	ingest(&b);
	disk_by_kind(&b);
	b.o.cache_bytes = (uint64_t)b.cache_mb << 20;
	bool ok = queries(&b);
	if (!keep)
		drop_query(&b);
	close_db(&b);
	if (keep)
		printf("kept in %s\n", b.dir);
	else
		files_remove_tree(b.dir);
	return ok ? 0 : 1;
}
