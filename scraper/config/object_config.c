/* SPDX-License-Identifier: Apache-2.0 */
/* An object's spec is JSON, which is read as YAML. A table of members turns spec.scrapeConfig into a scrape_config, so that one
 * decoder of scrape_configs checks both:
 *
 *	{"interval":"15s","profilingConfig":{"pathPrefix":"/x"}} ──► {scrape_interval: 15s, profiling_config: {path_prefix: /x}}
 *
 * A member without a row is an error. So no other part of a scrape_config can be reached: no files, credentials, proxies, headers or
 * other discovery. Each node of the copy knows the field that it came from. */
#include "scraper/config/object_config.h"

#include "base/alloc.h"
#include "discovery/sd_object_pods.h"

/* --- spelling --- */

enum shape {
	AS_IS,     /* copied with all below it */
	STRUCT,    /* by the rows below */
	LIST_OF,   /* each item by the rows below */
	MAP_OF     /* each value by the rows below; its keys are names */
};

struct member {
	const char *from, *to;
	enum shape shape;
	const struct member *below; /* ended by from NULL */
	bool required;
};

static const struct member sample_type_members[] = {
	{ "type", "type", .required = true }, { "unit", "unit" }, { NULL }
};
static const struct member type_members[] = {
	{ "enabled", "enabled" }, { "path", "path" }, { "delta", "delta" }, { "seconds", "seconds" },
	{ "keepSampleType", "keep_sample_type", LIST_OF, sample_type_members }, { NULL }
};
static const struct member profiling_members[] = {
	{ "pprofConfig", "pprof_config", MAP_OF, type_members }, { "pathPrefix", "path_prefix" }, { NULL }
};
static const struct member rule_members[] = {
	{ "sourceLabels", "source_labels" }, { "separator", "separator" }, { "targetLabel", "target_label" }, { "regex", "regex" },
	{ "modulus", "modulus" }, { "replacement", "replacement" }, { "action", "action" }, { NULL }
};
/* Those without `to` have no counterpart: struct own_members. */
static const struct member scrape_members[] = {
	{ "job", NULL }, { "port", NULL }, { "portNumber", NULL }, { "params", "params" }, { "interval", "scrape_interval" },
	{ "timeout", "scrape_timeout" }, { "scheme", "scheme" }, { "profilingConfig", "profiling_config", STRUCT, profiling_members },
	{ "relabelConfigs", "relabel_configs", LIST_OF, rule_members }, { NULL }
};

struct speller {
	struct config_ctx *c;
	const char *file;        /* what the object is called in messages */
	bool empty_is_absent;    /* of texts: what wrote the object leaves out what is empty, and means so */
};

static struct config_node *new_node(struct speller *s, const struct config_node *from)
{
	struct config_node *n = arena_calloc(s->c->arena, 1, sizeof *n);
	*n = *from;
	n->file = s->file;
	n->field = arena_printf(s->c->arena, "%.*s", VIEW_ARG(buf_view(&s->c->path)));
	n->pairs = NULL;
	n->items = NULL;
	return n;
}

static struct config_node *new_key(struct speller *s, const struct config_node *from, const char *text)
{
	struct config_node *k = new_node(s, from);
	k->text = arena_view(s->c->arena, view_of(text));
	return k;
}

static const struct member as_is[] = { { NULL } };

static int spell(struct speller *s, const struct config_node *n, enum shape shape, const struct member *rows,
		 const struct config_node **ret, struct err *e);

static const struct member *find_member(const struct member *rows, struct view key)
{
	for (; rows->from; rows++)
		if (view_eqs(key, rows->from))
			return rows;
	return NULL;
}

static bool is_absent(const struct speller *s, const struct config_node *n)
{
	return n->type == CONFIG_NODE_NULL || (s->empty_is_absent && n->type == CONFIG_NODE_SCALAR && !n->text.len);
}

/* The pair under its new name; *ret_taken false: it has none, or is empty. */
static int spell_pair(struct speller *s, const struct config_pair *p, enum shape shape, const struct member *rows,
		      struct config_pair *ret, bool *ret_taken, struct err *e)
{
	const struct member *m = shape == STRUCT ? find_member(rows, p->key->text) : NULL;
	*ret_taken = false;
	if (shape == STRUCT && !m)
		return config_error(s->c, new_key(s, p->key, ""), e, "unknown");
	if ((m && !m->to) || (shape != AS_IS && is_absent(s, p->value)))
		return 0;
	ret->key = new_key(s, p->key, m ? m->to : p->key->text.ptr);
	*ret_taken = true;
	return m ? spell(s, p->value, m->shape, m->below, &ret->value, e)
		 : spell(s, p->value, shape == MAP_OF ? STRUCT : AS_IS, rows, &ret->value, e);
}

