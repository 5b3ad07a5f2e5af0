/* SPDX-License-Identifier: Apache-2.0 */
/* The format of old Java profilers: stacks of small numbers, followed by the name of each number.
 *
 *	--- heapz 1 ---                 or contentionz
 *	format = java
 *	resolution = bytes
 *	    7048    1 @ 0x00000003 0x00000004       BYTES COUNT
 *
 *	 0x00000003 com.example.work (source.java:42)
 */
#include "pprof/legacy.h"

#define HEAP_RATE 524288

enum java { JAVA_HEAP, JAVA_CONTENTION };

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ' ';
}

/* "key=value" of words; what stands around them is of no interest. */
static bool attribute(struct view line, struct view *key, struct view *value)
{
	for (size_t i = 1; i + 1 < line.len; i++) {
		size_t from = i, to = i + 1;
		if (line.ptr[i] != '=' || !is_word(line.ptr[i - 1]) || !is_word(line.ptr[i + 1]))
			continue;
		while (from > 0 && is_word(line.ptr[from - 1]))
			from--;
		while (to < line.len && is_word(line.ptr[to]))
			to++;
		*key = view_trim(view_make(line.ptr + from, i - from));
		*value = view_trim(view_make(line.ptr + i + 1, to - i - 1));
		return true;
	}
	return false;
}

/* The header, complete lines, and whether an attribute says that the format is Java's. */
bool legacy_is_java(struct view text)
{
	struct view key, value;
	bool head = false;
	for (int i = 0; i < 16 && text.len; i++) {
		const char *nl = memchr(text.ptr, '\n', text.len);
		struct view line = view_trim(view_make(text.ptr, nl ? (size_t)(nl - text.ptr) : text.len));
		if (!i)
			head = view_eqs(line, "--- heapz 1 ---") || view_eqs(line, "--- contentionz 1 ---");
		else if (head && attribute(line, &key, &value) && (view_eqs(key, "format") || view_eqs(key, "resolution")))
			return true;
		if (!head || !nl)
			break;
		text = view_make(nl + 1, (size_t)(text.ptr + text.len - nl) - 1);
	}
	return false;
}

static int say_attribute(struct draft *d, enum java kind, struct view key, struct view value)
{
	int64_t v = 0;
	struct view rest = value;
	bool number = scan_i64(&rest, &v) && !rest.len;
	if (view_eqs(key, "format") && view_eqs(value, "java"))
		return 0;
	if (view_eqs(key, "resolution")) {
		d->p->n_sample_types = 0; /* the last counts */
		draft_sample_type(d, kind == JAVA_HEAP ? "inuse_objects" : "contentions", VIEW("count"));
		draft_sample_type(d, kind == JAVA_HEAP ? "inuse_space" : "delay", value);
	} else if (kind == JAVA_CONTENTION && number && view_eqs(key, "sampling period")) {
		draft_period_type(d, "contentions", "count");
		d->p->period = v;
	} else if (kind == JAVA_CONTENTION && number && view_eqs(key, "ms since reset")) {
		d->p->duration_ns = legacy_times(d, v, 1000000);
	} else {
		draft_fail(d, ERR_BAD_DATA, "unknown attribute \"%.*s\" = \"%.*s\"", VIEW_ARG(key), VIEW_ARG(value));
	}
	return d->rc;
}

/* SIZE COUNT @ ADDRESSES; false: it has another form. */
static bool sample(struct draft *d, enum java kind, struct view line)
{
	int64_t size, n;
	if (!line.len || !is_digit(*line.ptr) || !scan_i64(&line, &size) || !line.len || *line.ptr != ' ')
		return false;
	scan_blanks(&line);
	if (!line.len || !is_digit(*line.ptr) || !scan_i64(&line, &n) || !line.len || *line.ptr != ' ')
		return false;
	scan_blanks(&line);
	if (!scan_word(&line, "@ "))
		return false;
	int64_t each = 0;
	if (kind == JAVA_HEAP) {
		if (!n) {
			draft_fail(d, ERR_BAD_DATA, "%lld bytes of 0 objects", (long long)size);
			return true;
		}
		each = size / n;
		legacy_unsample(d, &n, &size, HEAP_RATE);
	} else if (d->p->period) {
		n = legacy_times(d, n, d->p->period);
		size = legacy_times(d, size, d->p->period);
	}
	draft_sample(d, (int64_t[]){ n, size });
	scan_addresses(d, line, UINT32_MAX);
	if (kind == JAVA_HEAP && !d->rc)
		draft_number(d, "bytes", each);
	return true;
}

