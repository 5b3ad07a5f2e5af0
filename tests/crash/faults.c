/* SPDX-License-Identifier: Apache-2.0 */
/* See faults.h. One lock is held around every call that changes something, so that the power fails between two calls
 * and nothing moves afterwards. */
#include "tests/crash/faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/crash/journal.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_FD 65536
#define MAX_PLANS 8

enum kind { KILL, POWER, POWERSYNC, WRITE, SPACE, SHORTWRITE, SYNC, OPEN, RENAME, UNLINK, READONLY, READ, SHORTREAD, FLIP, KINDS };
static const char *const kind_names[KINDS] = { "kill", "power", "powersync", "write", "space", "shortwrite", "sync", "open", "rename",
					       "unlink", "readonly", "read", "shortread", "flip" };

struct plan {
	enum kind kind;
	unsigned long at, count, seen;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan plans[MAX_PLANS];
static size_t n_plans;
static unsigned long changes, injected;
static const char *only_while; /* this file is there */
static char *open_paths[MAX_FD]; /* of descriptors below the directory; NULL = not ours */

static struct {
	int (*open)(const char *, int, ...);
	int (*close)(int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*pread)(int, void *, size_t, off_t);
	size_t (*fread_unlocked)(void *, size_t, size_t, FILE *);
	size_t (*fread)(void *, size_t, size_t, FILE *);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	int (*fsync)(int);
	int (*fdatasync)(int);
	int (*ftruncate)(int, off_t);
	int (*rename)(const char *, const char *);
	int (*link)(const char *, const char *);
	int (*unlink)(const char *);
	int (*mkdir)(const char *, mode_t);
	int (*rmdir)(const char *);
} real;

#define LOAD(name) (*(void **)&real.name = dlsym(RTLD_NEXT, #name))

static void load(void)
{
	if (real.rmdir)
		return;
	LOAD(open);
	LOAD(close);
	LOAD(read);
	LOAD(pread);
	LOAD(fread_unlocked);
	LOAD(fread);
	LOAD(write);
	LOAD(pwrite);
	LOAD(writev);
	LOAD(fsync);
	LOAD(fdatasync);
	LOAD(ftruncate);
	LOAD(rename);
	LOAD(link);
	LOAD(unlink);
	LOAD(mkdir);
	LOAD(rmdir);
}

__attribute__((constructor)) static void start(void)
{
	load();
	journal_start(getenv("FAULTS_DIR"), getenv("FAULTS_SEED"));
	only_while = getenv("FAULTS_WHILE");
	faults_arm(getenv("FAULTS"));
}

/* ---- what is to happen ---- */

static void add_plan(const char *spec)
{
	struct plan p = { .kind = KINDS, .count = 1 };
	const char *colon = strchr(spec, ':');
	char *end;
	for (int k = 0; k < KINDS && colon; k++)
		if (strlen(kind_names[k]) == (size_t)(colon - spec) && !strncmp(kind_names[k], spec, (size_t)(colon - spec)))
			p.kind = (enum kind)k;
	if (p.kind == KINDS || n_plans == MAX_PLANS) {
		fprintf(stderr, "faults: cannot read \"%s\"\n", spec);
		abort();
	}
	p.at = strtoul(colon + 1, &end, 10);
	if (*end == ':')
		p.count = strtoul(end + 1, &end, 10);
	plans[n_plans++] = p;
}

EXPORT void faults_arm(const char *spec)
{
	pthread_mutex_lock(&lock);
	journal_trace("armed %s", spec ? spec : "nothing");
	n_plans = 0;
	changes = injected = 0;
	for (; spec && *spec; spec = strchr(spec, ',') ? strchr(spec, ',') + 1 : NULL)
		add_plan(spec);
	pthread_mutex_unlock(&lock);
}

EXPORT unsigned long faults_changes(void)
{
	return changes;
}

EXPORT unsigned long faults_injected(void)
{
	return injected;
}

/* Under the lock: whether this call is one that a plan of that kind is about. */
static bool hits(enum kind kind)
{
	bool hit = false;
	for (size_t i = 0; i < n_plans; i++) {
		struct plan *p = &plans[i];
		if (p->kind != kind || (kind > POWERSYNC && only_while && access(only_while, F_OK)))
			continue;
		p->seen++;
		hit |= p->seen >= p->at && (!p->count || p->seen < p->at + p->count);
	}
	injected += hit;
	return hit;
}

__attribute__((noreturn)) static void die(bool power)
{
	if (power)
		journal_power_loss();
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* Before every call that changes something; takes the lock. */
static void begin_change(void)
{
	pthread_mutex_lock(&lock);
	changes++;
	bool power = hits(POWER);
	if (power || hits(KILL))
		die(power);
}

static int end_change(int rc)
{
	int saved = errno;
	pthread_mutex_unlock(&lock);
	errno = saved;
	return rc;
}

static int fail(int error)
{
	errno = error;
	return end_change(-1);
}

static bool read_hits(enum kind kind)
{
	pthread_mutex_lock(&lock);
	bool hit = hits(kind);
	pthread_mutex_unlock(&lock);
	return hit;
}

static const char *path_of(int fd)
{
	return fd >= 0 && fd < MAX_FD ? open_paths[fd] : NULL;
}

/* ---- opening ---- */

static int opened(int fd, const char *path, int flags, bool existed)
{
	if (fd < 0 || fd >= MAX_FD)
		return fd;
	free(open_paths[fd]);
	open_paths[fd] = strdup(path);
	journal_open(fd, path, existed, flags);
	return fd;
}

static int open_ours(const char *path, int flags, mode_t mode)
{
	struct stat st;
	bool existed = stat(path, &st) == 0;
	bool changes_it = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
	if ((flags & O_CREAT) && !existed) {
		begin_change();
		if (hits(SPACE))
			return fail(ENOSPC);
	} else {
		pthread_mutex_lock(&lock);
	}
	if (hits(OPEN))
		return fail(EMFILE);
	if (changes_it && hits(READONLY))
		return fail(EROFS);
	int fd = real.open(path, flags, mode);
	if (changes_it)
		journal_trace("open %s%s%s = %d", journal_name(path), existed ? "" : ", new", flags & O_TRUNC ? ", truncated" : "", fd);
	return end_change(opened(fd, path, flags, existed));
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	load();
	return journal_ours(path) ? open_ours(path, flags, mode) : real.open(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open(path, flags | O_LARGEFILE, mode);
}

EXPORT int close(int fd)
{
	load();
	if (!path_of(fd))
		return real.close(fd);
	pthread_mutex_lock(&lock);
	free(open_paths[fd]);
	open_paths[fd] = NULL;
	return end_change(real.close(fd));
}

/* ---- reading ---- */

static ssize_t read_as(ssize_t n, void *to)
{
	if (n > 0 && read_hits(FLIP))
		((unsigned char *)to)[journal_random() % (size_t)n] ^= (unsigned char)(1u << journal_random() % 8);
	if (n > 1 && read_hits(SHORTREAD))
		n = n / 2;
	return n;
}

EXPORT ssize_t read(int fd, void *to, size_t n)
{
	load();
	if (!path_of(fd))
		return real.read(fd, to, n);
	if (read_hits(READ)) {
		errno = EIO;
		return -1;
	}
	return read_as(real.read(fd, to, n), to);
}

EXPORT ssize_t pread(int fd, void *to, size_t n, off_t at)
{
	load();
	if (!path_of(fd))
		return real.pread(fd, to, n, at);
	if (read_hits(READ)) {
		errno = EIO;
		return -1;
	}
	return read_as(real.pread(fd, to, n, at), to);
}

EXPORT ssize_t pread64(int fd, void *to, size_t n, off_t at)
{
	return pread(fd, to, n, at);
}

/* RocksDB reads its logs through stdio. */
static size_t fread_as(size_t (*next)(void *, size_t, size_t, FILE *), void *to, size_t size, size_t n, FILE *f)
{
	size_t got = next(to, size, n, f);
	if (!path_of(fileno(f)) || !got)
		return got;
	if (read_hits(FLIP))
		((unsigned char *)to)[journal_random() % (size * got)] ^= (unsigned char)(1u << journal_random() % 8);
	return got;
}

#undef fread_unlocked
EXPORT size_t fread_unlocked(void *to, size_t size, size_t n, FILE *f)
{
	load();
	return fread_as(real.fread_unlocked, to, size, n, f);
}

EXPORT size_t fread(void *to, size_t size, size_t n, FILE *f)
{
	load();
	return fread_as(real.fread, to, size, n, f);
}

/* ---- writing ---- */

static ssize_t write_some(int fd, const void *from, size_t n, off_t at)
{
	begin_change();
	if (hits(WRITE))
		return fail(EIO);
	if (hits(READONLY))
		return fail(EROFS);
	if (hits(SPACE))
		return fail(ENOSPC);
	if (hits(SHORTWRITE)) {
		if (n < 2)
			return fail(ENOSPC);
		n /= 2;
	}
	ssize_t rc = at < 0 ? real.write(fd, from, n) : real.pwrite(fd, from, n, at);
	int saved = errno;
	journal_trace("write %s, %zu at %lld = %zd", journal_name(path_of(fd)), n, (long long)at, rc);
	pthread_mutex_unlock(&lock);
	errno = saved;
	return rc;
}

EXPORT ssize_t write(int fd, const void *from, size_t n)
{
	load();
	return path_of(fd) ? write_some(fd, from, n, -1) : real.write(fd, from, n);
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
	load();
	return path_of(fd) ? write_some(fd, from, n, at) : real.pwrite(fd, from, n, at);
}

EXPORT ssize_t pwrite64(int fd, const void *from, size_t n, off_t at)
{
	return pwrite(fd, from, n, at);
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	load();
	return path_of(fd) && n > 0 ? write_some(fd, v[0].iov_base, v[0].iov_len, -1) : real.writev(fd, v, n);
}

static int sync_as(int (*next)(int), int fd)
{
	begin_change();
	if (hits(POWERSYNC))
		die(true);
	if (hits(SYNC)) {
		journal_sync_failed(fd);
		return fail(EIO);
	}
	int rc = next(fd);
	journal_trace("sync %s = %d", journal_name(path_of(fd)), rc);
	if (!rc)
		journal_sync(fd, open_paths[fd]);
	return end_change(rc);
}

EXPORT int fsync(int fd)
{
	load();
	return path_of(fd) ? sync_as(real.fsync, fd) : real.fsync(fd);
}

EXPORT int fdatasync(int fd)
{
	load();
	return path_of(fd) ? sync_as(real.fdatasync, fd) : real.fdatasync(fd);
}

EXPORT int ftruncate(int fd, off_t len)
{
	load();
	if (!path_of(fd))
		return real.ftruncate(fd, len);
	begin_change();
	if (hits(READONLY))
		return fail(EROFS);
	int rc = real.ftruncate(fd, len);
	journal_trace("truncate %s to %lld = %d", journal_name(path_of(fd)), (long long)len, rc);
	if (!rc)
		journal_truncate(fd, len);
	return end_change(rc);
}

EXPORT int ftruncate64(int fd, off_t len)
{
	return ftruncate(fd, len);
}

/* ---- names ---- */

EXPORT int rename(const char *from, const char *to)
{
	load();
	if (!journal_ours(from) && !journal_ours(to))
		return real.rename(from, to);
	begin_change();
	if (hits(READONLY))
		return fail(EROFS);
	if (hits(RENAME))
		return fail(EIO);
	if (hits(SPACE))
		return fail(ENOSPC);
	int rc = journal_rename(real.rename, from, to);
	journal_trace("rename %s to %s = %d", journal_name(from), journal_name(to), rc);
	return end_change(rc);
}

EXPORT int link(const char *from, const char *to)
{
	load();
	if (!journal_ours(to))
		return real.link(from, to);
	begin_change();
	if (hits(READONLY))
		return fail(EROFS);
	if (hits(RENAME))
		return fail(EIO);
	if (hits(SPACE))
		return fail(ENOSPC);
	int rc = real.link(from, to);
	journal_trace("link %s to %s = %d", journal_name(from), journal_name(to), rc);
	if (!rc)
		journal_made(to, false);
	return end_change(rc);
}

EXPORT int unlink(const char *path)
{
	load();
	if (!journal_ours(path))
		return real.unlink(path);
	begin_change();
	if (hits(READONLY))
		return fail(EROFS);
	if (hits(UNLINK))
		return fail(EIO);
	int rc = journal_unlink(real.unlink, path);
	journal_trace("unlink %s = %d", journal_name(path), rc);
	return end_change(rc);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
	load();
	if (!journal_ours(path))
		return real.mkdir(path, mode);
	struct stat st;
	bool existed = stat(path, &st) == 0; /* EEXIST comes before ENOSPC */
	begin_change();
	if (!existed && hits(SPACE))
		return fail(ENOSPC);
	if (!existed && hits(READONLY))
		return fail(EROFS);
	int rc = real.mkdir(path, mode);
	journal_trace("mkdir %s = %d", journal_name(path), rc);
	if (!rc)
		journal_made(path, true);
	return end_change(rc);
}

EXPORT int rmdir(const char *path)
{
	load();
	if (!journal_ours(path))
		return real.rmdir(path);
	begin_change();
	if (hits(READONLY))
		return fail(EROFS);
	int rc = real.rmdir(path);
	journal_trace("rmdir %s = %d", journal_name(path), rc);
	if (!rc)
		journal_rmdir(path);
	return end_change(rc);
}
