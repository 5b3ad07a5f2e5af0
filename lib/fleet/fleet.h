/* SPDX-License-Identifier: Apache-2.0 */
/* The servers that queries ask beside this one's storage, as the section `query` of the configuration and discovery have them, and the source that is all of
 * them together.
 *
 *	query.servers ── discovery, relabelling ──► servers ─┐
 *	                                     own storage ────┴─► union ──► engine, web
 *
 * Without query.servers the source is the storage itself: a view of it is the storage's own. A thread, `fleet`, follows discovery, and asks each server that
 * nobody has asked for a minute how it is. */
#ifndef PYRRHA_FLEET_FLEET_H
#define PYRRHA_FLEET_FLEET_H

#include "fleet/call.h"
#include "fleet/fleet_config.h"
#include "model/servers.h"
#include "model/source.h"

struct fleet_options {
	struct source *own;          /* borrowed: this server's storage */
	struct labels *(*labels)(void *arg); /* returns owned (labels_dup) or NULL: the external labels now. They are on the series of `own` in the union */
	fleet_rows_fn rows;          /* for graphs over stacks of `own` (call.h); gets `arg`. May be NULL */
	/* The i-th address that this server listens on ("127.0.0.1:7070", "[::]:7070"); NULL past the last. A server of that address is this one, and left out.
	 * May be NULL. Any thread. */
	const char *(*address)(void *arg, size_t i);
	void *arg;
	uint64_t max_answer_bytes;   /* of one answer of a server; 0 = 256 MiB */
	uint64_t max_dictionary_bytes; /* of the stacks that are kept of one server; 0 = 256 MiB */
	const char *user_agent;      /* copied */
};

struct fleet;

/* Starts nothing yet. Returns owned. */
struct fleet *fleet_new(const struct fleet_options *o);
/* From now on these servers (a reference is taken). One whose address and client did not change keeps its dictionary and its health. Those of
 * static_configs are there when it returns. Any thread. */
int fleet_apply(struct fleet *f, struct fleet_config *c, struct err *e) MUST_USE;
/* What queries read. Valid as long as f. */
struct source *fleet_source(struct fleet *f);
struct status_servers *fleet_status(struct fleet *f);
/* Frees the fleet. No view of its source may be open. NULL does nothing. */
void fleet_free(struct fleet *f);
/* Metrics pyrrha_fleet_servers: once, by main, which frees f after the last look at metrics. */
void fleet_register_metrics(struct fleet *f);

#endif
