/* SPDX-License-Identifier: Apache-2.0 */
/* Covers, and first and last profiles, as a generation has them: what is read of a payload is what the columns say, of each kind of series; what no writer
 * writes is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tsdb/part/part_ends.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define EVERY 5000
#define PODS 8

static bool is_there(unsigned pod, int64_t t_ms)
{
	int64_t k = t_ms / EVERY;
	return (pod != 1 || k % 50) && (pod != 2 || k % 2); /* some holes; more than a generation has */
}

/* Pod 3 ends with a marker, pod 4 measures a quarter of the time, pod 5 sometimes; pod 6 has a total that is no multiple of its period, pod 7 is a float. */
static void append_pod(struct kit *k, unsigned pod, int64_t t_ms)
{
	struct profile p;
	struct err e;
	char name[16];
	snprintf(name, sizeof name, "pod-%u", pod);
	bool stale = pod == 3 && t_ms > KIT_T0 + 50 * MINUTE + EVERY;
	struct label labels[] = { { VIEW(LABEL_NAME), pod == 7 ? VIEW("up") : VIEW(KIT_CPU) }, { VIEW("pod"), view_of(name) } };
	struct sink_column column = { .labels = { labels, 2 }, .value_index = 1 };
	struct sink_batch b = { 0 };
	struct sink_float f = { .labels = { labels, 2 }, .t_ms = t_ms, .v = 1 };
	kit_profile(&p, (uint64_t)t_ms + pod, 5);
	struct sink_profile sp = { .profile = stale ? NULL : &p, .columns = &column, .n_columns = 1, .t_ms = t_ms, .duration_ns = EVERY * INT64_C(1000000),
				   .interval_ms = EVERY, .asked_ms = EVERY, .period = pod == 6 ? 7777777 : KIT_PERIOD, .cover_ms = EVERY };
	if (pod == 4 || (pod == 5 && t_ms % 7 == 0))
		sp.asked_ms = EVERY / 4;
	if (pod == 7) {
		b.floats = &f;
		b.n_floats = 1;
	} else {
		assert_true(ptype_parse(VIEW(KIT_CPU), &column.type));
		b.profiles = &sp;
		b.n_profiles = 1;
	}
	k->now_ms = MAX(k->now_ms, t_ms);
	assert_int_equal(tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e), 0);
	profile_release(&p);
}

/* Two hours; *ret_part is the first one's part. */
static struct version *begin(struct kit *k, struct part **ret_part)
{
	struct err e;
	kit_init(k);
	k->o.no_sealing = true;
	kit_open(k);
	for (int64_t t = KIT_T0 + EVERY; t <= KIT_T0 + HOUR; t += EVERY)
		for (unsigned pod = 0; pod < PODS; pod++)
			if (is_there(pod, t) && (pod != 3 || t <= KIT_T0 + 50 * MINUTE + EVERY))
				append_pod(k, pod, t + pod);
	tsdb_flush(k->db);
	k->now_ms += 9 * HOUR;
	assert_int_equal(tsdb_seal(k->db, true, &e), 0);
	struct version *v = tsdb_version(k->db, NULL);
	assert_int_equal(v->n, 1);
	assert_int_equal(v->p[0]->parts[0]->level, LEVEL_HOUR);
	assert_int_equal(v->p[0]->parts[0]->series.n, PODS);
	*ret_part = v->p[0]->parts[0];
	return v;
}

static void end(struct kit *k, struct version *v)
{
	version_unref(v);
	kit_free(k);
}

/* What a reader of the payload would answer, as the part has it in memory. */
static bool known_of(struct part *p, struct part_covers *c, const struct part_series *x, struct source_cover *ret)
{
	struct part_covers *own = atomic_exchange(&p->covers, c);
	bool known = part_cover_known(p, x, ret);
	atomic_store(&p->covers, own);
	return known;
}

