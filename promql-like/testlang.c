/* SPDX-License-Identifier: Apache-2.0 */
/* Language tests. A file is a list of commands; a blank line or a comment ends a block:
 *
 *	load 10s                                   samples every 10 s from time 0
 *	  requests_total{job="a"} 1+2x10 _ stale
 *
 *	load_profiles 10s                          profiles every 10 s; index (or range of them) : folded stacks | ...
 *	  cpu{job="a"} period=10000000             options: period duration cover interval weight kind
 *	    1..6: main;work 50000000 | main;idle 10000000 {thread="1"}
 *	    7: stale
 *
 *	eval instant at 60s QUERY                  then expect lines and the expected series
 *	  expect warn
 *	  {job="a"} 5
 *	eval range from 0 to 60s step 10s QUERY
 *	eval stacks at 60s QUERY                   expected: labels and the folded stacks, in the native unit
 *	  {} main;work 250000000
 *	clear
 *
 * A frame is NAME[@FILE[:LINE]][!BINARY], `~` before it says that it is inlined into the one before. */
#include "testlang.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ast.h"
#include "base/regex.h"
#include "lexer.h"
#include "memsource.h"
#include "model/ptype.h"
#include "promql.h"
#include "testlang_data.h"

struct lines {
	VEC(struct view) l;
};

struct expectation {
	char kind[16];         /* fail warn info no_warn no_info ordered string range */
	struct view text;
	bool regex, any;       /* any: no text given */
	int64_t from, to, step;
};

struct eval_case {
	enum { CASE_INSTANT, CASE_RANGE, CASE_STACKS } kind;
	struct view query;
	int64_t at, to, step;
	bool fails, warns, infos, ordered;
	VEC(struct expectation) expects;
	struct lines body;
	size_t line;           /* of the command, from 1 */
};

struct beyond {
	struct view name;
	const char *why;
};

struct runner {
	const struct testlang_options *o;
	struct testlang_report *r;
	struct view name;
	struct lines lines;
	size_t at;
	struct arena arena;
	struct memsource *mem;
	struct promql_engine *engine;
	VEC(struct beyond) beyond; /* metrics that hold what is not ours */
	struct err *e;
};

static int bad_file(struct runner *r, size_t line, const char *what)
{
	return err_set(r->e, ERR_BAD_DATA, "%.*s:%zu: %s", VIEW_ARG(r->name), line, what);
}

static struct view trimmed(struct view v)
{
	while (v.len && strchr(" \t\r", v.ptr[0])) {
		v.ptr++;
		v.len--;
	}
	while (v.len && strchr(" \t\r", v.ptr[v.len - 1]))
		v.len--;
	return v;
}

static void split_lines(struct runner *r, struct view text)
{
	size_t from = 0;
	for (size_t i = 0; i <= text.len; i++)
		if (i == text.len || text.ptr[i] == '\n') {
			struct view l = trimmed(view_make(text.ptr + from, i - from));
			if (l.len && l.ptr[0] == '#')
				l.len = 0;
			vec_push(&r->lines.l, l);
			from = i + 1;
		}
}

static bool next_in_block(struct runner *r, struct view *ret)
{
	if (r->at >= r->lines.l.n || !r->lines.l.v[r->at].len)
		return false;
	*ret = r->lines.l.v[r->at++];
	return true;
}

static bool parse_time(struct view v, int64_t *ret_ms)
{
	double s;
	bool duration, minus = v.len && v.ptr[0] == '-';
	if (minus)
		v = view_make(v.ptr + 1, v.len - 1);
	if (!lexer_parse_number(v, &s, &duration))
		return false;
	*ret_ms = llround((minus ? -s : s) * 1000);
	return true;
}

/* ---- load ---- */

static void note_beyond(struct runner *r, struct view name, const char *why)
{
	vec_push(&r->beyond, (struct beyond){ arena_view(&r->arena, name), why });
}

