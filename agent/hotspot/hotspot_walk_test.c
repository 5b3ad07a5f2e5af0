/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the stacks of a real Java virtual machine, that runs a program whose stacks are a closed set, with the code that runs in the
 * kernel. Threads are stopped at random. A stack must be complete, or end where it says why; and none may be outside of the set.
 *
 * PYRRHA_JAVA: the programs to run, separated by colons; else `java`. The class is made by javac, for PYRRHA_JAVA_RELEASE or 11. Without
 * them the tests are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/hotspot/hotspot.h"
#include "agent/hotspot/recognise.h"
#include "agent/hotspot/record.h"
#include "base/num.h"
#include "base/vec.h"
#include "elf/elf_file.h"
#include "unwind/eh_frame.h"
#include "unwind/proc_maps.h"

#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))

struct row { uint64_t pc; struct unwind_rule rule; };
struct file {
	char *path;
	int fd;
	struct elf_file elf;
};
struct code_map { uint64_t start, end, offset; int file; };
struct page { int file; uint64_t at; VEC(struct row) rows; };
struct name { uint64_t object, check; struct buf record; };

/* The process under test. */
struct jvm {
	pid_t pid;
	uint64_t bias;
	int libjvm;
	VEC(struct file) files;
	VEC(struct code_map) maps;
	VEC(struct page) pages;
	VEC(struct name) names;
	struct hotspot_layout layout;
	struct process_memory memory;
	struct hotspot_proc proc;
};

struct frame { uint64_t at, object, check; bool hotspot; };
static struct { struct unwind u; struct jvm *j; struct frame f[MAX_USER_FRAMES]; } now;

static long uw_read(struct unwind *u, void *to, uint32_t n, uint64_t at)
{
	struct iovec local = { to, n }, remote = { (void *)at, n };

	return process_vm_readv(now.j->pid, &local, 1, &remote, 1, 0) == (ssize_t)n ? 0 : -1;
}

static bool push(struct unwind *u, struct frame f)
{
	if (u->n >= MAX_USER_FRAMES)
		return false;
	now.f[u->n++] = f;
	return true;
}

static bool uw_push(struct unwind *u, uint64_t frame)
{
	return push(u, (struct frame){ .at = frame });
}

static long uw_code(struct unwind *u, uint8_t to[UW_CODE])
{
	return uw_read(u, to, UW_CODE, u->ip - 1);
}

static const struct unwind_map *uw_recent(struct unwind *u) { return NULL; }
static void uw_met(struct unwind *u, const struct unwind_map *m) {}
static const struct unwind_map *uw_maps(struct unwind *u) { return NULL; }
static const struct unwind_image *uw_image(struct unwind *u, uint32_t id) { return NULL; }
static const __u64 *uw_pages(struct unwind *u) { return NULL; }
static const uint32_t *uw_chunk(struct unwind *u, uint32_t i) { return NULL; }
static const struct unwind_rule *uw_rule(struct unwind *u, uint32_t i) { return NULL; }
static bool uw_cache_get(struct unwind *u, uint64_t vaddr, uint32_t *code) { return false; }
static void uw_cache_put(struct unwind *u, uint64_t vaddr, uint32_t code) {}

static int uw_walk(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr, uint64_t frame)
{
	return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
}
static int uw_step_code(struct unwind *u, uint32_t kind, uint64_t frame) { return UW_NO_CODE; }
#define rt_read(u, to, n, at) uw_read(u, to, n, at)
#define rt_push(u, word_, object_, check_) push(u, (struct frame){ .at = (uint32_t)(word_), .object = object_, .check = check_, .hotspot = true })

#include "bpf/unwind.h"
#include "bpf/hotspot.h"

static struct hotspot_room room;

/* --- native frames, by .eh_frame --- */

static int file_of(struct jvm *j, const char *path)
{
	struct file f = { .fd = -1 };
	struct err e;

	for (size_t i = 0; i < j->files.n; i++)
		if (!strcmp(j->files.v[i].path, path))
			return (int)i;
	f.path = xstrdup(path);
	f.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f.fd >= 0 && elf_open(&f.elf, f.fd, &e)) {
		close(f.fd);
		f.fd = -1;
	}
	vec_push(&j->files, f);
	return (int)j->files.n - 1;
}

