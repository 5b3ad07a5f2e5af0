/* SPDX-License-Identifier: Apache-2.0 */
/* /targets.json: the containers of this host, one target each, as Prometheus's http_sd_configs read them. A scraper that
 * follows its labels pulls the profile of that container alone. */
#ifndef PYRRHA_AGENT_TARGETS_H
#define PYRRHA_AGENT_TARGETS_H

#include "agent/labels/groups.h"

/* Those sampled since, that no rule drops. address is "host:port" where the agent is reached. */
void targets_json(struct sampled_groups *gs, int64_t since_mono_ms, struct view address, struct buf *out);

#endif
