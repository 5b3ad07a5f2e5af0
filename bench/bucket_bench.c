/* SPDX-License-Identifier: Apache-2.0 */
/* Days of the fleet (fleet.h) and the bucket that they go to, a directory. Of each hour the requests are counted; tests/e2e/test_bucket_days.py
 * starts a server on what is left, takes its disk away, and lets it come back.
 *
 *	bench_bucket --dir=DIR --bucket=BUCKET [--id=shop-1] [--days=10] [--scale=0.02] [--every=10]
 *	bench_bucket --dir=DIR --hours=24 [--bucket=BUCKET]     so many hours without what happens besides: bench/bucket compares their cost
 *	bench_bucket ... --tend=24                              seals, rolls up and uploads once in so many hours: bench/year makes a year in minutes
 *
 * A profile of each pod every --every seconds. Twenty minutes after each hour its windows are sealed, rolled up and uploaded: what the threads of the
 * storage do by themselves, at times that repeat. Besides,
 *
 *	all days   a program without symbols is profiled; its names become known on day 3
 *	day 2      an hour of day 1 comes late, for series that are there and for a pod that was not
 *	day 4      what service-2 of node-0 has of two and a half days is deleted
 *	day 6      day 5 is deleted as a whole, and an hour later two hours of it come again
 *	all days   {job="short"} is kept for three days, and has samples on the first three
 *
 * The last day ends at 14:20. The last line of the output is the newest stamp in ms and a function that graphs may ask for. The line before has what it
 * took: CPU seconds of all threads without the generator's, of those in the calls that seal and upload, and seconds in these calls; the peak of memory
 * and the bytes of partitions/. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/fleet.h"
#include "bench/measure.h"
#include "bucket/bucket.h"

#define MINUTE_MS INT64_C(60000)
#define SHORT_KEEP_MS (3 * DAY_MS)
#define LAST_HOUR 14
#define NATIVE "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"
#define NATIVE_FUNCTIONS 64
#define NATIVE_STACKS 40
#define NATIVE_DEPTH 5

enum request_kind { REQUEST_PUT, REQUEST_GET, REQUEST_LIST, REQUEST_REMOVE, REQUEST_KINDS };

/* The store with a count of its requests. */
struct counted {
	struct objects objects;
	struct objects *to;
	_Atomic uint64_t requests[REQUEST_KINDS], put_bytes;
};

struct bench {
	struct bench_fleet f;
	struct tsdb_options o;
	struct counted counted;
	struct record_profile *profiles;
	const char *dir, *bucket_dir, *id;
	int64_t days, hours, every, tend;
	double generator_cpu, tend_cpu;
	int64_t tend_ns;
	struct tsdb_stats stats;
	_Atomic int64_t now_ms;
	int64_t newest_ms;
	uint64_t last[REQUEST_KINDS], quiet_hours, quiet_puts, quiet_most, busy_most;
	bool busy;                    /* this hour has late data, deletes or late names */
};

/* ---- the store ---- */

static int counted_put(struct objects *o, const char *key, const struct objects_body *b, struct err *e)
{
	struct counted *c = (struct counted *)o;
	atomic_fetch_add(&c->requests[REQUEST_PUT], 1);
	atomic_fetch_add(&c->put_bytes, b->size);
	return c->to->put(c->to, key, b, e);
}

static int counted_get(struct objects *o, const char *key, uint64_t offset, uint64_t length, int (*data)(void *arg, const char *p, size_t n, struct err *e),
		       void *arg, uint64_t *ret_size, struct err *e)
{
	struct counted *c = (struct counted *)o;
	atomic_fetch_add(&c->requests[REQUEST_GET], 1);
	return c->to->get(c->to, key, offset, length, data, arg, ret_size, e);
}

static int counted_list(struct objects *o, const char *prefix, const char *after, int (*found)(void *arg, const struct objects_found *x, struct err *e),
			void *arg, struct err *e)
{
	struct counted *c = (struct counted *)o;
	atomic_fetch_add(&c->requests[REQUEST_LIST], 1);
	return c->to->list(c->to, prefix, after, found, arg, e);
}

static int counted_remove(struct objects *o, const char *key, struct err *e)
{
	struct counted *c = (struct counted *)o;
	atomic_fetch_add(&c->requests[REQUEST_REMOVE], 1);
	return c->to->remove(c->to, key, e);
}

static void counted_init(struct counted *c, struct objects *to)
{
	c->objects = (struct objects){ counted_put, counted_get, counted_list, counted_remove };
	c->to = to;
}

