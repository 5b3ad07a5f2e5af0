/* SPDX-License-Identifier: Apache-2.0 */
/* What this process knows about its own code, once: images and rules under one lock, names under another, so that reading debug
 * information delays no tick. */
#ifndef PYRRHA_SELFPROF_OWN_CODE_H
#define PYRRHA_SELFPROF_OWN_CODE_H

#include <pthread.h>

#include "base/lock.h"
#include "selfprof/stacks.h"
#include "unwind/own_unwind.h"

struct own_code {
	struct mutex unwinding;      /* images, unwind */
	struct own_images images;
	struct own_unwind unwind;
	struct mutex naming;         /* names */
	struct own_names names;
};

/* Made at the first call; never freed. */
struct own_code *own_code(void);
/* Looks up the names of the stacks from number *named on, so that own_code_profile finds them. A CPU profile does so while it
 * measures; otherwise this CPU time would be missing in the profile. */
void own_code_name(struct own_code *c, const struct stacks *s, size_t *named) EXCLUDES(c->naming, c->unwinding);
/* stacks_to_profile under the locks that it needs. */
int own_code_profile(struct own_code *c, const struct stacks *s, const struct stacks_form *form, struct profile *out, struct err *e) MUST_USE
	EXCLUDES(c->naming, c->unwinding);

#endif
