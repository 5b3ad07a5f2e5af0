/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an endpoint of a discovered target and the job: labels before and after relabelling, URL, interval. The labels beginning with
 * __ steer the scrape and are seen by relabelling only:
 *
 *	__address__ __scheme__ __profile_path_prefix__ __profile_path__ __name__ (NAME of the series)
 *	__param_KEY (first value) __scrape_interval__ __scrape_timeout__ __meta_* (from discovery)
 *	__unix_socket__ (a path that is dialled instead of the address, which may then be empty: it is localhost)
 *	__metrics_path__ (of a job's metrics; elsewhere it is there because rules read it, and nothing is asked for there)
 *
 * Relabelling runs once per profile type, so that rules can drop or move single types. Metrics are one more type, with Prometheus's
 * labels and without __name__, __profile_path__ and __profile_path_prefix__. Pure except for allocation. */
#include <stdlib.h>
#include <sys/un.h>

#include "base/num.h"
#include "base/units.h"
#include "base/utf8.h"
#include "scraper/internal.h"

#define SLACK_MS 10000 /* what a target gets on top of the seconds it was asked to measure */

static void set_default(struct labels_builder *b, const char *name, struct view value)
{
	if (!labels_builder_get(b, view_of(name)).len)
		labels_builder_set(b, view_of(name), value);
}

static struct view duration_view(struct arena *a, int64_t ms)
{
	char text[DURATION_LEN];
	units_format_duration(ms, text);
	return arena_view(a, view_of(text));
}

static void set_all(struct labels_builder *b, struct labels l)
{
	for (size_t i = 0; i < l.n; i++)
		labels_builder_set(b, l.v[i].name, l.v[i].value);
}

static void put_defaults(const struct job_config *j, const struct type_config *t, struct arena *a, struct labels_builder *b)
{
	set_default(b, "job", view_of(j->job_label ? j->job_label : j->name));
	set_default(b, "__scrape_interval__", duration_view(a, j->interval_ms));
	set_default(b, "__scrape_timeout__", duration_view(a, t->metrics ? j->metrics_timeout_ms : j->timeout_ms));
	set_default(b, "__metrics_path__", view_of(j->metrics_path));
	set_default(b, "__scheme__", j->scheme ? VIEW("https") : VIEW("http"));
	if (!t->metrics) {
		set_default(b, "__profile_path_prefix__", view_of(j->path_prefix));
		set_default(b, "__profile_path__", view_of(t->path));
		set_default(b, LABEL_NAME, view_of(t->name));
	}
	for (size_t i = 0; i < j->params.n; i++)
		if (j->params.v[i].values.n)
			set_default(b, arena_printf(a, "__param_%s", j->params.v[i].key), view_of(j->params.v[i].values.v[0]));
}

static struct view get(struct labels l, const char *name)
{
	return labels_get(l, view_of(name));
}

static char *copy_view(struct view v)
{
	return xstrndup(v.ptr, v.len);
}

static void put_param(struct buf *url, bool *first, struct view key, struct view value)
{
	buf_putc(url, *first ? '?' : '&');
	*first = false;
	fetch_url_escape(key, url);
	buf_putc(url, '=');
	fetch_url_escape(value, url);
}

static bool is_job_param(const struct job_config *j, struct view key)
{
	for (size_t i = 0; i < j->params.n; i++)
		if (view_eqs(key, j->params.v[i].key))
			return true;
	return false;
}

/* The job's parameters, with their first values from the labels, then those that only labels have. `seconds` of a profile is ours to
 * say. */
static void put_params(const struct job_config *j, const struct type_config *t, struct labels l, struct buf *url, bool *first)
{
	for (size_t i = 0; i < j->params.n; i++) {
		const struct config_kvs *p = &j->params.v[i];
		char *name = xasprintf("__param_%s", p->key);
		struct view head = get(l, name);
		free(name);
		if (!t->metrics && strcmp(p->key, "seconds") == 0)
			continue;
		if (head.len)
			put_param(url, first, view_of(p->key), head);
		for (size_t k = 1; k < p->values.n; k++)
			put_param(url, first, view_of(p->key), view_of(p->values.v[k]));
	}
	for (size_t i = 0; i < l.n; i++) {
		struct view n = l.v[i].name;
		if (!view_starts(n, VIEW("__param_")))
			continue;
		n = view_make(n.ptr + 8, n.len - 8);
		if (n.len && (t->metrics || !view_eqs(n, "seconds")) && !is_job_param(j, n))
			put_param(url, first, n, l.v[i].value);
	}
}

static void make_url(const struct job_config *j, const struct type_config *t, struct labels l, struct target_plan *p)
{
	struct buf url = { 0 };
	struct view prefix = t->metrics ? VIEW("") : get(l, "__profile_path_prefix__");
	struct view path = get(l, t->metrics ? "__metrics_path__" : "__profile_path__");
	buf_printf(&url, "%.*s://%.*s", VIEW_ARG(get(l, "__scheme__")), VIEW_ARG(get(l, "__address__")));
	while (prefix.len && prefix.ptr[prefix.len - 1] == '/')
		prefix.len--;
	buf_printf(&url, "%.*s%s%.*s", VIEW_ARG(prefix), path.len && path.ptr[0] == '/' ? "" : "/", VIEW_ARG(path));
	bool first = !memchr(buf_view(&url).ptr, '?', url.len);
	put_params(j, t, l, &url, &first);
	p->slot_hash = hash_stable_seed(buf_view(&url).ptr, url.len, hash_stable_view(get(l, LABEL_NAME)));
	if (t->delta) {
		char seconds[NUM_LEN];
		put_param(&url, &first, VIEW("seconds"), view_of(num_format((double)p->asked_s, seconds)));
	}
	p->url = buf_take(&url, NULL);
}

static const char *check_socket(struct view path)
{
	if (path.len && path.ptr[0] != '/')
		return "__unix_socket__ is not an absolute path";
	if (path.len >= sizeof ((struct sockaddr_un *)0)->sun_path)
		return "__unix_socket__ is longer than the path of a socket can be";
	return NULL;
}

static const char *check_address(const struct type_config *t, struct labels l)
{
	struct view a = get(l, "__address__"), scheme = get(l, "__scheme__");
	if (!a.len)
		return "the target has no __address__";
	if (memchr(a.ptr, '/', a.len) || memchr(a.ptr, '@', a.len) || memchr(a.ptr, '?', a.len) || memchr(a.ptr, ' ', a.len))
		return "__address__ is not host:port";
	if (!view_eqs(scheme, "http") && !view_eqs(scheme, "https"))
		return "__scheme__ is neither http nor https";
	if (!t->metrics && !get(l, LABEL_NAME).len)
		return "__name__ is empty";
	const char *socket = check_socket(get(l, "__unix_socket__"));
	if (socket)
		return socket;
	if (get(l, "__profile_path_prefix__").len && get(l, "__profile_path_prefix__").ptr[0] != '/')
		return "__profile_path_prefix__ does not begin with a slash";
	for (size_t i = 0; i < l.n; i++)
		if (!utf8_valid(l.v[i].value))
			return "the value of a label is not valid UTF-8";
	return NULL;
}

static int64_t asked_seconds(const struct type_config *t, struct labels l, int64_t interval_ms)
{
	int64_t s = 0;
	if (!t->delta)
		return 0;
	if (!t->seconds && num_parse_i64(get(l, "__param_seconds"), &s) && s > 0 && s <= 3600)
		return s;
	return scrape_type_seconds(t, interval_ms);
}

static const char *plan_times(const struct type_config *t, struct labels l, struct target_plan *p)
{
	if (!units_parse_duration(get(l, "__scrape_interval__"), &p->interval_ms) || p->interval_ms < 100)
		return "__scrape_interval__ is not a duration of at least 100ms";
	if (!units_parse_duration(get(l, "__scrape_timeout__"), &p->timeout_ms) || p->timeout_ms <= 0)
		return "__scrape_timeout__ is not a duration longer than 0";
	if (t->metrics && p->timeout_ms > p->interval_ms)
		return "__scrape_timeout__ is longer than __scrape_interval__";
	p->asked_s = asked_seconds(t, l, p->interval_ms);
	p->deadline_ms = t->delta ? MAX(p->timeout_ms, p->asked_s * 1000 + SLACK_MS) : p->timeout_ms;
	return NULL;
}

/* Without the labels that steer; keeps the arena's strings. */
static struct labels visible_labels(struct arena *a, struct labels l)
{
	struct label *v = arena_alloc(a, (l.n + 1) * sizeof *v);
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++)
		if (!view_starts(l.v[i].name, VIEW("__")))
			v[n++] = l.v[i];
	return (struct labels){ v, n };
}

