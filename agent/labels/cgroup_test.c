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

#include "agent/kernel/cgroup_id.h"
#include "agent/labels/cgroup.h"
#include "agent/labels/containers.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "1b2c3d4e-0000-1111-2222-333344445555"
#define UID_ "1b2c3d4e_0000_1111_2222_333344445555"

static const struct {
	const char *text;
	enum cgroup_runtime runtime;
	const char *id, *pod, *unit;
} cases[] = {
	{ "0::/system.slice/docker-" ID ".scope\n", CGROUP_RUNTIME_DOCKER, ID, "", "" },
	{ "0::/docker/" ID "\n", CGROUP_RUNTIME_DOCKER, ID, "", "" },
	{ "12:pids:/x\n5:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/\n", CGROUP_RUNTIME_DOCKER, ID, "", "" },
	{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
	  CGROUP_RUNTIME_CONTAINERD, ID, UID, "" },
	{ "0::/kubepods/besteffort/pod" UID "/" ID "\n", CGROUP_RUNTIME_UNKNOWN, ID, UID, "" },
	{ "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope\n", CGROUP_RUNTIME_CRIO, ID, UID, "" },
	{ "11:memory:/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID "\n", CGROUP_RUNTIME_CONTAINERD, ID, UID, "" },
	{ "0::/machine.slice/libpod-" ID ".scope/container\n", CGROUP_RUNTIME_PODMAN, ID, "", "" },
	{ "0::/../../system.slice/ssh.service\n", CGROUP_RUNTIME_NONE, "", "", "ssh.service" },
	{ "0::/../cri-containerd-" ID ".scope\n", CGROUP_RUNTIME_CONTAINERD, ID, "", "" },
	/* units of a user's own service manager */
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-foo.scope\n", CGROUP_RUNTIME_NONE, "", "", "user@1000.service" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.kde.konsole@4711.service\n", CGROUP_RUNTIME_NONE, "", "",
	  "user@1000.service" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/session.slice/org.gnome.Shell@wayland.service/sub\n", CGROUP_RUNTIME_NONE, "", "",
	  "user@1000.service" },
	{ "0::/system.slice/user@x.mount/a.service\n", CGROUP_RUNTIME_NONE, "", "", "a.service" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/lxc.payload.web1/system.slice/nginx.service\n", CGROUP_RUNTIME_LXC, "web1", "",
	  "nginx.service" },
	/* host processes that only look like containers */
	{ "0::/system.slice/backup-" ID ".service\n", CGROUP_RUNTIME_NONE, "", "", "backup-" ID ".service" },
	{ "0::/jobs/" ID "\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "0::/system.slice/crio-conmon-" ID ".scope\n", CGROUP_RUNTIME_NONE, "", "", "crio-conmon-" ID ".scope" },
	{ "0::/lxc.payload.web1/system.slice/nginx.service\n", CGROUP_RUNTIME_LXC, "web1", "", "nginx.service" },
	{ "0::/\n", CGROUP_RUNTIME_NONE, "", "", "" },
	/* systemd */
	{ "0::/system.slice/nginx.service\n", CGROUP_RUNTIME_NONE, "", "", "nginx.service" },
	{ "0::/system.slice/nginx.service/worker\n", CGROUP_RUNTIME_NONE, "", "", "nginx.service" },
	{ "0::/system.slice/system-getty.slice/getty@tty1.service\n", CGROUP_RUNTIME_NONE, "", "", "getty@tty1.service" },
	{ "0::/system.slice/system-foo\\x2dbar.slice/foo\\x2dbar@a-b.service\n", CGROUP_RUNTIME_NONE, "", "", "foo\\x2dbar@a-b.service" },
	{ "0::/user.slice/user-1000.slice/session-3.scope\n", CGROUP_RUNTIME_NONE, "", "", "session-3.scope" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", CGROUP_RUNTIME_NONE, "", "", "user@1000.service" },
	{ "0::/system.slice/mnt-data.mount\n", CGROUP_RUNTIME_NONE, "", "", "mnt-data.mount" },
	{ "0::/user.slice\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "0::/system.slice/.service\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "9:name=systemd:/system.slice/cron.service\n8:cpu:/\n0::/\n", CGROUP_RUNTIME_NONE, "", "", "cron.service" },
	{ "0::/machine.slice/systemd-nspawn@web.service/payload\n", CGROUP_RUNTIME_NONE, "", "", "systemd-nspawn@web.service" },
	/* other namespaces, and groups that are gone */
	{ "0::/..\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "0::/../../../docker/" ID "\n", CGROUP_RUNTIME_DOCKER, ID, "", "" },
	{ "0::/..a/b.service\n", CGROUP_RUNTIME_NONE, "", "", "b.service" },
	{ "0::/system.slice/docker-" ID ".scope (deleted)\n", CGROUP_RUNTIME_DOCKER, ID, "", "" },
	{ "0::/system.slice/a.service (deleted)\n", CGROUP_RUNTIME_NONE, "", "", "a.service" },
	/* a container in a container is the inner one */
	{ "0::/docker/" ID "/kubelet/kubepods/pod" UID "/" ID2 "\n", CGROUP_RUNTIME_UNKNOWN, ID2, UID, "" },
	{ "0::/docker/" ID "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod"
	  UID_ ".slice/cri-containerd-" ID2 ".scope\n", CGROUP_RUNTIME_CONTAINERD, ID2, UID, "" },
	{ "0::/system.slice/docker-" ID ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_
	  ".slice/cri-containerd-" ID2 ".scope\n", CGROUP_RUNTIME_CONTAINERD, ID2, UID, "" },
	{ "0::/../../kubelet-kubepods-besteffort-pod" UID_ ".slice/crio-" ID ".scope/container\n", CGROUP_RUNTIME_CRIO, ID, UID, "" },
	/* cgroupfs drivers, users without root, and podman's ways */
	{ "0::/kubepods/burstable/pod" UID "/crio-" ID "\n", CGROUP_RUNTIME_CRIO, ID, UID, "" },
	{ "0::/libpod_parent/libpod-" ID "\n", CGROUP_RUNTIME_PODMAN, ID, "", "" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope\n", CGROUP_RUNTIME_DOCKER, ID, "",
	  "user@1000.service" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container\n", CGROUP_RUNTIME_PODMAN, ID, "",
	  "user@1000.service" },
	{ "0::/machine.slice/machine-libpod_pod_" ID ".slice/libpod-" ID2 ".scope\n", CGROUP_RUNTIME_PODMAN, ID2, "", "" },
	{ "0::/default/" ID "\n", CGROUP_RUNTIME_CONTAINERD, ID, "", "" },
	{ "0::/system.slice/nerdctl-" ID ".scope\n", CGROUP_RUNTIME_CONTAINERD, ID, "", "" },
	{ "0::/my-kubepods/pod" UID "x/" ID "\n", CGROUP_RUNTIME_NONE, "", "", "" },
	/* not the right number of digits, upper case, more than digits; monitors of runtimes are the host's */
	{ "0::/docker/0123456789abcdef\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "0::/docker/0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "0::/docker/" ID "0\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "0::/system.slice/docker-" ID ".service\n", CGROUP_RUNTIME_NONE, "", "", "docker-" ID ".service" },
	{ "0::/lxc.monitor.web1\n", CGROUP_RUNTIME_NONE, "", "", "" },
	{ "0::/machine.slice/libpod-conmon-" ID ".scope\n", CGROUP_RUNTIME_NONE, "", "", "libpod-conmon-" ID ".scope" },
	{ "0::/system.slice/docker.service\n", CGROUP_RUNTIME_NONE, "", "", "docker.service" },
	{ "0::/kubepods/besteffort/pod" UID "\n", CGROUP_RUNTIME_NONE, "", UID, "" },
	{ "0::/srv/git/" ID "/x\n", CGROUP_RUNTIME_NONE, "", "", "" },
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

/* A container that a container of the pod has made is no container that the API server knows. */
static void test_nested(void **state)
{
	static const struct { const char *path; bool nested; } paths[] = {
		{ "/kubepods/burstable/pod" UID "/" ID, false },
		{ "/kubepods/burstable/pod" UID "/" ID "/docker/" ID2, true },
		{ "/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope/docker/" ID2, true },
		{ "/../../kubelet-kubepods-besteffort-pod" UID_ ".slice/crio-" ID ".scope/container", false },
		{ "/docker/" ID "/kubelet/kubepods/pod" UID "/" ID2, false }, /* the node is the container */
		{ "/docker/" ID "/docker/" ID2, false },                     /* no pod */
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct cgroup_info c;
		cgroup_parse_path(view_of(paths[i].path), &c);
		if (c.nested != paths[i].nested)
			fail_msg("%s", paths[i].path);
	}
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
	containers_lookup(root, CGROUP_RUNTIME_DOCKER, VIEW(ID), &a, &n);
	assert_int_equal(n.container.len, 0);
	put_file(root, "/var/log/containers", "web-1_prod_echoserver-" ID ".log", "");
	containers_lookup(root, CGROUP_RUNTIME_UNKNOWN, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "echoserver") && view_eqs(n.pod, "web-1") && view_eqs(n.namespace_, "prod"));
	put_file(root, "/var/lib/docker/containers/" ID, "config.v2.json", "{\"Name\":\"/happy_joe\",\"Config\":{\"Labels\":{}}}");
	containers_lookup(root, CGROUP_RUNTIME_DOCKER, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "happy_joe"));
	put_file(root, "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID, "config.json",
		 "{\"annotations\":{\"io.kubernetes.cri.container-name\":\"c\",\"io.kubernetes.cri.sandbox-name\":\"p\","
		 "\"io.kubernetes.cri.sandbox-namespace\":\"ns\"}}");
	containers_lookup(root, CGROUP_RUNTIME_CONTAINERD, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "c") && view_eqs(n.pod, "p") && view_eqs(n.namespace_, "ns"));
	put_file(root, "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID, "config.json",
		 "{\"annotations\":{\"io.kubernetes.cri.container-type\":\"sandbox\",\"io.kubernetes.cri.sandbox-name\":\"p\"}}");
	containers_lookup(root, CGROUP_RUNTIME_CONTAINERD, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "POD") && view_eqs(n.pod, "p"));
	/* podman's two lists, and what they must not be */
	static const char store[] = "/var/lib/containers/storage/overlay-containers";
	containers_lookup(root, CGROUP_RUNTIME_PODMAN, VIEW(ID), &a, &n);
	assert_int_equal(n.container.len, 0);
	put_file(root, store, "containers.json", "[{\"id\":\"" ID2 "\",\"names\":[\"db\",\"other\"],\"image\":\"0f0f\","
		 "\"metadata\":\"{\\\"image-name\\\":\\\"docker.io/library/postgres:15\\\",\\\"name\\\":\\\"db\\\"}\"},"
		 "7,{\"id\":7},{\"names\":[\"x\"]}]");
	put_file(root, store, "volatile-containers.json", "[{\"id\":\"" ID "\",\"names\":[\"tmp\"],\"metadata\":\"{\"}]");
	containers_lookup(root, CGROUP_RUNTIME_PODMAN, VIEW(ID2), &a, &n);
	assert_true(view_eqs(n.container, "db") && view_eqs(n.image, "docker.io/library/postgres:15"));
	containers_lookup(root, CGROUP_RUNTIME_PODMAN, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "tmp") && !n.image.len);
	static const char *const no_lists[] = { "", "{}", "[{\"id\":\"" ID "\"}]", "[{\"id\":\"" ID "\",\"names\":{}}]",
						"[{\"id\":\"" ID "\",\"names\":[3]}]" };
	for (size_t i = 0; i < ARRAY_LEN(no_lists); i++) {
		put_file(root, store, "volatile-containers.json", no_lists[i]);
		containers_lookup(root, CGROUP_RUNTIME_PODMAN, VIEW(ID), &a, &n);
		assert_int_equal(n.container.len, 0);
	}
	/* CRI-O: as the kubelet told it */
	put_file(root, "/run/containers/storage/overlay-containers/" ID "/userdata", "config.json",
		 "{\"annotations\":{\"io.kubernetes.container.name\":\"c2\",\"io.kubernetes.pod.name\":\"p2\","
		 "\"io.kubernetes.pod.namespace\":\"ns2\",\"io.kubernetes.cri-o.ImageName\":\"i2\"}}");
	containers_lookup(root, CGROUP_RUNTIME_CRIO, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "c2") && view_eqs(n.pod, "p2") && view_eqs(n.namespace_, "ns2") && view_eqs(n.image, "i2"));
	assert_int_equal(containers_confirm(root, VIEW(ID)), CGROUP_RUNTIME_CONTAINERD);
	arena_free(&a);
	snprintf(cmd, sizeof cmd, "rm -rf %s", root);
	assert_int_equal(system(cmd), 0);
}

