/* SPDX-License-Identifier: Apache-2.0 */
/* GET /federate: the newest sample of each float series that match[] selects, in the text format 0.0.4, for another server
 * to scrape. As in Prometheus: within the look-back, with its own time, untyped, without ended series. External labels are added where
 * a series has no such label; instance="" is added too, so that the scraper does not add its own. Profiles are left out: their value
 * would be a number without a unit of time.
 *
 * A name that the format does not allow ("my.name") is changed ("my_name"), unless the client accepts any (escaping=allow-utf-8): then
 * it is quoted within the braces. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/num.h"
#include "model/value.h"
#include "web/lookup.h"

#define LOOKBACK_MS 300000

struct row {
	struct view name;       /* as it is written */
	struct labels labels;
	struct point p;
};

struct federation {
	struct lookup l;
	bool any_name;          /* the client takes names of any characters */
	bool full;              /* the request's memory: a name could not be rewritten */
	struct labels *external;
	VEC(struct row) rows;
};

static bool plain_char(char c, bool first, bool colon)
{
	char low = (char)(c | 0x20);
	return (low >= 'a' && low <= 'z') || c == '_' || (colon && c == ':') || (!first && c >= '0' && c <= '9');
}

/* Each character that may not be there is an underscore. */
static struct view written_name(struct federation *f, struct view name, bool colon)
{
	if (f->any_name || (colon ? metric_name_plain(name) : label_name_plain(name)))
		return name;
	char *out = arena_alloc(httpd_arena(f->l.rq), name.len);
	size_t n = 0;
	if (!out) {
		f->full = true;
		return VIEW("_");
	}
	for (size_t i = 0; i < name.len; i++)
		if ((name.ptr[i] & 0xc0) != 0x80) /* not the rest of a character of several bytes */
			out[n++] = plain_char(name.ptr[i], !i, colon) ? name.ptr[i] : '_';
	return view_make(out, n);
}

/* ---- what there is ---- */

/* The float series whose newest samples are read. */
struct newest_of {
	struct federation *f;
	VEC(uint64_t) refs;
	VEC(struct labels) labels;
};

static int newest_add(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	(void)e;
	const struct newest_of *of = arg;
	struct labels l = of->labels.v[series];
	if (n && !value_is_stale(v[n - 1].v))
		vec_push(&of->f->rows, (struct row){ written_name(of->f, labels_get(l, VIEW(LABEL_NAME)), true), l, v[n - 1] });
	free(v);
	return 0;
}

/* Samples of a name stand together. */
static int row_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int c = view_cmp(x->name, y->name);
	return c ? c : labels_cmp(x->labels, y->labels);
}

static int collect(struct federation *f, struct err *e)
{
	struct series_list found = { 0 };
	struct newest_of of = { .f = f };
	int rc = lookup_series(&f->l, &found, e);
	for (size_t i = 0; i < found.v.n && !rc; i++) {
		const struct source_series *s = &found.v.v[i];
		if (s->type || !labels_get(s->labels, VIEW(LABEL_NAME)).len)
			continue;
		vec_push(&of.refs, s->ref);
		vec_push(&of.labels, s->labels);
	}
	if (!rc && of.refs.n) /* the request has no pool: its own thread adds the rows */
		rc = f->l.view->ops->floats(f->l.view, of.refs.v, of.refs.n, f->l.after, f->l.until, &f->l.lim, newest_add, &of, e);
	if (!rc && f->rows.n)
		qsort(f->rows.v, f->rows.n, sizeof *f->rows.v, row_order);
	vec_free(&of.refs);
	vec_free(&of.labels);
	vec_free(&found.v);
	return rc;
}

/* ---- what is written ---- */

static void put_escaped(struct buf *b, struct view v)
{
	for (size_t i = 0; i < v.len; i++) {
		if (v.ptr[i] == '\n') {
			buf_puts(b, "\\n");
			continue;
		}
		if (v.ptr[i] == '"' || v.ptr[i] == '\\')
			buf_putc(b, '\\');
		buf_putc(b, v.ptr[i]);
	}
}

