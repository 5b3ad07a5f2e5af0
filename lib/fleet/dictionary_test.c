/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors from one server to another: they arrive as they are, names once, in whichever order answers come; either side may forget; and bytes of strangers
 * are refused. tests/fleet_columns_test.c has real profiles. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/vec.h"
#include "fleet/dictionary.h"

#define MAX_BYTES ((size_t)64 << 20)

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % below;
}

/* A column whose stack, of up to 20 frames, and label are picked from so many. */
static uint32_t made_column(struct symbols *s, uint32_t of)
{
	uint32_t locations[20], n = 1 + pick(20), about = pick(of);
	for (uint32_t i = 0; i < n; i++) {
		char name[40];
		snprintf(name, sizeof name, "main.(*Server).function%u", (about + i * 7) % of);
		uint32_t str = symbols_string(s, view_of(name));
		struct sym_line line = { symbols_function(s, &(struct sym_function){ .name = str, .system_name = str }) + 1, 10 + i, 0 };
		struct sym_mapping m = { .size = 4096 * (1 + about % 64), .file = symbols_string(s, VIEW("/bin/app")), .has = SYM_HAS_FUNCTIONS };
		struct sym_location l = { .address = (about + i) % of * 16, .mapping = symbols_mapping(s, &m) + 1, .n_lines = 1 };
		locations[i] = symbols_location(s, &l, &line);
	}
	struct sym_label label = { .key = symbols_string(s, VIEW("pid")), .is_num = true, .num = pick(3) };
	return symbols_column(s, symbols_stack(s, locations, n), symbols_label_set(s, &label, pick(2)));
}

static struct stackvec *made_vector(struct symbols *s, size_t n, uint32_t of, int64_t unit)
{
	struct stackacc *a = stackacc_new(s);
	struct err e;
	for (size_t i = 0; i < n; i++) {
		int64_t value = (int64_t)(1 + pick(900)) * (pick(9) ? 1 : -1);
		uint32_t column = made_column(s, of);
		if (unit)
			stackacc_add(a, column, value * unit);
		else
			stackacc_add_scaled(a, column, (double)value / 7);
	}
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	return v;
}

/* The same stacks with the same values. */
static void same(struct stackvec *a, struct stackvec *b)
{
	struct symbols *s = symbols_new();
	struct err e;
	struct stackvec *x = stackvec_rebase(a, s, &e), *y = stackvec_rebase(b, s, &e);
	assert_int_equal(a->is_float, b->is_float);
	assert_int_equal(x->n, y->n);
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < x->n; i++) {
		assert_int_equal(x->columns[i], y->columns[i]);
		assert_memory_equal(&x->ints[i], &y->ints[i], sizeof(int64_t)); /* or floats, bit by bit */
	}
	for (size_t i = 1; i < b->n; i++)
		assert_true(b->columns[i - 1] < b->columns[i]);
	stackvec_unref(x);
	stackvec_unref(y);
	symbols_unref(s);
}

static void put_all(struct fleet_dictionary_out *d, struct buf *out, struct stackvec *const *v, size_t n, enum symbols_detail detail,
		    const struct symbols_marks *has)
{
	struct err e = { 0 };
	int rc = fleet_dictionary_put(d, out, (const struct stackvec *const *)v, n, detail, has, &e);
	if (rc)
		print_message("%s\n", e.msg);
	assert_int_equal(rc, 0);
}

/* One answer; a copy of its very size, so that a sanitizer sees a read past its end. */
static struct view answer_of(struct fleet_dictionary_out *d, struct stackvec *const *v, size_t n, const struct symbols_marks *has)
{
	struct buf b = { 0 };
	put_all(d, &b, v, n, SYMBOLS_WHOLE, has);
	char *copy = malloc(b.len);
	memcpy(copy, b.ptr, b.len);
	struct view r = { copy, b.len };
	buf_free(&b);
	return r;
}

static int take(struct fleet_dictionary_in *d, uint64_t id, struct view answer, struct stackvec **ret, size_t n, struct err *e)
{
	struct cursor c = cursor_of(answer);
	int rc = fleet_dictionary_take(d, id, &c, ret, n, e);
	if (!rc)
		assert_ptr_equal(c.p, c.end);
	return rc;
}

