/* SPDX-License-Identifier: Apache-2.0 */
/* What containers and instances of services become, answers that are wrong or too large, and the keys of
 * consul_sd_configs, dns_sd_configs and docker_sd_configs. Against real servers: tests/e2e/test_discovery_nets.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "discovery/sd_consul.h"
#include "discovery/sd_docker.h"

static json_t *parse(const char *text)
{
	struct err e = { 0 };
	json_t *j = NULL;
	if (answer_parse(&j, view_of(text), &e))
		fail_msg("%s", e.msg);
	return j;
}

static const char *finish(struct target_list *t, int rc, const struct err *e, struct buf *out)
{
	buf_reset(out);
	if (rc)
		buf_printf(out, "! %s", e->msg);
	for (size_t i = 0; i < t->v.n && !rc; i++) {
		buf_puts(out, i ? "\n" : "");
		labels_format(t->v.v[i], out);
	}
	target_list_free(t);
	return buf_view(out).ptr;
}

/* ---- docker ---- */

#define CONTAINER(id, mode, networks, more) \
	"{\"Id\":\"" id "\",\"Names\":[\"/" id "\",\"/alias\"],\"HostConfig\":{\"NetworkMode\":\"" mode "\"}," \
	"\"NetworkSettings\":{\"Networks\":" networks "}" more "}"
#define NET(id, ip) "{\"NetworkID\":\"" id "\",\"IPAddress\":\"" ip "\",\"GlobalIPv6Address\":\"fd00::2\"}"
#define LABELS(id, mode, ip) "__meta_docker_container_id=\"" id "\", __meta_docker_container_name=\"/" id "\", " \
	"__meta_docker_container_network_mode=\"" mode "\", __meta_docker_network_ip=\"" ip "\""

static const char *docker(const char *containers, const char *networks, bool first, struct buf *out)
{
	const struct docker_options o = { .port = 80, .host_networking_host = "localhost", .match_first_network = first };
	struct err e = { 0 };
	struct target_list t;
	json_t *c = parse(containers), *n = parse(networks);
	target_list_init(&t);
	int rc = docker_targets(&t, &o, c, n, &e);
	const char *text = finish(&t, rc, &e, out);
	json_decref(c);
	json_decref(n);
	return text;
}

