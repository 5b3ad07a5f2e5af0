/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionary: what is one thing and what are two, the tree of stacks, whole profiles, translation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/vec.h"
#include "model/symbols.h"

static int setup(void **state)
{
	*state = symbols_new();
	return 0;
}

static int teardown(void **state)
{
	symbols_unref(*state);
	return 0;
}

static uint32_t str(struct symbols *s, const char *text)
{
	return symbols_string(s, view_of(text));
}

static void what_is_always_there(void **state)
{
	struct symbols *s = *state;
	size_t n;
	assert_int_equal(symbols_get_string(s, 0).len, 0);
	assert_int_equal(symbols_stack_node(s, 0), 0);
	assert_int_equal(symbols_stack(s, NULL, 0), 0);
	assert_int_equal(symbols_label_set(s, NULL, 0), 0);
	assert_int_equal(symbols_column(s, 0, 0), 0);
	symbols_get_label_set(s, 0, &n);
	assert_int_equal(n, 0);
	assert_int_equal(symbols_count(s, SYMBOLS_COLUMNS), 1);
	assert_int_equal(symbols_stack_locations(s, 0, NULL, 0), 0);
}

static void strings(void **state)
{
	struct symbols *s = *state;
	uint32_t id, a = str(s, "a");
	assert_int_equal(str(s, "a"), a);
	assert_int_not_equal(symbols_string(s, view_make("a\0b", 3)), a);
	assert_int_equal(symbols_get_string(s, symbols_string(s, view_make("a\0b", 3))).len, 3);
	uint32_t n = symbols_count(s, SYMBOLS_STRINGS);
	assert_false(symbols_find_string(s, VIEW("missing"), &id));
	assert_int_equal(symbols_count(s, SYMBOLS_STRINGS), n);
	assert_true(symbols_find_string(s, VIEW("a"), &id));
	assert_int_equal(id, a);
}

/* Entries keep their address while the table grows over many blocks. */
static void entries_do_not_move(void **state)
{
	struct symbols *s = *state;
	uint32_t first = str(s, "first");
	const char *at = symbols_get_string(s, first).ptr;
	struct sym_function f = { .name = first };
	const struct sym_function *entry = symbols_get_function(s, symbols_function(s, &f));
	for (int i = 0; i < 20000; i++) {
		char text[32];
		snprintf(text, sizeof text, "s%d", i);
		f.name = str(s, text);
		assert_int_equal(symbols_function(s, &f), i + 1);
	}
	assert_ptr_equal(symbols_get_string(s, first).ptr, at);
	assert_ptr_equal(symbols_get_function(s, 0), entry);
	for (int i = 0; i < 20000; i += 997) {
		char text[32];
		snprintf(text, sizeof text, "s%d", i);
		assert_true(view_eqs(symbols_get_string(s, symbols_get_function(s, (uint32_t)i + 1)->name), text));
	}
	assert_true(symbols_bytes(s) > 20000 * sizeof f);
}

static void mapping_identity(void **state)
{
	struct symbols *s = *state;
	struct sym_mapping m = { .start = 0x400000, .size = 0x1234, .offset = 0, .file = str(s, "/bin/a"), .build_id = str(s, "id") };
	uint32_t id = symbols_mapping(s, &m);
	struct sym_mapping x = m;
	x.start = 0x7f0000000000; /* another place */
	x.size = 0x1fff;          /* the same number of pages */
	x.file = str(s, "/bin/renamed");
	assert_int_equal(symbols_mapping(s, &x), id);
	assert_int_equal(symbols_get_mapping(s, id)->start, 0x400000);
	x.size = 0x2001;
	assert_int_not_equal(symbols_mapping(s, &x), id);
	x = m;
	x.offset = 0x1000;
	assert_int_not_equal(symbols_mapping(s, &x), id);
	x = m;
	x.build_id = str(s, "other");
	assert_int_not_equal(symbols_mapping(s, &x), id);
	x.build_id = 0; /* the file decides */
	uint32_t by_file = symbols_mapping(s, &x);
	assert_int_not_equal(by_file, id);
	x.file = str(s, "/bin/renamed");
	assert_int_not_equal(symbols_mapping(s, &x), by_file);
}

