/* SPDX-License-Identifier: Apache-2.0 */
/* What S3 answered to a request that it did not fulfil: its code, and the error that this is for the caller. */
#ifndef PYRRHA_BUCKET_S3_ERROR_H
#define PYRRHA_BUCKET_S3_ERROR_H

#include "bucket/backend.h"

enum s3_operation { S3_PUT, S3_GET, S3_LIST, S3_REMOVE };

/* An answer other than the one that was wanted. */
struct s3_answer {
	int status;
	struct view body;         /* its beginning */
	const char *region;       /* the header x-amz-bucket-region; "" = none */
	const char *date;         /* the header Date; "" = none */
	int64_t retry_after_s;    /* -1 = not said */
};

/* What the message names; none of it is shown if it is secret. */
struct s3_context {
	enum s3_operation operation;
	const char *key;          /* of the object, or the prefix of a list */
	const char *bucket, *endpoint, *region;
	bool renewable;           /* expired credentials are fetched anew */
	struct view secrets[3];   /* texts that a message must not have in it */
};

/* Sets the error by the table in backend.h, and a->retry_after_ms. *ret_expired: the credentials are to be fetched anew. Returns -code. */
int s3_error_set(const struct s3_answer *x, const struct s3_context *c, struct backend_attempt *a, bool *ret_expired, struct err *e) MUST_USE;
/* The whole object's size, as an answer to a range behind its end (416) says it; false: it does not. */
bool s3_error_size(struct view body, uint64_t *ret);

#endif
