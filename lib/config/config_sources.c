/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_sources.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/map.h"
#include "config/config.h"

#define UNREADABLE 1

static uint64_t hash_text(const struct view *text)
{
	return text ? hash_view(*text) : UNREADABLE;
}

static uint64_t hash_names(const glob_t *found)
{
	uint64_t h = found->gl_pathc;
	for (size_t i = 0; i < found->gl_pathc; i++)
		h = hash_bytes_seed(found->gl_pathv[i], strlen(found->gl_pathv[i]), h);
	return h;
}

void config_sources_note(struct config_sources *s, const char *path, const struct view *text)
{
	vec_push(&s->v, (struct config_source){ xstrdup(path), false, hash_text(text) });
}

void config_sources_note_pattern(struct config_sources *s, const char *pattern, const glob_t *found)
{
	vec_push(&s->v, (struct config_source){ xstrdup(pattern), true, hash_names(found) });
}

void config_sources_free(struct config_sources *s)
{
	for (size_t i = 0; i < s->v.n; i++)
		free(s->v.v[i].path);
	vec_free(&s->v);
}

void config_sources_copy(struct config_sources *to, const struct config_sources *from)
{
	config_sources_free(to);
	for (size_t i = 0; i < from->v.n; i++)
		vec_push(&to->v, (struct config_source){ xstrdup(from->v.v[i].path), from->v.v[i].pattern, from->v.v[i].hash });
}

static uint64_t hash_pattern_now(const char *pattern)
{
	glob_t found = { 0 };
	glob(pattern, 0, NULL, &found);
	uint64_t h = hash_names(&found);
	globfree(&found);
	return h;
}

static uint64_t hash_file_now(const char *path)
{
	struct buf text = { .max = CONFIG_MAX_BYTES };
	struct err e;
	int rc = buf_read_file(&text, path, &e);
	struct view v = buf_view(&text);
	uint64_t h = hash_text(rc ? NULL : &v);
	buf_free(&text);
	return h;
}

uint64_t config_sources_were(const struct config_sources *s)
{
	uint64_t h = 0;
	for (size_t i = 0; i < s->v.n; i++)
		h = hash_bytes_seed(&s->v.v[i].hash, sizeof s->v.v[i].hash, h);
	return h;
}

uint64_t config_sources_are(const struct config_sources *s)
{
	uint64_t h = 0;
	for (size_t i = 0; i < s->v.n; i++) {
		uint64_t now = s->v.v[i].pattern ? hash_pattern_now(s->v.v[i].path) : hash_file_now(s->v.v[i].path);
		h = hash_bytes_seed(&now, sizeof now, h);
	}
	return h;
}

void config_sources_watch(const struct config_sources *s, struct path_watch *w)
{
	for (size_t i = 0; i < s->v.n; i++)
		path_watch_add(w, s->v.v[i].path);
}
