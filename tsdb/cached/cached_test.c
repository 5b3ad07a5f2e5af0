/* SPDX-License-Identifier: Apache-2.0 */
/* Days that are in the bucket alone answer as those of the disk do; what cannot be had is said, and nothing stays of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "model/sourcekit.h"
#include "tsdb/bucket/catalogue.h"
#include "tsdb/bucketkit.h"
#include "tsdb/cached/cached_days.h"
#include "tsdb/part/part_ends.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define STACKS 10
#define DAYS 4
#define HANG_MS 9000 /* the time limit of a query while the bucket hangs: it waits for two thirds of it, and reads the rest of the days in the last third */
#define ROWS 12 /* of a pod, a day: one every twenty minutes of four hours */

struct world {
	struct bucketkit b;
	struct kit k;
	uint64_t seed;
	struct source_damage damage;
	struct source_limits lim;
};

static int64_t world_now(void *arg)
{
	return ((struct kit *)arg)->now_ms;
}

static void world_delete(struct world *w, const char *pod, int64_t after, int64_t until)
{
	struct matcher m;
	struct err e;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(w->k.db, &m, 1, after, until, NULL, &e), 0);
	matcher_release(&m);
}

static struct admin_bucket world_status(struct world *w)
{
	struct admin_bucket s;
	struct storage_admin *a = tsdb_admin(w->k.db);
	a->bucket(a, &s);
	return s;
}

static void world_fill(struct world *w, unsigned pods, int64_t from, int64_t until, int64_t step)
{
	struct sink_result r;
	struct err e;
	for (int64_t t = from + step; t <= until; t += step) {
		w->k.now_ms = MAX(w->k.now_ms, t);
		for (unsigned pod = 0; pod < pods; pod++)
			assert_int_equal(kit_append(&w->k, pod, t - pod, w->seed++, STACKS, &r), 0);
	}
	tsdb_flush(w->k.db);
	assert_int_equal(tsdb_seal(w->k.db, true, &e), 0);
}

/* All that is asked of the days. */
struct answers {
	uint64_t cpu, samples, part, by_hours;
	size_t rows;
	int64_t total;
};

static struct answers world_ask(struct world *w)
{
	struct answers a = { .cpu = kit_merge(&w->k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, NULL),
			     .samples = kit_merge(&w->k, KIT_SAMPLES, KIT_T0, KIT_T0 + DAYS * DAY, NULL),
			     .part = kit_merge(&w->k, KIT_CPU, KIT_T0 + 2 * HOUR + 7 * MINUTE, KIT_T0 + DAY + 3 * HOUR + 11 * MINUTE, NULL) };
	for (int i = 0; i < 3; i++)
		a.by_hours ^= kit_merge(&w->k, KIT_CPU, KIT_T0 + i * HOUR, KIT_T0 + (i + 1) * HOUR, NULL);
	a.rows = kit_count(&w->k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, &a.total);
	return a;
}

static bool world_same(const struct answers *a, const struct answers *b)
{
	return a->cpu == b->cpu && a->samples == b->samples && a->part == b->part && a->by_hours == b->by_hours && a->rows == b->rows && a->total == b->total;
}

/* Four days, of which two are in the bucket alone. */
static struct answers world_make(struct world *w)
{
	struct err e;
	*w = (struct world){ .seed = 1 };
	bucketkit_init(&w->b);
	kit_init(&w->k);
	w->k.o.objects = &w->b.objects;
	w->k.o.server_id = "one";
	w->k.o.no_transfer = true;
	w->k.o.retention_ms = -1;
	w->k.o.keep_aggregates = true;
	w->b.now_ms = world_now;
	w->b.now_arg = &w->k;
	w->k.now_ms = KIT_T0 + HOUR;
	kit_open(&w->k);
	for (int day = 0; day < DAYS; day++)
		world_fill(w, 4, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 4 * HOUR, 20 * MINUTE);
	if (tsdb_upload(w->k.db, &e))
		fail_msg("%s", e.msg);
	struct answers a = world_ask(w);
	w->k.o.local_retention_ms = DAY;
	kit_reopen(&w->k);
	if (tsdb_upload(w->k.db, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 500 && world_status(w).absent_days < 2; i++) { /* a day that a thread is at work on leaves the disk the next time */
		assert_int_equal(tsdb_retain(w->k.db, &e), 0);
		clock_sleep_ms(20);
	}
	assert_int_equal(world_status(w).absent_days, 2);
	return a;
}

/* Each test has a copy of one world, which is made once: on a slow disk making it takes longer than most tests. */
static struct world first;
static struct answers first_answers;

static int first_make(void **state)
{
	(void)state;
	first_answers = world_make(&first);
	kit_close(&first.k);
	return 0;
}

static int first_free(void **state)
{
	(void)state;
	kit_free(&first.k);
	bucketkit_free(&first.b);
	return 0;
}

static struct answers world_begin(struct world *w)
{
	struct kit dir;
	*w = (struct world){ .seed = first.seed };
	w->lim.damage = &w->damage;
	bucketkit_init(&w->b);
	for (size_t i = 0; i < first.b.v.n; i++) {
		const struct bucketkit_object *o = &first.b.v.v[i];
		char *bytes = xmalloc(o->n + 1);
		memcpy(bytes, o->bytes, o->n);
		vec_push(&w->b.v, (struct bucketkit_object){ xstrdup(o->key), bytes, o->n, o->modified_ms });
	}
	kit_init(&dir);
	w->k = first.k;
	memcpy(w->k.dir, dir.dir, sizeof w->k.dir);
	w->k.o.path = w->k.dir;
	w->k.o.now_arg = w->b.now_arg = &w->k;
	w->k.o.objects = &w->b.objects;
	w->b.now_ms = world_now;
	AUTOFREE char *copy = xasprintf("cp -r %s/. %s", first.k.dir, w->k.dir);
	assert_int_equal(system(copy), 0);
	kit_open(&w->k);
	return first_answers;
}

static void world_end(struct world *w)
{
	kit_free(&w->k);
	bucketkit_free(&w->b);
}

static void world_check(struct world *w, const struct answers *want)
{
	struct answers now = world_ask(w);
	assert_true(world_same(&now, want));
}

static void world_shell(struct world *w, const char *command)
{
	AUTOFREE char *text = xasprintf("cd %s/bucket/cache && %s", w->k.dir, command);
	assert_int_equal(system(text), 0);
}

static uint64_t world_lost(struct world *w)
{
	struct tsdb_stats s;
	tsdb_stats(w->k.db, &s);
	return s.lost_records + s.lost_symbols;
}

/* The text of the warning about a question over all, or "". */
static void world_warning(struct world *w, char ret[SOURCE_WARNING_LEN])
{
	struct kit_warnings warnings;
	w->damage = (struct source_damage){ 0 };
	w->k.lim = &w->lim;
	kit_count(&w->k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, NULL);
	w->k.lim = NULL;
	assert_int_equal(atomic_load(&w->damage.damaged.met), 0);
	kit_warnings(&w->damage, &warnings);
	snprintf(ret, SOURCE_WARNING_LEN, "%s", warnings.texts[0]);
}

/* ---- tests ---- */

static void test_the_same(void **state)
{
	struct world w;
	(void)state;
	struct answers want = world_begin(&w);
	uint64_t gets = w.b.requests[BUCKETKIT_GET];
	world_check(&w, &want);
	assert_true(w.b.requests[BUCKETKIT_GET] > gets);
	gets = w.b.requests[BUCKETKIT_GET];
	world_check(&w, &want); /* from the cache */
	assert_int_equal(w.b.requests[BUCKETKIT_GET], gets);
	kit_reopen(&w.k);
	gets = w.b.requests[BUCKETKIT_GET];
	uint64_t fetched = atomic_load(&cached_days_counts(w.k.db)->bytes);
	world_check(&w, &want);
	assert_int_equal(atomic_load(&cached_days_counts(w.k.db)->bytes), fetched);
	assert_int_equal(world_status(&w).absent_days, 2);
	assert_int_equal(world_lost(&w), 0);
	world_end(&w);
}

/* A question about one kind of values fetches no other. */
static void test_only_what_is_needed(void **state)
{
	struct world w;
	(void)state;
	world_begin(&w);
	size_t rows = kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL);
	assert_int_equal(rows, 4 * ROWS);
	uint64_t stamps = atomic_load(&cached_days_counts(w.k.db)->bytes), size = 0;
	assert_true(stamps > 0);
	for (size_t i = 0; i < w.b.v.n; i++)
		size += strncmp(w.b.v.v[i].key, "one/d/", 6) ? 0 : w.b.v.v[i].n;
	assert_true(stamps < size);
	kit_merge(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL);
	assert_true(atomic_load(&cached_days_counts(w.k.db)->bytes) > stamps);
	world_end(&w);
}

