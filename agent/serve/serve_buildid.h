/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a debuginfod server: /buildid/ID/executable and /buildid/ID/debuginfo of programs and libraries that are
 * running now and that everybody on this host may read. */
#ifndef PYRRHA_AGENT_SERVE_BUILDID_H
#define PYRRHA_AGENT_SERVE_BUILDID_H

#include "agent/names/symbolize.h"
#include "httpd/httpd.h"

/* Answers for the segments "id" and "kind" of the path. */
void serve_buildid(struct httpd_request *rq, struct symbolizer *s);

#endif
