/* SPDX-License-Identifier: Apache-2.0 */
/* Routing: the path against the table of routes, segment by segment. Tables are short (dozens of rows), so each
 * request walks it. */
#include "httpd/internal.h"

/* Takes the next segment off a path that begins with '/'. */
static struct view next_segment(struct view *path)
{
	struct view s = view_make(path->ptr + 1, path->len - 1);
	const char *slash = memchr(s.ptr, '/', s.len);
	if (slash)
		s.len = (size_t)(slash - s.ptr);
	path->ptr += s.len + 1;
	path->len -= s.len + 1;
	return s;
}

/* Whether the path is of this route; fills segments (not decoded). */
static bool path_matches(const char *pattern, struct view path, struct path_segment *segments, size_t *n)
{
	struct view want = view_of(pattern);
	*n = 0;
	while (want.len && path.len) {
		if (view_eqs(want, "/{*}")) {
			segments[(*n)++] = (struct path_segment){ VIEW("*"), view_make(path.ptr + 1, path.len - 1) };
			return true;
		}
		struct view w = next_segment(&want), p = next_segment(&path);
		if (w.len > 2 && w.ptr[0] == '{') {
			if (!p.len || *n == MAX_SEGMENTS)
				return false;
			segments[(*n)++] = (struct path_segment){ view_make(w.ptr + 1, w.len - 2), p };
		} else if (!view_eq(w, p)) {
			return false;
		}
	}
	return !want.len && !path.len;
}

static bool catches_all(const struct httpd_route *r)
{
	return view_ends(view_of(r->path), VIEW("{*}"));
}

static int decode_segments(struct httpd_request *rq)
{
	for (size_t i = 0; i < rq->n_segments; i++)
		if (!httpd_decode(&rq->arena, rq->segments[i].value, false, &rq->segments[i].value))
			return MHD_HTTP_BAD_REQUEST;
	return 0;
}

int httpd_route_request(struct httpd_request *rq)
{
	const struct httpd_options *o = &rq->httpd->o;
	if (rq->outside || !rq->path.len || rq->path.ptr[0] != '/')
		return MHD_HTTP_NOT_FOUND;
	bool other_method = false;
	for (int all = 0; all < 2 && !other_method; all++)
		for (size_t i = 0; i < o->n_routes; i++) {
			const struct httpd_route *r = &o->routes[i];
			if (catches_all(r) != (bool)all ||
			    !path_matches(r->path, rq->path, rq->segments, &rq->n_segments))
				continue;
			if (r->methods & rq->method) {
				rq->route = r;
				rq->handler = r->path;
				return decode_segments(rq);
			}
			other_method = true;
		}
	return other_method ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND;
}

void httpd_route_allow(const struct httpd_request *rq, struct buf *out)
{
	const struct httpd_options *o = &rq->httpd->o;
	struct path_segment segments[MAX_SEGMENTS];
	size_t n;
	unsigned methods = 0;
	for (int all = 0; all < 2 && !methods; all++)
		for (size_t i = 0; i < o->n_routes; i++)
			if (catches_all(&o->routes[i]) == (bool)all &&
			    path_matches(o->routes[i].path, rq->path, segments, &n))
				methods |= o->routes[i].methods;
	static const struct { unsigned bit; const char *names; } names[] = {
		{ HTTPD_GET, "GET, HEAD, " }, { HTTPD_POST, "POST, " }, { HTTPD_PUT, "PUT, " },
		{ HTTPD_DELETE, "DELETE, " },
	};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (methods & names[i].bit)
			buf_puts(out, names[i].names);
	buf_puts(out, "OPTIONS");
}
