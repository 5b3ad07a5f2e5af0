/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of dns_sd_configs: the servers (resolv.conf), sending queries, and reading answers. */
#ifndef PYRRHA_DISCOVERY_SD_DNS_H
#define PYRRHA_DISCOVERY_SD_DNS_H

#include <stdatomic.h>

#include "discovery/target_list.h"

#define DNS_MAX_SERVERS 7 /* c-ares tells of 15 sockets; each server may have two */
#define DNS_MAX_SEARCH 32
#define DNS_RESOLV_CONF "/etc/resolv.conf"

/* resolv.conf(5), as far as it means something here. */
struct dns_conf {
	struct arena arena;
	const char *servers[DNS_MAX_SERVERS];
	size_t n_servers;
	const char *search[DNS_MAX_SEARCH];
	size_t n_search;
	int ndots, timeout_ms, attempts;
	uint16_t port;
};

int dns_conf_read(struct dns_conf *ret, const char *path, struct err *e) MUST_USE;
void dns_conf_parse(struct dns_conf *ret, struct view text);
void dns_conf_free(struct dns_conf *c);
/* The names to ask for in turn, in the conf's arena, each ended by a dot; returns how many. */
size_t dns_conf_names(struct dns_conf *c, const char *name, const char *ret[DNS_MAX_SEARCH + 1]);

/* Asks for all names at once, on the caller's thread, until each is answered or *cancel is set. done is called once for each name, in
 * any order: with e NULL and the answer (n 0: no such name, or no such record); or with e, and the answer is unknown. Per name: the
 * first of its spellings that exists counts. It does not exist only if servers say so for all spellings. */
struct dns_questions {
	struct dns_conf *conf;
	int type;                   /* ns_t_srv ... */
	const char *const *names;
	size_t n;
	const atomic_bool *cancel;
	void (*done)(void *arg, size_t i, const unsigned char *answer, size_t n, const struct err *e);
	void *arg;
};
int dns_ask(const struct dns_questions *q, struct err *e) MUST_USE;

/* Adds a target for each record of that type that the message answers with. port is not looked at for SRV. */
int dns_read_answer(struct target_list *t, const unsigned char *msg, size_t n, int type, const char *name, int64_t port,
		    struct err *e) MUST_USE;

#endif
