/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of peers and matchers about them; peers that fail; series that several peers have; a view that several threads use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fleet/union_internal.h"
#include "model/sourcekit.h"
#include "tests/fleet/unionkit.h"

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"

static struct source_view *joint_view(void)
{
	struct source_view *v;
	struct err e;
	assert_int_equal(fleet_union_source(kit_joint)->open(fleet_union_source(kit_joint), &v, &e), 0);
	return v;
}

static struct ptype type_of(const char *name)
{
	struct ptype t;
	assert_true(ptype_parse(view_of(name), &t));
	return t;
}

static void add_at(size_t peer, const char *name, const char *pod, const char *region, int64_t t, int64_t duration_s, const char *text)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("pod"), view_of(pod) }, { VIEW("region"), view_of(region) } };
	struct ptype type = type_of(name);
	struct source_profile p = { .t_ms = t, .duration_ns = duration_s * 1000000000, .cover_ms = 10000, .interval_ms = 10000, .weight = 1 };
	kit_add_profile(peer, (struct labels){ l, *region ? 3 : 2 }, &type, &p, text);
}

static struct source_limits with_damage(struct source_damage *d)
{
	return (struct source_limits){ .damage = d };
}

/* The series that are selected, as text. */
static const char *selected(struct source_view *v, const struct matcher *m, size_t n, const struct source_limits *lim, struct buf *out)
{
	struct source_series *s;
	size_t n_s;
	struct err e = { 0 };
	buf_reset(out);
	if (v->ops->select(v, m, n, 0, KIT_END, lim, &s, &n_s, &e)) {
		buf_printf(out, "error %d: %s", (int)e.code, e.msg);
		return out->ptr;
	}
	for (size_t i = 0; i < n_s; i++)
		buf_printf(out, "%s%.*s/%.*s", i ? " " : "", VIEW_ARG(labels_get(s[i].labels, VIEW("pod"))), VIEW_ARG(labels_get(s[i].labels, VIEW("region"))));
	free(s);
	return out->ptr ? out->ptr : "";
}

static const char *selected_one(struct source_view *v, enum matcher_op op, const char *name, const char *value, struct buf *out)
{
	struct matcher m;
	struct err e;
	assert_int_equal(matcher_init(&m, op, view_of(name), view_of(value), &e), 0);
	const char *text = selected(v, &m, 1, NULL, out);
	matcher_release(&m);
	return text;
}

static const char *values_of(struct source_view *v, const char *name, struct buf *out)
{
	struct view *t;
	size_t n;
	struct err e;
	buf_reset(out);
	buf_puts(out, "");
	assert_int_equal(name ? v->ops->label_values(v, view_of(name), NULL, 0, 0, KIT_END, NULL, &t, &n, &e)
			      : v->ops->label_names(v, NULL, 0, 0, KIT_END, NULL, &t, &n, &e), 0);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%.*s", i ? " " : "", VIEW_ARG(t[i]));
	free(t);
	return out->ptr;
}

/* Peer 0 has region="eu" and a series with a region of its own; peer 1 has region="us"; peer 2 has none. */
static void open_regions(void)
{
	kit_open_all(3);
	kit_peer_external(0, "region", "eu");
	kit_peer_external(1, "region", "us");
	add_at(0, CPU, "a", "", KIT_START, 10, "main 1");
	add_at(0, CPU, "b", "own", KIT_START, 10, "main 2");
	add_at(1, CPU, "c", "", KIT_START, 10, "main 3");
	add_at(2, CPU, "d", "", KIT_START, 10, "main 4");
}

