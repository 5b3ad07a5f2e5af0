/* SPDX-License-Identifier: Apache-2.0 */
#include "web/source_links.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/regex.h"

#define MAX_LINKS 100
#define MAX_VALUE ((size_t)4096) /* limit of a placeholder's value, in bytes */
#define MAX_URL ((size_t)8192)

struct link {
	const char *name, *match, *url;
	struct regex *re;
};

struct source_links {
	struct arena arena;
	struct config_list list; /* of struct link */
	atomic_uint refs;
};

/* A browser asks before it starts a program for one of the others. */
static const char *const schemes[] = {
	"https", "http", "vscode", "vscode-insiders", "vscodium", "cursor", "windsurf", "zed", "idea", "jetbrains", "goland", "pycharm", "clion", "subl",
	"txmt",
};

/* ---- a template ---- */

static const char *end_of_authority(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	return host + strcspn(host, "/?#");
}

static bool known_scheme(const char *url)
{
	size_t n = strcspn(url, ":");
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (view_eqs(view_make(url, n), schemes[i]))
			return true;
	return false;
}

static int check_start(struct config_ctx *c, const struct config_node *n, const char *url, struct err *e)
{
	struct buf all = { 0 };
	if (known_scheme(url) && strncmp(url + strcspn(url, ":"), "://", 3) == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		buf_printf(&all, "%s%s", i ? ", " : "", schemes[i]);
	int rc = config_error(c, n, e, "a URL is wanted that begins with one of these and ://: %s", all.ptr);
	buf_free(&all);
	return rc;
}

/* Profiles come from anywhere: which host is asked is for the configuration alone. */
static int check_authority(struct config_ctx *c, const struct config_node *n, const char *url, struct err *e)
{
	const char *host = strstr(url, "://") + 3, *end = end_of_authority(url);
	/* vscode://file{path}: the path begins with a slash, which is looked at when it is known. */
	const char *path = url[0] == 'h' ? NULL : memmem(host, (size_t)(end - host), "{path}", 6);
	size_t len = (size_t)((path ? path : end) - host);
	if (memchr(host, '{', len) || memchr(host, '@', len))
		return config_error(c, n, e, "no placeholder and no user info may be in the host: a profile would choose the server");
	if (!len)
		return config_error(c, n, e, "the URL names no host");
	return 0;
}

static bool has_group(const char *match, struct view name)
{
	char *p AUTOFREE = xasprintf("(?P<%.*s>", VIEW_ARG(name)), *plain AUTOFREE = xasprintf("(?<%.*s>", VIEW_ARG(name));
	return strstr(match, p) || strstr(match, plain);
}

static bool is_number(struct view v)
{
	return v.len == 1 && v.ptr[0] >= '1' && v.ptr[0] <= '9';
}

static bool is_word(struct view v)
{
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
			return false;
	}
	return v.len;
}

static bool is_own(struct view name)
{
	return view_eqs(name, "path") || view_eqs(name, "line") || view_eqs(name, "function") || view_eqs(name, "binary");
}

static int check_placeholders(struct config_ctx *c, const struct config_node *n, const struct link *l, struct err *e)
{
	for (const char *p = l->url; *p; p++) {
		if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127 || strchr("<>\"\\^`|", *p))
			return config_error(c, n, e, "a byte that no URL has, at %td: write it percent-encoded", p - l->url + 1);
		if (*p == '}')
			return config_error(c, n, e, "a } without a {, at %td", p - l->url + 1);
		if (*p != '{')
			continue;
		struct view name = view_make(p + 1, strcspn(p + 1, "{}"));
		if (p[1 + name.len] != '}')
			return config_error(c, n, e, "a { without a }, at %td", p - l->url + 1);
		if (!is_own(name) && !is_number(name) && !(is_word(name) && has_group(l->match, name)))
			return config_error(c, n, e, "{%.*s} is none of {path}, {line}, {function}, {binary}, and no group of match: {1} to {9}, or one that is "
					    "written (?P<%.*s>...)", VIEW_ARG(name), VIEW_ARG(name));
		p += name.len + 1;
	}
	return 0;
}

static int check_link(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct link *l = at;
	const struct config_node *url = config_get(n, "url"), *match = config_get(n, "match");
	struct err why = { 0 };
	size_t mark = config_enter(c, "url");
	int rc = strlen(l->url) > MAX_URL / 2 ? config_error(c, url, e, "longer than %zu bytes", MAX_URL / 2) : check_placeholders(c, url, l, e);
	if (!rc)
		rc = check_start(c, url, l->url, e);
	if (!rc)
		rc = check_authority(c, url, l->url, e);
	config_leave(c, mark);
	mark = config_enter(c, "match");
	if (!rc && regex_new(&l->re, view_of(l->match), true, &why))
		rc = config_error(c, match ? match : n, e, "%s", why.msg);
	config_leave(c, mark);
	if (!rc && !*l->name) {
		bool web = l->url[0] == 'h';
		const char *from = web ? strstr(l->url, "://") + 3 : l->url;
		l->name = arena_strndup(c->arena, from, web ? (size_t)(end_of_authority(l->url) - from) : strcspn(from, ":"));
	}
	return rc;
}

