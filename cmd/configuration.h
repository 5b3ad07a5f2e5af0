/* SPDX-License-Identifier: Apache-2.0 */
/* The server's configuration file: read, checked as a whole, passed to the modules; read again on demand. */
#ifndef PYRRHA_CMD_CONFIGURATION_H
#define PYRRHA_CMD_CONFIGURATION_H

#include "base/buf.h"
#include "base/err.h"
#include "remote/remote_write.h"
#include "rules/notifier/notifier.h"
#include "rules/rules.h"
#include "scraper/scraper.h"
#include "web/web.h"

struct configuration;
struct bucket_config;
struct storage_config;
struct tsdb;
struct promql_engine;
struct fleet;

/* Reads and checks the file; its warnings are logged. expand_env: see config/config_expand.h. Registers pyrrha_config_*. */
int configuration_load(struct configuration **ret, const char *path, bool expand_env, struct err *e) MUST_USE;
/* Ends the watch, too. */
void configuration_free(struct configuration *c);
/* Reloads, from a thread of its own, when the files that were read last hold something else; looks each interval, and when
 * something happens in their folders. A content that is refused is logged and counted once. */
int configuration_watch(struct configuration *c, int64_t interval_ms, struct err *e) MUST_USE;
void configuration_unwatch(struct configuration *c);
/* From now on the scraper gets what is read: at once, and on each reload. */
int configuration_apply_to(struct configuration *c, struct scraper *s, struct err *e) MUST_USE;
/* No more of it, nor of the jobs that objects of clusters make. Before scraper_stop. */
void configuration_leave_scraper(struct configuration *c);
/* The same for what the file and the flags (borrowed until the end) say about the storage. */
int configuration_apply_to_storage(struct configuration *c, struct tsdb *db, const struct storage_config *flags, struct err *e) MUST_USE;
/* And for what it says about queries; g is borrowed until the end. */
void configuration_apply_to_engine(struct configuration *c, struct promql_engine *g);
/* And the other servers of the section query. */
int configuration_apply_to_fleet(struct configuration *c, struct fleet *f, struct err *e) MUST_USE;
/* And the Alertmanagers of the section alerting. Before the rules. */
int configuration_apply_to_notifier(struct configuration *c, struct notifier *n, struct err *e) MUST_USE;
/* And the receivers of the section remote_write. Before the storage is opened, and w is to outlive its reloads. */
int configuration_apply_to_remote_write(struct configuration *c, struct remote_write *w, struct err *e) MUST_USE;
/* And the rules, from now on. guessed_url: where links of alerts lead if nobody said it, which the log warns of once there are alerts;
 * NULL: somebody did. */
int configuration_apply_to_rules(struct configuration *c, struct rules *r, const char *guessed_url, struct err *e) MUST_USE;
/* No more of it, nor of the fleet, the notifier and remote_write. Before rules_free. */
void configuration_leave_rules(struct configuration *c);
/* All of the new file, or, if anything is wrong with it, all of the old one. Thread-safe. */
int configuration_reload(struct configuration *c, struct err *e) MUST_USE;
/* The section object_storage as it was at the start; valid as long as c. A reload that finds another one says that it waits for a restart. */
const struct bucket_config *configuration_bucket(const struct configuration *c);
/* The text at work, without secrets. Returns owned. */
char *configuration_text(struct configuration *c);
/* global.external_labels at work. Returns owned: one block. */
struct labels *configuration_external_labels(struct configuration *c);
/* Source links of the page's frames. Returns owned: a reference. */
struct source_links *configuration_source_links(struct configuration *c);
void configuration_state(struct configuration *c, struct web_reload_state *ret);
/* --config.check: what the file says, or what is wrong with it. Files of secrets and certificates that it names and that cannot
 * be read are warnings, unless syntax_only. */
int configuration_check(const char *path, bool expand_env, bool syntax_only, struct buf *out, struct err *e) MUST_USE;
/* The targets of one job: scraper_config_discover. */
struct configuration_discovery {
	const char *path, *job;
	bool expand_env;
	int64_t timeout_ms;
};
int configuration_discover(const struct configuration_discovery *d, struct buf *out, struct buf *problems, struct err *e) MUST_USE;

#endif
