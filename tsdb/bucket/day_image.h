/* SPDX-License-Identifier: Apache-2.0 */
/* A day as it is now, ready to go up: its files, linked into a directory so that they stay while the sealer works on, and the generation
 * that names them. Runs on the uploader's thread; holds seal_lock only while it links. */
#ifndef PYRRHA_TSDB_DAY_IMAGE_H
#define PYRRHA_TSDB_DAY_IMAGE_H

#include "tsdb/bucket/catalogue.h"
#include "tsdb/part/part.h"
#include "tsdb/version/db.h"

struct day_image {
	struct generation g;       /* complete but for its own stamp and the objects of parts that are not up */
	char *dir;                 /* the links */
	char identity[CATALOGUE_IDENTITY_MAX];
	struct pstate *s;          /* of which it was made; a reference */
	VEC(struct part *) parts;  /* in the order of g.parts; of s */
	VEC(struct buf *) bytes;   /* what views of g point into */
	struct partition *series;  /* whose labels g.series borrows */
	VEC(struct partition_file) files; /* those of the links */
	struct buf symbols;        /* of a finished day: the object with its dictionary; else empty */
	struct labels *external;   /* the labels that g.external points into; owned, may be NULL */
};

/* Makes one of a day that has parts. dir: where the links go; it is emptied before, and removed by day_image_release. newest: the storage's
 * notes are part of it. deletes: of the newest delete object that was applied before the call. ERR_NOT_FOUND: the day has no parts; ERR_BUSY: it changed meanwhile. */
int day_image_take(struct tsdb *db, uint32_t day, const char *id, const char *dir, bool newest, struct object_stamp deletes,
		   struct day_image *ret, struct err *e) MUST_USE;
void day_image_release(struct day_image *m);
/* Fills in the covers of a part of an hour, and its first and last profiles: those of an older generation (NULL: there is none), where it has both of this part; else
 * they are read, series by series. */
void day_image_add_covers(struct day_image *m, size_t part, const struct generation_part *old);
/* The path of a part's file. Returns owned. */
char *day_image_file(const struct day_image *m, size_t part);
/* Whether the day is over and all that came of it is in parts. */
bool day_is_finished(const struct tsdb *db, const struct pstate *s);
/* How a day compares with its newest generation. */
struct day_up {
	bool known;            /* the day has a generation, and that was made of this database */
	bool parts, facts, names, finished; /* the generation has the parts, deletes, late names that the day has now; the day was finished when it was made */
	bool rows;             /* the generation has all rows that the day's parts have now, perhaps in parts that were rewritten since */
	struct object_stamp deletes; /* as in the generation */
	int64_t written_ms;    /* when the generation was made */
	uint64_t facts_hash, names_hash; /* of the day now */
};
struct day_up day_look_up(struct bucket_catalogue *c, const struct pstate *s);
/* Whether a day's generation has the rows of a part of an hour. */
bool day_has_rows(const struct catalogue_day *d, const struct part *p);

#endif
