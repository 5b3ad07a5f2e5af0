/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/values/explain.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"

struct explaining explain_begin(struct eval *q, const struct node *n)
{
	if (!q->explain)
		return (struct explaining){ 0 };
	struct explaining at = { q->lim.stats, clock_mono_ns() };
	q->lim.stats = q->stream_lim.stats = &q->explain[n->id].read;
	return at;
}

void explain_end(struct eval *q, const struct node *n, const struct value *v, struct explaining at)
{
	if (!q->explain)
		return;
	q->lim.stats = q->stream_lim.stats = at.before;
	struct explain *x = &q->explain[n->id];
	x->ns += clock_mono_ns() - at.from_ns;
	x->calls++;
	if (!v)
		return;
	x->series = MAX(x->series, v->n);
	for (size_t i = 0; i < v->n; i++) {
		x->samples += v->s[i].n;
		if (v->s[i].n && v->s[i].s[0].p)
			x->profiles += v->s[i].n;
	}
}

#define MAX_EXPR 1000 /* bytes of a node's text: each is also in those of all nodes above it */

/* The answer while it is written. */
struct writing {
	const struct eval *q;
	struct buf *out;
	struct buf line;         /* the query on one line, and where each node is in it */
	struct node_text *texts;
};

static void explain_node(struct writing *w, const struct node *n);

static void add_stats(struct source_stats *to, const struct source_stats *s)
{
	to->chunks += s->chunks;
	to->samples += s->samples;
	to->bytes += s->bytes;
	to->bucket_requests += s->bucket_requests;
	to->bucket_bytes += s->bucket_bytes;
}

void explain_all_read(const struct eval *q, struct source_stats *ret)
{
	*ret = (struct source_stats){ 0 };
	add_stats(ret, &q->stats);
	for (uint32_t i = 0; q->explain && i < q->x->n_nodes; i++)
		add_stats(ret, &q->explain[i].read);
}

static void put_read(struct buf *out, const struct source_stats *s)
{
	json_object_begin_at(out, "read");
	json_field_count(out, "chunks", s->chunks);
	json_field_count(out, "samples", s->samples);
	json_field_count(out, "bytes", s->bytes);
	if (s->bucket_requests) {
		json_field_count(out, "bucketRequests", s->bucket_requests);
		json_field_count(out, "bucketBytes", s->bucket_bytes);
	}
	json_object_end(out);
}

static void explain_child(struct node *child, void *arg)
{
	struct writing *w = arg;
	if (child->kind == NODE_FRAMES || child->kind == NODE_STRING)
		return;
	explain_node(w, child);
}

static void put_text(const struct writing *w, const struct node *n)
{
	const struct node_text *t = &w->texts[n->id];
	struct view all = buf_view(&w->line), text = t->len > MAX_EXPR ? utf8_prefix(view_make(all.ptr + t->from, t->len), MAX_EXPR)
								      : view_make(all.ptr + t->from, t->len);
	struct buf cut = { 0 };
	if (text.len < t->len) {
		buf_putv(&cut, text);
		buf_puts(&cut, "...");
		text = buf_view(&cut);
	}
	json_text(w->out, text);
	buf_free(&cut);
}

static void explain_node(struct writing *w, const struct node *n)
{
	const struct explain *x = &w->q->explain[n->id];
	json_object_begin(w->out);
	json_key(w->out, "expr");
	put_text(w, n);
	json_field_text(w->out, "type", promql_type_text(n->type));
	json_field_bool(w->out, "invariant", n->invariant);
	json_field_count(w->out, "calls", x->calls);
	json_key(w->out, "seconds");
	json_decimals(w->out, (double)x->ns / 1e9, 6);
	json_field_count(w->out, "series", x->series);
	json_field_count(w->out, "samples", x->samples);
	json_field_count(w->out, "profiles", x->profiles);
	put_read(w->out, &x->read);
	json_array_begin_at(w->out, "children");
	node_each_child((struct node *)n, explain_child, w);
	json_array_end(w->out);
	json_object_end(w->out);
}

void explain_json(const struct eval *q, struct buf *out)
{
	struct source_stats all;
	struct writing w = { .q = q, .out = out };
	explain_all_read(q, &all);
	w.texts = print_texts(q->x, &w.line);
	json_object_begin(out);
	json_field_count(out, "peakSamples", atomic_load(&q->peak));
	put_read(out, &all);
	json_key(out, "plan");
	explain_node(&w, q->x->root);
	json_object_end(out);
	buf_free(&w.line);
	free(w.texts);
}
