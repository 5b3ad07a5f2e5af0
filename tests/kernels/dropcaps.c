/* SPDX-License-Identifier: Apache-2.0 */
/* dropcaps PROGRAM ARGS: runs the program with no more than the capabilities of the agent's systemd unit. */
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

/* In numbers: the headers of the oldest build machine may lack the newest three. */
static const int keep[] = { CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG, CAP_SYS_NICE, 38 /* PERFMON */, 39 /* BPF */,
			    40 /* CHECKPOINT_RESTORE */ };

int main(int argc, char **argv)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++) {
		int kept = 0;
		for (unsigned i = 0; i < sizeof keep / sizeof *keep; i++)
			kept |= keep[i] == cap;
		if (!kept && prctl(PR_CAPBSET_DROP, cap)) {
			perror("dropcaps");
			return 1;
		}
	}
	if (argc > 1)
		execv(argv[1], argv + 1);
	perror("dropcaps: exec");
	return 1;
}