static void test_labels(void **unused)
{
	(void)unused;
	struct buf out = { 0 };
	open_regions();
	struct source_view *v = joint_view();
	assert_string_equal(selected(v, NULL, 0, NULL, &out), "a/eu b/own c/us d/");
	assert_string_equal(selected_one(v, MATCH_EQ, "region", "eu", &out), "a/eu");
	assert_string_equal(selected_one(v, MATCH_EQ, "region", "own", &out), "b/own");
	assert_string_equal(selected_one(v, MATCH_NE, "region", "eu", &out), "b/own c/us d/");
	assert_string_equal(selected_one(v, MATCH_EQ, "region", "", &out), "d/");
	assert_string_equal(selected_one(v, MATCH_NE, "region", "", &out), "a/eu b/own c/us");
	assert_string_equal(selected_one(v, MATCH_RE, "region", "", &out), "d/");
	assert_string_equal(selected_one(v, MATCH_RE, "region", "eu|own|", &out), "a/eu b/own d/");
	assert_string_equal(selected_one(v, MATCH_NRE, "region", "eu|us", &out), "b/own d/");
	assert_string_equal(selected_one(v, MATCH_EQ, "pod", "c", &out), "c/us");
	assert_string_equal(values_of(v, "region", &out), "eu own us");
	assert_string_equal(values_of(v, "pod", &out), "a b c d");
	assert_string_equal(values_of(v, NULL, &out), "__name__ pod region");
	v->ops->release(v);

	/* The first question of a view does not know the labels: a peer for which it was wrong is asked again, and no other. */
	unsigned before[3] = { kit_peers[0].n_started, kit_peers[1].n_started, kit_peers[2].n_started };
	v = joint_view();
	assert_string_equal(selected_one(v, MATCH_EQ, "region", "eu", &out), "a/eu");
	assert_int_equal(kit_peers[0].n_started - before[0], 2);
	assert_int_equal(kit_peers[2].n_started - before[2], 1);
	v->ops->release(v);
	before[0] = kit_peers[0].n_started;
	v = joint_view();
	assert_string_equal(selected_one(v, MATCH_EQ, "pod", "a", &out), "a/eu");
	assert_int_equal(kit_peers[0].n_started - before[0], 1);
	v->ops->release(v);
	buf_free(&out);
	kit_close_all();
}

/* ---- failures ---- */

static void one_warning(void *arg, const char *text)
{
	buf_printf(arg, "%s\n", text);
}

static const char *warnings(struct source_damage *d, struct buf *out)
{
	buf_reset(out);
	buf_puts(out, "");
	source_damage_warnings(d, one_warning, out);
	return out->ptr;
}

/* The total of a merge of all series; negative: the code of its error. */
static int64_t merged(struct source_view *v, const struct source_series *s, size_t n, const struct source_limits *lim, struct err *e)
{
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	struct stackvec *sum;
	int64_t total;
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ .ref = s[i].ref, .until_ms = KIT_END, .scale = 1 };
	int rc = v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, lim, &sum, e);
	free(parts);
	if (rc)
		return rc;
	assert_int_equal(stackvec_total_int(sum, &total, e), 0);
	stackvec_unref(sum);
	return total;
}

static void test_dead(void **unused)
{
	(void)unused;
	struct buf out = { 0 };
	struct err e = { 0 };
	struct source_series *s;
	size_t n;
	open_regions();
	struct source_view *v = joint_view();
	struct source_damage d = { 0 }, later = { 0 };
	struct source_limits lim = with_damage(&d), later_lim = with_damage(&later);
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, &lim, &s, &n, &e), 0);
	assert_int_equal(merged(v, s, n, &lim, &e), 10);
	assert_string_equal(warnings(&d, &out), "");

	/* It fails between two calls: its share is missing from then on, and it is not asked any more. */
	kit_peers[1].fails_at = FLEET_MERGE;
	kit_peers[1].fails_with = ERR_TIMEOUT;
	assert_int_equal(merged(v, s, n, &lim, &e), 7);
	assert_non_null(strstr(warnings(&d, &out), "http://b"));
	assert_non_null(strstr(out.ptr, "broken for the test"));
	assert_null(strstr(out.ptr, "http://a"));
	kit_peers[1].fails_at = 0;
	unsigned asked = kit_peers[1].n_started;
	assert_int_equal(merged(v, s, n, &later_lim, &e), 7);
	assert_int_equal(kit_peers[1].n_started, asked);
	assert_non_null(strstr(warnings(&later, &out), "http://b")); /* each question is told */
	assert_string_equal(selected(v, NULL, 0, &later_lim, &out), "a/eu b/own d/");

	/* A question about others' series is whole. */
	struct source_damage none = { 0 };
	struct source_limits none_lim = with_damage(&none);
	assert_int_equal(merged(v, s, 1, &none_lim, &e), 1);
	assert_int_equal(source_damage_met(&none), 0);
	source_damage_release(&d);
	source_damage_release(&later);
	source_damage_release(&none);
	free(s);
	v->ops->release(v);

	/* Another view asks it again. */
	v = joint_view();
	assert_string_equal(selected(v, NULL, 0, NULL, &out), "a/eu b/own c/us d/");
	v->ops->release(v);
	buf_free(&out);
	kit_close_all();
}

