/* SPDX-License-Identifier: Apache-2.0 */
/* Asks DNS servers with c-ares: all names at once over one socket per server, the next server when one fails, and again over TCP if
 * the answer was truncated. The C library's resolver is not used, because its calls cannot be canceled. */
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "discovery/sd_dns.h"

#include <arpa/nameser.h> /* brings a MIN of its own, so it comes last */

#define TURN_MS 200   /* how late the end is noticed */
#define SOCKETS 15    /* of the 16 that c-ares tells of: its macro for the last one shifts into the sign */
#define UDP_BYTES 1232 /* what goes through in one piece */

struct asking {
	const struct dns_questions *q;
	ares_channel channel;
	size_t left;
	bool over; /* what c-ares still says does not matter */
};

/* One name, in the spelling that is being asked for. */
struct question {
	struct asking *a;
	size_t i;
	const char *spellings[DNS_MAX_SEARCH + 1];
	size_t n, at;
	int wrong; /* ARES_..., of the first spelling that could not be asked for; 0 = none */
};

static void finish(struct question *q, const unsigned char *answer, size_t n)
{
	struct asking *a = q->a;
	struct err e = { 0 };
	if (q->wrong && !n)
		err_set(&e, ERR_UNAVAILABLE, "%s: %s", a->q->names[q->i], ares_strerror(q->wrong));
	a->left--;
	a->q->done(a->q->arg, q->i, answer, n, e.code ? &e : NULL);
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *answer, int n);

static void ask_next(struct question *q)
{
	if (q->at == q->n)
		finish(q, NULL, 0);
	else
		ares_query(q->a->channel, q->spellings[q->at++], ns_c_in, q->a->q->type, on_answer, q);
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *answer, int n)
{
	struct question *q = arg;
	if (q->a->over || status == ARES_EDESTRUCTION || status == ARES_ECANCELLED)
		return;
	if (status == ARES_SUCCESS) {
		finish(q, answer, (size_t)n);
	} else if (status == ARES_ENODATA) {
		q->wrong = 0; /* the name is there, without such records: that settles it */
		finish(q, NULL, 0);
	} else {
		if (status != ARES_ENOTFOUND && !q->wrong)
			q->wrong = status;
		ask_next(q);
	}
}

static void turn(struct asking *a)
{
	ares_socket_t sockets[SOCKETS];
	struct pollfd p[SOCKETS];
	int bits = ares_getsock(a->channel, sockets, SOCKETS);
	struct timeval most = { 0, TURN_MS * 1000 }, tv = most;
	nfds_t n = 0;

	for (int i = 0; i < SOCKETS; i++) {
		short events = (short)((ARES_GETSOCK_READABLE(bits, i) ? POLLIN : 0) | (ARES_GETSOCK_WRITABLE(bits, i) ? POLLOUT : 0));
		if (events)
			p[n++] = (struct pollfd){ sockets[i], events, 0 };
	}
	const struct timeval *wait = ares_timeout(a->channel, &most, &tv);
	poll(p, n, (int)(wait->tv_sec * 1000 + (wait->tv_usec + 999) / 1000));
	ares_process_fd(a->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); /* what timed out */
	for (nfds_t i = 0; i < n; i++)
		if (p[i].revents)
			ares_process_fd(a->channel, p[i].revents & ~POLLOUT ? p[i].fd : ARES_SOCKET_BAD,
					p[i].revents & POLLOUT ? p[i].fd : ARES_SOCKET_BAD);
}

/* "[::1]:53,10.0.0.1:53" */
static void put_servers(const struct dns_conf *c, struct buf *out)
{
	unsigned char address[sizeof(struct in6_addr)];
	for (size_t i = 0; i < c->n_servers; i++) {
		const char *s = c->servers[i], *form = NULL;
		if (inet_pton(AF_INET, s, address) == 1)
			form = "%s%s:%u";
		else if (inet_pton(AF_INET6, s, address) == 1)
			form = "%s[%s]:%u";
		if (form)
			buf_printf(out, form, out->len ? "," : "", s, c->port);
	}
}

static int open_channel(struct asking *a, const struct dns_conf *c, struct err *e)
{
	static char lookups[] = "b", nowhere[] = "/dev/null";
	struct ares_options o = { .flags = ARES_FLAG_EDNS | ARES_FLAG_NOSEARCH, .timeout = c->timeout_ms, .tries = c->attempts,
				  .ndots = 0, .lookups = lookups, .ednspsz = UDP_BYTES, .resolvconf_path = nowhere };
	struct buf servers = { 0 };
	put_servers(c, &servers);
	if (!servers.len) {
		buf_free(&servers);
		return err_set(e, ERR_BAD_DATA, "no nameserver is an IP address (\"%s\")", c->servers[0]);
	}
	int rc = ares_init_options(&a->channel, &o, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
				   ARES_OPT_LOOKUPS | ARES_OPT_EDNSPSZ | ARES_OPT_RESOLVCONF | ARES_OPT_NOROTATE);
	if (!rc) {
		rc = ares_set_servers_ports_csv(a->channel, servers.ptr);
		if (rc)
			ares_destroy(a->channel);
	}
	buf_free(&servers);
	return rc ? err_set(e, ERR_INTERNAL, "c-ares: %s", ares_strerror(rc)) : 0;
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void start_library(void)
{
	ares_library_init(ARES_LIB_INIT_ALL);
}

int dns_ask(const struct dns_questions *q, struct err *e)
{
	struct asking a = { .q = q, .left = q->n };
	pthread_once(&library_once, start_library);
	int rc = open_channel(&a, q->conf, e);
	if (rc)
		return rc;
	struct question *each = xcalloc(q->n, sizeof *each);
	for (size_t i = 0; i < q->n; i++) {
		each[i].a = &a;
		each[i].i = i;
		each[i].n = dns_conf_names(q->conf, q->names[i], each[i].spellings);
		ask_next(&each[i]);
	}
	while (a.left && !atomic_load(q->cancel))
		turn(&a);
	a.over = true;
	ares_destroy(a.channel);
	free(each);
	return a.left ? err_set(e, ERR_CANCELED, "canceled") : 0;
}
