/* SPDX-License-Identifier: Apache-2.0 */
/* Lists by series, and numbers by group. Of an element only what differs from the one before is there; a byte of flags says what that is. What
 * is "before" goes on from one series to the next: they resemble each other. */
#include "fleet/wire_result.h"

/* ---- floats ---- */

static void lists_put_floats(struct wire_out *o, const struct fleet_result *r)
{
	struct wire_stamps stamps = { 0 };
	for (size_t i = 0; i < r->n; i++) {
		const struct fleet_floats *f = &r->floats[i];
		struct wire_doubles values = { 0 };
		wire_room(o);
		wire_put(o, f->n);
		wire_stamps_begin(&stamps);
		for (size_t k = 0; k < f->n; k++) {
			wire_room(o);
			wire_put_stamp(o, &stamps, f->v[k].t_ms);
		}
		if (f->n)
			wire_put_doubles(o, &values, &f->v[0].v, sizeof f->v[0], f->n);
	}
}

/* A stamp of a list, not before the one before it. */
static int64_t lists_get_stamp(struct wire_in *in, struct wire_stamps *stamps, size_t i)
{
	int64_t before = stamps->last, t = wire_get_stamp(in, stamps);
	wire_require(in, wire_near(t), "a time out of range");
	wire_require(in, !i || t >= before, "stamps are not in order");
	return t;
}

static int64_t lists_get_stamp_within(struct wire_in *in, struct wire_stamps *stamps, size_t i, const struct fleet_call *c)
{
	int64_t t = lists_get_stamp(in, stamps, i);
	wire_require(in, t > c->after_ms && t <= c->until_ms, "a stamp is not in the range that was asked for");
	return t;
}

static void lists_get_floats(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r)
{
	struct wire_stamps stamps = { 0 };
	wire_section(in, "samples");
	r->floats = wire_heap(in, r->n + 1, sizeof *r->floats);
	for (size_t i = 0; i < r->n && !in->c.bad; i++) {
		struct fleet_floats *f = &r->floats[i];
		struct wire_doubles values = { 0 };
		size_t n = wire_get_count(in, 1);
		if (!n || !wire_samples(in, n))
			continue;
		f->v = wire_heap(in, n, sizeof *f->v);
		f->n = f->v ? n : 0;
		wire_stamps_begin(&stamps);
		for (size_t k = 0; k < f->n && !in->c.bad; k++) {
			wire_go_on(in, k);
			f->v[k].t_ms = lists_get_stamp_within(in, &stamps, k, c);
		}
		if (!in->c.bad)
			wire_get_doubles(in, &values, &f->v[0].v, sizeof f->v[0], f->n);
	}
}

/* ---- profiles ---- */

enum {
	PROFILE_STALE = 1, PROFILE_DURATION = 2, PROFILE_COVER = 4,
	PROFILE_ADJOINS = 8, /* its cover begins where the profile before is stamped */
	PROFILE_INTERVAL = 16, PROFILE_WEIGHT = 32, PROFILE_PERIOD = 64, PROFILE_SAME_TOTAL = 128
};

/* What goes on from profile to profile. */
struct lists_profiles {
	struct wire_stamps stamps;
	struct wire_doubles weights;
	struct source_profile before;
};

static uint8_t lists_profile_flags(const struct lists_profiles *x, const struct source_profile *p, bool first)
{
	const struct source_profile *b = &x->before;
	bool covers = p->cover_ms != b->cover_ms, adjoins = covers && !first && (uint64_t)p->t_ms - (uint64_t)b->t_ms == (uint64_t)p->cover_ms;
	return (uint8_t)((p->stale ? PROFILE_STALE : 0) | (p->duration_ns != b->duration_ns ? PROFILE_DURATION : 0) |
			 (adjoins ? PROFILE_ADJOINS : covers ? PROFILE_COVER : 0) | (p->interval_ms != b->interval_ms ? PROFILE_INTERVAL : 0) |
			 (value_bits(p->weight) != value_bits(b->weight) ? PROFILE_WEIGHT : 0) | (p->period != b->period ? PROFILE_PERIOD : 0) |
			 (p->total == b->total ? PROFILE_SAME_TOTAL : 0));
}

