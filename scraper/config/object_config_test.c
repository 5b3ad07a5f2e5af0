/* SPDX-License-Identifier: Apache-2.0 */
/* What an object of a cluster becomes, and what it may not: whoever writes one is not trusted beyond its namespace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "discovery/sd_object_pods.h"
#include "scraper/internal.h"
#include "scraper/config/object_config.h"

#define BASE "global: {scrape_interval: 20s, scrape_timeout: 7s, label_limit: 30}\nkubernetes_scrape_configs: [{api_server: 'http://127.0.0.1:1'}]\n"
#define POD "\"selector\":{\"matchLabels\":{\"app\":\"cart\"}}"

static struct scraper_config *base;

static struct scraper_config *parse_base(const char *yaml)
{
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	if (config_parse(&t, view_of(yaml), "p.yml", &e) || scraper_config_parse(&c, t, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	config_free(t);
	return c;
}

static int setup(void **state)
{
	base = parse_base(BASE);
	return 0;
}

static int teardown(void **state)
{
	scraper_config_unref(base);
	return 0;
}

static int parse(enum kube_object_kind kind, const char *spec, struct scraper_config **ret, struct err *e)
{
	const struct kube_object o = { kind, "shop", "cart", spec, NULL };
	*ret = NULL;
	return object_config_parse(ret, &o, &base->sources[0], base, e);
}

static struct scraper_config *good(const char *spec)
{
	struct scraper_config *c;
	struct err e = { 0 };
	if (parse(KUBE_PROFILE_SCRAPE_CONFIG, spec, &c, &e))
		fail_msg("%s: %s", spec, e.msg);
	return c;
}

static void an_object_becomes_a_job(void **state)
{
	struct scraper_config *c = good(
		"{" POD ",\"scrapeConfig\":{\"job\":\"carts\",\"port\":\"debug\",\"portNumber\":99,\"params\":{\"a\":[\"1\",\"2\"]},"
		"\"interval\":\"45s\",\"timeout\":\"1m\",\"scheme\":\"https\",\"profilingConfig\":{\"pathPrefix\":\"/app\",\"pprofConfig\":"
		"{\"mutex\":{\"enabled\":false},\"fgprof\":{\"enabled\":true,\"path\":\"/fg\",\"delta\":true,\"seconds\":5},"
		"\"memory\":{\"keepSampleType\":[{\"type\":\"inuse_space\",\"unit\":\"bytes\"}]}}},"
		"\"relabelConfigs\":[{\"sourceLabels\":[\"__meta_kubernetes_pod_label_v\"],\"targetLabel\":\"v\",\"action\":\"Replace\"}]}}");
	const struct job_config *j = c->jobs[0];
	const struct object_pods_config *p = j->sd.v[0].config;
	assert_string_equal(j->name, "shop/cart");
	assert_string_equal(j->job_label, "carts");
	assert_int_equal(j->interval_ms, 45000);
	assert_int_equal(j->timeout_ms, 60000);
	assert_int_equal(j->scheme, 1);
	assert_string_equal(j->path_prefix, "/app");
	assert_int_equal(j->params.v[0].values.n, 2);
	assert_false(job_type(j, VIEW("mutex"))->enabled);
	assert_true(job_type(j, VIEW("process_cpu"))->delta);
	assert_string_equal(job_type(j, VIEW("fgprof"))->path, "/fg");
	assert_int_equal(job_type(j, VIEW("fgprof"))->seconds, 5);
	assert_int_equal(job_type(j, VIEW("memory"))->keep.n, 1);
	assert_int_equal(j->relabel.n, 1);
	assert_int_equal(j->label_limit, 30); /* of global */
	assert_int_equal(j->target_limit, OBJECT_TARGETS_MAX);
	assert_int_equal(j->sd.n, 1);
	assert_string_equal(p->port, "debug"); /* goes before the number */
	assert_int_equal(p->port_number, 0);
	assert_string_equal(p->namespace, "shop");
	assert_string_equal(p->source.api_server, "http://127.0.0.1:1");
	assert_string_equal(p->selector.match_labels.v[0].value, "cart");
	assert_false(j->http.follow_redirects);
	assert_int_equal(j->confined->relabel.max_ns, 20000000);
	assert_int_equal(j->confined->relabel.value_max, 65536);
	assert_int_equal(j->confined->sync_max_ns, 1000000000);
	scraper_config_unref(c);
	c = good("{\"selector\":{},\"scrapeConfig\":{\"portNumber\":6060}}");
	j = c->jobs[0];
	assert_null(j->job_label);
	assert_int_equal(j->interval_ms, 20000);
	assert_int_equal(j->timeout_ms, 7000);
	p = j->sd.v[0].config;
	assert_int_equal(p->port_number, 6060);
	assert_null(p->port);
	scraper_config_unref(c);
}

