/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a DNS server's message: the first says for which type of record it is read, the rest is the message. What is refused
 * says why; what is taken in makes targets of proper labels. And any text as resolv.conf. */
#include "discovery/sd_dns.h"
#include "tests/fuzz/sd.h"

#include <arpa/nameser.h> /* brings a MIN of its own, so it comes last */

const char fuzz_target[] = "dns";

static void check_group(void *arg, const struct discovery_group *g)
{
	sd_check_group(g);
}

static void read_message(const uint8_t *msg, size_t n, int type)
{
	struct discovery_emit emit = { .group = check_group };
	struct target_list t;
	struct err e = { 0 };
	target_list_init(&t);
	int rc = dns_read_answer(&t, msg, n, type, "name.example", 80, &e);
	REQUIRE(!rc || e.msg[0], "an error without words");
	if (!rc && target_list_emit(&t, "source", (struct labels){ 0 }, &emit, &e))
		REQUIRE(e.msg[0], "an error without words");
	target_list_free(&t);
}

static void read_conf(struct view text)
{
	struct dns_conf c;
	const char *names[DNS_MAX_SEARCH + 1];
	dns_conf_parse(&c, text);
	size_t n = dns_conf_names(&c, "a.b", names);
	REQUIRE(n > 0 && n <= ARRAY_LEN(names), "%zu names", n);
	dns_conf_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const int types[] = { ns_t_srv, ns_t_a, ns_t_aaaa, ns_t_mx, ns_t_ns };
	if (!n || n > 1 << 16)
		return 0;
	read_message(data + 1, n - 1, types[data[0] % ARRAY_LEN(types)]);
	read_conf(view_make((const char *)data + 1, n - 1));
	return 0;
}
