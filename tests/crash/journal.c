/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
	char path[PATH_MAX]; /* where it was last seen */
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
}

bool journal_ours(const char *path)
{
	return root_len && !strncmp(path, root, root_len) && (path[root_len] == '/' || !path[root_len]);
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
	snprintf(f->path, sizeof f->path, "%s", path);
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

/* One directory has one name here: without "/./". */
static char *plain(const char *path)
{
	char *copy = strdup(path), *at;
	while ((at = strstr(copy, "/./")))
		memmove(at, at + 2, strlen(at + 2) + 1);
	return copy;
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
		snprintf(f->path, sizeof f->path, "%s", path);
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
		raw_rename(o->to, o->path);
		if (o->trash)
			raw_rename(o->trash, o->to);
		break;
	case REMOVED_DIR:
		raw_mkdir(o->path);
		break;
	}
}

/* Of each directory a random prefix of its changes is on disk. */
static void choose_undo(void)
{
	for (size_t i = 0; i < n_ops; i++) {
		size_t n = 0, seen = 0;
		bool first = true;
		for (size_t k = 0; k < n_ops; k++) {
			if (strcmp(ops[k].dir, ops[i].dir))
				continue;
			first &= k >= i;
			n++;
		}
		if (!first)
			continue;
		size_t stays = journal_random() % 2 ? journal_random() % (n + 1) : 0;
		for (size_t k = 0; k < n_ops; k++)
			if (!strcmp(ops[k].dir, ops[i].dir))
				ops[k].undo = seen++ >= stays;
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
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_ino == f->ino && st.st_size > f->synced) {
		off_t size = f->synced;
		if (journal_random() % 2)
			size += (off_t)(journal_random() % (uint64_t)(st.st_size - f->synced + 1));
		syscall(SYS_ftruncate, fd, size);
		if (size > f->synced && (f->poisoned || journal_random() % 3 == 0))
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
}
