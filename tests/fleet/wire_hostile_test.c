/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are no questions or answers: cut short, changed, of another version, or made up with a hash that is right. They are refused with a
 * text, or harmless. FLEET_SEEDS=DIRECTORY: also writes the seeds of the fuzz targets there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/fleet/wirekit.h"

#define ROUNDS 20
#define HASH 8 /* bytes at the end of a message */

/* A message, its call, and what it is decoded with. */
struct message {
	bool is_answer;
	struct fleet_question q;
	struct buf b;
};

static void message_make(struct message *m, enum fleet_op op, bool is_answer)
{
	struct err e = { 0 };
	*m = (struct message){ .is_answer = is_answer };
	wirekit_question(&m->q, op);
	if (!is_answer) {
		fleet_question_encode(&m->b, &m->q);
		return;
	}
	struct fleet_answer a;
	struct fleet_result r;
	struct fleet_dictionary_out *d = fleet_dictionary_out_new();
	wirekit_answer(&m->q.arena, &a);
	wirekit_result(&m->q.arena, &m->q.call, &r);
	if (op == FLEET_MERGE) {
		struct symbols *s = symbols_new();
		r.n = m->q.call.n_groups;
		r.vecs = xcalloc(r.n + 1, sizeof(struct stackvec *));
		for (size_t i = 0; i < r.n; i++) {
			uint32_t node = symbols_node(s, 0, symbols_location(s, &(struct sym_location){ .address = 16 * (wirekit_random(20) + 1) }, NULL));
			uint32_t *column = xcalloc(1, sizeof *column);
			int64_t *value = xcalloc(1, sizeof *value);
			*column = symbols_column(s, symbols_stack_at(s, node), 0);
			*value = wirekit_integer();
			r.vecs[i] = stackvec_new_ints(s, column, value, 1);
		}
		symbols_unref(s);
	}
	if (fleet_answer_encode(&m->b, &a, &r, d, &m->q, &e))
		fail_msg("%s: %s", wirekit_op_names[op], e.msg);
	fleet_result_release(&r);
	fleet_dictionary_out_free(d);
}

static void message_free(struct message *m)
{
	fleet_question_release(&m->q);
	buf_free(&m->b);
}

/* Decodes a copy, and releases what came of it. */
static int message_decode(const struct message *m, struct view bytes, struct err *e)
{
	char *exact = xmalloc(bytes.len + 1);
	struct view v = { exact + 1, bytes.len }; /* not aligned */
	memcpy(exact + 1, bytes.ptr, bytes.len);
	err_clear(e);
	int rc;
	if (!m->is_answer) {
		struct fleet_question q;
		rc = fleet_question_decode(&q, v, NULL, e);
		fleet_question_release(&q);
	} else {
		struct fleet_dictionary_in *d = fleet_dictionary_in_new(1 << 20);
		struct fleet_answer a;
		struct fleet_result r;
		struct arena arena;
		arena_init(&arena, 1 << 20);
		rc = fleet_answer_decode(&a, &r, v, &m->q.call, d, &arena, e);
		if (!rc)
			fleet_result_release(&r);
		arena_free(&arena);
		fleet_dictionary_in_free(d);
	}
	free(exact);
	assert_true(rc ? rc == -(int)e->code && e->msg[0] : true);
	return rc;
}

static void message_refuse(const struct message *m, struct view bytes)
{
	struct err e;
	int rc = message_decode(m, bytes, &e);
	assert_true(rc == -(m->is_answer ? ERR_CORRUPT : ERR_BAD_DATA));
}

/* Makes the hash right. */
static void message_sign(struct buf *b)
{
	if (b->len < HASH)
		return;
	uint64_t hash = htole64(hash_stable(b->ptr, b->len - HASH));
	memcpy(b->ptr + b->len - HASH, &hash, HASH);
}

static void for_each_message(void (*fn)(struct message *m), unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++)
		for (enum fleet_op op = FLEET_OPEN; op < FLEET_OPS; op++)
			for (int is_answer = 0; is_answer < 2; is_answer++) {
				struct message m;
				message_make(&m, op, is_answer);
				fn(&m);
				message_free(&m);
			}
}

