/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of CPython's frames (bpf/python.h), compiled natively, over real interpreters that are stopped after each of some ten thousand
 * instructions, in the middle of prologues and epilogues as well. Each stack has to be one that the program can have. The same stack again, when
 * the agent has to finish it (agent/unwind/unwind_native.h), must have the same frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/managed/rows.h"
#include "agent/process/process.h"
#include "agent/unwind/unwind_native.h"
#include "base/alloc.h"
#include "base/vec.h"
#include "bpf/walk.h"

#define STEPS 10000
#define STOPS 12             /* native frames after which the kernel may have had to stop */

/* Who may call whom: a call that C code makes in between is a call of the interpreter of its own. */
static const char script[] = "import os\n"
			     "def leaf(x): return x + 1\n"
			     "def rec(n):\n"
			     "    return leaf(n) if n == 0 else rec(n - 1)\n"
			     "def by_map(x): return rec(1)\n"
			     "def by_key(x): return leaf(-x)\n"
			     "def gen():\n"
			     "    yield rec(0)\n"
			     "class C:\n"
			     "    def __init__(self): rec(0)\n"
			     "def raiser():\n"
			     "    try: raise ValueError\n"
			     "    except ValueError: leaf(0)\n"
			     "def work():\n"
			     "    list(map(by_map, (1,)))\n"
			     "    sorted((2, 1), key=by_key)\n"
			     "    sum(gen())\n"
			     "    for x in gen(): pass\n"
			     "    C()\n"
			     "    raiser()\n"
			     "def main():\n"
			     "    for i in range(300): work()\n"
			     "    os.write(1, b'x')\n"
			     "    while True: work()\n"
			     "main()\n";

static const char *const calls[][2] = {
	{ "", "<module>" }, { "<module>", "main" }, { "main", "work" }, { "rec", "rec" }, { "rec", "leaf" }, { "by_map", "rec" },
	{ "gen", "rec" }, { "__init__", "rec" }, { "raiser", "leaf" }, { "work", "raiser" }, { "by_key", "leaf" }, { "work", "gen" },
	{ "work", "__init__" }, { "work", "by_map" }, { "work", "by_key" },
};

/* --- bpf/unwind.h and bpf/python.h over a stopped process --- */

struct stopped {
	struct unwind u;             /* first */
	struct unwind_tables *tables;
	const struct unwind_map *maps;
	uint32_t n_maps;
	int mem;
	uint64_t fsbase;
	struct runtime_proc proc;
	struct runtime_walk walk;
	bool walking;
	uint64_t words[MAX_USER_WORDS];
};

#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))

static struct stopped *self(struct unwind *u)
{
	return (struct stopped *)u;
}

static const struct unwind_map *uw_recent(struct unwind *u)
{
	return NULL;
}

static void uw_met(struct unwind *u, const struct unwind_map *m)
{
}

static const struct unwind_map *uw_maps(struct unwind *u)
{
	return self(u)->maps;
}

static const struct unwind_image *uw_image(struct unwind *u, uint32_t id)
{
	return unwind_tables_image(self(u)->tables, id);
}

static const __u64 *uw_pages(struct unwind *u)
{
	return unwind_tables_pages(self(u)->tables);
}

static const uint32_t *uw_chunk(struct unwind *u, uint32_t i)
{
	return unwind_tables_chunk(self(u)->tables, i);
}

static const struct unwind_rule *uw_rule(struct unwind *u, uint32_t i)
{
	return unwind_tables_rule(self(u)->tables, i);
}

static bool uw_cache_get(struct unwind *u, uint64_t vaddr, uint32_t *code)
{
	return false;
}

static void uw_cache_put(struct unwind *u, uint64_t vaddr, uint32_t code)
{
}

static long rt_read(struct unwind *u, void *to, uint32_t n, uint64_t at)
{
	return pread(self(u)->mem, to, n, (off_t)at) == (ssize_t)n ? 0 : -1;
}

static long uw_read(struct unwind *u, void *to, uint32_t n, uint64_t at)
{
	return rt_read(u, to, n, at);
}

static long uw_code(struct unwind *u, uint8_t to[UW_CODE])
{
	return rt_read(u, to, UW_CODE, u->ip - 1);
}

static bool uw_push(struct unwind *u, uint64_t frame)
{
	if (u->n >= MAX_USER_FRAMES)
		return false;
	self(u)->words[u->words++] = frame;
	u->n++;
	return true;
}

