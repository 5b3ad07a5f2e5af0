/* SPDX-License-Identifier: Apache-2.0 */
/* The store of pinned profiles: what it keeps, its bounds, and what a crash leaves of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "web/pins.h"

static char dir[] = "/tmp/pins_test.XXXXXX";
static char *pins_dir;

static struct pins *open_pins(size_t max, uint64_t max_bytes)
{
	struct pins *p = NULL;
	struct err e = { 0 };
	if (pins_open(&p, &(struct pins_options){ pins_dir, max, max_bytes }, &e))
		fail_msg("%s", e.msg);
	return p;
}

static struct pin a_pin(const char *query)
{
	return (struct pin){ .name = VIEW("spike"), .query = view_of(query), .type = VIEW("t"), .t_ms = 1700000000123, .seconds = 300, .created_ms = 1700000001000 };
}

static enum err_code add(struct pins *p, const char *query, struct view bytes, char id[PIN_ID_LEN + 1])
{
	struct err e = { 0 };
	struct pin pin = a_pin(query);
	return -pins_add(p, &pin, bytes, id, &e);
}

static char *listed(struct pins *p)
{
	struct buf b = { 0 };
	pins_list(p, &b);
	return buf_take(&b, NULL);
}

static int count(void *arg, const char *name, struct err *e)
{
	(void)name;
	(void)e;
	++*(size_t *)arg;
	return 0;
}

static size_t files(void)
{
	size_t n = 0;
	IGNORE(files_each(pins_dir, count, &n, NULL)); /* where there is no directory there are none */
	return n;
}

static char *read_pin(struct pins *p, const char *id)
{
	int fd = -1;
	uint64_t size = 0;
	struct buf b = { 0 };
	struct err e = { 0 };
	if (pins_read(p, view_of(id), &fd, &size, &e))
		return NULL;
	assert_int_equal(buf_read_fd(&b, fd, "pin", &e), 0);
	assert_int_equal(size, b.len);
	close(fd);
	return buf_take(&b, NULL);
}

static void test_keeps(void **state)
{
	(void)state;
	struct pins *p = open_pins(10, 1 << 20);
	char id[PIN_ID_LEN + 1], want[400];
	assert_int_equal(add(p, "merge(cpu[5m])", VIEW("bytes"), id), 0);
	for (int again = 0; again < 2; again++) {
		char *bytes AUTOFREE = read_pin(p, id), *list AUTOFREE = listed(p);
		assert_string_equal(bytes, "bytes");
		snprintf(want, sizeof want, "\"pins\":[{\"id\":\"%s\",\"bytes\":1", id);
		assert_non_null(strstr(list, want));
		assert_non_null(strstr(list, "\"name\":\"spike\",\"query\":\"merge(cpu[5m])\",\"type\":\"t\",\"timeMs\":1700000000123,\"seconds\":300.0"));
		if (again)
			break;
		pins_close(p);
		p = open_pins(10, 1 << 20);
	}
	struct err e = { 0 };
	assert_int_equal(pins_remove(p, view_of(id), &e), 0);
	assert_int_equal(pins_remove(p, view_of(id), &e), -ERR_NOT_FOUND);
	assert_null(read_pin(p, id));
	assert_int_equal(files(), 0);
	pins_close(p);
}

/* What somebody may send as a name or a query, and what a note may say. */
static void test_any_bytes_in_a_note(void **state)
{
	(void)state;
	struct pins *p = open_pins(10, 1 << 20);
	struct err e = { 0 };
	char id[PIN_ID_LEN + 1];
	struct pin pin = a_pin("q\"\\\n\xff\xed\xa0\x80");
	pin.name = VIEW("a\0b\xe2\x80\xa8");
	assert_int_equal(pins_add(p, &pin, VIEW("x"), id, &e), 0);
	pins_close(p);
	p = open_pins(10, 1 << 20);
	char *list AUTOFREE = listed(p);
	assert_non_null(strstr(list, "\"name\":\"a\\u0000b"));
	assert_non_null(strstr(list, "\"query\":\"q\\\"\\\\\\n"));
	assert_int_equal(pins_remove(p, view_of(id), &e), 0);
	pins_close(p);
}

static void test_names_stay_within(void **state)
{
	(void)state;
	struct pins *p = open_pins(10, 1 << 20);
	char id[PIN_ID_LEN + 1];
	int fd;
	uint64_t size;
	static const char *const names[] = { "", ".", "..", "../../etc/passwd", "0123456789ABCDEF", "0123456789abcde", "0123456789abcdef0", "0123456789abcd/f",
					     "0123456789abcdef" };
	char *secret AUTOFREE = xasprintf("%s/0123456789abcdef.pb.gz", dir);
	assert_int_equal(add(p, "q", VIEW("x"), id), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct err e = { 0 };
		assert_int_equal(pins_read(p, view_of(names[i]), &fd, &size, &e), -ERR_NOT_FOUND);
		assert_int_equal(pins_remove(p, view_of(names[i]), &e), -ERR_NOT_FOUND);
	}
	struct err e = { 0 };
	struct view with_nul = { "0123456789abcde\0", PIN_ID_LEN };
	assert_int_equal(pins_remove(p, with_nul, &e), -ERR_NOT_FOUND);
	/* a link in its place is not followed */
	char *path AUTOFREE = xasprintf("%s/%s.pb.gz", pins_dir, id);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_not_equal(pins_read(p, view_of(id), &fd, &size, &e), 0);
	assert_int_equal(pins_remove(p, view_of(id), &e), 0);
	assert_int_not_equal(access(secret, F_OK), 0);
	pins_close(p);
}

