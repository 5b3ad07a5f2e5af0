/* SPDX-License-Identifier: Apache-2.0 */
/* The page: files of web/ui, served from the binary. Its own addresses (/graph, /targets ...) all get index.html. /runbooks is a page
 * without the rest, runbooks.html. In both <base> is set to where the browser finds us. A browser that asks for anything else gets a page
 * that leads there. */
#include <stdlib.h>

#include "pprof/pprof.h"
#include "web/assets.h"
#include "web/internal.h"

/* Shown by a build without the page. */
static const char no_page[] =
	"<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><base href=\"/\"><title>Pyrrha</title></head><body>"
	"<h1>Pyrrha</h1><p>This build is without its page. The API answers under <a href=\"api/v1/status/buildinfo\">"
	"api/v1</a>, metrics are at <a href=\"metrics\">metrics</a>.</p></body></html>\n";

/* The answer for paths that are no page. Its head, up to <base>, is written before it. It has no scripts, so it is dark if the browser prefers dark. */
static const char lost_page[] =
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">"
	"<title>No such page \xc2\xb7 Pyrrha</title><link rel=\"icon\" href=\"favicon.svg\" type=\"image/svg+xml\"><link rel=\"stylesheet\" href=\"app.css\">"
	"</head><body><main class=\"empty\"><h1><img class=\"logo\" src=\"favicon.svg\" alt=\"\">There is no such page</h1>"
	"<p>The address may have a mistake, or be of another version.</p><p class=\"hint\"><a href=\"./\">To the first page of Pyrrha</a></p></main></body></html>\n";
#define LOST_DEEPEST 64 /* segments of a path that are climbed one by one */

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

static void pages_send_file(struct httpd_request *rq, void *arg, struct view name)
{
	const struct web *w = arg;
	for (size_t i = 0; i < w->files.n; i++)
		if (view_eqs(name, w->files.v[i].name)) {
			httpd_send_asset(rq, &w->files.v[i].asset);
			return;
		}
	serve_no_page(rq, arg);
}

/* The address of the page as the browser resolves it. Where no setting says it, it is relative, because a proxy's prefix is unknown here. */
static void put_home(const struct web *w, struct view path, struct buf *out)
{
	size_t deep = 0;
	for (size_t i = 1; i < path.len; i++)
		if (path.ptr[i] == '/')
			deep++;
	if (w->base[0] == '/') {
		put_html(out, w->base);
	} else if (w->prefix[0] || deep > LOST_DEEPEST) {
		put_html(out, w->prefix);
		buf_putc(out, '/');
	} else {
		buf_puts(out, deep ? "" : "./");
		for (; deep; deep--)
			buf_puts(out, "../");
	}
}

void serve_no_page(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct view path = httpd_path(rq);
	httpd_text(rq, 404, "no such page: %.*s", (int)MIN(path.len, (size_t)200), path.ptr);
	httpd_set_header(rq, "Vary", "Accept");
	if (!httpd_accepts(httpd_header(rq, "Accept"), "text/html"))
		return;
	struct buf *out = httpd_out(rq);
	httpd_out_anew(rq);
	httpd_type(rq, type_of(".html"));
	httpd_set_page(rq);
	buf_puts(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><base href=\"");
	put_home(w, path, out);
	buf_puts(out, "\">");
	buf_puts(out, lost_page);
}

void serve_file(struct httpd_request *rq, void *arg)
{
	pages_send_file(rq, arg, httpd_segment(rq, "file"));
}

void serve_runbooks(struct httpd_request *rq, void *arg)
{
	pages_send_file(rq, arg, VIEW("runbooks.html"));
}
