/* SPDX-License-Identifier: Apache-2.0 */
/* The query engine on the real storage: 200 series of CPU profiles (four services of fifty pods) over a day, in sealed
 * windows and the head, made from the stacks of the pprof corpus ($PYRRHA_CORPUS; made-up ones without it). Each query
 * runs some times; printed are its median wall and CPU time, what it read from storage, and by how much it raised the process's
 * memory at its peak. Later work compares with this table (docs/benchmarks.md). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/map.h"
#include "base/num.h"
#include "bench/measure.h"
#include "pprof/pprof.h"
#include "promql-like/promql.h"
#include "tsdb/tsdb.h"

#define SERVICES 4
#define T0 INT64_C(1700006400000) /* a midnight */
#define HOUR_MS INT64_C(3600000)
#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"
#define PERIOD 10000000

struct bench {
	struct tsdb *db;
	char dir[64];
	int64_t series, hours, interval_ms, hits, runs, functions, stacks, like;
	int64_t now_ms;
	struct profile pool[SERVICES];
	struct profile work[SERVICES]; /* the same; its arena is the storage's work space */
	double *law[SERVICES];     /* cumulated weights of the pool's stacks */
	uint64_t random;
	struct promql_engine *engine;
	struct pool *threads;
	const char *only;
};

static double uniform(struct bench *b)
{
	b->random += 0x9e3779b97f4a7c15u;
	return (double)(hash_u64(b->random) >> 11) * 0x1p-53;
}

/* ---- data ---- */

static bool load(struct profile *p, const char *name)
{
	const char *dir = getenv("PYRRHA_CORPUS");
	if (!dir)
		return false;
	AUTOFREE char *path = xasprintf("%s/%s", dir, name);
	struct buf bytes = { 0 };
	struct err e;
	if (buf_read_file(&bytes, path, NULL))
		return false;
	if (pprof_decode(bytes.ptr, bytes.len, NULL, p, &e))
		measure_die(path, &e);
	buf_free(&bytes);
	return true;
}

/* Without a corpus: stacks of a made-up program, 8 to 40 deep. With --like=1 each begins as one before it does: a tree, as
 * those of real programs are. */
static void make_up(struct bench *b, struct profile *p)
{
	enum { DEEPEST = 40 };
	const uint32_t FUNCTIONS = (uint32_t)b->functions, STACKS = (uint32_t)b->stacks, widens = b->like ? FUNCTIONS / 100 : 1;
	struct arena *a = &p->arena;
	p->n_strings = FUNCTIONS + 1;
	p->strings = arena_calloc(a, p->n_strings, sizeof *p->strings);
	p->functions = arena_calloc(a, FUNCTIONS, sizeof *p->functions);
	p->lines = arena_calloc(a, FUNCTIONS, sizeof *p->lines);
	p->locations = arena_calloc(a, FUNCTIONS, sizeof *p->locations);
	p->samples = arena_calloc(a, STACKS, sizeof *p->samples);
	p->stack = arena_calloc(a, STACKS * DEEPEST, sizeof *p->stack);
	p->strings[0] = VIEW("");
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		p->strings[i + 1] = view_of(arena_printf(a, "pkg%u.(*Type).method%u", i % 40, i));
		p->functions[i] = (struct profile_function){ i + 1, i + 1, 0, 1 };
		p->lines[i] = (struct profile_line){ i + 1, 10, 0 };
		p->locations[i] = (struct profile_location){ .address = 4096 + i * 64, .first_line = i, .n_lines = 1 };
	}
	p->n_functions = p->n_lines = p->n_locations = FUNCTIONS;
	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t depth = 8 + (uint32_t)(uniform(b) * (DEEPEST - 8)), same = 0;
		const struct profile_sample *like = i && b->like ? &p->samples[(uint32_t)(uniform(b) * i)] : NULL;
		if (like) {
			same = (uint32_t)(uniform(b) * like->n_locations);
			depth = MIN(same + 1 + (uint32_t)(uniform(b) * 6), DEEPEST);
		}
		p->samples[p->n_samples++] = (struct profile_sample){ p->n_stack, depth, 0, 0 };
		for (uint32_t d = depth; d-- > 0;) /* few near the root, many at the leaf */
			p->stack[p->n_stack++] = d < same ? p->stack[like->first_location + like->n_locations - 1 - d]
							  : (uint32_t)(uniform(b) * MIN(FUNCTIONS, 2 + d * d * widens));
	}
}

