/* SPDX-License-Identifier: Apache-2.0 */
/* file_sd_configs on a folder whose files come, change, break and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "discovery/testkit.h"

static char dir[64];

static void put(const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", dir, name), *next = xasprintf("%s/.next", dir);
	FILE *f = fopen(next, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(rename(next, path), 0);
	free(path);
	free(next);
}

static void point(const char *name, const char *to)
{
	char *path = xasprintf("%s/%s", dir, name), *next = xasprintf("%s/.next", dir);
	assert_int_equal(symlink(to, next), 0);
	assert_int_equal(rename(next, path), 0);
	free(path);
	free(next);
}

static void away(const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);
	assert_int_equal(remove(path), 0);
	free(path);
}

static void make_folder(const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);
	assert_int_equal(mkdir(path, 0755), 0);
	free(path);
}

static int begin(void **state)
{
	snprintf(dir, sizeof dir, "/tmp/sd_file_test.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
	return rmdir(dir);
}

static const char *line(const char *address, const char *file, const char *more)
{
	static char out[4][400];
	static unsigned i;
	char *to = out[i++ % 4];
	snprintf(to, sizeof out[0], "{__address__=\"%s\"}{__meta_filepath=\"%s/%s\"%s}\n", address, dir, file, more);
	return to;
}

static void files_come_and_go(void **state)
{
	struct sd_run r;
	put("a.json", "[{\"targets\": [\"a:1\"], \"labels\": {\"x\": \"y\"}}]");
	sd_start(&r, "file_sd_configs: [{files: ['*.json', b.yml]}]", dir);
	const char *a = line("a:1", "a.json", ", x=\"y\"");
	SD_WAIT_TARGETS(&r, a);
	SD_WAIT(discovery_ready(r.d));
	assert_int_equal(sd_status(&r).groups, 1);
	put("b.yml", "- targets: ['b:1']\n");
	char both[1000];
	snprintf(both, sizeof both, "%s%s", a, line("b:1", "b.yml", ""));
	SD_WAIT_TARGETS(&r, both);
	/* A bad one keeps what it had, and does not hold up others. */
	put("b.yml", "- targets: ['b:1']\n  label: {}\n");
	SD_WAIT(strstr(sd_status(&r).problem, "/b.yml:2:3: field [0].label"));
	put("a.json", "[{\"targets\": [\"a:2\"]}]");
	snprintf(both, sizeof both, "%s%s", line("a:2", "a.json", ""), line("b:1", "b.yml", ""));
	SD_WAIT_TARGETS(&r, both);
	put("a.json", "[{\"targets\"");
	SD_WAIT(strstr(sd_status(&r).problem, "/a.json:1:") && strstr(sd_status(&r).problem, "(and 1 more)"));
	put("b.yml", ""); /* as if somebody were about to write it */
	SD_WAIT(strstr(sd_status(&r).problem, "a.json"));
	assert_string_equal(sd_targets(&r), both);
	/* One that is gone takes its targets with it. */
	away("a.json");
	SD_WAIT_TARGETS(&r, line("b:1", "b.yml", ""));
	put("b.yml", "[]");
	SD_WAIT_TARGETS(&r, "");
	SD_WAIT(!sd_status(&r).problem[0]);
	away("b.yml");
	sd_stop(&r);
}

/* a.yml -> ..data/a.yml, ..data -> a folder; a new folder is made, ..data renamed over, the old folder deleted. */
static void as_a_kubelet_does_it(void **state)
{
	struct sd_run r;
	make_folder("one");
	put("one/a.yml", "- targets: ['a:1', 'a:2']\n");
	point("..data", "one");
	point("a.yml", "..data/a.yml");
	sd_start(&r, "file_sd_configs: [{files: [a.yml]}]", dir);
	SD_WAIT(sd_status(&r).targets == 2);
	for (int i = 0; i < 3; i++) {
		const char *const names[] = { "one", "two" };
		const char *new = names[(i + 1) % 2], *old = names[i % 2];
		char path[32], text[64];
		make_folder(new);
		snprintf(path, sizeof path, "%s/a.yml", new);
		snprintf(text, sizeof text, "- targets: ['b:%d']\n", i);
		put(path, text);
		point("..data", new);
		snprintf(path, sizeof path, "%s/a.yml", old);
		away(path);
		away(old);
		snprintf(path, sizeof path, "b:%d", i);
		SD_WAIT_TARGETS(&r, line(path, "a.yml", ""));
	}
	sd_stop(&r);
	away("two/a.yml");
	away("two");
	away("..data");
	away("a.yml");
}

