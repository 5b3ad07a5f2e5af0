/* SPDX-License-Identifier: Apache-2.0 */
/* A rule file, key by key. The tree knows the place of each value, so a problem has line and column; within an expression or a
 * template, the place inside it. */
#include "rules/rule_file.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "base/utf8.h"
#include "model/ptype.h"
#include "rules/place.h"
#include "rules/texts.h"

struct reading {
	struct rule_files *f;
	const struct config_tree *t;
	const char *file;
	struct config_ctx ctx; /* knows the field it is at */
};

void rule_file_problem(struct rule_files *f, const struct err *e)
{
	if (!f->n_problems++)
		f->first = *e;
	if (f->how->problem)
		f->how->problem(f->how->arg, e->msg);
}

static void problem(struct reading *r, const struct config_node *n, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void problem(struct reading *r, const struct config_node *n, const char *fmt, ...)
{
	struct err text = { 0 }, e = { 0 };
	va_list ap;
	va_start(ap, fmt);
	err_vset(&text, ERR_BAD_DATA, fmt, ap);
	va_end(ap);
	config_error(&r->ctx, n, &e, "%s", text.msg);
	rule_file_problem(r->f, &e);
}

/* Adds an error message of a parser of the scalar's text: "LINE:COLUMN: text", within the text. */
static void problem_in(struct reading *r, const struct config_node *n, const char *prefix, const char *message)
{
	size_t at = place_in_message(n->text, message, &message);
	struct config_node there = *n;
	if (at != SIZE_MAX) {
		struct rule_place p = place_of(config_text(r->t), n, at);
		there.line = p.line;
		there.column = p.column;
	}
	problem(r, &there, "%s%s", prefix, message);
}

static struct view keep(struct reading *r, struct view v)
{
	return arena_view(&r->f->config->arena, v);
}

/* A single value; a missing key changes nothing. */
static void get(struct reading *r, const struct config_node *n, enum config_type type, void *at)
{
	const struct config_field f = { .type = type };
	struct err e = { 0 };
	if (n->type != CONFIG_NODE_NULL && config_decode_value(&r->ctx, &f, n, at, &e))
		rule_file_problem(r->f, &e);
}

static struct view get_text(struct reading *r, const struct config_node *n)
{
	const char *s = "";
	get(r, n, CONFIG_STRING, &s);
	return view_of(s);
}

static bool want(struct reading *r, const struct config_node *n, enum config_node_type type, const char *what)
{
	if (n->type == type)
		return true;
	if (n->type != CONFIG_NODE_NULL)
		problem(r, n, "%s is wanted", what);
	return false;
}

static void unknown(struct reading *r, const struct config_node *key, const char *where)
{
	if (!r->f->how->ignore_unknown_fields)
		problem(r, key, "field %.*s is not known in a %s", VIEW_ARG(key->text), where);
}

/* ---- labels and annotations ---- */

/* State while one rule is decoded: texts by name, so that the rule's own replace its group's. */
struct texts {
	VEC(struct rule_text) v;
};

static void put_text(struct texts *t, struct rule_text x)
{
	for (size_t i = 0; i < t->v.n; i++)
		if (view_eq(t->v.v[i].name, x.name)) {
			t->v.v[i] = x;
			return;
		}
	vec_push(&t->v, x);
}

static int by_name(const void *a, const void *b)
{
	return view_cmp(((const struct rule_text *)a)->name, ((const struct rule_text *)b)->name);
}

static const struct rule_text *finish_texts(struct reading *r, struct texts *t, struct labels *ret)
{
	struct rule_text *v = arena_calloc(&r->f->config->arena, t->v.n + 1, sizeof *v);
	struct label *l = arena_calloc(&r->f->config->arena, t->v.n + 1, sizeof *l);
	if (t->v.n) {
		memcpy(v, t->v.v, t->v.n * sizeof *v);
		qsort(v, t->v.n, sizeof *v, by_name);
	}
	for (size_t i = 0; i < t->v.n; i++)
		l[i] = (struct label){ v[i].name, v[i].text };
	*ret = (struct labels){ l, t->v.n };
	return v;
}

/* is: "label" or "annotation". */
static void read_texts(struct reading *r, const struct config_node *n, const char *is, struct texts *ret)
{
	if (!want(r, n, CONFIG_NODE_MAP, "a map"))
		return;
	for (size_t i = 0; i < n->n; i++) {
		const struct config_pair *p = &n->pairs[i];
		size_t mark = config_enter(&r->ctx, p->key->text.ptr);
		if (!p->key->text.len || !utf8_valid(p->key->text) || (is[0] == 'l' && view_eqs(p->key->text, LABEL_NAME)))
			problem(r, p->key, "invalid %s name: %.*s", is, VIEW_ARG(p->key->text));
		put_text(ret, (struct rule_text){ .name = keep(r, p->key->text), .text = get_text(r, p->value) });
		config_leave(&r->ctx, mark);
	}
}

/* Those of an alert are templates. */
static void parse_texts(struct reading *r, const struct config_node *n, struct view alert, struct texts *t, const char *is)
{
	for (size_t i = 0; i < t->v.n; i++) {
		struct rule_text *x = &t->v.v[i];
		struct err e = { 0 };
		const struct config_node *at = config_get(n, x->name.ptr);
		if (!texts_parse(x, alert, &e))
			continue;
		char prefix[160];
		snprintf(prefix, sizeof prefix, "%s \"%.*s\": ", is, (int)MIN(x->name.len, (size_t)100), x->name.ptr);
		if (at && at->type == CONFIG_NODE_SCALAR)
			problem_in(r, at, prefix, e.msg);
		else /* the group's: its own place was told */
			problem(r, n, "%s%s", prefix, e.msg);
	}
}

/* ---- a rule ---- */

struct rule_nodes {
	const struct config_node *rule, *record, *alert, *expr, *wait, *keep, *labels, *annotations, *profiles;
};

static void find_nodes(struct reading *r, const struct config_node *n, struct rule_nodes *ret)
{
	*ret = (struct rule_nodes){ .rule = n };
	const struct {
		const char *key;
		const struct config_node **at;
	} keys[] = {
		{ "record", &ret->record }, { "alert", &ret->alert }, { "expr", &ret->expr }, { "for", &ret->wait },
		{ "keep_firing_for", &ret->keep }, { "labels", &ret->labels }, { "annotations", &ret->annotations },
		{ "profiles", &ret->profiles },
	};
	for (size_t i = 0; i < n->n; i++) {
		size_t k = 0;
		while (k < ARRAY_LEN(keys) && !view_eqs(n->pairs[i].key->text, keys[k].key))
			k++;
		if (k == ARRAY_LEN(keys))
			unknown(r, n->pairs[i].key, "rule");
		else if (n->pairs[i].value->type != CONFIG_NODE_NULL)
			*keys[k].at = n->pairs[i].value;
	}
}

static bool is_unit(struct view unit)
{
	struct unit_info u;
	return unit_lookup(unit, &u) || view_eqs(unit, "count");
}

/* Whether a name is one that profiles have. Users give recorded series names with as many parts
 * (cluster:namespace:pod_memory:active:sum); their units show that they are not types. */
static bool names_profiles(struct view name)
{
	struct ptype t;
	size_t n;
	const struct ptype_row *rows = ptype_table(&n);
	for (size_t i = 0; i < n; i++)
		if (view_eqs(name, rows[i].name))
			return true;
	return ptype_parse(name, &t) && is_unit(t.sample_unit) && is_unit(t.period_unit);
}

static void check_record(struct reading *r, const struct rule_nodes *n, const struct rule *x)
{
	size_t mark = config_enter(&r->ctx, "record");
	if (!x->name.len || !utf8_valid(x->name))
		problem(r, n->record, "invalid recording rule name: %.*s", VIEW_ARG(x->name));
	else if (memchr(x->name.ptr, '{', x->name.len) || memchr(x->name.ptr, '}', x->name.len))
		problem(r, n->record, "braces present in the recording rule name; should it be in expr?: %.*s", VIEW_ARG(x->name));
	else if (ptype_alias(x->name).len)
		problem(r, n->record, "%.*s is an alias for %.*s: record under another name", VIEW_ARG(x->name),
			VIEW_ARG(ptype_alias(x->name)));
	else if (config_get(r->f->aliases, x->name.ptr))
		problem(r, n->record, "%.*s is an alias of the configuration: record under another name", VIEW_ARG(x->name));
	else if (names_profiles(x->name))
		problem(r, n->record, "%.*s is the name of a profile type: record under another name", VIEW_ARG(x->name));
	config_leave(&r->ctx, mark);
	const struct {
		const char *key;
		const struct config_node *n;
	} wrong[] = { { "annotations", n->annotations }, { "for", n->wait }, { "keep_firing_for", n->keep } };
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		if (wrong[i].n)
			problem(r, wrong[i].n, "invalid field '%s' in recording rule", wrong[i].key);
}

static void read_name(struct reading *r, const struct rule_nodes *n, struct rule *x)
{
	if (n->record && n->alert)
		problem(r, n->rule, "only one of 'record' and 'alert' must be set");
	else if (!n->record && !n->alert)
		problem(r, n->rule, "one of 'record' or 'alert' must be set");
	x->alerting = n->alert != NULL;
	size_t mark = config_enter(&r->ctx, x->alerting ? "alert" : "record");
	if (n->record || n->alert)
		x->name = get_text(r, x->alerting ? n->alert : n->record);
	if (x->alerting && (!x->name.len || !utf8_valid(x->name)))
		problem(r, n->alert, "invalid alert name");
	config_leave(&r->ctx, mark);
	if (!x->alerting && n->record)
		check_record(r, n, x);
}

/* An expression of which thresholds are told. */
struct looked_at {
	struct reading *r;
	const struct config_node *expr;
};

static void tell_threshold(void *arg, const struct promql_threshold *t)
{
	const struct looked_at *l = arg;
	struct rule_place p = place_of(config_text(l->r->t), l->expr, t->at);
	char *where AUTOFREE = xasprintf("%s:%u:%u", l->r->file, p.line, p.column);
	l->r->f->how->threshold(l->r->f->how->arg, t, where);
}

static void read_expr(struct reading *r, const struct config_node *n, struct rule *x)
{
	struct err e = { 0 };
	struct buf text = { 0 };
	x->expr = get_text(r, n);
	if (!x->expr.len)
		return;
	if (promql_parse(&x->parsed, x->expr, &e)) {
		problem_in(r, n, "could not parse expression: ", e.msg);
		return;
	}
	promql_expr_print(x->parsed, &text);
	x->canonical = keep(r, buf_view(&text));
	buf_free(&text);
	if (r->f->how->threshold)
		promql_thresholds(x->parsed, tell_threshold, &(struct looked_at){ r, n });
}

static void read_profiles(struct reading *r, const struct rule_nodes *n, const struct rule_group *g, struct rule *x)
{
	struct err e = { 0 };
	enum promql_recorded kind;
	size_t mark = config_enter(&r->ctx, "profiles");
	get(r, n->profiles, CONFIG_BOOL, &x->profiles);
	if (x->profiles && x->alerting)
		problem(r, n->profiles, "an alert records no profiles");
	config_leave(&r->ctx, mark);
	if (!x->profiles || x->alerting || !x->parsed)
		return;
	mark = config_enter(&r->ctx, "expr");
	if (promql_recorded(x->parsed, g->interval_ms, &kind, &e))
		problem_in(r, n->expr, "", e.msg);
	else
		x->delta = kind == PROMQL_RECORDED_DELTA, x->newest = kind == PROMQL_RECORDED_NEWEST;
	config_leave(&r->ctx, mark);
}

static void read_duration(struct reading *r, const struct config_node *n, const char *key, int64_t *ret)
{
	size_t mark = config_enter(&r->ctx, key);
	if (n)
		get(r, n, CONFIG_DURATION, ret);
	config_leave(&r->ctx, mark);
}

static void read_rule_texts(struct reading *r, const struct rule_nodes *n, const struct texts *of_group, struct rule *x)
{
	struct texts labels = { 0 }, annotations = { 0 };
	for (size_t i = 0; i < of_group->v.n; i++)
		vec_push(&labels.v, of_group->v.v[i]);
	size_t mark = config_enter(&r->ctx, "labels");
	if (n->labels)
		read_texts(r, n->labels, "label", &labels);
	if (x->alerting)
		parse_texts(r, n->labels ? n->labels : n->rule, x->name, &labels, "label");
	config_leave(&r->ctx, mark);
	mark = config_enter(&r->ctx, "annotations");
	if (n->annotations && x->alerting) {
		read_texts(r, n->annotations, "annotation", &annotations);
		parse_texts(r, n->annotations, x->name, &annotations, "annotation");
	}
	config_leave(&r->ctx, mark);
	x->label_texts = finish_texts(r, &labels, &x->labels);
	x->annotation_texts = finish_texts(r, &annotations, &x->annotations);
	vec_free(&labels.v);
	vec_free(&annotations.v);
}

static void read_rule(struct reading *r, const struct config_node *node, const struct rule_group *g, const struct texts *of_group,
		      struct rule *x)
{
	struct rule_nodes n;
	x->line = node->line;
	x->column = node->column;
	if (node->type != CONFIG_NODE_MAP) {
		problem(r, node, "a rule is wanted, a map");
		return;
	}
	find_nodes(r, node, &n);
	read_name(r, &n, x);
	size_t mark = config_enter(&r->ctx, "expr");
	if (n.expr)
		read_expr(r, n.expr, x);
	if (!n.expr || !x->expr.len)
		problem(r, n.expr ? n.expr : node, "field 'expr' must be set in rule");
	config_leave(&r->ctx, mark);
	read_duration(r, n.wait, "for", &x->for_ms);
	read_duration(r, n.keep, "keep_firing_for", &x->keep_firing_for_ms);
	if (n.profiles)
		read_profiles(r, &n, g, x);
	read_rule_texts(r, &n, of_group, x);
}

/* ---- groups ---- */

static void put_part(struct buf *b, struct view v)
{
	buf_printf(b, "%zu:", v.len);
	buf_putv(b, v);
}

static void put_labels(struct buf *b, struct labels l)
{
	buf_printf(b, "%zu{", l.n);
	for (size_t i = 0; i < l.n; i++) {
		put_part(b, l.v[i].name);
		put_part(b, l.v[i].value);
	}
}

/* All that decides how it behaves. */
static struct view group_text(struct reading *r, const struct rule_group *g)
{
	struct buf b = { 0 };
	buf_printf(&b, "%" PRId64 " %" PRId64 " %" PRId64 " ", g->interval_ms, g->query_offset_ms, g->limit);
	put_labels(&b, r->f->config->external_labels);
	for (size_t i = 0; i < g->n_rules; i++) {
		const struct rule *x = &g->rules[i];
		buf_printf(&b, "%d%d %" PRId64 " %" PRId64 " ", x->alerting, x->profiles, x->for_ms, x->keep_firing_for_ms);
		put_part(&b, x->name);
		put_part(&b, x->expr);
		put_labels(&b, x->labels);
		put_labels(&b, x->annotations);
	}
	struct view v = keep(r, buf_view(&b));
	buf_free(&b);
	return v;
}

static void read_rules(struct reading *r, const struct config_node *n, const struct texts *labels, struct rule_group *g)
{
	struct rule *rules = arena_calloc(&r->f->config->arena, n->n + 1, sizeof *rules);
	g->rules = rules;
	g->n_rules = n->n;
	size_t list = config_enter(&r->ctx, "rules");
	for (size_t i = 0; i < n->n; i++) {
		size_t mark = config_enter_index(&r->ctx, i);
		read_rule(r, n->items[i], g, labels, &rules[i]);
		config_leave(&r->ctx, mark);
	}
	config_leave(&r->ctx, list);
}

static void read_group_key(struct reading *r, const struct config_pair *p, struct rule_group *g, struct texts *labels,
			   const struct config_node **ret_rules)
{
	struct view key = p->key->text;
	size_t mark = config_enter(&r->ctx, key.ptr);
	if (view_eqs(key, "name"))
		g->name = get_text(r, p->value);
	else if (view_eqs(key, "interval"))
		get(r, p->value, CONFIG_DURATION, &g->interval_ms);
	else if (view_eqs(key, "query_offset"))
		get(r, p->value, CONFIG_DURATION, &g->query_offset_ms);
	else if (view_eqs(key, "limit"))
		get(r, p->value, CONFIG_COUNT, &g->limit);
	else if (view_eqs(key, "labels"))
		read_texts(r, p->value, "label", labels);
	else if (view_eqs(key, "rules"))
		*ret_rules = want(r, p->value, CONFIG_NODE_LIST, "a list of rules") ? p->value : NULL;
	config_leave(&r->ctx, mark);
	static const char *const keys[] = { "name", "interval", "query_offset", "limit", "labels", "rules" };
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (view_eqs(key, keys[i]))
			return;
	unknown(r, p->key, "group");
}

static bool name_taken(const struct rule_files *f, size_t from, struct view name)
{
	for (size_t i = from; i < f->groups.n; i++)
		if (view_eq(f->groups.v[i].name, name))
			return true;
	return false;
}

static void read_group(struct reading *r, const struct config_node *n, size_t first_of_file)
{
	struct rule_group g = { .file = keep(r, view_of(r->file)), .query_offset_ms = r->f->config->query_offset_ms,
				.line = n->line, .column = n->column };
	struct texts labels = { 0 };
	const struct config_node *rules = NULL;
	if (n->type != CONFIG_NODE_MAP) {
		problem(r, n, "a group is wanted, a map");
		return;
	}
	for (size_t i = 0; i < n->n; i++)
		read_group_key(r, &n->pairs[i], &g, &labels, &rules);
	if (!g.interval_ms)
		g.interval_ms = r->f->config->evaluation_interval_ms;
	if (!g.name.len)
		problem(r, n, "Groupname must not be empty");
	else if (name_taken(r->f, first_of_file, g.name))
		problem(r, n, "groupname: \"%.*s\" is repeated in the same file", VIEW_ARG(g.name));
	if (rules)
		read_rules(r, rules, &labels, &g);
	vec_free(&labels.v);
	g.text = group_text(r, &g);
	vec_push(&r->f->groups, g);
}

void rule_file_read(struct rule_files *f, const struct config_tree *t, const char *file)
{
	struct reading r = { .f = f, .t = t, .file = file, .ctx = { .arena = &f->config->arena } };
	const struct config_node *root = config_root(t);
	size_t first = f->groups.n;
	f->n_files++;
	if (root->type != CONFIG_NODE_MAP)
		problem(&r, root, "a rule file is wanted, a map with the key groups");
	for (size_t i = 0; root->type == CONFIG_NODE_MAP && i < root->n; i++) {
		const struct config_pair *p = &root->pairs[i];
		if (!view_eqs(p->key->text, "groups")) {
			unknown(&r, p->key, "rule file");
			continue;
		}
		size_t list = config_enter(&r.ctx, "groups");
		if (want(&r, p->value, CONFIG_NODE_LIST, "a list of groups"))
			for (size_t k = 0; k < p->value->n; k++) {
				size_t mark = config_enter_index(&r.ctx, k);
				read_group(&r, p->value->items[k], first);
				config_leave(&r.ctx, mark);
			}
		config_leave(&r.ctx, list);
	}
	config_ctx_release(&r.ctx);
}