static void location_identity(void **state)
{
	struct symbols *s = *state;
	struct sym_line lines[2] = { { 1, 10, 3 }, { 2, 20, 4 } };
	struct sym_location l = { .address = 0x10, .mapping = 1, .n_lines = 2 };
	uint32_t id = symbols_location(s, &l, lines);
	l.first_line = 77; /* no part of it */
	assert_int_equal(symbols_location(s, &l, lines), id);
	struct sym_location x = l;
	struct sym_line other[2];
#define DIFFERS(change) do { x = l; memcpy(other, lines, sizeof lines); change; \
	assert_int_not_equal(symbols_location(s, &x, other), id); } while (0)
	DIFFERS(x.address++);
	DIFFERS(x.mapping = 0);
	DIFFERS(x.is_folded = true);
	DIFFERS(x.n_lines = 1);
	DIFFERS(x.n_lines = 0);
	DIFFERS(other[0].column = 9); /* google/pprof loses this one */
	DIFFERS(other[1].column = 9);
	DIFFERS(other[0].line = -10);
	DIFFERS(other[1].function = 0);
#undef DIFFERS
	const struct sym_location *got = symbols_get_location(s, id);
	assert_int_equal(symbols_get_line(s, got, 1)->line, 20);
	assert_int_equal(symbols_get_line(s, got, 0)->column, 3);
	struct sym_function f = { 1, 2, 3, 4 };
	id = symbols_function(s, &f);
	f.start_line = -4;
	assert_int_not_equal(symbols_function(s, &f), id);
}

static void stacks_are_a_tree(void **state)
{
	struct symbols *s = *state;
	for (uint64_t i = 0; i < 10; i++)
		symbols_location(s, &(struct sym_location){ .address = i }, NULL);
	/* leaf first: two stacks that share their root's side, one that ends inside, one the other way round */
	uint32_t abc[] = { 3, 2, 1 }, abd[] = { 4, 2, 1 }, ab[] = { 2, 1 }, ba[] = { 1, 2 };
	uint32_t x = symbols_stack(s, abc, 3);
	assert_int_equal(symbols_count(s, SYMBOLS_NODES), 4);
	uint32_t y = symbols_stack(s, abd, 3);
	assert_int_equal(symbols_count(s, SYMBOLS_NODES), 5);
	uint32_t z = symbols_stack(s, ab, 2);
	assert_int_equal(symbols_count(s, SYMBOLS_NODES), 5);
	assert_int_not_equal(symbols_stack(s, ba, 2), z);
	assert_int_equal(symbols_stack(s, abc, 3), x);
	assert_int_equal(symbols_get_node(s, symbols_stack_node(s, x))->parent, symbols_get_node(s, symbols_stack_node(s, y))->parent);
	assert_int_equal(symbols_get_node(s, symbols_stack_node(s, y))->parent, symbols_stack_node(s, z));
	for (uint32_t n = 1; n < symbols_count(s, SYMBOLS_NODES); n++)
		assert_true(symbols_get_node(s, n)->parent < n);
	uint32_t got[3] = { 9, 9, 9 };
	assert_int_equal(symbols_stack_locations(s, y, got, 2), 3);
	assert_int_equal(got[1], 2);
	assert_int_equal(got[2], 9); /* room for two */
	assert_int_equal(symbols_stack_at(s, symbols_stack_node(s, y)), y);
	assert_int_equal(symbols_stack_at(s, 0), 0);
	uint32_t root = symbols_node(s, 0, 1);
	assert_int_equal(symbols_stack_at(s, root), symbols_stack(s, (uint32_t[]){ 1 }, 1));
}

