/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a profile at ingest. Each file named on the command line, or of the corpus, is decompressed, and decoded by the fast
 * decoder and by protobuf-c. Then it is interned into a dictionary that does not know it (cold) and one that does (warm). Best of
 * many runs, in µs. The ratio is protobuf-c's unpacking, without a model, to the fast decoder's whole work. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "lib/pprof/profile.pb-c.h"
#include "model/symbols.h"
#include "pprof/pprof.h"

enum { RUNS = 200 };

struct subject {
	struct view gz, raw;
	struct profile profile; /* reused, as a decoder thread reuses its own */
	struct symbols *warm;
	uint32_t *columns;
};

static void must(int rc, const struct err *e)
{
	if (rc) {
		fprintf(stderr, "pprof_bench: %s\n", e->msg);
		exit(1);
	}
}

static void run_decode(struct subject *s)
{
	struct err e;
	must(pprof_decode_raw(s->raw.ptr, s->raw.len, NULL, &s->profile, &e), &e);
}

static void run_gunzip(struct subject *s)
{
	struct err e;
	struct view out;
	profile_reset(&s->profile);
	must(pprof_gunzip(s->gz.ptr, s->gz.len, SIZE_MAX, &s->profile.arena, &out, &e), &e);
}

static void run_protobuf(struct subject *s)
{
	Pb__Profile *m = pb__profile__unpack(NULL, s->raw.len, (const uint8_t *)s->raw.ptr);
	if (!m)
		exit(1);
	pb__profile__free_unpacked(m, NULL);
}

static void intern(struct subject *s, struct symbols *into)
{
	struct err e;
	must(pprof_decode(s->gz.ptr, s->gz.len, NULL, &s->profile, &e), &e);
	must(symbols_add_profile(into, &s->profile, s->columns, NULL, &e), &e);
}

static void run_cold(struct subject *s)
{
	struct symbols *fresh = symbols_new();
	intern(s, fresh);
	symbols_unref(fresh);
}

static void run_warm(struct subject *s)
{
	intern(s, s->warm);
}

static double best_us(void (*run)(struct subject *), struct subject *s)
{
	int64_t best = INT64_MAX;
	for (int i = 0; i < RUNS; i++) {
		int64_t from = clock_mono_ns();
		run(s);
		best = MIN(best, clock_mono_ns() - from);
	}
	return (double)best / 1000;
}

static void bench_file(const char *path)
{
	struct buf in = { 0 };
	struct arena raw;
	struct err e;
	struct subject s = { 0 };
	arena_init(&raw, 0);
	if (buf_read_file(&in, path, NULL) || !pprof_is_gzip(in.ptr, in.len)) {
		fprintf(stderr, "pprof_bench: %s: not a gzip file\n", path);
		exit(1);
	}
	s.gz = buf_view(&in);
	must(pprof_gunzip(in.ptr, in.len, SIZE_MAX, &raw, &s.raw, &e), &e);
	profile_init(&s.profile, 0);
	s.warm = symbols_new();
	run_decode(&s);
	s.columns = xcalloc(s.profile.n_samples + 1, sizeof *s.columns);
	uint32_t samples = s.profile.n_samples;
	const char *slash = strrchr(path, '/');
	double fast = best_us(run_decode, &s), slow = best_us(run_protobuf, &s);
	printf("%-28s %8zu %7u %8.1f %8.1f %6.1f %8.1f %8.1f %8.1f\n", slash ? slash + 1 : path, s.raw.len,
	       samples, fast, slow, slow / fast, best_us(run_gunzip, &s), best_us(run_cold, &s),
	       best_us(run_warm, &s));
	free(s.columns);
	symbols_unref(s.warm);
	profile_release(&s.profile);
	arena_free(&raw);
	buf_free(&in);
}

static void bench_folder(const char *dir)
{
	DIR *d = opendir(dir);
	if (!d) {
		fprintf(stderr, "pprof_bench: name .pb.gz files, or set PYRRHA_CORPUS to a folder of them (%s is none)\n", dir);
		exit(77);
	}
	for (struct dirent *x; (x = readdir(d));)
		if (view_ends(view_of(x->d_name), VIEW(".pb.gz"))) {
			char *path AUTOFREE = xasprintf("%s/%s", dir, x->d_name);
			bench_file(path);
		}
	closedir(d);
}

int main(int argc, char **argv)
{
	const char *corpus = getenv("PYRRHA_CORPUS");
	printf("%-28s %8s %7s %8s %8s %6s %8s %8s %8s\n", "file", "bytes", "samples", "decode", "protobuf", "ratio", "gunzip",
	       "gz+cold", "gz+warm");
	for (int i = 1; i < argc; i++)
		bench_file(argv[i]);
	if (argc < 2)
		bench_folder(corpus ? corpus : "../shared/corpus");
	return 0;
}