static void take_same(struct fleet_dictionary_in *d, uint64_t id, struct view answer, struct stackvec *const *v, size_t n)
{
	struct stackvec *got[8];
	struct err e = { 0 };
	int rc = take(d, id, answer, got, n, &e);
	if (rc)
		print_message("%s\n", e.msg);
	assert_int_equal(rc, 0);
	for (size_t i = 0; i < n; i++) {
		same(v[i], got[i]);
		stackvec_unref(got[i]);
	}
}

static void unref_all(struct stackvec **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		stackvec_unref(v[i]);
}

/* Vectors of two dictionaries, integers and doubles, an empty one, values at the ends of their range. */
static void arrive_as_they_are(void **state)
{
	struct symbols *a = symbols_new(), *b = symbols_new();
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
	struct symbols_marks has;
	uint64_t id;
	for (int round = 0; round < 20; round++) {
		struct stackvec *v[6] = { made_vector(a, 500, 300, 1), made_vector(b, 300, 500, 10000000), made_vector(a, 100, 300, 0), stackvec_empty(b),
					  made_vector(a, 3, 300, 1), made_vector(b, 1, 300, 0) };
		v[4]->ints[0] = round % 2 ? INT64_MIN : INT64_MAX;
		v[5]->floats[0] = round % 2 ? -INFINITY : 1e-310;
		bool known = fleet_dictionary_in_marks(in, &id, &has);
		assert_int_equal(known, round > 0);
		assert_int_equal(id, round ? 7 : 0);
		struct view answer = answer_of(out, v, ARRAY_LEN(v), &has);
		take_same(in, 7, answer, v, ARRAY_LEN(v));
		free((char *)answer.ptr);
		unref_all(v, ARRAY_LEN(v));
	}
	/* a single INT64_MIN, whose magnitude no positive factor has, and zeros */
	for (int i = 0; i < 2; i++) {
		struct stackvec *v = made_vector(a, 1, 3, 1);
		v->ints[0] = i ? 0 : INT64_MIN;
		fleet_dictionary_in_marks(in, &id, &has);
		struct view answer = answer_of(out, &v, 1, &has);
		take_same(in, 7, answer, &v, 1);
		free((char *)answer.ptr);
		stackvec_unref(v);
	}
	assert_true(fleet_dictionary_in_bytes(in) > 10000 && fleet_dictionary_out_bytes(out) > 10000);
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
	symbols_unref(a);
	symbols_unref(b);
}

/* Two builds of a program have other addresses and the same names: with the detail of names their columns are one, and values are added up. */
static void columns_that_become_one(void **state)
{
	struct symbols *s = symbols_new(), *names = symbols_new();
	struct symbols_marks start;
	struct err e = { 0 };
	symbols_marks_start(&start);
	for (int i = 0; i < 3; i++) { /* integers, doubles, an overflow */
		struct fleet_dictionary_out *out = fleet_dictionary_out_new();
		struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
		struct buf b = { 0 };
		seed = 1;
		struct stackvec *v = made_vector(s, 400, 40, i == 1 ? 0 : 1), *want, *got;
		struct symbols *other = symbols_new();
		/* the same stacks, a frame's address elsewhere */
		struct stackacc *acc = stackacc_new(s);
		assert_int_equal(stackacc_add_vec(acc, v, 1, &e), 0);
		uint32_t str = symbols_string(s, VIEW("f"));
		struct sym_line line = { symbols_function(s, &(struct sym_function){ .name = str }) + 1, 1, 0 };
		for (uint64_t k = 0; k < 2; k++) {
			uint32_t l = symbols_location(s, &(struct sym_location){ .address = 1000 + k, .n_lines = 1 }, &line);
			uint32_t column = symbols_column(s, symbols_stack(s, &l, 1), 0);
			if (i == 1)
				stackacc_add_scaled(acc, column, 0.1 + (double)k);
			else
				stackacc_add(acc, column, i == 2 ? INT64_MAX : 5);
		}
		stackvec_unref(v);
		v = stackacc_finish(acc, &e);
		stackacc_free(acc);
		int rc = fleet_dictionary_put(out, &b, (const struct stackvec *const[]){ v }, 1, SYMBOLS_NAMES, &start, &e);
		if (i == 2) {
			assert_int_equal(rc, -ERR_EXECUTION);
			assert_int_equal(b.len, 0);
		} else {
			assert_int_equal(rc, 0);
			assert_int_equal(take(in, 3, buf_view(&b), &got, 1, &e), 0);
			acc = stackacc_new(names);
			struct symbols_map *map = symbols_map_new(s, names, SYMBOLS_NAMES);
			for (size_t k = 0; k < v->n; k++)
				if (v->is_float)
					stackacc_add_scaled(acc, symbols_map_column(map, v->columns[k]), v->floats[k]);
				else
					stackacc_add(acc, symbols_map_column(map, v->columns[k]), v->ints[k]);
			want = stackacc_finish(acc, &e);
			assert_true(want->n < v->n);
			same(want, got);
			stackacc_free(acc);
			symbols_map_free(map);
			stackvec_unref(want);
			stackvec_unref(got);
		}
		stackvec_unref(v);
		symbols_unref(other);
		buf_free(&b);
		fleet_dictionary_in_free(in);
		fleet_dictionary_out_free(out);
	}
	symbols_unref(s);
	symbols_unref(names);
}