/* Children in any order, of nodes with none, one and many, interned or loaded before: each is there once. */
static void nodes_have_each_child_once(void **state)
{
	struct symbols *s = *state;
	enum { PARENTS = 40, CHILDREN = 30 };
	static uint32_t known[PARENTS][CHILDREN];
	uint64_t random = 3;
	for (uint32_t i = 0; i < PARENTS; i++)
		known[i][0] = (i % 2 ? symbols_load_node : symbols_node)(s, i, 0);
	for (int n = 0; n < 20000; n++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint32_t p = (uint32_t)(random >> 33) % PARENTS, c = (uint32_t)(random >> 40) % (1 + p % CHILDREN);
		uint32_t id = symbols_node(s, p, c);
		assert_true(id == known[p][c] || !known[p][c]);
		known[p][c] = id;
		assert_true(symbols_get_node(s, id)->parent == p && symbols_get_node(s, id)->location == c);
	}
}

/* Each length, and each with one place that differs, asked for until it is known in every way. */
static void stacks_that_differ_in_one_place(void **state)
{
	struct symbols *s = *state;
	enum { LONGEST = 9 };
	uint32_t ids[LONGEST + 1][LONGEST + 1], l[LONGEST];
	for (int round = 0; round < 3; round++)
		for (uint32_t n = 0; n <= LONGEST; n++)
			for (uint32_t place = 0; place <= n; place++) {
				for (uint32_t i = 0; i < n; i++)
					l[i] = i == place ? 77 : 0;
				uint32_t before = symbols_count(s, SYMBOLS_STACKS), id = symbols_stack(s, l, n);
				if (!round)
					ids[n][place] = id;
				assert_int_equal(id, ids[n][place]);
				/* the empty stack is there from the start */
				assert_int_equal(symbols_count(s, SYMBOLS_STACKS) - before, !round && n);
			}
}

static void deep_stacks(void **state)
{
	struct symbols *s = *state;
	enum { DEEP = 3000 };
	static uint32_t l[DEEP], got[DEEP];
	for (uint32_t i = 0; i < DEEP; i++)
		l[i] = i % 7;
	uint32_t id = symbols_stack(s, l, DEEP);
	assert_int_equal(symbols_stack_locations(s, id, got, DEEP), DEEP);
	assert_memory_equal(l, got, sizeof l);
	assert_int_equal(symbols_stack_at(s, symbols_stack_node(s, id)), id);
	assert_int_not_equal(symbols_stack(s, l, DEEP - 1), id);
}

static void label_sets(void **state)
{
	struct symbols *s = *state;
	struct sym_label a = { .key = str(s, "k"), .str = str(s, "v") };
	struct sym_label n = { .key = str(s, "k"), .is_num = true, .num = -5, .unit = str(s, "bytes") };
	struct sym_label ab[] = { a, n }, ba[] = { n, a }, aa[] = { a, a };
	uint32_t id = symbols_label_set(s, ab, 2);
	assert_int_not_equal(id, 0);
	assert_int_equal(symbols_label_set(s, ba, 2), id);
	uint32_t one = symbols_label_set(s, &a, 1);
	assert_int_not_equal(symbols_label_set(s, aa, 2), one);
	struct sym_label junk = a;
	junk.num = 77; /* says nothing in a string label */
	assert_int_equal(symbols_label_set(s, &junk, 1), one);
	struct sym_label zero = { .key = a.key, .is_num = true };
	uint32_t z = symbols_label_set(s, &zero, 1);
	assert_true(z != 0 && z != one);
	zero.unit = n.unit;
	assert_int_not_equal(symbols_label_set(s, &zero, 1), z);
	struct sym_label many[100], reversed[100];
	for (uint32_t i = 0; i < 100; i++)
		many[i] = reversed[99 - i] = (struct sym_label){ .key = i / 2, .is_num = i % 2, .num = i };
	assert_int_equal(symbols_label_set(s, many, 100), symbols_label_set(s, reversed, 100));
	size_t len;
	assert_true(symbols_get_label_set(s, id, &len)[0].key == a.key && len == 2);
}

