/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a template of an alert, expanded within small limits. Whatever it is: an error has words, the output keeps to its
 * bound, and expanding it again gives the same. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "rules/template/template.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "template";

#define MAX_OUTPUT 4096

static const struct label some_labels[] = {
	{ VIEW("bad"), VIEW("a\xff" "b") }, { VIEW("instance"), VIEW("shop-1.example.com:9090") }, { VIEW("job"), VIEW("api <b>") },
};
static const struct labels labels = { some_labels, ARRAY_LEN(some_labels) };

static int query(void *arg, struct view expr, int64_t t_ms, struct template_vector *out, struct err *e)
{
	(void)arg, (void)t_ms;
	if (expr.len > 40)
		return err_set(e, ERR_EXECUTION, "cannot be answered");
	int rc = 0;
	for (size_t i = 0; i < expr.len && !rc; i++)
		rc = template_vector_add(out, (struct labels){ labels.v, i % 4 }, (double)expr.ptr[i] - 100, e);
	return rc;
}

static int expand(const struct template *t, struct buf *out, struct err *e)
{
	struct template_env env = {
		.labels = labels, .external_labels = labels, .value = 1 / 3.0, .external_url = VIEW("http://host:7070/x"), .t_ms = 1700000000123,
		.query = query, .max_output = MAX_OUTPUT, .max_memory = (size_t)1 << 18, .max_steps = 20000,
		.deadline_mono_ns = clock_mono_ns() + INT64_C(60000000000),
	};
	int rc = template_expand(t, &env, out, e);
	REQUIRE(out->len <= MAX_OUTPUT, "%zu bytes", out->len);
	REQUIRE(!rc || (!out->len && e->msg[0]), "an error without words, or with output");
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct template *t;
	struct template_place at = { 0 };
	struct err e = { 0 }, again = { 0 };
	struct buf out = { 0 }, out_again = { 0 };
	if (n > 1 << 12)
		return 0;
	struct view text = view_make((const char *)data, n);
	if (template_parse_at(&t, VIEW("__alert_F"), text, &at, &e)) {
		REQUIRE(e.msg[0] && at.line && at.column && at.column <= n + 1, "place %u:%u", at.line, at.column);
		return 0;
	}
	int rc = expand(t, &out, &e);
	REQUIRE(expand(t, &out_again, &again) == rc && view_eq(buf_view(&out), buf_view(&out_again)), "differs");
	buf_free(&out);
	buf_free(&out_again);
	template_free(t);
	return 0;
}
