/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/dict_union.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "tsdb/version/late_names.h"

#define KEEP_MS (10 * INT64_C(60000))

/* One dictionary that was met, with names that came late. */
struct source_map {
	struct symbols *from; /* reference held, as of names */
	struct late_names *names;
	struct symbols_map *map;
};

struct dict_unions {
	struct mutex lock;
	struct symbols *to;   /* NULL: nothing yet */
	VEC(struct source_map) maps;
	int64_t used_mono_ms;
	size_t max_bytes;
};

struct dict_unions *dict_unions_new(size_t max_bytes)
{
	struct dict_unions *j = NEW(struct dict_unions);
	j->max_bytes = max_bytes;
	mutex_init(&j->lock, RANK_TSDB_DICT_UNION, "dictionary union");
	return j;
}

static void forget_map(struct source_map *x)
{
	symbols_map_free(x->map);
	symbols_unref(x->from);
	late_names_unref(x->names);
}

static void forget(struct dict_unions *j)
{
	for (size_t i = 0; i < j->maps.n; i++)
		forget_map(&j->maps.v[i]);
	vec_free(&j->maps);
	symbols_unref(j->to);
	j->to = NULL;
}

void dict_unions_free(struct dict_unions *j)
{
	if (!j)
		return;
	forget(j);
	mutex_destroy(&j->lock);
	free(j);
}

/* A map for other names is rebuilt, because its results are obsolete. */
static struct symbols_map *map_of(struct dict_unions *j, struct partition *p, struct late_names *names)
{
	struct source_map *x = NULL;
	for (size_t i = 0; i < j->maps.n && !x; i++)
		if (j->maps.v[i].from == p->symbols)
			x = &j->maps.v[i];
	if (x && x->names == names)
		return x->map;
	if (x)
		forget_map(x);
	else
		x = vec_add(&j->maps);
	x->from = symbols_ref(p->symbols);
	x->names = names ? late_names_ref(names) : NULL;
	x->map = symbols_map_new(x->from, j->to);
	late_names_map(x->names, x->map);
	return x->map;
}

static void add(struct dict_unions *j, struct partition *p, struct late_names *names, const struct stackvec *v, struct stackacc *acc)
{
	rwlock_read(&p->dict_lock);
	struct symbols_map *map = map_of(j, p, names);
	for (size_t k = 0; k < v->n; k++) {
		uint32_t c = symbols_map_column(map, v->columns[k]);
		if (v->is_float)
			stackacc_add_scaled(acc, c, v->floats[k]);
		else
			stackacc_add(acc, c, v->ints[k]);
	}
	rwlock_unlock(&p->dict_lock);
}

struct stackvec *dict_unions_sum(struct dict_unions *j, const struct pstate *const *of, struct stackvec *const *v, size_t n, struct err *e)
{
	mutex_lock(&j->lock);
	if (!j->to)
		j->to = symbols_new();
	struct stackacc *acc = stackacc_new(j->to);
	for (size_t i = 0; i < n; i++)
		add(j, of[i]->p, of[i]->names, v[i], acc);
	struct stackvec *sum = stackacc_finish(acc, e);
	stackacc_free(acc);
	j->used_mono_ms = clock_mono_ms();
	if (symbols_bytes(j->to) > j->max_bytes)
		forget(j);
	mutex_unlock(&j->lock);
	return sum;
}

int dict_unions_add(struct dict_unions *j, struct partition *p, struct late_names *names, const struct stackvec *v, struct stackvec **sum,
		    struct err *e)
{
	mutex_lock(&j->lock);
	if (!j->to)
		j->to = symbols_new();
	struct stackacc *acc = stackacc_new(j->to);
	add(j, p, names, v, acc);
	int rc = *sum ? stackacc_add_vec(acc, *sum, 1, e) : 0;
	struct stackvec *all = rc ? NULL : stackacc_finish(acc, e);
	stackacc_free(acc);
	mutex_unlock(&j->lock);
	if (!all)
		return rc ? rc : -ERR_EXECUTION;
	stackvec_unref(*sum);
	*sum = all;
	return 0;
}

void dict_unions_tidy(struct dict_unions *j, bool all)
{
	mutex_lock(&j->lock);
	if (j->to && (all || clock_mono_ms() - j->used_mono_ms > KEEP_MS))
		forget(j);
	mutex_unlock(&j->lock);
}

void dict_unions_forget(struct dict_unions *j, const struct symbols *from)
{
	mutex_lock(&j->lock);
	for (size_t i = 0; i < j->maps.n; i++)
		if (j->maps.v[i].from == from) {
			forget_map(&j->maps.v[i]);
			j->maps.v[i] = j->maps.v[--j->maps.n];
			break;
		}
	mutex_unlock(&j->lock);
}

size_t dict_unions_bytes(struct dict_unions *j)
{
	mutex_lock(&j->lock);
	size_t n = j->to ? symbols_bytes(j->to) : 0;
	mutex_unlock(&j->lock);
	return n;
}