static void make_pools(struct bench *b)
{
	static const char *const files[SERVICES] = { "profile1.pb.gz", "alloc_objects.pb.gz", "fgprof.pb.gz", "alloc_space_delta.pb.gz" };
	for (int i = 0; i < SERVICES; i++) {
		struct profile *p = &b->pool[i];
		profile_init(p, 0);
		bool real = load(p, files[i]);
		if (!real)
			make_up(b, p);
		b->law[i] = xcalloc(p->n_samples + 1, sizeof(double));
		double sum = 0;
		for (uint32_t k = 0; k < p->n_samples; k++)
			b->law[i][k] = sum += pow((double)(hash_u64(k * 7 + (uint64_t)i) % p->n_samples) + 3, -1.12);
		p->n_sample_types = 1;
		b->work[i] = *p;
		arena_init(&b->work[i].arena, 0);
		fprintf(stderr, "service %d: %u %s stacks\n", i, p->n_samples, real ? "real" : "made-up");
	}
}

static uint32_t draw_one(struct bench *b, int service)
{
	const double *law = b->law[service];
	double x = uniform(b) * law[b->pool[service].n_samples - 1];
	uint32_t lo = 0, hi = b->pool[service].n_samples - 1;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (law[mid] <= x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* One profile of a series: which samples, and their values. */
struct drawn {
	uint32_t *samples;
	int64_t *values;
	char pod[32], service[16];
	struct label labels[3];
	struct sink_column column;
};

static void draw(struct bench *b, int service, struct drawn *d, uint32_t *ret_n)
{
	uint32_t n = 0;
	for (int64_t k = 0; k < b->hits; k++) {
		uint32_t x = draw_one(b, service);
		if (!d->values[x])
			d->samples[n++] = x;
		d->values[x] += PERIOD;
	}
	*ret_n = n;
}

static struct drawn *make_series(struct bench *b)
{
	struct drawn *all = xcalloc((size_t)b->series, sizeof *all);
	for (int64_t i = 0; i < b->series; i++) {
		struct drawn *d = &all[i];
		int s = (int)(i * SERVICES / b->series);
		snprintf(d->pod, sizeof d->pod, "pod-%lld", (long long)i);
		snprintf(d->service, sizeof d->service, "service-%d", s);
		struct label l[] = { { VIEW("__name__"), VIEW(CPU) }, { VIEW("pod"), view_of(d->pod) }, { VIEW("service"), view_of(d->service) } };
		memcpy(d->labels, l, sizeof l);
		d->column = (struct sink_column){ .labels = { d->labels, ARRAY_LEN(l) } };
		ptype_parse(VIEW(CPU), &d->column.type);
		d->samples = xcalloc((size_t)b->hits, sizeof *d->samples);
		d->values = xcalloc(b->pool[s].n_samples, sizeof *d->values);
	}
	return all;
}

/* One scrape of the fleet, as one batch. */
static uint64_t scrape(struct bench *b, struct drawn *all, int64_t t_ms)
{
	struct err e;
	struct sink_result r;
	uint64_t n_samples = 0;
	struct sink_profile *p = xcalloc((size_t)b->series, sizeof *p);
	for (int64_t i = 0; i < b->series; i++) {
		int s = (int)(i * SERVICES / b->series);
		p[i] = (struct sink_profile){ .profile = &b->work[s], .samples = all[i].samples, .values = all[i].values,
					      .columns = &all[i].column, .n_columns = 1, .t_ms = t_ms + i * 40 % b->interval_ms,
					      .duration_ns = b->interval_ms * 1000000, .interval_ms = b->interval_ms,
					      .asked_ms = b->interval_ms, .period = PERIOD };
		draw(b, s, &all[i], &p[i].n_samples);
		n_samples += p[i].n_samples;
	}
	struct sink_batch batch = { .profiles = p, .n_profiles = (size_t)b->series };
	if (tsdb_sink(b->db)->append(tsdb_sink(b->db), &batch, &r, &e))
		measure_die("append", &e);
	for (int64_t i = 0; i < b->series; i++)
		for (uint32_t k = 0; k < p[i].n_samples; k++)
			all[i].values[all[i].samples[k]] = 0;
	for (int s = 0; s < SERVICES; s++)
		arena_reset(&b->work[s].arena);
	free(p);
	return n_samples;
}

static int64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->now_ms;
}

static void ingest(struct bench *b)
{
	uint64_t samples = 0, profiles = 0;
	struct err e;
	struct drawn *all = make_series(b);
	int64_t from = clock_mono_ns(), end = T0 + b->hours * HOUR_MS;
	for (int64_t t = T0 + 1000; t < end; t += b->interval_ms) {
		b->now_ms = t + b->interval_ms;
		samples += scrape(b, all, t);
		profiles += (uint64_t)b->series;
	}
	tsdb_flush(b->db);
	if (tsdb_seal(b->db, false, &e))
		measure_die("seal", &e);
	struct tsdb_stats s;
	tsdb_stats(b->db, &s);
	printf("%lld series, %llu profiles, %llu samples; %llu parts, %llu MB on disk, %llu head windows; made in %.1f s\n",
	       (long long)b->series, (unsigned long long)profiles, (unsigned long long)samples, (unsigned long long)s.parts,
	       (unsigned long long)s.disk_bytes >> 20, (unsigned long long)s.head_windows, (double)(clock_mono_ns() - from) / 1e9);
	for (int64_t i = 0; i < b->series; i++) {
		free(all[i].samples);
		free(all[i].values);
	}
	free(all);
}

/* ---- queries ---- */

struct question {
	const char *what, *query;
	int64_t step_ms;   /* 0: instant */
	int64_t range_ms;  /* of a range query; 0: all of the data */
	bool stacks;
};

static const struct question questions[] = {
	{ "instant, newest values", "cpu", 0, 0, false },
	{ "instant, rate of all", "sum(rate(cpu[5m]))", 0, 0, false },
	{ "instant, flame graph of 1 h", "merge(cpu[1h])", 0, 0, true },
	{ "instant, fleet merge of 24 h", "merge(cpu[24h])", 0, 0, true },
	{ "instant, fleet merge of 24 h, by service", "merge by (service)(cpu[24h])", 0, 0, true },
	{ "instant, diff of two hours", "diff(merge(cpu[1h]), merge(cpu[1h] offset 3h))", 0, 0, true },
	{ "instant, focus of 1 h", "focus(merge(cpu[1h]), \"json\")", 0, 0, true },
	{ "instant, hide of 1 h", "hide(merge(cpu[1h]), \"^runtime\")", 0, 0, true },
	{ "instant, where and ignore of 1 h", "ignore(show(merge(cpu[1h]), \".*\"), \"json\")", 0, 0, true },
	{ "instant, top ten of 24 h", "topk(10, self(merge(rate(cpu[24h]))))", 0, 0, false },
	{ "instant, share of one function of 24 h", "share(merge(cpu[24h]), {function=~\"runtime.mallocgc|pkg1.*\"})", 0, 0, false },
	{ "instant, rows: share of each function", "share(merge(cpu[5m]))", 0, 0, false },
	{ "instant, rows: share above 0.1", "share(merge(cpu[5m])) > 0.1", 0, 0, false },
	{ "instant, rows: self share above 0.02", "self_share(merge(cpu[5m])) > 0.02", 0, 0, false },
	{ "instant, rows: share up 0.1 on before", "share(merge(cpu[5m])) - share(merge(cpu[5m] offset 20m)) > 0.1", 0, 0, false },
	{ "instant, rows: up 0.1, new ones too", "share(merge(cpu[5m])) - fill_right(0) share(merge(cpu[5m] offset 20m)) > 0.1", 0, 0, false },
	{ "instant, rows: top ten", "topk(10, share(merge(cpu[5m])))", 0, 0, false },
	{ "instant, rows: the merge alone", "merge(cpu[5m])", 0, 0, true },
	{ "24 h at 60 s, rate of 200 series", "sum(rate(cpu[5m]))", 60000, 0, false },
	{ "24 h at 60 s, rate by service", "sum by (service)(rate(cpu[5m]))", 60000, 0, false },
	{ "24 h at 60 s, rate, each pod", "rate(cpu{service=\"service-1\"}[5m])", 60000, 0, false },
	{ "24 h at 60 s, share of one function", "share(merge(cpu[5m]), {function=~\"runtime.mallocgc|pkg1.*\"})", 60000, 0, false },
	{ "24 h at 60 s, one function, each pod", "total(rate(cpu[5m]), {function=~\"runtime.mallocgc|pkg1.*\"})", 60000, 0, false },
	{ "24 h at 60 s, top ten self", "topk(10, self(merge(rate(cpu[5m]))))", 60000, 0, false },
	{ "24 h at 60 s, top ten total", "topk(10, total(merge(rate(cpu[5m]))))", 60000, 0, false },
	{ "24 h at 60 s, top five of each service", "topk by (service)(5, self(merge by (service)(cpu[5m])))", 60000, 0, false },
	{ "6 h at 60 s, top ten of what is focused", "topk(10, self(focus(merge(cpu[5m]), \"json\")))", 60000, 6 * HOUR_MS, false },
};

static void reset_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "we");
	if (!f)
		return;
	fputs("5", f);
	fclose(f);
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void ask(struct bench *b, const struct question *x)
{
	double *ms = xcalloc((size_t)b->runs, sizeof *ms), *cpu = xcalloc((size_t)b->runs, sizeof *cpu);
	struct promql_result r;
	struct err e;
	uint64_t bytes = 0, samples = 0;
	size_t series = 0;
	long peak = 0;
	int64_t end = T0 + b->hours * HOUR_MS - 1000, start = x->range_ms ? end - x->range_ms : T0 + 600000;
	for (int64_t i = 0; i < b->runs; i++) {
		struct promql_params p = { .profiles = x->stacks };
		long before = measure_status_kb("VmRSS");
		reset_peak();
		int64_t from = clock_mono_ns();
		double cpu_from = measure_cpu() * 1e3;
		int rc = x->step_ms ? promql_range(b->engine, view_of(x->query), start, end, x->step_ms, &p, &r, &e)
				    : promql_instant(b->engine, view_of(x->query), end, &p, &r, &e);
		ms[i] = (double)(clock_mono_ns() - from) / 1e6;
		cpu[i] = measure_cpu() * 1e3 - cpu_from;
		if (rc) {
			printf("| %-42s | %s\n", x->what, e.msg);
			free(ms);
			free(cpu);
			return;
		}
		peak = MAX(peak, measure_status_kb("VmHWM") - before);
		samples = r.samples;
		bytes = r.bytes;
		series = r.n_series;
		promql_result_release(&r);
	}
	qsort(ms, (size_t)b->runs, sizeof *ms, by_time);
	qsort(cpu, (size_t)b->runs, sizeof *cpu, by_time);
	printf("| %-42s | %10.2f | %10.2f | %10llu | %9.1f | %8.1f | %6zu |\n", x->what, ms[b->runs / 2], cpu[b->runs / 2], (unsigned long long)samples,
	       (double)bytes / 1e6, (double)peak / 1024, series);
	fflush(stdout);
	free(ms);
	free(cpu);
}

