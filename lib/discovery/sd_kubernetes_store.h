/* SPDX-License-Identifier: Apache-2.0 */
/* The objects known to one kubernetes_sd_config, and the queue of groups to be made again:
 *
 *	entry (an object: kind and key) ◄── in ── edge ── out ── entry (of the role's kind, whose group looked it up)
 *
 * Making a group records an edge to each object that it looked up, found or not. A change of an object queues only that object (if it
 * is of the role's kind) and all objects whose edges point at it. An object is stored as packed text in one piece. If its group needs
 * no other object, only its key and a hash are kept once the group is made.
 *
 * Not thread-safe: the provider locks. */
#ifndef PYRRHA_DISCOVERY_SD_KUBERNETES_STORE_H
#define PYRRHA_DISCOVERY_SD_KUBERNETES_STORE_H

#include "base/map.h"
#include "base/vec.h"
#include "discovery/sd_kubernetes_groups.h"

struct kube_sd_edge;

struct kube_sd_entry {
	uint64_t hash;               /* of kind and key */
	uint64_t packed_hash;
	uint32_t place;              /* in entries */
	uint32_t list, round;        /* the list it came from, and its round of it */
	uint8_t kind;                /* enum kube_sd_kind */
	bool known, queued;          /* whether the object exists */
	bool refused;                /* its group was too large */
	char *packed;                /* NUL-terminated; NULL: let go of, or not known */
	struct kube_sd_edge *in, *out;
	struct kube_sd_entry *next;  /* queued */
	/* while a group is made */
	uint64_t build;              /* which looked it up last */
	json_t *parsed;
	char key[];                  /* "namespace/name", "name" */
};

struct kube_sd_store {
	enum kube_sd_kind role;
	struct map index;            /* hash -> place */
	VEC(struct kube_sd_entry *) entries;
	struct kube_sd_entry *first, *last; /* queue */
	uint64_t builds;
};

enum kube_sd_change { KUBE_SD_SAME, KUBE_SD_ADDED, KUBE_SD_UPDATED };

/* The current object. list: the list that reports it. */
enum kube_sd_change kube_sd_store_put(struct kube_sd_store *s, enum kube_sd_kind kind, struct view key, struct view packed,
				      uint32_t list, uint32_t round);
/* False: it was not known. */
bool kube_sd_store_del(struct kube_sd_store *s, enum kube_sd_kind kind, struct view key);
/* Removes objects that the list reported only in earlier rounds. Returns how many. */
size_t kube_sd_store_sweep(struct kube_sd_store *s, uint32_t list, uint32_t round);

/* The group of one object; its labels borrow from the parsed text. Zeroed before the first use, the arena set up. */
struct kube_sd_made {
	struct arena arena;
	VEC(json_t *) parsed;
	struct discovery_group group;
	int rc;                      /* as of kube_sd_group; then err says why */
	bool again;                  /* as the last time */
	struct err err;
};

/* Takes the next queued object, and makes its group; false = the queue is empty. One that is gone makes a group without targets. The
 * result does not depend on the store any more: it may be told without the lock. */
bool kube_sd_store_next(struct kube_sd_store *s, const struct kube_sd_attach *attach, struct kube_sd_made *ret);
void kube_sd_made_reset(struct kube_sd_made *m);
void kube_sd_store_free(struct kube_sd_store *s);

#endif
