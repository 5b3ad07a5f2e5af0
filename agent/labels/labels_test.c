/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file, what rules see of a process, and what they decide about a whole container. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/image/exe_meta.h"
#include "agent/labels/groups.h"
#include "agent/labels/labels.h"
#include "agent/labels/meta.h"
#include "agent/labels/pods.h"
#include "agent/labels/relabel_group.h"
#include "base/clock.h"

static char path[] = "/tmp/pyrrha-agent-config-XXXXXX";
static char warning[512];

static void note(void *arg, const char *text)
{
	snprintf(warning, sizeof warning, "%s", text);
}

static int load(const char *text, struct agent_config **ret, struct err *e)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	warning[0] = 0;
	return agent_config_load(ret, path, NULL, note, NULL, e);
}

static struct agent_config *config(const char *text)
{
	struct agent_config *c = NULL;
	struct err e = { 0 };
	if (load(text, &c, &e))
		fail_msg("%s", e.msg);
	return c;
}

/* What people have in front of parca-agents. */
static const char *const parca_files[] = {
	"relabel_configs:\n- source_labels: [__meta_process_executable_compiler]\n  target_label: compiler\n  action: replace\n"
	"- action: labelmap\n  regex: __meta_kubernetes_pod_label_(.+)\n  replacement: ${1}\n"
	"- action: labeldrop\n  regex: apps_kubernetes_io_pod_index|controller_revision_hash|pod_template_hash\n",
	"relabel_configs:\n- source_labels: [systemd_unit]\n  regex: \"\"\n  action: drop\n",
	"\"relabel_configs\":\n- \"action\": \"keep\"\n  \"regex\": \"parca-agent\"\n  \"source_labels\":\n"
	"  - \"app_kubernetes_io_name\"\n",
	"relabel_configs:\n- source_labels: [__meta_kubernetes_namespace, __meta_kubernetes_pod_name]\n  separator: /\n"
	"  target_label: where\n- source_labels: [__meta_process_pid]\n  modulus: 4\n  action: hashmod\n  target_label: shard\n",
	"relabel_configs: []\n", "",
};

static void test_config(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(parca_files); i++) {
		agent_config_free(config(parca_files[i]));
		assert_string_equal(warning, "");
	}
	static const struct { const char *text, *says; } bad[] = {
		{ "relabel_config: []\n", ":1:1: " },
		{ "relabel_configs:\n- action: keep\n  regexp: x\n", ":3:3: " },
		{ "relabel_configs:\n- {source_labels: [a], regex: '(', target_label: b}\n", ":2:3: field relabel_configs[0]: " },
		{ "relabel_configs:\n- action: hashmod\n  target_label: x\n", "modulus" },
		{ "remote_store: {address: x}\n", "pushes nothing" },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct agent_config *c;
		struct err e = { 0 };
		assert_int_equal(load(bad[i].text, &c, &e), -ERR_BAD_DATA);
		if (!strstr(e.msg, bad[i].says) || strncmp(e.msg, path, strlen(path)) != 0)
			fail_msg("%s is not in: %s", bad[i].says, e.msg);
	}
	agent_config_free(config("relabel_configs:\n- source_labels: [__meta_thread_comm]\n  target_label: t\n"));
	assert_non_null(strstr(warning, ":2:3: "));
	assert_non_null(strstr(warning, "__meta_thread_comm"));
}

static const char *const env_vars[] = { "TENANT", "odd-name", "API_KEY", "DB" };
static bool show_command_lines;

static bool kernel_thread;
static const char *runtime = "";

/* The labels of a process under some rules, as {a="b"}; "" = dropped. */
static const char *labels_of(pid_t pid, const char *rules, const char *comm)
{
	static struct buf out;
	static const struct label external[] = { { { "cluster", 7 }, { "c1", 2 } } };
	struct labeler_options o = { "n1", { external, 1 }, .env_vars = env_vars, .n_env_vars = ARRAY_LEN(env_vars),
				     .show_command_lines = show_command_lines };
	struct err e = { 0 };
	struct labeler *l = labeler_new(&o, &e);
	struct agent_config *c = config(rules);
	struct process_info p = { .pid = (uint32_t)pid, .kernel_thread = kernel_thread };

	snprintf(p.comm, sizeof p.comm, "%s", comm);
	snprintf(p.runtime, sizeof p.runtime, "%s", runtime);
	labeler_use(l, c);
	labeler_process(l, &p);
	buf_reset(&out);
	if (!p.dropped)
		labels_format(*p.labels, &out);
	buf_putc(&out, 0);
	free((void *)p.labels);
	labeler_free(l);
	agent_config_free(c);
	return out.ptr;
}

static const char *mine(const char *rules, const char *comm)
{
	return labels_of(getpid(), rules, comm);
}

static void expect_in(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("%s is not in: %s", what, text);
}