static uint64_t take_count(struct bench *b, enum request_kind k)
{
	uint64_t now = atomic_load(&b->counted.requests[k]), n = now - b->last[k];
	b->last[k] = now;
	return n;
}

/* ---- what the storage does each hour ---- */

static int64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->now_ms;
}

static void must(int rc, const char *what, const struct err *e)
{
	if (rc)
		measure_die(what, e);
}

static double thread_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void tend(struct bench *b, bool all)
{
	struct err e;
	tsdb_flush(b->f.db);
	double cpu = measure_cpu();
	int64_t start = clock_mono_ns();
	must(tsdb_seal(b->f.db, all, &e), "seal", &e);
	must(tsdb_retain(b->f.db, &e), "retain", &e);
	must(tsdb_clean(b->f.db, &e), "clean", &e);
	must(tsdb_resolve_names(b->f.db, &e), "names", &e);
	if (b->bucket_dir)
		must(tsdb_upload(b->f.db, &e), "upload", &e);
	b->tend_cpu += measure_cpu() - cpu;
	b->tend_ns += clock_mono_ns() - start;
}

static void count_hour(struct bench *b, int64_t hour)
{
	uint64_t puts = take_count(b, REQUEST_PUT), gets = take_count(b, REQUEST_GET), lists = take_count(b, REQUEST_LIST), removes = take_count(b, REQUEST_REMOVE);
	if (b->busy) {
		b->busy_most = MAX(b->busy_most, puts);
	} else {
		b->quiet_hours++;
		b->quiet_puts += puts;
		b->quiet_most = MAX(b->quiet_most, puts);
	}
	printf("day %lld %02lld:20  %llu puts, %llu gets, %llu lists, %llu removals%s\n", (long long)(hour / 24), (long long)(hour % 24), (unsigned long long)puts,
	       (unsigned long long)gets, (unsigned long long)lists, (unsigned long long)removes, b->busy ? "  late data, deletes or late names" : "");
	b->busy = false;
}

/* ---- rows beside the fleet ---- */

static uint32_t native_string(struct profile *p, const char *s)
{
	p->strings[p->n_strings] = arena_view(&p->arena, view_of(s));
	return p->n_strings++;
}

static void native_tables(struct profile *p, bool named)
{
	char name[32];
	profile_init(p, 0);
	p->strings = arena_alloc(&p->arena, (16 + NATIVE_FUNCTIONS) * sizeof *p->strings);
	native_string(p, "");
	p->mappings = arena_calloc(&p->arena, 1, sizeof *p->mappings);
	p->mappings[0] = (struct profile_mapping){ .start = 0x400000, .limit = 0x500000, .file_str = native_string(p, "/bin/native"),
						   .build_id_str = native_string(p, "native-build") };
	p->n_mappings = 1;
	p->functions = arena_calloc(&p->arena, NATIVE_FUNCTIONS, sizeof *p->functions);
	p->lines = arena_calloc(&p->arena, NATIVE_FUNCTIONS, sizeof *p->lines);
	p->locations = arena_calloc(&p->arena, NATIVE_FUNCTIONS, sizeof *p->locations);
	for (uint32_t i = 0; i < NATIVE_FUNCTIONS; i++) {
		snprintf(name, sizeof name, "native::function_%u", i);
		p->functions[i].name_str = native_string(p, name);
		p->lines[i] = (struct profile_line){ i + 1, 7 + i, 0 };
		p->locations[i] = (struct profile_location){ .address = 0x400000 + i * 32, .mapping = 1, .first_line = i, .n_lines = named };
	}
	p->n_functions = p->n_lines = p->n_locations = NATIVE_FUNCTIONS;
}

