/* SPDX-License-Identifier: Apache-2.0 */
/* The real thing: the BPF programs on this kernel, and fixtures whose every stack is known (tests/fixtures/agent). A
 * sample's frames, from the thread's first on, must be the expected calls or a beginning of them, whole for nearly all, with
 * nothing between or beside, and the stack must reach the bottom. Needs the rights to load BPF programs: without them it says so and skips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/agent_private.h"
#include "agent/names/symbolize.h"
#include "agent/window/profile_window.h"
#include "base/alloc.h"
#include "base/clock.h"

#define HZ 499
#define PROFILE_NS 200000000ll
#define SAMPLES_MIN 20
#define WINDOWS_MIN 150              /* look so often at least before giving up, */
#define RUN_NS 3000000000ll          /* and until the fixture had so much of a CPU, which is 1,500 ticks: a busy machine */
#define WINDOWS_MAX 1000             /* runs it now and then */
#define CALLS_MAX 300
#define NAMES_MAX FILTER_COMMS_MAX

extern char **environ;
static struct agent *agent;
static char folder[3000];
static char names[NAMES_MAX][16];    /* of the fixtures' processes, which alone are sampled: other tests run beside this one */
static const char *name_list[NAMES_MAX];

struct fixture {
	const char *name, *arg;      /* arguments, separated by one space each */
	const char *variants;
	/* Calls from the outermost on; "a|b" = either, "*" = any one frame, "[vdso]" = one of the vDSO's, "~" = the frames
	 * between the first and main, `start` of them at most, "?" = perhaps some frames without names to rely on. */
	const char *calls[12];
	const char *ends;            /* "" = complete; else the mark */
	double whole;                /* share of samples that must reach the last call */
	size_t start;                /* 0: what the C library has there, one or two */
	bool go;                     /* its runtime interrupts it here and there, and has threads of its own */
	bool unsupported;            /* a few instructions have a rule that the table cannot express, and say so */
};

#define C_START 2
#define RUST_START 20
#define MUSL_START 4
#define LIBC "nofp static musl muslfp muslstatic muslbare"

