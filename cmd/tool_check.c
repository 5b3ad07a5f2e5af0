/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool on files that people write: configurations, and tests of the language. */
#include "cmd/configuration.h"
#include "cmd/tool.h"
#include "promql-like/testlang.h"

#define EXPAND_ENV_HELP "As the server does with this flag: ${NAME} in values is the environment variable."

static void put_member(struct buf *b, const char *key, const char *text)
{
	buf_printf(b, ",\"%s\":", key);
	buf_json_string(b, view_of(text ? text : ""));
}

/* Prints what was found out as text, or puts an object into json. */
static int check_one(const char *path, bool expand_env, bool syntax_only, struct buf *json)
{
	struct buf out = { 0 };
	struct err e = { 0 };
	int rc = configuration_check(path, expand_env, syntax_only, &out, &e);
	if (json) {
		buf_printf(json, "%s{\"good\":%s", json->len ? ",\n" : "[", rc ? "false" : "true");
		put_member(json, "file", path);
		put_member(json, rc ? "error" : "said", rc ? e.msg : out.ptr);
		buf_putc(json, '}');
	} else {
		printf("%s: %s\n%s", path, rc ? "FAILED" : "good", out.ptr ? out.ptr : "");
		if (rc)
			tool_fail("check config", &e);
	}
	buf_free(&out);
	return rc ? TOOL_FAILED : TOOL_OK;
}

int tool_check_config(int argc, char **argv)
{
	const char *output = "text";
	bool as_json, expand_env = false, syntax_only = false;
	struct opt flags[] = { { "output", OPT_STRING, &output, "<form>", "text or json." },
			       { "config.expand-env", OPT_BOOL, &expand_env, NULL, EXPAND_ENV_HELP },
			       { "syntax-only", OPT_BOOL, &syntax_only, NULL, "Do not look for the files of secrets and certificates that it names." } };
	struct buf json = { 0 };
	int words, status, worst = TOOL_OK;
	if (!tool_flags(tool_command("check config"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json("check config", output, &as_json))
		return TOOL_USAGE;
	if (!words) {
		fprintf(stderr, "pyrtool check config: which file?\n");
		return TOOL_USAGE;
	}
	for (int i = 1; i <= words; i++) {
		status = check_one(argv[i], expand_env, syntax_only, as_json ? &json : NULL);
		worst = MAX(worst, status);
	}
	if (as_json) {
		buf_puts(&json, "]\n");
		worst = MAX(worst, tool_print(&json));
	}
	buf_free(&json);
	return worst;
}

int tool_check_discovery(int argc, char **argv)
{
	const struct tool_command *command = tool_command("check service-discovery");
	struct configuration_discovery d = { .timeout_ms = 30000 };
	struct opt flags[] = {
		{ "timeout", OPT_DURATION, &d.timeout_ms, "<duration>", "Longest time to wait until discovery has told of everything once." },
		{ "config.expand-env", OPT_BOOL, &d.expand_env, NULL, EXPAND_ENV_HELP },
	};
	struct buf out = { 0 }, problems = { 0 };
	struct err e = { 0 };
	int words, status;
	if (!tool_flags(command, flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (words != 2) {
		fprintf(stderr, "pyrtool %s: which file, and which of its jobs?\n", command->name);
		return TOOL_USAGE;
	}
	d.path = argv[1];
	d.job = argv[2];
	int rc = configuration_discover(&d, &out, &problems, &e);
	fputs(problems.ptr ? problems.ptr : "", stderr);
	buf_putc(&out, '\n');
	status = rc ? tool_fail(command->name, &e) : tool_print(&out);
	buf_free(&out);
	buf_free(&problems);
	return status;
}

/* {"passed": … "skipped": … "reasons": {"native histograms": 3}, "log": "…", "errors": […]} */
static int print_json(const struct testlang_report *r, const struct buf *errors)
{
	struct buf b = { 0 };
	buf_printf(&b, "{\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu,\"reasons\":{", r->passed, r->failed, r->skipped);
	for (size_t i = 0; i < r->n_reasons; i++) {
		buf_puts(&b, i ? "," : "");
		buf_json_string(&b, view_of(r->reasons[i].text));
		buf_printf(&b, ":%zu", r->reasons[i].n);
	}
	buf_puts(&b, "}");
	put_member(&b, "log", r->log.ptr);
	buf_puts(&b, ",\"errors\":[");
	buf_putv(&b, buf_view(errors));
	buf_puts(&b, "]}\n");
	int status = tool_print(&b);
	buf_free(&b);
	return status;
}

/* As Prometheus's own runner ends: a line that counts. */
static void print_text(const struct testlang_report *r)
{
	fputs(r->log.ptr ? r->log.ptr : "", stdout);
	for (size_t i = 0; i < r->n_reasons; i++)
		printf("%s %zu for %s", i ? "," : "skipped:", r->reasons[i].n, r->reasons[i].text);
	printf("%s%zu passed, %zu failed, %zu skipped\n", r->n_reasons ? "\n" : "", r->passed, r->failed, r->skipped);
}

int tool_test_language(int argc, char **argv)
{
	const char *output = "text";
	struct testlang_options o = { 0 };
	struct opt flags[] = {
		{ "no-skip", OPT_BOOL, &o.no_skip, NULL, "Run native histograms and experimental syntax too; they fail." },
		{ "verbose", OPT_BOOL, &o.verbose, NULL, "List the cases that pass or are skipped, too." },
		{ "output", OPT_STRING, &output, "<form>", "text or json." },
	};
	bool as_json;
	int words, status;
	if (!tool_flags(tool_command("test language"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json("test language", output, &as_json))
		return TOOL_USAGE;
	if (!words) {
		fprintf(stderr, "pyrtool test language: which file?\n");
		return TOOL_USAGE;
	}
	struct testlang_report r = { 0 };
	struct buf errors = { 0 };
	for (int i = 1; i <= words; i++) {
		struct err e;
		if (!testlang_run_file(argv[i], &o, &r, &e))
			continue;
		if (!as_json)
			tool_fail("test language", &e);
		buf_puts(&errors, errors.len ? "," : "");
		buf_json_string(&errors, view_of(e.msg));
	}
	status = errors.len || r.failed ? TOOL_FAILED : TOOL_OK;
	if (!as_json)
		print_text(&r);
	else if (print_json(&r, &errors))
		status = TOOL_FAILED;
	buf_free(&errors);
	buf_free(&r.log);
	return status;
}