/* Which objects are fetched. */
struct fetches {
	struct world *w;
	atomic_uint hours, others; /* requests for parts of hours, and for all else */
};

static void note_fetch(void *arg, enum bucketkit_op op, const char *key)
{
	struct fetches *f = arg;
	struct bucket_catalogue *c = f->w->k.db->catalogue;
	struct object_name n;
	bool hour = false;
	if (op != BUCKETKIT_GET)
		return;
	assert_true(object_name_parse(key, &n));
	rwlock_read(&c->lock);
	const struct catalogue_day *d = n.kind == 'd' ? catalogue_find(c, n.day) : NULL;
	for (size_t i = 0; d && i < d->parts.n; i++)
		hour |= d->parts.v[i].level == LEVEL_HOUR && !object_stamp_cmp(d->parts.v[i].object.stamp, n.stamp);
	rwlock_unlock(&c->lock);
	atomic_fetch_add(hour ? &f->hours : &f->others, 1);
}

/* What the profiles of a name cover, as a flame graph asks: of each series at once, and by hours. */
static int64_t world_cover(struct world *w, int64_t after, int64_t until)
{
	struct source_tiles tiles = { after, HOUR, (size_t)((until - after) / HOUR) };
	struct source_view *v;
	struct source_series *found;
	struct matcher m;
	struct err e;
	size_t n;
	int64_t ms = 0;
	assert_int_equal(tsdb_source(w->k.db)->open(tsdb_source(w->k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("__name__"), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, until, NULL, &found, &n, &e), 0);
	kit_check_types(v, after, until);
	for (size_t i = 0; i < n; i++) {
		struct source_cover c = { 0 }, *by_hour = NULL;
		uint64_t rows = 0;
		assert_int_equal(one_series_cover(v, found[i].ref, after, until, NULL, &c, &e), 0);
		if (after % HOUR == 0)
			assert_int_equal(one_series_covers(v, found[i].ref, &tiles, NULL, &by_hour, &e), 0);
		for (size_t k = 0; k < tiles.n && by_hour; k++)
			rows += by_hour[k].n;
		assert_int_equal(rows, after % HOUR == 0 ? c.n : 0);
		for (size_t k = 0; k < c.spans.n; k++)
			ms += c.spans.v[k].until_ms - c.spans.v[k].after_ms;
		source_cover_release(&c);
		source_covers_free(by_hour, tiles.n);
	}
	free(found);
	matcher_release(&m);
	v->ops->release(v);
	return ms;
}

/* A flame graph of a whole day touches no hour: the generation says what its profiles cover. Where some were deleted, or the range begins within an hour, that hour is
 * fetched. */
static void test_covers(void **state)
{
	struct world w;
	struct fetches f = { .w = &w };
	(void)state;
	world_begin(&w);
	w.b.before_arg = &f;
	w.b.before = note_fetch;
	kit_merge(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL);
	assert_int_equal(world_cover(&w, KIT_T0, KIT_T0 + DAY), 4 * ROWS * 10000);
	assert_int_equal(atomic_load(&f.hours), 0);
	assert_in_range(atomic_load(&f.others), 2, 4); /* the day's sums, the tail of that file, and symbols */
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 4 * ROWS); /* holds them against the profiles */
	/* An hour of the second day. */
	atomic_store(&f.hours, 0);
	atomic_store(&f.others, 0);
	int64_t covered = world_cover(&w, KIT_T0 + DAY + 90 * MINUTE, KIT_T0 + 2 * DAY);
	assert_int_equal(covered, 4 * (ROWS - 4) * 10000);
	assert_in_range(atomic_load(&f.hours), 1, 2);
	assert_int_equal(atomic_load(&f.others), 0);
	/* The same after a restart without the cache. */
	kit_close(&w.k);
	world_shell(&w, "rm -rf *");
	w.b.before = NULL;
	kit_open(&w.k);
	w.b.before = note_fetch;
	atomic_store(&f.hours, 0);
	struct tsdb_stats before, after;
	tsdb_stats(w.k.db, &before);
	assert_int_equal(world_cover(&w, KIT_T0, KIT_T0 + 2 * DAY), 2 * 4 * ROWS * 10000);
	assert_int_equal(atomic_load(&f.hours), 0);
	tsdb_stats(w.k.db, &after);
	assert_true(after.part_index_bytes > before.part_index_bytes + 2 * 4 * 4 * 40); /* what is known of these parts counts */
	/* A delete touches one series in one hour, of which nothing is here yet. */
	world_delete(&w, "pod-1", KIT_T0 + DAY + 3 * HOUR + MINUTE, KIT_T0 + DAY + 3 * HOUR + 30 * MINUTE);
	atomic_store(&f.hours, 0);
	assert_int_equal(world_cover(&w, KIT_T0 + DAY, KIT_T0 + 2 * DAY), (4 * ROWS - 1) * 10000);
	assert_in_range(atomic_load(&f.hours), 1, 2);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0 + DAY, KIT_T0 + 2 * DAY, NULL), 4 * ROWS - 1);
	world_end(&w);
}

