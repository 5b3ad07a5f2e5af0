/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to take a profile in: gzip bytes -> pprof_decode -> the sink of a real database -> synced.
 *
 * Profiles are made from the real stacks of corpus/alloc_objects.pb.gz. Each series has its own order of the stacks;
 * a CPU profile draws Poisson counts with a mean of N timer hits from Zipf(1) over that order; a heap profile keeps
 * all stacks and lets a quarter of its values walk by up to 4 %. As a target would, a profile carries only the
 * locations, functions and strings that it uses. They are made and compressed outside the measured time, and come
 * in order of time, one append each, as a scraper sends them; what is measured is the CPU time (user and system) of
 * the whole process, all threads, until tsdb_flush returns. Sealing what has ended is measured apart. Of the whole, inflate,
 * decode and append are the thread's that takes profiles in; commit is what the other threads used.
 *
 * A, B and C are those that other stores were measured with; F has as many samples as a profile of a fleet (204). G and J, which are only made if
 * they are named, are gauges of 100 series, an hour and a half of one a minute: G on time, J up to half a second early or late.
 *
 * usage: bench_ingest [FILE] [A|B|C|F|G|J] [--share=0.1] [--notes] [--keep=DIR] [--head=SECONDS] [--log=MIB]   how much of each workload; 1 = all of it;
 * with --keep the storage stays in DIR/A and so on, for a server to be started on, with --head
 * all of it in the head, from that time on (Unix; a server seals at once what is not of the hours around its clock); --log: memory of the head log's buffers */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"
#include "pprof/pprof.h"
#include "tsdb/tsdb.h"

#define INTERVAL_MS 10000
#define ROUND 400 /* profiles made before they are taken in */

struct workload {
	const char *name;
	uint32_t series, rounds; /* a profile of each series per round */
	uint32_t hits;           /* mean of a profile; 0: a heap profile */
	int64_t interval_ms, jitter_ms;
	bool on_request;         /* only if it is named */
};

static const struct workload workloads[] = {
	{ "A", 20, 360, 1000, INTERVAL_MS, 0, false },
	{ "B", 40, 1080, 230, INTERVAL_MS, 0, false },
	{ "C", 1, 500, 0, INTERVAL_MS, 0, false },
	{ "F", 200, 60, 380, INTERVAL_MS, 0, false },
	{ "G", 100, 90, 0, 60000, 0, true },
	{ "J", 100, 90, 0, 60000, 500, true },
};

struct cost {
	double user, sys; /* seconds, all threads */
	long faults;      /* pages that the kernel had to give */
};

enum { STAGE_INFLATE, STAGE_DECODE, STAGE_APPEND, STAGES };

struct bench {
	const struct workload *w;
	struct profile source;   /* the file */
	struct profile subset;   /* the profile that is being made */
	struct profile decoded;
	struct tsdb *db;
	int64_t begin_ms, now_ms;
	uint32_t **order;        /* of each series: rank -> stack */
	int64_t *heap;           /* of series 0: the values */
	uint64_t random;
	struct buf *made;
	uint64_t profiles, gz_bytes, raw_bytes, samples;
	struct cost cost;
	struct arena inflated;
	bool notes;              /* each append has one, of its series */
	bool look;               /* at the stages of this round */
	uint64_t looked;         /* profiles of such rounds */
	double stages[STAGES];   /* of those, CPU seconds of the thread that takes them in */
};

static void must(int rc, const struct err *e)
{
	if (rc) {
		fprintf(stderr, "ingest_bench: %s\n", e->msg);
		exit(1);
	}
}

static double uniform(struct bench *b)
{
	b->random += 0x9e3779b97f4a7c15u;
	return (double)(hash_u64(b->random) >> 11) * 0x1p-53;
}

