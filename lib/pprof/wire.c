/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of reading the wire that are not on the common path. */
#include "pprof/wire.h"

int pprof_fail(struct decoder *d, enum err_code code, const uint8_t *at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	struct err inner;
	err_vset(&inner, code, fmt, ap);
	va_end(ap);
	return err_set(d->e, code, "pprof: byte %zu: %s", (size_t)(at - d->base), inner.msg);
}

int pprof_no_memory(struct decoder *d)
{
	return err_set(d->e, ERR_LIMIT, "pprof: the profile needs more than its %zu bytes of memory", d->p->arena.max);
}

bool pprof_any_field(struct decoder *d, const uint8_t **p, const uint8_t *end, struct field *f)
{
	uint64_t tag;
	f->at = *p;
	if (UNLIKELY(!get(d, p, end, &tag) || tag >> 32 || tag < 8 || *p - f->at > HEADER_MAX))
		return bad(d, f->at, "not a field: a tag is cut short or out of range");
	f->tag = (uint32_t)tag;
	switch (tag & 7) {
	case WIRE_VARINT:
		if (UNLIKELY(!get(d, p, end, &f->value)))
			return bad(d, f->at, "the number in field %u is cut short or too long", f->tag >> 3);
		return true;
	case WIRE_BYTES:
		f->p = *p;
		if (UNLIKELY(!get(d, p, end, &f->value) || f->value > (size_t)(end - *p) || *p - f->p > HEADER_MAX))
			return bad(d, f->at, "field %u is longer than the message it is in", f->tag >> 3);
		f->p = *p;
		*p += f->value;
		return true;
	case WIRE_64:
	case WIRE_32: {
		size_t n = (tag & 7) == WIRE_64 ? 8 : 4;
		if ((size_t)(end - *p) < n)
			return bad(d, f->at, "field %u is cut short", f->tag >> 3);
		*p += n;
		return true;
	}
	default:
		return bad(d, f->at, "field %u has wire type %u, which pprof does not have", f->tag >> 3,
			   f->tag & 7);
	}
}

int pprof_grow(struct decoder *d, void **table, uint32_t n, uint32_t *cap, uint64_t want, size_t item)
{
	uint64_t bigger = MAX(want, (uint64_t)*cap * 2);
	if (bigger > UINT32_MAX)
		return err_set(d->e, ERR_LIMIT, "pprof: a table of more than 2^32 entries");
	void *fresh = arena_alloc(&d->p->arena, (size_t)bigger * item);
	if (!fresh)
		return pprof_no_memory(d);
	if (n)
		memcpy(fresh, *table, n * item);
	*table = fresh;
	*cap = (uint32_t)bigger;
	return 0;
}
