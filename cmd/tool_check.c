/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool on files that people write: configurations, and tests of the language. */
#include "cmd/configuration.h"
#include "cmd/tool.h"
#include "promql-like/testlang.h"

static int check_one(const char *path)
{
	struct buf out = { 0 };
	struct err e;
	int rc = configuration_check(path, &out, &e);
	printf("%s: %s\n", path, rc ? "FAILED" : "good");
	fputs(out.ptr ? out.ptr : "", stdout);
	buf_free(&out);
	return rc ? tool_fail("check config", &e) : TOOL_OK;
}

int tool_check_config(int argc, char **argv)
{
	int words, status, worst = TOOL_OK;
	if (!tool_flags(tool_command("check config"), NULL, 0, argc, argv, &words, &status))
		return status;
	if (!words) {
		fprintf(stderr, "pyrtool check config: which file?\n");
		return TOOL_USAGE;
	}
	for (int i = 1; i <= words; i++) {
		status = check_one(argv[i]);
		worst = MAX(worst, status);
	}
	return worst;
}

/* As Prometheus's own runner ends: a line that counts. */
int tool_test_language(int argc, char **argv)
{
	struct testlang_options o = { 0 };
	struct opt flags[] = {
		{ "no-skip", OPT_BOOL, &o.no_skip, NULL, "Run native histograms and experimental syntax too; they fail." },
		{ "verbose", OPT_BOOL, &o.verbose, NULL, "List the cases that pass, too." },
	};
	int words, status;
	if (!tool_flags(tool_command("test language"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!words) {
		fprintf(stderr, "pyrtool test language: which file?\n");
		return TOOL_USAGE;
	}
	struct testlang_report r = { 0 };
	bool broken = false;
	for (int i = 1; i <= words; i++) {
		struct err e;
		if (testlang_run_file(argv[i], &o, &r, &e)) {
			tool_fail("test language", &e);
			broken = true;
		}
	}
	fputs(r.log.ptr ? r.log.ptr : "", stdout);
	printf("%zu passed, %zu failed, %zu skipped\n", r.passed, r.failed, r.skipped);
	buf_free(&r.log);
	return broken || r.failed ? TOOL_FAILED : TOOL_OK;
}
