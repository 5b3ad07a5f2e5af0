/* SPDX-License-Identifier: Apache-2.0 */
/* file_sd_configs: lists of target groups in files, read when something happens in the folders that lead to them, and
 * every refresh_interval. A file that is not good keeps what it had; one that is gone takes its targets with it. Each
 * file counts for itself: a bad one does not hold up the others. */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/path_watch.h"
#include "base/thread.h"
#include "discovery/metrics.h"
#include "discovery/target_groups.h"

#define MAX_FILES ((size_t)10000)
#define SETTLE_MS 50 /* what is written in several steps is mostly complete then */

struct file_sd_config {
	struct config_strings files;
	int64_t refresh_ms;
};

static bool is_yaml(const char *path)
{
	struct view v = view_of(path);
	return view_ends(v, VIEW(".yml")) || view_ends(v, VIEW(".yaml")) || view_ends(v, VIEW(".YML")) || view_ends(v, VIEW(".YAML"));
}

static bool is_json(const char *path)
{
	return view_ends(view_of(path), VIEW(".json")) || view_ends(view_of(path), VIEW(".JSON"));
}

static bool pattern_is_good(const char *p)
{
	const char *star = strchr(p, '*');
	return (is_yaml(p) || is_json(p)) && (!star || !strchr(star, '/'));
}

/* Relative ones are of the configuration's folder. "./x" is x, as there. */
static const char *resolve(struct config_ctx *c, const char *path)
{
	while (strncmp(path, "./", 2) == 0)
		path += 2 + strspn(path + 2, "/");
	if (path[0] == '/' || !c->dir || strcmp(c->dir, ".") == 0)
		return path;
	return arena_printf(c->arena, "%s/%s", c->dir, path);
}

static int check(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct file_sd_config *f = at;
	const struct config_node *list = config_get(n, "files");
	if (!f->files.n)
		return config_error(c, list ? list : n, e, "files: at least one is wanted");
	for (size_t i = 0; i < f->files.n; i++) {
		if (!pattern_is_good(f->files.v[i]))
			return config_error(c, list, e, "\"%s\" is not the name of a .json, .yml or .yaml file, with * in its last "
					    "part only", f->files.v[i]);
		f->files.v[i] = resolve(c, f->files.v[i]);
	}
	return f->refresh_ms < 100 ? config_error(c, n, e, "refresh_interval is under 100ms") : 0;
}

static const struct config_field rows[] = {
	{ "files", CONFIG_STRINGS, offsetof(struct file_sd_config, files), NULL, CONFIG_REQUIRED },
	{ "refresh_interval", CONFIG_DURATION, offsetof(struct file_sd_config, refresh_ms), "5m" },
};
static const struct config_table table = CONFIG_TABLE(struct file_sd_config, rows, check);

static int decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e)
{
	*ret = arena_calloc(c->arena, 1, sizeof(struct file_sd_config));
	return config_decode(c, &table, n, *ret, e);
}

static bool same(const void *a, const void *b)
{
	return config_same(&table, a, b);
}

/* A file as it was last read. */
struct file {
	char *path;
	size_t groups;   /* the groups of its last valid content */
	struct stat is;  /* st_ino 0: to be read, whatever it is */
	bool seen;       /* in this scan */
	char *problem;   /* NULL = it is good */
};

struct file_sd {
	struct discovery_provider provider;
	const struct file_sd_config *config;
	struct discovery_emit emit;
	struct path_watch *watch;
	atomic_bool stop;
	pthread_t thread;
	VEC(struct file) files;
	struct map index; /* hash of path -> place in files */
	char *problem; /* of the last scan beside those of files */
};

static void index_files(struct file_sd *f)
{
	map_clear(&f->index);
	for (size_t i = 0; i < f->files.n; i++)
		map_insert(&f->index, hash_view(view_of(f->files.v[i].path)), (uint32_t)i);
}

/* Valid until the next one; NULL: it is new, and there are too many. */
static struct file *find_file(struct file_sd *f, const char *path)
{
	uint64_t hash = hash_view(view_of(path));
	uint32_t id;
	for (size_t at = map_start(&f->index, hash); map_probe(&f->index, hash, &at, &id);)
		if (strcmp(f->files.v[id].path, path) == 0)
			return &f->files.v[id];
	if (f->files.n >= MAX_FILES)
		return NULL;
	map_insert(&f->index, hash, (uint32_t)f->files.n);
	struct file *n = vec_add(&f->files);
	n->path = xstrdup(path);
	return n;
}

