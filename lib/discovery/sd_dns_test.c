/* SPDX-License-Identifier: Apache-2.0 */
/* resolv.conf, the names that are asked for, and answers byte by byte; asking itself: tests/e2e/test_discovery_nets.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "discovery/sd_dns.h"

#include <arpa/nameser.h>

static void resolv_conf(void **state)
{
	struct dns_conf c;
	const char *names[DNS_MAX_SEARCH + 1];

	dns_conf_parse(&c, VIEW("# nameserver 9.9.9.9\nnameserver 10.0.0.1 ; the first\r\n\tnameserver\t::1\nnameserver\n"
				"domain old.example\nsearch a.example b.example.\noptions ndots:2 timeout:3 attempts:1 rotate ndots:x\n"
				"nameservers 1.2.3.4\nsortlist 1.2.3.0"));
	assert_int_equal(c.n_servers, 2);
	assert_string_equal(c.servers[0], "10.0.0.1");
	assert_string_equal(c.servers[1], "::1");
	assert_int_equal(c.n_search, 2);
	assert_int_equal(c.ndots, 2);
	assert_int_equal(c.timeout_ms, 3000);
	assert_int_equal(c.attempts, 1);
	/* fewer dots than ndots: the domains first */
	assert_int_equal(dns_conf_names(&c, "_x._tcp", names), 3);
	assert_string_equal(names[0], "_x._tcp.a.example.");
	assert_string_equal(names[1], "_x._tcp.b.example.");
	assert_string_equal(names[2], "_x._tcp.");
	assert_int_equal(dns_conf_names(&c, "x.y.z", names), 3);
	assert_string_equal(names[0], "x.y.z.");
	assert_string_equal(names[2], "x.y.z.b.example.");
	assert_int_equal(dns_conf_names(&c, "rooted.", names), 1);
	assert_string_equal(names[0], "rooted.");
	dns_conf_free(&c);

	dns_conf_parse(&c, VIEW("options ndots:99 timeout:0 attempts:-3\nsearch ."));
	assert_string_equal(c.servers[0], "127.0.0.1");
	assert_int_equal(c.ndots, 15);
	assert_int_equal(c.timeout_ms, 1000);
	assert_int_equal(c.attempts, 1);
	assert_int_equal(dns_conf_names(&c, "x", names), 2);
	assert_string_equal(names[0], "x.");
	dns_conf_free(&c);

	struct buf many = { 0 };
	for (int i = 0; i < 100; i++)
		buf_printf(&many, "nameserver 10.0.0.%d\n", i);
	buf_puts(&many, "search");
	for (int i = 0; i < 100; i++)
		buf_printf(&many, " d%d", i);
	dns_conf_parse(&c, buf_view(&many));
	assert_int_equal(c.n_servers, DNS_MAX_SERVERS);
	assert_int_equal(dns_conf_names(&c, "x", names), DNS_MAX_SEARCH + 1);
	dns_conf_free(&c);
	buf_free(&many);
}

/* ---- answers: a question for "q.example", then records whose owner points at it ---- */

static const char question[] = "\1q\7example\0\0\1\0\1";

static void begin(struct buf *b, unsigned answers)
{
	const unsigned char head[] = { 0, 1, 0x81, 0x80, 0, 1, 0, (unsigned char)answers, 0, 0, 0, 0 };
	buf_reset(b);
	buf_put(b, head, sizeof head);
	buf_put(b, question, sizeof question - 1);
}

static void record(struct buf *b, unsigned type, const char *data, unsigned n)
{
	const unsigned char head[] = { 0xc0, 12, 0, (unsigned char)type, 0, 1, 0, 0, 0, 60, 0, (unsigned char)n };
	buf_put(b, head, sizeof head);
	buf_put(b, data, n);
}
#define RECORD(b, type, data) record(b, type, data, sizeof(data) - 1)

/* All targets as text, or the error. */
static const char *read_all(struct buf *msg, int type, struct buf *out)
{
	struct target_list t;
	struct err e = { 0 };
	target_list_init(&t);
	buf_reset(out);
	if (dns_read_answer(&t, (const unsigned char *)msg->ptr, msg->len, type, "q.example", 80, &e))
		buf_printf(out, "! %s", e.msg);
	for (size_t i = 0; i < t.v.n; i++)
		labels_format(t.v.v[i], out);
	target_list_free(&t);
	return buf_view(out).ptr;
}