static void same_cover(const struct source_cover *a, const struct source_cover *b)
{
	assert_true(a->n == b->n && a->n_stale == b->n_stale && a->total == b->total && a->magnitude == b->magnitude && a->period == b->period);
	assert_true(a->weights.extra == b->weights.extra && a->weights.weighed == b->weights.weighed && a->weights.lightest == b->weights.lightest &&
		    a->weights.heaviest == b->weights.heaviest);
	assert_int_equal(a->spans.n, b->spans.n);
	assert_memory_equal(a->spans.v, b->spans.v, a->spans.n * sizeof *a->spans.v);
}

/* The first and last profile of a series are those of its columns. */
static void check_end(struct part *p, const struct part_series *x, const struct part_end *end, struct part_scratch *w)
{
	const struct sealed_columns *c = &w->columns;
	struct err e;
	assert_int_equal(part_columns(p, x->series, w, &e), 0);
	size_t last = c->points.n - 1 - c->stale.n;
	int64_t others = INT64_MAX;
	for (size_t i = 1; i <= last; i++)
		others = MIN(others, sealed_stamp(&c->points, i) - (c->same_cover ? c->cover_ms : c->covers.v[i]) - part_start_ms(p));
	assert_true(c->stale.n <= 1 && (!c->stale.n || c->stale.v[0] == last + 1));
	assert_true(end->first_total == c->points.totals.v[0] && end->last_total == c->points.totals.v[last]);
	assert_int_equal(end->last_ms, sealed_stamp(&c->points, last) - part_start_ms(p));
	assert_int_equal(end->first_cover_ms, c->same_cover ? c->cover_ms : c->covers.v[0]);
	assert_int_equal(end->last_cover_ms, c->same_cover ? c->cover_ms : c->covers.v[last]);
	assert_int_equal(end->interval_ms, c->same_interval ? c->interval_ms : c->intervals.v[last]);
	assert_int_equal(end->others_after_ms, others);
}

static void check_ends(struct part *p, const struct part_covers *covers, struct view payload, struct part_scratch *w)
{
	struct part_ends *ends;
	struct buf again = { 0 };
	struct err e;
	size_t n = 0;
	assert_int_equal(part_ends_decode(p, covers, payload, &ends, &e), 0);
	part_ends_encode(p, covers, ends, &again);
	assert_true(view_eq(payload, buf_view(&again)));
	assert_true(payload.len < 8 * 16);
	for (size_t i = 0; i < p->series.n; i++)
		if (ends->v[i].here) {
			check_end(p, &p->series.v[i], &ends->v[i], w);
			n++;
		}
	assert_int_equal(n, PODS - 4); /* neither those without a cover nor pod 4, whose weight is 4 */
	free(ends);
	buf_free(&again);
}

static void test_the_same(void **state)
{
	struct kit k;
	struct part *p;
	struct part_scratch w = { .sums = { 0 } };
	struct buf b = { 0 }, ends = { 0 }, again = { 0 }, only = { 0 };
	struct part_covers *c;
	struct err e;
	(void)state;
	struct version *v = begin(&k, &p);
	part_covers_put(p, &b, &ends);
	assert_int_equal(part_covers_decode(p, buf_view(&b), &c, &e), 0);
	part_covers_encode(p, c, &again);
	assert_true(view_eq(buf_view(&b), buf_view(&again)));
	assert_true(b.len < 8 * 30);
	size_t n_known = 0;
	for (size_t i = 0; i < p->series.n; i++) {
		const struct part_series *x = &p->series.v[i];
		struct source_cover known = { 0 }, read = { 0 }, kept = { 0 };
		if (x->is_float)
			continue;
		assert_int_equal(part_cover_read(p, x, &w, &read, &e), 0);
		if (known_of(p, c, x, &known)) {
			same_cover(&known, &read);
			n_known++;
		}
		if (part_cover_known(p, x, &kept)) /* of one stretch */
			same_cover(&kept, &read);
		source_cover_release(&known);
		source_cover_release(&read);
		source_cover_release(&kept);
	}
	assert_int_equal(n_known, PODS - 3); /* not pod 2 with its many holes, not pod 5 with two weights, not the float */
	check_ends(p, c, buf_view(&ends), &w);
	/* Beside covers of a generation that has no ends. */
	assert_int_equal(part_ends_put(p, buf_view(&b), &only), 0);
	assert_true(view_eq(buf_view(&only), buf_view(&ends)));
	assert_int_equal(part_ends_put(p, VIEW("\1"), &only), -ERR_CORRUPT);
	assert_int_equal(only.len, ends.len);
	buf_free(&only);
	free(c);
	buf_free(&b);
	buf_free(&ends);
	buf_free(&again);
	part_scratch_release(&w);
	end(&k, v);
}