static void lists_put_profile(struct wire_out *o, struct lists_profiles *x, const struct source_profile *p, bool first)
{
	const struct source_profile *b = &x->before;
	uint8_t flags = lists_profile_flags(x, p, first);
	wire_room(o);
	wire_put_byte(o, flags);
	wire_put_stamp(o, &x->stamps, p->t_ms);
	if (flags & PROFILE_DURATION)
		wire_put_diff(o, p->duration_ns, b->duration_ns);
	if (flags & PROFILE_COVER)
		wire_put_diff(o, p->cover_ms, b->cover_ms);
	if (flags & PROFILE_INTERVAL)
		wire_put_diff(o, p->interval_ms, b->interval_ms);
	if (flags & PROFILE_WEIGHT)
		wire_put_double(o, &x->weights, p->weight);
	if (flags & PROFILE_PERIOD)
		wire_put_diff(o, p->period, b->period);
	if (!(flags & PROFILE_SAME_TOTAL))
		wire_put_diff(o, p->total, b->total);
	x->before = *p;
}

static void lists_put_profiles(struct wire_out *o, const struct fleet_result *r)
{
	struct lists_profiles x = { 0 };
	for (size_t i = 0; i < r->n; i++) {
		const struct fleet_profiles *p = &r->profiles[i];
		wire_room(o);
		wire_put(o, p->n);
		wire_stamps_begin(&x.stamps);
		for (size_t k = 0; k < p->n; k++) {
			lists_put_profile(o, &x, &p->v[k], !k);
			if (p->match)
				wire_put_signed(o, p->match[k]);
		}
	}
}

static void lists_get_profile(struct wire_in *in, const struct fleet_call *c, struct lists_profiles *x, size_t i)
{
	struct source_profile *p = &x->before;
	int64_t before = p->t_ms;
	uint8_t flags = wire_get_byte(in);
	wire_require(in, !(flags & PROFILE_ADJOINS) || (i && !(flags & PROFILE_COVER)), "flags of a profile that contradict each other");
	p->t_ms = lists_get_stamp_within(in, &x->stamps, i, c);
	p->stale = flags & PROFILE_STALE;
	if (flags & PROFILE_DURATION)
		p->duration_ns = wire_get_diff(in, p->duration_ns);
	if (flags & PROFILE_COVER)
		p->cover_ms = wire_get_diff(in, p->cover_ms);
	else if (flags & PROFILE_ADJOINS)
		p->cover_ms = (int64_t)((uint64_t)p->t_ms - (uint64_t)before);
	if (flags & PROFILE_INTERVAL)
		p->interval_ms = wire_get_diff(in, p->interval_ms);
	if (flags & PROFILE_WEIGHT)
		p->weight = wire_get_double(in, &x->weights);
	if (flags & PROFILE_PERIOD)
		p->period = wire_get_diff(in, p->period);
	if (!(flags & PROFILE_SAME_TOTAL))
		p->total = wire_get_diff(in, p->total);
	wire_require(in, wire_near(p->cover_ms) && wire_near(p->interval_ms), "a cover or an interval out of range");
}

static void lists_get_profiles(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r)
{
	struct lists_profiles x = { 0 };
	bool with_match = c->op == FLEET_MATCHES;
	wire_section(in, "profiles");
	r->profiles = wire_heap(in, r->n + 1, sizeof *r->profiles);
	for (size_t i = 0; i < r->n && !in->c.bad; i++) {
		struct fleet_profiles *p = &r->profiles[i];
		p->n = wire_get_count(in, with_match ? 3 : 2);
		IGNORE(wire_samples(in, p->n));
		p->v = wire_heap(in, p->n + 1, sizeof *p->v);
		p->match = with_match ? wire_heap(in, p->n + 1, sizeof *p->match) : NULL;
		wire_stamps_begin(&x.stamps);
		for (size_t k = 0; k < p->n && !in->c.bad; k++) {
			wire_go_on(in, k);
			lists_get_profile(in, c, &x, k);
			p->v[k] = x.before;
			if (with_match)
				p->match[k] = wire_get_signed(in);
		}
	}
}

/* ---- points ---- */