/* What windows of points come to, as a rate adds them up; runs and single profiles come to the same. */
static double points_sum(const struct source_points *p, const struct source_windows *w)
{
	double sum = 0;
	for (size_t k = 0; k < w->n; k++) {
		int64_t to = w->until_ms + (int64_t)k * w->step_ms, from = to - w->range_ms, whole = 0;
		size_t newest = p->n;
		for (size_t i = 0; i < p->n; i++)
			if (p->v[i].t_ms <= to)
				newest = i;
		for (size_t i = 0; i < p->n && newest < p->n; i++) {
			const struct source_point *x = &p->v[i];
			int64_t ms = MIN(x->t_ms + (i == newest ? x->ahead : 0), to) - MAX(x->t_ms - x->cover_ms, from);
			assert_true(i != newest || !x->is_run);
			if (ms <= 0 || (x->t_ms <= from && i != newest) || x->t_ms > to)
				continue;
			whole += ms == x->cover_ms ? x->total : 0;
			sum += ms == x->cover_ms ? 0 : (double)x->total * ((double)ms / (double)x->cover_ms);
		}
		sum += (double)whole;
	}
	return sum;
}

/* Of all series of a name over the days in the bucket; windows: whether the source is told of them. *ret_n: how many points there are. */
static double world_points(struct world *w, const struct source_windows *of, bool windows, size_t *ret_n)
{
	struct source_view *v;
	struct source_series *found;
	struct matcher m;
	struct err e;
	size_t n;
	double sum = 0;
	*ret_n = 0;
	assert_int_equal(tsdb_source(w->k.db)->open(tsdb_source(w->k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("__name__"), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, KIT_T0, KIT_T0 + 2 * DAY, NULL, &found, &n, &e), 0);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		struct source_points p;
		assert_int_equal(one_series_points(v, found[i].ref, KIT_T0, KIT_T0 + 2 * DAY, windows ? of : NULL, NULL, &p, &e), 0);
		assert_true(p.plain);
		*ret_n += p.n;
		sum += points_sum(&p, of);
		source_points_release(&p);
	}
	free(found);
	matcher_release(&m);
	v->ops->release(v);
	return sum;
}

/* Rates whose windows end on whole hours ask the bucket for nothing, as its generations say enough; else the stamps of those hours are read in which a window
 * begins or ends. */
static void test_points(void **state)
{
	static const struct source_windows hours = { KIT_T0 + HOUR, HOUR, HOUR, 48 }, days = { KIT_T0 + DAY, DAY, DAY, 2 }, within = { KIT_T0 + DAY + 90 * MINUTE, DAY, DAY, 1 },
					   close = { KIT_T0 + 2 * HOUR - 3, 2 * HOUR, 2 * HOUR, 24 };
	static const struct source_windows *const all[] = { &hours, &days, &within, &close };
	struct world w;
	struct fetches f = { .w = &w };
	double want[4], got;
	size_t n;
	(void)state;
	world_begin(&w);
	for (size_t i = 0; i < 4; i++)
		want[i] = world_points(&w, all[i], false, &n);
	assert_int_equal(n, 2 * 4 * ROWS);
	assert_true(want[0] != want[1]);
	kit_close(&w.k);
	world_shell(&w, "rm -rf *");
	kit_open(&w.k);
	w.b.before_arg = &f;
	w.b.before = note_fetch;
	struct tsdb_stats before, after;
	tsdb_stats(w.k.db, &before);
	for (size_t i = 0; i < 2; i++) {
		got = world_points(&w, all[i], true, &n);
		assert_true(got == want[i] && n < 2 * 4 * ROWS);
	}
	assert_int_equal(n, 2 * 4 * 2); /* of a day the run and the last profile */
	assert_int_equal(atomic_load(&f.hours) + atomic_load(&f.others), 0);
	tsdb_stats(w.k.db, &after);
	assert_true(after.part_index_bytes > before.part_index_bytes + 2 * 4 * 4 * (int)sizeof(struct part_end));
	got = world_points(&w, &within, true, &n);
	assert_true(got == want[2]);
	assert_in_range(atomic_load(&f.hours), 1, 4); /* an hour of each day, of which the tail and the stamps are read */
	assert_int_equal(atomic_load(&f.others), 0);
	/* The last profile of pod 3 is stamped 3 ms before the hour's end, where these windows end. */
	got = world_points(&w, &close, true, &n);
	assert_true(got == want[3]);
	/* A delete touches one series in one hour. */
	world_delete(&w, "pod-1", KIT_T0 + DAY + 3 * HOUR + MINUTE, KIT_T0 + DAY + 3 * HOUR + 30 * MINUTE);
	got = world_points(&w, &days, true, &n);
	assert_true(got < want[1] && got == world_points(&w, &days, false, &n));
	world_end(&w);
}

