/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a query's answer with the expected one: values, stacks, warnings, errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/regex.h"
#include "promql-like/eval/eval.h"
#include "promql-like/testlang/testlang_case.h"

static PRINTF_LIKE(3, 4) void fail(struct runner *r, const struct eval_case *c, const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	buf_printf(&r->r->log, "%.*s:%zu: FAIL %.*s\n    %s\n", VIEW_ARG(r->name), c->line, VIEW_ARG(c->query), text);
}

bool testlang_nearly(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (a == b)
		return true;
	if (isinf(a) || isinf(b))
		return false;
	double sum = fabs(a) + fabs(b), diff = fabs(a - b);
	if (a == 0 || b == 0 || sum < 2.2250738585072014e-308)
		return diff < 1e-6 * 2.2250738585072014e-308;
	return diff / fmin(sum, 1.7976931348623157e308) < 1e-6;
}

static bool text_matches(const struct expectation *x, struct view text)
{
	if (x->any)
		return true;
	if (!x->regex)
		return view_eq(x->text, text);
	struct regex *re;
	struct err e = { 0 };
	if (regex_new(&re, x->text, false, &e))
		return false;
	int rc = regex_match(re, text, NULL, &e);
	regex_unref(re);
	return rc > 0;
}

static bool check_notes(struct runner *r, const struct eval_case *c, const char *kind, const struct view *notes, size_t n)
{
	char none[16];
	bool any = false;
	snprintf(none, sizeof none, "no_%s", kind);
	for (size_t i = 0; i < c->expects.n; i++) {
		const struct expectation *x = &c->expects.v[i];
		if (strcmp(x->kind, none) == 0 && n) {
			fail(r, c, "unexpected %s: %.*s", kind, VIEW_ARG(notes[0]));
			return false;
		}
		if (strcmp(x->kind, kind) != 0)
			continue;
		any = true;
		bool found = false;
		for (size_t k = 0; k < n; k++)
			found |= text_matches(x, notes[k]);
		if (!found) {
			fail(r, c, "no %s like: %.*s; there are %zu%s%.*s", kind, VIEW_ARG(x->text), n, n ? ", the first: " : "",
			     VIEW_ARG(n ? notes[0] : VIEW("")));
			return false;
		}
	}
	for (size_t k = 0; k < n && any; k++) {
		bool found = false;
		for (size_t i = 0; i < c->expects.n; i++)
			found |= strcmp(c->expects.v[i].kind, kind) == 0 && text_matches(&c->expects.v[i], notes[k]);
		if (!found) {
			fail(r, c, "a %s that is not expected: %.*s", kind, VIEW_ARG(notes[k]));
			return false;
		}
	}
	return true;
}

static void describe(const struct promql_result *got, struct buf *out)
{
	for (size_t i = 0; i < got->n_series && i < 12; i++) {
		buf_puts(out, i ? " ; " : "got ");
		labels_format(got->series[i].labels, out);
		for (size_t k = 0; k < got->series[i].n && k < 8; k++)
			buf_printf(out, " %.12g@%lld", got->series[i].points[k].v, (long long)got->series[i].points[k].t_ms);
	}
	if (!got->n_series)
		buf_puts(out, "got nothing");
}

bool testlang_fail_with(struct runner *r, const struct eval_case *c, const char *what, const struct promql_result *got)
{
	struct buf b = { .max = 1500 };
	describe(got, &b);
	fail(r, c, "%s; %s", what, b.ptr ? b.ptr : "");
	buf_free(&b);
	return false;
}

struct expected {
	struct labels labels;
	struct testlang_values v;
};

static const struct expectation *range_expectation(const struct eval_case *c)
{
	for (size_t i = 0; i < c->expects.n; i++)
		if (strcmp(c->expects.v[i].kind, "range") == 0)
			return &c->expects.v[i];
	return NULL;
}

