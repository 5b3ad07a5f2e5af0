/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/clock_steps.h"
#include "base/files.h"
#include "base/flag.h"
#include "base/map.h"
#include "base/memory_limit.h"
#include "base/memory_parts.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/heap.h"
#include "base/queue.h"
#include "base/radix.h"
#include "base/redact.h"
#include "base/log.h"
#include "base/err.h"
#include "base/regex.h"
#include "base/room.h"
#include "base/thread.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/varint.h"

static void test_base64(void **state)
{
	static const struct { const char *in, *out; } rows[] = {
		{ "", "" }, { "YQ==", "a" }, { "YWI=", "ab" }, { "YWJj", "abc" }, { "YWxpY2U6c2VjcmV0", "alice:secret" }, { "/+8=", "\xff\xef" },
		{ "YW\nJj", "abc" }, { "YQ", NULL }, { "YQ=", NULL }, { "YQ===", NULL }, { "====", NULL }, { "YQ==YQ==", NULL }, { "Y-==", NULL },
		{ "=YWJ", NULL }, { "YWJj=", NULL }, { "Y\xc3", NULL },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = 99, room = BASE64_ROOM(strlen(rows[i].in));
		char *out = malloc(room); /* exactly, so that a sanitizer sees a byte too much */
		bool fine = base64_decode(view_of(rows[i].in), out, &n);
		assert_int_equal(fine, rows[i].out != NULL);
		if (fine) {
			assert_int_equal(n, strlen(rows[i].out));
			assert_string_equal(out, rows[i].out);
		}
		free(out);
	}
}

static void expect_redacted(void (*how)(struct view, bool, struct buf *), const char *in, size_t n, bool cut, const char *want)
{
	struct buf b = { 0 };
	char *copy = malloc(n + !n); /* exactly, so that a sanitizer sees a byte too much */
	memcpy(copy, in, n);
	how(view_make(copy, n), cut, &b);
	if (strcmp(b.ptr ? b.ptr : "", want) != 0)
		fail_msg("%s\n    instead of %s", b.ptr, want);
	buf_free(&b);
	free(copy);
}

static void user_info(struct view text, bool cut, struct buf *out)
{
	redact_user_info(text, cut, "<x>", out);
}

static void command(struct view text, bool cut, struct buf *out)
{
	redact_command(text, cut, ' ', out);
}

static void no_user_info(struct view text, bool cut, struct buf *out)
{
	redact_user_info(text, cut, "", out);
}

#define REDACTED(how, in, want) expect_redacted(how, in, sizeof in - 1, false, want)

static void test_redacted_urls(void **state)
{
	(void)state;
	REDACTED(user_info, "", "");
	REDACTED(user_info, "http://u:p@h/x", "http://<x>@h/x");
	REDACTED(user_info, "http://u:p@@h?a@b", "http://<x>@h?a@b");
	REDACTED(user_info, "get http://h/x@y and ftp://u@h: no, u@h", "get http://h/x@y and ftp://<x>@h: no, u@h");
	REDACTED(user_info, "a://b:c@d,e://f:g@h", "a://<x>@d,e://<x>@h");
	REDACTED(user_info, "://@", "://@");
	REDACTED(user_info, "postgres://u:pass", "postgres://u:pass");
	expect_redacted(user_info, "postgres://u:pass", 17, true, "postgres://<x>");
	REDACTED(no_user_info, "https://u:p@h/x", "https://h/x");
	struct err e;
	err_set(&e, ERR_IO, "%s: gone", "http://alice:secret@h/x");
	assert_string_equal(e.msg, "http://<secret>@h/x: gone");
	err_wrap(&e, "%s", "http://bob:secret@h");
	assert_string_equal(e.msg, "http://<secret>@h: http://<secret>@h/x: gone");
	err_set(&e, ERR_IO, "%1020s://alice:secret@h", "x"); /* that does not fit */
	assert_null(strstr(e.msg, "alice"));
	err_set(&e, ERR_IO, "%1000shttp://alice:secr", "x");
	assert_int_equal(strlen(e.msg), 1017);
	err_set(&e, ERR_IO, "%1010shttp://alice:secret@h", "x");
	assert_null(strstr(e.msg, "alice"));
}

