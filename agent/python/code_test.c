/* SPDX-License-Identifier: Apache-2.0 */
/* Code objects of each CPython that is here, read from outside, against what it says itself: names, files, and the line of each
 * instruction (code_test_objects.py). And what no code object is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/python/layout.h"
#include "agent/python/lines.h"
#include "base/alloc.h"
#include "base/vec.h"

static struct programs { VEC(char *) v; } programs;

static void find_more(const char *pattern)
{
	glob_t g;
	if (glob(pattern, 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		char *end;
		strtoul(strstr(g.gl_pathv[i], "/bin/python3.") + strlen("/bin/python3."), &end, 10);
		if (!*end)
			vec_push(&programs.v, xstrdup(g.gl_pathv[i]));
	}
	globfree(&g);
}

/* $PYRRHA_PYTHONS: more of them, between colons, each in a folder bin. */
static void find_named(void)
{
	const char *more = getenv("PYRRHA_PYTHONS");
	AUTOFREE char *list = xstrdup(more ? more : "");

	for (char *save = NULL, *p = strtok_r(list, ":", &save); p; p = strtok_r(NULL, ":", &save))
		find_more(p);
}

static int find_programs(void **state)
{
	char pattern[512];
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
	(void)state;

	find_more("/usr/bin/python3.*");
	snprintf(pattern, sizeof pattern, "%s%s/versions/3.*/bin/python3.*", root ? root : home ? home : "", root ? "" : "/.pyenv");
	find_more(pattern);
	find_named();
	return 0;
}

static int forget_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < programs.v.n; i++)
		free(programs.v.v[i]);
	vec_free(&programs.v);
	return 0;
}

/* A program that told of its objects and waits until it is ended. */
struct told {
	pid_t pid;
	int in;
	FILE *out;
};