/* A generation of an earlier version, which has no first and last profiles of hours: a rate reads the stamps of all hours. */
static void test_points_of_older_generation(void **state)
{
	static const struct source_windows days = { KIT_T0 + DAY, DAY, DAY, 2 };
	struct world w;
	struct generation g;
	struct buf b = { .max = GENERATION_MAX }, older = { .max = GENERATION_MAX };
	char text[SOURCE_WARNING_LEN];
	size_t n;
	struct err e;
	(void)state;
	world_begin(&w);
	struct bucket_catalogue *c = w.k.db->catalogue;
	assert_int_equal(catalogue_bytes(c, (uint32_t)(KIT_T0 / DAY), &b, &e), 0);
	assert_int_equal(generation_decode(&g, buf_view(&b), NULL, &e), 0);
	assert_int_equal(generation_decode_series(&g, &e), 0);
	for (size_t i = 0; i < g.parts.n; i++) {
		assert_int_equal(g.parts.v[i].ends.len > 0, g.parts.v[i].level == LEVEL_HOUR);
		g.parts.v[i].ends = VIEW("");
	}
	assert_int_equal(generation_encode(&g, &older, &e), 0);
	assert_int_equal(catalogue_put(c, &g, buf_view(&older), "", true, &e), 0);
	double got = world_points(&w, &days, true, &n);
	assert_int_equal(n, 4 * ROWS + 4 * 2);
	assert_true(got == world_points(&w, &days, false, &n));
	g.parts.v[1].ends = VIEW("\1\0"); /* of another part: the day is not read */
	buf_reset(&older);
	assert_int_equal(generation_encode(&g, &older, &e), 0);
	kit_reopen(&w.k);
	c = w.k.db->catalogue;
	assert_int_equal(catalogue_put(c, &g, buf_view(&older), "", true, &e), 0);
	world_warning(&w, text);
	assert_non_null(strstr(text, "in the bucket"));
	generation_release(&g);
	buf_free(&b);
	buf_free(&older);
	world_end(&w);
}

/* Covers that are not of the part they stand beside: the day is not read, and the answer says so. */
static void test_malformed_covers(void **state)
{
	struct world w;
	struct generation g;
	struct buf b = { .max = GENERATION_MAX }, spoilt = { .max = GENERATION_MAX };
	char text[SOURCE_WARNING_LEN];
	struct err e;
	(void)state;
	struct answers want = world_begin(&w);
	struct bucket_catalogue *c = w.k.db->catalogue;
	assert_int_equal(catalogue_bytes(c, (uint32_t)(KIT_T0 / DAY), &b, &e), 0);
	assert_int_equal(generation_decode(&g, buf_view(&b), NULL, &e), 0);
	assert_int_equal(generation_decode_series(&g, &e), 0);
	assert_true(g.parts.v[1].covers.len > 0 && g.parts.v[1].level == LEVEL_HOUR);
	g.parts.v[1].covers = VIEW("\1\0");
	assert_int_equal(generation_encode(&g, &spoilt, &e), 0);
	assert_int_equal(catalogue_put(c, &g, buf_view(&spoilt), "", true, &e), 0);
	world_warning(&w, text);
	assert_non_null(strstr(text, "in the bucket"));
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0 + DAY, KIT_T0 + DAYS * DAY, NULL), (DAYS - 1) * 4 * ROWS);
	assert_int_equal(catalogue_put(c, &g, buf_view(&b), "", true, &e), 0);
	world_check(&w, &want);
	generation_release(&g);
	buf_free(&b);
	buf_free(&spoilt);
	world_end(&w);
}

static void test_away(void **state)
{
	struct world w;
	char text[SOURCE_WARNING_LEN];
	(void)state;
	struct answers want = world_begin(&w);
	w.b.away = true;
	world_warning(&w, text);
	assert_non_null(strstr(text, "in the bucket"));
	assert_non_null(strstr(text, "between 2023-11-1"));
	w.b.away = false;
	world_check(&w, &want);
	world_warning(&w, text);
	assert_string_equal(text, "");
	assert_int_equal(world_lost(&w), 0);
	w.b.away = true; /* all that was needed is here */
	world_check(&w, &want);
	world_end(&w);
}

static void flip(const char *path, uint64_t seed)
{
	struct stat st;
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && !fstat(fd, &st));
	for (int i = 0; i < 40 && st.st_size; i++) {
		off_t at = (off_t)(hash_u64(seed + (uint64_t)i) % (uint64_t)st.st_size);
		char c = 0;
		assert_int_equal(pread(fd, &c, 1, at), 1);
		c ^= 1;
		assert_int_equal(pwrite(fd, &c, 1, at), 1);
	}
	close(fd);
}

/* Flips bits of all files of the cache that have data of the bucket. */
static void world_flip(struct world *w, uint64_t seed)
{
	AUTOFREE char *list = xasprintf("find %s/bucket/cache -name '*.sst' -o -name symbols -o -name '*.data'", w->k.dir);
	char line[512];
	FILE *f = popen(list, "r");
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		flip(line, seed++);
	}
	pclose(f);
}

static void test_flipped_here(void **state)
{
	struct world w;
	(void)state;
	struct answers want = world_begin(&w);
	world_check(&w, &want);
	for (uint64_t round = 1; round < 8; round++) {
		kit_close(&w.k);
		world_flip(&w, round * 1000);
		kit_open(&w.k);
		world_check(&w, &want);
		assert_int_equal(world_lost(&w), 0);
	}
	world_end(&w);
}

