/* SPDX-License-Identifier: Apache-2.0 */
/* Who this server is to its bucket: an id, and an epoch that it takes at each start.
 *
 * An epoch is an object that is put only if it is not there, so one process gets it. Whoever takes epoch N then puts a fence under the
 * next number of the generations of epoch N - 1: a writer of that epoch that still runs cannot put another generation, because generations
 * of an epoch are numbered without gaps. So what the newer one reads afterwards is all there will ever be of older epochs.
 *
 * The directory keeps, in bucket/server, which epoch it took last, and the number of the last generation that it may have put in it. If the
 * bucket has a newer epoch, or a generation of that epoch with a higher number, another process went on as this server, or this directory is an old
 * copy: what it has that the bucket lacks would meet the other's numbers. Such a directory takes a new id and goes on under that; so does
 * one that has data and finds that its configured id has been used. Only an empty directory goes on as a known server.
 *
 * All functions but those that say otherwise are for one thread at a time: the opening thread, then the uploader. */
#ifndef PYRRHA_TSDB_BUCKET_SERVER_H
#define PYRRHA_TSDB_BUCKET_SERVER_H

#include <stdatomic.h>

#include "base/lock.h"
#include "model/objects.h"
#include "tsdb/bucket/object_names.h"

enum bucket_state {
	BUCKET_AWAY = 0,  /* no epoch was taken yet: the bucket did not answer since the start */
	BUCKET_WRITES,    /* it has an epoch */
	BUCKET_FENCED     /* another process has taken a newer one: nothing is written any more */
};

struct bucket_server {
	struct objects *objects;      /* borrowed */
	char *dir;                    /* of its files: the storage's directory, and /bucket */
	char wanted[SERVER_ID_MAX + 1]; /* the configured id; "" = none is configured: the directory keeps its own */
	bool was_empty;               /* at the start the directory had no data: it may go on as a known server */
	struct mutex lock;            /* of what follows; a leaf */
	enum bucket_state state;
	char id[SERVER_ID_MAX + 1];   /* "" = not known yet */
	uint64_t epoch;               /* taken, 0 = none yet */
	uint64_t base;                /* the directory's first epoch: its records are numbered from base << 40; 0 = from 1 */
	bool returning;               /* an empty directory of a known server: what the bucket has of it is to be fetched first */
	char why[256];                /* it is fenced, or has another id than configured; "" = neither */
	struct object_stamp fence;    /* of the epoch before, put or found at the start; 0, 0 = there is none. A list of generations that lacks it is too old */
	uint64_t next_generation, next_serial;
	_Atomic uint64_t foreign_epoch; /* an epoch in the bucket that no server can have reached, and that is passed over; 0 = none */
	uint64_t noted;               /* the highest number of a generation of this epoch that may be in the bucket, as bucket/server says */
};

/* path: the storage's directory. wanted: the configured id, or "". Reads bucket/server, if it is there. was_empty: the storage has no data. */
int bucket_server_init(struct bucket_server *s, struct objects *o, const char *path, const char *wanted, bool was_empty, struct err *e) MUST_USE;
void bucket_server_release(struct bucket_server *s);
/* Takes an epoch, and fences the ones before. 0: state is BUCKET_WRITES. ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_DENIED and others of the
 * bucket: nothing was taken; try again. */
int bucket_server_start(struct bucket_server *s, struct err *e) MUST_USE;
/* The storage takes rows, although the bucket did not answer. An empty directory that was about to return as a known server gives up its id: these
 * rows would meet what the bucket has. It takes a new one when the bucket answers. */
int bucket_server_begin_alone(struct bucket_server *s, struct err *e) MUST_USE;
/* Notes that a generation with this number of the epoch may be in the bucket: before it is put. */
int bucket_server_note_generation(struct bucket_server *s, uint64_t number, struct err *e) MUST_USE;
/* The bucket's share of a return is done: the next start finds an ordinary directory. */
int bucket_server_returned(struct bucket_server *s, struct err *e) MUST_USE;
/* Looks whether a newer epoch exists. ERR_CONFLICT: it does, the state is BUCKET_FENCED now. *ret_lost: the object of the own epoch is not there any
 * more, as somebody emptied the bucket; it was put again. NULL: that is not looked at. */
int bucket_server_check(struct bucket_server *s, bool *ret_lost, struct err *e) MUST_USE;
/* A put of a generation met another object under its name. */
void bucket_server_fenced(struct bucket_server *s, const char *why);

/* From any thread. */
enum bucket_state bucket_server_state(struct bucket_server *s, char ret_id[SERVER_ID_MAX + 1], char *ret_why, size_t why_len);
/* The stamp of the next object of data or deletes. Any thread. */
struct object_stamp bucket_server_stamp(struct bucket_server *s);

#endif
