/* SPDX-License-Identifier: Apache-2.0 */
/* Parts whose files are damaged or missing, and of which a bucket has a copy:
 *
 *	the file cannot be read ──► a stand-in with the copy's header and index ──► the copy is in the place of the file (part_put_back)
 *	                                                                       └─► there is none after all: part_salvage
 *
 * The stand-in has the number, the records and the series of the part: replay, rollups and deletes treat the part as if it were whole, and reading
 * its values reports damage. tsdb/transfer/mend.c fetches the copies. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/part/part_private.h"
#include "tsdb/part/salvage.h"

static struct part *stand_in_new(struct partition_db *d, uint32_t window, uint32_t number)
{
	struct part *p = NEW(struct part);
	atomic_init(&p->refs, 1);
	p->db = partition_db_ref(d);
	p->level = LEVEL_HOUR;
	p->window = window;
	p->number = p->origin = number;
	part_know(p);
	return p;
}

/* A file that is not there is taken out of RocksDB's list: of a database that lists one no snapshot can be made. */
static void stand_in_forget_file(struct part *p)
{
	if (partition_db_read_only(p->db) || partition_db_enter(p->db, NULL))
		return;
	AUTOFREE char *file = part_file(p);
	if (file && access(file, F_OK) && errno == ENOENT)
		part_remove_file(p);
	partition_db_leave(p->db);
}

struct part *part_stand_in(struct partition_db *d, uint32_t window, uint32_t number, struct view header, struct view index)
{
	struct part *p = stand_in_new(d, window, number);
	if (part_parse_header(p, header, NULL) || part_parse_index(p, index, INDEX_VERSION, NULL)) {
		p->series.n = p->aggregates.n = p->sums.n = 0;
		p->first_record = p->last_record = p->samples = 0;
		p->origin = number;
	}
	p->lost = MAX(p->lost, UINT64_C(1)); /* so that answers about its hour say that something is missing */
	p->damaged = true;
	atomic_store(&p->awaits, true);
	stand_in_forget_file(p);
	return p;
}

int part_put_back(const struct part *old, const char *file, struct part **ret, struct err *e)
{
	struct partition_db *d = old->db;
	struct stat st;
	if (partition_db_read_only(d))
		return err_set(e, ERR_IO, "the partition %s can only be read", d->dir);
	int rc = partition_db_enter(d, e);
	if (rc)
		return rc;
	struct part *p = stand_in_new(d, old->window, old->number);
	p->returns = old->returns + 1;
	p->bytes = stat(file, &st) ? 0 : (uint64_t)st.st_size;
	part_forget_file(p);
	rc = part_ingest(d, p->level, p->window, p->number, file, e);
	partition_db_leave(d);
	if (rc)
		atomic_store(&d->read_only, true); /* RocksDB may take no more writes now, and does not say */
	if (!rc)
		rc = part_read_head(p, e);
	if (rc) {
		part_unref(p);
		return rc;
	}
	AUTOFREE char *aside = part_aside(p);
	unlink(aside);
	*ret = p;
	unlink(file); /* moved: a leftover link at most */
	return 0;
}

/* A file that was set aside when the list of files was rebuilt. */
struct stand_in_search {
	const struct part *p;
	char *found;
};

static int stand_in_look(void *arg, const char *name, struct err *e)
{
	struct stand_in_search *s = arg;
	struct part x = { 0 };
	(void)e;
	AUTOFREE char *file = xasprintf("%s/%s", s->p->db->aside, name);
	if (!s->found && view_ends(view_of(name), VIEW(".sst")) && salvage_identify(file, &x) && x.level == s->p->level && x.window == s->p->window &&
	    x.number == s->p->number)
		s->found = TAKE_PTR(file);
	return 0;
}

int part_salvage(const struct part *p, struct part **ret, struct err *e)
{
	struct partition_db *d = p->db;
	int rc = partition_db_enter(d, e);
	if (rc)
		return rc;
	struct stand_in_search s = { p, part_file(p) };
	partition_db_leave(d);
	if (!s.found && d->aside)
		IGNORE(files_each(d->aside, stand_in_look, &s, NULL));
	rc = salvage_part(d, s.found ? s.found : "", p, ret, e);
	if (!rc)
		LOG_ERROR("msg", "a sealed part is damaged, here and in the bucket: its readable values were rewritten", "file", s.found ? s.found : "",
			  "kept_in", d->aside ? d->aside : "", "window", LOG_NUM(p->window), "part", LOG_NUM(p->number), "lost_values",
			  LOG_NUM((*ret)->lost));
	free(s.found);
	return rc;
}
