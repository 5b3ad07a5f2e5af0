/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of rules: a storage in memory that is written and read at once, with notes; a clock set by the test; and a notifier that
 * records alerts. A kill is kit_kill, and kit_rules after it. cmocka.h comes before this. */
#ifndef PYRRHA_RULES_TESTKIT_H
#define PYRRHA_RULES_TESTKIT_H

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "config/config_top.h"
#include "promql-like/memsource.h"
#include "rules/group.h"

struct kit_note {
	char *key, *value;
	size_t key_len, value_len;
	int64_t t_ms;
};

struct kit {
	struct sink sink; /* first */
	struct memsource *mem;
	struct promql_engine *engine;
	struct alert_sink alerts;
	struct rules_options o;
	struct rules *rules;
	VEC(struct kit_note) notes;
	struct buf told;             /* of alerts, a line each */
	struct buf written;          /* series in the order they were written: "name{...} value @seconds" */
	unsigned batches;
	bool refuse, fail, no_notes; /* what comes is not taken; is lost */
	const char *refused_name;    /* floats of that name are refused */
	double weight;               /* of profiles that kit_put_profile puts; 0 = 1 */
};

static inline void kit_keep_note(struct kit *k, const struct sink_note *n)
{
	for (size_t i = 0; i < k->notes.n; i++)
		if (view_eq(view_make(k->notes.v[i].key, k->notes.v[i].key_len), n->key)) {
			free(k->notes.v[i].key);
			free(k->notes.v[i].value);
			k->notes.v[i] = k->notes.v[--k->notes.n];
			break;
		}
	if (n->value.len)
		vec_push(&k->notes, (struct kit_note){ xstrndup(n->key.ptr, 0), NULL, n->key.len, n->value.len, n->t_ms });
	if (n->value.len) { /* bytes, NULs too */
		struct kit_note *x = &k->notes.v[k->notes.n - 1];
		free(x->key);
		x->key = memcpy(xmalloc(n->key.len), n->key.ptr, n->key.len);
		x->value = memcpy(xmalloc(n->value.len), n->value.ptr, n->value.len);
	}
}

static inline void kit_keep_profile(struct kit *k, const struct sink_profile *p)
{
	struct err e = { 0 };
	struct stackvec *v[8] = { 0 };
	const struct sink_column *c = &p->columns[0];
	const struct source_profile x = { .t_ms = p->t_ms, .duration_ns = p->duration_ns, .cover_ms = p->cover_ms ? p->cover_ms : p->interval_ms, .interval_ms = p->interval_ms,
					  .weight = source_weight(p->interval_ms, p->asked_ms), .period = p->period, .stale = !p->profile };
	if (p->profile)
		assert_int_equal(stackvec_from_profile(memsource_symbols(k->mem), p->profile, v, &e), 0);
	assert_int_equal(memsource_add_profile(k->mem, c->labels, &c->type, &x, v[0], &e), 0);
	labels_format(c->labels, &k->written);
	buf_printf(&k->written, " %s @%lld\n", p->profile ? "profile" : "stale", (long long)p->t_ms / 1000);
	stackvec_unref(v[0]);
}

static inline MUST_USE int kit_append(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct kit *k = (struct kit *)(void *)s;
	struct err lost = { 0 };
	if (k->refuse)
		return err_set(e, ERR_IO, "the disk is full");
	k->batches++;
	for (size_t i = 0; i < b->n_floats && !k->fail; i++) {
		const struct sink_float *f = &b->floats[i];
		char number[NUM_LEN];
		if (k->refused_name && view_eqs(labels_get(f->labels, VIEW(LABEL_NAME)), k->refused_name)) {
			b->refused(b->refused_arg, false, i, "too old");
			continue;
		}
		assert_int_equal(memsource_add_float(k->mem, f->labels, f->t_ms, f->v, e), 0);
		labels_format(f->labels, &k->written);
		buf_printf(&k->written, " %s @%lld\n", value_is_stale(f->v) ? "stale" : num_format(f->v, number), (long long)f->t_ms / 1000);
	}
	for (size_t i = 0; i < b->n_profiles && !k->fail; i++)
		kit_keep_profile(k, &b->profiles[i]);
	for (size_t i = 0; i < b->n_notes && !k->fail; i++)
		kit_keep_note(k, &b->notes[i]);
	if (k->fail)
		err_set(&lost, ERR_IO, "the disk is full");
	if (ret)
		*ret = (struct sink_result){ .floats = (uint32_t)b->n_floats, .profiles = (uint32_t)b->n_profiles };
	if (b->done)
		b->done(b->done_arg, &lost);
	return 0;
}

