/* SPDX-License-Identifier: Apache-2.0 */
/* profiling_config: which profiles a job asks for. A table of the types known by name, merged with the job's values: a key that the
 * job leaves out keeps the table's value (so process_cpu stays a delta when only its path is given). */
#include "scraper/config/scrape_config.h"

static const struct type_config known[] = {
	{ .name = "memory", .path = "/debug/pprof/allocs", .enabled = true },
	{ .name = "block", .path = "/debug/pprof/block", .enabled = true },
	{ .name = "goroutine", .path = "/debug/pprof/goroutine", .enabled = true },
	{ .name = "mutex", .path = "/debug/pprof/mutex", .enabled = true },
	{ .name = "process_cpu", .path = "/debug/pprof/profile", .enabled = true, .delta = true },
	{ .name = "fgprof", .path = "/debug/fgprof", .delta = true },
	{ .name = "threadcreate", .path = "/debug/pprof/threadcreate" },
	{ .name = "godeltaprof_memory", .path = "/debug/pprof/delta_heap", .since_last = true },
	{ .name = "godeltaprof_mutex", .path = "/debug/pprof/delta_mutex", .since_last = true },
	{ .name = "godeltaprof_block", .path = "/debug/pprof/delta_block", .since_last = true },
};

/* preset: gperftools. Which of these a program serves depends on the program. */
static const struct type_config gperftools_types[] = {
	{ .name = "process_cpu", .path = "/pprof/profile", .enabled = true, .delta = true },
	{ .name = "memory", .path = "/pprof/heap", .enabled = true },
	{ .name = "growth", .path = "/pprof/growth", .enabled = true },
	{ .name = "mutex", .path = "/pprof/contention", .enabled = true },
};

/* preset: agent. One profile of the whole host, a series per combination of these labels of its samples. */
static const struct type_config agent_types[] = {
	{ .name = "on_cpu", .path = "/debug/pprof/profile", .enabled = true, .delta = true, .named = true, .seconds_max = 600 },
	/* An agent that does not profile waits says 404. */
	{ .name = "off_cpu", .path = "/debug/pprof/offcpu", .enabled = true, .delta = true, .seconds_max = 600 },
};
static const char *const agent_series_labels[] = { "node", "namespace", "workload", "pod", "container", "unit", "comm" };
enum { PRESET_GO, PRESET_AGENT, PRESET_GPERFTOOLS };
static const struct { const struct type_config *types; size_t n; } presets[] = {
	[PRESET_GO] = { known, ARRAY_LEN(known) },
	[PRESET_AGENT] = { agent_types, ARRAY_LEN(agent_types) },
	[PRESET_GPERFTOOLS] = { gperftools_types, ARRAY_LEN(gperftools_types) },
};

static int parse_kind(struct config_ctx *c, const struct config_node *n, enum profile_kind *ret, struct err *e)
{
	static const struct config_field word = { .type = CONFIG_ENUM, .words = "delta|cumulative|gauge" };
	int i = 0;
	int rc = config_decode_value(c, &word, n, &i, e);
	if (!rc)
		*ret = (enum profile_kind[]){ PROFILE_DELTA, PROFILE_CUMULATIVE, PROFILE_GAUGE }[i];
	return rc;
}

static int decode_kinds(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct type_config *t = (struct type_config *)((char *)at - offsetof(struct type_config, kinds));
	bool one = n->type == CONFIG_NODE_SCALAR;
	if (!one && n->type != CONFIG_NODE_MAP)
		return config_error(c, n, e, "delta, cumulative or gauge is wanted, or a map from sample types to those");
	t->n_kinds = one ? 1 : n->n;
	t->kinds = arena_calloc(c->arena, t->n_kinds + 1, sizeof *t->kinds);
	if (one)
		return parse_kind(c, n, &t->kinds[0].kind, e);
	int rc = 0;
	for (size_t i = 0; i < n->n && !rc; i++) {
		struct view type = n->pairs[i].key->text;
		size_t mark = config_enter(c, type.ptr);
		t->kinds[i].sample_type = arena_strndup(c->arena, type.ptr, type.len);
		rc = parse_kind(c, n->pairs[i].value, &t->kinds[i].kind, e);
		config_leave(c, mark);
	}
	return rc;
}

