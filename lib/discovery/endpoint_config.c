/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an item that names endpoints. */
#include "discovery/endpoint.h"

static const struct config_field rows[] = {
	{ "scheme", CONFIG_ENUM, offsetof(struct endpoint_config, scheme), "http", .words = "http|https" },
	{ "path_prefix", CONFIG_STRING, offsetof(struct endpoint_config, path_prefix), "" },
	{ NULL, CONFIG_INLINE, offsetof(struct endpoint_config, http), .table = &config_http_table },
	{ "relabel_configs", CONFIG_CUSTOM, offsetof(struct endpoint_config, relabel), .custom = config_relabel_decode },
};
const struct config_table endpoint_table = CONFIG_TABLE(struct endpoint_config, rows, NULL);

bool endpoint_other_key(struct view key)
{
	return discovery_kind(key) || discovery_known_elsewhere(key);
}

int endpoint_config_finish(struct config_ctx *ctx, const struct config_node *n, struct endpoint_config *c, struct err *e)
{
	int rc = discovery_decode(ctx, n, &c->sd, e);
	if (rc)
		return rc;
	struct buf b = { .max = CONFIG_MAX_BYTES };
	config_canonical(n, &b);
	if (b.overflow)
		rc = config_error(ctx, n, e, "too large");
	else
		c->fingerprint = arena_view(ctx->arena, buf_view(&b));
	buf_free(&b);
	return rc;
}

void endpoint_config_release(struct endpoint_config *c)
{
	config_relabel_release(&c->relabel);
}

void endpoint_config_check(const struct endpoint_config *c, const char *kinds, bool first, struct buf *out)
{
	for (size_t i = 0; i < c->sd.n; i++)
		buf_printf(out, "%s %s by %s", first && !i ? "" : ",", kinds, c->sd.v[i].ops->key);
}
