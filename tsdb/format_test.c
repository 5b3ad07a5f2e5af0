/* SPDX-License-Identifier: Apache-2.0 */
/* Directories written by earlier programs open and answer what they answered then. Each is a tar in tests/fixtures,
 * beside a text with its answers. `tsdb_format_test write DIR` makes the directory of today's format and prints the
 * answers: tar it, and name it in formats[], before the format changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "model/sourcekit.h"
#include "tsdb/testkit.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static const char *const formats[] = { "tsdb-format-1", "tsdb-format-2", "tsdb-format-3", "tsdb-format-4" };

/* ---- writing ---- */

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s failed\n", what);
	abort();
}

/* Profiles of three pods every ten minutes. */
static void fill_hours(struct kit *k, int64_t from, int64_t hours, uint64_t seed)
{
	for (int64_t t = from + 10 * MINUTE; t <= from + hours * HOUR; t += 10 * MINUTE)
		for (unsigned pod = 0; pod < 3; pod++) {
			must(!kit_append(k, pod, t + (int64_t)pod * 1000 - 5000, seed++, 20, NULL), "append");
			must(!kit_append_float(k, pod ? "up" : "scrape_duration_seconds", t + pod, (double)(seed % 7) / 3, NULL), "append");
		}
	tsdb_flush(k->db);
}

static void append_labelled(struct kit *k, int64_t t_ms)
{
	struct profile p;
	struct err e;
	kit_profile(&p, 77, 12);
	p.n_labels = 12;
	p.labels = arena_calloc(&p.arena, 12, sizeof *p.labels);
	for (uint32_t i = 0; i < 12; i++) {
		p.samples[i].first_label = i;
		p.samples[i].n_labels = 1;
		p.labels[i] = i % 2 ? (struct profile_label){ .key_str = 1, .is_num = true, .num = i, .unit_str = 2 }
				    : (struct profile_label){ .key_str = 3, .str = 5 };
	}
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("pod"), VIEW("labelled") } };
	struct sink_column c = { .labels = { l, 2 } };
	must(ptype_parse(VIEW(KIT_SAMPLES), &c.type), "ptype_parse");
	struct sink_profile both[] = { { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .interval_ms = 10000 },
				       { .columns = &c, .n_columns = 1, .t_ms = t_ms + 10000 } }; /* and a stale marker */
	struct sink_batch b = { .profiles = both, .n_profiles = 2 };
	must(!tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e), "append");
	profile_release(&p);
}

/* Of a binary that is known by a build id, with the names of its functions or without. */
static void append_built(struct kit *k, const char *pod, int64_t t_ms, bool named)
{
	struct profile p;
	struct err e;
	kit_profile(&p, 99, 25);
	p.mappings[0].build_id_str = 3; /* any string of its own */
	for (uint32_t i = 0; i < p.n_locations && !named; i++)
		p.locations[i].n_lines = 0;
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("pod"), view_of(pod) } };
	struct sink_column c = { .labels = { l, 2 } };
	must(ptype_parse(VIEW(KIT_SAMPLES), &c.type), "ptype_parse");
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	must(!tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e), "append");
	profile_release(&p);
}

/* Of two types that have the same stacks and are no multiples of each other. */
static void append_uneven(struct kit *k, int64_t t_ms, uint64_t seed)
{
	struct profile p;
	struct err e;
	kit_profile(&p, seed, 15);
	struct label l[2][2] = { { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("pod"), VIEW("uneven") } },
				 { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, { VIEW("pod"), VIEW("uneven") } } };
	struct sink_column c[2] = { { .labels = { l[0], 2 } }, { .labels = { l[1], 2 }, .value_index = 1 } };
	must(ptype_parse(VIEW(KIT_SAMPLES), &c[0].type) && ptype_parse(VIEW(KIT_CPU), &c[1].type), "ptype_parse");
	for (uint32_t i = 0; i < p.n_samples; i++) {
		p.values[2 * i] += 1;
		p.values[2 * i + 1] = 50000000 + (int64_t)(seed * 7919 + i * 104729) % 9000000;
	}
	struct sink_profile sp = { .profile = &p, .columns = c, .n_columns = 2, .t_ms = t_ms, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	must(!tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e), "append");
	profile_release(&p);
}

