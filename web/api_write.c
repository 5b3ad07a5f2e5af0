/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/v1/write: floats come in as remote-write 1.0. Off unless the flag is set, because anyone who reaches the port could then
 * write. A sender repeats what is answered 5xx and gives up what is answered 4xx, so the status follows from whether repeating helps.
 * Answers are text/plain, as Prometheus's are. */
#include "remote/remote.h"
#include "web/internal.h"

/* "application/x-protobuf; proto=prometheus.WriteRequest": the first word, and no other message than 1.0's. */
static bool is_write_request(struct view type)
{
	static const struct view protobuf = { "application/x-protobuf", 22 };
	if (!type.len)
		return true; /* old senders */
	if (type.len < protobuf.len || strncasecmp(type.ptr, protobuf.ptr, protobuf.len) != 0)
		return false;
	struct view rest = view_make(type.ptr + protobuf.len, type.len - protobuf.len);
	if (rest.len && rest.ptr[0] != ';' && rest.ptr[0] != ' ')
		return false;
	return !memmem(rest.ptr, rest.len, "proto=", 6) ||
	       memmem(rest.ptr, rest.len, "proto=prometheus.WriteRequest", 29);
}

static bool write_allowed(struct httpd_request *rq, const struct web *w)
{
	struct view encoding = httpd_header(rq, "Content-Encoding");
	if (!w->o.enable_write)
		httpd_text(rq, 404, "remote write receiver needs to be enabled with --web.enable-remote-write-receiver");
	else if (!is_write_request(httpd_header(rq, "Content-Type")))
		httpd_text(rq, 415, "Content-Type must be application/x-protobuf with a message of remote-write 1.0");
	else if (encoding.len && !view_eqs(encoding, "snappy"))
		httpd_text(rq, 415, "Content-Encoding must be snappy");
	else if (!w->sink)
		httpd_text(rq, 503, "there is no storage");
	else
		return true;
	return false;
}

static void write_error(struct httpd_request *rq, const struct err *e)
{
	httpd_text_error(rq, e);
	if (e->code == ERR_LIMIT || e->code == ERR_IO)
		httpd_status(rq, e->code == ERR_LIMIT ? 413 : 503);
}

void serve_write(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e = { 0 };
	struct remote_result r;
	const struct remote_limits lim = { .memory = &w->writes };
	if (!write_allowed(rq, w))
		return;
	if (remote_receive(w->sink, httpd_body(rq), &lim, &r, &e))
		write_error(rq, &e);
	else if (r.rejected > r.duplicates)
		httpd_text(rq, 400, "%llu of %llu samples were rejected: too old, too far ahead, or of too many series",
			   (unsigned long long)(r.rejected - r.duplicates), (unsigned long long)(r.samples + r.rejected));
	else
		httpd_status(rq, 204); /* duplicates too: a message that is sent again after a lost answer is no error */
}
