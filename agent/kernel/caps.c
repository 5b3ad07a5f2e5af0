/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls themselves: libcap would be one more library for thirty lines. */
#include "agent/kernel/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF 39
#define CAP_CHECKPOINT_RESTORE 40
#endif

static const struct {
	unsigned cap;
	const char *name, *without;
	bool only_if_paranoid;       /* kept where kernel.perf_event_paranoid is above 2 */
} table[] = {
	{ CAP_BPF, "CAP_BPF", "BPF programs cannot be loaded" },
	{ CAP_PERFMON, "CAP_PERFMON", "perf events of all processes cannot be opened" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "mappings, files and memory of other processes cannot be read" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "files that only their owner may read have no tables and no names, and language runtimes no frames" },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "deleted files that are still mapped have no tables and no names" },
	{ CAP_SYSLOG, "CAP_SYSLOG", "kernel functions have no names" },
	{ CAP_SYS_NICE, "CAP_SYS_NICE", "on an overloaded host the agent falls behind sooner" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN",
	  "kernel.perf_event_paranoid is above 2: perf events cannot be opened (sysctl kernel.perf_event_paranoid=2 avoids "
	  "the need)", true },
};

static bool paranoid(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level = 2;

	if (!f)
		return false;
	if (fscanf(f, "%d", &level) != 1)
		level = 2;
	fclose(f);
	return level > 2;
}

static int get(struct __user_cap_data_struct d[2])
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	return (int)syscall(SYS_capget, &h, d);
}

static bool has(const struct __user_cap_data_struct d[2], unsigned cap)
{
	return d[cap / 32].effective & 1u << cap % 32;
}

/* Kernels before 5.11 charge BPF maps to RLIMIT_MEMLOCK; to raise it takes CAP_SYS_RESOURCE, which is about to go. If that is not
 * allowed, the limit may still be high enough; if not, loading fails with an error. */
static void raise_memlock(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	if (setrlimit(RLIMIT_MEMLOCK, &all) == 0)
		return;
	if (getrlimit(RLIMIT_MEMLOCK, &all) == 0) {
		all.rlim_cur = all.rlim_max;
		setrlimit(RLIMIT_MEMLOCK, &all);
	}
}

int caps_drop(struct err *e)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];
	uint32_t keep[2] = { 0, 0 };
	bool admin = paranoid();

	raise_memlock();
	if (get(d) < 0)
		return err_errno(e, errno, "capget");
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (!table[i].only_if_paranoid || admin)
			keep[table[i].cap / 32] |= 1u << table[i].cap % 32;
	for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (cap >= 64 || !(keep[cap / 32] & 1u << cap % 32))
			prctl(PR_CAPBSET_DROP, cap); /* needs CAP_SETPCAP: without it there is less to drop */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (int i = 0; i < 2; i++) {
		d[i].permitted &= keep[i];
		d[i].effective = d[i].permitted;
		d[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &h, d) < 0)
		return err_errno(e, errno, "drop capabilities");
	return 0;
}

void caps_report(struct buf *out)
{
	struct __user_cap_data_struct d[2];
	bool admin = paranoid();

	if (get(d) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (has(d, table[i].cap) || (table[i].only_if_paranoid && !admin))
			continue;
		/* CAP_SYS_ADMIN stands in for these. */
		if (has(d, CAP_SYS_ADMIN) && (table[i].cap == CAP_BPF || table[i].cap == CAP_PERFMON ||
					      table[i].cap == CAP_CHECKPOINT_RESTORE || table[i].cap == CAP_SYSLOG))
			continue;
		buf_printf(out, "no   %s: %s\n", table[i].name, table[i].without);
	}
}
