/* SPDX-License-Identifier: Apache-2.0 */
/* What sampling costs, as one table with the bars beside: nanoseconds per run of the sampling program (the kernel's own
 * count, bpf_stats_enabled) and per frame, with kernel stack and output, at 19 Hz, where caches are cold, and at 997 Hz;
 * the share of the host's CPUs that agent, helpers and program take; memory; bytes on the wire; how soon there is a first
 * profile. A fixture of known depth or a compiler keeps the CPUs busy; whatever else runs is sampled, too. Medians of
 * five runs: a quiet machine is needed for numbers to compare. The parts runtimes, versions and held: agent_walks.c.
 *
 *	bench_agent [FIXTURES-FOLDER [SECONDS-PER-RUN [PART...]]]
 *
 * The parts are fixture19, compiler19, make, execs, wire, sizes, fixture997, compiler997, runtimes, versions and held; none
 * named: all. */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/serve/pprof_out.h"
#include "base/buf.h"
#include "base/clock.h"
#include "bench/agent_bench.h"
#include "pprof/pprof.h"

enum { RUNS = 5 };

extern char **environ;
const char *bench_folder = "tests/fixtures/agent";
int64_t bench_seconds = 5;

/* --- what keeps the CPUs busy --- */

pid_t bench_start(const char *command)
{
	char *args[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)command, NULL };
	posix_spawnattr_t attr;
	pid_t pid;

	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	if (posix_spawn(&pid, "/bin/sh", NULL, &attr, args, environ)) {
		perror("agent_bench: sh");
		exit(1);
	}
	posix_spawnattr_destroy(&attr);
	return pid;
}

void bench_stop(pid_t pid)
{
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A source that takes a compiler a second or so. */
static void write_source(const char *path)
{
	FILE *f = fopen(path, "we");
	if (!f) {
		perror("agent_bench: a source in /tmp");
		exit(1);
	}
	fputs("#include <stdio.h>\n#include <string.h>\n", f);
	for (int i = 0; i < 400; i++)
		fprintf(f, "int f%d(int n, char *s) { int t = %d; for (int k = 0; k < n; k++) { t += s[k] * k; if (t %% 7 == %d) "
			   "t ^= (int)strlen(s); } return printf(\"%%d %%s\", t, s); }\n", i, i, i % 7);
	fclose(f);
}

/* --- readings --- */

struct reading {
	uint64_t run_ns, runs, frames, starts, lost;
	int64_t own_ns, at_ns;
};

struct result {
	double ns_per_sample, frames, ns_per_frame, share, starts_per_s, lost;
};

static int64_t of_timeval(struct timeval t)
{
	return t.tv_sec * 1000000000ll + t.tv_usec * 1000ll;
}

/* Threads and processes that the host has started since it booted. */
static uint64_t starts(void)
{
	char line[8192];
	uint64_t n = 0;
	FILE *f = fopen("/proc/stat", "re");

	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "processes ", 10) == 0)
			n = strtoull(line + 10, NULL, 10);
	if (f)
		fclose(f);
	return n;
}

static void read_all(const struct agent *a, struct reading *r)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof info;
	struct rusage own, helpers;

	if (bpf_obj_get_info_by_fd(a->sampler.sample_fd, &info, &len)) {
		fputs("agent_bench: the program's statistics cannot be read\n", stderr);
		exit(1);
	}
	r->run_ns = info.run_time_ns;
	r->runs = info.run_cnt;
	r->frames = a->sampled_frames;
	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &helpers);
	r->own_ns = of_timeval(own.ru_utime) + of_timeval(own.ru_stime) + of_timeval(helpers.ru_utime) + of_timeval(helpers.ru_stime);
	r->starts = starts();
	r->lost = a->lost_records;
	r->at_ns = clock_mono_ns();
}

static struct result run(const struct agent *a)
{
	struct reading x, y;

	read_all(a, &x);
	clock_sleep_ms(bench_seconds * 1000);
	read_all(a, &y);
	double ns = (double)(y.run_ns - x.run_ns), runs = (double)(y.runs - x.runs);
	double frames = (double)(y.frames - x.frames);
	double elapsed = (double)(y.at_ns - x.at_ns) * (double)perf_events_cpus(a->events);
	return (struct result){ ns / runs, frames / runs, ns / frames, (ns + (double)(y.own_ns - x.own_ns)) / elapsed,
				(double)(y.starts - x.starts) * 1e9 / (double)(y.at_ns - x.at_ns), (double)(y.lost - x.lost) };
}

static int by_ns(const void *a, const void *b)
{
	const struct result *x = a, *y = b;
	return (x->ns_per_sample > y->ns_per_sample) - (x->ns_per_sample < y->ns_per_sample);
}

static int by_share(const void *a, const void *b)
{
	const struct result *x = a, *y = b;
	return (x->share > y->share) - (x->share < y->share);
}

/* Medians, each of its own; what was lost in all. */
static struct result runs(const struct agent *a)
{
	struct result r[RUNS];

