/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/transfer/hidden.h"

#include "model/selector.h"
#include "tsdb/upkeep/retention_rules.h"

/* All rows of the generation existed when the delete was made. */
int hidden_add(const struct transfer_delete *d, const struct generation *g, struct hidden_facts *ret, struct err *e)
{
	struct tombstone_fact f = { .number = 1, .below_part = UINT32_MAX, .after_ms = d->after_ms, .until_ms = d->until_ms };
	struct selector s;
	int rc = selector_parse(&s, view_of(d->selector), e);
	for (size_t i = 0; i < g->series.n && !rc; i++) {
		const struct generation_series *x = &g->series.v[i];
		if (x->min_ms > x->max_ms || x->min_ms > d->until_ms || x->max_ms <= d->after_ms)
			continue;
		int matches = matchers_match(s.m.v, s.m.n, x->labels, NULL, e);
		rc = MIN(matches, 0);
		if (matches == 1)
			vec_push(&f.series, (uint32_t)i);
	}
	selector_release(&s);
	if (!rc && f.series.n)
		vec_push(&ret->deletes, f);
	else
		vec_free(&f.series);
	return rc;
}

int hidden_list(struct cached_server *s, const struct generation *g, struct hidden_facts *ret, struct err *e)
{
	struct transfer *t = s->db->transfer;
	int rc = 0;
	mutex_lock(&t->deletes_lock);
	for (size_t i = 0; i < t->deletes.n && !rc; i++)
		if (object_stamp_cmp(t->deletes.v[i].stamp, g->deletes) > 0)
			rc = hidden_add(&t->deletes.v[i], g, ret, e);
	for (size_t i = 0; i < t->pending_deletes.n && !rc; i++)
		rc = hidden_add(&t->pending_deletes.v[i], g, ret, e);
	mutex_unlock(&t->deletes_lock);
	return rc ? rc : retention_rules_hide(s->db, g, ret, e);
}
