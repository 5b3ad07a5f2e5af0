/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/eval/fetch.h"

#include "model/replicas.h"
#include "promql-like/eval/pwindow.h"

/* ---- which series ---- */

void choice_free(struct fetch_choice *c)
{
	free(c->all);
	free(c->parts);
	free(c->c);
}

static bool choice_names_replica(const struct eval *q, const struct node_selector *s)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < q->names->n_replica_labels; k++)
			if (view_eq(s->m[i].name, q->names->replica_labels[k]))
				return true;
	return q->names->n_replica_labels == 0;
}

static struct labels choice_without_replica(struct eval *q, struct labels l)
{
	struct node_labels names = { q->names->replica_labels, q->names->n_replica_labels };
	return eval_project(q, l, &names, false);
}

struct choice_keyed {
	struct labels key;
	struct source_series *s;
};

static int choice_by_key(const void *a, const void *b)
{
	const struct choice_keyed *x = a, *y = b;
	int c = labels_cmp(x->key, y->key);
	if (!c)
		c = (x->s->type == NULL) - (y->s->type == NULL);
	return c ? c : labels_cmp(x->s->labels, y->s->labels);
}

/* Replicas side by side; the others alone. */
static void choice_group(struct eval *q, const struct node_selector *sel, struct fetch_choice *c)
{
	bool off = choice_names_replica(q, sel);
	struct choice_keyed *k = xcalloc(c->n_all + 1, sizeof *k);
	for (size_t i = 0; i < c->n_all; i++)
		k[i] = (struct choice_keyed){ off || !c->all[i].type ? c->all[i].labels : choice_without_replica(q, c->all[i].labels), &c->all[i] };
	if (!off)
		qsort(k, c->n_all, sizeof *k, choice_by_key);
	c->parts = xcalloc(c->n_all + 1, sizeof *c->parts);
	c->c = xcalloc(c->n_all + 1, sizeof *c->c);
	for (size_t i = 0; i < c->n_all; i++) {
		c->parts[i] = k[i].s;
		bool joins = !off && i && k[i].s->type && k[i - 1].s->type && labels_eq(k[i].key, k[i - 1].key);
		if (joins)
			c->c[c->n - 1].n++;
		else
			c->c[c->n++] = (struct chosen){ k[i].key, k[i].s->type, &c->parts[i], 1 };
	}
	free(k);
}

int choice_select(struct eval *q, const struct node_selector *sel, int64_t after, int64_t until, struct fetch_choice *ret, struct err *e)
{
	*ret = (struct fetch_choice){ 0 };
	eval_read_begin(q);
	int rc = q->view->ops->select(q->view, sel->m, sel->n, after, until, eval_limits(q), &ret->all, &ret->n_all, e);
	eval_read_end(q);
	if (rc)
		return rc;
	choice_group(q, sel, ret);
	return 0;
}

/* ---- what is read of them ---- */

/* The lists are counted as long as they are held. */
static int fetched_hold(struct eval *q, struct fetched *f, struct err *e)
{
	uint64_t point = sizeof *f->points.v + (f->points.before ? sizeof *f->points.before : 0);
	uint64_t n = f->n_pts * sizeof *f->pts + f->points.n * point + f->n_vp * (sizeof *f->vp + (f->refs ? sizeof *f->refs : 0)) +
		     f->n_cover * sizeof *f->cover;
	f->held = (struct held_lists){ q, n };
	return n ? eval_hold_bytes(q, n, e) : 0;
}

void held_lists_give(struct held_lists *h)
{
	if (h->bytes)
		eval_give_bytes(h->q, h->bytes);
	h->bytes = 0;
}

static void fetched_release(struct fetched *f)
{
	held_lists_give(&f->held);
	source_covers_free(f->cover, f->n_cover);
	free(f->pts);
	source_points_release(&f->points);
	free(f->vp);
	free(f->refs);
}

void fetched_free(struct fetched *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fetched_release(&f[i]);
	free(f);
}