/* ---- what no writer writes ---- */

/* A part of these series, in memory alone: the second is of floats. */
static struct part made_part(struct part_series *series)
{
	struct part p = { .level = LEVEL_HOUR, .window = 472230 };
	p.series.v = series;
	p.series.n = 3;
	series[0] = (struct part_series){ .series = 4, .min_ms = 1000, .max_ms = 50000 };
	series[1] = (struct part_series){ .series = 5, .min_ms = 0, .max_ms = 10, .is_float = true };
	series[2] = (struct part_series){ .series = 9, .min_ms = 3599999, .max_ms = 3600000 };
	return p;
}

/* The first series has all fields, the second is absent. */
struct fields {
	uint64_t entries, flags, other, n, stale, weight, period, total, back, ahead, spans, length[2], hole[2];
	bool more;
};

static const struct fields good = { .entries = 2, .flags = 31, .n = 5, .stale = 2, .weight = UINT64_C(0x4010000000000000), .period = 10, .total = 7,
				    .back = 2 * 10000, .ahead = 5, .spans = 3, .length = { 11000, 1 }, .hole = { 10000, 3 } };

static void put_fields(struct buf *b, const struct fields *f)
{
	buf_reset(b);
	buf_varint(b, f->entries);
	buf_putc(b, (char)f->flags);
	buf_putc(b, (char)f->other);
	buf_varint(b, f->n);
	if (f->flags & 2)
		buf_varint(b, f->stale);
	if (f->flags & 4)
		buf_be64(b, f->weight);
	buf_varint(b, f->period);
	buf_varint(b, f->total);
	buf_varint(b, f->back);
	buf_varint(b, f->ahead);
	if (f->flags & 16) {
		buf_varint(b, f->spans);
		for (int i = 0; i < 2; i++) {
			buf_varint(b, f->length[i]);
			buf_varint(b, f->hole[i]);
		}
	}
	if (f->more)
		buf_putc(b, 0);
}

/* What a payload gives; what is accepted is written again as it was. */
static int read_payload(const struct part *p, struct view v)
{
	struct part_covers *c;
	struct buf again = { 0 };
	struct err e = { 0 };
	AUTOFREE char *copy = xmalloc(v.len + 1); /* a block of the very size, so that a sanitizer sees a read past its end */
	memcpy(copy, v.ptr, v.len);
	copy = xrealloc(copy, MAX(v.len, (size_t)1));
	int rc = part_covers_decode(p, view_make(copy, v.len), &c, &e);
	assert_true(!rc || (rc == -ERR_CORRUPT && strlen(e.msg) > 20));
	assert_int_equal(part_covers_check(p, v, &e), rc);
	if (rc)
		return rc;
	for (size_t i = 0; i < c->n_spans; i++)
		assert_true(c->spans[i].after_ms <= (int64_t)c->spans[i].until_ms && c->spans[i].until_ms <= 3600000);
	part_covers_encode(p, c, &again);
	struct part_covers *same;
	assert_int_equal(part_covers_decode(p, buf_view(&again), &same, &e), 0);
	free(same);
	free(c);
	buf_free(&again);
	return 0;
}