static void test_redacted_commands(void **state)
{
	(void)state;
	static const char *const secret[] = { "password", "--db-password", "PGPASSWORD", "api-key", "apiKey", "API_KEY", "key", "keys", "token",
					      "accessToken", "client_secret", "passwd", "DB_PASS", "--pass", "-Dx.secret", "jwt" };
	static const char *const plain[] = { "keyspace", "keyboard", "passthrough", "passage", "host", "", "-", "k", "seconds", "cookies-jarx" };
	for (size_t i = 0; i < ARRAY_LEN(secret); i++)
		if (!redact_is_secret_name(view_of(secret[i])))
			fail_msg("%s is a secret's name", secret[i]);
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (redact_is_secret_name(view_of(plain[i])))
			fail_msg("%s is none", plain[i]);
	REDACTED(command, "/bin/x\0--port=80\0-v\0file", "/bin/x --port=80 -v file");
	REDACTED(command, "x\0--password=a b=c", "x --password=<redacted>");
	REDACTED(command, "x\0--password\0hunter2\0next", "x --password <redacted> next");
	REDACTED(command, "x\0--password\0-hunter2\0--next", "x --password <redacted> --next");
	REDACTED(command, "x\0--no-token\0--next=1", "x --no-token --next=1");
	REDACTED(command, "x\0--token", "x --token");
	REDACTED(command, "env\0API_TOKEN=abc\0x", "env API_TOKEN=<redacted> x");
	REDACTED(command, "java\0-Dspring.datasource.password=abc\0-jar\0a.jar", "java -Dspring.datasource.password=<redacted> -jar a.jar");
	REDACTED(command, "docker\0run\0-e\0TOKEN=a\0nginx:1@sha256:00", "docker run -e TOKEN=<redacted> nginx:1@sha256:00");
	REDACTED(command, "x\0--env=DB_PASSWORD=a", "x --env=DB_PASSWORD=<redacted>");
	REDACTED(command, "x\0host=db password=abc user=y", "x host=db password=<redacted>");
	REDACTED(command, "curl\0-H\0Authorization: Bearer abc\0u", "curl -H Authorization:<redacted> u");
	REDACTED(command, "x\0{\"user\":1,\"password\":\"abc\"}", "x {\"user\":1,\"password\":<redacted>");
	REDACTED(command, "sh\0-c\0mysql --password abc; echo", "sh -c mysql --password <redacted>");
	REDACTED(command, "python\0-c\0token = 'abc'", "python -c token =<redacted>");
	REDACTED(command, "x\0--db=postgres://u:p@h/d\0amqp://u:p@h", "x --db=postgres://<redacted>@h/d amqp://<redacted>@h");
	REDACTED(command, "x\0--db=u:p@tcp(h:1)/d\0git@h:x\0a@b", "x --db=<redacted>@tcp(h:1)/d git@h:x a@b");
	REDACTED(command, "x\0https://h/?api_key=abc&x=1", "x https://h/?api_key=<redacted>");
	expect_redacted(command, "x\0amqp://u:secr", 15, true, "x amqp://<redacted>");
	expect_redacted(command, "x\0--password=secr", 17, true, "x --password=<redacted>");
	REDACTED(command, "", "");
	REDACTED(redact_text, "keyspace=a", "keyspace=a");
}

static void test_clock_steps(void **state)
{
	struct clock_steps s = { 0 };
	int64_t boot = 1000, wall = INT64_C(1700000000000);
	(void)state;
	assert_false(clock_steps_look(&s, wall, boot));
	for (int i = 0; i < 1000; i++) /* slewed, by far more than a step in all */
		assert_false(clock_steps_look(&s, wall += 10500, boot += 10000));
	assert_true(clock_steps_look(&s, wall += 60000 + 10, boot += 10));
	assert_true(s.n == 1 && s.last_step_ms == 60000 && s.last_wall_ms == wall && s.last_boot_ms == boot);
	assert_false(clock_steps_look(&s, wall += 59999 + 86400000, boot += 86400000));
	assert_true(clock_steps_look(&s, wall - 20 * INT64_C(86400000), boot));
	assert_true(s.n == 2 && s.last_step_ms == -20 * INT64_C(86400000));
}

static void test_min_max(void **state)
{
	int i = 3;
	assert_int_equal(MIN(i++, 9), 3);
	assert_int_equal(MAX(1, i++), 4);
	assert_int_equal(i, 5); /* each argument once */
	assert_int_equal(MAX(MIN(i, 2), MIN(4, i)), 4);
	assert_true(MIN(i, 5.5) == 5 && MAX(i, 5.5) == 5.5);
	assert_true(MAX((uint64_t)UINT64_MAX, 1u) == UINT64_MAX);
}

static void test_durations(void **state)
{
	static const struct { const char *text; int64_t ms; } good[] = {
		{ "0", 0 }, { "1h30m", 5400000 }, { "15d", 15LL * 86400000 }, { "10ms", 10 }, { "1y2w", 379LL * 86400000 },
	};
	static const char *const bad[] = { "", "5", "m", "1m1h", "1.5h", "-1s", "99999999999999y", "1hh" };
	int64_t ms;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_true(units_parse_duration(view_of(good[i].text), &ms));
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(units_parse_duration(view_of(bad[i]), &ms));
	char out[DURATION_LEN];
	assert_string_equal(units_format_duration(5400000, out), "1h30m");
	assert_string_equal(units_format_duration(0, out), "0s");
	assert_string_equal(units_format_duration(7LL * 86400000, out), "1w");
	uint64_t bytes;
	assert_true(units_parse_size(VIEW("512MB"), &bytes));
	assert_int_equal(bytes, 512 << 20);
	assert_false(units_parse_size(VIEW("12"), &bytes));
	assert_false(units_parse_size(VIEW("99EB"), &bytes));
}