#define NAME ", __meta_dns_name=\"q.example\""

static void answers(void **state)
{
	struct buf b = { 0 }, out = { 0 };
	begin(&b, 3);
	RECORD(&b, ns_t_cname, "\1r\xc0\x0e");
	RECORD(&b, ns_t_a, "\x0a\0\0\x07");
	RECORD(&b, ns_t_a, "\x7f\0\0\1");
	assert_string_equal(read_all(&b, ns_t_a, &out), "{__address__=\"10.0.0.7:80\"" NAME "}{__address__=\"127.0.0.1:80\"" NAME "}");
	begin(&b, 1);
	RECORD(&b, ns_t_aaaa, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1");
	assert_string_equal(read_all(&b, ns_t_aaaa, &out), "{__address__=\"[fd00::1]:80\"" NAME "}");
	begin(&b, 2);
	RECORD(&b, ns_t_srv, "\0\1\0\2\x1f\x90\1h\xc0\x0e");
	RECORD(&b, ns_t_srv, "\0\1\0\2\0\0\0"); /* decidedly not there */
	assert_string_equal(read_all(&b, ns_t_srv, &out), "{__address__=\"h.example:8080\"" NAME ", __meta_dns_srv_record_port=\"8080\", "
			    "__meta_dns_srv_record_target=\"h.example.\"}");
	begin(&b, 2);
	RECORD(&b, ns_t_mx, "\0\5\4mail\xc0\x0c");
	RECORD(&b, ns_t_a, "\x0a\0\0\x07"); /* not what was asked for */
	assert_string_equal(read_all(&b, ns_t_mx, &out), "{__address__=\"mail.q.example:80\", __meta_dns_mx_record_target=\"mail.q.example.\""
			    NAME "}");
	begin(&b, 1);
	RECORD(&b, ns_t_ns, "\2ns\0");
	assert_string_equal(read_all(&b, ns_t_ns, &out), "{__address__=\"ns:80\"" NAME ", __meta_dns_ns_record_target=\"ns.\"}");
	buf_free(&b);
	buf_free(&out);
}

static void bad_answers(void **state)
{
	static const struct {
		unsigned type;
		const char *data;
		unsigned n;
	} bad[] = {
		{ ns_t_a, "\x0a\0\0", 3 }, { ns_t_a, "\x0a\0\0\1\1", 5 }, { ns_t_aaaa, "\x0a\0\0\1", 4 }, { ns_t_srv, "\0\1\0\2\x1f", 5 },
		{ ns_t_srv, "\0\1\0\2\x1f\x90", 6 }, { ns_t_srv, "\0\1\0\2\x1f\x90\5ab", 9 }, { ns_t_mx, "\0", 1 }, { ns_t_mx, "\0\1", 2 },
		{ ns_t_ns, "", 0 }, { ns_t_ns, "\xc0\xff", 2 }, { ns_t_ns, "\xc0\x29", 2 /* points at itself */ },
	};
	struct buf b = { 0 }, out = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		begin(&b, 1);
		record(&b, bad[i].type, bad[i].data, bad[i].n);
		assert_int_equal(read_all(&b, (int)bad[i].type, &out)[0], '!');
	}
	/* more answers than there are; cut anywhere; each byte changed */
	begin(&b, 200);
	RECORD(&b, ns_t_a, "\x0a\0\0\x07");
	assert_int_equal(read_all(&b, ns_t_a, &out)[0], '!');
	begin(&b, 2);
	RECORD(&b, ns_t_srv, "\0\1\0\2\x1f\x90\1h\xc0\x0e");
	RECORD(&b, ns_t_srv, "\0\1\0\2\x1f\x91\1i\xc0\x0c");
	for (size_t n = 0; n < b.len; n++) {
		struct buf cut = { 0 };
		buf_put(&cut, b.ptr, n);
		assert_int_equal(read_all(&cut, ns_t_srv, &out)[0], '!');
		buf_free(&cut);
	}
	for (size_t i = 0; i < b.len; i++)
		for (int v = 0; v < 256; v += 5) {
			char was = b.ptr[i];
			b.ptr[i] = (char)v;
			read_all(&b, ns_t_srv, &out);
			b.ptr[i] = was;
		}
	buf_free(&b);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(resolv_conf), cmocka_unit_test(answers), cmocka_unit_test(bad_answers) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
