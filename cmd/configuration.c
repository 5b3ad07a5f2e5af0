/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/configuration.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "config/config.h"
#include "config/config_sources.h"
#include "config/config_top.h"
#include "config/config_watch.h"
#include "cmd/objects_config.h"
#include "cmd/query_config.h"
#include "cmd/storage_config.h"
#include "fleet/fleet.h"
#include "web/source_links.h"

struct configuration {
	char *path;
	bool expand_env;
	struct config_watch *watch; /* NULL: nobody watches */
	struct mutex reload;    /* one reload at a time; guards jobs */
	struct object_jobs *jobs; /* what applies them to the scraper; NULL before configuration_apply_to */
	struct tsdb *db;         /* borrowed; NULL before configuration_apply_to_storage */
	const struct storage_config *flags;
	struct promql_engine *engine; /* borrowed; NULL before configuration_apply_to_engine */
	struct fleet *fleet;     /* borrowed; NULL before configuration_apply_to_fleet */
	struct rules *evaluator; /* borrowed; NULL before configuration_apply_to_rules */
	struct notifier *notifier; /* borrowed; NULL before configuration_apply_to_notifier */
	struct remote_write *writer; /* borrowed; NULL before configuration_apply_to_remote_write */
	struct objects_config *objects; /* as it was at the start: the bucket is not opened again */
	const char *guessed_url; /* the external URL that was made of the host's name; borrowed. NULL: it was given by flag, or the warning about it was logged */
	struct mutex lock;      /* guards what follows */
	struct scraper_config *scrapes;
	struct storage_config *storage; /* this one by reload */
	struct query_config *queries;   /* and this */
	struct fleet_config *servers;   /* and this */
	struct rules_config *rules;     /* and this */
	struct notifier_config *alerting; /* and this */
	struct remote_write_config *remote; /* and this */
	struct source_links *links; /* and this */
	char *text;
	bool empty;
	struct web_reload_state state;
	struct config_sources sources;  /* of the last reading, good or bad */
};

enum { M_OK, M_WHEN, M_FAILURES };
static struct metric metrics[] = {
	[M_OK] = { "pyrrha_config_last_reload_successful", "Whether the last reading of the configuration worked.",
		   METRIC_GAUGE },
	[M_WHEN] = { "pyrrha_config_last_reload_success_timestamp_seconds", "When the configuration was last read.",
		     METRIC_GAUGE },
	[M_FAILURES] = { "pyrrha_config_reload_failures_total", "Readings of the configuration that failed: the old one stayed.",
			 METRIC_COUNTER },
};

#define OBJECTS_CHANGED "object_storage has changed: the server goes on with the section that it started with, until it is restarted"

/* The result of one reading of the file. */
struct reading {
	struct config_sources sources; /* also if it failed; moves into struct configuration */
	struct scraper_config *scrapes;
	struct storage_config *storage;
	struct query_config *queries;
	struct fleet_config *servers;
	struct rules_config *rules;
	struct notifier_config *alerting;
	struct remote_write_config *remote;
	struct source_links *links;
	struct objects_config *objects;
	char *text;
	bool empty;
};

static void reading_free(struct reading *r)
{
	config_sources_free(&r->sources);
	scraper_config_unref(r->scrapes);
	storage_config_free(r->storage);
	query_config_free(r->queries);
	fleet_config_unref(r->servers);
	rules_config_unref(r->rules);
	notifier_config_unref(r->alerting);
	remote_write_config_unref(r->remote);
	source_links_unref(r->links);
	objects_config_free(r->objects);
	free(r->text);
	*r = (struct reading){ 0 };
}

static void log_warning(void *arg, const char *text)
{
	(void)arg;
	LOG_WARN("msg", "configuration", "warning", text);
}

static void print_warning(void *arg, const char *text)
{
	buf_printf(arg, "warning: %s\n", text);
}

/* Where errors are reported; a rule file may have several. */
struct telling {
	void (*warn)(void *arg, const char *text);
	void (*problem)(void *arg, const char *text);
	void *arg;
};

