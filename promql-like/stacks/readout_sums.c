/* SPDX-License-Identifier: Apache-2.0 */
/* One number per profile: the part that matches a frame matcher, which storage sums without returning a stack; and the number of
 * observations of a value. */
#include <math.h>
#include <stdlib.h>

#include "promql-like/stacks/readout.h"

/* ---- with a frame matcher: sums ---- */

struct pending {
	size_t in;
	struct value_sample *s;
	struct exact x;
	uint32_t group_a, group_b; /* of the source's sums; UINT32_MAX: none */
};

/* Groups that follow each other, of sides with the same terms, each a step after the one before: their parts are asked for all steps
 * at once. Results are joined with the same data in each case, so numbers are added up as if each were requested separately. */
struct run {
	const struct lazy_side *last; /* NULL: none goes on */
	size_t first;            /* of its parts; they are the last ones */
	uint32_t n_steps;
};

struct sums {
	VEC(struct source_part) parts;
	VEC(struct pending) list;
	uint32_t n_groups;
	struct run run;
};

struct source_frame_filter readout_filter(const struct readout *r)
{
	struct source_frame_filter f = r->frames.filter;
	f.leaf_only = graph_of_self(r);
	return f;
}

static void sum_vec(const struct frames *f, const struct stackvec *v, double scale, bool leaf_only, bool minus, struct exact *x)
{
	struct frames_memo fm;
	struct exact part = { 0 };
	frames_memo_init(&fm, f, v->symbols);
	for (size_t i = 0; i < v->n; i++)
		if (frames_memo_stack(&fm, v->columns[i], leaf_only))
			add_exact(&part, v, i, minus);
	frames_memo_free(&fm);
	if (scale == 1 && !__builtin_add_overflow(x->i, part.i, &x->i))
		num_sum_add(&x->f, num_sum_value(part.f));
	else
		num_sum_add(&x->f, native_of(&part) * scale);
	x->overflow |= part.overflow;
}

static bool run_goes_on(const struct run *run, const struct lazy_side *side, int64_t step_ms)
{
	const struct lazy_side *last = run->last;
	if (!last || last->n != side->n)
		return false;
	for (size_t i = 0; i < side->n; i++) {
		const struct lazy_term *x = &last->t[i], *y = &side->t[i];
		if (y->vec || x->ref != y->ref || x->scale != y->scale || y->after_ms - x->after_ms != step_ms ||
		    y->until_ms - x->until_ms != step_ms || !source_weigh_eq(&x->weigh, &y->weigh))
			return false;
	}
	return true;
}

static void end_run(struct sums *s, int64_t step_ms)
{
	for (size_t i = s->run.first; s->run.n_steps > 1 && i < s->parts.n; i++) {
		s->parts.v[i].n_steps = s->run.n_steps;
		s->parts.v[i].step_ms = step_ms;
	}
	s->run = (struct run){ NULL, s->parts.n, 1 };
}

/* Stored profiles go to the source; vectors are summed here. */
static uint32_t want_side(struct readout *r, struct sums *s, const struct lazy_side *side, bool leaf_only, bool minus, struct exact *x)
{
	struct stackvec *whole = lazy_side_whole(side);
	if (!whole && run_goes_on(&s->run, side, r->sp->step)) {
		s->run.last = side;
		s->run.n_steps++;
		return s->n_groups++;
	}
	end_run(s, r->sp->step);
	if (whole) {
		sum_vec(&r->frames, whole, 1, leaf_only, minus, x);
		return UINT32_MAX;
	}
	for (size_t i = 0; i < side->n; i++) {
		const struct lazy_term *t = &side->t[i];
		if (t->vec)
			sum_vec(&r->frames, t->vec, t->scale, leaf_only, minus, x);
		else
			vec_push(&s->parts, (struct source_part){ .ref = t->ref, .after_ms = t->after_ms, .until_ms = t->until_ms, .scale = t->scale,
								  .group = s->n_groups, .weigh = t->weigh });
	}
	size_t stored = s->parts.n - s->run.first;
	s->run.last = stored && stored == side->n ? side : NULL;
	return stored ? s->n_groups++ : UINT32_MAX;
}

static void take_group(struct exact *x, uint32_t group, bool minus, bool is_float, const double *got, const int64_t *exact)
{
	if (group == UINT32_MAX)
		return;
	if (is_float)
		num_sum_add(&x->f, minus ? -got[group] : got[group]);
	else if (minus ? __builtin_sub_overflow(x->i, exact[group], &x->i) : __builtin_add_overflow(x->i, exact[group], &x->i))
		x->overflow = true;
}

static bool all_scales_one(const struct lazy_side *s)
{
	for (size_t i = 0; i < s->n; i++)
		if ((s->t[i].scale != 1 || s->t[i].weigh.over_ms) && !s->t[i].vec)
			return false;
	return true;
}

static int put_sum(struct readout *r, const struct pending *p, struct err *e)
{
	if (p->x.overflow)
		return readout_overflow(e);
	double v;
	struct readout_reading x = readout_reading(r, p->s);
	if (!reading_number(&x, native_of(&p->x), &v))
		return 0;
	return series_push(r->q, readout_out(r, p->in, UINT32_MAX), p->s->t_ms, v, NULL, e);
}

