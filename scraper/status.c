/* SPDX-License-Identifier: Apache-2.0 */
/* The scraper as the page shows it: a row per endpoint. Rows are copied under the lock and handed out without it, so
 * that a slow reader holds up no scrape. */
#include <stdlib.h>

#include "base/alloc.h"
#include "scraper/internal.h"

struct row {
	struct status_target t;
	char *text;                        /* pool, url, profile, error, note one after another */
	struct labels *discovered, *labels;
};

struct rows {
	VEC(struct row) active;
	VEC(struct status_dropped) dropped; /* pool and labels owned */
	VEC(struct labels *) dropped_labels;
	VEC(char *) names;
};

static enum target_health health(const struct endpoint *ep)
{
	switch (ep->outcome) {
	case OUTCOME_OK: return TARGET_UP;
	case OUTCOME_UNKNOWN:
	case OUTCOME_ABSENT: return TARGET_UNKNOWN; /* not served there: neither good nor bad */
	default: return TARGET_DOWN;
	}
}

/* Labels as discovery gave them, but for parameters and paths that may not be shown. */
static struct labels *shown_labels(struct labels l)
{
	struct labels_builder b;
	struct buf path = { 0 };
	labels_builder_init(&b, l);
	for (size_t i = 0; i < l.n; i++) {
		struct view name = l.v[i].name, param = VIEW("__param_");
		if (view_starts(name, param) && config_secret_name(view_make(name.ptr + param.len, name.len - param.len)))
			labels_builder_set(&b, name, VIEW("<secret>"));
		if (!view_eqs(name, "__profile_path__"))
			continue;
		config_redact_url(l.v[i].value, &path);
		labels_builder_set(&b, name, buf_view(&path));
	}
	struct labels *shown = labels_dup(labels_builder_finish(&b));
	labels_builder_free(&b);
	buf_free(&path);
	return shown;
}

static void copy_endpoint(struct rows *r, const struct pool *p, const struct endpoint *ep)
{
	struct row *row = vec_add(&r->active);
	struct buf url = { 0 };
	char *why AUTOFREE = receipt_failure(ep->receipt);
	char *lost AUTOFREE = why ? xasprintf("not stored: %s", why) : NULL;
	const char *error = lost ? lost : ep->last_error ? ep->last_error : "";
	config_redact_url(view_of(ep->url), &url);
	const char *note = ep->note ? ep->note : "";
	size_t n_pool = strlen(p->name), n_name = strlen(ep->name);
	row->text = xasprintf("%s%s%s%s%s", p->name, buf_view(&url).ptr, ep->name, error, note);
	row->discovered = shown_labels(*ep->discovered);
	row->labels = labels_dup(*ep->target->labels);
	const char *at = row->text;
	row->t = (struct status_target){ .discovered = *row->discovered, .labels = *row->labels,
					 .last_scrape_ms = ep->last_scrape_ms, .last_duration_ns = ep->last_duration_ns,
					 .last_bytes = ep->last_bytes, .last_samples = ep->last_samples,
					 .interval_ms = ep->interval_ms, .timeout_ms = ep->deadline_ms, .health = lost ? TARGET_DOWN : health(ep) };
	row->t.pool = view_make(at, n_pool);
	row->t.scrape_url = row->t.global_url = view_make(at += n_pool, url.len);
	row->t.profile = view_make(at += url.len, n_name);
	row->t.last_error = view_make(at += n_name, strlen(error));
	row->t.note = view_make(at + row->t.last_error.len, strlen(note));
	buf_free(&url);
}

static void copy_pool(struct rows *r, const struct pool *p, bool with_dropped)
{
	for (size_t i = 0; i < p->endpoints.n; i++)
		copy_endpoint(r, p, p->endpoints.v[i]);
	for (size_t i = 0; with_dropped && i < p->dropped.n; i++) {
		char *name = xstrdup(p->name);
		struct labels *l = shown_labels(*p->dropped.v[i]);
		vec_push(&r->names, name);
		vec_push(&r->dropped_labels, l);
		vec_push(&r->dropped, (struct status_dropped){ view_of(name), *l });
	}
}

static void rows_free(struct rows *r)
{
	for (size_t i = 0; i < r->active.n; i++) {
		free(r->active.v[i].text);
		free(r->active.v[i].discovered);
		free(r->active.v[i].labels);
	}
	for (size_t i = 0; i < r->dropped.n; i++) {
		free(r->names.v[i]);
		free(r->dropped_labels.v[i]);
	}
	vec_free(&r->active);
	vec_free(&r->dropped);
	vec_free(&r->dropped_labels);
	vec_free(&r->names);
}

void status_each(struct status_targets *st, void (*active)(void *arg, const struct status_target *t),
		 void (*dropped)(void *arg, const struct status_dropped *d), void *arg)
{
	struct scraper *s = (struct scraper *)((char *)st - offsetof(struct scraper, status));
	struct rows r = { 0 };
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->pools.n; i++)
		copy_pool(&r, s->pools.v[i], dropped != NULL);
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < r.active.n; i++)
		active(arg, &r.active.v[i].t);
	for (size_t i = 0; i < r.dropped.n; i++)
		dropped(arg, &r.dropped.v[i]);
	rows_free(&r);
}
