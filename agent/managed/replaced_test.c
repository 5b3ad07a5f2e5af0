/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that are replaced while they are read, with pages kept as the namer keeps them: what was read of both has no name. The memory is this
 * process's own, and changes before one of the reader's calls of the kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/hotspot/record.h"
#include "agent/python/layout.h"

#define PAGE 4096
#define PAGES 16

static char *mem;
static int calls, change_at;
static void (*change)(void);

/* In place of libc's. */
ssize_t pread(int fd, void *to, size_t n, off_t at)
{
	if (change && ++calls == change_at)
		change();
	return syscall(SYS_pread64, fd, to, n, at);
}

ssize_t pread64(int fd, void *to, size_t n, off_t at)
{
	return pread(fd, to, n, at);
}

static void put64(char *at, uint64_t v)
{
	memcpy(at, &v, sizeof v);
}

static void put32(char *at, uint32_t v)
{
	memcpy(at, &v, sizeof v);
}

static void put16(char *at, uint16_t v)
{
	memcpy(at, &v, sizeof v);
}

/* Reads an object while it is replaced before each call of the kernel in turn: either it is not known to have been, as all was read, or it is an
 * error. Returns how many calls there were. */
static int replace_at_each(int (*read)(struct process_memory *m, struct view *ret_name, struct err *e), void (*make)(void),
			   void (*replace)(void), const char *name)
{
	struct process_memory m;
	struct err e;
	struct view got;
	int n = 1000;

	for (int at = 1; at <= n + 1; at++) {
		make();
		assert_int_equal(process_memory_open(&m, (uint32_t)getpid(), 4096, 1 << 20, &e), 0);
		process_memory_keep_pages(&m);
		calls = 0;
		change_at = at;
		change = replace;
		int r = read(&m, &got, &e);
		change = NULL;
		n = calls;
		process_memory_close(&m);
		if (at <= n)
			assert_int_equal(r, -ERR_BAD_DATA);
		else
			assert_true(!r && view_eqs(got, name));
	}
	return n;
}

/* --- CPython --- */

static const struct python_layout *layout;

static void python_string(char *at, const char *s)
{
	memset(at, 0, 64);
	put64(at, 1);
	put64(at + 16, strlen(s));
	put32(at + 32, 1u << 2 | 1u << 5 | 1u << 6); /* ASCII, compact */
	memcpy(at + layout->ascii_data, s, strlen(s) + 1);
}

static void python_code(const char *name, const char *file, int first_line)
{
	python_string(mem + PAGE, name);
	python_string(mem + 2 * PAGE, file);
	memset(mem, 0, 256);
	put64(mem, 1);
	put64(mem + 8, 0x1234);
	put32(mem + layout->code_first_line, (uint32_t)first_line);
	put64(mem + layout->code_qualname, (uintptr_t)mem + PAGE);
	put64(mem + layout->code_name, (uintptr_t)mem + PAGE + (first_line == 1 ? 0 : 8));
	put64(mem + layout->code_filename, (uintptr_t)mem + 2 * PAGE);
	put64(mem + layout->code_lines, (uintptr_t)mem + 3 * PAGE);
	put64(mem + 3 * PAGE, 1);
	put64(mem + 3 * PAGE + 16, 2);
}

static void make_python(void)
{
	python_code("function", "/its.py", 1);
}

static void replace_python(void)
{
	python_code("another", "/other.py", 77);
}

static int read_python(struct process_memory *m, struct view *ret_name, struct err *e)
{
	const struct runtime_file f = { .version = 0x30c };
	static struct buf b = { .max = 1 << 20 };
	struct runtime_name n;
	uint64_t check;

	buf_reset(&b);
	memcpy(&check, mem + layout->code_check, sizeof check);
	int r = python_read_code(&f, m, (uintptr_t)mem, check, &b, e);
	if (!r && python_frames_at(&f, buf_view(&b), 300, &n, 1) == 1)
		*ret_name = n.name;
	return r;
}

