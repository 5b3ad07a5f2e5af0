/* SPDX-License-Identifier: Apache-2.0 */
#include "base/regex.h"

#include <pthread.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/regex_re2.h"
#include "base/utf8.h"

struct regex {
	atomic_int refs;
	pcre2_code *code;
	pcre2_code *whole;      /* of a search: the same from the subject's first byte on, so that all its steps are one count */
	char *pattern;
	size_t pattern_len;
	struct re2_name *names; /* of groups; the views point into pattern */
	size_t n_names;
	struct re2_literals literals; /* anchored patterns only */
};

/* Compiles what re2_translate wrote; the error is about the pattern as it was given. */
static pcre2_code *compile(const struct re2 *r, struct view pattern, const char *before, const char *after, struct err *e)
{
	struct buf b = { .max = 32u << 20 };
	int code;
	PCRE2_SIZE at;
	buf_puts(&b, before);
	buf_putv(&b, buf_view(&r->out));
	buf_puts(&b, after);
	pcre2_compile_context *ctx = pcre2_compile_context_create(NULL);
	pcre2_code *c = NULL;
	if (ctx && !b.overflow) {
		pcre2_set_newline(ctx, PCRE2_NEWLINE_LF);
		c = pcre2_compile((PCRE2_SPTR)b.ptr, b.len, PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY |
				  PCRE2_ALT_CIRCUMFLEX | PCRE2_NEVER_BACKSLASH_C, &code, &at, ctx);
	}
	pcre2_compile_context_free(ctx);
	if (!c) {
		PCRE2_UCHAR msg[160] = "out of memory";
		if (ctx && !b.overflow)
			pcre2_get_error_message(code, msg, sizeof msg);
		err_set(e, ERR_BAD_DATA, "error parsing regexp: %s: `%.*s`", (char *)msg, VIEW_ARG(pattern));
	}
	buf_free(&b);
	return c;
}

int regex_new(struct regex **ret, struct view pattern, bool anchored, struct err *e)
{
	struct re2 r;
	int rc = re2_translate(&r, pattern, anchored, e);
	pcre2_code *c = rc ? NULL : compile(&r, pattern, anchored ? "\\A(?:" : "(?:", anchored ? ")\\z" : ")", e);
	pcre2_code *whole = c && !anchored ? compile(&r, pattern, "\\A(?s:.*?)\\K(?:", ")", e) : NULL;
	if (!c || (!anchored && !whole)) {
		pcre2_code_free(c);
		re2_release(&r);
		return rc ? rc : -ERR_BAD_DATA;
	}
	struct regex *re = NEW(struct regex);
	re->refs = 1;
	re->code = c;
	re->pattern = xstrndup(pattern.ptr ? pattern.ptr : "", pattern.len);
	re->pattern_len = pattern.len;
	for (size_t i = 0; i < r.names.n; i++) /* into our copy */
		r.names.v[i].name.ptr = re->pattern + (r.names.v[i].name.ptr - pattern.ptr);
	re->names = r.names.v;
	re->n_names = r.names.n;
	buf_free(&r.out);
	re->whole = whole;
	pcre2_jit_compile(c, PCRE2_JIT_COMPLETE); /* or the interpreter */
	if (whole)
		pcre2_jit_compile(whole, PCRE2_JIT_COMPLETE);
	if (anchored)
		re2_literals(regex_pattern(re), &re->literals);
	*ret = re;
	return 0;
}

struct regex *regex_ref(struct regex *re)
{
	if (re)
		atomic_fetch_add(&re->refs, 1);
	return re;
}

void regex_unref(struct regex *re)
{
	if (!re || atomic_fetch_sub(&re->refs, 1) != 1)
		return;
	pcre2_code_free(re->code);
	pcre2_code_free(re->whole);
	free(re->names);
	free(re->literals.text);
	vec_free(&re->literals.v);
	free(re->pattern);
	free(re);
}

struct view regex_pattern(const struct regex *re)
{
	return view_make(re->pattern, re->pattern_len);
}

/* ---- what a match may cost ---- */

/* In PCRE2's steps. A search counts them for each start position: all positions together get SEARCH_STEPS. */
#define MATCH_STEPS 1000000
#define SEARCH_STEPS 8000000
#define MATCH_HEAP_KB 65536 /* of the interpreter */

/* What a thread reuses from match to match. */
struct matcher_thread {
	pcre2_match_context *limits;
	pcre2_match_data *data;    /* one pair: whether, not where */
	uint32_t steps;            /* that `limits` says */
	struct regex_meter *meter; /* whose time was not charged yet */
	int64_t ns;
	unsigned n;
	bool slow;                 /* the last that was timed */
};

/* A match is charged the CPU time of its thread, not the time of a wall clock, which goes on while the thread waits for a processor. Reading that
 * clock costs more than a fast match. So while matches are fast, one match in TIMED is timed, and its time is charged TIMED times. */
#define TIMED 8
#define SLOW_NS 100000

static pthread_key_t thread_key;
static _Thread_local struct matcher_thread *of_thread;

