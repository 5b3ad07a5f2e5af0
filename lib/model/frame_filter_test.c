/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/frame_filter.h"

static uint32_t str(struct symbols *s, const char *text)
{
	return symbols_string(s, view_of(text));
}

static uint32_t mapping(struct symbols *s, const char *path)
{
	return symbols_mapping(s, &(struct sym_mapping){ .start = 0x400000, .size = 0x1000, .file = str(s, path) });
}

static uint32_t function(struct symbols *s, const char *name, const char *file)
{
	return symbols_function(s, &(struct sym_function){ .name = str(s, name), .filename = str(s, file) });
}

enum { INLINED, NAMELESS, NO_FUNCTION, BARE, NO_BINARY, LOCATIONS };

/* What the table is about, by LOCATIONS. */
struct world {
	struct symbols *s;
	uint32_t location[LOCATIONS];
};

static int setup(void **state)
{
	struct world *w = NEW(struct world);
	struct symbols *s = w->s = symbols_new();
	uint32_t app = mapping(s, "/usr/bin/app") + 1;
	const struct sym_line inlined[] = { { .function = function(s, "leaf", "/src/lib/leaf.c") + 1, .line = 7 },
					    { .function = function(s, "main.run", "main.go") + 1, .line = -2 } };
	const struct sym_line nameless = { .function = function(s, "", "/src/gone.c") + 1, .line = 3 }, unknown = { .line = 12 };
	w->location[INLINED] = symbols_location(s, &(struct sym_location){ .address = 0x10, .mapping = app, .n_lines = 2 }, inlined);
	w->location[NAMELESS] = symbols_location(s, &(struct sym_location){ .address = 0x20, .mapping = app, .n_lines = 1 }, &nameless);
	w->location[NO_FUNCTION] = symbols_location(s, &(struct sym_location){ .address = 0x30, .mapping = app, .n_lines = 1 }, &unknown);
	w->location[BARE] = symbols_location(s, &(struct sym_location){ .address = 0x40, .mapping = app }, NULL);
	w->location[NO_BINARY] = symbols_location(s, &(struct sym_location){ .address = 0x50 }, NULL);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	symbols_unref(w->s);
	free(w);
	return 0;
}

#define M(op, key, value) { MATCH_##op, { key, sizeof(key) - 1 }, { value, sizeof(value) - 1 }, NULL }

/* frames: of the filter, by location and line: leaf, main.run, the nameless one, the one without a function, the bare one, the one without a binary. */
enum { FRAMES = 6 };
static const struct {
	struct matcher m[3];
	const char *any;
	const char *frames;
} cases[] = {
	{ { { MATCH_EQ, { NULL, 0 }, { NULL, 0 }, NULL } }, NULL, "111111" }, /* no matcher refuses */
	{ { M(EQ, "function", "leaf") }, NULL, "100000" },
	{ { M(NE, "function", "leaf") }, NULL, "011111" },
	{ { M(RE, "function", "lea|main.*") }, NULL, "010000" }, /* anchored */
	{ { M(NRE, "function", "main.*") }, NULL, "101111" },
	/* without a name: the address */
	{ { M(EQ, "function", "app+0x20") }, NULL, "001000" },
	{ { M(EQ, "function", "app+0x30") }, NULL, "000100" },
	{ { M(RE, "function", "app.*") }, NULL, "001110" },
	{ { M(EQ, "function", "0x50") }, NULL, "000001" },
	{ { M(EQ, "function", "") }, NULL, "000000" },
	/* the whole path, or its last part */
	{ { M(EQ, "binary", "/usr/bin/app") }, NULL, "111110" },
	{ { M(EQ, "binary", "app") }, NULL, "111110" },
	{ { M(EQ, "binary", "bin/app") }, NULL, "000000" },
	{ { M(NE, "binary", "app") }, NULL, "000001" },
	{ { M(NE, "binary", "/usr/bin/app") }, NULL, "000001" },
	{ { M(NE, "binary", "other") }, NULL, "111111" },
	{ { M(RE, "binary", "/usr/.*") }, NULL, "111110" },
	{ { M(NRE, "binary", "a.*") }, NULL, "000001" },
	{ { M(EQ, "binary", "") }, NULL, "000001" },
	{ { M(EQ, "file", "leaf.c") }, NULL, "100000" },
	{ { M(EQ, "file", "/src/lib/leaf.c") }, NULL, "100000" },
	{ { M(NE, "file", "leaf.c") }, NULL, "011111" },
	{ { M(NRE, "file", ".*[.]c") }, NULL, "010111" },
	{ { M(EQ, "file", "") }, NULL, "000111" },
	{ { M(EQ, "line", "7") }, NULL, "100000" },
	{ { M(EQ, "line", "-2") }, NULL, "010000" },
	{ { M(EQ, "line", "12") }, NULL, "000100" },
	{ { M(EQ, "line", "0") }, NULL, "000011" },
	/* all of them, and each string under its own key */
	{ { M(EQ, "binary", "app"), M(RE, "function", "leaf|main.run"), M(NE, "function", "leaf") }, NULL, "010000" },
	{ { M(RE, "file", ".*[.]c"), M(EQ, "line", "3") }, NULL, "001000" },
	{ { M(EQ, "file", "main.go"), M(EQ, "function", "main.go") }, NULL, "000000" },
	{ { M(RE, "function", ".*"), M(RE, "binary", "nothing") }, NULL, "000000" },
	/* any other key is the function's */
	{ { M(EQ, "other", "leaf") }, NULL, "100000" },
	/* pprof's expression, which decides alone: not on addresses */
	{ { M(EQ, "function", "leaf") }, "main", "010000" },
	{ { M(EQ, "line", "7") }, "gone", "001000" },
	{ { M(EQ, "line", "7") }, "^/usr", "111110" },
	{ { M(EQ, "line", "7") }, "0x", "000000" },
	{ { M(EQ, "line", "7") }, "leaf[.]c$", "100000" },
	{ { M(EQ, "line", "7") }, "^$", "001000" }, /* an empty name; a binary that is not there is not evaluated */
};

