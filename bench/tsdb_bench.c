/* SPDX-License-Identifier: Apache-2.0 */
/* The storage on a fleet made from real stacks: 50 nodes x 4 services x 24 h at 10 s, scaled by --scale (nodes).
 *
 * Stacks come from the pprof corpus ($PYRRHA_CORPUS), crossed at common functions until each service has its pool;
 * a deploy every 6 h brings new pods. A profile is drawn as timer hits from a Zipf-Mandelbrot law with a skew of its
 * own per pod. Profiles enter as column ids (what the stacks are called was interned before), so that the figure is
 * the storage's alone. Every query's answer is compared with sums
 * that the generator kept. Figures of time are CPU time for ingest (the generator's own taken off) and wall time,
 * best of several, for queries. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "pprof/pprof.h"
#include "tsdb/files.h"
#include "tsdb/part.h"

#define SERVICES 4
#define NODES 50
#define T0 INT64_C(1700006400000)
#define NAME "process_cpu:samples:count:cpu:nanoseconds:delta"
#define DEPLOY_MS (6 * HOUR_MS)

static const uint32_t pool_sizes[SERVICES] = { 12000, 10000, 6000, 20000 };

struct stack {
	uint32_t *names; /* of function names, leaf first */
	uint32_t n;
};

struct service {
	VEC(struct stack) stacks;
	struct map seen; /* hash of the names */
	double *weight;
};

struct pod {
	uint32_t service;
	uint32_t series;
	/* Alias table of its law. */
	uint32_t *alias;
	float *keep;
	uint32_t n;
	uint32_t *column;  /* of each stack, in the partition */
	uint32_t *counts;
	uint32_t *drawn;
};

struct bench {
	struct tsdb *db;
	char dir[64];
	double scale;
	int64_t hours;
	bool keep;
	int64_t now_ms;
	VEC(char *) names;
	struct map by_name;
	struct service services[SERVICES];
	VEC(struct pod) pods;
	struct partition *p;
	int64_t *truth, *truth_hour;  /* by column: of all, of the last whole hour */
	uint32_t n_truth;
	uint64_t profiles, samples;
	double generator_cpu;
	uint64_t random;
};

struct keys {
	VEC(uint64_t) k;
};

static uint64_t next(uint64_t *s)
{
	*s += 0x9e3779b97f4a7c15u;
	return hash_u64(*s);
}

static double uniform(struct bench *b)
{
	return (double)(next(&b->random) >> 11) * 0x1p-53;
}

static double gauss(struct bench *b)
{
	return sqrt(-2 * log(uniform(b) + 1e-12)) * cos(6.283185307 * uniform(b));
}

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

/* ---- stacks ---- */

static uint32_t name_id(struct bench *b, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t id;
	for (size_t at = map_start(&b->by_name, h); map_probe(&b->by_name, h, &at, &id);)
		if (view_eqs(v, b->names.v[id]))
			return id;
	id = (uint32_t)b->names.n;
	map_insert(&b->by_name, h, id);
	vec_push(&b->names, xstrndup(v.ptr, v.len));
	return id;
}

/* False, and freed, if it is there already. */
static bool keep_stack(struct service *s, struct stack x)
{
	uint64_t h = hash_bytes(x.names, x.n * sizeof *x.names);
	uint32_t id;
	size_t at = map_start(&s->seen, h);
	if (map_probe(&s->seen, h, &at, &id)) {
		free(x.names);
		return false;
	}
	map_insert(&s->seen, h, (uint32_t)s->stacks.n);
	vec_push(&s->stacks, x);
	return true;
}

static void add_stack(struct bench *b, struct service *s, const struct profile *p, const struct profile_sample *x)
{
	VEC(uint32_t) names = { 0 };
	for (uint32_t i = 0; i < x->n_locations; i++) {
		const struct profile_location *l = &p->locations[p->stack[x->first_location + i]];
		for (uint32_t k = 0; k < l->n_lines; k++) {
			uint32_t f = p->lines[l->first_line + k].function;
			vec_push(&names, name_id(b, f ? profile_str(p, p->functions[f - 1].name_str) : VIEW("?")));
		}
	}
	keep_stack(s, (struct stack){ names.v, (uint32_t)names.n });
}