	for (int i = 0; i < RUNS; i++)
		r[i] = run(a);
	double lost = 0;
	for (int i = 0; i < RUNS; i++)
		lost += r[i].lost;
	qsort(r, RUNS, sizeof r[0], by_share);
	struct result of_share = r[RUNS / 2];
	qsort(r, RUNS, sizeof r[0], by_ns);
	r[RUNS / 2].share = of_share.share;
	r[RUNS / 2].starts_per_s = of_share.starts_per_s;
	r[RUNS / 2].lost = lost;
	return r[RUNS / 2];
}

/* --- what memory costs --- */

enum { LINES = 64, LINE_ROUNDS = 40, APART_NS = 52000000 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double bench_median(double *v, size_t n)
{
	qsort(v, n, sizeof v[0], by_value);
	return v[n / 2];
}

/* Nanoseconds to read a cache line that was not touched for as long as a sample's are at 19 Hz. Each line is in a page of its own
 * and found through the one before. What other guests of the machine leave in the caches shows here as in a sample. Median. */
static double cold_line_ns(void)
{
	static void *room[LINES][4096 / sizeof(void *)] __attribute__((aligned(4096)));
	double ns[LINE_ROUNDS];

	for (unsigned i = 0; i < LINES; i++) { /* 37 and 64 have no common factor: each page once, out of order */
		unsigned from = i * 37 % LINES, to = (i + 1) * 37 % LINES;
		room[from][from * 13 % 64 * 8] = &room[to][to * 13 % 64 * 8];
	}
	for (int k = 0; k < LINE_ROUNDS; k++) {
		nanosleep(&(struct timespec){ .tv_nsec = APART_NS }, NULL);
		clock_mono_ns();
		int64_t begun = clock_mono_ns();
		void **at = &room[0][0];
		for (int i = 0; i < LINES; i++)
			at = *(void **volatile *)at;
		ns[k] = (double)(clock_mono_ns() - begun) / LINES;
	}
	return bench_median(ns, LINE_ROUNDS);
}

/* --- the table --- */

void bench_row(const char *what, double value, const char *unit, double bar, const char *note)
{
	char limit[32] = "";

	if (bar > 0)
		snprintf(limit, sizeof limit, "<= %g", bar);
	printf("%-52s %10.4g %-8s %-10s %s%s\n", what, value, unit, limit, bar > 0 && value > bar ? "OVER " : "", note);
	fflush(stdout);
}

static void sampling_rows(const char *load, double hz, const struct result *r, double sample_bar, double frame_bar)
{
	char what[96], note[64];

	snprintf(what, sizeof what, "%s at %.0f Hz: a sample", load, hz);
	snprintf(note, sizeof note, "of %.1f frames", r->frames);
	bench_row(what, r->ns_per_sample / 1000, "us", sample_bar, note);
	snprintf(what, sizeof what, "%s at %.0f Hz: a frame", load, hz);
	bench_row(what, r->ns_per_frame, "ns", frame_bar, "");
}

static struct agent *start_agent(double hz)
{
	const char *runtimes = getenv("PYRRHA_BENCH_RUNTIMES");
	struct agent_options o;
	struct agent *a;
	struct err e = { 0 };

