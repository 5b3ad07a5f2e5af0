/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a merge, as google/pprof makes it. We do not copy its faults: a source without a time does not remove the others'. */
#include "base/alloc.h"
#include "pprof/internal.h"

/* out's string table with room for `more`; the entries stay where they were. */
static bool extend_strings(struct profile *out, uint32_t more)
{
	struct view *v = arena_alloc(&out->arena, ((size_t)out->n_strings + more + 1) * sizeof *v);
	if (!v)
		return false;
	if (out->n_strings)
		memcpy(v, out->strings, out->n_strings * sizeof *v);
	else
		v[out->n_strings++] = VIEW("");
	out->strings = v;
	return true;
}

/* The index of a string of `from` in out, whose table has room; *ok is cleared if the arena has not. */
static uint32_t carry(struct profile *out, const struct profile *from, uint32_t str, bool *ok)
{
	struct view s = profile_str(from, str);
	if (!s.len)
		return 0;
	struct view copy = arena_view(&out->arena, s);
	if (!copy.ptr) {
		*ok = false;
		return 0;
	}
	out->strings[out->n_strings] = copy;
	return out->n_strings++;
}

static bool same_type(const struct profile *a, struct profile_value_type x, const struct profile *b,
		      struct profile_value_type y)
{
	return view_eq(profile_str(a, x.type_str), profile_str(b, y.type_str)) &&
	       view_eq(profile_str(a, x.unit_str), profile_str(b, y.unit_str));
}

int pprof_compatible(const struct profile *a, const struct profile *b, struct err *e)
{
	if (!same_type(a, a->period_type, b, b->period_type))
		return err_set(e, ERR_BAD_DATA, "profiles with the period types %.*s and %.*s cannot be merged",
			       VIEW_ARG(profile_str(a, a->period_type.type_str)), VIEW_ARG(profile_str(b, b->period_type.type_str)));
	if (a->n_sample_types != b->n_sample_types)
		return err_set(e, ERR_BAD_DATA, "profiles with %u and %u sample types cannot be merged", a->n_sample_types,
			       b->n_sample_types);
	for (uint32_t i = 0; i < a->n_sample_types; i++)
		if (!same_type(a, a->sample_types[i], b, b->sample_types[i]))
			return err_set(e, ERR_BAD_DATA, "profiles whose sample types differ (%.*s and %.*s) cannot be merged",
				       VIEW_ARG(profile_str(a, a->sample_types[i].type_str)),
				       VIEW_ARG(profile_str(b, b->sample_types[i].type_str)));
	return 0;
}

static void merge_comments(const struct profile *const *in, size_t n, struct profile *out, bool *ok)
{
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < in[i]->n_comments && *ok; k++) {
			struct view s = profile_str(in[i], in[i]->comments[k]);
			bool met = false;
			for (uint32_t c = 0; c < out->n_comments && !met; c++)
				met = view_eq(profile_str(out, out->comments[c]), s);
			if (!met)
				out->comments[out->n_comments++] = carry(out, in[i], in[i]->comments[k], ok);
		}
}

static void merge_numbers(const struct profile *const *in, size_t n, struct profile *out)
{
	out->period = out->time_ns = out->duration_ns = 0;
	for (size_t i = 0; i < n; i++) {
		const struct profile *p = in[i];
		out->period = MAX(out->period, p->period);
		if (p->time_ns && (!out->time_ns || p->time_ns < out->time_ns))
			out->time_ns = p->time_ns;
		if (__builtin_add_overflow(out->duration_ns, p->duration_ns, &out->duration_ns))
			out->duration_ns = INT64_MAX;
	}
}

int pprof_merge_header(const struct profile *const *in, size_t n, struct profile *out, struct err *e)
{
	size_t n_comments = 0;
	for (size_t i = 0; i < n; i++) {
		int rc = pprof_compatible(in[0], in[i], e);
		if (rc)
			return rc;
		n_comments += in[i]->n_comments;
	}
	out->comments = arena_alloc(&out->arena, n_comments * sizeof *out->comments);
	out->n_comments = 0;
	bool ok = out->comments && n_comments < UINT32_MAX / 2 && extend_strings(out, (uint32_t)n_comments + 6);
	if (ok && n) {
		merge_numbers(in, n, out);
		merge_comments(in, n, out, &ok);
		out->period_type.type_str = carry(out, in[0], in[0]->period_type.type_str, &ok);
		out->period_type.unit_str = carry(out, in[0], in[0]->period_type.unit_str, &ok);
		out->drop_frames_str = carry(out, in[0], in[0]->drop_frames_str, &ok);
		out->keep_frames_str = carry(out, in[0], in[0]->keep_frames_str, &ok);
		out->default_sample_type_str = out->doc_url_str = 0;
		for (size_t i = 0; i < n; i++) {
			if (!out->default_sample_type_str)
				out->default_sample_type_str = carry(out, in[i], in[i]->default_sample_type_str, &ok);
			if (!out->doc_url_str)
				out->doc_url_str = carry(out, in[i], in[i]->doc_url_str, &ok);
		}
	}
	return ok ? 0 : err_set(e, ERR_LIMIT, "the merged profile needs more than its %zu bytes of memory", out->arena.max);
}
