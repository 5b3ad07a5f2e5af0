/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded answers of the agent, replayed until --days are full: through the decoder and the storage, split into series by
 * the labels that `preset: agent` splits by, as the scraper does.
 *
 *	curl "http://AGENT/debug/pprof/profile?from=$T&to=$((T+10))" > REC/$T.pb.gz     every ten seconds, for as long as you like
 *	bench_replay --rec=REC [--days=7] [--dir=DIR] [--without=pid,thread] [--comm=postgres,nginx]
 *
 * --without leaves labels of samples out, to see what they cost; --comm replays only these processes.
 *
 * Each round through the recording is shifted by its length. A process that was seen in less than half of its windows
 * counts as short-lived and gets another pid each round, so that sample labels come and go as on a host. The stacks of a
 * round are those of the one before. A series that had nothing in a window reads 0 for five minutes more, as in the
 * scraper.
 *
 * Prints CPU of all threads per answer (decoding, appending, sealing and rollups), resident memory and series. Then, after
 * everything is sealed, bytes on disk per sample and per answer. A sample is a value of one stack in one series of a profile: an
 * answer has two per stack, the count and the nanoseconds. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"
#include "bench/measure.h"
#include "pprof/pprof.h"
#include "tsdb/tsdb.h"

#define T0 INT64_C(1700006400000)
#define WINDOW_MS INT64_C(10000)
#define IDLE_MS INT64_C(300000)
#define HOUR_MS INT64_C(3600000)
#define SEAL_AFTER_MS (HOUR_MS + 17 * INT64_C(60000))
#define MAX_SPLIT 6

static const char *const split_by[MAX_SPLIT] = { "node", "namespace", "pod", "container", "unit", "comm" };

struct answer {
	int64_t t_s;
	struct buf gz;
};

/* A series of the split, by its labels' hash. */
struct group {
	uint64_t hash;
	struct label labels[MAX_SPLIT + 3];
	size_t n;
	int64_t last_ms;
	VEC(uint32_t) samples; /* of the answer at hand */
};

struct replayed_pid {
	uint64_t hash;
	uint32_t windows, last;
};

struct bench {
	struct tsdb_options o;
	struct tsdb *db;
	const char *rec, *without, *comms;
	char dir[128];
	bool keep;
	int64_t days, now_ms;
	VEC(struct answer) answers;
	struct map by_hash, by_pid;
	VEC(struct group *) groups;
	VEC(struct replayed_pid) pids;
	struct profile p;
	uint64_t profiles, samples, gz_bytes;
};

static void must(int rc, const struct err *e)
{
	if (rc) {
		fprintf(stderr, "replay: %s\n", e->msg);
		exit(1);
	}
}

static int64_t bench_now(void *arg)
{
	return __atomic_load_n(&((struct bench *)arg)->now_ms, __ATOMIC_RELAXED);
}

/* ---- the recording ---- */

static int by_time(const void *a, const void *b)
{
	const struct answer *x = a, *y = b;
	return (x->t_s > y->t_s) - (x->t_s < y->t_s);
}

static void read_file(struct bench *b, const char *name)
{
	struct answer x = { .t_s = strtoll(name, NULL, 10) };
	AUTOFREE char *path = xasprintf("%s/%s", b->rec, name);
	if (!buf_read_file(&x.gz, path, NULL) && x.gz.len)
		vec_push(&b->answers, x);
}

static void read_recording(struct bench *b)
{
	DIR *d = opendir(b->rec);
	for (struct dirent *x; d && (x = readdir(d));)
		if (view_ends(view_of(x->d_name), VIEW(".pb.gz")))
			read_file(b, x->d_name);
	if (d)
		closedir(d);
	if (!b->answers.n) {
		fprintf(stderr, "replay: no *.pb.gz in %s\n", b->rec);
		exit(1);
	}
	qsort(b->answers.v, b->answers.n, sizeof *b->answers.v, by_time);
}

static void decode(struct bench *b, const struct answer *x)
{
	struct err e;
	must(pprof_decode(x->gz.ptr, x->gz.len, NULL, &b->p, &e), &e);
	if (b->p.n_sample_types != 2)
		must(err_set(&e, ERR_BAD_DATA, "an answer has %u sample types instead of 2", b->p.n_sample_types), &e);
}