/* What a group of rules asks at one time: the share of one function each; or all functions above a threshold. */
static void ask_rules(struct bench *b, const char *what, const char *query, bool shares)
{
	enum { RULES = 500 };
	struct err e;
	int64_t end = T0 + b->hours * HOUR_MS - 1000, n = shares ? RULES : 10;
	struct promql_shared *s = shares ? promql_shared_new(b->engine, 0) : NULL;
	struct promql_params p = { .asker = PROMQL_RULES, .shared = s };
	double cpu_from = measure_cpu() * 1e3;
	for (int64_t i = 0; i < n; i++) {
		struct promql_result r;
		AUTOFREE char *text = xasprintf(query, (long long)i % 40, (long long)i);
		if (promql_instant(b->engine, view_of(text), end, &p, &r, &e))
			measure_die(text, &e);
		promql_result_release(&r);
	}
	printf("| %-42s | %10s | %10.4f | %10s | %9s | %8s | %6s |\n", what, "", (measure_cpu() * 1e3 - cpu_from) / (double)n, "", "", "", "");
	promql_shared_free(s);
}

static void ask_all_rules(struct bench *b)
{
	static const char of_one[] = "share(merge by (service)(cpu[5m]), {function=\"pkg%lld.(*Type).method%lld\"}) > 0.3",
			  of_all[] = "self_share(merge by (service)(cpu[5m])) > 0.0%lld%lld";
	ask_rules(b, "each of 500 rules, share of one function", of_one, true);
	ask_rules(b, "the same, nothing shared", of_one, false);
	ask_rules(b, "each of 500 rules, all functions", of_all, true);
	ask_rules(b, "the same, nothing shared", of_all, false);
}

