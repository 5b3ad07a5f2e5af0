/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/many_days/questions.h"

#include <stdio.h>

#include "tests/many_days/fortnight.h"

struct draw {
	struct question *q;
	struct buf *b;
	uint64_t *state;
	const char *type; /* the one of all selectors, so that formats can add them up */
	const char *range; /* of a graph: that of its windows; NULL: drawn */
};

static unsigned draw_below(struct draw *d, unsigned n)
{
	return (unsigned)(kit_random(d->state) % n);
}

#define ONE_OF(d, ...) one_of(d, (const char *const[]){ __VA_ARGS__ }, ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))
static const char *one_of(struct draw *d, const char *const *list, size_t n)
{
	return list[draw_below(d, (unsigned)n)];
}

/* ---- ranges ---- */

static const char *draw_range(struct draw *d)
{
	if (d->range && draw_below(d, 8))
		return d->range;
	return d->q->days == 1 ? ONE_OF(d, "1d", "1d", "20h", "6h", "5h") : d->q->days == 2 ? ONE_OF(d, "2d", "2d", "26h", "36h", "7h") : ONE_OF(d, "15d", "15d", "14d", "10d", "1w");
}

static void put_range(struct draw *d)
{
	buf_printf(d->b, "%s%s[%s]", d->type, ONE_OF(d, "", "", "", "{pod=\"pod-1\"}", "{pod!=\"pod-0\"}", "{job=\"web\"}", "{pod=~\"pod-[02]\"}"), draw_range(d));
	if (draw_below(d, 9) == 0)
		buf_puts(d->b, d->q->days == 15 ? ONE_OF(d, " offset 1d", " offset 12h") : ONE_OF(d, " offset 1d", " offset 7h", " offset 3d"));
}

static bool is_gauge(const struct draw *d)
{
	return view_starts(view_of(d->type), VIEW("heap_inuse"));
}

/* ---- frames ---- */

static void put_matchers(struct draw *d)
{
	char name[64];
	fortnight_function(draw_below(d, FUNCTIONS), name, sizeof name);
	switch (draw_below(d, 12)) {
	case 0: buf_puts(d->b, "{function=~\"main\\\\.f[12].*\"}"); break;
	case 1: buf_puts(d->b, "{function=~\".*0x.*\"}"); break;
	case 2: buf_printf(d->b, "{file=~\"%s\"}", ONE_OF(d, ".*b\\\\.go", "/moved/.*", "/moved/1/.*", ".*multi_.*", "")); break;
	case 3: buf_printf(d->b, "{file=\"%s\"}", ONE_OF(d, "/moved/0/c.go", "a.go", "multi_e.go", "/src/multi_a.go")); break;
	case 4: buf_printf(d->b, "{line=%s}", ONE_OF(d, "~\"1.\"", "\"14\"", "~\".*5\"", "\"0\"")); break;
	case 5: buf_printf(d->b, "{binary=%s}", ONE_OF(d, "\"shop\"", "\"libc.so.6\"", "~\"/srv/.*\"", "\"\"", "\"plugin.so\"")); break;
	case 6: buf_printf(d->b, "{function=\"%s\",line=~\"%s\"}", name, ONE_OF(d, "[0-9]*[02468]", ".*", "2.")); break;
	case 7: buf_printf(d->b, "{function!~\"%s\"}", ONE_OF(d, "main.*", "runtime.*", ".*0x.*")); break;
	case 8: buf_puts(d->b, "{binary=\"shop\",file!=\"/src/a.go\"}"); break;
	default: buf_printf(d->b, "{function=\"%s\"}", name);
	}
}

static void put_frames(struct draw *d, bool string)
{
	const char *text = ONE_OF(d, "cart", "main", "multi", "moved", "libc", "runtime\\\\.g", "f[0-9]$", "plugin", "b\\\\.go");
	if (draw_below(d, 3))
		put_matchers(d);
	else
		buf_printf(d->b, string ? "\"%s\"" : "frames(\"%s\")", text);
}

/* ---- profiles ---- */

static const char *draw_by(struct draw *d)
{
	return ONE_OF(d, "", "", " by (pod)", " by (job)", " without (pod)", " by (nothing)");
}

