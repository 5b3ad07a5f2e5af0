/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/oracle/stacks.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/vec.h"

struct row {
	char *key;
	int64_t *values;
};

struct table {
	VEC(struct row) rows;
	uint32_t n_values;
};

static void put_mapping(struct buf *b, const struct profile *p, const struct profile_mapping *m)
{
	struct view build_id = profile_str(p, m->build_id_str), file = profile_str(p, m->file_str);
	buf_printf(b, "<%llx+%llx ", (unsigned long long)((m->limit - m->start + 4095) / 4096), (unsigned long long)m->offset);
	buf_putv(b, build_id.len ? build_id : file);
	buf_putc(b, '>');
}

static void put_location(struct buf *b, const struct profile *p, const struct profile_location *l)
{
	const struct profile_mapping *m = l->mapping ? &p->mappings[l->mapping - 1] : NULL;
	if (m)
		put_mapping(b, p, m);
	buf_printf(b, "%llx%s", (unsigned long long)(l->address - (m ? m->start : 0)), l->is_folded ? "*" : "");
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *line = &p->lines[l->first_line + i];
		bool last = i + 1 == l->n_lines;
		buf_printf(b, "(%lld:%lld", (long long)line->line, (long long)(last ? line->column : 0));
		if (line->function) {
			const struct profile_function *f = &p->functions[line->function - 1];
			buf_printf(b, " %.*s|%.*s|%.*s|%lld", VIEW_ARG(profile_str(p, f->name_str)),
				   VIEW_ARG(profile_str(p, f->system_name_str)), VIEW_ARG(profile_str(p, f->filename_str)),
				   (long long)f->start_line);
		}
		buf_putc(b, ')');
	}
	buf_putc(b, ';');
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_labels(struct buf *b, const struct profile *p, const struct profile_sample *s)
{
	char **l = xcalloc(s->n_labels + 1, sizeof *l);
	size_t n = 0;
	for (uint32_t i = 0; i < s->n_labels; i++) {
		const struct profile_label *x = &p->labels[s->first_label + i];
		struct view key = profile_str(p, x->key_str), unit = profile_str(p, x->unit_str), text = profile_str(p, x->str);
		if (!x->is_num)
			l[n++] = xasprintf(" %.*s=\"%.*s\"", VIEW_ARG(key), VIEW_ARG(text));
		else if (x->num || unit.len)
			l[n++] = xasprintf(" %.*s=%lld%.*s", VIEW_ARG(key), (long long)x->num, VIEW_ARG(unit));
	}
	qsort(l, n, sizeof *l, by_text);
	for (size_t i = 0; i < n; i++) {
		buf_puts(b, l[i]);
		free(l[i]);
	}
	free(l);
}

static bool all_zero(const int64_t *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (v[i])
			return false;
	return true;
}

static struct table tabulate(const struct profile *p)
{
	struct table t = { .n_values = p->n_sample_types };
	for (uint32_t i = 0; i < p->n_samples; i++) {
		struct buf b = { 0 };
		const struct profile_sample *s = &p->samples[i];
		for (uint32_t k = 0; k < s->n_locations; k++)
			put_location(&b, p, &p->locations[p->stack[s->first_location + k]]);
		put_labels(&b, p, s);
		struct row r = { buf_take(&b, NULL), xcalloc(t.n_values, sizeof *r.values) };
		memcpy(r.values, p->values + (size_t)i * t.n_values, t.n_values * sizeof *r.values);
		vec_push(&t.rows, r);
	}
	if (t.rows.n)
		qsort(t.rows.v, t.rows.n, sizeof *t.rows.v, by_text);
	size_t n = 0;
	for (size_t i = 0; i < t.rows.n; i++) {
		struct row *r = &t.rows.v[i];
		if (n && strcmp(t.rows.v[n - 1].key, r->key) == 0) {
			for (uint32_t k = 0; k < t.n_values; k++)
				t.rows.v[n - 1].values[k] += r->values[k];
			free(r->key);
			free(r->values);
		} else {
			t.rows.v[n++] = *r;
		}
	}
	t.rows.n = n;
	return t;
}

static void table_free(struct table *t)
{
	for (size_t i = 0; i < t->rows.n; i++) {
		free(t->rows.v[i].key);
		free(t->rows.v[i].values);
	}
	vec_free(&t->rows);
}

/* Rows of zeros only count for nothing. */
static void skip_zeros(const struct table *t, size_t *i)
{
	while (*i < t->rows.n && all_zero(t->rows.v[*i].values, t->n_values))
		++*i;
}

/* The first difference in words; empty if there is none. */
static void find_difference(const struct table *a, const struct table *b, struct buf *why)
{
	size_t i = 0, k = 0;
	if (a->n_values != b->n_values) {
		buf_printf(why, "%u sample types, theirs %u", a->n_values, b->n_values);
		return;
	}
	for (;; i++, k++) {
		skip_zeros(a, &i);
		skip_zeros(b, &k);
		if (i == a->rows.n || k == b->rows.n)
			break;
		if (strcmp(a->rows.v[i].key, b->rows.v[k].key) != 0) {
			buf_printf(why, "stacks differ:\nours   %s\ntheirs %s", a->rows.v[i].key, b->rows.v[k].key);
			return;
		}
		for (uint32_t v = 0; v < a->n_values; v++)
			if (a->rows.v[i].values[v] != b->rows.v[k].values[v]) {
				buf_printf(why, "value %u is %lld, theirs %lld, of %s", v, (long long)a->rows.v[i].values[v],
					   (long long)b->rows.v[k].values[v], a->rows.v[i].key);
				return;
			}
	}
	if (i < a->rows.n || k < b->rows.n)
		buf_printf(why, "only one has %s", i < a->rows.n ? a->rows.v[i].key : b->rows.v[k].key);
}

char *stacks_difference(const struct profile *ours, const struct profile *theirs)
{
	struct table a = tabulate(ours), b = tabulate(theirs);
	struct buf why = { 0 };
	find_difference(&a, &b, &why);
	table_free(&a);
	table_free(&b);
	return why.len ? buf_take(&why, &(size_t){ 0 }) : NULL;
}
