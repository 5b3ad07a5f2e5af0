/* SPDX-License-Identifier: Apache-2.0 */
/* Processes the body of a profile. A decoder calls it (work.c), with the endpoint's memory (baseline of cumulative columns, series)
 * for its own.
 *
 *	body -> profile -> stamp -> columns (name, kind, labels) -> increases -> (names) -> batch
 */
#include "scraper/profile_work.h"

#include "base/alloc.h"
#include "pprof/pprof.h"
#include "scraper/names.h"
#include "scraper/piece.h"
#include "scraper/split.h"
#include "scraper/state/table.h"

#define WINDOW_MS 2000               /* how far a profile's own time may lie outside of its request */
#define NOTE_MAX 256                 /* bytes of what an agent says of its profile */

/* The agent also says there if it does less than it was asked for. */
char *profile_work_note(const struct profile *p)
{
	struct view mark = VIEW("pyrrha: note ");
	for (uint32_t i = 0; i < p->n_comments; i++) {
		struct view c = profile_str(p, p->comments[i]);
		if (view_starts(c, mark))
			return xstrndup(c.ptr + mark.len, MIN(c.len - mark.len, (size_t)NOTE_MAX));
	}
	return NULL;
}

/* docs/profql.md, "When a profile is". */
static void find_stamp(struct scrape_job *j)
{
	const struct work *w = j->work;
	struct profile *p = j->p;
	if (piece_taken(w)) {
		const struct cursor_answer *a = &w->piece->answer;
		j->t_ms = a->end_ms;
		j->cover_ms = a->end_ms - a->start_ms;
		j->delta_duration_ns = p->duration_ns = j->cover_ms * 1000000;
		return;
	}
	int64_t asked_ns = j->ep->asked_s * INT64_C(1000000000);
	if (!profile_duration_is_sane(p->duration_ns)) {
		p->duration_ns = asked_ns;
		metric_inc(&scraper_table[M_DURATIONS_REPLACED]);
	}
	int64_t duration = p->duration_ns;
	if (!duration && w->type->delta)
		duration = asked_ns; /* it does not say, but it was told */
	j->delta_duration_ns = duration;
	j->t_ms = w->end_ms;
	int64_t own_ns;
	bool inside = p->time_ns > 0 && !__builtin_add_overflow(p->time_ns, duration, &own_ns) &&
		      own_ns / 1000000 >= w->start_ms - WINDOW_MS && own_ns / 1000000 <= w->end_ms + WINDOW_MS;
	if (inside)
		j->t_ms = own_ns / 1000000;
	else
		metric_inc(&scraper_table[M_STAMPS_REPLACED]);
}

/* One sample type's series, made when it is first seen; NULL: dropped by relabelling, or an error (j->err). */
static struct scrape_series *column_series(struct scrape_job *j, const struct ptype *type)
{
	struct scrape_series *s = series_find(&j->ep->series, type, NULL, j->work->config->serial);
	if (!s)
		s = series_add(&j->ep->series, type, NULL, j->ep->target, j->work->job, j->work->config->serial,
			       &j->worker->arena, &j->err);
	if (!s || !s->labels)
		return NULL;
	s->seen = true;
	return s;
}

/* Which of the profile's sample types have a kind, and the series of each. */
struct columns {
	uint32_t index[64];
	struct scrape_series *series[64];
	uint32_t n;
};

static int sort_columns(struct scrape_job *j, struct columns kinds[4])
{
	for (uint32_t i = 0; i < j->p->n_sample_types; i++) {
		struct ptype type;
		struct view name = profile_str(j->p, j->p->sample_types[i].type_str);
		struct view unit = profile_str(j->p, j->p->sample_types[i].unit_str);
		if (!scrape_type_keeps(j->work->type, name, unit))
			continue;
		if (job_type_of(j, i, &type))
			return -(int)j->err.code;
		struct scrape_series *s = column_series(j, &type);
		struct columns *c = &kinds[type.kind];
		if (j->err.code)
			return -(int)j->err.code;
		if (!s)
			continue;
		if (c->n == ARRAY_LEN(c->index))
			return err_set(&j->err, ERR_LIMIT, "more than %zu sample types", ARRAY_LEN(c->index));
		for (uint32_t k = 0; k < c->n; k++)
			if (c->series[k] == s)
				return err_set(&j->err, ERR_BAD_DATA, "two sample types are both called %.*s/%.*s",
					       VIEW_ARG(type.sample_type), VIEW_ARG(type.sample_unit));
		c->index[c->n] = i;
		c->series[c->n++] = s;
	}
	return 0;
}

static struct sink_profile *put_columns(struct scrape_job *j, const struct columns *c, int64_t duration_ns)
{
	struct sink_profile *sp = batch_add_profile(j->batch);
	sp->profile = j->p;
	job_times(j, duration_ns, sp);
	sp->period = j->p->period;
	for (uint32_t i = 0; i < c->n; i++)
		batch_add_column(j->batch, *c->series[i]->labels, &c->series[i]->type, c->index[i]);
	return sp;
}

