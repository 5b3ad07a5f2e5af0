/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part/damage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/part/part_private.h"

bool damage_is(const struct err *e)
{
	return e->code == ERR_CORRUPT || e->code == ERR_NOT_FOUND ||
	       (e->code == ERR_IO && (strstr(e->msg, "No such file") || strstr(e->msg, "Input/output error")));
}

bool damage_is_none(const struct err *e)
{
	return rocks_of_the_place(e);
}

/* True the first time. */
static bool note(struct part *p, uint32_t series) REQUIRES(p->db->parts_lock)
{
	uint64_t h = hash_u64(series);
	uint32_t id;
	return !MAP_FIND_OR_ADD(&p->bad, h, id, series, id == series);
}

void damage_count(struct part *p, uint32_t series, const struct err *e)
{
	mutex_lock(&p->db->parts_lock);
	bool first = !p->n_bad, is_new = note(p, series);
	p->n_bad += is_new;
	mutex_unlock(&p->db->parts_lock);
	if (is_new && p->db->count_lost)
		atomic_fetch_add(p->db->count_lost, 1);
	if (is_new && first)
		LOG_ERROR("msg", "a value of a sealed part is damaged: its series' data in that part is lost; queries that need it carry a warning",
			  "dir", p->db->dir, "level", LOG_NUM(p->level), "window", LOG_NUM(p->window), "part", LOG_NUM(p->number), "series",
			  LOG_NUM(series), "err", e->msg);
}

bool damage_is_lack(const struct part *p, const struct err *e)
{
	return p->lack && e->code == ERR_UNAVAILABLE;
}

int damage_pass(const struct source_limits *lim, struct part *p, uint32_t series, const struct err *e)
{
	if (damage_is_lack(p, e))
		return 0;
	if (!damage_is(e))
		return -(int)e->code;
	damage_count(p, series, e);
	if (!lim || !lim->damage)
		return -(int)e->code;
	source_damage_add(lim->damage, part_start_ms(p), part_end_ms(p));
	return 0;
}

bool part_has_damage(struct part *p)
{
	mutex_lock(&p->db->parts_lock);
	bool bad = p->n_bad;
	mutex_unlock(&p->db->parts_lock);
	return bad;
}

char *part_file(const struct part *p)
{
	char key[KEY_LEN], *file = NULL;
	part_make_key(key, p->level, p->window, p->number, PART_HEADER, 0, 0);
	const rocksdb_livefiles_t *files = rocksdb_livefiles(p->db->db);
	for (int i = 0; i < rocksdb_livefiles_count(files) && !file; i++) {
		size_t len;
		const char *first = rocksdb_livefiles_smallestkey(files, i, &len);
		if (len == KEY_LEN && !memcmp(first, key, 9)) /* level, window, number */
			file = xasprintf("%s%s", p->db->dir, rocksdb_livefiles_name(files, i));
	}
	rocksdb_livefiles_destroy(files);
	if (!file && access((file = part_aside(p)), F_OK)) {
		free(file);
		file = NULL;
	}
	return file;
}

int damage_keep_file(struct partition_db *d, const char *file, struct err *e)
{
	if (access(file, F_OK) && errno == ENOENT)
		return 0;
	if (!d->aside)
		d->aside = xasprintf("%s" PARTITION_DB_BAD "%lld", d->dir, (long long)clock_now_ms());
	const char *slash = strrchr(file, '/');
	AUTOFREE char *copy = xasprintf("%s/%s", d->aside, slash ? slash + 1 : file);
	if (mkdir(d->aside, 0750) && errno != EEXIST)
		return err_errno(e, errno, "cannot make %s", d->aside);
	if (link(file, copy) && errno != EEXIST)
		return err_errno(e, errno, "cannot keep %s", copy);
	return 0;
}

int damage_keep(struct part *p, struct err *e)
{
	mutex_lock(&p->db->parts_lock);
	uint32_t bad = p->n_bad;
	mutex_unlock(&p->db->parts_lock);
	if (!bad)
		return 0;
	int rc = partition_db_enter(p->db, e);
	if (rc)
		return rc;
	AUTOFREE char *file = part_file(p);
	rc = file ? damage_keep_file(p->db, file, e) : 0;
	partition_db_leave(p->db);
	if (!rc && file)
		LOG_ERROR("msg", "a sealed part with damaged values is replaced by one without them, its file is kept aside", "file", file,
			  "kept_in", p->db->aside ? p->db->aside : "", "series", LOG_NUM(bad));
	return rc;
}