static void native_profile(struct profile *p, uint64_t seed, bool named)
{
	static const char *const workers[] = { "reader", "writer", "sweeper" };
	native_tables(p, named);
	p->samples = arena_calloc(&p->arena, NATIVE_STACKS, sizeof *p->samples);
	p->values = arena_calloc(&p->arena, NATIVE_STACKS, sizeof *p->values);
	p->labels = arena_calloc(&p->arena, NATIVE_STACKS, sizeof *p->labels);
	p->stack = arena_calloc(&p->arena, NATIVE_STACKS * NATIVE_DEPTH, sizeof *p->stack);
	uint32_t key = native_string(p, "worker"), names[3];
	for (uint32_t i = 0; i < 3; i++)
		names[i] = native_string(p, workers[i]);
	for (uint32_t i = 0; i < NATIVE_STACKS; i++) {
		p->labels[i] = (struct profile_label){ .key_str = key, .str = names[i % 3] };
		p->samples[i] = (struct profile_sample){ p->n_stack, NATIVE_DEPTH, i, 1 };
		p->values[i] = 10000000 * (int64_t)(1 + hash_u64(seed * 64 + i) % 90);
		for (uint32_t d = 0; d < NATIVE_DEPTH; d++)
			p->stack[p->n_stack++] = (uint32_t)(hash_u64((i >> d) * 8 + d) % NATIVE_FUNCTIONS);
	}
	p->n_samples = p->n_labels = NATIVE_STACKS;
	p->sample_types = arena_calloc(&p->arena, 1, sizeof *p->sample_types);
	p->sample_types[0] = (struct profile_value_type){ native_string(p, "cpu"), native_string(p, "nanoseconds") };
	p->n_sample_types = 1;
	p->period_type = p->sample_types[0];
	p->period = 10000000;
	p->duration_ns = INT64_C(60000000000);
}

static void append(struct bench *b, const struct sink_batch *batch)
{
	struct sink *s = tsdb_sink(b->f.db);
	struct sink_result r;
	struct err e;
	must(s->append(s, batch, &r, &e), "append", &e);
	if (r.profiles != batch->n_profiles || r.floats != batch->n_floats)
		measure_die("append: rows were refused", NULL);
}

static void push_native(struct bench *b, const char *pod, int64_t t_ms, bool named)
{
	struct profile p;
	struct label l[] = { { VIEW("__name__"), VIEW(NATIVE) }, { VIEW("pod"), view_of(pod) }, { VIEW("service"), VIEW("native") } };
	struct sink_column c = { .labels = { l, ARRAY_LEN(l) } };
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .duration_ns = INT64_C(60000000000), .interval_ms = MINUTE_MS,
				   .asked_ms = MINUTE_MS, .period = 10000000 };
	native_profile(&p, (uint64_t)t_ms, named);
	ptype_parse(VIEW(NATIVE), &c.type);
	append(b, &(struct sink_batch){ .profiles = &sp, .n_profiles = 1 });
	profile_release(&p);
}

static void push_float(struct bench *b, const char *name, const char *job, int64_t t_ms, double v)
{
	struct label l[] = { { VIEW("__name__"), view_of(name) }, { VIEW("job"), view_of(job) } };
	struct sink_float x = { { l, ARRAY_LEN(l) }, t_ms, v };
	append(b, &(struct sink_batch){ .floats = &x, .n_floats = 1 });
}

static void push_beside(struct bench *b, int64_t t_ms)
{
	int64_t minutes = (t_ms - T0) / MINUTE_MS;
	push_float(b, "requests_total", "shop", t_ms, (double)(minutes * 17 % 100000));
	push_float(b, "temperature", "shop", t_ms, 20 + (double)(hash_u64((uint64_t)minutes) % 1000) / 100);
	if (t_ms < T0 + 3 * DAY_MS)
		push_float(b, "passing", "short", t_ms, (double)minutes);
	if (minutes % 10 == 0)
		push_native(b, "native-a", t_ms, false);
	if (minutes % 10 == 5 && t_ms > T0 + 3 * DAY_MS + 12 * HOUR_MS)
		push_native(b, "native-b", t_ms, true);
}

/* ---- the fleet ---- */

static void push_round(struct bench *b, int64_t t_ms, int64_t spread_ms)
{
	struct drawn d;
	double cpu = thread_cpu();
	for (size_t i = 0; i < b->f.pods.n; i++)
		fleet_draw(&b->f, &b->f.pods.v[i], t_ms + (int64_t)(hash_u64(i) % (uint64_t)spread_ms), &b->profiles[i], &d);
	b->generator_cpu += thread_cpu() - cpu;
	fleet_push(&b->f, t_ms, b->profiles);
}

static uint32_t deploy_of(int64_t t_ms)
{
	return (uint32_t)((t_ms - T0) / DEPLOY_MS);
}

static void deploy(struct bench *b, int64_t t_ms, uint32_t number)
{
	double cpu = thread_cpu();
	fleet_deploy(&b->f, t_ms, number);
	b->generator_cpu += thread_cpu() - cpu;
}

