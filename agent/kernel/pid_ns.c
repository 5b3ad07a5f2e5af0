/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kernel/pid_ns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_INODE 0xeffffffcu       /* of the host's pid namespace: PROC_PID_INIT_INO, the same in every kernel */

uint32_t pid_ns_inside(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != HOST_INODE ? (uint32_t)st.st_ino : 0;
}

int pid_ns_check_proc(struct err *e)
{
	char link[32] = "", own[32];

	snprintf(own, sizeof own, "%d", (int)getpid());
	if (readlink("/proc/self", link, sizeof link - 1) > 0 && strcmp(link, own) == 0)
		return 0;
	return err_set(e, ERR_DENIED, "/proc is that of another pid namespace (this process has the pid %s, and \"%s\" in /proc): mount a /proc of the "
		       "agent's own namespace, or run the agent in the host's with --pid=host (Kubernetes: hostPID: true)", own, link);
}