static const struct fixture fixtures[] = {
	{ "recursion", "1", "fp nofp nopie static staticpie stripped notables ownpages deleted debugdata",
	  { "_start", "~", "main", "down", "leaf" }, "", 0.9 },
	{ "bigframe", NULL, "fp nofp nopie static staticpie stripped notables", { "_start", "~", "main", "big", "big", "leaf" }, "", 0.2 },
	{ "realign", NULL, "fp nofp nopie static staticpie stripped", { "_start", "~", "main", "realigned", "leaf" }, "", 0.9,
	  .unsupported = true },
	{ "altstack", NULL, "fp nofp nopie static staticpie stripped",
	  { "_start", "~", "main", "trap", "__restore_rt|*", "handler", "leaf" }, "", 0.2 },
	{ "plt", NULL, "fp nofp nopie stripped ibt", { "_start", "~", "main", "spin", "fixture_empty|fixture_empty@plt" }, "", 0.3 },
	{ "vdso", NULL, "fp nofp nopie static staticpie stripped",
	  { "_start", "~", "main", "spin", "clock_gettime|__clock_gettime|clock_gettime@plt", "[vdso]", "?" }, "", 0.5 },
	{ "threads", NULL, "fp nofp nopie static staticpie stripped", { "*", "*", "worker", "leaf" }, "", 0.9 },
	{ "rust", NULL, "fp nofp nopie stripped v0", { "_start", "~", "rust::main", "rust::middle", "<rust::Work as rust::Busy>::leaf" }, "", 0.9,
	  .start = RUST_START },
	{ "jit", NULL, "fp nofp nopie static staticpie stripped", { "_start", "~", "main", "jit_outer", "jit_leaf" }, "", 0.9 },
	{ "regions", "anon", "fp", { "_start", "~", "main", "*" }, "", 0.9 },
	{ "regions", "memfd", "fp", { "_start", "~", "main", "*" }, "", 0.9 },
	{ "regions", "zero", "fp", { "_start", "~", "main", "*" }, "", 0.9 },
	{ "regions", "zero churn", "fp", { "_start", "~", "main", "?" }, "", 0.9 },
	{ "regions", "anon lost", "fp", { "*" }, "[truncated: bad frame in anonymous memory]", 0.9 },
	{ "regions", "memfd lost", "fp", { "*" }, "[truncated: bad frame in /memfd:fixture]", 0.9 },
	{ "regions", "zero lost", "fp", { "*" }, "[truncated: bad frame in /dev/zero]", 0.9 },
	{ "regions", "zero null", "fp", { "*" }, "[truncated: bad frame in /dev/zero]", 0.9 },
	{ "libc", "copy", LIBC, { "_start", "~", "main", "spin", "?" }, "", 0.9, .start = MUSL_START },
	{ "libc", "sort", "musl muslbare", { "_start", "~", "main", "spin", "?" }, "", 0.9, .start = MUSL_START },
	{ "libc", "print", "musl muslbare", { "_start", "~", "main", "spin", "?" }, "", 0.9, .start = MUSL_START },
	{ "libc", "heap", "musl muslbare", { "_start", "~", "main", "spin", "?" }, "", 0.9, .start = MUSL_START },
	{ "libc", "kernel", "musl muslbare", { "_start", "~", "main", "spin", "?" }, "", 0.9, .start = MUSL_START },
	{ "libc", "print", "muslstripped", { "*", "*", "*", "*", "*", "?" }, "", 0.9 },
	{ "vfork", NULL, "nofp musl muslstatic", { "_start", "~", "main", "spawn", "?" }, "", 0.9, .unsupported = true, .start = MUSL_START },
	{ "recursion", "1", "musl", { "_start", "~", "main", "down", "leaf" }, "", 0.9, .start = MUSL_START },
	{ "threads", NULL, "musl muslbare", { "*", "*", "worker", "leaf" }, "", 0.9 },
	{ "altstack", NULL, "musl muslstatic", { "_start", "~", "main", "trap", "*", "handler", "leaf" }, "", 0.2,
	  .start = MUSL_START },
	{ "gofix", NULL, "exe stripped pie", { "runtime.goexit*", "runtime.main", "main.main", "main.middle", "main.leaf" }, "", 0.9,
	  .go = true },
	{ "gofix", "goroutine", "exe stripped pie", { "runtime.goexit*", "main.worker", "main.leaf" }, "", 0.9, .go = true },
	{ "gocgo", NULL, "exe", { "runtime.goexit*", "runtime.main", "main.main", "main.middle", "main._Cfunc_outer", "~", "outer", "leaf" },
	  "", 0.9, .start = 3, .go = true },
	{ "gocgo", NULL, "stripped", { "runtime.goexit*", "runtime.main", "main.main", "main.middle", "main._Cfunc_outer", "~", "*", "*", "*" },
	  "", 0.9, .start = 2, .go = true },
};

struct child {
	pid_t pid;
	int out;
};

static struct child start_child(const char *program, char *const argv[])
{
	posix_spawn_file_actions_t fa;
	struct child c;
	int fds[2];
	char line[6];

	assert_int_equal(pipe(fds), 0);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fds[1], 1);
	posix_spawn_file_actions_addclose(&fa, fds[0]);
	assert_int_equal(posix_spawn(&c.pid, program, &fa, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&fa);
	close(fds[1]);
	c.out = fds[0];
	assert_int_equal(read(c.out, line, sizeof line), sizeof line);
	return c;
}

static void stop_child(struct child *c)
{
	char map[64];

	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->out);
	snprintf(map, sizeof map, "/tmp/perf-%d.map", (int)c->pid); /* of the jit fixture */
	unlink(map);
}

/* CPU time of a process in ns, by /proc/PID/stat. */
static int64_t cpu_time(pid_t pid)
{
	char name[64], text[1024];

	snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
	FILE *f = fopen(name, "re");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof text, f));
	fclose(f);
	char *at = strrchr(text, ')') + 2;
	for (int field = 3; field < 14; field++)
		at = strchr(at, ' ') + 1;
	uint64_t user = strtoull(at, &at, 10), sys = strtoull(at, NULL, 10);
	return (int64_t)(user + sys) * (1000000000 / sysconf(_SC_CLK_TCK));
}

