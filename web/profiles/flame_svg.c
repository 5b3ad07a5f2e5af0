/* SPDX-License-Identifier: Apache-2.0 */
/* format=svg: a flame graph that stands alone: a picture without scripts, callers above, a title of each box to hover
 * over. Boxes take their colour from the package, of a diff from what grew (orange) and shrank (blue). */
#include <math.h>

#include "base/map.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "model/flame.h"
#include "web/profiles/merged.h"

#define WIDTH 1200.0
#define ROW 18
#define TOP 44
#define LEAST 0.3   /* narrower boxes are left out, px */
#define LETTER 6.6  /* px of one, a cell */

struct drawing {
	struct buf *out;
	const struct merged_profile *m;
	const struct flame *f;
	const struct permit *permit;
	VEC(double) x;      /* by depth: where the next child begins */
	double whole;       /* of the root's weight */
	uint32_t deepest;
};

/* Letters of East Asia and pictures are twice as wide as others; accents take no room of their own. */
static unsigned svg_cells(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} wide[] = { { 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f }, { 0xff01, 0xff60 },
		     { 0xffe0, 0xffe6 }, { 0x1f300, 0x1faff }, { 0x20000, 0x3fffd } };
	if (c < wide[0].first)
		return c < 0x300 || c > 0x36f;
	for (size_t i = 0; i < ARRAY_LEN(wide); i++)
		if (c >= wide[i].first && c <= wide[i].last)
			return 2;
	return 1;
}

static void put_text(struct buf *b, struct view v)
{
	for (size_t i = 0; i < v.len;) {
		char text[4];
		uint32_t c;
		i += utf8_shown(view_make(v.ptr + i, v.len - i), &c);
		if (c == '<' || c == '>' || c == '&' || c == '"')
			buf_printf(b, "&#%u;", c);
		else if (c < 0x80)
			buf_putc(b, (char)c);
		else
			buf_putv(b, view_make(text, utf8_encode(c, text)));
	}
}

/* The bytes of the longest beginning of v that takes at most so many cells. */
static size_t svg_fitting(struct view v, size_t cells)
{
	size_t at = 0;
	while (at < v.len) {
		uint32_t c;
		size_t n = utf8_shown(view_make(v.ptr + at, v.len - at), &c), takes = svg_cells(c);
		if (takes > cells)
			break;
		cells -= takes;
		at += n;
	}
	return at;
}

static double value_of(const struct flame *f, union flame_value v)
{
	return f->is_float ? v.d : (double)v.i;
}

/* Width counts both sides, so that what is only in one is seen. */
static double weight_of(const struct drawing *d, size_t i)
{
	const struct flame_node row = flame_node(d->f, i), *n = &row;
	double v = fabs(value_of(d->f, n->total));
	return d->f->has_base ? v + fabs(value_of(d->f, n->base_total)) : v;
}

static void put_amount(struct buf *b, const struct merged_profile *m, double native)
{
	unit_put(b, m->per_s > 0 ? native / m->per_s : native, m->type ? m->type->sample_unit : VIEW(""));
	if (m->per_s > 0)
		buf_puts(b, "/s");
}

static void put_colour(const struct drawing *d, size_t i)
{
	const struct flame_node row = flame_node(d->f, i), *n = &row;
	if (d->f->has_base) {
		double a = value_of(d->f, n->total), b = value_of(d->f, n->base_total), all = fabs(a) + fabs(b);
		double grown = all > 0 ? (a - b) / all : 0;
		int fade = 235 - (int)(fabs(grown) * 105);
		buf_printf(d->out, grown >= 0 ? "rgb(240,%d,%d)" : "rgb(%d,%d,240)", grown >= 0 ? (fade + 40) * 5 / 6 : fade,
			   grown >= 0 ? fade - 30 : (fade + 40) * 5 / 6);
		return;
	}
	struct view name = d->f->frames[n->frame].name;
	size_t len = 0; /* of the package: up to the first dot after the last slash */
	for (size_t k = 0; k < name.len; k++)
		if (name.ptr[k] == '/')
			len = k;
	while (len < name.len && name.ptr[len] != '.' && name.ptr[len] != ':')
		len++;
	uint64_t h = hash_stable_view(view_make(name.ptr, len));
	buf_printf(d->out, "hsl(%u,%u%%,%u%%)", (unsigned)(h % 70), (unsigned)(60 + h / 70 % 25), (unsigned)(62 + h / 2000 % 12));
}

