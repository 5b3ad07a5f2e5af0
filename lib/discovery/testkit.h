/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of discovery: one configuration run as a job would, and waiting for what it comes to. After cmocka.h. */
#ifndef PYRRHA_DISCOVERY_TESTKIT_H
#define PYRRHA_DISCOVERY_TESTKIT_H

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/testwait.h"
#include "discovery/discovery.h"

struct sd_run {
	struct arena arena;
	struct config_tree *tree;
	struct config_ctx ctx;
	struct discovery_configs configs;
	struct discovery *d;
	atomic_int changes;
	struct buf text;
	struct err err;
};

static inline void sd_changed(void *arg)
{
	atomic_fetch_add(&((struct sd_run *)arg)->changes, 1);
}

/* The keys of a scrape_config: "file_sd_configs: [{files: [a.yml]}]". Relative paths are of dir. Negative: r->err. */
static inline int sd_decode(struct sd_run *r, const char *yaml, const char *dir)
{
	*r = (struct sd_run){ 0 };
	arena_init(&r->arena, 0);
	r->ctx = (struct config_ctx){ .arena = &r->arena, .dir = dir };
	int rc = config_parse(&r->tree, view_of(yaml), "t.yml", &r->err);
	return rc ? rc : discovery_decode(&r->ctx, config_root(r->tree), &r->configs, &r->err);
}

static inline void sd_start(struct sd_run *r, const char *yaml, const char *dir)
{
	if (sd_decode(r, yaml, dir))
		fail_msg("%s", r->err.msg);
	const struct discovery_user user = { .job = "job", .changed = sd_changed, .arg = r };
	assert_int_equal(discovery_start(&r->d, &r->configs, &user, &r->err), 0);
}

static inline void sd_stop(struct sd_run *r)
{
	discovery_stop(r->d);
	discovery_finish();
	config_free(r->tree);
	config_ctx_release(&r->ctx);
	arena_free(&r->arena);
	buf_free(&r->text);
}

static inline void sd_put_group(void *arg, const struct discovery_group *g)
{
	struct sd_run *r = arg;
	for (size_t i = 0; i < g->n_targets; i++) {
		labels_format(g->targets[i], &r->text);
		labels_format(g->labels, &r->text);
		buf_putc(&r->text, '\n');
	}
}

static inline int sd_by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A line for each target: its labels, then the group's; sorted. */
static inline const char *sd_targets(struct sd_run *r)
{
	VEC(char *) lines = { 0 };
	buf_reset(&r->text);
	discovery_each(r->d, sd_put_group, r);
	char *all = xstrndup(buf_view(&r->text).ptr, r->text.len), *rest = all;
	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line)
			vec_push(&lines, line);
	if (lines.n)
		qsort(lines.v, lines.n, sizeof *lines.v, sd_by_text);
	buf_reset(&r->text);
	buf_puts(&r->text, "");
	for (size_t i = 0; i < lines.n; i++)
		buf_printf(&r->text, "%s\n", lines.v[i]);
	vec_free(&lines);
	free(all);
	return buf_view(&r->text).ptr;
}

#define SD_WAIT(truth) do { \
	if (!TEST_WAIT(truth)) \
		assert_true(truth); \
} while (0)

#define SD_WAIT_TARGETS(r, wanted) do { \
	if (!TEST_WAIT(strcmp(sd_targets(r), wanted) == 0)) \
		assert_string_equal(sd_targets(r), wanted); \
} while (0)

struct sd_seen {
	char problem[1024]; /* "" = none */
	char name[256];
	size_t groups, targets, providers;
	bool ready;
};

static inline void sd_see(void *arg, const struct discovery_status *s)
{
	struct sd_seen *n = arg;
	n->providers++;
	n->groups += s->groups;
	n->targets += s->targets;
	n->ready = s->ready;
	snprintf(n->problem, sizeof n->problem, "%s", s->problem ? s->problem : "");
	snprintf(n->name, sizeof n->name, "%s", s->name);
}

static inline struct sd_seen sd_status(struct sd_run *r)
{
	struct sd_seen n = { .problem = "" };
	discovery_each_status(r->d, sd_see, &n);
	return n;
}

#endif
