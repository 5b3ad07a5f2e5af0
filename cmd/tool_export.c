/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool tsdb export: profiles of a storage directory as pprof files. It writes one per profile, in folders named after its labels
 * (OUT/job=api/pod=a/__profile__=process_cpu:delta/2023-11-15T00:00:00.000Z.pb.gz), which tsdb import reads back; or all selected
 * profiles merged into one file. Sample types of one profile share a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/tool_tsdb.h"
#include "model/stackvec.h"
#include "pprof/pprof.h"

/* Series that are sample types of the same profiles. */
struct group {
	const struct ptype *type;     /* of the first */
	struct labels labels;         /* of the first, with __name__ */
	VEC(const struct source_series *) members;
};

struct export {
	struct tsdb_scope scope;
	const char *out;
	bool merge;
	VEC(struct group) groups;
	uint64_t files, bytes;
};

static bool same_profile(const struct ptype *a, const struct ptype *b)
{
	return view_eq(a->name, b->name) && view_eq(a->period_type, b->period_type) && view_eq(a->period_unit, b->period_unit) &&
	       a->delta == b->delta;
}

static bool same_labels(struct labels a, struct labels b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (!view_eq(a.v[i].name, b.v[i].name) ||
		    (!view_eq(a.v[i].name, VIEW(LABEL_NAME)) && !view_eq(a.v[i].value, b.v[i].value)))
			return false;
	return true;
}

static void group_series(struct export *x)
{
	for (size_t i = 0; i < x->scope.series.n; i++) {
		const struct source_series *s = &x->scope.series.v[i];
		struct group *g = NULL;
		if (!s->type)
			continue;
		for (size_t k = 0; k < x->groups.n && !g; k++)
			if (same_profile(x->groups.v[k].type, s->type) && (x->merge || same_labels(x->groups.v[k].labels, s->labels)))
				g = &x->groups.v[k];
		if (!g) {
			g = vec_add(&x->groups);
			g->type = s->type;
			g->labels = s->labels;
		}
		vec_push(&g->members, s);
	}
}

/* ---- a profile out of sums ---- */

static uint32_t string_of(struct profile *p, struct view v)
{
	for (uint32_t i = 0; i < p->n_strings; i++)
		if (view_eq(p->strings[i], v))
			return i;
	struct view *all = arena_alloc(&p->arena, (p->n_strings + 1) * sizeof *all);
	if (!all)
		return 0;
	memcpy(all, p->strings, p->n_strings * sizeof *all);
	all[p->n_strings] = arena_view(&p->arena, v);
	p->strings = all;
	return p->n_strings++;
}

static bool same_sample_type(const struct ptype *a, const struct ptype *b)
{
	return view_eq(a->sample_type, b->sample_type) && view_eq(a->sample_unit, b->sample_unit);
}

/* Sums of the members in (after, until], one per sample type. */
static int merge_group(struct export *x, const struct group *g, int64_t after_ms, int64_t until_ms, struct profile *out,
		       struct err *e)
{
	VEC(struct source_part) parts = { 0 };
	VEC(struct stackvec_type) types = { 0 };
	VEC(const struct ptype *) kinds = { 0 };
	for (size_t i = 0; i < g->members.n; i++) {
		size_t k = 0;
		while (k < kinds.n && !same_sample_type(kinds.v[k], g->members.v[i]->type))
			k++;
		if (k == kinds.n) {
			vec_push(&kinds, g->members.v[i]->type);
			vec_push(&types, (struct stackvec_type){ kinds.v[k]->sample_type, kinds.v[k]->sample_unit });
		}
		vec_push(&parts, (struct source_part){ .ref = g->members.v[i]->ref, .after_ms = after_ms, .until_ms = until_ms, .scale = 1,
						       .group = (uint32_t)k });
	}
	struct stackvec **sums = xcalloc(kinds.n, sizeof *sums);
	int rc = x->scope.view->ops->merge(x->scope.view, parts.v, parts.n, kinds.n, SYMBOLS_WHOLE, NULL, sums, e);
	struct symbols *one = symbols_new();
	for (size_t i = 0; i < kinds.n && !rc; i++) {
		struct stackvec *v = stackvec_rebase(sums[i], one, e);
		stackvec_unref(sums[i]);
		sums[i] = v;
		rc = v ? 0 : -(int)e->code;
	}
	if (!rc)
		rc = stackvec_to_profile(sums, types.v, types.n, out, e);
	if (!rc && ptype_is_of_host(kinds.v[0]) && !profile_without_main(out))
		rc = err_set(e, ERR_LIMIT, "a profile is larger than %zu bytes", out->arena.max);
	for (size_t i = 0; i < kinds.n; i++)
		stackvec_unref(sums[i]);
	free(sums);
	symbols_unref(one);
	vec_free(&parts);
	vec_free(&types);
	vec_free(&kinds);
	return rc;
}

