/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over several days of which only names are needed are held against those of whole stacks: each text of a stack, with its functions, files,
 * lines, start lines, binaries and labels, has the same value in both. Each day is another build of the program, so that addresses, build ids and
 * some lines differ. Asked first, again (by places, without dictionaries), with dictionaries evicted, late names, late rows and rows in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/frame.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/evict.h"
#include "tsdb/part/part_read.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define DAYS 4
#define PODS 3
#define PROFILES 4 /* of a pod and day */
#define STACKS 60
#define ROUNDS 60

static uint32_t string_of(struct profile *p, const char *text)
{
	struct view *v = arena_alloc(&p->arena, (p->n_strings + 1) * sizeof *v);
	memcpy(v, p->strings, p->n_strings * sizeof *v);
	v[p->n_strings] = arena_view(&p->arena, view_of(text));
	p->strings = v;
	return p->n_strings++;
}

/* Function i of the build of a day. named: how many locations have lines. */
static void rebuild(struct profile *p, unsigned day, uint32_t named)
{
	char build[32];
	uint32_t files[] = { string_of(p, "/src/a.go"), string_of(p, "/src/b.go"), string_of(p, day % 2 ? "/new/c.go" : "/src/c.go") };
	snprintf(build, sizeof build, "build-%u", day);
	p->mappings[0].build_id_str = string_of(p, build);
	p->mappings[0].offset = day * 0x1000;
	p->mappings[0].start += day * 0x100000;
	p->mappings[0].limit += day * 0x100000;
	struct profile_line *lines = arena_calloc(&p->arena, p->n_lines * 2, sizeof *lines);
	for (uint32_t i = 0; i < p->n_locations; i++) {
		uint32_t other = (i + 1) % p->n_locations;
		p->functions[i].filename_str = files[i % 3];
		p->functions[i].start_line = i + (i % 7 == 0 ? day : 0);
		p->functions[i].system_name_str = day % 2 ? p->functions[i].name_str : 0;
		p->locations[i].address += day * (0x100000 + 64) + i * day;
		p->locations[i].first_line = i * 2;
		p->locations[i].n_lines = i >= named ? 0 : i % 5 == 0 ? 2 : 1;
		p->locations[i].is_folded = day % 2;
		lines[i * 2] = (struct profile_line){ .function = i + 1, .line = 10 + i + (i % 4 == 0 ? day : 0), .column = day };
		lines[i * 2 + 1] = (struct profile_line){ .function = other + 1, .line = 99 };
	}
	p->lines = lines;
	p->n_lines *= 2;
}

static void put_stacks(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, uint32_t stacks, uint32_t named)
{
	struct profile p;
	struct err e;
	struct sink_result r;
	char name[32];
	kit_profile(&p, seed, stacks);
	rebuild(&p, (unsigned)((t_ms - KIT_T0 - 1) / DAY), named);
	snprintf(name, sizeof name, "pod-%u", pod);
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), view_of(name) } };
	struct sink_column c = { .labels = { l, 3 } };
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c.type));
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .interval_ms = 10000, .asked_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	assert_int_equal(tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, &r, &e), 0);
	if (r.profiles != 1)
		fail_msg("the profile of %lld was not taken: %u duplicates, %u too old, %u too new", (long long)t_ms, r.duplicates, r.too_old, r.too_new);
	profile_release(&p);
	tsdb_flush(k->db);
}

static void put(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, uint32_t named)
{
	put_stacks(k, pod, t_ms, seed, STACKS, named);
}

/* ---- texts ---- */

struct text_sum {
	uint64_t text; /* its hash */
	double value;
};

struct text_sums {
	VEC(struct text_sum) v;
};

static void hash_text(uint64_t *h, struct view v)
{
	*h = hash_stable_seed(v.ptr, v.len, *h + 1);
}

static uint64_t text_of_column(const struct symbols *s, uint32_t column)
{
	const struct sym_column *c = symbols_get_column(s, column);
	uint32_t locations[64];
	uint64_t h = 7;
	size_t n = symbols_stack_locations(s, c->stack, locations, 64), labels;
	struct buf tmp = { 0 };
	assert_true(n <= 64);
	for (size_t i = 0; i < n; i++) {
		const struct sym_location *l = symbols_get_location(s, locations[i]);
		for (uint32_t k = 0; k < frame_count(l); k++) {
			const struct sym_function *f = frame_function(s, l, k);
			int64_t numbers[] = { frame_line(s, l, k), f ? f->start_line : -1 };
			hash_text(&h, frame_name(s, l, k, &tmp));
			hash_text(&h, frame_file(s, l, k));
			hash_text(&h, frame_binary(s, l));
			hash_text(&h, view_make((const char *)numbers, sizeof numbers));
		}
	}
	const struct sym_label *of = symbols_get_label_set(s, c->label_set, &labels);
	for (size_t i = 0; i < labels; i++) {
		hash_text(&h, symbols_get_string(s, of[i].key));
		hash_text(&h, symbols_get_string(s, of[i].str));
	}
	buf_free(&tmp);
	return h;
}

