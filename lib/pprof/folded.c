/* SPDX-License-Identifier: Apache-2.0 */
/* Folded text, as Brendan Gregg's scripts, async-profiler ("collapsed") and fgprof write it: a stack a line, its frames from the
 * outermost call inwards, then its value.
 *
 *	main;work;malloc 12
 *	[worker tid=7];main;work 1.5
 *
 * A frame is what stands between semicolons; there is no escaping. Blank lines are passed over. A float is rounded. What
 * the numbers count the text does not say: pprof_limits.folded does, or it is samples.
 *
 * Text of many kinds ends its lines with numbers. So all lines must have the form, and one of them a semicolon, unless
 * folded text was asked for. */
#include "base/num.h"
#include "pprof/legacy.h"

/* Its stack and number; false: it has not the form. */
static bool parts(struct view line, struct view *stack, int64_t *ret)
{
	size_t i = line.len;
	double v;
	while (i > 0 && !is_blank(line.ptr[i - 1]))
		i--;
	struct view number = view_make(line.ptr + i, line.len - i);
	*stack = view_trim(view_make(line.ptr, i));
	if (!number.len || !stack->len || !(is_digit(*number.ptr) || *number.ptr == '-') || !is_digit(number.ptr[number.len - 1]))
		return false;
	return num_parse_i64(number, ret) || (num_parse_double(number, &v) && num_round_i64(v, ret));
}

static bool is_text(struct view v)
{
	for (size_t i = 0; i < v.len; i++)
		if ((unsigned char)v.ptr[i] < ' ' && !is_blank(v.ptr[i]))
			return false;
	return true;
}

bool folded_is(struct view text, bool asked)
{
	bool any = false, nested = asked;
	while (text.len) {
		const char *nl = memchr(text.ptr, '\n', text.len);
		size_t n = nl ? (size_t)(nl - text.ptr) : text.len;
		struct view line = view_trim(view_make(text.ptr, n)), stack;
		int64_t v;
		text = view_make(text.ptr + n + (nl != NULL), text.len - n - (nl != NULL));
		if (!line.len)
			continue;
		if (!is_text(line))
			return false;
		if (!parts(line, &stack, &v))
			return any && nested; /* the reader says which line is wrong */
		any = true;
		nested |= memchr(stack.ptr, ';', stack.len) != NULL;
	}
	return nested && (any || asked);
}

static void frames(struct draft *d, struct view stack)
{
	while (stack.len && !d->rc) {
		const char *end = memchr(stack.ptr, ';', stack.len);
		size_t n = end ? (size_t)(end - stack.ptr) : stack.len;
		if (n)
			draft_frame(d, draft_name(d, view_make(stack.ptr, n)));
		stack = view_make(stack.ptr + n + (end != NULL), stack.len - n - (end != NULL));
	}
	if (!d->rc)
		draft_reverse(d);
}

int folded_read(struct draft *d)
{
	const struct pprof_folded *said = d->lim.folded;
	struct view line, stack;
	d->p->duration_ns = d->lim.asked_ns;
	draft_sample_type(d, said && said->type ? said->type : "samples", view_of(said && said->unit ? said->unit : "count"));
	while (draft_line(d, &line)) {
		int64_t v;
		line = view_trim(line);
		if (!line.len)
			continue;
		if (!parts(line, &stack, &v))
			return draft_fail(d, ERR_BAD_DATA, "not \"frame;frame number\": \"%.*s\"", (int)MIN(line.len, (size_t)60), line.ptr);
		draft_sample(d, &v);
		frames(d, stack);
	}
	return d->rc;
}
