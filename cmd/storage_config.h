/* SPDX-License-Identifier: Apache-2.0 */
/* The section `storage` of the server's file, and the flag that says the same: how long what matches a selector is kept.
 *
 *	storage:
 *	  retention:
 *	    - selector: '{namespace="dev"}'
 *	      time: 2d
 */
#ifndef PYRRHA_CMD_STORAGE_CONFIG_H
#define PYRRHA_CMD_STORAGE_CONFIG_H

#include "base/opts.h"
#include "config/config.h"
#include "tsdb/tsdb.h"

struct storage_config;

/* For the file; warn may be NULL. Returns owned. */
int storage_config_parse(struct storage_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text),
			 void *warn_arg, struct err *e) MUST_USE;
/* For the flags: each '{namespace="dev"}: 2d'. */
int storage_config_flags(struct storage_config **ret, const struct opt_list *flags, struct err *e) MUST_USE;
void storage_config_free(struct storage_config *c);
/* Hands the rules of both (each may be NULL) to the storage. */
int storage_config_apply(const struct storage_config *file, const struct storage_config *flags, struct tsdb *db, struct err *e) MUST_USE;
/* The output of --config.check. */
void storage_config_check(const struct storage_config *c, struct buf *out);

#endif