static void take_map(void *arg, const struct proc_map *p)
{
	struct jvm *j = arg;
	struct code_map m = { p->start, p->end, p->file_offset, p->path[0] == '/' ? file_of(j, p->path) : -1 };

	if (m.file >= 0 && strstr(p->path, "/libjvm.so") && !j->bias) {
		j->libjvm = m.file;
		const struct elf_file *f = &j->files.v[m.file].elf;
		for (size_t i = 0; i < f->n_ph; i++)
			if (f->ph[i].p_type == PT_LOAD && f->ph[i].p_flags & PF_X)
				j->bias = m.start - (f->ph[i].p_vaddr & ~4095ull);
	}
	vec_push(&j->maps, m);
}

static void read_maps(struct jvm *j)
{
	j->maps.n = 0;
	assert_true(proc_maps_each((uint32_t)j->pid, take_map, j));
}

static int add_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct page *p = arg;

	vec_push(&p->rows, (struct row){ pc, *r });
	return 0;
}

static const struct unwind_rule *rule_at(struct jvm *j, int file, uint64_t vaddr)
{
	struct page *p = NULL;
	struct eh_stats st = { 0 };
	const struct unwind_rule *r = NULL;
	struct err e;

	for (size_t i = 0; i < j->pages.n && !p; i++)
		if (j->pages.v[i].file == file && j->pages.v[i].at == vaddr >> 12)
			p = &j->pages.v[i];
	if (!p) {
		p = vec_add(&j->pages);
		p->file = file;
		p->at = vaddr >> 12;
		if (eh_frame_range(&j->files.v[file].elf, vaddr & ~4095ull, (vaddr | 4095) + 1, add_row, p, &st, &e))
			p->rows.n = 0;
	}
	for (size_t i = 0; i < p->rows.n && p->rows.v[i].pc <= vaddr; i++)
		r = &p->rows.v[i].rule;
	return r;
}

static int native_step(struct unwind *u)
{
	struct jvm *j = now.j;
	const struct code_map *m = NULL;
	uint64_t offset, vaddr = 0;

	for (size_t i = 0; i < j->maps.n && !m; i++)
		if (u->ip - j->maps.v[i].start < j->maps.v[i].end - j->maps.v[i].start)
			m = &j->maps.v[i];
	if (!m)
		return END_UNMAPPED;
	if (!uw_push(u, u->ip))
		return END_DEPTH;
	if (m->file < 0 || j->files.v[m->file].fd < 0)
		return uw_by_frame_pointer(u);
	offset = u->ip - m->start + m->offset;
	const struct elf_file *f = &j->files.v[m->file].elf;
	for (size_t i = 0; i < f->n_ph; i++)
		if (f->ph[i].p_type == PT_LOAD && f->ph[i].p_flags & PF_X && offset - f->ph[i].p_offset < f->ph[i].p_filesz + 4096)
			vaddr = offset - f->ph[i].p_offset + f->ph[i].p_vaddr;
	const struct unwind_rule *r = rule_at(j, m->file, vaddr);
	return r && r->cfa != CFA_NONE ? uw_by_rule(u, r) : uw_by_frame_pointer(u);
}

static int walk(struct jvm *j, const struct user_regs_struct *regs)
{
	struct unwind *u = &now.u;
	int r;

	now.j = j;
	memset(u, 0, sizeof *u);
	memset(&room, 0, sizeof room);
	u->ip = regs->rip;
	u->sp = regs->rsp;
	u->fp = regs->rbp;
	u->r13 = regs->r13;
	u->rdi = regs->rdi;
	u->rdx = regs->rdx;
	if ((long)regs->orig_rax >= 0) {
		u->ip--;
		u->is_ra = 1;
	}
	u->image = 1;
	do
		r = hs_is_code(&j->proc, u->ip) ? hotspot_step(u, &j->proc, &room) : native_step(u);
	while (r == UW_STEP_ON);
	return r;
}

/* --- names --- */

static struct view record_of(struct jvm *j, const struct frame *f)
{
	struct err e;

	for (size_t i = 0; i < j->names.n; i++)
		if (j->names.v[i].object == f->object && j->names.v[i].check == f->check)
			return buf_view(&j->names.v[i].record);
	struct name n = { f->object, f->check, { 0 } };
	process_memory_allow(&j->memory, 100000, 64 << 20);
	if (hotspot_read_object(&j->layout, &j->memory, f->object, f->check, &n.record, &e)) {
		printf("not named: %s\n", e.msg);
		buf_reset(&n.record);
	}
	vec_push(&j->names, n);
	return buf_view(&j->names.v[j->names.n - 1].record);
}

