/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "config/config_relabel.h"
#include "config/config_watch.h"

static void value_of(const char *text, const char *want)
{
	struct config_tree *t = NULL;
	struct err e = { 0 };
	char *yaml AUTOFREE = xasprintf("k: '%s'\n", text);
	if (config_parse_how(&t, view_of(yaml), "x.yml", &(struct config_how){ .expand_env = true }, &e))
		fail_msg("%s: %s", text, e.msg);
	if (strcmp(config_get(config_root(t), "k")->text.ptr, want) != 0)
		fail_msg("%s is %s, not %s", text, config_get(config_root(t), "k")->text.ptr, want);
	config_free(t);
}

static void variables_in_values(void **state)
{
	static const char *const rows[][2] = {
		{ "${CT_A}", "one" }, { "x${CT_A}y${_CT_2}z", "xoneytwoz" }, { "${CT_EMPTY}", "" },
		{ "$${CT_A}", "${CT_A}" }, { "$$${CT_A}", "$one" }, { "$$$${CT_A}", "$${CT_A}" }, { "a$$${CT_A}", "a$one" },
		{ "$1 ${1} ${1}x $CT_A $$ $", "$1 ${1} ${1}x $CT_A $$ $" }, { "${} ${ ${CT_A ${CT-A} ${1CT} {CT_A} $ {CT_A}", "${} ${ ${CT_A ${CT-A} ${1CT} {CT_A} $ {CT_A}" },
		{ "${CT_DOLLAR}", "${CT_A} $1" }, /* not looked at again */
		{ "$${CT_UNSET}", "${CT_UNSET}" }, { "${1}${CT_A}$$1", "${1}one$$1" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		value_of(rows[i][0], rows[i][1]);
}

static void variables_add_no_structure(void **state)
{
	struct config_tree *t = NULL, *plain = NULL;
	struct err e = { 0 };
	static const char text[] = "${CT_A}: &a 'x${CT_A}'\nlist: [x, '${CT_LIST}', *a]\nempty: ${CT_EMPTY}\nnil: ${CT_NULL}\nsame: {<<: &m {k: '${CT_A}'}}\n"
				   "*a : key\nglobal: {external_labels: {a: '${CT_A}', b: *a}, x: '${CT_A}'}\nexternal_labels: '${CT_A}'\n";
	assert_int_equal(config_parse_how(&t, view_of(text), "x.yml", &(struct config_how){ .expand_env = true }, &e), 0);
	const struct config_node *root = config_root(t);
	assert_string_equal(config_get(root, "${CT_A}")->text.ptr, "xone");
	assert_string_equal(config_get(root, "x${CT_A}")->text.ptr, "key"); /* the same node, as a key */
	assert_int_equal(config_get(root, "list")->n, 3);
	assert_string_equal(config_get(root, "list")->items[1]->text.ptr, "[a, b: c]\nd: e");
	assert_string_equal(config_get(root, "list")->items[2]->text.ptr, "xone");
	assert_int_equal(config_get(root, "empty")->type, CONFIG_NODE_SCALAR);
	assert_int_equal(config_get(root, "nil")->type, CONFIG_NODE_SCALAR);
	assert_string_equal(config_get(config_get(root, "same"), "k")->text.ptr, "one");
	const struct config_node *global = config_get(root, "global"), *external = config_get(global, "external_labels");
	assert_string_equal(config_get(external, "a")->text.ptr, "${CT_A}");
	assert_string_equal(config_get(external, "b")->text.ptr, "x${CT_A}");
	assert_string_equal(config_get(global, "x")->text.ptr, "one");
	assert_string_equal(config_get(root, "external_labels")->text.ptr, "one");
	assert_int_equal(config_parse(&plain, view_of(text), "x.yml", &e), 0);
	assert_string_equal(config_get(config_root(plain), "${CT_A}")->text.ptr, "x${CT_A}");
	config_free(plain);
	config_free(t);
}

static void variables_that_are_wrong(void **state)
{
	static const struct {
		const char *yaml, *says;
	} bad[] = {
		{ "a: 1\nb:\n- x\n- 'a${CT_UNSET}'\n", "x.yml:4:3: the environment variable CT_UNSET is not set" },
		{ "a: ${CT_BYTES}\n", "x.yml:1:4: the environment variable CT_BYTES is not valid UTF-8" },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct config_tree *t = NULL;
		struct err e = { 0 };
		assert_true(config_parse_how(&t, view_of(bad[i].yaml), "x.yml", &(struct config_how){ .expand_env = true }, &e) < 0);
		if (strncmp(e.msg, bad[i].says, strlen(bad[i].says)) != 0)
			fail_msg("%s, not %s", e.msg, bad[i].says);
	}
}

/* Values with secrets from the environment are hidden as those in the file are. */
static void variables_that_are_secret(void **state)
{
	struct config_tree *t = NULL;
	struct err e = { 0 };
	struct buf b = { 0 };
	static const char text[] = "a: {basic_auth: {username: '${CT_A}', password: '${CT_SECRET}'}, proxy_url: 'http://u:${CT_SECRET}@h/'}\n";
	assert_int_equal(config_parse_how(&t, view_of(text), "x.yml", &(struct config_how){ .expand_env = true }, &e), 0);
	config_redact(t, &b);
	assert_null(strstr(b.ptr, "s3cr3t"));
	assert_non_null(strstr(b.ptr, "username: \"one\""));
	buf_free(&b);
	config_free(t);
}

static int set_environment(void **state)
{
	setenv("CT_A", "one", 1);
	setenv("_CT_2", "two", 1);
	setenv("CT_EMPTY", "", 1);
	setenv("CT_NULL", "null", 1);
	setenv("CT_LIST", "[a, b: c]\nd: e", 1);
	setenv("CT_DOLLAR", "${CT_A} $1", 1);
	setenv("CT_BYTES", "\xff", 1);
	setenv("CT_SECRET", "s3cr3t", 1);
	unsetenv("CT_UNSET");
	return 0;
}

/* What a rule with variables does to {a="foo"}; NULL: it is refused. */
static char *relabelled(const char *yaml, struct err *e)
{
	struct config_tree *t = NULL;
	struct relabel_config r = { 0 };
	struct arena a CLEANUP(arena_free);
	struct config_ctx c = { .arena = &a };
	struct labels_builder b;
	char *said = NULL;
	arena_init(&a, 0);
	assert_int_equal(config_parse_how(&t, view_of(yaml), "x.yml", &(struct config_how){ .expand_env = true }, e), 0);
	if (config_relabel_decode(&c, config_root(t), &r, e) == 0) {
		labels_builder_init(&b, (struct labels){ 0 });
		labels_builder_set(&b, VIEW("a"), VIEW("foo"));
		assert_int_equal(relabel_apply(r.v, r.n, &b, &a, e), 1);
		struct view v = labels_builder_get(&b, VIEW("x"));
		said = xstrndup(v.ptr ? v.ptr : "", v.len);
		labels_builder_free(&b);
		config_relabel_release(&r);
	}
	config_ctx_release(&c);
	config_free(t);
	return said;
}

static void groups_of_relabelling(void **state)
{
	static const struct {
		const char *rule, *x; /* x NULL: refused */
	} rows[] = {
		{ "regex: (f)(.*), replacement: '$2-$1${2}'", "oo-foo" },
		{ "regex: (f)(.*), replacement: '${CT_A}${2}'", "oneoo" },
		{ "regex: '(f)(.*)', replacement: '$$1'", "$1" },
		{ "regex: '(?P<rest>.*)', replacement: '$rest-${CT_A}'", "foo-one" },
		{ "regex: '(?P<rest>.*)', replacement: '$${rest}-${CT_A}'", "foo-one" },
		{ "regex: '(?P<CT_A>.*)', replacement: '$${CT_A}'", "foo" },
		{ "regex: '(?P<CT_A>.*)', replacement: '$$$${CT_A}'", "${CT_A}" },
		{ "regex: '(?P<CT_A>.*)', replacement: '${CT_A}'", NULL },
		{ "regex: '(?:f)(?P<b>o)(?P<CT_A>.*)', replacement: 'x${CT_A}'", NULL },
		{ "regex: '${CT_F}(.*)'", "oo" },
		{ "regex: '(?P<b>.)(.*)', replacement: '${CT_EMPTY}1'", "1" },
	};
	setenv("CT_F", "f", 1);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = { 0 };
		char *yaml AUTOFREE = xasprintf("- {source_labels: [a], target_label: x, %s}\n", rows[i].rule);
		char *x AUTOFREE = relabelled(yaml, &e);
		if (!x != !rows[i].x || (x && strcmp(x, rows[i].x) != 0))
			fail_msg("%s: %s, not %s", yaml, x ? x : e.msg, rows[i].x ? rows[i].x : "refused");
		if (!x)
			assert_non_null(strstr(e.msg, "replacement: ${CT_A} is a group of regex and a variable"));
	}
}

/* ---- the watch ---- */

struct watched {
	char path[64];
	struct config_sources sources;
	int reloads; /* atomic */
	struct mutex lock;
};

static void put(const struct watched *w, const char *text)
{
	FILE *f = fopen(w->path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void read_again(void *arg)
{
	struct watched *w = arg;
	struct config_sources now = { 0 };
	struct config_tree *t = NULL;
	struct err e;
	IGNORE(config_load_how(&t, w->path, &(struct config_how){ .sources = &now }, &e)); /* it may be half written */
	config_free(t);
	mutex_lock(&w->lock);
	config_sources_free(&w->sources);
	w->sources = now;
	mutex_unlock(&w->lock);
	__atomic_add_fetch(&w->reloads, 1, __ATOMIC_SEQ_CST);
}

static void tell(void *arg, struct config_sources *ret)
{
	struct watched *w = arg;
	mutex_lock(&w->lock);
	config_sources_copy(ret, &w->sources);
	mutex_unlock(&w->lock);
}

static int reloads(struct watched *w)
{
	return __atomic_load_n(&w->reloads, __ATOMIC_SEQ_CST);
}

static bool reach(struct watched *w, int n)
{
	for (int64_t end = clock_mono_ms() + 10000; reloads(w) < n && clock_mono_ms() < end;)
		clock_sleep_ms(20);
	return reloads(w) >= n;
}

/* Once per content: also one that does not parse, and one that cannot be read. The interval does not matter. */
static void once_per_content(void **state)
{
	struct watched w = { .lock = MUTEX_INIT(LOCK_ANY, "test") };
	struct config_watch_options o = { .interval_ms = 3600000, .sources = tell, .reload = read_again, .arg = &w };
	struct config_watch *watch;
	struct err e;
	static const char *const contents[] = { "a: 2", "a: [", "a: 3", NULL, "a: 4" };
	snprintf(w.path, sizeof w.path, "/tmp/config_watch_test.%d", (int)getpid());
	put(&w, "a: 1");
	read_again(&w);
	assert_int_equal(config_watch_start(&watch, &o, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		if (contents[i])
			put(&w, contents[i]);
		else
			unlink(w.path);
		assert_true(reach(&w, (int)i + 2));
		if (contents[i])
			put(&w, contents[i]); /* the same once more */
	}
	clock_sleep_ms(1500);
	assert_int_equal(reloads(&w), ARRAY_LEN(contents) + 1);
	/* One that changes all the time: read now and then. */
	int64_t end = clock_mono_ms() + 2000;
	for (int i = 0; clock_mono_ms() < end; i++) {
		char text[24];
		snprintf(text, sizeof text, "a: %d", i + 10);
		put(&w, text);
		clock_sleep_ms(5);
	}
	assert_in_range(reloads(&w), ARRAY_LEN(contents) + 1, ARRAY_LEN(contents) + 5);
	config_watch_stop(watch);
	config_sources_free(&w.sources);
	unlink(w.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_in_values), cmocka_unit_test(variables_add_no_structure), cmocka_unit_test(variables_that_are_wrong),
		cmocka_unit_test(variables_that_are_secret), cmocka_unit_test(groups_of_relabelling), cmocka_unit_test(once_per_content),
	};
	return cmocka_run_group_tests(tests, set_environment, NULL);
}
