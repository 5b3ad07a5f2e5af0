/* SPDX-License-Identifier: Apache-2.0 */
/* What frames of language runtimes cost, over native ones; whether native ones cost what they did in another version; what a process of
 * each runtime makes the agent hold. See agent_bench.c.
 *
 * Here the loads' own threads have the events that run the sampling program, 19 times in each second of their CPU time. So whatever else
 * the host runs is not in the kernel's count, and loads take turns: each stands still while another one is sampled. The agent's own events
 * tick once in minutes, and give it the records of processes alone.
 *
 *	PYRRHA_BENCH_PYTHON, _NODE, _JAVA   the programs, if not those of PATH
 *	PYRRHA_BENCH_HZ                     instead of 19, to see what warm caches save
 *	PYRRHA_BENCH_FRAMES                 of the runtime, 10 or more, instead of 30
 *	PYRRHA_BENCH_RUNTIMES               as the agent's --runtimes: "none" says what the same stacks cost without
 *	PYRRHA_BENCH_BEFORE                 pyrrha-agent of the version before
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/agent_bench.h"

enum { WINDOWS = 8, EVENTS_MAX = 256, PYTHONS = 20, RUNS_LEAST = 10, PATIENCE = 20 };

#define HARDLY_EVER_NS 1000000000000ull

/* --- what is sampled --- */

/* Each has a stack of 30 frames of its runtime for nearly all of its time. Functions are too large to be inlined. */
static const char python_source[] = "import ctypes, signal\n"
				    "ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"
				    "def leaf():\n"
				    "    total = 0\n"
				    "    for i in range(300000):\n"
				    "        total += i * i & 255\n"
				    "    return total\n"
				    "def down(n):\n"
				    "    return (down(n - 1) if n > 1 else leaf()) + n\n"
				    "while True:\n"
				    "    down(%ld)\n";

/* Of Java a thread's run() is the first. */
static const char java_source[] =
	"public class Deep extends Thread {\n"
	"	static volatile long sink;\n"
	"	static long leaf() { long s = 0; for (int i = 0; i < 20000000; i++) s += (long) i * i ^ s; return s; }\n"
	"	static long down(int n) { return (n > 1 ? down(n - 1) : leaf()) + n; }\n"
	"	public void run() { for (;;) sink += down(%ld); }\n"
	"	public static void main(String[] a) { new Deep().start(); }\n"
	"}\n";

/* A number of the environment; `otherwise` if none above 0 is there. */
static long asked(const char *variable, long otherwise)
{
	const char *text = getenv(variable);
	long n = text ? strtol(text, NULL, 10) : 0;

	return n > 0 ? n : otherwise;
}

static char files[] = "/tmp/agent_bench_XXXXXX";

static FILE *create(const char *name)
{
	char path[64];

	snprintf(path, sizeof path, "%s/%s", files, name);
	FILE *f = fopen(path, "we");
	if (!f) {
		perror(path);
		exit(1);
	}
	return f;
}

/* As in a server the work is done in calls from the event loop, one frame of JavaScript above it, and not while the module is loaded: that would be eight
 * functions below which run once, and their memory is read for the samples alone. */
static void write_node(FILE *f, long frames)
{
	fputs("function leaf() { let s = 0; for (let i = 0; i < 20000000; i++) s = (s + i * i) & 0xffffff; return s; }\n"
	      "function down(n) {\n\tlet s = 0;\n\tif (n > 1e9) {\n", f);
	for (int i = 0; i < 100; i++)
		fprintf(f, "\t\ts += Math.sqrt(n + %d) * s;\n", i);
	fprintf(f, "\t}\n\treturn (n > 1 ? down(n - 1) : leaf()) + n + s;\n}\n"
		   "function turn() { for (let i = 0; i < 50; i++) down(%ld); setImmediate(turn); }\nsetImmediate(turn);\n", frames - 3);
}

static void remove_files(void)
{
	char command[64];

	snprintf(command, sizeof command, "rm -r %s", files);
	if (system(command))
		fprintf(stderr, "agent_bench: %s is left\n", files);
}

