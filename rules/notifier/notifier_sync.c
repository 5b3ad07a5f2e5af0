/* SPDX-License-Identifier: Apache-2.0 */
/* The Alertmanagers of a set: those that remain keep their queues. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/log.h"
#include "rules/notifier/notifier_internal.h"

#define QUEUE_BYTES ((size_t)256 << 20) /* of one; alerts that several wait for count for each */

/* ---- receivers ---- */

static void init_metrics(struct receiver *r)
{
	static const int rows[] = { NM_ERRORS, NM_SENT, NM_DROPPED };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		metric_add(&notifier_metrics[rows[i]], 0, r->shown);
	receiver_count(r);
}

static struct receiver *receiver_new(struct receiver_set *s, const char *url)
{
	struct receiver *r = NEW(struct receiver);
	struct buf shown = { 0 };
	config_redact_url(view_of(url), &shown);
	r->set = s;
	r->url = xstrdup(url);
	r->shown = buf_take(&shown, NULL);
	r->queue.max = s->n->o.queue_capacity;
	r->queue.max_bytes = QUEUE_BYTES;
	init_metrics(r);
	return r;
}

/* Of one that is in no set any more, unless another is told at the same place. */
static void forget_metrics(const struct receiver *r)
{
	mutex_assert_held(&r->set->n->lock);
	static const int rows[] = { NM_LENGTH, NM_ERRORS, NM_SENT, NM_DROPPED, NM_LATENCY };
	const struct notifier *n = r->set->n;
	for (size_t i = 0; i < n->sets.n; i++)
		for (size_t k = 0; k < n->sets.v[i]->receivers.n; k++) {
			const struct receiver *other = n->sets.v[i]->receivers.v[k];
			if (strcmp(other->shown, r->shown) == 0)
				return;
		}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		metric_forget(&notifier_metrics[rows[i]], r->shown);
}

/* Nobody else knows it any more. */
static void receiver_free(struct receiver *r)
{
	receiver_drop_all(r);
	vec_free(&r->sending);
	free(r->problem);
	free(r->shown);
	free(r->url);
	free(r);
}

static struct receiver *find_receiver(const struct receiver_set *s, const char *url)
{
	for (size_t i = 0; i < s->receivers.n; i++)
		if (strcmp(s->receivers.v[i]->url, url) == 0)
			return s->receivers.v[i];
	return NULL;
}

/* The queue that a changed item of the file had for the same Alertmanager. Alerts in flight may arrive twice. */
static void inherit(struct receiver *r)
{
	mutex_assert_held(&r->set->n->lock);
	struct notifier *n = r->set->n;
	for (size_t i = 0; i < n->gone.n; i++) {
		struct receiver *old = find_receiver(n->gone.v[i], r->url);
		if (!old)
			continue;
		size_t dropped = 0;
		for (size_t k = 0; k < old->sending.n; k++)
			dropped += alert_queue_push(&r->queue, old->sending.v[k]);
		for (struct outgoing *o; (o = alert_queue_pop(&old->queue));) {
			dropped += alert_queue_push(&r->queue, o);
			outgoing_unref(o);
		}
		metric_add(&notifier_metrics[NM_DROPPED], (double)dropped, r->shown);
		if (old->fetch)
			fetch_cancel(old->fetch);
		old->fetch = NULL;
		for (size_t k = 0; k < old->sending.n; k++)
			outgoing_unref(old->sending.v[k]);
		old->sending.n = 0;
	}
}

static void install(struct receiver_set *s, const struct endpoints_found *f)
{
	mutex_assert_held(&s->n->lock);
	VEC(struct receiver *) gone = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < f->urls.n; i++) {
		struct receiver *r = find_receiver(s, f->urls.v[i]);
		if (!r) {
			r = receiver_new(s, f->urls.v[i]);
			inherit(r);
			receiver_count(r);
			vec_push(&s->receivers, r);
		}
		r->kept = true;
	}
	for (size_t i = 0; i < s->receivers.n; i++) {
		struct receiver *r = s->receivers.v[i];
		if (!r->kept) {
			vec_push(&gone, r);
			continue;
		}
		r->kept = false;
		s->receivers.v[n++] = r;
	}
	s->receivers.n = n;
	for (size_t i = 0; i < gone.n; i++) {
		receiver_drop_all(gone.v[i]);
		forget_metrics(gone.v[i]);
		receiver_free(gone.v[i]);
	}
	vec_free(&gone);
	for (size_t i = 0; i < s->dropped.n; i++)
		free(s->dropped.v[i]);
	s->dropped.n = 0;
	for (size_t i = 0; i < f->dropped.n; i++) {
		struct buf shown = { 0 };
		config_redact_url(view_of(f->dropped.v[i]), &shown);
		vec_push(&s->dropped, buf_take(&shown, NULL));
	}
}

static void note_problem(struct receiver_set *s, const struct err *e)
{
	if (e->code && (!s->problem || strcmp(s->problem, e->msg) != 0))
		LOG_WARN("msg", "a discovered Alertmanager cannot be used", "err", e->msg);
	free(s->problem);
	s->problem = e->code ? xstrdup(e->msg) : NULL;
}

static void sync_set(struct notifier *n, struct receiver_set *s) REQUIRES(n->apply)
{
	struct endpoints_found f;
	endpoint_set_find(s->endpoints, &f);
	note_problem(s, &f.problem);
	mutex_lock(&n->lock);
	install(s, &f);
	mutex_unlock(&n->lock);
	endpoints_found_release(&f);
}

void receiver_set_free(struct receiver_set *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->receivers.n; i++)
		receiver_free(s->receivers.v[i]);
	endpoint_set_free(s->endpoints);
	for (size_t i = 0; i < s->dropped.n; i++)
		free(s->dropped.v[i]);
	vec_free(&s->receivers);
	vec_free(&s->dropped);
	notifier_config_unref(s->owner);
	free(s->problem);
	free(s);
}

static void end_gone(struct notifier *n)
{
	VEC(struct receiver_set *) gone = { 0 };
	mutex_lock(&n->lock);
	for (size_t i = 0; i < n->gone.n; i++)
		vec_push(&gone, n->gone.v[i]);
	n->gone.n = 0;
	for (size_t i = 0; i < gone.n; i++)
		for (size_t k = 0; k < gone.v[i]->receivers.n; k++) {
			receiver_drop_all(gone.v[i]->receivers.v[k]);
			forget_metrics(gone.v[i]->receivers.v[k]);
		}
	mutex_unlock(&n->lock);
	for (size_t i = 0; i < gone.n; i++)
		receiver_set_free(gone.v[i]);
	vec_free(&gone);
}

static void count_receivers(struct notifier *n) REQUIRES(n->apply)
{
	size_t receivers = 0;
	for (size_t i = 0; i < n->sets.n; i++)
		receivers += n->sets.v[i]->receivers.n;
	metric_set(&notifier_metrics[NM_DISCOVERED], (double)receivers);
}

void notifier_sync(struct notifier *n)
{
	mutex_lock(&n->lock);
	unsigned asked = n->asked;
	mutex_unlock(&n->lock);
	atomic_store(&n->stale, false);
	mutex_lock(&n->apply);
	for (size_t i = 0; i < n->sets.n; i++)
		if (atomic_exchange(&n->sets.v[i]->dirty, false))
			sync_set(n, n->sets.v[i]);
	count_receivers(n);
	mutex_unlock(&n->apply);
	end_gone(n);
	mutex_lock(&n->lock);
	n->answered = asked;
	pthread_cond_broadcast(&n->synced);
	mutex_unlock(&n->lock);
}
