/* SPDX-License-Identifier: Apache-2.0 */
/* What the API and the page show of the other servers that queries ask. */
#ifndef PYRRHA_MODEL_SERVERS_H
#define PYRRHA_MODEL_SERVERS_H

#include "model/labels.h"

enum server_health { SERVER_UNKNOWN, SERVER_UP, SERVER_DOWN, SERVER_HEALTHS };
/* "unknown", "up", "down". */
static inline const char *server_health_text(enum server_health h)
{
	static const char *const texts[SERVER_HEALTHS] = { "unknown", "up", "down" };
	return texts[h];
}

/* Everything is borrowed for the duration of the callback. */
struct status_server {
	const char *url;             /* without user info */
	enum server_health health;   /* of the last question; unknown: none was asked yet */
	const char *last_error;      /* of the last question; "" if it was answered */
	int64_t last_answer_ms;      /* wall clock; 0 = never */
	int64_t last_duration_ms;    /* of the last question */
	const struct labels *external_labels; /* NULL = not known yet */
	uint64_t calls, failures, bytes; /* questions, those without an answer, bytes received */
	uint64_t dictionary_bytes;   /* memory of the names and stacks that are kept of its answers */
};

struct status_servers {
	/* In the order of the configuration. No lock is held meanwhile. */
	void (*each)(struct status_servers *s, void (*one)(void *arg, const struct status_server *x), void *arg);
};

#endif
