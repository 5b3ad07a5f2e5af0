/* SPDX-License-Identifier: Apache-2.0 */
/* Any JSON as an object of a Kubernetes API server: packed as it is kept, and made into the targets of each role, where whatever
 * else is looked up is that object as well. What is kept makes the same targets as the whole object. */
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

static void compare(enum kube_sd_kind role, const json_t *object)
{
	struct buf packed = { 0 };
	kube_sd_pack(role, false, object, &packed);
	json_t *kept = json_loadb(buf_view(&packed).ptr, packed.len, 0, NULL);
	REQUIRE(kept, "what is kept is not JSON: %s", buf_view(&packed).ptr);
	const struct discovery_group *one = make(role, object, object), *two = make(role, kept, object);
	REQUIRE(!one == !two, "only one of them makes a group: %s", packed.ptr);
	if (one) {
		REQUIRE(discovery_group_eq(one, two), "what is kept makes other targets: %s", packed.ptr);
		discovery_group_unref(one);
		discovery_group_unref(two);
	}
	json_decref(kept);
	buf_free(&packed);
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
