/* SPDX-License-Identifier: Apache-2.0 */
/* The results of an endpoint's batches. The sink accepts a batch at once and reports later, from its own thread, whether it was
 * stored. By then the endpoint may be gone, so the two share a receipt. Thread-safe. */
#ifndef PYRRHA_SCRAPER_RECEIPT_H
#define PYRRHA_SCRAPER_RECEIPT_H

#include "base/err.h"

struct receipt;

struct receipt *receipt_new(void) MUST_USE;
void receipt_unref(struct receipt *r); /* NULL is allowed */
/* Before a batch is handed over: r is then the done_arg of receipt_done. If the sink does not take it: receipt_unref. */
struct receipt *receipt_expect(struct receipt *r);
void receipt_done(void *r, const struct err *e);
/* The error of the last reported batch; NULL: it was stored. Returns owned. */
char *receipt_failure(struct receipt *r);
/* Whether any was not stored since this was asked last. */
bool receipt_take_failure(struct receipt *r);

#endif
