/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/config_http.h"
#include "config/config_relabel.h"
#include "config/config_top.h"

struct inner {
	int64_t wait_ms;
	const char *word;
};

struct outer {
	const char *name, *secret, *file;
	bool flag;
	int64_t count, signed_one;
	double ratio;
	uint64_t size;
	int color;
	struct config_strings list;
	struct config_map map;
	struct config_multimap multi;
	struct inner inner;
	struct inner *maybe;
	struct config_list many;
	struct inner inl;
	const struct config_node *node;
};

#define F(key, type, member, def) { key, type, offsetof(struct outer, member), def }
static const struct config_field inner_rows[] = {
	{ "wait", CONFIG_DURATION, offsetof(struct inner, wait_ms), "5s" },
	{ "word", CONFIG_STRING, offsetof(struct inner, word) },
};
static const struct config_table inner_table = CONFIG_TABLE(struct inner, inner_rows, NULL);
static const struct config_field inline_rows[] = {
	{ "beside", CONFIG_DURATION, offsetof(struct inner, wait_ms), "7s" },
};
static const struct config_table inline_table = CONFIG_TABLE(struct inner, inline_rows, NULL);
static const struct config_field outer_rows[] = {
	{ "name", CONFIG_STRING, offsetof(struct outer, name), NULL, CONFIG_REQUIRED },
	F("secret", CONFIG_SECRET, secret, NULL),
	F("file", CONFIG_PATH, file, NULL),
	F("flag", CONFIG_BOOL, flag, "true"),
	F("count", CONFIG_COUNT, count, "3"),
	F("signed", CONFIG_INT, signed_one, NULL),
	F("ratio", CONFIG_FLOAT, ratio, "0.5"),
	F("size", CONFIG_SIZE, size, "1KB"),
	{ "color", CONFIG_ENUM, offsetof(struct outer, color), "green", .words = "red|green|blue" },
	F("list", CONFIG_STRINGS, list, NULL),
	F("map", CONFIG_MAP, map, NULL),
	F("multi", CONFIG_MULTIMAP, multi, NULL),
	{ "inner", CONFIG_STRUCT, offsetof(struct outer, inner), .table = &inner_table },
	{ "maybe", CONFIG_POINTER, offsetof(struct outer, maybe), .table = &inner_table },
	{ "many", CONFIG_STRUCTS, offsetof(struct outer, many), .table = &inner_table },
	{ NULL, CONFIG_INLINE, offsetof(struct outer, inl), .table = &inline_table },
	F("node", CONFIG_NODE, node, NULL),
	{ "old", CONFIG_IGNORED, .words = "ignored; use name" },
	{ "never", CONFIG_REFUSED, .words = "not here; use name" },
};
static const struct config_table outer_table = CONFIG_TABLE(struct outer, outer_rows, NULL);

/* One decoding, with what it said. */
struct run {
	struct arena arena;
	struct config_tree *tree;
	struct outer o;
	struct err err;
	char warnings[2048];
};

static void on_warning(void *arg, const char *text)
{
	struct run *r = arg;
	size_t n = strlen(r->warnings);
	snprintf(r->warnings + n, sizeof r->warnings - n, "%s\n", text);
}

static int run(struct run *r, const char *yaml)
{
	*r = (struct run){ 0 };
	arena_init(&r->arena, 0);
	int rc = config_parse(&r->tree, view_of(yaml), "f.yml", &r->err);
	if (rc)
		return rc;
	struct config_ctx c = { .arena = &r->arena, .dir = "/etc/x", .warn = on_warning, .warn_arg = r };
	rc = config_decode(&c, &outer_table, config_root(r->tree), &r->o, &r->err);
	config_ctx_release(&c);
	return rc;
}

static void done(struct run *r)
{
	config_free(r->tree);
	arena_free(&r->arena);
}