/* More dictionaries than maps are kept of, each again and again. */
static void many_dictionaries(void **state)
{
	enum { MANY = 50 };
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
	struct symbols_marks has;
	uint64_t id;
	size_t first = 0, bytes = 0;
	for (int round = 0; round < 3; round++) {
		bytes = fleet_dictionary_out_bytes(out);
		for (uint64_t i = 0; i < MANY; i++) {
			struct symbols *s = symbols_new();
			seed = i;
			struct stackvec *v = made_vector(s, 50, 60, 1);
			fleet_dictionary_in_marks(in, &id, &has);
			struct view answer = answer_of(out, &v, 1, &has);
			take_same(in, 9, answer, &v, 1);
			first += round == 0 ? answer.len : 0;
			assert_true(!round || answer.len < 50 * 8);
			free((char *)answer.ptr);
			stackvec_unref(v);
			symbols_unref(s);
		}
	}
	assert_true(first > MANY * 50 * 8 / 2);
	assert_true(fleet_dictionary_out_bytes(out) < bytes + bytes / 10); /* maps of long ago are dropped */
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
}

static void new_rows_alone(void **state)
{
	struct symbols *s = symbols_new();
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
	struct symbols_marks has;
	uint64_t id;
	struct stackvec *v[2] = { made_vector(s, 2000, 800, 1), NULL };
	fleet_dictionary_in_marks(in, &id, &has);
	struct view first = answer_of(out, v, 1, &has);
	take_same(in, 5, first, v, 1);
	fleet_dictionary_in_marks(in, &id, &has);
	struct view again = answer_of(out, v, 1, &has);
	take_same(in, 5, again, v, 1);
	assert_int_equal(again.ptr[0], 0); /* not a row */
	assert_true(first.len > 5 * again.len);
	assert_true(again.len < v[0]->n * 4);
	/* one more stack */
	struct stackacc *a = stackacc_new(s);
	struct err e;
	uint32_t l = symbols_location(s, &(struct sym_location){ .address = 99 }, NULL);
	stackacc_add(a, symbols_column(s, symbols_stack(s, &l, 1), 0), 1);
	assert_int_equal(stackacc_add_vec(a, v[0], 1, &e), 0);
	v[1] = stackacc_finish(a, &e);
	struct view more = answer_of(out, v + 1, 1, &has);
	take_same(in, 5, more, v + 1, 1);
	assert_true(more.len < again.len + 60);
	stackacc_free(a);
	unref_all(v, 2);
	free((char *)first.ptr);
	free((char *)again.ptr);
	free((char *)more.ptr);
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
	symbols_unref(s);
}