static void test_flipped_in_the_bucket(void **state)
{
	struct world w;
	char text[SOURCE_WARNING_LEN];
	(void)state;
	struct answers want = world_begin(&w);
	char *spoiled = NULL;
	size_t n = 0;
	for (size_t i = 0; i < w.b.v.n && !spoiled; i++)
		if (!strncmp(w.b.v.v[i].key, "one/d/", 6)) {
			spoiled = w.b.v.v[i].bytes;
			n = w.b.v.v[i].n;
		}
	for (size_t i = 0; i < n; i++)
		spoiled[i] ^= 1;
	world_warning(&w, text);
	assert_non_null(strstr(text, "in the bucket"));
	for (size_t i = 0; i < n; i++)
		spoiled[i] ^= 1;
	world_check(&w, &want);
	assert_int_equal(world_lost(&w), 0);
	world_end(&w);
}

/* A delete that no generation has yet hides its rows at once, also while its object waits for the bucket. */
static void test_deletes(void **state)
{
	struct world w;
	struct err e;
	(void)state;
	struct answers want = world_begin(&w);
	world_check(&w, &want);
	w.b.away = true;
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 3 * ROWS);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0 + DAY, KIT_T0 + DAYS * DAY, NULL), 3 * 4 * ROWS);
	w.b.away = false;
	uint64_t sum = kit_merge(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL);
	kit_reopen(&w.k);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 3 * ROWS);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(tsdb_upload(w.k.db, &e), 0);
		assert_int_equal(tsdb_clean(w.k.db, &e), 0);
		assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 3 * ROWS);
	}
	assert_int_equal(tsdb_retain(w.k.db, &e), 0);
	assert_int_equal(world_status(&w).absent_days, 2);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 3 * ROWS);
	assert_true(kit_merge(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL) == sum);
	world_end(&w);
}

/* So does retention by selector, by and by, and where its rules change. */
static void test_retention(void **state)
{
	struct world w;
	struct matcher m;
	struct err e;
	(void)state;
	world_begin(&w);
	int64_t now = w.k.now_ms;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-2"), &e), 0);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + 2 * DAY, NULL), 2 * 4 * ROWS);
	/* It has passed the first day, and two hours of the second. */
	int64_t keep = now - (KIT_T0 + DAY + 2 * HOUR);
	assert_int_equal(tsdb_set_retention(w.k.db, &(struct tsdb_retention){ &m, 1, keep }, 1, &e), 0);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 3 * ROWS);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0 + DAY, KIT_T0 + 2 * DAY, NULL), 4 * ROWS - 6);
	w.k.now_ms = now + 30 * MINUTE;
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0 + DAY, KIT_T0 + 2 * DAY, NULL), 4 * ROWS - 7);
	assert_int_equal(tsdb_set_retention(w.k.db, NULL, 0, &e), 0);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + 2 * DAY, NULL), 2 * 4 * ROWS);
	matcher_release(&m);
	world_end(&w);
}

/* What is over the budget goes, the day that was used longest ago first. */
static void test_budget(void **state)
{
	struct world w;
	(void)state;
	struct answers want = world_begin(&w);
	world_check(&w, &want);
	cached_days_tidy(w.k.db, true);
	uint64_t both = cached_days_bytes(w.k.db);
	assert_true(both > 0);
	w.k.o.bucket_cache_bytes = both - 1;
	kit_reopen(&w.k);
	kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL);
	cached_days_tidy(w.k.db, true);
	assert_true(cached_days_bytes(w.k.db) < both);
	world_shell(&w, "test $(ls */symbols | wc -l) = 2"); /* the samples left the cache, sums and symbols are still there */
	world_shell(&w, "grep -q 'level 2' */*.runs && test $(grep -l 'level 2' */*.runs | wc -l) = 2 && test $(grep -l 'level 0' */*.runs | wc -l) -gt 0");
	uint64_t gets = w.b.requests[BUCKETKIT_GET];
	kit_merge(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL);
	assert_int_equal(w.b.requests[BUCKETKIT_GET], gets); /* it was used last */
	world_check(&w, &want);
	/* Days that are on this disk again have no cache. */
	w.k.o.local_retention_ms = 0;
	kit_reopen(&w.k);
	struct err e;
	for (int i = 0; i < 4; i++)
		assert_int_equal(tsdb_upload(w.k.db, &e), 0);
	assert_int_equal(world_status(&w).absent_days, 0);
	cached_days_tidy(w.k.db, true);
	assert_int_equal(cached_days_bytes(w.k.db), 0);
	world_check(&w, &want);
	world_end(&w);
}

static void hang(void *arg, enum bucketkit_op op, const char *key)
{
	(void)key;
	for (atomic_bool *until = arg; op == BUCKETKIT_GET && !atomic_load(until);)
		clock_sleep_ms(5);
}