/* ---- pids ---- */

static struct replayed_pid *pid_of(struct bench *b, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t id;
	for (size_t at = map_start(&b->by_pid, h); map_probe(&b->by_pid, h, &at, &id);)
		if (b->pids.v[id].hash == h)
			return &b->pids.v[id];
	map_insert(&b->by_pid, h, (uint32_t)b->pids.n);
	struct replayed_pid *p = vec_add(&b->pids);
	p->hash = h;
	return p;
}

static void count_pids(struct bench *b)
{
	for (uint32_t i = 0; i < b->answers.n; i++) {
		decode(b, &b->answers.v[i]);
		for (uint32_t k = 0; k < b->p.n_labels; k++) {
			if (!view_eqs(profile_str(&b->p, b->p.labels[k].key_str), "pid") || b->p.labels[k].is_num)
				continue;
			struct replayed_pid *p = pid_of(b, profile_str(&b->p, b->p.labels[k].str));
			p->windows += p->last != i + 1;
			p->last = i + 1;
		}
	}
}

/* Strings that are pids of short-lived processes become others. */
static void change_pids(struct bench *b, int64_t round)
{
	struct profile *p = &b->p;
	uint8_t *done = arena_calloc(&p->arena, p->n_strings, 1);
	for (uint32_t k = 0; k < p->n_labels && round; k++) {
		uint32_t s = p->labels[k].str;
		if (p->labels[k].is_num || done[s] || !view_eqs(profile_str(p, p->labels[k].key_str), "pid"))
			continue;
		done[s] = 1;
		if (pid_of(b, p->strings[s])->windows * 2 >= b->answers.n)
			continue;
		char text[48];
		int n = snprintf(text, sizeof text, "%lld%.*s", (long long)round, VIEW_ARG(p->strings[s]));
		p->strings[s] = arena_view(&p->arena, view_make(text, (size_t)n));
	}
}

/* ---- splitting ---- */

static int by_name(const void *a, const void *b)
{
	return view_cmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

/* Whether a list with commas has a name. */
static bool is_in(const char *list, struct view name)
{
	for (const char *p = list, *end; p && *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, ",");
		if (view_eq(view_make(p, (size_t)(end - p)), name))
			return true;
	}
	return false;
}

/* Whether its process is one of those to replay. */
static bool is_wanted(const struct bench *b, const struct profile_sample *s)
{
	const struct profile_label *l = b->p.labels + s->first_label;
	for (uint32_t i = 0; i < s->n_labels && b->comms; i++)
		if (view_eqs(profile_str(&b->p, l[i].key_str), "comm"))
			return is_in(b->comms, profile_str(&b->p, l[i].str));
	return !b->comms;
}

/* Takes the labels that make series off a sample. */
static size_t take_labels(struct bench *b, struct profile_sample *s, struct label *out)
{
	struct profile *p = &b->p;
	struct profile_label *l = p->labels + s->first_label;
	uint32_t kept = 0;
	size_t n = 0;
	for (uint32_t i = 0; i < s->n_labels; i++) {
		struct view key = profile_str(p, l[i].key_str);
		bool mine = false;
		for (size_t k = 0; k < MAX_SPLIT && !mine; k++)
			mine = view_eqs(key, split_by[k]);
		if (is_in(b->without, key))
			continue;
		if (mine && n < MAX_SPLIT)
			out[n++] = (struct label){ key, profile_str(p, l[i].str) };
		else
			l[kept++] = l[i];
	}
	s->n_labels = kept;
	return n;
}

static struct group *group_of(struct bench *b, struct label *l, size_t n)
{
	l[n++] = (struct label){ VIEW("job"), VIEW("agent") };
	l[n++] = (struct label){ VIEW("instance"), VIEW("host:7071") };
	qsort(l, n, sizeof *l, by_name);
	uint64_t h = labels_hash((struct labels){ l, n });
	uint32_t id;
	for (size_t at = map_start(&b->by_hash, h); map_probe(&b->by_hash, h, &at, &id);)
		if (b->groups.v[id]->hash == h)
			return b->groups.v[id];
	struct group *g = NEW(struct group);
	g->hash = h;
	for (; g->n < n; g->n++)
		g->labels[g->n] = (struct label){ view_of(xstrndup(l[g->n].name.ptr, l[g->n].name.len)),
						  view_of(xstrndup(l[g->n].value.ptr, l[g->n].value.len)) };
	map_insert(&b->by_hash, h, (uint32_t)b->groups.n);
	vec_push(&b->groups, g);
	return g;
}

