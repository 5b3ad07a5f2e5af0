/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_link.h"

#include "rules/template/template.h"
#include "rules/template/template_text.h"

#define GRAPH_S 3600 /* what the graph shows before the time */

void template_put_time(int64_t t_ms, struct buf *out)
{
	long long s = t_ms / 1000 - (t_ms % 1000 < 0), ms = t_ms - s * 1000;
	buf_printf(out, ms ? "&from=%lld&to=%lld.%03lld" : "&from=%lld&to=%lld", s - GRAPH_S, s, ms);
}

void template_page_url(struct view external_url, struct view expr, int64_t t_ms, struct buf *out)
{
	buf_putv(out, external_url);
	buf_puts(out, "/?q=");
	ttext_query(expr, out);
	template_put_time(t_ms, out);
}

void template_generator_url(struct view external_url, struct view expr, int64_t t_ms, struct buf *out)
{
	buf_putv(out, external_url);
	buf_puts(out, "/graph?g0.expr=");
	ttext_query(expr, out);
	buf_puts(out, "&g0.tab=1");
	template_put_time(t_ms, out);
}
