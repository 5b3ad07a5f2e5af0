/* SPDX-License-Identifier: Apache-2.0 */
/* What graphs over stacks read: whichever sums stand for series, each column has the same in each minute as when every series is read by
 * itself; of a range that counts alike as a whole, in each hour. And what graphs of a function read: many steps of one question say the same,
 * and take no more, than a question for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part_private.h"
#include "tsdb/read/view.h"
#include "tsdb/testkit.h"

#define PODS 6
#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)

/* Which series count alike where. */
struct likeness {
	bool none;         /* each is read by itself */
	int64_t window_ms; /* 0: everywhere; else as in a rate over so much: not what begins or ends a window, but for: */
	int64_t off_ms;    /* windows begin so much after the hour */
	size_t unlike;     /* this series never does */
	bool few;          /* but for a few profiles all minutes do */
};

struct read {
	struct likeness like;
	struct mutex lock;
	size_t n;
	uint64_t by_minute, by_hour; /* order-free checksums of what each column has */
};

/* Where in its window a stamp is. */
static int64_t in_window(const struct likeness *l, int64_t t_ms)
{
	return (t_ms - KIT_T0 - l->off_ms + 100 * HOUR) % l->window_ms;
}

/* How often a profile counts: more where a window begins or ends, and then not as those of other series. */
static uint64_t times(const struct likeness *l, size_t series, int64_t t_ms)
{
	if (!l->window_ms)
		return 1;
	int64_t at = in_window(l, t_ms);
	return at < 10000 ? 2 + series : at > l->window_ms - 10000 ? 20 + series : 1;
}

static int take(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	struct read *x = arg;
	(void)worker, (void)e;
	mutex_lock(&x->lock);
	x->n += c->n;
	for (size_t i = 0; i < c->n; i++) {
		int64_t t = c->t_ms[c->rows[i]];
		uint64_t value = (uint64_t)c->values[i] * times(&x->like, c->series, t);
		assert_true(t > c->after_ms && t <= c->until_ms && source_cells_column(c, i) < symbols_count(c->symbols, SYMBOLS_COLUMNS));
		if (c->summed && c->summed[c->rows[i]])
			value -= (uint64_t)c->values[i] * times(&x->like, c->series, source_mid_minute(t));
		x->by_minute += value * hash_u64((uint64_t)source_cells_column(c, i) << 32 | (uint64_t)((t - KIT_T0 + 100 * HOUR - 1) / MINUTE));
		x->by_hour += value * hash_u64((uint64_t)source_cells_column(c, i) << 32 | (uint64_t)((t - KIT_T0 + 100 * HOUR - 1) / HOUR));
	}
	mutex_unlock(&x->lock);
	return 0;
}

/* A window counts alike from ten seconds after it begins until ten before it ends; a minute in which one begins does but for these. */
static enum source_alike alike(void *arg, size_t a, size_t b, int64_t after, int64_t until)
{
	const struct likeness *l = &((const struct read *)arg)->like;
	if (a == l->unlike || b == l->unlike)
		return SOURCE_UNLIKE;
	if (!l->window_ms)
		return SOURCE_ALIKE;
	int64_t from = in_window(l, after), to = from + until - after;
	if (from >= 10000 && to <= l->window_ms - 10000)
		return SOURCE_ALIKE;
	bool steady = times(l, 0, source_mid_minute(until)) == 1;
	return l->few && steady && until - after == MINUTE ? SOURCE_ALIKE_BUT_FEW : SOURCE_UNLIKE;
}

static bool odd(void *arg, size_t series, int64_t t_ms)
{
	const struct likeness *l = &((const struct read *)arg)->like;
	return times(l, series, t_ms) != times(l, series, source_mid_minute(t_ms));
}

