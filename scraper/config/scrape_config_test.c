/* SPDX-License-Identifier: Apache-2.0 */
/* What scrape_configs become: jobs, types, and the plan of a target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scraper/internal.h"

static char warnings[4096];

static void on_warning(void *arg, const char *text)
{
	size_t n = strlen(warnings);
	snprintf(warnings + n, sizeof warnings - n, "%s\n", text);
}

static int parse(const char *yaml, struct scraper_config **ret, struct err *e)
{
	struct config_tree *t = NULL;
	warnings[0] = 0;
	*ret = NULL;
	int rc = config_parse(&t, view_of(yaml), "p.yml", e);
	if (!rc) {
		struct arena a;
		arena_init(&a, 0);
		struct config_ctx c = { .arena = &a, .warn = on_warning };
		rc = config_check_top(t, &c, e);
		config_ctx_release(&c);
		arena_free(&a);
	}
	if (!rc)
		rc = scraper_config_parse(ret, t, on_warning, NULL, e);
	config_free(t); /* the configuration does not need it */
	return rc;
}

static struct scraper_config *good(const char *yaml)
{
	struct scraper_config *c;
	struct err e = { 0 };
	if (parse(yaml, &c, &e))
		fail_msg("%s", e.msg);
	return c;
}

/* The file of Parca's tutorial, as it is. */
static void parcas_tutorial(void **state)
{
	struct scraper_config *c = good(
		"object_storage:\n  bucket:\n    type: \"FILESYSTEM\"\n    config:\n      directory: \"./data\"\n\n"
		"scrape_configs:\n  - job_name: \"default\"\n    scrape_interval: \"3s\"\n    scrape_timeout: \"10s\"\n"
		"    normalized_addresses: true\n"
		"    static_configs:\n      - targets: [ '127.0.0.1:7070' ]\n"
		"    profiling_config:\n      path_prefix: /app/\n      pprof_config:\n        memory:\n          enabled: true\n"
		"          path: /debug/pprof/heap\n          keep_sample_type:\n            - type: inuse_space\n"
		"              unit: bytes\n        process_cpu:\n          enabled: true\n          path: /cpu\n          seconds: 2\n"
		"        mutex:\n          enabled: false\n        fgprof:\n          enabled: true\n"
		"          path: /debug/pprof/fgprof\n          delta: true\n        wall:\n          path: /wall\n          kind: gauge\n");
	assert_non_null(strstr(warnings, "field scrape_configs[0].normalized_addresses: ignored"));
	assert_int_equal(c->n_jobs, 1);
	const struct job_config *j = c->jobs[0];
	assert_int_equal(j->interval_ms, 3000);
	assert_int_equal(j->timeout_ms, 10000);
	const struct type_config *cpu = job_type(j, VIEW("process_cpu")), *memory = job_type(j, VIEW("memory"));
	assert_true(cpu->delta); /* although the file does not say so again */
	assert_int_equal(cpu->seconds, 2);
	assert_string_equal(cpu->path, "/cpu");
	assert_string_equal(memory->path, "/debug/pprof/heap");
	assert_true(scrape_type_keeps(memory, VIEW("inuse_space"), VIEW("bytes")));
	assert_false(scrape_type_keeps(memory, VIEW("alloc_space"), VIEW("bytes")));
	assert_false(job_type(j, VIEW("mutex"))->enabled);
	assert_true(job_type(j, VIEW("block"))->enabled && !job_type(j, VIEW("block"))->named);
	assert_true(job_type(j, VIEW("fgprof"))->enabled && job_type(j, VIEW("fgprof"))->named);
	assert_false(job_type(j, VIEW("threadcreate"))->enabled);
	assert_int_equal(scrape_type_kind(job_type(j, VIEW("wall")), VIEW("wall"), VIEW("nanoseconds"), true), PROFILE_GAUGE);
	struct buf out = { 0 };
	scraper_config_check(c, &out);
	assert_string_equal(out.ptr, "1 scrape job\n  default: every 3s, timeout 10s, 1 static target; profiles: memory block "
				     "goroutine process_cpu (delta) fgprof (delta) wall\n");
	buf_free(&out);
	scraper_config_unref(c);
	/* Its plain server file scrapes nothing. */
	c = good("grpc_address: ':7070'\nhttp_address: ':7070'\nstorage_active_memory: 1\n");
	assert_int_equal(c->n_jobs, 0);
	scraper_config_unref(c);
}

