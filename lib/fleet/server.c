/* SPDX-License-Identifier: Apache-2.0 */
/* Another server as a peer: made, ended, probed. */
#include "fleet/server.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/redact.h"
#include "fleet/server_internal.h"

static struct fleet_server *server_of(struct fleet_peer *p)
{
	return (struct fleet_server *)(void *)((char *)p - offsetof(struct fleet_server, peer));
}

static struct fleet_peer *server_ref_peer(struct fleet_peer *p)
{
	return &server_ref(server_of(p))->peer;
}

static void server_unref_peer(struct fleet_peer *p)
{
	server_unref(server_of(p));
}

static const struct fleet_peer_ops server_ops = {
	.open = server_view_open,
	.close = server_view_close,
	.start = server_ask_start,
	.finish = server_ask_finish,
	.wait = server_ask_has_work,
	.cancel = server_ask_cancel,
	.labels = server_view_labels,
};

/* Of the protocol. A part takes up to about 90 bytes of a question, so that fewer go into FLEET_QUESTION_MAX. */
static const struct fleet_call_max server_max = { FLEET_REFS_MAX, FLEET_TILES_MAX, FLEET_QUESTION_MAX / 128, FLEET_GROUPS_MAX };

/* The URL without the slashes at its end, and without user info. */
static char *server_name(struct view url)
{
	struct buf b = { 0 };
	redact_user_info(url, false, "", &b);
	return buf_take(&b, NULL);
}

struct fleet_server *fleet_server_new(const struct fleet_server_options *o)
{
	struct fleet_server *s = NEW(struct fleet_server);
	struct view url = view_of(o->url);
	while (url.len && url.ptr[url.len - 1] == '/')
		url.len--;
	s->name = server_name(url);
	s->peer = (struct fleet_peer){ .ops = &server_ops, .name = s->name, .ref = server_ref_peer, .unref = server_unref_peer, .max = &server_max };
	s->loop = o->loop;
	s->client = fetch_client_ref(o->client);
	s->ask_url = xasprintf("%.*s" FLEET_PATH, VIEW_ARG(url));
	s->timeout_ms = o->timeout_ms;
	s->max_answer_bytes = o->max_answer_bytes ? o->max_answer_bytes : SERVER_MAX_ANSWER;
	s->dictionary = fleet_dictionary_in_new(o->max_dictionary_bytes ? o->max_dictionary_bytes : SERVER_MAX_DICTIONARY);
	s->refs = 1;
	mutex_init(&s->lock, LOCK_LEAF, "fleet_server");
	return s;
}

struct fleet_peer *fleet_server_peer(struct fleet_server *s)
{
	return &s->peer;
}

int fleet_server_probe(struct fleet_server *s, int64_t timeout_ms, struct err *e)
{
	const struct fleet_call call = { .op = FLEET_OPEN };
	const struct source_limits lim = { .deadline_mono_ns = clock_mono_ns() + timeout_ms * 1000000 };
	struct fleet_result result = { 0 };
	struct fleet_peer_view *v = server_view_open(&s->peer);
	int rc = server_ask_finish(server_ask_start(v, &call, &lim), &result, e);
	if (!rc)
		fleet_result_release(&result);
	server_view_close(v);
	return rc;
}
