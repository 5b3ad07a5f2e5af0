/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/runtime/proc_reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/runtime/read_jobs.h"
#include "base/alloc.h"
#include "base/clock.h"

#define MAPS_MAX 65536u              /* executable mappings */
#define PATHS_BYTES_MAX ((size_t)16 << 20)

struct kept_map {
	struct proc_map map;         /* but for the path */
	size_t path_at;              /* in `text`, with its NUL */
};

struct proc_job {
	struct read_job job;
	char path[64];               /* "": the maps */
	bool ok;
	int fd;                      /* the answer if not `text` was asked for; -1 = none */
	size_t max;                  /* bytes of `text`; 0: a descriptor is asked for */
	struct buf text;
	VEC(struct kept_map) maps;
};

/* ---- the thread ---- */

static void keep_map(void *arg, const struct proc_map *m)
{
	struct proc_job *j = arg;
	struct kept_map k = { *m, j->text.len };

	if (j->maps.n >= MAPS_MAX)
		return;
	buf_put(&j->text, m->path, strlen(m->path) + 1);
	if (!j->text.overflow)
		vec_push(&j->maps, k);
}

static void read_text(struct proc_job *j)
{
	char piece[4096];
	ssize_t n = 1;
	int fd = open(j->path, O_RDONLY | O_CLOEXEC);

	j->ok = fd >= 0 && buf_reserve(&j->text, j->max); /* once: no copy of what may be a secret stays behind */
	while (j->ok && j->text.len < j->max && (n = read(fd, piece, MIN(sizeof piece, j->max - j->text.len))) > 0)
		buf_put(&j->text, piece, (size_t)n);
	explicit_bzero(piece, sizeof piece);
	if (fd >= 0)
		close(fd);
}

static void run(struct read_job *job)
{
	struct proc_job *j = (struct proc_job *)job;

	if (!j->path[0]) {
		j->ok = proc_maps_each(job->pid, keep_map, j);
	} else if (j->max) {
		read_text(j);
	} else {
		j->fd = open(j->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		j->ok = j->fd >= 0;
	}
}

static void release(struct read_job *job)
{
	struct proc_job *j = (struct proc_job *)job;

	if (j->fd >= 0)
		close(j->fd);
	if (j->text.ptr)
		explicit_bzero(j->text.ptr, j->text.len); /* it may be a secret */
	buf_free(&j->text);
	vec_free(&j->maps);
	free(j);
}

/* ---- one for the whole program: the lock is the process's, whoever asks ---- */

static struct {
	pthread_once_t once;
	struct read_jobs *jobs;
	pid_t of;                    /* a child that was forked has no such thread */
	struct mutex lock;           /* guards the others */
	int64_t lost_ms, lost_at_ms; /* what may be lost with waiting yet; when that was */
} reader = { .once = PTHREAD_ONCE_INIT, .lock = MUTEX_INIT(LOCK_LEAF, "lost waits"), .lost_ms = PROC_LOST_MS };

static void end(void)
{
	if (getpid() == reader.of)
		read_jobs_free(reader.jobs);
}

static void begin(void)
{
	static const struct reader_limits limits = { "proc-reader", 1000, PROC_STUCK_MAX, PROC_STUCK_USER_MAX };

	reader.of = getpid();
	reader.jobs = read_jobs_new(&limits);
	atexit(end);
}

static int64_t patience_ms(void)
{
	int64_t now = clock_mono_ms();

	mutex_lock(&reader.lock);
	if (now - reader.lost_at_ms >= 1000) {
		reader.lost_ms = MIN(reader.lost_ms + MIN(now - reader.lost_at_ms, 1000000) / 1000 * PROC_LOST_MS_PER_S, PROC_LOST_MS);
		reader.lost_at_ms = now;
	}
	int64_t ms = MIN(MAX(reader.lost_ms, PROC_WAIT_SHORT_MS), PROC_WAIT_MS);
	mutex_unlock(&reader.lock);
	return ms;
}

static void lost_wait(int64_t ms)
{
	mutex_lock(&reader.lock);
	reader.lost_ms -= MIN(ms, reader.lost_ms);
	mutex_unlock(&reader.lock);
}

static struct proc_job *new_job(uint32_t pid, size_t max)
{
	struct proc_job *j = NEW(struct proc_job);

	read_job_init(&j->job, pid, run, release);
	j->fd = -1;
	j->max = max;
	j->text.max = max;
	return j;
}

static enum proc_answer ask(struct proc_job *j)
{
	pthread_once(&reader.once, begin);
	int64_t from = clock_mono_ms();
	if (read_jobs_do(reader.jobs, &j->job, patience_ms()))
		return j->ok ? PROC_READ : PROC_ABSENT;
	lost_wait(clock_mono_ms() - from);
	return PROC_STUCK;
}

enum proc_answer proc_reader_maps(uint32_t pid, proc_maps_fn *fn, void *arg)
{
	struct proc_job *j = new_job(pid, PATHS_BYTES_MAX);
	enum proc_answer answer = ask(j);

	for (size_t i = 0; answer == PROC_READ && i < j->maps.n; i++) {
		struct kept_map *k = &j->maps.v[i];
		k->map.path = j->text.ptr + k->path_at;
		fn(arg, &k->map);
	}
	read_job_unref(&j->job);
	return answer;
}

enum proc_answer proc_reader_file(uint32_t pid, const char *file, size_t max, struct buf *to)
{
	struct proc_job *j = new_job(pid, max);

	snprintf(j->path, sizeof j->path, "/proc/%u/%s", pid, file);
	enum proc_answer answer = ask(j);
	if (answer == PROC_READ)
		buf_put(to, j->text.ptr, j->text.len);
	read_job_unref(&j->job);
	return answer;
}

int proc_reader_open_mapped(uint32_t pid, uint64_t start, uint64_t end_at)
{
	struct proc_job *j = new_job(pid, 0);
	int fd = -1;

	snprintf(j->path, sizeof j->path, "/proc/%u/map_files/%llx-%llx", pid, (unsigned long long)start, (unsigned long long)end_at);
	if (ask(j) == PROC_READ) {
		fd = j->fd;
		j->fd = -1;
	}
	read_job_unref(&j->job);
	return fd;
}

uint64_t proc_reader_stuck(void)
{
	pthread_once(&reader.once, begin);
	return read_jobs_stuck(reader.jobs);
}