static void load_corpus(struct bench *b)
{
	static const char *const files[SERVICES] = { "profile1.pb.gz", "alloc_objects.pb.gz", "fgprof.pb.gz", "alloc_space_delta.pb.gz" };
	const char *dir = getenv("PYRRHA_CORPUS");
	for (int i = 0; dir && i < SERVICES; i++) {
		AUTOFREE char *path = xasprintf("%s/%s", dir, files[i]);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		struct buf bytes = { 0 };
		char chunk[65536];
		for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
			buf_put(&bytes, chunk, n);
		fclose(f);
		struct profile p;
		struct err e;
		profile_init(&p, 0);
		if (pprof_decode(bytes.ptr, bytes.len, NULL, &p, &e))
			die(path, &e);
		for (uint32_t k = 0; k < p.n_samples && k < pool_sizes[i]; k++)
			add_stack(b, &b->services[i], &p, &p.samples[k]);
		profile_release(&p);
		buf_free(&bytes);
	}
}

/* Without a corpus: stacks of a made-up program. */
static void seed_stack(struct bench *b, struct service *s, uint32_t i)
{
	char name[64];
	uint32_t depth = 8 + (uint32_t)(next(&b->random) % 32);
	struct stack x = { xcalloc(depth, sizeof *x.names), depth };
	for (uint32_t d = 0; d < depth; d++) {
		snprintf(name, sizeof name, "pkg%u.(*Type).method%u", d, (unsigned)(hash_u64((uint64_t)i * 64 + d) % (2 + d * 3)));
		x.names[depth - 1 - d] = name_id(b, view_of(name));
	}
	keep_stack(s, x);
}

/* The leaf side of one stack on the root side of another, where they share a function. */
static bool cross(struct bench *b, struct service *s)
{
	const struct stack *x = &s->stacks.v[next(&b->random) % s->stacks.n], *y = &s->stacks.v[next(&b->random) % s->stacks.n];
	if (!x->n || !y->n)
		return false;
	uint32_t i = (uint32_t)(next(&b->random) % x->n), k = 0;
	while (k < y->n && y->names[k] != x->names[i])
		k++;
	if (k == y->n || x == y || i + y->n - k > 120)
		return false;
	struct stack z = { xcalloc(i + y->n - k, sizeof *z.names), i + y->n - k };
	memcpy(z.names, x->names, i * sizeof *z.names);
	memcpy(z.names + i, y->names + k, (y->n - k) * sizeof *z.names);
	return keep_stack(s, z);
}

static void make_pools(struct bench *b)
{
	load_corpus(b);
	for (int i = 0; i < SERVICES; i++) {
		struct service *s = &b->services[i];
		uint32_t real = (uint32_t)s->stacks.n;
		for (uint32_t k = 0; s->stacks.n < 100; k++)
			seed_stack(b, s, k);
		for (uint32_t tries = 0; s->stacks.n < pool_sizes[i] && tries < 40 * pool_sizes[i]; tries++)
			cross(b, s);
		for (uint32_t k = 100; s->stacks.n < pool_sizes[i]; k++)
			seed_stack(b, s, k);
		s->weight = xcalloc(s->stacks.n, sizeof *s->weight);
		for (size_t k = 0; k < s->stacks.n; k++)
			s->weight[k] = pow((double)(hash_u64(k * 7 + (uint64_t)i) % s->stacks.n) + 3, -1.12);
		fprintf(stderr, "service %d: %u real stacks of %zu\n", i, real, s->stacks.n);
	}
}

/* ---- pods ---- */