static void write_files(void)
{
	long frames = asked("PYRRHA_BENCH_FRAMES", 30);
	static bool written;
	FILE *f;

	if (written)
		return;
	written = true;
	if (!mkdtemp(files)) {
		perror(files);
		exit(1);
	}
	atexit(remove_files);
	f = create("deep.py");
	fprintf(f, python_source, frames - 2);
	fclose(f);
	f = create("Deep.java");
	fprintf(f, java_source, frames - 2);
	fclose(f);
	f = create("deep.js");
	write_node(f, frames);
	fclose(f);
}

struct load {
	const char *name, *variable, *program, *args; /* args: behind the program; %s: the folder of the sources */
	double bar;          /* us over the native fixture's sample; 0 = none */
	pid_t pid;           /* 0 = not there */
	double us[WINDOWS], frames[WINDOWS];
};

/* False: its program is not there. */
static bool load_start(struct load *l)
{
	const char *program = l->variable ? getenv(l->variable) : NULL;
	char args[5000], command[10000];

	program = program && *program ? program : l->program;
	snprintf(args, sizeof args, l->args, l->variable ? files : bench_folder);
	if (l->variable) {
		snprintf(command, sizeof command, "command -v '%s' >/dev/null", program);
		if (system(command)) {
			fprintf(stderr, "agent_bench: %s is left out: there is no %s\n", l->name, program);
			return false;
		}
	}
	snprintf(command, sizeof command, "exec %s%s >/dev/null", program, args);
	l->pid = bench_start(command);
	return true;
}

/* --- the program, run by events of a process's threads --- */

struct events {
	int fd[EVENTS_MAX];
	size_t n;
};

/* Of an event. */
static uint64_t period_ns(void)
{
	return 1000000000ull / (uint64_t)asked("PYRRHA_BENCH_HZ", 19);
}

static void events_open_thread(struct events *ev, pid_t tid, int prog_fd)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .size = sizeof a, .sample_period = period_ns(), .disabled = 1 };
	int fd = ev->n < EVENTS_MAX ? (int)syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC) : -1;

	if (fd < 0)
		return; /* the thread has ended */
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog_fd)) {
		perror("agent_bench: attach the sampling program");
		exit(1);
	}
	ev->fd[ev->n++] = fd;
}

static void events_open(struct events *ev, pid_t pid, int prog_fd)
{
	char path[64];
	DIR *d;

	ev->n = 0;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			events_open_thread(ev, (pid_t)strtol(e->d_name, NULL, 10), prog_fd);
	if (d)
		closedir(d);
	if (!ev->n) {
		fprintf(stderr, "agent_bench: process %d has ended, or its threads cannot be sampled\n", pid);
		exit(1);
	}
	for (size_t i = 0; i < ev->n; i++)
		ioctl(ev->fd[i], PERF_EVENT_IOC_ENABLE, 0);
}

static void events_close(struct events *ev)
{
	for (size_t i = 0; i < ev->n; i++)
		close(ev->fd[i]);
	ev->n = 0;
}

static void read_program(int prog_fd, uint64_t *ns, uint64_t *runs)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof info;

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &len)) {
		perror("agent_bench: the program's statistics");
		exit(1);
	}
	*ns = info.run_time_ns;
	*runs = info.run_cnt;
}

/* What the program took: in sum, and how often it ran. */
struct program_runs {
	uint64_t ns, runs;
};

static double us_each(const struct program_runs *t)
{
	return (double)t->ns / 1000 / (double)t->runs;
}

/* Adds what the program takes while the process, and it alone of the loads, is sampled. A process that the host leaves no time gets more. */
static void sample_for(pid_t pid, int prog_fd, int64_t ms, uint64_t least, struct program_runs *t)
{
	struct events ev;
	uint64_t ns[2], runs[2];

	kill(-pid, SIGCONT);
	clock_sleep_ms(100);
	read_program(prog_fd, &ns[0], &runs[0]);
	events_open(&ev, pid, prog_fd);
	for (int i = 0; i < PATIENCE; i++) {
		clock_sleep_ms(ms);
		read_program(prog_fd, &ns[1], &runs[1]);
		if (runs[1] - runs[0] >= least)
			break;
	}
	events_close(&ev);
	read_program(prog_fd, &ns[1], &runs[1]);
	kill(-pid, SIGSTOP);
	if (runs[1] == runs[0]) {
		fprintf(stderr, "agent_bench: process %d was not sampled in %lld s: the host is too busy\n", pid, (long long)ms * PATIENCE / 1000);
		exit(1);
	}
	t->ns += ns[1] - ns[0];
	t->runs += runs[1] - runs[0];
}

