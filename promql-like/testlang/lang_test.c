/* SPDX-License-Identifier: Apache-2.0 */
/* Runs language tests: the files given, or all of tests/lang/. --verbose lists every case, --no-skip skips none. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "promql-like/testlang/testlang.h"

static int run_one(const char *path, const struct testlang_options *o)
{
	struct testlang_report r = { 0 };
	struct err e = { 0 };
	int rc = testlang_run_file(path, o, &r, &e);
	const char *base = strrchr(path, '/');
	fputs(r.log.ptr ? r.log.ptr : "", stdout);
	if (rc)
		printf("%s\n", e.msg);
	printf("%-28s %4zu passed, %zu failed, %zu skipped\n", base ? base + 1 : path, r.passed, r.failed, r.skipped);
	buf_free(&r.log);
	return rc || r.failed;
}

int main(int argc, char **argv)
{
	struct testlang_options o = { 0 };
	int failed = 0, files = 0;
	if (!getenv("LANG_TEST_NO_POOL"))
		o.pool = pool_new(2, "lang");
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--verbose") == 0)
			o.verbose = true;
		else if (strcmp(argv[i], "--no-skip") == 0)
			o.no_skip = true;
		else {
			failed |= run_one(argv[i], &o);
			files++;
		}
	}
	if (!files) {
		char pattern[4096];
		const char *top = getenv("top_srcdir");
		glob_t g;
		snprintf(pattern, sizeof pattern, "%s/tests/lang/*.test", top ? top : ".");
		if (glob(pattern, 0, NULL, &g)) {
			printf("no files match %s\n", pattern);
			failed = 1;
		} else {
			for (size_t i = 0; i < g.gl_pathc; i++)
				failed |= run_one(g.gl_pathv[i], &o);
			globfree(&g);
		}
	}
	pool_free(o.pool);
	return failed;
}