static bool rt_push(struct unwind *u, uint64_t word, uint64_t object, uint64_t check)
{
	if (!uw_push(u, word))
		return false;
	self(u)->words[u->words++] = object;
	self(u)->words[u->words++] = check;
	return true;
}

static uint64_t rt_fsbase(struct unwind *u)
{
	return self(u)->fsbase;
}

#define PYTHON_CALL(f, u, w, i) f(u, w, i)
#include "bpf/python.h"

static bool walk_begin(struct stopped *s)
{
	struct runtime_walk *w = &s->walk;

	s->walking = true;
	w->left = WALK_STEPS;
	w->rest = 0;
	w->python.p = s->proc.python;
	w->on = python_begin(&s->u, w);
	return w->on;
}

/* As walk() of the BPF program. */
static int uw_walk(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr, uint64_t frame)
{
	struct stopped *s = self(u);
	struct runtime_walk *w = &s->walk;

	assert_int_equal(kind, RUNTIME_PYTHON);
	if (!(s->walking ? w->on : walk_begin(s)))
		return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
	w->sp = sp;
	w->cfa = u->sp;
	w->at = vaddr;
	w->n = u->n;
	w->words = u->words;
	python_walk(u, w, 0);
	return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
}

static int uw_step_code(struct unwind *u, uint32_t kind, uint64_t frame)
{
	return UW_NO_CODE;
}

#include "bpf/unwind.h"

/* --- one interpreter --- */

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

	find_more("/usr/bin/python3.*");
	snprintf(pattern, sizeof pattern, "%s%s/versions/3.*/bin/python3.*", root ? root : home ? home : "", root ? "" : "/.pyenv");
	find_more(pattern);
	find_named();
	return 0;
}

static int forget_programs(void **state)
{
	for (size_t i = 0; i < programs.v.n; i++)
		free(programs.v.v[i]);
	vec_free(&programs.v);
	return 0;
}

struct world {
	struct unwind_tables *tables;
	struct images *images;
	struct processes *ps;
	struct stopped s;
	unsigned minor;
	uint64_t bias, name_at;      /* of the runtime's file; where a code object has its name */
	struct runtime_range eval[RUNTIME_RANGES_MAX];
	uint32_t image;
};

static void attach(struct world *w, pid_t pid)
{
	struct process *p = processes_sampled(w->ps, (uint32_t)pid, 0, 1);
	struct process_memory m;
	struct err e;

	assert_true(processes_prepare(w->ps, p));
	w->s.tables = w->tables;
	w->s.maps = p->as->unwind;
	w->s.n_maps = (uint32_t)p->as->v.n;
	for (size_t i = 0; i < p->as->v.n; i++) {
		struct image *im = p->as->v.v[i].image;
		if (!im || !im->runtime)
			continue;
		assert_string_equal(im->runtime->why_not, "");
		assert_int_equal(process_memory_open(&m, (uint32_t)pid, 100, 100000, &e), 0);
		assert_int_equal(im->runtime->of->attach(im->runtime, &m, p->as->unwind[i].start - p->as->unwind[i].vaddr, &w->s.proc, &e), 0);
		process_memory_close(&m);
		w->minor = im->runtime->version & 255;
		w->image = im->id;
		memcpy(w->eval, im->runtime->interpreter, sizeof w->eval);
		return;
	}
	fail_msg("no runtime was recognised");
}

static void name_of(struct world *w, uint64_t code, char *ret, size_t max)
{
	uint64_t name;
	memset(ret, 0, max);
	uint32_t at = w->minor <= 7 ? 104 : w->minor <= 10 ? 112 : 120;

	if (rt_read(&w->s.u, &name, 8, code + at) || rt_read(&w->s.u, ret, (uint32_t)max - 1, name + (w->minor >= 12 ? 40 : 48)))
		snprintf(ret, max, "?");
}

static int unwind(struct world *w, const struct user_regs_struct *r)
{
	struct stopped *s = &w->s;
	int end;

	s->u = (struct unwind){ .ip = r->rip, .sp = r->rsp, .fp = r->rbp, .n_maps = s->n_maps };
	s->fsbase = r->fs_base;
	s->walking = false;
	do {
		end = uw_step(&s->u);
		if (end == END_NO_TABLE && images_load_table(w->images, unwind_tables_image_by_id(w->tables, s->u.image), s->u.ip - s->u.start + s->u.vaddr))
			end = UW_STEP_ON;
	} while (end == UW_STEP_ON);
	return end;
}

