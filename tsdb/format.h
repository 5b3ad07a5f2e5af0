/* SPDX-License-Identifier: Apache-2.0 */
/* The file `version` of a storage directory: which format it has. Private. */
#ifndef PYRRHA_TSDB_FORMAT_H
#define PYRRHA_TSDB_FORMAT_H

#include "base/err.h"

struct tsdb;

/* Says this program's format in dir. */
int format_write(const char *dir, struct err *e) MUST_USE;
/* Whether this program reads the directory that is being opened; writes the file if it is missing, older or damaged. ERR_CORRUPT: a
 * newer program wrote it. ERR_NOT_FOUND: it is opened read_only, and is no storage. */
int format_check(struct tsdb *db, struct err *e) MUST_USE;

#endif
