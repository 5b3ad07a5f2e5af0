/* SPDX-License-Identifier: Apache-2.0 */
/* Which bucket and which id the commands "bucket ..." are about. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cmd/tool_bucket.h"

static void bucket_print_warning(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "warning: %s\n", text);
}

static int bucket_load_tree(struct config_tree **ret, const struct bucket_flags *f, struct err *e)
{
	const struct config_how how = { .expand_env = f->expand_env };
	int given = (f->config_file != NULL) + (f->objstore_file != NULL) + (f->objstore != NULL);
	if (given != 1)
		return err_set(e, ERR_BAD_DATA, "which bucket? One of --config.file, --objstore.config-file and --objstore.config names it");
	if (f->objstore)
		return config_parse_how(ret, view_of(f->objstore), "--objstore.config", &how, e);
	return config_load_how(ret, f->config_file ? f->config_file : f->objstore_file, &how, e);
}

int tool_bucket_open(struct tool_bucket *b, const struct bucket_flags *f, struct err *e)
{
	struct config_tree *tree = NULL;
	struct config_ctx ctx = { .arena = &b->arena, .warn = bucket_print_warning };
	*b = (struct tool_bucket){ 0 };
	arena_init(&b->arena, CONFIG_MAX_BYTES);
	log_setup(LOG_LEVEL_WARN, LOG_FORMAT_LOGFMT);
	int rc = bucket_load_tree(&tree, f, e);
	if (rc)
		return rc;
	ctx.dir = f->objstore ? NULL : config_dirname(&b->arena, config_root(tree)->file);
	rc = bucket_config_decode(tree, !f->config_file, &ctx, &b->config, e);
	if (!rc && b->config.type == BUCKET_NONE)
		rc = err_set(e, ERR_BAD_DATA, "%s names no bucket: it has no object_storage that has an effect", f->config_file);
	if (!rc)
		rc = bucket_open(&b->bucket, &b->config, NULL, e);
	if (!rc)
		b->objects = bucket_objects(b->bucket);
	config_ctx_release(&ctx);
	config_free(tree);
	return rc;
}

void tool_bucket_close(struct tool_bucket *b)
{
	bucket_free(b->bucket);
	arena_free(&b->arena);
}

bool bucket_no_words(const char *name, int words)
{
	if (words)
		fprintf(stderr, "pyrtool %s: only flags are wanted\n", name);
	return !words;
}

/* ---- ids ---- */

/* Notes the first object of an id that is not known yet, and ends the list there. */
static int ids_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct bucket_ids *ids = arg;
	struct object_name name;
	(void)e;
	if (!object_name_parse(x->key, &name) || (ids->v.n && !strcmp(ids->v.v[ids->v.n - 1], name.id)))
		return 0;
	vec_push(&ids->v, xstrdup(name.id));
	return 1;
}

int bucket_ids_read(struct bucket_ids *ids, struct tool_bucket *b, struct err *e)
{
	char after[OBJECT_NAME_MAX] = "";
	*ids = (struct bucket_ids){ 0 };
	for (;;) {
		size_t n = ids->v.n;
		int rc = b->objects->list(b->objects, "", after, ids_found, ids, e);
		if (rc || ids->v.n == n)
			return rc;
		snprintf(after, sizeof after, "%s/y", ids->v.v[n]); /* behind all kinds of its objects */
	}
}

void bucket_ids_release(struct bucket_ids *ids)
{
	for (size_t i = 0; i < ids->v.n; i++)
		free(ids->v.v[i]);
	vec_free(&ids->v);
}

int bucket_choose_id(struct tool_bucket *b, const struct bucket_flags *f, char ret[SERVER_ID_MAX + 1], struct err *e)
{
	const char *given = f->id ? f->id : b->config.server_id;
	struct bucket_ids ids = { 0 };
	if (*given && !server_id_is_valid(view_of(given)))
		return err_set(e, ERR_BAD_DATA, "an id is 1 to %d characters of a-z, 0-9 and -, the first no -", SERVER_ID_MAX);
	snprintf(ret, SERVER_ID_MAX + 1, "%s", given);
	int rc = *given ? 0 : bucket_ids_read(&ids, b, e);
	if (!rc && !*given && ids.v.n != 1)
		rc = ids.v.n ? err_set(e, ERR_NOT_FOUND, "%zu servers have objects in the bucket: --id=ID says which one; pyrtool bucket ls lists them", ids.v.n)
			     : err_set(e, ERR_NOT_FOUND, "no server has objects in the bucket (%s)", b->config.shown);
	else if (!rc && !*given)
		snprintf(ret, SERVER_ID_MAX + 1, "%s", ids.v.v[0]);
	bucket_ids_release(&ids);
	return rc;
}