static bool unchanged(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* The groups of the file, and the deletion of its former groups, in one step. */
static void tell(const struct file_sd *f, struct file *file, const struct target_groups *list)
{
	size_t n = list->v.n, n_gone = file->groups > n ? file->groups - n : 0;
	struct discovery_group *gone AUTOFREE = xcalloc(n_gone, sizeof *gone);
	VEC(const struct discovery_group *) v = { 0 };
	for (size_t i = 0; i < n; i++)
		vec_push(&v, list->v.v[i]);
	for (size_t i = 0; i < n_gone; i++) {
		gone[i].source = xasprintf("%s:%zu", file->path, n + i);
		vec_push(&v, &gone[i]);
	}
	discovery_emit_groups(&f->emit, v.v, v.n);
	for (size_t i = 0; i < n_gone; i++)
		free((char *)(uintptr_t)gone[i].source);
	vec_free(&v);
	file->groups = n;
}

static int read_list(const char *path, struct target_groups *ret, struct err *e)
{
	const struct target_origin origin = { path, "__meta_filepath", path };
	struct buf text = { .max = is_yaml(path) ? CONFIG_MAX_BYTES : TARGET_GROUPS_MAX_BYTES };
	int rc = buf_read_file(&text, path, e);
	if (!rc)
		rc = (is_yaml(path) ? target_groups_yaml : target_groups_json)(buf_view(&text), &origin, ret, e);
	buf_free(&text);
	return rc;
}

static void read_file(const struct file_sd *f, struct file *file)
{
	struct target_groups list = { 0 };
	struct err e = { 0 };
	struct stat st = { 0 };
	if (stat(file->path, &st) == 0) {
		if (file->is.st_ino && unchanged(&file->is, &st))
			return;
		file->is = st; /* of before it is read: what changes meanwhile is read again */
	}
	free(file->problem);
	file->problem = NULL;
	if (read_list(file->path, &list, &e)) {
		metric_inc(&discovery_table[SD_FILE_ERRORS]);
		file->problem = xstrdup(e.msg);
		return;
	}
	tell(f, file, &list);
	target_groups_release(&list);
	metric_set(&discovery_table[SD_FILE_MTIME], (double)st.st_mtim.tv_sec, file->path);
}

/* A name without * that glob does not find: was it deleted, or is it unreadable? */
static void look_closer(struct file_sd *f, const char *path)
{
	struct stat st;
	if (strchr(path, '*') || stat(path, &st) == 0 || errno == ENOENT || errno == ENOTDIR)
		return;
	int why = errno;
	struct file *file = find_file(f, path);
	if (!file)
		return;
	file->seen = true;
	file->is.st_ino = 0;
	free(file->problem);
	file->problem = xasprintf("%s: %s", path, strerror(why));
}

static void keep_all_under(struct file_sd *f, const char *pattern)
{
	size_t folder = (size_t)(strrchr(pattern, '/') - pattern);
	for (size_t i = 0; i < f->files.n; i++)
		if (strncmp(f->files.v[i].path, pattern, folder + 1) == 0)
			f->files.v[i].seen = true;
}

static void note_problem(struct file_sd *f, const char *pattern, const char *what)
{
	free(f->problem);
	f->problem = xasprintf("%s: %s", pattern, what);
}

/* A folder that is not there is an empty one; one that cannot be read is not. */
static int is_unreadable(const char *folder, int why)
{
	return why != ENOENT && why != ENOTDIR;
}

/* GLOB_PERIOD: names that begin with a dot are found, as there. */
static void scan_pattern(struct file_sd *f, const char *pattern)
{
	glob_t found = { 0 };
	int rc = glob(pattern, GLOB_PERIOD, is_unreadable, &found);
	if (rc == GLOB_NOMATCH) {
		look_closer(f, pattern);
	} else if (rc) {
		note_problem(f, pattern, "the folder cannot be read");
		if (strchr(pattern, '/'))
			keep_all_under(f, pattern);
	}
	for (size_t i = 0; !rc && i < found.gl_pathc; i++) {
		struct file *file = find_file(f, found.gl_pathv[i]);
		if (!file) {
			note_problem(f, found.gl_pathv[i], "not read: there are over 10000 files");
			continue;
		}
		if (!file->seen)
			read_file(f, file);
		file->seen = true;
	}
	globfree(&found);
}

static void file_release(struct file *file)
{
	free(file->problem);
	free(file->path);
}

static void drop_vanished(struct file_sd *f)
{
	static const struct target_groups nothing;
	size_t kept = 0;
	for (size_t i = 0; i < f->files.n; i++) {
		struct file *file = &f->files.v[i];
		if (file->seen) {
			f->files.v[kept++] = *file;
			continue;
		}
		tell(f, file, &nothing);
		metric_set(&discovery_table[SD_FILE_MTIME], 0, file->path);
		file_release(file);
	}
	f->files.n = kept;
	index_files(f);
}

static void tell_problem(const struct file_sd *f)
{
	struct err e = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < f->files.n; i++)
		if (f->files.v[i].problem && n++ == 0)
			err_set(&e, ERR_BAD_DATA, "%s", f->files.v[i].problem);
	if (f->problem && n++ == 0)
		err_set(&e, ERR_BAD_DATA, "%s", f->problem);
	if (n > 1) {
		char *first AUTOFREE = xstrdup(e.msg);
		err_set(&e, ERR_BAD_DATA, "%s (and %zu more)", first, n - 1);
	}
	f->emit.problem(f->emit.arg, n ? &e : NULL);
}

