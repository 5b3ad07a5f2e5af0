/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4 of one request to S3, and the same in the words of Google. It is computed here and not by curl: older versions of curl do not sign what S3
 * needs (x-amz-content-sha256, session tokens, some queries). */
#ifndef PYRRHA_BUCKET_SIGV4_H
#define PYRRHA_BUCKET_SIGV4_H

#include "base/buf.h"
#include "base/sha256.h"

/* A header that is signed. */
struct sigv4_header {
	const char *name;  /* lower case */
	struct view value;
};

struct sigv4_request {
	const char *method;
	struct view path;                   /* as it is sent: absolute, percent-encoded, without the query */
	struct view query;                  /* as it is sent: name=value pairs, percent-encoded, sorted by name */
	const struct sigv4_header *headers; /* all that are signed, sorted by name: "host" is one */
	size_t n_headers;
	const char *content_sha256;         /* of the body, in hexadecimal, or UNSIGNED-PAYLOAD */
	const char *region, *service;       /* "us-east-1", "s3" */
	bool google;                        /* Google's dialect, GOOG4-HMAC-SHA256 */
	struct view access_key, secret_key;
	int64_t now_ms;
};

#define SIGV4_DATE sizeof "20150830T123600Z"

/* The value of x-amz-date. */
void sigv4_date(int64_t now_ms, char ret[SIGV4_DATE]);
/* Appends the value of the header Authorization. */
void sigv4_sign(const struct sigv4_request *q, struct buf *out);
/* The canonical request, for tests: what is hashed and signed. */
void sigv4_canonical(const struct sigv4_request *q, struct buf *out);

#endif
