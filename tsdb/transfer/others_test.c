/* SPDX-License-Identifier: Apache-2.0 */
/* Days of other servers of the bucket answer as if they were of this disk; what their owners delete or drop is gone here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/bucketkit.h"
#include "tsdb/cached/cached_days.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define END (KIT_T0 + 3 * DAY)
#define STACKS 10
#define ROWS 6 /* of a pod, a day: one every half hour of three hours */
#define PODS 3

enum { ONE, TWO, READER, LOCAL, SERVERS };

struct world {
	struct bucketkit b;
	struct kit k[SERVERS]; /* LOCAL has on its disk what ONE and TWO have, and no bucket */
	uint64_t seed;
	struct source_damage damage;
	struct source_limits lim;
};

static int64_t world_now(void *arg)
{
	return ((struct kit *)arg)->now_ms;
}

static struct labels *external_of_two(void *arg)
{
	static const struct label v[] = { { VIEW("job"), VIEW("not this") }, { VIEW("region"), VIEW("eu") } };
	(void)arg;
	return labels_dup((struct labels){ v, 2 });
}

static void world_open(struct world *w, int server, const char *id)
{
	struct kit *k = &w->k[server];
	kit_init(k);
	k->o.no_transfer = true;
	k->o.retention_ms = -1;
	k->o.keep_aggregates = true;
	k->o.objects = server == LOCAL ? NULL : &w->b.objects;
	k->o.server_id = server == LOCAL ? NULL : id;
	k->o.read_others = server == READER;
	k->o.external_labels = server == TWO ? external_of_two : NULL;
	k->job = server == TWO ? "two" : "one";
	k->now_ms = KIT_T0 + HOUR;
	kit_open(k);
}

static void world_upload(struct world *w, int server)
{
	struct err e;
	if (tsdb_upload(w->k[server].db, &e))
		fail_msg("%s", e.msg);
}

/* A day of ONE or TWO, and the same on LOCAL. */
static void world_fill(struct world *w, int server, int day)
{
	struct sink_result r;
	struct err e;
	struct kit *k = &w->k[server], *local = &w->k[LOCAL];
	const char *job = local->job;
	local->job = k->job;
	for (int row = 1; row <= ROWS; row++)
		for (unsigned pod = 0; pod < PODS; pod++) {
			int64_t t = KIT_T0 + day * DAY + row * 30 * MINUTE - pod;
			for (int i = 0; i < SERVERS; i++)
				w->k[i].now_ms = MAX(w->k[i].now_ms, t);
			assert_int_equal(kit_append(k, pod, t, w->seed, STACKS, &r), 0);
			assert_int_equal(kit_append(local, pod, t, w->seed++, STACKS, &r), 0);
		}
	local->job = job;
	tsdb_flush(k->db);
	tsdb_flush(local->db);
	assert_int_equal(tsdb_seal(k->db, true, &e), 0);
	assert_int_equal(tsdb_seal(local->db, true, &e), 0);
	world_upload(w, server);
}

/* ONE has days 0 and 1, TWO has days 1 and 2. */
static void world_begin(struct world *w)
{
	*w = (struct world){ .seed = 1 };
	w->lim.damage = &w->damage;
	bucketkit_init(&w->b);
	w->b.now_ms = world_now;
	w->b.now_arg = &w->k[ONE];
	world_open(w, LOCAL, NULL);
	world_open(w, ONE, "one");
	world_open(w, TWO, "two");
	world_fill(w, ONE, 0);
	world_fill(w, ONE, 1);
	world_fill(w, TWO, 1);
	world_fill(w, TWO, 2);
	world_open(w, READER, "a-reader");
	w->k[READER].now_ms = w->k[ONE].now_ms;
	world_upload(w, READER);
}

static void world_end(struct world *w)
{
	for (int i = 0; i < SERVERS; i++)
		kit_free(&w->k[i]);
	bucketkit_free(&w->b);
}

static void world_same(struct world *w)
{
	struct kit *r = &w->k[READER], *l = &w->k[LOCAL];
	int64_t a, b;
	assert_int_equal(kit_count(r, KIT_CPU, KIT_T0, END, &a), kit_count(l, KIT_CPU, KIT_T0, END, &b));
	assert_int_equal(a, b);
	assert_true(kit_merge(r, KIT_CPU, KIT_T0, END, NULL) == kit_merge(l, KIT_CPU, KIT_T0, END, NULL));
	assert_true(kit_merge(r, KIT_SAMPLES, KIT_T0 + HOUR + 7 * MINUTE, KIT_T0 + DAY + 2 * HOUR + 3 * MINUTE, NULL) ==
		    kit_merge(l, KIT_SAMPLES, KIT_T0 + HOUR + 7 * MINUTE, KIT_T0 + DAY + 2 * HOUR + 3 * MINUTE, NULL));
	for (int day = 0; day < 3; day++)
		assert_true(kit_merge(r, KIT_CPU, KIT_T0 + day * DAY, KIT_T0 + (day + 1) * DAY, NULL) ==
			    kit_merge(l, KIT_CPU, KIT_T0 + day * DAY, KIT_T0 + (day + 1) * DAY, NULL));
}