static inline MUST_USE int kit_notes(struct sink *s, struct view prefix, void (*note)(void *arg, const struct sink_note *n), void *arg, struct err *e)
{
	struct kit *k = (struct kit *)(void *)s;
	(void)e;
	for (size_t i = 0; i < k->notes.n; i++) {
		const struct sink_note n = { view_make(k->notes.v[i].key, k->notes.v[i].key_len),
					     view_make(k->notes.v[i].value, k->notes.v[i].value_len), k->notes.v[i].t_ms };
		if (view_starts(n.key, prefix))
			note(arg, &n);
	}
	return 0;
}

static inline void kit_tell(void *arg, const struct alert *a, size_t n)
{
	struct kit *k = arg;
	for (size_t i = 0; i < n; i++) {
		labels_format(a[i].labels, &k->told);
		buf_printf(&k->told, " %s %lld-%lld\n", a[i].resolved ? "resolved" : "firing", (long long)a[i].starts_at_ms / 1000,
			   (long long)a[i].ends_at_ms / 1000);
	}
}

static inline void kit_init(struct kit *k)
{
	*k = (struct kit){ .mem = memsource_new(), .sink.append = kit_append, .sink.notes = kit_notes };
	const struct promql_options o = { .max_concurrency = 2 };
	k->engine = promql_engine_new(memsource_source(k->mem), &o);
	k->alerts = (struct alert_sink){ kit_tell, k };
	k->o = (struct rules_options){ .engine = k->engine, .source = memsource_source(k->mem), .sink = &k->sink, .alerts = &k->alerts,
				       .external_url = "http://x", .manual = true };
}

static const struct config_global kit_global = { .evaluation_interval_ms = 60000 };

/* Rules of a file "r.yml". */
static inline void kit_rules(struct kit *k, const char *text)
{
	struct rules_config *c = NULL;
	struct err e = { 0 };
	if (k->no_notes)
		k->sink.notes = NULL;
	if (rules_config_read(&c, view_of(text), "r.yml", &kit_global, NULL, &e))
		fail_msg("%s", e.msg);
	if (!k->rules)
		assert_int_equal(rules_new(&k->rules, &k->o, &e), 0);
	assert_int_equal(rules_apply(k->rules, c, &e), 0);
	rules_config_unref(c);
}

/* As a kill: what is in memory is gone. */
static inline void kit_kill(struct kit *k)
{
	rules_free(k->rules);
	k->rules = NULL;
}

static inline void kit_free(struct kit *k)
{
	kit_kill(k);
	promql_engine_free(k->engine);
	memsource_free(k->mem);
	for (size_t i = 0; i < k->notes.n; i++) {
		free(k->notes.v[i].key);
		free(k->notes.v[i].value);
	}
	vec_free(&k->notes);
	buf_free(&k->told);
	buf_free(&k->written);
}

/* name{a=b} by its only label: kit_set(k, "up", "pod=a", seconds, value). labels may be "". */
static inline void kit_set(struct kit *k, const char *name, const char *labels, int64_t s, double v)
{
	struct labels_builder b;
	struct err e = { 0 };
	const char *eq = strchr(labels, '=');
	labels_builder_init(&b, (struct labels){ 0 });
	labels_builder_set(&b, VIEW(LABEL_NAME), view_of(name));
	if (eq)
		labels_builder_set(&b, view_make(labels, (size_t)(eq - labels)), view_of(eq + 1));
	assert_int_equal(memsource_add_float(k->mem, labels_builder_finish(&b), s * 1000, v, &e), 0);
	labels_builder_free(&b);
}

static inline void kit_stale(struct kit *k, const char *name, const char *labels, int64_t s)
{
	kit_set(k, name, labels, s, value_from_bits(VALUE_STALE_BITS));
}

#define KIT_CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"