/* us of a run. */
static double window(pid_t pid, int prog_fd, int64_t ms)
{
	struct program_runs t = { 0 };

	sample_for(pid, prog_fd, ms, RUNS_LEAST, &t);
	return us_each(&t);
}

/* --- runtimes --- */

static void take_window(struct load *l, const struct agent *a, int i)
{
	uint64_t samples = a->samples, frames = a->sampled_frames;

	l->us[i] = window(l->pid, a->sampler.sample_fd, bench_seconds * 1000);
	clock_sleep_ms(200);         /* the agent has counted the last ones */
	l->frames[i] = (double)(a->sampled_frames - frames) / (double)(a->samples - samples);
}

static void load_rows(const struct load *l, const struct load *native)
{
	double us[WINDOWS], frames[WINDOWS], over[WINDOWS], least = 1e9;
	char what[96], note[96];

	for (int i = 0; i < WINDOWS; i++) {
		us[i] = l->us[i];
		frames[i] = l->frames[i];
		over[i] = l->us[i] - native->us[i];
		least = MIN(least, l->us[i]);
	}
	snprintf(what, sizeof what, "%s: a sample", l->name);
	snprintf(note, sizeof note, "of %.1f frames; least %.2f", bench_median(frames, WINDOWS), least);
	bench_row(what, bench_median(us, WINDOWS), "us", 0, note);
	if (l == native)
		return;
	snprintf(what, sizeof what, "%s: over the native fixture's", l->name);
	bench_row(what, bench_median(over, WINDOWS), "us", l->bar, "median of the differences of each turn");
}

static struct load loads[] = {
	{ .name = "native fixture", .program = "", .args = "%s/recursion.nofp 20" },
	{ .name = "CPython", .variable = "PYRRHA_BENCH_PYTHON", .program = "python3", .args = " %s/deep.py", .bar = 8 },
	{ .name = "V8, compiled", .variable = "PYRRHA_BENCH_NODE", .program = "node", .args = " %s/deep.js", .bar = 8 },
	{ .name = "V8, interpreted", .variable = "PYRRHA_BENCH_NODE", .program = "node", .args = " --no-opt --no-sparkplug %s/deep.js", .bar = 8 },
	{ .name = "HotSpot, compiled", .variable = "PYRRHA_BENCH_JAVA", .program = "java",
	  .args = " -XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Deep::* %s/Deep.java", .bar = 12 },
	{ .name = "HotSpot, interpreted", .variable = "PYRRHA_BENCH_JAVA", .program = "java", .args = " -Xint %s/Deep.java", .bar = 12 },
};

void walks_runtimes(struct agent *a)
{
	write_files();
	for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
		if (!load_start(&loads[i]))
			continue;
		clock_sleep_ms(5000);        /* its code is compiled, its tables are loaded and its names are read */
		window(loads[i].pid, a->sampler.sample_fd, 3000);
	}
	for (int k = 0; k < WINDOWS; k++)
		for (size_t i = 0; i < ARRAY_LEN(loads); i++)
			if (loads[i].pid)
				take_window(&loads[i], a, k);
	for (size_t i = 0; i < ARRAY_LEN(loads); i++)
		if (loads[i].pid) {
			bench_stop(loads[i].pid);
			load_rows(&loads[i], &loads[0]);
			loads[i].pid = 0;
		}
}

/* --- agents of their own --- */

struct other {
	pid_t pid;
	int prog_fd, port;
};

/* The sampling program that was loaded last; -1: none since `after`, which becomes its number. */
static int newest_program(uint32_t *after)
{
	int found = -1;

	for (uint32_t id = *after; !bpf_prog_get_next_id(id, &id);) {
		struct bpf_prog_info info = { 0 };
		uint32_t len = sizeof info;
		int fd = bpf_prog_get_fd_by_id(id);
		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &len) || strcmp(info.name, "sample") != 0) {
			close(fd);
			continue;
		}
		if (found >= 0)
			close(found);
		found = fd;
		*after = id;
	}
	return found;
}

