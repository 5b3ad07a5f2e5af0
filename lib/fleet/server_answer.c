/* SPDX-License-Identifier: Apache-2.0 */
/* The response of HTTP: an answer of the protocol, or an error whose message says what to do. An error by which the server's share is missing has one
 * of the codes that peer.h lists. The answer's cost and its lacks are added to the limits of the question. */
#include <string.h>

#include "base/units.h"
#include "fleet/server_internal.h"

#define SAID_LEN 200
#define TIME_MAX_MS INT64_C(253402300799999) /* the end of the year 9999 */

/* The error that a body tells, as the API's JSON does, or the beginning of its text; without control characters. */
static const char *response_said(const struct fleet_post *p, char said[SAID_LEN])
{
	struct view body = buf_view(&p->answer);
	const struct view key = VIEW("error\":\"");
	const char *at = memmem(body.ptr, body.len, key.ptr, key.len);
	bool json = at != NULL;
	size_t n = 0;
	if (json)
		body = view_make(at + key.len, body.len - (size_t)(at + key.len - body.ptr));
	for (size_t i = 0; i < body.len && n < SAID_LEN - 1; i++) {
		char c = body.ptr[i];
		if (json && c == '\\' && i + 1 < body.len)
			c = body.ptr[++i];
		else if (json ? c == '"' : c == '\n' || c == '\r')
			break;
		said[n++] = (unsigned char)c < ' ' || (unsigned char)c >= 0x7f ? '?' : c;
	}
	said[n] = 0;
	return n ? said : "(no text)";
}

static int response_check_status(const struct fleet_post *p, struct err *e)
{
	char said[SAID_LEN];
	switch (p->status) {
	case 200:
		return 0;
	case 401:
	case 403:
		return err_set(e, ERR_DENIED, "refused the question with HTTP %d, %s: the login that query.servers has for it needs the right `read` there",
			       p->status, response_said(p, said));
	case 404:
	case 405:
		return err_set(e, ERR_UNAVAILABLE, "does not answer questions of other servers (HTTP %d at " FLEET_PATH
			       "): is it older, or the path of its URL another?", p->status);
	case 413:
		return err_set(e, ERR_UNAVAILABLE, "refused the question as too large (HTTP 413): ask for fewer series, or raise the limit of the "
			       "proxy before it");
	case 429:
	case 503:
		return err_set(e, ERR_UNAVAILABLE, "cannot answer now, HTTP %d: %s", p->status, response_said(p, said));
	default:
		return err_set(e, ERR_UNAVAILABLE, "answered with HTTP %d: %s", p->status, response_said(p, said));
	}
}

static int response_check_transport(const struct fleet_post *p, struct err *e)
{
	char size[24];
	switch (p->err.code) {
	case ERR_NONE:
		return 0;
	case ERR_LIMIT:
		return err_set(e, ERR_CORRUPT, "sent more than the %s that its answer may have", units_format_size(p->max_bytes, size));
	case ERR_TIMEOUT:
	case ERR_DENIED:
		return err_set(e, p->err.code, "%s", p->err.msg);
	default:
		return err_set(e, ERR_UNAVAILABLE, "%s", p->err.msg);
	}
}

/* The type without parameters. */
static bool response_is_ours(const char *content_type)
{
	struct view rest = view_of(content_type), type = view_cut(&rest, ';');
	while (type.len && type.ptr[type.len - 1] == ' ')
		type.len--;
	return view_eq_nocase(type, VIEW(FLEET_WIRE_TYPE));
}

static int response_check(const struct fleet_post *p, struct err *e)
{
	int rc = response_check_transport(p, e);
	if (!rc)
		rc = response_check_status(p, e);
	if (!rc && !response_is_ours(p->content_type))
		rc = err_set(e, ERR_CORRUPT, "answered with the type \"%.100s\" instead of " FLEET_WIRE_TYPE ": does its URL lead to something else?",
			     p->content_type);
	return rc;
}

int server_answer_read(const struct fleet_post *p, struct fleet_server *s, const struct fleet_call *call, const struct fleet_within *within, struct arena *strings,
		       struct fleet_answer *ret, struct fleet_result *result, struct err *e)
{
	server_note_received(s, p->bytes_received);
	int rc = response_check(p, e);
	if (!rc)
		rc = fleet_answer_decode_within(ret, result, buf_view(&p->answer), call, s->dictionary, strings, within, e);
	if (rc != -ERR_LIMIT)
		return rc;
	e->code = ERR_UNAVAILABLE; /* the share of this server is missing, the question goes on */
	return err_wrap(e, "its answer needs too much memory");
}