static void test_rules_on_a_process(void **state)
{
	struct utsname u;
	char want[256];

	uname(&u);
	expect_in(mine("", "x"), "node=\"n1\"");
	expect_in(mine("", "x"), "cluster=\"c1\"");
	expect_in(mine("", "\xff\xfe"), "comm=\"\uFFFD\uFFFD\"");
	assert_null(strstr(mine("relabel_configs:\n- {action: labeldrop, regex: nothing}\n", "x"), "__meta"));
	snprintf(want, sizeof want, "release=\"%s\"", u.release);
	expect_in(mine("relabel_configs:\n- source_labels: [__meta_system_kernel_release]\n  target_label: release\n", "x"), want);
	snprintf(want, sizeof want, "who=\"%d/%d\"", (int)getpid(), (int)getppid());
	expect_in(mine("relabel_configs:\n- source_labels: [__meta_process_pid, __meta_process_ppid]\n  separator: /\n"
		       "  target_label: who\n", "x"), want);
	expect_in(mine("relabel_configs:\n- source_labels: [__meta_process_cmdline]\n  regex: .*(labels_test).*\n"
		       "  target_label: program\n", "x"), "program=\"labels_test\"");
	assert_string_equal(mine("relabel_configs:\n- {source_labels: [comm], regex: x, action: drop}\n", "x"), "");
	expect_in(mine("relabel_configs:\n- {source_labels: [comm], regex: x, action: drop}\n", "y"), "comm=\"y\"");
	assert_string_equal(mine("relabel_configs:\n- {source_labels: [comm], regex: x, action: keep}\n", "y"), "");
	/* The kernel's many workers are one, but not a process that only calls itself so; kernel threads have no cgroup. */
	kernel_thread = true;
	assert_string_equal(mine("", "kworker/3:1-eve"), "{cluster=\"c1\", comm=\"kworker\", node=\"n1\"}");
	assert_string_equal(mine("", "ksoftirqd/3"), "{cluster=\"c1\", comm=\"ksoftirqd/3\", node=\"n1\"}");
	expect_in(mine("relabel_configs:\n- {source_labels: [__meta_process_kernel_thread], target_label: k}\n", "x"), "k=\"true\"");
	kernel_thread = false;
	expect_in(mine("", "kworker/3:1-eve"), "comm=\"kworker/3:1-eve\"");
	/* More than a process may have: left out, whole. */
	char big[20000];
	snprintf(big, sizeof big, "relabel_configs:\n- {target_label: big, replacement: '%017000d'}\n- {target_label: small, "
		 "replacement: s}\n", 0);
	assert_null(strstr(mine(big, "x"), "big="));
	expect_in(mine(big, "x"), "small=\"s\"");
	/* The flags' external labels are not the rules' to change. */
	expect_in(mine("relabel_configs:\n- {target_label: cluster, replacement: other}\n", "x"), "cluster=\"c1\"");
}

/* A process that runs another program under this name with this environment, and only waits. */
static pid_t start_as(char *name, char *const *env)
{
	char *argv[] = { name, "1000", NULL }, byte;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		execve("/bin/sleep", argv, env);
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 0); /* closed by the exec */
	close(fds[0]);
	return pid;
}

static pid_t start_with(char *const *env)
{
	return start_as("sleep", env);
}