static void containers(void **state)
{
	struct buf out = { 0 };
	/* one of them has two ports of which one is UDP, a public one, an image, labels */
	assert_string_equal(docker("[" CONTAINER("a", "bridge", "{\"bridge\":" NET("n1", "172.17.0.2") "}",
		",\"Ports\":[{\"PrivatePort\":53,\"Type\":\"udp\"},{\"PrivatePort\":80,\"PublicPort\":8080,\"IP\":\"0.0.0.0\",\"Type\":\"tcp\"}]"
		",\"Image\":\"i\",\"ImageID\":\"sha256:1\",\"Labels\":{\"com.docker.x\\u00e9-y\":\"v\",\"empty\":\"\"}") "]",
		"[{\"Id\":\"n1\",\"Name\":\"bridge\",\"Scope\":\"local\",\"Internal\":true,\"Ingress\":false,\"Labels\":{\"a.b\":\"c\"}},{\"Id\":\"n2\"}]",
		true, &out),
		"{__address__=\"172.17.0.2:80\", __meta_docker_container_id=\"a\", __meta_docker_container_image=\"i\", "
		"__meta_docker_container_image_id=\"sha256:1\", __meta_docker_container_label_com_docker_x__y=\"v\", "
		"__meta_docker_container_name=\"/a\", __meta_docker_container_network_mode=\"bridge\", __meta_docker_network_id=\"n1\", "
		"__meta_docker_network_ingress=\"false\", __meta_docker_network_internal=\"true\", __meta_docker_network_ip=\"172.17.0.2\", "
		"__meta_docker_network_label_a_b=\"c\", __meta_docker_network_name=\"bridge\", __meta_docker_network_scope=\"local\", "
		"__meta_docker_port_private=\"80\", __meta_docker_port_public=\"8080\", __meta_docker_port_public_ip=\"0.0.0.0\"}");
	/* no ports; two networks: the first by its name, or both. No IPv4 address */
	const char *two = "[" CONTAINER("a", "m", "{\"z\":" NET("n2", "10.0.0.2") ",\"y\":" NET("n1", "") ",\"x\":null}", "") "]";
	assert_string_equal(docker(two, "[]", true, &out), "{__address__=\"[fd00::2]:80\", " LABELS("a", "m", "fd00::2") "}");
	assert_string_equal(docker(two, "[]", false, &out), "{__address__=\"10.0.0.2:80\", " LABELS("a", "m", "10.0.0.2") "}\n"
			    "{__address__=\"[fd00::2]:80\", " LABELS("a", "m", "fd00::2") "}");
	/* the host's network; that of another container, which has that of a third; a loop; one that is gone */
	assert_string_equal(docker("[" CONTAINER("h", "host", "{\"host\":{\"IPAddress\":\"\"}}", "") "]", "[]", true, &out),
			    "{__address__=\"localhost\", __meta_docker_container_id=\"h\", __meta_docker_container_name=\"/h\", "
			    "__meta_docker_container_network_mode=\"host\"}");
	assert_string_equal(docker("[" CONTAINER("c", "container:b", "{}", ",\"Ports\":[{\"PrivatePort\":1,\"Type\":\"tcp\"}]") ","
				   CONTAINER("b", "container:a", "{}", ",\"Names\":[]") ","
				   CONTAINER("a", "m", "{\"y\":" NET("n1", "10.0.0.1") "}", ",\"Names\":null") ","
				   CONTAINER("l", "container:l", "{}", "") "," CONTAINER("g", "container:gone", "null", "") "]", "[]", true, &out),
			    "{__address__=\"10.0.0.1:1\", " LABELS("c", "container:b", "10.0.0.1") ", __meta_docker_port_private=\"1\"}");
	assert_string_equal(docker("[" CONTAINER("a", "m", "{\"y\":{\"IPAddress\":\"invalid IP\"}}", "") "]", "[]", true, &out),
			    "{__address__=\":80\", __meta_docker_container_id=\"a\", __meta_docker_container_name=\"/a\", "
			    "__meta_docker_container_network_mode=\"m\"}");
	buf_free(&out);
}

/* A label's NUL is a character like others, and hides no container. */
static void nul(void **state)
{
	static const char text[] = "[" CONTAINER("a", "m", "{\"y\":" NET("n1", "10.0.0.1") "}", ",\"Labels\":{\"l\":\"x\\u0000y\"}") ","
				   CONTAINER("b", "m", "{\"y\":" NET("n1", "10.0.0.2") "}", "") "]";
	const struct docker_options o = { .port = 80 };
	struct err e = { 0 };
	struct target_list t;
	json_t *c = parse(text), *n = parse("[]");
	target_list_init(&t);
	assert_int_equal(docker_targets(&t, &o, c, n, &e), 0);
	assert_int_equal(t.v.n, 2);
	struct view v = labels_get(t.v.v[0], VIEW("__meta_docker_container_label_l"));
	assert_int_equal(v.len, 3);
	assert_memory_equal(v.ptr, "x\0y", 3);
	target_list_free(&t);
	json_decref(c);
	json_decref(n);
}

