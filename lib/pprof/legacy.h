/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of what was served as a profile before profile.proto was: the formats that google/pprof reads, with what it makes of
 * them, and folded text. Each fills a draft and returns its rc. Private to lib/pprof. */
#ifndef PYRRHA_PPROF_LEGACY_H
#define PYRRHA_PPROF_LEGACY_H

#include "pprof/draft.h"

/* Detects and reads formats other than profile.proto: 0 and *out filled; -ERR_NOT_FOUND (e untouched): unknown format; else an error
 * that names the format or what is malformed. out has only its arena, which may hold the bytes. */
int pprof_decode_other(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e) MUST_USE;

/* gperftools' CPU profile: words. Whether it begins so, and then what is needed to read it. */
struct cpu_words {
	unsigned size; /* bytes of a word: 4 or 8 */
	bool big;      /* endian */
	bool java;
	uint64_t period_us;
};
bool legacy_is_cpu(struct view bytes, struct cpu_words *ret);
int legacy_cpu(struct draft *d, struct view bytes, const struct cpu_words *w);
/* Each of these: whether text begins as one, and then the reader. */
bool legacy_is_heap(struct view text);
int legacy_heap(struct draft *d);
bool legacy_is_contention(struct view text);
int legacy_contention(struct draft *d);
bool legacy_is_count(struct view text);
int legacy_count(struct draft *d);
bool legacy_is_threads(struct view text);
int legacy_threads(struct draft *d);
/* "--- heapz 1 ---" and "--- contentionz 1 ---" of Java. */
bool legacy_is_java(struct view text);
int legacy_java(struct draft *d);
/* Java's names of addresses, to the end of the text; then no location has an address. */
int legacy_java_locations(struct draft *d);

/* On to the memory map, if there is one; `line` was read last. Then reads it. */
int legacy_other_sections(struct draft *d, struct view line);
/* The rest of the text is a memory map: gives each location its mapping. */
int legacy_maps(struct draft *d);
bool legacy_is_maps_head(struct view line);
/* After the memory map was read: of a leaf that comes twice, once exact and once as a return address, the second goes. */
void legacy_drop_doubles(struct draft *d);

/* Folded text: is it? Every line "FRAME;FRAME NUMBER"; unless it was asked for, one of them with a semicolon. */
bool folded_is(struct view text, bool asked);
int folded_read(struct draft *d);

/* ---- the words of a line; each moves *v behind what it read, and leaves it if it is not there ---- */

static inline bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}
static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}
/* Its value, or -1. */
int scan_hex_digit(char c);
void scan_blanks(struct view *v);
bool scan_word(struct view *v, const char *word);
bool scan_i64(struct view *v, int64_t *ret);
/* Hexadecimal, with or without 0x. */
bool scan_hex(struct view *v, uint64_t *ret);
struct view view_trim(struct view v);
/* Empty, or a comment. */
bool scan_is_idle(struct view line);
/* The frames of the last sample: all 0x... up to the first byte that is neither hexadecimal nor blank. Subtracts one from each except
 * the first `exact`: a return address is behind its call. */
void scan_addresses(struct draft *d, struct view v, uint32_t exact);

/* Scales what a sampler with that average distance saw of objects to the real number. */
bool legacy_unsample(struct draft *d, int64_t *count, int64_t *size, int64_t rate);
/* v * by, or a failure. */
int64_t legacy_times(struct draft *d, int64_t v, int64_t by);
/* Rounds a float as google/pprof does, or fails. */
int64_t legacy_whole(struct draft *d, double v);

#endif
