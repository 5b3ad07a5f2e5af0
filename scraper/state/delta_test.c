/* SPDX-License-Identifier: Apache-2.0 */
/* Increases of cumulative profiles, and the schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "pprof/pprof.h"
#include "scraper/internal.h"
#include "scraper/testkit.h"

#define HEAP "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes"

/* n stacks of alloc_objects and alloc_space (inuse 0) after what d remembers; sums of the increases. */
static int step(struct delta *d, const int64_t *v, size_t n, int64_t sums[2])
{
	static const uint32_t columns[] = { 0, 1 };
	struct buf b = { 0 };
	struct err e = { 0 };
	struct profile p;
	int64_t *full = xcalloc(n, 4 * sizeof *full);
	for (size_t i = 0; i < n; i++) {
		full[4 * i] = v[2 * i];
		full[4 * i + 1] = v[2 * i + 1];
		full[4 * i + 2] = 1; /* or an all-zero sample would not be kept */
	}
	make_profile(&b, HEAP, "space/bytes", full, n, 1, 0);
	profile_init(&p, 0);
	assert_int_equal(pprof_decode(b.ptr, b.len, NULL, &p, &e), 0);
	int64_t *out = arena_calloc(&p.arena, (size_t)p.n_samples * 4 + 1, sizeof *out);
	int r = delta_apply(d, &p, columns, 2, out, &e);
	sums[0] = sums[1] = 0;
	for (uint32_t i = 0; i < p.n_samples; i++) {
		sums[0] += out[4 * i];
		sums[1] += out[4 * i + 1];
		assert_int_equal(out[4 * i + 2], 0); /* gauges are not touched */
	}
	profile_release(&p);
	buf_free(&b);
	free(full);
	return r;
}

static void increases(void **state)
{
	struct delta d = { 0 };
	int64_t s[2];
	assert_int_equal(step(&d, (int64_t[]){ 5, 50, 7, 70 }, 2, s), DELTA_BASELINE);
	assert_int_equal(s[0] + s[1], 0);
	assert_int_equal(step(&d, (int64_t[]){ 6, 60, 7, 70 }, 2, s), DELTA_INCREASE);
	assert_int_equal(s[0], 1);
	assert_int_equal(s[1], 10);
	/* A new stack counts from zero. */
	assert_int_equal(step(&d, (int64_t[]){ 6, 60, 7, 70, 3, 30 }, 3, s), DELTA_INCREASE);
	assert_int_equal(s[0], 3);
	/* Nothing happened: an increase of nothing. */
	assert_int_equal(step(&d, (int64_t[]){ 6, 60, 7, 70, 3, 30 }, 3, s), DELTA_INCREASE);
	assert_int_equal(s[0] + s[1], 0);
	/* One value fell, in one column: all columns begin anew. */
	assert_int_equal(step(&d, (int64_t[]){ 9, 90, 7, 69, 3, 30 }, 3, s), DELTA_RESET);
	assert_int_equal(s[0], 19);
	assert_int_equal(s[1], 189);
	/* A stack that vanished fell to 0. */
	assert_int_equal(step(&d, (int64_t[]){ 9, 90 }, 1, s), DELTA_RESET);
	assert_int_equal(s[0], 9);
	/* One of value 0 may vanish. */
	assert_int_equal(step(&d, (int64_t[]){ 9, 90, 0, 0 }, 2, s), DELTA_INCREASE);
	assert_int_equal(step(&d, (int64_t[]){ 10, 100 }, 1, s), DELTA_INCREASE);
	assert_int_equal(s[0], 1);
	assert_int_equal(s[1], 10);
	/* An empty profile after a full one is a reset, too. */
	assert_int_equal(step(&d, NULL, 0, s), DELTA_RESET);
	assert_true(delta_bytes(&d) < 1000);
	delta_release(&d);
	assert_int_equal(step(&d, (int64_t[]){ 1, 1 }, 1, s), DELTA_BASELINE);
	delta_release(&d);
}

/* n stacks of one frame, of one value each, at the given addresses: of function "f" where `named`, else without names.
 * out[i]: the increase of stack i. */