static bool is_eval(const struct world *w, uint64_t word)
{
	for (unsigned i = 0; i < RUNTIME_RANGES_MAX; i++)
		if (word >> FRAME_IMAGE_SHIFT == w->image && (word & FRAME_ADDR_MASK) - w->eval[i].start < w->eval[i].end - w->eval[i].start)
			return true;
	return false;
}

static bool may_call(const char *a, const char *b)
{
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (strcmp(calls[i][0], a) == 0 && strcmp(calls[i][1], b) == 0)
			return true;
	return false;
}

struct tally {
	unsigned stacks, cut, alone, lost, wrong;
	unsigned finished, fewer;    /* stacks that the agent finished; those that have not all frames */
	char first_wrong[4096];
};

static void judge(struct world *w, int end, struct tally *t)
{
	const struct stopped *s = &w->s;
	uint32_t at[MAX_USER_FRAMES], n = 0;
	char name[64], before[64] = "", text[4000] = "";
	const char *why = NULL;
	bool open = false;           /* an eval frame whose frames must come now */
	unsigned recs = 0, frames = 0;

	for (uint32_t i = 0; i < s->u.words; i += FRAME_WORDS(s->words[i]))
		at[n++] = i;
	t->stacks++;
	if (end != END_BOTTOM) {
		t->cut++;
		return;
	}
	for (uint32_t i = n; i-- > 0;) {
		const uint64_t *word = s->words + at[i];
		size_t used = strlen(text);
		if (!FRAME_IS_RUNTIME(word[0])) {
			if (!is_eval(w, word[0]))
				continue;
			if (open)
				why = why ? why : "an outer eval frame has no frames";
			open = true;
			frames = 0;
			snprintf(text + used, sizeof text - used, " E");
			continue;
		}
		if (word[0] & RUNTIME_CUT) {
			t->lost++;
			return;
		}
		name_of(w, word[1], name, sizeof name);
		snprintf(text + used, sizeof text - used, " %s+%u", name, (unsigned)(uint32_t)word[0]);
		if (!open && !frames)
			why = why ? why : "frames without an eval frame";
		open = false;
		if (++frames > 1 && w->minor <= 10)
			why = why ? why : "two frames of one eval frame";
		if (!may_call(before, name))
			why = why ? why : "a call that is not in the program";
		recs = strcmp(name, "rec") == 0 ? recs + 1 : 0;
		if (recs > 2)
			why = why ? why : "too deep";
		snprintf(before, sizeof before, "%s", name);
	}
	t->alone += open;
	if (why && !t->wrong++)
		snprintf(t->first_wrong, sizeof t->first_wrong, "%s:%.3900s", why, text);
}

/* --- the same stack, if a table is missing in the kernel from some native frame on --- */

/* As walk_rest() of the BPF program. */
static void walk_rest(struct stopped *s)
{
	struct runtime_walk *w = &s->walk;
	int r = WALK_ON;

	if (!(s->walking ? w->on : walk_begin(s)))
		return;
	w->rest = RUNTIME_REST;
	for (int i = 0; i < PYTHON_REST_NATIVE && r == WALK_ON; i++)
		r = python_rest(&s->u, w, 0);
	if (r == WALK_ENDED)
		python_entry(&s->u, RUNTIME_ALL);
}

/* Copies the stack as the record has it. */
static void copy_stack(const struct stopped *s, struct native_unwind *nu, uint8_t copy[STACK_PAGES][STACK_PAGE])
{
	nu->stack_at = s->u.sp & ~(STACK_PAGE - 1ull);
	for (unsigned i = 0; i < STACK_PAGES; i++)
		if (pread(s->mem, copy[i], STACK_PAGE, (off_t)(nu->stack_at + i * STACK_PAGE)) == STACK_PAGE)
			nu->stack[i] = copy[i];
}

/* The kernel stops before native frame `stop`, and the agent goes on with what the record has. */
static int finish(struct stopped *s, const struct user_regs_struct *r, unsigned stop, struct native_unwind *nu)
{
	static uint8_t copy[STACK_PAGES][STACK_PAGE];
	uint8_t code[UW_CODE];
	int end = UW_STEP_ON;

	s->u = (struct unwind){ .ip = r->rip, .sp = r->rsp, .fp = r->rbp, .n_maps = s->n_maps };
	s->walking = false;
	for (unsigned i = 0; i < stop && end == UW_STEP_ON; i++)
		end = uw_step(&s->u);
	if (end != UW_STEP_ON)
		return -1;
	walk_rest(s);
	*nu = (struct native_unwind){
		.u = { .ip = s->u.ip, .sp = s->u.sp, .fp = s->u.fp, .n = s->u.n, .words = s->u.words, .is_ra = s->u.is_ra },
		.tables = s->tables, .maps = s->maps, .n_maps = s->n_maps, .python = &s->proc,
		.code = uw_code(&s->u, code) ? NULL : code,
	};
	memcpy(nu->words, s->words, s->u.words * sizeof s->words[0]);
	copy_stack(s, nu, copy);
	native_unwind_take_rest(nu);
	return native_unwind(nu);
}