static int load_series(struct runner *r, int64_t step, bool nhcb, struct view line)
{
	struct labels l;
	const char *error = "";
	struct testlang_values v = { 0 };
	if (!testlang_labels(&r->arena, &line, &l, &error))
		return bad_file(r, r->at, error);
	struct view name = labels_get(l, VIEW(LABEL_NAME));
	if (view_starts(line, VIEW("@st"))) {
		note_beyond(r, name, "start timestamps");
		return 0;
	}
	if (!testlang_values(line, &v, &error)) {
		vec_free(&v.v);
		return bad_file(r, r->at, error);
	}
	if (v.histogram)
		note_beyond(r, name, "native histograms");
	if (nhcb && view_ends(name, VIEW("_bucket")))
		note_beyond(r, view_make(name.ptr, name.len - 7), "native histograms");
	int rc = 0;
	for (size_t i = 0; i < v.v.n && !rc && !v.histogram; i++)
		if (!v.v.v[i].absent)
			rc = memsource_add_float(r->mem, l, (int64_t)i * step, v.v.v[i].v, r->e);
	vec_free(&v.v);
	return rc;
}

static int run_load(struct runner *r, struct view rest, bool nhcb)
{
	int64_t step;
	struct view line;
	if (!parse_time(testlang_word(&rest), &step))
		return bad_file(r, r->at, "load needs a step, such as 10s");
	while (next_in_block(r, &line)) {
		int rc = load_series(r, step, nhcb, line);
		if (rc)
			return rc;
	}
	return 0;
}

struct profile_series {
	struct labels labels;
	struct ptype type;
	struct source_profile p; /* the options */
	bool open;
};

static int parse_option(struct runner *r, struct profile_series *s, struct view w)
{
	const char *eq = memchr(w.ptr, '=', w.len);
	struct view key = eq ? view_make(w.ptr, (size_t)(eq - w.ptr)) : w, value = eq ? view_make(eq + 1, w.len - key.len - 1) : VIEW("");
	double v;
	int64_t ms;
	bool duration;
	if (view_eqs(key, "kind")) {
		s->type.kind = view_eqs(value, "gauge") ? PROFILE_GAUGE : view_eqs(value, "delta") ? PROFILE_DELTA : PROFILE_CUMULATIVE;
		return 0;
	}
	if (!lexer_parse_number(value, &v, &duration) || !parse_time(value, &ms))
		return bad_file(r, r->at, "an option is key=number or key=duration");
	if (view_eqs(key, "period"))
		s->p.period = (int64_t)v;
	else if (view_eqs(key, "weight"))
		s->p.weight = v;
	else if (view_eqs(key, "duration"))
		s->p.duration_ns = ms * 1000000;
	else if (view_eqs(key, "cover"))
		s->p.cover_ms = ms;
	else if (view_eqs(key, "interval"))
		s->p.interval_ms = ms;
	else
		return bad_file(r, r->at, "known options: kind period weight duration cover interval");
	return 0;
}

static int open_series(struct runner *r, int64_t step, struct view line, struct profile_series *s)
{
	const char *error = "";
	if (!testlang_labels(&r->arena, &line, &s->labels, &error))
		return bad_file(r, r->at, error);
	struct view name = labels_get(s->labels, VIEW(LABEL_NAME)), full = ptype_alias(name);
	struct view type = testlang_word(&line), again = type;
	if (type.len && !memchr(type.ptr, '=', type.len)) { /* a type of its own: a recorded series */
		again = testlang_word(&line);
	} else {
		type = full.len ? full : name;
	}
	if (full.len) {
		struct labels_builder b;
		labels_builder_init(&b, s->labels);
		labels_builder_set(&b, VIEW(LABEL_NAME), full);
		s->labels = labels_copy(&r->arena, labels_builder_finish(&b));
		labels_builder_free(&b);
	}
	if (!ptype_parse(type, &s->type))
		return bad_file(r, r->at, "not a profile type: an alias, or NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT[:delta]");
	s->p = (struct source_profile){ .interval_ms = step, .cover_ms = step, .weight = 1 };
	s->p.duration_ns = s->type.delta ? step * 1000000 : 0;
	for (; again.len; again = testlang_word(&line)) {
		int rc = parse_option(r, s, again);
		if (rc)
			return rc;
	}
	s->open = true;
	return 0;
}

