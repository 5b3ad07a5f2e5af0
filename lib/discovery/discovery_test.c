/* SPDX-License-Identifier: Apache-2.0 */
/* Providers at work: shared, taken over, ended; groups; refreshes; and what lists of target groups may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>

#include "discovery/group.h"
#include "discovery/metrics.h"
#include "discovery/refresh.h"
#include "discovery/target_groups.h"
#include "discovery/testkit.h"

/* A kind that emits what a test says; configurations are equal if their names are. */
struct fake {
	const char *name;
};
static struct {
	atomic_int started, stopped, cancelled, refs;
	struct discovery_emit emit; /* of the last one that was started */
	int fail;
} fakes;

static bool fake_same(const void *a, const void *b)
{
	return strcmp(((const struct fake *)a)->name, ((const struct fake *)b)->name) == 0;
}

static int fake_start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	static struct discovery_provider p;
	if (fakes.fail)
		return err_set(e, ERR_IO, "no");
	fakes.started++;
	fakes.emit = *emit;
	*ret = &p;
	return 0;
}

static void fake_stop(struct discovery_provider *p)
{
	fakes.stopped++;
}

static void fake_cancel(struct discovery_provider *p)
{
	fakes.cancelled++;
}

static void fake_name(const void *config, struct buf *out)
{
	buf_puts(out, ((const struct fake *)config)->name);
}

static const struct discovery_ops fake_ops = { "fake_sd_configs", NULL, fake_same, fake_start, fake_stop, .name = fake_name,
					       .cancel = fake_cancel };

static void fake_ref(void *owner)
{
	fakes.refs++;
}

static void fake_unref(void *owner)
{
	fakes.refs--;
}

/* A job with the fakes of these names, space between. */
struct job {
	struct fake fakes[4];
	struct discovery_config v[4];
	struct sd_run run;
};

static int job_start(struct job *j, const char *name, const char *a, const char *b)
{
	j->fakes[0].name = a;
	j->fakes[1].name = b;
	for (size_t i = 0; i < 2; i++)
		j->v[i] = (struct discovery_config){ &fake_ops, &j->fakes[i] };
	j->run = (struct sd_run){ 0 };
	const struct discovery_configs c = { j->v, b ? 2 : 1 };
	const struct discovery_user user = { name, sd_changed, &j->run, j, fake_ref, fake_unref };
	return discovery_start(&j->run.d, &c, &user, &j->run.err);
}

static void job_stop(struct job *j)
{
	discovery_stop(j->run.d);
	buf_free(&j->run.text);
}

static void emit(const char *source, const char *const *addresses, size_t n)
{
	struct label l[8];
	struct labels t[8];
	const struct label group = { VIEW("g"), view_of(source) };
	for (size_t i = 0; i < n; i++) {
		l[i] = (struct label){ VIEW("__address__"), view_of(addresses[i]) };
		t[i] = (struct labels){ &l[i], 1 };
	}
	fakes.emit.group(fakes.emit.arg, &(struct discovery_group){ source, { &group, 1 }, t, n });
}
#define EMIT(source, ...) emit(source, (const char *const[]){ __VA_ARGS__ }, ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))

static void reset(void)
{
	discovery_finish();
	memset(&fakes, 0, sizeof fakes);
}

static void equal_configurations_run_once(void **state)
{
	struct job a, b, c;
	reset();
	assert_int_equal(job_start(&a, "a", "x", NULL), 0);
	EMIT("1", "h:1", "h:2");
	assert_int_equal(job_start(&b, "b", "x", "y"), 0);
	assert_int_equal(fakes.started, 2);
	assert_int_equal(fakes.refs, 2);
	assert_string_equal(sd_targets(&a.run), "{__address__=\"h:1\"}{g=\"1\"}\n{__address__=\"h:2\"}{g=\"1\"}\n");
	assert_string_equal(sd_targets(&b.run), sd_targets(&a.run));
	EMIT("2", "h:3"); /* of y, which only b uses */
	assert_int_equal(a.run.changes, 1);
	assert_int_equal(b.run.changes, 1);
	assert_null(strstr(sd_targets(&a.run), "h:3"));
	assert_non_null(strstr(sd_targets(&b.run), "h:3"));
	/* The same within one job is one. */
	assert_int_equal(job_start(&c, "c", "x", "x"), 0);
	assert_int_equal(sd_status(&c.run).providers, 1);
	job_stop(&c);
	job_stop(&a);
	discovery_finish();
	assert_int_equal(fakes.stopped, 0);
	job_stop(&b);
	discovery_finish();
	assert_int_equal(fakes.stopped, 2);
	assert_int_equal(fakes.cancelled, 2);
	assert_int_equal(fakes.refs, 0);
}

