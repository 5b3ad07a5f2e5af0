/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files.h"

#include <sys/resource.h>

#include "base/attrs.h"

#define ENOUGH ((rlim_t)1 << 20)

void files_raise_limit(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= MIN(r.rlim_max, ENOUGH))
		return;
	r.rlim_cur = MIN(r.rlim_max, ENOUGH);
	setrlimit(RLIMIT_NOFILE, &r);
}
