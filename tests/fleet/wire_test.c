/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers as bytes: of every operation, of random content (PYRRHA_SEED=n) and of a source in memory, the same comes back.
 * wire_hostile_test.c has other bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "promql-like/memsource.h"
#include "tests/fleet/wirekit.h"

#define ROUNDS 300

/* ---- questions ---- */

static void check_matchers(const struct matcher *a, size_t n_a, const struct matcher *b, size_t n_b)
{
	assert_int_equal(n_a, n_b);
	for (size_t i = 0; i < n_a; i++) {
		assert_int_equal(a[i].op, b[i].op);
		assert_true(view_eq(a[i].name, b[i].name) && view_eq(a[i].value, b[i].value));
		assert_true(!a[i].re == !b[i].re);
		if (a[i].re)
			assert_true(view_eq(regex_pattern(a[i].re), regex_pattern(b[i].re)));
	}
}

static void check_graphs(const struct source_graph *a, const struct source_graph *b)
{
	assert_true(view_eq(a->readout, b->readout) && a->n_steps == b->n_steps && a->n_refs == b->n_refs && a->n_lanes == b->n_lanes);
	assert_memory_equal(a->bits, b->bits, a->n_lanes * sizeof *a->bits);
	assert_int_equal(a->first[0], b->first[0]);
	for (size_t i = 0; i < a->n_refs; i++)
		assert_true(a->refs[i] == b->refs[i] && a->first[i + 1] == b->first[i + 1]);
	for (size_t i = 0; i < a->first[a->n_refs]; i++) {
		const struct source_graph_term *x = &a->terms[i], *y = &b->terms[i];
		assert_true(x->after_ms == y->after_ms && x->until_ms == y->until_ms && x->step == y->step && x->lane == y->lane);
		assert_true(value_bits(x->scale) == value_bits(y->scale));
	}
}

static void check_calls(const struct fleet_call *a, const struct fleet_call *b)
{
	assert_int_equal(a->op, b->op);
	assert_true(a->after_ms == b->after_ms && a->until_ms == b->until_ms && view_eq(a->label, b->label));
	check_matchers(a->m, a->n_m, b->m, b->n_m);
	assert_true(a->n_refs == b->n_refs && a->n_parts == b->n_parts && a->n_groups == b->n_groups && a->detail == b->detail && a->exact == b->exact);
	for (size_t i = 0; i < a->n_refs; i++)
		assert_true(a->refs[i] == b->refs[i]);
	assert_true(!a->windows == !b->windows && !a->tiles == !b->tiles && !a->filter == !b->filter);
	if (a->windows)
		assert_memory_equal(a->windows, b->windows, sizeof *a->windows);
	if (a->tiles)
		assert_memory_equal(a->tiles, b->tiles, sizeof *a->tiles);
	for (size_t i = 0; i < a->n_parts; i++) {
		const struct source_part *x = &a->parts[i], *y = &b->parts[i];
		assert_true(x->ref == y->ref && x->after_ms == y->after_ms && x->until_ms == y->until_ms && x->group == y->group && x->n_steps == y->n_steps &&
			    x->step_ms == y->step_ms);
		assert_true(value_bits(x->scale) == value_bits(y->scale));
		assert_true(x->weigh.over_ms == y->weigh.over_ms && x->weigh.base_ms == y->weigh.base_ms && x->weigh.by_cover == y->weigh.by_cover);
	}
	assert_true(!a->graph == !b->graph);
	if (a->graph)
		check_graphs(a->graph, b->graph);
	if (!a->filter)
		return;
	assert_true(a->filter->leaf_only == b->filter->leaf_only && !a->filter->any == !b->filter->any);
	if (a->filter->any)
		assert_true(view_eq(a->filter->any_text, b->filter->any_text) && view_eq(regex_pattern(b->filter->any), a->filter->any_text));
	else
		check_matchers(a->filter->m, a->filter->n, b->filter->m, b->filter->n);
}

static void encode_question(struct buf *out, const struct fleet_question *q)
{
	buf_reset(out);
	fleet_question_encode(out, q);
	assert_false(out->overflow);
}

