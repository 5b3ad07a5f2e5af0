/* SPDX-License-Identifier: Apache-2.0 */
/* Any JSON as an object of a Kubernetes API server: packed as it is kept, and made into the targets of each role, where whatever
 * else is looked up is that object as well. What is kept makes as many targets as the whole object. */
#include <string.h>

#include "discovery/sd_kubernetes_groups.h"
#include "tests/fuzz/sd.h"

const char fuzz_target[] = "kubesd";

static const json_t *find(void *arg, enum kube_sd_kind kind, struct view ns, struct view name)
{
	return arg;
}

/* NULL: no group can be made of it. */
static const struct discovery_group *make(enum kube_sd_kind role, const json_t *object, const json_t *others)
{
	struct kube_sd_world w = { { true, true, true, true, true }, find, (void *)(uintptr_t)others };
	struct discovery_group g = { .source = "source" };
	const struct discovery_group *copy = NULL;
	struct arena a CLEANUP(arena_free);
	struct err e = { 0 };
	arena_init(&a, 0);
	if (kube_sd_group(role, object, &w, &a, &g, &e)) {
		REQUIRE(e.msg[0], "an error without words");
	} else {
		g.source = "source";
		sd_check_group(&g);
		copy = discovery_group_copy(&g);
	}
	return copy;
}

static json_t *keep(enum kube_sd_kind role, const json_t *object)
{
	struct buf packed = { 0 };
	kube_sd_pack(role, false, object, &packed);
	json_t *kept = json_loadb(buf_view(&packed).ptr, packed.len, 0, NULL);
	REQUIRE(kept, "what is kept is not JSON: %s", buf_view(&packed).ptr);
	buf_free(&packed);
	return kept;
}

/* Of labels whose names become equal the last one wins, and what is kept has an order of its own: so the whole object makes as
 * many targets, and what is kept of what is kept the same ones. */
static void compare(enum kube_sd_kind role, const json_t *object)
{
	json_t *kept = keep(role, object), *again = keep(role, kept);
	const struct discovery_group *whole = make(role, object, object), *one = make(role, kept, object), *two = make(role, again, object);
	REQUIRE(!whole == !one && !one == !two, "only some of them make a group");
	if (whole) {
		REQUIRE(whole->n_targets == one->n_targets, "%zu targets, of what is kept %zu", whole->n_targets, one->n_targets);
		REQUIRE(discovery_group_eq(one, two), "what is kept is not kept");
	}
	discovery_group_unref(whole);
	discovery_group_unref(one);
	discovery_group_unref(two);
	json_decref(kept);
	json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n > 1 << 14)
		return 0;
	json_t *object = json_loadb((const char *)data, n, 0, NULL);
	for (enum kube_sd_kind role = 0; role <= KUBE_SD_INGRESS && json_is_object(object); role++)
		compare(role, object);
	json_decref(object);
	return 0;
}
