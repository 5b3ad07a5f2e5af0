/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned profiles: kept beside the storage, independently of their source data. A pin is two files of one directory; their name ID is 16
 * random hexadecimal digits:
 *
 *	ID.pb.gz   the profile, gzipped profile.proto; written first
 *	ID.json    what it is: the query, its time, the type, when it was pinned. The pin is there when this file is
 *
 * Each file appears completely or not at all, and is synced before the pin is reported. Remains of a pin that was being made or
 * removed at a crash are deleted when the directory is opened. Number and bytes are bounded. Any thread may call; no lock is held over
 * the disk. */
#ifndef PYRRHA_WEB_PINS_H
#define PYRRHA_WEB_PINS_H

#include "base/buf.h"
#include "base/err.h"

#define PIN_ID_LEN 16
#define PIN_TEXT_MAX ((size_t)16 << 10) /* bytes of the query, and of the name */

struct pins;

struct pins_options {
	const char *dir;    /* made if it is not there; copied */
	size_t max;         /* pins */
	uint64_t max_bytes; /* of all their files */
};

/* The data of a pin. Borrowed. */
struct pin {
	struct view name;   /* what its maker called it; may be empty */
	struct view query, type;
	int64_t t_ms;       /* of the query */
	double seconds;     /* in which its values were measured */
	int64_t created_ms;
};

int pins_open(struct pins **ret, const struct pins_options *o, struct err *e) MUST_USE;
void pins_close(struct pins *p); /* NULL is fine */
/* Keeps a profile; it is durable when this returns 0. ERR_LIMIT: too many, or too many bytes: somebody has to remove some. */
int pins_add(struct pins *p, const struct pin *pin, struct view profile, char ret_id[PIN_ID_LEN + 1], struct err *e) MUST_USE;
/* ERR_NOT_FOUND: no pin has that name, which may be any bytes. */
int pins_remove(struct pins *p, struct view id, struct err *e) MUST_USE;
/* Returns owned: a descriptor of its profile. */
int pins_read(struct pins *p, struct view id, int *ret_fd, uint64_t *ret_size, struct err *e) MUST_USE;
/* Appends the pin as a JSON object. */
int pins_json(struct pins *p, struct view id, struct buf *out, struct err *e) MUST_USE;
/* Bytes of the descriptions of all pins. */
size_t pins_text(struct pins *p);
/* Appends {"max","maxBytes","bytes","pins":[...]}, the newest first. */
void pins_list(struct pins *p, struct buf *out);

#endif