static int free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || getsockname(fd, (struct sockaddr *)&at, &n)) {
		perror("agent_bench: a port");
		exit(1);
	}
	close(fd);
	return ntohs(at.sin_port);
}

static uint32_t last_program;

static struct other other_start(const char *path, const char *flags)
{
	struct other o = { .prog_fd = -1, .port = free_port() };
	char command[5000];

	while (newest_program(&last_program) >= 0)
		;
	snprintf(command, sizeof command, "exec '%s' --web.listen-address=127.0.0.1:%d --max-cost=1 %s 2>/dev/null", path, o.port, flags);
	o.pid = bench_start(command);
	for (int i = 0; i < 100 && o.prog_fd < 0; i++) {
		clock_sleep_ms(100);
		o.prog_fd = newest_program(&last_program);
	}
	if (o.prog_fd < 0) {
		fprintf(stderr, "agent_bench: %s has loaded no sampling program\n", path);
		exit(1);
	}
	return o;
}

static void other_stop(struct other *o)
{
	bench_stop(o->pid);
	close(o->prog_fd);
}

/* The agent's own samples would be counted, too. It sets its periods again every ten seconds. */
static void quieten(const struct other *o)
{
	char path[64], target[64];
	uint64_t period = HARDLY_EVER_NS;
	int pidfd = (int)syscall(SYS_pidfd_open, o->pid, 0);
	DIR *d;

	snprintf(path, sizeof path, "/proc/%d/fd", o->pid);
	d = opendir(path);
	for (struct dirent *e; d && pidfd >= 0 && (e = readdir(d));) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strcmp(target, "anon_inode:[perf_event]") != 0)
			continue;
		int fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)strtol(e->d_name, NULL, 10), 0);
		if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_PERIOD, &period))
			perror("agent_bench: the other agent's events");
		if (fd >= 0)
			close(fd);
	}
	if (d)
		closedir(d);
	if (pidfd >= 0)
		close(pidfd);
}

/* The program beside this one. */
static const char *agent_here(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);

	path[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(path, '/');
	n = slash ? slash + 1 - path : 0;
	snprintf(path + n, sizeof path - (size_t)n, "pyrrha-agent");
	return path;
}

/* --- two versions --- */

/* Of one fixture: the version before and the present one. */
struct compared {
	const char *fixture;
	double us[2][WINDOWS], ratio[WINDOWS];
};

/* In turns of a second: what the machine does else changes from one to the next. */
static void compare(struct compared *c, const struct other agents[2], int from, int to)
{
	struct load l = { .name = c->fixture, .program = "", .args = "%s/" };
	char args[64];

	snprintf(args, sizeof args, "%%s/%s", c->fixture);
	l.args = args;
	load_start(&l);
	clock_sleep_ms(500);
	for (int v = 0; v < 2; v++)
		window(l.pid, agents[v].prog_fd, 3000);
	for (int i = from; i < to; i++) {
		struct program_runs t[2] = { 0 };
		for (int k = 0; k < 2 * bench_seconds; k++) {
			int v = (i + k) & 1;
			quieten(&agents[v]);
			sample_for(l.pid, agents[v].prog_fd, 1000, 1, &t[v]);
		}
		for (int v = 0; v < 2; v++)
			c->us[v][i] = us_each(&t[v]);
		c->ratio[i] = c->us[1][i] / c->us[0][i];
	}
	bench_stop(l.pid);
}

static void compared_row(struct compared *c)
{
	char what[96], note[96];

	snprintf(what, sizeof what, "%s: now, over the version before", c->fixture);
	double middle = bench_median(c->ratio, WINDOWS);
	snprintf(note, sizeof note, "%.2f to %.2f; a sample %.2f us before, %.2f now", c->ratio[0], c->ratio[WINDOWS - 1],
		 bench_median(c->us[0], WINDOWS), bench_median(c->us[1], WINDOWS));
	bench_row(what, middle, "", 1.05, note);
}