/* Answers to questions that were asked at once, with the same marks or later ones, come in any order. */
static void any_order(void **state)
{
	enum { ANSWERS = 5 };
	for (int run = 0; run < 60; run++) {
		struct symbols *s = symbols_new();
		struct fleet_dictionary_out *out = fleet_dictionary_out_new();
		struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
		struct symbols_marks has;
		uint64_t id;
		struct stackvec *v[ANSWERS];
		struct view answers[ANSWERS];
		uint8_t order[ANSWERS];
		if (run % 2) { /* a first answer is there */
			struct stackvec *x = made_vector(s, 30, 60, 1);
			fleet_dictionary_in_marks(in, &id, &has);
			struct view answer = answer_of(out, &x, 1, &has);
			take_same(in, 2, answer, &x, 1);
			free((char *)answer.ptr);
			stackvec_unref(x);
		}
		fleet_dictionary_in_marks(in, &id, &has);
		for (uint8_t i = 0; i < ANSWERS; i++) {
			v[i] = made_vector(s, 30, 60, 1);
			answers[i] = answer_of(out, &v[i], 1, &has);
			uint8_t k = (uint8_t)pick(i + 1u);
			order[i] = order[k];
			order[k] = i;
		}
		for (int i = 0; i < ANSWERS; i++) {
			take_same(in, 2, answers[order[i]], &v[order[i]], 1);
			free((char *)answers[order[i]].ptr);
		}
		unref_all(v, ANSWERS);
		fleet_dictionary_in_free(in);
		fleet_dictionary_out_free(out);
		symbols_unref(s);
	}
}

/* The server forgot: a new session, whose answers have all rows. An answer of the old one that was overtaken still fits. Vectors of then stay. */
static void server_forgets(void **state)
{
	struct symbols *s = symbols_new();
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
	struct symbols_marks has;
	struct err e;
	uint64_t id;
	struct stackvec *v = made_vector(s, 200, 90, 1), *more = made_vector(s, 300, 200, 1), *old;
	fleet_dictionary_in_marks(in, &id, &has);
	struct view first = answer_of(out, &v, 1, &has);
	assert_int_equal(take(in, 1, first, &old, 1, &e), 0);
	fleet_dictionary_in_marks(in, &id, &has);
	struct view overtaken = answer_of(out, &more, 1, &has);
	fleet_dictionary_out_free(out);
	out = fleet_dictionary_out_new();
	symbols_marks_start(&has);
	struct view fresh = answer_of(out, &more, 1, &has);
	take_same(in, 2, fresh, &more, 1);
	assert_true(fleet_dictionary_in_marks(in, &id, &has));
	assert_int_equal(id, 2);
	take_same(in, 1, overtaken, &more, 1);
	assert_true(fleet_dictionary_in_marks(in, &id, &has));
	assert_int_equal(id, 2);
	same(v, old);
	stackvec_unref(old);
	stackvec_unref(v);
	stackvec_unref(more);
	free((char *)first.ptr);
	free((char *)overtaken.ptr);
	free((char *)fresh.ptr);
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
	symbols_unref(s);
}

/* The asker forgot: an answer that builds on what it had is an error, which does no harm to the mirror that it has by then. */
static void asker_forgets(void **state)
{
	struct symbols *s = symbols_new();
	struct fleet_dictionary_out *out = fleet_dictionary_out_new(), *later = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
	struct symbols_marks has, start;
	struct err e;
	uint64_t id;
	struct stackvec *v = made_vector(s, 200, 90, 1), *more = made_vector(s, 300, 200, 1), *got;
	symbols_marks_start(&start);
	struct view first = answer_of(out, &v, 1, &start), fresh = answer_of(later, &v, 1, &start);
	take_same(in, 1, first, &v, 1);
	fleet_dictionary_in_marks(in, &id, &has);
	const struct symbols_marks has_all = has;
	struct view builds_on = answer_of(out, &more, 1, &has);
	fleet_dictionary_in_free(in);
	in = fleet_dictionary_in_new(MAX_BYTES);
	assert_false(fleet_dictionary_in_marks(in, &id, &has));
	assert_true(symbols_marks_eq(&has, &start));
	assert_int_equal(fleet_dictionary_in_bytes(in), 0);
	assert_int_equal(take(in, 1, builds_on, &got, 1, &e), -ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "begin at entry"));
	assert_null(got);
	assert_false(fleet_dictionary_in_marks(in, &id, &has));
	take_same(in, 2, fresh, &v, 1);
	take_same(in, 3, first, &v, 1);
	struct view on_second = answer_of(later, &more, 1, &has_all);
	assert_int_equal(take(in, 1, builds_on, &got, 1, &e), -ERR_CORRUPT);
	assert_true(fleet_dictionary_in_marks(in, &id, &has));
	assert_int_equal(id, 3);
	take_same(in, 2, on_second, &more, 1); /* a late answer of a forgotten one drops none */
	free((char *)on_second.ptr);
	stackvec_unref(v);
	stackvec_unref(more);
	free((char *)first.ptr);
	free((char *)fresh.ptr);
	free((char *)builds_on.ptr);
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
	fleet_dictionary_out_free(later);
	symbols_unref(s);
}