/* The profiles of the replicas of one series, until all of them have been read. */
struct fetch_replicas {
	struct replica_profiles *v;  /* owned, as are their lists */
	atomic_size_t left;          /* not read yet */
	atomic_uint_fast64_t bytes;  /* held */
};

/* A series that is being read: each call of the source takes those that the calls before it have not finished. */
struct fetch_series {
	struct fetched f;
	struct fetch_replicas replicas;
	bool looks_before;           /* its first window has no profile: whether there is one shortly before is read, too */
	bool taken;
};

/* One call of the source: its refs, and what they are of. */
struct fetch_call {
	VEC(uint64_t) refs;
	VEC(uint32_t) series;        /* by ref: of the choice */
	VEC(uint32_t) part;          /* by ref: of that series */
};

struct fetch_job {
	struct eval *q;
	const struct fetch_choice *c;
	const struct fetch_wanted *w;
	int (*take)(void *arg, size_t i, struct fetched *f, struct err *e);
	void *arg;
	pthread_t caller;
	struct fetch_series *s;      /* by series of the choice; each by the thread that reads it */
	struct fetch_call call;      /* the one at work */
};

/* A series is complete. The time of those who take it is no time in the source: the thread that called stands for all threads there. */
static int fetch_finish(struct fetch_job *j, size_t i, struct err *e)
{
	struct fetched f = j->s[i].f;
	bool waits = pthread_equal(pthread_self(), j->caller);
	j->s[i].f = (struct fetched){ 0 };
	j->s[i].taken = true;
	int rc = f.held.bytes ? 0 : fetched_hold(j->q, &f, e);
	if (rc) {
		fetched_release(&f);
		return rc;
	}
	if (waits)
		eval_read_end(j->q);
	rc = j->take(j->arg, i, &f, e);
	if (waits)
		eval_read_begin(j->q);
	return rc;
}

static void fetch_call_clear(struct fetch_job *j)
{
	j->call.refs.n = j->call.series.n = j->call.part.n = 0;
}

static void fetch_call_add(struct fetch_job *j, size_t i, size_t part)
{
	vec_push(&j->call.refs, j->c->c[i].parts[part]->ref);
	vec_push(&j->call.series, (uint32_t)i);
	vec_push(&j->call.part, (uint32_t)part);
}

static struct fetch_series *fetch_at(struct fetch_job *j, size_t k)
{
	struct fetch_series *s = &j->s[j->call.series.v[k]];
	s->f.ref = j->call.refs.v[k];
	return s;
}

/* ---- the sums in each window ---- */

/* The lists are read later where sums lose precision. */
static int fetch_take_covers(void *arg, size_t k, struct source_cover *v, struct err *e)
{
	struct fetch_job *j = arg;
	struct fetch_series *s = fetch_at(j, k);
	size_t n = j->w->tiles.n;
	bool exact = true;
	for (size_t i = 0; i < n; i++)
		exact &= v[i].magnitude < SOURCE_EXACT;
	s->looks_before = v->n == v->n_stale;
	if (!exact) {
		source_covers_free(v, n);
		return 0;
	}
	s->f.cover = v;
	s->f.n_cover = n;
	return s->looks_before ? fetched_hold(j->q, &s->f, e) : fetch_finish(j, j->call.series.v[k], e);
}

static int fetch_take_before(void *arg, size_t k, struct source_cover *v, struct err *e)
{
	struct fetch_job *j = arg;
	struct fetch_series *s = fetch_at(j, k);
	s->f.near = v->n > 0;
	source_covers_free(v, 1);
	return s->f.cover ? fetch_finish(j, j->call.series.v[k], e) : 0;
}

static int64_t fetch_hour_before(int64_t t)
{
	return (t - 1) / PWINDOW_NEAR_MS - ((t - 1) % PWINDOW_NEAR_MS < 0);
}