static void test_whole(void **unused)
{
	(void)unused;
	static const enum err_code missing[] = { ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_CORRUPT, ERR_IO, ERR_DENIED, ERR_INTERNAL, ERR_BAD_DATA };
	static const enum err_code others[] = { ERR_LIMIT, ERR_CANCELED, ERR_EXECUTION };
	struct buf out = { 0 }, want = { 0 };
	open_regions();
	kit_peers[0].fails_at = FLEET_SELECT;
	for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
		kit_peers[0].fails_with = missing[i];
		struct source_damage d = { 0 };
		struct source_limits lim = with_damage(&d);
		struct source_view *v = joint_view();
		assert_string_equal(selected(v, NULL, 0, &lim, &out), "c/us d/");
		lim.whole = true;
		buf_reset(&want);
		buf_printf(&want, "error %d: server http://a: broken for the test", (int)ERR_UNAVAILABLE);
		assert_string_equal(selected(v, NULL, 0, &lim, &out), want.ptr); /* also later in the view */
		v->ops->release(v);
		v = joint_view();
		assert_string_equal(selected(v, NULL, 0, &lim, &out), want.ptr);
		v->ops->release(v);
		v = joint_view();
		assert_string_equal(selected(v, NULL, 0, NULL, &out), want.ptr);
		v->ops->release(v);
		source_damage_release(&d);
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) { /* the question's own; the others are finished all the same (kit_close_all) */
		kit_peers[0].fails_with = others[i];
		struct source_damage d = { 0 };
		struct source_limits lim = with_damage(&d);
		struct source_view *v = joint_view();
		buf_reset(&want);
		buf_printf(&want, "error %d: broken for the test", (int)others[i]);
		assert_string_equal(selected(v, NULL, 0, &lim, &out), want.ptr);
		assert_int_equal(source_damage_met(&d), 0);
		v->ops->release(v);
	}
	buf_free(&out);
	buf_free(&want);
	kit_close_all();
}

/* All peers are asked before any is waited for. */
static void test_at_once(void **unused)
{
	(void)unused;
	struct buf out = { 0 };
	struct source_series *s;
	struct err e;
	size_t n;
	open_regions();
	struct source_view *v = joint_view();
	kit_all_first = true;
	kit_expected = 3;
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	kit_expected = 3;
	assert_int_equal(merged(v, s, n, NULL, &e), 10);
	assert_true(kit_all_first);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(kit_peers[i].n_of[FLEET_MERGE], 1);
	free(s);
	v->ops->release(v);
	buf_free(&out);
	kit_close_all();
}

/* A slow server is finished last, wherever it stands, so that the answers of others are read when its time is over. After an error of the question
 * nobody waits for it. */
static void test_slow(void **unused)
{
	(void)unused;
	struct buf out = { 0 };
	open_regions();
	kit_peers[0].slow = true;
	struct source_view *v = joint_view();
	assert_string_equal(selected(v, NULL, 0, NULL, &out), "a/eu b/own c/us d/");
	assert_int_equal(kit_peers[0].n_canceled, 0);
	kit_peers[1].fails_at = FLEET_SELECT;
	kit_peers[1].fails_with = ERR_LIMIT;
	selected(v, NULL, 0, NULL, &out);
	assert_true(strstr(out.ptr, "broken for the test") != NULL);
	assert_int_equal(kit_peers[0].n_canceled, 1);
	v->ops->release(v);
	buf_free(&out);
	kit_close_all();
}

/* ---- large calls ---- */

#define SPLIT_SERIES 7
#define SPLIT_STEPS 9

