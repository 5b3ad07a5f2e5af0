/* SPDX-License-Identifier: Apache-2.0 */
/* The sealer: one thread that seals due windows, and handles rollups, compactions, late names, memory and retention. It does one thing
 * after the other, at a lower priority than queries and appends. Private. */
#ifndef PYRRHA_TSDB_SEALER_H
#define PYRRHA_TSDB_SEALER_H

/* The thread; db is a struct tsdb. */
void *tsdb_sealer(void *db);

#endif
