/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/v8/record.h"

#include "agent/v8/layout.h"

struct reader {
	const uint8_t *p, *end;
	bool bad;
};

void v8_record_string(struct buf *b, struct view v)
{
	buf_varint(b, v.len);
	buf_putv(b, v);
}

static uint64_t get(struct reader *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; r->p < r->end && shift < 64; shift += 7) {
		uint8_t b = *r->p++;
		v |= (uint64_t)(b & 127) << shift;
		if (!(b & 128))
			return v;
	}
	r->bad = true;
	return 0;
}

static struct view get_string(struct reader *r)
{
	uint64_t n = get(r);

	if (r->bad || n > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		return (struct view){ "", 0 };
	}
	struct view v = { (const char *)r->p, n };
	r->p += n;
	return v;
}

static int64_t get_line(struct reader *r)
{
	uint64_t v = get(r);

	r->bad |= v > INT32_MAX;
	return (int64_t)v;
}

static size_t calls(struct reader *r, struct runtime_name *out, size_t max)
{
	uint64_t n = get(r);
	size_t i;

	for (i = 0; i < n && i < max && !r->bad; i++) {
		struct runtime_name *c = &out[i];
		*c = (struct runtime_name){ 0 };
		c->name = c->system_name = get_string(r);
		c->file = get_string(r);
		c->line = get_line(r);
		c->start_line = get_line(r);
	}
	return r->bad ? 0 : i;
}

static size_t bytecode(struct reader *r, uint64_t at, struct runtime_name *out, size_t max)
{
	struct runtime_name c = { 0 };
	uint64_t offset, row;
	int64_t line = 0;

	c.name = c.system_name = get_string(r);
	c.file = get_string(r);
	c.start_line = get_line(r);
	offset = get(r);
	if (r->bad || !max)
		return 0;
	while (r->p < r->end && !r->bad) {
		row = get(r);
		offset += row & UINT32_MAX;
		uint64_t z = get(r);
		if (r->bad || offset > at)
			break;
		line = (int64_t)((uint64_t)line + (z >> 1 ^ -(z & 1)));
		c.line = line > 0 && line <= INT32_MAX ? line : 0;
	}
	out[0] = c;
	return 1;
}

size_t v8_frames_at(const struct runtime_file *f, struct view record, uint64_t at, struct runtime_name *out, size_t max)
{
	struct reader r = { (const uint8_t *)record.ptr, (const uint8_t *)record.ptr + record.len, false };

	(void)f;
	switch (get(&r)) {
	case V8_RECORD_CALLS:
		return calls(&r, out, max);
	case V8_RECORD_BYTECODE:
		return bytecode(&r, at, out, max);
	default:
		return 0;
	}
}
