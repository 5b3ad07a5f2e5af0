/* SPDX-License-Identifier: Apache-2.0 */
/* curl's memory: malloc's, but for the buffers that exchanges on a loop receive into. curl makes one as a request is sent and keeps it until
 * the answer is whole, mostly seconds of waiting in which nothing lies in it. It must be large, because curl polls, receives and looks at the clock
 * anew for each buffer full; and thousands must not be resident.
 *
 *	region   slot 0 | slot 1 | ...      32 KiB each, reserved at once; what was touched beyond a slot's first page goes back when it is free
 *	spare    numbers of free slots, a stack
 *
 * Any thread. Where there is no region, or no slot left, malloc does. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fetch/fetch_internal.h"

#define SLOT ((size_t)FETCH_READ_BUFFER + 1) /* curl adds one */
#define SLOTS ((uint32_t)32768)
#define KEPT ((size_t)4096)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *region; /* NULL: there is none */
static uint32_t *spare, n_spare, n_taken; /* slots from n_taken on were never used */

static bool is_slot(const void *p)
{
	return region && (uintptr_t)p - (uintptr_t)region < SLOT * SLOTS;
}

static void *take_slot(void)
{
	char *p = NULL;
	pthread_mutex_lock(&lock);
	if (n_spare)
		p = region + SLOT * spare[--n_spare];
	else if (region && n_taken < SLOTS)
		p = region + SLOT * n_taken++;
	pthread_mutex_unlock(&lock);
	return p;
}

static void give_back(char *p)
{
	madvise(p + KEPT, SLOT - KEPT, MADV_DONTNEED);
	pthread_mutex_lock(&lock);
	spare[n_spare++] = (uint32_t)((size_t)(p - region) / SLOT);
	pthread_mutex_unlock(&lock);
}

static void *on_malloc(size_t n)
{
	void *p = n == SLOT ? take_slot() : NULL;
	return p ? p : malloc(n);
}

static void on_free(void *p)
{
	if (is_slot(p))
		give_back(p);
	else
		free(p);
}

static void *on_realloc(void *p, size_t n)
{
	if (!is_slot(p))
		return realloc(p, n);
	void *to = malloc(n);
	if (to) {
		memcpy(to, p, n < SLOT ? n : SLOT);
		give_back(p);
	}
	return to;
}

void fetch_memory_start(void)
{
	void *p = mmap(NULL, SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint32_t *list = p == MAP_FAILED ? NULL : malloc(SLOTS * sizeof *list);
	if (list) {
		madvise(p, SLOT * SLOTS, MADV_NOHUGEPAGE); /* a page of 2 MiB is 64 slots */
		spare = list;
		region = p;
	} else if (p != MAP_FAILED) {
		munmap(p, SLOT * SLOTS);
	}
	curl_global_init_mem(CURL_GLOBAL_DEFAULT, on_malloc, on_free, on_realloc, strdup, calloc);
}
