/* SPDX-License-Identifier: Apache-2.0 */
/* process_memory: reads of a child of ours, what is not there, budgets, and memory that a process never answers for. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/runtime/process_memory.h"
#include "base/testwait.h"

#define PAGE 4096

static char *shared;                 /* with the child: [0] it is ready */
static char *text;                   /* two pages of the child's; none follows */

static pid_t child(void (*prepare)(void))
{
	shared[0] = 0;
	pid_t pid = fork();
	if (pid == 0) {
		if (prepare)
			prepare();
		shared[0] = 1;
		for (;;)
			pause();
	}
	assert_true(TEST_WAIT(*(volatile char *)shared == 1));
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	text = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || text == MAP_FAILED)
		return -1;
	munmap(text + 2 * PAGE, PAGE);
	return 0;
}

static void write_text(void)
{
	memset(text, 'x', 2 * PAGE);
	memcpy(text + PAGE - 4, "over the page's end", 20);
	memcpy(text + 2 * PAGE - 5, "last", 5);
}

static void reads(void **state)
{
	(void)state;
	pid_t pid = child(write_text);
	struct process_memory m;
	struct err e;
	char got[32];
	uint64_t word = 7;
	struct buf b = { 0 };
	uint64_t at = (uintptr_t)text;

	assert_int_equal(process_memory_open(&m, (uint32_t)pid, 100, 10000, &e), 0);
	assert_int_equal(process_memory_read(&m, at + PAGE - 4, got, 20, &e), 0);
	assert_string_equal(got, "over the page's end");
	assert_int_equal(process_memory_u64(&m, at, &word, &e), 0);
	assert_true(word == 0x7878787878787878);
	/* Of a word that is only there in part nothing is told. */
	word = 7;
	assert_int_equal(process_memory_u64(&m, at + 2 * PAGE - 4, &word, &e), -ERR_NOT_FOUND);
	assert_int_equal(process_memory_u64(&m, 0, &word, &e), -ERR_NOT_FOUND);
	assert_int_equal(process_memory_u64(&m, UINT64_MAX - 3, &word, &e), -ERR_NOT_FOUND);
	assert_int_equal(process_memory_u64(&m, UINT64_C(1) << 47, &word, &e), -ERR_NOT_FOUND);
	assert_true(word == 7 && !m.ended);
	assert_int_equal(process_memory_string(&m, at + PAGE - 4, 19, &b, &e), 0);
	assert_int_equal(process_memory_string(&m, at + 2 * PAGE - 5, 19, &b, &e), 0);
	assert_string_equal(b.ptr, "over the page's endlast");
	assert_int_equal(process_memory_string(&m, at + PAGE - 4, 18, &b, &e), -ERR_LIMIT);
	assert_int_equal(process_memory_string(&m, at, 300, &b, &e), -ERR_LIMIT);
	buf_reset(&b);
	assert_int_equal(process_memory_append(&m, at + PAGE - 4, 4, &b, &e), 0);
	assert_string_equal(b.ptr, "over");
	assert_int_equal(process_memory_append(&m, at + 2 * PAGE, 4, &b, &e), -ERR_NOT_FOUND);
	assert_int_equal(b.len, 4);
	end(pid);
	assert_int_equal(process_memory_u64(&m, at, &word, &e), -ERR_NOT_FOUND);
	assert_true(m.ended);
	process_memory_close(&m);
	assert_int_equal(process_memory_open(&m, (uint32_t)pid, 100, 10000, &e), -ERR_NOT_FOUND);
	assert_true(m.ended);
	buf_free(&b);
}

static void budget(void **state)
{
	(void)state;
	struct process_memory m;
	struct err e;
	char got[8];
	struct buf b = { 0 };

	assert_int_equal(process_memory_open(&m, (uint32_t)getpid(), 3, 20, &e), 0);
	assert_int_equal(process_memory_append(&m, (uintptr_t)text, UINT64_C(1) << 40, &b, &e), -ERR_LIMIT);
	assert_null(b.ptr);
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 8, &e), 0);
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 8, &e), 0);
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 8, &e), -ERR_LIMIT);
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 4, &e), 0);
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 1, &e), -ERR_LIMIT);
	process_memory_allow(&m, 1, 100);
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 1, &e), 0);
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 1, &e), -ERR_LIMIT);
	process_memory_close(&m);
}

