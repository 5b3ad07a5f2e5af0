/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/outlet.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "remote/remote.h"

#define PARTS_MAX 8
#define ROUND_BYTES ((size_t)32 << 20) /* of labels */
#define FILTER_BYTES ((size_t)32 << 20)
#define ANSWER_BYTES ((uint64_t)64 << 10)
#define SAID 300                       /* bytes of an error's text that are logged */
#define SPLITS 32
#define RETRY_AFTER_MAX_S 3600
#define NUMBER_EVERY_MS 60000
#define LOOK_MS 1000

#define WHO "remote_name,url"
struct metric outlet_metrics[RM_COUNT_] = {
	[RM_IN] = { "pyrrha_remote_storage_samples_in_total", "Samples that the storage took in and that receivers could get.", METRIC_COUNTER },
	[RM_HIGHEST_IN] = { "pyrrha_remote_storage_highest_timestamp_in_seconds", "The highest time of a sample that came in.", METRIC_GAUGE },
	[RM_SAMPLES] = { "pyrrha_remote_storage_samples_total", "Samples that a receiver took.", METRIC_COUNTER, WHO },
	[RM_FAILED] = { "pyrrha_remote_storage_samples_failed_total", "Samples that a receiver refused permanently.", METRIC_COUNTER, WHO },
	[RM_RETRIED] = { "pyrrha_remote_storage_samples_retried_total", "Samples of requests that failed and are sent again.", METRIC_COUNTER, WHO },
	[RM_DROPPED] = { "pyrrha_remote_storage_samples_dropped_total", "Samples that were not sent: dropped_series (write_relabel_configs), too_old "
			 "(sample_age_limit), queue_full, not_written (the disk took nothing), damaged.", METRIC_COUNTER, WHO ",reason" },
	[RM_PENDING] = { "pyrrha_remote_storage_samples_pending", "Samples in the queue, including unfinished requests.", METRIC_GAUGE, WHO },
	[RM_BYTES] = { "pyrrha_remote_storage_bytes_total", "Bytes of the requests that a receiver took, compressed.", METRIC_COUNTER, WHO },
	[RM_HIGHEST_SENT] = { "pyrrha_remote_storage_queue_highest_sent_timestamp_seconds", "The highest time of a sample that was sent.",
			      METRIC_GAUGE, WHO },
	[RM_SECONDS] = { "pyrrha_remote_storage_sent_batch_duration_seconds", "How long a receiver took to answer a request.", METRIC_HISTOGRAM, WHO },
	[RM_SHARDS] = { "pyrrha_remote_storage_shards", "How many requests are sent at a time now.", METRIC_GAUGE, WHO },
	[RM_SHARDS_MAX] = { "pyrrha_remote_storage_shards_max", "How many requests may be sent at a time.", METRIC_GAUGE, WHO },
	[RM_MAX_SAMPLES] = { "pyrrha_remote_storage_max_samples_per_send", "The most samples of a request.", METRIC_GAUGE, WHO },
	[RM_QUEUE_BYTES] = { "pyrrha_remote_storage_queue_bytes", "Bytes of the queue on disk.", METRIC_GAUGE, WHO },
	[RM_QUEUE_MAX] = { "pyrrha_remote_storage_queue_max_bytes", "Above this many the oldest samples go.", METRIC_GAUGE, WHO },
	[RM_WRITE_FAILURES] = { "pyrrha_remote_storage_queue_write_failures_total", "Writes to the queue that failed.", METRIC_COUNTER, WHO },
};

static void count(const struct outlet *o, enum outlet_metric m, double n)
{
	metric_add(&outlet_metrics[m], n, o->name, o->shown);
}

static void gauge(const struct outlet *o, enum outlet_metric m, double n)
{
	metric_set(&outlet_metrics[m], n, o->name, o->shown);
}

static void count_dropped(const struct outlet *o, const char *reason, uint64_t n)
{
	if (n)
		metric_add(&outlet_metrics[RM_DROPPED], (double)n, o->name, o->shown, reason);
}

static unsigned parts_max(const struct outlet *o)
{
	return (unsigned)MIN(o->config->queue.max_shards, PARTS_MAX);
}