static void test_questions(void **state)
{
	struct buf out = { 0 };
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++)
		for (enum fleet_op op = FLEET_OPEN; op < FLEET_OPS; op++) {
			struct fleet_question q, back;
			struct err e = { 0 };
			wirekit_question(&q, op);
			encode_question(&out, &q);
			char *exact = xmalloc(out.len); /* so that a sanitizer sees a read behind it */
			memcpy(exact, out.ptr, out.len);
			int rc = fleet_question_decode(&back, view_make(exact, out.len), NULL, &e);
			free(exact); /* nothing refers to it */
			if (rc)
				fail_msg("%s: %s", wirekit_op_names[op], e.msg);
			assert_true(q.view == back.view && q.session == back.session && q.left_ms == back.left_ms && q.max_samples == back.max_samples);
			assert_true(q.max_bytes == back.max_bytes && q.max_answer == back.max_answer && q.strict == back.strict);
			assert_true(symbols_marks_eq(&q.has, &back.has));
			check_calls(&q.call, &back.call);
			fleet_question_release(&back);
			fleet_question_release(&q);
		}
	buf_free(&out);
}

/* ---- comparison, field by field ---- */

static void check_labels(struct labels a, struct labels b)
{
	assert_true(labels_eq(a, b));
}

static void check_types(const struct ptype *a, const struct ptype *b)
{
	assert_true(!a == !b && (!a || ptype_eq(a, b)));
}

static void check_profiles(const struct fleet_profiles *a, const struct fleet_profiles *b)
{
	assert_true(a->n == b->n && !a->match == !b->match);
	for (size_t i = 0; i < a->n; i++) {
		const struct source_profile *x = &a->v[i], *y = &b->v[i];
		assert_true(x->t_ms == y->t_ms && x->duration_ns == y->duration_ns && x->cover_ms == y->cover_ms && x->interval_ms == y->interval_ms);
		assert_true(value_bits(x->weight) == value_bits(y->weight) && x->period == y->period && x->total == y->total && x->stale == y->stale);
		assert_true(!a->match || a->match[i] == b->match[i]);
	}
}

static void check_points(const struct source_points *a, const struct source_points *b)
{
	assert_true(a->plain == b->plain && a->n == b->n && !a->before == !b->before);
	for (size_t i = 0; i < a->n; i++) {
		const struct source_point *x = &a->v[i], *y = &b->v[i];
		assert_true(x->t_ms == y->t_ms && x->total == y->total && x->cover_ms == y->cover_ms && x->is_run == y->is_run && x->ahead == y->ahead);
		assert_int_equal(source_points_before(a, i), source_points_before(b, i));
	}
	assert_int_equal(source_points_before(a, a->n), source_points_before(b, a->n));
}

static void check_covers(const struct source_cover *x, const struct source_cover *y)
{
	assert_true(x->n == y->n && x->n_stale == y->n_stale && x->total == y->total && x->period == y->period && x->magnitude == y->magnitude);
	assert_true(value_bits(x->weights.extra) == value_bits(y->weights.extra) && value_bits(x->weights.weighed) == value_bits(y->weights.weighed));
	assert_true(value_bits(x->weights.lightest) == value_bits(y->weights.lightest));
	assert_true(value_bits(x->weights.heaviest) == value_bits(y->weights.heaviest));
	assert_int_equal(x->spans.n, y->spans.n);
	for (size_t i = 0; i < x->spans.n; i++)
		assert_memory_equal(&x->spans.v[i], &y->spans.v[i], sizeof x->spans.v[i]);
}

static void check_integers(const int64_t *a, const int64_t *b, size_t n)
{
	assert_true(!a == !b);
	for (size_t i = 0; a && i < n; i++)
		assert_true(a[i] == b[i]);
}

/* b may be over names alone: then what is one column there may have been several. */
static void check_vectors(const struct stackvec *a, struct stackvec *b, bool whole)
{
	struct err e;
	assert_true(stackvec_total(a) == stackvec_total(b));
	if (!whole)
		return;
	struct stackvec *same = stackvec_rebase(b, a->symbols, &e);
	assert_non_null(same);
	assert_true(a->n == same->n && a->is_float == same->is_float);
	for (size_t i = 0; i < a->n; i++)
		assert_true(a->columns[i] == same->columns[i] &&
			    (a->is_float ? value_bits(a->floats[i]) == value_bits(same->floats[i]) : a->ints[i] == same->ints[i]));
	stackvec_unref(same);
}

