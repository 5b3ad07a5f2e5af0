/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of one function: total(merge by (service) (cpu[1m]), {function="f"}), share(merge(cpu[1m]), F). The merged profiles are not
 * needed, only two numbers of each step: the matching part and the total. Storage adds both up for all steps, using its sums of
 * services if ranges are whole minutes; no profile is made, and no stored stamp is read here. */
#include <stdlib.h>

#include "promql-like/eval/pwindow.h"
#include "promql-like/eval/readout_calls.h"
#include "promql-like/values/explain.h"

struct merged {
	struct readout *r;
	const struct node *merge;  /* of a plain range */
	const struct span *sp;
	struct range_vector range;
	struct series_groups g;
	struct source_shares got;  /* by group, and of each by step */
};

bool readout_is_graph(const struct readout *r, const struct span *sp)
{
	return sp->n > 1 && r->has_frames && r->measure != SAMPLES && !r->bound && !r->q->once && !r->q->count;
}

/* The merge of a plain range that is read; NULL: something else is. */
static struct node *merge_of(const struct readout *r, const struct span *sp)
{
	struct node *n = node_unwrap(r->in);
	if (!readout_is_graph(r, sp) || !r->q->view->ops->shares)
		return NULL;
	if (n->kind != NODE_AGGREGATE || n->aggr.op != AGGR_MERGE || n->invariant)
		return NULL;
	const struct node *range = node_unwrap(n->aggr.expr);
	return range->kind == NODE_RANGE && range->range.sel->sel.mods.edges == EDGES_AS_THEY_ARE ? n : NULL;
}

/* All series of a group one after the other: they are one question. */
static struct source_part *list_parts(const struct merged *m)
{
	struct source_part *parts = xcalloc(m->range.n + 1, sizeof *parts);
	size_t *at = xcalloc(m->g.n + 1, sizeof *at);
	int64_t until = mods_time(m->range.mods, m->sp->start);
	for (size_t i = 0; i < m->range.n; i++)
		at[m->g.of[i] + 1]++;
	for (size_t g = 0; g < m->g.n; g++)
		at[g + 1] += at[g];
	for (size_t i = 0; i < m->range.n; i++)
		parts[at[m->g.of[i]]++] = (struct source_part){ m->range.s[i].ref, until - m->range.range_ms, until, 1,
								(uint32_t)(m->g.of[i] * m->sp->n), (uint32_t)m->sp->n, m->sp->step };
	free(at);
	return parts;
}

static int ask(struct merged *m, struct err *e)
{
	struct eval *q = m->r->q;
	size_t n = m->g.n * m->sp->n;
	struct source_frame_filter filter = readout_filter(m->r);
	int rc = eval_hold_bytes(q, 3 * n * sizeof(int64_t), e);
	if (rc)
		return rc;
	m->got = (struct source_shares){ xcalloc(n + 1, sizeof(int64_t)), xcalloc(n + 1, sizeof(int64_t)), xcalloc(n + 1, sizeof(int64_t)) };
	struct source_part *parts = list_parts(m);
	eval_read_begin(q);
	rc = q->view->ops->shares(q->view, parts, m->range.n, n, &filter, eval_stream_limits(q), &m->got, e);
	eval_read_end(q);
	free(parts);
	return frames_source_failed(&m->r->frames, rc, e);
}

static int put_group(struct merged *m, size_t g, struct err *e)
{
	struct lazy_profile like = { .type = m->range.s[0].type };
	struct source_shares got = { m->got.match + g * m->sp->n, m->got.total + g * m->sp->n, m->got.there + g * m->sp->n };
	struct value_series *out = NULL;
	int rc = 0;
	for (size_t i = 0; i < m->sp->n && !rc; i++) {
		if (!got.there[i])
			continue;
		like.a.total = got.total[i];
		struct value_sample s = { span_at(m->sp, i), lazy_profile_value(&like), &like };
		struct readout_reading x = readout_reading(m->r, &s);
		double v;
		if (!reading_number(&x, (double)got.match[i], &v))
			continue;
		if (!out)
			out = readout_out(m->r, readout_in(m->r, m->g.labels[g]), UINT32_MAX);
		rc = series_push(m->r->q, out, s.t_ms, v, NULL, e);
	}
	return rc ? rc : eval_check(m->r->q, e);
}

void readout_groups(struct readout *r, const struct range_vector *range, const struct node *aggr, struct series_groups *ret)
{
	struct labels *l = xcalloc(range->n + 1, sizeof *l);
	bool *drop = xcalloc(range->n + 1, sizeof *drop);
	for (size_t i = 0; i < range->n; i++)
		l[i] = range->s[i].labels;
	groups_make(r->q, l, drop, range->n, &aggr->aggr.by, aggr->aggr.without, ret);
	free(l);
	free(drop);
}

static void merged_free(struct merged *m)
{
	free(m->got.match);
	free(m->got.total);
	free(m->got.there);
	groups_free(&m->g);
	range_free(&m->range);
}

bool readout_adds_up(const struct range_vector *r)
{
	return r->n && r->s[0].type->kind != PROFILE_GAUGE;
}

int readout_merged(struct readout *r, const struct span *sp, bool *ret_done, struct err *e)
{
	struct node *merge = merge_of(r, sp);
	struct merged m = { .r = r, .merge = merge, .sp = sp };
	*ret_done = false;
	if (!merge)
		return 0;
	struct explaining at = explain_begin(r->q, merge);
	int rc = frames_failed(&r->frames, e);
	if (!rc)
		rc = range_select(r->q, node_unwrap(merge->aggr.expr), sp, &m.range, ret_done, e);
	*ret_done = *ret_done && !rc && readout_adds_up(&m.range);
	if (*ret_done) {
		readout_groups(r, &m.range, merge, &m.g);
		rc = ask(&m, e);
		if (rc == -ERR_EXECUTION) { /* a sum is too large: the long way knows what to say */
			rc = 0;
			*ret_done = false;
		}
	}
	explain_end(r->q, merge, NULL, at);
	for (size_t g = 0; g < m.g.n && *ret_done && !rc; g++)
		rc = put_group(&m, g, e);
	merged_free(&m);
	return rc;
}
