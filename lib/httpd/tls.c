/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and TLS. libmicrohttpd sets up a session of GnuTLS before it reports a connection. The session then gets the
 * certificate, the ciphers and the client certificate request of the current web configuration. libmicrohttpd's own, given at its
 * start, never change. The peer keeps that configuration until the session is freed: libmicrohttpd ends the session before it reports
 * the connection's end.
 *
 * All of it runs on the loop thread of the connection's listener. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "httpd/internal.h"
#include "httpd/web_tls.h"

struct peer {
	struct slot *slot;
	int fd;
	gnutls_session_t session;   /* libmicrohttpd's; NULL: plain HTTP */
	struct web_config *begun;   /* with which the handshake was prepared */
	bool spoke;                 /* its first byte is here */
	struct web_config *judge;   /* by which `judged` is; NULL: not yet */
	enum web_client_cert judged;
};

/* ---- plain HTTP to a port of TLS ---- */

/* As Go's server has it, so that a person sees what is wrong. */
static void answer_plain(int fd)
{
	static const char text[] = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
				   "Client sent an HTTP request to an HTTPS server.\n";
	char sink[4096];
	for (int i = 0; i < 64 && recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0; i++)
		; /* with unread bytes left, the system would drop the answer */
	send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_WR);
}

/* A record of TLS does not begin with a letter, a request of HTTP does. */
static ssize_t pull(gnutls_transport_ptr_t at, void *to, size_t n)
{
	struct peer *p = at;
	ssize_t k = recv(p->fd, to, n, 0);
	if (k > 0 && !p->spoke) {
		p->spoke = true;
		char c = *(const char *)to;
		if (c >= 'A' && c <= 'Z') {
			answer_plain(p->fd);
			gnutls_transport_set_errno(p->session, ECONNRESET);
			return -1;
		}
	}
	if (k < 0)
		gnutls_transport_set_errno(p->session, errno);
	return k;
}

static int pull_wait(gnutls_transport_ptr_t at, unsigned ms)
{
	const struct peer *p = at;
	struct pollfd f = { .fd = p->fd, .events = POLLIN };
	return poll(&f, 1, ms == GNUTLS_INDEFINITE_TIMEOUT ? -1 : (int)ms);
}

/* ---- the connection ---- */

/* libmicrohttpd wants a certificate. A session that was not set up by us has no certificate, and the handshake fails. */
int httpd_tls_no_certificate(gnutls_session_t s, const gnutls_datum_t *req, int n_req, const gnutls_pk_algorithm_t *pk, int n_pk,
			     gnutls_pcert_st **pcert, unsigned *n_pcert, gnutls_privkey_t *key)
{
	(void)s, (void)req, (void)n_req, (void)pk, (void)n_pk, (void)pcert, (void)n_pcert, (void)key;
	return -1;
}

static void begin_tls(struct peer *p, struct web_config *w)
{
	if (!w || !w->tls || web_tls_begin(w->tls, p->session, NULL)) {
		web_config_unref(w);
		return;
	}
	p->begun = w;
	gnutls_transport_set_ptr2(p->session, p, (gnutls_transport_ptr_t)(intptr_t)p->fd);
	gnutls_transport_set_pull_function(p->session, pull);
	gnutls_transport_set_pull_timeout_function(p->session, pull_wait);
}

struct peer *httpd_peer_new(struct http_listener *l, struct MHD_Connection *c)
{
	struct peer *p = NEW(struct peer);
	/* Each call may answer in the same place. */
	p->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	p->slot = slots_add(l->slots, p->fd, MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
	if (!l->httpd->tls)
		return p;
	p->session = MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
	begin_tls(p, httpd_web_config(l->httpd));
	return p;
}

void httpd_peer_free(struct peer *p)
{
	slots_remove(p->slot);
	web_config_unref(p->begun);
	web_config_unref(p->judge);
	free(p);
}

struct slot *httpd_peer_slot(const struct peer *p)
{
	return p->slot;
}

/* ---- the client's certificate ---- */

bool httpd_client_cert_does(struct httpd_request *rq)
{
	struct peer *p = rq->peer;
	if (!rq->web)
		return true;
	if (p->judge != rq->web) { /* a certificate that is no longer trusted does not outlive that in an open connection */
		web_config_unref(p->judge);
		p->judge = web_config_ref(rq->web);
		p->judged = web_tls_judge(rq->web, p->session);
	}
	return p->judged == WEB_CERT_NOT_WANTED || p->judged == WEB_CERT_GOOD;
}

void httpd_client_cert_refuse(struct httpd_request *rq)
{
	static const char *const why[] = {
		[WEB_CERT_MISSING] = "a client certificate is wanted",
		[WEB_CERT_UNTRUSTED] = "the client certificate is not trusted here, out of its time, or not for clients",
		[WEB_CERT_OTHER_NAME] = "the client certificate has none of the allowed names",
	};
	httpd_metrics_refused("certificate");
	httpd_text(rq, MHD_HTTP_UNAUTHORIZED, "Unauthorized: %s", why[rq->peer->judged]);
	httpd_set_header(rq, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Certificate");
	if (rq->peer->begun != rq->web) /* the next handshake may ask for what this one did not */
		httpd_set_header(rq, MHD_HTTP_HEADER_CONNECTION, "close");
}
