/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as text metrics. Entries lie in the body, one after the other; a sample's bytes alone, with its value, are read as
 * the same sample; labels are sorted, with one name each. */
#include <string.h>

#include "scraper/text/text_metrics.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "textmetrics";

static void check_labels(struct text_metrics *t, struct arena *a, struct labels *ret)
{
	struct err e = { 0 };
	int rc = text_metrics_labels(t, a, ret, &e);
	REQUIRE(!rc || e.code, "an error without a text");
	if (rc)
		*ret = (struct labels){ 0 };
	for (size_t i = 1; i < ret->n; i++)
		REQUIRE(view_cmp(ret->v[i - 1].name, ret->v[i].name) < 0, "labels %zu are not sorted", i);
	REQUIRE(rc || labels_get(*ret, VIEW(LABEL_NAME)).len, "no name");
}

static void read_again(const struct text_metrics *t, struct labels l, struct arena *a)
{
	struct buf b = { 0 };
	struct text_metrics u;
	struct err e = { 0 };
	struct labels again;
	buf_putv(&b, t->series);
	buf_puts(&b, " 17 4\n");
	text_metrics_init(&u, buf_view(&b));
	REQUIRE(text_metrics_next(&u, &e) == TEXT_SAMPLE, "%s", e.msg);
	REQUIRE(u.value > 16.5 && u.value < 17.5 && u.has_t && u.t_ms == 4 && view_eq(u.series, t->series), "another sample");
	check_labels(&u, a, &again);
	REQUIRE(labels_eq(l, again), "other labels");
	REQUIRE(text_metrics_next(&u, &e) == TEXT_END, "more than one sample");
	text_metrics_release(&u);
	buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct text_metrics t;
	struct arena a;
	struct err e = { 0 };
	const char *last = (const char *)data;
	int kind, samples = 0;
	arena_init(&a, 0);
	text_metrics_init(&t, view_make((const char *)data, n));
	while ((kind = text_metrics_next(&t, &e)) > 0) {
		struct labels l;
		REQUIRE(t.at > last && t.at <= (const char *)data + n, "it does not go on");
		if (kind == TEXT_SAMPLE) {
			REQUIRE(t.series.ptr >= last && t.series.ptr + t.series.len < t.at, "a series from elsewhere");
			check_labels(&t, &a, &l);
			if (samples++ < 100)
				read_again(&t, l, &a);
		}
		last = t.at;
		arena_reset(&a);
	}
	REQUIRE(kind == TEXT_END || e.code == ERR_BAD_DATA, "no text for an error");
	text_metrics_release(&t);
	arena_free(&a);
	return 0;
}