static void log_problem(void *arg, const char *text)
{
	(void)arg;
	LOG_ERROR("msg", "configuration", "err", text);
}

static void print_problem(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "%s\n", text);
}

static const struct telling to_log = { .warn = log_warning, .problem = log_problem };

static int check_top(const struct config_tree *t, void (*warn)(void *, const char *), void *warn_arg, struct err *e)
{
	struct arena a;
	arena_init(&a, CONFIG_MAX_BYTES);
	struct config_ctx ctx = { .arena = &a, .warn = warn, .warn_arg = warn_arg };
	int rc = config_check_top(t, &ctx, e);
	config_ctx_release(&ctx);
	arena_free(&a);
	return rc;
}

/* The result must be freed also when it failed. */
static int read_file(struct reading *ret, const char *path, struct config_how how, const struct telling *to, struct err *e)
{
	void (*warn)(void *, const char *) = to->warn;
	void *warn_arg = to->arg;
	const struct rules_how as_rules = { .sources = &ret->sources, .problem = to->problem, .warn = warn, .arg = warn_arg };
	struct config_tree *t;
	*ret = (struct reading){ 0 };
	how.sources = &ret->sources;
	int rc = config_load_how(&t, path, &how, e);
	if (rc)
		return rc;
	ret->empty = config_is_empty(t);
	rc = check_top(t, warn, warn_arg, e);
	if (!rc)
		rc = storage_config_parse(&ret->storage, t, warn, warn_arg, e);
	if (!rc)
		rc = objects_config_parse(&ret->objects, t, warn, warn_arg, e);
	if (!rc)
		rc = query_config_parse(&ret->queries, t, warn, warn_arg, e);
	if (!rc)
		rc = fleet_config_parse(&ret->servers, t, warn, warn_arg, e);
	if (!rc)
		rc = scraper_config_parse(&ret->scrapes, t, warn, warn_arg, e);
	if (!rc)
		rc = rules_config_parse(&ret->rules, t, &as_rules, e);
	if (!rc)
		rc = notifier_config_parse(&ret->alerting, t, warn, warn_arg, e);
	if (!rc)
		rc = remote_write_config_parse(&ret->remote, t, warn, warn_arg, e);
	if (!rc)
		rc = source_links_parse(&ret->links, t, warn, warn_arg, e);
	if (!rc) {
		struct buf text = { 0 };
		config_redact(t, &text);
		ret->text = buf_take(&text, NULL);
	}
	config_free(t);
	return rc;
}

static void note(struct configuration *c, const struct err *e)
{
	mutex_lock(&c->lock);
	c->state.ok = !e;
	snprintf(c->state.error, sizeof c->state.error, "%s", e ? e->msg : "");
	if (!e)
		c->state.t_ms = clock_now_ms();
	else
		metric_inc(&metrics[M_FAILURES]);
	metric_set(&metrics[M_OK], c->state.ok);
	metric_set(&metrics[M_WHEN], (double)c->state.t_ms / 1000);
	mutex_unlock(&c->lock);
}

static void keep_sources(struct configuration *c, struct reading *r)
{
	mutex_lock(&c->lock);
	config_sources_free(&c->sources);
	c->sources = r->sources;
	r->sources = (struct config_sources){ 0 };
	mutex_unlock(&c->lock);
}

static void take(struct configuration *c, struct reading *r)
{
	mutex_lock(&c->lock);
	scraper_config_unref(c->scrapes);
	storage_config_free(c->storage);
	query_config_free(c->queries);
	fleet_config_unref(c->servers);
	rules_config_unref(c->rules);
	notifier_config_unref(c->alerting);
	remote_write_config_unref(c->remote);
	source_links_unref(c->links);
	free(c->text);
	c->scrapes = TAKE_PTR(r->scrapes);
	c->storage = TAKE_PTR(r->storage);
	c->queries = TAKE_PTR(r->queries);
	c->servers = TAKE_PTR(r->servers);
	c->rules = TAKE_PTR(r->rules);
	c->alerting = TAKE_PTR(r->alerting);
	c->remote = TAKE_PTR(r->remote);
	c->links = TAKE_PTR(r->links);
	c->text = TAKE_PTR(r->text);
	c->empty = r->empty;
	mutex_unlock(&c->lock);
	note(c, NULL);
}

