/* SPDX-License-Identifier: Apache-2.0 */
/* One list that is kept up to date, on the caller's thread:
 *
 *	        ┌──────────────────────────────── 410: it forgot ───────────────────────────┐
 *	        v                                                                           │
 *	list, page by page ──► begin, put..., end ──► watch from resourceVersion ──► put, del, put
 *	                                                   ^                                │
 *	                                                   └── ended, or broke off ─────────┘
 *
 * The first list takes what the server has in its cache (resourceVersion=0: a node's agent must not make etcd read all
 * pods of the cluster); after a 410 the newest is asked for. A watch that breaks off, also in the middle of a line, goes
 * on from the last version that was seen whole; the server sends what came after it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "kube/kube_private.h"

#define PAGE_DEFAULT 250
#define OBJECTS_DEFAULT 100000
#define WATCH_SECONDS_DEFAULT 240
#define PAUSE_MS_DEFAULT 800
#define PAUSE_STEPS 40
#define EMPTY_PAGES_MAX 10           /* more pages than objects may be: a filter is applied to a page of the store */
#define LIST_TIMEOUT_MS 60000
#define PAGE_BYTES_MAX ((uint64_t)64 << 20)
/* etcd keeps objects below 1.5 MB; as JSON they are larger. */
#define LINE_BYTES_MAX ((size_t)8 << 20)
#define GRACE_MS 15000
#define HEAD_BYTES 4096

struct run {
	const struct kube_watch *w;
	char version[128];           /* "" = none: list */
	bool forgot;                 /* the server answered 410: ask for the newest */
	int64_t retry_after_s;       /* of the last answer; -1 = not said */
	/* Of one watch: */
	struct buf line;
	struct buf head;             /* the first bytes of the answer, in case it is an error */
	struct err said;             /* why a line ended it */
	int rc;
	bool event;                  /* something came */
};

const json_t *kube_get(const json_t *j, const char *path)
{
	while (j && *path) {
		char key[128];
		size_t n = strcspn(path, ".");
		if (n >= sizeof key)
			return NULL;
		memcpy(key, path, n);
		key[n] = 0;
		j = json_object_get(j, key);
		path += n + (path[n] == '.');
	}
	return j;
}

const char *kube_text(const json_t *object, const char *path)
{
	const char *s = json_string_value(kube_get(object, path));
	return s ? s : "";
}

static bool canceled(const struct run *r)
{
	return r->w->cancel && atomic_load(r->w->cancel);
}

/* --- requests --- */

static void put_param(struct buf *url, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	buf_printf(url, "%s%s=", memchr(url->ptr, '?', url->len) ? "&" : "?", name);
	fetch_url_escape(view_of(value), url);
}

static void begin_url(const struct run *r, struct buf *url)
{
	buf_printf(url, "%s%s", r->w->client->server, r->w->path);
	put_param(url, "fieldSelector", r->w->field_selector);
	put_param(url, "labelSelector", r->w->label_selector);
}

/* What a Status object, or an answer that is none, says. */
static int say_status(const struct run *r, int http, struct view body, struct err *e)
{
	json_t *j = json_loadb(body.ptr, body.len, JSON_DISABLE_EOF_CHECK, NULL);
	const char *message = kube_text(j, "message");
	enum err_code code = http == 401 || http == 403 ? ERR_DENIED : http == 404 ? ERR_NOT_FOUND : ERR_UNAVAILABLE;
	const char *advice = http == 401 ? " (is the token valid?)" : http == 403 ? " (does a ClusterRole allow list and watch?)" : "";
	int rc = err_set(e, code, "%s%s: HTTP %d: %.300s%s", r->w->client->server, r->w->path, http,
			 *message ? message : "no reason given", advice);
	json_decref(j);
	return rc;
}

/* --- list --- */

static int get_page(struct run *r, const char *url, json_t **ret, struct err *e)
{
	struct fetch_request q = { .url = url, .timeout_ms = LIST_TIMEOUT_MS, .max_bytes = PAGE_BYTES_MAX, .compressed = true,
				   .cancel = r->w->cancel };
	struct fetch_response a;
	json_error_t why;
	int rc = fetch_do(r->w->client->fetch, &q, &a, e);

	r->retry_after_s = a.retry_after_s;
	if (rc) {
		err_wrap(e, "%s%s", r->w->client->server, r->w->path);
	} else if (a.status == 410) {
		r->forgot = true;
		rc = err_set(e, ERR_CONFLICT, "%s%s: the list changed while it was read", r->w->client->server, r->w->path);
	} else if (a.status != 200) {
		rc = say_status(r, a.status, buf_view(&a.body), e);
	} else if (!(*ret = json_loadb(buf_view(&a.body).ptr, a.body.len, 0, &why))) {
		rc = err_set(e, ERR_BAD_DATA, "%s%s: no JSON: %s", r->w->client->server, r->w->path, why.text);
	} else if (!json_is_array(json_object_get(*ret, "items"))) {
		json_decref(*ret);
		rc = err_set(e, ERR_BAD_DATA, "%s%s: the answer is no list", r->w->client->server, r->w->path);
	}
	fetch_response_release(&a);
	return rc;
}

