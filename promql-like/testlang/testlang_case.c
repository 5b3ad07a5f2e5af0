/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/testlang/testlang_case.h"

#include <stdio.h>

#include "promql-like/syntax/ast.h"
#include "promql-like/syntax/func.h"
#include "model/lexer.h"

/* ---- what is expected ---- */

static int parse_expect(struct runner *r, struct eval_case *c, struct view rest)
{
	struct expectation x = { 0 };
	struct view kind = testlang_word(&rest);
	snprintf(x.kind, sizeof x.kind, "%.*s", VIEW_ARG(kind));
	rest = testlang_trimmed(rest);
	if (view_starts(rest, VIEW("msg:")) || view_starts(rest, VIEW("regex:"))) {
		x.regex = rest.ptr[0] == 'r';
		size_t skip = x.regex ? 6 : 4;
		rest = testlang_trimmed(view_make(rest.ptr + skip, rest.len - skip));
	}
	if (view_eqs(kind, "range")) {
		for (struct view w = testlang_word(&rest); w.len; w = testlang_word(&rest)) {
			int64_t *to = view_eqs(w, "from") ? &x.from : view_eqs(w, "to") ? &x.to : view_eqs(w, "step") ? &x.step : NULL;
			if (to && !testlang_time(testlang_word(&rest), to))
				return testlang_bad_file(r, r->at, "expect range vector from T to T step D");
		}
	}
	const char *error;
	bool quoted = rest.len >= 2 && (rest.ptr[0] == '"' || rest.ptr[0] == '`') && rest.ptr[rest.len - 1] == rest.ptr[0];
	if (quoted && !x.regex && !lexer_unquote(&r->arena, rest, &rest, &error))
		return testlang_bad_file(r, r->at, error);
	if (quoted && x.regex)
		rest = view_make(rest.ptr + 1, rest.len - 2);
	x.text = rest;
	x.any = !rest.len;
	c->fails |= view_eqs(kind, "fail");
	c->ordered |= view_eqs(kind, "ordered");
	vec_push(&c->expects, x);
	return 0;
}

static void add_expect(struct eval_case *c, const char *kind, struct view text, bool regex)
{
	struct expectation x = { .text = text, .regex = regex, .any = !text.len };
	snprintf(x.kind, sizeof x.kind, "%s", kind);
	vec_push(&c->expects, x);
}

static int parse_body(struct runner *r, struct eval_case *c)
{
	struct view line;
	while (testlang_next(r, &line)) {
		struct view rest = line, first = testlang_word(&rest);
		int rc = 0;
		if (view_eqs(first, "expect"))
			rc = parse_expect(r, c, rest);
		else if (view_eqs(first, "expected_fail_message"))
			add_expect(c, "fail", testlang_trimmed(rest), false);
		else if (view_eqs(first, "expected_fail_regexp"))
			add_expect(c, "fail", testlang_trimmed(rest), true);
		else
			vec_push(&c->body.l, line);
		if (rc)
			return rc;
	}
	return 0;
}

static bool take_word(struct view *rest, const char *w)
{
	struct view copy = *rest;
	if (!view_eqs(testlang_word(&copy), w))
		return false;
	*rest = copy;
	return true;
}

static int parse_eval(struct runner *r, struct view first, struct view rest, struct eval_case *c)
{
	c->line = r->at;
	c->fails = view_eqs(first, "eval_fail");
	c->ordered = view_eqs(first, "eval_ordered");
	if (c->fails)
		add_expect(c, "fail", VIEW(""), false);
	if (view_eqs(first, "eval_warn"))
		add_expect(c, "warn", VIEW(""), false);
	if (view_eqs(first, "eval_info"))
		add_expect(c, "info", VIEW(""), false);
	bool ok = true;
	if (take_word(&rest, "range")) {
		c->kind = CASE_RANGE;
		ok = take_word(&rest, "from") && testlang_time(testlang_word(&rest), &c->at) && take_word(&rest, "to") &&
		     testlang_time(testlang_word(&rest), &c->to) && take_word(&rest, "step") &&
		     testlang_time(testlang_word(&rest), &c->step);
	} else {
		c->kind = take_word(&rest, "stacks") ? CASE_STACKS : CASE_INSTANT;
		if (c->kind == CASE_INSTANT)
			ok = take_word(&rest, "instant");
		if (ok && take_word(&rest, "at"))
			ok = testlang_time(testlang_word(&rest), &c->at);
	}
	c->query = testlang_trimmed(rest);
	if (!ok || !c->query.len)
		return testlang_bad_file(r, c->line, "expected: eval instant|stacks at T QUERY, or eval range from T to T step D QUERY");
	return parse_body(r, c);
}

/* ---- running a case ---- */

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

static bool mentions(struct view text, struct view name)
{
	for (size_t i = 0; name.len && i + name.len <= text.len; i++)
		if (memcmp(text.ptr + i, name.ptr, name.len) == 0 && (i == 0 || !is_word_char(text.ptr[i - 1])) &&
		    (i + name.len == text.len || !is_word_char(text.ptr[i + name.len])))
			return true;
	return false;
}

struct needs {
	const struct runner *r;
	const char *why; /* NULL: nothing that is not here */
};