static void spoil(struct fields *f, int how)
{
	switch (how) {
	case 0: f->entries = 3; break;
	case 1: f->entries = 1; break;
	case 2: f->entries = UINT64_MAX; break;
	case 3: f->flags |= 32; break;
	case 4: f->flags = 30; break;
	case 5: f->other = 128; break;
	case 6: f->other = 1; break;             /* nothing follows */
	case 7: f->n = 0; break;
	case 8: f->n = UINT64_C(1) << 32; break;
	case 9: f->n = 2; break;                 /* all of them are markers */
	case 10: f->stale = 0; break;
	case 11: f->n = 100000, f->stale = 65536; break;
	case 12: f->weight = 0; break;
	case 13: f->weight = UINT64_C(0x3ff0000000000000); break; /* 1 */
	case 14: f->weight = UINT64_C(0x7ff0000000000000); break; /* infinite */
	case 15: f->weight = UINT64_C(0x7ff8000000000000); break; /* not a number */
	case 16: f->weight = UINT64_C(0xc010000000000000); break; /* below 0 */
	case 17: f->period = UINT64_C(1) << 63; break;
	case 18: f->total = UINT64_C(1) << 63; break;
	case 19: f->total = INT64_MAX / 10 + 1; break;
	case 20: f->back = UINT64_MAX; break;
	case 21: f->back = UINT64_MAX - 1; break;
	case 22: f->back = 2 * (UINT64_C(1) << 32); break; /* too long ago */
	case 23: f->back = 2 * 49001 - 1; break; /* behind the last stamp */
	case 24: f->ahead = 49001; break;        /* before the first stamp */
	case 25: f->ahead = UINT64_MAX; break;
	case 26: f->back = 2 * 48999 - 1; break; /* it begins behind its end */
	case 27: f->spans = 1; break;
	case 28: f->spans = 0; break;
	case 29: f->spans = 2; break;            /* less than there are */
	case 30: f->spans = 257; break;
	case 31: f->hole[0] = 0; break;
	case 32: f->hole[1] = 0; break;
	case 33: f->length[0] = 100000; break;   /* behind the last end */
	case 34: f->hole[1] = UINT32_MAX; break;
	case 35: f->hole[1] = UINT64_MAX; break;
	case 36: f->length[0] = 8000; break;     /* the first span ends before the hour begins */
	case 37: f->more = true; break;
	default: assert_true(false);
	}
}
#define SPOILT 38

static void test_spoilt(void **state)
{
	struct part_series series[3];
	struct part p = made_part(series);
	struct buf b = { 0 };
	uint64_t random = 1;
	size_t accepted = 0;
	(void)state;
	put_fields(&b, &good);
	assert_int_equal(read_payload(&p, buf_view(&b)), 0);
	for (int how = 0; how < SPOILT; how++) {
		struct fields f = good;
		spoil(&f, how);
		put_fields(&b, &f);
		if (!read_payload(&p, buf_view(&b)))
			fail_msg("%d is accepted", how);
	}
	put_fields(&b, &good);
	for (size_t i = 0; i < b.len; i++) {
		char was = b.ptr[i];
		assert_int_equal(read_payload(&p, view_make(b.ptr, i)), -ERR_CORRUPT);
		for (int way = 0; way < 260; way++) {
			b.ptr[i] = way < 256 ? (char)way : (char)kit_random(&random);
			accepted += !read_payload(&p, buf_view(&b));
		}
		b.ptr[i] = was;
	}
	assert_true(accepted && accepted < 260 * b.len);
	/* More stretches than a series may have. */
	struct part_series one = { .min_ms = 1000, .max_ms = 50000 };
	struct part alone = { .level = LEVEL_HOUR, .window = 472230 };
	alone.series.v = &one;
	alone.series.n = 1;
	for (uint64_t n = 2; n < 300; n++) {
		buf_reset(&b);
		buf_putv(&b, VIEW("\1\21\177\1\1\0\0")); /* 127 profiles that come to 1, until the last stamp */
		buf_varint(&b, n);
		for (uint64_t i = 1; i < n; i++)
			buf_putv(&b, VIEW("\1\1"));
		assert_int_equal(read_payload(&alone, buf_view(&b)), n <= PART_COVER_SPANS_MAX ? 0 : -ERR_CORRUPT);
	}
	put_fields(&b, &good);
	/* A series whose bounds no part has. */
	series[0].max_ms = 3600001;
	assert_int_equal(read_payload(&p, buf_view(&b)), -ERR_CORRUPT);
	series[0].max_ms = 999;
	assert_int_equal(read_payload(&p, buf_view(&b)), -ERR_CORRUPT);
	p.series.n = 2; /* of another part */
	series[0].max_ms = 50000;
	assert_int_equal(read_payload(&p, buf_view(&b)), -ERR_CORRUPT);
	buf_free(&b);
}