static int step_at(struct delta *d, bool named, const uint64_t *addresses, const int64_t *values, uint32_t n, int64_t *out)
{
	static struct view strings[] = { { "", 0 }, { "f", 1 }, { "f.c", 3 } };
	static struct profile_function function = { .name_str = 1, .filename_str = 2 };
	static struct profile_line line = { .function = 1, .line = 7 };
	static const uint32_t column = 0;
	struct profile_location locations[8] = { 0 };
	struct profile_sample samples[8] = { 0 };
	struct profile_value_type type = { 0 };
	uint32_t stack[8];
	struct err e = { 0 };
	struct profile p;
	profile_init(&p, 0);
	for (uint32_t i = 0; i < n; i++) {
		locations[i] = (struct profile_location){ .address = addresses[i], .n_lines = named };
		samples[i] = (struct profile_sample){ .first_location = i, .n_locations = 1 };
		stack[i] = i;
	}
	p.strings = strings, p.n_strings = ARRAY_LEN(strings);
	p.functions = &function, p.n_functions = 1;
	p.lines = &line, p.n_lines = 1;
	p.locations = locations, p.n_locations = n;
	p.stack = stack, p.n_stack = n;
	p.samples = samples, p.n_samples = n;
	p.sample_types = &type, p.n_sample_types = 1;
	p.values = (int64_t *)values;
	int r = delta_apply(d, &p, &column, 1, out, &e);
	profile_release(&p);
	return r;
}

/* A JIT compiles a function again: what it did before is at the old address, what it does now at a new one. */
static void named_stacks_move(void **state)
{
	struct delta d = { 0 };
	int64_t out[8];
	assert_int_equal(step_at(&d, true, (uint64_t[]){ 100, 200 }, (int64_t[]){ 50, 20 }, 2, out), DELTA_BASELINE);
	/* 50 of address 100 are gone, 90 of address 300 are there: 40 more of f, and 5 more at address 200. */
	assert_int_equal(step_at(&d, true, (uint64_t[]){ 200, 300 }, (int64_t[]){ 25, 90 }, 2, out), DELTA_INCREASE);
	assert_int_equal(out[0] + out[1], 45);
	assert_true(out[0] >= 0 && out[1] >= 0 && out[0] <= 5 && out[1] <= 90);
	/* Nothing moved: each its own. */
	assert_int_equal(step_at(&d, true, (uint64_t[]){ 200, 300 }, (int64_t[]){ 26, 92 }, 2, out), DELTA_INCREASE);
	assert_true(out[0] == 1 && out[1] == 2);
	/* All of f together fell: the program began anew. */
	assert_int_equal(step_at(&d, true, (uint64_t[]){ 400 }, (int64_t[]){ 117 }, 1, out), DELTA_RESET);
	assert_int_equal(out[0], 117);
	delta_release(&d);
	/* Without names an address is all there is. */
	assert_int_equal(step_at(&d, false, (uint64_t[]){ 100 }, (int64_t[]){ 50 }, 1, out), DELTA_BASELINE);
	assert_int_equal(step_at(&d, false, (uint64_t[]){ 300 }, (int64_t[]){ 90 }, 1, out), DELTA_RESET);
	assert_int_equal(out[0], 90);
	delta_release(&d);
	/* No sum overflows. */
	assert_int_equal(step_at(&d, true, (uint64_t[]){ 1, 2 }, (int64_t[]){ INT64_MAX, INT64_MIN }, 2, out), DELTA_BASELINE);
	assert_int_equal(step_at(&d, true, (uint64_t[]){ 1, 2 }, (int64_t[]){ INT64_MAX, INT64_MAX }, 2, out), DELTA_INCREASE);
	assert_true(out[0] == 0 && out[1] == INT64_MAX);
	delta_release(&d);
}