static void a_provider_outlives_a_reload(void **state)
{
	struct job old, new;
	reset();
	assert_int_equal(job_start(&old, "old", "x", NULL), 0);
	EMIT("1", "h:1");
	job_stop(&old); /* and only then the renamed one */
	clock_sleep_ms(50);
	assert_int_equal(job_start(&new, "new", "x", NULL), 0);
	assert_int_equal(fakes.started, 1);
	assert_string_equal(sd_targets(&new.run), "{__address__=\"h:1\"}{g=\"1\"}\n");
	clock_sleep_ms(1300);
	assert_int_equal(fakes.stopped, 0);
	job_stop(&new);
	SD_WAIT(fakes.stopped == 1); /* by itself */
	discovery_finish();
	assert_int_equal(fakes.refs, 0);
}

static void all_or_none(void **state)
{
	struct job a;
	reset();
	fakes.fail = 1;
	assert_true(job_start(&a, "a", "x", NULL) < 0);
	assert_string_equal(a.run.err.msg, "fake_sd_configs: no");
	assert_int_equal(fakes.refs, 0);
	buf_free(&a.run.text);
}

static void problems_and_readiness(void **state)
{
	struct job a;
	struct err e = { ERR_IO, "it does not answer" };
	reset();
	assert_int_equal(job_start(&a, "a", "x", NULL), 0);
	assert_false(discovery_ready(a.run.d));
	EMIT("1", "h:1");
	fakes.emit.ready(fakes.emit.arg);
	assert_true(discovery_ready(a.run.d));
	fakes.emit.ready(fakes.emit.arg);
	assert_int_equal(a.run.changes, 2);
	fakes.emit.problem(fakes.emit.arg, &e);
	assert_string_equal(sd_status(&a.run).problem, "it does not answer");
	assert_string_equal(sd_status(&a.run).name, "x");
	assert_int_equal(sd_status(&a.run).targets, 1);
	assert_true(metric_get(&discovery_table[SD_FAILED], "fake", "") == 1);
	fakes.emit.problem(fakes.emit.arg, &e);
	assert_true(metric_get(&discovery_table[SD_FAILED], "fake", "") == 1);
	e = (struct err){ ERR_IO, "it does not answer within 10 s" };
	fakes.emit.problem(fakes.emit.arg, &e);
	assert_string_equal(sd_status(&a.run).problem, "it does not answer within 10 s");
	fakes.emit.problem(fakes.emit.arg, NULL);
	assert_string_equal(sd_status(&a.run).problem, "");
	assert_true(metric_get(&discovery_table[SD_FAILED], "fake", "") == 0);
	fakes.emit.problem(fakes.emit.arg, &e);
	job_stop(&a);
	discovery_finish();
	assert_true(metric_get(&discovery_table[SD_FAILED], "fake", "") == 0);
}

static void targets_are_counted_by_job(void **state)
{
	struct job a, b;
	reset();
	assert_int_equal(job_start(&a, "count-a", "x", NULL), 0);
	EMIT("1", "h:1", "h:2");
	assert_int_equal(job_start(&b, "count-b", "x", NULL), 0);
	EMIT("2", "h:3");
	assert_true(metric_get(&discovery_table[SD_TARGETS], "count-a", "fake", "") == 3);
	assert_true(metric_get(&discovery_table[SD_DELAYED], "count-a") == 1); /* it has not looked in between */
	assert_true(metric_get(&discovery_table[SD_DELAYED], "count-b") == 0);
	sd_targets(&a.run);
	assert_true(metric_get(&discovery_table[SD_TARGETS], "count-b", "fake", "") == 3);
	emit("1", NULL, 0);
	assert_true(metric_get(&discovery_table[SD_DELAYED], "count-a") == 1);
	assert_true(metric_get(&discovery_table[SD_DELAYED], "count-b") == 1);
	assert_true(metric_get(&discovery_table[SD_TARGETS], "count-b", "fake", "") == 1);
	job_stop(&a);
	assert_true(metric_get(&discovery_table[SD_TARGETS], "count-a", "fake", "") == 0);
	job_stop(&b);
}

static void keep_first(void *arg, const struct discovery_group *g)
{
	const struct discovery_group **kept = arg;
	if (!*kept)
		*kept = discovery_group_ref(g);
}