static int add_profiles(struct runner *r, int64_t step, struct profile_series *s, struct view when, struct view what)
{
	double from, to;
	bool d;
	struct view first = when, last = when;
	for (size_t i = 0; i + 1 < when.len; i++)
		if (when.ptr[i] == '.' && when.ptr[i + 1] == '.') {
			first = view_make(when.ptr, i);
			last = view_make(when.ptr + i + 2, when.len - i - 2);
			break;
		}
	bool absolute = first.len && first.ptr[0] == '@';
	if (absolute)
		first = last = view_make(first.ptr + 1, first.len - 1);
	if (!lexer_parse_number(first, &from, &d) || !lexer_parse_number(last, &to, &d) || to - from > 100000)
		return bad_file(r, r->at, "a profile is INDEX: STACKS, FIRST..LAST: STACKS or @TIME: STACKS");
	const char *error = "";
	bool stale = view_eqs(trimmed(what), "stale");
	struct stackvec *v = stale ? NULL : testlang_stacks(&r->arena, memsource_symbols(r->mem), what, &error);
	if (!stale && !v)
		return bad_file(r, r->at, error);
	int rc = 0;
	for (double i = from; i <= to && !rc; i++) {
		struct source_profile p = s->p;
		p.t_ms = llround(i * (absolute ? 1000 : (double)step));
		p.stale = stale;
		rc = memsource_add_profile(r->mem, s->labels, &s->type, &p, v, r->e);
	}
	stackvec_unref(v);
	return rc;
}

