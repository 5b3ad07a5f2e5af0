/* SPDX-License-Identifier: Apache-2.0 */
/* The web configuration that counts now. A thread (lib/config's watch) reads the file, and the files it names, again when they have
 * changed. Requests keep the one that they began with; a malformed one changes nothing, is counted and logged. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "config/config_watch.h"
#include "httpd/internal.h"

#define LOOK_MS 30000 /* what inotify does not tell is noticed so late, as on file systems of a network */

enum { M_OK, M_WHEN, M_FAILED };
static struct metric table[] = {
	[M_OK] = { "pyrrha_web_config_last_reload_successful", "Whether the last reading of the web configuration worked.", METRIC_GAUGE },
	[M_WHEN] = { "pyrrha_web_config_last_reload_success_timestamp_seconds", "When the web configuration was last read.", METRIC_GAUGE },
	[M_FAILED] = { "pyrrha_web_config_reload_failures_total", "Readings of the web configuration that changed nothing, as something is "
		       "wrong with it.", METRIC_COUNTER },
};

struct httpd_web {
	struct httpd *httpd;
	char *path;
	struct rwlock change;           /* see httpd_web_hold */
	struct mutex lock;
	struct web_config *config;      /* lock guards it */
	struct config_sources sources;  /* of the last reading; the watch's thread has them */
	struct config_watch *watch;
	int64_t paid_until_ns;          /* of the rate limit; lock guards it; see below */
};

static void log_problem(void *arg, const char *text)
{
	(void)arg;
	LOG_ERROR("msg", "the web configuration is wrong", "err", text);
}

static void log_warning(void *arg, const char *text)
{
	(void)arg;
	LOG_WARN("msg", text);
}

static int read_file(struct httpd_web *w, struct web_config **ret, struct err *e)
{
	struct web_config_how how = { .sources = &w->sources, .warn = log_warning, .problem = log_problem };
	config_sources_free(&w->sources);
	return web_config_load(ret, w->path, &how, e);
}

static void note(bool ok)
{
	metric_set(&table[M_OK], ok);
	if (ok)
		metric_set(&table[M_WHEN], (double)clock_now_ms() / 1e3);
	metric_add(&table[M_FAILED], !ok);
}

/* ---- reload, on the watch's thread ---- */

static void tell_sources(void *arg, struct config_sources *ret)
{
	struct httpd_web *w = arg;
	config_sources_copy(ret, &w->sources);
}

static bool says_nothing(const struct web_config *c)
{
	return !c->tls && !c->n_headers && !c->rate_interval_ns && !web_config_has_login(c);
}

/* Changes that a running server cannot make. */
static int check_change(const struct httpd_web *w, const struct web_config *c, struct err *e)
{
	const struct httpd *h = w->httpd;
	if (h->tls != (c->tls != NULL))
		return err_set(e, ERR_BAD_DATA, "%s: tls_server_config came or went: that takes a restart", c->path);
	if (h->login_wanted && !web_config_has_login(c))
		return err_set(e, ERR_BAD_DATA, "%s: nobody would have to log in any more, and others can reach this server", c->path);
	/* A proxy may stand before what listens on loopback. */
	if (web_config_has_login(w->config) && says_nothing(c))
		return err_set(e, ERR_BAD_DATA, "%s: nothing is in it, as in a file that is being written: that takes no login away", c->path);
	return 0;
}

static void swap(struct httpd_web *w, struct web_config *c)
{
	rwlock_write(&w->change);
	mutex_lock(&w->lock);
	struct web_config *before = w->config;
	if (before->rate_interval_ns != c->rate_interval_ns || before->rate_burst != c->rate_burst)
		w->paid_until_ns = 0;
	w->config = c;
	mutex_unlock(&w->lock);
	login_set_config(w->httpd->login, c);
	rwlock_unlock(&w->change);
	web_config_unref(before);
}

static void reload(void *arg)
{
	struct httpd_web *w = arg;
	struct web_config *c = NULL;
	struct err e;
	int rc = read_file(w, &c, &e);
	if (!rc && (rc = check_change(w, c, &e))) {
		log_problem(NULL, e.msg);
		web_config_unref(c);
	}
	note(!rc);
	if (rc)
		return;
	swap(w, c);
	LOG_INFO("msg", "the web configuration was read again", "file", w->path);
}