static void kinds(void **state)
{
	struct scraper_config *c = good(
		"scrape_configs:\n- job_name: a\n  profiling_config:\n    pprof_config:\n"
		"      memory: {kind: {alloc_space: gauge}}\n      heap_delta: {path: /x, delta: true}\n      other: {path: /y}\n");
	const struct job_config *j = c->jobs[0];
	const struct type_config *m = job_type(j, VIEW("memory")), *d = job_type(j, VIEW("heap_delta")), *o = job_type(j, VIEW("other"));
	assert_int_equal(scrape_type_kind(m, VIEW("alloc_space"), VIEW("bytes"), false), PROFILE_GAUGE);
	assert_int_equal(scrape_type_kind(m, VIEW("alloc_objects"), VIEW("count"), false), PROFILE_CUMULATIVE);
	assert_int_equal(scrape_type_kind(m, VIEW("inuse_objects"), VIEW("count"), false), PROFILE_GAUGE);
	assert_int_equal(scrape_type_kind(d, VIEW("alloc_space"), VIEW("bytes"), true), PROFILE_DELTA);
	assert_int_equal(scrape_type_kind(d, VIEW("alloc_space"), VIEW("bytes"), false), PROFILE_CUMULATIVE);
	assert_int_equal(scrape_type_kind(o, VIEW("x"), VIEW("count"), false), PROFILE_GAUGE);
	assert_int_equal(scrape_type_kind(o, VIEW("x"), VIEW("count"), true), PROFILE_DELTA);
	assert_int_equal(scrape_type_kind(job_type(j, VIEW("process_cpu")), VIEW("cpu"), VIEW("nanoseconds"), false), PROFILE_DELTA);
	scraper_config_unref(c);
}

static void other_formats(void **state)
{
	struct scraper_config *c = good(
		"scrape_configs:\n- job_name: native\n  profiling_config: {preset: gperftools, pprof_config: {growth: {enabled: false}}}\n"
		"- job_name: jvm\n  profiling_config:\n    pprof_config:\n      wall: {path: /wall, delta: true, folded: {sample_type: wall, unit: nanoseconds}}\n"
		"      godeltaprof_memory: {}\n      own: {path: /own, since_last_request: true, folded: {}}\n");
	const struct job_config *native = c->jobs[0], *jvm = c->jobs[1];
	assert_int_equal(native->n_types, 4);
	assert_string_equal(job_type(native, VIEW("memory"))->path, "/pprof/heap");
	assert_true(job_type(native, VIEW("process_cpu"))->delta && !job_type(native, VIEW("growth"))->enabled);
	const struct type_config *wall = job_type(jvm, VIEW("wall")), *heap = job_type(jvm, VIEW("godeltaprof_memory"));
	assert_true(wall->folded_said && job_type(jvm, VIEW("own"))->folded_said && !heap->folded_said);
	assert_string_equal(wall->folded.type, "wall");
	assert_string_equal(wall->folded.unit, "nanoseconds");
	assert_true(heap->enabled && heap->since_last && !job_type(jvm, VIEW("godeltaprof_block"))->enabled);
	assert_int_equal(scrape_type_kind(heap, VIEW("alloc_space"), VIEW("bytes"), false), PROFILE_DELTA);
	assert_int_equal(scrape_type_kind(heap, VIEW("inuse_space"), VIEW("bytes"), false), PROFILE_GAUGE);
	scraper_config_unref(c);
}