static int fetch_covers(struct fetch_job *j, struct err *e)
{
	const struct source_ops *ops = j->q->view->ops;
	const struct source_tiles *t = &j->w->tiles;
	int64_t hour = fetch_hour_before(t->after_ms) * PWINDOW_NEAR_MS; /* storage knows best of whole hours */
	const struct source_tiles before = { hour, t->after_ms - hour, 1 };
	fetch_call_clear(j);
	for (size_t i = 0; i < j->c->n; i++)
		fetch_call_add(j, i, 0);
	int rc = ops->covers(j->q->view, j->call.refs.v, j->call.refs.n, t, eval_limits(j->q), fetch_take_covers, j, e);
	fetch_call_clear(j);
	for (size_t i = 0; i < j->c->n; i++)
		if (j->s[i].looks_before)
			fetch_call_add(j, i, 0);
	if (!rc && j->call.refs.n)
		rc = ops->covers(j->q->view, j->call.refs.v, j->call.refs.n, &before, eval_limits(j->q), fetch_take_before, j, e);
	return rc;
}

/* ---- points ---- */

/* The profiles are read later where points are not enough. */
static int fetch_take_points(void *arg, size_t k, struct source_points *p, struct err *e)
{
	struct fetch_job *j = arg;
	if (!p->plain)
		return 0;
	fetch_at(j, k)->f.points = *p;
	return fetch_finish(j, j->call.series.v[k], e);
}

static int fetch_points(struct fetch_job *j, struct err *e)
{
	const struct source_windows *w = j->w->windows;
	int64_t after = j->w->within ? w->until_ms - w->range_ms : j->w->after;
	fetch_call_clear(j);
	for (size_t i = 0; i < j->c->n; i++) {
		const struct chosen *c = &j->c->c[i];
		if (c->type && c->type->kind != PROFILE_GAUGE && c->n == 1)
			fetch_call_add(j, i, 0);
	}
	if (!j->call.refs.n)
		return 0;
	return j->q->view->ops->points(j->q->view, j->call.refs.v, j->call.refs.n, after, j->w->until, w, eval_limits(j->q), fetch_take_points, j, e);
}

/* ---- lists ---- */

static void fetch_replicas_release(struct eval *q, struct fetch_replicas *r, size_t n)
{
	for (size_t i = 0; r->v && i < n; i++)
		free((struct source_profile *)r->v[i].v);
	free(TAKE_PTR(r->v));
	uint64_t bytes = atomic_exchange(&r->bytes, 0);
	if (bytes)
		eval_give_bytes(q, bytes);
}

/* The lists of the replicas wait for the last of them. */
static int fetch_take_replica(struct fetch_job *j, size_t k, struct source_profile *v, size_t n, struct err *e)
{
	size_t i = j->call.series.v[k];
	const struct chosen *c = &j->c->c[i];
	struct fetch_replicas *r = &j->s[i].replicas;
	struct fetched *f = &j->s[i].f;
	uint32_t *replica;
	r->v[j->call.part.v[k]] = (struct replica_profiles){ v, n };
	atomic_fetch_add(&r->bytes, n * sizeof *v);
	int rc = n ? eval_hold_bytes(j->q, n * sizeof *v, e) : 0;
	if (rc || atomic_fetch_sub(&r->left, 1) > 1)
		return rc;
	replicas_join_profiles(r->v, c->n, &f->vp, &replica, &f->n_vp);
	f->refs = xcalloc(f->n_vp + 1, sizeof *f->refs);
	for (size_t p = 0; p < f->n_vp; p++)
		f->refs[p] = c->parts[replica[p]]->ref;
	free(replica);
	fetch_replicas_release(j->q, r, c->n);
	return fetch_finish(j, i, e);
}

static int fetch_take_profiles(void *arg, size_t k, struct source_profile *v, size_t n, struct err *e)
{
	struct fetch_job *j = arg;
	if (j->s[j->call.series.v[k]].replicas.v)
		return fetch_take_replica(j, k, v, n, e);
	struct fetched *f = &fetch_at(j, k)->f;
	f->vp = v;
	f->n_vp = n;
	return fetch_finish(j, j->call.series.v[k], e);
}