static void groups_outlive_their_provider(void **state)
{
	const struct discovery_group *kept = NULL;
	struct job a;
	reset();
	assert_int_equal(job_start(&a, "a", "x", NULL), 0);
	EMIT("1", "h:1", "h:2");
	int before = a.run.changes;
	EMIT("1", "h:1", "h:2"); /* as it was: nobody has to be told */
	assert_int_equal(a.run.changes, before);
	discovery_each(a.run.d, keep_first, &kept);
	EMIT("1", "h:9");
	job_stop(&a);
	discovery_finish();
	assert_string_equal(kept->source, "1");
	assert_int_equal(kept->n_targets, 2);
	assert_true(view_eqs(labels_get(kept->targets[1], VIEW("__address__")), "h:2"));
	assert_ptr_equal(kept->targets[0].v[0].name.ptr, kept->targets[1].v[0].name.ptr); /* once in memory */
	discovery_group_unref(kept);
}

/* More names of labels than are shared: they are right all the same. */
static void many_names(void **state)
{
	VEC(const struct discovery_group *) v = { 0 };
	char name[24];
	for (unsigned i = 0; i < 70000; i++) {
		snprintf(name, sizeof name, "name%u", i);
		const struct label l = { view_of(name), VIEW("x") };
		vec_push(&v, discovery_group_copy(&(struct discovery_group){ .source = name, .labels = { &l, 1 } }));
	}
	for (unsigned i = 0; i < 70000; i++) {
		snprintf(name, sizeof name, "name%u", i);
		assert_true(view_eqs(v.v[i]->labels.v[0].name, name));
		assert_string_equal(v.v[i]->source, name);
		discovery_group_unref(v.v[i]);
	}
	vec_free(&v);
}

static void many_groups(void **state)
{
	struct group_set s = { 0 };
	char name[24];
	const struct labels t = { 0 };
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "%u", i);
		assert_true(group_set_put(&s, &(struct discovery_group){ .source = name, .targets = &t, .n_targets = 1 }));
	}
	assert_int_equal(s.targets, 20000);
	for (unsigned i = 0; i < 20000; i += 2) {
		snprintf(name, sizeof name, "%u", i);
		assert_true(group_set_put(&s, &(struct discovery_group){ .source = name }));
		assert_false(group_set_put(&s, &(struct discovery_group){ .source = name }));
	}
	assert_int_equal(s.groups.n, 10000);
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "%u", i);
		assert_int_equal(group_set_get(&s, name) != NULL, i % 2);
	}
	group_set_free(&s);
}

/* ---- refresh ---- */

static struct {
	atomic_int calls, mode, released;
} asked;

static int fake_refresh(void *state, const struct discovery_emit *emit, const atomic_bool *cancel, struct err *e)
{
	const struct label address = { VIEW("__address__"), VIEW("r:1") };
	const struct labels t = { &address, 1 };
	int mode = asked.mode;
	emit->group(emit->arg, &(struct discovery_group){ .source = mode == 2 ? "two" : "one", .targets = &t, .n_targets = 1 });
	if (mode == 0)
		emit->group(emit->arg, &(struct discovery_group){ .source = "more", .targets = &t, .n_targets = 1 });
	asked.calls++;
	return mode == 1 ? err_set(e, ERR_IO, "broken") : 0;
}

static void fake_release(void *state)
{
	asked.released++;
}

static int refreshing_start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	const struct refresh_config r = { "fakes", ((const struct fake *)config)->name[0] == 'l' ? 1000000 : 100, fake_refresh,
					  fake_release };
	return refresh_start(ret, &fake_ops, &r, NULL, emit, e);
}

static void refreshes(void **state)
{
	static const struct discovery_ops ops = { "refreshing_sd_configs", NULL, fake_same, refreshing_start, refresh_stop,
						  .cancel = refresh_cancel };
	struct fake f = { "short" };
	struct discovery_config c = { &ops, &f };
	struct sd_run r = { 0 };
	const struct discovery_user user = { .job = "r", .changed = sd_changed, .arg = &r };
	reset();
	asked.mode = 1;
	assert_int_equal(discovery_start(&r.d, &(struct discovery_configs){ &c, 1 }, &user, &r.err), 0);
	SD_WAIT(asked.calls >= 2); /* the first has failed: nothing of what it emitted is told */
	assert_string_equal(sd_targets(&r), "");
	assert_false(discovery_ready(r.d));
	assert_string_equal(sd_status(&r).problem, "broken");
	asked.mode = 0;
	SD_WAIT(sd_status(&r).groups == 2);
	SD_WAIT(discovery_ready(r.d));
	assert_string_equal(sd_status(&r).problem, "");
	asked.mode = 1;
	SD_WAIT(strcmp(sd_status(&r).problem, "broken") == 0);
	assert_int_equal(sd_status(&r).groups, 2);
	asked.mode = 2; /* others: those of before go, in the same moment */
	int before = r.changes;
	SD_WAIT(sd_status(&r).groups == 1 && !sd_status(&r).problem[0]);
	assert_int_equal(r.changes, before + 1);
	discovery_stop(r.d);
	discovery_finish();
	assert_int_equal(asked.released, 1);
	assert_true(metric_get(&discovery_table[SD_REFRESH_FAILURES], "fakes") >= 2);
	f.name = "long";
	asked.calls = 0;
	assert_int_equal(discovery_start(&r.d, &(struct discovery_configs){ &c, 1 }, &user, &r.err), 0);
	SD_WAIT(asked.calls == 1);
	discovery_stop(r.d);
	discovery_finish(); /* does not wait for the interval */
	assert_int_equal(asked.calls, 1);
	buf_free(&r.text);
}

