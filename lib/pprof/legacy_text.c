/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of addresses as text: contention (C++'s contentionz, Go's mutex and block with debug=1), Go's counts (goroutine,
 * threadcreate with debug=1) and threadz. */
#include "pprof/legacy.h"

/* The first line that is neither empty nor a comment. */
static struct view first_word_line(struct view text)
{
	for (;;) {
		const char *nl = memchr(text.ptr, '\n', text.len);
		struct view line = view_make(text.ptr, nl ? (size_t)(nl - text.ptr) : text.len);
		if (!nl || !scan_is_idle(line)) {
			line.len -= line.len && line.ptr[line.len - 1] == '\r';
			return line;
		}
		text = view_make(nl + 1, text.len - line.len - 1);
	}
}

static bool next_word_line(struct draft *d, struct view *line)
{
	while (draft_line(d, line))
		if (!scan_is_idle(*line))
			return true;
	return false;
}

/* ---- contention ----
 *
 *	--- contentionz 1 ---
 *	cycles/second = 3201000000
 *	sampling period = 100
 *	ms since reset = 16502830
 *	CYCLES COUNT @ 0x... 0x...
 */

bool legacy_is_contention(struct view text)
{
	return (view_starts(text, VIEW("--- contentionz ")) && !legacy_is_java(text)) || view_starts(text, VIEW("--- mutex:")) ||
	       view_starts(text, VIEW("--- contention:"));
}

static int contention_attribute(struct draft *d, struct view line, int64_t *hz)
{
	const char *eq = memchr(line.ptr, '=', line.len);
	struct view key = view_trim(view_make(line.ptr, (size_t)(eq - line.ptr)));
	struct view text = view_trim(view_make(eq + 1, (size_t)(line.ptr + line.len - eq) - 1));
	int64_t v = 0;
	bool number = scan_i64(&text, &v) && !text.len;
	if (view_eqs(key, "discarded samples"))
		return 0;
	if (!number)
		return draft_fail(d, ERR_BAD_DATA, "\"%.*s\" is no number", VIEW_ARG(text));
	if (view_eqs(key, "cycles/second"))
		*hz = v;
	else if (view_eqs(key, "sampling period"))
		d->p->period = v;
	else if (view_eqs(key, "ms since reset"))
		d->p->duration_ns = legacy_times(d, v, 1000000);
	else
		return draft_fail(d, ERR_BAD_DATA, "unknown attribute \"%.*s\"", VIEW_ARG(key));
	return d->rc;
}

/* Time is given in cycles, and both as sampled. */
static void contention_sample(struct draft *d, struct view line, int64_t hz)
{
	int64_t delay, n, period = d->p->period;
	struct view v = line;
	while (v.len && !is_digit(*v.ptr))
		v = view_make(v.ptr + 1, v.len - 1);
	bool ok = scan_i64(&v, &delay);
	scan_blanks(&v);
	ok = ok && v.len && is_digit(*v.ptr) && scan_i64(&v, &n) && scan_word(&v, " @");
	if (!ok) {
		draft_fail(d, ERR_BAD_DATA, "not \"cycles count @ addresses\"");
		return;
	}
	if (period > 0) {
		if (hz > 0)
			delay = legacy_whole(d, (double)delay * (double)period / ((double)hz / 1e9));
		n = legacy_times(d, n, period);
	}
	draft_sample(d, (int64_t[]){ n, delay });
	scan_addresses(d, v, 0);
}

int legacy_contention(struct draft *d)
{
	struct view line = VIEW("");
	int64_t hz = 0;
	draft_period_type(d, "contentions", "count");
	draft_sample_type(d, "contentions", VIEW("count"));
	draft_sample_type(d, "delay", VIEW("nanoseconds"));
	d->p->period = 1;
	bool more = draft_line(d, &line);
	while ((more = next_word_line(d, &line)) && !view_starts(line = view_trim(line), VIEW("---")) && memchr(line.ptr, '=', line.len))
		contention_attribute(d, line, &hz);
	for (; more && !view_starts(line = view_trim(line), VIEW("---")); more = next_word_line(d, &line))
		contention_sample(d, line, hz);
	return d->rc ? d->rc : legacy_other_sections(d, more ? line : VIEW(""));
}

/* ---- counts ----
 *
 *	goroutine profile: total 7
 *	3 @ 0x... 0x...
 *	#	0x44cb3	main.work+0x13	main.go:12
 */

/* "WORD profile: total N" */
static bool count_head(struct view line, struct view *type)
{
	const char *at = memmem(line.ptr, line.len, " profile: total ", 16);
	int64_t n;
	if (!at || at == line.ptr)
		return false;
	*type = view_make(line.ptr, (size_t)(at - line.ptr));
	for (size_t i = 0; i < type->len; i++)
		if (is_blank(type->ptr[i]))
			return false;
	struct view rest = view_make(at + 16, (size_t)(line.ptr + line.len - at) - 16);
	return rest.len && is_digit(*rest.ptr) && scan_i64(&rest, &n) && !rest.len;
}