static void check_case(struct world *w, size_t c)
{
	static const struct { int location; uint32_t line; } at[FRAMES] = { { INLINED, 0 }, { INLINED, 1 }, { NAMELESS, 0 }, { NO_FUNCTION, 0 }, { BARE, 0 }, { NO_BINARY, 0 } };
	struct matcher m[3];
	struct regex *any = NULL;
	struct frame_filter_run r;
	struct err e;
	size_t n = 0;
	for (; n < 3 && cases[c].m[n].name.len; n++)
		assert_int_equal(matcher_init(&m[n], cases[c].m[n].op, cases[c].m[n].name, cases[c].m[n].value, &e), 0);
	if (cases[c].any)
		assert_int_equal(regex_new(&any, view_of(cases[c].any), false, &e), 0);
	const struct source_frame_filter f = { .m = m, .n = n, .any = any };
	frame_filter_run_init(&r, &f, w->s, NULL);
	for (int i = 0; i < 3 * FRAMES; i++) { /* first not kept, then evaluated, then remembered */
		const struct sym_location *l = symbols_get_location(w->s, w->location[at[i % FRAMES].location]);
		uint32_t line = at[i % FRAMES].line;
		int rc = i < FRAMES ? frame_filter_match(&f, w->s, l, line, NULL, &e) : frame_filter_run_match(&r, l, line, &e);
		if (rc != cases[c].frames[i % FRAMES] - '0')
			fail_msg("case %zu: frame %d, round %d: %d", c, i % FRAMES, i / FRAMES, rc);
	}
	frame_filter_run_release(&r);
	regex_unref(any);
	while (n)
		matcher_release(&m[--n]);
}

static void test_cases(void **state)
{
	for (size_t c = 0; c < ARRAY_LEN(cases); c++)
		check_case(*state, c);
}

/* A string of the dictionary is evaluated once per key, however many frames have it. */
static void test_once_per_string(void **state)
{
	enum { MANY = 2000 };
	struct world *w = *state;
	struct regex_meter meter = { .max_ns = 1000000000, .max_name = "1 s of a test" };
	struct matcher m[2];
	struct frame_filter_run r;
	struct err e;
	char path[60001];
	memset(path, 'a', sizeof path - 1);
	path[0] = '/';
	path[sizeof path - 1] = 0;
	const struct source_frame_filter f = { .m = m, .n = 2 };
	assert_int_equal(matcher_init(&m[0], MATCH_RE, VIEW("binary"), VIEW("(?:.*b|.*c|.*d|.*e|.*f|.*a).*"), &e), 0);
	assert_int_equal(matcher_init(&m[1], MATCH_RE, VIEW("file"), VIEW("(?:.*b|.*c|.*d|.*e|.*f|.*a).*"), &e), 0);
	frame_filter_run_init(&r, &f, w->s, &meter);
	const uint32_t binary = mapping(w->s, path) + 1; /* after init: the dictionary grew */
	for (uint32_t i = 0; i < MANY; i++) {
		char name[16];
		snprintf(name, sizeof name, "f%u", i);
		const struct sym_line line = { .function = function(w->s, name, path) + 1 };
		uint32_t id = symbols_location(w->s, &(struct sym_location){ .address = i, .mapping = binary, .n_lines = 1 }, &line);
		int rc = frame_filter_run_match(&r, symbols_get_location(w->s, id), 0, &e);
		if (rc < 0)
			fail_msg("%s", e.msg);
		assert_int_equal(rc, 1);
	}
	frame_filter_run_release(&r);
	matcher_release(&m[0]);
	matcher_release(&m[1]);
}

/* An expression that takes too long is an error of each frame that has the string, and no answer; other frames have theirs. */
static void test_errors(void **state)
{
	struct world *w = *state;
	struct matcher m;
	struct frame_filter_run r;
	struct err e;
	const struct sym_line slow = { .function = function(w->s, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", "") + 1 };
	uint32_t id = symbols_location(w->s, &(struct sym_location){ .address = 1, .n_lines = 1 }, &slow);
	const struct source_frame_filter f = { .m = &m, .n = 1 };
	assert_int_equal(matcher_init(&m, MATCH_NRE, VIEW("function"), VIEW("(?:a?){30}a{30}[bq]"), &e), 0);
	frame_filter_run_init(&r, &f, w->s, NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(frame_filter_run_match(&r, symbols_get_location(w->s, id), 0, &e), -ERR_LIMIT);
		assert_int_equal(frame_filter_match(&f, w->s, symbols_get_location(w->s, id), 0, NULL, &e), -ERR_LIMIT);
		assert_int_equal(frame_filter_run_match(&r, symbols_get_location(w->s, w->location[INLINED]), 0, &e), 1);
	}
	frame_filter_run_release(&r);
	matcher_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cases, setup, teardown),
		cmocka_unit_test_setup_teardown(test_once_per_string, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