/* What is named like a secret, and user info, only where that is wanted. */
static void test_secrets(void **state)
{
	char *env[] = { "API_KEY=k3y", "DB=postgres://u:p@h/d", NULL };
	pid_t pid = start_as("x --token=hunter2", env);
	const char *rules = "relabel_configs:\n- {source_labels: [__meta_process_cmdline], target_label: line}\n"
			    "- {source_labels: [__meta_env_var_API_KEY], target_label: key}\n- {source_labels: [__meta_env_var_DB], target_label: db}\n";

	const char *all = labels_of(pid, rules, "x");
	expect_in(all, "line=\"x --token=<redacted> 1000\"");
	expect_in(all, "key=\"<redacted>\"");
	expect_in(all, "db=\"postgres://<redacted>@h/d\"");
	show_command_lines = true;
	all = labels_of(pid, rules, "x");
	show_command_lines = false;
	expect_in(all, "line=\"x --token=hunter2 1000\"");
	expect_in(all, "key=\"k3y\"");
	expect_in(all, "db=\"postgres://u:p@h/d\"");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_environment(void **state)
{
	char *env[] = { "SECRET=s3", "NOT_TENANT=no", "TENANT=blue", "TENANT=red", "odd-name=x", "broken", NULL };
	pid_t pid = start_with(env);

	expect_in(labels_of(pid, "relabel_configs:\n- {source_labels: [__meta_env_var_TENANT], target_label: tenant}\n", "x"),
		  "tenant=\"blue\"");
	expect_in(labels_of(pid, "relabel_configs:\n- {source_labels: [__meta_env_var_odd_name], target_label: odd}\n", "x"),
		  "odd=\"x\"");
	/* What was not named is not there, whatever rules ask for. */
	const char *all = labels_of(pid, "relabel_configs:\n- {action: labelmap, regex: __meta_env_var_(.+), replacement: env_$1}\n", "x");
	expect_in(all, "env_TENANT=\"blue\"");
	assert_null(strstr(all, "s3"));
	assert_null(strstr(all, "no\""));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_out_of_date(void **state)
{
	struct labeler_options o = { "n1", { NULL, 0 } };
	struct err e;
	struct labeler *l = labeler_new(&o, &e);
	struct agent_config *c = config("");
	struct process_info p = { .pid = (uint32_t)getpid() };

	labeler_process(l, &p);
	assert_int_equal(p.generation, labeler_generation(l));
	labeler_use(l, c);
	assert_int_not_equal(p.generation, labeler_generation(l));
	free((void *)p.labels);
	labeler_free(l);
	agent_config_free(c);
}

/* --- containers --- */

static const struct {
	const char *rules;
	int verdict;             /* 0 = dropped */
	const char *labels;      /* what all get */
} groups[] = {
	{ "- {source_labels: [container], regex: db, action: drop}", 0, "" },
	{ "- {source_labels: [container], regex: web, action: drop}", 1, "{container=\"db\", pod=\"p\"}" },
	{ "- {source_labels: [container], regex: web, action: keep}", 0, "" },
	{ "- {source_labels: [container, pod], regex: db;p, action: drop}", 0, "" },
	/* what only a process decides is not decided here */
	{ "- {source_labels: [comm], regex: x, action: keep}", 1, "{container=\"db\", pod=\"p\"}" },
	{ "- {source_labels: [container, comm], regex: db;x, action: drop}", 1, "{container=\"db\", pod=\"p\"}" },
	/* not even by way of another label */
	{ "- {source_labels: [comm], target_label: container}\n- {source_labels: [container], regex: db, action: drop}", 1,
	  "{pod=\"p\"}" },
	{ "- {source_labels: [comm], regex: x, target_label: t, replacement: y}\n- {source_labels: [t], regex: '', action: drop}",
	  1, "{container=\"db\", pod=\"p\"}" },
	{ "- {action: labelmap, regex: (co)mm, replacement: '${1}ntainer'}\n- {source_labels: [container], regex: db, action: drop}",
	  1, "{pod=\"p\"}" },
	{ "- {source_labels: [comm], target_label: '$1'}\n- {source_labels: [container], regex: db, action: drop}", 1, "{}" },
	{ "- {source_labels: [comm], action: lowercase, target_label: pod}\n- {source_labels: [pod], target_label: container}\n"
	  "- {source_labels: [container], action: drop, regex: p}", 1, "{}" },
	/* but what comes of the container's own labels is */
	{ "- {source_labels: [pod], target_label: app, replacement: '$1-app'}\n- {source_labels: [app], regex: p-app, action: drop}",
	  0, "" },
	{ "- {source_labels: [pod], target_label: app}\n- {action: labeldrop, regex: pod}", 1, "{app=\"p\", container=\"db\"}" },
	{ "- {action: labeldrop, regex: comm}\n- {source_labels: [comm], regex: '', action: drop}", 0, "" },
	{ "- {action: labelkeep, regex: pod}\n- {source_labels: [comm], regex: '', action: drop}", 0, "" },
	{ "- {source_labels: [pod], target_label: container, action: keepequal}", 0, "" },
	{ "- {source_labels: [pod], target_label: comm, action: keepequal}", 1, "{container=\"db\", pod=\"p\"}" },
	{ "- {source_labels: [comm], regex: x, action: drop}\n- {source_labels: [pod], regex: p, action: drop}", 0, "" },
	/* a label of the process stays unknown where a rule may not have matched */
	{ "- {source_labels: [container], regex: web, target_label: comm, replacement: w}\n"
	  "- {source_labels: [comm], regex: w, action: keep}", 1, "{container=\"db\", pod=\"p\"}" },
};

/* What differs between processes must not decide for a whole container. */
static void test_environment_of_a_container(void **state)
{
	struct agent_config *c = config("relabel_configs:\n- {source_labels: [__meta_env_var_TENANT], regex: blue, action: keep}\n");
	struct meta *m = meta_new(env_vars, ARRAY_LEN(env_vars), false);
	struct labels_builder b;
	struct arena a;
	struct err e = { 0 };

	arena_init(&a, 0);
	labels_builder_init(&b, (struct labels){ 0 });
	assert_int_equal(relabel_group(c->relabel.v, c->relabel.n, meta_names(m), &b, &a, &e), 1);
	labels_builder_free(&b);
	arena_free(&a);
	meta_free(m);
	agent_config_free(c);
}

static void test_containers(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		char text[1024];
		struct labels_builder b;
		struct arena a;
		struct buf out = { 0 };
		struct err e = { 0 };

		snprintf(text, sizeof text, "relabel_configs:\n%s\n", groups[i].rules);
		struct agent_config *c = config(text);
		arena_init(&a, 0);
		labels_builder_init(&b, (struct labels){ 0 });
		labels_builder_set(&b, VIEW("container"), VIEW("db"));
		labels_builder_set(&b, VIEW("pod"), VIEW("p"));
		int rc = relabel_group(c->relabel.v, c->relabel.n, meta_process_names, &b, &a, &e);
		labels_format(labels_builder_finish(&b), &out);
		if (rc != groups[i].verdict || (rc && strcmp(out.ptr, groups[i].labels) != 0))
			fail_msg("%s: %d %s", groups[i].rules, rc, out.ptr);
		buf_free(&out);
		labels_builder_free(&b);
		arena_free(&a);
		agent_config_free(c);
	}
}

#define GROUP_ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define GROUP_UID "1b2c3d4e-0000-1111-2222-333344445555"
#define KUBERNETES(image) "__meta_kubernetes_namespace=\"shop\", __meta_kubernetes_node_name=\"n1\", " \
	"__meta_kubernetes_pod_container_id=\"" GROUP_ID "\", " image "__meta_kubernetes_pod_container_name=\"web\", " \
	"__meta_kubernetes_pod_name=\"web-1\", __meta_kubernetes_pod_node_name=\"n1\", __meta_kubernetes_pod_uid=\"" GROUP_UID "\", "

/* Everything that rules see of a container, as the names of parca-agent have it. */
static const struct { const char *path; struct container_names names; const char *labels; } group_metas[] = {
	{ "/docker/" GROUP_ID, { { "web", 3 }, { "", 0 }, { "", 0 }, { "nginx:1", 7 },
	  { (struct label[]){ { { "com.x/y", 7 }, { "v", 1 } } }, 1 } },
	  "{__meta_docker_container_id=\"" GROUP_ID "\", __meta_docker_container_image=\"nginx:1\", "
	  "__meta_docker_container_label_com_x_y=\"v\", __meta_docker_container_labelpresent_com_x_y=\"true\", "
	  "__meta_docker_container_name=\"web\", __meta_process_cgroup=\"/docker/" GROUP_ID "\"}" },
	{ "/kubepods/pod" GROUP_UID "/cri-containerd-" GROUP_ID ".scope", { { "web", 3 }, { "web-1", 5 }, { "shop", 4 }, { "i", 1 },
	  { NULL, 0 } },
	  "{__meta_containerd_container_id=\"" GROUP_ID "\", __meta_containerd_container_name=\"web\", "
	  "__meta_containerd_pod_name=\"web-1\", __meta_containerd_pod_namespace=\"shop\", "
	  KUBERNETES("__meta_kubernetes_pod_container_image=\"i\", ")
	  "__meta_process_cgroup=\"/kubepods/pod" GROUP_UID "/cri-containerd-" GROUP_ID ".scope\"}" },
	{ "/kubepods/pod" GROUP_UID "/crio-" GROUP_ID, { { "web", 3 }, { "web-1", 5 }, { "shop", 4 }, { "", 0 }, { NULL, 0 } },
	  "{" KUBERNETES("") "__meta_process_cgroup=\"/kubepods/pod" GROUP_UID "/crio-" GROUP_ID "\"}" },
	{ "/docker/buildkit/abcdefghij0123456789klmno", { { "", 0 }, { "", 0 }, { "", 0 }, { "", 0 }, { NULL, 0 } },
	  "{__meta_docker_build_kit_container_id=\"abcdefghij0123456789klmno\", "
	  "__meta_process_cgroup=\"/docker/buildkit/abcdefghij0123456789klmno\"}" },
	{ "/lxc.payload.db", { { "db", 2 }, { "", 0 }, { "", 0 }, { "", 0 }, { NULL, 0 } },
	  "{__meta_lxc_container_id=\"db\", __meta_process_cgroup=\"/lxc.payload.db\"}" },
	{ "/system.slice/a.service", { { "", 0 }, { "", 0 }, { "", 0 }, { "", 0 }, { NULL, 0 } },
	  "{__meta_process_cgroup=\"/system.slice/a.service\"}" },
};

static void test_meta_of_groups(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(group_metas); i++) {
		struct cgroup_info info;
		struct labels_builder b;
		struct arena a;
		struct buf out = { 0 };
		arena_init(&a, 0);
		labels_builder_init(&b, (struct labels){ 0 });
		cgroup_parse_path(view_of(group_metas[i].path), &info);
		meta_add_group(&b, &a, &info, &group_metas[i].names, VIEW("n1"));
		labels_format(labels_builder_finish(&b), &out);
		assert_string_equal(out.ptr, group_metas[i].labels);
		buf_free(&out);
		labels_builder_free(&b);
		arena_free(&a);
	}
}

