/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/notifier/notifier_config.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "config/config_top.h"

static const struct config_field set_rows[] = {
	{ NULL, CONFIG_INLINE, offsetof(struct alertmanager_config, endpoints), .table = &endpoint_table },
	{ "timeout", CONFIG_DURATION, offsetof(struct alertmanager_config, timeout_ms), "10s" },
	{ "api_version", CONFIG_ENUM, offsetof(struct alertmanager_config, api_version), "v2", .words = "v2" },
	{ "alert_relabel_configs", CONFIG_CUSTOM, offsetof(struct alertmanager_config, alert_relabel), .custom = config_relabel_decode },
	{ "sigv4", CONFIG_REFUSED, .words = "requests are not signed for AWS here" },
};
static const struct config_table set_table = { set_rows, ARRAY_LEN(set_rows), sizeof(struct alertmanager_config), NULL, endpoint_other_key };

const struct endpoint_kind notifier_endpoints = { "an Alertmanager", "Alertmanager", "__alerts_path__", "/api/v2/alerts" };

static int decode_set(struct config_ctx *c, const struct config_node *n, struct alertmanager_config *ret, struct err *e)
{
	int rc = config_decode(c, &set_table, n, ret, e);
	if (!rc)
		rc = endpoint_config_finish(c, n, &ret->endpoints, e);
	if (!rc && ret->timeout_ms <= 0)
		rc = config_error(c, config_get(n, "timeout"), e, "timeout must be longer than nothing");
	return rc;
}

static int decode_sets(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct alertmanager_configs *s = at;
	int rc = n->type == CONFIG_NODE_LIST ? 0 : config_error(c, n, e, "a list of Alertmanagers is wanted");
	if (rc)
		return rc;
	s->v = arena_calloc(c->arena, n->n + 1, sizeof *s->v);
	for (size_t i = 0; i < n->n && !rc; i++) {
		size_t mark = config_enter_index(c, i);
		s->n = i + 1;
		rc = decode_set(c, n->items[i], &s->v[i], e);
		config_leave(c, mark);
	}
	return rc;
}

static const struct config_field alerting_rows[] = {
	{ "alert_relabel_configs", CONFIG_CUSTOM, offsetof(struct notifier_config, alert_relabel), .custom = config_relabel_decode },
	{ "alertmanagers", CONFIG_CUSTOM, offsetof(struct notifier_config, sets), .custom = decode_sets },
};
static const struct config_table alerting_table = CONFIG_TABLE(struct notifier_config, alerting_rows, NULL);

int notifier_config_parse(struct notifier_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text), void *warn_arg,
			  struct err *e)
{
	struct notifier_config *s = NEW(struct notifier_config);
	struct config_global g;
	s->refs = 1;
	arena_init(&s->arena, 0);
	struct config_ctx c = { .arena = &s->arena }; /* others warn of what `global` has */
	c.dir = config_dirname(&s->arena, config_root(t)->file);
	int rc = config_global_decode(t, &c, &g, e);
	if (!rc) {
		c.warn = warn;
		c.warn_arg = warn_arg;
		c.check_files = config_how(t)->check_files;
		s->external_labels = config_external_labels(&g, &s->arena);
		rc = config_decode_at(&c, "alerting", &alerting_table, config_get(config_root(t), "alerting"), s, e);
	}
	config_ctx_release(&c);
	for (size_t i = 0; i < s->sets.n; i++)
		s->sets.v[i].config = s;
	if (rc) {
		notifier_config_unref(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct notifier_config *notifier_config_ref(struct notifier_config *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void notifier_config_unref(struct notifier_config *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	config_relabel_release(&c->alert_relabel);
	for (size_t i = 0; i < c->sets.n; i++) {
		endpoint_config_release(&c->sets.v[i].endpoints);
		config_relabel_release(&c->sets.v[i].alert_relabel);
	}
	arena_free(&c->arena);
	free(c);
}

void notifier_config_check(const struct notifier_config *c, struct buf *out)
{
	if (!c->sets.n)
		return;
	buf_puts(out, "alerting:");
	for (size_t i = 0; i < c->sets.n; i++)
		endpoint_config_check(&c->sets.v[i].endpoints, "Alertmanagers", i == 0, out);
	buf_putc(out, '\n');
}