static bool has_cumulative(const struct group *g)
{
	for (size_t i = 0; i < g->members.n; i++)
		if (g->members.v[i]->type->kind == PROFILE_CUMULATIVE)
			return true;
	return false;
}

/* The duration marks values as increases over a time. */
static int write_profile(struct export *x, const struct group *g, int64_t after_ms, int64_t until_ms,
			 const struct source_profile *head, const char *path, struct err *e)
{
	struct profile p;
	struct buf bytes = { 0 };
	profile_init(&p, 0);
	int rc = merge_group(x, g, after_ms, until_ms, &p, e);
	if (!rc) {
		p.period_type = (struct profile_value_type){ string_of(&p, g->type->period_type), string_of(&p, g->type->period_unit) };
		p.period = head->period;
		if (profile_type_index(&p, VIEW("cpu")) >= 0)
			p.default_sample_type_str = string_of(&p, VIEW("cpu"));
		p.duration_ns = head->duration_ns ? head->duration_ns : has_cumulative(g) ? head->cover_ms * 1000000 : 0;
		p.time_ns = head->t_ms * 1000000 - p.duration_ns;
		rc = pprof_encode_gz(&p, &bytes, e);
	}
	FILE *f = rc ? NULL : fopen(path, "we");
	if (!rc && (!f || fwrite(bytes.ptr, 1, bytes.len, f) != bytes.len))
		rc = err_errno(e, errno, "cannot write %s", path);
	if (f && fclose(f) && !rc)
		rc = err_errno(e, errno, "cannot write %s", path);
	x->files += !rc;
	x->bytes += bytes.len;
	buf_free(&bytes);
	profile_release(&p);
	return rc;
}

/* ---- one file per profile ---- */

/* A name that any file system takes and import reads back: what is not plain as %XX. */
static void put_component(struct buf *b, struct view v)
{
	for (size_t i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.ptr[i];
		if (c < 0x21 || c == '/' || c == '%' || c == 0x7f || (c == '.' && !i))
			buf_printf(b, "%%%02X", c);
		else
			buf_putc(b, (char)c);
	}
}

static int make_dir(struct buf *path, struct err *e)
{
	buf_putc(path, 0);
	path->len--;
	return mkdir(path->ptr, 0777) && errno != EEXIST ? err_errno(e, errno, "cannot make %s", path->ptr) : 0;
}

static int make_dirs(struct export *x, const struct group *g, struct buf *path, struct err *e)
{
	buf_puts(path, x->out);
	int rc = make_dir(path, e);
	for (size_t i = 0; i < g->labels.n && !rc; i++) {
		if (view_eqs(g->labels.v[i].name, LABEL_NAME))
			continue;
		buf_putc(path, '/');
		put_component(path, g->labels.v[i].name);
		buf_putc(path, '=');
		put_component(path, g->labels.v[i].value);
		rc = make_dir(path, e);
	}
	buf_puts(path, "/__profile__=");
	put_component(path, g->type->name);
	if (g->type->delta)
		buf_puts(path, ":delta");
	return rc ? rc : make_dir(path, e);
}

static int by_time(const void *a, const void *b)
{
	int64_t x = ((const struct source_profile *)a)->t_ms, y = ((const struct source_profile *)b)->t_ms;
	return (x > y) - (x < y);
}

/* What each member of a group has. */
struct member_profiles {
	struct source_profile *v;
	size_t n;
};

static int export_keep_profiles(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	(void)e;
	((struct member_profiles *)arg)[series] = (struct member_profiles){ v, n };
	return 0;
}

/* The profiles of all members, by time; several of one stamp follow one another. */
static int list_profiles(struct export *x, const struct group *g, struct source_profile **ret, size_t *ret_n, struct err *e)
{
	VEC(struct source_profile) all = { 0 };
	struct member_profiles *of = xcalloc(g->members.n + 1, sizeof *of);
	uint64_t *refs = xcalloc(g->members.n + 1, sizeof *refs);
	for (size_t i = 0; i < g->members.n; i++)
		refs[i] = g->members.v[i]->ref;
	int rc = x->scope.view->ops->profiles(x->scope.view, refs, g->members.n, x->scope.after_ms, x->scope.until_ms, NULL, export_keep_profiles, of, e);
	for (size_t i = 0; i < g->members.n; i++) {
		for (size_t k = 0; !rc && k < of[i].n; k++)
			if (!of[i].v[k].stale)
				vec_push(&all, of[i].v[k]);
		free(of[i].v);
	}
	free(refs);
	free(of);
	if (all.n)
		qsort(all.v, all.n, sizeof *all.v, by_time);
	*ret = all.v;
	*ret_n = all.n;
	return rc;
}