static void parse_all(struct bench *b)
{
	enum { ROUNDS = 2000 };
	int64_t from = clock_mono_ns();
	struct err e;
	for (int i = 0; i < ROUNDS; i++)
		for (size_t k = 0; k < ARRAY_LEN(questions); k++) {
			struct promql_expr *x;
			if (promql_parse(&x, view_of(questions[k].query), &e))
				measure_die(questions[k].query, &e);
			promql_expr_free(x);
		}
	printf("| %-42s | %10.4f | %10s | %10s | %9s | %8s | %6s |\n", "parse, mean of the queries below",
	       (double)(clock_mono_ns() - from) / 1e6 / ROUNDS / (double)ARRAY_LEN(questions), "", "", "", "", "");
	(void)b;
}

static void query_all(struct bench *b)
{
	struct promql_options o = { .pool = b->threads };
	b->engine = promql_engine_new(tsdb_source(b->db), &o);
	printf("| %-42s | %10s | %10s | %10s | %9s | %8s | %6s |\n", "query", "median ms", "CPU ms", "values", "MB read", "peak MB", "series");
	printf("|---|---:|---:|---:|---:|---:|---:|\n");
	parse_all(b);
	for (size_t i = 0; i < ARRAY_LEN(questions); i++)
		if (!b->only || strstr(questions[i].what, b->only))
			ask(b, &questions[i]);
	if (!b->only || strstr("rules", b->only))
		ask_all_rules(b);
	promql_engine_free(b->engine);
}