/* ---- what the answer says ---- */

/* max_samples: that the question allowed; 0 = any number. A result beyond it is a lie, and must not fail the whole question. An error may be beyond it: the
 * server noticed the limit when it had passed it. */
static int answer_count(const struct fleet_answer *a, const struct source_limits *lim, uint64_t max_samples, struct err *e)
{
	uint64_t samples = max_samples ? MIN(a->samples, max_samples) : a->samples;
	if (samples < a->samples && !a->err.code)
		return err_set(e, ERR_CORRUPT, "says that it read %llu samples, of %llu that it was allowed", (unsigned long long)a->samples,
			       (unsigned long long)max_samples);
	if (lim->stats) {
		atomic_fetch_add(&lim->stats->chunks, a->chunks);
		atomic_fetch_add(&lim->stats->samples, samples);
		atomic_fetch_add(&lim->stats->bytes, a->bytes);
		atomic_fetch_add(&lim->stats->bucket_requests, a->bucket_requests);
		atomic_fetch_add(&lim->stats->bucket_bytes, a->bucket_bytes);
	}
	uint64_t before = lim->samples_read ? atomic_fetch_add(lim->samples_read, samples) : 0;
	if (lim->max_samples && (before > lim->max_samples || samples > lim->max_samples - before))
		return err_set(e, ERR_LIMIT, "the query reads more than %llu samples (--query.max-samples): ask for less or raise it",
			       (unsigned long long)lim->max_samples);
	return 0;
}

/* Whether something is lacking in a range. The range is the server's word: its ends are brought into what clocks can spell. */
static bool lacks_met(const struct fleet_lacks *l, int64_t *ret_from, int64_t *ret_until)
{
	*ret_from = MIN(MAX(l->from_ms, 0), TIME_MAX_MS);
	*ret_until = MAX(MIN(l->until_ms, TIME_MAX_MS), *ret_from);
	return l->met;
}

static int answer_lacks(const struct fleet_answer *a, const struct fleet_server *s, const struct source_limits *lim, struct err *e)
{
	int64_t from, until;
	if (!lim->damage)
		return a->damaged.met || a->absent.met ? err_set(e, ERR_CORRUPT, "has damaged data in the range") : 0;
	if (lacks_met(&a->damaged, &from, &until))
		source_missing_add(lim->damage, s->name, "has damaged data there", from, until);
	if (lacks_met(&a->absent, &from, &until))
		source_missing_add(lim->damage, s->name, "could not read its bucket there", from, until);
	if (lacks_met(&a->doubled, &from, &until))
		source_doubled_add(lim->damage, from, until);
	return 0;
}

/* The server's error as one of peer.h. A server that is stopped cancels its work: then its share is missing, unless the question was canceled here. */
static int answer_error(const struct fleet_answer *a, const struct fleet_server *s, const struct source_limits *lim, struct err *e)
{
	switch (a->err.code) {
	case ERR_LIMIT:
	case ERR_EXECUTION:
		return err_set(e, a->err.code, "server %s: %s", s->name, a->err.msg);
	case ERR_BAD_DATA:
	case ERR_TIMEOUT:
	case ERR_CORRUPT:
	case ERR_IO:
	case ERR_DENIED:
	case ERR_INTERNAL:
		return err_set(e, a->err.code, "%s", a->err.msg);
	case ERR_CANCELED:
		if (lim->canceled && atomic_load(lim->canceled))
			return err_set(e, ERR_CANCELED, "%s", a->err.msg);
		return err_set(e, ERR_UNAVAILABLE, "stopped its work on the question: %s", a->err.msg);
	default:
		return err_set(e, ERR_UNAVAILABLE, "%s", a->err.msg);
	}
}

int server_answer_account(const struct fleet_answer *a, const struct fleet_server *s, const struct source_limits *lim, uint64_t max_samples,
			  struct err *e)
{
	int rc = answer_count(a, lim, max_samples, e);
	if (a->err.code)
		return answer_error(a, s, lim, e);
	return rc ? rc : answer_lacks(a, s, lim, e);
}
