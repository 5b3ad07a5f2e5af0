/* SPDX-License-Identifier: Apache-2.0 */
/* The section `web` of the server's file: where a frame of the page leads to.
 *
 *	web:
 *	  source_links:
 *	  - name: GitHub
 *	    match: 'github\.com/(?P<repo>[^/]+/[^/@]+)@(?P<version>v[^/]+)/(?P<rest>.+)'
 *	    url: 'https://github.com/{repo}/blob/{version}/{rest}#L{line}'
 *	  - {name: editor, match: '/src/.+', url: 'vscode://file{path}:{line}'}
 *
 * Values from a profile are hostile: they are percent-encoded, they cannot choose scheme or host, and they cannot leave a path by
 * "..". Only schemes that open a page or an editor are taken. */
#ifndef PYRRHA_WEB_SOURCE_LINKS_H
#define PYRRHA_WEB_SOURCE_LINKS_H

#include "base/buf.h"
#include "config/config.h"

struct source_links;

struct source_frame {
	struct view file, function, binary;
	uint64_t line; /* 0: not known */
};

/* For the file; warn may be NULL. Returns owned: a reference. */
int source_links_parse(struct source_links **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text), void *warn_arg,
		       struct err *e) MUST_USE;
struct source_links *source_links_ref(struct source_links *l);
void source_links_unref(struct source_links *l); /* NULL does nothing */
/* The output of --config.check. */
void source_links_check(const struct source_links *l, struct buf *out);
/* Appends [{"name","url"},...], a JSON array of the matching links; l may be NULL. */
void source_links_json(const struct source_links *l, const struct source_frame *f, struct buf *out);

#endif