static void check_rows(const struct fleet_row *a, const struct fleet_row *b)
{
	assert_true(a->lane == b->lane && a->n == b->n && !a->parts == !b->parts);
	assert_true(view_eq(a->function, b->function) && view_eq(a->file, b->file) && view_eq(a->line, b->line));
	for (size_t i = 0; i < a->n; i++)
		assert_true(a->steps[i] == b->steps[i] && a->ints[i] == b->ints[i] && (!a->parts || a->parts[i] == b->parts[i]));
}

static void check_results(const struct fleet_result *a, const struct fleet_result *b, bool whole)
{
	assert_true(a->op == b->op && a->n == b->n && a->n_tiles == b->n_tiles);
	assert_true(a->fits == b->fits && !a->rows == !b->rows);
	for (size_t i = 0; i < a->n; i++) {
		if (a->rows)
			check_rows(&a->rows[i], &b->rows[i]);
		if (a->series) {
			check_labels(a->series[i].labels, b->series[i].labels);
			check_types(a->series[i].type, b->series[i].type);
			assert_true(a->series[i].ref == b->series[i].ref);
		}
		if (a->types) {
			assert_true(view_eq(a->types[i].name, b->types[i].name) && a->types[i].n_series == b->types[i].n_series);
			check_types(a->types[i].type, b->types[i].type);
		}
		assert_true(!a->names || view_eq(a->names[i], b->names[i]));
		if (a->profiles)
			check_profiles(&a->profiles[i], &b->profiles[i]);
		if (a->points)
			check_points(&a->points[i], &b->points[i]);
		for (size_t k = 0; a->covers && k < a->n_tiles; k++)
			check_covers(&a->covers[i][k], &b->covers[i][k]);
		if (a->vecs)
			check_vectors(a->vecs[i], b->vecs[i], whole);
		assert_true(!a->sums || value_bits(a->sums[i]) == value_bits(b->sums[i]));
		assert_true(!a->floats || a->floats[i].n == b->floats[i].n);
		for (size_t k = 0; a->floats && k < a->floats[i].n; k++)
			assert_true(a->floats[i].v[k].t_ms == b->floats[i].v[k].t_ms && value_bits(a->floats[i].v[k].v) == value_bits(b->floats[i].v[k].v));
	}
	check_integers(a->exact, b->exact, a->n);
	check_integers(a->shares.match, b->shares.match, a->n);
	check_integers(a->shares.total, b->shares.total, a->n);
	check_integers(a->shares.there, b->shares.there, a->n);
}

static void check_answers(const struct fleet_answer *a, const struct fleet_answer *b)
{
	assert_true(a->view == b->view && a->view_lost == b->view_lost && a->opened == b->opened && a->session == b->session);
	check_labels(a->labels, b->labels);
	assert_int_equal(a->err.code, b->err.code);
	assert_string_equal(a->err.msg, b->err.msg);
	assert_true(a->chunks == b->chunks && a->samples == b->samples && a->bytes == b->bytes && a->cpu_ns == b->cpu_ns);
	assert_true(a->bucket_requests == b->bucket_requests && a->bucket_bytes == b->bucket_bytes);
	assert_memory_equal(&a->damaged, &b->damaged, sizeof a->damaged);
	assert_memory_equal(&a->absent, &b->absent, sizeof a->absent);
	assert_memory_equal(&a->doubled, &b->doubled, sizeof a->doubled);
}

/* ---- answers ---- */

static void encode_answer(struct buf *out, const struct fleet_answer *a, const struct fleet_result *r, struct fleet_dictionary_out *d,
			  const struct fleet_question *q)
{
	struct err e = { 0 };
	buf_reset(out);
	if (fleet_answer_encode(out, a, r, d, q, &e))
		fail_msg("%s: %s", wirekit_op_names[q->call.op], e.msg);
}

static void test_answers(void **state)
{
	struct buf out = { 0 }, again = { 0 };
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++)
		for (enum fleet_op op = FLEET_OPEN; op < FLEET_OPS; op++) {
			struct arena arena, back_arena;
			struct fleet_question q;
			struct fleet_answer a, back;
			struct fleet_result r, back_r;
			struct err e = { 0 };
			if (op == FLEET_MERGE)
				continue; /* test_source */
			arena_init(&arena, 0);
			arena_init(&back_arena, 1 << 20);
			wirekit_question(&q, op);
			wirekit_answer(&arena, &a);
			wirekit_result(&arena, &q.call, &r);
			encode_answer(&out, &a, &r, NULL, &q);
			char *exact = xmalloc(out.len);
			memcpy(exact, out.ptr, out.len);
			int rc = fleet_answer_decode(&back, &back_r, view_make(exact, out.len), &q.call, NULL, &back_arena, &e);
			free(exact);
			if (rc)
				fail_msg("%s: %s", wirekit_op_names[op], e.msg);
			check_answers(&a, &back);
			check_results(&r, &back_r, true);
			encode_answer(&again, &back, &back_r, NULL, &q);
			assert_true(view_eq(buf_view(&out), buf_view(&again)));
			fleet_result_release(&r);
			fleet_result_release(&back_r);
			fleet_question_release(&q);
			arena_free(&arena);
			arena_free(&back_arena);
		}
	buf_free(&out);
	buf_free(&again);
}

