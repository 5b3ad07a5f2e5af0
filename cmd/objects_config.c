/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/objects_config.h"

#include <stdlib.h>

#include "base/alloc.h"

struct objects_config {
	struct arena arena; /* of what bucket points at */
	struct bucket_config bucket;
	struct buf canonical; /* the section as written, with its secrets; empty if it has no effect */
};

void objects_config_free(struct objects_config *c)
{
	if (!c)
		return;
	buf_free(&c->canonical);
	arena_free(&c->arena);
	free(c);
}

int objects_config_parse(struct objects_config **ret, const struct config_tree *t, void (*warn)(void *, const char *), void *warn_arg,
			 struct err *e)
{
	const struct config_node *n = config_get(config_root(t), "object_storage");
	struct objects_config *c = NEW(struct objects_config);
	arena_init(&c->arena, CONFIG_MAX_BYTES);
	struct config_ctx ctx = { .arena = &c->arena, .warn = warn, .warn_arg = warn_arg, .check_files = config_how(t)->check_files };
	ctx.dir = config_dirname(&c->arena, config_root(t)->file);
	int rc = bucket_config_decode(t, false, &ctx, &c->bucket, e);
	config_ctx_release(&ctx);
	if (rc) {
		objects_config_free(c);
		return rc;
	}
	if (c->bucket.type != BUCKET_NONE)
		config_canonical(n, &c->canonical);
	*ret = c;
	return 0;
}

const struct bucket_config *objects_config_bucket(const struct objects_config *c)
{
	return &c->bucket;
}

bool objects_config_equal(const struct objects_config *a, const struct objects_config *b)
{
	return view_eq(buf_view(&a->canonical), buf_view(&b->canonical));
}

void objects_config_check(const struct objects_config *c, struct buf *out)
{
	if (c->bucket.type != BUCKET_NONE)
		buf_printf(out, "object storage: %s, as server %s\n", c->bucket.shown,
			   c->bucket.server_id[0] ? c->bucket.server_id : "with an id that is made at the first start");
}
