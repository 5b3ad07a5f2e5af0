/* SPDX-License-Identifier: Apache-2.0 */
/* Source links: what the configuration may say, and what a hostile profile cannot make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "web/source_links.h"

static struct source_links *parse(const char *yaml, struct err *e)
{
	struct config_tree *t;
	struct source_links *l = NULL;
	assert_int_equal(config_parse(&t, view_of(yaml), "c.yml", e), 0);
	if (source_links_parse(&l, t, NULL, NULL, e))
		l = NULL;
	config_free(t);
	return l;
}

static void test_errors(void **state)
{
	(void)state;
	static const struct { const char *item, *want; } cases[] = {
		{ "{url: 'javascript:alert(1)'}", "c.yml:2:24: field web.source_links[0].url: a URL is wanted that begins with one of these and ://: https, http, vscode" },
		{ "{url: 'data:text/html,x'}", "a URL is wanted" }, { "{url: 'file:///{path}'}", "a URL is wanted" }, { "{url: 'https:/x/{path}'}", "a URL is wanted" },
		{ "{url: 'JavaScript://x/%0aalert(1)'}", "a URL is wanted" }, { "{url: '{path}'}", "a URL is wanted" }, { "{url: ''}", "a URL is wanted" },
		{ "{url: 'https://{1}/x'}", "no placeholder and no user info" }, { "{url: 'https://a@b/{path}'}", "no placeholder and no user info" },
		{ "{url: 'https://a{path}'}", "no placeholder and no user info" }, { "{url: 'https:///{path}'}", "names no host" },
		{ "{url: 'https://a/{lien}'}", "{lien} is none of {path}, {line}" }, { "{url: 'https://a/{}'}", "{} is none of" },
		{ "{url: 'https://a/{path'}", "c.yml:2:24: field web.source_links[0].url: a { without a }, at 11" }, { "{url: 'https://a/}'}", "a } without a {" },
		{ "{url: 'https://a/ b'}", "a byte that no URL has, at 11" }, { "{url: 'https://a/\\b'}", "a byte that no URL has" },
		{ "{match: '(', url: 'https://a/{path}'}", "c.yml:2:26: field web.source_links[0].match: " }, { "{match: x}", "url" }, { "{url: 'https://a/', x: 1}", "x" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct buf b = { 0 };
		buf_printf(&b, "web:\n  source_links: [%s]\n", cases[i].item);
		struct source_links *l = parse(b.ptr, &e);
		if (l || !strstr(e.msg, cases[i].want))
			print_message("%s: %s\n", cases[i].item, e.msg);
		assert_null(l);
		assert_int_equal(e.code, ERR_BAD_DATA);
		assert_non_null(strstr(e.msg, cases[i].want));
		buf_free(&b);
	}
}

static const char yaml[] =
	"web:\n"
	"  source_links:\n"
	"  - name: repository\n"
	"    match: '(?P<site>github\\.com)/(?P<repo>[^/]+/[^/@]+)@(?P<version>[^/]+)/(?P<rest>.+)'\n"
	"    url: 'https://github.com/{repo}/blob/{version}/{rest}#L{line}'\n"
	"  - {match: '/src/(.*)', url: 'https://git.example.org/a/{1}?f={function}&b={binary}'}\n"
	"  - {match: '/src/.*', url: 'vscode://file{path}:{line}'}\n"
	"  - {match: 'rel/.*', url: 'vscode://file{path}'}\n"
	"  - {name: idea, match: '/src/.*', url: 'idea://open?file={path}&line={line}'}\n"
	"  - {match: '/x/.*', url: 'https://h/{path}'}\n";

static void check(const struct source_links *l, const char *file, uint64_t line, const char *want)
{
	struct buf b = { 0 };
	const struct source_frame f = { view_of(file), VIEW("main.(*T).f&x"), VIEW("/bin/a b"), line };
	source_links_json(l, &f, &b);
	assert_string_equal(b.ptr, want);
	buf_free(&b);
}

static void test_links(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct source_links *l = parse(yaml, &e);
	if (!l)
		fail_msg("%s", e.msg);
	check(l, "github.com/a/b@v1.2/c d/e.go", 7, "[{\"name\":\"repository\",\"url\":\"https://github.com/a/b/blob/v1.2/c%20d/e.go#L7\"}]");
	check(l, "/src/m.go", 0, "[{\"name\":\"git.example.org\",\"url\":\"https://git.example.org/a/m.go?f=main.%28%2AT%29.f%26x\\u0026b=/bin/a%20b\"},"
	      "{\"name\":\"vscode\",\"url\":\"vscode://file/src/m.go:1\"},{\"name\":\"idea\",\"url\":\"idea://open?file=/src/m.go\\u0026line=1\"}]");
	check(l, "/x/a.c", 1, "[{\"name\":\"h\",\"url\":\"https://h/x/a.c\"}]");
	check(l, "other", 1, "[]");
	check(l, "", 1, "[]");
	check(NULL, "/x/a.c", 1, "[]");
	source_links_unref(l);
}

/* A file's name comes from whoever made the profile. */
static void test_hostile_files(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct source_links *l = parse(yaml, &e);
	assert_non_null(l);
	check(l, "github.com/a/..@v1/x", 1, "[]");
	check(l, "github.com/a/b@v1/../../../../evil/evil/blob/main/x", 1, "[]");
	check(l, "github.com/a/b@v1/./x", 1, "[]");
	check(l, "github.com/a/b@v1/x?y#z\"><script>", 1, "[{\"name\":\"repository\",\"url\":\"https://github.com/a/b/blob/v1/x%3Fy%23z%22%3E%3Cscript%3E#L1\"}]");
	check(l, "rel/.evil.example.org/x", 1, "[]"); /* would be another authority */
	check(l, "/x//evil.example.org/y", 1, "[{\"name\":\"h\",\"url\":\"https://h/x//evil.example.org/y\"}]");
	check(l, "/x/a\r\nLocation: b", 1, "[{\"name\":\"h\",\"url\":\"https://h/x/a%0D%0ALocation%3A%20b\"}]");
	char long_name[5000];
	memset(long_name, 'a', sizeof long_name - 1);
	memcpy(long_name, "/x/", 3);
	long_name[sizeof long_name - 1] = 0;
	check(l, long_name, 1, "[]");
	source_links_unref(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_errors), cmocka_unit_test(test_links), cmocka_unit_test(test_hostile_files) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