/* What is no news: numbers and durations differ, however many parts these have. */
static void test_same_errors(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} rows[] = {
		{ "timed out after 1s: no answer", "timed out after 1s2ms: no answer", true },
		{ "timed out after 999ms: no answer", "timed out after 1m1s2ms: no answer", true },
		{ "after 12 ms", "after 3 ms", true }, { "", "", true }, { "7", "", true },
		{ "HTTP 503", "HTTP 404", true }, { "2 secrets", "3 secrets", true }, { "10.0.0.1:80 ends", "10.0.0.2:8080 ends", true },
		{ "2 secrets", "2 ecrets", false }, { "2secrets", "2ecrets", false }, { "after 1s: a", "after 1s: b", false },
		{ "after 1s", "after 1s: a", false }, { "a", "", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (err_same_but_for_numbers(rows[i].a, rows[i].b) != rows[i].same ||
		    err_same_but_for_numbers(rows[i].b, rows[i].a) != rows[i].same)
			fail_msg("\"%s\" and \"%s\"", rows[i].a, rows[i].b);
}

static void test_time(void **state)
{
	int64_t ms;
	assert_true(clock_parse_time_ms(VIEW("2015-07-01T20:10:51.781Z"), &ms));
	assert_int_equal(ms, 1435781451781);
	assert_true(clock_parse_time_ms(VIEW("2015-07-01T22:10:51+02:00"), &ms));
	assert_int_equal(ms, 1435781451000);
	assert_true(clock_parse_time_ms(VIEW("1435781451.781"), &ms));
	assert_int_equal(ms, 1435781451781);
	assert_false(clock_parse_time_ms(VIEW("yesterday"), &ms));
	char out[RFC3339_LEN];
	assert_string_equal(clock_rfc3339_ms(1435781451781, out), "2015-07-01T20:10:51.781Z");
}

static void test_numbers(void **state)
{
	char out[NUM_LEN];
	assert_string_equal(num_format(0.1, out), "0.1");
	assert_string_equal(num_format(3, out), "3");
	assert_string_equal(num_format(1.0 / 3, out), "0.3333333333333333");
	int64_t n;
	assert_true(num_parse_i64(VIEW("-9223372036854775808"), &n));
	assert_true(n == INT64_MIN);
	assert_false(num_parse_i64(VIEW("9223372036854775808"), &n));
	static const double out_of_range[] = { NAN, INFINITY, -INFINITY, 0x1p63, -0x1p63 * 1.01, 1e300 };
	for (size_t i = 0; i < ARRAY_LEN(out_of_range); i++)
		assert_false(num_round_i64(out_of_range[i], &n));
	assert_true(num_round_i64(-2.5, &n) && n == -3);
	assert_true(num_round_i64(-0x1p63, &n) && n == INT64_MIN);
}

/* As printf and strtod find them. */
static void check_digits(double v)
{
	char text[40], digits[NUM_LEN], want[NUM_LEN];
	int n, exponent, k = 0;
	if (!num_digits(v, digits, &n, &exponent))
		return;
	for (int precision = 14; precision <= 16; precision++) {
		snprintf(text, sizeof text, "%.*e", precision, v);
		if (strtod(text, NULL) == v)
			break;
	}
	for (const char *p = text; *p != 'e'; p++)
		if (*p != '.')
			want[k++] = *p;
	while (k > 1 && want[k - 1] == '0')
		k--;
	assert_int_equal(n, k);
	assert_memory_equal(digits, want, (size_t)n);
	assert_int_equal(exponent, strtol(strchr(text, 'e') + 1, NULL, 10));
}

static void test_digits(void **state)
{
	uint64_t random = 7;
	char digits[NUM_LEN];
	int n, exponent, known = 0;
	for (int i = 0; i < 40000; i++) {
		random = hash_u64(random + 1);
		double part = (double)(random >> 11) * 0x1p-53, size = pow(10, (double)(int)(random % 19) - 4);
		check_digits(part * size);
		check_digits((double)(random % 100000) / 100);
		check_digits((double)(random % 1000) / 60);
		check_digits(nextafter(size, i % 2 ? 0 : INFINITY));
		known += num_digits((double)(random % 1000 + 1) / 60, digits, &n, &exponent);
	}
	assert_true(known > 36000);
	assert_false(num_digits(0, digits, &n, &exponent));
	assert_false(num_digits(-1.5, digits, &n, &exponent));
	assert_false(num_digits(NAN, digits, &n, &exponent));
	assert_false(num_digits(1e300, digits, &n, &exponent));
	assert_true(num_digits(0.1, digits, &n, &exponent));
	assert_int_equal(n, 1);
	assert_int_equal(exponent, -1);
}

static void test_varint(void **state)
{
	static const uint64_t values[] = { 0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX };
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		uint8_t b[10];
		unsigned n = varint_put(b, values[i]);
		const uint8_t *p = b;
		uint64_t v = 0;
		assert_true(varint_get(&p, b + n, &v));
		assert_true(v == values[i] && p == b + n);
		p = b;
		assert_false(varint_get(&p, b + n - 1, &v));
	}
	const uint8_t too_long[] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 2 }, *p = too_long;
	uint64_t v;
	assert_false(varint_get(&p, p + sizeof too_long, &v));
	assert_int_equal(zigzag_decode(zigzag_encode(INT64_MIN)), INT64_MIN);
}

static void test_map(void **state)
{
	struct map m = { 0 };
	for (uint32_t i = 0; i < 5000; i++)
		map_insert(&m, hash_u64(i), i);
	for (uint32_t i = 0; i < 5000; i += 2)
		assert_true(map_remove(&m, hash_u64(i), i));
	for (uint32_t i = 0; i < 5000; i++) {
		bool found = false;
		uint32_t id;
		for (size_t at = map_start(&m, hash_u64(i)); map_probe(&m, hash_u64(i), &at, &id);)
			found |= id == i;
		assert_int_equal(found, i & 1);
	}
	map_free(&m);
}

/* Hashes that somebody chose so that all would begin at one slot: by their upper halves, by the upper bits of these, by their lower bits. */
static void test_map_chosen_hashes(void **state)
{
	enum { KEYS = 16000, LONGEST_RUN = 2000 };
	static const unsigned shifts[] = { 0, 16, 32, 48, 64 };
	(void)state;
	for (size_t way = 0; way < ARRAY_LEN(shifts); way++) {
		struct map m = { 0 };
		size_t met = 0, run = 0, longest = 0;
		for (uint32_t round = 0; round < 2; round++)
			for (uint32_t i = 0; i < KEYS; i++) {
				uint64_t hash = shifts[way] < 64 ? 0x1234567812345678u ^ (uint64_t)i << shifts[way] : hash_u64(i);
				uint32_t id;
				for (size_t at = map_start(&m, hash); round && map_probe(&m, hash, &at, &id);)
					met++;
				if (!round)
					map_insert(&m, hash, i);
			}
		for (size_t i = 0; i <= m.mask; i++) {
			run = m.slots[i] ? run + 1 : 0;
			longest = MAX(longest, run);
		}
		print_message("bits from %u: %zu entries met, longest run %zu\n", shifts[way], met, longest);
		assert_true(met >= KEYS && met < KEYS + 100);
		assert_true(longest < LONGEST_RUN);
		map_free(&m);
	}
}

