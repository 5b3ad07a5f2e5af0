/* SPDX-License-Identifier: Apache-2.0 */
/* A body of multipart/form-data (RFC 7578), as `curl -F` and some HTTP libraries send a form:
 *
 *	--BOUNDARY\r\n
 *	Content-Disposition: form-data; name="query"\r\n
 *	\r\n
 *	up\r\n
 *	--BOUNDARY--\r\n
 *
 * Parts become parameters, their values unchanged; files are ignored. Views into the body, nothing is copied. */
#include <strings.h>

#include "httpd/internal.h"

#define MAX_BOUNDARY 70 /* RFC 2046 */

/* The value of a parameter of a header: name=token or name="text". False if it is not there. In quoted text a backslash escapes
 * nothing, because none of our names contain quotes. */
static bool header_param(struct view header, const char *name, struct view *ret)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < header.len; i++) {
		if (header.ptr[i] != ';')
			continue;
		do
			i++;
		while (i < header.len && (header.ptr[i] == ' ' || header.ptr[i] == '\t'));
		struct view rest = view_make(header.ptr + i, header.len - i);
		i--;
		if (rest.len <= len || strncasecmp(rest.ptr, name, len) != 0 || rest.ptr[len] != '=')
			continue;
		rest = view_make(rest.ptr + len + 1, rest.len - len - 1);
		bool quoted = rest.len && *rest.ptr == '"';
		if (quoted)
			rest = view_make(rest.ptr + 1, rest.len - 1);
		size_t n = 0;
		while (n < rest.len && (quoted ? rest.ptr[n] != '"' : rest.ptr[n] != ';' && rest.ptr[n] != ' '))
			n++;
		if (quoted && n == rest.len)
			return false;
		*ret = view_make(rest.ptr, n);
		return true;
	}
	return false;
}

/* Cuts *rest behind the first `end`; false if it is missing. */
static bool cut(struct view *rest, struct view end, struct view *ret)
{
	const char *at = rest->len ? memmem(rest->ptr, rest->len, end.ptr, end.len) : NULL;
	if (!at)
		return false;
	*ret = view_make(rest->ptr, (size_t)(at - rest->ptr));
	*rest = view_make(at + end.len, rest->len - ret->len - end.len);
	return true;
}

/* name: of the part's form field, {NULL, 0} for a file or what has none. */
static struct view field_name(struct view headers)
{
	static const struct view disposition = { "content-disposition:", 20 };
	struct view line, name, file;
	while (headers.len) {
		if (!cut(&headers, VIEW("\r\n"), &line)) {
			line = headers;
			headers.len = 0;
		}
		if (line.len > disposition.len && strncasecmp(line.ptr, disposition.ptr, disposition.len) == 0 &&
		    header_param(line, "name", &name) && !header_param(line, "filename", &file))
			return name;
	}
	return view_make(NULL, 0);
}

int httpd_multipart_parse(struct httpd_request *rq, struct view type, struct err *e)
{
	struct view boundary, rest = buf_view(&rq->body), headers, value;
	char mark[MAX_BOUNDARY + 5] = "\r\n--";
	if (!header_param(type, "boundary", &boundary) || !boundary.len || boundary.len > MAX_BOUNDARY)
		return err_set(e, ERR_BAD_DATA, "the Content-Type of the multipart form names no boundary");
	memcpy(mark + 4, boundary.ptr, boundary.len);
	struct view delimiter = view_make(mark, boundary.len + 4), first = view_make(mark + 2, boundary.len + 2);
	bool ok = view_starts(rest, first) ? (rest = view_make(rest.ptr + first.len, rest.len - first.len), true)
					   : cut(&rest, delimiter, &value); /* the text before the first part is ignored */
	while (ok && !view_starts(rest, VIEW("--"))) {
		ok = cut(&rest, VIEW("\r\n"), &value);
		if (ok && view_starts(rest, VIEW("\r\n"))) {
			headers = view_make(NULL, 0);
			rest = view_make(rest.ptr + 2, rest.len - 2);
		} else {
			ok = ok && cut(&rest, VIEW("\r\n\r\n"), &headers);
		}
		ok = ok && cut(&rest, delimiter, &value);
		struct view name = ok ? field_name(headers) : view_make(NULL, 0);
		int rc = ok && name.len ? httpd_param_add(rq, name, value, e) : 0;
		if (rc)
			return rc;
	}
	return ok ? 0 : err_set(e, ERR_BAD_DATA, "the multipart form ends before its last boundary");
}
