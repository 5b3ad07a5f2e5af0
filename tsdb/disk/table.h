/* SPDX-License-Identifier: Apache-2.0 */
/* A table file of RocksDB, read block by block without RocksDB. So intact blocks beside a damaged one are read, and so is a file whose
 * index or footer is damaged. */
#ifndef PYRRHA_TSDB_TABLE_H
#define PYRRHA_TSDB_TABLE_H

#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

struct table_loss {
	uint64_t blocks;  /* of data that cannot be read */
	bool index;       /* the footer or the index is damaged: blocks were found without them, up to the first that cannot be read */
};

typedef int table_fn(void *arg, struct view key, struct view value, struct err *e);

/* Calls fn for each value that can be read, in the file's order: ascending by key, the newest of a key first. The arguments of fn are
 * valid until it returns; a negative code ends the reading. ERR_NOT_FOUND, ERR_IO, ERR_LIMIT: the file itself cannot be opened or read
 * into memory. */
int table_each(const char *path, table_fn *fn, void *arg, struct table_loss *ret, struct err *e) MUST_USE;

/* separator: not below the block's last key, and below the first key of the next block. size: with the trailer. */
typedef int table_block_fn(void *arg, struct view separator, uint64_t offset, uint64_t size, struct err *e);

/* Reads only the footer and the index, and calls fn for each block of data in the file's order; an error of fn ends it and is returned.
 * The blocks lie one behind the other from offset 0 on. ERR_CORRUPT: the footer or the index is damaged; ERR_LIMIT: the index is too large.
 * path is for messages; *ret_size is the size of the file. */
int table_each_block(int fd, const char *path, table_block_fn *fn, void *arg, uint64_t *ret_size, struct err *e) MUST_USE;

#endif