/* What is stored, added up. */
static void put_stored(struct draw *d)
{
	const char *by = draw_by(d);
	unsigned calls = 1;
	switch (draw_below(d, 10)) {
	case 0: buf_puts(d->b, "merge_over_time("); break;
	case 1: buf_printf(d->b, "sum%s (merge_over_time(", by); calls = 2; break;
	case 2: buf_puts(d->b, is_gauge(d) ? "avg_over_time(" : "rate("); break;
	case 3: buf_printf(d->b, "%s%s (%s(", is_gauge(d) ? "avg" : "merge", by, is_gauge(d) ? "avg_over_time" : "rate"); calls = 2; break;
	case 4: buf_puts(d->b, ONE_OF(d, "sum_over_time(", "avg_over_time(", "max_over_time(", "last_over_time(")); break;
	case 5: buf_puts(d->b, is_gauge(d) ? "sum_over_time(" : "increase("); break;
	default: buf_printf(d->b, "merge%s (", by);
	}
	put_range(d);
	while (calls--)
		buf_putc(d->b, ')');
}

static void put_profiles(struct draw *d, unsigned depth);

/* Both sides have elements with the same labels. */
static void put_pair(struct draw *d, unsigned depth, const char *begin, const char *between, const char *end)
{
	const char *by = draw_by(d);
	for (unsigned i = 0; i < 2; i++) {
		buf_puts(d->b, i ? between : begin);
		buf_printf(d->b, "merge%s (", by);
		put_profiles(d, depth - 1);
		buf_putc(d->b, ')');
	}
	buf_puts(d->b, end);
}

static void put_profiles(struct draw *d, unsigned depth)
{
	unsigned kind = depth ? draw_below(d, 22) : 22;
	const char *end = ")";
	if (kind < 4) {
		/* Nothing is scaled to a difference: of fractions its total is 0, or nearly so, and the answer another one. */
		put_pair(d, depth, kind < 2 ? "diff(" : "(", kind < 2 ? ", " : kind == 2 ? " + " : " - ", kind == 1 && depth == 1 ? ", \"share\")" : ")");
		return;
	}
	if (kind < 11) {
		buf_puts(d->b, ONE_OF(d, "focus(", "ignore(", "hide(", "show(", "show_from(", "prune_from("));
		put_profiles(d, depth - 1);
		buf_puts(d->b, ", ");
		put_frames(d, true);
		buf_putc(d->b, ')');
		return;
	}
	switch (kind) {
	case 11: buf_puts(d->b, "where("); end = *d->type == 'h' ? ", \"bytes\", \"20:70\")" : ONE_OF(d, ", {thread=\"t1\"})", ", {thread!=\"\"})"); break;
	case 12: buf_printf(d->b, "split by (%s) (", *d->type == 'h' ? "bytes" : "thread"); break;
	case 13: buf_puts(d->b, "collapse("); end = ", \"recursion\")"; break;
	case 14: buf_puts(d->b, "invert("); break;
	case 15: buf_puts(d->b, "trim("); end = ONE_OF(d, ", 0.01)", ", 0.05)", ", 0.2)"); break;
	case 16: buf_puts(d->b, "tagroot("); end = ONE_OF(d, ", \"pod\")", ", \"thread\")", ", \"job\", \"bytes\")"); break;
	case 17: buf_putc(d->b, '('); end = ONE_OF(d, " * 0.5)", " / 3)", " * 2)"); break;
	/* The percentages of a graph of calls are of the sum of absolute values of stacks. Of a profile with values below and above 0, which is not a diff, that
	 * depends on which stacks are one: they are more by addresses than by names. */
	case 18: buf_puts(d->b, d->q->form == FORM_DOT ? "(2 * " : "(-"); break;
	case 19: buf_printf(d->b, "merge%s (", draw_by(d)); break;
	default:
		put_stored(d);
		return;
	}
	put_profiles(d, depth - 1);
	buf_puts(d->b, end);
}

/* ---- values ---- */

