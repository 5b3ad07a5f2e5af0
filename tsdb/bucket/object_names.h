/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the objects of a server (docs/format/bucket.md): ID is its id, numbers are hexadecimal and of fixed width, so that names sort.
 *
 *	ID/e/EPOCH             who writes: one for each start of the server
 *	ID/g/EPOCH-NUMBER      generations: what a day consists of
 *	ID/d/DAY/EPOCH-SERIAL  files of parts, symbols; DAY in decimal, eight digits
 *	ID/x/EPOCH-SERIAL      deletes
 *
 * No name is used twice: each start takes a new epoch, and numbers only rise within one. */
#ifndef PYRRHA_TSDB_OBJECT_NAMES_H
#define PYRRHA_TSDB_OBJECT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/view.h"

#define OBJECT_NAME_MAX 96
#define SERVER_ID_MAX 40
#define OBJECT_EPOCH_MAX ((uint64_t)1 << 23) /* records are numbered from the epoch << 40 */
#define OBJECT_EPOCH_GAP 1024 /* epochs are taken one after the other: one that is farther behind the one before was taken by no server */
#define OBJECT_SERIAL_MAX ((uint64_t)1 << 40)

/* The place of an object in the order of its server: an epoch, and a number that rises within it. */
struct object_stamp {
	uint64_t epoch, serial;
};

static inline int object_stamp_cmp(struct object_stamp a, struct object_stamp b)
{
	if (a.epoch != b.epoch)
		return a.epoch < b.epoch ? -1 : 1;
	return (a.serial > b.serial) - (a.serial < b.serial);
}

/* Whether it is 1 to SERVER_ID_MAX characters of [a-z0-9-], the first a letter or a digit. */
bool server_id_is_valid(struct view id);

void object_name_epoch(char ret[OBJECT_NAME_MAX], const char *id, uint64_t epoch);
void object_name_generation(char ret[OBJECT_NAME_MAX], const char *id, struct object_stamp s);
void object_name_data(char ret[OBJECT_NAME_MAX], const char *id, uint32_t day, struct object_stamp s);
void object_name_delete(char ret[OBJECT_NAME_MAX], const char *id, struct object_stamp s);
/* What all names of that kind (e, g, d or x) begin with. */
void object_name_prefix(char ret[OBJECT_NAME_MAX], const char *id, char kind);

/* The inverse; false: it is no such name. kind: as above; day: only of d. */
struct object_name {
	char id[SERVER_ID_MAX + 1];
	char kind;
	uint32_t day;
	struct object_stamp stamp; /* of an epoch object: its epoch, serial 0 */
};
bool object_name_parse(const char *name, struct object_name *ret);

#endif
