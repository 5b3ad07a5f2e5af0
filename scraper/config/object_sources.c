/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/config/object_sources.h"

#include "discovery/sd_kubernetes.h"

static int decode_source(struct config_ctx *c, const struct config_node *n, struct object_source *ret, struct err *e)
{
	struct buf b = { .max = CONFIG_MAX_BYTES };
	int rc = kube_sd_decode_source(c, n, &ret->config, e);
	config_canonical(n, &b);
	ret->fingerprint = arena_view(c->arena, buf_view(&b));
	buf_free(&b);
	return rc;
}

int object_sources_decode(struct config_ctx *c, const struct config_tree *t, struct scraper_config *base, struct err *e)
{
	const struct config_node *list = config_get(config_root(t), "kubernetes_scrape_configs");
	if (!list || list->type == CONFIG_NODE_NULL)
		return 0;
	size_t mark = config_enter(c, "kubernetes_scrape_configs");
	int rc = list->type == CONFIG_NODE_LIST ? 0 : config_error(c, list, e, "a list of API servers is wanted; [{}] is the cluster "
								  "that this runs in");
	base->sources = arena_calloc(c->arena, list->n + 1, sizeof *base->sources);
	for (size_t i = 0; i < list->n && !rc; i++) {
		size_t inner = config_enter_index(c, i);
		rc = decode_source(c, list->items[i], &base->sources[i], e);
		base->n_sources = i + 1;
		config_leave(c, inner);
	}
	config_leave(c, mark);
	return rc;
}