static int decode_delta(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	static const struct config_field word = { .type = CONFIG_BOOL };
	struct type_config *t = (struct type_config *)((char *)at - offsetof(struct type_config, delta));
	t->delta_said = true;
	return config_decode_value(c, &word, n, &t->delta, e);
}

static const struct config_field keep_rows[] = {
	{ "type", CONFIG_STRING, offsetof(struct keep_type, type), NULL, CONFIG_REQUIRED },
	{ "unit", CONFIG_STRING, offsetof(struct keep_type, unit) },
};
static const struct config_table keep_table = CONFIG_TABLE(struct keep_type, keep_rows, NULL);

static int check_type(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct type_config *t = at;
	if (t->enabled && !t->path)
		return config_error(c, n, e, "path is missing; only memory, block, goroutine, mutex, process_cpu, fgprof, threadcreate and godeltaprof_memory, _mutex and _block have a default");
	if (t->path && t->path[0] != '/')
		return config_error(c, n, e, "path \"%s\" does not begin with a slash", t->path);
	if (t->since_last && t->delta)
		return config_error(c, n, e, "since_last_request and delta exclude each other: the one asks for no seconds");
	if (t->seconds && !t->delta)
		return config_error(c, n, e, "seconds needs delta: true");
	if (t->seconds > 3600)
		return config_error(c, n, e, "seconds is over an hour");
	return 0;
}

static const struct config_field folded_rows[] = {
	{ "sample_type", CONFIG_STRING, offsetof(struct pprof_folded, type) },
	{ "unit", CONFIG_STRING, offsetof(struct pprof_folded, unit) },
};
static const struct config_table folded_table = CONFIG_TABLE(struct pprof_folded, folded_rows, NULL);

static int decode_folded(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct type_config *t = (struct type_config *)((char *)at - offsetof(struct type_config, folded));
	t->folded_said = true;
	return config_decode(c, &folded_table, n, &t->folded, e);
}

static const struct config_field type_rows[] = {
	{ "enabled", CONFIG_BOOL, offsetof(struct type_config, enabled) },
	{ "path", CONFIG_STRING, offsetof(struct type_config, path) },
	{ "delta", CONFIG_CUSTOM, offsetof(struct type_config, delta), .custom = decode_delta },
	{ "seconds", CONFIG_COUNT, offsetof(struct type_config, seconds) },
	{ "keep_sample_type", CONFIG_STRUCTS, offsetof(struct type_config, keep), .table = &keep_table },
	{ "since_last_request", CONFIG_BOOL, offsetof(struct type_config, since_last) },
	{ "folded", CONFIG_CUSTOM, offsetof(struct type_config, folded), .custom = decode_folded },
	{ "kind", CONFIG_CUSTOM, offsetof(struct type_config, kinds), .custom = decode_kinds },
};
static const struct config_table type_table = CONFIG_TABLE(struct type_config, type_rows, check_type);

static bool name_ok(struct view v)
{
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (i && c >= '0' && c <= '9')))
			return false;
	}
	return v.len && v.len <= 128;
}

struct type_config *job_type(const struct job_config *j, struct view name)
{
	for (size_t i = 0; i < j->n_types; i++)
		if (!j->types[i].metrics && view_eqs(name, j->types[i].name))
			return &j->types[i];
	return NULL;
}

static struct type_config *find_or_add(struct config_ctx *c, struct job_config *job, struct view name)
{
	struct type_config *t = job_type(job, name);
	if (t)
		return t;
	t = &job->types[job->n_types++];
	*t = (struct type_config){ .name = arena_strndup(c->arena, name.ptr, name.len), .enabled = true };
	return t;
}

static int decode_types(struct config_ctx *c, const struct config_node *n, struct job_config *job, struct err *e)
{
	int rc = n->type == CONFIG_NODE_MAP ? 0 : config_error(c, n, e, "a map from names to profile types is wanted");
	for (size_t i = 0; i < n->n && !rc; i++) {
		const struct config_pair *p = &n->pairs[i];
		size_t mark = config_enter(c, p->key->text.ptr);
		if (!name_ok(p->key->text))
			rc = config_error(c, p->key, e, "the name of a profile type is made of letters, digits and _");
		if (!rc) {
			struct type_config *t = find_or_add(c, job, p->key->text);
			t->enabled = t->named = true; /* to name it is to want it, unless it says otherwise */
			rc = config_decode(c, &type_table, p->value, t, e);
		}
		config_leave(c, mark);
	}
	return rc;
}