/* The corpus: ten heap profiles of one program, three seconds apart. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_profile(const struct dirent *d)
{
	return strstr(d->d_name, ".pb.gz") != NULL;
}

static const char *corpus_dir(char *out, size_t n)
{
	const char *given = getenv("PYRRHA_CORPUS"), *top = getenv("top_srcdir");
	if (given)
		snprintf(out, n, "%s/series", given);
	else
		snprintf(out, n, "%s/../shared/corpus/series", top ? top : ".");
	return out;
}

/* Feeds one file; sums of the increases by column. */
static int feed(struct delta *d, const char *path, const char *const *names, uint32_t n, int64_t *sums)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	struct profile p;
	uint32_t columns[4];
	profile_init(&p, 0);
	assert_int_equal(buf_read_file(&b, path, &e), 0);
	if (pprof_decode(b.ptr, b.len, NULL, &p, &e))
		fail_msg("%s: %s", path, e.msg);
	for (uint32_t i = 0; i < n; i++) {
		int at = profile_type_index(&p, view_of(names[i]));
		assert_true(at >= 0);
		columns[i] = (uint32_t)at;
	}
	int64_t *out = arena_calloc(&p.arena, (size_t)p.n_samples * p.n_sample_types + 1, sizeof *out);
	int r = delta_apply(d, &p, columns, n, out, &e);
	assert_true(r >= 0);
	for (uint32_t c = 0; c < n; c++) {
		sums[c] = 0;
		for (uint32_t i = 0; i < p.n_samples; i++)
			sums[c] += out[(size_t)i * p.n_sample_types + columns[c]];
	}
	profile_release(&p);
	buf_free(&b);
	return r;
}

static void real_series(void **state)
{
	static const char *const names[] = { "alloc_objects", "alloc_space" };
	char dir[512], path[1024];
	struct dirent **files = NULL;
	struct delta d = { 0 };
	int n = scandir(corpus_dir(dir, sizeof dir), &files, is_profile, by_name);
	if (n != 10) {
		print_message("%s is not there: skipped\n", dir);
		skip();
	}
	for (int i = 0; i < n; i++) {
		int64_t sums[2];
		snprintf(path, sizeof path, "%s/%s", dir, files[i]->d_name);
		int r = feed(&d, path, names, 2, sums);
		print_message("%s: %d, %lld objects, %lld bytes\n", files[i]->d_name, r, (long long)sums[0], (long long)sums[1]);
		assert_int_equal(r, i ? DELTA_INCREASE : DELTA_BASELINE);
		if (i == 8) { /* 17 stacks of value 0 vanish here */
			assert_int_equal(sums[0], 29280);
			assert_int_equal(sums[1], 97394002);
		}
		free(files[i]);
	}
	free(files);
	delta_release(&d);
}

static void a_baseline_keeps_within_the_budget(void **state)
{
	struct budget b = { .max = 62 << 10 };
	struct delta d = { .budget = &b }, other = { .budget = &b };
	struct err e = { 0 };
	const uint32_t columns[] = { 0 };
	int64_t values[600], out[600];
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		values[i] = (int64_t)i + 1;
	struct buf body = { 0 };
	struct profile p;
	profile_init(&p, 0);
	make_profile(&body, "alloc_space/bytes", "space/bytes", values, ARRAY_LEN(values), 0, 0);
	assert_int_equal(pprof_decode(body.ptr, body.len, NULL, &p, &e), 0);
	assert_int_equal(delta_apply(&d, &p, columns, 1, out, &e), DELTA_BASELINE);
	assert_int_equal(budget_used(&b), d.held);
	assert_true(d.held >= delta_bytes(&d) && d.held < 30 << 10);
	/* In place of itself it fits, although for a moment there are two; beside itself it does not. */
	assert_int_equal(delta_apply(&d, &p, columns, 1, out, &e), DELTA_INCREASE);
	assert_int_equal(budget_used(&b), d.held);
	assert_int_equal(delta_apply(&other, &p, columns, 1, out, &e), -ERR_UNAVAILABLE);
	assert_int_equal(budget_used(&b), d.held);
	delta_release(&d);
	assert_int_equal(budget_used(&b), 0);
	assert_int_equal(delta_apply(&other, &p, columns, 1, out, &e), DELTA_BASELINE);
	delta_release(&other);
	profile_release(&p);
	buf_free(&body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(increases),
		cmocka_unit_test(named_stacks_move),
		cmocka_unit_test(real_series),
		cmocka_unit_test(a_baseline_keeps_within_the_budget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
