/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a segment of a remote-write queue, and as the payload of a block, which a checksum else keeps from being looked at. What
 * is accepted is consistent, and says the same when it is written again. */
#include "base/vec.h"
#include "remote/segment.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "segment";

static void read_segment(struct view v)
{
	struct segment_header h = { 0 };
	struct segment_reader r;
	struct segment_read block = { 0 };
	struct err e;
	struct view payload;
	size_t offset = SEGMENT_HEADER, at, before = 0;
	if (segment_get_header(v, &h, &e))
		h.sequence = 1;
	segment_reader_init(&r, v.len);
	while (v.len > SEGMENT_HEADER && segment_next(v, h.sequence, &offset, &at, &payload)) {
		REQUIRE(at >= before && offset > at && offset <= v.len, "%zu %zu", at, offset);
		before = offset;
		if (segment_get_block(&r, payload, &block, &e))
			REQUIRE(e.code == ERR_CORRUPT && !block.samples.n, "%d", e.code);
	}
	vec_free(&block.samples);
	segment_reader_release(&r);
}

/* The payload again, as a block of its own in a segment. */
static void write_again(const struct segment_reader *r, const struct segment_read *x, size_t made_up)
{
	struct buf out = { 0 };
	struct segment_reader again;
	struct segment_read y = { 0 };
	struct view payload;
	struct err e;
	size_t offset = 0, at;
	const struct segment_block b = { .number = x->number, .complete = x->complete, .first_series = (uint32_t)made_up,
					 .series = r->series.n ? r->series.v + made_up : NULL, .n_series = r->series.n - made_up, .samples = x->samples.v,
					 .n_samples = x->samples.n };
	segment_put_block(&out, 7, 0, &b);
	segment_reader_init(&again, r->max_series);
	again.max_series = r->max_series;
	REQUIRE(segment_next(buf_view(&out), 7, &offset, &at, &payload) && !at && offset == out.len, "%zu of %zu", offset, out.len);
	REQUIRE(!segment_get_block(&again, payload, &y, &e), "%s", e.msg);
	REQUIRE(y.number == x->number && y.complete == x->complete && y.samples.n == x->samples.n && again.series.n == r->series.n, "%zu series",
		again.series.n);
	for (size_t i = 0; i < y.samples.n; i++)
		REQUIRE(y.samples.v[i].series == x->samples.v[i].series && y.samples.v[i].t_ms == x->samples.v[i].t_ms &&
				y.samples.v[i].bits == x->samples.v[i].bits, "sample %zu", i);
	for (size_t i = 0; i < r->series.n; i++)
		REQUIRE(labels_eq(r->series.v[i], again.series.v[i]), "series %zu", i);
	vec_free(&y.samples);
	segment_reader_release(&again);
	buf_free(&out);
}

static void read_payload(struct view v)
{
	struct segment_reader r;
	struct segment_read x = { 0 };
	struct err e;
	segment_reader_init(&r, v.len);
	if (!segment_get_block(&r, v, &x, &e)) {
		size_t made_up = 0;
		for (size_t i = 0; i < x.samples.n; i++)
			REQUIRE(x.samples.v[i].series < r.series.n, "series %u", x.samples.v[i].series);
		while (made_up < r.series.n && !r.series.v[made_up].v)
			made_up++;
		write_again(&r, &x, made_up);
	}
	vec_free(&x.samples);
	segment_reader_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct view v = { (const char *)data, n };
	read_segment(v);
	read_payload(v);
	return 0;
}
