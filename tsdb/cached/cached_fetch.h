/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that fetch files of the cache, up to 16 requests at once. Queries wait for them; a query that stops waiting costs nobody the fetch. */
#ifndef PYRRHA_TSDB_CACHED_FETCH_H
#define PYRRHA_TSDB_CACHED_FETCH_H

#include "model/objects.h"
#include "model/source.h"
#include "tsdb/cached/cached_file.h"

struct cached_fetcher;
/* Borrows objects. */
struct cached_fetcher *cached_fetcher_new(struct objects *objects);
/* Ends the threads: calls of objects must end soon. No query waits any more. */
void cached_fetcher_free(struct cached_fetcher *x);
/* Begins to fetch what is wanted of these files, in their order. Returns until when (clock_mono_ms) the query is to wait for them: not for long, when
 * the time of lim is nearly over, or the bucket has just failed. */
int64_t cached_fetcher_start(struct cached_fetcher *x, struct cached_file *const *files, size_t n, const struct source_limits *lim);
/* Waits for some of them. ERR_UNAVAILABLE, whatever the bucket said: something of them is not here. ERR_TIMEOUT, ERR_CANCELED, ERR_BUSY: of lim. */
int cached_fetcher_wait(struct cached_fetcher *x, struct cached_file *const *files, size_t n, int64_t until_mono_ms, const struct source_limits *lim,
			struct err *e) MUST_USE;
/* Any thread. */
struct cached_counts *cached_fetcher_counts(struct cached_fetcher *x);

#endif