/* The position of value i of an expected series; an instant one has a single value. */
static int64_t time_of(const struct eval_case *c, size_t i)
{
	const struct expectation *x = range_expectation(c);
	if (x)
		return x->from + (int64_t)i * x->step;
	return c->at + (int64_t)i * c->step;
}

static bool check_series(struct runner *r, const struct eval_case *c, const struct expected *x,
			 const struct promql_series *s, const struct promql_result *got)
{
	size_t k = 0;
	for (size_t i = 0; i < x->v.v.n; i++) {
		if (x->v.v.v[i].absent)
			continue;
		if (k == s->n || s->points[k].t_ms != time_of(c, i) || !testlang_nearly(s->points[k].v, x->v.v.v[i].v))
			return testlang_fail_with(r, c, "a value differs", got);
		k++;
	}
	return k == s->n ? true : testlang_fail_with(r, c, "more values than expected", got);
}

static bool check_expected(struct runner *r, const struct eval_case *c, struct expected *x, size_t n,
			   const struct promql_result *got)
{
	size_t with_values = 0;
	for (size_t i = 0; i < n; i++) {
		bool any = false;
		for (size_t k = 0; k < x[i].v.v.n; k++)
			any |= !x[i].v.v.v[k].absent;
		with_values += any;
		const struct promql_series *s = NULL;
		for (size_t k = 0; k < got->n_series && !s; k++)
			if (labels_eq(got->series[k].labels, x[i].labels) && (!c->ordered || k == i))
				s = &got->series[k];
		if (!s && any)
			return testlang_fail_with(r, c, "a series is missing (or out of order)", got);
		if (s && !check_series(r, c, &x[i], s, got))
			return false;
	}
	if (got->n_series != with_values)
		return testlang_fail_with(r, c, "more series than expected", got);
	return true;
}

static bool check_values(struct runner *r, const struct eval_case *c, const struct promql_result *got)
{
	for (size_t i = 0; i < c->expects.n; i++)
		if (strcmp(c->expects.v[i].kind, "string") == 0) {
			if (got->type == PROMQL_STRING && view_eq(got->string, c->expects.v[i].text))
				return true;
			fail(r, c, "expected the string %.*s", VIEW_ARG(c->expects.v[i].text));
			return false;
		}
	struct view line = c->body.l.n ? c->body.l.v[0] : VIEW("");
	const char *error = "";
	struct testlang_values one = { 0 };
	if (got->type == PROMQL_SCALAR) {
		bool ok = testlang_values(line, &one, &error) && one.v.n == 1 && testlang_nearly(one.v.v[0].v, got->scalar);
		vec_free(&one.v);
		if (!ok)
			fail(r, c, "got the scalar %.17g", got->scalar);
		return ok;
	}
	struct expected *x = xcalloc(c->body.l.n + 1, sizeof *x);
	bool ok = true;
	size_t n = 0;
	for (; n < c->body.l.n && ok; n++) {
		line = c->body.l.v[n];
		ok = testlang_labels(&r->arena, &line, &x[n].labels, &error) && testlang_values(line, &x[n].v, &error);
		if (!ok)
			fail(r, c, "cannot read what is expected: %s", error);
	}
	ok = ok && check_expected(r, c, x, n, got);
	for (size_t i = 0; i < c->body.l.n; i++)
		vec_free(&x[i].v.v);
	free(x);
	return ok;
}

/* ---- stacks ---- */

static int difference(const struct stackvec *want, const struct promql_profile *p, double *ret_worst)
{
	struct err e = { 0 };
	struct symbols *to = symbols_new();
	struct stackvec *v[] = { (struct stackvec *)want, p->vec, p->base };
	double scales[] = { 1, -1, 1 };
	struct stackvec *d = stackvec_sum(to, v, scales, p->base ? 3 : 2, &e);
	symbols_unref(to);
	*ret_worst = 0;
	if (!d)
		return -1;
	for (size_t i = 0; i < d->n; i++)
		*ret_worst = fmax(*ret_worst, fabs(d->is_float ? d->floats[i] : (double)d->ints[i]));
	stackvec_unref(d);
	return 0;
}