static void bad_containers(void **state)
{
	static const char *const bad[] = {
		"[1]", "[{\"Id\":3}]", "[[]]", "[" CONTAINER("a", "m", "[]", "") "]", "[" CONTAINER("a", "m", "{\"y\":7}", "") "]",
		"[" CONTAINER("a", "m", "{\"y\":{}}", ",\"Ports\":{}") "]", "[" CONTAINER("a", "m", "{\"y\":{}}", ",\"Ports\":[\"80\"]") "]",
		"[" CONTAINER("a", "m", "{\"y\":{}}", ",\"Ports\":[{\"Type\":\"tcp\",\"PrivatePort\":65536}]") "]",
		"[" CONTAINER("a", "m", "{\"y\":{}}", ",\"Ports\":[{\"Type\":\"tcp\",\"PrivatePort\":\"80\"}]") "]",
		"[" CONTAINER("a", "m", "{\"y\":{}}", ",\"Labels\":{\"a\":1}") "]", "[" CONTAINER("a", "m", "{\"y\":{}}", ",\"Labels\":[]") "]",
		"[{\"Names\":{}}]", "[{\"HostConfig\":1}]",
	};
	struct buf out = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (strncmp(docker(bad[i], "[]", true, &out), "! bad answer: ", 14) != 0)
			fail_msg("%s: %s", bad[i], out.ptr);
	assert_string_equal(docker("[]", "[{\"Id\":\"a\"},7]", true, &out), "! bad answer: network: an item is not an object");
	buf_free(&out);
}

/* ---- consul ---- */

static const char *consul(const char *text, struct buf *out)
{
	struct err e = { 0 };
	struct target_list t;
	json_t *j = parse(text);
	target_list_init(&t);
	int rc = consul_targets(&t, ",", j, &e);
	finish(&t, rc, &e, out);
	json_decref(j);
	return out->ptr;
}

#define CHECKS(...) "[{\"Node\":{},\"Service\":{},\"Checks\":[" __VA_ARGS__ "]}]"
#define CHECK(id, status) "{\"CheckID\":\"" id "\",\"Status\":\"" status "\"}"
#define EMPTY(health) "{__address__=\":0\", __meta_consul_health=\"" health "\", __meta_consul_service_port=\"0\", __meta_consul_tags=\",,\"}"

static void instances(void **state)
{
	struct buf out = { 0 };
	assert_string_equal(consul("[{\"Node\":{\"Node\":\"n1\",\"Address\":\"10.0.0.1\",\"Meta\":{\"a-b\":\"c\"},\"TaggedAddresses\":{\"lan\":\"10.0.0.1\"}},"
		"\"Service\":{\"ID\":\"s1\",\"Service\":\"s\",\"Tags\":[\"x\",\"y\"],\"Address\":\"\",\"Port\":8080,\"Meta\":{\"v.1\":\"2\"},"
		"\"Namespace\":\"ns\",\"Partition\":\"p\",\"Weights\":{}},\"Checks\":[]},"
		"{\"Node\":{\"Node\":\"n2\",\"Address\":\"10.0.0.2\",\"Meta\":null},\"Service\":{\"ID\":\"s2\",\"Tags\":null,\"Address\":\"fd00::1\",\"Port\":1}}]", &out),
		"{__address__=\"10.0.0.1:8080\", __meta_consul_address=\"10.0.0.1\", __meta_consul_health=\"passing\", "
		"__meta_consul_metadata_a_b=\"c\", __meta_consul_namespace=\"ns\", __meta_consul_node=\"n1\", __meta_consul_partition=\"p\", "
		"__meta_consul_service_id=\"s1\", __meta_consul_service_metadata_v_1=\"2\", __meta_consul_service_port=\"8080\", "
		"__meta_consul_tagged_address_lan=\"10.0.0.1\", __meta_consul_tags=\",x,y,\"}\n"
		"{__address__=\"[fd00::1]:1\", __meta_consul_address=\"10.0.0.2\", __meta_consul_health=\"passing\", __meta_consul_node=\"n2\", "
		"__meta_consul_service_address=\"fd00::1\", __meta_consul_service_id=\"s2\", __meta_consul_service_port=\"1\", __meta_consul_tags=\",,\"}");
	assert_string_equal(consul(CHECKS(CHECK("a", "warning") "," CHECK("b", "passing")), &out), EMPTY("warning"));
	assert_string_equal(consul(CHECKS(CHECK("a", "critical") "," CHECK("b", "warning")), &out), EMPTY("critical"));
	assert_string_equal(consul(CHECKS(CHECK("_service_maintenance:x", "critical") "," CHECK("b", "critical")), &out), EMPTY("maintenance"));
	assert_string_equal(consul(CHECKS(CHECK("_node_maintenance", "passing")), &out), EMPTY("maintenance"));
	assert_string_equal(consul(CHECKS(CHECK("a", "new")), &out),
			    "{__address__=\":0\", __meta_consul_service_port=\"0\", __meta_consul_tags=\",,\"}");
	assert_string_equal(consul("[]", &out), "");
	buf_free(&out);
}

