/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/labels/unnamed.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"

bool unnamed_add(struct unnamed_list *u, struct process_info *p, struct view path, struct labels own)
{
	struct unnamed n = { .path = xstrndup(path.ptr, path.len), .own = labels_dup(own), .since_mono_ms = clock_mono_ms() };

	n.bytes = sizeof n + sizeof *p + malloc_usable_size(n.path) + malloc_usable_size(n.own) + malloc_usable_size((void *)(uintptr_t)p->labels);
	if (u->bytes + n.bytes > UNNAMED_BYTES_MAX) {
		free(n.path);
		free(n.own);
		u->left_out = true;
		return false;
	}
	n.info = process_info_ref(p);
	u->bytes += n.bytes;
	vec_push(&u->v, n);
	return true;
}

void unnamed_remove(struct unnamed_list *u, size_t i)
{
	struct unnamed *x = &u->v.v[i];

	u->bytes -= x->bytes;
	process_info_unref(x->info);
	free(x->path);
	free(x->own);
	*x = u->v.v[--u->v.n];
}

void unnamed_release(struct unnamed_list *u)
{
	while (u->v.n)
		unnamed_remove(u, u->v.n - 1);
	vec_free(&u->v);
}