/* Everything that is asked by series and by group. */
struct split_results {
	double sums[SPLIT_STEPS];
	int64_t totals[SPLIT_STEPS], exact[SPLIT_STEPS];
	size_t n_profiles[SPLIT_SERIES];
	int64_t tiles[SPLIT_SERIES][SPLIT_STEPS];
};

static int take_profiles(void *arg, size_t series, struct source_profile *p, size_t n, struct err *e)
{
	(void)e;
	((struct split_results *)arg)->n_profiles[series] = n;
	free(p);
	return 0;
}

static int take_covers(void *arg, size_t series, struct source_cover *c, struct err *e)
{
	(void)e;
	for (size_t i = 0; i < SPLIT_STEPS; i++)
		((struct split_results *)arg)->tiles[series][i] = c[i].total;
	source_covers_free(c, SPLIT_STEPS);
	return 0;
}

static void split_ask(const struct source_tiles *tiles, struct split_results *r)
{
	struct source_series *s;
	struct source_part parts[SPLIT_SERIES];
	struct stackvec *vecs[SPLIT_STEPS];
	uint64_t refs[SPLIT_SERIES];
	struct err e = { 0 };
	size_t n;
	struct source_view *v = joint_view();
	memset(r, 0, sizeof *r);
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	assert_int_equal(n, SPLIT_SERIES);
	for (size_t i = 0; i < n; i++) {
		uint32_t skip = i % 3;
		refs[i] = s[i].ref;
		parts[i] = (struct source_part){ .ref = s[i].ref, .after_ms = KIT_START - KIT_STEP + skip * KIT_STEP, .until_ms = KIT_START + skip * KIT_STEP, .scale = 1,
						 .group = skip, .n_steps = SPLIT_STEPS - skip, .step_ms = KIT_STEP };
	}
	assert_int_equal(v->ops->merge(v, parts, n, SPLIT_STEPS, SYMBOLS_WHOLE, NULL, vecs, &e), 0);
	for (size_t i = 0; i < SPLIT_STEPS; i++) {
		assert_int_equal(stackvec_total_int(vecs[i], &r->totals[i], &e), 0);
		stackvec_unref(vecs[i]);
	}
	assert_int_equal(v->ops->sums(v, parts, n, SPLIT_STEPS, NULL, NULL, r->sums, r->exact, &e), 0);
	assert_int_equal(v->ops->profiles(v, refs, n, 0, KIT_END, NULL, take_profiles, r, &e), 0);
	assert_int_equal(v->ops->covers(v, refs, n, tiles, NULL, take_covers, r, &e), 0);
	free(s);
	v->ops->release(v);
}

/* Calls that are larger than a server takes have the result that they have in one. */
static void test_split(void **unused)
{
	(void)unused;
	const struct source_tiles tiles = { .after_ms = KIT_START - KIT_STEP, .width_ms = KIT_STEP, .n = SPLIT_STEPS };
	struct split_results want, got;
	char pod[2] = "a", text[32];
	kit_open_all(1);
	kit_peer_external(0, "region", "eu");
	for (int i = 0; i < SPLIT_SERIES; i++, pod[0]++)
		for (int k = 0; k < SPLIT_STEPS; k++) {
			snprintf(text, sizeof text, "main %d", 1 + i * 100 + k * k);
			add_at(0, CPU, pod, "", KIT_START + k * KIT_STEP, 10, text);
		}
	split_ask(&tiles, &want);
	assert_true(want.totals[0] && want.totals[SPLIT_STEPS - 1] > want.totals[0] && want.tiles[6][0] == 601);
	for (size_t max = SPLIT_SERIES; max <= 2 * SPLIT_SERIES; max++) {
		unsigned before = kit_peers[0].n_of[FLEET_MERGE], covers = kit_peers[0].n_of[FLEET_COVERS];
		const struct fleet_call_max limits = { 1 + max / 3, 2 * SPLIT_STEPS + max, max, max / 4 };
		kit_peers[0].peer.max = &limits;
		split_ask(&tiles, &got);
		assert_memory_equal(&want, &got, sizeof got);
		assert_true(kit_peers[0].n_of[FLEET_MERGE] >= before + 3);
		assert_true(kit_peers[0].n_of[FLEET_COVERS] >= covers + 3);
	}

	/* What cannot be split is an error of the question that says what to do, and not of the server. */
	const struct fleet_call_max few = { 1, SPLIT_STEPS, 1, 1 };
	kit_peers[0].peer.max = &few;
	struct source_view *v = joint_view();
	struct source_series *s;
	size_t n;
	struct err e = { 0 };
	uint64_t refs[SPLIT_SERIES];
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	for (size_t i = 0; i < n; i++)
		refs[i] = s[i].ref;
	assert_int_equal(v->ops->covers(v, refs, n, &tiles, NULL, take_covers, &got, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "ask for fewer series or steps"));
	assert_int_equal(merged(v, s, n, NULL, &e), -ERR_LIMIT);
	free(s);
	v->ops->release(v);
	kit_close_all();
}

