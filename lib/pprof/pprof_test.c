/* SPDX-License-Identifier: Apache-2.0 */
/* The codec on real profiles: what the fast decoder makes of them equals what protobuf-c makes of them, and survives
 * encoding; truncated and altered they cost an error and nothing worse. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "pprof/oracle.h"
#include "pprof/pprof.h"

static const char *corpus_dir(void)
{
	static char path[4096];
	const char *set = getenv("PYRRHA_CORPUS"), *src = getenv("top_srcdir");
	snprintf(path, sizeof path, "%s%s", set ? set : src ? src : ".", set ? "" : "/../shared/corpus");
	return path;
}

/* Calls fn for each .pb.gz in a folder; the number of them. */
static unsigned each_file(const char *dir, void (*fn)(const char *path, struct view bytes))
{
	unsigned n = 0;
	DIR *d = opendir(dir);
	if (!d) {
		print_message("no corpus at %s (set PYRRHA_CORPUS): skipped\n", dir);
		skip();
	}
	for (struct dirent *x; (x = readdir(d));) {
		if (!view_ends(view_of(x->d_name), VIEW(".pb.gz")))
			continue;
		char *path AUTOFREE = xasprintf("%s/%s", dir, x->d_name);
		struct buf b CLEANUP(buf_free) = { 0 };
		assert_int_equal(buf_read_file(&b, path, NULL), 0);
		fn(path, buf_view(&b));
		n++;
	}
	closedir(d);
	return n;
}

static struct view gunzip(struct arena *a, struct view gz)
{
	struct view raw = { 0 };
	struct err e;
	if (pprof_gunzip(gz.ptr, gz.len, SIZE_MAX, a, &raw, &e))
		fail_msg("%s", e.msg);
	return raw;
}

static void same_as_oracle(const char *path, struct view raw)
{
	struct profile fast CLEANUP(profile_release), slow CLEANUP(profile_release);
	struct err e = { 0 };
	profile_init(&fast, 0);
	profile_init(&slow, 0);
	if (pprof_decode(raw.ptr, raw.len, NULL, &fast, &e))
		fail_msg("%s: %s", path, e.msg);
	if (oracle_decode(raw.ptr, raw.len, &slow, &e))
		fail_msg("%s: %s", path, e.msg);
	const char *difference = oracle_difference(&fast, &slow);
	if (difference)
		fail_msg("%s: %s", path, difference);
	assert_int_equal(profile_check(&fast, &e), 0);
}

static void round_trip(const char *path, struct view gz)
{
	struct buf again CLEANUP(buf_free) = { 0 };
	struct profile first CLEANUP(profile_release), second CLEANUP(profile_release);
	struct err e = { 0 };
	profile_init(&first, 0);
	profile_init(&second, 0);
	if (pprof_decode(gz.ptr, gz.len, NULL, &first, &e) || pprof_encode_gz(&first, &again, &e) ||
	    pprof_decode(again.ptr, again.len, NULL, &second, &e))
		fail_msg("%s: %s", path, e.msg);
	const char *difference = oracle_difference(&first, &second);
	if (difference)
		fail_msg("%s: %s", path, difference);
}

static void check_file(const char *path, struct view gz)
{
	struct arena a CLEANUP(arena_free);
	arena_init(&a, 0);
	same_as_oracle(path, gunzip(&a, gz));
	round_trip(path, gz);
}

static void corpus(void **state)
{
	assert_true(each_file(corpus_dir(), check_file) >= 9);
}

static void corpus_series(void **state)
{
	char dir[4096 + sizeof "/series"]; /* not allocated: a skip jumps out of here */
	snprintf(dir, sizeof dir, "%s/series", corpus_dir());
	assert_int_equal(each_file(dir, check_file), 10);
}

/* Every prefix of the compressed file, and prefixes of the raw one, are refused or (raw, cut between two fields) are a
 * smaller profile; never more. */
static void cut_file(const char *path, struct view gz)
{
	struct arena a CLEANUP(arena_free);
	arena_init(&a, 0);
	struct view raw = gunzip(&a, gz);
	struct profile p CLEANUP(profile_release);
	struct err e;
	profile_init(&p, 0);
	for (size_t n = 0; n < gz.len; n += 1 + gz.len / 64)
		assert_int_not_equal(pprof_decode(gz.ptr, n, NULL, &p, &e), 0);
	for (size_t n = 0; n < raw.len; n += 1 + raw.len / 200) {
		/* a copy of its own, so that a sanitizer sees reads past the end */
		char *copy AUTOFREE = xmalloc(n + 1);
		memcpy(copy, raw.ptr, n);
		if (pprof_decode_raw(copy, n, NULL, &p, &e) == 0)
			assert_int_equal(profile_check(&p, &e), 0);
		else
			assert_int_equal(p.n_samples, 0);
	}
}

static void cut_short(void **state)
{
	each_file(corpus_dir(), cut_file);
}

/* A byte changed: both decoders agree where the fast one accepts. */
static void alter_file(const char *path, struct view gz)
{
	struct arena a CLEANUP(arena_free);
	arena_init(&a, 0);
	struct view raw = gunzip(&a, gz);
	char *copy AUTOFREE = xmalloc(raw.len);
	memcpy(copy, raw.ptr, raw.len);
	struct profile fast CLEANUP(profile_release), slow CLEANUP(profile_release);
	struct err e = { 0 };
	profile_init(&fast, 0);
	profile_init(&slow, 0);
	if (raw.len > 20000)
		return; /* the oracle is quadratic */
	uint64_t random = raw.len;
	for (unsigned i = 0; i < 150; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		size_t at = (size_t)(random >> 33) % raw.len;
		char was = copy[at];
		copy[at] = (char)(random >> 17);
		if (pprof_decode_raw(copy, raw.len, NULL, &fast, &e) == 0) {
			if (oracle_decode(copy, raw.len, &slow, &e))
				fail_msg("%s, byte %zu altered: %s", path, at, e.msg);
			const char *difference = oracle_difference(&fast, &slow);
			if (difference)
				fail_msg("%s, byte %zu altered: %s", path, at, difference);
		}
		copy[at] = was;
	}
}

static void altered(void **state)
{
	each_file(corpus_dir(), alter_file);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(corpus), cmocka_unit_test(corpus_series),
					    cmocka_unit_test(cut_short), cmocka_unit_test(altered) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
