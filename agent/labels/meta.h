/* SPDX-License-Identifier: Apache-2.0 */
/* __meta_* labels, which only relabelling rules see: named as parca-agent's, so that its rules work here. Labels that need an extra
 * file are computed only if a rule uses them. Drain thread only. */
#ifndef PYRRHA_AGENT_META_H
#define PYRRHA_AGENT_META_H

#include "agent/labels/agent_config.h"
#include "agent/labels/cgroup.h"
#include "agent/labels/containers.h"
#include "agent/process/process_info.h"
#include "model/labels.h"

/* Command lines are cut there, with "…" at the end. */
#define META_CMDLINE_MAX 4096
/* Limits of an environment, and of a variable's value. */
#define META_ENVIRON_MAX (256 << 10)
#define META_ENV_VALUE_MAX 4096

struct meta;

/* env_vars: names of environment variables that rules may see (__meta_env_var_NAME); no others are. Borrowed. show_secrets: of
 * command lines and variables also what redact.h leaves out. */
struct meta *meta_new(const char *const *env_vars, size_t n_env_vars, bool show_secrets);
void meta_free(struct meta *m);
/* Rules that will look at the labels; borrowed, NULL = none. */
void meta_use(struct meta *m, const struct agent_config *c);

/* Labels that all processes of the host share; node is borrowed. */
void meta_add_host(const struct meta *m, struct labels_builder *b, struct view node);
/* Labels that all processes of a container share; strings of `info` and `names` are borrowed, others are in the arena. */
void meta_add_group(struct labels_builder *b, struct arena *a, const struct cgroup_info *info,
		    const struct container_names *names, struct view node);
/* The process's own labels. */
void meta_add_process(struct meta *m, struct labels_builder *b, struct arena *a, const struct process_info *p);
/* The names of all labels that differ between processes of one container; NULL ends them. Without those of environment variables, and
 * with. */
extern const char *const meta_process_names[];
const char *const *meta_names(const struct meta *m);

/* "app.kubernetes.io/name" -> PREFIX "app_kubernetes_io_name", in the arena; {NULL, 0} past its cap. */
struct view meta_label_name(struct arena *a, const char *prefix, struct view key);
/* v with what is no UTF-8 replaced by U+FFFD: v itself, or a copy in the arena. */
struct view meta_text(struct arena *a, struct view v);

#endif
