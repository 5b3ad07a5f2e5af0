/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/text/text_metrics.h"

#include <math.h>

#include "base/num.h"
#include "base/utf8.h"
#include "model/value.h"

#define SHOWN 40        /* bytes of a line that an error shows */
#define LABELS_MAX 1024 /* of a series; relabelling looks for each among all of them */
#define SERIES_MAX 65536 /* bytes of its name and labels, which storage keeps in memory for a day */
#define TEXT_OF(x) #x
#define STR(x) TEXT_OF(x)

void text_metrics_init(struct text_metrics *t, struct view body)
{
	*t = (struct text_metrics){ .begin = body.ptr, .at = body.ptr, .end = body.ptr + body.len };
}

void text_metrics_release(struct text_metrics *t)
{
	vec_free(&t->labels);
}

static int bad(const struct text_metrics *t, const char *line, const char *what, struct err *e)
{
	size_t n = 1, len = 0;
	char text[SHOWN + 1];
	for (const char *p = t->begin; p < line; p++)
		n += *p == '\n';
	for (const char *p = line; p < t->end && *p != '\n' && len < SHOWN; p++)
		text[len++] = *p >= ' ' && *p < 0x7f ? *p : '?';
	text[len] = 0;
	return err_set(e, ERR_BAD_DATA, "line %zu of the metrics: %s: %s", n, what, text);
}

/* ---- parts of a line; each function returns its end, NULL if it is malformed ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static const char *skip_blanks(const struct text_metrics *t, const char *p)
{
	while (p < t->end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

static const char *plain_name(const struct text_metrics *t, const char *p, bool colons)
{
	const char *from = p;
	while (p < t->end && (is_letter(*p) || (colons && *p == ':') || (p > from && is_digit(*p))))
		p++;
	return p > from ? p : NULL;
}

/* p is behind the opening quote; what follows the closing one is returned. A name has no NUL in it. */
static const char *quoted(const struct text_metrics *t, const char *p, bool nul, struct view *ret)
{
	const char *from = p;
	for (; p < t->end; p++) {
		if (*p == '"') {
			*ret = view_make(from, (size_t)(p - from));
			return p + 1;
		}
		if ((!*p && !nul) || (*p == '\\' && (++p >= t->end || *p == '\n')))
			return NULL;
	}
	return NULL;
}

static const char *metric_name(const struct text_metrics *t, const char *p, struct view *ret)
{
	if (p < t->end && *p == '"')
		return quoted(t, p + 1, false, ret);
	const char *end = plain_name(t, p, true);
	if (end)
		*ret = view_make(p, (size_t)(end - p));
	return end;
}

/* ---- numbers ---- */

/* Digits, a point, an exponent, where a double has it exactly: up to 2^53, times or by a power of ten up to 22. */
static bool parse_short(struct view v, double *ret)
{
	static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
				       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	const char *p = v.ptr, *end = v.ptr + v.len;
	bool negative = v.len && *p == '-';
	uint64_t m = 0;
	int scale = 0, digits = 0;
	bool point = false;
	for (p += negative; p < end && digits <= 18; p++) {
		if (*p == '.' && !point) {
			point = true;
		} else if (is_digit(*p)) {
			m = m * 10 + (uint64_t)(*p - '0');
			digits++;
			scale -= point;
		} else {
			break;
		}
	}
	if (!digits || m > UINT64_C(1) << 53)
		return false;
	if (p < end && (*p == 'e' || *p == 'E')) {
		bool minus = ++p < end && *p == '-';
		int exponent = 0, n = 0;
		p += p < end && (*p == '-' || *p == '+');
		for (; p < end && is_digit(*p) && n < 3; p++, n++)
			exponent = exponent * 10 + *p - '0';
		if (!n)
			return false;
		scale += minus ? -exponent : exponent;
	}
	if (p != end || scale < -22 || scale > 22)
		return false;
	double d = scale < 0 ? (double)m / tens[-scale] : (double)m * tens[scale];
	*ret = negative ? -d : d;
	return true;
}

/* As Go reads a float, without hexadecimal and underscores. A number too large for a double is an error; a name is not. */
static bool parse_value(struct view v, double *ret)
{
	if (parse_short(v, ret))
		return true;
	if (!num_parse_double(v, ret))
		return false;
	bool named = !is_digit(v.ptr[v.len - 1]) && v.ptr[v.len - 1] != '.';
	if (isnan(*ret)) {
		*ret = value_from_bits(VALUE_NORMAL_NAN_BITS);
		return v.len == 3; /* it has no sign */
	}
	return named || !isinf(*ret);
}

