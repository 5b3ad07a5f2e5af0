/* SPDX-License-Identifier: Apache-2.0 */
/* Series of profiles as language tests and unit tests of rules write them (testlang.c has the format). */
#include "base/num.h"
#include "model/ptype.h"
#include "model/lexer.h"
#include "promql-like/testlang/testlang_data.h"

#define MAX_RANGE 100000

bool testlang_time(struct view v, int64_t *ret_ms)
{
	double s;
	bool duration, minus = v.len && v.ptr[0] == '-';
	if (minus)
		v = view_make(v.ptr + 1, v.len - 1);
	if (!lexer_parse_number(v, &s, &duration))
		return false;
	return num_round_i64((minus ? -s : s) * 1000, ret_ms);
}

static bool parse_option(struct testlang_profiles *s, struct view w, const char **error)
{
	const char *eq = memchr(w.ptr, '=', w.len);
	struct view key = eq ? view_make(w.ptr, (size_t)(eq - w.ptr)) : w, value = eq ? view_make(eq + 1, w.len - key.len - 1) : VIEW("");
	double v;
	int64_t ms;
	bool duration;
	if (view_eqs(key, "kind")) {
		s->type.kind = view_eqs(value, "gauge") ? PROFILE_GAUGE : view_eqs(value, "delta") ? PROFILE_DELTA : PROFILE_CUMULATIVE;
		return true;
	}
	*error = "an option is key=number or key=duration";
	if (!lexer_parse_number(value, &v, &duration) || !testlang_time(value, &ms))
		return false;
	if (view_eqs(key, "period"))
		return num_round_i64(v, &s->p.period);
	if (view_eqs(key, "weight"))
		s->p.weight = v;
	else if (view_eqs(key, "duration"))
		return !__builtin_mul_overflow(ms, 1000000, &s->p.duration_ns);
	else if (view_eqs(key, "cover"))
		s->p.cover_ms = ms;
	else if (view_eqs(key, "interval"))
		s->p.interval_ms = ms;
	else {
		*error = "known options: kind period weight duration cover interval";
		return false;
	}
	return true;
}

bool testlang_profile_series(struct arena *a, int64_t step_ms, struct view line, struct testlang_profiles *ret, const char **error)
{
	*ret = (struct testlang_profiles){ .p = { .interval_ms = step_ms, .cover_ms = step_ms, .weight = 1 } };
	if (!testlang_labels(a, &line, &ret->labels, error))
		return false;
	struct view name = labels_get(ret->labels, VIEW(LABEL_NAME)), full = ptype_alias(name);
	struct view type = testlang_word(&line), again = type;
	if (type.len && !memchr(type.ptr, '=', type.len)) { /* a type of its own: a recorded series */
		again = testlang_word(&line);
	} else {
		type = full.len ? full : name;
	}
	if (full.len) {
		struct labels_builder b;
		labels_builder_init(&b, ret->labels);
		labels_builder_set(&b, VIEW(LABEL_NAME), full);
		ret->labels = labels_copy(a, labels_builder_finish(&b));
		labels_builder_free(&b);
	}
	if (!ptype_parse(type, &ret->type)) {
		*error = "not a profile type: an alias, or NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT[:delta]";
		return false;
	}
	if (ret->type.delta && __builtin_mul_overflow(step_ms, 1000000, &ret->p.duration_ns)) {
		*error = "the interval is too long";
		return false;
	}
	for (; again.len; again = testlang_word(&line))
		if (!parse_option(ret, again, error))
			return false;
	return true;
}

/* FIRST..LAST, INDEX or @SECONDS. */
static bool parse_when(struct view when, int64_t step_ms, struct testlang_profile_line *ret)
{
	double from, to;
	bool d, absolute = when.len && when.ptr[0] == '@';
	struct view first = when, last;
	for (size_t i = 0; i + 1 < when.len; i++)
		if (when.ptr[i] == '.' && when.ptr[i + 1] == '.') {
			first.len = i;
			break;
		}
	last = first.len < when.len ? view_make(when.ptr + first.len + 2, when.len - first.len - 2) : first;
	if (absolute)
		first = last = view_make(first.ptr + 1, first.len - 1);
	if (!lexer_parse_number(first, &from, &d) || !lexer_parse_number(last, &to, &d) || !(to - from <= MAX_RANGE))
		return false;
	ret->step_ms = step_ms;
	ret->n = to >= from ? (size_t)(to - from) + 1 : 0;
	return num_round_i64(from * (absolute ? 1000 : (double)step_ms), &ret->first_ms) && ret->first_ms < INT64_MAX / 4;
}

bool testlang_profile_line(struct arena *a, struct symbols *s, int64_t step_ms, struct view line, struct testlang_profile_line *ret,
			   const char **error)
{
	const char *colon = memchr(line.ptr, ':', line.len);
	*ret = (struct testlang_profile_line){ 0 };
	if (!colon || !parse_when(testlang_trimmed(view_make(line.ptr, (size_t)(colon - line.ptr))), step_ms, ret)) {
		*error = "a profile is INDEX: STACKS, FIRST..LAST: STACKS or @SECONDS: STACKS";
		return false;
	}
	struct view what = testlang_trimmed(view_make(colon + 1, line.len - (size_t)(colon + 1 - line.ptr)));
	if (view_eqs(what, "stale"))
		return true;
	ret->stacks = testlang_stacks(a, s, what, error);
	return ret->stacks;
}

struct source_profile testlang_profile_at(const struct testlang_profiles *s, const struct testlang_profile_line *l, size_t i)
{
	struct source_profile p = s->p;
	p.t_ms = l->first_ms + (int64_t)i * l->step_ms;
	p.stale = !l->stacks;
	return p;
}
