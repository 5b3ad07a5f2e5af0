/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* System calls past the layer that this is part of. */
static int raw_rename(const char *a, const char *b) { return (int)syscall(SYS_rename, a, b); }
static int raw_link(const char *a, const char *b) { return (int)syscall(SYS_link, a, b); }
static int raw_unlink(const char *a) { return (int)syscall(SYS_unlink, a); }
static int raw_rmdir(const char *a) { return (int)syscall(SYS_rmdir, a); }
static int raw_mkdir(const char *a) { return (int)syscall(SYS_mkdir, a, 0750); }

struct file {
	ino_t ino;
	off_t synced;
	bool poisoned;   /* a sync failed: what was not synced then never will be */
	char path[PATH_MAX], path2[PATH_MAX]; /* where it was last seen; and before that, if it has several names */
};

enum op_kind { MADE, MADE_DIR, UNLINKED, RENAMED, REMOVED_DIR };

/* A change of a directory that is not synced. */
struct op {
	enum op_kind kind;
	char *dir, *path, *to, *trash; /* trash: what was taken away, kept under this name; NULL = nothing */
	bool undo;
};

static char root[PATH_MAX], trash_dir[PATH_MAX];
static size_t root_len;
static uint64_t random_state;
static unsigned long next_trash;
static struct file **files;
static size_t n_files, n_ops;
static struct op *ops;
static int trace_fd = -1;

static void *grow(void *p, size_t n, size_t size)
{
	if (n & (n - 1))
		return p;
	p = realloc(p, (n ? n * 2 : 1) * size);
	if (!p)
		abort();
	return p;
}

