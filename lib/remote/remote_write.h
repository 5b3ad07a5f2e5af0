/* SPDX-License-Identifier: Apache-2.0 */
/* Remote-write 1.0, sending: every float that the storage accepts is sent to the receivers of the section `remote_write`.
 * write_relabel_configs select and relabel them; external labels are added where absent. Profiles are never sent. Waiting floats are
 * on disk, a queue for each receiver, so an unavailable receiver or a restart neither loses nor repeats any. */
#ifndef PYRRHA_REMOTE_REMOTE_WRITE_H
#define PYRRHA_REMOTE_REMOTE_WRITE_H

#include "config/config.h"
#include "model/tap.h"

struct remote_write_config;

/* The section `remote_write`, and external_labels. Returns owned (one reference). */
int remote_write_config_parse(struct remote_write_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text),
			      void *warn_arg, struct err *e) MUST_USE;
struct remote_write_config *remote_write_config_ref(struct remote_write_config *c);
void remote_write_config_unref(struct remote_write_config *c);
/* A line for each receiver, for --config.check. */
void remote_write_config_check(const struct remote_write_config *c, struct buf *out);

/* Zero means the default in brackets. */
struct remote_write_options {
	const char *dir;           /* of the queues; copied. It is not touched before the tap is opened */
	const char *user_agent;    /* copied ("pyrrha") */
	uint64_t queue_bytes;      /* --remote-write.queue-size: of each receiver, on disk (1 GiB) */
	uint64_t segment_bytes;    /* tests */
};

struct remote_write;

void remote_write_new(struct remote_write **ret, const struct remote_write_options *o);
/* From now on these receivers (a reference is taken). Before the tap is opened: what it begins with. A receiver of a name that was
 * there goes on with its queue; the queues of others are removed with what waits in them. */
int remote_write_apply(struct remote_write *w, struct remote_write_config *c, struct err *e) MUST_USE;
/* For the storage; valid as long as w, and w must outlive the storage. */
struct tap *remote_write_tap(struct remote_write *w);
/* Sends nothing new any more; what is under way has a second. Returns at once. NULL is fine. */
void remote_write_close(struct remote_write *w);
/* Closes it, and puts everything it was handed on disk. */
void remote_write_free(struct remote_write *w);
/* Registers pyrrha_remote_storage_*: once, by main. */
void remote_write_register_metrics(void);

#endif