static void bad_instances(void **state)
{
	static const char *const bad[] = {
		"[1]", "[{}]", "[{\"Node\":{}}]", "[{\"Node\":{},\"Service\":[]}]", "[{\"Node\":{\"Address\":1},\"Service\":{}}]",
		"[{\"Node\":{},\"Service\":{\"Port\":\"80\"}}]", "[{\"Node\":{},\"Service\":{\"Port\":-1}}]", "[{\"Node\":{},\"Service\":{\"Port\":1.5}}]",
		"[{\"Node\":{},\"Service\":{\"Tags\":{}}}]", "[{\"Node\":{},\"Service\":{\"Tags\":[1]}}]", CHECKS("1"),
		"[{\"Node\":{},\"Service\":{\"Meta\":{\"a\":{}}}}]",
	};
	struct buf out = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (strncmp(consul(bad[i], &out), "! bad answer: ", 14) != 0)
			fail_msg("%s: %s", bad[i], out.ptr);
	buf_free(&out);
}

/* ---- what is too large ---- */

static void nothing(void *arg, const struct discovery_group *g)
{
	fail();
}

static void too_large(void **state)
{
	const struct discovery_emit emit = { .group = nothing };
	struct err e = { 0 };
	struct buf b = { 0 };
	json_t *j = NULL;
	/* deep */
	for (int i = 0; i < 100000; i++)
		buf_putc(&b, '[');
	assert_int_equal(answer_parse(&j, buf_view(&b), &e), -ERR_BAD_DATA);
	/* many */
	buf_reset(&b);
	buf_putc(&b, '[');
	for (size_t i = 0; i < ANSWER_VALUES; i++)
		buf_puts(&b, "1,");
	buf_puts(&b, "1]");
	assert_int_equal(answer_parse(&j, buf_view(&b), &e), -ERR_LIMIT);
	/* labels of one target; many of those, for each of many ports */
	struct target_list t;
	target_list_init(&t);
	for (int i = 0; i < TARGET_LABELS_MAX + 1; i++) {
		buf_reset(&b);
		buf_printf(&b, "l%d", i);
		target_set_keyed(&t, "", b.ptr, VIEW("x"));
	}
	target_list_add(&t);
	assert_int_equal(target_list_emit(&t, "s", (struct labels){ 0 }, &emit, &e), -ERR_LIMIT);
	target_list_free(&t);
	buf_reset(&b);
	buf_puts(&b, "[{\"Id\":\"a\",\"Names\":[\"/a\"],\"NetworkSettings\":{\"Networks\":{\"y\":{}}},\"Labels\":{\"l\":\"");
	for (int i = 0; i < 1 << 20; i++)
		buf_putc(&b, 'x');
	buf_puts(&b, "\"},\"Ports\":[{}");
	for (int i = 1; i < 10000; i++)
		buf_printf(&b, ",{\"Type\":\"tcp\",\"PrivatePort\":%d}", i);
	buf_puts(&b, "]}]");
	const struct docker_options o = { .port = 80 };
	j = parse(b.ptr);
	json_t *networks = json_array();
	target_list_init(&t);
	assert_int_equal(docker_targets(&t, &o, j, networks, &e), 0);
	assert_int_equal(target_list_emit(&t, "s", (struct labels){ 0 }, &emit, &e), -ERR_LIMIT);
	assert_in_range(t.v.n, 1, 200);
	target_list_free(&t);
	json_decref(networks);
	json_decref(j);
	buf_free(&b);
}