/* --- the closed set --- */

#define IN "Closed."
/* caller, callee; "" is the bottom. Only methods of the program are compared: the library's between them may be any. */
static const char *const calls[][2] = {
	{ "", "run" }, { "", "main" }, { "", "lambda$main$" }, { "lambda$main$", "wait0" }, { "wait0", "wait1" }, { "wait1", "wait0" },
	{ "", "<clinit>" }, { "main", "<init>" }, { "", "Node.<init>" },
	{ "run", "round" },
	{ "round", "rec0" }, { "rec0", "rec1" }, { "rec1", "rec2" }, { "rec2", "rec0" }, { "rec0", "leaf" }, { "rec1", "leaf" }, { "rec2", "leaf" },
	{ "round", "sorty" }, { "sorty", "lambda$sorty$" }, { "lambda$sorty$", "cmp" },
	{ "round", "streamy" }, { "streamy", "lambda$streamy$" }, { "lambda$streamy$", "sq" },
	{ "round", "exc0" }, { "exc0", "exc1" }, { "exc1", "exc2" }, { "exc2", "Stop.<init>" },
	{ "round", "alloc" }, { "alloc", "Node.<init>" },
	{ "round", "shapes" }, { "shapes", "sum" }, { "sum", "Square.area" }, { "sum", "Circle.area" }, { "sum", "Corner.area" }, { "sum", "Strip.area" },
	{ "round", "flip" }, { "flip", "leaf" },
	{ "round", "reflect" }, { "reflect", "reflected" }, { "reflected", "leaf" }, { "reflected", "rec0" },
	{ "round", "math" }, { "round", "locked" }, { "locked", "leaf" }, { "round", "copies" },
	{ "round", "iterate" }, { "iterate", "Count.<init>" }, { "iterate", "Count.iterator" }, { "iterate", "Count.hasNext" },
	{ "iterate", "Count.next" }, { "Count.next", "leaf" }, { "Count.next", "Count.next" },
	{ "round", "privileged" }, { "privileged", "lambda$privileged$" }, { "lambda$privileged$", "leaf" },
	{ "round", "leaf" },
	{ "round", "loop" }, { "loop", "mix" }, { "round", "contended" }, { "contended", "leaf" },
	{ "round", "proxied" }, { "proxied", "lambda$static$" }, { "lambda$static$", "leaf" }, { "round", "implicit" }, { "implicit", "element" },
	{ "round", "text" }, { "round", "jni" }, { "jni", "leaf" },
	{ "jni", "jniBurn" }, { "jni", "jniCall" }, { "jni", "jniField" }, { "jni", "Count.<init>" },
	{ "jniCall", "fromJni" }, { "fromJni", "leaf" }, { "fromJni", "rec1" },
};

static bool is_call(struct view caller, struct view callee)
{
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		struct view a = view_of(calls[i][0]), b = view_of(calls[i][1]);
		bool same_a = a.len && a.ptr[a.len - 1] == '$' ? view_starts(caller, a) : view_eq(caller, a);
		bool same_b = b.ptr[b.len - 1] == '$' ? view_starts(callee, b) : view_eq(callee, b);
		if (same_a && same_b)
			return true;
	}
	return false;
}

static struct view of_program(struct view name)
{
	if (view_starts(name, VIEW("Closed$")) && !view_starts(name, VIEW("Closed$$")))
		return view_make(name.ptr + 7, name.len - 7);
	return view_starts(name, VIEW(IN)) ? view_make(name.ptr + 7, name.len - 7) : view_make(NULL, 0);
}

struct counts { unsigned stops, in_java, complete, outside, unnamed, ends[END_CODES_]; };

