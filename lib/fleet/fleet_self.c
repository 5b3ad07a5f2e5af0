/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/fleet_self.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

/* An address; IPv4 is mapped. */
static struct in6_addr self_mapped(struct in_addr v4)
{
	struct in6_addr a = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	memcpy(&a.s6_addr[12], &v4, sizeof v4);
	return a;
}

static bool self_parse_host(struct view host, struct in6_addr *ret)
{
	char text[INET6_ADDRSTRLEN];
	struct in_addr v4;
	if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
		host = view_make(host.ptr + 1, host.len - 2);
	if (!host.len || host.len >= sizeof text)
		return false;
	memcpy(text, host.ptr, host.len);
	text[host.len] = 0;
	if (inet_pton(AF_INET6, text, ret) == 1)
		return true;
	if (inet_pton(AF_INET, text, &v4) != 1)
		return false;
	*ret = self_mapped(v4);
	return true;
}

static bool self_split(struct view place, struct view *host, struct view *port)
{
	size_t i = place.len;
	while (i && place.ptr[i - 1] != ':')
		i--;
	if (!i)
		return false;
	*host = view_make(place.ptr, i - 1);
	*port = view_make(place.ptr + i, place.len - i);
	return port->len;
}

static bool self_has_interface(const struct in6_addr *a)
{
	struct ifaddrs *all;
	bool has = false;
	if (getifaddrs(&all))
		return false;
	for (struct ifaddrs *i = all; i && !has; i = i->ifa_next) {
		struct in6_addr own;
		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		if (i->ifa_addr->sa_family == AF_INET)
			own = self_mapped(((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr);
		else
			own = ((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr;
		has = IN6_ARE_ADDR_EQUAL(&own, a);
	}
	freeifaddrs(all);
	return has;
}

static bool self_is_any(const struct in6_addr *a)
{
	struct in6_addr any4 = self_mapped((struct in_addr){ INADDR_ANY });
	return IN6_IS_ADDR_UNSPECIFIED(a) || IN6_ARE_ADDR_EQUAL(a, &any4);
}

static bool self_is_loopback(const struct in6_addr *a)
{
	struct in6_addr loopback4 = self_mapped((struct in_addr){ htonl(INADDR_LOOPBACK) });
	return IN6_IS_ADDR_LOOPBACK(a) || IN6_ARE_ADDR_EQUAL(a, &loopback4);
}

bool fleet_is_self(struct view place, struct view listens)
{
	struct view host, port, own_host, own_port;
	struct in6_addr a, own;
	if (!self_split(place, &host, &port) || !self_split(listens, &own_host, &own_port) || !view_eq(port, own_port))
		return false;
	if (!self_parse_host(own_host, &own))
		return false;
	if (view_eqs(host, "localhost"))
		return self_is_any(&own) || self_is_loopback(&own);
	if (!self_parse_host(host, &a))
		return false;
	return IN6_ARE_ADDR_EQUAL(&a, &own) || (self_is_any(&own) && self_has_interface(&a));
}
