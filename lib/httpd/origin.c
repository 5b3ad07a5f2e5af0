/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a page of another site makes a person's browser send. Two rules:
 *
 *	what changes something (has no GET)      Sec-Fetch-Site is same-origin or none, where a browser sends it; Origin is that of
 *	                                         Host, X-Forwarded-Host or the external URL. "null" is none of them
 *	everything, on a loopback listener       Host is an IP address, localhost, *.localhost, the external URL's or an allowed one.
 *	but HTTPD_ANY_HOST                       A name that someone else's DNS lets point here (rebinding) is not
 *
 * A client that sends no such headers is not a browser: curl, Prometheus, kubelet. */
#include <arpa/inet.h>
#include <strings.h>

#include "base/num.h"
#include "httpd/internal.h"

/* "host", "host:80", "[::1]:80". */
struct authority {
	struct view host; /* without brackets and the last dot */
	uint64_t port;    /* 0: not given */
	bool literal;     /* in brackets */
};

static bool split_authority(struct view v, struct authority *ret)
{
	*ret = (struct authority){ 0 };
	const char *colon = v.len ? memrchr(v.ptr, ':', v.len) : NULL;
	const char *bracket = v.len && v.ptr[0] == '[' ? memchr(v.ptr, ']', v.len) : NULL;
	if (bracket && colon && colon < bracket)
		colon = NULL;
	ret->host = v;
	if (colon) {
		ret->host.len = (size_t)(colon - v.ptr);
		if (!num_parse_u64(view_make(colon + 1, v.len - ret->host.len - 1), &ret->port) || !ret->port || ret->port > 65535)
			return false;
	}
	ret->literal = bracket && bracket == ret->host.ptr + ret->host.len - 1;
	if (ret->literal)
		ret->host = view_make(v.ptr + 1, ret->host.len - 2);
	else if (view_ends(ret->host, VIEW(".")))
		ret->host.len--;
	return ret->host.len > 0;
}

/* "https://example.org:8443/path" into its authority, with the port that is meant. */
static bool split_origin(struct view v, struct authority *ret)
{
	bool secure = view_starts(v, VIEW("https://"));
	size_t skip = secure ? 8 : 7;
	if (!secure && !view_starts(v, VIEW("http://")))
		return false;
	v = view_make(v.ptr + skip, v.len - skip);
	const char *slash = v.len ? memchr(v.ptr, '/', v.len) : NULL;
	if (slash)
		v.len = (size_t)(slash - v.ptr);
	if (!split_authority(v, ret))
		return false;
	if (!ret->port)
		ret->port = secure ? 443 : 80;
	return true;
}

/* Whether these bytes of a Host header are the origin's; a port that Host leaves out is its scheme's own. */
static bool is_host(const struct authority *origin, bool secure, struct view host)
{
	struct authority a;
	const char *comma = host.len ? memchr(host.ptr, ',', host.len) : NULL;
	if (comma) /* X-Forwarded-Host of several proxies: the first is what the browser asked */
		host.len = (size_t)(comma - host.ptr);
	if (!split_authority(host, &a))
		return false;
	return view_eq_nocase(a.host, origin->host) && (a.port ? a.port : secure ? 443u : 80u) == origin->port;
}

static bool is_own_origin(const struct httpd_request *rq, struct view origin)
{
	struct authority a, external;
	bool secure = view_starts(origin, VIEW("https://"));
	if (!split_origin(origin, &a))
		return false;
	if (is_host(&a, secure, httpd_header(rq, MHD_HTTP_HEADER_HOST)) || is_host(&a, secure, httpd_header(rq, "X-Forwarded-Host")))
		return true;
	struct view url = view_of(rq->httpd->external_url);
	return split_origin(url, &external) && secure == view_starts(url, VIEW("https://")) && view_eq_nocase(a.host, external.host) &&
	       a.port == external.port;
}

static bool is_address(const struct authority *a)
{
	char text[64];
	struct in6_addr any;
	if (a->host.len >= sizeof text)
		return false;
	memcpy(text, a->host.ptr, a->host.len);
	text[a->host.len] = 0;
	return inet_pton(a->literal ? AF_INET6 : AF_INET, text, &any) == 1;
}

static bool is_own_name(const struct httpd *h, struct view host)
{
	struct authority a, other;
	static const struct view below = { ".localhost", 10 };
	if (!split_authority(host, &a))
		return false;
	if (is_address(&a) || view_eq_nocase(a.host, VIEW("localhost")) ||
	    (a.host.len > below.len && view_eq_nocase(view_make(a.host.ptr + a.host.len - below.len, below.len), below)))
		return true;
	if (split_origin(view_of(h->external_url), &other) && view_eq_nocase(a.host, other.host))
		return true;
	for (size_t i = 0; i < h->allowed_hosts.n; i++)
		if (split_authority(view_of(h->allowed_hosts.v[i]), &other) && view_eq_nocase(a.host, other.host))
			return true;
	return false;
}

bool httpd_refuse_stranger(struct httpd_request *rq)
{
	unsigned flags = rq->route ? rq->route->flags : 0;
	struct view host = httpd_header(rq, MHD_HTTP_HEADER_HOST), site = httpd_header(rq, "Sec-Fetch-Site"),
		    origin = httpd_header(rq, MHD_HTTP_HEADER_ORIGIN);
	if (rq->loopback && host.len && !(flags & HTTPD_ANY_HOST) && !is_own_name(rq->httpd, host)) {
		httpd_metrics_refused("host");
		httpd_text(rq, MHD_HTTP_FORBIDDEN, "refused: the request is for \"%.*s\", which is not known to be a name of this server. If it is, "
			   "start it with --web.allowed-host=NAME", (int)MIN(host.len, 200), host.ptr);
		return true;
	}
	if (!rq->route || (rq->route->methods & HTTPD_GET) ||
	    ((!site.len || view_eqs(site, "same-origin") || view_eqs(site, "none")) && (!origin.ptr || is_own_origin(rq, origin))))
		return false;
	httpd_metrics_refused("origin");
	httpd_text(rq, MHD_HTTP_FORBIDDEN, "refused: this request comes from a page of another site%s%.*s. If a proxy stands between, it has to "
		   "pass Host or X-Forwarded-Host on%s", origin.len ? ", " : "", (int)MIN(origin.len, 200), origin.len ? origin.ptr : "",
		   rq->httpd->o.has_external_url ? ", or --web.external-url has to name its address" : "");
	return true;
}