struct profiling {
	const struct config_node *pprof;
	const char *path_prefix;
	int preset;
	struct config_strings series_labels;
};
static const struct config_field profiling_rows[] = {
	{ "pprof_config", CONFIG_NODE, offsetof(struct profiling, pprof) },
	{ "path_prefix", CONFIG_STRING, offsetof(struct profiling, path_prefix) },
	{ "preset", CONFIG_ENUM, offsetof(struct profiling, preset), "go", .words = "go|agent|gperftools" },
	{ "series_labels", CONFIG_STRINGS, offsetof(struct profiling, series_labels) },
};
static const struct config_table profiling_table = CONFIG_TABLE(struct profiling, profiling_rows, NULL);

int scrape_types_decode(struct config_ctx *c, const struct config_node *n, struct job_config *job, struct err *e)
{
	struct profiling p = { 0 };
	size_t mark = config_enter(c, "profiling_config");
	int rc = n ? config_decode(c, &profiling_table, n, &p, e) : 0;
	bool agent = p.preset == PRESET_AGENT;
	const struct type_config *table = presets[p.preset].types;
	size_t n_table = presets[p.preset].n;
	job->types = arena_calloc(c->arena, 1 + n_table + (p.pprof ? p.pprof->n : 0), sizeof *job->types);
	if (job->metrics)
		job->types[job->n_types++] = (struct type_config){ .name = "metrics", .metrics = true, .enabled = true, .named = true };
	for (size_t i = 0; i < n_table && (n || !job->metrics); i++)
		job->types[job->n_types++] = table[i];
	job->series_labels = p.series_labels;
	job->agent = agent;
	if (agent) {
		job->honor_labels = true;
		job->series_from_profile = !p.series_labels.n;
		if (!p.series_labels.n)
			job->series_labels = (struct config_strings){ (const char **)(uintptr_t)agent_series_labels,
								      ARRAY_LEN(agent_series_labels) };
	}
	job->path_prefix = p.path_prefix ? p.path_prefix : "";
	if (!rc && job->path_prefix[0] && job->path_prefix[0] != '/')
		rc = config_error(c, n, e, "path_prefix does not begin with a slash");
	if (!rc && p.pprof) {
		size_t inner = config_enter(c, "pprof_config");
		rc = decode_types(c, p.pprof, job, e);
		config_leave(c, inner);
	}
	for (size_t i = 0; i < job->n_types && !rc; i++)
		if (job->types[i].enabled && job->types[i].since_last && job->series_labels.n)
			rc = config_error(c, n, e, "%s holds what happened since the request before: series_labels cannot split it",
					  job->types[i].name);
	config_leave(c, mark);
	return rc;
}

enum profile_kind scrape_type_kind(const struct type_config *t, struct view sample_type, struct view sample_unit,
				   bool has_duration)
{
	for (size_t i = 0; i < t->n_kinds; i++)
		if (!t->kinds[i].sample_type || view_eqs(sample_type, t->kinds[i].sample_type))
			return t->kinds[i].kind;
	/* delta: true requests seconds. An answer with a duration then covers them, even if its columns are cumulative without seconds
	 * (Go's allocs?seconds=10). */
	if (t->delta && t->delta_said && has_duration)
		return PROFILE_DELTA;
	enum profile_kind kind = ptype_default_kind(view_of(t->name), sample_type, sample_unit, has_duration);
	return t->since_last && kind == PROFILE_CUMULATIVE ? PROFILE_DELTA : kind;
}

int64_t scrape_type_seconds(const struct type_config *t, int64_t interval_ms)
{
	int64_t s = MAX(interval_ms / 1000, 1);
	if (!t->delta || t->seconds)
		return t->delta ? t->seconds : 0;
	return t->seconds_max ? MIN(s, t->seconds_max) : s;
}

bool scrape_type_keeps(const struct type_config *t, struct view sample_type, struct view sample_unit)
{
	const struct keep_type *k = t->keep.v;
	for (size_t i = 0; i < t->keep.n; i++)
		if (view_eqs(sample_type, k[i].type) && (!k[i].unit || view_eqs(sample_unit, k[i].unit)))
			return true;
	return t->keep.n == 0;
}
