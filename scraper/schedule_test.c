/* SPDX-License-Identifier: Apache-2.0 */
/* When a target is asked does not depend on who asks; and what is said and done when it measures for somebody else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "scraper/internal.h"

#define TYPES "  profiling_config: {pprof_config: {process_cpu: {path: /cpu, seconds: 2}, memory: {path: /heap}}}\n"

/* The slot of a type of the first job's target, in a configuration of its own. */
static uint64_t slot(const char *yaml, const char *type, const char *address, const char *label)
{
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	struct arena a;
	struct label labels[3] = { { VIEW("__address__"), view_of(address) }, { VIEW("replica"), view_of(label) } };
	struct target_plan p = { 0 };
	if (config_parse(&t, view_of(yaml), "test.yml", &e) || scraper_config_parse(&c, t, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	config_free(t);
	arena_init(&a, 0);
	const struct job_config *j = scraper_config_job(c, "go");
	target_plan_make(j, job_type(j, view_of(type)), (struct labels){ NULL, 0 }, (struct labels){ labels, 2 }, &a, &p);
	uint64_t h = p.slot_hash;
	assert_null(p.problem);
	assert_non_null(p.url);
	target_plan_release(&p);
	arena_free(&a);
	scraper_config_unref(c);
	return h;
}

static void slots_follow_from_the_target(void **state)
{
	const char *one = "scrape_configs:\n- job_name: go\n" TYPES;
	/* Other jobs, their order, external labels, seconds, interval, and labels that a rule adds. */
	const char *other = "global: {external_labels: {replica: b}, scrape_interval: 30s}\nscrape_configs:\n- job_name: first\n"
			    "- job_name: go\n  honor_labels: true\n"
			    "  relabel_configs: [{target_label: server, replacement: b}, {target_label: job, replacement: c}]\n"
			    "  profiling_config: {pprof_config: {process_cpu: {path: /cpu, seconds: 7}, memory: {path: /heap}}}\n";
	uint64_t cpu = slot(one, "process_cpu", "a:1", "a"), heap = slot(one, "memory", "a:1", "a");
	assert_true(cpu == slot(other, "process_cpu", "a:1", "b"));
	assert_true(heap == slot(other, "memory", "a:1", "b"));
	assert_true(cpu != heap);
	assert_true(cpu != slot(one, "process_cpu", "a:2", "a"));
	const char *socket = "scrape_configs:\n- job_name: go\n  relabel_configs: [{target_label: __unix_socket__, replacement: /x}]\n" TYPES;
	assert_true(cpu != slot(socket, "process_cpu", "a:1", "a"));
}

static void slots(void **state)
{
	assert_int_equal(schedule_next(1000, 100, 30), 1030);
	assert_int_equal(schedule_next(1030, 100, 30), 1130);
	assert_int_equal(schedule_next(1029, 100, 30), 1030);
	assert_int_equal(schedule_next(10, 100, 30), 30);
	/* Done in time: the next slot. Outlasted it: at once. */
	assert_int_equal(schedule_after(1030, 1030, 1050, 100, 30), 1130);
	assert_int_equal(schedule_after(1030, 1030, 1130, 100, 30), 1130);
	assert_int_equal(schedule_after(1030, 1030, 1135, 100, 30), 1135);
	assert_int_equal(schedule_after(1130, 1135, 1240, 100, 30), 1240);
	assert_int_equal(schedule_after(1030, 1030, 9999, 100, 30), 9999);
	/* Begun a little early, by rounding: not the same slot again. Late: the next, however near. */
	assert_int_equal(schedule_after(1030, 1029, 1040, 100, 30), 1130);
	assert_int_equal(schedule_after(1030, 1028, 1029, 100, 30), 1130);
	assert_int_equal(schedule_after(1030, 1129, 1129, 100, 30), 1130);
	assert_int_equal(schedule_after(1030, 950, 960, 100, 30), 1030); /* the clock was set back */
}

struct pair {
	struct scraper s;
	struct job_config job;
	struct type_config type;
	struct endpoint ep, other;
	struct work w;
};

static void pair_init(struct pair *p, int64_t replicas, int64_t asked_s)
{
	*p = (struct pair){ .s = { .replicas = replicas }, .job = { .name = "b" }, .type = { .name = "process_cpu", .delta = true } };
	p->ep = (struct endpoint){ .scraper = &p->s, .interval_ms = 10000, .asked_s = asked_s, .slot_hash = 123456 };
	p->other = p->ep;
	p->other.job = &p->job;
	p->w = (struct work){ .endpoint = &p->ep, .type = &p->type, .http_status = 500 };
}

static void servers_take_turns(void **state)
{
	struct pair p;
	pair_init(&p, 1, 4);
	int64_t first = offset_of(&p.ep);
	assert_int_equal(first, 3000);
	for (p.s.replicas = 2; p.s.replicas < 8; p.s.replicas++)
		for (p.s.replica = 0; p.s.replica < p.s.replicas; p.s.replica++)
			assert_int_equal(offset_of(&p.ep), (first + 10000 * p.s.replica / p.s.replicas) % 10000);
	p.ep.interval_ms = INT64_C(1) << 60; /* no overflow */
	p.s.replica = 6, p.s.replicas = 7;
	assert_true(offset_of(&p.ep) > p.ep.interval_ms / 7 * 5);
}

/* Half a second, of short intervals a twentieth: who is due at about the same time is due together, and all of the interval is used. */
static void scrapes_begin_together(void **state)
{
	struct pair p;
	bool seen[20] = { false };
	pair_init(&p, 1, 4);
	for (uint64_t h = 0; h < 10000; h++) {
		p.ep.slot_hash = 70000 + h;
		int64_t at = offset_of(&p.ep);
		assert_int_equal(at % 500, 0);
		seen[at / 500] = true;
	}
	for (int i = 0; i < 20; i++)
		assert_true(seen[i]);
	p.ep.interval_ms = 1000;
	p.ep.slot_hash = 123;
	assert_int_equal(offset_of(&p.ep), 100);
	p.ep.interval_ms = 10;
	assert_int_equal(offset_of(&p.ep), 3);
}

static const char go_says[] = "Could not enable CPU profiling: cpu profiling already in use";

static void a_conflict_is_named(void **state)
{
	static const struct {
		int64_t replicas, asked_s;
		const char *says;
	} rows[] = {
		{ 1, 10, "both need --scrape.replica, and seconds below half of scrape_interval: it is 10 of 10s" },
		{ 2, 5, "seconds is 5 and must be below scrape_interval/2, which is 10s/2" },
		{ 2, 4, "clocks that agree, and their own I with the same N=2 in --scrape.replica" },
	};
	struct pair p;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		pair_init(&p, rows[i].replicas, rows[i].asked_s);
		assert_true(conflict_is(&p.w, go_says));
		conflict_say(&p.w, go_says);
		assert_non_null(strstr(p.w.err.msg, rows[i].says));
		assert_non_null(strstr(p.w.err.msg, go_says));
		assert_non_null(strstr(p.w.err.msg, "go tool pprof"));
		assert_int_equal(p.w.err.code, ERR_UNAVAILABLE);
	}
	assert_false(conflict_is(&p.w, "cannot read the profile"));
	p.w.http_status = 302;
	assert_false(conflict_is(&p.w, go_says));
	p.w.http_status = 500;
	p.type.delta = false;
	assert_false(conflict_is(&p.w, go_says));
}

/* conflict_step_aside, as it is called: with the scraper's lock. */
static void step_aside(struct pair *p)
{
	mutex_init(&p->s.lock, RANK_SCRAPER, "scraper");
	mutex_lock(&p->s.lock);
	conflict_step_aside(&p->w, &p->other);
	mutex_unlock(&p->s.lock);
	mutex_destroy(&p->s.lock);
}

static void jobs_of_one_server_step_aside(void **state)
{
	struct pair p;
	pair_init(&p, 1, 4);
	int64_t was = offset_of(&p.ep);
	step_aside(&p);
	assert_non_null(strstr(p.w.err.msg, "job \"b\""));
	assert_non_null(strstr(p.w.err.msg, "From now on"));
	int64_t later = offset_of(&p.ep) - was;
	assert_true(later >= 4000 && later + 4000 < 10000);
	pair_init(&p, 2, 4); /* the other half of the interval is another server's */
	step_aside(&p);
	assert_int_equal(p.ep.aside_ms, 0);
	assert_non_null(strstr(p.w.err.msg, "do not fit"));
	pair_init(&p, 1, 4);
	p.other.interval_ms = 15000; /* they meet now and then, wherever they begin */
	step_aside(&p);
	assert_int_equal(p.ep.aside_ms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots), cmocka_unit_test(slots_follow_from_the_target),
		cmocka_unit_test(servers_take_turns), cmocka_unit_test(scrapes_begin_together),
		cmocka_unit_test(a_conflict_is_named),
		cmocka_unit_test(jobs_of_one_server_step_aside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
