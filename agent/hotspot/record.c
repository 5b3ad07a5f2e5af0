/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hotspot/record.h"


#define DEPTH_MAX 64                 /* of inlined calls; HotSpot's own limits are 9 to 18 */

struct method_record {
	const char *words, *strings;
	uint32_t methods, scopes, pcs, lines;
	size_t string_bytes;
};

static uint32_t word(const struct method_record *r, size_t i)
{
	uint32_t v;

	memcpy(&v, r->words + 4 * i, 4);
	return v;
}

static bool open_record(struct view v, struct method_record *r)
{
	*r = (struct method_record){ .words = v.ptr };
	if (v.len < RECORD_HEAD * 4 || word(r, 0) != RECORD_MAGIC)
		return false;
	r->methods = word(r, 1);
	r->scopes = word(r, 2);
	r->pcs = word(r, 3);
	r->lines = word(r, 4);
	uint64_t words = RECORD_HEAD + (uint64_t)r->methods * RECORD_METHOD + (uint64_t)r->scopes * RECORD_SCOPE +
			 (uint64_t)r->pcs * RECORD_PC + (uint64_t)r->lines * RECORD_LINE;
	if (words * 4 > v.len || !r->methods)
		return false;
	r->strings = v.ptr + words * 4;
	r->string_bytes = v.len - words * 4;
	return true;
}

static bool string(const struct method_record *r, size_t at, struct view *ret)
{
	uint32_t from = word(r, at), n = word(r, at + 1);

	if (from > r->string_bytes || n > r->string_bytes - from)
		return false;
	*ret = view_make(r->strings + from, n);
	return true;
}

static bool name(const struct method_record *r, uint32_t method, int64_t line, struct runtime_name *ret)
{
	size_t at = RECORD_HEAD + (size_t)method * RECORD_METHOD;

	if (method >= r->methods)
		return false;
	*ret = (struct runtime_name){ .line = line, .start_line = word(r, at + 6) };
	return string(r, at, &ret->name) && string(r, at + 2, &ret->system_name) && string(r, at + 4, &ret->file);
}

/* Of pairs that ascend by their first word: how many are below `of`. */
static uint32_t below(const struct method_record *r, size_t first, uint32_t n, uint64_t of)
{
	uint32_t lo = 0;

	while (lo < n) {
		uint32_t mid = lo + (n - lo) / 2;
		if (word(r, first + 2 * (size_t)mid) < of)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

static size_t inlined(const struct method_record *r, size_t scopes, uint32_t scope, struct runtime_name *out, size_t max)
{
	size_t n = 0;

	for (uint32_t before = r->scopes + 1; scope; scope = word(r, scopes + (scope - 1) * (size_t)RECORD_SCOPE)) {
		if (scope >= before || n == DEPTH_MAX)
			return 0;
		size_t at = scopes + (scope - 1) * (size_t)RECORD_SCOPE;
		if (n < max && !name(r, word(r, at + 1), word(r, at + 2), &out[n]))
			return 0;
		n += n < max;
		before = scope;
	}
	return n;
}

/* Behind the last place nothing says what is inlined. The method itself is there for sure, and was last at this scope's line. */
static uint32_t outermost(const struct method_record *r, size_t scopes, uint32_t scope)
{
	while (scope && scope <= r->scopes) {
		uint32_t caller = word(r, scopes + (scope - 1) * (size_t)RECORD_SCOPE);
		if (!caller || caller >= scope)
			break;
		scope = caller;
	}
	return scope;
}

size_t hotspot_frames_at(const struct runtime_file *f, struct view v, uint64_t at, struct runtime_name *out, size_t max)
{
	struct method_record r;

	(void)f;
	if (!max || !open_record(v, &r))
		return 0;
	size_t scopes = RECORD_HEAD + (size_t)r.methods * RECORD_METHOD, pcs = scopes + (size_t)r.scopes * RECORD_SCOPE;
	size_t lines = pcs + (size_t)r.pcs * RECORD_PC;
	uint32_t i = below(&r, pcs, r.pcs, at), line = 0, scope = 0;
	if (i < r.pcs)
		scope = word(&r, pcs + 2 * (size_t)i + 1);
	if (!scope && i)
		scope = outermost(&r, scopes, word(&r, pcs + 2 * (size_t)(i - 1) + 1));
	if (scope)
		return inlined(&r, scopes, scope, out, max);
	i = below(&r, lines, r.lines, at + 1);
	if (i && at < word(&r, RECORD_HEAD + 7))
		line = word(&r, lines + 2 * (size_t)(i - 1) + 1);
	return name(&r, 0, line, out) ? 1 : 0;
}
