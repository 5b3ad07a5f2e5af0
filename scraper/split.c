/* SPDX-License-Identifier: Apache-2.0 */
/* Groups the samples by the values of the job's series_labels, takes those labels off the samples, and adds a profile
 * per group to the batch. Delta and gauge types only: the increase of a cumulative type needs every stack's own
 * baseline, and nothing that splits has one. */
#include "scraper/split.h"

#include <math.h>
#include <stdlib.h>

#include "scraper/profile_work.h"
#include "scraper/piece.h"
#include "scraper/seen.h"
#include "scraper/state/table.h"

#define SPLIT_MORE_MAX 64
/* Number of groups that are compared; the rest of a larger profile is ignored. */
#define SPLIT_MAX_GROUPS (16 * SPLIT_MAX_SERIES)

struct group {
	struct labels labels;    /* in the worker's arena */
	VEC(uint32_t) samples;
};

struct splitting {
	struct scrape_job *j;
	struct map index;        /* hash of labels -> groups */
	VEC(struct group) groups;
	struct view more[SPLIT_MORE_MAX]; /* labels that the profile itself names, besides the job's */
	size_t n_more;
	struct ptype types[64];
	uint32_t columns[64];
	uint32_t n_columns;
};

static int by_name(const void *a, const void *b)
{
	return view_cmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

static bool is_series_label(const struct splitting *x, struct view key)
{
	const struct config_strings *own = &x->j->work->job->series_labels;
	for (size_t i = 0; i < own->n; i++)
		if (view_eqs(key, own->v[i]))
			return true;
	for (size_t i = 0; i < x->n_more; i++)
		if (view_eq(key, x->more[i]))
			return true;
	return false;
}

/* The comment "pyrrha: series app team": what a relabelled agent tells series apart by. */
static void take_named(struct splitting *x)
{
	const struct profile *p = x->j->p;
	for (uint32_t i = 0; i < p->n_comments; i++) {
		struct view v = profile_str(p, p->comments[i]);
		if (!view_starts(v, VIEW("pyrrha: series ")))
			continue;
		for (size_t at = 15, n; at < v.len && x->n_more < SPLIT_MORE_MAX; at += n + 1) {
			const char *space = memchr(v.ptr + at, ' ', v.len - at);
			n = space ? (size_t)(space - (v.ptr + at)) : v.len - at;
			struct view name = view_make(v.ptr + at, n);
			if (label_name_plain(name) && !view_starts(name, VIEW("__")))
				x->more[x->n_more++] = name;
		}
	}
}

/* Moves the labels that tell series apart into out (room for the job's), keeps the others on the sample. */
static size_t take_labels(struct splitting *x, struct profile_sample *s, struct label *out, size_t max)
{
	const struct profile *p = x->j->p;
	struct profile_label *l = p->labels + s->first_label;
	uint32_t kept = 0;
	size_t n = 0;
	for (uint32_t i = 0; i < s->n_labels; i++) {
		struct view key = profile_str(p, l[i].key_str);
		bool mine = !l[i].is_num && n < max && is_series_label(x, key);
		for (size_t k = 0; mine && k < n; k++)
			mine = !view_eq(out[k].name, key); /* of two values the first */
		if (mine)
			out[n++] = (struct label){ key, profile_str(p, l[i].str) };
		else
			l[kept++] = l[i];
	}
	s->n_labels = kept;
	qsort(out, n, sizeof *out, by_name);
	return n;
}

static uint32_t group_of(struct splitting *x, struct labels l)
{
	uint64_t h = labels_hash(l);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&x->index, h, id, x->groups.n, labels_eq(x->groups.v[id].labels, l)))
		vec_add(&x->groups)->labels = l;
	return id;
}

/* The groups beyond the limit. */
static const struct label other_label = { { "comm", 4 }, { "(other)", 7 } };
static const struct labels other_labels = { &other_label, 1 };

static int group_samples(struct splitting *x)
{
	struct profile *p = x->j->p;
	size_t max = x->j->work->job->series_labels.n + x->n_more;
	for (uint32_t i = 0; i < p->n_samples; i++) {
		struct label *l = arena_alloc(&x->j->worker->arena, max * sizeof *l);
		if (!l)
			return err_set(&x->j->err, ERR_LIMIT, "the labels of the samples take too much memory");
		struct labels labels = { l, take_labels(x, &p->samples[i], l, max) };
		/* Once the limit is reached only groups that are there already take more. */
		bool known = x->groups.n < SPLIT_MAX_GROUPS;
		uint64_t h = labels_hash(labels);
		uint32_t id;
		for (size_t at = map_start(&x->index, h); !known && map_probe(&x->index, h, &at, &id);)
			known = labels_eq(x->groups.v[id].labels, labels);
		id = group_of(x, known ? labels : other_labels);
		vec_push(&x->groups.v[id].samples, i);
	}
	return 0;
}