int configuration_load(struct configuration **ret, const char *path, bool expand_env, struct err *e)
{
	struct reading r;
	metrics_register(metrics, ARRAY_LEN(metrics));
	int rc = read_file(&r, path, (struct config_how){ .expand_env = expand_env }, &to_log, e);
	if (rc) {
		reading_free(&r);
		return rc;
	}
	struct configuration *c = NEW(struct configuration);
	c->path = xstrdup(path);
	c->expand_env = expand_env;
	mutex_init(&c->reload, RANK_RELOAD, "reload");
	mutex_init(&c->lock, LOCK_LEAF, "configuration");
	keep_sources(c, &r);
	c->objects = TAKE_PTR(r.objects);
	take(c, &r);
	*ret = c;
	return 0;
}

void configuration_free(struct configuration *c)
{
	if (!c)
		return;
	configuration_unwatch(c);
	config_sources_free(&c->sources);
	scraper_config_unref(c->scrapes);
	storage_config_free(c->storage);
	query_config_free(c->queries);
	fleet_config_unref(c->servers);
	rules_config_unref(c->rules);
	notifier_config_unref(c->alerting);
	remote_write_config_unref(c->remote);
	source_links_unref(c->links);
	objects_config_free(c->objects);
	mutex_destroy(&c->reload);
	mutex_destroy(&c->lock);
	free(c->text);
	free(c->path);
	free(c);
}

int configuration_apply_to(struct configuration *c, struct scraper *s, struct err *e)
{
	mutex_lock(&c->reload);
	int rc = c->jobs ? 0 : object_jobs_new(&c->jobs, s, e);
	if (!rc)
		rc = object_jobs_apply(c->jobs, c->scrapes, e);
	mutex_unlock(&c->reload);
	return rc;
}

void configuration_leave_scraper(struct configuration *c)
{
	if (!c)
		return;
	mutex_lock(&c->reload);
	object_jobs_free(c->jobs);
	c->jobs = NULL;
	mutex_unlock(&c->reload);
}

int configuration_apply_to_storage(struct configuration *c, struct tsdb *db, const struct storage_config *flags, struct err *e)
{
	mutex_lock(&c->reload);
	c->db = db;
	c->flags = flags;
	int rc = storage_config_apply(c->storage, flags, db, e);
	mutex_unlock(&c->reload);
	return rc;
}

static void apply_to_engine(struct promql_engine *g, const struct query_config *queries, const struct fleet_config *servers)
{
	query_config_apply(queries, g);
	promql_engine_set_partial(g, PROMQL_PEOPLE, servers->partial ? PROMQL_PARTIAL_REFUSE : PROMQL_PARTIAL_ALLOW);
	promql_engine_set_partial(g, PROMQL_RULES, servers->rules_partial ? PROMQL_PARTIAL_REFUSE : PROMQL_PARTIAL_ALLOW);
}

void configuration_apply_to_engine(struct configuration *c, struct promql_engine *g)
{
	mutex_lock(&c->reload);
	c->engine = g;
	apply_to_engine(g, c->queries, c->servers);
	mutex_unlock(&c->reload);
}

int configuration_apply_to_fleet(struct configuration *c, struct fleet *f, struct err *e)
{
	mutex_lock(&c->reload);
	c->fleet = f;
	int rc = fleet_apply(f, c->servers, e);
	mutex_unlock(&c->reload);
	return rc;
}

int configuration_apply_to_notifier(struct configuration *c, struct notifier *n, struct err *e)
{
	mutex_lock(&c->reload);
	c->notifier = n;
	int rc = notifier_apply(n, c->alerting, e);
	mutex_unlock(&c->reload);
	return rc;
}

