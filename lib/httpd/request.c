/* SPDX-License-Identifier: Apache-2.0 */
/* One request: what was sent, decoded by us (libmicrohttpd's own decoding loses lengths and escapes in paths). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/clock.h"
#include "httpd/internal.h"

#define DEFAULT_ARENA ((size_t)64 << 20)

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool httpd_decode(struct arena *a, struct view v, bool plus, struct view *ret)
{
	if (!v.len || (!memchr(v.ptr, '%', v.len) && !(plus && memchr(v.ptr, '+', v.len)))) {
		*ret = v;
		return true;
	}
	char *out = arena_alloc(a, v.len);
	if (!out)
		return false;
	size_t n = 0;
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		if (c == '%') {
			int hi = i + 2 < v.len ? hex(v.ptr[i + 1]) : -1, lo = hi < 0 ? -1 : hex(v.ptr[i + 2]);
			if (lo < 0)
				return false;
			c = (char)(hi << 4 | lo);
			i += 2;
		} else if (plus && c == '+') {
			c = ' ';
		}
		out[n++] = c;
	}
	*ret = view_make(out, n);
	return true;
}

struct httpd_request *httpd_request_new(struct httpd *h, struct MHD_Connection *c, const char *uri)
{
	struct httpd_request *rq = NEW(struct httpd_request);
	rq->httpd = h;
	rq->connection = c;
	rq->start_ns = clock_mono_ns();
	rq->status = MHD_HTTP_OK;
	rq->type = "text/plain; charset=utf-8";
	rq->handler = "(none)";
	rq->body.max = h->o.max_body;
	arena_init(&rq->arena, h->o.max_arena ? h->o.max_arena : DEFAULT_ARENA);
	rq->uri = xstrdup(uri);
	const union MHD_ConnectionInfo *ci = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	rq->fd = ci ? ci->connect_fd : -1;
	rq->peer = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	rq->slot = httpd_peer_slot(rq->peer);
	rq->web = httpd_web_config(h);

	struct view path = view_of(rq->uri);
	char *mark = strchr(rq->uri, '?');
	if (mark) {
		rq->query = view_of(mark + 1);
		path.len = (size_t)(mark - rq->uri);
	}
	struct view prefix = view_of(h->prefix);
	if (view_starts(path, prefix) && (path.len == prefix.len || path.ptr[prefix.len] == '/'))
		path = view_make(path.ptr + prefix.len, path.len - prefix.len);
	else
		rq->outside = true;
	rq->path = path;
	return rq;
}

void httpd_request_free(struct httpd_request *rq)
{
	httpd_request_drop_headers(rq);
	vec_free(&rq->params);
	atomic_fetch_sub(&rq->httpd->bodies, rq->body_counted);
	atomic_fetch_sub(&rq->httpd->answers, rq->answer_held);
	httpd_metrics_held(HTTPD_BODIES, -(ptrdiff_t)rq->body_counted);
	httpd_metrics_held(HTTPD_ANSWERS, -(ptrdiff_t)rq->answer_held);
	buf_free(&rq->body);
	buf_free(&rq->out);
	spool_free(rq->spool);
	buf_free(&rq->stages);
	arena_free(&rq->arena);
	if (rq->response)
		MHD_destroy_response(rq->response);
	web_config_unref(rq->web);
	free(rq->uri);
	free(rq);
}

static bool has_type(struct view type, struct view want)
{
	return type.len >= want.len && strncasecmp(type.ptr, want.ptr, want.len) == 0;
}

static int parse_pairs(struct httpd_request *rq, struct view v, struct err *e)
{
	while (v.len) {
		struct view pair = view_cut(&v, '&');
		if (!pair.len)
			continue;
		struct httpd_param p = { .value = pair };
		p.name = view_cut(&p.value, '=');
		if (!httpd_decode(&rq->arena, p.name, true, &p.name) || !httpd_decode(&rq->arena, p.value, true, &p.value))
			return err_set(e, ERR_BAD_DATA, "bad percent escape in parameter \"%.*s\"", (int)MIN(pair.len, 80),
				       pair.ptr);
		int rc = httpd_param_add(rq, p.name, p.value, e);
		if (rc)
			return rc;
	}
	return 0;
}

int httpd_request_parse(struct httpd_request *rq, struct err *e)
{
	struct view type = httpd_header(rq, "Content-Type");
	int rc = 0;
	if (rq->body.len && has_type(type, VIEW("application/x-www-form-urlencoded")))
		rc = parse_pairs(rq, buf_view(&rq->body), e);
	if (!rc)
		rc = parse_pairs(rq, rq->query, e);
	if (!rc && rq->body.len && has_type(type, VIEW("multipart/form-data")))
		rc = httpd_multipart_parse(rq, type, e);
	return rc;
}

static void bad_request(struct httpd_request *rq, const struct err *e)
{
	if (rq->httpd->o.bad_request)
		rq->httpd->o.bad_request(rq, e, rq->httpd->o.arg);
	else
		httpd_text_error(rq, e);
}

void httpd_request_serve(struct httpd_request *rq)
{
	struct err e = { 0 };
	if (rq->route) {
		if (!(rq->route->flags & HTTPD_RAW) && !rq->parsed && httpd_request_parse(rq, &e))
			bad_request(rq, &e);
		else if (!rq->httpd->o.before || rq->httpd->o.before(rq, rq->httpd->o.arg))
			rq->route->handle(rq, rq->httpd->o.arg);
	}
	httpd_response_build(rq);
}

void httpd_request_refuse(struct httpd_request *rq, enum httpd_refusal why)
{
	static const char *const reasons[] = { [HTTPD_FULL] = "queue", [HTTPD_LATE] = "late" };
	if (why == HTTPD_CANCELED) {
		httpd_text(rq, err_info(ERR_CANCELED)->http, "canceled");
	} else {
		httpd_metrics_refused(reasons[why]);
		httpd_text(rq, MHD_HTTP_SERVICE_UNAVAILABLE, why == HTTPD_FULL ? "too many requests wait; try again" :
			   "it waited for a worker until its time was over");
		if (rq->httpd->o.refuse)
			rq->httpd->o.refuse(rq, rq->lane, why, rq->httpd->o.arg);
		httpd_retry(rq);
	}
	httpd_response_build(rq);
}