/* Texts whose plain hashes agree in the upper half, as XXH3's inverse makes them. With the secret they do not. */
static void test_hash_secret(void **state)
{
	static const uint64_t texts[] = {
		UINT64_C(0xb1bc0d48368ea9cb), UINT64_C(0x9a2deb456294e8f5), UINT64_C(0x793b5b52651323f9), UINT64_C(0x3ed1fd97a7e65c8d),
		UINT64_C(0x6547b8105161099e), UINT64_C(0x2d40cf39d20c851a), UINT64_C(0xdfa9063172f59c48), UINT64_C(0x0c25dd0f426034b3),
		UINT64_C(0xa4f0d6e9b117fd02), UINT64_C(0xad7e79ebc9f10d2b), UINT64_C(0x49b5a0482fc2052a), UINT64_C(0xbbc911744d0eef48),
	};
	(void)state;
	assert_int_equal(hash_stable_view(VIEW("abc")), UINT64_C(0x78af5f94892f3950)); /* as files have it */
	assert_int_equal(hash_stable_seed(texts, 8, 0), hash_stable(texts, 8));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		for (size_t k = 0; k < i; k++) {
			assert_int_equal(hash_stable(&texts[i], 8) >> 32, hash_stable(&texts[k], 8) >> 32);
			assert_int_not_equal(hash_bytes(&texts[i], 8) >> 32, hash_bytes(&texts[k], 8) >> 32);
			assert_int_not_equal(hash_bytes_seed(&texts[i], 8, 7) >> 32, hash_bytes_seed(&texts[k], 8, 7) >> 32);
		}
}

/* Bytes that are hashed piece by piece, in pieces of any size, have the hash that one call gives. */
static void test_hash_stream(void **state)
{
	char bytes[2000];
	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)hash_u64(i);
	for (size_t piece = 1; piece < 1500; piece = piece * 3 + 1)
		for (size_t n = 0; n < sizeof bytes; n += 61) {
			struct hash_stream h;
			hash_stream_begin(&h);
			for (size_t at = 0; at < n; at += piece)
				hash_stream_add(&h, bytes + at, MIN(piece, n - at));
			assert_true(hash_stream_end(&h) == hash_stable(bytes, n));
		}
}

/* Hashes that meet are told apart by the comparison; each thing is added once. */
static void test_map_find_or_add(void **state)
{
	(void)state;
	struct map m = { 0 };
	uint32_t things[1000], n = 0, id = 7;
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < ARRAY_LEN(things); i++) {
			bool there = MAP_FIND_OR_ADD(&m, hash_u64(i % 10), id, n, things[id] == i);
			assert_int_equal(there, round > 0);
			if (!there)
				things[n++] = i;
			assert_int_equal(id, i);
		}
	assert_int_equal(n, ARRAY_LEN(things));
	assert_int_equal(m.n, n);
	map_free(&m);
}

/* Few records and many, with keys that ascend, are all equal, or differ in one to eight bytes: they are sorted, and records of one key keep their order. */
static void test_radix(void **state)
{
	static const size_t counts[] = { 0, 1, 2, 24, 25, 300, 5000 };
	struct { uint64_t key, place; } v[5000];
	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(counts); k++)
		for (unsigned way = 0; way < 6; way++) {
			const uint64_t masks[] = { UINT64_MAX, 0xff, 0xff00ff0000000000, 0, 0x3 };
			size_t n = counts[k];
			uint64_t sum = 0;
			for (size_t i = 0; i < n; i++) {
				v[i].key = way == 5 ? i : 0x1000 + (hash_u64(i) & masks[way]);
				v[i].place = i;
				sum += v[i].key;
			}
			radix_sort(v, n);
			for (size_t i = 0; i < n; i++) {
				sum -= v[i].key;
				assert_int_equal(v[i].key, way == 5 ? v[i].place : 0x1000 + (hash_u64(v[i].place) & masks[way]));
				assert_true(!i || v[i - 1].key < v[i].key || (v[i - 1].key == v[i].key && v[i - 1].place < v[i].place));
			}
			assert_int_equal(sum, 0);
		}
}

static void test_buf_ceiling_and_json(void **state)
{
	struct buf b = { .max = 4 };
	buf_puts(&b, "abc");
	buf_puts(&b, "de");
	assert_true(b.overflow);
	assert_string_equal(b.ptr, "abc");
	buf_free(&b);
	struct buf j = { 0 };
	buf_json_string(&j, VIEW("a\"\\\n<\xff\xc3\xa9\x01"));
	assert_string_equal(j.ptr, "\"a\\\"\\\\\\n\\u003c\xef\xbf\xbd\xc3\xa9\\u0001\"");
	/* Wherever it stands, and whatever is plain around it. */
	static const char *const special[][2] = { { "\"", "\\\"" }, { "\\", "\\\\" }, { "<", "\\u003c" }, { ">", "\\u003e" }, { "&", "\\u0026" },
						  { "\x1f", "\\u001f" }, { "\x80", "\xef\xbf\xbd" }, { "\xc3\xa9", "\xc3\xa9" },
						  { "~\x7f !", "~\x7f !" } };
	for (size_t k = 0; k < ARRAY_LEN(special); k++)
		for (int at = 0; at < 50; at++) {
			char text[80], want[80];
			static const char plain[] = "plain text that is longer than what is looked at at once, twice";
			snprintf(text, sizeof text, "%.*s%s%.*s", at, plain, special[k][0], 49 - at, plain);
			snprintf(want, sizeof want, "\"%.*s%s%.*s\"", at, plain, special[k][1], 49 - at, plain);
			j.len = 0;
			buf_json_string(&j, view_of(text));
			assert_string_equal(j.ptr, want);
		}
	buf_free(&j);
}

