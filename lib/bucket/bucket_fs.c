/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of type FILESYSTEM: a directory, of this machine or a network's, in which an object is a file at its key.
 *
 *	DIRECTORY/PREFIX/a/b/17-3          an object
 *	DIRECTORY/PREFIX/a/b/~0f6c…        one that is being written, or a leftover of a crash
 *
 * A put writes a temporary file beside the object, syncs it, and gives it the object's name by link(2), which fails if there is one: so an
 * object is whole or absent whatever crashes, and one of two writers wins, on NFS as well. Then the directories up to the root are synced.
 * Directories are made by puts and removed with their last object, both of which may happen at once: a put tries again. A temporary name has a
 * character that no key has, and lists remove those that are old. Any thread, no state but the path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/sha256.h"
#include "bucket/backend.h"

#define TEMP_MARK '~'
#define TEMP_STALE_S (24 * 3600) /* by the file system's clock and ours, which may differ by hours */
#define MAKING_TRIES 8           /* of directories that others remove meanwhile */

struct fs_backend {
	struct backend backend; /* first */
	char *root;
};

static const char *fs_root(struct backend *b)
{
	return ((struct fs_backend *)b)->root;
}

/* What errno means for an attempt. */
static enum err_code fs_code(int errnum)
{
	switch (errnum) {
	case EACCES:
	case EPERM:
	case EROFS:
		return ERR_DENIED;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return ERR_LIMIT;
	case EMFILE:
	case ENFILE:
	case EBUSY:
	case EAGAIN:
	case ENOMEM:
		return ERR_BUSY;
	case ETIMEDOUT:
	case ESTALE:
	case EIO:
	case ENOTCONN:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENETDOWN:
	case ENETUNREACH:
	case ECONNRESET:
		return ERR_UNAVAILABLE; /* a network's file system */
	default:
		return ERR_IO;
	}
}

static int fs_errno(struct err *e, int errnum, const char *what, const char *path)
{
	return err_set(e, fs_code(errnum), "cannot %s %s: %s", what, path, strerror(errnum));
}

/* ENOENT below the root: is the root there at all? */
static int fs_no_root(struct backend *b, struct err *e)
{
	if (access(fs_root(b), F_OK) == 0)
		return 0;
	return errno == ENOENT ? err_set(e, ERR_UNAVAILABLE, "the directory %s is not there", fs_root(b)) : fs_errno(e, errno, "read", fs_root(b));
}

static bool fs_stopped(const struct backend_attempt *a)
{
	return a->stop && atomic_load_explicit(a->stop, memory_order_relaxed);
}

static int fs_canceled(const struct backend_attempt *a, struct err *e)
{
	return fs_stopped(a) ? err_set(e, ERR_CANCELED, "stopped") : 0;
}

/* ---- put ---- */

static int fs_write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t wrote = write(fd, p, n);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return -1;
		p += wrote;
		n -= (size_t)wrote;
	}
	return 0;
}

/* Copies the body into the file, and holds it against its hash. */
static int fs_write_body(int fd, const char *path, const char *key, const struct objects_body *body, const struct backend_attempt *a, struct err *e)
{
	AUTOFREE char *piece = xmalloc(BACKEND_PIECE);
	uint8_t hash[SHA256_LEN];
	struct sha256 h;
	int rc = 0;
	sha256_begin(&h);
	for (uint64_t at = 0; at < body->size && !rc;) {
		size_t n = (size_t)MIN(body->size - at, (uint64_t)BACKEND_PIECE);
		rc = fs_canceled(a, e);
		if (!rc)
			rc = body->read(body->arg, at, piece, n, e);
		if (!rc && fs_write_all(fd, piece, n))
			rc = fs_errno(e, errno, "write", path);
		if (!rc)
			sha256_add(&h, piece, n);
		at += n;
	}
	sha256_end(&h, hash);
	if (!rc && memcmp(hash, body->sha256, sizeof hash) != 0)
		rc = err_set(e, ERR_CORRUPT, "%s: the bytes to be stored have another hash than was said", key);
	if (!rc && fsync(fd))
		rc = fs_errno(e, errno, "sync", path);
	return rc;
}

