/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded profiles. A delta of a slot says what was observed in the interval that ends there. So it is recorded late, when all
 * observations have arrived. Every slot is recorded once, also one that was missed or is in an outage. The next slot is stored
 * together with the profiles. A gauge is recorded as floats are: what it is now. */
#include <math.h>

#include "base/lock.h"
#include "base/metrics.h"
#include "rules/group.h"
#include "rules/notes.h"

#define PROFILE_BYTES ((size_t)256 << 20)
#define SLOTS_AT_A_TIME 20
#define LATE_LOOK_MS 60000   /* profiles that arrive after a slot was recorded are looked for once, this much later */
#define LATE_LOOKS 4         /* at an evaluation, so that it catches up */
#define BEHIND_MAX_MS (24 * INT64_C(3600000))

void kept_type_free(struct kept_type *t)
{
	buf_free(&t->text);
}

void kept_type_set(struct kept_type *t, const struct ptype *type)
{
	ptype_format(type, &t->text);
	if (!ptype_parse(buf_view(&t->text), &t->type))
		t->type = (struct ptype){ 0 };
	t->type.kind = type->kind;
}

/* v - base; negative values are refused, as no profile has such. */
static struct stackvec *settle(const struct promql_profile *p, struct err *e)
{
	struct stackvec *v = NULL;
	if (p->base) {
		struct stackvec *both[] = { p->vec, p->base };
		const double signs[] = { 1, -1 };
		v = stackvec_sum(p->vec->symbols, both, signs, 2, e);
	} else {
		v = stackvec_ref(p->vec);
	}
	for (size_t i = 0; v && i < v->n; i++)
		if (v->is_float ? v->floats[i] < 0 : v->ints[i] < 0) {
			stackvec_unref(v);
			err_set(e, ERR_EXECUTION, "the result has a profile with negative values, which cannot be recorded");
			return NULL;
		}
	return v;
}

/* Sets its source from now on. */
static int type_of(const struct rule *x, const struct promql_profile *p, struct ptype *ret, struct err *e)
{
	*ret = *p->type;
	if (x->delta && ret->kind != PROFILE_GAUGE)
		return 0;
	if (x->newest && ret->kind != PROFILE_GAUGE)
		return err_set(e, ERR_EXECUTION, "the newest profile as it stands would be recorded once per evaluation: write merge_over_time(...) "
			       "of a range as long as the group's interval");
	ret->kind = PROFILE_GAUGE;
	ret->delta = false;
	return 0;
}

static int fill(struct evaluation *r, const struct promql_profile *p, const struct ptype *type, struct sink_profile *out, struct err *e)
{
	static const uint32_t none[1];
	struct stackvec *v = settle(p, e);
	if (!v)
		return -(int)e->code;
	const struct stackvec_type t = { p->type->sample_type, p->type->sample_unit };
	struct profile *flat = NEW(struct profile);
	profile_init(flat, PROFILE_BYTES);
	int rc = stackvec_to_profile(&v, &t, 1, flat, e);
	stackvec_unref(v);
	if (!rc && ptype_is_of_host(p->type) && !profile_without_main(flat))
		rc = err_set(e, ERR_LIMIT, "a profile to record is larger than %zu bytes", flat->arena.max);
	if (rc) {
		profile_release(flat);
		free(flat);
		return rc;
	}
	out->profile = flat;
	if (!flat->n_samples)
		out->samples = none; /* observed, and empty */
	out->interval_ms = r->interval_ms;
	out->asked_ms = p->weight == 1 || type->kind == PROFILE_GAUGE ? 0 : MAX((int64_t)rint((double)r->interval_ms / p->weight), 1);
	out->period = p->period;
	if (type->kind != PROFILE_GAUGE) {
		out->duration_ns = type->kind == PROFILE_DELTA ? r->interval_ms * 1000000 : 0;
		out->cover_ms = r->interval_ms;
	}
	return 0;
}

/* Columns are in the arena; the sender finds them again through out.profiles. */
static int put_column(struct evaluation *r, struct labels l, const struct ptype *type, struct sink_profile *p, struct err *e)
{
	struct sink_column *c = arena_calloc(&r->out.arena, 1, sizeof *c);
	struct buf text = { 0 };
	ptype_format(type, &text);
	struct view own = arena_view(&r->out.arena, buf_view(&text));
	buf_free(&text);
	if (!c || !own.ptr || !ptype_parse(own, &c->type))
		return err_set(e, ERR_LIMIT, "what the group writes at a time is too large");
	c->type.kind = type->kind;
	c->labels = labels_copy(&r->out.arena, l);
	p->columns = c;
	p->n_columns = 1;
	return 0;
}

struct now {
	struct label_sets sets;
	VEC(struct kept_type) types; /* as many */
};

static int put_profile(struct evaluation *r, const struct rule *x, const struct promql_series *s, int64_t t_ms, struct now *now, struct err *e)
{
	struct sink_profile out = { .t_ms = t_ms };
	struct ptype type;
	struct labels_builder b;
	if (!s->profiles || !s->profiles[0].vec)
		return err_set(e, ERR_EXECUTION, "profiles: true, and the result has numbers");
	int rc = type_of(x, &s->profiles[0], &type, e);
	if (rc)
		return rc;
	rule_labels(x, s->labels, &b);
	struct labels l = labels_builder_finish(&b);
	if (!label_sets_add(&now->sets, l))
		rc = err_set(e, ERR_EXECUTION, "vector contains metrics with the same labelset after applying rule labels");
	else
		kept_type_set(vec_add(&now->types), &type);
	if (!rc)
		rc = put_column(r, l, &type, &out, e);
	if (!rc)
		rc = fill(r, &s->profiles[0], &type, &out, e);
	labels_builder_free(&b);
	if (!rc)
		vec_push(&r->out.profiles, out);
	return rc;
}