static void test_errors(void **state)
{
	struct buf out = { 0 };
	struct fleet_question q = { .call = { .op = FLEET_FLOATS, .n_refs = 3 } };
	struct fleet_answer a = { .view = 1, .view_lost = true, .err = { ERR_TIMEOUT, "too slow:\nask for \x1b[1mless" } }, back;
	struct fleet_result r;
	struct arena arena;
	struct err e = { 0 };
	(void)state;
	arena_init(&arena, 0);
	encode_answer(&out, &a, NULL, NULL, &q);
	assert_int_equal(fleet_answer_decode(&back, &r, buf_view(&out), &q.call, NULL, &arena, &e), 0);
	assert_int_equal(back.err.code, ERR_TIMEOUT);
	assert_string_equal(back.err.msg, "too slow: ask for  [1mless"); /* one line */
	assert_true(back.view_lost && r.n == 0 && !r.floats);
	fleet_result_release(&r);
	struct fleet_floats floats[3] = { 0 };
	struct fleet_result none = { .op = FLEET_FLOATS, .n = 3, .floats = floats };
	a.err.code = ERR_NONE;
	out.max = 20;
	buf_reset(&out);
	assert_int_equal(fleet_answer_encode(&out, &a, &none, NULL, &q, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "more than 20 bytes"));
	buf_free(&out);
	arena_free(&arena);
}

/* ---- a source ---- */

#define SERIES 40

static struct stackvec *source_vector(struct symbols *s, unsigned series)
{
	uint32_t *columns = xcalloc(8, sizeof *columns);
	int64_t *values = xcalloc(8, sizeof *values);
	size_t n = 0;
	for (unsigned i = 0; i < 5; i++) {
		char name[32];
		snprintf(name, sizeof name, "function%u", (series + i) % 17);
		struct sym_function f = { .name = symbols_string(s, view_of(name)), .filename = symbols_string(s, VIEW("main.go")), .start_line = i };
		struct sym_line line = { .function = symbols_function(s, &f) + 1, .line = 10 + i };
		struct sym_location l = { .address = 4096 + 16 * ((series + i) % 17), .n_lines = 1 };
		uint32_t location = symbols_location(s, &l, &line), column = symbols_column(s, symbols_stack(s, &location, 1), 0);
		size_t at = n;
		for (; at && columns[at - 1] > column; at--)
			columns[at] = columns[at - 1];
		columns[at] = column;
		values[n++] = (int64_t)(1 + wirekit_random(100)) * 10000000;
	}
	return stackvec_new_ints(s, columns, values, n);
}

static void source_fill(struct memsource *m)
{
	struct err e;
	struct ptype type;
	assert_true(ptype_parse(VIEW("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"), &type));
	type.kind = PROFILE_DELTA;
	for (unsigned i = 0; i < SERIES; i++) {
		char pod[40];
		snprintf(pod, sizeof pod, "checkout-7d9f8b6c5-%05x", (unsigned)(hash_u64(i) & 0xfffff));
		const struct label l[] = { { VIEW("__name__"), i % 2 ? VIEW("process_cpu") : VIEW("requests_total") },
					   { VIEW("cluster"), VIEW("eu-west-1") },
					   { VIEW("job"), i % 4 < 2 ? VIEW("checkout") : VIEW("cart") },
					   { VIEW("pod"), view_of(pod) } };
		int64_t t = T0 + (int64_t)wirekit_random(15000);
		double v = (double)wirekit_random(100000);
		for (unsigned k = 0; k < 200; k++, t += 15000 + (int64_t)wirekit_random(5)) {
			v += (double)wirekit_random(1000);
			if (i % 2) {
				struct source_profile p = { .t_ms = t, .duration_ns = 15000000000 + (int64_t)wirekit_random(3000000), .cover_ms = 15000, .interval_ms = 15000,
							    .weight = 1, .period = 10000000, .stale = k == 150 };
				struct stackvec *x = p.stale ? NULL : source_vector(memsource_symbols(m), i + k);
				assert_int_equal(memsource_add_profile(m, (struct labels){ l, 4 }, &type, &p, x, &e), 0);
				stackvec_unref(x);
			} else {
				assert_int_equal(memsource_add_float(m, (struct labels){ l, 4 }, t, k == 100 ? value_from_bits(VALUE_STALE_BITS) : v, &e), 0);
			}
		}
	}
}