static void every_type(void **state)
{
	struct run r;
	int rc = run(&r, "name: n\nsecret: s3cret\nfile: a/b.pem\nflag: false\ncount: 7\nsigned: -4\nratio: 1.5e3\nsize: 2MB\n"
			 "color: Blue\nlist: [a, '2', 3]\nmap: {k: v, n: 1, e: }\nmulti: {a: x, b: [y, z]}\n"
			 "inner: {word: w}\nmaybe: {wait: 1m}\nmany:\n- {word: one}\n- {wait: 2s}\nbeside: 9s\nnode: [1]\n");
	if (rc)
		fail_msg("%s", r.err.msg);
	assert_string_equal(r.o.name, "n");
	assert_string_equal(r.o.file, "/etc/x/a/b.pem");
	assert_false(r.o.flag);
	assert_int_equal(r.o.count, 7);
	assert_int_equal(r.o.signed_one, -4);
	assert_true(r.o.ratio > 1499 && r.o.ratio < 1501);
	assert_int_equal(r.o.size, 2 << 20);
	assert_int_equal(r.o.color, 2);
	assert_int_equal(r.o.list.n, 3);
	assert_string_equal(r.o.list.v[2], "3");
	assert_string_equal(r.o.map.v[1].value, "1");
	assert_string_equal(r.o.map.v[2].value, "");
	assert_string_equal(r.o.multi.v[0].values.v[0], "x");
	assert_int_equal(r.o.multi.v[1].values.n, 2);
	assert_int_equal(r.o.inner.wait_ms, 5000);
	assert_string_equal(r.o.inner.word, "w");
	assert_int_equal(r.o.maybe->wait_ms, 60000);
	assert_int_equal(r.o.many.n, 2);
	assert_string_equal(((struct inner *)r.o.many.v)[0].word, "one");
	assert_int_equal(((struct inner *)r.o.many.v)[1].wait_ms, 2000);
	assert_int_equal(r.o.inl.wait_ms, 9000);
	assert_int_equal(r.o.node->type, CONFIG_NODE_LIST);
	done(&r);
	assert_int_equal(run(&r, "name: n\nflag:\n"), 0);
	assert_true(r.o.flag);
	assert_int_equal(r.o.count, 3);
	assert_int_equal(r.o.color, 1);
	assert_int_equal(r.o.size, 1024);
	assert_int_equal(r.o.inner.wait_ms, 5000);
	assert_int_equal(r.o.inl.wait_ms, 7000);
	assert_null(r.o.maybe);
	done(&r);
}