static void make_alias(struct bench *b, struct pod *p)
{
	const struct service *s = &b->services[p->service];
	uint32_t n = p->n = (uint32_t)s->stacks.n, n_small = 0, n_large = 0;
	double *w = xcalloc(n, sizeof *w), sum = 0;
	uint32_t *small = xcalloc(n, sizeof *small), *large = xcalloc(n, sizeof *large);
	p->alias = xcalloc(n, sizeof *p->alias);
	p->keep = xcalloc(n, sizeof *p->keep);
	for (uint32_t i = 0; i < n; i++)
		sum += w[i] = s->weight[i] * exp(0.8 * gauss(b));
	for (uint32_t i = 0; i < n; i++) {
		w[i] *= n / sum;
		if (w[i] < 1)
			small[n_small++] = i;
		else
			large[n_large++] = i;
	}
	while (n_small && n_large) {
		uint32_t x = small[--n_small], y = large[n_large - 1];
		p->keep[x] = (float)w[x];
		p->alias[x] = y;
		w[y] -= 1 - w[x];
		if (w[y] < 1) {
			n_large--;
			small[n_small++] = y;
		}
	}
	while (n_small)
		p->keep[small[--n_small]] = 1;
	while (n_large)
		p->keep[large[--n_large]] = 1;
	free(w);
	free(small);
	free(large);
}

/* Addresses shift with each deploy, so that stacks are new ones. Under the partition's lock. */
static uint32_t *intern_pool(struct bench *b, uint32_t service, uint32_t deploy)
{
	struct service *s = &b->services[service];
	struct symbols *y = b->p->symbols;
	uint32_t *columns = xcalloc(s->stacks.n, sizeof *columns);
	struct sym_mapping m = { .start = 0x400000, .size = 64 << 20, .file = symbols_string(y, VIEW("/bin/service")) };
	char build[32];
	snprintf(build, sizeof build, "build-%u-%u", service, deploy);
	m.build_id = symbols_string(y, view_of(build));
	uint32_t mapping = symbols_mapping(y, &m) + 1;
	uint32_t locations[256];
	for (size_t i = 0; i < s->stacks.n; i++) {
		const struct stack *x = &s->stacks.v[i];
		uint32_t n = MIN(x->n, 256);
		for (uint32_t k = 0; k < n; k++) {
			struct sym_function f = { .name = symbols_string(y, view_of(b->names.v[x->names[k]])) };
			f.system_name = f.name;
			struct sym_line line = { symbols_function(y, &f) + 1, 10 + (int64_t)(x->names[k] % 90), 0 };
			struct sym_location l = { .address = x->names[k] * 64 + deploy * 16, .mapping = mapping, .n_lines = 1 };
			locations[k] = symbols_location(y, &l, &line);
		}
		columns[i] = symbols_column(y, symbols_stack(y, locations, n), 0);
	}
	return columns;
}

static uint32_t *columns_of[SERVICES];

static void deploy(struct bench *b, uint32_t number)
{
	uint32_t nodes = (uint32_t)MAX(1, (int)lround(NODES * b->scale));
	for (size_t i = 0; i < b->pods.n; i++) {
		struct pod *p = &b->pods.v[i];
		free(p->alias);
		free(p->keep);
		free(p->counts);
		free(p->drawn);
	}
	b->pods.n = 0;
	b->p = tsdb_partition(b->db, day_of(T0 + 1), true);
	pthread_rwlock_wrlock(&b->p->dict_lock);
	for (uint32_t s = 0; s < SERVICES; s++) {
		free(columns_of[s]);
		columns_of[s] = intern_pool(b, s, number);
	}
	for (uint32_t i = 0; i < nodes * SERVICES; i++) {
		char pod[48], service[16], node[16];
		struct ptype type;
		struct pod p = { .service = i % SERVICES };
		snprintf(pod, sizeof pod, "service-%u-%u-%u", p.service, i / SERVICES, number);
		snprintf(service, sizeof service, "service-%u", p.service);
		snprintf(node, sizeof node, "node-%u", i / SERVICES);
		struct label l[] = { { VIEW("__name__"), VIEW(NAME) }, { VIEW("node"), view_of(node) }, { VIEW("pod"), view_of(pod) },
				     { VIEW("service"), view_of(service) } };
		struct labels set = { l, ARRAY_LEN(l) };
		ptype_parse(VIEW(NAME), &type);
		p.series = index_add(&b->p->index, set, labels_hash(set), &type);
		make_alias(b, &p);
		p.column = columns_of[p.service];
		p.counts = xcalloc(p.n, sizeof *p.counts);
		p.drawn = xcalloc(p.n, sizeof *p.drawn);
		vec_push(&b->pods, p);
	}
	uint32_t n = symbols_count(b->p->symbols, SYMBOLS_COLUMNS);
	pthread_rwlock_unlock(&b->p->dict_lock);
	b->truth = xreallocarray(b->truth, n, sizeof *b->truth);
	b->truth_hour = xreallocarray(b->truth_hour, n, sizeof *b->truth_hour);
	memset(b->truth + b->n_truth, 0, (n - b->n_truth) * sizeof *b->truth);
	memset(b->truth_hour + b->n_truth, 0, (n - b->n_truth) * sizeof *b->truth_hour);
	b->n_truth = n;
	partition_unref(b->p);
}