/* How many things an answer's bytes are of. */
static size_t result_elements(const struct fleet_result *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		n += r->floats ? r->floats[i].n : r->profiles ? r->profiles[i].n : r->covers ? r->n_tiles + r->covers[i][0].spans.n : r->vecs ? r->vecs[i]->n : 1;
	return n;
}

static void ask_source(struct memsource *m, struct fleet_question *q, struct fleet_dictionary_out *out, struct fleet_dictionary_in *in, double most)
{
	struct source_view *v;
	struct fleet_result r, back;
	struct fleet_answer a = { .session = 7 }, back_a;
	struct arena arena;
	struct buf b = { 0 };
	struct err e = { 0 };
	fleet_dictionary_in_marks(in, &q->session, &q->has);
	arena_init(&arena, 0);
	assert_int_equal(memsource_source(m)->open(memsource_source(m), &v, &e), 0);
	if (fleet_call_run(v, &q->call, NULL, NULL, NULL, NULL, &r, &e))
		fail_msg("%s: %s", wirekit_op_names[q->call.op], e.msg);
	encode_answer(&b, &a, &r, out, q);
	if (fleet_answer_decode(&back_a, &back, buf_view(&b), &q->call, in, &arena, &e))
		fail_msg("%s: %s", wirekit_op_names[q->call.op], e.msg);
	check_results(&r, &back, q->call.detail == SYMBOLS_WHOLE);
	size_t n = result_elements(&r);
	assert_true(n);
	print_message("%s: %zu bytes, %zu elements, %.2f bytes each\n", wirekit_op_names[q->call.op], b.len, n, (double)b.len / (double)n);
	assert_true((double)b.len <= most * (double)n);
	fleet_result_release(&r);
	fleet_result_release(&back);
	arena_free(&arena);
	buf_free(&b);
	v->ops->release(v);
}

static void ask_parts(struct memsource *m, struct fleet_dictionary_out *out, struct fleet_dictionary_in *in, const struct source_frame_filter *f)
{
	struct source_part parts[SERIES / 2];
	size_t n = 0;
	for (uint64_t ref = 0; ref < SERIES / 2; ref++) /* profiles are sorted first: their name is smaller */
		parts[n++] = (struct source_part){ .ref = ref, .after_ms = T0, .until_ms = T0 + 60000, .scale = 1, .group = 0, .n_steps = 40, .step_ms = 60000 };
	struct fleet_question merge = { .call = { .op = FLEET_MERGE, .parts = parts, .n_parts = n, .n_groups = 40 } };
	ask_source(m, &merge, out, in, 12); /* with names */
	ask_source(m, &merge, out, in, 6);
	merge.call.detail = SYMBOLS_NAMES;
	ask_source(m, &merge, out, in, 12);
	struct fleet_question sums = { .call = { .op = FLEET_SUMS, .parts = parts, .n_parts = n, .n_groups = 45, .filter = f, .exact = true } };
	ask_source(m, &sums, out, in, 9);
	sums.call.exact = false;
	ask_source(m, &sums, out, in, 9);
	sums.call.op = FLEET_SHARES;
	ask_source(m, &sums, out, in, 16);
}