static void refuse_cuts(struct message *m)
{
	struct err e;
	assert_int_equal(message_decode(m, buf_view(&m->b), &e), 0);
	for (size_t n = 0; n < m->b.len; n++)
		message_refuse(m, view_make(m->b.ptr, n));
}

static void refuse_flips(struct message *m)
{
	for (unsigned i = 0; i < 100; i++) {
		size_t at = wirekit_random(m->b.len);
		char bit = (char)(1 << wirekit_random(8));
		m->b.ptr[at] ^= bit;
		message_refuse(m, buf_view(&m->b));
		m->b.ptr[at] ^= bit;
	}
}

/* Cut, and then signed. */
static void refuse_signed_cuts(struct message *m)
{
	struct buf b = { 0 };
	for (size_t n = 6; n + HASH < m->b.len; n++) {
		buf_reset(&b);
		buf_put(&b, m->b.ptr, n + HASH);
		message_sign(&b);
		message_refuse(m, buf_view(&b));
	}
	buf_put(&b, "\0", 1); /* too long */
	buf_reset(&b);
	buf_put(&b, m->b.ptr, m->b.len);
	buf_put(&b, "\0", 1);
	message_sign(&b);
	message_refuse(m, buf_view(&b));
	buf_free(&b);
}

static void survive_changes(struct message *m)
{
	static const char bytes[] = { 0, 1, 0x7f, (char)0x80, (char)0xff, 2 };
	struct buf b = { 0 };
	struct err e;
	for (unsigned i = 0; i < 200; i++) {
		buf_reset(&b);
		buf_putv(&b, buf_view(&m->b));
		for (uint64_t k = 1 + wirekit_random(4); k--;) {
			size_t at = 5 + wirekit_random(b.len - HASH - 5);
			if (wirekit_random(3))
				b.ptr[at] = bytes[wirekit_random(sizeof bytes)];
			else
				b.ptr[at] ^= (char)(1 << wirekit_random(8));
		}
		if (!wirekit_random(3)) { /* a large number in between */
			size_t at = 5 + wirekit_random(b.len - HASH - 5);
			struct buf more = { 0 };
			buf_put(&more, b.ptr, at);
			buf_varint(&more, wirekit_random(0) >> wirekit_random(64));
			buf_put(&more, b.ptr + at, b.len - at);
			buf_free(&b);
			b = more;
		}
		message_sign(&b);
		if (message_decode(m, buf_view(&b), &e))
			assert_true(e.code == ERR_CORRUPT || e.code == ERR_LIMIT || e.code == ERR_BAD_DATA);
	}
	buf_free(&b);
}

static void test_cut(void **state)
{
	(void)state;
	for_each_message(refuse_cuts, 3);
}

static void test_flipped(void **state)
{
	(void)state;
	for_each_message(refuse_flips, ROUNDS);
}

static void test_signed_cuts(void **state)
{
	(void)state;
	for_each_message(refuse_signed_cuts, 3);
}

static void test_changed(void **state)
{
	(void)state;
	for_each_message(survive_changes, ROUNDS);
}

static void test_version(void **state)
{
	struct message m;
	struct err e;
	(void)state;
	for (int is_answer = 0; is_answer < 2; is_answer++) {
		message_make(&m, FLEET_TYPES, is_answer);
		m.b.ptr[4] = FLEET_WIRE_VERSION + 1;
		message_sign(&m.b);
		message_refuse(&m, buf_view(&m.b));
		message_decode(&m, buf_view(&m.b), &e);
		assert_non_null(strstr(e.msg, "is of version 2 "));
		assert_non_null(strstr(e.msg, "this server speaks version 1"));
		message_free(&m);
	}
}

/* ---- numbers that claim too much ---- */

static void hostile_begin(struct buf *b, enum fleet_op op)
{
	buf_reset(b);
	buf_puts(b, "PYRQ\1");
	buf_putc(b, (char)op);
	buf_put(b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 21); /* flags, view, session, left_ms, three limits */
}

