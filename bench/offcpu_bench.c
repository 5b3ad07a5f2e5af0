/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of watching waits: nanoseconds per switch of threads, by the kernel's own count (bpf_stats_enabled), without and
 * with a stack of each thread that leaves. Meanwhile two processes hand a byte to and fro; how much slower they become is
 * printed, too. Medians of five runs: a quiet machine is needed for numbers to compare.
 *
 *	bench_offcpu [SECONDS-PER-RUN] */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/agent_private.h"
#include "base/clock.h"

enum { RUNS = 5 };

static int64_t seconds = 2;
static uint64_t *turns;              /* round trips, shared with the processes below */

static void hand_over(int from, int to, bool counts)
{
	char c = 0;

	while (read(from, &c, 1) == 1 && write(to, &c, 1) == 1)
		if (counts)
			__atomic_fetch_add(turns, 1, __ATOMIC_RELAXED);
	_exit(0);
}

/* Two processes that wake each other, in a group of their own. */
static pid_t start_pair(void)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back)) {
		perror("bench_offcpu: pipe");
		exit(1);
	}
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		if (fork() == 0)
			hand_over(there[0], back[1], false);
		if (write(there[1], "x", 1) == 1)
			hand_over(back[0], there[1], true);
		_exit(1);
	}
	setpgid(pid, pid);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
	return pid;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static double median(double v[RUNS])
{
	qsort(v, RUNS, sizeof *v, compare);
	return v[RUNS / 2];
}

struct reading {
	uint64_t ns, runs, turns, stats[STATS_MAX];
};

/* a NULL: nothing is watched. */
static void read_all(const struct agent *a, struct reading *r)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof info;

	*r = (struct reading){ .turns = __atomic_load_n(turns, __ATOMIC_RELAXED) };
	if (!a)
		return;
	int fd = bpf_program__fd(bpf_object__find_program_by_name(a->sampler.object, "off_cpu"));
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || !sampler_stats(&a->sampler, r->stats)) {
		fputs("bench_offcpu: the program's statistics cannot be read\n", stderr);
		exit(1);
	}
	r->ns = info.run_time_ns;
	r->runs = info.run_cnt;
}

/* Prints a row; returns nanoseconds per switch. */
static double measure(const char *what, const struct agent *a)
{
	double ns[RUNS], rate[RUNS], stacks[RUNS];
	struct reading x, y;

	for (int i = 0; i < RUNS; i++) {
		read_all(a, &x);
		clock_sleep_ms(seconds * 1000);
		read_all(a, &y);
		ns[i] = y.runs > x.runs ? (double)(y.ns - x.ns) / (double)(y.runs - x.runs) : 0;
		stacks[i] = (double)(y.stats[STAT_OFF_STACKS] - x.stats[STAT_OFF_STACKS]) / (double)(y.runs - x.runs + 1);
		rate[i] = (double)(y.turns - x.turns) / (double)seconds;
	}
	double per_switch = median(ns);
	printf("%-44s %10.0f %12.2f %14.0f\n", what, per_switch, median(stacks), median(rate));
	fflush(stdout);
	return per_switch;
}

/* max_cost 0: no budget for stacks. */
static struct agent *start_agent(double max_cost)
{
	struct agent_options o;
	struct agent *a;
	struct err e = { 0 };

	agent_options_init(&o);
	o.off_cpu = true;
	o.max_cost = max_cost;
	if (agent_start(&a, &o, &e)) {
		fprintf(stderr, "bench_offcpu: %s\n", e.msg);
		exit(e.code == ERR_DENIED ? 77 : 1);
	}
	clock_sleep_ms(1000);        /* tables are loaded */
	return a;
}

int main(int argc, char **argv)
{
	seconds = argc > 1 ? strtol(argv[1], NULL, 10) : seconds;
	turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (turns == MAP_FAILED || bpf_enable_stats(BPF_STATS_RUN_TIME) < 0) {
		fputs("bench_offcpu: needs CAP_SYS_ADMIN for the kernel's statistics\n", stderr);
		return 77;
	}
	pid_t pair = start_pair();
	printf("%-44s %10s %12s %14s\n", "", "ns/switch", "stacks/switch", "round trips/s");
	measure("not watched", NULL);
	struct agent *a = start_agent(0);
	measure("watched, no stacks", a);
	agent_stop(a);
	a = start_agent(0.01);
	measure("watched, --max-cost 0.01", a);
	agent_stop(a);
	a = start_agent(1);
	measure("watched, a stack at each thread that leaves", a);
	printf("kernel's maps: %.1f MB\n", (double)agent_kernel_bytes(a) / 1e6);
	agent_stop(a);
	kill(-pair, SIGKILL);
	waitpid(pair, NULL, 0);
	return 0;
}