/* ---- configuration ---- */

static struct arena memory;

/* The decoded item, or NULL and the error. */
static void *decode(const char *key, const char *item, struct err *e)
{
	struct config_tree *tree = NULL;
	struct config_ctx c = { .arena = &memory, .dir = "/conf" };
	struct discovery_configs configs;
	struct buf text = { 0 };
	buf_printf(&text, "%s:\n- %s\n", key, item);
	int rc = config_parse(&tree, buf_view(&text), "f.yml", e);
	if (!rc)
		rc = discovery_decode(&c, config_root(tree), &configs, e);
	config_ctx_release(&c);
	config_free(tree);
	buf_free(&text);
	return rc ? NULL : configs.v[0].config;
}

static void bad_configuration(void **state)
{
	static const char *const bad[][3] = {
		{ "dns", "{}", "f.yml:2:3: field dns_sd_configs[0]: names has to name at least one record" },
		{ "dns", "{names: [a], type: A}", "f.yml:2:3: field dns_sd_configs[0]: type A needs a port (only SRV records have one)" },
		{ "dns", "{names: [a], type: TXT}", "f.yml:2:22: field dns_sd_configs[0].type: " },
		{ "dns", "{names: [a], type: MX, port: 65536}", "f.yml:2:3: field dns_sd_configs[0]: port is above 65535" },
		{ "dns", "{names: [''], port: 1}", "f.yml:2:3: field dns_sd_configs[0]: an empty name" },
		{ "dns", "{names: [a], port: -1}", "f.yml:2:22: field dns_sd_configs[0].port: " },
		{ "dns", "{names: [a], refresh_interval: 0s}", "f.yml:2:3: field dns_sd_configs[0]: refresh_interval has to be above 0" },
		{ "dns", "{name: [a]}", "f.yml:2:4: field dns_sd_configs[0]" },
		{ "docker", "{}", "f.yml:2:3: field docker_sd_configs[0].host: is missing" },
		{ "docker", "{host: 'unix://docker.sock'}", "f.yml:2:3: field docker_sd_configs[0]: host: the path of the socket has to be absolute" },
		{ "docker", "{host: 'ssh://h'}", "f.yml:2:3: field docker_sd_configs[0]: host has to be unix:///path" },
		{ "docker", "{host: 'http://u:p@h'}", "f.yml:2:3: field docker_sd_configs[0]: host has to be" },
		{ "docker", "{host: 'tcp://'}", "f.yml:2:3: field docker_sd_configs[0]: host has to be" },
		{ "docker", "{host: h}", "f.yml:2:3: field docker_sd_configs[0]: host has to be" },
		{ "docker", "{host: 'tcp://h:1', port: 70000}", "f.yml:2:3: field docker_sd_configs[0]: port is above 65535" },
		{ "docker", "{host: 'tcp://h:1', filters: [{name: a}]}", "f.yml:2:33: field docker_sd_configs[0].filters[0].values: is missing" },
		{ "docker", "{host: 'tcp://h:1', basic_auth: {username: a}, bearer_token: b}", "f.yml:2:3: field docker_sd_configs[0]: bearer_token" },
		{ "consul", "{server: ''}", "f.yml:2:3: field consul_sd_configs[0]: server has to be host:port" },
		{ "consul", "{server: 'u:p@h'}", "f.yml:2:3: field consul_sd_configs[0]: server has to be host:port" },
		{ "consul", "{server: 'unix://x'}", "f.yml:2:3: field consul_sd_configs[0]: server: unix:// wants" },
		{ "consul", "{server: 'ftp://x'}", "f.yml:2:3: field consul_sd_configs[0]: scheme has to be http or https" },
		{ "consul", "{scheme: ftp}", "f.yml:2:3: field consul_sd_configs[0]: scheme has to be http or https" },
		{ "consul", "{token: a, authorization: {credentials: b}}", "f.yml:2:3: field consul_sd_configs[0]: token beside authorization" },
		{ "consul", "{username: a, basic_auth: {username: b}}", "f.yml:2:3: field consul_sd_configs[0]: username and password beside" },
		{ "consul", "{token: \"a\\nb\"}", "f.yml:2:3: field consul_sd_configs[0]: a line break in token" },
		{ "consul", "{refresh_interval: 0s}", "f.yml:2:3: field consul_sd_configs[0]: refresh_interval" },
		{ "consul", "{service: [a]}", "f.yml:2:4: field consul_sd_configs[0]" },
	};
	arena_init(&memory, 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };
		char key[32];
		snprintf(key, sizeof key, "%s_sd_configs", bad[i][0]);
		if (decode(key, bad[i][1], &e) || !view_starts(view_of(e.msg), view_of(bad[i][2])))
			fail_msg("%s %s: %s", bad[i][0], bad[i][1], e.msg);
	}
	arena_free(&memory);
}