static bool number_option(struct view v, const char *name, int64_t *ret)
{
	struct view n = view_of(name);
	return view_starts(v, n) && num_parse_i64(view_make(v.ptr + n.len, v.len - n.len), ret) && *ret > 0;
}

int main(int argc, char **argv)
{
	struct bench b = { .series = 200, .hours = 24, .hits = 100, .runs = 5, .functions = 1500, .stacks = 2000, .random = 1, .now_ms = T0 };
	int64_t interval_s = 15, threads = 2;
	struct err e;
	alloc_keep_freed(); /* as the server does */
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		if (number_option(v, "--series=", &b.series) || number_option(v, "--hours=", &b.hours) ||
		    number_option(v, "--interval=", &interval_s) || number_option(v, "--hits=", &b.hits) ||
		    number_option(v, "--runs=", &b.runs) ||
		    number_option(v, "--functions=", &b.functions) || number_option(v, "--stacks=", &b.stacks) || number_option(v, "--like=", &b.like) || number_option(v, "--threads=", &threads))
			continue;
		if (view_starts(v, VIEW("--only="))) {
			b.only = argv[i] + 7;
			continue;
		}
		fprintf(stderr, "usage: bench_query [--series=200] [--hours=24] [--interval=15] [--hits=100] [--runs=5] [--functions=1500] [--stacks=2000] [--like=1] [--threads=2] [--only=TEXT]\n");
		return 2;
	}
	b.interval_ms = interval_s * 1000;
	snprintf(b.dir, sizeof b.dir, "/tmp/query-bench-XXXXXX");
	if (!mkdtemp(b.dir))
		return 1;
	struct tsdb_options o = { .path = b.dir, .now_ms = bench_now, .now_arg = &b, .retention_ms = -1, .cache_bytes = 256 << 20 };
	b.threads = threads > 1 ? pool_new((unsigned)threads - 1, "bench") : NULL;
	make_pools(&b);
	if (tsdb_open(&b.db, &o, &e))
		measure_die("open", &e);
	ingest(&b);
	query_all(&b);
	if (tsdb_close(b.db, &e))
		measure_die("close", &e);
	files_remove_tree(b.dir);
	pool_free(b.threads);
	for (int i = 0; i < SERVICES; i++) {
		free(b.law[i]);
		arena_free(&b.work[i].arena);
		profile_release(&b.pool[i]);
	}
	return 0;
}
