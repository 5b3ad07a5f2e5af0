/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket/bucket.h"

#include "base/alloc.h"
#include "bucket/backend.h"
#include "bucket/s3.h"

const struct bucket_settings bucket_settings_default = {
	.prefix = "", .requests = 16, .attempts = 5, .first_wait_ms = 200, .longest_wait_ms = 10000, .patience_ms = 60000,
};

void backend_page_init(struct backend_page *p)
{
	*p = (struct backend_page){ 0 };
	arena_init(&p->arena, 0);
}

void backend_page_free(struct backend_page *p)
{
	vec_free(&p->v);
	arena_free(&p->arena);
}
