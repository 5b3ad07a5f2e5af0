/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

#define TRIES 32u                    /* slots that are looked at */
#define RED_ZONE 128u

enum { PIECE_FREE, PIECE_WRITING, PIECE_READY };

int pieces_init(struct pieces *p, unsigned n, struct err *e)
{
	if (p->v)
		return 0;
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "/proc/self/mem");
	p->states = xcalloc(n, sizeof *p->states);
	void *v = mmap(NULL, n * sizeof *p->v, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (v == MAP_FAILED) {
		close(fd);
		free(p->states);
		return err_errno(e, errno, "%zu bytes for pieces of stack", n * sizeof *p->v);
	}
	p->mem_fd = fd;
	p->n = n;
	p->v = v;
	return 0;
}

struct stack_piece *pieces_claim(struct pieces *p)
{
	unsigned at = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);

	for (unsigned i = 0; i < TRIES; i++) {
		unsigned slot = (at + i) % p->n;
		int is = PIECE_FREE;
		if (!atomic_compare_exchange_strong(&p->states[slot], &is, PIECE_WRITING))
			continue;
		p->v[slot].slot = slot;
		return &p->v[slot];
	}
	return NULL;
}

/* The thread's own block lies above its stack, if the C library made that. */
static size_t stack_bytes(uint64_t from)
{
	uint64_t own = (uint64_t)(uintptr_t)__builtin_thread_pointer();

	return own > from && own - from < PIECE_STACK_MAX ? (size_t)(own - from) : PIECE_STACK_MAX;
}

void pieces_put(struct pieces *p, struct stack_piece *x, uint64_t ip, uint64_t sp, uint64_t fp)
{
	uint64_t from = sp - RED_ZONE;

	x->ip = ip;
	x->sp = sp;
	x->fp = fp;
	/* The system call itself: nothing that stands between it and us (a sanitizer, a cancellation point) has a say here. */
	long n = syscall(SYS_pread64, p->mem_fd, x->stack, stack_bytes(from), from);
	x->n = n > 0 ? (uint32_t)n : 0;
	atomic_store_explicit(&p->states[x->slot], PIECE_READY, memory_order_release);
}

void pieces_take(struct pieces *p, piece_fn *fn, void *arg)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (atomic_load_explicit(&p->states[i], memory_order_acquire) != PIECE_READY)
			continue;
		fn(arg, &p->v[i]);
		atomic_store_explicit(&p->states[i], PIECE_FREE, memory_order_release);
	}
}

void pieces_shrink(struct pieces *p)
{
	madvise(p->v, p->n * sizeof *p->v, MADV_DONTNEED);
}

struct own_stack piece_stack(const struct stack_piece *x)
{
	return (struct own_stack){ x->ip, x->sp, x->fp, x->sp - RED_ZONE, x->stack, x->n };
}