static void show_queue(const struct outlet *o)
{
	gauge(o, RM_PENDING, (double)backlog_pending(o->backlog));
	gauge(o, RM_QUEUE_BYTES, (double)backlog_bytes(o->backlog));
	gauge(o, RM_SHARDS, (double)o->n_batches);
}

/* Metrics of a receiver that is gone stay: they say that nothing waits for it. */
static void show_nothing(const struct outlet *o)
{
	gauge(o, RM_PENDING, 0);
	gauge(o, RM_QUEUE_BYTES, 0);
	gauge(o, RM_SHARDS, 0);
}

/* ---- begin and end ---- */

/* Another receiver has not asked for patience. */
static void forget_waits(struct outlet *o)
{
	for (size_t i = 0; i < o->n_batches; i++)
		o->batches[i].retry_at_ms = o->batches[i].backoff_ms = 0;
}

void outlet_configure(struct outlet *o, struct remote_write_config *owner, const struct receiver_config *c, struct fetch_client *client)
{
	if (o->config && strcmp(o->config->url, c->url) != 0)
		forget_waits(o);
	remote_write_config_ref(owner);
	remote_write_config_unref(o->owner);
	fetch_client_unref(o->client);
	o->owner = owner;
	o->config = c;
	o->client = client;
	write_filter_trim(&o->filter, 0);
	if (o->shown)
		show_nothing(o);
	free(o->shown);
	o->shown = xstrdup(c->shown);
	if (o->backlog)
		show_queue(o);
	gauge(o, RM_QUEUE_MAX, (double)o->max_bytes);
	gauge(o, RM_SHARDS_MAX, parts_max(o));
	gauge(o, RM_MAX_SAMPLES, (double)c->queue.max_samples);
}

int outlet_new(struct outlet **ret, struct remote_write_config *owner, const struct receiver_config *c, struct fetch_client *client,
	       struct fetch_loop *loop, const char *dir, const struct backlog_options *options, struct err *e)
{
	struct outlet *o = NEW(struct outlet);
	o->loop = loop;
	o->dir = xstrdup(dir);
	o->name = xstrdup(c->name);
	o->max_bytes = options->max_bytes;
	arena_init(&o->filter.arena, 0);
	outlet_configure(o, owner, c, client);
	int rc = backlog_open(&o->backlog, dir, options, e);
	if (rc) {
		outlet_free(o);
		return rc;
	}
	o->number = backlog_number(o->backlog);
	show_queue(o);
	*ret = o;
	return 0;
}

static void end_round(struct outlet *o)
{
	for (size_t i = 0; i < o->n_batches; i++) {
		if (o->batches[i].fetch)
			fetch_cancel(o->batches[i].fetch);
		vec_free(&o->batches[i].todo);
	}
	free(o->batches);
	o->batches = NULL;
	o->n_batches = o->floats.n = 0;
}

void outlet_free(struct outlet *o)
{
	if (!o)
		return;
	end_round(o);
	show_nothing(o);
	backlog_close(o->backlog);
	write_filter_release(&o->filter);
	vec_free(&o->chosen);
	vec_free(&o->order);
	vec_free(&o->floats);
	fetch_client_unref(o->client);
	remote_write_config_unref(o->owner);
	free(o->problem);
	free(o->dir);
	free(o->name);
	free(o->shown);
	free(o);
}

/* ---- floats come ---- */

/* Returns how many it leaves out. */
static uint64_t choose(struct outlet *o, const struct sink_float *f, size_t n)
{
	struct err e = { 0 };
	uint64_t left_out = 0;
	write_filter_trim(&o->filter, FILTER_BYTES);
	o->chosen.n = 0;
	for (size_t i = 0; i < n; i++) {
		struct backlog_series *s = write_filter_get(&o->filter, o->config, o->owner->external_labels, f[i].labels, &e);
		if (s)
			vec_push(&o->chosen, (struct backlog_sample){ s, f[i].t_ms, f[i].v });
		else
			left_out++;
	}
	if (e.code)
		LOG_WARN("msg", "write_relabel_configs failed for a series, it is not sent", "remote_name", o->name, "err", e.msg);
	return left_out;
}