static struct read read_cells(struct kit *k, size_t n_pods, struct likeness like)
{
	struct read x = { .like = like, .lock = MUTEX_INIT(LOCK_ANY, "test") };
	const struct source_cells_reader reader = { take, like.none ? NULL : alike, odd, SYMBOLS_WHOLE, &x };
	struct source_damage damage = { 0 };
	struct source_limits lim = { .damage = &damage };
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	uint64_t refs[PODS];
	size_t n;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_true(n >= n_pods);
	for (size_t i = 0; i < n_pods; i++)
		refs[i] = s[i].ref;
	if (v->ops->cells(v, refs, n_pods, 0, INT64_MAX, &lim, &reader, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(source_damage_met(&damage), 0);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	return x;
}

#define NOBODY 99

/* The same as each series by itself. Returns how many values were read. */
static size_t check_like(struct kit *k, size_t n_pods, struct likeness like)
{
	const struct read x = read_cells(k, n_pods, like);
	like.none = true;
	const struct read raw = read_cells(k, n_pods, like);
	bool short_ones = like.window_ms < 30 * MINUTE; /* a series may be there for half an hour only, and that count alike as a whole */
	if (!raw.n || x.by_hour != raw.by_hour || (short_ones && like.window_ms && x.by_minute != raw.by_minute) || x.n > raw.n)
		fail_msg("windows of %d min, %d ms off, %zu%s: %zu values of %zu, %s", (int)(like.window_ms / MINUTE), (int)like.off_ms, like.unlike,
			 like.few ? ", few" : "", x.n, raw.n, x.by_hour == raw.by_hour ? "hours agree" : "other values");
	return x.n;
}

/* Returns how many values were read of windows of ten minutes: of minutes that are alike, and of those that are but for a few. */
struct met {
	size_t ten, few;
};

static struct met check(struct kit *k, size_t n_pods)
{
	struct met met = { 0 };
	static const int64_t windows[] = { 1, 3, 10, 25, 90 }, offs[] = { 0, 7000, 60000, 90001 };
	check_like(k, n_pods, (struct likeness){ .unlike = NOBODY });
	for (size_t i = 0; i < ARRAY_LEN(windows); i++)
		for (size_t o = 0; o < ARRAY_LEN(offs); o++)
			for (size_t unlike = 0; unlike < 2; unlike++) {
				struct likeness like = { .window_ms = windows[i] * MINUTE, .off_ms = offs[o], .unlike = unlike ? 2 : NOBODY };
				size_t n = check_like(k, n_pods, like);
				like.few = true;
				size_t few = check_like(k, n_pods, like);
				if (windows[i] == 10 && !o && !unlike)
					met = (struct met){ n, few };
			}
	return met;
}

/* ---- graphs of a function ---- */

#define MAX_STEPS 600

struct graph {
	int64_t after_ms, range_ms, step_ms;
	uint32_t n;
	bool scaled;       /* the first ten seconds of each step count less, by pod, as in a rate */
	bool apart;        /* a question for each step */
};

struct answer {
	double sums[MAX_STEPS];
	int64_t exact[MAX_STEPS];
	uint64_t read;
};

/* The parts of one pod and step, or of all steps from that. */
static size_t put_parts(const struct graph *g, uint64_t ref, uint32_t step, uint32_t n, struct source_part *to)
{
	int64_t after = g->after_ms + step * g->step_ms, until = after + g->range_ms, cut = MIN(after + 10000, until);
	*to = (struct source_part){ ref, after, until, 1, step, n, n > 1 ? g->step_ms : 0 };
	if (!g->scaled)
		return 1;
	to[1] = to[0];
	to[0].until_ms = to[1].after_ms = cut;
	to[0].scale = 0.1 + 0.07 * (double)(ref % 4);
	return 2;
}

static struct answer *ask_graph(struct kit *k, size_t n_pods, struct graph g)
{
	struct answer *a = NEW(struct answer);
	struct source_part *parts = xcalloc((g.apart ? g.n : 1) * n_pods * 2, sizeof *parts);
	atomic_uint_fast64_t read = 0;
	struct source_limits lim = { .samples_read = &read };
	const struct source_frame_filter f = kit_odd_functions(false);
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	size_t n, n_parts = 0;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_true(n >= n_pods);
	for (uint32_t step = 0; step < (g.apart ? g.n : 1); step++)
		for (size_t i = 0; i < n_pods; i++)
			n_parts += put_parts(&g, s[i].ref, step, g.apart ? 1 : g.n, parts + n_parts);
	if (v->ops->sums(v, parts, n_parts, g.n, &f, &lim, a->sums, a->exact, &e))
		fail_msg("%s", e.msg);
	a->read = atomic_load(&read);
	free(parts);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	return a;
}

static void check_graph(struct kit *k, size_t n_pods, struct graph g)
{
	struct answer *once = ask_graph(k, n_pods, g);
	g.apart = true;
	struct answer *apart = ask_graph(k, n_pods, g);
	if (memcmp(once->sums, apart->sums, g.n * sizeof *once->sums) || (!g.scaled && memcmp(once->exact, apart->exact, g.n * sizeof *once->exact)) ||
	    once->read != apart->read)
		fail_msg("%d s each %d s, %d ms off, %s: %s, %" PRIu64 " values read for %" PRIu64, (int)(g.range_ms / 1000), (int)(g.step_ms / 1000),
			 (int)((g.after_ms - KIT_T0) % MINUTE), g.scaled ? "scaled" : "whole",
			 memcmp(once->sums, apart->sums, g.n * sizeof *once->sums) ? "sums differ" : "sums agree", once->read, apart->read);
	free(once);
	free(apart);
}

static void check_graphs(struct kit *k, size_t n_pods)
{
	static const int64_t ranges[] = { 10, 60, 100, 600, 3 * 3600 }, steps[] = { 10, 60, 90, 1500, 3600, 7200, 9001 }, offs[] = { 0, 7000, 60000 };
	for (size_t r = 0; r < ARRAY_LEN(ranges); r++)
		for (size_t s = 0; s < ARRAY_LEN(steps); s++)
			for (size_t o = 0; o < ARRAY_LEN(offs); o++)
				for (int scaled = 0; scaled < 2; scaled++)
					check_graph(k, n_pods, (struct graph){ KIT_T0 - 2 * ranges[r] * 1000 - 60000 + offs[o], ranges[r] * 1000, steps[s] * 1000,
									       (uint32_t)MIN(5 * 3600 / steps[s] + 2, MAX_STEPS), scaled, false });
}

/* Pods have the same stacks all the time; pod 3 is not there in the second quarter of each hour, pod 4 comes at half of it. */
static void fill(struct kit *k, unsigned hours)
{
	for (int64_t t = KIT_T0 + 10000; t < KIT_T0 + hours * HOUR; t += 10000) {
		k->now_ms = t + 20000;
		for (unsigned pod = 0; pod < PODS; pod++) {
			int64_t in = (t - KIT_T0) % HOUR;
			if ((pod == 3 && in > 15 * MINUTE && in < 30 * MINUTE) || (pod == 4 && in < 30 * MINUTE))
				continue;
			assert_int_equal(kit_append(k, pod, t + pod, (uint64_t)pod % 2, 4 + (unsigned)(t / 10000 % 3), NULL), 0);
		}
	}
	tsdb_flush(k->db);
}

static void test_sums_and_series(void **state)
{
	struct kit k;
	struct err e;
	uint64_t gone;
	struct matcher m;
	(void)state;
	kit_init(&k);
	k.o.keep_aggregates = k.o.no_sealing = true;
	kit_open(&k);
	fill(&k, 3);
	struct met head = check(&k, PODS);
	check_graphs(&k, PODS);
	k.now_ms = KIT_T0 + 5 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	struct met sealed = check(&k, PODS);
	check_graphs(&k, PODS);
	check_graphs(&k, PODS - 1);
	assert_true(sealed.ten * 2 < head.ten);  /* of most minutes sums were read */
	assert_true(sealed.few * 10 < sealed.ten * 8); /* and of the others, but for a few profiles */
	assert_true(check(&k, PODS - 1).ten > sealed.ten); /* not all are asked for: there is no sum of those */
	/* late profiles beside the sealed hour: of minutes that have sums, and of others */
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(kit_append(&k, i, KIT_T0 + 4 * MINUTE * (i + 1) + 33, 7, 9, NULL), 0);
	tsdb_flush(k.db);
	check(&k, PODS);
	check_graphs(&k, PODS);
	kit_reopen(&k);
	check(&k, PODS);
	/* something of one of them was deleted */
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(k.db, &m, 1, KIT_T0 + HOUR + 11 * MINUTE, KIT_T0 + HOUR + 13 * MINUTE, &gone, &e), 0);
	matcher_release(&m);
	check(&k, PODS);
	check_graphs(&k, PODS);
	if (tsdb_clean(k.db, &e))
		fail_msg("%s", e.msg);
	check(&k, PODS);
	kit_free(&k);
}

/* ---- damage ---- */

/* Flips a bit of a stored value of each sum of the newest hour's part. False: that part has none. */
static bool flip_sum(struct kit *k, enum part_kind kind, uint8_t stream, size_t at)
{
	struct source_view *sv;
	struct err e;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &sv, &e), 0);
	const struct version *v = ((struct tsdb_view *)sv)->v;
	const struct part *p = NULL;
	for (size_t i = 0; i < v->n; i++)
		for (size_t j = 0; j < v->p[i]->n_parts; j++)
			if (v->p[i]->parts[j]->level == LEVEL_HOUR && v->p[i]->parts[j]->aggregates.n)
				p = v->p[i]->parts[j];
	bool found = false;
	for (uint32_t a = 0; p && a < p->aggregates.n; a++) {
		char key[KEY_LEN], *error = NULL;
		size_t n;
		part_make_key(key, p->level, p->window, p->number, part_key_kind(p->one_kind, kind, stream), PART_AGGREGATE | a, stream);
		char *value = rocksdb_get(p->db->db, p->db->read, key, sizeof key, &n, &error);
		assert_true(!error);
		if (!value)
			continue; /* small ones lack some streams */
		value[at % n] ^= 4;
		rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
		rocksdb_put(p->db->db, w, key, sizeof key, value, n, &error);
		assert_null(error);
		rocksdb_writeoptions_destroy(w);
		rocksdb_free(value);
		found = true;
	}
	sv->ops->release(sv);
	return found;
}

