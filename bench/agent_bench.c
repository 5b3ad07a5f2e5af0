/* SPDX-License-Identifier: Apache-2.0 */
/* What a sample costs: nanoseconds per run of the sampling program (the kernel's own count, bpf_stats_enabled) and per
 * frame, with kernel stack and output, at 19 Hz, where caches are cold, and at 997 Hz; and the share of the host's CPUs
 * that agent and program take. A fixture of known depth keeps one CPU busy; whatever else runs is sampled, too. Median
 * of five runs: a quiet machine is needed for numbers to compare.
 *
 *	agent_bench [FIXTURES-FOLDER [SECONDS-PER-RUN]] */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_private.h"
#include "base/clock.h"

enum { RUNS = 5 };

extern char **environ;

struct reading {
	uint64_t run_ns, runs, stats[STATS_MAX];
	int64_t own_ns, at_ns;
};

struct result {
	double ns_per_sample, frames, ns_per_frame, share;
};

static void read_all(const struct agent *a, struct reading *r)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof info;
	struct timespec ts;

	if (bpf_obj_get_info_by_fd(a->sampler.sample_fd, &info, &len) || !sampler_stats(&a->sampler, r->stats)) {
		fputs("agent_bench: the program's statistics cannot be read\n", stderr);
		exit(1);
	}
	r->run_ns = info.run_time_ns;
	r->runs = info.run_cnt;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	r->own_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	r->at_ns = clock_mono_ns();
}

static struct result run(const struct agent *a, int64_t seconds)
{
	struct reading x, y;

	read_all(a, &x);
	clock_sleep_ms(seconds * 1000);
	read_all(a, &y);
	double ns = (double)(y.run_ns - x.run_ns), runs = (double)(y.runs - x.runs);
	double frames = (double)(y.stats[STAT_FRAMES] - x.stats[STAT_FRAMES]);
	double elapsed = (double)(y.at_ns - x.at_ns) * (double)perf_events_cpus(a->events);
	return (struct result){ ns / runs, frames / runs, ns / frames, (ns + (double)(y.own_ns - x.own_ns)) / elapsed };
}

static int by_ns(const void *a, const void *b)
{
	const struct result *x = a, *y = b;
	return (x->ns_per_sample > y->ns_per_sample) - (x->ns_per_sample < y->ns_per_sample);
}

static int bench(double hz, int64_t seconds)
{
	struct agent_options o;
	struct agent *a;
	struct err e = { 0 };
	struct result r[RUNS];

	agent_options_init(&o);
	o.hz = hz;
	o.max_cost = 1;
	if (agent_start(&a, &o, &e)) {
		fprintf(stderr, "agent_bench: %s\n", e.msg);
		return e.code == ERR_DENIED ? 77 : 1;
	}
	clock_sleep_ms(3000);        /* tables are loaded */
	for (int i = 0; i < RUNS; i++)
		r[i] = run(a, seconds);
	qsort(r, RUNS, sizeof r[0], by_ns);
	const struct result *m = &r[RUNS / 2];
	printf("%4.0f Hz: %6.0f ns per sample, %5.1f frames, %5.0f ns per frame, %.3f %% of the host\n", hz, m->ns_per_sample,
	       m->frames, m->ns_per_frame, 100 * m->share);
	agent_stop(a);
	return 0;
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : "tests/fixtures/agent";
	int64_t seconds = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
	char program[4096], depth[] = "20";
	pid_t pid;

	snprintf(program, sizeof program, "%s/recursion.nofp", folder);
	char *args[] = { program, depth, NULL };
	if (posix_spawn(&pid, program, NULL, NULL, args, environ)) {
		fprintf(stderr, "agent_bench: %s is not built (make check builds it)\n", program);
		return 77;
	}
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME), r = 0;
	if (stats < 0) {
		fputs("agent_bench: needs CAP_SYS_ADMIN for the kernel's statistics\n", stderr);
		r = 77;
	}
	if (!r)
		r = bench(19, seconds);
	if (!r)
		r = bench(997, seconds);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r;
}
