/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/head/tombstone_fact.h"

#include "tsdb/log/record.h"

bool tombstone_fact_has(const struct tombstone_fact *f, uint32_t series)
{
	size_t a = 0, b = f->series.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (f->series.v[m] < series)
			a = m + 1;
		else
			b = m;
	}
	return a < f->series.n && f->series.v[a] == series;
}

void tombstone_fact_put(struct buf *b, const struct tombstone_fact *f)
{
	uint32_t next = 0;
	buf_putc(b, FACT_DELETE);
	buf_varint(b, f->below_part);
	buf_zigzag(b, f->after_ms);
	buf_zigzag(b, f->until_ms);
	buf_varint(b, f->series.n);
	for (size_t i = 0; i < f->series.n; i++) {
		buf_varint(b, f->series.v[i] - next);
		next = f->series.v[i] + 1;
	}
}

bool tombstone_fact_get(struct cursor *c, struct tombstone_fact *ret)
{
	uint64_t next = 0;
	if (cursor_u8(c) != FACT_DELETE)
		return false;
	ret->below_part = cursor_u32(c);
	ret->after_ms = cursor_zigzag(c);
	ret->until_ms = cursor_zigzag(c);
	ret->series.n = 0;
	for (size_t n = cursor_count(c); n && !c->bad; n--) {
		uint64_t id = next + cursor_varint(c);
		if (id > UINT32_MAX - 1)
			c->bad = true;
		vec_push(&ret->series, (uint32_t)id);
		next = id + 1;
	}
	return !c->bad;
}
