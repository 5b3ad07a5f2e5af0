/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/merge_result.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "model/source.h"

#define BYTES_OF_ARRAYS 64

uint64_t merge_result_bytes(size_t n)
{
	return n * (sizeof(uint32_t) + sizeof(int64_t)) + sizeof(struct merge_result) + BYTES_OF_ARRAYS;
}

void merge_result_take(struct dense *d, struct merge_result *r)
{
	size_t room = dense_count(d);
	r->columns = xreallocarray(r->columns, room + 1, sizeof *r->columns);
	r->sums = xreallocarray(r->sums, room + 1, sizeof *r->sums);
	r->n = dense_take(d, r->columns, r->sums);
	r->columns = xreallocarray(r->columns, r->n + 1, sizeof *r->columns);
	r->sums = xreallocarray(r->sums, r->n + 1, sizeof *r->sums);
}

void merge_result_release(struct merge_result *r)
{
	free(r->columns);
	free(r->sums);
	free(r->weighed);
}

int merge_result_cmp(const void *a, const void *b)
{
	const struct merge_result *x = a, *y = b;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->partition != y->partition)
		return x->partition < y->partition ? -1 : 1;
	if (x->over_ms != y->over_ms)
		return x->over_ms < y->over_ms ? -1 : 1;
	return (x->scale > y->scale) - (x->scale < y->scale);
}

/* Sums by column while results are weighed. */
struct wide_sums {
	uint32_t *columns;
	int128 *sums;
	size_t n;
};

static struct wide_sums wide_sums_new(size_t room)
{
	return (struct wide_sums){ xreallocarray(NULL, room + 1, sizeof(uint32_t)), xreallocarray(NULL, room + 1, sizeof(int128)), 0 };
}

/* to = from + r x its factor. */
static void wide_sums_add(const struct wide_sums *from, const struct merge_result *r, struct wide_sums *to)
{
	size_t i = 0, k = 0;
	to->n = 0;
	while (i < from->n || k < r->n) {
		uint32_t column = MIN(i < from->n ? from->columns[i] : UINT32_MAX, k < r->n ? r->columns[k] : UINT32_MAX);
		int128 sum = 0;
		if (i < from->n && from->columns[i] == column)
			sum += from->sums[i++];
		if (k < r->n && r->columns[k] == column)
			sum += (int128)r->sums[k++] * r->factor;
		to->columns[to->n] = column;
		to->sums[to->n++] = sum;
	}
}

void merge_results_weigh(struct merge_result *r, size_t n)
{
	size_t room = 0;
	for (size_t i = 0; i < n; i++)
		room += r[i].n;
	struct wide_sums sum = wide_sums_new(room), next = wide_sums_new(room);
	for (size_t i = 0; i < n; i++) {
		wide_sums_add(&sum, &r[i], &next);
		struct wide_sums was = sum;
		sum = next;
		next = was;
	}
	free(next.columns);
	free(next.sums);
	r->weighed = xreallocarray(NULL, room + 1, sizeof *r->weighed);
	for (size_t i = 0; i < sum.n; i++)
		r->weighed[i] = source_weighed(sum.sums[i], r->over_ms);
	free(sum.sums);
	free(r->columns);
	r->columns = sum.columns;
	r->n = sum.n;
}

struct stackvec *merge_results_scaled(struct symbols *s, const struct merge_result *const *r, size_t n, struct err *e)
{
	struct stackacc *acc = stackacc_new(s);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < r[i]->n; k++)
			stackacc_add_scaled(acc, r[i]->columns[k], (r[i]->weighed ? r[i]->weighed[k] : (double)r[i]->sums[k]) * r[i]->scale);
	struct stackvec *v = stackacc_finish(acc, e);
	stackacc_free(acc);
	return v;
}

struct stackvec *merge_result_ints(struct symbols *s, struct merge_result *r)
{
	struct stackvec *v = stackvec_new_ints(s, r->columns, r->sums, r->n);
	r->columns = NULL;
	r->sums = NULL;
	return v;
}

