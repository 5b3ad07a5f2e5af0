/* SPDX-License-Identifier: Apache-2.0 */
/* Stops a real Node wherever it is in JavaScript, walks that with bpf/v8.h as the kernel does, names what was found, and looks whether the
 * program can have such a stack: it has said itself which of its functions call which, at which line. Skipped where there is no node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/v8/v8.h"
#include "base/vec.h"
#include "elf/elf_file.h"

#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))
#define STOPS 250
#define STEPS 100                    /* instructions after each stop, so that beginnings and ends of functions are among them */
#define MAPS 512
#define FIRST_MS 700

struct node_map { uint64_t start, end, offset; bool own; };
struct word { uint64_t word, object, check; };

static struct {
	pid_t pid;
	struct node_map maps[MAPS];
	size_t n_maps;
	struct word words[MAX_USER_FRAMES];
} now;

static const struct node_map *map_at(uint64_t at)
{
	for (size_t i = 0; i < now.n_maps; i++)
		if (at >= now.maps[i].start && at < now.maps[i].end)
			return &now.maps[i];
	return NULL;
}

static long read_memory(void *to, size_t n, uint64_t at)
{
	struct iovec local = { to, n }, remote = { (void *)(uintptr_t)at, n };
	return process_vm_readv(now.pid, &local, 1, &remote, 1, 0) == (ssize_t)n ? 0 : -1;
}

static bool push(struct unwind *u, uint64_t word, uint64_t object, uint64_t check)
{
	if (u->n == MAX_USER_FRAMES)
		return false;
	now.words[u->n++] = (struct word){ word, object, check };
	return true;
}

/* What bpf/unwind.h needs; only frame pointers are followed here. */
static const struct unwind_map *uw_recent(struct unwind *u) { return NULL; }
static const struct unwind_map *uw_maps(struct unwind *u) { return NULL; }
static void uw_met(struct unwind *u, const struct unwind_map *m) {}
static const struct unwind_image *uw_image(struct unwind *u, uint64_t id) { return NULL; }
static const volatile __u64 *uw_pages(struct unwind *u) { return NULL; }
static const uint32_t *uw_chunk(struct unwind *u, uint32_t i) { return NULL; }
static const struct unwind_rule *uw_rule(struct unwind *u, uint32_t i) { return NULL; }
static bool uw_cache_get(struct unwind *u, uint64_t vaddr, uint32_t *code) { return false; }
static void uw_cache_put(struct unwind *u, uint64_t vaddr, uint32_t code) {}
static long uw_read(struct unwind *u, void *to, uint32_t n, uint64_t at) { return read_memory(to, n, at); }
static long uw_code(struct unwind *u, uint8_t *to) { return read_memory(to, UW_CODE, u->ip - 1); }
static bool uw_push(struct unwind *u, uint64_t frame) { return push(u, frame, 0, 0); }
static int uw_walk(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr, uint64_t frame) { return UW_STEP_ON; }
static int uw_step_code(struct unwind *u, uint32_t kind, uint64_t frame) { return UW_NO_CODE; }
#include "bpf/unwind.h"

static long rt_read(struct unwind *u, void *to, uint32_t n, uint64_t at) { return read_memory(to, n, at); }
static bool rt_push(struct unwind *u, uint64_t word, uint64_t object, uint64_t check) { return push(u, word, object, check); }
static bool rt_is_jit(struct unwind *u, uint64_t at)
{
	const struct node_map *m = map_at(at);
	return m && !m->own;
}
#include "bpf/v8.h"

