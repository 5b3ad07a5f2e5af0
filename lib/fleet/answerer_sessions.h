/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionaries that an answerer translates answers into, one per session of an asker. A session has a random id, so that no session of an earlier process of this
 * server is mistaken for it, and is only found by the asker that it was made for. Those that were not used for the longest make room. One in use stays until its last
 * question leaves. As of views, an asker that has more than a quarter of all makes room itself. Any thread. */
#ifndef PYRRHA_FLEET_ANSWERER_SESSIONS_H
#define PYRRHA_FLEET_ANSWERER_SESSIONS_H

#include "fleet/dictionary.h"

/* Fields but `id` and `dictionary` are the table's. */
struct answerer_session {
	uint64_t id;                 /* above 0 */
	struct fleet_dictionary_out *dictionary;
	uint64_t asker;              /* hash of the asker's name */
	unsigned users;              /* questions that use it now */
	bool listed;
	uint64_t turn;               /* counts up with each use of any session: the smallest was not used for the longest */
	int64_t used_ms;             /* clock_mono_ms, when a question left it last */
	size_t bytes;                /* of the dictionary, then or when it was tidied up */
};

struct answerer_sessions;

/* max_bytes: of all dictionaries. Returns owned. */
struct answerer_sessions *answerer_sessions_new(size_t max_bytes);
/* No session may be in use. */
void answerer_sessions_free(struct answerer_sessions *t);
/* The asker's session with this id, or a new one with an empty dictionary: id is 0 or unknown, or its dictionary takes more than a quarter of max_bytes. The
 * caller uses it, until answerer_sessions_leave. */
struct answerer_session *answerer_sessions_enter(struct answerer_sessions *t, uint64_t id, uint64_t asker);
void answerer_sessions_leave(struct answerer_sessions *t, struct answerer_session *x);
/* Gives up sessions that no question used since before_ms (clock_mono_ms); the others give up what they have about dictionaries of storage that they did
 * not need since then, with their references to those. */
void answerer_sessions_tidy(struct answerer_sessions *t, int64_t before_ms);
size_t answerer_sessions_count(struct answerer_sessions *t);

#endif