/* ---- taking in ---- */

/* What one answer appends: one batch, as of a scrape. */
struct batch {
	VEC(struct sink_profile) profiles;
	VEC(struct sink_column) columns; /* two of each profile */
	VEC(struct label) labels;
};

static const char *const names[2] = { "process_cpu:samples", "process_cpu:cpu" };

static void add(struct bench *b, struct batch *x, const struct group *g, int64_t t_ms)
{
	static const uint32_t none[1];
	struct profile *p = &b->p;
	vec_push(&x->profiles, (struct sink_profile){ .profile = p, .n_columns = 2, .samples = g->samples.n ? g->samples.v : none,
						      .n_samples = (uint32_t)g->samples.n, .t_ms = t_ms, .duration_ns = p->duration_ns,
						      .interval_ms = WINDOW_MS, .asked_ms = WINDOW_MS, .period = p->period });
	for (uint32_t t = 0; t < 2; t++) {
		struct ptype type = { VIEW("process_cpu"), profile_str(p, p->sample_types[t].type_str), profile_str(p, p->sample_types[t].unit_str),
				      profile_str(p, p->period_type.type_str), profile_str(p, p->period_type.unit_str), true, PROFILE_DELTA };
		vec_push(&x->columns, (struct sink_column){ { NULL, g->n + 1 }, type, t });
		vec_push(&x->labels, (struct label){ VIEW(LABEL_NAME), view_of(names[t]) });
		for (size_t i = 0; i < g->n; i++)
			vec_push(&x->labels, g->labels[i]);
	}
	b->samples += g->samples.n * 2;
}

/* Now that nothing moves any more. */
static void append(struct bench *b, struct batch *x)
{
	struct err e;
	size_t at = 0;
	for (size_t i = 0; i < x->columns.n; at += x->columns.v[i++].labels.n)
		x->columns.v[i].labels.v = x->labels.v + at;
	for (size_t i = 0; i < x->profiles.n; i++)
		x->profiles.v[i].columns = x->columns.v + 2 * i;
	struct sink_batch batch = { .profiles = x->profiles.v, .n_profiles = x->profiles.n };
	must(tsdb_sink(b->db)->append(tsdb_sink(b->db), &batch, NULL, &e), &e);
	vec_free(&x->profiles);
	vec_free(&x->columns);
	vec_free(&x->labels);
}

static void take_in(struct bench *b, const struct answer *x, int64_t round, int64_t t_ms)
{
	struct label l[MAX_SPLIT + 2];
	struct batch batch = { .profiles = { 0 } };
	decode(b, x);
	change_pids(b, round);
	for (uint32_t i = 0; i < b->p.n_samples; i++) {
		if (!is_wanted(b, &b->p.samples[i]))
			continue;
		size_t n = take_labels(b, &b->p.samples[i], l);
		struct group *g = group_of(b, l, n);
		vec_push(&g->samples, i);
		g->last_ms = t_ms;
	}
	for (size_t i = 0; i < b->groups.n; i++) {
		struct group *g = b->groups.v[i];
		if (g->last_ms && t_ms - g->last_ms <= IDLE_MS)
			add(b, &batch, g, t_ms);
	}
	append(b, &batch);
	for (size_t i = 0; i < b->groups.n; i++)
		b->groups.v[i]->samples.n = 0;
	b->profiles++;
	b->gz_bytes += x->gz.len;
}

