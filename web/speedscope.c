/* SPDX-License-Identifier: Apache-2.0 */
/* format=speedscope: speedscope's own file format (www.speedscope.app/file-format-schema.json), with inlined calls as
 * frames, which its import of pprof leaves out. A diff is two profiles, what was and what it is compared with. */
#include <math.h>

#include "base/vec.h"
#include "model/flame.h"
#include "web/answer.h"
#include "web/formats.h"

/* A unit that speedscope knows. */
static const char *unit_of(const struct merged *m)
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

static void put_frames(struct buf *b, const struct flame *f)
{
	for (size_t i = 1; i < f->n_frames; i++) {
		const struct flame_frame *x = &f->frames[i];
		buf_puts(b, i > 1 ? ",{\"name\":" : "{\"name\":");
		buf_json_string(b, x->name);
		if (x->file.len || x->binary.len) {
			buf_puts(b, ",\"file\":");
			buf_json_string(b, x->file.len ? x->file : x->binary);
		}
		if (x->start_line > 0)
			buf_printf(b, ",\"line\":%lld", (long long)x->start_line);
		buf_putc(b, '}');
	}
}

static double self_of(const struct flame *f, size_t i, bool base)
{
	union flame_value v = base ? f->nodes[i].base_self : f->nodes[i].self;
	return f->is_float ? v.d : (double)v.i;
}

/* "samples", a stack for each node with a value of its own, or their "weights". */
static double put_samples(struct buf *b, const struct flame *f, bool base, bool weights)
{
	VEC(uint32_t) path = { 0 };
	const char *comma = "";
	double sum = 0;
	for (size_t i = 1; i < f->n_nodes; i++) {
		double v = self_of(f, i, base);
		path.n = f->nodes[i].depth - 1;
		vec_push(&path, f->nodes[i].frame - 1);
		if (v <= 0)
			continue;
		sum += v;
		buf_puts(b, comma);
		comma = ",";
		if (weights) {
			json_float(b, v);
			continue;
		}
		for (size_t k = 0; k < path.n; k++)
			buf_printf(b, "%s%u", k ? "," : "[", path.v[k]);
		buf_putc(b, ']');
	}
	vec_free(&path);
	return sum;
}

static int put_profile(struct buf *b, const struct merged *m, const struct flame *f, bool base, struct err *e)
{
	struct buf name = { 0 };
	if (m->type)
		ptype_title(m->type, &name);
	if (base)
		buf_puts(&name, ", compared with");
	buf_puts(b, "{\"type\":\"sampled\",\"name\":");
	buf_json_string(b, buf_view(&name));
	buf_free(&name);
	buf_printf(b, ",\"unit\":\"%s\",\"samples\":[", unit_of(m));
	put_samples(b, f, base, false);
	buf_puts(b, "],\"weights\":[");
	double sum = put_samples(b, f, base, true);
	buf_puts(b, "],\"startValue\":0,\"endValue\":");
	json_float(b, sum);
	buf_putc(b, '}');
	return isfinite(sum) ? 0 : err_set(e, ERR_EXECUTION, "the sum of the profile's values is too large for this format");
}

int speedscope_json(const struct merged *m, struct view query, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, NULL, e);
	if (rc)
		return rc;
	buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"pyrrha\",\"name\":");
	buf_json_string(out, query);
	buf_puts(out, ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
	put_frames(out, &f);
	buf_puts(out, "]},\"profiles\":[");
	rc = put_profile(out, m, &f, false, e);
	if (!rc && f.has_base) {
		buf_putc(out, ',');
		rc = put_profile(out, m, &f, true, e);
	}
	buf_puts(out, "]}\n");
	flame_release(&f);
	return rc;
}
