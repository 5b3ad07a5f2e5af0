/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/child.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

#include "base/clock.h"

enum { LOOK_MS = 20 };

int child_wait(pid_t pid, int64_t deadline_ms, const atomic_bool *stop, const char *what, int *ret_status, struct err *e)
{
	int64_t until = clock_mono_ms() + deadline_ms;

	for (pid_t got; (got = waitpid(pid, ret_status, WNOHANG)) != pid; clock_sleep_ms(LOOK_MS)) {
		bool stopped = stop && atomic_load(stop);
		if (got < 0 && errno != EINTR)
			return err_errno(e, errno, "cannot wait for %s", what);
		if (!stopped && clock_mono_ms() <= until)
			continue;
		kill(pid, SIGKILL);
		while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR) {
			/* it ends */
		}
		return stopped ? err_set(e, ERR_CANCELED, "%s was stopped", what)
			       : err_set(e, ERR_TIMEOUT, "%s took more than %lld s", what, (long long)deadline_ms / 1000);
	}
	return 0;
}