/* Of kept pages memory is as it was when the budget was new; what does not lie within a page that is there is read as ever. */
static void kept_pages(void **state)
{
	(void)state;
	struct process_memory m;
	struct err e;
	char got[PAGE];
	uint64_t at = (uintptr_t)text;

	write_text();
	assert_int_equal(process_memory_open(&m, (uint32_t)getpid(), 4, 4 * PAGE, &e), 0);
	process_memory_keep_pages(&m);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(process_memory_read(&m, at + 10 + i, got, 8, &e), 0);
		assert_memory_equal(got, "xxxxxxxx", 8);
		text[10 + i] = 'y';
	}
	assert_int_equal(m.reads_left, 3);
	assert_int_equal(process_memory_read(&m, at + PAGE - 4, got, 20, &e), 0);
	assert_string_equal(got, "over the page's end");
	assert_int_equal(m.reads_left, 2);
	assert_int_equal(process_memory_read(&m, at + 2 * PAGE - 4, got, 8, &e), -ERR_NOT_FOUND);
	assert_int_equal(process_memory_read(&m, at + 2 * PAGE, got, 8, &e), -ERR_LIMIT); /* neither the page nor the bytes */
	process_memory_allow(&m, 3, PAGE);
	assert_int_equal(process_memory_read(&m, at + 10, got, 4, &e), 0);
	assert_memory_equal(got, "yyyx", 4);
	text[10] = 'z';
	process_memory_look_again(&m);
	assert_int_equal(process_memory_read(&m, at + 10, got, 4, &e), 0);
	assert_memory_equal(got, "zyyx", 4);
	for (unsigned i = 1; i < 3 * PROCESS_MEMORY_LOOKS; i++)
		assert_int_equal(process_memory_read(&m, at, got, 1, &e), 0);
	assert_int_equal(process_memory_read(&m, at, got, 1, &e), -ERR_LIMIT);
	/* Small budgets are for small reads. */
	process_memory_allow(&m, 2, 20);
	assert_int_equal(process_memory_read(&m, at + 10, got, 4, &e), 0);
	assert_int_equal(m.bytes_left, 16);
	/* More pages than are kept. */
	char *many = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(many != MAP_FAILED);
	process_memory_allow(&m, 1000, 1000 * PAGE);
	for (unsigned i = 0; i < 300; i++) {
		many[i % 100 * PAGE] = (char)i;
		assert_int_equal(process_memory_read(&m, (uintptr_t)many + i % 100 * PAGE, got, 1, &e), 0);
		assert_int_equal(got[0], (char)i);
	}
	munmap(many, 100 * PAGE);
	process_memory_close(&m);
}

static void of_bytes(void **state)
{
	(void)state;
	struct process_memory m;
	struct err e;
	uint32_t word;
	struct buf b = { 0 };

	process_memory_of_bytes(&m, VIEW("\1\2\3\4abc\0def"), 0x1000, 100, 1000);
	assert_int_equal(process_memory_u32(&m, 0x1000, &word, &e), 0);
	assert_int_equal(word, 0x04030201);
	assert_int_equal(process_memory_u32(&m, 0xfff, &word, &e), -ERR_NOT_FOUND);
	assert_int_equal(process_memory_u32(&m, 0x1008, &word, &e), -ERR_NOT_FOUND);
	assert_int_equal(process_memory_string(&m, 0x1004, 10, &b, &e), 0);
	assert_string_equal(b.ptr, "abc");
	assert_int_equal(process_memory_string(&m, 0x1008, 10, &b, &e), -ERR_NOT_FOUND);
	buf_free(&b);
}

/* The process answers for its own memory, and does not. */
static void keep_waiting(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register r = { .range = { (uintptr_t)text, 2 * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	madvise(text, 2 * PAGE, MADV_DONTNEED);
	shared[1] = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &r) == 0;
}

static void never_waits(void **state)
{
	(void)state;
	pid_t pid = child(keep_waiting);
	struct process_memory m;
	struct err e;
	char got[8];

	if (!shared[1]) {
		end(pid);
		skip();
	}
	assert_int_equal(process_memory_open(&m, (uint32_t)pid, 3, 20, &e), 0);
	alarm(20);                   /* a reader that waits is ended */
	assert_int_equal(process_memory_read(&m, (uintptr_t)text, got, 8, &e), -ERR_NOT_FOUND);
	alarm(0);
	assert_false(m.ended);
	process_memory_close(&m);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads),
		cmocka_unit_test(budget),
		cmocka_unit_test(kept_pages),
		cmocka_unit_test(of_bytes),
		cmocka_unit_test(never_waits),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
