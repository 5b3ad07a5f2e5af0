/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of type S3. */
#ifndef PYRRHA_BUCKET_S3_H
#define PYRRHA_BUCKET_S3_H

#include "bucket/backend.h"

/* c and stop (NULL = never) outlive it. Returns owned. */
int s3_new(struct backend **ret, const struct s3_config *c, const atomic_bool *stop, struct err *e) MUST_USE;

#endif