/* ---- ingest ---- */

static void draw(struct bench *b, struct pod *p, int64_t t_ms, struct record_profile *out, struct keys *keys)
{
	double day = (double)((t_ms - T0) % DAY_MS) / (double)DAY_MS;
	double load = (330 + 130 * sin(6.2832 * (day - 0.3))) * (1 + 0.25 * gauss(b));
	uint32_t hits = load < 20 ? 20 : (uint32_t)load;
	uint32_t n = 0;
	for (uint32_t i = 0; i < hits; i++) {
		uint64_t r = next(&b->random);
		uint32_t k = (uint32_t)((r >> 32) * p->n >> 32);
		if ((float)(r & 0xffffff) * 0x1p-24f >= p->keep[k])
			k = p->alias[k];
		if (!p->counts[k]++)
			p->drawn[n++] = k;
	}
	vec_reserve(&keys->k, n);
	for (uint32_t i = 0; i < n; i++)
		keys->k.v[i] = (uint64_t)p->column[p->drawn[i]] << 32 | p->drawn[i];
	for (uint32_t gap = n / 2; gap; gap /= 2) /* a shell sort: the generator's time is not measured */
		for (uint32_t i = gap; i < n; i++)
			for (uint32_t k = i; k >= gap && keys->k.v[k - gap] > keys->k.v[k]; k -= gap) {
				uint64_t x = keys->k.v[k];
				keys->k.v[k] = keys->k.v[k - gap];
				keys->k.v[k - gap] = x;
			}
	vec_reserve(&out->columns, n);
	vec_reserve(&out->values, n);
	size_t kept = 0;
	bool last_hour = t_ms > T0 + (b->hours - 1) * HOUR_MS;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)keys->k.v[i], c = p->column[k];
		/* Crossing may have made one stack twice. */
		if (kept && out->columns.v[kept - 1] == c) {
			out->values.v[kept - 1] += p->counts[k];
		} else {
			out->columns.v[kept] = c;
			out->values.v[kept++] = p->counts[k];
		}
		b->truth[c] += p->counts[k];
		if (last_hour)
			b->truth_hour[c] += p->counts[k];
		p->counts[k] = 0;
	}
	out->n = out->columns.n = out->values.n = kept;
	out->n_series = 1;
	out->series[0] = p->series;
	out->t_ms = t_ms;
	out->cover_ms = 10000;
	out->meta = (struct sample_meta){ 10000000000, 10000000, 10000, 10000 };
	b->profiles++;
	b->samples += kept;
}

/* One scrape round of the fleet becomes one request, as a batch of the sink would. */
static void round_of(struct bench *b, int64_t t_ms, struct keys *keys)
{
	static struct record_profile *profiles;
	static size_t room;
	double start = thread_cpu();
	if (room < b->pods.n) {
		profiles = xreallocarray(profiles, b->pods.n, sizeof *profiles);
		memset(profiles + room, 0, (b->pods.n - room) * sizeof *profiles);
		room = b->pods.n;
	}
	for (size_t i = 0; i < b->pods.n; i++)
		draw(b, &b->pods.v[i], t_ms + (int64_t)(hash_u64(i) % 9000), &profiles[i], keys);
	b->generator_cpu += thread_cpu() - start;
	struct request *r = NEW(struct request);
	struct request_record *x = vec_add(&r->records);
	x->p = tsdb_partition(b->db, day_of(t_ms), true);
	x->kind = RECORD_SAMPLES;
	record_begin(&x->bytes, RECORD_SAMPLES, x->p->day);
	for (size_t i = 0; i < b->pods.n; i++) {
		record_put_profile(&x->bytes, &profiles[i]);
		r->profiles++;
		r->samples += profiles[i].n;
	}
	pthread_mutex_lock(&b->db->flush_lock);
	b->db->submitted++;
	pthread_mutex_unlock(&b->db->flush_lock);
	while (atomic_load(&b->db->head_bytes) > 2 * b->db->o.head_bytes)
		clock_sleep_ms(5);
	queue_push(b->db->queue, r, x->bytes.cap);
}

