/* SPDX-License-Identifier: Apache-2.0 */
/* What counts as one client where logins are counted: an IPv4 address, or the first 64 bits of an IPv6 one, because a client with one
 * address of such a network has all of them. */
#ifndef PYRRHA_HTTPD_LOGIN_ADDRESS_H
#define PYRRHA_HTTPD_LOGIN_ADDRESS_H

#include <netinet/in.h>
#include <string.h>

/* from: an IPv4 address is written as an IPv6 one. */
static inline struct in6_addr login_address_client(const struct in6_addr *from)
{
	struct in6_addr a = *from;
	if (!IN6_IS_ADDR_V4MAPPED(&a))
		memset(&a.s6_addr[8], 0, 8);
	return a;
}

#endif