/* An hour that is sealed, with its sums. */
static void start_sealed(struct kit *k)
{
	struct err e;
	kit_init(k);
	k->o.keep_aggregates = k->o.no_sealing = true;
	kit_open(k);
	fill(k, 1);
	k->now_ms = KIT_T0 + 3 * HOUR;
	assert_int_equal(tsdb_seal(k->db, true, &e), 0);
}

/* What is damaged in a sum costs nothing: its series are read. */
static void test_damaged_sums(void **state)
{
	static const struct { enum part_kind kind; uint8_t stream; } values[] = { { PART_ROLLUP, 0 }, { PART_TOTALS, 0 }, { PART_DETAIL, 0 },
										  { PART_DETAIL, 1 }, { PART_DETAIL, 2 } };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct kit k;
		struct tsdb_stats s;
		start_sealed(&k);
		struct likeness windows = { .window_ms = 10 * MINUTE, .unlike = NOBODY, .few = i % 2 == 1 }, none = windows;
		none.none = true;
		struct read raw = read_cells(&k, PODS, none), sums = read_cells(&k, PODS, windows);
		assert_true(sums.n * 2 < raw.n && sums.by_minute == raw.by_minute);
		assert_true(flip_sum(&k, values[i].kind, values[i].stream, 5 * i + 3));
		struct read damaged = read_cells(&k, PODS, windows);
		assert_true(damaged.by_minute == raw.by_minute && damaged.n >= raw.n);
		tsdb_stats(k.db, &s);
		assert_int_equal(s.lost_records, 1); /* it is said, though nothing is missing */
		check(&k, PODS);
		kit_free(&k);
	}
}

static void test_graphs_of_damaged_sums(void **state)
{
	static const struct { enum part_kind kind; uint8_t stream; } values[] = { { PART_ROLLUP, 0 }, { PART_TOTALS, 0 }, { PART_DETAIL, 1 }, { PART_DETAIL, 2 } };
	const struct graph minutes = { KIT_T0, MINUTE, MINUTE, 60, false, false };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct kit k;
		start_sealed(&k);
		struct answer *before = ask_graph(&k, PODS, minutes);
		assert_true(flip_sum(&k, values[i].kind, values[i].stream, 5 * i + 3));
		struct answer *after = ask_graph(&k, PODS, minutes), *again = ask_graph(&k, PODS, minutes);
		assert_memory_equal(before->sums, after->sums, minutes.n * sizeof *before->sums);
		assert_memory_equal(before->exact, again->exact, minutes.n * sizeof *before->exact);
		assert_true(before->read * 2 < again->read);
		check_graphs(&k, PODS);
		kit_free(&k);
		free(before);
		free(after);
		free(again);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sums_and_series), cmocka_unit_test(test_damaged_sums),
					    cmocka_unit_test(test_graphs_of_damaged_sums) };
	log_setup(LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests_name("tsdb cells", tests, NULL, NULL);
}