/* --- pods --- */

/* The same of a pod that the API server told of. */
static const char whole_pod[] =
	"{\"metadata\":{\"name\":\"web-1\",\"namespace\":\"shop\",\"uid\":\"" GROUP_UID "\",\"labels\":{\"app.kubernetes.io/name\":\"web\","
	"\"canary\":\"\"},\"annotations\":{\"a/b\":\"c\"},\"ownerReferences\":[{\"kind\":\"Node\",\"name\":\"no\"},{\"kind\":\"ReplicaSet\","
	"\"name\":\"web-5d9\",\"controller\":true}]},\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":\"app\",\"image\":\"i:1\"}]},"
	"\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.0.7\",\"hostIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Initialized\",\"status\":"
	"\"True\"},{\"type\":\"Ready\",\"status\":\"False\"}],\"containerStatuses\":[{\"name\":\"app\",\"containerID\":\"docker://" GROUP_ID
	"\",\"image\":\"i@sha256:0\"}]}}";
static const char whole_meta[] =
	"{__meta_kubernetes_namespace=\"shop\", __meta_kubernetes_pod_annotation_a_b=\"c\", "
	"__meta_kubernetes_pod_annotationpresent_a_b=\"true\", __meta_kubernetes_pod_container_id=\"" GROUP_ID "\", "
	"__meta_kubernetes_pod_container_image=\"i:1\", __meta_kubernetes_pod_container_init=\"false\", "
	"__meta_kubernetes_pod_container_name=\"app\", __meta_kubernetes_pod_controller_kind=\"ReplicaSet\", "
	"__meta_kubernetes_pod_controller_name=\"web-5d9\", __meta_kubernetes_pod_host_ip=\"10.0.0.1\", "
	"__meta_kubernetes_pod_ip=\"10.1.0.7\", __meta_kubernetes_pod_label_app_kubernetes_io_name=\"web\", "
	"__meta_kubernetes_pod_labelpresent_app_kubernetes_io_name=\"true\", __meta_kubernetes_pod_labelpresent_canary=\"true\", "
	"__meta_kubernetes_pod_name=\"web-1\", __meta_kubernetes_pod_node_name=\"n1\", __meta_kubernetes_pod_phase=\"Running\", "
	"__meta_kubernetes_pod_ready=\"false\", __meta_kubernetes_pod_uid=\"" GROUP_UID "\", "
	"__meta_kubernetes_pod_workload_kind=\"ReplicaSet\", __meta_kubernetes_pod_workload_name=\"web-5d9\"}";

