/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/stacks/tagroot.h"

#include "base/map.h"
#include "base/vec.h"
#include "model/sample_order.h"
#include "promql-like/stacks/rewrite.h"
#include "promql-like/stacks/stack_filter.h"
#include "promql-like/values/query.h"

/* The names of the frames of one kind of sample: n_keys of them. */
struct tags {
	const struct symbols *from;
	struct labels own;
	const struct view *keys;
	size_t n_keys;
	bool all_own;              /* nothing depends on the sample */
	struct map by_set, by_text;
	VEC(struct { uint32_t set; uint32_t variant; }) sets;
	VEC(struct view) texts;    /* by variant, joined by 0 bytes */
	struct arena names;
	struct buf tmp;
	struct sample_labels sorted;
	uint32_t now;              /* the variant of the sample at hand */
};

static void put_value(struct tags *t, struct view key, uint32_t set)
{
	size_t n, before = t->tmp.len;
	const struct sym_label *l = sample_labels_sorted(&t->sorted, t->from, set, &n);
	struct view own = labels_get(t->own, key);
	buf_putv(&t->tmp, own);
	for (size_t i = 0; i < n && !own.len; i++) {
		char number[32];
		if (!view_eq(symbols_get_string(t->from, l[i].key), key))
			continue;
		if (t->tmp.len > before)
			buf_putc(&t->tmp, ',');
		buf_putv(&t->tmp, sample_label_text(t->from, &l[i], number));
	}
	if (t->tmp.len == before)
		buf_printf(&t->tmp, "(no %.*s)", VIEW_ARG(key));
}

static uint32_t variant_of_text(struct tags *t, struct view text)
{
	uint64_t h = hash_view(text);
	uint32_t i;
	if (!MAP_FIND_OR_ADD(&t->by_text, h, i, t->texts.n, view_eq(t->texts.v[i], text)))
		vec_push(&t->texts, arena_view(&t->names, text));
	return i;
}

static uint32_t variant_of_set(void *arg, uint32_t set)
{
	struct tags *t = arg;
	uint64_t h = hash_u64(set);
	uint32_t i;
	if (t->all_own)
		set = 0;
	for (size_t at = map_start(&t->by_set, h); map_probe(&t->by_set, h, &at, &i);)
		if (t->sets.v[i].set == set)
			return t->now = t->sets.v[i].variant;
	buf_reset(&t->tmp);
	for (size_t k = 0; k < t->n_keys; k++) {
		if (k)
			buf_putc(&t->tmp, 0);
		put_value(t, t->keys[k], set);
	}
	t->now = variant_of_text(t, buf_view(&t->tmp));
	map_insert(&t->by_set, h, (uint32_t)t->sets.n);
	__auto_type known = vec_add(&t->sets);
	known->set = set;
	known->variant = t->now;
	return t->now;
}

static bool add_tags(void *arg, struct rewrite *rw, const uint32_t *locations, size_t n)
{
	struct tags *t = arg;
	struct view text = t->texts.v[t->now];
	for (size_t i = 0; i < n; i++)
		rewrite_add(rw, locations[i], 0, UINT32_MAX);
	for (size_t k = t->n_keys, end = text.len; k-- > 0;) { /* the leaf's side first */
		size_t from = end;
		while (from > 0 && text.ptr[from - 1])
			from--;
		rewrite_add_name(rw, view_make(text.ptr + from, end - from), t->keys[k]);
		end = from ? from - 1 : 0;
	}
	return true;
}

struct stackvec *tagroot(struct eval *q, const struct stackvec *v, struct labels own, const struct view *keys, size_t n_keys, struct err *e)
{
	struct tags t = { .from = v->symbols, .own = own, .keys = keys, .n_keys = n_keys, .all_own = true };
	for (size_t k = 0; k < n_keys; k++)
		t.all_own &= labels_get(own, keys[k]).len > 0;
	arena_init(&t.names, 0);
	struct stackvec *out = rewrite_samples(q, v, add_tags, variant_of_set, &t, e);
	map_free(&t.by_set);
	map_free(&t.by_text);
	vec_free(&t.sets);
	vec_free(&t.texts);
	arena_free(&t.names);
	buf_free(&t.tmp);
	sample_labels_release(&t.sorted);
	return out;
}
