/* SPDX-License-Identifier: Apache-2.0 */
/* RocksDB's list of a database's files (CURRENT, MANIFEST), looked at before RocksDB does. */
#ifndef PYRRHA_TSDB_MANIFEST_H
#define PYRRHA_TSDB_MANIFEST_H

#include <stdbool.h>

/* Whether the database has files and no CURRENT, which says what they are. If it were opened, RocksDB would start an empty
 * database. */
bool manifest_is_gone(const char *path);
/* Whether the list ends in the middle of an entry or has one that fails its checksum. RocksDB does not report a truncated end: it
 * accepts the entries before it as complete, and removes the files that it then does not know. A missing or unreadable one does not
 * count as damaged: RocksDB reports it. */
bool manifest_is_damaged(const char *path);

#endif