static size_t world_series(struct world *w, const char *name, const char *value)
{
	struct source_view *v;
	struct source_series *found;
	struct matcher m[2];
	struct err e;
	size_t n;
	assert_int_equal(tsdb_source(w->k[READER].db)->open(tsdb_source(w->k[READER].db), &v, &e), 0);
	assert_int_equal(matcher_init(&m[0], MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(matcher_init(&m[1], MATCH_EQ, view_of(name), view_of(value), &e), 0);
	assert_int_equal(v->ops->select(v, m, 2, KIT_T0, END, NULL, &found, &n, &e), 0);
	free(found);
	matcher_release(&m[0]);
	matcher_release(&m[1]);
	v->ops->release(v);
	return n;
}

/* The warnings about a question over all; returns how many. */
static size_t world_warnings(struct world *w, struct kit_warnings *ret)
{
	w->damage = (struct source_damage){ .damaged = { 0 } };
	w->k[READER].lim = &w->lim;
	kit_count(&w->k[READER], KIT_CPU, KIT_T0, END, NULL);
	w->k[READER].lim = NULL;
	assert_int_equal(atomic_load(&w->damage.damaged.met), 0);
	kit_warnings(&w->damage, ret);
	return ret->n;
}

static struct admin_bucket world_status(struct world *w)
{
	struct admin_bucket s;
	struct storage_admin *a = tsdb_admin(w->k[READER].db);
	a->bucket(a, &s);
	return s;
}

static void test_the_same(void **state)
{
	struct world w;
	struct kit_warnings warnings;
	(void)state;
	world_begin(&w);
	world_same(&w);
	world_same(&w);
	assert_int_equal(world_series(&w, "region", "eu"), PODS);
	assert_int_equal(world_series(&w, "region", ""), PODS);
	assert_int_equal(world_series(&w, "job", "two"), PODS); /* a label of its own stays */
	assert_int_equal(world_warnings(&w, &warnings), 0);
	struct admin_bucket s = world_status(&w);
	assert_true(s.reads_others);
	assert_int_equal(s.other_servers, 2);
	assert_true(s.other_days >= 4);
	assert_int_equal(s.days, 0);
	/* A server adds a day; the next look finds it. */
	world_fill(&w, ONE, 2);
	world_upload(&w, READER);
	world_same(&w);
	/* The next process knows all of it without the bucket, and has in its cache what was read. */
	w.b.away = true;
	kit_reopen(&w.k[READER]);
	world_same(&w);
	world_end(&w);
}

/* Rows of this server's own disk beside them. */
static void test_own_days(void **state)
{
	struct world w;
	struct sink_result r;
	struct err e;
	(void)state;
	world_begin(&w);
	w.k[READER].job = w.k[LOCAL].job = "own";
	for (int i = 0; i <= 40; i++) { /* the last one so late that the others may leave the disk */
		int64_t t = i < 40 ? KIT_T0 + DAY + i * 5 * MINUTE + 1 : END - HOUR;
		w.k[READER].now_ms = w.k[LOCAL].now_ms = MAX(w.k[READER].now_ms, t);
		assert_int_equal(kit_append(&w.k[READER], 1, t, w.seed, STACKS, &r), 0);
		assert_int_equal(kit_append(&w.k[LOCAL], 1, t, w.seed++, STACKS, &r), 0);
	}
	tsdb_flush(w.k[READER].db);
	tsdb_flush(w.k[LOCAL].db);
	world_same(&w);
	assert_int_equal(tsdb_seal(w.k[READER].db, true, &e), 0);
	world_same(&w);
	/* The own day leaves the disk, and is read in the bucket as well. */
	world_upload(&w, READER);
	w.k[READER].o.local_retention_ms = HOUR;
	kit_reopen(&w.k[READER]);
	world_upload(&w, READER);
	assert_int_equal(tsdb_retain(w.k[READER].db, &e), 0);
	assert_true(world_status(&w).absent_days > 0);
	world_same(&w);
	world_end(&w);
}

static void test_deletes(void **state)
{
	struct world w;
	struct matcher m;
	struct err e;
	(void)state;
	world_begin(&w);
	world_same(&w);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(w.k[ONE].db, &m, 1, KIT_T0 + HOUR, KIT_T0 + DAY + HOUR, NULL, &e), 0);
	matcher_release(&m);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("job"), VIEW("one"), &e), 0);
	struct matcher both[2] = { m };
	assert_int_equal(matcher_init(&both[1], MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(w.k[LOCAL].db, both, 2, KIT_T0 + HOUR, KIT_T0 + DAY + HOUR, NULL, &e), 0);
	matcher_release(&both[0]);
	matcher_release(&both[1]);
	world_upload(&w, READER); /* no generation has it yet */
	world_same(&w);
	w.b.away = true;
	kit_reopen(&w.k[READER]); /* a process that has just begun, before the bucket answered: it has the delete from its disk */
	world_same(&w);
	w.b.away = false;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tsdb_clean(w.k[ONE].db, &e), 0);
		world_upload(&w, ONE);
		world_same(&w); /* between a rewritten day and the look at it the day is as it was */
		world_upload(&w, READER);
		world_same(&w);
	}
	kit_reopen(&w.k[READER]);
	world_same(&w);
	world_end(&w);
}