/* All but what discovery told. */
static struct labels *without_meta(struct arena *a, struct labels l)
{
	struct label *v = arena_alloc(a, (l.n + 1) * sizeof *v);
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++)
		if (!view_starts(l.v[i].name, VIEW("__meta_")))
			v[n++] = l.v[i];
	return labels_dup((struct labels){ v, n });
}

static void identify(const struct type_config *t, struct labels l, struct target_plan *p)
{
	struct view socket = get(l, "__unix_socket__");
	p->hash = hash_bytes_seed(p->url, strlen(p->url), labels_hash(*p->visible) ^ hash_view(view_of(p->name)) ^ t->metrics);
	p->asked_hash = hash_bytes_seed(p->url, strlen(p->url), hash_view(view_of(p->name)) ^ t->metrics);
	p->target_key = labels_hash(*p->visible) ^ hash_u64(hash_view(get(l, "__address__")));
	if (socket.len) {
		p->socket = copy_view(socket);
		p->hash = hash_bytes_seed(socket.ptr, socket.len, p->hash);
		p->asked_hash = hash_bytes_seed(socket.ptr, socket.len, p->asked_hash);
		p->target_key = hash_bytes_seed(socket.ptr, socket.len, p->target_key);
		p->slot_hash = hash_stable_seed(socket.ptr, socket.len, p->slot_hash);
	}
	p->cursor_key = hash_u64(p->slot_hash ^ labels_hash_stable(*p->visible));
}