static void note_written(struct outlet *o, uint64_t dropped)
{
	if (o->write_failed)
		LOG_INFO("msg", "the queue of a remote-write receiver can be written again", "remote_name", o->name);
	if (dropped && !o->full)
		LOG_WARN("msg", "the queue of a remote-write receiver is full, its oldest samples are dropped", "remote_name", o->name);
	o->full = dropped || (o->full && backlog_pending(o->backlog));
	o->write_failed = false;
	count_dropped(o, "queue_full", dropped);
	show_queue(o);
}

int outlet_append(struct outlet *o, uint64_t number, const struct sink_float *f, size_t n, bool end, struct err *e)
{
	uint64_t dropped;
	if (o->number >= number && !(end && backlog_number(o->backlog) < number))
		return 0;
	uint64_t left_out = choose(o, f, o->number < number ? n : 0);
	int64_t now = clock_mono_ms();
	if (!o->chosen.n && !end && now - o->numbered_ms < NUMBER_EVERY_MS) {
		count_dropped(o, "dropped_series", left_out);
		o->number = number; /* after a crash they come again, and are left out again */
		return 0;
	}
	int rc = backlog_append(o->backlog, number, o->chosen.v, o->chosen.n, &dropped, e);
	if (rc) {
		count(o, RM_WRITE_FAILURES, 1);
		if (!o->write_failed)
			LOG_WARN("msg", "the queue of a remote-write receiver cannot be written", "remote_name", o->name, "err", e->msg);
		o->write_failed = true;
		return rc;
	}
	count_dropped(o, "dropped_series", left_out);
	o->number = number;
	o->numbered_ms = now;
	note_written(o, dropped);
	return 0;
}

void outlet_give_up(struct outlet *o, uint64_t number, uint64_t n)
{
	if (o->number >= number)
		return;
	o->number = number;
	outlet_count_lost(o, n);
}

void outlet_count_lost(struct outlet *o, uint64_t n)
{
	count_dropped(o, "not_written", n);
}

/* ---- what became of a request ---- */

bool outlet_is_sending(const struct outlet *o)
{
	for (size_t i = 0; i < o->n_batches; i++)
		if (o->batches[i].fetch)
			return true;
	return false;
}

static struct outlet_range *current(struct outlet_batch *b)
{
	return &b->todo.v[b->todo.n - 1];
}

static size_t samples_of(struct outlet_batch *b)
{
	return current(b)->to - current(b)->from;
}

static void note_problem(struct outlet *o, const char *what, size_t samples, const char *why)
{
	if (!o->problem || !err_same_but_for_numbers(o->problem, why))
		LOG_WARN("msg", what, "remote_name", o->name, "url", o->shown, "samples", LOG_NUM(samples), "err", why);
	free(o->problem);
	o->problem = xstrdup(why);
}

static void note_sent(struct outlet_batch *b)
{
	struct outlet *o = b->o;
	int64_t highest = INT64_MIN;
	for (size_t i = current(b)->from; i < current(b)->to; i++)
		highest = MAX(highest, b->v[i].t_ms);
	if ((double)highest / 1000 > metric_get(&outlet_metrics[RM_HIGHEST_SENT], o->name, o->shown))
		gauge(o, RM_HIGHEST_SENT, (double)highest / 1000);
}

static void range_is_done(struct outlet_batch *b)
{
	b->todo.n--;
	b->backoff_ms = b->retry_at_ms = 0;
}

static void taken(struct outlet_batch *b)
{
	struct outlet *o = b->o;
	note_sent(b);
	count(o, RM_SAMPLES, (double)samples_of(b));
	count(o, RM_BYTES, (double)b->bytes);
	metric_observe(&outlet_metrics[RM_SECONDS], (double)(clock_mono_ns() - b->began_ns) / 1e9, o->name, o->shown);
	if (o->problem)
		LOG_INFO("msg", "a remote-write receiver takes samples again", "remote_name", o->name, "url", o->shown);
	free(o->problem);
	o->problem = NULL;
	range_is_done(b);
}

static void try_again(struct outlet_batch *b, int64_t retry_after_s, const char *why)
{
	const struct queue_config *q = &b->o->config->queue;
	b->backoff_ms = b->backoff_ms ? MIN(b->backoff_ms * 2, q->max_backoff_ms) : q->min_backoff_ms;
	int64_t wait_ms = retry_after_s > 0 ? MIN(retry_after_s, RETRY_AFTER_MAX_S) * 1000 : b->backoff_ms;
	b->retry_at_ms = clock_mono_ms() + wait_ms;
	count(b->o, RM_RETRIED, (double)samples_of(b));
	note_problem(b->o, "a remote-write receiver took no samples; they are kept and sent again", samples_of(b), why);
}

