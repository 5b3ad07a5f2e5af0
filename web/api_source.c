/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/v1/source/ask: a question of another server (lib/fleet). The answer is binary, and has its errors in it: only a body that is no
 * question is 400. A question that waits for a bucket gives its turn to the next one of its lane. */
#include "fleet/answerer.h"
#include "web/internal.h"

static void source_waits(void *arg)
{
	httpd_turn_is_over(arg);
}

void serve_source_ask(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct fleet_asker asker = { .name = httpd_sender(rq), .arrived_ns = httpd_arrived_ns(rq), .canceled = httpd_canceled(rq),
				     .waits = source_waits, .waits_arg = rq };
	struct view type = httpd_header(rq, "Content-Type");
	if (!w->answerer) {
		httpd_text(rq, 503, "there is no storage");
		return;
	}
	if (!view_eqs(type, FLEET_WIRE_TYPE)) {
		httpd_text(rq, 415, "Content-Type must be " FLEET_WIRE_TYPE);
		return;
	}
	int status = fleet_answerer_run(w->answerer, httpd_body(rq), &asker, httpd_out(rq));
	httpd_status(rq, status);
	if (status == 200)
		httpd_type(rq, FLEET_WIRE_TYPE);
}