static int by_text(const void *a, const void *b)
{
	const struct text_sum *x = a, *y = b;
	return (x->text > y->text) - (x->text < y->text);
}

/* Each text once. */
static void join_texts(struct text_sums *t)
{
	size_t n = 0;
	if (t->v.n)
		qsort(t->v.v, t->v.n, sizeof *t->v.v, by_text);
	for (size_t i = 0; i < t->v.n; i++) {
		if (n && t->v.v[n - 1].text == t->v.v[i].text)
			t->v.v[n - 1].value += t->v.v[i].value;
		else
			t->v.v[n++] = t->v.v[i];
	}
	t->v.n = n;
}

static struct text_sums texts_of(const struct stackvec *v)
{
	struct text_sums t = { 0 };
	for (size_t i = 0; i < v->n; i++)
		vec_push(&t.v, (struct text_sum){ text_of_column(v->symbols, v->columns[i]), v->is_float ? v->floats[i] : (double)v->ints[i] });
	join_texts(&t);
	return t;
}

/* Releases the names' texts. */
static void check_texts(const struct stackvec *whole, struct text_sums *names)
{
	struct text_sums a = texts_of(whole);
	assert_int_equal(a.v.n, names->v.n);
	for (size_t i = 0; i < a.v.n; i++) {
		assert_true(a.v.v[i].text == names->v.v[i].text);
		assert_true(fabs(a.v.v[i].value - names->v.v[i].value) <= (whole->is_float ? fabs(a.v.v[i].value) * 1e-12 : 0));
	}
	vec_free(&a.v);
	vec_free(&names->v);
}

static void check_equal(const struct stackvec *whole, const struct stackvec *names)
{
	struct text_sums t = texts_of(names);
	assert_int_equal(whole->is_float, names->is_float);
	check_texts(whole, &t);
}

/* ---- questions ---- */

struct question {
	struct source_part parts[PODS * 4];
	size_t n, groups;
};

/* The values of a range, added up by the reader. */
struct range_values {
	int64_t after_ms, until_ms;
	struct text_sums sums;
};

static int take_values(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	struct range_values *x = arg;
	(void)worker, (void)e;
	for (size_t i = 0; i < c->n; i++) {
		int64_t t_ms = c->t_ms[c->rows[i]];
		if (t_ms > x->after_ms && t_ms <= x->until_ms)
			vec_push(&x->sums.v, (struct text_sum){ text_of_column(c->symbols, source_cells_column(c, i)), (double)c->values[i] });
	}
	return 0;
}

/* Single values have the same names as whole stacks. */
static void ask_values(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms)
{
	struct source_part parts[PODS + 1] = { 0 };
	struct range_values x = { .after_ms = after_ms, .until_ms = until_ms };
	const struct source_cells_reader reader = { .take = take_values, .detail = SYMBOLS_NAMES, .arg = &x };
	struct stackvec *whole;
	struct err e;
	assert_true(n <= ARRAY_LEN(parts));
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ .ref = refs[i], .after_ms = after_ms, .until_ms = until_ms, .scale = 1 };
	assert_int_equal(v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, NULL, &whole, &e), 0);
	assert_int_equal(v->ops->cells(v, refs, n, after_ms, until_ms, NULL, &reader, &e), 0);
	join_texts(&x.sums);
	check_texts(whole, &x.sums);
	stackvec_unref(whole);
}