static void thread_end(void *arg)
{
	struct matcher_thread *t = arg;
	pcre2_match_context_free(t->limits);
	pcre2_match_data_free(t->data);
	free(t);
}

static void make_key(void)
{
	if (pthread_key_create(&thread_key, thread_end))
		abort();
}

static struct matcher_thread *this_thread(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (of_thread)
		return of_thread;
	pthread_once(&once, make_key);
	struct matcher_thread *t = NEW(struct matcher_thread);
	t->limits = pcre2_match_context_create(NULL);
	t->data = pcre2_match_data_create(1, NULL);
	if (!t->limits || !t->data)
		abort();
	pcre2_set_heap_limit(t->limits, MATCH_HEAP_KB);
	pthread_setspecific(thread_key, t);
	return of_thread = t;
}

/* Whether to time the next match. */
static bool timed(struct matcher_thread *t, struct regex_meter *m)
{
	if (m && t->meter != m) {
		t->meter = m;
		t->ns = t->n = 0;
		t->slow = false;
	}
	return m && (t->slow || t->n % TIMED == 0);
}

/* The meter's verdict after one more match; ns: its time if it was timed, else 0. */
static int charge(struct matcher_thread *t, struct regex_meter *m, int64_t ns, struct err *e)
{
	t->ns += t->slow ? ns : ns * TIMED;
	t->slow = ns ? ns >= SLOW_NS : t->slow;
	if (++t->n < 64 && ns < 1000000)
		return 0;
	int64_t spent = atomic_fetch_add_explicit(&m->spent_ns, t->ns, memory_order_relaxed) + t->ns;
	t->ns = t->n = 0;
	if (m->canceled && atomic_load_explicit(m->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "canceled while regular expressions were matched");
	if (m->deadline_mono_ns && clock_mono_ns() > m->deadline_mono_ns)
		return err_set(e, ERR_TIMEOUT, "timed out while regular expressions were matched: ask for less, or raise the request's timeout "
			       "and --query.timeout");
	if (m->max_ns && spent > m->max_ns)
		return err_set(e, ERR_LIMIT, "regular expressions took more than %s: write them without repetitions in repetitions",
			       m->max_name);
	return 0;
}

/* ---- matching ---- */

static int run(struct matcher_thread *t, const pcre2_code *code, struct view s, uint32_t steps, uint32_t options, pcre2_match_data *md)
{
	if (t->steps != steps)
		pcre2_set_match_limit(t->limits, t->steps = steps);
	return pcre2_match(code, (PCRE2_SPTR)(s.ptr ? s.ptr : ""), s.len, 0, options, md, t->limits);
}

/* Steps for each start position in a search of this many bytes. */
static uint32_t steps_of(const struct regex *re, struct view s)
{
	size_t each = SEARCH_STEPS / (s.len + 1);
	return !re->whole || each > MATCH_STEPS ? MATCH_STEPS : each < 64 ? 64 : (uint32_t)each;
}

static int run_within_limits(struct matcher_thread *t, const struct regex *re, struct view s, pcre2_match_data *md)
{
	int rc = run(t, re->code, s, steps_of(re, s), 0, md);
	const pcre2_code *code = re->code;
	if (rc == PCRE2_ERROR_MATCHLIMIT && re->whole) /* one place may need most of the steps */
		rc = run(t, code = re->whole, s, MATCH_STEPS, 0, md);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter takes its room from the heap */
		rc = run(t, code = re->whole ? re->whole : code, s, MATCH_STEPS, PCRE2_NO_JIT, md);
	/* The prefix that `whole` adds does not skip bytes that are not UTF-8. */
	return rc == PCRE2_ERROR_NOMATCH && code != re->code && !utf8_valid(s) ? PCRE2_ERROR_MATCHLIMIT : rc;
}

static int too_many_steps(const struct regex *re, struct view s, struct err *e)
{
	struct view pattern = utf8_prefix(regex_pattern(re), 200), value = utf8_prefix(s, 80);
	return err_set(e, ERR_LIMIT, "the regular expression \"%.*s\"%s took too many steps on \"%.*s\"%s (%zu bytes): write it without "
		       "repetitions in repetitions", VIEW_ARG(pattern), pattern.len < re->pattern_len ? "..." : "", VIEW_ARG(value),
		       value.len < s.len ? "..." : "", s.len);
}

static int match(struct matcher_thread *t, const struct regex *re, struct view s, pcre2_match_data *md, struct regex_meter *meter,
		 struct err *e)
{
	int64_t from = timed(t, meter) ? clock_cpu_ns() : 0;
	int rc = run_within_limits(t, re, s, md);
	if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
		return too_many_steps(re, s, e);
	int over = meter ? charge(t, meter, from ? clock_cpu_ns() - from : 0, e) : 0;
	if (over)
		return over;
	return rc == PCRE2_ERROR_NOMATCH ? 0 : rc ? rc : 1;
}

static bool is_literal(const struct regex *re, struct view s)
{
	size_t lo = 0, hi = re->literals.v.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = view_cmp(re->literals.v.v[mid], s);
		if (!c)
			return true;
		*(c < 0 ? &lo : &hi) = c < 0 ? mid + 1 : mid;
	}
	return false;
}