static void print_stack(struct jvm *j, int end, const struct user_regs_struct *regs)
{
	uint8_t code[32] = { 0 };

	uw_read(NULL, code, sizeof code, regs->rip - 16);
	printf("--- end %d ip %llx sp %llx fp %llx r13 %llx code", end, regs->rip, regs->rsp, regs->rbp, regs->r13);
	for (int i = 0; i < 32; i++)
		printf("%s%02x", i == 16 ? " | " : " ", code[i]);
	printf("\n");
	for (uint32_t i = 0; i < now.u.n; i++) {
		struct runtime_name names[64];
		if (!now.f[i].hotspot) {
			const char *path = "?";
			uint64_t off = 0;
			for (size_t k = 0; k < j->maps.n; k++)
				if (now.f[i].at - j->maps.v[k].start < j->maps.v[k].end - j->maps.v[k].start && j->maps.v[k].file >= 0) {
					path = j->files.v[j->maps.v[k].file].path;
					off = now.f[i].at - j->maps.v[k].start + j->maps.v[k].offset;
				}
			printf("    native %s+%lx\n", path, off);
			continue;
		}
		size_t n = hotspot_frames_at(NULL, record_of(j, &now.f[i]), now.f[i].at, names, 64);
		for (size_t k = 0; k < n; k++)
			printf("    %s%.*s (%.*s:%ld) [%llu at %lu]\n", k + 1 < n ? "inlined " : "", VIEW_ARG(names[k].name), VIEW_ARG(names[k].file),
			       names[k].line, (unsigned long long)(now.f[i].check >> 56), now.f[i].at);
		if (!n)
			printf("    ? %llx %llx\n", (unsigned long long)now.f[i].object, (unsigned long long)now.f[i].check);
	}
	printf("    at the end: ip %llx sp %llx fp %llx\n", now.u.ip, now.u.sp, now.u.fp);
}

/* Whether the stack that was walked is in the set. */
static bool in_set(struct jvm *j, int end, bool *ret_unnamed)
{
	struct view callee = { 0 };

	for (uint32_t i = 0; i < now.u.n; i++) {
		struct runtime_name names[64];
		if (!now.f[i].hotspot)
			continue;
		size_t n = hotspot_frames_at(NULL, record_of(j, &now.f[i]), now.f[i].at, names, 64);
		*ret_unnamed |= !n;
		for (size_t k = 0; k < n; k++) {
			struct view name = of_program(names[k].name);
			if (!name.len)
				continue;
			if (callee.len && !is_call(name, callee)) {
				printf("no call: %.*s -> %.*s\n", VIEW_ARG(name), VIEW_ARG(callee));
				return false;
			}
			callee = name;
		}
	}
	if (end == END_BOTTOM && callee.len && !is_call(VIEW(""), callee)) {
		printf("no bottom: %.*s\n", VIEW_ARG(callee));
		return false;
	}
	return true;
}

static bool stop(pid_t tid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, 0, 0))
		return false;
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) || waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		return false;
	if (status >> 16 == PTRACE_EVENT_STOP)
		return true;
	ptrace(PTRACE_DETACH, tid, 0, WSTOPSIG(status)); /* it was about to get a signal */
	return false;
}

static unsigned shown;

static void sample(struct jvm *j, pid_t tid, struct counts *c)
{
	struct user_regs_struct regs;
	bool unnamed = false;

	if (!stop(tid))
		return;
	if (!ptrace(PTRACE_GETREGS, tid, 0, &regs)) {
		int end = walk(j, &regs);
		if (end == END_UNMAPPED) {
			read_maps(j);
			end = walk(j, &regs);
		}
		c->stops++;
		c->in_java += hs_is_code(&j->proc, regs.rip);
		c->complete += end == END_BOTTOM;
		c->ends[end]++;
		bool in = in_set(j, end, &unnamed);
		c->outside += !in;
		c->unnamed += unnamed;
		if ((end != END_BOTTOM || !in || unnamed) && shown++ < 12)
			print_stack(j, end, &regs);
	}
	ptrace(PTRACE_DETACH, tid, 0, 0);
}