/* Executable memory: the program's own file, and what has no file. */
static void read_maps(const char *node)
{
	char path[64], line[4500];

	snprintf(path, sizeof path, "/proc/%d/maps", now.pid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	now.n_maps = 0;
	while (fgets(line, sizeof line, f) && now.n_maps < MAPS) {
		/* start-end perms offset device inode name */
		struct view rest = view_make(line, strcspn(line, "\n")), start = view_cut(&rest, '-'), end = view_cut(&rest, ' ');
		struct view perms = view_cut(&rest, ' '), offset = view_cut(&rest, ' ');
		view_cut(&rest, ' ');
		view_cut(&rest, ' ');
		while (rest.len && rest.ptr[0] == ' ')
			view_cut(&rest, ' ');
		struct node_map m = { .own = rest.len > 0 };
		if (perms.len < 3 || perms.ptr[2] != 'x' || (m.own && !view_eqs(rest, node)))
			continue;
		m.start = strtoull(start.ptr, NULL, 16);
		m.end = strtoull(end.ptr, NULL, 16);
		m.offset = strtoull(offset.ptr, NULL, 16);
		now.maps[now.n_maps++] = m;
	}
	fclose(f);
}

/* The native frame's word at an address of the program's file; 0: it is none of V8's builtins. */
static uint64_t native_at(const struct elf_file *f, const struct runtime_file *r, const struct node_map *m, uint64_t ip)
{
	uint64_t offset = ip - m->start + m->offset;

	for (size_t i = 0; i < f->n_ph; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		uint64_t vaddr = offset - p->p_offset + p->p_vaddr;
		if (p->p_type == PT_LOAD && offset >= p->p_offset && offset - p->p_offset < p->p_filesz &&
		    vaddr >= r->interpreter[0].start && vaddr < r->interpreter[0].end)
			return 1ull << FRAME_IMAGE_SHIFT | vaddr;
	}
	return 0;
}

static void walk(const struct elf_file *f, const struct runtime_file *r, const struct v8_proc *p, struct unwind *u)
{
	struct v8_room room = { 0 };
	int step = UW_STEP_ON;

	while (step == UW_STEP_ON) {
		const struct node_map *m = map_at(u->ip);
		uint64_t native = m && m->own ? native_at(f, r, m, u->ip) : 0;
		if (!m || (m->own && !native))
			return;
		u->start = m->start;
		u->size = m->end - m->start;
		step = v8_step(u, p, &room, native);
	}
}

static pid_t run_node(const char *node, const char *flag, const char *script, const char *mode, const char *to)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a check fails */
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, 1);
		execl(node, node, flag, script, mode, to, NULL);
		_exit(127);
	}
	return pid;
}

struct said { char *text; };

static bool is_said(const struct said *s, struct view callee, struct view caller, int64_t line)
{
	char want[400];

	snprintf(want, sizeof want, line ? "\n%.*s %.*s:%lld\n" : "\n%.*s %.*s:", VIEW_ARG(callee), VIEW_ARG(caller), (long long)line);
	return strstr(s->text, want) != NULL;
}

static void read_said(const char *node, const char *script, struct said *ret)
{
	struct buf b = { 0 };
	char path[] = "/tmp/v8_walk_XXXXXX";
	int fd = mkstemp(path), status;
	struct err e;

	assert_true(fd >= 0);
	close(fd);
	pid_t pid = run_node(node, "--no-warnings", script, "trace", path);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	buf_putc(&b, '\n');
	assert_int_equal(buf_read_file(&b, path, &e), 0);
	unlink(path);
	ret->text = buf_take(&b, NULL);
}

/* A function's own name, as the program says it. */
static struct view own_name(struct view name, char *to, size_t n)
{
	size_t dot = name.len;

	while (dot && name.ptr[dot - 1] != '.')
		dot--;
	snprintf(to, n, "%.*s", (int)(name.len - dot), name.ptr + dot);
	for (char *p = to; *p; p++)
		if (*p == ' ')
			*p = '_';
	return view_of(to);
}

struct tally { unsigned walked, wrong, frames, other_line, no_line; };

/* Whether the program can have the stack that `u` came to. */
static void check_stack(const struct runtime_file *r, struct process_memory *m, const struct unwind *u, const struct said *said,
			struct tally *t)
{
	struct runtime_name names[64];
	char callee[200] = "", caller[200];
	struct err e;

	for (unsigned i = 0; i < u->n; i++) {
		struct buf record = { .max = 128 << 10 };
		if (!FRAME_IS_RUNTIME(now.words[i].word))
			continue;
		process_memory_allow(m, 512, 1 << 20);
		if (v8_runtime.read_code(r, m, now.words[i].object, now.words[i].check, &record, &e))
			fail_msg("frame %u: %s", i, e.msg);
		size_t n = v8_runtime.frames_at(r, buf_view(&record), (uint32_t)now.words[i].word, names, ARRAY_LEN(names));
		assert_true(n > 0);
		for (size_t k = 0; k < n; k++) {
			if (view_starts(names[k].name, VIEW("[v8:")))
				callee[0] = 0; /* functions may be missing */
			if (!view_ends(names[k].file, VIEW("/closed.js")))
				continue;
			struct view name = own_name(names[k].name, caller, sizeof caller);
			t->frames++;
			t->no_line += !names[k].line;
			if (callee[0] && !is_said(said, view_of(callee), name, 0)) {
				printf("%s is not called by %s\n", callee, caller);
				t->wrong++;
			}
			t->other_line += callee[0] && !is_said(said, view_of(callee), name, names[k].line);
			snprintf(callee, sizeof callee, "%s", caller);
		}
		buf_free(&record);
	}
}

