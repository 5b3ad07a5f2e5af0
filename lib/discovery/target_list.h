/* SPDX-License-Identifier: Apache-2.0 */
/* The targets of one group under construction, with all memory that their labels borrow. Bounded: what another program answers decides
 * how many there are. */
#ifndef PYRRHA_DISCOVERY_TARGET_LIST_H
#define PYRRHA_DISCOVERY_TARGET_LIST_H

#include "base/arena.h"
#include "discovery/discovery.h"

#define TARGET_LIST_BYTES ((size_t)128 << 20)
#define TARGET_LABELS_MAX 1024

struct target_list {
	struct arena arena;       /* of finished targets */
	VEC(struct labels) v;
	struct labels_builder b;  /* of the target that is being put together */
	struct arena words;       /* of that target: names and values that were made up */
	bool too_large;           /* something was left out; target_list_emit says so */
};

void target_list_init(struct target_list *t);
void target_list_free(struct target_list *t);

/* A label of the target that is being put together; borrows both until target_list_add. An empty value: none. */
void target_set(struct target_list *t, struct view name, struct view value);
void target_set_text(struct target_list *t, const char *name, const char *value);
void target_set_int(struct target_list *t, const char *name, int64_t value);
/* prefix, then key, in which each character that no label name may have becomes '_'; the key is valid UTF-8. */
void target_set_keyed(struct target_list *t, const char *prefix, const char *key, struct view value);
/* __address__: "host:port", or "[host]:port". port < 0: the host alone. */
void target_set_address(struct target_list *t, const char *host, int64_t port);
/* The target is finished; the next one begins without labels. */
void target_list_add(struct target_list *t);
/* Or it is none; the next one begins. */
void target_list_drop(struct target_list *t);

/* Emits them as one group. ERR_LIMIT: they were too many or too large, nothing is emitted. */
int target_list_emit(struct target_list *t, const char *source, struct labels common, const struct discovery_emit *emit,
		     struct err *e) MUST_USE;

#endif