static void python(void **state)
{
	(void)state;
	layout = python_layout(12);
	assert_in_range(replace_at_each(read_python, make_python, replace_python, "function"), 3, 20);
}

/* --- HotSpot --- */

#define NMETHOD mem
#define METHOD(n) (mem + (1 + 2 * (n)) * PAGE)

static struct hotspot_layout hs;

static void symbol(char *at, const char *s)
{
	put16(at, (uint16_t)strlen(s));
	memcpy(at + 6, s, strlen(s) + 1);
}

static void hotspot_method(char *at, const char *class, const char *name)
{
	char *cm = at + 64, *pool = at + 256, *holder = at + 512, *symbols = at + 1024;

	put64(at + 8, (uintptr_t)cm);
	memset(cm, 0, 48);
	put64(cm, (uintptr_t)pool);
	put16(cm + 22, 1);
	put16(cm + 24, 100);
	memset(pool, 0, 64);
	put64(pool, (uintptr_t)holder);
	put64(pool + 64, (uintptr_t)symbols + 128);
	put64(pool + 72, (uintptr_t)symbols + 256);
	put64(holder + 8, (uintptr_t)symbols);
	symbol(symbols, class);
	symbol(symbols + 128, name);
	symbol(symbols + 256, "()V");
}

static void nmethod(uint32_t id, const char *method)
{
	memset(NMETHOD, 0, 256);
	put32(NMETHOD + 16, id);
	put64(NMETHOD + 8, (uintptr_t)method);
}

static void make_hotspot(void)
{
	hotspot_method(METHOD(0), "good/Own", "run");
	nmethod(5, METHOD(0));
}

static void replace_hotspot(void)
{
	hotspot_method(METHOD(1), "other/Class", "wrong");
	nmethod(9, METHOD(1));
	hotspot_method(METHOD(0), "other/Class", "wrong"); /* its memory is another's, too */
}

static int read_hotspot(struct process_memory *m, struct view *ret_name, struct err *e)
{
	static struct buf b = { .max = 1 << 20 };
	struct runtime_name n;

	buf_reset(&b);
	int r = hotspot_read_object(&hs, m, (uintptr_t)NMETHOD, HOTSPOT_CHECK(HOTSPOT_COMPILED, 5), &b, e);
	if (!r && hotspot_frames_at(NULL, buf_view(&b), 0, &n, 1) == 1)
		*ret_name = n.name;
	return r;
}

static void hotspot(void **state)
{
	(void)state;
	for (size_t i = 0; i < HS_FIELDS; i++)
		hs.at[i] = 200; /* zeros */
	hs.major = 17;
	hs.size[HS_T_NMETHOD] = 256;
	hs.size[HS_T_PC] = 16;
	hs.size[HS_T_POOL] = 64;
	hs.size[HS_T_CM] = 48;
	hs.at[HS_NM_IMMUTABLE] = hs.at[HS_BLOB_MUTABLE_DATA] = hs.at[HS_BLOB_CODE_BEGIN] = HS_NONE;
	hs.at[HS_NM_METHOD] = hs.at[HS_METHOD_CONST] = hs.at[HS_CLASS_NAME] = hs.at[HS_POOL_SOURCE] = 8;
	hs.at[HS_NM_COMPILE_ID] = hs.at[HS_CM_FLAGS] = 16;
	hs.at[HS_CM_CONSTANTS] = hs.at[HS_POOL_HOLDER] = hs.at[HS_SYMBOL_LENGTH] = 0;
	hs.at[HS_CM_SIZE] = hs.at[HS_POOL_LENGTH] = 12;
	hs.at[HS_CM_NAME] = 20;
	hs.at[HS_CM_SIGNATURE] = 22;
	hs.at[HS_CM_CODE_SIZE] = 24;
	hs.at[HS_SYMBOL_BODY] = 6;
	assert_in_range(replace_at_each(read_hotspot, make_hotspot, replace_hotspot, "good.Own.run"), 2, 40);
}

static int setup(void **state)
{
	(void)state;
	mem = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mem == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(python, setup),
		cmocka_unit_test_setup(hotspot, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