static int export_group(struct export *x, const struct group *g, struct err *e)
{
	struct source_profile *p;
	struct buf path = { 0 };
	size_t n;
	int rc = make_dirs(x, g, &path, e);
	if (!rc)
		rc = list_profiles(x, g, &p, &n, e);
	for (size_t i = 0; !rc && i < n; i++) {
		char when[RFC3339_LEN];
		if (i && p[i].t_ms == p[i - 1].t_ms)
			continue;
		AUTOFREE char *file = xasprintf("%.*s/%s.pb.gz", VIEW_ARG(buf_view(&path)), clock_rfc3339_ms(p[i].t_ms, when));
		rc = write_profile(x, g, p[i].t_ms - 1, p[i].t_ms, &p[i], file, e);
	}
	if (!rc)
		free(p);
	buf_free(&path);
	return rc;
}

static int export_merged(struct export *x, struct err *e)
{
	struct source_profile *p = NULL, head = { 0 };
	size_t n = 0;
	if (x->groups.n != 1)
		return err_set(e, ERR_BAD_DATA, x->groups.n ? "the selection holds several kinds of profile: --merge needs one, say which with "
			       "--match" : "there is no such profile");
	int rc = list_profiles(x, &x->groups.v[0], &p, &n, e);
	if (!rc && n) {
		head = p[n - 1];
		head.duration_ns = (p[n - 1].t_ms - p[0].t_ms + p[0].cover_ms) * 1000000;
	}
	free(p);
	return rc ? rc : write_profile(x, &x->groups.v[0], x->scope.after_ms, x->scope.until_ms, &head, x->out, e);
}

static void tell(const struct export *x, bool json)
{
	struct buf b CLEANUP(buf_free) = { 0 };
	if (json) {
		json_object_begin(&b);
		json_field_count(&b, "files", x->files);
		json_field_count(&b, "bytes", x->bytes);
		json_object_end(&b);
		buf_putc(&b, '\n');
	} else {
		buf_printf(&b, "%llu files, %llu bytes\n", (unsigned long long)x->files, (unsigned long long)x->bytes);
	}
	fputs(b.ptr, stdout);
}

int tool_tsdb_export(int argc, char **argv)
{
	const char *output = "text", name[] = "tsdb export";
	struct export x = { .out = "" };
	struct opt flags[] = { SCOPE_FLAGS(x.scope),
			       { "out", OPT_STRING, &x.out, "<path>", "A folder, which is made; with --merge a file. -o is the same." },
			       { "merge", OPT_BOOL, &x.merge, NULL, "All that is selected as one profile." },
			       { "output", OPT_STRING, &output, "<format>", "text or json." } };
	int words, status;
	bool json;
	struct tsdb *db;
	struct err e;
	for (int i = 1; i < argc; i++) { /* -o as compilers have it */
		static char long_form[] = "--out";
		if (strcmp(argv[i], "-o") == 0)
			argv[i] = long_form;
	}
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &json))
		return TOOL_USAGE;
	if (words != 1 || !*x.out) {
		fprintf(stderr, "pyrtool %s: one storage directory and --out are wanted\n", name);
		return TOOL_USAGE;
	}
	if (tool_tsdb_open(&db, argv[1], true, &e))
		return tool_fail(name, &e);
	int rc = scope_open(&x.scope, db, &e);
	if (!rc)
		group_series(&x);
	if (!rc && x.merge)
		rc = export_merged(&x, &e);
	for (size_t i = 0; i < x.groups.n && !rc && !x.merge; i++)
		rc = export_group(&x, &x.groups.v[i], &e);
	if (!rc)
		tell(&x, json);
	for (size_t i = 0; i < x.groups.n; i++)
		vec_free(&x.groups.v[i].members);
	vec_free(&x.groups);
	scope_close(&x.scope);
	IGNORE(tsdb_close(db, NULL)); /* it was only read */
	return rc ? tool_fail(name, &e) : TOOL_OK;
}
