/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/md5.h"
#include "model/relabel.h"

/* "a=1,b=2" */
static void parse(struct labels_builder *b, char *text)
{
	labels_builder_init(b, (struct labels){ 0 });
	for (char *at = text; *at;) {
		char *end = at + strcspn(at, ","), *eq = strchr(at, '=');
		labels_builder_set(b, view_make(at, (size_t)(eq - at)), view_make(eq + 1, (size_t)(end - eq - 1)));
		at = *end ? end + 1 : end;
	}
}

static void format(struct labels l, struct buf *out)
{
	for (size_t i = 0; i < l.n; i++)
		buf_printf(out, "%s%.*s=%.*s", i ? "," : "", VIEW_ARG(l.v[i].name), VIEW_ARG(l.v[i].value));
}

static const char *const a[] = { "a" };
static const char *const ab[] = { "a", "b" };

#define SRC(x) .source_labels = x, .n_source_labels = ARRAY_LEN(x)

static const struct {
	struct relabel_rule rule;
	const char *in, *out; /* out NULL: dropped */
} cases[] = {
	{ { SRC(a), .target_label = "d", .regex = "f(.*)", .replacement = "ch${1}-ch${1}" }, "a=foo,b=bar", "a=foo,b=bar,d=choo-choo" },
	{ { SRC(ab), .target_label = "a", .regex = "f(.*);(.*)r", .replacement = "b${1}${2}m" }, "a=foo,b=bar", "a=boobam,b=bar" },
	{ { SRC(a), .target_label = "d", .regex = "x.*" }, "a=foo", "a=foo" },
	{ { SRC(a), .target_label = "d", .regex = "fo" }, "a=foo", "a=foo" }, /* anchored */
	{ { SRC(a), .target_label = "a", .replacement = "" }, "a=foo,b=1", "b=1" },
	{ { SRC(a), .target_label = "x", .replacement = "$1x" }, "a=foo", "a=foo" }, /* group "1x" is empty */
	{ { .target_label = "x", .replacement = "set" }, "a=foo", "a=foo,x=set" },
	{ { SRC(a), .target_label = "__${1}", .regex = "(.*)", .replacement = "v" }, "a=foo", "__foo=v,a=foo" },
	{ { SRC(a), .target_label = "${2}", .regex = "(f)(x?)oo", .replacement = "v" }, "a=foo", "a=foo" }, /* no name: skipped */
	{ { .action = RELABEL_KEEP, SRC(a), .regex = "f.*" }, "a=foo", "a=foo" },
	{ { .action = RELABEL_KEEP, SRC(a), .regex = "x.*" }, "a=foo", NULL },
	{ { .action = RELABEL_DROP, SRC(a), .regex = "f|foo" }, "a=foo", NULL },
	{ { .action = RELABEL_DROP, SRC(a), .regex = "f|fo" }, "a=foo", "a=foo" },
	{ { .action = RELABEL_DROP, SRC(a), .regex = "" }, "b=1", NULL }, /* absent is "" */
	{ { .action = RELABEL_KEEPEQUAL, SRC(a), .target_label = "b" }, "a=x,b=x", "a=x,b=x" },
	{ { .action = RELABEL_KEEPEQUAL, SRC(a), .target_label = "b" }, "a=x,b=y", NULL },
	{ { .action = RELABEL_DROPEQUAL, SRC(a), .target_label = "b" }, "a=x,b=x", NULL },
	{ { .action = RELABEL_DROPEQUAL, SRC(a), .target_label = "b" }, "a=x,b=y", "a=x,b=y" },
	{ { .action = RELABEL_LABELMAP, .regex = "(b.*)", .replacement = "bar_${1}" }, "a=foo,b1=bar,b2=baz",
	  "a=foo,b1=bar,b2=baz,bar_b1=bar,bar_b2=baz" },
	{ { .action = RELABEL_LABELMAP, .regex = "a(.*)" }, "a=foo,ab=bar", "a=foo,ab=bar,b=bar" },
	{ { .action = RELABEL_LABELDROP, .regex = "(b.*)" }, "a=foo,b1=bar,b2=baz", "a=foo" },
	{ { .action = RELABEL_LABELKEEP, .regex = "(b.*)" }, "a=foo,b1=bar,b2=baz", "b1=bar,b2=baz" },
	{ { .action = RELABEL_LOWERCASE, SRC(a), .target_label = "b" }, "a=FoO\xc3\x84", "a=FoO\xc3\x84,b=foo\xc3\xa4" },
	{ { .action = RELABEL_UPPERCASE, SRC(ab), .target_label = "c" }, "a=foo,b=x", "a=foo,b=x,c=FOO;X" },
	/* Edges; promtool agrees with each (tests/e2e/test_relabel_oracle.py). */
	{ { SRC(ab), .target_label = "x" }, "a=foo,b=bar", "a=foo,b=bar,x=foo;bar" },
	{ { SRC(ab), .target_label = "x", .separator = "" }, "a=foo,b=bar", "a=foo,b=bar,x=foobar" },
	{ { SRC(ab), .target_label = "x" }, "b=bar", "b=bar,x=;bar" }, /* absent is "" */
	{ { SRC(a), .target_label = "x", .regex = "" }, "a=foo", "a=foo" },
	{ { SRC(a), .target_label = "x", .regex = "", .replacement = "none" }, "b=1", "b=1,x=none" },
	{ { SRC(a), .target_label = "x", .regex = "f|foo" }, "a=foo", "a=foo" }, /* matched whole, but no group */
	{ { SRC(a), .target_label = "x", .regex = "(f)|(g).*", .replacement = "[$2]" }, "a=foo", "a=foo" },
	{ { SRC(a), .target_label = "x", .regex = "(foo)|(g)", .replacement = "[$2]" }, "a=foo", "a=foo,x=[]" },
	{ { SRC(a), .target_label = "x", .replacement = "$$1 $ ${9}$10" }, "a=foo", "a=foo,x=$1 $ " },
	{ { SRC(a), .target_label = "x", .regex = "(?P<h>.)(?P<t>.*)", .replacement = "$t-${h}$none" }, "a=foo", "a=foo,x=oo-f" },
	{ { SRC(a), .target_label = "x", .regex = "(?i)FO(.)" }, "a=foo", "a=foo,x=o" },
	{ { SRC(a), .target_label = "x", .regex = "one.two", .replacement = "y" }, "a=one\ntwo", "a=one\ntwo,x=y" }, /* (?s) */
	{ { SRC(a), .target_label = "a", .regex = "(.*)o", .replacement = "$1" }, "a=foo", "a=fo" },
	{ { SRC(a), .target_label = "nope", .replacement = "" }, "a=foo", "a=foo" },
	{ { .action = RELABEL_KEEP, SRC(a), .regex = "" }, "b=1", "b=1" },
	{ { .action = RELABEL_KEEP, SRC(a) }, "b=1", "b=1" }, /* (.*) matches "" */
	{ { .action = RELABEL_DROP, SRC(a) }, "b=1", NULL },
	{ { .action = RELABEL_KEEPEQUAL, SRC(ab), .target_label = "x" }, "a=1,b=2,x=1;2", "a=1,b=2,x=1;2" },
	{ { .action = RELABEL_KEEPEQUAL, SRC(a), .target_label = "x" }, "b=1", "b=1" }, /* both absent */
	{ { .action = RELABEL_DROPEQUAL, SRC(a), .target_label = "x" }, "b=1", NULL },
	{ { .action = RELABEL_LABELMAP, .regex = "(a)", .replacement = "b" }, "a=1,b=2", "a=1,b=1" },
	{ { .action = RELABEL_LABELMAP, .regex = "(a+)", .replacement = "a${1}" }, "a=1,aa=2", "a=1,aa=1,aaa=2" }, /* of what was there */
	{ { .action = RELABEL_LABELMAP, .regex = "(x?)a", .replacement = "$1" }, "a=1", "a=1" }, /* no name */
	{ { .action = RELABEL_LABELDROP, .regex = ".*" }, "a=1,b=2", "" },
	{ { .action = RELABEL_LABELKEEP, .regex = "c" }, "a=1,b=2", "" },
	{ { .action = RELABEL_LOWERCASE, SRC(a), .target_label = "x" }, "b=1", "b=1" },
	{ { .action = RELABEL_HASHMOD, SRC(a), .target_label = "d", .modulus = 1 }, "a=bar", "a=bar,d=0" },
	{ { .action = RELABEL_HASHMOD, SRC(a), .target_label = "d", .modulus = 0xffffffffffffffff }, "a=bar", "a=bar,d=6581718738824679922" },
	{ { .action = RELABEL_HASHMOD, SRC(a), .target_label = "d", .modulus = 1000 }, "b=1", "b=1,d=958" },
	/* MD5 of "bar" is 37b51d194a7513e45b56f6524f2d51f2; 0x5b56f6524f2d51f2 mod 1000. */
	{ { .action = RELABEL_HASHMOD, SRC(a), .target_label = "d", .modulus = 1000 }, "a=bar", "a=bar,d=922" },
};

