/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/err.h"
#include "scraper/text/metric_families.h"
#include "scraper/text/text_metrics.h"

/* The table after one more body; old is given back. */
static struct metric_families *scrape(struct metric_families *old, const char *body, uint32_t number, struct budget *b)
{
	struct family_lines l = { 0 };
	struct text_metrics t;
	struct err e;
	int rc;
	text_metrics_init(&t, view_of(body));
	while ((rc = text_metrics_next(&t, &e)) != TEXT_END) {
		assert_true(rc > 0);
		if (rc != TEXT_SAMPLE)
			family_lines_add(&l, rc == TEXT_HELP, t.name, t.text);
	}
	struct metric_families *next = metric_families_next(old, &l, number, b);
	text_metrics_release(&t);
	family_lines_release(&l);
	if (!next)
		return old;
	metric_families_unref(old);
	return next;
}

static void expect(const struct metric_families *f, const char *name, const char *type, const char *help)
{
	const struct metric_family *x = metric_families_find(f, view_of(name));
	assert_int_equal(x != NULL, type != NULL);
	if (!x)
		return;
	assert_true(view_eqs(x->type, type));
	assert_true(view_eqs(x->help, help));
}

static void test_tables(void **state)
{
	struct budget b = { .max = 1 << 20 };
	struct metric_families *f = scrape(NULL, "a 1\n", 1, &b);
	assert_null(f);
	f = scrape(f, "# HELP b two \\\\ \\n lines \\x\n# TYPE b counter\nb 1\n# TYPE a untyped\n# HELP \"a b\" x\n# HELP e \n# TYPE b gauge\n", 2, &b);
	assert_int_equal(f->n, 4);
	expect(f, "a", "unknown", "");
	expect(f, "a b", "unknown", "x");
	expect(f, "b", "gauge", "two \\ \n lines \\x");
	expect(f, "e", "unknown", "");
	expect(f, "c", NULL, NULL);
	struct metric_families *same = f;
	f = scrape(f, "# HELP b two \\\\ \\n lines \\x\n# TYPE b counter\nb 2\n# TYPE a untyped\n# HELP \"a b\" x\n# HELP e \n# TYPE b gauge\n", 3, &b);
	assert_ptr_equal(f, same);
	metric_families_unref(f);
	assert_int_equal(budget_used(&b), 0);
}

/* One that is gone stays for ten scrapes, whether others change or not; what one no longer says of itself stays. */
static void test_gone(void **state)
{
	struct budget b = { .max = 1 << 20 };
	struct metric_families *f = scrape(NULL, "# HELP a x\n# TYPE a counter\n# TYPE b gauge\n", 1, &b);
	for (uint32_t i = 2; i < 12; i++) {
		f = scrape(f, "# TYPE a counter\n", i, &b);
		expect(f, "a", "counter", "x");
		expect(f, "b", "gauge", "");
	}
	f = scrape(f, "# TYPE a counter\n", 12, &b);
	expect(f, "a", "counter", "x");
	expect(f, "b", NULL, NULL);
	f = scrape(f, "", 13, &b);
	expect(f, "a", "counter", "x");
	f = scrape(f, "# TYPE a gauge\n", 14, &b);
	expect(f, "a", "gauge", "x");
	assert_int_equal(f->oldest_gone, 0);
	metric_families_unref(f);
	assert_int_equal(budget_used(&b), 0);
}

static void test_bounds(void **state)
{
	struct budget b = { .max = 4096 };
	struct metric_families *f = scrape(NULL, "# TYPE a counter\n", 1, &b);
	struct buf many = { 0 };
	for (int i = 0; i < FAMILY_LINES_MAX + 10; i++)
		buf_printf(&many, "# TYPE m%d gauge\n", i);
	f = scrape(f, many.ptr, 2, &b); /* no room: as it was */
	assert_int_equal(f->n, 1);
	b.max = 0;
	f = scrape(f, many.ptr, 3, &b);
	assert_int_equal(f->n, FAMILY_LINES_MAX + 1);
	metric_families_unref(f);
	assert_int_equal(budget_used(&b), 0);
	buf_free(&many);
}

/* What a target says is not kept at any length: a help of 60 MB made answers that were cut off in the middle of a row. */
static void test_lengths(void **state)
{
	struct budget b = { .max = 1 << 20 };
	struct buf body = { 0 }, help = { 0 };
	(void)state;
	for (int i = 0; i < FAMILY_HELP_MAX - 1; i++)
		buf_putc(&help, 'x');
	buf_printf(&body, "# HELP a %s\n# HELP b %s\u00e4 more\n# HELP n%s y\n# HELP m%sx y\n", help.ptr, help.ptr, help.ptr, help.ptr);
	struct metric_families *f = scrape(NULL, body.ptr, 1, &b);
	assert_int_equal(f->n, 3);
	expect(f, "a", "unknown", help.ptr);
	expect(f, "b", "unknown", help.ptr); /* no half of a letter */
	metric_families_unref(f);
	buf_free(&body);
	buf_free(&help);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_tables), cmocka_unit_test(test_gone), cmocka_unit_test(test_bounds), cmocka_unit_test(test_lengths) };
	return cmocka_run_group_tests_name("metric_families", tests, NULL, NULL);
}
