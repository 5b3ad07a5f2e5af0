/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Constants of the programs that the agent sets before they are loaded: the verifier then drops what is off. */
#ifndef PYRRHA_BPF_KNOBS_H
#define PYRRHA_BPF_KNOBS_H

#include <linux/types.h>

#define KNOBS_MAGIC 0x50797268u

struct bpf_knobs {
	__u32 magic;
	__u32 ring_wakeup_bytes;     /* wake the agent when more waits in the ring */
	__u32 kernel_stacks;
	__u32 thread_size;           /* of the kernel's stacks, where the helper for user registers is missing */
	__u32 cgroup_v1;             /* the memory controller has a hierarchy of its own */
	__u32 pid_ns;                /* the inode of the pid namespace whose pids are told; 0: it is the host's */
};

#endif