/* ---- and of first and last profiles ---- */

/* Covers of a part of three series, of which the second is of floats: five profiles that come to 70 and a marker, period 10; one profile. */
static struct part_covers *made_covers(const struct part *p)
{
	struct part_covers *c;
	struct buf b = { 0 };
	struct err e;
	buf_putv(&b, VIEW("\2\13\1\6\1\1\12\1\7\11"));
	buf_zigzag(&b, 10000);
	buf_zigzag(&b, 10);
	buf_putv(&b, VIEW("\5\0"));
	assert_int_equal(part_covers_decode(p, buf_view(&b), &c, &e), 0);
	assert_true(c->v[0].n == 6 && c->v[0].n_stale == 1 && c->v[0].total == 70 && c->v[2].n == 1 && c->v[2].total == 9);
	buf_free(&b);
	return c;
}

struct end_fields {
	uint64_t entries, flags, other, last, interval, cover[2];
	int64_t first_cover, others, first, total;
	bool more;
};

static const struct end_fields good_end = { 2, 3, 1, 7000, 10000, { 9000, 10 }, -8000, -3, 2, -1, false };

static void put_end(struct buf *b, const struct end_fields *f)
{
	buf_reset(b);
	buf_varint(b, f->entries);
	buf_putc(b, (char)f->flags);
	buf_putc(b, (char)f->other);
	buf_varint(b, f->last);
	buf_varint(b, f->interval);
	buf_varint(b, 20000);
	buf_varint(b, f->cover[0]);
	buf_varint(b, f->cover[1]);
	buf_zigzag(b, f->first_cover);
	buf_zigzag(b, f->others);
	buf_zigzag(b, f->first);
	buf_zigzag(b, f->total);
	if (f->more)
		buf_putc(b, 0);
}

static int read_ends(const struct part *p, const struct part_covers *covers, struct view v)
{
	struct part_ends *ends, *same;
	struct buf again = { 0 };
	struct err e = { 0 };
	AUTOFREE char *copy = xmalloc(MAX(v.len, (size_t)1));
	memcpy(copy, v.ptr, v.len);
	int rc = part_ends_decode(p, covers, view_make(copy, v.len), &ends, &e);
	assert_true(!rc || (rc == -ERR_CORRUPT && strlen(e.msg) > 20));
	if (rc)
		return rc;
	part_ends_encode(p, covers, ends, &again);
	assert_int_equal(part_ends_decode(p, covers, buf_view(&again), &same, &e), 0);
	assert_memory_equal(ends->v, same->v, ends->n * sizeof *ends->v);
	free(same);
	free(ends);
	buf_free(&again);
	return 0;
}