/* A day that its owner drops. */
static void test_gone(void **state)
{
	struct world w;
	struct matcher m;
	struct err e;
	(void)state;
	world_begin(&w);
	world_same(&w);
	uint64_t days = world_status(&w).other_days;
	assert_int_equal(matcher_init(&m, MATCH_RE, VIEW("pod"), VIEW(".*"), &e), 0);
	assert_int_equal(tsdb_delete(w.k[ONE].db, &m, 1, KIT_T0, KIT_T0 + DAY, NULL, &e), 0);
	assert_int_equal(tsdb_delete(w.k[LOCAL].db, &m, 1, KIT_T0, KIT_T0 + DAY, NULL, &e), 0);
	matcher_release(&m);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tsdb_clean(w.k[ONE].db, &e), 0);
		world_upload(&w, ONE);
		world_upload(&w, READER);
		world_same(&w);
	}
	assert_int_equal(world_status(&w).other_days, days - 1);
	cached_days_tidy(w.k[READER].db, true);
	world_same(&w);
	world_end(&w);
}

/* The same labels at the same time from two servers count twice, and the answer says so. */
static void test_doubled(void **state)
{
	struct world w;
	struct sink_result r;
	struct err e;
	struct kit_warnings warnings;
	(void)state;
	world_begin(&w);
	w.k[READER].job = "one";
	assert_int_equal(kit_append(&w.k[READER], 1, KIT_T0 + DAY + 4 * HOUR, 1, STACKS, &r), 0); /* after the others: that is no doubt */
	tsdb_flush(w.k[READER].db);
	assert_int_equal(world_warnings(&w, &warnings), 0);
	assert_int_equal(kit_append(&w.k[READER], 1, KIT_T0 + DAY + HOUR, 2, STACKS, &r), 0);
	tsdb_flush(w.k[READER].db);
	assert_int_equal(world_warnings(&w, &warnings), 1);
	assert_non_null(strstr(warnings.texts[0], "several servers under the same labels"));
	assert_int_equal(tsdb_seal(w.k[READER].db, true, &e), 0);
	assert_int_equal(world_warnings(&w, &warnings), 1);
	world_end(&w);
}

/* The newest generation of a day of TWO, once more with what `spoil` makes of it, under the next number. */
static void world_spoil(struct world *w, void (*spoil)(struct generation *g))
{
	CLEANUP(buf_free) struct buf out = { 0 };
	char name[OBJECT_NAME_MAX];
	struct object_name n;
	struct generation g = { .min_ms = 1 };
	struct err e;
	for (size_t i = 0; i < w->b.v.n; i++) {
		const struct bucketkit_object *o = &w->b.v.v[i];
		if (!object_name_parse(o->key, &n) || strcmp(n.id, "two") || n.kind != 'g')
			continue;
		generation_release(&g);
		assert_int_equal(generation_decode(&g, view_make(o->bytes, o->n), NULL, &e), 0);
	}
	assert_int_equal(generation_decode_series(&g, &e), 0);
	g.stamp.serial++;
	spoil(&g);
	assert_int_equal(generation_encode(&g, &out, &e), 0);
	object_name_generation(name, "two", g.stamp);
	mutex_lock(&w->b.lock);
	size_t at = 0;
	while (at < w->b.v.n && strcmp(w->b.v.v[at].key, name) < 0)
		at++;
	struct bucketkit_object o = { xstrdup(name), NULL, out.len, 0 };
	o.bytes = xmalloc(out.len);
	memcpy(o.bytes, out.ptr, out.len);
	vec_push(&w->b.v, o);
	memmove(w->b.v.v + at + 1, w->b.v.v + at, (w->b.v.n - 1 - at) * sizeof *w->b.v.v);
	w->b.v.v[at] = o;
	mutex_unlock(&w->b.lock);
	generation_release(&g);
}