enum { POINTS_PLAIN = 1, POINTS_RUNS = 2 }; /* of a list; its number of points is above these bits */
enum {
	POINT_RUN = 1, POINT_COVER = 2,
	POINT_ADJOINS = 4, /* its cover begins where the point before is stamped */
	POINT_AHEAD = 8, POINT_SAME_TOTAL = 16, POINT_FLAGS = 32
};

/* What goes on from point to point: of single profiles, and of runs. */
struct lists_points {
	struct wire_stamps stamps;
	int64_t last_ms;
	struct source_point before[2];
};

static void lists_put_point(struct wire_out *o, struct lists_points *x, const struct source_point *p, bool first)
{
	struct source_point *b = &x->before[p->is_run];
	bool covers = p->cover_ms != b->cover_ms, adjoins = covers && !first && (uint64_t)p->t_ms - (uint64_t)x->last_ms == p->cover_ms;
	uint8_t flags = (uint8_t)((p->is_run ? POINT_RUN : 0) | (adjoins ? POINT_ADJOINS : covers ? POINT_COVER : 0) |
				  (p->ahead != b->ahead ? POINT_AHEAD : 0) | (p->total == b->total ? POINT_SAME_TOTAL : 0));
	wire_room(o);
	wire_put_byte(o, flags);
	wire_put_stamp(o, &x->stamps, p->t_ms);
	if (flags & POINT_COVER)
		wire_put_signed(o, (int64_t)p->cover_ms - b->cover_ms);
	if (flags & POINT_AHEAD)
		wire_put_signed(o, (int64_t)p->ahead - (int64_t)b->ahead);
	if (!(flags & POINT_SAME_TOTAL))
		wire_put_diff(o, p->total, b->total);
	x->last_ms = p->t_ms;
	*b = *p;
}

static void lists_put_points(struct wire_out *o, const struct fleet_result *r)
{
	struct lists_points x = { 0 };
	for (size_t i = 0; i < r->n; i++) {
		const struct source_points *p = &r->points[i];
		size_t n = p->plain ? p->n : 0;
		wire_room(o);
		wire_put(o, (uint64_t)n << 2 | (p->plain && p->before ? POINTS_RUNS : 0) | (p->plain ? POINTS_PLAIN : 0));
		wire_stamps_begin(&x.stamps);
		for (size_t k = 0; k < n; k++)
			lists_put_point(o, &x, &p->v[k], !k);
	}
}

static struct source_point lists_get_point(struct wire_in *in, struct lists_points *x, size_t i)
{
	uint8_t flags = wire_get_byte(in);
	struct source_point *b = &x->before[flags & POINT_RUN];
	wire_require(in, flags < POINT_FLAGS && (!(flags & POINT_ADJOINS) || (i && !(flags & POINT_COVER))), "flags of a point that there are not");
	int64_t cover = b->cover_ms, ahead = b->ahead;
	b->is_run = flags & POINT_RUN;
	b->t_ms = lists_get_stamp(in, &x->stamps, i);
	if (flags & POINT_COVER)
		cover = wire_get_diff(in, cover);
	else if (flags & POINT_ADJOINS)
		cover = (int64_t)((uint64_t)b->t_ms - (uint64_t)x->last_ms);
	if (flags & POINT_AHEAD)
		ahead = wire_get_diff(in, ahead);
	if (!(flags & POINT_SAME_TOTAL))
		b->total = wire_get_diff(in, b->total);
	if (wire_require(in, cover >= 0 && cover <= UINT32_MAX && ahead >= 0 && ahead <= SOURCE_POINT_AHEAD_MAX, "a cover or an interval out of range")) {
		b->cover_ms = (uint32_t)cover;
		b->ahead = (uint32_t)ahead & SOURCE_POINT_AHEAD_MAX;
	}
	x->last_ms = b->t_ms;
	return *b;
}

