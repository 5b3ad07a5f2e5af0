/* SPDX-License-Identifier: Apache-2.0 */
/* Many targets: --targets of them, a profile of each every 15 s for --minutes, --stacks stacks each out of 20,000, as ids. The
 * time of the storage goes as fast as profiles can be taken in, so that what must wait waits. Prints, while it runs, what each
 * part of the storage says it holds, what malloc has beside that, and what is resident; then how much the open windows
 * took at most beside their budget (--head, MB), and how many parts that made.
 *
 * Held to: the head stays below its budget and what one commit adds; what is resident stays below the sum of the parts' budgets. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/num.h"
#include "bench/fleet.h"
#include "bench/measure.h"

#define STEP_MS 15000
#define POOL 20000
#define GROUP 200 /* profiles in a request */
#define ROWS 12   /* of the table over time */

struct bench {
	struct bench_fleet f;
	struct tsdb_options o;
	char dir[64];
	int64_t targets, minutes, stacks, head_mb, now_ms;
	uint32_t *columns, *series;
	uint64_t random, largest;
	int64_t started_mono_ms;
	long own_kb;       /* resident before there was a storage */
	char highest[256]; /* the row of when most was resident */
	long highest_kb;
	atomic_bool done;
};

static int64_t bench_now(void *arg)
{
	return __atomic_load_n(&((struct bench *)arg)->now_ms, __ATOMIC_RELAXED);
}

static uint64_t next(struct bench *b)
{
	return hash_u64(b->random++);
}

/* Stacks of 24 frames; each goes on from another one's middle. */
static void intern(struct bench *b, struct partition *p)
{
	uint32_t stack[24] = { 0 };
	char name[32];
	for (uint32_t i = 0; i < POOL; i++) {
		for (uint32_t k = 0; k < next(b) % 12 + 4; k++) {
			uint32_t f = (uint32_t)(next(b) % 4000);
			snprintf(name, sizeof name, "main.function%u", f);
			struct sym_function fn = { .name = symbols_string(p->symbols, view_of(name)) };
			struct sym_line line = { symbols_function(p->symbols, &fn) + 1, f % 100, 0 };
			struct sym_location l = { .address = f * 16, .n_lines = 1 };
			stack[k] = symbols_location(p->symbols, &l, &line);
		}
		b->columns[i] = symbols_column(p->symbols, symbols_stack(p->symbols, stack, 24), 0);
	}
	for (int64_t i = 0; i < b->targets; i++) {
		struct ptype type;
		snprintf(name, sizeof name, "10.0.%d.%d:80", (int)(i >> 8), (int)(i & 255));
		struct label l[] = { { VIEW("__name__"), VIEW(NAME) }, { VIEW("instance"), view_of(name) }, { VIEW("job"), VIEW("many") } };
		struct labels set = { l, ARRAY_LEN(l) };
		ptype_parse(VIEW(NAME), &type);
		b->series[i] = index_add(&p->index, set, labels_hash(set), &type);
	}
}

