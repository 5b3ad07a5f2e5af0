/* SPDX-License-Identifier: Apache-2.0 */
/* A MANIFEST is made of blocks of 32 KiB (db/log_format.h of RocksDB; the format has been the same since LevelDB):
 *
 *	block   := record* zeros      fewer than 7 bytes are left over
 *	record  := checksum u32, length u16 (both little-endian), type u8, bytes
 *	type    := 1 whole, 2 first, 3 middle or 4 last piece of an entry
 *
 * The checksum is CRC-32C of type and bytes, turned right by 15 bits, plus 0xa282ead8. */
#include "tsdb/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/view.h"
#include "tsdb/files.h"

#define BLOCK 32768
#define HEADER 7
#define MAX_BYTES (256 << 20) /* of a list that is looked at; they are begun anew after 4 MiB */

enum { WHOLE = 1, FIRST, MIDDLE, LAST };

static int has_file(void *arg, const char *name, struct err *e)
{
	struct view v = view_of(name);
	(void)e;
	*(bool *)arg |= view_ends(v, VIEW(".sst")) || view_ends(v, VIEW(".log"));
	return 0;
}

bool list_is_gone(const char *path)
{
	AUTOFREE char *current = xasprintf("%s/CURRENT", path);
	bool any = false;
	if (access(path, F_OK) || access(current, F_OK) == 0 || errno != ENOENT)
		return false;
	files_each(path, has_file, &any, NULL);
	return any;
}

static uint32_t crc32c(const uint8_t *p, size_t n)
{
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~crc;
}

static uint32_t get_le(const uint8_t *p, int bytes)
{
	uint32_t v = 0;
	for (int i = bytes; i--;)
		v = v << 8 | p[i];
	return v;
}

static bool is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static bool is_whole(const uint8_t *p, size_t n)
{
	bool within = false;
	size_t at = 0;
	while (at < n) {
		size_t left = BLOCK - at % BLOCK;
		if (left < HEADER) {
			at += left;
			continue;
		}
		if (is_zero(p + at, n - at))
			break; /* room made beforehand */
		if (n - at < HEADER)
			return false;
		size_t len = get_le(p + at + 4, 2);
		uint8_t type = p[at + 6];
		uint32_t crc = len <= n - at - HEADER && len <= left - HEADER ? crc32c(p + at + 6, 1 + len) : 0;
		if (!type || len > n - at - HEADER || len > left - HEADER ||
		    get_le(p + at, 4) != (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8))
			return false;
		at += HEADER + len;
		if (type > LAST)
			continue;
		if (within != (type == MIDDLE || type == LAST))
			return false;
		within = type == FIRST || type == MIDDLE;
	}
	return !within;
}

/* The whole file; NULL if it cannot be read. */
static uint8_t *read_all(const char *name, size_t *ret_n)
{
	struct stat st;
	uint8_t *bytes = NULL;
	ssize_t n = 1;
	size_t got = 0;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= MAX_BYTES) {
		bytes = xmalloc((size_t)st.st_size + 1);
		while (got < (size_t)st.st_size && (n = read(fd, bytes + got, (size_t)st.st_size - got)) > 0)
			got += (size_t)n;
		if (got < (size_t)st.st_size) {
			free(bytes);
			bytes = NULL;
		}
	}
	if (fd >= 0)
		close(fd);
	*ret_n = got;
	return bytes;
}

bool list_is_damaged(const char *path)
{
	AUTOFREE char *current = xasprintf("%s/CURRENT", path);
	size_t n, len;
	AUTOFREE char *name = (char *)read_all(current, &n);
	if (!name || n < 2 || n > 64 || name[n - 1] != '\n' || strncmp(name, "MANIFEST-", 9))
		return false;
	AUTOFREE char *file = xasprintf("%s/%.*s", path, (int)(n - 1), name);
	AUTOFREE uint8_t *list = read_all(file, &len);
	return list && !is_whole(list, len);
}