/* ---- series of several peers ---- */

/* Peers measure at the same time, a second apart: each measurement counts once, and a merge has what the list has. */
static void test_replicas(void **unused)
{
	(void)unused;
	struct err e;
	struct source_series *s;
	struct source_profile *p;
	size_t n, n_p;
	kit_open_all(2);
	for (int i = 0; i < 20; i++) {
		add_at(0, CPU, "a", "", KIT_START + i * 10000, 10, i == 7 ? "main;f 1" : "main 1");
		if (i >= 10)
			add_at(1, CPU, "a", "", KIT_START + i * 10000 + 1000, 10, "main 100");
	}
	for (int i = 20; i < 25; i++)
		add_at(1, CPU, "a", "", KIT_START + i * 10000 + 1000, 10, "main 100");
	struct source_view *v = joint_view();
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	assert_int_equal(n, 1);
	assert_int_equal(one_series_profiles(v, s->ref, 0, KIT_END, NULL, &p, &n_p, &e), 0);
	int64_t total = 0;
	for (size_t i = 0; i < n_p; i++) {
		assert_true(!i || p[i].t_ms - p[i].duration_ns / 1000000 >= p[i - 1].t_ms);
		total += p[i].total;
	}
	assert_int_equal(n_p, 25);
	assert_int_equal(merged(v, s, n, NULL, &e), total);
	/* by steps, scaled, each with what is stamped in it */
	struct source_part part = { .ref = s->ref, .after_ms = KIT_START - 10000, .until_ms = KIT_START, .scale = 2, .n_steps = 26, .step_ms = 10000 };
	double sums[26];
	assert_int_equal(v->ops->sums(v, &part, 1, 26, NULL, NULL, sums, NULL, &e), 0);
	for (size_t k = 0; k < 26; k++) {
		int64_t until = KIT_START + (int64_t)k * 10000;
		double want = 0;
		for (size_t i = 0; i < n_p; i++)
			want += p[i].t_ms > until - 10000 && p[i].t_ms <= until ? 2.0 * (double)p[i].total : 0;
		assert_true(sums[k] == want);
	}
	/* the list is asked for once, and then known */
	unsigned asked = kit_peers[0].n_of[FLEET_PROFILES];
	assert_int_equal(merged(v, s, n, NULL, &e), total);
	assert_int_equal(kit_peers[0].n_of[FLEET_PROFILES], asked);
	free(p);
	free(s);
	v->ops->release(v);
	kit_close_all();
}

/* Parts by step name each series once for the lists of their profiles. */
static void test_steps(void **unused)
{
	(void)unused;
	struct err e;
	struct source_series *s;
	struct source_part parts[6];
	struct stackvec *vecs[3];
	size_t n;
	kit_open_all(2);
	for (size_t peer = 0; peer < 2; peer++) {
		add_at(peer, CPU, "a", "", KIT_START + (int64_t)peer * 10000, 10, "main 1");
		add_at(peer, CPU, "b", "", KIT_START + (int64_t)peer * 10000, 10, "main 2");
	}
	struct source_view *v = joint_view();
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	assert_int_equal(n, 2);
	for (uint32_t i = 0; i < 6; i++)
		parts[i] = (struct source_part){ .ref = s[i % 2].ref, .after_ms = KIT_START + (i / 2 - INT64_C(1)) * 10000, .until_ms = KIT_START + i / 2 * 10000, .scale = 1,
						 .group = i / 2 };
	unsigned named = kit_peers[0].n_refs;
	assert_int_equal(v->ops->merge(v, parts, 6, 3, SYMBOLS_WHOLE, NULL, vecs, &e), 0);
	assert_int_equal(kit_peers[0].n_refs - named, 2);
	for (size_t i = 0; i < 3; i++)
		stackvec_unref(vecs[i]);
	free(s);
	v->ops->release(v);
	kit_close_all();
}

