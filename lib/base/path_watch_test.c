/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path_watch.h"

#define SOON_MS 5000

struct place {
	char dir[64];
	struct path_watch *watch;
};

static void write_file(const struct place *p, const char *name, const char *text)
{
	char *path AUTOFREE = xasprintf("%s/%s", p->dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void in_folder(const struct place *p, const char *command)
{
	char *line AUTOFREE = xasprintf("cd %s && %s", p->dir, command);
	assert_int_equal(system(line), 0);
}

static void watch(struct place *p, const char *name)
{
	char *path AUTOFREE = xasprintf("%s/%s", p->dir, name);
	path_watch_reset(p->watch);
	path_watch_add(p->watch, path);
}

static bool told(struct place *p)
{
	return path_watch_wait(p->watch, SOON_MS) == PATH_WATCH_CHANGED;
}

static int make_place(void **state)
{
	struct place *p = NEW(struct place);
	snprintf(p->dir, sizeof p->dir, "/tmp/path_watch_test.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->watch = path_watch_new();
	*state = p;
	return 0;
}

static int drop_place(void **state)
{
	struct place *p = *state;
	char *line AUTOFREE = xasprintf("rm -rf %s", p->dir);
	path_watch_free(p->watch);
	assert_int_equal(system(line), 0);
	free(p);
	return 0;
}

static void files_that_are_written(void **state)
{
	struct place *p = *state;
	watch(p, "a.yml");
	assert_int_equal(path_watch_wait(p->watch, 50), PATH_WATCH_TIMEOUT);
	write_file(p, "a.yml", "1"); /* was not there */
	assert_true(told(p));
	watch(p, "a.yml");
	assert_int_equal(path_watch_wait(p->watch, 50), PATH_WATCH_TIMEOUT); /* reset forgets */
	write_file(p, "a.yml", "2");
	assert_true(told(p));
	watch(p, "a.yml");
	in_folder(p, "echo 3 > b && mv b a.yml");
	assert_true(told(p));
	watch(p, "a.yml");
	in_folder(p, "rm a.yml");
	assert_true(told(p));
	watch(p, "later/a.yml"); /* nor is its folder */
	in_folder(p, "mkdir later");
	assert_true(told(p));
}

/* As a kubelet does it, twice: the watch outlives what it pointed to. */
static void a_link_that_is_swapped(void **state)
{
	struct place *p = *state;
	in_folder(p, "mkdir ..1 && echo 1 > ..1/a.yml && ln -s ..1 ..data && ln -s ..data/a.yml a.yml");
	for (int i = 2; i < 4; i++) {
		char *swap AUTOFREE = xasprintf("mkdir ..%d && echo %d > ..%d/a.yml && ln -s ..%d ..tmp && mv -T ..tmp ..data && rm -r ..%d",
						i, i, i, i, i - 1);
		watch(p, "a.yml");
		in_folder(p, swap);
		assert_true(told(p));
	}
	/* A link in another folder, to a folder above: only its own folder hears of the swap. */
	in_folder(p, "mkdir -p far/v1 near && echo 1 > far/v1/a.yml && ln -s v1 far/now && ln -s ../far/now/a.yml near/a.yml && cp -r far/v1 far/v2");
	watch(p, "near/a.yml");
	in_folder(p, "ln -s v2 far/tmp && mv -T far/tmp far/now");
	assert_true(told(p));
	in_folder(p, "ln -s circle circle");
	watch(p, "circle");
	assert_int_equal(path_watch_wait(p->watch, 0), PATH_WATCH_TIMEOUT);
}

static void an_end_that_wakes(void **state)
{
	struct place *p = *state;
	assert_false(path_watch_pause(p->watch, 10));
	path_watch_wake(p->watch);
	assert_true(path_watch_pause(p->watch, SOON_MS));
	assert_int_equal(path_watch_wait(p->watch, SOON_MS), PATH_WATCH_WOKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_that_are_written, make_place, drop_place),
		cmocka_unit_test_setup_teardown(a_link_that_is_swapped, make_place, drop_place),
		cmocka_unit_test_setup_teardown(an_end_that_wakes, make_place, drop_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