static int run_load_profiles(struct runner *r, struct view rest)
{
	int64_t step;
	struct view line;
	struct profile_series s = { 0 };
	if (!parse_time(testlang_word(&rest), &step))
		return bad_file(r, r->at, "load_profiles needs a step, such as 10s");
	while (next_in_block(r, &line)) {
		bool data = (line.ptr[0] >= '0' && line.ptr[0] <= '9') || line.ptr[0] == '@';
		const char *colon = data ? memchr(line.ptr, ':', line.len) : NULL;
		int rc;
		if (!data)
			rc = open_series(r, step, line, &s);
		else if (!colon || !s.open)
			rc = bad_file(r, r->at, "a profile is INDEX: STACKS, under its series");
		else
			rc = add_profiles(r, step, &s, view_make(line.ptr, (size_t)(colon - line.ptr)),
					  view_make(colon + 1, line.len - (size_t)(colon + 1 - line.ptr)));
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- eval: what is expected ---- */

static int parse_expect(struct runner *r, struct eval_case *c, struct view rest)
{
	struct expectation x = { 0 };
	struct view kind = testlang_word(&rest);
	snprintf(x.kind, sizeof x.kind, "%.*s", VIEW_ARG(kind));
	rest = trimmed(rest);
	if (view_starts(rest, VIEW("msg:")) || view_starts(rest, VIEW("regex:"))) {
		x.regex = rest.ptr[0] == 'r';
		size_t skip = x.regex ? 6 : 4;
		rest = trimmed(view_make(rest.ptr + skip, rest.len - skip));
	}
	if (view_eqs(kind, "range")) {
		for (struct view w = testlang_word(&rest); w.len; w = testlang_word(&rest)) {
			int64_t *to = view_eqs(w, "from") ? &x.from : view_eqs(w, "to") ? &x.to : view_eqs(w, "step") ? &x.step : NULL;
			if (to && !parse_time(testlang_word(&rest), to))
				return bad_file(r, r->at, "expect range vector from T to T step D");
		}
	}
	const char *error;
	bool quoted = rest.len >= 2 && (rest.ptr[0] == '"' || rest.ptr[0] == '`') && rest.ptr[rest.len - 1] == rest.ptr[0];
	if (quoted && !x.regex && !lexer_unquote(&r->arena, rest, &rest, &error))
		return bad_file(r, r->at, error);
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
	while (next_in_block(r, &line)) {
		struct view rest = line, first = testlang_word(&rest);
		int rc = 0;
		if (view_eqs(first, "expect"))
			rc = parse_expect(r, c, rest);
		else if (view_eqs(first, "expected_fail_message"))
			add_expect(c, "fail", trimmed(rest), false);
		else if (view_eqs(first, "expected_fail_regexp"))
			add_expect(c, "fail", trimmed(rest), true);
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
		ok = take_word(&rest, "from") && parse_time(testlang_word(&rest), &c->at) && take_word(&rest, "to") &&
		     parse_time(testlang_word(&rest), &c->to) && take_word(&rest, "step") &&
		     parse_time(testlang_word(&rest), &c->step);
	} else {
		c->kind = take_word(&rest, "stacks") ? CASE_STACKS : CASE_INSTANT;
		if (c->kind == CASE_INSTANT)
			ok = take_word(&rest, "instant");
		if (ok && take_word(&rest, "at"))
			ok = parse_time(testlang_word(&rest), &c->at);
	}
	c->query = trimmed(rest);
	if (!ok || !c->query.len)
		return bad_file(r, c->line, "expected: eval instant|stacks at T QUERY, or eval range from T to T step D QUERY");
	return parse_body(r, c);
}

/* ---- eval: what came ---- */

static void fail(struct runner *r, const struct eval_case *c, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void fail(struct runner *r, const struct eval_case *c, const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	buf_printf(&r->r->log, "%.*s:%zu: FAIL %.*s\n    %s\n", VIEW_ARG(r->name), c->line, VIEW_ARG(c->query), text);
}

static bool nearly(double a, double b)
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

static bool text_matches(struct runner *r, const struct expectation *x, struct view text)
{
	if (x->any)
		return true;
	if (!x->regex)
		return view_eq(x->text, text);
	struct regex *re;
	struct err e = { 0 };
	if (regex_new(&re, x->text, false, &e))
		return false;
	int rc = regex_match(re, text, &e);
	regex_unref(re);
	(void)r;
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
			found |= text_matches(r, x, notes[k]);
		if (!found) {
			fail(r, c, "no %s like: %.*s; there are %zu%s%.*s", kind, VIEW_ARG(x->text), n, n ? ", the first: " : "",
			     VIEW_ARG(n ? notes[0] : VIEW("")));
			return false;
		}
	}
	for (size_t k = 0; k < n && any; k++) {
		bool found = false;
		for (size_t i = 0; i < c->expects.n; i++)
			found |= strcmp(c->expects.v[i].kind, kind) == 0 && text_matches(r, &c->expects.v[i], notes[k]);
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

static bool fail_with(struct runner *r, const struct eval_case *c, const char *what, const struct promql_result *got)
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

static bool same_labels(struct labels a, struct labels b)
{
	return labels_eq(a, b);
}

static const struct expectation *range_expectation(const struct eval_case *c)
{
	for (size_t i = 0; i < c->expects.n; i++)
		if (strcmp(c->expects.v[i].kind, "range") == 0)
			return &c->expects.v[i];
	return NULL;
}

/* Where value i of an expected series lies; an instant one has a single value. */
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
		if (k == s->n || s->points[k].t_ms != time_of(c, i) || !nearly(s->points[k].v, x->v.v.v[i].v))
			return fail_with(r, c, "a value differs", got);
		k++;
	}
	return k == s->n ? true : fail_with(r, c, "more values than expected", got);
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
			if (same_labels(got->series[k].labels, x[i].labels) && (!c->ordered || k == i))
				s = &got->series[k];
		if (!s && any)
			return fail_with(r, c, "a series is missing (or out of order)", got);
		if (s && !check_series(r, c, &x[i], s, got))
			return false;
	}
	if (got->n_series != with_values)
		return fail_with(r, c, "more series than expected", got);
	return true;
}

static bool check_values(struct runner *r, struct eval_case *c, const struct promql_result *got)
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
		bool ok = testlang_values(line, &one, &error) && one.v.n == 1 && nearly(one.v.v[0].v, got->scalar);
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

static bool check_stacks(struct runner *r, struct eval_case *c, const struct promql_result *got)
{
	if (got->n_series != c->body.l.n)
		return fail_with(r, c, "another number of profiles", got);
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
			if (same_labels(got->series[k].labels, l) && got->series[k].profiles)
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

/* A selector without a name may match any series. */
static void find_nameless(struct node *n, void *arg)
{
	if (n->kind == NODE_SELECTOR && !n->sel.name.len)
		*(bool *)arg = true;
	node_each_child(n, find_nameless, arg);
}

static const char *reason_to_skip(struct runner *r, const struct eval_case *c)
{
	static const char *const words[] = { "anchored", "smoothed", "fill", "fill_left", "fill_right" };
	for (size_t i = 0; i < c->body.l.n; i++)
		if (c->kind != CASE_STACKS && view_contains(c->body.l.v[i], VIEW("{{")))
			return "native histograms";
	for (size_t i = 0; i < r->beyond.n; i++)
		if (mentions(c->query, r->beyond.v[i].name))
			return r->beyond.v[i].why;
	if (view_contains(c->query, VIEW("</")) || view_contains(c->query, VIEW(">/")))
		return "native histograms";
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (mentions(c->query, view_of(words[i])))
			return "experimental syntax";
	struct promql_expr *x;
	struct err e = { 0 };
	bool nameless = false;
	if (promql_parse(&x, c->query, &e) == 0) {
		find_nameless(x->root, &nameless);
		promql_expr_free(x);
	} else if (strstr(e.msg, "experimental")) {
		return "an experimental function";
	}
	return nameless && r->beyond.n ? r->beyond.v[0].why : NULL;
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
				found = same_labels(got->series[j].labels, range.series[i].labels) &&
					nearly(got->series[j].points[0].v, range.series[i].points[k].v);
			if (!found)
				ok = fail_with(r, c, "as a range query it differs in the middle step", &range);
		}
	if (ok && middle != got->n_series)
		ok = fail_with(r, c, "as a range query it has another number of elements", &range);
	promql_result_release(&range);
	return ok;
}

static bool check_failure(struct runner *r, const struct eval_case *c, const struct err *e)
{
	if (!c->fails) {
		fail(r, c, "error: %s", e->msg);
		return false;
	}
	for (size_t i = 0; i < c->expects.n; i++)
		if (strcmp(c->expects.v[i].kind, "fail") == 0 && !text_matches(r, &c->expects.v[i], view_of(e->msg))) {
			fail(r, c, "failed with another message: %s", e->msg);
			return false;
		}
	return true;
}

static bool run_case(struct runner *r, struct eval_case *c)
{
	struct promql_result got;
	struct err e = { 0 };
	struct promql_params p = { .profiles = c->kind == CASE_STACKS };
	int rc = c->kind == CASE_RANGE ? promql_range(r->engine, c->query, c->at, c->to, c->step, &p, &got, &e)
				       : promql_instant(r->engine, c->query, c->at, &p, &got, &e);
	if (rc)
		return check_failure(r, c, &e);
	bool ok = false;
	if (c->fails)
		fail_with(r, c, "it was expected to fail", &got);
	else
		ok = check_notes(r, c, "warn", got.warnings, got.n_warnings) && check_notes(r, c, "info", got.infos, got.n_infos) &&
		     (c->kind == CASE_STACKS ? check_stacks(r, c, &got) : check_values(r, c, &got));
	if (ok && c->kind == CASE_INSTANT)
		ok = check_as_range(r, c, &got);
	promql_result_release(&got);
	return ok;
}

static int run_eval(struct runner *r, struct view first, struct view rest)
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

static int run_command(struct runner *r, struct view line)
{
	struct view rest = line, first = testlang_word(&rest);
	if (view_eqs(first, "load"))
		return run_load(r, rest, false);
	if (view_eqs(first, "load_with_nhcb"))
		return run_load(r, rest, true);
	if (view_eqs(first, "load_profiles"))
		return run_load_profiles(r, rest);
	if (view_eqs(first, "clear")) {
		memsource_clear(r->mem);
		r->beyond.n = 0;
		return 0;
	}
	if (view_starts(first, VIEW("eval")))
		return run_eval(r, first, rest);
	return bad_file(r, r->at, "expected load, load_profiles, clear or eval");
}

int testlang_run(struct view name, struct view text, const struct testlang_options *o, struct testlang_report *rep,
		 struct err *e)
{
	struct runner r = { .o = o, .r = rep, .name = name, .e = e };
	struct promql_options po = { .pool = o->pool };
	arena_init(&r.arena, 0);
	r.mem = memsource_new();
	r.engine = promql_engine_new(memsource_source(r.mem), &po);
	split_lines(&r, text);
	int rc = 0;
	while (r.at < r.lines.l.n && !rc) {
		struct view line = r.lines.l.v[r.at++];
		if (line.len)
			rc = run_command(&r, line);
	}
	promql_engine_free(r.engine);
	memsource_free(r.mem);
	vec_free(&r.lines.l);
	vec_free(&r.beyond);
	arena_free(&r.arena);
	return rc;
}

int testlang_run_file(const char *path, const struct testlang_options *o, struct testlang_report *r, struct err *e)
{
	struct buf b = { .max = 64 << 20 };
	char chunk[65536];
	size_t n;
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(e, ERR_NOT_FOUND, "%s: cannot be opened", path);
	while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
		buf_put(&b, chunk, n);
	fclose(f);
	int rc = b.overflow ? err_set(e, ERR_LIMIT, "%s is larger than 64 MiB", path)
			    : testlang_run(view_of(path), buf_view(&b), o, r, e);
	buf_free(&b);
	return rc;
}
