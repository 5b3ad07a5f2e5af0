/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver: snappy, protobuf, checks of every label, then one batch for the sink. Decoded data is in an arena, whose cap follows
 * from the message's size, and which has a budget with those of all other messages: a megabyte of body can be half a gigabyte of structs. */
#include <snappy-c.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/lock.h"
#include "base/num.h"
#include "base/units.h"
#include "base/utf8.h"
#include "remote/remote.pb-c.h"
#include "remote/remote.h"

#define MAX_BYTES_DEFAULT ((size_t)32 << 20)
#define MAX_LABELS_DEFAULT 64
/* Memory for the decoded message: protobuf-c makes structs of a few dozen bytes from messages of two. */
#define ARENA_FACTOR 16

struct write_decoder {
	struct arena *arena;
	size_t refused; /* bytes that the arena did not give; 0 = it gave all */
};

static void *pb_alloc(void *decoder, size_t n)
{
	struct write_decoder *d = decoder;
	void *p = arena_alloc(d->arena, n);
	if (!p)
		d->refused = n + 1;
	return p;
}

static void pb_free(void *decoder, void *p)
{
	(void)decoder;
	(void)p;
}

/* The arena did not give n bytes. What took most of the budget alone will not have more the next time. */
static int no_memory(const struct arena *a, size_t n, struct err *e)
{
	char most[24];
	size_t max = a->refused ? a->budget->max : a->max;
	units_format_size(max, most);
	if (a->refused && n < max && a->held + MAX(n, a->held) < max / 8 * 5) /* arenas take as much again at a time */
		return err_set(e, ERR_BUSY, "other messages that are being decoded take the memory for all messages, %s: send it again", most);
	if (a->refused && budget_used(a->budget) - a->held > max / 16)
		return err_set(e, ERR_BUSY, "this message and others that are being decoded need more than the memory for all messages, %s: send it again", most);
	return err_set(e, ERR_LIMIT, "the message needs more memory than there is for one, %s: send fewer samples at a time", most);
}

static int unpack(struct view body, size_t max, struct arena *a, Prompb__WriteRequest **ret, struct err *e)
{
	size_t n;
	if (snappy_uncompressed_length(body.ptr, body.len, &n) != SNAPPY_OK)
		return err_set(e, ERR_BAD_DATA, "the body is not a snappy block; remote-write 1.0 is expected");
	if (n > max)
		return err_set(e, ERR_LIMIT, "the message has %zu bytes, the limit is %zu", n, max);
	uint8_t *raw = arena_alloc(a, n);
	if (!raw)
		return no_memory(a, n, e);
	if (snappy_uncompress(body.ptr, body.len, (char *)raw, &n) != SNAPPY_OK)
		return err_set(e, ERR_BAD_DATA, "the snappy block is damaged");
	struct write_decoder d = { .arena = a };
	ProtobufCAllocator alloc = { pb_alloc, pb_free, &d };
	*ret = prompb__write_request__unpack(&alloc, n, raw);
	if (*ret)
		return 0;
	return d.refused ? no_memory(a, d.refused, e) : err_set(e, ERR_BAD_DATA, "the body is no remote-write 1.0 message");
}

static struct view bytes_view(ProtobufCBinaryData b)
{
	return view_make(b.data ? (const char *)b.data : "", b.len);
}

static int check_labels(const struct label *l, size_t n, struct err *e)
{
	bool named = false;
	for (size_t i = 0; i < n; i++) {
		if (!l[i].name.len || !utf8_valid(l[i].name) || !utf8_valid(l[i].value))
			return err_set(e, ERR_BAD_DATA, "label %zu of a series is not valid UTF-8 or has no name", i + 1);
		if (i && view_cmp(l[i - 1].name, l[i].name) >= 0)
			return err_set(e, ERR_BAD_DATA, "labels of a series are not sorted, or label \"%.*s\" is there twice",
				       VIEW_ARG(l[i].name));
		named |= view_eqs(l[i].name, LABEL_NAME) && l[i].value.len;
	}
	return named ? 0 : err_set(e, ERR_BAD_DATA, "a series has no __name__");
}

