/* SPDX-License-Identifier: Apache-2.0 */
/* The helper is this program, forked when first needed. It gets a question and a descriptor to copy to over a socket,
 * and ends when the socket closes. A helper that hangs in the kernel may not even end at once. It is killed, forgotten, and reaped
 * once it has ended; while HUNG_MAX are ending no new one is started. */
#include "agent/names/perfmap_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define HELPER_MEMORY ((rlim_t)256 << 20)
#define HUNG_MAX 8
#define PENALTIES 64
#define PENALTY_MS 60000

const char *const perfmap_result_names[PERFMAP_RESULTS] = {
	[PERFMAP_READ] = "read", [PERFMAP_ABSENT] = "absent", [PERFMAP_NOT_REGULAR] = "not_regular",
	[PERFMAP_OTHER_OWNER] = "other_owner", [PERFMAP_TOO_LARGE] = "too_large", [PERFMAP_TIMEOUT] = "timeout",
	[PERFMAP_FAILED] = "failed", [PERFMAP_SKIPPED] = "skipped",
};

struct map_question {
	uint64_t max;
	struct perfmap_file file;
	uint32_t pid;
};

struct reply {
	struct perfmap_file file;
	enum perfmap_result result;
};

struct penalty {
	uint32_t pid;
	int64_t until_mono_ms, length_ms;
};

struct perfmap_helper {
	pid_t pid;                   /* 0 = none */
	int socket;
	pid_t hung[HUNG_MAX];
	unsigned n_hung;
	struct penalty penalties[PENALTIES]; /* a ring */
	unsigned next_penalty;
	uint64_t counts[PERFMAP_RESULTS];
};

/* ---- in the helper ---- */

static char buffer[65536];

/* A line of numbers, each with a tab before it. */
static uint32_t last_number(const char *at)
{
	uint32_t n = 0;
	for (char *end; *at == '\t'; at = end)
		n = (uint32_t)strtoul(at + 1, &end, 10);
	return n;
}

/* The process's number in its own pid namespace (the last of NSpid) and the user that its files belong to. */
static bool who_is(uint32_t pid, uint32_t *ret_own, uint32_t *ret_uid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%u/status", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buffer, sizeof buffer - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	buffer[n] = 0;
	const char *uid = strstr(buffer, "\nUid:"), *ns = strstr(buffer, "\nNSpid:");
	uint32_t fsuid = uid ? last_number(uid + 5) : 0; /* real, effective, saved, of files */
	if (!uid)
		return false;
	*ret_own = ns ? last_number(ns + 7) : pid;
	*ret_uid = fsuid;
	return true;
}

static int open_map(uint32_t pid, uint32_t own)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/%u/root", pid);
	int root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -1;
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	snprintf(name, sizeof name, "/tmp/perf-%u.map", own);
	int fd = (int)syscall(SYS_openat2, root, name, &how, sizeof how);
	int why = errno;
	close(root);
	errno = why;
	return fd;
}

/* Whether the file still has the copied bytes before `at`: a rewritten map may be as long as the old one. */
static bool goes_on(int from, int to, uint64_t at)
{
	char now[64], then[64];
	size_t n = (size_t)MIN(sizeof now, at);
	return pread(from, now, n, (off_t)(at - n)) == (ssize_t)n && pread(to, then, n, (off_t)(at - n)) == (ssize_t)n &&
	       memcmp(now, then, n) == 0;
}

/* Up to the size that the file has now: one that grows without end ends there. */
static enum perfmap_result copy_bytes(int from, int to, uint64_t size, uint64_t max, uint64_t *at)
{
	uint64_t end = MIN(MIN(size, max), *at + PERFMAP_BYTES_AT_ONCE);
	while (*at < end) {
		ssize_t n = pread(from, buffer, (size_t)MIN((uint64_t)sizeof buffer, end - *at), (off_t)*at);
		if (n == 0)
			break;
		if (n < 0 || pwrite(to, buffer, (size_t)n, (off_t)*at) != n)
			return PERFMAP_FAILED;
		*at += (uint64_t)n;
	}
	return size > max ? PERFMAP_TOO_LARGE : PERFMAP_READ;
}