static int64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->now_ms;
}

static void ingest(struct bench *b)
{
	struct keys keys = { 0 };
	double cpu = process_cpu();
	int64_t start = clock_mono_ns();
	for (int64_t t = T0 + 1000; t <= T0 + b->hours * HOUR_MS - 9000; t += 10000) {
		if ((t - T0 - 1000) % DEPLOY_MS == 0) {
			double g = thread_cpu();
			deploy(b, (uint32_t)((t - T0) / DEPLOY_MS));
			b->generator_cpu += thread_cpu() - g;
		}
		b->now_ms = t + 10000;
		round_of(b, t, &keys);
	}
	tsdb_flush(b->db);
	b->now_ms = T0 + b->hours * HOUR_MS + 20 * 60000;
	struct err e;
	if (tsdb_seal(b->db, false, &e))
		die("seal", &e);
	cpu = process_cpu() - cpu - b->generator_cpu;
	double wall = (double)(clock_mono_ns() - start) / 1e9;
	struct rusage ru;
	getrusage(RUSAGE_SELF, &ru);
	struct tsdb_stats s;
	tsdb_stats(b->db, &s);
	printf("profiles %llu, samples %llu (%.1f per profile), series %llu, parts %llu\n", (unsigned long long)b->profiles,
	       (unsigned long long)b->samples, (double)b->samples / (double)b->profiles, (unsigned long long)s.series,
	       (unsigned long long)s.parts);
	printf("ingest, durable, sealed, rolled up: %.1f M samples/s per core-second (%.1f ns/sample), wall %.1f s with the generator\n",
	       (double)b->samples / cpu / 1e6, cpu * 1e9 / (double)b->samples, wall);
	printf("disk %.3f B/sample (%llu bytes), head log %llu bytes, RSS peak %ld MB, dictionary in memory %llu MB\n",
	       (double)s.disk_bytes / (double)b->samples, (unsigned long long)s.disk_bytes, (unsigned long long)s.head_log_bytes,
	       ru.ru_maxrss / 1024, (unsigned long long)s.dictionary_bytes >> 20);
	vec_free(&keys.k);
}

/* Bytes by kind, read from the parts themselves. */
static void disk_by_kind(struct bench *b)
{
	static const char *const names[] = { "header", "symbols", "index", "totals", "rollup", "detail", "floats" };
	uint64_t raw[LEVELS][7] = { { 0 } };
	struct version *v = tsdb_version(b->db, NULL);
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_parts; k++) {
			const struct part *p = v->p[i]->parts[k];
			for (enum part_kind kind = PART_HEADER; kind <= PART_INDEX; kind++) {
				PART_VALUE x = { 0 };
				if (part_get(p, kind, 0, 0, &x, NULL) == 0)
					raw[p->level][kind] += x.payload.len;
			}
			for (size_t s = 0; s < p->series.n; s++)
				for (enum part_kind kind = PART_TOTALS; kind <= PART_DETAIL; kind++)
					for (uint8_t stream = 0; stream < 3; stream++) {
						PART_VALUE x = { 0 };
						if (part_get(p, kind, p->series.v[s].series, stream, &x, NULL))
							break;
						raw[p->level][kind] += x.payload.len;
					}
		}
	for (int l = 0; l < LEVELS; l++)
		for (int k = 0; k < 7; k++)
			if (raw[l][k])
				printf("  level %d %-8s %.4f B/sample before zstd\n", l, names[k], (double)raw[l][k] / (double)b->samples);
	version_unref(v);
}

/* ---- queries ---- */

static struct source_view *view;
static struct source_series *series;
static size_t n_series;

