/* SPDX-License-Identifier: Apache-2.0 */
/* In real control groups: the path of a sample's group is found although its process has ended, or is elsewhere by now. Skipped where none can be
 * made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/kernel/cgroup_id.h"
#include "agent/labels/group_paths.h"
#include "base/view.h"

struct made_group {
	char name[64], dir[640];
	uint64_t id;
};

/* False: this process may not make groups. */
static bool make_group(const char *mount, const char *which, struct made_group *ret)
{
	struct err e;

	snprintf(ret->name, sizeof ret->name, "/pyrrha_paths_%d_%s", (int)getpid(), which);
	snprintf(ret->dir, sizeof ret->dir, "%s%s", mount, ret->name);
	return mkdir(ret->dir, 0755) == 0 && cgroup_id_of(ret->name, &ret->id, &e) == 0;
}

static bool move(const struct made_group *g, pid_t pid)
{
	char path[700];

	snprintf(path, sizeof path, "%s/cgroup.procs", g->dir);
	FILE *f = fopen(path, "we");
	if (!f)
		return false;
	bool ok = fprintf(f, "%d", (int)pid) > 0;
	return fclose(f) == 0 && ok;
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a check fails */
		pause();
		_exit(0);
	}
	return pid;
}

static void is_path(struct group_paths *x, uint64_t id, pid_t pid, const char *want)
{
	struct view v = group_paths_get(x, id, (uint32_t)pid);
	char have[256];

	snprintf(have, sizeof have, "%.*s", VIEW_ARG(v));
	assert_string_equal(have, want);
}

static void test_by_id(void **state)
{
	struct cgroup_tree tree;
	struct made_group a, b;
	siginfo_t info;
	char path[256];

	(void)state;
	cgroup_tree_open(&tree);
	if (tree.fd < 0 || !make_group(tree.mount, "a", &a))
		skip();
	assert_true(make_group(tree.mount, "b", &b));
	pid_t pid = sleeper();
	/* A hierarchy whose groups have no processes of their own, or no right to ask for a group by its id. */
	if (!move(&a, pid) || !cgroup_tree_path(&tree, a.id, path, sizeof path)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		rmdir(a.dir);
		rmdir(b.dir);
		skip();
	}
	struct group_paths *x = group_paths_new();
	/* The first process of a container: sampled in one group, asked for in the next. */
	assert_true(move(&b, pid));
	is_path(x, a.id, pid, a.name);
	is_path(x, b.id, pid, b.name);
	/* What ended, and is not waited for yet: version 1 says "/". */
	struct group_paths *fresh = group_paths_new();
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	is_path(fresh, b.id, pid, b.name);
	waitpid(pid, NULL, 0);
	is_path(fresh, b.id, pid, b.name);
	/* Groups that are gone are known as long as they were met before; their ids are never another's. */
	assert_int_equal(rmdir(a.dir), 0);
	assert_int_equal(rmdir(b.dir), 0);
	is_path(x, a.id, pid, a.name);
	is_path(fresh, a.id, pid, "");
	/* The group is gone, and the process that is named is in another one: its path is not taken for the group's. */
	is_path(fresh, a.id, getpid(), "");
	group_paths_free(fresh);
	group_paths_free(x);
	cgroup_tree_close(&tree);
}

/* A sample without a group's id: the path is what /proc/PID/cgroup says. */
static void test_without_id(void **state)
{
	struct group_paths *x = group_paths_new();

	(void)state;
	assert_true(group_paths_get(x, 0, (uint32_t)getpid()).len > 0);
	assert_int_equal(group_paths_get(x, 0, UINT32_MAX).len, 0);
	group_paths_free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_id),
		cmocka_unit_test(test_without_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