/* How many profiles the points before each are of; and whether they add up to less than a caller relies on. */
static void lists_check_points(struct wire_in *in, struct source_points *p, bool runs)
{
	uint64_t profiles = 0, size = 0;
	p->before = runs ? wire_heap(in, p->n + 1, sizeof *p->before) : NULL;
	for (size_t i = 0; i < p->n && !in->c.bad; i++) {
		const struct source_point *x = &p->v[i];
		uint64_t total = x->total < 0 ? -(uint64_t)x->total : (uint64_t)x->total;
		profiles += x->is_run ? x->ahead : 1;
		wire_require(in, (!x->is_run || runs) && profiles <= UINT32_MAX, "runs that there cannot be");
		wire_require(in, total < SOURCE_POINTS_MOST && (size += total) < SOURCE_POINTS_MOST, "totals that are not plain");
		if (runs)
			p->before[i + 1] = (uint32_t)profiles;
	}
}

static void lists_get_points(struct wire_in *in, struct fleet_result *r)
{
	struct lists_points x = { 0 };
	wire_section(in, "points");
	r->points = wire_heap(in, r->n + 1, sizeof *r->points);
	for (size_t i = 0; i < r->n && !in->c.bad; i++) {
		struct source_points *p = &r->points[i];
		uint64_t head = wire_get(in), n = head >> 2;
		if (!wire_require(in, n <= (uint64_t)(in->c.end - in->c.p) / 2 && (head & POINTS_PLAIN || !head),
				  "more points than bytes, or points that are not plain"))
			return;
		p->plain = head & POINTS_PLAIN;
		IGNORE(wire_samples(in, (size_t)n));
		p->v = p->plain ? wire_heap(in, (size_t)n + 1, sizeof *p->v) : NULL;
		wire_stamps_begin(&x.stamps);
		for (; p->n < n && !in->c.bad; p->n++) {
			wire_go_on(in, p->n);
			p->v[p->n] = lists_get_point(in, &x, p->n);
		}
		lists_check_points(in, p, head & POINTS_RUNS);
	}
}

/* ---- covers ---- */

enum {
	COVER_COUNT = 1, COVER_STALE = 2, COVER_TOTAL = 4, COVER_PERIOD = 8, COVER_MAGNITUDE = 16, COVER_WEIGHTS = 32, COVER_SPANS = 64,
	COVER_FLAGS = 128
};

/* What goes on from cover to cover. */
struct lists_covers {
	uint64_t n;
	int64_t period;
	int64_t until_ms, length_ms; /* of the last span */
};

static uint64_t lists_size_of(int64_t total)
{
	return total < 0 ? -(uint64_t)total : (uint64_t)total;
}

static bool lists_has_weights(const struct source_weights *w)
{
	return value_bits(w->extra) | value_bits(w->weighed) | value_bits(w->lightest) | value_bits(w->heaviest);
}

static void lists_put_spans(struct wire_out *o, struct lists_covers *x, const struct source_cover *c)
{
	wire_put(o, c->spans.n);
	for (size_t i = 0; i < c->spans.n; i++) {
		wire_room(o);
		int64_t after_ms = c->spans.v[i].after_ms, length_ms = (int64_t)((uint64_t)c->spans.v[i].until_ms - (uint64_t)after_ms);
		wire_put_diff(o, after_ms, x->until_ms);
		wire_put_diff(o, length_ms, x->length_ms);
		x->until_ms = c->spans.v[i].until_ms;
		x->length_ms = length_ms;
	}
}

static void lists_put_cover(struct wire_out *o, struct lists_covers *x, const struct source_cover *c, bool with_spans)
{
	uint8_t flags = (uint8_t)((c->n != x->n ? COVER_COUNT : 0) | (c->n_stale ? COVER_STALE : 0) | (c->total ? COVER_TOTAL : 0) |
				  (c->period != x->period ? COVER_PERIOD : 0) | (c->magnitude != lists_size_of(c->total) ? COVER_MAGNITUDE : 0) |
				  (lists_has_weights(&c->weights) ? COVER_WEIGHTS : 0) | (with_spans && c->spans.n ? COVER_SPANS : 0));
	struct wire_doubles weights = { 0 };
	wire_room(o);
	wire_put_byte(o, flags);
	if (flags & COVER_COUNT)
		wire_put_diff(o, (int64_t)c->n, (int64_t)x->n);
	if (flags & COVER_STALE)
		wire_put(o, c->n_stale);
	if (flags & COVER_TOTAL)
		wire_put_signed(o, c->total);
	if (flags & COVER_PERIOD)
		wire_put_diff(o, c->period, x->period);
	if (flags & COVER_MAGNITUDE)
		wire_put(o, c->magnitude);
	if (flags & COVER_WEIGHTS) {
		wire_put_double(o, &weights, c->weights.extra);
		wire_put_double(o, &weights, c->weights.weighed);
		wire_put_double(o, &weights, c->weights.lightest);
		wire_put_double(o, &weights, c->weights.heaviest);
	}
	if (flags & COVER_SPANS)
		lists_put_spans(o, x, c);
	x->n = c->n;
	x->period = c->period;
}

