/* SPDX-License-Identifier: Apache-2.0 */
/* Our merge and diff beside google/pprof's, stack by stack. tests/oracle/run builds the Go program that holds the other
 * side and passes it in PYRRHA_PPROF_ORACLE; without it this test is skipped.
 *
 * Both results are made into lines of text, one per stack with its labels, sorted; equal lines add up. What
 * google/pprof gets wrong is left out of the lines: columns of all but a location's last line (its key overwrites them),
 * numeric labels of value 0 without a unit (its encoder loses them); and the time where a source has none. That it loses
 * samples when only some sample types are scaled is shown by scaled_type. doc_url is younger than the revision that builds
 * with Go 1.19. */
#include <dirent.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "model/stackvec.h"
#include "pprof/oracle.h"
#include "pprof/pprof.h"
#include "tests/oracle/stacks.h"

extern char **environ;
static const char *oracle;
static char dir[] = "/tmp/pyrrha-oracle-XXXXXX";

/* ---- the two sides ---- */

static char *path_of(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static void run_oracle(const char *command, const char *out, char **in, size_t n)
{
	char **argv = xcalloc(n + 4, sizeof *argv);
	argv[0] = (char *)oracle;
	argv[1] = (char *)command;
	argv[2] = (char *)out;
	memcpy(argv + 3, in, n * sizeof *in);
	pid_t pid;
	int status;
	assert_int_equal(posix_spawn(&pid, oracle, NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free(argv);
}

static void load(const char *path, struct profile *p)
{
	struct buf b CLEANUP(buf_free) = { 0 };
	struct err e;
	profile_init(p, 0);
	assert_int_equal(buf_read_file(&b, path, NULL), 0);
	if (pprof_decode(b.ptr, b.len, NULL, p, &e))
		fail_msg("%s: %s", path, e.msg);
}

static void save(const char *path, const struct profile *p)
{
	struct buf b CLEANUP(buf_free) = { 0 };
	struct err e;
	if (pprof_encode_gz(p, &b, &e))
		fail_msg("%s", e.msg);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(b.ptr, 1, b.len, f), b.len);
	assert_int_equal(fclose(f), 0);
}

/* The sum of scale * profile, per sample type, through dictionary and vectors, back to a flat profile. scales: those of
 * the profiles for the first sample type, then for the second, and so on. */
static void combine(const struct profile *in, const double *scales, size_t n, struct profile *out)
{
	struct symbols *s = symbols_new();
	struct err e = { 0 };
	uint32_t types = in[0].n_sample_types;
	struct stackvec **of = xcalloc(n * types, sizeof(struct stackvec *)), **sums = xcalloc(types, sizeof(struct stackvec *));
	struct stackvec **column = xcalloc(n, sizeof(struct stackvec *));
	struct stackvec_type *names = xcalloc(types, sizeof *names);
	const struct profile **headers = xcalloc(n, sizeof *headers);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(in[i].n_sample_types, types);
		assert_int_equal(stackvec_from_profile(s, (struct profile *)&in[i], of + i * types, &e), 0);
		headers[i] = &in[i];
	}
	for (uint32_t t = 0; t < types; t++) {
		for (size_t i = 0; i < n; i++)
			column[i] = of[i * types + t];
		sums[t] = stackvec_sum(s, column, scales + t * n, n, &e);
		assert_non_null(sums[t]);
		names[t] = (struct stackvec_type){ profile_str(&in[0], in[0].sample_types[t].type_str),
						   profile_str(&in[0], in[0].sample_types[t].unit_str) };
	}
	assert_int_equal(stackvec_to_profile(sums, names, types, out, &e), 0);
	assert_int_equal(pprof_merge_header(headers, n, out, &e), 0);
	for (uint32_t t = 0; t < types; t++)
		stackvec_unref(sums[t]);
	for (size_t i = 0; i < n * types; i++)
		stackvec_unref(of[i]);
	free(of);
	free(sums);
	free(column);
	free(names);
	free(headers);
	symbols_unref(s);
}

#define SAME_STR(field) \
	assert_true(view_eq(profile_str(ours, ours->field), profile_str(theirs, theirs->field)))

static void assert_same_header(const struct profile *ours, const struct profile *theirs, bool compare_time)
{
	assert_int_equal(ours->period, theirs->period);
	assert_int_equal(ours->duration_ns, theirs->duration_ns);
	if (compare_time)
		assert_int_equal(ours->time_ns, theirs->time_ns);
	SAME_STR(period_type.type_str);
	SAME_STR(period_type.unit_str);
	SAME_STR(default_sample_type_str);
	SAME_STR(drop_frames_str);
	SAME_STR(keep_frames_str);
	assert_int_equal(ours->n_comments, theirs->n_comments);
	for (uint32_t i = 0; i < ours->n_comments; i++)
		SAME_STR(comments[i]);
	for (uint32_t i = 0; i < ours->n_sample_types; i++) {
		SAME_STR(sample_types[i].type_str);
		SAME_STR(sample_types[i].unit_str);
	}
}

/* Merges (or, of two, subtracts the first from the second) both ways and compares; then lets google/pprof read what we
 * wrote. */
static void compare(const char *command, char **paths, size_t n)
{
	bool diff = strcmp(command, "diff") == 0, timed = true;
	struct profile *in = xcalloc(n, sizeof *in), ours, theirs, copied;
	double *scales;
	char *a AUTOFREE = path_of("theirs.pb.gz"), *b AUTOFREE = path_of("ours.pb.gz"), *c AUTOFREE = path_of("copy.pb.gz");
	for (size_t i = 0; i < n; i++) {
		load(paths[i], &in[i]);
		timed &= in[i].time_ns != 0;
	}
	scales = xcalloc(n * in[0].n_sample_types, sizeof *scales);
	for (size_t i = 0; i < n * in[0].n_sample_types; i++)
		scales[i] = diff && i % n == 0 ? -1 : 1;
	run_oracle(command, a, paths, n);
	load(a, &theirs);
	profile_init(&ours, 0);
	combine(in, scales, n, &ours);
	assert_same_stacks(command, &ours, &theirs);
	assert_same_header(&ours, &theirs, timed);
	save(b, &ours);
	run_oracle("copy", c, &b, 1);
	load(c, &copied);
	assert_same_stacks("copy", &ours, &copied);
	for (size_t i = 0; i < n; i++)
		profile_release(&in[i]);
	profile_release(&ours);
	profile_release(&theirs);
	profile_release(&copied);
	unlink(a);
	unlink(b);
	unlink(c);
	free(in);
	free(scales);
}

/* ---- real profiles ---- */

static char *corpus_path(const char *name)
{
	const char *set = getenv("PYRRHA_CORPUS"), *src = getenv("top_srcdir");
	char *path = set ? xasprintf("%s/%s", set, name) : xasprintf("%s/../shared/corpus/%s", src ? src : ".", name);
	if (access(path, R_OK)) {
		print_message("no corpus at %s (set PYRRHA_CORPUS): skipped\n", path);
		free(path);
		skip();
	}
	return path;
}

static void corpus_files(void **state)
{
	static const char *const names[] = { "alloc_objects", "alloc_space_delta", "fgprof", "fib", "profile-with-labels",
					     "profile1", "single-stack", "two-stacks", "node-unsymbolised" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char name[64]; /* not allocated: a skip jumps out of here */
		snprintf(name, sizeof name, "%s.pb.gz", names[i]);
		char *path AUTOFREE = corpus_path(name);
		compare("merge", (char *[]){ path }, 1);
		compare("merge", (char *[]){ path, path, path }, 3);
		compare("diff", (char *[]){ path, path }, 2);
	}
}

static void corpus_series(void **state)
{
	char *folder AUTOFREE = corpus_path("series"), *paths[16];
	struct dirent **entries;
	int all = scandir(folder, &entries, NULL, alphasort), n = 0;
	for (int i = 0; i < all; i++) {
		if (view_ends(view_of(entries[i]->d_name), VIEW(".pb.gz")) && n < (int)ARRAY_LEN(paths))
			paths[n++] = xasprintf("%s/%s", folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	assert_int_equal(n, 10);
	compare("merge", paths, 10);
	for (int i = 1; i < n; i++)
		compare("diff", (char *[]){ paths[i - 1], paths[i] }, 2);
	for (int i = 0; i < n; i++)
		free(paths[i]);
}

/* ---- made-up profiles ---- */

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % below;
}

enum { STRINGS = 24, MAPPINGS = 4, FUNCTIONS = 20, LOCATIONS = 60, LINES = 130, SAMPLES = 200, DEPTH = 6, LABELS = 3 };

static struct profile_label random_label(void)
{
	if (pick(2))
		return (struct profile_label){ .key_str = 20 + pick(3), .str = 1 + pick(5) };
	return (struct profile_label){ .key_str = 20 + pick(3), .is_num = true, .num = (int64_t)pick(5) - 2,
				       .unit_str = pick(2) ? 6 + pick(2) : 0 };
}

static void random_tables(struct profile *p, const struct profile_mapping *maps)
{
	struct arena *a = &p->arena;
	p->strings = arena_alloc(a, STRINGS * sizeof *p->strings);
	p->strings[p->n_strings++] = VIEW("");
	while (p->n_strings < STRINGS)
		p->strings[p->n_strings] = view_of(arena_printf(a, "s%u", p->n_strings)), p->n_strings++;
	p->mappings = arena_alloc(a, MAPPINGS * sizeof *p->mappings);
	for (; p->n_mappings < MAPPINGS; p->n_mappings++) {
		struct profile_mapping m = maps[p->n_mappings];
		m.start = (1 + (uint64_t)pick(1000)) << 20; /* address space randomisation */
		m.limit += m.start + pick(100);             /* less than a page of difference */
		p->mappings[p->n_mappings] = m;
	}
	p->functions = arena_calloc(a, FUNCTIONS, sizeof *p->functions);
	for (; p->n_functions < FUNCTIONS; p->n_functions++)
		p->functions[p->n_functions] = (struct profile_function){ 1 + pick(3), pick(2), pick(3), pick(2) };
	p->lines = arena_alloc(a, LINES * sizeof *p->lines);
	for (; p->n_lines < LINES; p->n_lines++)
		p->lines[p->n_lines] = (struct profile_line){ 1 + pick(FUNCTIONS), (int64_t)pick(3) - 1, pick(2) };
	p->locations = arena_alloc(a, LOCATIONS * sizeof *p->locations);
	for (; p->n_locations < LOCATIONS; p->n_locations++) {
		uint32_t m = pick(MAPPINGS + 1);
		p->locations[p->n_locations] = (struct profile_location){
			.mapping = m, .address = (m ? p->mappings[m - 1].start : 0) + pick(3), .first_line = pick(LINES - 3),
			.n_lines = pick(3), .is_folded = pick(8) == 0 };
	}
}

/* Small ranges everywhere, so that keys meet. */
static void random_profile(struct profile *p, const struct profile_mapping *maps)
{
	struct arena *a = &p->arena;
	random_tables(p, maps);
	p->sample_types = arena_alloc(a, 2 * sizeof *p->sample_types);
	p->sample_types[p->n_sample_types++] = (struct profile_value_type){ 1, 2 };
	p->sample_types[p->n_sample_types++] = (struct profile_value_type){ 3, 4 };
	p->samples = arena_alloc(a, SAMPLES * sizeof *p->samples);
	p->stack = arena_alloc(a, SAMPLES * DEPTH * sizeof *p->stack);
	p->labels = arena_alloc(a, SAMPLES * LABELS * sizeof *p->labels);
	p->values = arena_alloc(a, SAMPLES * 2 * sizeof *p->values);
	for (; p->n_samples < SAMPLES; p->n_samples++) {
		struct profile_sample s = { p->n_stack, pick(DEPTH), p->n_labels, pick(3) ? 0 : pick(LABELS) };
		for (uint32_t i = 0; i < s.n_locations; i++)
			p->stack[p->n_stack++] = pick(pick(2) ? 3 : LOCATIONS);
		for (uint32_t i = 0; i < s.n_labels; i++)
			p->labels[p->n_labels++] = random_label();
		p->values[2 * p->n_samples] = (int64_t)pick(7) - 3;
		p->values[2 * p->n_samples + 1] = pick(3) ? 0 : (int64_t)pick(UINT32_MAX) << pick(20);
		p->samples[p->n_samples] = s;
	}
	p->period = pick(100);
	p->time_ns = pick(4) ? 1 + (int64_t)pick(1000) : 0;
	p->duration_ns = pick(1000);
	p->period_type = (struct profile_value_type){ 1, 2 };
	p->default_sample_type_str = pick(2) ? 3 : 0;
	p->drop_frames_str = pick(2) ? 5 : 0;
	p->comments = arena_alloc(a, 3 * sizeof *p->comments);
	while (p->n_comments < 3)
		p->comments[p->n_comments++] = 9 + pick(4);
}

static void made_up(void **state)
{
	char *paths[3] = { path_of("a.pb.gz"), path_of("b.pb.gz"), path_of("c.pb.gz") };
	for (unsigned round = 0; round < 25; round++) {
		struct profile_mapping maps[MAPPINGS];
		seed = round;
		for (size_t i = 0; i < MAPPINGS; i++)
			maps[i] = (struct profile_mapping){ .limit = 4096 + (uint64_t)pick(2) * 4096, .offset = pick(2) * 4096,
							    .file_str = pick(3), .build_id_str = pick(3), .has_functions = pick(2) };
		for (size_t i = 0; i < 3; i++) {
			struct profile p CLEANUP(profile_release);
			profile_init(&p, 0);
			random_profile(&p, maps);
			save(paths[i], &p);
		}
		compare("merge", paths, 3);
		compare("diff", paths, 2);
	}
	for (size_t i = 0; i < 3; i++) {
		unlink(paths[i]);
		free(paths[i]);
	}
}

/* One sample type doubled, the other left alone. google/pprof's ScaleN, which its units and -normalize go through, keeps
 * a sample only if a value that it scaled is not zero: of stacks that only the other type counts it loses the value.
 * Ours is each type for itself: nothing is lost. Should theirs be mended, `lossy` becomes `doubled`. */
static void scaled_type(void **state)
{
	static const struct profile_mapping maps[MAPPINGS] = { { .limit = 4096 }, { .limit = 8192, .offset = 4096, .file_str = 1 },
							       { .limit = 4096, .file_str = 2 }, { .limit = 4096, .build_id_str = 1 } };
	char *a AUTOFREE = path_of("in.pb.gz"), *b AUTOFREE = path_of("scaled.pb.gz");
	struct profile in, doubled, lossy, ours, theirs;
	uint32_t lost = 0;
	profile_init(&in, 0);
	seed = 1;
	random_profile(&in, maps);
	save(a, &in);
	run_oracle("scale=1,2", b, &a, 1);
	load(b, &theirs);
	load(a, &doubled);
	load(a, &lossy);
	assert_int_equal(doubled.n_samples, in.n_samples);
	for (uint32_t i = 0; i < in.n_samples; i++) {
		int64_t *v = doubled.values + 2 * i, *w = lossy.values + 2 * i;
		v[1] = w[1] = 2 * v[1];
		lost += v[0] && !v[1];
		w[0] = v[1] ? v[0] : 0;
	}
	assert_true(lost > 50);
	profile_init(&ours, 0);
	combine(&in, (const double[]){ 1, 2 }, 1, &ours);
	assert_same_stacks("scaled", &ours, &doubled);
	assert_same_stacks("google/pprof's loss", &lossy, &theirs);
	profile_release(&in);
	profile_release(&doubled);
	profile_release(&lossy);
	profile_release(&ours);
	profile_release(&theirs);
	unlink(a);
	unlink(b);
}

/* ---- drop_frames ---- */

static void compare_dropped(struct profile *p, const char *drop, const char *keep)
{
	char *a AUTOFREE = path_of("in.pb.gz"), *b AUTOFREE = path_of("dropped.pb.gz");
	struct profile ours, theirs;
	struct err e;
	struct view *s = arena_alloc(&p->arena, (p->n_strings + 2) * sizeof *s);
	memcpy(s, p->strings, p->n_strings * sizeof *s);
	p->strings = s;
	p->drop_frames_str = p->n_strings++;
	p->keep_frames_str = p->n_strings++;
	s[p->drop_frames_str] = view_of(drop);
	s[p->keep_frames_str] = view_of(keep);
	save(a, p);
	run_oracle("uninteresting", b, &a, 1);
	load(b, &theirs);
	load(a, &ours);
	if (pprof_drop_frames(&ours, &e))
		fail_msg("%s: %s", drop, e.msg);
	assert_same_stacks(drop, &ours, &theirs);
	profile_release(&ours);
	profile_release(&theirs);
	unlink(a);
	unlink(b);
}

/* Stacks that are dropped from the middle of a location, from the root, from nowhere; names that are simplified first. */
static void dropped_frames(void **state)
{
	static const char *const names[] = { "", "main", ".main", "f(int)", "(anonymous namespace)::g(x)", "A::operator()(int)",
					     "(void)", "main.func1", "malloc" };
	static const char *const rules[][2] = {
		{ "main", "" }, { "main|f", "f" }, { "f", "main" }, { ".*", "main" }, { ".*", "" }, { "", "" }, { "f|a)|(malloc", "" },
		{ "\\(anonymous namespace\\)::g", "" }, { "A::operator\\(\\)", "malloc" }, { "m.*", ".*\\.func1" }, { "(?i)MAIN", "" },
	};
	for (unsigned round = 0; round < 44; round++) {
		struct profile_mapping maps[MAPPINGS];
		struct profile p CLEANUP(profile_release);
		seed = round;
		for (size_t i = 0; i < MAPPINGS; i++)
			maps[i] = (struct profile_mapping){ .limit = 4096, .file_str = 1 + pick(3), .has_functions = true };
		profile_init(&p, 0);
		random_profile(&p, maps);
		for (uint32_t i = 1; i < ARRAY_LEN(names); i++)
			p.strings[i] = view_of(names[i]);
		for (uint32_t i = 0; i < p.n_functions; i++)
			p.functions[i].name_str = pick(ARRAY_LEN(names));
		for (uint32_t i = 0; i < p.n_lines; i++)
			p.lines[i].column = 0;
		compare_dropped(&p, rules[round % ARRAY_LEN(rules)][0], rules[round % ARRAY_LEN(rules)][1]);
	}
}

static void dropped_frames_of_corpus(void **state)
{
	static const char *const files[] = { "alloc_objects.pb.gz", "fib.pb.gz", "profile1.pb.gz", "profile-with-labels.pb.gz" };
	static const char *const rules[][2] = { { "runtime\\..*", "" }, { "runtime\\..*", "runtime\\.m.*" },
						{ ".*", "main\\..*|net/http.*" } };
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char *path AUTOFREE = corpus_path(files[i]);
		for (size_t k = 0; k < ARRAY_LEN(rules); k++) {
			struct profile p CLEANUP(profile_release);
			load(path, &p);
			compare_dropped(&p, rules[k][0], rules[k][1]);
		}
	}
}

int main(void)
{
	oracle = getenv("PYRRHA_PPROF_ORACLE");
	if (!oracle) {
		printf("no PYRRHA_PPROF_ORACLE (tests/oracle/run sets it): skipped\n");
		return 77;
	}
	if (!mkdtemp(dir)) {
		perror(dir);
		return 99;
	}
	const struct CMUnitTest tests[] = { cmocka_unit_test(corpus_files), cmocka_unit_test(corpus_series),
					    cmocka_unit_test(made_up), cmocka_unit_test(scaled_type),
					    cmocka_unit_test(dropped_frames), cmocka_unit_test(dropped_frames_of_corpus) };
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
