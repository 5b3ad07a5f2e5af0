/* SPDX-License-Identifier: Apache-2.0 */
/* Texts made from texts: escaping and case, as Go and its libraries do it. */
#ifndef PYRRHA_RULES_TEMPLATE_TEXT_H
#define PYRRHA_RULES_TEMPLATE_TEXT_H

#include "base/buf.h"

void ttext_html(struct view v, struct buf *out);
void ttext_js(struct view v, struct buf *out);
/* url.QueryEscape. */
void ttext_query(struct view v, struct buf *out);
void ttext_upper(struct view v, struct buf *out);
void ttext_lower(struct view v, struct buf *out);
/* The first letter of each word large, the others as they are. */
void ttext_title(struct view v, struct buf *out);
/* "host:port", "[host]:port"; false: neither. */
bool ttext_split_port(struct view v, struct view *ret_host, struct view *ret_port);
/* Whether it is an address, v4 or v6. */
bool ttext_is_ip(struct view v);

#endif
