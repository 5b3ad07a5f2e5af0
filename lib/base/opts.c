/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/typo.h"
#include "base/units.h"

static bool in_list(const char *list, struct view name)
{
	while (list && *list) {
		size_t n = strcspn(list, ",");
		if (view_eq(view_make(list, n), name))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

bool opts_is_own(const struct opt *o)
{
	return o->type != OPT_REFUSED && o->type != OPT_EXPLAINED && o->type != OPT_GROUP;
}

static bool is_switch(const struct opt *o)
{
	return o->type == OPT_BOOL || (o->type == OPT_EXPLAINED && !o->arg);
}

static struct opt *find(struct opt *table, size_t n, struct view name, bool *negated)
{
	*negated = false;
	for (size_t i = 0; i < n; i++)
		if (table[i].type != OPT_GROUP && (view_eqs(name, table[i].name) || in_list(table[i].alias, name)))
			return &table[i];
	if (view_starts(name, VIEW("no-"))) {
		name.ptr += 3;
		name.len -= 3;
		for (size_t i = 0; i < n; i++)
			if (is_switch(&table[i]) && view_eqs(name, table[i].name)) {
				*negated = true;
				return &table[i];
			}
	}
	return NULL;
}

static int set_value(struct opt *o, const char *text, struct err *e)
{
	struct view v = view_of(text);
	switch (o->type) {
	case OPT_STRING:
		*(const char **)o->at = text;
		return 0;
	case OPT_LIST: {
		struct opt_list *l = o->at;
		l->v = xreallocarray(l->v, l->n + 1, sizeof *l->v);
		l->v[l->n++] = text;
		return 0;
	}
	case OPT_BOOL:
		if (view_eqs(v, "true") || view_eqs(v, "false")) {
			*(bool *)o->at = view_eqs(v, "true");
			return 0;
		}
		return err_set(e, ERR_BAD_DATA, "--%s: \"%s\" is neither true nor false", o->name, text);
	case OPT_INT:
		if (num_parse_i64(v, o->at))
			return 0;
		return err_set(e, ERR_BAD_DATA, "--%s: \"%s\" is not a whole number", o->name, text);
	case OPT_FLOAT:
		if (num_parse_double(v, o->at))
			return 0;
		return err_set(e, ERR_BAD_DATA, "--%s: \"%s\" is not a number", o->name, text);
	case OPT_DURATION:
		if (units_parse_duration(v, o->at))
			return 0;
		return err_set(e, ERR_BAD_DATA, "--%s: \"%s\" is not a duration such as 30s, 2h or 15d", o->name, text);
	case OPT_SIZE:
		if (units_parse_size(v, o->at))
			return 0;
		return err_set(e, ERR_BAD_DATA, "--%s: \"%s\" is not a size such as 512MB or 10GB", o->name, text);
	case OPT_EXPLAINED:
		return 0;
	case OPT_REFUSED:
	case OPT_GROUP:
		break;
	}
	return err_set(e, ERR_BAD_DATA, "--%s: %s", o->name, o->help);
}

/* A mistyped alias stands for the flag's name: aliases are other systems' names, and some are old there, too. */
static void opts_compare_names(struct typo *t, const struct opt *o)
{
	unsigned before = t->errors;
	typo_compare(t, view_of(o->name));
	for (const char *a = o->alias; a && *a;) {
		struct view one = view_make(a, strcspn(a, ","));
		typo_compare(t, one);
		a += one.len + (a[one.len] == ',');
	}
	if (t->errors < before)
		t->meant = view_of(o->name);
}

/* The one flag whose name ends in these words: web.listen-address for listen-address. NULL: there is none, or several. */
static const char *opts_with_end(const struct opt *table, size_t n, struct view words)
{
	const char *found = NULL;
	for (size_t i = 0; i < n; i++) {
		struct view name = view_of(table[i].name);
		if (!opts_is_own(&table[i]) || name.len <= words.len || name.ptr[name.len - words.len - 1] != '.' || !view_ends(name, words))
			continue;
		if (found)
			return NULL;
		found = table[i].name;
	}
	return found;
}

static int opts_say_unknown(const struct opt *table, size_t n, struct view name, struct err *e)
{
	bool negated = view_starts(name, VIEW("no-"));
	struct view rest = negated ? view_make(name.ptr + 3, name.len - 3) : VIEW("");
	struct typo plain = typo_of(name, typo_most(name)), after_no = typo_of(rest, typo_most(rest));
	for (size_t i = 0; i < n; i++) {
		if (opts_is_own(&table[i]))
			opts_compare_names(&plain, &table[i]);
		if (negated && table[i].type == OPT_BOOL)
			typo_compare(&after_no, view_of(table[i].name));
	}
	bool use_no = after_no.meant.len && (!plain.meant.len || after_no.errors < plain.errors);
	struct view meant = use_no ? after_no.meant : plain.meant;
	/* Whole words were typed without an error: --heap is self-profile.heap, though --help is near. */
	const char *longer = opts_with_end(table, n, name);
	if (longer) {
		meant = view_of(longer);
		use_no = false;
	}
	if (!meant.len)
		return err_set(e, ERR_BAD_DATA, "unknown flag --%.*s; --help lists the flags", VIEW_ARG(name));
	return err_set(e, ERR_BAD_DATA, "unknown flag --%.*s; did you mean --%s%.*s? --help lists the flags", VIEW_ARG(name), use_no ? "no-" : "",
		       VIEW_ARG(meant));
}

int opts_parse(struct opt *table, size_t n, int argc, char **argv, int *ret_rest, struct err *e)
{
	int rest = 0;
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i];
		if (strcmp(a, "--") == 0) {
			while (++i < argc)
				argv[++rest] = argv[i];
			break;
		}
		if (a[0] != '-' || !a[1]) {
			argv[++rest] = argv[i];
			continue;
		}
		if (strcmp(a, "-h") == 0)
			a = "--help";
		if (a[1] != '-')
			return err_set(e, ERR_BAD_DATA, "unknown flag %s; flags begin with two dashes, --help lists them", a);
		const char *eq = strchr(a, '=');
		struct view name = view_make(a + 2, eq ? (size_t)(eq - a - 2) : strlen(a + 2));
		bool negated;
		struct opt *o = find(table, n, name, &negated);
		if (!o)
			return opts_say_unknown(table, n, name, e);
		if (o->type == OPT_REFUSED)
			return err_set(e, ERR_BAD_DATA, "--%.*s: %s", VIEW_ARG(name), o->help);
		o->given = true;
		if (is_switch(o) && !eq) {
			if (o->type == OPT_BOOL)
				*(bool *)o->at = !negated;
			continue;
		}
		if (negated)
			return err_set(e, ERR_BAD_DATA, "--%.*s takes no value", VIEW_ARG(name));
		const char *value = eq ? eq + 1 : i + 1 < argc ? argv[++i] : NULL;
		if (!value)
			return err_set(e, ERR_BAD_DATA, "--%.*s needs a value", VIEW_ARG(name));
		int rc = set_value(o, value, e);
		if (rc)
			return rc;
	}
	*ret_rest = rest;
	return 0;
}