static enum perfmap_result answer(const struct map_question *q, int to, struct perfmap_file *f)
{
	uint32_t own, uid;
	struct stat st;
	if (!who_is(q->pid, &own, &uid))
		return PERFMAP_ABSENT;
	int fd = open_map(q->pid, own);
	if (fd < 0) /* ELOOP: a link; ENXIO: a socket, or a FIFO without another end */
		return errno == ELOOP || errno == ENXIO ? PERFMAP_NOT_REGULAR :
		       errno == ENOENT || errno == ENOTDIR || errno == ESRCH ? PERFMAP_ABSENT : PERFMAP_FAILED;
	enum perfmap_result r = fstat(fd, &st) ? PERFMAP_FAILED : !S_ISREG(st.st_mode) ? PERFMAP_NOT_REGULAR :
				st.st_uid != uid ? PERFMAP_OTHER_OWNER : PERFMAP_READ;
	if (r == PERFMAP_READ) {
		if (f->dev != st.st_dev || f->ino != st.st_ino || !goes_on(fd, to, f->copied))
			*f = (struct perfmap_file){ st.st_dev, st.st_ino, 0, true };
		r = copy_bytes(fd, to, (uint64_t)st.st_size, q->max, &f->copied);
	}
	close(fd);
	return r;
}

/* A descriptor comes along. */
static bool receive(int socket, struct map_question *q, int *ret_fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = { q, sizeof *q };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room };
	if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) != sizeof *q)
		return false;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return false;
	memcpy(ret_fd, CMSG_DATA(c), sizeof *ret_fd);
	return true;
}

static NORETURN void helper(int socket)
{
	struct rlimit memory = { HELPER_MEMORY, HELPER_MEMORY }, none = { 0, 0 };
	struct map_question q;
	int to;
	if (dup2(socket, 3) < 0)
		_exit(2);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	prctl(PR_SET_NAME, "perfmap-helper");
	setrlimit(RLIMIT_AS, &memory); /* it asks for none: its buffer is static */
	setrlimit(RLIMIT_CORE, &none);
	while (receive(3, &q, &to)) {
		struct reply r = { .file = q.file };
		r.result = answer(&q, to, &r.file);
		close(to);
		if (send(3, &r, sizeof r, MSG_NOSIGNAL) != sizeof r)
			break;
	}
	_exit(0);
}

/* ---- in the agent ---- */

struct perfmap_helper *perfmap_helper_new(void)
{
	struct perfmap_helper *h = NEW(struct perfmap_helper);
	h->socket = -1;
	return h;
}

static void reap(struct perfmap_helper *h)
{
	for (unsigned i = 0; i < h->n_hung;)
		if (waitpid(h->hung[i], NULL, WNOHANG) == 0)
			i++;
		else
			h->hung[i] = h->hung[--h->n_hung];
}

static void stop(struct perfmap_helper *h)
{
	if (!h->pid)
		return;
	close(h->socket);
	kill(h->pid, SIGKILL);
	h->hung[h->n_hung++] = h->pid;
	h->pid = 0;
	h->socket = -1;
	reap(h);
}

void perfmap_helper_free(struct perfmap_helper *h)
{
	if (!h)
		return;
	stop(h);
	/* Those that can end do so at once; the kernel's init reaps the others. */
	for (int64_t until = clock_mono_ms() + PERFMAP_DEADLINE_MS; h->n_hung && clock_mono_ms() < until; reap(h))
		clock_sleep_ms(1);
	free(h);
}