static void hostile_refuse(struct buf *b, const char *why)
{
	struct fleet_question q;
	struct err e = { 0 };
	buf_put(b, "\0\0\0\0\0\0\0\0", HASH);
	message_sign(b);
	int rc = fleet_question_decode(&q, buf_view(b), NULL, &e);
	fleet_question_release(&q);
	if (rc != -ERR_BAD_DATA || !strstr(e.msg, why))
		fail_msg("%d %s instead of %s", rc, e.msg, why);
}

static void test_claims(void **state)
{
	struct buf b = { 0 };
	(void)state;
	hostile_begin(&b, FLEET_FLOATS);
	buf_zigzag(&b, 0);
	buf_zigzag(&b, 1);
	buf_varint(&b, UINT64_MAX);
	hostile_refuse(&b, "a number of elements that do not fit into it");
	hostile_begin(&b, FLEET_FLOATS);
	buf_zigzag(&b, INT64_MIN);
	hostile_refuse(&b, "a time out of range");
	hostile_begin(&b, FLEET_SUMS);
	buf_varint(&b, FLEET_GROUPS_MAX + 1);
	buf_varint(&b, 0);
	hostile_refuse(&b, "too many parts or groups");
	hostile_begin(&b, FLEET_SUMS);
	buf_varint(&b, 3);
	buf_varint(&b, 1);
	buf_puts(&b, "\x73\3"); /* as no part, but for the group */
	hostile_refuse(&b, "a group that there is not");
	hostile_begin(&b, FLEET_COVERS);
	buf_varint(&b, 1);
	buf_varint(&b, 0);
	buf_zigzag(&b, T0);
	buf_zigzag(&b, 1);
	buf_varint(&b, FLEET_TILES_MAX);
	hostile_refuse(&b, "too many tiles for so many series");
	hostile_begin(&b, FLEET_SELECT);
	buf_zigzag(&b, 0);
	buf_zigzag(&b, 1);
	buf_puts(&b, "\1\2\1n\1("); /* n=~"(" */
	hostile_refuse(&b, "matchers: ");
	hostile_begin(&b, FLEET_SELECT);
	buf_zigzag(&b, 0);
	buf_zigzag(&b, 1);
	buf_varint(&b, FLEET_MATCHERS_MAX + 1);
	for (unsigned i = 0; i <= FLEET_MATCHERS_MAX; i++)
		buf_put(&b, "\0\0", 3);
	hostile_refuse(&b, "more than 1,000 matchers");
	buf_free(&b);
}

/* An answer to another question than the one that was asked. */
static void misfit_refuse(const struct fleet_result *r, const struct fleet_call *asked, const char *why)
{
	struct fleet_question q = { .call = { .op = r->op } };
	struct fleet_answer a = { 0 }, back;
	struct fleet_result back_r;
	struct arena arena;
	struct buf b = { 0 };
	struct err e = { 0 };
	arena_init(&arena, 0);
	assert_int_equal(fleet_answer_encode(&b, &a, r, NULL, &q, &e), 0);
	int rc = fleet_answer_decode(&back, &back_r, buf_view(&b), asked, NULL, &arena, &e);
	if (rc != -ERR_CORRUPT || !strstr(e.msg, why))
		fail_msg("%d %s instead of %s", rc, e.msg, why);
	arena_free(&arena);
	buf_free(&b);
}