/* Selectors that match a series which could not be loaded. */
static void find_needs(struct node *n, void *arg)
{
	struct needs *x = arg;
	struct err e = { 0 };
	const struct matcher *m = n->kind == NODE_SELECTOR ? n->sel.m : NULL;
	size_t n_m = n->kind == NODE_SELECTOR ? n->sel.n : 0;
	if (n->kind == NODE_CALL && n->call.n > 1 && strcmp(n->call.fn->name, "info") == 0) { /* it selects series too */
		m = node_unwrap(n->call.args[1])->frames.m;
		n_m = node_unwrap(n->call.args[1])->frames.n;
	}
	for (size_t i = 0; m && i < x->r->beyond.n && !x->why; i++)
		if (matchers_match(m, n_m, x->r->beyond.v[i].labels, NULL, &e) == 1)
			x->why = x->r->beyond.v[i].why;
	node_each_child(n, find_needs, arg);
}

static const char *reason_to_skip(struct runner *r, const struct eval_case *c)
{
	for (size_t i = 0; i < c->body.l.n; i++)
		if (c->kind != CASE_STACKS && view_contains(c->body.l.v[i], VIEW("{{")))
			return "native histograms";
	struct promql_expr *x;
	struct err e = { 0 };
	struct needs needs = { r, NULL };
	if (promql_parse(&x, c->query, &e) == 0) {
		find_needs(x->root, &needs);
		promql_expr_free(x);
	} else if (view_contains(c->query, VIEW("</")) || view_contains(c->query, VIEW(">/"))) {
		return "native histograms";
	} else if (strstr(e.msg, "experimental")) {
		return "an experimental function";
	}
	return needs.why;
}

static void count_skipped(struct testlang_report *r, const char *reason)
{
	size_t i = 0;
	r->skipped++;
	while (i < r->n_reasons && strcmp(r->reasons[i].text, reason) != 0)
		i++;
	if (i == ARRAY_LEN(r->reasons))
		return;
	r->reasons[i].text = reason;
	r->reasons[i].n++;
	r->n_reasons = MAX(r->n_reasons, i + 1);
}

/* As a range query around it, an instant query has the same answer in the middle. */
static bool check_as_range(struct runner *r, const struct eval_case *c, const struct promql_result *got)
{
	static const char *const depend[] = { "start", "end", "step", "range" };
	if (got->type != PROMQL_VECTOR)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(depend); i++)
		if (mentions(c->query, view_of(depend[i])))
			return true;
	struct promql_result range;
	struct err e = { 0 };
	if (promql_range(r->engine, c->query, c->at - 60000, c->at + 60000, 60000, NULL, &range, &e))
		return true; /* another step may be a legitimate error */
	size_t middle = 0;
	bool ok = true;
	for (size_t i = 0; i < range.n_series && ok; i++)
		for (size_t k = 0; k < range.series[i].n && ok; k++) {
			if (range.series[i].points[k].t_ms != c->at)
				continue;
			middle++;
			bool found = false;
			for (size_t j = 0; j < got->n_series && !found; j++)
				found = labels_eq(got->series[j].labels, range.series[i].labels) &&
					testlang_nearly(got->series[j].points[0].v, range.series[i].points[k].v);
			if (!found)
				ok = testlang_fail_with(r, c, "as a range query it differs in the middle step", &range);
		}
	if (ok && middle != got->n_series)
		ok = testlang_fail_with(r, c, "as a range query it has another number of elements", &range);
	promql_result_release(&range);
	return ok;
}

static bool run_case(struct runner *r, struct eval_case *c)
{
	struct promql_result got;
	struct err e = { 0 };
	struct promql_params p = { .profiles = c->kind == CASE_STACKS };
	int rc = c->kind == CASE_RANGE ? promql_range(r->engine, c->query, c->at, c->to, c->step, &p, &got, &e)
				       : promql_instant(r->engine, c->query, c->at, &p, &got, &e);
	if (rc)
		return testlang_check_failure(r, c, &e);
	bool ok = false;
	if (c->fails)
		testlang_fail_with(r, c, "it was expected to fail", &got);
	else
		ok = testlang_check(r, c, &got);
	if (ok && c->kind == CASE_INSTANT)
		ok = check_as_range(r, c, &got);
	promql_result_release(&got);
	return ok;
}

int testlang_case_run(struct runner *r, struct view first, struct view rest)
{
	struct eval_case c = { 0 };
	int rc = parse_eval(r, first, rest, &c);
	const char *skip = rc || r->o->no_skip ? NULL : reason_to_skip(r, &c);
	if (!rc && skip) {
		count_skipped(r->r, skip);
		if (r->o->verbose)
			buf_printf(&r->r->log, "%.*s:%zu: SKIP (%s) %.*s\n", VIEW_ARG(r->name), c.line, skip, VIEW_ARG(c.query));
	} else if (!rc) {
		bool ok = run_case(r, &c);
		++*(ok ? &r->r->passed : &r->r->failed);
		if (ok && r->o->verbose)
			buf_printf(&r->r->log, "%.*s:%zu: ok %.*s\n", VIEW_ARG(r->name), c.line, VIEW_ARG(c.query));
	}
	vec_free(&c.expects);
	vec_free(&c.body.l);
	return rc;
}
