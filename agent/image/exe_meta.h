/* SPDX-License-Identifier: Apache-2.0 */
/* What an executable says about its build: compiler, language and version. Read from the file when first asked for and kept per file.
 * Drain thread only. */
#ifndef PYRRHA_AGENT_EXE_META_H
#define PYRRHA_AGENT_EXE_META_H

#include "agent/image/image.h"

#define EXE_TEXT_MAX 48

struct exe_meta {
	char compiler[EXE_TEXT_MAX]; /* "GCC 12.2.0", "Clang 14.0.6", "Go 1.19.8", "Rust 1.63.0"; "" = not known */
	char language[16];           /* "go", "rust", "c", "c++", "java", "node", "python", ...; "" = not known */
	char version[EXE_TEXT_MAX];  /* of the language's runtime or compiler; "" = not known */
	bool jit;                    /* a runtime that makes code while it runs */
};

struct exe_metas;

struct exe_metas *exe_metas_new(void);
void exe_metas_free(struct exe_metas *x);
/* Borrowed until the next call; never NULL. */
const struct exe_meta *exe_metas_get(struct exe_metas *x, struct image *im);

/* For tests: from the text of .comment (strings, each NUL-terminated), and from an executable's path. */
void exe_meta_of_comment(struct view comment, struct exe_meta *ret);
bool exe_meta_of_path(struct view path, struct exe_meta *ret);
/* From the bytes of a .go.buildinfo section. */
bool exe_meta_of_go(struct view buildinfo, struct exe_meta *ret);

#endif