/* A bucket that hangs: the rest is answered within the time of the query. */
static void test_hangs(void **state)
{
	struct world w;
	char text[SOURCE_WARNING_LEN];
	atomic_bool until = false;
	(void)state;
	struct answers want = world_begin(&w);
	w.b.before_arg = &until;
	w.b.before = hang;
	int64_t begin = clock_mono_ms();
	w.lim.deadline_mono_ns = clock_mono_ns() + HANG_MS * INT64_C(1000000);
	struct source_view *v;
	struct source_series *found;
	struct source_profile *p;
	struct matcher m;
	struct err e;
	size_t n, n_p;
	assert_int_equal(tsdb_source(w.k.db)->open(tsdb_source(w.k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("__name__"), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, KIT_T0, KIT_T0 + DAYS * DAY, &w.lim, &found, &n, &e), 0);
	assert_int_equal(n, 4);
	assert_int_equal(one_series_profiles(v, found[0].ref, KIT_T0, KIT_T0 + DAYS * DAY, &w.lim, &p, &n_p, &e), 0);
	assert_int_equal(n_p, 2 * ROWS);
	assert_true(clock_mono_ms() - begin < HANG_MS);
	free(p);
	free(found);
	matcher_release(&m);
	v->ops->release(v);
	struct kit_warnings warnings;
	kit_warnings(&w.damage, &warnings);
	assert_int_equal(warnings.n, 1);
	atomic_store(&until, true);
	w.lim.deadline_mono_ns = 0;
	clock_sleep_ms(50);
	world_check(&w, &want);
	world_warning(&w, text);
	assert_string_equal(text, "");
	world_end(&w);
}

/* ---- a merge of several days ---- */

#define ROUND_MS 20000 /* how long a request waits for what a test says has to happen first */

struct round {
	struct world *w;
	atomic_uint n;     /* requests that have begun */
	unsigned want;     /* so many have to begin before one is answered */
	bool by_day;       /* those for the second day are answered when the dictionary of the first one is in memory */
	atomic_bool late;  /* a request waited for too long */
};

static bool world_has_dictionary(struct world *w, uint32_t day)
{
	struct bucket_catalogue *c = w->k.db->catalogue;
	rwlock_read(&c->lock);
	struct object_stamp newest = catalogue_find(c, day)->stamp;
	rwlock_unlock(&c->lock);
	struct cached_day *d = cached_days_get(cached_days_server(w->k.db, 0), day, newest);
	bool has = atomic_load(&d->p->loaded);
	cached_day_unref(d);
	return has;
}

static bool round_may_be_answered(struct round *r, uint32_t day)
{
	return atomic_load(&r->n) >= r->want && (!r->by_day || day != KIT_T0 / DAY + 1 || world_has_dictionary(r->w, KIT_T0 / DAY));
}

static void round_before(void *arg, enum bucketkit_op op, const char *key)
{
	struct round *r = arg;
	struct object_name name;
	int64_t begin = clock_mono_ms();
	if (op != BUCKETKIT_GET || !object_name_parse(key, &name))
		return;
	atomic_fetch_add(&r->n, 1);
	while (!round_may_be_answered(r, name.day)) {
		if (clock_mono_ms() - begin > ROUND_MS) {
			atomic_store(&r->late, true);
			return;
		}
		clock_sleep_ms(2);
	}
}

static atomic_uint cache_syncs; /* of files and directories of the cache */

/* In the place of libc's. */
int fsync(int fd)
{
	AUTOFREE char *link = xasprintf("/proc/self/fd/%d", fd);
	char to[4096] = "";
	if (readlink(link, to, sizeof to - 1) > 0 && strstr(to, "/bucket/cache/"))
		atomic_fetch_add(&cache_syncs, 1);
	return (int)syscall(SYS_fsync, fd);
}

/* A merge asks for all that it needs of all days at once, and loads the dictionary of a day while those behind it are being fetched. Nobody waits for a
 * sync. */
static void test_merge_in_one_round(void **state)
{
	(void)state;
	for (int by_day = 0; by_day < 2; by_day++) {
		struct world w;
		struct source_stats stats = { .chunks = 0 };
		struct answers want = world_begin(&w);
		struct round r = { .w = &w, .want = 4, .by_day = by_day }; /* sums and symbols of each day */
		w.b.before_arg = &r;
		w.b.before = round_before;
		w.lim.stats = &stats;
		w.k.lim = &w.lim;
		atomic_store(&cache_syncs, 0);
		assert_true(kit_merge(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, NULL) == want.cpu);
		assert_false(atomic_load(&r.late));
		assert_int_equal(atomic_load(&r.n), 4);
		assert_int_equal(atomic_load(&stats.bucket_requests), 4);
		assert_int_equal(source_damage_met(&w.damage), 0);
		assert_int_equal(atomic_load(&cache_syncs), 0);
		w.k.lim = NULL;
		world_check(&w, &want);
		world_end(&w);
	}
}

static enum bucketkit_fault refuse_day(void *arg, enum bucketkit_op op, const char *key)
{
	struct object_name name;
	return op == BUCKETKIT_GET && object_name_parse(key, &name) && name.day == *(const uint32_t *)arg ? BUCKETKIT_REFUSE : BUCKETKIT_NONE;
}

/* A day that does not come is missing, the days before and behind it are not. */
static void test_merge_without_a_day(void **state)
{
	(void)state;
	for (uint32_t refused = KIT_T0 / DAY; refused < KIT_T0 / DAY + 2; refused++) {
		struct world w;
		int64_t other = KIT_T0 / DAY + (KIT_T0 / DAY + 1 - refused);
		struct answers want = world_begin(&w);
		w.b.fault_arg = &refused;
		w.b.fault = refuse_day;
		w.k.lim = &w.lim;
		uint64_t got = kit_merge(&w.k, KIT_CPU, KIT_T0, KIT_T0 + 2 * DAY, NULL);
		assert_true(atomic_load(&w.damage.absent.met) > 0);
		assert_int_equal(atomic_load(&w.damage.damaged.met), 0);
		w.damage = (struct source_damage){ 0 };
		assert_true(kit_merge(&w.k, KIT_CPU, other * DAY, (other + 1) * DAY, NULL) == got);
		assert_int_equal(source_damage_met(&w.damage), 0);
		w.b.fault = NULL;
		w.k.lim = NULL;
		world_check(&w, &want);
		world_end(&w);
	}
}

/* ---- readers that hand out what they read ---- */

struct handed {
	atomic_llong rows, match;
};

static int take_matches(void *arg, size_t series, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker, struct err *e)
{
	struct handed *h = arg;
	(void)series, (void)p, (void)worker, (void)e;
	atomic_fetch_add(&h->rows, (long long)n);
	for (size_t i = 0; i < n; i++)
		atomic_fetch_add(&h->match, match[i]);
	return 0;
}

static int take_cells(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	struct handed *h = arg;
	(void)worker, (void)e;
	for (size_t i = 0; i < c->n; i++)
		if (c->t_ms[c->rows[i]] > KIT_T0) {
			atomic_fetch_add(&h->rows, 1);
			atomic_fetch_add(&h->match, c->values[i]);
		}
	return 0;
}

/* All profiles of a name, by matches or by cells; what cannot be read is noted in w->damage. */
static void world_hand_out(struct world *w, bool cells, int64_t after, int64_t until, struct handed *ret)
{
	static const struct source_frame_filter every = { .n = 0 };
	struct source_view *v;
	struct source_series *found;
	struct matcher m;
	struct err e;
	size_t n;
	w->damage = (struct source_damage){ .damaged = { 0 } };
	*ret = (struct handed){ 0 };
	assert_int_equal(tsdb_source(w->k.db)->open(tsdb_source(w->k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("__name__"), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, until, &w->lim, &found, &n, &e), 0);
	uint64_t *refs = xcalloc(n + 1, sizeof *refs);
	for (size_t i = 0; i < n; i++)
		refs[i] = found[i].ref;
	int rc = cells ? v->ops->cells(v, refs, n, after, until, &w->lim, &(struct source_cells_reader){ .take = take_cells, .arg = ret }, &e)
		       : v->ops->matches(v, refs, n, after, until, &every, &w->lim, take_matches, ret, &e);
	if (rc)
		fail_msg("%s", e.msg);
	free(refs);
	free(found);
	matcher_release(&m);
	v->ops->release(v);
}

static void test_handed_out(void **state)
{
	struct world w;
	struct handed all, now;
	(void)state;
	for (int cells = 0; cells < 2; cells++) {
		world_begin(&w);
		w.b.away = true;
		world_hand_out(&w, cells, KIT_T0, KIT_T0 + DAYS * DAY, &now);
		assert_true(atomic_load(&w.damage.absent.met) > 0);
		long long half = atomic_load(&now.rows);
		assert_true(half > 0);
		world_hand_out(&w, cells, KIT_T0 + 2 * DAY, KIT_T0 + DAYS * DAY, &now); /* about days of this disk */
		assert_int_equal(atomic_load(&w.damage.absent.met), 0);
		assert_int_equal(atomic_load(&now.rows), half);
		w.b.away = false;
		world_hand_out(&w, cells, KIT_T0, KIT_T0 + DAYS * DAY, &all);
		assert_int_equal(atomic_load(&w.damage.absent.met), 0);
		if (!cells)
			assert_int_equal(half, 4 * 2 * ROWS);
		if (!cells)
			assert_int_equal(atomic_load(&all.rows), 2 * half);
		else
			assert_true(atomic_load(&all.rows) > half + half / 2); /* the days have some more values, or some less */
		assert_true(atomic_load(&all.match) > atomic_load(&now.match));
		world_end(&w);
	}
}

/* Somebody removes the cache while the server runs: the query that notices it says what it lacks, and the next one makes it anew. */
static void test_removed(void **state)
{
	struct world w;
	struct handed all, now;
	(void)state;
	struct answers want = world_begin(&w);
	kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, NULL);
	world_shell(&w, "rm -rf *");
	world_hand_out(&w, false, KIT_T0, KIT_T0 + DAYS * DAY, &now);
	assert_true(atomic_load(&w.damage.absent.met) > 0);
	assert_int_equal(atomic_load(&w.damage.damaged.met), 0);
	world_hand_out(&w, false, KIT_T0, KIT_T0 + DAYS * DAY, &all);
	assert_int_equal(atomic_load(&w.damage.absent.met), 0);
	assert_int_equal(atomic_load(&all.rows), 4 * 4 * ROWS);
	world_check(&w, &want);
	assert_int_equal(world_lost(&w), 0);
	/* RocksDB's list of files is spoiled. */
	kit_close(&w.k);
	world_shell(&w, "for f in */MANIFEST* */CURRENT; do printf XXXX | dd of=$f bs=1 seek=3 conv=notrunc 2>/dev/null; done");
	kit_open(&w.k);
	world_check(&w, &want);
	assert_int_equal(world_lost(&w), 0);
	world_end(&w);
}

/* Memory of days leaves it, files of days that are read stay. */
static void test_views_and_tidying(void **state)
{
	struct world w;
	struct source_view *v;
	struct source_series *found;
	struct source_profile *p;
	struct matcher m;
	struct err e;
	size_t n, n_p;
	(void)state;
	struct answers want = world_begin(&w);
	w.k.o.bucket_cache_bytes = 1;
	kit_reopen(&w.k);
	assert_int_equal(tsdb_source(w.k.db)->open(tsdb_source(w.k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("__name__"), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, KIT_T0, KIT_T0 + DAYS * DAY, NULL, &found, &n, &e), 0);
	atomic_fetch_add(&w.k.db->hidden_number, 1); /* as by a delete: further views have another cached day over the same files */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(one_series_profiles(v, found[0].ref, KIT_T0, KIT_T0 + 2 * DAY, NULL, &p, &n_p, &e), 0);
		assert_int_equal(n_p, 2 * ROWS);
		free(p);
		kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, NULL);
		cached_days_tidy(w.k.db, true);
		assert_true(cached_days_bytes(w.k.db) > 0); /* the view has them */
	}
	free(found);
	matcher_release(&m);
	v->ops->release(v);
	cached_days_tidy(w.k.db, true);
	assert_int_equal(cached_days_bytes(w.k.db), 0);
	world_check(&w, &want);
	assert_int_equal(world_lost(&w), 0);
	world_end(&w);
}