/* The labels of a series without empty ones, which count as missing. */
static int take_labels(const Prompb__TimeSeries *ts, size_t max, struct arena *a, struct labels *ret, struct err *e)
{
	if (ts->n_labels > max)
		return err_set(e, ERR_LIMIT, "a series has %zu labels, the limit is %zu", ts->n_labels, max);
	struct label *l = arena_alloc(a, ts->n_labels * sizeof *l);
	size_t n = 0;
	if (!l)
		return no_memory(a, ts->n_labels * sizeof *l, e);
	for (size_t i = 0; i < ts->n_labels; i++)
		l[i] = (struct label){ bytes_view(ts->labels[i]->name), bytes_view(ts->labels[i]->value) };
	int rc = check_labels(l, ts->n_labels, e);
	for (size_t i = 0; i < ts->n_labels && !rc; i++)
		if (l[i].value.len)
			l[n++] = l[i];
	*ret = (struct labels){ l, n };
	return rc;
}

struct waiter {
	struct mutex lock;
	pthread_cond_t done;
	bool ready;
	struct err e;
};

static void batch_done(void *arg, const struct err *e)
{
	struct waiter *w = arg;
	mutex_lock(&w->lock);
	w->ready = true;
	w->e = *e;
	pthread_cond_signal(&w->done);
	mutex_unlock(&w->lock);
}

static int append_and_wait(struct sink *s, const struct sink_float *floats, size_t n, struct sink_result *ret, struct err *e)
{
	struct waiter w = { .lock = MUTEX_INIT(LOCK_LEAF, "remote batch"), .done = PTHREAD_COND_INITIALIZER };
	struct sink_batch b = { .floats = floats, .n_floats = n, .done = batch_done, .done_arg = &w };
	int rc = s->append(s, &b, ret, e);
	if (rc)
		return rc;
	mutex_lock(&w.lock);
	while (!w.ready)
		mutex_wait(&w.lock, &w.done);
	mutex_unlock(&w.lock);
	if (w.e.code)
		*e = w.e;
	return -(int)w.e.code;
}

static size_t count_samples(const Prompb__WriteRequest *rq)
{
	size_t n = 0;
	for (size_t i = 0; i < rq->n_timeseries; i++)
		n += rq->timeseries[i]->n_samples;
	return n;
}

int remote_receive(struct sink *s, struct view body, const struct remote_limits *lim, struct remote_result *ret,
		   struct err *e)
{
	size_t max = lim && lim->max_bytes ? lim->max_bytes : MAX_BYTES_DEFAULT;
	size_t max_labels = lim && lim->max_labels ? lim->max_labels : MAX_LABELS_DEFAULT;
	struct arena a;
	Prompb__WriteRequest *rq;
	struct sink_float *floats = NULL;
	size_t n = 0;
	arena_init(&a, max * ARENA_FACTOR);
	a.budget = lim ? lim->memory : NULL;
	*ret = (struct remote_result){ 0 };
	int rc = unpack(body, max, &a, &rq, e);
	if (!rc && !(floats = arena_alloc(&a, count_samples(rq) * sizeof *floats)))
		rc = no_memory(&a, count_samples(rq) * sizeof *floats, e);
	for (size_t i = 0; !rc && i < rq->n_timeseries; i++) {
		const Prompb__TimeSeries *ts = rq->timeseries[i];
		struct labels l;
		rc = take_labels(ts, max_labels, &a, &l, e);
		for (size_t k = 0; k < ts->n_samples && !rc; k++)
			floats[n++] = (struct sink_float){ l, ts->samples[k]->timestamp, ts->samples[k]->value };
	}
	struct sink_result r = { 0 };
	if (!rc && n)
		rc = append_and_wait(s, floats, n, &r, e);
	ret->samples = r.floats;
	ret->duplicates = r.duplicates;
	ret->rejected = (uint64_t)r.duplicates + r.too_old + r.too_new + r.over_series_limit;
	arena_free(&a);
	return rc;
}