/* --- more groups than may be series --- */

struct rank {
	uint32_t id;
	bool live;       /* a series that is there already: else it would come and go with the order of the pull */
	double value;    /* of its samples' last column that is kept */
};

static int by_rank(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;
	if (x->live != y->live)
		return y->live - x->live;
	if (x->value < y->value || x->value > y->value)
		return x->value < y->value ? 1 : -1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static struct rank rank_of(const struct splitting *x, uint32_t id)
{
	const struct scrape_job *j = x->j;
	const struct group *g = &x->groups.v[id];
	struct rank r = { .id = id };
	for (uint32_t i = 0; i < x->n_columns && !r.live; i++) {
		struct scrape_series *s = series_find(&j->ep->series, &x->types[i], &g->labels, j->work->config->serial);
		r.live = s && s->live;
	}
	for (size_t i = 0; i < g->samples.n && x->n_columns; i++)
		r.value += (double)j->p->values[(size_t)g->samples.v[i] * j->p->n_sample_types + x->columns[x->n_columns - 1]];
	return r;
}

/* The largest stay, the others become one. */
static void fold_groups(struct splitting *x)
{
	size_t n = x->groups.n;
	if (n <= SPLIT_MAX_SERIES)
		return;
	struct group *kept = xcalloc(SPLIT_MAX_SERIES + 1, sizeof *kept), *other = &kept[SPLIT_MAX_SERIES];
	struct rank *ranks = xcalloc(n, sizeof *ranks);
	for (size_t i = 0; i < n; i++) {
		ranks[i] = rank_of(x, (uint32_t)i);
		if (labels_eq(x->groups.v[i].labels, other_labels)) { /* is not one of them */
			ranks[i].live = false;
			ranks[i].value = -HUGE_VAL;
		}
	}
	qsort(ranks, n, sizeof *ranks, by_rank);
	other->labels = other_labels;
	for (size_t i = 0; i < n; i++) {
		struct group *g = &x->groups.v[ranks[i].id];
		if (i < SPLIT_MAX_SERIES) {
			kept[i] = *g;
			continue;
		}
		for (size_t k = 0; k < g->samples.n; k++)
			vec_push(&other->samples, g->samples.v[k]);
		vec_free(&g->samples);
	}
	metric_add(&scraper_table[M_SPLIT_OTHER], (double)other->samples.n);
	free(ranks);
	memcpy(x->groups.v, kept, (SPLIT_MAX_SERIES + 1) * sizeof *kept);
	x->groups.n = SPLIT_MAX_SERIES + 1;
	free(kept);
}

static int find_types(struct splitting *x)
{
	struct scrape_job *j = x->j;
	for (uint32_t i = 0; i < j->p->n_sample_types && x->n_columns < ARRAY_LEN(x->columns); i++) {
		struct view name = profile_str(j->p, j->p->sample_types[i].type_str);
		if (!scrape_type_keeps(j->work->type, name, profile_str(j->p, j->p->sample_types[i].unit_str)))
			continue;
		struct ptype *t = &x->types[x->n_columns];
		if (job_type_of(j, i, t))
			return -(int)j->err.code;
		if (t->kind == PROFILE_CUMULATIVE)
			return err_set(&j->err, ERR_BAD_DATA, "series_labels cannot split %.*s, which is cumulative: say kind: delta or "
				       "kind: gauge for it, or leave it out with keep_sample_type", VIEW_ARG(name));
		x->columns[x->n_columns++] = i;
	}
	return 0;
}

/* Idleness in an agent's history depends on its own time, not on the time of the request: so every server has the same. */
static int64_t split_clock(const struct scrape_job *j)
{
	return j->ep->cursor ? j->t_ms : j->work->end_boot_ms;
}

/* Puts the columns of one kind of a group into the batch; samples NULL with n 0: observed, but empty. */
static int put_group(struct splitting *x, const struct labels *labels, enum profile_kind kind, const uint32_t *samples,
		     uint32_t n)
{
	struct scrape_job *j = x->j;
	struct sink_profile *sp = NULL;
	for (uint32_t i = 0; i < x->n_columns; i++) {
		if (x->types[i].kind != kind)
			continue;
		uint64_t serial = j->work->config->serial;
		struct scrape_series *s = series_find(&j->ep->series, &x->types[i], labels, serial);
		if (!s)
			s = series_add(&j->ep->series, &x->types[i], labels, j->ep->target, j->work->job, serial, &j->worker->arena,
				       &j->err);
		if (!s)
			return -(int)j->err.code;
		if (!s->labels)
			continue;
		if (!sp) {
			sp = batch_add_profile(j->batch);
			sp->profile = j->p;
			sp->samples = samples;
			sp->n_samples = n;
			job_times(j, kind == PROFILE_DELTA ? j->delta_duration_ns : 0, sp);
			sp->period = j->p->period;
		}
		s->seen = true;
		if (n)
			s->last_seen_ms = split_clock(j);
		batch_add_column(j->batch, *s->labels, &s->type, x->columns[i]);
	}
	return 0;
}

bool split_is_idle(const struct scrape_job *j, const struct scrape_series *s)
{
	return s->group && !j->err.code && j->work->kind == WORK_SCRAPE && s->last_seen_ms && split_clock(j) - s->last_seen_ms <= SPLIT_IDLE_MS;
}

/* Series that were there before the program started. */
static bool restore(void *arg, int64_t age_ms, struct labels l)
{
	struct splitting *x = arg;
	struct scrape_job *j = x->j;
	uint64_t serial = j->work->config->serial;
	for (uint32_t i = 0; i < x->n_columns; i++) {
		if (series_find(&j->ep->series, &x->types[i], &l, serial))
			continue;
		struct scrape_series *s = series_add(&j->ep->series, &x->types[i], &l, j->ep->target, j->work->job, serial, &j->worker->arena, &j->err);
		if (!s)
			return false;
		s->live = s->labels != NULL;
		s->last_seen_ms = j->work->piece->asked.before.end_ms - age_ms;
	}
	return true;
}

static int restore_seen(struct splitting *x)
{
	struct scrape_job *j = x->j;
	size_t n;
	char *seen = piece_taken(j->work) ? piece_take_seen(j->ep, &n) : NULL;
	if (seen)
		seen_decode(view_make(seen, n), &j->worker->arena, restore, x);
	free(seen);
	return -(int)j->err.code;
}

/* A container that used no CPU reads 0, not absent. */
static int put_idle(struct splitting *x)
{
	static const uint32_t none[1];
	struct series_set *set = &x->j->ep->series;
	size_t n = set->v.n; /* nothing is added below: these series exist */
	for (size_t i = 0; i < n; i++) {
		struct scrape_series *s = set->v.v[i];
		if (!s->live || s->seen || s->serial != x->j->work->config->serial || !split_is_idle(x->j, s))
			continue;
		int rc = put_group(x, s->group, s->type.kind, none, 0);
		if (rc)
			return rc;
	}
	return 0;
}

int split_profile(struct scrape_job *j)
{
	struct splitting x = { .j = j };
	if (j->work->job->series_from_profile)
		take_named(&x);
	int rc = find_types(&x);
	rc = rc ? rc : restore_seen(&x);
	rc = rc ? rc : group_samples(&x);
	if (!rc)
		fold_groups(&x);
	for (size_t i = 0; i < x.groups.n && !rc; i++) {
		const struct group *g = &x.groups.v[i];
		/* The batch outlives the groups: its indices are in the worker's arena. */
		uint32_t *samples = arena_alloc(&j->worker->arena, g->samples.n * sizeof *samples);
		if (!samples) {
			rc = err_set(&j->err, ERR_LIMIT, "the profile has too many samples");
			break;
		}
		memcpy(samples, g->samples.v, g->samples.n * sizeof *samples);
		rc = put_group(&x, &g->labels, PROFILE_DELTA, samples, (uint32_t)g->samples.n);
		rc = rc ? rc : put_group(&x, &g->labels, PROFILE_GAUGE, samples, (uint32_t)g->samples.n);
	}
	rc = rc ? rc : put_idle(&x);
	for (size_t i = 0; i < x.groups.n; i++)
		vec_free(&x.groups.v[i].samples);
	vec_free(&x.groups);
	map_free(&x.index);
	return rc;
}