/* The threads of that name. */
static size_t threads(struct jvm *j, const char *name, pid_t *out, size_t max)
{
	char path[64], comm[32];
	size_t n = 0;
	struct dirent *d;

	snprintf(path, sizeof path, "/proc/%d/task", j->pid);
	DIR *dir = opendir(path);
	while (dir && n < max && (d = readdir(dir))) {
		snprintf(path, sizeof path, "/proc/%d/task/%.10s/comm", j->pid, d->d_name);
		FILE *f = fopen(path, "re");
		uint64_t tid;
		if (f && fgets(comm, sizeof comm, f) && !strncmp(comm, name, strlen(name)) && comm[strlen(name)] == '\n' &&
		    num_parse_u64(view_of(d->d_name), &tid))
			out[n++] = (pid_t)tid;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return n;
}

static pid_t start_java(const char *java, const char *args, const char *classes)
{
	int pipes[2];
	char line[64] = "";

	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	if (!pid) {
		char command[1024];
		dup2(pipes[1], 1);
		close(pipes[0]);
		close(pipes[1]);
		snprintf(command, sizeof command, "exec %s %s -cp %s Closed 2 600", java, args, classes);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	FILE *f = fdopen(pipes[0], "r");
	bool ok = fgets(line, sizeof line, f) && !strncmp(line, "started", 7);
	fclose(f);
	if (ok)
		return pid;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return -1;
}


static void attach(struct jvm *j)
{
	uint64_t symbols[HS_SYMBOLS];
	struct err e;

	read_maps(j);
	assert_true(hotspot_symbols(&j->files.v[j->libjvm].elf, symbols));
	assert_int_equal(process_memory_open(&j->memory, (uint32_t)j->pid, 100000, 64 << 20, &e), 0);
	if (hotspot_layout_read(&j->layout, &j->memory, symbols, j->bias, &e) || hotspot_layout_proc(&j->layout, &j->memory, &j->proc, &e))
		fail_msg("%s", e.msg);
}

static void release(struct jvm *j)
{
	kill(j->pid, SIGKILL);
	waitpid(j->pid, NULL, 0);
	process_memory_close(&j->memory);
	for (size_t i = 0; i < j->files.n; i++) {
		if (j->files.v[i].fd >= 0) {
			elf_close(&j->files.v[i].elf);
			close(j->files.v[i].fd);
		}
		free(j->files.v[i].path);
	}
	for (size_t i = 0; i < j->pages.n; i++)
		vec_free(&j->pages.v[i].rows);
	for (size_t i = 0; i < j->names.n; i++)
		buf_free(&j->names.v[i].record);
	vec_free(&j->files);
	vec_free(&j->maps);
	vec_free(&j->pages);
	vec_free(&j->names);
}

static const char *classes;          /* the folder where the program is; NULL: it cannot be compiled here */

static void walk_random(const char *java, const char *args, unsigned stops)
{
	struct jvm j = { .pid = start_java(java, args, classes) };
	struct counts c = { 0 };
	pid_t tids[16];

	if (j.pid < 0)
		fail_msg("%s %s does not start", java, args);
	attach(&j);
	shown = 0;
	for (unsigned tries = 0; c.stops < stops && tries < stops * 3; tries++) {
		size_t n = threads(&j, "closed", tids, ARRAY_LEN(tids));
		if (!n)
			break;
		sample(&j, tids[(unsigned)rand() % n], &c);
		nanosleep(&(struct timespec){ 0, 200000 + rand() % 800000 }, NULL);
	}
	release(&j);
	printf("%s %s: %u stops, %u in its code, %u complete, %u outside, %u with a frame without name; ends", java, args, c.stops, c.in_java,
	       c.complete, c.outside, c.unnamed);
	for (int i = 0; i < END_CODES_; i++)
		if (c.ends[i])
			printf(" %d:%u", i, c.ends[i]);
	printf("\n");
	assert_int_equal(c.stops, stops);
	assert_true(c.in_java > stops / 8);
	assert_int_equal(c.outside, 0);
	assert_true(c.complete * 100 >= c.stops * 98);
	assert_true(c.unnamed * 100 <= c.stops);
}

/* The virtual machines to test, one after the other. */
static void each_java(void (*fn)(const char *java))
{
	const char *list = getenv("PYRRHA_JAVA");
	char one[512];

	if (!classes)
		skip();
	for (const char *p = list ? list : "java"; *p; p += strcspn(p, ":"), p += *p == ':') {
		snprintf(one, sizeof one, "%.*s", (int)strcspn(p, ":"), p);
		fn(one);
	}
}

static unsigned stops_wanted(void)
{
	const char *s = getenv("PYRRHA_STOPS");
	uint64_t n;

	return s && num_parse_u64(view_of(s), &n) ? (unsigned)n : 200;
}

static void random_places(const char *java)
{
	/* The last: compiled callers of interpreted methods, all the time. */
	static const char *const args[] = { "", "-Xint", "-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation",
					    "-XX:CompileCommand=quiet -XX:CompileCommand=exclude,Closed::cmp -XX:CompileCommand=exclude,Closed::sq "
					    "-XX:CompileCommand=exclude,Closed::rec1 -XX:CompileCommand=exclude,*::area" };

	char library[128];
	snprintf(library, sizeof library, "-Dclosed.library=%s/libclosed.so", classes);
	walk_random(java, library, stops_wanted());
	for (size_t i = 0; i < ARRAY_LEN(args); i++)
		walk_random(java, args[i], stops_wanted());
}

static void test_closed_set(void **state)
{
	each_java(random_places);
}

/* A line of jcmd's as ours: "at java.lang.Thread.run(java.base@17.0.15/Thread.java:840)" without the module, and without the address or the
 * number that a hidden class has. False: it is no frame. */
static bool jcmd_frame(char *line, char *out, size_t max)
{
	char *p = line + strspn(line, "\t ");

	if (strncmp(p, "at ", 3) || !strchr(p, '('))
		return false;
	p += 3;
	p[strcspn(p, "\n")] = 0;
	char *paren = strchr(p, '('), *slash = strchr(paren, '/');
	if (slash)
		memmove(paren + 1, slash + 1, strlen(slash + 1) + 1);
	char *address = strchr(p, '/');
	if (address) {
		size_t n = 1 + strspn(address + 1, "0123456789abcdefx");
		memmove(address, address + n, strlen(address + n) + 1);
	}
	snprintf(out, max, "%s", p);
	return true;
}

/* What jcmd says of the thread that waits, and what was walked. */
static void compare_with_jcmd(struct jvm *j, const char *java)
{
	char command[700], line[1024], theirs[512], ours[512];
	pid_t tid;
	struct user_regs_struct regs;
	struct runtime_name names[64];
	bool in = false;
	unsigned compared = 0;
	uint32_t frame = 0;
	size_t n = 0, k = 0;

	assert_int_equal(threads(j, "waits", &tid, 1), 1);
	assert_true(stop(tid));
	assert_int_equal(ptrace(PTRACE_GETREGS, tid, 0, &regs), 0);
	assert_int_equal(walk(j, &regs), END_BOTTOM);
	ptrace(PTRACE_DETACH, tid, 0, 0);
	int dir = strrchr(java, '/') ? (int)(strrchr(java, '/') - java + 1) : 0;
	snprintf(command, sizeof command, "%.*sjcmd %d Thread.print", dir, java, j->pid);
	FILE *f = popen(command, "re");
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		if (line[0] == '"')
			in = !strncmp(line, "\"waits\"", 7);
		if (!in || !jcmd_frame(line, theirs, sizeof theirs))
			continue;
		while (k == n && frame < now.u.n) {
			k = n = 0;
			if (now.f[frame].hotspot && now.f[frame].check >> 56 != HOTSPOT_STUB)
				n = hotspot_frames_at(NULL, record_of(j, &now.f[frame]), now.f[frame].at, names, ARRAY_LEN(names));
			frame++;
		}
		assert_true(k < n);
		if (strstr(theirs, "(Native Method)") || strstr(theirs, "(Unknown Source)"))
			snprintf(ours, sizeof ours, "%.*s%s", VIEW_ARG(names[k].name), strchr(theirs, '('));
		else
			snprintf(ours, sizeof ours, names[k].line ? "%.*s(%.*s:%ld)" : "%.*s(%.*s)", VIEW_ARG(names[k].name), VIEW_ARG(names[k].file),
				 names[k].line);
		assert_string_equal(ours, theirs);
		compared++;
		k++;
	}
	assert_int_equal(pclose(f), 0);
	assert_true(compared >= 8);
}

static void same_as_jcmd(const char *java)
{
	static const char *const args[] = { "-Xint", "-Xcomp -XX:TieredStopAtLevel=1", "-Xcomp -XX:-TieredCompilation" };

	for (size_t i = 0; i < ARRAY_LEN(args); i++) {
		struct jvm j = { .pid = start_java(java, args[i], classes) };
		assert_true(j.pid > 0);
		attach(&j);
		nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
		compare_with_jcmd(&j, java);
		release(&j);
	}
}

static void test_jcmd(void **state)
{
	each_java(same_as_jcmd);
}

/* A library with the symbols that are looked for but the last `less`, and what tells the version. */
static struct runtime_file *recognise(const char *version, const char *style, unsigned less, struct elf_file *f, int *ret_fd)
{
	char dir[] = "/tmp/pyrrha-hotspot-XXXXXX", path[64], command[256];
	struct err e;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/libjvm.so", dir);
	snprintf(command, sizeof command, "cc -shared -fPIC -x c -Wl,--hash-style=%s -o %s -", style, path);
	FILE *p = popen(command, "we");
	assert_non_null(p);
	for (unsigned i = 0; i < HS_SYMBOLS - less; i++)
		fprintf(p, "unsigned long %s = %u;\n", hotspot_symbol_names[i], i);
	fprintf(p, "const char info[] = \"OpenJDK 64-Bit Server VM (x) for linux-amd64 JRE (%s), built on\";\n", version);
	assert_int_equal(pclose(p), 0);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_open(f, *ret_fd, &e), 0);
	assert_int_equal(unlink(path) | rmdir(dir), 0);
	return hotspot_runtime.recognise(f, path);
}

