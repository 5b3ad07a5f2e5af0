/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of docker_sd_configs: making targets of containers. */
#ifndef PYRRHA_DISCOVERY_SD_DOCKER_H
#define PYRRHA_DISCOVERY_SD_DOCKER_H

#include "discovery/answer.h"
#include "discovery/target_list.h"

struct docker_options {
	int64_t port;                     /* of containers without one */
	const char *host_networking_host; /* the address of containers on the host's network */
	bool match_first_network;         /* of several networks the first by name, else all */
};

/* Adds a target for each network and TCP port of each container. Both are lists, as /containers/json and /networks
 * answer; strings are borrowed from them. */
int docker_targets(struct target_list *t, const struct docker_options *o, json_t *containers, json_t *networks, struct err *e)
	MUST_USE;

#endif