static void test_buf_read_file(void **state)
{
	struct err e = { 0 };
	struct buf b = { .max = 100000 }, again = { .max = 99999 };
	char name[] = "/tmp/pyrrha-base-XXXXXX";
	int fd = mkstemp(name);
	assert_true(fd >= 0);
	char *text = xcalloc(100000, 1);
	assert_int_equal(write(fd, text, 100000), 100000);
	close(fd);
	assert_int_equal(buf_read_file(&b, name, &e), 0);
	assert_int_equal(b.len, 100000);
	assert_int_equal(buf_read_file(&again, name, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "over 99999 bytes"));
	unlink(name);
	assert_int_equal(buf_read_file(&again, name, &e), -ERR_NOT_FOUND);
	assert_int_equal(buf_read_file(&(struct buf){ 0 }, "/", &e), -ERR_IO);
	assert_non_null(strstr(e.msg, "cannot read /: it is a directory, not a file"));
	/* A pipe without a writer, or with one that says nothing, is not waited for. */
	assert_int_equal(mkfifo(name, 0600), 0);
	alarm(20);
	assert_int_equal(buf_read_file(&(struct buf){ 0 }, name, &e), -ERR_IO);
	assert_non_null(strstr(e.msg, "it is a pipe, not a file"));
	fd = open(name, O_RDWR);
	assert_int_equal(buf_read_file(&(struct buf){ 0 }, name, &e), -ERR_IO);
	assert_int_equal(buf_check_file(name, &e), -ERR_IO);
	close(fd);
	unlink(name);
	alarm(0);
	assert_int_equal(buf_read_file(&(struct buf){ 0 }, "/dev/zero", &e), -ERR_IO);
	assert_non_null(strstr(e.msg, "it is a device"));
	assert_int_equal(buf_check_file("/dev/null", &e), -ERR_IO);
	assert_int_equal(buf_check_file("/proc/self/status", &e), 0);
	assert_int_equal(buf_check_file(name, &e), -ERR_NOT_FOUND);
	/* One that is too large is not read up to there. */
	fd = open(name, O_CREAT | O_RDWR, 0600);
	assert_int_equal(ftruncate(fd, INT64_C(1) << 40), 0);
	close(fd);
	buf_reset(&again);
	assert_int_equal(buf_read_file(&again, name, &e), -ERR_LIMIT);
	assert_int_equal(again.len, 0);
	unlink(name);
	free(text);
	buf_free(&b);
	buf_free(&again);
}

static void test_arena_cap(void **state)
{
	struct arena a;
	arena_init(&a, 1000);
	assert_non_null(arena_alloc(&a, 900));
	assert_null(arena_alloc(&a, 200));
	arena_reset(&a);
	assert_non_null(arena_alloc(&a, 200));
	assert_null(arena_alloc(&a, SIZE_MAX));
	arena_free(&a);
}

/* Blocks that an arena wants are the budget's to refuse; a large one is not kept. */
static void test_arena_budget(void **state)
{
	struct budget b = { .max = 32 << 20 };
	struct arena a, other;
	arena_init(&a, 0);
	arena_init(&other, 0);
	a.budget = other.budget = &b;
	assert_non_null(arena_alloc(&a, 20 << 20));
	assert_true(budget_used(&b) >= 20 << 20 && a.held == budget_used(&b));
	assert_null(arena_alloc(&other, 13 << 20));
	assert_true(other.refused && !a.refused);
	assert_non_null(arena_alloc(&other, 500 << 10));
	assert_null(arena_alloc(&a, 13 << 20));
	arena_reset(&a);
	assert_int_equal(a.held, 0);
	assert_int_equal(budget_used(&b), other.held);
	assert_non_null(arena_alloc(&other, 5 << 20));
	arena_free(&other);
	assert_non_null(arena_alloc(&a, 500 << 10));
	arena_reset(&a);
	assert_true(a.held >= 500 << 10);
	assert_false(budget_has_room(&b, 28 << 20, BUDGET_BEGIN));
	assert_true(budget_has_room(&b, 28 << 20, BUDGET_ALL));
	arena_free(&a);
	assert_int_equal(budget_used(&b), 0);
	(void)state;
}

struct counted_part {
	struct budget budget;
	int asked;
};

static bool more_of_part(struct budget *b, size_t n, enum budget_line line)
{
	struct counted_part *p = (struct counted_part *)b;
	p->asked++;
	return budget_take(b->parent, n, line);
}

/* A part counts in itself and in its parent, and is asked about beyond the line of the large. */
static void test_budget_parts(void **state)
{
	struct budget all = { .max = 1600 };
	struct counted_part a = { { .parent = &all, .more = more_of_part }, 0 };
	struct budget in_a = { .parent = &a.budget }, b = { .parent = &all };
	assert_true(budget_take(&a.budget, 1200, BUDGET_ALL));
	assert_int_equal(a.asked, 0);
	assert_true(budget_take(&in_a, 100, BUDGET_KEPT));
	assert_int_equal(a.asked, 1);
	assert_false(budget_take(&in_a, 100, BUDGET_KEPT));
	assert_false(budget_take(&b, 100, BUDGET_KEPT));
	assert_true(budget_take(&b, 100, BUDGET_ALL));
	assert_int_equal(budget_used(&all), 1400);
	assert_int_equal(budget_used(&a.budget), 1300);
	assert_int_equal(budget_used(&in_a), 100);
	budget_move(&b, &in_a, 60);
	assert_int_equal(budget_used(&all), 1400);
	assert_int_equal(budget_used(&a.budget), 1360);
	assert_int_equal(budget_used(&in_a), 160);
	assert_int_equal(budget_used(&b), 40);
	budget_give(&in_a, 160);
	budget_give(&a.budget, 1200);
	budget_give(&b, 40);
	assert_int_equal(budget_used(&all), 0);
	(void)state;
}

