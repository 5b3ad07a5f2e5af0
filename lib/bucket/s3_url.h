/* SPDX-License-Identifier: Apache-2.0 */
/* Where a bucket is: the host that is asked, the path before keys, the region that is signed. */
#ifndef PYRRHA_BUCKET_S3_URL_H
#define PYRRHA_BUCKET_S3_URL_H

#include "bucket/bucket.h"

struct s3_place {
	char *scheme_host; /* "https://HOST[:PORT]" */
	char *host;        /* the header: HOST, with a port that is not the scheme's own */
	char *path;        /* "", or "/BUCKET" where the host does not name it */
	char *region;
	bool google;       /* Google's XML API, which has other names for headers, and a condition of its own for "only if absent" */
};

/* ERR_BAD_DATA: the bucket's name or the endpoint cannot be part of a URL. *ret: to be released in any case. */
int s3_place_init(struct s3_place *ret, const struct s3_config *c, struct err *e) MUST_USE;
void s3_place_release(struct s3_place *p);

#endif