/* With many receivers, one refused sample (for example one that is too old) makes the whole request fail. */
static void refused(struct outlet_batch *b, bool malformed, const char *why)
{
	struct outlet_range r = *current(b);
	if (malformed && r.to - r.from > 1 && b->splits) {
		size_t middle = r.from + (r.to - r.from) / 2;
		b->splits--;
		*current(b) = (struct outlet_range){ middle, r.to };
		vec_push(&b->todo, (struct outlet_range){ r.from, middle });
		return;
	}
	count(b->o, RM_FAILED, (double)(r.to - r.from));
	note_problem(b->o, "a remote-write receiver refused samples, they are dropped", r.to - r.from, why);
	range_is_done(b);
}

static void on_done(void *arg, struct fetch_response *answer, const struct err *e)
{
	struct outlet_batch *b = arg;
	/* The status decides, even if the body breaks off: an accepted request must not be sent again, and a refused one not for
	 * ever. */
	bool answered = !e->code || answer->status / 100 == 2 || answer->status / 100 >= 4;
	int status = answered ? answer->status : 0;
	struct view said = view_make(answer->body.ptr ? answer->body.ptr : "", MIN(answer->body.len, (size_t)SAID));
	b->fetch = NULL;
	if (status / 100 == 2) {
		taken(b);
		return;
	}
	char *why AUTOFREE = answered ? xasprintf("HTTP status %d: %.*s", status, VIEW_ARG(said)) : xstrdup(e->msg);
	if (!answered || status / 100 == 5 || (status == 429 && b->o->config->queue.retry_429))
		try_again(b, answered ? answer->retry_after_s : -1, why);
	else
		refused(b, status == 400, why);
}

/* ---- requests ---- */

static void send_range(struct outlet_batch *b)
{
	struct outlet *o = b->o;
	struct outlet_range r = *current(b);
	struct buf body = { 0 };
	struct err e = { 0 };
	if (remote_encode(b->v + r.from, r.to - r.from, &body, &e)) {
		refused(b, true, e.msg);
	} else {
		const struct fetch_request q = { .method = "POST", .url = o->config->url, .headers = o->config->header_lines,
						 .n_headers = o->config->n_header_lines, .body = buf_view(&body),
						 .timeout_ms = o->config->timeout_ms, .max_bytes = ANSWER_BYTES, .keep_method = true };
		b->began_ns = clock_mono_ns();
		b->bytes = body.len;
		if (fetch_start(o->loop, o->client, &q, on_done, b, &b->fetch, &e)) {
			b->fetch = NULL;
			try_again(b, -1, e.msg);
		}
	}
	buf_free(&body);
}

/* ---- rounds ---- */