static void test_heap(void **state)
{
	struct heap h = { 0 };
	struct heap_node e[200] = { { 0 } };
	uint64_t x = 7;
	for (size_t i = 0; i < 200; i++)
		heap_put(&h, &e[i], (int64_t)((x = hash_u64(x)) % 1000));
	for (size_t i = 0; i < 200; i += 3) /* moved to another key */
		heap_put(&h, &e[i], (int64_t)((x = hash_u64(x)) % 1000));
	for (size_t i = 0; i < 200; i += 7)
		heap_remove(&h, &e[i]);
	int64_t last = 0;
	size_t n = 0;
	for (struct heap_node *first; (first = heap_first(&h)); n++) {
		assert_true(first->key >= last);
		last = first->key;
		heap_remove(&h, first);
		assert_int_equal(first->at, 0);
	}
	assert_int_equal(n, 200 - 29);
	heap_free(&h);
	(void)state;
}

static void test_queue_close_drains(void **state)
{
	struct queue *q = queue_new(2, 0);
	int a, b;
	assert_true(queue_push(q, &a, 1));
	assert_true(queue_try_push(q, &b, 1));
	assert_false(queue_try_push(q, &b, 1));
	assert_int_equal(queue_dropped(q), 1);
	queue_close(q);
	assert_false(queue_push(q, &a, 1));
	assert_ptr_equal(queue_pop(q, -1), &a);
	assert_ptr_equal(queue_pop(q, -1), &b);
	assert_null(queue_pop(q, -1));
	queue_free(q);
}

static void add_one(void *arg, size_t i, unsigned worker)
{
	__atomic_fetch_add((int *)arg + i % 4, 1, __ATOMIC_RELAXED);
}

static void test_pool(void **state)
{
	struct pool *p = pool_new(3, "test");
	int sums[4] = { 0 };
	pool_run(p, 1000, add_one, sums);
	for (int i = 0; i < 4; i++)
		assert_int_equal(sums[i], 250);
	pool_free(p);
}

/* Jobs of three callers for a pool of one thread, each caller held by the first step of its own. */
struct ordered {
	struct pool *pool;
	int number;
	atomic_int *inside, *order; /* how many callers are held; the job that the pool's thread took first after the first one's */
	atomic_bool *go_on, *pool_goes_on;
};

static void take_step(void *arg, size_t i, unsigned worker)
{
	struct ordered *o = arg;
	(void)i;
	if (worker == 1) { /* the caller itself */
		atomic_fetch_add(o->inside, 1);
		while (!atomic_load(o->go_on))
			clock_sleep_ms(1);
	} else if (o->number == 0) {
		atomic_fetch_add(o->inside, 1);
		while (!atomic_load(o->pool_goes_on))
			clock_sleep_ms(1);
	} else {
		int none = 0;
		atomic_compare_exchange_strong(o->order, &none, o->number);
	}
}

static void *run_ordered(void *arg)
{
	struct ordered *o = arg;
	pool_run(o->pool, 2, take_step, o);
	return NULL;
}

