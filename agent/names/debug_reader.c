/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names/debug_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/names/debuginfod.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/thread.h"
#include "base/vec.h"
#include "elf/elf_file.h"

#define JOBS_MAX 256

struct debug_reader {
	char *cache_dir, *urls;      /* NULL = none */
	debug_done_fn *done;
	void *arg;
	pthread_t thread;
	struct queue *jobs;          /* struct debug_job */
	atomic_bool stopping;
	bool told;                   /* that servers do not work */
	atomic_ulong found, absent, failed;
	atomic_ulong reads[DEBUG_READS];
	struct child_pace pace;      /* the reader's thread; spent_ns any */
};

struct debug_job {
	struct image *image;
	void *token;
	int fd;
	bool fetch;                  /* the debug information is to be asked for */
};

/* The debug file, from a server; -1 if there is none. */
static int fetch_debug_file(struct debug_reader *r, const struct image *im)
{
	char hex[2 * BUILD_ID_MAX + 1];
	struct err e;
	int fd = debuginfod_fetch(r->urls, r->cache_dir, image_build_id_hex(im, hex), &debuginfod_limits, &r->stopping, &e);
	if (fd < 0 && e.code == ERR_CANCELED)
		return fd;
	if (fd < 0 && e.code != ERR_NOT_FOUND && !r->told) {
		LOG_WARN("msg", "no debug information from debuginfod; logged once, a metric counts", "err", e.msg,
			 "build_id", hex);
		r->told = true;
	}
	atomic_fetch_add(fd >= 0 ? &r->found : e.code == ERR_NOT_FOUND ? &r->absent : &r->failed, 1);
	return fd;
}

/* Where the index is kept; NULL = nowhere. Not by build-id alone, which a file may claim falsely. */
static char *cache_path(const struct debug_reader *r, const struct image *im)
{
	char hex[2 * BUILD_ID_MAX + 1];

	if (!r->cache_dir || !im->build_id_len)
		return NULL;
	return xasprintf("%s/%s-%llx-%llx-%llx-%llx.dwarf", r->cache_dir, image_build_id_hex(im, hex),
			 (unsigned long long)im->stamp.dev, (unsigned long long)im->stamp.ino,
			 (unsigned long long)im->stamp.size, (unsigned long long)im->stamp.changed_ns);
}

/* The cache also keeps data of programs that were replaced since; the least recently used entries are removed. */
#define CACHE_BYTES_MAX ((uint64_t)1 << 30)

struct kept_file {
	uint64_t bytes;
	int64_t used_s;
	char *name;
};

static int by_use(const void *a, const void *b)
{
	const struct kept_file *x = a, *y = b;
	return (x->used_s > y->used_s) - (x->used_s < y->used_s);
}

static void trim_cache(const char *dir)
{
	VEC(struct kept_file) all = { 0 };
	struct stat st;
	uint64_t bytes = 0;
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d));) {
		size_t n = strlen(e->d_name);
		if (n < 6 || strcmp(e->d_name + n - 6, ".dwarf") != 0 || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		vec_push(&all, (struct kept_file){ (uint64_t)st.st_size, st.st_mtim.tv_sec, xstrdup(e->d_name) });
		bytes += (uint64_t)st.st_size;
	}
	if (all.n)
		qsort(all.v, all.n, sizeof *all.v, by_use);
	for (size_t i = 0; i < all.n; i++) {
		if (bytes > CACHE_BYTES_MAX && unlinkat(dirfd(d), all.v[i].name, 0) == 0)
			bytes -= all.v[i].bytes;
		free(all.v[i].name);
	}
	vec_free(&all);
	if (d)
		closedir(d);
}

/* By result of reading a file's debug information: names of labels. */
const char *const debug_read_names[DEBUG_READS] = { "read", "kept", "partly", "absent", "failed" };

static enum debug_read result_of(int rc, bool partly)
{
	if (rc)
		return rc == -ERR_NOT_FOUND ? DEBUG_READ_ABSENT : DEBUG_READ_FAILED;
	return partly ? DEBUG_READ_PARTLY : DEBUG_READ_DONE;
}

static bool read_dwarf(struct debug_reader *r, const struct debug_job *j, int fd, struct dwarf_index *ret)
{
	AUTOFREE char *cached = cache_path(r, j->image);
	struct err e = { 0 };
	bool partly;
	int rc = dwarf_index_make(ret, fd, cached, &r->stopping, &r->pace, &partly, &e);

	if (rc == -ERR_CANCELED)
		return false;
	if (cached)
		trim_cache(r->cache_dir);
	enum debug_read result = result_of(rc, partly);
	atomic_fetch_add(&r->reads[result], 1);
	if (result == DEBUG_READ_FAILED)
		LOG_WARN("msg", "no lines of a program: its debug information could not be read", "path", j->image->path, "err", e.msg);
	else if (partly)
		LOG_WARN("msg", "some lines of a program are missing: its debug information is too large in one piece", "path",
			 j->image->path);
	return !rc;
}