	agent_options_init(&o);
	o.hz = hz;
	o.max_cost = 1;
	if ((runtimes && agent_parse_runtimes(runtimes, &o.runtimes, &e)) || agent_start(&a, &o, &e)) {
		fprintf(stderr, "agent_bench: %s\n", e.msg);
		exit(e.code == ERR_DENIED ? 77 : 1);
	}
	return a;
}

static double rss_mb(void)
{
	char line[256];
	double kb = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kb = strtod(line + 6, NULL);
	if (f)
		fclose(f);
	return kb / 1024;
}

/* A profile of so many seconds as it goes over the wire. */
static size_t pull(struct agent *a, int64_t duration_ns)
{
	struct profile_window *w = NULL;
	struct pprof_out_options o = { 0 };
	struct buf out = { 0 };
	struct profile p;
	struct err e = { 0 };

	if (agent_profile(a, WINDOW_ON_CPU, duration_ns, NULL, &w, &e)) {
		fprintf(stderr, "agent_bench: %s\n", e.msg);
		exit(1);
	}
	profile_init(&p, (size_t)1 << 30);
	if (pprof_out(&p, w, agent_symbolizer(a), &o, &e) || pprof_encode_gz(&p, &out, &e)) {
		fprintf(stderr, "agent_bench: %s\n", e.msg);
		exit(1);
	}
	profile_release(&p);
	profile_window_free(w);
	size_t n = out.len;
	buf_free(&out);
	return n;
}

/* --- the parts --- */

static char source[] = "/tmp/agent_bench_XXXXXX.c";

/* Both rows of a load at a frequency; the agent stays as it is, the load is stopped. */
static struct result sampling(const struct agent *a, const char *name, double hz, pid_t load, double sample_bar, double frame_bar)
{
	clock_sleep_ms(3000);        /* tables are loaded */
	struct result r = runs(a);
	bench_stop(load);
	sampling_rows(name, hz, &r, sample_bar, frame_bar);
	return r;
}

static pid_t start_fixture(void)
{
	char command[5000];
	snprintf(command, sizeof command, "exec %s/recursion.nofp 20 >/dev/null", bench_folder);
	return bench_start(command);
}

static pid_t start_compiler(void)
{
	char command[256];
	snprintf(command, sizeof command, "while :; do clang -O2 -c -o /dev/null %s; done", source);
	return bench_start(command);
}

static void fixture_19(struct agent *a)
{
	double before = cold_line_ns();
	struct result r = sampling(a, "fixture", 19, start_fixture(), 5, 0);
	bench_row("a line of memory left alone for 52 ms", (before + cold_line_ns()) / 2, "ns", 0, "mean of before and after");
	bench_row("CPU, steady", 100 * r.share, "% host", 0.3, "one busy process");
}

static void compiler_19(struct agent *a)
{
	sampling(a, "live compiler", 19, start_compiler(), 0, 850);
}

static void make(struct agent *a)
{
	char command[256];
	snprintf(command, sizeof command, "for i in 1 2; do while :; do cc -O2 -c -o /dev/null %s; done & done; wait", source);
	pid_t load = bench_start(command);
	struct result r = runs(a);
	bench_stop(load);
	bench_row("CPU, compiling two at a time", 100 * r.share, "% host", 1, "");
}

static void execs(struct agent *a)
{
	char command[9500];
	snprintf(command, sizeof command, "exec %s/execs.nofp %s/tiny.nofp 1 1000 >/dev/null", bench_folder, bench_folder);
	pid_t load = bench_start(command);
	struct result r = runs(a);
	bench_stop(load);
	bench_row("processes that live for less than a drain", r.starts_per_s, "/s", 0, "1,000 were asked for");
	bench_row("records of processes lost", r.lost, "", 0, r.lost > 0 ? "OVER, none may be" : "none may be");
	bench_row("CPU, starting so many", 100 * r.share, "% host", 1, "");
}

static void sizes(struct agent *a)
{
	bench_row("memory, after all that", rss_mb(), "MB", 40, "");
	bench_row("the kernel's maps", (double)agent_kernel_bytes(a) / 1e6, "MB", 20, "");
}

static void wire(struct agent *a)
{
	pid_t load = start_fixture();
	size_t n = pull(a, 10000000000);
	bench_stop(load);
	bench_row("bytes on the wire, per node and day", (double)n * 8640 / 1e6, "MB", 0, "one busy process, pulled every 10 s");
}

static void fixture_997(struct agent *a)
{
	sampling(a, "fixture", 997, start_fixture(), 0, 300);
}

static void compiler_997(struct agent *a)
{
	sampling(a, "live compiler", 997, start_compiler(), 0, 300);
}

/* Of parts whose loads have events of their own. */
#define HARDLY_EVER 0.005

/* Those of one frequency stand together: they share an agent. 0: none is started. */
static const struct choice_part {
	const char *name;
	double hz;
	void (*run)(struct agent *a);
} parts[] = {
	{ "fixture19", 19, fixture_19 },
	{ "compiler19", 19, compiler_19 },
	{ "make", 19, make },
	{ "execs", 19, execs },
	{ "wire", 19, wire },
	{ "sizes", 19, sizes },
	{ "fixture997", 997, fixture_997 },
	{ "compiler997", 997, compiler_997 },
	{ "runtimes", HARDLY_EVER, walks_runtimes },
	{ "versions", 0, walks_versions },
	{ "held", 0, walks_held },
};

static bool wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

static struct agent *first_agent(double hz)
{
	int64_t before = clock_mono_ns();
	struct agent *a = start_agent(hz);
	pull(a, 1000000000);
	bench_row("first profile (of a second) after the start", (double)(clock_mono_ns() - before) / 1e9, "s", 15, "");
	return a;
}

static int need(bool ok, const char *what)
{
	if (!ok)
		fprintf(stderr, "agent_bench: %s\n", what);
	return ok ? 0 : 77;
}

int main(int argc, char **argv)
{
	char program[4200], **names = argv + MIN(argc, 3);
	struct agent *a = NULL;
	bool begun = false;
	double hz = 0;
	int fd = -1;

	bench_folder = argc > 1 ? argv[1] : bench_folder;
	bench_seconds = argc > 2 ? strtol(argv[2], NULL, 10) : bench_seconds;
	snprintf(program, sizeof program, "%s/recursion.nofp", bench_folder);
	if (need(access(program, X_OK) == 0, "the fixtures are not built (make check builds them)") ||
	    need(bpf_enable_stats(BPF_STATS_RUN_TIME) >= 0, "needs CAP_SYS_ADMIN for the kernel's statistics") ||
	    need((fd = mkstemps(source, 2)) >= 0, "cannot write to /tmp"))
		return 77;
	close(fd);
	write_source(source);
	printf("%-52s %10s %-8s %s\n", "", "measured", "", "bar");
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (!wanted(parts[i].name, names))
			continue;
		if (hz != parts[i].hz) {
			agent_stop(a);
			hz = parts[i].hz;
			a = !hz ? NULL : begun ? start_agent(hz) : first_agent(hz);
			begun = true;
		}
		parts[i].run(a);
	}
	agent_stop(a);
	unlink(source);
	return 0;
}