/* Who came first is helped first. */
static void test_pool_order(void **state)
{
	(void)state;
	struct pool *p = pool_new(1, "test");
	atomic_int inside = 0, order = 0;
	atomic_bool go_on = false, pool_goes_on = false;
	struct ordered o[3];
	pthread_t threads[3];
	for (int i = 0; i < 3; i++) {
		o[i] = (struct ordered){ p, i, &inside, &order, &go_on, &pool_goes_on };
		assert_int_equal(thread_start(&threads[i], "caller", run_ordered, &o[i], NULL), 0);
		while (atomic_load(&inside) < i + 2) /* of the first one both steps are at work */
			clock_sleep_ms(1);
	}
	atomic_store(&pool_goes_on, true);
	while (!atomic_load(&order))
		clock_sleep_ms(1);
	assert_int_equal(atomic_load(&order), 1);
	atomic_store(&go_on, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	pool_free(p);
}

static void test_regex(void **state)
{
	struct regex *re;
	struct err e;
	assert_int_equal(regex_new(&re, VIEW("(a+)-(b+)"), true, &e), 0);
	assert_int_equal(regex_match(re, VIEW("aa-b"), NULL, &e), 1);
	assert_int_equal(regex_match(re, VIEW("xaa-b"), NULL, &e), 0);
	struct buf out = { 0 };
	assert_int_equal(regex_expand(re, VIEW("aa-b"), VIEW("${2}x$1$$$1y"), &out, NULL, &e), 1);
	assert_string_equal(out.ptr, "bxaa$");
	buf_free(&out);
	regex_unref(re);
	assert_true(regex_new(&re, VIEW("(a"), true, &e) < 0);
}

static void test_metrics(void **state)
{
	static struct metric table[] = {
		{ "t_total", "Things.", METRIC_COUNTER, "a" },
		{ "t_seconds", "Time.", METRIC_HISTOGRAM },
	};
	metrics_register(table, ARRAY_LEN(table));
	metric_add(&table[0], 2, "x\"y");
	metric_observe(&table[1], 0.003);
	struct buf b = { 0 };
	metrics_render(&b);
	assert_non_null(strstr(b.ptr, "t_total{a=\"x\\\"y\"} 2\n"));
	assert_non_null(strstr(b.ptr, "t_seconds_bucket{le=\"0.0025\"} 0\nt_seconds_bucket{le=\"0.005\"} 1\n"));
	assert_non_null(strstr(b.ptr, "t_seconds_bucket{le=\"+Inf\"} 1\n"));
	/* what is gone leaves the others, and begins anew */
	for (int i = 0; i < 3; i++)
		metric_add(&table[0], i + 1, (const char *[]){ "one", "two", "three" }[i]);
	metric_forget(&table[0], "two");
	metric_forget(&table[0], "never");
	buf_reset(&b);
	metrics_render(&b);
	assert_null(strstr(b.ptr, "two"));
	assert_true(metric_get(&table[0], "one") == 1 && metric_get(&table[0], "three") == 3);
	metric_add(&table[0], 5, "two");
	assert_true(metric_get(&table[0], "two") == 5 && metric_get(&table[0], "x\"y") == 2);
	buf_free(&b);
	metrics_free();
}

static void test_utf8(void **state)
{
	assert_true(utf8_valid(VIEW("a\xc3\xa9\xf0\x9f\x94\xa5")));
	assert_false(utf8_valid(VIEW("\xed\xa0\x80")));
	assert_false(utf8_valid(VIEW("\xc0\x80")));
	assert_false(utf8_valid(VIEW("\xe2\x82")));
	static const struct { const char *text; size_t n; uint32_t shown; } rows[] = {
		{ "ab", 1, 'a' }, { "\xf0\x9f\x94\xa5x", 4, 0x1f525 }, { "\xff\xff", 1, 0xfffd }, { "\xe2\x82", 1, 0xfffd }, { "\xef\xbf\xbf", 3, 0xfffd },
		{ "\tx", 1, ' ' }, { "\n", 1, ' ' }, { "\x1b[", 1, 0xfffd },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint32_t c;
		assert_int_equal(utf8_shown(view_of(rows[i].text), &c), rows[i].n);
		assert_int_equal(c, rows[i].shown);
	}
}

static void test_put_i64(void **state)
{
	static const int64_t v[] = { 0, 1, 9, 10, 99, 100, 101, 999, 1000, 9999, 10000, 99999999, 100000000, 123456789, 1000000000000, -1, -10, -100, INT64_MAX, INT64_MIN };
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct buf b = { 0 };
		char want[32];
		snprintf(want, sizeof want, "%lld", (long long)v[i]);
		buf_int(&b, v[i]);
		assert_string_equal(b.ptr, want);
		assert_true(b.len <= NUM_I64_LEN);
		buf_free(&b);
	}
	for (uint64_t u = 1, step = 0; u < UINT64_C(1) << 62; u += 1 + u / 97 + hash_u64(step++) % (u / 50 + 1))
		for (int sign = -1; sign <= 1; sign += 2) {
			char text[NUM_I64_LEN], want[32];
			int n = snprintf(want, sizeof want, "%lld", sign * (long long)u);
			assert_ptr_equal(num_put_i64(text, sign * (int64_t)u), text + n);
			assert_memory_equal(text, want, n);
		}
	(void)state;
}

static void put_limit(const char *root, const char *path, const char *text)
{
	char dir[300], name[300];
	struct err e;
	const char *slash = strrchr(path, '/');
	snprintf(dir, sizeof dir, "%s/%.*s", root, (int)(slash - path), path);
	snprintf(name, sizeof name, "%s", slash + 1);
	assert_int_equal(files_make_dirs(dir, &e), 0);
	assert_int_equal(files_put(dir, name, view_of(text), &e), 0);
}