static void test_misfits(void **state)
{
	const uint64_t refs[] = { 1, 2 };
	struct point points[] = { { T0, 1 }, { T0 + 5, 2 } };
	struct fleet_floats floats = { points, 2 };
	struct fleet_result r = { .op = FLEET_FLOATS, .n = 1, .floats = &floats };
	struct fleet_call c = { .op = FLEET_FLOATS, .refs = refs, .n_refs = 1, .after_ms = T0 - 1, .until_ms = T0 + 4 };
	struct label l[] = { { VIEW("b"), VIEW("1") }, { VIEW("a"), VIEW("1") } };
	struct source_series series[] = { { { l, 1 }, NULL, 1 }, { { l + 1, 1 }, NULL, 2 } };
	struct fleet_result select = { .op = FLEET_SELECT, .n = 2, .series = series };
	struct fleet_call asked = { .op = FLEET_SELECT };
	(void)state;
	misfit_refuse(&r, &c, "not in the range");
	c.until_ms = T0 + HOUR;
	c.after_ms = T0;
	misfit_refuse(&r, &c, "not in the range");
	points[1].t_ms = T0 - 5;
	c.after_ms = T0 - HOUR;
	misfit_refuse(&r, &c, "not in order");
	points[1].t_ms = T0 + 5;
	c.n_refs = 2;
	misfit_refuse(&r, &c, "too short");
	c.op = FLEET_PROFILES;
	misfit_refuse(&r, &c, "another operation");
	misfit_refuse(&select, &asked, "not in the order of their labels");
	series[0].labels.n = 2;
	misfit_refuse(&select, &asked, "label names are not in order");
	select.n = 1;
	series[0].labels.n = 1;
	series[0].ref = (uint64_t)1 << 32;
	misfit_refuse(&select, &asked, "2^32");
}

/* No message takes much more memory than bytes: the largest numbers of the smallest elements. */
static size_t result_bytes(const struct fleet_result *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		n += (r->floats ? r->floats[i].n * sizeof(struct point) : 0) + (r->profiles ? r->profiles[i].n * (sizeof(struct source_profile) + 8) : 0) +
		     (r->points ? r->points[i].n * (sizeof(struct source_point) + 4) : 0) + (r->covers ? r->n_tiles * sizeof(struct source_cover) : 0);
	return n;
}

