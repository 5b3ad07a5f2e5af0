/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of legacy profiles beside what google/pprof reads of them, stack by stack and equal to the last unit: its own
 * test data, and small ones made here, where the format allows what no file has. tests/oracle/run passes the Go program in
 * PYRRHA_PPROF_ORACLE and the folder of the test data in PYRRHA_PPROF_TESTDATA; without them this test is skipped. */
#include <dirent.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "pprof/pprof.h"
#include "tests/oracle/stacks.h"

extern char **environ;
static const char *oracle, *testdata;

static void load(const char *path, struct profile *p)
{
	struct buf b CLEANUP(buf_free) = { 0 };
	struct err e;
	profile_init(p, 0);
	assert_int_equal(buf_read_file(&b, path, NULL), 0);
	if (pprof_decode(b.ptr, b.len, NULL, p, &e))
		fail_msg("%s: %s", path, e.msg);
}

static void run_oracle(const char *command, const char *in, struct profile *ret)
{
	char out[] = "/tmp/pyrrha-legacy-XXXXXX";
	int fd = mkstemp(out), status;
	pid_t pid;
	assert_true(fd >= 0);
	close(fd);
	char *argv[] = { (char *)oracle, (char *)command, out, (char *)in, NULL };
	assert_int_equal(posix_spawn(&pid, oracle, NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		fail_msg("google/pprof does not read %s", in);
	load(out, ret);
	unlink(out);
}

#define assert_same_text(what, a, i, b, k) do { \
	struct view x_ = profile_str(a, i), y_ = profile_str(b, k); \
	if (!view_eq(x_, y_)) \
		fail_msg("%s: ours \"%.*s\", pprof's \"%.*s\"", what, VIEW_ARG(x_), VIEW_ARG(y_)); \
} while (0)

static void compare(const char *command, const char *path)
{
	struct profile a, b;
	struct err e;
	load(path, &a);
	run_oracle(command, path, &b);
	if (profile_check(&a, &e))
		fail_msg("%s: %s", path, e.msg);
	assert_same_stacks(path, &a, &b);
	assert_int_equal(a.n_sample_types, b.n_sample_types);
	for (uint32_t i = 0; i < a.n_sample_types; i++) {
		assert_same_text(path, &a, a.sample_types[i].type_str, &b, b.sample_types[i].type_str);
		assert_same_text(path, &a, a.sample_types[i].unit_str, &b, b.sample_types[i].unit_str);
	}
	assert_same_text(path, &a, a.period_type.type_str, &b, b.period_type.type_str);
	assert_same_text(path, &a, a.period_type.unit_str, &b, b.period_type.unit_str);
	assert_same_text(path, &a, a.drop_frames_str, &b, b.drop_frames_str);
	assert_same_text(path, &a, a.keep_frames_str, &b, b.keep_frames_str);
	assert_int_equal(a.period, b.period);
	assert_int_equal(a.duration_ns, b.duration_ns);
	assert_int_equal(a.n_samples, b.n_samples);
	profile_release(&a);
	profile_release(&b);
}

static void compare_bytes(const char *command, const void *bytes, size_t n)
{
	char in[] = "/tmp/pyrrha-legacy-XXXXXX";
	int fd = mkstemp(in);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
	compare(command, in);
	unlink(in);
}

static void test_files(void **state)
{
	(void)state;
	DIR *dir = opendir(testdata);
	unsigned n = 0;
	assert_non_null(dir);
	for (struct dirent *d; (d = readdir(dir)) != NULL;) {
		if (d->d_name[0] == '.' || strstr(d->d_name, ".string"))
			continue;
		char *path = xasprintf("%s/%s", testdata, d->d_name);
		compare("copy", path);
		free(path);
		n++;
	}
	closedir(dir);
	assert_true(n >= 13);
}

/* ---- CPU profiles of all word sizes and orders ---- */

static void word(struct buf *b, uint64_t v, unsigned size, bool big)
{
	for (unsigned i = 0; i < size; i++)
		buf_putc(b, (char)(v >> 8 * (big ? size - 1 - i : i)));
}

static void test_words(void **state)
{
	(void)state;
	static const uint64_t words[] = { 0, 3, 0, 10000, 0, /* the handler's frame and a doubled leaf */
					  2, 4, 0x401000, 0x7f0001, 0x401000 + 0, 0x402000, 1, 3, 0x401100, 0x7f0001, 0x402000,
					  5, 2, 0x90000000, 0x7f0001, 0, 1, 0 };
	static const char maps[] = "00400000-00500000 r-xp 00000000 fc:00 12 /bin/a program\n00500000-00600000 rw-p 00100000 fc:00 12 /bin/a\n"
				   "7f0000-7f1000: /lib/libc.so.6\n7f1000-7f2000: /lib/libc.so.6 (@1000)\n";
	for (int form = 0; form < 4; form++) {
		struct buf b = { 0 };
		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			word(&b, words[i], form & 1 ? 8 : 4, form & 2);
		buf_puts(&b, maps);
		compare_bytes("copy", b.ptr, b.len);
		buf_free(&b);
	}
}

/* ---- texts ---- */

static void test_texts(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"heap profile: 3: 300 [ 3: 300] @ heapprofile\n 1: 100 [ 1: 100] @ 0x401001 0x402001\n 2: 200 [2: 200] @ 0x401001 0x901001\n"
		"\n# a comment\nMAPPED_LIBRARIES:\nbuild=/usr/src\nmore = /x$y\n00400000-00500000 r-xp 00000000 fc:00 12 $build/a\n"
		"00900000-00a00000: $more.so (@1000) abc123\n",
		"heap profile: 3: 300 [ 7: 900] @ heap/1048576\n-1: -100 [ 1: 100] @ 0x401001 0x402001\n0: 0 [2: 200] @ 0x401001 0x901001\n"
		"0: 0 [0: 0] @\n",
		"heap profile: 3: 300 [ 7: 900] @ heap_v2/4096\n 1: 5000 [ 3: 12000] @ 0x401001\n17: 1700 [ 17: 1700] @ 0x401001 0x402001\n",
		"heap profile: 3: 300 [ 3: 300] @ heap_v2\n 1: 100 [ 1: 100] @ 0x401001 0x402001 0x1\n",
		"heap profile: 3: 300 [ 3: 300] @ growthz\n 1: 100 [ 1: 100] @ 0x401001 0x402001\n",
		"heap profile: 3: 300 [ 7: 900] @ fragmentationz\n 1: 100 [ 1: 100] @ 0x401001 0x402001\n",
		"--- contention:\ncycles/second=2494255279\nsampling period=1\n1000 3 @ 0x401001 0x402001\n#\t0x401000\tmain.f+0x1\ta.go:1\n"
		"12345678 77 @ 0x401001\n",
		"--- mutex:\ncycles/second=2494255279\nsampling period=5\n1000 3 @ 0x401001 0x402001\n--- Memory map: ---\n  00400000-00fcb000: /bin/x\n",
		"--- contentionz 1 ---\n  1000  3 @ 0x401001 0x402001\n\n 7 1 @\n",
		"goroutine profile: total 3\n2 @ 0x401001 0x402001\n",
		"# c\n\ngoroutine profile: total 3\n2 @ 0x401001 0x402001\n#\t0x401000\tmain.f+0x1\ta.go:1\n\n1 @ 0x402001\n",
		"--- Thread 7eff063d9940 (name: main/25376) stack: ---\n  PC: 0xbc8f1c 0xbc8f1c 0xbcb5f5\n"
		"--- Thread 7eff04b95700 (name: thread1/25380) stack: ---\n  [same as previous thread]\n"
		"--- Thread 7eff04b95701 (name: a/b) c/25380) stack: ---\n  PC: 0xbc8f1d\n  creator: 0x40bce4\n--- Memory map: ---\n"
		"  00400000-00fcb000: /bin/x\nW1220 15:07:15.202776    8272 logger.cc:12036]   0xf00000-0xf80000 /path/to/binary      (@FF00)"
		"            abc123456\n",
		"--- heapz 1 ---\nformat = java\nresolution = bytes\n 7048 1 @ 0x00000003 0x00000004\n 100000 7 @ 0x5\n\n 0x0000003 a.b.c (source.java:03)\n"
		" 0x00000004 VM\n",
		"--- contentionz 1 ---\nformat = java\nresolution = microseconds\nsampling period = 100\nms since reset = 5\n   1 2 @ 0x3 0x4 0x5 0x6\n"
		" 0x3 f (g) (/usr/lib/libjvm.so)\n 0x4 x generated stub/JIT y\n0x5 a.b$c.<init> (S.java:-1)\n 0x3 again (H.java:7)\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		compare_bytes("copy", texts[i], strlen(texts[i]));
}

/* google/pprof does not read folded text: the Go program makes its profile of it. */
static void test_folded(void **state)
{
	(void)state;
	static const char text[] = "main;work;malloc 12\n\n[worker tid=7/8];main;operator new(unsigned long) 3\nmain;work;malloc 5\r\nmain 1\n"
				   "java;A.b;A$c_[j];_raw_spin_lock_[k] 7\nmain;;work 2\na;b 1.5\n";
	compare_bytes("folded", text, sizeof text - 1);
}

int main(void)
{
	oracle = getenv("PYRRHA_PPROF_ORACLE");
	testdata = getenv("PYRRHA_PPROF_TESTDATA");
	if (!oracle || !testdata) {
		puts("PYRRHA_PPROF_ORACLE and PYRRHA_PPROF_TESTDATA are not set: run by tests/oracle/run");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_folded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