/* Replicas that take turns, and measure a part of the time: each covers the time since the other. */
static void test_turns(void **unused)
{
	(void)unused;
	struct err e;
	struct source_series *s;
	struct source_profile *p;
	size_t n, n_p;
	kit_open_all(2);
	for (int i = 0; i < 20; i++) {
		add_at(0, CPU, "a", "", KIT_START + i * 10000, 2, "main 1");
		add_at(1, CPU, "a", "", KIT_START + i * 10000 + 5000, 2, "main 100");
	}
	struct source_view *v = joint_view();
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	assert_int_equal(one_series_profiles(v, s->ref, 0, KIT_END, NULL, &p, &n_p, &e), 0);
	assert_int_equal(n_p, 40);
	for (size_t i = 1; i < n_p; i++)
		assert_int_equal(p[i].cover_ms, 5000);
	assert_int_equal(merged(v, s, n, NULL, &e), 20 * 101);
	free(p);
	free(s);
	v->ops->release(v);
	kit_close_all();
}

/* A later select finds another holder: lists that were joined without it are not used any more. */
static void test_later_holder(void **unused)
{
	(void)unused;
	struct err e;
	struct source_series *s;
	size_t n;
	kit_open_all(3);
	for (int i = 0; i < 3; i++)
		add_at((size_t)i, CPU, "a", "", KIT_START + i * 10000, 10, (const char *[]){ "main 1", "main 10", "main 100" }[i]);
	struct source_view *v = joint_view();
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_START + 10000, NULL, &s, &n, &e), 0);
	assert_int_equal(merged(v, s, n, NULL, &e), 11);
	free(s);
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	assert_int_equal(n, 1);
	assert_int_equal(merged(v, s, n, NULL, &e), 111);
	free(s);
	v->ops->release(v);
	kit_close_all();
}

/* Two series of one peer that have the same labels once the peer's are added. */
static void test_collision(void **unused)
{
	(void)unused;
	struct buf out = { 0 };
	struct err e;
	struct source_series *s;
	size_t n;
	kit_open_all(1);
	kit_peer_external(0, "region", "eu");
	add_at(0, CPU, "a", "", KIT_START, 10, "main 1");
	add_at(0, CPU, "a", "eu", KIT_START + 10000, 10, "main 2");
	struct source_view *v = joint_view();
	assert_string_equal(selected(v, NULL, 0, NULL, &out), "a/eu");
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	assert_int_equal(merged(v, s, n, NULL, &e), 3);
	free(s);
	v->ops->release(v);
	buf_free(&out);
	kit_close_all();
}

static void test_nobody(void **unused)
{
	(void)unused;
	struct buf out = { 0 };
	struct err e;
	kit_open_all(0);
	struct source_view *v = joint_view();
	assert_string_equal(selected(v, NULL, 0, NULL, &out), "");
	assert_string_equal(values_of(v, NULL, &out), "");
	assert_int_equal(merged(v, NULL, 0, NULL, &e), 0);
	struct source_part p = { .ref = 5, .until_ms = 1, .scale = 1 };
	struct stackvec *sum;
	assert_int_equal(v->ops->merge(v, &p, 1, 1, SYMBOLS_WHOLE, NULL, &sum, &e), -ERR_INTERNAL);
	v->ops->release(v);
	buf_free(&out);
	kit_close_all();
}

