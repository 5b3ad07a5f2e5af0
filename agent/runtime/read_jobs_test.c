/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose process does not answer, beside others; and a process that keeps the lock of its memory, with a file system of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runtime/proc_reader.h"
#include "agent/runtime/read_jobs.h"
#include "base/alloc.h"
#include "base/clock.h"

#define STUCK_MS 100
static const struct reader_limits limits = { "test", STUCK_MS, 8, 2 };

static atomic_bool go_on;
static atomic_int ran, released;

struct test_job {
	struct read_job job;
	bool blocks;
	int answer;
};

static void run(struct read_job *job)
{
	struct test_job *j = (struct test_job *)job;

	while (j->blocks && !atomic_load(&go_on))
		usleep(1000);
	j->answer = 42;
	atomic_fetch_add(&ran, 1);
}

static void release(struct read_job *job)
{
	free(job);
	atomic_fetch_add(&released, 1);
}

static struct test_job *new_job(uint32_t pid, bool blocks)
{
	struct test_job *j = NEW(struct test_job);

	read_job_init(&j->job, pid, run, release);
	j->blocks = blocks;
	return j;
}

static pid_t child_of(uid_t user)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (user && setuid(user))
			_exit(1);
		for (;;)
			pause();
	}
	for (int i = 0; i < 1000 && user; i++) { /* until it is that user's */
		struct stat st;
		char path[32];
		snprintf(path, sizeof path, "/proc/%d", (int)pid);
		if (stat(path, &st) == 0 && st.st_uid == user)
			break;
		usleep(1000);
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void ends_at(atomic_int *count, int value)
{
	for (int i = 0; i < 5000 && atomic_load(count) != value; i++)
		usleep(1000);
	assert_int_equal(atomic_load(count), value);
}

/* A process keeps one thread, a user's processes two; others are served. */
static void stuck_and_others(void **state)
{
	(void)state;
	struct read_jobs *x = read_jobs_new(&limits);
	pid_t bad[3], good = getuid() == 0 ? child_of(12345) : -1;
	struct test_job *jobs[3];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = child_of(0);
	for (size_t i = 0; i < 2; i++) {
		jobs[i] = new_job((uint32_t)bad[i], true);
		int64_t from = clock_mono_ms();
		assert_false(read_jobs_do(x, &jobs[i]->job, 20));
		assert_true(clock_mono_ms() - from >= 20);
		assert_int_equal(read_job_state(&jobs[i]->job), READ_STUCK);
		struct test_job *again = new_job((uint32_t)bad[i], false);
		assert_false(read_jobs_ask(x, &again->job));
		read_job_unref(&again->job);
	}
	assert_int_equal(read_jobs_stuck(x), 2);
	struct test_job *same_user = new_job((uint32_t)bad[2], false);
	assert_false(read_jobs_do(x, &same_user->job, 5000));
	read_job_unref(&same_user->job);
	if (good > 0) {
		struct test_job *other = new_job((uint32_t)good, false);
		assert_true(read_jobs_do(x, &other->job, 5000));
		assert_int_equal(other->answer, 42);
		read_job_unref(&other->job);
		end_child(good);
	}
	/* The answer comes: what was left behind is no more, and its answer is nobody's. */
	atomic_store(&go_on, true);
	ends_at(&ran, good > 0 ? 3 : 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(read_job_state(&jobs[i]->job), READ_STUCK);
		read_job_unref(&jobs[i]->job);
	}
	same_user = new_job((uint32_t)bad[2], false);
	bool done = false;
	for (int i = 0; i < 1000 && !(done = read_jobs_do(x, &same_user->job, 5000)); i++)
		usleep(1000);
	assert_true(done);
	read_job_unref(&same_user->job);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		end_child(bad[i]);
	read_jobs_free(x);
	ends_at(&released, 7 - (good > 0 ? 0 : 1));
	atomic_store(&go_on, false);
}

static void run_long(struct read_job *job)
{
	for (int64_t until = clock_cpu_ns() + 350000000; clock_cpu_ns() < until;)
		;
}

/* Who only takes long is waited for. */
static void slow(void **state)
{
	(void)state;
	struct read_jobs *x = read_jobs_new(&limits);
	struct test_job *j = new_job((uint32_t)getpid(), false);

	j->job.run = run_long;
	assert_true(read_jobs_do(x, &j->job, 300));
	read_job_unref(&j->job);
	assert_int_equal(read_jobs_stuck(x), 0);
	read_jobs_free(x);
}

/* One that was queued behind a stuck one has its turn, whether or not anybody waits for it. */
static void queued(void **state)
{
	(void)state;
	struct read_jobs *x = read_jobs_new(&limits);
	pid_t bad = child_of(0), good = child_of(0);
	struct test_job *first = new_job((uint32_t)bad, true), *second = new_job((uint32_t)good, false);

	assert_true(read_jobs_ask(x, &first->job));
	assert_true(read_jobs_ask(x, &second->job));
	read_jobs_wait(x, &second->job, 10000); /* not while another one comes before it */
	assert_int_equal(read_job_state(&second->job), READ_WAITS);
	for (int i = 0; i < 5000 && read_job_state(&second->job) == READ_WAITS; i++) {
		usleep(1000);
		read_jobs_tick(x);
	}
	assert_int_equal(read_job_state(&second->job), READ_DONE);
	assert_int_equal(read_job_state(&first->job), READ_STUCK);
	read_job_unref(&first->job);
	read_job_unref(&second->job);
	read_jobs_free(x);
	atomic_store(&go_on, true);
	end_child(bad);
	end_child(good);
	usleep(50000);
}

/* ---- a file system of its own ---- */

static volatile int *silent;         /* shared with the server: it answers no reads */

static void serve(int fd)
{
	static union {
		struct fuse_in_header h;
		char bytes[1 << 18];
	} in;
	static struct {
		struct fuse_out_header h;
		union {
			struct fuse_init_out init;
			struct fuse_entry_out entry;
			struct fuse_attr_out attr;
			struct fuse_open_out open;
			char bytes[1 << 17];
		};
	} out;

	for (ssize_t n; (n = read(fd, &in, sizeof in)) > 0 || errno == EINTR || errno == ENOENT;) {
		size_t len = 0;
		struct fuse_attr attr = { .ino = 2, .nlink = 1, .mode = S_IFREG | 0444, .size = 65536 };
		if (n <= 0)
			continue;
		memset(&out, 0, 8192);
		if (in.h.nodeid == 1)
			attr = (struct fuse_attr){ .ino = 1, .nlink = 1, .mode = S_IFDIR | 0755 };
		switch (in.h.opcode) {
		case FUSE_INIT:
			out.init = (struct fuse_init_out){ .major = 7, .minor = 31, .max_write = 4096 };
			len = sizeof out.init;
			break;
		case FUSE_LOOKUP:
			attr = (struct fuse_attr){ .ino = 2, .nlink = 1, .mode = S_IFREG | 0444, .size = 65536 };
			out.entry = (struct fuse_entry_out){ .nodeid = 2, .attr = attr, .attr_valid = 1000, .entry_valid = 1000 };
			len = sizeof out.entry;
			break;
		case FUSE_GETATTR:
			out.attr = (struct fuse_attr_out){ .attr = attr, .attr_valid = 1000 };
			len = sizeof out.attr;
			break;
		case FUSE_OPEN:
			len = sizeof out.open;
			break;
		case FUSE_READ:
			if (*silent)
				continue;
			len = 4096;
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			continue;
		default:
			break;
		}
		out.h = (struct fuse_out_header){ .unique = in.h.unique, .len = (uint32_t)(sizeof out.h + len) };
		if (write(fd, &out, out.h.len) < 0)
			return;
	}
}

static void *map_something(void *arg)
{
	usleep(200000);
	return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void count_map(void *arg, const struct proc_map *m)
{
	++*(unsigned *)arg;
}

struct silent_process {
	char dir[32];
	pid_t server, process, reader;
};

/* Another one reads its memory, and does not come back; a thread of it wants to map something. */
static bool start_silent(struct silent_process *s)
{
	char options[100], path[64];
	int ready[2];
	void *page = NULL;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(s->dir, sizeof s->dir, "/tmp/proc_reader.XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || mount("test", s->dir, "fuse", MS_NOSUID | MS_NODEV, options)) {
		rmdir(s->dir);
		return false;
	}
	silent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s->server = fork();
	if (s->server == 0) {
		serve(fd);
		_exit(0);
	}
	close(fd);
	assert_int_equal(pipe(ready), 0);
	s->process = fork();
	if (s->process == 0) {
		pthread_t t;
		snprintf(path, sizeof path, "%s/x", s->dir);
		page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(path, O_RDONLY), 0);
		*silent = 1;
		pthread_create(&t, NULL, map_something, NULL);
		if (write(ready[1], &page, sizeof page) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &page, sizeof page), sizeof page);
	s->reader = fork();
	if (s->reader == 0) {
		char byte;
		snprintf(path, sizeof path, "/proc/%d/mem", (int)s->process);
		_exit(pread(open(path, O_RDONLY), &byte, 1, (off_t)(uintptr_t)page) == 1);
	}
	usleep(500000);
	return true;
}

static void end_silent(struct silent_process *s)
{
	kill(s->server, SIGKILL);
	kill(s->process, SIGKILL);
	kill(s->reader, SIGKILL);
	umount2(s->dir, MNT_DETACH);
	waitpid(s->server, NULL, 0);
	waitpid(s->process, NULL, 0);
	waitpid(s->reader, NULL, 0);
	rmdir(s->dir);
}

/* A process that keeps the lock of its memory costs a moment, once, and others answer. */
static void locked_memory(void **state)
{
	(void)state;
	struct silent_process s;
	struct buf text = { 0 };
	unsigned maps = 0;

	if (geteuid() != 0 || !start_silent(&s)) {
		print_message("needs root and /dev/fuse\n");
		skip();
	}
	uint64_t before = proc_reader_stuck();
	int64_t from = clock_mono_ms();
	assert_int_equal(proc_reader_file((uint32_t)s.process, "cmdline", 100, &text), PROC_STUCK);
	assert_int_equal(proc_reader_file((uint32_t)s.process, "environ", 100, &text), PROC_STUCK);
	assert_int_equal(proc_reader_open_mapped((uint32_t)s.process, 0x400000, 0x401000), -1);
	proc_reader_maps((uint32_t)s.process, count_map, &maps);
	assert_true(clock_mono_ms() - from < 10 * PROC_WAIT_MS);
	assert_int_equal(proc_reader_stuck() - before, 1);
	assert_int_equal(proc_reader_file((uint32_t)getpid(), "cmdline", 100, &text), PROC_READ);
	assert_true(text.len > 0);
	maps = 0;
	assert_int_equal(proc_reader_maps((uint32_t)getpid(), count_map, &maps), PROC_READ);
	assert_true(maps > 2);
	buf_free(&text);
	end_silent(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(stuck_and_others), cmocka_unit_test(slow), cmocka_unit_test(queued), cmocka_unit_test(locked_memory) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