static void page_url(const struct run *r, const char *more, struct buf *url)
{
	char page[16];
	snprintf(page, sizeof page, "%u", r->w->page ? r->w->page : PAGE_DEFAULT);
	begin_url(r, url);
	put_param(url, "limit", page);
	put_param(url, "continue", more);
	if (!*more && !r->forgot)
		put_param(url, "resourceVersion", "0");
}

static int list(struct run *r, struct err *e)
{
	VEC(json_t *) pages = { 0 };
	size_t n = 0, max = r->w->max_objects ? r->w->max_objects : OBJECTS_DEFAULT;
	const char *more = "";
	int rc;

	do {
		struct buf url = { 0 };
		json_t *j = NULL;
		page_url(r, more, &url);
		rc = get_page(r, url.ptr, &j, e);
		buf_free(&url);
		if (rc)
			break;
		vec_push(&pages, j);
		n += json_array_size(json_object_get(j, "items"));
		if (n > max)
			rc = err_set(e, ERR_LIMIT, "%s%s: more than %zu objects; narrow it with a selector", r->w->client->server,
				     r->w->path, max);
		else if (pages.n > max + EMPTY_PAGES_MAX)
			rc = err_set(e, ERR_LIMIT, "%s%s: %zu pages and no end", r->w->client->server, r->w->path, pages.n);
		snprintf(r->version, sizeof r->version, "%s", kube_text(j, "metadata.resourceVersion"));
		more = kube_text(j, "metadata.continue");
	} while (!rc && *more);
	if (!rc && !r->version[0])
		rc = err_set(e, ERR_BAD_DATA, "%s%s: the list has no resourceVersion", r->w->client->server, r->w->path);
	/* Whole, or not at all. */
	if (!rc) {
		r->forgot = false;
		r->w->begin(r->w->arg);
		for (size_t i = 0; i < pages.n; i++) {
			size_t k;
			const json_t *o, *items = json_object_get(pages.v[i], "items");
			json_array_foreach(items, k, o)
				r->w->put(r->w->arg, o);
		}
		r->w->end(r->w->arg);
	} else {
		r->version[0] = 0;
	}
	for (size_t i = 0; i < pages.n; i++)
		json_decref(pages.v[i]);
	vec_free(&pages);
	return rc;
}

/* --- watch --- */

/* An event ERROR: 410 means that the version is too old to go on from. */
static int error_event(struct run *r, const json_t *status)
{
	json_int_t code = json_integer_value(json_object_get(status, "code"));
	if (code == 410) {
		r->forgot = true;
		r->version[0] = 0;
		return -1;
	}
	r->rc = err_set(&r->said, ERR_UNAVAILABLE, "%s%s: the watch ended: %.300s", r->w->client->server, r->w->path,
			kube_text(status, "message"));
	return -1;
}

static int take_event(struct run *r, const json_t *event)
{
	const char *type = kube_text(event, "type");
	const json_t *object = json_object_get(event, "object");
	const char *version = kube_text(object, "metadata.resourceVersion");

	if (strcmp(type, "ERROR") == 0)
		return error_event(r, object);
	if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
		r->w->put(r->w->arg, object);
	} else if (strcmp(type, "DELETED") == 0) {
		r->w->del(r->w->arg, object);
	} else if (strcmp(type, "BOOKMARK") != 0) {
		r->rc = err_set(&r->said, ERR_BAD_DATA, "%s%s: an event of type \"%.30s\"", r->w->client->server, r->w->path, type);
		return -1;
	}
	if (*version)
		snprintf(r->version, sizeof r->version, "%s", version);
	r->event = true;
	return 0;
}

static int take_line(struct run *r, struct view line)
{
	json_error_t why;
	if (!line.len)
		return 0;
	json_t *event = json_loadb(line.ptr, line.len, 0, &why);
	if (!event) {
		r->rc = err_set(&r->said, ERR_BAD_DATA, "%s%s: an event that is no JSON: %s", r->w->client->server, r->w->path, why.text);
		return -1;
	}
	int rc = take_event(r, event);
	json_decref(event);
	return rc;
}