static void bounds(void **state)
{
	struct symbols *s = symbols_new();
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *small = fleet_dictionary_in_new(100000), *large = fleet_dictionary_in_new(MAX_BYTES);
	struct symbols_marks start, has;
	struct buf b = { .max = 3000 };
	struct err e;
	uint64_t id;
	struct stackvec *v = made_vector(s, 2000, 500, 1), *got;
	symbols_marks_start(&start);
	struct view answer = answer_of(out, &v, 1, &start);
	assert_int_equal(take(small, 1, answer, &got, 1, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "100000 bytes"));
	assert_int_equal(fleet_dictionary_in_bytes(small), 0);
	take_same(large, 1, answer, &v, 1);
	size_t bytes = fleet_dictionary_in_bytes(large);
	fleet_dictionary_in_free(large);
	large = fleet_dictionary_in_new(bytes * 3 / 2);
	for (uint64_t i = 1; i < 5; i++) { /* there is no room for two */
		take_same(large, i, answer, &v, 1);
		assert_int_equal(fleet_dictionary_in_bytes(large), bytes);
	}
	fleet_dictionary_in_free(large);
	large = fleet_dictionary_in_new(bytes * 5 / 4); /* so full that another one is begun */
	take_same(large, 1, answer, &v, 1);
	assert_false(fleet_dictionary_in_marks(large, &id, &has));
	assert_true(symbols_marks_eq(&has, &start) && !id);
	/* an answer that is too large */
	assert_int_equal(fleet_dictionary_put(out, &b, (const struct stackvec *const[]){ v }, 1, SYMBOLS_WHOLE, &start, &e), -ERR_LIMIT);
	assert_int_equal(b.len, 0);
	buf_free(&b);
	stackvec_unref(v);
	free((char *)answer.ptr);
	fleet_dictionary_in_free(small);
	fleet_dictionary_in_free(large);
	fleet_dictionary_out_free(out);
	symbols_unref(s);
}

enum { THREADS = 4, TURNS = 40 };
struct together {
	struct fleet_dictionary_out *out;
	struct fleet_dictionary_in *in;
	struct stackvec *v[THREADS];
};
struct one_of_them {
	struct together *all;
	int number;
};

/* A connection: asks, and looks at what it got while others write. */
static void *ask_and_look(void *arg)
{
	struct one_of_them *me = arg;
	for (int i = 0; i < TURNS; i++) {
		struct stackvec *v = me->all->v[(me->number + i) % THREADS], *got;
		struct symbols_marks has;
		struct buf b = { 0 };
		struct err e;
		uint64_t id;
		fleet_dictionary_in_marks(me->all->in, &id, &has);
		put_all(me->all->out, &b, &v, 1, SYMBOLS_WHOLE, &has);
		struct cursor c = cursor_of(buf_view(&b));
		assert_int_equal(fleet_dictionary_take(me->all->in, 1, &c, &got, 1, &e), 0);
		same(v, got);
		stackvec_unref(got);
		buf_free(&b);
	}
	return NULL;
}

