/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that reads the symbols of one image after the other, the smallest file first. A large one takes a second and more, and
 * profiles are meanwhile built without its names. (Lines and inlined calls come after that, from debug_reader.h.) */
#ifndef PYRRHA_AGENT_SYMBOL_READER_H
#define PYRRHA_AGENT_SYMBOL_READER_H

#include "agent/go/gopclntab.h"
#include "agent/image/image.h"
#include "symbols/symtab.h"

struct symbol_reader;

/* The result for an image. */
struct symbols_found {
	int fd;                      /* the descriptor that was given, the taker's now; -1 = none */
	bool is_go;
	struct gopclntab go;         /* if is_go; reads fd */
	struct symtab symbols;       /* fd -1 = none */
};

/* The reader thread calls this once, before it reads its first image. */
typedef void symbols_begin_fn(void *arg);
/* Called by the thread when it is done with an image. Takes what was found. token: as in symbol_reader_ask. */
typedef void symbols_done_fn(void *arg, void *token, struct symbols_found *found);

/* NULL with an error. */
struct symbol_reader *symbol_reader_new(symbols_begin_fn *begin, symbols_done_fn *done, void *arg, struct err *e);
/* Ends the thread, after what it reads just now. Waiting images are forgotten: done is not called for them. */
void symbol_reader_free(struct symbol_reader *r);
/* Any thread; returns at once. Takes fd (-1: unavailable, which is a result as well); the image must live until done is called,
 * once. */
void symbol_reader_ask(struct symbol_reader *r, struct image *im, int fd, void *token);

#endif