static int check_required(struct speller *s, const struct config_node *n, enum shape shape, const struct member *rows, struct err *e)
{
	for (; shape == STRUCT && rows->from; rows++)
		if (rows->required && (!config_get(n, rows->from) || is_absent(s, config_get(n, rows->from))))
			return config_error(s->c, new_node(s, n), e, "%s is missing", rows->from);
	return 0;
}

static int spell_map(struct speller *s, const struct config_node *n, enum shape shape, const struct member *rows,
		     struct config_node *to, struct err *e)
{
	struct config_pair *pairs = arena_calloc(s->c->arena, n->n + 1, sizeof *pairs);
	size_t kept = 0;
	int rc = check_required(s, n, shape, rows, e);
	for (size_t i = 0; i < n->n && !rc; i++) {
		size_t mark = config_enter(s->c, n->pairs[i].key->text.ptr);
		bool taken;
		rc = spell_pair(s, &n->pairs[i], shape, rows, &pairs[kept], &taken, e);
		kept += taken;
		config_leave(s->c, mark);
	}
	to->pairs = pairs;
	to->n = kept;
	return rc;
}

static int spell_list(struct speller *s, const struct config_node *n, enum shape shape, const struct member *rows,
		      struct config_node *to, struct err *e)
{
	const struct config_node **items = arena_calloc(s->c->arena, n->n + 1, sizeof *items);
	int rc = 0;
	for (size_t i = 0; i < n->n && !rc; i++) {
		size_t mark = config_enter_index(s->c, i);
		rc = spell(s, n->items[i], shape == LIST_OF ? STRUCT : AS_IS, rows, &items[i], e);
		config_leave(s->c, mark);
	}
	to->items = items;
	return rc;
}

static int spell(struct speller *s, const struct config_node *n, enum shape shape, const struct member *rows,
		 const struct config_node **ret, struct err *e)
{
	struct config_node *to = new_node(s, n);
	*ret = to;
	if ((shape == STRUCT || shape == MAP_OF) && n->type != CONFIG_NODE_MAP)
		return config_error(s->c, to, e, "a map is wanted");
	if (shape == LIST_OF && n->type != CONFIG_NODE_LIST)
		return config_error(s->c, to, e, "a list is wanted");
	rows = rows ? rows : as_is;
	if (n->type == CONFIG_NODE_MAP)
		return spell_map(s, n, shape, rows, to, e);
	return n->type == CONFIG_NODE_LIST ? spell_list(s, n, shape, rows, to, e) : 0;
}

/* --- what a scrape_config has no words for --- */

struct own {
	const char *job, *port;
	int64_t port_number;
};

static bool taken_elsewhere(struct view key)
{
	const struct member *m = find_member(scrape_members, key);
	return m && m->to;
}

static const struct config_field own_rows[] = {
	{ "job", CONFIG_STRING, offsetof(struct own, job) },
	{ "port", CONFIG_STRING, offsetof(struct own, port) },
	{ "portNumber", CONFIG_COUNT, offsetof(struct own, port_number) },
};
static const struct config_table own_table = { own_rows, ARRAY_LEN(own_rows), sizeof(struct own), NULL, taken_elsewhere };

static int check_own(const struct config_ctx *c, const struct config_node *n, struct own *o, struct err *e)
{
	if (o->job && !o->job[0])
		o->job = NULL;
	if (o->port && !o->port[0])
		o->port = NULL;
	if (!o->port && !o->port_number)
		return config_error(c, n, e, "port, the name of a container's port, or portNumber is missing");
	if (o->port_number > 65535)
		return config_error(c, n, e, "portNumber is over 65535");
	return 0;
}

/* --- limits --- */

static size_t count(const struct config_node *n, const char *key)
{
	const struct config_node *v = config_get(n, key);
	return v ? v->n : 0;
}

