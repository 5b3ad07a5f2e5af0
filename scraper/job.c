/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/job.h"

#include "base/clock.h"

#define PART_MAX 128                 /* bytes of one part of a profile's name */

/* Reading the CPU time costs a system call: it is only read after as much time of the clock. */
int job_go_on(void *arg, struct err *e)
{
	struct scrape_job *j = arg;
	int64_t now = clock_mono_ns(), give_up_ms = atomic_load_explicit(&j->worker->scraper->give_up_ms, memory_order_relaxed);
	if (give_up_ms && now / 1000000 > give_up_ms)
		return err_set(e, ERR_CANCELED, "the server stops");
	if (atomic_load_explicit(&j->worker->stop, memory_order_relaxed))
		return err_set(e, ERR_UNAVAILABLE, "its memory is wanted"); /* memory_refused says it for people */
	if (now - j->start_ns < j->limit_ns || clock_cpu_ns() - j->start_cpu_ns < j->limit_ns)
		return 0;
	return err_set(e, ERR_TIMEOUT, "decoding it took more than %.1f s of CPU time", (double)j->limit_ns / 1e9);
}

/* NAME parts are metric names when put together: what does not fit becomes _. */
static struct view name_part(struct arena *a, struct view v, struct view instead)
{
	if (!v.len)
		return instead;
	char *s = arena_strndup(a, v.ptr, v.len);
	if (!s)
		return instead;
	for (size_t i = 0; i < v.len; i++) {
		char c = s[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')))
			s[i] = '_';
	}
	return view_make(s, v.len);
}

/* The agent's comment says what its profiles are, so that they are never added to a process's own profiles, even if the job does not
 * know that its target is an agent. */
static struct view agent_name(const struct profile *p, struct view otherwise)
{
	static const char *const names[] = { "on_cpu", "off_cpu" };
	struct view mark = VIEW("pyrrha: ");
	for (uint32_t i = 0; i < p->n_comments; i++) {
		struct view c = profile_str(p, p->comments[i]);
		if (!view_starts(c, mark))
			continue;
		for (size_t k = 0; k < ARRAY_LEN(names); k++)
			if (view_eqs(view_make(c.ptr + mark.len, c.len - mark.len), names[k]))
				return view_of(names[k]);
	}
	return otherwise;
}

/* The profile's sample type i as a type of ours. A profile without a period type gets the sample type's. */
int job_type_of(struct scrape_job *j, uint32_t i, struct ptype *ret)
{
	const struct profile *p = j->p;
	struct arena *a = &j->worker->arena;
	struct view type = profile_str(p, p->sample_types[i].type_str), unit = profile_str(p, p->sample_types[i].unit_str);
	struct view ptype = profile_str(p, p->period_type.type_str), punit = profile_str(p, p->period_type.unit_str);
	struct view parts[] = { type, unit, ptype, punit };
	for (size_t k = 0; k < ARRAY_LEN(parts); k++)
		if (parts[k].len > PART_MAX)
			return err_set(&j->err, ERR_LIMIT, "the name of a sample type is longer than %d bytes", PART_MAX);
	*ret = (struct ptype){ .name = agent_name(p, view_of(j->ep->name)) };
	ret->sample_type = name_part(a, type, VIEW("unknown"));
	ret->sample_unit = name_part(a, unit, VIEW("count"));
	ret->period_type = name_part(a, ptype, ret->sample_type);
	ret->period_unit = name_part(a, punit, ptype.len ? VIEW("count") : ret->sample_unit);
	ret->kind = scrape_type_kind(j->work->type, type, unit, p->duration_ns > 0);
	ret->delta = ret->kind == PROFILE_DELTA;
	return 0;
}

/* (t - w, t]: since the previous scrape if that is near, else one interval; never less than the duration. */
static int64_t cover_of(const struct scrape_job *j, int64_t duration_ns)
{
	int64_t interval = j->ep->interval_ms, since = stamp_since(j->ep, j->work, j->t_ms);
	int64_t w = since > 0 && since <= interval + interval / 2 ? since : interval;
	return MAX(w, (duration_ns + 999999) / 1000000);
}

/* A piece of a history is what happened, whatever was asked for. */
void job_times(const struct scrape_job *j, int64_t duration_ns, struct sink_profile *sp)
{
	sp->t_ms = j->t_ms;
	sp->duration_ns = duration_ns;
	sp->cover_ms = j->cover_ms ? j->cover_ms : cover_of(j, duration_ns);
	sp->interval_ms = MAX(j->ep->interval_ms, j->cover_ms);
	sp->asked_ms = j->cover_ms ? 0 : j->ep->asked_s * 1000;
}