static int64_t poisson(struct bench *b, double mean)
{
	double limit = exp(-mean), p = uniform(b);
	int64_t n = 0;
	for (; p > limit; n++)
		p *= uniform(b);
	return n;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static struct cost process_cost(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (struct cost){ seconds(r.ru_utime), seconds(r.ru_stime), r.ru_minflt };
}

static void add_since(struct cost *c, struct cost before)
{
	struct cost now = process_cost();
	c->user += now.user - before.user;
	c->sys += now.sys - before.sys;
	c->faults += now.faults - before.faults;
}

/* ---- making profiles ---- */

/* Tables of a subset: what of the source is used, under new numbers in order of first use. */
struct renumber {
	uint32_t *to; /* index + 1 */
	uint32_t n;
};

static uint32_t number(struct renumber *r, uint32_t i, bool *fresh)
{
	*fresh = !r->to[i];
	if (*fresh)
		r->to[i] = ++r->n;
	return r->to[i] - 1;
}

struct maker {
	const struct profile *from;
	struct profile *p;
	struct renumber strings, functions, locations;
};

static uint32_t take_string(struct maker *m, uint32_t i)
{
	bool fresh;
	uint32_t to = number(&m->strings, i, &fresh);
	if (fresh)
		m->p->strings[to] = profile_str(m->from, i);
	m->p->n_strings = m->strings.n;
	return to;
}

static uint32_t take_function(struct maker *m, uint32_t i)
{
	bool fresh;
	uint32_t to = number(&m->functions, i, &fresh);
	if (fresh) {
		const struct profile_function *f = &m->from->functions[i];
		m->p->functions[to] = (struct profile_function){ take_string(m, f->name_str), take_string(m, f->system_name_str),
								 take_string(m, f->filename_str), f->start_line };
	}
	return to;
}

static uint32_t take_location(struct maker *m, uint32_t i)
{
	bool fresh;
	uint32_t to = number(&m->locations, i, &fresh);
	if (!fresh)
		return to;
	struct profile_location l = m->from->locations[i];
	uint32_t first = m->p->n_lines;
	for (uint32_t k = 0; k < l.n_lines; k++) {
		struct profile_line x = m->from->lines[l.first_line + k];
		x.function = x.function ? take_function(m, x.function - 1) + 1 : 0;
		m->p->lines[m->p->n_lines++] = x;
	}
	l.first_line = first;
	m->p->locations[to] = l;
	return to;
}

static void take_sample(struct maker *m, uint32_t i)
{
	const struct profile_sample *s = &m->from->samples[i];
	struct profile *p = m->p;
	p->samples[p->n_samples++] = (struct profile_sample){ p->n_stack, s->n_locations, 0, 0 };
	for (uint32_t k = 0; k < s->n_locations; k++)
		p->stack[p->n_stack++] = take_location(m, m->from->stack[s->first_location + k]);
}

/* An empty profile with room for all of the source, its mappings taken over. */
static void begin(struct bench *b, struct maker *m, uint32_t n_types)
{
	const struct profile *s = &b->source;
	struct profile *p = &b->subset;
	profile_reset(p);
	*m = (struct maker){ .from = s, .p = p };
	m->strings.to = arena_calloc(&p->arena, s->n_strings, sizeof(uint32_t));
	m->functions.to = arena_calloc(&p->arena, s->n_functions, sizeof(uint32_t));
	m->locations.to = arena_calloc(&p->arena, s->n_locations, sizeof(uint32_t));
	p->strings = arena_calloc(&p->arena, s->n_strings + 8, sizeof *p->strings);
	p->functions = arena_calloc(&p->arena, s->n_functions, sizeof *p->functions);
	p->locations = arena_calloc(&p->arena, s->n_locations, sizeof *p->locations);
	p->lines = arena_calloc(&p->arena, s->n_lines, sizeof *p->lines);
	p->stack = arena_calloc(&p->arena, s->n_stack, sizeof *p->stack);
	p->samples = arena_calloc(&p->arena, s->n_samples, sizeof *p->samples);
	p->values = arena_calloc(&p->arena, (size_t)s->n_samples * n_types, sizeof *p->values);
	p->sample_types = arena_calloc(&p->arena, n_types, sizeof *p->sample_types);
	p->mappings = arena_calloc(&p->arena, s->n_mappings, sizeof *p->mappings);
	take_string(m, 0);
	for (uint32_t i = 0; i < s->n_mappings; i++) {
		p->mappings[i] = s->mappings[i];
		p->mappings[i].file_str = take_string(m, s->mappings[i].file_str);
		p->mappings[i].build_id_str = take_string(m, s->mappings[i].build_id_str);
	}
	p->n_mappings = s->n_mappings;
	p->n_sample_types = n_types;
}

/* The strings of the header come last. */
static uint32_t header_string(struct profile *p, const char *text)
{
	p->strings[p->n_strings] = view_of(text);
	return p->n_strings++;
}

static void make_cpu(struct bench *b, uint32_t series)
{
	struct maker m;
	begin(b, &m, 2);
	struct profile *p = m.p;
	double harmonic = 0;
	for (uint32_t i = 0; i < b->source.n_samples; i++)
		harmonic += 1.0 / (i + 1);
	for (uint32_t rank = 0; rank < b->source.n_samples; rank++) {
		int64_t n = poisson(b, b->w->hits / harmonic / (rank + 1));
		if (!n)
			continue;
		p->values[2 * p->n_samples] = n;
		p->values[2 * p->n_samples + 1] = n * 10000000;
		take_sample(&m, b->order[series][rank]);
	}
	p->n_functions = m.functions.n;
	p->n_locations = m.locations.n;
	uint32_t ns = header_string(p, "nanoseconds"), cpu = header_string(p, "cpu");
	p->sample_types[0] = (struct profile_value_type){ header_string(p, "samples"), header_string(p, "count") };
	p->sample_types[1] = p->period_type = (struct profile_value_type){ cpu, ns };
	p->period = 10000000;
	p->duration_ns = INT64_C(10000000000);
}

static void make_heap(struct bench *b)
{
	struct maker m;
	const struct profile *s = &b->source;
	begin(b, &m, s->n_sample_types);
	for (uint32_t i = 0; i < s->n_samples; i++) {
		bool walks = uniform(b) < 0.25;
		double by = 1 + (uniform(b) - 0.5) * 0.08;
		for (uint32_t t = 0; t < s->n_sample_types; t++) {
			int64_t *v = &b->heap[(size_t)i * s->n_sample_types + t];
			*v = walks ? (int64_t)llround((double)*v * by) : *v;
			m.p->values[(size_t)i * s->n_sample_types + t] = *v;
		}
		take_sample(&m, i);
	}
	m.p->n_functions = m.functions.n;
	m.p->n_locations = m.locations.n;
	for (uint32_t t = 0; t < s->n_sample_types; t++)
		m.p->sample_types[t] = (struct profile_value_type){ take_string(&m, s->sample_types[t].type_str),
								    take_string(&m, s->sample_types[t].unit_str) };
	m.p->period_type = (struct profile_value_type){ take_string(&m, s->period_type.type_str),
							take_string(&m, s->period_type.unit_str) };
	m.p->period = s->period;
}

static void make(struct bench *b, uint64_t i, struct buf *out)
{
	struct err e;
	if (b->w->hits)
		make_cpu(b, (uint32_t)(i % b->w->series));
	else
		make_heap(b);
	int64_t late_ms = b->w->jitter_ms ? (int64_t)((2 * uniform(b) - 1) * (double)b->w->jitter_ms) : 0;
	b->subset.time_ns = (b->begin_ms + (int64_t)(i / b->w->series + 1) * b->w->interval_ms + late_ms) * 1000000;
	struct buf raw = { 0 };
	must(pprof_encode(&b->subset, &raw, &e), &e);
	b->raw_bytes += raw.len;
	buf_reset(out);
	must(pprof_gzip(buf_view(&raw), 0, out, &e), &e);
	b->gz_bytes += out->len;
	b->samples += b->subset.n_samples;
	buf_free(&raw);
}

/* A random order of the stacks. */
static uint32_t *shuffled(struct bench *b)
{
	uint32_t n = b->source.n_samples, *o = xcalloc(n, sizeof *o);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)(uniform(b) * (i + 1));
		o[i] = o[k];
		o[k] = i;
	}
	return o;
}

