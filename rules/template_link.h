/* SPDX-License-Identifier: Apache-2.0 */
/* Links to our page. Its address says what it looks at (web/ui/src/state.ts): q or g0.expr, from and to, at: an instant, or a
 * and b: an interval; view. Seconds since 1970. */
#ifndef PYRRHA_RULES_TEMPLATE_LINK_H
#define PYRRHA_RULES_TEMPLATE_LINK_H

#include "base/buf.h"

/* "&from=...&to=...&at=...": the graph of an hour that ends at t_ms, and that instant selected. */
void template_put_time(int64_t t_ms, struct buf *out);

#endif
