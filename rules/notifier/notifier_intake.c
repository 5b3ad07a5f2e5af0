/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts arrive on the evaluating thread. They get external labels, alert_relabel_configs of all and of each set, and go into the
 * queues. Relabelling takes time, so it holds no lock, and it is bounded: for an alert, and for all that come at once. Alerts beyond
 * it are not sent, but counted; firing alerts come again. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "rules/notifier/notifier_internal.h"

#define RELABEL_BYTES ((size_t)16 << 20)
#define ALL_NS INT64_C(5000000000)
#define CHUNK 256
#define CHUNK_BYTES ((size_t)8 << 20)

static const struct relabel_limits limits = { 100000000, "100 ms of relabelling", (size_t)1 << 20 };

/* A set, as it is when alerts come. */
struct told_set {
	struct receiver_set *set;
	struct notifier_config *owner; /* a reference */
	const struct alertmanager_config *config;
};

/* One for all queues of a set. */
struct ready {
	struct receiver_set *set;
	struct outgoing *o;
};

struct intake {
	struct notifier *n;
	struct notifier_config *config; /* a reference */
	VEC(struct told_set) sets;
	struct arena arena;
	VEC(struct ready) ready;
	size_t bytes;
	int64_t deadline_ns;
	size_t failed;
	struct err error;            /* the first */
};

static void note_overflow(struct receiver *r, size_t dropped)
{
	metric_add(&notifier_metrics[NM_DROPPED], (double)dropped, r->shown);
	if (!r->overflowed)
		LOG_WARN("msg", "the queue of an Alertmanager is full, its oldest alerts are dropped", "alertmanager", r->shown, "alerts",
			 LOG_NUM(r->queue.n));
	r->overflowed = true;
}

static void put_in_queues(struct receiver_set *s, struct outgoing *o)
{
	mutex_assert_held(&s->n->lock);
	for (size_t i = 0; i < s->receivers.n; i++) {
		struct receiver *r = s->receivers.v[i];
		size_t dropped = alert_queue_push(&r->queue, o);
		if (dropped)
			note_overflow(r, dropped);
		receiver_count(r);
	}
}

/* One that a reload has just replaced hands its queue on. */
static bool is_there(const struct notifier *n, const struct receiver_set *s) REQUIRES(n->lock)
{
	for (size_t i = 0; i < n->sets.n; i++)
		if (n->sets.v[i] == s)
			return true;
	for (size_t i = 0; i < n->gone.n; i++)
		if (n->gone.v[i] == s)
			return true;
	return false;
}

static void hand_on(struct intake *t)
{
	mutex_lock(&t->n->lock);
	for (size_t i = 0; i < t->ready.n && !t->n->closing; i++)
		if (is_there(t->n, t->ready.v[i].set))
			put_in_queues(t->ready.v[i].set, t->ready.v[i].o);
	mutex_unlock(&t->n->lock);
	for (size_t i = 0; i < t->ready.n; i++)
		outgoing_unref(t->ready.v[i].o);
	t->ready.n = 0;
	t->bytes = 0;
}

static bool relabel(struct intake *t, const struct relabel_config *c, struct labels_builder *b)
{
	struct err e = { 0 };
	size_t rule;
	int kept = 1;
	if (c->n && clock_mono_ns() > t->deadline_ns)
		kept = err_set(&e, ERR_LIMIT, "relabelling took %d s for the alerts that came at once", (int)(ALL_NS / 1000000000));
	else if (c->n)
		kept = relabel_within(c->v, c->n, b, &t->arena, &limits, &rule, &e);
	if (kept < 0 && !t->failed++)
		t->error = e;
	return kept > 0 && b->l.n;
}

static void put_ready(struct intake *t, size_t set, struct outgoing *o)
{
	if (!o)
		return;
	t->bytes += o->len;
	vec_push(&t->ready, ((struct ready){ t->sets.v[set].set, o }));
}

/* For a set with rules of its own. */
static void for_set(struct intake *t, size_t set, const struct alert *a, struct labels labels)
{
	struct labels_builder b;
	labels_builder_init(&b, labels);
	if (relabel(t, &t->sets.v[set].config->alert_relabel, &b))
		put_ready(t, set, outgoing_new(a, labels_builder_finish(&b)));
	labels_builder_free(&b);
}

static void spread(struct intake *t, const struct alert *a)
{
	struct labels external = t->config->external_labels;
	struct labels_builder b;
	labels_builder_init(&b, a->labels);
	for (size_t i = 0; i < external.n; i++)
		if (!labels_builder_get(&b, external.v[i].name).len)
			labels_builder_set(&b, external.v[i].name, external.v[i].value);
	if (relabel(t, &t->config->alert_relabel, &b)) {
		struct labels labels = labels_builder_finish(&b);
		struct outgoing *common = NULL;
		for (size_t i = 0; i < t->sets.n; i++) {
			if (t->sets.v[i].config->alert_relabel.n) {
				for_set(t, i, a, labels);
				continue;
			}
			common = common ? common : outgoing_new(a, labels);
			put_ready(t, i, common ? outgoing_ref(common) : NULL);
		}
		outgoing_unref(common);
	}
	labels_builder_free(&b);
	arena_reset(&t->arena);
}

/* The current configuration. False: the notifier is not running. */
static bool begin(struct intake *t, struct notifier *n)
{
	*t = (struct intake){ .n = n, .deadline_ns = clock_mono_ns() + ALL_NS };
	mutex_lock(&n->lock);
	bool any = n->config && !n->closing;
	for (size_t i = 0; any && i < n->sets.n; i++) {
		struct receiver_set *s = n->sets.v[i];
		vec_push(&t->sets, ((struct told_set){ s, notifier_config_ref(s->owner), s->config }));
	}
	if (any)
		t->config = notifier_config_ref(n->config);
	mutex_unlock(&n->lock);
	if (any)
		arena_init(&t->arena, RELABEL_BYTES);
	return any;
}

static void end(struct intake *t)
{
	if (t->failed)
		LOG_WARN("msg", "alert_relabel_configs failed, alerts are not sent", "alerts", LOG_NUM(t->failed), "err", t->error.msg);
	for (size_t i = 0; i < t->sets.n; i++)
		notifier_config_unref(t->sets.v[i].owner);
	notifier_config_unref(t->config);
	vec_free(&t->sets);
	vec_free(&t->ready);
	arena_free(&t->arena);
}

void notifier_take(void *arg, const struct alert *a, size_t n_alerts)
{
	struct notifier *n = arg;
	struct intake t;
	if (!begin(&t, n))
		return;
	for (size_t i = 0; i < n_alerts; i++) {
		spread(&t, &a[i]);
		if (t.ready.n >= CHUNK || t.bytes >= CHUNK_BYTES || i + 1 == n_alerts)
			hand_on(&t);
	}
	end(&t);
	fetch_loop_wake(n->loop);
}