/* A sum that does not fit is an error, as it is on one server. */
static void test_overflow(void **unused)
{
	(void)unused;
	struct err e;
	struct source_series *s;
	size_t n;
	kit_open_all(2);
	add_at(0, CPU, "a", "", KIT_START, 10, "main 9000000000000000000");
	add_at(1, CPU, "b", "", KIT_START, 10, "main 9000000000000000000");
	struct source_view *v = joint_view();
	assert_int_equal(v->ops->select(v, NULL, 0, 0, KIT_END, NULL, &s, &n, &e), 0);
	assert_int_equal(merged(v, s, n, NULL, &e), -ERR_EXECUTION);
	struct source_part parts[2] = { { .ref = s[0].ref, .until_ms = KIT_END, .scale = 1 }, { .ref = s[1].ref, .until_ms = KIT_END, .scale = 1 } };
	double sum;
	assert_int_equal(v->ops->sums(v, parts, 2, 1, NULL, NULL, &sum, NULL, &e), -ERR_EXECUTION);
	assert_int_equal(merged(v, s, 1, NULL, &e), 9000000000000000000); /* nothing is left of the sum that failed */
	parts[0].scale = parts[1].scale = 0.5; /* integers of more than 64 bits in between */
	assert_int_equal(v->ops->sums(v, parts, 2, 1, NULL, NULL, &sum, NULL, &e), 0);
	assert_true(sum == 9e18);
	free(s);
	v->ops->release(v);
	kit_close_all();
}

/* Values of a hostile server: no sum of theirs leaves 128 bits. */
static void test_wide_overflow(void **unused)
{
	(void)unused;
	struct err e = { 0 };
	struct symbols *symbols = symbols_new();
	struct union_dictionary *d = union_dictionary_new();
	uint32_t *column = xcalloc(1, sizeof *column);
	double *value = xcalloc(1, sizeof *value);
	*column = symbols_column(symbols, symbols_stack(symbols, NULL, 0), 0);
	*value = 9e29;
	struct stackvec *huge = stackvec_new_floats(symbols, column, value, 1);
	const struct union_term terms[2] = { { huge, 2, 1, INT64_C(1) << 42 }, { huge, 2, 1, 1 } };
	assert_null(union_dictionary_sum(d, terms, 2, &e));
	assert_int_equal(e.code, ERR_EXECUTION);
	struct stackvec *sum = union_dictionary_sum(d, terms + 1, 1, &e); /* nothing is left of the sum that failed */
	assert_non_null(sum);
	assert_true(sum->floats[0] > 1.79e30 && sum->floats[0] < 1.81e30);
	stackvec_unref(sum);
	stackvec_unref(huge);
	union_dictionary_unref(d);
	symbols_unref(symbols);
}

/* ---- threads ---- */

struct reader {
	struct source_view *v;
	int64_t total;
};

static void *reader_run(void *arg)
{
	struct reader *r = arg;
	struct source_series *s;
	struct err e;
	for (int i = 0; i < 50; i++) {
		size_t n;
		assert_int_equal(r->v->ops->select(r->v, NULL, 0, 0, 2 * KIT_END, NULL, &s, &n, &e), 0);
		size_t n_profiles = 0;
		for (size_t k = 0; k < n; k++)
			if (s[k].type)
				s[n_profiles++] = s[k];
		r->total = merged(r->v, s, n_profiles, NULL, &e);
		free(s);
	}
	return NULL;
}

static void test_threads(void **unused)
{
	(void)unused;
	struct reader r[4];
	pthread_t t[4];
	struct err e;
	kit_state = kit_first_seed();
	kit_fill();
	struct source_view *v = joint_view();
	for (int i = 0; i < 4; i++) {
		r[i] = (struct reader){ v, 0 };
		assert_int_equal(thread_start(&t[i], "reader", reader_run, &r[i], &e), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_true(r[0].total > 0);
	for (int i = 1; i < 4; i++)
		assert_int_equal(r[i].total, r[0].total);
	v->ops->release(v);
	kit_close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels), cmocka_unit_test(test_dead), cmocka_unit_test(test_whole), cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_slow), cmocka_unit_test(test_split), cmocka_unit_test(test_steps), cmocka_unit_test(test_wide_overflow),
		cmocka_unit_test(test_replicas), cmocka_unit_test(test_turns), cmocka_unit_test(test_later_holder), cmocka_unit_test(test_collision),
		cmocka_unit_test(test_nobody), cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
