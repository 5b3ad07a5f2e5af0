/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read a web configuration. */
#ifndef PYRRHA_HTTPD_WEB_READING_H
#define PYRRHA_HTTPD_WEB_READING_H

#include "base/buf.h"
#include "config/config.h"
#include "httpd/web_config.h"

struct web_reading {
	struct web_config *w;
	const struct web_config_how *how;
	struct config_ctx ctx;
	struct err first;
	size_t n_problems;
};

/* e's message has its place. */
void web_reading_problem(struct web_reading *r, const struct err *e);
/* Something is wrong with the value of a field. */
void web_reading_wrong(struct web_reading *r, const struct config_node *n, const char *field, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Decodes each key by itself, so that one that is wrong hides no other. The table has neither defaults nor a check. n: may be NULL. */
void web_reading_keys(struct web_reading *r, const char *field, const struct config_table *t, const struct config_node *n, void *at);
/* A file that the configuration names, of at most max bytes. */
int web_reading_file(struct web_reading *r, const char *path, size_t max, struct buf *ret, struct err *e) MUST_USE;

/* web_logins.c: basic_auth_users, user_rights, tokens. The nodes may be NULL. */
void web_logins_read(struct web_reading *r, const struct config_node *users, const struct config_node *rights, const struct config_node *tokens);

#endif
