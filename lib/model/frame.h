/* SPDX-License-Identifier: Apache-2.0 */
/* How a frame is called. A frame is one line of a location (an inlined call has its own), or a location without
 * lines. The latter has no known function, and its name is binary+0xoffset, the offset into the file. */
#ifndef PYRRHA_MODEL_FRAME_H
#define PYRRHA_MODEL_FRAME_H

#include "base/buf.h"
#include "model/symbols.h"

/* How many frames a location is. */
static inline uint32_t frame_count(const struct sym_location *l)
{
	return l->n_lines ? l->n_lines : 1;
}

/* The file name of the location's mapping without its directory; empty if there is none. */
struct view frame_binary(const struct symbols *s, const struct sym_location *l);
/* binary+0xoffset; 0xaddress without a binary. */
void frame_address_name(const struct symbols *s, const struct sym_location *l, struct buf *out);
/* The name of line i, as every readout shows it: the function's as stored; for a location without lines, and for
 * a function without a name, the address. Borrowed from s, or from tmp, which is written only for an address. */
struct view frame_name(const struct symbols *s, const struct sym_location *l, uint32_t i, struct buf *tmp);
/* The function of line i, or NULL: no lines, or none known for this line. */
const struct sym_function *frame_function(const struct symbols *s, const struct sym_location *l, uint32_t i);
/* The source file of line i, empty if it is not known, and its number in it, 0 likewise. Borrowed from s. */
struct view frame_file(const struct symbols *s, const struct sym_location *l, uint32_t i);
static inline int64_t frame_line(const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	return i < l->n_lines ? symbols_get_line(s, l, i)->line : 0;
}
/* A function's name without its argument list and a leading dot, as google/pprof simplifies it. */
struct view frame_simple_name(struct view function);
/* "encoding/json" of "encoding/json.(*Decoder).Decode", "std" of "std::sort"; the binary if the name has none. Functions of language runtimes
 * ([python], [v8], [hotspot]) are in packages of their own kind: "numpy" and "express" by their file, "java.util" by the name. web/ui/src/flame/colors.ts
 * has the same rules. */
struct view frame_package(struct view function, struct view binary, struct view file);

#endif