static void lists_put_covers(struct wire_out *o, const struct fleet_result *r)
{
	struct lists_covers x = { 0 };
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < r->n_tiles; k++)
			lists_put_cover(o, &x, &r->covers[i][k], r->n_tiles == 1);
}

static void lists_get_spans(struct wire_in *in, struct lists_covers *x, struct source_cover *c)
{
	size_t n = wire_get_count(in, 2);
	c->spans.v = n ? wire_heap(in, n, sizeof *c->spans.v) : NULL;
	c->spans.cap = c->spans.v ? n : 0;
	for (size_t i = 0; i < n && !in->c.bad; i++) {
		int64_t after = wire_get_diff(in, x->until_ms);
		x->length_ms = wire_get_diff(in, x->length_ms);
		x->until_ms = (int64_t)((uint64_t)after + (uint64_t)x->length_ms);
		wire_require(in, wire_near(after) && wire_near(x->until_ms) && after <= x->until_ms, "a span that ends before it begins, or out of range");
		vec_push(&c->spans, (struct source_span){ after, x->until_ms });
	}
}

static void lists_get_cover(struct wire_in *in, struct lists_covers *x, struct source_cover *c, bool with_spans)
{
	uint8_t flags = wire_get_byte(in);
	struct wire_doubles weights = { 0 };
	wire_require(in, flags < COVER_FLAGS && (with_spans || !(flags & COVER_SPANS)), "flags of a cover that there are not");
	if (flags & COVER_COUNT)
		x->n = (uint64_t)wire_get_diff(in, (int64_t)x->n);
	c->n = x->n;
	c->n_stale = flags & COVER_STALE ? wire_get(in) : 0;
	c->total = flags & COVER_TOTAL ? wire_get_signed(in) : 0;
	if (flags & COVER_PERIOD)
		x->period = wire_get_diff(in, x->period);
	c->period = x->period;
	c->magnitude = flags & COVER_MAGNITUDE ? wire_get(in) : lists_size_of(c->total);
	if (flags & COVER_WEIGHTS) {
		c->weights.extra = wire_get_double(in, &weights);
		c->weights.weighed = wire_get_double(in, &weights);
		c->weights.lightest = wire_get_double(in, &weights);
		c->weights.heaviest = wire_get_double(in, &weights);
	}
	if (flags & COVER_SPANS)
		lists_get_spans(in, x, c);
	wire_require(in, c->n_stale <= c->n, "more markers than stamps");
}

static void lists_get_covers(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r)
{
	struct lists_covers x = { 0 };
	size_t n = c->tiles->n, all;
	wire_section(in, "covers");
	if (!wire_require(in, !__builtin_mul_overflow(n, r->n, &all) && all <= (size_t)(in->c.end - in->c.p), "fewer bytes than covers that were asked for"))
		return;
	r->n_tiles = n;
	r->covers = wire_heap(in, r->n + 1, sizeof *r->covers);
	for (size_t i = 0; i < r->n && !in->c.bad; i++) {
		r->covers[i] = wire_heap(in, n + 1, sizeof *r->covers[i]);
		for (size_t k = 0; k < n && !in->c.bad; k++)
			lists_get_cover(in, &x, &r->covers[i][k], n == 1);
	}
}

/* ---- numbers by group ---- */

enum { SUMS_DOUBLES = 1, SUMS_INTEGERS, SUMS_BOTH }; /* of integers the sums are made */

static bool lists_sums_are_whole(const struct fleet_result *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (value_bits((double)r->exact[i]) != value_bits(r->sums[i]))
			return false;
	return true;
}

