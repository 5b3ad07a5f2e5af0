/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/many_days/agree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/many_days/fortnight.h"

static bool is_number(const char *at, const char *before)
{
	return ((*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9')) && !(before && ((*before >= '0' && *before <= '9') || *before == '.'));
}

/* Whether two texts differ in nothing but the last digits of numbers. */
static bool differ_in_digits(const char *a, const char *b)
{
	const char *before = NULL;
	while (*a && *b) {
		if (is_number(a, before) && is_number(b, before)) {
			char *end_a, *end_b;
			double x = strtod(a, &end_a), y = strtod(b, &end_b);
			if (fabs(x - y) > 1e-12 * fmax(fabs(x), fabs(y)) + OUTPUTS_NEARLY_0)
				return false;
			a = end_a;
			b = end_b;
			before = a - 1;
			continue;
		}
		if (*a != *b)
			return false;
		before = a++;
		b++;
	}
	return *a == *b;
}

static size_t first_difference(struct view a, struct view b)
{
	size_t i = 0;
	while (i < a.len && i < b.len && a.ptr[i] == b.ptr[i])
		i++;
	return i;
}

static void print_part(const char *who, struct view v, size_t at)
{
	size_t first = at > 80 ? at - 80 : 0, n = MIN(v.len - MIN(first, v.len), (size_t)200);
	fprintf(stderr, "  %s: ...%.*s\n", who, (int)n, v.ptr + MIN(first, v.len));
}

static void print_question(const struct question *q, unsigned number, const char *what)
{
	fprintf(stderr, "%s: question %u, %s of %u days, t %.3f start %.3f step %.0f\n  %s\n", what, number, question_form(q->form), q->days, (double)q->t_ms / 1000,
		(double)q->start_ms / 1000, (double)q->step_ms / 1000, q->text.ptr);
}

enum frames { FRAMES_EQUAL, FRAMES_SHARED, FRAMES_DIFFER };

/* Which files, binaries and start lines two flames show for each name. FRAMES_SHARED: they are not the same for names that several functions have. */
static enum frames compare_frames(struct agree *a, const struct question *q)
{
	struct buf x = { 0 }, y = { 0 };
	enum frames ret = FRAMES_EQUAL;
	outputs_put_frames(a->one, q, false, &x);
	outputs_put_frames(a->other, q, a->other_addresses, &y);
	for (struct view v = buf_view(&x), w = buf_view(&y); v.len || w.len;) {
		struct view line = view_cut(&v, '\n'), other = view_cut(&w, '\n');
		struct view rest = line, other_rest = other, name = view_cut(&rest, '\t');
		if (view_eq(line, other))
			continue;
		bool shared = view_eq(name, view_cut(&other_rest, '\t')) && fortnight_name_is_shared(name);
		ret = MAX(ret, shared ? FRAMES_SHARED : FRAMES_DIFFER);
	}
	buf_free(&x);
	buf_free(&y);
	return ret;
}

enum verdict { DIFFERS, OTHER_FILES, LAST_DIGITS };

/* The answers are not equal: whether they may differ so. x, y: the same as plain text. */
static enum verdict judge(struct agree *a, const struct question *q, const struct buf *x, const struct buf *y)
{
	bool has_files = q->form == FORM_FLAME || q->form == FORM_TABLE || q->form == FORM_COLUMNS;
	enum frames frames = has_files ? compare_frames(a, q) : FRAMES_EQUAL;
	if (frames == FRAMES_DIFFER)
		return DIFFERS;
	if (frames == FRAMES_SHARED && view_eq(buf_view(x), buf_view(y)))
		return OTHER_FILES;
	return question_is_scaled(q) && differ_in_digits(x->ptr, y->ptr) ? LAST_DIGITS : DIFFERS;
}

static void report(struct agree *a, const struct question *q, unsigned number, const struct buf *names, const struct buf *whole)
{
	static const char *const verdicts[] = { "DIFFERS", "another file of a name", "last digits" };
	struct buf x = { 0 }, y = { 0 };
	outputs_put_plain(a->one, q, false, &x);
	outputs_put_plain(a->other, q, a->other_addresses, &y);
	enum verdict v = judge(a, q, &x, &y);
	*(v == DIFFERS ? &a->differ : v == OTHER_FILES ? &a->files : &a->digits) += 1;
	print_question(q, number, verdicts[v]);
	bool as_plain = q->form == FORM_COLUMNS || q->form == FORM_MATRIX;
	struct view by_names = buf_view(as_plain ? &x : names), by_whole = buf_view(as_plain ? &y : whole);
	size_t at = first_difference(by_names, by_whole);
	if (v == DIFFERS) {
		print_part(a->names[0], by_names, at);
		print_part(a->names[1], by_whole, at);
	}
	buf_free(&x);
	buf_free(&y);
}

void agree_compare(struct agree *a, unsigned number)
{
	struct question q;
	struct buf names = { 0 }, whole = { 0 };
	question_draw(&q, &a->state);
	bool whole_first = kit_random(&a->state) % 4 == 0;
	if (whole_first)
		(void)outputs_put(&a->outputs, a->other, &q, a->other_addresses, &whole);
	bool any = outputs_put(&a->outputs, a->one, &q, false, &names);
	if (!whole_first)
		(void)outputs_put(&a->outputs, a->other, &q, a->other_addresses, &whole);
	a->by_form[q.form]++;
	a->by_days[q.days]++;
	a->bytes += names.len;
	if (!view_eq(buf_view(&names), buf_view(&whole)))
		report(a, &q, number, &names, &whole);
	else if (view_starts(buf_view(&names), VIEW("error ")))
		a->errors++;
	else if (any)
		a->equal++;
	else
		a->empty++;
	buf_free(&names);
	buf_free(&whole);
	question_release(&q);
}

void agree_print(const struct agree *a)
{
	printf("%u answers are equal, and %u empty ones and %u errors; %u show another file of a name, %u have other last digits; %zu bytes\n", a->equal, a->empty,
	       a->errors, a->files, a->digits, a->bytes);
	for (enum form f = 0; f < FORMS; f++)
		printf("%s: %u\n", question_form(f), a->by_form[f]);
	printf("of 1, 2, 15 days: %u, %u, %u\n", a->by_days[1], a->by_days[2], a->by_days[15]);
}