static void columns(void **state)
{
	struct symbols *s = *state;
	struct sym_label a = { .key = str(s, "k"), .str = str(s, "v") };
	uint32_t set = symbols_label_set(s, &a, 1), stack = symbols_stack(s, (uint32_t[]){ 1, 2 }, 2);
	uint32_t plain = symbols_column(s, stack, 0), labelled = symbols_column(s, stack, set);
	assert_int_not_equal(plain, labelled);
	assert_int_equal(symbols_column(s, stack, 0), plain);
	assert_int_equal(symbols_column(s, stack, set), labelled);
	assert_int_not_equal(symbols_column(s, 0, set), labelled);
	assert_int_equal(symbols_get_column(s, labelled)->stack, stack);
	assert_int_equal(symbols_get_column(s, labelled)->label_set, set);
}

/* ---- whole profiles ---- */

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % below;
}

enum { LOCATIONS = 12, SAMPLES = 4200, DEPTH = 9 };

/* Stacks that often begin alike, that repeat, and that are each other's prefix. */
static void make_profile(struct profile *p)
{
	profile_init(p, 0);
	p->strings = arena_alloc(&p->arena, 4 * sizeof *p->strings);
	p->n_strings = 4;
	for (int i = 0; i < 4; i++)
		p->strings[i] = view_make("xyz", (size_t)i);
	p->sample_types = arena_calloc(&p->arena, 1, sizeof *p->sample_types);
	p->n_sample_types = 1;
	p->mappings = arena_calloc(&p->arena, 1, sizeof *p->mappings);
	p->mappings[p->n_mappings++] = (struct profile_mapping){ .start = 0x1000, .limit = 0x9000, .file_str = 1 };
	p->locations = arena_calloc(&p->arena, LOCATIONS, sizeof *p->locations);
	for (; p->n_locations < LOCATIONS; p->n_locations++)
		p->locations[p->n_locations] = (struct profile_location){ .mapping = p->n_locations % 2, .address = 0x1000 + p->n_locations / 3 };
	p->samples = arena_alloc(&p->arena, SAMPLES * sizeof *p->samples);
	p->stack = arena_alloc(&p->arena, SAMPLES * DEPTH * sizeof *p->stack);
	p->labels = arena_alloc(&p->arena, SAMPLES * 20 * sizeof *p->labels);
	p->values = arena_calloc(&p->arena, SAMPLES, sizeof *p->values);
	for (; p->n_samples < SAMPLES; p->n_samples++) {
		struct profile_sample x = { p->n_stack, pick(DEPTH), p->n_labels, pick(3) ? 0 : pick(20) };
		for (uint32_t i = 0; i < x.n_locations; i++)
			p->stack[p->n_stack++] = pick(4) ? i : pick(LOCATIONS);
		for (uint32_t i = 0; i < x.n_labels; i++)
			p->labels[p->n_labels++] = (struct profile_label){ .key_str = 1 + pick(2), .is_num = pick(2), .str = 3 };
		p->samples[p->n_samples] = x;
	}
}

/* One by one, as the header says it is. */
static uint32_t plain_column(struct symbols *s, const struct profile *p, uint32_t sample)
{
	const struct profile_sample *x = &p->samples[sample];
	uint32_t ids[DEPTH], n = 0;
	struct sym_label labels[20];
	for (uint32_t i = 0; i < x->n_locations; i++) {
		const struct profile_location *l = &p->locations[p->stack[x->first_location + i]];
		struct sym_location y = { .address = l->address };
		if (l->mapping) {
			const struct profile_mapping *m = &p->mappings[l->mapping - 1];
			struct sym_mapping z = { .start = m->start, .size = m->limit - m->start, .file = symbols_string(s, p->strings[m->file_str]) };
			y.mapping = symbols_mapping(s, &z) + 1;
			y.address -= m->start;
		}
		ids[n++] = symbols_location(s, &y, NULL);
	}
	for (uint32_t i = 0; i < x->n_labels; i++) {
		const struct profile_label *l = &p->labels[x->first_label + i];
		labels[i] = (struct sym_label){ .key = symbols_string(s, p->strings[l->key_str]), .is_num = l->is_num,
						.str = l->is_num ? 0 : symbols_string(s, p->strings[l->str]) };
	}
	return symbols_column(s, symbols_stack(s, ids, n), symbols_label_set(s, labels, x->n_labels));
}

