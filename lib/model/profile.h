/* SPDX-License-Identifier: Apache-2.0 */
/* A profile in its flat form: what profile.proto says, decoded, indices instead of ids. The codec fills and reads
 * it, the sink takes it. No interning, no I/O. All memory is in the profile's arena. Strings may borrow the
 * decompressed bytes, which then must outlive the profile (the decoder puts them into the same arena).
 *
 * The form that is merged and queried is a stackvec over symbols (symbols.h, stackvec.h). */
#ifndef PYRRHA_MODEL_PROFILE_H
#define PYRRHA_MODEL_PROFILE_H

#include "base/arena.h"
#include "base/err.h"

/* Indices into strings[] are called *_str; strings[0] is "". */
struct profile_value_type {
	uint32_t type_str, unit_str;
};

struct profile_mapping {
	uint64_t start, limit, offset; /* addresses and file offset, bytes */
	uint32_t file_str, build_id_str;
	bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct profile_function {
	uint32_t name_str, system_name_str, filename_str;
	int64_t start_line;
};

/* function: index + 1, 0 = none. */
struct profile_line {
	uint32_t function;
	int64_t line, column;
};

/* lines[0] is the innermost inlined call, the last the physical frame. mapping: index + 1, 0 = none. */
struct profile_location {
	uint64_t address;
	uint32_t mapping;
	uint32_t first_line, n_lines; /* in lines[] */
	bool is_folded;
};

/* A sample's label: a string, or a number with a unit. */
struct profile_label {
	uint32_t key_str;
	uint32_t str;      /* index of the string value; only if !is_num */
	bool is_num;
	uint32_t unit_str; /* of num */
	int64_t num;
};

/* location 0 of a sample is its leaf; values are values[i * n_sample_types ...]. */
struct profile_sample {
	uint32_t first_location, n_locations; /* in stack[], which holds indices of locations[] */
	uint32_t first_label, n_labels;       /* in labels[] */
};

struct profile {
	struct arena arena;
	struct view *strings;
	struct profile_value_type *sample_types;
	struct profile_mapping *mappings; /* [0] is the main binary */
	struct profile_function *functions;
	struct profile_line *lines;
	struct profile_location *locations;
	uint32_t *stack;
	struct profile_label *labels;
	struct profile_sample *samples;
	int64_t *values;
	uint32_t *comments; /* strings */
	uint32_t n_strings, n_sample_types, n_mappings, n_functions, n_lines, n_locations, n_stack, n_labels, n_samples,
		n_comments;
	struct profile_value_type period_type;
	int64_t period;
	int64_t time_ns;     /* Unix, 0 = not said */
	int64_t duration_ns; /* 0 = not said */
	uint32_t default_sample_type_str, drop_frames_str, keep_frames_str, doc_url_str;
};

/* A profile that says it measured for longer than this, or for less than nothing, is not believed. */
#define PROFILE_MAX_DURATION_NS (INT64_C(366) * 86400 * 1000000000)
static inline bool profile_duration_is_sane(int64_t duration_ns)
{
	return duration_ns >= 0 && duration_ns <= PROFILE_MAX_DURATION_NS;
}

/* max_bytes caps the arena; 0 = none. */
void profile_init(struct profile *p, size_t max_bytes);
/* Empty again, keeping memory for the next one. */
void profile_reset(struct profile *p);
void profile_release(struct profile *p);

static inline struct view profile_str(const struct profile *p, uint32_t i)
{
	return i < p->n_strings ? p->strings[i] : (struct view){ "", 0 };
}

/* Index of the sample type shown by default: default_sample_type, else the last; -1 if there is none. */
int profile_default_type(const struct profile *p);
/* Index of the type of that name, or -1. */
int profile_type_index(const struct profile *p, struct view type);
/* The unit of a number label: its own or, if it has none, bytes for "request" and "alignment" and else the key itself.
 * Empty for strings. */
struct view profile_label_unit(const struct profile *p, const struct profile_label *l);
/* The profile of a whole host has no main binary. It gets a first mapping without a name, so that readers do not take
 * the next one for it. False past the arena's cap. */
bool profile_without_main(struct profile *p);
/* Every index in range, ids unique: what a decoder guarantees; for tests and for profiles made by hand. */
int profile_check(const struct profile *p, struct err *e) MUST_USE;

#endif
