/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/source_links: where a frame of the page leads to. */
#include "web/answer.h"
#include "web/internal.h"
#include "web/source_links.h"

void serve_source_links(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct source_frame f = { .file = httpd_param(rq, "file"), .function = httpd_param(rq, "function"), .binary = httpd_param(rq, "binary") };
	int64_t line;
	struct err e;
	if (param_whole(rq, "line", 0, INT64_MAX, 0, &line, &e)) {
		answer_error(rq, &e);
		return;
	}
	f.line = (uint64_t)line;
	struct source_links *l = w->o.source_links ? w->o.source_links(w->o.arg) : NULL;
	source_links_json(l, &f, answer_begin(rq));
	answer_end(rq, NULL, 0, NULL, 0);
	source_links_unref(l);
}
