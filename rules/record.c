/* SPDX-License-Identifier: Apache-2.0 */
/* Recording: each element of a result becomes a sample of the rule's name, a profile by its value. */
#include "rules/group.h"

bool label_sets_has(const struct label_sets *s, struct labels l)
{
	uint64_t hash = labels_hash(l);
	uint32_t id;
	for (size_t at = map_start(&s->by_hash, hash); map_probe(&s->by_hash, hash, &at, &id);)
		if (labels_eq(*s->v.v[id], l))
			return true;
	return false;
}

bool label_sets_add(struct label_sets *s, struct labels l)
{
	if (label_sets_has(s, l))
		return false;
	map_insert(&s->by_hash, labels_hash(l), (uint32_t)s->v.n);
	vec_push(&s->v, labels_dup(l));
	return true;
}

void label_sets_free(struct label_sets *s)
{
	for (size_t i = 0; i < s->v.n; i++)
		free(s->v.v[i]);
	vec_free(&s->v);
	map_free(&s->by_hash);
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_LIMIT, "what the group writes at a time is more than %d MiB", 256);
}

static int put_float(struct round *r, struct labels l, double v, struct err *e)
{
	struct labels own = labels_copy(&r->out.arena, l);
	if (l.n && !own.v)
		return too_large(e);
	vec_push(&r->out.floats, (struct sink_float){ .labels = own, .t_ms = r->t_ms, .v = v });
	return 0;
}

int output_float(struct round *r, struct label_sets *now, struct labels l, double v, struct err *e)
{
	label_sets_add(now, l);
	return put_float(r, l, v, e);
}

int output_end_gone(struct round *r, struct live_rule *rule, struct label_sets *now, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < rule->previous.v.n && !rc; i++)
		if (!label_sets_has(now, *rule->previous.v.v[i]))
			rc = put_float(r, *rule->previous.v.v[i], value_from_bits(VALUE_STALE_BITS), e);
	if (rc)
		return rc;
	pthread_mutex_lock(&r->g->lock);
	label_sets_free(&rule->previous);
	rule->previous = *now;
	pthread_mutex_unlock(&r->g->lock);
	*now = (struct label_sets){ 0 };
	return 0;
}

void rule_labels(const struct rule *x, struct labels from, struct labels_builder *b)
{
	labels_builder_init(b, from);
	labels_builder_set(b, VIEW(LABEL_NAME), x->name);
	for (size_t i = 0; i < x->labels.n; i++)
		labels_builder_set(b, x->labels.v[i].name, x->labels.v[i].value);
}

static int put_series(struct round *r, const struct rule *x, struct labels from, double v, struct label_sets *now, struct err *e)
{
	struct labels_builder b;
	rule_labels(x, from, &b);
	struct labels l = labels_builder_finish(&b);
	int rc = label_sets_has(now, l) ? err_set(e, ERR_EXECUTION, "vector contains metrics with the same labelset after applying rule labels")
					: output_float(r, now, l, v, e);
	labels_builder_free(&b);
	return rc;
}

static int record_floats(struct round *r, struct live_rule *rule, const struct promql_result *q, struct label_sets *now, struct err *e)
{
	int rc = 0;
	if (q->type == PROMQL_SCALAR)
		return put_series(r, rule->rule, (struct labels){ 0 }, q->scalar, now, e);
	for (size_t i = 0; i < q->n_series && !rc; i++)
		rc = put_series(r, rule->rule, q->series[i].labels, q->series[i].points[0].v, now, e);
	int64_t limit = r->g->def->limit;
	if (!rc && limit && (int64_t)now->v.n > limit)
		rc = err_set(e, ERR_EXECUTION, "exceeded limit of %lld with %zu series", (long long)limit, now->v.n);
	return rc;
}

int record_result(struct round *r, struct live_rule *rule, const struct promql_result *q, struct err *e)
{
	struct label_sets now = { 0 };
	size_t before = r->out.floats.n;
	int rc = rule->rule->profiles ? record_profiles(r, rule, q, r->t_ms, e) : record_floats(r, rule, q, &now, e);
	size_t n = r->out.floats.n - before;
	if (!rc && !rule->rule->profiles)
		rc = output_end_gone(r, rule, &now, e);
	if (rc)
		r->out.floats.n = before;
	else
		r->samples += n;
	label_sets_free(&now);
	return rc;
}