/* Makes the directories of a key below the root. */
static int fs_make_dirs(const char *root, const char *path, struct err *e)
{
	AUTOFREE char *dir = xstrdup(path);
	for (char *p = strchr(dir + strlen(root) + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		if (mkdir(dir, 0750) && errno != EEXIST)
			return errno == ENOENT ? -ENOENT : fs_errno(e, errno, "make the directory", dir);
		*p = '/';
	}
	return 0;
}

/* Makes names last: in the directory of the path and in all above it up to the root. Others may have made those a moment ago. */
static int fs_sync_dirs(const char *root, const char *path, struct err *e)
{
	AUTOFREE char *dir = xstrdup(path);
	for (size_t end = strlen(root); strlen(dir) > end;) {
		*strrchr(dir, '/') = 0;
		int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int failed = fd < 0 || fsync(fd) ? errno : 0;
		if (fd >= 0)
			close(fd);
		if (failed)
			return fs_errno(e, failed, "sync", dir);
	}
	return 0;
}

/* A name beside the object. Returns owned. */
static char *fs_temp_path(const char *path)
{
	uint64_t random = 0;
	size_t dir = (size_t)(strrchr(path, '/') - path);
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
		random = (uint64_t)clock_now_ns(); /* early at boot */
	return xasprintf("%.*s/%c%016llx-%d", (int)dir, path, TEMP_MARK, (unsigned long long)random, (int)getpid());
}

/* Opens the temporary file. A part of the key may be an object already, and its directory may be removed meanwhile. */
static int fs_open_temp(struct backend *b, const char *path, char **ret_temp, int *ret_fd, struct err *e)
{
	for (int i = 0; i < MAKING_TRIES; i++) {
		char *temp = fs_temp_path(path);
		int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640), failed = errno;
		if (fd >= 0) {
			*ret_temp = temp;
			*ret_fd = fd;
			return 0;
		}
		int rc = failed == ENOENT ? 0 : fs_errno(e, failed, "make", temp);
		free(temp);
		if (!rc)
			rc = fs_no_root(b, e);
		if (!rc)
			rc = fs_make_dirs(fs_root(b), path, e);
		if (rc && rc != -ENOENT)
			return rc;
	}
	return err_set(e, ERR_BUSY, "the directory of %s is removed again and again", path);
}

/* Gives the temporary file the object's name, unless that is there. */
static int fs_name(const char *temp, const char *path, struct err *e)
{
	if (!link(temp, path))
		return 0;
	int failed = errno;
	if (failed == EPERM || failed == EOPNOTSUPP || failed == ENOSYS) /* no hard links here */
		failed = renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) ? errno : 0;
	if (!failed)
		return 0;
	if (failed == EEXIST)
		return err_set(e, ERR_CONFLICT, "%s exists", path);
	if (failed == ENOENT)
		return err_set(e, ERR_UNAVAILABLE, "%s was removed while it was written", temp);
	return fs_errno(e, failed, "give a file the name", path);
}

static int fs_put_file(struct backend *b, const char *path, const char *key, const struct objects_body *body, const struct backend_attempt *a,
		       struct err *e)
{
	AUTOFREE char *temp = NULL;
	int fd = -1;
	int rc = fs_open_temp(b, path, &temp, &fd, e);
	if (rc)
		return rc;
	rc = fs_write_body(fd, temp, key, body, a, e);
	if (close(fd) && !rc)
		rc = fs_errno(e, errno, "close", temp);
	if (!rc)
		rc = fs_name(temp, path, e);
	unlink(temp);
	return rc;
}

/* A name that cannot be one: too long, or an object where another one has a directory. */
static int fs_check_name(struct backend *b, const char *path, struct err *e)
{
	struct stat st;
	if (stat(path, &st) == 0)
		return S_ISREG(st.st_mode) ? err_set(e, ERR_CONFLICT, "%s exists", path)
					   : err_set(e, ERR_BAD_DATA, "%s is a directory: there are objects below it, so it cannot be one", path);
	if (errno == ENOTDIR)
		return err_set(e, ERR_BAD_DATA, "%s: a part of this path is an object, so there can be none below it", path);
	if (errno == ENAMETOOLONG)
		return err_set(e, ERR_BAD_DATA, "%s: a part of this path is too long for the file system", path);
	return errno == ENOENT ? fs_no_root(b, e) : fs_errno(e, errno, "look for", path);
}

static int fs_put_once(struct backend *b, const char *key, const struct objects_body *body, struct backend_attempt *a, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", fs_root(b), key);
	int rc = fs_check_name(b, path, e);
	if (!rc)
		rc = fs_put_file(b, path, key, body, a, e);
	if (rc && rc != -ERR_CONFLICT)
		return rc;
	int synced = fs_sync_dirs(fs_root(b), path, e); /* of another's object, too: whoever has the same content says that it is stored */
	return synced ? synced : rc;
}

/* ---- get ---- */

