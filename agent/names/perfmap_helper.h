/* SPDX-License-Identifier: Apache-2.0 */
/* A process that opens and reads targets' perf-maps, because a target chooses the file: a FIFO, an endless file, a file system that
 * never answers. It has a deadline for each map, and is killed and replaced when it misses it. A process whose map caused that is
 * skipped for a while, twice as long each time. Not thread-safe: the caller has a lock.
 *
 * The file must be a regular file of the target's own user, reached in the target's root without a symbolic link as the last
 * component. */
#ifndef PYRRHA_AGENT_PERFMAP_HELPER_H
#define PYRRHA_AGENT_PERFMAP_HELPER_H

#include "base/err.h"

#define PERFMAP_DEADLINE_MS 2000
#define PERFMAP_BUSY_MS 10000 /* while it waits for nothing but a CPU */
#define PERFMAP_BYTES_AT_ONCE ((uint64_t)8 << 20) /* what fits into the deadline on a busy host */

struct perfmap_helper;

/* Its results; the counts of all are metrics. */
enum perfmap_result {
	PERFMAP_READ,
	PERFMAP_ABSENT,          /* no such file, or the process is gone */
	PERFMAP_NOT_REGULAR,     /* a FIFO, a link, a folder */
	PERFMAP_OTHER_OWNER,     /* not the target's user's */
	PERFMAP_TOO_LARGE,       /* read, up to the limit */
	PERFMAP_TIMEOUT,         /* it hung */
	PERFMAP_FAILED,          /* no helper, no room, an error of reading */
	PERFMAP_SKIPPED,         /* it hung before, and was not tried again yet */
	PERFMAP_RESULTS
};
extern const char *const perfmap_result_names[PERFMAP_RESULTS];

struct perfmap_file {
	uint64_t dev, ino;       /* of what was copied; 0 = nothing yet */
	uint64_t copied;         /* bytes of it in the copy */
	bool begun_anew;
};

struct perfmap_helper *perfmap_helper_new(void);
void perfmap_helper_free(struct perfmap_helper *h);
/* Copies what the process's map has beyond f->copied to `copy`, at most PERFMAP_BYTES_AT_ONCE of it and max
 * bytes in all, and updates f; the copy is started again (f->begun_anew) if the map is another file or was rewritten. After PERFMAP_TIMEOUT and
 * PERFMAP_FAILED the content of the copy is unknown. */
enum perfmap_result perfmap_helper_copy(struct perfmap_helper *h, uint32_t pid, int copy, uint64_t max, struct perfmap_file *f);
const uint64_t *perfmap_helper_counts(const struct perfmap_helper *h);

#endif