static void prometheus_file(void **state)
{
	struct scraper_config *c = good(
		"global: {scrape_interval: 15s, scrape_timeout: 10s, sample_limit: 9}\n"
		"scrape_configs:\n- job_name: p\n  honor_timestamps: true\n  metrics_path: /metrics\n  scheme: HTTPS\n"
		"  basic_auth: {username: u, password: p}\n  sample_limit: 3\n  static_configs: [{targets: [a:1], labels: {x: y}}]\n"
		"- {job_name: q, scrape_interval: 1h}\n");
	const struct job_config *j = c->jobs[0];
	assert_true(!warnings[0] && j->metrics && !c->jobs[1]->metrics);
	assert_int_equal(j->interval_ms, 15000);
	assert_int_equal(j->timeout_ms, 10000);
	assert_int_equal(j->scheme, 1);
	assert_int_equal(j->sample_limit, 3);
	assert_int_equal(c->jobs[1]->sample_limit, 9);
	assert_int_equal(c->jobs[1]->interval_ms, 3600000);
	assert_string_equal(j->http.basic_auth->password, "p");
	scraper_config_unref(c);
	c = good("scrape_configs:\n- job_name: d\n");
	assert_int_equal(c->jobs[0]->interval_ms, 10000);
	scraper_config_unref(c);
}

