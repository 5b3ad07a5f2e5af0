/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as answers of another server with vectors over a shared dictionary: one after the other, each with its length and the dictionary's id in front, as
 * they come in one session. What is accepted refers to what is there, and arrives again when it is sent on. */
#include <string.h>

#include "base/alloc.h"
#include "fleet/dictionary.h"
#include "tests/fuzz/fuzz.h"

#define VECTORS 2
#define MAX_BYTES ((size_t)8 << 20)

const char fuzz_target[] = "dictionary";

/* Ids are in their tables. */
static void check(const struct stackvec *v)
{
	const struct symbols *s = v->symbols;
	for (size_t i = 0; i < v->n; i++) {
		REQUIRE(v->columns[i] < symbols_count(s, SYMBOLS_COLUMNS) && (!i || v->columns[i - 1] < v->columns[i]), "column %zu", i);
		const struct sym_column *c = symbols_get_column(s, v->columns[i]);
		REQUIRE(c->stack < symbols_count(s, SYMBOLS_STACKS) && c->label_set < symbols_count(s, SYMBOLS_LABEL_SETS), "column %u", v->columns[i]);
		for (uint32_t node = symbols_stack_node(s, c->stack); node; node = symbols_get_node(s, node)->parent) {
			REQUIRE(node < symbols_count(s, SYMBOLS_NODES) && symbols_get_node(s, node)->parent < node, "node %u", node);
			REQUIRE(symbols_get_node(s, node)->location < symbols_count(s, SYMBOLS_LOCATIONS), "node %u", node);
		}
	}
}

/* As a server that was asked itself sends them. Sums of columns that become one may not fit. */
static void send_on(struct stackvec *const *v)
{
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(SIZE_MAX / 2);
	struct symbols_marks start;
	struct stackvec *got[VECTORS];
	struct buf b = { 0 };
	struct err e;
	symbols_marks_start(&start);
	if (!fleet_dictionary_put(out, &b, (const struct stackvec *const *)v, VECTORS, SYMBOLS_WHOLE, &start, &e)) {
		struct cursor c = cursor_of(buf_view(&b));
		REQUIRE(!fleet_dictionary_take(in, 1, &c, got, VECTORS, &e), "%s", e.msg);
		REQUIRE(c.p == c.end, "%zu bytes", b.len);
		for (size_t i = 0; i < VECTORS; i++) {
			REQUIRE(got[i]->n <= v[i]->n && got[i]->is_float == v[i]->is_float, "%zu columns", got[i]->n);
			stackvec_unref(got[i]);
		}
	} else {
		REQUIRE(e.code == ERR_EXECUTION, "%s", e.msg);
	}
	buf_free(&b);
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
	struct cursor all = cursor_of(view_make((const char *)data, n));
	while (!all.bad && all.p < all.end) {
		struct stackvec *v[VECTORS];
		struct symbols_marks has;
		struct err e = { 0 };
		uint64_t known, id = cursor_u8(&all);
		struct cursor c = cursor_of(cursor_bytes(&all, cursor_count(&all)));
		if (fleet_dictionary_take(in, id, &c, v, VECTORS, &e)) {
			REQUIRE((e.code == ERR_CORRUPT || e.code == ERR_LIMIT) && e.msg[0] && !v[0] && !v[1], "%d", e.code);
			REQUIRE(!fleet_dictionary_in_marks(in, &known, &has) || known != id, "a mirror that is wrong stays");
			continue;
		}
		check(v[0]);
		check(v[1]);
		send_on(v);
		stackvec_unref(v[0]);
		stackvec_unref(v[1]);
	}
	REQUIRE(fleet_dictionary_in_bytes(in) <= MAX_BYTES, "%zu bytes", fleet_dictionary_in_bytes(in));
	fleet_dictionary_in_free(in);
	return 0;
}