static bool on_data(void *arg, const char *p, size_t n)
{
	struct run *r = arg;
	size_t at = 0;

	if (r->head.len < HEAD_BYTES)
		buf_put(&r->head, p, MIN(n, HEAD_BYTES - r->head.len));
	for (;;) {
		const char *nl = memchr(p + at, '\n', n - at);
		size_t len = nl ? (size_t)(nl - (p + at)) : n - at;
		buf_put(&r->line, p + at, len);
		at += len + 1;
		if (r->line.overflow) {
			r->rc = err_set(&r->said, ERR_LIMIT, "%s%s: an event of more than %zu bytes", r->w->client->server, r->w->path,
					LINE_BYTES_MAX);
			return false;
		}
		if (!nl)
			return true;
		int rc = take_line(r, buf_view(&r->line));
		buf_reset(&r->line);
		if (rc)
			return false;
	}
}

/* 0: it ended, go on from r->version (none: list). */
static int watch(struct run *r, struct err *e)
{
	uint32_t seconds = r->w->watch_seconds ? r->w->watch_seconds : WATCH_SECONDS_DEFAULT;
	struct fetch_request q = { .timeout_ms = (int64_t)seconds * 1000 + GRACE_MS, .max_bytes = UINT64_MAX / 4,
				   .cancel = r->w->cancel, .on_data = on_data, .on_data_arg = r };
	struct fetch_response a;
	struct buf url = { 0 };
	char text[16];

	begin_url(r, &url);
	put_param(&url, "watch", "1");
	put_param(&url, "allowWatchBookmarks", "true");
	put_param(&url, "resourceVersion", r->version);
	snprintf(text, sizeof text, "%u", seconds);
	put_param(&url, "timeoutSeconds", text);
	q.url = url.ptr;
	r->line = (struct buf){ .max = LINE_BYTES_MAX };
	r->head = (struct buf){ 0 };
	r->rc = 0;
	r->event = false;
	int rc = fetch_do(r->w->client->fetch, &q, &a, e);
	r->retry_after_s = a.retry_after_s;
	if (a.status == 410) {
		r->forgot = true;
		r->version[0] = 0;
		rc = 0;
	} else if (a.status && a.status != 200) {
		rc = say_status(r, a.status, buf_view(&r->head), e);
	} else if (r->rc) {          /* what a line said; the stream was ended because of it */
		rc = r->rc;
		*e = r->said;
		r->version[0] = 0;
	} else if (a.status == 200) {
		rc = 0;              /* however it ended: what came whole counts */
	}
	fetch_response_release(&a);
	buf_free(&r->line);
	buf_free(&r->head);
	buf_free(&url);
	return rc;
}

/* --- again and again --- */

static void pause_ms(const struct run *r, int64_t ms)
{
	int64_t until = clock_mono_ms() + ms;
	while (!canceled(r) && clock_mono_ms() < until)
		clock_sleep_ms(MIN((int64_t)200, until - clock_mono_ms() + 1));
}

/* Grows from the first pause to PAUSE_STEPS of it, each up to half longer by chance, so that the agents of a cluster do
 * not come back all at once. */
static int64_t next_pause(const struct run *r, unsigned failures)
{
	int64_t first = r->w->pause_ms ? r->w->pause_ms : PAUSE_MS_DEFAULT;
	int64_t ms = MIN(first << MIN(failures - 1, 10u), first * PAUSE_STEPS);
	ms += (int64_t)(hash_u64((uint64_t)clock_mono_ns() ^ (uintptr_t)r) % (uint64_t)(ms / 2 + 1));
	return r->retry_after_s > 0 ? MAX(ms, MIN(r->retry_after_s, (int64_t)60) * 1000) : ms;
}

void kube_watch_run(const struct kube_watch *w)
{
	struct run r = { .w = w };
	unsigned failures = 0;

	while (!canceled(&r)) {
		struct err e = { 0 };
		int64_t begin_ms = clock_mono_ms();
		bool listing = !r.version[0];
		r.retry_after_s = -1;
		int rc = listing ? list(&r, &e) : watch(&r, &e);
		if (canceled(&r))
			break;
		if (rc && w->problem)
			w->problem(w->arg, &e);
		/* A watch that ends at once, again and again, is a problem as well. */
		if (rc || (!listing && !r.event && clock_mono_ms() - begin_ms < 1000))
			pause_ms(&r, next_pause(&r, ++failures));
		else if (!listing)
			failures = 0;
	}
}
