/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/code_regions.h"

#include <string.h>

#define DELETED " (deleted)"

static const char *const fixed[] = { [REGION_ANONYMOUS] = "anonymous memory", [REGION_OTHER] = "other memory" };
#define FIXED (sizeof fixed / sizeof fixed[0])

/* The path as a name: printable, without numbers, cut where there is no more room. */
static void clean(const char *path, char out[REGION_NAME_MAX])
{
	size_t n = strlen(path), k = 0;

	if (n > strlen(DELETED) && strcmp(path + n - strlen(DELETED), DELETED) == 0)
		n -= strlen(DELETED);
	for (size_t i = 0; i < n && k + 1 < REGION_NAME_MAX; i++) {
		unsigned char c = (unsigned char)path[i];
		if (c >= '0' && c <= '9')
			continue;
		out[k++] = c < 0x20 || c > 0x7e ? '?' : (char)c;
	}
	out[k] = 0;
}

uint8_t code_regions_id(struct code_regions *r, const char *path)
{
	char name[REGION_NAME_MAX];

	if (!*path || strcmp(path, "//anon") == 0)
		return REGION_ANONYMOUS;
	clean(path, name);
	for (unsigned i = 0; i < r->n; i++)
		if (strcmp(r->names[i], name) == 0)
			return (uint8_t)(FIXED + i);
	if (FIXED + r->n >= REGIONS_MAX)
		return REGION_OTHER;
	memcpy(r->names[r->n], name, sizeof name);
	return (uint8_t)(FIXED + r->n++);
}

const char *code_regions_name(const struct code_regions *r, uint8_t id)
{
	return id < FIXED ? fixed[id] : r->names[id - FIXED];
}
