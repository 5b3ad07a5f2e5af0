/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/dict/index.h"

#include "base/alloc.h"

void index_init(struct index *x, struct symbols *s)
{
	*x = (struct index){ .symbols = s };
}

void index_release(struct index *x)
{
	for (size_t i = 0; i < x->series.n; i++) {
		free((void *)x->series.v[i]->labels.v);
		map_free(&x->series.v[i]->label_sets);
		free(x->series.v[i]);
	}
	for (size_t i = 0; i < x->postings.n; i++)
		vec_free(&x->postings.v[i].ids);
	for (size_t i = 0; i < x->names.n; i++)
		vec_free(&x->names.v[i].postings);
	vec_free(&x->series);
	vec_free(&x->postings);
	vec_free(&x->names);
	map_free(&x->by_labels);
	map_free(&x->by_pair);
	map_free(&x->by_name);
}

size_t index_bytes(const struct index *x)
{
	size_t n = x->series.n * (sizeof(struct series) + sizeof(void *) + 16) + x->postings.cap * sizeof *x->postings.v +
		   x->names.cap * sizeof *x->names.v;
	for (size_t i = 0; i < x->series.n; i++)
		n += x->series.v[i]->labels.n * (sizeof(struct label) + sizeof(uint32_t));
	const struct map *maps[] = { &x->by_labels, &x->by_pair, &x->by_name };
	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		n += maps[i]->slots ? (maps[i]->mask + 1) * sizeof(uint64_t) : 0;
	return n;
}

size_t index_counted(const struct index *x)
{
	return x->series.n + x->further;
}

bool index_find(const struct index *x, struct labels l, uint64_t hash, uint32_t *ret)
{
	for (size_t at = map_start(&x->by_labels, hash); map_probe(&x->by_labels, hash, &at, ret);)
		if (labels_eq(x->series.v[*ret]->labels, l))
			return true;
	return false;
}

/* ---- adding ---- */

static struct index_name *find_name(const struct index *x, uint32_t name)
{
	uint64_t h = hash_u64(name);
	uint32_t id;
	for (size_t at = map_start(&x->by_name, h); map_probe(&x->by_name, h, &at, &id);)
		if (x->names.v[id].name == name)
			return &x->names.v[id];
	return NULL;
}

static struct index_name *need_name(struct index *x, uint32_t name)
{
	struct index_name *n = find_name(x, name);
	if (n)
		return n;
	map_insert(&x->by_name, hash_u64(name), (uint32_t)x->names.n);
	n = vec_add(&x->names);
	n->name = name;
	return n;
}

static uint64_t pair_hash(uint32_t name, uint32_t value)
{
	return hash_u64((uint64_t)name << 32 | value);
}

static struct posting *find_posting(const struct index *x, uint32_t name, uint32_t value)
{
	uint64_t h = pair_hash(name, value);
	uint32_t id;
	for (size_t at = map_start(&x->by_pair, h); map_probe(&x->by_pair, h, &at, &id);)
		if (x->postings.v[id].name == name && x->postings.v[id].value == value)
			return &x->postings.v[id];
	return NULL;
}

static void post(struct index *x, uint32_t name, uint32_t value, uint32_t series)
{
	struct posting *p = find_posting(x, name, value);
	if (!p) {
		uint32_t id = (uint32_t)x->postings.n;
		map_insert(&x->by_pair, pair_hash(name, value), id);
		struct index_name *n = need_name(x, name);
		vec_push(&n->postings, id);
		p = vec_add(&x->postings);
		p->name = name;
		p->value = value;
	}
	vec_push(&p->ids, series);
}

static struct view own_string(struct index *x, struct view v)
{
	return symbols_get_string(x->symbols, symbols_string(x->symbols, v));
}

uint32_t index_add(struct index *x, struct labels l, uint64_t hash, const struct ptype *type)
{
	uint32_t id = (uint32_t)x->series.n;
	size_t bytes = 0;
	struct series *s = NEW(struct series);
	struct label *v = xcalloc(l.n ? l.n : 1, sizeof *v);
	for (size_t i = 0; i < l.n; i++) {
		uint32_t name = symbols_string(x->symbols, l.v[i].name);
		uint32_t value = symbols_string(x->symbols, l.v[i].value);
		v[i] = (struct label){ symbols_get_string(x->symbols, name), symbols_get_string(x->symbols, value) };
		post(x, name, value, id);
		bytes += v[i].name.len + v[i].value.len;
	}
	x->further += bytes / 1024;
	s->labels = (struct labels){ v, l.n };
	s->hash = hash;
	s->is_float = !type;
	if (type)
		s->type = (struct ptype){ own_string(x, type->name), own_string(x, type->sample_type),
					  own_string(x, type->sample_unit), own_string(x, type->period_type),
					  own_string(x, type->period_unit), type->delta, type->kind };
	atomic_init(&s->last_t, INT64_MIN);
	atomic_init(&s->min_t, INT64_MAX);
	atomic_init(&s->max_t, INT64_MIN);
	vec_push(&x->series, s);
	map_insert(&x->by_labels, hash, id);
	return id;
}