/* Whether a fixture has run for long enough to be judged by what there is of it, after so many windows. */
static bool had_its_time(pid_t pid, int windows)
{
	return windows >= WINDOWS_MAX || (windows >= WINDOWS_MIN && cpu_time(pid) >= RUN_NS);
}

static struct profile_window *profile(int64_t duration_ns)
{
	struct profile_window *w = NULL;
	struct err e = { 0 };

	if (agent_profile(agent, WINDOW_ON_CPU, duration_ns, NULL, &w, &e))
		fail_msg("%s", e.msg);
	return w;
}

/* A stack from the outermost frame on, names only, kernel frames left out. */
struct seen_stack {
	const char *names[CALLS_MAX];
	size_t n;
	const char *mark;            /* NULL = complete */
	bool vdso[CALLS_MAX];
};

static const char *name_of(const struct window_frame *f)
{
	struct sym_frame s[SYM_FRAMES_MAX];
	size_t n = symbolizer_resolve(agent_symbolizer(agent), f, s);
	return n ? s[n - 1].name.ptr : "";
}

static void read_stack(const struct profile_window *w, const struct window_sample *s, struct seen_stack *out)
{
	memset(out, 0, sizeof *out);
	for (uint32_t i = s->n_frames; i-- > 0 && out->n < CALLS_MAX;) {
		const struct window_frame *f = &w->frames.v[w->stacks.v[s->stack + i]];
		if (f->kind == FRAME_MARK)
			out->mark = f->mark;
		if (f->kind == FRAME_MARK || f->kind == FRAME_KERNEL)
			continue;
		out->vdso[out->n] = f->image && strcmp(f->image->path, "[vdso]") == 0;
		out->names[out->n++] = name_of(f);
	}
}

static void print_stack(const struct seen_stack *k)
{
	for (size_t i = 0; i < k->n; i++)
		print_message(" > %s", *k->names[i] ? k->names[i] : "?");
	print_message(" %s\n", k->mark ? k->mark : "");
}

/* As it is, from the leaf on. */
static void print_frames(const struct profile_window *w, const struct window_sample *s)
{
	for (uint32_t i = 0; i < s->n_frames; i++) {
		const struct window_frame *f = &w->frames.v[w->stacks.v[s->stack + i]];
		print_message("    %s %#llx %s\n", f->mark ? f->mark : f->image ? f->image->path : "", (unsigned long long)f->addr,
			      f->kind == FRAME_MARK ? "" : name_of(f));
	}
}

/* One of the names that are wanted, which | separates; with * at its end, any name that begins so. */
static bool same_name(const char *got, const char *want)
{
	for (size_t n; *want; want += n + (want[n] == '|')) {
		n = strcspn(want, "|");
		size_t cmp = want[n - 1] == '*' ? n - 1 : n;
		if (strncmp(got, want, cmp) == 0 && (cmp < n || !got[cmp]))
			return true;
	}
	return false;
}

static bool same_frame(const struct seen_stack *k, size_t at, const char *want)
{
	return strcmp(want, "[vdso]") == 0 ? k->vdso[at] : same_name(k->names[at], want);
}

/* 0 = not a beginning of the calls, 1 = a beginning, 2 = all of them. start: as many frames at most "~" is. */
static int matches_from(const struct seen_stack *k, size_t at, const char *const *calls, size_t start)
{
	for (; at < k->n; at++, calls++) {
		if (!*calls)
			return 0;
		if (strcmp(*calls, "?") == 0)
			return 2;
		if (strcmp(*calls, "~") == 0) {
			int best = k->n - at <= start;
			for (size_t n = 1; n <= start && at + n < k->n; n++)
				best = MAX(best, matches_from(k, at + n, calls + 1, start));
			return best;
		}
		if (!same_frame(k, at, *calls))
			return 0;
	}
	return *calls && strcmp(*calls, "?") != 0 ? 1 : 2;
}