static int fs_read(int fd, const char *path, uint64_t from, uint64_t end, int (*data)(void *arg, const char *p, size_t n, struct err *e), void *arg,
		   const struct backend_attempt *a, struct err *e)
{
	AUTOFREE char *piece = xmalloc(BACKEND_PIECE);
	int rc = 0;
	while (from < end && !rc) {
		rc = fs_canceled(a, e);
		ssize_t n = rc ? 0 : pread(fd, piece, (size_t)MIN(end - from, (uint64_t)BACKEND_PIECE), (off_t)from);
		if (n < 0 && errno == EINTR)
			continue;
		if (!rc && n < 0)
			rc = fs_errno(e, errno, "read", path);
		else if (!rc && !n)
			rc = err_set(e, ERR_CORRUPT, "%s was cut off while it was read", path);
		if (!rc)
			rc = data(arg, piece, (size_t)n, e);
		from += rc ? 0 : (uint64_t)n;
	}
	return rc;
}

static int fs_not_found(struct backend *b, const char *path, struct err *e)
{
	int rc = fs_no_root(b, e);
	return rc ? rc : err_set(e, ERR_NOT_FOUND, "%s: there is no such object", path);
}

static int fs_get_once(struct backend *b, const char *key, uint64_t offset, uint64_t length,
		       int (*data)(void *arg, const char *p, size_t n, struct err *e), void *arg, uint64_t *ret_size, struct backend_attempt *a,
		       struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", fs_root(b), key);
	struct stat st;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* not waiting for the writer of a pipe */
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG ? fs_not_found(b, path, e) : fs_errno(e, errno, "open", path);
	int rc = fstat(fd, &st) ? fs_errno(e, errno, "read", path) : 0;
	if (!rc && !S_ISREG(st.st_mode))
		rc = fs_not_found(b, path, e);
	if (!rc) {
		uint64_t size = (uint64_t)st.st_size;
		*ret_size = size;
		if (offset < size)
			rc = fs_read(fd, path, offset, offset + MIN(length, size - offset), data, arg, a, e);
	}
	close(fd);
	return rc;
}

/* ---- list ---- */

/* A walk over the tree, in the order of keys. */
struct fs_walk {
	const char *root;
	struct view prefix, after;
	struct backend_page *page;
	const struct backend_attempt *attempt;
	int64_t now_s;
};

/* An entry of a directory; one that is a directory itself has a slash at its end, which is what its keys are ordered by. */
struct fs_names {
	VEC(char *) v;
};

static void fs_names_free(struct fs_names *names)
{
	for (size_t i = 0; i < names->v.n; i++)
		free(names->v.v[i]);
	vec_free(&names->v);
}

static int fs_compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether a name can be a part of a key; what a key cannot be may still lie in the directory. */
static bool fs_key_name(const char *name)
{
	for (const char *p = name; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("._-", *p)))
			return false;
	return true;
}

static void fs_remove_stale(const struct fs_walk *w, int dir, const char *name)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && w->now_s - st.st_mtim.tv_sec > TEMP_STALE_S)
		unlinkat(dir, name, 0);
}

