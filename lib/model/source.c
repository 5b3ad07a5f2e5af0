/* SPDX-License-Identifier: Apache-2.0 */
#include "model/source.h"

#include "base/clock.h"

int source_limits_check(const struct source_limits *lim, struct err *e)
{
	if (lim->canceled && atomic_load_explicit(lim->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "the query was canceled");
	if (lim->deadline_mono_ns && clock_mono_ns() > lim->deadline_mono_ns)
		return err_set(e, ERR_TIMEOUT, "the query took longer than its timeout: ask for less, or raise the request's timeout and "
			       "--query.timeout");
	return 0;
}