static void run(struct told *t, const char *program)
{
	char script[600];
	const char *top = getenv("top_srcdir");
	int in[2], out[2];

	snprintf(script, sizeof script, "%s/agent/python/code_test_objects.py", top ? top : ".");
	assert_int_equal(pipe(in) | pipe(out), 0);
	t->pid = fork();
	if (t->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execl(program, program, "-X", "utf8", script, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = fdopen(out[0], "r");
}

static void end(struct told *t)
{
	close(t->in);
	fclose(t->out);
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
}

static void unhex(const char *hex, struct buf *ret)
{
	buf_reset(ret);
	for (; *hex && *hex != '-'; hex += 2) {
		char two[3] = { hex[0], hex[1], 0 };
		buf_putc(ret, (char)strtoul(two, NULL, 16));
	}
}

struct checked {
	struct runtime_file file;
	const struct python_layout *layout;
	struct process_memory m;
	struct buf record, name, path;
	uint64_t object;
	size_t codes, lines;
};

/* "C ADDRESS FIRST-LINE NAME FILE": the record says the same. */
static void check_code(struct checked *c, char *line)
{
	struct runtime_name n;
	struct err e = { 0 };
	char *at;

	c->object = strtoull(line + 2, &at, 10);
	int64_t first = strtoll(at, &at, 10);
	char *name = at + 1, *path = strchr(name, ' ');
	*path++ = 0;
	path[strcspn(path, "\n")] = 0;
	unhex(name, &c->name);
	unhex(path, &c->path);
	process_memory_allow(&c->m, 100, 1 << 20);
	uint64_t check;
	assert_int_equal(process_memory_u64(&c->m, c->object + c->layout->code_check, &check, &e), 0);
	assert_true(check);
	buf_reset(&c->record);
	if (python_read_code(&c->file, &c->m, c->object, check, &c->record, &e))
		fail_msg("%s: %s", line, e.msg);
	assert_int_equal(python_frames_at(&c->file, buf_view(&c->record), 0, &n, 1), 1);
	assert_true(view_eq(n.name, buf_view(&c->name)) && view_eq(n.file, buf_view(&c->path)));
	assert_int_equal(n.start_line, first);
	if (c->codes++ % 100 == 0) {
		/* The same without a word to check it by, and another word. */
		struct buf again = { 0 };
		assert_int_equal(python_read_code(&c->file, &c->m, c->object, 0, &again, &e), 0);
		assert_true(view_eq(buf_view(&again), buf_view(&c->record)));
		buf_reset(&again);
		assert_int_equal(python_read_code(&c->file, &c->m, c->object, check + 1, &again, &e), -ERR_BAD_DATA);
		buf_reset(&again);
		/* Its type is no code. */
		uint64_t type;
		assert_int_equal(process_memory_u64(&c->m, c->object + 8, &type, &e), 0);
		assert_int_not_equal(python_read_code(&c->file, &c->m, type, 0, &again, &e), 0);
		buf_free(&again);
	}
}

/* "L OFFSET LINE" */
static void check_line(struct checked *c, const char *line)
{
	struct runtime_name n;
	char *at;
	uint64_t offset = strtoull(line + 2, &at, 10), base = c->file.version >= 0x30b ? c->layout->code_bytes : 0;
	int64_t want = strtoll(at, &at, 10);

	assert_int_equal(python_frames_at(&c->file, buf_view(&c->record), base + offset, &n, 1), 1);
	if (n.line != want)
		fprintf(stderr, "%.*s of %.*s at %llu: line %lld, not %lld\n", VIEW_ARG(n.name), VIEW_ARG(n.file),
			(unsigned long long)offset, (long long)n.line, (long long)want);
	assert_int_equal(n.line, want);
	c->lines++;
}

static void check_program(const char *program)
{
	struct checked c = { 0 };
	struct told t;
	struct err e;
	char *line = NULL;
	size_t room = 0;
	unsigned minor = (unsigned)strtoul(strstr(program, "/python3.") + strlen("/python3."), NULL, 10);

	c.layout = python_layout(minor);
	if (!c.layout)
		return;
	c.file.version = 3 << 8 | minor;
	run(&t, program);
	bool told = false, ended = false;
	while (!ended && getline(&line, &room, t.out) > 0) {
		if (!told)
			assert_int_equal(process_memory_open(&c.m, (uint32_t)t.pid, 0, 0, &e), 0);
		told = true;
		if (line[0] == 'S' && minor >= 11)
			assert_int_equal(strtoull(line + 2, NULL, 10), c.layout->code_bytes);
		else if (line[0] == 'C')
			check_code(&c, line);
		else if (line[0] == 'L')
			check_line(&c, line);
		ended = line[0] == 'E';
	}
	assert_true(ended);
	fprintf(stderr, "%s: %zu code objects, %zu places\n", program, c.codes, c.lines);
	assert_true(c.codes > 200 && c.lines > 10000);
	/* What has ended is gone. */
	end(&t);
	process_memory_allow(&c.m, 100, 1 << 20);
	assert_int_equal(python_read_code(&c.file, &c.m, c.object, 0, &c.record, &e), -ERR_NOT_FOUND);
	assert_true(c.m.ended);
	process_memory_close(&c.m);
	free(line);
	buf_free(&c.record);
	buf_free(&c.name);
	buf_free(&c.path);
}

static void real_programs(void **state)
{
	(void)state;
	if (!programs.v.n)
		skip();
	for (size_t i = 0; i < programs.v.n; i++)
		check_program(programs.v.v[i]);
}

/* ---- made up ---- */

#define AT 0x10000u

/* A 3.11 code object, its strings and table, one after the other. */
struct made_up {
	char b[1 << 17];
	struct runtime_file file;
};

static void put(struct made_up *u, size_t at, uint64_t v)
{
	memcpy(u->b + at, &v, sizeof v);
}

enum { NAME = 1024, PATH = 2048, LINES = 4096, TYPE = 512, TYPE_TEXT = 800 };

static void put_string(struct made_up *u, size_t at, uint64_t n, uint32_t state, const void *chars, size_t bytes)
{
	put(u, at, 1);
	put(u, at + 16, n);
	memcpy(u->b + at + 32, &state, sizeof state);
	memcpy(u->b + at + (state >> 6 & 1 ? 48 : 72), chars, bytes);
}

#define ASCII (1 << 2 | 1 << 5 | 1 << 6)
#define COMPACT(kind) ((kind) << 2 | 1 << 5)

static struct made_up *make(void)
{
	struct made_up *u = NEW(struct made_up);

	u->file.version = 0x30b;
	put(u, 0, 1);
	put(u, 8, AT + TYPE);
	put(u, TYPE + 24, AT + TYPE_TEXT);
	memcpy(u->b + TYPE_TEXT, "code", 5);
	put(u, 68, 77ull << 32 | 4); /* stack size, first line */
	put(u, 112, AT + PATH);
	put(u, 128, AT + NAME);
	put(u, 136, AT + LINES);
	put_string(u, NAME, 4, ASCII, "spam", 4);
	put_string(u, PATH, 4, ASCII, "a.py", 4);
	put(u, LINES + 16, 2);
	memcpy(u->b + LINES + 32, (uint8_t[]){ 0x80 | 11 << 3 | 1, 0 }, 2);
	return u;
}

static int read_it(const struct made_up *u, uint64_t check, struct buf *ret)
{
	struct process_memory m;
	struct err e;

	process_memory_of_bytes(&m, view_make(u->b, sizeof u->b), AT, 100, 1 << 20);
	buf_reset(ret);
	return python_read_code(&u->file, &m, AT, check, ret, &e);
}

static void damaged(void **state)
{
	(void)state;
	struct made_up *u = make();
	struct buf b = { 0 };
	struct runtime_name n;
	uint64_t good = 77ull << 32 | 4;

	assert_int_equal(read_it(u, good, &b), 0);
	assert_int_equal(read_it(u, 0, &b), 0);
	assert_int_equal(python_frames_at(&u->file, buf_view(&b), 184, &n, 1), 1);
	assert_true(view_eqs(n.name, "spam") && view_eqs(n.file, "a.py") && n.line == 78 && n.start_line == 77);
	python_frames_at(&u->file, buf_view(&b), 182, &n, 1); /* before the first instruction */
	assert_int_equal(n.line, 77);
	python_frames_at(&u->file, buf_view(&b), 188, &n, 1); /* after the last one */
	assert_int_equal(n.line, 0);
	/* Any part of a record is no record. */
	for (size_t i = 0; i < 2 + 5 + 5 + 2; i++)
		assert_int_equal(python_frames_at(&u->file, view_make(b.ptr, i), 184, &n, 1), i >= 13);
	/* A first line that no code has: the table's steps would go beyond what a number can be. */
	static const char beyond[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\4spam\4a.py\1\xd8\x03";
	assert_int_equal(python_frames_at(&u->file, view_make(beyond, sizeof beyond - 1), 184, &n, 1), 0);
	assert_int_equal(read_it(u, good + 1, &b), -ERR_BAD_DATA);
	u->b[TYPE_TEXT] = 'n';
	assert_int_equal(read_it(u, 0, &b), -ERR_BAD_DATA);
	assert_int_equal(read_it(u, good, &b), 0);
	/* What was freed has an address, or nothing, in place of its count; the rest of it may still be there. */
	static const size_t freed[] = { 0, NAME, PATH };
	for (size_t i = 0; i < ARRAY_LEN(freed); i++) {
		put(u, freed[i], 0x7f0011223340);
		assert_int_equal(read_it(u, good, &b), -ERR_BAD_DATA);
		put(u, freed[i], 0);
		assert_int_equal(read_it(u, good, &b), -ERR_BAD_DATA);
		put(u, freed[i], 1);
	}
	/* Names that are too long, have no such kind, or are not there. */
	put(u, NAME + 16, 4097);
	assert_int_equal(read_it(u, good, &b), -ERR_LIMIT);
	put(u, NAME + 16, UINT64_MAX);
	assert_int_equal(read_it(u, good, &b), -ERR_BAD_DATA);
	put_string(u, NAME, 4, COMPACT(3), "spam", 4);
	assert_int_equal(read_it(u, good, &b), -ERR_BAD_DATA);
	put(u, 128, 0);
	assert_int_equal(read_it(u, good, &b), -ERR_NOT_FOUND);
	put(u, 128, AT + sizeof u->b - 40);
	assert_int_equal(read_it(u, good, &b), -ERR_BAD_DATA);
	put(u, 128, AT + NAME);
	/* Characters of each size, a lone surrogate, more than there are. */
	put_string(u, NAME, 4, COMPACT(4), (uint32_t[]){ 'a', 0x1f40d, 0xd801, 0xffffffff }, 16);
	assert_int_equal(read_it(u, good, &b), 0);
	assert_int_equal(python_frames_at(&u->file, buf_view(&b), 184, &n, 1), 1);
	assert_true(view_eqs(n.name, "a\xf0\x9f\x90\x8d\xef\xbf\xbd\xef\xbf\xbd"));
	/* Not compact: the characters are elsewhere. */
	put_string(u, NAME, 2, 2 << 2, "", 0);
	put(u, NAME + 72, AT + NAME + 100);
	memcpy(u->b + NAME + 100, (uint16_t[]){ 0xe9, 0x540d }, 4);
	assert_int_equal(read_it(u, good, &b), 0);
	python_frames_at(&u->file, buf_view(&b), 184, &n, 1);
	assert_true(view_eqs(n.name, "\xc3\xa9\xe5\x90\x8d"));
	/* A table that is too long is left out. */
	put(u, LINES + 16, (64 << 10) + 1);
	assert_int_equal(read_it(u, good, &b), 0);
	python_frames_at(&u->file, buf_view(&b), 184, &n, 1);
	assert_true(n.line == 0 && n.start_line == 77);
	put(u, LINES + 16, 64 << 10);
	assert_int_equal(read_it(u, good, &b), 0);
	put(u, 136, AT + sizeof u->b - 100);
	put(u, sizeof u->b - 100 + 16, 100);
	assert_int_equal(read_it(u, good, &b), -ERR_NOT_FOUND);
	free(u);
	buf_free(&b);
}

static void lines_of_each_form(void **state)
{
	(void)state;
	static const struct {
		unsigned minor;
		struct view table;
		int64_t at, line;
	} cases[] = {
		{ 6, VIEW(""), 0, 10 },
		{ 6, VIEW("\x04\x01\x02\xff"), 3, 10 },
		{ 6, VIEW("\x04\x01\x02\xff"), 4, 11 },
		{ 6, VIEW("\x04\x01\x02\xff"), 6, 10 },
		{ 6, VIEW("\x04\x01\x02"), 600, 11 },
		{ 9, VIEW("\x00\x80\x00\x80\x02\x01"), 0, 0 }, /* below the first line there is */
		{ 10, VIEW("\x04\x01\x02\x80\x02\x01"), 3, 11 },
		{ 10, VIEW("\x04\x01\x02\x80\x02\x01"), 5, 0 },
		{ 10, VIEW("\x04\x01\x02\x80\x02\x01"), 7, 12 },
		{ 10, VIEW("\x04\x01\x02\x80\x02\x01"), 8, 0 },
		{ 10, VIEW("\x04\x80\x02\x01"), 3, 10 },            /* before the first line there is */
		{ 11, VIEW("\xf9\xd8\x01\x00"), 3, 10 },
		{ 11, VIEW("\xf9\xd8\x01\x00"), 4, 11 },
		{ 11, VIEW("\x80"), 1, 10 },
		{ 11, VIEW("\x80"), 2, 0 },
		{ 11, VIEW("\xd8\x00\x00\xf8\xe8\x03"), 0, 11 },     /* one line on; none; one line back */
		{ 11, VIEW("\xd8\x00\x00\xf8\xe8\x03"), 2, 0 },
		{ 11, VIEW("\xd8\x00\x00\xf8\xe8\x03"), 4, 10 },
		{ 12, VIEW("\xf0\x7e\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f"), 0, 10 + (((int64_t)1 << 36) - 2) / 2 }, /* a number without end */
		{ 13, VIEW("\xf0"), 0, 10 },
		{ 13, VIEW("\x01\x02\x03"), 0, 10 },
		{ 13, VIEW("\xd8\x00\x00"), -2, 10 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t line = python_line(cases[i].minor, cases[i].table, 10, cases[i].at);
		if (line != cases[i].line)
			fprintf(stderr, "case %zu\n", i);
		assert_int_equal(line, cases[i].line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_each_form),
		cmocka_unit_test(damaged),
		cmocka_unit_test(real_programs),
	};
	return cmocka_run_group_tests(tests, find_programs, forget_programs);
}