static void every_action(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct relabel_rule r = cases[i].rule;
		struct labels_builder b;
		struct arena arena;
		struct err e = { 0 };
		struct buf got = { 0 };
		char *in = strdup(cases[i].in);
		arena_init(&arena, 0);
		parse(&b, in);
		if (relabel_rule_init(&r, &e))
			fail_msg("case %zu: %s", i, e.msg);
		int rc = relabel_apply(&r, 1, &b, &arena, &e);
		assert_true(rc >= 0);
		assert_int_equal(rc, cases[i].out != NULL);
		if (rc) {
			format(labels_builder_finish(&b), &got);
			if (strcmp(got.ptr ? got.ptr : "", cases[i].out) != 0)
				fail_msg("case %zu: %s, not %s", i, got.ptr ? got.ptr : "", cases[i].out);
		}
		relabel_rule_release(&r);
		labels_builder_free(&b);
		arena_free(&arena);
		buf_free(&got);
		free(in);
	}
}

static void rules_that_make_no_sense(void **state)
{
	static const struct {
		struct relabel_rule rule;
		const char *says;
	} bad[] = {
		{ { SRC(a) }, "replace needs a target_label" },
		{ { .action = RELABEL_HASHMOD, SRC(a), .target_label = "x" }, "modulus" },
		{ { .action = RELABEL_LABELDROP, SRC(a), .regex = "x" }, "does not take source_labels" },
		{ { .action = RELABEL_LABELKEEP, .target_label = "x" }, "does not take target_label" },
		{ { .action = RELABEL_LABELKEEP, .regex = "x", .modulus = 8 }, "does not take modulus" },
		{ { .action = RELABEL_DROPEQUAL, SRC(a), .target_label = "x", .modulus = 8 }, "does not take modulus" },
		{ { .action = RELABEL_KEEPEQUAL, SRC(a), .target_label = "x", .regex = "y" }, "does not take regex" },
		{ { .action = RELABEL_LOWERCASE, SRC(a), .target_label = "x", .replacement = "y" }, "does not take replacement" },
		{ { SRC(a), .target_label = "x", .regex = "(" }, "regex" },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct relabel_rule r = bad[i].rule;
		struct err e = { 0 };
		if (relabel_rule_init(&r, &e) == 0)
			fail_msg("case %zu is accepted", i);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("case %zu: \"%s\", not \"%s\"", i, e.msg, bad[i].says);
	}
}

