/* SPDX-License-Identifier: Apache-2.0 */
/* The language's filters beside google/pprof's options of the same names, on real profiles, stack by stack and equal to
 * the last unit. tests/oracle/run passes the Go program in PYRRHA_PPROF_ORACLE; without it this test is skipped. */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pprof/oracle.h"
#include "pprof/pprof.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "tests/oracle/stacks.h"

#define MAX_TYPES 8

extern char **environ;
static const char *oracle;

static void load(const char *path, struct profile *p)
{
	struct buf b CLEANUP(buf_free) = { 0 };
	struct err e;
	profile_init(p, 0);
	assert_int_equal(buf_read_file(&b, path, NULL), 0);
	if (pprof_decode(b.ptr, b.len, NULL, p, &e))
		fail_msg("%s: %s", path, e.msg);
}

static void run_oracle(const char *filter, const char *expr, const char *in, struct profile *ret)
{
	char out[] = "/tmp/pyrrha-filter-XXXXXX", *command = xasprintf("%s=%s", filter, expr);
	int fd = mkstemp(out), status;
	pid_t pid;
	assert_true(fd >= 0);
	close(fd);
	char *argv[] = { (char *)oracle, command, out, (char *)in, NULL };
	assert_int_equal(posix_spawn(&pid, oracle, NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	load(out, ret);
	unlink(out);
	free(command);
}

/* Each sample type as a series x{i="0"}, x{i="1"} ... */
static void fill(struct memsource *m, struct profile *p)
{
	struct stackvec *v[MAX_TYPES];
	struct source_profile s = { .t_ms = 1000, .cover_ms = 1000, .interval_ms = 1000, .weight = 1 };
	struct ptype t;
	struct err e;
	assert_true(p->n_sample_types <= MAX_TYPES);
	assert_true(ptype_parse(VIEW("x:samples:count:x:count:delta"), &t));
	assert_int_equal(stackvec_from_profile(memsource_symbols(m), p, v, &e), 0);
	for (uint32_t i = 0; i < p->n_sample_types; i++) {
		char digit[2] = { (char)('0' + i), 0 };
		struct label l[] = { { VIEW(LABEL_NAME), VIEW("x") }, { VIEW("i"), view_of(digit) } };
		assert_int_equal(memsource_add_profile(m, (struct labels){ l, 2 }, &t, &s, v[i], &e), 0);
		stackvec_unref(v[i]);
	}
}

static void run_ours(struct promql_engine *g, const char *filter, const char *expr, uint32_t types, struct profile *ret)
{
	char *query = xasprintf("%s(x, `%s`)", filter, expr);
	struct promql_params p = { .profiles = true };
	struct promql_result r;
	struct symbols *to = symbols_new();
	struct stackvec *v[MAX_TYPES];
	struct stackvec_type names[MAX_TYPES];
	struct err e = { 0 };
	if (promql_instant(g, view_of(query), 1000, &p, &r, &e))
		fail_msg("%s: %s", query, e.msg);
	assert_int_equal(r.n_series, types);
	for (uint32_t i = 0; i < types; i++) {
		v[i] = stackvec_rebase(r.series[i].profiles[0].vec, to, &e);
		names[i] = (struct stackvec_type){ VIEW("type"), VIEW("count") };
		assert_non_null(v[i]);
	}
	profile_init(ret, 0);
	assert_int_equal(stackvec_to_profile(v, names, types, ret, &e), 0);
	for (uint32_t i = 0; i < types; i++)
		stackvec_unref(v[i]);
	symbols_unref(to);
	promql_result_release(&r);
	free(query);
}

static void compare_file(const char *path)
{
	static const char *const filters[] = { "focus", "ignore", "hide", "show", "show_from", "prune_from" };
	static const char *const exprs[] = { "runtime", "main\\.", "alloc", "net/http|\\.go$", "Reader|json", "^$", "so|lib" };
	struct profile in, ours, theirs;
	struct memsource *m = memsource_new();
	struct promql_engine *g = promql_engine_new(memsource_source(m), &(struct promql_options){ 0 });
	load(path, &in);
	fill(m, &in);
	for (size_t f = 0; f < ARRAY_LEN(filters); f++)
		for (size_t x = 0; x < ARRAY_LEN(exprs); x++) {
			char *what = xasprintf("%s(%s, \"%s\")", filters[f], path, exprs[x]);
			run_oracle(filters[f], exprs[x], path, &theirs);
			run_ours(g, filters[f], exprs[x], in.n_sample_types, &ours);
			assert_same_stacks(what, &ours, &theirs);
			profile_release(&ours);
			profile_release(&theirs);
			free(what);
		}
	profile_release(&in);
	promql_engine_free(g);
	memsource_free(m);
}

static void test_filters(void **state)
{
	(void)state;
	static const char *const names[] = { "alloc_objects", "fgprof", "fib", "profile-with-labels", "profile1", "node-unsymbolised" };
	const char *set = getenv("PYRRHA_CORPUS"), *src = getenv("top_srcdir");
	if (!oracle) {
		print_message("PYRRHA_PPROF_ORACLE is not set (tests/oracle/run sets it): skipped\n");
		skip();
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path = set ? xasprintf("%s/%s.pb.gz", set, names[i])
				 : xasprintf("%s/../shared/corpus/%s.pb.gz", src ? src : ".", names[i]);
		if (access(path, R_OK)) {
			print_message("no corpus at %s (set PYRRHA_CORPUS): skipped\n", path);
			free(path);
			skip();
		}
		compare_file(path);
		free(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_filters) };
	oracle = getenv("PYRRHA_PPROF_ORACLE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
