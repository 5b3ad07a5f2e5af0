/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool on pprof files, without a server: top, diff, folded, merge. Files of different types of profile are refused. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/vec.h"
#include "cmd/tool.h"
#include "model/flame.h"
#include "model/functions.h"
#include "model/ptype.h"
#include "pprof/pprof.h"

#define FILE_MAX ((size_t)1 << 30)

static int read_file(const char *path, struct buf *out, struct err *e)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "cannot open %s", path);
	out->max = FILE_MAX;
	int rc = buf_read_fd(out, fd, path, e);
	close(fd);
	return rc;
}

/* Profiles read from files, over one dictionary, summed per sample type. */
struct loaded {
	struct symbols *symbols;
	struct profile *profiles;    /* one per file, for headers */
	size_t n;
	struct stackvec **sums;      /* per sample type of the first file */
	uint32_t n_types;
};

static void loaded_release(struct loaded *l)
{
	for (uint32_t i = 0; i < l->n_types && l->sums; i++)
		stackvec_unref(l->sums[i]);
	for (size_t i = 0; i < l->n; i++)
		profile_release(&l->profiles[i]);
	free(l->sums);
	free(l->profiles);
	symbols_unref(l->symbols);
	*l = (struct loaded){ 0 };
}

static int add_file(struct loaded *l, const char *path, struct err *e)
{
	struct buf bytes = { 0 };
	struct profile *p = &l->profiles[l->n];
	profile_init(p, 0);
	l->n++;
	int rc = read_file(path, &bytes, e);
	if (!rc) {
		rc = pprof_decode(bytes.ptr, bytes.len, NULL, p, e);
		if (!rc)
			rc = pprof_drop_frames(p, e);
		if (rc)
			rc = err_wrap(e, "%s", path);
	}
	buf_free(&bytes);
	if (!rc && pprof_compatible(&l->profiles[0], p, e))
		rc = err_wrap(e, "%s", path);
	if (rc)
		return rc;
	if (!l->sums) {
		l->n_types = p->n_sample_types;
		l->sums = xcalloc(l->n_types, sizeof *l->sums);
		return stackvec_from_profile(l->symbols, p, l->sums, e);
	}
	struct stackvec **more = xcalloc(l->n_types, sizeof *more);
	rc = stackvec_from_profile(l->symbols, p, more, e);
	for (uint32_t i = 0; i < l->n_types && !rc; i++) {
		struct stackvec *both[2] = { l->sums[i], more[i] }, *sum = stackvec_sum(l->symbols, both, NULL, 2, e);
		if (!sum)
			rc = -(int)e->code;
		else {
			stackvec_unref(l->sums[i]);
			l->sums[i] = sum;
		}
	}
	for (uint32_t i = 0; i < l->n_types; i++)
		stackvec_unref(more[i]);
	free(more);
	return rc;
}

/* l->symbols is set by the caller, so that two sets may share one. */
static int load(struct loaded *l, struct symbols *s, char **paths, int n, struct err *e)
{
	*l = (struct loaded){ .symbols = symbols_ref(s), .profiles = xcalloc((size_t)n, sizeof *l->profiles) };
	int rc = 0;
	for (int i = 0; i < n && !rc; i++)
		rc = add_file(l, paths[i], e);
	return rc;
}

static int pick_type(const struct loaded *l, const char *name, struct err *e)
{
	const struct profile *p = &l->profiles[0];
	int i = *name ? profile_type_index(p, view_of(name)) : profile_default_type(p);
	if (i >= 0)
		return i;
	struct buf have = { 0 };
	for (uint32_t k = 0; k < p->n_sample_types; k++)
		buf_printf(&have, "%s%.*s", k ? ", " : "", VIEW_ARG(profile_str(p, p->sample_types[k].type_str)));
	int rc = err_set(e, ERR_BAD_DATA, "there is no sample type \"%s\"; there are: %s", name, have.len ? have.ptr : "none");
	buf_free(&have);
	return rc;
}

/* Picks one type of two profiles: returns its index in `in`, and in *base_type that in `base`. With a name, each may have types that the other lacks. */
static int pick_common_type(const struct loaded *base, const struct loaded *in, const char *name, int *base_type, struct err *e)
{
	const struct profile *b = &base->profiles[0], *p = &in->profiles[0];
	int rc = *name ? 0 : pprof_compatible(b, p, e);
	int type = rc ? rc : pick_type(in, name, e);
	*base_type = type < 0 || !*name ? type : pick_type(base, name, e);
	if (*base_type < 0)
		return *base_type;
	struct view unit = profile_str(p, p->sample_types[type].unit_str), other = profile_str(b, b->sample_types[*base_type].unit_str);
	if (!view_eq(unit, other))
		return err_set(e, ERR_BAD_DATA, "values in %.*s and in %.*s cannot be compared", VIEW_ARG(other), VIEW_ARG(unit));
	return type;
}