/* What lies there is the runtimes', but its contents come from users: nothing is waited for, and nothing believed. */
static void test_hostile_files(void **state)
{
	char root[] = "/tmp/pyrrha-containers-XXXXXX", cmd[1024];
	static const char dir[] = "/var/lib/docker/containers/" ID;
	static const char *const texts[] = {
		"", "{", "[]", "null", "{\"Name\":7}", "{\"Name\":{}}", "{\"Config\":[]}", "{\"Name\":\"\"}", "{\"Name\":\"/\"}",
		"{\"Name\":\"a\\u0000b\"}", "{\"Name\":\"\xff\"}", "{\"Config\":{\"Labels\":[1]},\"Name\":\"\\ud800\"}",
	};
	struct arena a;
	struct container_names n;

	assert_non_null(mkdtemp(root));
	arena_init(&a, 0);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		put_file(root, dir, "config.v2.json", texts[i]);
		containers_lookup(root, CGROUP_RUNTIME_DOCKER, VIEW(ID), &a, &n);
		if (n.container.len)
			fail_msg("%s: a name: %.*s", texts[i], VIEW_ARG(n.container));
	}
	/* labels of odd shapes do not hide the name; too long a value is none */
	char *long_text = malloc(20000);
	snprintf(long_text, 20000, "{\"Name\":\"/ok\",\"Config\":{\"Image\":\"%01000d\",\"Labels\":{\"a\":\"b\",\"c\":1,\"\":\"d\"}}}", 0);
	put_file(root, dir, "config.v2.json", long_text);
	free(long_text);
	containers_lookup(root, CGROUP_RUNTIME_DOCKER, VIEW(ID), &a, &n);
	assert_true(view_eqs(n.container, "ok") && !n.image.len);
	assert_true(view_eqs(labels_get(n.labels, VIEW("a")), "b"));
	assert_int_equal(containers_confirm(root, VIEW(ID)), CGROUP_RUNTIME_DOCKER);
	assert_int_equal(containers_confirm(root, VIEW(ID2)), CGROUP_RUNTIME_NONE);
	/* a FIFO, a directory, a loop */
	const char *const make[] = { "mkfifo", "mkdir", "ln -s config.v2.json" };
	for (size_t i = 0; i < ARRAY_LEN(make); i++) {
		snprintf(cmd, sizeof cmd, "cd %s%s && rm -rf config.v2.json && %s config.v2.json", root, dir, make[i]);
		assert_int_equal(system(cmd), 0);
		containers_lookup(root, CGROUP_RUNTIME_DOCKER, VIEW(ID), &a, &n);
		assert_int_equal(n.container.len, 0);
		assert_int_equal(containers_confirm(root, VIEW(ID)), CGROUP_RUNTIME_NONE);
	}
	arena_free(&a);
	snprintf(cmd, sizeof cmd, "rm -rf %s", root);
	assert_int_equal(system(cmd), 0);
}

