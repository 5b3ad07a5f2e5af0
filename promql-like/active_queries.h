/* SPDX-License-Identifier: Apache-2.0 */
/* The file of running queries: one slot of fixed size for each, its text and a 0. Texts found at a start were running when the
 * previous process ended. It is written with pwrite and never mapped. A write without room on the disk fails and is dropped; a mapped
 * page would end the process with SIGBUS. A slot belongs to the thread that took it; slots need no lock. */
#ifndef PYRRHA_PROMQL_ACTIVE_QUERIES_H
#define PYRRHA_PROMQL_ACTIVE_QUERIES_H

#include "base/view.h"

#define ACTIVE_QUERY_BYTES 1024 /* of a slot; a longer query is cut */

struct active_queries;

/* Reads what the process before left, then writes empty slots. The file may be missing or not writable: then nothing is
 * kept. Never NULL. */
struct active_queries *active_queries_open(const char *path, unsigned slots);
void active_queries_close(struct active_queries *a);
/* The texts found, a query per line; borrowed, "" if there was none. */
const char *active_queries_crashed(const struct active_queries *a);
/* Both take NULL: nothing is kept. */
void active_queries_put(struct active_queries *a, unsigned slot, struct view query);
void active_queries_clear(struct active_queries *a, unsigned slot);

#endif
