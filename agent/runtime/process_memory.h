/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process, read while that runs on. All that is read is hostile: a reader bounds what it reads by the budget that it
 * opens the memory with, and checks each value before it uses it as a length or an address.
 *
 * The file /proc/PID/mem is read, and not process_vm_readv called. An open file stays with the address space that it was opened of,
 * also if the process executes another program or its id is used again. And memory that the process answers for itself (userfaultfd)
 * is an error there, while process_vm_readv waits for the process, for ever if that likes. Pages of a mapped file on a file system
 * that is a process (FUSE) can still keep a reader waiting: none who must not wait reads addresses that the process has set. */
#ifndef PYRRHA_AGENT_PROCESS_MEMORY_H
#define PYRRHA_AGENT_PROCESS_MEMORY_H

#include "base/buf.h"

struct process_memory {
	int fd;                      /* /proc/PID/mem; -1: `bytes` is all there is */
	uint32_t pid;
	uint32_t reads_left, looks_left; /* the budget: calls of the kernel, reads of pages that are kept, */
	uint64_t bytes_left;         /* and bytes */
	bool ended;                  /* a read found that the address space is no more */
	/* What a runtime noted of the process when it was attached to, for its read_code: one block; NULL = nothing. Closing frees it, so
	 * who needs it longer takes it out. */
	void *facts;
	/* Where a runtime keeps what it will need of the process at later readings, one block; NULL: nowhere. Borrowed. */
	void **kept;
	struct process_pages *pages; /* NULL: each read is a call of the kernel */
	struct view bytes;           /* of a test: the memory from address `at` on; borrowed */
	uint64_t at;
};

/* Opens the memory of a process (as this PID namespace numbers it) for that many reads and bytes. ERR_NOT_FOUND: it has ended; ERR_DENIED:
 * CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH is missing. */
int process_memory_open(struct process_memory *ret, uint32_t pid, uint32_t max_reads, uint64_t max_bytes, struct err *e) MUST_USE;
/* For tests: memory that is just these bytes, at that address. */
void process_memory_of_bytes(struct process_memory *ret, struct view bytes, uint64_t at, uint32_t max_reads, uint64_t max_bytes);
void process_memory_close(struct process_memory *m);
/* From now on small reads are of whole pages that are kept until the next budget: the fields of an object, and objects that were made one
 * after the other, lie near each other, and a call of the kernel costs more than a page. Not for who waits for memory to change. */
void process_memory_keep_pages(struct process_memory *m);
/* Reads memory anew, and may do so once more however much was read: is an object still what it was when its reading began? */
void process_memory_look_again(struct process_memory *m);
/* A new budget. Reads of kept pages take no call of the kernel and have a budget of their own, PROCESS_MEMORY_LOOKS for each read: objects of a
 * few pages can lead to each other in more ways than anyone has time for. */
#define PROCESS_MEMORY_LOOKS 16u
void process_memory_allow(struct process_memory *m, uint32_t max_reads, uint64_t max_bytes);

/* Reads n bytes at an address into `to`, all or none. ERR_NOT_FOUND: there is no such memory now, or no process any more (`ended`
 * tells them apart); ERR_LIMIT: the budget is used up. After an error `to` may hold anything. */
int process_memory_read(struct process_memory *m, uint64_t at, void *to, size_t n, struct err *e) MUST_USE;
/* The same of one little-endian word. *ret is untouched after an error. */
int process_memory_u64(struct process_memory *m, uint64_t at, uint64_t *ret, struct err *e) MUST_USE;
int process_memory_u32(struct process_memory *m, uint64_t at, uint32_t *ret, struct err *e) MUST_USE;
int process_memory_u16(struct process_memory *m, uint64_t at, uint16_t *ret, struct err *e) MUST_USE;
/* Adds the n bytes at an address to a buffer. ERR_LIMIT also if its ceiling forbids it. */
int process_memory_append(struct process_memory *m, uint64_t at, size_t n, struct buf *to, struct err *e) MUST_USE;
/* Adds the NUL-terminated string at an address, without its NUL. ERR_LIMIT: it has more than max bytes, or as above. */
int process_memory_string(struct process_memory *m, uint64_t at, size_t max, struct buf *to, struct err *e) MUST_USE;

#endif
