/* SPDX-License-Identifier: Apache-2.0 */
/* One list that is kept up to date, on the caller's thread:
 *
 *	        ┌──────────────────────────────── 410: it forgot ───────────────────────────┐
 *	        v                                                                           │
 *	list, page by page ──► begin, put..., end ──► watch from resourceVersion ──► put, del, put
 *	                                                   ^                                │
 *	                                                   └── ended, or broke off ─────────┘
 *
 * The first list is read from the server's cache (resourceVersion=0), as a whole, because a server then ignores `limit`. Otherwise
 * each node's agent would make etcd read all pods of the cluster. After a 410 the newest is asked for. A watch that breaks off, also
 * in the middle of a line, continues from the last complete version; the server then sends the later events.
 *
 * A list for a later subscriber is the newest, at least as new as the watch's last event. The events from there on lead to the same
 * state, although the list already contains some of them.
 *
 * An event whose object cannot be kept is left out, as a list leaves out such an object, and the watch goes on. It is unknown which
 * object it was. An object that was read before stays unchanged, also if the event said that it was deleted. So a list follows some
 * time later, and objects that are not in it are deleted. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "kube/kube_link.h"
#include "kube/kube_private.h"
#include "kube/kube_scan.h"

#define PAGE_DEFAULT 250
#define OBJECTS_DEFAULT 250000       /* Kubernetes itself is made for 150,000 pods */
#define WATCH_SECONDS_DEFAULT 240
#define PAUSE_MS_DEFAULT 800
#define PAUSE_STEPS 40
#define MISSING_STEPS 75             /* of the first pause: a minute */
#define EMPTY_PAGES_MAX 10           /* more pages than objects may be: a filter is applied to a page of the store */
#define LIST_TIMEOUT_MS 300000       /* of a page; servers end requests after a minute */
#define GRACE_MS 15000
#define SETTLED_MS 3000              /* a watch that has lasted so long is well */
#define WANTED_MS 1000               /* minimum time between two lists for later subscribers */

struct run {
	const struct kube_watch *w;
	struct kube_link link;
	char version[KUBE_VERSION_LEN]; /* "" = none: list */
	bool forgot;                 /* the server answered 410: ask for the newest */
	bool missing;                /* the last answer was 404 */
	bool ill_list, ill_watch;    /* which of them had the last problem that was told */
	int64_t retry_after_s;       /* of the last answer; -1 = not said */
	int64_t wanted_after_ms;     /* when the next list for latecomers may begin */
	int64_t relist_ms;           /* events were left out: list, if it is later than this; 0 = none were */
	bool told_left_out;          /* since the last list */
	/* In a row. A successful list says nothing about watches: a watch that fails at once after each list must not cause lists without
	 * a pause. */
	unsigned list_failures, watch_failures, wanted_failures; /* the last: of lists for latecomers */
	/* Of one list: */
	struct kube_scan scan;
	struct err said;             /* why bytes ended a request */
	bool for_all, begun;
	size_t objects;
	/* Of one watch: */
	struct kube_lines lines;
	bool event;                  /* something came */
	int64_t open_ms;             /* when it was answered; 0 = not yet */
};

static bool canceled(const struct run *r)
{
	return r->w->cancel && atomic_load(r->w->cancel);
}

static bool stop_list(void *arg)
{
	return canceled(arg);
}

/* --- how things are --- */

static void tell_problem(struct run *r, bool listing, const struct err *e)
{
	*(listing ? &r->ill_list : &r->ill_watch) = true;
	if (r->w->problem)
		r->w->problem(r->w->arg, e);
}

