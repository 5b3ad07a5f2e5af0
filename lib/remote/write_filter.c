/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/write_filter.h"

#include <stdlib.h>

#include "base/alloc.h"

#define RELABEL_BYTES ((size_t)16 << 20)

void write_filter_trim(struct write_filter *c, size_t max_bytes)
{
	if (max_bytes && c->bytes <= max_bytes)
		return;
	for (size_t i = 0; i < c->all.n; i++) {
		free(c->all.v[i]->in);
		free(c->all.v[i]->out);
		free(c->all.v[i]);
	}
	c->all.n = c->bytes = 0;
	map_free(&c->by_labels);
}

void write_filter_release(struct write_filter *c)
{
	write_filter_trim(c, 0);
	vec_free(&c->all);
	arena_free(&c->arena);
}

static struct labels *make_labels(struct write_filter *c, const struct receiver_config *r, struct labels external, struct labels l, struct err *e)
{
	struct labels_builder b;
	labels_builder_init(&b, l);
	for (size_t i = 0; i < external.n; i++)
		if (!labels_builder_get(&b, external.v[i].name).len)
			labels_builder_set(&b, external.v[i].name, external.v[i].value);
	c->arena.max = RELABEL_BYTES;
	int kept = relabel_apply(r->relabel.v, r->relabel.n, &b, &c->arena, e);
	struct labels *out = kept > 0 && b.l.n ? labels_dup(labels_builder_finish(&b)) : NULL;
	labels_builder_free(&b);
	arena_reset(&c->arena);
	if (out && !out->n) {
		free(out);
		out = NULL;
	}
	return out;
}

static size_t size_of(const struct labels *l)
{
	size_t n = 0;
	for (size_t i = 0; l && i < l->n; i++)
		n += sizeof *l->v + l->v[i].name.len + l->v[i].value.len;
	return n;
}

struct backlog_series *write_filter_get(struct write_filter *c, const struct receiver_config *r, struct labels external, struct labels l, struct err *e)
{
	uint64_t hash = labels_hash(l);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&c->by_labels, hash, id, c->all.n, labels_eq(*c->all.v[id]->in, l)))
		return c->all.v[id]->out ? &c->all.v[id]->series : NULL;
	struct filtered_series *x = NEW(struct filtered_series);
	x->in = labels_dup(l);
	x->out = make_labels(c, r, external, l, e);
	if (x->out)
		x->series.labels = *x->out;
	vec_push(&c->all, x);
	c->bytes += sizeof *x + 3 * sizeof(struct labels) + size_of(x->in) + size_of(x->out);
	return x->out ? &x->series : NULL;
}