uint64_t journal_random(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void journal_start(const char *dir, const char *seed)
{
	random_state = seed ? strtoull(seed, NULL, 10) : 1;
	if (!dir)
		return;
	snprintf(root, sizeof root, "%s", dir);
	root_len = strlen(root);
	snprintf(trash_dir, sizeof trash_dir, "%.4000s.trash", dir);
	raw_mkdir(trash_dir);
	const char *trace = getenv("FAULTS_TRACE");
	if (trace)
		trace_fd = (int)syscall(SYS_openat, AT_FDCWD, trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

bool journal_ours(const char *path)
{
	return root_len && !strncmp(path, root, root_len) && (path[root_len] == '/' || !path[root_len]);
}

/* ---- what happened ---- */

void journal_trace(const char *f, ...)
{
	char line[PATH_MAX + 128];
	va_list args;
	if (trace_fd < 0)
		return;
	va_start(args, f);
	int n = vsnprintf(line, sizeof line - 1, f, args);
	va_end(args);
	n = n < 0 ? 0 : n > (int)sizeof line - 2 ? (int)sizeof line - 2 : n;
	line[n++] = '\n';
	(void)!syscall(SYS_write, trace_fd, line, (size_t)n);
}

const char *journal_name(const char *path)
{
	return path && root_len && !strncmp(path, root, root_len) && path[root_len] ? path + root_len + 1 : path ? path : "?";
}

/* A copy of the tree as root.after, for who looks at a failure. */
static void save(void)
{
	char command[3 * PATH_MAX];
	if (trace_fd < 0)
		return;
	unsetenv("LD_PRELOAD");
	snprintf(command, sizeof command, "rm -rf '%.4000s.after'; cp -a '%.4000s' '%.4000s.after'", root, root, root);
	(void)!system(command);
}

/* ---- contents ---- */

static struct file *file_of(ino_t ino)
{
	for (size_t i = 0; i < n_files; i++)
		if (files[i]->ino == ino)
			return files[i];
	return NULL;
}

static struct file *file_add(ino_t ino, off_t synced)
{
	struct file *f = calloc(1, sizeof *f);
	files = grow(files, n_files, sizeof *files);
	f->ino = ino;
	f->synced = synced;
	return files[n_files++] = f;
}

static void forget_file(ino_t ino)
{
	for (size_t i = 0; i < n_files; i++)
		if (files[i]->ino == ino) {
			free(files[i]);
			files[i] = files[--n_files];
			return;
		}
}

static void seen_at(struct file *f, const char *path)
{
	if (!strcmp(f->path, path))
		return;
	memcpy(f->path2, f->path, sizeof f->path2);
	snprintf(f->path, sizeof f->path, "%s", path);
}

void journal_open(int fd, const char *path, bool existed, int flags)
{
	struct stat st;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return;
	struct file *f = file_of(st.st_ino);
	if (!f)
		f = file_add(st.st_ino, existed ? st.st_size : 0);
	if (!existed || (flags & O_TRUNC))
		f->synced = 0;
	seen_at(f, path);
	if (!existed)
		journal_made(path, false);
}

void journal_truncate(int fd, off_t len)
{
	struct stat st;
	struct file *f = fstat(fd, &st) ? NULL : file_of(st.st_ino);
	if (f && f->synced > len)
		f->synced = len;
}

void journal_sync_failed(int fd)
{
	struct stat st;
	struct file *f = fstat(fd, &st) ? NULL : file_of(st.st_ino);
	if (f && f->synced < st.st_size)
		f->poisoned = true;
}

/* ---- names ---- */

static char *dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return strndup(path, slash ? (size_t)(slash - path) : 0);
}

/* One directory has one name here: without "/./", "//" and a slash at the end. */
static char *plain(const char *path)
{
	char *copy = strdup(path), *at;
	while ((at = strstr(copy, "/./")))
		memmove(at, at + 2, strlen(at + 2) + 1);
	while ((at = strstr(copy, "//")))
		memmove(at, at + 1, strlen(at + 1) + 1);
	size_t len = strlen(copy);
	if (len > 1 && copy[len - 1] == '/')
		copy[len - 1] = 0;
	return copy;
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	return !strncmp(path, dir, len) && path[len] == '/';
}

/* What lies below `from` lies below `to` now; itself = from too. */
static void move_string(char **path, const char *from, const char *to, bool itself)
{
	char moved[2 * PATH_MAX];
	if (!*path || (!is_below(*path, from) && (!itself || strcmp(*path, from))))
		return;
	snprintf(moved, sizeof moved, "%s%s", to, *path + strlen(from));
	free(*path);
	*path = strdup(moved);
}

/* A directory got another name: the first n changes and all files are known by the new one. */
static void move_below(const char *from, const char *to, size_t n)
{
	char moved[2 * PATH_MAX];
	for (size_t i = 0; i < n_files; i++) {
		if (!is_below(files[i]->path, from))
			continue;
		snprintf(moved, sizeof moved, "%s%s", to, files[i]->path + strlen(from));
		snprintf(files[i]->path, sizeof files[i]->path, "%.4000s", moved);
	}
	for (size_t i = 0; i < n; i++) {
		move_string(&ops[i].path, from, to, false);
		move_string(&ops[i].to, from, to, false);
		move_string(&ops[i].dir, from, to, true);
	}
}

static struct op *op_add(enum op_kind kind, const char *path)
{
	ops = grow(ops, n_ops, sizeof *ops);
	ops[n_ops] = (struct op){ .kind = kind, .path = plain(path) };
	ops[n_ops].dir = dir_of(ops[n_ops].path);
	return &ops[n_ops++];
}

/* The file that lies under that name now. */
static void lies_at(const char *path)
{
	struct stat st;
	struct file *f = lstat(path, &st) ? NULL : file_of(st.st_ino);
	if (f)
		seen_at(f, path);
}

static char *keep(const char *path)
{
	char name[PATH_MAX + 32];
	snprintf(name, sizeof name, "%s/%lu-%d", trash_dir, next_trash++, (int)getpid());
	return raw_link(path, name) ? NULL : strdup(name);
}

static void empty_trash(const char *name)
{
	struct stat st;
	if (lstat(name, &st) == 0 && st.st_nlink == 1)
		forget_file(st.st_ino);
	raw_unlink(name);
}

static void op_free(struct op *o)
{
	if (o->trash)
		empty_trash(o->trash);
	free(o->trash);
	free(o->dir);
	free(o->path);
	free(o->to);
}

void journal_made(const char *path, bool is_dir)
{
	if (strcmp(path, root)) /* the directory above it is not ours to know */
		op_add(is_dir ? MADE_DIR : MADE, path);
	lies_at(path);
}

void journal_rmdir(const char *path)
{
	op_add(REMOVED_DIR, path);
}

int journal_unlink(int (*real_unlink)(const char *), const char *path)
{
	char *kept = keep(path);
	int rc = real_unlink(path);
	if (rc) {
		int saved = errno;
		if (kept)
			raw_unlink(kept);
		free(kept);
		errno = saved;
		return rc;
	}
	op_add(UNLINKED, path)->trash = kept;
	if (kept)
		lies_at(kept);
	return 0;
}

int journal_rename(int (*real_rename)(const char *, const char *), const char *from, const char *to)
{
	struct stat st;
	char *kept = lstat(to, &st) == 0 && S_ISREG(st.st_mode) ? keep(to) : NULL;
	int rc = real_rename(from, to);
	if (rc) {
		int saved = errno;
		if (kept)
			raw_unlink(kept);
		free(kept);
		errno = saved;
		return rc;
	}
	struct op *o = op_add(RENAMED, from);
	o->to = plain(to);
	if (lstat(to, &st) == 0 && S_ISDIR(st.st_mode))
		move_below(o->path, o->to, n_ops - 1);
	o->trash = kept;
	if (kept)
		lies_at(kept);
	lies_at(to);
	return 0;
}

void journal_sync(int fd, const char *path)
{
	struct stat st;
	if (fstat(fd, &st))
		return;
	if (S_ISREG(st.st_mode)) {
		struct file *f = file_of(st.st_ino);
		if (f && !f->poisoned)
			f->synced = st.st_size;
		return;
	}
	size_t kept = 0;
	char *dir = plain(path);
	for (size_t i = 0; i < n_ops; i++) {
		if (strcmp(ops[i].dir, dir))
			ops[kept++] = ops[i];
		else
			op_free(&ops[i]);
	}
	n_ops = kept;
	free(dir);
}

/* ---- the power fails ---- */

static void remove_tree(const char *path)
{
	char command[PATH_MAX + 16];
	struct stat st;
	if (raw_unlink(path) == 0 || lstat(path, &st) || raw_rmdir(path) == 0)
		return;
	/* A directory that never was, with synced files in it. */
	snprintf(command, sizeof command, "%s/lost-%lu", trash_dir, next_trash++);
	raw_rename(path, command);
}

static void undo(struct op *o)
{
	struct stat st;
	static const char *const names[] = { "made", "made dir", "unlinked", "renamed", "removed dir" };
	journal_trace("lost: %s %s%s%s", names[o->kind], journal_name(o->path), o->to ? " to " : "", o->to ? journal_name(o->to) : "");
	switch (o->kind) {
	case MADE:
		raw_unlink(o->path);
		break;
	case MADE_DIR:
		remove_tree(o->path);
		break;
	case UNLINKED:
		if (o->trash)
			raw_rename(o->trash, o->path);
		break;
	case RENAMED:
		if (lstat(o->to, &st) == 0 && S_ISDIR(st.st_mode))
			move_below(o->to, o->path, (size_t)(o - ops));
		raw_rename(o->to, o->path);
		if (o->trash)
			raw_rename(o->trash, o->to);
		break;
	case REMOVED_DIR:
		raw_mkdir(o->path);
		break;
	}
}

/* Of the changes of a directory, in order, a random prefix is on disk. */
static void choose_prefix(const char *dir)
{
	size_t n = 0, seen = 0;
	for (size_t k = 0; k < n_ops; k++)
		n += !strcmp(ops[k].dir, dir);
	size_t stays = journal_random() % 2 ? journal_random() % (n + 1) : 0;
	for (size_t k = 0; k < n_ops; k++)
		if (!strcmp(ops[k].dir, dir))
			ops[k].undo = seen++ >= stays;
}

static bool same_name(const struct op *a, const struct op *b)
{
	return !strcmp(a->path, b->path) || (a->to && !strcmp(a->to, b->path)) || (b->to && !strcmp(a->path, b->to)) ||
	       (a->to && b->to && !strcmp(a->to, b->to));
}

/* Any of them is or is not, but what came after one that is not and is about the same name. */
static void choose_any(const char *dir)
{
	for (size_t k = 0; k < n_ops; k++) {
		if (strcmp(ops[k].dir, dir))
			continue;
		ops[k].undo = journal_random() % 2;
		for (size_t i = 0; i < k && !ops[k].undo; i++)
			ops[k].undo = ops[i].undo && same_name(&ops[i], &ops[k]);
	}
}

/* Most file systems keep the order of the changes of a directory; it is not promised. */
static void choose_undo(void)
{
	for (size_t i = 0; i < n_ops; i++) {
		bool first = true;
		for (size_t k = 0; k < i; k++)
			first &= strcmp(ops[k].dir, ops[i].dir) != 0;
		if (first)
			(journal_random() % 3 ? choose_prefix : choose_any)(ops[i].dir);
	}
}

static void tear(int fd, off_t from, off_t size)
{
	static const char zeros[4096];
	off_t at = from + (off_t)(journal_random() % (uint64_t)(size - from));
	size_t n = (size_t)(size - at);
	syscall(SYS_pwrite64, fd, zeros, n < sizeof zeros ? n : sizeof zeros, at);
}

static void cut(const struct file *f)
{
	struct stat st;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, f->path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) || st.st_ino != f->ino) {
		if (fd >= 0)
			syscall(SYS_close, fd);
		fd = (int)syscall(SYS_openat, AT_FDCWD, f->path2, O_RDWR | O_CLOEXEC, 0);
	}
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_ino == f->ino && st.st_size > f->synced) {
		/* None of what was not synced, some of it, all of it; what is there torn or not. */
		off_t size = f->synced;
		switch (journal_random() % 4) {
		case 0:
			size = st.st_size;
			break;
		case 1:
			size += (off_t)(journal_random() % (uint64_t)(st.st_size - f->synced + 1));
			break;
		}
		bool torn = size > f->synced && (f->poisoned || journal_random() % 2 == 0);
		syscall(SYS_ftruncate, fd, size);
		journal_trace("lost: of %s all behind %lld of %lld%s, synced were %lld", journal_name(f->path), (long long)size,
			      (long long)st.st_size, torn ? ", and some before" : "", (long long)f->synced);
		if (torn)
			tear(fd, f->synced, size);
	}
	syscall(SYS_close, fd);
}

void journal_power_loss(void)
{
	for (size_t i = 0; i < n_files; i++)
		cut(files[i]);
	choose_undo();
	for (size_t i = n_ops; i--;)
		if (ops[i].undo)
			undo(&ops[i]);
	save();
}
