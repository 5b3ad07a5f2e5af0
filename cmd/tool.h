/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands of pyrtool. A command returns the exit status: 0 good, 1 the answer is no or it failed, 2 it was called
 * wrongly. */
#ifndef PYRRHA_CMD_TOOL_H
#define PYRRHA_CMD_TOOL_H

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opts.h"

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

struct tool_command {
	const char *name;      /* "top", "query instant" */
	const char *arguments; /* "FILE..." */
	const char *summary;
	int (*run)(int argc, char **argv); /* argv[0] is the name */
};

int tool_top(int argc, char **argv);
int tool_diff(int argc, char **argv);
int tool_folded(int argc, char **argv);
int tool_merge(int argc, char **argv);
int tool_check_config(int argc, char **argv);
int tool_check_web_config(int argc, char **argv);
int tool_check_discovery(int argc, char **argv);
int tool_check_rules(int argc, char **argv);
int tool_backfill_rules(int argc, char **argv);
int tool_try_rules(int argc, char **argv);
int tool_make_login(int argc, char **argv);
int tool_test_rules(int argc, char **argv);
int tool_test_language(int argc, char **argv);
int tool_query_instant(int argc, char **argv);
int tool_query_range(int argc, char **argv);
int tool_tsdb_verify(int argc, char **argv);
int tool_tsdb_stats(int argc, char **argv);
int tool_tsdb_notes(int argc, char **argv);
int tool_tsdb_dump(int argc, char **argv);
int tool_tsdb_export(int argc, char **argv);
int tool_tsdb_import(int argc, char **argv);
int tool_bucket_ls(int argc, char **argv);
int tool_bucket_stats(int argc, char **argv);
int tool_bucket_verify(int argc, char **argv);
int tool_bucket_get(int argc, char **argv);
int tool_bucket_adopt(int argc, char **argv);
int tool_bucket_gc(int argc, char **argv);

/* Parses flags of a command (and --help) and leaves the words in argv[1..*ret_words]. False: the command ends with
 * *ret_status. */
bool tool_flags(const struct tool_command *c, struct opt *table, size_t n, int argc, char **argv, int *ret_words,
		int *ret_status);
/* For --output: "json" or "text"; false: the error was printed. */
bool tool_json(const char *name, const char *output, bool *ret_json);
/* "pyrtool NAME: message" on standard error; returns TOOL_FAILED. */
int tool_fail(const char *name, const struct err *e);
/* Writes it all; TOOL_OK or TOOL_FAILED. */
int tool_print(const struct buf *b);
/* tool_query.c: a question to a server. A form is made by tool_put_param; its answer is NULL (what is wrong was told, in the name of the
 * command) or one of success: owned, json_decref. Its text goes into ret_body. */
struct json_t;
struct tool_server {
	const char *url;
	const char *http_config_file; /* NULL or "": no login needed */
};
/* The row of its flag. */
#define TOOL_HTTP_CONFIG(at) \
	{ "http.config.file", OPT_STRING, at, "<file>", "TLS and login for the server, as promtool reads them: basic_auth, authorization, tls_config ..." }
void tool_put_param(struct buf *form, const char *name, const char *value);
struct json_t *tool_ask(const char *name, const struct tool_server *server, const char *path, const struct buf *form, int64_t timeout_ms, struct buf *ret_body);
/* Its warnings and infos, on standard error. */
void tool_put_notes(const struct json_t *answer);
/* The labels of a series of an answer, as the language writes them. */
void tool_put_series_name(struct buf *out, const struct json_t *metric);
/* The row of a command in the table; aborts if there is none. */
const struct tool_command *tool_command(const char *name);

#endif