/* Whether the frames of a are those of b in the same order, of which some may be left out, or marks stand for them. */
static bool is_part(const uint64_t *a, uint32_t n, const uint64_t *b, uint32_t n_b)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < n; i += FRAME_WORDS(a[i])) {
		if (FRAME_IS_RUNTIME(a[i]) && a[i] & RUNTIME_CUT)
			continue;
		while (at < n_b && (FRAME_WORDS(a[i]) != FRAME_WORDS(b[at]) || memcmp(a + i, b + at, FRAME_WORDS(a[i]) * 8) != 0))
			at += FRAME_WORDS(b[at]);
		if (at >= n_b)
			return false;
		at += FRAME_WORDS(b[at]);
	}
	return true;
}

/* s has the whole stack. */
static void judge_finished(struct world *w, const struct user_regs_struct *r, unsigned stop, struct tally *t)
{
	static uint64_t whole[MAX_USER_WORDS];
	static struct native_unwind nu;
	uint32_t n = w->s.u.words;

	memcpy(whole, w->s.words, n * sizeof whole[0]);
	int end = finish(&w->s, r, stop, &nu);
	if (end < 0)
		return;
	t->finished++;
	if (end == END_BOTTOM && nu.u.words == n && memcmp(nu.words, whole, n * sizeof whole[0]) == 0)
		return;
	t->fewer++;
	if (!is_part(nu.words, nu.u.words, whole, n) && !t->wrong++)
		snprintf(t->first_wrong, sizeof t->first_wrong, "the agent finished another stack than there is, from native frame %u on", stop);
}

/* Starts the program, and waits until it is at its work. */
static pid_t spawn(const char *program)
{
	int out[2];
	char c;

	assert_int_equal(pipe(out), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		close(out[0]);
		execl(program, program, "-S", "-c", script, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &c, 1), 1);
	close(out[0]);
	return pid;
}

static void step_through(const char *program)
{
	struct world w = { 0 };
	struct tally t = { 0 };
	struct user_regs_struct regs;
	char path[64];
	int status;
	struct err e;

	pid_t pid = spawn(program);
	if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_EXITKILL)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		skip();
	}
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(unwind_tables_new(&w.tables, NULL, &e), 0);
	w.images = images_new(w.tables, RUNTIMES_ALL);
	w.ps = processes_new(w.tables, w.images, -1);
	snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
	w.s.mem = open(path, O_RDONLY | O_CLOEXEC);
	attach(&w, pid);
	for (int i = 0; i < STEPS; i++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &regs), 0);
		int end = unwind(&w, &regs);
		judge(&w, end, &t);
		if (end == END_BOTTOM)
			judge_finished(&w, &regs, (unsigned)i % STOPS, &t);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("  %s: %u stacks, %u cut, %u with an eval frame alone, %u with frames that lead nowhere; %u finished by the agent, %u of them with "
	       "fewer frames; %u wrong%s%s\n",
	       program, t.stacks, t.cut, t.alone, t.lost, t.finished, t.fewer, t.wrong, t.wrong ? "; the first: " : "", t.first_wrong);
	assert_int_equal(t.wrong, 0);
	assert_in_range(t.cut, 0, STEPS / 200);
	assert_in_range(t.lost, 0, STEPS / 100); /* 3.12, while it clears a generator's frame */
	assert_in_range(t.alone, 1, STEPS / 10);
	assert_in_range(t.finished, STEPS / 2, STEPS);
	assert_in_range(t.fewer, 0, STEPS / 100);
	close(w.s.mem);
	processes_free(w.ps);
	images_free(w.images);
	unwind_tables_free(w.tables);
}

static void test_each_instruction(void **state)
{
	for (size_t i = 0; i < programs.v.n; i++)
		step_through(programs.v.v[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_instruction) };

	return cmocka_run_group_tests(tests, find_programs, forget_programs);
}
