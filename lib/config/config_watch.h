/* SPDX-License-Identifier: Apache-2.0 */
/* --config.auto-reload: a thread that has the configuration read again when its files hold something else than at the last
 * reading, good or bad. It looks when something happens in their folders, and each interval. Files that are being written
 * are left alone until they have been the same for a moment. */
#ifndef PYRRHA_CONFIG_CONFIG_WATCH_H
#define PYRRHA_CONFIG_CONFIG_WATCH_H

#include "config/config_sources.h"

struct config_watch_options {
	int64_t interval_ms;
	/* The files of the last reading. From the watch's thread. */
	void (*sources)(void *arg, struct config_sources *ret);
	/* They hold something else. Whatever the result, `sources` has what was read. */
	void (*reload)(void *arg);
	void *arg;
};

struct config_watch;

int config_watch_start(struct config_watch **ret, const struct config_watch_options *o, struct err *e) MUST_USE;
/* Waits for a reload that is under way. NULL is fine. */
void config_watch_stop(struct config_watch *w);

#endif