/* "FUNCTION (WHAT)", from the end; the blanks before the bracket belong to neither. */
static bool in_brackets(struct view line, struct view *function, struct view *what)
{
	if (!line.len || line.ptr[line.len - 1] != ')')
		return false;
	for (size_t i = line.len - 1; i-- > 1;)
		if (line.ptr[i] == '(' && is_blank(line.ptr[i - 1])) {
			*function = view_make(line.ptr, i - 1);
			*what = view_make(line.ptr + i + 1, line.len - i - 2);
			return true;
		}
	return false;
}

/* FILE:LINE */
static bool file_line(struct view what, struct view *file, int64_t *line)
{
	size_t i = what.len;
	while (i > 0 && is_digit(what.ptr[i - 1]))
		i--;
	if (i == what.len)
		return false;
	i -= i > 0 && what.ptr[i - 1] == '-';
	if (i < 2 || what.ptr[i - 1] != ':')
		return false;
	struct view number = view_make(what.ptr + i, what.len - i);
	*file = view_make(what.ptr, i - 1);
	if (!scan_i64(&number, line) || *line < 0)
		*line = 0;
	return true;
}

static struct view base_name(struct view path)
{
	while (path.len > 1 && path.ptr[path.len - 1] == '/')
		path.len--;
	const char *slash = path.len > 1 ? memrchr(path.ptr, '/', path.len) : NULL;
	if (!path.len)
		return VIEW(".");
	return slash ? view_make(slash + 1, (size_t)(path.ptr + path.len - slash) - 1) : path;
}

static void name(struct draft *d, uint32_t location, struct view text)
{
	struct view function = text, what, file = VIEW("");
	int64_t line = 0;
	if (in_brackets(text, &function, &what)) {
		if (!file_line(what, &file, &line))
			file = base_name(what);
	} else if (view_contains(text, VIEW("generated stub/JIT"))) {
		function = VIEW("STUB");
	}
	draft_set_line(d, location, draft_function(d, function, file), line);
}

int legacy_java_locations(struct draft *d)
{
	struct view line;
	struct profile *p = d->p;
	while (draft_line(d, &line)) {
		uint64_t address;
		line = view_trim(line);
		if (!view_starts(line, VIEW("0x")))
			continue;
		if (!scan_hex(&line, &address)) {
			if (line.len > 2 && scan_hex_digit(line.ptr[2]) >= 0)
				draft_fail(d, ERR_BAD_DATA, "an address of more than 64 bits");
			continue;
		}
		uint32_t location = draft_find_address(d, address);
		if (location == UINT32_MAX || !line.len || !is_blank(*line.ptr))
			continue;
		scan_blanks(&line);
		name(d, location, line);
	}
	struct profile_mapping *all = NULL; /* of what has no name */
	for (uint32_t i = 0; i < p->n_locations && !d->rc; i++) {
		struct profile_location *l = &p->locations[i];
		if (!l->n_lines && l->address && !all && (all = draft_mapping(d)))
			all->limit = UINT64_MAX;
		l->mapping = !l->n_lines && l->address ? 1 : 0;
		l->address = 0;
	}
	return d->rc;
}

int legacy_java(struct draft *d)
{
	struct view line, key, value;
	if (!draft_line(d, &line))
		return d->rc;
	enum java kind = view_contains(line, VIEW("heapz")) ? JAVA_HEAP : JAVA_CONTENTION;
	const char *before = d->at;
	while (draft_line(d, &line)) {
		line = view_trim(line);
		if (line.len && (!attribute(line, &key, &value) || say_attribute(d, kind, key, value)))
			break;
		before = d->at;
	}
	d->at = before; /* what was no attribute is a sample */
	while (draft_line(d, &line)) {
		line = view_trim(line);
		if (line.len && !sample(d, kind, line))
			break;
		before = d->at;
	}
	d->at = before; /* and what is no sample is a location */
	return d->rc ? d->rc : legacy_java_locations(d);
}
