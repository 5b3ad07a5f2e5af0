/* SPDX-License-Identifier: Apache-2.0 */
/* The section `object_storage` of the server's file: the bucket that sealed days go to. Decoding is lib/bucket's; this keeps what was decoded
 * for as long as the bucket is open, and tells whether another reading of the file says the same. */
#ifndef PYRRHA_CMD_OBJECTS_CONFIG_H
#define PYRRHA_CMD_OBJECTS_CONFIG_H

#include "bucket/bucket.h"

struct objects_config;

/* For the file; warn may be NULL. Returns owned. */
int objects_config_parse(struct objects_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text), void *warn_arg,
			 struct err *e) MUST_USE;
void objects_config_free(struct objects_config *c); /* NULL does nothing */
/* The section; valid as long as c. Its type is BUCKET_NONE if there is none. */
const struct bucket_config *objects_config_bucket(const struct objects_config *c);
/* Whether both name the same store with the same settings, secrets included. */
bool objects_config_equal(const struct objects_config *a, const struct objects_config *b);
/* The output of --config.check. */
void objects_config_check(const struct objects_config *c, struct buf *out);

#endif
