/* SPDX-License-Identifier: Apache-2.0 */
/* relabel_configs: rules from the file, checked and compiled (model/relabel.h has their meaning). */
#include "config/config_relabel.h"

#include "config/config_expand.h"

struct relabelling {
	struct config_strings source_labels;
	const char *separator, *target_label, *replacement, *regex;
	int64_t modulus;
	int action;
};

#define ROW(key, type, member, def) { key, type, offsetof(struct relabelling, member), def }
static const struct config_field rows[] = {
	ROW("source_labels", CONFIG_STRINGS, source_labels, NULL),
	ROW("separator", CONFIG_STRING, separator, NULL),
	ROW("target_label", CONFIG_STRING, target_label, NULL),
	ROW("regex", CONFIG_STRING, regex, NULL),
	ROW("modulus", CONFIG_COUNT, modulus, NULL),
	ROW("replacement", CONFIG_STRING, replacement, NULL),
	{ "action", CONFIG_ENUM, offsetof(struct relabelling, action), "replace", .words = RELABEL_ACTION_WORDS },
};
static const struct config_table rule_table = CONFIG_TABLE(struct relabelling, rows, NULL);

/* The name of the next named group of an expression, (?P<name> or (?<name>, from *at on; empty: no more. */
static struct view next_group(const char *regex, size_t *at)
{
	for (const char *p; (p = strstr(regex + *at, "(?"));) {
		p += p[2] == 'P' ? 3 : 2;
		*at = (size_t)(p - regex);
		size_t n = strcspn(p, ">");
		if (*p == '<' && p[n] && n > 1)
			return view_make(p + 1, n - 1);
	}
	return VIEW("");
}

/* An expanded variable may have been meant as a group of the expression. */
static int check_expanded(struct config_ctx *c, const struct config_node *rule, const char *key, const char *regex, struct err *e)
{
	const struct config_node *n = config_get(rule, key);
	size_t at = 0;
	if (!n || !n->raw.len || !regex)
		return 0;
	for (struct view name; (name = next_group(regex, &at)).len;)
		if (config_expands_name(n->raw, name)) {
			size_t mark = config_enter(c, key);
			int rc = config_error(c, n, e, "${%.*s} is a group of regex and a variable of the environment; write $${%.*s} for the group",
					      VIEW_ARG(name), VIEW_ARG(name));
			config_leave(c, mark);
			return rc;
		}
	return 0;
}

static int decode_rule(struct config_ctx *c, const struct config_node *n, struct relabel_rule *out, struct err *e)
{
	struct relabelling r = { 0 };
	struct err why = { 0 };
	int rc = config_decode(c, &rule_table, n, &r, e);
	if (!rc)
		rc = check_expanded(c, n, "replacement", r.regex, e);
	if (!rc)
		rc = check_expanded(c, n, "target_label", r.regex, e);
	if (rc)
		return rc;
	*out = (struct relabel_rule){ .action = (enum relabel_action)r.action, .source_labels = r.source_labels.v,
				      .n_source_labels = r.source_labels.n, .separator = r.separator,
				      .target_label = r.target_label, .replacement = r.replacement, .regex = r.regex,
				      .modulus = (uint64_t)r.modulus };
	return relabel_rule_init(out, &why) ? config_error(c, n, e, "%s", why.msg) : 0;
}

int config_relabel_decode(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct relabel_config *ret = at;
	if (n->type != CONFIG_NODE_LIST)
		return config_error(c, n, e, "a list of rules is wanted");
	ret->v = arena_calloc(c->arena, n->n + 1, sizeof *ret->v);
	for (size_t i = 0; i < n->n; i++) {
		size_t mark = config_enter_index(c, i);
		int rc = decode_rule(c, n->items[i], &ret->v[i], e);
		config_leave(c, mark);
		if (rc) {
			config_relabel_release(ret);
			return rc;
		}
		ret->n = i + 1;
	}
	return 0;
}

void config_relabel_release(struct relabel_config *r)
{
	for (size_t i = 0; i < r->n; i++)
		relabel_rule_release(&r->v[i]);
	*r = (struct relabel_config){ 0 };
}
