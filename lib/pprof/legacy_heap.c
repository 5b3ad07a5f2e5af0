/* SPDX-License-Identifier: Apache-2.0 */
/* Heap profiles as text: gperftools', early Go's, what grew (growthz) and what is fragmented (fragmentationz).
 *
 *	heap profile: OBJECTS: BYTES [ALLOCATED: BYTES] @ heapz_v2/RATE
 *	OBJECTS: BYTES [ALLOCATED: BYTES] @ 0x... 0x...
 *	MAPPED_LIBRARIES:
 *	/proc/self/maps
 *
 * The kind behind @ says whether and at which rate it was sampled: heap_v2 and heapz_v2 at RATE, heap at half of it,
 * heapprofile not at all. */
#include "pprof/legacy.h"

struct legacy_heap {
	bool sampled, allocated; /* sampled at a rate; has columns of all allocations */
	int64_t rate;
};

static struct view first_line(struct view text)
{
	const char *nl = memchr(text.ptr, '\n', text.len);
	return view_make(text.ptr, nl ? (size_t)(nl - text.ptr) : text.len);
}

bool legacy_is_heap(struct view text)
{
	struct view line = first_line(view_make(text.ptr, MIN(text.len, (size_t)1024)));
	return text.len && view_contains(line, VIEW("heap profile:")) && memchr(line.ptr, '@', line.len);
}

/* OBJECTS: BYTES [OBJECTS: BYTES] */
static bool counts(struct view *v, int64_t n[4])
{
	static const char *const behind[] = { ":", "[", ":", "]" };
	for (int i = 0; i < 4; i++) {
		if (!scan_i64(v, &n[i]) || (i > 1 && n[i] < 0))
			return false;
		scan_blanks(v);
		if (!scan_word(v, behind[i]))
			return false;
		scan_blanks(v);
	}
	return scan_word(v, "@");
}

static int head(struct draft *d, struct view line, struct legacy_heap *h)
{
	int64_t n[4];
	const char *at = memmem(line.ptr, line.len, "heap profile:", 13);
	struct view v = view_make(at + 13, (size_t)(line.ptr + line.len - at) - 13);
	scan_blanks(&v);
	if (!counts(&v, n))
		return draft_fail(d, ERR_BAD_DATA, "the totals are not \"objects: bytes [objects: bytes] @\"");
	scan_blanks(&v);
	d->p->period = 1;
	if (scan_word(&v, "growth") || scan_word(&v, "fragmentation"))
		return 0;
	h->allocated = (n[2] != n[0] && n[2]) || (n[3] != n[1] && n[3]);
	if (scan_word(&v, "heapprofile"))
		return 0;
	bool v2 = scan_word(&v, "heapz_v2") || scan_word(&v, "heap_v2");
	if (!v2 && !scan_word(&v, "heap"))
		return draft_fail(d, ERR_BAD_DATA, "unknown kind \"%.*s\"", (int)MIN(v.len, (size_t)40), v.ptr);
	int64_t rate = 0;
	if (scan_word(&v, "/") && v.len && is_digit(*v.ptr) && !scan_i64(&v, &rate))
		return draft_fail(d, ERR_BAD_DATA, "its rate is malformed");
	h->sampled = true;
	h->rate = d->p->period = v2 ? rate : rate / 2;
	return 0;
}

/* Two values of a sample, unscaled; sets *size, the size of one object. */
static void pair(struct draft *d, const struct legacy_heap *h, int64_t count, int64_t bytes, int64_t *values, int64_t *size)
{
	if (!count && bytes)
		draft_fail(d, ERR_BAD_DATA, "%lld bytes of 0 objects", (long long)bytes);
	if (count == -1 && bytes == INT64_MIN)
		draft_fail(d, ERR_BAD_DATA, "a value of more than 64 bits");
	if (d->rc)
		return;
	if (count) {
		*size = bytes / count;
		if (h->sampled)
			legacy_unsample(d, &count, &bytes, h->rate);
	}
	values[0] = count;
	values[1] = bytes;
}

static void sample(struct draft *d, const struct legacy_heap *h, struct view line)
{
	int64_t n[4], values[4] = { 0 }, size = 0;
	struct view v = line;
	for (size_t i = 0;; i++) { /* what stands before the first number is of no interest */
		bool starts = i < line.len && (is_digit(line.ptr[i]) || line.ptr[i] == '-') && (!i || !is_digit(line.ptr[i - 1]));
		v = view_make(line.ptr + i, line.len - MIN(i, line.len));
		if (starts && counts(&v, n))
			break;
		if (i >= line.len) {
			draft_fail(d, ERR_BAD_DATA, "not \"objects: bytes [objects: bytes] @ addresses\"");
			return;
		}
	}
	if (h->allocated)
		pair(d, h, n[2], n[3], values, &size);
	pair(d, h, n[0], n[1], h->allocated ? values + 2 : values, &size);
	draft_sample(d, values);
	scan_addresses(d, v, 0);
	if (!d->rc)
		draft_number(d, "bytes", size);
}

int legacy_heap(struct draft *d)
{
	struct legacy_heap h = { .sampled = false };
	struct view line;
	if (!draft_line(d, &line) || head(d, line, &h))
		return d->rc;
	draft_period_type(d, "space", "bytes");
	if (h.allocated) {
		draft_sample_type(d, "alloc_objects", VIEW("count"));
		draft_sample_type(d, "alloc_space", VIEW("bytes"));
	}
	draft_sample_type(d, h.allocated ? "inuse_objects" : "objects", VIEW("count"));
	draft_sample_type(d, h.allocated ? "inuse_space" : "space", VIEW("bytes"));
	while (draft_line(d, &line) && !legacy_is_maps_head(line))
		if (!scan_is_idle(line))
			sample(d, &h, line);
	return legacy_other_sections(d, line);
}