static void put_readout(struct draw *d, unsigned depth)
{
	const char *name = ONE_OF(d, "self", "total", "total", "share", "share", "self_share");
	unsigned kind = draw_below(d, 12);
	if (kind == 0) {
		buf_puts(d->b, ONE_OF(d, "callers(", "callees("));
		put_profiles(d, depth);
		buf_puts(d->b, ", ");
		put_frames(d, true);
		buf_putc(d->b, ')');
		return;
	}
	if (kind == 1) {
		buf_puts(d->b, ONE_OF(d, "value(", "samples("));
		put_profiles(d, depth);
		buf_putc(d->b, ')');
		return;
	}
	const char *bound = kind == 2 ? ONE_OF(d, "share_low", "share_high", "self_share_low", "self_share_high") : NULL;
	buf_printf(d->b, "%s(", bound ? bound : name);
	put_profiles(d, depth);
	if (draw_below(d, 2)) {
		buf_puts(d->b, ", ");
		put_frames(d, false);
	}
	if (draw_below(d, 2))
		buf_printf(d->b, ", \"%s\"", ONE_OF(d, "function", "line", "line", "file", "binary", "package"));
	buf_puts(d->b, bound ? ONE_OF(d, ", 3)", ", 0)") : ")");
}

static void put_values(struct draw *d)
{
	unsigned depth = MIN(draw_below(d, 4), 2);
	bool rated = !is_gauge(d) && draw_below(d, 3) == 0;
	switch (draw_below(d, 22)) {
	case 0:
	case 1:
		buf_printf(d->b, "%s%s (%s, ", ONE_OF(d, "topk", "topk", "bottomk"), ONE_OF(d, "", "", " by (pod)", " by (function)"), ONE_OF(d, "1", "3", "10", "100"));
		put_readout(d, depth);
		buf_putc(d->b, ')');
		break;
	case 2:
		buf_printf(d->b, "%s by (%s) (", ONE_OF(d, "sum", "max", "count"), ONE_OF(d, "function", "pod", "file", "binary", "line, file"));
		put_readout(d, depth);
		buf_putc(d->b, ')');
		break;
	case 3:
		put_readout(d, depth);
		buf_puts(d->b, ONE_OF(d, " > 0.1", " >= 0.02", " < 5", " != 0", " > bool 0.05"));
		break;
	case 4:
		put_pair(d, depth + 1, "share(", ONE_OF(d, ") - share(", ") - fill_right(0) share(", ") - fill(0) share("), ONE_OF(d, ")", ") > 0.01"));
		break;
	case 5:
		buf_printf(d->b, "sum%s (rate(", draw_by(d));
		put_range(d);
		buf_puts(d->b, "))");
		break;
	case 6:
		buf_printf(d->b, "%s(requests_total[%s])", ONE_OF(d, "rate", "avg_over_time", "increase", "count_over_time"), draw_range(d));
		break;
	case 7:
		buf_puts(d->b, ONE_OF(d, "max_over_time(", "avg_over_time(", "last_over_time(", "sum_over_time("));
		put_readout(d, 0);
		buf_puts(d->b, ONE_OF(d, "[1d:6h])", "[12h:4h])", "[2d:1d])"));
		break;
	case 8:
		put_readout(d, 0);
		buf_puts(d->b, ONE_OF(d, " unless ", " and ", " or ", " unless on (function) ", " and on (pod) "));
		put_readout(d, depth);
		break;
	case 9: /* few rows, which are chosen before they have names */
		buf_printf(d->b, "%s(merge%s (", ONE_OF(d, "share", "self_share", "total", "self"), draw_by(d));
		put_range(d);
		buf_printf(d->b, ")%s) > %s", ONE_OF(d, "", "", ", \"function\"", ", \"line\"", ", {function=~\"main.*\"}, \"function\""), ONE_OF(d, "0.05", "0.2", "0"));
		break;
	case 10: /* one function, whose sums are all that is read */
		buf_printf(d->b, "%s(merge%s (", ONE_OF(d, "share", "self_share", "total", "self"), draw_by(d));
		put_range(d);
		buf_puts(d->b, "), ");
		put_frames(d, false);
		buf_putc(d->b, ')');
		break;
	case 11: /* the same of a rate */
		buf_printf(d->b, "%s(merge%s (%s(", ONE_OF(d, "total", "share"), draw_by(d), is_gauge(d) ? "avg_over_time" : "rate");
		put_range(d);
		buf_puts(d->b, ")), ");
		put_frames(d, false);
		buf_putc(d->b, ')');
		break;
	case 12: /* rows of many steps, whose stored values are read */
	case 13:
	case 14:
	case 15:
		buf_printf(d->b, "%s (%s, %s(merge%s (%s", ONE_OF(d, "topk", "topk", "bottomk"), ONE_OF(d, "1", "3", "10", "1000"),
			   ONE_OF(d, "self", "total", "share", "self_share"), draw_by(d), rated ? "rate(" : "");
		put_range(d);
		buf_printf(d->b, "%s)%s))", rated ? ")" : "", ONE_OF(d, "", ", \"function\"", ", \"line\"", ", \"file\"", ", \"binary\"", ", \"package\""));
		break;
	default:
		put_readout(d, depth);
	}
}

