/* SPDX-License-Identifier: Apache-2.0 */
/* RocksDB's list of a database's files (CURRENT, MANIFEST), looked at before RocksDB does. */
#ifndef PYRRHA_TSDB_MANIFEST_H
#define PYRRHA_TSDB_MANIFEST_H

#include <stdbool.h>

/* Whether the database has files and no CURRENT, which says what they are. Opened so it would begin anew. */
bool manifest_is_gone(const char *path);
/* Whether the list ends in the middle of an entry or has one that fails its checksum. Of an end that is cut off RocksDB says
 * nothing: it takes the entries before it for all there are, and removes the files that it so does not know. One that is not
 * there, or cannot be read at all, is not said to be damaged: RocksDB will say so. */
bool manifest_is_damaged(const char *path);

#endif
