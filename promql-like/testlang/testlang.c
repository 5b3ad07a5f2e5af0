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
#include "promql-like/testlang/testlang.h"

#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "model/ptype.h"
#include "model/lexer.h"
#include "promql-like/testlang/testlang_case.h"

static void split_lines(struct runner *r, struct view text)
{
	size_t from = 0;
	for (size_t i = 0; i <= text.len; i++)
		if (i == text.len || text.ptr[i] == '\n') {
			struct view l = testlang_trimmed(view_make(text.ptr + from, i - from));
			if (l.len && l.ptr[0] == '#')
				l.len = 0;
			vec_push(&r->lines.l, l);
			from = i + 1;
		}
}

/* ---- load ---- */

static void note_beyond(struct runner *r, struct labels l, const char *why)
{
	vec_push(&r->beyond, (struct beyond){ l, why });
}

/* A series of buckets as a native histogram with custom buckets. */
static struct labels as_histogram(struct runner *r, struct labels l, struct view name)
{
	struct labels_builder b;
	labels_builder_init(&b, l);
	labels_builder_set(&b, VIEW(LABEL_NAME), view_make(name.ptr, name.len - strlen("_bucket")));
	labels_builder_set(&b, VIEW("le"), VIEW(""));
	struct labels made = labels_copy(&r->arena, labels_builder_finish(&b));
	labels_builder_free(&b);
	return made;
}

static int load_series(struct runner *r, int64_t step, bool nhcb, struct view line)
{
	struct labels l;
	const char *error = "";
	struct testlang_values v = { 0 };
	if (!testlang_labels(&r->arena, &line, &l, &error))
		return testlang_bad_file(r, r->at, error);
	struct view name = labels_get(l, VIEW(LABEL_NAME));
	if (view_starts(line, VIEW("@st"))) {
		note_beyond(r, l, "start timestamps");
		return 0;
	}
	if (!testlang_values(line, &v, &error)) {
		vec_free(&v.v);
		return testlang_bad_file(r, r->at, error);
	}
	if (v.histogram)
		note_beyond(r, l, "native histograms");
	if (nhcb && view_ends(name, VIEW("_bucket")))
		note_beyond(r, as_histogram(r, l, name), "native histograms");
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
	if (!testlang_time(testlang_word(&rest), &step))
		return testlang_bad_file(r, r->at, "load needs a step, such as 10s");
	while (testlang_next(r, &line)) {
		int rc = load_series(r, step, nhcb, line);
		if (rc)
			return rc;
	}
	return 0;
}

static int add_profiles(struct runner *r, const struct testlang_profiles *s, int64_t step, struct view line)
{
	struct testlang_profile_line l;
	const char *error = "";
	int rc = 0;
	if (!testlang_profile_line(&r->arena, memsource_symbols(r->mem), step, line, &l, &error))
		return testlang_bad_file(r, r->at, error);
	for (size_t i = 0; i < l.n && !rc; i++) {
		struct source_profile p = testlang_profile_at(s, &l, i);
		rc = memsource_add_profile(r->mem, s->labels, &s->type, &p, l.stacks, r->e);
	}
	stackvec_unref(l.stacks);
	return rc;
}

static int run_load_profiles(struct runner *r, struct view rest)
{
	int64_t step;
	struct view line;
	struct testlang_profiles s;
	bool open = false;
	const char *error = "";
	if (!testlang_time(testlang_word(&rest), &step))
		return testlang_bad_file(r, r->at, "load_profiles needs a step, such as 10s");
	while (testlang_next(r, &line)) {
		bool data = (line.ptr[0] >= '0' && line.ptr[0] <= '9') || line.ptr[0] == '@';
		if (data && !open)
			return testlang_bad_file(r, r->at, "a profile is INDEX: STACKS, under its series");
		if (!data && !testlang_profile_series(&r->arena, step, line, &s, &error))
			return testlang_bad_file(r, r->at, error);
		if (data && add_profiles(r, &s, step, line))
			return -1;
		open = true;
	}
	return 0;
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
		return testlang_case_run(r, first, rest);
	return testlang_bad_file(r, r->at, "expected load, load_profiles, clear or eval");
}

static int run_text(struct view name, struct view text, const struct testlang_options *o, struct testlang_report *rep, struct err *e)
{
	struct runner r = { .o = o, .r = rep, .name = name, .e = e };
	struct promql_options po = { .pool = o->pool };
	promql_enable(PROMQL_ALL_FEATURES);
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
	int rc = buf_read_file(&b, path, e);
	if (!rc)
		rc = run_text(view_of(path), buf_view(&b), o, r, e);
	buf_free(&b);
	return rc;
}
