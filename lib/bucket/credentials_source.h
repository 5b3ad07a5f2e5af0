/* SPDX-License-Identifier: Apache-2.0 */
/* Where credentials come from; for credentials.c. Each function reads or asks once. */
#ifndef PYRRHA_BUCKET_CREDENTIALS_SOURCE_H
#define PYRRHA_BUCKET_CREDENTIALS_SOURCE_H

#include "bucket/credentials.h"

#define CREDENTIALS_TEXT_MAX ((size_t)16 << 10) /* bytes of each of the three texts */

struct credentials_found {
	struct credentials_key key;
	int64_t expires_ms; /* wall clock; INT64_MAX = never */
	int64_t reread_ms;  /* how soon to look again though they do not expire; 0 = never */
};
/* Copies the texts that are there, and checks that they can be sent. what: the source, for messages. */
int credentials_found_set(struct credentials_found *f, const char *what, struct view access_key, struct view secret_key, struct view session_token,
			  struct err *e) MUST_USE;

/* A variable of the environment; NULL if it is not set or empty. */
const char *credentials_env(const char *name);
/* Each returns 1 if the source is not configured. */
int credentials_from_env(struct credentials_found *ret, struct err *e) MUST_USE;
int credentials_from_file(struct credentials_found *ret, struct err *e) MUST_USE;
int credentials_from_web_identity(const struct s3_config *c, const atomic_bool *stop, struct credentials_found *ret, struct err *e) MUST_USE;
int credentials_from_container(const atomic_bool *stop, struct credentials_found *ret, struct err *e) MUST_USE;
int credentials_from_ec2(const atomic_bool *stop, struct credentials_found *ret, struct err *e) MUST_USE;

#endif
