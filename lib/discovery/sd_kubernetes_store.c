/* SPDX-License-Identifier: Apache-2.0 */
#include "discovery/sd_kubernetes_store.h"

#include "base/alloc.h"

struct kube_sd_edge {
	struct kube_sd_entry *from, *to;
	struct kube_sd_edge *next_out, *next_in, **at_in; /* at_in: what points at it in `to` */
};

/* --- entries --- */

static uint64_t hash_of(enum kube_sd_kind kind, struct view key)
{
	return hash_bytes_seed(key.ptr, key.len, kind);
}

static struct kube_sd_entry *find(const struct kube_sd_store *s, enum kube_sd_kind kind, struct view key)
{
	uint64_t hash = hash_of(kind, key);
	uint32_t id;
	for (size_t at = map_start(&s->index, hash); map_probe(&s->index, hash, &at, &id);) {
		struct kube_sd_entry *n = s->entries.v[id];
		if (n->kind == kind && view_eqs(key, n->key))
			return n;
	}
	return NULL;
}

static struct kube_sd_entry *get(struct kube_sd_store *s, enum kube_sd_kind kind, struct view key)
{
	struct kube_sd_entry *n = find(s, kind, key);
	if (n)
		return n;
	n = xcalloc(1, sizeof *n + key.len + 1);
	n->hash = hash_of(kind, key);
	n->place = (uint32_t)s->entries.n;
	n->kind = (uint8_t)kind;
	memcpy(n->key, key.ptr, key.len);
	map_insert(&s->index, n->hash, n->place);
	vec_push(&s->entries, n);
	return n;
}

/* Frees it, if nothing needs it. */
static void release(struct kube_sd_store *s, struct kube_sd_entry *n)
{
	if (n->known || n->queued || n->in || n->out)
		return;
	struct kube_sd_entry *last = s->entries.v[--s->entries.n];
	map_remove(&s->index, n->hash, n->place);
	if (last != n) {
		map_remove(&s->index, last->hash, last->place);
		last->place = n->place;
		s->entries.v[last->place] = last;
		map_insert(&s->index, last->hash, last->place);
	}
	free(n->packed);
	free(n);
}

static void enqueue(struct kube_sd_store *s, struct kube_sd_entry *n)
{
	if (n->queued)
		return;
	n->queued = true;
	n->next = NULL;
	if (s->last)
		s->last->next = n;
	else
		s->first = n;
	s->last = n;
}

static void touch(struct kube_sd_store *s, struct kube_sd_entry *n)
{
	if (n->kind == s->role)
		enqueue(s, n);
	for (struct kube_sd_edge *edge = n->in; edge; edge = edge->next_in)
		enqueue(s, edge->from);
}

static void forget(struct kube_sd_store *s, struct kube_sd_entry *n)
{
	n->known = false;
	free(n->packed);
	n->packed = NULL;
	touch(s, n);
	release(s, n);
}

/* --- changes --- */

enum kube_sd_change kube_sd_store_put(struct kube_sd_store *s, enum kube_sd_kind kind, struct view key, struct view packed,
				      uint32_t list, uint32_t round)
{
	struct kube_sd_entry *n = get(s, kind, key);
	uint64_t hash = hash_view(packed);
	bool was = n->known;

	n->list = list;
	n->round = round;
	if (was && n->packed_hash == hash)
		return KUBE_SD_SAME;
	free(n->packed);
	n->packed = xstrndup(packed.ptr, packed.len);
	n->packed_hash = hash;
	n->known = true;
	touch(s, n);
	return was ? KUBE_SD_UPDATED : KUBE_SD_ADDED;
}

bool kube_sd_store_del(struct kube_sd_store *s, enum kube_sd_kind kind, struct view key)
{
	struct kube_sd_entry *n = find(s, kind, key);
	if (!n || !n->known)
		return false;
	forget(s, n);
	return true;
}

size_t kube_sd_store_sweep(struct kube_sd_store *s, uint32_t list, uint32_t round)
{
	size_t gone = 0;
	/* From the end: releasing one moves the last into its place. */
	for (size_t i = s->entries.n; i-- > 0;) {
		struct kube_sd_entry *n = s->entries.v[i];
		if (!n->known || n->list != list || n->round == round)
			continue;
		forget(s, n);
		gone++;
	}
	return gone;
}

/* --- edges --- */

