/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of discovery, as a table, and the providers of a job at work: their groups are kept here by provider and
 * source, copied, under one lock; who reads them is woken through `changed`. */
#include "discovery/discovery.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"

extern const struct discovery_ops sd_static;

const struct discovery_ops *const discovery_kinds[] = { &sd_static, NULL };

/* Kinds of Prometheus's that are not built in: known, so that the message can say so. */
static const char *const elsewhere[] = {
	"azure_sd_configs", "consul_sd_configs", "digitalocean_sd_configs", "dns_sd_configs", "docker_sd_configs",
	"dockerswarm_sd_configs", "ec2_sd_configs", "eureka_sd_configs", "file_sd_configs", "gce_sd_configs",
	"hetzner_sd_configs", "http_sd_configs", "ionos_sd_configs", "kubernetes_sd_configs", "kuma_sd_configs",
	"lightsail_sd_configs", "linode_sd_configs", "marathon_sd_configs", "nerve_sd_configs", "nomad_sd_configs",
	"openstack_sd_configs", "ovhcloud_sd_configs", "puppetdb_sd_configs", "scaleway_sd_configs",
	"serverset_sd_configs", "stackit_sd_configs", "triton_sd_configs", "uyuni_sd_configs", "vultr_sd_configs",
};

const struct discovery_ops *discovery_kind(struct view key)
{
	for (size_t i = 0; discovery_kinds[i]; i++)
		if (view_eqs(key, discovery_kinds[i]->key))
			return discovery_kinds[i];
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
	for (size_t i = 0; discovery_kinds[i]; i++)
		buf_printf(&have, "%s%s", i ? ", " : "", discovery_kinds[i]->key);
	int rc = config_error(c, key, e, "this kind of discovery is not built in; there is %s", have.ptr);
	buf_free(&have);
	return rc;
}

int discovery_decode(struct config_ctx *c, const struct config_node *n, struct discovery_configs *ret, struct err *e)
{
	*ret = (struct discovery_configs){ 0 };
	if (n->type != CONFIG_NODE_MAP)
		return 0;
	ret->v = arena_calloc(c->arena, n->n + 1, sizeof *ret->v);
	for (size_t i = 0; i < n->n; i++) {
		const struct config_pair *p = &n->pairs[i];
		const struct discovery_ops *ops = discovery_kind(p->key->text);
		bool other = !ops && discovery_known_elsewhere(p->key->text);
		if ((!ops && !other) || p->value->type == CONFIG_NODE_NULL)
			continue;
		size_t mark = config_enter(c, p->key->text.ptr);
		struct discovery_config *to = &ret->v[ret->n];
		int rc = other ? refuse_kind(c, p->key, e) : ops->decode(c, p->value, &to->config, e);
		config_leave(c, mark);
		if (rc)
			return rc;
		to->ops = ops;
		ret->n++;
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

/* A group as it is kept: everything owned. */
struct group {
	char *source;
	struct labels *labels;
	struct labels **targets;
	size_t n_targets;
};

struct slot {
	struct discovery *owner;
	const struct discovery_ops *ops;
	struct discovery_provider *provider;
	VEC(struct group) groups; /* under the owner's lock */
};

struct discovery {
	pthread_mutex_t lock;
	void (*changed)(void *arg);
	void *arg;
	struct slot *slots;
	size_t n;
};

static void group_release(struct group *g)
{
	for (size_t i = 0; i < g->n_targets; i++)
		free(g->targets[i]);
	free(g->targets);
	free(g->labels);
	free(g->source);
}

static struct group group_copy(const struct discovery_group *g)
{
	struct group c = { .source = xstrdup(g->source), .labels = labels_dup(g->labels),
			   .targets = xcalloc(g->n_targets, sizeof(struct labels *)), .n_targets = g->n_targets };
	for (size_t i = 0; i < g->n_targets; i++)
		c.targets[i] = labels_dup(g->targets[i]);
	return c;
}

static void put_group(struct slot *s, const struct discovery_group *g)
{
	for (size_t i = 0; i < s->groups.n; i++) {
		if (strcmp(s->groups.v[i].source, g->source) != 0)
			continue;
		group_release(&s->groups.v[i]);
		if (g->n_targets)
			s->groups.v[i] = group_copy(g);
		else
			s->groups.v[i] = s->groups.v[--s->groups.n];
		return;
	}
	if (g->n_targets)
		vec_push(&s->groups, group_copy(g));
}

static void on_group(void *arg, const struct discovery_group *g)
{
	struct slot *s = arg;
	pthread_mutex_lock(&s->owner->lock);
	put_group(s, g);
	pthread_mutex_unlock(&s->owner->lock);
	s->owner->changed(s->owner->arg);
}

int discovery_start(struct discovery **ret, const struct discovery_configs *configs, const char *job,
		    void (*changed)(void *arg), void *arg, struct err *e)
{
	struct discovery *d = NEW(struct discovery);
	pthread_mutex_init(&d->lock, NULL);
	d->changed = changed;
	d->arg = arg;
	d->slots = xcalloc(configs->n, sizeof *d->slots);
	for (size_t i = 0; i < configs->n; i++) {
		struct slot *s = &d->slots[i];
		struct discovery_emit emit = { on_group, s };
		s->owner = d;
		s->ops = configs->v[i].ops;
		int rc = s->ops->start(&s->provider, configs->v[i].config, job, &emit, e);
		if (rc) {
			discovery_stop(d);
			return rc;
		}
		d->n = i + 1;
	}
	*ret = d;
	return 0;
}

void discovery_stop(struct discovery *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n; i++) {
		struct slot *s = &d->slots[i];
		s->ops->stop(s->provider);
		for (size_t k = 0; k < s->groups.n; k++)
			group_release(&s->groups.v[k]);
		vec_free(&s->groups);
	}
	pthread_mutex_destroy(&d->lock);
	free(d->slots);
	free(d);
}

static void lend(const struct group *g, void (*fn)(void *arg, const struct discovery_group *g), void *arg)
{
	struct labels *targets = xcalloc(g->n_targets, sizeof *targets);
	for (size_t i = 0; i < g->n_targets; i++)
		targets[i] = *g->targets[i];
	fn(arg, &(struct discovery_group){ g->source, *g->labels, targets, g->n_targets });
	free(targets);
}

void discovery_each(struct discovery *d, void (*group)(void *arg, const struct discovery_group *g), void *arg)
{
	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < d->n; i++)
		for (size_t k = 0; k < d->slots[i].groups.n; k++)
			lend(&d->slots[i].groups.v[k], group, arg);
	pthread_mutex_unlock(&d->lock);
}
