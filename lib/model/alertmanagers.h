/* SPDX-License-Identifier: Apache-2.0 */
/* What the API shows of Alertmanagers: the active ones, and those that were discovered and dropped by
 * relabelling. */
#ifndef PYRRHA_MODEL_ALERTMANAGERS_H
#define PYRRHA_MODEL_ALERTMANAGERS_H

#include "base/view.h"

struct status_alertmanagers {
	/* The URL that each is told at, or would be; without secrets. A lock of the notifier is held meanwhile. */
	void (*each)(struct status_alertmanagers *s, bool dropped, void (*url)(void *arg, struct view url), void *arg);
};

#endif