static void whole_profiles(void **state)
{
	struct symbols *s = *state;
	static uint32_t out[SAMPLES], again[SAMPLES];
	struct err e;
	for (seed = 1; seed < 6; seed++) {
		uint64_t keep = seed;
		struct profile p;
		make_profile(&p);
		seed = keep;
		assert_int_equal(symbols_add_profile(s, &p, out, NULL, &e), 0);
		uint32_t nodes = symbols_count(s, SYMBOLS_NODES), stacks = symbols_count(s, SYMBOLS_STACKS);
		uint32_t n = symbols_count(s, SYMBOLS_COLUMNS);
		for (uint32_t i = 0; i < p.n_samples; i++)
			assert_int_equal(plain_column(s, &p, i), out[i]);
		assert_int_equal(symbols_add_profile(s, &p, again, NULL, &e), 0);
		assert_memory_equal(out, again, sizeof out);
		assert_int_equal(symbols_count(s, SYMBOLS_NODES), nodes);
		assert_int_equal(symbols_count(s, SYMBOLS_STACKS), stacks);
		assert_int_equal(symbols_count(s, SYMBOLS_COLUMNS), n);
		profile_release(&p);
	}
}

/* While a profile comes in, another one does, in its pauses: sometimes the same. */
struct other_writer {
	struct symbols *s;
	unsigned pauses;
};

static void write_meanwhile(void *arg)
{
	struct other_writer *w = arg;
	static uint32_t out[SAMPLES];
	uint64_t keep = seed;
	struct profile q;
	struct err e;
	seed = 100 + w->pauses++ % 7;
	make_profile(&q);
	assert_int_equal(symbols_add_profile(w->s, &q, out, NULL, &e), 0);
	profile_release(&q);
	seed = keep;
}

static void others_write_in_the_pauses(void **state)
{
	struct symbols *s = *state;
	struct other_writer w = { .s = s };
	const struct symbols_pause pause = { write_meanwhile, &w };
	static uint32_t out[SAMPLES], again[SAMPLES];
	struct err e;
	for (uint64_t i = 0; i < 12; i++) {
		struct profile p;
		uint32_t other;
		seed = 98 + i;
		make_profile(&p);
		struct symbols_room room = { SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX };
		assert_int_equal(i % 2 ? symbols_add_profile(s, &p, out, &pause, &e)
				       : symbols_fit_profile(s, &p, &room, out, &other, &pause, &e), 0);
		for (uint32_t k = 0; k < p.n_samples; k++)
			assert_int_equal(plain_column(s, &p, k), out[k]);
		assert_int_equal(symbols_add_profile(s, &p, again, NULL, &e), 0);
		assert_memory_equal(out, again, sizeof out);
		profile_release(&p);
	}
	assert_true(w.pauses > 0);
}

/* A program of which a release changed a little: names, lines and inlined calls at the same addresses. */
enum { PLACES = 300, FUNCTIONS = 40, NAMES = 25, RELEASES = 60 };

static uint64_t release;

/* The program's, or, now and then, the release's own. */
static uint32_t vary(uint32_t below)
{
	uint32_t usual = pick(below);
	release = release * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (release >> 40) % 12 ? usual : (uint32_t)(release >> 33) % below;
}

