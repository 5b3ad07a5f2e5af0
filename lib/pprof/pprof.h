/* SPDX-License-Identifier: Apache-2.0 */
/* The codec of pprof's profile.proto: bytes to the flat model and back. Formats older than profile.proto, and folded text, are decoded
 * as well (legacy.c, folded.c). No I/O, no state: any thread may call it.
 *
 * Input is hostile. Every size in the input has a limit, every index is checked, and the error says
 * what is wrong and at which byte of the decompressed message. Decoding loses nothing that profile.proto means:
 * drop_frames are not applied (pprof_drop_frames does that), absent units stay absent (profile_label_unit says what they mean). A label that is
 * neither a string nor a number is the number 0. */
#ifndef PYRRHA_PPROF_PPROF_H
#define PYRRHA_PPROF_PPROF_H

#include "base/buf.h"
#include "base/err.h"
#include "model/profile.h"

/* The unit of the numbers in folded text. */
struct pprof_folded {
	const char *type, *unit; /* NULL: samples, count */
};

/* A limit of 0 is the default's. */
struct pprof_limits {
	size_t max_compressed;     /* bytes as they came */
	size_t max_bytes;          /* bytes after decompression */
	uint32_t max_samples;
	uint32_t max_depth;        /* number of locations of one sample */
	uint32_t max_labels;       /* of one sample */
	uint32_t max_sample_types;
	uint32_t max_strings;
	uint32_t max_locations;    /* and as many functions; lines in all: eight times that */
	/* Called between the stages of decoding; an error ends it. NULL: not needed. */
	int (*go_on)(void *arg, struct err *e);
	void *go_on_arg;
	int64_t asked_ns; /* how long was measured: the duration of CPU profiles of gperftools and folded text, which say none */
	/* Not NULL: folded text is expected, so it may also be empty, or have single frames. Borrowed. */
	const struct pprof_folded *folded;
};

extern const struct pprof_limits pprof_default_limits;

/* Decodes profile.proto, one of the other formats that google/pprof reads, or folded text (docs/configuration.md has the list),
 * gzipped (one member or several) or raw. out is initialised and is reset first; lim NULL = the defaults. The result owns all it needs
 * (bytes may go). On failure out is empty. ERR_LIMIT for a limit or the arena's cap, ERR_BAD_DATA for the rest. */
int pprof_decode(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e) MUST_USE;
/* As pprof_decode, of raw bytes that the profile borrows: they must outlive it. */
int pprof_decode_raw(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e) MUST_USE;
/* Applies the profile's own drop_frames and keep_frames, as google/pprof does. In each stack, seen from the root, the first frame
 * whose simplified name matches drop_frames and not keep_frames is removed, with all frames below it. Frames before the first kept
 * frame stay. Importers call it after decoding. The expressions come from the target: ERR_BAD_DATA if one is malformed, ERR_LIMIT if
 * it is too long or costs too much. */
int pprof_drop_frames(struct profile *p, struct err *e) MUST_USE;
bool pprof_is_gzip(const void *bytes, size_t n);
/* All members, at most max bytes (ERR_LIMIT beyond), into the arena. */
int pprof_gunzip(const void *bytes, size_t n, size_t max, struct arena *a, struct view *ret, struct err *e) MUST_USE;

/* Appends the message, not compressed. The profile must pass profile_check (which is called). */
int pprof_encode(const struct profile *p, struct buf *out, struct err *e) MUST_USE;
/* Appends one gzip member holding raw; level 1..12, 0 = the default. */
int pprof_gzip(struct view raw, int level, struct buf *out, struct err *e) MUST_USE;
/* Both: what is served as a .pb.gz. */
int pprof_encode_gz(const struct profile *p, struct buf *out, struct err *e) MUST_USE;

/* Whether two profiles may be merged: the same period type and the same sample types in the same order; else
 * ERR_BAD_DATA says what differs. */
int pprof_compatible(const struct profile *a, const struct profile *b, struct err *e) MUST_USE;
/* Sets out's header to that of a merge of n profiles: period = the largest, time = the earliest one given, duration = the sum (of
 * measured time; not of covered time), comments each once, default type and doc_url = the first one given. Period type, drop_frames
 * and keep_frames are the first profile's. out holds the merged samples already, or none; strings are copied into it. */
int pprof_merge_header(const struct profile *const *in, size_t n, struct profile *out, struct err *e) MUST_USE;

#endif