static void put_pod(struct pods *p, const char *text)
{
	json_t *j = json_loads(text, 0, NULL);
	assert_non_null(j);
	pods_put(p, j);
	json_decref(j);
}

static void test_meta_of_pods(void **state)
{
	struct pods *p = pods_new();
	struct pod_container c;
	struct labels_builder b;
	struct buf out = { 0 };
	struct arena a;

	arena_init(&a, 0);
	put_pod(p, whole_pod);
	assert_true(pods_find(p, VIEW(GROUP_ID), VIEW(""), &a, &c));
	labels_builder_init(&b, (struct labels){ 0 });
	for (size_t i = 0; i < c.meta.n; i++)
		labels_builder_set(&b, c.meta.v[i].name, c.meta.v[i].value);
	labels_format(labels_builder_finish(&b), &out);
	assert_string_equal(out.ptr, whole_meta);
	buf_free(&out);
	labels_builder_free(&b);
	arena_free(&a);
	pods_stop(p);
}

#define OWNED(name, kind, owner, labels) "{\"metadata\":{\"uid\":\"w\",\"name\":\"" name "\",\"labels\":{" labels "},\"ownerReferences\":[" \
	"{\"kind\":\"" kind "\",\"name\":\"" owner "\",\"controller\":true}]}}"
#define HASH(hash) "\"pod-template-hash\":\"" hash "\""

/* The name that outlives deploys, runs, nodes. */
static void test_workloads(void **state)
{
	static const struct { const char *pod, *kind, *name; } cases[] = {
		{ OWNED("web-5d9-x", "ReplicaSet", "web-5d9", HASH("5d9")), "Deployment", "web" },
		{ OWNED("web-5d9-x", "ReplicaSet", "web-5d9", ""), "ReplicaSet", "web-5d9" },
		{ OWNED("web-5d9-x", "ReplicaSet", "web-5d9", HASH("7ff")), "ReplicaSet", "web-5d9" },
		{ OWNED("5d9-x", "ReplicaSet", "-5d9", HASH("5d9")), "ReplicaSet", "-5d9" },
		{ OWNED("db-0", "StatefulSet", "db", HASH("db")), "StatefulSet", "db" },
		{ OWNED("log-abcde", "DaemonSet", "log", ""), "DaemonSet", "log" },
		{ OWNED("backup-29384756-abcde", "Job", "backup-29384756", ""), "CronJob", "backup" },
		{ OWNED("backup-2938475-abcde", "Job", "backup-2938475", ""), "Job", "backup-2938475" },
		{ OWNED("a1234567890-abcde", "Job", "a1234567890", ""), "Job", "a1234567890" },
		{ OWNED("12345678-abcde", "Job", "12345678", ""), "Job", "12345678" },
		{ OWNED("etcd-n1", "Node", "n1", ""), "Pod", "etcd" },
		{ OWNED("etcd", "Node", "n1", ""), "Node", "etcd" },
		{ OWNED("x-1", "Rollout", "x", ""), "Rollout", "x" },
		{ "{\"metadata\":{\"uid\":\"w\",\"name\":\"alone\"}}", "", "" },
	};
	struct pods *p = pods_new();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pod_container c;
		struct arena a;
		arena_init(&a, 0);
		put_pod(p, cases[i].pod);
		assert_true(pods_find(p, VIEW(""), VIEW("w"), &a, &c));
		struct view kind = labels_get(c.meta, VIEW("__meta_kubernetes_pod_workload_kind"));
		if (!view_eqs(c.workload, cases[i].name) || !view_eqs(kind, cases[i].kind) ||
		    !view_eq(labels_get(c.meta, VIEW("__meta_kubernetes_pod_workload_name")), c.workload))
			fail_msg("%s: %.*s %.*s", cases[i].pod, VIEW_ARG(kind), VIEW_ARG(c.workload));
		arena_free(&a);
	}
	pods_stop(p);
}

#define POD_ID GROUP_ID
static const char *const pod_objects[] = {
	/* a static pod: the group's name is the hash of its file, not the uid */
	"{\"metadata\":{\"name\":\"etcd\",\"namespace\":\"kube-system\",\"uid\":\"u1\",\"labels\":{\"a.b/c\":\"v\"},"
	"\"annotations\":{\"kubernetes.io/config.hash\":\"h1\"}}}",
	"{\"metadata\":{\"name\":\"web\",\"uid\":\"u2\"},\"spec\":{\"initContainers\":[{\"name\":\"init\",\"image\":\"i:1\"}]},"
	"\"status\":{\"initContainerStatuses\":[{\"name\":\"init\",\"containerID\":\"containerd://" POD_ID "\",\"image\":\"i@x\"}]}}",
	/* nonsense */
	"{\"metadata\":\"x\",\"status\":{\"containerStatuses\":{\"a\":1}}}", "{}", "{\"metadata\":{\"uid\":7}}",
	"{\"metadata\":{\"uid\":\"u3\",\"labels\":[1],\"ownerReferences\":\"x\"},\"spec\":{\"containers\":[3]},\"status\":{"
	"\"containerStatuses\":[1,{\"name\":\"n\"},{\"containerID\":\"://\"}],\"conditions\":{}}}",
	/* somebody who would like his pod's labels on another's processes; a container for debugging */
	"{\"metadata\":{\"name\":\"forger\",\"uid\":\"u4\",\"annotations\":{\"kubernetes.io/config.hash\":\"u5\"}},"
	"\"spec\":{\"ephemeralContainers\":[{\"name\":\"debug\",\"image\":\"busybox:1\"}]},\"status\":{"
	"\"ephemeralContainerStatuses\":[{\"name\":\"debug\",\"containerID\":\"cri-o://" POD_ID "e\",\"image\":\"b@x\"}]}}",
	"{\"metadata\":{\"name\":\"genuine\",\"uid\":\"u5\"}}",
};

