/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are built for a unit test, in a folder of their own. */
#ifndef PYRRHA_AGENT_BUILT_PROGRAM_H
#define PYRRHA_AGENT_BUILT_PROGRAM_H

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attrs.h"

struct build_place { char dir[64]; };

static UNUSED struct build_place place_new(void)
{
	struct build_place p = { "/tmp/pyrrha-names-XXXXXX" };
	assert_non_null(mkdtemp(p.dir));
	return p;
}

extern char **environ;

/* Whether the command works, run there. */
static UNUSED bool shell(const struct build_place *p, const char *command)
{
	char line[1024];
	char *argv[] = { "sh", "-c", line, NULL };
	pid_t pid;
	int status;

	snprintf(line, sizeof line, "cd %s && (%s) >/dev/null 2>&1", p->dir, command);
	assert_int_equal(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static UNUSED void write_file(const struct build_place *p, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static UNUSED int open_file(const struct build_place *p, const char *name)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Removes it. Without what builds the program the test is skipped. */
static UNUSED void place_end(const struct build_place *p, bool built, const char *needs)
{
	if (!shell(p, "rm -rf $PWD"))
		print_message("cannot remove %s\n", p->dir);
	if (!built) {
		print_message("skipped: no %s\n", needs);
		skip();
	}
}

#endif