/* ---- printing ---- */

static void put_value(struct buf *out, int64_t v, struct view unit)
{
	struct buf text = { 0 };
	unit_put(&text, (double)v, unit);
	buf_printf(out, "%10s", text.ptr);
	buf_free(&text);
}

static double percent(int64_t part, int64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static bool by_total;

static int compare_rows(const void *x, const void *y)
{
	const struct function_row *a = x, *b = y;
	int64_t p = by_total ? a->total : a->self, q = by_total ? b->total : b->self;
	uint64_t m = p < 0 ? 0 - (uint64_t)p : (uint64_t)p, n = q < 0 ? 0 - (uint64_t)q : (uint64_t)q;
	if (m != n)
		return m > n ? -1 : 1;
	if (a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return view_cmp(a->name, b->name);
}

static void put_rows_json(struct buf *out, const struct function_table *t, size_t n, struct view type, struct view unit)
{
	json_object_begin(out);
	json_field(out, "sampleType", type);
	json_field(out, "unit", unit);
	json_field_int(out, "total", t->value);
	json_array_begin_at(out, "functions");
	for (size_t i = 0; i < n; i++) {
		json_line(out, 0);
		json_object_begin(out);
		json_field(out, "name", t->rows[i].name);
		json_field_int(out, "self", t->rows[i].self);
		json_field_int(out, "total", t->rows[i].total);
		json_object_end(out);
	}
	json_array_end(out);
	json_object_end(out);
	buf_putc(out, '\n');
}

static void put_rows(struct buf *out, const struct function_table *t, size_t n, int64_t whole, struct view type,
		     struct view unit)
{
	int64_t sum = 0;
	buf_printf(out, "%.*s, %zu of %zu functions, total", VIEW_ARG(type), n, t->n);
	put_value(out, t->value, unit);
	buf_puts(out, "\n      self   self%    sum%       total  total%  function\n");
	for (size_t i = 0; i < n; i++) {
		const struct function_row *r = &t->rows[i];
		sum += r->self;
		put_value(out, r->self, unit);
		buf_printf(out, " %6.2f%% %6.2f%%  ", percent(r->self, whole), percent(sum, whole));
		put_value(out, r->total, unit);
		buf_printf(out, " %6.2f%%  %.*s\n", percent(r->total, whole), VIEW_ARG(r->name));
	}
}

struct listing {
	const char *type, *output;
	int64_t n;
	bool total, json;
};

#define LISTING_FLAGS(l) \
	{ "type", OPT_STRING, &(l).type, "<name>", "Sample type; the profile's default if not given." }, \
	{ "n", OPT_INT, &(l).n, "<count>", "How many functions; 0 = all." }, \
	{ "cum", OPT_BOOL, &(l).total, NULL, "Order by total instead of self." }, \
	{ "output", OPT_STRING, &(l).output, "<form>", "text or json." }

/* v is printed; percentages are of `whole`, or of v's own value if that is 0. */
static int print_functions(const char *name, const struct stackvec *v, int64_t whole, struct listing *l, struct view type,
			   struct view unit)
{
	struct function_table t;
	struct err e;
	struct buf out = { 0 };
	if (function_table_make(&t, v, &e))
		return tool_fail(name, &e);
	by_total = l->total;
	if (t.n)
		qsort(t.rows, t.n, sizeof *t.rows, compare_rows);
	size_t n = l->n > 0 ? MIN((size_t)l->n, t.n) : t.n;
	if (l->json)
		put_rows_json(&out, &t, n, type, unit);
	else
		put_rows(&out, &t, n, whole ? whole : t.value, type, unit);
	int status = tool_print(&out);
	buf_free(&out);
	function_table_release(&t);
	return status;
}

int tool_top(int argc, char **argv)
{
	struct listing l = { .type = "", .output = "text", .n = 20 };
	struct opt flags[] = { LISTING_FLAGS(l) };
	int words, status;
	struct loaded in;
	struct err e;
	if (!tool_flags(tool_command("top"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json("top", l.output, &l.json))
		return TOOL_USAGE;
	if (!words) {
		fprintf(stderr, "pyrtool top: which file?\n");
		return TOOL_USAGE;
	}
	struct symbols *s = symbols_new();
	int rc = load(&in, s, argv + 1, words, &e);
	int type = rc ? rc : pick_type(&in, l.type, &e);
	if (type < 0) {
		status = tool_fail("top", &e);
	} else {
		const struct profile *p = &in.profiles[0];
		status = print_functions("top", in.sums[type], 0, &l, profile_str(p, p->sample_types[type].type_str),
					 profile_str(p, p->sample_types[type].unit_str));
	}
	loaded_release(&in);
	symbols_unref(s);
	return status;
}

int tool_diff(int argc, char **argv)
{
	struct listing l = { .type = "", .output = "text", .n = 20 };
	struct opt flags[] = { LISTING_FLAGS(l) };
	int words, base_type = -1, status = TOOL_FAILED;
	struct err e;
	if (!tool_flags(tool_command("diff"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json("diff", l.output, &l.json))
		return TOOL_USAGE;
	if (words != 2) {
		fprintf(stderr, "pyrtool diff: a base and a file are needed\n");
		return TOOL_USAGE;
	}
	struct symbols *s = symbols_new();
	struct loaded base, in = { 0 };
	int rc = load(&base, s, argv + 1, 1, &e);
	rc = rc ? rc : load(&in, s, argv + 2, 1, &e);
	int type = rc ? rc : pick_common_type(&base, &in, l.type, &base_type, &e);
	struct stackvec *diff = NULL;
	if (type >= 0) {
		struct stackvec *both[2] = { in.sums[type], base.sums[base_type] };
		diff = stackvec_sum(s, both, (double[2]){ 1, -1 }, 2, &e);
	}
	int64_t whole = 0;
	if (!diff || stackvec_total_int(base.sums[base_type], &whole, &e)) {
		status = tool_fail("diff", &e);
	} else {
		const struct profile *p = &in.profiles[0];
		status = print_functions("diff", diff, whole, &l, profile_str(p, p->sample_types[type].type_str),
					 profile_str(p, p->sample_types[type].unit_str));
	}
	stackvec_unref(diff);
	loaded_release(&in);
	loaded_release(&base);
	symbols_unref(s);
	return status;
}

int tool_folded(int argc, char **argv)
{
	const char *type_name = "";
	struct opt flags[] = { { "type", OPT_STRING, &type_name, "<name>", "Sample type; the profile's default if not given." } };
	int words, status;
	struct loaded in;
	struct err e;
	struct flame f;
	struct buf out = { 0 };
	if (!tool_flags(tool_command("folded"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!words) {
		fprintf(stderr, "pyrtool folded: which file?\n");
		return TOOL_USAGE;
	}
	struct symbols *s = symbols_new();
	int rc = load(&in, s, argv + 1, words, &e);
	int type = rc ? rc : pick_type(&in, type_name, &e);
	if (type < 0 || flame_fold(&f, in.sums[type], NULL, NULL, &e)) {
		status = tool_fail("folded", &e);
	} else {
		status = flame_folded(&f, NULL, &out, &e) ? tool_fail("folded", &e) : tool_print(&out);
		flame_release(&f);
	}
	buf_free(&out);
	loaded_release(&in);
	symbols_unref(s);
	return status;
}

static int write_profile(const struct profile *p, const char *path, struct err *e)
{
	struct buf out = { 0 };
	int rc = pprof_encode_gz(p, &out, e);
	FILE *f = rc ? NULL : fopen(path, "we");
	if (!rc && !f)
		rc = err_errno(e, errno, "cannot create %s", path);
	if (f && (fwrite(out.ptr, 1, out.len, f) != out.len || fflush(f)))
		rc = err_errno(e, errno, "cannot write %s", path);
	if (f)
		fclose(f);
	buf_free(&out);
	return rc;
}

static int merge_to(const struct loaded *in, const char *path, struct err *e)
{
	const struct profile *first = &in->profiles[0], **all = xcalloc(in->n, sizeof *all);
	struct stackvec_type *types = xcalloc(in->n_types, sizeof *types);
	struct profile out;
	for (size_t i = 0; i < in->n; i++)
		all[i] = &in->profiles[i];
	for (uint32_t i = 0; i < in->n_types; i++)
		types[i] = (struct stackvec_type){ profile_str(first, first->sample_types[i].type_str),
						   profile_str(first, first->sample_types[i].unit_str) };
	profile_init(&out, 0);
	int rc = stackvec_to_profile(in->sums, types, in->n_types, &out, e);
	rc = rc ? rc : pprof_merge_header(all, in->n, &out, e);
	rc = rc ? rc : write_profile(&out, path, e);
	profile_release(&out);
	free(types);
	free(all);
	return rc;
}

int tool_merge(int argc, char **argv)
{
	const char *path = "";
	struct opt flags[] = { { "o", OPT_STRING, &path, "<file>", "Where the merged profile goes." } };
	int words, status;
	struct loaded in;
	struct err e;
	for (int i = 1; i < argc; i++) /* -o as compilers have it */
		if (strcmp(argv[i], "-o") == 0) {
			static char long_form[] = "--o";
			argv[i] = long_form;
		}
	if (!tool_flags(tool_command("merge"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!words || !*path) {
		fprintf(stderr, "pyrtool merge: files and -o OUT are needed\n");
		return TOOL_USAGE;
	}
	struct symbols *s = symbols_new();
	int rc = load(&in, s, argv + 1, words, &e);
	rc = rc ? rc : merge_to(&in, path, &e);
	status = rc ? tool_fail("merge", &e) : TOOL_OK;
	loaded_release(&in);
	symbols_unref(s);
	return status;
}
