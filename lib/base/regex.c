/* SPDX-License-Identifier: Apache-2.0 */
#include "base/regex.h"

#include <pthread.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/regex_re2.h"

#define MATCH_LIMIT 1000000

struct regex {
	atomic_int refs;
	pcre2_code *code;
	char *pattern;
	size_t pattern_len;
	struct re2_name *names; /* of groups; the views point into pattern */
	size_t n_names;
	bool jit;
	struct re2_literals literals; /* anchored patterns only */
};

/* Compiles what re2_translate wrote; the error is about the pattern as it was given. */
static pcre2_code *compile(const struct re2 *r, struct view pattern, bool anchored, struct err *e)
{
	struct buf b = { .max = 32u << 20 };
	int code;
	PCRE2_SIZE at;
	buf_puts(&b, anchored ? "\\A(?:" : "(?:");
	buf_putv(&b, buf_view(&r->out));
	buf_puts(&b, anchored ? ")\\z" : ")");
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
	pcre2_code *c = rc ? NULL : compile(&r, pattern, anchored, e);
	if (!c) {
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
	re->jit = pcre2_jit_compile(c, PCRE2_JIT_COMPLETE) == 0;
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

/* One for all threads: matching only reads it. */
static pcre2_match_context *limits_ctx;

static void make_limits(void)
{
	limits_ctx = pcre2_match_context_create(NULL);
	if (!limits_ctx)
		abort();
	pcre2_set_match_limit(limits_ctx, MATCH_LIMIT);
}

static pcre2_match_context *limits(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_limits);
	return limits_ctx;
}

static int match_at(const struct regex *re, struct view s, size_t from, pcre2_match_data *md, struct err *e)
{
	int rc = pcre2_match(re->code, (PCRE2_SPTR)(s.ptr ? s.ptr : ""), s.len, from, 0, md, limits());
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0)
		return err_set(e, ERR_LIMIT, "regular expression \"%s\" took too many steps on a subject of %zu bytes",
			       re->pattern, s.len);
	return rc ? rc : 1;
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

int regex_match(const struct regex *re, struct view s, struct err *e)
{
	if (re->literals.v.n)
		return is_literal(re, s);
	pcre2_match_data *md = pcre2_match_data_create(1, NULL);
	int rc = md ? match_at(re, s, 0, md, e) : err_set(e, ERR_INTERNAL, "out of memory");
	pcre2_match_data_free(md);
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
	for (size_t i = 0; i < t.len;) {
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

int regex_expand(const struct regex *re, struct view s, struct view t, struct buf *out, struct err *e)
{
	pcre2_match_data *md = pcre2_match_data_create_from_pattern(re->code, NULL);
	if (!md)
		return err_set(e, ERR_INTERNAL, "out of memory");
	int rc = match_at(re, s, 0, md, e);
	if (rc > 0) {
		expand(re, s, t, md, out);
		rc = 1;
	}
	pcre2_match_data_free(md);
	return rc;
}

size_t regex_literals(const struct regex *re)
{
	return re->literals.v.n;
}

struct view regex_literal(const struct regex *re, size_t i)
{
	return re->literals.v.v[i];
}