static void fewer_groups(void **state)
{
	struct sd_run r;
	put("a.json", "[{\"targets\": [\"a:1\"]}, {\"targets\": [\"a:2\"]}, {\"targets\": [\"a:3\"]}]");
	sd_start(&r, "file_sd_configs: [{files: [a.json]}]", dir);
	SD_WAIT(sd_status(&r).groups == 3);
	put("a.json", "[{\"targets\": [\"a:1\"]}]");
	SD_WAIT_TARGETS(&r, line("a:1", "a.json", ""));
	away("a.json");
	SD_WAIT_TARGETS(&r, "");
	sd_stop(&r);
}

/* A link to itself stands for whatever cannot be read, also by root. */
static void unreadable_is_not_gone(void **state)
{
	struct sd_run r;
	make_folder("real");
	put("real/a.json", "[{\"targets\": [\"a:1\"]}]");
	put("real/b.json", "[{\"targets\": [\"b:1\"]}]");
	point("d", "real");
	sd_start(&r, "file_sd_configs: [{files: [d/a.json, 'd/*.json']}]", dir);
	SD_WAIT(sd_status(&r).targets == 2);
	point("d", "d");
	SD_WAIT(strstr(sd_status(&r).problem, "cannot be read") || strstr(sd_status(&r).problem, "symbolic links"));
	assert_int_equal(sd_status(&r).targets, 2);
	point("d", "real");
	SD_WAIT(!sd_status(&r).problem[0]);
	assert_int_equal(sd_status(&r).targets, 2);
	sd_stop(&r);
	away("d");
	away("real/a.json");
	away("real/b.json");
	away("real");
}

static void a_folder_that_comes_later(void **state)
{
	struct sd_run r;
	sd_start(&r, "file_sd_configs: [{files: ['later/*.json']}]", dir);
	SD_WAIT(discovery_ready(r.d));
	assert_string_equal(sd_status(&r).problem, "");
	make_folder("later");
	put("later/a.json", "[{\"targets\": [\"a:1\"]}]");
	SD_WAIT_TARGETS(&r, line("a:1", "later/a.json", ""));
	away("later/a.json");
	away("later");
	sd_stop(&r);
}

/* Those beyond the limit are said not to be read; it does not cost the others. */
static void too_many_files(void **state)
{
	struct sd_run r;
	char name[32];
	for (int i = 0; i <= 10000; i++) {
		snprintf(name, sizeof name, "%05d.json", i);
		put(name, "[{\"targets\": [\"a:1\"]}]");
	}
	sd_start(&r, "file_sd_configs: [{files: ['*.json'], refresh_interval: 200ms}]", dir);
	SD_WAIT(strstr(sd_status(&r).problem, "10000.json: not read: there are over 10000 files"));
	assert_int_equal(sd_status(&r).targets, 10000);
	put("00000.json", "[{\"targets\": [\"a:1\", \"a:2\"]}]");
	SD_WAIT(sd_status(&r).targets == 10001);
	assert_int_equal(sd_status(&r).groups, 10000);
	away("00001.json");
	SD_WAIT(!sd_status(&r).problem[0]); /* there is room for the last one */
	assert_int_equal(sd_status(&r).groups, 10000);
	sd_stop(&r);
	for (int i = 0; i <= 10000; i++) {
		snprintf(name, sizeof name, "%05d.json", i);
		if (i != 1)
			away(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_come_and_go, begin, end),
		cmocka_unit_test_setup_teardown(as_a_kubelet_does_it, begin, end),
		cmocka_unit_test_setup_teardown(fewer_groups, begin, end),
		cmocka_unit_test_setup_teardown(unreadable_is_not_gone, begin, end),
		cmocka_unit_test_setup_teardown(a_folder_that_comes_later, begin, end),
		cmocka_unit_test_setup_teardown(too_many_files, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
