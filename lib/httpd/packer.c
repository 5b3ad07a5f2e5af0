/* SPDX-License-Identifier: Apache-2.0 */
/* zstd compression in parallel: threads of libzstd compress a large answer, if its writer says so (httpd_out_stays) while the rest of it is
 * still being written. The output is one frame, as if compressed by one thread.
 *
 * There is one for the whole server, and its threads stay. If several large answers are made at once, the CPUs are busy anyway, and
 * the others compress by themselves. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "httpd/internal.h"

#define WORKERS 2
#define PIECE (512 << 10) /* bytes that a thread compresses at once; libzstd takes no less */

#define FED_AT_ONCE ((size_t)64 << 10) /* bytes; less waits for more */
/* For what comes out, so that it is not copied as it grows: what is not written takes no memory. Malloc keeps a block of less than 4 MiB
 * (alloc_keep_freed), so the next answer finds its pages. */
#define ROOM (((size_t)4 << 20) - 65536)

struct packer {
	atomic_bool taken;
	ZSTD_CCtx *zstd;
	struct buf packed;
	size_t fed;    /* bytes of the answer, which are gone from where it is written */
	bool failed;
};

struct packer *packer_new(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) > 1 ? NEW(struct packer) : NULL;
}

void packer_free(struct packer *p)
{
	if (!p)
		return;
	ZSTD_freeCCtx(p->zstd);
	buf_free(&p->packed);
	free(p);
}

static bool set_up(struct packer *p, int level)
{
	if (!p->zstd)
		p->zstd = ZSTD_createCCtx();
	return p->zstd && httpd_zstd_set(p->zstd, level) &&
	       !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_nbWorkers, WORKERS)) && /* an error where libzstd has no threads */
	       !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_jobSize, PIECE));
}

bool packer_take(struct packer *p, int level)
{
	if (!p || atomic_exchange(&p->taken, true))
		return false;
	p->fed = 0;
	p->failed = !set_up(p, level) || !buf_reserve(&p->packed, ROOM);
	return true;
}

void packer_drop(struct packer *p)
{
	buf_free(&p->packed);
	atomic_store(&p->taken, false);
}

/* One step, which waits for the threads where they have enough to do. Returns what is still to come out. */
static size_t step(struct packer *p, ZSTD_inBuffer *in, ZSTD_EndDirective how)
{
	if (!buf_reserve(&p->packed, ZSTD_CStreamOutSize())) {
		p->failed = true;
		return 0;
	}
	ZSTD_outBuffer out = { p->packed.ptr, p->packed.cap - 1, p->packed.len };
	size_t left = ZSTD_compressStream2(p->zstd, &out, in, how);
	p->packed.len = out.pos;
	p->failed = ZSTD_isError(left);
	return left;
}

bool packer_feed(struct packer *p, struct buf *answer, bool bounded)
{
	if (p->failed || answer->len <= FED_AT_ONCE)
		return !p->failed;
	ZSTD_inBuffer in = { answer->ptr, answer->len - 1, 0 };
	while (!p->failed && in.pos < in.size)
		step(p, &in, ZSTD_e_continue);
	if (p->failed)
		return false;
	p->fed += in.pos;
	answer->ptr[0] = answer->ptr[in.pos];
	answer->ptr[1] = 0;
	answer->len = 1;
	answer->overflow |= bounded && p->fed > (answer->max ? answer->max : BUF_DEFAULT_MAX);
	return true;
}

#define TAKEN_OUT ((size_t)2 << 20) /* bytes that are worth a write */

bool packer_take_out(struct packer *p, struct buf *ret)
{
	if (p->failed || p->packed.len < TAKEN_OUT)
		return false;
	*ret = p->packed;
	p->packed = (struct buf){ 0 };
	return true;
}

bool packer_has(const struct packer *p)
{
	return p && p->fed;
}

bool packer_end(struct packer *p, struct view rest, struct buf *ret)
{
	ZSTD_inBuffer in = { rest.ptr, rest.len, 0 };
	while (!p->failed && step(p, &in, ZSTD_e_end))
		;
	if (p->failed)
		return false;
	*ret = p->packed;
	p->packed = (struct buf){ 0 };
	return true;
}
