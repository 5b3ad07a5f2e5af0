/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool on files that people write: configurations, and tests of the language. */
#include "base/json.h"
#include "cmd/configuration.h"
#include "cmd/tool.h"
#include "httpd/web_config.h"
#include "promql-like/testlang/testlang.h"

#define EXPAND_ENV_HELP "As the server does with this flag: ${NAME} in values is the environment variable."

/* Prints what was found out as text, or puts an object into json. said: warnings and such, released. */
static int tell_one(const char *command, const char *path, int rc, const struct err *e, struct buf *said, struct buf *json)
{
	if (json) {
		if (json->len)
			json_line(json, 0);
		else
			json_array_begin(json);
		json_object_begin(json);
		json_field_bool(json, "good", !rc);
		json_field_text(json, "file", path);
		json_field_text(json, rc ? "error" : "said", rc ? e->msg : said->ptr ? said->ptr : "");
		json_object_end(json);
	} else {
		printf("%s: %s\n%s", path, rc ? "FAILED" : "good", said->ptr ? said->ptr : "");
		if (rc)
			tool_fail(command, e);
	}
	buf_free(said);
	return rc ? TOOL_FAILED : TOOL_OK;
}

/* The files of a command's words, by a function that checks one. */
static int check_files(const char *command, const char *output, char **files, int n, int (*check)(const char *path, void *arg, struct buf *said,
		       struct err *e), void *arg)
{
	struct buf json = { 0 };
	bool as_json;
	int worst = TOOL_OK;
	if (!tool_json(command, output, &as_json))
		return TOOL_USAGE;
	if (!n) {
		fprintf(stderr, "pyrtool %s: which file?\n", command);
		return TOOL_USAGE;
	}
	for (int i = 0; i < n; i++) {
		struct buf said = { 0 };
		struct err e = { 0 };
		int rc = check(files[i], arg, &said, &e);
		int status = tell_one(command, files[i], rc, &e, &said, as_json ? &json : NULL);
		worst = MAX(worst, status);
	}
	if (as_json) {
		json_array_end(&json);
		buf_putc(&json, '\n');
		worst = MAX(worst, tool_print(&json));
	}
	buf_free(&json);
	return worst;
}

struct config_check {
	bool expand_env, syntax_only;
};

static int check_config(const char *path, void *arg, struct buf *said, struct err *e)
{
	const struct config_check *c = arg;
	return configuration_check(path, c->expand_env, c->syntax_only, said, e);
}

int tool_check_config(int argc, char **argv)
{
	const char *output = "text";
	struct config_check c = { 0 };
	struct opt flags[] = { { "output", OPT_STRING, &output, "<form>", "text or json." },
			       { "config.expand-env", OPT_BOOL, &c.expand_env, NULL, EXPAND_ENV_HELP },
			       { "syntax-only", OPT_BOOL, &c.syntax_only, NULL, "Do not look for the files of secrets and certificates that it names." } };
	int words, status;
	if (!tool_flags(tool_command("check config"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	return check_files("check config", output, argv + 1, words, check_config, &c);
}

static int check_web(const char *path, void *arg, struct buf *said, struct err *e)
{
	(void)arg;
	return web_config_check(path, said, e);
}

int tool_check_web_config(int argc, char **argv)
{
	const char *output = "text";
	struct opt flags[] = { { "output", OPT_STRING, &output, "<form>", "text or json." } };
	int words, status;
	if (!tool_flags(tool_command("check web-config"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	return check_files("check web-config", output, argv + 1, words, check_web, NULL);
}

int tool_check_discovery(int argc, char **argv)
{
	const struct tool_command *command = tool_command("check service-discovery");
	struct configuration_discovery d = { .timeout_ms = 30000 };
	struct opt flags[] = {
		{ "timeout", OPT_DURATION, &d.timeout_ms, "<duration>", "Longest time to wait until discovery has reported everything once." },
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
	json_object_begin(&b);
	json_field_count(&b, "passed", r->passed);
	json_field_count(&b, "failed", r->failed);
	json_field_count(&b, "skipped", r->skipped);
	json_object_begin_at(&b, "reasons");
	for (size_t i = 0; i < r->n_reasons; i++) {
		json_key_view(&b, view_of(r->reasons[i].text));
		json_count(&b, r->reasons[i].n);
	}
	json_object_end(&b);
	json_field_text(&b, "log", r->log.ptr ? r->log.ptr : "");
	json_array_begin_at(&b, "errors");
	buf_putv(&b, buf_view(errors));
	json_array_end(&b);
	json_object_end(&b);
	buf_putc(&b, '\n');
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
		json_text(&errors, view_of(e.msg));
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
