/* SPDX-License-Identifier: Apache-2.0 */
/* alertmanagers: who is told of alerts, and who was discovered and dropped. */
#include "web/answer.h"
#include "web/internal.h"

struct urls {
	struct buf *b;
	bool more;
};

static void put_url(void *arg, struct view url)
{
	struct urls *u = arg;
	buf_puts(u->b, u->more ? ",{\"url\":" : "{\"url\":");
	buf_json_string(u->b, url);
	buf_putc(u->b, '}');
	u->more = true;
}

static void put_list(struct status_alertmanagers *s, const char *key, bool dropped, struct buf *b)
{
	struct urls u = { .b = b };
	buf_printf(b, "\"%s\":[", key);
	if (s)
		s->each(s, dropped, put_url, &u);
	buf_putc(b, ']');
}

void serve_alertmanagers(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct buf *b = answer_begin(rq);
	buf_putc(b, '{');
	put_list(w->alertmanagers, "activeAlertmanagers", false, b);
	buf_putc(b, ',');
	put_list(w->alertmanagers, "droppedAlertmanagers", true, b);
	buf_putc(b, '}');
	answer_end(rq, NULL, 0, NULL, 0);
}
