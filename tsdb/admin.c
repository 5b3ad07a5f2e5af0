/* SPDX-License-Identifier: Apache-2.0 */
/* Implements model/admin.h: the calls behind the admin API, and the status of the storage. */
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"
#include "base/files.h"
#include "tsdb/admin.h"
#include "tsdb/part/part.h"
#include "tsdb/transfer/transfer.h"
#include "tsdb/version/db.h"
#include "tsdb/write/delete.h"

static struct tsdb *db_of(struct storage_admin *a)
{
	return (struct tsdb *)((char *)a - offsetof(struct tsdb, admin));
}

int tsdb_delete(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series, struct err *e)
{
	return db->transfer ? transfer_delete(db, m, n, after_ms, until_ms, ret_series, e)
			    : tsdb_delete_here(db, m, n, after_ms, until_ms, ret_series, e);
}

static int delete_series(struct storage_admin *a, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
			 uint64_t *ret_series, struct err *e)
{
	return tsdb_delete(db_of(a), m, n, after_ms, until_ms, ret_series, e);
}

static int clean(struct storage_admin *a, struct err *e)
{
	return tsdb_clean(db_of(a), e);
}

/* As Prometheus names them: when, and something that no other has. */
static int snapshot(struct storage_admin *a, char ret_name[ADMIN_NAME_LEN], struct err *e)
{
	struct tsdb *db = db_of(a);
	uint64_t random = 0;
	time_t now = (time_t)(tsdb_now_ms(db) / 1000);
	struct tm tm;
	char when[24];
	if (getrandom(&random, sizeof random, 0) != sizeof random || !gmtime_r(&now, &tm))
		return err_set(e, ERR_INTERNAL, "cannot name a snapshot");
	strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &tm);
	snprintf(ret_name, ADMIN_NAME_LEN, "%s-%016llx", when, (unsigned long long)random);
	AUTOFREE char *all = xasprintf("%s/snapshots", db->path), *dir = xasprintf("%s/%s", all, ret_name);
	int rc = files_make_dirs(all, e);
	return rc ? rc : tsdb_snapshot(db, dir, e);
}

/* ---- status ---- */

struct counts {
	VEC(struct admin_count) v;
	uint64_t least; /* of the largest, once there are enough of them: the last one's value (add_pair) */
};

static int by_value(const void *a, const void *b)
{
	const struct admin_count *x = a, *y = b;
	return x->value != y->value ? (x->value < y->value ? 1 : -1) : view_cmp(x->name, y->name);
}

static void keep_largest(struct counts *c, size_t limit)
{
	if (c->v.n)
		qsort(c->v.v, c->v.n, sizeof *c->v.v, by_value);
	c->v.n = MIN(c->v.n, limit);
}

/* While pairs are counted, the `name` of each points to a posting instead of a text. */
static const struct posting *pair_posting(const struct admin_count *x)
{
	return (const struct posting *)(uintptr_t)x->name.ptr;
}

static int pair_order(const void *a, const void *b, void *symbols)
{
	const struct admin_count *x = a, *y = b;
	const struct posting *p = pair_posting(x), *q = pair_posting(y);
	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	int c = p->name == q->name ? 0 : view_cmp(symbols_get_string(symbols, p->name), symbols_get_string(symbols, q->name));
	return c ? c : view_cmp(symbols_get_string(symbols, p->value), symbols_get_string(symbols, q->value));
}

static void pair_keep_largest(struct counts *c, struct symbols *s, size_t limit)
{
	if (c->v.n)
		qsort_r(c->v.v, c->v.n, sizeof *c->v.v, pair_order, s);
	c->v.n = MIN(c->v.n, limit);
}

/* There may be as many pairs as series: no more than twice the displayed number are kept meanwhile. */
static void add_pair(struct counts *c, struct symbols *s, size_t limit, struct admin_count x)
{
	if (!x.value || !limit || x.value < c->least || (x.value == c->least && pair_order(&x, &c->v.v[limit - 1], s) > 0))
		return;
	vec_push(&c->v, x);
	if (c->v.n < 2 * limit)
		return;
	pair_keep_largest(c, s, limit);
	c->least = c->v.v[limit - 1].value;
}

struct census {
	struct counts series_by_name, values_by_label, bytes_by_label, series_by_pair;
	VEC(char *) pairs;
	uint64_t series, label_pairs;
};

static void count_label(struct census *c, const struct index *x, const struct index_name *name, size_t limit)
{
	struct view text = symbols_get_string(x->symbols, name->name);
	uint64_t bytes = 0;
	for (size_t i = 0; i < name->postings.n; i++) {
		const struct posting *p = &x->postings.v[name->postings.v[i]];
		struct view value = symbols_get_string(x->symbols, p->value);
		bytes += value.len * p->ids.n;
		if (view_eqs(text, LABEL_NAME))
			vec_push(&c->series_by_name.v, (struct admin_count){ value, p->ids.n });
		add_pair(&c->series_by_pair, x->symbols, limit, (struct admin_count){ { (const char *)(uintptr_t)p, 0 }, p->ids.n });
	}
	vec_push(&c->values_by_label.v, (struct admin_count){ text, name->postings.n });
	vec_push(&c->bytes_by_label.v, (struct admin_count){ text, bytes });
}