/* Symbolic links are not followed: they may lead in a circle. */
static bool fs_is_dir(int dir, const struct dirent *x)
{
	struct stat st;
	if (x->d_type != DT_UNKNOWN)
		return x->d_type == DT_DIR;
	return fstatat(dir, x->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* The names in a directory, sorted. A directory that was removed meanwhile has no names, and is no error. */
static int fs_read_names(const struct fs_walk *w, const char *path, struct fs_names *ret, struct err *e)
{
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0 : fs_errno(e, errno, "read", path);
	errno = 0;
	for (struct dirent *x; (x = readdir(d)); errno = 0) {
		if (x->d_name[0] == TEMP_MARK)
			fs_remove_stale(w, dirfd(d), x->d_name);
		else if (fs_key_name(x->d_name) && strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
			vec_push(&ret->v, xasprintf("%s%s", x->d_name, fs_is_dir(dirfd(d), x) ? "/" : ""));
	}
	int rc = errno ? fs_errno(e, errno, "read", path) : 0;
	closedir(d);
	if (ret->v.n)
		qsort(ret->v.v, ret->v.n, sizeof *ret->v.v, fs_compare_names);
	return rc;
}

/* Whether keys that begin with dir may be wanted: it leads to the prefix, or lies within it; and its last key may be greater than `after`. */
static bool fs_dir_wanted(const struct fs_walk *w, struct view dir)
{
	bool leads = view_starts(w->prefix, dir) || view_starts(dir, w->prefix);
	return leads && (view_cmp(dir, w->after) > 0 || view_starts(w->after, dir));
}

static int fs_add_file(const struct fs_walk *w, const char *key, struct err *e)
{
	struct stat st;
	AUTOFREE char *path = xasprintf("%s/%s", w->root, key);
	if (!view_starts(view_of(key), w->prefix) || view_cmp(view_of(key), w->after) <= 0 || lstat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	if (w->page->v.n == BACKEND_PAGE) {
		w->page->more = true;
		return 0;
	}
	return backend_page_add(w->page, &(struct objects_found){ .key = key, .size = (uint64_t)st.st_size,
								  .modified_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 }, e);
}

/* dir: "" or "a/b/". It recurses as deep as a key has slashes. */
static int fs_walk_dir(const struct fs_walk *w, const char *dir, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", w->root, dir);
	struct fs_names names = { 0 };
	int rc = fs_canceled(w->attempt, e);
	if (!rc)
		rc = fs_read_names(w, path, &names, e);
	for (size_t i = 0; i < names.v.n && !rc && !w->page->more; i++) {
		AUTOFREE char *key = xasprintf("%s%s", dir, names.v.v[i]);
		size_t len = strlen(key);
		if (len > BACKEND_KEY_MAX)
			continue;
		if (key[len - 1] != '/')
			rc = fs_add_file(w, key, e);
		else if (fs_dir_wanted(w, view_of(key)))
			rc = fs_walk_dir(w, key, e);
	}
	fs_names_free(&names);
	return rc;
}

static int fs_list_page(struct backend *b, const char *prefix, const char *after, struct backend_page *page, struct backend_attempt *a, struct err *e)
{
	struct fs_walk w = { .root = fs_root(b), .prefix = view_of(prefix), .after = view_of(after), .page = page, .attempt = a,
			     .now_s = clock_now_ms() / 1000 };
	int rc = fs_no_root(b, e);
	if (rc)
		return rc;
	/* Directories that the prefix names need not be searched for. */
	const char *slash = strrchr(prefix, '/');
	AUTOFREE char *dir = slash ? xstrndup(prefix, (size_t)(slash - prefix) + 1) : xstrdup("");
	return fs_walk_dir(&w, dir, e);
}

/* ---- remove ---- */

/* Directories that are empty now, from that of the path up to the root. */
static void fs_remove_empty(const char *root, char *path)
{
	for (size_t end = strlen(root); strlen(path) > end;) {
		*strrchr(path, '/') = 0;
		if (strlen(path) <= end || rmdir(path))
			return;
	}
}

static int fs_remove_once(struct backend *b, const char *key, struct backend_attempt *a, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", fs_root(b), key);
	(void)a;
	if (unlink(path)) {
		struct stat st;
		int failed = errno; /* EROFS, also if it is not there */
		if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
			return fs_errno(e, failed, "remove", path);
		if (failed != ENOENT && failed != EROFS && failed != EISDIR && failed != ENOTDIR && failed != ENAMETOOLONG)
			return fs_errno(e, failed, "remove", path);
		fs_remove_empty(fs_root(b), path); /* after a crash in between */
		return fs_no_root(b, e);
	}
	AUTOFREE char *dir = xstrdup(path);
	*strrchr(dir, '/') = 0;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd >= 0 && fsync(fd) ? fs_errno(e, errno, "sync", dir) : 0;
	if (fd >= 0)
		close(fd);
	fs_remove_empty(fs_root(b), path);
	return rc;
}

static void fs_free(struct backend *b)
{
	struct fs_backend *f = (struct fs_backend *)b;
	free(f->root);
	free(f);
}

int bucket_fs_new(struct backend **ret, const char *directory, struct err *e)
{
	static const struct backend_ops ops = { .kind = "filesystem", .put_once = fs_put_once, .get_once = fs_get_once, .list_page = fs_list_page,
						.remove_once = fs_remove_once, .free = fs_free };
	if (!directory[0])
		return err_set(e, ERR_BAD_DATA, "the directory of the object storage has no name");
	struct fs_backend *f = NEW(struct fs_backend);
	f->backend.ops = &ops;
	f->root = xstrdup(directory);
	for (size_t n = strlen(f->root); n > 1 && f->root[n - 1] == '/'; n--)
		f->root[n - 1] = 0;
	IGNORE(files_make_dirs(f->root, NULL)); /* a file system that is away is found out by calls, which try again */
	*ret = &f->backend;
	return 0;
}