static void test_memory_limit(void **state)
{
	char root[] = "/tmp/base-test-XXXXXX";
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	assert_non_null(mkdtemp(root));
	assert_int_equal(memory_limit(root), machine);
	put_limit(root, "proc/self/cgroup", "9:cpu:/b\n4:memory:/a/b\n0::/pods/one/main\nnonsense");
	assert_int_equal(memory_limit(root), machine);
	put_limit(root, "sys/fs/cgroup/pods/one/main/memory.max", "max\n");
	put_limit(root, "sys/fs/cgroup/pods/one/memory.max", "200000000\n");
	assert_int_equal(memory_limit(root), 200000000);
	put_limit(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "150000000\n");
	put_limit(root, "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(memory_limit(root), 150000000);
	put_limit(root, "sys/fs/cgroup/memory.max", "100000000"); /* what a container sees as the root */
	assert_int_equal(memory_limit(root), 100000000);
	files_remove_tree(root);
	(void)state;
}

static void test_memory_parts(void **state)
{
	uint64_t a = 0, b = 0, c = 0, given;
	struct memory_part parts[] = { { 32, &a, false }, { 16, &b, false }, { 8, &c, false } };
	const uint64_t mib = 1 << 20;
	assert_int_equal(memory_divide(1024 * mib, parts, 3, &given), 896 * mib);
	assert_true(a == 512 * mib && b == 256 * mib && c == 128 * mib && given == 0);
	assert_int_equal(memory_divide(0, parts, 3, &given), 24 * mib); /* no part is without anything */
	/* One is given: less changes nothing for the others, more leaves them less. */
	parts[1].given = true;
	b = mib;
	assert_int_equal(memory_divide(1024 * mib, parts, 3, &given), 641 * mib);
	assert_true(a == 512 * mib && b == mib && given == mib);
	b = 640 * mib;
	assert_int_equal(memory_divide(1024 * mib, parts, 3, &given), 960 * mib); /* 384 are left for 48 of 64 */
	assert_true(a == 256 * mib && b == 640 * mib && c == 64 * mib);
	b = UINT64_MAX;
	assert_int_equal(memory_divide(1024 * mib, parts, 3, &given), UINT64_MAX);
	assert_true(a == 128 * mib && c == 32 * mib && given == UINT64_MAX);
	(void)state;
}

static void test_room(void **state)
{
	enum { MIB = 1 << 20 };
	room_tidy(true);
	struct room r = room_take(100), big = room_take(40 * MIB), more = room_take(40 * MIB);
	assert_true(r.bytes >= 100 && big.bytes >= 40 * MIB && more.v != big.v);
	memset(r.v, 7, 100);
	room_grow(&r, 100, 3 * MIB); /* out of malloc's, into one that is kept */
	for (int i = 0; i < 100; i++)
		assert_int_equal(((char *)r.v)[i], 7);
	memset(r.v, 1, r.bytes);
	memset(big.v, 1, big.bytes);
	void *was = big.v;
	room_give(&big);
	assert_true(!big.v && room_kept() >= 40 * MIB);
	big = room_take(30 * MIB); /* the same one again */
	assert_ptr_equal(big.v, was);
	room_give(&big);
	room_give(&more); /* together they are more than is kept */
	assert_true(room_kept() >= 40 * MIB && room_kept() <= 64 * MIB);
	struct room small = room_take(3 * MIB); /* not the large one, which others may need */
	assert_true(small.v != was);
	room_give(&small);
	room_give(&r);
	room_tidy(false); /* they are young */
	assert_true(room_kept() >= 40 * MIB);
	room_tidy(true);
	assert_true(!room_kept());
	struct room none = { 0 };
	room_give(&none);
	(void)state;
}

/* A thread that waits for something else is woken by the flag that it watches. */
struct flag_waiter {
	struct mutex lock;
	pthread_cond_t cond;
	atomic_bool flag, other;
	atomic_int rounds;
	pthread_t thread;
};

static void *wait_with_flag(void *arg)
{
	struct flag_waiter *x = arg;
	struct flag_watch w;
	flag_watch(&w, &x->flag, &x->lock, &x->cond);
	mutex_lock(&x->lock);
	while (!atomic_load(&x->flag)) {
		atomic_fetch_add(&x->rounds, 1);
		mutex_wait(&x->lock, &x->cond);
	}
	mutex_unlock(&x->lock);
	flag_unwatch(&w);
	return NULL;
}

static void await_rounds(struct flag_waiter *x, int n)
{
	for (int i = 0; i < 60000 && atomic_load(&x->rounds) < n; i++)
		clock_sleep_ms(1);
	mutex_lock(&x->lock); /* then it waits */
	mutex_unlock(&x->lock);
	assert_true(atomic_load(&x->rounds) >= n);
}

static void *raise_soon(void *flag)
{
	clock_sleep_ms(20);
	flag_raise(flag);
	return NULL;
}

static void test_flags(void **state)
{
	(void)state;
	struct flag_waiter x[2] = { 0 };
	struct flag_watch none;
	for (size_t i = 0; i < 2; i++) {
		mutex_init(&x[i].lock, LOCK_LEAF, "test");
		pthread_cond_init(&x[i].cond, NULL);
		assert_int_equal(pthread_create(&x[i].thread, NULL, wait_with_flag, &x[i]), 0);
		await_rounds(&x[i], 1);
	}
	flag_raise(&x[0].other);
	flag_wake(&x[0].flag);
	await_rounds(&x[0], 2);
	flag_wake(NULL);
	await_rounds(&x[0], 3);
	await_rounds(&x[1], 2);
	for (size_t i = 2; i-- > 0;) {
		flag_raise(&x[i].flag);
		assert_int_equal(pthread_join(x[i].thread, NULL), 0);
		pthread_cond_destroy(&x[i].cond);
		mutex_destroy(&x[i].lock);
	}
	flag_watch(&none, NULL, &x[0].lock, &x[0].cond);
	flag_unwatch(&none);

	atomic_bool flag = false;
	pthread_t raiser;
	int64_t begin = clock_mono_ms();
	assert_true(flag_sleep(NULL, begin + 5) && flag_sleep(&flag, begin + 10));
	assert_true(clock_mono_ms() >= begin + 10);
	assert_int_equal(pthread_create(&raiser, NULL, raise_soon, &flag), 0);
	assert_false(flag_sleep(&flag, begin + 3600000));
	assert_int_equal(pthread_join(raiser, NULL), 0);
	assert_false(flag_sleep(&flag, begin + 3600000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_memory_parts), cmocka_unit_test(test_room),
		cmocka_unit_test(test_min_max), cmocka_unit_test(test_base64), cmocka_unit_test(test_redacted_urls), cmocka_unit_test(test_redacted_commands), cmocka_unit_test(test_clock_steps), cmocka_unit_test(test_durations), cmocka_unit_test(test_same_errors), cmocka_unit_test(test_time), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_digits),
		cmocka_unit_test(test_varint), cmocka_unit_test(test_map), cmocka_unit_test(test_map_chosen_hashes), cmocka_unit_test(test_hash_secret), cmocka_unit_test(test_hash_stream), cmocka_unit_test(test_map_find_or_add), cmocka_unit_test(test_radix), cmocka_unit_test(test_buf_ceiling_and_json),
		cmocka_unit_test(test_buf_read_file), cmocka_unit_test(test_arena_cap), cmocka_unit_test(test_arena_budget), cmocka_unit_test(test_budget_parts), cmocka_unit_test(test_heap), cmocka_unit_test(test_queue_close_drains), cmocka_unit_test(test_pool), cmocka_unit_test(test_pool_order),
		cmocka_unit_test(test_regex), cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_flags), cmocka_unit_test(test_utf8), cmocka_unit_test(test_put_i64),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
