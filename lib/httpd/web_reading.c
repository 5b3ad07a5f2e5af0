/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read a web configuration: problems, each with its place, and the files that it names. */
#include "httpd/web_reading.h"

#include "config/config_sources.h"

void web_reading_problem(struct web_reading *r, const struct err *e)
{
	if (!r->n_problems++)
		r->first = *e;
	if (r->how->problem)
		r->how->problem(r->how->arg, e->msg);
}

void web_reading_wrong(struct web_reading *r, const struct config_node *n, const char *field, const char *fmt, ...)
{
	struct err e, inner = { 0 };
	va_list ap;
	va_start(ap, fmt);
	err_vset(&inner, ERR_BAD_DATA, fmt, ap);
	va_end(ap);
	size_t mark = config_enter(&r->ctx, field);
	config_error(&r->ctx, n, &e, "%s", inner.msg);
	config_leave(&r->ctx, mark);
	web_reading_problem(r, &e);
}

void web_reading_keys(struct web_reading *r, const char *field, const struct config_table *t, const struct config_node *n, void *at)
{
	struct err e;
	if (!n || n->type == CONFIG_NODE_NULL)
		return;
	if (n->type != CONFIG_NODE_MAP) {
		if (config_decode_at(&r->ctx, field, t, n, at, &e))
			web_reading_problem(r, &e);
		return;
	}
	for (size_t i = 0; i < n->n; i++) {
		struct config_node one = *n;
		one.pairs = &n->pairs[i];
		one.n = 1;
		if (config_decode_at(&r->ctx, field, t, &one, at, &e))
			web_reading_problem(r, &e);
	}
}

int web_reading_file(struct web_reading *r, const char *path, size_t max, struct buf *ret, struct err *e)
{
	ret->max = max;
	int rc = buf_read_file(ret, path, e);
	struct view v = buf_view(ret);
	if (r->how->sources)
		config_sources_note(r->how->sources, path, rc ? NULL : &v);
	return rc;
}