static void scan(struct file_sd *f, bool all)
{
	int64_t begin = clock_mono_ns();
	free(f->problem);
	f->problem = NULL;
	for (size_t i = 0; i < f->files.n; i++) {
		f->files.v[i].seen = false;
		if (all)
			f->files.v[i].is.st_ino = 0;
	}
	for (size_t i = 0; i < f->config->files.n && !atomic_load(&f->stop); i++)
		scan_pattern(f, f->config->files.v[i]);
	if (atomic_load(&f->stop))
		return;
	drop_vanished(f);
	tell_problem(f);
	f->emit.ready(f->emit.arg);
	metric_add(&discovery_table[SD_REFRESHES], 1, "file");
	metric_observe(&discovery_table[SD_REFRESH_SECONDS], (double)(clock_mono_ns() - begin) / 1e9, "file");
}

static void *file_main(void *arg)
{
	struct file_sd *f = arg;
	int64_t all_ms = 0; /* monotonic: time of the next complete reading */
	while (!atomic_load(&f->stop)) {
		int64_t now = clock_mono_ms();
		bool all = now >= all_ms;
		if (all)
			all_ms = now + f->config->refresh_ms;
		path_watch_reset(f->watch);
		for (size_t i = 0; i < f->config->files.n; i++)
			path_watch_add(f->watch, f->config->files.v[i]);
		scan(f, all);
		if (path_watch_wait(f->watch, MAX(all_ms - clock_mono_ms(), 0)) == PATH_WATCH_CHANGED)
			path_watch_pause(f->watch, SETTLE_MS);
	}
	return NULL;
}

static void file_sd_free(struct file_sd *f)
{
	for (size_t i = 0; i < f->files.n; i++)
		file_release(&f->files.v[i]);
	vec_free(&f->files);
	map_free(&f->index);
	path_watch_free(f->watch);
	free(f->problem);
	free(f);
}

extern const struct discovery_ops sd_file;

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	struct file_sd *f = NEW(struct file_sd);
	f->provider.ops = &sd_file;
	f->config = config;
	f->emit = *emit;
	f->watch = path_watch_new();
	int rc = thread_start(&f->thread, "sd-file", file_main, f, e);
	if (rc) {
		file_sd_free(f);
		return rc;
	}
	*ret = &f->provider;
	return 0;
}

static void cancel(struct discovery_provider *p)
{
	struct file_sd *f = (struct file_sd *)p;
	atomic_store(&f->stop, true);
	path_watch_wake(f->watch);
}

static void stop(struct discovery_provider *p)
{
	struct file_sd *f = (struct file_sd *)p;
	cancel(p);
	pthread_join(f->thread, NULL);
	file_sd_free(f);
}

static void name(const void *config, struct buf *out)
{
	const struct file_sd_config *f = config;
	for (size_t i = 0; i < f->files.n; i++)
		buf_printf(out, "%s%s", i ? ", " : "", f->files.v[i]);
}

const struct discovery_ops sd_file = { "file_sd_configs", decode, same, start, stop, .name = name, .cancel = cancel };
