/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include "base/clock.h"

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

static void explain_node(const struct eval *q, const struct node *n, struct buf *out);

static void add_stats(struct source_stats *to, const struct source_stats *s)
{
	to->chunks += s->chunks;
	to->samples += s->samples;
	to->bytes += s->bytes;
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
	buf_printf(out, ",\"read\":{\"chunks\":%llu,\"samples\":%llu,\"bytes\":%llu}", (unsigned long long)s->chunks,
		   (unsigned long long)s->samples, (unsigned long long)s->bytes);
}

struct kids {
	const struct eval *q;
	struct buf *out;
	bool any;
};

static void explain_child(struct node *child, void *arg)
{
	struct kids *k = arg;
	if (child->kind == NODE_FRAMES || child->kind == NODE_STRING)
		return;
	if (k->any)
		buf_putc(k->out, ',');
	k->any = true;
	explain_node(k->q, child, k->out);
}

static void explain_node(const struct eval *q, const struct node *n, struct buf *out)
{
	const struct explain *x = &q->explain[n->id];
	struct buf text = { 0 };
	print_node(n, &text);
	buf_puts(out, "{\"expr\":");
	buf_json_string(out, buf_view(&text));
	buf_free(&text);
	buf_printf(out, ",\"type\":\"%s\",\"invariant\":%s,\"calls\":%llu,\"seconds\":%.6f,\"series\":%llu,\"samples\":%llu,\"profiles\":%llu",
		   promql_type_text(n->type), n->invariant ? "true" : "false", (unsigned long long)x->calls, (double)x->ns / 1e9,
		   (unsigned long long)x->series, (unsigned long long)x->samples, (unsigned long long)x->profiles);
	put_read(out, &x->read);
	struct kids k = { q, out, false };
	buf_puts(out, ",\"children\":[");
	node_each_child((struct node *)n, explain_child, &k);
	buf_puts(out, "]}");
}

void explain_json(const struct eval *q, struct buf *out)
{
	struct source_stats all;
	explain_all_read(q, &all);
	buf_printf(out, "{\"peakSamples\":%llu", (unsigned long long)atomic_load(&q->peak));
	put_read(out, &all);
	buf_puts(out, ",\"plan\":");
	explain_node(q, q->x->root, out);
	buf_putc(out, '}');
}
