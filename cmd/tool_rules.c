/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool on rule files: what promtool does, with its flags, its words and its exit codes. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cmd/tool.h"
#include "config/config_top.h"
#include "rules/rules.h"

enum { TOOL_LINT = 3 }; /* promtool's "one or more lint issues detected" */

struct rules_lint {
	bool duplicates, fatal, ignore_unknown_fields;
};

/* "duplicate-rules,all,none" */
static void read_lint(const char *list, struct rules_lint *l)
{
	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ",");
		struct view word = view_make(at, n);
		if (view_eqs(word, "all") || view_eqs(word, "duplicate-rules"))
			l->duplicates = true;
		else if (!view_eqs(word, "none"))
			printf("WARNING: unknown lint option: \"%.*s\"\n", VIEW_ARG(word));
		at += n + (at[n] == ',');
	}
}

static int cmp_rules(const void *a, const void *b)
{
	const struct rule *l = *(const struct rule *const *)a, *r = *(const struct rule *const *)b;
	int c = view_cmp(l->name, r->name);
	return c ? c : labels_cmp(l->labels, r->labels);
}

typedef VEC(const struct rule *) rule_vec;

/* Those that write a series, or make an alert, that another does; each once. */
static void find_duplicates(const struct rules_config *c, rule_vec *out)
{
	rule_vec all = { 0 };
	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n_rules; i++)
			vec_push(&all, &c->groups[g].rules[i]);
	if (all.n)
		qsort(all.v, all.n, sizeof *all.v, cmp_rules);
	for (size_t i = 1; i < all.n; i++)
		if (cmp_rules(&all.v[i - 1], &all.v[i]) == 0 && (!out->n || cmp_rules(&out->v[out->n - 1], &all.v[i]) != 0))
			vec_push(out, all.v[i]);
	vec_free(&all);
}

/* True: there are some, and it was said which. */
static bool lint_duplicates(const struct rules_config *c)
{
	rule_vec found = { 0 };
	find_duplicates(c, &found);
	if (!found.n)
		return false;
	fprintf(stderr, "  FAILED:\nlint error %zu duplicate rule(s) found.\n", found.n);
	for (size_t i = 0; i < found.n; i++) {
		fprintf(stderr, "Metric: %.*s\nLabel(s):\n", VIEW_ARG(found.v[i]->name));
		for (size_t k = 0; k < found.v[i]->labels.n; k++)
			fprintf(stderr, "\t%.*s: %.*s\n", VIEW_ARG(found.v[i]->labels.v[k].name), VIEW_ARG(found.v[i]->labels.v[k].value));
	}
	fprintf(stderr, "Might cause inconsistency while recording expressions\n");
	vec_free(&found);
	return true;
}

struct problems {
	size_t n;
};

static void say_problem(void *arg, const char *text)
{
	struct problems *p = arg;
	if (!p->n++)
		fprintf(stderr, "  FAILED:\n");
	fprintf(stderr, "%s\n", text);
}

static void say_warning(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "  WARNING: %s\n", text);
}

/* path NULL: standard input. *failed, *wrong: as promtool has them: anything found, anything but lint. */
static void check_file(const char *path, const struct rules_lint *l, bool *failed, bool *wrong)
{
	const struct config_global usual = { .scrape_interval_ms = 60000, .scrape_timeout_ms = 10000, .evaluation_interval_ms = 60000 };
	struct problems p = { 0 };
	const struct rules_how how = { .ignore_unknown_fields = l->ignore_unknown_fields, .problem = say_problem, .warn = say_warning, .arg = &p };
	struct rules_config *c;
	struct buf in = { .max = CONFIG_MAX_BYTES };
	struct err e = { 0 };
	size_t n = 0;
	printf(path ? "Checking %s\n" : "Checking standard input\n", path);
	fflush(stdout);
	int rc = path ? 0 : buf_read_fd(&in, 0, "standard input", &e);
	if (!rc)
		rc = path ? rules_config_load(&c, &path, 1, &usual, &how, &e) : rules_config_read(&c, buf_view(&in), "standard input", &usual, &how, &e);
	buf_free(&in);
	if (rc) {
		if (!p.n)
			say_problem(&p, e.msg);
		*failed = *wrong = true;
		return;
	}
	for (size_t g = 0; g < c->n_groups; g++)
		n += c->groups[g].n_rules;
	if (l->duplicates && lint_duplicates(c))
		*failed = true;
	else
		printf("  SUCCESS: %zu rules found\n", n);
	printf("\n");
	fflush(stdout);
	rules_config_unref(c);
}

int tool_check_rules(int argc, char **argv)
{
	const char *lint = "duplicate-rules";
	struct rules_lint l = { 0 };
	struct opt flags[] = {
		{ "lint", OPT_STRING, &lint, "<list>", "What to look for besides errors: duplicate-rules, all or none." },
		{ "lint-fatal", OPT_BOOL, &l.fatal, NULL, "Exit with 3 if that finds anything." },
		{ "ignore-unknown-fields", OPT_BOOL, &l.ignore_unknown_fields, NULL, "Accept keys that nobody knows; the server does not." },
	};
	bool failed = false, wrong = false;
	int words, status;
	if (!tool_flags(tool_command("check rules"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	read_lint(lint, &l);
	if (!words)
		check_file(NULL, &l, &failed, &wrong);
	for (int i = 1; i <= words; i++)
		check_file(argv[i], &l, &failed, &wrong);
	return wrong ? TOOL_FAILED : failed && l.fatal ? TOOL_LINT : TOOL_OK;
}