static int check_sizes(const struct config_ctx *c, const struct config_node *n, struct err *e)
{
	static const struct { const char *key; size_t max; } rows[] = {
		{ "relabel_configs", OBJECT_RULES_MAX }, { "params", OBJECT_PARAMS_MAX },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (count(n, rows[i].key) > rows[i].max)
			return config_error(c, config_get(n, rows[i].key), e, "more than %zu entries", rows[i].max);
	const struct config_node *types = config_get(config_get(n, "profiling_config"), "pprof_config");
	if (types && types->n > OBJECT_TYPES_MAX)
		return config_error(c, types, e, "more than %d profile types", OBJECT_TYPES_MAX);
	return 0;
}

/* Labels that say where a request goes: a rule that sets one is told so here, one that does so by an expression ends the target
 * (scraper/target.c). */
static int check_rules(const struct config_ctx *c, const struct config_node *n, const struct job_config *j, struct err *e)
{
	static const char *const kept[] = { "__address__", "__scheme__", "__unix_socket__" };
	const struct config_node *list = config_get(n, "relabel_configs");
	for (size_t i = 0; i < j->relabel.n; i++)
		for (size_t k = 0; k < ARRAY_LEN(kept); k++)
			if (j->relabel.v[i].target_label && strcmp(j->relabel.v[i].target_label, kept[k]) == 0)
				return config_error(c, list->items[i], e, "targetLabel %s: the address of a target cannot be changed", kept[k]);
	return 0;
}

static int check_times(const struct config_ctx *c, const struct config_node *n, const struct job_config *j,
		       const struct config_global *g, struct err *e)
{
	const struct config_node *interval = config_get(n, "scrape_interval"), *timeout = config_get(n, "scrape_timeout");
	if (j->interval_ms < MIN(OBJECT_INTERVAL_MIN_MS, g->scrape_interval_ms))
		return config_error(c, interval ? interval : n, e, "under a second");
	if (j->timeout_ms > OBJECT_TIMEOUT_MAX_MS && timeout)
		return config_error(c, timeout, e, "over an hour");
	return 0;
}

/* --- one object --- */

/* One object on its way to a job. */
struct making {
	struct config_ctx *c;
	const struct kube_object *object;
	const struct object_source *source;
	const struct scraper_config *base;
	struct scraper_config *into;
};

static void confine(struct making *m, struct job_config *j)
{
	struct confinement *f = arena_calloc(m->c->arena, 1, sizeof *f);
	f->namespace = arena_strndup(m->c->arena, m->object->namespace, strlen(m->object->namespace));
	f->interval_min_ms = MIN(OBJECT_INTERVAL_MIN_MS, m->base->global.scrape_interval_ms);
	f->relabel = (struct relabel_limits){ 20000000, "20 ms of relabelling", (size_t)64 << 10 };
	f->sync_max_ns = 1000000000;
	f->timeout_max_ms = MAX(OBJECT_TIMEOUT_MAX_MS, m->base->global.scrape_timeout_ms);
	j->confined = f;
	j->http.follow_redirects = false;
	j->target_limit = j->target_limit ? MIN(j->target_limit, OBJECT_TARGETS_MAX) : OBJECT_TARGETS_MAX;
}

static void use_pods(struct making *m, const struct own *own, const struct kube_label_selector *selector, struct job_config *j)
{
	struct object_pods_config *p = arena_calloc(m->c->arena, 1, sizeof *p);
	kube_sd_copy_source(m->c->arena, m->source->config, &p->source);
	p->namespace = j->confined->namespace;
	p->selector = *selector;
	p->port = own->port;
	p->port_number = own->port ? 0 : own->port_number;
	j->sd.v = arena_calloc(m->c->arena, 1, sizeof *j->sd.v);
	j->sd.v[0] = (struct discovery_config){ &sd_object_pods, p };
	j->sd.n = 1;
}

static const struct config_pair *add_name(struct making *m, const struct config_node *like, const struct config_node *n, size_t *ret_n)
{
	struct config_pair *pairs = arena_calloc(m->c->arena, n->n + 1, sizeof *pairs);
	struct config_node *v = arena_calloc(m->c->arena, 2, sizeof *v);
	v[0] = v[1] = *like;
	v[0].type = v[1].type = CONFIG_NODE_SCALAR;
	v[0].text = VIEW("job_name");
	v[1].text = view_of(arena_printf(m->c->arena, "%s/%s", m->object->namespace, m->object->name));
	pairs[0] = (struct config_pair){ &v[0], &v[1] };
	if (n->n)
		memcpy(&pairs[1], n->pairs, n->n * sizeof *pairs);
	*ret_n = n->n + 1;
	return pairs;
}

static int decode_scrape(struct making *m, const struct config_node *spec, const struct config_node *n, struct job_config *j,
			 struct err *e)
{
	struct config_node job = *n;
	job.pairs = add_name(m, n, n, &job.n);
	int rc = check_sizes(m->c, n, e);
	if (!rc)
		rc = scrape_job_decode(m->c, &job, &m->base->global, j, e);
	if (!rc)
		rc = check_rules(m->c, n, j, e);
	if (!rc)
		rc = check_times(m->c, n, j, &m->base->global, e);
	if (rc)
		return rc;
	confine(m, j);
	return scrape_job_fingerprint(m->c, spec, m->source->fingerprint, j, e);
}

struct spec {
	const struct config_node *selector, *scrape;
};
static const struct config_field spec_rows[] = {
	{ "selector", CONFIG_NODE, offsetof(struct spec, selector) },
	{ "scrapeConfig", CONFIG_NODE, offsetof(struct spec, scrape) },
};
static const struct config_table spec_table = CONFIG_TABLE(struct spec, spec_rows, NULL);

static int part(struct speller *s, const char *name, const struct config_node *n, enum shape shape, const struct member *rows,
		const struct config_node **ret, struct err *e)
{
	size_t mark = config_enter(s->c, name);
	int rc = spell(s, n, shape, rows, ret, e);
	config_leave(s->c, mark);
	return rc;
}

/* The context's path is no help once a node knows its own. */
static int decode_spec(struct making *m, struct speller *s, const struct config_node *root, struct err *e)
{
	struct spec spec = { 0 };
	struct own own = { 0 };
	struct kube_label_selector selector = { 0 };
	const struct config_node *all, *scrape, *raw, *select;
	struct job_config *j = scraper_config_take(m->into);
	int rc = spell(s, root, AS_IS, NULL, &all, e);
	if (!rc)
		rc = config_decode(m->c, &spec_table, all, &spec, e);
	if (!rc && !spec.selector)
		rc = config_error(m->c, all, e, "selector is missing; {} selects all pods of the namespace");
	if (!rc && !spec.scrape)
		rc = config_error(m->c, all, e, "scrapeConfig is missing");
	if (!rc)
		rc = part(s, "selector", spec.selector, AS_IS, NULL, &select, e);
	if (!rc)
		rc = config_decode(m->c, &kube_label_selector_table, select, &selector, e);
	if (!rc)
		rc = part(s, "scrapeConfig", spec.scrape, AS_IS, NULL, &raw, e);
	if (!rc)
		rc = part(s, "scrapeConfig", spec.scrape, STRUCT, scrape_members, &scrape, e);
	if (!rc)
		rc = config_decode(m->c, &own_table, raw, &own, e);
	if (!rc)
		rc = check_own(m->c, raw, &own, e);
	if (!rc)
		rc = decode_scrape(m, all, scrape, j, e);
	if (rc)
		return rc;
	j->job_label = own.job;
	use_pods(m, &own, &selector, j);
	return 0;
}

int object_config_parse(struct scraper_config **ret, const struct kube_object *o, const struct object_source *source,
			const struct scraper_config *base, struct err *e)
{
	struct scraper_config *s = scraper_config_new(1);
	struct config_tree *t = NULL;
	struct config_ctx c = { .arena = &s->arena };
	const char *called = arena_printf(&s->arena, "%s %s/%s", kube_object_kind_name(o->kind), o->namespace, o->name);
	struct making m = { &c, o, source, base, s };
	struct speller speller = { &c, called, o->kind == KUBE_PARCA_SCRAPE_CONFIG };
	int rc = o->spec ? config_parse(&t, view_of(o->spec), called, e) : err_set(e, ERR_BAD_DATA, "%s: %s", called, o->problem);
	config_enter(&c, "spec");
	if (!rc)
		rc = decode_spec(&m, &speller, config_root(t), e);
	config_ctx_release(&c);
	config_free(t);
	if (rc) {
		scraper_config_unref(s);
		return rc;
	}
	*ret = s;
	return 0;
}
