/* SPDX-License-Identifier: Apache-2.0 */
/* For kinds of discovery that ask again every interval: a thread that does so, at once the first time. The result of a refresh is
 * passed on only when it has succeeded, as a whole: its groups, the deletion of groups that were not emitted again, the end of a
 * problem, and ready. One that fails changes nothing but the problem. Both are counted by kind. */
#ifndef PYRRHA_DISCOVERY_REFRESH_H
#define PYRRHA_DISCOVERY_REFRESH_H

#include <stdatomic.h>

#include "discovery/discovery.h"

struct refresh_config {
	const char *kind;     /* for metrics: "http" */
	int64_t interval_ms;  /* from the start of one refresh to the start of the next; at least 100 */
	/* Emits groups; ready and problem are not its to call. Should end within a second of *cancel being set; what it returns
	 * then does not matter. 0 and *e set: its groups are passed on, and a problem is reported. (If one of several names has no
	 * answer, it emits that name's last groups again.) */
	int (*refresh)(void *state, const struct discovery_emit *emit, const atomic_bool *cancel, struct err *e);
	/* Frees the state, also when refresh_start fails; may be NULL. */
	void (*release)(void *state);
};

/* Takes state. r is copied. */
int refresh_start(struct discovery_provider **ret, const struct discovery_ops *ops, const struct refresh_config *r, void *state,
		  const struct discovery_emit *emit, struct err *e) MUST_USE;
/* For the ops of the kind: stop and cancel. */
void refresh_stop(struct discovery_provider *p);
void refresh_cancel(struct discovery_provider *p);

#endif
