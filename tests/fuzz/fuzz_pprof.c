/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes into the codec and the model. What is accepted is consistent, equals protobuf-c's reading, survives encoding,
 * and can be interned and exported; what is refused says why and leaves nothing. */
#include <string.h>

#include "model/stackvec.h"
#include "model/symbols.h"
#include "pprof/legacy.h"
#include "pprof/oracle.h"
#include "tests/fuzz/fuzz_profile.h"

const char fuzz_target[] = "pprof";

enum { ORACLE_MAX = 4096 }; /* bytes: it is quadratic */

/* protobuf-c merges a period type that comes twice, google/pprof and we take the last. */
static bool period_type_twice(const uint8_t *data, size_t n)
{
	const uint8_t *first = memchr(data, 11 << 3 | 2, n);
	return first && memchr(first + 1, 11 << 3 | 2, n - (size_t)(first + 1 - data));
}

/* What is no profile.proto may be a profile of the older formats, which have a target of their own. */
static bool may_be_legacy(struct view v)
{
	struct cpu_words w;
	return legacy_is_cpu(v, &w) || legacy_is_heap(v) || legacy_is_contention(v) || legacy_is_count(v) || legacy_is_threads(v) ||
	       legacy_is_java(v);
}

static void compare_with_oracle(const uint8_t *data, size_t n, const struct profile *p)
{
	struct profile slow CLEANUP(profile_release);
	struct err e = { 0 };
	profile_init(&slow, 0);
	bool refused = oracle_decode(data, n, &slow, &e) != 0;
	if (refused && may_be_legacy(view_make((const char *)data, n)))
		return;
	REQUIRE(!refused, "%s", e.msg);
	if (period_type_twice(data, n))
		slow.period_type = p->period_type;
	const char *difference = oracle_difference(p, &slow);
	REQUIRE(!difference, "%s", difference);
}

/* Lines without a function are left out when encoding; then the profiles are not the same. */
static bool encodes_as_it_is(const struct profile *p)
{
	uint32_t with_lines = 0;
	for (uint32_t i = 0; i < p->n_lines; i++)
		with_lines += p->lines[i].function != 0;
	return with_lines == p->n_lines;
}

static void round_trip(const struct profile *p)
{
	struct buf out CLEANUP(buf_free) = { 0 };
	struct profile again CLEANUP(profile_release);
	struct err e = { 0 };
	profile_init(&again, 0);
	REQUIRE(pprof_encode_gz(p, &out, &e) == 0, "%s", e.msg);
	REQUIRE(pprof_decode(out.ptr, out.len, NULL, &again, &e) == 0, "%s", e.msg);
	if (encodes_as_it_is(p)) {
		const char *difference = oracle_difference(p, &again);
		REQUIRE(!difference, "%s", difference);
	}
}

/* The second time it is recognised by its places, the first time it was not. */
static void is_the_same_again(struct symbols *s, struct profile *p)
{
	struct err e = { 0 };
	uint32_t *first = arena_alloc(&p->arena, p->n_samples * sizeof *first), *again = arena_alloc(&p->arena, p->n_samples * sizeof *again);
	if (!first || !again || symbols_add_profile(s, p, first, NULL, &e) || symbols_add_profile(s, p, again, NULL, &e))
		return;
	REQUIRE(!p->n_samples || !memcmp(first, again, p->n_samples * sizeof *first), "other columns the second time");
}

/* The value totals of a profile survive the way through the dictionary, unless they overflow. */
static void through_the_model(struct profile *p)
{
	struct symbols *s = symbols_new();
	struct stackvec *v[8] = { 0 };
	struct stackvec_type types[8];
	struct profile out CLEANUP(profile_release);
	struct err e = { 0 };
	uint32_t n = p->n_sample_types;
	profile_init(&out, 0);
	if (n && stackvec_from_profile(s, p, v, &e) == 0) {
		for (uint32_t i = 0; i < n; i++)
			types[i] = (struct stackvec_type){ profile_str(p, p->sample_types[i].type_str),
							   profile_str(p, p->sample_types[i].unit_str) };
		REQUIRE(stackvec_to_profile(v, types, n, &out, &e) == 0, "%s", e.msg);
		REQUIRE(profile_check(&out, &e) == 0, "%s", e.msg);
		REQUIRE(out.n_samples <= p->n_samples, "%u samples of %u", out.n_samples, p->n_samples);
		for (uint32_t t = 0; t < n; t++) {
			uint64_t before = 0, after = 0;
			for (uint32_t i = 0; i < p->n_samples; i++)
				before += (uint64_t)p->values[(size_t)i * n + t];
			for (uint32_t i = 0; i < out.n_samples; i++)
				after += (uint64_t)out.values[(size_t)i * n + t];
			REQUIRE(before == after, "type %u: %llu became %llu", t, (unsigned long long)before,
				(unsigned long long)after);
			stackvec_unref(v[t]);
		}
	} else {
		REQUIRE(!n || e.code, "an error without a code");
	}
	is_the_same_again(s, p);
	symbols_unref(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct profile p CLEANUP(profile_release);
	struct err e = { 0 };
	if (!fuzz_profile_read(&p, data, n))
		return 0;
	if (!pprof_is_gzip(data, n) && n <= ORACLE_MAX)
		compare_with_oracle(data, n, &p);
	round_trip(&p);
	through_the_model(&p);
	if (pprof_drop_frames(&p, &e) == 0)
		REQUIRE(profile_check(&p, &e) == 0, "%s", e.msg);
	else
		REQUIRE(e.msg[0], "an error without words");
	return 0;
}
