/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF maps that hold the unwind tables: the sampler makes them, unwind_tables.h fills them. */
#ifndef PYRRHA_AGENT_TABLE_FDS_H
#define PYRRHA_AGENT_TABLE_FDS_H

struct table_fds {
	int procs, maps, images, pages, chunks, rules, cache, runtime_procs; /* borrowed */
};

#endif
