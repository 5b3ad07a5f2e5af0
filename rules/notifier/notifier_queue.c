/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/notifier/notifier_queue.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

static void put_time(struct buf *b, const char *key, int64_t t_ms)
{
	char text[RFC3339_LEN];
	json_field_text(b, key, clock_rfc3339_ms(t_ms, text));
}

struct outgoing *outgoing_new(const struct alert *a, struct labels labels)
{
	struct buf b = { .max = OUTGOING_BYTES };
	json_object_begin(&b);
	json_key(&b, "labels");
	labels_json(labels, &b);
	json_key(&b, "annotations");
	labels_json(a->annotations, &b);
	put_time(&b, "startsAt", a->starts_at_ms);
	put_time(&b, "endsAt", a->ends_at_ms);
	json_field(&b, "generatorURL", a->generator_url);
	json_object_end(&b);
	struct outgoing *o = b.overflow ? NULL : xmalloc(sizeof *o + b.len);
	if (o) {
		o->refs = 1;
		o->len = b.len;
		memcpy(o->json, b.ptr, b.len);
	}
	if (!o) {
		char *name AUTOFREE = xstrndup(labels_get(labels, VIEW("alertname")).ptr, labels_get(labels, VIEW("alertname")).len);
		LOG_WARN("msg", "an alert is not sent: its labels and annotations are larger than 4 MiB", "alertname", name);
	}
	buf_free(&b);
	return o;
}

struct outgoing *outgoing_ref(struct outgoing *o)
{
	__atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);
	return o;
}

void outgoing_unref(struct outgoing *o)
{
	if (o && !__atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL))
		free(o);
}

struct outgoing *alert_queue_pop(struct alert_queue *q)
{
	if (!q->n)
		return NULL;
	struct outgoing *o = q->v[q->first];
	q->first = (q->first + 1) % q->room;
	q->n--;
	q->bytes -= o->len;
	return o;
}

static void grow(struct alert_queue *q)
{
	size_t room = MIN(MAX(q->room * 2, (size_t)16), q->max);
	struct outgoing **v = xreallocarray(NULL, room, sizeof(struct outgoing *));
	for (size_t i = 0; i < q->n; i++)
		v[i] = q->v[(q->first + i) % q->room];
	free(q->v);
	q->v = v;
	q->first = 0;
	q->room = room;
}

size_t alert_queue_push(struct alert_queue *q, struct outgoing *o)
{
	size_t dropped = 0;
	while (q->n && (q->n >= q->max || (q->max_bytes && q->bytes + o->len > q->max_bytes))) {
		outgoing_unref(alert_queue_pop(q));
		dropped++;
	}
	if (q->n == q->room)
		grow(q);
	q->v[(q->first + q->n++) % q->room] = outgoing_ref(o);
	q->bytes += o->len;
	return dropped;
}

void alert_queue_free(struct alert_queue *q)
{
	while (q->n)
		outgoing_unref(alert_queue_pop(q));
	free(q->v);
	q->v = NULL;
	q->room = q->first = 0;
}

void outgoing_batch(struct outgoing *const *v, size_t n, struct buf *out)
{
	json_array_begin(out);
	for (size_t i = 0; i < n; i++)
		json_raw(out, view_make(v[i]->json, v[i]->len));
	json_array_end(out);
}
