/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the byte stream of an API server: input in pieces of any size, output whole objects. In memory is at most one object, of at
 * most KUBE_OBJECT_MAX bytes.
 *
 *	a list    {"kind":"PodList","metadata":{...},"items":[{...},{...}]}    members in any order
 *	a watch   {"type":"ADDED","object":{...}}\n{"type":"BOOKMARK", ...     a line per event */
#ifndef PYRRHA_KUBE_KUBE_SCAN_H
#define PYRRHA_KUBE_KUBE_SCAN_H

#include <jansson.h>

#include "base/buf.h"

/* etcd keeps objects below 1.5 MB; as JSON they are larger. */
#define KUBE_OBJECT_MAX ((size_t)8 << 20)
#define KUBE_VERSION_LEN 128

/* The state of a list scanner between two bytes. */
enum kube_scan_at {
	SCAN_START, SCAN_FIRST_KEY, SCAN_KEY, SCAN_IN_KEY, SCAN_COLON, SCAN_VALUE, SCAN_IN_VALUE, SCAN_AFTER_VALUE,
	SCAN_FIRST_ITEM, SCAN_ITEM, SCAN_IN_ITEM, SCAN_AFTER_ITEM, SCAN_DONE
};

struct kube_scan {
	/* Called for each item; a negative value ends the scan with the err it was given. */
	int (*item)(void *arg, const json_t *object, struct err *e);
	void *arg;
	/* Results so far: */
	size_t items;
	size_t left_out;             /* items that cannot be kept: why, in `why` */
	const char *why;
	bool has_items;              /* the member is there */
	char version[KUBE_VERSION_LEN];
	struct buf more;             /* the token of the next page; empty: the last one */
	/* The scanner's own: */
	enum kube_scan_at at;
	char key[16];
	size_t key_len;              /* more than fits: some other key */
	unsigned depth;              /* of the value that is being read */
	bool in_string, escaped, keep;
	struct buf value;
};

/* Zero s and set item and arg first. 0, or negative: malformed, or what `item` gave. */
int kube_scan_put(struct kube_scan *s, const char *p, size_t n, struct err *e) MUST_USE;
/* After the last byte: whether it was complete, and a list. */
int kube_scan_end(const struct kube_scan *s, struct err *e) MUST_USE;
void kube_scan_release(struct kube_scan *s);

/* Lines, put together. line: without its end, valid during the call; false ends it. Empty lines are passed over. too_long: a line
 * of more than KUBE_OBJECT_MAX was passed over. */
struct kube_lines {
	bool (*line)(void *arg, struct view line);
	void (*too_long)(void *arg); /* may be NULL */
	void *arg;
	struct buf part;             /* of an incomplete line */
};

/* False: `line` returned false. */
bool kube_lines_put(struct kube_lines *l, const char *p, size_t n);
void kube_lines_release(struct kube_lines *l);

enum kube_event_type { KUBE_PUT, KUBE_DEL, KUBE_BOOKMARK, KUBE_ERROR };

struct kube_event {
	json_t *root;                /* owned; the fields below point into it */
	enum kube_event_type type;
	const json_t *object;        /* an object; of KUBE_ERROR a Status, or NULL */
	const char *version;         /* "" = not said */
};

/* ERR_LIMIT: JSON that cannot be kept; a list would leave its object out, and e says why. */
int kube_event_read(struct kube_event *ret, struct view line, struct err *e) MUST_USE;
void kube_event_release(struct kube_event *ev);

#endif
