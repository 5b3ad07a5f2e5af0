/* SPDX-License-Identifier: Apache-2.0 */
/* gperftools' CPU profile: words of 4 or 8 bytes in the program's own order, then text.
 *
 *	0  3  0 (1: Java)  period, us  0       header
 *	count  n  address * n                  a stack, the leaf first; again and again
 *	0  1  0                                the end; what follows is /proc/self/maps, or Java's names
 */
#include "pprof/legacy.h"

struct words {
	const uint8_t *p, *end;
	const struct cpu_words *w;
};

static bool next(struct words *s, uint64_t *ret)
{
	unsigned size = s->w->size;
	uint64_t x = 0;
	if ((size_t)(s->end - s->p) < size)
		return false;
	for (unsigned i = 0; i < size; i++)
		x |= (uint64_t)s->p[i] << 8 * (s->w->big ? size - 1 - i : i);
	s->p += size;
	*ret = x;
	return true;
}

bool legacy_is_cpu(struct view bytes, struct cpu_words *ret)
{
	static const struct { unsigned size; bool big; } forms[] = { { 4, false }, { 4, true }, { 8, false }, { 8, true } };
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct cpu_words w = { .size = forms[i].size, .big = forms[i].big };
		struct words s = { (const uint8_t *)bytes.ptr, (const uint8_t *)bytes.ptr + bytes.len, &w };
		uint64_t v[5], n = 0;
		while (n < ARRAY_LEN(v) && next(&s, &v[n]))
			n++;
		if (n < ARRAY_LEN(v) || v[0] || v[1] != 3 || v[2] > 1 || !v[3] || v[4])
			continue;
		w.java = v[2] == 1;
		w.period_us = v[3];
		*ret = w;
		return true;
	}
	return false;
}

static void read_stacks(struct draft *d, struct words *s)
{
	while (s->p < s->end && !d->rc) {
		uint64_t count, n, address = 0;
		if (!next(s, &count) || !next(s, &n) || n > (size_t)(s->end - s->p) / s->w->size) {
			draft_fail(d, ERR_BAD_DATA, "the last stack is cut short");
			return;
		}
		if (!count && n == 1) {
			next(s, &address);
			if (!address)
				return;
			s->p -= s->w->size;
		}
		if (count > INT64_MAX) {
			draft_fail(d, ERR_BAD_DATA, "a value of more than 64 bits");
			return;
		}
		draft_sample(d, (int64_t[]){ (int64_t)count, legacy_times(d, (int64_t)count, d->p->period) });
		for (uint64_t i = 0; i < n && !d->rc && next(s, &address); i++)
			draft_frame(d, draft_address(d, i && !s->w->java ? address - 1 : address));
	}
}

/* If nearly all samples have the same caller of the leaf, it is the signal handler's frame: the leaf came from the signal's
 * registers. It goes, and so may the one behind it. */
static void drop_handler(struct draft *d)
{
	struct profile *p = d->p;
	uint32_t *n = arena_alloc(&p->arena, ((size_t)p->n_locations + 1) * sizeof *n);
	if (!n) {
		draft_fail(d, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
		return;
	}
	for (int round = 0; round < 2; round++) {
		uint32_t most = 0;
		memset(n, 0, (size_t)p->n_locations * sizeof *n);
		for (uint32_t i = 0; i < p->n_samples; i++)
			if (p->samples[i].n_locations > 1) {
				uint32_t at = p->stack[p->samples[i].first_location + 1];
				if (++n[at] > n[most])
					most = at;
			}
		if (!p->n_locations || n[most] < p->n_samples - p->n_samples / 32)
			return;
		for (uint32_t i = 0; i < p->n_samples; i++)
			if (p->samples[i].n_locations > 1 && p->stack[p->samples[i].first_location + 1] == most)
				draft_drop_caller(d, &p->samples[i]);
	}
}

/* The leaf comes twice where it was also unwound: there it is one less. */
void legacy_drop_doubles(struct draft *d)
{
	struct profile *p = d->p;
	for (uint32_t i = 0; i < p->n_samples; i++) {
		struct profile_sample *s = &p->samples[i];
		const uint32_t *stack = p->stack + s->first_location;
		if (s->n_locations > 1 && p->locations[stack[0]].address == p->locations[stack[1]].address + 1)
			draft_drop_caller(d, s);
	}
}

int legacy_cpu(struct draft *d, struct view bytes, const struct cpu_words *w)
{
	struct words s = { (const uint8_t *)bytes.ptr + 5 * w->size, (const uint8_t *)bytes.ptr + bytes.len, w };
	if (w->period_us > INT64_MAX / 1000)
		return draft_fail(d, ERR_BAD_DATA, "its period is malformed");
	d->p->duration_ns = d->lim.asked_ns;
	d->p->period = (int64_t)w->period_us * 1000;
	draft_period_type(d, "cpu", "nanoseconds");
	draft_sample_type(d, "samples", VIEW("count"));
	draft_sample_type(d, "cpu", VIEW("nanoseconds"));
	read_stacks(d, &s);
	if (d->rc)
		return d->rc;
	d->at = (const char *)s.p;
	d->end = (const char *)s.end;
	if (w->java)
		return legacy_java_locations(d);
	drop_handler(d);
	if (!legacy_maps(d))
		legacy_drop_doubles(d);
	return d->rc;
}
