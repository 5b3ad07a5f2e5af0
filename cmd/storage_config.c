/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/storage_config.h"

#include "base/alloc.h"
#include "base/units.h"
#include "base/vec.h"
#include "promql-like/promql.h"

struct keep_rule {
	struct promql_expr *expr; /* holds the matchers */
	struct tsdb_retention r;
};

struct storage_config {
	VEC(struct keep_rule) rules;
};

/* A row of the file. */
struct row {
	const struct config_node *selector;
	int64_t keep_ms;
};
struct section {
	struct config_list retention;
};

static const struct config_field row_fields[] = {
	{ "selector", CONFIG_NODE, offsetof(struct row, selector), .flags = CONFIG_REQUIRED },
	{ "time", CONFIG_DURATION, offsetof(struct row, keep_ms), .flags = CONFIG_REQUIRED },
};
static const struct config_table row_table = CONFIG_TABLE(struct row, row_fields, NULL);

static const struct config_field section_fields[] = {
	{ "retention", CONFIG_STRUCTS, offsetof(struct section, retention), .table = &row_table },
	{ "tsdb", CONFIG_IGNORED, .words = "ignored; late profiles are taken in as far as retention reaches, and retention is "
	  "--storage.tsdb.retention.time and .size" },
	{ "exemplars", CONFIG_IGNORED, .words = "ignored; there are no exemplars" },
};
static const struct config_table section_table = CONFIG_TABLE(struct section, section_fields, NULL);

void storage_config_free(struct storage_config *c)
{
	for (size_t i = 0; c && i < c->rules.n; i++)
		promql_expr_free(c->rules.v[i].expr);
	if (c)
		vec_free(&c->rules);
	free(c);
}

/* A rule without matchers, or for no time, would delete everything by a slip of the pen. */
static int add_rule(struct storage_config *c, struct view selector, int64_t keep_ms, struct err *e)
{
	struct keep_rule x = { .r.keep_ms = keep_ms };
	int rc = promql_parse_selector(&x.expr, selector, &x.r.m, &x.r.n, e);
	if (rc)
		return rc;
	vec_push(&c->rules, x);
	return keep_ms < 60000 ? err_set(e, ERR_BAD_DATA, "the time must be at least a minute") : 0;
}

static int add_row(struct storage_config *c, struct config_ctx *ctx, const struct row *row, struct err *e)
{
	struct err why;
	if (row->selector->type != CONFIG_NODE_SCALAR)
		return config_error(ctx, row->selector, e, "a selector is a string: quote it, '{namespace=\"dev\"}'");
	int rc = add_rule(c, row->selector->text, row->keep_ms, &why);
	return rc ? config_error(ctx, row->selector, e, "%s", why.msg) : 0;
}

static int parse(struct storage_config *c, struct config_ctx *ctx, const struct config_tree *t, struct err *e)
{
	struct section s = { .retention = { 0 } };
	int rc = config_decode_at(ctx, "storage", &section_table, config_get(config_root(t), "storage"), &s, e);
	size_t in = config_enter(ctx, "storage"), list = config_enter(ctx, "retention");
	for (size_t i = 0; i < s.retention.n && !rc; i++) {
		size_t mark = config_enter_index(ctx, i), field = config_enter(ctx, "selector");
		rc = add_row(c, ctx, (const struct row *)s.retention.v + i, e);
		config_leave(ctx, field);
		config_leave(ctx, mark);
	}
	config_leave(ctx, list);
	config_leave(ctx, in);
	return rc;
}

int storage_config_parse(struct storage_config **ret, const struct config_tree *t, void (*warn)(void *, const char *),
			 void *warn_arg, struct err *e)
{
	struct arena a;
	struct storage_config *c = NEW(struct storage_config);
	arena_init(&a, CONFIG_MAX_BYTES);
	struct config_ctx ctx = { .arena = &a, .warn = warn, .warn_arg = warn_arg };
	int rc = parse(c, &ctx, t, e);
	config_ctx_release(&ctx);
	arena_free(&a);
	if (rc)
		storage_config_free(c);
	else
		*ret = c;
	return rc;
}

static struct view trimmed(struct view v)
{
	while (v.len && v.ptr[0] == ' ')
		v = view_make(v.ptr + 1, v.len - 1);
	while (v.len && v.ptr[v.len - 1] == ' ')
		v.len--;
	return v;
}

/* The selector may have colons: the time is what follows the last one. */
static int add_flag(struct storage_config *c, const char *text, struct err *e)
{
	const char *colon = strrchr(text, ':');
	int64_t keep_ms;
	struct view time = colon ? trimmed(view_of(colon + 1)) : VIEW("");
	if (!colon || !units_parse_duration(time, &keep_ms))
		return err_set(e, ERR_BAD_DATA, "--storage.tsdb.retention.selector: \"%s\" is not of the form '{namespace=\"dev\"}: 2d'", text);
	int rc = add_rule(c, trimmed(view_make(text, (size_t)(colon - text))), keep_ms, e);
	return rc ? err_wrap(e, "--storage.tsdb.retention.selector: \"%s\"", text) : 0;
}

int storage_config_flags(struct storage_config **ret, const struct opt_list *flags, struct err *e)
{
	struct storage_config *c = NEW(struct storage_config);
	int rc = 0;
	for (size_t i = 0; i < flags->n && !rc; i++)
		rc = add_flag(c, flags->v[i], e);
	if (rc)
		storage_config_free(c);
	else
		*ret = c;
	return rc;
}

int storage_config_apply(const struct storage_config *file, const struct storage_config *flags, struct tsdb *db, struct err *e)
{
	VEC(struct tsdb_retention) all = { 0 };
	for (size_t i = 0; file && i < file->rules.n; i++)
		vec_push(&all, file->rules.v[i].r);
	for (size_t i = 0; flags && i < flags->rules.n; i++)
		vec_push(&all, flags->rules.v[i].r);
	int rc = tsdb_set_retention(db, all.v, all.n, e);
	vec_free(&all);
	return rc;
}

void storage_config_check(const struct storage_config *c, struct buf *out)
{
	char time[DURATION_LEN];
	for (size_t i = 0; i < c->rules.n; i++) {
		buf_puts(out, "retention: ");
		promql_expr_print(c->rules.v[i].expr, out);
		buf_printf(out, " is kept for %s\n", units_format_duration(c->rules.v[i].r.keep_ms, time));
	}
}