/* ---- lives ---- */

struct life {
	struct world *w;
	atomic_ullong random;
	unsigned faults;       /* of a thousand requests */
	unsigned copy_at;      /* the number of a get at which the cache is copied, as a crash would leave it; 0 = never */
	atomic_uint gets;
};

static enum bucketkit_fault life_fault(void *arg, enum bucketkit_op op, const char *key)
{
	static const enum bucketkit_fault kinds[] = { BUCKETKIT_REFUSE, BUCKETKIT_FLIP, BUCKETKIT_CUT };
	struct life *l = arg;
	(void)key;
	uint64_t x = hash_u64(atomic_fetch_add(&l->random, 1));
	return op == BUCKETKIT_GET && x % 1000 < l->faults ? kinds[x / 1000 % 3] : BUCKETKIT_NONE;
}

static void life_before(void *arg, enum bucketkit_op op, const char *key)
{
	struct life *l = arg;
	(void)key;
	if (op == BUCKETKIT_GET && l->copy_at && atomic_fetch_add(&l->gets, 1) + 1 == l->copy_at) {
		AUTOFREE char *copy = xasprintf("rm -rf %s.copy; cp -r --sparse=always %s/bucket/cache %s.copy 2>/dev/null; true", l->w->k.dir, l->w->k.dir, l->w->k.dir);
		IGNORE(system(copy));
	}
}

