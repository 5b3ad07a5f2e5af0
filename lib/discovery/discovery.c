/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of discovery, as a table, and what a configuration says of them. How they run: sources.c. */
#include "discovery/discovery.h"

#include "base/alloc.h"

extern const struct discovery_ops sd_static, sd_file, sd_http, sd_dns, sd_docker, sd_consul, sd_kubernetes;

static const struct discovery_ops *const kinds[] = {
	&sd_static, &sd_file, &sd_http, &sd_dns, &sd_docker, &sd_consul, &sd_kubernetes, NULL,
};

/* Kinds of Prometheus (until 3.14) that are not supported are known, so that the message can say so. */
static const char *const elsewhere[] = {
	"aws_sd_configs", "azure_sd_configs", "consul_sd_configs", "digitalocean_sd_configs", "dns_sd_configs",
	"docker_sd_configs", "dockerswarm_sd_configs", "ec2_sd_configs", "ecs_sd_configs", "elasticache_sd_configs",
	"eureka_sd_configs", "file_sd_configs", "gce_sd_configs", "hetzner_sd_configs", "http_sd_configs",
	"ionos_sd_configs", "kubernetes_sd_configs", "kuma_sd_configs", "lightsail_sd_configs", "linode_sd_configs",
	"marathon_sd_configs", "msk_sd_configs", "nerve_sd_configs", "nomad_sd_configs", "oci_sd_configs",
	"openstack_sd_configs", "outscale_sd_configs", "ovhcloud_sd_configs", "puppetdb_sd_configs", "rds_sd_configs",
	"scaleway_sd_configs", "serverset_sd_configs", "stackit_sd_configs", "triton_sd_configs", "uyuni_sd_configs",
	"vultr_sd_configs",
};

const struct discovery_ops *discovery_kind(struct view key)
{
	for (size_t i = 0; kinds[i]; i++)
		if (view_eqs(key, kinds[i]->key))
			return kinds[i];
	return NULL;
}

bool discovery_known_elsewhere(struct view key)
{
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		if (view_eqs(key, elsewhere[i]))
			return !discovery_kind(key);
	return false;
}

static int refuse_kind(struct config_ctx *c, const struct config_node *key, struct err *e)
{
	struct buf have = { 0 };
	for (size_t i = 0; kinds[i]; i++)
		buf_printf(&have, "%s%s", i ? ", " : "", kinds[i]->key);
	int rc = config_error(c, key, e, "this kind of discovery is not built in; there is %s", have.ptr);
	buf_free(&have);
	return rc;
}

/* The providers of one key. */
static int decode_kind(struct config_ctx *c, const struct config_node *n, const struct discovery_ops *ops,
		       struct discovery_configs *ret, struct err *e)
{
	struct discovery_config *to = &ret->v[ret->n];
	if (ops->whole_list) {
		*to = (struct discovery_config){ .ops = ops };
		ret->n++;
		return ops->decode(c, n, &to->config, e);
	}
	if (n->type != CONFIG_NODE_LIST)
		return config_error(c, n, e, "a list is wanted");
	for (size_t i = 0; i < n->n; i++, to++) {
		size_t mark = config_enter_index(c, i);
		*to = (struct discovery_config){ .ops = ops };
		int rc = ops->decode(c, n->items[i], &to->config, e);
		config_leave(c, mark);
		if (rc)
			return rc;
		ret->n++;
	}
	return 0;
}

static size_t count_providers(const struct config_node *n)
{
	size_t room = 1;
	for (size_t i = 0; i < n->n; i++)
		room += discovery_kind(n->pairs[i].key->text) ? MAX(n->pairs[i].value->n, 1) : 0;
	return room;
}

int discovery_decode(struct config_ctx *c, const struct config_node *n, struct discovery_configs *ret, struct err *e)
{
	*ret = (struct discovery_configs){ 0 };
	if (n->type != CONFIG_NODE_MAP)
		return 0;
	ret->v = arena_calloc(c->arena, count_providers(n), sizeof *ret->v);
	if (!ret->v)
		return config_error(c, n, e, "too large");
	for (size_t i = 0; i < n->n; i++) {
		const struct config_pair *p = &n->pairs[i];
		const struct discovery_ops *ops = discovery_kind(p->key->text);
		bool other = !ops && discovery_known_elsewhere(p->key->text);
		if ((!ops && !other) || p->value->type == CONFIG_NODE_NULL)
			continue;
		size_t mark = config_enter(c, p->key->text.ptr);
		int rc = other ? refuse_kind(c, p->key, e) : decode_kind(c, p->value, ops, ret, e);
		config_leave(c, mark);
		if (rc)
			return rc;
	}
	return 0;
}

bool discovery_same(const struct discovery_configs *a, const struct discovery_configs *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].ops != b->v[i].ops || !a->v[i].ops->same(a->v[i].config, b->v[i].config))
			return false;
	return true;
}
