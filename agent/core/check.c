/* SPDX-License-Identifier: Apache-2.0 */
/* pyrrha-agent --check: what this kernel and these rights allow, a line each. It tries what the agent does rather than
 * guess from versions and capabilities. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/kernel/caps.h"
#include "agent/kernel/perf_events.h"
#include "agent/kernel/pid_ns.h"
#include "agent/kernel/sampler.h"
#include "agent/names/symbolize.h"
#include "agent/process/host_runtimes.h"
#include "base/units.h"

static void check_print(FILE *out, bool ok, const char *what, const char *more)
{
	fprintf(out, "%-4s %s%s%s\n", ok ? "ok" : "no", what, more && *more ? ": " : "", more ? more : "");
}

/* "6.1.192-2" -> 6, 1, 192. */
static void parse_version(const char *s, unsigned long v[3])
{
	char *at = (char *)(uintptr_t)s;

	for (int i = 0; i < 3; i++) {
		v[i] = strtoul(at, &at, 10);
		if (*at != '.')
			break;
		at++;
	}
}

/* The upstream version: what a distribution calls its release may leave out the patch level. */
static void kernel_version(const struct utsname *u, unsigned long v[3])
{
	static const char debian[] = "Debian ";
	char text[128];
	const char *at = strstr(u->version, debian);

	v[0] = v[1] = v[2] = 0;
	parse_version(at ? at + sizeof debian - 1 : u->release, v);
	/* "Ubuntu 6.2.0-39.40-generic 6.2.16" */
	FILE *f = fopen("/proc/version_signature", "re");
	if (f && fgets(text, sizeof text, f) && (at = strrchr(text, ' ')))
		parse_version(at + 1, v);
	if (f)
		fclose(f);
}

/* Linux 5.19 to 6.3 with hardened usercopy can deadlock when a timer reads user memory (fixed in 6.1.36, 6.3.10 and 6.4): such a
 * kernel must not be sampled. */
bool agent_kernel_deadlock_prone(const char *release, const char *version)
{
	struct utsname u = { 0 };
	unsigned long v[3];

	snprintf(u.release, sizeof u.release, "%s", release);
	snprintf(u.version, sizeof u.version, "%s", version);
	kernel_version(&u, v);
	unsigned long minor = v[0] * 1000 + v[1];
	if (minor < 5019 || minor > 6003)
		return false;
	return minor == 6001 ? v[2] < 36 : minor == 6003 ? v[2] < 10 : true;
}

int agent_check_kernel(struct err *e)
{
	struct utsname u;

	if (uname(&u) < 0 || !agent_kernel_deadlock_prone(u.release, u.version))
		return 0;
	return err_set(e, ERR_DENIED,
		       "Linux %s may deadlock when it is sampled (5.19 to 6.3 with CONFIG_HARDENED_USERCOPY, fixed in 6.1.36 "
		       "and 6.3.10): update it, or give --ignore-kernel-bugs if it is built without that option or has the fix",
		       u.release);
}

static int check_kernel(FILE *out)
{
	struct utsname u;

	if (uname(&u) < 0)
		return 0;
	struct err e = { 0 };
	bool bad = agent_check_kernel(&e) != 0;
	check_print(out, !bad, "kernel", bad ? e.msg : u.release);
	check_print(out, access("/sys/kernel/btf/vmlinux", R_OK) == 0, "type information of the kernel",
		    "/sys/kernel/btf/vmlinux, which lets one program run on all versions");
	return 0;
}

static bool can_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Do addresses show in /proc/kallsyms? */
static bool kernel_symbols(void)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char text[512];
	bool seen = false;

	for (int i = 0; f && i < 2000 && !seen && fgets(text, sizeof text, f); i++)
		seen = strtoull(text, NULL, 16) != 0;
	if (f)
		fclose(f);
	return seen;
}

/* Some process that is not ours: our parent. */
static bool can_open_of_other(const char *what)
{
	char name[96];
	snprintf(name, sizeof name, "/proc/%d/%s", (int)getppid(), what);
	return can_open(name);
}

/* The kernel's own links to mapped files. */
static bool map_files(void)
{
	char name[96], text[256];
	bool ok = false;

	FILE *f = fopen("/proc/self/maps", "re");
	if (f && fgets(text, sizeof text, f)) {
		text[strcspn(text, " ")] = 0;
		snprintf(name, sizeof name, "/proc/self/map_files/%.64s", text);
		ok = can_open(name);
	}
	if (f)
		fclose(f);
	return ok;
}