static void mistakes(void **state)
{
	static const struct {
		const char *yaml, *says;
	} bad[] = {
		{ "scrape_configs:\n- scrape_interval: 1s\n", "p.yml:2:3: field scrape_configs[0].job_name: is missing" },
		{ "scrape_configs:\n- job_name: a\n- job_name: a\n", "p.yml:3:3: field scrape_configs[1]: job_name a is taken" },
		{ "scrape_configs:\n- job_name: a\n  scrape_intervall: 1s\n", "did you mean scrape_interval?" },
		{ "scrape_configs:\n- job_name: a\n  nomad_sd_configs: []\n",
		  "p.yml:3:3: field scrape_configs[0].nomad_sd_configs: this kind of discovery is not built in" },
		{ "scrape_configs:\n- job_name: a\n  static_configs: [{targets: ['http://x/']}]\n",
		  "field scrape_configs[0].static_configs[0]: target \"http://x/\" is not host:port" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {x: {enabled: true}}}\n",
		  "field scrape_configs[0].profiling_config.pprof_config.x: path is missing" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {memory: {path: x}}}\n", "begin with a slash" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {memory: {seconds: 3}}}\n", "needs delta" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {process_cpu: {seconds: 30}}}\n",
		  "process_cpu asks for 30 seconds, more than scrape_interval" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {process_cpu: {since_last_request: true}}}\n", "exclude each other" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {series_labels: [x], pprof_config: {godeltaprof_block: {}}}\n", "cannot split" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {memory: {folded: {x: y}}}}\n", "x" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {memory: {kind: sum}}}\n",
		  "\"sum\" is not one of delta|cumulative|gauge" },
		{ "scrape_configs:\n- job_name: a\n  profiling_config: {pprof_config: {a-b: {path: /}}}\n", "letters, digits" },
		{ "scrape_configs:\n- job_name: a\n  relabel_configs: [{action: hashmod}]\n",
		  "field scrape_configs[0].relabel_configs[0]: action hashmod needs a target_label" },
		{ "scrape_configs:\n- job_name: a\n  basic_auth: {password: sEcReT, password_file: f}\n", "both given" },
		{ "scrape_configs: {}\n", "a list of jobs is wanted" },
		{ "scrape_configs:\n- job_name: a\n  scrape_interval: 1ms\n", "under 100ms" },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct scraper_config *c;
		struct err e = { 0 };
		int rc = parse(bad[i].yaml, &c, &e);
		if (!rc || !strstr(e.msg, bad[i].says))
			fail_msg("%s gives \"%s\", not \"%s\"", bad[i].yaml, rc ? e.msg : "no error", bad[i].says);
		assert_null(strstr(e.msg, "sEcReT"));
	}
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void more_files(void **state)
{
	char dir[] = "/tmp/pyrrha-scrape-XXXXXX", path[512];
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	assert_non_null(mkdtemp(dir));
	put_file(dir, "main.yml", "scrape_config_files: ['jobs-*.yml']\nscrape_configs: [{job_name: own}]\n");
	put_file(dir, "jobs-1.yml", "scrape_configs: [{job_name: one, bearer_token_file: tok}]\n");
	put_file(dir, "jobs-2.yml", "scrape_configs:\n- {job_name: two}\n- {job_name: own}\n");
	snprintf(path, sizeof path, "%s/main.yml", dir);
	assert_int_equal(config_load(&t, path, &e), 0);
	assert_true(scraper_config_parse(&c, t, NULL, NULL, &e) < 0);
	assert_non_null(strstr(e.msg, "jobs-2.yml:3:3: field scrape_configs[1]: job_name own is taken"));
	put_file(dir, "jobs-2.yml", "scrape_configs:\n- {job_name: two}\n");
	if (scraper_config_parse(&c, t, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(c->n_jobs, 3);
	snprintf(path, sizeof path, "%s/tok", dir);
	assert_string_equal(scraper_config_job(c, "one")->http.authorization->credentials_file, path);
	scraper_config_unref(c);
	config_free(t);
	static const char *const names[] = { "main.yml", "jobs-1.yml", "jobs-2.yml" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

static void unchanged_jobs_are_known(void **state)
{
	static const char text[] = "scrape_configs:\n- {job_name: a, static_configs: [{targets: [x:1]}]}\n- {job_name: b}\n";
	struct scraper_config *one = good(text);
	struct scraper_config *two = good("global: {external_labels: {a: b}}\nscrape_configs:\n- job_name: a\n"
					  "  static_configs:\n  - targets:\n    - 'x:1'\n- {job_name: b, scrape_interval: 1s}\n");
	assert_true(view_eq(one->jobs[0]->fingerprint, two->jobs[0]->fingerprint));
	assert_false(view_eq(one->jobs[1]->fingerprint, two->jobs[1]->fingerprint));
	assert_true(discovery_same(&one->jobs[0]->sd, &two->jobs[0]->sd));
	assert_true(one->serial != two->serial);
	scraper_config_unref(one);
	scraper_config_unref(two);
}

/* Of several servers with the same targets, types that are asked for too long to fit side by side. */
static void no_room_for_other_servers(void **state)
{
	static const char text[] = "scrape_configs:\n- job_name: a\n  profiling_config:\n    pprof_config:\n      process_cpu:\n"
				   "        seconds: 5\n      fgprof: {enabled: true}\n"
				   "- {job_name: b, scrape_interval: 11s, profiling_config: {pprof_config: {process_cpu: {seconds: 5}}}}\n"
				   "- {job_name: c, profiling_config: {preset: agent}}\n"
				   "- {job_name: d, profiling_config: {pprof_config: {process_cpu: {enabled: false}}}}\n";
	scraper_config_unref(good(text));
	assert_null(strstr(warnings, "side by side"));
	scraper_config_expect(2);
	scraper_config_unref(good(text));
	assert_non_null(strstr(warnings, "p.yml:6:18: field scrape_configs[0]: process_cpu asks for 5 of 10s: 2 servers"));
	assert_null(strstr(strstr(warnings, "side by side") + 1, "side by side"));
	scraper_config_unref(good("scrape_configs: [{job_name: a}]\n"));
	assert_non_null(strstr(warnings, "p.yml:1:18: field scrape_configs[0]: process_cpu asks for 10 of 10s (seconds is not set)"));
	scraper_config_expect(1);
}

/* What Parca's operator writes: what is not said is null. */
static void parcas_operators_file(void **state)
{
	struct scraper_config *c = good(
		"object_storage:\n  bucket:\n    type: FILESYSTEM\n    config: {directory: ./tmp}\n    prefix: \"\"\n"
		"scrape_configs:\n  - job_name: default/test\n    scrape_interval: 45s\n    scrape_timeout: 1m\n"
		"    profiling_config:\n      pprof_config:\n        fgprof:\n          enabled: true\n          path: /debug/pprof/fgprof\n"
		"    relabel_configs:\n"
		"      - {source_labels: [__meta_kubernetes_pod_phase], regex: (Failed|Succeeded), action: drop}\n"
		"      - {source_labels: [__meta_kubernetes_namespace], regex: null, target_label: namespace}\n"
		"      - {regex: null, target_label: endpoint, replacement: http}\n"
		"    follow_redirects: false\n    enable_http2: false\n"
		"    kubernetes_sd_configs:\n      - role: pod\n        namespaces:\n          names:\n            - default\n");
	const struct job_config *j = c->jobs[0];
	assert_int_equal(j->relabel.n, 3);
	assert_string_equal(j->relabel.v[1].regex, "(.*)");
	assert_int_equal(j->sd.n, 1);
	assert_false(j->http.follow_redirects);
	scraper_config_unref(c);
}

/* A job stays what it was, in the arena that it was decoded into, when the ones beside it come and go. */
static void configurations_are_joined(void **state)
{
	struct scraper_config *base = good("scrape_configs:\n- {job_name: a}\n- {job_name: b}\n");
	struct scraper_config *one = good("scrape_configs: [{job_name: n/one}]\n"), *two = good("scrape_configs: [{job_name: n/two}]\n");
	struct scraper_config *all = scraper_config_join(base, (struct scraper_config *[]){ one, two }, 2);
	struct scraper_config *less = scraper_config_join(base, (struct scraper_config *[]){ two }, 1);
	assert_int_equal(all->n_jobs, 4);
	assert_int_equal(less->n_jobs, 3);
	const struct job_config *j = scraper_config_job(all, "n/two");
	assert_ptr_equal(j, scraper_config_job(less, "n/two"));
	assert_ptr_equal(j->config, two);
	assert_ptr_equal(scraper_config_job(all, "b")->config, base);
	assert_null(scraper_config_job(less, "n/one"));
	scraper_config_unref(base);
	scraper_config_unref(one);
	scraper_config_unref(two);
	scraper_config_unref(all);
	assert_string_equal(j->name, "n/two"); /* the other one still holds it */
	scraper_config_unref(less);
}

/* The plan for one type of a target that has these labels. */
static struct target_plan plan_of(const struct job_config *j, const struct type_config *t, const struct label *l, size_t n)
{
	struct target_plan p;
	struct arena a;
	arena_init(&a, 0);
	target_plan_make(j, t, (struct labels){ 0 }, (struct labels){ l, n }, &a, &p);
	arena_free(&a);
	return p;
}

static struct target_plan plan(const struct job_config *j, const char *type, const struct label *l, size_t n)
{
	return plan_of(j, job_type(j, view_of(type)), l, n);
}

#define L(n, v) { VIEW(n), VIEW(v) }

static void plans(void **state)
{
	struct scraper_config *c = good(
		"scrape_configs:\n- job_name: j\n  scrape_timeout: 3s\n  params: {a: ['1', '2'], seconds: ['4']}\n"
		"  profiling_config: {path_prefix: /pre/, pprof_config: {q: {path: '/q?x=y'}}}\n");
	const struct job_config *j = c->jobs[0];
	struct label v6[] = { L("__address__", "[::1]:80"), L("__scheme__", "https"), L("__param_a", "b c") };
	struct target_plan p = plan(j, "memory", v6, 3);
	assert_string_equal(p.url, "https://[::1]:80/pre/debug/pprof/allocs?a=b%20c&a=2");
	assert_int_equal(p.deadline_ms, 3000);
	assert_int_equal(p.interval_ms, 10000);
	struct view instance = labels_get(*p.visible, VIEW("instance"));
	assert_true(view_eqs(instance, "[::1]:80"));
	assert_int_equal(p.visible->n, 2);
	target_plan_release(&p);
	p = plan(j, "process_cpu", v6, 3);
	assert_string_equal(p.url, "https://[::1]:80/pre/debug/pprof/profile?a=b%20c&a=2&seconds=4");
	assert_int_equal(p.deadline_ms, 14000); /* seconds + 10 s, later than the timeout */
	target_plan_release(&p);
	p = plan(j, "q", v6, 3);
	assert_string_equal(p.url, "https://[::1]:80/pre/q?x=y&a=b%20c&a=2");
	target_plan_release(&p);
	struct label bad[] = { L("__address__", "u:p@host") };
	p = plan(j, "memory", bad, 1);
	assert_string_equal(p.problem, "__address__ is not host:port");
	target_plan_release(&p);
	p = plan(j, "memory", NULL, 0);
	assert_string_equal(p.problem, "the target has no __address__");
	target_plan_release(&p);
	struct label own[] = { L("__address__", "h:1"), L("__scrape_interval__", "1m"), L("job", "mine"), L("instance", "i"),
			       L("__meta_x", "y") };
	p = plan(j, "memory", own, 5);
	assert_int_equal(p.interval_ms, 60000);
	assert_true(view_eqs(labels_get(*p.visible, VIEW("job")), "mine"));
	assert_true(view_eqs(labels_get(*p.visible, VIEW("instance")), "i"));
	assert_int_equal(p.visible->n, 2);
	target_plan_release(&p);
	scraper_config_unref(c);
}

/* The path of a socket is dialled; an empty address is localhost then. Two sockets are two targets. */
static void sockets_and_paths(void **state)
{
	struct scraper_config *c = good(
		"scrape_configs:\n- job_name: j\n  relabel_configs:\n  - {source_labels: [__metrics_path__], target_label: path}\n"
		"  - {target_label: __metrics_path__, replacement: /elsewhere}\n"
		"- job_name: k\n  static_configs: [{targets: [''], labels: {__unix_socket__: /run/a}}]\n"
		"  relabel_configs: [{source_labels: [__metrics_path__], target_label: path}]\n");
	const struct job_config *j = c->jobs[0], *k = c->jobs[1];
	assert_non_null(strstr(warnings, "p.yml:5:5: field scrape_configs[0]: __metrics_path__ is no path of profiles"));
	struct label a[] = { L("__unix_socket__", "/run/a") }, b[] = { L("__unix_socket__", "/run/b") }, h[] = { L("__address__", "localhost") };
	struct target_plan p = plan(j, "memory", a, 1), q = plan(j, "memory", b, 1), r = plan(j, "memory", h, 1);
	assert_string_equal(p.url, "http://localhost/debug/pprof/allocs");
	assert_string_equal(p.socket, "/run/a");
	assert_true(view_eqs(labels_get(*p.visible, VIEW("instance")), "localhost"));
	assert_true(view_eqs(labels_get(*p.visible, VIEW("path")), "/metrics"));
	assert_null(r.socket);
	assert_true(p.hash != q.hash && p.hash != r.hash && p.target_key != q.target_key && p.target_key != r.target_key);
	target_plan_release(&p);
	target_plan_release(&q);
	target_plan_release(&r);
	p = plan(k, "memory", h, 1);
	struct labels *before = target_discovered(k, job_type(k, VIEW("memory")), (struct labels){ 0 }, (struct labels){ h, 1 });
	assert_true(view_eqs(labels_get(*before, VIEW("__metrics_path__")), "/metrics"));
	free(before);
	assert_true(view_eqs(labels_get(*p.visible, VIEW("path")), "/metrics"));
	target_plan_release(&p);
	char longest[256];
	memset(longest, 'x', sizeof longest);
	longest[0] = '/';
	struct label bad[][1] = { { L("__unix_socket__", "run/a") }, { L("__unix_socket__", "@a") },
				  { { VIEW("__unix_socket__"), view_make(longest, sizeof longest) } } };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		p = plan(j, "memory", bad[i], 1);
		assert_true(p.problem && strstr(p.problem, "__unix_socket__ is "));
		target_plan_release(&p);
	}
	scraper_config_unref(c);
}

/* metrics_path alone: metrics; with profiling_config: both; without either: profiles. */
static void metrics_jobs(void **state)
{
	struct scraper_config *c = good(
		"global: {scrape_interval: 10s}\nscrape_configs:\n"
		"- {job_name: m, metrics_path: /m, honor_timestamps: false, params: {seconds: [3]}, relabel_configs: [\n"
		"    {target_label: __metrics_path__, source_labels: [__metrics_path__], replacement: '/x$1'}]}\n"
		"- {job_name: both, metrics_path: /m, scrape_timeout: 20s, fallback_scrape_protocol: PrometheusText0.0.4, profiling_config: {\n"
		"    path_prefix: /p, pprof_config: {metrics: {path: /debug/metrics}}}}\n"
		"- {job_name: neither, honor_timestamps: false}\n");
	const struct job_config *m = c->jobs[0], *both = c->jobs[1], *neither = c->jobs[2];
	struct label address[] = { L("__address__", "h:1") };
	assert_true(m->metrics && m->n_types == 1 && m->types[0].metrics && !m->honor_timestamps && !m->fallback_is_text);
	assert_true(both->metrics && both->n_types == c->jobs[2]->n_types + 2 && both->types[0].metrics && !both->types[1].metrics && both->fallback_is_text);
	assert_true(!neither->metrics && !neither->types[0].metrics && both->honor_timestamps);
	assert_non_null(strstr(warnings, "honor_timestamps: ignored; a profile's own time counts"));
	assert_null(strstr(warnings, "__metrics_path__"));
	assert_int_equal(m->timeout_ms, 10000);
	struct target_plan p = plan_of(m, &m->types[0], address, 1), q = plan_of(both, &both->types[0], address, 1);
	struct target_plan r = plan(both, "memory", address, 1);
	assert_string_equal(p.url, "http://h:1/x/m?seconds=3");
	assert_string_equal(p.name, "metrics");
	assert_string_equal(q.url, "http://h:1/m");
	assert_int_equal(q.deadline_ms, 10000); /* no longer than the interval */
	assert_string_equal(r.url, "http://h:1/p/debug/pprof/allocs");
	assert_int_equal(r.deadline_ms, 20000);
	assert_true(q.target_key == r.target_key && q.hash != r.hash);
	target_plan_release(&p);
	target_plan_release(&q);
	target_plan_release(&r);
	struct label slow[] = { L("__address__", "h:1"), L("__scrape_interval__", "5s") };
	p = plan_of(m, &m->types[0], slow, 2);
	assert_string_equal(p.problem, "__scrape_timeout__ is longer than __scrape_interval__");
	target_plan_release(&p);
	struct labels *l = target_discovered(m, &m->types[0], (struct labels){ 0 }, (struct labels){ address, 1 });
	assert_true(view_eqs(labels_get(*l, VIEW("__metrics_path__")), "/m") && !labels_get(*l, VIEW("__profile_path__")).len &&
		    !labels_get(*l, VIEW(LABEL_NAME)).len);
	free(l);
	scraper_config_unref(c);
}

static void agents(void **state)
{
	struct scraper_config *c = good(
		"scrape_configs:\n- job_name: a\n  scrape_interval: 15m\n  profiling_config: {preset: agent}\n"
		"- job_name: own\n  honor_labels: false\n  profiling_config: {preset: agent, series_labels: [team]}\n"
		"- job_name: go\n  scrape_interval: 15m\n");
	static const char *const labels[] = { "node", "namespace", "workload", "pod", "container", "unit", "comm" };
	const struct job_config *j = c->jobs[0], *own = c->jobs[1];
	struct label address[] = { L("__address__", "h:1") };

	assert_int_equal(j->n_types, 2);
	assert_true(j->honor_labels && j->series_from_profile && job_type(j, VIEW("on_cpu"))->delta && job_type(j, VIEW("off_cpu"))->delta);
	assert_int_equal(j->series_labels.n, ARRAY_LEN(labels));
	for (size_t i = 0; i < ARRAY_LEN(labels); i++)
		assert_string_equal(j->series_labels.v[i], labels[i]);
	/* An agent gives ten minutes at once. */
	struct target_plan p = plan(j, "on_cpu", address, 1);
	assert_string_equal(p.url, "http://h:1/debug/pprof/profile?seconds=600");
	target_plan_release(&p);
	p = plan(j, "off_cpu", address, 1);
	assert_string_equal(p.url, "http://h:1/debug/pprof/offcpu?seconds=600");
	target_plan_release(&p);
	p = plan(c->jobs[2], "process_cpu", address, 1);
	assert_string_equal(p.url, "http://h:1/debug/pprof/profile?seconds=900");
	target_plan_release(&p);
	/* The job has the last word. */
	assert_true(!own->honor_labels && !own->series_from_profile && own->series_labels.n == 1);
	scraper_config_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_and_paths), cmocka_unit_test(agents), cmocka_unit_test(metrics_jobs),
		cmocka_unit_test(parcas_tutorial), cmocka_unit_test(no_room_for_other_servers),
		cmocka_unit_test(kinds), cmocka_unit_test(other_formats),
		cmocka_unit_test(prometheus_file),
		cmocka_unit_test(mistakes),
		cmocka_unit_test(more_files),
		cmocka_unit_test(unchanged_jobs_are_known),
		cmocka_unit_test(configurations_are_joined),
		cmocka_unit_test(parcas_operators_file),
		cmocka_unit_test(plans),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
