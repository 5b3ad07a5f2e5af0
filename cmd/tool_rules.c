/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool on rule files: what promtool does, with its flags, its words and its exit codes. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"
#include "cmd/rule_tests.h"
#include "cmd/tool.h"
#include "cmd/tool_thresholds.h"
#include "config/config_top.h"
#include "rules/rules.h"

enum { TOOL_LINT = 3 }; /* promtool's "one or more lint issues detected" */

struct rules_lint {
	bool duplicates, fatal, ignore_unknown_fields;
	struct tool_server server; /* the server whose samples are compared with thresholds; without a URL they are not checked */
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

/* Rules that write the same series, or make the same alert, as another; each once. */
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

/* True: there are some, and they were printed. */
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
	struct thresholds thresholds;
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

static void take_threshold(void *arg, const struct promql_threshold *t, const char *where)
{
	struct problems *p = arg;
	thresholds_add(&p->thresholds, t, where);
}

/* path NULL: standard input. *failed, *wrong: as promtool has them: anything found, anything but lint. */
static void check_file(const char *path, const struct rules_lint *l, bool *failed, bool *wrong)
{
	const struct config_global usual = { .scrape_interval_ms = 60000, .scrape_timeout_ms = 10000, .evaluation_interval_ms = 60000 };
	struct problems p = { 0 };
	const struct rules_how how = { .ignore_unknown_fields = l->ignore_unknown_fields, .problem = say_problem, .warn = say_warning,
				       .threshold = l->server.url ? take_threshold : NULL, .arg = &p };
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
		thresholds_free(&p.thresholds);
		*failed = *wrong = true;
		return;
	}
	for (size_t g = 0; g < c->n_groups; g++)
		n += c->groups[g].n_rules;
	if (l->duplicates && lint_duplicates(c))
		*failed = true;
	else
		printf("  SUCCESS: %zu rules found\n", n);
	fflush(stdout);
	if (!thresholds_check(&p.thresholds, "check rules", &l->server, say_warning, NULL))
		*failed = *wrong = true;
	thresholds_free(&p.thresholds);
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
		{ "ignore-unknown-fields", OPT_BOOL, &l.ignore_unknown_fields, NULL, "Accept unknown keys; the server does not." },
		{ "url", OPT_STRING, &l.server.url, "<url>", "A server: warn of thresholds of shares that its samples are too few for, now." },
		TOOL_HTTP_CONFIG(&l.server.http_config_file),
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

/* ---- unit tests ---- */

/* Runs the tests, and writes their report in JUnit's XML. */
struct test_report {
	size_t problems, tests; /* of the file */
	struct buf cases;
};

static void put_xml(struct buf *b, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			buf_puts(b, "&lt;");
			break;
		case '>':
			buf_puts(b, "&gt;");
			break;
		case '&':
			buf_puts(b, "&amp;");
			break;
		case '"':
			buf_puts(b, "&#34;");
			break;
		default:
			buf_putc(b, (unsigned char)*text < ' ' && *text != '\n' && *text != '\t' ? ' ' : *text);
		}
}

static void end_case(struct test_report *r)
{
	if (r->tests)
		buf_puts(&r->cases, "</testcase>");
}

static void test_begins(void *arg, const char *name)
{
	struct test_report *r = arg;
	end_case(r);
	r->tests++;
	buf_puts(&r->cases, "<testcase name=\"");
	put_xml(&r->cases, name);
	buf_puts(&r->cases, "\">");
}

static void test_problem(void *arg, const char *text)
{
	struct test_report *r = arg;
	if (!r->problems++)
		fprintf(stderr, "  FAILED:\n");
	fprintf(stderr, "%s\n\n", text);
	if (!r->tests)
		return;
	buf_puts(&r->cases, "<failure>");
	put_xml(&r->cases, text);
	buf_puts(&r->cases, "</failure>");
}

static void test_file(const char *path, struct rule_tests_how *how, struct buf *junit, bool *failed)
{
	struct test_report r = { 0 };
	how->arg = &r;
	*failed |= rule_tests_run(path, how) > 0;
	end_case(&r);
	if (!r.problems)
		printf("  SUCCESS\n");
	printf("\n");
	fflush(stdout);
	buf_puts(junit, "<testsuite name=\"");
	put_xml(junit, path);
	buf_printf(junit, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"0\">", r.tests, r.tests ? r.problems : 0,
		   !r.tests && r.problems > 0);
	buf_putv(junit, buf_view(&r.cases));
	buf_puts(junit, "</testsuite>");
	buf_free(&r.cases);
}

/* Several --run: any of them. */
static int run_regex(const struct opt_list *run, struct regex **ret, struct err *e)
{
	struct buf b = { 0 };
	*ret = NULL;
	for (size_t i = 0; i < run->n; i++)
		buf_printf(&b, "%s%s", i ? "|" : "", run->v[i]);
	int rc = run->n ? regex_new(ret, buf_view(&b), false, e) : 0;
	buf_free(&b);
	return rc;
}

static int write_junit(const char *path, const struct buf *suites)
{
	FILE *f = fopen(path, "w");
	if (f && fprintf(f, "<testsuites>%s</testsuites>", suites->ptr ? suites->ptr : "") > 0 && fclose(f) == 0)
		return TOOL_OK;
	fprintf(stderr, "failed to write JUnit XML: %s\n", path);
	return TOOL_FAILED;
}

int tool_test_rules(int argc, char **argv)
{
	struct rule_tests_how how = { .problem = test_problem, .test = test_begins, .warn = say_warning };
	struct opt_list run = { 0 };
	const char *junit = NULL;
	bool diff = false, failed = false;
	struct opt flags[] = {
		{ "run", OPT_LIST, &run, "<regex>", "Only tests whose name it matches; may be repeated." },
		{ "junit", OPT_STRING, &junit, "<file>", "Write what happened there as JUnit's XML." },
		{ "diff", OPT_BOOL, &diff, NULL, "Accepted for promtool's sake: what was expected and what came are always shown both." },
		{ "ignore-unknown-fields", OPT_BOOL, &how.ignore_unknown_fields, NULL, "Accept unknown keys of rule files." },
	};
	struct buf suites = { 0 };
	struct regex *re;
	struct err e = { 0 };
	int words, status;
	if (!tool_flags(tool_command("test rules"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (run_regex(&run, &re, &e))
		return tool_fail("test rules", &e);
	if (!words) {
		fprintf(stderr, "pyrtool test rules: which file?\n");
		return TOOL_USAGE;
	}
	how.run = re;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT); /* what rules log of failures is told by the tests */
	for (int i = 1; i <= words; i++)
		test_file(argv[i], &how, &suites, &failed);
	status = failed ? TOOL_FAILED : TOOL_OK;
	if (junit)
		status = MAX(status, write_junit(junit, &suites));
	regex_unref(re);
	buf_free(&suites);
	opts_free(flags, ARRAY_LEN(flags));
	return status;
}