static void ask(struct kit *k, uint64_t *seed)
{
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	struct question q = { .groups = 1 + kit_random(seed) % 3 };
	struct stackvec *whole[3], *names[3];
	size_t n;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	matcher_release(&m);
	for (size_t i = 0, asked = 1 + kit_random(seed) % (PODS * 4); i < asked && n; i++) {
		int64_t after = KIT_T0 + (int64_t)(kit_random(seed) % (DAYS * 24)) * HOUR, weight = (int64_t)(kit_random(seed) % 5);
		struct source_part p = { .ref = s[kit_random(seed) % n].ref, .after_ms = after, .scale = kit_random(seed) % 4 ? 1 : 0.25 };
		p.until_ms = after + (int64_t)(1 + kit_random(seed) % (DAYS * 24)) * HOUR;
		p.group = (uint32_t)(kit_random(seed) % q.groups);
		if (kit_random(seed) % 6 == 0)
			p.weigh = (struct source_weigh){ .over_ms = 7, .base_ms = weight, .by_cover = kit_random(seed) % 2 };
		q.parts[q.n++] = p;
	}
	assert_int_equal(v->ops->merge(v, q.parts, q.n, q.groups, SYMBOLS_WHOLE, NULL, whole, &e), 0);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(v->ops->merge(v, q.parts, q.n, q.groups, SYMBOLS_NAMES, NULL, names, &e), 0);
		for (size_t i = 0; i < q.groups; i++) {
			check_equal(whole[i], names[i]);
			stackvec_unref(names[i]);
		}
	}
	for (size_t i = 0; i < q.groups; i++)
		stackvec_unref(whole[i]);
	uint64_t refs[] = { s[0].ref, s[n - 1].ref };
	ask_values(v, refs, n > 1 ? 2 : 1, q.parts[0].after_ms, q.parts[0].until_ms);
	free(s);
	v->ops->release(v);
}

static bool has_function(const struct symbols *s, uint32_t column, const char *name)
{
	uint32_t locations[64];
	size_t n = symbols_stack_locations(s, symbols_get_column(s, column)->stack, locations, 64);
	for (size_t i = 0; i < n; i++) {
		const struct sym_location *l = symbols_get_location(s, locations[i]);
		for (uint32_t k = 0; k < frame_count(l); k++) {
			const struct sym_function *f = frame_function(s, l, k);
			if (f && view_eqs(symbols_get_string(s, f->name), name))
				return true;
		}
	}
	return false;
}

/* A function's part of each day, which rollups of days answer, is that of the day's stacks. */
static void ask_shares(struct kit *k)
{
	static const char name[] = "main.f7";
	const struct matcher function = { MATCH_EQ, VIEW("function"), view_of(name), NULL };
	const struct source_frame_filter f = { .m = &function, .n = 1 };
	int64_t match[DAYS] = { 0 }, total[DAYS] = { 0 }, there[DAYS] = { 0 }, exact[DAYS];
	struct source_part parts[PODS + 1] = { 0 };
	double sums[DAYS];
	struct source_view *v;
	struct source_series *s;
	struct err e;
	size_t n;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(v->ops->select(v, NULL, 0, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_in_range(n, PODS, PODS + 1);
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ .ref = s[i].ref, .after_ms = KIT_T0, .until_ms = KIT_T0 + DAY, .scale = 1, .n_steps = DAYS, .step_ms = DAY };
	assert_int_equal(v->ops->shares(v, parts, n, DAYS, &f, NULL, &(struct source_shares){ match, total, there }, &e), 0);
	assert_int_equal(v->ops->sums(v, parts, n, DAYS, &f, NULL, sums, exact, &e), 0);
	for (unsigned day = 0; day < DAYS; day++) {
		struct stackvec *all;
		int64_t want = 0, want_total = 0;
		for (size_t i = 0; i < n; i++)
			parts[i] = (struct source_part){ .ref = s[i].ref, .after_ms = KIT_T0 + day * DAY, .until_ms = KIT_T0 + (day + 1) * DAY, .scale = 1 };
		assert_int_equal(v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, NULL, &all, &e), 0);
		for (size_t i = 0; i < all->n; i++) {
			want_total += all->ints[i];
			want += has_function(all->symbols, all->columns[i], name) ? all->ints[i] : 0;
		}
		assert_int_equal(match[day], want);
		assert_int_equal(exact[day], want);
		assert_int_equal(total[day], want_total);
		assert_int_equal(there[day] > 0, want_total > 0);
		stackvec_unref(all);
	}
	free(s);
	v->ops->release(v);
}

static void ask_often(struct kit *k, uint64_t *seed)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 10 == 9) {
			tsdb_flush(k->db);
			evict_due(k->db, 0);
		}
		if (i % 10 == 9)
			ask_shares(k);
		if (i % 20 == 19)
			dict_unions_tidy_names(k->db, true);
		ask(k, seed);
	}
}

static void put_day(struct kit *k, unsigned day, uint64_t *seed, uint32_t named)
{
	static int64_t own; /* no two have one stamp */
	for (unsigned pod = 0; pod < PODS; pod++)
		for (unsigned i = 0; i < PROFILES; i++)
			put(k, pod, KIT_T0 + day * DAY + (int64_t)(1 + kit_random(seed) % (23 * 60)) * MINUTE + ++own, kit_random(seed), named);
}

