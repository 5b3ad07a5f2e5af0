/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kernel/kernel_procs.h"

#include <stddef.h>

/* The process's slot; NULL if it has none. tgid 0: a free slot near where `near` belongs. */
static struct unwind_proc *slot_of(struct unwind_proc slots[PROC_SLOTS], uint32_t tgid, uint32_t near)
{
	for (uint32_t i = 0; i < PROC_PROBES; i++) {
		struct unwind_proc *p = &slots[(near + i) % PROC_SLOTS];
		if (p->tgid == tgid)
			return p;
	}
	return NULL;
}

/* The reader takes an entry whose `set` was the same, and not 0, before and after it read the rest. */
static void clear(struct unwind_proc *p)
{
	__atomic_store_n(&p->set, 0, __ATOMIC_SEQ_CST);
}

bool kernel_procs_set(struct unwind_proc slots[PROC_SLOTS], const struct unwind_proc *v)
{
	struct unwind_proc *p = slot_of(slots, v->tgid, v->tgid);

	if (!p && !(p = slot_of(slots, 0, v->tgid)))
		return false;
	clear(p);
	p->tgid = v->tgid;
	p->first = v->first;
	p->n = v->n;
	p->flags = v->flags;
	p->exec_id = v->exec_id;
	__atomic_store_n(&p->set, v->set, __ATOMIC_RELEASE);
	return true;
}

void kernel_procs_remove(struct unwind_proc slots[PROC_SLOTS], uint32_t tgid)
{
	struct unwind_proc *p = slot_of(slots, tgid, tgid);

	if (!p)
		return;
	clear(p);
	p->tgid = 0;
}

void kernel_procs_flag(struct unwind_proc slots[PROC_SLOTS], uint32_t flag, bool on)
{
	for (uint32_t i = 0; i < PROC_SLOTS; i++)
		if (slots[i].tgid)
			__atomic_store_n(&slots[i].flags, on ? slots[i].flags | flag : slots[i].flags & ~flag, __ATOMIC_SEQ_CST);
}