int configuration_apply_to_remote_write(struct configuration *c, struct remote_write *w, struct err *e)
{
	mutex_lock(&c->reload);
	c->writer = w;
	int rc = remote_write_apply(w, c->remote, e);
	mutex_unlock(&c->reload);
	return rc;
}

static bool has_alerts(const struct rules_config *c)
{
	for (size_t i = 0; i < c->n_groups; i++)
		for (size_t j = 0; j < c->groups[i].n_rules; j++)
			if (c->groups[i].rules[j].alerting)
				return true;
	return false;
}

/* Once. */
static void warn_of_links(struct configuration *c) REQUIRES(c->reload)
{
	if (!c->guessed_url || !has_alerts(c->rules))
		return;
	LOG_WARN("msg", "links of alerts begin with this URL, which other machines may not know: --web.external-url says a better one",
		 "url", c->guessed_url);
	c->guessed_url = NULL;
}

int configuration_apply_to_rules(struct configuration *c, struct rules *r, const char *guessed_url, struct err *e)
{
	mutex_lock(&c->reload);
	c->evaluator = r;
	c->guessed_url = guessed_url;
	int rc = rules_apply(r, c->rules, e);
	if (!rc)
		warn_of_links(c);
	mutex_unlock(&c->reload);
	return rc;
}

void configuration_leave_rules(struct configuration *c)
{
	if (!c)
		return;
	mutex_lock(&c->reload);
	c->evaluator = NULL;
	c->guessed_url = NULL;
	c->fleet = NULL;
	c->notifier = NULL;
	c->writer = NULL;
	mutex_unlock(&c->reload);
}

/* A file that someone is about to write is empty for a moment. Who wants no jobs writes scrape_configs: [], and
 * groups: [] who wants no rules. */
static int refuse_empty(const struct configuration *c, const struct reading *r, struct err *e) REQUIRES(c->reload)
{
	const char *file = scraper_config_empty_file(r->scrapes);
	if (r->empty && !c->empty)
		return err_set(e, ERR_BAD_DATA, "%s is empty", c->path);
	if (file && !scraper_config_empty_file(c->scrapes))
		return err_set(e, ERR_BAD_DATA, "%s (of scrape_config_files) is empty", file);
	if (r->rules->empty_file && !c->rules->empty_file)
		return err_set(e, ERR_BAD_DATA, "%s (of rule_files) is empty", r->rules->empty_file);
	return 0;
}

/* The storage as it was. */
static void storage_back(const struct configuration *c) REQUIRES(c->reload)
{
	struct err e;
	if (storage_config_apply(c->storage, c->flags, c->db, &e))
		LOG_ERROR("msg", "the storage keeps the section of a configuration that was refused", "err", e.msg);
}

/* Notes which settings of the file that was just read take effect only after a restart. */
static void note_restart(struct configuration *c, const char *what) REQUIRES(c->reload)
{
	if (*what)
		LOG_WARN("msg", "configuration", "warning", what);
	mutex_lock(&c->lock);
	snprintf(c->state.restart, sizeof c->state.restart, "%s", what);
	mutex_unlock(&c->lock);
}

static int reload(struct configuration *c, struct err *e) REQUIRES(c->reload)
{
	struct reading r;
	int rc = read_file(&r, c->path, (struct config_how){ .expand_env = c->expand_env }, &to_log, e);
	keep_sources(c, &r);
	if (!rc)
		rc = refuse_empty(c, &r, e);
	if (!rc && c->db)
		rc = storage_config_apply(r.storage, c->flags, c->db, e);
	if (!rc && c->jobs && (rc = object_jobs_apply(c->jobs, r.scrapes, e)) && c->db)
		storage_back(c);
	if (!rc && c->fleet)
		rc = fleet_apply(c->fleet, r.servers, e);
	if (!rc && c->engine)
		apply_to_engine(c->engine, r.queries, r.servers);
	if (!rc && c->notifier)
		rc = notifier_apply(c->notifier, r.alerting, e);
	if (!rc && c->writer)
		rc = remote_write_apply(c->writer, r.remote, e);
	if (!rc && c->evaluator)
		rc = rules_apply(c->evaluator, r.rules, e);
	if (!rc) {
		note_restart(c, objects_config_equal(c->objects, r.objects) ? "" : OBJECTS_CHANGED);
		take(c, &r);
	}
	reading_free(&r);
	return rc;
}