static void seal(struct kit *k)
{
	struct err e;
	assert_int_equal(tsdb_seal(k->db, true, &e), 0);
}

static void test_names_are_whole_stacks(void **state)
{
	struct kit k;
	struct err e;
	uint64_t seed = 5;
	(void)state;
	kit_init(&k);
	k.now_ms = KIT_T0 + DAYS * DAY;
	k.o.no_sealing = true;
	k.o.dictionary_bytes = 1 << 16; /* less than two days have */
	kit_open(&k);
	for (unsigned day = 0; day < DAYS; day++)
		put_day(&k, day, &seed, day == 1 ? 20 : UINT32_MAX);
	ask_often(&k, &seed);
	seal(&k);
	ask_often(&k, &seed);
	put_day(&k, 1, &seed, UINT32_MAX); /* late rows, with names of what had none */
	ask_often(&k, &seed);
	seal(&k);
	assert_int_equal(tsdb_clean(k.db, &e), 0);
	ask_often(&k, &seed);
	kit_reopen(&k);
	ask_often(&k, &seed);
	kit_free(&k);
}

/* Profiles whose stacks come again each hour, so that the rollups of days have their sums, and names of their stacks. */
static void test_rollups(void **state)
{
	struct kit k;
	struct err e;
	struct matcher m;
	uint64_t seed = 21, deleted;
	(void)state;
	kit_init(&k);
	k.now_ms = KIT_T0 + DAYS * DAY + HOUR;
	k.o.no_sealing = true;
	kit_open(&k);
	for (unsigned day = 0; day < DAYS; day++)
		for (unsigned pod = 0; pod < PODS; pod++)
			for (unsigned hour = 1; hour < 24; hour += 3)
				put(&k, pod, KIT_T0 + day * DAY + hour * HOUR + pod, pod ? pod + (hour == 7) : kit_random(&seed), day == 2 ? 25 : UINT32_MAX);
	put_stacks(&k, PODS, KIT_T0 + DAY + HOUR, 1, 0, UINT32_MAX); /* a series without values */
	seal(&k);
	struct version *v = tsdb_version(k.db, NULL);
	for (size_t i = 0; i < v->n; i++) {
		PART_VALUE names = { 0 };
		assert_non_null(v->p[i]->all_day);
		assert_int_equal(v->p[i]->all_day->series.n, PODS - 1 + (i == 1)); /* the stacks of pod-0 are others each hour, so the rollup has no sums of it */
		assert_int_equal(part_get(v->p[i]->all_day, PART_NAMES, 0, 0, &names, &e), 0);
	}
	version_unref(v);
	ask_often(&k, &seed);
	v = tsdb_version(k.db, NULL);
	for (size_t i = 0; i < v->n; i++)
		assert_false(atomic_load(&v->p[i]->all_day->no_sums));
	version_unref(v);
	kit_reopen(&k);
	ask_often(&k, &seed);
	put(&k, 1, KIT_T0 + 5 * HOUR + 77, 5, UINT32_MAX); /* a late row, in memory beside a rollup */
	ask_often(&k, &seed);
	seal(&k);
	ask_often(&k, &seed);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-2"), &e), 0);
	assert_int_equal(k.db->admin.delete_series(&k.db->admin, &m, 1, KIT_T0 + DAY + 2 * HOUR, KIT_T0 + DAY + 9 * HOUR, &deleted, &e), 0);
	ask_often(&k, &seed);
	assert_int_equal(tsdb_clean(k.db, &e), 0);
	ask_often(&k, &seed);
	matcher_release(&m);
	kit_free(&k);
}

struct asker {
	struct kit *k;
	uint64_t seed;
	unsigned number;
};

static void *ask_in_thread(void *arg)
{
	struct asker *a = arg;
	for (int i = 0; i < ROUNDS / 2; i++) {
		ask(a->k, &a->seed);
		if (a->number == 0)
			dict_unions_tidy_names(a->k->db, true);
		if (a->number == 1)
			evict_due(a->k->db, 0);
	}
	return NULL;
}