/* ---- taking them in ---- */

enum { MAX_TYPES = 8, STAGE_EVERY = 4 };

/* Reading this clock is a system call, so that of four rounds one is looked at. */
static double stage(struct bench *b, unsigned which, double since)
{
	struct timespec t;
	if (!b->look)
		return 0;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	double now = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	if (which < STAGES)
		b->stages[which] += now - since;
	return now;
}

static void take_in(struct bench *b, uint64_t i, const struct buf *gz)
{
	struct err e;
	struct view raw;
	struct profile *p = &b->decoded;
	double at = stage(b, STAGES, 0);
	arena_reset(&b->inflated);
	must(pprof_gunzip(gz->ptr, gz->len, SIZE_MAX, &b->inflated, &raw, &e), &e);
	at = stage(b, STAGE_INFLATE, at);
	must(pprof_decode_raw(raw.ptr, raw.len, NULL, p, &e), &e);
	at = stage(b, STAGE_DECODE, at);
	struct label labels[MAX_TYPES][3];
	struct sink_column columns[MAX_TYPES];
	char pod[16], names[MAX_TYPES][96];
	snprintf(pod, sizeof pod, "pod-%u", (unsigned)(i % b->w->series));
	bool cpu = b->w->hits != 0;
	uint32_t n = MIN(p->n_sample_types, (uint32_t)MAX_TYPES);
	for (uint32_t t = 0; t < n; t++) {
		struct ptype type = { VIEW("memory"), profile_str(p, p->sample_types[t].type_str),
				      profile_str(p, p->sample_types[t].unit_str), profile_str(p, p->period_type.type_str),
				      profile_str(p, p->period_type.unit_str), cpu, cpu ? PROFILE_DELTA : PROFILE_GAUGE };
		if (cpu)
			type.name = VIEW("process_cpu");
		snprintf(names[t], sizeof names[t], "%.*s:%.*s", VIEW_ARG(type.name), VIEW_ARG(type.sample_type));
		labels[t][0] = (struct label){ VIEW(LABEL_NAME), view_of(names[t]) };
		labels[t][1] = (struct label){ VIEW("job"), VIEW("bench") };
		labels[t][2] = (struct label){ VIEW("pod"), view_of(pod) };
		columns[t] = (struct sink_column){ { labels[t], 3 }, type, t };
	}
	struct sink_profile sp = { .profile = p, .columns = columns, .n_columns = n, .t_ms = p->time_ns / 1000000,
				   .duration_ns = p->duration_ns, .interval_ms = b->w->interval_ms, .asked_ms = cpu ? INTERVAL_MS : 0,
				   .period = p->period };
	char key[96], value[64];
	int key_len = snprintf(key, sizeof key, "cursor%chttp://10.11.12.13:7072/debug/pprof/profile?pod=%s%cprocess_cpu", 0, pod, 0);
	int value_len = snprintf(value, sizeof value, "0b4cbb7f-5c1e-4f5f-9d5c-0d6a8f3f2f7e %llu", (unsigned long long)i);
	const struct sink_note note = { view_make(key, (size_t)key_len), view_make(value, (size_t)value_len), sp.t_ms };
	struct sink_batch batch = { .profiles = &sp, .n_profiles = 1, .notes = &note, .n_notes = b->notes };
	struct sink_result result = { 0 };
	struct sink *sink = tsdb_sink(b->db);
	must(sink->append(sink, &batch, &result, &e), &e);
	if (result.profiles != 1)
		must(err_set(&e, ERR_INTERNAL, "profile %llu was not taken", (unsigned long long)i), &e);
	stage(b, STAGE_APPEND, at);
}