int readout_sums(struct readout *r, struct value *v, struct err *e)
{
	bool leaf_only = graph_of_self(r);
	struct sums s = { 0 };
	for (size_t i = 0; i < v->n; i++) {
		size_t in = readout_in(r, v->s[i].labels);
		for (size_t k = 0; k < v->s[i].n; k++) {
			struct pending p = { in, &v->s[i].s[k], { 0 }, UINT32_MAX, UINT32_MAX };
			p.group_a = want_side(r, &s, &p.s->p->a, leaf_only, false, &p.x);
			if (p.s->p->diff)
				p.group_b = want_side(r, &s, &p.s->p->b, leaf_only, true, &p.x);
			vec_push(&s.list, p);
		}
	}
	end_run(&s, r->sp->step);
	double *got = xcalloc(s.n_groups + 1, sizeof *got);
	int64_t *exact = xcalloc(s.n_groups + 1, sizeof *exact);
	struct source_frame_filter filter = readout_filter(r);
	int rc = frames_failed(&r->frames, e);
	eval_read_begin(r->q);
	if (!rc && s.n_groups)
		rc = r->q->view->ops->sums(r->q->view, s.parts.v, s.parts.n, s.n_groups, &filter, eval_stream_limits(r->q), got, exact, e);
	eval_read_end(r->q);
	rc = frames_source_failed(&r->frames, rc, e);
	for (size_t i = 0; i < s.list.n && !rc; i++) {
		struct pending *p = &s.list.v[i];
		take_group(&p->x, p->group_a, false, !all_scales_one(&p->s->p->a), got, exact);
		take_group(&p->x, p->group_b, true, !all_scales_one(&p->s->p->b), got, exact);
		rc = put_sum(r, p, e);
	}
	free(got);
	free(exact);
	vec_free(&s.parts);
	vec_free(&s.list);
	return rc;
}

/* ---- samples ---- */

/* The value divided by the period is the number of observations where the type is the period's. */
static bool has_observations(const struct lazy_profile *p)
{
	const struct ptype *t = p->type;
	return view_eqs(t->sample_unit, "count") ||
	       (view_eq(t->sample_type, t->period_type) && view_eq(t->sample_unit, t->period_unit) && p->period > 0);
}

/* Whether r can take the profile; if not, why is filled in. */
static bool check_counted(const struct readout *r, const struct lazy_profile *p, struct err *why)
{
	const char *fn = r->n->call.fn->name;
	if (r->bound && p->diff) {
		err_set(why, ERR_EXECUTION, "%s: a difference has no bounds: ask for those of each side", fn);
		return false;
	}
	if (has_observations(p))
		return true;
	struct buf name = { 0 };
	ptype_format(p->type, &name);
	err_set(why, ERR_EXECUTION, "%s: the number of observations of %s is not known, since its values are not its period's: use the type that counts them", fn, name.ptr);
	buf_free(&name);
	return false;
}

int readout_keep_counted(struct readout *r, struct value *v, struct err *e)
{
	struct err why = { 0 };
	size_t kept = 0, all = 0;
	for (size_t i = 0; i < v->n; all += v->s[i++].n)
		for (size_t k = 0; k < v->s[i].n; k++)
			kept += check_counted(r, v->s[i].s[k].p, &why);
	if (kept == all)
		return 0;
	if (!kept)
		return err_set(e, why.code, "%s", why.msg);
	for (size_t i = 0; i < v->n; i++) {
		struct value_series *s = &v->s[i];
		size_t out = 0;
		for (size_t k = 0; k < s->n; k++) {
			char place[32];
			if (check_counted(r, s->s[k].p, &why)) {
				s->s[out++] = s->s[k];
				continue;
			}
			eval_note(r->q, false, "PromQL warning: dropped: %s (%s)", why.msg, eval_place(r->q, r->n->start, place));
			lazy_profile_unref(s->s[k].p);
		}
		eval_unhold(r->q, s->n - out);
		s->n = out;
	}
	value_compact(v);
	return 0;
}

#define COUNT_ROUNDING 1e-9 /* of a count: what the seconds between may have cost it */

/* A value in seconds, divided by the seconds of an observation, is a whole number of observations but for rounding: 8.53 s are 853. */
static double observations_of(double value, const struct lazy_profile *p)
{
	double n = value * readout_per_observation(p), whole = rint(n);
	return fabs(n - whole) <= COUNT_ROUNDING * fabs(whole) ? whole : n;
}

int readout_samples(struct readout *r, struct value *v, struct err *e)
{
	int rc = readout_keep_counted(r, v, e);
	if (rc)
		return rc;
	if (!r->has_frames) {
		for (size_t i = 0; i < v->n && !rc; i++) {
			size_t in = readout_in(r, v->s[i].labels);
			for (size_t k = 0; k < v->s[i].n && !rc; k++)
				rc = series_push(r->q, readout_out(r, in, UINT32_MAX), v->s[i].s[k].t_ms,
						 observations_of(v->s[i].s[k].v, v->s[i].s[k].p), NULL, e);
		}
		return rc;
	}
	/* totals first, then scaled at the end of this chunk: the same profiles in the same order */
	size_t *from = xcalloc(v->n + 1, sizeof *from);
	for (size_t i = 0; i < v->n; i++)
		from[i] = readout_out(r, readout_in(r, v->s[i].labels), UINT32_MAX)->n;
	rc = readout_sums(r, v, e);
	for (size_t i = 0; i < v->n && !rc; i++) {
		struct value_series *out = readout_out(r, readout_in(r, v->s[i].labels), UINT32_MAX);
		for (size_t k = 0; k < v->s[i].n; k++)
			out->s[from[i] + k].v = observations_of(out->s[from[i] + k].v, v->s[i].s[k].p);
	}
	free(from);
	return rc;
}