static void delete(struct kit *k, const char *pod, int64_t after, int64_t until)
{
	struct matcher m;
	struct err e;
	must(!matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), "matcher");
	must(!tsdb_delete(k->db, &m, 1, after, until, NULL, &e), "delete");
	matcher_release(&m);
}

/* A day and an hour that are sealed, with rollups and late parts, and an hour that is not; rows that were deleted and are
 * gone from their part, and others that are not yet; names that came late. */
static void write_all(struct kit *k)
{
	struct err e;
	k->now_ms = KIT_T0 + 8 * HOUR + 40 * MINUTE;
	kit_open(k);
	fill_hours(k, KIT_T0, 8, 1);
	append_labelled(k, KIT_T0 + 3 * HOUR + 1234);
	append_built(k, "nameless", KIT_T0 + 4 * HOUR + 77, false);
	for (uint64_t i = 1; i < 40; i++)
		append_uneven(k, KIT_T0 + 5 * HOUR + (int64_t)i * MINUTE, i % 3);
	must(!tsdb_seal(k->db, false, &e), "seal");
	fill_hours(k, KIT_T0 + 2 * HOUR + 3 * MINUTE, 1, 500); /* late */
	must(!tsdb_seal(k->db, true, &e), "seal");
	delete(k, "pod-1", KIT_T0 + HOUR + 15 * MINUTE, KIT_T0 + HOUR + 45 * MINUTE);
	must(!tsdb_clean(k->db, &e), "clean");
	k->now_ms = KIT_T0 + DAY + HOUR + 30 * MINUTE;
	fill_hours(k, KIT_T0 + DAY, 1, 1000);
	must(!tsdb_seal(k->db, false, &e), "seal");
	fill_hours(k, KIT_T0 + DAY + HOUR, 1, 2000);
	append_labelled(k, KIT_T0 + DAY + HOUR + 20 * MINUTE);
	append_built(k, "built", KIT_T0 + DAY + HOUR + 21 * MINUTE, true);
	must(!tsdb_resolve_names(k->db, &e), "names");
	delete(k, "pod-2", KIT_T0 + 6 * HOUR, KIT_T0 + DAY + HOUR + 5 * MINUTE);
	kit_close(k);
}

/* ---- answers ---- */

static struct source_series *select_all(struct source_view *v, size_t *n)
{
	struct err e;
	struct source_series *s;
	must(!v->ops->select(v, NULL, 0, 0, INT64_MAX, NULL, &s, n, &e), "select");
	return s;
}

/* Every sample of a float series, every head of a profile and the merge of each series, each as one number. */
static void tell_series(struct buf *out, struct source_view *v, const struct source_series *s)
{
	struct err e;
	size_t n;
	uint64_t h = 0;
	for (size_t i = 0; i < s->labels.n; i++)
		buf_printf(out, "%.*s=%.*s ", (int)s->labels.v[i].name.len, s->labels.v[i].name.ptr,
			   (int)s->labels.v[i].value.len, s->labels.v[i].value.ptr);
	if (!s->type) {
		struct point *p;
		must(!one_series_floats(v, s->ref, 0, INT64_MAX, NULL, &p, &n, &e), "floats");
		for (size_t i = 0; i < n; i++)
			h = h * 1000003 + (uint64_t)p[i].t_ms + value_bits(p[i].v);
		buf_printf(out, "floats %zu %016" PRIx64 "\n", n, h);
		free(p);
		return;
	}
	struct source_profile *p;
	must(!one_series_profiles(v, s->ref, 0, INT64_MAX, NULL, &p, &n, &e), "profiles");
	for (size_t i = 0; i < n; i++)
		h = h * 1000003 + (uint64_t)(p[i].t_ms + p[i].duration_ns + p[i].cover_ms + p[i].interval_ms + p[i].period +
					     p[i].total * 31 + p[i].stale);
	struct source_part parts[] = { { s->ref, 0, INT64_MAX, 1, 0 },
				       { s->ref, KIT_T0 + 2 * HOUR + 15 * MINUTE, KIT_T0 + 5 * HOUR + 5 * MINUTE, 1, 1 },
				       { s->ref, KIT_T0 + DAY, KIT_T0 + 2 * DAY, 1, 2 } };
	struct stackvec *sums[3];
	double share[3];
	int64_t exact[3];
	const struct matcher function = { MATCH_EQ, VIEW("function"), VIEW("main.f7"), NULL };
	const struct source_frame_filter f = { .m = &function, .n = 1 };
	must(!v->ops->merge(v, parts, 3, 3, SYMBOLS_WHOLE, NULL, sums, &e), "merge");
	must(!v->ops->sums(v, parts, 3, 3, &f, NULL, share, exact, &e), "sums");
	buf_printf(out, "profiles %zu %016" PRIx64, n, h);
	for (int i = 0; i < 3; i++) {
		buf_printf(out, " %016" PRIx64 " %" PRId64, kit_vec_sum(sums[i]), exact[i]);
		stackvec_unref(sums[i]);
	}
	buf_puts(out, "\n");
	free(p);
}

