/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/proc_files.h"


#define FILES_MAX 16384u             /* as MAPPINGS_MAX of address_space.h */

static void take(void *arg, const struct proc_map *m)
{
	struct proc_files *out = arg;

	if (m->ino && out->v.n < FILES_MAX)
		vec_push(&out->v, (struct proc_file){ m->start, m->end, m->dev, m->ino });
}

enum proc_answer proc_files_read(struct proc_files *out, uint32_t pid)
{
	*out = (struct proc_files){ 0 };
	enum proc_answer answer = proc_reader_maps(pid, take, out);
	return answer == PROC_READ && !out->v.n ? PROC_ABSENT : answer;
}

const struct proc_file *proc_files_at(const struct proc_files *p, uint64_t addr)
{
	size_t lo = 0, hi = p->v.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (p->v.v[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo < p->v.n && p->v.v[lo].start <= addr ? &p->v.v[lo] : NULL;
}

void proc_files_release(struct proc_files *p)
{
	vec_free(&p->v);
}
