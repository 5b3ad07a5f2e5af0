/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket/s3_url.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"

static bool s3_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

static bool s3_name_chars(struct view v, const char *others)
{
	for (size_t i = 0; i < v.len; i++)
		if (!s3_name_char(v.ptr[i]) && !(v.ptr[i] && strchr(others, v.ptr[i])))
			return false;
	return v.len;
}

/* "amazonaws.com" or "amazonaws.com.cn" behind a dot; the part before it is left. */
static bool s3_cut_aws(struct view *host)
{
	static const char *const ends[] = { ".amazonaws.com", ".amazonaws.com.cn" };
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (view_ends(*host, view_of(ends[i]))) {
			host->len -= strlen(ends[i]);
			return true;
		}
	return false;
}

static bool s3_is_google(struct view host)
{
	return view_eqs(host, "storage.googleapis.com");
}

/* The section's, else the endpoint's, else that of the environment. AWS's endpoints name theirs: s3.eu-west-1, s3-eu-west-1, s3.dualstack.eu-west-1. */
static char *s3_region(const struct s3_config *c, struct view host)
{
	if (*c->region)
		return xstrdup(c->region);
	if (s3_is_google(host))
		return xstrdup("auto");
	if (s3_cut_aws(&host)) {
		struct view label = host;
		while (host.len)
			label = view_cut(&host, '.');
		if (view_starts(label, VIEW("s3-")))
			label = view_make(label.ptr + 3, label.len - 3);
		if (memchr(label.ptr, '-', label.len) && !view_starts(label, VIEW("external")))
			return xstrndup(label.ptr, label.len);
	}
	const char *named = getenv("AWS_REGION"), *usual = getenv("AWS_DEFAULT_REGION");
	return xstrdup(named && *named ? named : usual && *usual ? usual : "us-east-1");
}

/* Whether the host names the bucket. A bucket with dots does not fit into AWS's certificate. */
static bool s3_in_host(const struct s3_config *c, struct view host)
{
	if (c->lookup != S3_LOOKUP_AUTO)
		return c->lookup == S3_LOOKUP_VIRTUAL_HOSTED;
	return s3_cut_aws(&host) && (c->insecure || !strchr(c->bucket, '.'));
}

int s3_place_init(struct s3_place *ret, const struct s3_config *c, struct err *e)
{
	struct view endpoint = view_of(c->endpoint), host = endpoint, own_port = c->insecure ? VIEW(":80") : VIEW(":443");
	*ret = (struct s3_place){ 0 };
	if (!s3_name_chars(view_of(c->bucket), "") || strlen(c->bucket) > 255 || strcmp(c->bucket, ".") == 0 || strcmp(c->bucket, "..") == 0)
		return err_set(e, ERR_BAD_DATA, "\"%s\" cannot be the name of a bucket", c->bucket);
	if (!s3_name_chars(endpoint, ":[]"))
		return err_set(e, ERR_BAD_DATA, "the endpoint \"%s\" is no host or host:port", c->endpoint);
	if (view_ends(endpoint, own_port))
		endpoint.len -= own_port.len;
	const char *colon = memrchr(endpoint.ptr, ':', endpoint.len);
	host = colon ? view_make(endpoint.ptr, (size_t)(colon - endpoint.ptr)) : endpoint;
	bool in_host = s3_in_host(c, host);
	ret->host = xasprintf("%s%s%.*s", in_host ? c->bucket : "", in_host ? "." : "", VIEW_ARG(endpoint));
	ret->scheme_host = xasprintf("%s://%s", c->insecure ? "http" : "https", ret->host);
	ret->path = xasprintf("%s%s", in_host ? "" : "/", in_host ? "" : c->bucket);
	ret->region = s3_region(c, host);
	ret->google = s3_is_google(host);
	if (!s3_name_chars(view_of(ret->region), ""))
		return err_set(e, ERR_BAD_DATA, "\"%s\" cannot be a region", ret->region);
	return 0;
}

void s3_place_release(struct s3_place *p)
{
	free(p->scheme_host);
	free(p->host);
	free(p->path);
	free(p->region);
}