/* Rows of (from, until] that come now. Pods of that time have stamps between those that they have (the rounds lie within 8 s of every 10). */
static void push_late(struct bench *b, int64_t from_ms, int64_t until_ms, uint32_t number)
{
	deploy(b, from_ms, number);
	for (int64_t t = from_ms; t < until_ms; t += b->every * 1000)
		push_round(b, t + 9500, 900);
	tsdb_flush(b->f.db);
	deploy(b, b->now_ms - 10000, deploy_of(b->now_ms - 10000)); /* and back */
	b->busy = true;
}

static void delete(struct bench *b, const char *label, const char *value, const char *node, int64_t after_ms, int64_t until_ms)
{
	struct matcher m[2];
	struct err e;
	uint64_t series;
	size_t n = node ? 2 : 1;
	must(matcher_init(&m[0], node ? MATCH_EQ : MATCH_NE, view_of(label), view_of(value), &e), "matcher", &e);
	if (node)
		must(matcher_init(&m[1], MATCH_EQ, VIEW("node"), view_of(node), &e), "matcher", &e);
	must(tsdb_delete(b->f.db, m, n, after_ms, until_ms, &series, &e), "delete", &e);
	if (!series)
		measure_die("a delete found nothing", NULL);
	for (size_t i = 0; i < n; i++)
		matcher_release(&m[i]);
	b->busy = true;
}

/* What happens besides at the end of that hour since T0. */
static void happen(struct bench *b, int64_t hour)
{
	if (hour == 2 * 24 + 5) {
		push_late(b, T0 + DAY_MS + 20 * HOUR_MS, T0 + DAY_MS + 21 * HOUR_MS, deploy_of(T0 + DAY_MS + 20 * HOUR_MS));
		push_late(b, T0 + DAY_MS + 20 * HOUR_MS, T0 + DAY_MS + 21 * HOUR_MS, 1000);
	} else if (hour == 4 * 24 + 12) {
		delete(b, "service", "service-2", "node-0", T0 + DAY_MS + 6 * HOUR_MS, T0 + 3 * DAY_MS + 18 * HOUR_MS);
	} else if (hour == 6 * 24 + 10) {
		delete(b, "__name__", "", NULL, T0 + 5 * DAY_MS - 1, T0 + 6 * DAY_MS - 1);
	} else if (hour == 6 * 24 + 11) {
		push_late(b, T0 + 5 * DAY_MS + 8 * HOUR_MS, T0 + 5 * DAY_MS + 10 * HOUR_MS, deploy_of(T0 + 5 * DAY_MS + 8 * HOUR_MS));
	} else if (hour >= 3 * 24 + 11 && hour <= 3 * 24 + 13) {
		b->busy = true; /* names come */
	}
}

static void make_hour(struct bench *b, int64_t hour)
{
	int64_t from = T0 + hour * HOUR_MS, step = b->every * 1000;
	for (int64_t t = from + 1000; t < from + HOUR_MS; t += step) {
		if ((t - T0 - 1000) % DEPLOY_MS == 0)
			deploy(b, t, deploy_of(t));
		b->now_ms = t + 10000;
		push_round(b, t, 8000);
		if ((t - 1000) % MINUTE_MS == 0 && !b->hours)
			push_beside(b, t);
		if (hour && hour % b->tend == 0 && t == from + 20 * MINUTE_MS + 1000) { /* the hours before are due */
			if (!b->hours)
				happen(b, hour - 1);
			tend(b, false);
			count_hour(b, hour - 1);
		}
	}
}

static void make(struct bench *b)
{
	struct matcher m;
	struct err e;
	must(matcher_init(&m, MATCH_EQ, VIEW("job"), VIEW("short"), &e), "matcher", &e);
	struct tsdb_retention rule = { &m, 1, SHORT_KEEP_MS };
	must(tsdb_open(&b->f.db, &b->o, &e), "open", &e);
	must(tsdb_set_retention(b->f.db, &rule, 1, &e), "retention", &e);
	int64_t hours = b->hours ? b->hours : (b->days - 1) * 24 + LAST_HOUR;
	for (int64_t hour = 0; hour < hours; hour++)
		make_hour(b, hour);
	b->newest_ms = b->now_ms - 10000;
	b->now_ms = T0 + hours * HOUR_MS + 20 * MINUTE_MS;
	b->busy = true; /* the windows of the last hour are sealed before its end */
	tend(b, true);
	count_hour(b, hours - 1);
	tsdb_stats(b->f.db, &b->stats);
	must(tsdb_close(b->f.db, &e), "close", &e);
	matcher_release(&m);
}

