/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process_info.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/labels.h"

static atomic_size_t all_info_bytes;

struct process_info *process_info_copy(const struct process_info *p)
{
	struct process_info *n = NEW(struct process_info);

	*n = (struct process_info){ .pid = p->pid, .cgroup_id = p->cgroup_id, .kernel_thread = p->kernel_thread };
	atomic_store(&n->refs, 1);
	memcpy(n->comm, p->comm, sizeof n->comm);
	memcpy(n->runtime, p->runtime, sizeof n->runtime);
	n->exe = p->exe ? image_ref(p->exe) : NULL;
	n->exe_file = p->exe_file ? image_ref(p->exe_file) : NULL;
	return n;
}

void process_info_made(struct process_info *p)
{
	p->bytes = (uint32_t)(malloc_usable_size(p) + malloc_usable_size((void *)(uintptr_t)p->labels));
	atomic_fetch_add_explicit(&all_info_bytes, p->bytes, memory_order_relaxed);
}

size_t process_info_bytes(void)
{
	return atomic_load_explicit(&all_info_bytes, memory_order_relaxed);
}

struct process_info *process_info_ref(struct process_info *p)
{
	if (p)
		atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void process_info_unref(struct process_info *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	atomic_fetch_sub_explicit(&all_info_bytes, p->bytes, memory_order_relaxed);
	image_unref(p->exe);
	image_unref(p->exe_file);
	process_info_unref(p->named);
	free((void *)p->labels);
	free(p);
}
