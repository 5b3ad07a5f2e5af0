/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a native number of a profile to the output: its value, its share, or a bound of its share. */
#include "promql-like/stacks/readout.h"

double readout_per_observation(const struct lazy_profile *p)
{
	if (view_eqs(p->type->sample_unit, "count"))
		return 1;
	struct unit_info u;
	unit_lookup(p->type->sample_unit, &u);
	return u.factor < 1 ? rint(1 / u.factor) / (double)p->period : 1 / (u.factor * (double)p->period);
}

/* How many observations a profile stands on; of a rate: those of its range. */
static double readout_observations(const struct value_sample *s)
{
	return fabs(s->v * readout_per_observation(s->p) * (s->p->per_s ? s->p->per_s : 1));
}

struct readout_reading readout_reading(const struct readout *r, const struct value_sample *s)
{
	struct unit_info u;
	unit_lookup(s->p->type->sample_unit, &u);
	struct readout_reading x = { .factor = u.factor, .per_s = s->p->per_s, .share = r->measure == SHARE || r->measure == SELF_SHARE,
				     .idle = r->has_frames, .whole = lazy_profile_whole(s->p, s->v), .bound = r->bound };
	if (r->bound) {
		x.observations = readout_observations(s);
		x.z = value_scalar(&r->z, graph_step(r->sp, s->t_ms));
	}
	return x;
}

/* Wilson's interval (E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927):
 *
 *	(p + z^2/2n -+ z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n)        n observations, of which a share p
 *
 * Unlike p -+ z sqrt(p (1 - p)/n) it stays within 0 and 1, and at p = 0 it is no point. Without observations everything is
 * possible. */
double reading_bound(double p, double n, double z, enum bound which)
{
	if (!(n > 0))
		return which == HIGH;
	p = fmax(0, fmin(1, p));
	double zz = z * z / n, middle = p + zz / 2, reach = z * sqrt(p * (1 - p) / n + zz / (4 * n));
	double v = (middle + (which == HIGH ? reach : -reach)) / (1 + zz);
	return fmax(0, fmin(1, v));
}

int readout_overflow(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "a sum of profile values does not fit in 64 bits");
}
