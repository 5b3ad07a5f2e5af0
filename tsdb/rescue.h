/* SPDX-License-Identifier: Apache-2.0 */
/* A log whose list of files (CURRENT, MANIFEST) is damaged or gone, made anew from what its files hold. */
#ifndef PYRRHA_TSDB_RESCUE_H
#define PYRRHA_TSDB_RESCUE_H

#include "base/view.h"
#include "tsdb/rocks.h"

/* What becomes of a key and its value: it is not needed or not whole; it goes into the new one; or it says that all others of
 * that key count for nothing. */
enum rescue_verdict { RESCUE_PASS, RESCUE_TAKE, RESCUE_VOID };
typedef enum rescue_verdict rescue_judge(void *arg, const char *key, size_t len, struct view value);

/* path: the database's directory; nobody has it open. Afterwards a new database with o lies there, synced; after an error,
 * or a crash at any time, the old one lies there as it was. What could not be read at all stays in path.bad-STAMP. */
int rescue_log(rocksdb_options_t *o, const char *path, rescue_judge *judge, void *arg, struct err *e);
/* Before path is opened: ends or takes back what a crash cut short. */
int rescue_finish(const char *path, struct err *e);

#endif