static void test_pods(void **state)
{
	struct pods *p = pods_new();
	struct pod_container c;
	struct arena a;
	size_t n;
	uint64_t problems, version = pods_version(p);

	arena_init(&a, 0);
	for (size_t i = 0; i < ARRAY_LEN(pod_objects); i++)
		put_pod(p, pod_objects[i]);
	pods_put(p, NULL); /* an event without an object */
	pods_del(p, NULL);
	pods_stats(p, &n, &problems);
	assert_int_equal(n, 5);
	assert_int_equal(problems, 4);
	assert_int_not_equal(pods_version(p), version);
	assert_true(pods_find(p, VIEW(""), VIEW("h1"), &a, &c));
	assert_true(view_eqs(c.pod, "etcd") && view_eqs(c.namespace_, "kube-system") && !c.container.len);
	assert_true(view_eqs(labels_get(c.meta, VIEW("__meta_kubernetes_pod_label_a_b_c")), "v"));
	assert_true(view_eqs(labels_get(c.meta, VIEW("__meta_kubernetes_pod_labelpresent_a_b_c")), "true"));
	assert_true(pods_find(p, VIEW(POD_ID), VIEW(""), &a, &c));
	assert_true(view_eqs(c.container, "init") && view_eqs(c.image, "i:1"));
	assert_true(view_eqs(labels_get(c.meta, VIEW("__meta_kubernetes_pod_container_init")), "true"));
	assert_false(pods_find(p, VIEW(""), VIEW("h2"), &a, &c));
	assert_false(pods_find(p, VIEW(""), VIEW(""), &a, &c));
	assert_true(pods_find(p, VIEW(""), VIEW("u5"), &a, &c));
	assert_true(view_eqs(c.pod, "genuine"));
	assert_true(pods_find(p, VIEW(POD_ID "e"), VIEW(""), &a, &c));
	assert_true(view_eqs(c.container, "debug") && view_eqs(c.image, "busybox:1"));
	/* deleted: gone from the count, but the samples of its last seconds still find it */
	json_t *j = json_loads("{\"metadata\":{\"uid\":\"u5\"}}", 0, NULL);
	pods_del(p, j);
	json_decref(j);
	pods_stats(p, &n, &problems);
	assert_int_equal(n, 4);
	assert_true(pods_find(p, VIEW(""), VIEW("u5"), &a, &c));
	arena_free(&a);
	pods_stop(p);
}

#define POD_UID GROUP_UID
#define RESTARTED(id) "{\"metadata\":{\"name\":\"web\",\"uid\":\"" POD_UID "\"},\"status\":{\"containerStatuses\":[" \
	"{\"name\":\"app\",\"containerID\":\"containerd://" id "\"}]}}"

/* A container that is started again has another id: what runs in the old one is still the container it was. */
static void test_container_that_restarts(void **state)
{
	static const char other[] = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
	struct pods *p = pods_new();
	struct meta *m = meta_new(NULL, 0, false);
	struct sampled_groups *gs = groups_new(&(struct groups_options){ VIEW("n"), { NULL, 0 }, m, p, NULL });
	char at[256];

	put_pod(p, RESTARTED(POD_ID));
	const struct sampled_group *first = groups_get(gs, VIEW("/kubepods/pod" POD_UID "/" POD_ID));
	assert_true(view_eqs(first->pod.container, "app"));
	snprintf(at, sizeof at, "/kubepods/pod" POD_UID "/%s", other);
	const struct sampled_group *second = groups_get(gs, view_of(at)); /* it runs before the API server tells of it */
	assert_true(view_eqs(second->pod.pod, "web") && !second->pod.container.len);
	put_pod(p, RESTARTED("fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"));
	assert_true(groups_tick(gs, 1));
	assert_true(view_eqs(second->pod.container, "app"));
	assert_true(view_eqs(first->pod.container, "app") && view_eqs(first->pod.pod, "web"));
	groups_free(gs);
	meta_free(m);
	pods_stop(p);
}

#define STATIC_HASH "0123456789abcdef0123456789abcdef"
#define MIRROR(uid) "{\"metadata\":{\"name\":\"etcd-n1\",\"uid\":\"" uid "\",\"annotations\":{\"kubernetes.io/config.hash\":\"" \
	STATIC_HASH "\",\"kubernetes.io/config.mirror\":\"" STATIC_HASH "\"}},\"spec\":{\"containers\":[{\"name\":\"etcd\"}]}," \
	"\"status\":{\"containerStatuses\":[{\"name\":\"etcd\",\"containerID\":\"containerd://" POD_ID "\"}]}}"