/* ---- the life ---- */

int httpd_web_open(struct httpd *h, const char *path, struct err *e)
{
	struct httpd_web *w = NEW(struct httpd_web);
	w->httpd = h;
	w->path = xstrdup(path);
	mutex_init(&w->lock, RANK_WEB_CONFIG, "web configuration");
	rwlock_init(&w->change, RANK_WEB_CHANGE, "change of the web configuration");
	h->web = w;
	metrics_register(table, ARRAY_LEN(table));
	int rc = read_file(w, &w->config, e);
	if (rc)
		return rc;
	note(true);
	login_set_config(h->login, w->config);
	h->tls = w->config->tls != NULL;
	if (h->tls && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		return err_set(e, ERR_BAD_DATA, "%s: this machine's libmicrohttpd was built without TLS", path);
	return 0;
}

int httpd_web_watch(struct httpd *h, struct err *e)
{
	struct config_watch_options o = { .interval_ms = LOOK_MS, .sources = tell_sources, .reload = reload, .arg = h->web };
	return h->web ? config_watch_start(&h->web->watch, &o, e) : 0;
}

void httpd_web_unwatch(struct httpd *h)
{
	if (!h->web)
		return;
	config_watch_stop(h->web->watch);
	h->web->watch = NULL;
}

void httpd_web_close(struct httpd *h)
{
	struct httpd_web *w = h->web;
	if (!w)
		return;
	httpd_web_unwatch(h);
	web_config_unref(w->config);
	config_sources_free(&w->sources);
	mutex_destroy(&w->lock);
	rwlock_destroy(&w->change);
	free(w->path);
	free(w);
	h->web = NULL;
}

struct web_config *httpd_web_config(struct httpd *h)
{
	struct httpd_web *w = h->web;
	if (!w)
		return NULL;
	mutex_lock(&w->lock);
	struct web_config *c = web_config_ref(w->config);
	mutex_unlock(&w->lock);
	return c;
}

void httpd_web_hold(struct httpd_request *rq) LOCKS_UNCHECKED /* there may be no configuration, and so no lock */
{
	struct httpd_web *w = rq->httpd->web;
	if (!w)
		return;
	rwlock_read(&w->change);
	web_config_unref(rq->web);
	rq->web = httpd_web_config(rq->httpd);
}

void httpd_web_release(struct httpd_request *rq) LOCKS_UNCHECKED
{
	if (rq->httpd->web)
		rwlock_unlock(&rq->httpd->web->change);
}

/* ---- the rate ---- */

/* A bucket of `burst` tokens, one more each interval. Kept as the time until which requests have been paid for: one
 * takes an interval, and at most `burst` of them are open. */
static bool take_token(struct httpd_web *w, const struct web_config *c, int64_t now_ns)
{
	if (c->rate_burst < 1)
		return false;
	mutex_lock(&w->lock);
	int64_t from = MAX(w->paid_until_ns, now_ns);
	/* as from + interval - now <= burst * interval, without an overflow */
	bool free = (from - now_ns) / c->rate_interval_ns < c->rate_burst - ((from - now_ns) % c->rate_interval_ns > 0);
	if (free)
		w->paid_until_ns = from + c->rate_interval_ns;
	mutex_unlock(&w->lock);
	return free;
}

bool httpd_rate_allows(struct httpd_request *rq, int64_t now_ns)
{
	const struct web_config *c = rq->web;
	return !c || !c->rate_interval_ns || take_token(rq->httpd->web, c, now_ns);
}

void httpd_rate_refuse(struct httpd_request *rq)
{
	httpd_metrics_refused("rate");
	httpd_text(rq, MHD_HTTP_TOO_MANY_REQUESTS, "Too Many Requests");
	httpd_set_header(rq, MHD_HTTP_HEADER_RETRY_AFTER, "%lld", (long long)(rq->web->rate_interval_ns / 1000000000 + 1));
}