static int matches(const struct seen_stack *k, const char *const *calls, size_t start)
{
	return k->n ? matches_from(k, 0, calls, start ? start : C_START) : 0;
}

/* It has said that it is ready and not returned from that yet. */
static bool getting_ready(const struct seen_stack *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (strncmp(k->names[i], "ready", 5) == 0 || strcmp(k->names[i], "main.ready") == 0)
			return true;
	return false;
}

/* Leaves out what Go's runtime was called for in the midst of the program's functions; false: none of those is there. */
static bool without_runtime(struct seen_stack *k)
{
	bool mine = false;

	for (size_t i = 0; i < k->n; i++) {
		bool runtimes = strncmp(k->names[i], "runtime.", 8) == 0 || strcmp(k->names[i], "_cgo_topofstack") == 0;
		if (mine && runtimes && !strstr(k->names[i], "cgocall"))
			k->n = i;
		else
			mine |= strncmp(k->names[i], "main.", 5) == 0;
	}
	return mine;
}

#define NO_TABLE "[truncated: no unwind table]"
#define NOT_BUILT "[truncated: unwind table not built yet]"
#define NO_COPY "[truncated: stack copy]"

/* A stack may end so until the kernel has the tables of a program that started a moment ago. */
static bool for_now(const char *mark)
{
	return strcmp(mark, NO_TABLE) == 0 || strcmp(mark, NOT_BUILT) == 0 || strcmp(mark, NO_COPY) == 0;
}

struct verdict {
	uint32_t all, whole, bad;
};

/* All samples of a process. */
static void check_samples(const struct profile_window *w, pid_t pid, const struct fixture *f, struct verdict *v)
{
	for (size_t i = 0; i < w->samples.n; i++) {
		const struct window_sample *s = &w->samples.v[i];
		const struct process_info *p = w->processes.v[s->process];
		struct seen_stack k;
		if (!p || p->pid != (uint32_t)pid)
			continue;
		read_stack(w, s, &k);
		if (getting_ready(&k) || (f->go && !without_runtime(&k)))
			continue;
		int m = matches(&k, f->calls, f->start);
		v->all += s->count;
		if (k.mark && for_now(k.mark) && strcmp(f->ends, k.mark) != 0)
			continue; /* the stack is cut for a reason that passes; if the reason stays, the check of `enough` fails */
		v->whole += m == 2 ? s->count : 0;
		bool end_right = strcmp(k.mark ? k.mark : "", f->ends) == 0;
		if ((m && end_right) ||
		    (f->unsupported && k.mark && strcmp(k.mark, "[truncated: unsupported unwind rule]") == 0))
			continue;
		v->bad += s->count;
		print_message("  wrong, %u samples:", s->count);
		print_stack(&k);
		print_frames(w, s);
	}
}

static bool enough(const struct verdict *v, const struct fixture *f)
{
	return v->all >= SAMPLES_MIN && v->whole >= f->whole * v->all;
}

static void run_fixture(const struct fixture *f, const char *variant)
{
	char program[3100];
	struct verdict v = { 0 };

	snprintf(program, sizeof program, "%s/%s.%s", folder, f->name, variant);
	if (access(program, X_OK)) {
		print_message("  %s: not built here\n", program);
		return;
	}
	bool deleted = strcmp(variant, "deleted") == 0;
	if (deleted) { /* a second name of it is */
		size_t n = strlen(program);
		AUTOFREE char *first = xstrndup(program, n);
		snprintf(program + n, sizeof program - n, ".%d", (int)getpid());
		assert_int_equal(link(first, program), 0);
	}
	char args[32], *argv[4] = { program };
	snprintf(args, sizeof args, "%s", f->arg ? f->arg : "");
	char *save, *arg = strtok_r(args, " ", &save);
	for (size_t n = 1; arg && n + 1 < ARRAY_LEN(argv); arg = strtok_r(NULL, " ", &save))
		argv[n++] = arg;
	struct child c = start_child(program, argv);
	if (deleted)
		unlink(program);
	/* Others may keep the CPUs busy, and its first samples may come before the kernel has its tables. */
	for (int i = 0; !had_its_time(c.pid, i) && !v.bad && !enough(&v, f); i++) {
		struct profile_window *w = profile(PROFILE_NS);
		check_samples(w, c.pid, f, &v);
		profile_window_free(w);
	}
	stop_child(&c);
	print_message("  %s.%s %s: %u samples, %u whole, %u wrong\n", f->name, variant, f->arg ? f->arg : "", v.all, v.whole, v.bad);
	assert_true(enough(&v, f) && v.bad == 0);
}