static void replay(struct bench *b)
{
	struct err e;
	int64_t length_ms = (b->answers.v[b->answers.n - 1].t_s - b->answers.v[0].t_s) * 1000 + WINDOW_MS, next_seal = T0 + SEAL_AFTER_MS;
	for (int64_t round = 0; round * length_ms < b->days * 24 * HOUR_MS; round++) {
		for (size_t i = 0; i < b->answers.n; i++) {
			int64_t t = T0 + round * length_ms + (b->answers.v[i].t_s - b->answers.v[0].t_s) * 1000 + WINDOW_MS;
			__atomic_store_n(&b->now_ms, t, __ATOMIC_RELAXED);
			take_in(b, &b->answers.v[i], round, t);
			if (t < next_seal)
				continue;
			tsdb_flush(b->db);
			must(tsdb_seal(b->db, false, &e), &e); /* each hour by itself, as in time */
			next_seal += HOUR_MS;
		}
	}
	tsdb_flush(b->db);
	__atomic_store_n(&b->now_ms, b->now_ms + 2 * HOUR_MS, __ATOMIC_RELAXED);
	must(tsdb_seal(b->db, false, &e), &e);
}

static void print(struct bench *b, double cpu, long before_kb)
{
	struct tsdb_stats s;
	tsdb_stats(b->db, &s);
	printf("| | |\n|---|---|\n");
	printf("| recorded | %zu answers, %.1f KB each |\n", b->answers.n, (double)b->gz_bytes / (double)b->profiles / 1e3);
	printf("| replayed | %llu answers, %llu samples (%.0f an answer), %zu series of each of the 2 types |\n", (unsigned long long)b->profiles,
	       (unsigned long long)b->samples, (double)b->samples / (double)b->profiles, b->groups.n);
	printf("| CPU per answer, decoded, durable, sealed | %.2f ms |\n", cpu * 1e3 / (double)b->profiles);
	printf("| on disk | %.2f bytes per sample, %.0f per answer, %.1f MB a day |\n", (double)s.disk_bytes / (double)b->samples,
	       (double)s.disk_bytes / (double)b->profiles, (double)s.disk_bytes / 1e6 / (double)b->days);
	printf("| resident, most | %ld MB, %ld of it before the storage was opened; dictionaries %.0f MB of %llu days |\n",
	       measure_status_kb("VmHWM") / 1024, before_kb / 1024, (double)s.dictionary_bytes / 1e6, (unsigned long long)s.loaded);
}

static bool parse(struct bench *b, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct view v = view_of(argv[i]);
		if (view_starts(v, VIEW("--days=")) && num_parse_i64(view_make(v.ptr + 7, v.len - 7), &b->days))
			continue;
		if (view_starts(v, VIEW("--without="))) {
			b->without = argv[i] + 10;
			continue;
		}
		if (view_starts(v, VIEW("--comm="))) {
			b->comms = argv[i] + 7;
			continue;
		}
		if (view_starts(v, VIEW("--rec=")))
			b->rec = argv[i] + 6;
		else if (view_starts(v, VIEW("--dir=")) && v.len < sizeof b->dir)
			b->keep = snprintf(b->dir, sizeof b->dir, "%s", argv[i] + 6) > 0;
		else
			return false;
	}
	return b->rec && b->days >= 1 && b->days <= 400;
}

int main(int argc, char **argv)
{
	struct bench b = { .days = 7, .dir = "/tmp/replay-bench-XXXXXX" };
	struct err e;
	if (argc == 1)
		return 77; /* it needs a recording */
	if (!parse(&b, argc, argv)) {
		fprintf(stderr, "usage: bench_replay --rec=DIR [--days=7] [--dir=DIR] [--without=pid,thread] [--comm=NAME,...]\n");
		return 2;
	}
	if (!b.keep && !mkdtemp(b.dir))
		return 1;
	profile_init(&b.p, 0);
	read_recording(&b);
	count_pids(&b);
	b.now_ms = T0;
	b.o = (struct tsdb_options){ .path = b.dir, .now_ms = bench_now, .now_arg = &b, .no_sealing = true };
	long before_kb = measure_status_kb("VmRSS");
	must(tsdb_open(&b.db, &b.o, &e), &e);
	double cpu = measure_cpu();
	replay(&b);
	print(&b, measure_cpu() - cpu, before_kb);
	must(tsdb_close(b.db, &e), &e);
	if (!b.keep)
		files_remove_tree(b.dir);
	return 0;
}