static void test_memory(void **state)
{
	static const enum fleet_op ops[] = { FLEET_FLOATS, FLEET_PROFILES, FLEET_POINTS, FLEET_MATCHES };
	const uint64_t ref = 1;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		struct fleet_call c = { .op = ops[i], .refs = &ref, .n_refs = 1, .after_ms = -1, .until_ms = T0 };
		struct fleet_question q = { .call = c };
		struct fleet_answer a = { 0 }, back;
		struct fleet_result r = { .op = ops[i], .n = 1 }, back_r;
		struct arena arena;
		struct buf b = { 0 };
		struct err e = { 0 };
		size_t n = 100000;
		arena_init(&arena, 0);
		r.floats = ops[i] == FLEET_FLOATS ? NEW(struct fleet_floats) : NULL;
		r.points = ops[i] == FLEET_POINTS ? NEW(struct source_points) : NULL;
		r.profiles = ops[i] == FLEET_PROFILES || ops[i] == FLEET_MATCHES ? NEW(struct fleet_profiles) : NULL;
		if (r.floats)
			*r.floats = (struct fleet_floats){ xcalloc(n, sizeof(struct point)), n };
		if (r.points)
			*r.points = (struct source_points){ .v = xcalloc(n, sizeof(struct source_point)), .n = n, .plain = true };
		if (r.profiles)
			*r.profiles = (struct fleet_profiles){ xcalloc(n, sizeof(struct source_profile)), ops[i] == FLEET_MATCHES ? xcalloc(n, 8) : NULL, n };
		assert_int_equal(fleet_answer_encode(&b, &a, &r, NULL, &q, &e), 0);
		if (fleet_answer_decode(&back, &back_r, buf_view(&b), &c, NULL, &arena, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(result_bytes(&back_r), result_bytes(&r));
		assert_true(result_bytes(&back_r) <= 64 * b.len);
		fleet_result_release(&r);
		fleet_result_release(&back_r);
		arena_free(&arena);
		buf_free(&b);
	}
}

/* ---- rows ---- */

/* A graph of 3 steps, with a lane of no bits, up to its terms. */
static void hostile_graph(struct buf *b, uint64_t n_refs, uint64_t n_terms)
{
	hostile_begin(b, FLEET_ROWS);
	buf_puts(b, "\7self(x)");
	buf_varint(b, 3);
	buf_varint(b, 1);
	buf_zigzag(b, 0);
	buf_varint(b, n_refs);
	buf_varint(b, n_terms);
}

static void test_graph_claims(void **state)
{
	struct buf b = { 0 };
	(void)state;
	hostile_begin(&b, FLEET_ROWS);
	buf_puts(&b, "\7self(x)");
	buf_varint(&b, FLEET_STEPS_MAX + 1);
	buf_varint(&b, 0);
	hostile_refuse(&b, "too many steps or lanes");
	hostile_begin(&b, FLEET_ROWS);
	buf_puts(&b, "\7self(x)");
	buf_varint(&b, 3);
	buf_varint(&b, UINT64_MAX);
	hostile_refuse(&b, "a number of elements that do not fit into it");
	hostile_begin(&b, FLEET_ROWS);
	buf_puts(&b, "\7self(x)");
	buf_varint(&b, 3);
	buf_varint(&b, FLEET_LANES_MAX + 1);
	for (size_t i = 0; i < FLEET_LANES_MAX + 8; i++)
		buf_putc(&b, 0);
	hostile_refuse(&b, "too many steps or lanes");
	hostile_begin(&b, FLEET_ROWS);
	buf_puts(&b, "\7self(x)");
	buf_varint(&b, 3);
	buf_varint(&b, 1);
	buf_zigzag(&b, 2000);
	hostile_refuse(&b, "a number of bits");
	hostile_graph(&b, 1, UINT64_MAX);
	hostile_refuse(&b, "a number of elements that do not fit into it");
	hostile_graph(&b, 1, FLEET_TERMS_MAX + 1);
	for (size_t i = 0; i < 2 * FLEET_TERMS_MAX + 8; i++)
		buf_putc(&b, 0);
	hostile_refuse(&b, "too many series or terms");
	hostile_graph(&b, FLEET_REFS_MAX + 1, 1);
	for (size_t i = 0; i < 3 * FLEET_REFS_MAX + 8; i++)
		buf_putc(&b, 0);
	hostile_refuse(&b, "too many series or terms");
	buf_free(&b);
}

/* Of one series, whose reference is 0, and how many terms it has. */
static void test_graph_terms(void **state)
{
	struct buf b = { 0 };
	(void)state;
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\2\x19\0\2\0", 6); /* two terms */
	hostile_refuse(&b, "more terms than it says");
	hostile_graph(&b, 1, 2);
	buf_put(&b, "\0\1\x1d\2", 4); /* a whole one of scale 0 at step 0 and lane 0, (0, 1] */
	hostile_refuse(&b, "fewer terms than it says");
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\0\0\0\0\0", 6);
	hostile_refuse(&b, "more terms than it says"); /* none */
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\1\x1c\3\2", 5);
	hostile_refuse(&b, "a step or a lane that there is not");
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\1\x19\1\2", 5);
	hostile_refuse(&b, "a step or a lane that there is not");
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\1\x1f\2\2", 5);
	hostile_refuse(&b, "flags of a term");
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\1\x3d\2\2", 5);
	hostile_refuse(&b, "flags of a term");
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\1\x1d\0", 4); /* (0, 0] */
	hostile_refuse(&b, "times out of range");
	hostile_graph(&b, 1, 1);
	buf_put(&b, "\0\1\x0d", 3);
	buf_zigzag(&b, INT64_MIN);
	buf_zigzag(&b, 1);
	hostile_refuse(&b, "times out of range");
	buf_free(&b);
}

static void test_scales_are_numbers(void **state)
{
	static const double bad[] = { NAN, INFINITY, -INFINITY };
	const uint64_t ref = 1;
	const uint32_t first[] = { 0, 1 };
	const int bits = 3;
	struct source_graph_term term = { T0, T0 + 1, 1, 0, 0 };
	const struct source_graph g = { .readout = VIEW("self(x)"), .n_steps = 2, .refs = &ref, .first = first, .n_refs = 1, .terms = &term, .bits = &bits, .n_lanes = 1 };
	struct buf b = { 0 };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct fleet_question q = { .call = { .op = FLEET_ROWS, .graph = &g } }, back;
		struct err e = { 0 };
		term.scale = bad[i];
		buf_reset(&b);
		fleet_question_encode(&b, &q);
		assert_int_equal(fleet_question_decode(&back, buf_view(&b), NULL, &e), -ERR_BAD_DATA);
		assert_non_null(strstr(e.msg, "a scale that is no number"));
		fleet_question_release(&back);
	}
	buf_free(&b);
}