static void open_view(struct bench *b, const char *service)
{
	struct err e;
	struct matcher m[2];
	matcher_init(&m[0], MATCH_EQ, VIEW("__name__"), VIEW(NAME), &e);
	if (service)
		matcher_init(&m[1], MATCH_EQ, VIEW("service"), view_of(service), &e);
	tsdb_source(b->db)->open(tsdb_source(b->db), &view, &e);
	if (view->ops->select(view, m, service ? 2 : 1, T0, T0 + b->hours * HOUR_MS, NULL, &series, &n_series, &e))
		die("select", &e);
	matcher_release(&m[0]);
	if (service)
		matcher_release(&m[1]);
}

static void close_view(void)
{
	free(series);
	view->ops->release(view);
}

static int64_t check_total(const struct stackvec *v, const int64_t *truth, uint32_t n)
{
	int64_t wrong = 0;
	size_t k = 0;
	for (uint32_t c = 0; c < n; c++) {
		int64_t have = 0;
		if (k < v->n && v->columns[k] == c)
			have = v->ints[k++];
		wrong += have != truth[c];
	}
	return wrong + (int64_t)(v->n - k);
}

static void merge_query(struct bench *b, const char *what, size_t most, int64_t after, int64_t until, const int64_t *truth,
			struct pool *pool)
{
	struct err e;
	double best = 1e9, first = 0;
	struct source_limits lim = { .pool = pool };
	const char *verdict = truth ? "" : "-";
	for (int i = 0; i < 5; i++) {
		int64_t start = clock_mono_ns();
		open_view(b, NULL);
		size_t n = MIN(n_series, most);
		struct source_part *parts = xcalloc(n + 1, sizeof *parts);
		for (size_t k = 0; k < n; k++)
			parts[k] = (struct source_part){ series[k].ref, after, until, 1, 0 };
		struct stackvec *v;
		if (view->ops->merge(view, parts, n, 1, &lim, &v, &e))
			die("merge", &e);
		double ms = (double)(clock_mono_ns() - start) / 1e6;
		if (!i)
			first = ms;
		best = MIN(best, ms);
		if (truth && !i)
			verdict = check_total(v, truth, b->n_truth) ? "WRONG" : "exact";
		stackvec_unref(v);
		free(parts);
		close_view();
	}
	printf("%-46s first %8.2f ms, best %8.2f ms  %s%s\n", what, first, best, pool ? "2 threads " : "1 thread  ", verdict);
}

static void totals_query(struct bench *b)
{
	double best = 1e9;
	struct err e;
	for (int i = 0; i < 3; i++) {
		int64_t start = clock_mono_ns(), sum = 0;
		open_view(b, NULL);
		for (size_t k = 0; k < n_series; k++) {
			struct source_profile *p;
			size_t n;
			if (view->ops->profiles(view, series[k].ref, T0, T0 + b->hours * HOUR_MS, NULL, &p, &n, &e))
				die("profiles", &e);
			for (size_t j = 0; j < n; j++)
				sum += p[j].total;
			free(p);
		}
		close_view();
		best = MIN(best, (double)(clock_mono_ns() - start) / 1e6);
		int64_t want = 0;
		for (uint32_t c = 0; c < b->n_truth; c++)
			want += b->truth[c];
		if (want != sum)
			printf("totals WRONG: %lld, not %lld\n", (long long)sum, (long long)want);
	}
	printf("%-46s                    best %8.2f ms  1 thread\n", "totals of every profile of the day", best);
}

static bool named(const void *arg, const struct symbols *s, const struct sym_location *l, uint32_t line)
{
	if (line >= l->n_lines)
		return false;
	uint32_t f = symbols_get_line(s, l, line)->function;
	return f && view_eqs(symbols_get_string(s, symbols_get_function(s, f - 1)->name), arg);
}