bool legacy_is_count(struct view text)
{
	struct view type;
	return text.len && count_head(first_word_line(text), &type);
}

int legacy_count(struct draft *d)
{
	struct view line, type = VIEW("");
	bool more = next_word_line(d, &line);
	if (!more || !count_head(line, &type))
		return d->rc ? d->rc : draft_fail(d, ERR_BAD_DATA, "no \"TYPE profile: total N\"");
	uint32_t str = draft_string(d, type);
	draft_period_type(d, "", "count");
	draft_sample_type(d, "", VIEW("count"));
	if (d->rc)
		return d->rc;
	d->p->period_type.type_str = d->p->sample_types[0].type_str = str;
	d->p->period = 1;
	while ((more = next_word_line(d, &line)) && !view_starts(line, VIEW("---"))) {
		int64_t n;
		if (!is_digit(*line.ptr) || !scan_i64(&line, &n) || !scan_word(&line, " @ 0x"))
			return draft_fail(d, ERR_BAD_DATA, "not \"count @ addresses\"");
		draft_sample(d, &n);
		scan_addresses(d, view_make(line.ptr - 2, line.len + 2), 0);
	}
	return d->rc ? d->rc : legacy_other_sections(d, more ? line : VIEW(""));
}

/* ---- threads ----
 *
 *	--- threadz 1 ---
 *	--- Thread 7f794964e700 (name: thread1/14751) stack: ---
 *	  PC:  0x7f794a32bf7d: nanosleep
 *	  0x7f794a32414e: start_thread
 */

static bool is_thread(struct view line)
{
	const char *at = memmem(line.ptr, line.len, "--- Thread ", 11);
	if (!at)
		return false;
	struct view v = view_make(at + 11, (size_t)(line.ptr + line.len - at) - 11);
	uint64_t id;
	return scan_hex(&v, &id) && scan_word(&v, " (name: ") && view_contains(v, VIEW(") stack: ---"));
}

bool legacy_is_threads(struct view text)
{
	struct view line = text.len ? first_word_line(text) : VIEW("");
	return is_thread(line) || view_contains(line, VIEW("--- threadz "));
}

/* Every address of the line. The first one of a thread is its current address, the others are return addresses. */
static void thread_frames(struct draft *d, struct view line, bool first)
{
	for (size_t i = 0; i + 2 < line.len && !d->rc; i++) {
		uint64_t address;
		struct view v = view_make(line.ptr + i, line.len - i);
		if (v.ptr[0] != '0' || v.ptr[1] != 'x' || scan_hex_digit(v.ptr[2]) < 0)
			continue;
		if (!scan_hex(&v, &address)) {
			draft_fail(d, ERR_BAD_DATA, "an address of more than 64 bits");
			return;
		}
		if (first)
			draft_sample(d, (int64_t[]){ 1 });
		draft_frame(d, draft_address(d, first ? address : address - 1));
		first = false;
		i = (size_t)(v.ptr - line.ptr) - 1;
	}
}

/* A thread's lines; *line is its head, and then what follows it. False at the end of the text. */
static bool thread(struct draft *d, struct view *line)
{
	uint32_t before = d->p->n_samples;
	bool same = false, more;
	while ((more = draft_line(d, line))) {
		*line = view_trim(*line);
		if (view_starts(*line, VIEW("---")) || legacy_is_maps_head(*line))
			break;
		same |= view_contains(*line, VIEW("same as previous thread"));
		if (!same)
			thread_frames(d, *line, d->p->n_samples == before);
	}
	if (d->p->n_samples == before && before && !d->rc)
		d->p->values[before - 1]++;
	return more;
}

int legacy_threads(struct draft *d)
{
	struct view line = VIEW("");
	draft_period_type(d, "thread", "count");
	draft_sample_type(d, "thread", VIEW("count"));
	d->p->period = 1;
	bool more = next_word_line(d, &line);
	if (more && !is_thread(line))
		while ((more = draft_line(d, &line)) && !legacy_is_maps_head(line) && (!line.len || *line.ptr != '-'))
			;
	while (more && !d->rc && !legacy_is_maps_head(line) && !view_starts(line, VIEW("---- no stack trace for"))) {
		if (!is_thread(line))
			return draft_fail(d, ERR_BAD_DATA, "not \"--- Thread ID (name: NAME) stack: ---\"");
		more = thread(d, &line);
	}
	if (!d->rc && !legacy_other_sections(d, more ? line : VIEW("")))
		legacy_drop_doubles(d);
	return d->rc;
}
