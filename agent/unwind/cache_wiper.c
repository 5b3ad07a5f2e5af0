/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/cache_wiper.h"

#include <bpf/bpf.h>
#include <stdlib.h>

#include "agent/kernel/kernel_procs.h"
#include "agent/unwind/extents.h"
#include "base/alloc.h"

void cache_wiper_init(struct cache_wiper *w, struct unwind_proc *procs, int fd)
{
	*w = (struct cache_wiper){ .procs = procs, .fd = fd };
}

uint64_t cache_wiper_order(struct cache_wiper *w, int64_t now_ns)
{
	if (!w->ordered)
		kernel_procs_flag(w->procs, UNWIND_PROC_CACHED, false);
	w->ordered = true;
	w->ordered_ns = now_ns;
	return w->wipes + 1;
}

bool cache_wiper_done(const struct cache_wiper *w, uint64_t wipe)
{
	return w->wipes >= wipe;
}

static bool wipe(const struct cache_wiper *w)
{
	uint32_t zero = 0;
	bool ok = true;

	if (w->fd >= 0) {
		AUTOFREE uint64_t *nothing = xcalloc(RULE_CACHE, sizeof *nothing);
		ok = bpf_map_update_elem(w->fd, &zero, nothing, BPF_ANY) == 0;
	}
	return ok;
}

void cache_wiper_advance(struct cache_wiper *w, int64_t now_ns)
{
	if (!w->ordered || now_ns - w->ordered_ns < REUSE_NS || !wipe(w))
		return;
	w->ordered = false;
	w->wipes++;
	kernel_procs_flag(w->procs, UNWIND_PROC_CACHED, true);
}

uint32_t cache_wiper_flags(const struct cache_wiper *w)
{
	return w->ordered ? 0 : UNWIND_PROC_CACHED;
}