static const struct config_field link_rows[] = {
	{ "name", CONFIG_STRING, offsetof(struct link, name), "" },
	{ "match", CONFIG_STRING, offsetof(struct link, match), ".+" },
	{ "url", CONFIG_STRING, offsetof(struct link, url), NULL, CONFIG_REQUIRED },
};
static const struct config_table link_table = CONFIG_TABLE(struct link, link_rows, check_link);

static int check_list(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct source_links *l = at;
	return l->list.n > MAX_LINKS ? config_error(c, n, e, "more than %d source_links", MAX_LINKS) : 0;
}

static const struct config_field web_rows[] = {
	{ "source_links", CONFIG_STRUCTS, offsetof(struct source_links, list), .table = &link_table },
};
static const struct config_table web_table = CONFIG_TABLE(struct source_links, web_rows, check_list);

int source_links_parse(struct source_links **ret, const struct config_tree *t, void (*warn)(void *, const char *), void *warn_arg, struct err *e)
{
	struct source_links *l = NEW(struct source_links);
	arena_init(&l->arena, CONFIG_MAX_BYTES);
	atomic_store(&l->refs, 1);
	struct config_ctx ctx = { .arena = &l->arena, .warn = warn, .warn_arg = warn_arg };
	int rc = config_decode_at(&ctx, "web", &web_table, config_get(config_root(t), "web"), l, e);
	config_ctx_release(&ctx);
	if (rc)
		source_links_unref(l);
	else
		*ret = l;
	return rc;
}

struct source_links *source_links_ref(struct source_links *l)
{
	atomic_fetch_add(&l->refs, 1);
	return l;
}

void source_links_unref(struct source_links *l)
{
	if (!l || atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	struct link *v = l->list.v;
	for (size_t i = 0; v && i < l->list.n; i++)
		regex_unref(v[i].re);
	arena_free(&l->arena);
	free(l);
}

void source_links_check(const struct source_links *l, struct buf *out)
{
	const struct link *v = l->list.v;
	for (size_t i = 0; i < l->list.n; i++)
		buf_printf(out, "source link: %s\n", v[i].name);
}

/* ---- a frame ---- */

static void put_escaped(struct buf *out, struct view v)
{
	/* "x/" + "/y": one slash is enough, and two would be another host at the beginning of a path */
	if (v.len && v.ptr[0] == '/' && out->len && out->ptr[out->len - 1] == '/')
		v = view_make(v.ptr + 1, v.len - 1);
	for (size_t i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.ptr[i];
		if (c && ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || strchr("-._~/@", c)))
			buf_putc(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

/* False: it has no value that is allowed there. */
static bool put_value(const struct link *l, const struct source_frame *f, struct view name, struct buf *out)
{
	struct buf group CLEANUP(buf_free) = { .max = MAX_VALUE };
	struct view v = f->file;
	if (view_eqs(name, "line")) {
		buf_printf(out, "%llu", (unsigned long long)(f->line ? f->line : 1));
		return true;
	}
	if (view_eqs(name, "function")) {
		v = f->function;
	} else if (view_eqs(name, "binary")) {
		v = f->binary;
	} else if (!view_eqs(name, "path") || has_group(l->match, name)) {
		char *template AUTOFREE = xasprintf("${%.*s}", VIEW_ARG(name));
		if (regex_expand(l->re, f->file, view_of(template), &group, NULL, NULL) != 1)
			return false;
		v = buf_view(&group);
	}
	if (!v.len || v.len > MAX_VALUE || group.overflow)
		return false;
	put_escaped(out, v);
	return true;
}

/* "a/../b" would be another page of that host. */
static bool steps_out(const char *url)
{
	const char *p = end_of_authority(url);
	while (*p == '/') {
		size_t n = strcspn(++p, "/?#");
		if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return true;
		p += n;
	}
	return false;
}

static bool put_url(const struct link *l, const struct source_frame *f, struct buf *out)
{
	size_t host = (size_t)(strchr(l->url, ':') - l->url) + 3;
	for (const char *p = l->url; *p;) {
		size_t n = strcspn(p, "{");
		buf_put(out, p, n);
		p += n;
		if (!*p)
			break;
		struct view name = view_make(p + 1, strcspn(p + 1, "}"));
		size_t at = out->len;
		if (!put_value(l, f, name, out))
			return false;
		/* "vscode://file{path}": what is no path would be another authority */
		if (!strpbrk(out->ptr + host, "/?#") || strpbrk(out->ptr + host, "/?#") > out->ptr + at)
			return false;
		p += name.len + 2;
	}
	return !out->overflow && !steps_out(out->ptr);
}

void source_links_json(const struct source_links *l, const struct source_frame *f, struct buf *out)
{
	const struct link *v = l ? l->list.v : NULL;
	json_array_begin(out);
	for (size_t i = 0; l && f->file.len && f->file.len <= MAX_VALUE && i < l->list.n; i++) {
		struct buf url CLEANUP(buf_free) = { .max = MAX_URL };
		if (regex_match(v[i].re, f->file, NULL, NULL) != 1 || !put_url(&v[i], f, &url))
			continue;
		json_object_begin(out);
		json_field_text(out, "name", v[i].name);
		json_field(out, "url", buf_view(&url));
		json_object_end(out);
	}
	json_array_end(out);
}
