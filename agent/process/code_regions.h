/* SPDX-License-Identifier: Apache-2.0 */
/* Names of executable memory that has no file, as far as the kernel tells them: "anonymous memory", "[anon:yjit]", "/memfd:doublemapper",
 * "/dev/zero". A program chooses some of them, so their number and length are limited, and digits, which often are a process's own, are
 * left out. Drain thread only. */
#ifndef PYRRHA_AGENT_CODE_REGIONS_H
#define PYRRHA_AGENT_CODE_REGIONS_H

#include <stdint.h>

#define REGIONS_MAX 64
#define REGION_NAME_MAX 40
#define REGION_ANONYMOUS 0           /* no name */
#define REGION_OTHER 1               /* names beyond REGIONS_MAX */

struct code_regions {
	unsigned n;                  /* 0: only the two above */
	char names[REGIONS_MAX][REGION_NAME_MAX];
};

/* The number of a region by its path in a record or in /proc/PID/maps; below REGIONS_MAX. */
uint8_t code_regions_id(struct code_regions *r, const char *path);
/* The name of a number that was given; valid as long as r. */
const char *code_regions_name(const struct code_regions *r, uint8_t id);

#endif