static const char *base_of(const char *item)
{
	struct err e = { 0 };
	const struct consul_config *c = decode("consul_sd_configs", item, &e);
	return c ? c->base : e.msg;
}

static void good_configuration(void **state)
{
	struct err e = { 0 };
	arena_init(&memory, 0);
	assert_string_equal(base_of("{}"), "http://localhost:8500");
	assert_string_equal(base_of("{server: 'c:1/', scheme: https, path_prefix: /p/}"), "https://c:1/p");
	assert_string_equal(base_of("{server: 'https://c:1/q'}"), "https://c:1/q");
	assert_string_equal(base_of("{server: 'unix:///run/c.sock', path_prefix: p}"), "http://consul/p");
	const struct consul_config *c = decode("consul_sd_configs", "{username: u, password: p, token: t, node_meta: {a: b}}", &e);
	assert_string_equal(c->http.basic_auth->username, "u");
	assert_true(c->allow_stale && c->http.follow_redirects);
	assert_int_equal(c->refresh_ms, 30000);
	const char *const pairs[][3] = {
		{ "consul", "{services: [a], tags: [b]}", "{services: [a], tags: [c]}" }, { "consul", "{token: a}", "{token: b}" },
		{ "consul", "{bearer_token: a}", "{bearer_token: b}" }, { "dns", "{names: [a, b]}", "{names: [b, a]}" },
		{ "dns", "{names: [a]}", "{names: [a], refresh_interval: 31s}" },
		{ "docker", "{host: 'tcp://h:1', filters: [{name: a, values: [b]}]}", "{host: 'tcp://h:1', filters: [{name: a, values: [c]}]}" },
		{ "docker", "{host: 'tcp://h:1'}", "{host: 'tcp://h:1', match_first_network: false}" },
	};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		char key[32];
		snprintf(key, sizeof key, "%s_sd_configs", pairs[i][0]);
		const struct discovery_ops *ops = discovery_kind(view_of(key));
		void *a = decode(key, pairs[i][1], &e), *again = decode(key, pairs[i][1], &e), *b = decode(key, pairs[i][2], &e);
		if (!a || !again || !b || !ops->same(a, again) || ops->same(a, b))
			fail_msg("%s %s: %s", key, pairs[i][1], e.msg);
	}
	arena_free(&memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers), cmocka_unit_test(nul), cmocka_unit_test(bad_containers), cmocka_unit_test(instances), cmocka_unit_test(bad_instances),
		cmocka_unit_test(too_large), cmocka_unit_test(bad_configuration), cmocka_unit_test(good_configuration),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
