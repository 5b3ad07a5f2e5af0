/* SPDX-License-Identifier: Apache-2.0 */
/* One signed request to S3 and its answer. */
#ifndef PYRRHA_BUCKET_S3_EXCHANGE_H
#define PYRRHA_BUCKET_S3_EXCHANGE_H

#include "bucket/credentials.h"
#include "bucket/s3_error.h"
#include "bucket/s3_url.h"
#include "fetch/fetch.h"

struct s3 {
	struct backend base;
	const struct s3_config *config;
	struct http_config http;
	struct fetch_client *client;
	struct credentials *credentials;
	struct s3_place place;
	atomic_bool proven;          /* it has refused to put what is there */
};

#define S3_ERROR_MAX ((size_t)64 << 10) /* bytes of the body of an error that are kept */
/* Indices of s3_exchange.headers. */
enum { S3_ETAG, S3_REGION_HEADER, S3_DATE, S3_CONTENT_RANGE, S3_CONTENT_LENGTH };

struct s3_exchange {
	/* The request: */
	enum s3_operation operation;
	const char *method;
	const char *key;             /* for the path; "" = the bucket */
	const char *about;           /* for messages: the key, or the prefix of a list */
	const char *query;           /* "", or sorted and encoded */
	const char *content_sha256;
	const char *range;           /* NULL, or "bytes=0-9" */
	bool if_absent;
	const struct fetch_upload *upload;
	/* NULL, or called for the body of a good answer, before it with NULL and 0 bytes. An error ends the exchange and is its result. */
	int (*data)(void *arg, const char *p, size_t n, struct err *e);
	void *arg;
	uint64_t max_bytes;          /* of the answer's body */
	/* The answer: */
	int status;
	bool headed;                 /* all of its head came */
	char headers[FETCH_HEADERS_MAX][128];
	struct buf body;             /* without data, or of an error, its beginning */
	int64_t retry_after_s;
	struct err data_error;       /* the error that the data callback returned; code 0 = it returned none */
	bool ended;                  /* the data callback sets it when it needs no more bytes; the exchange then ends without an error */
	struct credentials_key signer; /* what it was signed with */
};

/* 0: an answer came, whatever its status. An error of data comes back as it is. */
int s3_exchange_run(struct s3 *s, struct s3_exchange *x, struct backend_attempt *a, struct err *e) MUST_USE;
void s3_exchange_release(struct s3_exchange *x);
/* The error that an unwanted answer is; returns -code. */
int s3_exchange_refused(struct s3 *s, const struct s3_exchange *x, struct backend_attempt *a, struct err *e) MUST_USE;

#endif
