/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/authorization.h"

#include <strings.h>

/* "Basic x", in either case, with one blank or more. */
static bool take_scheme(struct view *v, struct view scheme)
{
	if (v->len <= scheme.len || strncasecmp(v->ptr, scheme.ptr, scheme.len) != 0 || v->ptr[scheme.len] != ' ')
		return false;
	size_t skip = scheme.len;
	while (skip < v->len && v->ptr[skip] == ' ')
		skip++;
	*v = view_make(v->ptr + skip, v->len - skip);
	return true;
}

static bool parse_basic(struct view v, struct authorization *ret)
{
	size_t n;
	if (!base64_decode(v, ret->bytes, &n))
		return false;
	const char *colon = memchr(ret->bytes, ':', n);
	if (!colon)
		return false;
	ret->user = view_make(ret->bytes, (size_t)(colon - ret->bytes));
	ret->secret = view_make(colon + 1, n - ret->user.len - 1);
	return true;
}

void authorization_parse(struct view header, struct authorization *ret)
{
	ret->kind = header.ptr ? AUTHORIZATION_MALFORMED : AUTHORIZATION_NONE;
	ret->user = ret->secret = view_make(NULL, 0);
	if (!header.len || header.len > AUTHORIZATION_MAX)
		return;
	if (take_scheme(&header, VIEW("Basic"))) {
		if (parse_basic(header, ret))
			ret->kind = AUTHORIZATION_BASIC;
	} else if (take_scheme(&header, VIEW("Bearer")) && header.len) {
		ret->kind = AUTHORIZATION_BEARER;
		ret->secret = header;
	}
}

void authorization_clear(struct authorization *a)
{
	explicit_bzero(a, sizeof *a);
}
