/* SPDX-License-Identifier: Apache-2.0 */
/* https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html:
 *
 *	canonical request   method, path, query, headers, names of headers, hash of the body; a line each
 *	string to sign      AWS4-HMAC-SHA256, time, scope, hash of the canonical request; a line each
 *	scope               DATE/REGION/SERVICE/aws4_request
 *	key                 HMAC(HMAC(HMAC(HMAC("AWS4" secret, DATE), REGION), SERVICE), "aws4_request")
 *	signature           HMAC(key, string to sign) */
#include "bucket/sigv4.h"

#include <time.h>

#define SIGV4_DAY 8 /* bytes of a date that say the day */

void sigv4_date(int64_t now_ms, char ret[SIGV4_DATE])
{
	time_t s = (time_t)(now_ms / 1000);
	struct tm t;
	gmtime_r(&s, &t);
	if (!strftime(ret, SIGV4_DATE, "%Y%m%dT%H%M%SZ", &t))
		*ret = 0;
}

static void sigv4_names(const struct sigv4_request *q, struct buf *out)
{
	for (size_t i = 0; i < q->n_headers; i++)
		buf_printf(out, "%s%s", i ? ";" : "", q->headers[i].name);
}

void sigv4_canonical(const struct sigv4_request *q, struct buf *out)
{
	buf_printf(out, "%s\n%.*s\n%.*s\n", q->method, VIEW_ARG(q->path), VIEW_ARG(q->query));
	for (size_t i = 0; i < q->n_headers; i++)
		buf_printf(out, "%s:%.*s\n", q->headers[i].name, VIEW_ARG(q->headers[i].value));
	buf_putc(out, '\n');
	sigv4_names(q, out);
	buf_printf(out, "\n%s", q->content_sha256);
}

/* The words in which the dialects differ. */
static const char *sigv4_algorithm(const struct sigv4_request *q)
{
	return q->google ? "GOOG4-HMAC-SHA256" : "AWS4-HMAC-SHA256";
}

static struct view sigv4_end(const struct sigv4_request *q)
{
	return q->google ? VIEW("goog4_request") : VIEW("aws4_request");
}

static void sigv4_scope(const struct sigv4_request *q, const char *date, struct buf *out)
{
	buf_printf(out, "%.*s/%s/%s/%.*s", SIGV4_DAY, date, q->region, q->service, VIEW_ARG(sigv4_end(q)));
}

static void sigv4_string_to_sign(const struct sigv4_request *q, const char *date, struct buf *out)
{
	uint8_t hash[SHA256_LEN];
	char hex[SHA256_HEX];
	struct buf canonical = { 0 };
	sigv4_canonical(q, &canonical);
	sha256_of(buf_view(&canonical), hash);
	buf_free(&canonical);
	sha256_hex(hash, hex);
	buf_printf(out, "%s\n%s\n", sigv4_algorithm(q), date);
	sigv4_scope(q, date, out);
	buf_printf(out, "\n%s", hex);
}

static void sigv4_key(const struct sigv4_request *q, const char *date, uint8_t key[SHA256_LEN])
{
	const struct view parts[] = { view_make(date, SIGV4_DAY), view_of(q->region), view_of(q->service), sigv4_end(q) };
	struct buf first = { 0 };
	buf_puts(&first, q->google ? "GOOG4" : "AWS4");
	buf_putv(&first, q->secret_key);
	hmac_sha256(buf_view(&first), parts[0], key);
	explicit_bzero(first.ptr, first.len);
	buf_free(&first);
	for (size_t i = 1; i < ARRAY_LEN(parts); i++) {
		uint8_t next[SHA256_LEN];
		hmac_sha256(view_make((const char *)key, SHA256_LEN), parts[i], next);
		memcpy(key, next, SHA256_LEN);
	}
}

void sigv4_sign(const struct sigv4_request *q, struct buf *out)
{
	uint8_t key[SHA256_LEN], signature[SHA256_LEN];
	char date[SIGV4_DATE], hex[SHA256_HEX];
	struct buf text = { 0 };
	sigv4_date(q->now_ms, date);
	sigv4_key(q, date, key);
	sigv4_string_to_sign(q, date, &text);
	hmac_sha256(view_make((const char *)key, SHA256_LEN), buf_view(&text), signature);
	explicit_bzero(key, sizeof key);
	sha256_hex(signature, hex);
	buf_free(&text);
	buf_printf(out, "%s Credential=%.*s/", sigv4_algorithm(q), VIEW_ARG(q->access_key));
	sigv4_scope(q, date, out);
	buf_puts(out, ", SignedHeaders=");
	sigv4_names(q, out);
	buf_printf(out, ", Signature=%s", hex);
}