/* Go leaves out what is empty, and its controller took it for not said. */
static void what_is_empty_of_parcas_is_absent(void **state)
{
	static const char spec[] = "{" POD ",\"scrapeConfig\":{\"job\":\"\",\"port\":\"\",\"portNumber\":80,\"interval\":\"\",\"scheme\":\"\","
		"\"relabelConfigs\":[{\"sourceLabels\":[\"a\"],\"separator\":\"\",\"regex\":\"\",\"replacement\":\"\",\"targetLabel\":\"b\",\"action\":\"\"}]}}";
	struct scraper_config *c;
	struct err e = { 0 };
	if (parse(KUBE_PARCA_SCRAPE_CONFIG, spec, &c, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(c->jobs[0]->interval_ms, 20000);
	assert_string_equal(c->jobs[0]->relabel.v[0].regex, "(.*)");
	assert_string_equal(c->jobs[0]->relabel.v[0].replacement, "$1");
	scraper_config_unref(c);
	assert_true(parse(KUBE_PROFILE_SCRAPE_CONFIG, spec, &c, &e) < 0);
}

#define SCRAPE(text) "{" POD ",\"scrapeConfig\":{\"portNumber\":80," text "}}"

static void bad_objects_are_refused(void **state)
{
	static const struct { const char *spec, *says; } rows[] = {
		{ "{}", "field spec: selector is missing" },
		{ "{" POD "}", "field spec: scrapeConfig is missing" },
		{ "{\"selector\":null,\"scrapeConfig\":{\"portNumber\":80}}", "field spec: selector is missing" },
		{ "{" POD ",\"scrapeConfig\":{}}", "field spec.scrapeConfig: port, the name of a container's port, or portNumber is missing" },
		{ "{" POD ",\"scrapeConfig\":{\"portNumber\":70000}}", "portNumber is over 65535" },
		{ "{" POD ",\"scrapeConfig\":{\"portNumber\":80},\"other\":1}", "field spec.other: unknown" },
		{ SCRAPE("\"interval\":\"soon\""), "field spec.scrapeConfig.interval: \"soon\" is not a duration" },
		{ SCRAPE("\"interval\":\"500ms\""), "field spec.scrapeConfig.interval: under a second" },
		{ SCRAPE("\"timeout\":\"2h\""), "field spec.scrapeConfig.timeout: over an hour" },
		{ SCRAPE("\"scheme\":\"ftp\""), "field spec.scrapeConfig.scheme: \"ftp\" is not one of http|https" },
		{ SCRAPE("\"profilingConfig\":{\"pprofConfig\":{\"memory\":{\"path\":\"heap\"}}}"),
		  "field spec.scrapeConfig.profilingConfig.pprofConfig.memory: path \"heap\" does not begin with a slash" },
		{ SCRAPE("\"profilingConfig\":{\"pprofConfig\":{\"memory\":{\"keepSampleType\":[{\"unit\":\"bytes\"}]}}}"),
		  "field spec.scrapeConfig.profilingConfig.pprofConfig.memory.keepSampleType[0]: type is missing" },
		{ SCRAPE("\"profilingConfig\":{\"preset\":\"agent\"}"), "field spec.scrapeConfig.profilingConfig.preset: unknown" },
		{ SCRAPE("\"profilingConfig\":{\"pprofConfig\":{\"memory\":{\"kind\":\"gauge\"}}}"), "memory.kind: unknown" },
		{ SCRAPE("\"profilingConfig\":{\"pprofConfig\":[]}"), "pprofConfig: a map is wanted" },
		{ SCRAPE("\"relabelConfigs\":{}"), "field spec.scrapeConfig.relabelConfigs: a list is wanted" },
		{ SCRAPE("\"relabelConfigs\":[{\"regex\":\"(\"}]"), "field spec.scrapeConfig.relabelConfigs[0]: " },
		{ SCRAPE("\"relabelConfigs\":[{\"sourceLabel\":[\"a\"]}]"), "field spec.scrapeConfig.relabelConfigs[0].sourceLabel: unknown" },
		{ "{\"selector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Near\"}]},\"scrapeConfig\":{\"portNumber\":80}}",
		  "field spec.selector.matchExpressions[0].operator: \"Near\" is not one of" },
		{ "{\"selector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}]},\"scrapeConfig\":{\"portNumber\":80}}",
		  "field spec.selector.matchExpressions[0]: In and NotIn need values" },
		/* nothing that a file could say, or another host, or another job */
		{ SCRAPE("\"authorization\":{\"credentials_file\":\"/etc/passwd\"}"), "field spec.scrapeConfig.authorization: unknown" },
		{ SCRAPE("\"basic_auth\":{}"), "field spec.scrapeConfig.basic_auth: unknown" },
		{ SCRAPE("\"tls_config\":{\"key_file\":\"/k\"}"), "field spec.scrapeConfig.tls_config: unknown" },
		{ SCRAPE("\"proxy_url\":\"http://x\""), "field spec.scrapeConfig.proxy_url: unknown" },
		{ SCRAPE("\"http_headers\":{}"), "field spec.scrapeConfig.http_headers: unknown" },
		{ SCRAPE("\"follow_redirects\":true"), "field spec.scrapeConfig.follow_redirects: unknown" },
		{ SCRAPE("\"honor_labels\":true"), "field spec.scrapeConfig.honor_labels: unknown" },
		{ SCRAPE("\"static_configs\":[{\"targets\":[\"x:1\"]}]"), "field spec.scrapeConfig.static_configs: unknown" },
		{ SCRAPE("\"job_name\":\"x\""), "field spec.scrapeConfig.job_name: unknown" },
		{ SCRAPE("\"scrape_interval\":\"1ms\""), "field spec.scrapeConfig.scrape_interval: unknown" },
		{ SCRAPE("\"relabel_configs\":[]"), "field spec.scrapeConfig.relabel_configs: unknown" },
		{ SCRAPE("\"relabelConfigs\":[{\"targetLabel\":\"__address__\",\"replacement\":\"10.0.0.1:22\"}]"),
		  "field spec.scrapeConfig.relabelConfigs[0]: targetLabel __address__: the address of a target cannot be changed" },
		{ SCRAPE("\"relabelConfigs\":[{\"targetLabel\":\"__unix_socket__\",\"replacement\":\"/run/x\"}]"), "targetLabel __unix_socket__" },
		{ "{\"a\\u0000b\":1}", "ProfileScrapeConfig shop/cart" },
		{ "{\"selector\":{},\"scrapeConfig\":", "ProfileScrapeConfig shop/cart" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scraper_config *c = NULL;
		struct err e = { 0 };
		if (!parse(KUBE_PROFILE_SCRAPE_CONFIG, rows[i].spec, &c, &e))
			fail_msg("taken: %s", rows[i].spec);
		if (!strstr(e.msg, "ProfileScrapeConfig shop/cart") || !strstr(e.msg, rows[i].says))
			fail_msg("%s\nsays %s\nnot %s", rows[i].spec, e.msg, rows[i].says);
		assert_null(c);
	}
}

static void sizes_are_bounded(void **state)
{
	struct buf b = { 0 };
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	buf_puts(&b, "{" POD ",\"scrapeConfig\":{\"portNumber\":80,\"relabelConfigs\":[");
	for (size_t i = 0; i <= OBJECT_RULES_MAX; i++)
		buf_puts(&b, i ? ",{\"targetLabel\":\"a\"}" : "{\"targetLabel\":\"a\"}");
	buf_puts(&b, "]}}");
	assert_true(parse(KUBE_PROFILE_SCRAPE_CONFIG, b.ptr, &c, &e) < 0);
	assert_non_null(strstr(e.msg, "field spec.scrapeConfig.relabelConfigs: more than 100 entries"));
	buf_reset(&b);
	for (size_t i = 0; i < 5000; i++)
		buf_puts(&b, "[");
	assert_true(parse(KUBE_PROFILE_SCRAPE_CONFIG, b.ptr, &c, &e) < 0); /* depth */
	buf_free(&b);
}

/* The environment and the files of the server are nothing that an object gets to see. */
static void nothing_is_expanded(void **state)
{
	setenv("PYRRHA_TEST_SECRET", "s3cret", 1);
	struct scraper_config *c = good(SCRAPE("\"job\":\"${PYRRHA_TEST_SECRET}$HOME\",\"params\":{\"k\":[\"${PYRRHA_TEST_SECRET}\"]}"));
	assert_string_equal(c->jobs[0]->job_label, "${PYRRHA_TEST_SECRET}$HOME");
	assert_string_equal(c->jobs[0]->params.v[0].values.v[0], "${PYRRHA_TEST_SECRET}");
	scraper_config_unref(c);
	unsetenv("PYRRHA_TEST_SECRET");
}

#define L(n, v) { VIEW(n), VIEW(v) }

static struct target_plan plan(const char *rules)
{
	static const struct label target[] = { L("__address__", "10.1.0.7:6060"), L("namespace", "shop"), L("pod", "cart-1"),
					       L("__meta_kubernetes_pod_label_evil", "other"), L("evil", "6.6.6.6:80") };
	char *spec AUTOFREE = xasprintf("{" POD ",\"scrapeConfig\":{\"portNumber\":6060,\"relabelConfigs\":[%s]}}", rules);
	struct scraper_config *c = good(spec);
	struct target_plan p;
	struct arena a;
	arena_init(&a, 0);
	target_plan_make(c->jobs[0], job_type(c->jobs[0], VIEW("memory")), (struct labels){ 0 }, (struct labels){ target, ARRAY_LEN(target) }, &a, &p);
	arena_free(&a);
	scraper_config_unref(c);
	return p;
}

/* Whatever rules do, the request goes to the pod, and the label says whose it is. */
static void rules_get_no_further(void **state)
{
	static const char *const attacks[] = {
		"{\"action\":\"labelmap\",\"regex\":\"evil\",\"replacement\":\"__address__\"}",
		"{\"sourceLabels\":[\"evil\"],\"targetLabel\":\"__addr${2}ess__\"}",
		"{\"action\":\"labelmap\",\"regex\":\"evil\",\"replacement\":\"__scheme__\"}",
		"{\"action\":\"labelmap\",\"regex\":\"evil\",\"replacement\":\"__unix_socket__\"}",
		"{\"action\":\"labeldrop\",\"regex\":\"__address__\"}",
		"{\"targetLabel\":\"__profile_path_prefix__\",\"replacement\":\"@6.6.6.6\"}",
		"{\"targetLabel\":\"__profile_path_prefix__\",\"replacement\":\".evil.example\"}",
		"{\"targetLabel\":\"__profile_path_prefix__\",\"replacement\":\"0\"}",
		"{\"targetLabel\":\"__scrape_interval__\",\"replacement\":\"100ms\"}",
		"{\"targetLabel\":\"__scrape_timeout__\",\"replacement\":\"2h\"}",
	};
	for (size_t i = 0; i < ARRAY_LEN(attacks); i++) {
		struct target_plan p = plan(attacks[i]);
		bool pod = p.url && strncmp(p.url, "http://10.1.0.7:6060/", 21) == 0;
		if (!p.problem && !(pod && i == 1)) /* that one sets a label of another name */
			fail_msg("%s: asks %s", attacks[i], p.url ? p.url : "nothing");
		target_plan_release(&p);
	}
	static const char *const renames[] = {
		"{\"targetLabel\":\"namespace\",\"replacement\":\"kube-system\"}",
		"{\"action\":\"labelmap\",\"regex\":\"__meta_kubernetes_pod_label_evil\",\"replacement\":\"namespace\"}",
		"{\"action\":\"labeldrop\",\"regex\":\"namespace\"}",
		"{\"action\":\"labelkeep\",\"regex\":\"__.*\"}",
	};
	for (size_t i = 0; i < ARRAY_LEN(renames); i++) {
		struct target_plan p = plan(renames[i]);
		assert_null(p.problem);
		struct view ns = labels_get(*p.visible, VIEW("namespace"));
		if (!view_eqs(ns, "shop"))
			fail_msg("%s: namespace is \"%.*s\"", renames[i], VIEW_ARG(ns));
		target_plan_release(&p);
	}
	/* Parameters and paths are the pod's own affair. */
	struct target_plan p = plan("{\"targetLabel\":\"__param_x\",\"replacement\":\"@6.6.6.6/\"},"
				    "{\"targetLabel\":\"__profile_path__\",\"replacement\":\"@6.6.6.6/p\"}");
	assert_string_equal(p.url, "http://10.1.0.7:6060/@6.6.6.6/p?x=%406.6.6.6%2F");
	target_plan_release(&p);
}

static void unchanged_objects_are_known(void **state)
{
	static const char one[] = "{" POD ",\"scrapeConfig\":{\"portNumber\":80}}";
	struct scraper_config *a = good(one), *b = good(one);
	struct scraper_config *c = good("{" POD ",\"scrapeConfig\":{\"portNumber\":81}}"), *d = good(SCRAPE("\"job\":\"j\""));
	assert_true(view_eq(a->jobs[0]->fingerprint, b->jobs[0]->fingerprint));
	assert_false(view_eq(a->jobs[0]->fingerprint, c->jobs[0]->fingerprint));
	assert_false(view_eq(a->jobs[0]->fingerprint, d->jobs[0]->fingerprint));
	assert_true(discovery_same(&a->jobs[0]->sd, &b->jobs[0]->sd));
	assert_false(discovery_same(&a->jobs[0]->sd, &c->jobs[0]->sd));
	assert_true(discovery_same(&a->jobs[0]->sd, &d->jobs[0]->sd)); /* the same pods: their watch goes on */
	scraper_config_unref(a);
	scraper_config_unref(b);
	scraper_config_unref(c);
	scraper_config_unref(d);
	struct scraper_config *other = parse_base("kubernetes_scrape_configs: [{api_server: 'http://127.0.0.1:2'}, {}]\n");
	assert_int_equal(other->n_sources, 2);
	assert_false(view_eq(other->sources[0].fingerprint, base->sources[0].fingerprint));
	scraper_config_unref(other);
}

static void bad_sources_are_refused(void **state)
{
	static const struct { const char *yaml, *says; } rows[] = {
		{ "kubernetes_scrape_configs: {}\n", "p.yml:1:28: field kubernetes_scrape_configs: a list" },
		{ "kubernetes_scrape_configs:\n- {role: pod}\n", "p.yml:2:4: field kubernetes_scrape_configs[0].role: unknown" },
		{ "kubernetes_scrape_configs:\n- {api_server: x}\n", "p.yml:2:16: field kubernetes_scrape_configs[0].api_server: not a URL" },
		{ "kubernetes_scrape_configs:\n- {api_server: 'http://a', kubeconfig_file: k}\n", "kubernetes_scrape_configs[0].kubeconfig_file: " },
		{ "kubernetes_scrape_configs:\n- {bearer_token: t}\n", "p.yml:2:3: field kubernetes_scrape_configs[0]: HTTP client fields need" },
		{ "kubernetes_scrape_configs:\n- namespaces: {names: ['a/b']}\n", "p.yml:2:24: field kubernetes_scrape_configs[0].namespaces.names: " },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct config_tree *t = NULL;
		struct scraper_config *c = NULL;
		struct err e = { 0 };
		assert_int_equal(config_parse(&t, view_of(rows[i].yaml), "p.yml", &e), 0);
		if (!scraper_config_parse(&c, t, NULL, NULL, &e) || !strstr(e.msg, rows[i].says))
			fail_msg("%s: says \"%s\", not \"%s\"", rows[i].yaml, e.msg, rows[i].says);
		config_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_becomes_a_job),
		cmocka_unit_test(what_is_empty_of_parcas_is_absent),
		cmocka_unit_test(bad_objects_are_refused),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(nothing_is_expanded),
		cmocka_unit_test(rules_get_no_further),
		cmocka_unit_test(unchanged_objects_are_known),
		cmocka_unit_test(bad_sources_are_refused),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
