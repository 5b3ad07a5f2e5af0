/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what Docker and Consul answer: a list of containers and of networks, {"containers": [], "networks": []}, or of
 * instances of a service. What is refused says why; what is taken in makes targets of proper labels. */
#include "discovery/sd_consul.h"
#include "discovery/sd_docker.h"
#include "tests/fuzz/sd.h"

const char fuzz_target[] = "sdanswers";

static void check_group(void *arg, const struct discovery_group *g)
{
	sd_check_group(g);
}

/* After what was read into t. */
static void check(struct target_list *t, int rc, const struct err *e)
{
	struct discovery_emit emit = { .group = check_group };
	struct err over = { 0 };
	REQUIRE(!rc || e->msg[0], "an error without words");
	if (!rc && target_list_emit(t, "source", (struct labels){ 0 }, &emit, &over))
		REQUIRE(over.msg[0], "an error without words");
}

static void read_docker(json_t *containers, json_t *networks, const struct docker_options *o)
{
	struct target_list t;
	struct err e = { 0 };
	target_list_init(&t);
	int rc = docker_targets(&t, o, containers, networks, &e);
	check(&t, rc, &e);
	target_list_free(&t);
}

static void read_consul(json_t *instances)
{
	struct target_list t;
	struct err e = { 0 };
	target_list_init(&t);
	int rc = consul_targets(&t, ",", instances, &e);
	check(&t, rc, &e);
	target_list_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	json_t *j = NULL;
	struct err e = { 0 };
	if (n > 1 << 14)
		return 0;
	if (answer_parse(&j, view_make((const char *)data, n), &e)) {
		REQUIRE(e.msg[0], "an error without words");
		return 0;
	}
	json_t *containers = json_object_get(j, "containers"), *networks = json_object_get(j, "networks");
	if (json_is_array(containers) && json_is_array(networks)) {
		read_docker(containers, networks, &(struct docker_options){ 80, "localhost", true });
		read_docker(containers, networks, &(struct docker_options){ 80, "localhost", false });
	}
	if (json_is_array(j))
		read_consul(j);
	json_decref(j);
	return 0;
}