/* The uid of a static pod is the one in its group's path, whatever uid the kubelet's copy of it has. */
static void test_static_pod(void **state)
{
	static const char *const uids[] = { MIRROR("aaaaaaaa-0000-1111-2222-333344445555"), MIRROR("bbbbbbbb-0000-1111-2222-333344445555") };
	struct pods *p = pods_new();
	struct meta *m = meta_new(NULL, 0, false);
	struct sampled_groups *gs = groups_new(&(struct groups_options){ VIEW("n"), { NULL, 0 }, m, p, NULL });

	for (size_t i = 0; i < ARRAY_LEN(uids); i++) {
		struct labels_builder b;
		struct arena a;
		put_pod(p, uids[i]);
		const struct sampled_group *g = groups_get(gs, VIEW("/kubepods/pod" STATIC_HASH "/" POD_ID));
		groups_tick(gs, 1);
		arena_init(&a, 0);
		labels_builder_init(&b, (struct labels){ 0 });
		group_add_labels(&b, &a, g);
		group_add_meta(&b, &a, g, VIEW("n"));
		assert_true(view_eqs(labels_builder_get(&b, VIEW("container")), "etcd"));
		assert_true(view_eqs(labels_builder_get(&b, VIEW("pod_uid")), STATIC_HASH));
		assert_true(view_eqs(labels_builder_get(&b, VIEW("__meta_kubernetes_pod_uid")), STATIC_HASH));
		labels_builder_free(&b);
		arena_free(&a);
	}
	groups_free(gs);
	meta_free(m);
	pods_stop(p);
}

/* The API server's object of a pod with one container, "app". phase: "Pending", "Running", ...; id: the container's; id_before: the one that it had
 * before its last restart; "" = none. */
static const char *late_pod(const char *phase, const char *id, const char *id_before)
{
	static char text[1024];
	snprintf(text, sizeof text, "{\"metadata\":{\"name\":\"web\",\"uid\":\"" POD_UID "\"},\"spec\":{\"containers\":[{\"name\":\"app\"}]},"
		 "\"status\":{\"phase\":\"%s\",\"containerStatuses\":[{\"name\":\"app\",\"containerID\":\"%s%s\","
		 "\"lastState\":{\"terminated\":{\"containerID\":\"%s\"}}}]}}", phase, *id ? "containerd://" : "", id, id_before);
	return text;
}

static const char *container_of(const struct sampled_group *g)
{
	static char text[100];
	struct labels_builder b;
	struct arena a;
	arena_init(&a, 0);
	labels_builder_init(&b, (struct labels){ 0 });
	group_add_labels(&b, &a, g);
	snprintf(text, sizeof text, "%.*s", VIEW_ARG(labels_builder_get(&b, VIEW("container"))));
	labels_builder_free(&b);
	arena_free(&a);
	return text;
}

#define IN_POD(n) "/kubepods/pod" POD_UID "/" LATE_ID(n)
#define LATE_ID(n) "aaaa456789abcdef0123456789abcdef0123456789abcdef0123456789abcde" n

/* A pod's container has no name until the API server tells its id. How it tells, what ends before, and what never has one. */
static void test_names_that_come_late(void **state)
{
	struct pods *p = pods_new();
	struct meta *m = meta_new(NULL, 0, false);
	struct sampled_groups *gs = groups_new(&(struct groups_options){ VIEW("n"), { NULL, 0 }, m, p, NULL });
	int64_t now = clock_mono_ms();
	json_t *last;

	/* Before the first list, nothing is known of how early a group is met. */
	const struct sampled_group *before = groups_get(gs, VIEW("/kubepods/pod" POD_UID "/" LATE_ID("9")));
	pods_list_ends(p);
	const struct sampled_group *sandbox = groups_get(gs, VIEW(IN_POD("0"))), *app = groups_get(gs, VIEW(IN_POD("1")));
	assert_true(sandbox->waits && app->waits);
	assert_false(groups_get(gs, VIEW("/docker/" LATE_ID("1")))->waits);
	assert_false(groups_get(gs, VIEW(IN_POD("1") "/docker/" LATE_ID("2")))->waits); /* the API server will never name it */
	assert_false(groups_get(gs, VIEW("/system.slice/a.service"))->waits);
	put_pod(p, late_pod("Pending", "", ""));
	groups_tick(gs, now);
	assert_true(sandbox->waits && app->waits);
	put_pod(p, late_pod("Running", LATE_ID("1"), ""));
	groups_tick_waiting(gs, now);
	assert_false(sandbox->waits || app->waits);
	assert_string_equal(container_of(app), "app");
	assert_string_equal(container_of(sandbox), "POD");
	assert_true(before->waits);
	/* The container restarts twice before the API server reports either restart. */
	const struct sampled_group *second = groups_get(gs, VIEW(IN_POD("2"))), *third = groups_get(gs, VIEW(IN_POD("3")));
	put_pod(p, late_pod("Running", LATE_ID("3"), LATE_ID("2")));
	groups_tick(gs, now);
	assert_false(second->waits || third->waits);
	assert_string_equal(container_of(second), "app");
	assert_string_equal(container_of(third), "app");
	/* The first report with the id of the container is the one that says the pod has ended. */
	const struct sampled_group *ended = groups_get(gs, VIEW(IN_POD("4")));
	put_pod(p, late_pod("Succeeded", LATE_ID("4"), ""));
	groups_tick(gs, now);
	assert_string_equal(container_of(ended), "app");
	const struct sampled_group *deleted = groups_get(gs, VIEW(IN_POD("5")));
	last = json_loads(late_pod("Running", LATE_ID("5"), ""), 0, NULL);
	pods_del(p, last);
	json_decref(last);
	groups_tick(gs, now);
	assert_string_equal(container_of(deleted), "app");
	/* It is never told: a container of a known pod, and one of none. */
	const struct sampled_group *never = groups_get(gs, VIEW(IN_POD("6"))), *nobody = groups_get(gs, VIEW("/kubepods/pod" STATIC_HASH "/" LATE_ID("7")));
	assert_true(never->waits && nobody->waits);
	assert_false(groups_tick(gs, now));
	assert_true(groups_tick(gs, clock_mono_ms() + GROUP_NAME_WAIT_MS));
	assert_false(never->waits || nobody->waits);
	assert_string_equal(container_of(never), "aaaa456789ab");
	assert_string_equal(container_of(nobody), "aaaa456789ab");
	groups_free(gs);
	meta_free(m);
	pods_stop(p);
}