static void spoil_file(struct generation *g)
{
	g->parts.v[1].file = g->parts.v[0].file;
}

static void spoil_series(struct generation *g)
{
	g->series.v[1].labels = g->series.v[0].labels;
}

static void spoil_index(struct generation *g)
{
	g->parts.v[0].index = VIEW("\xff\xff\xff\xff\xff");
}

static void spoil_runs(struct generation *g)
{
	for (size_t i = 0; i < g->parts.v[0].runs.n; i++)
		g->parts.v[0].runs.v[i].length /= 2;
}

/* What another server's generations say is not believed. */
static void test_hostile(void **state)
{
	static void (*const spoils[])(struct generation *g) = { spoil_file, spoil_series, spoil_index, spoil_runs };
	struct world w;
	struct kit_warnings warnings;
	(void)state;
	for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
		world_begin(&w);
		world_spoil(&w, spoils[i]);
		world_upload(&w, READER);
		if (world_warnings(&w, &warnings) != 1)
			fail_msg("spoil %zu brings no warning", i);
		assert_non_null(strstr(warnings.texts[0], "in the bucket, and could not be read"));
		assert_true(kit_merge(&w.k[READER], KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL) == kit_merge(&w.k[LOCAL], KIT_CPU, KIT_T0, KIT_T0 + DAY, NULL));
		world_end(&w);
	}
}

static void spoil_nothing_but_names(struct generation *g)
{
	for (size_t i = 0; i < 2; i++)
		g->series.v[i].labels = (struct labels){ NULL, 0 };
}

/* Series whose labels an owner has lost do not keep the rest of the day from being read. */
static void test_lost_series(void **state)
{
	struct world w;
	struct kit_warnings warnings;
	(void)state;
	world_begin(&w);
	size_t series = world_series(&w, "region", "eu");
	world_spoil(&w, spoil_nothing_but_names);
	world_upload(&w, READER);
	assert_int_equal(world_warnings(&w, &warnings), 0);
	assert_int_equal(world_series(&w, "region", "eu"), series);
	world_end(&w);
}

/* What retention by selector hid when a day was put is hidden here, too. */
static void test_retention(void **state)
{
	struct world w;
	struct sink_result r;
	struct matcher m;
	struct err e;
	(void)state;
	world_begin(&w);
	world_fill(&w, ONE, 2);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_set_retention(w.k[ONE].db, &(struct tsdb_retention){ &m, 1, HOUR }, 1, &e), 0);
	matcher_release(&m);
	assert_int_equal(kit_append(&w.k[ONE], 0, KIT_T0 + 2 * DAY + 3 * HOUR + MINUTE, 1, STACKS, &r), 0); /* so that it is put again */
	tsdb_flush(w.k[ONE].db);
	assert_int_equal(tsdb_seal(w.k[ONE].db, true, &e), 0);
	world_upload(&w, ONE);
	world_upload(&w, READER);
	int64_t after = KIT_T0 + 2 * DAY;
	size_t rows = kit_count(&w.k[ONE], KIT_CPU, after, END, NULL);
	assert_true(rows < (size_t)PODS * ROWS);
	assert_int_equal(kit_count(&w.k[READER], KIT_CPU, after, END, NULL), rows + (size_t)PODS * ROWS); /* and TWO's */
	world_end(&w);
}

/* A directory that goes on as a server that was known as another one reads its days once. */
static void test_becomes_another(void **state)
{
	struct world w;
	(void)state;
	world_begin(&w);
	struct kit dir = w.k[READER];
	kit_close(&w.k[READER]);
	kit_free(&w.k[READER]);
	kit_init(&w.k[READER]);
	dir.db = NULL;
	memcpy(dir.dir, w.k[READER].dir, sizeof dir.dir);
	w.k[READER] = dir;
	w.k[READER].o.path = w.k[READER].dir;
	w.k[READER].o.now_arg = &w.k[READER];
	kit_close(&w.k[ONE]);
	w.k[READER].o.server_id = "one";
	kit_open(&w.k[READER]);
	for (int i = 0; i < 6; i++)
		world_upload(&w, READER);
	world_same(&w);
	assert_int_equal(world_status(&w).other_servers, 1);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_same), cmocka_unit_test(test_own_days), cmocka_unit_test(test_deletes), cmocka_unit_test(test_gone),
		cmocka_unit_test(test_doubled), cmocka_unit_test(test_hostile), cmocka_unit_test(test_lost_series),
		cmocka_unit_test(test_retention), cmocka_unit_test(test_becomes_another),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