/* ---- lists ---- */

static void lists_of_groups(void **state)
{
	static const struct {
		const char *json, *yaml; /* NULL = as JSON */
		int groups;              /* -1: an error */
		const char *says;        /* of JSON */
	} table[] = {
		{ "[]", NULL, 0 },
		{ "[{\"targets\": [\"a:1\", \"b:2\"], \"labels\": {\"x\": \"y\"}}]", NULL, 1 },
		{ "[{\"targets\": []}]", NULL, 1 },
		{ "[{\"targets\": [\"a:1\"]}, {\"targets\": [\"a:2\"]}]", "- targets: ['a:1']\n- {targets: ['a:2'], labels: }\n", 2 },
		{ "[{\"labels\": {\"a\": \"b\"}}]", NULL, 1 },
		{ "null", "[]", 0 },
		{ "{}", NULL, -1, "a list of target groups is wanted" },
		{ "[null]", NULL, -1, "group 0: {\"targets\": [...], \"labels\": {...}} is wanted" },
		{ "[{\"targets\": [\"a:1\"], \"label\": {}}]", NULL, -1, "group 0: unknown field \"label\"" },
		{ "[{\"targets\": \"a:1\"}]", "targets: a:1", -1, "targets: a list of strings is wanted" },
		{ "[{\"targets\": [1]}]", "[{targets: [{}]}]", -1, "targets: a string is wanted" },
		{ "[{\"targets\": [\"a:1\"], \"labels\": {\"\": \"x\"}}]", NULL, -1, "a label without a name" },
		{ "[{\"targets\": [\"a:1\"], \"labels\": {\"a\": 1}}]", "[{labels: {a: []}}]", -1, "a value that is not a string" },
		{ "[{\"targets\": [\"a:1\"]}", NULL, -1, ":1:" },
		{ "", NULL, -1, "JSON" },
	};
	const struct target_origin o = { "f.json", "__meta_filepath", "f.json" };
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		for (int yaml = 0; yaml < 2; yaml++) {
			struct target_groups g = { 0 };
			struct err e = { 0 };
			const char *text = yaml && table[i].yaml ? table[i].yaml : table[i].json;
			int rc = (yaml ? target_groups_yaml : target_groups_json)(view_of(text), &o, &g, &e);
			if (rc ? table[i].groups >= 0 : (int)g.v.n != table[i].groups)
				fail_msg("%s: %zu groups, %s", text, g.v.n, e.msg);
			if (rc && strncmp(e.msg, "f.json:", 7) != 0)
				fail_msg("%s: %s", text, e.msg);
			if (rc && !yaml && !strstr(e.msg, table[i].says))
				fail_msg("%s: %s", text, e.msg);
			target_groups_release(&g);
		}
}

static void a_list_of_groups(void **state)
{
	const struct target_origin o = { "f", "__meta_filepath", "f" };
	struct target_groups g = { 0 };
	struct err e = { 0 };
	struct buf b = { 0 };
	assert_int_equal(target_groups_json(VIEW("[{\"targets\":[]},{\"targets\":[\"a:1\"],\"labels\":{\"x\":\"y\"}}]"), &o, &g, &e), 0);
	assert_string_equal(g.v.v[1]->source, "f:1");
	labels_format(g.v.v[1]->labels, &b);
	assert_string_equal(b.ptr, "{__meta_filepath=\"f\", x=\"y\"}");
	buf_free(&b);
	target_groups_release(&g);
	/* More targets than are taken: said, not cut off. */
	buf_puts(&b, "[{\"targets\":[\"a\"");
	for (size_t i = 0; i < TARGET_GROUPS_MAX; i++)
		buf_puts(&b, ",\"a\"");
	buf_puts(&b, "]}]");
	assert_int_equal(target_groups_json(buf_view(&b), &o, &g, &e), -ERR_LIMIT);
	assert_string_equal(e.msg, "f: over 500000 targets");
	buf_free(&b);
}

