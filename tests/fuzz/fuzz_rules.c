/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a rule file. Each problem says its place, and the first of them is the error; what is a rule file reads the
 * same again, and each of its rules has an expression whose canonical text parses. */
#include <string.h>

#include "config/config_top.h"
#include "rules/rules.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "rules";

static void count(void *arg, const char *text)
{
	REQUIRE(strncmp(text, "f.yml:", 6) == 0, "a problem without its place: %s", text);
	++*(size_t *)arg;
}

static int read_rules(struct rules_config **ret, struct view text, bool ignore_unknown_fields)
{
	static const struct config_global global = { .evaluation_interval_ms = 60000, .scrape_interval_ms = 10000 };
	size_t problems = 0;
	const struct rules_how how = { .ignore_unknown_fields = ignore_unknown_fields, .problem = count, .arg = &problems };
	struct err e = { 0 };
	int rc = rules_config_read(ret, text, "f.yml", &global, &how, &e);
	REQUIRE(!rc == !problems, "%zu problems, and %s", problems, e.msg);
	REQUIRE(!rc || strncmp(e.msg, "f.yml:", 6) == 0, "%s", e.msg);
	return rc;
}

static void look(const struct rule *r)
{
	struct promql_expr *again = NULL;
	struct err e = { 0 };
	REQUIRE(r->parsed && r->name.len, "a rule without name or expression");
	REQUIRE(promql_parse(&again, r->canonical, &e) == 0, "%s: %.*s", e.msg, VIEW_ARG(r->canonical));
	promql_expr_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct view text = view_make((const char *)data, n);
	struct rules_config *a = NULL, *b = NULL;
	if (n > 1 << 14)
		return 0;
	if (!read_rules(&a, text, true))
		rules_config_unref(a);
	if (read_rules(&a, text, false))
		return 0;
	REQUIRE(!read_rules(&b, text, false) && a->n_groups == b->n_groups, "not the same again");
	for (size_t g = 0; g < a->n_groups; g++) {
		REQUIRE(view_eq(a->groups[g].text, b->groups[g].text), "not the same again");
		for (size_t i = 0; i < a->groups[g].n_rules; i++)
			look(&a->groups[g].rules[i]);
	}
	rules_config_unref(a);
	rules_config_unref(b);
	return 0;
}
