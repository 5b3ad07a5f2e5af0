/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of type S3: put only if absent, get of a range, list, delete, each one request. Before the first put of a process it puts an object of
 * its own twice, beside the key that is to be put: a store that does not refuse the second would overwrite objects, and cannot be used. */
#ifndef PYRRHA_BUCKET_S3_H
#define PYRRHA_BUCKET_S3_H

#include "bucket/backend.h"

#define S3_PROBE "probe-" /* how the last segment of that object's key begins; it is deleted right after */

/* c and stop (NULL = never) outlive it. Returns owned. */
int s3_new(struct backend **ret, const struct s3_config *c, const atomic_bool *stop, struct err *e) MUST_USE;

#endif
