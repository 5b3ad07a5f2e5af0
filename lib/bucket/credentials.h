/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that requests to S3 are signed with: those of the section, else the first of these that is there, as AWS's own programs look for them:
 *
 *	environment    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *	web identity   AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: STS gives keys for the token (a Kubernetes service account)
 *	file           AWS_SHARED_CREDENTIALS_FILE, or ~/.aws/credentials; AWS_PROFILE
 *	container      AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI (EKS pod identity, ECS)
 *	EC2            the metadata service of the machine (IMDSv2)
 *
 * Keys that expire are fetched anew five minutes before; if that fails, the old ones serve until they expire. Nothing of them is in an error. */
#ifndef PYRRHA_BUCKET_CREDENTIALS_H
#define PYRRHA_BUCKET_CREDENTIALS_H

#include "bucket/bucket.h"

struct credentials_key {
	char *access_key, *secret_key;
	char *session_token; /* "" = none */
};
/* Overwrites and frees the texts. */
void credentials_key_release(struct credentials_key *k);

struct credentials;

/* Reads nothing yet. c and stop (NULL = never) outlive it. Returns owned. */
struct credentials *credentials_new(const struct s3_config *c, const atomic_bool *stop);
void credentials_free(struct credentials *c);
/* Any thread; may wait for an answer of STS or of a metadata service, some seconds. One thread asks, the others wait. ret: a copy, to be released.
 * ERR_DENIED: there are none, or they are malformed; ERR_UNAVAILABLE, ERR_TIMEOUT: their source does not answer. */
int credentials_get(struct credentials *c, struct credentials_key *ret, struct err *e) MUST_USE;
/* S3 says that these have expired: the next credentials_get fetches others, unless these are not 10 s old. */
void credentials_reject(struct credentials *c, const char *access_key);
/* Whether others can be had when these have expired. */
bool credentials_renewable(const struct credentials *c);

#endif
