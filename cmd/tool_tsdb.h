/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands "tsdb ...": opening a storage directory that no server uses, and selecting series. */
#ifndef PYRRHA_CMD_TOOL_TSDB_H
#define PYRRHA_CMD_TOOL_TSDB_H

#include "base/json.h"
#include "base/vec.h"
#include "cmd/tool.h"
#include "promql-like/promql.h"
#include "tsdb/tsdb.h"

/* Series and time. Fill the flags in with SCOPE_FLAGS, then scope_open. */
struct tsdb_scope {
	struct opt_list match;
	const char *start, *end;
	int64_t after_ms, until_ms;
	struct source_view *view;
	VEC(struct source_series) series; /* of all selectors, each once */
};
#define SCOPE_FLAGS(s) \
	{ "match", OPT_LIST, &(s).match, "<selector>", "Only these series; may be repeated. All if not given." }, \
	{ "start", OPT_STRING, &(s).start, "<time>", "From here on, RFC 3339 or Unix seconds." }, \
	{ "end", OPT_STRING, &(s).end, "<time>", "Up to here, included." }

/* Logs from then on go to standard error, warnings and above. read_only: the directory must exist. */
int tool_tsdb_open(struct tsdb **ret, const char *dir, bool read_only, struct err *e) MUST_USE;
int scope_open(struct tsdb_scope *s, struct tsdb *db, struct err *e) MUST_USE;
void scope_close(struct tsdb_scope *s);

#endif