/* ---- selecting ---- */

/* A set of series ids: one bit each. */
struct bits {
	uint64_t *w;
	size_t n; /* words */
};

static struct bits bits_new(size_t n)
{
	size_t words = (n + 63) / 64;
	return (struct bits){ xcalloc(words ? words : 1, sizeof(uint64_t)), words };
}

/* Series beyond the first n are not in this set. */
static void bits_add(struct bits b, const struct posting *p, size_t n)
{
	for (size_t i = 0; i < p->ids.n; i++)
		if (p->ids.v[i] < n)
			b.w[p->ids.v[i] / 64] |= UINT64_C(1) << p->ids.v[i] % 64;
}

/* all &= b, or all &= ~b */
static void bits_narrow(struct bits all, struct bits b, bool keep)
{
	for (size_t i = 0; i < all.n; i++)
		all.w[i] &= keep ? b.w[i] : ~b.w[i];
}

struct candidate {
	uint32_t posting;
	struct view value;
};

/* A matcher and the values to test; then those values that it does not treat like the empty string. */
struct question {
	const struct matcher *m;
	int takes_empty; /* a series without the label is as one with an empty one */
	bool known;      /* nothing has to be matched */
	VEC(struct candidate) v;
};

static void question_add(struct question *q, uint32_t posting, struct view value)
{
	vec_push(&q->v, (struct candidate){ posting, value });
}

/* Under the lock. */
static void gather(const struct index *x, const struct matcher *m, struct question *q)
{
	uint32_t name_id, value_id;
	const struct index_name *name = symbols_find_string(x->symbols, m->name, &name_id) ? find_name(x, name_id) : NULL;
	q->m = m;
	q->known = m->op == MATCH_EQ && m->value.len;
	if (q->known) {
		const struct posting *p = name && symbols_find_string(x->symbols, m->value, &value_id) ?
					  find_posting(x, name_id, value_id) : NULL;
		if (p)
			question_add(q, (uint32_t)(p - x->postings.v), m->value);
		return;
	}
	for (size_t i = 0; name && i < name->postings.n; i++) {
		uint32_t id = name->postings.v[i];
		question_add(q, id, symbols_get_string(x->symbols, x->postings.v[id].value));
	}
}

/* Not under the lock: an expression may take seconds, and strings do not move. */
static int ask(struct question *q, struct regex_meter *meter, struct err *e)
{
	size_t kept = 0;
	if (q->known)
		return 0;
	q->takes_empty = matcher_matches(q->m, VIEW(""), meter, e);
	if (q->takes_empty < 0)
		return q->takes_empty;
	for (size_t i = 0; i < q->v.n; i++) {
		int takes = matcher_matches(q->m, q->v.v[i].value, meter, e);
		if (takes < 0)
			return takes;
		if (takes != q->takes_empty)
			q->v.v[kept++] = q->v.v[i];
	}
	q->v.n = kept;
	return 0;
}

/* Under the lock. Narrows `all`, of the first n series, to those that satisfy the matcher. */
static void narrow(const struct index *x, const struct question *q, struct bits all, size_t n)
{
	struct bits hit = bits_new(n);
	for (size_t i = 0; i < q->v.n; i++)
		bits_add(hit, &x->postings.v[q->v.v[i].posting], n);
	bits_narrow(all, hit, !q->takes_empty);
	free(hit.w);
}

/* Under the lock. */
static struct bits meeting(const struct index *x, int64_t after_ms, int64_t until_ms)
{
	struct bits all = bits_new(x->series.n);
	for (size_t i = 0; i < x->series.n; i++)
		if (series_meets(x->series.v[i], after_ms, until_ms))
			all.w[i / 64] |= UINT64_C(1) << i % 64;
	return all;
}

int index_select(const struct index *x, struct rwlock *lock, const struct matcher *m, size_t n, int64_t after_ms,
		 int64_t until_ms, struct regex_meter *meter, uint32_t **ret, size_t *ret_n, struct err *e)
{
	struct question *q = xcalloc(n, sizeof *q);
	VEC(uint32_t) out = { 0 };
	int rc = 0;
	rwlock_read(lock);
	size_t n_series = x->series.n;
	struct bits all = meeting(x, after_ms, until_ms);
	for (size_t i = 0; i < n; i++)
		gather(x, &m[i], &q[i]);
	rwlock_unlock(lock);
	for (size_t i = 0; i < n && !rc; i++)
		rc = ask(&q[i], meter, e);
	rwlock_read(lock);
	for (size_t i = 0; i < n && !rc; i++)
		narrow(x, &q[i], all, n_series);
	rwlock_unlock(lock);
	for (size_t i = 0; i < all.n && !rc; i++)
		for (uint64_t w = all.w[i]; w; w &= w - 1)
			vec_push(&out, (uint32_t)(i * 64 + (size_t)__builtin_ctzll(w)));
	for (size_t i = 0; i < n; i++)
		vec_free(&q[i].v);
	free(q);
	free(all.w);
	*ret = out.v;
	*ret_n = out.n;
	return rc;
}
