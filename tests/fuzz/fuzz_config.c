/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the server's configuration. What is refused says why; what is YAML can be shown without its secrets, and
 * what is shown is YAML that shows the same again. Static targets go through relabelling and are printed. Variables of the
 * environment change nothing where there is no ${, and what they make of a file is YAML again. */
#include <string.h>

#include "bucket/bucket.h"
#include "config/config_top.h"
#include "scraper/config/scrape_config.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "config";

#define MAX_JOBS 4
#define MAX_TARGETS 64
#define MAX_RULES 16
#define MAX_TYPES 12

static void count_targets(void *arg, const struct discovery_group *g)
{
	*(size_t *)arg += g->n_targets;
}

static void no_problem(void *arg, const struct err *e)
{
	(void)arg;
	(void)e;
}

static void no_matter(void *arg)
{
	(void)arg;
}

/* Only what is there at once, and little of it: aliases make much of few bytes. */
static bool is_small(const struct job_config *j)
{
	size_t targets = 0;
	struct discovery_emit emit = { count_targets, no_problem, no_matter, &targets };
	for (size_t i = 0; i < j->sd.n; i++) {
		struct discovery_provider *p = NULL;
		struct err e;
		if (strcmp(j->sd.v[i].ops->key, "static_configs") != 0 || j->sd.v[i].ops->start(&p, j->sd.v[i].config, &emit, &e))
			return false;
		j->sd.v[i].ops->stop(p);
	}
	return targets <= MAX_TARGETS && j->relabel.n <= MAX_RULES && j->n_types <= MAX_TYPES;
}

static void relabel(const struct scraper_config *c, const struct job_config *j)
{
	struct buf out = { 0 }, problems = { 0 };
	struct err e = { 0 };
	if (!is_small(j))
		return;
	REQUIRE(scraper_config_discover(c, j->name, 1000, &out, &problems, &e) == 0, "%s", e.msg);
	REQUIRE(!problems.len, "%s", problems.ptr);
	REQUIRE(out.len >= 2 && out.ptr[0] == '[' && out.ptr[out.len - 1] == ']', "%s", out.ptr);
	buf_free(&out);
	buf_free(&problems);
}

static void decode(const struct config_tree *t)
{
	struct scraper_config *c = NULL;
	struct arena a CLEANUP(arena_free);
	struct config_ctx ctx = { .arena = &a };
	struct err e = { 0 };
	arena_init(&a, 0);
	struct bucket_config storage;
	int rc = config_check_top(t, &ctx, &e);
	if (!rc)
		rc = bucket_config_decode(t, false, &ctx, &storage, &e);
	config_ctx_release(&ctx);
	if (!rc && !config_get(config_root(t), "scrape_config_files")) /* those would be read */
		rc = scraper_config_parse(&c, t, NULL, NULL, &e);
	REQUIRE(!rc || e.msg[0], "an error without words");
	if (!c)
		return;
	struct buf text = { 0 };
	scraper_config_check(c, &text);
	REQUIRE(text.len > 0, "nothing to say");
	buf_free(&text);
	for (size_t i = 0; i < c->n_jobs && i < MAX_JOBS; i++)
		relabel(c, c->jobs[i]);
	scraper_config_unref(c);
}

static void show(const struct config_tree *t)
{
	struct buf one = { 0 }, two = { 0 };
	struct config_tree *again = NULL;
	struct err e = { 0 };
	config_redact(t, &one);
	if (!one.overflow) {
		REQUIRE(config_parse(&again, buf_view(&one), "again", &e) == 0, "%s\n%s", e.msg, one.ptr);
		config_redact(again, &two);
		REQUIRE(view_eq(buf_view(&one), buf_view(&two)), "%s\n%s", one.ptr, two.ptr);
		config_free(again);
	}
	buf_free(&one);
	buf_free(&two);
}

static void expand(struct view text, const struct config_tree *plain)
{
	struct config_tree *t = NULL;
	struct err e = { 0 };
	struct buf one = { 0 }, two = { 0 };
	setenv("A", "a: [${B} $1", 1);
	setenv("B", "", 1);
	if (config_parse_how(&t, text, "fuzz.yml", &(struct config_how){ .expand_env = true }, &e)) {
		REQUIRE(e.msg[0] && view_contains(text, VIEW("$")), "%s", e.msg);
		return;
	}
	if (!view_contains(text, VIEW("$"))) {
		config_redact(plain, &one);
		config_redact(t, &two);
		REQUIRE(one.overflow || view_eq(buf_view(&one), buf_view(&two)), "%s\n%s", one.ptr, two.ptr);
	}
	decode(t);
	show(t);
	buf_free(&one);
	buf_free(&two);
	config_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct config_tree *t = NULL;
	struct err e = { 0 };
	if (n > 1 << 14)
		return 0;
	if (config_parse(&t, view_make((const char *)data, n), "fuzz.yml", &e)) {
		REQUIRE(e.msg[0], "an error without words");
		return 0;
	}
	decode(t);
	show(t);
	expand(view_make((const char *)data, n), t);
	config_free(t);
	return 0;
}