static bool start(struct perfmap_helper *h)
{
	int pair[2];
	reap(h);
	if (h->pid)
		return true;
	if (h->n_hung >= HUNG_MAX || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	h->pid = fork();
	if (h->pid == 0)
		helper(pair[1]);
	close(pair[1]);
	h->socket = pair[0];
	if (h->pid > 0)
		return true;
	h->pid = 0;
	close(pair[0]);
	return false;
}

static bool ask(struct perfmap_helper *h, const struct map_question *q, int copy)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec io = { (void *)(uintptr_t)q, sizeof *q };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof copy);
	memcpy(CMSG_DATA(c), &copy, sizeof copy);
	return sendmsg(h->socket, &m, MSG_NOSIGNAL) == sizeof *q;
}

/* It is not waiting for anything but a CPU. */
static bool runnable(pid_t pid)
{
	char path[64], text[256] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	const char *paren = n > 0 ? strrchr(text, ')') : NULL;
	return paren && paren[1] && paren[2] == 'R';
}

/* Waits for the answer. On a host with too much to do the helper may miss its deadline without hanging. */
static bool wait_for_answer(struct perfmap_helper *h)
{
	struct pollfd p = { h->socket, POLLIN, 0 };
	int64_t begin = clock_mono_ms(), until = begin + PERFMAP_DEADLINE_MS;
	for (;;) {
		int got = poll(&p, 1, (int)MAX(until - clock_mono_ms(), 0));
		if (got > 0)
			return true;
		if (got < 0 && errno != EINTR)
			return false;
		int64_t now = clock_mono_ms();
		if (now < until)
			continue;
		if (now - begin > PERFMAP_BUSY_MS || !runnable(h->pid))
			return false;
		until = now + 100;
	}
}

static enum perfmap_result hear(struct perfmap_helper *h, struct perfmap_file *f)
{
	struct reply r;
	if (!wait_for_answer(h))
		return PERFMAP_TIMEOUT;
	if (recv(h->socket, &r, sizeof r, 0) != sizeof r || (unsigned)r.result >= PERFMAP_RESULTS) {
		stop(h); /* it died */
		return PERFMAP_FAILED;
	}
	*f = r.file;
	return r.result;
}

static struct penalty *penalty_of(struct perfmap_helper *h, uint32_t pid)
{
	for (unsigned i = 0; i < PENALTIES; i++)
		if (h->penalties[i].pid == pid && pid)
			return &h->penalties[i];
	return NULL;
}

static void punish(struct perfmap_helper *h, uint32_t pid)
{
	struct penalty *p = penalty_of(h, pid);
	if (!p) {
		p = &h->penalties[h->next_penalty++ % PENALTIES];
		*p = (struct penalty){ pid, 0, PENALTY_MS / 2 };
	}
	p->length_ms = MIN(p->length_ms * 2, (int64_t)PENALTY_MS * 60);
	p->until_mono_ms = clock_mono_ms() + p->length_ms;
}

static enum perfmap_result copy_map(struct perfmap_helper *h, const struct map_question *q, int copy, struct perfmap_file *f)
{
	const struct penalty *p = penalty_of(h, q->pid);
	if (p && clock_mono_ms() < p->until_mono_ms)
		return PERFMAP_SKIPPED;
	if (!start(h))
		return PERFMAP_FAILED;
	enum perfmap_result r = ask(h, q, copy) ? hear(h, f) : PERFMAP_FAILED;
	if (r == PERFMAP_TIMEOUT) {
		punish(h, q->pid);
		stop(h);
	}
	return r;
}

enum perfmap_result perfmap_helper_copy(struct perfmap_helper *h, uint32_t pid, int copy, uint64_t max,
					struct perfmap_file *f)
{
	f->begun_anew = false;
	struct map_question q = { max, *f, pid };
	enum perfmap_result r = copy_map(h, &q, copy, f);
	h->counts[r]++;
	return r;
}

const uint64_t *perfmap_helper_counts(const struct perfmap_helper *h)
{
	return h->counts;
}
