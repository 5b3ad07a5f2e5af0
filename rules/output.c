/* SPDX-License-Identifier: Apache-2.0 */
/* The collected writes of a group: label sets, each once, samples, and ends of series. */
#include <stdlib.h>

#include "base/lock.h"
#include "base/units.h"
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
	if (s->budget)
		budget_give(s->budget, s->bytes);
	s->bytes = 0;
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_LIMIT, "the group writes more samples and labels at one evaluation than there is memory for: aggregate, or let the process use more memory (--memory)");
}

static int put_float(struct evaluation *r, struct labels l, double v, struct err *e)
{
	struct labels own = labels_copy(&r->out.arena, l);
	if (l.n && !own.v)
		return too_large(e);
	vec_push(&r->out.floats, (struct sink_float){ .labels = own, .t_ms = r->t_ms, .v = v });
	return 0;
}

size_t rule_labels_bytes(struct labels l)
{
	size_t bytes = l.n * sizeof *l.v + sizeof l;
	for (size_t i = 0; i < l.n; i++)
		bytes += l.v[i].name.len + l.v[i].value.len + 2;
	return bytes;
}

int texts_too_large(const struct evaluation *r, struct err *e)
{
	char max[24];
	return err_set(e, ERR_LIMIT, "labels and annotations of all alerts, and the labels of what rules write, are more than %s: aggregate, or let the process use more "
		       "memory (--memory)", units_format_size(r->g->m->texts.max, max));
}

int output_float(struct evaluation *r, struct label_sets *now, struct labels l, double v, struct err *e)
{
	size_t bytes = rule_labels_bytes(l);
	now->budget = &r->g->m->texts;
	if (!budget_take(now->budget, bytes, BUDGET_ALL))
		return texts_too_large(r, e);
	if (label_sets_add(now, l))
		now->bytes += bytes;
	else
		budget_give(now->budget, bytes);
	return put_float(r, l, v, e);
}

int output_end_gone(struct evaluation *r, struct live_rule *rule, struct label_sets *now, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < rule->previous.v.n && !rc; i++)
		if (!label_sets_has(now, *rule->previous.v.v[i]))
			rc = put_float(r, *rule->previous.v.v[i], value_from_bits(VALUE_STALE_BITS), e);
	if (rc)
		return rc;
	mutex_lock(&r->g->lock);
	label_sets_free(&rule->previous);
	rule->previous = *now;
	mutex_unlock(&r->g->lock);
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

void output_drop_profiles(struct group_output *o, size_t from)
{
	for (size_t i = from; i < o->profiles.n; i++)
		if (o->profiles.v[i].profile) {
			profile_release(o->profiles.v[i].profile);
			free(o->profiles.v[i].profile);
		}
	o->profiles.n = MIN(o->profiles.n, from);
}