/* A file whose DWARF cannot be read keeps its symbols. */
static void read_one(struct debug_reader *r, const struct debug_job *j)
{
	struct debug_found found = { .symbols.fd = -1 };
	struct err e;
	int debug = j->fetch ? fetch_debug_file(r, j->image) : -1;

	if (debug >= 0)
		found.has_symbols = symtab_build_with(&found.symbols, j->fd, debug, j->image->path, NULL, &e) == 0 &&
				    found.symbols.fd >= 0;
	if (!j->fetch || debug >= 0)
		found.has_dwarf = read_dwarf(r, j, debug >= 0 ? debug : j->fd, &found.dwarf);
	if (debug >= 0)
		close(debug);
	r->done(r->arg, j->token, &found);
}

static void *reader_main(void *arg)
{
	struct debug_reader *r = arg;
	for (struct debug_job *j; (j = queue_pop(r->jobs, -1));) {
		if (!atomic_load(&r->stopping))
			read_one(r, j);
		close(j->fd);
		free(j);
	}
	return NULL;
}

static char *copy_unless_empty(const char *s)
{
	return s && *s ? xstrdup(s) : NULL;
}

static void release(struct debug_reader *r)
{
	queue_free(r->jobs);
	free(r->cache_dir);
	free(r->urls);
	free(r);
}

/* Made if need be. One that cannot be written to would only be noticed by what is read again and again. */
static int check_cache_dir(const char *dir, struct err *e)
{
	if (!dir || !*dir)
		return 0;
	if (mkdir(dir, 0755) && errno != EEXIST)
		return err_errno(e, errno, "--cache-dir: cannot make %s", dir);
	AUTOFREE char *probe = xasprintf("%s/.probe-XXXXXX", dir);
	int fd = mkostemp(probe, O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "--cache-dir: cannot write in %s (the agent gave up the right to write where it is not the owner)",
				 dir);
	unlink(probe);
	close(fd);
	return 0;
}

struct debug_reader *debug_reader_new(const char *cache_dir, const char *debuginfod_urls, double share, debug_done_fn *done, void *arg,
				      struct err *e)
{
	if (check_cache_dir(cache_dir, e))
		return NULL;
	struct debug_reader *r = NEW(struct debug_reader);
	r->cache_dir = copy_unless_empty(cache_dir);
	r->urls = copy_unless_empty(debuginfod_urls);
	r->done = done;
	child_pace_init(&r->pace, share);
	r->arg = arg;
	r->jobs = queue_new(JOBS_MAX, 0);
	if (thread_start(&r->thread, "dwarf", reader_main, r, e) == 0)
		return r;
	release(r);
	return NULL;
}

void debug_reader_free(struct debug_reader *r)
{
	if (!r)
		return;
	atomic_store(&r->stopping, true); /* what it waits for now is not waited for */
	queue_close(r->jobs);
	pthread_join(r->thread, NULL);
	release(r);
}

/* Whether starting a helper pays off. */
static bool has_debug_info(int fd, const char *build_id)
{
	struct elf_file f = { 0 };
	struct err e;
	bool has = elf_open(&f, fd, &e) == 0 && elf_section(&f, ".debug_info");
	char path[256];
	elf_close(&f);
	snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, strlen(build_id) > 2 ? build_id + 2 : "");
	return has || access(path, R_OK) == 0;
}

bool debug_reader_ask(struct debug_reader *r, struct image *im, int fd, void *token)
{
	char hex[2 * BUILD_ID_MAX + 1];
	bool here = has_debug_info(fd, image_build_id_hex(im, hex));

	if (!here && (!r->urls || !im->build_id_len))
		return false;
	struct debug_job *j = NEW(struct debug_job);
	*j = (struct debug_job){ im, token, fd, !here };
	if (queue_try_push(r->jobs, j, 0))
		return true;
	free(j);
	return false;
}

struct debug_reader_stats debug_reader_stats(struct debug_reader *r)
{
	struct debug_reader_stats s = { atomic_load(&r->found), atomic_load(&r->absent), atomic_load(&r->failed), { 0 },
					atomic_load(&r->pace.spent_ns) };

	for (unsigned i = 0; i < DEBUG_READS; i++)
		s.reads[i] = atomic_load(&r->reads[i]);
	return s;
}

bool debug_reader_kept(struct debug_reader *r, const struct image *im, int fd, struct dwarf_index *ret)
{
	AUTOFREE char *cached = cache_path(r, im);
	char hex[2 * BUILD_ID_MAX + 1];
	int kept = cached && has_debug_info(fd, image_build_id_hex(im, hex)) ? open(cached, O_RDONLY | O_CLOEXEC) : -1;

	if (kept < 0)
		return false;
	if (dwarf_index_open(ret, kept, NULL)) {
		close(kept);
		return false;
	}
	if (futimens(kept, NULL)) {
		/* its age only says which ones go first */
	}
	atomic_fetch_add(&r->reads[DEBUG_READ_KEPT], 1);
	return true;
}