/* Looks at where it stands. False: not in JavaScript. */
static bool look(const struct runtime_file *r, const struct elf_file *f, const struct v8_proc *p, struct process_memory *m,
		 const struct said *said, struct tally *t)
{
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, now.pid, NULL, &regs), 0);
	struct unwind u = { .ip = regs.rip, .sp = regs.rsp, .fp = regs.rbp };
	walk(f, r, p, &u);
	if (!u.n)
		return false;
	t->walked++;
	check_stack(r, m, &u, said, t);
	return true;
}

/* flag: one for node. */
static void stop_often(const char *node, const char *flag, const char *script, const struct said *said)
{
	struct elf_file f;
	struct err e;
	struct runtime_proc proc;
	struct process_memory m;
	struct tally t = { 0 };
	int fd = open(node, O_RDONLY | O_CLOEXEC), status;

	assert_int_equal(elf_open(&f, fd, &e), 0);
	struct runtime_file *r = v8_runtime.recognise(&f, node);
	assert_non_null(r);
	assert_string_equal(r->why_not, "");
	now.pid = run_node(node, flag, script, NULL, NULL);
	usleep(FIRST_MS * 1000);
	assert_int_equal(process_memory_open(&m, (uint32_t)now.pid, 1, 1, &e), 0);
	assert_int_equal(v8_runtime.attach(r, &m, 0, &proc, &e), 0);
	for (unsigned i = 0; i < STOPS; i++) {
		usleep(500 + i * 37 % 1500);
		assert_int_equal(ptrace(PTRACE_ATTACH, now.pid, NULL, NULL), 0);
		assert_int_equal(waitpid(now.pid, &status, 0), now.pid);
		read_maps(node);
		for (unsigned k = 0; k < STEPS && look(r, &f, &proc.v8, &m, said, &t); k++) {
			assert_int_equal(ptrace(PTRACE_SINGLESTEP, now.pid, NULL, NULL), 0);
			assert_int_equal(waitpid(now.pid, &status, 0), now.pid);
		}
		assert_int_equal(ptrace(PTRACE_DETACH, now.pid, NULL, NULL), 0);
	}
	kill(now.pid, SIGKILL);
	waitpid(now.pid, NULL, 0);
	printf("%s %s: %s, %u stops in JavaScript, %u frames of the program, %u with another line, %u without\n", node, flag, r->label, t.walked,
	       t.frames, t.other_line, t.no_line);
	assert_true(t.walked > STOPS * 10 && t.frames > t.walked);
	/* One instruction of a function's end has the return address in a register. */
	assert_true(t.wrong * 2000 <= t.walked);
	assert_true(t.other_line * 100 <= t.frames && t.no_line * 50 <= t.frames);
	process_memory_close(&m);
	runtime_file_free(r);
	elf_close(&f);
	close(fd);
}

/* $PYRRHA_NODES: more of them, between colons. */
static void real_nodes(void **state)
{
	const char *src = getenv("srcdir"), *more = getenv("PYRRHA_NODES");
	char list[4096], script[4096], path[4096], *rest = list;

	(void)state;
	snprintf(script, sizeof script, "%s/tests/fixtures/runtimes/v8/closed.js", src ? src : ".");
	assert_non_null(realpath(script, path));
	snprintf(script, sizeof script, "%s", path);
	snprintf(list, sizeof list, "/usr/bin/node:%s", more ? more : "");
	bool any = false;
	for (char *one; (one = strsep(&rest, ":"));) {
		struct said said;
		if (!*one || access(one, X_OK) || !realpath(one, path))
			continue;
		read_said(path, script, &said);
		stop_often(path, "--no-warnings", script, &said);
		stop_often(path, "--jitless", script, &said); /* interpreted all the time */
		free(said.text);
		any = true;
	}
	if (!any)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(real_nodes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
