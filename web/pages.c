/* SPDX-License-Identifier: Apache-2.0 */
/* The page: files of web/ui, served from the binary. Its own addresses (/graph, /targets ...) all get index.html. /runbooks is a page
 * without the rest, runbooks.html. In both <base> is set to where the browser finds us. */
#include <stdlib.h>

#include "pprof/pprof.h"
#include "web/assets.h"
#include "web/internal.h"

/* Shown by a build without the page. */
static const char no_page[] =
	"<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><base href=\"/\"><title>Pyrrha</title></head><body>"
	"<h1>Pyrrha</h1><p>This build is without its page. The API answers under <a href=\"api/v1/status/buildinfo\">"
	"api/v1</a>, metrics are at <a href=\"metrics\">metrics</a>.</p></body></html>\n";

static const struct {
	const char *suffix, *type;
} types[] = {
	{ ".html", "text/html; charset=utf-8" }, { ".js", "text/javascript; charset=utf-8" },
	{ ".css", "text/css; charset=utf-8" }, { ".svg", "image/svg+xml" }, { ".json", "application/json" },
	{ ".map", "application/json" }, { ".woff2", "font/woff2" }, { ".png", "image/png" }, { ".ico", "image/x-icon" },
};

static const char *type_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (view_ends(view_of(name), view_of(types[i].suffix)))
			return types[i].type;
	return "application/octet-stream";
}

static void put_html(struct buf *out, const char *s)
{
	for (; *s; s++) {
		if (strchr("<>&\"'", *s))
			buf_printf(out, "&#%d;", *s);
		else
			buf_putc(out, *s);
	}
}

/* A page with <base href="/"> made our own; returns owned bytes. */
static char *page_with_base(const struct web *w, struct view html, size_t *ret_n)
{
	struct view mark = VIEW("<base href=\"/\">");
	struct buf out = { 0 };
	const char *at = memmem(html.ptr, html.len, mark.ptr, mark.len);
	if (at) {
		buf_put(&out, html.ptr, (size_t)(at - html.ptr));
		buf_puts(&out, "<base href=\"");
		put_html(&out, w->base);
		buf_puts(&out, "\">");
		at += mark.len;
		html = view_make(at, html.len - (size_t)(at - html.ptr));
	}
	buf_putv(&out, html);
	return buf_take(&out, ret_n);
}

static void make_index(struct web *w, struct view html)
{
	size_t n;
	w->index = page_with_base(w, html, &n);
	httpd_asset_init(&w->index_asset, type_of(".html"), view_make(w->index, n), false);
}

/* The script is sent to each browser and compressed once: as tightly as libdeflate can, 3 % below zlib's best. */
static void pack(struct httpd_asset *a)
{
	struct buf tight = { 0 };
	struct err e = { 0 };
	if (!a->gzip.ptr || pprof_gzip(a->body, 12, &tight, &e) < 0 || tight.len >= a->gzip.len) {
		buf_free(&tight);
		return;
	}
	size_t n;
	free((char *)(uintptr_t)a->gzip.ptr);
	const char *bytes = buf_take(&tight, &n);
	a->gzip = view_make(bytes, n);
}

void pages_init(struct web *w)
{
	struct view html = view_of(no_page);
	for (const struct web_asset *a = web_assets; a->name; a++) {
		struct view body = view_make(a->start, (size_t)(a->end - a->start));
		if (strcmp(a->name, "index.html") == 0) {
			html = body;
			continue;
		}
		struct page_file *f = vec_add(&w->files);
		size_t n;
		f->name = a->name;
		if (view_ends(view_of(a->name), VIEW(".html"))) {
			f->page = page_with_base(w, body, &n);
			body = view_make(f->page, n);
		}
		httpd_asset_init(&f->asset, type_of(a->name), body, false);
		pack(&f->asset);
	}
	make_index(w, html);
}

void pages_release(struct web *w)
{
	for (size_t i = 0; i < w->files.n; i++) {
		httpd_asset_release(&w->files.v[i].asset);
		free(w->files.v[i].page);
	}
	vec_free(&w->files);
	httpd_asset_release(&w->index_asset);
	free(w->index);
}

void serve_index(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	httpd_send_asset(rq, &w->index_asset);
}

static void pages_send_file(struct httpd_request *rq, const struct web *w, struct view name)
{
	for (size_t i = 0; i < w->files.n; i++)
		if (view_eqs(name, w->files.v[i].name)) {
			httpd_send_asset(rq, &w->files.v[i].asset);
			return;
		}
	httpd_text(rq, 404, "no such page: %.*s", VIEW_ARG(name));
}

void serve_file(struct httpd_request *rq, void *arg)
{
	pages_send_file(rq, arg, httpd_segment(rq, "file"));
}

void serve_runbooks(struct httpd_request *rq, void *arg)
{
	pages_send_file(rq, arg, VIEW("runbooks.html"));
}