static void test_source(void **state)
{
	struct memsource *m = memsource_new();
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(64 << 20);
	struct err e;
	struct matcher is_function = { 0 };
	uint64_t refs[SERIES];
	(void)state;
	source_fill(m);
	for (uint64_t i = 0; i < SERIES; i++)
		refs[i] = i;
	assert_int_equal(matcher_init(&is_function, MATCH_RE, VIEW("function"), VIEW("function[1-5]"), &e), 0);
	struct source_frame_filter filter = { .m = &is_function, .n = 1 };
	struct fleet_question q = { .call = { .op = FLEET_SELECT, .after_ms = T0, .until_ms = T0 + HOUR, .refs = refs,
					     .n_refs = SERIES, .filter = &filter } };
	ask_source(m, &q, out, in, 45);
	q.call.op = FLEET_TYPES;
	ask_source(m, &q, out, in, 150);
	q.call.op = FLEET_LABEL_NAMES;
	ask_source(m, &q, out, in, 30);
	q.call.op = FLEET_LABEL_VALUES;
	q.call.label = VIEW("pod");
	ask_source(m, &q, out, in, 30);
	q.call.op = FLEET_FLOATS;
	ask_source(m, &q, out, in, 5);
	q.call.op = FLEET_PROFILES;
	ask_source(m, &q, out, in, 12);
	q.call.op = FLEET_MATCHES;
	ask_source(m, &q, out, in, 16);
	struct source_tiles tiles = { T0, 60000, 60 };
	q.call.op = FLEET_COVERS;
	q.call.tiles = &tiles;
	ask_source(m, &q, out, in, 5);
	tiles = (struct source_tiles){ T0, HOUR, 1 };
	ask_source(m, &q, out, in, 4); /* and spans */
	ask_parts(m, out, in, &filter);
	matcher_release(&is_function);
	fleet_dictionary_out_free(out);
	fleet_dictionary_in_free(in);
	memsource_free(m);
}

/* A source without the optional calls answers by those that it has. */
static int profiles_alone(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
			  source_profiles_fn fn, void *arg, struct err *e)
{
	(void)v, (void)refs, (void)lim;
	assert_true(after_ms == T0 && until_ms == T0 + 3 * HOUR);
	for (size_t i = 0; i < n; i++) {
		struct source_profile *p = xcalloc(2, sizeof *p);
		p[0] = (struct source_profile){ .t_ms = T0 + HOUR, .cover_ms = 1000, .weight = 1, .total = 7, .period = 3 };
		p[1] = (struct source_profile){ .t_ms = T0 + HOUR + 1, .weight = 1, .stale = true };
		int rc = fn(arg, i, p, 2, e);
		if (rc)
			return rc;
	}
	return 0;
}

static void test_plain_source(void **state)
{
	const struct source_ops ops = { .profiles = profiles_alone };
	struct source_view view = { &ops };
	const uint64_t refs[] = { 4 };
	struct source_tiles tiles = { T0, HOUR, 3 };
	struct fleet_call c = { .op = FLEET_COVERS, .refs = refs, .n_refs = 1, .tiles = &tiles, .after_ms = T0, .until_ms = T0 + 3 * HOUR };
	struct fleet_result r = { 0 };
	struct err e = { 0 };
	(void)state;
	assert_int_equal(fleet_call_run(&view, &c, NULL, NULL, NULL, NULL, &r, &e), 0);
	assert_true(r.covers[0][0].n == 1 && r.covers[0][0].total == 7 && r.covers[0][0].period == 3 && !r.covers[0][0].spans.n);
	assert_true(r.covers[0][1].n == 1 && r.covers[0][1].n_stale == 1 && !r.covers[0][2].n);
	fleet_result_release(&r);
	tiles = (struct source_tiles){ T0, 3 * HOUR, 1 };
	assert_int_equal(fleet_call_run(&view, &c, NULL, NULL, NULL, NULL, &r, &e), 0);
	assert_true(r.covers[0][0].n == 2 && r.covers[0][0].spans.n == 1);
	fleet_result_release(&r);
	c.op = FLEET_POINTS;
	assert_int_equal(fleet_call_run(&view, &c, NULL, NULL, NULL, NULL, &r, &e), 0);
	assert_true(r.n == 1 && !r.points[0].plain);
	fleet_result_release(&r);
	for (enum fleet_op op = FLEET_SHARES; op <= FLEET_MATCHES; op++) {
		c.op = op;
		assert_int_equal(fleet_call_run(&view, &c, NULL, NULL, NULL, NULL, &r, &e), -ERR_BAD_DATA);
		assert_non_null(strstr(e.msg, "not supported"));
		assert_true(!r.n && !r.profiles);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_questions), cmocka_unit_test(test_answers), cmocka_unit_test(test_errors), cmocka_unit_test(test_source),
		cmocka_unit_test(test_plain_source),
	};
	wirekit_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
