/* SPDX-License-Identifier: Apache-2.0 */
/* Where a request ends, and what its headers are: refuses those that a proxy in front may read in another way than we do, because
 * behind such a proxy a client could hide a second request in the first, or say another host or login than the proxy saw. On the loop,
 * when the headers have arrived: before the route, the login and the body. RFC 9112, 5.1 and 6.1 to 6.3.
 *
 *	Content-Length twice, and not the same                   400
 *	Transfer-Encoding with Content-Length, in HTTP/1.0       400
 *	Transfer-Encoding other than once "chunked"              501: libmicrohttpd would read on until the client closes
 *	Host or Authorization twice; a name that is no token     400
 *	a NUL in a header, a header on several lines             400, see below
 *	a CR in a value: other readers end the line there        400
 *
 * libmicrohttpd up to 0.9.75 ends a value at a NUL, ends the headers at a line that begins with one, and appends the second line of a
 * header to its name. None of this shows in what it hands over, but all names and values lie in the buffer that was read, one after the
 * other: between a value and the next name are the line's end, one or two bytes, and nothing else. More is what the parser passed over.
 * Later versions refuse all of that themselves. A line that ends with LF alone is allowed in either.
 *
 * The connection is closed after a refusal, and after a chunked body, whose framing is the parser's alone: what follows might be meant to
 * belong to it. */
#include <string.h>

#include "base/num.h"
#include "httpd/internal.h"

#define OLD_PARSER 75 /* of 0.9.75 */

struct framing {
	bool by_place;        /* names and values lie in the buffer as they were sent */
	const char *end;      /* of the last value; NULL: there is none yet */
	const char *wrong;    /* NULL: nothing */
	struct view length, coding;
	unsigned n_length, n_coding, n_host, n_authorization;
};

static bool framing_by_place(void)
{
	static const struct view minor = { "0.9.", 4 };
	struct view v = view_of(MHD_get_version());
	uint64_t n;
	return view_starts(v, minor) && num_parse_u64(view_make(v.ptr + minor.len, v.len - minor.len), &n) && n <= OLD_PARSER;
}

static bool framing_is_token(struct view name)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i], letter = (char)(c | 0x20);
		if (!(letter >= 'a' && letter <= 'z') && !(c >= '0' && c <= '9') && !(c && strchr(marks, c)))
			return false;
	}
	return name.len > 0;
}

static void framing_length(struct framing *f, struct view value)
{
	if (f->n_length++ && !view_eq(f->length, value))
		f->wrong = "two headers Content-Length that differ";
	f->length = value;
}

static enum MHD_Result framing_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t n_name, const char *value, size_t n_value)
{
	struct framing *f = arg;
	struct view n = view_make(name, n_name), v = view_make(value, n_value);
	(void)kind;
	if (f->by_place && f->end && (name <= f->end || name - f->end > 2))
		f->wrong = "a header with a NUL, or on several lines";
	else if (!value || !framing_is_token(n))
		f->wrong = "a header whose name is empty or has characters that names cannot have";
	if (f->wrong)
		return MHD_NO;
	if (memchr(value, '\r', n_value))
		f->wrong = "a header with a CR that does not end its line";
	f->end = value + n_value;
	if (view_eq_nocase(n, VIEW(MHD_HTTP_HEADER_CONTENT_LENGTH))) {
		framing_length(f, v);
	} else if (view_eq_nocase(n, VIEW(MHD_HTTP_HEADER_TRANSFER_ENCODING))) {
		f->n_coding++;
		f->coding = v;
	} else if (view_eq_nocase(n, VIEW(MHD_HTTP_HEADER_HOST))) {
		if (f->n_host++)
			f->wrong = "two headers Host";
	} else if (view_eq_nocase(n, VIEW(MHD_HTTP_HEADER_AUTHORIZATION)) && f->n_authorization++) {
		f->wrong = "two headers Authorization";
	}
	return f->wrong ? MHD_NO : MHD_YES;
}

/* What follows the last value: its line's end and the empty line. */
static bool framing_ends_well(const struct framing *f, struct MHD_Connection *c, const char *method)
{
	const union MHD_ConnectionInfo *size = MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	if (!f->by_place || !f->end || !size)
		return true;
	ptrdiff_t rest = method + size->header_size - f->end;
	return rest >= 2 && rest <= 4;
}

static int framing_status(struct framing *f, const char *version)
{
	if (f->wrong)
		return MHD_HTTP_BAD_REQUEST;
	if (!f->n_coding)
		return 0;
	if (f->n_length)
		f->wrong = "Content-Length and Transfer-Encoding";
	else if (strcmp(version, "HTTP/1.0") == 0)
		f->wrong = "Transfer-Encoding in HTTP/1.0";
	if (f->wrong)
		return MHD_HTTP_BAD_REQUEST;
	if (f->n_coding == 1 && view_eq_nocase(f->coding, VIEW("chunked")))
		return 0;
	f->wrong = "a Transfer-Encoding other than chunked";
	return MHD_HTTP_NOT_IMPLEMENTED;
}

bool httpd_refuse_framing(struct httpd_request *rq, const char *method, const char *version)
{
	struct framing f = { .by_place = framing_by_place() };
	MHD_get_connection_values_n(rq->connection, MHD_HEADER_KIND, framing_header, &f);
	if (!f.wrong && !framing_ends_well(&f, rq->connection, method))
		f.wrong = "a header with a NUL";
	int status = framing_status(&f, version);
	rq->closes = status || f.n_coding;
	if (!status)
		return false;
	httpd_metrics_refused("framing");
	httpd_text(rq, status, "refused: the request has %s", f.wrong);
	return true;
}