static void test_fixtures(void **state)
{
	const char *only = getenv("PYRRHA_TEST_FIXTURE"); /* on emulated machines each takes long */

	for (size_t i = 0; i < ARRAY_LEN(fixtures); i++) {
		char variants[256];
		if (only && strcmp(only, fixtures[i].name) != 0)
			continue;
		snprintf(variants, sizeof variants, "%s", fixtures[i].variants);
		for (char *save, *v = strtok_r(variants, " ", &save); v; v = strtok_r(NULL, " ", &save))
			run_fixture(&fixtures[i], v);
	}
}

/* From names[from] on, n times this function. */
static bool all_are(const struct seen_stack *k, size_t from, size_t n, const char *name)
{
	for (size_t i = from; i < from + n; i++)
		if (i >= k->n || strcmp(k->names[i], name) != 0)
			return false;
	return true;
}

/* _start, what the C library has there, main, down `frames` times, leaf or not yet; or the innermost 256 of them. */
static bool is_deep(const struct seen_stack *k, size_t frames, bool cut)
{
	if (cut)
		return k->n == 256 && all_are(k, 0, 255, "down") && all_are(k, 255, 1, "leaf") && k->mark &&
		       strcmp(k->mark, "[truncated: too deep]") == 0;
	for (size_t start = 1; start <= C_START && !k->mark; start++)
		if (all_are(k, 0, 1, "_start") && all_are(k, 1 + start, 1, "main") && all_are(k, 2 + start, frames, "down"))
			return k->n == 2 + start + frames || (k->n == 3 + start + frames && all_are(k, k->n - 1, 1, "leaf"));
	return false;
}

static void count_depth(pid_t pid, size_t frames, bool cut, uint32_t *all, uint32_t *right)
{
	struct profile_window *w = profile(PROFILE_NS);

	for (size_t k = 0; k < w->samples.n; k++) {
		const struct window_sample *s = &w->samples.v[k];
		struct seen_stack st;
		if (!s->process || w->processes.v[s->process]->pid != (uint32_t)pid)
			continue;
		read_stack(w, s, &st);
		if (getting_ready(&st))
			continue;
		*all += s->count;
		bool whole = is_deep(&st, frames, cut);
		*right += whole ? s->count : 0;
		if (!whole && (*all - *right) * 10 > *all)
			print_frames(w, s);
	}
	profile_window_free(w);
}

static bool deep_enough(uint32_t all, uint32_t right)
{
	return all >= SAMPLES_MIN && right * 10 >= all * 9;
}

/* 100 calls are all there; of 1,000 the innermost 256 are, and a mark that says so. */
static void test_depth(void **state)
{
	static const struct { const char *depth, *variant; size_t frames; bool cut; } cases[] = {
		{ "100", "nofp", 100, false }, { "200", "fp", 200, false }, { "1000", "nofp", 256, true },
		{ "1000", "fp", 256, true }, { "1000", "static", 256, true },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char program[3100];
		snprintf(program, sizeof program, "%s/recursion.%s", folder, cases[i].variant);
		char *argv[] = { program, (char *)(uintptr_t)cases[i].depth, NULL };
		struct child c = start_child(program, argv);
		uint32_t all = 0, right = 0;
		for (int n = 0; !had_its_time(c.pid, n) && !deep_enough(all, right); n++)
			count_depth(c.pid, cases[i].frames, cases[i].cut, &all, &right);
		stop_child(&c);
		print_message("  depth %s.%s: %u samples, %u whole\n", cases[i].depth, cases[i].variant, all, right);
		assert_true(deep_enough(all, right));
	}
}