/* Queries share the joint names while others begin with new ones, and dictionaries leave memory. */
static void test_threads(void **state)
{
	struct kit k;
	struct asker askers[4];
	pthread_t threads[ARRAY_LEN(askers)];
	uint64_t seed = 11;
	(void)state;
	kit_init(&k);
	k.now_ms = KIT_T0 + DAYS * DAY;
	k.o.no_sealing = true;
	k.o.dictionary_bytes = 1 << 16;
	kit_open(&k);
	for (unsigned day = 0; day < DAYS; day++)
		put_day(&k, day, &seed, UINT32_MAX);
	seal(&k);
	for (unsigned i = 0; i < ARRAY_LEN(askers); i++) {
		askers[i] = (struct asker){ &k, i + 20, i };
		assert_int_equal(pthread_create(&threads[i], NULL, ask_in_thread, &askers[i]), 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(askers); i++)
		pthread_join(threads[i], NULL);
	kit_free(&k);
}

/* At least what a merge counts for it, and a result of each day. */
static uint64_t bytes_of(const struct stackvec *v)
{
	return v->n * 12 + DAYS * 512;
}

/* Merges each series by itself. Returns the bytes of all, or 0: they are more than max_bytes. */
static uint64_t merge_series(struct source_view *v, const struct source_series *s, size_t n, enum symbols_detail detail, uint64_t max_bytes)
{
	const struct source_limits lim = { .max_bytes = max_bytes };
	struct source_part parts[PODS] = { 0 };
	struct stackvec *sums[PODS];
	uint64_t all = 0;
	struct err e;
	assert_int_equal(n, PODS);
	for (uint32_t i = 0; i < PODS; i++)
		parts[i] = (struct source_part){ .ref = s[i].ref, .until_ms = INT64_MAX, .scale = 1, .group = i };
	int rc = v->ops->merge(v, parts, n, n, detail, &lim, sums, &e);
	assert_true(!rc || rc == -ERR_LIMIT);
	for (size_t i = 0; i < n && !rc; i++) {
		all += bytes_of(sums[i]);
		stackvec_unref(sums[i]);
	}
	return all;
}

/* A storage of sealed days. */
static void open_days(struct kit *k, uint64_t *seed)
{
	kit_init(k);
	k->now_ms = KIT_T0 + (DAYS + 2) * DAY;
	kit_open(k);
	for (unsigned day = 0; day < DAYS; day++)
		put_day(k, day, seed, UINT32_MAX);
	seal(k);
}

/* A merge of many groups ends where they are more than a query may hold, and not only once it has them all. */
static void test_many_groups(void **state)
{
	struct kit k;
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	uint64_t seed = 4;
	size_t n;
	(void)state;
	open_days(&k, &seed);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	matcher_release(&m);
	for (enum symbols_detail detail = SYMBOLS_WHOLE; detail <= SYMBOLS_NAMES; detail++) {
		uint64_t all = merge_series(v, s, n, detail, 0);
		assert_true(all > 0);
		assert_int_equal(merge_series(v, s, n, detail, all), all);
		assert_int_equal(merge_series(v, s, n, detail, (all - PODS * DAYS * 512) / 2), 0);
	}
	free(s);
	v->ops->release(v);
	kit_free(&k);
}

/* What is kept of a day are the places of its columns. */
static void test_places(void **state)
{
	struct kit k;
	struct tsdb_stats t;
	uint64_t seed = 3, returned = 0;
	(void)state;
	open_days(&k, &seed);
	tsdb_flush(k.db);
	struct version *v = tsdb_version(k.db, NULL);
	for (size_t i = 0; i < v->n; i++)
		assert_int_equal(dict_unions_known(k.db->name_unions, v->p[i]), 0);
	version_unref(v);
	k.db->o.dictionary_bytes = 0;
	evict_due(k.db, 0);
	k.db->o.dictionary_bytes = 1 << 20;
	for (int i = 0; i < 4; i++) {
		struct source_part p = { .until_ms = INT64_MAX, .scale = 1 };
		struct source_view *view;
		struct source_series *s;
		struct stackvec *sum;
		struct err e;
		size_t n;
		assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &view, &e), 0);
		assert_int_equal(view->ops->select(view, NULL, 0, 0, INT64_MAX, NULL, &s, &n, &e), 0);
		p.ref = s[0].ref;
		const struct source_limits lim = { .max_bytes = returned }; /* what earlier queries have left is not this one's */
		assert_int_equal(view->ops->merge(view, &p, 1, 1, SYMBOLS_NAMES, &lim, &sum, &e), 0);
		returned = bytes_of(sum);
		stackvec_unref(sum);
		free(s);
		view->ops->release(view);
		tsdb_stats(k.db, &t);
		assert_int_equal(t.loaded, 0); /* no dictionary stays */
	}
	v = tsdb_version(k.db, NULL);
	for (size_t i = 0; i < v->n; i++)
		assert_true(dict_unions_known(k.db->name_unions, v->p[i]) > 0);
	version_unref(v);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names_are_whole_stacks), cmocka_unit_test(test_rollups), cmocka_unit_test(test_threads), cmocka_unit_test(test_many_groups), cmocka_unit_test(test_places) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
