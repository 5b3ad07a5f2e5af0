/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/map.h"
#include "symbols/spill.h"

struct spilled_record { uint64_t key, serial; };

static int by_key(const void *a, const void *b)
{
	const struct spilled_record *x = a, *y = b;
	return (x->key > y->key) - (x->key < y->key);
}

struct seen { uint64_t n, sum, last, stop; };

static bool take(void *arg, void *record)
{
	const struct spilled_record *r = record;
	struct seen *s = arg;

	assert_true(!s->n || r->key >= s->last);
	s->last = r->key;
	s->sum += r->serial;
	return ++s->n != s->stop;
}

/* All of them come back in order, however many fit into memory. */
static void test_sorted(void **state)
{
	static const size_t counts[] = { 0, 1, 99, 100, 101, 5000, 123457 };

	for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
		struct spill s;
		struct seen seen = { 0 };
		spill_init(&s, sizeof(struct spilled_record), 100 * sizeof(struct spilled_record), by_key);
		for (uint64_t i = 0; i < counts[k]; i++)
			spill_add(&s, &(struct spilled_record){ hash_u64(i) % 1000, i });
		assert_int_equal(s.total, counts[k]);
		assert_true(spill_each(&s, take, &seen));
		assert_int_equal(seen.n, counts[k]);
		assert_int_equal(seen.sum, counts[k] ? counts[k] * (counts[k] - 1) / 2 : 0);
		spill_release(&s);
	}
}

static void test_stopped(void **state)
{
	struct spill s;
	struct seen seen = { .stop = 150 };

	spill_init(&s, sizeof(struct spilled_record), 100 * sizeof(struct spilled_record), by_key);
	for (uint64_t i = 0; i < 1000; i++)
		spill_add(&s, &(struct spilled_record){ i, i });
	assert_false(spill_each(&s, take, &seen));
	assert_int_equal(seen.n, 150);
	spill_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sorted), cmocka_unit_test(test_stopped) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