static void spoil_end(struct end_fields *f, int how)
{
	switch (how) {
	case 0: f->entries = 3; break;
	case 1: f->entries = 1; break;
	case 2: f->entries = UINT64_MAX; break;
	case 3: f->flags = 4; break;
	case 4: f->flags = 2; break;
	case 5: f->flags = 7; break;
	case 6: f->other = 3; break;              /* the total would be no multiple of the period */
	case 7: f->other = 0; break;              /* more follows than there is */
	case 8: f->last = 0; break;               /* where is the marker? */
	case 9: f->last = 49000; break;           /* of five profiles the last has the stamp of the first */
	case 10: f->last = 49001; break;
	case 11: f->last = UINT64_MAX; break;
	case 12: f->interval = UINT64_C(1) << 31; break;
	case 13: f->cover[0] = 0; break;
	case 14: f->cover[1] = 0; break;
	case 15: f->cover[1] = UINT64_C(1) << 32; break;
	case 16: f->first_cover = -9000; break;
	case 17: f->first_cover = UINT32_MAX; break;
	case 18: f->first_cover = INT64_MAX; break;
	case 19: f->others = -42000; break;       /* the others begin behind the last */
	case 20: f->others = INT64_C(1) << 32; break;
	case 21: f->others = INT64_MIN; break;
	case 22: f->first = -2; break;            /* below 0 */
	case 23: f->first = 7; break;             /* above all */
	case 24: f->first = INT64_MAX; break;
	case 25: f->total = INT64_MIN; break;
	case 26: f->total = 4; break;             /* 30 and 50 of 70 */
	case 27: f->more = true; break;
	default: assert_true(false);
	}
}
#define SPOILT_ENDS 28

static void test_spoilt_ends(void **state)
{
	struct part_series series[3];
	struct part p = made_part(series);
	series[2].min_ms = series[2].max_ms; /* it has one profile */
	struct part_covers *covers = made_covers(&p);
	struct part_ends *ends;
	struct buf b = { 0 };
	struct err e;
	size_t accepted = 0;
	(void)state;
	put_end(&b, &good_end);
	assert_int_equal(read_ends(&p, covers, buf_view(&b)), 0);
	assert_int_equal(part_ends_decode(&p, covers, buf_view(&b), &ends, &e), 0);
	const struct part_end *x = &ends->v[0];
	assert_true(x->first_total == 30 && x->last_total == 0 && x->first_cover_ms == 1000 && x->last_cover_ms == 9000 && x->last_ms == 43000 && x->interval_ms == 10000 &&
		    x->others_after_ms == 1003);
	x = &ends->v[2];
	assert_true(x->first_total == 9 && x->last_total == 9 && x->first_cover_ms == 10 && x->last_cover_ms == 10 && x->last_ms == 3600000 && x->interval_ms == 20000);
	free(ends);
	for (int how = 0; how < SPOILT_ENDS; how++) {
		struct end_fields f = good_end;
		spoil_end(&f, how);
		put_end(&b, &f);
		if (!read_ends(&p, covers, buf_view(&b)))
			fail_msg("%d is accepted", how);
	}
	put_end(&b, &good_end);
	for (size_t i = 0; i < b.len; i++) {
		char was = b.ptr[i];
		assert_int_equal(read_ends(&p, covers, view_make(b.ptr, i)), -ERR_CORRUPT);
		for (int way = 0; way < 256; way++) {
			b.ptr[i] = (char)way;
			accepted += !read_ends(&p, covers, buf_view(&b));
		}
		b.ptr[i] = was;
	}
	assert_true(accepted && accepted < 256 * b.len);
	atomic_store(&covers->v[0].state, COVER_NOT_ASKED); /* an entry of a series without a cover */
	assert_int_equal(read_ends(&p, covers, buf_view(&b)), -ERR_CORRUPT);
	atomic_store(&covers->v[0].state, COVER_KNOWN);
	covers->v[0].weight = 2;
	assert_int_equal(read_ends(&p, covers, buf_view(&b)), -ERR_CORRUPT);
	covers->v[0].weight = 1;
	covers->v[0].n_stale = 2;
	assert_int_equal(read_ends(&p, covers, buf_view(&b)), -ERR_CORRUPT);
	free(covers);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_the_same), cmocka_unit_test(test_spoilt), cmocka_unit_test(test_spoilt_ends) };
	return cmocka_run_group_tests_name("part covers", tests, NULL, NULL);
}