/* A profile of one stack of that function. */
static inline void kit_put_profile(struct kit *k, const char *name, const char *pod, int64_t s, const char *function, int64_t value)
{
	struct symbols *y = memsource_symbols(k->mem);
	struct sym_function f = { .name = symbols_string(y, view_of(function)) };
	struct sym_line line = { .function = symbols_function(y, &f) + 1 };
	struct sym_location l = { .n_lines = 1 };
	uint32_t location = symbols_location(y, &l, &line);
	uint32_t *columns = xmalloc(sizeof *columns);
	int64_t *values = xmalloc(sizeof *values);
	struct labels_builder b;
	struct ptype t;
	struct err e = { 0 };
	columns[0] = symbols_column(y, symbols_stack(y, &location, 1), 0);
	values[0] = value;
	struct stackvec *v = stackvec_new_ints(y, columns, values, 1);
	assert_true(ptype_parse(view_of(name), &t));
	const struct source_profile p = { .t_ms = s * 1000, .interval_ms = 10000, .cover_ms = 10000, .weight = k->weight ? k->weight : 1,
					  .duration_ns = t.kind == PROFILE_GAUGE ? 0 : 10000000000 };
	labels_builder_init(&b, (struct labels){ 0 });
	labels_builder_set(&b, VIEW(LABEL_NAME), view_of(name));
	labels_builder_set(&b, VIEW("pod"), view_of(pod));
	assert_int_equal(memsource_add_profile(k->mem, labels_builder_finish(&b), &t, &p, v, &e), 0);
	labels_builder_free(&b);
	stackvec_unref(v);
}

/* The answer as "{labels} value" lines. */
static inline void kit_ask(struct kit *k, const char *query, int64_t s, struct buf *out)
{
	struct promql_result q;
	struct err e = { 0 };
	char number[NUM_LEN];
	if (promql_instant(k->engine, view_of(query), s * 1000, &(struct promql_params){ .asker = PROMQL_PEOPLE }, &q, &e))
		fail_msg("%s: %s", query, e.msg);
	buf_reset(out);
	for (size_t i = 0; i < q.n_series; i++) {
		labels_format(q.series[i].labels, out);
		buf_printf(out, " %s\n", num_format(q.series[i].points[0].v, number));
	}
	promql_result_release(&q);
}

static inline void kit_expect_answer(struct kit *k, const char *query, int64_t s, const char *want)
{
	struct buf b = { 0 };
	kit_ask(k, query, s, &b);
	assert_string_equal(b.len ? b.ptr : "", want);
	buf_free(&b);
}

static inline void kit_expect_same(struct kit *k, const char *a, const char *b, int64_t s)
{
	struct buf x = { 0 }, y = { 0 };
	kit_ask(k, a, s, &x);
	kit_ask(k, b, s, &y);
	assert_true(x.len > 0);
	assert_string_equal(x.ptr, y.ptr);
	buf_free(&x);
	buf_free(&y);
}

static inline void kit_at(struct kit *k, int64_t s)
{
	rules_evaluate(k->rules, s * 1000);
}

/* The collected alerts since the last call, as lines. */
static inline void kit_expect(struct buf *b, const char *want, const char *file, int line)
{
	if (strcmp(b->len ? b->ptr : "", want) != 0)
		_assert_string_equal(b->len ? b->ptr : "", want, file, line);
	buf_reset(b);
}
#define expect_told(k, want) kit_expect(&(k)->told, want, __FILE__, __LINE__)
#define expect_written(k, want) kit_expect(&(k)->written, want, __FILE__, __LINE__)

static inline bool kit_state_line(void *arg, const struct status_rule_group *g)
{
	struct buf *out = arg;
	for (size_t r = 0; r < g->n_rules; r++) {
		buf_printf(out, "%.*s %s", VIEW_ARG(g->rules[r].name), rule_health_text(g->rules[r].health));
		if (g->rules[r].last_error.len)
			buf_printf(out, ": %.*s", VIEW_ARG(g->rules[r].last_error));
		for (size_t i = 0; i < g->rules[r].n_alerts; i++) {
			const struct status_alert *a = &g->rules[r].alerts[i];
			buf_printf(out, "\n  ");
			labels_format(a->labels, out);
			buf_printf(out, " %s since %lld value %g", alert_state_text(a->state), (long long)a->active_at_ms / 1000, a->value);
		}
		buf_putc(out, '\n');
	}
	return true;
}
static inline void kit_expect_state(struct kit *k, const char *want, const char *file, int line)
{
	struct buf b = { 0 };
	struct status_rules *s = rules_status(k->rules);
	s->groups(s, &(struct status_rules_query){ true, kit_state_line, &b });
	kit_expect(&b, want, file, line);
	buf_free(&b);
}
#define expect_state(k, want) kit_expect_state(k, want, __FILE__, __LINE__)

#endif