/* Which mount a group's number is looked up in. */
static void test_mounts(void **state)
{
	static const char v2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
	static const char hybrid[] =
		"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
		"32 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		"33 31 0:30 / /sys/fs/cgroup/memory_x rw - cgroup cgroup rw,memory_x\n"
		"34 31 0:31 / /sys/fs/cgroup/memory rw master:3 shared:4 - cgroup cgroup rw,cpuset,memory\n";
	char at[64];
	assert_true(cgroup_mount(v2, false, at, sizeof at));
	assert_string_equal(at, "/sys/fs/cgroup");
	assert_false(cgroup_mount(v2, true, at, sizeof at));
	assert_true(cgroup_mount(hybrid, true, at, sizeof at));
	assert_string_equal(at, "/sys/fs/cgroup/memory");
	assert_true(cgroup_mount(hybrid, false, at, sizeof at));
	assert_string_equal(at, "/sys/fs/cgroup/unified");
	assert_false(cgroup_mount(hybrid, true, at, 8)); /* no room */
	assert_false(cgroup_mount("", false, at, sizeof at));
	assert_false(cgroup_mount("half a line - \n - cgroup2\n1 2 3 4 - cgroup2 cgroup2 rw\n", false, at, sizeof at));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths), cmocka_unit_test(test_nested), cmocka_unit_test(test_mounts), cmocka_unit_test(test_names),
					    cmocka_unit_test(test_hostile_files) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