static int by_part(const void *a, const void *b)
{
	const struct outlet_place *x = a, *y = b;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static void leave_out_old(struct outlet *o)
{
	int64_t limit = o->config->queue.age_limit_ms, from = clock_now_ms() - limit;
	size_t kept = 0;
	for (size_t i = 0; limit > 0 && i < o->floats.n; i++)
		if (o->floats.v[i].t_ms >= from)
			o->floats.v[kept++] = o->floats.v[i];
	if (limit > 0) {
		count_dropped(o, "too_old", o->floats.n - kept);
		o->floats.n = kept;
	}
}

/* Sorts the round by part and series, the order within a series stays. It depends on nothing but the samples: after a restart the
 * requests are the same. */
static void sort_floats(struct outlet *o, unsigned parts)
{
	size_t n = o->floats.n;
	o->order.n = 0;
	vec_reserve(&o->order, n);
	for (size_t i = 0; i < n; i++) {
		uint64_t hash = labels_hash_stable(o->floats.v[i].labels);
		o->order.v[i].hash = hash;
		o->order.v[i].part = (uint32_t)(hash_u64(hash) % parts);
		o->order.v[i].index = (uint32_t)i;
	}
	o->order.n = n;
	if (n)
		qsort(o->order.v, n, sizeof *o->order.v, by_part);
	struct sink_float *sorted = xcalloc(n + 1, sizeof *sorted);
	for (size_t i = 0; i < n; i++)
		sorted[i] = o->floats.v[o->order.v[i].index];
	free(o->floats.v);
	o->floats.v = sorted;
	o->floats.cap = n + 1;
}

/* Ranges of at most max_samples; the first on top. */
static void cut(struct outlet_batch *b, size_t from, size_t to, size_t max_samples)
{
	size_t n = (to - from + max_samples - 1) / max_samples;
	while (n--)
		vec_push(&b->todo, (struct outlet_range){ from + n * max_samples, MIN(to, from + (n + 1) * max_samples) });
}

static void make_batches(struct outlet *o, unsigned parts)
{
	o->batches = xcalloc(parts, sizeof *o->batches);
	o->n_batches = parts;
	for (size_t i = 0, from = 0; i < parts; i++) {
		size_t to = from;
		while (to < o->floats.n && o->order.v[to].part == i)
			to++;
		o->batches[i] = (struct outlet_batch){ .o = o, .v = o->floats.v, .splits = SPLITS };
		cut(&o->batches[i], from, to, (size_t)o->config->queue.max_samples);
		from = to;
	}
}

static void start_round(struct outlet *o, int64_t now_ms)
{
	struct err e = { 0 };
	size_t most = (size_t)o->config->queue.max_samples;
	uint64_t lost = 0;
	unsigned parts = (unsigned)MAX(MIN(backlog_pending(o->backlog) / most, (uint64_t)parts_max(o)), (uint64_t)1);
	o->floats.n = 0;
	int rc = backlog_next(o->backlog, parts * most, ROUND_BYTES, &parts, &o->floats, &lost, &e);
	count_dropped(o, "damaged", lost);
	if (rc || !o->floats.n) {
		if (rc)
			note_problem(o, "the queue of a remote-write receiver cannot be read", 0, e.msg);
		o->read_again_ms = now_ms + LOOK_MS;
		return;
	}
	parts = MIN(MAX(parts, 1U), PARTS_MAX);
	if (backlog_intend(o->backlog, parts, &e) && !o->write_failed) {
		LOG_WARN("msg", "cannot note what is sent: after a crash it may be sent again", "remote_name", o->name, "err", e.msg);
		o->write_failed = true;
	}
	leave_out_old(o);
	sort_floats(o, parts);
	make_batches(o, parts);
}

static void finish_round(struct outlet *o)
{
	end_round(o);
	backlog_done(o->backlog);
	o->waiting_ms = 0;
	show_queue(o);
}

/* The start time of the next round. */
static int64_t round_time(struct outlet *o, int64_t now_ms)
{
	const struct queue_config *q = &o->config->queue;
	uint64_t pending = backlog_pending(o->backlog);
	if (!pending)
		return INT64_MAX;
	if (!o->waiting_ms)
		o->waiting_ms = now_ms;
	return MAX(o->read_again_ms, pending >= (uint64_t)q->max_samples ? now_ms : o->waiting_ms + q->deadline_ms);
}

static bool is_done(const struct outlet *o)
{
	for (size_t i = 0; i < o->n_batches; i++)
		if (o->batches[i].todo.n)
			return false;
	return true;
}

int64_t outlet_step(struct outlet *o, int64_t now_ms, bool closing)
{
	struct err e = { 0 };
	int64_t next = INT64_MAX;
	if (o->n_batches && is_done(o))
		finish_round(o);
	if (!o->n_batches && !closing && (next = round_time(o, now_ms)) <= now_ms) {
		start_round(o, now_ms);
		next = o->n_batches ? INT64_MAX : now_ms + LOOK_MS;
	}
	if (!o->n_batches && backlog_save(o->backlog, &e))
		next = MIN(next, now_ms + LOOK_MS); /* once more, later */
	for (size_t i = 0; i < o->n_batches && !closing; i++) {
		struct outlet_batch *b = &o->batches[i];
		if (!b->fetch && b->todo.n && now_ms >= b->retry_at_ms)
			send_range(b);
		if (!b->fetch && b->todo.n)
			next = MIN(next, MAX(b->retry_at_ms, now_ms));
	}
	if (o->n_batches && is_done(o))
		next = now_ms;
	return next;
}