static void tell_well(struct run *r, bool listing)
{
	bool *ill = listing ? &r->ill_list : &r->ill_watch, was = *ill;
	*ill = false;
	if (was && !r->ill_list && !r->ill_watch && r->w->problem)
		r->w->problem(r->w->arg, NULL);
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

static const char *advice(int http)
{
	switch (http) {
	case 401: return " (is the token valid?)";
	case 403: return " (does a ClusterRole allow list and watch?)";
	case 404: return " (is it installed in the cluster?)";
	default: return "";
	}
}

/* A version from the future: the server's store was restored from an older state, or it lags behind the previous server. */
static bool too_new(const json_t *status)
{
	size_t i;
	const json_t *cause;
	json_array_foreach(kube_get(status, "details.causes"), i, cause)
		if (strcmp(kube_text(cause, "reason"), "ResourceVersionTooLarge") == 0)
			return true;
	return strstr(kube_text(status, "message"), "Too large resource version");
}

static void forget(struct run *r)
{
	r->forgot = true;
	r->version[0] = 0;
}

/* The message of a Status object, or of an answer that is not one. */
static int say_status(struct run *r, const struct kube_answer *a, struct err *e)
{
	struct view body = buf_view(&a->error);
	json_t *j = json_loadb(body.ptr, body.len, JSON_DISABLE_EOF_CHECK, NULL);
	const char *message = kube_text(j, "message");
	int http = a->status;
	enum err_code code = http == 401 || http == 403 ? ERR_DENIED : http == 404 ? ERR_NOT_FOUND : ERR_UNAVAILABLE;
	int rc = err_set(e, code, "%s%s: HTTP %d: %.300s%s", r->w->client->server, r->w->path, http,
			 *message ? message : "no reason given", advice(http));
	r->missing = http == 404;
	if (too_new(j))
		forget(r);
	json_decref(j);
	return rc;
}

/* --- list --- */

static void open_list(void *arg)
{
	struct run *r = arg;
	if (r->begun)
		return;
	r->begun = true;
	if (r->for_all)
		r->w->begin(r->w->arg);
	else
		r->w->begin_wanted(r->w->arg);
}

static int take_item(void *arg, const json_t *object, struct err *e)
{
	struct run *r = arg;
	size_t max = r->w->max_objects ? r->w->max_objects : OBJECTS_DEFAULT;
	if (++r->objects > max)
		return err_set(e, ERR_LIMIT, "more than %zu objects; narrow it with a selector", max);
	r->w->put(r->w->arg, object);
	return 0;
}

static bool list_data(void *arg, const char *p, size_t n)
{
	struct run *r = arg;
	return kube_scan_put(&r->scan, p, n, &r->said) == 0;
}

/* One page; the scan is new. */
static int get_page(struct run *r, const char *url, struct err *e)
{
	struct kube_request q = { .url = url, .timeout_ms = LIST_TIMEOUT_MS, .compressed = true, .on_open = open_list,
				  .on_data = list_data, .stop = stop_list, .arg = r };
	struct kube_answer a;
	r->said = (struct err){ 0 };
	int rc = kube_link_ask(&r->link, &q, &a, e);
	r->retry_after_s = a.retry_after_s;
	if (r->said.code) {
		*e = r->said;
		rc = -(int)e->code;
	} else if (!rc && a.status == 200) {
		rc = kube_scan_end(&r->scan, e);
	}
	if (rc) {
		err_wrap(e, "%s%s", r->w->client->server, r->w->path);
	} else if (a.status == 410) {
		r->forgot = true;
		rc = err_set(e, ERR_CONFLICT, "%s%s: the list changed while it was read", r->w->client->server, r->w->path);
	} else if (a.status != 200) {
		rc = say_status(r, &a, e);
	}
	buf_free(&a.error);
	return rc;
}

static void page_url(const struct run *r, const char *more, struct buf *url)
{
	char page[16];
	snprintf(page, sizeof page, "%u", r->w->page ? r->w->page : PAGE_DEFAULT);
	begin_url(r, url);
	put_param(url, "limit", page);
	put_param(url, "continue", more);
	if (!*more && !r->forgot && r->for_all)
		put_param(url, "resourceVersion", "0");
}

/* All pages; the version of the first one: what changed while the others were read comes again. */
static int get_pages(struct run *r, char version[KUBE_VERSION_LEN], size_t *left_out, const char **why, struct err *e)
{
	size_t pages = 0, max = r->w->max_objects ? r->w->max_objects : OBJECTS_DEFAULT;
	struct buf more = { 0 };
	int rc;
	do {
		struct buf url = { 0 };
		page_url(r, buf_view(&more).ptr, &url);
		r->scan = (struct kube_scan){ .item = take_item, .arg = r };
		rc = get_page(r, url.ptr, e);
		buf_free(&url);
		if (!rc && !pages)
			memcpy(version, r->scan.version, KUBE_VERSION_LEN);
		if (!rc && ++pages > max + EMPTY_PAGES_MAX)
			rc = err_set(e, ERR_LIMIT, "%s%s: %zu pages and no end", r->w->client->server, r->w->path, pages);
		*left_out += r->scan.left_out;
		*why = r->scan.why ? r->scan.why : *why;
		buf_reset(&more);
		buf_putv(&more, buf_view(&r->scan.more));
		kube_scan_release(&r->scan);
	} while (!rc && more.len && !canceled(r));
	buf_free(&more);
	return rc;
}

static void say_left_out(struct run *r, size_t n, const char *why)
{
	struct err e;
	err_set(&e, ERR_LIMIT, "%s%s: %zu objects are left out, the last one because: %s", r->w->client->server, r->w->path, n, why);
	tell_problem(r, true, &e);
}

/* For all, or for later subscribers. Complete, or without an end. */
static int list(struct run *r, bool for_all, struct err *e)
{
	char version[KUBE_VERSION_LEN] = "";
	size_t left_out = 0;
	const char *why = NULL;
	r->for_all = for_all;
	r->begun = false;
	r->objects = 0;
	int rc = get_pages(r, version, &left_out, &why, e);
	if (!rc && !version[0])
		rc = err_set(e, ERR_BAD_DATA, "%s%s: the list has no resourceVersion", r->w->client->server, r->w->path);
	if (rc || canceled(r))
		return rc;
	r->told_left_out = left_out;
	if (for_all) {
		r->relist_ms = 0;
		r->forgot = false;
		memcpy(r->version, version, sizeof r->version);
	}
	r->w->end(r->w->arg);
	if (left_out)
		say_left_out(r, left_out, why);
	else
		tell_well(r, true);
	return 0;
}

/* --- watch --- */

/* An event ERROR: 410 means that the version is too old to go on from. */
static int error_event(struct run *r, const json_t *status)
{
	if (json_integer_value(json_object_get(status, "code")) == 410 || too_new(status))
		forget(r);
	else
		err_set(&r->said, ERR_UNAVAILABLE, "%s%s: the watch ended: %.300s", r->w->client->server, r->w->path,
			kube_text(status, "message"));
	return -1;
}

static int take_event(struct run *r, const struct kube_event *ev)
{
	if (ev->type == KUBE_ERROR)
		return error_event(r, ev->object);
	tell_well(r, false);
	if (ev->type == KUBE_PUT)
		r->w->put(r->w->arg, ev->object);
	else if (ev->type == KUBE_DEL)
		r->w->del(r->w->arg, ev->object);
	if (*ev->version)
		snprintf(r->version, sizeof r->version, "%s", ev->version);
	r->event = true;
	return 0;
}

static uint32_t watch_seconds(const struct run *r)
{
	return r->w->watch_seconds ? r->w->watch_seconds : WATCH_SECONDS_DEFAULT;
}

/* The version stays that of the last event that was read; bookmarks move it on. Told once, not for each change of it. */
static void leave_out_event(struct run *r, const char *why)
{
	if (!r->relist_ms)
		r->relist_ms = clock_mono_ms() + (int64_t)watch_seconds(r) * 1000;
	if (!r->told_left_out)
		say_left_out(r, 1, why);
	r->told_left_out = true;
}

static void leave_out_line(void *arg)
{
	leave_out_event(arg, "too large");
}

static bool take_line(void *arg, struct view line)
{
	struct run *r = arg;
	struct kube_event ev;
	struct err e = { 0 };
	int rc = kube_event_read(&ev, line, &e);
	if (rc == -ERR_LIMIT) {
		leave_out_event(r, e.msg);
		return true;
	}
	if (rc) {
		r->said = e;
		err_wrap(&r->said, "%s%s", r->w->client->server, r->w->path);
		return false;
	}
	rc = take_event(r, &ev);
	kube_event_release(&ev);
	return rc == 0;
}

static void open_watch(void *arg)
{
	struct run *r = arg;
	r->open_ms = clock_mono_ms();
}

static bool watch_data(void *arg, const char *p, size_t n)
{
	struct run *r = arg;
	return kube_lines_put(&r->lines, p, n);
}

/* Whether somebody wants a list of his own, and it may begin now. */
static bool wanted(struct run *r)
{
	return r->w->list_wanted && r->w->list_wanted(r->w->arg) && clock_mono_ms() >= r->wanted_after_ms;
}

static bool stop_watch(void *arg)
{
	struct run *r = arg;
	if (r->open_ms && clock_mono_ms() - r->open_ms > SETTLED_MS)
		tell_well(r, false);
	return canceled(r) || wanted(r);
}

static void watch_url(const struct run *r, uint32_t seconds, struct buf *url)
{
	char text[16];
	snprintf(text, sizeof text, "%u", seconds);
	begin_url(r, url);
	put_param(url, "watch", "1");
	put_param(url, "allowWatchBookmarks", "true");
	put_param(url, "resourceVersion", r->version);
	put_param(url, "timeoutSeconds", text);
}

/* How the watch went on from the answer's head. 0: go on from r->version (none: list). */
static int conclude_watch(struct run *r, const struct kube_answer *a, int rc, struct err *e)
{
	if (a->status == 410) {
		forget(r);
		return 0;
	}
	if (a->status && a->status != 200) {
		rc = say_status(r, a, e);
		if (r->missing)
			r->version[0] = 0;
		return rc;
	}
	if (r->said.code) {          /* the stream was ended because of it, and what came after is not known */
		*e = r->said;
		r->version[0] = 0;
		return -(int)e->code;
	}
	if (rc == -ERR_CANCELED || (a->status == 200 && !a->silent))
		return 0;            /* however it ended: complete lines count */
	return rc ? err_wrap(e, "%s%s", r->w->client->server, r->w->path) : 0;
}

static int watch(struct run *r, struct err *e)
{
	uint32_t seconds = watch_seconds(r);
	struct kube_request q = { .timeout_ms = (int64_t)seconds * 1000 + GRACE_MS, .on_open = open_watch, .on_data = watch_data,
				  .stop = stop_watch, .arg = r };
	struct kube_answer a;
	struct buf url = { 0 };

	watch_url(r, seconds, &url);
	q.url = url.ptr;
	r->lines = (struct kube_lines){ .line = take_line, .too_long = leave_out_line, .arg = r };
	r->said = (struct err){ 0 };
	r->event = false;
	r->open_ms = 0;
	int rc = kube_link_ask(&r->link, &q, &a, e);
	r->retry_after_s = a.retry_after_s;
	rc = conclude_watch(r, &a, rc, e);
	kube_lines_release(&r->lines);
	buf_free(&a.error);
	buf_free(&url);
	return rc;
}

/* --- again and again --- */

static void pause_ms(struct run *r, int64_t ms)
{
	int64_t until = clock_mono_ms() + ms;
	while (!canceled(r) && clock_mono_ms() < until) {
		clock_sleep_ms(MIN((int64_t)200, until - clock_mono_ms() + 1));
		if (r->w->list_wanted)
			r->w->list_wanted(r->w->arg); /* whoever comes now has to wait as well, and is told why */
	}
}

/* Grows from the first pause to PAUSE_STEPS of it, each up to half longer at random, so that the agents of a cluster do not all return
 * at once. A missing resource is asked for once a minute. */
static int64_t next_pause(const struct run *r, unsigned failures)
{
	int64_t first = r->w->pause_ms ? r->w->pause_ms : PAUSE_MS_DEFAULT;
	int64_t ms = MIN(first << MIN(failures - 1, 10u), first * PAUSE_STEPS), more = ms / 2;
	if (r->missing) {
		ms = first * MISSING_STEPS;
		more = ms / 10;
	}
	ms += (int64_t)(hash_u64((uint64_t)clock_mono_ns() ^ (uintptr_t)r) % (uint64_t)(more + 1));
	return r->retry_after_s > 0 ? MAX(ms, MIN(r->retry_after_s, (int64_t)60) * 1000) : ms;
}

/* One list or watch; whether the next one has to wait, and how long. */
static bool go(struct run *r, int64_t *ret_pause_ms)
{
	struct err e = { 0 };
	int64_t begin_ms = clock_mono_ms();
	if (r->relist_ms && begin_ms >= r->relist_ms)
		r->version[0] = 0;
	bool for_all = !r->version[0], for_some = !for_all && wanted(r), listing = for_all || for_some;
	r->retry_after_s = -1;
	r->missing = false;
	int rc = listing ? list(r, for_all, &e) : watch(r, &e);
	int64_t took_ms = clock_mono_ms() - begin_ms;
	unsigned *failures = listing ? &r->list_failures : &r->watch_failures;
	if (canceled(r))
		return false;
	if (rc)
		tell_problem(r, listing, &e);
	if (for_some) {              /* if it failed, the watch goes on all the same */
		r->wanted_failures = rc ? r->wanted_failures + 1 : 0;
		r->wanted_after_ms = clock_mono_ms() + (rc ? next_pause(r, r->wanted_failures) : MAX(WANTED_MS, 2 * took_ms));
		return false;
	}
	/* A watch that ends at once, again and again, is a problem as well. */
	bool again = rc || (!listing && !r->event && took_ms < 1000 && !wanted(r));
	*failures = again ? *failures + 1 : 0;
	*ret_pause_ms = again ? next_pause(r, *failures) : 0;
	return again;
}

void kube_watch_run(const struct kube_watch *w)
{
	struct run r = { .w = w, .link = { .client = w->client, .quiet_ms = w->quiet_ms } };
	int64_t ms;
	while (!canceled(&r))
		if (go(&r, &ms))
			pause_ms(&r, ms);
	kube_link_release(&r.link);
}