static void put_plain(struct scrape_job *j, const struct columns *c, int64_t duration_ns)
{
	if (c->n)
		put_columns(j, c, duration_ns);
}

/* An answer that holds what happened since the request before, if that was ours. The start of the first one's period is unknown. */
static void put_since_last(struct scrape_job *j, const struct columns *c)
{
	int64_t since_ms = stamp_since(j->ep, j->work, j->t_ms);
	if (!c->n || !since_ms)
		return;
	struct sink_profile *sp = put_columns(j, c, since_ms * 1000000);
	sp->asked_ms = 0; /* it observes all of the time */
	sp->cover_ms = since_ms;
}

static uint64_t columns_id(const struct scrape_job *j, const struct columns *c)
{
	uint64_t h = c->n;
	for (uint32_t i = 0; i < c->n; i++) {
		h = hash_u64(h ^ hash_view(c->series[i]->type.sample_type));
		h = hash_u64(h ^ hash_view(c->series[i]->type.sample_unit));
	}
	return h;
}

/* The first scrape is the baseline: its series begin with the second. */
static int put_increase(struct scrape_job *j, const struct columns *c)
{
	struct endpoint *ep = j->ep;
	if (!c->n)
		return 0;
	baseline_begin(ep, columns_id(j, c));
	size_t n = (size_t)j->p->n_samples * j->p->n_sample_types;
	int64_t *values = arena_calloc(&j->p->arena, n + 1, sizeof *values);
	if (!values)
		return err_set(&j->err, ERR_LIMIT, "the profile is over the limit of %zu bytes of memory", j->p->arena.max);
	int r = job_go_on(j, &j->err);
	if (!r)
		r = delta_apply(&ep->base->delta, j->p, c->index, c->n, values, &j->err);
	if (r == -ERR_UNAVAILABLE)
		err_wrap(&j->err, "--scrape.memory is used up");
	if (r < 0)
		return r;
	if (r == DELTA_RESET)
		metric_inc(&scraper_table[M_RESETS]);
	int64_t since_ms = baseline_moved(ep, j->work, j->t_ms);
	if (r == DELTA_BASELINE || !since_ms)
		return 0;
	struct sink_profile *sp = put_columns(j, c, since_ms * 1000000);
	sp->values = values;
	sp->asked_ms = 0; /* an increase observes all of the time */
	sp->cover_ms = since_ms;
	return 0;
}

/* A decoding error, worded for the person who configures the job. */
static int say_undecodable(struct scrape_job *j, int rc)
{
	if (rc == -ERR_TIMEOUT || rc == -ERR_CANCELED)
		return rc;
	if (rc == -ERR_LIMIT && !j->p->arena.refused)
		metric_inc(&scraper_table[M_BODY_LIMIT]);
	return err_wrap(&j->err, rc == -ERR_LIMIT ? "over a limit (body_size_limit)" : "not a profile that is read here");
}

static int decode(struct scrape_job *j)
{
	struct work *w = j->work;
	struct pprof_limits lim = { .max_bytes = w->job->body_size_limit, .go_on = job_go_on, .go_on_arg = j,
				    .asked_ns = w->type->delta ? j->ep->asked_s * INT64_C(1000000000) : 0,
				    .folded = w->type->folded_said ? &w->type->folded : NULL };
	int rc = job_go_on(j, &j->err);
	if (!rc)
		rc = pprof_decode(buf_view(&w->body).ptr, w->body.len, &lim, j->p, &j->err);
	if (rc)
		return say_undecodable(j, rc);
	if ((j->asks = names_wanted(j)))
		return err_set(&j->err, ERR_UNAVAILABLE, "names are asked for");
	if ((!names_apply_to(j) && pprof_drop_frames(j->p, &j->err)) || job_go_on(j, &j->err))
		return -(int)j->err.code;
	j->limit_ns = CPU_LIMIT_NS; /* what was believed light is through the worst */
	if (w->job->sample_limit && j->p->n_samples > w->job->sample_limit) {
		metric_inc(&scraper_table[M_SAMPLE_LIMIT]);
		return err_set(&j->err, ERR_LIMIT, "%u stacks, sample_limit is %lld", j->p->n_samples,
			       (long long)w->job->sample_limit);
	}
	return 0;
}

int profile_work_put(struct scrape_job *j)
{
	struct columns kinds[4] = { 0 };
	int rc = decode(j);
	if (!rc)
		find_stamp(j);
	if (!rc && j->work->job->series_labels.n)
		return split_profile(j);
	if (!rc)
		rc = sort_columns(j, kinds);
	if (rc)
		return rc;
	if (j->work->type->since_last)
		put_since_last(j, &kinds[PROFILE_DELTA]);
	else
		put_plain(j, &kinds[PROFILE_DELTA], j->delta_duration_ns);
	put_plain(j, &kinds[PROFILE_GAUGE], 0);
	if ((rc = put_increase(j, &kinds[PROFILE_CUMULATIVE])) || !names_apply_to(j))
		return rc;
	rc = names_put(j);
	return rc ? rc : pprof_drop_frames(j->p, &j->err);
}