static void make_release(struct profile *p)
{
	static char text[200];
	memset(text, 'n', sizeof text);
	profile_init(p, 0);
	p->strings = arena_calloc(&p->arena, NAMES, sizeof *p->strings);
	for (p->n_strings = 1; p->n_strings < NAMES; p->n_strings++) {
		size_t n = 1 + pick(3) * 70 + pick(20); /* equal at both ends; one letter in between tells them apart */
		text[n / 2] = (char)('a' + vary(2));
		p->strings[p->n_strings] = (struct view){ arena_strndup(&p->arena, text, n), n };
		text[n / 2] = 'n';
	}
	p->sample_types = arena_calloc(&p->arena, 1, sizeof *p->sample_types);
	p->n_sample_types = 1;
	p->mappings = arena_calloc(&p->arena, 1, sizeof *p->mappings);
	p->mappings[p->n_mappings++] = (struct profile_mapping){ .start = 0x1000, .limit = 0x90000 };
	p->functions = arena_calloc(&p->arena, FUNCTIONS, sizeof *p->functions);
	for (; p->n_functions < FUNCTIONS; p->n_functions++)
		p->functions[p->n_functions] = (struct profile_function){ vary(NAMES), vary(NAMES), vary(NAMES), vary(2) };
	p->locations = arena_calloc(&p->arena, PLACES, sizeof *p->locations);
	p->lines = arena_calloc(&p->arena, PLACES * 40, sizeof *p->lines);
	p->samples = arena_calloc(&p->arena, PLACES, sizeof *p->samples);
	p->values = arena_calloc(&p->arena, PLACES, sizeof *p->values);
	p->stack = arena_calloc(&p->arena, PLACES, sizeof *p->stack);
	for (uint32_t i = 0; i < PLACES; i++) {
		seed = i; /* a location changes by itself */
		struct profile_location l = { .mapping = vary(4) != 0, .address = 0x1000 + i, .first_line = p->n_lines,
					      .n_lines = vary(20) ? vary(3) : vary(40), .is_folded = !vary(10) };
		for (uint32_t k = 0; k < l.n_lines; k++)
			p->lines[p->n_lines++] = (struct profile_line){ vary(8) ? 1 + (i + k) % FUNCTIONS : 0, vary(2), !vary(20) };
		p->locations[i] = l;
		p->stack[i] = i;
		p->samples[i] = (struct profile_sample){ .first_location = i, .n_locations = 1 };
	}
	p->n_locations = p->n_stack = p->n_samples = PLACES;
}

static uint32_t plain_place(struct symbols *s, const struct profile *p, uint32_t i)
{
	const struct profile_location *l = &p->locations[i];
	struct sym_location x = { .address = l->address, .n_lines = l->n_lines, .is_folded = l->is_folded };
	struct sym_line lines[40];
	if (l->mapping) {
		struct sym_mapping m = { .start = 0x1000, .size = 0x8f000 };
		x.mapping = symbols_mapping(s, &m) + 1;
		x.address -= m.start;
	}
	for (uint32_t k = 0; k < l->n_lines; k++) {
		const struct profile_line *y = &p->lines[l->first_line + k];
		lines[k] = (struct sym_line){ 0, y->line, y->column };
		if (!y->function)
			continue;
		const struct profile_function *f = &p->functions[y->function - 1];
		struct sym_function fn = { symbols_string(s, p->strings[f->name_str]), symbols_string(s, p->strings[f->system_name_str]),
					   symbols_string(s, p->strings[f->filename_str]), f->start_line };
		lines[k].function = symbols_function(s, &fn) + 1;
	}
	uint32_t id = symbols_location(s, &x, lines);
	return symbols_column(s, symbols_stack(s, &id, 1), 0);
}

static void releases_of_one_program(void **state)
{
	struct symbols *s = *state;
	static uint32_t out[PLACES], again[PLACES];
	struct err e;
	for (uint32_t i = 1; i <= RELEASES; i++) {
		struct profile p;
		seed = 1;
		release = i % 20;
		make_release(&p);
		assert_int_equal(symbols_add_profile(s, &p, out, NULL, &e), 0);
		uint32_t n = symbols_count(s, SYMBOLS_LOCATIONS);
		for (uint32_t k = 0; k < PLACES; k++)
			assert_int_equal(plain_place(s, &p, k), out[k]);
		assert_int_equal(symbols_count(s, SYMBOLS_LOCATIONS), n);
		assert_int_equal(symbols_add_profile(s, &p, again, NULL, &e), 0);
		assert_memory_equal(out, again, sizeof out);
		assert_int_equal(symbols_count(s, SYMBOLS_LOCATIONS), n);
		profile_release(&p);
	}
}