/* Only displayed ones get a text. */
static void name_pairs(struct census *c, const struct index *x, size_t limit)
{
	struct counts *p = &c->series_by_pair;
	pair_keep_largest(p, x->symbols, limit);
	for (size_t i = 0; i < p->v.n; i++) {
		const struct posting *q = pair_posting(&p->v.v[i]);
		struct view name = symbols_get_string(x->symbols, q->name), value = symbols_get_string(x->symbols, q->value);
		char *text = xasprintf("%.*s=%.*s", VIEW_ARG(name), VIEW_ARG(value));
		vec_push(&c->pairs, text);
		p->v.v[i].name = view_of(text);
	}
	keep_largest(p, limit);
}

static void count_partition(struct census *c, struct partition *p, size_t limit)
{
	partition_load(p);
	rwlock_read(&p->dict_lock);
	c->series = p->index.series.n;
	c->label_pairs = p->index.postings.n;
	for (size_t i = 0; i < p->index.names.n; i++)
		count_label(c, &p->index, &p->index.names.v[i], limit);
	name_pairs(c, &p->index, limit);
	rwlock_unlock(&p->dict_lock);
	keep_largest(&c->series_by_name, limit);
	keep_largest(&c->values_by_label, limit);
	keep_largest(&c->bytes_by_label, limit);
}

static size_t text_of(const struct counts *c)
{
	size_t n = 0;
	for (size_t i = 0; i < c->v.n; i++)
		n += c->v.v[i].name.len;
	return n;
}

static void take_list(struct admin_list *to, const struct counts *c, struct admin_count **at, char **text)
{
	*to = (struct admin_list){ *at, c->v.n };
	for (size_t i = 0; i < c->v.n; i++) {
		struct view v = c->v.v[i].name;
		if (v.len)
			memcpy(*text, v.ptr, v.len);
		(*at)[i] = (struct admin_count){ view_make(*text, v.len), c->v.v[i].value };
		*text += v.len;
	}
	*at += c->v.n;
}

static struct admin_status *status_of(const struct census *c)
{
	const struct counts *all[] = { &c->series_by_name, &c->values_by_label, &c->bytes_by_label, &c->series_by_pair };
	size_t n = 0, bytes = 0;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		n += all[i]->v.n;
		bytes += text_of(all[i]);
	}
	struct admin_status *s = xcalloc(1, sizeof *s + n * sizeof *s->counts + bytes + 1);
	struct admin_list *lists[] = { &s->series_by_name, &s->values_by_label, &s->bytes_by_label, &s->series_by_pair };
	struct admin_count *at = s->counts;
	char *text = (char *)(s->counts + n);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		take_list(lists[i], all[i], &at, &text);
	s->num_series = c->series;
	s->num_label_pairs = c->label_pairs;
	return s;
}

static void census_release(struct census *c)
{
	for (size_t i = 0; i < c->pairs.n; i++)
		free(c->pairs.v[i]);
	vec_free(&c->pairs);
	vec_free(&c->series_by_name.v);
	vec_free(&c->values_by_label.v);
	vec_free(&c->bytes_by_label.v);
	vec_free(&c->series_by_pair.v);
}

static struct admin_status *status(struct storage_admin *a, size_t limit)
{
	struct tsdb *db = db_of(a);
	struct census c = { .series = 0 };
	struct tsdb_stats t;
	struct version *v = tsdb_version(db, NULL);
	if (v->n)
		count_partition(&c, v->p[v->n - 1]->p, limit);
	struct admin_status *s = status_of(&c);
	census_release(&c);
	version_unref(v);
	tsdb_stats(db, &t);
	s->chunks = t.head_series;
	s->min_t_ms = t.min_t_ms;
	s->max_t_ms = t.max_t_ms;
	s->partitions = t.partitions;
	s->parts = t.parts;
	s->head_windows = t.head_windows;
	s->masks = t.tombstones;
	s->disk_bytes = t.disk_bytes;
	s->head_log_bytes = t.head_log_bytes;
	s->head_bytes = t.head_bytes;
	s->dictionary_bytes = t.dictionary_bytes;
	s->cache_bytes = t.cache_bytes;
	s->queue_bytes = queue_bytes(db->queue);
	return s;
}

static struct admin_block *blocks(struct storage_admin *a, size_t *ret_n)
{
	struct version *v = tsdb_version(db_of(a), NULL);
	VEC(struct admin_block) out = { 0 };
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_parts; k++) {
			const struct part *p = v->p[i]->parts[k];
			vec_push(&out, (struct admin_block){ part_start_ms(p), part_end_ms(p), p->number, (unsigned)p->level + 1, p->samples,
							     p->series.n, p->bytes });
		}
	version_unref(v);
	*ret_n = out.n;
	return out.v;
}

static void clock_of(struct storage_admin *a, struct admin_clock *ret)
{
	tsdb_clock(db_of(a), ret);
}

static void bucket_of(struct storage_admin *a, struct admin_bucket *ret)
{
	transfer_status(db_of(a), ret);
}

void tsdb_admin_init(struct tsdb *db)
{
	db->admin = (struct storage_admin){ delete_series, clean, snapshot, status, blocks, clock_of, bucket_of };
}

struct storage_admin *tsdb_admin(struct tsdb *db)
{
	return &db->admin;
}