struct dlopen_verdict {
	uint32_t all, of_a, of_b, cut, wrong;
};

static void check_dlopen(pid_t pid, struct dlopen_verdict *v)
{
	static const char *const a[] = { "_start", "~", "main", "run", "plugin_a", "leaf", NULL };
	static const char *const b[] = { "_start", "~", "main", "run", "plugin_b", "leaf", NULL };
	static const char *const loader[] = { "_start", "~", "main", "run", "?", NULL };
	struct profile_window *w = profile(1000000000);

	for (size_t k = 0; k < w->samples.n; k++) {
		const struct window_sample *s = &w->samples.v[k];
		struct seen_stack st;
		if (!s->process || w->processes.v[s->process]->pid != (uint32_t)pid)
			continue;
		read_stack(w, s, &st);
		if (getting_ready(&st))
			continue;
		v->all += s->count;
		int in_a = matches(&st, a, 0), in_b = matches(&st, b, 0);
		v->cut += st.mark ? s->count : 0;
		v->of_a += in_a == 2 ? s->count : 0;
		v->of_b += in_b == 2 ? s->count : 0;
		bool in_loader = matches(&st, loader, 0) && strcmp(st.names[st.n - 1], "leaf") != 0;
		if (!st.mark && !in_a && !in_b && !in_loader) {
			v->wrong += s->count;
			print_stack(&st);
			print_frames(w, s);
		}
	}
	profile_window_free(w);
}

/* Libraries that come and go where others were. Until the kernel's tables follow, stacks through the new one are cut
 * short; none may be wrong. */
static void test_dlopen(void **state)
{
	static const char *const variants[] = { "fp", "nofp", "nopie", "stripped" };

	for (size_t i = 0; i < ARRAY_LEN(variants); i++) {
		char program[3100];
		snprintf(program, sizeof program, "%s/dlopen.%s", folder, variants[i]);
		char *argv[] = { program, folder, NULL };
		struct child c = start_child(program, argv);
		struct dlopen_verdict v = { 0 };
		for (int n = 0; !had_its_time(c.pid, n) && !v.wrong && (v.of_a < SAMPLES_MIN || v.of_b < SAMPLES_MIN); n++)
			check_dlopen(c.pid, &v);
		stop_child(&c);
		print_message("  dlopen.%s: %u samples, %u in a, %u in b, %u cut, %u wrong\n", variants[i], v.all,
			      v.of_a, v.of_b, v.cut, v.wrong);
		assert_int_equal(v.wrong, 0);
		assert_true(v.of_a >= SAMPLES_MIN && v.of_b >= SAMPLES_MIN);
	}
}

/* Processes younger than the drain interval are unwound after they are gone. */
static void run_storm(const char *variant)
{
	char comm[32], storm[3100], program[3100];
	static const char *const calls[] = { "_start", "~", "main", "work", "leaf", NULL };

	snprintf(storm, sizeof storm, "%s/execs.nofp", folder);
	snprintf(program, sizeof program, "%s/shortlived.%s", folder, variant);
	snprintf(comm, sizeof comm, "%.15s", program + strlen(folder) + 1);
	char *argv[] = { storm, program, "2000", NULL };
	struct child c = start_child(storm, argv);
	uint32_t all = 0, in_leaf = 0, cut = 0, wrong = 0, processes = 0;
	/* On a busy machine the storm gets few ticks, and its first processes come before the tables: each window is judged by itself. */
	for (int windows = 0; windows < WINDOWS_MIN && !wrong && !(processes > 10 && in_leaf > all / 4 && cut <= all / 20 + 2); windows++) {
		struct profile_window *w = profile(2000000000);
		all = in_leaf = cut = processes = 0;
		for (size_t i = 1; i < w->processes.n; i++)
			processes += strcmp(w->processes.v[i]->comm, comm) == 0;
		for (size_t k = 0; k < w->samples.n; k++) {
			const struct window_sample *s = &w->samples.v[k];
			struct seen_stack st;
			if (!s->process || strcmp(w->processes.v[s->process]->comm, comm) != 0)
				continue;
			read_stack(w, s, &st);
			all += s->count;
			cut += st.mark ? s->count : 0;
			in_leaf += matches(&st, calls, 0) == 2 ? s->count : 0;
			/* Before main there is ld.so, which has names only with libc6-dbg; after it the end, which the kernel sees to. */
			bool right = st.mark || !st.n || !*st.names[0] || same_name(st.names[0], "_start|_dl_start_user");
			for (size_t i = 0; i < st.n && right && !st.mark; i++)
				right = strcmp(st.names[i], "leaf") != 0 || matches(&st, calls, 0) == 2;
			wrong += right ? 0 : s->count;
			if (!right) {
				print_stack(&st);
				print_frames(w, s);
			}
		}
		profile_window_free(w);
	}
	print_message("  %s: %u samples of %u processes, %u in leaf, %u cut, %u wrong\n", comm, all, processes, in_leaf, cut, wrong);
	assert_int_equal(wrong, 0);
	assert_true(processes > 10 && in_leaf > all / 4);
	assert_true(cut <= all / 20 + 2);
	stop_child(&c);
}