static void describe_stacks(const struct stackvec *v, struct buf *out)
{
	for (size_t i = 0; i < v->n && i < 20; i++) {
		uint32_t locs[64];
		size_t n = symbols_stack_locations(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack, locs, 64);
		buf_puts(out, i ? " | " : "");
		for (size_t k = MIN(n, 64); k-- > 0;) {
			const struct sym_location *l = symbols_get_location(v->symbols, locs[k]);
			for (uint32_t j = l->n_lines; j-- > 0;) {
				uint32_t f = symbols_get_line(v->symbols, l, j)->function;
				buf_printf(out, "%s%.*s;", j + 1 < l->n_lines ? "~" : "",
					   VIEW_ARG(symbols_get_string(v->symbols, f ? symbols_get_function(v->symbols, f - 1)->name : 0)));
			}
			if (!l->n_lines)
				buf_printf(out, "0x%llx;", (unsigned long long)l->address);
		}
		buf_printf(out, " %.12g", v->is_float ? v->floats[i] : (double)v->ints[i]);
	}
}

static bool check_stacks(struct runner *r, const struct eval_case *c, const struct promql_result *got)
{
	if (got->n_series != c->body.l.n)
		return testlang_fail_with(r, c, "another number of profiles", got);
	for (size_t i = 0; i < c->body.l.n; i++) {
		struct view line = c->body.l.v[i];
		struct labels l;
		const char *error = "";
		struct symbols *s = symbols_new();
		struct stackvec *want = NULL;
		if (testlang_labels(&r->arena, &line, &l, &error))
			want = testlang_stacks(&r->arena, s, line, &error);
		symbols_unref(s);
		if (!want) {
			fail(r, c, "cannot read what is expected: %s", error);
			return false;
		}
		const struct promql_profile *p = NULL;
		for (size_t k = 0; k < got->n_series && !p; k++)
			if (labels_eq(got->series[k].labels, l) && got->series[k].profiles)
				p = got->series[k].profiles;
		double worst = INFINITY;
		if (p && p->vec && difference(want, p, &worst))
			worst = INFINITY;
		stackvec_unref(want);
		if (!(worst <= 1e-6)) {
			struct buf b = { .max = 1500 };
			if (p && p->vec)
				describe_stacks(p->vec, &b);
			if (p && p->base) {
				buf_puts(&b, " - ");
				describe_stacks(p->base, &b);
			}
			fail(r, c, p ? "the stacks differ by %g: %s" : "a profile is missing%.0g%s", p ? worst : 0, b.ptr ? b.ptr : "");
			buf_free(&b);
			return false;
		}
	}
	return true;
}

bool testlang_check(struct runner *r, const struct eval_case *c, const struct promql_result *got)
{
	return check_notes(r, c, "warn", got->warnings, got->n_warnings) && check_notes(r, c, "info", got->infos, got->n_infos) &&
	       (c->kind == CASE_STACKS ? check_stacks(r, c, got) : check_values(r, c, got));
}

bool testlang_check_failure(struct runner *r, const struct eval_case *c, const struct err *e)
{
	if (!c->fails) {
		fail(r, c, "error: %s", e->msg);
		return false;
	}
	struct view bare; /* Prometheus's tests know no places of what is found at evaluation */
	eval_has_place(view_of(e->msg), &bare);
	for (size_t i = 0; i < c->expects.n; i++)
		if (strcmp(c->expects.v[i].kind, "fail") == 0 && !text_matches(&c->expects.v[i], view_of(e->msg)) &&
		    !text_matches(&c->expects.v[i], bare)) {
			fail(r, c, "failed with another message: %s", e->msg);
			return false;
		}
	return true;
}