static void a_full_arena_is_an_error(void **state)
{
	struct profile p;
	struct err e;
	static uint32_t out[SAMPLES];
	seed = 1;
	make_profile(&p);
	p.arena.max = p.arena.used + 10;
	assert_int_equal(symbols_add_profile(*state, &p, out, NULL, &e), -ERR_LIMIT);
	profile_release(&p);
}

static void translation(void **state)
{
	struct symbols *s = *state, *to = symbols_new(), *back = symbols_new();
	struct profile p;
	struct err e;
	static uint32_t out[SAMPLES], direct[SAMPLES];
	str(to, "something else first");
	seed = 3;
	make_profile(&p);
	struct symbols_map *there = symbols_map_new(s, to, SYMBOLS_WHOLE), *home = symbols_map_new(to, back, SYMBOLS_WHOLE);
	assert_int_equal(symbols_map_column(there, 0), 0);
	assert_int_equal(symbols_add_profile(s, &p, out, NULL, &e), 0); /* `from` grows while the map lives */
	for (uint32_t i = 0; i < p.n_samples; i++)
		direct[i] = symbols_map_column(there, out[i]);
	for (uint32_t i = 0; i < p.n_samples; i++) {
		assert_int_equal(direct[i], plain_column(to, &p, i));
		assert_int_equal(symbols_map_column(home, direct[i]), plain_column(back, &p, i));
		uint32_t stack = symbols_get_column(s, out[i])->stack;
		assert_int_equal(symbols_map_stack(there, stack), symbols_get_column(to, direct[i])->stack);
	}
	symbols_map_free(there);
	symbols_map_free(home);
	symbols_unref(to);
	symbols_unref(back);
	profile_release(&p);
}

/* The tables of a dictionary as storage has them; strings and label sets are interned. */
static struct symbols *load_copy(const struct symbols *s)
{
	struct symbols *to = symbols_new();
	size_t n;
	for (uint32_t i = 0; i < symbols_count(s, SYMBOLS_STRINGS); i++)
		symbols_string(to, symbols_get_string(s, i));
	for (uint32_t i = 0; i < symbols_count(s, SYMBOLS_MAPPINGS); i++)
		symbols_load_mapping(to, symbols_get_mapping(s, i));
	for (uint32_t i = 0; i < symbols_count(s, SYMBOLS_FUNCTIONS); i++)
		symbols_load_function(to, symbols_get_function(s, i));
	for (uint32_t i = 0; i < symbols_count(s, SYMBOLS_LOCATIONS); i++) {
		const struct sym_location *l = symbols_get_location(s, i);
		struct sym_line lines[40];
		for (uint32_t k = 0; k < l->n_lines; k++)
			lines[k] = *symbols_get_line(s, l, k);
		assert_int_equal(symbols_load_location(to, l, lines), i);
	}
	for (uint32_t i = 1; i < symbols_count(s, SYMBOLS_NODES); i++)
		symbols_load_node(to, symbols_get_node(s, i)->parent, symbols_get_node(s, i)->location);
	for (uint32_t i = 1; i < symbols_count(s, SYMBOLS_STACKS); i++)
		assert_int_equal(symbols_load_stack(to, symbols_stack_node(s, i)), i);
	for (uint32_t i = 1; i < symbols_count(s, SYMBOLS_LABEL_SETS); i++) {
		const struct sym_label *l = symbols_get_label_set(s, i, &n);
		symbols_label_set(to, l, n);
	}
	for (uint32_t i = 1; i < symbols_count(s, SYMBOLS_COLUMNS); i++)
		symbols_load_column(to, symbols_get_column(s, i)->stack, symbols_get_column(s, i)->label_set);
	return to;
}

