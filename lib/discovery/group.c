/* SPDX-License-Identifier: Apache-2.0 */
/* A group in one allocation:
 *
 *	struct kept │ targets[n] │ label array of the group │ of target 0 │ 1 │ … │ strings, each ended by NUL
 *
 * The names of labels are stored outside, once for all groups: they are a third of the text of a pod, and there are few. They are
 * never freed; when there are too many, new ones are copied into their group like values. */
#include "discovery/group.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/lock.h"

#define NAMES_MAX ((size_t)1 << 16)
#define NAMES_MAX_BYTES ((size_t)4 << 20)

struct kept {
	atomic_size_t refs;
	struct discovery_group group;
};

static struct kept *kept_of(const struct discovery_group *g)
{
	return (struct kept *)((uintptr_t)g - offsetof(struct kept, group));
}

const struct discovery_group *discovery_group_ref(const struct discovery_group *g)
{
	atomic_fetch_add_explicit(&kept_of(g)->refs, 1, memory_order_relaxed);
	return g;
}

void discovery_group_unref(const struct discovery_group *g)
{
	if (g && atomic_fetch_sub(&kept_of(g)->refs, 1) == 1)
		free(kept_of(g));
}

static struct {
	struct mutex lock;
	VEC(struct view) v;
	struct map index;
	size_t bytes;
	bool full; /* never freed, so that equal names always get the same answer */
} names = { .lock = MUTEX_INIT(LOCK_LEAF, "label names") };

static bool find_name(struct view name, uint64_t hash, struct view *ret) REQUIRES(names.lock)
{
	uint32_t id;
	for (size_t at = map_start(&names.index, hash); map_probe(&names.index, hash, &at, &id);)
		if (view_eq(names.v.v[id], name)) {
			*ret = names.v.v[id];
			return true;
		}
	return false;
}

/* The name as all groups have it; false: it is not one of those. */
static bool shared_name(struct view name, struct view *ret)
{
	uint64_t hash = hash_view(name);
	mutex_lock(&names.lock);
	bool there = find_name(name, hash, ret);
	if (!there && !names.full) {
		names.full = names.v.n >= NAMES_MAX || names.bytes + name.len > NAMES_MAX_BYTES;
		if (!names.full) {
			*ret = view_make(xstrndup(name.ptr, name.len), name.len);
			map_insert(&names.index, hash, (uint32_t)names.v.n);
			vec_push(&names.v, *ret);
			names.bytes += name.len;
			there = true;
		}
	}
	mutex_unlock(&names.lock);
	return there;
}

static size_t text_of(struct labels l)
{
	struct view name;
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++)
		n += (shared_name(l.v[i].name, &name) ? 0 : l.v[i].name.len + 1) + l.v[i].value.len + 1;
	return n;
}

struct group_room {
	struct label *labels;
	char *text;
};

static struct view put_text(struct group_room *r, struct view v)
{
	char *at = r->text;
	if (v.len)
		memcpy(at, v.ptr, v.len);
	at[v.len] = 0;
	r->text += v.len + 1;
	return (struct view){ at, v.len };
}

static struct labels put_labels(struct group_room *r, struct labels l)
{
	struct label *v = r->labels;
	r->labels += l.n;
	for (size_t i = 0; i < l.n; i++) {
		if (!shared_name(l.v[i].name, &v[i].name))
			v[i].name = put_text(r, l.v[i].name);
		v[i].value = put_text(r, l.v[i].value);
	}
	return (struct labels){ v, l.n };
}

const struct discovery_group *discovery_group_copy(const struct discovery_group *g)
{
	size_t n_labels = g->labels.n, text = text_of(g->labels) + strlen(g->source) + 1;
	for (size_t i = 0; i < g->n_targets; i++) {
		n_labels += g->targets[i].n;
		text += text_of(g->targets[i]);
	}
	struct kept *k = xmalloc(sizeof *k + g->n_targets * sizeof *g->targets + n_labels * sizeof(struct label) + text);
	struct labels *targets = (struct labels *)(k + 1);
	struct group_room r = { (struct label *)(targets + g->n_targets), NULL };
	r.text = (char *)(r.labels + n_labels);
	atomic_init(&k->refs, 1);
	k->group = (struct discovery_group){ .targets = targets, .n_targets = g->n_targets };
	k->group.source = put_text(&r, view_of(g->source)).ptr;
	k->group.labels = put_labels(&r, g->labels);
	for (size_t i = 0; i < g->n_targets; i++)
		targets[i] = put_labels(&r, g->targets[i]);
	return &k->group;
}

bool discovery_group_eq(const struct discovery_group *a, const struct discovery_group *b)
{
	if (strcmp(a->source, b->source) != 0 || a->n_targets != b->n_targets || !labels_eq(a->labels, b->labels))
		return false;
	for (size_t i = 0; i < a->n_targets; i++)
		if (!labels_eq(a->targets[i], b->targets[i]))
			return false;
	return true;
}

static uint64_t hash_of(const char *source)
{
	return hash_view(view_of(source));
}

static bool find(const struct group_set *s, const char *source, uint32_t *ret)
{
	uint64_t hash = hash_of(source);
	for (size_t at = map_start(&s->index, hash); map_probe(&s->index, hash, &at, ret);)
		if (strcmp(s->groups.v[*ret]->source, source) == 0)
			return true;
	return false;
}

const struct discovery_group *group_set_get(const struct group_set *s, const char *source)
{
	uint32_t at;
	return find(s, source, &at) ? s->groups.v[at] : NULL;
}

static void take_out(struct group_set *s, uint32_t at)
{
	const struct discovery_group *g = s->groups.v[at];
	uint32_t last = (uint32_t)--s->groups.n;
	map_remove(&s->index, hash_of(g->source), at);
	if (last != at) {
		uint64_t moved = hash_of(s->groups.v[last]->source);
		map_remove(&s->index, moved, last);
		map_insert(&s->index, moved, at);
		s->groups.v[at] = s->groups.v[last];
	}
	s->targets -= g->n_targets;
	discovery_group_unref(g);
}

static bool put(struct group_set *s, const struct discovery_group *g,
		const struct discovery_group *(*keep)(const struct discovery_group *g))
{
	uint32_t at;
	bool there = find(s, g->source, &at);
	if (!g->n_targets) {
		if (there)
			take_out(s, at);
		return there;
	}
	const struct discovery_group *old = there ? s->groups.v[at] : NULL;
	if (old && discovery_group_eq(old, g))
		return false;
	if (old) {
		s->groups.v[at] = keep(g);
		s->targets -= old->n_targets;
		discovery_group_unref(old);
	} else {
		map_insert(&s->index, hash_of(g->source), (uint32_t)s->groups.n);
		vec_push(&s->groups, keep(g));
	}
	s->targets += g->n_targets;
	return true;
}

bool group_set_put(struct group_set *s, const struct discovery_group *g)
{
	return put(s, g, discovery_group_copy);
}

bool group_set_put_counted(struct group_set *s, const struct discovery_group *g)
{
	return put(s, g, discovery_group_ref);
}

void group_set_free(struct group_set *s)
{
	for (size_t i = 0; i < s->groups.n; i++)
		discovery_group_unref(s->groups.v[i]);
	vec_free(&s->groups);
	map_free(&s->index);
	s->targets = 0;
}