/* Bytes as rows that answer a graph of 3 steps and 2 lanes. */
static void hostile_rows(const char *rows, size_t n, const char *why)
{
	const struct source_graph g = { .n_steps = 3, .n_lanes = 2 };
	const struct fleet_call c = { .op = FLEET_ROWS, .graph = &g };
	struct fleet_answer a;
	struct fleet_result r;
	struct arena arena;
	struct buf b = { 0 };
	struct err e = { 0 };
	arena_init(&arena, 1 << 20);
	buf_puts(&b, "PYRA\1");
	buf_putc(&b, FLEET_ROWS);
	buf_put(&b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17); /* flags, view, session */
	buf_put(&b, rows, n);
	buf_put(&b, "\0\0\0\0\0\0\0\0", HASH);
	message_sign(&b);
	int rc = fleet_answer_decode(&a, &r, buf_view(&b), &c, NULL, &arena, &e);
	if (!rc)
		fleet_result_release(&r);
	if (why ? rc != -ERR_CORRUPT || !strstr(e.msg, why) : rc)
		fail_msg("%d %s instead of %s", rc, e.msg, why ? why : "success");
	arena_free(&arena);
	buf_free(&b);
}

#define HOSTILE_ROWS(bytes, why) hostile_rows(bytes, sizeof bytes - 1, why)

static void test_row_claims(void **state)
{
	(void)state;
	HOSTILE_ROWS("\1\1\2\0\1f\0\0\2\1\2\2", NULL); /* lane 1, f and twice the empty text, step 2 is 1 */
	HOSTILE_ROWS("\0\0", NULL);
	HOSTILE_ROWS("\0\1\2\0\1f\0\0\2\1\2\2", "rows whose sums do not fit");
	HOSTILE_ROWS("\2\0", "rows whose sums do not fit");
	HOSTILE_ROWS("\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0\0\0\0\0\0\0", "a number of elements that do not fit into it");
	HOSTILE_ROWS("\1\1\4\0\1f\0\0\2\1\2\2", "a lane that was not asked for");
	HOSTILE_ROWS("\1\1\2\0\1f\0\0\2\1\3\2", "a step that was not asked for");
	HOSTILE_ROWS("\1\1\2\0\1f\0\0\2\2\2\2\0\2", "a step that was not asked for"); /* 2, and the one after it */
	HOSTILE_ROWS("\1\1\2\0\1f\0\0\2\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\2", "a step that was not asked for");
	HOSTILE_ROWS("\1\1\2\0\1f\0\0\3\1\2\2", "a text that was not there");
	HOSTILE_ROWS("\1\1\2\0\1f\0\0\2\0\0\0\0", "a row without numbers");
	HOSTILE_ROWS("\1\1\2\0\1f\0\0\2\x7f\0\0\0", "a number of elements that do not fit into it");
	HOSTILE_ROWS("\1\1\3\0\1f\0\0\2\1\2\2\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\3", NULL); /* -2^127 */
	HOSTILE_ROWS("\1\1\3\0\1f\0\0\2\1\2\2\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\4", "more than 128 bits");
}