/* What was loaded is found by who adds next, whether it adds a profile (in whose pauses others write), what has room, or one thing. */
static void what_was_loaded_is_known(void **state)
{
	static uint32_t out[SAMPLES], other[SAMPLES];
	struct symbols *s = *state;
	struct err e;
	struct profile p[2];
	seed = 4;
	make_profile(&p[0]);
	release = 1;
	make_release(&p[1]);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(symbols_add_profile(s, &p[k], out, NULL, &e), 0);
		for (int way = 0; way < 4; way++) {
			struct symbols *to = load_copy(s);
			struct other_writer w = { .s = to, .pauses = 4 };
			const struct symbols_pause pause = { write_meanwhile, &w };
			struct symbols_room none = { 0 };
			uint32_t n_other = 0;
			if (way == 0)
				assert_int_equal(symbols_add_profile(to, &p[k], other, k ? NULL : &pause, &e), 0);
			else if (way == 1)
				assert_int_equal(symbols_fit_profile(to, &p[k], &none, other, &n_other, NULL, &e), 0);
			else if (way == 2)
				symbols_index(to, NULL);
			for (uint32_t i = 0; i < p[k].n_samples && way < 2; i++)
				assert_int_equal(other[i], out[i]);
			for (uint32_t i = 0; i < p[k].n_samples && way > 1 && !k; i++)
				assert_int_equal(plain_column(to, &p[k], i), out[i]);
			assert_int_equal(n_other, 0);
			for (enum symbols_table t = 0; t < SYMBOLS_TABLES && way; t++)
				assert_int_equal(symbols_count(to, t), symbols_count(s, t));
			symbols_unref(to);
		}
	}
	profile_release(&p[0]);
	profile_release(&p[1]);
}

/* An entry that holds the place of a lost one is found by nobody, in what order entries come. */
static void what_is_lost_is_not_found(void **state)
{
	struct symbols *s = *state;
	symbols_load_node(s, 0, 1);
	symbols_add_lost(s, SYMBOLS_NODES); /* as the child of the root with location 0 would be */
	symbols_load_node(s, 1, 2);
	symbols_load_stack(s, 1);
	symbols_add_lost(s, SYMBOLS_STACKS); /* as the empty one */
	symbols_load_stack(s, 3);
	symbols_load_column(s, 1, 0);
	symbols_add_lost(s, SYMBOLS_COLUMNS);
	symbols_load_column(s, 3, 0);
	assert_int_equal(symbols_node(s, 1, 2), 3);
	assert_int_equal(symbols_node(s, 0, 0), 4);
	assert_int_equal(symbols_stack_at(s, 0), 0);
	assert_int_equal(symbols_stack_at(s, 3), 3);
	assert_int_equal(symbols_stack(s, NULL, 0), 0);
	assert_int_equal(symbols_stack(s, (uint32_t[]){ 2, 1 }, 2), 3);
	assert_int_equal(symbols_stack_at(s, 4), symbols_stack(s, (uint32_t[]){ 0 }, 1));
	assert_int_equal(symbols_column(s, 0, 0), 0);
	assert_int_equal(symbols_column(s, 3, 0), 3);
	assert_int_equal(symbols_column(s, 2, 0), 4);
}

/* Who only reads pays for no index. */
static void a_loaded_dictionary_is_small(void **state)
{
	struct symbols *s = *state;
	for (uint32_t i = 0; i < 100000; i++)
		symbols_node(s, i, i % 9);
	struct symbols *to = load_copy(s);
	assert_in_range(symbols_bytes(to), 100000 * sizeof(struct sym_node), symbols_bytes(s) - 100000 * sizeof(uint64_t));
	symbols_node(to, 5, 5);
	assert_in_range(symbols_bytes(to), symbols_bytes(s), 2 * symbols_bytes(s));
	symbols_unref(to);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_always_there), TEST(strings), TEST(entries_do_not_move), TEST(mapping_identity),
		TEST(location_identity), TEST(stacks_are_a_tree), TEST(deep_stacks),
		TEST(nodes_have_each_child_once), TEST(stacks_that_differ_in_one_place), TEST(label_sets), TEST(columns),
		TEST(whole_profiles), TEST(others_write_in_the_pauses), TEST(releases_of_one_program), TEST(a_full_arena_is_an_error), TEST(translation),
		TEST(what_was_loaded_is_known), TEST(what_is_lost_is_not_found), TEST(a_loaded_dictionary_is_small),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