static int64_t bench_now(void *arg)
{
	return __atomic_load_n(&((struct bench *)arg)->now_ms, __ATOMIC_RELAXED);
}

static void run(struct bench *b, uint64_t total)
{
	for (uint64_t from = 0; from < total; from += ROUND) {
		uint64_t n = MIN(total - from, (uint64_t)ROUND);
		for (uint64_t i = 0; i < n; i++)
			make(b, from + i, &b->made[i]);
		__atomic_store_n(&b->now_ms, b->begin_ms + (int64_t)((from + n) / b->w->series + 2) * b->w->interval_ms, __ATOMIC_RELAXED);
		b->look = total < STAGE_EVERY * ROUND || from / ROUND % STAGE_EVERY == STAGE_EVERY - 1;
		b->looked += b->look ? n : 0;
		struct cost before = process_cost();
		for (uint64_t i = 0; i < n; i++)
			take_in(b, from + i, &b->made[i]);
		tsdb_flush(b->db);
		add_since(&b->cost, before);
		b->profiles += n;
	}
}

static void report(struct bench *b, const struct cost *seal)
{
	struct tsdb_stats st;
	struct err e;
	double n = (double)b->profiles, cpu = b->cost.user + b->cost.sys, stages[STAGES], all = 0;
	for (unsigned i = 0; i < STAGES; i++)
		all += stages[i] = b->stages[i] / (double)b->looked * 1000;
	tsdb_stats(b->db, &st);
	if (st.appended_profiles != b->profiles || st.lost_records)
		must(err_set(&e, ERR_INTERNAL, "profiles are missing"), &e);
	printf("%s %8.0f %8.0f %8.1f %8.1f %10.4f %8.4f %8.4f %8.4f %8.4f %8.4f %8.2f %10.0f %10.4f %12.0f %10.1f\n", b->w->name, n,
	       (double)b->samples / n, (double)b->raw_bytes / n / 1000, (double)b->gz_bytes / n / 1000, cpu / n * 1000,
	       stages[STAGE_INFLATE], stages[STAGE_DECODE], stages[STAGE_APPEND], cpu / n * 1000 - all, b->cost.sys / n * 1000, (double)b->cost.faults / n, n / cpu,
	       (seal->user + seal->sys) / n * 1000, (double)st.disk_bytes / n, (double)st.dictionary_bytes / 1e6);
}

