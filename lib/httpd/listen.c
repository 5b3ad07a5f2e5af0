/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets: "host:port" into bound, listening descriptors. A name is bound at all of its addresses;
 * nothing beyond loopback unless that is allowed. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "httpd/internal.h"

bool httpd_split_address(const char *s, char host[256], char port[8])
{
	const char *colon = strrchr(s, ':');
	if (!colon)
		return false;
	struct view h = view_make(s, (size_t)(colon - s)), p = view_of(colon + 1);
	uint64_t n;
	if (!p.len || p.len > 5 || !num_parse_u64(p, &n) || n > 65535)
		return false;
	if (h.len && h.ptr[0] == '[') {
		if (h.len < 3 || h.ptr[h.len - 1] != ']')
			return false;
		h = view_make(h.ptr + 1, h.len - 2);
	} else if (h.len && memchr(h.ptr, ':', h.len)) {
		return false; /* an IPv6 address needs its brackets */
	}
	if (h.len >= 256)
		return false;
	memcpy(host, h.ptr, h.len);
	host[h.len] = 0;
	snprintf(port, 8, "%s", colon + 1);
	return true;
}

static bool is_loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return (ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24) == 127;
	const struct in6_addr *a = &((const struct sockaddr_in6 *)sa)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static void set_port(struct sockaddr *sa, uint16_t port)
{
	if (sa->sa_family == AF_INET)
		((struct sockaddr_in *)sa)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)sa)->sin6_port = htons(port);
}

static uint16_t bound_address(int fd, char out[80])
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	char host[64] = "?", port[8] = "0";
	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		getnameinfo((struct sockaddr *)&ss, len, host, sizeof host, port, sizeof port,
			    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(out, 80, ss.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
	uint64_t n = 0;
	num_parse_u64(view_of(port), &n);
	return (uint16_t)n;
}

/* A listening socket, or -errno. v6_only: not for the wildcard, which takes IPv4 in too. */
static int open_socket(const struct addrinfo *ai, bool v6_only)
{
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int on = 1, only = v6_only;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, SOMAXCONN)) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

static int check_reach(struct httpd *h, const char *address, const struct addrinfo *list, struct err *e)
{
	struct web_config *w = httpd_web_config(h);
	bool has_login = web_config_has_login(w);
	web_config_unref(w);
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
		if (h->o.allow_beyond_loopback || is_loopback(ai->ai_addr))
			continue;
		h->login_wanted = true;
		if (!has_login)
			return err_set(e, ERR_DENIED, "%s can be reached from other machines, and nobody has to log in: listen on "
				       "127.0.0.1 or [::1], have users, tokens or required client certificates of an authority of your own "
				       "in --web.config.file (TLS alone does not do), or say %s", address,
				       h->allow_hint ? h->allow_hint : "that this is allowed");
	}
	return 0;
}

static int resolve(const char *address, struct addrinfo **ret, bool *ret_wildcard, struct err *e)
{
	char host[256], port[8];
	if (!httpd_split_address(address, host, port))
		return err_set(e, ERR_BAD_DATA, "listen address \"%s\" is not of the form host:port, [IPv6]:port or :port, with a "
			       "port up to 65535", address);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	*ret_wildcard = !host[0] || strcmp(host, "::") == 0;
	int rc = getaddrinfo(*ret_wildcard ? "::" : host, port, &hints, ret);
	if (rc)
		return err_set(e, ERR_BAD_DATA, "listen address \"%s\": %s", address, gai_strerror(rc));
	return 0;
}

/* Whether this machine just does not have that address (::1 without IPv6), which is no reason to fail if the name
 * has another one. */
static bool not_here(int errnum)
{
	return errnum == EADDRNOTAVAIL || errnum == EAFNOSUPPORT;
}

/* A socket for one address, or -errno. */
static int open_address(const struct addrinfo *ai, bool wildcard)
{
	int fd = open_socket(ai, !wildcard);
	if (fd != -EAFNOSUPPORT || !wildcard)
		return fd;
	struct sockaddr_in any = { .sin_family = AF_INET }; /* all interfaces of a machine without IPv6 */
	any.sin_port = ((const struct sockaddr_in6 *)ai->ai_addr)->sin6_port;
	struct addrinfo v4 = { .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&any, .ai_addrlen = sizeof any };
	return open_socket(&v4, false);
}

/* Listens on each address of the list; returns 0 or the errno that is to be told. */
static int open_all(struct httpd *h, struct addrinfo *list, bool wildcard)
{
	size_t before = h->listeners.n;
	uint16_t port = 0;
	int missing = 0;
	for (struct addrinfo *ai = list; ai; ai = ai->ai_next) {
		if (port)
			set_port(ai->ai_addr, port); /* port 0: all addresses of one name get the port the first one got */
		int fd = open_address(ai, wildcard);
		if (fd < 0 && !not_here(-fd))
			return -fd;
		if (fd < 0) {
			missing = -fd;
			continue;
		}
		struct http_listener *l = vec_add(&h->listeners);
		l->fd = fd;
		l->accept_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		l->loopback = is_loopback(ai->ai_addr);
		port = bound_address(fd, l->address);
	}
	return h->listeners.n > before ? 0 : missing;
}

int httpd_listen_on(struct httpd *h, const char *address, struct err *e)
{
	struct addrinfo *list;
	bool wildcard = false;
	int rc = resolve(address, &list, &wildcard, e);
	if (rc)
		return rc;
	rc = check_reach(h, address, list, e);
	int failed = rc ? 0 : open_all(h, list, wildcard);
	freeaddrinfo(list);
	return failed ? err_errno(e, failed, "cannot listen on %s", address) : rc;
}