static void test_recognised(void **state)
{
	static const struct { const char *version, *style, *label; unsigned less; } rows[] = {
		{ "17.0.9+9", "gnu", "hotspot17", 0 }, { "11.0.13+8", "sysv", "hotspot11", 0 }, { "1.8.0_392-b08", "gnu", "hotspot8", 0 },
		{ "25+36", "both", "hotspot25", 0 }, { "17.0.9+9", "gnu", NULL, 1 }, { "17.0.9+9", "sysv", NULL, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct elf_file f;
		int fd;
		struct runtime_file *r = recognise(rows[i].version, rows[i].style, rows[i].less, &f, &fd);
		assert_true(!r == !rows[i].label);
		if (r)
			assert_string_equal(r->label, rows[i].label);
		runtime_file_free(r);
		elf_close(&f);
		close(fd);
	}
}

/* Frames of compiled code at a place, in front of one that says where it is, and behind the last one. */
static void test_places(void **state)
{
	static const uint32_t words[] = {
		RECORD_MAGIC, 2, 2, 3, 0,
		0, 3, 0, 3, 0, 3, 7, 30,     /* "own" */
		3, 3, 3, 3, 3, 3, 17, 30,    /* "inl" */
		0, 0, 10, 1, 1, 20,          /* own:10; inl:20, called there */
		8, 1, 16, 2, INT32_MAX, 0,
	};
	static const struct { uint64_t at; const char *want; } rows[] = {
		{ 0, "own:10 " }, { 8, "own:10 " }, { 9, "inl:20 own:10 " }, { 16, "inl:20 own:10 " }, { 17, "own:10 " }, { INT32_MAX, "own:10 " },
	};
	char record[sizeof words + 6];

	memcpy(record, words, sizeof words);
	memcpy(record + sizeof words, "owninl", 6);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct runtime_name names[4];
		char got[64] = "";
		size_t n = hotspot_frames_at(NULL, view_make(record, sizeof record), rows[i].at, names, ARRAY_LEN(names));
		for (size_t k = 0; k < n; k++)
			snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s:%d ", VIEW_ARG(names[k].name), (int)names[k].line);
		assert_string_equal(got, rows[i].want);
	}
}

static int compile(void **state)
{
	static char dir[] = "/tmp/pyrrha-hotspot-XXXXXX";
	char command[1024];
	const char *of = getenv("PYRRHA_JAVA_RELEASE"), *srcdir = getenv("srcdir");

	if (!mkdtemp(dir))
		return -1;
	snprintf(command, sizeof command, "javac --release %s -g:source,lines -d %s %s/tests/fixtures/runtimes/hotspot/Closed.java 2>&1",
		 of ? of : "11", dir, srcdir ? srcdir : ".");
	if (!system("command -v javac >/dev/null && command -v java >/dev/null") && !system(command))
		classes = dir;
	snprintf(command, sizeof command, "cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -shared -fPIC -o %s/libclosed.so %s/tests/fixtures/runtimes/hotspot/closed.c",
		 dir, srcdir ? srcdir : ".");
	if (classes && system(command))
		return -1;
	*state = dir;
	return 0;
}

static int clean(void **state)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", (char *)*state);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recognised),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_closed_set),
		cmocka_unit_test(test_jcmd),
	};
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, compile, clean);
}
