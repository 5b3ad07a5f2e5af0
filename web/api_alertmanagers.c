/* SPDX-License-Identifier: Apache-2.0 */
/* alertmanagers: the active ones, and those that were discovered and dropped. */
#include "web/answer.h"
#include "web/internal.h"

static void put_url(void *arg, struct view url)
{
	struct buf *b = arg;
	json_object_begin(b);
	json_field(b, "url", url);
	json_object_end(b);
}

static void put_list(struct status_alertmanagers *s, const char *key, bool dropped, struct buf *b)
{
	json_array_begin_at(b, key);
	if (s)
		s->each(s, dropped, put_url, b);
	json_array_end(b);
}

void serve_alertmanagers(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	put_list(w->alertmanagers, "activeAlertmanagers", false, b);
	put_list(w->alertmanagers, "droppedAlertmanagers", true, b);
	json_object_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}