/* Of two agents of one version the one that is started later takes some hundredths longer: each is the first one half of the time. */
void walks_versions(struct agent *unused)
{
	static struct compared all[] = { { .fixture = "recursion.nofp 20" }, { .fixture = "recursion.fp 20" }, { .fixture = "recursion.nofp 100" },
					 { .fixture = "threads.nofp" } };
	const char *paths[2] = { getenv("PYRRHA_BENCH_BEFORE"), agent_here() };
	struct other agents[2];

	(void)unused;
	if (!paths[0] || !*paths[0]) {
		fputs("agent_bench: versions are not compared: PYRRHA_BENCH_BEFORE names no pyrrha-agent\n", stderr);
		return;
	}
	for (int half = 0; half < 2; half++) {
		agents[half] = other_start(paths[half], "--frequency=1");
		agents[!half] = other_start(paths[!half], "--frequency=1");
		for (size_t i = 0; i < ARRAY_LEN(all); i++)
			compare(&all[i], agents, half * WINDOWS / 2, (half + 1) * WINDOWS / 2);
		other_stop(&agents[0]);
		other_stop(&agents[1]);
	}
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		compared_row(&all[i]);
}

/* --- what is held --- */

/* GET of the agent's: the whole answer, headers included, which the caller frees. */
static char *get(const struct other *o, const char *path)
{
	char command[256];
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)o->port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct buf b = { 0 };
	char piece[4096];
	ssize_t n = snprintf(command, sizeof command, "GET %s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n", path, o->port);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) || write(fd, command, (size_t)n) != n) {
		perror("agent_bench: the agent does not answer");
		exit(1);
	}
	while ((n = read(fd, piece, sizeof piece)) > 0)
		buf_put(&b, piece, (size_t)n);
	close(fd);
	return buf_take(&b, NULL);
}

/* The sum of a metric's values. */
static double metric(const struct other *o, const char *name)
{
	char *all = get(o, "/metrics");
	double sum = 0;
	size_t n = strlen(name);

	for (char *line = all, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		char *value = strrchr(line, ' ');
		if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '{') && value)
			sum += strtod(value, NULL);
	}
	free(all);
	return sum;
}

static double resident_mb(pid_t pid, const char *field)
{
	char path[64], line[256];
	double kb = 0;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, field, strlen(field)) == 0)
			kb = strtod(line + strlen(field), NULL);
	if (f)
		fclose(f);
	return kb / 1024;
}

/* A real agent, a busy process of each runtime, and more of CPython. */
void walks_held(struct agent *unused)
{
	static const size_t kinds[] = { 1, 2, 4 };   /* of loads */
	struct load all[PYTHONS + 2];
	struct other o = other_start(agent_here(), "--frequency=19");
	char note[96];

	(void)unused;
	write_files();
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		all[i] = loads[kinds[i < PYTHONS ? 0 : i - PYTHONS + 1]];
		load_start(&all[i]);
	}
	clock_sleep_ms(30000);
	double names = metric(&o, "pyrrha_agent_runtime_naming_seconds_total");
	int64_t begun = clock_mono_ns();
	clock_sleep_ms(60000);
	names = metric(&o, "pyrrha_agent_runtime_naming_seconds_total") - names;
	double seconds = (double)(clock_mono_ns() - begun) / 1e9;
	bench_row("naming, from half a minute on", 100 * names / seconds, "% CPU", 0.2, "a minute; 20 of CPython, Node, a JVM");
	snprintf(note, sizeof note, "before a profile is pulled; %.0f walked", metric(&o, "pyrrha_agent_runtime_processes"));
	bench_row("resident, with those", resident_mb(o.pid, "VmRSS:"), "MB", 60, note);
	free(get(&o, "/debug/pprof/profile?seconds=10"));
	snprintf(note, sizeof note, "after one of 10 s; at most %.1f", resident_mb(o.pid, "VmHWM:"));
	bench_row("resident, with those", resident_mb(o.pid, "VmRSS:"), "MB", 60, note);
	bench_row("the kernel's maps", metric(&o, "pyrrha_agent_kernel_map_bytes") / 1e6, "MB", 24, "");
	other_stop(&o);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].pid)
			bench_stop(all[i].pid);
}