static void lists_put_sums(struct wire_out *o, const struct fleet_result *r)
{
	struct wire_doubles sums = { 0 };
	uint8_t how = !r->exact ? SUMS_DOUBLES : lists_sums_are_whole(r) ? SUMS_INTEGERS : SUMS_BOTH;
	wire_put_byte(o, how);
	if (how != SUMS_INTEGERS)
		wire_put_doubles(o, &sums, r->sums, sizeof *r->sums, r->n);
	if (how != SUMS_DOUBLES)
		wire_put_integers(o, r->exact, r->n);
}

static void lists_get_sums(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r)
{
	struct wire_doubles sums = { 0 };
	wire_section(in, "sums");
	uint8_t how = wire_get_byte(in);
	if (!wire_require(in, c->exact ? how == SUMS_INTEGERS || how == SUMS_BOTH : how == SUMS_DOUBLES, "sums that were not asked for"))
		return;
	r->sums = wire_heap(in, r->n + 1, sizeof *r->sums);
	r->exact = c->exact ? wire_heap(in, r->n + 1, sizeof *r->exact) : NULL;
	if (in->c.bad)
		return;
	if (how != SUMS_INTEGERS)
		wire_get_doubles(in, &sums, r->sums, sizeof *r->sums, r->n);
	if (how != SUMS_DOUBLES)
		wire_get_integers(in, r->exact, r->n);
	for (size_t i = 0; i < r->n && how == SUMS_INTEGERS; i++)
		r->sums[i] = (double)r->exact[i];
}

static void lists_get_shares(struct wire_in *in, struct fleet_result *r)
{
	wire_section(in, "shares");
	r->shares = (struct source_shares){ wire_heap(in, r->n + 1, sizeof(int64_t)), wire_heap(in, r->n + 1, sizeof(int64_t)), wire_heap(in, r->n + 1, sizeof(int64_t)) };
	if (in->c.bad)
		return;
	wire_get_integers(in, r->shares.match, r->n);
	wire_get_integers(in, r->shares.total, r->n);
	wire_get_integers(in, r->shares.there, r->n);
	for (size_t i = 0; i < r->n && !in->c.bad; i++)
		wire_require(in, r->shares.there[i] >= 0, "fewer than no profiles");
}

/* ---- all of them ---- */

void wire_put_lists(struct wire_out *o, const struct fleet_result *r)
{
	switch (r->op) {
	case FLEET_FLOATS:
		lists_put_floats(o, r);
		break;
	case FLEET_PROFILES:
	case FLEET_MATCHES:
		lists_put_profiles(o, r);
		break;
	case FLEET_POINTS:
		lists_put_points(o, r);
		break;
	case FLEET_COVERS:
		lists_put_covers(o, r);
		break;
	case FLEET_SUMS:
		lists_put_sums(o, r);
		break;
	case FLEET_SHARES:
		wire_put_integers(o, r->shares.match, r->n);
		wire_put_integers(o, r->shares.total, r->n);
		wire_put_integers(o, r->shares.there, r->n);
		break;
	default:
		break;
	}
}

void wire_get_lists(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r)
{
	bool by_group = c->op == FLEET_SUMS || c->op == FLEET_SHARES;
	size_t n = by_group ? c->n_groups : c->n_refs;
	wire_section(in, "lists");
	if (!by_group && c->op != FLEET_COVERS && !wire_require(in, n <= (size_t)(in->c.end - in->c.p), "fewer bytes than series that were asked for"))
		return;
	r->n = n;
	switch (c->op) {
	case FLEET_FLOATS:
		lists_get_floats(in, c, r);
		break;
	case FLEET_PROFILES:
	case FLEET_MATCHES:
		lists_get_profiles(in, c, r);
		break;
	case FLEET_POINTS:
		lists_get_points(in, r);
		break;
	case FLEET_COVERS:
		lists_get_covers(in, c, r);
		break;
	case FLEET_SUMS:
		lists_get_sums(in, c, r);
		break;
	case FLEET_SHARES:
		lists_get_shares(in, r);
		break;
	default:
		break;
	}
}