static void put_box(struct drawing *d, size_t i, double x, double w)
{
	const struct flame_node row = flame_node(d->f, i), *n = &row;
	struct view name = d->f->frames[n->frame].name;
	double whole = value_of(d->f, d->f->nodes.total[0]), v = value_of(d->f, n->total);
	unsigned y = TOP + n->depth * ROW;
	buf_puts(d->out, "<g><title>");
	put_text(d->out, name);
	buf_puts(d->out, ", ");
	put_amount(d->out, d->m, v);
	percent_put(d->out, v, whole);
	if (d->f->has_base) {
		buf_puts(d->out, ", compared with ");
		put_amount(d->out, d->m, value_of(d->f, n->base_total));
	}
	buf_printf(d->out, "</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"", x, y, w, ROW - 1);
	put_colour(d, i);
	buf_puts(d->out, "\" rx=\"1\"/>");
	size_t letters = w > 3 * LETTER ? (size_t)((w - 6) / LETTER) : 0;
	if (letters >= 3) {
		buf_printf(d->out, "<text x=\"%.2f\" y=\"%u\">", x + 3, y + ROW - 6);
		bool whole_name = svg_fitting(name, letters) == name.len;
		put_text(d->out, whole_name ? name : view_make(name.ptr, svg_fitting(name, letters - 2)));
		buf_puts(d->out, whole_name ? "</text>" : "..</text>");
	}
	buf_puts(d->out, "</g>\n");
}

/* Nodes in preorder: a child begins where its elder siblings end. */
static int draw(struct drawing *d, bool put, struct err *e)
{
	int rc = 0;
	size_t skip = SIZE_MAX; /* depth of a box that is too narrow, and so are its callees */
	d->x.n = 0;
	vec_push(&d->x, 0);
	for (size_t i = 0; i < d->f->n_nodes && !rc; i++) {
		rc = permit_step(d->permit, i, e);
		if (rc)
			break;
		size_t depth = d->f->nodes.depth[i];
		if (depth > skip)
			continue;
		skip = SIZE_MAX;
		double x = d->x.v[depth], share = weight_of(d, i) / d->whole; /* where values of both signs cancel, above 1 */
		double w = WIDTH * fmin(1, share);
		d->x.v[depth] = x + w;
		d->x.n = depth + 1;
		vec_push(&d->x, x);
		if (w < LEAST) {
			skip = depth;
			continue;
		}
		d->deepest = MAX(d->deepest, (uint32_t)depth);
		if (put) {
			put_box(d, i, x, w);
			rc = permit_text_step(d->permit, i, d->out->len, e);
		}
	}
	return rc;
}

int flame_svg(const struct merged_profile *m, struct view query, const struct permit *permit, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, NULL, permit, e);
	if (rc)
		return rc;
	struct drawing d = { .out = out, .m = m, .f = &f, .permit = permit };
	d.whole = weight_of(&d, 0);
	if (!isfinite(d.whole)) {
		flame_release(&f);
		return err_set(e, ERR_EXECUTION, "the two sides of the diff together are too large for this format");
	}
	if (d.whole > 0)
		rc = draw(&d, false, e);
	if (!rc)
		rc = permit_need(permit, permit_text(permit, f.n_nodes * 300), e);
	unsigned height = TOP + (d.deepest + 1) * ROW + 8;
	struct buf title = { 0 };
	if (m->type)
		ptype_title(m->type, &title);
	else
		buf_puts(&title, "no profile");
	buf_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%u\" viewBox=\"0 0 %.0f %u\" role=\"img\" "
			"font-family=\"monospace\" font-size=\"11\">\n<title>", WIDTH, height, WIDTH, height);
	put_text(out, query);
	buf_printf(out, "</title>\n<rect width=\"%.0f\" height=\"%u\" fill=\"#fff\"/>\n<text x=\"4\" y=\"16\" font-size=\"13\">", WIDTH, height);
	put_text(out, buf_view(&title));
	buf_puts(out, ", ");
	put_amount(out, m, f.is_float ? f.nodes.total[0].d : (double)f.nodes.total[0].i);
	buf_puts(out, "</text>\n<text x=\"4\" y=\"33\" fill=\"#555\">");
	put_text(out, query);
	buf_puts(out, "</text>\n");
	if (d.whole > 0 && !rc)
		rc = draw(&d, true, e);
	buf_puts(out, "</svg>\n");
	buf_free(&title);
	vec_free(&d.x);
	flame_release(&f);
	return rc;
}
