/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of the bucket that cannot be read. The server goes on without them and says what that means: in the log, on the page, by a metric. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tsdb/transfer/transfer_private.h"

#define DAMAGED_SAID 10    /* objects that the log names, one by one */
#define DAMAGED_MOST 10000 /* objects that are told apart */

void damaged_note(struct transfer *t, const char *name, const char *todo, const struct err *why)
{
	mutex_lock(&t->status_lock);
	bool known = t->damaged.n >= DAMAGED_MOST;
	for (size_t i = 0; i < t->damaged.n && !known; i++)
		known = !strcmp(t->damaged.v[i], name);
	if (!known)
		vec_push(&t->damaged, xstrdup(name));
	size_t n = t->status.damaged_objects = t->damaged.n;
	if (!known && n == 1)
		snprintf(t->damaged_first, sizeof t->damaged_first, "%s: %s", name, todo);
	mutex_unlock(&t->status_lock);
	if (!known && n <= DAMAGED_SAID)
		LOG_ERROR("msg", "an object in the bucket cannot be read and is passed over", "object", name, "todo", todo, "err", why->msg);
	else if (!known && n == DAMAGED_SAID + 1)
		LOG_ERROR("msg", "more objects in the bucket cannot be read: pyrtool bucket verify lists them");
}

void damaged_release(struct transfer *t)
{
	for (size_t i = 0; i < t->damaged.n; i++)
		free(t->damaged.v[i]);
	vec_free(&t->damaged);
}