static int end_gone(struct evaluation *r, struct live_rule *rule, const struct now *now, int64_t t_ms, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < rule->previous.v.n && !rc; i++) {
		struct sink_profile stale = { .t_ms = t_ms };
		if (label_sets_has(&now->sets, *rule->previous.v.v[i]))
			continue;
		rc = put_column(r, *rule->previous.v.v[i], &rule->types.v[i].type, &stale, e);
		if (!rc)
			vec_push(&r->out.profiles, stale);
	}
	return rc;
}

static void free_types(struct live_rule *rule)
{
	for (size_t i = 0; i < rule->types.n; i++)
		kept_type_free(&rule->types.v[i]);
	vec_free(&rule->types);
}

void record_types_free(struct live_rule *rule)
{
	free_types(rule);
}

int record_profiles(struct evaluation *r, struct live_rule *rule, const struct promql_result *q, int64_t t_ms, struct err *e)
{
	struct now now = { 0 };
	size_t before = r->out.profiles.n;
	int rc = q->type == PROMQL_SCALAR ? err_set(e, ERR_EXECUTION, "profiles: true, and the result is a number") : 0;
	int64_t limit = r->g->def->limit;
	for (size_t i = 0; !rc && i < q->n_series; i++)
		rc = put_profile(r, rule->rule, &q->series[i], t_ms, &now, e);
	if (!rc && limit && (int64_t)now.sets.v.n > limit)
		rc = err_set(e, ERR_EXECUTION, "exceeded limit of %lld with %zu series", (long long)limit, now.sets.v.n);
	if (!rc)
		rc = end_gone(r, rule, &now, t_ms, e);
	if (rc) {
		output_drop_profiles(&r->out, before);
		struct live_rule unused = { .types.v = now.types.v, .types.n = now.types.n };
		free_types(&unused);
		label_sets_free(&now.sets);
		return rc;
	}
	r->samples += r->out.profiles.n - before;
	mutex_lock(&r->g->lock);
	label_sets_free(&rule->previous);
	rule->previous = now.sets;
	free_types(rule);
	rule->types.v = now.types.v;
	rule->types.n = now.types.n;
	rule->types.cap = now.types.cap;
	mutex_unlock(&r->g->lock);
	return 0;
}

/* ---- deltas, slot by slot ---- */

/* Tried again: what another time may go well. */
static bool passes(const struct err *e)
{
	return e->code == ERR_TIMEOUT || e->code == ERR_CANCELED || e->code == ERR_UNAVAILABLE || e->code == ERR_BUSY || e->code == ERR_IO;
}

static void begin(struct evaluation *r, struct live_delta *d, int64_t newest)
{
	if (!d->next_slot || (newest - d->next_slot) % r->interval_ms || newest - d->next_slot < -2 * r->interval_ms)
		d->next_slot = newest; /* the first, or of another interval */
	int64_t behind = newest - BEHIND_MAX_MS;
	d->before = d->next_slot;
	if (d->next_slot < behind) {
		int64_t skipped = (behind - d->next_slot + r->interval_ms - 1) / r->interval_ms;
		d->next_slot += skipped * r->interval_ms;
		rules_count(r->g, M_MISSED, (double)skipped);
	}
}

static double total_of(const struct promql_result *q)
{
	double total = 0;
	for (size_t i = 0; i < q->n_series; i++)
		total += q->series[i].points[0].v;
	return total;
}

/* Counts recorded slots whose source has more by now. */
static void look_for_late(struct evaluation *r, struct live_rule *rule, int64_t newest)
{
	struct live_delta *d = &rule->delta;
	size_t done = 0;
	for (; done < d->recorded.n && done < LATE_LOOKS && d->recorded.v[done].slot_ms <= newest - LATE_LOOK_MS; done++) {
		struct promql_result q;
		struct err e = { 0 };
		double was = d->recorded.v[done].total;
		if (rule_query_values(r, rule, d->recorded.v[done].slot_ms - r->g->def->query_offset_ms, &q, &e))
			continue;
		if (total_of(&q) > was + 1e-9 * fabs(was))
			rules_count(r->g, M_LATE, 1);
		promql_result_release(&q);
	}
	if (done)
		memmove(d->recorded.v, d->recorded.v + done, (d->recorded.n - done) * sizeof *d->recorded.v);
	d->recorded.n -= done;
}

int record_deltas(struct evaluation *r, struct live_rule *rule, struct err *e)
{
	struct live_delta *d = &rule->delta;
	int64_t want = r->g->m->o.late_ms ? MAX(r->g->m->o.late_ms, 0) : r->g->config->late_ms;
	int64_t late = (want + r->interval_ms - 1) / r->interval_ms * r->interval_ms;
	int64_t newest = r->slot_ms - late, offset = r->g->def->query_offset_ms;
	int rc = 0;
	begin(r, d, newest);
	if (!r->g->m->o.aside)
		look_for_late(r, rule, newest);
	for (unsigned n = 0; d->next_slot <= newest && n < SLOTS_AT_A_TIME && !rc; n++) {
		struct promql_result q;
		int64_t t = d->next_slot - offset;
		rc = rule_query(r, rule, t, &q, e);
		if (!rc) {
			rc = record_profiles(r, rule, &q, t, e);
			if (!rc && !r->g->m->o.aside) {
				typeof(d->recorded.v) late_look = vec_add(&d->recorded);
				late_look->slot_ms = d->next_slot;
				late_look->total = total_of(&q);
			}
			promql_result_release(&q);
		}
		if (rc && passes(e))
			break;
		d->next_slot += r->interval_ms;
	}
	notes_delta(r, rule);
	return rc;
}