static void errors_say_where(void **state)
{
	static const struct {
		const char *yaml, *says;
	} cases[] = {
		{ "flag: true\n", "f.yml:1:1: field name: is missing" },
		{ "name: n\ncuont: 3\n", "f.yml:2:1: field cuont: unknown; did you mean count?" },
		{ "name: n\nzzzzzzzz: 3\n", "f.yml:2:1: field zzzzzzzz: unknown" },
		{ "name: n\nlisp: 3\n", "f.yml:2:1: field lisp: unknown; did you mean list?" },
		{ "name: n\nfox: 3\n", "f.yml:2:1: field fox: unknown" },
		{ "name: n\n\"\": 3\n", "f.yml:2:1: unknown" },
		{ "name: n\nflag: maybe\n", "f.yml:2:7: field flag: \"maybe\" is neither true nor false" },
		{ "name: n\ncount: -1\n", "f.yml:2:8: field count: must not be negative" },
		{ "name: n\ncount: 1.5\n", "\"1.5\" is not a whole number" },
		{ "name: n\nsize: 12\n", "field size: \"12\" is not a size; write for example 10MB" },
		{ "name: n\ncolor: pink\n", "\"pink\" is not one of red|green|blue" },
		{ "name: n\ninner:\n  wait: soon\n", "f.yml:3:9: field inner.wait: \"soon\" is not a duration" },
		{ "name: n\nmany:\n- wait: 1s\n- {wait: 1x}\n", "f.yml:4:10: field many[1].wait:" },
		{ "name: n\nmany:\n- wort: x\n", "f.yml:3:3: field many[0].wort: unknown; did you mean word?" },
		{ "name: n\nmany: {}\n", "f.yml:2:7: field many: a list is wanted, here is a map" },
		{ "name: n\nlist: x\n", "field list: a list of strings is wanted, here is a single value" },
		{ "name: n\nlist: [a, [b]]\n", "field list[1]: a string is wanted, here is a list" },
		{ "name: n\nmap: {a: {b: c}}\n", "f.yml:2:10: field map.a: a string is wanted, here is a map" },
		{ "name: [n]\n", "f.yml:1:7: field name: a string is wanted, here is a list" },
		{ "name: n\nnever: 1\n", "field never: not here; use name" },
		{ "name: a\nname: b\n", "f.yml:2:1: field name: given twice, first at line 1" },
		{ "name: *x\n", "f.yml:1:7: alias *x: no such anchor before it" },
		{ "name: &x [*x]\n", "alias *x: no such anchor before it" },
		{ "[a]: b\n", "a key must be a plain string" },
		{ "name: n\n  bad: indent\n", "f.yml:2:6: YAML: " },
		{ "name: 'x\n", "YAML: " },
		{ "a: 1\n---\nb: 2\n", "f.yml:3:1: a second document in one file" },
		{ "name: \"\\0\"\n", "a NUL character" },
		{ "- a\n", "f.yml:1:1: a map is wanted, here is a list" },
		{ "<<: 3\n", "a merge key (<<) needs a map" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct run r;
		int rc = run(&r, cases[i].yaml);
		bool guessed = view_ends(view_of(cases[i].says), VIEW("unknown")) && strstr(r.err.msg, "did you mean");
		if (!rc || guessed || !strstr(r.err.msg, cases[i].says))
			fail_msg("%s gives \"%s\", not \"%s\"", cases[i].yaml, rc ? r.err.msg : "no error", cases[i].says);
		done(&r);
	}
}

/* An alias is as deep and as large as what it stands for: who walks the tree does not see that it is one. */
static void aliases_are_bounded(void **state)
{
	(void)state;
	static const struct {
		const char *before, *item, *after;
		int items, rounds;
		const char *error;
	} cases[] = {
		{ "[[[[[[[[[[", "", "]]]]]]]]]]", 1, 5, NULL },
		{ "[[[[[[[[[[", "", "]]]]]]]]]]", 1, 1000, "nested over 64 levels" },
		{ "{a: ", "", "}", 1, 1000, "nested over 64 levels" },
		{ "[", ",", "]", 10, 5, NULL },
		{ "[", ",", "]", 10, 30, "nodes, aliases included" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf b = { 0 };
		struct config_tree *t;
		struct err e = { 0 };
		buf_puts(&b, "a0: &a0 x\n");
		for (int k = 1; k <= cases[i].rounds; k++) {
			buf_printf(&b, "a%d: &a%d %s", k, k, cases[i].before);
			for (int n = 0; n < cases[i].items; n++)
				buf_printf(&b, "%s*a%d ", n ? cases[i].item : "", k - 1);
			buf_printf(&b, "%s\n", cases[i].after);
		}
		int rc = config_parse(&t, buf_view(&b), "f.yml", &e);
		if (cases[i].error ? rc == 0 || !strstr(e.msg, cases[i].error) : rc != 0)
			fail_msg("%zu: %d %s", i, rc, e.msg);
		if (!rc)
			config_free(t);
		buf_free(&b);
	}
}

static void anchors_and_merges(void **state)
{
	struct run r;
	assert_int_equal(run(&r, "inner: &i {wait: 3s, word: x}\nmaybe: *i\nmany:\n- {<<: *i, word: y}\n"
				 "- {word: z, <<: [*i, {wait: 9s}]}\nname: n\n"), 0);
	struct inner *many = r.o.many.v;
	assert_int_equal(r.o.maybe->wait_ms, 3000);
	assert_string_equal(r.o.maybe->word, "x");
	assert_int_equal(many[0].wait_ms, 3000);
	assert_string_equal(many[0].word, "y");
	assert_int_equal(many[1].wait_ms, 3000);
	assert_string_equal(many[1].word, "z");
	done(&r);
	assert_int_equal(run(&r, "name: n\nold: 3\n"), 0);
	assert_string_equal(r.warnings, "f.yml:2:6: field old: ignored; use name\n");
	done(&r);
}

static void empty_and_deep(void **state)
{
	struct config_tree *t = NULL;
	struct err e = { 0 };
	struct buf b = { 0 };
	assert_int_equal(config_parse(&t, VIEW(""), "e", &e), 0);
	assert_int_equal(config_root(t)->type, CONFIG_NODE_MAP);
	assert_int_equal(config_root(t)->n, 0);
	config_free(t);
	for (int i = 0; i < 1000; i++)
		buf_putc(&b, '[');
	assert_true(config_parse(&t, buf_view(&b), "deep", &e) < 0);
	assert_non_null(strstr(e.msg, "levels deep"));
	buf_free(&b);
	assert_true(config_load(&t, "/nonexistent/x.yml", &e) < 0);
	assert_non_null(strstr(e.msg, "cannot read /nonexistent/x.yml: No such file"));
	assert_true(config_parse(&t, VIEW("a: \xff\xfe\n"), "bytes", &e) < 0);
}

static void secrets_are_not_shown(void **state)
{
	static const char text[] =
		"a:\n  basic_auth: {username: u, password: p4ssw0rd}\n  authorization:\n    credentials: cr3d\n"
		"  http_headers:\n    X-Key: {secrets: [s3cr3t, t00], values: [plain]}\n"
		"  proxy_url: http://me:pr0xy@host:3128/\n  tls_config: {key: k3y, key_file: f.pem}\n"
		"  list: [a: 1, b: [x, []]]\n  empty: {}\n  n: null\n  q: 'true'\n  colon: 'a: b'\n"
		"  params: {api_token: [h1dden, h2dden], debug: ['1'], key: h3dden}\n  proxy_connect_header: {Proxy-Authorization: [h4dden]}\n"
		"  static_configs: [{targets: [a], labels: {__param_auth: h5dden, __param_gc: shown1}}]\n"
		"  relabel_configs: [{target_label: __param_password, replacement: h6dden}, {target_label: b, replacement: shown2}]\n"
		"  path: /debug/x?seconds=5&Access_Key=h7dden&y=shown3\n  oauth2: {endpoint_params: {client_pwd: h8dden}}\n";
	static const char *const hidden[] = { "p4ssw0rd", "cr3d", "s3cr3t", "t00", "pr0xy", "k3y", "h1dden", "h2dden", "h3dden", "h4dden",
					      "h5dden", "h6dden", "h7dden", "h8dden" };
	struct config_tree *t = NULL, *again = NULL;
	struct err e = { 0 };
	struct buf b = { 0 }, b2 = { 0 };
	assert_int_equal(config_parse(&t, view_of(text), "s", &e), 0);
	config_redact(t, &b);
	for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
		assert_null(strstr(b.ptr, hidden[i]));
	assert_non_null(strstr(b.ptr, "username: u\n"));
	assert_non_null(strstr(b.ptr, "key_file: f.pem\n"));
	assert_non_null(strstr(b.ptr, "plain"));
	assert_non_null(strstr(b.ptr, "shown1"));
	assert_non_null(strstr(b.ptr, "shown2"));
	assert_non_null(strstr(b.ptr, "/debug/x?seconds=5&Access_Key=<secret>&y=shown3"));
	assert_non_null(strstr(b.ptr, "q: \"true\""));
	/* It is YAML still, and means the same. */
	if (config_parse(&again, buf_view(&b), "again", &e))
		fail_msg("%s\n%s", e.msg, b.ptr);
	config_redact(again, &b2);
	assert_string_equal(b.ptr, b2.ptr);
	config_free(t);
	config_free(again);
	buf_free(&b);
	buf_free(&b2);
}

static void urls_are_shown_without_secrets(void **state)
{
	static const char *const rows[][2] = {
		{ "http://u:p@h:1/x?a=b@c", "http://<secret>@h:1/x?a=b@c" },
		{ "http://h/x@y", "http://h/x@y" },
		{ "http://h/x?token=t&gc=1", "http://h/x?token=<secret>&gc=1" },
		{ "http://h/x?gc=1&X-API-Key=t==&sig=q", "http://h/x?gc=1&X-API-Key=<secret>&sig=<secret>" },
		{ "http://h/x?&&=&key&token", "http://h/x?&&=&key&token" },
		{ "http://h/x?", "http://h/x?" },
		{ "/p?passwd=", "/p?passwd=<secret>" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf b = { 0 };
		config_redact_url(view_of(rows[i][0]), &b);
		assert_string_equal(b.ptr ? b.ptr : "", rows[i][1]);
		buf_free(&b);
	}
	assert_false(config_secret_name(VIEW("seconds")));
	assert_false(config_secret_name(VIEW("monkey")));
}

/* The table of HTTP settings: what a yaml gives, or its error. */
static int http(struct run *r, const char *yaml, struct http_config *h)
{
	*r = (struct run){ 0 };
	*h = (struct http_config){ 0 };
	arena_init(&r->arena, 0);
	int rc = config_parse(&r->tree, view_of(yaml), "h.yml", &r->err);
	struct config_ctx c = { .arena = &r->arena, .dir = "/d", .warn = on_warning, .warn_arg = r };
	if (!rc)
		rc = config_decode(&c, &config_http_table, config_root(r->tree), h, &r->err);
	config_ctx_release(&c);
	return rc;
}

static void http_settings(void **state)
{
	static const struct {
		const char *yaml, *says;
	} bad[] = {
		{ "basic_auth: {password: x}\nauthorization: {credentials: y}\n", "more than one of" },
		{ "authorization: {type: Basic, credentials: topsecret}\n", "use basic_auth" },
		{ "basic_auth: {password: x, password_file: y}\n", "password and password_file are both given" },
		{ "bearer_token: x\nbearer_token_file: y\n", "both given" },
		{ "bearer_token: x\nbasic_auth: {}\n", "one is enough" },
		{ "tls_config: {cert_file: c}\n", "needs both a certificate and its key" },
		{ "tls_config: {min_version: SSL3}\n", "is not one of" },
		{ "tls_config: {min_version: TLS13, max_version: TLS12}\n", "min_version is above" },
		{ "oauth2: {client_id: x}\n", "field oauth2.token_url: is missing" },
		{ "no_proxy: x\n", "no_proxy without proxy_url" },
		{ "http_headers: {Authorization: {values: [x]}}\n", "set by the client itself" },
		{ "http_headers: {X: {values: [\"a\\nb\"]}}\n", "a line break" },
	};
	struct run r, r2;
	struct http_config h, h2;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int rc = http(&r, bad[i].yaml, &h);
		if (!rc || !strstr(r.err.msg, bad[i].says))
			fail_msg("%s gives \"%s\", not \"%s\"", bad[i].yaml, rc ? r.err.msg : "no error", bad[i].says);
		assert_null(strstr(r.err.msg, "topsecret"));
		done(&r);
	}
	assert_int_equal(http(&r, "", &h), 0);
	assert_true(h.follow_redirects && h.enable_http2);
	assert_int_equal(http(&r2, "bearer_token_file: tok\nhttp_headers: {X-A: {files: [f]}}\n", &h2), 0);
	assert_string_equal(h2.authorization->type, "Bearer");
	assert_string_equal(h2.authorization->credentials_file, "/d/tok");
	assert_string_equal(h2.headers[0].files.v[0], "/d/f");
	done(&r);
	done(&r2);
}

/* Each differs from each other; each equals itself read again, and its copy, also after the original is gone. */
static void same_and_copied(void **state)
{
	static const char *const yaml[] = {
		"", "proxy_url: http://p\n", "enable_http2: false\n", "basic_auth: {username: u}\n",
		"basic_auth: {username: u, password: p}\n", "authorization: {credentials: c}\n", "tls_config: {ca: c}\n",
		"tls_config: {min_version: TLS12}\n", "tls_config: {insecure_skip_verify: true}\n",
		"oauth2: {client_id: i, token_url: u, scopes: [a, b]}\n", "oauth2: {client_id: i, token_url: u, scopes: [a, c]}\n",
		"oauth2: {client_id: i, token_url: u, endpoint_params: {a: b}}\n",
		"oauth2: {client_id: i, token_url: u, endpoint_params: {a: c}}\n",
		"http_headers: {X: {values: [v]}}\n", "http_headers: {X: {values: [w]}}\n", "http_headers: {Y: {values: [v]}}\n",
		"http_headers: {X: {files: [v]}}\n", "proxy_url: u\nproxy_connect_header: {a: [b, c]}\n",
		"proxy_url: u\nproxy_connect_header: {a: [b, d]}\n",
	};
	const struct config_table *t = &config_http_table;
	for (size_t i = 0; i < ARRAY_LEN(yaml); i++) {
		struct http_config a, b, copy;
		struct arena arena;
		struct run r, r2;
		arena_init(&arena, 0);
		assert_int_equal(http(&r, yaml[i], &a), 0);
		config_copy(t, &arena, &a, &copy);
		done(&r);
		for (size_t k = 0; k < ARRAY_LEN(yaml); k++) {
			assert_int_equal(http(&r2, yaml[k], &b), 0);
			if (config_same(t, &copy, &b) != (i == k) || config_same(t, &b, &copy) != (i == k))
				fail_msg("%s and %s", yaml[i], yaml[k]);
			done(&r2);
		}
		arena_free(&arena);
	}
}

static int top(struct run *r, const char *yaml, struct config_global *g)
{
	*r = (struct run){ 0 };
	arena_init(&r->arena, 0);
	int rc = config_parse(&r->tree, view_of(yaml), "t.yml", &r->err);
	struct config_ctx c = { .arena = &r->arena, .warn = on_warning, .warn_arg = r };
	if (!rc)
		rc = config_check_top(r->tree, &c, &r->err);
	if (!rc)
		rc = config_global_decode(r->tree, &c, g, &r->err);
	config_ctx_release(&c);
	return rc;
}

static void top_level(void **state)
{
	struct run r;
	struct config_global g;
	assert_int_equal(top(&r, "", &g), 0);
	assert_int_equal(g.scrape_interval_ms, 10000);
	assert_int_equal(g.evaluation_interval_ms, 60000);
	done(&r);
	setenv("PYRRHA_TEST_V", "v1", 1);
	assert_int_equal(top(&r, "global:\n  scrape_interval: 1m\n  external_labels: {a: 'x${PYRRHA_TEST_V}y$PYRRHA_TEST_V-$$-$NOPE_'}\n"
				 "rule_files: [a]\nalerting: {}\n", &g), 0);
	assert_int_equal(g.scrape_interval_ms, 60000);
	assert_string_equal(g.external_labels.v[0].value, "xv1yv1-$-");
	done(&r);
	/* Parca's plain server file. */
	assert_int_equal(top(&r, "grpc_address: ':7070'\nhttp_address: ':7070'\nstorage_active_memory: 1\n", &g), 0);
	assert_non_null(strstr(r.warnings, "t.yml:2:15: field http_address: ignored; the address is the flag --web.listen-address"));
	assert_non_null(strstr(r.warnings, "grpc_address"));
	assert_non_null(strstr(r.warnings, "storage_active_memory"));
	done(&r);
	assert_int_equal(top(&r, "object_storage: {bucket: {type: FILESYSTEM, config: {directory: ./data}}}\n", &g), 0);
	assert_string_equal(r.warnings, ""); /* lib/bucket decodes it */
	done(&r);
	assert_true(top(&r, "scrape_config: []\n", &g) < 0);
	assert_non_null(strstr(r.err.msg, "did you mean scrape_configs?"));
	done(&r);
	assert_true(top(&r, "global: {scrape_interval: 0s}\n", &g) < 0);
	done(&r);
}

static void relabel_rules(void **state)
{
	static const char text[] = "- {source_labels: [a, b], target_label: c}\n- {action: DROP, source_labels: [x], regex: ''}\n";
	struct run r = { 0 };
	struct relabel_config rc = { 0 };
	arena_init(&r.arena, 0);
	struct config_ctx c = { .arena = &r.arena };
	assert_int_equal(config_parse(&r.tree, view_of(text), "r", &r.err), 0);
	assert_int_equal(config_relabel_decode(&c, config_root(r.tree), &rc, &r.err), 0);
	assert_int_equal(rc.n, 2);
	assert_int_equal(rc.v[1].action, RELABEL_DROP);
	assert_string_equal(rc.v[1].regex, "");
	assert_string_equal(rc.v[0].regex, "(.*)");
	config_relabel_release(&rc);
	config_free(r.tree);
	assert_int_equal(config_parse(&r.tree, VIEW("- {action: keep}\n- {regex: '(', target_label: x}\n"), "r", &r.err), 0);
	assert_true(config_relabel_decode(&c, config_root(r.tree), &rc, &r.err) < 0);
	assert_non_null(strstr(r.err.msg, "r:2:3: field [1]: regex"));
	config_ctx_release(&c);
	done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type),
		cmocka_unit_test(errors_say_where),
		cmocka_unit_test(anchors_and_merges), cmocka_unit_test(aliases_are_bounded),
		cmocka_unit_test(empty_and_deep),
		cmocka_unit_test(secrets_are_not_shown), cmocka_unit_test(urls_are_shown_without_secrets),
		cmocka_unit_test(http_settings), cmocka_unit_test(same_and_copied),
		cmocka_unit_test(top_level),
		cmocka_unit_test(relabel_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