static void an_arena_that_is_full(void **state)
{
	struct relabel_rule r = { .target_label = "x", .replacement = "0123456789012345678901234567890123456789" };
	struct labels_builder b;
	struct arena arena;
	struct err e = { 0 };
	arena_init(&arena, 16);
	labels_builder_init(&b, (struct labels){ 0 });
	assert_int_equal(relabel_rule_init(&r, &e), 0);
	assert_int_equal(relabel_apply(&r, 1, &b, &arena, &e), -ERR_LIMIT);
	relabel_rule_release(&r);
	labels_builder_free(&b);
	arena_free(&arena);
}

/* Whatever a rule makes of the labels: the buffer ends at the limit, not where memory does. */
static void values_end_at_a_limit(void **state)
{
	enum { LONG = 60000, TIMES = 20 };
	char *value = malloc(LONG + 1), *many = malloc(2 * TIMES + 1);
	memset(value, 'a', LONG);
	value[LONG] = 0;
	for (size_t i = 0; i < TIMES; i++)
		memcpy(many + 2 * i, "$1", 2);
	many[2 * TIMES] = 0;
	static const char *const twice[] = { "a", "a" };
	const struct relabel_limits small = { 1000000000, "1 s", 1000 }, tiny = { 1000000000, "1 s", 10 },
				    twofold = { 1000000000, "1 s", 100000 };
	const struct {
		struct relabel_rule rule;
		const struct relabel_limits *limits;
	} grow[] = {
		{ { SRC(a), .target_label = "x", .replacement = many }, NULL },
		{ { SRC(a), .target_label = many }, NULL },
		{ { SRC(twice), .target_label = "x" }, &twofold },
		{ { .action = RELABEL_LABELMAP, .regex = "(.*)", .replacement = "$1$1$1$1$1$1$1$1$1$1$1$1" }, &tiny },
		{ { .action = RELABEL_LOWERCASE, SRC(a), .target_label = "x" }, &small },
		{ { SRC(a), .target_label = "x" }, &small },
	};
	for (size_t i = 0; i < ARRAY_LEN(grow); i++) {
		struct relabel_rule r = grow[i].rule;
		struct label one = { VIEW("a"), view_of(value) };
		struct labels_builder b;
		struct arena arena;
		struct err e = { 0 };
		arena_init(&arena, 0);
		labels_builder_init(&b, (struct labels){ &one, 1 });
		assert_int_equal(relabel_rule_init(&r, &e), 0);
		int rc = relabel_within(&r, 1, &b, &arena, grow[i].limits, NULL, &e);
		if (rc != -ERR_LIMIT || !strstr(e.msg, "the labels grew over their limit"))
			fail_msg("case %zu: %d, %s", i, rc, e.msg);
		relabel_rule_release(&r);
		labels_builder_free(&b);
		arena_free(&arena);
	}
	free(value);
	free(many);
}