static void test_bounds(void **state)
{
	(void)state;
	char id[3][PIN_ID_LEN + 1], big[2000];
	struct err e = { 0 };
	memset(big, 'x', sizeof big);
	struct pins *p = open_pins(2, 1 << 20);
	assert_int_equal(add(p, "a", VIEW("x"), id[0]), 0);
	assert_int_equal(add(p, "b", VIEW("x"), id[1]), 0);
	assert_int_equal(add(p, "c", VIEW("x"), id[2]), ERR_LIMIT);
	assert_int_equal(pins_remove(p, view_of(id[0]), &e), 0);
	assert_int_equal(add(p, "c", VIEW("x"), id[2]), 0);
	pins_close(p);
	p = open_pins(10, 1000);
	assert_int_equal(add(p, "d", view_make(big, sizeof big), id[0]), ERR_LIMIT);
	assert_int_equal(add(p, "d", view_make(big, 1000), id[0]), ERR_LIMIT);
	assert_int_equal(add(p, "d", view_make(big, 10), id[0]), 0);
	assert_int_equal(files(), 6);
	struct pin longest = { .query = { big, PIN_TEXT_MAX + 1 } };
	assert_int_equal(pins_add(p, &longest, VIEW("x"), id[0], &e), -ERR_LIMIT);
	pins_close(p);
}

static void put(const char *name, struct view bytes)
{
	assert_int_equal(files_put(pins_dir, name, bytes, NULL), 0);
}

/* Whatever a crash leaves: no half pin is seen, and its files go. What is not ours stays. */
static void test_crashes(void **state)
{
	(void)state;
	put("00000000000000aa.pb.gz", VIEW("no note yet"));
	put("00000000000000ab.json", VIEW("{}"));
	put("00000000000000ac.pb.gz.new", VIEW("half"));
	put("00000000000000ad.pb.gz", VIEW("x"));
	put("00000000000000ad.json.new", VIEW("{"));
	put("00000000000000ae.pb.gz", VIEW("whole"));
	put("00000000000000ae.json", VIEW("{\"query\":\"q\",\"createdMs\":5}"));
	put("00000000000000af.pb.gz", VIEW("its note is damaged"));
	put("00000000000000af.json", VIEW("{\"query\":"));
	put("README", VIEW("not ours"));
	struct pins *p = open_pins(10, 1 << 20);
	char *list AUTOFREE = listed(p);
	assert_non_null(strstr(list, "\"pins\":[{\"id\":\"00000000000000ae\",\"bytes\":32,\"query\":\"q\",\"createdMs\":5},"
			       "{\"id\":\"00000000000000af\",\"bytes\":28}]"));
	assert_int_equal(files(), 5);
	struct err e = { 0 };
	assert_int_equal(pins_remove(p, VIEW("00000000000000af"), &e), 0);
	pins_close(p);
}

/* What cannot be written leaves nothing, and takes no place. */
static void test_no_room(void **state)
{
	(void)state;
	struct pins *p = open_pins(1, 1 << 20);
	struct err e = { 0 };
	char id[PIN_ID_LEN + 1];
	struct pin pin = a_pin("q");
	files_remove_tree(pins_dir);
	assert_int_not_equal(pins_add(p, &pin, VIEW("x"), id, &e), 0);
	assert_non_null(strstr(e.msg, "the profile was not pinned: cannot write"));
	assert_int_equal(files_make_dirs(pins_dir, &e), 0);
	assert_int_equal(add(p, "q", VIEW("x"), id), 0);
	pins_close(p);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	pins_dir = xasprintf("%s/a/pins", dir);
	return 0;
}

static int clear(void **state)
{
	(void)state;
	files_remove_tree(pins_dir);
	return files_make_dirs(pins_dir, NULL);
}

static int teardown(void **state)
{
	(void)state;
	files_remove_tree(dir);
	free(pins_dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_keeps, clear), cmocka_unit_test_setup(test_names_stay_within, clear), cmocka_unit_test_setup(test_bounds, clear),
		cmocka_unit_test_setup(test_any_bytes_in_a_note, clear), cmocka_unit_test_setup(test_crashes, clear), cmocka_unit_test_setup(test_no_room, clear),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