/* --- executables --- */

static void test_compilers(void **state)
{
	static const struct { struct view comment; const char *compiler, *language; } cases[] = {
		{ { "GCC: (Debian 12.2.0-14+deb12u1) 12.2.0", 39 }, "GCC 12.2.0", "" },
		{ { "GCC: (GNU) 8.1.1 20180502\0", 26 }, "GCC 8.1.1", "" },
		{ { "GCC: (Debian 12.2.0-14) 12.2.0\0Debian clang version 14.0.6\0", 59 }, "Clang 14.0.6", "" },
		{ { "rustc version 1.63.0 (4b91a6ea7 2022-08-08)\0GCC: (Debian 12.2.0-14) 12.2.0", 75 }, "Rust 1.63.0", "rust" },
		{ { "", 0 }, "", "" }, { { "GCC: (", 6 }, "GCC", "" }, { { "\0\0\0", 3 }, "", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct exe_meta m = { 0 };
		exe_meta_of_comment(cases[i].comment, &m);
		assert_string_equal(m.compiler, cases[i].compiler);
		assert_string_equal(m.language, cases[i].language);
	}
	struct exe_meta m = { 0 };
	char go[64] = "\xff Go buildinf:\x08\x02";
	memcpy(go + 32, "\x08go1.19.8", 9);
	assert_true(exe_meta_of_go(view_make(go, sizeof go), &m));
	assert_string_equal(m.compiler, "Go 1.19.8");
	assert_string_equal(m.version, "1.19.8");
	go[32] = 127; /* longer than what is there */
	assert_false(exe_meta_of_go(view_make(go, sizeof go), &m));
	assert_false(exe_meta_of_go(view_make(go, 20), &m));
	assert_string_equal(m.language, "go");
}

static void test_languages(void **state)
{
	static const struct { const char *path, *language, *version; bool jit; } cases[] = {
		{ "/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "java", "17", true },
		{ "/opt/jdk-21.0.1/bin/java", "java", "21.0.1", true },
		{ "/usr/bin/node", "node", "", true },
		{ "/srv/nvm/versions/node/v18.19.0/bin/node", "node", "18.19.0", true },
		{ "/usr/bin/python3.11", "python", "3.11", false },
		{ "/usr/sbin/php-fpm8.2", "php", "8.2", true },
		{ "/usr/lib/erlang/erts-13.1.5/bin/beam.smp", "erlang", "13.1.5", true },
		{ "/usr/bin/pythonista", "", "", false }, { "/usr/bin/javac", "", "", false }, { "", "", "", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct exe_meta m = { 0 };
		exe_meta_of_path(view_of(cases[i].path), &m);
		if (strcmp(m.language, cases[i].language) != 0 || strcmp(m.version, cases[i].version) != 0 || m.jit != cases[i].jit)
			fail_msg("%s: %s %s %d", cases[i].path, m.language, m.version, m.jit);
	}
}

static int begin(void **state)
{
	int fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
	return unlink(path);
}

/* The language runtime of a process: without any rule, and for rules. */
static void test_runtime(void **state)
{
	runtime = "cpython3.11";
	assert_non_null(strstr(labels_of(getpid(), "", "x"), "runtime=\"cpython3.11\""));
	const char *said = labels_of(getpid(), "relabel_configs:\n- {source_labels: [__meta_process_runtime], target_label: language}\n"
				     "- {action: labeldrop, regex: runtime}\n", "x");
	assert_non_null(strstr(said, "language=\"cpython3.11\""));
	assert_null(strstr(said, "runtime="));
	runtime = "";
	assert_null(strstr(labels_of(getpid(), "", "x"), "runtime"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_runtime), cmocka_unit_test(test_rules_on_a_process),
		cmocka_unit_test(test_environment), cmocka_unit_test(test_secrets),
		cmocka_unit_test(test_environment_of_a_container), cmocka_unit_test(test_out_of_date),
		cmocka_unit_test(test_containers), cmocka_unit_test(test_meta_of_groups), cmocka_unit_test(test_meta_of_pods), cmocka_unit_test(test_pods), cmocka_unit_test(test_workloads), cmocka_unit_test(test_static_pod), cmocka_unit_test(test_names_that_come_late),
		cmocka_unit_test(test_container_that_restarts),
		cmocka_unit_test(test_compilers), cmocka_unit_test(test_languages),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
