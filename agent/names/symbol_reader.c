/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names/symbol_reader.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/vec.h"

struct symbol_job {
	struct image *image;
	void *token;
	int fd;
	off_t bytes;
};

struct symbol_reader {
	symbols_begin_fn *begin;
	symbols_done_fn *done;
	void *arg;
	pthread_t thread;
	bool runs;
	struct mutex lock;           /* guards what follows */
	pthread_cond_t asked;
	bool stopping;
	VEC(struct symbol_job) jobs;
};

/* The smallest; waits for one. False: it is to end. */
static bool next(struct symbol_reader *r, struct symbol_job *ret)
{
	size_t least = 0;

	mutex_lock(&r->lock);
	while (!r->stopping && !r->jobs.n)
		mutex_wait(&r->lock, &r->asked);
	bool go_on = !r->stopping;
	if (go_on) {
		for (size_t i = 1; i < r->jobs.n; i++)
			if (r->jobs.v[i].bytes < r->jobs.v[least].bytes)
				least = i;
		*ret = r->jobs.v[least];
		r->jobs.v[least] = r->jobs.v[--r->jobs.n];
	}
	mutex_unlock(&r->lock);
	return go_on;
}

/* A damaged file has no symbols; its frames stay addresses. Go programs with cgo need both. */
static void read_one(struct symbol_reader *r, const struct symbol_job *j)
{
	struct symbols_found found = { .fd = j->fd, .symbols.fd = -1 };
	char hex[2 * BUILD_ID_MAX + 1];
	struct err e;

	if (j->fd >= 0) {
		found.is_go = gopclntab_open(&found.go, j->fd, &e) == 0;
		if (symtab_build(&found.symbols, j->fd, j->image->path, image_build_id_hex(j->image, hex), &e))
			found.symbols.fd = -1;
	}
	r->done(r->arg, j->token, &found);
}

static void *reader_main(void *arg)
{
	struct symbol_reader *r = arg;
	struct symbol_job j;

	r->begin(r->arg);
	while (next(r, &j))
		read_one(r, &j);
	return NULL;
}

struct symbol_reader *symbol_reader_new(symbols_begin_fn *begin, symbols_done_fn *done, void *arg, struct err *e)
{
	struct symbol_reader *r = NEW(struct symbol_reader);

	r->begin = begin;
	r->done = done;
	r->arg = arg;
	mutex_init(&r->lock, LOCK_LEAF, "symbol reader");
	pthread_cond_init(&r->asked, NULL);
	r->runs = thread_start(&r->thread, "symbols", reader_main, r, e) == 0;
	if (r->runs)
		return r;
	symbol_reader_free(r);
	return NULL;
}

void symbol_reader_free(struct symbol_reader *r)
{
	if (!r)
		return;
	mutex_lock(&r->lock);
	r->stopping = true;
	pthread_cond_signal(&r->asked);
	mutex_unlock(&r->lock);
	if (r->runs)
		pthread_join(r->thread, NULL);
	for (size_t i = 0; i < r->jobs.n; i++)
		if (r->jobs.v[i].fd >= 0)
			close(r->jobs.v[i].fd);
	vec_free(&r->jobs);
	pthread_cond_destroy(&r->asked);
	mutex_destroy(&r->lock);
	free(r);
}

void symbol_reader_ask(struct symbol_reader *r, struct image *im, int fd, void *token)
{
	struct stat st = { 0 };

	if (fd >= 0 && fstat(fd, &st))
		st.st_size = 0;
	mutex_lock(&r->lock);
	vec_push(&r->jobs, (struct symbol_job){ im, token, fd, st.st_size });
	pthread_cond_signal(&r->asked);
	mutex_unlock(&r->lock);
}
