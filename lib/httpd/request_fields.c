/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler can read of its request: headers and parameters. */
#include <stdlib.h>
#include <strings.h>

#include "httpd/internal.h"

int httpd_param_add(struct httpd_request *rq, struct view name, struct view value, struct err *e)
{
	if (rq->params.n == MAX_PARAMS)
		return err_set(e, ERR_BAD_DATA, "more than %d parameters", MAX_PARAMS);
	vec_push(&rq->params, (struct httpd_param){ name, value });
	return 0;
}

void httpd_request_drop_headers(struct httpd_request *rq)
{
	for (size_t i = 0; i < rq->headers.n; i++) {
		free(rq->headers.v[i].name);
		free(rq->headers.v[i].value);
	}
	vec_free(&rq->headers);
}

void httpd_request_drop_header(struct httpd_request *rq, const char *name)
{
	size_t kept = 0;
	for (size_t i = 0; i < rq->headers.n; i++) {
		struct response_header h = rq->headers.v[i];
		if (strcasecmp(h.name, name) != 0) {
			rq->headers.v[kept++] = h;
			continue;
		}
		free(h.name);
		free(h.value);
	}
	rq->headers.n = kept;
}

void httpd_wait_at_most(struct httpd_request *rq, int64_t ms)
{
	rq->late_ns = rq->arrived_ns + ms * 1000000;
}

int64_t httpd_arrived_ns(const struct httpd_request *rq)
{
	return rq->arrived_ns;
}

bool httpd_parsed(const struct httpd_request *rq)
{
	return rq->parsed;
}

enum httpd_method httpd_method(const struct httpd_request *rq)
{
	return rq->method;
}

struct view httpd_path(const struct httpd_request *rq)
{
	return rq->path;
}

struct view httpd_query(const struct httpd_request *rq)
{
	return rq->query;
}

struct view httpd_segment(const struct httpd_request *rq, const char *name)
{
	for (size_t i = 0; i < rq->n_segments; i++)
		if (view_eqs(rq->segments[i].name, name))
			return rq->segments[i].value;
	return view_make(NULL, 0);
}

const struct httpd_param *httpd_params(const struct httpd_request *rq, size_t *ret_n)
{
	*ret_n = rq->params.n;
	return rq->params.v;
}

struct view httpd_param(const struct httpd_request *rq, const char *name)
{
	for (size_t i = 0; i < rq->params.n; i++)
		if (view_eqs(rq->params.v[i].name, name))
			return rq->params.v[i].value;
	return view_make(NULL, 0);
}

struct view httpd_header(const struct httpd_request *rq, const char *name)
{
	return view_of(MHD_lookup_connection_value(rq->connection, MHD_HEADER_KIND, name));
}

struct view httpd_body(const struct httpd_request *rq)
{
	return buf_view(&rq->body);
}

const atomic_bool *httpd_canceled(const struct httpd_request *rq)
{
	return &rq->canceled;
}

struct arena *httpd_arena(struct httpd_request *rq)
{
	return &rq->arena;
}