static void add_edge(struct kube_sd_entry *from, struct kube_sd_entry *to)
{
	struct kube_sd_edge *edge = NEW(struct kube_sd_edge);
	*edge = (struct kube_sd_edge){ from, to, from->out, to->in, &to->in };
	if (to->in)
		to->in->at_in = &edge->next_in;
	to->in = edge;
	from->out = edge;
}

static void drop_edges(struct kube_sd_store *s, struct kube_sd_entry *from)
{
	struct kube_sd_edge *edge = from->out;
	from->out = NULL;
	while (edge) {
		struct kube_sd_edge *next = edge->next_out;
		*edge->at_in = edge->next_in;
		if (edge->next_in)
			edge->next_in->at_in = edge->at_in;
		release(s, edge->to);
		free(edge);
		edge = next;
	}
}

/* --- groups --- */

struct making {
	struct kube_sd_store *store;
	struct kube_sd_entry *entry;
	struct kube_sd_made *made;
	int rc;                      /* of objects that cannot be read */
	struct err err;
};

/* Accepts what kube_scan.c accepted: a NUL in a text as well. An unreadable text is never treated as an empty object. */
static json_t *parse(struct making *m, const struct kube_sd_entry *n)
{
	json_error_t why;
	json_t *j = json_loads(n->packed, JSON_ALLOW_NUL, &why);
	if (j)
		vec_push(&m->made->parsed, j);
	else
		m->rc = err_set(&m->err, ERR_BAD_DATA, "%s %s cannot be read: %s", kube_sd_kinds[n->kind].role, n->key, why.text);
	return j;
}

/* Each object is looked for and parsed once for a group. */
static const json_t *look_up(void *arg, enum kube_sd_kind kind, struct view ns, struct view name)
{
	struct making *m = arg;
	struct buf key = { 0 };
	if (ns.len)
		buf_printf(&key, "%.*s/", VIEW_ARG(ns));
	buf_putv(&key, name);
	struct kube_sd_entry *n = get(m->store, kind, buf_view(&key));
	buf_free(&key);
	if (n->build != m->store->builds) {
		n->build = m->store->builds;
		n->parsed = n->packed ? parse(m, n) : NULL;
		add_edge(m->entry, n);
	}
	return n->parsed;
}

static void make(struct kube_sd_store *s, const struct kube_sd_attach *attach, struct kube_sd_entry *n, struct kube_sd_made *ret)
{
	struct making m = { .store = s, .entry = n, .made = ret };
	const struct kube_sd_world world = { *attach, look_up, &m };
	const json_t *object = parse(&m, n);

	s->builds++;
	ret->rc = object ? kube_sd_group(s->role, object, &world, &ret->arena, &ret->group, &ret->err) : m.rc;
	if (m.rc) {
		ret->rc = m.rc;
		ret->err = m.err;
	}
	ret->again = n->refused && ret->rc == -ERR_LIMIT;
	n->refused = ret->rc == -ERR_LIMIT;
	if (!n->out) {
		free(n->packed);
		n->packed = NULL;
	}
}

bool kube_sd_store_next(struct kube_sd_store *s, const struct kube_sd_attach *attach, struct kube_sd_made *ret)
{
	struct kube_sd_entry *n = s->first;
	if (!n)
		return false;
	s->first = n->next;
	if (!s->first)
		s->last = NULL;
	n->queued = false;
	ret->rc = 0;
	ret->group = (struct discovery_group){ .source = arena_printf(&ret->arena, "%s/%s", kube_sd_kinds[n->kind].source, n->key) };
	drop_edges(s, n);
	if (n->known)
		make(s, attach, n, ret);
	else
		release(s, n);
	return true;
}

void kube_sd_made_reset(struct kube_sd_made *m)
{
	for (size_t i = 0; i < m->parsed.n; i++)
		json_decref(m->parsed.v[i]);
	m->parsed.n = 0;
	arena_reset(&m->arena);
}

void kube_sd_store_free(struct kube_sd_store *s)
{
	for (size_t i = 0; i < s->entries.n; i++) {
		struct kube_sd_entry *n = s->entries.v[i];
		while (n->out) {
			struct kube_sd_edge *edge = n->out;
			n->out = edge->next_out;
			free(edge);
		}
		free(n->packed);
		free(n);
	}
	vec_free(&s->entries);
	map_free(&s->index);
}