static void put_step(void *arg, const struct relabel_rule *r, struct labels after, bool keep)
{
	buf_printf(arg, "%s %s ", relabel_action_text(r->action), keep ? "keeps" : "drops");
	labels_format(after, arg);
	buf_putc(arg, '\n');
}

static void each_step_is_told(void **state)
{
	struct relabel_rule rules[3] = { { .target_label = "b", .replacement = "y" },
					 { .action = RELABEL_KEEP, SRC(a), .regex = "z" },
					 { .target_label = "c", .replacement = "y" } };
	struct label one = { VIEW("a"), VIEW("x") };
	struct labels_builder b;
	struct arena arena;
	struct err e = { 0 };
	struct buf out = { 0 };
	size_t rule;
	arena_init(&arena, 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(relabel_rule_init(&rules[i], &e), 0);
	labels_builder_init(&b, (struct labels){ &one, 1 });
	assert_int_equal(relabel_trace(rules, 3, &b, &arena, put_step, &out, &rule, &e), 0);
	assert_int_equal(rule, 1);
	assert_string_equal(out.ptr, "replace keeps {a=\"x\", b=\"y\"}\nkeep drops {}\nreplace drops {}\n");
	assert_int_equal(relabel_trace(rules, 1, &b, &arena, NULL, NULL, &rule, &e), 1);
	assert_int_equal(rule, 1);
	for (size_t i = 0; i < 3; i++)
		relabel_rule_release(&rules[i]);
	labels_builder_free(&b);
	arena_free(&arena);
	buf_free(&out);
}

static void known_sums(void **state)
{
	static const struct {
		const char *text, *sum;
	} known[] = { /* RFC 1321, A.5 */
		{ "", "d41d8cd98f00b204e9800998ecf8427e" },
		{ "a", "0cc175b9c0f1b6a831c399e269772661" },
		{ "message digest", "f96b697d7cb7938d525a2f31aaf161d0" },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f" },
		{ "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
		  "57edf4a22be3c955ac49da2e2107b67a" },
		{ "1234567890123456789012345678901234567890123456789012345", "c9ccf168914a1bcfc3229f1948e67da0" },
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		uint8_t sum[16];
		char hex[33];
		md5_sum(known[i].text, strlen(known[i].text), sum);
		for (size_t k = 0; k < 16; k++)
			snprintf(hex + 2 * k, 3, "%02x", sum[k]);
		assert_string_equal(hex, known[i].sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_action),
		cmocka_unit_test(rules_that_make_no_sense),
		cmocka_unit_test(an_arena_that_is_full),
		cmocka_unit_test(values_end_at_a_limit),
		cmocka_unit_test(each_step_is_told),
		cmocka_unit_test(known_sums),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