int configuration_reload(struct configuration *c, struct err *e)
{
	mutex_lock(&c->reload);
	int rc = reload(c, e);
	if (rc) {
		note(c, e);
	} else {
		LOG_INFO("msg", "configuration reloaded", "file", c->path);
		warn_of_links(c);
	}
	mutex_unlock(&c->reload);
	return rc;
}

static void tell_sources(void *arg, struct config_sources *ret)
{
	struct configuration *c = arg;
	mutex_lock(&c->lock);
	config_sources_copy(ret, &c->sources);
	mutex_unlock(&c->lock);
}

static void reload_changed(void *arg)
{
	struct err e = { 0 };
	if (configuration_reload(arg, &e))
		LOG_ERROR("msg", "the configuration was not reloaded, the old one stays", "err", e.msg);
}

int configuration_watch(struct configuration *c, int64_t interval_ms, struct err *e)
{
	struct config_watch_options o = { .interval_ms = interval_ms, .sources = tell_sources, .reload = reload_changed, .arg = c };
	return config_watch_start(&c->watch, &o, e);
}

void configuration_unwatch(struct configuration *c)
{
	config_watch_stop(c->watch);
	c->watch = NULL;
}

const struct bucket_config *configuration_bucket(const struct configuration *c)
{
	return objects_config_bucket(c->objects);
}

char *configuration_text(struct configuration *c)
{
	mutex_lock(&c->lock);
	char *text = xstrdup(c->text ? c->text : "");
	mutex_unlock(&c->lock);
	return text;
}

struct labels *configuration_external_labels(struct configuration *c)
{
	mutex_lock(&c->lock);
	struct labels *l = labels_dup(c->rules->external_labels);
	mutex_unlock(&c->lock);
	return l;
}

struct source_links *configuration_source_links(struct configuration *c)
{
	mutex_lock(&c->lock);
	struct source_links *l = source_links_ref(c->links);
	mutex_unlock(&c->lock);
	return l;
}

void configuration_state(struct configuration *c, struct web_reload_state *ret)
{
	mutex_lock(&c->lock);
	*ret = c->state;
	mutex_unlock(&c->lock);
}

int configuration_check(const char *path, bool expand_env, bool syntax_only, struct buf *out, struct err *e)
{
	struct reading r;
	const struct telling to = { .warn = print_warning, .problem = print_problem, .arg = out };
	int rc = read_file(&r, path, (struct config_how){ .expand_env = expand_env, .check_files = !syntax_only }, &to, e);
	if (!rc) {
		scraper_config_check(r.scrapes, out);
		storage_config_check(r.storage, out);
		objects_config_check(r.objects, out);
		query_config_check(r.queries, out);
		fleet_config_check(r.servers, out);
		rules_config_check(r.rules, out);
		notifier_config_check(r.alerting, out);
		remote_write_config_check(r.remote, out);
		source_links_check(r.links, out);
	}
	reading_free(&r);
	return rc;
}

int configuration_discover(const struct configuration_discovery *d, struct buf *out, struct buf *problems, struct err *e)
{
	struct reading r;
	const struct telling to = { .warn = NULL };
	int rc = read_file(&r, d->path, (struct config_how){ .expand_env = d->expand_env }, &to, e);
	if (!rc)
		rc = scraper_config_discover(r.scrapes, d->job, d->timeout_ms, out, problems, e);
	reading_free(&r);
	return rc;
}