/* ---- configuration ---- */

static void kinds_are_known(void **state)
{
	static const char *const not_there[] = { "outscale_sd_configs", "aws_sd_configs", "oci_sd_configs", "stackit_sd_configs",
						 "ec2_sd_configs", "nomad_sd_configs", "azure_sd_configs" };
	for (size_t i = 0; i < ARRAY_LEN(not_there); i++) {
		struct sd_run r;
		char text[200];
		snprintf(text, sizeof text, "job_name: x\n%s: [{}]\n", not_there[i]);
		assert_true(sd_decode(&r, text, NULL) < 0);
		assert_true(discovery_known_elsewhere(view_of(not_there[i])));
		snprintf(text, sizeof text, "t.yml:2:1: field %s: this kind of discovery is not built in", not_there[i]);
		if (!strstr(r.err.msg, text))
			fail_msg("%s", r.err.msg);
		sd_stop(&r);
	}
	assert_false(discovery_known_elsewhere(VIEW("file_sd_configs")));
	assert_non_null(discovery_kind(VIEW("http_sd_configs")));
}

static void configurations(void **state)
{
	static const struct {
		const char *yaml, *says;
	} bad[] = {
		{ "file_sd_configs: {}", "t.yml:1:18: field file_sd_configs: a list is wanted" },
		{ "file_sd_configs: [{}]", "file_sd_configs[0]" },
		{ "file_sd_configs: [{files: []}]", "files: at least one is wanted" },
		{ "file_sd_configs: [{files: [a.txt]}]", "\"a.txt\" is not the name of a .json, .yml or .yaml file" },
		{ "file_sd_configs: [{files: ['*/a.yml']}]", "* in its last part only" },
		{ "file_sd_configs: [{files: [a.yml], x: y}]", "t.yml:1:36" },
		{ "file_sd_configs:\n- files: [a.yml]\n- files: [a.yml]\n  refresh_interval: 0s", "t.yml:3:3: field file_sd_configs[1]" },
		{ "http_sd_configs: [{}]", "url" },
		{ "http_sd_configs: [{url: ''}]", "not the URL of a server" },
		{ "http_sd_configs: [{url: 'ftp://x'}]", "not the URL of a server" },
		{ "http_sd_configs: [{url: 'http:///x'}]", "not the URL of a server" },
		{ "http_sd_configs: [{url: 'http://x', urls: 1}]", "urls" },
		{ "http_sd_configs: [{url: 'http://x', basic_auth: {}, bearer_token: x}]", "one is enough" },
	};
	struct sd_run r, s;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(sd_decode(&r, bad[i].yaml, NULL) < 0);
		if (!strstr(r.err.msg, bad[i].says))
			fail_msg("%s: %s", bad[i].yaml, r.err.msg);
		sd_stop(&r);
	}
	static const char good[] = "http_sd_configs: [{url: 'http://u:p@x/y?token=z', basic_auth: {username: a, password: b}}, {url: 'https://y'}]";
	assert_int_equal(sd_decode(&r, good, NULL), 0);
	assert_int_equal(r.configs.n, 2);
	assert_int_equal(sd_decode(&s, good, NULL), 0);
	assert_true(discovery_same(&r.configs, &s.configs));
	struct buf name = { 0 };
	r.configs.v[0].ops->name(r.configs.v[0].config, &name);
	assert_string_equal(name.ptr, "http://<secret>@x/y?token=<secret>");
	buf_free(&name);
	sd_stop(&s);
	/* The client's configuration counts as well. */
	assert_int_equal(sd_decode(&s, "http_sd_configs: [{url: 'http://u:p@x/y?token=z', basic_auth: {username: a, password: c}}, "
				       "{url: 'https://y'}]", NULL), 0);
	assert_false(discovery_same(&r.configs, &s.configs));
	sd_stop(&r);
	sd_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_configurations_run_once), cmocka_unit_test(a_provider_outlives_a_reload),
		cmocka_unit_test(all_or_none), cmocka_unit_test(problems_and_readiness),
		cmocka_unit_test(targets_are_counted_by_job), cmocka_unit_test(groups_outlive_their_provider),
		cmocka_unit_test(many_groups), cmocka_unit_test(many_names), cmocka_unit_test(refreshes), cmocka_unit_test(lists_of_groups),
		cmocka_unit_test(a_list_of_groups), cmocka_unit_test(kinds_are_known), cmocka_unit_test(configurations),
	};
	discovery_register_metrics();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	metrics_free();
	return rc;
}