/* ---- the question ---- */

const char *question_form(enum form f)
{
	static const char *const names[FORMS] = { "values", "graph", "matrix", "flame", "table", "columns", "folded", "svg", "dot" };
	return names[f];
}

bool question_is_scaled(const struct question *q)
{
	static const char *const signs[] = { "rate(", "increase(", "avg", " * ", " / ", "\"share\"", "heap_inuse" };
	for (size_t i = 0; i < ARRAY_LEN(signs); i++)
		if (view_contains(buf_view(&q->text), view_of(signs[i])))
			return true;
	return false;
}

static void draw_time(struct draw *d)
{
	struct question *q = d->q;
	int64_t last = q->days == 15 ? DAYS : q->days + draw_below(d, DAYS + 1 - q->days);
	if (q->days != 15 && draw_below(d, 4) == 0)
		last = draw_below(d, 2) ? 4 : 13; /* after a day with late names */
	q->t_ms = KIT_T0 + last * DAY;
	if (draw_below(d, 3) == 0)
		q->t_ms += (int64_t)draw_below(d, 24) * HOUR;
	if (draw_below(d, 6) == 0)
		q->t_ms += (int64_t)draw_below(d, 60) * MINUTE + 1500;
	q->t_ms = draw_below(d, 2) ? MIN(q->t_ms, FORTNIGHT_NOW) : q->t_ms;
}

static void draw_steps(struct draw *d)
{
	static const struct { const char *text; int64_t ms; } steps[] = { { "1h", HOUR }, { "2h", 2 * HOUR }, { "6h", 6 * HOUR }, { "12h", 12 * HOUR }, { "1d", DAY } };
	unsigned i = d->q->days == 15 ? 3 + draw_below(d, 2) : d->q->days == 2 ? 1 + draw_below(d, 3) : draw_below(d, 3);
	d->q->step_ms = steps[i].ms;
	d->q->start_ms = d->q->t_ms - d->q->days * DAY + (draw_below(d, 2) ? steps[i].ms : 0);
	d->range = steps[i].text;
}

static void draw_flame(struct draw *d)
{
	struct question *q = d->q;
	q->functions = q->form == FORM_TABLE ? 1000 : draw_below(d, 2) ? 0 : 20;
	q->min_share = draw_below(d, 3) ? 0 : 0.02;
	q->search = draw_below(d, 3) ? NULL : ONE_OF(d, "main", "cart", "b\\.go", "moved", "0x");
	if (draw_below(d, 4) == 0) {
		q->root[q->n_root++] = VIEW("main.f0");
		if (draw_below(d, 2))
			q->root[q->n_root++] = VIEW("runtime.g2");
	}
}

void question_draw(struct question *q, uint64_t *state)
{
	static const unsigned days[] = { 1, 2, 15 };
	struct draw d = { q, &q->text, state, NULL, NULL };
	*q = (struct question){ .days = 0 };
	q->days = days[draw_below(&d, ARRAY_LEN(days))];
	unsigned form = draw_below(&d, 20);
	q->form = form < 6 ? FORM_VALUES : form < 10 ? FORM_GRAPH : (enum form)(form % (FORMS - FORM_MATRIX) + FORM_MATRIX);
	d.type = ONE_OF(&d, "cpu", "cpu", "cpu_samples", "heap_inuse_space", "heap_inuse_objects", "heap_alloc_space");
	draw_time(&d);
	if (q->form == FORM_GRAPH || q->form == FORM_MATRIX)
		draw_steps(&d);
	if (q->form <= FORM_MATRIX)
		put_values(&d);
	else
		put_profiles(&d, draw_below(&d, 4));
	if (q->form == FORM_FLAME || q->form == FORM_TABLE || q->form == FORM_COLUMNS)
		draw_flame(&d);
}

void question_release(struct question *q)
{
	buf_free(&q->text);
}
