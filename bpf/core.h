/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The few kernel structures the programs look into: only the members that are used. The loader moves the offsets to
 * those of the running kernel (CO-RE), so that one object serves all versions. */
#ifndef PYRRHA_BPF_CORE_H
#define PYRRHA_BPF_CORE_H

#include <linux/types.h>

struct mm_struct;

struct task_struct {
	void *stack;
	unsigned int flags;
	int tgid;
	struct mm_struct *mm;
	__u64 self_exec_id;          /* counts the programs it ran */
} __attribute__((preserve_access_index));

#define PF_KTHREAD 0x00200000

#endif
