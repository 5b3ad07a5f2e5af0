/* SPDX-License-Identifier: Apache-2.0 */
/* How addresses belong together, where clients are counted or share something. An IPv4 address is written as an IPv6 one. */
#ifndef PYRRHA_HTTPD_NETWORKS_H
#define PYRRHA_HTTPD_NETWORKS_H

#include <netinet/in.h>
#include <string.h>

#define NETWORKS_LEVELS 3

/* The network (/16, of IPv6 /48), the subnet (/24, of IPv6 /64) or the address itself, by level from 0; the other bits are 0. */
static inline struct in6_addr networks_prefix(const struct in6_addr *from, size_t level)
{
	static const size_t v4[NETWORKS_LEVELS] = { 12 + 2, 12 + 3, 16 }, v6[NETWORKS_LEVELS] = { 6, 8, 16 };
	struct in6_addr a = { 0 };
	memcpy(&a, from, IN6_IS_ADDR_V4MAPPED(from) ? v4[level] : v6[level]);
	return a;
}

/* What counts as one client: an IPv4 address, or the /64 of an IPv6 one, because a client with one address of such a network has all
 * of them. */
static inline struct in6_addr networks_client(const struct in6_addr *from)
{
	return networks_prefix(from, IN6_IS_ADDR_V4MAPPED(from) ? 2 : 1);
}

#endif
