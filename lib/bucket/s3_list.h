/* SPDX-License-Identifier: Apache-2.0 */
/* ListObjectsV2: the query of a page, and the page in an answer. Pages go on by the last key (start-after), so there is no state between them. */
#ifndef PYRRHA_BUCKET_S3_LIST_H
#define PYRRHA_BUCKET_S3_LIST_H

#include "bucket/backend.h"

/* Appends the query of the first keys that begin with prefix and are greater than after; sorted, as it is signed. */
void s3_list_query(const char *prefix, const char *after, struct buf *out);
/* Adds the objects of an answer. ERR_BAD_DATA: it is not what S3 answers, or holds keys that were not asked for, or not in their order. */
int s3_list_read(struct view doc, const char *prefix, const char *after, struct backend_page *page, struct err *e) MUST_USE;

#endif