static void tell(struct buf *out, struct kit *k)
{
	struct err e;
	struct source_view *v;
	size_t n;
	must(!tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), "view");
	struct source_series *s = select_all(v, &n);
	for (size_t i = 0; i < n; i++)
		tell_series(out, v, &s[i]);
	free(s);
	v->ops->release(v);
}

/* ---- reading ---- */

static void run(const char *const *argv)
{
	pid_t pid = fork();
	int status = 1;
	if (!pid) {
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static char *fixture(const char *name, const char *suffix)
{
	const char *top = getenv("top_srcdir");
	return xasprintf("%s/tests/fixtures/%s%s", top ? top : "..", name, suffix);
}

static char *read_text(const char *name)
{
	char *text = xcalloc(1, 65536);
	FILE *f = fopen(name, "re");
	assert_non_null(f);
	assert_true(fread(text, 1, 65535, f) > 0);
	fclose(f);
	return text;
}

static void assert_answers(struct kit *k, const char *want)
{
	struct buf got = { 0 };
	tell(&got, k);
	buf_putc(&got, 0);
	assert_string_equal(got.ptr, want);
	buf_free(&got);
}

/* It answers the same as it is, after a restart, and once its open windows are sealed and rolled up by this program. */
static void test_formats(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		struct kit k;
		struct err e;
		AUTOFREE char *tar = fixture(formats[i], ".tar.gz"), *answers = fixture(formats[i], ".answers");
		AUTOFREE char *want = read_text(answers);
		kit_init(&k);
		k.now_ms = KIT_T0 + DAY + HOUR + 30 * MINUTE;
		run((const char *const[]){ "tar", "-C", k.dir, "-xzf", tar, NULL });
		kit_open(&k);
		struct tsdb_stats st;
		tsdb_stats(k.db, &st);
		assert_int_equal(st.lost_records, 0);
		assert_answers(&k, want);
		kit_reopen(&k);
		assert_answers(&k, want);
		k.now_ms = KIT_T0 + 3 * DAY;
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
		assert_answers(&k, want);
		kit_reopen(&k);
		assert_answers(&k, want);
		tsdb_stats(k.db, &st);
		assert_int_equal(st.lost_records, 0);
		kit_free(&k);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "write")) {
		struct kit k = { .now_ms = KIT_T0 };
		struct buf out = { 0 };
		kit_init(&k);
		char *dir = xstrdup(argv[2]);
		k.o.path = dir;
		k.o.no_sealing = true; /* so that what was deleted last is still there */
		write_all(&k);
		kit_open(&k);
		tell(&out, &k);
		kit_free(&k);
		fwrite(out.ptr, 1, out.len, stdout);
		buf_free(&out);
		free(dir);
		return 0;
	}
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_formats) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