static void test_exec_storm(void **state)
{
	static const char *const variants[] = { "nofp", "fp", "static" };

	for (size_t i = 0; i < ARRAY_LEN(variants); i++)
		run_storm(variants[i]);
}

static void test_kernel_versions(void **state)
{
	static const char debian[] = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)";
	static const char old_debian[] = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1 (2023-05-08)";

	if (access("/proc/version_signature", R_OK) == 0)
		return;
	assert_false(agent_kernel_deadlock_prone("6.1.0-56-cloud-amd64", debian));
	assert_true(agent_kernel_deadlock_prone("6.1.0-9-amd64", old_debian));
	assert_true(agent_kernel_deadlock_prone("6.2.5", "#1 SMP"));
	assert_true(agent_kernel_deadlock_prone("5.19.0", "#1 SMP"));
	assert_true(agent_kernel_deadlock_prone("6.3.9-arch", "#1 SMP"));
	assert_false(agent_kernel_deadlock_prone("6.3.10", "#1 SMP"));
	assert_false(agent_kernel_deadlock_prone("5.10.0-46-cloud-amd64", "#1 SMP Debian 5.10.262-1 (2026-01-01)"));
	assert_false(agent_kernel_deadlock_prone("6.18.44-fc-v669", "#1"));
}

/* Whether, over five seconds, what its samples add up to is the time it ran. */
static bool adds_up(pid_t pid)
{
	int64_t sum = 0, before = cpu_time(pid);
	uint32_t n = 0;
	struct profile_window *w = profile(5000000000);
	int64_t ran = cpu_time(pid) - before;

	for (size_t i = 0; i < w->samples.n; i++) {
		const struct window_sample *s = &w->samples.v[i];
		if (!s->process || w->processes.v[s->process]->pid != (uint32_t)pid)
			continue;
		sum += s->value_ns;
		n += s->count;
	}
	profile_window_free(w);
	print_message("  %.3f s by samples, %.3f s by /proc, %u samples\n", (double)sum / 1e9, (double)ran / 1e9, n);
	/* 3 %, the scatter of the number of samples, and what it ran between the readings and the window's ends. */
	double allowed = 0.03 + 2 / sqrt((double)n + 1) + 0.1e9 / (double)(ran + 1);
	return fabs((double)(sum - ran)) < allowed * (double)ran;
}

/* A virtual machine that others held up loses ticks, now and then too many: then look again. A systematic error stays. */
static void test_adds_up(void **state)
{
	char program[3100];
	bool right = false;

	snprintf(program, sizeof program, "%s/recursion.nofp", folder);
	char *argv[] = { program, "3", NULL };
	struct child c = start_child(program, argv);
	for (int i = 0; i < 5 && !right; i++)
		right = adds_up(c.pid);
	stop_child(&c);
	assert_true(right);
}

/* As on a host that has been busy for long: each word of the rule cache is another address's, of an image that there is not,
 * with a rule that leads nowhere. */
