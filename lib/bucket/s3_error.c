/* SPDX-License-Identifier: Apache-2.0 */
/* One table has the codes of S3 that mean something of their own; other answers are judged by their status. Messages of the server are shown only
 * for codes that are not in it, cleaned: they may repeat what was sent. */
#include "bucket/s3_error.h"

#include "base/clock.h"
#include "base/num.h"
#include "bucket/s3_xml.h"

#define S3_CODE 64
#define S3_MESSAGE 256

struct s3_words {
	char code[S3_CODE], message[S3_MESSAGE], region[S3_CODE];
	uint64_t size;
	bool has_size;
};

/* What else than the error's code follows from a row. */
enum s3_follows { S3_NOTHING, S3_EXPIRED, S3_RIGHTS, S3_BUCKET, S3_REGION, S3_CLOCK };

struct s3_row {
	const char *code;
	enum err_code err;
	enum s3_follows follows;
	const char *text; /* after "S3 answered 403 AccessDenied to a put of KEY" */
};

static const struct s3_row s3_rows[] = {
	{ "AccessDenied", ERR_DENIED, S3_RIGHTS, "the credentials do not allow it" },
	{ "AllAccessDisabled", ERR_DENIED, S3_NOTHING, "access to this bucket is switched off" },
	{ "AccountProblem", ERR_DENIED, S3_NOTHING, "the account of the credentials has a problem" },
	{ "InvalidAccessKeyId", ERR_DENIED, S3_NOTHING, "the store does not know the access key" },
	{ "XAdminUserNotFound", ERR_DENIED, S3_NOTHING, "the store does not know the access key" },
	{ "SignatureDoesNotMatch", ERR_DENIED, S3_NOTHING, "the secret key does not belong to the access key (or a proxy changes requests)" },
	{ "ExpiredToken", ERR_DENIED, S3_EXPIRED, "the credentials have expired" },
	{ "ExpiredTokenException", ERR_DENIED, S3_EXPIRED, "the credentials have expired" },
	{ "TokenRefreshRequired", ERR_DENIED, S3_EXPIRED, "the credentials have expired" },
	{ "InvalidToken", ERR_DENIED, S3_EXPIRED, "the session token is not valid" },
	{ "RequestTimeTooSkewed", ERR_DENIED, S3_CLOCK, "the clocks of this host and of the store differ too much" },
	{ "RequestExpired", ERR_DENIED, S3_CLOCK, "the clocks of this host and of the store differ too much" },
	{ "NoSuchBucket", ERR_DENIED, S3_BUCKET, "there is no such bucket" },
	{ "InvalidBucketName", ERR_DENIED, S3_BUCKET, "there cannot be such a bucket" },
	{ "PermanentRedirect", ERR_DENIED, S3_REGION, "the bucket is elsewhere" },
	{ "TemporaryRedirect", ERR_UNAVAILABLE, S3_NOTHING, "the bucket is elsewhere for now" },
	{ "AuthorizationHeaderMalformed", ERR_DENIED, S3_REGION, "the region is not the bucket's" },
	{ "IllegalLocationConstraintException", ERR_DENIED, S3_REGION, "the region is not the bucket's" },
	{ "NoSuchKey", ERR_NOT_FOUND, S3_NOTHING, "there is no such object" },
	{ "PreconditionFailed", ERR_CONFLICT, S3_NOTHING, "there is an object of this key" },
	{ "ConditionalRequestConflict", ERR_BUSY, S3_NOTHING, "another request for this key was under way" },
	{ "OperationAborted", ERR_BUSY, S3_NOTHING, "another request for this key was under way" },
	{ "SlowDown", ERR_BUSY, S3_NOTHING, "the store wants fewer requests" },
	{ "TooManyRequests", ERR_BUSY, S3_NOTHING, "the store wants fewer requests" },
	{ "RequestLimitExceeded", ERR_BUSY, S3_NOTHING, "the store wants fewer requests" },
	{ "RequestTimeout", ERR_TIMEOUT, S3_NOTHING, "the store waited for the body too long" },
	{ "BadDigest", ERR_UNAVAILABLE, S3_NOTHING, "the body was damaged on its way" },
	{ "XAmzContentSHA256Mismatch", ERR_UNAVAILABLE, S3_NOTHING, "the body was damaged on its way" },
	{ "IncompleteBody", ERR_UNAVAILABLE, S3_NOTHING, "the body was cut short on its way" },
	{ "EntityTooLarge", ERR_LIMIT, S3_NOTHING, "the object is larger than the store allows" },
	{ "QuotaExceeded", ERR_LIMIT, S3_NOTHING, "the quota is used up" },
	{ "InsufficientStorage", ERR_LIMIT, S3_NOTHING, "the store is full" },
	{ "XMinioStorageFull", ERR_LIMIT, S3_NOTHING, "the store is full" },
	{ "NotImplemented", ERR_EXECUTION, S3_NOTHING,
	  "the store cannot do what this needs, for a put \"If-None-Match: *\" (only if absent); it cannot be used" },
};

static const struct s3_row *s3_row_of_code(const char *code)
{
	for (size_t i = 0; i < ARRAY_LEN(s3_rows); i++)
		if (strcmp(s3_rows[i].code, code) == 0)
			return &s3_rows[i];
	return NULL;
}

/* For answers without a code in the table, as those of proxies. */
static enum err_code s3_err_of_status(int status)
{
	if (status == 429 || status == 503)
		return ERR_BUSY;
	if (status == 507)
		return ERR_LIMIT;
	if (status == 501)
		return ERR_EXECUTION;
	if (status >= 500)
		return ERR_UNAVAILABLE;
	if (status == 408)
		return ERR_TIMEOUT;
	if (status == 412)
		return ERR_CONFLICT;
	if (status == 409)
		return ERR_BUSY;
	if (status == 413)
		return ERR_LIMIT;
	return status == 401 || status == 403 || status == 407 ? ERR_DENIED : ERR_BAD_DATA;
}