static void share_query(struct bench *b, struct pool *pool)
{
	double best = 1e9;
	struct err e;
	struct source_limits lim = { .pool = pool };
	struct source_frame_filter f = { named, b->names.v[b->names.n / 3], false };
	size_t steps = (size_t)b->hours * 60;
	double *sums = xcalloc(steps, sizeof *sums);
	for (int i = 0; i < 3; i++) {
		int64_t start = clock_mono_ns();
		open_view(b, NULL);
		struct source_part *parts = xcalloc(n_series * steps, sizeof *parts);
		size_t n = 0;
		for (size_t k = 0; k < n_series; k++)
			for (size_t s = 0; s < steps; s++)
				parts[n++] = (struct source_part){ series[k].ref, T0 + (int64_t)s * 60000, T0 + (int64_t)(s + 1) * 60000, 1, (uint32_t)s };
		if (view->ops->sums(view, parts, n, steps, &f, &lim, sums, NULL, &e))
			die("sums", &e);
		free(parts);
		close_view();
		best = MIN(best, (double)(clock_mono_ns() - start) / 1e6);
	}
	printf("%-46s                    best %8.2f ms  %s\n", "one function over the day at 60 s, all series", best, pool ? "2 threads" : "1 thread");
	free(sums);
}

static void queries(struct bench *b)
{
	int64_t end = T0 + b->hours * HOUR_MS;
	struct pool *pool = pool_new(1, "bench");
	for (int threads = 0; threads < 2; threads++) {
		struct pool *p = threads ? pool : NULL;
		merge_query(b, "merge 1 series, last whole hour", 1, end - HOUR_MS, end, NULL, p);
		merge_query(b, "merge all series, last whole hour", SIZE_MAX, end - HOUR_MS, end, b->truth_hour, p);
		merge_query(b, "merge all series, an hour unaligned", SIZE_MAX, end - HOUR_MS - 1234567, end - 1234567, NULL, p);
		merge_query(b, "merge all series, all hours", SIZE_MAX, T0, end, b->truth, p);
		merge_query(b, "merge all series, all hours, ends unaligned", SIZE_MAX, T0 + 1234567, end - 1234567, NULL, p);
	}
	totals_query(b);
	share_query(b, NULL);
	share_query(b, pool);
	pool_free(pool);
}

static void drop_query(struct bench *b)
{
	struct err e;
	b->now_ms = T0 + 40 * DAY_MS;
	atomic_store(&b->db->newest_t, b->now_ms);
	int64_t start = clock_mono_ns();
	if (tsdb_retain(b->db, &e))
		die("retain", &e);
	printf("%-46s                         %8.2f ms\n", "drop the day", (double)(clock_mono_ns() - start) / 1e6);
}

int main(int argc, char **argv)
{
	struct bench b = { .scale = 0.1, .hours = 24, .random = 1 };
	struct err e;
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		int64_t n;
		if (view_starts(v, VIEW("--scale=")) && num_parse_double(view_make(v.ptr + 8, v.len - 8), &b.scale))
			continue;
		if (view_starts(v, VIEW("--hours=")) && num_parse_i64(view_make(v.ptr + 8, v.len - 8), &n)) {
			b.hours = n;
			continue;
		}
		if (view_eqs(v, "--keep")) {
			b.keep = true;
			continue;
		}
		fprintf(stderr, "usage: bench_tsdb [--scale=0.1] [--hours=24] [--keep]\n");
		return 2;
	}
	snprintf(b.dir, sizeof b.dir, "/tmp/tsdb-bench-XXXXXX");
	if (!mkdtemp(b.dir))
		return 1;
	b.now_ms = T0 + 1;
	struct tsdb_options o = { .path = b.dir, .now_ms = bench_now, .now_arg = &b, .head_bytes = 128 << 20, .cache_bytes = 256 << 20 };
	make_pools(&b);
	if (tsdb_open(&b.db, &o, &e))
		die("open", &e);
	ingest(&b);
	disk_by_kind(&b);
	queries(&b);
	if (tsdb_close(b.db, &e))
		die("close", &e);
	b.db = NULL;
	int64_t start = clock_mono_ns();
	if (tsdb_open(&b.db, &o, &e))
		die("open", &e);
	printf("%-46s                         %8.2f ms\n", "open again", (double)(clock_mono_ns() - start) / 1e6);
	merge_query(&b, "merge all series, all hours, after open", SIZE_MAX, T0, T0 + b.hours * HOUR_MS, b.truth, NULL);
	if (!b.keep)
		drop_query(&b);
	tsdb_close(b.db, &e);
	if (b.keep)
		printf("kept in %s\n", b.dir);
	else
		files_remove_tree(b.dir);
	return 0;
}