static int fetch_call_profiles(struct fetch_job *j, struct err *e)
{
	int rc = 0;
	if (j->call.refs.n)
		rc = j->q->view->ops->profiles(j->q->view, j->call.refs.v, j->call.refs.n, j->w->after, j->w->until, eval_limits(j->q), fetch_take_profiles, j, e);
	fetch_call_clear(j);
	return rc;
}

/* Series with replicas, some at a time: the source reads series in an order of its own, so the lists of one replica of all of them may come before those of
 * the next. */
#define FETCH_REPLICAS_AT_ONCE 256

static int fetch_profiles(struct fetch_job *j, struct err *e)
{
	size_t waiting = 0;
	int rc = 0;
	fetch_call_clear(j);
	for (size_t i = 0; i < j->c->n; i++)
		if (j->c->c[i].type && !j->s[i].taken && j->c->c[i].n == 1)
			fetch_call_add(j, i, 0);
	rc = fetch_call_profiles(j, e);
	for (size_t i = 0; i < j->c->n && !rc; i++) {
		const struct chosen *c = &j->c->c[i];
		if (!c->type || j->s[i].taken || c->n == 1)
			continue;
		j->s[i].replicas.v = xcalloc(c->n, sizeof *j->s[i].replicas.v);
		atomic_store(&j->s[i].replicas.left, c->n);
		for (size_t p = 0; p < c->n; p++)
			fetch_call_add(j, i, p);
		if (++waiting % FETCH_REPLICAS_AT_ONCE == 0)
			rc = fetch_call_profiles(j, e);
	}
	return rc ? rc : fetch_call_profiles(j, e);
}

static int fetch_take_floats(void *arg, size_t k, struct point *v, size_t n, struct err *e)
{
	struct fetch_job *j = arg;
	struct fetched *f = &j->s[j->call.series.v[k]].f;
	f->pts = v;
	f->n_pts = n;
	return fetch_finish(j, j->call.series.v[k], e);
}

static int fetch_floats(struct fetch_job *j, struct err *e)
{
	fetch_call_clear(j);
	for (size_t i = 0; i < j->c->n; i++)
		if (!j->c->c[i].type)
			fetch_call_add(j, i, 0);
	if (!j->call.refs.n)
		return 0;
	return j->q->view->ops->floats(j->q->view, j->call.refs.v, j->call.refs.n, j->w->after, j->w->until, eval_limits(j->q), fetch_take_floats, j, e);
}

/* ---- the call ---- */

int fetch_each(struct eval *q, const struct fetch_choice *c, const struct fetch_wanted *w, int (*take)(void *arg, size_t i, struct fetched *f, struct err *e),
	       void *arg, struct err *e)
{
	struct fetch_job j = { .q = q, .c = c, .w = w, .take = take, .arg = arg, .caller = pthread_self(), .s = xcalloc(c->n + 1, sizeof *j.s) };
	int rc = 0;
	eval_read_begin(q);
	if (w->tiles.n && c->n)
		rc = fetch_covers(&j, e);
	else if (w->windows && q->view->ops->points)
		rc = fetch_points(&j, e);
	if (!rc)
		rc = fetch_profiles(&j, e);
	if (!rc)
		rc = fetch_floats(&j, e);
	eval_read_end(q);
	for (size_t i = 0; i < c->n; i++) {
		fetched_release(&j.s[i].f);
		fetch_replicas_release(q, &j.s[i].replicas, c->c[i].n);
	}
	vec_free(&j.call.refs);
	vec_free(&j.call.series);
	vec_free(&j.call.part);
	free(j.s);
	return rc;
}

static int fetch_keep(void *arg, size_t i, struct fetched *f, struct err *e)
{
	(void)e;
	((struct fetched *)arg)[i] = *f;
	return 0;
}

int fetch_all(struct eval *q, const struct fetch_choice *c, const struct fetch_wanted *w, struct fetched **ret, struct err *e)
{
	struct fetched *out = xcalloc(c->n + 1, sizeof *out);
	int rc = fetch_each(q, c, w, fetch_keep, out, e);
	if (rc)
		fetched_free(out, c->n);
	else
		*ret = out;
	return rc;
}