static void fill_rule_cache(void)
{
	AUTOFREE uint64_t *words = xcalloc(RULE_CACHE, sizeof *words);
	uint32_t zero = 0;

	for (size_t i = 0; i < RULE_CACHE; i++)
		words[i] = (uint64_t)(IMAGES_MAX - 1) << 50 | (uint64_t)i << SHORT_BITS | SHORT_IS_RULE | (i & 0xff);
	assert_int_equal(bpf_map_update_elem(sampler_map_fd(&agent->sampler, ".data.cache"), &zero, words, BPF_ANY), 0);
}

/* The names that the kernel gives to processes of what lies in the folder. */
static struct filter_list fixture_names(void)
{
	struct filter_list out = { name_list, 0 };
	DIR *d = opendir(folder);
	const struct dirent *f;

	while (d && (f = readdir(d)) && out.n < NAMES_MAX) {
		size_t i = 0;
		snprintf(names[out.n], sizeof names[0], "%.15s", f->d_name);
		while (i < out.n && strcmp(names[i], names[out.n]) != 0)
			i++;
		if (i == out.n && f->d_name[0] != '.')
			name_list[out.n] = names[out.n], out.n++;
	}
	if (d)
		closedir(d);
	return out;
}

static int start_agent_with(uint64_t unwind_bytes)
{
	struct agent_options o;
	struct err e = { 0 };

	agent_options_init(&o);
	o.hz = HZ;
	o.max_cost = 1;
	o.names_patience_ms = 60000;
	o.unwind_bytes = unwind_bytes;
	const char *build = getenv("top_builddir");
	snprintf(folder, sizeof folder, "%s/tests/fixtures/agent", build ? build : ".");
	o.filters.comms = fixture_names();
	if (agent_start(&agent, &o, &e)) {
		if (e.code == ERR_DENIED && !getenv("PYRRHA_NEED_BPF")) {
			print_message("skipped: %s\n", e.msg);
			exit(77);
		}
		fail_msg("%s", e.msg);
	}
	fill_rule_cache();
	return 0;
}

static int start_agent(void **state)
{
	return start_agent_with(0);
}

/* An agent that has no memory for rows: it says so of all stacks of programs that have an unwind table. The agent of the other tests ends. */
static void test_tables_full(void **state)
{
	char program[3100];
	uint32_t all = 0, full = 0;

	agent_stop(agent);
	start_agent_with(1);
	snprintf(program, sizeof program, "%s/recursion.nofp", folder);
	char *argv[] = { program, "3", NULL };
	struct child c = start_child(program, argv);
	for (int n = 0; !had_its_time(c.pid, n) && (full < SAMPLES_MIN || full * 10 < all * 9); n++) {
		struct profile_window *w = profile(PROFILE_NS);
		for (size_t i = 0; i < w->samples.n; i++) {
			const struct window_sample *s = &w->samples.v[i];
			struct seen_stack k;
			if (!s->process || w->processes.v[s->process]->pid != (uint32_t)c.pid)
				continue;
			read_stack(w, s, &k);
			all += s->count;
			full += k.mark && strcmp(k.mark, "[truncated: unwind tables are full]") == 0 ? s->count : 0;
		}
		profile_window_free(w);
	}
	stop_child(&c);
	print_message("  %u samples, %u without room for a table\n", all, full);
	assert_true(full >= SAMPLES_MIN && full * 10 >= all * 9);
	mutex_lock(&agent->lock);
	assert_true(agent->ends[END_TABLES_FULL] >= full && agent->ends[END_NO_TABLE] == 0);
	mutex_unlock(&agent->lock);
}

static int stop_agent(void **state)
{
	agent_stop(agent);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_versions),
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_dlopen),
		cmocka_unit_test(test_exec_storm),
		cmocka_unit_test(test_adds_up),
		cmocka_unit_test(test_tables_full), /* the last one: it starts another agent */
	};
	cmocka_set_test_filter(getenv("PYRRHA_TEST")); /* one of them, by name */
	return cmocka_run_group_tests(tests, start_agent, stop_agent);
}
