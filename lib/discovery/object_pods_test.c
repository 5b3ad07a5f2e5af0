/* SPDX-License-Identifier: Apache-2.0 */
/* Which pods a selector means: the table of Kubernetes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "discovery/sd_object_pods.h"

static bool matches(const char *selector, const char *labels)
{
	struct config_tree *t = NULL;
	struct kube_label_selector s = { 0 };
	struct arena a;
	struct err e = { 0 };
	arena_init(&a, 0);
	struct config_ctx c = { .arena = &a };
	if (config_parse(&t, view_of(selector), "s", &e) || config_decode(&c, &kube_label_selector_table, config_root(t), &s, &e))
		fail_msg("%s: %s", selector, e.msg);
	json_t *l = labels ? json_loads(labels, 0, NULL) : NULL;
	bool m = kube_label_selector_matches(&s, l);
	json_decref(l);
	config_free(t);
	config_ctx_release(&c);
	arena_free(&a);
	return m;
}

#define EXPR(text) "{\"matchExpressions\":[" text "]}"
#define IN "{\"key\":\"tier\",\"operator\":\"In\",\"values\":[\"a\",\"b\"]}"
#define NOT_IN "{\"key\":\"tier\",\"operator\":\"NotIn\",\"values\":[\"a\",\"b\"]}"
#define EXISTS "{\"key\":\"tier\",\"operator\":\"Exists\"}"
#define ABSENT "{\"key\":\"tier\",\"operator\":\"DoesNotExist\",\"values\":[]}"

static void selectors_mean_what_kubernetes_means(void **state)
{
	static const struct { const char *selector, *labels; bool want; } rows[] = {
		{ "{}", "{\"a\":\"b\"}", true }, { "{}", NULL, true },
		{ "{\"matchLabels\":{\"app\":\"x\"}}", "{\"app\":\"x\",\"b\":\"c\"}", true },
		{ "{\"matchLabels\":{\"app\":\"x\"}}", "{\"app\":\"xy\"}", false }, /* no expression */
		{ "{\"matchLabels\":{\"app\":\"x.*\"}}", "{\"app\":\"xy\"}", false },
		{ "{\"matchLabels\":{\"app\":\"\"}}", "{\"app\":\"\"}", true },
		{ "{\"matchLabels\":{\"app\":\"\"}}", "{}", false },
		{ "{\"matchLabels\":{\"a.b/c-d\":\"x\"}}", "{\"a_b_c_d\":\"x\"}", false }, /* names are not sanitised */
		{ "{\"matchLabels\":{\"a\":\"1\",\"b\":\"2\"}}", "{\"a\":\"1\"}", false },
		{ EXPR(IN), "{\"tier\":\"b\"}", true }, { EXPR(IN), "{\"tier\":\"c\"}", false }, { EXPR(IN), "{}", false },
		{ EXPR(NOT_IN), "{\"tier\":\"b\"}", false }, { EXPR(NOT_IN), "{\"tier\":\"c\"}", true }, { EXPR(NOT_IN), NULL, true },
		{ EXPR(EXISTS), "{\"tier\":\"\"}", true }, { EXPR(EXISTS), "{\"other\":\"\"}", false },
		{ EXPR(ABSENT), "{\"tier\":\"\"}", false }, { EXPR(ABSENT), NULL, true },
		{ EXPR(IN "," NOT_IN), "{\"tier\":\"a\"}", false },
		{ "{\"matchLabels\":{\"app\":\"x\"},\"matchExpressions\":[" EXISTS "]}", "{\"app\":\"x\"}", false },
		{ "{\"matchLabels\":{\"app\":\"x\"},\"matchExpressions\":[" EXISTS "]}", "{\"app\":\"x\",\"tier\":\"q\"}", true },
		{ "{\"matchLabels\":{\"app\":\"x\"}}", "{\"app\":7}", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (matches(rows[i].selector, rows[i].labels) != rows[i].want)
			fail_msg("%s on %s", rows[i].selector, rows[i].labels ? rows[i].labels : "no labels");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(selectors_mean_what_kubernetes_means) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