static void check_optional(FILE *out)
{
	check_print(out, can_open_of_other("maps"), "mappings of other processes",
		    "CAP_SYS_PTRACE; without it only processes that start after the agent are unwound");
	check_print(out, can_open_of_other("root/etc"), "files of other processes", "CAP_SYS_PTRACE and, for files that only their "
		    "owner may read, CAP_DAC_READ_SEARCH; without it such programs have neither unwind tables nor names");
	check_print(out, map_files(), "deleted files that are still mapped",
		    "CAP_CHECKPOINT_RESTORE; without it libraries replaced by an upgrade have neither tables nor names");
	check_print(out, kernel_symbols(), "names of kernel functions", "CAP_SYSLOG (kernel.kptr_restrict)");
}

/* What stacks and the names of functions need besides capabilities: memory for unwind tables, a client of debuginfod. */
static void check_room(FILE *out, uint64_t unwind_bytes)
{
	char size[24], more[160];

	snprintf(more, sizeof more, "%s; where stacks end in \"[truncated: unwind tables are full]\", --unwind-memory gives more",
		 units_format_size(unwind_bytes, size));
	check_print(out, true, "memory for unwind tables", more);
	bool client = symbolizer_can_ask_servers();
	check_print(out, client, "names of stripped programs", client ? "from debug files, and from servers with --debuginfod-urls" :
		    "from debug files; --debuginfod-urls, which asks servers for them, needs libdebuginfod.so.1");
}

static void check_switches(FILE *out, struct sampler *s)
{
	struct err e = { 0 };
	char figures[96];

	int r = sampler_watch_switches(s, true, &e);
	snprintf(figures, sizeof figures, "the verifier walked %u instructions", s->off_verified_insns);
	check_print(out, r == 0, "the program for waits (--off-cpu)", r ? e.msg : figures);
	IGNORE(sampler_watch_switches(s, false, &e)); /* the program is gone with the sampler */
}

static void check_runtime(void *arg, const struct host_runtime *h)
{
	FILE *out = arg;
	const struct runtime_file *r = h->file;
	char what[64], more[768];

	snprintf(what, sizeof what, "%s (--runtimes=%s)", r->label, r->of->name);
	snprintf(more, sizeof more, "%s%s%.400s, %u process%s", r->why_not, r->why_not[0] ? ": " : "", h->path, h->processes,
		 h->processes == 1 ? "" : "es");
	check_print(out, !r->why_not[0], what, more);
}

/* The language runtimes that are mapped just now, and why the frames of one are not named. */
static void check_runtimes(FILE *out)
{
	size_t n = host_runtimes_each(check_runtime, out);

	if (!can_open_of_other("root/etc"))
		check_print(out, false, "language runtimes", "CAP_SYS_PTRACE; without it those of other processes are neither seen here nor walked");
	else if (!n)
		check_print(out, true, "language runtimes", "none runs now");
}

int agent_check(FILE *out, uint64_t unwind_bytes)
{
	struct sampler_options so = { .ring_bytes = 1u << 20, .kernel_stacks = true, .execs = true, .off_cpu = true };
	struct sampler s;
	struct perf_events *events = NULL;
	struct err e = { 0 };
	int r;

	check_kernel(out);
	r = pid_ns_check_proc(&e);
	check_print(out, r == 0, "process ids", r ? e.msg : pid_ns_inside() ? AGENT_INSIDE : "those of the host");
	int ret = r;
	r = sampler_load(&s, &so, &e);
	char figures[96];
	snprintf(figures, sizeof figures, "the verifier walked %u instructions of the sampling program", s.verified_insns);
	check_print(out, r == 0, "BPF programs load", r ? e.msg : figures);
	if (r) { /* perhaps for the room that waits take */
		struct err without = { 0 };
		so.off_cpu = false;
		r = sampler_load(&s, &so, &without);
		check_print(out, r == 0, "without --off-cpu they load", r ? without.msg : NULL);
	}
	ret = ret ? ret : r;
	if (!r) {
		if (so.off_cpu)
			check_switches(out, &s);
		r = perf_events_open(&events, s.sample_fd, 1, 8, &e);
		check_print(out, r == 0, "perf events", r ? e.msg : NULL);
		if (!r)
			check_print(out, perf_events_build_ids(events), "build-ids in records of mappings", "Linux 5.12");
		perf_events_close(events);
		sampler_release(&s);
		ret = ret ? ret : r;
	}
	check_optional(out);
	check_room(out, unwind_bytes);
	check_runtimes(out);
	struct buf caps = { 0 };
	caps_report(&caps);
	if (caps.len)
		fputs(caps.ptr, out);
	buf_free(&caps);
	return ret;
}