/* The labels that say where a request goes. */
static const char *const place_labels[] = { "__address__", "__scheme__", "__unix_socket__" };

struct place {
	struct view v[ARRAY_LEN(place_labels)];
};

static struct place place_of(const struct labels_builder *b)
{
	struct place p;
	for (size_t i = 0; i < ARRAY_LEN(place_labels); i++)
		p.v[i] = labels_builder_get(b, view_of(place_labels[i]));
	return p;
}

/* Relabelling that is forbidden in a job from an object. before: the discovered labels. */
static const char *check_confined(const struct confinement *f, const struct place *before, struct labels l, const struct target_plan *p)
{
	for (size_t i = 0; i < ARRAY_LEN(place_labels); i++)
		if (!view_eq(get(l, place_labels[i]), before->v[i]))
			return "relabelling changed where the target is asked, which a job from an object may not";
	if (p->interval_ms < f->interval_min_ms)
		return "__scrape_interval__ is shorter than a job from an object may have it";
	if (p->timeout_ms > f->timeout_max_ms)
		return "__scrape_timeout__ is longer than a job from an object may have it";
	return NULL;
}

static void finish_plan(const struct job_config *j, const struct type_config *t, const struct place *before, struct arena *a,
			struct labels_builder *b, struct target_plan *p, struct labels **after)
{
	if (j->confined)
		labels_builder_set(b, VIEW("namespace"), view_of(j->confined->namespace));
	if (labels_builder_get(b, VIEW("__unix_socket__")).len)
		set_default(b, "__address__", VIEW("localhost"));
	struct labels l = labels_builder_finish(b);
	const char *problem = check_address(t, l);
	if (!problem)
		problem = plan_times(t, l, p);
	if (!problem && j->confined)
		problem = check_confined(j->confined, before, l, p);
	if (problem) {
		p->problem = xstrdup(problem);
		return;
	}
	set_default(b, "instance", get(l, "__address__"));
	l = labels_builder_finish(b);
	make_url(j, t, l, p);
	p->name = t->metrics ? xstrdup(t->name) : copy_view(get(l, LABEL_NAME));
	p->visible = labels_dup(visible_labels(a, l));
	identify(t, l, p);
	if (after)
		*after = without_meta(a, l);
}

static void put_discovered(const struct job_config *j, const struct type_config *t, struct labels group, struct labels target,
			   struct arena *a, struct labels_builder *b)
{
	set_all(b, group);
	set_all(b, target);
	put_defaults(j, t, a, b);
}

struct labels *target_discovered(const struct job_config *j, const struct type_config *t, struct labels group, struct labels target)
{
	struct labels_builder b;
	struct arena a;
	arena_init(&a, (size_t)1 << 20);
	labels_builder_init(&b, (struct labels){ 0 });
	put_discovered(j, t, group, target, &a, &b);
	struct labels *l = labels_dup(labels_builder_finish(&b));
	labels_builder_free(&b);
	arena_free(&a);
	return l;
}

void target_plan_explain(const struct job_config *j, const struct type_config *t, struct labels group, struct labels target,
			 struct arena *a, struct target_plan *ret, struct labels **after)
{
	struct labels_builder b;
	struct err e = { 0 };
	*ret = (struct target_plan){ 0 };
	labels_builder_init(&b, (struct labels){ 0 });
	put_discovered(j, t, group, target, a, &b);
	const struct place before = place_of(&b);
	int rc = relabel_within(j->relabel.v, j->relabel.n, &b, a, j->confined ? &j->confined->relabel : NULL, &ret->rule, &e);
	ret->dropped = rc == 0;
	if (rc < 0)
		ret->problem = xasprintf("relabel_configs: %s", e.msg);
	else if (rc > 0)
		finish_plan(j, t, &before, a, &b, ret, after);
	labels_builder_free(&b);
}

void target_plan_make(const struct job_config *j, const struct type_config *t, struct labels group, struct labels target,
		      struct arena *a, struct target_plan *ret)
{
	target_plan_explain(j, t, group, target, a, ret, NULL);
}

void target_plan_release(struct target_plan *p)
{
	free(p->problem);
	free(p->visible);
	free(p->url);
	free(p->name);
	free(p->socket);
	*p = (struct target_plan){ 0 };
}