/* ---- lines ---- */

/* One label, or a name in quotes; p is at its first byte. */
static const char *read_label(struct text_metrics *t, const char *p, const char **ret_problem)
{
	struct view name;
	bool is_quoted = *p == '"';
	const char *end = is_quoted ? quoted(t, p + 1, false, &name) : plain_name(t, p, false);
	*ret_problem = "expected the name of a label";
	if (!end)
		return NULL;
	if (!is_quoted)
		name = view_make(p, (size_t)(end - p));
	p = skip_blanks(t, end);
	if (is_quoted && p < t->end && (*p == ',' || *p == '}')) {
		*ret_problem = "the name of the metric is there twice";
		if (t->name.ptr)
			return NULL;
		t->name = name;
		return p;
	}
	*ret_problem = "expected = after the name of a label";
	if (p >= t->end || *p != '=')
		return NULL;
	p = skip_blanks(t, p + 1);
	*ret_problem = "expected the value of a label, in quotes";
	if (t->labels.n >= LABELS_MAX) {
		*ret_problem = "it has more than " STR(LABELS_MAX) " labels";
		return NULL;
	}
	struct label l = { .name = name };
	if (p >= t->end || *p != '"' || !(p = quoted(t, p + 1, true, &l.value)))
		return NULL;
	vec_push(&t->labels, l);
	return skip_blanks(t, p);
}

/* p is behind the opening brace. Commas between labels may be left out, and one may stand after the last. */
static const char *read_labels(struct text_metrics *t, const char *p, const char **ret_problem)
{
	for (p = skip_blanks(t, p); p < t->end && *p != '}';) {
		p = read_label(t, p, ret_problem);
		if (!p)
			return NULL;
		if (p < t->end && *p == ',')
			p = skip_blanks(t, p + 1);
	}
	*ret_problem = "the labels have no end";
	return p < t->end ? p + 1 : NULL;
}

static int read_number(struct text_metrics *t, const char *line, const char *p, struct err *e)
{
	const char *from = p = skip_blanks(t, p);
	while (p < t->end && *p != ' ' && *p != '\t' && *p != '\n' && *p != '{')
		p++;
	if (p == from)
		return bad(t, line, "expected a value", e);
	if (!parse_value(view_make(from, (size_t)(p - from)), &t->value))
		return bad(t, line, "its value is not a number", e);
	from = p = skip_blanks(t, p);
	while (p < t->end && is_digit(*p))
		p++;
	t->has_t = p > from;
	if (t->has_t && !num_parse_i64(view_make(from, (size_t)(p - from)), &t->t_ms))
		return bad(t, line, "its timestamp is too large", e);
	p = skip_blanks(t, p);
	if (p < t->end && *p != '\n')
		return bad(t, line, "expected a timestamp or the end of the line", e);
	t->at = p < t->end ? p + 1 : p;
	return TEXT_SAMPLE;
}

static int read_sample(struct text_metrics *t, const char *line, struct err *e)
{
	const char *problem = NULL, *p = line;
	t->labels.n = 0;
	t->name = (struct view){ 0 };
	if (*p != '{') {
		p = plain_name(t, p, true);
		if (!p)
			return bad(t, line, "expected the name of a metric", e);
		t->name = view_make(line, (size_t)(p - line));
	}
	t->series = view_make(line, (size_t)(p - line));
	const char *brace = skip_blanks(t, p);
	if (brace < t->end && *brace == '{') {
		p = read_labels(t, brace + 1, &problem);
		if (!p)
			return bad(t, line, problem, e);
		t->series.len = (size_t)(p - line);
	}
	if (!t->name.ptr)
		return bad(t, line, "it has no name of a metric", e);
	if (t->series.len > SERIES_MAX)
		return bad(t, line, "its name and labels have more than " STR(SERIES_MAX) " bytes", e);
	return read_number(t, line, p, e);
}

static bool is_type(struct view v)
{
	static const char *const types[] = { "counter", "gauge", "histogram", "summary", "untyped" };
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (view_eqs(v, types[i]))
			return true;
	return false;
}