/* The smallest rows, with a text each and without, and rows of many steps. */
static void test_row_memory(void **state)
{
	const struct source_graph g = { .n_steps = FLEET_STEPS_MAX, .n_lanes = 1 };
	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		struct fleet_question q = { .call = { .op = FLEET_ROWS, .graph = &g } };
		size_t n = kind < 2 ? 100000 : 1, n_steps = kind < 2 ? 1 : FLEET_STEPS_MAX, bytes = 0;
		struct fleet_result r = { .op = FLEET_ROWS, .n = n, .fits = true, .rows = xcalloc(n, sizeof *r.rows) }, back_r;
		struct fleet_answer a = { 0 }, back;
		struct arena arena, names;
		struct buf b = { 0 };
		struct err e = { 0 };
		arena_init(&arena, 0);
		arena_init(&names, 0);
		for (size_t i = 0; i < n; i++) {
			struct fleet_row *x = &r.rows[i];
			*x = (struct fleet_row){ .function = kind == 0 ? wirekit_text(&names, "", 0) : VIEW(""), .n = n_steps, .steps = xcalloc(n_steps, sizeof *x->steps),
						 .ints = xcalloc(n_steps, sizeof *x->ints), .parts = kind % 2 ? xcalloc(n_steps, sizeof *x->parts) : NULL };
			for (size_t k = 0; k < n_steps; k++)
				x->steps[k] = (uint32_t)k;
			bytes += sizeof *x + 3 * 32 + n_steps * (sizeof *x->steps + sizeof *x->ints + (x->parts ? sizeof *x->parts : 0));
		}
		assert_int_equal(fleet_answer_encode(&b, &a, &r, NULL, &q, &e), 0);
		assert_true(bytes <= 64 * b.len);
		arena.max = 64 * b.len;
		if (fleet_answer_decode(&back, &back_r, buf_view(&b), &q.call, NULL, &arena, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(back_r.n, n);
		fleet_result_release(&r);
		fleet_result_release(&back_r);
		arena_free(&arena);
		arena_free(&names);
		buf_free(&b);
	}
}

/* ---- seeds ---- */

static void seeds_write(struct message *m)
{
	char *path AUTOFREE = xasprintf("%s/%s/%s_%s", getenv("FLEET_SEEDS"), m->is_answer ? "answer" : "question", wirekit_op_names[m->q.call.op],
					m->b.len > 400 ? "large" : "small");
	FILE *f = fopen(path, "wb");
	struct buf b = { 0 };
	if (m->is_answer) { /* before the answer, its question */
		struct buf q = { 0 };
		fleet_question_encode(&q, &m->q);
		buf_varint(&b, q.len);
		buf_putv(&b, buf_view(&q));
		buf_free(&q);
	}
	buf_putv(&b, buf_view(&m->b));
	assert_non_null(f);
	assert_int_equal(fwrite(b.ptr, 1, b.len, f), b.len);
	fclose(f);
	buf_free(&b);
}

static void test_seeds(void **state)
{
	(void)state;
	if (getenv("FLEET_SEEDS"))
		for_each_message(seeds_write, ROUNDS);
}

/* What an answer is read into is bounded: its memory, its samples, its time; and no series is there twice. */
static void test_within(void **state)
{
	(void)state;
	enum { N = 20000 };
	static struct source_profile profiles[N];
	static const uint64_t refs[] = { 0 };
	const struct fleet_call c = { .op = FLEET_PROFILES, .until_ms = N, .refs = refs, .n_refs = 1 };
	const struct fleet_question q = { .call = c };
	struct fleet_profiles list = { profiles, NULL, N };
	const struct fleet_result r = { .op = FLEET_PROFILES, .n = 1, .profiles = &list };
	const struct fleet_answer a = { .view = 1 };
	const atomic_bool canceled = true;
	const struct source_limits lim = { .canceled = &canceled };
	const struct fleet_within cases[] = { { 0 }, { .max_bytes = sizeof profiles / 2 }, { .max_samples = N - 1 }, { .lim = &lim }, { .max_bytes = 2 * sizeof profiles, .max_samples = N } };
	const int codes[] = { 0, -ERR_LIMIT, -ERR_CORRUPT, -ERR_CANCELED, 0 };
	for (int i = 0; i < N; i++)
		profiles[i] = (struct source_profile){ .t_ms = i + 1, .weight = 1 };
	struct buf b = { 0 };
	struct err e = { 0 };
	assert_int_equal(fleet_answer_encode(&b, &a, &r, NULL, &q, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fleet_answer back;
		struct fleet_result back_r = { 0 };
		struct arena arena;
		arena_init(&arena, 1 << 20);
		int rc = fleet_answer_decode_within(&back, &back_r, buf_view(&b), &c, NULL, &arena, &cases[i], &e);
		assert_int_equal(rc, codes[i]);
		if (!rc)
			fleet_result_release(&back_r);
		arena_free(&arena);
	}
	buf_free(&b);
}

/* Reading many rows ends with the question. */
static void test_rows_canceled(void **state)
{
	(void)state;
	static const int bits[1];
	static const uint64_t refs[] = { 0 };
	static const uint32_t first[] = { 0, 1 };
	static const struct source_graph_term term = { .scale = 1, .until_ms = 1 };
	const struct source_graph g = { .readout = VIEW("self"), .n_steps = 1, .n_lanes = 1, .bits = bits, .refs = refs, .n_refs = 1, .first = first, .terms = &term };
	const struct fleet_call c = { .op = FLEET_ROWS, .until_ms = 1, .graph = &g };
	const struct fleet_question q = { .call = c };
	uint32_t step = 0;
	int64_t value = 1;
	struct fleet_row row = { .function = VIEW("f"), .file = VIEW(""), .line = VIEW(""), .steps = &step, .ints = &value, .n = 1 };
	const struct fleet_result r = { .op = FLEET_ROWS, .fits = true, .n = 1, .rows = &row };
	const struct fleet_answer a = { .view = 1 };
	struct buf b = { 0 };
	struct err e = { 0 };
	assert_int_equal(fleet_answer_encode(&b, &a, &r, NULL, &q, &e), 0);
	for (int over = 0; over < 2; over++) {
		const atomic_bool canceled = over;
		const struct source_limits lim = { .canceled = &canceled };
		struct fleet_answer back;
		struct fleet_result back_r = { 0 };
		struct arena arena;
		arena_init(&arena, 1 << 20);
		assert_int_equal(fleet_answer_decode_within(&back, &back_r, buf_view(&b), &c, NULL, &arena, &(struct fleet_within){ .lim = &lim }, &e),
				 over ? -ERR_CANCELED : 0);
		if (!over)
			fleet_result_release(&back_r);
		arena_free(&arena);
	}
	buf_free(&b);
}

static void test_series_twice(void **state)
{
	(void)state;
	struct label l[] = { { VIEW("__name__"), VIEW("m") } };
	struct source_series series[] = { { { l, 1 }, NULL, 1 }, { { l, 1 }, NULL, 2 } };
	const struct fleet_call c = { .op = FLEET_SELECT, .until_ms = 1 };
	const struct fleet_question q = { .call = c };
	const struct fleet_result r = { .op = FLEET_SELECT, .n = 2, .series = series };
	const struct fleet_answer a = { .view = 1 };
	struct fleet_answer back;
	struct fleet_result back_r = { 0 };
	struct arena arena;
	struct buf b = { 0 };
	struct err e = { 0 };
	arena_init(&arena, 1 << 20);
	assert_int_equal(fleet_answer_encode(&b, &a, &r, NULL, &q, &e), 0);
	assert_int_equal(fleet_answer_decode(&back, &back_r, buf_view(&b), &c, NULL, &arena, &e), -ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "a series is there twice"));
	arena_free(&arena);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut), cmocka_unit_test(test_flipped), cmocka_unit_test(test_signed_cuts), cmocka_unit_test(test_changed),
		cmocka_unit_test(test_version), cmocka_unit_test(test_claims), cmocka_unit_test(test_misfits),
		cmocka_unit_test(test_memory), cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_graph_claims), cmocka_unit_test(test_graph_terms), cmocka_unit_test(test_scales_are_numbers),
		cmocka_unit_test(test_row_claims), cmocka_unit_test(test_row_memory), cmocka_unit_test(test_within), cmocka_unit_test(test_rows_canceled), cmocka_unit_test(test_series_twice),
	};
	wirekit_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
