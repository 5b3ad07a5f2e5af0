/* SPDX-License-Identifier: Apache-2.0 */
/* Label sets: sorted by name (byte order), names unique, no empty values. A struct labels is a value that
 * borrows its array and its strings; functions that return one say who owns them. */
#ifndef PYRRHA_MODEL_LABELS_H
#define PYRRHA_MODEL_LABELS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"

#define LABEL_NAME "__name__"

struct label {
	struct view name, value;
};

struct labels {
	const struct label *v;
	size_t n;
};

/* The value, or an empty view (ptr not NULL) if there is no such label. */
struct view labels_get(struct labels l, struct view name);
bool labels_eq(struct labels a, struct labels b);
/* As Prometheus's labels.Compare: name, value, name, value ..., then length. */
int labels_cmp(struct labels a, struct labels b);
uint64_t labels_hash(struct labels l); /* for maps: another number in every process */
uint64_t labels_hash_stable(struct labels l); /* for what is stored, or must agree between servers */
/* A copy in one malloc; free() it. The views inside point into the same block. Returns owned. */
struct labels *labels_dup(struct labels l) MUST_USE;
/* A copy in the arena; v is NULL past its cap (n > 0). */
struct labels labels_copy(struct arena *a, struct labels l);
/* name{a="b"}: `{}` when empty, names that need it quoted, values escaped as PromQL strings. */
void labels_format(struct labels l, struct buf *out);
/* A PromQL string in double quotes. */
void labels_quote(struct buf *out, struct view v);
/* {"a":"b"} */
void labels_json(struct labels l, struct buf *out);
/* [a-zA-Z_][a-zA-Z0-9_]*, the name that needs no quotes; metric names may have colons too. */
bool label_name_plain(struct view name);
bool metric_name_plain(struct view name);

/* Builds a label set: set (an empty value deletes), then finish. Borrows the strings it is given. */
struct labels_builder {
	VEC(struct label) l;
};
void labels_builder_init(struct labels_builder *b, struct labels from);
void labels_builder_free(struct labels_builder *b);
void labels_builder_set(struct labels_builder *b, struct view name, struct view value);
void labels_builder_del(struct labels_builder *b, struct view name);
struct view labels_builder_get(const struct labels_builder *b, struct view name);
/* Sorted; borrows the builder, valid until it changes. */
struct labels labels_builder_finish(struct labels_builder *b);

#endif
