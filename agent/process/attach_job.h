/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel must know of a process's runtime, read on a thread of its own: memory that the process maps from a file system of its
 * own (FUSE) may not answer for as long as the process likes, and the drain thread must not wait for it. The room's own header. */
#ifndef PYRRHA_AGENT_ATTACH_JOB_H
#define PYRRHA_AGENT_ATTACH_JOB_H

#include "agent/image/image.h"
#include "agent/runtime/runtime.h"

#define ATTACH_JOBS_MAX 8            /* threads at a time */
#define ATTACH_PATIENCE_MS 10        /* it takes 1 to 3 ms, unless memory does not answer */

struct attach_job;

/* Begins to read; bias as runtime.attach has it. NULL: too many jobs have not ended yet, or there is no thread. */
struct attach_job *attach_job_start(struct image *im, uint32_t pid, uint64_t bias);
enum runtime_kind attach_job_kind(const struct attach_job *j);
/* Whether it has ended, waits so long for that; *ret_err and *ret are then what runtime.attach, or opening its memory, returned. */
bool attach_job_ended(struct attach_job *j, int64_t patience_ms, int *ret_err, struct runtime_proc *ret);
/* Frees it; its thread goes on if it waits. NULL: nothing. */
void attach_job_free(struct attach_job *j);

/* The same at once, of a runtime whose attach reads no memory of the process. */
int attach_now(const struct runtime_file *f, uint32_t pid, uint64_t bias, struct runtime_proc *ret) MUST_USE;

#endif
