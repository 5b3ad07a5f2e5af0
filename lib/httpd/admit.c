/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a request is admitted, when its headers have arrived. So the body of an unauthorized client is never stored. Three
 * have to agree: the rate, the client's certificate, the login. A request whose password must be checked is suspended meanwhile;
 * libmicrohttpd then reports its headers once more. */
#include "base/clock.h"
#include "httpd/internal.h"
#include "httpd/login.h"

static const char *name_of(unsigned right)
{
	switch (right) {
	case HTTPD_RIGHT_READ: return "read";
	case HTTPD_RIGHT_WRITE: return "write";
	case HTTPD_RIGHT_READ_WRITE: return "read and write";
	default: return "admin";
	}
}

static void refuse_login(struct httpd_request *rq)
{
	const struct login_waiter *w = &rq->login;
	switch (w->answer) {
	case LOGIN_FORBIDDEN:
		httpd_text(rq, MHD_HTTP_FORBIDDEN, "this login may not do that: it has not the right \"%s\"", name_of(w->right));
		break;
	case LOGIN_LATER:
		httpd_text(rq, MHD_HTTP_TOO_MANY_REQUESTS, "too many logins from this address failed; try again in %u s", w->retry_s);
		httpd_set_header(rq, MHD_HTTP_HEADER_RETRY_AFTER, "%u", w->retry_s);
		break;
	case LOGIN_BUSY:
		httpd_text(rq, MHD_HTTP_SERVICE_UNAVAILABLE, "too many logins wait to be checked; try again");
		httpd_set_header(rq, MHD_HTTP_HEADER_RETRY_AFTER, "%u", w->retry_s);
		break;
	default:
		httpd_text(rq, MHD_HTTP_UNAUTHORIZED, "Unauthorized");
		httpd_set_header(rq, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "%s", login_challenge(rq->httpd->login));
	}
}

void httpd_admit_refuse(struct httpd_request *rq)
{
	if (rq->refused == REFUSED_BY_RATE)
		httpd_rate_refuse(rq);
	else if (rq->refused == REFUSED_BY_CERTIFICATE)
		httpd_client_cert_refuse(rq);
	else
		refuse_login(rq);
}

bool httpd_admit_swallow(struct httpd_request *rq, size_t n)
{
	rq->swallowed += n;
	return rq->swallowed <= HTTPD_SWALLOWED;
}

void httpd_admit_answered(struct login_waiter *w)
{
	struct httpd_request *rq = (struct httpd_request *)(void *)((char *)w - offsetof(struct httpd_request, login));
	MHD_resume_connection(rq->connection); /* from here on rq is the loop's */
}

static enum login_answer ask(struct httpd_request *rq, bool queue)
{
	/* A path without a route needs a login with any right, because the answer reveals which routes exist. */
	unsigned right = rq->route ? rq->route->right : HTTPD_RIGHT_ALL;
	return login_ask(rq->httpd->login, httpd_header(rq, MHD_HTTP_HEADER_AUTHORIZATION), slot_from(rq->slot), right, queue, &rq->login);
}

static enum refused by_login(const struct httpd_request *rq)
{
	return rq->login.answer == LOGIN_PASS ? REFUSED_NOT : REFUSED_BY_LOGIN;
}

/* By one web configuration. */
static bool admit(struct httpd_request *rq)
{
	if (!httpd_rate_allows(rq, clock_mono_ns()))
		rq->refused = REFUSED_BY_RATE;
	else if (!httpd_client_cert_does(rq))
		rq->refused = REFUSED_BY_CERTIFICATE;
	if (rq->refused)
		return true;
	if (ask(rq, false) == LOGIN_ASKED) {
		rq->login_asked = true;
		slot_set_phase(rq->slot, SLOT_WORK);
		MHD_suspend_connection(rq->connection); /* before: the answer may come at once */
		if (ask(rq, true) != LOGIN_ASKED)
			MHD_resume_connection(rq->connection);
		return false;
	}
	rq->refused = by_login(rq);
	return true;
}

bool httpd_admit(struct httpd_request *rq)
{
	if (rq->login_asked || (rq->route && rq->route->right == HTTPD_RIGHT_NONE_NEEDED)) {
		rq->refused = by_login(rq);
		return true;
	}
	httpd_web_hold(rq);
	bool known = admit(rq);
	httpd_web_release(rq);
	return known;
}
