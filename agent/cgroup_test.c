/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/cgroup.h"
#include "agent/containers.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "1b2c3d4e-0000-1111-2222-333344445555"
#define UID_ "1b2c3d4e_0000_1111_2222_333344445555"

static const struct {
	const char *text;
	enum cgroup_runtime runtime;
	const char *id, *pod, *unit;
} cases[] = {
	{ "0::/system.slice/docker-" ID ".scope\n", RUNTIME_DOCKER, ID, "", "" },
	{ "0::/docker/" ID "\n", RUNTIME_DOCKER, ID, "", "" },
	{ "12:pids:/x\n5:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/\n", RUNTIME_DOCKER, ID, "", "" },
	{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
	  RUNTIME_CONTAINERD, ID, UID, "" },
	{ "0::/kubepods/besteffort/pod" UID "/" ID "\n", RUNTIME_UNKNOWN, ID, UID, "" },
	{ "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope\n", RUNTIME_CRIO, ID, UID, "" },
	{ "11:memory:/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID "\n", RUNTIME_CONTAINERD, ID, UID, "" },
	{ "0::/machine.slice/libpod-" ID ".scope/container\n", RUNTIME_PODMAN, ID, "", "" },
	{ "0::/../../system.slice/ssh.service\n", RUNTIME_NONE, "", "", "ssh.service" },
	{ "0::/../cri-containerd-" ID ".scope\n", RUNTIME_CONTAINERD, ID, "", "" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-foo.scope\n", RUNTIME_NONE, "", "", "app-foo.scope" },
	/* host processes that only look like containers */
	{ "0::/system.slice/backup-" ID ".service\n", RUNTIME_NONE, "", "", "backup-" ID ".service" },
	{ "0::/jobs/" ID "\n", RUNTIME_NONE, "", "", "" },
	{ "0::/system.slice/crio-conmon-" ID ".scope\n", RUNTIME_NONE, "", "", "crio-conmon-" ID ".scope" },
	{ "0::/lxc.payload.web1/system.slice/nginx.service\n", RUNTIME_LXC, "web1", "", "nginx.service" },
	{ "0::/\n", RUNTIME_NONE, "", "", "" },
};

static void test_paths(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cgroup_info c;
		assert_true(cgroup_parse(view_of(cases[i].text), &c));
		if (c.runtime != cases[i].runtime || !view_eqs(c.container_id, cases[i].id) ||
		    strcmp(c.pod_uid, cases[i].pod) != 0 || !view_eqs(c.unit, cases[i].unit))
			fail_msg("%s: runtime %d id \"%.*s\" pod \"%s\" unit \"%.*s\"", cases[i].text, (int)c.runtime,
				 VIEW_ARG(c.container_id), c.pod_uid, VIEW_ARG(c.unit));
	}
	struct cgroup_info c;
	assert_false(cgroup_parse(VIEW(""), &c));
	assert_false(cgroup_parse(VIEW("garbage\n"), &c));
}

static void put_file(const char *root, const char *dir, const char *name, const char *text)
{
	char path[1024];
	snprintf(path, sizeof path, "mkdir -p '%s%s'", root, dir);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof path, "%s%s/%s", root, dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_names(void **state)
{
	char root[] = "/tmp/pyrrha-containers-XXXXXX", cmd[128];
	assert_non_null(mkdtemp(root));
	struct arena a;
	struct container_names n;
	arena_init(&a, 0);
	containers_lookup(root, RUNTIME_DOCKER, VIEW(ID), &a, &n);
	assert_int_equal(n.container.len, 0);
	put_file(root, "/var/log/containers", "web-1_prod_echoserver-" ID ".log", "");
	containers_lookup(root, RUNTIME_UNKNOWN, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "echoserver") && view_eqs(n.pod, "web-1") && view_eqs(n.namespace_, "prod"));
	put_file(root, "/var/lib/docker/containers/" ID, "config.v2.json", "{\"Name\":\"/happy_joe\",\"Config\":{\"Labels\":{}}}");
	containers_lookup(root, RUNTIME_DOCKER, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "happy_joe"));
	put_file(root, "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID, "config.json",
		 "{\"annotations\":{\"io.kubernetes.cri.container-name\":\"c\",\"io.kubernetes.cri.sandbox-name\":\"p\","
		 "\"io.kubernetes.cri.sandbox-namespace\":\"ns\"}}");
	containers_lookup(root, RUNTIME_CONTAINERD, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "c") && view_eqs(n.pod, "p") && view_eqs(n.namespace_, "ns"));
	arena_free(&a);
	snprintf(cmd, sizeof cmd, "rm -rf %s", root);
	assert_int_equal(system(cmd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths), cmocka_unit_test(test_names) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