static void bench_workload(const struct workload *w, const struct profile *source, double share, bool notes, const char *keep, double head, double log_mib)
{
	struct err e;
	struct bench b = { .w = w, .source = *source, .random = 1, .notes = notes };
	b.begin_ms = b.now_ms = head ? (int64_t)head * 1000 : INT64_C(1700006400000);
	char scratch[] = "/tmp/ingest-bench-XXXXXX";
	AUTOFREE char *dir = keep ? xasprintf("%s/%s", keep, w->name) : xstrdup(mkdtemp(scratch));
	struct tsdb_options o = { .path = dir, .now_ms = bench_now, .now_arg = &b, .log_bytes = (uint64_t)(log_mib * (1 << 20)), .no_sealing = head != 0 };
	must(tsdb_open(&b.db, &o, &e), &e);
	profile_init(&b.subset, 0);
	profile_init(&b.decoded, 0);
	b.made = xcalloc(ROUND, sizeof *b.made);
	b.order = xcalloc(w->series, sizeof *b.order);
	for (uint32_t i = 0; i < w->series; i++)
		b.order[i] = shuffled(&b);
	size_t n_values = (size_t)source->n_samples * source->n_sample_types;
	b.heap = xcalloc(n_values, sizeof *b.heap);
	memcpy(b.heap, source->values, n_values * sizeof *b.heap);
	run(&b, (uint64_t)ceil(w->rounds * share) * w->series);
	struct cost seal = { 0 }, before = process_cost();
	if (!head)
		must(tsdb_seal(b.db, true, &e), &e);
	add_since(&seal, before);
	report(&b, &seal);
	must(tsdb_close(b.db, &e), &e);
	for (uint32_t i = 0; i < ROUND; i++)
		buf_free(&b.made[i]);
	for (uint32_t i = 0; i < w->series; i++)
		free(b.order[i]);
	free(b.made);
	free(b.order);
	free(b.heap);
	profile_release(&b.subset);
	profile_release(&b.decoded);
	if (!keep)
		files_remove_tree(dir);
}

int main(int argc, char **argv)
{
	const char *corpus = getenv("PYRRHA_CORPUS"), *only = NULL, *keep = NULL;
	char *path AUTOFREE = xasprintf("%s/alloc_objects.pb.gz", corpus ? corpus : "../shared/corpus");
	double share = 0.1, log_mib = 0, head = 0;
	bool notes = false;
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		if (v.len == 1) {
			only = argv[i];
		} else if (view_starts(v, VIEW("--keep="))) {
			keep = argv[i] + 7;
		} else if (view_eqs(v, "--notes")) {
			notes = true;
		} else if (view_starts(v, VIEW("--head=")) && num_parse_double(view_make(v.ptr + 7, v.len - 7), &head)) {
			continue;
		} else if (view_starts(v, VIEW("--log=")) && num_parse_double(view_make(v.ptr + 6, v.len - 6), &log_mib)) {
			continue;
		} else if (!view_starts(v, VIEW("--share=")) || !num_parse_double(view_make(v.ptr + 8, v.len - 8), &share)) {
			free(path);
			path = xasprintf("%s", argv[i]);
		}
	}
	alloc_keep_freed(); /* as the server does */
	struct buf file = { 0 };
	if (buf_read_file(&file, path, NULL)) {
		fprintf(stderr, "ingest_bench: no %s: name it, or set PYRRHA_CORPUS to the folder it is in\n", path);
		return 77;
	}
	struct profile source;
	struct err e;
	profile_init(&source, 0);
	must(pprof_decode(file.ptr, file.len, NULL, &source, &e), &e);
	printf("CPU (user + sys, all threads) from gzip bytes to durable; %.0f %% of each workload\n", share * 100);
	printf("%s %8s %8s %8s %8s %10s %8s %8s %8s %8s %8s %8s %10s %10s %12s %10s\n", " ", "profiles", "stacks", "raw KB", "gz KB",
	       "ms each", "inflate", "decode", "append", "commit", "sys", "faults", "per s,core", "seal ms ea", "disk B each", "dict MB");
	for (size_t i = 0; i < ARRAY_LEN(workloads); i++)
		if (only ? view_eqs(view_of(workloads[i].name), only) : !workloads[i].on_request)
			bench_workload(&workloads[i], &source, share, notes, keep, head, log_mib);
	profile_release(&source);
	buf_free(&file);
	return 0;
}
