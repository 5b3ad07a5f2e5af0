/* SPDX-License-Identifier: Apache-2.0 */
/* The sections `aliases` and `replica_labels` of the server's file: what queries call things.
 *
 *	aliases: {rust_cpu: 'rust:samples:count:cpu:nanoseconds:delta'}
 *	replica_labels: [replica]
 */
#ifndef PYRRHA_CMD_QUERY_CONFIG_H
#define PYRRHA_CMD_QUERY_CONFIG_H

#include "config/config.h"
#include "promql-like/promql.h"

struct query_config;

/* For the file; warn may be NULL. Returns owned. */
int query_config_parse(struct query_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text), void *warn_arg,
		       struct err *e) MUST_USE;
void query_config_free(struct query_config *c); /* NULL does nothing */
void query_config_apply(const struct query_config *c, struct promql_engine *g);
/* The output of --config.check. */
void query_config_check(const struct query_config *c, struct buf *out);

#endif
