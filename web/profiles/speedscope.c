/* SPDX-License-Identifier: Apache-2.0 */
/* format=speedscope: speedscope's own file format (www.speedscope.app/file-format-schema.json), with inlined calls as
 * frames, which its import of pprof leaves out. A diff is two profiles, what was and what it is compared with. */
#include <math.h>

#include "base/vec.h"
#include "model/flame.h"
#include "base/json.h"
#include "web/profiles/merged.h"

/* A unit that speedscope knows. */
static const char *unit_of(const struct merged_profile *m)
{
	static const struct {
		const char *ours, *theirs;
	} units[] = {
		{ "nanoseconds", "nanoseconds" }, { "ns", "nanoseconds" }, { "microseconds", "microseconds" },
		{ "us", "microseconds" }, { "milliseconds", "milliseconds" }, { "ms", "milliseconds" },
		{ "seconds", "seconds" }, { "s", "seconds" }, { "bytes", "bytes" },
	};
	for (size_t i = 0; m->type && i < ARRAY_LEN(units); i++)
		if (view_eqs(m->type->sample_unit, units[i].ours))
			return units[i].theirs;
	return "none";
}

static int put_frames(struct buf *b, const struct flame *f, const struct permit *permit, struct err *e)
{
	int rc = 0;
	for (size_t i = 1; i < f->n_frames && !rc; i++) {
		const struct flame_frame *x = &f->frames[i];
		json_object_begin(b);
		json_field(b, "name", x->name);
		if (x->file.len || x->binary.len) {
			json_field(b, "file", x->file.len ? x->file : x->binary);
		}
		if (x->start_line > 0)
			json_field_int(b, "line", x->start_line);
		json_object_end(b);
		rc = permit_text_step(permit, i, b->len, e);
	}
	return rc;
}

static double self_of(const struct flame *f, size_t i, bool base)
{
	union flame_value v = base ? f->nodes.base_self[i] : f->nodes.self[i];
	return f->is_float ? v.d : (double)v.i;
}

/* "samples", a stack for each node with a value of its own, or their "weights". */
static int put_samples(struct buf *b, const struct flame *f, bool base, bool weights, double *sum, const struct permit *permit, struct err *e)
{
	VEC(uint32_t) path = { 0 };
	int rc = 0;
	*sum = 0;
	for (size_t i = 1; i < f->n_nodes && !rc; i++) {
		rc = permit_text_step(permit, i, b->len, e);
		double v = self_of(f, i, base);
		path.n = f->nodes.depth[i] - 1;
		vec_push(&path, f->nodes.frame[i] - 1);
		if (v <= 0)
			continue;
		*sum += v;
		if (weights) {
			json_float(b, v);
			continue;
		}
		json_array_begin(b);
		for (size_t k = 0; k < path.n; k++)
			json_int(b, path.v[k]);
		json_array_end(b);
	}
	vec_free(&path);
	return rc;
}

static int put_profile(struct buf *b, const struct merged_profile *m, const struct flame *f, bool base, const struct permit *permit, struct err *e)
{
	struct buf name = { 0 };
	if (m->type)
		ptype_title(m->type, &name);
	if (base)
		buf_puts(&name, ", compared with");
	json_object_begin(b);
	json_field_text(b, "type", "sampled");
	json_field(b, "name", buf_view(&name));
	buf_free(&name);
	json_field_text(b, "unit", unit_of(m));
	json_array_begin_at(b, "samples");
	double sum;
	int rc = put_samples(b, f, base, false, &sum, permit, e);
	json_array_end(b);
	json_array_begin_at(b, "weights");
	if (!rc)
		rc = put_samples(b, f, base, true, &sum, permit, e);
	json_array_end(b);
	json_field_int(b, "startValue", 0);
	json_field_float(b, "endValue", sum);
	json_object_end(b);
	if (rc)
		return rc;
	return isfinite(sum) ? 0 : err_set(e, ERR_EXECUTION, "the sum of the profile's values is too large for this format");
}

int speedscope_json(const struct merged_profile *m, struct view query, const struct permit *permit, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, NULL, permit, e);
	if (rc)
		return rc;
	rc = permit_need(permit, permit_text(permit, f.n_nodes * 128), e);
	if (rc) {
		flame_release(&f);
		return rc;
	}
	json_object_begin(out);
	json_field_text(out, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_field_text(out, "exporter", "pyrrha");
	json_field(out, "name", query);
	json_field_int(out, "activeProfileIndex", 0);
	json_object_begin_at(out, "shared");
	json_array_begin_at(out, "frames");
	rc = put_frames(out, &f, permit, e);
	json_array_end(out);
	json_object_end(out);
	json_array_begin_at(out, "profiles");
	if (!rc)
		rc = put_profile(out, m, &f, false, permit, e);
	if (!rc && f.has_base)
		rc = put_profile(out, m, &f, true, permit, e);
	json_array_end(out);
	json_object_end(out);
	buf_putc(out, '\n');
	flame_release(&f);
	return rc;
}