/* With faults: what a question gets is what it should be, or it says what is missing. */
static void life_ask(struct life *l, const struct answers *want)
{
	struct world *w = l->w;
	int64_t total;
	w->damage = (struct source_damage){ 0 };
	w->k.lim = &w->lim;
	int64_t after = KIT_T0 + (int64_t)(hash_u64(atomic_fetch_add(&l->random, 1)) % 2) * DAY;
	size_t rows = kit_count(&w->k, KIT_CPU, after, KIT_T0 + DAYS * DAY, &total);
	w->k.lim = NULL;
	if (after != KIT_T0)
		return;
	if (!source_damage_met(&w->damage)) {
		assert_int_equal(rows, want->rows);
		assert_int_equal(total, want->total);
	} else {
		assert_int_equal(atomic_load(&w->damage.damaged.met), 0);
		assert_true(rows <= want->rows);
	}
}

static void test_lives(void **state)
{
	struct world w;
	struct life l = { .w = &w };
	const char *is_long = getenv("PYRRHA_LONG");
	unsigned lives = is_long && *is_long ? 500 : 6; /* ./check sets it, empty */
	(void)state;
	struct answers want = world_begin(&w);
	w.b.fault_arg = w.b.before_arg = &l;
	w.b.fault = life_fault;
	w.b.before = life_before;
	for (unsigned i = 1; i <= lives; i++) {
		uint64_t x = hash_u64(i);
		atomic_store(&l.random, x);
		atomic_store(&l.gets, 0);
		l.copy_at = x % 3 == 0 ? 1 + (unsigned)(x / 3 % 40) : 0;
		l.faults = x / 7 % 2 ? 200 : 0;
		w.k.o.bucket_cache_bytes = x / 11 % 4 ? 0 : 1;
		life_ask(&l, &want);
		if (x / 13 % 3 == 0)
			cached_days_tidy(w.k.db, true);
		life_ask(&l, &want);
		l.faults = 0;
		kit_close(&w.k);
		if (l.copy_at && atomic_load(&l.gets) >= l.copy_at) {
			AUTOFREE char *back = xasprintf("rm -rf %s/bucket/cache && mv %s.copy %s/bucket/cache", w.k.dir, w.k.dir, w.k.dir);
			assert_int_equal(system(back), 0);
		}
		if (x / 17 % 3 == 0)
			world_flip(&w, x);
		if (x / 19 % 7 == 0)
			world_shell(&w, "rm -rf *");
		kit_open(&w.k);
		if (x / 23 % 4 == 0)
			world_check(&w, &want);
		assert_int_equal(world_lost(&w), 0);
	}
	world_check(&w, &want);
	AUTOFREE char *tidy = xasprintf("rm -rf %s.copy", w.k.dir);
	IGNORE(system(tidy));
	world_end(&w);
}

static void waits_count(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* Who runs the query learns that it waits for the bucket: others may start meanwhile. */
static void test_waiting_is_said(void **state)
{
	struct world w;
	atomic_int waits = 0;
	(void)state;
	world_begin(&w);
	w.lim.waits = waits_count;
	w.lim.waits_arg = &waits;
	w.k.lim = &w.lim;
	kit_count(&w.k, KIT_CPU, KIT_T0 + 2 * DAY, KIT_T0 + 4 * DAY, NULL);
	assert_int_equal(waits, 0); /* days of the disk */
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 4 * ROWS);
	int cold = waits;
	assert_in_range(cold, 1, INT_MAX);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL), 4 * ROWS);
	assert_int_equal(waits, cold);
	w.k.lim = NULL;
	world_end(&w);
}

/* Descriptors of tables of cached days. */
struct open_tables {
	size_t n;
};

static int tables_count(void *arg, const char *name, struct err *e)
{
	AUTOFREE char *link = xasprintf("/proc/self/fd/%s", name);
	char to[4096];
	ssize_t n = readlink(link, to, sizeof to - 1);
	(void)e;
	to[MAX(n, 0)] = 0;
	if (strstr(to, "/bucket/cache/") && view_ends(view_of(to), VIEW(".sst")))
		((struct open_tables *)arg)->n++;
	return 0;
}

static size_t count_tables(void)
{
	struct open_tables t = { 0 };
	struct err e;
	assert_int_equal(files_each("/proc/self/fd", tables_count, &t, &e), 0);
	return t.n;
}

/* Two days are read, and the descriptors are for one: its database is closed when the other one opens, and opened again by the next reader. */
static void test_descriptors_are_bounded(void **state)
{
	struct world w;
	struct answers want = world_begin(&w);
	(void)state;
	partition_db_limit_bare(1);
	world_check(&w, &want);
	size_t one = count_tables();
	world_check(&w, &want);
	assert_int_equal(count_tables(), one);
	partition_db_limit_bare(0);
	world_check(&w, &want);
	assert_in_range(one, 1, count_tables() - 1);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_same), cmocka_unit_test(test_only_what_is_needed), cmocka_unit_test(test_covers), cmocka_unit_test(test_points), cmocka_unit_test(test_points_of_older_generation),
		cmocka_unit_test(test_malformed_covers), cmocka_unit_test(test_away), cmocka_unit_test(test_flipped_here),
		cmocka_unit_test(test_flipped_in_the_bucket), cmocka_unit_test(test_deletes), cmocka_unit_test(test_retention), cmocka_unit_test(test_budget),
		cmocka_unit_test(test_hangs), cmocka_unit_test(test_merge_in_one_round), cmocka_unit_test(test_merge_without_a_day), cmocka_unit_test(test_handed_out), cmocka_unit_test(test_removed), cmocka_unit_test(test_views_and_tidying),
		cmocka_unit_test(test_lives), cmocka_unit_test(test_descriptors_are_bounded), cmocka_unit_test(test_waiting_is_said),
	};
	return cmocka_run_group_tests(tests, first_make, first_free);
}