static void many_threads(void **state)
{
	struct together all = { .out = fleet_dictionary_out_new(), .in = fleet_dictionary_in_new(MAX_BYTES) };
	struct one_of_them them[THREADS];
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++) {
		struct symbols *s = symbols_new();
		all.v[i] = made_vector(s, 200, 300, 1);
		symbols_unref(s);
		them[i] = (struct one_of_them){ &all, i };
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_and_look, &them[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	unref_all(all.v, THREADS);
	fleet_dictionary_in_free(all.in);
	fleet_dictionary_out_free(all.out);
}

static void check_taken(const struct stackvec *v)
{
	for (size_t i = 0; i < v->n; i++) {
		assert_true(v->columns[i] < symbols_count(v->symbols, SYMBOLS_COLUMNS) && (!i || v->columns[i - 1] < v->columns[i]));
		symbols_stack_locations(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack, NULL, 0);
	}
}

/* Each length, and each bit changed: an error after which the mirror is forgotten, or a vector of what is there. */
static void hostile_bytes(void **state)
{
	struct symbols *s = symbols_new();
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct symbols_marks start, has;
	struct err e;
	uint64_t id;
	struct stackvec *v[2] = { made_vector(s, 6, 9, 1000), made_vector(s, 6, 9, 0) }, *got[2];
	symbols_marks_start(&start);
	struct view answer = answer_of(out, v, 2, &start);
	for (size_t i = 0; i < answer.len * 18; i++) {
		struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
		size_t at = i / 18, bit = i % 9, len = bit ? answer.len : at;
		if (i % 18 >= 9) /* there is a mirror */
			take_same(in, 1, answer, v, 2);
		char *copy = malloc(len + !len);
		memcpy(copy, answer.ptr, len);
		if (bit)
			copy[at] ^= (char)(1 << (bit - 1));
		struct cursor c = cursor_of(view_make(copy, len));
		int rc = fleet_dictionary_take(in, 1, &c, got, 2, &e);
		if (rc) {
			assert_true(rc == -ERR_CORRUPT || rc == -ERR_LIMIT);
			assert_true(e.msg[0] && !got[0] && !got[1]);
			assert_false(fleet_dictionary_in_marks(in, &id, &has));
		} else {
			check_taken(got[0]);
			check_taken(got[1]);
			unref_all(got, 2);
		}
		assert_true(rc || bit); /* none that is cut is taken */
		free(copy);
		fleet_dictionary_in_free(in);
	}
	unref_all(v, 2);
	free((char *)answer.ptr);
	fleet_dictionary_out_free(out);
	symbols_unref(s);
}

/* Vectors that refer to what is not there, repeat a column, or say more than they have, each with the words of its error. */
static void lies(void **state)
{
	static const struct { const char *words, *bytes; size_t n; } cases[] = {
		{ "not in the dictionary", "\0\0\1\1\1\2", 6 },
		{ "not in the dictionary", "\0\0\1\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\2", 15 },
		{ "more columns", "\0\0\2\1\0\0\2\2", 8 },
		{ "more columns", "\0\0\1\1\0", 5 },
		{ "more columns", "\0\1\1\0\1\1\1\1\1\1\1", 11 },
		{ "more columns", "\0\0\xff\xff\xff\xff\xf\1\0\0", 10 },
		{ "head", "\0\2\1\1\0\2", 6 },
		{ "head", "\0\0\1", 3 },
		{ "not fit", "\0\0\1\0\0\2", 6 },
		{ "not fit", "\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff\x7f\0\4", 14 },
		{ "cut short", "\0\0\1\1\0\x80", 6 },
		{ "cut short", "\5\1\0", 3 },
		{ "malformed", "\1\1\0\0", 4 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
		struct stackvec *got;
		struct err e = { 0 };
		assert_int_equal(take(in, 1, view_make(cases[i].bytes, cases[i].n), &got, 1, &e), -ERR_CORRUPT);
		if (!strstr(e.msg, cases[i].words))
			print_message("case %zu: %s\n", i, e.msg);
		assert_non_null(strstr(e.msg, cases[i].words));
		assert_int_equal(take(in, 0, VIEW("\0\0\0\1"), &got, 1, &e), -ERR_CORRUPT); /* no id */
		fleet_dictionary_in_free(in);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrive_as_they_are), cmocka_unit_test(columns_that_become_one), cmocka_unit_test(many_dictionaries),
		cmocka_unit_test(new_rows_alone), cmocka_unit_test(any_order), cmocka_unit_test(server_forgets), cmocka_unit_test(asker_forgets),
		cmocka_unit_test(bounds), cmocka_unit_test(many_threads), cmocka_unit_test(hostile_bytes), cmocka_unit_test(lies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
