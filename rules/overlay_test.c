/* SPDX-License-Identifier: Apache-2.0 */
/* What is stored and what rules have written, read together: each result under the number that the caller gave its series. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "promql-like/memsource.h"
#include "rules/overlay.h"

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"
#define HIDDEN "hidden:cpu:nanoseconds:cpu:nanoseconds:delta"

struct both {
	struct memsource *stored;
	struct overlay *o;
	struct source_view *v;
	struct source_series *s;
	size_t n;
	uint64_t refs[16];
};

static struct ptype type_of(const char *name)
{
	struct ptype t;
	assert_true(ptype_parse(view_of(name), &t));
	return t;
}

static void store_profile(struct both *b, const char *name, const char *pod, int64_t t_ms)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("pod"), view_of(pod) } };
	struct ptype type = type_of(name);
	const struct source_profile p = { .t_ms = t_ms, .cover_ms = 1000, .interval_ms = 1000, .weight = 1, .stale = true };
	struct err e;
	assert_int_equal(memsource_add_profile(b->stored, (struct labels){ l, 2 }, &type, &p, NULL, &e), 0);
}

static void record_profile(struct both *b, const char *name, const char *pod, int64_t t_ms)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("pod"), view_of(pod) } };
	struct sink_column c = { .labels = { l, 2 }, .type = type_of(name) };
	struct sink_profile p = { .t_ms = t_ms, .interval_ms = 1000, .columns = &c, .n_columns = 1 };
	struct err e;
	assert_int_equal(overlay_sink(b->o)->append(overlay_sink(b->o), &(struct sink_batch){ .profiles = &p, .n_profiles = 1 }, NULL, &e), 0);
}

static void record_float(struct both *b, const char *pod, double v)
{
	struct label l[] = { { VIEW(LABEL_NAME), VIEW("up") }, { VIEW("pod"), view_of(pod) } };
	struct sink_float f = { .labels = { l, 2 }, .t_ms = 1000, .v = v };
	struct err e;
	assert_int_equal(overlay_sink(b->o)->append(overlay_sink(b->o), &(struct sink_batch){ .floats = &f, .n_floats = 1 }, NULL, &e), 0);
}

/* Floats 1 .. 4 and profiles at 1 .. 4 s, of pods a .. d: b and d are stored, a and c are recorded. */
static void both_open(struct both *b)
{
	static const struct view hidden[] = { { HIDDEN, sizeof HIDDEN - 1 } };
	struct label up_b[] = { { VIEW(LABEL_NAME), VIEW("up") }, { VIEW("pod"), VIEW("b") } }, up_d[] = { { VIEW(LABEL_NAME), VIEW("up") }, { VIEW("pod"), VIEW("d") } };
	struct err e;
	*b = (struct both){ .stored = memsource_new() };
	b->o = overlay_new(memsource_source(b->stored), &(struct overlay_hidden){ hidden, 1, NULL, 0 }, 1000, 1 << 20);
	assert_int_equal(memsource_add_float(b->stored, (struct labels){ up_b, 2 }, 1000, 2, &e), 0);
	assert_int_equal(memsource_add_float(b->stored, (struct labels){ up_d, 2 }, 1000, 4, &e), 0);
	store_profile(b, CPU, "b", 2000);
	store_profile(b, CPU, "d", 4000);
	store_profile(b, HIDDEN, "b", 2000);
	record_float(b, "a", 1);
	record_float(b, "c", 3);
	record_profile(b, CPU, "a", 1000);
	record_profile(b, CPU, "c", 3000);
	assert_int_equal(overlay_source(b->o)->open(overlay_source(b->o), &b->v, &e), 0);
	assert_int_equal(b->v->ops->select(b->v, NULL, 0, 0, 10000, NULL, &b->s, &b->n, &e), 0);
	assert_int_equal(b->n, 8);
	for (size_t i = 0; i < b->n; i++)
		b->refs[i] = b->s[i].ref;
}

static void both_close(struct both *b)
{
	b->v->ops->release(b->v);
	free(b->s);
	overlay_free(b->o);
	memsource_free(b->stored);
}

static int see_floats(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	(void)e;
	assert_int_equal(n, 1);
	((double *)arg)[series] = v[0].v;
	free(v);
	return 0;
}

static int see_profiles(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	(void)e;
	assert_int_equal(n, 1);
	((double *)arg)[series] = (double)v[0].t_ms / 1000;
	free(v);
	return 0;
}

static int see_covers(void *arg, size_t series, struct source_cover *v, struct err *e)
{
	(void)e;
	for (size_t i = 0; i < 4; i++)
		if (v[i].n)
			((double *)arg)[series] = (double)(i + 1);
	source_covers_free(v, 4);
	return 0;
}

static void as_pods(const double *got)
{
	for (size_t i = 0; i < 4; i++)
		assert_true(got[i] == (double)(i + 1));
}

static void test_calls_keep_the_callers_numbers(void **unused)
{
	(void)unused;
	struct both b;
	double got[4] = { 0 };
	struct err e;
	both_open(&b);
	size_t profiles = b.s[0].type ? 0 : 4, floats = 4 - profiles;
	assert_int_equal(b.v->ops->floats(b.v, b.refs + floats, 4, 0, 10000, NULL, see_floats, got, &e), 0);
	as_pods(got);
	memset(got, 0, sizeof got);
	assert_int_equal(b.v->ops->profiles(b.v, b.refs + profiles, 4, 0, 10000, NULL, see_profiles, got, &e), 0);
	as_pods(got);
	memset(got, 0, sizeof got);
	assert_int_equal(b.v->ops->covers(b.v, b.refs + profiles, 4, &(struct source_tiles){ 0, 1000, 4 }, NULL, see_covers, got, &e), 0);
	as_pods(got);
	both_close(&b);
}

static void test_types(void **unused)
{
	(void)unused;
	struct both b;
	struct source_type *t;
	size_t n;
	struct err e;
	both_open(&b);
	assert_int_equal(b.v->ops->types(b.v, 0, 10000, NULL, &t, &n, &e), 0);
	assert_int_equal(n, 1); /* without the hidden one */
	assert_true(view_eqs(t[0].name, CPU) && t[0].n_series == 4);
	free(t);
	assert_int_equal(b.v->ops->types(b.v, 2500, 3500, NULL, &t, &n, &e), 0);
	assert_true(n == 1 && t[0].n_series == 1);
	free(t);
	both_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_calls_keep_the_callers_numbers), cmocka_unit_test(test_types) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