static void put_quoted(struct buf *b, struct view v)
{
	buf_putc(b, '"');
	put_escaped(b, v);
	buf_putc(b, '"');
}

/* Two names that are written alike are one label: the first stays. */
static void add_label(struct federation *f, struct labels_builder *to, struct label l)
{
	struct view name = written_name(f, l.name, false);
	for (size_t i = 0; i < to->l.n; i++)
		if (view_eq(to->l.v[i].name, name))
			return;
	vec_push(&to->l, (struct label){ name, l.value });
}

static void put_labels(struct federation *f, struct buf *b, const struct row *r, struct labels_builder *all)
{
	bool plain = metric_name_plain(r->name);
	all->l.n = 0;
	for (size_t i = 0; i < r->labels.n; i++)
		if (!view_eqs(r->labels.v[i].name, LABEL_NAME))
			add_label(f, all, r->labels.v[i]);
	for (size_t i = 0; f->external && i < f->external->n; i++)
		add_label(f, all, f->external->v[i]);
	add_label(f, all, (struct label){ VIEW("instance"), VIEW("") });
	if (plain)
		buf_putv(b, r->name);
	buf_putc(b, '{');
	if (!plain)
		put_quoted(b, r->name);
	for (size_t i = 0; i < all->l.n; i++) {
		if (i || !plain)
			buf_putc(b, ',');
		if (label_name_plain(all->l.v[i].name))
			buf_putv(b, all->l.v[i].name);
		else
			put_quoted(b, all->l.v[i].name);
		buf_putc(b, '=');
		put_quoted(b, all->l.v[i].value);
	}
	buf_putc(b, '}');
}

static int put_rows(struct federation *f, struct err *e)
{
	int rc = 0;
	struct buf *b = httpd_out(f->l.rq);
	struct labels_builder all = { 0 };
	char number[NUM_LEN];
	for (size_t i = 0; i < f->rows.n && !rc; i++) {
		const struct row *r = &f->rows.v[i];
		rc = lookup_go_on(&f->l, i, e);
		if (rc)
			break;
		if (!i || !view_eq(f->rows.v[i - 1].name, r->name)) {
			buf_puts(b, "# TYPE ");
			if (metric_name_plain(r->name))
				buf_putv(b, r->name);
			else
				put_quoted(b, r->name);
			buf_puts(b, " untyped\n");
		}
		put_labels(f, b, r, &all);
		buf_printf(b, " %s %lld\n", num_format(r->p.v, number), (long long)r->p.t_ms);
	}
	vec_free(&all.l);
	return rc;
}

static bool takes_any_name(const struct httpd_request *rq)
{
	struct view accept = httpd_header(rq, "Accept");
	return accept.len && memmem(accept.ptr, accept.len, "escaping=allow-utf-8", 20);
}

static void look_back(struct lookup *l, const struct web *w)
{
	l->until = clock_now_ms();
	l->after = l->until - (w->o.lookback_ms ? w->o.lookback_ms : LOOKBACK_MS);
}

void serve_federate(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e = { 0 };
	struct federation f = { .any_name = takes_any_name(rq) };
	if (lookup_open(&f.l, w, w->own ? w->own : w->o.source, rq, &e)) {
		httpd_text_error(rq, &e);
		return;
	}
	look_back(&f.l, w);
	f.external = w->o.external_labels ? w->o.external_labels(w->o.arg) : NULL;
	if (collect(&f, &e)) {
		httpd_text_error(rq, &e);
	} else {
		httpd_type(rq, f.any_name ? "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
					  : "text/plain; version=0.0.4; charset=utf-8");
		if (put_rows(&f, &e))
			httpd_text_error(rq, &e);
		else if (f.full)
			httpd_text(rq, 422, "too many names that the format has no characters for: select fewer series, or accept escaping=allow-utf-8");
	}
	free(f.external);
	vec_free(&f.rows);
	lookup_close(&f.l);
}