/* ---- the command line ---- */

static bool text_option(const char *arg, const char *name, const char **ret)
{
	struct view v = view_of(arg), n = view_of(name);
	if (view_starts(v, n))
		*ret = arg + n.len;
	return view_starts(v, n);
}

static bool parse(struct bench *b, int argc, char **argv)
{
	const char *scale = "0.02", *days = "10", *every = "10", *hours = "0", *tend = "1";
	for (int i = 1; i < argc; i++)
		if (!text_option(argv[i], "--dir=", &b->dir) && !text_option(argv[i], "--bucket=", &b->bucket_dir) && !text_option(argv[i], "--id=", &b->id) &&
		    !text_option(argv[i], "--days=", &days) && !text_option(argv[i], "--hours=", &hours) && !text_option(argv[i], "--tend=", &tend) && !text_option(argv[i], "--scale=", &scale) && !text_option(argv[i], "--every=", &every))
			return false;
	return b->dir && num_parse_i64(view_of(tend), &b->tend) && b->tend > 0 && num_parse_i64(view_of(hours), &b->hours) && b->hours >= 0 && b->hours <= 10000 && (b->bucket_dir || b->hours) && num_parse_double(view_of(scale), &b->f.scale) && num_parse_i64(view_of(days), &b->days) &&
	       num_parse_i64(view_of(every), &b->every) && b->f.scale > 0 && b->f.scale <= 10 && b->days >= 7 && b->days <= 400 && b->every >= 10 &&
	       (60 % b->every == 0 || (b->every % 60 == 0 && 3600 % b->every == 0));
}

static void report(const struct bench *b, double seconds)
{
	printf("%llu profiles, %llu samples; %llu bytes put by %llu requests; made in %.1f s\n", (unsigned long long)b->f.profiles, (unsigned long long)b->f.samples,
	       (unsigned long long)b->counted.put_bytes, (unsigned long long)b->counted.requests[REQUEST_PUT], seconds);
	printf("puts an hour: mean %.2f, most %llu in %llu hours; most %llu in hours with late data, deletes or late names\n",
	       (double)b->quiet_puts / (double)MAX(b->quiet_hours, 1), (unsigned long long)b->quiet_most, (unsigned long long)b->quiet_hours,
	       (unsigned long long)b->busy_most);
	printf("cpu %.3f tend_cpu %.3f tend_seconds %.3f peak_kb %ld disk_bytes %llu\n", measure_cpu() - b->generator_cpu, b->tend_cpu, (double)b->tend_ns / 1e9,
	       measure_status_kb("VmHWM"), (unsigned long long)b->stats.disk_bytes);
	printf("%lld %s\n", (long long)b->newest_ms, b->f.names.v[b->f.function]);
}

static void run(struct bench *b)
{
	struct bucket *bucket = NULL;
	struct err e;
	struct bucket_config c = { .type = BUCKET_FILESYSTEM, .prefix = "", .directory = b->bucket_dir, .server_id = b->id, .requests = 4, .shown = b->bucket_dir };
	b->o = (struct tsdb_options){ .path = b->dir, .retention_ms = -1, .now_ms = bench_now, .now_arg = b, .no_transfer = true, .no_sealing = true,
				      .clean_ms = 10 * MINUTE_MS };
	if (b->bucket_dir) {
		must(bucket_open(&bucket, &c, NULL, &e), "bucket", &e);
		counted_init(&b->counted, bucket_objects(bucket));
		b->o.objects = &b->counted.objects;
		b->o.server_id = b->id;
	}
	b->now_ms = T0;
	int64_t start = clock_mono_ms();
	make(b);
	bucket_free(bucket);
	report(b, (double)(clock_mono_ms() - start) / 1000);
}

int main(int argc, char **argv)
{
	struct bench b = { .id = "shop-1" };
	if (argc == 1)
		return 77; /* it needs two directories */
	if (!parse(&b, argc, argv)) {
		fprintf(stderr, "usage: bench_bucket --dir=DIR --bucket=BUCKET [--id=shop-1] [--days=10 | --hours=N] [--scale=0.02] [--every=10] [--tend=HOURS]\n");
		return 2;
	}
	fleet_init(&b.f, b.f.scale);
	b.profiles = xcalloc(b.f.scale < 0.02 ? SERVICES : (size_t)(NODES * b.f.scale + 1) * SERVICES, sizeof *b.profiles);
	b.generator_cpu = measure_cpu();
	run(&b);
	return 0;
}
