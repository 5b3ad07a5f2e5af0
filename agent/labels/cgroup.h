/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the path of a control group: a process's container, pod, and systemd unit. Pure.
 *
 * Only known path formats of runtimes count as containers; a loose pattern for hexadecimal digits would also match host processes. ID
 * is 64 hexadecimal digits:
 *	docker          /docker/ID  .../docker-ID.scope
 *	containerd      .../cri-containerd-ID.scope  ...:cri-containerd:ID  /NAMESPACE/ID below a kubepods or "default" group
 *	CRI-O           .../crio-ID.scope  (crio-conmon-ID.scope is its monitor, on the host's side)
 *	podman          .../libpod-ID.scope  .../libpod-ID
 *	kubelet         .../kubepods.../pod<UID>/ID  and slices kubepods-...-pod<UID with _>.slice
 *	LXC             /lxc/NAME  /lxc.payload.NAME
 *	buildkit        .../buildkit/ID (25 or 64 letters and digits) */
#ifndef PYRRHA_AGENT_CGROUP_H
#define PYRRHA_AGENT_CGROUP_H

#include "base/view.h"

enum cgroup_runtime { CGROUP_RUNTIME_NONE, CGROUP_RUNTIME_DOCKER, CGROUP_RUNTIME_CONTAINERD, CGROUP_RUNTIME_CRIO, CGROUP_RUNTIME_PODMAN,
		      CGROUP_RUNTIME_LXC, CGROUP_RUNTIME_BUILDKIT, CGROUP_RUNTIME_UNKNOWN };

struct cgroup_info {
	struct view path;          /* the group's, without the leading "/.." of a relative one */
	enum cgroup_runtime runtime;
	struct view container_id;  /* or LXC's name */
	struct view candidate;     /* an id below a group of somebody's own (--cgroup-parent, ECS): a container if a runtime
	                            * has files of it (containers_confirm); empty where container_id is not */
	char pod_uid[40];          /* with dashes; "" = no pod */
	bool nested;               /* the container runs inside of one of the pod's containers (docker in docker) */
	struct view unit;          /* systemd's, the innermost that is no container's, no slice and no user's; of what a user's service manager
	                            * starts, user@UID.service, as sd_pid_get_unit and the journal have it; empty = none */
};

/* The text of /proc/PID/cgroup. Pure v2 has one line "0::PATH"; on v1 and hybrids the memory controller's line counts, else
 * name=systemd, else the first. False: there is no usable line. Views borrow the text. */
bool cgroup_parse(struct view text, struct cgroup_info *ret);
void cgroup_parse_path(struct view path, struct cgroup_info *ret);

#endif