void opts_value(const struct opt *o, struct buf *out)
{
	char tmp[DURATION_LEN];
	switch (o->type) {
	case OPT_STRING:
		if (*(const char **)o->at)
			buf_puts(out, *(const char **)o->at);
		break;
	case OPT_BOOL:
		buf_puts(out, *(bool *)o->at ? "true" : "false");
		break;
	case OPT_INT:
		buf_printf(out, "%lld", (long long)*(int64_t *)o->at);
		break;
	case OPT_FLOAT:
		buf_puts(out, num_format(*(double *)o->at, tmp));
		break;
	case OPT_DURATION:
		buf_puts(out, units_format_duration(*(int64_t *)o->at, tmp));
		break;
	case OPT_SIZE:
		buf_puts(out, units_format_size(*(uint64_t *)o->at, tmp));
		break;
	case OPT_LIST: {
		const struct opt_list *l = o->at;
		for (size_t i = 0; i < l->n; i++)
			buf_printf(out, "%s%s", i ? "," : "", l->v[i]);
		break;
	}
	case OPT_REFUSED:
	case OPT_EXPLAINED:
	case OPT_GROUP:
		break;
	}
}

void opts_explain(const struct opt *table, size_t n, void (*say)(const char *name, const char *advice))
{
	for (size_t i = 0; i < n; i++)
		if (table[i].type == OPT_EXPLAINED && table[i].given)
			say(table[i].name, table[i].help);
}

static void put_wrapped(struct buf *out, const char *text)
{
	const size_t indent = 6, width = 94;
	size_t col = 0;
	while (*text) {
		size_t n = strcspn(text, " ");
		if (col && col + 1 + n > width) {
			buf_putc(out, '\n');
			col = 0;
		}
		if (!col) {
			buf_printf(out, "%*s", (int)indent, "");
			col = indent;
		} else {
			buf_putc(out, ' ');
			col++;
		}
		buf_put(out, text, n);
		col += n;
		text += n + (text[n] == ' ');
	}
	buf_putc(out, '\n');
}

void opts_help(const struct opt *table, size_t n, const char *usage, struct buf *out)
{
	buf_puts(out, usage);
	buf_putc(out, '\n');
	if (!n || table[0].type != OPT_GROUP)
		buf_puts(out, "\nFlags:\n");
	for (size_t i = 0; i < n; i++) {
		const struct opt *o = &table[i];
		if (o->type == OPT_GROUP)
			buf_printf(out, "\n%s:\n", o->name);
		if (!opts_is_own(o))
			continue;
		buf_printf(out, "  --%s", o->name);
		if (o->type != OPT_BOOL)
			buf_printf(out, "=%s", o->arg ? o->arg : "<value>");
		struct buf value = { 0 };
		opts_value(o, &value);
		if (value.len && !o->given && !(o->type == OPT_BOOL && view_eqs(buf_view(&value), "false")))
			buf_printf(out, "  (default %s)", value.ptr);
		buf_free(&value);
		buf_putc(out, '\n');
		put_wrapped(out, o->help);
		if (o->alias) {
			struct buf also = { 0 };
			buf_puts(&also, "Also accepted as");
			for (const char *a = o->alias; *a;) {
				size_t len = strcspn(a, ",");
				buf_printf(&also, "%s --%.*s", a > o->alias ? "," : "", (int)len, a);
				a += len + (a[len] == ',');
			}
			buf_putc(&also, '.');
			put_wrapped(out, also.ptr);
			buf_free(&also);
		}
	}
}

void opts_free(struct opt *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].type == OPT_LIST) {
			struct opt_list *l = table[i].at;
			free(l->v);
			*l = (struct opt_list){ 0 };
		}
}
