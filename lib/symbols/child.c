/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/view.h"

enum { LOOK_MS = 20 };

#define CREDIT_S 60
#define RESUME_NS 50e6               /* not for less */

/* Says to the parent that the child may be stopped from now on. */
static void say_ready(int fd)
{
	char ready = 1;

	while (write(fd, &ready, 1) < 0 && errno == EINTR) {
		/* again */
	}
	close(fd);
}

/* Returns also if the child has ended. */
static void await_ready(int fd)
{
	char ready;

	while (read(fd, &ready, 1) < 0 && errno == EINTR) {
		/* again */
	}
	close(fd);
}

pid_t child_start(const char *what, struct err *e)
{
	pid_t parent = getpid(), pid;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return err_errno(e, errno, "cannot start %s", what);
	pid = fork();
	if (pid < 0) {
		int why = errno;
		close(ends[0]);
		close(ends[1]);
		return err_errno(e, why, "cannot start %s", what);
	}
	if (pid > 0) {
		close(ends[1]);
		await_ready(ends[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it ended before the child had asked */
		_exit(1);
	close(ends[0]);
	say_ready(ends[1]);
	return 0;
}

void child_pace_init(struct child_pace *p, double share)
{
	*p = (struct child_pace){ .share = share, .credit_ns = share * CREDIT_S * 1e9, .at_ns = clock_mono_ns() };
}

/* A child under way. */
struct running {
	pid_t pid;
	bool stopped;
	int64_t used_ns;             /* CPU time */
};

static int64_t cpu_ns(pid_t pid, int64_t otherwise)
{
	struct timespec ts;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) || clock_gettime(id, &ts))
		return otherwise;
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void keep_pace(struct child_pace *p, struct running *r)
{
	int64_t now = clock_mono_ns(), used = MAX(cpu_ns(r->pid, r->used_ns), r->used_ns), some = used - r->used_ns;
	double most = p->share * CREDIT_S * 1e9;

	r->used_ns = used;
	atomic_fetch_add(&p->spent_ns, (unsigned long long)some);
	if (!p->share)
		return;
	p->credit_ns = MIN(p->credit_ns + (double)(now - p->at_ns) * p->share, most) - (double)some;
	p->at_ns = now;
	if (!r->stopped && p->credit_ns < 0)
		r->stopped = kill(r->pid, SIGSTOP) == 0;
	else if (r->stopped && p->credit_ns > MIN(0.1 * most, RESUME_NS))
		r->stopped = kill(r->pid, SIGCONT) != 0;
}

int child_wait(pid_t pid, int64_t deadline_ms, const atomic_bool *stop, struct child_pace *pace, const char *what, int *ret_status,
	       struct err *e)
{
	struct running r = { .pid = pid };
	int64_t until = clock_mono_ms() + deadline_ms, looked = clock_mono_ms();

	for (pid_t got; (got = waitpid(pid, ret_status, WNOHANG)) != pid; clock_sleep_ms(LOOK_MS)) {
		bool stopped = stop && atomic_load(stop);
		int64_t now = clock_mono_ms();
		if (got < 0 && errno != EINTR)
			return err_errno(e, errno, "cannot wait for %s", what);
		until += r.stopped ? now - looked : 0;
		looked = now;
		if (pace)
			keep_pace(pace, &r);
		if (!stopped && now <= until)
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

void child_limit_memory(int resource, rlim_t bytes)
{
	/* size resident shared text lib data dt, in pages */
	const int field = resource == RLIMIT_DATA ? 5 : 0;
	unsigned long long pages = 0;
	char text[256], *at = text;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	for (int i = 0; i <= field; i++)
		pages = strtoull(at, &at, 10);
	rlim_t max = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
	setrlimit(resource, &(struct rlimit){ max, max });
}