/* Printable ASCII only, cut off where the room ends. */
static void s3_copy(char *to, size_t room, struct view from)
{
	size_t n = 0;
	for (size_t i = 0; i < from.len && n < room - 1; i++)
		if (from.ptr[i] >= ' ' && from.ptr[i] < 0x7f)
			to[n++] = from.ptr[i];
	to[n] = 0;
}

/* AWS has "Error/Code"; STS has the same within "ErrorResponse". */
static int s3_word_end(void *arg, const char *path, struct view text, struct err *e)
{
	struct s3_words *w = arg;
	if (strcmp(path, "Error/Code") == 0)
		s3_copy(w->code, sizeof w->code, text);
	else if (strcmp(path, "Error/Message") == 0)
		s3_copy(w->message, sizeof w->message, text);
	else if (strcmp(path, "Error/Region") == 0)
		s3_copy(w->region, sizeof w->region, text);
	else if (strcmp(path, "Error/ActualObjectSize") == 0)
		w->has_size = num_parse_u64(text, &w->size);
	return 0;
}

/* An answer that is no XML, or is cut off, has the words that came before. */
static void s3_words_read(struct view body, struct s3_words *w)
{
	struct err ignored = { 0 };
	*w = (struct s3_words){ 0 };
	IGNORE(s3_xml_each(body, s3_word_end, w, &ignored));
}

bool s3_error_size(struct view body, uint64_t *ret)
{
	struct s3_words w;
	s3_words_read(body, &w);
	*ret = w.size;
	return w.has_size;
}

static bool s3_has_secret(const char *text, const struct s3_context *c)
{
	for (size_t i = 0; i < ARRAY_LEN(c->secrets); i++)
		if (c->secrets[i].len >= 4 && view_contains(view_of(text), c->secrets[i]))
			return true;
	return strcasestr(text, "signature") || strcasestr(text, "token");
}

static void s3_put_cause(const struct s3_row *row, const struct s3_words *w, const struct s3_answer *x, const struct s3_context *c, struct buf *out)
{
	char now[RFC3339_LEN], region[S3_CODE], date[S3_CODE];
	s3_copy(region, sizeof region, view_of(*x->region ? x->region : w->region));
	s3_copy(date, sizeof date, view_of(x->date));
	buf_printf(out, ": %s", row->text);
	switch (row->follows) {
	case S3_RIGHTS:
		buf_puts(out, " (rights needed: s3:PutObject, s3:GetObject, s3:DeleteObject, s3:ListBucket)");
		break;
	case S3_BUCKET:
		buf_printf(out, ": %s at %s", c->bucket, c->endpoint);
		break;
	case S3_REGION:
		if (*region && !s3_has_secret(region, c) && strcmp(region, c->region) != 0)
			buf_printf(out, "; set region: %s (it is %s), and an endpoint of that region", region, c->region);
		else
			buf_printf(out, "; check region (it is %s) and endpoint (%s)", c->region, c->endpoint);
		break;
	case S3_CLOCK:
		buf_printf(out, "; here it is %s%s%s", clock_rfc3339_ms(clock_now_ms(), now), *date && !s3_has_secret(date, c) ? ", there " : "", s3_has_secret(date, c) ? "" : date);
		break;
	case S3_NOTHING:
	case S3_EXPIRED:
		break;
	}
}

/* Three words of answers mean something else for some operations. */
static const struct s3_row *s3_row(const struct s3_answer *x, const struct s3_words *w, const struct s3_context *c)
{
	const struct s3_row *row = s3_row_of_code(w->code);
	if (row && row->err == ERR_NOT_FOUND && (c->operation == S3_PUT || c->operation == S3_LIST))
		return s3_row_of_code("NoSuchBucket");
	if (!row && !*w->code && x->status == 301)
		return s3_row_of_code("PermanentRedirect");
	if (!row && x->status == 501)
		return s3_row_of_code("NotImplemented");
	return row;
}

int s3_error_set(const struct s3_answer *x, const struct s3_context *c, struct backend_attempt *a, bool *ret_expired, struct err *e)
{
	static const char *const operations[] = { [S3_PUT] = "a put of", [S3_GET] = "a get of", [S3_LIST] = "a list of", [S3_REMOVE] = "a delete of" };
	struct s3_words w;
	struct buf text = { 0 };
	s3_words_read(x->body, &w);
	const struct s3_row *row = s3_row(x, &w, c);
	enum err_code code = row ? row->err : s3_err_of_status(x->status);
	if (code == ERR_CONFLICT && c->operation != S3_PUT)
		code = ERR_BAD_DATA;
	if (row && row->follows == S3_EXPIRED && c->renewable)
		code = ERR_UNAVAILABLE;
	*ret_expired = row && row->follows == S3_EXPIRED;
	a->retry_after_ms = x->retry_after_s > 0 ? x->retry_after_s * 1000 : 0;
	bool shown = *w.code && !s3_has_secret(w.code, c);
	buf_printf(&text, "S3 answered %d%s%s to %s %s", x->status, shown || row ? " " : "", shown || row ? w.code : "", operations[c->operation], c->key);
	if (row)
		s3_put_cause(row, &w, x, c, &text);
	else if (*w.message && !s3_has_secret(w.message, c))
		buf_printf(&text, ": %s", w.message);
	else if (!*w.code && x->status < 500)
		buf_puts(&text, ", and not in S3's words: does S3 answer at this endpoint?");
	int rc = err_set(e, code, "%s", buf_view(&text).ptr);
	buf_free(&text);
	return rc;
}
