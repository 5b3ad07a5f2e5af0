/* SPDX-License-Identifier: Apache-2.0 */
/* Which series and labels there are: labels, label/NAME/values, series. Several match[] are a union. */
#include <stdlib.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "promql-like/promql.h"
#include "web/lookup.h"

/* What the answer lacks: cut by the limit, damaged in the storage, not on this disk, or of a server that did not answer. */
static void lookup_end(struct lookup *l, bool cut)
{
	struct answer_warnings w = { .arena = httpd_arena(l->rq) };
	if (cut)
		vec_push(&w.v, answer_truncated);
	source_damage_warnings(&l->damage, answer_warn, &w);
	answer_end(l->rq, w.v.v, w.v.n, NULL, 0);
	vec_free(&w.v);
}

/* ---- sets of strings ---- */

/* Borrowed from the lookup's view. */
struct names {
	VEC(struct view) v;
	size_t united;      /* the first `united` of v are sorted and unique */
};

static int view_order(const void *a, const void *b)
{
	return view_cmp(*(const struct view *)a, *(const struct view *)b);
}

static void names_unite(struct names *n)
{
	if (n->v.n)
		qsort(n->v.v, n->v.n, sizeof *n->v.v, view_order);
	size_t out = 0;
	for (size_t i = 0; i < n->v.n; i++)
		if (!out || !view_eq(n->v.v[out - 1], n->v.v[i]))
			n->v.v[out++] = n->v.v[i];
	n->united = n->v.n = out;
}

/* Thousands of selectors may find the same names: repetitions are dropped before v is much more than twice the number of different names. */
static void names_take(struct names *n, const struct view *found, size_t count)
{
	bool first = !n->v.n;
	for (size_t i = 0; i < count; i++)
		vec_push(&n->v, found[i]);
	if (first)
		n->united = count; /* the values of one selector come sorted and without repetition */
	else if (n->v.n > 2 * n->united + UNITED_AT)
		names_unite(n);
}

static int answer_names(struct lookup *l, struct names *n, struct err *e)
{
	if (n->v.n != n->united)
		names_unite(n);
	size_t shown = l->limit && l->limit < n->v.n ? l->limit : n->v.n;
	int rc = 0;
	struct buf *b = answer_begin(l->rq);
	json_array_begin(b);
	for (size_t i = 0; i < shown && !rc; i++) {
		json_text(b, n->v.v[i]);
		rc = lookup_go_on(l, i, e);
	}
	json_array_end(b);
	lookup_end(l, shown < n->v.n);
	return rc;
}

/* Names of labels, or the values of one. Without a selector: one look-up that takes all series. */
static int find_names(struct lookup *l, const struct view *label, struct names *n, struct err *e)
{
	const struct source_ops *ops = l->view->ops;
	int rc = 0;
	for (size_t i = 0; i < MAX(l->sel.n, 1) && !rc; i++) {
		struct match_param s = l->sel.n ? l->sel.v[i] : (struct match_param){ 0 };
		struct view *found = NULL;
		size_t count = 0;
		rc = label ? ops->label_values(l->view, *label, s.m, s.n, l->after, l->until, &l->lim, &found, &count, e) :
			     ops->label_names(l->view, s.m, s.n, l->after, l->until, &l->lim, &found, &count, e);
		if (!rc)
			names_take(n, found, count);
		free(found);
	}
	return rc;
}

static void serve_names(struct web *w, struct httpd_request *rq, const struct view *label)
{
	struct err e = { 0 };
	struct lookup l;
	if (lookup_open(&l, w, w->o.source, rq, &e)) {
		answer_error(rq, &e);
		return;
	}
	struct names n = { 0 };
	if (find_names(&l, label, &n, &e) || answer_names(&l, &n, &e))
		answer_error(rq, &e);
	vec_free(&n.v);
	lookup_close(&l);
}

void serve_labels(struct httpd_request *rq, void *arg)
{
	serve_names(arg, rq, NULL);
}

/* ---- U__ names ---- */

static bool hex_rune(struct view v, size_t *at, uint32_t *ret)
{
	size_t i = *at;
	uint32_t cp = 0;
	for (; i < v.len && v.ptr[i] != '_'; i++) {
		char c = v.ptr[i], low = (char)(c | 0x20);
		if (i - *at == 6)
			return false;
		if (c >= '0' && c <= '9')
			cp = cp * 16 + (uint32_t)(c - '0');
		else if (low >= 'a' && low <= 'f')
			cp = cp * 16 + (uint32_t)(low - 'a' + 10);
		else
			return false;
	}
	if (i == *at || i == v.len || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return false;
	*at = i;
	*ret = cp;
	return true;
}

/* "U__my_2e_name" is "my.name", "__" an underscore; malformed names are unchanged. */
static struct view decode_label_name(struct arena *a, struct view name)
{
	if (!view_starts(name, VIEW("U__")))
		return name;
	char *out = arena_alloc(a, name.len);
	size_t n = 0;
	for (size_t i = 3; i < name.len; i++) {
		uint32_t cp;
		if (!out)
			return name;
		if (name.ptr[i] != '_') {
			out[n++] = name.ptr[i];
		} else if (i + 1 < name.len && name.ptr[i + 1] == '_') {
			out[n++] = '_';
			i++;
		} else {
			i++;
			if (!hex_rune(name, &i, &cp))
				return name;
			n += utf8_encode(cp, out + n);
		}
	}
	return view_make(out, n);
}

void serve_label_values(struct httpd_request *rq, void *arg)
{
	struct view name = decode_label_name(httpd_arena(rq), httpd_segment(rq, "name"));
	if (!name.len || !utf8_valid(name)) {
		struct err e;
		err_set(&e, ERR_BAD_DATA, "invalid label name: \"%.*s\"", VIEW_ARG(name));
		answer_error(rq, &e);
		return;
	}
	serve_names(arg, rq, &name);
}

/* ---- series ---- */

static int answer_series(struct lookup *l, struct series_list *s, struct err *e)
{
	struct buf *b = answer_begin(l->rq);
	json_array_begin(b);
	size_t shown = 0;
	bool cut = false;
	int rc = 0;
	for (size_t i = 0; i < s->v.n && !cut && !rc; i++) {
		if (i && labels_eq(s->v.v[i - 1].labels, s->v.v[i].labels))
			continue;
		cut = l->limit && shown == l->limit;
		if (cut)
			break;
		shown++;
		labels_json(s->v.v[i].labels, b);
		rc = lookup_go_on(l, i, e);
	}
	json_array_end(b);
	lookup_end(l, cut);
	return rc;
}

void serve_series(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e = { 0 };
	struct lookup l;
	if (lookup_open(&l, w, w->o.source, rq, &e)) {
		answer_error(rq, &e);
		return;
	}
	struct series_list s = { 0 };
	int rc = l.sel.n ? lookup_series(&l, &s, &e) : err_set(&e, ERR_BAD_DATA, "no match[] parameter provided");
	if (!rc)
		rc = answer_series(&l, &s, &e);
	if (rc)
		answer_error(rq, &e);
	vec_free(&s.v);
	lookup_close(&l);
}