static int by_id(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Half of a target's stacks are its own favourites, half are any. */
static void draw(struct bench *b, int64_t target, int64_t t_ms, struct record_profile *out)
{
	size_t n = 0;
	vec_reserve(&out->columns, (size_t)b->stacks);
	vec_reserve(&out->values, (size_t)b->stacks);
	for (int64_t i = 0; i < b->stacks; i++) {
		uint64_t r = next(b);
		out->columns.v[i] = b->columns[i % 2 ? hash_u64((uint64_t)target * 64 + r % 32) % POOL : r % POOL];
	}
	qsort(out->columns.v, (size_t)b->stacks, sizeof *out->columns.v, by_id);
	for (int64_t i = 0; i < b->stacks; i++)
		if (!n || out->columns.v[n - 1] != out->columns.v[i]) {
			out->columns.v[n] = out->columns.v[i];
			out->values.v[n++] = 1 + (int64_t)(next(b) % 3 == 0);
		}
	out->n = out->columns.n = out->values.n = n;
	out->n_series = 1;
	out->series[0] = b->series[target];
	out->t_ms = t_ms;
	out->cover_ms = STEP_MS;
	out->meta = (struct sample_meta){ STEP_MS * INT64_C(1000000), 10000000, STEP_MS, STEP_MS };
	b->f.profiles++;
	b->f.samples += n;
}

static double mb(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* A row of the table: the parts' own words, and what malloc holds that is in nobody's hands. */
static void row(struct bench *b, int64_t t_ms, char *out, size_t size)
{
	struct tsdb_stats s;
	struct mallinfo2 m = mallinfo2();
	tsdb_stats(b->f.db, &s);
	snprintf(out, size, "| %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %ld |", (double)(clock_mono_ms() - b->started_mono_ms) / 1e3,
		 (double)(t_ms - T0) / 60000, mb(s.head_bytes), mb(s.sealing_bytes), mb(s.dictionary_bytes), mb(s.cache_bytes), mb(queue_bytes(b->f.db->queue)), mb(s.head_log_memory), mb(m.uordblks + m.hblkhd), mb(m.fordblks),
		 measure_status_kb("VmRSS") / 1024);
}

static void look(struct bench *b, int64_t t_ms)
{
	long kb = measure_status_kb("VmRSS");
	if (kb < b->highest_kb + b->highest_kb / 64)
		return;
	b->highest_kb = kb;
	row(b, t_ms, b->highest, sizeof b->highest);
}

static void round_of(struct bench *b, int64_t t_ms, struct record_profile *profiles)
{
	__atomic_store_n(&b->now_ms, t_ms + STEP_MS, __ATOMIC_RELAXED);
	for (int64_t from = 0; from < b->targets; from += GROUP) {
		b->f.pods.n = (size_t)MIN(GROUP, b->targets - from);
		for (size_t i = 0; i < b->f.pods.n; i++)
			draw(b, from + (int64_t)i, t_ms + from % 14000, &profiles[i]);
		fleet_push(&b->f, t_ms, profiles);
		b->largest = MAX(b->largest, atomic_load(&b->f.db->head_bytes));
	}
}

/* Beside the appends: they wait when most is resident. */
static void *watch(void *arg)
{
	struct bench *b = arg;
	while (!atomic_load(&b->done)) {
		look(b, __atomic_load_n(&b->now_ms, __ATOMIC_RELAXED));
		clock_sleep_ms(10);
	}
	return NULL;
}

static void print(struct bench *b, double seconds, double cpu)
{
	struct tsdb_stats s;
	tsdb_stats(b->f.db, &s);
	printf("| targets | profiles, samples | M samples/s per core, with the generator | head budget MB | head at most MB | resident at most MB | parts of how many hours | dictionary MB | bytes a sample |\n"
	       "|---|---|---|---|---|---|---|---|---|\n");
	printf("| %lld | %llu, %llu | %.1f (%.0f s) | %lld | %.0f | %ld | %llu, %.1f | %.0f | %.2f |\n", (long long)b->targets,
	       (unsigned long long)b->f.profiles, (unsigned long long)b->f.samples, (double)b->f.samples / cpu / 1e6, seconds,
	       (long long)b->head_mb, (double)b->largest / 1e6, measure_status_kb("VmHWM") / 1024, (unsigned long long)s.parts,
	       (double)b->minutes / 60, (double)s.dictionary_bytes / 1e6, (double)s.disk_bytes / (double)b->f.samples);
}

static bool parse(struct bench *b, int argc, char **argv)
{
	const struct { const char *name; int64_t *to; } numbers[] = { { "--targets=", &b->targets }, { "--minutes=", &b->minutes },
								       { "--stacks=", &b->stacks }, { "--head=", &b->head_mb } };
	for (int i = 1; i < argc; i++) {
		bool known = false;
		for (size_t k = 0; k < ARRAY_LEN(numbers) && !known; k++) {
			size_t n = strlen(numbers[k].name);
			known = !strncmp(argv[i], numbers[k].name, n) && num_parse_i64(view_of(argv[i] + n), numbers[k].to);
		}
		if (!known)
			return false;
	}
	return b->targets > 0 && b->targets < 65536 && b->minutes > 0 && b->stacks > 0 && b->head_mb > 0;
}

int main(int argc, char **argv)
{
	alloc_keep_freed(); /* as the server does */
	setlinebuf(stdout);
	struct bench b = { .targets = 10000, .minutes = 20, .stacks = 50, .head_mb = 256 };
	struct err e;
	if (!parse(&b, argc, argv)) {
		fprintf(stderr, "usage: bench_targets [--targets=10000] [--minutes=20] [--stacks=50] [--head=256]\n");
		return 2;
	}
	snprintf(b.dir, sizeof b.dir, "/tmp/targets-bench-XXXXXX");
	if (!mkdtemp(b.dir))
		return 1;
	b.now_ms = T0;
	b.own_kb = measure_status_kb("VmRSS");
	b.o = (struct tsdb_options){ .path = b.dir, .now_ms = bench_now, .now_arg = &b, .head_bytes = (uint64_t)b.head_mb << 20 };
	if (tsdb_open(&b.f.db, &b.o, &e)) {
		fprintf(stderr, "open: %s\n", e.msg);
		return 1;
	}
	b.columns = xcalloc(POOL, sizeof *b.columns);
	b.series = xcalloc((size_t)b.targets, sizeof *b.series);
	struct record_profile *profiles = xcalloc(GROUP, sizeof *profiles);
	struct partition *p = tsdb_enter_partition(b.f.db, day_of(T0 + 1));
	rwlock_write(&p->dict_lock);
	intern(&b, p);
	rwlock_unlock(&p->dict_lock);
	partition_leave(p);
	int64_t start = clock_mono_ns(), shown = 0;
	pthread_t watcher;
	b.started_mono_ms = clock_mono_ms();
	if (pthread_create(&watcher, NULL, watch, &b))
		return 1;
	printf("resident before: %ld MB\n\n", b.own_kb / 1024);
	printf("| s | min told | head MB | sealing | dictionary | block cache | queue | log | malloc: in use | free | resident |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (int64_t at = 1000; at < b.minutes * 60000; at += STEP_MS) {
		round_of(&b, T0 + at, profiles);
		if (at / (b.minutes * 60000 / ROWS) == shown)
			continue;
		char text[256];
		shown = at / (b.minutes * 60000 / ROWS);
		row(&b, T0 + at, text, sizeof text);
		printf("%s\n", text);
	}
	tsdb_flush(b.f.db);
	b.largest = MAX(b.largest, atomic_load(&b.f.db->head_bytes));
	double cpu = measure_cpu(), seconds = (double)(clock_mono_ns() - start) / 1e9;
	if (tsdb_seal(b.f.db, true, &e)) {
		fprintf(stderr, "seal: %s\n", e.msg);
		return 1;
	}
	atomic_store(&b.done, true);
	pthread_join(watcher, NULL);
	printf("%s at the highest\n\n", b.highest);
	print(&b, seconds, cpu);
	bool kept = b.largest <= b.o.head_bytes + (64 << 20);
	if (tsdb_close(b.f.db, &e))
		measure_die("close", &e);
	files_remove_tree(b.dir);
	return kept ? 0 : 1;
}
