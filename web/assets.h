/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page, in the binary (web/embed.sh makes the table). */
#ifndef PYRRHA_WEB_ASSETS_H
#define PYRRHA_WEB_ASSETS_H

struct web_asset {
	const char *name;        /* "app.js"; NULL ends the table */
	const char *start, *end;
};

extern const struct web_asset web_assets[];

#endif
