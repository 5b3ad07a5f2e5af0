/* SPDX-License-Identifier: Apache-2.0 */
/* Pages as Go's net/http/pprof serves them, with the same paths, defaults, headers and error texts. So every client of a Go program
 * works here. First the common part of such pages (the agent's host pages use it too), then the handlers of this program's own
 * profiles; those ignore their arg. They block: they need a separate lane, and not HTTPD_QUICK, except the index and the command
 * line. */
#ifndef PYRRHA_SELFPROF_PAGES_H
#define PYRRHA_SELFPROF_PAGES_H

#include "base/err.h"
#include "httpd/httpd.h"

#define PPROF_SECONDS_DEFAULT 30
#define PPROF_SECONDS_MAX 600

/* Go's serveError: a line of text, and a header that makes pprof print the text. */
void pprof_error(struct httpd_request *rq, int status, const char *text);
/* `seconds`; what does not parse, or is not above zero, is `otherwise`. */
int64_t pprof_seconds(struct httpd_request *rq, int64_t otherwise);
/* One row of an index. */
struct pprof_row {
	const char *name, *text;
};
/* The index as Go writes it. Nothing is counted, so each count is 0, as with Go's CPU profile. */
void pprof_index(struct httpd_request *rq, const char *title, const struct pprof_row *rows, size_t n);

void selfprof_serve_index(struct httpd_request *rq, void *arg);
/* heap and allocs, with seconds=N what changed meanwhile. 404 where the heap is not sampled. */
void selfprof_serve_heap(struct httpd_request *rq, void *arg);
void selfprof_serve_allocs(struct httpd_request *rq, void *arg);
void selfprof_serve_profile(struct httpd_request *rq, void *arg);
/* Arguments of the command line, each ended by NUL but the last. */
void selfprof_serve_cmdline(struct httpd_request *rq, void *arg);
/* Any other path below: 404. */
void selfprof_serve_unknown(struct httpd_request *rq, void *arg);
/* The path of the index without its last slash: the browser is sent to the one with it. */
void selfprof_serve_redirect(struct httpd_request *rq, void *arg);

#endif