/* A line that begins with #. Returns TEXT_END for a comment. */
static int read_meta(struct text_metrics *t, const char *line, const char *end, struct err *e)
{
	const char *p = skip_blanks(t, line + 1), *word = p;
	bool help = end - p > 4 && memcmp(p, "HELP", 4) == 0, type = end - p > 4 && memcmp(p, "TYPE", 4) == 0;
	p = (help || type) ? skip_blanks(t, p + 4) : p;
	if (word == line + 1 || (!help && !type) || p == word + 4)
		return TEXT_END;
	p = metric_name(t, p, &t->name);
	if (!p || p > end)
		return bad(t, line, "expected the name of a metric", e);
	t->text = p < end ? view_make(p + 1, (size_t)(end - p - 1)) : VIEW("");
	if (type && !is_type(t->text))
		return bad(t, line, "not a type of metrics", e);
	if (help && !utf8_valid(t->text))
		return bad(t, line, "the help is not UTF-8", e);
	return type ? TEXT_TYPE : TEXT_HELP;
}

int text_metrics_next(struct text_metrics *t, struct err *e)
{
	for (;;) {
		const char *line = t->at, *p = skip_blanks(t, line);
		if (p >= t->end || !*p)
			return TEXT_END;
		if (*p == '\n') {
			t->at = p + 1;
			continue;
		}
		if (*p != '#')
			return read_sample(t, line, e);
		const char *end = memchr(p, '\n', (size_t)(t->end - p));
		end = end ? end : t->end;
		t->at = end < t->end ? end + 1 : end;
		int rc = read_meta(t, p, end, e);
		if (rc != TEXT_END)
			return rc;
	}
}

/* ---- labels ---- */

static struct view unescape(struct arena *a, struct view v)
{
	if (!v.len || !memchr(v.ptr, '\\', v.len))
		return v;
	char *out = arena_alloc(a, v.len);
	size_t n = 0;
	for (size_t i = 0; out && i < v.len; i++) {
		char next = i + 1 < v.len ? v.ptr[i + 1] : 0;
		bool escape = v.ptr[i] == '\\' && (next == '\\' || next == '"' || next == 'n');
		out[n++] = !escape ? v.ptr[i] : next == 'n' ? '\n' : next;
		i += escape;
	}
	return out ? view_make(out, n) : (struct view){ 0 };
}

static int by_name(const void *a, const void *b)
{
	return view_cmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

/* Two labels of one name are an error, unless one is empty: that one is ignored. */
static int unique(struct label *v, size_t *n, struct err *e)
{
	size_t kept = 0;
	for (size_t i = 0, next; i < *n; i = next) {
		bool empty = false;
		for (next = i; next < *n && view_eq(v[next].name, v[i].name); next++)
			empty |= !v[next].value.len;
		if (next - i > 1 && !empty)
			return err_set(e, ERR_BAD_DATA, "a series has the label %.*s twice", (int)MIN(v[i].name.len, (size_t)SHOWN), v[i].name.ptr);
		v[kept] = v[i];
		if (empty)
			v[kept].value = VIEW("");
		kept++;
	}
	*n = kept;
	return 0;
}

int text_metrics_labels(const struct text_metrics *t, struct arena *a, struct labels *ret, struct err *e)
{
	size_t n = t->labels.n + 1;
	struct label *v = arena_alloc(a, n * sizeof *v);
	if (!v)
		return err_set(e, ERR_LIMIT, "the labels of a series take too much memory");
	v[0] = (struct label){ VIEW(LABEL_NAME), unescape(a, t->name) };
	for (size_t i = 1; i < n; i++)
		v[i] = (struct label){ unescape(a, t->labels.v[i - 1].name), unescape(a, t->labels.v[i - 1].value) };
	for (size_t i = 0; i < n; i++) {
		if (!v[i].name.ptr || !v[i].value.ptr)
			return err_set(e, ERR_LIMIT, "the labels of a series take too much memory");
		if (!v[i].name.len || !utf8_valid(v[i].name) || !utf8_valid(v[i].value))
			return err_set(e, ERR_BAD_DATA, "a label of %.*s has no name or is not UTF-8", (int)MIN(t->name.len, (size_t)SHOWN),
				       t->name.ptr);
	}
	if (!v[0].value.len)
		return err_set(e, ERR_BAD_DATA, "a series has an empty name");
	qsort(v, n, sizeof *v, by_name);
	int rc = unique(v, &n, e);
	*ret = (struct labels){ v, n };
	return rc;
}