int regex_match(const struct regex *re, struct view s, struct regex_meter *meter, struct err *e)
{
	if (re->literals.v.n)
		return is_literal(re, s);
	struct matcher_thread *t = this_thread();
	int rc = match(t, re, s, t->data, meter, e);
	return rc > 0 ? 1 : rc;
}

static void put_group(const struct regex *re, struct view name, struct view s, pcre2_match_data *md, struct buf *out)
{
	uint32_t number = 0;
	bool numeric = name.len > 0 && name.len < 6;
	for (size_t i = 0; i < name.len && numeric; i++) {
		numeric = name.ptr[i] >= '0' && name.ptr[i] <= '9';
		number = number * 10 + (uint32_t)(name.ptr[i] - '0');
	}
	for (size_t i = 0; i < re->n_names && !numeric; i++)
		if (view_eq(re->names[i].name, name)) {
			number = re->names[i].group;
			numeric = true;
		}
	if (!numeric)
		return;
	if (number >= pcre2_get_ovector_count(md))
		return;
	const PCRE2_SIZE *o = pcre2_get_ovector_pointer(md);
	if (o[2 * number] != PCRE2_UNSET)
		buf_put(out, s.ptr + o[2 * number], o[2 * number + 1] - o[2 * number]);
}

static bool word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void expand(const struct regex *re, struct view s, struct view t, pcre2_match_data *md, struct buf *out)
{
	for (size_t i = 0; i < t.len && !out->overflow;) {
		if (t.ptr[i] != '$' || i + 1 == t.len) {
			buf_putc(out, t.ptr[i++]);
			continue;
		}
		if (t.ptr[i + 1] == '$') {
			buf_putc(out, '$');
			i += 2;
			continue;
		}
		bool brace = t.ptr[i + 1] == '{';
		size_t first = i + 1 + brace, last = first;
		while (last < t.len && word(t.ptr[last]))
			last++;
		if (last == first || (brace && (last == t.len || t.ptr[last] != '}'))) {
			buf_putc(out, t.ptr[i++]);
			continue;
		}
		put_group(re, view_make(t.ptr + first, last - first), s, md, out);
		i = last + brace;
	}
}

int regex_expand(const struct regex *re, struct view s, struct view t, struct buf *out, struct regex_meter *meter, struct err *e)
{
	pcre2_match_data *md = pcre2_match_data_create_from_pattern(re->code, NULL);
	if (!md)
		return err_set(e, ERR_INTERNAL, "out of memory");
	int rc = match(this_thread(), re, s, md, meter, e);
	if (rc > 0) {
		expand(re, s, t, md, out);
		rc = 1;
	}
	pcre2_match_data_free(md);
	return rc;
}

/* The first match from `from` on, in the groups of md; 0: none. */
static int match_from(struct matcher_thread *t, const struct regex *re, struct view s, size_t from, pcre2_match_data *md,
		      struct regex_meter *meter, struct err *e)
{
	if (!from)
		return match(t, re, s, md, meter, e);
	int64_t start = timed(t, meter) ? clock_cpu_ns() : 0;
	uint32_t steps = steps_of(re, s);
	if (t->steps != steps)
		pcre2_set_match_limit(t->limits, t->steps = steps);
	int rc = pcre2_match(re->code, (PCRE2_SPTR)s.ptr, s.len, from, 0, md, t->limits);
	if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
		return too_many_steps(re, s, e);
	int over = meter ? charge(t, meter, start ? clock_cpu_ns() - start : 0, e) : 0;
	return over ? over : rc == PCRE2_ERROR_NOMATCH ? 0 : 1;
}

static unsigned character_at(struct view s, size_t at)
{
	uint32_t cp;
	unsigned n = at < s.len ? utf8_decode(s.ptr + at, s.len - at, &cp) : 0;
	return n ? n : 1;
}

int regex_replace_all(const struct regex *re, struct view s, struct view t, struct buf *out, struct regex_meter *meter, struct err *e)
{
	pcre2_match_data *md = pcre2_match_data_create_from_pattern(re->code, NULL);
	size_t done = 0, from = 0;
	int rc = 0;
	if (!md)
		return err_set(e, ERR_INTERNAL, "out of memory");
	while (from <= s.len && !out->overflow && (rc = match_from(this_thread(), re, s, from, md, meter, e)) > 0) {
		const PCRE2_SIZE *o = pcre2_get_ovector_pointer(md);
		size_t first = o[0], end = o[1];
		buf_put(out, s.ptr + done, first - done);
		if (end > done || first == 0) /* not of nothing right behind a match */
			expand(re, s, t, md, out);
		done = end;
		from = MAX(end, from + character_at(s, from));
	}
	if (rc >= 0)
		buf_put(out, s.ptr + done, s.len - done);
	pcre2_match_data_free(md);
	return MIN(rc, 0);
}

size_t regex_literals(const struct regex *re)
{
	return re->literals.v.n;
}

struct view regex_literal(const struct regex *re, size_t i)
{
	return re->literals.v.v[i];
}
